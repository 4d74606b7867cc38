r"""Leave-one-out likelihood of bags as a function of the bandwidth, and its maximum, for the rules of ``bandwidth.py``.

.. math:: L(h) = \frac{1}{N} \sum_{bags} \sum_i s_i \log \hat p_{-i}(x_i), \qquad
          \hat p_{-i}(x_i) = \frac{1}{1 - s_i} \sum_{j \ne i} s_j K_h(x_i, x_j),

with the shares s of the points of a bag. In one to three dimensions on a grid, the finer the narrower the bandwidth,
O(n_points + n_bins) each; in more dimensions by pairs of points, some of each bag at some of each bag.
:func:`best_factor` looks for one factor of all bandwidths.

**Some of the bags, and some of their points**: the same ones in whichever order bags and points are given. A rule that
looked at all bags would cost more the more there are; one that chose by position would find another bandwidth for the
same bags in another order. Bags are chosen at evenly spaced places of an order by size and content (:func:`spaced`).
Points are lined up by a projection onto a line in general position and drawn by chance (:class:`Draws`), other ranks in
each bag: errors of choices that bags had in common would not average out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from scipy import optimize

from ..bags import Bags
from ..compute.arrays import Array, Scratch, contract
from .estimate import GridNodes, round_up
from .kde import GridKDE, KernelProducts

# range of factors
SEARCH_LOW = 0.02
SEARCH_HIGH = 2.0
_SEARCH_LOW_DIRECT = 0.1  # in many dimensions, where narrow kernels reach nobody and take long
FINEST = {1: 256, 2: 160, 3: 48}  # finest bins, by the number of dimensions
COARSEST = 16
_BINS_A_BANDWIDTH = 2.5  # with so many, the log likelihood of a point is right to 2e-4
EVALUATED = 1024  # points of a bag at which its density is judged
_KERNELS = 1024  # in many dimensions: points of a bag that carry a kernel
LEAST_DENSITY = 1e-12  # a point without neighbours counts as this, not as -inf
LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
_BLOCK_PAIRS = 2**20  # pairs of points at a time

MAX_BAGS = 32
_SORTED = 2**12  # bags that are put in order whole
_DIGITS = 5  # of sizes and means; more would tell bags apart by rounding, of float32 or of sums


def shares_of(bags: Bags) -> Array:
    """Mass of each point, each bag's of sum one, ndarray of shape (n_points,).

    Examples
    --------
    >>> shares_of(Bags(np.zeros((3, 1)), [0, 2, 3]))
    array([0.5, 0.5, 1. ])
    """
    shares = bags.shares()
    return np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares


def effective_sizes(bags: Bags) -> Array:
    """Kish's effective number of points of each bag, (Σw)² / Σw².

    Examples
    --------
    >>> effective_sizes(Bags(np.zeros((4, 1)), [0, 2, 4], weights=[1, 1, 3, 1]))
    array([2. , 1.6])
    """
    shares = bags.shares()
    if shares is None:
        return bags.sizes.astype(float)
    return np.asarray(1 / np.add.reduceat(shares**2, bags.offsets[:-1]))


def merge_copies(bags: Bags) -> Bags:
    """The same distributions with every distinct point once, carrying the mass of its copies."""
    bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
    order = np.lexsort((*bags.points.T, bag))
    points = bags.points[order]
    bag = bag[order]
    new = np.append(True, (bag[1:] != bag[:-1]) | np.any(points[1:] != points[:-1], axis=1))
    if bags.weights is None and new.all():
        return bags
    mass = np.add.reduceat(shares_of(bags)[order], np.flatnonzero(new))
    kept = bag[new]
    positive = mass > 0
    offsets = np.append(0, np.cumsum(np.bincount(kept[positive], minlength=bags.n_bags)))
    return bags.replace(points=points[new][positive], offsets=offsets, weights=mass[positive])


# --------------------------------------------------------------------------------------------------------------
# Points
# --------------------------------------------------------------------------------------------------------------


def on_a_line(points: Array) -> Array:
    """Points projected onto a line in general position, ndarray of shape (n_points,): different ones stay different.

    The coefficients e, e^(1/2), e^(1/3), ... have no rational relation (Lindemann and Weierstrass), so that not even
    points of a lattice meet.

    Examples
    --------
    >>> np.argsort(on_a_line(np.array([[0.5, 0.5], [0.0, 0.0], [1.0, 1.0]])))
    array([1, 0, 2])
    """
    return np.asarray(points.astype(float, copy=False) @ np.exp(1 / np.arange(1, points.shape[1] + 1)))


def nonlinear_means(bags: Bags) -> Array:
    """Mean of 1 / (1 + t²) over the points of each bag, t being their places on a line: no two bags agree.

    Examples
    --------
    >>> nonlinear_means(Bags.from_arrays([[0.1, 0.2, 0.6], [0.1, 0.3, 0.5], [0.6, 0.1, 0.2]])).round(4)  # equal sums
    array([0.6588, 0.6277, 0.6588])
    """
    t = on_a_line(bags.points)
    return np.asarray(np.add.reduceat(shares_of(bags) / (1 + t * t), bags.offsets[:-1]))


class Draws:
    """Some points of each bag by chance, the same ones for any order of the bags and of their points.

    Parameters
    ----------
    rng : RandomState
        Whenever points are chosen, draws start from the state that this has now.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(size=(2, 9, 1))
    >>> chosen = []
    >>> for bags in (Bags.from_arrays(list(x)), Bags.from_arrays([x[1, ::-1], x[0]])):
    ...     few = Draws(np.random.RandomState(0)).of(bags, 4)
    ...     chosen.append([sorted(points.ravel().tolist()) for points in few])
    >>> chosen[0] == chosen[1][::-1]
    True
    """

    def __init__(self, rng: np.random.RandomState) -> None:
        self._rng = rng
        self._state = rng.get_state()

    def rows(self, bags: Bags, most: int) -> list[Array]:
        """Positions in ``bags.points`` of at most so many points of each bag; of all, in any order, if it has fewer."""
        starts = bags.offsets[:-1].tolist()
        sizes = bags.sizes
        if sizes.max() <= most:
            return [start + self._rng.permutation(size) for start, size in zip(starts, sizes, strict=True)]
        rng = np.random.RandomState()
        found = {}
        rng.set_state(self._state)
        for i in np.lexsort((nonlinear_means(bags), sizes)).tolist():
            along = np.argsort(on_a_line(bags[i]), kind="stable")
            found[i] = starts[i] + along[rng.permutation(sizes[i])[:most]]
        return [found[i] for i in range(bags.n_bags)]

    def of(self, bags: Bags, most: int) -> Bags:
        """The bags with at most so many of their points each, which keep their masses."""
        rows = [np.sort(own) for own in self.rows(bags, most)]
        kept = np.concatenate(rows)
        offsets = np.append(0, np.cumsum([len(own) for own in rows]))
        return bags.replace(points=bags.points[kept], offsets=offsets, weights=shares_of(bags)[kept])


# --------------------------------------------------------------------------------------------------------------
# Bags
# --------------------------------------------------------------------------------------------------------------


def spaced(bags: Bags, limit: int = MAX_BAGS) -> Bags:
    """At most ``limit`` of the bags, evenly spaced in their order by size and, where sizes are equal, by mean.

    Parameters
    ----------
    bags : Bags
        The bags.
    limit : int
        How many to take at most; no more are returned as they are.

    Returns
    -------
    Bags
        The same ones for any order of the bags and of their points, by increasing size. Sizes are Kish's effective
        ones; the mean is that over all coordinates, to five digits; bags that agree in both are told apart by the mean
        of a nonlinear function of their points, so that only bags of equal points remain tied.

    Notes
    -----
    Cost: one sum over the coordinates of all points and a partition of n_bags numbers, in linear time. Only
    points of bags that are tied are copied.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.1, 0.2, 0.3], [0.9], [0.4, 0.5], [0.2], [0.7], [0.6]])
    >>> [points.ravel().tolist() for points in spaced(bags, 3)]
    [[0.6], [0.9], [0.1, 0.2, 0.3]]
    >>> spaced(bags[::-1], 3)[2].ravel()
    array([0.1, 0.2, 0.3])
    """
    n_bags = bags.n_bags
    if n_bags <= limit:
        return bags
    sizes, means = _sizes_and_means(bags)

    def contents(rows: Array) -> Array:
        return nonlinear_means(bags[rows])

    places = ((np.arange(limit) + 0.5) * n_bags / limit).astype(int)
    if n_bags <= _SORTED:  # one sort is faster than partitions
        order = np.lexsort((means, sizes))
        same = (np.diff(sizes[order]) == 0) & (np.diff(means[order]) == 0)
        tied = np.append(same, False) | np.append(False, same)
        if tied[places].any():
            values = np.zeros(n_bags)
            values[order[tied]] = contents(order[tied])
            order = np.lexsort((values, means, sizes))
        chosen: Bags = bags[order[places]]
        return chosen
    return bags[_at_places(places, np.arange(n_bags), [sizes.__getitem__, means.__getitem__, contents])]


def _at_places(places: Array, rows: Array, keys: Sequence[Callable[[Array], Array]]) -> Array:
    """Those of the rows that stand at increasing places of their order by the first key, among equals by the next."""
    values = keys[0](rows)
    if len(keys) == 1:
        return np.asarray(rows[np.argpartition(values, places)[places]])
    found = []
    there = np.partition(values, places)[places]
    for value in np.unique(there):
        n_below = np.count_nonzero(values < value)
        equal = rows[values == value]
        found.append(_at_places(places[there == value] - n_below, equal, keys[1:]) if len(equal) > 1 else equal)
    return np.concatenate(found)


def _sizes_and_means(bags: Bags) -> tuple[Array, Array]:
    """Effective size of each bag, and mean over its points and coordinates, rounded: ndarrays of shape (n_bags,)."""
    if bags.weights is None:  # the coordinates of a bag stand side by side: one sum, no copy
        sums = np.add.reduceat(bags.points.reshape(-1), bags.offsets[:-1] * bags.n_dims)
        return bags.sizes, np.round(sums / (bags.sizes * bags.n_dims), _DIGITS)
    centres = bags.points @ np.full(bags.n_dims, 1 / bags.n_dims)
    means = np.add.reduceat(shares_of(bags) * centres, bags.offsets[:-1])
    return np.round(effective_sizes(bags), _DIGITS), np.round(means, _DIGITS)


def fewer_points(bags: Bags, draws: Draws) -> Bags:
    """At most as many points of each bag as may carry a kernel, by chance, with their masses; on a grid all may."""
    return bags if bags.n_dims in FINEST or bags.sizes.max() <= _KERNELS else draws.of(bags, _KERNELS)


def zoomed(bags: Bags, boundaries: Sequence[str]) -> tuple[Bags, Sequence[str], Array]:
    """Narrow bags moved to the middle and stretched, dimension by dimension, so that a grid can resolve them.

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


# --------------------------------------------------------------------------------------------------------------
# Likelihoods
# --------------------------------------------------------------------------------------------------------------


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
        Points of each bag, positions in ``bags.points``, at which its density is judged.
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
        without = (at_points - self.share * own) / np.maximum(1 - self.share, LEAST_REST)
        return _mean_log(without, self.share, self.bag)


def resolving(bandwidth: Array, finest: Sequence[int]) -> tuple[int, ...]:
    """Bins of a grid that resolves a bandwidth: the finest, halved as long as 2.5 bins a bandwidth are left.

    Examples
    --------
    >>> [resolving(np.array([h, 0.01]), finest=(160, 160)) for h in (0.02, 0.05, 0.5)]
    [(160, 160), (80, 160), (16, 160)]
    """
    bins = np.array(finest)
    halvings = np.floor(np.log2(np.maximum(bins * bandwidth / _BINS_A_BANDWIDTH, 1)))
    return tuple(np.minimum(bins, np.maximum(np.ceil(bins / 2**halvings), COARSEST)).astype(int).tolist())


class DirectLikelihood:
    """The same by pairs of points, for any number of dimensions.

    Parameters
    ----------
    bags : Bags
        No point twice in a bag.
    boundaries : sequence of str
        See :func:`distembed.density.kernel`.
    draws : Draws
        Chooses the points at which densities are judged.
    """

    def __init__(self, bags: Bags, boundaries: Sequence[str], draws: Draws) -> None:
        self.bags = bags
        self.boundaries = boundaries
        self.shares = shares_of(bags)
        chosen = draws.rows(bags, max(2 * EVALUATED // bags.n_bags, 16))
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
            found.append(mass @ pairs / np.maximum(1 - mass[block], LEAST_REST))
        return np.concatenate(found)


def _mean_log(density: Array, share: Array, bag: Array) -> float:
    """Mean over bags of the weighted mean log density; a point without neighbours counts as 1e-12, not as -inf."""
    log = np.log(np.maximum(density, LEAST_DENSITY))
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
        Chooses the points at which densities are judged.

    Examples
    --------
    >>> bags = Bags(np.random.default_rng(0).normal(0.5, 0.1, size=(400, 1)), [0, 200, 400])
    >>> 0.7 < best_factor(bags, ["reflect"], np.array([0.1 * 200**-0.2]), Draws(np.random.RandomState(0))) < 1.4
    True
    """
    bags, boundaries, zoom = zoomed(bags, boundaries)
    start = zoom * start
    if bags.n_dims in FINEST:
        chosen = draws.rows(bags, EVALUATED)
        limit = FINEST[bags.n_dims]
        finest = tuple(min(round_up(max(1 / h, COARSEST)), limit) for h in start * SEARCH_LOW * 3)
        # Below a bin and a half the grid tells nothing about the likelihood.
        low = min(max(SEARCH_LOW, float(np.max(1.5 / (np.array(finest) * start)))), SEARCH_HIGH / 2)

        @lru_cache(maxsize=1)
        def on_grid(shape: tuple[int, ...]) -> GridLikelihood:
            return GridLikelihood(bags, boundaries, shape, chosen)

        def likelihood(narrowest: float) -> Any:
            return on_grid(resolving(start * np.exp(narrowest), finest))
    else:
        low = _SEARCH_LOW_DIRECT
        direct = DirectLikelihood(bags, boundaries, draws)

        def likelihood(narrowest: float) -> Any:
            return direct

    # A coarse scan first: the likelihood of tied or clustered points can have more than one hill.
    logs = np.linspace(np.log(low), np.log(SEARCH_HIGH), 13)
    best = int(np.argmax([likelihood(c)(start * np.exp(c)) for c in logs]))
    left = logs[max(best - 1, 0)]
    right = logs[min(best + 1, len(logs) - 1)]
    objective = likelihood(left)
    found = optimize.minimize_scalar(
        lambda c: -objective(start * np.exp(c)), bounds=(left, right), method="bounded", options={"xatol": 0.03}
    )
    return float(np.exp(found.x))
