r"""Bandwidth rules: one vector h of bandwidths, one per dimension, for all bags.

====================  ==================================================================================================
``"scott"``           s_j n^(-1/(l+4)), s_j the deviation of the points inside a bag
``"silverman"``       scott times (4/(l+2))^(1/(l+4))
``"isj"``             improved Sheather-Jones of Botev, Grotowski and Kroese (2010), dimension by dimension through
                      the discrete cosine transform, rescaled from n^(-1/5) to n^(-1/(l+4))
``"likelihood"``      h = c s with the factor c that maximises the leave-one-out log likelihood of the bags
``"distance"``        likelihood's, undersmoothed for the estimation of distances
``"greedy"``          one factor per dimension, for many dimensions of which few matter: kernels start uniform, and
                      those shrink that raise the leave-one-out log likelihood (:mod:`distembed.density.likelihood`)
====================  ==================================================================================================

**Why ``"distance"``.** The best bandwidth for a density balances squared bias h⁴ with variance 1/(n h^l), which gives
h ~ n^(-1/(l+4)). A distance is a functional of the densities: its smoothing bias is of order h², the bias that the
variance of p̂ leaves behind is of order 1/(n h^l), and the rest is parametric. Their balance gives h ~ n^(-1/(l+2)), so

.. math:: h_{distance} = h_{likelihood} \, n^{1/(l+4) - 1/(l+2)}.

The factor in front was calibrated on families of densities that the paper's Gram experiment does not use
(``experiments/calibrate_bandwidth.py``; one to three dimensions, 30 to 3,200 points): the best one is 0.99, so there
is none. Correlation with the truth alone would take about 0.6 in two and three dimensions, agreement in value 1.0.

**``"greedy"``** undersmooths in the same way, l being the number of dimensions whose kernels shrank; the others stay at
a bandwidth of 4, the uniform density.

Rules look at :data:`MAX_BAGS` of the training bags at most, so that they cost the same for a thousand bags and a
million: those at evenly spaced places of the order by size and, among bags of one size, by the mean of their points
(:mod:`distembed.density.subsets`). So small and large bags are looked at as often as they occur, and the order in which
bags and points are given does not matter. Each bag's deviations are weighted by its point weights; n is then Kish's
effective size (Σw)² / Σw². For likelihood and isj copies of a point are one point, with their mass: ties do not drive h
to zero. A bag of an effective size below 1.01, nearly all of whose mass is at one point, says nothing about a scale and
is left out. In four dimensions and more the likelihood takes at most 1,024 points of a bag, so that it costs the same
for a bag of a thousand points and a million; the bandwidth found for m of n points is multiplied by (m/n)^(1/(l+4)).

Bandwidths of many dimensions of which few matter, one dimension at a time.

A kernel much wider than the cube is, with reflecting or periodic boundaries, the uniform density: a
coordinate in which bags are uniform then costs nothing. So all kernels start wide, and one after the other is narrowed,
always the one that raises the likelihood most, as long as the gain is more than noise.

In the spirit of the rodeo of Lafferty and Wasserman (2008) and Liu, Lafferty and Wasserman (2007), with two changes.
Theirs asks, at one place, whether the derivative of the estimate in h_j is larger than its noise; here one bandwidth
serves all places and bags, and what is asked is whether the likelihood gains. Its derivative in a wide bandwidth is
nearly zero for symmetric densities, while a step is not; and leaving one out charges for the variance that a narrower
kernel brings. And margins alone do not show dependence: where no coordinate gains by itself, pairs are tried.

Gains d_i = log p_new(x_i) - log p_old(x_i) of the points x_i have a mean and a standard error s. A step is taken if the
mean is above s √(2 log K), the largest of K draws of noise, K the number of steps on offer; not tested are the last
refinements, by then among few coordinates. Structure that shows in three coordinates together and in no pair of them is
not found.

The leave-one-out likelihood of ``likelihood.py`` for many columns at once, each with a bandwidth of its own.

Hundreds of one-dimensional searches, each in short operations, take most of their time between the operations. Here
columns whose grids have as many bins go through them together. On a grid whose nodes are its bins the kernel between
bins i and j is, with G(m) = Σ_k φ_h(m/n - 2k),

.. math:: K_{ij} = G(|i - j|) + G(i + j + 1)

for reflecting boundaries, which cosine transforms make diagonal; for periodic and open ones it is the first term alone,
with images a period apart, or none, and Fourier transforms do. So a bandwidth costs O(n log n) for each bag, not O(n²).

The numbers are those of :func:`distembed.density.likelihood.best_factor`, column by column, to rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from scipy import fft, optimize

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.checks import check_number
from .estimate import Density, round_up
from .kde import kernel, kernel_of_bins
from .likelihood import (
    COARSEST,
    EVALUATED,
    FINEST,
    LEAST_DENSITY,
    LEAST_REST,
    MAX_BAGS,
    SEARCH_HIGH,
    SEARCH_LOW,
    Draws,
    best_factor,
    effective_sizes,
    fewer_points,
    merge_copies,
    resolving,
    shares_of,
    spaced,
    zoom_of,
    zoomed,
)

# Bandwidths of many dimensions of which few matter, one dimension at a time

Steps = list[tuple[int, float]]  # coordinates and their new bandwidths
Offers = Iterable[tuple[Steps, Array]]  # with the change of the product of kernels

WIDEST = 4.0  # uniform on the interval, to the last digit
_ENTRIES = (0.5, 0.25, 0.12, 0.06, 0.03)  # widths at which a coordinate may enter
_PAIR_ENTRY = 0.2
_STEP = 0.7
_FINE_STEP = 0.87
_REFINEMENTS = 60
_CELLS = 2048  # coordinates are rounded to this many parts of the interval


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
    """The same for two coordinates that are still wide, where neither gains alone."""
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


# The leave-one-out likelihood of ``likelihood.py`` for many columns at once, each with a bandwidth of its own

_STEPS = 13  # of the coarse scan
_TOLERANCE = 0.03  # of the logarithm of the factor
_BLOCK = 2**20  # coefficients at a time
_LEAST_KERNEL = 1e-11  # of the largest value: smaller ones count as zero, as they do in kernel matrices
_GOLDEN = 0.5 * (3 - sqrt(5))
_ROOT = sqrt(2.2e-16)


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
        self._points = np.column_stack([row - column[bag] * shape[1], low, high])[judged]
        self._part = part[judged]
        self._share = share[judged]
        counts = np.bincount(column[bag][judged], minlength=shape[0])
        self._starts = np.cumsum(counts) - counts
        self._counts = counts

    def __call__(self, which: Array, bandwidth: Array) -> Array:
        """Mean log likelihoods, ndarray of shape (k,), of k columns (one may come often) with a bandwidth each."""
        step = max(1, _BLOCK // self._waves[0].size)
        blocks = [slice(i, i + step) for i in range(0, len(which), step)]
        return np.concatenate([self._some(which[block], bandwidth[block]) for block in blocks])

    def _some(self, which: Array, bandwidth: Array) -> Array:
        # Binning and interpolation widen the kernel by δ²/6 each.
        n = self.n
        floor = 1e-3 / self.n**2
        narrowed = np.maximum(bandwidth**2 - 1 / (6 * n**2), floor)
        profile = profiles(np.sqrt(np.maximum(narrowed - 1 / (6 * n**2), 10 * floor)), self.boundary, n)
        density = self._smoothed(which, profile)
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
        without = (at_points - share * own) / np.maximum(1 - share, LEAST_REST)
        log = np.log(np.maximum(without, LEAST_DENSITY))
        cell = k * density.shape[1] + bag
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
    start = zoom * start
    judged = _judged(bags, column)
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
    best = np.argmax(scanned, axis=1)
    each = np.arange(len(start))
    left = np.maximum(best - 1, 0)
    right = np.minimum(best + 1, _STEPS - 1)
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


def _zoomed(bags: Bags, column: Array) -> tuple[Bags, Array]:
    """Narrow columns moved to the middle and stretched, as by ``zoomed``, and by how much."""
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


def _judged(bags: Bags, column: Array) -> Array:
    """Which points densities are judged at: all, or, in columns of large bags, those that are drawn."""
    judged = np.ones(bags.n_points, bool)
    for j in np.unique(column[bags.sizes > EVALUATED]):
        rows = np.flatnonzero(column == j)
        points = slice(int(bags.offsets[rows[0]]), int(bags.offsets[rows[-1] + 1]))
        drawn = Draws(np.random.RandomState(0)).rows(bags[rows], EVALUATED)
        judged[points] = np.isin(np.arange(points.stop - points.start), np.concatenate(drawn))
    return judged


__all__ = [
    "MAX_BAGS", "RULES", "effective_sizes", "for_columns", "for_density", "for_each", "isj", "narrowest", "resolve",
    "spaced", "spreads",
]  # fmt: skip

Rule = Callable[[Bags, Sequence[str], Draws], Array]

NARROWEST = 1e-6  # bandwidths below this underflow somewhere and resolve nothing
MAX_DIMS = 500  # of points whose density is estimated: beyond, no number of them tells it
FALLBACK = 0.05  # where no bag has any spread: the points say nothing about a scale
_LEAST_SIZE = 1.01  # bags of a smaller effective size count as one point
_SEARCH_GREEDY = 0.1  # greedy: narrowest bandwidth in units of Scott's
_HELD_POINTS = 2**20  # columns whose bandwidths are found together have no more
# greedy: points of a bag, and pairs of them in all bags
_GREEDY_POINTS = 300
_GREEDY_PAIRS = 2**19
_KEPT = 64  # answers of rules that are remembered

_found: OrderedDict[Any, Array] = OrderedDict()


# --------------------------------------------------------------------------------------------------------------
# Per-bag statistics
# --------------------------------------------------------------------------------------------------------------


def spreads(bags: Bags) -> Array:
    """Standard deviation of the points of each bag, ndarray of shape (n_bags, n_dims).

    Examples
    --------
    >>> spreads(Bags(np.array([[0.0], [1.0], [3.0]]), [0, 2, 3])).ravel()
    array([0.5, 0. ])
    """
    starts = bags.offsets[:-1]
    sizes = bags.sizes
    share = shares_of(bags)[:, None]
    mean = np.add.reduceat(share * bags.points, starts, axis=0)
    gap = bags.points - np.repeat(mean, sizes, axis=0)
    deviation = np.sqrt(np.add.reduceat(share * gap * gap, starts, axis=0))
    return np.asarray(np.where(deviation < 1e-9, 0.0, deviation))


def isj(x: Array, weights: Array | None = None, n_bins: int = 1024) -> float:
    r"""Improved Sheather-Jones bandwidth of one-dimensional points in the unit interval.

    Botev, Grotowski and Kroese (2010): the fixed point of t = ξ γ^[5](t) for the squared bandwidth t, with the
    functionals ||f^(s)||² read off the cosine transform of the binned points. No reference to a normal density, so it
    does not oversmooth several modes.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        In [0, 1].
    weights : ndarray of shape (n_points,), optional
        Mass of each point.
    n_bins : int
        Resolution of the transform.

    Returns
    -------
    float
        The bandwidth; NaN where the fixed point does not exist (few distinct points), and the caller falls back.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(0.5, 0.1, 1000)
    >>> 0.02 < isj(x) < 0.04  # Scott's rule for a normal density says 0.1 * 1000 ** -0.2 = 0.025
    True
    """
    # Copies are one point with their mass, and n is Kish's effective number of such points.
    _, copies = np.unique(x, return_inverse=True)
    mass = np.bincount(copies, None if weights is None else weights / weights.max())
    n = mass.sum() ** 2 / np.sum(mass**2)
    masses = np.bincount(np.minimum((x * n_bins).astype(int), n_bins - 1), weights, minlength=n_bins)
    coefficients = (fft.dct(masses / masses.sum())[1:] / 2) ** 2  # a_k² / 2 of the binned density
    k2 = np.arange(1, n_bins, dtype=float) ** 2

    def functional(s: int, t: float) -> float:
        return float(2 * np.pi ** (2 * s) * np.sum(k2**s * coefficients * np.exp(-k2 * np.pi**2 * t)))

    def excess(t: float) -> float:
        f = functional(7, t)
        for s in range(6, 1, -1):
            odd = np.prod(np.arange(1, 2 * s, 2)) / np.sqrt(2 * np.pi)
            constant = (1 + 0.5 ** (s + 0.5)) / 3
            f = functional(s, (2 * constant * odd / (n * f)) ** (2 / (3 + 2 * s)))
        return float(t - (2 * n * np.sqrt(np.pi) * f) ** (-0.4))

    with np.errstate(all="ignore"):
        trial = np.geomspace(1e-8, 0.1, 60)
        signs = np.array([excess(t) for t in trial])
        crossing = np.flatnonzero((signs[:-1] < 0) & (signs[1:] >= 0))
        if n < 3 or len(crossing) == 0:
            return float("nan")
        return float(np.sqrt(optimize.brentq(excess, trial[crossing[0]], trial[crossing[0] + 1])))


def _geometric_mean(values: Array) -> Array:
    """Over rows, of what is positive and finite; the fallback where nothing is."""
    usable = np.isfinite(values) & (values > 0)
    logs = np.log(np.where(usable, values, 1.0)).sum(axis=0) / np.maximum(usable.sum(axis=0), 1)
    return np.asarray(np.where(usable.any(axis=0), np.exp(logs), FALLBACK))


def _geometric_means(values: Array, column: Array) -> Array:
    """The same of the values of each column."""
    usable = np.isfinite(values) & (values > 0)
    n = np.bincount(column, usable)
    logs = np.bincount(column, np.log(np.where(usable, values, 1.0))) / np.maximum(n, 1)
    return np.asarray(np.where(n > 0, np.exp(logs), FALLBACK))


def _typical_size(bags: Bags) -> float:
    return float(np.exp(np.mean(np.log(effective_sizes(bags)))))


# --------------------------------------------------------------------------------------------------------------
# Rules: bags, boundaries and draws to bandwidths of shape (n_dims,)
# --------------------------------------------------------------------------------------------------------------


def _scott_each(bags: Bags) -> Array:
    """Scott's bandwidths of each bag, ndarray of shape (n_bags, n_dims); 0 where nearly all mass is at one point."""
    n = effective_sizes(bags)[:, None]
    return np.where(n >= _LEAST_SIZE, spreads(bags) * n ** (-1 / (bags.n_dims + 4)), 0.0)


def scott(bags: Bags, *_: object) -> Array:
    """Scott's rule over bags: geometric mean of the bags' own bandwidths."""
    return _geometric_mean(_scott_each(bags))


def _silverman(bags: Bags, *_: object) -> Array:
    return np.asarray(scott(bags) * (4 / (bags.n_dims + 2)) ** (1 / (bags.n_dims + 4)))


def _isj_rule(bags: Bags, *_: object) -> Array:
    n = effective_sizes(bags)
    rescale = n ** (1 / 5 - 1 / (bags.n_dims + 4))
    rows = [[isj(x.astype(float), bags.weights_of(i)) * rescale[i] for x in points.T] for i, points in enumerate(bags)]
    found = np.array(rows)
    return _geometric_mean(np.where(np.isfinite(found), found, _scott_each(bags)))


def likelihood(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    """Bandwidth h = c s that maximises the leave-one-out log likelihood."""
    distinct = merge_copies(bags)
    start = scott(bags)
    fewer = fewer_points(distinct, draws)
    several = effective_sizes(fewer) >= _LEAST_SIZE
    if not several.any():
        return start
    # What maximises the likelihood of fewer points is wider, and is looked for there.
    wider = (_typical_size(distinct[several]) / _typical_size(fewer[several])) ** (1 / (bags.n_dims + 4))
    return start * best_factor(fewer[several], boundaries, wider * start, draws)


def _undersmoothing(n: float, n_dims: int) -> float:
    """The factor from the rate that is best for a density to the one that is best for a distance."""
    return float(n ** (1 / (n_dims + 4) - 1 / (n_dims + 2)))


def _distance(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    return likelihood(bags, boundaries, draws) * _undersmoothing(_typical_size(bags), bags.n_dims)


def _greedy_rule(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    """Greedy bandwidths from some points of some bags, for all points of a bag, undersmoothed as by "distance"."""
    distinct = merge_copies(bags)
    start = scott(bags)
    several = effective_sizes(distinct) >= _LEAST_SIZE
    if not several.any():
        return start
    distinct = distinct[several]
    most = min(int(distinct.sizes.max()), _GREEDY_POINTS)
    distinct, boundaries, zoom = zoomed(spaced(distinct, max(1, _GREEDY_PAIRS // most**2)), boundaries)
    fewer = draws.of(distinct, _GREEDY_POINTS)
    several = effective_sizes(fewer) >= _LEAST_SIZE
    # Any narrowing of a constant coordinate raises the likelihood: it keeps Scott's bandwidth, the fallback.
    varies = np.flatnonzero(np.any(spreads(distinct) > 0, axis=0))
    if not several.any() or not len(varies):
        return start
    fewer = fewer[several].replace(points=fewer[several].points[:, varies])
    narrowest = np.clip(_SEARCH_GREEDY * zoom * start, 2e-3, 1.0)[varies]
    found = zoom * start
    found[varies] = greedy(fewer, [boundaries[j] for j in varies.tolist()], narrowest)
    shrank = np.isin(np.arange(len(found)), varies) & (found < WIDEST)
    n = _typical_size(distinct)
    n_used = _typical_size(fewer)
    n_dims = int(shrank.sum())
    found[shrank] *= (n / n_used) ** (-1 / (n_dims + 4)) * _undersmoothing(n, n_dims)
    return np.asarray(found / zoom)


RULES: dict[str, Rule] = {
    "scott": scott,
    "silverman": _silverman,
    "isj": _isj_rule,
    "likelihood": likelihood,
    "distance": _distance,
    "greedy": _greedy_rule,
}


# --------------------------------------------------------------------------------------------------------------
# Many columns, each by itself
# --------------------------------------------------------------------------------------------------------------


def for_columns(rule: str, columns: Iterable[Bags], boundary: str) -> Array:
    """What a rule finds for each of many columns, ndarray of shape (n_columns,), for all of them at once.

    Parameters
    ----------
    rule : str
        One of :data:`RULES`.
    columns : iterable of Bags
        One-dimensional bags, those of a column each; any number, of which some at a time are held.
    boundary : str
        Of all of them, see :func:`distembed.density.kernel`.

    Returns
    -------
    ndarray of shape (n_columns,)
        What :func:`resolve` finds for a column alone, to 1e-9 of it.

    Notes
    -----
    Cost: that of the points of :data:`MAX_BAGS` bags of each column; the searches of all columns go on side by side.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).uniform(size=(500, 2)), [0, 250, 500])
    >>> columns = [bags.replace(points=bags.points[:, [j]]) for j in range(2)]
    >>> for_columns("distance", columns, "reflect").round(3)
    array([0.089, 0.088])
    >>> [resolve("distance", column, ["reflect"]).round(3).item() for column in columns]
    [0.089, 0.088]
    """
    found: list[Array] = []
    held: list[Bags] = []
    for column in columns:
        if held and sum(bags.n_points for bags in held) + column.n_points > _HELD_POINTS:
            found.append(_together(rule, held, boundary))
            held = []
        held.append(spaced(column))
    return np.concatenate([*found, _together(rule, held, boundary)]) if held else np.empty(0)


def _together(rule: str, columns: Sequence[Bags], boundary: str) -> Array:
    """What a rule finds for columns; those of the likelihood together, others, which need no search, one by one."""
    if rule not in ("likelihood", "distance"):
        return np.concatenate([RULES[rule](bags, [boundary], Draws(np.random.RandomState(0))) for bags in columns])
    offsets = np.cumsum([0, *(n for bags in columns for n in bags.sizes.tolist())])
    weighted = any(bags.weights is not None for bags in columns)
    weights = np.concatenate([shares_of(bags) for bags in columns]) if weighted else None
    bags = Bags(np.concatenate([bags.points for bags in columns]), offsets, weights=weights)
    column = np.repeat(np.arange(len(columns)), [bags.n_bags for bags in columns])
    h = _geometric_means(_scott_each(bags)[:, 0], column)
    distinct = merge_copies(bags)
    several = effective_sizes(distinct) >= _LEAST_SIZE
    if several.any():
        there, number = np.unique(column[several], return_inverse=True)
        h[there] *= best_factors(distinct[several], number, boundary, h[there])
    if rule == "distance":
        typical = np.exp(np.bincount(column, np.log(effective_sizes(bags))) / np.bincount(column))
        h *= typical ** (1 / 5 - 1 / 3)
    return h


# --------------------------------------------------------------------------------------------------------------
# All of it
# --------------------------------------------------------------------------------------------------------------


def resolve(
    bandwidth: str | float | Sequence[float] | Array,
    bags: Bags,
    boundaries: Sequence[str],
    *,
    scale: float = 1.0,
    margins: bool = False,
    random_state: np.random.RandomState | None = None,
    owner: object = "bandwidth",
) -> Array:
    """Bandwidths for these bags, ndarray of shape (n_dims,), from a number, one number per dimension, or a rule.

    With ``margins`` a rule is applied to every coordinate by itself, as if the others were not there.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).uniform(size=(500, 1)), [0, 250, 500])
    >>> resolve("scott", bags, ["reflect"]).round(3)
    array([0.095])
    >>> resolve(0.1, bags, ["reflect"], scale=0.5)
    array([0.05])
    """
    scale = check_number(owner, "bandwidth_scale", scale, low=NARROWEST, high=1 / NARROWEST)
    legal = f"must be a positive number, one per dimension, or a rule ({', '.join(map(repr, RULES))})"
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise ValueError(f"bandwidth: {legal}, got {bandwidth!r}; 'distance' is the rule for distances")
        asked = (RULES[bandwidth], spaced(bags), boundaries, margins)
        found = _remembered(*asked) if random_state is None else _applied(*asked, random_state)
        return np.maximum(scale * found, NARROWEST)
    values = np.asarray(bandwidth)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"bandwidth: {legal}, got {bandwidth!r}; 0.05 is a usual size")
    if values.ndim > 1 or (values.ndim == 1 and len(values) != bags.n_dims):
        raise ValueError(
            f"bandwidth: must be one number, or one per dimension ({bags.n_dims}), got {bandwidth!r}; give "
            f"{bags.n_dims} numbers"
        )
    if not np.all(np.isfinite(values)) or np.any(values < NARROWEST):
        raise ValueError(
            f"bandwidth: must be positive ({NARROWEST:g} at least, the cube has side 1), got {bandwidth!r}; 0.05 is a "
            "usual size, or give a rule such as 'distance'"
        )
    return np.broadcast_to(np.maximum(scale * values, NARROWEST), bags.n_dims).copy()


def _applied(rule: Rule, few: Bags, boundaries: Sequence[str], margins: bool, rng: np.random.RandomState) -> Array:
    """What a rule finds for a few bags, or for every coordinate of them by itself."""
    draws = Draws(rng)
    if not margins:
        return rule(few, boundaries, draws)
    columns = (few.replace(points=few.points[:, j : j + 1]) for j in range(few.n_dims))
    return np.concatenate([rule(column, [b], draws) for column, b in zip(columns, boundaries, strict=True)])


def _remembered(rule: Rule, few: Bags, boundaries: Sequence[str], margins: bool) -> Array:
    """The same, once for bags of the same values: a learner fits several embeddings to the same bags."""
    values = blake2b(b"".join(part.tobytes() for part in (few.offsets, few.points, few.weights) if part is not None))
    key = (rule, tuple(boundaries), margins, few.dtype, few.n_dims, values.digest())
    found = _found.get(key)
    if found is None:
        found = _found[key] = _applied(rule, few, boundaries, margins, np.random.RandomState(0))
        if len(_found) > _KEPT:
            _found.popitem(last=False)
    return found


def for_density(
    density: Density, rule: Any, bags: Bags, *, scale: float = 1.0, owner: object = "bandwidth"
) -> Array | None:
    """Bandwidths of a density estimate for these bags, see :func:`resolve`; None for one that has no bandwidth.

    Examples
    --------
    >>> from distembed import KDE, KNN
    >>> bags = Bags(np.random.default_rng(0).uniform(size=(500, 1)), [0, 250, 500])
    >>> for_density(KDE(), "scott", bags).round(3), for_density(KNN(), "scott", bags)
    (array([0.095]), None)
    """
    if density.smooths == "nothing":
        return None
    if bags.n_dims > MAX_DIMS and density.smooths != "margins":
        name = owner if isinstance(owner, str) else type(owner).__name__
        raise ValueError(
            f"{name}: points must have at most {MAX_DIMS} dimensions for a density, got {bags.n_dims:,}; its error "
            f"falls as n^(-2/{bags.n_dims + 4:,}), so that to halve it takes 2^{bags.n_dims // 2 + 2:,} times as many "
            "points; look at few dimensions at a time with Marginals, reduce them first, or use 'mmd' or 'deviation'"
        )
    margins = density.smooths == "margins"
    return resolve(rule, bags, density.boundaries(bags.n_dims), scale=scale, margins=margins, owner=owner)


def for_each(density: Density, rule: Any, bags: Bags, *, scale: float = 1.0) -> Array | None:
    """The bandwidths that each bag has for itself, ndarray of shape (n_bags, n_dims); None where bags share one.

    Examples
    --------
    >>> from distembed import KDE
    >>> bags = Bags(np.random.default_rng(0).uniform(size=(500, 1)), [0, 20, 500])
    >>> for_each(KDE(per_bag=True), "scott", bags).round(2).ravel(), for_each(KDE(per_bag=True), 0.1, bags)
    (array([0.18, 0.08]), None)
    """
    if not density.per_bag or not isinstance(rule, str) or density.smooths == "nothing":
        return None
    return np.array([for_density(density, rule, bags[i : i + 1], scale=scale) for i in range(bags.n_bags)])


def narrowest(common: Array | None, own: Array | None) -> Array | None:
    """The least in use of a bandwidth of shape (n_dims,) for all bags and, where they have them, of their own.

    Examples
    --------
    >>> narrowest(np.array([0.1, 0.2]), np.array([[0.3, 0.1], [0.2, 0.4]]))
    array([0.1, 0.1])
    """
    return common if common is None or own is None else np.minimum(common, own.min(axis=0))
