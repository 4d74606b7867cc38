r"""Ridge regression, kernel smoothing and explanations, bag by bag: the judge of ``distembed.learners``.

*Ridge* is about Σ w_i (y_i - z_i·b - c)² + α \|b\|² and one output, by stacking, refitting and Gaussian processes.

*Smoothing* predicts for a bag x from training bags x_i with responses y_i and weights w_i

    Σ_i w_i K(d(x, x_i) / h) y_i / Σ_i w_i K(d(x, x_i) / h),

and where every K is zero, the mean of the responses of the nearest bags, weighted by w_i.

*Explanations* are of ``f(p) = b·z(A(p)) + c``, with ``A`` the projection coefficients of the λ functions of a density p
on nodes, and ``z`` random features or A itself. Its gradient g has ``δf = Σ_e v_e g_e δp_e``, v the nodes' volumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from .moments import Array, derivatives, weighted
from .pipeline import kde, lambda_functions, project

__all__ = [
    "density_gradient", "density_prediction", "leave_one_out_error", "point_values", "ridge", "ridge_deviation",
    "ridge_hat_matrix", "ridge_leave_one_out", "ridge_noise", "smoothed", "weight_derivatives",
]  # fmt: skip

_EQUALLY_FAR = 1e-12  # of the largest squared distance: less is rounding


def ridge(Z: ArrayLike, y: ArrayLike, alpha: float, weights: ArrayLike | None = None) -> tuple[Array, float]:
    """Coefficients b and intercept c: least squares of the rows √w (z, 1) with √α (e_j, 0) and targets 0 below them.

    Examples
    --------
    >>> b, c = ridge([[0.0], [1.0]], [1.0, 3.0], 0.5)  # ½ · 2 / (½ + ½) = 1
    >>> b.round(6), round(c, 6)
    (array([1.]), 1.5)
    """
    z, t, w = _parts(Z, y, weights)
    n_features = z.shape[1]
    below = np.sqrt(alpha) * np.eye(n_features, n_features + 1)
    rows = np.vstack([np.sqrt(w)[:, None] * np.column_stack([z, np.ones(len(z))]), below])
    targets = np.concatenate([np.sqrt(w) * t, np.zeros(n_features)])
    solution = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return solution[:-1], float(solution[-1])


def ridge_leave_one_out(Z: ArrayLike, y: ArrayLike, alpha: float, weights: ArrayLike | None = None) -> Array:
    """Prediction of each row by the model that is fitted without it, refitted each time.

    Examples
    --------
    >>> ridge_leave_one_out([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], 0.0).round(6) + 0.0
    array([0., 1., 2.])
    """
    z, w = weighted(Z, weights)
    t = np.asarray(y, dtype=np.float64)
    out = np.empty(len(z))
    for i in range(len(z)):
        others = np.arange(len(z)) != i
        b, c = ridge(z[others], t[others], alpha, w[others])
        out[i] = z[i] @ b + c
    return out


def ridge_hat_matrix(Z: ArrayLike, alpha: float, weights: ArrayLike | None = None) -> Array:
    """H with fitted values H y, column by column: fits to unit vectors; rows of positive weight alone.

    Examples
    --------
    >>> ridge_hat_matrix([[0.0], [0.0]], 1.0).round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    z, _, w = _parts(Z, np.zeros(len(np.asarray(Z))), weights)
    fits = [ridge(z, unit, alpha, w) for unit in np.eye(len(z))]
    return np.column_stack([z @ b + c for b, c in fits])


def ridge_noise(Z: ArrayLike, y: ArrayLike, alpha: float, weights: ArrayLike | None = None) -> float:
    """σ² = Σ w e² / (n - tr H).

    Examples
    --------
    >>> round(ridge_noise([[0.0], [0.0], [0.0]], [1.0, 2.0, 3.0], 1.0), 6)  # the variance
    1.0
    """
    z, t, w = _parts(Z, y, weights)
    H = ridge_hat_matrix(z, alpha, w)
    return float(np.sum(w * (t - H @ t) ** 2) / (len(z) - np.trace(H)))


def ridge_deviation(Z: ArrayLike, y: ArrayLike, x: ArrayLike, alpha: float, weights: ArrayLike | None = None) -> Array:
    """Deviation of new targets at rows x, by Gaussian processes: no coefficient is ever formed.

    y has the covariance C = σ² (z_i·z_j / α + δ_ij / w_i), and its mean is an unknown constant
    (universal kriging: Rasmussen and Williams 2006, equation 2.42); σ² = :func:`ridge_noise`.

    Examples
    --------
    >>> ridge_deviation([[0.0], [0.0], [0.0]], [1.0, 2.0, 3.0], [[0.0], [2.0]], 1.0).round(4)  # 1 + 1/3, and 2² more
    array([1.1547, 2.3094])
    """
    z, t, w = _parts(Z, y, weights)
    C = z @ z.T / alpha + np.diag(1 / w)
    ones = np.ones(len(z))
    variances = []
    for row in np.asarray(x, dtype=np.float64):
        across = z @ row / alpha
        rest = 1 - ones @ np.linalg.solve(C, across)
        known = 1 + row @ row / alpha - across @ np.linalg.solve(C, across)
        variances.append(known + rest**2 / (ones @ np.linalg.solve(C, ones)))
    return np.asarray(np.sqrt(ridge_noise(z, t, alpha, w) * np.array(variances)))


def _parts(Z: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array, Array]:
    z, w = weighted(Z, weights)
    t = np.asarray(y, dtype=np.float64)
    return z[w > 0], t[w > 0], w[w > 0]


def smoothing_kernel(u: float, kernel: str = "gaussian") -> float:
    """K(u) for u ≥ 0, with K(0) = 1: exp(-u²/2), or 1 - u², 1 - u, 1 up to u = 1 and zero beyond.

    Examples
    --------
    >>> [smoothing_kernel(0.5, name) for name in ("epanechnikov", "triangular", "uniform")]
    [0.75, 0.5, 1.0]
    """
    if kernel == "gaussian":
        return math.exp(-(u**2) / 2)
    inside = {"epanechnikov": 1 - u**2, "triangular": 1 - u, "uniform": 1.0}[kernel]
    return inside if u <= 1 else 0.0


def smoothing_weights(
    distances_squared: ArrayLike, bandwidth: float, kernel: str = "gaussian", weights: ArrayLike | None = None
) -> Array:
    """What each training bag counts in the prediction for one bag, of sum one.

    Parameters
    ----------
    distances_squared : array-like of shape (n_bags,)
        From the bag to the training bags; negative estimates count as zero.
    bandwidth : float
        h > 0.
    kernel : str
        ``"gaussian"``, ``"epanechnikov"``, ``"triangular"`` or ``"uniform"``.
    weights : array-like of shape (n_bags,), optional
        w_i ≥ 0; bags of weight zero are as if absent.

    Notes
    -----
    A factor exp(d²/(2h²)) of the nearest bag is common to all Gaussian weights and is left out, so that not all of them
    underflow. Bags whose d² differ from the least by at most 1e-12 of the largest are equally near.

    Examples
    --------
    >>> smoothing_weights([0.0, 1.0, 9.0], 2.0, "triangular").round(4)  # 1 and 1/2
    array([0.6667, 0.3333, 0.    ])
    >>> smoothing_weights([4.0, 1.0, 1.0], 0.1, "triangular")  # none in reach: the nearest two
    array([0. , 0.5, 0.5])
    """
    d2 = np.maximum(np.asarray(distances_squared, dtype=np.float64), 0.0)
    w = np.ones(len(d2)) if weights is None else np.asarray(weights, dtype=np.float64)
    further = d2 - d2[w > 0].min()
    further[further <= _EQUALLY_FAR * d2[w > 0].max()] = 0.0
    u = np.sqrt(further if kernel == "gaussian" else d2) / bandwidth
    values = w * [smoothing_kernel(each, kernel) for each in u]
    if values.sum() == 0:
        values = w * (further == 0)
    return np.asarray(values / math.fsum(values))


def smoothed(
    distances_squared: ArrayLike,
    responses: ArrayLike,
    bandwidth: float,
    kernel: str = "gaussian",
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Predictions for bags, and the weighted standard deviation of the responses about them.

    Parameters
    ----------
    distances_squared : array-like of shape (n_new_bags, n_bags)
        From new bags to training bags.
    responses : array-like of shape (n_bags, n_outputs)
        Of the training bags: numbers, or densities on nodes.
    bandwidth, kernel, weights
        As in :func:`smoothing_weights`.

    Returns
    -------
    means, deviations : ndarray of shape (n_new_bags, n_outputs)

    Examples
    --------
    >>> smoothed([[0.0, 1.0]], [[10.0], [40.0]], 2.0, "triangular")  # two thirds and one third
    (array([[20.]]), array([[14.14213562]]))
    """
    y = np.asarray(responses, dtype=np.float64)
    shares = [smoothing_weights(row, bandwidth, kernel, weights) for row in np.asarray(distances_squared)]
    means = np.array([share @ y for share in shares])
    variances = [share @ (y - mean) ** 2 for share, mean in zip(shares, means, strict=True)]
    return means, np.sqrt(variances)


def leave_one_out_error(
    distances_squared: ArrayLike,
    responses: ArrayLike,
    bandwidth: float,
    kernel: str = "gaussian",
    weights: ArrayLike | None = None,
) -> Array:
    """Weighted mean over bags of the squared error of the prediction from all others, ndarray of shape (n_outputs,).

    Parameters
    ----------
    distances_squared : array-like of shape (n_bags, n_bags)
        Between training bags; the diagonal is not looked at.
    responses, bandwidth, kernel, weights
        As in :func:`smoothed`.

    Examples
    --------
    >>> leave_one_out_error([[0.0, 1.0], [1.0, 0.0]], [[1.0], [4.0]], 2.0)  # each is predicted by the other
    array([9.])
    """
    d2 = np.asarray(distances_squared, dtype=np.float64)
    y, w = weighted(responses, weights)
    total = np.zeros(y.shape[1])
    for i in np.flatnonzero(w > 0):
        others = np.arange(len(y)) != i
        mean, _ = smoothed(d2[i : i + 1, others], y[others], bandwidth, kernel, w[others])
        total += w[i] * (y[i] - mean[0]) ** 2
    return np.asarray(total / w.sum())


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


def density_gradient(f: Callable[[Array], float], p: ArrayLike, node_weights: ArrayLike, step: float = 1e-3) -> Array:
    """Gradient g (n_e,) of f at a density p > 0, by differences node by node: δf = Σ_e v_e g_e δp_e.

    The step is relative to each p_e; the error falls as its fourth power.

    Examples
    --------
    >>> density_gradient(lambda p: np.sqrt(p).sum() / 2, [1.0, 4.0], [0.5, 0.5]).round(9)  # 1 / (2 √p)
    array([0.5 , 0.25])
    """
    p = np.asarray(p, dtype=np.float64)
    v = np.asarray(node_weights, dtype=np.float64)
    return derivatives(lambda rows: [f(row) for row in rows], p, step * p) / v


def weight_derivatives(f: Callable[[Array], ArrayLike], weights: ArrayLike, step: float = 1e-3) -> Array:
    """Derivatives (n,) of a function of the weights of points that does not depend on their scale, in shares of one.

    `f` takes weights (k, n), one row per evaluation, and returns (k,). Steps are relative to each weight; where one is
    zero they are relative to the mean, and to one side.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 6.0])
    >>> weight_derivatives(lambda w: w @ x / w.sum(axis=1), [5.0, 5.0, 5.0]).round(9)  # of the mean: x - mean
    array([-2., -1.,  3.])
    """
    w = np.asarray(weights, dtype=np.float64)
    w = w / w.sum()
    return derivatives(f, w, step * np.where(w > 0, w, w.mean()), one_sided=w == 0)


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
    x, w = weighted(points, weights)
    vg = np.asarray(node_weights, dtype=np.float64) * np.asarray(gradient, dtype=np.float64)
    values = np.array([vg @ kde(x[i : i + 1], nodes, bandwidth, boundary) for i in range(len(x))])
    return np.asarray(values - w @ values / w.sum())
