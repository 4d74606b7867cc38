"""How code is compiled by numba, and sines and cosines in it; needs the extra ``distembed[fast]``."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from .arrays import Array, polynomial

# No NaN or infinity comes in, and contraction to fused multiply-add is welcome; sums keep their order.
OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "nsz", "arcp", "nnan", "ninf"},
    "nogil": True,
    "error_model": "numpy",
    "cache": True,
}


def write_sines_and_cosines(angles: Array, out: Array, scale: Any) -> None:
    """Write ``scale`` sin(angles) to the left half of ``out`` and ``scale`` cos(angles) to the right half.

    What the function of the same name in :mod:`distembed.compute.arrays` does, in one pass over the memory. Angles are
    of shape (n, m), ``out`` is of shape (n, 2m), both C-contiguous.

    Examples
    --------
    >>> angles, out = np.array([[0.0, 100.0]]), np.empty((1, 4))
    >>> write_sines_and_cosines(angles, out, 2.0)
    >>> np.allclose(out, 2 * np.hstack([np.sin(angles), np.cos(angles)]), atol=1e-13)
    True
    """
    scalar = angles.dtype.type
    if angles.ndim != 2 or out.shape != (len(angles), 2 * angles.shape[1]):
        raise ValueError(f"write_sines_and_cosines: out must have twice the columns of {angles.shape}, got {out.shape}")
    _, (_, sine_terms, cosine_terms, half) = constants(angles.dtype == np.float32)
    _sines_and_cosines(angles, scalar(1 / (2 * np.pi)), scalar(scale), half, sine_terms, cosine_terms, out)


@cache
def constants(single: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """How the bits of a number are laid out, and the polynomials of log2(1.5 + x), sin(πt)/t and cos(πt) in t²."""
    digits, bias, integer, scalar = (23, 127, np.int32, np.float32) if single else (52, 1023, np.int64, np.float64)
    bits = tuple(integer(value) for value in (digits, bias, (1 << digits) - 1, bias << digits))
    polynomials = (
        polynomial(lambda x: np.log2(1.5 + x), 10 if single else 22, (-0.5, 0.5)),
        polynomial(lambda u: np.pi * np.sinc(np.sqrt(u)), 5 if single else 9),
        polynomial(lambda u: np.cos(np.pi * np.sqrt(u)), 6 if single else 10),
    )
    return bits, (*(tuple(scalar(c) for c in terms) for terms in polynomials), scalar(0.5))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def half_angle(turns: Any, half: Any, sines: Any, cosines: Any) -> Any:
    """Sine and cosine of half the angle, given in turns of the circle."""
    t = turns - np.floor(turns + half)
    u = t * t
    sine = sines[len(sines) - 1]
    cosine = cosines[len(cosines) - 1]
    for k in range(len(sines) - 2, -1, -1):
        sine = sine * u + sines[k]
    for k in range(len(cosines) - 2, -1, -1):
        cosine = cosine * u + cosines[k]
    return sine * t, cosine


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _sines_and_cosines(angles: Any, per_angle: Any, scale: Any, half: Any, sines: Any, cosines: Any, out: Any) -> None:
    """Sines and cosines of rows of angles, times the scale; ``per_angle`` turns angles into turns of the circle."""
    double = scale + scale
    n = angles.shape[1]
    for row in range(angles.shape[0]):
        a = angles[row]
        s = out[row, :n]
        c = out[row, n:]
        for i in range(n):
            x, y = half_angle(a[i] * per_angle, half, sines, cosines)
            s[i] = double * x * y
            c[i] = scale - double * x * x
