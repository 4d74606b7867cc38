"""Permutation tests by full enumeration: the judge of ``distembed.two_sample``.

Under the hypothesis all splits of the pooled points into bags of the given sizes are equally likely, so the p-value is
the share of splits whose statistic is at least the observed one. Here all of them are tried, one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations, product
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .moments import Array

__all__ = [
    "all_splits", "all_swaps", "closed_testing_pvalues", "energy_statistic", "paired_statistic", "share_at_least",
    "share_gap",
]  # fmt: skip


def all_splits(x: ArrayLike, y: ArrayLike, statistic: Callable[[Array, Array], float]) -> Array:
    """``statistic(x', y')`` of every split of the pooled rows into len(x) and len(y), the observed split first.

    Examples
    --------
    >>> all_splits([0.0, 1.0], [5.0], lambda x, y: float(abs(x.mean() - y.mean())))
    array([4.5, 1.5, 3. ])
    """
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    pool = np.concatenate([x, y])
    splits = combinations(range(len(pool)), len(x))
    return np.array([statistic(pool[list(chosen)], np.delete(pool, chosen, axis=0)) for chosen in splits])


def all_swaps(n_pairs: int, statistic: Callable[[tuple[int, ...]], float]) -> Array:
    """``statistic(signs)`` of every way to swap members of pairs, -1 for a swapped pair, the observed way first.

    Examples
    --------
    >>> all_swaps(2, lambda signs: float(sum(signs)))
    array([ 2.,  0.,  0., -2.])
    """
    return np.array([statistic(signs) for signs in product((1, -1), repeat=n_pairs)])


def share_at_least(values: ArrayLike, rounding: float = 1e-12) -> float:
    """The p-value: the share of the values that are at least the first, up to rounding.

    Examples
    --------
    >>> share_at_least([2.0, 1.0, 3.0, 0.0])
    0.5
    """
    values = np.asarray(values, dtype=np.float64)
    return sum(bool(value >= values[0] - rounding) for value in values) / len(values)


def energy_statistic(d2: ArrayLike, is_x: ArrayLike) -> float:
    """Mean of d² between groups minus half of the sum of the means over distinct pairs inside either group.

    Examples
    --------
    >>> d2 = np.subtract.outer([0.0, 1.0, 4.0, 5.0], [0.0, 1.0, 4.0, 5.0]) ** 2
    >>> energy_statistic(d2, [True, True, False, False])  # (16 + 25 + 9 + 16) / 4 - (1 + 1) / 2
    15.5
    """
    d2 = np.asarray(d2, dtype=np.float64)
    is_x = np.asarray(is_x, dtype=bool)
    x = np.flatnonzero(is_x)
    y = np.flatnonzero(~is_x)
    between = fsum(d2[i, j] for i in x for j in y) / (len(x) * len(y))
    within = [fsum(d2[i, j] for i in part for j in part if i != j) / (len(part) * (len(part) - 1)) for part in (x, y)]
    return between - sum(within) / 2


def paired_statistic(d2: ArrayLike, signs: ArrayLike) -> float:
    """Mean over i ≠ j of (d²(x_i, y_j) + d²(y_i, x_j) - d²(x_i, x_j) - d²(y_i, y_j)) / 2, pairs of sign -1 swapped.

    Rows and columns of d² are x_1, ..., x_n, y_1, ..., y_n.

    Examples
    --------
    >>> points = np.array([0.0, 10.0, 1.0, 11.0])  # pairs (0, 1) and (10, 11)
    >>> d2 = np.subtract.outer(points, points) ** 2
    >>> paired_statistic(d2, [1, 1]), paired_statistic(d2, [1, -1])
    (1.0, -1.0)
    """
    d2 = np.asarray(d2, dtype=np.float64)
    n = len(d2) // 2
    x = [i if sign > 0 else i + n for i, sign in enumerate(np.asarray(signs))]
    y = [i + n if sign > 0 else i for i, sign in enumerate(np.asarray(signs))]
    terms = (d2[np.ix_(x, y)] + d2[np.ix_(y, x)] - d2[np.ix_(x, x)] - d2[np.ix_(y, y)]) / 2
    return fsum(terms[~np.eye(n, dtype=bool)]) / (n * (n - 1))


def closed_testing_pvalues(values: ArrayLike, rounding: float = 1e-12) -> Array:
    """Adjusted p-values of hypotheses (columns) from statistics of all permutations (rows), the observed first.

    A hypothesis is rejected if every set of hypotheses that holds it is, and a set is tested by its largest statistic.
    So the adjusted p-value is the largest p-value of all these sets: 2^(n - 1) of them.

    Examples
    --------
    >>> closed_testing_pvalues([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0], [4.0, 0.0]])
    array([0.5, 1. ])
    """
    values = np.asarray(values, dtype=np.float64)
    columns = range(values.shape[1])
    adjusted = np.zeros(values.shape[1])
    for chosen in chain.from_iterable(combinations(columns, size + 1) for size in columns):
        p = share_at_least(values[:, list(chosen)].max(axis=1), rounding)
        for column in chosen:
            adjusted[column] = max(adjusted[column], p)
    return adjusted


def share_gap(x: Any, y: Any) -> float:
    """Mean of x minus mean of y over the deviation that permutations give it, s √(1/n + 1/m), s² of all with N - 1.

    Examples
    --------
    >>> round(share_gap([1.0, 1.0, 0.0], [0.0, 0.0, 0.0]), 6)  # (2/3) / √(4/15 · 2/3)
    1.581139
    """
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    deviation = np.concatenate([x, y]).std(ddof=1)
    if deviation == 0:
        return 0.0
    return float((x.mean() - y.mean()) / (deviation * np.sqrt(1 / len(x) + 1 / len(y))))
