"""Kernel matrices entry by entry and eigenvector by eigenvector: the judge of ``distembed.kernels``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["nystroem_kernel", "rbf_kernel", "repaired_kernel"]

Array = NDArray[Any]


def rbf_kernel(distances_squared: ArrayLike, sigma: float) -> Array:
    """exp(-d² / (2σ²)) of each entry, with d² = 0 for negative estimates.

    Examples
    --------
    >>> rbf_kernel([[0.0, 2.0], [-1.0, 0.0]], 1.0).round(4)
    array([[1.    , 0.3679],
           [1.    , 1.    ]])
    """
    d2 = np.asarray(distances_squared, dtype=np.float64)
    out = np.empty_like(d2)
    for i in range(d2.shape[0]):
        for j in range(d2.shape[1]):
            out[i, j] = np.exp(-max(d2[i, j], 0.0) / (2 * sigma**2))
    return out


def repaired_kernel(K: ArrayLike, method: str) -> Array:
    """The sum of f(λ) v vᵀ over eigenpairs: f is max(λ, 0), abs(λ), λ - min(λ_min, 0) or λ².

    Examples
    --------
    >>> repaired_kernel([[0.0, 1.0], [1.0, 0.0]], "clip").round(6)  # eigenvalues 1 and -1
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    total = np.zeros((len(values), len(values)))
    for value, vector in zip(values, vectors.T, strict=True):
        new = {"clip": max(value, 0.0), "flip": abs(value), "shift": value - min(values[0], 0.0), "square": value**2}
        total += new[method] * np.outer(vector, vector)
    return total


def nystroem_kernel(rows: ArrayLike, K: ArrayLike, least: float = 1e-12) -> Array:
    """The sum of (k_x·v)(k_y·v) / λ over eigenpairs of K with λ > max(least λ_max, -λ_min), for all pairs of rows k_x.

    Examples
    --------
    >>> nystroem_kernel([[2.0, 3.0]], [[4.0, 0.0], [0.0, -1.0]])  # 2² / 4
    array([[1.]])
    """
    k = np.asarray(rows, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    total = np.zeros((len(k), len(k)))
    for value, vector in zip(values, vectors.T, strict=True):
        if value > max(least * np.abs(values).max(), -values[0]):
            total += np.outer(k @ vector, k @ vector) / value
    return total
