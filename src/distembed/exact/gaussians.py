"""Gaussian fits and their divergences, one pair at a time, and gradients of a mixture's log likelihood by differences.

Everything is its definition: moments by loops over bags, integrals on a grid, closed forms by inverse and determinant,
and gradients as differences of log likelihoods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .pipeline import box_quadrature

__all__ = [
    "fisher_vector",
    "gaussian_divergence",
    "gaussian_divergence_by_integration",
    "gaussian_fits",
    "gaussian_pdf",
    "mixture_log_likelihood",
]

Array: TypeAlias = NDArray[np.float64]


def gaussian_fits(
    bags: Sequence[ArrayLike], weights: Sequence[ArrayLike] | None = None, reg: float = 1e-3, covariance: str = "full"
) -> list[tuple[Array, Array]]:
    """Mean and covariance (1 - reg) S + reg (W + reg B) of each bag, an array of shape (n_i, d).

    S is the covariance of the bag's points, W the mean of S over bags, B the covariance of their means. With
    ``covariance="diag"`` what is not on the diagonal is zero. W + reg B must be regular: no constant coordinates here.

    Examples
    --------
    >>> (mean, covariance), _ = gaussian_fits([[[0.0], [2.0]], [[5.0], [7.0]]], reg=0.5)
    >>> mean, covariance  # S = W = 1, B = 6.25
    (array([1.]), array([[2.5625]]))
    """
    means, inside = [], []
    for i, bag in enumerate(bags):
        points = np.asarray(bag, dtype=np.float64)
        w = np.ones(len(points)) if weights is None else np.asarray(weights[i], dtype=np.float64)
        mean = np.average(points, axis=0, weights=w)
        means.append(mean)
        inside.append(
            np.atleast_2d(np.cov(points.T, ddof=0, aweights=w)) if len(points) > 1 else 0 * np.outer(mean, mean)
        )
    pooled = np.mean(inside, axis=0) + reg * np.atleast_2d(np.cov(np.array(means).T, ddof=0))
    found = [(1 - reg) * own + reg * pooled for own in inside]
    if covariance == "diag":
        found = [np.diag(np.diag(own)) for own in found]
    return list(zip(means, found, strict=True))


def gaussian_pdf(x: ArrayLike, mean: ArrayLike, covariance: ArrayLike) -> Array:
    """Density N(x; mean, covariance) at rows of x, shape (n, d).

    Examples
    --------
    >>> gaussian_pdf([[0.0], [1.0]], [0.0], [[1.0]]).round(6)
    array([0.398942, 0.241971])
    """
    gap, spread = np.asarray(x, dtype=np.float64) - np.asarray(mean), np.asarray(covariance, dtype=np.float64)
    squares = np.sum((gap @ np.linalg.inv(spread)) * gap, axis=1)
    return np.asarray(np.exp(-squares / 2) / np.sqrt(np.linalg.det(2 * np.pi * spread)))


def gaussian_divergence(
    mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike, divergence: str
) -> float:
    """The closed form for two Gaussians: ``"bhattacharyya"``, ``"product:<rho>"``, ``"kl"``, ...

    ∫ p^ρ q^ρ is the constant (2π)^(d/2 - ρd) ρ^(-d/2) times abs(C)^(1/2) abs(Σ_p)^(-ρ/2) abs(Σ_q)^(-ρ/2) exp(-ρ e / 2)
    with C = (Σ_p⁻¹ + Σ_q⁻¹)⁻¹ and e = m_pᵀΣ_p⁻¹m_p + m_qᵀΣ_q⁻¹m_q - bᵀCb, b = Σ_p⁻¹m_p + Σ_q⁻¹m_q (Jebara, Kondor and
    Howard 2004, equation 5).

    Examples
    --------
    >>> pair = [0.0], [[1.0]], [1.0], [[1.0]]
    >>> round(gaussian_divergence(*pair, "bhattacharyya"), 9), round(gaussian_divergence(*pair, "kl"), 9)
    (0.882496903, 0.5)
    """
    m_p, s_p, m_q, s_q = (np.asarray(part, dtype=np.float64) for part in (mean_p, cov_p, mean_q, cov_q))
    if divergence == "bhattacharyya":
        return gaussian_divergence(m_p, s_p, m_q, s_q, "product:0.5")
    if divergence == "hellinger":
        return 1 - gaussian_divergence(m_p, s_p, m_q, s_q, "product:0.5")
    if divergence == "linear":
        return gaussian_divergence(m_p, s_p, m_q, s_q, "product:1")
    if divergence == "l2":
        pp, qq = (gaussian_divergence(m, s, m, s, "linear") for m, s in ((m_p, s_p), (m_q, s_q)))
        return pp + qq - 2 * gaussian_divergence(m_p, s_p, m_q, s_q, "linear")
    if divergence == "skl":
        return gaussian_divergence(m_p, s_p, m_q, s_q, "kl") + gaussian_divergence(m_q, s_q, m_p, s_p, "kl")
    i_p, i_q, d = np.linalg.inv(s_p), np.linalg.inv(s_q), len(m_p)
    if divergence == "kl":
        gap = m_p - m_q
        ratio = np.linalg.det(s_q) / np.linalg.det(s_p)
        return float(np.trace(i_q @ s_p) + gap @ i_q @ gap - d + np.log(ratio)) / 2
    rho = float(divergence.removeprefix("product:"))
    c, b = np.linalg.inv(i_p + i_q), i_p @ m_p + i_q @ m_q
    exponent = m_p @ i_p @ m_p + m_q @ i_q @ m_q - b @ c @ b
    constant = (2 * np.pi) ** (d / 2 - rho * d) * rho ** (-d / 2) * np.sqrt(np.linalg.det(c))
    return float(constant * (np.linalg.det(s_p) * np.linalg.det(s_q)) ** (-rho / 2) * np.exp(-rho * exponent / 2))


def gaussian_divergence_by_integration(
    mean_p: ArrayLike,
    cov_p: ArrayLike,
    mean_q: ArrayLike,
    cov_q: ArrayLike,
    divergence: str,
    n_nodes: int | None = None,
) -> float:
    """The same by integrals of the densities, on a box that holds both to 20 deviations of the wider; d at most 3.

    Examples
    --------
    >>> pair = [0.0], [[1.0]], [1.0], [[1.0]]
    >>> round(gaussian_divergence_by_integration(*pair, "l2"), 9)
    0.124798294
    """
    means = np.array([mean_p, mean_q], dtype=np.float64)
    widest = np.sqrt(np.max([np.diag(np.asarray(cov_p)), np.diag(np.asarray(cov_q))], axis=0))
    bounds = np.stack([means.min(axis=0) - 20 * widest, means.max(axis=0) + 20 * widest], axis=1)
    nodes, volumes = box_quadrature(means.shape[1], bounds=list(bounds), n_nodes=n_nodes)
    p, q = gaussian_pdf(nodes, mean_p, cov_p), gaussian_pdf(nodes, mean_q, cov_q)
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(p, tiny)) - np.log(np.maximum(q, tiny))
    integrands = {
        "bhattacharyya": np.sqrt(p * q),
        "linear": p * q,
        "l2": (p - q) ** 2,
        "kl": p * logs,
        "skl": (p - q) * logs,
    }
    if divergence == "hellinger":
        return float(volumes @ (np.sqrt(p) - np.sqrt(q)) ** 2) / 2
    if divergence.startswith("product:"):
        return float(volumes @ (p * q) ** float(divergence.removeprefix("product:")))
    return float(volumes @ integrands[divergence])


def mixture_log_likelihood(
    points: ArrayLike, weights: ArrayLike | None, alphas: ArrayLike, means: ArrayLike, deviations: ArrayLike
) -> float:
    """Weighted mean of log Σ_k π_k N(x; μ_k, diag σ_k²) with π_k = exp α_k / Σ_l exp α_l.

    ``means`` and ``deviations`` have shape (K, d), ``points`` (n, d).

    Examples
    --------
    >>> round(mixture_log_likelihood([[0.0]], None, [0.0], [[0.0]], [[1.0]]), 6)
    -0.918939
    """
    x, a = np.asarray(points, dtype=np.float64), np.asarray(alphas, dtype=np.float64)
    total = np.zeros(len(x))
    for k, (mean, deviation) in enumerate(zip(np.asarray(means), np.asarray(deviations), strict=True)):
        total += np.exp(a[k]) / np.sum(np.exp(a)) * gaussian_pdf(x, mean, np.diag(deviation**2))
    return float(np.average(np.log(total), weights=None if weights is None else np.asarray(weights)))


def fisher_vector(
    points: ArrayLike,
    weights: ArrayLike | None,
    shares: ArrayLike,
    means: ArrayLike,
    deviations: ArrayLike,
    step: float = 1e-5,
) -> Array:
    """Central differences of the mean log likelihood in α, μ and σ, over roots of their approximate information.

    That is π_k for α_k, π_k / σ_kj² for μ_kj and 2 π_k / σ_kj² for σ_kj. Shape (K + 2 K d,): α first, then μ, then σ.

    Examples
    --------
    >>> fisher_vector([[1.0]], None, [1.0], [[0.0]], [[1.0]]).round(6) + 0.0  # (x - μ)/σ = 1, ((x - μ)²/σ² - 1)/√2 = 0
    array([0., 1., 0.])
    """
    pi = np.asarray(shares, dtype=np.float64)
    mu, sigma = np.asarray(means, dtype=np.float64), np.asarray(deviations, dtype=np.float64)
    alpha, (k, d) = np.log(pi), mu.shape
    widths = np.concatenate([np.ones(k), sigma.ravel(), sigma.ravel()])  # of a step in each parameter
    roots = np.sqrt(np.concatenate([pi, np.repeat(pi, d), 2 * np.repeat(pi, d)]))
    found = np.empty(k + 2 * k * d)
    for i in range(len(found)):
        values = []
        for sign in (1, -1):
            moved = np.concatenate([alpha, mu.ravel(), sigma.ravel()])
            moved[i] += sign * step * widths[i]
            parts = moved[:k], moved[k : k + k * d].reshape(k, d), moved[k + k * d :].reshape(k, d)
            values.append(mixture_log_likelihood(points, weights, *parts))
        found[i] = (values[0] - values[1]) / (2 * step * roots[i])
    return found
