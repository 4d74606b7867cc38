"""Histograms of bags, their distances, and the explicit maps of additive kernels, value by value.

An additive kernel of two histograms is a sum over cells of k(x, y). Here k belongs to a distance of
:mod:`distembed.exact.distances` by κ(x, y) = k(x, x) + k(y, y) - 2 k(x, y):

============ =========================================== ===========================
distance     k(x, y)                                     spectrum, density of μ / 2
============ =========================================== ===========================
js           x/2 ln((x+y)/x) / 2 + y/2 ln((x+y)/y) / 2   sech(πλ) / (1 + 4λ²) / 2
hellinger    √(xy) / 2                                   point mass at λ = 0
tv           min(x, y) / 2                               (1/π) / (1 + 4λ²)
chi2         xy / (x + y)                                sech(πλ) / 2
============ =========================================== ===========================
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .distances import kappa, measure
from .moments import weighted

__all__ = [
    "additive_kernel", "histogram", "histogram_distance", "nearest_words", "spectrum_map", "unary_map", "word_shares",
]  # fmt: skip

Array: TypeAlias = NDArray[np.float64]


def histogram(points: ArrayLike, bins: Sequence[int], weights: ArrayLike | None = None) -> Array:
    """Shares (prod(bins),) of the weight of a bag's points (n, d) in the cells of the unit cube.

    A coordinate x is in bin floor(b x) of b; 1 is in the last. Cells stand with the last dimension fastest.

    Examples
    --------
    >>> histogram([[0.1, 0.9], [0.2, 1.0], [0.5, 0.0], [0.4, 0.4]], [2, 2])
    array([0.25, 0.5 , 0.25, 0.  ])
    """
    points, given = weighted(points, weights)
    masses = np.zeros(tuple(bins))
    for point, weight in zip(points, given, strict=True):
        masses[tuple(min(int(x * b), b - 1) for x, b in zip(point, bins, strict=True))] += weight
    return np.asarray(masses.ravel() / given.sum())


def histogram_distance(h: ArrayLike, g: ArrayLike, distance: str) -> float:
    """d²(h, g) = Σ κ(h_i, g_i) over the cells of two histograms; ``"l2"`` is Σ (h_i - g_i)².

    Examples
    --------
    >>> [round(histogram_distance([0.2, 0.3, 0.5], [0.5, 0.3, 0.2], name), 9) for name in ("js", "hellinger", "tv")]
    [0.066414314, 0.067544468, 0.3]
    """
    if distance == "l2":
        return float(np.sum((np.asarray(h) - np.asarray(g)) ** 2))
    return float(np.sum(kappa(h, g, distance)))


def additive_kernel(x: ArrayLike, y: ArrayLike, distance: str) -> Array:
    """k(x, y) elementwise, by the module's table: (κ(x, 0) + κ(y, 0) - κ(x, y)) / 2.

    Examples
    --------
    >>> additive_kernel([1.0, 1.0], [3.0, 0.0], "chi2")
    array([0.75, 0.  ])
    """
    return np.asarray((kappa(x, 0.0, distance) + kappa(y, 0.0, distance) - kappa(x, y, distance)) / 2)


def spectrum_map(x: float, distance: str, order: int, period: float) -> Array:
    """The 2 n + 1 features of one value by Vedaldi and Zisserman (2012), with spectrum κ, order n and period L.

    ``√(x L κ(0))``, then for j = 1, ..., n ``√(2 x L κ(jL)) cos(jL ln x)``, then the same with the sine.

    Examples
    --------
    >>> a, b = spectrum_map(1.0, "js", 30, 0.15), spectrum_map(2.0, "js", 30, 0.15)
    >>> round(float(np.sum((a - b) ** 2)), 5), round(float(kappa(1.0, 2.0, "js")), 5)
    (0.08495, 0.08495)
    """
    if x == 0:
        return np.zeros(2 * order + 1)
    spectrum = [float(measure(j * period, distance)) / 2 for j in range(order + 1)]
    lengths = [np.sqrt(2 * x * period * spectrum[j]) for j in range(1, order + 1)]
    angles = [j * period * np.log(x) for j in range(1, order + 1)]
    cosines = [length * np.cos(angle) for length, angle in zip(lengths, angles, strict=True)]
    sines = [length * np.sin(angle) for length, angle in zip(lengths, angles, strict=True)]
    return np.array([np.sqrt(x * period * spectrum[0]), *cosines, *sines])


def unary_map(x: float, n_levels: int) -> Array:
    """The n features of one value in [0, 1] by Maji and Berg (2009): as many ones as levels lie below x, then a rest.

    Scaled by √(1/(2n)), so that squared distances approximate ``abs(x - y) / 2``.

    Examples
    --------
    >>> (unary_map(0.625, 4) * np.sqrt(8)).round(12)
    array([1. , 1. , 0.5, 0. ])
    """
    features = np.zeros(n_levels)
    for j, (low, high) in enumerate(pairwise(np.linspace(0, 1, n_levels + 1))):
        features[j] = 1.0 if x >= high else max(0.0, (x - low) / (high - low))
    return np.asarray(features / np.sqrt(2 * n_levels))


def nearest_words(points: ArrayLike, words: ArrayLike) -> NDArray[Any]:
    """Position (n,) of the word (n_words, d) nearest to each point (n, d); the first of several.

    Examples
    --------
    >>> nearest_words([[0.0], [0.9], [0.5]], [[0.0], [1.0]])
    array([0, 1, 0])
    """
    points, words = np.asarray(points, dtype=np.float64), np.asarray(words, dtype=np.float64)
    return np.array([int(np.argmin([np.sum((point - word) ** 2) for word in words])) for point in points])


def word_shares(points: ArrayLike, words: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Shares (n_words,) of the weight of a bag's points that are nearest to each word.

    Examples
    --------
    >>> word_shares([[0.0], [0.9], [0.5]], [[0.0], [1.0]], weights=[1, 2, 1])
    array([0.5, 0.5])
    """
    points, given = weighted(points, weights)
    nearest = nearest_words(points, words)
    return np.array([given[nearest == j].sum() / given.sum() for j in range(len(np.asarray(words)))])
