"""Kernels of features, how wide they are, and machines on kernel matrices with settings that are known."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..compute.arrays import Array

MARGIN = 10.0  # C of the large margin
_ROUNDING = 1e-13  # of the largest squared norm: of squared distances that are differences of products


def gaussian(rows: Array, others: Array) -> Array:
    """Gaussian kernel exp(-|x - x'|² / 2) of rows (n, d) and (m, d), by one product of matrices.

    Examples
    --------
    >>> gaussian(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135]])
    """
    out = _minus_half_squares(rows, others)
    return np.asarray(np.exp(out, out=out))


def laplace(rows: Array, others: Array) -> Array:
    """Laplace kernel exp(-|x - x'|) of rows (n, d) and (m, d), by one product of matrices.

    Distances below 3e-7 of the longest row are taken for zero: the product rounds, and a root of that is not small.

    Examples
    --------
    >>> laplace(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135]])
    """
    out = _minus_half_squares(rows, others)
    out *= -2
    out[out < _ROUNDING * (others**2).sum(axis=1).max(initial=0.0)] = 0.0
    np.sqrt(out, out=out)
    np.negative(out, out=out)
    return np.asarray(np.exp(out, out=out))


def _minus_half_squares(rows: Array, others: Array) -> Array:
    """-|x - x'|² / 2, at most 0."""
    out = rows @ others.T
    out -= 0.5 * (rows**2).sum(axis=1)[:, None]
    out -= 0.5 * (others**2).sum(axis=1)
    return np.asarray(np.minimum(out, 0.0, out=out))


def typical_distance(rows: Array, weight: Array, size: float) -> float:
    """The weighted median of the distances between rows that differ; ``size`` if none do.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Centred.
    weight : ndarray of shape (n_rows,)
        A pair has the product of its weights.
    size : float
        Root mean squared norm before the centring: what is 1e-10 of it is rounding.

    Returns
    -------
    float
        Positive.

    Examples
    --------
    >>> rows = np.array([[-1.0], [-1.0], [-1.0], [3.0]])  # most are equal
    >>> typical_distance(rows, np.ones(4), 2.0), typical_distance(0 * rows, np.ones(4), 2.0)
    (4.0, 2.0)
    """
    norms = (rows**2).sum(axis=1)
    pairs = np.triu_indices(len(rows), 1)
    squares = (norms[:, None] + norms - 2 * (rows @ rows.T))[pairs]
    differ = squares > max(_ROUNDING * norms.max(), (1e-10 * size) ** 2)
    if not differ.any():
        return float(size) or 1.0
    squares, masses = squares[differ], (weight[:, None] * weight)[pairs][differ]
    order = np.argsort(squares)
    sums = np.cumsum(masses[order])
    return float(np.sqrt(squares[order[np.searchsorted(sums, 0.5 * sums[-1])]]))


def large_margin(matrix: Array, codes: Array, weight: Array, n_classes: int) -> tuple[Array, Array]:
    """Support vector machines for all pairs of classes, added up to one score per class.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
        Kernel matrix.
    codes : ndarray of shape (n_rows,) of int
        Classes; some may be missing.
    weight : ndarray of shape (n_rows,)
        Factors of C = 10.
    n_classes : int
        k.

    Returns
    -------
    dual : ndarray of shape (n_rows, k)
        Coefficients of kernel functions.
    intercept : ndarray of shape (k,)
        A class that rows lack has the score -1: it loses every pair by the margin.

    Notes
    -----
    The score of a class is the mean of its decisions against the others. It is linear in the kernel functions, so k
    columns store all k (k - 1) / 2 machines.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> dual, intercept = large_margin(x @ x.T, np.array([0, 0, 1, 1]), np.ones(4), 2)
    >>> (x @ x.T @ dual + intercept).round(2)
    array([[ 2., -2.],
           [ 1., -1.],
           [-1.,  1.],
           [-2.,  2.]])
    """
    from sklearn.svm import SVC  # slow to import

    present = np.unique(codes)
    dual, intercept = np.zeros((len(codes), n_classes)), np.full(n_classes, -1.0)
    intercept[present] = 0.0
    share = 1 / max(len(present) - 1, 1)
    for i, first in enumerate(present):
        for second in present[i + 1 :]:
            rows = np.flatnonzero((codes == first) | (codes == second))
            machine = SVC(C=MARGIN, kernel="precomputed")
            machine.fit(matrix[np.ix_(rows, rows)], codes[rows], sample_weight=weight[rows])
            values = share * machine.dual_coef_[0]
            for code, sign in ((first, -1), (second, 1)):
                dual[rows[machine.support_], code] += sign * values
                intercept[code] += sign * share * machine.intercept_[0]
    return dual, intercept


def kernel_ridge(matrix: Array, targets: Array, weight: Array, alpha: float) -> tuple[Array, Array]:
    r"""Minimise Σ w_i (y_i - f(x_i) - c)² + α \|f\|², in n³ / 3 operations.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
        Kernel matrix K.
    targets : ndarray of shape (n_rows, n_outputs)
        y.
    weight : ndarray of shape (n_rows,)
        w, positive.
    alpha : float
        α, positive.

    Returns
    -------
    dual : ndarray of shape (n_rows, n_outputs)
        f = Σ dual_i k(x_i, ·), the solution of (K + α diag(1 / w)) dual = y - c with Σ dual = 0.
    intercept : ndarray of shape (n_outputs,)
        c.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> dual, intercept = kernel_ridge(x @ x.T, 2 * x + 1, np.ones(8), 1e-6)
    >>> (x.T @ dual).round(3), intercept.round(3)
    (array([[2.]]), array([1.]))
    """
    factor = cho_factor(matrix + np.diag(alpha / weight), lower=True)
    solved = cho_solve(factor, np.hstack([targets, np.ones((len(targets), 1))]))
    intercept = solved[:, :-1].sum(axis=0) / solved[:, -1].sum()
    return solved[:, :-1] - solved[:, -1:] * intercept, intercept
