r"""Gaussian copula with kernel density estimates as margins: for many dimensions.

By Sklar's theorem a density is the product of its margins f_j and of a density c on the cube, the copula, which holds
the dependence alone. Here c is that of a Gaussian with correlation matrix R: with F_j the distribution functions of the
margins and z_j = Φ⁻¹(F_j(u_j)) the normal scores,

.. math:: \hat p(u) = |R|^{-1/2} \exp\bigl(-\tfrac12 z^T (R^{-1} - I) z\bigr) \prod_j \hat f_j(u_j).

Margins are estimated in one dimension each, at the rate n^(-4/5) however many there are; what is joint has l(l-1)/2
parameters and a parametric rate. The price: dependence other than that of a Gaussian is not captured.

**R** starts from the normal scores not of the points but of their joint kernel density estimate. Writing ζ_j(x) for the
mean of the score z_j under the kernel around x,

.. math:: S_{jk} = \sum_i w_i \, \zeta_j(x_{ij}) \, \zeta_k(x_{ik}), \qquad
    R_{jk} = S_{jk} / \sqrt{\max(S_{jj}, 1/2) \max(S_{kk}, 1/2)}, \qquad R_{jj} = 1.

Scores have the mean 0 and the variance 1 under the smoothed margin, of which S_jj is between the points and
ε_j = 1 - S_jj inside the kernels. One point, or a constant coordinate, has ζ = 0 and is independent of the rest. The
division takes the kernels' noise off the correlations; but what is narrower than a kernel is not resolved, so no
eigenvalue of R stays below about the mean of the ε_j, and R is positive definite whatever the points are.

R is then drawn towards the identity, R ← (1 - s) R + s I, with the share of Schäfer and Strimmer (2005), the variance
of the correlations over their square, s = Σ (1 - R_jk²)² / n / Σ R_jk², which is nearly 1 where nothing depends.

Margins live on a fine grid of sixteen nodes a bandwidth, linear between nodes; F_j is their exact integral, so the
estimate has mass one but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from ..bags import Bags
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.checks import check_number
from ..compute.registry import storable
from .estimate import Density, EachBag, Evaluator, distinct_points, register, require_bandwidth, with_shares
from .kde import GridKDE
from .nodes import GridNodes, PointNodes

_NODES_PER_BANDWIDTH = 16
_LEAST_NODES = 64
_MOST_NODES = 4096
_BINS_PER_NODE = 0.5
_OUTERMOST = 1e-15  # scores end at ±7.9: beyond, products of margins and copula would be 0 times infinity


class Margin:
    """Kernel density estimates of one coordinate of many bags, as functions on a fine grid.

    Parameters
    ----------
    bandwidth : float
        In units of the interval; reflecting boundaries.

    Examples
    --------
    >>> margin = Margin(0.1)
    >>> tables = margin.tables(Bags.from_arrays([np.array([0.5])]))
    >>> density, mass = margin.at(tables, 0, margin.place(np.array([0.5, 0.6, 1.0])))
    >>> density.round(2), mass.round(2)
    (array([3.98, 2.42, 0.  ]), array([0.5 , 0.84, 1.  ]))
    """

    def __init__(self, bandwidth: float) -> None:
        size = int(np.clip(ceil(_NODES_PER_BANDWIDTH / bandwidth), _LEAST_NODES, _MOST_NODES))
        self.size = size
        self.n_bins = ceil(_BINS_PER_NODE * size)
        grid = GridNodes((size,))
        h = np.array([bandwidth])
        self._kde = GridKDE(grid, h, ("reflect",), np.dtype(float), n_bins=(self.n_bins,))
        self._matrix = self._kde.matrices[0]

    def tables(self, bags: Bags) -> tuple[Array, Array]:
        """Densities at the nodes with one more on either side, (n_bags, size + 2), and their integrals below each.

        ``bags`` have one dimension. The density is flat beyond the first and the last node.
        """
        inner = self._kde(bags)
        density = np.concatenate([inner[:, :1], inner, inner[:, -1:]], axis=1)
        mass = np.empty((len(inner), self.size + 1))
        mass[:, 0] = -inner[:, 0] / (2 * self.size)  # the node before the first lies half a step before 0
        np.cumsum((density[:, 1:-1] + density[:, :-2]) / (2 * self.size), axis=1, out=mass[:, 1:])
        mass[:, 1:] += mass[:, :1]
        return density, mass

    def place(self, u: Array) -> tuple[Array, Array]:
        """Where u lies among the nodes: the number of the one below, counted from the one before 0, and how far."""
        position = np.clip(u, 0.0, 1.0) * self.size + 0.5
        below = np.minimum(position.astype(np.int64), self.size)
        return below, position - below

    def at(self, tables: tuple[Array, Array], bag: Any, place: tuple[Array, Array]) -> tuple[Array, Array]:
        """Density and distribution function of the bags (one, or one a place) at a :meth:`place`."""
        below, far = place
        left = tables[0][bag, below]
        right = tables[0][bag, below + 1]
        slope = right - left
        return left + far * slope, tables[1][bag, below] + far * (left + far * slope / 2) / self.size

    def quantile(self, tables: tuple[Array, Array], bag: int, mass: Array) -> Array:
        """The place at which the distribution function of a bag has these values."""
        density = tables[0][bag]
        below = tables[1][bag]
        i = np.clip(np.searchsorted(below, mass, side="right") - 1, 0, self.size)
        left = density[i]
        rest = np.maximum(mass - below[i], 0) * self.size
        root = np.sqrt(np.maximum(left**2 + 2 * (density[i + 1] - left) * rest, 0))
        far = 2 * rest / np.maximum(left + root, 1e-300)
        return np.asarray(np.clip((i + np.minimum(far, 1.0) - 0.5) / self.size, 0, 1))

    def smoothed_scores(self, tables: tuple[Array, Array], bags: Bags) -> Array:
        """ζ at the points of bags of one dimension, ndarray of shape (n_points,)."""
        # At the nodes themselves, numbers 1 to size, the distribution function is the table.
        scores = _scores(tables[1][:, 1:]) @ self._matrix / self.size
        position = np.clip(bags.points[:, 0].astype(float) * self.n_bins - 0.5, 0, self.n_bins - 1)
        below = np.minimum(position.astype(np.int64), self.n_bins - 2)
        far = position - below
        bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
        return np.asarray((1 - far) * scores[bag, below] + far * scores[bag, below + 1])


@lru_cache(maxsize=4)
def margins_for(bandwidth: tuple[float, ...]) -> tuple[Margin, ...]:
    """The margins of all dimensions, kept: every bag asks for those of the same bandwidth.

    Kept by the whole bandwidth, not by its parts, so any number of dimensions fits.

    Examples
    --------
    >>> margins_for((0.1, 0.2)) is margins_for((0.1, 0.2))
    True
    """
    each = {h: Margin(h) for h in set(bandwidth)}
    return tuple(each[h] for h in bandwidth)


def _scores(mass: Array) -> Array:
    return np.asarray(ndtri(np.clip(mass, _OUTERMOST, 1 - _OUTERMOST)))


def correlation_of(scores: Array, weights: Array | None) -> Array:
    """R of smoothed scores ζ, ndarray of shape (n_dims, n_dims); see the module's formula.

    Examples
    --------
    >>> correlation_of(np.array([[-0.9, -0.9], [0.9, 0.9]]), None).round(2)  # equal, but for kernels of variance 0.19
    array([[1.  , 0.83],
           [0.83, 1.  ]])
    """
    between = scores.T @ (scores / len(scores) if weights is None else scores * weights[:, None])
    variances = between.diagonal()
    root = np.sqrt(np.maximum(variances, 0.5))
    correlation = between / np.outer(root, root)
    np.fill_diagonal(correlation, 1.0)
    finest = float(np.clip(1 - variances.mean(), 1e-4, 1.0))
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < finest:
        correlation = (vectors * np.maximum(values, finest)) @ vectors.T
        root = np.sqrt(correlation.diagonal())
        correlation = correlation / np.outer(root, root)
    return np.asarray(correlation)


def shrunk(correlation: Array, n: float, shrinkage: float | str) -> Array:
    """A correlation matrix drawn towards the identity.

    Parameters
    ----------
    correlation : ndarray of shape (n_dims, n_dims)
        From n independent points.
    n : float
        Their (effective) number.
    shrinkage : float or "auto"
        The share of the identity.

    Examples
    --------
    >>> print(shrunk(np.array([[1.0, 0.1], [0.1, 1.0]]), 200, "auto")[0, 1].round(3))
    0.051
    """
    square = correlation**2
    np.fill_diagonal(square, 0.0)
    if isinstance(shrinkage, str):
        noise = (np.sum((1 - square) ** 2) - len(square)) / n
        total = float(np.sum(square))
        shrinkage = 1.0 if total <= noise else noise / total
    result = (1 - shrinkage) * correlation
    np.fill_diagonal(result, 1.0)
    return np.asarray(result)


def _dependence(correlation: Array) -> tuple[Array, float]:
    """(R⁻¹ - I) / 2 and log √|R|, of a matrix whose eigenvalues are positive in exact arithmetic."""
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, 1e-8)
    half = (vectors * ((1 / values - 1) / 2)) @ vectors.T
    return half, float(np.sum(np.log(values)) / 2)


def fit_copulas(
    margins: Sequence[Margin], bags: Bags, shrinkage: float | str
) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """Tables of the margins, one pair per dimension, and a correlation matrix per bag."""
    columns = [bags.replace(points=bags.points[:, j : j + 1]) for j in range(bags.n_dims)]
    tables = [margin.tables(column) for margin, column in zip(margins, columns, strict=True)]
    if bags.n_dims == 1 or shrinkage == 1:
        return tables, [np.eye(bags.n_dims)] * bags.n_bags
    each = zip(margins, tables, columns, strict=True)
    scores = np.stack([margin.smoothed_scores(table, column) for margin, table, column in each], axis=1)
    correlations = []
    for (points, own), z in zip(with_shares(bags), np.split(scores, bags.offsets[1:-1]), strict=True):
        n = 1.0
        if isinstance(shrinkage, str):  # copies of a point are one point with their mass
            n = 1 / float(np.sum(distinct_points(points, own)[1] ** 2))
        correlations.append(shrunk(correlation_of(z, own), n, shrinkage))
    return tables, correlations


class CopulaAt:
    """Copula densities at given places, from margins and correlations of bags.

    On a grid many nodes share a coordinate: distribution functions are needed once for each value.
    """

    def __init__(self, margins: Sequence[Margin], points: Array) -> None:
        self.margins = margins
        self.shape = points.shape
        distinct_values = [np.unique(x, return_inverse=True) for x in points.T]
        self._places = [(m.place(x), inverse) for m, (x, inverse) in zip(margins, distinct_values, strict=True)]

    def __call__(self, tables: Sequence[tuple[Array, Array]], bag: int, correlation: Array) -> Array:
        """Product of a bag's margins times its copula's density, ndarray of shape (n_points,)."""
        value = np.ones(self.shape[0])
        z = np.empty(self.shape)
        for j, (margin, (place, of_points)) in enumerate(zip(self.margins, self._places, strict=True)):
            f, mass = margin.at(tables[j], bag, place)
            value *= f[of_points]
            z[:, j] = _scores(mass)[of_points]
        half, log_root = _dependence(correlation)
        exponent = -np.einsum("ij,ij->i", z @ half, z) - log_root
        return np.asarray(value * np.exp(np.minimum(exponent, 600.0)))


class CopulaEvaluator(EachBag):
    """Copula densities of many bags on nodes: margins of all bags at once, then one bag after the other."""

    def __init__(self, density: Copula, nodes: GridNodes | PointNodes, bandwidth: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(density, nodes, bandwidth, dtype)
        self.shrinkage = density.checked_shrinkage()
        self._at_nodes = CopulaAt(margins_for(tuple(map(float, bandwidth))), nodes.points)

    def together(self, bags: Bags, scratch: Scratch | None) -> Array:
        """Densities on the nodes, in the layout of :class:`EachBag`."""
        tables, correlations = fit_copulas(self._at_nodes.margins, bags, self.shrinkage)
        shape = self.nodes.shape
        stored = np.empty((*shape[:-1], bags.n_bags, shape[-1]), self.dtype)
        for i, correlation in enumerate(correlations):
            bags_first(stored)[i] = self._at_nodes(tables, i, correlation).reshape(shape)
        return stored


class BagCopula:
    """The copula density of one bag.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(0.2, 0.8, size=(500, 1))
    >>> one = BagCopula(np.c_[x, x], None, np.array([0.05, 0.05]), "auto")
    >>> print(one.correlation[0, 1].round(1))
    0.9
    >>> drawn = one.sample(1000, np.random.RandomState(0))
    >>> drawn.shape, bool(one.pdf(drawn).min() > 0)
    ((1000, 2), True)
    """

    def __init__(self, points: Array, weights: Array | None, bandwidth: Array, shrinkage: float | str) -> None:
        self.margins = margins_for(tuple(map(float, bandwidth)))
        self.tables, (self.correlation,) = fit_copulas(self.margins, Bags(points, [0, len(points)], weights), shrinkage)

    def pdf(self, u: Array) -> Array:
        """Density at u, ndarray of shape (n,)."""
        return CopulaAt(self.margins, u)(self.tables, 0, self.correlation)

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points: a correlated Gaussian, and each coordinate's quantiles."""
        values, vectors = np.linalg.eigh(self.correlation)
        z = rng.normal(size=(n, len(values))) * np.sqrt(np.maximum(values, 1e-8)) @ vectors.T
        pairs = zip(self.margins, self.tables, strict=True)
        return np.stack([margin.quantile(table, 0, ndtr(z[:, j])) for j, (margin, table) in enumerate(pairs)], axis=1)


@storable
@dataclass(frozen=True)
class Copula(Density):
    r"""Gaussian copula with one-dimensional kernel density estimates as margins.

    Parameters
    ----------
    shrinkage : float in [0, 1] or "auto", default="auto"
        Share of the identity in the correlation matrix; 1 is the product of the margins. ``"auto"`` estimates how much
        of the correlations is noise, from the number of distinct points.

    Notes
    -----
    The bandwidth is that of the margins; a rule is applied to each coordinate by itself. In one dimension the estimate
    is the :class:`~distembed.KDE` with reflecting boundaries.

    *Cost* a bag: O(n_points n_dims² + n_nodes n_dims²) and, for each dimension, a product with a matrix of size 128/h².

    *Limits.* Dependence is monotone: points on a ring, or two clusters placed across the diagonal of their margins'
    modes, have a density that fills the gaps. There :class:`~distembed.KDE` is right, given enough points.

    References
    ----------
    Liu, Lafferty, Wasserman (2009). The nonparanormal: semiparametric estimation of high dimensional undirected graphs.
    JMLR. Schäfer, Strimmer (2005). A shrinkage approach to large-scale covariance matrix estimation. SAGMB.

    Examples
    --------
    >>> x = np.random.default_rng(0).beta(2, 2, size=(400, 10))  # the truth is 1.5 ** 10 = 58 in the middle
    >>> bool(40 < Copula().of(x, None, np.full(10, 0.08)).pdf(np.full((1, 10), 0.5))[0] < 70)
    True
    """

    smooths: ClassVar[str] = "margins"

    shrinkage: float | str = "auto"

    def checked_shrinkage(self) -> float | str:
        """The parameter, if it is legal."""
        if isinstance(self.shrinkage, str) and self.shrinkage == "auto":
            return self.shrinkage
        remedy = "'auto' estimates it"
        return check_number("Copula", "shrinkage", self.shrinkage, low=0, high=1, remedy=remedy)

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> BagCopula:
        """The density of one bag, see :meth:`Density.of`."""
        return BagCopula(points, weights, require_bandwidth("Copula", bandwidth), self.checked_shrinkage())

    def prepare(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> Evaluator:
        """An evaluator for these nodes: called with bags, it returns densities on the nodes."""
        return CopulaEvaluator(self, nodes, require_bandwidth("Copula", bandwidth), dtype)


register("copula", Copula)
