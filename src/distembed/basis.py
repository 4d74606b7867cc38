r"""Orthonormal bases of L2([0,1]^l) and projection onto them.

A one-dimensional basis φ_0 = 1, φ_1, ... gives a tensor basis φ_α(x) = Π_j φ_{α_j}(x_j), and a function f has the
coefficients a_α(f) = ∫ φ_α f. With integration nodes u_i of volume v_i (equation ApNumInt of the paper, v_i = 1/n_e)

.. math:: â_α(f) = \sum_i v_i φ_α(u_i) f(u_i).

On a grid the sum separates, one small matrix product a dimension: O(n_basis n_nodes) instead of O(n_basis^l n_nodes).
The cosines are the natural basis for densities with reflecting boundaries, the Fourier basis for periodic ones.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._parallel import Scratch
from ._separable import contract_leading
from .nodes import GridNodes, PointNodes

__all__ = ["Basis", "Cosine", "Fourier", "Projection", "get"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Cosine:
    """The cosine basis: φ_0 = 1, φ_k(x) = √2 cos(πkx).

    Examples
    --------
    >>> Cosine().values(np.array([0.0, 0.5]), 3).round(3)
    array([[ 1.   ,  1.414,  1.414],
           [ 1.   ,  0.   , -1.414]])
    """

    def values(self, x: Array, n: int) -> Array:
        """The first n functions at x, ndarray of shape (len(x), n)."""
        scale = np.where(np.arange(n) == 0, 1.0, np.sqrt(2))
        return np.asarray(scale * np.cos(np.pi * np.multiply.outer(x, np.arange(n))))


@dataclass(frozen=True)
class Fourier:
    """The real Fourier basis: 1, √2 cos(2πx), √2 sin(2πx), √2 cos(4πx), ...

    Examples
    --------
    >>> Fourier().values(np.array([0.25]), 3).round(3)
    array([[1.   , 0.   , 1.414]])
    """

    def values(self, x: Array, n: int) -> Array:
        """The first n functions at x, ndarray of shape (len(x), n)."""
        k = np.arange(n)
        angle = 2 * np.pi * np.multiply.outer(x, (k + 1) // 2)
        waves = np.sqrt(2) * np.where(k % 2 == 1, np.cos(angle), np.sin(angle))
        return np.asarray(np.where(k == 0, 1.0, waves))


Basis = Cosine | Fourier
_BASES: dict[str, type[Basis]] = {"cosine": Cosine, "fourier": Fourier}


def get(basis: str | Basis) -> Basis:
    """A basis by name; an object is returned as it is.

    Examples
    --------
    >>> get("fourier")
    Fourier()
    """
    if isinstance(basis, Basis):
        return basis
    if isinstance(basis, str) and basis in _BASES:
        return _BASES[basis]()
    raise ValueError(
        f"basis: must be one of {', '.join(map(repr, _BASES))} or a basis object, got {basis!r}; choose one"
    )


class Projection:
    """Projection of functions on given nodes onto a tensor basis, prepared once.

    Parameters
    ----------
    basis : Basis
        The one-dimensional basis.
    n_basis : tuple of int
        Functions along each dimension; the index set V is their product.
    nodes : GridNodes or PointNodes
        Where the functions are given.

    Attributes
    ----------
    indices : ndarray of shape (n_basis_functions, n_dims)
        The multi-indices α, the last one fastest.

    Examples
    --------
    >>> onto = Projection(Cosine(), (3,), GridNodes((1000,)))
    >>> p = 2 * GridNodes((1000,)).points.T  # p(x) = 2x for one bag; a_1 = -4 sqrt(2) / pi^2
    >>> onto(p[None]).round(4) + 0.0
    array([[ 1.    , -0.5732,  0.    ]])
    """

    def __init__(self, basis: Basis, n_basis: tuple[int, ...], nodes: GridNodes | PointNodes) -> None:
        self.n_basis_functions = prod(n_basis)
        self.indices = np.array(list(product(*map(range, n_basis))))
        if isinstance(nodes, GridNodes):
            if isinstance(basis, Fourier) and any(n == size for n, size in zip(n_basis, nodes.shape, strict=True)):
                raise ValueError(
                    f"Grid(size=...): must have more nodes than Fourier functions along each dimension {n_basis}, got "
                    f"{nodes.shape}; the last sine is zero on so few nodes: use a larger grid or lower n_basis"
                )
            pairs = zip(nodes.axes, n_basis, strict=True)
            self._matrices = [basis.values(x, n).T / len(x) for x, n in pairs]
        else:
            table = np.ones((nodes.n_nodes, 1))
            for x, n in zip(nodes.points.T, n_basis, strict=True):
                table = (table[:, :, None] * basis.values(x, n)[:, None, :]).reshape(nodes.n_nodes, -1)
            self._matrices = [(table * nodes.weights[:, None]).T]

    def astype(self, dtype: np.dtype[Any]) -> Projection:
        """The same projection with matrices of another dtype."""
        other = copy.copy(self)
        other._matrices = [np.ascontiguousarray(matrix, dtype) for matrix in self._matrices]
        return other

    def __call__(self, functions: Array, out: Array | None = None, scratch: Scratch | None = None) -> Array:
        """Coefficients of functions of many bags.

        Parameters
        ----------
        functions : ndarray of shape (n_functions, g_1, ..., g_{l-1}, n_bags, g_l)
            Values on the nodes, the bags second to last; (n_functions, n_bags, n_nodes) for scattered nodes.
        out : ndarray of shape (n_bags, n_functions * n_basis_functions), optional
            Where to write.
        scratch : Scratch, optional
            Memory for the products.

        Returns
        -------
        ndarray of shape (n_bags, n_functions * n_basis_functions)
        """
        scratch = Scratch() if scratch is None else scratch
        partial = contract_leading(functions, self._matrices[:-1], scratch, "projection")
        n_bags, sizes = partial.shape[-2], [len(matrix) for matrix in self._matrices]
        if out is None:
            out = np.empty((n_bags, len(functions) * self.n_basis_functions), functions.dtype)
        # The last product writes to its place in the result; a product and a copy would take half as long again.
        stored = np.moveaxis(out.reshape(n_bags, len(functions), *sizes), 0, -2)
        np.matmul(partial, self._matrices[-1].T, out=stored)
        return out
