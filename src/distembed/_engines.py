"""The stages from bags on given nodes to A features, one after the other in NumPy or fused in compiled code.

An engine is prepared once for a dtype and then called with bags, where to write and scratch memory, by any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import lambdas as lambda_module
from ._base import OutsideCube, in_cube
from ._parallel import Scratch
from ._separable import bags_first
from .bags import Bags
from .basis import Projection
from .density import KDE, Density, Evaluator, GridKDE
from .nodes import GridNodes, PointNodes

__all__ = ["NumPyEngine", "NumbaEngine", "is_compiled", "seen"]

Array = NDArray[Any]


class NumPyEngine:
    """Density, lambda functions and projection, each for a chunk of bags at a time.

    Parameters
    ----------
    estimate : Evaluator
        Bags to densities on the nodes.
    n_nodes : int
        Their number.
    lambdas, weights : ndarray of shape (n_lambdas,)
        The quadrature rule.
    projection : Projection
        Functions on the nodes to coefficients.
    reference : ndarray of shape (n_nodes,) or None
        What densities are multiplied by, see :func:`distembed.basis.evenly`.
    bandwidths_of : callable or None
        Bags to bandwidths of shape (n_bags, n_dims), where each bag has its own.
    dtype : numpy dtype
        Of the bags.
    """

    bags_at_a_time = 1
    most_bags: int | None = None

    def __init__(
        self,
        estimate: Evaluator,
        n_nodes: int,
        lambdas: Array,
        weights: Array,
        projection: Projection,
        reference: Array | None,
        bandwidths_of: Callable[[Bags], Array] | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._estimate = estimate
        # On a single node the errors of the table for float32 would not average out.
        self._psi = lambda_module.prepare(lambdas, weights, dtype if n_nodes > 1 else np.dtype(float))
        self._project = projection.astype(dtype)
        self._reference = None if reference is None else reference.astype(dtype)
        self._bandwidths_of = bandwidths_of
        self.volumes: Array | None = None  # of the nodes, for one who wants to know what they see of the bags
        self.seen: list[tuple[Array, Array]] = []

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """A features of bags, ndarray of shape (n_bags, n_features).

        Parameters
        ----------
        bags : Bags
            Continuous points, none of weight zero; :class:`~distembed._base.OutsideCube` is raised for any outside the
            unit cube.
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
        if self.volumes is not None:
            self.seen.append(seen(p, self.volumes))
        if share is not None:
            p = np.multiply(p, share.astype(p.dtype)[:, None], out=scratch("joint", p.shape, p.dtype))
        return self._features(p, out, scratch)

    def _features(self, p: Array, out: Array | None, scratch: Scratch) -> Array:
        if self._reference is not None:
            p = p * self._reference
        return self._project(self._psi(p, scratch), out, scratch)

    def _densities(self, bags: Bags, scratch: Scratch) -> Array:
        own = None if self._bandwidths_of is None else self._bandwidths_of(bags)
        return self._estimate(bags, own, scratch)

    def captured(self, bags: Bags, volumes: Array, scratch: Scratch) -> tuple[Array, Array, Array]:
        """What basis and nodes see of bags: three ndarrays of shape (n_bags,).

        The energy Σ a_α² that the basis captures; the mass Σ v p̂ on nodes of these volumes; and the number of nodes
        that see the density, (Σ v p̂)² / Σ (v p̂)².
        """
        p = self._densities(bags, scratch)
        masses, seeing = seen(p, volumes)
        return np.sum(self._features(p, None, scratch) ** 2, axis=1), masses, seeing


class NumbaEngine:
    """The same for kernel density estimates on a grid, fused and compiled; see :mod:`distembed._compiled`."""

    def __init__(
        self,
        nodes: GridNodes,
        bandwidth: Array,
        boundaries: Sequence[str],
        lambdas: Array,
        weights: Array,
        projection: Projection,
        dtype: np.dtype[Any],
    ) -> None:
        from ._compiled import FusedEmbedding

        smoothing = GridKDE(nodes, bandwidth, boundaries, dtype).matrices
        matrices = projection.astype(dtype).matrices
        columns = np.arange(projection.n_basis_functions) if projection.columns is None else projection.columns
        periodic = [boundary == "periodic" for boundary in boundaries]
        self._fused = FusedEmbedding(smoothing, periodic, lambdas, weights, matrices, columns, dtype)
        self._n_features = lambda_module.n_functions(lambdas) * projection.n_basis_functions
        self._dtype = dtype
        self.bags_at_a_time = self._fused.lanes_step
        self.most_bags = 16 * self._fused.lanes  # a chunk may be long: only the lanes have to fit the cache

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """A features of bags, see :class:`NumPyEngine`."""
        masses = bags._shares()
        if share is not None:
            equal = np.repeat(1 / bags.sizes, bags.sizes) if masses is None else masses
            masses = equal * np.repeat(share, bags.sizes)
        if out is None:
            out = np.empty((bags.n_bags, self._n_features), self._dtype)
        shares = None if masses is None else masses.astype(self._dtype)
        if self._fused(bags.points, bags.offsets, shares, out, scratch):
            raise OutsideCube
        return out


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


def is_compiled(density: Density, nodes: GridNodes | PointNodes, per_bag: bool) -> bool:
    """Whether there is compiled code for this density on these nodes."""
    return type(density) is KDE and isinstance(nodes, GridNodes) and not per_bag
