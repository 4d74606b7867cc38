"""Squared L2 distances of densities, their projection coefficients, and means of basis functions over points.

``L2²(p, q) = ∫ (p(x) - q(x))² dx = Σ_α (a_α(p) - a_α(q))²`` for the coefficients ``a_α(p) = ∫ φ_α p`` on a whole
orthonormal basis (Parseval); ``a_α(p)`` is also the expectation of φ_α under p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .pipeline import basis_functions, box_quadrature

__all__ = ["l2_coefficients", "l2_gaussians", "l2_point_coefficients", "l2_point_variance", "l2_squared"]

Array: TypeAlias = NDArray[np.float64]
Density: TypeAlias = Callable[[Array], ArrayLike]


def l2_squared(
    p: Density, q: Density, n_dims: int = 1, bounds: Sequence[Any] = (0, 1), n_nodes: int | None = None
) -> float:
    """``∫ (p - q)²`` of two density functions over a box, by the quadrature of :func:`box_quadrature`.

    `p` and `q` take an array (n_e, d) and return (n_e,).

    Examples
    --------
    >>> round(l2_squared(lambda x: 2 * x[:, 0], lambda x: np.ones(len(x))), 9)  # 1/3
    0.333333333
    """
    nodes, weights = box_quadrature(n_dims, bounds, n_nodes)
    return float(weights @ (np.asarray(p(nodes)) - np.asarray(q(nodes))) ** 2)


def l2_gaussians(mean_p: float, std_p: float, mean_q: float, std_q: float) -> float:
    """``∫ (p - q)²`` over the line of two normal densities: ``∫ N(a, s²) N(b, t²) = N(a - b; 0, s² + t²)``.

    Examples
    --------
    >>> round(l2_gaussians(0, 1, 1, 1), 9), round(l2_gaussians(0, 1, 0, 2), 9)
    (0.124798294, 0.066317364)
    """

    def overlap(shift: float, variance: float) -> float:
        return float(np.exp(-(shift**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))

    return overlap(0, 2 * std_p**2) + overlap(0, 2 * std_q**2) - 2 * overlap(mean_p - mean_q, std_p**2 + std_q**2)


def l2_coefficients(p: Density, indices: ArrayLike, kind: str = "cosine", n_nodes: int | None = None) -> Array:
    """Coefficients ``a_α(p) = ∫ φ_α p`` over the unit cube for the rows α of `indices` (|V|, d): (|V|,).

    Examples
    --------
    >>> l2_coefficients(lambda x: 2 * x[:, 0], [[0], [1], [2]]).round(6) + 0.0  # 1, -4 √2 / π², 0
    array([ 1.      , -0.573159,  0.      ])
    """
    alphas = np.asarray(indices)
    nodes, weights = box_quadrature(alphas.shape[1], n_nodes=n_nodes)
    values = np.asarray(p(nodes))
    return np.array([np.sum(weights * _product(nodes, alpha, kind) * values) for alpha in alphas])


def l2_point_coefficients(
    points: ArrayLike, indices: ArrayLike, kind: str = "cosine", weights: ArrayLike | None = None
) -> Array:
    """Means ``Σ_i w_i Π_j φ_{α_j}(x_ij)`` over points (n, d) for the rows α of `indices` (|V|, d): (|V|,).

    `weights` (n,) are made to sum to one.

    Examples
    --------
    >>> l2_point_coefficients([[0.0, 0.5], [1.0, 0.0]], [[0, 0], [0, 1], [1, 1]]).round(6)
    array([ 1.      ,  0.707107, -1.      ])
    """
    x = np.asarray(points, dtype=np.float64)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    return np.array([np.sum(w * _product(x, alpha, kind)) / np.sum(w) for alpha in np.asarray(indices)])


def l2_point_variance(p: Density, indices: ArrayLike, kind: str = "cosine", n_nodes: int | None = None) -> float:
    """``T(p) = Σ_α Var_p φ_α``: n points have means of which the expected squared error is T(p) / n.

    Examples
    --------
    >>> round(l2_point_variance(lambda x: np.ones(len(x)), [[0], [1], [2]]), 6)  # φ_0 is constant
    2.0
    """
    alphas = np.asarray(indices)
    nodes, weights = box_quadrature(alphas.shape[1], n_nodes=n_nodes)
    mass = weights * np.asarray(p(nodes))
    variances = []
    for alpha in alphas:
        values = _product(nodes, alpha, kind)
        variances.append(np.sum(mass * values**2) - np.sum(mass * values) ** 2)
    return float(np.sum(variances))


def _product(x: Array, alpha: Array, kind: str) -> Array:
    """``Π_j φ_{α_j}(x_j)`` at points (n, d): (n,)."""
    values = np.ones(len(x))
    for column, k in zip(x.T, alpha, strict=True):
        values *= basis_functions(column, int(k) + 1, kind)[:, k]
    return values
