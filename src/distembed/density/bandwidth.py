r"""Bandwidth rules: one vector h of bandwidths, one a dimension, for all bags.

====================  ==================================================================================================
``"scott"``           s_j n^(-1/(l+4)), s_j the deviation of the points inside a bag
``"silverman"``       scott times (4/(l+2))^(1/(l+4))
``"isj"``             improved Sheather-Jones of Botev, Grotowski and Kroese (2010), dimension by dimension through
                      the discrete cosine transform, rescaled from n^(-1/5) to n^(-1/(l+4))
``"likelihood"``      h = c s with the factor c that maximises the leave-one-out log likelihood of the bags
``"distance"``        likelihood's, undersmoothed for the estimation of distances
``"greedy"``          one factor a dimension, for many dimensions of which few matter (:mod:`distembed.density.greedy`):
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

Rules look at :data:`MAX_BAGS` of the training bags at most, so that they cost the same for a thousand bags and a
million: those at evenly spaced places of the order by size and, among bags of one size, by the mean of their points
(:func:`spaced`). So small and large bags are looked at as often as they occur, and the order in which bags and points
are given does not matter. Each bag's deviations are weighted by its point weights; n is then Kish's effective
size (Σw)² / Σw². For likelihood and isj copies of a point are one point, with their mass: ties do not drive h to zero.
A bag of an effective size below 1.01, nearly all of whose mass is at one point, says nothing about a scale and is left
out. In four dimensions and more the likelihood takes at most 1,024 points of a bag, so that it costs the same for a
bag of a thousand points and a million; the bandwidth found for m of n points is multiplied by (m/n)^(1/(l+4)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, optimize

from ..bags import Bags
from ..compute.checks import check_number
from .greedy import WIDEST, greedy
from .likelihood import Draws, best_factor, fewer_points, merge_copies, nonlinear_means, shares_of, zoomed

__all__ = ["RULES", "effective_sizes", "isj", "resolve", "spreads"]

Array = NDArray[Any]

RULES = ("scott", "silverman", "isj", "likelihood", "distance", "greedy")
MAX_BAGS = 32
NARROWEST = 1e-6  # bandwidths below this underflow somewhere and resolve nothing
FALLBACK = 0.05  # where no bag has any spread: the points say nothing about a scale
_LEAST_SIZE = 1.01  # bags of a smaller effective size count as one point
_SEARCH_GREEDY = 0.1  # greedy: narrowest bandwidth in units of Scott's
_GREEDY_POINTS, _GREEDY_PAIRS = 300, 2**19  # greedy: points of a bag, and pairs of them in all bags
_DIGITS = 5  # spaced: of sizes and means; more would tell bags apart by rounding, of float32 or of sums
_POINTS_AT_A_TIME = 2**16  # spaced: where points are copied


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
    shares = bags.shares()
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


# --------------------------------------------------------------------------------------------------------------
# Rules that maximise the leave-one-out likelihood
# --------------------------------------------------------------------------------------------------------------


def likelihood(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    """Bandwidth h = c s that maximises the leave-one-out log likelihood, ndarray of shape (n_dims,)."""
    distinct, start = merge_copies(bags), scott(bags)
    fewer = fewer_points(distinct, draws)
    several = effective_sizes(fewer) >= _LEAST_SIZE
    if not several.any():
        return start
    # What maximises the likelihood of fewer points is wider, and is looked for there.
    wider = (_typical_size(distinct[several]) / _typical_size(fewer[several])) ** (1 / (bags.n_dims + 4))
    return start * best_factor(fewer[several], boundaries, wider * start, draws)


def _greedy_rule(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    """Greedy bandwidths from some points of some bags, for all points of a bag, undersmoothed as by "distance"."""
    distinct, start = merge_copies(bags), scott(bags)
    several = effective_sizes(distinct) >= _LEAST_SIZE
    if not several.any():
        return start
    distinct = distinct[several]
    most = min(int(distinct.sizes.max()), _GREEDY_POINTS)
    distinct, boundaries, zoom = zoomed(spaced(distinct, max(1, _GREEDY_PAIRS // most**2)), boundaries)
    shares, groups = shares_of(distinct), []
    for rows in map(np.sort, draws.rows(distinct, _GREEDY_POINTS)):
        mass = shares[rows] / shares[rows].sum()
        if np.sum(mass**2) * _LEAST_SIZE <= 1:
            groups.append((distinct.points[rows].astype(float), mass))
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


def by_rule(rule: str, bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    """Bandwidths of a named rule for these bags, ndarray of shape (n_dims,)."""
    n_dims = bags.n_dims
    if rule == "scott":
        return scott(bags)
    if rule == "silverman":
        return np.asarray(scott(bags) * (4 / (n_dims + 2)) ** (1 / (n_dims + 4)))
    if rule == "isj":
        return _isj_rule(bags)
    if rule == "greedy":
        return _greedy_rule(bags, boundaries, draws)
    found = likelihood(bags, boundaries, draws)
    if rule == "distance":
        found = found * _typical_size(bags) ** (1 / (n_dims + 4) - 1 / (n_dims + 2))
    return found


def _coordinate(bags: Bags, j: int) -> Bags:
    """The bags with coordinate j alone."""
    return bags.replace(points=bags.points[:, j : j + 1], columns=None, categories=None)


# --------------------------------------------------------------------------------------------------------------
# Which bags to look at
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
    Cost: one sum over the coordinates of all points and a partition of n_bags numbers, in linear time. Points are
    copied in small portions if at all.

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
    keys = [lambda rows: sizes[rows], lambda rows: means[rows], lambda rows: _nonlinear_means(bags, rows)]
    places = ((np.arange(limit) + 0.5) * n_bags / limit).astype(int)
    return bags[_at_places(places, np.arange(n_bags), keys)]


def _at_places(places: Array, rows: Array, keys: Sequence[Callable[[Array], Array]]) -> Array:
    """Those of the rows that stand at increasing places of their order by the first key, among equals by the next."""
    values = keys[0](rows)
    if len(keys) == 1:
        return np.asarray(rows[np.argpartition(values, places)[places]])
    found, there = [], np.partition(values, places)[places]
    for value in np.unique(there):
        n_below, equal = np.count_nonzero(values < value), rows[values == value]
        found.append(_at_places(places[there == value] - n_below, equal, keys[1:]) if len(equal) > 1 else equal)
    return np.concatenate(found)


def _sizes_and_means(bags: Bags) -> tuple[Array, Array]:
    """Effective size of each bag, and mean over its points and coordinates, rounded: ndarrays of shape (n_bags,)."""
    if bags.weights is None:  # the coordinates of a bag stand side by side: one sum, no copy
        sums = np.add.reduceat(bags.points.reshape(-1), bags.offsets[:-1] * bags.n_dims)
        return bags.sizes, np.round(sums / (bags.sizes * bags.n_dims), _DIGITS)
    sizes, means = np.empty(bags.n_bags), np.empty(bags.n_bags)
    for rows in _portions(bags, np.arange(bags.n_bags)):
        some = bags[rows]
        shares, starts = shares_of(some), some.offsets[:-1]
        sizes[rows] = 1 / np.add.reduceat(shares**2, starts)
        means[rows] = np.add.reduceat(shares * (some.points @ np.full(bags.n_dims, 1 / bags.n_dims)), starts)
    return np.round(sizes, _DIGITS), np.round(means, _DIGITS)


def _nonlinear_means(bags: Bags, rows: Array) -> Array:
    """What no two of these bags have in common, ndarray of shape (n_rows,)."""
    return np.concatenate([nonlinear_means(bags[part]) for part in _portions(bags, rows)])


def _portions(bags: Bags, rows: Array) -> list[Array]:
    """The rows in parts, the bags of each of which have few points or are few."""
    n_points = np.cumsum(bags.offsets[rows + 1] - bags.offsets[rows])
    return np.split(rows, np.flatnonzero(np.diff(n_points // _POINTS_AT_A_TIME)) + 1)


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
        draws = Draws(np.random.RandomState(0) if random_state is None else random_state)
        few = spaced(bags)
        if margins:
            one_by_one = (by_rule(bandwidth, _coordinate(few, j), [b], draws) for j, b in enumerate(boundaries))
            found = np.concatenate(list(one_by_one))
        else:
            found = by_rule(bandwidth, few, boundaries, draws)
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
