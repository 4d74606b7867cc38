r"""Leave-one-out likelihood of bags as a function of the bandwidth, and its maximum, for the rules of ``bandwidth.py``.

.. math:: L(h) = \frac{1}{N} \sum_{bags} \sum_i s_i \log \hat p_{-i}(x_i), \qquad
          \hat p_{-i}(x_i) = \frac{1}{1 - s_i} \sum_{j \ne i} s_j K_h(x_i, x_j),

with the shares s of the points of a bag. In one to three dimensions on a grid, the finer the narrower the bandwidth,
O(n_points + n_bins) each; in more dimensions by pairs of points, some of each bag at some of each bag.
:func:`best_factor` looks for one factor of all bandwidths, :func:`greedy` for those of many dimensions of which few
matter.

**Greedy.** A kernel much wider than the cube is, with reflecting or periodic boundaries, the uniform density: a
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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from ..bags import Bags
from ..compute.parallel import Scratch
from ..compute.separable import contract
from .kde import GridKDE, KernelProducts, kernel
from .nodes import GridNodes, round_up
from .subsets import Draws, shares_of

__all__ = ["DirectLikelihood", "GridLikelihood", "LeaveOneOut", "best_factor", "greedy", "resolving", "zoomed"]

Array = NDArray[Any]
Steps = list[tuple[int, float]]  # coordinates and their new bandwidths
Offers = Iterable[tuple[Steps, Array]]  # with the change of the product of kernels

_SEARCH_LOW, _SEARCH_HIGH = 0.02, 2.0  # range of factors
_SEARCH_LOW_DIRECT = 0.1  # in many dimensions, where narrow kernels reach nobody and take long
_GRID = {1: 256, 2: 160, 3: 48}  # finest bins, by the number of dimensions
_COARSEST = 16
_BINS_A_BANDWIDTH = 2.5  # with so many, the log likelihood of a point is right to 2e-4
_EVALUATED = 1024  # points of a bag at which its density is judged
_KERNELS = 1024  # in many dimensions: points of a bag that carry a kernel
_LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
_BLOCK_PAIRS = 2**20  # pairs of points at a time

# Greedy:
WIDEST = 4.0  # uniform on the interval, to the last digit
_ENTRIES = (0.5, 0.25, 0.12, 0.06, 0.03)  # widths at which a coordinate may enter
_PAIR_ENTRY = 0.2
_STEP, _FINE_STEP = 0.7, 0.87
_REFINEMENTS = 60
_CELLS = 2048  # coordinates are rounded to this many parts of the interval


def fewer_points(bags: Bags, draws: Draws) -> Bags:
    """At most as many points of each bag as may carry a kernel, by chance, with their masses; on a grid all may."""
    return bags if bags.n_dims in _GRID or bags.sizes.max() <= _KERNELS else draws.of(bags, _KERNELS)


def zoomed(bags: Bags, boundaries: Sequence[str]) -> tuple[Bags, Sequence[str], Array]:
    """Narrow bags moved to the middle and stretched, dimension by dimension, so that a grid can resolve them.

    Returns the bags, their boundaries (far away now, where stretched) and the factors of the stretching.
    """
    starts, sizes = bags.offsets[:-1], bags.sizes
    low, high = np.minimum.reduceat(bags.points, starts), np.maximum.reduceat(bags.points, starts)
    zoom = 0.8 / np.maximum((high - low).max(axis=0), 1e-9).astype(float)
    zoom = np.where((zoom > 2) & (zoom < 1e8), zoom, 1.0)
    if np.all(zoom == 1):
        return bags, boundaries, zoom
    middle = np.repeat((low + high) / 2, sizes, axis=0)
    points = np.where(zoom > 1, (bags.points - middle) * zoom + 0.5, bags.points).astype(bags.points.dtype)
    stretched = ["none" if z > 1 else boundary for z, boundary in zip(zoom, boundaries, strict=True)]
    return bags.replace(points=points), stretched, zoom


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
        self.masses, self._scratch = self.estimate.masses(bags), Scratch()
        rows = np.concatenate(chosen)
        self.bag = np.repeat(np.arange(bags.n_bags), [len(c) for c in chosen])
        self.share = shares_of(bags)[rows]
        self.corners, self.parts = [], []  # of each dimension: bins below and above a point, and its shares of them
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
        at_points, own = np.zeros(len(self.bag)), np.ones(len(self.bag))
        for corner in product((0, 1), repeat=len(bins)):
            index = [bins_of[up] for bins_of, up in zip(self.corners, corner, strict=True)]
            share = prod([part[up] for part, up in zip(self.parts, corner, strict=True)])
            at_points += share * density[(*index[:-1], self.bag, index[-1])]
        for matrix, (low, high), (g, f) in zip(matrices, self.corners, self.parts, strict=True):
            own *= g**2 * matrix[low, low] + f**2 * matrix[high, high] + 2 * f * g * matrix[low, high]
        without = (at_points - self.share * own) / np.maximum(1 - self.share, _LEAST_REST)
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
    return tuple(np.minimum(bins, np.maximum(np.ceil(bins / 2**halvings), _COARSEST)).astype(int).tolist())


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
        self.bags, self.boundaries, self.shares = bags, boundaries, shares_of(bags)
        chosen = draws.rows(bags, max(2 * _EVALUATED // bags.n_bags, 16))
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
    log = np.log(np.maximum(density, 1e-12))
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
    if bags.n_dims in _GRID:
        chosen, limit = draws.rows(bags, _EVALUATED), _GRID[bags.n_dims]
        finest = tuple(min(round_up(max(1 / h, _COARSEST)), limit) for h in start * _SEARCH_LOW * 3)
        # Below a bin and a half the grid tells nothing about the likelihood.
        low = min(max(_SEARCH_LOW, float(np.max(1.5 / (np.array(finest) * start)))), _SEARCH_HIGH / 2)

        @lru_cache(maxsize=1)
        def on_grid(shape: tuple[int, ...]) -> GridLikelihood:
            return GridLikelihood(bags, boundaries, shape, chosen)

        def likelihood(narrowest: float) -> Any:
            return on_grid(resolving(start * np.exp(narrowest), finest))
    else:
        low, direct = _SEARCH_LOW_DIRECT, DirectLikelihood(bags, boundaries, draws)

        def likelihood(narrowest: float) -> Any:
            return direct

    # A coarse scan first: the likelihood of tied or clustered points can have more than one hill.
    logs = np.linspace(np.log(low), np.log(_SEARCH_HIGH), 13)
    best = int(np.argmax([likelihood(c)(start * np.exp(c)) for c in logs]))
    left, right = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    objective = likelihood(left)
    found = optimize.minimize_scalar(
        lambda c: -objective(start * np.exp(c)), bounds=(left, right), method="bounded", options={"xatol": 0.03}
    )
    return float(np.exp(found.x))


# --------------------------------------------------------------------------------------------------------------
# Greedy
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
        self.boundaries, sizes = boundaries, bags.sizes
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
            x, block = cells[j], out[start:end].reshape(cells.shape[1], -1)
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

    def move(self, j: int, h: float, ratio: Array) -> None:
        """Take a step."""
        self.product = self.product * ratio
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
    state, n_dims = LeaveOneOut(bags, boundaries), len(boundaries)
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
            state.move(j, h, state.ratio(j, h))
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
    best, most = {}, -np.inf
    for h in _ENTRIES:
        if h < least:
            break
        ratio = state.ratio(j, h)
        mean, error = state.gain(ratio, before)
        if mean > _noise(n_dims) * error:
            return {j: (h, ratio)}
        if mean > most:
            best, most = {j: (h, ratio)}, mean
    return best


def _best(state: LeaveOneOut, offers: Offers, before: Array, threshold: float) -> Steps:
    """The steps on offer that gain most, if that is more than noise."""
    best, most = [], 0.0
    for steps, ratio in offers:
        mean, error = state.gain(ratio, before)
        if mean > max(most, threshold * error):
            best, most = steps, mean
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
        best, most = None, 1e-5
        for j in moving:
            for h in (state.bandwidth[j] * _FINE_STEP, state.bandwidth[j] / _FINE_STEP):
                if narrowest[j] <= h < WIDEST:
                    ratio = state.ratio(j, h)
                    mean, _ = state.gain(ratio, before)
                    if mean > most:
                        best, most = (j, h, ratio), mean
        if best is None:
            return
        state.move(*best)
        before = state.log_density(None)
