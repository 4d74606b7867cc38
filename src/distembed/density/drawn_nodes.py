r"""Nodes drawn from the density of training bags: importance sampling and Metropolis chains.

Both kinds of nodes are a fixed number n_0 of uniform nodes and n_1 from the pooled density m, and a node u has the
volume 1 / (n_0 + n_1 m(u)), by which Σ v_i f(u_i) estimates ∫ f over the cube; see :mod:`distembed.density.nodes`.

**Chains.** A chain at x proposes x' = fold(x + d), the increment d drawn from a distribution that does not depend on x
and is symmetric, fold being reflection at the faces of the cube. Then x' is as likely from x as x from x', and to
accept it with probability min(1, p(x') / p(x)) leaves p invariant (Metropolis et al. 1953). Two kinds of increments
take turns at random: Gaussian ones, whose scale is adapted during burn-in until a quarter are accepted, and differences
of two points of a fixed archive (ter Braak and Vrugt 2008), which follow the correlations of the points and jump from
mode to mode. The cost is one evaluation of the density a chain and step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import qmc

from ..compute.arrays import Array
from ..compute.checks import Inclusive, check_number
from ..compute.parallel import one_blas_thread
from ..compute.registry import storable

if TYPE_CHECKING:
    from .estimate import BagDensity


TARGET = 0.25  # accepted share of Gaussian steps at which chains of several dimensions move fastest
_WHOLE = 0.3  # share of differences taken at full length, which lead from mode to mode
_LEAST_SPREAD = 1e-4  # of the archive in a dimension, in units of the cube


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


@storable(points="finite(n, l)", weights="finite(n)", acceptance="number | None")
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
        turn = rng.randint(len(self.parts))  # who gives one more than the others: by chance, so that none is favoured
        counts = np.bincount((turn + np.arange(n)) % len(self.parts), minlength=len(self.parts))
        drawn = [part.sample(int(k), rng) for part, k in zip(self.parts, counts, strict=True) if k]
        return np.concatenate(drawn)


@dataclass(frozen=True)
class FromPooled(NodeSpec):
    """Base of the nodes of which some are uniform and the others drawn from the density of training bags."""

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
        return self.drawn(pooled, n_uniform, n - n_uniform, rng)

    def drawn(self, pooled: Pooled, n_uniform: int, n_drawn: int, rng: np.random.RandomState) -> PointNodes:
        """Return so many nodes of both kinds."""
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

    def drawn(self, pooled: Pooled, n_uniform: int, n_drawn: int, rng: np.random.RandomState) -> PointNodes:
        """Return nodes drawn independently, and uniform ones."""
        if not pooled.can_sample:
            raise ValueError(
                "Importance: the density estimate must be able to draw points, but has no sample method; use "
                "nodes=MCMC(), which only evaluates it"
            )
        drawn = pooled.sample(n_drawn, rng) if n_drawn else np.empty((0, pooled.n_dims))
        inside = np.all((drawn >= 0) & (drawn <= 1), axis=1)
        points = np.concatenate([sobol(pooled.n_dims, n_uniform, rng), drawn[inside]])
        return _balanced(points, pooled.pdf(points), n_uniform, n_drawn, pooled.integrates_to_one)


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
    the uniform nodes, as that for which all volumes have the sum one; they say little about narrow densities.
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

    def drawn(self, pooled: Pooled, n_uniform: int, n_drawn: int, rng: np.random.RandomState) -> PointNodes:
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
        return _balanced(points, m, n_uniform, n_drawn, known_mass, acceptance)


def sobol(n_dims: int, n: int, rng: np.random.RandomState) -> Array:
    """The first n points of a scrambled Sobol sequence, ndarray of shape (n, n_dims)."""
    sequence = qmc.Sobol(n_dims, scramble=True, seed=np.random.default_rng(rng.randint(2**31 - 1)))
    return np.asarray(sequence.random_base2(ceil(np.log2(max(n, 1)))))[:n]


def _balanced(
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
        n_0 and n_1: points drawn, those outside the cube, which are no nodes, included.
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


# --------------------------------------------------------------------------------------------------------------
# Chains
# --------------------------------------------------------------------------------------------------------------


def fold(x: Array) -> Array:
    """Points reflected at the faces of the unit cube until they lie inside.

    Examples
    --------
    >>> fold(np.array([-0.25, 0.5, 1.25, 2.25]))
    array([0.25, 0.5 , 0.75, 0.25])
    """
    return np.asarray(1 - np.abs(1 - np.mod(x, 2)))


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
            if len(walked):  # the gain falls, so that the scale settles
                log_scale += 2 / np.sqrt(step) * (walked.mean() - TARGET)
            continue
        accepted += float(accept.mean()) / (thin * rounds)
        if (step - burn_in) % thin == 0:
            kept.append(state)
            values.append(value)
    return np.concatenate(kept)[:n], np.concatenate(values)[:n], accepted
