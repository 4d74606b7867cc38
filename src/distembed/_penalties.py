r"""One factorisation of a symmetric matrix for all penalties: (K + α I) c = y for many α.

K = Q T Qᵀ with T tridiagonal (Householder), so that K + α I = Q (T + α I) Qᵀ, and a system with T + α I takes time
linear in its size. A tridiagonal form costs 4/3 n³ operations once, an eighth of the eigenvectors; a Cholesky
factorisation is cheaper for up to four penalties, but there are usually ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded
from scipy.linalg.lapack import dormqr, dsytrd, dsytrd_lwork

__all__ = ["ManyPenalties"]

Array = NDArray[Any]


class ManyPenalties:
    """The tridiagonal form of a positive semidefinite matrix, and the solutions for any penalty.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric; only its lower triangle is looked at.

    Examples
    --------
    >>> K = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    >>> c = ManyPenalties(K).solve(np.array([[1.0], [2.0], [3.0]]), [0.5, 2.0])
    >>> np.allclose((K + 2.0 * np.eye(3)) @ c[1], [[1.0], [2.0], [3.0]])
    True
    """

    def __init__(self, K: Array) -> None:
        n = len(K)
        self._reflectors, self._diagonal, self._beside, self._scales, info = dsytrd(
            np.array(K, np.float64, order="F"), lower=1, lwork=int(dsytrd_lwork(n, lower=1)[0]), overwrite_a=1
        )
        if info != 0:
            raise ValueError(f"no tridiagonal form: LAPACK's dsytrd says {info}; K must be finite")

    def solve(self, Y: Array, alphas: Iterable[float]) -> Array:
        """Solutions c of (K + α I) c = Y for Y of shape (n, n_outputs), ndarray of shape (n_alphas, n, n_outputs)."""
        alphas, turned = list(alphas), self._turn(np.array(Y, np.float64, order="F"), b"T")
        found = np.empty((len(alphas), *turned.shape))
        for one, alpha in zip(found, alphas, strict=True):
            if len(turned) == 1:
                one[...] = turned / (self._diagonal + alpha)
                continue
            bands = np.zeros((2, len(turned)))
            bands[0], bands[1, :-1] = self._diagonal + alpha, self._beside
            one[...] = self._turn(np.asfortranarray(solveh_banded(bands, turned, lower=True)), b"N")
        return found

    def _turn(self, Y: Array, way: bytes) -> Array:
        """Qᵀ Y or Q Y: the reflections leave the first row alone."""
        if len(Y) > 1:
            lwork = 64 * max(1, Y.shape[1])
            Y[1:] = dormqr(b"L", way, self._reflectors[1:, :-1], self._scales, np.asfortranarray(Y[1:]), lwork)[0]
        return Y
