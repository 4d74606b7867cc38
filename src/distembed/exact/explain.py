"""Predictions as functions of densities, and their derivatives by differences: the judge of ``distembed.learners.explain``.

A prediction is ``f(p) = b·z(A(p)) + c``, with ``A`` the projection coefficients of the λ functions of a density p on
nodes, and ``z`` random features or A itself. Its gradient g has ``δf = Σ_e v_e g_e δp_e`` for volumes v of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .pipeline import kde, lambda_functions, project

__all__ = ["density_gradient", "density_prediction", "point_values", "weight_derivatives"]

Array: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Array], float]


def density_prediction(
    p: ArrayLike,
    basis_values: ArrayLike,
    node_weights: ArrayLike,
    coef: ArrayLike,
    intercept: float = 0.0,
    rule: tuple[ArrayLike, ArrayLike] | None = None,
    frequencies: ArrayLike | None = None,
    phases: ArrayLike | None = None,
) -> float:
    """f(p) of one density.

    Parameters
    ----------
    p : array-like of shape (n_e,)
        Density on the nodes.
    basis_values, node_weights : array-like of shape (n_e, n_basis_functions) and (n_e,)
        φ_α at the nodes, and their volumes.
    coef, intercept : array-like of shape (n_features,), and float
        b and c.
    rule : pair of array-like of shape (n_lambdas,), optional
        Lambdas and weights of a homogeneous distance, with no imaginary part where λ = 0; without them the density
        itself is projected (L2).
    frequencies : array-like of shape (n_frequencies, n_basis_functions * n_functions), optional
        Of random features √(2/D) (sin ω_1·A, sin ω_2·A, ..., cos ω_1·A, cos ω_2·A, ...).
    phases : array-like of shape (n_frequencies,), optional
        Random features are √(2/D) cos(ω_r·A + b_r) in place of these.

    Examples
    --------
    >>> density_prediction([1.0, 4.0], [[1.0], [1.0]], [0.5, 0.5], [2.0], 1.0, ([0.0], [1.0]))  # 2 (1 + 2)/2 + 1
    4.0
    """
    functions = np.asarray(p, dtype=np.float64)[None]
    if rule is not None:
        turning = np.asarray(rule[0]) != 0
        functions = lambda_functions(p, *rule)[np.append(np.ones(len(turning), bool), turning)]
    z = project(functions, basis_values, node_weights).ravel()
    if frequencies is not None:
        angles = np.asarray(frequencies, dtype=np.float64) @ z
        waves = [np.sin(angles), np.cos(angles)] if phases is None else [np.cos(angles + np.asarray(phases))]
        z = np.concatenate(waves)
        z *= np.sqrt(2 / len(z))
    return float(np.asarray(coef, dtype=np.float64) @ z + intercept)


def density_gradient(f: Function, p: ArrayLike, node_weights: ArrayLike, step: float = 1e-3) -> Array:
    """Gradient g (n_e,) of f at a density p > 0, by differences node by node: δf = Σ_e v_e g_e δp_e.

    The step is relative to each p_e; the error falls as its fourth power.

    Examples
    --------
    >>> density_gradient(lambda p: np.sqrt(p).sum() / 2, [1.0, 4.0], [0.5, 0.5]).round(9)  # 1 / (2 √p)
    array([0.5 , 0.25])
    """
    p, v = np.asarray(p, dtype=np.float64), np.asarray(node_weights, dtype=np.float64)
    slopes = [_slope(lambda t, e=e: f(_moved(p, e, t)), step * p[e]) for e in range(len(p))]  # type: ignore[misc]
    return np.asarray(np.array(slopes) / v)


def weight_derivatives(f: Callable[[Array], ArrayLike], weights: ArrayLike, step: float = 1e-3) -> Array:
    """Derivatives (n,) of a function of the weights of points that does not depend on their scale, in shares of one.

    `f` takes weights (k, n), one row an evaluation, and returns (k,). Steps are relative to each weight; where a weight
    is zero they are relative to the mean, and to one side.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 6.0])
    >>> weight_derivatives(lambda w: w @ x / w.sum(axis=1), [5.0, 5.0, 5.0]).round(9)  # of the mean: x - mean
    array([-2., -1.,  3.])
    """
    w = np.asarray(weights, dtype=np.float64)
    w = w / w.sum()
    steps = [step * (share or w.mean()) for share in w]
    rows = []
    for i, h in enumerate(steps):
        places = [-2, -1, 0, 1, 2] if w[i] > 0 else [0, 1, 2, 3, 4]
        rows += [_moved(w, i, k * h) for k in places]
    values = np.asarray(f(np.array(rows)), dtype=np.float64).reshape(len(w), 5)
    central, one_sided = np.array([1, -8, 0, 8, -1]) / 12, np.array([-25, 48, -36, 16, -3]) / 12
    return np.array([values[i] @ (central if w[i] > 0 else one_sided) / h for i, h in enumerate(steps)])


def point_values(
    gradient: ArrayLike,
    points: ArrayLike,
    nodes: ArrayLike,
    node_weights: ArrayLike,
    bandwidth: ArrayLike,
    boundary: str = "reflect",
    weights: ArrayLike | None = None,
) -> Array:
    """``Σ_e v_e g_e K_h(u_e, x_i)`` (n,), less its weighted mean over the points, with kernels as in :func:`kde`.

    Examples
    --------
    >>> point_values([3.0, 1.0], [0.25, 0.75], [0.25, 0.75], [0.5, 0.5], 10.0).round(6) + 0.0  # all see both
    array([0., 0.])
    """
    x = np.asarray(points, dtype=np.float64)
    w = np.full(len(x), 1 / len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    vg = np.asarray(node_weights, dtype=np.float64) * np.asarray(gradient, dtype=np.float64)
    values = np.array([vg @ kde(x[i : i + 1], nodes, bandwidth, boundary) for i in range(len(x))])
    return np.asarray(values - w @ values / w.sum())


def _moved(values: Array, i: int, by: float) -> Array:
    moved = values.copy()
    moved[i] += by
    return moved


def _slope(f: Callable[[float], float], h: float) -> float:
    """Derivative at zero, by the central formula of four values."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
