"""Kernel matrices entry by entry, and means of the Gaussian kernel ``k(x, y) = exp(-|x - y|² / (2σ²))`` over points.

The mean map of a distribution is ``μ_p = E k(x, ·)``, and the squared maximum mean discrepancy is
``MMD²(p, q) = |μ_p - μ_q|²``, which is

    E k(x, x') - 2 E k(x, y) + E k(y, y'),    x, x' ~ p and y, y' ~ q, all independent.

For points all three means run over all pairs, a point with itself included: the V-statistic. It is the MMD² of the
empirical distributions, never negative, and its expectation for n and m points is the truth plus
``(1 - E k(x, x'))/n + (1 - E k(y, y'))/m``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .moments import weighted

__all__ = [
    "gaussian_mean_kernel", "gaussian_mmd", "mean_kernel", "mmd", "nystroem_kernel", "rbf_kernel", "repaired_kernel",
]  # fmt: skip

Array: TypeAlias = NDArray[np.float64]


def rbf_kernel(distances_squared: ArrayLike, sigma: float) -> Array:
    """exp(-d² / (2σ²)) of each entry, with d² = 0 for negative estimates.

    Examples
    --------
    >>> rbf_kernel([[0.0, 2.0], [-1.0, 0.0]], 1.0).round(4)
    array([[1.    , 0.3679],
           [1.    , 1.    ]])
    """
    d2 = np.asarray(distances_squared, dtype=np.float64)
    out = np.empty_like(d2)
    for i in range(d2.shape[0]):
        for j in range(d2.shape[1]):
            out[i, j] = np.exp(-max(d2[i, j], 0.0) / (2 * sigma**2))
    return out


def repaired_kernel(K: ArrayLike, method: str) -> Array:
    """The sum of f(λ) v vᵀ over eigenpairs: f is max(λ, 0), abs(λ), λ - min(λ_min, 0) or λ².

    Examples
    --------
    >>> repaired_kernel([[0.0, 1.0], [1.0, 0.0]], "clip").round(6)  # eigenvalues 1 and -1
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    total = np.zeros((len(values), len(values)))
    for value, vector in zip(values, vectors.T, strict=True):
        new = {"clip": max(value, 0.0), "flip": abs(value), "shift": value - min(values[0], 0.0), "square": value**2}
        total += new[method] * np.outer(vector, vector)
    return total


def nystroem_kernel(rows: ArrayLike, K: ArrayLike, least: float = 1e-12) -> Array:
    """The sum of (k_x·v)(k_y·v) / λ over eigenpairs of K with λ > max(least λ_max, -λ_min), for all pairs of rows k_x.

    Examples
    --------
    >>> nystroem_kernel([[2.0, 3.0]], [[4.0, 0.0], [0.0, -1.0]])  # 2² / 4
    array([[1.]])
    """
    k = np.asarray(rows, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    total = np.zeros((len(k), len(k)))
    for value, vector in zip(values, vectors.T, strict=True):
        if value > max(least * np.abs(values).max(), -values[0]):
            total += np.outer(k @ vector, k @ vector) / value
    return total


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
    (x, a), (y, b) = weighted(x, x_weights), weighted(y, y_weights)
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
    of the density of N(0, σ²I) at it; their convolution is a Gaussian again:
    ``det(I + S/σ²)^(-1/2) exp(-δᵀ (σ²I + S)⁻¹ δ / 2)``.

    Means have shape (d,) and covariances (d, d); numbers are means and variances in one dimension.

    Examples
    --------
    >>> round(gaussian_mean_kernel(0, 1, 0, 1, sigma=1.0), 6)  # 1 / √3
    0.57735
    """
    delta = np.atleast_1d(np.asarray(mean_p, float)) - np.atleast_1d(np.asarray(mean_q, float))
    spread = np.atleast_2d(np.asarray(cov_p, float)) + np.atleast_2d(np.asarray(cov_q, float))
    widened = spread + sigma**2 * np.eye(len(delta))
    determinant = np.linalg.det(widened / sigma**2)
    return float(np.exp(-delta @ np.linalg.solve(widened, delta) / 2) / np.sqrt(determinant))


def gaussian_mmd(mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike, sigma: float) -> float:
    """Return the squared MMD of two Gaussians; arguments as in :func:`gaussian_mean_kernel`.

    Examples
    --------
    >>> round(gaussian_mmd(0, 1, 1, 1, sigma=1.0), 9), round(gaussian_mmd(0, 1, 0, 4, sigma=1.0), 9)
    (0.177267635, 0.094187022)
    """
    p, q = (mean_p, cov_p), (mean_q, cov_q)
    own = gaussian_mean_kernel(*p, *p, sigma) + gaussian_mean_kernel(*q, *q, sigma)
    return own - 2 * gaussian_mean_kernel(*p, *q, sigma)
