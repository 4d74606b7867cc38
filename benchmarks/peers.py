"""A features beside what else turns bags into vectors or Gram matrices, on the reference case.

Every peer is written as a competent user would: in float32 where the library keeps it, many bags in one call where the
library takes them, and in several variants of which the fastest counts. Each checks its answer first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from cases import N_BASIS, N_LAMBDAS, THREADS, Case, cases, engines, random_features
from literal_recipe import literal_recipe
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KernelDensity
from stages import one_after_the_other
from timing import Side, Size, close, correlated, in_turns, installed, one_thread

import distembed as de
import exact

CELLS = 16  # a side of the histograms and grids, as many as the embedding's
MANY = 10_000  # bags of the Gram matrices that are extrapolated
N_PROJECTIONS, N_NEIGHBOURS = 50, 4


@dataclass(frozen=True)
class Peer:
    """One thing to compare with: the fastest of its variants counts.

    ``count`` is the number of bags of a call, or of pairs where ``pairwise``.
    """

    name: str
    computes: str
    count: int
    variants: dict[str, Side] = field(default_factory=dict)
    pairwise: bool = False
    package: str | None = None


def in_threads(name: str, side: Side) -> dict[str, Side]:
    """The same with one thread of BLAS and with all."""
    return {f"{name}, one thread": one_thread(side), f"{name}, all threads of BLAS": side}


# --------------------------------------------------------------------------------------------------------------
# Peers, each with its check
# --------------------------------------------------------------------------------------------------------------


def literal(case: Case, size: Size) -> Peer:
    """The paper's algorithm in BLAS and ufuncs."""
    rng = np.random.default_rng(0)
    lambdas = de.distances.get("js").sample(N_LAMBDAS, random_state=0)
    run = partial(literal_recipe, lambdas=lambdas, bandwidth=case.bandwidth, n_basis=N_BASIS, mass=np.log(2) / 2)
    few = case.bags[: size.check_bags]
    pairs = np.triu_indices(few.n_bags, 1)
    theirs, ours = run(list(few), nodes=rng.uniform(size=(size.check_nodes, 2))), case.embedding().transform(few)
    a, b = (euclidean_distances(features, squared=True)[pairs] for features in (theirs, ours))
    correlated("distances of the literal recipe and ours", a, b, least=0.98)
    close("mean distance by the literal recipe, whose lambdas are random", a.mean(), b.mean(), rtol=0.2)
    bags, nodes = list(case.bags[: size.literal_bags]), rng.uniform(size=(size.n_nodes, 2))
    variants = in_threads(f"n_e = {size.n_nodes:,}, M = {N_LAMBDAS}, float32", lambda: run(bags, nodes=nodes))
    return Peer("literal recipe of the paper", "JS, 600 features", len(bags), variants)


def kernel_density(case: Case, size: Size) -> list[Peer]:
    """scikit-learn's KernelDensity on a grid, alone and with RBFSampler behind it."""
    grid = de.nodes.GridNodes((CELLS, CELLS)).points
    bags = [np.asarray(bag, float) for bag in case.bags[: size.loop_bags]]
    sampler = RBFSampler(n_components=size.n_components, random_state=0)
    sampler.fit(np.zeros((1, len(grid)), np.float32))

    def densities(**options: float) -> np.ndarray:
        found = [KernelDensity(bandwidth=case.bandwidth, **options).fit(bag).score_samples(grid) for bag in bags]
        return np.exp(found).astype(np.float32)

    rough = {"atol": 1e-2, "rtol": 1e-2, "leaf_size": 20}
    want = exact.kde(bags[0], grid, case.bandwidth, "none")
    close("KernelDensity", densities()[0], want, rtol=1e-4, atol=1e-6)
    close("KernelDensity with tolerances", densities(**rough)[0], want, rtol=2e-2, atol=2e-2)
    settings = {f"{CELLS} x {CELLS} grid, exact": {}, f"{CELLS} x {CELLS} grid, tolerances 0.01": rough}
    alone = {name: partial(densities, **options) for name, options in settings.items()}
    both = {
        f"{name}, D = {size.n_components:,}": lambda options=options: sampler.transform(densities(**options))
        for name, options in settings.items()
    }
    return [
        Peer("scikit-learn KernelDensity", f"{CELLS**2} densities", len(bags), alone),
        Peer("KernelDensity + RBFSampler", f"L2 kernel, {size.n_components:,} features", len(bags), both),
    ]


def mean_map(case: Case, size: Size) -> Peer:
    """Means over bags of scikit-learn's random features of points."""
    n_components, bags = 2 * N_LAMBDAS * N_BASIS**2, case.bags[: size.loop_bags]
    points = bags.points.reshape(bags.n_bags, case.n_points, 2)
    sampler = RBFSampler(gamma=12.5, n_components=n_components, random_state=0).fit(points[0])

    def means(step: int) -> np.ndarray:
        parts = [points[i : i + step] for i in range(0, len(points), step)]
        return np.concatenate(
            [sampler.transform(part.reshape(-1, 2)).reshape(*part.shape[:2], -1).mean(axis=1) for part in parts]
        )

    angles = points[0].astype(float) @ sampler.random_weights_ + sampler.random_offset_
    want = np.sqrt(2 / n_components) * np.cos(angles).mean(axis=0)
    variants: dict[str, Side] = {}
    for step, words in ((1, "a call a bag"), (16, "16 bags a call")):
        close(f"mean map, {words}", means(step)[0], want, atol=1e-5)
        variants |= in_threads(f"gamma = 12.5, float32, {words}", partial(means, step))
    return Peer("RBFSampler of points, mean a bag", f"MMD, {n_components} features", len(points), variants)


def histograms(case: Case, size: Size) -> list[Peer]:
    """Histograms by a loop and by one bincount, alone and with scikit-learn's chi2 features behind them."""
    bags = case.bags[: min(2000, case.n_bags)]
    points = bags.points.reshape(bags.n_bags, case.n_points, 2)
    edges = np.linspace(0, 1, CELLS + 1)
    few = points[: size.loop_bags]

    def loop() -> np.ndarray:
        return np.array([np.histogram2d(x[:, 0], x[:, 1], bins=(edges, edges))[0].ravel() for x in few])

    def bincount(step: int = 500) -> np.ndarray:
        parts = []
        for start in range(0, len(points), step):
            cells = np.minimum((points[start : start + step] * CELLS).astype(np.int32), CELLS - 1)
            numbers = CELLS**2 * np.arange(len(cells), dtype=np.int32)[:, None] + CELLS * cells[..., 0] + cells[..., 1]
            counts = np.bincount(numbers.ravel(), minlength=CELLS**2 * len(cells))
            parts.append(counts.reshape(len(cells), -1) / np.float32(case.n_points))
        return np.concatenate(parts, dtype=np.float32)

    def smoothed() -> np.ndarray:
        images = bincount().reshape(-1, CELLS, CELLS)
        width = CELLS * case.bandwidth
        return np.sqrt(CELLS**2 / 2 * gaussian_filter(images, (0, width, width), mode="reflect")).reshape(
            len(images), -1
        )

    sampler = AdditiveChi2Sampler(sample_steps=3).fit(bincount())
    want = np.array([np.histogramdd(x, bins=(edges, edges))[0].ravel() for x in few])
    close("histograms by a loop", loop(), want)
    close("histograms by bincount", bincount()[: len(few)], want / case.n_points, atol=1e-6)
    x, y = want[0] / case.n_points, want[1] / case.n_points
    kernel = np.sum(2 * x * y / np.maximum(x + y, 1e-300))
    features = sampler.transform(bincount()[:2])
    close("chi2 kernel of AdditiveChi2Sampler", features[0] @ features[1], kernel, atol=0.05)
    density = exact.kde(few[0], de.nodes.GridNodes((CELLS, CELLS)).points, case.bandwidth)
    correlated("densities of the smoothed histogram", 2 * smoothed()[0] ** 2, density, least=0.9)  # coarse bins
    close("mass of the smoothed histogram", np.mean(2 * smoothed()[0] ** 2), 1, atol=1e-4)
    settings = f"{CELLS} x {CELLS} cells, float32, 500 bags a call"
    n_features = features.shape[1]
    return [
        Peer("histogram, np.histogram2d", f"{CELLS**2} counts", len(few), {f"{CELLS} x {CELLS} cells, a loop": loop}),
        Peer("histogram, np.bincount", f"{CELLS**2} shares", len(points), {settings: bincount}),
        Peer(
            "histogram + SciPy gaussian_filter",
            f"Hellinger, {CELLS**2} features",
            len(points),
            {f"np.bincount, {settings}, bandwidth as ours, mode='reflect', square root": smoothed},
        ),
        Peer(
            "histogram + AdditiveChi2Sampler",
            f"chi2 kernel, {n_features:,} features",
            len(points),
            {f"np.bincount, {settings}, 3 steps": lambda: sampler.transform(bincount())},
        ),
    ]


def fft_kde(case: Case, size: Size) -> Peer:
    """KDEpy's estimate by binning and FFT, bag by bag, on a grid that holds all points as it must."""
    name, computes, inner, margin = "KDEpy FFTKDE", "densities on a grid", 2 * CELLS, 2
    if not installed("KDEpy"):
        return Peer(name, computes, 1, package="KDEpy")
    from KDEpy import FFTKDE

    axis = (np.arange(-margin, inner + margin) + 0.5) / inner
    grid = np.stack([a.ravel() for a in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    bags = [np.asarray(bag, float) for bag in case.bags[: size.loop_bags]]

    def densities() -> list[np.ndarray]:
        return [FFTKDE(kernel="gaussian", bw=case.bandwidth).fit(bag).evaluate(grid) for bag in bags]

    kde = de.density.GridKDE(
        de.nodes.GridNodes((inner, inner)), np.full(2, case.bandwidth), ("none", "none"), np.dtype(float)
    )
    inside = slice(margin, margin + inner)
    found = densities()[0].reshape(len(axis), -1)[inside, inside]
    ours = kde(case.bags[:1].astype(np.float64))[:, 0]
    correlated("densities of KDEpy and ours", found, ours, least=0.999)
    close("densities of KDEpy and ours", found, ours, atol=0.05 * ours.max())
    side = f"{len(axis)} x {len(axis)} grid"
    return Peer(name, f"{len(grid):,} densities", len(bags), {f"{side}, Gaussian, a loop": densities})


def sliced_wasserstein(case: Case, size: Size) -> Peer:
    """POT's sliced Wasserstein distance: pair by pair, or one bag against many in one call."""
    name, computes = "POT sliced Wasserstein, a pair", f"SW2, {N_PROJECTIONS} projections"
    if not installed("POT"):
        return Peer(name, computes, 1, pairwise=True, package="POT")
    import ot

    count, n = min(size.pairs, case.n_bags - 1), case.n_points
    points = case.bags.points.reshape(-1, n, 2)[: count + 1]
    directions = ot.sliced.get_random_projections(2, N_PROJECTIONS, seed=0).astype(np.float32)
    # What every bag needs once, and no pair again: outside of the timing.
    projected = np.ascontiguousarray(np.moveaxis(points @ directions, 0, 1))  # (n_points, n_bags, n_projections)

    def pairs() -> list[float]:
        return [ot.sliced_wasserstein_distance(points[0], y, projections=directions, p=2) for y in points[1:]]

    def row(step: int = 8) -> np.ndarray:
        parts = []
        for start in range(1, count + 1, step):
            others = projected[:, start : start + step]
            first = np.repeat(projected[:, :1], others.shape[1], axis=1)
            costs = ot.wasserstein_1d(first.reshape(n, -1), others.reshape(n, -1), p=2)
            parts.append(np.sqrt(costs.reshape(-1, N_PROJECTIONS).mean(axis=1)))
        return np.concatenate(parts)

    shift = np.array([0.1, -0.2], np.float32)
    found = ot.sliced_wasserstein_distance(points[0], points[0] + shift, projections=directions, p=2)
    close("sliced Wasserstein distance of a shift", found, np.sqrt(np.mean((shift @ directions) ** 2)), rtol=1e-3)
    close("sliced Wasserstein distances by rows", row(), pairs(), rtol=1e-3, atol=1e-5)
    variants = {"a call a pair, float32": pairs, "8 pairs a call of wasserstein_1d, float32": row}
    return Peer(name, computes, count, variants, pairwise=True, package="POT")


def neighbour_kl(case: Case, size: Size) -> Peer:
    """Symmetrised KL divergences by nearest neighbours in SciPy's trees, one bag against many in one call."""
    n, count = case.n_points, min(size.pairs, case.n_bags - 1)
    points = case.bags.points.reshape(-1, n, 2)[: count + 1]
    trees = [cKDTree(x) for x in points]
    # Distances inside a bag are needed once a bag, and no pair again: outside of the timing.
    inside = np.array([log_neighbour(x, tree, N_NEIGHBOURS + 1) for x, tree in zip(points, trees, strict=True)])

    def divergences(workers: int) -> np.ndarray:
        stacked = points[1:].reshape(-1, 2)
        to_first = log_neighbour(stacked, trees[0], N_NEIGHBOURS, workers).reshape(count, n)
        from_first = np.array([log_neighbour(points[0], tree, N_NEIGHBOURS, workers) for tree in trees[1:]])
        total = (to_first - inside[1:]).mean(axis=1) + (from_first - inside[0]).mean(axis=1)
        return 2 * total + 2 * np.log(n / (n - 1))  # n_dims = 2

    check_neighbours()
    variants: dict[str, Callable[[], object]] = {
        f"k = {N_NEIGHBOURS}, both directions, workers = {workers}": partial(divergences, workers)
        for workers in (1, -1)
    }
    return Peer("SciPy cKDTree KL divergence, a pair", "symmetrised KL", count, variants, pairwise=True)


def log_neighbour(x: np.ndarray, tree: cKDTree, k: int, workers: int = 1) -> np.ndarray:
    """Logarithm of the distance from each point to its k-th neighbour in the tree."""
    distances = tree.query(x, k=[k], workers=workers)[0][:, 0]
    return np.log(np.maximum(distances, 1e-30))


def check_neighbours() -> None:
    """KL(N(0, 1) || N(1, 1)) = 1/2, by the same estimate."""
    rng = np.random.default_rng(0)
    n = 20_000
    x, y = rng.normal(size=(n, 1)), rng.normal(1, 1, size=(n, 1))
    ratio = log_neighbour(x, cKDTree(y), N_NEIGHBOURS) - log_neighbour(x, cKDTree(x), N_NEIGHBOURS + 1)
    close("KL divergence of two Gaussians", ratio.mean() + np.log(n / (n - 1)), 0.5, atol=0.05)


# --------------------------------------------------------------------------------------------------------------
# The comparison
# --------------------------------------------------------------------------------------------------------------


def run(size: Size) -> list[dict]:
    """Rows of the table: ours first, each peer with its ratios to them."""
    case = cases(size)[0]
    bags = case.bags
    features = case.embedding().transform(bags[:100])
    peers = [
        literal(case, size),
        *kernel_density(case, size),
        fft_kde(case, size),
        mean_map(case, size),
        *histograms(case, size),
        sliced_wasserstein(case, size),
        neighbour_kl(case, size),
    ]
    sides: dict[tuple[str, ...], Side] = {}
    for engine in engines():
        for threads, n_jobs in THREADS.items():
            sides["A", engine, threads] = partial(case.embedding(engine, n_jobs).transform, bags)
    for engine in engines():
        random = random_features(engine, size.n_components).fit(features)
        sides["both", engine, "all"] = partial(one_after_the_other, case.embedding(engine), random, bags)
    for peer in peers:
        sides |= {(peer.name, settings): side for settings, side in peer.variants.items()}
    best = in_turns(sides, size.turns)

    ours = {key[1:]: best[key] / case.n_bags for key in sides if key[0] == "A"}
    common = {"section": "peers", "case": case.name}

    def ratios(seconds_a_bag: float) -> dict[str, float]:
        return {f"ratio_{engine}_{threads}": seconds_a_bag / own for (engine, threads), own in ours.items()}

    rows = []
    for key in sides:
        if key[0] in ("A", "both"):
            engine, threads = key[1:]
            name, computes = "A features", f"JS, {2 * N_LAMBDAS * N_BASIS**2} features"
            if key[0] == "both":
                name, computes = "A + random features", f"RBF kernel of JS, {size.n_components:,} features"
            each = best[key] / case.n_bags
            settings = f"{'one thread' if threads == 'one' else 'all threads'}, float32, {case.n_bags:,} bags"
            rows.append(
                common | {"name": f"{name}, engine {engine}", "engine": engine, "threads": threads,
                          "us_a_bag": each * 1e6, "computes": computes, "settings": settings} | ratios(each)
            )  # fmt: skip
    for peer in peers:
        row = common | {"name": peer.name, "computes": peer.computes}
        if not peer.variants:
            rows.append(row | {"settings": f"{peer.package} is not installed: pip install 'distembed[bench]'"})
            continue
        settings = min(peer.variants, key=lambda name: best[peer.name, name])
        each = best[peer.name, settings] / peer.count
        if peer.pairwise:
            rows.append(row | {"us_a_pair": each * 1e6, "settings": settings})
            per_bag = MANY / 2 * each
            note = f"extrapolated: {MANY:,}^2 / 2 pairs, divided by {MANY:,} bags"
            row |= {"name": f"{peer.name.removesuffix(', a pair')}, Gram matrix", "computes": f"{MANY:,} x {MANY:,}"}
            rows.append(row | {"us_a_bag": per_bag * 1e6, "settings": note} | ratios(per_bag))
        else:
            rows.append(row | {"us_a_bag": each * 1e6, "settings": settings} | ratios(each))
    return rows
