r"""From points to A features in compiled code: the same stages, fused, for kernel density estimates on a grid.

Needs numba, the extra ``distembed[fast]``; :mod:`distembed.embeddings.hdd` uses it where it is installed. The stages
are those of :mod:`distembed.density`, :mod:`distembed.distances.lambdas` and :mod:`distembed.basis`, which judge it in
the tests. What makes it fast:

- *Bags are lanes.* Up to 48 bags go through all stages together, their number the last axis of every array, so that the
  inner loops are contiguous and free of branches, and nothing leaves the cache between binning and projection.
- *Products stay in registers*, see :mod:`distembed.embeddings.registers`.
- *Powers by polynomials.* log2 p = exponent + polynomial of the mantissa; p^(iλ) turns by λ log p, reduced to half a
  turn, of which sine and cosine are short polynomials. All of it vectorises, to within a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.estimators import OutsideCube
from ..compute.compiled import OPTIONS, constants, half_angle
from ..compute.parallel import Scratch, kept_scratch, n_threads, run_in_threads
from ..density import GridKDE
from .groups import DONE, OUTSIDE, TAKEN, Groups
from .registers import add_at, product, transpose
from .stages import Stages

__all__ = ["CompiledEngine", "FusedEmbedding"]

Array = NDArray[Any]

# Bags at a time: whole vectors, and not a power of two, which makes rows of all arrays meet in few lines of the cache.
MAX_LANES, LANES_STEP = 48, 16
_GROUP = 8  # bags that are binned at a time; divides the lanes
_BLOCK = 256  # points that are placed at a time
_LANE_BYTES = 2**18  # of one function on the nodes of all lanes: a few of these fit the second-level cache
_LEAST_GROUPS = 4  # a thread: to wake one takes as long as the features of some bags
_GROUPS = 16  # that a call takes at most, so that somebody who interrupts the work need not wait


def _pack(matrices: Sequence[Array]) -> tuple[Array, Array]:
    """The matrices end to end and their shapes: types that do not depend on the number of dimensions."""
    return np.concatenate([matrix.ravel() for matrix in matrices]), np.array([matrix.shape for matrix in matrices])


class FusedEmbedding:
    """A features of bags on a grid, compiled.

    Parameters
    ----------
    smoothing : sequence of l ndarrays of shape (g_j, b_j)
        From bins to nodes, one matrix a dimension.
    periodic : sequence of l bool
        Dimensions whose bins wrap around.
    lambdas, weights : ndarray of shape (n_lambdas,)
        The quadrature rule, with nondecreasing lambdas.
    projection : sequence of l ndarrays of shape (m_j, g_j)
        From nodes to coefficients.
    columns : ndarray of shape (n_basis_functions,) of int
        Which of the Π m_j coefficients are wanted.
    dtype : numpy dtype
        float32 or float64.

    Notes
    -----
    Work a bag: 2^l additions a point, and the arithmetic of the matrix products. Memory: five functions on the nodes of
    all lanes. All arrays that come in must be C-contiguous: the products do not look at strides or bounds.
    """

    def __init__(
        self,
        smoothing: Sequence[Array],
        periodic: Sequence[bool],
        lambdas: Array,
        weights: Array,
        projection: Sequence[Array],
        columns: Array,
        dtype: np.dtype[Any],
    ) -> None:
        self._bits, self._terms = constants(dtype == np.float32)
        self._periodic = wraps = np.array(periodic, np.bool_)
        sizes = np.array([matrix.shape[1] for matrix in smoothing], dtype)
        # Where bins do not wrap, positions end just below the last midpoint, so that its cell is the last but one.
        lows, tops = np.where(wraps, -1, 0), np.where(wraps, sizes, np.nextafter(sizes - 1, 0 * sizes))
        self._bounds = tuple(np.tile(bound.astype(dtype), _BLOCK) for bound in (sizes, lows, tops))
        self._smoothing, self._projection = _pack(smoothing), _pack(projection)
        self._columns = np.asarray(columns, np.int64)
        self._wants_all = np.array_equal(columns, np.arange(prod(matrix.shape[0] for matrix in projection)))
        # In turns of the circle for one unit of log2 p.
        self._turns = (lambdas * np.log(2) / (2 * np.pi)).astype(dtype)
        self._roots = np.sqrt(weights).astype(dtype)
        largest = max(prod(max(matrix.shape) for matrix in matrices) for matrices in (smoothing, projection))
        self._memory: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()  # of each scratch
        lanes = MAX_LANES
        while lanes > LANES_STEP and lanes * largest * dtype.itemsize > _LANE_BYTES:
            lanes -= LANES_STEP
        self.lanes, self._largest, self._dtype = lanes, largest, dtype

    def groups(self, n_bags: int) -> Groups:
        """All bags in groups, none of them taken."""
        return Groups(n_bags, self.lanes, LANES_STEP)

    def __call__(
        self, points: Array, offsets: Array, shares: Array | None, out: Array, groups: Groups, scratch: Any
    ) -> None:
        """Write the features of some groups to ``out``, up to the first with points outside the unit cube.

        Parameters
        ----------
        points : ndarray of shape (n_points, l)
            In the unit cube; features mean nothing where some are not.
        offsets : ndarray of shape (n_bags + 1,)
            Bag i owns the points from ``offsets[i]`` to ``offsets[i + 1]``.
        shares : ndarray of shape (n_points,) or None
            Mass of each point, of sum one in each bag; None for equal masses.
        out : ndarray of shape (n_bags, n_features)
            C-contiguous rows.
        groups : Groups
            All bags in groups, some of which are taken.
        scratch : Scratch
            Memory for intermediate results.
        """
        if scratch not in self._memory:
            self._memory[scratch] = self._buffers(scratch)
        masses = np.empty(0, self._dtype) if shares is None else shares
        rule = (self._turns, self._roots, self._bits, self._terms)
        _embed(
            points, offsets, masses, self._bounds, self._periodic, *self._smoothing, *rule,
            *self._projection, self._columns, self._wants_all, out, groups.starts, groups.counts,
            *self._memory[scratch],
        )  # fmt: skip

    def _buffers(self, scratch: Any) -> tuple[Any, ...]:
        size, last, n = (
            self._largest * self.lanes,
            self._projection[1][-1, 1] * self.lanes,
            _BLOCK * len(self._periodic),
        )
        buffers = tuple(scratch(f"lanes {i}", (size,), self._dtype) for i in range(5))
        words = tuple(buffer.view(f"i{self._dtype.itemsize}") for buffer in buffers[:3])
        rows = tuple(scratch(f"row {i}", (last,), self._dtype) for i in range(2))
        return buffers, words, rows, scratch("cells below", (n,), np.int32), scratch("parts", (n,), self._dtype)


class CompiledEngine:
    """What :class:`~distembed.embeddings.stages.NumPyEngine` does, for lambda functions of binned points, smoothed.

    Parameters
    ----------
    stages : Stages
        With lambda functions, a kernel density estimate of one bandwidth, and a grid.
    dtype : numpy dtype
        Of the bags.
    """

    def __init__(self, stages: Stages, dtype: np.dtype[Any]) -> None:
        boundaries, projection = stages.density.boundaries(len(stages.bandwidth)), stages.projection
        smoothing = GridKDE(stages.nodes, stages.bandwidth, boundaries, dtype).matrices
        matrices = projection.astype(dtype).matrices
        columns = np.arange(projection.n_basis_functions) if projection.columns is None else projection.columns
        periodic = [boundary == "periodic" for boundary in boundaries]
        functions: Any = stages.functions
        self._fused = FusedEmbedding(
            smoothing, periodic, functions.lambdas, functions.weights, matrices, columns, dtype
        )
        self._n_features, self._dtype = functions.n_functions * projection.n_basis_functions, dtype
        self.bags_at_a_time = self._fused.lanes
        self.most_bags = 16 * self._fused.lanes  # a chunk may be long: only the lanes have to fit the cache

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """A features of bags, see :class:`~distembed.embeddings.stages.NumPyEngine`."""
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


# --------------------------------------------------------------------------------------------------------------
# Compiled code
# --------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _contract(source: Any, target: Any, values: Any, shapes: Any, lanes: int, last: int) -> Any:
    """Apply one matrix along each axis up to ``last`` of (g_1, ..., g_l, lanes), flat, the last axis first.

    Axes behind have their new sizes m_j already. In this order rows that are multiplied with each other lie close
    together. Returns the buffer with the result, and the other.
    """
    at, before, after = 0, 1, lanes
    for j in range(shapes.shape[0]):
        at += shapes[j, 0] * shapes[j, 1]
        before *= shapes[j, 1]
    for j in range(shapes.shape[0] - 1, -1, -1):
        m, g = shapes[j]
        at -= m * g
        before //= g
        if j <= last:
            for block in range(before):
                product(values, at, m, g, source, block * g * after, target, block * m * after, after)
            source, target = target, source
        after *= m
    return source, target


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _place(x: Any, sizes: Any, lows: Any, tops: Any, half: Any, cells: Any, parts: Any) -> Any:
    """The cell below each coordinate and the part of the way to the next; returns how many are outside [0, 1].

    Sizes and bounds repeat themselves with the dimensions, so that all coordinates go through one plain loop.
    """
    zero, one = half - half, half + half
    outside = 0
    for i in range(x.size):
        inside = min(max(x[i], zero), one)
        outside += inside != x[i]
        position = min(max(inside * sizes[i] - half, lows[i]), tops[i])
        below = np.floor(position)
        parts[i] = position - below
        cells[i] = np.int32(below)
    return outside


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _neighbours(cell: Any, size: Any, wraps: Any) -> Any:
    """A cell and the next, around the circle where the dimension ``wraps``; unsigned: no index counts from the end."""
    above = cell + 1
    if wraps:
        if cell < 0:
            cell += size
        if above >= size:
            above -= size
    return np.uint64(cell), np.uint64(above)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _bin(cells: Any, parts: Any, n_dims: int, masses: Any, share: Any, shapes: Any, wraps: Any, grid: Any) -> None:
    """Add points to the grid of one bag, flat, each shared by the 2^l cells around it.

    ``masses`` is empty where all points have the same share. Scalars are read from their arrays before the loops: the
    compiler must believe that a write to the grid might change them.
    """
    n, equal = cells.size // n_dims, masses.size == 0
    size_0, wraps_0 = np.int32(shapes[0, 1]), wraps[0]
    if n_dims == 1:
        for i in range(n):
            mass = share if equal else masses[i]
            low_0, high_0 = _neighbours(cells[i], size_0, wraps_0)
            upper = mass * parts[i]
            grid[low_0] += mass - upper
            grid[high_0] += upper
        return
    size_1, wraps_1 = np.int32(shapes[1, 1]), wraps[1]
    row_1 = np.uint64(size_1)
    if n_dims == 2:
        for i in range(n):
            mass = share if equal else masses[i]
            low_0, high_0 = _neighbours(cells[2 * i], size_0, wraps_0)
            low_1, high_1 = _neighbours(cells[2 * i + 1], size_1, wraps_1)
            upper = mass * parts[2 * i]
            lower = mass - upper
            near, far = lower * parts[2 * i + 1], upper * parts[2 * i + 1]
            grid[low_0 * row_1 + low_1] += lower - near
            grid[low_0 * row_1 + high_1] += near
            grid[high_0 * row_1 + low_1] += upper - far
            grid[high_0 * row_1 + high_1] += far
        return
    size_2, wraps_2 = np.int32(shapes[2, 1]), wraps[2]
    row_2 = np.uint64(size_2)
    for i in range(n):
        mass = share if equal else masses[i]
        low_0, high_0 = _neighbours(cells[3 * i], size_0, wraps_0)
        low_1, high_1 = _neighbours(cells[3 * i + 1], size_1, wraps_1)
        low_2, high_2 = _neighbours(cells[3 * i + 2], size_2, wraps_2)
        up_1, up_2 = parts[3 * i + 1], parts[3 * i + 2]
        upper = mass * parts[3 * i]
        for part, plane in ((mass - upper, low_0 * row_1), (upper, high_0 * row_1)):
            far = part * up_1
            near = part - far
            grid[(plane + low_1) * row_2 + low_2] += near - near * up_2
            grid[(plane + low_1) * row_2 + high_2] += near * up_2
            grid[(plane + high_1) * row_2 + low_2] += far - far * up_2
            grid[(plane + high_1) * row_2 + high_2] += far * up_2


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _logs_and_roots(
    p: Any, p_bits: Any, mantissa: Any, mantissa_bits: Any, bits: Any, terms: Any, log: Any, root: Any
) -> None:
    """log2 p and √p; a density of zero has the logarithm of the smallest exponent, and a root of zero."""
    shift, bias, mask, ones = bits
    for i in range(p.size):
        mantissa_bits[i] = (p_bits[i] & mask) | ones
        log[i] = np.int32((p_bits[i] >> shift) - bias)
    middle = mantissa.dtype.type(1.5)
    for i in range(p.size):
        x = mantissa[i] - middle
        y = terms[len(terms) - 1]
        for k in range(len(terms) - 2, -1, -1):
            y = y * x + terms[k]
        log[i] += y
        root[i] = np.sqrt(p[i])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _turn(
    log: Any, root: Any, turns: Any, weight: Any, half: Any, sines: Any, cosines: Any, real: Any, imaginary: Any
) -> None:
    """Real and imaginary part of √w p^(1/2 + iλ)."""
    one = half + half
    two = one + one
    for i in range(log.size):
        sine, cosine = half_angle(log[i] * turns, half, sines, cosines)
        length = weight * root[i]
        imaginary[i] = two * sine * cosine * length
        real[i] = (one - two * sine * sine) * length


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _histograms(
    points: Any, offsets: Any, masses: Any, bounds: Any, half: Any, periodic: Any, shapes: Any, first: int, n_bags: int,
    grid: Any, lanes: int, near: Any, below: Any, parts: Any,
) -> Any:  # fmt: skip
    """Bin some bags to the grid, (n_cells, lanes) flat; returns how many coordinates are outside [0, 1].

    Some bags at a time, each with cells of its own that lie together, so that they stay in the nearest cache.
    """
    sizes, lows, tops = bounds
    n_dims, n_cells, outside = periodic.size, 1, 0
    for j in range(n_dims):
        n_cells *= shapes[j, 1]
    for start in range(0, lanes, _GROUP):
        near[: n_cells * _GROUP] = 0  # lanes of no bag too: numbers left there could be anything
        for k in range(min(_GROUP, n_bags - start)):
            low, high = offsets[first + start + k], offsets[first + start + k + 1]
            share = (half + half) / points.dtype.type(high - low)
            own_cells = near[k * n_cells : (k + 1) * n_cells]
            for at in range(low, high, _BLOCK):
                end = min(at + _BLOCK, high)
                n = (end - at) * n_dims
                x, own = points[at:end].reshape(n), masses[at:end] if masses.size else masses
                outside += _place(x, sizes[:n], lows[:n], tops[:n], half, below[:n], parts[:n])
                _bin(below[:n], parts[:n], n_dims, own, share, shapes, periodic, own_cells)
        transpose(near, 0, n_cells, _GROUP, n_cells, grid, start, lanes)
    return outside


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _embed(
    points: Any, offsets: Any, masses: Any, bounds: Any, periodic: Any,
    smoothing: Any, smoothing_shapes: Any,
    turns: Any, roots: Any, bits: Any, terms: Any,
    projection: Any, projection_shapes: Any, columns: Any, wants_all: bool,
    out: Any, starts: Any, counts: Any, buffers: Any, words: Any, rows: Any, below: Any, parts: Any,
) -> None:  # fmt: skip
    """All stages for some groups of bags that nobody has taken; see :class:`Groups` for the counts."""
    logs, sines, cosines, half = terms
    a, b, c, log, root = buffers
    n_dims, n_nodes = periodic.size, 1
    for j in range(n_dims):
        n_nodes *= smoothing_shapes[j, 0]
    n_lambdas, n_columns = turns.size, columns.size
    flat, n_features = out.reshape(out.size), out.shape[1]
    n_zero = 0
    while n_zero < n_lambdas and turns[n_zero] == 0:
        n_zero += 1
    # The last axis is projected row by row, as soon as a row of lambda functions is there.
    m, g = projection_shapes[n_dims - 1]
    at, n_rows = projection.size - m * g, n_nodes // g
    for _ in range(_GROUPS):
        group = add_at(counts, TAKEN, 1)
        if group >= starts.size - 1:
            return
        first, n_here = starts[group], starts[group + 1] - starts[group]
        lanes = -(-n_here // LANES_STEP) * LANES_STEP
        size, row = n_nodes * lanes, g * lanes
        outside = _histograms(
            points, offsets, masses, bounds, half, periodic, smoothing_shapes, first, n_here, a, lanes, b, below, parts
        )
        if outside:
            add_at(counts, OUTSIDE, outside)
            add_at(counts, TAKEN, starts.size)  # nobody need go on
            return
        _contract(a, b, smoothing, smoothing_shapes, lanes, n_dims - 1)
        p, p_bits = (a, words[0]) if n_dims % 2 == 0 else (b, words[1])
        _logs_and_roots(p[:size], p_bits[:size], c[:size], words[2][:size], bits, logs, log[:size], root[:size])
        for j in range(n_lambdas):
            real, imaginary = rows[0][:row], rows[1][:row]
            for k in range(n_rows):
                here = slice(k * row, (k + 1) * row)
                if j < n_zero:
                    for i in range(row):
                        real[i] = roots[j] * root[k * row + i]
                else:
                    _turn(log[here], root[here], turns[j], roots[j], half, sines, cosines, real, imaginary)
                    product(projection, at, m, g, imaginary, 0, b, k * m * lanes, lanes)
                product(projection, at, m, g, real, 0, a, k * m * lanes, lanes)
            for part in range(1 if j < n_zero else 2):
                found, spare = _contract(b if part else a, c, projection, projection_shapes, lanes, n_dims - 2)
                if not wants_all:
                    for k in range(n_columns):
                        spare[k * lanes : (k + 1) * lanes] = found[columns[k] * lanes : (columns[k] + 1) * lanes]
                    found = spare
                place = (j + part * (n_lambdas - n_zero)) * n_columns
                transpose(found, 0, lanes, n_columns, n_here, flat, first * n_features + place, n_features)
        add_at(counts, DONE, 1)
