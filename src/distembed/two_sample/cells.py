"""Cells that fill the space: where two bags can be compared by counting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..compute.parallel import Scratch
from ..embeddings.codebook import NearestWord, learn_words

__all__ = ["clusters", "quantile_bins"]

Array = NDArray[Any]
Labels = NDArray[np.intp]

_BLOCK_POINTS = 2**16


def quantile_bins(values: Array, masses: Array, n_bins: int) -> Labels:
    """Bins of about equal mass on a line, by repeated cuts at the middle.

    Parameters
    ----------
    values : ndarray of shape (n_points,)
        The points. Equal ones stay together.
    masses : ndarray of shape (n_points,)
        What they count.
    n_bins : int
        Number of bins; as many as there are distinct values, if those are fewer.

    Returns
    -------
    ndarray of shape (n_points,) of int
        Bin of each point, from left to right. Whatever the order of points and their units.

    Examples
    --------
    >>> quantile_bins(np.array([7.0, 1.0, 2.0, 9.0, 1.0, 8.0]), np.ones(6), 3)
    array([1, 0, 1, 2, 0, 2])
    """
    distinct, which = np.unique(values, return_inverse=True)
    below = np.append(0.0, np.cumsum(np.bincount(which, masses)))
    labels = np.empty(len(distinct), np.intp)
    cuts = [(0, len(distinct), 0, min(n_bins, len(distinct)))]  # from, to, first bin, number of bins
    while cuts:
        start, stop, first, n = cuts.pop()
        if n == 1:
            labels[start:stop] = first
            continue
        mass = below[stop] - below[start]
        off = np.abs(below[start + 1 : stop] - below[start] - n // 2 / n * mass)
        at = start + 1 + int(np.flatnonzero(off <= off.min() + 1e-9 * mass)[0])  # ties: whatever the rounding
        n_left = round(n * (below[at] - below[start]) / mass)
        n_left = int(np.clip(n_left, max(1, n - (stop - at)), min(n - 1, at - start)))
        cuts += [(at, stop, first + n_left, n - n_left), (start, at, first, n_left)]
    return labels[which.ravel()]


def clusters(bags: Bags, n_clusters: int, seed: int) -> Labels:
    """Cells of the points nearest to the centres of k-means, coordinates standardised, each bag counting the same.

    Cuts at quantiles go through the middle of what is dense; these cells have it inside.

    Parameters
    ----------
    bags : Bags
        Points.
    n_clusters : int
        Number of cells; as many as there are distinct points, if those are fewer.
    seed : int
        Of k-means.

    Returns
    -------
    ndarray of shape (n_points,) of int
        Cell of each point; none is empty.

    Examples
    --------
    >>> clusters(Bags.from_arrays([[[0.0, 0.0], [9.0, 900.0], [0.1, 1.0], [9.2, 899.0]]]), 2, 0)
    array([0, 1, 0, 1])
    """
    points = np.ldexp(bags.points, -np.frexp(np.abs(bags.points).max(axis=0))[1])  # squares do not overflow
    points = points - points.mean(axis=0)
    deviations = points.std(axis=0)
    scaled = bags.replace(points=points / np.where(deviations > 1e-12, deviations, 1.0))
    nearest = NearestWord(learn_words(scaled, n_clusters, np.random.RandomState(seed)))
    blocks = [scaled.points[i : i + _BLOCK_POINTS] for i in range(0, scaled.n_points, _BLOCK_POINTS)]
    found = np.concatenate([nearest(block, Scratch()) for block in blocks])
    return np.unique(found, return_inverse=True)[1].ravel()
