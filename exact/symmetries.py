"""Symmetries of the unit cube by their definition: points are moved, and kernels averaged over all pairs of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations, product

import numpy as np
from numpy.typing import ArrayLike

from .moments import Array

__all__ = ["averaged_kernel", "cube_images"]


def cube_images(
    points: ArrayLike,
    *,
    reflect: Sequence[int] = (),
    swap: Sequence[int] = (),
    shift: Sequence[int] = (),
    n_shifts: int = 8,
) -> list[Array]:
    """All images of points (n, d) of the unit cube under a group, the points themselves first.

    Dimensions `reflect` may be mirrored, `swap` exchanged, `shift` moved by multiples of 1/n_shifts around a circle.

    Examples
    --------
    >>> [image.tolist() for image in cube_images([[0.25, 0.5]], reflect=[0])]
    [[[0.25, 0.5]], [[0.75, 0.5]]]
    """
    x = np.asarray(points, dtype=np.float64)
    found = []
    for order in permutations(swap):
        for mirrored in product((False, True), repeat=len(reflect)):
            for steps in product(range(n_shifts), repeat=len(shift)):
                image = x.copy()
                image[:, list(swap)] = x[:, list(order)]
                for j, turned in zip(reflect, mirrored, strict=True):
                    if turned:
                        image[:, j] = 1 - image[:, j]
                for j, step in zip(shift, steps, strict=True):
                    image[:, j] = (image[:, j] + step / n_shifts) % 1.0
                found.append(image)
    return found


def averaged_kernel(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], kernel: Callable[[Array, Array], float]
) -> float:
    """``Σ_g Σ_h k(g x, h y) / |G|²`` for the images of x and those of y: the kernel averaged over the group.

    Examples
    --------
    >>> averaged_kernel([[1.0], [-1.0]], [[2.0], [-2.0]], lambda x, y: float(x @ y))
    0.0
    """
    values = [kernel(np.asarray(x), np.asarray(y)) for x in first for y in second]
    return float(np.mean(values))
