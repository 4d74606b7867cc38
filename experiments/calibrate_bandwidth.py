"""Calibration of the bandwidth rule "distance" on densities that the paper's experiments do not use.

For random densities of several families in one to three dimensions, and bags of several sizes, multiply the rule's
bandwidth by factors around one and find the factor at which the estimated squared distances agree best with the true
ones over all pairs of bags. If the rule is right, the best factor is near one whatever the family, the number of
dimensions and the size. The rule must not be tuned on the Gram experiment by which it is judged.

    python experiments/calibrate_bandwidth.py [--bags 30] [--seeds 2]

Truth is exact: every density is piecewise constant on a fine grid, points are drawn from just that density, and
distances between two of them are finite sums.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from scipy import stats
from sklearn.metrics.pairwise import euclidean_distances

import distembed as de

CELLS = {1: 2048, 2: 192, 3: 48}
SIZES = {1: (30, 100, 400, 2000), 2: (50, 200, 800, 3200), 3: (200, 800, 3200)}
FACTORS = np.geomspace(0.35, 2.8, 13)


def betas(x, rng):
    """Mixtures of two products of beta densities."""
    parts = [np.prod([stats.beta.pdf(u, *rng.uniform(1, 9, 2)) for u in x], axis=0) for _ in range(2)]
    return parts[0] + rng.uniform(0.2, 1) * parts[1]


def ripples(x, rng):
    """Products of waves: smooth and positive everywhere, no modes at the boundary in particular."""
    return np.prod([1 + 0.9 * np.cos(2 * np.pi * (rng.integers(1, 4) * u + rng.uniform())) for u in x], axis=0)


def shells(x, rng):
    """Rings (two bumps in one dimension, shells in three) around a random centre."""
    radius = np.sqrt(sum((u - c) ** 2 for u, c in zip(x, rng.uniform(0.3, 0.7, len(x)), strict=True)))
    return np.exp(-0.5 * ((radius - rng.uniform(0.1, 0.4)) / rng.uniform(0.04, 0.1)) ** 2) + 0.02


def heavy_tails(x, rng):
    """Three Student blobs of different widths."""
    total = 0.0
    for _ in range(3):
        centre, width = rng.uniform(0.1, 0.9, len(x)), rng.uniform(0.04, 0.15)
        squared = sum(((u - c) / width) ** 2 for u, c in zip(x, centre, strict=True))
        total = total + rng.uniform(0.3, 1) * (1 + squared / 3) ** (-(3 + len(x)) / 2)
    return total


FAMILIES = (betas, ripples, shells, heavy_tails)


def draw(family, n_dims, n_points, n_bags, rng):
    """Densities on the cells, and a bag of points from each."""
    cells = CELLS[n_dims]
    axis = (np.arange(cells) + 0.5) / cells
    mesh = np.meshgrid(*[axis] * n_dims, indexing="ij")
    densities, bags = [], []
    for _ in range(n_bags):
        p = family(mesh, rng).ravel()
        p /= p.mean()
        chosen = rng.choice(p.size, n_points, p=p / p.size)
        corner = np.stack(np.unravel_index(chosen, (cells,) * n_dims), axis=1)
        densities.append(p)
        bags.append((corner + rng.uniform(size=corner.shape)) / cells)
    return np.array(densities), de.Bags.from_arrays(bags)


def losses(densities, bags, distance="js"):
    """1 - squared correlation and 1 - coefficient of determination of the kernel values, by factor; shape (2, 13)."""
    kappa = de.distances.get(distance).kappa
    pairs = np.triu_indices(len(densities), 1)
    true = np.array([kappa(densities[i], densities[j]).mean() for i, j in zip(*pairs, strict=True)])
    sigma2 = np.median(true)
    true = np.exp(-true / (2 * sigma2))
    base = de.HDDEmbedding(distance).fit(bags).bandwidth_
    rows = []
    for factor in FACTORS:
        features = de.HDDEmbedding(distance, bandwidth=factor * base).fit_transform(bags)
        found = np.exp(-euclidean_distances(features, squared=True)[pairs] / (2 * sigma2))
        rows.append([1 - np.corrcoef(true, found)[0, 1] ** 2, np.mean((true - found) ** 2) / np.var(true)])
    return np.array(rows).T


def main(n_bags, n_seeds):
    print(f"{'family':12s} l     n   best factor for: correlation   agreement   correlation at the rule")
    regrets = {}
    for family, (n_dims, sizes) in product(FAMILIES, SIZES.items()):
        for n_points, seed in product(sizes, range(n_seeds)):
            rng = np.random.default_rng([seed, n_dims, n_points])
            found = losses(*draw(family, n_dims, n_points, n_bags, rng))
            best = FACTORS[np.argmin(found, axis=1)]
            at_rule = 1 - np.interp(0.0, np.log(FACTORS), found[0])
            print(
                f"{family.__name__:12s} {n_dims} {n_points:5d} {best[0]:28.2f} {best[1]:11.2f} {at_rule:14.4f}",
                flush=True,
            )
            regrets.setdefault(n_dims, []).append(np.log(found / found.min(axis=1, keepdims=True)))
    mean = {n_dims: np.mean(values, axis=0) for n_dims, values in regrets.items()}
    total = np.mean(list(mean.values()), axis=0)
    print("\nmean log regret, by factor")
    print(" " * 23 + "".join(f"{factor:7.2f}" for factor in FACTORS))
    for n_dims, (correlation, agreement) in mean.items():
        print(f"  l = {n_dims}, correlation   " + "".join(f"{value:7.3f}" for value in correlation))
        print(f"  l = {n_dims}, agreement     " + "".join(f"{value:7.3f}" for value in agreement))
    print("  both, all          " + "".join(f"{value:7.3f}" for value in total.mean(axis=0)))
    print(f"smallest at {FACTORS[np.argmin(total.mean(axis=0))]:.2f} times the rule")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    main(options.bags, options.seeds)
