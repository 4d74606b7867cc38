r"""Jensen-Shannon divergences from entropies of points: the direct estimate that the paper compares with.

.. math::
    JS(p, q) = H\left(\tfrac{p+q}2\right) - \tfrac12 H(p) - \tfrac12 H(q)
             ≈ \tfrac12 \, \overline{\log \frac{2 \hat p}{\hat p + \hat q}}^{\,x \sim p}
             + \tfrac12 \, \overline{\log \frac{2 \hat q}{\hat p + \hat q}}^{\,y \sim q}

with kernel density estimates and means over points that the estimates do not contain (JS_ent of the appendix, whose
sums must be means). Each bag has half of the mixture, whatever its number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.estimators import check_in_cube
from ..bags.medians import median_point
from ..compute.checks import check_choice, check_number
from ..compute.parallel import Scratch, run_chunks
from ..compute.registry import storable
from ..density import KernelProducts
from ..density import bandwidth as bandwidths
from ..density.kde import BOUNDARIES
from .mean_maps import gaussian_pairs, in_units, pair_of_groups, products_are_safe, refuse_single, shares_of, together

__all__ = ["js_entropy"]

Array = NDArray[Any]

SPLITS = ("halves", "leave-one-out")
_TINY = np.finfo(np.float64).tiny
_LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
_STRIP_POINTS = 256  # points of a bag at which densities are taken at a time
_STRIP_VALUES = 2**17  # kernels at a time
_GROUP_BAGS = 64  # densities at a time


@storable
def js_entropy(
    X: Any,
    Y: Any = None,
    *,
    split: str = "leave-one-out",
    bandwidth: float | Sequence[float] | str = "likelihood",
    bandwidth_scale: float = 1.0,
    boundary: str | Sequence[str] = "none",
    clamp: bool = False,
    n_jobs: int | None = None,
) -> Array:
    r"""Jensen-Shannon divergences between bags from estimated entropies, in nats.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of two points at least, in any units; weights count.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    split : {"leave-one-out", "halves"}, default="leave-one-out"
        Which points the means are over, and which the densities are made of. ``"leave-one-out"``: all of them, but
        none is part of its own bag's density. ``"halves"``, the paper's: the first ⌈n/2⌉ points of a bag for means,
        the others for its density. The points of a bag must then be in random order: sorted ones give nonsense.
    bandwidth : float, sequence of float or str, default="likelihood"
        Of the Gaussian kernels of all bags: a number, one a dimension, or a rule, see :mod:`distembed.density.bandwidth`,
        applied once to the points that densities are made of.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth.
    boundary : {"none", "reflect", "periodic"} or one a dimension, default="none"
        What happens at the faces of the unit cube, as in :class:`~distembed.density.KDE`. All but ``"none"`` need
        points in the unit cube, in every dimension.
    clamp : bool, default=False
        Whether estimates are clipped to [0, log 2], where the truth is.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Returns
    -------
    float64 ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Estimates; noise makes some negative. With ``Y=None`` it is symmetric and its diagonal is zero by definition.

    Notes
    -----
    *Cost.* A kernel for every pair of points, twice, once at each of the two, some 15 ns each; ``"halves"``
    takes a quarter of that. Memory beyond the result: the points and a density each, and some megabytes a thread.

    *Accuracy.* The estimate is log 2 plus the mean log score of p̂/(p̂ + q̂) as the probability that a new point is of p
    and not of q. No probabilities score better than the true ones, so for a bandwidth that is given the expectation is
    at most the truth: smoothing and noise of the densities both lower it, and two bags of one distribution are a little
    below zero. Hence the rule for densities, ``"likelihood"``, and not ``"distance"``, which is for integrals such as
    :func:`~distembed.divergences.plugin` where the two errors have opposite signs. No integral is taken here, so that
    any number of dimensions is open; but kernels need many points in more than three.

    *Where a density underflows* it counts as the smallest normal number, so that every estimate is finite (without
    boundaries, of densities in units of the kernel's peak: units of the points do not matter). A point far from
    the rest of its own bag and near another bag can still make an estimate very negative.

    *Equal points* count as often as they are there. Under ``"leave-one-out"`` a point's copies stay in its density: in
    bags of many copies that is biased upwards. So is, downwards, a bag that is in both ``X`` and ``Y``: its point is
    left out of one density and not of the other. ``"halves"`` gives zero there.

    See Also
    --------
    distembed.exact.js_from_entropies : ``"halves"`` for one pair, as its formula.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider (2016). Linear-time learning on distributions with approximate kernel
    embeddings. AAAI. (The appendix.)

    Ahmad and Lin (1976). A nonparametric estimation of the entropy for absolutely continuous distributions. IEEE
    Transactions on Information Theory.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> js = js_entropy([rng.normal(0, 1, 2000), rng.normal(1, 1, 2000)])
    >>> bool(abs(js[0, 1] - 0.1114) < 0.02)  # the true value for N(0, 1) and N(1, 1)
    True
    """
    check_choice("js_entropy", "split", split, SPLITS)
    if not isinstance(clamp, bool | np.bool_):
        raise TypeError(f"js_entropy(clamp=...): must be True or False, got {clamp!r}; choose one of these")
    groups = pair_of_groups("js_entropy", X, Y)
    boundaries = _boundaries(boundary, groups[0].n_dims)
    for bags, name in zip(groups, "XY", strict=False):
        refuse_single("js_entropy", name, bags, "one point says nothing about a density: leave that bag out")
        if set(boundaries) != {"none"}:
            check_in_cube("js_entropy", bags, "UnitCube().fit_transform(bags), or use boundary='none'")
    halves = split == "halves"
    evaluated = [_some(bags, halves, False) for bags in groups]
    carrying = [_some(bags, halves, True) for bags in groups]
    everything = together(carrying)
    widths = resolve_widths(bandwidth, everything, boundaries, bandwidth_scale)
    if set(boundaries) == {"none"}:  # the unit is the bandwidth
        centre = median_point(everything)
        evaluated, carrying = in_units(evaluated, centre, widths), in_units(carrying, centre, widths)
        kernel: _Kernel = _OpenKernel(products_are_safe(evaluated + carrying))
    else:
        kernel = _CubeKernel(widths, boundaries)
    own = [
        _Densities(at, kernels, kernel).own(not halves, n_jobs) for at, kernels in zip(evaluated, carrying, strict=True)
    ]
    js = 0.5 * _Densities(evaluated[0], carrying[-1], kernel).mean_logs(own[0], n_jobs)
    if Y is None:
        js = js + js.T
        np.fill_diagonal(js, 0.0)
    else:
        js += 0.5 * _Densities(evaluated[1], carrying[0], kernel).mean_logs(own[1], n_jobs).T
    return np.clip(js, 0.0, np.log(2.0), out=js) if clamp else js


def _boundaries(boundary: Any, n_dims: int) -> tuple[str, ...]:
    """One boundary a dimension."""
    given = (boundary,) * n_dims if isinstance(boundary, str) or not np.iterable(boundary) else tuple(boundary)
    for each in given:
        check_choice("js_entropy", "boundary", each, BOUNDARIES)
    if len(given) != n_dims:
        raise ValueError(
            f"js_entropy(boundary=...): must be one name, or one a dimension ({n_dims}), got {boundary!r}; give "
            f"{n_dims} names"
        )
    return given


def resolve_widths(bandwidth: Any, bags: Bags, boundaries: tuple[str, ...], scale: float) -> Array:
    """Bandwidths in the units of the points, ndarray of shape (n_dims,)."""
    low, units = np.zeros(bags.n_dims), np.ones(bags.n_dims)
    if set(boundaries) == {"none"}:  # rules know the unit cube: the points are made to fill it
        low, high = bags.points.min(axis=0), bags.points.max(axis=0)
        units = np.where(high > low, high - low, 1.0)
    if isinstance(bandwidth, str):
        filling = bags.replace(points=(bags.points - low) / units)
        return units * bandwidths.resolve(bandwidth, filling, boundaries, scale=scale, owner="js_entropy")
    scale = check_number("js_entropy", "bandwidth_scale", scale, low=0, inclusive="neither")
    given = bandwidth if np.ndim(bandwidth) else [bandwidth] * bags.n_dims
    if len(given) != bags.n_dims:
        raise ValueError(
            f"js_entropy(bandwidth=...): must be one number, one a dimension ({bags.n_dims}) or a rule, got "
            f"{bandwidth!r}; give {bags.n_dims} numbers"
        )
    remedy = "give a positive number, or a rule such as 'likelihood'"
    checked = [check_number("js_entropy", "bandwidth", h, low=0, inclusive="neither", remedy=remedy) for h in given]
    return scale * np.array(checked)


def _some(bags: Bags, halves: bool, second: bool) -> Bags:
    """The first or second half of the points of each bag, the larger one first; or all of them."""
    bags = bags.replace(ids=None, columns=None, categories=None)
    if not halves:
        return bags
    sizes, starts = bags.sizes, bags.offsets[:-1]
    rank = np.arange(bags.n_points) - np.repeat(starts, sizes)
    keep = (rank >= np.repeat(-(-sizes // 2), sizes)) == second
    kept = np.add.reduceat(keep, starts, dtype=np.int64)
    weights = None if bags.weights is None else bags.weights[keep]
    return bags.replace(points=bags.points[keep], offsets=np.append(0, np.cumsum(kept)), weights=weights)


class _Kernel(Protocol):
    """Makes, of the points where densities are wanted, a function of the points that they are made of."""

    def at(self, nodes: Array) -> Callable[[Array, Scratch], Array]:
        """Return the function from (n_points, n_dims) to kernels of shape (n_points, n_nodes)."""


@dataclass(frozen=True)
class _OpenKernel:
    """Without boundaries, for points in units of the bandwidth; the kernel's peak is one, which no ratio sees."""

    by_products: bool

    def at(self, nodes: Array) -> Callable[[Array, Scratch], Array]:
        return lambda points, scratch: gaussian_pairs(points, nodes, self.by_products, scratch)


@dataclass(frozen=True)
class _CubeKernel:
    """With boundaries."""

    widths: Array
    boundaries: tuple[str, ...]

    def at(self, nodes: Array) -> Callable[[Array, Scratch], Array]:
        return KernelProducts(nodes, self.widths, self.boundaries).pairs


class _Densities:
    """Kernel density estimates of some bags at the points of others, in strips and groups."""

    def __init__(self, at: Bags, kernels: Bags, kernel: _Kernel) -> None:
        self.at, self.kernels, self.kernel = at, kernels, kernel
        self.at_shares, self.shares = shares_of(at), shares_of(kernels)

    def own(self, leave_out: bool, n_jobs: int | None) -> Array:
        """Density of each point in its own bag, ndarray of shape (n_points,)."""
        found = np.empty(self.at.n_points)

        def one_bag(i: int, scratch: Scratch) -> None:
            for strip in self._strips(i):
                skip = strip.start if leave_out else None
                found[strip] = self._values(strip, i, i + 1, scratch, skip)[0]

        run_chunks(one_bag, range(self.at.n_bags), n_jobs)
        if leave_out:
            found /= np.maximum(1 - self.at_shares, _LEAST_REST)
        return np.maximum(found, _TINY, out=found)

    def mean_logs(self, own: Array, n_jobs: int | None) -> Array:
        """Means of log 2p/(p + q) over the points of each bag, p its own density: (n_bags, n_bags of the kernels)."""
        found = np.zeros((self.at.n_bags, self.kernels.n_bags))

        def one_bag(i: int, scratch: Scratch) -> None:
            for strip in self._strips(i):
                log_own = np.log(2 * own[strip])
                for first in range(0, self.kernels.n_bags, _GROUP_BAGS):
                    last = min(first + _GROUP_BAGS, self.kernels.n_bags)
                    q = self._values(strip, first, last, scratch, None)
                    np.maximum(q, _TINY, out=q)
                    q += own[strip]
                    found[i, first:last] += (log_own - np.log(q, out=q)) @ self.at_shares[strip]

        run_chunks(one_bag, range(self.at.n_bags), n_jobs)
        return found

    def _strips(self, i: int) -> list[slice]:
        start, stop = self.at.offsets[i : i + 2].tolist()
        return [slice(a, min(a + _STRIP_POINTS, stop)) for a in range(start, stop, _STRIP_POINTS)]

    def _values(self, strip: slice, first: int, last: int, scratch: Scratch, skip: int | None) -> Array:
        """Densities of bags first to last, (last - first, n_nodes); the k-th node is not the kernel ``skip + k``."""
        n_nodes, offsets = strip.stop - strip.start, self.kernels.offsets
        kernels_of = self.kernel.at(self.at.points[strip])
        found = np.zeros((last - first, n_nodes))
        begin, end = offsets[[first, last]].tolist()
        step = max(1, _STRIP_VALUES // n_nodes)
        for left in range(begin, end, step):
            right = min(left + step, end)
            pairs = kernels_of(self.kernels.points[left:right], scratch)
            if skip is not None:
                there = np.arange(max(left, skip), min(right, skip + n_nodes))
                pairs[there - left, there - skip] = 0.0
            low, high = np.searchsorted(offsets, [left, right - 1], side="right") - 1
            shares = self.shares[left:right]
            if low == high:
                found[low - first] += shares @ pairs
            else:
                pairs *= shares[:, None]
                cuts = np.maximum(offsets[low : high + 1] - left, 0)
                found[low - first : high + 1 - first] += np.add.reduceat(pairs, cuts, axis=0)
        return found
