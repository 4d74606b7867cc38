"""How time grows with the number of bags, points, dimensions and random features, and what memory ``transform`` needs.

Growth is the least-squares slope in log-log coordinates. Sizes take turns like everything else, and the time of a call
includes the allocation of its result.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from cases import N_BASIS, N_LAMBDAS, THREADS, clouds, engines, random_features, with_engine
from stages import check_random_features
from timing import Side, Size, close, in_turns, slope

import distembed as de

BANDWIDTH = 0.04
# 64 basis functions whatever the number of dimensions.
SOBOL_BASIS = {4: (4, 4, 2, 2), 5: (4, 2, 2, 2, 2), 6: (2,) * 6, 8: (2,) * 6 + (1, 1)}
MEMORY_SCRIPT = Path(__file__).with_name("memory.py")


def curve(quantity: str, side: str, sizes: list[int], times: list[float], unit: str, **more: object) -> list[dict]:
    """Points of one curve, each with the slope of the whole and of the last step."""
    common = {"quantity": quantity, "side": side, "unit": unit, "slope": slope(sizes, times)}
    common["last_slope"] = slope(sizes[-2:], times[-2:])
    return [common | {"size": n, "seconds": t} | more for n, t in zip(sizes, times, strict=True)]


def timed(
    quantity: str, sides: dict[tuple[str, int], Side], size: Size, counts: dict[int, int], unit: str
) -> list[dict]:
    """Curves of sides keyed (name, size); ``counts`` is how often a size is called in its turn."""
    best = in_turns(sides, size.growth_turns, {key: counts[key[1]] for key in sides})
    rows = []
    for name in dict.fromkeys(name for name, _ in sides):
        sizes = [n for other, n in sides if other == name]
        rows += curve(quantity, name, sizes, [best[name, n] for n in sizes], unit)
    return rows


def in_bags(size: Size) -> list[dict]:
    """The reference case, by number of bags."""
    bags = clouds(max(size.growth_bags), 200, 2)
    sides = {}
    for engine in engines():
        for threads, n_jobs in THREADS.items():
            embedding = with_engine(engine, n_lambdas=N_LAMBDAS, bandwidth=BANDWIDTH, n_jobs=n_jobs).fit(bags[:20])
            close("a part of the bags", embedding.transform(bags[:8]), embedding.transform(bags[:20])[:8], atol=1e-5)
            side = f"{engine}, {threads}"
            sides |= {(side, n): partial(embedding.transform, bags[:n]) for n in size.growth_bags}
    counts = {n: max(1, size.least_bags // n) for n in size.growth_bags}
    return timed("n_bags", sides, size, counts, "bags of 200 points")


def in_points(size: Size) -> list[dict]:
    """The reference case, by number of points; grid, basis and bandwidth stay the same."""
    sides = {}
    for n in size.growth_points:
        bags = clouds(size.points_bags, n, 2)
        for engine in engines():
            embedding = with_engine(engine, n_lambdas=N_LAMBDAS, bandwidth=BANDWIDTH, n_jobs=1).fit(bags[:20])
            sides[f"{engine}, one", n] = partial(embedding.transform, bags)
    return timed("n_points", sides, size, dict.fromkeys(size.growth_points, 1), f"points, {size.points_bags:,} bags")


def in_dims(size: Size) -> list[dict]:
    """One to three dimensions on grids, 16 nodes and 10 functions per dimension; more at 4,096 Sobol nodes."""
    sides, scattered = {}, {}
    for n_dims in (1, 2, 3):
        bags = clouds(size.dims_bags, 200, n_dims)
        for engine in engines():
            embedding = with_engine(
                engine, n_lambdas=N_LAMBDAS, bandwidth=0.1, n_basis=N_BASIS, nodes=de.Grid(16), n_jobs=1
            )
            sides[f"{engine}, one", n_dims] = partial(quiet_fit(embedding, bags).transform, bags)
    for n_dims in size.sobol_dims:
        n_basis, bags = SOBOL_BASIS[n_dims], clouds(size.sobol_bags, 200, n_dims)
        embedding = de.HDDEmbedding(
            "js", n_lambdas=N_LAMBDAS, bandwidth=0.1, n_basis=n_basis, nodes=de.Sobol(4096), random_state=0,
            basis=de.Cosine(index_set="tensor"), n_jobs=1,
        )  # fmt: skip
        scattered["Sobol nodes, one", n_dims] = partial(quiet_fit(embedding, bags).transform, bags)
    counts = dict.fromkeys(range(9), 1)
    grids = f"dimensions, {size.dims_bags:,} bags of 200 points; 16 nodes, 10 functions per dimension"
    many = f"dimensions, {size.sobol_bags} bags of 200 points; 4,096 Sobol nodes, 64 functions"
    return timed("n_dims", sides, size, counts, grids) + timed("n_dims, many", scattered, size, counts, many)


def quiet_fit(embedding: de.HDDEmbedding, bags: de.Bags) -> de.HDDEmbedding:
    """Fitted without its warnings: so few functions in so many dimensions miss much, which costs no time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return embedding.fit(bags[:20])


def in_components(size: Size) -> list[dict]:
    """Random features of rows of 600 values, by their number."""
    rows = np.random.default_rng(0).normal(size=(size.components_rows, 2 * N_LAMBDAS * N_BASIS**2)).astype(np.float32)
    sides: dict[tuple[str, int], Side] = {}
    for engine in engines():
        for n in size.growth_components:
            fitted = random_features(engine, n, sigma=25.0, n_jobs=1).fit(rows[:2])
            check_random_features(fitted, rows[:1])
            sides[f"{engine}, one", n] = partial(fitted.transform, rows)
    counts = dict.fromkeys(size.growth_components, 1)
    return timed("n_components", sides, size, counts, f"random features of {len(rows):,} rows")


def memory(size: Size) -> list[dict]:
    """Peak memory of ``transform`` beyond input and output, each engine in a process of its own."""
    rows = []
    for engine in engines()[: size.memory_runs]:
        command = [sys.executable, str(MEMORY_SCRIPT), engine, str(size.memory_bags)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"the measurement of memory failed:\n{done.stderr}")
        found = json.loads(done.stdout)
        settings = (
            f"{size.memory_bags:,} bags of 200 points; input {found['input'] / 2**20:.0f} MB, output "
            f"{found['output'] / 2**20:.0f} MB; {found['how']}"
        )
        rows.append(
            {"section": "memory", "name": "peak beyond input and output", "engine": engine, "threads": "all",
             "value": found["beyond"] / 2**20, "unit": "MB", "settings": settings}
        )  # fmt: skip
    return rows


def run(size: Size) -> list[dict]:
    """All curves."""
    return [*in_bags(size), *in_points(size), *in_dims(size), *in_components(size)]
