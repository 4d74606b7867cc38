r"""Lambda functions: densities p to the functions √w_j p^(1/2 + iλ_j), the ψ of the paper.

The paper's phase c_λ has modulus one and its "-1" cancels in differences: neither changes a distance, and both are left
out. ``0^(1/2 + iλ)`` is 0. A λ that is exactly zero (all of the Hellinger distance) has no imaginary part.

float64 takes one square root and one logarithm of each density and a sine and a cosine for each λ; float32 takes the
functions from a table, several times faster and accurate to about four digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._parallel import Scratch

__all__ = ["LambdaTable", "lambda_functions", "n_functions", "prepare"]

Array = NDArray[Any]

MAX_TABLED = 8.0  # larger lambdas turn too fast for the table: 2^-12 * 8 is 0.002

_CELL_SHIFT = 12  # bits of a float32 below the cell number
_FIRST_CELL = (127 - 40) << 11  # the cell of 2^-40
_LAST_CELL = (127 + 30) << 11


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
        A quadrature rule for the distance's measure.
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
    out = scratch("functions", (n_functions(lambdas), *p.shape), p.dtype)
    cast = p.dtype.type
    root = np.sqrt(p, out=scratch("root", p.shape, p.dtype))
    angle = scratch("angle", p.shape, p.dtype)
    log_p = scratch("log", p.shape, p.dtype)
    np.maximum(p, np.finfo(p.dtype).tiny, out=log_p)
    np.log(log_p, out=log_p)
    n_imag = len(lambdas)
    for j, (lam, scale) in enumerate(zip(lambdas, np.sqrt(weights), strict=True)):
        if lam == 0.0:
            np.multiply(root, cast(scale), out=out[j])
            continue
        np.multiply(log_p, cast(lam), out=angle)
        np.cos(angle, out=out[j])
        np.sin(angle, out=out[n_imag])
        np.multiply(root, cast(scale), out=angle)
        out[j] *= angle
        out[n_imag] *= angle
        n_imag += 1
    return out


class LambdaTable:
    """The same functions for float32 densities by table look-up.

    The leading 20 bits of a float32 (its exponent and 11 bits of mantissa) number the cells of a table that is spaced
    evenly in log p; a density takes the value of its cell's midpoint. The error is at most 2^-12 |1/2 + iλ| √(w p),
    1e-4 where most of the measure is: far below the statistical error of any p̂, and it averages out over the nodes.
    Lambdas above 8 turn too fast for that and are computed directly. Densities below 2^-40 count as zero.

    Parameters
    ----------
    lambdas, weights : ndarray of shape (n_lambdas,)
        A quadrature rule.

    Examples
    --------
    >>> lambdas, weights = np.array([0.26, 1.1]), np.array([0.33, 0.01])
    >>> p = np.linspace(0, 5, 1000, dtype=np.float32)
    >>> error = LambdaTable(lambdas, weights)(p) - lambda_functions(p, lambdas, weights)
    >>> bool(np.max(np.abs(error)) < 2e-4)
    True
    """

    def __init__(self, lambdas: Array, weights: Array) -> None:
        self.lambdas, self.weights = lambdas, weights
        tabled, turning = lambdas <= MAX_TABLED, lambdas != 0
        imaginary = len(lambdas) + np.cumsum(turning) - 1  # where the imaginary part of each lambda stands
        self._rows = np.append(np.flatnonzero(tabled), imaginary[tabled & turning])
        self._direct = np.flatnonzero(~tabled)
        self._direct_rows = np.append(self._direct, imaginary[self._direct])
        bits = (np.arange(_FIRST_CELL, _LAST_CELL + 1, dtype=np.int32) << _CELL_SHIFT) + (1 << (_CELL_SHIFT - 1))
        midpoints = bits.view(np.float32).astype(float)
        midpoints[0] = 0.0
        self._table = lambda_functions(midpoints, lambdas[tabled], weights[tabled]).astype(np.float32)

    def __call__(self, p: Array, scratch: Scratch | None = None) -> Array:
        """Values of the functions, as :func:`lambda_functions` returns them."""
        scratch = Scratch() if scratch is None else scratch
        out = scratch("functions", (n_functions(self.lambdas), *p.shape), np.float32)
        index = scratch("index", p.shape, np.intp)
        cells = np.right_shift(p.view(np.int32), _CELL_SHIFT, out=scratch("cells of p", p.shape, np.int32))
        np.subtract(cells, _FIRST_CELL, out=index)
        for row, values in zip(self._rows, self._table, strict=True):
            np.take(values, index, out=out[row], mode="clip")
        if len(self._direct):
            out[self._direct_rows] = lambda_functions(p, self.lambdas[self._direct], self.weights[self._direct])
        return out


def prepare(lambdas: Array, weights: Array, dtype: np.dtype[Any]) -> Callable[[Array, Scratch], Array]:
    """The function of (densities, scratch) that computes the lambda functions for this dtype.

    Examples
    --------
    >>> psi = prepare(np.array([0.0]), np.array([0.25]), np.dtype(np.float32))
    >>> psi(np.array([4.0], np.float32), Scratch()).round(3)
    array([[1.]], dtype=float32)
    """
    if dtype == np.float32:
        return _table(tuple(lambdas.tolist()), tuple(weights.tolist()))
    return lambda p, scratch: lambda_functions(p, lambdas, weights, scratch)


@lru_cache(maxsize=16)
def _table(lambdas: tuple[float, ...], weights: tuple[float, ...]) -> LambdaTable:
    """Made once for each rule: it takes some milliseconds."""
    return LambdaTable(np.array(lambdas), np.array(weights))
