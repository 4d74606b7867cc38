"""What every density estimate offers: the density of one bag, and densities of many bags on integration nodes.

A density is a small value object that users pass: ``density=KDE(boundary="periodic")``. It turns the points of one bag
into a :class:`BagDensity` (``of``), which has a ``pdf`` and may have a ``sample``; and it makes, for given nodes, a
function of many bags (``prepare``). The latter has a slow default, one bag after the other (:class:`EachBag`); an
estimate that knows a faster way overrides it. :func:`get` finds a density by name.

:func:`pool` is the mean density of some bags, from which nodes are drawn where there are too many dimensions for a grid
(:func:`choose_nodes`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..bags import Bags
from ..bags.point_order import sort_points
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.registry import Registry
from . import nodes as node_kinds
from .nodes import MAX_GRID_DIMS, BagDensity, Grid, GridNodes, NodeSpec, PointNodes, Pooled

Evaluator = Callable[[Bags, Array | None, Scratch | None], Array]

POOLED_POINTS = 4096
_GOLDEN = 0.6180339887498949  # its multiples modulo one are spread evenly
_NODES_AT_A_TIME = 2**18
MASS_DRAWS = 1024  # by which the mass of a model inside the cube is estimated


# --------------------------------------------------------------------------------------------------------------
# Points of bags
# --------------------------------------------------------------------------------------------------------------


def shares_of(bags: Bags) -> Array:
    """Mass of each point, each bag's of sum one, ndarray of shape (n_points,).

    Examples
    --------
    >>> shares_of(Bags(np.zeros((3, 1)), [0, 2, 3]))
    array([0.5, 0.5, 1. ])
    """
    shares = bags.shares()
    return np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares


def with_shares(bags: Bags) -> Iterator[tuple[Array, Array | None]]:
    """Points of each bag in float64, and their masses, of sum one; None for equal ones."""
    shares = bags.shares()
    ends = bags.offsets.tolist()
    for i, points in enumerate(bags):
        yield points.astype(float), None if shares is None else shares[ends[i] : ends[i + 1]]


def distinct_points(points: Array, weights: Array | None) -> tuple[Array, Array]:
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
    >>> distinct_points(np.array([[0.7], [0.2], [0.7], [0.7]]), None)
    (array([[0.2],
           [0.7]]), array([0.25, 0.75]))
    """
    order = np.lexsort(points.T[::-1])
    points = points[order]
    new = np.append(True, np.any(points[1:] != points[:-1], axis=1))
    mass = np.ones(len(points)) if weights is None else weights[order]
    mass = np.add.reduceat(mass, np.flatnonzero(new))
    return points[new], mass / mass.sum()


# --------------------------------------------------------------------------------------------------------------
# Densities of bags
# --------------------------------------------------------------------------------------------------------------


def normalise(values: Array, weights: Array) -> Array:
    """Values divided by their integral; a density that no node sees is uniform.

    Examples
    --------
    >>> normalise(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    array([0.5, 1.5])
    """
    scale = values.max()
    if not scale > 0:
        return np.ones_like(values)
    values = values / scale  # so the sum can't overflow
    return np.asarray(values / (values @ weights))


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
        After a thousand rounds what is missing is moved to the nearest point of the cube, so it always ends.

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


def mass_inside(drawn: Array) -> float:
    """Share of points that lie in the unit cube.

    Examples
    --------
    >>> mass_inside(np.array([[0.5], [1.0], [1.5], [2.0]]))
    0.5
    """
    return float(np.mean(np.all((drawn >= 0) & (drawn <= 1), axis=1)))


class EachBag:
    """Densities of many bags on nodes, one bag after the other.

    Called with bags (and a bandwidth per bag, or None) it returns an ndarray of shape (g_1, ..., g_{l-1}, n_bags, g_l)
    on a grid, (n_bags, n_nodes) at scattered nodes. An estimate with a faster way for bags of one bandwidth overrides
    :meth:`together`.
    """

    def __init__(
        self, density: Density, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]
    ) -> None:
        self.density = density
        self.nodes = nodes
        self.bandwidth = bandwidth
        self.dtype = dtype
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
        n_unseen = 0
        for i, (points, own) in enumerate(with_shares(bags)):
            values = self._on_nodes(self.density.of(points, own, bandwidths[i]))
            if not self.density.integrates_to_one:
                n_unseen += not values.any()
                values = normalise(values, self._weights)
            bags_first(stored)[i] = values.reshape(shape)
        if n_unseen:
            warnings.warn(
                f"{type(self.density).__name__}: no node sees the density of some bags, which are taken as uniform; "
                "use nodes='importance', which puts nodes where the points are, or more nodes, or a smoother density",
                UserWarning,
                stacklevel=4,
            )
        return stored

    def _on_nodes(self, density: Any) -> Array:
        """A density at all nodes, some at a time: what ``pdf`` holds on its way is several times as large."""
        points = self.nodes.points
        starts = range(0, len(points), _NODES_AT_A_TIME)
        if len(starts) == 1:
            return np.asarray(density.pdf(points))
        return np.concatenate([density.pdf(points[start : start + _NODES_AT_A_TIME]) for start in starts])


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
        finest = self.finest()
        multiples = self.multiples(n_dims)
        if bandwidth is None and finest is not None and n_dims < MAX_GRID_DIMS:  # in three dimensions it would be huge
            bandwidth = np.full(n_dims, finest)
        nodes: GridNodes | PointNodes = kind.resolve(n_dims, bandwidth=bandwidth, **needs)
        if multiples is not None and isinstance(kind, Grid) and kind.size is None:
            return GridNodes(tuple(-(-size // m) * m for size, m in zip(nodes.shape, multiples, strict=True)))
        return nodes

    def multiples(self, n_dims: int) -> tuple[int, ...] | None:
        """Numbers, one per dimension, that the size of a grid should be multiples of; None where any size will do."""
        return None

    def finest(self) -> float | None:
        """The least width of the estimate where there is no bandwidth, in units of the cube; None: unknown."""
        return None

    def warn_if_unresolved(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, stacklevel: int = 3) -> None:
        """Warn where the nodes are too coarse for the estimate; by default nothing is known, and nothing said.

        Asked once, in ``fit``, and not by :meth:`prepare`, which every ``transform`` calls; a warning points to the
        caller of ``fit``.

        Parameters
        ----------
        nodes : GridNodes or PointNodes
            The integration nodes.
        bandwidth : ndarray of shape (n_dims,) or None
            The narrowest in use.
        stacklevel : int
            Of the warning; 1 points to the caller of this method.
        """


def require_bandwidth(owner: str, bandwidth: Array | None) -> Array:
    """The bandwidth, if there is one."""
    if bandwidth is None:
        raise ValueError(f"{owner}: needs a bandwidth, got None; give one per dimension")
    return bandwidth


# --------------------------------------------------------------------------------------------------------------
# Nodes for a density
# --------------------------------------------------------------------------------------------------------------


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
        some at regular steps of its weights, the same ones in whichever order its points are given.

    Examples
    --------
    >>> from distembed.density import KDE
    >>> bags = Bags.from_arrays([np.linspace(0, 0.5, 1000), np.linspace(0.5, 1, 1000)])
    >>> pool(KDE(), bags, np.array([0.05]), limit=100).points.shape
    (100, 1)
    """
    most = max(2, limit // bags.n_bags)
    exponent = 1 / 5 if density.smooths == "margins" else 1 / (bags.n_dims + 4)
    parts = []
    kept = []
    for i, (points, own) in enumerate(with_shares(sort_points(bags))):
        h = bandwidth
        if len(points) > most:
            start = (0.5 + i * _GOLDEN) % 1  # another one in each bag: few points of each are spread over all ranks
            steps = (np.arange(most) + start) / most
            if own is None:
                rows = (steps * len(points)).astype(int)
            else:
                rows = np.minimum(np.searchsorted(np.cumsum(own), steps), len(points) - 1)
            h = None if bandwidth is None else bandwidth * (len(points) / most) ** exponent
            points = points[rows]
            own = None
        parts.append(density.of(points, own, h))
        kept.append(points)
    closed = "none" not in density.boundaries(bags.n_dims)
    return Pooled(parts, bags.n_dims, np.concatenate(kept), density.integrates_to_one, closed)


def choose_nodes(
    nodes: str | NodeSpec, density: Density, bags: Bags, bandwidth: Array | None
) -> tuple[NodeSpec, Pooled | None]:
    """The kind of nodes for bags, by name or as it is given, and what to draw them from, if they are drawn.

    Parameters
    ----------
    nodes : str or node object
        Name or kind, see :func:`distembed.density.nodes.get`.
    density : Density
        The estimate.
    bags : Bags
        Few, without weightless points.
    bandwidth : ndarray of shape (n_dims,) or None
        Of the estimate.

    Examples
    --------
    >>> from distembed.density import KDE, KNN
    >>> bags = Bags.from_arrays([np.random.default_rng(0).uniform(size=(20, 4))])
    >>> [type(choose_nodes("auto", kind, bags, np.full(4, 0.1))[0]).__name__ for kind in (KDE(), KNN())]
    ['Importance', 'MCMC']
    """
    kind = node_kinds.get(nodes, bags.n_dims)
    if not kind.needs_pooled:
        return kind, None
    pooled = pool(density, bags, bandwidth)
    return node_kinds.get(nodes, bags.n_dims, pooled), pooled


# --------------------------------------------------------------------------------------------------------------
# Densities by name
# --------------------------------------------------------------------------------------------------------------


DENSITIES: Registry[Callable[[], Density]] = Registry("density")


def register(name: str, kind: Callable[[], Density]) -> None:
    """Let a density be found by its name: in embeddings, learners, divergences and the command line.

    Parameters
    ----------
    name : str
        A new one.
    kind : callable
        Called without arguments, returns the density; usually its class.

    Examples
    --------
    >>> from distembed import HDDEmbedding, KDE
    >>> register("wrapped", lambda: KDE(boundary="periodic"))
    >>> HDDEmbedding("js", n_basis=5, density="wrapped").fit_transform([[0.1, 0.3], [0.8]]).shape
    (2, 50)
    >>> forget("wrapped")
    """
    DENSITIES.add(name, kind)


def forget(name: str) -> None:
    """Take back :func:`register`."""
    del DENSITIES[name]


def get(density: Any) -> Density:
    """A density by name; an object is returned as it is, an estimator with ``score_samples`` is wrapped.

    Parameters
    ----------
    density : {"kde", "histogram", "copula", "mixture", "knn"}, Density or estimator
        What to get.

    Returns
    -------
    Density

    Examples
    --------
    >>> from distembed.density import get
    >>> get("kde"), get("histogram")
    (KDE(boundary='reflect', per_bag=False), Histogram(bins=None))
    >>> from sklearn.neighbors import KernelDensity
    >>> get(KernelDensity())
    Scored(estimator=KernelDensity())
    """
    if isinstance(density, Density):
        return density
    if isinstance(density, str) and density in DENSITIES:
        return DENSITIES[density]()
    if hasattr(density, "fit") or hasattr(density, "score_samples"):
        from .scored import Scored, check_scores

        return Scored(check_scores(density, "density"))
    error = ValueError if isinstance(density, str) else TypeError
    raise error(
        f"density: must be one of {', '.join(map(repr, DENSITIES))}, a density object, or an estimator with fit and "
        f"score_samples, got {density!r}; use KDE(boundary=...) for options"
    )
