"""The stages from bags on given nodes to A features, one after the other in NumPy or fused in compiled code.

An engine is prepared once for a dtype and then called with bags, where to write and scratch memory, by any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.estimators import OutsideCube, in_cube
from ..basis import Basis, Cosine, Fourier, Legendre, Projection
from ..compute.parallel import Scratch, kept_scratch, n_threads, run_in_threads
from ..compute.registry import storable
from ..compute.separable import bags_first, contract
from ..compute.sines import write_cosines, write_waves
from ..density import KDE, Density, Evaluator, GridKDE
from ..density.estimate import seen
from ..density.nodes import GridNodes, PointNodes
from ..distances import lambda_functions as lambda_module

__all__ = ["Engine", "NumPyEngine", "NumbaEngine", "PointMeans", "is_compiled", "tabulate"]

Array = NDArray[Any]

_PIECE_BYTES = 2**21  # of tables at a time: they stay in the cache
_BLOCK_COST = 32  # what a matrix product costs beside its points, in points
_LONGEST_BLOCK = 512
_PRODUCT_COST = 0.15  # of a term of a matrix product, in those of a product of functions
_LEAST_GROUPS = 4  # a thread: to wake one takes as long as the features of some bags


class NumPyEngine:
    """Density, lambda functions and projection, each for a chunk of bags at a time.

    Parameters
    ----------
    estimate : Evaluator
        Bags to densities on the nodes.
    functions : callable
        Called with densities of shape (...) and scratch memory, returns what is projected, of shape (n_functions, ...).
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
        functions: Callable[[Array, Scratch], Array],
        projection: Projection,
        reference: Array | None,
        bandwidths_of: Callable[[Bags], Array] | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._estimate = estimate
        self._functions = functions
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
            Continuous points, none of weight zero; :class:`~distembed.bags.estimators.OutsideCube` is raised for any outside the
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

    def from_masses(self, masses: Array, matrices: Sequence[Array], out: Array | None, scratch: Scratch) -> Array:
        """The same from binned points and the matrices that smooth them: one binning serves many bandwidths."""
        return self._features(contract(masses, matrices, scratch, "density"), out, scratch)

    def _features(self, p: Array, out: Array | None, scratch: Scratch) -> Array:
        if self._reference is not None:
            p = p * self._reference
        return self._project(self._functions(p, scratch), out, scratch)

    def _densities(self, bags: Bags, scratch: Scratch) -> Array:
        own = None if self._bandwidths_of is None else self._bandwidths_of(bags)
        return self._estimate(bags, own, scratch)

    def captured(self, bags: Bags, volumes: Array, scratch: Scratch) -> tuple[Array, Array, Array, Array]:
        """What basis and nodes see of bags: four ndarrays of shape (n_bags,).

        The energy Σ a_α² that the basis captures; the mass Σ v p̂ on nodes of these volumes; the square Σ v p̂²; and the
        number of nodes that see the density, (Σ v p̂)² / Σ (v p̂)².
        """
        p = self._densities(bags, scratch)
        masses, seeing = seen(p, volumes)
        squares = bags_first(p).reshape(bags.n_bags, -1) ** 2 @ volumes
        return np.sum(self._features(p, None, scratch) ** 2, axis=1), masses, squares, seeing


class NumbaEngine:
    """The same for kernel density estimates on a grid, fused and compiled; see :mod:`distembed.embeddings.compiled`."""

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
        from .compiled import FusedEmbedding

        smoothing = GridKDE(nodes, bandwidth, boundaries, dtype).matrices
        matrices = projection.astype(dtype).matrices
        columns = np.arange(projection.n_basis_functions) if projection.columns is None else projection.columns
        periodic = [boundary == "periodic" for boundary in boundaries]
        self._fused = FusedEmbedding(smoothing, periodic, lambdas, weights, matrices, columns, dtype)
        self._n_features = lambda_module.n_functions(lambdas) * projection.n_basis_functions
        self._dtype = dtype
        self.bags_at_a_time = self._fused.lanes
        self.most_bags = 16 * self._fused.lanes  # a chunk may be long: only the lanes have to fit the cache

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """A features of bags, see :class:`NumPyEngine`."""
        masses = bags.shares()
        if share is not None:
            equal = np.repeat(1 / bags.sizes, bags.sizes) if masses is None else masses
            masses = equal * np.repeat(share, bags.sizes)
        if out is None:
            out = np.empty((bags.n_bags, self._n_features), self._dtype)
        shares = None if masses is None else masses.astype(self._dtype)
        groups = self._fused.groups(bags.n_bags)
        self._run(bags, shares, out, groups, scratch)
        if groups.outside:
            raise OutsideCube
        return out

    def in_threads(self, bags: Bags, out: Array, n_jobs: int | None) -> None:
        """Write the features of bags without weights to ``out``, in threads that share all bags."""
        groups = self._fused.groups(bags.n_bags)

        def work() -> None:
            with kept_scratch() as scratch:
                self._run(bags, None, out, groups, scratch)

        run_in_threads(work, min(n_threads(n_jobs), len(groups) // _LEAST_GROUPS), groups.wait)
        if groups.outside:
            raise OutsideCube

    def _run(self, bags: Bags, shares: Array | None, out: Array, groups: Any, scratch: Scratch) -> None:
        try:
            while groups.left:
                self._fused(bags.points, bags.offsets, shares, out, groups, scratch)
        except BaseException:
            groups.stop()
            raise


@storable
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
        self._basis, self._n_functions = basis, len(indices)
        self._sizes = tuple(int(k) + 1 for k in indices.max(axis=0))
        self._left, self._right, columns = _cut(indices)
        self._columns = None if np.array_equal(columns, np.arange(self.n_products)) else columns

    @property
    def n_products(self) -> int:
        """Entries of the matrix of a bag, of which coefficients are some or all."""
        return len(self._left) * len(self._right)

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """Coefficients of bags, ndarray of shape (n_bags, n_basis_functions), see :class:`NumPyEngine`."""
        if not in_cube(bags):
            raise OutsideCube
        masses = bags.shares()
        each = np.ones(bags.n_bags) if share is None else share
        if masses is None:
            masses = np.repeat(each / bags.sizes, bags.sizes)
        elif share is not None:
            masses *= np.repeat(each, bags.sizes)
        length = _block_length(bags.sizes)
        counts = -(-bags.sizes // length)
        owner = np.repeat(np.arange(bags.n_bags), counts)
        nth = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = bags.offsets[owner] + length * nth
        filled = np.minimum(length, bags.offsets[owner + 1] - starts)
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
        left = _multiplied(each[:n_left], self._left, scratch, "left")
        if n_left == n_dims:
            right = w[None]
        else:
            right = _multiplied(each[n_left:], self._right, scratch, "right")
            smaller = left if len(left) < len(right) else right
            smaller *= w
        found = scratch("products", (n_blocks, len(left), len(right)), np.float64)
        left, right = (side.reshape(-1, n_blocks, length) for side in (left, right))
        np.matmul(left.transpose(1, 0, 2), right.transpose(1, 2, 0), out=found)
        return found.reshape(n_blocks, -1)


Engine = NumPyEngine | NumbaEngine | PointMeans


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
        write_waves(twice, out[2], twice, 2.0, scratch)
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
    begins, ends = [(whole[:1], whole)], [(whole[:1], whole)]  # of no dimension: one, and the same for all
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


def _block_length(sizes: Array) -> int:
    """Length of the blocks into which bags are cut, so that few points are filled up and blocks are few."""
    largest = int(sizes.max())
    shortest = -(-largest // -(-largest // _LONGEST_BLOCK))  # equal blocks of the largest bag
    lengths = sorted({shortest, *(n for n in (16, 32, 64, 128, 256) if n < shortest)})
    costs = [np.sum(-(-sizes // length)) * (length + _BLOCK_COST) for length in lengths]
    return lengths[int(np.argmin(costs))]


def _gather(points: Array, masses: Array, starts: Array, filled: Array, length: int) -> tuple[Array, Array]:
    """Points of consecutive blocks, of shape (n_dims, n_blocks, length), and masses, of shape (n_blocks * length,)."""
    if np.all(filled == length):
        rows: Any = slice(int(starts[0]), int(starts[0]) + len(starts) * length)
        x, w = points[rows], masses[rows]
    else:
        nth = np.arange(length)
        present = nth < filled[:, None]
        rows = np.where(present, starts[:, None] + nth, starts[:, None]).ravel()
        x, w = points.take(rows, axis=0), masses[rows] * present.ravel()
    return np.ascontiguousarray(x.T, np.float64).reshape(-1, len(starts), length), w


def _multiplied(tables: Sequence[Array], indices: Array, scratch: Scratch, name: str) -> Array:
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


def is_compiled(density: Density, nodes: GridNodes | PointNodes, per_bag: bool) -> bool:
    """Whether there is compiled code for this density on these nodes."""
    return type(density) is KDE and isinstance(nodes, GridNodes) and not per_bag
