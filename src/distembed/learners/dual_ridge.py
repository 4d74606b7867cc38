r"""Ridge regression by a kernel, for one penalty after the other.

A Cholesky factorisation for each penalty looks wasteful: one tridiagonal form would serve all of them. It is half
matrix-vector products, though, and takes as long as ten factorisations at 2,667 bags (five at 1,333), while a walk
downhill along the penalties (:func:`distembed.learners.tuning.downhill`), which starts where the last setting ended, looks at
three or four.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

__all__ = ["DualRidge"]

Array = NDArray[Any]


class DualRidge:
    r"""Ridge regression with an intercept on features that are known by their dot products.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel of the training bags.
    Y : ndarray of shape (n, n_outputs)
    weight : ndarray of shape (n,)
        Positive weights of the training bags.
    rows : ndarray of shape (n_new, n)
        Kernel between new bags and training bags.

    Notes
    -----
    Features are centred at their weighted mean, which is a change of the kernel: k(x, z) - k̄(x) - k̄(z) + k̄̄. Then with
    S = diag(√w) the coefficients are S (S K S + α I)⁻¹ S (Y - Ȳ).

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> line = DualRidge(np.outer(x, x), x[:, None], np.ones(3), np.outer([3.0], x))
    >>> line.predict(1e-9).round(6), line.predict(2.0)
    (array([[3.]]), array([[2.]]))
    """

    def __init__(self, K: Array, Y: Array, weight: Array, rows: Array) -> None:
        share, root = weight / weight.sum(), np.sqrt(weight)
        means = K @ share
        self._kernel = np.array(K, np.float64, order="F")
        self._kernel -= means
        self._kernel -= means[:, None] - share @ means
        self._rows = rows - (rows @ share)[:, None] - means + share @ means
        if np.ptp(weight) > 0:
            self._kernel *= root
            self._kernel *= root[:, None]
        elif len(weight):
            self._kernel *= weight[0]
        self._mean, self._root = share @ Y, root[:, None]
        self._targets = self._root * (Y - self._mean)
        self._diagonal = self._kernel.diagonal().copy()

    def predict(self, alpha: float) -> Array | None:
        """Predictions of shape (n_new, n_outputs); None where the penalty is too small for the digits of the kernel."""
        np.fill_diagonal(self._kernel, self._diagonal + alpha)
        factor, info = dpotrf(self._kernel, lower=1, clean=0)
        if info != 0:
            return None
        coefficients, _ = dpotrs(factor, self._targets, lower=1)
        return np.asarray(self._rows @ (self._root * coefficients) + self._mean)
