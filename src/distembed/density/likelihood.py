r"""Leave-one-out likelihood of bags as a function of the bandwidth, and its maximum, for the rules of ``bandwidth.py``.

.. math:: L(h) = \frac{1}{N} \sum_{bags} \sum_i s_i \log \hat p_{-i}(x_i), \qquad
          \hat p_{-i}(x_i) = \frac{1}{1 - s_i} \sum_{j \ne i} s_j K_h(x_i, x_j),

with the shares s of the points of a bag. Three searches maximise it:

====================  ==================================================================================================
:func:`best_factor`   one factor c of all bandwidths, h = c s
:func:`best_factors`  one factor for each of many columns, each a task by itself, side by side
:func:`greedy`        one bandwidth per dimension, where few of many dimensions matter
====================  ==================================================================================================

**One factor.** In one to three dimensions on a grid, the finer the narrower the bandwidth, O(n_points + n_bins) for
each; in more dimensions by pairs of points, some of each bag at some of each bag.

**Many columns.** Hundreds of one-dimensional searches, each in short operations, take most of their time between the
operations. So columns whose grids have as many bins go through them together. On a grid whose nodes are its bins the
kernel between bins i and j is, with G(m) = Σ_k φ_h(m/n - 2k),

.. math:: K_{ij} = G(|i - j|) + G(i + j + 1)

for reflecting boundaries, which cosine transforms make diagonal; for periodic and open ones it is the first term alone,
with images a period apart, or none, and Fourier transforms do. So a bandwidth costs O(n log n) for each bag, not O(n²).
The numbers are those of :func:`best_factor`, column by column, to rounding.

**One bandwidth per dimension.** A kernel much wider than the cube is, with reflecting or periodic boundaries, the
uniform density: a coordinate in which bags are uniform then costs nothing. So all kernels start wide, and one after the
other is narrowed, always the one that raises the likelihood most, as long as the gain is more than noise.

In the spirit of the rodeo of Lafferty and Wasserman (2008) and Liu, Lafferty and Wasserman (2007), with two changes.
Theirs asks, at one place, whether the derivative of the estimate in h_j is larger than its noise; here one bandwidth
serves all places and bags, and what is asked is whether the likelihood gains. Its derivative in a wide bandwidth is
nearly zero for symmetric densities, while a step is not; and leaving one out charges for the variance that a narrower
kernel brings. And margins alone do not show dependence: where no coordinate gains by itself, pairs are tried.

Gains d_i = log p_new(x_i) - log p_old(x_i) of the points x_i have a mean and a standard error s. A step is taken if the
mean is above s √(2 log K), the largest of K draws of noise, K the number of steps on offer; not tested are the last
refinements, by then among few coordinates. Structure that shows in three coordinates together and in no pair of them is
not found.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product
from math import prod, sqrt
from typing import Any

import numpy as np
from scipy import fft, optimize

from ..bags import Bags
from ..compute.arrays import Array, Scratch, contract
from .estimate import shares_of
from .kde import GridKDE, KernelProducts, kernel, kernel_of_bins
from .nodes import GridNodes, round_up
from .subsets import Draws

# range of factors
_SEARCH_LOW = 0.02
_SEARCH_HIGH = 2.0
_SEARCH_LOW_DIRECT = 0.1  # in many dimensions, where narrow kernels reach nobody and take long
_SEARCH_STEPS = 13  # of the coarse scan
_TOLERANCE = 0.03  # of the logarithm of the factor
_FINEST = {1: 256, 2: 160, 3: 48}  # finest bins, by the number of dimensions
_COARSEST = 16
_BINS_A_BANDWIDTH = 2.5  # with this many, the log likelihood of a point is right to 2e-4
_LEAST_DENSITY = 1e-12  # a point without neighbours counts as this, not as -inf
_LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
_BLOCK_PAIRS = 2**20  # pairs of points at a time
_BLOCK_COEFFICIENTS = 2**20  # of columns at a time
_LEAST_KERNEL = 1e-11  # of the largest value: smaller ones count as zero, as they do in kernel matrices
_GOLDEN = 0.5 * (3 - sqrt(5))
_ROOT = sqrt(2.2e-16)

Steps = list[tuple[int, float]]  # coordinates and their new bandwidths
Offers = Iterable[tuple[Steps, Array]]  # with the change of the product of kernels

WIDEST = 4.0  # uniform on the interval, to the last digit
_ENTRIES = (0.5, 0.25, 0.12, 0.06, 0.03)  # widths at which a coordinate may enter
_PAIR_ENTRY = 0.2
_STEP = 0.7
_FINE_STEP = 0.87
_REFINEMENTS = 60
_CELLS = 2048  # coordinates are rounded to this many parts of the interval


# --------------------------------------------------------------------------------------------------------------
# One factor of all bandwidths
# --------------------------------------------------------------------------------------------------------------


def fewer_points(bags: Bags, draws: Draws) -> Bags:
    """At most as many points of each bag as may carry a kernel, by chance, with their masses; on a grid all may."""
    return bags if bags.n_dims in _FINEST or bags.sizes.max() <= draws.kernels else draws.of(bags, draws.kernels)


def zoom_in(bags: Bags, boundaries: Sequence[str]) -> tuple[Bags, Sequence[str], Array]:
    """Narrow bags moved to the middle and stretched, dimension by dimension, for a grid to resolve them.

    Returns the bags, their boundaries (far away now, where stretched) and the factors of the stretching.
    """
    starts = bags.offsets[:-1]
    sizes = bags.sizes
    low = np.minimum.reduceat(bags.points, starts)
    high = np.maximum.reduceat(bags.points, starts)
    zoom = zoom_of((high - low).max(axis=0))
    if np.all(zoom == 1):
        return bags, boundaries, zoom
    middle = np.repeat((low + high) / 2, sizes, axis=0)
    points = np.where(zoom > 1, (bags.points - middle) * zoom + 0.5, bags.points).astype(bags.points.dtype)
    stretched = ["none" if z > 1 else boundary for z, boundary in zip(zoom, boundaries, strict=True)]
    return bags.replace(points=points), stretched, zoom


def zoom_of(widths: Array) -> Array:
    """By how much dimensions are stretched in which the widest bag has these widths: those that are narrow alone.

    Examples
    --------
    >>> zoom_of(np.array([0.5, 0.01, 0.0]))
    array([ 1., 80.,  1.])
    """
    zoom = 0.8 / np.maximum(widths, 1e-9).astype(float)
    return np.where((zoom > 2) & (zoom < 1e8), zoom, 1.0)


class GridLikelihood:
    """Leave-one-out log likelihood of bags as a function of the bandwidth, on a grid.

    Parameters
    ----------
    bags : Bags
        Of one to three dimensions, no point twice in a bag.
    boundaries : sequence of str
        See :func:`distembed.density.kernel`.
    shape : tuple of int
        Bins of each dimension.
    chosen : list of ndarray of int
        Points of each bag, positions in ``bags.points``, at which its density is evaluated.
    """

    def __init__(self, bags: Bags, boundaries: Sequence[str], shape: tuple[int, ...], chosen: list[Array]) -> None:
        widths = 1 / np.array(shape)  # in the place of bandwidths, which come with each call
        self.estimate = GridKDE(GridNodes(shape), widths, boundaries, np.dtype(float), n_bins=shape)
        self.masses = self.estimate.masses(bags)
        self._scratch = Scratch()
        rows = np.concatenate(chosen)
        self.bag = np.repeat(np.arange(bags.n_bags), [len(c) for c in chosen])
        self.share = shares_of(bags)[rows]
        # of each dimension: bins below and above a point, and its shares of them
        self.corners = []
        self.parts = []
        for x, size, boundary in zip(bags.points[rows].T, shape, boundaries, strict=True):
            position = x.astype(float) * size - 0.5
            if boundary != "periodic":
                position = np.clip(position, 0, size - 1)
            low = np.floor(position).astype(int)
            high = (low + 1) % size if boundary == "periodic" else np.minimum(low + 1, size - 1)
            self.corners.append((low % size, high))
            self.parts.append((1 - (position - low), position - low))

    def __call__(self, bandwidth: Array) -> float:
        """Mean over bags of the leave-one-out log likelihood."""
        # Binning and interpolation widen the kernel by δ²/6 each; matrices_for takes off the first.
        bins = np.array(self.estimate.n_bins)
        narrowed = np.sqrt(np.maximum(bandwidth**2 - 1 / (6 * bins**2), 1e-3 / bins**2))
        matrices = self.estimate.matrices_for(narrowed)
        density = contract(self.masses, matrices, self._scratch)
        at_points = np.zeros(len(self.bag))
        own = np.ones(len(self.bag))
        for corner in product((0, 1), repeat=len(bins)):
            index = [bins_of[up] for bins_of, up in zip(self.corners, corner, strict=True)]
            share = prod([part[up] for part, up in zip(self.parts, corner, strict=True)])
            at_points += share * density[(*index[:-1], self.bag, index[-1])]
        for matrix, (low, high), (g, f) in zip(matrices, self.corners, self.parts, strict=True):
            own *= g**2 * matrix[low, low] + f**2 * matrix[high, high] + 2 * f * g * matrix[low, high]
        without = (at_points - self.share * own) / np.maximum(1 - self.share, _LEAST_REST)
        return _mean_log(without, self.share, self.bag)


def resolving_bins(bandwidth: Array, finest: Sequence[int]) -> tuple[int, ...]:
    """Bins of a grid that resolves a bandwidth: the finest, halved as long as 2.5 bins a bandwidth are left.

    Examples
    --------
    >>> [resolving_bins(np.array([h, 0.01]), finest=(160, 160)) for h in (0.02, 0.05, 0.5)]
    [(160, 160), (80, 160), (16, 160)]
    """
    bins = np.array(finest)
    halvings = np.floor(np.log2(np.maximum(bins * bandwidth / _BINS_A_BANDWIDTH, 1)))
    return tuple(np.minimum(bins, np.maximum(np.ceil(bins / 2**halvings), _COARSEST)).astype(int).tolist())


class DirectLikelihood:
    """Log-likelihoods by pairs of points, for any number of dimensions.

    Parameters
    ----------
    bags : Bags
        No point twice in a bag.
    boundaries : sequence of str
        See :func:`distembed.density.kernel`.
    draws : Draws
        Chooses the points at which densities are evaluated.
    """

    def __init__(self, bags: Bags, boundaries: Sequence[str], draws: Draws) -> None:
        self.bags = bags
        self.boundaries = boundaries
        self.shares = shares_of(bags)
        chosen = draws.rows(bags, max(2 * draws.evaluated // bags.n_bags, 16))
        self.rows = [own - start for own, start in zip(chosen, bags.offsets[:-1].tolist(), strict=True)]
        self.bag = np.repeat(np.arange(bags.n_bags), [len(own) for own in chosen])
        self.share = self.shares[np.concatenate(chosen)]

    def __call__(self, bandwidth: Array) -> float:
        """Mean over bags of the leave-one-out log likelihood."""
        masses = np.split(self.shares, self.bags.offsets[1:-1])
        each = zip(self.bags, masses, self.rows, strict=True)
        values = [self._without(points.astype(float), mass, rows, bandwidth) for points, mass, rows in each]
        return _mean_log(np.concatenate(values), self.share, self.bag)

    def _without(self, x: Array, mass: Array, rows: Array, bandwidth: Array) -> Array:
        """Density of the others at some points of a bag. To subtract the point's own kernel would leave rounding."""
        found = []
        for block in np.array_split(rows, -(-len(rows) * len(x) // _BLOCK_PAIRS)):
            pairs = KernelProducts(x[block], bandwidth, self.boundaries).pairs(x)
            pairs[block, np.arange(len(block))] = 0.0
            found.append(mass @ pairs / np.maximum(1 - mass[block], _LEAST_REST))
        return np.concatenate(found)


def _mean_log(density: Array, share: Array, bag: Array) -> float:
    """Mean over bags of the weighted mean log density; a point without neighbours counts as 1e-12, not as -inf."""
    log = np.log(np.maximum(density, _LEAST_DENSITY))
    return float(np.mean(np.bincount(bag, share * log) / np.bincount(bag, share)))


def best_factor(bags: Bags, boundaries: Sequence[str], start: Array, draws: Draws) -> float:
    """The factor c, between 0.02 and 2, of the bandwidths h = c s that maximise the leave-one-out log likelihood.

    Parameters
    ----------
    bags : Bags
        No point twice in a bag, two at least in each.
    boundaries : sequence of str
        See :func:`distembed.density.kernel`.
    start : ndarray of shape (n_dims,)
        Bandwidths s, such as Scott's.
    draws : Draws
        Chooses the points at which densities are evaluated.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).normal(0.5, 0.1, size=(400, 1)), [0, 200, 400])
    >>> 0.7 < best_factor(bags, ["reflect"], np.array([0.1 * 200**-0.2]), Draws(np.random.RandomState(0))) < 1.4
    True
    """
    bags, boundaries, zoom = zoom_in(bags, boundaries)
    start = zoom * start
    if bags.n_dims in _FINEST:
        chosen = draws.rows(bags, draws.evaluated)
        limit = _FINEST[bags.n_dims]
        finest = tuple(min(round_up(max(1 / h, _COARSEST)), limit) for h in start * _SEARCH_LOW * 3)
        # Below a bin and a half the grid does not resolve the likelihood.
        low = min(max(_SEARCH_LOW, float(np.max(1.5 / (np.array(finest) * start)))), _SEARCH_HIGH / 2)

        @lru_cache(maxsize=1)
        def on_grid(shape: tuple[int, ...]) -> GridLikelihood:
            return GridLikelihood(bags, boundaries, shape, chosen)

        def likelihood(narrowest: float) -> Any:
            return on_grid(resolving_bins(start * np.exp(narrowest), finest))
    else:
        low = _SEARCH_LOW_DIRECT
        direct = DirectLikelihood(bags, boundaries, draws)

        def likelihood(narrowest: float) -> Any:
            return direct

    # A coarse scan first: the likelihood of tied or clustered points can have more than one hill.
    logs = np.linspace(np.log(low), np.log(_SEARCH_HIGH), _SEARCH_STEPS)
    best = int(np.argmax([likelihood(c)(start * np.exp(c)) for c in logs]))
    left = logs[max(best - 1, 0)]
    right = logs[min(best + 1, len(logs) - 1)]
    objective = likelihood(left)
    found = optimize.minimize_scalar(
        lambda c: -objective(start * np.exp(c)), bounds=(left, right), method="bounded", options={"xatol": _TOLERANCE}
    )
    return float(np.exp(found.x))


# --------------------------------------------------------------------------------------------------------------
# One factor for each of many columns
# --------------------------------------------------------------------------------------------------------------


class ColumnGrid:
    """Leave-one-out log likelihoods of columns on grids of as many bins.

    Parameters
    ----------
    bags : Bags
        One-dimensional, those of a column one after the other, no point twice in a bag.
    column : ndarray of shape (n_bags,)
        The column of each bag, 0 to n_columns - 1, in increasing order.
    evaluated : ndarray of shape (n_points,) of bool
        Points at which the density of their bag is evaluated.
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

    def __init__(self, bags: Bags, column: Array, evaluated: Array, boundary: str, n: int) -> None:
        self.boundary = boundary
        self.n = n
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
        low = low % n
        share = shares_of(bags)
        shape = (len(self._n_bags), int(self._n_bags.max()), n)
        cells = np.r_[row * n + low, row * n + high]
        masses = np.r_[share * (1 - part), share * part]
        binned = np.bincount(cells, masses, int(np.prod(shape))).reshape(shape)
        if boundary == "reflect":
            self._waves = fft.dct(binned)
        else:
            self._waves = fft.rfft(binned, n if boundary == "periodic" else 2 * n)
        self._points = np.column_stack([row - column[bag] * shape[1], low, high])[evaluated]
        self._part = part[evaluated]
        self._share = share[evaluated]
        counts = np.bincount(column[bag][evaluated], minlength=shape[0])
        self._starts = np.cumsum(counts) - counts
        self._counts = counts

    def __call__(self, which: Array, bandwidth: Array) -> Array:
        """Mean log likelihoods, ndarray of shape (k,), of k columns (one may come often) with a bandwidth each."""
        step = max(1, _BLOCK_COEFFICIENTS // self._waves[0].size)
        blocks = [slice(i, i + step) for i in range(0, len(which), step)]
        return np.concatenate([self._some(which[block], bandwidth[block]) for block in blocks])

    def _some(self, which: Array, bandwidth: Array) -> Array:
        # Binning and interpolation widen the kernel by δ²/6 each.
        n = self.n
        floor = 1e-3 / self.n**2
        narrowed = np.maximum(bandwidth**2 - 1 / (6 * n**2), floor)
        profile = profiles(np.sqrt(np.maximum(narrowed - 1 / (6 * n**2), 10 * floor)), self.boundary, n)
        density = self._smooth(which, profile)
        k = np.repeat(np.arange(len(which)), self._counts[which])
        rows = _ranges(self._starts[which], self._counts[which])
        bag, low, high = self._points[rows].T
        f = self._part[rows]
        share = self._share[rows]
        g = 1 - f
        at_points = g * density[k, bag, low] + f * density[k, bag, high]
        own = (g**2 + f**2) * profile[k, 0] + 2 * f * g * profile[k, np.abs(high - low)]
        if self.boundary == "reflect":
            own += g**2 * profile[k, 2 * low + 1] + f**2 * profile[k, 2 * high + 1]
            own += 2 * f * g * profile[k, low + high + 1]
        without = (at_points - share * own) / np.maximum(1 - share, _LEAST_REST)
        log = np.log(np.maximum(without, _LEAST_DENSITY))
        cell = k * density.shape[1] + bag
        n_cells = len(which) * density.shape[1]
        masses = np.maximum(np.bincount(cell, share, n_cells), np.finfo(float).tiny)  # columns may have fewer bags
        means = (np.bincount(cell, share * log, n_cells) / masses).reshape(len(which), -1)
        return np.asarray(means.sum(axis=1) / self._n_bags[which])

    def _smooth(self, which: Array, profile: Array) -> Array:
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
    """The numbers from each start on, as many as its count, one range after the other."""
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
        middle = 0.5 * (low + high)
        least = _ROOT * abs(best) + tolerance / 3
        if abs(best - middle) <= 2 * least - 0.5 * (high - low):
            return best
        golden = abs(before) <= least
        if not golden:  # the least of a parabola through three places
            r = (best - second) * (f_best - f_third)
            q = (best - third) * (f_best - f_second)
            p = (best - third) * q - (best - second) * r
            q = 2 * (q - r)
            p = -p if q > 0 else p
            q = abs(q)
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
            third = second
            f_third = f_second
            second = best
            f_second = f_best
            best = at
            f_best = f_at
        else:
            low, high = (at, high) if at < best else (low, at)
            if f_at <= f_second or second == best:
                third = second
                f_third = f_second
                second = at
                f_second = f_at
            elif f_at <= f_third or third in (best, second):
                third = at
                f_third = f_at


def best_factors(bags: Bags, column: Array, boundary: str, start: Array, draws: Draws) -> Array:
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
    draws : Draws
        Chooses the points at which densities of large bags are evaluated.

    Returns
    -------
    ndarray of shape (n_columns,)
        What :func:`best_factor` finds for each, to rounding.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).normal(0.5, 0.1, size=(400, 1)), [0, 200, 400])
    >>> draws = Draws(np.random.RandomState(0))
    >>> best_factors(bags, np.array([0, 1]), "reflect", np.full(2, 0.1 * 200**-0.2), draws).round(1)
    array([0.3, 1.1])
    """
    bags, zoom = _zoom_in_columns(bags, column)
    start = zoom * start
    evaluated = _evaluated_points(bags, column, draws)
    kinds = np.where(zoom > 1, "none", boundary)
    sparse = np.maximum(1 / (start * _SEARCH_LOW * 3), _COARSEST)
    finest = np.array([min(round_up(h), _FINEST[1]) for h in sparse])
    low = np.minimum(np.maximum(_SEARCH_LOW, 1.5 / (finest * start)), _SEARCH_HIGH / 2)
    logs = np.linspace(np.log(low), np.log(_SEARCH_HIGH), _SEARCH_STEPS, axis=1)
    bins = np.array(
        [resolving_bins(s * np.exp(row), [n] * _SEARCH_STEPS) for s, row, n in zip(start, logs, finest, strict=True)]
    )

    def grids(n_bins: Array) -> Iterator[tuple[ColumnGrid, Array, Array]]:
        """Grids of all sizes that occur, their columns, and which of ``n_bins``, of shape (n_columns, k), they are."""
        for n, kind in sorted({(int(n), str(kind)) for row, kind in zip(n_bins, kinds, strict=True) for n in row}):
            wanted = (n_bins == n) & (kinds == kind)[:, None]
            columns = np.flatnonzero(wanted.any(axis=1))
            rows = np.flatnonzero(np.isin(column, columns))
            points = np.repeat(np.isin(column, columns), bags.sizes)
            yield (
                ColumnGrid(bags[rows], np.searchsorted(columns, column[rows]), evaluated[points], kind, n),
                columns,
                wanted,
            )

    # A coarse scan first: the likelihood of tied or clustered points can have more than one hill.
    scanned = np.empty(logs.shape)
    for grid, columns, wanted in grids(bins):
        at, step = np.nonzero(wanted[columns])
        scanned[wanted] = grid(at, start[columns[at]] * np.exp(logs[columns[at], step]))
    best = np.argmax(scanned, axis=1)
    each = np.arange(len(start))
    left = np.maximum(best - 1, 0)
    right = np.minimum(best + 1, _SEARCH_STEPS - 1)
    found = np.empty(len(start))
    for grid, columns, _ in grids(bins[each, left][:, None]):
        limits = zip(logs[columns, left[columns]], logs[columns, right[columns]], strict=True)
        found[columns] = _side_by_side(grid, start[columns], [(float(a), float(b)) for a, b in limits])
    return np.exp(found)


def _side_by_side(grid: ColumnGrid, start: Array, limits: Sequence[tuple[float, float]]) -> Array:
    """Where in its limits the likelihood of each column of a grid is largest, logarithms of factors of ``start``."""
    searches = {i: bounded_search(low, high, _TOLERANCE) for i, (low, high) in enumerate(limits)}
    found = np.empty(len(start))
    at = {i: next(search) for i, search in searches.items()}
    while at:
        which = np.array(list(at))
        for i, value in zip(at, grid(which, start[which] * np.exp(list(at.values()))).tolist(), strict=True):
            try:
                at[i] = searches[i].send(-value)
            except StopIteration as end:
                found[i] = end.value
                at = {j: place for j, place in at.items() if j != i}
    return found


def _zoom_in_columns(bags: Bags, column: Array) -> tuple[Bags, Array]:
    """Narrow columns moved to the middle and stretched, as by ``zoom_in``, and by how much."""
    low, high = (f.reduceat(bags.points[:, 0], bags.offsets[:-1]) for f in (np.minimum, np.maximum))
    first = np.flatnonzero(np.diff(column, prepend=-1))
    zoom = zoom_of(np.maximum.reduceat(high - low, first))
    if np.all(zoom == 1):
        return bags, zoom
    middle = np.repeat((low + high) / 2, bags.sizes)
    factor = np.repeat(zoom[column], bags.sizes)
    x = bags.points[:, 0]
    points = np.where(factor > 1, (x - middle) * factor + 0.5, x).astype(bags.dtype)
    return bags.replace(points=points[:, None]), zoom


def _evaluated_points(bags: Bags, column: Array, draws: Draws) -> Array:
    """Which points densities are evaluated at: all, or, in columns of large bags, those that are drawn."""
    evaluated = np.ones(bags.n_points, bool)
    for j in np.unique(column[bags.sizes > draws.evaluated]):
        rows = np.flatnonzero(column == j)
        points = slice(int(bags.offsets[rows[0]]), int(bags.offsets[rows[-1] + 1]))
        drawn = draws.rows(bags[rows], draws.evaluated)
        evaluated[points] = np.isin(np.arange(points.stop - points.start), np.concatenate(drawn))
    return evaluated


# --------------------------------------------------------------------------------------------------------------
# One bandwidth per dimension
# --------------------------------------------------------------------------------------------------------------


class LeaveOneOut:
    """Leave-one-out densities of points as products over dimensions, one factor replaced at a time.

    Parameters
    ----------
    bags : Bags
        No point twice in a bag, two at least in each.
    boundaries : sequence of str
        See :func:`distembed.density.kernel`.

    Notes
    -----
    Memory: a number for each pair of points of one bag, in float32, and another for each dimension that is on offer.
    Kernels come from a table, at coordinates rounded to 1/2048.

    Examples
    --------
    >>> x = np.array([[0.2, 0.3], [0.4, 0.3], [0.9, 0.1]])
    >>> LeaveOneOut(Bags.from_arrays([x]), ["reflect"] * 2).log_density(None).round(6)  # all kernels wide
    array([0., 0., 0.], dtype=float32)
    """

    def __init__(self, bags: Bags, boundaries: Sequence[str]) -> None:
        self.boundaries = boundaries
        sizes = bags.sizes
        # A bag is a block of n × n pairs; the pair of a point with itself has no weight.
        cells = np.round(bags.points.T.astype(float) * _CELLS).astype(np.int32)
        self._cells = np.split(cells, bags.offsets[1:-1], axis=1)
        self._ends = np.cumsum(sizes**2)
        self._starts = np.concatenate([end - n * np.arange(n, 0, -1) for end, n in zip(self._ends, sizes, strict=True)])
        self.share = shares_of(bags) / bags.n_bags
        self.bandwidth = np.full(len(boundaries), WIDEST)
        masses = np.split(shares_of(bags), bags.offsets[1:-1])
        weights = [(1 - np.eye(len(mass))) * mass / (1 - mass[:, None]) for mass in masses]
        self.product = np.concatenate([block.ravel() for block in weights]).astype(np.float32)
        for j, boundary in enumerate(boundaries):
            if boundary == "none":  # a wide kernel leaks here: it is not one
                self.product *= self.factor(j, WIDEST)

    def factor(self, j: int, h: float) -> Array:
        """Kernels of coordinate j between all pairs, ndarray of shape (n_pairs,) of float32."""
        # K(u, x) = θ(u - x) + θ(u + x) for reflecting boundaries, θ even and of period two; else θ(u - x) alone.
        reflects = self.boundaries[j] == "reflect"
        theta = kernel(np.arange(2 * _CELLS + 1) / _CELLS, np.zeros(1), h, self.boundaries[j])
        theta = np.maximum(theta / (2 if reflects else 1), 1e-30).astype(np.float32)
        out = np.empty(self._ends[-1], np.float32)
        start = 0
        for cells, end in zip(self._cells, self._ends, strict=True):
            x = cells[j]
            block = out[start:end].reshape(cells.shape[1], -1)
            np.take(theta, np.abs(x[:, None] - x), out=block, mode="clip")
            if reflects:
                block += np.take(theta, x[:, None] + x, mode="clip")
            start = end
        return out

    def ratio(self, j: int, h: float) -> Array:
        """By what the product changes if coordinate j gets the bandwidth h."""
        now = float(self.bandwidth[j])
        if now >= WIDEST and self.boundaries[j] != "none":
            return self.factor(j, h)
        return self.factor(j, h) / self.factor(j, now)

    def log_density(self, ratio: Array | None) -> Array:
        """Log density of each point from the others; one without neighbours counts as 1e-12."""
        product = self.product if ratio is None else self.product * ratio
        return np.asarray(np.log(np.maximum(np.add.reduceat(product, self._starts), 1e-12)))

    def gain(self, ratio: Array, before: Array) -> tuple[float, float]:
        """Mean gain in log density, and its standard error."""
        gains = self.log_density(ratio) - before
        mean = float(self.share @ gains)
        return mean, float(np.sqrt(np.sum(self.share**2 * (gains - mean) ** 2)))

    def move(self, j: int, h: float) -> None:
        """Take a step."""
        self.product = self.product * self.ratio(j, h)
        self.bandwidth[j] = h


def greedy(bags: Bags, boundaries: Sequence[str], narrowest: Array) -> Array:
    """Bandwidths by greedy steps, ndarray of shape (n_dims,); those that never shrank are :data:`WIDEST`.

    Parameters
    ----------
    bags, boundaries
        As for :class:`LeaveOneOut`.
    narrowest : ndarray of shape (n_dims,)
        No bandwidth goes below.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bags = [np.c_[rng.normal(0.5, 0.1, 100), rng.uniform(size=100)] for _ in range(3)]
    >>> found = greedy(Bags.from_arrays(bags), ["reflect"] * 2, np.full(2, 0.001))
    >>> bool(0.02 < found[0] < 0.08), float(found[1])
    (True, 4.0)
    """
    state = LeaveOneOut(bags, boundaries)
    n_dims = len(boundaries)
    before = state.log_density(None)
    offers: dict[int, tuple[float, Array]] = {}
    for j in range(n_dims):
        offers |= _entry(state, j, before, float(narrowest[j]), n_dims)
    while True:
        singles = (([(j, h)], ratio) for j, (h, ratio) in offers.items())
        found = _best(state, singles, before, _noise(n_dims)) or _best_pair(state, before, narrowest)
        if not found:
            break
        for j, h in found:
            state.move(j, h)
            offers.pop(j, None)
            if h * _STEP >= narrowest[j]:
                offers[j] = (h * _STEP, state.ratio(j, h * _STEP))
        before = state.log_density(None)
    _refine(state, narrowest)
    return state.bandwidth


def _noise(n_dims: int) -> float:
    """What the gain of one of all steps of single coordinates must exceed, in standard errors."""
    return float(np.sqrt(2 * np.log(n_dims * len(_ENTRIES))))


def _entry(state: LeaveOneOut, j: int, before: Array, least: float, n_dims: int) -> dict[int, tuple[float, Array]]:
    """The widest bandwidth at which coordinate j, by itself, gains more than noise; else the one that gains most."""
    best = {}
    most = -np.inf
    for h in _ENTRIES:
        if h < least:
            break
        ratio = state.ratio(j, h)
        mean, error = state.gain(ratio, before)
        if mean > _noise(n_dims) * error:
            return {j: (h, ratio)}
        if mean > most:
            best = {j: (h, ratio)}
            most = mean
    return best


def _best(state: LeaveOneOut, offers: Offers, before: Array, threshold: float, least: float = 0.0) -> Steps:
    """The steps on offer that gain most, if that is more than noise and more than ``least``."""
    best = []
    most = least
    for steps, ratio in offers:
        mean, error = state.gain(ratio, before)
        if mean > max(most, threshold * error):
            best = steps
            most = mean
    return best


def _best_pair(state: LeaveOneOut, before: Array, narrowest: Array) -> Steps:
    """The steps of two coordinates that are still wide, where neither gains by itself."""
    wide = [j for j, h in enumerate(state.bandwidth) if h >= WIDEST and narrowest[j] <= _PAIR_ENTRY]
    ratio = {j: state.ratio(j, _PAIR_ENTRY) for j in wide} if len(wide) > 1 else {}
    pairs = list(combinations(ratio, 2))
    offers = (([(i, _PAIR_ENTRY), (j, _PAIR_ENTRY)], ratio[i] * ratio[j]) for i, j in pairs)
    return _best(state, offers, before, float(np.sqrt(2 * np.log(max(len(pairs), 2)))) + 1)


def _refine(state: LeaveOneOut, narrowest: Array) -> None:
    """Small steps of the coordinates that shrank, narrower and wider, while the likelihood grows."""
    moving = [j for j, h in enumerate(state.bandwidth) if h < WIDEST]
    before = state.log_density(None)
    for _ in range(_REFINEMENTS):
        now = state.bandwidth
        steps = [(j, float(h)) for j in moving for h in (now[j] * _FINE_STEP, now[j] / _FINE_STEP)]
        offers = (([(j, h)], state.ratio(j, h)) for j, h in steps if narrowest[j] <= h < WIDEST)
        found = _best(state, offers, before, 0.0, least=1e-5)
        if not found:
            return
        state.move(*found[0])
        before = state.log_density(None)
