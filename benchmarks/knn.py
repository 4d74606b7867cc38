"""KL divergences between all pairs of bags: ours against SciPy's cKDTree called bag by bag.

    python benchmarks/knn.py [--bags 100] [--turns 5]

Both sides compute the same matrix, 2-D, n = 200, k = 4, and take turns in one process. The peer keeps one tree per bag
and asks each for the neighbours of every other bag, in three ways: one thread, the threads of cKDTree itself, and a
pool of threads over bags. Only ratios of one run mean anything, and only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from scipy.spatial import cKDTree
from timing import close, in_turns, machine_line

import distembed as de
from distembed.divergences import knn

N_POINTS, K = 200, 4


def clouds(n_bags, n_points=N_POINTS, n_dims=2, seed=0):
    """Gaussian clouds of their own centres and widths."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal(size=(n_bags, n_points, n_dims))
    points *= rng.uniform(0.5, 1.5, size=(n_bags, 1, 1))
    return de.as_bags(points + rng.normal(size=(n_bags, 1, n_dims)))


def by_trees(bags, workers=1, threads=1):
    """The same matrix as a user would write it: a tree per bag, and a query for every ordered pair."""
    points = list(bags)
    trees = [cKDTree(x) for x in points]
    inside = [np.log(tree.query(x, k=[K + 1])[0][:, 0]) for x, tree in zip(points, trees, strict=True)]
    out = np.zeros((len(points), len(points)))

    def row(i):
        x, n = points[i], len(points[i])
        for j, tree in enumerate(trees):
            if i != j:
                outside = np.log(tree.query(x, k=[K], workers=workers)[0][:, 0])
                out[i, j] = x.shape[1] * np.mean(outside - inside[i]) + np.log(len(points[j]) / (n - 1))

    if threads == 1:
        for i in range(len(points)):
            row(i)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(row, range(len(points))))
    return out


def compare(n_bags=100, turns=5):
    """Seconds of each side, ours first."""
    bags, cores = clouds(n_bags), os.cpu_count() or 1
    sides = {
        "ours, default threads": partial(knn, bags, k=K),
        "ours, one thread": partial(knn, bags, k=K, n_jobs=1),
        "cKDTree, one thread": partial(by_trees, bags),
        f"cKDTree, workers = {cores}": partial(by_trees, bags, workers=cores),
        f"cKDTree, {cores} threads over bags": partial(by_trees, bags, threads=cores),
    }
    want = by_trees(bags)
    for name, side in sides.items():
        close(f"KL divergences, {name}", side(), want, rtol=1e-9, atol=1e-12)
    return in_turns(sides, turns)


def main(n_bags=100, turns=5):
    print(machine_line())
    best = compare(n_bags, turns)
    pairs, ours = n_bags * (n_bags - 1), best["ours, default threads"]
    print(f"KL divergences of {n_bags} 2-D bags, n = {N_POINTS}, k = {K}: {pairs:,} ordered pairs")
    print(f"  {'':32s} {'seconds':>8s} {'us per pair':>10s} {'against ours':>13s}")
    for name, took in best.items():
        print(f"  {name:32s} {took:8.2f} {took / pairs * 1e6:10.1f} {took / ours:12.2f}x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    main(options.bags, options.turns)
