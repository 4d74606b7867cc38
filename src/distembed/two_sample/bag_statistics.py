"""Statistics of two groups of bags from the one matrix of divergences, for all permutations by matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import Scratch, run_chunks
from ..kernels.comparisons import Comparison
from .permutations import Permutations
from .point_statistics import Statistics, refuse_categories, to_cube
from .pools import BagPool

__all__ = ["bag_statistics", "energy_statistics", "paired_statistics"]

Array = NDArray[Any]

_ROUNDING = 1e-12  # of the largest divergence


def bag_statistics(
    owner: str, divergence: Any, pool: BagPool, permutations: Permutations, exponent: float, n_jobs: int | None
) -> Statistics:
    """The statistic of :func:`~distembed.two_sample.groups_test` for all permutations.

    Parameters
    ----------
    owner : str
        Named in errors.
    divergence : str, embedding or callable
        As in :class:`~distembed.kernels.comparisons.Comparison`.
    pool : BagPool
        All bags.
    permutations : Permutations
        Of bags, or of pairs where the pool has them.
    exponent : float
        The statistic is of d^exponent.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from distembed.two_sample.between import bag_permutations
    >>> from distembed.two_sample.pools import pool_bags, seeded
    >>> pool = pool_bags("example", [[0.0], [1.0]], [[4.0], [5.0]], False, seeded(0))
    >>> found = bag_statistics("example", "mmd", pool, bag_permutations(pool, 99, seeded(0)), 2.0, None)
    >>> len(found.values), int(np.argmax(found.values))
    (3, 0)
    """
    refuse_categories(owner, divergence, pool.bags)
    bags = to_cube(divergence, pool.bags)
    compare = Comparison(divergence, bags, owner, n_jobs=n_jobs)
    d2 = compare.both_ways(compare.look_at(bags))
    if exponent != 2:
        d2 = np.maximum(d2, 0.0) ** (exponent / 2)
    if pool.pairs is not None:
        return paired_statistics(d2[np.ix_(pool.pairs.T.ravel(), pool.pairs.T.ravel())], permutations, n_jobs)
    return energy_statistics(d2, permutations, n_jobs)


def energy_statistics(d2: Array, splits: Permutations, n_jobs: int | None = None) -> Statistics:
    """Mean between groups minus half of the sum of the means inside, over distinct pairs.

    Parameters
    ----------
    d2 : ndarray of shape (n_bags, n_bags)
        Symmetric; the diagonal does not count.
    splits : Permutations
        Of bags.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from distembed.two_sample.permutations import splits
    >>> d2 = np.subtract.outer([0.0, 1.0, 4.0, 5.0], [0.0, 1.0, 4.0, 5.0]) ** 2
    >>> energy_statistics(d2, splits(np.array([True, True, False, False]), 99, np.random.default_rng(0))).values
    array([15.5, -7. , -8.5])
    """
    off = ~np.eye(len(d2), dtype=bool)
    d = np.where(off, d2 - np.mean(d2[off]), 0.0)  # a constant changes nothing, and this one saves digits
    totals = d.sum(axis=1)
    everything = totals.sum()
    n = int(splits.rows(slice(0, 1)).sum())
    m = len(d) - n
    out = np.empty(len(splits))

    def fill(rows: slice, scratch: Scratch) -> None:
        s = splits.rows(rows).astype(np.float64)
        first = np.einsum("ij,ij->i", s @ d, s)
        between = s @ totals - first
        second = everything - first - 2 * between
        out[rows] = between / (n * m) - first / (2 * n * (n - 1)) - second / (2 * m * (m - 1))

    run_chunks(fill, splits.chunks(), n_jobs)
    return Statistics(out, _ROUNDING * float(np.max(np.abs(d2), where=off, initial=0.0)))


def paired_statistics(d2: Array, swaps: Permutations, n_jobs: int | None = None) -> Statistics:
    r"""Mean of C_ij over i ≠ j, C_ij = (d²(x_i, y_j) + d²(y_i, x_j) - d²(x_i, x_j) - d²(y_i, y_j)) / 2.

    To swap pair i changes the sign of row and column i of C: all permutations are quadratic forms εᵀCε.

    Parameters
    ----------
    d2 : ndarray of shape (2 n_pairs, 2 n_pairs)
        Symmetric, of x_1, ..., x_n, y_1, ..., y_n.
    swaps : Permutations
        Of pairs.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from distembed.two_sample.permutations import swaps
    >>> points = np.array([0.0, 10.0, 1.0, 11.0])  # pairs (0, 1) and (10, 11)
    >>> paired_statistics(np.subtract.outer(points, points) ** 2, swaps(2, 9, np.random.default_rng(0))).values
    array([ 1., -1.])
    """
    n = len(d2) // 2
    products = (d2[:n, n:] + d2[n:, :n] - d2[:n, :n] - d2[n:, n:]) / 2
    np.fill_diagonal(products, 0.0)
    out = np.empty(len(swaps))

    def fill(rows: slice, scratch: Scratch) -> None:
        signs = np.where(swaps.rows(rows), -1.0, 1.0)
        out[rows] = np.einsum("ij,ij->i", signs @ products, signs) / (n * (n - 1))

    run_chunks(fill, swaps.chunks(), n_jobs)
    return Statistics(out, _ROUNDING * float(np.max(np.abs(d2))))
