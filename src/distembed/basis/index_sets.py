r"""Index sets: which products of one-dimensional functions make up a basis in several dimensions.

A function φ_α(x) = Π_j φ_{α_j}(x_j) has the degree d_j = deg(α_j) along dimension j: the number of half waves of a
cosine, the frequency of a Fourier function, the degree of a polynomial. With n_j functions along dimension j, of
degrees up to m_j, and m = max m_j, the sets are

===========================  ======================================================================================
:class:`Tensor`              all α with α_j < n_j; Π n_j of them, which more than three dimensions can't afford
:class:`TotalDegree`         Σ_j m d_j / m_j ≤ m; C(m + l, l) for cosines and polynomials with equal m_j
:class:`HyperbolicCross`     Π_j (1 + m d_j / m_j) ≤ 1 + m; favours few dimensions at a time
:class:`SobolevEllipsoid`    Σ_j (m d_j / m_j)^(2s) ≤ m^(2s), or the paper's Σ_j d_j^(2s) ≤ t
:class:`Auto`                tensor up to three dimensions; beyond, some 1,000 functions of low total degree
===========================  ======================================================================================

so that along each axis every set but the last has exactly the n_j functions that were asked for.

No set is found by filtering a grid. Dimension by dimension, every prefix (α_1, ..., α_j) that fits is extended by the
functions that its remaining budget affords; as function 0 costs nothing, no prefix is in vain, and the cost is at most
n_dims a function. Budgets are exact integers wherever degrees and powers are, so nothing is lost or added on
the boundary by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, gcd, lcm, prod
from typing import Any

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import storable

__all__ = [
    "Auto", "HyperbolicCross", "IndexSet", "SobolevEllipsoid", "Tensor", "TooManyFunctions", "TotalDegree", "get",
]  # fmt: skip


MAX_FUNCTIONS = 1_000_000
AUTO_FUNCTIONS = 1000
AUTO_TENSOR_DIMS = 3
_ROUNDING = 1e-12  # relative; sums of powers that are equal but for rounding count as equal


class TooManyFunctions(ValueError):
    """An index set has more functions than its limit; ``n_functions`` is their number, None if not counted so far.

    Examples
    --------
    >>> raise TooManyFunctions("more than 10 functions")
    Traceback (most recent call last):
    ...
    distembed.basis.index_sets.TooManyFunctions: more than 10 functions
    """

    def __init__(self, message: str, n_functions: int | None = None) -> None:
        super().__init__(message)
        self.n_functions = n_functions


# --------------------------------------------------------------------------------------------------------------
# Enumeration
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """What each function costs along each dimension, and what all of them together may cost.

    Parameters
    ----------
    costs : list of sequences of n_j numbers
        Nondecreasing. Sums of costs are compared with ``total``; products if ``multiply``, and then costs are integers.
    total : int or float
        The most that an index may cost; an integer if costs are.
    multiply : bool
        Whether costs multiply.
    """

    costs: Sequence[Sequence[float]]
    total: float
    multiply: bool = False


def prefixes(budget: Budget, limit: int) -> Iterator[tuple[Array, Array]]:
    """Extend all affordable prefixes by one dimension at a time, in lexicographic order.

    Parameters
    ----------
    budget : Budget
        Of the set.
    limit : int
        Largest number of prefixes; more is an error before memory is taken for them.

    Yields
    ------
    parents, last : ndarray of shape (n_prefixes,)
        For each prefix of the next length: the number of the prefix that it extends, and the index it adds.
    """
    dtype: Any = float
    if isinstance(budget.total, int):  # Python's integers, slower but of any size, where 64 bits are too few
        dtype = np.int64 if max(budget.total, *(cost[-1] for cost in budget.costs)) < 2**62 else object
    costs = [np.array(cost, dtype) for cost in budget.costs]
    # Function 0 of the dimensions to come: nothing if costs add, at least this factor if they multiply.
    least = [prod(int(cost[0]) for cost in costs[j + 1 :]) for j in range(len(costs))] if budget.multiply else []
    remaining = np.array([budget.total], dtype)
    for j, cost in enumerate(costs):
        room = remaining // least[j] if budget.multiply else remaining
        counts = np.searchsorted(cost, room, side="right")
        n_prefixes = int(counts.sum())
        if n_prefixes > limit:
            raise TooManyFunctions(f"index_set: more than {limit:,} functions in {len(costs)} dimensions")
        parents = np.repeat(np.arange(len(counts)), counts)
        last = np.arange(n_prefixes) - np.repeat(np.cumsum(counts) - counts, counts)
        # ⌊⌊b / x⌋ / y⌋ = ⌊b / (x y)⌋ for integers, so that products stay exact.
        remaining = remaining[parents] // cost[last] if budget.multiply else remaining[parents] - cost[last]
        yield parents, last


def enumerate_indices(budget: Budget, limit: int = MAX_FUNCTIONS) -> Array:
    """All multi-indices within a budget, in lexicographic order: ndarray of shape (n_functions, n_dims).

    Examples
    --------
    >>> enumerate_indices(Budget([range(3), range(3)], 2)).tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]
    """
    steps = list(prefixes(budget, limit))
    row = np.arange(len(steps[-1][1]))
    indices = np.empty((len(row), len(steps)), int)
    for j, (parents, last) in reversed(list(enumerate(steps))):
        indices[:, j] = last[row]
        row = parents[row]
    return indices


def _to_integers(degrees: Sequence[Array]) -> tuple[list[list[int]], int]:
    """Integers proportional to m d_j / m_j, and the one that stands for m."""
    tops = [max(1, int(d[-1])) for d in degrees]
    common = lcm(*tops)
    return [[k * (common // top) for k in d.tolist()] for d, top in zip(degrees, tops, strict=True)], common


# --------------------------------------------------------------------------------------------------------------
# The value objects that users pass
# --------------------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class Tensor:
    """All products: α_j < n_j. Shortcut ``"tensor"``.

    Examples
    --------
    >>> Tensor().indices([np.arange(2), np.arange(2)]).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """

    def indices(self, degrees: Sequence[Array], limit: int = MAX_FUNCTIONS) -> Array:
        """The set for functions of these degrees, see :meth:`TotalDegree.indices`."""
        sizes = [len(d) for d in degrees]
        if prod(sizes) > limit:
            raise TooManyFunctions(f"index_set: {prod(sizes):,} functions, more than {limit:,}", prod(sizes))
        return np.indices(sizes).reshape(len(sizes), -1).T


@storable
@dataclass(frozen=True)
class TotalDegree:
    """Products whose degrees have a small sum, as of polynomials in several variables. Shortcut ``"total_degree"``.

    The largest sum is the degree of the last function along an axis; where n_basis differs between dimensions, degrees
    are scaled to each other. ``SobolevEllipsoid(s=0.5, t=...)`` is the same set with a sum of its own choice.

    Examples
    --------
    >>> len(TotalDegree().indices([np.arange(10)] * 5))  # 9 of 9 + 5: instead of 100,000
    2002
    """

    def indices(self, degrees: Sequence[Array], limit: int = MAX_FUNCTIONS) -> Array:
        """The set for functions of these degrees.

        Parameters
        ----------
        degrees : sequence of ndarray of shape (n_j,)
            Degree of each function along each dimension: nondecreasing integers, the first zero.
        limit : int
            Largest number of functions; more raises :class:`TooManyFunctions` before memory is taken for them.

        Returns
        -------
        ndarray of shape (n_functions, n_dims)
            Multi-indices α in lexicographic order, the last index fastest.
        """
        return enumerate_indices(Budget(*_to_integers(degrees)), limit)


@storable
@dataclass(frozen=True)
class HyperbolicCross:
    """Products whose degrees have a small product Π_j (1 + d_j). Shortcut ``"hyperbolic_cross"``.

    High degrees in one dimension at a time, low ones in several: for densities that are close to products, and for
    many dimensions. The largest product is 1 and the degree of the last function along an axis; where n_basis differs
    between dimensions, degrees are scaled to each other.

    Examples
    --------
    >>> HyperbolicCross().indices([np.arange(4), np.arange(4)]).tolist()
    [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [2, 0], [3, 0]]
    """

    def indices(self, degrees: Sequence[Array], limit: int = MAX_FUNCTIONS) -> Array:
        """The set for functions of these degrees, see :meth:`TotalDegree.indices`."""
        tops = [int(d[-1]) or 1 for d in degrees]
        m = max(int(d[-1]) for d in degrees)
        # Π (1 + m d_j / m_j) ≤ 1 + m, times Π m_j to be in integers, each factor in lowest terms.
        shared = [gcd(top, m) for top in tops]
        ones = [top // share for top, share in zip(tops, shared, strict=True)]
        parts = zip(degrees, ones, shared, strict=True)
        costs = [[one + k * (m // share) for k in d.tolist()] for d, one, share in parts]
        return enumerate_indices(Budget(costs, (1 + m) * prod(ones), multiply=True), limit)


@storable
@dataclass(frozen=True)
class SobolevEllipsoid:
    """The paper's set: ``Σ_j |d_j|^(2s) ≤ t``. Shortcut ``"sobolev"``.

    Functions of smoothness s have their largest coefficients in it. s = 1 is a ball, s = 1/2 is
    :class:`TotalDegree`, smaller s approaches the axes.

    Parameters
    ----------
    s : float, default=1.0
        Smoothness, positive; the paper has s ≤ 1.
    t : float, optional
        Size, whatever n_basis; the functions along an axis are at most n_basis all the same, so give n_basis above
        t^(1/(2s)) for the whole ellipsoid: a smaller one cuts it, and embeddings warn. By default the degree of the
        last function to the power 2s, with degrees scaled where n_basis differs between dimensions.

    Examples
    --------
    >>> SobolevEllipsoid(t=2).indices([np.arange(9), np.arange(9)]).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """

    s: float = 1.0
    t: float | None = None

    def indices(self, degrees: Sequence[Array], limit: int = MAX_FUNCTIONS) -> Array:
        """The set for functions of these degrees, see :meth:`TotalDegree.indices`."""
        power = 2 * check_number(self, "s", self.s, low=0, high=100, inclusive="right")
        if self.t is None:
            scaled, m = _to_integers(degrees)
        else:
            scaled = [d.tolist() for d in degrees]
            m = 1
            t = check_number(self, "t", self.t, low=0)
        if power == int(power):
            costs = [[k ** int(power) for k in d] for d in scaled]
            return enumerate_indices(Budget(costs, m ** int(power) if self.t is None else floor(t)), limit)
        total = 1.0 if self.t is None else t
        powers = [[(k / m) ** power for k in d] for d in scaled]
        return enumerate_indices(Budget(powers, total * (1 + _ROUNDING)), limit)

    def needs(self, degrees: Sequence[Array]) -> tuple[int, ...] | None:
        """Functions along each dimension that the whole ellipsoid takes, where these cut it; None where they do not.

        Examples
        --------
        >>> SobolevEllipsoid(t=200).needs([np.arange(10)] * 2), SobolevEllipsoid(t=80).needs([np.arange(10)] * 2)
        ((15, 15), None)
        """
        if self.t is None:
            return None
        top = floor(self.t ** (1 / (2 * self.s)) * (1 + _ROUNDING))
        pairs = [len(d) > 2 and d[1] == d[2] for d in degrees]  # a sine and a cosine of each degree
        found = tuple(1 + (2 if paired else 1) * top for paired in pairs)
        return found if any(len(d) < n for d, n in zip(degrees, found, strict=True)) else None


@storable
@dataclass(frozen=True)
class Auto:
    """A tensor basis up to three dimensions; beyond, low total degrees. Shortcut ``"auto"``, the default.

    In more than three dimensions it is :class:`TotalDegree` with the largest degree, up to that of the last
    function, that makes at most 1,000 functions: 9 in four dimensions, 7 in five, 6 in six, 3 in ten, but at least
    one. (With Fourier functions, of which two have each frequency, it is less.)

    Examples
    --------
    >>> [len(Auto().indices([np.arange(10)] * n_dims)) for n_dims in (2, 3, 4, 5, 6, 10)]
    [100, 1000, 715, 792, 924, 286]
    """

    def indices(self, degrees: Sequence[Array], limit: int = MAX_FUNCTIONS) -> Array:
        """The set for functions of these degrees, see :meth:`TotalDegree.indices`."""
        if len(degrees) <= AUTO_TENSOR_DIMS:
            return Tensor().indices(degrees, limit)
        costs, total = _to_integers(degrees)
        m = max(1, *(int(d[-1]) for d in degrees))
        scaled = [[k * m for k in cost] for cost in costs]
        for most in range(m, 1, -1):
            try:
                return enumerate_indices(Budget(scaled, total * most), min(limit, AUTO_FUNCTIONS))
            except TooManyFunctions:
                continue
        return enumerate_indices(Budget(scaled, total), limit)


IndexSet = Auto | Tensor | TotalDegree | HyperbolicCross | SobolevEllipsoid
_SETS: dict[str, type[IndexSet]] = {
    "auto": Auto,
    "tensor": Tensor,
    "total_degree": TotalDegree,
    "hyperbolic_cross": HyperbolicCross,
    "sobolev": SobolevEllipsoid,
}


def get(index_set: str | IndexSet) -> IndexSet:
    """An index set by name; an object is returned as it is.

    Examples
    --------
    >>> get("sobolev")
    SobolevEllipsoid(s=1.0, t=None)
    """
    if isinstance(index_set, IndexSet):
        return index_set
    if isinstance(index_set, str) and index_set in _SETS:
        return _SETS[index_set]()
    raise ValueError(
        f"index_set: must be one of {', '.join(map(repr, _SETS))} or an index set object, got {index_set!r}; choose one"
    )
