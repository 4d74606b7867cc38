r"""From points to A features in compiled code: the same stages, fused, for kernel density estimates on a grid.

Needs numba, the extra ``distembed[fast]``; :mod:`distembed.embeddings.hdd` uses it where it is installed. The stages
are those of :mod:`distembed.density`, :mod:`distembed.lambdas` and :mod:`distembed.basis`, which judge it in the tests.
What makes it fast:

- *Bags are lanes.* Up to 80 bags go through all stages together, their number the last axis of every array, so that the
  inner loops are long, contiguous and free of branches, and nothing leaves the cache between binning and projection.
- *Powers by polynomials.* log2 p = exponent + polynomial of the mantissa; p^(iλ) turns by λ log p, reduced to half a
  turn, of which sine and cosine are short polynomials. All of it vectorises, to within a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numba import njit
from numpy.polynomial import Polynomial, chebyshev
from numpy.typing import NDArray

__all__ = ["FusedEmbedding", "write_waves"]

Array = NDArray[Any]

MAX_LANES, MIN_LANES = 80, 40  # not powers of two, which make rows of all arrays meet in few lines of the cache
_GROUP = 8  # bags that are binned at a time; divides the lanes
_LANE_BYTES = 2**18  # of one function on the nodes of all lanes: a few of these fit the second-level cache

# No NaN or infinity comes in, and contraction to fused multiply-add is welcome; sums keep their order.
_MATH = {"contract", "nsz", "arcp", "nnan", "ninf"}
_OPTIONS: dict[str, Any] = {"fastmath": _MATH, "nogil": True, "error_model": "numpy", "cache": True}


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
    all lanes.
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
        self._bits, self._terms = _constants(dtype == np.float32)
        self._sizes = np.array([matrix.shape[1] for matrix in smoothing], dtype)
        self._smoothing, self._projection = _pack(smoothing), _pack(projection)
        self._tops = np.nextafter(self._sizes - 1, 0 * self._sizes)
        self._columns = np.asarray(columns, np.int64)
        self._periodic = np.array(periodic, np.bool_)
        # In turns of the circle for one unit of log2 p.
        self._turns = (lambdas * np.log(2) / (2 * np.pi)).astype(dtype)
        self._roots = np.sqrt(weights).astype(dtype)
        largest = max(prod(max(matrix.shape) for matrix in matrices) for matrices in (smoothing, projection))
        lanes = MAX_LANES
        while lanes > MIN_LANES and lanes * largest * dtype.itemsize > _LANE_BYTES:
            lanes //= 2
        self.lanes, self._largest, self._dtype = lanes, largest, dtype

    def __call__(self, points: Array, offsets: Array, shares: Array | None, out: Array, scratch: Any) -> None:
        """Write the features of bags to ``out``.

        Parameters
        ----------
        points : ndarray of shape (n_points, l)
            In the unit cube.
        offsets : ndarray of shape (n_bags + 1,)
            Bag i owns the points from ``offsets[i]`` to ``offsets[i + 1]``.
        shares : ndarray of shape (n_points,) or None
            Mass of each point, of sum one in each bag; None for equal masses.
        out : ndarray of shape (n_bags, n_features)
            C-contiguous rows.
        scratch : Scratch
            Memory for intermediate results.
        """
        size = self._largest * self.lanes
        masses = np.empty(0, self._dtype) if shares is None else shares
        buffers = tuple(scratch(f"lanes {i}", (size,), self._dtype) for i in range(5))
        words = tuple(buffer.view(f"i{self._dtype.itemsize}") for buffer in buffers[:3])
        rule = (self._turns, self._roots, self._bits, self._terms)
        _embed(
            points, offsets, masses, self._sizes, self._tops, self._periodic, *self._smoothing, *rule,
            *self._projection, self._columns, out, self.lanes, buffers, words,
        )  # fmt: skip


def write_waves(angles: Array, sines: Array, cosines: Array, scale: Any, scratch: Any = None) -> None:
    """Write ``scale`` sin(angles) to ``sines`` and ``scale`` cos(angles) to ``cosines``, all of shape (n, m).

    What :func:`distembed._waves.write_waves` does, in one pass over the memory.

    Examples
    --------
    >>> angles, sines, cosines = np.array([[0.0, 100.0]]), np.empty((1, 2)), np.empty((1, 2))
    >>> write_waves(angles, sines, cosines, 2.0)
    >>> np.allclose(sines, 2 * np.sin(angles), atol=1e-13), np.allclose(cosines, 2 * np.cos(angles), atol=1e-13)
    (True, True)
    """
    scalar = angles.dtype.type
    _, (_, sine_terms, cosine_terms, half) = _constants(angles.dtype == np.float32)
    _waves(angles, scalar(1 / (2 * np.pi)), scalar(scale), half, sine_terms, cosine_terms, sines, cosines)


# --------------------------------------------------------------------------------------------------------------
# Compiled code
# --------------------------------------------------------------------------------------------------------------


def _polynomial(function: Callable[[Array], Array], low: float, high: float, degree: int) -> Array:
    """Coefficients, lowest first, of nearly the best polynomial on an interval."""
    x = np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    fitted = chebyshev.chebfit(x, function((low + high) / 2 + (high - low) / 2 * x), degree)
    return np.asarray(Polynomial(chebyshev.cheb2poly(fitted), domain=[low, high]).convert().coef)


@cache
def _constants(single: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """How the bits of a number are laid out, and the polynomials of log2(1.5 + x), sin(πt)/t and cos(πt) in t²."""
    digits, bias, integer, scalar = (23, 127, np.int32, np.float32) if single else (52, 1023, np.int64, np.float64)
    bits = tuple(integer(value) for value in (digits, bias, (1 << digits) - 1, bias << digits))
    polynomials = (
        _polynomial(lambda x: np.log2(1.5 + x), -0.5, 0.5, 9 if single else 21),
        _polynomial(lambda u: np.pi * np.sinc(np.sqrt(u)), 0, 0.25, 4 if single else 8),
        _polynomial(lambda u: np.cos(np.pi * np.sqrt(u)), 0, 0.25, 5 if single else 9),
    )
    return bits, (*(tuple(scalar(c) for c in terms) for terms in polynomials), scalar(0.5))


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _product(matrix: Any, x: Any, y: Any) -> None:
    """Compute y = matrix @ x for x of shape (g, n): two rows by four columns at a time fill the vector registers."""
    m, g = matrix.shape
    n = x.shape[1]
    for k in range(0, m - 1, 2):
        y0, y1 = y[k], y[k + 1]
        a0, b0, x0 = matrix[k, 0], matrix[k + 1, 0], x[0]
        j = 1
        if g >= 4:
            a1, a2, a3 = matrix[k, 1], matrix[k, 2], matrix[k, 3]
            b1, b2, b3 = matrix[k + 1, 1], matrix[k + 1, 2], matrix[k + 1, 3]
            x1, x2, x3 = x[1], x[2], x[3]
            for i in range(n):
                u0, u1, u2, u3 = x0[i], x1[i], x2[i], x3[i]
                y0[i] = a0 * u0 + a1 * u1 + a2 * u2 + a3 * u3
                y1[i] = b0 * u0 + b1 * u1 + b2 * u2 + b3 * u3
            j = 4
        else:
            for i in range(n):
                y0[i] = a0 * x0[i]
                y1[i] = b0 * x0[i]
        while j + 4 <= g:
            a0, a1, a2, a3 = matrix[k, j], matrix[k, j + 1], matrix[k, j + 2], matrix[k, j + 3]
            b0, b1, b2, b3 = matrix[k + 1, j], matrix[k + 1, j + 1], matrix[k + 1, j + 2], matrix[k + 1, j + 3]
            x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
            for i in range(n):
                u0, u1, u2, u3 = x0[i], x1[i], x2[i], x3[i]
                y0[i] += a0 * u0 + a1 * u1 + a2 * u2 + a3 * u3
                y1[i] += b0 * u0 + b1 * u1 + b2 * u2 + b3 * u3
            j += 4
        while j < g:
            a0, b0, x0 = matrix[k, j], matrix[k + 1, j], x[j]
            for i in range(n):
                y0[i] += a0 * x0[i]
                y1[i] += b0 * x0[i]
            j += 1
    if m % 2:
        y0 = y[m - 1]
        a0, x0 = matrix[m - 1, 0], x[0]
        for i in range(n):
            y0[i] = a0 * x0[i]
        for j in range(1, g):
            a0, x0 = matrix[m - 1, j], x[j]
            for i in range(n):
                y0[i] += a0 * x0[i]


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _contract(x: Any, values: Any, shapes: Any, lanes: int, spare: Any) -> Any:
    """Apply one matrix along each axis of x, (g_1, ..., g_l, lanes) flat, the first axis first.

    Returns the buffer with the result: x after an even number of axes, else ``spare``.
    """
    at, before, after = 0, 1, lanes
    for j in range(shapes.shape[0]):
        after *= shapes[j, 1]
    source, target = x, spare
    for j in range(shapes.shape[0]):
        m, g = shapes[j]
        after //= g
        matrix = values[at : at + m * g].reshape(m, g)
        at += m * g
        for block in range(before):
            a = source[block * g * after : (block + 1) * g * after].reshape(g, after)
            _product(matrix, a, target[block * m * after : (block + 1) * m * after].reshape(m, after))
        before *= m
        source, target = target, source
    return source


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _around(x: Any, size: Any, top: Any, wraps: Any, half: Any) -> Any:
    """The cells whose midpoints surround x, and the share of the upper one.

    ``top`` is just below the last midpoint, so that its cell is the last but one; sizes have the type of x.
    """
    position = x * size - half
    zero, one = half - half, half + half
    if wraps:
        below = np.floor(position)
        above = below + one
        up = position - below
        if below < zero:
            below += size
        if above >= size:
            above -= size
        return np.uint64(np.int64(below)), np.uint64(np.int64(above)), up
    position = min(max(position, zero), top)
    cell = np.uint64(np.int32(position))  # unsigned: no index counts from the end
    return cell, cell + np.uint64(1), position - np.floor(position)


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _bin(
    points: Any, masses: Any, share: Any, sizes: Any, tops: Any, wraps: Any, half: Any, cells: Any, lane: Any
) -> None:
    """Add the points of one bag to its lane of the cells, (n_cells, lanes), each shared by the 2^l cells around it.

    ``masses`` is empty where all points have the same share. Scalars are read from their arrays before the loops: the
    compiler must believe that a write to the cells might change them.
    """
    n, n_dims, equal = points.shape[0], points.shape[1], masses.size == 0
    size_0, top_0, wraps_0 = sizes[0], tops[0], wraps[0]
    if n_dims == 1:
        for i in range(n):
            mass = share if equal else masses[i]
            low_0, high_0, up_0 = _around(points[i, 0], size_0, top_0, wraps_0, half)
            cells[low_0, lane] += mass - mass * up_0
            cells[high_0, lane] += mass * up_0
        return
    size_1, top_1, wraps_1, row_1 = sizes[1], tops[1], wraps[1], np.uint64(np.int64(sizes[1]))
    if n_dims == 2:
        for i in range(n):
            mass = share if equal else masses[i]
            low_0, high_0, up_0 = _around(points[i, 0], size_0, top_0, wraps_0, half)
            low_1, high_1, up_1 = _around(points[i, 1], size_1, top_1, wraps_1, half)
            upper = mass * up_0
            lower = mass - upper
            cells[low_0 * row_1 + low_1, lane] += lower - lower * up_1
            cells[low_0 * row_1 + high_1, lane] += lower * up_1
            cells[high_0 * row_1 + low_1, lane] += upper - upper * up_1
            cells[high_0 * row_1 + high_1, lane] += upper * up_1
        return
    size_2, top_2, wraps_2, row_2 = sizes[2], tops[2], wraps[2], np.uint64(np.int64(sizes[2]))
    for i in range(n):
        mass = share if equal else masses[i]
        low_0, high_0, up_0 = _around(points[i, 0], size_0, top_0, wraps_0, half)
        low_1, high_1, up_1 = _around(points[i, 1], size_1, top_1, wraps_1, half)
        low_2, high_2, up_2 = _around(points[i, 2], size_2, top_2, wraps_2, half)
        upper = mass * up_0
        lower = mass - upper
        for part, plane in ((lower, low_0 * row_1), (upper, high_0 * row_1)):
            far = part * up_1
            near = part - far
            cells[(plane + low_1) * row_2 + low_2, lane] += near - near * up_2
            cells[(plane + low_1) * row_2 + high_2, lane] += near * up_2
            cells[(plane + high_1) * row_2 + low_2, lane] += far - far * up_2
            cells[(plane + high_1) * row_2 + high_2, lane] += far * up_2


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
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


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _turn(
    log: Any, root: Any, turns: Any, weight: Any, half: Any, sines: Any, cosines: Any, real: Any, imaginary: Any
) -> None:
    """Real and imaginary part of √w p^(1/2 + iλ)."""
    one = half + half
    two = one + one
    for i in range(log.size):
        t = log[i] * turns
        t = t - np.floor(t + half)
        u = t * t
        sine, cosine = sines[len(sines) - 1], cosines[len(cosines) - 1]
        for k in range(len(sines) - 2, -1, -1):
            sine = sine * u + sines[k]
        for k in range(len(cosines) - 2, -1, -1):
            cosine = cosine * u + cosines[k]
        sine = sine * t  # of half the angle
        length = weight * root[i]
        imaginary[i] = two * sine * cosine * length
        real[i] = (one - two * sine * sine) * length


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _waves(
    angles: Any, per_angle: Any, scale: Any, half: Any, sines: Any, cosines: Any, sine: Any, cosine: Any
) -> None:
    """Sines and cosines of rows of angles, times the scale; ``per_angle`` turns angles into turns of the circle."""
    double = scale + scale
    for row in range(angles.shape[0]):
        a, s, c = angles[row], sine[row], cosine[row]
        for i in range(a.size):
            t = a[i] * per_angle
            t = t - np.floor(t + half)
            u = t * t
            x, y = sines[len(sines) - 1], cosines[len(cosines) - 1]
            for k in range(len(sines) - 2, -1, -1):
                x = x * u + sines[k]
            for k in range(len(cosines) - 2, -1, -1):
                y = y * u + cosines[k]
            x = x * t  # of half the angle
            s[i] = double * x * y
            c[i] = scale - double * x * x


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _store(coefficients: Any, columns: Any, out: Any, first: int, n_bags: int, start: int) -> None:
    """Coefficients (n, lanes) to their place in the rows of the result, eight rows at a time."""
    n_whole = n_bags - n_bags % 8
    for b in range(0, n_whole, 8):
        for k in range(columns.size):
            lanes = coefficients[columns[k], b : b + 8]
            for i in range(8):
                out[first + b + i, start + k] = lanes[i]
    for b in range(n_whole, n_bags):
        for k in range(columns.size):
            out[first + b, start + k] = coefficients[columns[k], b]


@njit(**_OPTIONS)  # type: ignore[untyped-decorator]
def _embed(
    points: Any, offsets: Any, masses: Any, sizes: Any, tops: Any, periodic: Any,
    smoothing: Any, smoothing_shapes: Any,
    turns: Any, roots: Any, bits: Any, terms: Any,
    projection: Any, projection_shapes: Any, columns: Any,
    out: Any, lanes: int, buffers: Any, words: Any,
) -> None:  # fmt: skip
    """All stages for all bags, ``lanes`` bags at a time."""
    logs, sines, cosines, half = terms
    a, b, c, log, root = buffers
    n_dims = sizes.size
    n_cells, n_nodes, n_tensor = 1, 1, 1
    for j in range(n_dims):
        n_cells *= smoothing_shapes[j, 1]
        n_nodes *= smoothing_shapes[j, 0]
        n_tensor *= projection_shapes[j, 0]
    n_lambdas, n_columns, n_bags = turns.size, columns.size, offsets.size - 1
    size = n_nodes * lanes
    n_zero = 0
    while n_zero < n_lambdas and turns[n_zero] == 0:
        n_zero += 1
    for first in range(0, n_bags, lanes):
        n_here = min(lanes, n_bags - first)
        cells = a[: n_cells * lanes].reshape(n_cells, lanes)
        for start in range(0, n_here, _GROUP):  # a few bags at a time, so that their cells stay in the nearest cache
            near = b[: n_cells * _GROUP].reshape(n_cells, _GROUP)
            near[:] = 0
            for k in range(min(_GROUP, n_here - start)):
                low, high = offsets[first + start + k], offsets[first + start + k + 1]
                x, own = points[low:high], masses[low:high] if masses.size else masses
                share = (half + half) / points.dtype.type(high - low)
                _bin(x, own, share, sizes, tops, periodic, half, near, np.uint64(k))
            for cell in range(n_cells):
                for k in range(_GROUP):
                    cells[cell, start + k] = near[cell, k]
        cells[:, -(-n_here // _GROUP) * _GROUP :] = 0  # lanes of no bag: numbers left there could be anything
        _contract(a, smoothing, smoothing_shapes, lanes, b)
        p, p_bits = (a, words[0]) if n_dims % 2 == 0 else (b, words[1])
        _logs_and_roots(p[:size], p_bits[:size], c[:size], words[2][:size], bits, logs, log[:size], root[:size])
        for j in range(n_lambdas):
            if j < n_zero:
                for i in range(size):
                    a[i] = roots[j] * root[i]
            else:
                _turn(log[:size], root[:size], turns[j], roots[j], half, sines, cosines, a[:size], c[:size])
            for part in range(1 if j < n_zero else 2):
                source = c if part else a
                found = _contract(source, projection, projection_shapes, lanes, b)
                place = (j + part * (n_lambdas - n_zero)) * n_columns
                _store(found[: n_tensor * lanes].reshape(n_tensor, lanes), columns, out, first, n_here, place)
