"""Speed of the core, as ratios measured in one run.

    python benchmarks/core.py [--bags 12000]

Every timing is the best of several turns, the sides taking turns in one process, and each comparison first checks that
the two sides compute the same thing. "literal recipe" is the paper's algorithm in float32 NumPy as fast as we could
make it (exact.literal_recipe: one matrix product, one exponential a pair, the basis evaluated once).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits

import distembed as de

N_POINTS, N_LAMBDAS, N_NODES = 200, 3, 5000


def best(function, repeats=9):
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def clouds(n_bags, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.3, 0.7, size=(n_bags, 1, 2))
    points = np.clip(centres + rng.normal(0, 0.12, size=(n_bags, N_POINTS, 2)), 0, 1).astype(np.float32)
    return de.as_bags(points)


def sgemm_speed(n=2048):
    """Operations a second of this machine's float32 matrix product."""
    a = np.random.default_rng(0).normal(size=(n, n)).astype(np.float32)
    a @ a
    return 2 * n**3 / best(lambda: a @ a)


def check_same_distances(bags, bandwidth, lambdas):
    """The literal recipe and ours estimate the same distances on these bags."""
    ours = de.HDDEmbedding("js", n_lambdas=N_LAMBDAS, bandwidth=bandwidth).fit_transform(bags)
    nodes = np.random.default_rng(0).uniform(size=(4 * N_NODES, 2))
    theirs = de.exact.literal_recipe(list(bags), lambdas, nodes, float(bandwidth[0]), 10, np.log(2) / 2)
    pairs = np.triu_indices(bags.n_bags, 1)
    a, b = (euclidean_distances(features, squared=True)[pairs] for features in (ours, theirs))
    r2 = np.corrcoef(a, b)[0, 1] ** 2
    if r2 < 0.98:
        raise AssertionError(f"the two sides disagree: R2 of their distances is {r2:.3f}")
    return r2


def bench_embedding(n_bags, n_literal, turns):
    bags = clouds(n_bags)
    embedding = de.HDDEmbedding("js", n_lambdas=N_LAMBDAS).fit(bags[:100])
    bandwidth = np.full(2, embedding.bandwidth_.mean())
    embedding = de.HDDEmbedding("js", n_lambdas=N_LAMBDAS, bandwidth=bandwidth).fit(bags[:100])
    lambdas = de.distances.get("js").sample(N_LAMBDAS, random_state=0)
    r2 = check_same_distances(bags[:40], bandwidth, lambdas)
    nodes = np.random.default_rng(0).uniform(size=(N_NODES, 2))
    few = list(bags[:n_literal])

    def literal():
        return de.exact.literal_recipe(few, lambdas, nodes, float(bandwidth[0]), 10, np.log(2) / 2, dtype=np.float32)

    def literal_in_one_thread():
        with threadpool_limits(1, user_api="blas"):
            literal()

    sides = {
        "literal recipe, one thread": (literal_in_one_thread, n_literal),
        "literal recipe, all threads of BLAS": (literal, n_literal),
        "A features, one thread": (lambda: embedding.set_params(n_jobs=1).transform(bags), n_bags),
        "A features, default": (lambda: embedding.set_params(n_jobs=None).transform(bags), n_bags),
    }
    # In turns, so that a busy moment of the machine meets every side alike, and the best of many turns of each.
    rows = dict.fromkeys(sides, np.inf)
    for _ in range(turns):
        for name, (function, count) in sides.items():
            rows[name] = min(rows[name], best(function, 1) / count)
    reference = min(rows["literal recipe, one thread"], rows["literal recipe, all threads of BLAS"])
    print(f"2-D, n = {N_POINTS}, |V| = 100, M = {N_LAMBDAS}, float32, bandwidth {bandwidth[0]:.3f}, ", end="")
    print(f"grid {embedding.nodes_.shape}; n_e = {N_NODES}; R2 of the distances {r2:.3f}")
    for name, seconds in rows.items():
        print(f"  {name:38s} {seconds * 1e6:9.1f} us a bag   {reference / seconds:7.1f} x")
    return reference / rows["A features, default"]


def bench_random_features(n_rows):
    gemm = sgemm_speed()
    X = np.random.default_rng(0).normal(size=(n_rows, 600)).astype(np.float32)
    fitted = de.RandomFourierFeatures(5000, random_state=0).fit(X[:500])
    want = de.exact.random_fourier_features(X[:2].astype(float), fitted.frequencies_.T.astype(float))
    found = fitted.transform(X[:2])
    np.testing.assert_allclose(np.hstack([want[:, 0::2], want[:, 1::2]]), found, atol=2e-5)
    seconds = best(lambda: fitted.transform(X))
    speed = 2 * n_rows * 600 * 2500 / seconds
    print(
        f"random features, m = 600, D = 5,000, float32, with sines and cosines: {seconds / n_rows * 1e6:.1f} us a row"
    )
    print(f"  {speed / 1e9:.1f} of {gemm / 1e9:.1f} Gflop/s of this machine's sgemm: {speed / gemm:.2f}")
    return speed / gemm


def main(n_bags, n_literal=40, turns=30):
    ratio = bench_embedding(n_bags, n_literal, turns)
    share = bench_random_features(n_bags)
    return ratio, share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=12000)
    main(parser.parse_args().bags)
