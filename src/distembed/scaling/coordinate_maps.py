"""Maps of one coordinate, and weighted quantiles.

The functions that scalers compute with; no estimator here.
"""

from __future__ import annotations

import numpy as np

from ..compute.arrays import Array

IQR_OF_NORMAL = 1.349  # the interquartile range of N(0, 1)


def interpolate(x: Array, knots: Array, heights: Array) -> Array:
    """Heights at ``x`` of the piecewise linear curve through knots, constant beyond the end knots.

    Monotone to the last bit and safe for any finite gaps: ``np.interp`` multiplies by slopes, which overflow
    between knots a subnormal number apart; here the position between two knots is a ratio in [0, 1].

    Parameters
    ----------
    x : ndarray of shape (n,)
        Where.
    knots, heights : ndarray of shape (n_knots,)
        Nondecreasing, at least two.

    Returns
    -------
    ndarray of shape (n,)
        The heights.
    """
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    bottom, top = heights[left], heights[left + 1]
    start, gap = knots[left], knots[left + 1] - knots[left]
    position = np.ones_like(x)
    np.divide(np.clip(x, knots[0], knots[-1]) - start, gap, out=position, where=gap > 0)
    # At position 1 the formula may round to either side of the top.
    return np.where(position < 1, np.minimum(bottom + position * (top - bottom), top), top)


def weighted_quantile(values: Array, probabilities: Array, weights: Array | None = None) -> Array:
    """Quantiles by interpolation between the ordered values, the i-th at (w_1 + ... + w_i - w_i / 2) / W.

    With equal weights this is Hazen's rule, ``np.quantile(..., method="hazen")``; a value of weight zero is
    as good as absent.

    Parameters
    ----------
    values : ndarray of shape (n,)
        At least one of positive weight.
    probabilities : ndarray of shape (k,)
        In [0, 1].
    weights : ndarray of shape (n,), optional
        Nonnegative, of any sum.

    Returns
    -------
    ndarray of shape (k,)
        The quantiles.

    Examples
    --------
    >>> weighted_quantile(np.array([0.0, 10.0]), np.array([0.5]), np.array([3.0, 1.0]))
    array([2.5])
    """
    ordered, mass = sort_positive(values, weights)
    cumulative = np.cumsum(mass)
    heights = (cumulative - 0.5 * mass) / cumulative[-1]
    return interpolate(probabilities, np.r_[0.0, heights, 1.0], np.r_[ordered[0], ordered, ordered[-1]])


def sort_positive(values: Array, weights: Array | None) -> tuple[Array, Array]:
    """Sort the values of positive weight, and their weights along with them."""
    if weights is None:
        return np.sort(values), np.ones(len(values))
    values, weights = values[weights > 0], weights[weights > 0]
    order = np.argsort(values, kind="stable")
    return values[order], weights[order]


def pooled_weights(weights: Array | None, offsets: Array) -> Array | None:
    """Weights of all points pooled, shape (n_points,), free of the arbitrary scale of each bag's weights.

    A bag counts for its effective number of points, (Σw)² / Σw²: its size if its weights are equal, and no
    more for points of weight zero. None stands for equal weights.
    """
    if weights is None:
        return None
    starts, sizes = offsets[:-1], np.diff(offsets)
    mass: Array = weights.astype(np.float64)
    mass /= np.repeat(np.maximum.reduceat(mass, starts), sizes)  # squares of huge weights would overflow
    mass *= np.repeat(np.add.reduceat(mass, starts) / np.add.reduceat(mass * mass, starts), sizes)
    return mass


def center_and_scale(values: Array, weights: Array | None, low: float, high: float) -> tuple[float, float]:
    """Robust center and scale: median; IQR / 1.349, or else the standard deviation, or else 1.

    ``values`` (n,) is one coordinate of the points inside its bounds [low, high].

    Examples
    --------
    >>> center, scale = center_and_scale(np.array([-1000.0, 1.0, 2.0, 3.0, 1000.0]), None, -1000.0, 1000.0)
    >>> center, scale < 400
    (2.0, True)
    """
    lower, center, upper = weighted_quantile(values, np.array([0.25, 0.5, 0.75]), weights)
    scale = (upper - lower) / IQR_OF_NORMAL
    if scale == 0:
        unit = (values - center) / (high - low)  # in [-1, 1], so that squares neither overflow nor vanish
        mean = np.average(unit, weights=weights)
        scale = (high - low) * np.sqrt(np.average((unit - mean) ** 2, weights=weights))
    return float(center), float(scale) if scale > 0 else 1.0


def rank_knots(values: Array, weights: Array | None, low: float, high: float, n_quantiles: int) -> Array:
    """Knots of a strictly increasing, piecewise linear approximation of the empirical distribution function.

    The inner knots are values of the data, their quantiles at (k + 1/2) / K, K = min(n_quantiles, n). Equal
    ones merge into one knot at their mean height, half way up the jump. So heights differ by at least
    1 / (2 K), which bounds what the inverse does to rounding errors.

    Parameters
    ----------
    values : ndarray of shape (n,)
        One coordinate of the points inside its bounds.
    weights : ndarray of shape (n,), optional
        Their weights.
    low, high : float
        The bounds: the end knots, of height 0 and 1.
    n_quantiles : int
        Largest number of inner knots.

    Returns
    -------
    ndarray of shape (2, n_knots)
        Positions and heights, both strictly increasing.

    Examples
    --------
    >>> rank_knots(np.array([1.0, 1.0, 1.0, 4.0]), None, 0.0, 5.0, 1000)
    array([[0.   , 1.   , 4.   , 5.   ],
           [0.   , 0.375, 0.875, 1.   ]])
    """
    ordered, mass = sort_positive(values, weights)
    cumulative = np.cumsum(mass)
    n_inner = min(n_quantiles, len(ordered))
    heights = (np.arange(n_inner) + 0.5) / n_inner
    picked = ordered[np.searchsorted(cumulative, heights * cumulative[-1])]
    knots, first, counts = np.unique(picked, return_index=True, return_counts=True)
    heights = 0.5 * (heights[first] + heights[first + counts - 1])
    inner = (knots > low) & (knots < high)
    return np.stack([np.r_[low, knots[inner], high], np.r_[0.0, heights[inner], 1.0]])
