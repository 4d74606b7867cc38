r"""Distances between density estimates of bags: ∫ κ(p̂, q̂) at nodes shared by all pairs, or at nodes of each pair.

Shared nodes make one table of densities, of which every pair takes two rows. Points drawn from the two densities of a
pair suit any number of dimensions: see :mod:`distembed.divergences` for their formula and its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from .. import density as densities
from .. import distances
from ..bags import Bags, as_bags
from ..bags.estimators import check_in_cube
from ..bags.point_order import sort_points
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.checks import check_choice, check_number
from ..compute.parallel import run_chunks
from ..compute.registry import storable
from ..density import KDE, BagDensity, Density, choose_nodes, mass_on_nodes, metropolis
from ..density import bandwidth as bandwidths
from ..density.estimate import with_shares
from ..density.nodes import MAX_GRID_DIMS, GridNodes, NodeSpec, PointNodes, warn_if_few_see, warn_if_mass_is_off
from ..distances import HomogeneousDistance
from ..distances.lambdas import Kappa
from .pairs import read_groups, together

FINENESS = 2.0  # of automatic grids: twice that of embeddings, which stop at their basis anyway
_BLOCK_BYTES = 2**25  # densities of a block of bags on shared nodes
_BLOCK_VALUES = 2**16  # integrands at a time
_CHAINS = 256  # for estimates that can't sample


@dataclass(frozen=True)
class Pairwise:
    """Integration nodes for each pair of bags: points drawn from the two densities.

    Parameters
    ----------
    n : int, default=2048
        Points drawn from each bag's density; a pair is integrated with those of both.

    Examples
    --------
    >>> Pairwise(500)
    Pairwise(n=500)
    """

    n: int = 2048


@storable
def plugin(
    X: Any,
    Y: Any = None,
    distance: str | HomogeneousDistance = "js",
    *,
    density: str | Density = "auto",
    bandwidth: float | Sequence[float] | str = "distance",
    bandwidth_scale: float = 1.0,
    nodes: str | NodeSpec | Pairwise = "auto",
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    bias: str | None = None,
) -> Array:
    r"""Squared distances d²(p̂, q̂) = ∫ κ(p̂, q̂) between the density estimates of bags.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of points in the unit cube.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    distance : {"js", "hellinger", "tv", "chi2"} or HomogeneousDistance, default="js"
        The distance; its κ is used as it is.
    density : str or density object, default="auto"
        The density estimate, as in :class:`~distembed.HDDEmbedding`. ``"auto"``: kernels up to three dimensions, a
        Gaussian mixture beyond, where kernels need more points than there are. ``"copula"`` suits coordinates of any
        shape whose dependence is simple; give it ``bandwidth="likelihood"``.
    bandwidth : float, sequence of float or str, default="distance"
        A number, one per dimension, or a rule applied once to the bags of ``X`` and ``Y`` together.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth.
    nodes : {"auto", "pairs", "grid", "importance", "mcmc"}, Pairwise or node object, default="auto"
        Where integrals are taken. ``"pairs"``, or :class:`Pairwise` for their number: at points drawn from the two
        densities of each pair. Otherwise at nodes shared by all pairs, see :mod:`distembed.density.nodes`.
        ``"auto"``: a grid up to three dimensions, ``"pairs"`` beyond.
    random_state : int, RandomState or None, default=None
        Of all nodes but grids.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.
    bias : {None, "richardson"}, default=None
        ``"richardson"`` takes off what smoothing takes from distances, see Notes; for kernels on a grid or other shared
        nodes. It matters where values of distances count, and not only their order.

    Returns
    -------
    ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Squared distances in their own units, Jensen-Shannon in nats; float32 for float32 points, else float64. With
        ``Y=None`` it is symmetric and its diagonal is zero.

    Notes
    -----
    *Cost.* Quadratic in the number N of bags. With K nodes: N² K / 2 evaluations of κ, some 20 ns each. Besides, at
    shared nodes, N densities, as an embedding has them; for pairs, N² K values of densities, each of which takes a
    kernel density estimate as many kernels as the bag has points, so 100 bags of 1,000 points take minutes where a
    mixture takes seconds. Memory beyond the result: some megabytes per thread, and for pairs N K points.

    *Accuracy.* The integral is exact up to its nodes: for pairs of bags the standard error is below κ(1, 0) / √(2k)
    with k points of each bag, .005 for Jensen-Shannon by default and usually much less. What remains is the error of
    the density estimates. Their noise adds to every distance, the more the smaller the bags, see
    :func:`distembed.sizes.noise_floor`, and their smoothing takes away from it.

    *Richardson's extrapolation.* Smoothing by h shrinks squared distances by about c h², so 2 d²(h) - d²(√2 h) is
    free of it to that order. It has more noise, and so wants a wider bandwidth: with ``bandwidth_scale=2``, errors of
    the kernel of the median sigma were a tenth to a half smaller than without both, for betas and mixtures of two of
    them, one and two dimensions, 300 and 3,000 points. It costs two matrices, and the result need not be a squared
    metric.

    *Estimates without a ``sample``* are drawn from by Metropolis chains that start at the bag's points. For estimates
    of unknown mass the ratio of the masses of a pair is estimated from the nodes too (Bennett's acceptance ratio),
    which is all that d² depends on. Estimates with open boundaries are integrated over the whole space by pairs, over
    the cube at shared nodes.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.divergences import plugin
    >>> rng = np.random.default_rng(0)
    >>> bags = de.Bags.from_arrays([np.sqrt(rng.uniform(size=20_000)), rng.uniform(size=20_000)])  # 2x, uniform
    >>> plugin(bags, distance="hellinger").round(3)  # the true value is 0.0572
    array([[0.   , 0.058],
           [0.058, 0.   ]])
    """
    if bias is not None:
        check_choice("plugin", "bias", bias, ("richardson",))
        given: dict[str, Any] = {"density": density, "bandwidth": bandwidth, "nodes": nodes, "n_jobs": n_jobs}
        _check_extrapolated(as_bags(X).n_dims, density, nodes)
        seed = check_random_state(random_state).randint(2**31)
        near, far = (
            plugin(X, Y, distance, bandwidth_scale=factor * bandwidth_scale, random_state=seed, **given)
            for factor in (1.0, np.sqrt(2))
        )
        return np.asarray(np.maximum(2 * near - far, 0))
    kappa = distances.get(distance).kappa
    groups = read_groups("plugin", X, Y)
    dtype = np.result_type(*(bags.dtype for bags in groups))
    n_dims = groups[0].n_dims
    for bags, name in zip(groups, "XY", strict=False):
        check_in_cube("plugin", bags, f"plugin({name}=UnitCube().fit_transform(bags))")
    groups = [bags.astype(np.float64) for bags in groups]
    everything = together(groups)
    rng = check_random_state(random_state)
    density, kind = _replace_auto(density, nodes, n_dims)
    estimate = _Estimate(densities.get(density), bandwidth, bandwidth_scale, everything)
    if isinstance(kind, Pairwise):
        d2 = _by_pairs([_Drawn(bags, estimate, kind, rng) for bags in groups], kappa, n_jobs)
    else:
        d2 = _at_nodes(groups, _shared_nodes(kind, estimate, everything, rng), estimate, kappa, n_jobs)
    np.maximum(d2, 0.0, out=d2)  # rounding errors
    return (d2 + d2.T if Y is None else d2).astype(dtype, copy=False)


def _replace_auto(density: Any, nodes: Any, n_dims: int) -> tuple[Any, Any]:
    """Density and nodes, ``"auto"`` replaced by what it is in this many dimensions and ``"pairs"`` by its object."""
    few = n_dims <= MAX_GRID_DIMS
    if isinstance(density, str) and density == "auto":
        density = "kde" if few else "mixture"
    if isinstance(nodes, str) and nodes in ("auto", "pairs"):
        nodes = "grid" if nodes == "auto" and few else Pairwise()
    return density, nodes


def _check_extrapolated(n_dims: int, density: Any, nodes: Any) -> None:
    """Refuse to extrapolate where nothing is smoothed, or where nodes of their own make each distance noisy."""
    estimate, kind = _replace_auto(density, nodes, n_dims)
    if isinstance(kind, Pairwise) or not (isinstance(estimate, KDE) or estimate == "kde"):
        raise ValueError(
            f"plugin(bias='richardson'): needs kernel density estimates at nodes that all pairs share, got "
            f"density={density!r} and nodes={nodes!r} in {n_dims} dimensions; use density='kde' and nodes='grid' or "
            "Sobol(...), or bias=None"
        )


class _Estimate:
    """A density estimate with its bandwidth, resolved once for all bags, or each bag's own where it asks for that."""

    def __init__(self, density: Density, bandwidth: Any, scale: float, bags: Bags) -> None:
        self.density = density
        self._bandwidth = bandwidth
        self._scale = scale
        self.common = bandwidths.for_density(density, bandwidth, bags, scale=scale, owner="plugin")
        self.narrowest = bandwidths.narrowest(self.common, self.each(bandwidths.spaced(bags)))

    def each(self, bags: Bags) -> Array | None:
        """One bandwidth per bag, or None where all have the common one."""
        return bandwidths.for_each(self.density, self._bandwidth, bags, scale=self._scale)

    def at(self, nodes: GridNodes | PointNodes) -> Callable[[Bags], Array]:
        """The function that gives densities of bags at these nodes."""
        evaluate = self.density.prepare(nodes, self.common, np.dtype(float))
        return lambda bags: evaluate(bags, self.each(bags), None)


# --------------------------------------------------------------------------------------------------------------
# Nodes shared by all pairs
# --------------------------------------------------------------------------------------------------------------


def _shared_nodes(nodes: Any, estimate: _Estimate, bags: Bags, rng: np.random.RandomState) -> GridNodes | PointNodes:
    few = bandwidths.spaced(bags)
    density = estimate.density
    kind, pooled = choose_nodes(nodes, density, few, estimate.common)
    at = density.resolve_nodes(
        kind, bags.n_dims, bandwidth=estimate.narrowest, fineness=FINENESS, random_state=rng, pooled=pooled
    )
    if isinstance(at, GridNodes):
        density.warn_if_unresolved(at, estimate.narrowest)
    elif "none" not in density.boundaries(bags.n_dims):
        masses, seeing = mass_on_nodes(estimate.at(at)(few), at.weights)
        if density.integrates_to_one:
            warn_if_mass_is_off("plugin", masses, at)
        else:
            warn_if_few_see("plugin", seeing, at)
    return at


def _at_nodes(
    groups: list[Bags], nodes: GridNodes | PointNodes, estimate: _Estimate, kappa: Kappa, n_jobs: int | None
) -> Array:
    """Σ_i v_i κ(p̂(u_i), q̂(u_i)) for all pairs, with two blocks of bags in memory at a time; of one group for i < j."""
    density_of = estimate.at(nodes)

    def values(block: Bags) -> Array:
        p = bags_first(density_of(block)).reshape(block.n_bags, -1)
        return np.maximum(p, 0.0)  # copies, and products of matrices leave a rounding error below zero

    bags = groups[0]
    against = groups[-1]
    symmetric = len(groups) == 1
    d2 = np.zeros((bags.n_bags, against.n_bags))
    rows_at_a_time = max(1, _BLOCK_BYTES // (8 * nodes.n_nodes))
    columns_at_a_time = max(1, _BLOCK_VALUES // nodes.n_nodes)
    for top in range(0, bags.n_bags, rows_at_a_time):
        p = values(bags[top : top + rows_at_a_time])
        for left in range(top if symmetric else 0, against.n_bags, rows_at_a_time):
            q = p if symmetric and left == top else values(against[left : left + rows_at_a_time])

            def row(i: int, scratch: Scratch, p: Array = p, q: Array = q, top: int = top, left: int = left) -> None:
                first = i + 1 if symmetric and left == top else 0
                for j in range(first, len(q), columns_at_a_time):
                    block = q[j : j + columns_at_a_time]
                    d2[top + i, left + j : left + j + len(block)] = kappa(p[i], block) @ nodes.weights

            run_chunks(row, range(len(p)), n_jobs)
    return d2


# --------------------------------------------------------------------------------------------------------------
# Nodes of each pair
# --------------------------------------------------------------------------------------------------------------


class _Drawn:
    """Densities of bags, points drawn from each, and the densities there."""

    def __init__(self, bags: Bags, estimate: _Estimate, nodes: Pairwise, rng: np.random.RandomState) -> None:
        n = check_number("Pairwise", "n", nodes.n, low=2, high=2**24, integer=True)
        bags = sort_points(bags)
        each = estimate.each(bags)
        self.parts: list[BagDensity] = []
        self.nodes = np.empty((bags.n_bags, n, bags.n_dims))
        self.values = np.empty((bags.n_bags, n))
        self.scales = np.ones(bags.n_bags)
        self.normalised = estimate.density.integrates_to_one
        for i, (points, own) in enumerate(with_shares(bags)):
            part = estimate.density.of(points, own, estimate.common if each is None else each[i])
            self.parts.append(part)
            if callable(getattr(part, "sample", None)):
                self.nodes[i] = part.sample(n, rng)
                self.values[i] = part.pdf(self.nodes[i])
            else:
                starts = points[rng.choice(len(points), size=min(n, _CHAINS), p=own)]
                self.nodes[i], self.values[i], _ = metropolis(part.pdf, starts, n, points, rng)
            if not self.normalised:  # a first guess, so that ratios to other bags are no extreme numbers
                self.scales[i] = np.exp(-np.mean(np.log(self.values[i])))
                self.values[i] *= self.scales[i]

    def pdf(self, i: int, u: Array) -> Array:
        """Density of bag i, up to its mass where that is unknown."""
        return np.asarray(self.scales[i] * self.parts[i].pdf(u))


def _by_pairs(groups: list[_Drawn], kappa: Kappa, n_jobs: int | None) -> Array:
    """E_m κ(p/m, q/m) for all pairs, one row of pairs per task and a block of it at a time; of one group for i < j."""
    drawn = groups[0]
    against = groups[-1]
    symmetric = len(groups) == 1
    n_others, n, n_dims = against.nodes.shape
    d2 = np.zeros((len(drawn.parts), n_others))
    step = max(1, _BLOCK_VALUES // (2 * n))

    def row(i: int, scratch: Scratch) -> None:
        for start in range(i + 1 if symmetric else 0, n_others, step):
            block = slice(start, min(start + step, n_others))
            # Both densities of each pair, at the nodes of the first bag and then at those of the second.
            p, q = (np.empty((block.stop - block.start, 2 * n)) for _ in range(2))
            p[:, :n] = drawn.values[i]
            q[:, n:] = against.values[block]
            p[:, n:] = drawn.pdf(i, against.nodes[block].reshape(-1, n_dims)).reshape(-1, n)
            for k, j in enumerate(range(block.start, block.stop)):
                q[k, :n] = against.pdf(j, drawn.nodes[i])
            share = p / np.maximum(p + q, np.finfo(float).tiny)
            if not drawn.normalised:
                share = _balance(share)
            d2[i, block] = kappa(2 * share, 2 * (1 - share)).mean(axis=1)

    run_chunks(row, range(len(drawn.parts)), n_jobs)
    return d2


def _balance(share: Array, n_steps: int = 60) -> Array:
    r"""Shares p/(p + q) of densities with their masses made equal.

    Parameters
    ----------
    share : ndarray of shape (n_pairs, 2 n)
        f/(f + g) for f = a p and g = b q, at n points drawn from p and then at n points drawn from q.
    n_steps : int
        Of bisection.

    Returns
    -------
    ndarray of shape (n_pairs, 2 n)

    Notes
    -----
    Bennett's acceptance ratio (1976): log(a/b) is the c for which Σ_{u ~ p} q/(p + q) = Σ_{v ~ q} p/(p + q), both of
    which estimate n ∫ pq/(p + q). Where the densities do not overlap any c will do.
    """
    n = share.shape[1] // 2
    with np.errstate(divide="ignore"):
        log_ratio = np.log(share) - np.log1p(-share)
    low = np.full(len(share), -700.0)
    high = np.full(len(share), 700.0)
    for _ in range(n_steps):
        c = (low + high) / 2
        too_high = expit(c[:, None] - log_ratio[:, :n]).sum(axis=1) > expit(log_ratio[:, n:] - c[:, None]).sum(axis=1)
        low = np.where(too_high, low, c)
        high = np.where(too_high, c, high)
    return np.asarray(expit(log_ratio - ((low + high) / 2)[:, None]))
