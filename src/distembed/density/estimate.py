"""What every density estimate offers, and the evaluation of any of them bag by bag.

A density is a small value object that users pass: ``density=KDE(boundary="periodic")``. It turns the points of one bag
into a :class:`BagDensity` (``of``), which has a ``pdf`` and may have a ``sample``; and it makes, for given nodes, a
function of many bags (``prepare``). The latter has a slow default here, one bag after the other; an estimate that knows
a faster way overrides it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..compute.parallel import Scratch
from ..compute.separable import bags_first
from .nodes import MAX_GRID_DIMS, Grid, GridNodes, PointNodes

__all__ = [
    "BagDensity",
    "Density",
    "EachBag",
    "Evaluator",
    "Pooled",
    "distinct",
    "draw_inside",
    "effective_nodes",
    "normalised",
    "pool",
    "seen",
]

Array = NDArray[Any]
Evaluator = Callable[[Bags, Array | None, Scratch | None], Array]

POOLED_POINTS = 4096


class BagDensity(Protocol):
    """The estimated density of one bag."""

    def pdf(self, u: Array) -> Array:
        """Density at u of shape (n, n_dims), ndarray of shape (n,)."""

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n independent points, ndarray of shape (n, n_dims)."""


class Density:
    """Base of the density estimates.

    Attributes
    ----------
    smooths : {"joint", "margins", "nothing"}
        What the bandwidth means to this estimate: rules apply to the points as they are, to each coordinate by itself,
        or there is no bandwidth.
    integrates_to_one : bool
        Whether the estimate has mass one on the cube. If not, its values are divided by its mass on the nodes.
    per_bag : bool
        Whether a bandwidth rule is applied to every bag by itself.

    Examples
    --------
    An estimate of one's own needs a method ``of``. Here every bag is uniform, whatever its points:

    >>> from distembed import HDDEmbedding
    >>> class Flat(Density):
    ...     smooths = "nothing"
    ...     def of(self, points, weights, bandwidth):
    ...         return self
    ...     def pdf(self, u):
    ...         return np.ones(len(u))
    >>> HDDEmbedding("hellinger", n_basis=2, density=Flat()).fit_transform([[0.1, 0.3], [0.8]]).round(6) + 0.0
    array([[0.707107, 0.      ],
           [0.707107, 0.      ]])
    """

    smooths: ClassVar[str] = "joint"
    integrates_to_one: ClassVar[bool] = True
    per_bag: bool = False

    def boundaries(self, n_dims: int) -> tuple[str, ...]:
        """The boundary of each of n_dims dimensions, see :func:`distembed.density.kernel`."""
        return ("reflect",) * n_dims

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> BagDensity:
        """The density of one bag.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_dims)
            In the unit cube.
        weights : ndarray of shape (n_points,) or None
            Positive masses of sum one; None for equal ones.
        bandwidth : ndarray of shape (n_dims,) or None
            None for estimates that have none.
        """
        raise NotImplementedError

    def prepare(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> Evaluator:
        """An evaluator for these nodes: called with bags, it returns densities on the nodes."""
        return EachBag(self, nodes, bandwidth, dtype)

    def resolve_nodes(self, kind: Any, n_dims: int, *, bandwidth: Array | None, **needs: Any) -> GridNodes | PointNodes:
        """Nodes of this kind that suit the estimate; an automatic grid resolves its finest detail and its boxes."""
        finest, multiples = self.finest(), self.multiples(n_dims)
        if bandwidth is None and finest is not None and n_dims < MAX_GRID_DIMS:  # in three dimensions it would be huge
            bandwidth = np.full(n_dims, finest)
        nodes: GridNodes | PointNodes = kind.resolve(n_dims, bandwidth=bandwidth, **needs)
        if multiples is not None and isinstance(kind, Grid) and kind.size is None:
            return GridNodes(tuple(-(-size // m) * m for size, m in zip(nodes.shape, multiples, strict=True)))
        return nodes

    def multiples(self, n_dims: int) -> tuple[int, ...] | None:
        """Numbers, one a dimension, that the size of a grid should be multiples of; None where any size will do."""
        return None

    def finest(self) -> float | None:
        """The least width that the estimate can have where no bandwidth tells, in units of the cube; None: unknown."""
        return None

    def warn_if_unresolved(self, nodes: GridNodes | PointNodes, bandwidth: Array | None) -> None:
        """Warn where the nodes are too coarse for the estimate; by default nothing is known, and nothing said.

        Asked once, in ``fit``, and not by :meth:`prepare`, which every ``transform`` calls; a warning points to the
        caller of ``fit``.

        Parameters
        ----------
        nodes : GridNodes or PointNodes
            The integration nodes.
        bandwidth : ndarray of shape (n_dims,) or None
            The narrowest in use.
        """


class EachBag:
    """Densities of many bags on nodes, one bag after the other.

    Called with bags (and a bandwidth a bag, or None) it returns an ndarray of shape (g_1, ..., g_{l-1}, n_bags, g_l)
    on a grid, (n_bags, n_nodes) at scattered nodes. An estimate with a faster way for bags of one bandwidth overrides
    :meth:`together`.
    """

    def __init__(
        self, density: Density, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]
    ) -> None:
        self.density, self.nodes, self.bandwidth, self.dtype = density, nodes, bandwidth, dtype
        self._weights = nodes.weights

    def __call__(self, bags: Bags, bandwidth: Array | None = None, scratch: Scratch | None = None) -> Array:
        """Densities on the nodes."""
        return self.together(bags, scratch) if bandwidth is None else self._apart(bags, bandwidth)

    def together(self, bags: Bags, scratch: Scratch | None) -> Array:
        """Densities on the nodes of bags of one bandwidth."""
        return self._apart(bags, [self.bandwidth] * bags.n_bags)

    def _apart(self, bags: Bags, bandwidths: Array | Sequence[Array | None]) -> Array:
        shape = self.nodes.shape
        stored = np.empty((*shape[:-1], bags.n_bags, shape[-1]), self.dtype)
        shares, n_unseen = bags.shares(), 0
        for i, points in enumerate(bags):
            own = None if shares is None else shares[bags.offsets[i] : bags.offsets[i + 1]]
            values = self.density.of(points.astype(float), own, bandwidths[i]).pdf(self.nodes.points)
            if not self.density.integrates_to_one:
                n_unseen += not values.any()
                values = normalised(values, self._weights)
            bags_first(stored)[i] = values.reshape(shape)
        if n_unseen:
            warnings.warn(
                f"{type(self.density).__name__}: no node sees the density of {n_unseen} of {bags.n_bags} bags, which "
                "are taken as uniform; use nodes='importance', which puts nodes where the points are, or more nodes, "
                "or a smoother density",
                UserWarning,
                stacklevel=4,
            )
        return stored


def effective_nodes(p: Array, weights: Array) -> float:
    r"""How many nodes carry the mass of a density, (Σ_i v_i p_i)² / Σ_i (v_i p_i)².

    A density that is divided by its mass on the nodes has the mass one there, however badly they see it; this number
    tells. Between 1, all of the mass at one node, and the number of nodes; it does not depend on the scale of p.

    Parameters
    ----------
    p : ndarray of shape (n_nodes,)
        Values of a density at the nodes, up to a factor.
    weights : ndarray of shape (n_nodes,)
        Volumes v of the nodes.

    Returns
    -------
    float
        0 where all values are 0.

    Examples
    --------
    >>> effective_nodes(np.array([1.0, 1.0, 0.0, 0.0]), np.full(4, 0.25))
    2.0
    """
    masses = np.asarray(p, float) * weights
    scale = masses.max()
    if not scale > 0:
        return 0.0
    masses /= scale
    return float(masses.sum() ** 2 / np.sum(masses**2))


def normalised(values: Array, weights: Array) -> Array:
    """Values divided by their integral; a density that no node sees is uniform.

    Examples
    --------
    >>> normalised(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    array([0.5, 1.5])
    """
    scale = values.max()
    if not scale > 0:
        return np.ones_like(values)
    values = values / scale  # so that the sum can't overflow
    return np.asarray(values / (values @ weights))


def distinct(points: Array, weights: Array | None) -> tuple[Array, Array]:
    """The distinct points of a bag in lexicographic order, and their masses, of sum one.

    What is computed from these depends neither on the order of points nor on whether a mass is one heavy point or many
    copies. Costs a sort.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        Of one bag.
    weights : ndarray of shape (n_points,) or None
        Their masses; None for equal ones.

    Returns
    -------
    points : ndarray of shape (n_distinct, n_dims)
    masses : ndarray of shape (n_distinct,)

    Examples
    --------
    >>> distinct(np.array([[0.7], [0.2], [0.7], [0.7]]), None)
    (array([[0.2],
           [0.7]]), array([0.25, 0.75]))
    """
    order = np.lexsort(points.T[::-1])
    points = points[order]
    new = np.append(True, np.any(points[1:] != points[:-1], axis=1))
    mass = np.ones(len(points)) if weights is None else weights[order]
    mass = np.add.reduceat(mass, np.flatnonzero(new))
    return points[new], mass / mass.sum()


def draw_inside(draw: Callable[[int], Array], n: int) -> Array:
    """Points of the unit cube from draws that may leave it, by rejection.

    Parameters
    ----------
    draw : callable
        Called with a number, returns that many independent points, ndarray of shape (number, n_dims).
    n : int
        Points wanted.

    Returns
    -------
    ndarray of shape (n, n_dims)
        After a thousand rounds what is missing is moved to the nearest point of the cube, so that it always ends.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> drawn = draw_inside(lambda size: rng.normal(0, 1, size=(size, 2)), 30)
    >>> drawn.shape, bool(drawn.min() >= 0), bool(drawn.max() <= 1)
    ((30, 2), True, True)
    """
    kept: list[Array] = []
    missing = n
    for _ in range(1000):
        drawn = draw(2 * missing + 8)
        inside = drawn[np.all((drawn >= 0) & (drawn <= 1), axis=1)][:missing]
        kept.append(inside)
        missing -= len(inside)
        if missing == 0:
            return np.concatenate(kept)
    return np.concatenate([*kept, np.clip(draw(missing), 0, 1)])


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

    def __init__(
        self,
        parts: Sequence[BagDensity],
        n_dims: int,
        points: Array | None = None,
        integrates_to_one: bool = True,
        mass_in_cube: bool = True,
    ) -> None:
        self.parts, self.n_dims, self.points = list(parts), n_dims, points
        self.integrates_to_one, self.mass_in_cube = integrates_to_one, integrates_to_one and mass_in_cube

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


def pool(density: Density, bags: Bags, bandwidth: Array | None, limit: int = POOLED_POINTS) -> Pooled:
    """The mean density of bags, estimated from at most about ``limit`` of their points.

    Parameters
    ----------
    density : Density
        The estimate.
    bags : Bags
        Few, without weightless points.
    bandwidth : ndarray of shape (n_dims,) or None
        Of the estimates from all points. Fewer points get a wider one, by n^(-1/(l+4)), or n^(-1/5) where it smooths
        one coordinate at a time.
    limit : int
        Points in all, equally many of each bag: every node costs a kernel for each of them. A bag with more gives
        some at regular steps of its weights.

    Examples
    --------
    >>> from distembed.density import KDE
    >>> bags = Bags.from_arrays([np.linspace(0, 0.5, 1000), np.linspace(0.5, 1, 1000)])
    >>> pool(KDE(), bags, np.array([0.05]), limit=100).points.shape
    (100, 1)
    """
    shares, most = bags.shares(), max(2, limit // bags.n_bags)
    exponent = 1 / 5 if density.smooths == "margins" else 1 / (bags.n_dims + 4)
    parts, kept = [], []
    for i, points in enumerate(bags):
        own = None if shares is None else shares[bags.offsets[i] : bags.offsets[i + 1]]
        h = bandwidth
        if len(points) > most:
            steps = (np.arange(most) + 0.5) / most
            if own is None:
                rows = (steps * len(points)).astype(int)
            else:
                rows = np.minimum(np.searchsorted(np.cumsum(own), steps), len(points) - 1)
            h = None if bandwidth is None else bandwidth * (len(points) / most) ** exponent
            points, own = points[rows], None
        parts.append(density.of(points.astype(float), own, h))
        kept.append(points.astype(float))
    closed = "none" not in density.boundaries(bags.n_dims)
    return Pooled(parts, bags.n_dims, np.concatenate(kept), density.integrates_to_one, closed)


def seen(p: Array, volumes: Array) -> tuple[Array, Array]:
    """Mass Σ v p of densities on nodes, and how many nodes see them, (Σ v p)² / Σ (v p)²; shape (n_bags,) both.

    Examples
    --------
    >>> seen(np.array([[1.0, 1.0, 1.0, 1.0], [4.0, 0.0, 0.0, 0.0]]), np.full(4, 0.25))
    (array([1., 1.]), array([4., 1.]))
    """
    parts = bags_first(p).reshape(p.shape[-2], -1) * volumes
    masses = parts.sum(axis=1)
    return masses, masses**2 / np.maximum(np.sum(parts * parts, axis=1), 1e-300)
