r"""Bandwidth rules: one vector h of bandwidths, one a dimension, for all bags.

====================  ==================================================================================================
``"scott"``           s_j n^(-1/(l+4)), s_j the deviation of the points inside a bag
``"silverman"``       scott times (4/(l+2))^(1/(l+4))
``"isj"``             improved Sheather-Jones of Botev, Grotowski and Kroese (2010), dimension by dimension through
                      the discrete cosine transform, rescaled from n^(-1/5) to n^(-1/(l+4))
``"likelihood"``      h = c s with the factor c that maximises the leave-one-out log likelihood of the bags
``"distance"``        likelihood's, undersmoothed for the estimation of distances
``"greedy"``          one factor a dimension, for many dimensions of which few matter (:mod:`distembed._greedy`):
                      kernels start uniform, and those shrink that raise the leave-one-out log likelihood
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

Rules that look at densities use at most :data:`MAX_BAGS` training bags, evenly spaced, so that fitting costs the same
for a thousand bags and a million. Each bag's deviations are weighted by its point weights; n is then Kish's effective
size (Σw)² / Σw². For likelihood and isj copies of a point are one point, with their mass: ties do not drive h to zero.
A bag of an effective size below 1.01, nearly all of whose mass is at one point, says nothing about a scale and is left
out. In four dimensions and more the likelihood takes at most 1,024 points of a bag, so that it costs the same for a
bag of a thousand points and a million; the bandwidth found for m of n points is multiplied by (m/n)^(1/(l+4)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, optimize

from ._base import check_number
from ._greedy import WIDEST, greedy
from ._separable import contract
from .bags import Bags
from .density import GridKDE, KernelProducts
from .nodes import GridNodes, round_up

__all__ = ["RULES", "effective_sizes", "isj", "resolve", "spreads"]

Array = NDArray[Any]

RULES = ("scott", "silverman", "isj", "likelihood", "distance", "greedy")
MAX_BAGS = 32
NARROWEST = 1e-6  # bandwidths below this underflow somewhere and resolve nothing
FALLBACK = 0.05  # where no bag has any spread: the points say nothing about a scale
_SEARCH_LOW, _SEARCH_HIGH = 0.02, 2.0  # likelihood: search range in units of Scott's bandwidth
_SEARCH_LOW_DIRECT = 0.1  # in many dimensions, where narrow kernels reach nobody and take long
_GRID = {1: 256, 2: 160, 3: 48}  # likelihood: finest bins
_EVALUATED = 1024  # likelihood: points of a bag at which its density is judged
_KERNELS = 1024  # likelihood in many dimensions: points of a bag that carry a kernel
_LEAST_SIZE = 1.01  # bags of a smaller effective size count as one point
_LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
_BLOCK_PAIRS = 2**20  # likelihood: pairs of points at a time
_SEARCH_GREEDY = 0.1  # greedy: narrowest bandwidth in units of Scott's
_GREEDY_POINTS, _GREEDY_PAIRS = 300, 2**19  # greedy: points of a bag, and pairs of them in all bags


# --------------------------------------------------------------------------------------------------------------
# Per-bag statistics
# --------------------------------------------------------------------------------------------------------------


def effective_sizes(bags: Bags) -> Array:
    """Kish's effective number of points of each bag, (Σw)² / Σw².

    Examples
    --------
    >>> effective_sizes(Bags(np.zeros((4, 1)), [0, 2, 4], weights=[1, 1, 3, 1]))
    array([2. , 1.6])
    """
    shares = bags._shares()
    if shares is None:
        return bags.sizes.astype(float)
    return np.asarray(1 / np.add.reduceat(shares**2, bags.offsets[:-1]))


def spreads(bags: Bags) -> Array:
    """Standard deviation of the points of each bag, ndarray of shape (n_bags, n_dims).

    Examples
    --------
    >>> spreads(Bags(np.array([[0.0], [1.0], [3.0]]), [0, 2, 3])).ravel()
    array([0.5, 0. ])
    """
    starts, sizes = bags.offsets[:-1], bags.sizes
    share = _shares(bags)[:, None]
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


# --------------------------------------------------------------------------------------------------------------
# Leave-one-out likelihood
# --------------------------------------------------------------------------------------------------------------


def merge_copies(bags: Bags) -> Bags:
    """The same distributions with every distinct point once, carrying the mass of its copies."""
    bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
    order = np.lexsort((*bags.points.T, bag))
    points, bag = bags.points[order], bag[order]
    new = np.append(True, (bag[1:] != bag[:-1]) | np.any(points[1:] != points[:-1], axis=1))
    if bags.weights is None and new.all():
        return bags
    mass = np.add.reduceat(_shares(bags)[order], np.flatnonzero(new))
    kept = bag[new]
    positive = mass > 0
    offsets = np.append(0, np.cumsum(np.bincount(kept[positive], minlength=bags.n_bags)))
    return bags._replace(points=points[new][positive], offsets=offsets, weights=mass[positive])


class _GridLikelihood:
    """Leave-one-out log likelihood of bags as a function of the bandwidth, on a fine grid."""

    def __init__(self, bags: Bags, boundaries: Sequence[str], narrowest: Array, rng: np.random.RandomState) -> None:
        limit = _GRID[bags.n_dims]
        shape = tuple(min(round_up(max(1 / h, 16)), limit) for h in narrowest)
        self.estimate = GridKDE(GridNodes(shape), narrowest, boundaries, np.dtype(float), n_bins=shape)
        self.masses = self.estimate.masses(bags)
        chosen = [
            rng.permutation(size)[:_EVALUATED] + start
            for size, start in zip(bags.sizes, bags.offsets[:-1], strict=True)
        ]
        rows = np.concatenate(chosen)
        self.bag = np.repeat(np.arange(bags.n_bags), [len(c) for c in chosen])
        self.share = _shares(bags)[rows]
        self.low, self.high, self.fraction = [], [], []
        for x, size, boundary in zip(bags.points[rows].T, shape, boundaries, strict=True):
            position = x.astype(float) * size - 0.5
            if boundary != "periodic":
                position = np.clip(position, 0, size - 1)
            low = np.floor(position).astype(int)
            self.fraction.append(position - low)
            self.low.append(low % size)
            self.high.append((low + 1) % size if boundary == "periodic" else np.minimum(low + 1, size - 1))

    def __call__(self, bandwidth: Array) -> float:
        # Binning and interpolation widen the kernel by δ²/6 each; smoothing() takes off the first.
        bins = np.array(self.estimate.n_bins)
        narrowed = np.sqrt(np.maximum(bandwidth**2 - 1 / (6 * bins**2), 1e-3 / bins**2))
        matrices = self.estimate.smoothing(narrowed)
        density = contract(self.masses, matrices)
        at_points = np.zeros(len(self.bag))
        n_dims = len(bins)
        for corner in range(2**n_dims):
            index: list[Array] = []
            share = np.ones(len(self.bag))
            for j in range(n_dims):
                upper = corner >> j & 1
                index.append(self.high[j] if upper else self.low[j])
                share = share * (self.fraction[j] if upper else 1 - self.fraction[j])
            at_points += share * density[(*index[:-1], self.bag, index[-1])]
        own = np.ones(len(self.bag))
        for matrix, low, high, f in zip(matrices, self.low, self.high, self.fraction, strict=True):
            own *= (1 - f) ** 2 * matrix[low, low] + f**2 * matrix[high, high] + 2 * f * (1 - f) * matrix[low, high]
        without = (at_points - self.share * own) / np.maximum(1 - self.share, _LEAST_REST)
        return _mean_log(without, self.share, self.bag)


class _DirectLikelihood:
    """The same with all pairs of points, for any number of dimensions."""

    def __init__(self, bags: Bags, boundaries: Sequence[str], rng: np.random.RandomState) -> None:
        self.bags, self.boundaries = bags, boundaries
        self.shares = _shares(bags)
        each = max(2 * _EVALUATED // bags.n_bags, 16)
        self.rows = [rng.permutation(size)[:each] for size in bags.sizes]

    def __call__(self, bandwidth: Array) -> float:
        values, shares, bag = [], [], []
        for i, (points, rows) in enumerate(zip(self.bags, self.rows, strict=True)):
            mass = self.shares[self.bags.offsets[i] : self.bags.offsets[i + 1]]
            share = mass[rows]
            values.append(self._without(points.astype(float), mass, rows, bandwidth))
            shares.append(share)
            bag.append(np.full(len(rows), i))
        return _mean_log(np.concatenate(values), np.concatenate(shares), np.concatenate(bag))

    def _without(self, x: Array, mass: Array, rows: Array, bandwidth: Array) -> Array:
        """Density of the others at some points of a bag. To subtract the point's own kernel would leave rounding."""
        found = []
        for block in np.array_split(rows, -(-len(rows) * len(x) // _BLOCK_PAIRS)):
            pairs = KernelProducts(x[block], bandwidth, self.boundaries).pairs(x)
            pairs[block, np.arange(len(block))] = 0.0
            found.append(mass @ pairs / np.maximum(1 - mass[block], _LEAST_REST))
        return np.concatenate(found)


def _fewer_points(bags: Bags, rng: np.random.RandomState) -> Bags:
    """At most as many points of each bag as may carry a kernel, by chance, with their masses."""
    if bags.sizes.max() <= _KERNELS:
        return bags
    rows = [
        start + (np.sort(rng.permutation(size)[:_KERNELS]) if size > _KERNELS else np.arange(size))
        for size, start in zip(bags.sizes, bags.offsets[:-1], strict=True)
    ]
    kept, offsets = np.concatenate(rows), np.append(0, np.cumsum([len(own) for own in rows]))
    return bags._replace(points=bags.points[kept], offsets=offsets, weights=_shares(bags)[kept])


def _shares(bags: Bags) -> Array:
    """Mass of each point, each bag's of sum one."""
    shares = bags._shares()
    return np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares


def _mean_log(density: Array, share: Array, bag: Array) -> float:
    """Mean over bags of the weighted mean log density; a point without neighbours counts as 1e-12, not as -inf."""
    log = np.log(np.maximum(density, 1e-12))
    return float(np.mean(np.bincount(bag, share * log) / np.bincount(bag, share)))


def _zoomed(bags: Bags, boundaries: Sequence[str]) -> tuple[Bags, Sequence[str], Array]:
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
    return bags._replace(points=points), stretched, zoom


def likelihood(bags: Bags, boundaries: Sequence[str], rng: np.random.RandomState) -> Array:
    """Bandwidth h = c s that maximises the leave-one-out log likelihood, ndarray of shape (n_dims,)."""
    distinct = merge_copies(bags)
    fewer = distinct if bags.n_dims in _GRID else _fewer_points(distinct, rng)
    several = effective_sizes(fewer) >= _LEAST_SIZE
    start = scott(bags)
    if not several.any():
        return start
    # What maximises the likelihood of fewer points is wider, and is looked for there.
    wider = (_typical_size(distinct[several]) / _typical_size(fewer[several])) ** (1 / (bags.n_dims + 4))
    distinct, boundaries, zoom = _zoomed(fewer[several], boundaries)
    zoom = zoom * wider
    low = _SEARCH_LOW
    if bags.n_dims in _GRID:
        objective: Any = _GridLikelihood(distinct, boundaries, zoom * start * _SEARCH_LOW * 3, rng)
        # Below a bin and a half the grid tells nothing about the likelihood.
        low = max(low, float(np.max(1.5 / (np.array(objective.estimate.n_bins) * zoom * start))))
        low = min(low, _SEARCH_HIGH / 2)
    else:
        objective = _DirectLikelihood(distinct, boundaries, rng)
        low = _SEARCH_LOW_DIRECT
    # A coarse scan first: the likelihood of tied or clustered points can have more than one hill.
    logs = np.linspace(np.log(low), np.log(_SEARCH_HIGH), 13)
    best = int(np.argmax([objective(zoom * start * np.exp(c)) for c in logs]))
    left, right = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    found = optimize.minimize_scalar(
        lambda c: -objective(zoom * start * np.exp(c)), bounds=(left, right), method="bounded", options={"xatol": 0.03}
    )
    return np.asarray(start * np.exp(found.x))


def _greedy_rule(bags: Bags, boundaries: Sequence[str], rng: np.random.RandomState) -> Array:
    """Greedy bandwidths from some points of some bags, for all points of a bag, undersmoothed as by "distance"."""
    distinct, start = merge_copies(bags), scott(bags)
    several = effective_sizes(distinct) >= _LEAST_SIZE
    if not several.any():
        return start
    distinct = distinct[several]
    most = min(int(distinct.sizes.max()), _GREEDY_POINTS)
    distinct, boundaries, zoom = _zoomed(spaced(distinct, max(1, _GREEDY_PAIRS // most**2)), boundaries)
    shares, groups = _shares(distinct), []
    for i, points in enumerate(distinct):
        rows = np.sort(rng.permutation(len(points))[:_GREEDY_POINTS])
        mass = shares[distinct.offsets[i] : distinct.offsets[i + 1]][rows]
        mass = mass / mass.sum()
        if np.sum(mass**2) * _LEAST_SIZE <= 1:
            groups.append((points[rows].astype(float), mass))
    # Any narrowing of a constant coordinate raises the likelihood: it keeps Scott's bandwidth, the fallback.
    varies = np.flatnonzero(np.any(spreads(distinct) > 0, axis=0))
    if not groups or not len(varies):
        return start
    narrowest = np.clip(_SEARCH_GREEDY * zoom * start, 2e-3, 1.0)[varies]
    found = zoom * start
    found[varies] = greedy(
        [(x[:, varies], mass) for x, mass in groups], [boundaries[j] for j in varies.tolist()], narrowest
    )
    shrank = np.isin(np.arange(len(found)), varies) & (found < WIDEST)
    n_used = np.exp(np.mean([-np.log(np.sum(mass**2)) for _, mass in groups]))
    n_dims = int(shrank.sum())
    n = _typical_size(distinct)
    found[shrank] *= (n / n_used) ** (-1 / (n_dims + 4)) * n ** (1 / (n_dims + 4) - 1 / (n_dims + 2))
    return np.asarray(found / zoom)


# --------------------------------------------------------------------------------------------------------------
# Rules over bags
# --------------------------------------------------------------------------------------------------------------


def scott(bags: Bags) -> Array:
    """Scott's rule over bags: geometric mean of the bags' own bandwidths, ndarray of shape (n_dims,)."""
    return _geometric_mean(_scott_each(bags))


def _scott_each(bags: Bags) -> Array:
    """Scott's bandwidths of each bag, ndarray of shape (n_bags, n_dims); 0 where nearly all mass is at one point."""
    n = effective_sizes(bags)[:, None]
    return np.where(n >= _LEAST_SIZE, spreads(bags) * n ** (-1 / (bags.n_dims + 4)), 0.0)


def _geometric_mean(values: Array) -> Array:
    """Over rows, of what is positive and finite; the fallback where nothing is."""
    usable = np.isfinite(values) & (values > 0)
    logs = np.log(np.where(usable, values, 1.0)).sum(axis=0) / np.maximum(usable.sum(axis=0), 1)
    return np.asarray(np.where(usable.any(axis=0), np.exp(logs), FALLBACK))


def _isj_rule(bags: Bags) -> Array:
    n = effective_sizes(bags)
    rescale = n ** (1 / 5 - 1 / (bags.n_dims + 4))
    rows = [[isj(x.astype(float), bags.weights_of(i)) * rescale[i] for x in points.T] for i, points in enumerate(bags)]
    found = np.array(rows)
    return _geometric_mean(np.where(np.isfinite(found), found, _scott_each(bags)))


def _typical_size(bags: Bags) -> float:
    return float(np.exp(np.mean(np.log(effective_sizes(bags)))))


def by_rule(rule: str, bags: Bags, boundaries: Sequence[str], rng: np.random.RandomState) -> Array:
    """Bandwidths of a named rule for these bags, ndarray of shape (n_dims,)."""
    n_dims = bags.n_dims
    if rule == "scott":
        return scott(bags)
    if rule == "silverman":
        return np.asarray(scott(bags) * (4 / (n_dims + 2)) ** (1 / (n_dims + 4)))
    if rule == "isj":
        return _isj_rule(bags)
    if rule == "greedy":
        return _greedy_rule(bags, boundaries, rng)
    found = likelihood(bags, boundaries, rng)
    if rule == "distance":
        found = found * _typical_size(bags) ** (1 / (n_dims + 4) - 1 / (n_dims + 2))
    return found


def _coordinate(bags: Bags, j: int) -> Bags:
    """The bags with coordinate j alone."""
    return Bags._trusted(np.ascontiguousarray(bags.points[:, j : j + 1]), bags.offsets, bags.weights, bags.ids, None)


def spaced(bags: Bags, limit: int = MAX_BAGS) -> Bags:
    """At most ``limit`` of the bags, evenly spaced."""
    if bags.n_bags <= limit:
        return bags
    return bags[np.linspace(0, bags.n_bags - 1, limit).round().astype(int)]


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
    """Bandwidths for these bags, ndarray of shape (n_dims,), from a number, one number a dimension, or a rule.

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
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise ValueError(
                f"bandwidth: must be a positive number, one a dimension, or a rule ({', '.join(map(repr, RULES))}), "
                f"got {bandwidth!r}; 'distance' is the rule for distances"
            )
        rng = np.random.RandomState(0) if random_state is None else random_state
        few = spaced(bags)
        if margins:
            one_by_one = (by_rule(bandwidth, _coordinate(few, j), [b], rng) for j, b in enumerate(boundaries))
            found = np.concatenate(list(one_by_one))
        else:
            found = by_rule(bandwidth, few, boundaries, rng)
        return np.maximum(scale * found, NARROWEST)
    values = np.asarray(bandwidth)
    rules = ", ".join(map(repr, RULES))
    if values.dtype.kind not in "iuf":
        raise TypeError(
            f"bandwidth: must be a positive number, one a dimension, or a rule ({rules}), got {bandwidth!r}; 0.05 is a "
            "usual size"
        )
    if values.ndim > 1 or (values.ndim == 1 and len(values) != bags.n_dims):
        raise ValueError(
            f"bandwidth: must be one number, or one a dimension ({bags.n_dims}), got {bandwidth!r}; give {bags.n_dims} "
            "numbers"
        )
    if not np.all(np.isfinite(values)) or np.any(values < NARROWEST):
        raise ValueError(
            f"bandwidth: must be positive ({NARROWEST:g} at least, the cube has side 1), got {bandwidth!r}; 0.05 is a "
            "usual size, or give a rule such as 'distance'"
        )
    return np.broadcast_to(np.maximum(scale * values, NARROWEST), bags.n_dims).copy()
