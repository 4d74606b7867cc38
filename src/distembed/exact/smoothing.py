"""Kernel smoothing on distributions, bag by bag: the judge of ``distembed.learners.smoother``.

The prediction for a bag x from training bags x_i with responses y_i and weights w_i is

    Σ_i w_i K(d(x, x_i) / h) y_i / Σ_i w_i K(d(x, x_i) / h),

and where every K is zero, the mean of the responses of the nearest bags, weighted by w_i.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["leave_one_out_error", "smoothed", "smoothing_kernel", "smoothing_weights"]

Array: TypeAlias = NDArray[np.float64]

_EQUALLY_FAR = 1e-12  # of the largest squared distance: less is rounding


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
    d2 = [max(float(value), 0.0) for value in np.asarray(distances_squared, dtype=np.float64)]
    w = [1.0] * len(d2) if weights is None else [float(value) for value in np.asarray(weights)]
    present = [i for i in range(len(d2)) if w[i] > 0]
    least, most = min(d2[i] for i in present), max(d2[i] for i in present)
    further = [0.0 if each - least <= _EQUALLY_FAR * most else each - least for each in d2]
    values = [0.0] * len(d2)
    for i in present:
        u = math.sqrt(further[i] if kernel == "gaussian" else d2[i]) / bandwidth
        values[i] = w[i] * smoothing_kernel(u, kernel)
    if sum(values) == 0:
        values = [w[i] if i in present and further[i] == 0 else 0.0 for i in range(len(d2))]
    return np.array([value / math.fsum(values) for value in values])


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
    means, deviations = [], []
    for row in np.asarray(distances_squared, dtype=np.float64):
        share = smoothing_weights(row, bandwidth, kernel, weights)
        mean = [math.fsum(share[i] * y[i, k] for i in range(len(y))) for k in range(y.shape[1])]
        variance = [math.fsum(share[i] * (y[i, k] - mean[k]) ** 2 for i in range(len(y))) for k in range(y.shape[1])]
        means.append(mean)
        deviations.append([math.sqrt(value) for value in variance])
    return np.array(means), np.array(deviations)


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
    d2, y = np.asarray(distances_squared, dtype=np.float64), np.asarray(responses, dtype=np.float64)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    total = np.zeros(y.shape[1])
    for i in np.flatnonzero(w > 0):
        others = np.arange(len(y)) != i
        mean, _ = smoothed(d2[i : i + 1, others], y[others], bandwidth, kernel, w[others])
        total += w[i] * (y[i] - mean[0]) ** 2
    return np.asarray(total / w.sum())
