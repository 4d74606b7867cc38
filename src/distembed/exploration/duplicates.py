"""Bags that are copies of each other, or nearly so.

Rows of points are hashed. Two bags are near duplicates if they share most of their rare rows: the Jaccard index of
these, common rows over all rows, is at least .8. Candidates come from minimal hashes, so no two bags are compared that
share nothing. Rows that stand in many bags, such as a handful of labels, show nothing and do not count.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ..bags import as_bags
from ..compute.arrays import Array

NEAR = 0.8  # Jaccard index of near duplicates
_BANDS = 8
_IN_A_BAND = 3
_COMMON = 0.01  # share of bags that may have a row, and three, for it to count
_MOST_IN_BUCKET = 50


class Duplicate(NamedTuple):
    """Two bags that share their points: positions, and the share of rows in common (1: all of them)."""

    first: int
    second: int
    shared: float


def near_duplicates(X: Any) -> list[Duplicate]:
    """Pairs of bags that are copies, or share at least four fifths of their rows.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags.

    Returns
    -------
    list of Duplicate
        Those that share most first.

    Notes
    -----
    A pair at the limit of .8 is found with a probability of .99. Cost: O(n_points), and the candidates.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> arrays = [rng.normal(size=(30, 2)) for _ in range(20)]
    >>> arrays[5] = arrays[3][::-1]  # the same points in another order
    >>> de.exploration.near_duplicates(arrays)
    [Duplicate(first=3, second=5, shared=1.0)]
    """
    bags = as_bags(X).drop_weightless()
    hashes = _hash_rows(bags.points)
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    rare = _rare(hashes, owner, bags.n_bags)
    hashes, owner = hashes[rare], owner[rare]
    counts = np.bincount(owner, minlength=bags.n_bags)
    there = np.flatnonzero(counts >= np.maximum(1, 0.5 * bags.sizes))
    if len(there) < 2:
        return []
    keep = np.isin(owner, there)
    hashes, owner = hashes[keep], owner[keep]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    ends = np.append(starts[1:], len(owner))
    sets = {int(owner[a]): np.unique(hashes[a:b]) for a, b in zip(starts, ends, strict=True)}
    found = []
    for i, j in sorted(_candidates(hashes, starts, owner[starts])):
        common = len(np.intersect1d(sets[i], sets[j], assume_unique=True))
        shared = common / (len(sets[i]) + len(sets[j]) - common)
        if shared >= NEAR:
            found.append(Duplicate(i, j, float(shared)))
    return sorted(found, key=lambda each: -each.shared)


def _hash_rows(points: Array) -> Array:
    """A number of 64 bits for each row."""
    bits = np.ascontiguousarray(points + 0.0, np.float64).view(np.uint64)
    found = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        found = _mix(found ^ _mix(column + np.uint64(0x9E3779B97F4A7C15)))
    return found


def _mix(x: Array) -> Array:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _rare(hashes: Array, owner: Array, n_bags: int) -> Array:
    """Which rows stand in few bags."""
    order = np.lexsort((owner, hashes))
    h, o = hashes[order], owner[order]
    new = np.r_[True, h[1:] != h[:-1]]
    another = new | np.r_[True, o[1:] != o[:-1]]
    in_bags = np.bincount(np.cumsum(new) - 1, another)
    found = np.empty(len(hashes), bool)
    found[order] = in_bags[np.cumsum(new) - 1] <= max(3, _COMMON * n_bags)
    return found


def _candidates(hashes: Array, starts: Array, names: Array) -> set[tuple[int, int]]:
    """Pairs of bags that agree in all minimal hashes of some band."""
    found: set[tuple[int, int]] = set()
    rng = np.random.default_rng(0)
    for _ in range(_BANDS):
        key = np.zeros(len(starts), np.uint64)
        for salt in rng.integers(1, 2**63, _IN_A_BAND).astype(np.uint64):
            key = _mix(key ^ np.minimum.reduceat(_mix(hashes ^ salt), starts))
        order = np.argsort(key, kind="stable")
        cuts = np.flatnonzero(np.diff(key[order])) + 1
        for bucket in np.split(order, cuts):
            if len(bucket) > 1:
                some = sorted(names[bucket[:_MOST_IN_BUCKET]].tolist())
                found |= set(combinations(some, 2))
    return found
