"""What divergences take: one or two groups of bags with continuous columns of one width, and units for their points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags import Bags, as_bags, concat
from ..compute.arrays import Array

_FARTHEST = 8e307  # differences do not overflow


def number_or_nan(text: str) -> float:
    """The number that a text says, such as the exponent in a name; NaN if it says none.

    Examples
    --------
    >>> number_or_nan("0.9"), number_or_nan("nine")
    (0.9, nan)
    """
    try:
        return float(text)
    except ValueError:
        return float("nan")


def read_bags(owner: str, name: str, X: Any) -> Bags:
    """Bags without points of weight zero; categorical columns are refused.

    Examples
    --------
    >>> read_bags("mmd", "X", Bags([[0], [1]], [0, 2], categories={0: ["f", "m"]}))
    Traceback (most recent call last):
    ...
    ValueError: mmd(X=...): must have continuous columns only, got the categorical columns ['x0']; use HDDEmbedding...
    """
    bags = as_bags(X)
    if bags.categories is not None:
        raise ValueError(
            f"{owner}({name}=...): must have continuous columns only, got the categorical columns "
            f"{list(bags.category_labels)}; use HDDEmbedding, which takes them, or leave them out"
        )
    return bags.drop_weightless()


def read_groups(owner: str, X: Any, Y: Any) -> list[Bags]:
    """``[X]`` or ``[X, Y]`` as bags of one width, see :func:`read_bags`; Y may be None.

    Examples
    --------
    >>> read_groups("mmd", [[1.0]], [[[1.0, 2.0]]])
    Traceback (most recent call last):
    ...
    ValueError: mmd(Y=...): must have points of 1 dimension(s), as X, got 2; pass bags with the same coordinates
    """
    groups = [read_bags(owner, "X", X)] + ([] if Y is None else [read_bags(owner, "Y", Y)])
    check_width(owner, "Y", groups[-1].n_dims, "X", groups[0].n_dims)
    return groups


def check_width(owner: str, name: str, n_dims: int, other: str, wanted: int) -> None:
    """Refuse an argument whose points have another number of coordinates than those of another argument.

    Examples
    --------
    >>> check_width("mmd", "Y", 2, "X", 2)
    """
    if n_dims != wanted:
        raise ValueError(
            f"{owner}({name}=...): must have points of {wanted} dimension(s), as {other}, got {n_dims}; pass bags with "
            "the same coordinates"
        )


def refuse_single(owner: str, groups: list[Bags], remedy: str) -> None:
    """Refuse bags of one point, by name.

    Examples
    --------
    >>> refuse_single("mmd", [Bags.from_arrays([[1.0, 2.0]])], "leave it out")
    """
    for bags, name in zip(groups, "XY", strict=False):
        if bags.sizes.min() < 2:
            raise ValueError(
                f"{owner}({name}=...): must have at least 2 points of positive weight in each bag, got 1 in "
                f"{bags.name_of(int(np.argmin(bags.sizes)))}; {remedy}"
            )


def together(groups: list[Bags]) -> Bags:
    """All bags of the groups, without ids and names.

    Examples
    --------
    >>> together([Bags.from_arrays([[1.0]], ids=["a"]), Bags.from_arrays([[2.0]], ids=["a"])]).n_bags
    2
    """
    return concat([bags.replace(ids=None, columns=None) for bags in groups])


def in_units(groups: list[Bags], centre: Array, units: float | Array) -> list[Bags]:
    """The bags relative to a point and in given units, where overflow is merely far.

    Examples
    --------
    >>> in_units([Bags.from_arrays([[1.0, 1e308]])], np.array([3.0]), 0.25)[0].points.tolist()
    [[-8.0], [8e+307]]
    """
    with np.errstate(over="ignore"):  # so far away that no kernel reaches there
        return [bags.replace(points=np.clip((bags.points - centre) / units, -_FARTHEST, _FARTHEST)) for bags in groups]
