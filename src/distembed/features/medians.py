"""Median distances between rows and between the points of bags: the scale of a Gaussian kernel that fits the data.

Cost: all pairs of at most 1,000 rows or points, whatever there is.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from ..bags import Bags
from ..bags.point_order import draw_rows, order_points
from ..compute.arrays import Array
from ..compute.checks import ROUNDING

_MOST_ROWS = 1000  # that are compared
_FEW_COLUMNS = 32  # of rows whose distances are faster one by one
_CANCELLED = 1e-6  # squared distances below that share of the largest squared length have lost ten digits of 16


def median_distance(
    X: Array, rng: np.random.RandomState, max_rows: int = _MOST_ROWS, rounding: float = ROUNDING
) -> float:
    """Median Euclidean distance between rows, over at most ``max_rows`` of them drawn at random.

    If the median is zero (mostly equal rows), the mean of the distances is returned. Rows that are all equal have no
    scale; the answer is then their length, or 1 where that is zero. A distance counts as zero up to ``rounding`` times
    the rounding error of the two rows: features of equal bags differ by that much.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]), np.random.RandomState(0))
    2.0
    >>> median_distance(np.array([[0.3], [0.1 + 0.2], [0.3], [0.7]]), np.random.RandomState(0)).__round__(6)
    0.2
    """
    if len(X) > max_rows:
        X = X[np.sort(rng.choice(len(X), max_rows, replace=False))]
    distances = _distances(X)
    sizes = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    error = rounding * np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps
    if rounding and np.any(distances <= 2 * error * np.max(sizes, initial=0.0)):  # some may be too small
        first, second = np.triu_indices(len(X), 1)
        distances[distances <= error * (sizes[first] + sizes[second])] = 0.0
    if not np.any(distances):
        return float(np.max(sizes, initial=0.0)) or 1.0
    return float(np.median(distances)) or float(np.mean(distances))


def _distances(X: Array) -> Array:
    """Euclidean distances between rows, as ``pdist`` has them; by a matrix product where that loses no digits."""
    if X.shape[1] < _FEW_COLUMNS:
        return np.asarray(pdist(X))
    with np.errstate(all="ignore"):
        centred = np.asarray(X, np.float64) - np.mean(X, axis=0, dtype=np.float64)
        products = centred @ centred.T
        squares = np.diag(products)
        pairs = np.triu_indices(len(X), 1)
        found = (squares[:, None] + squares - 2 * products)[pairs]
        kept = np.all(found > _CANCELLED * squares.max(initial=0.0))  # not where squares overflow
    return np.sqrt(found) if kept and np.all(np.isfinite(found)) else np.asarray(pdist(X))


def median_point(bags: Bags) -> Array:
    """Median of all points in each dimension, ndarray of shape (n_dims,), where bags count the same.

    It is one of the values, and stays where it is when a few points go far. Nor do copies of points move it, or weights
    in place of copies.

    Examples
    --------
    >>> median_point(Bags.from_arrays([[0.0, 1.0, 1e30], [2.0]])), median_point(Bags.from_arrays([[5.0, 5.5, 9.0]]))
    (array([2.]), array([5.5]))
    """
    shares = bags.shares()
    if shares is None:
        shares = np.repeat(1 / bags.sizes, bags.sizes)
    found = np.empty(bags.n_dims)
    for j, values in enumerate(bags.points.T):
        order = np.argsort(values, kind="stable")
        below = np.cumsum(shares[order])
        found[j] = values[order[np.searchsorted(below, (0.5 - 1e-9) * below[-1])]]  # ties: whatever the rounding
    return found


def median_distance_of_bags(bags: Bags, rng: np.random.RandomState) -> float:
    """Median distance between the points of all bags, at most 1,000 of them; a pair counts by both points' weights.

    Equal points give 1, mostly equal ones the mean.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0, 1.0], [3.0]], weights=[[1, 3], [1]])
    >>> median_distance_of_bags(bags, np.random.RandomState(0))  # of 1, 2 and 3 with weights 3, 3 and 1
    2.0
    """
    points, masses = _some_points(bags, rng)
    points = points.astype(float)
    # Squares of distances must neither vanish nor overflow. A power of two as the unit changes no digit.
    far = np.abs(points / 2 - median_point(Bags(points / 2, [0, len(points)]))).max(axis=1)
    exponent = int(np.frexp(np.median(far) or far.max())[1]) if far.any() else 0
    with np.errstate(over="ignore"):
        points = np.clip(np.ldexp(points, -exponent), -1e150, 1e150)
        if masses is None:
            found = median_distance(points, rng, _MOST_ROWS, rounding=0.0)  # points are as they were given
        else:
            found = _weighted_median_distance(points, masses)
        return float(np.ldexp(found, exponent)) if far.any() else 1.0


def _some_points(bags: Bags, rng: np.random.RandomState) -> tuple[Array, Array | None]:
    """All points, or 1,000 of them drawn at random, and what they count; None: the same.

    By weight the draw is priority sampling: those of the largest m/u, u uniform, of mass m. Where τ is the largest m/u
    left out, max(m, τ) in place of m makes sums over the drawn unbiased (Duffield, Lund and Thorup 2007).
    """
    points = bags.points
    shares = bags.shares()
    most = _MOST_ROWS
    # Ratios inside a bag mean something, between bags the number of points does.
    masses = None if shares is None else shares * np.repeat(bags.sizes, bags.sizes)
    if masses is None or np.allclose(masses, 1, rtol=1e-9):
        if len(points) > most:
            points = points[draw_rows(bags, most, rng)]
        return points, None
    order = order_points(bags)
    there = order[masses[order] > 0]  # a weight may be too small for a share
    if len(there) > most:
        ranks = masses[there] / (1 - rng.uniform(size=len(there)))
        largest = np.argpartition(ranks, -most - 1)
        there = there[np.sort(largest[-most:])]
        least = ranks[largest[-most - 1]]
        return points[there], np.maximum(masses[there], least)
    return points[there], masses[there]


def _weighted_median_distance(points: Array, masses: Array) -> float:
    """Median distance between points, where a pair counts by the product of their masses."""
    distances = pdist(points)
    if not np.any(distances > 0):
        return 1.0
    rows, columns = np.triu_indices(len(points), 1)
    weights = masses[rows] * masses[columns]
    order = np.argsort(distances, kind="stable")
    below = np.cumsum(weights[order])
    median = float(distances[order][np.searchsorted(below, below[-1] / 2)])
    return median if median > 0 else float(np.average(distances, weights=weights))
