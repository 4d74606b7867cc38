r"""Lambda functions: densities p to the functions √w_j p^(1/2 + iλ_j), the ψ of the paper.

The paper's phase c_λ has modulus one and its "-1" cancels in differences: neither changes a distance, and both are left
out. ``0^(1/2 + iλ)`` is 0. A λ that is exactly zero (all of the Hellinger distance) has no imaginary part.

Cost: one square root and one logarithm of each density, and a sine and a cosine for each λ. For float32 a small table
takes a third less time, and changes A features by some 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import Scratch
from ..compute.sines import write_waves

__all__ = ["LambdaTable", "lambda_functions", "n_functions", "prepare"]

Array = NDArray[Any]


MAX_TABLED = 8.0  # larger lambdas turn too fast for the table

_CELL_BITS = 10  # of the mantissa of a float32, so that the table of one function (188 kB) stays in the cache
_LOWEST, _HIGHEST = -26, 20  # exponents of the densities in the table; what is below counts as zero
_TINY = 1e-30  # changes no density that float32 can tell from zero next to one of order one


def n_functions(lambdas: Array) -> int:
    """Number of real functions: 2 a lambda, 1 for a lambda of zero.

    Examples
    --------
    >>> n_functions(np.array([0.0, 0.5]))
    3
    """
    return len(lambdas) + int(np.count_nonzero(lambdas))


def lambda_functions(p: Array, lambdas: Array, weights: Array, scratch: Scratch | None = None) -> Array:
    r"""Values of √w_j p^(1/2 + iλ_j), real parts first, then the imaginary parts.

    Parameters
    ----------
    p : ndarray of shape (...)
        Density values, nonnegative.
    lambdas, weights : ndarray of shape (n_lambdas,)
        A quadrature rule for the distance's measure, with nondecreasing lambdas.
    scratch : Scratch, optional
        Memory for the result, which is then valid until the next call.

    Returns
    -------
    ndarray of shape (n_functions, ...)

    Examples
    --------
    >>> lambda_functions(np.array([0.0, 1.0, 4.0]), np.array([0.0]), np.array([0.25]))
    array([[0. , 0.5, 1. ]])
    """
    scratch = Scratch() if scratch is None else scratch
    cast = p.dtype.type
    turning = np.flatnonzero(lambdas)
    out = scratch("functions", (len(lambdas) + len(turning), *p.shape), p.dtype)
    root = np.sqrt(p, out=scratch("root", p.shape, p.dtype))
    for j in np.flatnonzero(lambdas == 0):
        np.multiply(root, cast(np.sqrt(weights[j])), out=out[j])
    if len(turning) == 0:
        return out
    # All lambdas at once; those of zero, if any, stand first (rules are sorted).
    real, imaginary = out[len(lambdas) - len(turning) : len(lambdas)], out[len(lambdas) :]
    log_p = np.add(p, cast(_TINY), out=scratch("log", p.shape, p.dtype))  # 0 log 0 must not be NaN
    np.log(log_p, out=log_p)
    column = (-1,) + (1,) * p.ndim
    angle = scratch("angle", (len(turning), *p.shape), p.dtype)
    np.multiply(log_p, lambdas[turning].astype(p.dtype).reshape(column), out=angle)
    write_waves(angle, imaginary, real, 1.0, scratch)
    np.multiply(root, np.sqrt(weights[turning]).astype(p.dtype).reshape(column), out=angle)
    real *= angle
    imaginary *= angle
    return out


class LambdaTable:
    """The same functions for float32 densities, by table look-up.

    The exponent and the first ten bits of the mantissa of a float32 number the cells of a table, which are evenly
    spaced in log p but for a factor of two; a density takes the value of its cell's midpoint. The error is at most
    2^-11 |1/2 + iλ| √(w p), 3e-4 √(w p) where most of the measure of js is, and averages out over the nodes. Lambdas
    above 8 are computed directly. Densities below 2^-26 count as zero.

    Parameters
    ----------
    lambdas, weights : ndarray of shape (n_lambdas,)
        A quadrature rule, with nondecreasing lambdas.

    Examples
    --------
    >>> lambdas, weights = np.array([0.26, 1.1]), np.array([0.33, 0.01])
    >>> p = np.linspace(0, 5, 1000, dtype=np.float32)
    >>> error = LambdaTable(lambdas, weights)(p, Scratch()) - lambda_functions(p, lambdas, weights)
    >>> bool(np.max(np.abs(error)) < 1e-3)
    True
    """

    def __init__(self, lambdas: Array, weights: Array) -> None:
        self.lambdas, self.weights = lambdas, weights
        tabled, turning = lambdas <= MAX_TABLED, lambdas != 0
        imaginary = len(lambdas) + np.cumsum(turning) - 1  # where the imaginary part of each lambda stands
        self._rows = np.append(np.flatnonzero(tabled), imaginary[tabled & turning])
        self._direct = np.flatnonzero(~tabled)
        self._direct_rows = np.append(self._direct, imaginary[self._direct])
        self._shift = 23 - _CELL_BITS
        self._first = (127 + _LOWEST) << _CELL_BITS
        cells = np.arange(self._first, ((127 + _HIGHEST) << _CELL_BITS) + 1, dtype=np.int32)
        midpoints = ((cells << self._shift) + (1 << (self._shift - 1))).view(np.float32).astype(float)
        midpoints[0] = 0.0
        self._table = lambda_functions(midpoints, lambdas[tabled], weights[tabled]).astype(np.float32)

    def __call__(self, p: Array, scratch: Scratch) -> Array:
        """Values of the functions, as :func:`lambda_functions` returns them."""
        out = scratch("functions", (n_functions(self.lambdas), *p.shape), np.float32)
        index = scratch("index", p.shape, np.intp)
        cells = np.right_shift(p.view(np.int32), self._shift, out=scratch("cells of p", p.shape, np.int32))
        np.subtract(cells, self._first, out=index)
        for row, values in zip(self._rows, self._table, strict=True):
            np.take(values, index, out=out[row], mode="clip")
        if len(self._direct):
            out[self._direct_rows] = lambda_functions(p, self.lambdas[self._direct], self.weights[self._direct])
        return out


def prepare(lambdas: Array, weights: Array, dtype: np.dtype[Any]) -> Callable[[Array, Scratch], Array]:
    """The function of (densities, scratch) that computes the lambda functions for this dtype.

    Examples
    --------
    >>> psi = prepare(np.array([0.0]), np.array([0.25]), np.dtype(float))
    >>> psi(np.array([4.0]), Scratch())
    array([[1.]])
    """
    if dtype == np.float32:
        return _table(tuple(lambdas.tolist()), tuple(weights.tolist()))
    return lambda p, scratch: lambda_functions(p, lambdas, weights, scratch)


@lru_cache(maxsize=16)
def _table(lambdas: tuple[float, ...], weights: tuple[float, ...]) -> LambdaTable:
    """Made once for each rule: it takes some milliseconds."""
    return LambdaTable(np.array(lambdas), np.array(weights))
