"""What every density estimate offers, and the grid on which most are evaluated.

A density is a small value object that users pass: ``density=KDE(boundary="periodic")``. It turns the points of one bag
into a :class:`BagDensity` (``of``), which has a ``pdf`` and may have a ``sample``; and it makes, for given nodes, a
function of many bags (``prepare``). The latter has a slow default, one bag after the other
(:mod:`distembed.density.each_bag`); an estimate that knows a faster way overrides it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import Any, ClassVar, Protocol

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.checks import Argument, Message, check_number, check_per_dimension
from ..compute.registry import Registry, storable
from .drawn_nodes import MCMC, Importance, NodeSpec, PointNodes, Pooled
from .each_bag import EachBag, pool

Evaluator = Callable[[Bags, Array | None, Scratch | None], Array]

MAX_GRID_DIMS = 3
GRID_LIMIT = {1: 4096, 2: 256, 3: 64}  # largest automatic size a dimension
# Automatic grids, by number of dimensions: nodes a bandwidth, and least number. In the root mean square over pairs of
# bags, squared distances are then within 0.3 % of those on a much finer grid (js, hellinger, chi2; 2 % for tv) with
# cosines and Fourier functions. Legendre polynomials turn faster near the ends and ask for more nodes: their ``turns``.
NODES_PER_BANDWIDTH = {1: 1.5, 2: 0.55, 3: 0.55}
LEAST_NODES = {1: 64, 2: 16, 3: 16}
NODES_PER_BASIS_FUNCTION = 1.6
FEW_SEEING = 16  # nodes that see a density: integrals then have a relative error of about a quarter
MASS_TOLERANCE = 0.25  # root mean square error over bags of the mass that nodes find; more is warned about
FEW_NODES = 256  # who asks for fewer wants speed and knows the price


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
        """The least width that the estimate can have where no bandwidth tells, in units of the cube; None: unknown."""
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
        from .models import Scored, check_scores

        return Scored(check_scores(density, "density"))
    error = ValueError if isinstance(density, str) else TypeError
    raise error(
        f"density: must be one of {', '.join(map(repr, DENSITIES))}, a density object, or an estimator with fit and "
        f"score_samples, got {density!r}; use KDE(boundary=...) for options"
    )


def required(owner: str, bandwidth: Array | None) -> Array:
    """The bandwidth, if there is one."""
    if bandwidth is None:
        raise ValueError(f"{owner}: needs a bandwidth, got None; give one per dimension")
    return bandwidth


@storable(shape="list[_]")
@dataclass(frozen=True)
class GridNodes:
    """Midpoints of a tensor grid on the unit cube; each node has the volume 1 / n_nodes."""

    shape: tuple[int, ...]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return prod(self.shape)

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


_NODES: dict[str, type[NodeSpec]] = {"grid": Grid, "importance": Importance, "mcmc": MCMC}


def kind_of(nodes: str | NodeSpec, n_dims: int) -> NodeSpec:
    """Nodes by name: ``"auto"`` is a grid up to three dimensions and importance nodes beyond.

    Also ``"grid"``, ``"importance"`` and ``"mcmc"``; an object is returned as it is.

    Examples
    --------
    >>> kind_of("auto", 2), kind_of("auto", 5)
    (Grid(size=None), Importance(n=4096, uniform=0.1))
    """
    if isinstance(nodes, NodeSpec):
        return nodes
    if isinstance(nodes, str) and nodes == "auto":
        return Grid() if n_dims <= MAX_GRID_DIMS else Importance()
    if isinstance(nodes, str) and nodes in _NODES:
        return _NODES[nodes]()
    raise ValueError(
        f"nodes: must be 'auto', {', '.join(map(repr, _NODES))}, Grid(...), Importance(...), MCMC(...), Sobol(...) or "
        f"MonteCarlo(...), got {nodes!r}; choose one"
    )


def choose_nodes(
    nodes: str | NodeSpec, density: Density, bags: Bags, bandwidth: Array | None
) -> tuple[NodeSpec, Pooled | None]:
    """The kind of nodes for bags, by name or as it is given, and what to draw them from, if they are drawn.

    ``"auto"`` is a grid up to three dimensions. Beyond, nodes are drawn from the density of the bags: by itself if it
    can draw points, else by chains.

    Parameters
    ----------
    nodes : str or node object
        Name or kind.
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
    kind = kind_of(nodes, bags.n_dims)
    pooled = pool(density, bags, bandwidth) if kind.needs_pooled else None
    if isinstance(nodes, str) and nodes == "auto" and pooled is not None and not pooled.can_sample:
        kind = MCMC()
    return kind, pooled


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


def round_up(value: float, multiple: int = 4) -> int:
    """The smallest multiple of ``multiple`` that is at least ``value``."""
    return multiple * ceil(value / multiple)


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
                "and more, so that distances are as far off; use ",
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
    >>> from distembed.density.nodes import Sobol
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
