r"""Symmetries of the unit cube, and what they do to projection coefficients.

Where a label does not change when all points of a bag are mirrored, swapped or shifted, a kernel should not either:

.. math:: \bar k(p, q) = \frac{1}{|G|} \sum_{g \in G} k(p, g q).

An element of G maps a point to x'_j = r_j(x_{π(j)}), where π swaps dimensions and r_j mirrors and shifts one of them.
The coefficients of the image of a density follow from those of the density, without its points:

.. math:: a_α(g f) = \int φ_α(g y) f(y)\, dy, \qquad φ_α(g y) = \prod_j φ_{α_j}(r_j(y_{π(j)})).

- Cosines and Legendre polynomials have φ_k(1 - x) = (-1)^k φ_k(x): a sign.
- Fourier functions have signs for x -> 1 - x, and for a shift s a turn of cos(2πmx) and sin(2πmx) by the angle 2πms.
- Swapped dimensions swap indices: a permutation of the coefficients.

So an element of a group costs one gather and one product per coefficient, times two for each shifted dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import storable, within
from .functions import Basis, Cosine, Fourier, Legendre

MAX_ORDER = 512  # elements of a group: each is a pass over the random features


class Element(NamedTuple):
    """One map of the unit cube to itself: x'_j = x_{swaps[j]}, mirrored where ``flips[j]``, plus ``shifts[j]``."""

    swaps: tuple[int, ...]
    flips: tuple[bool, ...]
    shifts: tuple[float, ...]

    def move(self, points: Array) -> Array:
        """Images of points of shape (n_points, n_dims).

        Examples
        --------
        >>> Element((1, 0), (True, False), (0.0, 0.25)).move(np.array([[0.125, 0.875]]))
        array([[0.125, 0.375]])
        """
        moved = np.where(self.flips, 1 - points[:, self.swaps], points[:, self.swaps])
        return np.where(self.shifts, (moved + self.shifts) % 1.0, moved).astype(points.dtype, copy=False)


@storable
@dataclass(frozen=True)
class Symmetries:
    """A group of maps of the unit cube to itself that change no label.

    Parameters
    ----------
    reflect : "all" or tuple of int, default=()
        Dimensions j in which x_j -> 1 - x_j changes nothing.
    swap : "all" or tuple of int, default=()
        Dimensions that may be exchanged in any order. They share n_basis, bandwidth and box.
    shift : "all" or tuple of int, default=()
        Periodic dimensions in which x_j -> x_j + 1/n_shifts changes nothing; for Fourier functions and
        ``KDE(boundary="periodic")``.
    n_shifts : int, default=8
        Number of shifts of each of these, those of all angles if it is large.

    Notes
    -----
    Shortcuts are ``"reflections"``, which is ``Symmetries(reflect="all")``, of order 2^l in l dimensions, and
    ``"dihedral"``, ``Symmetries(reflect="all", swap="all")``: the 2^l l! signed permutations of the cube. In one
    dimension that is the reflection, in two the eight flips and turns of the square. At most 512 elements.

    Rotations by other angles than right ones are not among them: they do not map the cube to itself, and coefficients
    of a square grid do not follow them exactly. Functions of points, one for each rotation, are a way, see
    :class:`~distembed.embeddings.symmetric.Orbit`.

    Examples
    --------
    >>> Symmetries(reflect=(0,)).order(2), Symmetries(reflect="all", swap="all").order(3)
    (2, 48)
    """

    reflect: str | tuple[int, ...] = ()
    swap: str | tuple[int, ...] = ()
    shift: str | tuple[int, ...] = ()
    n_shifts: int = 8

    def dimensions(self, n_dims: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Reflected, swapped and shifted dimensions, checked."""
        found = []
        for name in ("reflect", "swap", "shift"):
            given = getattr(self, name)
            dims = tuple(range(n_dims)) if isinstance(given, str) and given == "all" else given
            whole = not isinstance(dims, str) and np.ndim(dims) == 1 and all(isinstance(j, Integral) for j in dims)
            if not whole or not within(np.array(dims, int), n_dims) or len(set(dims)) < len(dims):
                raise ValueError(
                    f"Symmetries({name}=...): must be 'all' or different dimensions from 0 to {n_dims - 1}, got "
                    f"{given!r}; give a tuple such as (0,)"
                )
            found.append(tuple(int(j) for j in dims))
        check_number(self, "n_shifts", self.n_shifts, low=2, high=MAX_ORDER, integer=True)
        reflect, swap, shift = found
        for name, others in (("reflect", reflect), ("shift", shift)):
            if set(swap) & set(others) and not set(swap) <= set(others):
                raise ValueError(
                    f"Symmetries(swap={swap}, {name}={others}): do not form a group: what is true of a dimension "
                    f"must be true of those that it is swapped with; give {name} all of {swap}, or none"
                )
        return reflect, swap, shift

    def order(self, n_dims: int) -> int:
        """Number of elements; a ValueError if there are more than 512."""
        reflect, swap, shift = self.dimensions(n_dims)
        found = int(2 ** len(reflect) * factorial(len(swap)) * self.n_shifts ** len(shift))
        if found > MAX_ORDER:
            raise ValueError(
                f"symmetries: {found:,} elements in {n_dims} dimensions are more than {MAX_ORDER}, each of which is a "
                "pass over the random features; name fewer dimensions, such as Symmetries(reflect=(0,)), or fewer "
                "shifts"
            )
        return found

    def elements(self, n_dims: int) -> Iterator[Element]:
        """All of them, the identity first.

        Examples
        --------
        >>> [element.flips for element in Symmetries(reflect=(1,)).elements(2)]
        [(False, False), (False, True)]
        """
        reflect, swap, shift = self.dimensions(n_dims)
        self.order(n_dims)
        around = tuple(i / self.n_shifts for i in range(self.n_shifts))
        steps = [around if j in shift else (0.0,) for j in range(n_dims)]
        signs = [(False, True) if j in reflect else (False,) for j in range(n_dims)]
        for order in permutations(swap):
            swaps = list(range(n_dims))
            for j, k in zip(swap, order, strict=True):
                swaps[j] = k
            for flips, shifts in product(product(*signs), product(*steps)):
                yield Element(tuple(swaps), flips, shifts)


_NAMES = {"reflections": Symmetries(reflect="all"), "dihedral": Symmetries(reflect="all", swap="all")}


def get(symmetries: Any) -> Symmetries:
    """Symmetries by name; an object is returned as it is.

    Examples
    --------
    >>> get("reflections")
    Symmetries(reflect='all', swap=(), shift=(), n_shifts=8)
    """
    if isinstance(symmetries, Symmetries):
        return symmetries
    if isinstance(symmetries, str) and symmetries in _NAMES:
        return _NAMES[symmetries]
    raise ValueError(
        f"symmetries: must be {', '.join(map(repr, _NAMES))}, a Symmetries object or None, got {symmetries!r}; "
        "choose one"
    )


@storable(columns="int(o, k, t)", factors="finite(o, k, t)")
@dataclass(frozen=True, eq=False)
class CoefficientGroup:
    r"""A group that acts on projection coefficients: a_α -> Σ_t factors[g, α, t] a_{columns[g, α, t]}.

    Rows may hold coefficients of several functions, one block of \|V\| after the other, as those of
    :class:`~distembed.HDDEmbedding` do. All elements are orthogonal: they change no distance between rows.

    Parameters
    ----------
    columns : ndarray of int of shape (order, n_basis_functions, n_terms)
        Which coefficients an element takes, the identity first.
    factors : ndarray of shape (order, n_basis_functions, n_terms)
        What it multiplies them by: signs, or sines and cosines of shifts.

    Examples
    --------
    Cosines of one dimension, mirrored:

    >>> group = coefficient_group(Cosine(), np.array([[0], [1], [2]]), Symmetries(reflect=(0,)))
    >>> group.act(1, np.array([[1.0, 0.5, 0.25]])), group.mean(np.array([[1.0, 0.5, 0.25]]))
    (array([[ 1.  , -0.5 ,  0.25]]), array([[1.  , 0.  , 0.25]]))
    """

    columns: Array
    factors: Array

    def __distembed_fits__(self) -> bool:
        return self.order > 0 and self.columns.shape[2] > 0 and within(self.columns, self.columns.shape[1])

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.columns)

    def __repr__(self) -> str:
        return f"<CoefficientGroup of {self.order} elements on {self.columns.shape[1]:,} coefficients>"

    @property
    def n_pairs(self) -> int:
        """Number of pairs of images over which a kernel is averaged: an element for both sides changes nothing."""
        return self.order

    def pairs(self, first: Array, second: Array) -> Iterator[tuple[Array, Array]]:
        """These pairs: rows, and images of others."""
        return ((first, self.act(i, second)) for i in range(self.order))

    def width(self, n_columns: int) -> int:
        """How many columns an image of a row has: as many as the row, which must be whole blocks."""
        k = self.columns.shape[1]
        if n_columns % k:
            raise ValueError(
                f"RandomFourierFeatures(group=...): acts on blocks of {k:,} coefficients, got rows of {n_columns:,} "
                "columns; pass the group_ of the embedding that made the rows"
            )
        return n_columns

    def act(self, i: int, rows: Array, *, transposed: bool = False) -> Array:
        """Images of rows of shape (n_rows, n_columns) under element i, or under its transpose, which is its inverse."""
        k = self.columns.shape[1]
        blocks = rows.reshape(len(rows), -1, k)
        out = np.zeros_like(blocks)
        for columns, factors in zip(self.columns[i].T, self.factors[i].T.astype(rows.dtype), strict=True):
            if transposed:
                out[:, :, columns] += blocks * factors  # the columns of one term are all different
            else:
                out += blocks[:, :, columns] * factors
        return out.reshape(rows.shape)

    def mean(self, rows: Array) -> Array:
        """Mean of all images of rows: what no element changes."""
        found = self.act(0, rows)
        for i in range(1, self.order):
            found += self.act(i, rows)
        return np.asarray(found / self.order)


def coefficient_group(basis: Basis, indices: Array, symmetries: Symmetries) -> CoefficientGroup:
    """What symmetries do to the coefficients of a basis.

    Examples
    --------
    Fourier functions shifted by a quarter: cos 2π(x + 1/4) = -sin 2πx.

    >>> quarter = coefficient_group(Fourier(), np.array([[0], [1], [2]]), Symmetries(shift=(0,), n_shifts=4))
    >>> quarter.act(1, np.array([[1.0, 0.3, 0.2]])).round(6)
    array([[ 1. , -0.2,  0.3]])

    Parameters
    ----------
    basis : Cosine, Fourier or Legendre
        Cosines and polynomials have no shifts.
    indices : ndarray of shape (n_basis_functions, n_dims)
        The multi-indices α; swapped dimensions must have the same, and shifted ones both functions of each frequency.
    symmetries : Symmetries

    Returns
    -------
    CoefficientGroup
    """
    n_dims = indices.shape[1]
    _, _, shift = symmetries.dimensions(n_dims)
    name = type(basis).__name__
    if not isinstance(basis, Cosine | Fourier | Legendre) or (shift and not isinstance(basis, Fourier)):
        what = "shifts" if isinstance(basis, Cosine | Legendre) else "symmetries"
        raise ValueError(
            f"symmetries: the basis {name} does not follow {what}, got {symmetries}; use basis='fourier' for shifts, "
            "'cosine' for reflections and swaps, or functions of points"
        )
    rows = {tuple(alpha): i for i, alpha in enumerate(indices.tolist())}
    waves = isinstance(basis, Fourier)
    elements = symmetries.elements(n_dims)
    found = [_terms(waves, indices, element, shift, rows) for element in elements]
    columns, factors = (np.stack(each) for each in zip(*found, strict=True))
    return CoefficientGroup(columns, factors)


def _terms(
    waves: bool, indices: Array, element: Element, shift: tuple[int, ...], rows: dict[tuple[int, ...], int]
) -> tuple[Array, Array]:
    """Columns and factors (n_basis_functions, n_terms) of one element: 2 terms for each shifted dimension."""
    columns = []
    factors = []
    for crossed in product(*[(False, True) if j in shift else (False,) for j in range(indices.shape[1])]):
        taken = np.empty_like(indices)
        factor = np.ones(len(indices))
        for j, (k, source) in enumerate(zip(indices.T, element.swaps, strict=True)):
            taken[:, source], own = _along(waves, k, element.flips[j], element.shifts[j], crossed[j])
            factor *= own
        try:
            columns.append([rows[alpha] for alpha in map(tuple, taken.tolist())])
        except KeyError:
            raise ValueError(
                "symmetries: the basis functions do not map to each other; swapped dimensions must have the same "
                "n_basis, and shifted ones an odd n_basis, for both functions of each frequency"
            ) from None
        factors.append(factor)
    return np.array(columns).T, np.array(factors).T


def _along(waves: bool, k: Array, flip: bool, shift: float, crossed: bool) -> tuple[Array, Array]:
    """φ_k(±y + s) = factor φ_k(y) + other factor φ_partner(y): indices and factors of the first, or second, term."""
    if not waves:
        return k, (-1.0) ** (k * flip)
    sine = (k > 0) & (k % 2 == 0)
    m = (k + 1) // 2
    sign = -1.0 if flip else 1.0
    angle = 2 * np.pi * (m * shift % 1.0)
    if not crossed:
        return k, np.cos(angle) * np.where(sine, sign, 1.0)
    partner = np.where(k == 0, 0, np.where(sine, k - 1, k + 1))
    return partner, np.where(k == 0, 0.0, np.sin(angle) * np.where(sine, 1.0, -sign))
