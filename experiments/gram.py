"""The paper's Gram matrix experiment: how well features reproduce the Jensen-Shannon kernel.

Fifty random mixtures of five truncated Gaussians on the unit square, a bag of 2,500 points of each (the paper's
appendix). The true kernel exp(-JS / (2 sigma^2)) comes from the true densities, with sigma^2 the median of the true JS
over distinct pairs; the estimates come from the points alone, with default settings, and never see the truth.

    python experiments/gram.py [--seeds 10] [--output results/gram.csv]

Columns: squared correlation over distinct pairs, over all N^2 pairs (the paper's figure, diagonal included),
coefficient of determination and largest error over distinct pairs; mean over seeds, and deviation of the first.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

import distembed as de

PAPER = {"entropies": 0.9812, "A features": 0.9735, "random features": 0.9662}
METHODS = ("A features", "random features", "literal recipe", "entropies")
COLUMNS = ("R2", "R2 all pairs", "determination", "largest error")


def true_distances(densities, size=160):
    """Jensen-Shannon divergences between the true densities, by the judge."""
    values = densities.on_grid(size)
    return de.exact.pairwise_distances(values, "js", np.full(size * size, 1 / size**2))


def literal_distances(bags, seed):
    """The paper's recipe: random lambdas, Monte Carlo nodes, Fourier basis, bandwidth by likelihood."""
    embedding = de.HDDEmbedding(
        "js",
        bandwidth="likelihood",
        lambda_rule="random",
        n_lambdas=5,
        nodes=de.MonteCarlo(5000),
        basis="fourier",
        density=de.KDE("none"),
        random_state=seed,
    )
    return euclidean_distances(embedding.fit_transform(bags), squared=True)


def entropy_distances(bags):
    """JS from entropies (appendix, with means): densities of the second halves at the points of the first halves."""
    arrays = list(bags)
    halves = [(len(points) + 1) // 2 for points in arrays]
    second = de.Bags.from_arrays([points[k:] for points, k in zip(arrays, halves, strict=True)])
    h = de.bandwidth.resolve("likelihood", second, ["none"] * bags.n_dims)
    at = np.concatenate([points[:k] for points, k in zip(arrays, halves, strict=True)])
    nodes = de.nodes.PointNodes(at, np.full(len(at), 1 / len(at)))
    # p[i, m]: density of bag i at point m of all first halves, a plain Gaussian estimate as in the paper.
    p = de.KDE("none").prepare(nodes, h, np.dtype(np.float32))(second.astype(np.float32)).astype(float)
    p = np.maximum(p, 1e-12)
    owner = np.repeat(np.arange(len(arrays)), halves)
    own_entropy = np.array([-np.log(p[i, owner == i]).mean() for i in range(len(arrays))])
    found = np.zeros((len(arrays), len(arrays)))
    for i in range(len(arrays)):
        for j in range(i):
            cross = sum(np.log(2 / (p[i] + p[j])[owner == k]).mean() for k in (i, j)) / 2
            found[i, j] = found[j, i] = cross - (own_entropy[i] + own_entropy[j]) / 2
    return found


def score(true, found):
    """The four columns for a true and an estimated kernel matrix."""
    pairs = np.triu_indices(len(true), 1)
    k, e = true[pairs], found[pairs]
    return (
        np.corrcoef(k, e)[0, 1] ** 2,
        np.corrcoef(true.ravel(), found.ravel())[0, 1] ** 2,
        1 - np.sum((k - e) ** 2) / np.sum((k - k.mean()) ** 2),
        np.max(np.abs(k - e)),
    )


def run(seed, methods=METHODS, n_bags=50, n_points=2500):
    """Scores of each method on one draw of the experiment."""
    bags, densities = de.datasets.make_gram_mixtures(n_bags, n_points, random_state=seed)
    true = true_distances(densities)
    sigma = float(np.sqrt(np.median(true[np.triu_indices(n_bags, 1)])))
    kernel = de.exact.kernel(true, sigma)
    features = de.HDDEmbedding("js").fit_transform(bags)
    scores = {}
    for method in methods:
        if method == "random features":
            z = de.RandomFourierFeatures(7000, sigma=sigma, random_state=seed).fit_transform(features)
            scores[method] = score(kernel, z @ z.T)
            continue
        squared = {
            "A features": lambda: euclidean_distances(features, squared=True),
            "literal recipe": lambda: literal_distances(bags, seed),
            "entropies": lambda: entropy_distances(bags),
        }[method]()
        scores[method] = score(kernel, de.exact.kernel(squared, sigma))
    return scores


def main(n_seeds, output):
    results = [run(seed) for seed in range(n_seeds)]
    print(f"{'':16s} {'paper':>7s}" + "".join(f" {name:>14s}" for name in COLUMNS) + "   deviation")
    rows = []
    for method in METHODS:
        values = np.array([result[method] for result in results])
        paper = f"{PAPER[method]:.4f}" if method in PAPER else ""
        deviation = values[:, 0].std(ddof=1) if n_seeds > 1 else float("nan")
        print(f"{method:16s} {paper:>7s}" + "".join(f" {v:14.4f}" for v in values.mean(axis=0)) + f" {deviation:11.4f}")
        rows.append([method, paper, *values.mean(axis=0).round(5), round(deviation, 5), n_seeds])
    if output:
        with Path(output).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["method", "paper R2", *COLUMNS, "deviation of R2", "seeds"])
            writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", help="a CSV file for the table")
    options = parser.parse_args()
    main(options.seeds, options.output)
