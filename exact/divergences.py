r"""Divergences of two bags of points: from nearest neighbours, from entropies, and by moving their mass.

For point i of p, ρ is the distance to its k-th neighbour among the other n - 1 points of p, and ν that to its k-th
neighbour among the m points of q. With c the volume of the unit ball in d dimensions,

    KL(p, q)  = d/n Σ log(ν/ρ) + log(m/(n-1)),
    ∫ p^a q^(1-a) = Γ(k)² / (Γ(k-a+1) Γ(k+a-1)) · 1/n Σ ((n-1) ρ^d / (m ν^d))^(1-a),
    ∫ p²      = 1/n Σ (k-1) / ((n-1) c ρ^d),      ∫ pq = 1/n Σ (k-1) / (m c ν^d).

A bag of n points has no more than n - 1 neighbours to offer: its k is min(k, n-1). Where the two differ, log(ν/ρ) has
the mean ψ(k_q) - ψ(k_p) under equal densities, which is taken away, and the factor has one Γ of each.

On a line the best transport keeps the order: with the quantile functions F⁻¹ and G⁻¹, the squared 2-Wasserstein
distance is

    W₂²(p, q) = ∫₀¹ (F⁻¹(u) - G⁻¹(u))² du.

Those of weighted points are constant between their cumulative weights, so the integral is a finite sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gamma

from .moments import Array, weighted
from .pipeline import kde

__all__ = [
    "js_from_entropies", "neighbour_distance", "neighbour_divergence", "quantile_cells", "sliced_wasserstein_squared",
    "wasserstein_squared",
]  # fmt: skip


def neighbour_divergence(x: ArrayLike, y: ArrayLike, divergence: str = "kl", k: int = 4) -> float:
    """Raw estimate of the divergence of the density of ``x`` from that of ``y``.

    Parameters
    ----------
    x, y : array-like of shape (n, d) or (n,), and (m, d) or (m,)
        Points of p and of q.
    divergence : str
        ``"kl"``, ``"renyi:<a>"``, ``"tsallis:<a>"``, ``"bc"``, ``"hellinger"``, ``"l2"`` or ``"linear"``.
    k : int
        Which neighbour.

    Examples
    --------
    Both points of p are 2 apart and 1 and 3 away from their nearest of q: (log(1/2) + log(3/2)) / 2 + log(2/1).

    >>> round(neighbour_divergence([0.0, 2.0], [-1.0, -9.0], "kl", k=1), 6) == round(math.log(3) / 2, 6)
    True
    """
    x = weighted(x)[0]
    y = weighted(y)[0]
    n, d = x.shape
    m = len(y)
    kp = min(k, n - 1)
    kq = min(k, m - 1)
    volume = math.pi ** (d / 2) / gamma(d / 2 + 1)
    rho = _distances(x, None, kp)
    nu = _distances(x, y, kq)
    if divergence == "kl":
        return float(d * np.mean(np.log(nu / rho)) + math.log(m / (n - 1)) + digamma(kp) - digamma(kq))
    if divergence in ("linear", "l2"):
        pq = np.mean((kq - 1) / (m * volume * nu**d))
        if divergence == "linear":
            return float(pq)
        pp = np.mean((kp - 1) / ((n - 1) * volume * rho**d))
        qq = np.mean((kq - 1) / ((m - 1) * volume * _distances(y, None, kq) ** d))
        return float(pp + qq - 2 * pq)
    name, _, number = divergence.partition(":")
    a = float(number or 0.5)
    factor = gamma(kp) * gamma(kq) / (gamma(kp - a + 1) * gamma(kq + a - 1))
    integral = float(factor * np.mean(((n - 1) * rho**d / (m * nu**d)) ** (1 - a)))
    return {
        "bc": lambda: integral,
        "hellinger": lambda: 1 - integral,
        "renyi": lambda: math.log(integral) / (a - 1),
        "tsallis": lambda: (integral - 1) / (a - 1),
    }[name]()


def _distances(x: Array, y: Array | None, k: int) -> Array:
    """From each point of x to its k-th neighbour in y, or among the other points of x."""
    found = [neighbour_distance(x[i], np.delete(x, i, axis=0) if y is None else y, k) for i in range(len(x))]
    return np.array([value or smallest_gap(x if y is None else y) for value in found])


def neighbour_distance(point: ArrayLike, others: ArrayLike, k: int) -> float:
    """The distance from a point to the k-th nearest of other points; k = 1 is the nearest.

    Examples
    --------
    >>> neighbour_distance([0.0], [[4.0], [-1.0], [2.0]], k=2)
    2.0
    """
    point = np.asarray(point, dtype=np.float64)
    return sorted(math.dist(point, other) for other in weighted(others)[0])[k - 1]


def smallest_gap(x: ArrayLike) -> float:
    """The smallest positive distance between two points: what a distance of zero is taken for.

    Examples
    --------
    >>> smallest_gap([0.0, 0.0, 3.0, 5.0])
    2.0
    """
    x = weighted(x)[0]
    gaps = [math.dist(a, b) for a in x for b in x]
    return min(gap for gap in gaps if gap > 0)


def js_from_entropies(
    points_p: ArrayLike, points_q: ArrayLike, bandwidth: ArrayLike, boundary: str | Sequence[str] = "reflect"
) -> float:
    """Jensen-Shannon divergence of two bags from entropies (the appendix's JS_ent, with means), in O(n²).

    The first ⌈n/2⌉ points of each bag take the means, p̂ and q̂ come from the others:
    ``½ mean_p log(2 p̂/(p̂+q̂)) + ½ mean_q log(2 q̂/(p̂+q̂))``. Points must be in random order. Noise can make
    it negative; a density that underflows counts as the smallest normal number, so the answer is finite.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal([0.3, 0.7], 0.2, (1000, 2))
    >>> round(js_from_entropies(x[:, 0], x[:, 1], bandwidth=0.05, boundary="none"), 2)  # truth: 0.337
    0.36
    """
    points_p = weighted(points_p)[0]
    points_q = weighted(points_q)[0]
    half_p = -(-len(points_p) // 2)
    half_q = -(-len(points_q) // 2)
    means = []
    for own, at in ((0, points_p[:half_p]), (1, points_q[:half_q])):
        rest = [kde(x, at, bandwidth, boundary) for x in (points_p[half_p:], points_q[half_q:])]
        both = np.maximum(rest, np.finfo(np.float64).tiny)
        means.append(np.mean(np.log(2 * both[own] / both.sum(axis=0))))
    return float(np.mean(means))


def wasserstein_squared(
    x: ArrayLike, y: ArrayLike, weights_x: ArrayLike | None = None, weights_y: ArrayLike | None = None
) -> float:
    """W₂² of two weighted sets of numbers, piece by piece between both sets of cumulative weights.

    Examples
    --------
    >>> wasserstein_squared([0.0, 1.0], [3.0, 2.0])
    4.0
    >>> wasserstein_squared([0.0, 1.0], [0.0, 1.0], weights_y=[1, 3])  # a quarter of the mass moves by one
    0.25
    """
    x, ends_x = _sorted(x, weights_x)
    y, ends_y = _sorted(y, weights_y)
    ends = np.union1d(ends_x, ends_y)
    lengths = np.diff(ends, prepend=0.0)
    middles = ends - lengths / 2
    gaps = x[np.searchsorted(ends_x, middles)] - y[np.searchsorted(ends_y, middles)]
    return float(np.sum(lengths * gaps**2))


def quantile_cells(x: ArrayLike, n_cells: int, weights: ArrayLike | None = None) -> Array:
    """Averages of F⁻¹ over each of the equal cells of (0, 1), ndarray of shape (n_cells,).

    Examples
    --------
    >>> quantile_cells([3.0, 1.0, 2.0], 2)  # the middle point is shared: (1 + 2/2) / 1.5 and (2/2 + 3) / 1.5
    array([1.33333333, 2.66666667])
    """
    x, ends = _sorted(x, weights)
    starts = np.r_[0.0, ends[:-1]]
    edges = np.arange(n_cells + 1) / n_cells
    overlaps = [np.minimum(ends, high) - np.maximum(starts, low) for low, high in pairwise(edges)]
    return np.asarray(n_cells * np.maximum(overlaps, 0.0) @ x)


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
    X = np.asarray(X, dtype=np.float64)
    Y = np.asarray(Y, dtype=np.float64)
    rows = np.asarray(directions, dtype=np.float64)
    return float(np.mean([wasserstein_squared(X @ row, Y @ row, weights_x, weights_y) for row in rows]))


def _sorted(x: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Points in increasing order, and where on [0, 1] the piece of each ends."""
    points, w = weighted(np.ravel(x), weights)
    order = np.argsort(points[:, 0], kind="stable")
    ends = np.cumsum(w[order])
    return points[order, 0], ends / ends[-1]
