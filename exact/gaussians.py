r"""Gaussian fits and their divergences, and mixtures of Gaussians by plain loops.

Fits and divergences are their definitions: moments by loops over bags, integrals on a grid, closed forms by inverse and
determinant, and gradients of a mixture's log likelihood as differences.

Mixtures of one bag: with responsibilities r_ik and weights w_i that sum to n, the M step is

    N_k = Σ_i w_i r_ik,   π_k = N_k / n,   μ_k = Σ_i w_i r_ik x_i / N_k,
    Σ_k = Σ_i w_i r_ik (x_i - μ_k)(x_i - μ_k)ᵀ / N_k

where Σ_k is raised, in as few directions as need it, until Σ_k - reg C is positive semidefinite, C being the covariance
of the whole bag. The E step is r_ik = π_k N(x_i; μ_k, Σ_k) / Σ_l π_l N(x_i; μ_l, Σ_l). Coordinates are as given: C must
be invertible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, entr, gammaln, logsumexp, multigammaln, softmax
from scipy.stats import dirichlet, multivariate_normal, wishart

from .distances import box_quadrature
from .moments import Array, bag_covariance, bag_mean, derivatives, weighted

__all__ = [
    "fisher_vector", "gaussian_divergence", "gaussian_divergence_by_integration", "gaussian_fits",
    "information_criteria", "mixture_em", "mixture_seeds", "mixture_variational",
]  # fmt: skip


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
    given = [None] * len(bags) if weights is None else weights
    means = [bag_mean(*pair) for pair in zip(bags, given, strict=True)]
    inside = [bag_covariance(*pair) for pair in zip(bags, given, strict=True)]
    pooled = np.mean(inside, axis=0) + reg * np.atleast_2d(np.cov(np.array(means).T, ddof=0))
    found = [(1 - reg) * own + reg * pooled for own in inside]
    if covariance == "diag":
        found = [np.diag(np.diag(own)) for own in found]
    return list(zip(means, found, strict=True))


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
    p = np.asarray(mean_p, dtype=np.float64), np.asarray(cov_p, dtype=np.float64)
    q = np.asarray(mean_q, dtype=np.float64), np.asarray(cov_q, dtype=np.float64)
    return {
        "product": lambda: _product(*p, *q, float(divergence.partition(":")[2])),
        "bhattacharyya": lambda: _product(*p, *q, 0.5),
        "hellinger": lambda: 1 - _product(*p, *q, 0.5),
        "linear": lambda: _product(*p, *q, 1.0),
        "l2": lambda: _product(*p, *p, 1.0) + _product(*q, *q, 1.0) - 2 * _product(*p, *q, 1.0),
        "kl": lambda: _kl(*p, *q),
        "skl": lambda: _kl(*p, *q) + _kl(*q, *p),
    }[divergence.partition(":")[0]]()


def _kl(m_p: Array, s_p: Array, m_q: Array, s_q: Array) -> float:
    gap = m_p - m_q
    i_q = np.linalg.inv(s_q)
    ratio = np.linalg.det(s_q) / np.linalg.det(s_p)
    return float(np.trace(i_q @ s_p) + gap @ i_q @ gap - len(gap) + np.log(ratio)) / 2


def _product(m_p: Array, s_p: Array, m_q: Array, s_q: Array, rho: float) -> float:
    i_p = np.linalg.inv(s_p)
    i_q = np.linalg.inv(s_q)
    d = len(m_p)
    c = np.linalg.inv(i_p + i_q)
    b = i_p @ m_p + i_q @ m_q
    exponent = m_p @ i_p @ m_p + m_q @ i_q @ m_q - b @ c @ b
    constant = (2 * np.pi) ** (d / 2 - rho * d) * rho ** (-d / 2) * np.sqrt(np.linalg.det(c))
    return float(constant * (np.linalg.det(s_p) * np.linalg.det(s_q)) ** (-rho / 2) * np.exp(-rho * exponent / 2))


def gaussian_divergence_by_integration(
    mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike, divergence: str
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
    nodes, volumes = box_quadrature(means.shape[1], bounds=list(bounds))
    p = multivariate_normal(mean_p, cov_p).pdf(nodes)
    q = multivariate_normal(mean_q, cov_q).pdf(nodes)
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(p, tiny)) - np.log(np.maximum(q, tiny))
    name, _, rho = divergence.partition(":")
    integrands = {
        "product": (p * q) ** float(rho or 1),
        "bhattacharyya": np.sqrt(p * q),
        "hellinger": (np.sqrt(p) - np.sqrt(q)) ** 2 / 2,
        "linear": p * q,
        "l2": (p - q) ** 2,
        "kl": p * logs,
        "skl": (p - q) * logs,
    }
    return float(volumes @ integrands[name])


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
    x = np.asarray(points, dtype=np.float64)
    a = np.asarray(alphas, dtype=np.float64)
    pairs = zip(np.asarray(means), np.asarray(deviations), strict=True)
    parts = [multivariate_normal(mean, np.diag(deviation**2)).pdf(x) for mean, deviation in pairs]
    total = softmax(a) @ np.reshape(parts, (len(a), len(x)))
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
    mu = np.asarray(means, dtype=np.float64)
    sigma = np.asarray(deviations, dtype=np.float64)
    k = len(pi)
    shape = mu.shape

    def likelihood(row: Array) -> float:
        alpha = row[:k]
        m, s = np.reshape(row[k:], (2, *shape))
        return mixture_log_likelihood(points, weights, alpha, m, s)

    at = np.concatenate([np.log(pi), mu.ravel(), sigma.ravel()])
    widths = np.concatenate([np.ones(k), sigma.ravel(), sigma.ravel()])  # of a step in each parameter
    each = np.repeat(pi, shape[1])
    slopes = derivatives(lambda rows: [likelihood(row) for row in rows], at, step * widths)
    return np.asarray(slopes * widths / np.sqrt(np.concatenate([pi, each, 2 * each])))


def information_criteria(log_likelihood: float, k: int, n_points: int, n_dims: int) -> tuple[float, float]:
    """AIC and BIC of a mixture of k Gaussians.

    Examples
    --------
    >>> information_criteria(-10.0, 1, 100, 1)
    (24.0, 29.210340371976184)
    """
    parameters = (k - 1) + k * n_dims + k * n_dims * (n_dims + 1) // 2
    return 2 * parameters - 2 * log_likelihood, parameters * math.log(n_points) - 2 * log_likelihood


def _bag(points: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array, Array, Array]:
    """Points (n, d), weights of sum n, and the bag's mean and covariance."""
    x, w = weighted(points, weights)
    return x, w * len(x) / w.sum(), bag_mean(x, w), bag_covariance(x, w)


def mixture_seeds(points: ArrayLike, draws: ArrayLike, weights: ArrayLike | None = None) -> list[list[int]]:
    """Groups of points around 1, 2, ... centres of k-means++ in Mahalanobis distance, given its random numbers.

    Points are looked at in lexicographic order. A centre is the first point at which the sum of w_i D_i² up to it
    exceeds u times the whole, where D_i is the distance to the nearest centre so far (1 for the first).

    Parameters
    ----------
    points : array-like of shape (n, d)
        The bag.
    draws : array-like of shape (n_components,)
        Numbers u in [0, 1), one per centre.
    weights : array-like of shape (n,), optional
        Of the points.

    Returns
    -------
    list of list of int
        For k = 1, 2, ...: the group of each point, in the order given.

    Examples
    --------
    >>> mixture_seeds([5.0, 0.0, 6.0, 1.0], [0.1, 0.5])
    [[0, 0, 0, 0], [1, 0, 1, 0]]
    """
    x, w, _, covariance = _bag(points, weights)
    precision = np.linalg.inv(covariance)
    order = sorted(range(len(x)), key=lambda i: tuple(x[i]))
    centres: list[int] = []
    found = []

    def square(i: int, j: int) -> float:
        return float((x[i] - x[j]) @ precision @ (x[i] - x[j]))

    for u in np.asarray(draws, dtype=np.float64):
        chances = [w[i] * (min(square(i, c) for c in centres) if centres else 1.0) for i in order]
        running = np.cumsum(chances)
        centres.append(order[int(np.flatnonzero(running > u * running[-1])[0])])
        found.append([int(np.argmin([square(i, c) for c in centres])) for i in range(len(x))])
    return found


def mixture_em(
    points: ArrayLike,
    groups: ArrayLike,
    n_steps: int,
    reg: float,
    weights: ArrayLike | None = None,
    covariance: str = "full",
) -> list[float]:
    """Log likelihoods of a bag after each of some steps of expectation-maximisation.

    Parameters
    ----------
    points : array-like of shape (n, d)
        The bag.
    groups : array-like of shape (n,) of int
        The group that each point is in at the start, from 0.
    n_steps : int
        M steps.
    reg : float
        Least covariance, as a share of the bag's.
    weights : array-like of shape (n,), optional
        Of the points.
    covariance : {"full", "diag"}
        Covariance matrices, or variances alone.

    Returns
    -------
    list of float
        Σ_i w_i log p(x_i).

    Examples
    --------
    >>> [round(value, 3) for value in mixture_em([0.0, 1.0, 5.0, 6.0], [0, 0, 1, 1], 2, reg=1e-3)]
    [-5.676, -5.676]
    """
    x, w, _, whole = _bag(points, weights)
    responsibilities = np.eye(int(np.max(groups)) + 1)[np.asarray(groups)]
    found = []
    for _ in range(n_steps):
        joint = np.empty_like(responsibilities)
        for k in range(responsibilities.shape[1]):
            mass = w * responsibilities[:, k]
            mean = mass @ x / mass.sum()
            scatter = (x - mean).T @ np.diag(mass) @ (x - mean) / mass.sum()
            if covariance == "diag":
                scatter = np.diag(np.maximum(np.diag(scatter), reg * np.diag(whole)))
            else:
                scatter = _raised(scatter / reg, whole) * reg
            joint[:, k] = np.log(mass.sum() / len(x)) + multivariate_normal(mean, scatter).logpdf(x)
        log_density = logsumexp(joint, axis=1)
        found.append(float(w @ log_density))
        responsibilities = np.exp(joint - log_density[:, None])
    return found


def _raised(covariance: Array, least: Array) -> Array:
    """The matrix with eigenvalues relative to ``least`` of at least one."""
    root = np.linalg.cholesky(least)
    back = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(back @ covariance @ back.T)
    return np.asarray(root @ vectors @ np.diag(np.maximum(values, 1.0)) @ vectors.T @ root.T)


def mixture_variational(
    points: ArrayLike,
    groups: ArrayLike,
    n_steps: int,
    alpha: float,
    n_components: int,
    weights: ArrayLike | None = None,
) -> tuple[list[float], Array]:
    """Lower bounds of the evidence after each of some variational steps, and the points that components hold.

    π ~ Dirichlet(α, …), Σ_k⁻¹ ~ Wishart(d, C⁻¹), μ_k ~ N(m, Σ_k) with mean m and covariance C of the bag; all terms as
    in Bishop (2006), equations 10.71 to 10.77.

    Parameters
    ----------
    points, groups, n_steps, weights
        As in :func:`mixture_em`.
    alpha : float
        α.
    n_components : int
        Number of components; some may be empty.

    Returns
    -------
    bounds : list of float
    masses : ndarray of shape (n_components,)
        N_k after the last step.

    Examples
    --------
    >>> bounds, masses = mixture_variational([0.0, 1.0, 50.0, 51.0], [0, 0, 1, 1], 5, 1.0, 2)
    >>> masses.round(1)
    array([2., 2.])
    """
    x, w, m0, c = _bag(points, weights)
    d = x.shape[1]
    r = np.eye(n_components)[np.asarray(groups)]
    bounds = []
    log_b = (
        0.5 * d * np.linalg.slogdet(c)[1] - 0.5 * d**2 * np.log(2) - multigammaln(0.5 * d, d)
    )  # of the prior's Wishart
    log_c = gammaln(n_components * alpha) - n_components * gammaln(alpha)  # of its Dirichlet
    for _ in range(n_steps):
        mass = w @ r
        a = alpha + mass
        beta = 1 + mass
        nu = d + mass
        log_pi = digamma(a) - digamma(a.sum())
        bound = log_c + (alpha - 1) * log_pi.sum() + dirichlet(a).entropy()  # E log p(π) - E log q(π)
        log_rho = np.empty_like(r)
        for k in range(n_components):
            mean = (m0 + (w * r[:, k]) @ x) / beta[k]
            shift = mean - m0
            scale = np.linalg.inv(c + (x - mean).T @ np.diag(w * r[:, k]) @ (x - mean) + np.outer(shift, shift))
            halves = [digamma(0.5 * (nu[k] + 1 - i)) for i in range(1, d + 1)]
            log_lambda = sum(halves) + d * np.log(2) + np.linalg.slogdet(scale)[1]
            gaps = np.array([d / beta[k] + nu[k] * (row - mean) @ scale @ (row - mean) for row in x])
            log_rho[:, k] = log_pi[k] + 0.5 * log_lambda - 0.5 * d * np.log(2 * np.pi) - 0.5 * gaps
            # E log p(μ, Λ) - E log q(μ, Λ); (ν₀ - d - 1) / 2 = -1/2
            bound += 0.5 * (log_lambda - d * np.log(2 * np.pi) - d / beta[k] - nu[k] * shift @ scale @ shift)
            bound += log_b - 0.5 * log_lambda - 0.5 * nu[k] * np.trace(c @ scale)
            bound += wishart(nu[k], scale).entropy() - 0.5 * (log_lambda + d * np.log(beta[k] / (2 * np.pi)) - d)
        r = softmax(log_rho, axis=1)
        bounds.append(float(bound + w @ (r * log_rho + entr(r)).sum(axis=1)))  # E log p(x, z) - E log q(z)
    return bounds, np.asarray(w @ r)
