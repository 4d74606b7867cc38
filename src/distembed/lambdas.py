r"""Lambda functions: densities p to the functions √w_j p^(1/2 + iλ_j), the ψ of the paper.

The paper's phase c_λ has modulus one and its "-1" cancels in differences: neither changes a distance, and both are left
out. ``0^(1/2 + iλ)`` is 0. A λ that is exactly zero (all of the Hellinger distance) has no imaginary part.

Cost: one square root and one logarithm of each density, and a sine and a cosine for each λ. A table of the functions
instead was measured to be slower: its lines are not in the cache when the next density needs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._parallel import Scratch

__all__ = ["lambda_functions", "n_functions"]

Array = NDArray[Any]


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
    np.cos(angle, out=real)
    np.sin(angle, out=imaginary)
    np.multiply(root, np.sqrt(weights[turning]).astype(p.dtype).reshape(column), out=angle)
    real *= angle
    imaginary *= angle
    return out
