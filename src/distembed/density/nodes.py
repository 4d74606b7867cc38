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

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import check_number, check_per_dimension
from ..compute.registry import storable
from .drawn_nodes import MCMC, Importance, NodeSpec, PointNodes, sobol

__all__ = ["MCMC", "Grid", "GridNodes", "Importance", "MonteCarlo", "NodeSpec", "PointNodes", "Sobol", "get"]


MAX_GRID_DIMS = 3
GRID_LIMIT = {1: 4096, 2: 256, 3: 64}  # largest automatic size a dimension
# Automatic grids, by number of dimensions: nodes a bandwidth, and least number. In the root mean square over pairs of
# bags, squared distances are then within 0.3 % of those on a much finer grid (js, hellinger, chi2; 2 % for tv).
NODES_PER_BANDWIDTH = {1: 1.5, 2: 0.55, 3: 0.55}
LEAST_NODES = {1: 64, 2: 16, 3: 16}
NODES_PER_BASIS_FUNCTION = 1.6
FEW_SEEING = 16  # nodes that see a density: integrals then have a relative error of about a quarter
DEFAULT_SOBOL = 4096
MASS_TOLERANCE = 0.25  # root mean square error over bags of the mass that nodes find; more is warned about
FEW_NODES = 256  # who asks for fewer wants speed and knows the price


@storable
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

    n: int = DEFAULT_SOBOL

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


_NAMES: dict[str, type[NodeSpec]] = {"grid": Grid, "importance": Importance, "mcmc": MCMC}


def _uniform(points: Array) -> PointNodes:
    return PointNodes(points, np.full(len(points), 1 / len(points)))


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
        1 points to the caller of this function.
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


def warn_if_few_see(owner: str, seeing: Array, nodes: GridNodes | PointNodes, stacklevel: int = 3) -> None:
    """Warn where densities of bags lie on so few nodes that integrals over them mean little.

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
    >>> warn_if_few_see("HDDEmbedding", np.array([900.0, 400.0]), Sobol(4096).resolve(5))  # many see them: no warning
    """
    typical = float(np.median(seeing))
    if isinstance(nodes, GridNodes) or nodes.n_nodes < FEW_NODES or typical > FEW_SEEING:
        return
    warnings.warn(
        f"{owner}: the densities of training bags lie on some {typical:.0f} of {nodes.n_nodes:,} nodes, so that "
        "integrals over them mean little; use nodes='importance', nodes='mcmc' or more nodes",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def get(nodes: str | NodeSpec, n_dims: int) -> NodeSpec:
    """Nodes by name: ``"auto"`` is a grid up to three dimensions and importance nodes beyond.

    Also ``"grid"``, ``"importance"`` and ``"mcmc"``; an object is returned as it is.

    Examples
    --------
    >>> get("auto", 2), get("auto", 5)
    (Grid(size=None), Importance(n=4096, uniform=0.1))
    """
    if isinstance(nodes, NodeSpec):
        return nodes
    if isinstance(nodes, str) and nodes == "auto":
        return Grid() if n_dims <= MAX_GRID_DIMS else Importance()
    if isinstance(nodes, str) and nodes in _NAMES:
        return _NAMES[nodes]()
    raise ValueError(
        f"nodes: must be 'auto', {', '.join(map(repr, _NAMES))}, Grid(...), Importance(...), MCMC(...), Sobol(...) or "
        f"MonteCarlo(...), got {nodes!r}; choose one"
    )
