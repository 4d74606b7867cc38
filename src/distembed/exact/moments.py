"""Moments of bags one point at a time, and the directional total variation distance by its definition.

For Gaussians p = N(m, s²) and q = N(m₀, s₀²) with m > m₀, let t be the threshold that both miss equally often,
P(X < t) = Q(X > t). There (m - t)/s = (t - m₀)/s₀, so that

    t = (m s₀ + m₀ s) / (s + s₀),    z = (m - t)/s = (m - m₀) / (s + s₀),
    P(X > t) - Q(X > t) = Φ(z) - Φ(-z) = erf(z/√2).

Total variation is the largest P(A) - Q(A) over all sets A, and a half-line is such a set: the value is a lower bound.
For s = s₀ the ratio p/q increases, the best set is the half-line from the midpoint, which is t: the value is total
variation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, fsum, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, stats

__all__ = [
    "bag_covariance", "bag_mean", "d3", "directional_total_variation", "gaussian_total_variation", "pooled_moments",
]  # fmt: skip

Array = NDArray[np.float64]


def weighted(points: ArrayLike, weights: ArrayLike | None = None) -> tuple[Array, Array]:
    """Points as float64 of shape (n, n_dims), numbers as points of one dimension; and weights, ones by default.

    Examples
    --------
    >>> weighted([3, 4])
    (array([[3.],
           [4.]]), array([1., 1.]))
    """
    x = np.asarray(points, dtype=np.float64)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    return x[:, None] if x.ndim == 1 else x, w


def bag_mean(points: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Σ_i w_i x_i / Σ_i w_i, ndarray of shape (n_dims,); sums are rounded once.

    Examples
    --------
    >>> bag_mean([[1.0, 0.0], [3.0, 4.0]], weights=[3, 1])
    array([1.5, 1. ])
    """
    x, w = weighted(points, weights)
    return np.array([fsum(w * column) / fsum(w) for column in x.T])


def bag_covariance(points: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Σ_i w_i (x_i - m)(x_i - m)ᵀ / Σ_i w_i, ndarray of shape (n_dims, n_dims); no n - 1, a bag is a distribution.

    Examples
    --------
    >>> bag_covariance([[0.0, 0.0], [2.0, 4.0]])
    array([[1., 2.],
           [2., 4.]])
    """
    x, w = weighted(points, weights)
    centred = x - bag_mean(x, w)
    return np.array([[fsum(w * a * b) / fsum(w) for b in centred.T] for a in centred.T])


def directional_total_variation(mean: float, deviation: float, mean0: float, deviation0: float) -> float:
    """P(X > t) - Q(X > t) for P = N(mean, deviation²), Q = N(mean0, deviation0²) and the t of the module's head.

    Deviations must be positive.

    Examples
    --------
    >>> round(directional_total_variation(1.0, 1.0, 0.0, 1.0), 9)  # total variation of N(0, 1) and N(1, 1)
    0.382924923
    """
    t = (mean * deviation0 + mean0 * deviation) / (deviation + deviation0)
    return float(stats.norm(mean, deviation).sf(t) - stats.norm(mean0, deviation0).sf(t))


def gaussian_total_variation(mean: float, deviation: float, mean0: float, deviation0: float) -> float:
    """½ ∫ |p - q| of two Gaussians, by quadrature between 12 deviations of both.

    Examples
    --------
    >>> round(gaussian_total_variation(1.0, 1.0, 0.0, 1.0), 9)
    0.382924923
    """

    def gap(x: float) -> float:
        p = exp(-(((x - mean) / deviation) ** 2) / 2) / (sqrt(2 * pi) * deviation)
        return p - exp(-(((x - mean0) / deviation0) ** 2) / 2) / (sqrt(2 * pi) * deviation0)

    low = min(mean - 12 * deviation, mean0 - 12 * deviation0)
    high = max(mean + 12 * deviation, mean0 + 12 * deviation0)
    # p = q where a quadratic in x vanishes: between its roots nothing has a kink.
    a, b = 1 / deviation0**2 - 1 / deviation**2, mean / deviation**2 - mean0 / deviation0**2
    c = (mean0 / deviation0) ** 2 - (mean / deviation) ** 2 + 2 * np.log(deviation0 / deviation)
    roots = [float(r.real) for r in np.roots([a, 2 * b, c]) if abs(r.imag) < 1e-9 and low < r.real < high]
    edges = sorted({low, high, mean, mean0, *roots})
    signed = [integrate.quad(gap, u, v, epsabs=1e-12)[0] for u, v in pairwise(edges)]
    return float(0.5 * np.sum(np.abs(signed)))


def pooled_moments(bags: Sequence[ArrayLike], weights: Sequence[ArrayLike] | None = None) -> tuple[Array, Array]:
    """Means and deviations of all points; a bag counts as many times as it has points, whatever its weights sum to.

    Examples
    --------
    >>> pooled_moments([[0.0, 2.0], [4.0]])
    (array([2.]), array([1.63299316]))
    """
    parts = [weighted(bag, None if weights is None else weights[i]) for i, bag in enumerate(bags)]
    x = np.concatenate([points for points, _ in parts])
    w = np.concatenate([np.count_nonzero(given) * given / fsum(given) for _, given in parts])
    return bag_mean(x, w), np.sqrt(np.diag(bag_covariance(x, w)))


def d3(points: ArrayLike, mean0: ArrayLike, deviation0: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Directional total variation of each coordinate of a bag from N(mean0, deviation0²), ndarray of shape (n_dims,).

    Where both deviations are zero it is the sign of the difference of the means.

    Examples
    --------
    >>> d3([[0.0, 5.0], [2.0, 5.0]], mean0=[0.0, 5.0], deviation0=[1.0, 0.0]).round(9)
    array([0.38292492, 0.        ])
    """
    means, variances = bag_mean(points, weights), np.diag(bag_covariance(points, weights))
    values = []
    for m, v, m0, s0 in zip(means, variances, np.ravel(mean0), np.ravel(deviation0), strict=True):
        s = sqrt(v)
        if s == 0 and s0 == 0:
            values.append(float(np.sign(m - m0)))
        elif s == 0 or s0 == 0:  # the limit: a point, which lies at t
            values.append(float(2 * stats.norm.cdf((m - m0) / (s + s0)) - 1))
        else:
            values.append(directional_total_variation(m, s, m0, s0))
    return np.array(values)
