r"""Integration nodes: where densities are evaluated and integrals over the unit cube are taken.

A node u_i has a volume v_i, and Σ v_i f(u_i) estimates ∫ f over the cube. Five kinds, each a small value object that
states what to make; ``resolve`` makes the nodes once, in ``fit``:

- :class:`Grid`, a tensor grid of cell midpoints, for one to three dimensions. The midpoint rule is exact for products
  of cosines up to its size, and everything on a grid separates into one matrix product a dimension.
- :class:`Sobol`, scrambled quasi-random nodes, for any dimension; error about 1/n for smooth integrands.
- :class:`MonteCarlo`, the paper's independent uniform nodes; error 1/√n.
- :class:`Importance`, nodes drawn from the training bags' own density, for narrow densities in many dimensions, which
  uniform nodes miss.
- :class:`MCMC`, the same by Metropolis chains, for densities that can be evaluated but not drawn from.

A grid becomes :class:`GridNodes`, of equal volumes; the others become :class:`PointNodes`. The last two kinds are a
fixed number n_0 of uniform nodes and n_1 from the pooled density m (:class:`Pooled`), and a node u has the volume
1 / (n_0 + n_1 m(u)): small where nodes crowd.

**Chains.** A chain at x proposes x' = fold(x + d), the increment d drawn from a distribution that does not depend on x
and is symmetric, fold being reflection at the faces of the cube. Then x' is as likely from x as x from x', and to
accept it with probability min(1, p(x') / p(x)) leaves p invariant (Metropolis et al. 1953). Two kinds of increments
take turns at random: Gaussian ones, whose scale is adapted during burn-in until a quarter are accepted, and differences
of two points of a fixed archive (ter Braak and Vrugt 2008), which follow the correlations of the points and jump from
mode to mode. The cost is one evaluation of the density a chain and step.

**Do nodes see the densities?** :func:`mass_on_nodes` measures it on a few bags, and ``warn_if_mass_is_off`` and
``warn_if_few_see`` warn where integrals would mean little.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.stats import qmc

from ..compute.arrays import Array, bags_first
from ..compute.checks import Argument, Inclusive, Message, check_number, check_per_dimension
from ..compute.parallel import one_blas_thread
from ..compute.registry import storable

__all__ = ["MCMC", "Grid", "GridNodes", "Importance", "MonteCarlo", "NodeSpec", "PointNodes", "Sobol", "get"]

MAX_GRID_DIMS = 3
GRID_LIMIT = {1: 4096, 2: 256, 3: 64}  # largest automatic size a dimension
# Automatic grids, by number of dimensions: nodes a bandwidth, and least number. In the root mean square over pairs of
# bags, squared distances are then within 0.3 % of those on a much finer grid (js, hellinger, chi2; 2 % for tv) with
# cosines and Fourier functions. Legendre polynomials turn faster near the ends and ask for more nodes: their ``turns``.
NODES_PER_BANDWIDTH = {1: 1.5, 2: 0.55, 3: 0.55}
LEAST_NODES = {1: 64, 2: 16, 3: 16}
NODES_PER_BASIS_FUNCTION = 1.6

ACCEPTANCE = 0.25  # accepted share of Gaussian steps at which chains of several dimensions move fastest
_WHOLE = 0.3  # share of differences taken at full length, which lead from mode to mode
_LEAST_SPREAD = 1e-4  # of the archive in a dimension, in units of the cube

FEW_SEEING = 16  # nodes that see a density: integrals then have a relative error of about a quarter
MASS_TOLERANCE = 0.25  # root mean square error over bags of the mass that nodes find; more is warned about
FEW_NODES = 256  # who asks for fewer wants speed and knows the price


# --------------------------------------------------------------------------------------------------------------
# Uniform points, volumes and chains
# --------------------------------------------------------------------------------------------------------------


def fold(x: Array) -> Array:
    """Points reflected at the faces of the unit cube until they lie inside.

    Examples
    --------
    >>> fold(np.array([-0.25, 0.5, 1.25, 2.25]))
    array([0.25, 0.5 , 0.75, 0.25])
    """
    return np.asarray(1 - np.abs(1 - np.mod(x, 2)))


def sobol(n_dims: int, n: int, rng: np.random.RandomState) -> Array:
    """The first n points of a scrambled Sobol sequence, ndarray of shape (n, n_dims)."""
    sequence = qmc.Sobol(n_dims, scramble=True, seed=np.random.default_rng(rng.randint(2**31 - 1)))
    return np.asarray(sequence.random_base2(ceil(np.log2(max(n, 1)))))[:n]


def _balance(
    points: Array, m: Array, n_uniform: int, n_drawn: int, known_mass: bool, acceptance: float | None = None
) -> PointNodes:
    """Uniform nodes and nodes drawn from a density, with the volumes of the balance heuristic.

    Parameters
    ----------
    points : ndarray of shape (n_nodes, n_dims)
        The uniform ones first.
    m : ndarray of shape (n_nodes,)
        The density there.
    n_uniform, n_drawn : int
        n_0 and n_1: points drawn, including those outside the cube, which are not nodes.
    known_mass : bool
        Whether m is a density; otherwise its integral is found from the nodes, if some are uniform.
    acceptance : float, optional
        Of the chains that drew them.
    """
    if not known_mass and n_uniform:
        m = m / _mass(m, n_uniform, n_drawn)
    return PointNodes(points, 1 / np.maximum(n_uniform + n_drawn * m, np.finfo(float).tiny), acceptance)


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
    # logarithms of Z / max m
    low = -100.0
    high = 10.0
    for _ in range(60):
        middle = (low + high) / 2
        total = np.sum(1 / (n_uniform + n_drawn * (m / scale) * np.exp(-middle)))
        low, high = (low, middle) if total > 1 else (middle, high)
    return scale * float(np.exp((low + high) / 2))


@one_blas_thread()  # a step is a few small products, for which threads of BLAS cost more than they gain
def metropolis(
    pdf: Callable[[Array], Array],
    starts: Array,
    n: int,
    archive: Array,
    rng: np.random.RandomState,
    *,
    burn_in: int = 100,
    thin: int = 5,
) -> tuple[Array, Array, float]:
    """Draw points from a density by parallel chains.

    Parameters
    ----------
    pdf : callable
        Density at points of shape (m, n_dims), ndarray of shape (m,); a constant factor does not matter.
    starts : ndarray of shape (n_chains, n_dims)
        Where the chains begin.
    n : int
        Number of points wanted.
    archive : ndarray of shape (k, n_dims)
        Points that look like the density: their spread sets the first scale, their differences are increments.
    rng : RandomState
        Of all draws.
    burn_in : int
        Steps before the first points are kept, during which the scale is adapted.
    thin : int
        Steps from one kept point of a chain to the next.

    Returns
    -------
    points : ndarray of shape (n, n_dims)
        The chains after burn-in, all of them at one step, then at the next kept one, and so on.
    values : ndarray of shape (n,)
        The density there.
    acceptance : float
        Share of proposals accepted after burn-in.

    Notes
    -----
    n_chains (burn_in + thin ⌈n / n_chains⌉) evaluations of the density.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> start = rng.uniform(size=(50, 1))
    >>> x, _, _ = metropolis(lambda u: 2 * u[:, 0], start, 5000, start, rng)
    >>> x.shape, round(float(x.mean()), 1)  # the mean of p(x) = 2x is 2/3
    ((5000, 1), 0.7)
    """
    state = starts.astype(float)
    n_chains, n_dims = state.shape
    spread = np.maximum(archive.std(axis=0), _LEAST_SPREAD)
    log_scale = np.log(2.38 / np.sqrt(n_dims))
    shorter = 2.38 / np.sqrt(2 * n_dims)
    value = pdf(state)
    kept = []
    values = []
    accepted = 0.0
    rounds = -(-n // n_chains)
    for step in range(1, burn_in + thin * rounds + 1):
        differ = np.less(rng.uniform(size=n_chains), 0.5)
        first, second = archive[rng.randint(len(archive), size=(2, n_chains))]
        length = np.where(rng.uniform(size=n_chains) < _WHOLE, 1.0, shorter)
        # Differences get a little noise, or chains would stay on the lattice that they span.
        noise = np.exp(log_scale) * np.where(differ, 0.1, 1.0)[:, None] * spread * rng.normal(size=state.shape)
        proposal = fold(state + noise + np.where(differ, length, 0.0)[:, None] * (first - second))
        there = pdf(proposal)
        accept = np.less(rng.uniform(size=n_chains) * value, there)
        state = np.where(accept[:, None], proposal, state)
        value = np.where(accept, there, value)
        if step <= burn_in:
            walked = accept[~differ]
            if len(walked):  # the gain falls, so the scale settles
                log_scale += 2 / np.sqrt(step) * (walked.mean() - ACCEPTANCE)
            continue
        accepted += float(accept.mean()) / (thin * rounds)
        if (step - burn_in) % thin == 0:
            kept.append(state)
            values.append(value)
    return np.concatenate(kept)[:n], np.concatenate(values)[:n], accepted


# --------------------------------------------------------------------------------------------------------------
# Nodes
# --------------------------------------------------------------------------------------------------------------


@storable(shape="list[_]")
@dataclass(frozen=True)
class GridNodes:
    """Midpoints of a tensor grid on the unit cube; each node has the volume 1 / n_nodes."""

    shape: tuple[int, ...]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return prod(self.shape)

    def __distembed_claims__(self) -> float:
        """Bytes of the values on the nodes, twice, and of a smoothing matrix for each axis."""
        matrices = sum(24.0 * size * max(size, GRID_LIMIT[1] if len(self.shape) == 1 else 0) for size in self.shape)
        return 16.0 * self.n_nodes + matrices

    @property
    def n_dims(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

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


@storable(points="finite(n, l)", weights="finite(n)")
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
    def n_dims(self) -> int:
        """Number of dimensions."""
        return int(self.points.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values of one function on the nodes."""
        return (len(self.points),)


def round_up(value: float, multiple: int = 4) -> int:
    """The smallest multiple of ``multiple`` that is at least ``value``."""
    return multiple * ceil(value / multiple)


# --------------------------------------------------------------------------------------------------------------
# What nodes may be drawn from
# --------------------------------------------------------------------------------------------------------------


class BagDensity(Protocol):
    """The estimated density of one bag."""

    def pdf(self, u: Array) -> Array:
        """Density at u of shape (n, n_dims), ndarray of shape (n,)."""

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n independent points, ndarray of shape (n, n_dims)."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """The equal mixture of several bags' densities: what nodes are drawn from.

    Parameters
    ----------
    parts : sequence of BagDensity
        Densities of bags.
    n_dims : int
        Of their points.
    points : ndarray of shape (k, n_dims), optional
        Points of these bags, about equally many of each: where chains may start.
    integrates_to_one : bool
        Whether the parts do.
    mass_in_cube : bool
        Whether all of that is in the cube: open boundaries leak.

    Examples
    --------
    >>> from distembed.density import KDE
    >>> parts = [KDE().of(np.array([[x]]), None, np.array([0.1])) for x in (0.2, 0.8)]
    >>> Pooled(parts, 1).pdf(np.array([[0.2], [0.5]])).round(3)
    array([1.995, 0.044])
    """

    parts: Sequence[BagDensity]
    n_dims: int
    points: Array | None = None
    integrates_to_one: bool = True
    mass_in_cube: bool = True

    @property
    def can_sample(self) -> bool:
        """Whether every part can draw points."""
        return all(callable(getattr(part, "sample", None)) for part in self.parts)

    def pdf(self, u: Array) -> Array:
        """Mean density at u of shape (n, n_dims), ndarray of shape (n,)."""
        return np.asarray(np.mean([part.pdf(u) for part in self.parts], axis=0))

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points, as evenly from the parts as n allows, ndarray of shape (n, n_dims)."""
        turn = rng.randint(len(self.parts))  # who gives one more than the others: by chance, so none is favoured
        counts = np.bincount((turn + np.arange(n)) % len(self.parts), minlength=len(self.parts))
        drawn = [part.sample(int(k), rng) for part, k in zip(self.parts, counts, strict=True) if k]
        return np.concatenate(drawn)


# --------------------------------------------------------------------------------------------------------------
# Kinds of nodes
# --------------------------------------------------------------------------------------------------------------


class NodeSpec:
    """Base of the kinds of nodes, which :meth:`resolve` makes in ``fit``.

    Examples
    --------
    >>> class Centre(NodeSpec):
    ...     def resolve(self, n_dims, **needs):
    ...         return PointNodes(np.full((1, n_dims), 0.5), np.ones(1))
    >>> Centre().resolve(2).points
    array([[0.5, 0.5]])
    """

    needs_pooled: ClassVar[bool] = False  # whether nodes are drawn from the density of training bags

    def resolve(self, n_dims: int, **needs: Any) -> Any:
        """Return the nodes for this many dimensions, a ``GridNodes`` or a ``PointNodes``."""
        raise NotImplementedError

    def most_nodes(self) -> float:
        """The largest number of nodes that this makes, in however many dimensions."""
        return float(getattr(self, "n", 0))


@storable
@dataclass(frozen=True)
class Grid(NodeSpec):
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

    size: int | Sequence[int] | None = None

    def most_nodes(self) -> float:
        """The largest number of nodes that this makes, in however many dimensions."""
        if self.size is None:
            return 0.0  # as many as a bandwidth needs, which is limited
        sizes = self.size if isinstance(self.size, Sequence) else (self.size,) * MAX_GRID_DIMS
        return float(prod(float(size) for size in sizes))

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
                "nodes='importance', or wrap the embedding in Marginals"
            )
        basis = (1,) * n_dims if n_basis is None else n_basis
        if self.size is not None:
            sizes = check_per_dimension("Grid", "size", self.size, n_dims, whats="sizes")
            for size, n in zip(sizes, basis, strict=True):
                check_number("Grid", "size", size, low=2, high=2**20, integer=True)
                if size < n:
                    raise ValueError(
                        f"Grid(size=...): must have at least as many nodes as basis functions along each dimension "
                        f"({n}), got {size}; use Grid({2 * n}), or lower n_basis"
                    )
            return GridNodes(tuple(int(size) for size in sizes))
        widths = np.full(n_dims, 0.05) if bandwidth is None else np.broadcast_to(bandwidth, n_dims)
        resolving = np.clip(fineness * NODES_PER_BANDWIDTH[n_dims] / widths, LEAST_NODES[n_dims], GRID_LIMIT[n_dims])
        for_basis = fineness * NODES_PER_BASIS_FUNCTION * np.array(basis)
        return GridNodes(tuple(round_up(size) for size in np.maximum(resolving, for_basis).tolist()))


@storable
@dataclass(frozen=True)
class Sobol(NodeSpec):
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

    n: int = 4096

    def resolve(self, n_dims: int, *, random_state: np.random.RandomState | None = None, **_: object) -> PointNodes:
        """Return the nodes for this many dimensions."""
        n = check_number("Sobol", "n", self.n, low=2, high=2**24, integer=True)
        return _uniform(sobol(n_dims, 2 ** ceil(np.log2(n)), random_state or np.random.RandomState()))


@storable
@dataclass(frozen=True)
class MonteCarlo(NodeSpec):
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

    n: int = 5000

    def resolve(self, n_dims: int, *, random_state: np.random.RandomState | None = None, **_: object) -> PointNodes:
        """Return the nodes for this many dimensions."""
        n = check_number("MonteCarlo", "n", self.n, low=2, high=2**24, integer=True)
        return _uniform((random_state or np.random.RandomState()).uniform(size=(n, n_dims)))


def _uniform(points: Array) -> PointNodes:
    return PointNodes(points, np.full(len(points), 1 / len(points)))


@dataclass(frozen=True)
class FromPooled(NodeSpec):
    """Base of the kinds with some uniform nodes and others drawn from the density of training bags."""

    needs_pooled: ClassVar[bool] = True
    shares: ClassVar[Inclusive] = "both"  # ends of [0, 1] that ``uniform`` may be

    n: int = 4096
    uniform: float = 0.1

    def resolve(
        self,
        n_dims: int,
        *,
        random_state: np.random.RandomState | None = None,
        pooled: Pooled | None = None,
        **_: object,
    ) -> PointNodes:
        """Return the nodes for this many dimensions and this pooled density."""
        kind = type(self).__name__
        rng = random_state or np.random.RandomState()
        n = check_number(kind, "n", self.n, low=2, high=2**24, integer=True)
        n_uniform = ceil(n * check_number(kind, "uniform", self.uniform, low=0, high=1, inclusive=self.shares))
        if pooled is None:
            raise ValueError(
                f"{kind}: needs the density of training bags, got pooled=None; pass it to an embedding as "
                f"nodes={kind}(), which has them"
            )
        return self.draw(pooled, n_uniform, n - n_uniform, rng)

    def draw(self, pooled: Pooled, n_uniform: int, n_drawn: int, rng: np.random.RandomState) -> PointNodes:
        """Return this many nodes of both kinds."""
        raise NotImplementedError


@storable
@dataclass(frozen=True)
class Importance(FromPooled):
    r"""Nodes drawn from the mean density of training bags, and some uniform ones.

    With n_0 uniform nodes and n_1 from the pooled density m, fixed numbers of both, node u has the volume

    .. math:: v(u) = 1 / (n_0 + n_1 m(u)),

    the balance heuristic of Veach and Guibas (1995): Σ v_i f(u_i) is unbiased, and no volume is larger than 1/n_0. The
    coefficient of a bag that m covers, m >= c p, then has a variance of at most 1/(c n_1) times the energy of its basis
    function, however narrow p is. The pooled density is itself estimated from some of the points of at most 32 training
    bags; volumes are exact for the density that nodes are drawn from. For an estimate of unknown mass, that is found
    from the uniform nodes.

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
    >>> import warnings
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags(rng.normal(0.5, 0.02, size=(4, 300, 5)))
    >>> embedding = de.HDDEmbedding("hellinger", n_basis=2, bandwidth=0.02, nodes="importance", random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # so few basis functions capture little
    ...     round(embedding.fit(bags).node_mass_, 1)  # Sobol(4096) finds none of it
    1.0
    """

    def draw(self, pooled: Pooled, n_uniform: int, n_drawn: int, rng: np.random.RandomState) -> PointNodes:
        """Return nodes drawn independently, and uniform ones."""
        if not pooled.can_sample:
            raise ValueError(
                "Importance: the density estimate must be able to draw points, but has no sample method; use "
                "nodes=MCMC(), which only evaluates it"
            )
        drawn = pooled.sample(n_drawn, rng) if n_drawn else np.empty((0, pooled.n_dims))
        inside = np.all((drawn >= 0) & (drawn <= 1), axis=1)
        points = np.concatenate([sobol(pooled.n_dims, n_uniform, rng), drawn[inside]])
        return _balance(points, pooled.pdf(points), n_uniform, n_drawn, pooled.integrates_to_one)


@storable
@dataclass(frozen=True)
class MCMC(FromPooled):
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
    which no chain starts is found only by luck. The integral over the cube of an estimate of unknown mass is found from
    the uniform nodes, as that for which all volumes have the sum one; narrow densities are hardly seen by these.
    ``nodes_.acceptance`` is the share of accepted steps; a quarter is good, a per cent is not.

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

    shares: ClassVar[Inclusive] = "left"  # chains draw one node at least

    n_chains: int = 512
    burn_in: int = 100
    thin: int = 5

    def draw(self, pooled: Pooled, n_uniform: int, n_drawn: int, rng: np.random.RandomState) -> PointNodes:
        """Return nodes drawn by chains, and uniform ones."""
        n_drawn = max(1, n_drawn)
        n_chains = min(n_drawn, check_number(self, "n_chains", self.n_chains, low=1, high=2**20, integer=True))
        burn_in = check_number(self, "burn_in", self.burn_in, low=0, high=2**20, integer=True)
        thin = check_number(self, "thin", self.thin, low=1, high=2**20, integer=True)
        archive = pooled.points
        if archive is None:
            archive = pooled.sample(n_chains, rng) if pooled.can_sample else rng.uniform(size=(n_chains, pooled.n_dims))
        order = [rng.permutation(len(archive)) for _ in range(ceil(n_chains / len(archive)))]
        starts = archive[np.concatenate(order)[:n_chains]]
        drawn, values, acceptance = metropolis(pooled.pdf, starts, n_drawn, archive, rng, burn_in=burn_in, thin=thin)
        points = np.concatenate([sobol(pooled.n_dims, n_uniform, rng), drawn])
        m = np.append(pooled.pdf(points[:n_uniform]) if n_uniform else [], values)
        known_mass = pooled.integrates_to_one and pooled.mass_in_cube
        return _balance(points, m, n_uniform, n_drawn, known_mass, acceptance)


_NODES: dict[str, type[NodeSpec]] = {"grid": Grid, "importance": Importance, "mcmc": MCMC}


def get(nodes: str | NodeSpec, n_dims: int, pooled: Pooled | None = None) -> NodeSpec:
    """Nodes by name: ``"auto"``, ``"grid"``, ``"importance"`` or ``"mcmc"``; an object is returned as it is.

    ``"auto"`` is a grid up to three dimensions. Beyond, nodes are drawn from the density of the bags: by itself if it
    can draw points, else by chains.

    Parameters
    ----------
    nodes : str or node object
        Name or kind.
    n_dims : int
        Of the points.
    pooled : Pooled, optional
        What nodes would be drawn from; without it, ``"auto"`` takes for granted that it can draw points.

    Examples
    --------
    >>> get("auto", 2), get("auto", 5)
    (Grid(size=None), Importance(n=4096, uniform=0.1))
    """
    if isinstance(nodes, NodeSpec):
        return nodes
    if isinstance(nodes, str) and nodes == "auto":
        if n_dims <= MAX_GRID_DIMS:
            return Grid()
        return Importance() if pooled is None or pooled.can_sample else MCMC()
    if isinstance(nodes, str) and nodes in _NODES:
        return _NODES[nodes]()
    raise ValueError(
        f"nodes: must be 'auto', {', '.join(map(repr, _NODES))}, Grid(...), Importance(...), MCMC(...), Sobol(...) or "
        f"MonteCarlo(...), got {nodes!r}; choose one"
    )


# --------------------------------------------------------------------------------------------------------------
# Whether nodes see the densities
# --------------------------------------------------------------------------------------------------------------


def mass_on_nodes(p: Array, volumes: Array) -> tuple[Array, Array]:
    """Mass Σ v p of densities on nodes, and how many nodes see them, (Σ v p)² / Σ (v p)²; shape (n_bags,) both.

    Examples
    --------
    >>> mass_on_nodes(np.array([[1.0, 1.0, 1.0, 1.0], [4.0, 0.0, 0.0, 0.0]]), np.full(4, 0.25))
    (array([1., 1.]), array([4., 1.]))
    """
    parts = bags_first(p).reshape(p.shape[-2], -1) * volumes
    masses = parts.sum(axis=1)
    return masses, masses**2 / np.maximum(np.sum(parts * parts, axis=1), 1e-300)


def warn_if_mass_is_off(
    owner: str, masses: Array, nodes: GridNodes | PointNodes, drawn: bool = False, stacklevel: int = 3
) -> bool:
    """Warn where densities of mass one have another mass on the nodes: off by a quarter in the root mean square.

    Returns whether it did. The mean alone would not do: nodes that miss most bags and overrate a few may have it right.

    Parameters
    ----------
    owner : str
        Who warns.
    masses : ndarray of shape (n_bags,)
        Σ_i v_i p̂(u_i) of some bags.
    nodes : GridNodes or PointNodes
        The nodes u_i of volumes v_i.
    drawn : bool
        Whether they were drawn from training bags.
    stacklevel : int
        1 points to the caller of this function.
    """
    off = float(np.sqrt(np.mean((masses - 1) ** 2)))
    wrong = off > MASS_TOLERANCE and nodes.n_nodes >= FEW_NODES
    if wrong:
        warnings.warn(
            Message(
                f"{owner}: the densities of training bags, of mass 1, have another mass on the nodes, off by a quarter "
                "and more, so distances are as far off; use ",
                *(() if drawn else (Argument("nodes", "importance"), ", which puts nodes where the points are, or ")),
                "more nodes, or a larger ",
                Argument("bandwidth"),
            ),
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    return wrong


def warn_if_few_see(owner: str, seeing: Array, nodes: GridNodes | PointNodes, stacklevel: int = 3) -> bool:
    """Warn where densities of bags lie on so few nodes that integrals over them mean little; returns whether it did.

    Parameters
    ----------
    owner : str
        What the warning begins with.
    seeing : ndarray of shape (n_bags,)
        Nodes that see each bag's density, (Σ v p)² / Σ (v p)².
    nodes : GridNodes or PointNodes
        The nodes.
    stacklevel : int
        1 points to the caller of this function.

    Examples
    --------
    >>> warn_if_few_see("HDDEmbedding", np.array([900.0, 400.0]), Sobol(4096).resolve(5))  # many see them
    False
    """
    typical = float(np.median(seeing))
    if isinstance(nodes, GridNodes) or nodes.n_nodes < FEW_NODES or typical > FEW_SEEING:
        return False
    warnings.warn(
        Message(
            f"{owner}: the densities of training bags lie on so few of the nodes that integrals over them mean little; "
            "use ",
            Argument("nodes", "importance"),
            ", ",
            Argument("nodes", "mcmc"),
            " or more nodes",
        ),
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return True
