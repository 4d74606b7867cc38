"""Measures on lambda >= 0: their discretisation, Gauss quadrature, and how to find the measure of a given κ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, linalg

__all__ = ["cosine_transform", "gauss", "measure_from_kappa", "sech", "theta_rule"]

Array = NDArray[Any]
Kappa = Callable[[Array, Array], Array]
Density = Callable[[Array], Array]

_N_PANELS, _PER_PANEL = 120, 20  # of the composite Gauss-Legendre rule in theta that stands for a measure
_INVERSION_RANGE = 30.0  # log ratios beyond this carry rounding errors only (see measure_from_kappa)


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
    values, masses = values[keep], masses[keep]
    n = min(n, len(values))
    basis = np.empty((n, len(values)))
    diagonal, off = np.empty(n), np.empty(n)
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
