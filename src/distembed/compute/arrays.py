r"""Arrays: memory that is used again, products of one small matrix per dimension, binning, blocks of points, sines.

Functions of many bags on a grid of shape (g_1, ..., g_l) are stored in arrays of shape
(g_1, ..., g_{l-1}, n_bags, g_l), the bags second to last. Then the product along the last axis and the product along
the first are each one large matrix product for all bags, where bags first would need a small product for every bag.

NumPy's float32 sine is vectorised, at 2 ns a value, and in float32 no polynomial in NumPy is faster. Its float64 sine
takes 16 ns. There both come from one reduction and two polynomials instead, in 5 ns each. With r the angle in turns,
less the nearest integer, so |r| <= 1/2 and half the angle is πr modulo π,

    sin = 2 sin(πr) cos(πr),    cos = 1 - 2 sin²(πr),

where sin(πr)/r and cos(πr) are polynomials of r² (Chebyshev interpolation, of which the error is below the rounding).
Errors are below 1e-14 for angles of a few turns and grow with |angle| as the rounding of the angle itself does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Array = NDArray[Any]

_SMALL = 2**16  # bytes: arrays below it come from NumPy
_SLAB = 2**23


class Scratch:
    """Memory for intermediate results that is used again for every chunk.

    Fresh arrays of a few hundred kilobytes come as untouched pages, and the system's work on those takes longer than
    the arithmetic. Here they are cut from slabs so large that NumPy asks for huge pages. One scratch serves one thread.

    Examples
    --------
    >>> scratch = Scratch()
    >>> a = scratch("angles", (2, 3), np.float32)
    >>> np.shares_memory(a, scratch("angles", (2, 2), np.float32)), np.shares_memory(a, scratch("x", (2,), np.float32))
    (True, False)
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, Any], NDArray[Any]] = {}
        self._slab = np.empty(0, np.uint8)
        self.n_bytes = 0

    def __call__(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array with undefined content, valid until the next call with the same name and dtype."""
        size = prod(shape)
        buffer = self._buffers.get((name, dtype))
        if buffer is None or buffer.size < size:
            buffer = self._buffers[(name, dtype)] = self._cut(size, np.dtype(dtype))
        return buffer[:size].reshape(shape)

    def _cut(self, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        n_bytes = -(-size * dtype.itemsize // 64) * 64  # whole lines of the cache
        if n_bytes < _SMALL:
            return np.empty(size, dtype)
        if n_bytes > self._slab.size:
            self._slab = np.empty(max(n_bytes, _SLAB), np.uint8)
            self.n_bytes += self._slab.size
        cut = self._slab[:n_bytes]
        self._slab = self._slab[n_bytes:]
        return cut.view(dtype)


def contract(array: Array, matrices: Sequence[Array], scratch: Scratch | None = None, name: str = "") -> Array:
    """Apply one matrix to each axis of a grid, for many bags at once.

    Parameters
    ----------
    array : ndarray of shape (..., g_1, ..., g_{l-1}, n_bags, g_l)
        Functions on a grid.
    matrices : sequence of l ndarrays of shape (m_j, g_j) or (n_bags, m_j, g_j)
        The latter form has its own matrix for each bag, and is slower.
    scratch : Scratch, optional
        Memory for the products.
    name : str
        Name of the products in the scratch.

    Returns
    -------
    ndarray of shape (..., m_1, ..., m_{l-1}, n_bags, m_l)

    Notes
    -----
    Costs 2 m_1 Π g_j operations a bag for the first axis, less for the others where m_j < g_j.

    Examples
    --------
    >>> contract(np.ones((2, 1, 3)), [np.ones((1, 2)), np.eye(3)])  # one bag on a 2 x 3 grid
    array([[[2., 2., 2.]]])
    """
    if matrices[0].ndim == 3:
        return _contract_each(array, matrices)
    scratch = Scratch() if scratch is None else scratch
    array = contract_leading(array, matrices[:-1], scratch, name)
    flat = array.reshape(-1, array.shape[-1])
    last = matrices[-1]
    product = np.matmul(flat, last.T, out=scratch(f"{name} last", (len(flat), len(last)), array.dtype))
    return product.reshape(*array.shape[:-1], len(last))


def contract_leading(array: Array, matrices: Sequence[Array], scratch: Scratch, name: str = "") -> Array:
    """The part of :func:`contract` for all axes but the last: from the first on, one product each.

    Parameters
    ----------
    array : ndarray of shape (..., g_1, ..., g_{l-1}, n_bags, g_l)
        Functions on a grid.
    matrices : sequence of l - 1 ndarrays of shape (m_j, g_j)
        May be empty.
    scratch, name
        As in :func:`contract`.

    Returns
    -------
    ndarray of shape (..., m_1, ..., m_{l-1}, n_bags, g_l)

    Examples
    --------
    >>> contract_leading(np.ones((2, 1, 3)), [np.ones((1, 2))], Scratch())
    array([[[2., 2., 2.]]])
    """
    for j, matrix in enumerate(matrices):
        axis = array.ndim - 2 - len(matrices) + j
        before = array.shape[:axis]
        size = array.shape[axis]
        after = array.shape[axis + 1 :]
        product = scratch(f"{name} {j}", (prod(before), len(matrix), prod(after)), array.dtype)
        np.matmul(matrix, array.reshape(prod(before), size, prod(after)), out=product)
        array = product.reshape(*before, len(matrix), *after)
    return array


def _contract_each(array: Array, matrices: Sequence[Array]) -> Array:
    """Contract with matrices of shape (n_bags, m_j, g_j), one for each bag."""
    array = np.einsum("...bg,bmg->...bm", array, matrices[-1], optimize=True)
    for back, matrix in enumerate(reversed(matrices[:-1]), start=3):
        axis = array.ndim - back
        before = array.shape[:axis]
        size = array.shape[axis]
        after = array.shape[axis + 1 :]
        moved = np.moveaxis(array, axis, -2).reshape(-1, after[-2], size, after[-1])
        product = np.einsum("kbgt,bmg->kbmt", moved, matrix, optimize=True)
        shaped = product.reshape(*before, *after[:-1], matrix.shape[-2], after[-1])
        array = np.ascontiguousarray(np.moveaxis(shaped, -2, axis))
    return array


def bags_first(array: Array) -> Array:
    """View of shape (n_bags, ..., g_1, ..., g_l) of functions stored with the bags second to last.

    Examples
    --------
    >>> bags_first(np.zeros((4, 7, 5))).shape  # seven bags on a 4 x 5 grid
    (7, 4, 5)
    """
    return np.moveaxis(array, -2, 0)


class LinearBinning:
    """Linear binning: each point shares its mass among the 2^l cells whose midpoints surround it.

    Parameters
    ----------
    shape : sequence of int
        Cells along each dimension, two at least.
    periodic : sequence of bool
        Whether a dimension wraps around; otherwise a point beyond the last midpoint belongs to the last cell.
    dtype : numpy dtype
        Of the points.

    Notes
    -----
    O(2^l n_points) additions and a pass over the cells. The bags are the rows of a sparse matrix with 2^l entries a
    point; to make it dense is to add up the entries of each cell. It works in few operations on long arrays: short ones
    would keep threads waiting for Python's lock.

    Examples
    --------
    >>> LinearBinning((4,), (False,), np.dtype(float))(np.array([[0.5], [0.125]]), np.array([0, 2])).round(9)
    array([[1. , 0.5, 0.5, 0. ]])
    """

    def __init__(self, shape: Sequence[int], periodic: Sequence[bool], dtype: np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.n_cells = prod(shape)
        self._sizes = np.array(shape, dtype)[:, None]
        self._strides = np.array([prod(shape[j + 1 :]) for j in range(len(shape))], np.int32)
        self._corners = list(product((0, 1), repeat=len(shape)))
        self._wraps = np.array(periodic)[:, None]
        last = np.nextafter(self._sizes - 1, 0 * self._sizes)  # just below: its cell is the last but one
        self._bottom = np.where(self._wraps, -self._sizes, 0 * self._sizes)
        self._top = np.where(self._wraps, 2 * self._sizes, last)

    def __call__(
        self, points: Array, offsets: Array, weights: Array | None = None, scratch: Scratch | None = None
    ) -> Array:
        """Masses of the cells.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_dims)
            In the unit cube.
        offsets : ndarray of shape (n_bags + 1,) of int
            Bag i owns the points from ``offsets[i]`` to ``offsets[i + 1]``; here a bag may have none.
        weights : ndarray of shape (n_points,), optional
            Mass of each point, one by default.
        scratch : Scratch, optional
            Memory for the result, which is then valid until the next call.

        Returns
        -------
        ndarray of shape (n_bags, *shape)
            Each bag's masses sum to the weights of its points. Grids of parts of a bag add up to the bag's.
        """
        scratch = Scratch() if scratch is None else scratch
        dtype = self.dtype
        n_points, n_dims = points.shape
        n_bags = len(offsets) - 1
        # Position in cells, counted from the first midpoint, and the cell below it.
        position = np.multiply(points.T, self._sizes, out=scratch("position", (n_dims, n_points), dtype))
        position -= dtype.type(0.5)
        np.clip(position, self._bottom, self._top, out=position)
        low = np.floor(position, out=scratch("low", (n_dims, n_points), dtype))
        shares = scratch("shares", (2, n_dims, n_points), dtype)
        np.subtract(position, low, out=shares[1])
        np.subtract(dtype.type(1), shares[1], out=shares[0])
        steps = self._steps(low)
        cells = scratch("cells", (n_points, len(self._corners)), np.int32)
        masses = scratch("masses", (n_points, len(self._corners)), dtype)
        np.copyto(cells[:, 0], self._number(low), casting="unsafe")
        for k, corner in enumerate(self._corners):
            if k:
                np.add(cells[:, 0], sum(step for step, up in zip(steps, corner, strict=True) if up), out=cells[:, k])
            factors = [shares[up, j] for j, up in enumerate(corner)] + ([] if weights is None else [weights])
            np.multiply(factors[0], factors[1] if len(factors) > 1 else dtype.type(1), out=masses[:, k])
            for factor in factors[2:]:
                masses[:, k] *= factor
        entries = (masses.reshape(-1), cells.reshape(-1), (len(self._corners) * offsets).astype(np.int32))
        matrix = csr_matrix(entries, shape=(n_bags, self.n_cells), copy=False)
        dense = matrix.toarray(out=scratch("counts", (n_bags, self.n_cells), dtype))
        return np.asarray(dense).reshape(n_bags, *self.shape)

    def _steps(self, low: Array) -> Any:
        """From a cell's number to its upper neighbour's, along each dimension; wraps ``low`` where it must."""
        if not self._wraps.any():
            return self._strides
        # The cells -1 and size are the last and the first; from the last one the way up leads to the first.
        low %= self._sizes
        strides = self._strides[:, None]
        around = self._wraps & (low == self._sizes - 1)
        return np.where(around, (1 - self._sizes) * strides, strides).astype(np.int32)

    def _number(self, low: Array) -> Array:
        """Number of the lowest cell of each point, added up in floating point, which must hold it exactly."""
        number: Array = low[-1] if self.n_cells < 2**24 else low[-1].astype(float)
        for lower, stride in zip(low[:-1], self._strides[:-1], strict=True):
            lower *= self.dtype.type(stride)
            number += lower
        return number


def polynomial(function: Any, n: int, domain: tuple[float, float] = (0, 0.25)) -> Array:
    """Coefficients, from the constant up, of nearly the best polynomial of n terms on an interval.

    Examples
    --------
    >>> polynomial(lambda x: 1 + x**2, 3).round(12) + 0.0
    array([1., 0., 1.])
    """
    return np.asarray(Chebyshev.interpolate(function, n - 1, domain=domain).convert(kind=Polynomial).coef)


_SINE = polynomial(lambda q: np.pi * np.sinc(np.sqrt(q)), 10)  # sin(πr)/r, of q = r²
_QUARTER_SINE = polynomial(lambda q: np.pi * np.sinc(np.sqrt(q) / 2), 7)  # 2 sin(πr/2)/r


def write_sines_and_cosines(angles: Array, sines: Array, cosines: Array, scale: float, scratch: Scratch) -> None:
    """Write ``scale`` sin(angles) to ``sines`` and ``scale`` cos(angles) to ``cosines``; ``angles`` may be overwritten.

    Examples
    --------
    >>> angles, sines, cosines = np.array([[0.0, np.pi / 6, 100.0]]), np.empty((1, 3)), np.empty((1, 3))
    >>> write_sines_and_cosines(angles.copy(), sines, cosines, 2.0, Scratch())
    >>> np.allclose(sines, 2 * np.sin(angles), rtol=1e-13), np.allclose(cosines, 2 * np.cos(angles), rtol=1e-13)
    (True, True)
    """
    if angles.dtype != np.float64:
        # Not into the output at once: its memory is fresh, and wide rows; it is written once, by the cheap operation.
        found = np.sin(angles, out=scratch("half sine", angles.shape, angles.dtype))
        np.multiply(found, scale, out=sines)
        np.cos(angles, out=angles)
        np.multiply(angles, scale, out=cosines)
        return
    # One polynomial, for s = 2k sin(πr/2). The cosine of a quarter of the angle is at least √½, so that a root finds it
    # with all digits: 2k cos(πr/2) = √(4k² - s²). Doubled, with k² = √(scale / 2): 2k² sin(πr), 2k² cos(πr); and again.
    k2 = np.sqrt(scale / 2)
    squares = _reduce(angles, scratch)
    sine = _evaluate(np.sqrt(k2) * _QUARTER_SINE, squares, scratch("half sine", angles.shape, angles.dtype))
    sine *= angles
    np.multiply(sine, sine, out=squares)
    np.sqrt(np.subtract(4 * k2, squares, out=angles), out=angles)
    sine *= angles
    np.subtract(2 * k2, squares, out=squares)
    np.multiply(sine, squares, out=sines)
    np.multiply(sine, sine, out=sine)
    np.subtract(scale, sine, out=cosines)


def write_cosines(angles: Array, cosines: Array, scale: float, scratch: Scratch) -> None:
    """Write ``scale`` cos(angles) to ``cosines``, which may be ``angles``; those may be overwritten.

    Examples
    --------
    >>> angles = np.array([[0.0, np.pi / 3]])
    >>> write_cosines(angles, angles, 2.0, Scratch())
    >>> angles.round(12)
    array([[2., 1.]])
    """
    if angles.dtype != np.float64:
        np.cos(angles, out=angles)
        np.multiply(angles, scale, out=cosines)
        return
    squares = _reduce(angles, scratch)
    half_sine = _evaluate(np.sqrt(2 * scale) * _SINE, squares, scratch("half sine", angles.shape, angles.dtype))
    half_sine *= angles
    np.multiply(half_sine, half_sine, out=half_sine)
    np.subtract(scale, half_sine, out=cosines)


def _reduce(angles: Array, scratch: Scratch) -> Array:
    """Put r, turns of the circle without the whole ones, in place of the angles; returns r²."""
    squares = scratch("squares", angles.shape, angles.dtype)
    angles *= 1 / (2 * np.pi)
    np.rint(angles, out=squares)
    angles -= squares
    np.multiply(angles, angles, out=squares)
    return squares


def _evaluate(coefficients: Array, x: Array, out: Array) -> Array:
    """The polynomial at x by Horner's rule, in ``out``."""
    np.multiply(x, coefficients[-1], out=out)
    for coefficient in coefficients[-2:0:-1]:
        out += coefficient
        out *= x
    out += coefficients[0]
    return out


def outside(x: Array, low: Any, high: Any) -> Array:
    """Where ``x`` lies outside [low, high], compared in the precision of ``x``.

    So a float32 0.1, which is above the float64 0.1, is not outside the bounds (0, 0.1).
    """
    with np.errstate(over="ignore"):  # a bound beyond float32 becomes infinite, and nothing lies beyond it
        low, high = (np.asarray(end).astype(x.dtype) for end in (low, high))
    return np.asarray((x < low) | (x > high))


def blocks(points: Array) -> Iterator[tuple[slice, Array]]:
    """Rows of ``points`` (n_points, n_dims), and a copy of them with the coordinates first, block by block.

    Arithmetic with one number per column runs over rows of length n_dims in NumPy, ten times slower than over
    long rows when n_dims is 2; a transposed block that fits in cache costs next to nothing.
    """
    step = max(1024, 2**15 // points.shape[1])
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        yield rows, points[rows].T.copy()


def map_blocks(function: Callable[[Array], Array], points: Array) -> Array:
    """Apply a map of float64 arrays (n_dims, n) to points (n_points, n_dims) of any dtype, which is kept."""
    result = np.empty_like(points)
    for rows, x in blocks(points):
        result[rows] = function(x.astype(np.float64, copy=False)).T
    return result


def outside_rows(points: Array, low: Array, high: Array) -> Array:
    """Which points (n_points,) have a coordinate outside the box."""
    result = np.empty(len(points), dtype=np.bool_)
    for rows, x in blocks(points):
        outside(x, low[:, None], high[:, None]).any(axis=0, out=result[rows])
    return result


def column_range(points: Array) -> tuple[Array, Array]:
    """Smallest and largest value of each coordinate, both (n_dims,)."""
    ends = [(x.min(axis=1), x.max(axis=1)) for _, x in blocks(points)]
    low, high = (np.stack(end).astype(np.float64) for end in zip(*ends, strict=True))
    return low.min(axis=0), high.max(axis=0)


def to_unit(x: Array, low: Array | float, high: Array | float) -> Array:
    """Affine map of [low, high] to [0, 1], in place, never outside despite rounding."""
    x -= low
    x /= high - low
    return np.clip(x, 0.0, 1.0, out=x)


def from_unit(u: Array, low: Array | float, high: Array | float) -> Array:
    """Affine map of [0, 1] to [low, high], in place, never outside despite rounding."""
    u *= high - low
    u += low
    return np.clip(u, low, high, out=u)


def widen_bounds(low: Array, high: Array, margin: Array | float) -> tuple[Array, Array]:
    """Bounds (n_dims,) moved outwards by ``margin`` spans, or by 1/2 where the span is zero.

    Where 1/2 is lost in the rounding of a huge value they move by 2^-30 of it. The result may be infinite.
    """
    with np.errstate(over="ignore"):
        span = high - low
        step = np.where(span > 0, margin * span, np.maximum(0.5, 2.0**-30 * np.abs(low)))
        return low - step, high + step
