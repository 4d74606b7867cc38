"""Squared distances in five and ten dimensions against their truth: the tables of the guide.

Products of beta densities, and of truncated Gaussians; bags of independent points of each. The squared Hellinger
distance has a closed form, a product over dimensions; Jensen-Shannon comes from a large independent simulation.

    python experiments/many_dimensions.py [--output results/many_dimensions.csv]

Columns: relative error of the squared distance, mean, root mean square and worst over pairs.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from itertools import chain, combinations
from pathlib import Path

import numpy as np
from scipy import stats

import distembed as de
import exact

COLUMNS = ("n_dims", "family", "n_points", "method", "density", "nodes", "distance", "mean", "rms", "worst")


class Product:
    """A density with independent coordinates."""

    def __init__(self, margins):
        self.margins = margins

    def pdf(self, u):
        """Density at u of shape (n, n_dims)."""
        return np.prod([margin.pdf(x) for margin, x in zip(self.margins, u.T, strict=True)], axis=0)

    def sample(self, n, rng):
        """Draw n points."""
        return np.stack([margin.rvs(n, random_state=rng) for margin in self.margins], axis=1)


def normal(centre, width):
    """A Gaussian truncated to the unit interval."""
    return stats.truncnorm(-centre / width, (1 - centre) / width, loc=centre, scale=width)


def wide(family, n_bags=5, n_dims=5):
    rng = np.random.default_rng(0)
    if family == "betas":
        shapes = rng.uniform(1.5, 5, size=(n_bags, n_dims, 2))
        return [Product([stats.beta(a, b) for a, b in each]) for each in shapes]
    centres, widths = rng.uniform(0.2, 0.8, (n_bags, n_dims)), rng.uniform(0.2, 0.4, (n_bags, n_dims))
    return [Product([normal(*pair) for pair in zip(*each, strict=True)]) for each in zip(centres, widths, strict=True)]


def narrow(family, n_bags=3, n_dims=10):
    if family == "betas":
        return [Product([stats.beta(40 + 6 * s * (j % 2), 60) for j in range(n_dims)]) for s in range(n_bags)]
    return [Product([normal(0.5 + 0.018 * s * (-1) ** j, 0.05) for j in range(n_dims)]) for s in range(n_bags)]


def truth(p, q, distance):
    """Hellinger by one-dimensional quadrature, Jensen-Shannon from 400,000 draws."""
    if distance == "hellinger":
        nodes, weights = exact.box_quadrature(n_nodes=8192)
        x = nodes[:, 0]
        return 1 - np.prod([weights @ np.sqrt(a.pdf(x) * b.pdf(x)) for a, b in zip(p.margins, q.margins, strict=True)])
    rng, means = np.random.RandomState(123), []
    for own in (p, q):
        u = own.sample(200_000, rng)
        means.append(np.mean(np.log(2 * own.pdf(u) / (p.pdf(u) + q.pdf(u)))))
    return np.mean(means)


def errors(estimate, densities, distance):
    pairs = list(combinations(range(len(densities)), 2))
    true = np.array([truth(densities[i], densities[j], distance) for i, j in pairs])
    found = np.array([estimate[i, j] for i, j in pairs]) / true - 1
    return [round(float(value), 4) for value in (found.mean(), np.sqrt(np.mean(found**2)), np.abs(found).max())]


def five_dimensions(families, n_points=2000):
    for family in families:
        densities = wide(family)
        bags = [p.sample(n_points, np.random.RandomState(i)) for i, p in enumerate(densities)]
        for density in ("kde", "copula", "mixture"):
            for nodes in (de.Importance(), de.Sobol()):
                for distance in ("hellinger", "js"):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # nodes that miss mass are what is to be seen here
                        A = de.HDDEmbedding(distance, density=density, nodes=nodes, random_state=0).fit_transform(bags)
                    squared = np.sum((A[:, None] - A) ** 2, axis=2)
                    settings = (5, family, n_points, "A features", density, type(nodes).__name__, distance)
                    yield (*settings, *errors(squared, densities, distance))


def ten_dimensions(families, sizes=(2000, 5000)):
    for family in families:
        densities = narrow(family)
        for n_points in sizes:
            bags = [p.sample(n_points, np.random.RandomState(i)) for i, p in enumerate(densities)]
            for density, bandwidth in (("mixture", "distance"), ("copula", "likelihood"), ("kde", "likelihood")):
                for distance in ("hellinger", "js"):
                    options = {"density": density, "bandwidth": bandwidth, "random_state": 0}
                    squared = de.divergences.plugin(bags, distance=distance, **options)
                    settings = (10, family, n_points, "plugin", density, "pairs", distance)
                    yield (*settings, *errors(squared, densities, distance))


def main(output, families=("betas", "gaussians")):
    rows = []
    for row in chain(five_dimensions(families), ten_dimensions(families)):
        print(" ".join(f"{value!s:>11s}" for value in row), flush=True)
        rows.append(row)
    with output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "results" / "many_dimensions.csv")
    main(parser.parse_args().output)
