"""Where do two bags, or two groups of bags, differ? Coordinates and regions, with one error rate for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.point_order import sort_points
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_number
from ..density.estimate import shares_of
from ..embeddings.codebook import NearestWord, learn_words
from .answers import CoordinatesResult, RegionsResult, p_value, step_down
from .permutations import (
    PointPool,
    Pool,
    Seed,
    check_permutations,
    make_generator,
    pool_bags,
    pool_points,
)
from .point_statistics import Statistics, name_of, point_statistics
from .whether import bag_statistics, gaps_of_means, warn_if_sizes_differ

Labels = NDArray[np.intp]

_PERMUTED = ("points", "bags")
_BLOCK_POINTS = 2**16


def which_coordinates(
    x: Any,
    y: Any,
    divergence: Any = "js",
    *,
    permute: str = "points",
    paired: bool = False,
    exponent: float = 2.0,
    coordinates: Sequence[str | int] | None = None,
    n_permutations: int = 999,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> CoordinatesResult:
    r"""Which coordinates of the points differ between two bags, or between two groups of bags.

    Every coordinate is tested by itself, all with the same permutations, and p-values are adjusted so that the chance
    to name any coordinate that does not differ is at most α.

    Parameters
    ----------
    x, y : bags, or groups of bags
        As in :func:`bags_test` for ``permute="points"``, as in :func:`groups_test` for ``permute="bags"``.
    divergence : str, embedding or callable, default="js"
        Of bags in one dimension.
    permute : {"points", "bags"}, default="points"
        Whether two bags are compared or two groups of bags.
    paired, exponent
        As in :func:`groups_test`; only for ``permute="bags"``.
    coordinates : sequence of str or int, optional
        Names or positions of the coordinates to test, by default all of them.
    n_permutations, random_state, n_jobs
        As in :func:`bags_test`.

    Returns
    -------
    CoordinatesResult
        Statistics, p-values and adjusted p-values; ``differ()`` names the coordinates.

    Notes
    -----
    *Adjusted p-values* are Westfall and Young's step-down max-T. Statistics are first brought to comparable units:
    minus their mean, over their deviation, of all permutations and the observed one. Permutations move whole points, so
    the dependence of coordinates is accounted for: many copies of one coordinate cost nothing.

    *Error.* If no coordinate differs, the chance of an adjusted p-value of at most α is at most α, exactly. If some
    differ, the same holds for the others where they have the same joint distribution in x and y, not only the same
    margins one by one. A difference that no coordinate shows by itself is not found: use :func:`bags_test`.

    *Cost*: that of the test in one dimension, for each coordinate. Named divergences of densities are cheap there.

    References
    ----------
    Westfall and Young (1993). Resampling-based multiple testing. Wiley.

    Examples
    --------
    >>> from distembed.two_sample import which_coordinates
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(80, 4)), rng.normal(size=(80, 4)) * [1, 1, 3, 1]
    >>> found = which_coordinates(x, y, n_permutations=199, random_state=0)
    >>> found.differ()
    ['x2']
    """
    owner = "which_coordinates"
    n_permutations = check_permutations(owner, n_permutations)
    rng = make_generator(random_state)
    exponent = check_number(owner, "exponent", exponent, low=0, high=2, inclusive="right")
    pool = _pool(owner, x, y, permute, paired, rng, exponent)
    drawn = pool.permutations(n_permutations, rng)
    names, chosen = _coordinates(owner, pool.bags, coordinates)
    if not isinstance(pool, PointPool):
        warn_if_sizes_differ(owner, divergence, pool, drawn, exponent)
    columns = [pool.column(j) for j in chosen]
    found = [
        point_statistics(owner, divergence, each, drawn, rng, n_jobs)
        if isinstance(each, PointPool)
        else bag_statistics(owner, divergence, each, drawn, exponent, n_jobs)
        for each in columns
    ]
    values, rounding = _standardise(found)
    return CoordinatesResult(
        names=names,
        statistics=np.array([each.values[0] for each in found]),
        pvalues=np.array([p_value(*each) for each in found]),
        adjusted=step_down(values, rounding),
        divergence=name_of(divergence),
        **pool.how(drawn),
    )


def which_regions(
    x: Any,
    y: Any,
    *,
    n_cells: int = 16,
    permute: str = "points",
    paired: bool = False,
    coordinates: Sequence[str | int] | None = None,
    n_permutations: int = 999,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> RegionsResult:
    r"""In which regions of the space two bags, or two groups of bags, have different shares of their points.

    The space is cut into cells: in one dimension bins of about equal numbers of pooled points, in more the clusters of
    k-means of the pooled points. For every cell the shares of the points in it are compared, all with the same
    permutations, and p-values are adjusted so that the chance to name any cell at all is at most α if none differs.

    Parameters
    ----------
    x, y : bags, or groups of bags
        As in :func:`bags_test` for ``permute="points"``, as in :func:`groups_test` for ``permute="bags"``.
    n_cells : int, default=16
        Number of cells, from 2 to 4,096. Fewer: more points in each, and larger regions.
    permute : {"points", "bags"}, default="points"
        Whether two bags are compared or two groups of bags.
    paired : bool, default=False
        As in :func:`groups_test`; only for ``permute="bags"``.
    coordinates : sequence of str or int, optional
        Names or positions of the coordinates in which cells are made, by default all of them. A few cells are coarse in
        many coordinates: name those that :func:`which_coordinates` finds.
    n_permutations, random_state, n_jobs
        As in :func:`bags_test`.

    Returns
    -------
    RegionsResult
        Cells, shares and adjusted p-values, what differs most first; ``differ()`` gives the rows that differ.

    Notes
    -----
    *Cells* depend on the pooled points alone, each bag of a group counting the same. Clusters are those of standardised
    coordinates, so units do not matter; they have the points nearest to their centres, and surround what is dense.
    Another ``random_state`` may give others.

    *Statistic.* The difference of shares, for groups of the mean shares of bags, divided by the deviation that
    permutations give it: z = (s_x - s_y) / (s √(1/n + 1/m)), s² being the variance of the pooled shares; for pairs
    the mean of differences over their root mean square / √n. Tests are two-sided, p-values adjusted by Westfall and
    Young's step-down max-T of \|z\|.

    *Reading a share.* Shares add up to one: where y has more in one cell, it has less elsewhere, and a large
    difference shows in several cells, with both signs of z. Error rates hold exactly if nothing differs.

    *Cost.* Sorting the points, or k-means of them, as :class:`~distembed.CodebookEmbedding` has it; and 2 N n_cells
    operations per permutation, N being the number of points or of bags. Memory: N n_cells numbers.

    References
    ----------
    Westfall and Young (1993). Resampling-based multiple testing. Wiley.

    Examples
    --------
    >>> from distembed.two_sample import which_regions
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    >>> y[:50] = rng.normal(1.5, 0.2, size=(50, 2))  # a small population of its own
    >>> which_regions(x, y, n_cells=8, n_permutations=199, random_state=0).to_frame().shape
    (8, 10)
    """
    owner = "which_regions"
    n_permutations = check_permutations(owner, n_permutations)
    rng = make_generator(random_state)
    n_cells = check_number(owner, "n_cells", n_cells, low=2, high=4096, integer=True)
    pool = _pool(owner, x, y, permute, paired, rng)
    drawn = pool.permutations(n_permutations, rng)
    names, chosen = _coordinates(owner, pool.bags, coordinates)
    bags = pool.bags.replace(points=pool.bags.points[:, chosen])
    points = bags.points
    unit = np.repeat(np.arange(bags.n_bags), bags.sizes)
    masses = shares_of(bags)
    if isinstance(pool, PointPool):  # each point counts for itself
        unit = np.arange(len(points))
        masses = np.ones(len(points))
    if len(chosen) == 1:
        labels = quantile_bins(points[:, 0], masses, n_cells)
    else:
        labels = clusters(bags, n_cells, int(rng.integers(2**31)))
    n_found = int(labels.max()) + 1
    shares = np.bincount(unit * n_found + labels, masses, minlength=(unit[-1] + 1) * n_found).reshape(-1, n_found)
    z = gaps_of_means(shares, pool, drawn, n_jobs)
    in_cell = np.bincount(labels, masses, minlength=n_found)[:, None]
    sums = np.stack([np.bincount(labels, masses * column, minlength=n_found) for column in points.T], axis=1)
    low = np.full((n_found, len(chosen)), np.inf)
    high = np.full((n_found, len(chosen)), -np.inf)
    np.minimum.at(low, labels, points)
    np.maximum.at(high, labels, points)
    adjusted = step_down(np.abs(z))
    order = np.argsort(-np.abs(z[0]), kind="stable")
    is_x = pool.first if pool.sign > 0 else ~pool.first
    return RegionsResult(
        names=names,
        low=low[order],
        high=high[order],
        centre=(sums / in_cell)[order],
        share_x=shares[is_x].mean(axis=0)[order],
        share_y=shares[~is_x].mean(axis=0)[order],
        z=z[0, order],
        adjusted=adjusted[order],
        **pool.how(drawn),
    )


# --------------------------------------------------------------------------------------------------------------
# Shared
# --------------------------------------------------------------------------------------------------------------


def _pool(
    owner: str, x: Any, y: Any, permute: Any, paired: Any, rng: np.random.Generator, exponent: float = 2.0
) -> Pool:
    if check_choice(owner, "permute", permute, _PERMUTED) == "bags":
        pool = pool_bags(owner, x, y, paired, rng)
    elif paired is not False:
        raise ValueError(
            f"{owner}(paired=...): must be False where points are permuted, got {paired!r}; pairs are of bags, use "
            "permute='bags'"
        )
    elif exponent != 2:
        raise ValueError(
            f"{owner}(exponent=...): must be 2 where points are permuted, got {exponent!r}; exponents are of "
            "distances between bags, use permute='bags'"
        )
    else:
        pool = pool_points(owner, x, y, rng)
    if pool.bags.categories is not None:
        raise ValueError(
            f"{owner}: bags must have continuous columns only, got the categorical columns "
            f"{list(pool.bags.category_labels)}; leave them out: Bags.from_frame(..., columns=[...])"
        )
    return pool


def _coordinates(owner: str, bags: Bags, wanted: Any) -> tuple[tuple[str, ...], list[int]]:
    """Names and positions of coordinates."""
    names = bags.columns or tuple(f"x{j}" for j in range(bags.n_dims))
    if wanted is None:
        return names, list(range(bags.n_dims))
    several = isinstance(wanted, Sequence) or np.ndim(wanted) == 1  # arrays, and columns of a DataFrame
    if isinstance(wanted, str) or not several:
        raise TypeError(
            f"{owner}(coordinates=...): must be a sequence of names or positions, got {wanted!r}; write [{wanted!r}]"
        )
    chosen = []
    for each in wanted:
        is_position = isinstance(each, int | np.integer) and not isinstance(each, bool)
        if is_position and 0 <= each < bags.n_dims:
            chosen.append(int(each))
        elif isinstance(each, str) and each in names:
            chosen.append(names.index(each))
        else:
            raise ValueError(
                f"{owner}(coordinates=...): must name coordinates of {', '.join(names)}, or give positions from 0 to "
                f"{bags.n_dims - 1}, got {each!r}; choose among these"
            )
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"{owner}(coordinates=...): must name at least one coordinate, each once, got {list(wanted)!r}; leave out "
            "repetitions, or leave it at None for all"
        )
    return tuple(names[j] for j in chosen), chosen


def _standardise(found: list[Statistics]) -> tuple[Array, float]:
    """Statistics of all hypotheses in units of their deviation over permutations, and the rounding error of those."""
    values = np.stack([each.values for each in found], axis=1)
    values = values - values.mean(axis=0)
    deviations = values.std(axis=0)
    rounding = np.array([max(each.rounding, 1e-12 * float(np.max(np.abs(each.values)))) for each in found])
    moves = deviations > rounding
    units = np.where(moves, deviations, 1.0)
    return np.where(moves, values / units, 0.0), float(np.max(np.where(moves, rounding / units, 0.0)))


# --------------------------------------------------------------------------------------------------------------
# Cells that fill the space
# --------------------------------------------------------------------------------------------------------------


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
    array([1, 0, 1, 0])
    """
    points = np.ldexp(bags.points, -np.frexp(np.abs(bags.points).max(axis=0))[1])  # squares do not overflow
    points = points - points.mean(axis=0)
    deviations = points.std(axis=0)
    scaled = bags.replace(points=points / np.where(deviations > 1e-12, deviations, 1.0))
    nearest = NearestWord(learn_words(sort_points(scaled), n_clusters, np.random.RandomState(seed)))
    blocks = [scaled.points[i : i + _BLOCK_POINTS] for i in range(0, scaled.n_points, _BLOCK_POINTS)]
    found = np.concatenate([nearest(block, Scratch()) for block in blocks])
    return np.unique(found, return_inverse=True)[1].ravel()
