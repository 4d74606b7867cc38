"""Products of one small matrix a dimension with functions on a tensor grid."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["contract"]

Array = NDArray[Any]


def contract(array: Array, matrices: Sequence[Array]) -> Array:
    """Apply one matrix to each of the trailing axes of an array.

    Parameters
    ----------
    array : ndarray of shape (n, g_1, ..., g_l)
        Any number n of functions on a grid.
    matrices : sequence of l ndarrays of shape (m_j, g_j) or (n, m_j, g_j)
        The latter form has its own matrix for each of the n functions.

    Returns
    -------
    ndarray of shape (n, m_1, ..., m_l)

    Notes
    -----
    Costs 2 n m_l Π g_j operations for the last axis, less for the others where m_j < g_j.

    Examples
    --------
    >>> contract(np.ones((1, 2, 3)), [np.ones((1, 2)), np.eye(3)])
    array([[[2., 2., 2.]]])
    """
    n, n_dims = len(array), len(matrices)
    for axis in reversed(range(n_dims)):
        matrix, sizes = matrices[axis], array.shape[1:]
        after = prod(sizes[axis + 1 :])
        if axis == n_dims - 1:  # one large product instead of many small ones
            flat = array.reshape(n, -1, sizes[-1]) if matrix.ndim == 3 else array.reshape(-1, sizes[-1])
            result = flat @ np.swapaxes(matrix, -1, -2)
        else:
            stacked = array.reshape(n, -1, sizes[axis], after)
            result = (matrix[:, None] if matrix.ndim == 3 else matrix) @ stacked
        array = result.reshape(n, *sizes[:axis], matrix.shape[-2], *sizes[axis + 1 :])
    return array
