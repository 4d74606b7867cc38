r"""Bags of nearly equal size as one array, and means, deviations and covariances of bags by matrix products of those.

**Precision.** Points are taken relative to the first of their bag before anything is summed, in float64, and to their
mean before anything is squared: a large offset costs no digits, and a constant coordinate has a deviation of exactly 0.
Where squares come near the smallest or largest numbers, the coordinates of that bag are multiplied by powers of two
first, and what comes out by their inverses: no digit changes, and nothing vanishes or overflows on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .container import Bags

__all__ = ["Group", "moments", "padded_groups", "pool"]

Array = NDArray[Any]

_SLACK = 1.25  # of bags in one array the longest has at most so many times the points of the shortest
_MOST_HALVINGS = 1000  # 2^1000 is finite, and the square of 2^1000 times the smallest number is not zero


class Group(NamedTuple):
    """Bags of nearly equal size, padded to the length of the longest.

    Attributes
    ----------
    bags : ndarray of shape (n_group,)
        Their positions.
    points : ndarray of shape (n_group, longest, n_dims)
        Each relative to the first point of its bag; zero where a bag has no more points.
    shares : ndarray of shape (n_group, longest), or None
        Weights that sum to one in each bag; zero where it has no more points. None: equal weights.
    present : ndarray of shape (n_group, longest) of bool, or None
        Where there are points; None: everywhere.
    """

    bags: Array
    points: Array
    shares: Array | None
    present: Array | None


def padded_groups(bags: Bags, dtype: Any) -> Iterator[Group]:
    """Bags in groups of nearly equal size, as rectangular arrays: at most a fifth of any row is padding.

    Parameters
    ----------
    bags : Bags
        The bags.
    dtype : dtype
        Of the points that come out; differences are taken in it.

    Yields
    ------
    Group
        There are at most log(longest / shortest) / log(1.25) + 1 of them, however many bags.

    Examples
    --------
    >>> bags = Bags.from_arrays([[1.0, 2.0], [5.0], [7.0, 8.0]])
    >>> [(group.bags.tolist(), group.points[:, :, 0].tolist()) for group in padded_groups(bags, np.float64)]
    [([1], [[0.0]]), ([0, 2], [[0.0, 1.0], [0.0, 1.0]])]
    """
    sizes, starts = bags.sizes, bags.offsets[:-1]
    order = np.argsort(sizes, kind="stable")
    increasing, shares = sizes[order], bags.shares()
    begin = 0
    while begin < len(order):
        end = int(np.searchsorted(increasing, _SLACK * increasing[begin], side="right"))
        rows, lengths = order[begin:end], increasing[begin:end]
        steps = np.arange(lengths[-1])
        # Padding repeats the first point of the bag: the difference to it is zero.
        present = None if lengths[0] == lengths[-1] else steps < lengths[:, None]
        places = starts[rows, None] + (steps if present is None else np.where(present, steps, 0))
        points = bags.points[places].astype(dtype, copy=False)
        points -= points[:, :1].copy()
        weights = None if shares is None else shares[places]
        if weights is not None and present is not None:
            weights *= present
        yield Group(rows, points, weights, present)
        begin = end


def _exponents(largest: Array) -> Array:
    """The least e with x < 2^e for each x >= 0, ndarray of int; 0 for 0, and bounded so that 2^-e is finite."""
    return np.clip(np.frexp(largest)[1], -_MOST_HALVINGS, _MOST_HALVINGS)


def moments(bags: Bags, second: str | None = None, units: Array | None = None) -> tuple[Array, Array | None]:
    """Weighted means of bags, and deviations from them or covariances.

    Parameters
    ----------
    bags : Bags
        The bags.
    second : {None, "deviation", "covariance"}
        What to compute besides the means.
    units : ndarray of shape (n_dims,), optional
        By which coordinates are divided in deviations and covariances, before anything is squared; not in the means.

    Returns
    -------
    means : ndarray of shape (n_bags, n_dims)
        float64.
    seconds : ndarray of shape (n_bags, n_dims) or (n_bags, n_dims, n_dims), or None
        Squares are divided by the sum of the weights, not by n - 1. Products of the points of float32 bags are taken in
        float32, after centring in float64; deviations are float64.

    Examples
    --------
    >>> means, covariances = moments(Bags.from_arrays([[[0.0, 0.0], [2.0, 4.0]]]), "covariance")
    >>> means, covariances
    (array([[1., 2.]]), array([[[1., 2.],
            [2., 4.]]]))
    """
    n_dims = bags.n_dims
    means = bags.points[bags.offsets[:-1]].astype(np.float64)
    seconds: Array | None = None
    if second == "deviation":
        seconds = np.empty((bags.n_bags, n_dims))
    elif second == "covariance":
        seconds = np.empty((bags.n_bags, n_dims, n_dims), bags.dtype)
    for rows, points, shares, present in padded_groups(bags, np.float64):
        if shares is None:
            length = points.shape[1]
            shares = np.full((1, length), 1 / length) if present is None else present / present.sum(axis=1)[:, None]
        mean = np.matmul(shares[:, None, :], points)
        means[rows] += mean[:, 0]
        if seconds is None:
            continue
        points -= mean
        if units is not None:
            points /= units
        squares = _variances if second == "deviation" else _covariances
        found = squares(points, shares, seconds.dtype)
        diagonal = found if second == "deviation" else np.diagonal(found, axis1=1, axis2=2)
        if second == "deviation":
            found = np.sqrt(found)
        extremes = np.finfo(seconds.dtype)
        safe = (diagonal > extremes.tiny**0.75) & (diagonal < extremes.max**0.75)
        again = np.flatnonzero(~safe.all(axis=1))
        if len(again) > 0:
            some = points[again]
            powers = _exponents(np.maximum(some.max(axis=1), -some.min(axis=1)))
            some *= np.ldexp(1.0, -powers)[:, None, :]
            scaled = squares(some, shares if len(shares) == 1 else shares[again], seconds.dtype)
            if second == "deviation":
                found[again] = np.ldexp(np.sqrt(scaled), powers)
            else:
                found[again] = np.ldexp(scaled, powers[:, :, None] + powers[:, None, :])
        seconds[rows] = found
    return means, seconds


def _variances(centred: Array, shares: Array, dtype: Any) -> Array:
    """Weighted means of squares, ndarray of shape (n_group, n_dims)."""
    return np.asarray(np.matmul(shares[:, None, :], np.square(centred, dtype=dtype))[:, 0])


def _covariances(centred: Array, shares: Array, dtype: Any) -> Array:
    """Weighted means of products, ndarray of shape (n_group, n_dims, n_dims)."""
    centred = centred.astype(dtype, copy=False)
    weighted = centred * shares[:, :, None].astype(dtype)
    return np.asarray(np.matmul(weighted.swapaxes(1, 2), centred))


def pool(counts: Array, means: Array, deviations: Array) -> tuple[float, Array, Array]:
    """Number, mean and deviation of all points of several parts, ndarrays of shape (n_dims,).

    Parameters
    ----------
    counts : ndarray of shape (n_parts,)
        Points of each part.
    means, deviations : ndarray of shape (n_parts, n_dims)
        Of each part.

    Examples
    --------
    >>> pool(np.array([2, 1]), np.array([[1.0], [4.0]]), np.array([[1.0], [0.0]]))
    (3.0, array([2.]), array([1.63299316]))
    """
    total = float(counts.sum())
    mean = means[0] + counts @ (means - means[0]) / total  # relative to one part: constants stay exact
    gaps = means - mean
    powers = _exponents(np.maximum(np.abs(gaps), deviations).max(axis=0))
    halves = np.ldexp(1.0, -powers)
    squares = counts @ ((deviations * halves) ** 2 + (gaps * halves) ** 2) / total
    return total, mean, np.ldexp(np.sqrt(squares), powers)
