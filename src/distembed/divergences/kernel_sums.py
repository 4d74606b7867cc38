r"""Divergences from kernels between all points of all pairs of bags: mean maps in full, and entropies.

**Mean maps.**

.. math::
    ⟨μ_p, μ_q⟩ = \sum_{ij} a_i b_j \, e^{-|x_i - y_j|² / (2σ²)}, \qquad
    MMD²(p, q) = ⟨μ_p, μ_p⟩ + ⟨μ_q, μ_q⟩ - 2 ⟨μ_p, μ_q⟩

for points x_i and y_j of weights a and b, of sum one in each bag. :class:`~distembed.MeanEmbedding` approximates these
at a cost linear in the number of points. Here every pair of points costs an exponential: no error but rounding, for
collections that are small enough, and to see what an approximation loses.

**Entropies.** The direct estimate of Jensen-Shannon divergences that the paper compares with,

.. math::
    JS(p, q) = H\left(\tfrac{p+q}2\right) - \tfrac12 H(p) - \tfrac12 H(q)
             ≈ \tfrac12 \, \overline{\log \frac{2 \hat p}{\hat p + \hat q}}^{\,x \sim p}
             + \tfrac12 \, \overline{\log \frac{2 \hat q}{\hat p + \hat q}}^{\,y \sim q}

with kernel density estimates and means over points that the estimates do not contain (JS_ent of the appendix, whose
sums must be means). Each bag has half of the mixture, whatever its number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import check_in_cube
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_flag, check_number
from ..compute.parallel import run_chunks
from ..compute.registry import storable
from ..density import KernelProducts
from ..density import bandwidth as bandwidths
from ..density.estimate import shares_of
from ..density.kde import check_boundaries
from ..features.medians import median_distance_of_bags, median_point
from .pairs import KernelBlocks, gaussian_kernel, in_units, read_groups, refuse_single, together

SPLITS = ("halves", "leave-one-out")
_TINY = np.finfo(np.float64).tiny
_LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
_GROUP_BAGS = 64  # densities at a time


# --------------------------------------------------------------------------------------------------------------
# Mean maps
# --------------------------------------------------------------------------------------------------------------


def mean_map(
    X: Any,
    Y: Any = None,
    *,
    sigma: float | str = "median",
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Array:
    r"""Mean map kernel ⟨μ_p, μ_q⟩: the mean of exp(-\|\|x - y\|\|²/(2 sigma²)) over all pairs of points of two bags.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of points in any units; weights count.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    sigma : float or "median", default="median"
        Scale of the kernel, in the units of the points. ``"median"``: the median distance between points of all bags
        together (at most 1,000 of them, drawn at random, by weight).
    random_state : int, RandomState or None, default=None
        Used by ``sigma="median"`` with more than 1,000 points.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Returns
    -------
    float64 ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Values in [0, 1]. With ``Y=None`` it is symmetric and positive semidefinite.

    Notes
    -----
    *What it is.* The V-statistic: on the diagonal of ``Y=None`` each point is also paired with itself, see :func:`mmd`.

    *Cost.* An exponential and 2 n_dims operations for every pair of points, some 10 ns, for ``Y=None`` half of the
    pairs: 100 bags of 1,000 points have 5e9 of them, about a minute of a core. Memory beyond the result: a
    copy of the points, and some megabytes per thread.

    *Accuracy.* Ten digits at least. Points are taken relative to their median; if some are more than 256 sigma from it,
    differences of coordinates replace the matrix product.

    References
    ----------
    Smola, Gretton, Song, Schölkopf (2007). A Hilbert space embedding for distributions. ALT.

    Examples
    --------
    >>> mean_map([[0.0, 1.0], [1.0]], sigma=1.0).round(6)  # (1 + exp(-1/2)) / 2 = 0.803265
    array([[0.803265, 0.803265],
           [0.803265, 1.      ]])
    """
    return _means(_in_units_of_sigma("mean_map", X, Y, sigma, random_state), n_jobs)


@storable
def mmd(
    X: Any,
    Y: Any = None,
    *,
    sigma: float | str = "median",
    unbiased: bool = False,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Array:
    r"""Squared maximum mean discrepancies MMD² = \|\|μ_p - μ_q\|\|² of the kernel exp(-\|\|x - y\|\|²/(2 sigma²)).

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of points in any units; weights count.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    sigma : float or "median", default="median"
        Scale of the kernel, as in :func:`mean_map`.
    unbiased : bool, default=False
        Whether a point is not paired with itself: the U-statistic, which needs two points in each bag.
    random_state : int, RandomState or None, default=None
        Used by ``sigma="median"`` with more than 1,000 points.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Returns
    -------
    float64 ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Squared distances. With ``Y=None`` it is symmetric and its diagonal is zero, whatever ``unbiased`` says. Without
        ``unbiased`` none is negative.

    Notes
    -----
    *Bias.* The V-statistic is MMD² of the empirical distributions. Its expectation for bags of n and m points is the
    truth plus (1 - E k(x, x'))/n + (1 - E k(y, y'))/m. Without the pairs of a point with itself,

    .. math:: \frac{\sum_{i ≠ j} a_i a_j k(x_i, x_j)}{1 - \sum_i a_i²},

    the expectation is the truth, for weights that do not depend on the points, and values of bags of one distribution
    lie on both sides of zero. A bag in both ``X`` and ``Y`` is not independent of itself: there it is about
    -2 (1 - E k(x, x'))/n.

    *Cost and memory* are those of :func:`mean_map`, and of the pairs inside each bag of ``X`` and ``Y``.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola (2012). A kernel two-sample test. JMLR.

    Examples
    --------
    N(0, 1) and N(1, 1) have MMD² = 0.1773 for sigma = 1:

    >>> rng = np.random.default_rng(0)
    >>> d2 = mmd([rng.normal(0, 1, 3000), rng.normal(1, 1, 3000)], sigma=1.0, unbiased=True)
    >>> bool(abs(d2[0, 1] - 0.1773) < 0.03)
    True
    """
    unbiased = check_flag("mmd", "unbiased", unbiased)
    groups = _in_units_of_sigma("mmd", X, Y, sigma, random_state)
    if unbiased:
        refuse_single("mmd", groups, "leave it out, or use unbiased=False")
    d2 = _means(groups, n_jobs)
    own = [np.diagonal(d2).copy()] if Y is None else [_own_means(bags, n_jobs) for bags in groups]
    if unbiased:
        own = [_without_selves(each, bags) for each, bags in zip(own, groups, strict=True)]
    d2 *= -2
    d2 += np.add.outer(own[0], own[-1])  # symmetric to the last bit
    if Y is None:
        np.fill_diagonal(d2, 0.0)
    return d2 if unbiased else np.maximum(d2, 0.0, out=d2)


def _without_selves(own: Array, bags: Bags) -> Array:
    """Means over pairs of different points, from means over all pairs; k(x, x) = 1."""
    selves = np.add.reduceat(shares_of(bags) ** 2, bags.offsets[:-1])
    return np.asarray((own - selves) / (1 - selves))


def _in_units_of_sigma(owner: str, X: Any, Y: Any, sigma: Any, random_state: Any) -> list[Bags]:
    """Bags relative to their median and in units of sigma."""
    groups = [bags.astype(np.float64) for bags in read_groups(owner, X, Y)]
    everything = together(groups)
    if isinstance(sigma, str):
        if sigma != "median":
            raise ValueError(f"{owner}(sigma=...): must be a positive number or 'median', got {sigma!r}; choose one")
        sigma = median_distance_of_bags(everything, check_random_state(random_state))
    sigma = check_number(owner, "sigma", sigma, low=0, inclusive="neither", remedy="give a positive number or 'median'")
    return in_units(groups, median_point(everything), sigma)


def _means(groups: list[Bags], n_jobs: int | None) -> Array:
    """Means of exp(-|x - y|²/2) over the points of all pairs of bags, ndarray of shape (n_rows, n_columns)."""
    blocks = KernelBlocks(groups[0], groups[-1], gaussian_kernel(groups))
    symmetric = len(groups) == 1
    found = np.zeros((groups[0].n_bags, groups[-1].n_bags))

    def row(i: int, scratch: Scratch) -> None:
        _add_means(found[i], blocks, i, slice(i if symmetric else 0, found.shape[1]), scratch)
        if symmetric:
            found[i:, i] = found[i, i:]

    run_chunks(row, range(len(found)), n_jobs)
    return found


def _own_means(bags: Bags, n_jobs: int | None) -> Array:
    """Means of exp(-|x - y|²/2) over the points of each bag with itself, ndarray of shape (n_bags,)."""
    blocks = KernelBlocks(bags, bags, gaussian_kernel([bags]))
    found = np.zeros(bags.n_bags)
    run_chunks(lambda i, scratch: _add_means(found, blocks, i, slice(i, i + 1), scratch), range(bags.n_bags), n_jobs)
    return found


def _add_means(found: Array, blocks: KernelBlocks, i: int, bags: slice, scratch: Scratch) -> None:
    """Add to ``found[j]`` the mean over the points of bag i and of bag j, for some j."""
    for nodes in blocks.strips(i):
        for points, own, starts, kernels in blocks(nodes, bags, scratch):
            sums = kernels @ blocks.node_shares[nodes]
            sums *= blocks.shares[points]
            found[own] += np.add.reduceat(sums, starts)


# --------------------------------------------------------------------------------------------------------------
# Entropies
# --------------------------------------------------------------------------------------------------------------


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
        Of the Gaussian kernels of all bags: a number, one per dimension, or a rule, see
        :mod:`distembed.density.bandwidth`, applied once to the points that densities are made of.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth.
    boundary : {"none", "reflect", "periodic"} or one per dimension, default="none"
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
    takes a quarter of that. Memory beyond the result: the points and a density each, and some megabytes per thread.

    *Accuracy.* The estimate is log 2 plus the mean log score of p̂/(p̂ + q̂) as the probability that a new point is of p
    and not of q. No probabilities score better than the true ones, so for a bandwidth that is given the expectation is
    at most the truth: smoothing and noise of the densities both lower it, and two bags of one distribution are a little
    below zero. Hence the rule for densities, ``"likelihood"``, and not ``"distance"``, which is for integrals such as
    :func:`~distembed.divergences.plugin` where the two errors have opposite signs. No integral is taken here, so
    any number of dimensions is open; but kernels need many points in more than three.

    *Where a density underflows* it counts as the smallest normal number, so every estimate is finite (without
    boundaries, of densities in units of the kernel's peak: units of the points do not matter). A point far from
    the rest of its own bag and near another bag can still make an estimate very negative.

    *Equal points* count as often as they are there. Under ``"leave-one-out"`` a point's copies stay in its density: in
    bags of many copies that is biased upwards. So is, downwards, a bag that is in both ``X`` and ``Y``: its point is
    left out of one density and not of the other. ``"halves"`` gives zero there.

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
    clamp = check_flag("js_entropy", "clamp", clamp)
    groups = [bags.astype(np.float64) for bags in read_groups("js_entropy", X, Y)]
    boundaries = check_boundaries("js_entropy", boundary, groups[0].n_dims)
    open_space = set(boundaries) == {"none"}
    refuse_single("js_entropy", groups, "one point has no information about a density: leave that bag out")
    if not open_space:
        for bags in groups:
            check_in_cube("js_entropy", bags, "UnitCube().fit_transform(bags), or use boundary='none'")
    halves = split == "halves"
    averaged = [_half(bags, 0) for bags in groups] if halves else groups
    smoothed = [_half(bags, 1) for bags in groups] if halves else groups
    everything = together(smoothed)
    widths = resolve_widths(bandwidth, everything, boundaries, bandwidth_scale)
    if open_space:  # the unit is the bandwidth; the kernel's peak is one, which no ratio sees
        centre = median_point(everything)
        averaged = in_units(averaged, centre, widths)
        smoothed = in_units(smoothed, centre, widths)
        kernel = gaussian_kernel(averaged + smoothed)
    else:
        kernel = partial(_cube_kernel, widths, boundaries)
    own = [
        _own_densities(KernelBlocks(at, of, kernel), not halves, n_jobs)
        for at, of in zip(averaged, smoothed, strict=True)
    ]
    js = 0.5 * _mean_logs(KernelBlocks(averaged[0], smoothed[-1], kernel), own[0], n_jobs)
    if Y is None:
        js = js + js.T
        np.fill_diagonal(js, 0.0)
    else:
        js += 0.5 * _mean_logs(KernelBlocks(averaged[1], smoothed[0], kernel), own[1], n_jobs).T
    return np.clip(js, 0.0, np.log(2.0), out=js) if clamp else js


def resolve_widths(bandwidth: Any, bags: Bags, boundaries: tuple[str, ...], scale: float) -> Array:
    """Bandwidths in the units of the points, ndarray of shape (n_dims,)."""
    low = np.zeros(bags.n_dims)
    units = np.ones(bags.n_dims)
    if set(boundaries) == {"none"}:  # rules know the unit cube: the points are made to fill it
        low = bags.points.min(axis=0)
        high = bags.points.max(axis=0)
        units = np.where(high > low, high - low, 1.0)
    if isinstance(bandwidth, str):
        filling = bags.replace(points=(bags.points - low) / units)
        return units * bandwidths.resolve(bandwidth, filling, boundaries, scale=scale, owner="js_entropy")
    scale = check_number("js_entropy", "bandwidth_scale", scale, low=0, inclusive="neither")
    given = bandwidth if np.ndim(bandwidth) else [bandwidth] * bags.n_dims
    if len(given) != bags.n_dims:
        raise ValueError(
            f"js_entropy(bandwidth=...): must be one number, one per dimension ({bags.n_dims}) or a rule, got "
            f"{bandwidth!r}; give {bags.n_dims} numbers"
        )
    remedy = "give a positive number, or a rule such as 'likelihood'"
    checked = [check_number("js_entropy", "bandwidth", h, low=0, inclusive="neither", remedy=remedy) for h in given]
    return scale * np.array(checked)


def _cube_kernel(widths: Array, boundaries: tuple[str, ...], nodes: Array) -> Callable[[Array, Scratch], Array]:
    """The kernel with boundaries, as :class:`KernelBlocks` takes it."""
    return KernelProducts(nodes, widths, boundaries).pairs


def _half(bags: Bags, which: int) -> Bags:
    """The first or second half of the points of each bag, the larger one first."""
    sizes = bags.sizes
    starts = bags.offsets[:-1]
    rank = np.arange(bags.n_points) - np.repeat(starts, sizes)
    keep = (rank >= np.repeat(-(-sizes // 2), sizes)) == bool(which)
    return bags.keep_points(keep)


def _own_densities(blocks: KernelBlocks, leave_out: bool, n_jobs: int | None) -> Array:
    """Density of each point in its own bag, ndarray of shape (n_points,)."""
    found = np.empty(blocks.nodes.n_points)

    def one_bag(i: int, scratch: Scratch) -> None:
        for nodes in blocks.strips(i):
            found[nodes] = _densities(blocks, nodes, slice(i, i + 1), scratch, leave_out)[0]

    run_chunks(one_bag, range(blocks.nodes.n_bags), n_jobs)
    if leave_out:
        found /= np.maximum(1 - blocks.node_shares, _LEAST_REST)
    return np.maximum(found, _TINY, out=found)


def _mean_logs(blocks: KernelBlocks, own: Array, n_jobs: int | None) -> Array:
    """Means of log 2p/(p + q) over the points of each bag, p its own density: (n_bags, n_bags of the kernels)."""
    n_kernels = blocks.bags.n_bags
    found = np.zeros((blocks.nodes.n_bags, n_kernels))

    def one_bag(i: int, scratch: Scratch) -> None:
        for nodes in blocks.strips(i):
            log_own = np.log(2 * own[nodes])
            for first in range(0, n_kernels, _GROUP_BAGS):
                bags = slice(first, min(first + _GROUP_BAGS, n_kernels))
                q = np.maximum(_densities(blocks, nodes, bags, scratch), _TINY)
                q += own[nodes]
                found[i, bags] += (log_own - np.log(q, out=q)) @ blocks.node_shares[nodes]

    run_chunks(one_bag, range(blocks.nodes.n_bags), n_jobs)
    return found


def _densities(blocks: KernelBlocks, nodes: slice, bags: slice, scratch: Scratch, leave_out: bool = False) -> Array:
    """Densities of some bags at some nodes, (n_bags, n_nodes); ``leave_out``: no point counts where it is a node."""
    found = np.zeros((bags.stop - bags.start, nodes.stop - nodes.start))
    for points, own, starts, kernels in blocks(nodes, bags, scratch):
        if leave_out:
            both = np.arange(max(points.start, nodes.start), min(points.stop, nodes.stop))
            kernels[both - points.start, both - nodes.start] = 0.0
        shares = blocks.shares[points]
        if len(starts) == 1:
            found[own.start - bags.start] += shares @ kernels
        else:
            kernels *= shares[:, None]
            found[own.start - bags.start : own.stop - bags.start] += np.add.reduceat(kernels, starts, axis=0)
    return found
