r"""Bags of nearly equal size as one array, each in coordinates of its own: mean zero, covariance the identity.

What is fitted there does not depend on units, offsets or (for whole covariance matrices) any invertible linear map of
the points, and monomials of such coordinates lose no digits.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags

__all__ = ["Whitened", "monomials", "padded_length", "pairs", "whiten"]

Array = NDArray[Any]

_LEAST_VARIANCE = 1e-12  # of a direction, as a share of that of coordinates: below it is rounding
_LEAST_WIDTH = 4 * np.finfo(float).eps  # of a coordinate, as a share of its largest value: below it is rounding


class Whitened(NamedTuple):
    """Bags of nearly equal size, sorted and padded, in coordinates of their own.

    Attributes
    ----------
    points : ndarray of shape (n_bags, length, n_dims)
        Of mean zero; their covariance is the identity (``"full"``) or has ones on its diagonal (``"diag"``). Zero where
        a bag does not vary, and in the padding.
    weights : ndarray of shape (n_bags, length)
        Of sum n, the number of points of the bag; zero in the padding.
    features : ndarray of shape (n_bags, n_monomials, length)
        φ.
    log_det : ndarray of shape (n_bags,)
        Log of dz/dx: what a density of z has to be multiplied by.
    n_distinct : ndarray of shape (n_bags,) of int
        Number of different points.
    """

    points: Array
    weights: Array
    features: Array
    log_det: Array
    n_distinct: Array


def padded_length(sizes: Array) -> Array:
    """The length of the array that a bag goes into: its own size, rounded up by less than an eighth.

    Examples
    --------
    >>> padded_length(np.array([1, 15, 17, 200, 1001]))
    array([   1,   15,   18,  208, 1024])
    """
    grain = np.int64(1) << np.maximum(np.frexp(sizes)[1] - 4, 0)
    return np.asarray(-(-sizes // grain) * grain)


def whiten(bags: Bags, covariance: str) -> Whitened:
    """Sort the points of each bag and put them in coordinates of their own.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero, and all of one :func:`padded_length`.
    covariance : {"full", "diag"}
        Whether coordinates are turned, or only shifted and scaled.

    Examples
    --------
    >>> found = whiten(Bags.from_arrays([[7.0, 3.0]]), "full")
    >>> found.points[0, :, 0], found.log_det
    (array([-1.,  1.]), array([-0.69314718]))
    """
    sizes, shares = bags.sizes, bags.shares()
    steps = np.arange(int(padded_length(sizes.max())))
    present = steps < sizes[:, None]
    places = bags.offsets[:-1, None] + np.where(present, steps, 0)
    x = bags.points[places].astype(np.float64)
    mass = present / sizes[:, None] if shares is None else shares[places] * present
    # Whatever order the points came in, they are looked at in this one; the padding stands last.
    order = np.lexsort((*np.moveaxis(x, 2, 0)[::-1], ~present), axis=1)
    x, mass = np.take_along_axis(x, order[:, :, None], axis=1), np.take_along_axis(mass, order, axis=1)
    n_distinct = 1 + np.count_nonzero((x[:, 1:] != x[:, :-1]).any(axis=2) & present[:, 1:], axis=1)

    powers = np.frexp(np.abs(x).max(axis=1, keepdims=True))[1]
    x = np.ldexp(x, -powers)  # so that no difference overflows
    x -= x[:, :1].copy()
    x -= np.matmul(mass[:, None, :], x)
    x *= present[:, :, None]
    width = np.abs(x).max(axis=1, keepdims=True)
    varies = width > _LEAST_WIDTH
    x /= np.where(varies, width, np.inf)  # so that no square vanishes
    deviation = np.where(varies, np.sqrt(np.matmul(mass[:, None, :], x * x)), 1.0)
    deviation[deviation == 0] = 1.0  # what varies has no mass to speak of
    x /= deviation
    log_det = -np.where(varies, np.log(deviation * np.where(varies, width, 1.0)) + powers * np.log(2), 0.0).sum((1, 2))
    if covariance == "full" and bags.n_dims > 1:
        values, axes = np.linalg.eigh(np.matmul((x * mass[:, :, None]).swapaxes(1, 2), x))
        varies = values > _LEAST_VARIANCE
        root = np.sqrt(np.where(varies, values, 1.0))
        x = np.matmul(x, axes * np.where(varies, 1 / root, 0.0)[:, None, :])
        log_det -= np.log(root).sum(axis=1)
    return Whitened(x, mass * sizes[:, None], monomials(x, covariance), log_det, n_distinct)


def monomials(z: Array, covariance: str) -> Array:
    """φ(z) = (1, z_i, z_i z_j with i <= j), or with i = j alone, ndarray of shape (n_bags, n_monomials, length)."""
    z = z.swapaxes(1, 2)
    i, j = pairs(z.shape[1], covariance)
    return np.concatenate([np.ones_like(z[:, :1]), z, z[:, i] * z[:, j]], axis=1)


@cache
def pairs(n_dims: int, covariance: str) -> tuple[Array, Array]:
    """Which products are taken: (i, j) with i <= j, or (i, i)."""
    return np.triu_indices(n_dims) if covariance == "full" else (np.arange(n_dims), np.arange(n_dims))
