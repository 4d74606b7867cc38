"""Time of each stage and of the whole, with the share of the machine's speed that it reaches.

Stages are timed inside the pipeline, chunk by chunk as ``transform`` runs it with ``engine="numpy"`` in one thread, so
that each finds its input in the cache as it does in use. The compiled engine fuses the stages and is timed as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from time import perf_counter

import numpy as np
from cases import N_BASIS, N_LAMBDAS, THREADS, Case, cases, engines, random_features
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits
from timing import Machine, Size, close, correlated, in_turns

import distembed as de
import exact
from distembed.compute.arrays import Scratch, contract
from distembed.compute.parallel import bag_chunks

SINGLE = np.dtype(np.float32)
STAGES = {
    "binning": "bytes: points read, cells written",
    "smoothing": "flops: one matrix product a dimension",
    "lambda functions": "bytes: densities read, 2M functions written",
    "projection": "flops: one matrix product a dimension and function",
}

SHARE = "only the product's operations are counted, the time includes sines and cosines; in turns with the product"


class Stages:
    """The stages of one case as the package's own objects; a call runs them all and keeps the best time of each."""

    def __init__(self, case: Case) -> None:
        self.case, self.fitted = case, case.embedding("numpy")
        stages = self.fitted.stages_
        self.kde = stages.density.prepare(stages.nodes, stages.bandwidth, SINGLE)
        self.psi, self.project = stages.functions, stages.projection.astype(SINGLE)
        self.chunks = bag_chunks(case.n_bags, stages.bytes_per_bag(SINGLE))
        self.out = np.empty((case.n_bags, 2 * N_LAMBDAS * N_BASIS**case.n_dims), SINGLE)
        self.scratch = Scratch()
        self.best = dict.fromkeys(STAGES, np.inf)

    def __call__(self) -> np.ndarray:
        """A features of all bags."""
        spent = np.zeros(len(STAGES))
        with threadpool_limits(1):
            for rows in self.chunks:
                chunk, clock = self.case.bags[rows], [perf_counter()]
                masses = self.kde.masses(chunk, self.scratch)
                clock.append(perf_counter())
                p = contract(masses, self.kde.matrices, self.scratch, "density")
                clock.append(perf_counter())
                psi = self.psi(p, self.scratch)
                clock.append(perf_counter())
                self.project(psi, self.out[rows], self.scratch)
                clock.append(perf_counter())
                spent += np.diff(clock)
        for name, seconds in zip(STAGES, spent, strict=True):
            self.best[name] = min(self.best[name], seconds)
        return self.out

    def check(self) -> None:
        """Every stage against its plain formula, on three bags, and all of them against ``transform``."""
        few, fitted = self.case.bags[:3], self.fitted
        masses = self.kde.masses(few)
        for bag, found in zip(few, np.moveaxis(masses, -2, 0), strict=True):
            close("masses of the cells", found, plain_binning(bag, self.kde.n_bins), atol=1e-6)
        p = contract(masses, self.kde.matrices)
        for bag, found in zip(few, np.moveaxis(p, -2, 0), strict=True):
            want = plain_density(bag, fitted.nodes_.axes, self.case.bandwidth)
            correlated("densities, up to binning error", found, want, least=0.995)
            close("mass of a density", found.mean(), 1, atol=1e-4)
        psi = self.psi(p, Scratch())
        some = slice(None, None, max(1, p.size // 1000))
        want = exact.lambda_functions(p.ravel()[some], fitted.lambdas_, fitted.lambda_weights_)
        close("lambda functions", psi.reshape(len(psi), -1)[:, some], want, atol=2e-3)
        features = self.project(psi)
        tables = [exact.basis_functions(x, N_BASIS) / len(x) for x in fitted.nodes_.axes]
        for i in range(few.n_bags):
            want = np.array([plain_projection(np.moveaxis(function, -2, 0)[i], tables) for function in psi])
            close("projections", features[i], want.ravel(), atol=1e-5)
        close("features of the stages and of transform", self(), fitted.transform(self.case.bags), atol=1e-5)

    def work(self) -> dict[str, tuple[float, float]]:
        """Operations and bytes a bag of each stage, every array counted once a stage."""
        n_functions, n_out = 2 * N_LAMBDAS, 2 * N_LAMBDAS * N_BASIS**self.case.n_dims
        bins, nodes = self.kde.n_bins, self.fitted.nodes_.shape
        n_cells, n_nodes, n_values = prod(bins), prod(nodes), self.case.n_points * self.case.n_dims
        n_basis = (N_BASIS,) * self.case.n_dims
        return {
            "binning": (0, 4 * (n_values + n_cells)),
            "smoothing": (products(bins, nodes), 4 * (n_cells + n_nodes)),
            "lambda functions": (0, 4 * n_nodes * (1 + n_functions)),
            "projection": (n_functions * products(nodes, n_basis), 4 * (n_functions * n_nodes + n_out)),
            "A features": (products(bins, nodes) + n_functions * products(nodes, n_basis), 4 * (n_values + n_out)),
        }


def plain_binning(points: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Linear binning, point by point and corner by corner."""
    cells = np.zeros(shape)
    for point in np.asarray(points, float):
        position = np.clip(point * shape - 0.5, 0, np.array(shape) - 1)
        low = np.minimum(position.astype(int), np.array(shape) - 2)
        for corner in np.ndindex((2,) * len(shape)):
            shares = np.where(corner, position - low, 1 - (position - low))
            cells[tuple(low + corner)] += np.prod(shares) / len(points)
    return cells


def plain_density(points: np.ndarray, axes: Sequence[np.ndarray], bandwidth: float) -> np.ndarray:
    """Gaussian kernels at the points themselves and at their images in the faces, on a grid."""
    scaled = [
        (u[:, None, None] - np.stack([x, -x, 2 - x])) / bandwidth
        for u, x in zip(axes, np.asarray(points, float).T, strict=True)
    ]
    kernels = [np.exp(-(z**2) / 2).sum(axis=1) / (bandwidth * np.sqrt(2 * np.pi)) for z in scaled]
    product = "an,bn->ab" if len(axes) == 2 else "an,bn,cn->abc"
    return np.einsum(product, *kernels, optimize=True) / len(points)


def plain_projection(function: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """Coefficients of one function on a grid, one sum per dimension; tables are of shape (n_nodes, n_basis)."""
    found = np.asarray(function, float)
    for table in tables:
        found = np.tensordot(found, table, axes=(0, 0))
    return found


def products(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> int:
    """Operations of one matrix product per dimension, the first dimension first."""
    return sum(2 * prod(wanted[: j + 1]) * prod(sizes[j:]) for j in range(len(sizes)))


def plain_features(fitted: de.HDDEmbedding, p: np.ndarray) -> np.ndarray:
    """A features of a density on the grid, by complex powers."""
    tables = [exact.basis_functions(x, N_BASIS) / len(x) for x in fitted.nodes_.axes]
    psi = [w**0.5 * p ** (0.5 + 1j * lam) for lam, w in zip(fitted.lambdas_, fitted.lambda_weights_, strict=True)]
    return np.concatenate([plain_projection(part, tables).ravel() for f in psi for part in (f.real, f.imag)])


def check_whole(case: Case, size: Size) -> None:
    """Distances of features are those of plain formulas without bins, and those of densities up to truncation."""
    few, fitted = case.bags[: size.check_bags], case.embedding()
    densities = [plain_density(bag, fitted.nodes_.axes, case.bandwidth) for bag in few]
    pairs = np.triu_indices(few.n_bags, 1)
    plain = euclidean_distances([plain_features(fitted, p) for p in densities], squared=True)[pairs]
    true = exact.pairwise_distances([p.ravel() for p in densities], "js", fitted.nodes_.weights)[pairs]
    first = fitted.transform(few)
    for engine in engines():
        features = case.embedding(engine).transform(few)
        close(f"features by engine {engine}", features, first, atol=1e-4)
        found = euclidean_distances(features.astype(float), squared=True)[pairs]
        close(f"distances by engine {engine}", found, plain, rtol=0.02, atol=0.002)
        correlated(f"JS distances by engine {engine}", found, true, least=0.99)


def profile(case: Case, size: Size, machine: Machine) -> list[dict]:
    """Rows of the table for one case."""
    stages = Stages(case)
    stages.check()
    check_whole(case, size)
    bags, n_components, features = case.bags, size.n_components, stages()
    width = features.shape[1]
    default = de.HDDEmbedding("js", n_lambdas=N_LAMBDAS, bandwidth=case.rule)
    sides = machine.sides | {"stages": stages}
    for engine in engines():
        for threads, n_jobs in THREADS.items():
            embedding = case.embedding(engine, n_jobs)
            random = random_features(engine, n_components, n_jobs=n_jobs).fit(features[:100])
            check_random_features(random, features[:2])
            sides[f"A {engine} {threads}"] = partial(embedding.transform, bags)
            sides[f"rf {engine} {threads}"] = partial(random.transform, features)
            sides[f"both {engine} {threads}"] = partial(one_after_the_other, embedding, random, bags)
    best = in_turns(sides, size.turns)
    best |= in_turns({"fit": lambda: default.fit(bags)}, -(-size.turns // 5))
    speeds = machine.speeds(best)

    work = stages.work()
    work["random features"] = (width * n_components, 4 * (width + n_components))
    work["A + random features"] = tuple(np.add(work["A features"], work["random features"]))
    reference = best["A numpy one"]

    def row(name: str, threads: str, seconds: float, counted: str, engine: str = "numpy") -> dict:
        flops, n_bytes = (count * case.n_bags / seconds for count in work.get(name, (0, 0)))
        return {
            "section": "stages", "case": case.name, "name": name, "engine": engine, "threads": threads,
            "us_a_bag": seconds / case.n_bags * 1e6, "share_of_whole": seconds / reference,
            "sgemm_share": flops / speeds[threads].flops or None,
            "copy_share": n_bytes / speeds[threads].bytes or None, "settings": counted,
        }  # fmt: skip

    rows = [row(name, "one", stages.best[name], counted) for name, counted in STAGES.items()]
    wholes = {
        "random features": ("rf", f"flops: one matrix product; m = {width:,}, D = {n_components:,}"),
        "A features": ("A", "bytes: points read, features written; flops: the matrix products"),
        "A + random features": ("both", "the two above, one after the other"),
    }
    for name, (key, counted) in wholes.items():
        for engine in engines():
            rows += [row(name, threads, best[f"{key} {engine} {threads}"], counted, engine) for threads in THREADS]
    counted = f"once: {best['fit'] * 1e3:.0f} ms for {case.n_bags:,} bags, with the rule for the bandwidth"
    rows.append(row("fit", "all", best["fit"], counted, "") | {"share_of_whole": None})
    return rows


def one_after_the_other(embedding: de.HDDEmbedding, random: de.RandomFourierFeatures, bags: de.Bags) -> np.ndarray:
    """Random features of A features."""
    return random.transform(embedding.transform(bags))


def check_random_features(random: de.RandomFourierFeatures, rows: np.ndarray) -> None:
    """Sines, then cosines, as the plain formula has them one beside the other."""
    want = exact.random_fourier_features(rows.astype(float), random.frequencies_.T.astype(float))
    close("random features", random.transform(rows), np.hstack([want[:, 0::2], want[:, 1::2]]), atol=5e-5)


def against_the_machine(size: Size, machine: Machine) -> list[dict]:
    """Speeds of the machine, and in turns with them dense random features as a share of its matrix product."""
    m, n_components = 600, 5000
    rows = np.random.default_rng(0).normal(size=(size.share_rows, m)).astype(np.float32)
    sides = dict(machine.sides)
    for engine in engines():
        for threads, n_jobs in THREADS.items():
            random = random_features(engine, n_components, sigma=np.sqrt(m), n_jobs=n_jobs).fit(rows[:2])
            check_random_features(random, rows[:2])
            sides[engine, threads] = partial(random.transform, rows)
    best = in_turns(sides, size.turns)
    speeds = machine.speeds(best)
    found = []
    for threads, speed in speeds.items():
        common = {"section": "machine", "threads": threads}
        product = {"name": "sgemm", "value": speed.flops / 1e9, "unit": "Gflop/s"}
        product["settings"] = f"float32 product of two {size.gemm} x {size.gemm} matrices"
        copy = {"name": "copy", "value": speed.bytes / 1e9, "unit": "GB/s"}
        copy["settings"] = f"{size.copy_bytes / 2**20:.0f} MB, read and written bytes both counted"
        found += [common | product, common | copy]
    for engine in engines():
        for threads in THREADS:
            share = len(rows) * m * n_components / best[engine, threads] / speeds[threads].flops
            row = {"section": "machine", "name": "dense random features", "engine": engine, "threads": threads}
            found.append(row | {"value": share, "unit": "of sgemm", "settings": f"m = 600, D = 5,000; {SHARE}"})
    return found


def run(size: Size) -> list[dict]:
    """All rows of this section."""
    machine = Machine(size)
    rows = against_the_machine(size, machine)
    return rows + [row for case in cases(size) for row in profile(case, size, machine)]
