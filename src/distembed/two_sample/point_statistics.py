"""The divergence between two bags, for all splits of their points: one function, and a fast path where there is one.

Whatever is fitted (scale, bandwidth, nodes, embedding) is fitted once, to the pool. Then the statistics of all splits
are

- of a mean map with kernel matrix K, the quadratic forms vᵀKv with v = 1/n on one part and -1/m on the other;
- of a linear embedding, squared norms of the rows of V Z, Z being the features of the points;
- of density estimates on a grid, ∫ κ(p̂, q̂) with p̂ of the smaller part and q̂ = (N p̂_pool - n p̂) / m;
- of neighbours, sums over lists that are made once;
- of other embeddings, distances of the rows of all parts, embedded a few hundred at a time;
- of anything else, one comparison of two bags per split.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp
from scipy.stats import binom
from sklearn.pipeline import Pipeline

from .. import density as densities
from .. import distances
from ..bags import Bags
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.parallel import run_chunks
from ..density import bandwidth as bandwidths
from ..density.nodes import MAX_GRID_DIMS, Grid
from ..divergences.densities import FINENESS
from ..divergences.neighbours import DEFAULT_K, from_ratios, parse
from ..divergences.pairs import gaussian_pairs, in_units, products_are_safe
from ..embeddings import BlockAverage, L2Embedding, MeanEmbedding, MomentEmbedding
from ..embeddings.gaussian_series import MAX_DIMS, fit_series
from ..features.medians import median_distance_of_bags, median_point
from ..kernels.comparisons import Comparison, is_embedding, wants_cube
from ..scaling import UnitCube
from .permutations import Mask, Permutations, PointPool

BANDWIDTH = "distance"  # that of divergences.plugin
MOST_KERNEL_POINTS = 3000  # beyond, features are faster than the kernel matrix of all points
_COMPONENTS = 1000
_LEAST_CAPTURED = 0.999
_ROUNDING = 1e-12  # of the size of the terms of a statistic
_STRIP = 256
_FEATURE_VALUES = 2**22  # features of points at a time
_LIST_FAILS = 1e-3  # chance that some list of a split is too short, which costs a search of its own
# beyond, a search for every split is faster, and lists take much memory
_LONGEST_LIST = 512
_MOST_LISTED = 2**24


class Statistics(NamedTuple):
    """Statistics of all splits, the observed one first, and the rounding error they have."""

    values: Array
    rounding: float


def name_of(divergence: Any) -> str:
    """How results call a divergence.

    Examples
    --------
    >>> name_of("js"), name_of(MeanEmbedding()), name_of(len)
    ('js', 'MeanEmbedding', 'len')
    """
    if isinstance(divergence, str):
        return divergence
    if is_embedding(divergence):
        return " + ".join(type(step).__name__ for step in _steps(divergence))
    return str(getattr(divergence, "__name__", type(divergence).__name__))


def refuse_categories(owner: str, divergence: Any, bags: Bags) -> None:
    """Refuse categorical columns unless an embedding is there to say whether it takes them.

    Examples
    --------
    >>> refuse_categories("bags_test", "js", Bags([[0], [1]], [0, 2], categories={0: ["f", "m"]}))
    Traceback (most recent call last):
    ...
    ValueError: bags_test: bags must have continuous columns only, got the categorical columns ['x0']; leave them out...
    """
    if bags.categories is not None and not is_embedding(divergence):
        raise ValueError(
            f"{owner}: bags must have continuous columns only, got the categorical columns "
            f"{list(bags.category_labels)}; leave them out, or pass an embedding that takes them: "
            "divergence=HDDEmbedding('js')"
        )


def to_cube(divergence: Any, bags: Bags) -> Bags:
    """Bags in the unit cube for distances of densities, which do not change with units; else as they are.

    Examples
    --------
    >>> to_cube("js", Bags.from_arrays([[0.0, 110.0]])).points.ravel().round(4)
    array([0.0455, 0.9545])
    """
    return UnitCube().fit_transform(bags) if wants_cube(divergence) else bags


def point_statistics(
    owner: str, divergence: Any, pool: PointPool, splits: Permutations, rng: np.random.Generator, n_jobs: int | None
) -> Statistics:
    """The divergence of the two parts of every split.

    Parameters
    ----------
    owner : str
        Named in errors.
    divergence : str, embedding or callable
        As in :class:`~distembed.kernels.comparisons.Comparison`.
    pool : PointPool
        All points.
    splits : Permutations
        The splits; True marks the smaller part.
    rng : Generator
        Of random features.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from distembed.two_sample.permutations import pool_points
    >>> rng = np.random.default_rng(0)
    >>> pool = pool_points("example", [0.0, 1.0], [5.0], rng)
    >>> found = point_statistics("example", MomentEmbedding("mean"), pool, pool.permutations(99, rng), rng, None)
    >>> np.sort(found.values), float(found.values[0])
    (array([ 2.25,  9.  , 20.25]), 20.25)
    """
    refuse_categories(owner, divergence, pool.bags)
    if divergence == "mmd":
        return _by_kernel(pool, splits, rng, n_jobs)
    if wants_cube(divergence) and pool.bags.n_dims <= MAX_GRID_DIMS:
        return _by_densities(divergence, pool, splits, n_jobs)
    compare = Comparison(divergence, pool.example(), owner, n_jobs=1)
    if is_embedding(divergence):
        if is_linear(divergence) and pool.bags.categories is None:
            return _by_means(compare.look_at, pool, splits, n_jobs)
        return _by_features(compare.look_at, pool, splits)

    def one_by_one(rows: Mask) -> Array:
        pairs = (compare.look_at(pool.both(rows[i : i + 1])) for i in range(len(rows)))
        return np.array([compare.both_ways(pair)[0, 1] for pair in pairs])

    if not isinstance(divergence, str):  # callables need not be safe in threads
        return Statistics(splits.map(one_by_one, 1, math.inf), 0.0)
    one_by_one(splits.rows(slice(0, 1)))  # complains about bags that are too small, and the like
    lists = _neighbour_lists(divergence, pool)

    def from_lists(rows: Mask) -> Array:
        found = lists.both_ways(rows)  # type: ignore[union-attr]
        short = np.isnan(found)
        found[short] = one_by_one(rows[short])
        return found

    if lists is None:
        values = splits.map(one_by_one, n_jobs, math.inf)
    else:
        values = splits.map(from_lists, n_jobs, lists.values_a_row)
    return Statistics(values, 0.0 if divergence.endswith(":l2") else _ROUNDING)  # l2 is in units of its own


# --------------------------------------------------------------------------------------------------------------
# Fast paths
# --------------------------------------------------------------------------------------------------------------


def _by_kernel(pool: PointPool, splits: Permutations, rng: np.random.Generator, n_jobs: int | None) -> Statistics:
    """MMD² with σ the median distance of all points."""
    bag = pool.bags
    n_points = pool.bags.n_points
    sigma = median_distance_of_bags(bag, np.random.RandomState(0))
    (scaled,) = in_units([bag], median_point(bag), sigma)
    if n_points > MOST_KERNEL_POINTS:
        embedding = _mean_embedding(scaled.points, rng).fit(scaled)
        return _by_means(embedding.transform, replace(pool, bags=scaled), splits, n_jobs)
    by_products = products_are_safe([scaled])
    points = scaled.points
    K = np.empty((n_points, n_points))

    def strip(start: int, scratch: Scratch) -> None:
        K[start : start + _STRIP] = gaussian_pairs(points[start : start + _STRIP], points, by_products, scratch)

    run_chunks(strip, range(0, n_points, _STRIP), n_jobs)

    def quadratic_forms(rows: Mask) -> Array:
        v = _contrasts(rows, pool)
        return np.asarray(np.einsum("ij,ij->i", v @ K, v))

    return Statistics(splits.map(quadratic_forms, n_jobs), _ROUNDING)


def _mean_embedding(points: Array, rng: np.random.Generator) -> MeanEmbedding:
    """Features of the kernel exp(-|x - y|²/2): its Fourier series where that is short, else random ones."""
    if points.shape[1] <= MAX_DIMS:
        series = fit_series(points.min(axis=0), points.max(axis=0), 1.0, _COMPONENTS)
        if series.captured >= _LEAST_CAPTURED:
            return MeanEmbedding(_COMPONENTS, sigma=1.0, method="spectrum")
    seed = int(rng.integers(2**31))
    return MeanEmbedding(_COMPONENTS, sigma=1.0, random_state=seed)


def _contrasts(rows: Mask, pool: PointPool) -> Array:
    """1/n for points of the first part, -1/m for the others; rows may be of some of the points only."""
    return np.where(rows, 1 / pool.n_first, -1 / pool.n_second)


def _by_means(
    transform: Callable[[Any], Array], pool: PointPool, splits: Permutations, n_jobs: int | None
) -> Statistics:
    """Squared distances of mean features, for an embedding whose rows are means over points."""
    n_points = pool.bags.n_points
    centre = transform(pool.each(slice(0, 1)))
    largest = 0.0
    means = np.zeros((len(splits), centre.shape[1]))
    step = max(8, _FEATURE_VALUES // centre.shape[1] // 8 * 8)
    for start in range(0, n_points, step):
        items = slice(start, min(start + step, n_points))
        features = transform(pool.each(items)) - centre  # what all have in common would only cost digits
        largest = max(largest, float(np.max(np.einsum("ij,ij->i", features, features))))

        def add(rows: slice, scratch: Scratch, items: slice = items, features: Array = features) -> None:
            means[rows] += _contrasts(splits.rows(rows, items), pool) @ features

        run_chunks(add, splits.chunks(), n_jobs)
    return Statistics(np.einsum("ij,ij->i", means, means), _ROUNDING * largest)


def _by_features(transform: Callable[[Any], Array], pool: PointPool, splits: Permutations) -> Statistics:
    """Squared distances of the features of both parts."""
    out = np.empty(len(splits))
    largest = 0.0
    for rows in splits.chunks():  # the embedding has threads of its own
        some = splits.rows(rows)
        features = transform(pool.both(some))
        first = features[: len(some)]
        second = features[len(some) :]
        out[rows] = np.sum((first - second) ** 2, axis=1)
        largest = max(largest, float(np.max(np.einsum("ij,ij->i", features, features))))
    return Statistics(out, _ROUNDING * largest)


def _by_densities(name: str, pool: PointPool, splits: Permutations, n_jobs: int | None) -> Statistics:
    """∫ κ(p̂, q̂) as :func:`distembed.divergences.plugin` has it, of points scaled to the unit cube."""
    pool = replace(pool, bags=to_cube(name, pool.bags))
    kappa = distances.get(name).kappa
    estimate = densities.get("kde")
    n_dims = pool.bags.n_dims
    h = bandwidths.resolve(BANDWIDTH, pool.example(), estimate.boundaries(n_dims))
    nodes = estimate.resolve_nodes(Grid(), n_dims, bandwidth=h, fineness=FINENESS)
    evaluate = estimate.prepare(nodes, h, np.dtype(float))
    whole = bags_first(evaluate(pool.bags, None, None)).reshape(-1) * pool.bags.n_points

    def integrals(rows: Mask) -> Array:
        bags = pool.firsts(rows)
        p = np.maximum(bags_first(evaluate(bags, None, None)).reshape(bags.n_bags, -1), 0.0)
        q = np.maximum(whole - pool.n_first * p, 0.0) / pool.n_second  # densities are linear in the points
        return np.asarray(kappa(p, q) @ nodes.weights)

    return Statistics(np.maximum(splits.map(integrals, n_jobs, nodes.n_nodes), 0.0), _ROUNDING)


# --------------------------------------------------------------------------------------------------------------
# Embeddings
# --------------------------------------------------------------------------------------------------------------


def _steps(embedding: Any) -> list[Any]:
    return [step for _, step in embedding.steps] if isinstance(embedding, Pipeline) else [embedding]


def is_linear(embedding: Any) -> bool:
    """Whether a row is known to be the mean of the rows of its points.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> is_linear(make_pipeline(UnitCube(), MeanEmbedding())), is_linear(MomentEmbedding("deviation"))
    (True, False)
    """
    *scaling, last = _steps(embedding)
    averages = (
        type(last) is MeanEmbedding
        or (type(last) is MomentEmbedding and last.kind == "mean")
        or (type(last) is L2Embedding and last.method == "points")
    )
    return averages and all(type(step) is UnitCube and step.outside != "drop" for step in scaling)


def sees_sizes(divergence: Any) -> bool:
    """Whether features of a bag shift with its size, or may: all but those of means over points, and of equal blocks.

    Examples
    --------
    >>> from distembed.embeddings import BlockAverage, HDDEmbedding
    >>> sees_sizes("js"), sees_sizes("mmd"), sees_sizes(HDDEmbedding()), sees_sizes(BlockAverage(HDDEmbedding()))
    (True, False, True, False)
    """
    if not is_embedding(divergence):
        return bool(divergence != "mmd")
    return not (is_linear(divergence) or any(isinstance(step, BlockAverage) for step in _steps(divergence)))


# --------------------------------------------------------------------------------------------------------------
# Neighbours
# --------------------------------------------------------------------------------------------------------------


def _neighbour_lists(divergence: str, pool: PointPool) -> NeighbourLists | None:
    """Lists of neighbours, where they serve this divergence, are short, and no two points are equal."""
    kind, _, which = divergence.partition(":")
    sizes = (pool.n_first, pool.n_second)
    if kind != "knn" or which == "l2":
        return None
    length = _list_length(sizes, DEFAULT_K)  # bags of very unequal sizes would need nearly all points in every list
    if length > _LONGEST_LIST or length * sum(sizes) > _MOST_LISTED:
        return None
    lists = NeighbourLists(pool.bags.points, sizes, which, DEFAULT_K)
    return lists if lists.distinct else None


class NeighbourLists:
    """Divergences from k-th neighbours for many splits of one pool, from one search.

    Who is near whom is the same for all splits; what changes is who belongs to whom. So every point has a list of its
    nearest points in the pool, and its k-th neighbour in its own bag and in the other one is found by counting along
    that list.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        The pool.
    sizes : tuple of int
        Points of the first and of the second bag, two at least.
    name : str
        ``"kl"``, ``"renyi:<a>"``, ``"tsallis:<a>"`` or ``"hellinger"``.
    k : int
        Which neighbour; in a bag of no more than k points the last.

    Attributes
    ----------
    distinct : bool
        Whether no two points are equal. Otherwise these lists are of no use: the distance of copies has a rule of its
        own, which depends on the bag.

    Examples
    --------
    >>> lists = NeighbourLists(np.array([[0.0], [1.0], [3.0], [7.0]]), (2, 2), "kl", 1)
    >>> lists.both_ways(np.array([[True, True, False, False]])).round(4)
    array([1.0692])
    """

    def __init__(self, points: Array, sizes: tuple[int, int], name: str, k: int) -> None:
        self.n_dims = points.shape[1]
        exponent = math.frexp(float(np.abs(points).max()))[1]
        scaled = np.ldexp(points, -exponent)  # squares of coordinates neither overflow nor vanish
        self.sizes = np.array(sizes)
        self.kind = parse("knn", "divergence", name)
        self.ks = np.minimum(k, self.sizes - 1)
        gaps, self.order = cKDTree(scaled).query(scaled, k=_list_length(sizes, k) + 1)
        self.distinct = bool(np.all(gaps[:, 1] > 0))
        if self.distinct:
            self.order = self.order[:, 1:]  # a point is not its own neighbour
            self.logs = np.log(gaps[:, 1:])

    @property
    def values_a_row(self) -> int:
        """Numbers that a split takes while it is looked at."""
        return int(self.order.size)

    def both_ways(self, rows: Mask) -> Array:
        """Means of the two directions, ndarray of shape (n_rows,); NaN where a list is too short."""
        same = rows[:, self.order] == rows[:, :, None]
        own = np.cumsum(same, axis=2, dtype=np.int32)
        other = np.arange(1, own.shape[2] + 1, dtype=np.int32) - own
        k_own = np.where(rows, *self.ks)[:, :, None]
        k_other = np.where(rows, *self.ks[::-1])[:, :, None]
        found = (own[:, :, -1:] >= k_own).all(axis=(1, 2)) & (other[:, :, -1:] >= k_other).all(axis=(1, 2))
        everyone = np.arange(rows.shape[1])
        rho = self.logs[everyone, np.argmax(own == k_own, axis=2)]
        nu = self.logs[everyone, np.argmax(other == k_other, axis=2)]
        ratios = self.n_dims * (rho - nu)
        values = (self._one_way(ratios, rows, 0) + self._one_way(ratios, ~rows, 1)) / 2
        return np.asarray(np.where(found, values, np.nan))

    def _one_way(self, ratios: Array, rows: Mask, p: int) -> Array:
        """The divergence of bag p (0 or 1), whose points rows mark, from the other bag."""
        (n, m), (kp, kq) = (pair[:: 1 if p == 0 else -1] for pair in (self.sizes, self.ks))
        if self.kind.name == "kl":
            means = np.sum(ratios, axis=1, where=rows) / n
        else:
            means = logsumexp((1 - self.kind.a) * ratios, axis=1, b=rows) - math.log(n)
        return from_ratios(self.kind, means, n, m, kp, kq)


def _list_length(sizes: tuple[int, int], k: int) -> int:
    """How many of the nearest points hold k of the rarer kind for all points, but in one split of a thousand."""
    n_points = sum(sizes)
    length = k = min(k, max(sizes) - 1)
    while length < n_points - 1 and 2 * n_points * binom.cdf(k - 1, length, min(sizes) / n_points) > _LIST_FAILS:
        length += max(1, length // 8)
    return min(length, n_points - 1)
