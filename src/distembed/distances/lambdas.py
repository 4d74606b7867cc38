r"""Lambdas: measures on λ >= 0, their quadrature, and the functions √w_j p^(1/2 + iλ_j) of a density p, the paper's ψ.

The paper's phase c_λ has modulus one and its "-1" cancels in differences: neither changes a distance, and both are left
out. ``0^(1/2 + iλ)`` is 0. A λ that is exactly zero (all of the Hellinger distance) has no imaginary part.

Cost: one square root and one logarithm of each density, and a sine and a cosine for each λ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import integrate, interpolate, linalg

from ..compute.arrays import Array, Scratch, write_sines_and_cosines

Kappa = Callable[[Array, Array], Array]
Density = Callable[[Array], Array]

# of the composite Gauss-Legendre rule in theta that stands for a measure
_N_PANELS = 120
_PER_PANEL = 20
_INVERSION_RANGE = 30.0  # log ratios beyond this carry rounding errors only (see measure_from_kappa)
_TINY = 1e-30  # changes no density that float32 can tell from zero next to one of order one


# --------------------------------------------------------------------------------------------------------------
# Measures
# --------------------------------------------------------------------------------------------------------------


def sech(x: Array) -> Array:
    """1 / cosh(x), without overflow."""
    decay = np.exp(-np.abs(x))
    return np.asarray(2.0 * decay / (1.0 + decay * decay))


def theta_rule(density: Density) -> tuple[Array, Array]:
    """Fine discretisation (λ_i, w_i) of a measure, by composite Gauss-Legendre in θ = arctan(2λ)."""
    x, w = np.polynomial.legendre.leggauss(_PER_PANEL)
    width = np.pi / 2 / _N_PANELS
    theta = ((np.arange(_N_PANELS)[:, None] + 0.5 * (x + 1)) * width).ravel()
    lam = np.tan(theta) / 2
    # dλ = (1 + 4λ²)/2 dθ
    return lam, np.tile(w * width / 2, _N_PANELS) * density(lam) * (1 + 4 * lam * lam) / 2


def gauss(values: Array, masses: Array, n: int) -> tuple[Array, Array]:
    """Gauss quadrature with n nodes for a discrete measure: Lanczos, then Golub and Welsch (1969)."""
    keep = masses > 1e-30 * masses.sum()
    values = values[keep]
    masses = masses[keep]
    n = min(n, len(values))
    basis = np.empty((n, len(values)))
    diagonal = np.empty(n)
    off = np.empty(n)
    vector = np.sqrt(masses / masses.sum())
    for k in range(n):
        basis[k] = vector
        vector = values * vector
        diagonal[k] = basis[k] @ vector
        for _ in range(2):  # full reorthogonalisation, twice is enough
            vector = vector - basis[: k + 1].T @ (basis[: k + 1] @ vector)
        off[k] = np.linalg.norm(vector)
        vector = vector / off[k] if off[k] > 0 else vector
    nodes, vectors = linalg.eigh_tridiagonal(diagonal, off[: n - 1])
    return nodes, masses.sum() * vectors[0] ** 2


def cumulative(density: Density | None, atom: float) -> tuple[Array, Array]:
    """A fine grid of θ = arctan(2λ), and the shares of a measure and its atom at zero that lie below."""
    theta = np.linspace(0, np.pi / 2, 20_001)
    rate = np.zeros_like(theta)
    if density is not None:
        lam = np.tan(theta[:-1]) / 2
        rate[:-1] = density(lam) * (1 + 4 * lam * lam) / 2
        rate[-1] = rate[-2]
    steps = (rate[1:] + rate[:-1]) / 2
    total = np.append(atom, atom + np.cumsum(steps) * (theta[1] - theta[0]))
    return theta, total / total[-1]


def transform_of_measure(density: Density | None, atom: float) -> interpolate.CubicSpline:
    """∫ cos(λu) dμ for u from 0 to 80, of a density and an atom at zero."""
    if density is None:
        return interpolate.CubicSpline([0.0, 80.0], [atom, atom])
    u = np.concatenate([np.geomspace(1e-3, 1.0, 80), np.linspace(1.0, 80.0, 240)[1:]])

    def at(lam: float) -> float:
        return float(density(np.array([lam]))[0])

    values = [integrate.quad(at, 0, np.inf, weight="cos", wvar=v, limlst=200)[0] for v in u]
    at_zero = float(theta_rule(density)[1].sum())
    return interpolate.CubicSpline(np.append(0.0, u), np.append(at_zero, values) + atom)


def cosine_transform(kappa: Kappa, mass: float, u: Array) -> Array:
    """∫ cos(λu) dμ = Z cosh(u/2) - κ(e^(u/2), e^(-u/2)) / 2, written so that it cancels least."""
    u = np.abs(u)
    ratio = np.exp(-u)
    return np.asarray(np.exp(u / 2) * (mass * (1 + ratio) - kappa(np.ones_like(u), ratio)) / 2)


def measure_from_kappa(kappa: Kappa, mass: float) -> tuple[Density, float]:
    """Density and atom at zero of the measure of κ, by inverting its cosine transform.

    The transform loses e^(u/2) units of rounding to cancellation, so it is used up to u = 30 only (about 1e-9 there).
    """
    edge = np.array([_INVERSION_RANGE - 1, _INVERSION_RANGE])
    tail = cosine_transform(kappa, mass, edge)
    atom = float(tail[1])
    if abs(tail[1] - tail[0]) > 1e-4 * mass:
        raise ValueError(
            "kappa: its cosine transform does not settle for large log(x / y), so its measure can't be found "
            f"numerically (values {tail[0]:.3g}, {tail[1]:.3g}); give the measure itself"
        )
    atom = 0.0 if abs(atom) < 1e-5 * mass else atom
    # Panels that shrink towards u = 0 resolve a kink there (total variation has one).
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 40), np.linspace(1.0, _INVERSION_RANGE, 400)[1:]])
    widths = np.diff(edges)[:, None]
    u = (edges[:-1, None] + widths * (x + 1) / 2).ravel()
    weighted = (widths * w / 2).ravel() * (cosine_transform(kappa, mass, u) - atom)

    def density_at(lam: Array) -> Array:
        return np.asarray((2 / np.pi) * (np.cos(np.multiply.outer(lam, u)) @ weighted))

    top = 40.0
    knots = np.concatenate([np.linspace(0, 4, 161), np.geomspace(4, top, 161)[1:]])
    table = density_at(knots)
    noise = 1e-6 * max(np.max(np.abs(table)), mass)
    if np.any(table < -100 * noise):
        worst = knots[np.argmin(table)]
        raise ValueError(
            f"kappa: its measure is negative (near lambda = {worst:.3g}), so it is not a squared Hilbertian metric "
            "and has no embedding; choose another kappa"
        )
    # A light tail ends where it sinks into the noise of the inversion; a heavy one goes on as a power law.
    heavy = bool(table[-1] > noise and table[-20] > table[-1])
    if not heavy:
        table = np.where(np.logical_and.accumulate(table > noise), table, 0.0)
    spline = interpolate.PchipInterpolator(knots, np.maximum(table, 0.0))
    end = table[-1]
    power = np.log(table[-20] / end) / np.log(knots[-1] / knots[-20]) if heavy else 0.0

    def density(lam: Array) -> Array:
        lam = np.asarray(lam, float)
        inside = np.maximum(spline(np.minimum(lam, top)), 0.0)
        beyond = end * (top / np.maximum(lam, top)) ** power if heavy else 0.0
        return np.where(lam <= top, inside, beyond)

    return density, atom


# --------------------------------------------------------------------------------------------------------------
# Functions of a density
# --------------------------------------------------------------------------------------------------------------


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
    real = out[len(lambdas) - len(turning) : len(lambdas)]
    imaginary = out[len(lambdas) :]
    log_p = np.add(p, cast(_TINY), out=scratch("log", p.shape, p.dtype))  # 0 log 0 must not be NaN
    np.log(log_p, out=log_p)
    column = (-1,) + (1,) * p.ndim
    angle = scratch("angle", (len(turning), *p.shape), p.dtype)
    np.multiply(log_p, lambdas[turning].astype(p.dtype).reshape(column), out=angle)
    write_sines_and_cosines(angle, imaginary, real, 1.0, scratch)
    np.multiply(root, np.sqrt(weights[turning]).astype(p.dtype).reshape(column), out=angle)
    real *= angle
    imaginary *= angle
    return out
