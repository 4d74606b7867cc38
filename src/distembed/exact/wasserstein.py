"""Squared 2-Wasserstein distances of weighted points on a line, and their mean over directions.

On a line the best transport keeps the order: with the quantile functions F⁻¹ and G⁻¹,

    W₂²(p, q) = ∫₀¹ (F⁻¹(u) - G⁻¹(u))² du.

Those of points are constant between their cumulative weights, so the integral is a finite sum.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .moments import weighted

__all__ = ["quantile_cells", "sliced_wasserstein_squared", "wasserstein_squared"]

Array: TypeAlias = NDArray[np.float64]


def _sorted(x: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Points in increasing order, and where on [0, 1] the piece of each ends."""
    points, w = weighted(np.ravel(x), weights)
    order = np.argsort(points[:, 0], kind="stable")
    ends = np.cumsum(w[order])
    return points[order, 0], ends / ends[-1]


def wasserstein_squared(
    x: ArrayLike, y: ArrayLike, weights_x: ArrayLike | None = None, weights_y: ArrayLike | None = None
) -> float:
    """W₂² of two weighted sets of numbers, by walking along both sets of cumulative weights.

    Examples
    --------
    >>> wasserstein_squared([0.0, 1.0], [3.0, 2.0])
    4.0
    >>> wasserstein_squared([0.0, 1.0], [0.0, 1.0], weights_y=[1, 3])  # a quarter of the mass moves by one
    0.25
    """
    (x, ends_x), (y, ends_y) = _sorted(x, weights_x), _sorted(y, weights_y)
    i = j = 0
    total = start = 0.0
    while i < len(x) and j < len(y):
        stop = min(ends_x[i], ends_y[j])
        total += (stop - start) * (x[i] - y[j]) ** 2
        start = stop
        moves_x, moves_y = ends_x[i] <= stop, ends_y[j] <= stop
        i, j = i + int(moves_x), j + int(moves_y)
    return float(total)


def quantile_cells(x: ArrayLike, n_cells: int, weights: ArrayLike | None = None) -> Array:
    """Averages of F⁻¹ over each of the equal cells of (0, 1), ndarray of shape (n_cells,).

    Examples
    --------
    >>> quantile_cells([3.0, 1.0, 2.0], 2)  # the middle point is shared: (1 + 2/2) / 1.5 and (2/2 + 3) / 1.5
    array([1.33333333, 2.66666667])
    """
    x, ends = _sorted(x, weights)
    starts = np.r_[0.0, ends[:-1]]
    cells = np.zeros(n_cells)
    for q in range(n_cells):
        for value, start, stop in zip(x, starts, ends, strict=True):
            overlap = min(stop, (q + 1) / n_cells) - max(start, q / n_cells)
            cells[q] += n_cells * max(overlap, 0.0) * value
    return cells


def sliced_wasserstein_squared(
    X: ArrayLike,
    Y: ArrayLike,
    directions: ArrayLike,
    weights_x: ArrayLike | None = None,
    weights_y: ArrayLike | None = None,
) -> float:
    """Mean of W₂² over the projections onto given directions, rows of shape (n_directions, n_dims).

    Examples
    --------
    A unit shift in three dimensions, seen from three orthogonal directions:

    >>> X = np.random.default_rng(0).normal(size=(10, 3))
    >>> round(sliced_wasserstein_squared(X, X + [1, 0, 0], np.eye(3)), 12)
    0.333333333333
    """
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    rows = np.asarray(directions, dtype=np.float64)
    return float(np.mean([wasserstein_squared(X @ row, Y @ row, weights_x, weights_y) for row in rows]))
