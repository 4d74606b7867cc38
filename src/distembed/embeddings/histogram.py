r"""Histograms of bags on fixed bins, embedded by the explicit map of an additive kernel.

The share of a bag's weight in each cell of a regular partition of the cube is a histogram h. An explicit map φ of
:mod:`distembed.distances.histogram_maps`, applied to every share, makes \|\|φ(h) - φ(g)\|\|² ≈ d²(h, g). By the data
processing inequality d² of the histograms is at most that of the densities, and grows towards it as bins are halved.
The noise of two bags of n points each in K cells adds some (K - 1)/(4n) to Jensen-Shannon, which asks for few bins.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import log10, prod
from typing import Any

import numpy as np

from .. import distances
from ..bags import Bags
from ..bags.estimators import MAX_FEATURES, OutsideCube, Writer, check_in_cube, in_cube
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_number, check_per_dimension
from ..compute.parallel import bag_slices
from ..compute.registry import described, storable
from ..distances import HomogeneousDistance
from ..distances.histogram_maps import check_kernel, explicit_map
from .catalogue import Method, family
from .sketches import Additive

# --------------------------------------------------------------------------------------------------------------
# Functions on arrays
# --------------------------------------------------------------------------------------------------------------


def number_cells(points: Array, bins: Sequence[int]) -> Array:
    """Number of the cell of each point, ndarray of shape (n_points,) of int, the last dimension fastest.

    A coordinate x is in bin ⌊bx⌋ of b, computed in float64, so float32 points are in the bins of their values; 1
    is in the last bin.

    Examples
    --------
    >>> number_cells(np.array([[0.1, 0.9], [0.5, 0.0], [1.0, 1.0]]), (2, 3))
    array([2, 3, 5])
    """
    number = np.zeros(len(points), np.int64)
    for column, size in zip(points.T, bins, strict=True):
        number *= size
        number += np.minimum(np.multiply(column, size, dtype=np.float64).astype(np.int64), size - 1)
    return number


def shares_in_cells(cells: Array, n_cells: int, bags: Bags) -> Array:
    """Share of each bag's weight in each cell, ndarray of shape (n_bags, n_cells), float64, by one ``bincount``.

    Parameters
    ----------
    cells : ndarray of shape (n_points,) of int
        Cell of each point, from 0 to n_cells - 1.
    n_cells : int
        Number of cells.
    bags : Bags
        Whose points these are.

    Examples
    --------
    >>> shares_in_cells(np.array([0, 2, 2, 1]), 3, Bags.from_arrays([[0.1, 0.8, 0.9], [0.5]])).round(3)
    array([[0.333, 0.   , 0.667],
           [0.   , 1.   , 0.   ]])
    """
    places = np.repeat(np.arange(bags.n_bags) * n_cells, bags.sizes)
    places += cells
    weights = bags.shares()
    shares = np.bincount(places, weights, minlength=bags.n_bags * n_cells).reshape(bags.n_bags, n_cells)
    return shares if weights is not None else shares / bags.sizes[:, None]


# --------------------------------------------------------------------------------------------------------------
# The estimators
# --------------------------------------------------------------------------------------------------------------


@described(_map="LambdaMap | PlainMap", _n_cells="k")
class MappedShares(Additive):
    """Base of the embeddings that count points in cells and map the shares.

    A subclass has the parameters ``kernel``, ``map``, ``order`` and ``n_jobs``; its ``_fit_cells`` makes the cells, and
    ``_cells_of`` finds the cell of each point.
    """

    chunk_bytes = 2**22  # of points, shares and features that a thread works on at a time

    kernel: str | HomogeneousDistance
    map: str
    order: int | None
    n_jobs: int | None

    def _fit(self, bags: Bags, y: Any) -> None:
        self._map = explicit_map(self.kernel, self.map, self.order, owner=self)
        self._kernel_name = check_kernel(self.kernel, self)
        self._n_cells = self._fit_cells(bags, self._map.n_functions)
        self._n_features_out = self._n_cells * self._map.n_functions

    def __distembed_fits__(self) -> bool:
        return self._n_features_out == self._n_cells * self._map.n_functions

    def __distembed_claims__(self) -> float:
        return 16.0 * self._n_cells * (1 + self._map.n_functions)

    @abstractmethod
    def _fit_cells(self, bags: Bags, n_functions: int) -> int:
        """Make the cells, each with the given number of features; returns the number of cells."""

    @abstractmethod
    def _cells_of(self, bags: Bags, scratch: Scratch) -> Array:
        """Cell of each point, ndarray of shape (n_points,) of int."""

    @abstractmethod
    def _cell_names(self) -> list[str]:
        """A name for each cell."""

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        n_cells = self._n_cells
        n_functions = self._map.n_functions
        bag_bytes = n_cells * (16 + 3 * bags.dtype.itemsize * (n_functions + 1))
        return self._write, bag_slices(bags.sizes, 8 * (bags.n_dims + 4), bag_bytes, self.chunk_bytes)

    def _write(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        self._write_mapped(shares_in_cells(self._cells_of(bags, scratch), self._n_cells, bags), out, scratch)

    def _write_mapped(self, shares: Array, out: Array, scratch: Scratch) -> None:
        target = out.reshape(len(shares), self._map.n_functions, self._n_cells)
        self._map.write(shares.astype(out.dtype, copy=False), target, scratch)

    def n_statistics(self) -> int:
        """How many cells there are, in which a bag has shares."""
        return self._n_cells

    def _statistics(self, bags: Bags) -> Array:
        return shares_in_cells(self._cells_of(bags, Scratch()), self._n_cells, bags)

    def _from_statistics(self, means: Array) -> Array:
        out = np.empty((len(means), self._n_features_out))
        self._write_mapped(means, out, Scratch())
        return out

    def _feature_names(self) -> list[str]:
        """Such as ``js_re0_3_1``: kernel, feature of the map, cell."""
        cells = self._cell_names()
        return [f"{self._kernel_name}_{part}_{cell}" for part in self._map.parts for cell in cells]


@storable(bins_="list[_]", n_cells_="k")
class HistogramEmbedding(MappedShares):
    r"""Embed bags by their histograms on fixed bins: \|\|φ(h) - φ(g)\|\|² ≈ d²(h, g).

    The baseline of density embeddings: no smoothing, no bandwidth. :class:`~distembed.RandomFourierFeatures` behind it
    makes the generalised RBF kernel exp(-d²/(2σ²)) of histograms linear (Vempati et al. 2010).

    Points must lie in the unit cube: put :class:`~distembed.UnitCube` in front.

    Parameters
    ----------
    kernel : {"js", "chi2", "hellinger", "intersection", "tv", "l2", "linear"} or HomogeneousDistance, default="js"
        The additive kernel by the name of its distance, see :mod:`distembed.distances.histogram_maps`.
        ``"intersection"`` is ``"tv"``; ``"l2"`` or ``"linear"`` gives the shares themselves.
    bins : int or sequence of int, default=10
        Bins along each dimension, of equal width.
    map : {"vedaldi", "gauss", "none"}, default="vedaldi"
        The explicit map, see :func:`distembed.distances.histogram_maps.explicit_map`. ``"gauss"`` is better on bags of
        a few hundred points, for ``"js"`` and ``"tv"`` of thousands too; ``"vedaldi"`` has the smaller worst error.
    order : int, optional
        Of the map: 3 for ``"vedaldi"`` and ``"gauss"``, which is 7 and 6 features a cell.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    bins_ : tuple of int
        Bins along each dimension.
    n_cells_ : int
        Their product.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Layout.* A block of n_cells features for each feature of the map, cells with the last dimension fastest.

    *Cost* a bag: O(n_points n_dims + n_features); one pass over the points and one ``bincount`` a chunk of bags.
    Memory: the result and a working set of a few megabytes a thread, or what the points of the largest bag need.

    *Limits.* Cells are bins^n_dims: beyond a million features ``fit`` refuses, and long before bags have too few points
    for that many cells; :class:`~distembed.Marginals` or :class:`~distembed.CodebookEmbedding` serve more dimensions.
    Points on both sides of an edge of bins count as different, however near. The maps of js, chi2 and intersection
    have errors, which add up over cells; :func:`distembed.distances.histogram_maps.worst_error` says how large.

    References
    ----------
    Vedaldi, Zisserman (2012). Efficient additive kernels via explicit feature maps. IEEE PAMI 34(3).

    Vempati, Vedaldi, Zisserman, Jawahar (2010). Generalized RBF feature maps for efficient detection. BMVC.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> bags = Bags.from_arrays([[0.1, 0.2, 0.5, 0.5, 0.5, 0.9, 0.9, 0.9, 0.9, 0.9], [0.1] * 5 + [0.5] * 3 + [0.8] * 2])
    >>> a, b = HistogramEmbedding("js", bins=3, order=8).fit_transform(bags)  # shares .2 .3 .5 and .5 .3 .2
    >>> round(float(np.sum((a - b) ** 2)), 4)  # the true value is 0.066414
    0.0664
    """

    units = "unit cube"

    def __init__(
        self,
        kernel: str | HomogeneousDistance = "js",
        bins: int | Sequence[int] = 10,
        *,
        map: str = "vedaldi",  # noqa: A002
        order: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bins = bins
        self.map = map
        self.order = order
        self.n_jobs = n_jobs

    def __distembed_fits__(self) -> bool:
        return super().__distembed_fits__() and prod(self.bins_) == self._n_cells

    def _fit_cells(self, bags: Bags, n_functions: int) -> int:
        check_in_cube(type(self).__name__, bags)
        self.bins_ = self._sizes(bags.n_dims)
        self.n_cells_ = prod(self.bins_)
        if self.n_cells_ * n_functions > MAX_FEATURES:
            many = f"{self.n_cells_:,}" if self.n_cells_ < 10**15 else f"about 10^{log10(self.n_cells_):.0f}"
            raise ValueError(
                f"HistogramEmbedding(bins=...): {many} cells of {n_functions} features each are more "
                f"than {MAX_FEATURES:,} features per bag, got bins={self.bins!r} in {bags.n_dims} dimensions; use "
                "fewer bins, or wrap the embedding in Marginals"
            )
        return self.n_cells_

    def _sizes(self, n_dims: int) -> tuple[int, ...]:
        sizes = check_per_dimension(self, "bins", self.bins, n_dims)
        return tuple(check_number(self, "bins", n, low=1, high=MAX_FEATURES, integer=True) for n in sizes)

    def _cells_of(self, bags: Bags, scratch: Scratch) -> Array:
        if not in_cube(bags):
            raise OutsideCube
        return number_cells(bags.points, self.bins_)

    def _cell_names(self) -> list[str]:
        return ["_".join(str(i) for i in cell) for cell in np.ndindex(*self.bins_)]


@family
def _methods() -> list[Method]:
    """One for each distance; total variation of histograms is known as their intersection."""
    reference = "Vedaldi and Zisserman 2012"
    found = []
    for name in distances.available():
        kernel = "intersection" if name == "tv" else name
        found.append(
            Method(
                f"histogram-{kernel}", HistogramEmbedding, {"kernel": kernel},
                f"{distances.get(name).description} of histograms", "n l + bins^l", "yes", "none: bins are fixed",
                "unit cube", f"Maji and Berg 2009; {reference}" if name == "tv" else reference,
            )
        )  # fmt: skip
    return found
