"""The divergence between two bags, for all splits of their points: one function, and a fast path where there is one.

Whatever is fitted (scale, bandwidth, nodes, embedding) is fitted once, to the pool. Then the statistics of all splits
are

- of a mean map with kernel matrix K, the quadratic forms vᵀKv with v = 1/n on one part and -1/m on the other;
- of a linear embedding, squared norms of the rows of V Z, Z being the features of the points;
- of density estimates on a grid, ∫ κ(p̂, q̂) with p̂ of the smaller part and q̂ = (N p̂_pool - n p̂) / m;
- of neighbours, sums over lists that are made once;
- of other embeddings, distances of the rows of all parts, embedded some hundred at a time;
- of anything else, one comparison of two bags a split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from .. import density as densities
from .. import distances
from ..bags.medians import median_distance_of_bags, median_point
from ..compute.parallel import Scratch, run_chunks
from ..compute.separable import bags_first
from ..density import bandwidth as bandwidths
from ..density import nodes as node_kinds
from ..density.nodes import MAX_GRID_DIMS
from ..divergences.densities import FINENESS
from ..divergences.inputs import in_units
from ..divergences.mean_maps import gaussian_pairs, products_are_safe
from ..embeddings import L2Embedding, MeanEmbedding, MomentEmbedding
from ..embeddings.spectrum import MAX_DIMS, fit_spectrum
from ..kernels.comparisons import Comparison, is_embedding
from ..scaling import UnitCube
from .neighbours import NeighbourLists, lists_are_short
from .permutations import Permutations
from .pools import PointPool

__all__ = ["PLUGIN", "Statistics", "name_of", "point_statistics", "refuse_categories", "to_cube"]

Array = NDArray[Any]

PLUGIN = ("js", "hellinger", "tv", "chi2")
BANDWIDTH = "distance"  # that of divergences.plugin
MOST_KERNEL_POINTS = 3000  # beyond, features are faster than the kernel matrix of all points
_COMPONENTS = 1000
_LEAST_CAPTURED = 0.999
_ROUNDING = 1e-12  # of the size of the terms of a statistic
_STRIP = 256
_FEATURE_VALUES = 2**22  # features of points at a time
_RANKED = ("kl", "renyi", "tsallis", "hellinger")
_K = 4  # that of divergences.knn


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


def refuse_categories(owner: str, divergence: Any, bags: Any) -> None:
    """Refuse categorical columns unless an embedding is there to say whether it takes them.

    Examples
    --------
    >>> from distembed.bags import Bags
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


def to_cube(divergence: Any, bags: Any) -> Any:
    """Bags in the unit cube for distances of densities, which do not change with units; else as they are.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> to_cube("js", Bags.from_arrays([[0.0, 110.0]])).points.ravel().round(4)
    array([0.0455, 0.9545])
    """
    return UnitCube().fit_transform(bags) if isinstance(divergence, str) and divergence in PLUGIN else bags


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
    >>> from distembed.two_sample.permutations import splits
    >>> from distembed.two_sample.pools import pool_points
    >>> rng = np.random.default_rng(0)
    >>> pool = pool_points("example", [0.0, 1.0], [5.0], rng)
    >>> found = point_statistics("example", MomentEmbedding("mean"), pool, splits(pool.first, 99, rng), rng, None)
    >>> np.sort(found.values), float(found.values[0])
    (array([ 2.25,  9.  , 20.25]), 20.25)
    """
    refuse_categories(owner, divergence, pool.bag)
    if isinstance(divergence, str):
        if divergence == "mmd":
            return _by_kernel(pool, splits, rng, n_jobs)
        if divergence in PLUGIN and pool.bag.n_dims <= MAX_GRID_DIMS:
            return _by_densities(divergence, pool, splits, n_jobs)
    compare = Comparison(divergence, pool.example(), owner, n_jobs=1)
    if is_embedding(divergence):
        if is_linear(divergence) and pool.bag.categories is None:
            return _by_means(compare.look_at, pool, splits, n_jobs)
        return _by_features(compare.look_at, pool, splits)

    def one_by_one(rows: NDArray[np.bool_]) -> list[float]:
        pairs = (compare.look_at(pool.pairs(rows[i : i + 1])) for i in range(len(rows)))
        return [float(compare.both_ways(pair)[0, 1]) for pair in pairs]

    observed = splits.rows(slice(0, 1))
    is_name = isinstance(divergence, str)
    out = np.empty(len(splits))
    out[0] = one_by_one(observed)[0]  # complains about bags that are too small, and the like
    ranked = _ranked(divergence, pool) if is_name else None

    def fill(rows: slice, scratch: Scratch) -> None:
        some = splits.rows(rows)
        if ranked is None:
            out[rows] = one_by_one(some)
            return
        out[rows] = ranked.both_ways(some)
        short = rows.start + np.flatnonzero(np.isnan(out[rows]))
        out[short] = one_by_one(some[short - rows.start])

    if ranked is not None:
        run_chunks(fill, splits.chunks(ranked.values_a_row), n_jobs)
    else:  # callables need not be safe in threads
        run_chunks(fill, [slice(i, i + 1) for i in range(1, len(out))], n_jobs if is_name else 1)
    in_own_units = not is_name or divergence.endswith(":l2")
    return Statistics(out, 0.0 if in_own_units else _ROUNDING)


# --------------------------------------------------------------------------------------------------------------
# Fast paths
# --------------------------------------------------------------------------------------------------------------


def _by_kernel(pool: PointPool, splits: Permutations, rng: np.random.Generator, n_jobs: int | None) -> Statistics:
    """MMD² with σ the median distance of all points."""
    bag, n_points = pool.bag, pool.bag.n_points
    sigma = median_distance_of_bags(bag, np.random.RandomState(0))
    (scaled,) = in_units([bag], median_point(bag), sigma)
    if n_points > MOST_KERNEL_POINTS:
        embedding = _mean_embedding(scaled.points, rng).fit(scaled)
        return _by_means(embedding.transform, PointPool(scaled, pool.first, pool.sizes), splits, n_jobs)
    by_products, points = products_are_safe([scaled]), scaled.points
    K = np.empty((n_points, n_points))

    def strip(start: int, scratch: Scratch) -> None:
        K[start : start + _STRIP] = gaussian_pairs(points[start : start + _STRIP], points, by_products, scratch)

    run_chunks(strip, range(0, n_points, _STRIP), n_jobs)
    out = np.empty(len(splits))

    def fill(rows: slice, scratch: Scratch) -> None:
        v = _contrasts(splits.rows(rows), pool)
        out[rows] = np.einsum("ij,ij->i", v @ K, v)

    run_chunks(fill, splits.chunks(), n_jobs)
    return Statistics(out, _ROUNDING)


def _mean_embedding(points: Array, rng: np.random.Generator) -> MeanEmbedding:
    """Features of the kernel exp(-|x - y|²/2): its Fourier series where that is short, else random ones."""
    if points.shape[1] <= MAX_DIMS:
        series = fit_spectrum(points.min(axis=0), points.max(axis=0), 1.0, _COMPONENTS)
        if series.captured >= _LEAST_CAPTURED:
            return MeanEmbedding(_COMPONENTS, sigma=1.0, method="spectrum")
    seed = int(rng.integers(2**31))
    return MeanEmbedding(_COMPONENTS, sigma=1.0, random_state=seed)


def _contrasts(rows: NDArray[np.bool_], pool: PointPool) -> Array:
    """1/n for points of the first part, -1/m for the others; rows may be of some of the points only."""
    return np.where(rows, 1 / pool.n_first, -1 / (pool.bag.n_points - pool.n_first))


def _by_means(
    transform: Callable[[Any], Array], pool: PointPool, splits: Permutations, n_jobs: int | None
) -> Statistics:
    """Squared distances of mean features, for an embedding whose rows are means over points."""
    n_points, centre, largest = pool.bag.n_points, transform(pool.each(slice(0, 1))), 0.0
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
    out, largest = np.empty(len(splits)), 0.0
    for rows in splits.chunks():  # the embedding has threads of its own
        some = splits.rows(rows)
        features = transform(pool.pairs(some))
        first, second = features[: len(some)], features[len(some) :]
        out[rows] = np.sum((first - second) ** 2, axis=1)
        largest = max(largest, float(np.max(np.einsum("ij,ij->i", features, features))))
    return Statistics(out, _ROUNDING * largest)


def _by_densities(name: str, pool: PointPool, splits: Permutations, n_jobs: int | None) -> Statistics:
    """∫ κ(p̂, q̂) as :func:`distembed.divergences.plugin` has it, of points scaled to the unit cube."""
    pool = PointPool(to_cube(name, pool.bag), pool.first, pool.sizes)
    kappa, estimate, n_dims = distances.get(name).kappa, densities.get("kde"), pool.bag.n_dims
    h = bandwidths.resolve(BANDWIDTH, pool.example(), estimate.boundaries(n_dims))
    kind = node_kinds.get("grid", n_dims)
    nodes = estimate.resolve_nodes(
        kind, n_dims, bandwidth=h, fineness=FINENESS, random_state=np.random.RandomState(0), pooled=None
    )
    evaluate = estimate.prepare(nodes, h, np.dtype(float))
    n_first, n_points = pool.n_first, pool.bag.n_points
    whole = bags_first(evaluate(pool.bag, None, None)).reshape(-1) * n_points
    out = np.empty(len(splits))

    def fill(rows: slice, scratch: Scratch) -> None:
        bags = pool.firsts(splits.rows(rows))
        p = np.maximum(bags_first(evaluate(bags, None, scratch)).reshape(bags.n_bags, -1), 0.0)
        q = np.maximum(whole - n_first * p, 0.0) / (n_points - n_first)  # densities are linear in the points
        out[rows] = kappa(p, q) @ nodes.weights

    run_chunks(fill, splits.chunks(nodes.n_nodes), n_jobs)
    return Statistics(np.maximum(out, 0.0), _ROUNDING)


def _ranked(divergence: str, pool: PointPool) -> NeighbourLists | None:
    """Lists of neighbours, where they serve this divergence, are short, and no two points are equal."""
    kind, _, which = divergence.partition(":")
    if kind != "knn" or which.partition(":")[0] not in _RANKED:
        return None
    sizes = (pool.n_first, pool.bag.n_points - pool.n_first)
    if not lists_are_short(sizes, _K):
        return None
    lists = NeighbourLists(pool.bag.points, sizes, which, _K)
    return lists if lists.distinct else None


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
    if not all(type(step) is UnitCube and step.outside != "drop" for step in scaling):
        return False
    if type(last) is MeanEmbedding:
        return True
    return (type(last) is MomentEmbedding and last.kind == "mean") or (
        type(last) is L2Embedding and last.method == "points"
    )
