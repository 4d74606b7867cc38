"""Densities to look at: histograms on a fine grid, smoothed by a Gaussian of Silverman's width.

They are pictures in the units of the points, in one or two columns; what models see is in :mod:`distembed.density`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from ..bags import Bags
from ..compute.arrays import Array

_TAIL = 0.002  # of all points may lie outside of a picture on each side
_MOST = 200_000  # points that decide where a picture ends


def limits_of(values: Array) -> tuple[float, float]:
    """Where a picture of values begins and ends: at their extremes, unless a few of them are far from all others.

    Examples
    --------
    >>> low, high = limits_of(np.append(np.linspace(0, 1, 1000), 1e6))
    >>> bool(low < 0), bool(1 < high < 2)
    (True, True)
    """
    some = values[:: max(1, len(values) // _MOST)]
    low, high = np.quantile(some, [_TAIL, 1 - _TAIL])
    margin = 0.05 * (high - low)
    if margin == 0:  # all but a few are the same
        low = float(values.min())
        high = float(values.max())
        margin = 0.05 * (high - low) or 0.5 * abs(low) or 0.5
        return float(low - margin), float(high + margin)
    ends = float(values.min()), float(values.max())
    low, high = (end if abs(end - cut) <= 3 * margin else cut for end, cut in zip(ends, (low, high), strict=True))
    return float(low - margin), float(high + margin)


def width_of(values: Array, n_dims: int = 1) -> float:
    """Silverman's bandwidth, 0.9 min(deviation, interquartile range / 1.34) n^(-1 / (4 + n_dims)); zero for none.

    Examples
    --------
    >>> round(width_of(np.random.default_rng(0).normal(size=1000)), 2)
    0.22
    """
    if len(values) < 2:
        return 0.0
    lower, upper = np.quantile(values, [0.25, 0.75])
    spread = min(float(values.std()), float(upper - lower) / 1.34) or float(values.std())
    return float(0.9 * spread * len(values) ** (-1 / (4 + n_dims)))


def density_of(points: Array, limits: Any, n_bins: int, weights: Array | None = None) -> tuple[Array, ...]:
    """A density on a grid, and its axes.

    Parameters
    ----------
    points : ndarray of shape (n, l)
        With l of one or two.
    limits : sequence of l pairs
        Where the grid begins and ends in each column; points outside are left out.
    n_bins : int
        In each column.
    weights : ndarray of shape (n,), optional

    Returns
    -------
    density, axis, ...
        Of shape (n_bins,) * l, of integral one if no point is outside; and the middles of the bins in each column.

    Notes
    -----
    Mass does not leave at the ends of the grid. Cost: O(n + n_bins^l).

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(500, 1))
    >>> density, x = density_of(points, [(-5, 5)], 100)
    >>> round(float(density.sum() * (x[1] - x[0])), 6), round(float(density.max()), 1)
    (1.0, 0.4)
    """
    edges = [np.linspace(low, high, n_bins + 1) for low, high in limits]
    counts, _ = np.histogramdd(points, bins=edges, weights=weights)
    steps = [float(each[1] - each[0]) for each in edges]
    widths = [max(width_of(column, len(edges)) / step, 0.5) for column, step in zip(points.T, steps, strict=True)]
    total = len(points) if weights is None else float(weights.sum())
    density = gaussian_filter(counts, widths, mode="reflect") / (total * float(np.prod(steps)))
    return density, *((each[1:] + each[:-1]) / 2 for each in edges)


def shares_of_labels(bags: Bags, j: int, rows: slice) -> Array:
    """Shares of the labels of a categorical column among some points."""
    n_labels = len((bags.categories or {})[j])
    weights = None if bags.weights is None else bags.weights[rows]
    found = np.bincount(bags.points[rows, j].astype(int), weights, minlength=n_labels)
    return np.asarray(found / found.sum())
