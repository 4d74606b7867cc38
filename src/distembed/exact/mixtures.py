"""Gaussian mixtures of one bag by plain loops: starts, steps of expectation-maximisation and of variational Bayes.

With responsibilities r_ik and weights w_i that sum to n, the M step is

    N_k = Σ_i w_i r_ik,   π_k = N_k / n,   μ_k = Σ_i w_i r_ik x_i / N_k,
    Σ_k = Σ_i w_i r_ik (x_i - μ_k)(x_i - μ_k)ᵀ / N_k

where Σ_k is raised, in as few directions as need it, until Σ_k - reg C is positive semidefinite, C being the covariance
of the whole bag. The E step is r_ik = π_k N(x_i; μ_k, Σ_k) / Σ_l π_l N(x_i; μ_l, Σ_l). Coordinates are as given: C must
be invertible.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, multigammaln
from scipy.stats import multivariate_normal

__all__ = ["information_criteria", "mixture_em", "mixture_seeds", "mixture_variational"]

Array: TypeAlias = NDArray[np.float64]


def _bag(points: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array, Array, Array]:
    """Points (n, d), weights of sum n, and the bag's mean and covariance."""
    x = np.asarray(points, dtype=np.float64)
    x = x[:, None] if x.ndim == 1 else x
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    w = w * len(x) / w.sum()
    mean = w @ x / len(x)
    return x, w, mean, (x - mean).T @ np.diag(w) @ (x - mean) / len(x)


def information_criteria(log_likelihood: float, k: int, n_points: int, n_dims: int) -> tuple[float, float]:
    """AIC and BIC of a mixture of k Gaussians.

    Examples
    --------
    >>> information_criteria(-10.0, 1, 100, 1)
    (24.0, 29.210340371976184)
    """
    parameters = (k - 1) + k * n_dims + k * n_dims * (n_dims + 1) // 2
    return 2 * parameters - 2 * log_likelihood, parameters * math.log(n_points) - 2 * log_likelihood


def mixture_seeds(points: ArrayLike, draws: ArrayLike, weights: ArrayLike | None = None) -> list[list[int]]:
    """Groups of points around 1, 2, ... centres of k-means++ in Mahalanobis distance, given its random numbers.

    Points are looked at in lexicographic order. A centre is the first point at which the sum of w_i D_i² up to it
    exceeds u times the whole, where D_i is the distance to the nearest centre so far (1 for the first).

    Parameters
    ----------
    points : array-like of shape (n, d)
        The bag.
    draws : array-like of shape (n_components,)
        Numbers u in [0, 1), one a centre.
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


def _raised(covariance: Array, least: Array) -> Array:
    """The matrix with eigenvalues relative to ``least`` of at least one."""
    root = np.linalg.cholesky(least)
    back = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(back @ covariance @ back.T)
    return np.asarray(root @ vectors @ np.diag(np.maximum(values, 1.0)) @ vectors.T @ root.T)


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
        density = np.array([math.fsum(np.exp(row - row.max())) for row in joint])
        log_density = np.log(density) + joint.max(axis=1)
        found.append(float(w @ log_density))
        responsibilities = np.exp(joint - log_density[:, None])
    return found


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
    d, k_all = x.shape[1], range(n_components)
    w0 = np.linalg.inv(c)  # the prior's W
    r = np.eye(n_components)[np.asarray(groups)]
    bounds = []

    def log_b(matrix: NDArray[np.floating[Any]], nu: float) -> float:
        log_det = np.linalg.slogdet(matrix)[1]
        return float(-0.5 * nu * log_det - 0.5 * nu * d * np.log(2) - multigammaln(0.5 * nu, d))

    for _ in range(n_steps):
        mass = w @ r
        a, beta, nu = alpha + mass, 1 + mass, d + mass
        log_pi = digamma(a) - digamma(a.sum())
        log_rho = np.empty_like(r)
        means, scales, log_lambdas = [], [], []
        for k in k_all:
            mean = (m0 + (w * r[:, k]) @ x) / beta[k]
            inverse = c + (x - mean).T @ np.diag(w * r[:, k]) @ (x - mean) + np.outer(mean - m0, mean - m0)
            scale = np.linalg.inv(inverse)
            halves = [digamma(0.5 * (nu[k] + 1 - i)) for i in range(1, d + 1)]
            log_lambda = sum(halves) + d * np.log(2) + np.linalg.slogdet(scale)[1]
            gaps = np.array([d / beta[k] + nu[k] * (row - mean) @ scale @ (row - mean) for row in x])
            log_rho[:, k] = log_pi[k] + 0.5 * log_lambda - 0.5 * d * np.log(2 * np.pi) - 0.5 * gaps
            means.append(mean)
            scales.append(scale)
            log_lambdas.append(log_lambda)
        top = log_rho.max(axis=1, keepdims=True)
        r = np.exp(log_rho - top)
        r /= r.sum(axis=1, keepdims=True)
        safe = np.where(r > 0, r, 1.0)
        bound = float(w @ (r * (log_rho - np.log(safe))).sum(axis=1))  # E log p(x, z) - E log q(z)
        log_c = gammaln(a.sum()) - gammaln(a).sum()
        log_c0 = gammaln(n_components * alpha) - n_components * gammaln(alpha)
        bound += float(log_c0 - log_c + ((alpha - a) * log_pi).sum())  # E log p(π) - E log q(π)
        for k in k_all:
            gap = nu[k] * (means[k] - m0) @ scales[k] @ (means[k] - m0)
            prior = 0.5 * (-d * np.log(2 * np.pi) + log_lambdas[k] - d / beta[k] - gap) + log_b(w0, d)
            prior += -0.5 * log_lambdas[k] - 0.5 * nu[k] * np.trace(c @ scales[k])  # (ν₀ - d - 1) / 2 = -1/2
            entropy = -log_b(scales[k], nu[k]) - 0.5 * (nu[k] - d - 1) * log_lambdas[k] + 0.5 * nu[k] * d
            posterior = 0.5 * (log_lambdas[k] + d * np.log(beta[k] / (2 * np.pi)) - d) - entropy
            bound += float(prior - posterior)
        bounds.append(bound)
    return bounds, np.asarray(w @ r)
