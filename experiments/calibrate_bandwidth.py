"""Calibration of the bandwidth rule "distance" on densities that the paper's experiments do not use.

For random densities of several families in one to three dimensions, and bags of several sizes, multiply the rule's
bandwidth by factors around one and find the factor at which the estimated squared distances agree best with the true
ones over all pairs of bags. If the rule is right, the best factor is near one whatever the family, the number of
dimensions and the size; its geometric mean is what DISTANCE_FACTOR in bandwidth.py should be multiplied by.

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
    parts = [
        np.prod([stats.beta.pdf(u, *rng.uniform(1, 9, 2)) for u in x], axis=0) for _ in range(2)
    ]
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


def best_factor(densities, bags, distance="js"):
    """The factor of the largest R^2 between true and estimated kernel values, with all R^2."""
    kappa = de.distances.get(distance).kappa
    pairs = np.triu_indices(len(densities), 1)
    true = np.array([kappa(densities[i], densities[j]).mean() for i, j in zip(*pairs, strict=True)])
    sigma2 = np.median(true)
    base = de.HDDEmbedding(distance).fit(bags).bandwidth_
    scores = []
    for factor in FACTORS:
        features = de.HDDEmbedding(distance, bandwidth=factor * base).fit_transform(bags)
        found = euclidean_distances(features, squared=True)[pairs]
        scores.append(np.corrcoef(np.exp(-true / 2 / sigma2), np.exp(-found / 2 / sigma2))[0, 1] ** 2)
    # Vertex of the parabola through the best three, in log factor.
    k = int(np.clip(np.argmax(scores), 1, len(FACTORS) - 2))
    a, b, _ = np.polyfit(np.log(FACTORS[k - 1 : k + 2]), scores[k - 1 : k + 2], 2)
    vertex = np.exp(-b / (2 * a)) if a < 0 else FACTORS[np.argmax(scores)]
    return float(np.clip(vertex, FACTORS[0], FACTORS[-1])), np.array(scores)


def main(n_bags, n_seeds):
    print(f"{'family':12s} l     n   best factor   R2 at best   R2 at the rule")
    regrets = {}
    for family, (n_dims, sizes) in product(FAMILIES, SIZES.items()):
        for n_points, seed in product(sizes, range(n_seeds)):
            rng = np.random.default_rng([seed, n_dims, n_points])
            found, scores = best_factor(*draw(family, n_dims, n_points, n_bags, rng))
            at_rule = np.interp(0.0, np.log(FACTORS), scores)
            print(
                f"{family.__name__:12s} {n_dims} {n_points:5d}   {found:11.3f}   {scores.max():10.4f}   {at_rule:14.4f}",
                flush=True,
            )
            regrets.setdefault(n_dims, []).append(np.log((1 - scores) / (1 - scores.max())))
    print("\nmean log regret of 1 - R2, by factor")
    print("  factor " + "".join(f"{factor:7.2f}" for factor in FACTORS))
    for n_dims, values in regrets.items():
        print(f"  l = {n_dims}  " + "".join(f"{value:7.3f}" for value in np.mean(values, axis=0)))
    mean = np.mean([np.mean(values, axis=0) for values in regrets.values()], axis=0)
    print("  all    " + "".join(f"{value:7.3f}" for value in mean))
    print(f"smallest at {FACTORS[np.argmin(mean)]:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    main(options.bags, options.seeds)
