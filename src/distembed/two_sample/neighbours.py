"""Divergences from nearest neighbours for many splits of one pool, from one search for neighbours.

Who is near whom is the same for all splits; what changes is who belongs to whom. So every point has a list of its
nearest points in the pool, and its k-th neighbour in its own bag and in the other one is found by counting along that
list. :func:`distembed.divergences.knn` looks for neighbours anew for every pair of bags.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma, gammaln, logsumexp
from scipy.stats import binom

__all__ = ["NeighbourLists", "lists_are_short"]

Array = NDArray[Any]

_LIST_FAILS = 1e-3  # chance that some list of a split is too short, which costs a search of its own
_LONGEST_LIST, _MOST_LISTED = 512, 2**24  # beyond, a search for every split is faster, and lists take much memory
_LARGEST_LOG = 600.0  # as in divergences.knn: larger values become e^600


class NeighbourLists:
    """k-th neighbours of all points of a pool, whatever the split.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        The pool.
    sizes : tuple of int
        Points of the first and of the second bag, two at least.
    name : str
        ``"kl"``, ``"renyi:<a>"``, ``"tsallis:<a>"`` or ``"hellinger"``.
    k : int
        Which neighbour; in a bag of no more than k points the last.

    Attributes
    ----------
    distinct : bool
        Whether no two points are equal. Otherwise these lists are of no use: the distance of copies has a rule of its
        own, which depends on the bag.

    Examples
    --------
    >>> lists = NeighbourLists(np.array([[0.0], [1.0], [3.0], [7.0]]), (2, 2), "kl", 1)
    >>> lists.both_ways(np.array([[True, True, False, False]])).round(4)
    array([1.0692])
    """

    def __init__(self, points: Array, sizes: tuple[int, int], name: str, k: int) -> None:
        n_points, self.n_dims = points.shape
        exponent = math.frexp(float(np.abs(points).max()))[1]
        scaled = np.ldexp(points, -exponent)  # squares of coordinates neither overflow nor vanish
        self.sizes, self.name = np.array(sizes), name.partition(":")[0]
        self.a = float(name.partition(":")[2] or 0.5)
        self.ks = np.minimum(k, self.sizes - 1)
        length = _list_length(n_points, int(self.ks.max()), min(sizes) / n_points)
        gaps, self.order = cKDTree(scaled).query(scaled, k=length + 1)
        self.distinct = bool(np.all(gaps[:, 1] > 0))
        if self.distinct:
            self.order = self.order[:, 1:]  # a point is not its own neighbour
            self.logs = np.log(gaps[:, 1:])

    @property
    def values_a_row(self) -> int:
        """Numbers that a split takes while it is looked at."""
        return int(self.order.size)

    def both_ways(self, rows: NDArray[np.bool_]) -> Array:
        """Means of the two directions, ndarray of shape (n_rows,); NaN where a list is too short."""
        same = rows[:, self.order] == rows[:, :, None]
        own = np.cumsum(same, axis=2, dtype=np.int32)
        other = np.arange(1, own.shape[2] + 1, dtype=np.int32) - own
        k_own = np.where(rows, *self.ks)[:, :, None]
        k_other = np.where(rows, *self.ks[::-1])[:, :, None]
        found = (own[:, :, -1:] >= k_own).all(axis=(1, 2)) & (other[:, :, -1:] >= k_other).all(axis=(1, 2))
        everyone = np.arange(rows.shape[1])
        rho = self.logs[everyone, np.argmax(own == k_own, axis=2)]
        nu = self.logs[everyone, np.argmax(other == k_other, axis=2)]
        ratios = self.n_dims * (rho - nu)
        values = (self._one_way(ratios, rows, 0) + self._one_way(ratios, ~rows, 1)) / 2
        return np.asarray(np.where(found, values, np.nan))

    def _one_way(self, ratios: Array, rows: NDArray[np.bool_], p: int) -> Array:
        """The divergence of bag p (0 or 1), whose points rows mark, from the other bag."""
        (n, m), (kp, kq) = (pair[:: 1 if p == 0 else -1] for pair in (self.sizes, self.ks))
        log_counts = math.log((n - 1) / m)
        if self.name == "kl":
            means = np.sum(ratios, axis=1, where=rows) / n
            return np.asarray(-means - log_counts + digamma(kp) - digamma(kq))
        a = self.a
        factor = gammaln(kp) + gammaln(kq) - gammaln(kp - a + 1) - gammaln(kq + a - 1)
        logs = factor + (1 - a) * log_counts + logsumexp((1 - a) * ratios, axis=1, b=rows) - math.log(n)
        if self.name == "renyi":
            return np.asarray(logs / (a - 1))
        values = np.exp(np.minimum(logs, _LARGEST_LOG))
        return np.asarray((values - 1) / (a - 1) if self.name == "tsallis" else 1 - values)


def lists_are_short(sizes: tuple[int, int], k: int) -> bool:
    """Whether lists pay off. Bags of very unequal sizes would need nearly all points in every list.

    Examples
    --------
    >>> lists_are_short((500, 500), 4), lists_are_short((2, 3000), 4)
    (True, False)
    """
    n_points = sum(sizes)
    length = _list_length(n_points, min(k, max(sizes) - 1), min(sizes) / n_points)
    return length <= _LONGEST_LIST and n_points * length <= _MOST_LISTED


def _list_length(n_points: int, k: int, share: float) -> int:
    """How many of the nearest points hold k of the rarer kind for all points, but in one split of a thousand."""
    length = k
    while length < n_points - 1 and 2 * n_points * binom.cdf(k - 1, length, share) > _LIST_FAILS:
        length += max(1, length // 8)
    return min(length, n_points - 1)
