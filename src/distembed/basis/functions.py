r"""Orthonormal bases of L2([0,1]^l) and projection onto them.

A one-dimensional basis φ_0 = 1, φ_1, ... and an index set V (:mod:`distembed.basis.index_sets`) give the functions
φ_α(x) = Π_j φ_{α_j}(x_j), α in V, and a function f has the coefficients a_α(f) = ∫ φ_α f. With integration nodes u_i of
volume v_i (equation ApNumInt of the paper, v_i = 1/n_e)

.. math:: â_α(f) = \sum_i v_i φ_α(u_i) f(u_i).

On a grid the sum separates, one small matrix product a dimension: O(n_basis n_nodes) instead of O(n_basis^l n_nodes).
The cosines are the natural basis for densities with reflecting boundaries, the Fourier basis for periodic ones,
Legendre polynomials for smooth densities with a slope at the faces.

*Orthonormal on the nodes.* The sum is exact for cosines on a grid, but at scattered nodes its error adds about
\|V\| / n_nodes of itself to every squared distance. The remedy is to make the functions orthonormal under the sum,
Σ_i v_i φ'_α(u_i) φ'_β(u_i) = δ_αβ, by a QR decomposition of their table. Then functions of the span come out exact,
others lose their least-squares residual, and squared distances never exceed Σ_i v_i \|f - g\|²(u_i).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..compute.arrays import Array, Scratch, contract_leading
from ..compute.registry import storable, within
from ..density.nodes import GridNodes, PointNodes
from . import index_sets
from .index_sets import IndexSet

MOST_PRODUCTS = 2**23  # of functions along the dimensions, in a model file
MAX_TABLE = 2**28  # entries of the functions at scattered nodes: 2 GB


class LowEnergyWarning(UserWarning):
    """The functions that an embedding is made of miss much of the training bags.

    Attributes
    ----------
    energy : float
        The share that they capture.
    n_basis_functions : int
        How many they are.

    Examples
    --------
    >>> LowEnergyWarning("10 basis functions capture half", 0.5, 10).energy
    0.5
    """

    def __init__(self, message: str, energy: float, n_basis_functions: int) -> None:
        super().__init__(message)
        self.energy = energy
        self.n_basis_functions = n_basis_functions


@dataclass(frozen=True)
class Basis:
    """Base of the bases: functions of one dimension, and products of them, chosen by an index set."""

    index_set: str | IndexSet = "auto"

    def values(self, x: Array, n: int) -> Array:
        """The first n functions at x, ndarray of shape (len(x), n)."""
        raise NotImplementedError

    def degrees(self, n: int) -> Array:
        """Degrees of the first n functions, ndarray of shape (n,)."""
        return np.arange(n)

    def turns(self, n_basis: Sequence[int]) -> tuple[int, ...]:
        """Cosines that turn as fast as the first n functions do anywhere: what a grid must resolve."""
        return tuple(n_basis)

    def indices(self, n_basis: Sequence[int], limit: int = index_sets.MAX_FUNCTIONS) -> Array:
        """Multi-indices of the basis for this many functions along each dimension.

        Parameters
        ----------
        n_basis : sequence of int
            Functions along each dimension.
        limit : int
            Largest number of functions in all; more raises :class:`~distembed.basis.index_sets.TooManyFunctions`.

        Returns
        -------
        ndarray of shape (n_basis_functions, n_dims)
            In lexicographic order, the last index fastest.
        """
        return index_sets.get(self.index_set).indices([self.degrees(n) for n in n_basis], limit)


@storable
@dataclass(frozen=True)
class Cosine(Basis):
    """The cosine basis: φ_0 = 1, φ_k(x) = √2 cos(πkx), of degree k.

    Parameters
    ----------
    index_set : {"auto", "tensor", "total_degree", "hyperbolic_cross", "sobolev"} or index set, default="auto"
        Which products of functions to take in several dimensions, see :mod:`distembed.basis.index_sets`.

    Examples
    --------
    >>> Cosine().values(np.array([0.0, 0.5]), 3).round(3)
    array([[ 1.   ,  1.414,  1.414],
           [ 1.   ,  0.   , -1.414]])
    >>> Cosine(index_set="total_degree").indices((3, 2)).tolist()
    [[0, 0], [0, 1], [1, 0], [2, 0]]
    """

    def values(self, x: Array, n: int) -> Array:
        """The first n functions at x, ndarray of shape (len(x), n)."""
        scale = np.where(np.arange(n) == 0, 1.0, np.sqrt(2))
        return np.asarray(scale * np.cos(np.pi * np.multiply.outer(x, np.arange(n))))


@storable
@dataclass(frozen=True)
class Fourier(Basis):
    """The real Fourier basis: 1, √2 cos(2πx), √2 sin(2πx), √2 cos(4πx), ..., function k of degree ⌊(k+1)/2⌋.

    Parameters
    ----------
    index_set : {"auto", "tensor", "total_degree", "hyperbolic_cross", "sobolev"} or index set, default="auto"
        Which products of functions to take in several dimensions, see :mod:`distembed.basis.index_sets`.

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

    def degrees(self, n: int) -> Array:
        """Frequencies of the first n functions, ndarray of shape (n,)."""
        return (np.arange(n) + 1) // 2


@storable
@dataclass(frozen=True)
class Legendre(Basis):
    """Legendre polynomials moved to the unit interval: φ_k(x) = √(2k+1) P_k(2x - 1), of degree k.

    They follow smooth densities with a slope at 0 and 1 better than as many cosines; narrow bumps inside the interval
    only from some six functions per dimension on. They turn faster near the ends, where the midpoints of a grid are too
    few for the integrals of their products; so on a grid they are made orthonormal under the sum over the nodes, which
    makes them the discrete (Gram) polynomials of that grid.

    Parameters
    ----------
    index_set : {"auto", "tensor", "total_degree", "hyperbolic_cross", "sobolev"} or index set, default="auto"
        Which products of functions to take in several dimensions, see :mod:`distembed.basis.index_sets`.

    Examples
    --------
    >>> Legendre().values(np.array([0.0, 0.5, 1.0]), 3).round(3)
    array([[ 1.   , -1.732,  2.236],
           [ 1.   ,  0.   , -1.118],
           [ 1.   ,  1.732,  2.236]])
    """

    def turns(self, n_basis: Sequence[int]) -> tuple[int, ...]:
        """As zeros next to an end are 1/n² apart: n²/3 of them, but n²/5 in three dimensions, and 160 at most.

        Squared distances on automatic grids are then within 2 % of those on much finer ones, and 0.5 % in the mean over
        pairs; without, they were up to 9 % off.

        Examples
        --------
        >>> Legendre().turns((4, 10)), Legendre().turns((10, 10, 10))
        ((6, 34), (20, 20, 20))
        """
        share, most = (5, 40) if len(n_basis) > 2 else (3, 160)
        return tuple(max(n, min(-(-n * n // share), most)) for n in n_basis)

    def values(self, x: Array, n: int) -> Array:
        """The first n functions at x, by the three-term recurrence: ndarray of shape (len(x), n)."""
        y = 2 * np.asarray(x, float) - 1
        table = np.ones((len(y), n))
        if n > 1:
            table[:, 1] = y
        for k in range(1, n - 1):
            table[:, k + 1] = ((2 * k + 1) * y * table[:, k] - k * table[:, k - 1]) / (k + 1)
        return table * np.sqrt(2 * np.arange(n) + 1)


_BASES: dict[str, type[Basis]] = {"cosine": Cosine, "fourier": Fourier, "legendre": Legendre}


def get(basis: str | Basis) -> Basis:
    """A basis by name; an object is returned as it is.

    Examples
    --------
    >>> get("fourier")
    Fourier(index_set='auto')
    """
    if isinstance(basis, Basis):
        return basis
    if isinstance(basis, str) and basis in _BASES:
        return _BASES[basis]()
    raise ValueError(
        f"basis: must be one of {', '.join(map(repr, _BASES))} or a basis object, got {basis!r}; choose one"
    )


def orthonormal(table: Array, weights: Array) -> Array:
    """Functions made orthonormal under a weighted sum, one after the other, from the first.

    Parameters
    ----------
    table : ndarray of shape (n_nodes, n_functions)
        Values on the nodes.
    weights : ndarray of shape (n_nodes,)
        Volumes of the nodes, nonnegative.

    Returns
    -------
    ndarray of shape (n_nodes, n_functions)
        Q with Q' Q = 1 and the same span as √weights · table: coefficients of f are Q' (√weights f). Functions beyond
        the number of nodes are zero: the others span everything.

    Notes
    -----
    By a QR decomposition, O(n_nodes n_functions²); a Cholesky decomposition of the Gram matrix would fail where nodes
    lie in a small part of the cube, on which smooth functions are almost dependent.

    Examples
    --------
    >>> x = np.array([0.1, 0.5, 0.9])
    >>> q = orthonormal(Legendre().values(x, 2), np.full(3, 1 / 3))
    >>> (q.T @ q).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    q, r = np.linalg.qr(table * np.sqrt(weights)[:, None])
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)  # close to the functions themselves, not to their negatives
    missing = table.shape[1] - q.shape[1]
    return np.pad(q, ((0, 0), (0, missing))) if missing else q


def products(basis: Basis, indices: Array, points: Array) -> Array:
    """Values of φ_α at points for the α of an index set, ndarray of shape (n_basis_functions, n_points).

    Cost: one product for each nonzero entry of α and each point.

    Examples
    --------
    >>> products(Cosine(), np.array([[0, 1], [1, 1]]), np.array([[0.0, 0.0]])).round(3)
    array([[1.414],
           [2.   ]])
    """
    if indices.shape[0] * len(points) > MAX_TABLE:
        raise ValueError(
            f"basis: {len(indices):,} functions at {len(points):,} nodes make a table of more than {MAX_TABLE:,} "
            "numbers; lower n_basis, choose a smaller index_set such as 'hyperbolic_cross', or use fewer nodes"
        )
    table = np.ones((len(indices), len(points)))
    for x, k in zip(points.T, indices.T, strict=True):
        rows = np.flatnonzero(k)
        if len(rows):
            table[rows] *= basis.values(x, int(k.max()) + 1).T[k[rows]]
    return table


def evenly(nodes: GridNodes | PointNodes) -> tuple[GridNodes | PointNodes, Array | None]:
    r"""Nodes with equal volumes in the same places, and the factors of densities that compensate.

    Densities may be taken relative to any other without a change of their homogeneous distances. Relative to that of
    the nodes, which is about 1/(n v_i) at node i,

    .. math:: \sum_i v_i κ(p_i, q_i) = \frac1n \sum_i κ(n v_i p_i, n v_i q_i).

    Where nodes follow the bags, the ratios p / m on the right are much smoother than p itself and need far fewer basis
    functions, which are then orthonormal under the density of the nodes.

    Parameters
    ----------
    nodes : GridNodes or PointNodes
        With volumes v_i.

    Returns
    -------
    nodes : GridNodes or PointNodes
        With volumes 1/n.
    factors : ndarray of shape (n_nodes,) or None
        n v_i; None if all are one.

    Examples
    --------
    >>> evenly(PointNodes(np.array([[0.1], [0.2]]), np.array([0.2, 0.8])))[1]
    array([0.4, 1.6])
    """
    if isinstance(nodes, GridNodes):
        return nodes, None
    n = nodes.n_nodes
    factors = n * nodes.weights
    if np.allclose(factors, 1, rtol=0, atol=1e-12):
        return nodes, None
    return PointNodes(nodes.points, np.full(n, 1 / n)), factors


@storable(indices="int(k, l)", n_basis_functions="k", columns="int(k) | None", matrices="list[finite(_, _)]")
class Projection:
    """Projection of functions on given nodes onto a basis, prepared once.

    Parameters
    ----------
    basis : Basis
        The one-dimensional basis with its index set.
    n_basis : tuple of int
        Functions along each dimension.
    nodes : GridNodes or PointNodes
        Where the functions are given.
    orthonormalise : bool, default=False
        Whether functions at scattered nodes are made orthonormal under the sum over the nodes, see :func:`orthonormal`.
        False is the paper's plain sum. On a grid cosines and Fourier functions are orthonormal as they are, and
        Legendre polynomials are always made so.
    indices : ndarray of shape (n_basis_functions, n_dims), optional
        Multi-indices of the basis, if they are known already.

    Attributes
    ----------
    indices : ndarray of shape (n_basis_functions, n_dims)
        The multi-indices α, the last one fastest.
    n_basis_functions : int
        Their number.

    Examples
    --------
    >>> onto = Projection(Cosine(), (3,), GridNodes((1000,)))
    >>> p = 2 * GridNodes((1000,)).points.T  # p(x) = 2x for one bag; a_1 = -4 sqrt(2) / pi^2
    >>> onto(p[None]).round(4) + 0.0
    array([[ 1.    , -0.5732,  0.    ]])
    """

    def __init__(
        self,
        basis: Basis,
        n_basis: tuple[int, ...],
        nodes: GridNodes | PointNodes,
        *,
        orthonormalise: bool = False,
        indices: Array | None = None,
    ) -> None:
        self.indices = basis.indices(n_basis) if indices is None else indices
        self.n_basis_functions = len(self.indices)
        self.columns: Array | None = None  # of the tensor basis, where the index set is smaller
        if isinstance(nodes, GridNodes):
            if isinstance(basis, Fourier) and any(n == size for n, size in zip(n_basis, nodes.shape, strict=True)):
                raise ValueError(
                    f"Grid(size=...): must have more nodes than Fourier functions along each dimension {n_basis}, got "
                    f"{nodes.shape}; the last sine is zero on so few nodes: use a larger grid or lower n_basis"
                )
            sizes = tuple(int(k) + 1 for k in self.indices.max(axis=0))
            self.matrices = [_on_axis(basis, x, n) for x, n in zip(nodes.axes, sizes, strict=True)]
            if self.n_basis_functions < np.prod(sizes):
                self.columns = np.ravel_multi_index(tuple(self.indices.T), sizes)
        else:
            table = products(basis, self.indices, nodes.points)
            if orthonormalise:
                self.matrices = [orthonormal(table.T, nodes.weights).T * np.sqrt(nodes.weights)]
            else:
                self.matrices = [table * nodes.weights]

    def __distembed_fits__(self) -> bool:
        n = prod(len(matrix) for matrix in self.matrices)
        columns = self.columns
        return n <= MOST_PRODUCTS and (n == self.n_basis_functions if columns is None else within(columns, n))

    def astype(self, dtype: np.dtype[Any]) -> Projection:
        """A copy of the projection with matrices of another dtype."""
        other = copy.copy(self)
        other.matrices = [np.ascontiguousarray(matrix, dtype) for matrix in self.matrices]
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
        partial = contract_leading(functions, self.matrices[:-1], scratch, "projection")
        n_bags = partial.shape[-2]
        sizes = [len(matrix) for matrix in self.matrices]
        if out is None:
            out = np.empty((n_bags, len(functions) * self.n_basis_functions), functions.dtype)
        tensor = out
        if self.columns is not None:
            tensor = scratch("tensor coefficients", (n_bags, len(functions), *sizes), functions.dtype)
        # The last product writes to its place in the result; a product and a copy would take half as long again.
        stored = np.moveaxis(tensor.reshape(n_bags, len(functions), *sizes), 0, -2)
        np.matmul(partial, self.matrices[-1].T, out=stored)
        if self.columns is not None:
            np.take(
                tensor.reshape(n_bags, len(functions), -1),
                self.columns,
                axis=2,
                out=out.reshape(n_bags, len(functions), -1),
                mode="clip",  # writes to its place; the other modes make a copy first
            )
        return out


def _on_axis(basis: Basis, x: Array, n: int) -> Array:
    """Matrix (n, len(x)) from a function on the midpoints x of an axis to its coefficients."""
    values = basis.values(x, n)
    if isinstance(basis, Legendre):
        return np.asarray(orthonormal(values, np.full(len(x), 1 / len(x))).T / np.sqrt(len(x)))
    return values.T / len(x)
