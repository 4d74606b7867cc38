"""Distances from places to the k-th nearest points of a bag, by a tree or by a matrix product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

__all__ = ["Neighbours"]

Array = NDArray[Any]

# A tree pays for itself up to three dimensions, and beyond for bags of more than 16 · 2^d points; in others it looks at
# so many points that a product of matrices, which looks at all, is faster (measured for 200 and 2,000 points).
_TREE_DIMS = 3
_TREE_POINTS = 16
_BLOCK_PAIRS = 2**18  # distances at a time
_CANCELLED = 1e-3  # of the size of its terms: a squared distance that has lost three digits
_EPS = float(np.finfo(np.float64).eps)


class Neighbours:
    """Distances from places to the k-th nearest points of one bag, and the bag's smallest positive distance."""

    def __init__(self, points: Array) -> None:
        n, d = points.shape
        self.points = points
        self.tree = cKDTree(points) if d <= _TREE_DIMS or n > _TREE_POINTS * 2**d else None
        self._gap: float | None = None

    def log_distances(self, places: Array, ks: list[int], own: bool = False) -> Array:
        """Logarithms of distances, shape (n_places, len(ks)); ``own``: places are the points, and see the others."""
        found = self._distances(places, [k + own for k in ks])  # the first neighbour of a point is itself
        zero = found == 0
        if zero.any():
            found[zero] = self.gap
        return np.log(found, out=found)

    def _distances(self, places: Array, ks: list[int]) -> Array:
        return self._by_products(places, ks) if self.tree is None else self.tree.query(places, k=ks)[0]

    def _by_products(self, places: Array, ks: list[int]) -> Array:
        """By |x|² - 2xy + |y|², and by differences where that cancels."""
        at, centre = [k - 1 for k in ks], self.points.mean(axis=0)
        y = self.points - centre
        squares, minus_2y = np.einsum("ij,ij->i", y, y), -2 * y.T
        found, step = np.empty((len(places), len(ks))), max(1, _BLOCK_PAIRS // len(y))
        for start in range(0, len(places), step):
            x = places[start : start + step] - centre
            d2 = x @ minus_2y
            d2 += squares
            d2.partition(sorted(set(at)), axis=1)
            sizes = np.einsum("ij,ij->i", x, x)
            nearest = d2[:, at] + sizes[:, None]
            unsure = np.flatnonzero((nearest < _CANCELLED * (sizes[:, None] + squares.max())).any(axis=1))
            found[start : start + step] = np.sqrt(np.maximum(nearest, 0))
            if len(unsure):
                found[start + unsure] = self._by_differences(places[start + unsure], at)
        return found

    def _by_differences(self, places: Array, at: list[int]) -> Array:
        found, step = np.empty((len(places), len(at))), max(1, _BLOCK_PAIRS // self.points.size)
        for start in range(0, len(places), step):
            gaps = places[start : start + step, None] - self.points
            distances = np.sqrt(np.einsum("ijk,ijk->ij", gaps, gaps))
            found[start : start + step] = np.sort(distances, axis=1)[:, at]
        return found

    @property
    def gap(self) -> float:
        """The smallest positive distance between two points, or 2^-52 if all are equal."""
        if self._gap is None:
            self._gap, distinct = _EPS, np.unique(self.points, axis=0)
            if len(distinct) > 1:
                nearest = Neighbours(distinct)._distances(distinct, [2])
                self._gap = float(nearest.min(where=nearest > 0, initial=math.inf))
                self._gap = self._gap if self._gap < math.inf else _EPS  # squares of differences may vanish
        return self._gap
