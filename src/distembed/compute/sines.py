r"""Sines and cosines of many angles at once.

NumPy's float32 sine is vectorised, at 2 ns a value, and in float32 no polynomial in NumPy is faster. Its float64 sine
takes 16 ns. There both come from one reduction and two polynomials instead, in 5 ns each. With r the angle in turns,
less the nearest integer, so that |r| <= 1/2 and half the angle is πr modulo π,

    sin = 2 sin(πr) cos(πr),    cos = 1 - 2 sin²(πr),

where sin(πr)/r and cos(πr) are polynomials of r² (Chebyshev interpolation, of which the error is below the rounding).
Errors are below 1e-14 for angles of a few turns and grow with |angle| as the rounding of the angle itself does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from .parallel import Scratch

Array = NDArray[Any]


def _in_squares(function: Any, n: int) -> Array:
    """Coefficients, from the constant up, of the polynomial of q = r² of n terms that is nearest to ``function(r)``."""
    fitted = Chebyshev.interpolate(lambda q: function(np.sqrt(q)), n - 1, domain=[0, 0.25])
    return np.asarray(fitted.convert(kind=Polynomial).coef)


_SINE = _in_squares(lambda r: np.pi * np.sinc(r), 10)  # sin(πr)/r
_COSINE = _in_squares(lambda r: np.cos(np.pi * r), 11)


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
    root = np.sqrt(2 * scale)
    half_sine, squares = _half_sine(angles, root, scratch)
    half_cosine = _evaluate(root * _COSINE, squares, angles)
    np.multiply(half_sine, half_cosine, out=sines)
    np.multiply(half_sine, half_sine, out=half_sine)
    np.subtract(scale, half_sine, out=cosines)


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
    half_sine, _ = _half_sine(angles, np.sqrt(2 * scale), scratch)
    np.multiply(half_sine, half_sine, out=half_sine)
    np.subtract(scale, half_sine, out=cosines)


def _half_sine(angles: Array, scale: float, scratch: Scratch) -> tuple[Array, Array]:
    """``scale`` sin(πr) and r², and r in place of the angles."""
    squares = scratch("squares", angles.shape, angles.dtype)
    angles *= 1 / (2 * np.pi)
    np.rint(angles, out=squares)
    angles -= squares
    np.multiply(angles, angles, out=squares)
    half_sine = _evaluate(scale * _SINE, squares, scratch("half sine", angles.shape, angles.dtype))
    half_sine *= angles
    return half_sine, squares


def _evaluate(coefficients: Array, x: Array, out: Array) -> Array:
    """The polynomial at x by Horner's rule, in ``out``."""
    np.multiply(x, coefficients[-1], out=out)
    for coefficient in coefficients[-2:0:-1]:
        out += coefficient
        out *= x
    out += coefficients[0]
    return out
