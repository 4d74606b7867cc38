r"""Gaussian mixtures: a few blobs instead of a kernel at every point.

.. math:: \hat p(u) \propto \sum_k \pi_k N(u; \mu_k, \Sigma_k) \quad \text{on the cube},

fitted to each bag by expectation-maximisation with point weights. Three things are done here that scikit-learn's
``GaussianMixture`` does not do, and that a distance between bags needs:

- points have weights, and a weight of two is two copies;
- the start is a function of the distribution alone (the heaviest spread is halved, again and again, across its
  principal axis), so neither the order of points nor a random number decides which maximum is found;
- a covariance has no eigenvalue below a given one. Clipping the eigenvalues in the M step is the maximum of the
  likelihood under that condition, so wider components are not changed at all.

Cost: O(n_points n_components n_dims²) a round and bag, some tens of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import storable
from .estimate import MASS_DRAWS, Density, distinct_points, draw_inside, mass_inside, register

MOST_COMPONENTS = 5  # tried by "bic"


class Components(NamedTuple):
    """A Gaussian mixture: shares (k,), means (k, n_dims), covariances as eigenvalues (k, n_dims) and axes."""

    shares: Array
    means: Array
    variances: Array
    axes: Array

    def log_parts(self, u: Array) -> Array:
        """Log of π_k N(u; μ_k, Σ_k), ndarray of shape (n, k)."""
        scaled = (u - self.means[:, None]) @ self.axes / np.sqrt(self.variances)[:, None]
        squares = np.einsum("kni,kni->nk", scaled, scaled)
        return np.asarray(np.log(self.shares) - 0.5 * (squares + np.sum(np.log(2 * np.pi * self.variances), axis=1)))


def _log_sum(parts: Array) -> Array:
    """Log of the sum of exponentials along rows; SciPy's takes several times as long for so few columns."""
    top = parts.max(axis=1)
    return np.asarray(top + np.log(np.exp(parts - top[:, None]).sum(axis=1)))


def _maximise(points: Array, mass: Array, responsibilities: Array, floor: float) -> Components:
    """The M step: shares, means and covariances of soft groups of points."""
    weights = mass[:, None] * responsibilities
    shares = np.maximum(weights.sum(axis=0), 1e-300)
    means = (weights.T @ points) / shares[:, None]
    gap = points - means[:, None]
    scatter = np.swapaxes(gap * (weights.T / shares[:, None])[:, :, None], 1, 2) @ gap
    variances, axes = np.linalg.eigh(scatter)
    return Components(shares / shares.sum(), means, np.maximum(variances, floor), axes)


def _start(points: Array, mass: Array, n_components: int) -> Array:
    """Groups of points, as responsibilities of shape (n_points, n_components): spreads halved, the heaviest first."""
    group = np.zeros(len(points), int)
    for new in range(1, n_components):
        spread = []
        axis = []
        centre = []
        for k in range(new):
            own = group == k
            share = mass[own].sum()
            mean = mass[own] @ points[own] / share
            gap = points[own] - mean
            values, vectors = np.linalg.eigh(gap.T @ (gap * mass[own, None]))
            spread.append(values[-1])
            axis.append(vectors[:, -1] * np.where(vectors[np.argmax(np.abs(vectors[:, -1])), -1] < 0, -1, 1))
            centre.append(mean)
        k = int(np.argmax(spread))
        group[(group == k) & ((points - centre[k]) @ axis[k] > 1e-12)] = new
    return np.eye(n_components)[group]


def fit_mixture(
    points: Array, mass: Array, n_components: int, *, floor: float, max_iter: int = 100, tol: float = 1e-4
) -> tuple[Components, float]:
    """Maximum likelihood mixture of weighted points by expectation-maximisation.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        All different, see :func:`distembed.density.estimate.distinct_points`.
    mass : ndarray of shape (n_points,)
        Positive, of sum one.
    n_components : int
        At most as many as there are points.
    floor : float
        Least eigenvalue of a covariance.
    max_iter, tol
        Ends when the mean log likelihood gains less than ``tol``, or after ``max_iter`` rounds.

    Returns
    -------
    components : Components
    log_likelihood : float
        Mean over the mass.

    Examples
    --------
    >>> points = np.array([[0.1], [0.2], [0.8], [0.9]])
    >>> fitted, _ = fit_mixture(points, np.full(4, 0.25), 2, floor=1e-4)
    >>> fitted.means.ravel().round(2), fitted.shares.round(2)
    (array([0.15, 0.85]), array([0.5, 0.5]))
    """
    responsibilities = _start(points, mass, n_components)
    before = -np.inf
    for _ in range(max_iter):
        components = _maximise(points, mass, responsibilities, floor)
        parts = components.log_parts(points)
        total = _log_sum(parts)
        now = float(mass @ total)
        if n_components == 1 or now - before < tol:
            break
        before = now
        responsibilities = np.exp(parts - total[:, None])
    return components, now


class BagMixture:
    """The mixture density of one bag, on the cube.

    Examples
    --------
    >>> components, _ = fit_mixture(np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), 2, floor=0.01)
    >>> one = BagMixture(components)  # half of either bell is outside
    >>> one.pdf(np.array([[0.0], [0.5]])).round(1), one.sample(5, np.random.RandomState(0)).shape
    (array([4., 0.]), (5, 1))
    """

    def __init__(self, components: Components) -> None:
        self.components = components

    @cached_property
    def mass(self) -> float:
        """Mass of the mixture inside the cube, to about three digits: by normal scores of Sobol points."""
        n_dims = self.components.means.shape[1]
        sobol = qmc.Sobol(n_dims, scramble=True, seed=np.random.default_rng(0)).random(MASS_DRAWS)
        z = ndtri(np.clip(sobol, 1e-9, 1 - 1e-9))
        inside = 0.0
        for share, mean, variance, axes in zip(*self.components, strict=True):
            u = mean + (z * np.sqrt(variance)) @ axes.T
            inside += share * mass_inside(u)
        return max(inside, 1 / MASS_DRAWS)

    def pdf(self, u: Array) -> Array:
        """Density at u, ndarray of shape (n,)."""
        return np.asarray(np.exp(_log_sum(self.components.log_parts(u))) / self.mass)

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points of the mixture, those outside the cube again."""
        shares, means, variances, axes = self.components

        def draw(size: int) -> Array:
            k = rng.choice(len(shares), size=size, p=shares)
            z = rng.normal(size=(size, means.shape[1])) * np.sqrt(variances[k])
            return np.asarray(means[k] + np.einsum("nij,nj->ni", axes[k], z))

        return draw_inside(draw, n)


@storable
@dataclass(frozen=True)
class Mixture(Density):
    r"""Gaussian mixture, fitted to each bag by weighted expectation-maximisation.

    Parameters
    ----------
    n_components : int or "bic", default="bic"
        Components of a bag, or as many of 1 to 5 as have the best Bayesian information criterion. A bag of fewer
        distinct points has at most as many.
    least_deviation : float, default=0.02
        Least standard deviation of a component in any direction, in units of the cube: what a single point, copies of
        one or a constant dimension get. Nodes should resolve it: 0.02 wants some 30 nodes per dimension.

    Notes
    -----
    There is no bandwidth. Mass outside the cube is left out and the rest divided by what the nodes see of it.

    *Cost* a bag: O(n_points n_components n_dims²) a round, some tens of rounds, five times that for ``"bic"``.
    *Limits*: unlike the other estimates it jumps, where another number of components or another maximum takes over,
    and bags of one distribution then look different. Points near a face do not form a bell.

    Copies of a point are one point with their mass, for the criterion too.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(0.2, 0.05, (50, 2)), rng.normal(0.8, 0.05, (50, 2))])
    >>> Mixture().of(x, None, None).components.means.round(1)
    array([[0.2, 0.2],
           [0.8, 0.8]])
    """

    smooths: ClassVar[str] = "nothing"
    integrates_to_one: ClassVar[bool] = False  # the mass is known to some digits only

    n_components: int | str = "bic"
    least_deviation: float = 0.02

    def finest(self) -> float:
        """The least deviation of a component."""
        return check_number("Mixture", "least_deviation", self.least_deviation, low=1e-4, high=10.0)

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> BagMixture:
        """The density of one bag, see :meth:`Density.of`; ``bandwidth`` is ignored."""
        floor = self.finest() ** 2
        each, mass = distinct_points(points, weights)
        most = len(each)
        if isinstance(self.n_components, str):
            if self.n_components != "bic":
                raise ValueError(
                    f"Mixture(n_components=...): must be an integer in [1, 1000] or 'bic', got {self.n_components!r}; "
                    "'bic' chooses the number"
                )
            tried = range(1, min(MOST_COMPONENTS, most) + 1)
        else:
            n = check_number("Mixture", "n_components", self.n_components, low=1, high=1000, integer=True)
            tried = range(min(n, most), min(n, most) + 1)
        size = 1 / float(np.sum(mass**2))
        n_dims = points.shape[1]

        def criterion(fitted: tuple[Components, float]) -> float:
            k = len(fitted[0].shares)
            parameters = k - 1 + k * n_dims + k * n_dims * (n_dims + 1) / 2
            return float(parameters * np.log(size) - 2 * size * fitted[1])

        fits = [fit_mixture(each, mass, k, floor=floor) for k in tried]
        return BagMixture(min(fits, key=criterion)[0])


register("mixture", Mixture)
