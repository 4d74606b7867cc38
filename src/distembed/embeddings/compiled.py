r"""From points to A features in compiled code: the same stages, fused, for kernel density estimates on a grid.

Needs numba, the extra ``distembed[fast]``; :mod:`distembed.embeddings.hdd` uses it where it is installed. The stages
are those of :mod:`distembed.density`, :mod:`distembed.distances.lambdas` and :mod:`distembed.basis`, which judge it in
the tests. What makes it fast:

- *Bags are lanes.* Up to 48 bags go through all stages together, their number the last axis of every array, so the
  inner loops are contiguous and free of branches, and nothing leaves the cache between binning and projection.
- *Powers by polynomials.* log2 p = exponent + polynomial of the mantissa; p^(iλ) turns by λ log p, reduced to half a
  turn, of which sine and cosine are short polynomials. All of it vectorises, to within a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numba import njit

from ..bags import Bags
from ..bags.estimators import OutsideCube
from ..compute.arrays import Array, Scratch
from ..compute.compiled import OPTIONS, constants, half_angle
from ..density import GridKDE
from ..density.estimate import shares_of
from .stages import DensityStages

# Bags at a time: whole vectors, and not a power of two, which makes rows of all arrays meet in few lines of the cache.
MAX_LANES = 48
LANES_STEP = 16
_BINNED = 8  # bags that are binned at a time; divides the lanes
_BLOCK = 256  # points that are placed at a time
_LANE_BYTES = 2**18  # of one function on the nodes of all lanes: a few of these fit the second-level cache
# Points may be anything until they are placed: here NaN and infinities count.
_PLACING = {**OPTIONS, "fastmath": {"contract", "nsz", "arcp"}}
_CALL_LANES = 16  # times the lanes are the bags of a call, so that somebody who interrupts the work need not wait


def _pack(matrices: Sequence[Array]) -> tuple[Array, Array]:
    """The matrices end to end and their shapes: types that do not depend on the number of dimensions."""
    return np.concatenate([matrix.ravel() for matrix in matrices]), np.array([matrix.shape for matrix in matrices])


class CompiledEngine:
    """What :class:`~distembed.embeddings.stages.NumPyEngine` does, for lambda functions of binned points, smoothed.

    Parameters
    ----------
    stages : DensityStages
        With lambda functions, a kernel density estimate of one bandwidth, and a grid.
    dtype : numpy dtype
        Of the bags, float32 or float64.

    Notes
    -----
    Work a bag: 2^l additions a point, and the arithmetic of the matrix products. Memory: five functions on the nodes of
    all lanes.
    """

    def __init__(self, stages: DensityStages, dtype: np.dtype[Any]) -> None:
        boundaries = stages.density.boundaries(len(stages.bandwidth))
        smoothing = GridKDE(stages.nodes, stages.bandwidth, boundaries, dtype).matrices
        projection = stages.projection.astype(dtype)
        functions: Any = stages.functions
        largest = max(prod(max(matrix.shape) for matrix in each) for each in (smoothing, projection.matrices))
        lanes = MAX_LANES
        while lanes > LANES_STEP and lanes * largest * dtype.itemsize > _LANE_BYTES:
            lanes -= LANES_STEP
        wraps = np.array([boundary == "periodic" for boundary in boundaries], np.bool_)
        sizes = np.array([matrix.shape[1] for matrix in smoothing], dtype)
        # Where bins do not wrap, positions end just below the last midpoint, so that its cell is the last but one.
        lows = np.where(wraps, -1, 0)
        tops = np.where(wraps, sizes, np.nextafter(sizes - 1, 0 * sizes))
        self._bins: tuple[Any, ...] = (
            *(np.tile(bound.astype(dtype), _BLOCK) for bound in (sizes, lows, tops)),
            wraps,
            lanes,
        )
        # The last axis is smoothed bag by bag, where it lies together, the others for all lanes at a time.
        last = np.ascontiguousarray(smoothing[-1].T)
        self._smoothing = (*_pack(smoothing), last)
        self._projection = _pack(projection.matrices)
        columns = projection.columns
        self._columns = np.arange(projection.n_basis_functions) if columns is None else np.asarray(columns, np.int64)
        # In turns of the circle for one unit of log2 p.
        turns = (functions.lambdas * np.log(2) / (2 * np.pi)).astype(dtype)
        self._powers = (turns, np.sqrt(functions.weights).astype(dtype), *constants(dtype == np.float32))
        self._largest = largest
        self._dtype = dtype
        self._n_dims = len(smoothing)
        self._n_features = functions.n_functions * projection.n_basis_functions
        n_zero = int(np.argmax(np.append(turns, 1) != 0))
        n_products = prod(len(matrix) for matrix in projection.matrices)
        if not (  # compiled code trusts all of these
            [matrix.shape[1] for matrix in projection.matrices] == [len(matrix) for matrix in smoothing]
            and len(functions.weights) == len(turns)
            and (2 * len(turns) - n_zero) * len(self._columns) == self._n_features
            and np.all((self._columns >= 0) & (self._columns < n_products))
        ):
            raise ValueError("HDDEmbedding: nodes, projection and lambda functions don't fit together; fit it again")
        self.bags_at_a_time = lanes
        self.most_bags = _CALL_LANES * lanes

    def __call__(self, bags: Bags, out: Array | None, scratch: Scratch, share: Array | None = None) -> Array:
        """A features of bags, see :class:`~distembed.embeddings.stages.NumPyEngine`."""
        masses = bags.shares()
        if share is not None:
            masses = shares_of(bags) * np.repeat(share, bags.sizes)
        if out is None:
            out = np.empty((bags.n_bags, self._n_features), self._dtype)
        if out.shape != (bags.n_bags, self._n_features) or bags.n_dims != self._n_dims:
            raise ValueError(
                f"HDDEmbedding: has {self._n_features} features of {self._n_dims} dimensions; fit it again"
            )
        masses = np.empty(0, self._dtype) if masses is None else masses.astype(self._dtype)
        points = (bags.points, bags.offsets, masses)
        onto = (*self._projection, self._columns)
        if _embed(points, self._bins, self._smoothing, self._powers, onto, out, self._memory(scratch)):
            raise OutsideCube
        return out

    def _memory(self, scratch: Scratch) -> tuple[Any, ...]:
        """Buffers for functions on the nodes of all lanes, some also seen as integers, and for points."""
        lanes = self.bags_at_a_time
        n = self._bins[0].size
        buffers = tuple(scratch(f"lanes {i}", (self._largest * lanes,), self._dtype) for i in range(5))
        words = tuple(buffer.view(f"i{self._dtype.itemsize}") for buffer in buffers[:3])
        return buffers, words, (scratch("cells below", (n,), np.int32), scratch("parts", (n,), self._dtype))


# --------------------------------------------------------------------------------------------------------------
# Compiled code
# --------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _contract(source: Any, target: Any, values: Any, shapes: Any, after: int) -> Any:
    """Apply one matrix along each axis of (g_1, ..., g_k, after), flat, the first axis first: its product is large.

    ``source`` is overwritten. Returns the buffer with the result.
    """
    at = 0
    before = 1
    for j in range(shapes.shape[0]):
        after *= shapes[j, 1]
    for j in range(shapes.shape[0]):
        m, g = shapes[j]
        after //= g
        matrix = values[at : at + m * g].reshape(m, g)
        for block in range(before):
            x = source[block * g * after : (block + 1) * g * after].reshape(g, after)
            np.dot(matrix, x, target[block * m * after : (block + 1) * m * after].reshape(m, after))
        source, target = target, source
        at += m * g
        before *= m
    return source


@njit(**_PLACING)  # type: ignore[untyped-decorator]
def _place(x: Any, sizes: Any, lows: Any, tops: Any, half: Any, cells: Any, parts: Any) -> Any:
    """The cell below each coordinate and the part of the way to the next; returns how many are outside [0, 1].

    Sizes and bounds repeat themselves with the dimensions, so all coordinates go through one plain loop.
    """
    zero = half - half
    one = half + half
    outside = 0
    for i in range(x.size):
        inside = x[i] if x[i] > zero else zero  # NaN too, so no cell is outside the grid
        inside = inside if inside < one else one
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
def _share(grid: Any, row: Any, low: Any, high: Any, mass: Any, part: Any) -> None:
    """Share a mass between two cells of a row of the grid."""
    upper = mass * part
    grid[row + low] += mass - upper
    grid[row + high] += upper


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _bin(cells: Any, parts: Any, masses: Any, share: Any, shapes: Any, wraps: Any, grid: Any) -> None:
    """Add points to the grid of one bag, flat, each shared by the 2^l cells around it.

    ``masses`` is empty where all points have the same share. Scalars are read from their arrays before the loops: the
    compiler must believe that a write to the grid might change them.
    """
    n_dims = wraps.size
    equal = masses.size == 0
    n = cells.size // n_dims
    size_0 = np.int32(shapes[0, 1])
    wraps_0 = wraps[0]
    if n_dims == 1:
        for i in range(n):
            low_0, high_0 = _neighbours(cells[i], size_0, wraps_0)
            _share(grid, np.uint64(0), low_0, high_0, share if equal else masses[i], parts[i])
        return
    size_1 = np.int32(shapes[1, 1])
    wraps_1 = wraps[1]
    row_1 = np.uint64(size_1)
    if n_dims == 2:
        for i in range(n):
            mass = share if equal else masses[i]
            part = parts[2 * i + 1]
            low_0, high_0 = _neighbours(cells[2 * i], size_0, wraps_0)
            low_1, high_1 = _neighbours(cells[2 * i + 1], size_1, wraps_1)
            upper = mass * parts[2 * i]
            _share(grid, low_0 * row_1, low_1, high_1, mass - upper, part)
            _share(grid, high_0 * row_1, low_1, high_1, upper, part)
        return
    size_2 = np.int32(shapes[2, 1])
    wraps_2 = wraps[2]
    row_2 = np.uint64(size_2)
    for i in range(n):
        mass = share if equal else masses[i]
        part = parts[3 * i + 2]
        low_0, high_0 = _neighbours(cells[3 * i], size_0, wraps_0)
        low_1, high_1 = _neighbours(cells[3 * i + 1], size_1, wraps_1)
        low_2, high_2 = _neighbours(cells[3 * i + 2], size_2, wraps_2)
        upper = mass * parts[3 * i]
        for half, plane in ((mass - upper, low_0 * row_1), (upper, high_0 * row_1)):
            far = half * parts[3 * i + 1]
            _share(grid, (plane + low_1) * row_2, low_2, high_2, half - far, part)
            _share(grid, (plane + high_1) * row_2, low_2, high_2, far, part)


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
    points: Any, bins: Any, smoothing: Any, half: Any, first: int, last: int, grid: Any, near: Any, smooth: Any,
    spare: Any,
) -> Any:  # fmt: skip
    """Bin bags from ``first`` to ``last``, smoothed along the last axis; returns how many coordinates are outside.

    ``grid`` is (b_1, ..., b_{l-1}, g_l, lanes), flat. Some bags at a time, each with cells of its own that lie
    together, so they stay in the nearest cache.
    """
    _, shapes, matrix = smoothing
    x, offsets, masses = points
    sizes, lows, tops, wraps, lanes = bins
    below, parts = spare
    n_dims = wraps.size
    n_cells = 1
    outside = 0
    for j in range(n_dims):
        n_cells *= shapes[j, 1]
    for start in range(0, lanes, _BINNED):
        near[: n_cells * _BINNED] = 0  # lanes of no bag too: numbers left there could be anything
        for k in range(min(_BINNED, last - first - start)):
            low = offsets[first + start + k]
            high = offsets[first + start + k + 1]
            share = (half + half) / x.dtype.type(high - low)
            own_cells = near[k * n_cells : (k + 1) * n_cells]
            for at in range(low, high, _BLOCK):
                end = min(at + _BLOCK, high)
                n = (end - at) * n_dims
                own = masses[at:end] if masses.size else masses
                outside += _place(x[at:end].reshape(n), sizes[:n], lows[:n], tops[:n], half, below[:n], parts[:n])
                _bin(below[:n], parts[:n], own, share, shapes, wraps, own_cells)
        n_last = matrix.shape[0]
        size = n_cells // matrix.shape[0] * matrix.shape[1]
        rows = near[: n_cells * _BINNED].reshape(n_cells * _BINNED // n_last, n_last)
        np.dot(rows, matrix, smooth[: size * _BINNED].reshape(rows.shape[0], matrix.shape[1]))
        for cell in range(size):
            for k in range(_BINNED):
                grid[cell * lanes + start + k] = smooth[k * size + cell]
    return outside


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _embed(points: Any, bins: Any, smoothing: Any, powers: Any, onto: Any, out: Any, memory: Any) -> Any:
    """All stages for bags; returns how many coordinates are outside [0, 1], and then stops early.

    ``points`` are points, offsets and masses; ``bins`` are sizes, bounds, whether they wrap, and the lanes;
    ``smoothing`` is packed matrices and that of the last axis, ``onto`` packed matrices and the columns that are
    wanted; ``powers`` is the rule with the constants of :func:`distembed.compute.compiled.constants`.
    """
    turns, roots, bits, (logs, sines, cosines, half) = powers
    projection, projection_shapes, columns = onto
    (a, b, c, log, root), words, spare = memory
    n_dims = bins[3].size
    n_nodes = 1
    lanes = bins[4]
    for j in range(n_dims):
        n_nodes *= smoothing[1][j, 0]
    n_bags = out.shape[0]
    n_lambdas = turns.size
    n_columns = columns.size
    n_zero = 0
    size = n_nodes * lanes
    while n_zero < n_lambdas and turns[n_zero] == 0:
        n_zero += 1
    for first in range(0, n_bags, lanes):
        last = min(first + lanes, n_bags)
        outside = _histograms(points, bins, smoothing, half, first, last, a, b, c, spare)
        if outside:
            return outside
        _contract(a, b, smoothing[0], smoothing[1][:-1], smoothing[1][-1, 0] * lanes)
        p, p_bits = (b, words[1]) if n_dims % 2 == 0 else (a, words[0])
        _logs_and_roots(p[:size], p_bits[:size], c[:size], words[2][:size], bits, logs, log[:size], root[:size])
        for j in range(n_lambdas):
            if j < n_zero:
                a[:size] = roots[j] * root[:size]
            else:
                _turn(log[:size], root[:size], turns[j], roots[j], half, sines, cosines, a[:size], b[:size])
            for part in range(1 if j < n_zero else 2):
                found = _contract(b if part else a, c, projection, projection_shapes, lanes)
                place = (j + part * (n_lambdas - n_zero)) * n_columns
                for i in range(last - first):
                    target = out[first + i, place : place + n_columns]
                    for k in range(n_columns):
                        target[k] = found[columns[k] * lanes + i]
    return 0
