r"""How many Gaussian components a bag has: mixtures fitted to every bag, and a criterion that counts.

.. math:: \mathrm{AIC} = 2 p - 2 L, \qquad \mathrm{BIC} = p \log n - 2 L, \qquad p = k (1 + d + d (d + 1) / 2) - 1

with the largest log likelihood L of k components in d dimensions, and the smallest value wins. That takes no training
bags, and is what a regression on embeddings has to beat (section "Estimating the Number of Mixture Components" of
Sutherland et al. 2016).

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
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagEstimator, ScoredById, check_bags, refuse_other_order
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_number
from ..compute.parallel import n_threads, one_blas_thread, run_chunks
from ..compute.registry import storable

CRITERIA = ("aic", "bic", "bayes")
MOST_COMPONENTS = 100
LEAST_SHARE = 0.01  # of the points: what "bayes" counts as a component
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
# What becomes of sums s of shape (..., k, n_monomials): θ of that shape, and what is to be added to
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
    """The same symmetric matrices with eigenvalues of at least ``least``."""
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
        Numbers in [0, 1), see :func:`distembed.learners.mixture_components.seed_groups`.
    reg, max_iter, tol, n_jobs
        As in :class:`MixtureComponents`.

    Returns
    -------
    ndarray of shape (n_bags, max_components)
        In the units of the points; -inf where a bag has fewer different points than parameters.
    """
    most = draws.shape[1]
    out = np.full((bags.n_bags, most), -np.inf)
    model = Likelihood(reg)
    p = n_parameters(np.arange(1, most + 1), bags.n_dims)

    def fit(rows: Array, points: Whitened) -> None:
        constant = points.log_det * bags.sizes[rows]
        groups = seed_groups(points, draws)
        one = climb(points, sum_groups(points, groups[0, :, :1], 1), model, max_iter=1, tol=0.0)  # nothing to iterate
        out[rows, 0] = one.objective + constant
        for k in range(2, most + 1):
            able = points.n_distinct >= p[k - 1]
            if not able.any():
                break
            some = points if able.all() else Whitened(*(part[able] for part in points))
            found = climb(some, sum_groups(some, groups[k - 1][able], k), model, max_iter=max_iter, tol=tol)
            out[rows[able], k - 1] = found.objective + constant[able]

    _run_each(bags, draws, fit, n_jobs)
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

    _run_each(bags, draws, fit, n_jobs)
    return out


def _run_each(bags: Bags, draws: Array, fit: Callable[[Array, Whitened], None], n_jobs: int | None) -> None:
    """Call ``fit(rows, points)`` on all bags, those of one padded length at a time, in threads."""
    lengths = padded_length(bags.sizes)
    order = np.argsort(lengths, kind="stable")
    chunks = []
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        at_a_time = int(np.clip(_CHUNK_BYTES // (8 * lengths[same[0]] * draws.size), 1, _BAGS_AT_ONCE))
        chunks += [same[i : i + at_a_time] for i in range(0, len(same), at_a_time)]

    def work(rows: Array, scratch: Scratch) -> None:
        fit(rows, whiten(bags[rows]))

    with one_blas_thread():  # products are small
        run_chunks(work, chunks[::-1], n_jobs)  # the longest first, so that threads end together


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


class MixtureCriteria(NamedTuple):
    """What mixtures of every number of components say about bags.

    Attributes
    ----------
    aic, bic : ndarray of shape (n_bags, max_components)
        Akaike's and the Bayesian information criterion; inf where a bag has too few points.
    log_likelihood : ndarray of shape (n_bags, max_components)
        L, in the units of the points; -inf where a bag has too few points.
    n_components : ndarray of shape (max_components,) of int
        k of the columns: 1, 2, ...
    n_parameters : ndarray of shape (max_components,) of int
        p of the columns.

    Examples
    --------
    >>> from distembed.learners.mixture_components import MixtureComponents
    >>> bags = np.random.default_rng(0).normal(size=(3, 50, 2))
    >>> found = MixtureComponents(max_components=2).fit(bags).criteria(bags)
    >>> np.allclose(found.aic, 2 * found.n_parameters - 2 * found.log_likelihood), found.n_parameters
    (True, array([ 5, 11]))
    """

    aic: Array
    bic: Array
    log_likelihood: Array
    n_components: Array
    n_parameters: Array


@storable(_draws="finite(_, _)")
class MixtureComponents(ScoredById, RegressorMixin, BagEstimator):
    r"""The number of Gaussian components of each bag, by mixtures fitted to that bag alone.

    Nothing is learned: ``fit`` checks parameters and draws the random numbers of starts.

    Parameters
    ----------
    criterion : {"aic", "bic", "bayes"}, default="aic"
        - ``"aic"``, ``"bic"``: the k with the least AIC or BIC of maximum likelihood mixtures, see the module.
        - ``"bayes"``: one variational Bayesian mixture of ``max_components`` components; those count that hold more
          than 1 % of the points and more than one point.
    max_components : int, default=10
        Largest number, at most 100.
    n_init : int, default=8
        Starts (k-means++). Every ten steps the better half of them go on, until one is left.
    max_iter : int, default=300
        Most steps.
    tol : float, default=0.01
        Steps end when one adds less than this to L, or to the lower bound of the evidence. Not divided by the number of
        points: criteria differ by units of L.
    reg : float, default=1e-3
        Least variance of a component in any direction, as a share of the bag's in that direction, in [1e-8, 1]: 3 % of
        a deviation, which tells some thirty components in a row apart. Without it a component on a few points in a row
        has an infinite likelihood; the smaller it is, the more such components AIC finds. ``"bayes"`` has its prior
        instead.
    random_state : int, RandomState or None, default=None
        Draws the numbers from which all bags start.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Weights* of points count in the likelihood, scaled to a sum of n, the number of points of the bag that weigh
    anything. So n is no number of copies: every point twice is twice the evidence.

    *Too few points.* More components than one need at least as many different points as parameters, p; else their
    criteria are inf. A single point, or copies of one, have one component.

    *Units.* Every bag is fitted in coordinates in which its mean is zero and its covariance the identity. Neither units
    nor offsets of coordinates change the answer, and but for the starts no invertible linear map does. A
    direction in which a bag does not vary tells nothing: its likelihood there is that of ``reg``, for every k.

    *A bag alone.* All bags start from the same random numbers and their points are sorted first. So an answer depends
    on neither the order of points nor other bags nor the number of threads.

    *Priors* of ``"bayes"``: π ~ Dirichlet(1 / max_components, …); a component's mean has the bag's mean, with the
    weight of one point; its precision is a Wishart matrix of n_dims degrees of freedom around the inverse of the bag's
    covariance (those of scikit-learn's ``BayesianGaussianMixture``). Components that the data don't need lose all
    their points.

    *Cost* a bag: a step of k components takes n k exponentials and n k (d + 1) (d + 2) multiplications. There are some
    20 ``n_init`` of them for each k while starts compete, and then some tens; k = 1, ..., 10 makes 55 n exponentials.
    ``"bayes"`` has the steps of k = ``max_components`` alone, a fifth of that. Memory: the result, some tens of
    megabytes a thread, and for a large bag some 10 d² + (50 + ``max_components``) ``n_init`` bytes per point.

    *Limits.* The likelihood has many maxima, and steps find one of them. More starts and a smaller ``tol`` find higher
    ones, for large k above all, and AIC then chooses more components: it is not made for models that are not regular,
    as mixtures are not. BIC asks for more evidence than two hundred points of ten overlapping components have.

    ``score`` is R², as of any regressor; ``scoring="neg_root_mean_squared_error"`` gives errors as they are reported in
    the paper. ``transform`` gives the number as one feature.

    References
    ----------
    Akaike (1974). A new look at the statistical model identification. IEEE Transactions on Automatic Control.

    Schwarz (1978). Estimating the dimension of a model. Annals of Statistics.

    Biernacki, Celeux and Govaert (2003). Choosing starting values for the EM algorithm for getting the highest
    likelihood in multivariate Gaussian mixture models. Computational Statistics & Data Analysis.

    Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.

    Examples
    --------
    >>> from distembed.learners.mixture_components import MixtureComponents
    >>> rng = np.random.default_rng(0)
    >>> one = rng.normal(size=(60, 2))
    >>> three = one + 20 * rng.permutation(np.repeat(np.eye(3, 2), 20, axis=0))
    >>> MixtureComponents("bic", random_state=0).fit([one, three]).predict([one, three])
    array([1, 3])
    """

    def __init__(
        self,
        criterion: str = "aic",
        *,
        max_components: int = 10,
        n_init: int = 8,
        max_iter: int = 300,
        tol: float = 0.01,
        reg: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.max_components = max_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg = reg
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Self:
        """Check parameters and the width of points, and draw the random numbers of starts.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags.
        y : Ignored

        Returns
        -------
        self
        """
        size = self._check_parameters()
        refuse_other_order(y, check_bags(self, X, reset=True), type(self).__name__)
        self._draws = check_random_state(self.random_state).uniform(size=size)
        self._n_features_out = 1
        return self

    def _check_parameters(self) -> tuple[int, int]:
        """Check all parameters; returns the numbers of starts and of components."""
        check_choice(self, "criterion", self.criterion, CRITERIA)
        most = check_number(self, "max_components", self.max_components, low=1, high=MOST_COMPONENTS, integer=True)
        n_init = check_number(self, "n_init", self.n_init, low=1, high=1000, integer=True)
        check_number(self, "max_iter", self.max_iter, low=1, high=100_000, integer=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "reg", self.reg, low=1e-8, high=1)
        n_threads(self.n_jobs)
        return n_init, most

    def __distembed_fits__(self) -> bool:
        return bool(self._draws.shape == self._check_parameters())

    def __distembed_claims__(self) -> tuple[float, int]:
        return 16.0 * self._draws.size * self.n_features_in_**2, self.max_components

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The number of components of each bag.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags,) of int
            From 1 to ``max_components``.
        """
        bags = self._check_input(X)
        if self.criterion == "bayes":
            return self._count_by_bayes(bags)
        # In float64: criteria of float32 bags are rounded only when they are handed out.
        return np.asarray(np.argmin(getattr(self._criteria(bags), self.criterion), axis=1) + 1)

    def scores(self, X: Any) -> Array:
        """The criterion for every number of components; the least wins.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, max_components)
            AIC or BIC of 1, 2, ... components; inf where a bag has too few points. float32 for float32 points. An error
            for ``"bayes"``, which fits one mixture alone.
        """
        bags = self._check_input(X)
        if self.criterion == "bayes":
            raise ValueError(
                "MixtureComponents(criterion=...): must be 'aic' or 'bic' for scores, got 'bayes', which fits a single "
                "mixture; use criteria or predict"
            )
        return np.asarray(getattr(self._criteria(bags), self.criterion).astype(bags.dtype, copy=False))

    def criteria(self, X: Any) -> MixtureCriteria:
        """AIC, BIC and log likelihoods from one set of fits, whatever ``criterion`` is.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        MixtureCriteria
            ``aic``, ``bic`` and ``log_likelihood`` of shape (n_bags, max_components), float32 for float32 points.
        """
        bags = self._check_input(X)
        found = self._criteria(bags)
        cast = (values.astype(bags.dtype, copy=False) for values in found[:3])
        return MixtureCriteria._make([*cast, *found[3:]])

    def transform(self, X: Any) -> Array:
        """The number of components as a feature, e.g. beside those of an embedding.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, 1)
            float32 for float32 points, else float64.
        """
        bags = self._check_input(X)
        return self.predict(bags)[:, None].astype(bags.dtype)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """The name ``n_components_aic``, or that of another criterion.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (1,) of str objects
        """
        check_is_fitted(self)
        return np.array([f"n_components_{self.criterion}"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _check_input(self, X: Any) -> Bags:
        check_is_fitted(self)
        return check_bags(self, X, reset=False)

    def _criteria(self, bags: Bags) -> MixtureCriteria:
        """Criteria in float64."""
        bags = bags.drop_weightless()
        likelihood = log_likelihoods(bags, self._draws, self.reg, self.max_iter, self.tol, self.n_jobs)
        k = np.arange(1, likelihood.shape[1] + 1)
        p = n_parameters(k, bags.n_dims)
        log_n = np.log(bags.sizes)[:, None]
        return MixtureCriteria(2 * p - 2 * likelihood, p * log_n - 2 * likelihood, likelihood, k, p)

    def _count_by_bayes(self, bags: Bags) -> NDArray[np.int64]:
        bags = bags.drop_weightless()
        masses = posterior_masses(bags, self._draws, self.max_iter, self.tol, self.n_jobs)
        large = masses > np.maximum(1.0, LEAST_SHARE * bags.sizes)[:, None]
        return np.asarray(np.maximum(1, np.count_nonzero(large, axis=1)))
