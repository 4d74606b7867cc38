r"""Bandwidth rules: one vector h of bandwidths, one per dimension, for all bags.

====================  ==================================================================================================
``"scott"``           s_j n^(-1/(l+4)), s_j the deviation of the points inside a bag
``"silverman"``       scott times (4/(l+2))^(1/(l+4))
``"isj"``             improved Sheather-Jones of Botev, Grotowski and Kroese (2010), dimension by dimension through
                      the discrete cosine transform, rescaled from n^(-1/5) to n^(-1/(l+4))
``"likelihood"``      h = c s with the factor c that maximises the leave-one-out log likelihood of the bags
``"distance"``        likelihood's, undersmoothed for the estimation of distances
``"greedy"``          one factor per dimension, where few of many dimensions matter: kernels start uniform, and
                      those shrink that raise the leave-one-out log likelihood (see :mod:`.likelihood`)
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

Rules look at :data:`MAX_BAGS` of the training bags at most, so they cost the same for a thousand bags and a
million: those at evenly spaced places of the order by size and, among bags of one size, by the mean of their points
(:func:`.likelihood.spaced`). So small and large bags are looked at as often as they occur, and the order in which
bags and points are given does not matter. Each bag's deviations are weighted by its point weights; n is then Kish's
effective size (Σw)² / Σw². For likelihood and isj copies of a point are one point, with their mass: ties do not drive h
to zero. A bag of an effective size below 1.01, nearly all of whose mass is at one point, has no scale and
is left out. In four dimensions and more the likelihood takes at most 1,024 points of a bag, so it costs the same
for a bag of a thousand points and a million; the bandwidth found for m of n points is multiplied by (m/n)^(1/(l+4)).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy import fft, optimize

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.checks import check_number
from .estimate import Density, shares_of
from .likelihood import WIDEST, best_factor, best_factors, fewer_points, greedy, zoom_in
from .subsets import MAX_BAGS, Draws, effective_sizes, merge_copies, spaced

__all__ = [
    "MAX_BAGS", "RULES", "effective_sizes", "for_columns", "for_density", "for_each", "isj", "narrowest", "resolve",
    "spaced", "spreads",
]  # fmt: skip

Rule = Callable[[Bags, Sequence[str], Draws], Array]

NARROWEST = 1e-6  # bandwidths below this underflow somewhere and resolve nothing
MAX_DIMS = 500  # of points whose density is estimated: beyond, no number of them would do
FALLBACK = 0.05  # where no bag has any spread: the points have no scale
_LEAST_SIZE = 1.01  # bags of a smaller effective size count as one point
_SEARCH_GREEDY = 0.1  # greedy: narrowest bandwidth in units of Scott's
_GREEDY_PAIRS = 2**19  # greedy: pairs of points in all bags
_HELD_POINTS = 2**20  # columns whose bandwidths are found together have no more
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
    >>> 0.02 < isj(x) < 0.04  # Scott's rule for a normal density gives 0.1 * 1000 ** -0.2 = 0.025
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
    """Geometric means of the values of each column, of those that are positive and finite."""
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


def _undersmoothing(n_dims: int) -> float:
    """The power of n that leads from the rate that is best for a density to the one that is best for a distance."""
    return 1 / (n_dims + 4) - 1 / (n_dims + 2)


def _distance(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    return np.asarray(likelihood(bags, boundaries, draws) * _typical_size(bags) ** _undersmoothing(bags.n_dims))


def _greedy_rule(bags: Bags, boundaries: Sequence[str], draws: Draws) -> Array:
    """Greedy bandwidths from some points of some bags, for all points of a bag, undersmoothed as by "distance"."""
    distinct = merge_copies(bags)
    start = scott(bags)
    several = effective_sizes(distinct) >= _LEAST_SIZE
    if not several.any():
        return start
    distinct = distinct[several]
    most = min(int(distinct.sizes.max()), draws.pairs)
    distinct, boundaries, zoom = zoom_in(spaced(distinct, max(1, _GREEDY_PAIRS // most**2)), boundaries)
    fewer = draws.of(distinct, draws.pairs)
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
    found[shrank] *= (n / n_used) ** (-1 / (n_dims + 4)) * n ** _undersmoothing(n_dims)
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


def for_columns(
    rule: str,
    columns: Iterable[Bags],
    boundary: str,
    *,
    draws: Draws | None = None,
    most_points: int = _HELD_POINTS,
) -> Array:
    """What a rule finds for each of many columns, ndarray of shape (n_columns,), for all of them at once.

    Parameters
    ----------
    rule : str
        One of :data:`RULES`.
    columns : iterable of Bags
        One-dimensional bags, those of a column each; any number; some are held at a time.
    boundary : str
        Of all of them, see :func:`distembed.density.kernel`.
    draws : Draws, optional
        How many points of a bag are looked at, and which.
    most_points : int
        Of columns whose bandwidths are found together.

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
    draws = draws or Draws(np.random.RandomState(0))
    found: list[Array] = []
    held: list[Bags] = []
    for column in columns:
        if held and sum(bags.n_points for bags in held) + column.n_points > most_points:
            found.append(_find_together(rule, held, boundary, draws))
            held = []
        held.append(spaced(column))
    return np.concatenate([*found, _find_together(rule, held, boundary, draws)]) if held else np.empty(0)


def _find_together(rule: str, columns: Sequence[Bags], boundary: str, draws: Draws) -> Array:
    """What a rule finds for columns; those of the likelihood together, others, which need no search, one by one."""
    if rule not in ("likelihood", "distance"):
        return np.concatenate([RULES[rule](bags, [boundary], draws) for bags in columns])
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
        h[there] *= best_factors(distinct[several], number, boundary, h[there], draws)
    if rule == "distance":
        typical = np.exp(np.bincount(column, np.log(effective_sizes(bags))) / np.bincount(column))
        h *= typical ** _undersmoothing(1)
    return h


# --------------------------------------------------------------------------------------------------------------
# From a rule or numbers to bandwidths
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
        found = _recall(*asked) if random_state is None else _apply(*asked, random_state)
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


def _apply(rule: Rule, few: Bags, boundaries: Sequence[str], margins: bool, rng: np.random.RandomState) -> Array:
    """What a rule finds for a few bags, or for every coordinate of them by itself."""
    draws = Draws(rng)
    if not margins:
        return rule(few, boundaries, draws)
    columns = (few.replace(points=few.points[:, j : j + 1]) for j in range(few.n_dims))
    return np.concatenate([rule(column, [b], draws) for column, b in zip(columns, boundaries, strict=True)])


def _recall(rule: Rule, few: Bags, boundaries: Sequence[str], margins: bool) -> Array:
    """What a rule finds, cached by the values of the bags: a learner fits several embeddings to the same bags."""
    values = blake2b(b"".join(part.tobytes() for part in (few.offsets, few.points, few.weights) if part is not None))
    key = (rule, tuple(boundaries), margins, few.dtype, few.n_dims, values.digest())
    found = _found.get(key)
    if found is None:
        found = _found[key] = _apply(rule, few, boundaries, margins, np.random.RandomState(0))
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
            f"falls as n^(-2/{bags.n_dims + 4:,}), so to halve it takes 2^{bags.n_dims // 2 + 2:,} times as many "
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
