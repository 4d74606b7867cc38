"""The stages from bags to A features as one value, and their plain NumPy form, by a density or by means over points.

    points -> density p̂ on the nodes -> some functions of p̂, node by node -> projection coefficients

``fit`` resolves :class:`DensityStages` once. Whoever needs to know what a fitted embedding does reads them: the
engines, the error budget, the explanation of predictions, the search for settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from ..bags import Bags
from ..bags.estimators import OutsideCube, in_cube
from ..basis import Basis, Cosine, Fourier, Legendre
from ..compute.arrays import Array, Scratch, bags_first, contract, write_cosines, write_sines_and_cosines
from ..compute.registry import storable, within
from ..density import KDE, mass_on_nodes
from ..density import bandwidth as bandwidths
from ..density.estimate import shares_of
from ..density.nodes import GridNodes
from .category_cells import Cells

MAX_BASIS = 10_000  # functions along a dimension
_PIECE_BYTES = 2**23  # of tables at a time: long operations, that stay in a shared cache
_BLOCK_COST = 32  # what a matrix product costs beside its points, in points
_LONGEST_BLOCK = 512
_PRODUCT_COST = 0.15  # of a term of a matrix product, in those of a product of functions


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


@storable(
    n_basis="list[_]", indices="int(k, l)", functions="LambdaFunctions | DensityItself", bandwidth="finite(_) | None",
    nodes="GridNodes | PointNodes | None", projection="Projection | None", reference="finite(_) | None",
)  # fmt: skip
@dataclass(frozen=True, eq=False)
class DensityStages:
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

    def __distembed_fits__(self) -> bool:
        if self.projection is None or self.nodes is None:
            return self.point_means is not None
        size = self.nodes.shape if isinstance(self.nodes, GridNodes) else (self.nodes.n_nodes,)
        return (
            size == tuple(matrix.shape[1] for matrix in self.projection.matrices)
            and self.indices.shape == self.projection.indices.shape
            and (self.bandwidth is None or self.bandwidth.shape == self.indices.shape[1:])
        )

    def __distembed_claims__(self) -> float:
        if self.projection is None or self.nodes is None:
            return 0.0  # means over points have a claim of their own
        products = prod(len(matrix) for matrix in self.projection.matrices)
        return float(self.bytes_per_bag(np.dtype(np.float64)) + 16 * self.functions.n_functions * products)

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
    stages : DensityStages
        With a density.
    dtype : numpy dtype
        Of the bags.
    """

    bags_at_a_time = 1
    most_bags: int | None = None

    def __init__(self, stages: DensityStages, dtype: np.dtype[Any]) -> None:
        self.stages = stages
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
        if self.stages.node_kind.needs_pooled:
            self.seen.append(mass_on_nodes(p, self.stages.nodes.weights))
        if share is not None:
            p = np.multiply(p, share.astype(p.dtype)[:, None], out=scratch("joint", p.shape, p.dtype))
        return self.from_densities(p, out, scratch)

    def from_masses(self, masses: Array, matrices: Sequence[Array], out: Array | None, scratch: Scratch) -> Array:
        """Features from binned points and the matrices that smooth them: one binning serves many bandwidths."""
        return self.from_densities(contract(masses, matrices, scratch, "density"), out, scratch)

    def from_densities(self, p: Array, out: Array | None, scratch: Scratch) -> Array:
        """Features from densities on the nodes, of shape (g_1, ..., g_{l-1}, n_bags, g_l) or (n_bags, n_nodes)."""
        if self._reference is not None:
            p = p * self._reference
        return np.asarray(self._project(self._functions(p, scratch), out, scratch))

    def _densities(self, bags: Bags, scratch: Scratch) -> Array:
        return np.asarray(self._estimate(bags, self.stages.bandwidths_of(bags), scratch))

    def look_at(self, bags: Bags, share: Array, scratch: Scratch) -> tuple[Array, Array, Array, Array]:
        """Functions, features, and what nodes see of bags, which have these shares of their mass in a cell.

        Returns
        -------
        functions : ndarray of shape (n_bags, n_functions * n_nodes)
            Scaled so that squares sum to integrals.
        features : ndarray of shape (n_bags, n_features)
            Their coefficients.
        masses, seeing : ndarray of shape (n_bags,)
            Of the densities, see :func:`distembed.density.mass_on_nodes`.
        """
        p = self._densities(bags, scratch)
        masses, seeing = mass_on_nodes(p, self.stages.nodes.weights)
        p = p * share[:, None]
        features = self.from_densities(p, None, scratch).copy()
        if self._reference is not None:
            p = p * self._reference
        functions = bags_first(self._functions(p, scratch)).reshape(bags.n_bags, -1)
        return functions / np.sqrt(self.stages.nodes.n_nodes), features, masses, seeing


# --------------------------------------------------------------------------------------------------------------
# Coefficients without a density: means of basis functions over points
# --------------------------------------------------------------------------------------------------------------


@storable(_n_functions="n", _sizes="list[_]", _left="int(_, _)", _right="int(_, _)", _columns="int(n) | None")
class PointMeans:
    r"""Means of basis functions over the points of bags: projection coefficients without a density estimate.

    a_α = Σ_i w_i Π_j φ_{α_j}(x_ij). The dimensions are cut in two: with tables L of the distinct products of the first
    and R of the last, all coefficients of a bag are entries of the matrix L diag(w) R'. Bags are cut into blocks of
    points, all of one length, the last of a bag filled up with points of weight zero; then one batch of matrix products
    serves all of them.

    Parameters
    ----------
    basis : Basis
        The one-dimensional basis.
    indices : ndarray of shape (n_basis_functions, n_dims)
        Multi-indices α, in lexicographic order.

    Notes
    -----
    Costs a point: n_j values a dimension by a recurrence, the products in L and R, and len(L) len(R) multiplications of
    a matrix product: \|V\| for a tensor basis. The cut is where this is least; it may be behind the last dimension,
    where R is w alone. All is computed in float64.

    Examples
    --------
    >>> means = PointMeans(Cosine(), np.array([[0, 0], [0, 1], [1, 0]]))
    >>> means(Bags([[0.0, 0.5], [1.0, 0.0]], [0, 2]), None, Scratch()).round(3) + 0.0
    array([[1.   , 0.707, 0.   ]])
    """

    bags_at_a_time = 1
    most_bags: int | None = None

    def __init__(self, basis: Basis, indices: Array) -> None:
        self._basis = basis
        self._n_functions = len(indices)
        self._sizes = tuple(int(k) + 1 for k in indices.max(axis=0))
        self._left, self._right, columns = _cut(indices)
        self._columns = None if np.array_equal(columns, np.arange(self.n_products)) else columns

    def __distembed_fits__(self) -> bool:
        n_left = self._left.shape[1]
        sides = ((self._left, self._sizes[:n_left]), (self._right, self._sizes[n_left:]))
        columns = self._columns
        return (
            max(self._sizes, default=0) <= MAX_BASIS
            and all(side.shape[1] == len(sizes) and within(side, np.array(sizes)) for side, sizes in sides)
            and (self._n_functions == self.n_products if columns is None else within(columns, self.n_products))
        )

    def __distembed_claims__(self) -> float:
        rows_a_point = len(self._sizes) * max(self._sizes, default=0) + len(self._left) + len(self._right)
        return float(16 * self.n_products + 512 * rows_a_point)

    @property
    def n_products(self) -> int:
        """Entries of the matrix of a bag, of which coefficients are some or all."""
        return len(self._left) * len(self._right)

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """Coefficients of bags, ndarray of shape (n_bags, n_basis_functions); arguments as of ``NumPyEngine``."""
        if not in_cube(bags):
            raise OutsideCube
        masses = shares_of(bags)
        if share is not None:
            masses *= np.repeat(share, bags.sizes)
        length, owner, starts, filled = blocks_of(bags)
        rows_a_point = len(self._sizes) * max(self._sizes) + len(self._left) + len(self._right)
        step = max(1, _PIECE_BYTES // (8 * (length * rows_a_point + self.n_products)))
        sums = scratch("means", (bags.n_bags, self.n_products), np.float64)
        sums[...] = 0
        for i in range(0, len(owner), step):
            some = slice(i, i + step)
            products = self._products(*_gather(bags.points, masses, starts[some], filled[some], length), scratch)
            first = np.flatnonzero(np.diff(owner[some], prepend=-1))
            if len(first) < len(products):  # some bag has several blocks
                products = np.add.reduceat(products, first, axis=0)
            sums[owner[i] : owner[i] + len(first)] += products
        if out is None:
            out = np.empty((bags.n_bags, self._n_functions), bags.dtype)
        out[...] = sums if self._columns is None else sums[:, self._columns]
        return out

    def _products(self, x: Array, w: Array, scratch: Scratch) -> Array:
        """L diag(w) R' of blocks of points x of shape (n_dims, n_blocks, length): shape (n_blocks, len(L) len(R))."""
        n_dims, n_blocks, length = x.shape
        tables = scratch("tables", (max(self._sizes), x.size), np.float64)
        tabulate(self._basis, x.ravel(), tables, scratch)
        apart = tables.reshape(-1, n_dims, n_blocks * length)
        each = [apart[:size, j] for j, size in enumerate(self._sizes)]
        n_left = self._left.shape[1]
        left = _multiply(each[:n_left], self._left, scratch, "left")
        if n_left == n_dims:
            right = w[None]
        else:
            right = _multiply(each[n_left:], self._right, scratch, "right")
            smaller = left if len(left) < len(right) else right
            smaller *= w
        found = scratch("products", (n_blocks, len(left), len(right)), np.float64)
        left, right = (side.reshape(-1, n_blocks, length) for side in (left, right))
        np.matmul(left.transpose(1, 0, 2), right.transpose(1, 2, 0), out=found)
        return found.reshape(n_blocks, -1)


def tabulate(basis: Basis, x: Array, out: Array, scratch: Scratch) -> None:
    """Write the first n functions of a basis at points x of shape (n_points,) to ``out`` of shape (n, n_points).

    By three-term recurrences, two operations a value instead of a cosine. Rounding grows as n² at the worst points, to
    1e-10 for a hundred functions.

    Examples
    --------
    >>> x, table = np.array([0.0, 0.25, 0.9]), np.empty((7, 3))
    >>> tabulate(Fourier(), x, table, Scratch())
    >>> np.allclose(table.T, Fourier().values(x, 7), rtol=0, atol=1e-14)
    True
    """
    n = len(out)
    out[0] = 1
    if n == 1:
        return
    if isinstance(basis, Legendre):
        y = 2 * np.asarray(x, np.float64) - 1
        out[1] = y
        for k in range(1, n - 1):
            np.multiply(y, out[k], out=out[k + 1])
            out[k + 1] *= (2 * k + 1) / (k + 1)
            out[k + 1] -= (k / (k + 1)) * out[k - 1]
        out *= np.sqrt(2 * np.arange(n) + 1)[:, None]
        return
    if not isinstance(basis, Cosine | Fourier):
        out[...] = basis.values(x, n).T
        return
    # cos((m + 1) t) = 2 cos(t) cos(m t) - cos((m - 1) t), and the same for sines.
    step = 2 if isinstance(basis, Fourier) else 1
    twice = scratch("twice the cosine", x.shape, np.float64)
    np.multiply(x, step * np.pi, out=twice)
    if step == 2 and n > 2:
        write_sines_and_cosines(twice, out[2], twice, 2.0, scratch)
        out[2] /= np.sqrt(2)
    else:
        write_cosines(twice, twice, 2.0, scratch)
    np.multiply(twice, 1 / np.sqrt(2), out=out[1])
    before = [np.sqrt(2)] if step == 1 else [np.sqrt(2), 0.0]  # the waves of frequency zero
    for k in range(1 + step, n):
        np.multiply(twice, out[k - step], out=out[k])
        out[k] -= out[k - 2 * step] if k > 2 * step else before[k - 1 - step]


def _cut(indices: Array) -> tuple[Array, Array, Array]:
    """Distinct beginnings and ends of multi-indices, cut where they cost least, and where each α is in their matrix."""
    n_dims = indices.shape[1]
    whole = np.zeros(len(indices), int)
    # of no dimension: one, and the same for all
    begins = [(whole[:1], whole)]
    ends = [(whole[:1], whole)]
    for j in range(n_dims):
        begins.append(_distinct(begins[-1][1] * (indices[:, j].max() + 1) + indices[:, j]))
        ends.append(_distinct(indices[:, -1 - j] * len(ends[-1][0]) + ends[-1][1]))

    def sides(n_left: int) -> tuple[Array, Array]:
        return indices[begins[n_left][0], :n_left], indices[ends[n_dims - n_left][0], n_left:]

    def cost(n_left: int) -> float:
        """Time a point, in products of functions."""
        left, right = sides(n_left)
        multiplied = sum(len(side) + int(np.count_nonzero(side[:, 1:])) for side in (left, right))
        return multiplied + _PRODUCT_COST * len(left) * len(right)

    best = min(range(1, n_dims + 1), key=cost)
    left, right = sides(best)
    return left, right, begins[best][1] * len(right) + ends[n_dims - best][1]


def _distinct(keys: Array) -> tuple[Array, Array]:
    """Where each distinct key first stands, in increasing order, and the number of each key in that order."""
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first, number


def blocks_of(bags: Bags) -> tuple[int, Array, Array, Array]:
    """Cut bags into blocks of one length, so few points are filled up and blocks are few.

    Returns
    -------
    length : int
        Of a block.
    owner, starts, filled : ndarray of shape (n_blocks,) of int
        The bag of each block, its first point, and how many points it has.

    Examples
    --------
    >>> [blocks_of(Bags(np.zeros((sum(n), 1)), np.cumsum([0, *n])))[0] for n in ([200, 200], [1100], [10, 30, 500])]
    [200, 367, 64]
    """
    sizes = bags.sizes
    largest = int(sizes.max())
    longest = -(-largest // -(-largest // _LONGEST_BLOCK))  # equal blocks of the largest bag
    lengths = sorted({longest, *(n for n in (16, 32, 64, 128, 256) if n < longest)})
    costs = [np.sum(-(-sizes // length)) * (length + _BLOCK_COST) for length in lengths]
    length = lengths[int(np.argmin(costs))]
    counts = -(-sizes // length)
    owner = np.repeat(np.arange(bags.n_bags), counts)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = bags.offsets[owner] + length * nth
    return length, owner, starts, np.minimum(length, bags.offsets[owner + 1] - starts)


def _gather(points: Array, masses: Array, starts: Array, filled: Array, length: int) -> tuple[Array, Array]:
    """Points of consecutive blocks, of shape (n_dims, n_blocks, length), and masses, of shape (n_blocks * length,)."""
    if np.all(filled == length):
        rows: Any = slice(int(starts[0]), int(starts[0]) + len(starts) * length)
        x = points[rows]
        w = masses[rows]
    else:
        nth = np.arange(length)
        present = nth < filled[:, None]
        rows = np.where(present, starts[:, None] + nth, starts[:, None]).ravel()
        x = points.take(rows, axis=0)
        w = masses[rows] * present.ravel()
    return np.ascontiguousarray(x.T, np.float64).reshape(-1, len(starts), length), w


def _multiply(tables: Sequence[Array], indices: Array, scratch: Scratch, name: str) -> Array:
    """Products of functions Π_j φ_{α_j} at points, ndarray of shape (n_products, n_points)."""
    n_points = tables[0].shape[1]
    if len(indices) == np.prod([len(table) for table in tables]):  # all products
        found = tables[0]
        for j, table in enumerate(tables[1:]):
            shape = (len(found), len(table), n_points)
            made = np.multiply(found[:, None], table, out=scratch(f"{name} {j}", shape, np.float64))
            found = made.reshape(-1, n_points)
        return found
    found = scratch(name, (len(indices), n_points), np.float64)
    np.take(tables[0], indices[:, 0], axis=0, out=found, mode="clip")
    for table, k in zip(tables[1:], indices.T[1:], strict=True):
        rows = np.flatnonzero(k)
        found[rows] *= table[k[rows]]
    return found
