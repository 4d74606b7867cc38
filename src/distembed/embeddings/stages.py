"""The stages from bags to A features as one value, and their plain NumPy form.

    points -> density p̂ on the nodes -> some functions of p̂, node by node -> projection coefficients

``fit`` resolves :class:`Stages` once. Whoever wants to know what a fitted embedding does reads them: the engines, the
error budget, the explanation of predictions, the search for settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.estimators import OutsideCube, in_cube
from ..compute.parallel import Scratch
from ..compute.registry import storable
from ..compute.separable import bags_first, contract
from ..density import KDE, seen
from ..density import bandwidth as bandwidths
from ..density.nodes import GridNodes
from .cells import Cells
from .point_means import PointMeans

__all__ = ["Functions", "NumPyEngine", "Stages"]

Array = NDArray[Any]


class Functions(Protocol):
    """Which functions of a density are projected."""

    @property
    def n_functions(self) -> int:
        """Their number."""

    @property
    def fineness(self) -> float:
        """How much finer than usual an automatic grid must be."""

    def __call__(self, p: Array, scratch: Scratch) -> Array:
        """Their values, of shape (n_functions, ...), for densities p of shape (...)."""

    def relative(self, factors: Array) -> Array:
        """What densities are multiplied by so that nodes of volume v count as nodes of equal volume, from n v."""

    def present(self, masses: Array, squares: Array) -> Array:
        """Sum over the functions of ∫ f², from ∫ p and ∫ p²: all of shape (n_bags,)."""


@storable
@dataclass(frozen=True, eq=False)
class Stages:
    """What ``fit`` resolved of an embedding that projects functions of a density.

    Parameters
    ----------
    cells : Cells or None
        What categorical columns make of a bag.
    n_basis : tuple of int
        Basis functions along each dimension.
    indices : ndarray of shape (n_basis_functions, n_dims)
        Multi-indices α.
    functions : Functions
        Which functions of a density are projected.
    point_means : PointMeans or None
        Means of basis functions over points, where there is no density; then all that follows is None.
    density : Density or None
        The estimate.
    bandwidth : ndarray of shape (n_dims,) or None
        Of all bags, or of a typical one; None for a density without any.
    bag_rule : tuple of (str, float) or None
        Rule and scale of the bandwidth that each bag has for itself; None where all have the same.
    node_kind : node specification or None
        How nodes were chosen, ``"auto"`` resolved.
    nodes : GridNodes, PointNodes or None
        The integration nodes.
    projection : Projection or None
        Functions on the nodes to coefficients.
    reference : ndarray of shape (n_nodes,) or None
        What densities are multiplied by, see :func:`distembed.basis.evenly`.
    """

    cells: Cells | None
    n_basis: tuple[int, ...]
    indices: Array
    functions: Functions
    point_means: PointMeans | None = None
    density: Any = None
    bandwidth: Any = None
    bag_rule: tuple[str, float] | None = None
    node_kind: Any = None
    nodes: Any = None
    projection: Any = None
    reference: Array | None = None

    @property
    def n_features(self) -> int:
        """Features of a bag."""
        return self.functions.n_functions * len(self.indices) * (1 if self.cells is None else self.cells.n_cells)

    @property
    def smooths_bins(self) -> bool:
        """Whether the density is a kernel density estimate of one bandwidth on a grid: binned points, smoothed."""
        return type(self.density) is KDE and isinstance(self.nodes, GridNodes) and self.bag_rule is None

    def bytes_per_bag(self, dtype: np.dtype[Any]) -> int:
        """Memory that the work on one bag takes."""
        if self.point_means is not None:
            return 16 * self.point_means.n_products
        return int(2 * (self.functions.n_functions + 1) * self.nodes.n_nodes * dtype.itemsize)

    def bandwidths_of(self, bags: Bags) -> Array | None:
        """The bandwidths that each bag has for itself, ndarray of shape (n_bags, n_dims); None if they share one."""
        if self.bag_rule is None:
            return None
        rule, scale = self.bag_rule
        return bandwidths.for_each(self.density, rule, bags, scale=scale)


class NumPyEngine:
    """Density, functions and projection, each for a chunk of bags at a time; called by any thread.

    Parameters
    ----------
    stages : Stages
        With a density.
    dtype : numpy dtype
        Of the bags.
    """

    bags_at_a_time = 1
    most_bags: int | None = None

    def __init__(self, stages: Stages, dtype: np.dtype[Any]) -> None:
        self._stages = stages
        self._estimate = stages.density.prepare(stages.nodes, stages.bandwidth, dtype)
        self._functions = stages.functions
        self._project = stages.projection.astype(dtype)
        self._reference = None if stages.reference is None else stages.reference.astype(dtype)
        self.seen: list[tuple[Array, Array]] = []  # what nodes drawn from training bags see of bags

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """A features of bags, ndarray of shape (n_bags, n_features).

        Parameters
        ----------
        bags : Bags
            Continuous points, none of weight zero; :class:`~distembed.bags.estimators.OutsideCube` is raised for any
            outside the unit cube.
        out : ndarray of shape (n_bags, n_features) or None
            Where to write.
        scratch : Scratch
            Memory for intermediate results.
        share : ndarray of shape (n_bags,), optional
            Mass of each bag, one by default.
        """
        if not in_cube(bags):  # looked at here, where threads share the work and the cache is warm
            raise OutsideCube
        p = self._densities(bags, scratch)
        if self._stages.node_kind.needs_pooled:
            self.seen.append(seen(p, self._stages.nodes.weights))
        if share is not None:
            p = np.multiply(p, share.astype(p.dtype)[:, None], out=scratch("joint", p.shape, p.dtype))
        return self.from_densities(p, out, scratch)

    def from_masses(self, masses: Array, matrices: Sequence[Array], out: Array | None, scratch: Scratch) -> Array:
        """The same from binned points and the matrices that smooth them: one binning serves many bandwidths."""
        return self.from_densities(contract(masses, matrices, scratch, "density"), out, scratch)

    def from_densities(self, p: Array, out: Array | None, scratch: Scratch) -> Array:
        """The same from densities on the nodes, of shape (g_1, ..., g_{l-1}, n_bags, g_l) or (n_bags, n_nodes)."""
        if self._reference is not None:
            p = p * self._reference
        return np.asarray(self._project(self._functions(p, scratch), out, scratch))

    def _densities(self, bags: Bags, scratch: Scratch) -> Array:
        return np.asarray(self._estimate(bags, self._stages.bandwidths_of(bags), scratch))

    def captured(self, bags: Bags, scratch: Scratch) -> tuple[Array, Array, Array, Array]:
        """What basis and nodes see of bags: four ndarrays of shape (n_bags,).

        The energy Σ a_α² that the basis captures; the mass Σ v p̂ on nodes of volumes v; the square Σ v p̂²; and the
        number of nodes that see the density, (Σ v p̂)² / Σ (v p̂)².
        """
        p, volumes = self._densities(bags, scratch), self._stages.nodes.weights
        masses, seeing = seen(p, volumes)
        squares = bags_first(p).reshape(bags.n_bags, -1) ** 2 @ volumes
        return np.sum(self.from_densities(p, None, scratch) ** 2, axis=1), masses, squares, seeing
