r"""Histograms of bags as densities: constant on the boxes of a regular partition of the cube.

With b_j bins along dimension j, a point u in the box B and point weights w_i of sum one,

.. math:: \hat p(u) = \prod_j b_j \sum_{x_i \in B} w_i.

A uniform density on an interval of width √12 h has the standard deviation h of a Gaussian kernel: bins of that width
smooth as much as a kernel of bandwidth h, which is how ``bins=None`` follows the bandwidth.

Two ways to compute it:

- on a grid, the value at a node is the mean of the histogram over the node's own cell, so the mass on the nodes is
  one whether or not bins and cells fit each other, and exactly the histogram where they do. O(n_points + n_nodes).
- at scattered nodes the histogram itself, in any dimension: only boxes that hold a node are ever looked at, however
  many there are. O((n_points + n_nodes) n_dims), and a search of each point among the boxes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array, Scratch, contract
from ..compute.checks import check_number, check_per_dimension
from ..compute.registry import storable
from .estimate import Density, EachBag, Evaluator, register, shares_of
from .nodes import GridNodes, PointNodes

MOST_BINS = 2**20  # along one dimension


def cells_of(u: Array, bins: Sequence[int]) -> Array:
    """Bin of each coordinate, integers of the shape of u; the last bin includes 1.

    Examples
    --------
    >>> cells_of(np.array([[0.0], [0.5], [1.0]]), (2,)).ravel()
    array([0, 1, 1])
    """
    sizes = np.asarray(bins)
    return np.asarray(np.clip((u.astype(float) * sizes).astype(np.int64), 0, sizes - 1))


def overlaps(n_nodes: int, n_bins: int) -> Array:
    """Mean over each of n_nodes equal cells of the uniform density on each bin, ndarray of shape (n_nodes, n_bins).

    Columns have the mean one: mass stays mass.

    Examples
    --------
    >>> overlaps(3, 2)
    array([[2., 0.],
           [1., 1.],
           [0., 2.]])
    """
    # In units of 1/(n_nodes n_bins) all edges are integers: cells that only touch overlap by exactly nothing. A share
    # common / n_bins of the cell lies in the bin, where the density is n_bins.
    node = np.arange(n_nodes)[:, None] * n_bins
    own = np.arange(n_bins) * n_nodes
    common = np.minimum(node + n_bins, own + n_nodes) - np.maximum(node, own)
    return np.asarray(np.maximum(common, 0), float)


class Boxes:
    """The boxes that hold given nodes, and a search for the box of any point among them.

    Boxes are numbered dimension by dimension, each time only those that hold a node, so there may be any number of
    dimensions.

    Parameters
    ----------
    nodes : ndarray of shape (n_nodes, n_dims)
        In the unit cube.
    bins : sequence of int
        Along each dimension.

    Examples
    --------
    >>> boxes = Boxes(np.array([[0.1, 0.9], [0.2, 0.8], [0.9, 0.9]]), (2, 2))
    >>> boxes.n_boxes, boxes.of_nodes, boxes.find(np.array([[0.7, 0.7], [0.7, 0.2]]))  # no node in the last one's
    (2, array([0, 0, 1]), array([ 1, -1]))
    """

    def __init__(self, nodes: Array, bins: Sequence[int]) -> None:
        self.bins = tuple(bins)
        self.of_nodes = np.zeros(len(nodes), np.int64)
        self._known: list[Array] = []  # of each dimension: numbers of the boxes so far, and its bin
        for cell, size in zip(cells_of(nodes, bins).T, bins, strict=True):
            known, self.of_nodes = np.unique(self.of_nodes * size + cell, return_inverse=True)
            self._known.append(known)
        self.n_boxes = len(self._known[-1])

    def find(self, points: Array) -> Array:
        """Number of each point's box, -1 where it holds no node, ndarray of shape (n_points,)."""
        found = np.zeros(len(points), np.int64)
        for cell, size, known in zip(cells_of(points, self.bins).T, self.bins, self._known, strict=True):
            number = found * size + cell
            at = np.minimum(np.searchsorted(known, number), len(known) - 1)
            found = np.where((found >= 0) & (known[at] == number), at, -1)
        return found

    def densities(self, bags: Bags, dtype: np.dtype[Any]) -> Array:
        """Histograms of bags at the nodes, ndarray of shape (n_bags, n_nodes)."""
        found = self.find(bags.points)
        bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
        seen = found >= 0
        boxes = bag[seen] * self.n_boxes + found[seen]
        shares = shares_of(bags)[seen]
        masses = np.bincount(boxes, shares, minlength=bags.n_bags * self.n_boxes)
        heights = (float(np.prod(np.array(self.bins, float))) * masses).astype(dtype)
        return np.asarray(heights.reshape(bags.n_bags, self.n_boxes)[:, self.of_nodes])


class GridHistogram(EachBag):
    """Histograms of many bags on a grid, all at once; the mean over the cell of each node."""

    def __init__(self, density: Histogram, nodes: GridNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> None:
        super().__init__(density, nodes, bandwidth, dtype)
        self.bins = bins = density.bins_for(bandwidth, nodes.n_dims)
        # Bins finer than the nodes are shared out among the cells of these at once: nothing is ever larger than a grid.
        self._sizes = tuple(map(min, bins, nodes.shape))
        self._matrices = [
            overlaps(size, n).astype(dtype) if n <= size else size * np.eye(size, dtype=dtype)
            for size, n in zip(nodes.shape, bins, strict=True)
        ]

    def together(self, bags: Bags, scratch: Scratch | None) -> Array:
        """Densities on the nodes, ndarray of shape (g_1, ..., g_{l-1}, n_bags, g_l)."""
        shares = shares_of(bags)
        bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
        cells = cells_of(bags.points, self.bins)
        shape = (*self._sizes[:-1], bags.n_bags, self._sizes[-1])
        masses = np.zeros(prod(shape))
        for parts in product(*(self._parts(cells[:, j], j) for j in range(bags.n_dims))):
            number = np.zeros_like(bag)
            mass = shares
            for j, (cell, share) in enumerate(parts):
                if j == bags.n_dims - 1:
                    number = number * bags.n_bags + bag
                number = number * self._sizes[j] + cell
                mass = mass if share is None else mass * share
            masses += np.bincount(number, mass, minlength=len(masses))
        return contract(masses.reshape(shape).astype(self.dtype), self._matrices, scratch, "histogram")

    def _parts(self, cell: Array, j: int) -> list[tuple[Array, Array | None]]:
        """The bin itself, or the two cells of nodes that a finer bin may lie in, and its shares of these."""
        n_bins = self.bins[j]
        size = self.nodes.shape[j]
        if n_bins <= size:
            return [(cell, None)]
        low = cell * size // n_bins  # the bin is [cell, cell + 1) / n_bins, in units of 1/(n_bins size) all integers
        share = np.minimum(((low + 1) * n_bins - cell * size) / size, 1.0)
        return [(low, share), (np.minimum(low + 1, size - 1), 1 - share)]


class ScatteredHistogram(EachBag):
    """Histograms of many bags at scattered nodes, all at once."""

    def __init__(self, density: Histogram, nodes: PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> None:
        super().__init__(density, nodes, bandwidth, dtype)
        self._boxes = Boxes(nodes.points, density.bins_for(bandwidth, nodes.n_dims))

    def together(self, bags: Bags, scratch: Scratch | None) -> Array:
        """Densities at the nodes, ndarray of shape (n_bags, n_nodes)."""
        return self._boxes.densities(bags, self.dtype)


class BagHistogram:
    """The histogram of one bag.

    Examples
    --------
    >>> one = BagHistogram(np.array([[0.1], [0.2], [0.9]]), None, (2,))
    >>> one.pdf(np.array([[0.3], [1.0]])).round(3), one.sample(5, np.random.RandomState(0)).shape
    (array([1.333, 0.667]), (5, 1))
    """

    def __init__(self, points: Array, weights: Array | None, bins: tuple[int, ...]) -> None:
        self.points = points
        self.weights = weights
        self.bins = bins

    def pdf(self, u: Array) -> Array:
        """Density at u, ndarray of shape (n,)."""
        bag = Bags(self.points, [0, len(self.points)], self.weights)
        return np.asarray(Boxes(u, self.bins).densities(bag, np.dtype(float))[0])

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points: the box of a point of the bag, and any place in it."""
        chosen = rng.choice(len(self.points), size=n, p=self.weights)
        cells = cells_of(self.points[chosen], self.bins)
        return np.asarray((cells + rng.uniform(size=cells.shape)) / self.bins)


@storable
@dataclass(frozen=True)
class Histogram(Density):
    r"""Histogram on a regular partition of the cube: the cheapest density, and the roughest.

    Parameters
    ----------
    bins : int, tuple of int or None, default=None
        Bins along each dimension, for all or one per dimension. None: bins of width √12 h, where h is the bandwidth of
        the embedding, one at least; a wide bandwidth is one bin, the uniform density.

    Notes
    -----
    *Cost* a bag: O(n_points + n_nodes). *Limits*: discontinuous, of bias h rather than h²; two bags whose points lie on
    either side of an edge look farther apart than they are. On a grid whose size is not a multiple of the bins the mean
    over a node's cell mixes neighbouring bins, and distances come out too small: with 10 bins on 64 nodes of the
    interval H between bags in adjacent bins is 0.96, not 1. ``fit`` warns of that where ``bins`` are given, of bins
    that are finer than the nodes of a grid, and of a single box, in which every bag is uniform.

    Examples
    --------
    >>> Histogram().bins_for(np.array([0.05, 2.0]), 2), Histogram(8).bins_for(None, 2)
    ((6, 1), (8, 8))
    """

    bins: int | tuple[int, ...] | None = None

    @property
    def smooths(self) -> str:  # type: ignore[override]  # it depends on the parameter
        """``"joint"`` where bins follow the bandwidth, else ``"nothing"``."""
        return "joint" if self.bins is None else "nothing"

    def bins_for(self, bandwidth: Array | None, n_dims: int) -> tuple[int, ...]:
        """Bins along each of n_dims dimensions."""
        if self.bins is None:
            if bandwidth is None:
                raise ValueError("Histogram(bins=None): needs a bandwidth, got None; give bins or a bandwidth")
            counts = np.clip(np.round(1 / (np.sqrt(12) * np.asarray(bandwidth, float))), 1, MOST_BINS)
            return tuple(int(n) for n in counts)
        each = check_per_dimension("Histogram", "bins", self.bins, n_dims)
        return tuple(check_number("Histogram", "bins", n, low=1, high=MOST_BINS, integer=True) for n in each)

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> BagHistogram:
        """The density of one bag, see :meth:`Density.of`."""
        return BagHistogram(points, weights, self.bins_for(bandwidth, points.shape[1]))

    def prepare(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> Evaluator:
        """An evaluator for these nodes: called with bags, it returns densities on the nodes."""
        if isinstance(nodes, GridNodes):
            return GridHistogram(self, nodes, bandwidth, dtype)
        return ScatteredHistogram(self, nodes, bandwidth, dtype)

    def multiples(self, n_dims: int) -> tuple[int, ...] | None:
        """The bins along each dimension, which the nodes of a grid should fit; None where they follow a bandwidth."""
        return None if self.bins is None else self.bins_for(None, n_dims)

    def warn_if_unresolved(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, stacklevel: int = 3) -> None:
        """Warn of a single box, and on a grid of bins that are finer than the nodes or, if given, do not fit them.

        At scattered nodes the histogram is exact, and the mass on the nodes tells whether they are enough.
        """
        bins = self.bins_for(bandwidth, nodes.n_dims)
        given, fewer = ("None", "a larger bandwidth") if self.bins is None else ("...", "fewer bins")
        fault = ""
        if max(bins) == 1:
            more = "a smaller bandwidth or bins=..." if self.bins is None else "more bins"
            fault = f"one box: every bag is uniform, and all distances are 0; use {more}"
        elif isinstance(nodes, GridNodes):
            sizes = tuple(-(-size // n) * n for size, n in zip(nodes.shape, bins, strict=True))
            grid = f"nodes=Grid({sizes[0] if len(set(sizes)) == 1 else sizes})"
            if any(map(int.__gt__, bins, nodes.shape)):
                fault = (
                    f"{bins} bins are finer than the {nodes.n_nodes} nodes, which can't resolve them; use {fewer}, "
                    f"or {grid}"
                )
            elif self.bins is not None and sizes != nodes.shape:
                fault = (
                    f"a grid of {nodes.shape} nodes is not a multiple of {bins} bins, so nodes mix neighbouring "
                    f"bins; choose {grid}"
                )
        if fault:
            warnings.warn(f"Histogram(bins={given}): {fault}", UserWarning, stacklevel=stacklevel + 1)


register("histogram", Histogram)
