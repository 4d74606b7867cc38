"""Integration nodes: where densities are evaluated and integrals over the unit cube are taken.

Five kinds, each a small value object that says what to make, and ``resolve`` which makes it once in ``fit``:

- :class:`Grid`, a tensor grid of cell midpoints, for one to three dimensions. The midpoint rule is exact for products
  of cosines up to its size, and everything on a grid separates into one matrix product a dimension.
- :class:`Sobol`, scrambled quasi-random nodes, for any dimension; error about 1/n for smooth integrands.
- :class:`MonteCarlo`, the paper's independent uniform nodes; error 1/√n.
- :class:`Importance`, nodes drawn from the training bags' own density, for narrow densities in many dimensions, which
  uniform nodes miss.
- :class:`MCMC`, the same by Metropolis chains, for densities that can be evaluated but not drawn from.

A node u_i has a volume v_i, and Σ v_i f(u_i) estimates ∫ f over the cube. Nodes drawn from a density q have the volumes
1/(n q(u_i)): small where they crowd.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from ._base import check_number
from ._metropolis import metropolis

__all__ = ["MCMC", "Grid", "GridNodes", "Importance", "MonteCarlo", "NodeSpec", "PointNodes", "Sobol", "get"]

Array = NDArray[Any]

MAX_GRID_DIMS = 3
GRID_LIMIT = {1: 4096, 2: 256, 3: 64}  # largest automatic size a dimension
# Automatic grids, by number of dimensions: nodes a bandwidth, and least number. In the root mean square over pairs of
# bags, squared distances are then within 0.3 % of those on a much finer grid (js, hellinger, chi2; 2 % for tv).
NODES_PER_BANDWIDTH = {1: 1.5, 2: 0.55, 3: 0.55}
LEAST_NODES = {1: 64, 2: 16, 3: 16}
NODES_PER_BASIS_FUNCTION = 1.6
DEFAULT_SOBOL = 4096
MASS_TOLERANCE = 0.25  # root mean square error over bags of the mass that nodes find; more is warned about
FEW_NODES = 256  # who asks for fewer wants speed and knows the price


class PooledDensity(Protocol):
    """The density of the training bags taken together, from which nodes may be drawn."""

    points: Array | None
    integrates_to_one: bool

    @property
    def can_sample(self) -> bool:
        """Whether :meth:`sample` works."""

    def pdf(self, u: Array) -> Array:
        """Density at u of shape (n, n_dims), ndarray of shape (n,)."""

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points, ndarray of shape (n, n_dims)."""


@dataclass(frozen=True)
class GridNodes:
    """Midpoints of a tensor grid on the unit cube; each node has the volume 1 / n_nodes."""

    shape: tuple[int, ...]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return prod(self.shape)

    @property
    def axes(self) -> tuple[Array, ...]:
        """Coordinates along each dimension, an array of shape (size,) each."""
        return tuple((np.arange(size) + 0.5) / size for size in self.shape)

    @cached_property
    def points(self) -> Array:
        """All nodes, ndarray of shape (n_nodes, n_dims), the last coordinate fastest."""
        mesh = np.meshgrid(*self.axes, indexing="ij")
        return np.stack([axis.ravel() for axis in mesh], axis=1)

    @property
    def weights(self) -> Array:
        """Volumes of the nodes, ndarray of shape (n_nodes,)."""
        return np.full(self.n_nodes, 1 / self.n_nodes)


@dataclass(frozen=True, eq=False)
class PointNodes:
    """Scattered nodes with their volumes; ``acceptance`` is the share of accepted proposals, for chains only."""

    points: Array
    weights: Array
    acceptance: float | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.points)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values of one function on the nodes."""
        return (len(self.points),)


@dataclass(frozen=True)
class Grid:
    """A tensor grid of cell midpoints, for one to three dimensions.

    Parameters
    ----------
    size : int or sequence of int, optional
        Nodes along each dimension. By default chosen in ``fit``: 0.55 nodes a bandwidth (1.5 in one dimension), but at
        least 16 (64) and at most 256 or 64 in two or three dimensions (4096), twice as many for distances with heavy
        tails such as total variation; and 1.6 (3.2) a basis function whatever the limits; a multiple of 4.

    Examples
    --------
    >>> Grid(4).resolve(1).points.ravel()
    array([0.125, 0.375, 0.625, 0.875])
    >>> Grid().resolve(2, bandwidth=np.array([0.02, 0.1]), n_basis=(10, 10)).shape
    (28, 16)
    """

    needs_pooled: ClassVar[bool] = False

    size: int | Sequence[int] | None = None

    def resolve(
        self,
        n_dims: int,
        *,
        bandwidth: Array | None = None,
        n_basis: tuple[int, ...] | None = None,
        fineness: float = 1.0,
        **_: object,
    ) -> GridNodes:
        """Return the grid for this many dimensions."""
        if n_dims > MAX_GRID_DIMS:
            raise ValueError(
                f"Grid: a tensor grid serves 1 to {MAX_GRID_DIMS} dimensions, the points have {n_dims}; use "
                "nodes=Sobol(4096), or wrap the embedding in Marginals"
            )
        basis = (1,) * n_dims if n_basis is None else n_basis
        if self.size is not None:
            sizes = tuple(self.size) if isinstance(self.size, Sequence | np.ndarray) else (self.size,) * n_dims
            if len(sizes) != n_dims:
                raise ValueError(
                    f"Grid(size=...): must be one number, or one a dimension ({n_dims}), got {self.size!r}; "
                    f"give {n_dims} sizes"
                )
            for size, n in zip(sizes, basis, strict=True):
                check_number("Grid", "size", size, low=2, high=2**20, integer=True)
                if size < n:
                    raise ValueError(
                        f"Grid(size=...): must have at least as many nodes as basis functions along each dimension "
                        f"({n}), got {size}; use Grid({2 * n}), or lower n_basis"
                    )
            return GridNodes(tuple(int(size) for size in sizes))
        widths = np.full(n_dims, 0.05) if bandwidth is None else np.broadcast_to(bandwidth, n_dims)
        limit = GRID_LIMIT[n_dims]
        return GridNodes(
            tuple(
                max(
                    round_up(min(max(fineness * NODES_PER_BANDWIDTH[n_dims] / h, LEAST_NODES[n_dims]), limit)),
                    round_up(fineness * NODES_PER_BASIS_FUNCTION * n),
                )
                for h, n in zip(widths, basis, strict=True)
            )
        )


@dataclass(frozen=True)
class Sobol:
    """Scrambled Sobol nodes (Owen 1998), for any number of dimensions.

    Parameters
    ----------
    n : int, default=4096
        Number of nodes; powers of two are balanced best, others are rounded up to the next one.

    Examples
    --------
    >>> Sobol(1000).resolve(5, random_state=np.random.RandomState(0)).points.shape
    (1024, 5)
    """

    needs_pooled: ClassVar[bool] = False

    n: int = DEFAULT_SOBOL

    def resolve(self, n_dims: int, *, random_state: np.random.RandomState | None = None, **_: object) -> PointNodes:
        """Return the nodes for this many dimensions."""
        n = check_number("Sobol", "n", self.n, low=2, high=2**24, integer=True)
        return _uniform(_sobol(n_dims, 2 ** ceil(np.log2(n)), random_state or np.random.RandomState()))


@dataclass(frozen=True)
class MonteCarlo:
    """Independent uniform nodes, as in the paper.

    Parameters
    ----------
    n : int, default=5000
        Number of nodes, n_e in the paper.

    Examples
    --------
    >>> MonteCarlo(10).resolve(3, random_state=np.random.RandomState(0)).points.shape
    (10, 3)
    """

    needs_pooled: ClassVar[bool] = False

    n: int = 5000

    def resolve(self, n_dims: int, *, random_state: np.random.RandomState | None = None, **_: object) -> PointNodes:
        """Return the nodes for this many dimensions."""
        n = check_number("MonteCarlo", "n", self.n, low=2, high=2**24, integer=True)
        return _uniform((random_state or np.random.RandomState()).uniform(size=(n, n_dims)))


@dataclass(frozen=True)
class Importance:
    r"""Nodes drawn from the mean density of training bags, and some uniform ones.

    With n_0 uniform nodes and n_1 from the pooled density m, fixed numbers of both, node u has the volume

    .. math:: v(u) = 1 / (n_0 + n_1 m(u)),

    the balance heuristic of Veach and Guibas (1995): Σ v_i f(u_i) is unbiased, and no volume is larger than 1/n_0. The
    lambda functions of a bag that m covers, m >= c p, are then integrated with a variance of at most 1/(c n) times the
    energy of the integrand, however narrow p is. The pooled density is itself estimated from some of the points of at
    most 32 training bags; volumes are exact for the density that nodes are drawn from, whatever it is.

    Parameters
    ----------
    n : int, default=4096
        Number of nodes, n_0 + n_1. Those outside the cube, which an estimate with open boundaries may draw, are left
        out.
    uniform : float, default=0.1
        Share of uniform (scrambled Sobol) nodes: the defence of bags that look like none of the training bags.

    Notes
    -----
    *Cost* in ``fit``: the pooled density at n nodes, from at most 4,096 points.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags(rng.normal(0.5, 0.02, size=(4, 300, 5)))
    >>> embedding = de.HDDEmbedding("hellinger", n_basis=2, bandwidth=0.02, nodes="importance", random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # so few basis functions capture little
    ...     round(embedding.fit(bags).node_mass_, 1)  # Sobol(4096) finds none of it
    1.0
    """

    needs_pooled: ClassVar[bool] = True

    n: int = 4096
    uniform: float = 0.1

    def resolve(
        self,
        n_dims: int,
        *,
        random_state: np.random.RandomState | None = None,
        pooled: PooledDensity | None = None,
        **_: object,
    ) -> PointNodes:
        """Return the nodes for this many dimensions and this pooled density."""
        n = check_number("Importance", "n", self.n, low=2, high=2**24, integer=True)
        n_uniform = ceil(n * check_number("Importance", "uniform", self.uniform, low=0, high=1))
        pooled, rng = _required("Importance", pooled), random_state or np.random.RandomState()
        if not pooled.can_sample:
            raise ValueError(
                "Importance: the density estimate must be able to draw points, but has no sample method; use "
                "nodes=MCMC(), which only evaluates it"
            )
        drawn = pooled.sample(n - n_uniform, rng) if n > n_uniform else np.empty((0, n_dims))
        inside = np.all((drawn >= 0) & (drawn <= 1), axis=1)
        return _mixed(_sobol(n_dims, n_uniform, rng), drawn[inside], n - n_uniform, pooled)


@dataclass(frozen=True)
class MCMC:
    r"""Nodes drawn by Metropolis chains from the mean density of training bags, and some uniform ones.

    The paper's remark on high dimensions. Chains see the pooled density m only where they are, so any estimate that can
    be evaluated serves, also one without a ``sample``. They start at points of training bags. Volumes are those of
    :class:`Importance`, 1 / (n_0 + n_1 m(u)) with n_0 uniform nodes, and so no larger than 1/n_0.

    Parameters
    ----------
    n : int, default=4096
        Number of nodes, n_0 + n_1.
    uniform : float, default=0.1
        Share of uniform (scrambled Sobol) nodes. Without them a tiny density is a huge volume.
    n_chains : int, default=512
        Chains, moved together. Many short ones see more of the modes than few long ones.
    burn_in : int, default=100
        Steps before the first node, in which the length of steps is adapted.
    thin : int, default=5
        Steps from a node to the next of its chain.

    Notes
    -----
    *Cost* in ``fit``: n_chains (burn_in + thin n_1 / n_chains) evaluations of the pooled density, 18 times those of
    :class:`Importance` by default; prefer that where the density can sample.

    *Limits.* Nodes of one chain are correlated, so the error is larger than that of as many independent ones. A mode in
    which no chain starts is found only by luck. The integral of an estimate of unknown mass is found from the uniform
    nodes, as that for which all volumes have the sum one; few of those say little about narrow densities. ``nodes_.acceptance`` is the share of accepted steps; a quarter is good, a per cent is not.

    References
    ----------
    Metropolis et al. (1953); ter Braak and Vrugt (2008). Differential evolution Markov chain with snooker updater and
    fewer chains. Statistics and Computing.

    Examples
    --------
    >>> from distembed.density import KDE, Pooled
    >>> parts = [KDE().of(np.array([[x, x]]), None, np.array([0.05, 0.05])) for x in (0.2, 0.8)]
    >>> pooled = Pooled(parts, 2, points=np.array([[0.2, 0.2], [0.8, 0.8]]))
    >>> at = MCMC(2000).resolve(2, random_state=np.random.RandomState(0), pooled=pooled)
    >>> round(float(at.weights @ pooled.pdf(at.points)), 1), bool(0.1 < at.acceptance < 0.6)
    (1.0, True)
    """

    needs_pooled: ClassVar[bool] = True

    n: int = 4096
    uniform: float = 0.1
    n_chains: int = 512
    burn_in: int = 100
    thin: int = 5

    def resolve(
        self,
        n_dims: int,
        *,
        random_state: np.random.RandomState | None = None,
        pooled: PooledDensity | None = None,
        **_: object,
    ) -> PointNodes:
        """Return the nodes for this many dimensions and this pooled density."""
        n = check_number("MCMC", "n", self.n, low=2, high=2**24, integer=True)
        n_uniform = ceil(n * check_number("MCMC", "uniform", self.uniform, low=0, high=1, inclusive="left"))
        n_drawn = max(1, n - n_uniform)
        n_chains = min(n_drawn, check_number("MCMC", "n_chains", self.n_chains, low=1, high=2**20, integer=True))
        burn_in = check_number("MCMC", "burn_in", self.burn_in, low=0, high=2**20, integer=True)
        thin = check_number("MCMC", "thin", self.thin, low=1, high=2**20, integer=True)
        pooled, rng = _required("MCMC", pooled), random_state or np.random.RandomState()
        archive = pooled.points
        if archive is None:
            archive = pooled.sample(n_chains, rng) if pooled.can_sample else rng.uniform(size=(n_chains, n_dims))
        order = [rng.permutation(len(archive)) for _ in range(ceil(n_chains / len(archive)))]
        starts = archive[np.concatenate(order)[:n_chains]]
        drawn, values, acceptance = metropolis(pooled.pdf, starts, n_drawn, archive, rng, burn_in=burn_in, thin=thin)
        return _mixed(_sobol(n_dims, n_uniform, rng), drawn, n_drawn, pooled, values, acceptance)


NodeSpec = Grid | Sobol | MonteCarlo | Importance | MCMC
_NAMES: dict[str, type[Grid | Importance | MCMC]] = {"grid": Grid, "importance": Importance, "mcmc": MCMC}


def _uniform(points: Array) -> PointNodes:
    return PointNodes(points, np.full(len(points), 1 / len(points)))


def _sobol(n_dims: int, n: int, rng: np.random.RandomState) -> Array:
    """The first n points of a scrambled Sobol sequence, ndarray of shape (n, n_dims)."""
    sequence = qmc.Sobol(n_dims, scramble=True, seed=np.random.default_rng(rng.randint(2**31 - 1)))
    return np.asarray(sequence.random_base2(ceil(np.log2(max(n, 1)))))[:n]


def _mixed(
    uniform: Array,
    drawn: Array,
    n_drawn: int,
    pooled: PooledDensity,
    values: Array | None = None,
    acceptance: float | None = None,
) -> PointNodes:
    """Uniform nodes and nodes drawn from a density, with the volumes of the balance heuristic.

    Parameters
    ----------
    uniform, drawn : ndarrays of shape (n_0, n_dims) and (at most n_1, n_dims)
        The nodes.
    n_drawn : int
        n_1: points drawn, those outside the cube included.
    pooled : PooledDensity
        What they were drawn from.
    values : ndarray of shape (len(drawn),), optional
        Its density at the drawn nodes, if known already.
    acceptance : float, optional
        Of the chains that drew them.
    """
    at_drawn = pooled.pdf(drawn) if values is None else values
    m = np.concatenate([pooled.pdf(uniform), at_drawn]) if len(uniform) else at_drawn
    points, tiny = np.concatenate([uniform, drawn]), np.finfo(float).tiny
    if not pooled.integrates_to_one and len(uniform):
        m = m / _mass(m, len(uniform), n_drawn)
    return PointNodes(points, 1 / np.maximum(len(uniform) + n_drawn * m, tiny), acceptance)


def _mass(m: Array, n_uniform: int, n_drawn: int) -> float:
    """The integral Z of a density known up to it: for m/Z the volumes of all nodes have the sum one.

    Examples
    --------
    >>> u = (np.arange(1000) + 0.5) / 1000
    >>> m = np.concatenate([3 * 2 * u, 3 * 2 * np.sqrt(u)])  # three times p(u) = 2u; √u is distributed as p
    >>> round(_mass(m, 1000, 1000), 2)
    3.0
    """
    scale = float(m.max())
    if not scale > 0:
        return 1.0
    low, high = -100.0, 10.0  # logarithms of Z / max m
    for _ in range(60):
        middle = (low + high) / 2
        total = np.sum(1 / (n_uniform + n_drawn * (m / scale) * np.exp(-middle)))
        low, high = (low, middle) if total > 1 else (middle, high)
    return scale * float(np.exp((low + high) / 2))


def _required(kind: str, pooled: PooledDensity | None) -> PooledDensity:
    if pooled is None:
        raise ValueError(
            f"{kind}: needs the density of training bags, got pooled=None; pass it to an embedding as nodes={kind}(), "
            "which has them"
        )
    return pooled


def round_up(value: float, multiple: int = 4) -> int:
    """The smallest multiple of ``multiple`` that is at least ``value``."""
    return multiple * ceil(value / multiple)


def warn_if_mass_is_off(owner: str, masses: Array, nodes: GridNodes | PointNodes, stacklevel: int = 3) -> None:
    """Warn where densities of mass one have another mass on the nodes: off by a quarter in the root mean square.

    The mean alone would not do: nodes that miss most bags and overrate a few may have it right.

    Parameters
    ----------
    owner : str
        Who warns.
    masses : ndarray of shape (n_bags,)
        Σ_i v_i p̂(u_i) of some bags.
    nodes : GridNodes or PointNodes
        The nodes u_i of volumes v_i.
    stacklevel : int
        As in :func:`warnings.warn`.
    """
    off = float(np.sqrt(np.mean((masses - 1) ** 2)))
    if off > MASS_TOLERANCE and nodes.n_nodes >= FEW_NODES:
        warnings.warn(
            f"{owner}: the densities of training bags, of mass 1, have a mass of {masses.mean():.2g} on the "
            f"{nodes.n_nodes:,} nodes in the mean, and are off by {off:.2g} in the root mean square, so that distances "
            "are as far off; use nodes=Importance(), which puts nodes where the points are, or more nodes, or a larger "
            "bandwidth",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def get(nodes: str | NodeSpec, n_dims: int) -> NodeSpec:
    """Nodes by name: ``"auto"`` is a grid up to three dimensions and ``Sobol(4096)`` beyond.

    Also ``"grid"``, ``"importance"`` and ``"mcmc"``; an object is returned as it is.

    Examples
    --------
    >>> get("auto", 2), get("auto", 4), get("importance", 5)
    (Grid(size=None), Sobol(n=4096), Importance(n=4096, uniform=0.1))
    """
    if isinstance(nodes, NodeSpec):
        return nodes
    if nodes == "auto":
        return Grid() if n_dims <= MAX_GRID_DIMS else Sobol()
    if isinstance(nodes, str) and nodes in _NAMES:
        return _NAMES[nodes]()
    raise ValueError(
        f"nodes: must be 'auto', {', '.join(map(repr, _NAMES))}, Grid(...), Importance(...), MCMC(...), Sobol(...) or "
        f"MonteCarlo(...), got {nodes!r}; choose one"
    )
