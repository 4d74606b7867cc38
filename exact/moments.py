"""Moments of bags one point at a time, directional total variation by its definition, and means of kernels.

*Directional total variation.* For Gaussians p = N(m, s²) and q = N(m₀, s₀²) with m > m₀, let t be the threshold that
both miss equally often, P(X < t) = Q(X > t). There (m - t)/s = (t - m₀)/s₀, so that

    t = (m s₀ + m₀ s) / (s + s₀),    z = (m - t)/s = (m - m₀) / (s + s₀),
    P(X > t) - Q(X > t) = Φ(z) - Φ(-z) = erf(z/√2).

Total variation is the largest P(A) - Q(A) over all sets A, and a half-line is such a set: the value is a lower bound.
For s = s₀ the ratio p/q increases, the best set is the half-line from the midpoint, which is t: the value is total
variation.

*Means of kernels.* With the Gaussian kernel ``k(x, y) = exp(-|x - y|² / (2σ²))`` the mean map of a distribution is
``μ_p = E k(x, ·)``, and the squared maximum mean discrepancy is ``MMD²(p, q) = |μ_p - μ_q|²``, which is

    E k(x, x') - 2 E k(x, y) + E k(y, y'),    x, x' ~ p and y, y' ~ q, all independent.

For points all three means run over all pairs, a point with itself included: the V-statistic. It is the MMD² of the
empirical distributions, never negative, and its expectation for n and m points is the truth plus
``(1 - E k(x, x'))/n + (1 - E k(y, y'))/m``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import fsum, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = [
    "bag_covariance", "bag_mean", "d3", "directional_total_variation", "gaussian_mean_kernel", "gaussian_mmd",
    "gaussian_total_variation", "mean_kernel", "mmd", "pooled_moments",
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


def derivatives(f: Callable[[Array], ArrayLike], at: Array, steps: Array, one_sided: ArrayLike = False) -> Array:
    """Derivatives (n,) of a function of n numbers, by five values for each, around it or upwards from it.

    `f` takes rows (k, n) and returns (k,). The error falls as the fourth power of the step.

    Examples
    --------
    >>> derivatives(lambda rows: (rows**2).sum(axis=1), np.array([1.0, 0.0]), np.array([0.1, 0.1])).round(9) + 0.0
    array([2., 0.])
    """
    upwards = np.broadcast_to(one_sided, at.shape)[:, None]
    places = np.where(upwards, [0, 1, 2, 3, 4], [-2, -1, 0, 1, 2]) * steps[:, None]
    rows = [at + by * (np.arange(len(at)) == i) for i, around in enumerate(places) for by in around]
    values = np.asarray(f(np.array(rows)), dtype=np.float64).reshape(places.shape)
    factors = np.where(upwards, [-25, 48, -36, 16, -3], [1, -8, 0, 8, -1])
    return np.asarray(np.sum(values * factors, axis=1) / (12 * steps))


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
    """``½ ∫ |p - q|`` of two Gaussians: absolute differences of probabilities between the points where p = q.

    Examples
    --------
    >>> round(gaussian_total_variation(1.0, 1.0, 0.0, 1.0), 9)
    0.382924923
    """
    p = stats.norm(mean, deviation)
    q = stats.norm(mean0, deviation0)
    # p = q where a quadratic in x vanishes.
    a = 1 / deviation0**2 - 1 / deviation**2
    b = mean / deviation**2 - mean0 / deviation0**2
    c = (mean0 / deviation0) ** 2 - (mean / deviation) ** 2 + 2 * np.log(deviation0 / deviation)
    roots = sorted(float(root.real) for root in np.roots([a, 2 * b, c]) if abs(root.imag) < 1e-9)
    below = [0.0, *(p.cdf(root) - q.cdf(root) for root in roots), 0.0]
    return float(sum(abs(v - u) for u, v in pairwise(below)) / 2)


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
    means = bag_mean(points, weights)
    variances = np.diag(bag_covariance(points, weights))
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


def mean_kernel(
    x: ArrayLike, y: ArrayLike, sigma: float, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    """Return <μ_x, μ_y> = Σ_ij a_i b_j k(x_i, y_j), for weights a and b of sum one.

    `x` and `y` have shapes (n, d) and (m, d), or (n,) and (m,) for points of one dimension. Weights, of shape (n,) and
    (m,), are divided by their sum; by default they are equal.

    Examples
    --------
    >>> round(mean_kernel([0.0, 1.0], [1.0], sigma=1.0), 6)  # (exp(-1/2) + 1) / 2
    0.803265
    """
    x, a = weighted(x, x_weights)
    y, b = weighted(y, y_weights)
    total = 0.0
    for point, weight in zip(x, a, strict=True):
        squared = np.sum((y - point) ** 2, axis=1)
        total += weight * float(np.sum(b * np.exp(-squared / (2 * sigma**2))))
    return float(total / (a.sum() * b.sum()))


def mmd(
    x: ArrayLike, y: ArrayLike, sigma: float, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    """Return the squared MMD of two bags of points, the V-statistic; arguments as in :func:`mean_kernel`.

    Examples
    --------
    >>> round(mmd([0.0], [1.0], sigma=1.0), 6)  # 2 - 2 exp(-1/2)
    0.786939
    """
    own = mean_kernel(x, x, sigma, x_weights, x_weights) + mean_kernel(y, y, sigma, y_weights, y_weights)
    return own - 2 * mean_kernel(x, y, sigma, x_weights, y_weights)


def gaussian_mean_kernel(
    mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike, sigma: float
) -> float:
    """Return <μ_p, μ_q> = E k(x, y) for Gaussians x ~ p and y ~ q.

    The difference x - y is Gaussian of mean δ = mean_p - mean_q and covariance S = cov_p + cov_q, and k is a multiple
    of the density of N(0, σ²I) at it; their convolution is the density of N(0, σ²I + S) at δ.

    Means have shape (d,) and covariances (d, d); numbers are means and variances in one dimension.

    Examples
    --------
    >>> round(gaussian_mean_kernel(0, 1, 0, 1, sigma=1.0), 6)  # 1 / √3
    0.57735
    """
    delta = np.atleast_1d(np.asarray(mean_p, float)) - np.atleast_1d(np.asarray(mean_q, float))
    spread = np.atleast_2d(np.asarray(cov_p, float)) + np.atleast_2d(np.asarray(cov_q, float))
    at_zero = (2 * pi * sigma**2) ** (len(delta) / 2)  # the density of N(0, σ²I) is k(x, 0) over this
    return float(at_zero * stats.multivariate_normal(cov=spread + sigma**2 * np.eye(len(delta))).pdf(delta))


def gaussian_mmd(mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike, sigma: float) -> float:
    """Return the squared MMD of two Gaussians; arguments as in :func:`gaussian_mean_kernel`.

    Examples
    --------
    >>> round(gaussian_mmd(0, 1, 1, 1, sigma=1.0), 9), round(gaussian_mmd(0, 1, 0, 4, sigma=1.0), 9)
    (0.177267635, 0.094187022)
    """
    p = (mean_p, cov_p)
    q = (mean_q, cov_q)
    own = gaussian_mean_kernel(*p, *p, sigma) + gaussian_mean_kernel(*q, *q, sigma)
    return own - 2 * gaussian_mean_kernel(*p, *q, sigma)
