"""Which density in 4 to 10 dimensions: squared Hellinger distances against their truth, over families and seeds.

Five families of five bags each: products of betas; products of wide and of narrow truncated Gaussians; narrow Gaussians
that depend on each other; mixtures of three of those, whose modes move from bag to bag. The truth comes from 100,000
draws of every pair, by which it is known to half a per cent.

    python experiments/many_dimensions_study.py [--output results/many_dimensions_study.csv]

Columns: relative error of squared distances, mean over pairs and seeds, standard deviation of that mean between seeds,
root mean square, worst; the mean over seeds of the correlation of distances with their truth; seconds of a fit.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from itertools import combinations, product
from pathlib import Path
from time import process_time

import numpy as np
from scipy import stats

import distembed as de

COLUMNS = (
    "n_dims", "family", "n_points", "method", "density", "bandwidth", "seeds", "mean", "deviation", "rms", "worst",
    "correlation", "seconds",
)  # fmt: skip
DENSITIES = (
    ("auto", "distance"), ("kde", "distance"), ("kde", "likelihood"), ("copula", "likelihood"), ("mixture", "distance"),
)  # fmt: skip
METHODS = ("A features", "plugin")
FAMILIES = ("betas", "wide", "narrow", "dependent", "modes")
N_BAGS = 5
N_DRAWS = 50_000  # of each of two densities


class Margins:
    """A density with independent coordinates."""

    def __init__(self, margins):
        self.margins = margins

    def pdf(self, u):
        """Density at u of shape (n, n_dims)."""
        return np.prod([margin.pdf(x) for margin, x in zip(self.margins, u.T, strict=True)], axis=0)

    def sample(self, n, rng):
        """Draw n points."""
        return np.stack([margin.rvs(n, random_state=rng) for margin in self.margins], axis=1)


class Gaussians:
    """A mixture of Gaussians, so narrow that next to nothing of it is outside of the cube; points are clipped to it."""

    def __init__(self, shares, means, covariances):
        self.shares = shares
        self.parts = [stats.multivariate_normal(*each) for each in zip(means, covariances, strict=True)]

    def pdf(self, u):
        """Density at u of shape (n, n_dims)."""
        return sum(share * part.pdf(u) for share, part in zip(self.shares, self.parts, strict=True))

    def sample(self, n, rng):
        """Draw n points."""
        owners = rng.multinomial(n, self.shares)
        some = zip(self.parts, owners, strict=True)
        points = np.concatenate([part.rvs(m, random_state=rng).reshape(m, -1) for part, m in some])
        return np.clip(rng.permutation(points), 0, 1)


def truncated(centre, width):
    """A Gaussian truncated to the unit interval."""
    return stats.truncnorm(-centre / width, (1 - centre) / width, loc=centre, scale=width)


def covariance(n_dims, rng, widths=(0.06, 0.09)):
    """Of a Gaussian whose coordinates depend on each other."""
    factors = rng.normal(size=(n_dims, 2))
    matrix = factors @ factors.T + np.eye(n_dims)
    scale = rng.uniform(*widths, n_dims) / np.sqrt(np.diag(matrix))
    return matrix * np.outer(scale, scale)


def draw_family(family, n_dims, rng):
    """Densities of the bags, at squared distances of about 0.05 to 0.6 whatever the number of dimensions."""
    nearer = np.sqrt(5 / n_dims)
    if family == "betas":
        middle = rng.uniform(2, 4.5, (n_dims, 2))
        shapes = middle * np.exp(nearer * rng.normal(0, 0.3, (N_BAGS, n_dims, 2)))
        return [Margins([stats.beta(a, b) for a, b in each]) for each in shapes]
    if family in ("wide", "narrow"):
        low, high = (0.2, 0.4) if family == "wide" else (0.10, 0.13)
        widths = rng.uniform(low, high, n_dims) * np.exp(nearer * rng.normal(0, 0.1, (N_BAGS, n_dims)))
        centres = rng.uniform(0.4, 0.6, n_dims) + nearer * 0.45 * low * rng.normal(size=(N_BAGS, n_dims))
        pairs = zip(centres, widths, strict=True)
        return [Margins([truncated(*pair) for pair in zip(*each, strict=True)]) for each in pairs]
    n_modes = 1 if family == "dependent" else 3
    centres = rng.uniform(0.35, 0.65, (n_modes, n_dims))
    matrices = [covariance(n_dims, rng) for _ in range(n_modes)]
    found = []
    for _ in range(N_BAGS):
        shares = rng.dirichlet(np.full(n_modes, 6.0))
        moved = [rng.multivariate_normal(c, 0.3 * nearer**2 * m) for c, m in zip(centres, matrices, strict=True)]
        found.append(Gaussians(shares, moved, matrices))
    return found


def truth(densities, rng):
    """Squared Hellinger distances of all pairs, as means over draws from either."""
    found = []
    for p, q in combinations(densities, 2):
        u = np.concatenate([p.sample(N_DRAWS, rng), q.sample(N_DRAWS, rng)])
        a, b = p.pdf(u), q.pdf(u)
        found.append(np.mean((np.sqrt(a) - np.sqrt(b)) ** 2 / (a + b)))
    return np.array(found)


def squared_distances(method, bags, density, bandwidth, seed):
    """Of all pairs, by A features or pair by pair."""
    options = {"density": density, "bandwidth": bandwidth, "random_state": seed}
    first, second = np.array([*combinations(range(N_BAGS), 2)]).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nodes that miss mass are what is to be seen here
        if method == "plugin":
            return de.divergences.plugin(bags, distance="hellinger", **options)[first, second]
        A = de.HDDEmbedding("hellinger", n_jobs=1, **options).fit_transform(bags)
    return np.sum((A[first] - A[second]) ** 2, axis=1)


def study(dims, families, sizes, methods, n_seeds):
    """Rows of the table."""
    for n_dims, family in product(dims, families):
        drawn = []
        for seed in range(n_seeds):
            rng = np.random.RandomState(1000 * n_dims + seed)
            densities = draw_family(family, n_dims, rng)
            points = [p.sample(max(sizes), rng) for p in densities]
            drawn.append((truth(densities, rng), points))
        for n_points, method, (density, bandwidth) in product(sizes, methods, DENSITIES):
            if (method, density) == ("plugin", "auto"):  # pairs have no training bags to choose by
                continue
            start = process_time()
            errors, correlations = [], []
            for seed, (true, points) in enumerate(drawn):
                found = squared_distances(method, [each[:n_points] for each in points], density, bandwidth, seed)
                errors.append(found / true - 1)
                correlations.append(np.corrcoef(found, true)[0, 1])
            errors = np.array(errors)
            figures = (
                errors.mean(), errors.mean(axis=1).std(ddof=1), np.sqrt(np.mean(errors**2)), np.abs(errors).max(),
                np.mean(correlations),
            )  # fmt: skip
            seconds = (process_time() - start) / n_seeds
            settings = (n_dims, family, n_points, method, density, bandwidth, n_seeds)
            yield (*settings, *(round(float(each), 3) for each in figures), round(seconds, 2))


def main(output, *settings):
    with output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in study(*settings):
            print(" ".join(f"{value!s:>10s}" for value in row), flush=True)
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(__file__).parents[1] / "results"
    parser.add_argument("--output", type=Path, default=folder / "many_dimensions_study.csv")
    parser.add_argument("--dims", type=int, nargs="+", default=[4, 5, 7, 10])
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--points", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    main(asked.output, asked.dims, asked.families, asked.points, asked.methods, asked.seeds)
