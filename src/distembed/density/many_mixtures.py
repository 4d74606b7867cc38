r"""Gaussian mixtures of many bags at once, by expectation-maximisation from many starts.

The largest log likelihood of 1, 2, ... components for each bag. :class:`~distembed.learners.MixtureComponents` counts
with it, and :class:`~distembed.embeddings.MixtureCurveEmbedding` makes features of it. The density estimate of
:mod:`distembed.density.mixture` has one start for each bag, which is a function of its points.

**Many bags at once.** Mixtures are fitted by expectation-maximisation or its variational Bayesian kin. Everything a
step looks at is linear in the monomials φ(z) = (1, z_i, z_i z_j) of a point:

.. math:: \log π_k N(z; μ_k, Σ_k) = θ_k · φ(z), \qquad s_k = \sum_i w_i r_{ik} φ(z_i),

so both halves of a step are one matrix product a bag, for all restarts together, and the new θ_k is a function of s_k
alone. A variational Bayesian step differs in that function and nowhere else.

**A bag alone.** Arrays are padded to a length that a bag's own size decides, every bag gets the same random numbers,
its points stand in sorted order, and it leaves when it has converged. So its result is the same in any company.

**Coordinates.** Each bag is put in coordinates of its own, of mean zero and covariance the identity. What is fitted
there does not depend on any invertible linear map of the points, nor on offsets, and monomials of such coordinates lose
no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ..bags import Bags
from ..compute.arrays import Array, Scratch
from ..compute.parallel import one_blas_thread, run_chunks

SHORT = 10  # steps after which the better half of the starts go on
_BLOCK = 1024  # points of a bag at a time
_CHUNK_BYTES = 2**23  # of responsibilities at a time: fewer bags have no work for a call of NumPy
_BAGS_AT_ONCE = 256
_FEWER = 0.8  # arrays are made smaller when so few of their bags are left
_LEAST_MASS = 1e-300  # of a component: keeps logarithms finite
_LEAST_VARIANCE = 1e-12  # of a direction, as a share of that of coordinates: below it is rounding
_LEAST_WIDTH = 4 * np.finfo(float).eps  # of a coordinate, as a share of its largest value: below it is rounding


# --------------------------------------------------------------------------------------------------------------
# Points
# --------------------------------------------------------------------------------------------------------------


class Whitened(NamedTuple):
    """Bags of nearly equal size, sorted and padded, in coordinates of their own.

    Attributes
    ----------
    points : ndarray of shape (n_bags, length, n_dims)
        Of mean zero and covariance the identity. Zero where a bag does not vary, and in the padding.
    weights : ndarray of shape (n_bags, length)
        Of sum n, the number of points of the bag; zero in the padding.
    features : ndarray of shape (n_bags, n_monomials, length)
        φ.
    log_det : ndarray of shape (n_bags,)
        Log of dz/dx: what a density of z has to be multiplied by.
    n_distinct : ndarray of shape (n_bags,) of int
        Number of different points.
    """

    points: Array
    weights: Array
    features: Array
    log_det: Array
    n_distinct: Array


def padded_length(sizes: Array) -> Array:
    """The length of the array that a bag goes into: its own size, rounded up by less than an eighth.

    Examples
    --------
    >>> padded_length(np.array([1, 15, 17, 200, 1001]))
    array([   1,   15,   18,  208, 1024])
    """
    grain = np.int64(1) << np.maximum(np.frexp(sizes)[1] - 4, 0)
    return np.asarray(-(-sizes // grain) * grain)


def whiten(bags: Bags) -> Whitened:
    """Sort the points of each bag and put them in coordinates of their own.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero, and all of one :func:`padded_length`.

    Examples
    --------
    >>> found = whiten(Bags.from_arrays([[7.0, 3.0]]))
    >>> found.points[0, :, 0], found.log_det
    (array([-1.,  1.]), array([-0.69314718]))
    """
    sizes = bags.sizes
    shares = bags.shares()
    steps = np.arange(int(padded_length(sizes.max())))
    present = steps < sizes[:, None]
    places = bags.offsets[:-1, None] + np.where(present, steps, 0)
    x = bags.points[places].astype(np.float64)
    mass = present / sizes[:, None] if shares is None else shares[places] * present
    # Whatever order the points came in, they are looked at in this one; the padding stands last.
    order = np.lexsort((*np.moveaxis(x, 2, 0)[::-1], ~present), axis=1)
    x = np.take_along_axis(x, order[:, :, None], axis=1)
    mass = np.take_along_axis(mass, order, axis=1)
    n_distinct = 1 + np.count_nonzero((x[:, 1:] != x[:, :-1]).any(axis=2) & present[:, 1:], axis=1)

    powers = np.frexp(np.abs(x).max(axis=1, keepdims=True))[1]
    x = np.ldexp(x, -powers)  # so that no difference overflows
    x -= x[:, :1].copy()
    x -= np.matmul(mass[:, None, :], x)
    x *= present[:, :, None]
    width = np.abs(x).max(axis=1, keepdims=True)
    varies = width > _LEAST_WIDTH
    x /= np.where(varies, width, np.inf)  # so that no square vanishes
    deviation = np.where(varies, np.sqrt(np.matmul(mass[:, None, :], x * x)), 1.0)
    deviation[deviation == 0] = 1.0  # what varies has no mass to speak of
    x /= deviation
    log_det = -np.where(varies, np.log(deviation * np.where(varies, width, 1.0)) + powers * np.log(2), 0.0).sum((1, 2))
    if bags.n_dims > 1:
        values, axes = np.linalg.eigh(np.matmul((x * mass[:, :, None]).swapaxes(1, 2), x))
        varies = values > _LEAST_VARIANCE
        root = np.sqrt(np.where(varies, values, 1.0))
        x = np.matmul(x, axes * np.where(varies, 1 / root, 0.0)[:, None, :])
        log_det -= np.log(root).sum(axis=1)
    return Whitened(x, mass * sizes[:, None], _monomials(x), log_det, n_distinct)


def _monomials(z: Array) -> Array:
    """φ(z) = (1, z_i, z_i z_j with i <= j), ndarray of shape (n_bags, n_monomials, length)."""
    z = z.swapaxes(1, 2)
    i, j = np.triu_indices(z.shape[1])
    return np.concatenate([np.ones_like(z[:, :1]), z, z[:, i] * z[:, j]], axis=1)


# --------------------------------------------------------------------------------------------------------------
# Starts
# --------------------------------------------------------------------------------------------------------------


def seed_groups(bags: Whitened, draws: Array) -> Array:
    """Groups of points around centres, each drawn by its squared distance to those before it (k-means++).

    Parameters
    ----------
    bags : Whitened
        The bags.
    draws : ndarray of shape (n_init, n_components)
        Numbers in [0, 1), the same for all bags.

    Returns
    -------
    ndarray of shape (n_components, n_bags, n_init, length) of int
        Entry k - 1 holds the groups around the first k centres: starts for every number of components.

    References
    ----------
    Arthur and Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA.
    """
    z = bags.points
    w = bags.weights[:, None, :]
    shape = (len(z), len(draws), z.shape[1])
    squares = np.full(shape, np.inf)
    groups = np.zeros((draws.shape[1], *shape), np.int8)
    chances = np.broadcast_to(w, shape)
    for k, u in enumerate(draws.T):
        cumulated = np.cumsum(chances, axis=2)
        chosen = np.argmax(cumulated > u[:, None] * cumulated[:, :, -1:], axis=2)
        centres = z[np.arange(len(z))[:, None], chosen]
        gaps = np.zeros(shape)
        for j in range(z.shape[2]):
            gaps += (z[:, None, :, j] - centres[:, :, None, j]) ** 2
        nearer = gaps < squares
        groups[k] = np.where(nearer, k, groups[k - 1])
        np.minimum(squares, gaps, out=squares)
        chances = w * squares
    return groups


# --------------------------------------------------------------------------------------------------------------
# From sums s of shape (..., k, n_monomials) to θ of that shape, and to what is added to
# Σ_i w_i log Σ_k exp(θ_k · φ(z_i)), of shape (...)
# --------------------------------------------------------------------------------------------------------------


def _moments(sums: Array) -> tuple[Array, Array, Array]:
    """Masses (n,), sums (n_dims, n) and second sums (n_dims, n_dims, n) of components in a row."""
    flat = np.ascontiguousarray(sums.reshape(-1, sums.shape[-1]).T)
    n_dims = round(np.sqrt(2 * len(flat) + 0.25) - 1.5)  # from 1 + d + d (d + 1) / 2 monomials
    i, j = np.triu_indices(n_dims)
    second = np.empty((n_dims, n_dims, flat.shape[1]))
    second[i, j] = second[j, i] = flat[1 + n_dims :]
    return flat[0], flat[1 : 1 + n_dims], second


def _coefficients(constant: Array, mean: Array, precision: Array, shape: tuple[int, ...]) -> Array:
    """θ of constant - (z - m)ᵀ P (z - m) / 2."""
    i, j = np.triu_indices(len(mean))
    turned = np.einsum("ijn,jn->in", precision, mean)
    quadratic = precision[i, j] * np.where(i == j, -0.5, -1.0)[:, None]
    first = constant - 0.5 * np.einsum("in,in->n", turned, mean)
    return np.ascontiguousarray(np.concatenate([first[None], turned, quadratic]).T).reshape(shape)


def _inverse(matrix: Array) -> tuple[Array, Array]:
    """Inverses and log determinants of positive definite matrices (n_dims, n_dims, n).

    By Cholesky's factors, one column at a time for all matrices: LAPACK takes longer for many small ones.
    """
    n_dims = len(matrix)
    factor = np.zeros_like(matrix)
    inverse = np.zeros_like(matrix)
    for j in range(n_dims):
        column = matrix[j:, j] - np.einsum("ikn,kn->in", factor[j:, :j], factor[j, :j])
        factor[j:, j] = column / np.sqrt(column[0])
        inverse[j, j] = 1 / factor[j, j]
        inverse[j, :j] = -inverse[j, j] * np.einsum("kn,kin->in", factor[j, :j], inverse[:j, :j])
    log_det = 2 * np.log(factor[range(n_dims), range(n_dims)]).sum(axis=0)
    return np.einsum("kin,kjn->ijn", inverse, inverse), log_det


def _clip_eigenvalues(matrix: Array, least: float) -> Array:
    """Symmetric matrices whose eigenvalues are raised to at least ``least``."""
    rest = matrix.copy()
    small = np.zeros(matrix.shape[-1], bool)
    rest[range(len(rest)), range(len(rest))] -= least
    while len(rest):  # pivots of Gauss's elimination: all positive if and only if no eigenvalue is too small
        small |= ~(rest[0, 0] > 0)
        ratio = rest[1:, 0] / np.where(small, 1.0, rest[0, 0])
        rest = rest[1:, 1:] - ratio[:, None] * rest[0, 1:]
    if small.any():
        values, axes = np.linalg.eigh(np.moveaxis(matrix[:, :, small], 2, 0))
        fixed = (axes * np.maximum(values, least)[:, None, :]) @ axes.swapaxes(1, 2)
        matrix = matrix.copy()
        matrix[:, :, small] = np.moveaxis(fixed, 0, 2)
    return matrix


@dataclass(frozen=True)
class Likelihood:
    """Maximum likelihood under the condition that no covariance has an eigenvalue below ``least``.

    Clipping eigenvalues is that maximum: the likelihood never falls, and wider components do not change.
    """

    least: float

    def update(self, sums: Array) -> tuple[Array, Array]:
        """The M step. Nothing is added to the likelihood."""
        mass, first, second = _moments(sums)
        mass = np.maximum(mass, _LEAST_MASS)
        mean = first / mass
        precision, log_det = _inverse(_clip_eigenvalues(second / mass - mean[:, None] * mean, self.least))
        total = sums[..., 0].sum(axis=-1)
        share = np.log(mass).reshape(sums.shape[:-1]) - np.log(total)[..., None]
        constant = share.ravel() - 0.5 * (log_det + len(mean) * np.log(2 * np.pi))
        return _coefficients(constant, mean, precision, sums.shape), np.zeros(total.shape)


@dataclass(frozen=True)
class Bayes:
    r"""Variational Bayes: q(π) q(μ, Σ) under a Dirichlet and Gaussian-Wishart priors.

    π ~ Dirichlet(α₀, …, α₀); Σ_k⁻¹ ~ Wishart(ν₀ = n_dims, mean ν₀ I); μ_k ~ N(0, Σ_k): in the bag's own coordinates
    its mean and covariance.

    The objective is the lower bound of the evidence, Σ_i w_i log Σ_k exp(θ_k · φ(z_i)) - KL(q, prior), which never
    falls.

    References
    ----------
    Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
    """

    alpha: float

    def update(self, sums: Array) -> tuple[Array, Array]:
        """Posteriors, θ from their means, and -KL(q, prior)."""
        mass, first, second = _moments(sums)
        d = len(first)
        beta = 1.0 + mass
        nu = d + mass
        mean = first / beta
        scale, log_det = _inverse(np.eye(d)[:, :, None] + second - beta * mean[:, None] * mean)  # W, and -log |W|
        halves = 0.5 * (nu - np.arange(d)[:, None])
        log_precision = digamma(halves).sum(axis=0) + d * np.log(2) - log_det  # E log |Σ⁻¹|
        alpha = self.alpha + sums[..., 0]
        log_share = digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True))
        constant = log_share.ravel() + 0.5 * (log_precision - d * np.log(2 * np.pi) - d / beta)
        theta = _coefficients(constant, mean, nu * scale, sums.shape)

        gap = np.einsum("in,ijn,jn->n", mean, scale, mean)
        kl = 0.5 * (d * np.log(beta) - d + d / beta + nu * gap)  # of the means
        kl += gammaln(0.5 * (d - np.arange(d))).sum() - gammaln(halves).sum(axis=0)  # of the precisions
        kl += 0.5 * nu * log_det - 0.5 * d * np.log(2) * mass + 0.5 * mass * log_precision - 0.5 * nu * d
        kl += 0.5 * nu * np.einsum("iin->n", scale)
        k = sums.shape[-2]
        prior = gammaln(alpha.sum(axis=-1)) - gammaln(alpha).sum(axis=-1)
        prior += k * gammaln(self.alpha) - gammaln(k * self.alpha)
        prior += ((alpha - self.alpha) * log_share).sum(axis=-1)
        return theta, -(kl.reshape(alpha.shape).sum(axis=-1) + prior)


# --------------------------------------------------------------------------------------------------------------
# Steps
# --------------------------------------------------------------------------------------------------------------


def step(features: Array, weights: Array, theta: Array) -> tuple[Array, Array]:
    """One look at all points: how likely they are, and what the components see of them.

    Parameters
    ----------
    features, weights : ndarray of shape (n_bags, n_monomials, length) and (n_bags, length)
        φ and w.
    theta : ndarray of shape (n_bags, n_init, k, n_monomials)
        θ.

    Returns
    -------
    likelihood : ndarray of shape (n_bags, n_init)
        Σ_i w_i log Σ_k exp(θ_k · φ(z_i)).
    sums : ndarray of shape (n_bags, n_init, k, n_monomials)
        s.
    """
    flat = theta.reshape(len(theta), -1, theta.shape[-1])
    likelihood = np.zeros(theta.shape[:2])
    sums = np.zeros(flat.shape)
    for start in range(0, features.shape[2], _BLOCK):
        block = features[:, :, start : start + _BLOCK]
        w = weights[:, None, start : start + _BLOCK]
        flat_parts = flat @ block
        parts = flat_parts.reshape(*theta.shape[:3], -1)
        top = parts.max(axis=2)
        parts -= top[:, :, None]
        np.exp(parts, out=parts)
        total = parts.sum(axis=2)
        likelihood += (w * (np.log(total) + top)).sum(axis=2)
        parts *= (w / total)[:, :, None]
        sums += flat_parts @ block.swapaxes(1, 2)
    return likelihood, sums.reshape(theta.shape)


def sum_groups(bags: Whitened, groups: Array, k: int) -> Array:
    """Sums s of groups of points, ndarray of shape (n_bags, n_init, k, n_monomials)."""
    w = bags.weights[:, None, :]
    features = bags.features.swapaxes(1, 2)
    return np.stack([((groups == j) * w) @ features for j in range(k)], axis=2)


class Fit(NamedTuple):
    """One mixture per bag.

    Attributes
    ----------
    objective : ndarray of shape (n_bags,)
        The log likelihood of the points z, or the lower bound of the evidence.
    sums : ndarray of shape (n_bags, k, n_monomials)
        s, what the components see.
    n_steps : ndarray of shape (n_bags,) of int
        Steps made from the start that was chosen.
    """

    objective: Array
    sums: Array
    n_steps: Array


def climb(bags: Whitened, sums: Array, model: Likelihood | Bayes, *, max_iter: int, tol: float) -> Fit:
    """Steps from all starts; every ten of them the better half go on, and the last until it gains less than ``tol``.

    Parameters
    ----------
    bags : Whitened
        The bags.
    sums : ndarray of shape (n_bags, n_init, k, n_monomials)
        Starts, see :func:`sum_groups`.
    model : Likelihood or Bayes
        How sums become θ, and what θ itself adds to the objective.
    max_iter, tol : int and float
        When to end.
    """
    features = bags.features
    weights = bags.weights
    rows = np.arange(len(sums))
    made = 0
    last = np.full(len(sums), -np.inf)
    while sums.shape[1] > 1:
        more = min(SHORT, max_iter - made)
        for _ in range(more):
            theta, extra = model.update(sums)
            objective, sums = step(features, weights, theta)
        objective = objective + extra
        made = made + more
        left = -(-sums.shape[1] // 2) if made < max_iter else 1
        best = np.argsort(-objective, axis=1, kind="stable")[:, :left]
        last = objective[rows, best[:, 0]]
        sums = sums[rows[:, None], best]
    fit = Fit(last.copy(), sums[:, 0].copy(), np.full(len(sums), made))
    active = np.ones(len(sums), bool)
    for done in range(made, max_iter):
        theta, extra = model.update(sums)
        objective, sums = step(features, weights, theta)
        now = (objective + extra)[:, 0]
        still = rows[active]
        fit.objective[still] = now[active]
        fit.sums[still] = sums[active, 0]
        fit.n_steps[still] = done + 1
        active &= now - last >= tol
        last = now
        left = np.count_nonzero(active)
        if left == 0:
            break
        if left <= _FEWER * len(rows):
            rows, features, weights, sums, last = (a[active] for a in (rows, features, weights, sums, last))
            active = np.ones(left, bool)
    return fit


# --------------------------------------------------------------------------------------------------------------
# Fits of all bags
# --------------------------------------------------------------------------------------------------------------


def n_parameters(k: Array, n_dims: int) -> Array:
    """Free parameters of mixtures of k components.

    Examples
    --------
    >>> n_parameters(np.array([1, 2]), 2)
    array([ 5, 11])
    """
    return np.asarray(k * (1 + n_dims + n_dims * (n_dims + 1) // 2) - 1)


def log_likelihoods(bags: Bags, draws: Array, reg: float, max_iter: int, tol: float, n_jobs: int | None) -> Array:
    """Largest log likelihoods found for 1, 2, ... components.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    draws : ndarray of shape (n_init, max_components)
        Numbers in [0, 1), see :func:`seed_groups`.
    reg, max_iter, tol, n_jobs
        As in :class:`~distembed.learners.MixtureComponents`.

    Returns
    -------
    ndarray of shape (n_bags, max_components)
        In the units of the points; -inf where a bag has fewer different points than parameters.
    """
    out = np.empty((bags.n_bags, draws.shape[1]))
    model = Likelihood(reg)

    def fit(rows: Array, points: Whitened) -> None:
        constant = points.log_det * bags.sizes[rows]
        out[rows] = best_likelihoods(points, draws, model, max_iter=max_iter, tol=tol) + constant[:, None]

    run_each(bags, draws.size, fit, n_jobs)
    return out


def best_likelihoods(bags: Whitened, draws: Array, model: Likelihood, *, max_iter: int, tol: float) -> Array:
    """Largest log likelihoods of the points z that were found for 1, 2, ... components.

    Parameters
    ----------
    bags : Whitened
        The bags.
    draws, max_iter, tol
        As in :func:`log_likelihoods`.
    model : Likelihood
        The M step.

    Returns
    -------
    ndarray of shape (n_bags, max_components)
        -inf where a bag has fewer different points than parameters.
    """
    most = draws.shape[1]
    out = np.full((len(bags.points), most), -np.inf)
    p = n_parameters(np.arange(1, most + 1), bags.points.shape[2])
    groups = seed_groups(bags, draws)
    start = sum_groups(bags, groups[0, :, :1], 1)
    out[:, 0] = climb(bags, start, model, max_iter=1, tol=0.0).objective  # nothing to iterate
    for k in range(2, most + 1):
        able = bags.n_distinct >= p[k - 1]
        if not able.any():
            break
        some = bags if able.all() else Whitened(*(part[able] for part in bags))
        starts = sum_groups(some, groups[k - 1][able], k)
        out[able, k - 1] = climb(some, starts, model, max_iter=max_iter, tol=tol).objective
    return out


def posterior_masses(bags: Bags, draws: Array, max_iter: int, tol: float, n_jobs: int | None) -> Array:
    """Points that each component of a variational Bayesian mixture holds, ndarray of shape (n_bags, max_components).

    Parameters are those of :func:`log_likelihoods`.
    """
    most = draws.shape[1]
    out = np.empty((bags.n_bags, most))
    model = Bayes(1 / most)

    def fit(rows: Array, points: Whitened) -> None:
        starts = sum_groups(points, seed_groups(points, draws)[-1], most)
        out[rows] = climb(points, starts, model, max_iter=max_iter, tol=tol).sums[:, :, 0]

    run_each(bags, draws.size, fit, n_jobs)
    return out


def run_each(bags: Bags, n_parts: int, fit: Callable[[Array, Whitened], None], n_jobs: int | None) -> None:
    """Call ``fit(rows, points)`` on all bags, those of one padded length at a time, in threads.

    ``n_parts`` is the number of components of all starts, which decides how many bags are taken at a time.
    """
    lengths = padded_length(bags.sizes)
    order = np.argsort(lengths, kind="stable")
    chunks = []
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        at_a_time = int(np.clip(_CHUNK_BYTES // (8 * lengths[same[0]] * n_parts), 1, _BAGS_AT_ONCE))
        chunks += [same[i : i + at_a_time] for i in range(0, len(same), at_a_time)]

    def work(rows: Array, scratch: Scratch) -> None:
        fit(rows, whiten(bags[rows]))

    with one_blas_thread():  # products are small
        run_chunks(work, chunks[::-1], n_jobs)  # the longest first, so that threads end together
