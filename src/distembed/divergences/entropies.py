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
from functools import partial
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.estimators import check_in_cube
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_flag, check_number
from ..compute.parallel import run_chunks
from ..compute.registry import storable
from ..density import KernelProducts
from ..density import bandwidth as bandwidths
from ..density.kde import check_boundaries
from ..features.medians import median_point
from .inputs import in_units, read_groups, refuse_single, together
from .mean_maps import KernelBlocks, gaussian_kernel

SPLITS = ("halves", "leave-one-out")
_TINY = np.finfo(np.float64).tiny
_LEAST_REST = 1e-12  # share of a bag without one of its points, where that is divided by
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
    clamp = check_flag("js_entropy", "clamp", clamp)
    groups = [bags.astype(np.float64) for bags in read_groups("js_entropy", X, Y)]
    boundaries = check_boundaries("js_entropy", boundary, groups[0].n_dims)
    open_space = set(boundaries) == {"none"}
    refuse_single("js_entropy", groups, "one point says nothing about a density: leave that bag out")
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
        averaged, smoothed = in_units(averaged, centre, widths), in_units(smoothed, centre, widths)
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


def _cube_kernel(widths: Array, boundaries: tuple[str, ...], nodes: Array) -> Callable[[Array, Scratch], Array]:
    """The kernel with boundaries, as :class:`KernelBlocks` takes it."""
    return KernelProducts(nodes, widths, boundaries).pairs


def _half(bags: Bags, which: int) -> Bags:
    """The first or second half of the points of each bag, the larger one first."""
    sizes, starts = bags.sizes, bags.offsets[:-1]
    rank = np.arange(bags.n_points) - np.repeat(starts, sizes)
    keep = (rank >= np.repeat(-(-sizes // 2), sizes)) == bool(which)
    kept = np.add.reduceat(keep, starts, dtype=np.int64)
    weights = None if bags.weights is None else bags.weights[keep]
    return bags.replace(points=bags.points[keep], offsets=np.append(0, np.cumsum(kept)), weights=weights)


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
