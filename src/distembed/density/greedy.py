r"""Bandwidths of many dimensions of which few matter, one dimension at a time.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from .kde import kernel
from .likelihood import shares_of

Steps = list[tuple[int, float]]  # coordinates and their new bandwidths
Offers = Iterable[tuple[Steps, Array]]  # with the change of the product of kernels

WIDEST = 4.0  # uniform on the interval, to the last digit
_ENTRIES = (0.5, 0.25, 0.12, 0.06, 0.03)  # widths at which a coordinate may enter
_PAIR_ENTRY = 0.2
_STEP, _FINE_STEP = 0.7, 0.87
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


def _best(state: LeaveOneOut, offers: Offers, before: Array, threshold: float, least: float = 0.0) -> Steps:
    """The steps on offer that gain most, if that is more than noise and more than ``least``."""
    best, most = [], least
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
        now = state.bandwidth
        steps = [(j, float(h)) for j in moving for h in (now[j] * _FINE_STEP, now[j] / _FINE_STEP)]
        offers = (([(j, h)], state.ratio(j, h)) for j, h in steps if narrowest[j] <= h < WIDEST)
        found = _best(state, offers, before, 0.0, least=1e-5)
        if not found:
            return
        state.move(*found[0])
        before = state.log_density(None)
