r"""Ridge regression by stacking, refitting and Gaussian processes: the judge of ``distembed.learners.ridge``.

All functions are about Σ w_i (y_i - z_i·b - c)² + α \|b\|² and one output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ridge", "ridge_deviation", "ridge_hat_matrix", "ridge_leave_one_out", "ridge_noise"]

Array = NDArray[Any]


def _parts(Z: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array, Array]:
    z, t = np.asarray(Z, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.ones(len(z)) if weights is None else np.asarray(weights, dtype=np.float64)
    return z[w > 0], t[w > 0], w[w > 0]


def ridge(
    Z: ArrayLike, y: ArrayLike, alpha: float, weights: ArrayLike | None = None, intercept: bool = True
) -> tuple[Array, float]:
    """Coefficients b and intercept c: least squares of the rows √w (z, 1) with √α (e_j, 0) and targets 0 below them.

    Examples
    --------
    >>> b, c = ridge([[0.0], [1.0]], [1.0, 3.0], 0.5)  # ½ · 2 / (½ + ½) = 1
    >>> b.round(6), round(c, 6)
    (array([1.]), 1.5)
    """
    z, t, w = _parts(Z, y, weights)
    n_features = z.shape[1]
    ones = np.ones((len(z), 1)) if intercept else np.zeros((len(z), 1))
    rows = [np.sqrt(w)[:, None] * np.hstack([z, ones])]
    targets = [np.sqrt(w) * t]
    rows.append(np.sqrt(alpha) * np.eye(n_features, n_features + 1))
    targets.append(np.zeros(n_features))
    solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(targets), rcond=None)[0]
    return solution[:-1], float(solution[-1])


def ridge_leave_one_out(
    Z: ArrayLike, y: ArrayLike, alpha: float, weights: ArrayLike | None = None, intercept: bool = True
) -> Array:
    """Prediction of each row by the model that is fitted without it, refitted each time.

    Examples
    --------
    >>> ridge_leave_one_out([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], 0.0).round(6) + 0.0
    array([0., 1., 2.])
    """
    z, t = np.asarray(Z, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.ones(len(z)) if weights is None else np.asarray(weights, dtype=np.float64)
    out = np.empty(len(z))
    for i in range(len(z)):
        others = np.arange(len(z)) != i
        b, c = ridge(z[others], t[others], alpha, w[others], intercept)
        out[i] = z[i] @ b + c
    return out


def ridge_hat_matrix(Z: ArrayLike, alpha: float, weights: ArrayLike | None = None, intercept: bool = True) -> Array:
    """H with fitted values H y, column by column: fits to unit vectors; rows of positive weight alone.

    Examples
    --------
    >>> ridge_hat_matrix([[0.0], [0.0]], 1.0).round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    z, _, w = _parts(Z, np.zeros(len(np.asarray(Z))), weights)
    H = np.empty((len(z), len(z)))
    for i in range(len(z)):
        b, c = ridge(z, np.eye(len(z))[i], alpha, w, intercept)
        H[:, i] = z @ b + c
    return H


def ridge_noise(
    Z: ArrayLike, y: ArrayLike, alpha: float, weights: ArrayLike | None = None, intercept: bool = True
) -> float:
    """σ² = Σ w e² / (n - tr H).

    Examples
    --------
    >>> round(ridge_noise([[0.0], [0.0], [0.0]], [1.0, 2.0, 3.0], 1.0), 6)  # the variance
    1.0
    """
    z, t, w = _parts(Z, y, weights)
    H = ridge_hat_matrix(z, alpha, w, intercept)
    return float(np.sum(w * (t - H @ t) ** 2) / (len(z) - np.trace(H)))


def ridge_deviation(
    Z: ArrayLike, y: ArrayLike, x: ArrayLike, alpha: float, weights: ArrayLike | None = None, intercept: bool = True
) -> Array:
    """Deviation of new targets at rows x, by Gaussian processes: no coefficient is ever formed.

    y has the covariance C = σ² (z_i·z_j / α + δ_ij / w_i), and its mean is an unknown constant if there is an intercept
    (universal kriging: Rasmussen and Williams 2006, equation 2.42); σ² = :func:`ridge_noise`.

    Examples
    --------
    >>> ridge_deviation([[0.0], [0.0], [0.0]], [1.0, 2.0, 3.0], [[0.0], [2.0]], 1.0).round(4)  # 1 + 1/3, and 2² more
    array([1.1547, 2.3094])
    """
    z, t, w = _parts(Z, y, weights)
    new = np.asarray(x, dtype=np.float64)
    C = z @ z.T / alpha + np.diag(1 / w)
    out = np.empty(len(new))
    for i, row in enumerate(new):
        across = z @ row / alpha
        variance = 1 + row @ row / alpha - across @ np.linalg.solve(C, across)
        if intercept:
            ones = np.ones(len(z))
            rest = 1 - ones @ np.linalg.solve(C, across)
            variance += rest**2 / (ones @ np.linalg.solve(C, ones))
        out[i] = variance
    return np.asarray(np.sqrt(ridge_noise(z, t, alpha, w, intercept) * out))
