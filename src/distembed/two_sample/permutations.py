"""Which points, bags or pairs change places: all possibilities where they are few, else random ones.

Row 0 is always what was observed. Rows are kept as bits: 999 permutations of 100,000 points take 12 MB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Permutations", "splits", "swaps"]

Mask = NDArray[np.bool_]

_CHUNK_ITEMS = 2**20  # drawn or unpacked at a time
_CHUNK_ROWS = 128
_MANY_BITS = 40


@dataclass(frozen=True, eq=False)
class Permutations:
    """Rows of bits, one row a permutation, the observed one first.

    Attributes
    ----------
    bits : ndarray of shape (n_rows, n_items / 8) of uint8
        Packed rows.
    n_items : int
        Points, bags or pairs.
    exhaustive : bool
        Whether these are all distinct permutations, each once.

    Examples
    --------
    >>> some = splits(np.array([True, False, False]), 999, np.random.default_rng(0))
    >>> some.rows(slice(0, 3)).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    >>> len(some), some.n_permutations, some.exhaustive
    (3, 2, True)
    """

    bits: NDArray[np.uint8]
    n_items: int
    exhaustive: bool

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def n_permutations(self) -> int:
        """Rows beside the observed one."""
        return len(self.bits) - 1

    def rows(self, rows: slice, items: slice | None = None) -> Mask:
        """Rows as booleans, ndarray of shape (n_rows, n_items), or those of some items from a multiple of 8 on."""
        start, stop = (0, self.n_items) if items is None else (items.start, items.stop)
        packed = self.bits[rows, start // 8 : -(-stop // 8)]
        return np.unpackbits(packed, axis=1, count=stop - start).view(np.bool_)

    def chunks(self, values_a_row: int | None = None) -> list[slice]:
        """Slices of consecutive rows with about a million values in all, whatever the number of threads."""
        step = int(np.clip(_CHUNK_ITEMS // max(values_a_row or self.n_items, self.n_items), 1, _CHUNK_ROWS))
        return [slice(i, min(i + step, len(self))) for i in range(0, len(self), step)]


def splits(observed: Mask, n_permutations: int, rng: np.random.Generator) -> Permutations:
    """Splits of items into two parts of the observed sizes; True marks the first part.

    Where both parts have the same size, a split and its mirror image count as one: statistics must be symmetric.

    Parameters
    ----------
    observed : ndarray of shape (n_items,) of bool
        The observed split.
    n_permutations : int
        How many to draw, with replacement. If there are no more others than that, all are taken instead.
    rng : Generator
        Draws them.

    Returns
    -------
    Permutations

    Examples
    --------
    >>> drawn = splits(np.arange(40) < 10, 99, np.random.default_rng(0))
    >>> len(drawn), drawn.exhaustive, np.unique(drawn.rows(slice(0, 100)).sum(axis=1))
    (100, False, array([10]))
    """
    n_items, size = len(observed), int(observed.sum())
    halves = 2 * size == n_items
    many = min(size, n_items - size) > _MANY_BITS  # at least 2^size splits, a number too long to write down
    n_distinct = math.inf if many else math.comb(n_items, size) // (2 if halves else 1)
    if n_distinct - 1 <= n_permutations:
        n_distinct = int(n_distinct)
        chosen = islice(combinations(range(n_items), size), n_distinct)  # of halves those with item 0 come first
        return _all(observed, n_distinct, chosen)
    out = np.empty((n_permutations + 1, -(-n_items // 8)), np.uint8)
    out[0] = np.packbits(observed)
    step = max(1, _CHUNK_ITEMS // n_items)
    for start in range(1, len(out), step):
        block = out[start : start + step]
        drawn = rng.permuted(np.broadcast_to(observed, (len(block), n_items)), axis=1)
        block[:] = np.packbits(drawn, axis=1)
    return Permutations(out, n_items, False)


def swaps(n_pairs: int, n_permutations: int, rng: np.random.Generator) -> Permutations:
    """Pairs of which the two members change places; True marks those. To swap all is to swap none.

    Parameters
    ----------
    n_pairs : int
        Number of pairs.
    n_permutations : int
        As in :func:`splits`.
    rng : Generator
        Draws them.

    Returns
    -------
    Permutations

    Examples
    --------
    >>> swaps(3, 99, np.random.default_rng(0)).rows(slice(0, 4)).astype(int)
    array([[0, 0, 0],
           [0, 0, 1],
           [0, 1, 0],
           [0, 1, 1]])
    """
    observed = np.zeros(n_pairs, dtype=bool)
    if n_pairs <= _MANY_BITS and 2 ** (n_pairs - 1) - 1 <= n_permutations:
        numbers = np.arange(2 ** (n_pairs - 1), dtype=np.int64)
        bits = (numbers[:, None] >> np.arange(n_pairs - 1, -1, -1)) & 1
        return Permutations(np.packbits(bits.astype(bool), axis=1), n_pairs, True)
    out = np.empty((n_permutations + 1, -(-n_pairs // 8)), np.uint8)
    out[0] = np.packbits(observed)
    step = max(1, _CHUNK_ITEMS // n_pairs)
    for start in range(1, len(out), step):
        block = out[start : start + step]
        block[:] = np.packbits(rng.integers(0, 2, size=(len(block), n_pairs), dtype=np.int8).astype(bool), axis=1)
    return Permutations(out, n_pairs, False)


def _all(observed: Mask, n_distinct: int, chosen: Iterable[Any]) -> Permutations:
    """The observed split and all others."""
    rows = np.zeros((n_distinct, len(observed)), dtype=bool)
    for row, items in zip(rows, chosen, strict=True):
        row[list(items)] = True
    same = (rows == observed).all(axis=1) | (rows != observed).all(axis=1)  # of halves, it or its mirror image
    rows[np.flatnonzero(same)[0]] = rows[0]
    rows[0] = observed  # not mirrored: differences keep their sign
    return Permutations(np.packbits(rows, axis=1), len(observed), True)
