"""Products of one small matrix a dimension with functions on a tensor grid.

Functions of many bags on a grid of shape (g_1, ..., g_l) are stored in arrays of shape
(g_1, ..., g_{l-1}, n_bags, g_l), the bags second to last. Then the product along the last axis and the product along
the first are each one large matrix product for all bags, where bags first would need a small product for every bag.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .parallel import Scratch

__all__ = ["bags_first", "contract", "contract_leading"]

Array = NDArray[Any]


def contract(array: Array, matrices: Sequence[Array], scratch: Scratch | None = None, name: str = "") -> Array:
    """Apply one matrix to each axis of a grid, for many bags at once.

    Parameters
    ----------
    array : ndarray of shape (..., g_1, ..., g_{l-1}, n_bags, g_l)
        Functions on a grid.
    matrices : sequence of l ndarrays of shape (m_j, g_j) or (n_bags, m_j, g_j)
        The latter form has its own matrix for each bag, and is slower.
    scratch : Scratch, optional
        Memory for the products.
    name : str
        Name of the products in the scratch.

    Returns
    -------
    ndarray of shape (..., m_1, ..., m_{l-1}, n_bags, m_l)

    Notes
    -----
    Costs 2 m_1 Π g_j operations a bag for the first axis, less for the others where m_j < g_j.

    Examples
    --------
    >>> contract(np.ones((2, 1, 3)), [np.ones((1, 2)), np.eye(3)])  # one bag on a 2 x 3 grid
    array([[[2., 2., 2.]]])
    """
    if matrices[0].ndim == 3:
        return _contract_each(array, matrices)
    scratch = Scratch() if scratch is None else scratch
    array = contract_leading(array, matrices[:-1], scratch, name)
    flat, last = array.reshape(-1, array.shape[-1]), matrices[-1]
    product = np.matmul(flat, last.T, out=scratch(f"{name} last", (len(flat), len(last)), array.dtype))
    return product.reshape(*array.shape[:-1], len(last))


def contract_leading(array: Array, matrices: Sequence[Array], scratch: Scratch, name: str = "") -> Array:
    """The part of :func:`contract` for all axes but the last: from the first on, one product each.

    Parameters
    ----------
    array : ndarray of shape (..., g_1, ..., g_{l-1}, n_bags, g_l)
        Functions on a grid.
    matrices : sequence of l - 1 ndarrays of shape (m_j, g_j)
        May be empty.
    scratch, name
        As in :func:`contract`.

    Returns
    -------
    ndarray of shape (..., m_1, ..., m_{l-1}, n_bags, g_l)

    Examples
    --------
    >>> contract_leading(np.ones((2, 1, 3)), [np.ones((1, 2))], Scratch())
    array([[[2., 2., 2.]]])
    """
    for j, matrix in enumerate(matrices):
        axis = array.ndim - 2 - len(matrices) + j
        before, size, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
        product = scratch(f"{name} {j}", (prod(before), len(matrix), prod(after)), array.dtype)
        np.matmul(matrix, array.reshape(prod(before), size, prod(after)), out=product)
        array = product.reshape(*before, len(matrix), *after)
    return array


def _contract_each(array: Array, matrices: Sequence[Array]) -> Array:
    """The same with matrices of shape (n_bags, m_j, g_j)."""
    array = np.einsum("...bg,bmg->...bm", array, matrices[-1], optimize=True)
    for back, matrix in enumerate(reversed(matrices[:-1]), start=3):
        axis = array.ndim - back
        before, size, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
        moved = np.moveaxis(array, axis, -2).reshape(-1, after[-2], size, after[-1])
        product = np.einsum("kbgt,bmg->kbmt", moved, matrix, optimize=True)
        shaped = product.reshape(*before, *after[:-1], matrix.shape[-2], after[-1])
        array = np.ascontiguousarray(np.moveaxis(shaped, -2, axis))
    return array


def bags_first(array: Array) -> Array:
    """View of shape (n_bags, ..., g_1, ..., g_l) of functions stored with the bags second to last.

    Examples
    --------
    >>> bags_first(np.zeros((4, 7, 5))).shape  # seven bags on a 4 x 5 grid
    (7, 4, 5)
    """
    return np.moveaxis(array, -2, 0)
