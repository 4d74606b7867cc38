r"""The leave-one-out likelihood of ``likelihood.py`` for many columns at once, each with a bandwidth of its own.

Hundreds of one-dimensional searches, each in short operations, take most of their time between the operations. Here
columns whose grids have as many bins go through them together. On a grid whose nodes are its bins the kernel between
bins i and j is, with G(m) = Σ_k φ_h(m/n - 2k),

.. math:: K_{ij} = G(|i - j|) + G(i + j + 1)

for reflecting boundaries, which cosine transforms make diagonal; for periodic and open ones it is the first term alone,
with images a period apart, or none, and Fourier transforms do. So a bandwidth costs O(n log n) for each bag, not O(n²).

The numbers are those of :func:`distembed.density.likelihood.best_factor`, column by column, to rounding.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from math import sqrt

import numpy as np
from scipy import fft

from ..bags import Bags
from ..compute.arrays import Array
from .estimate import round_up
from .kde import kernel_of_bins
from .likelihood import (
    COARSEST,
    EVALUATED,
    FINEST,
    LEAST_DENSITY,
    LEAST_REST,
    SEARCH_HIGH,
    SEARCH_LOW,
    Draws,
    resolving,
    shares_of,
    zoom_of,
)

_STEPS = 13  # of the coarse scan
_TOLERANCE = 0.03  # of the logarithm of the factor
_BLOCK = 2**20  # coefficients at a time
_LEAST_KERNEL = 1e-11  # of the largest value: smaller ones count as zero, as they do in kernel matrices
_GOLDEN, _ROOT = 0.5 * (3 - sqrt(5)), sqrt(2.2e-16)


class ColumnGrid:
    """Leave-one-out log likelihoods of columns on grids of as many bins.

    Parameters
    ----------
    bags : Bags
        One-dimensional, those of a column one after the other, no point twice in a bag.
    column : ndarray of shape (n_bags,)
        The column of each bag, 0 to n_columns - 1, in increasing order.
    judged : ndarray of shape (n_points,) of bool
        Points at which the density of their bag is judged.
    boundary : str
        See :func:`distembed.density.kernel`.
    n : int
        Bins.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).uniform(size=(60, 1)), [0, 20, 40, 60])
    >>> grid = ColumnGrid(bags, np.array([0, 0, 1]), np.ones(60, bool), "reflect", 32)
    >>> grid(np.array([0, 0, 1]), np.array([0.1, 4.0, 4.0])).round(2) + 0.0  # a wide kernel is uniform
    array([-0.1,  0. ,  0. ])
    """

    def __init__(self, bags: Bags, column: Array, judged: Array, boundary: str, n: int) -> None:
        self.boundary, self.n = boundary, n
        self._n_bags = np.bincount(column)
        first = np.cumsum(self._n_bags) - self._n_bags
        bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
        row = column[bag] * self._n_bags.max() + bag - first[column[bag]]  # of the table of all columns
        position = bags.points[:, 0].astype(float) * n - 0.5
        if boundary != "periodic":
            position = np.clip(position, 0, n - 1)
        low = np.floor(position).astype(int)
        part = position - low
        high = (low + 1) % n if boundary == "periodic" else np.minimum(low + 1, n - 1)
        low, share = low % n, shares_of(bags)
        shape = (len(self._n_bags), int(self._n_bags.max()), n)
        cells, masses = np.r_[row * n + low, row * n + high], np.r_[share * (1 - part), share * part]
        binned = np.bincount(cells, masses, int(np.prod(shape))).reshape(shape)
        if boundary == "reflect":
            self._waves = fft.dct(binned)
        else:
            self._waves = fft.rfft(binned, n if boundary == "periodic" else 2 * n)
        self._points = np.column_stack([row - column[bag] * shape[1], low, high])[judged]
        self._part, self._share = part[judged], share[judged]
        counts = np.bincount(column[bag][judged], minlength=shape[0])
        self._starts, self._counts = np.cumsum(counts) - counts, counts

    def __call__(self, which: Array, bandwidth: Array) -> Array:
        """Mean log likelihoods, ndarray of shape (k,), of k columns (one may come often) with a bandwidth each."""
        step = max(1, _BLOCK // self._waves[0].size)
        blocks = [slice(i, i + step) for i in range(0, len(which), step)]
        return np.concatenate([self._some(which[block], bandwidth[block]) for block in blocks])

    def _some(self, which: Array, bandwidth: Array) -> Array:
        # Binning and interpolation widen the kernel by δ²/6 each.
        n, floor = self.n, 1e-3 / self.n**2
        narrowed = np.maximum(bandwidth**2 - 1 / (6 * n**2), floor)
        profile = profiles(np.sqrt(np.maximum(narrowed - 1 / (6 * n**2), 10 * floor)), self.boundary, n)
        density = self._smoothed(which, profile)
        k = np.repeat(np.arange(len(which)), self._counts[which])
        rows = _ranges(self._starts[which], self._counts[which])
        (bag, low, high), f, share = self._points[rows].T, self._part[rows], self._share[rows]
        g = 1 - f
        at_points = g * density[k, bag, low] + f * density[k, bag, high]
        own = (g**2 + f**2) * profile[k, 0] + 2 * f * g * profile[k, np.abs(high - low)]
        if self.boundary == "reflect":
            own += g**2 * profile[k, 2 * low + 1] + f**2 * profile[k, 2 * high + 1]
            own += 2 * f * g * profile[k, low + high + 1]
        without = (at_points - share * own) / np.maximum(1 - share, LEAST_REST)
        log, cell = np.log(np.maximum(without, LEAST_DENSITY)), k * density.shape[1] + bag
        n_cells = len(which) * density.shape[1]
        masses = np.maximum(np.bincount(cell, share, n_cells), np.finfo(float).tiny)  # columns may have fewer bags
        means = (np.bincount(cell, share * log, n_cells) / masses).reshape(len(which), -1)
        return np.asarray(means.sum(axis=1) / self._n_bags[which])

    def _smoothed(self, which: Array, profile: Array) -> Array:
        """Densities of the bags of columns on the bins, ndarray of shape (k, n_bags, n), from kernels' profiles."""
        waves = self._waves[which] * fft.rfft(profile)[:, None, : self._waves.shape[-1]].real
        if self.boundary == "reflect":
            return np.asarray(fft.idct(waves, overwrite_x=True))
        return np.asarray(fft.irfft(waves, profile.shape[1], overwrite_x=True))


def profiles(bandwidth: Array, boundary: str, n: int) -> Array:
    """Kernels G of k bandwidths, see ``kernel_of_bins``, ndarray of shape (k, period): of mass one, without far tails.

    Examples
    --------
    >>> profiles(np.array([0.1]), "periodic", 4).round(3)
    array([[3.677, 0.162, 0.   , 0.162]])
    """
    found = kernel_of_bins(bandwidth, boundary, n)
    largest = found[:, :1] + found[:, 1:2] if boundary == "reflect" else found[:, :1]
    if boundary != "none":
        found, largest = (values * (n / found.sum(axis=1, keepdims=True)) for values in (found, largest))
    found[found < _LEAST_KERNEL * largest] = 0
    return found


def _ranges(starts: Array, counts: Array) -> Array:
    """The numbers from each start on, so many of each, one range after the other."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts))


def bounded_search(low: float, high: float, tolerance: float) -> Generator[float, float, float]:
    """Brent's search for the least of a function in an interval, which yields where to look and is sent what is there.

    The steps are those of ``scipy.optimize.minimize_scalar(method="bounded")``. So that many searches can go on side by
    side, this one does not call the function.

    Parameters
    ----------
    low, high : float
        The interval.
    tolerance : float
        How near to the least its place must be.

    Returns
    -------
    float
        The place, as the value of the ``StopIteration``.

    Examples
    --------
    >>> search = bounded_search(0.0, 1.0, 0.01)
    >>> at = next(search)
    >>> try:
    ...     while True:
    ...         at = search.send((at - 0.3) ** 2)
    ... except StopIteration as end:
    ...     print(round(end.value, 3))
    0.3
    """
    best = second = third = low + _GOLDEN * (high - low)
    f_best = f_second = f_third = yield best
    step = before = 0.0
    while True:
        middle, least = 0.5 * (low + high), _ROOT * abs(best) + tolerance / 3
        if abs(best - middle) <= 2 * least - 0.5 * (high - low):
            return best
        golden = abs(before) <= least
        if not golden:  # the least of a parabola through three places
            r, q = (best - second) * (f_best - f_third), (best - third) * (f_best - f_second)
            p, q = (best - third) * q - (best - second) * r, 2 * (q - r)
            p, q = (-p if q > 0 else p), abs(q)
            before, r = step, before
            golden = not (abs(p) < abs(0.5 * q * r) and q * (low - best) < p < q * (high - best))
            if not golden:
                step = p / q
                if best + step - low < 2 * least or high - best - step < 2 * least:
                    step = least if middle >= best else -least
        if golden:
            before = low - best if best >= middle else high - best
            step = _GOLDEN * before
        at = best + (max(abs(step), least) if step >= 0 else -max(abs(step), least))
        f_at = yield at
        if f_at <= f_best:
            low, high = (best, high) if at >= best else (low, best)
            third, f_third, second, f_second, best, f_best = second, f_second, best, f_best, at, f_at
        else:
            low, high = (at, high) if at < best else (low, at)
            if f_at <= f_second or second == best:
                third, f_third, second, f_second = second, f_second, at, f_at
            elif f_at <= f_third or third in (best, second):
                third, f_third = at, f_at


def best_factors(bags: Bags, column: Array, boundary: str, start: Array) -> Array:
    """The factor of each column's bandwidth that maximises the leave-one-out log likelihood of its bags.

    Parameters
    ----------
    bags : Bags
        One-dimensional, those of a column one after the other; no point twice in a bag, two at least in each.
    column : ndarray of shape (n_bags,)
        The column of each bag, 0 to n_columns - 1, in increasing order.
    boundary : str
        Of all columns, see :func:`distembed.density.kernel`.
    start : ndarray of shape (n_columns,)
        Bandwidths, such as Scott's.

    Returns
    -------
    ndarray of shape (n_columns,)
        What :func:`distembed.density.likelihood.best_factor` finds for each, to rounding.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).normal(0.5, 0.1, size=(400, 1)), [0, 200, 400])
    >>> best_factors(bags, np.array([0, 1]), "reflect", np.full(2, 0.1 * 200**-0.2)).round(1)
    array([0.3, 1.1])
    """
    bags, zoom = _zoomed(bags, column)
    start, judged = zoom * start, _judged(bags, column)
    kinds = np.where(zoom > 1, "none", boundary)
    sparse = np.maximum(1 / (start * SEARCH_LOW * 3), COARSEST)
    finest = np.array([min(round_up(h), FINEST[1]) for h in sparse])
    low = np.minimum(np.maximum(SEARCH_LOW, 1.5 / (finest * start)), SEARCH_HIGH / 2)
    logs = np.linspace(np.log(low), np.log(SEARCH_HIGH), _STEPS, axis=1)
    bins = np.array([resolving(s * np.exp(row), [n] * _STEPS) for s, row, n in zip(start, logs, finest, strict=True)])

    def grids(n_bins: Array) -> Iterator[tuple[ColumnGrid, Array, Array]]:
        """Grids of all sizes that occur, their columns, and which of ``n_bins``, of shape (n_columns, k), they are."""
        for n, kind in sorted({(int(n), str(kind)) for row, kind in zip(n_bins, kinds, strict=True) for n in row}):
            wanted = (n_bins == n) & (kinds == kind)[:, None]
            columns = np.flatnonzero(wanted.any(axis=1))
            rows = np.flatnonzero(np.isin(column, columns))
            points = np.repeat(np.isin(column, columns), bags.sizes)
            yield (
                ColumnGrid(bags[rows], np.searchsorted(columns, column[rows]), judged[points], kind, n),
                columns,
                wanted,
            )

    # A coarse scan first: the likelihood of tied or clustered points can have more than one hill.
    scanned = np.empty(logs.shape)
    for grid, columns, wanted in grids(bins):
        at, step = np.nonzero(wanted[columns])
        scanned[wanted] = grid(at, start[columns[at]] * np.exp(logs[columns[at], step]))
    best, each = np.argmax(scanned, axis=1), np.arange(len(start))
    left, right = np.maximum(best - 1, 0), np.minimum(best + 1, _STEPS - 1)
    found = np.empty(len(start))
    for grid, columns, _ in grids(bins[each, left][:, None]):
        limits = zip(logs[columns, left[columns]], logs[columns, right[columns]], strict=True)
        found[columns] = _side_by_side(grid, start[columns], [(float(a), float(b)) for a, b in limits])
    return np.exp(found)


def _side_by_side(grid: ColumnGrid, start: Array, limits: Sequence[tuple[float, float]]) -> Array:
    """Where in its limits the likelihood of each column of a grid is largest, logarithms of factors of ``start``."""
    searches = {i: bounded_search(low, high, _TOLERANCE) for i, (low, high) in enumerate(limits)}
    found, at = np.empty(len(start)), {i: next(search) for i, search in searches.items()}
    while at:
        which = np.array(list(at))
        for i, value in zip(at, grid(which, start[which] * np.exp(list(at.values()))).tolist(), strict=True):
            try:
                at[i] = searches[i].send(-value)
            except StopIteration as end:
                found[i] = end.value
                at = {j: place for j, place in at.items() if j != i}
    return found


def _zoomed(bags: Bags, column: Array) -> tuple[Bags, Array]:
    """Narrow columns moved to the middle and stretched, as by ``zoomed``, and by how much."""
    low, high = (f.reduceat(bags.points[:, 0], bags.offsets[:-1]) for f in (np.minimum, np.maximum))
    first = np.flatnonzero(np.diff(column, prepend=-1))
    zoom = zoom_of(np.maximum.reduceat(high - low, first))
    if np.all(zoom == 1):
        return bags, zoom
    middle, factor = np.repeat((low + high) / 2, bags.sizes), np.repeat(zoom[column], bags.sizes)
    x = bags.points[:, 0]
    points = np.where(factor > 1, (x - middle) * factor + 0.5, x).astype(bags.dtype)
    return bags.replace(points=points[:, None]), zoom


def _judged(bags: Bags, column: Array) -> Array:
    """Which points densities are judged at: all, or, in columns of large bags, those that are drawn."""
    judged = np.ones(bags.n_points, bool)
    for j in np.unique(column[bags.sizes > EVALUATED]):
        rows = np.flatnonzero(column == j)
        points = slice(int(bags.offsets[rows[0]]), int(bags.offsets[rows[-1] + 1]))
        drawn = Draws(np.random.RandomState(0)).rows(bags[rows], EVALUATED)
        judged[points] = np.isin(np.arange(points.stop - points.start), np.concatenate(drawn))
    return judged
