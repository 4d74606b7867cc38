"""Which map of a column to the unit cube keeps Hellinger distances, for columns of many shapes.

    python experiments/column_maps.py [--bags 60] [--points 2000] [--seed 0]

Bags are Gaussians of random means and deviations, whose distances are known, and every column is a function of them. An
increasing function changes no distance; one that merges values, such as counts, has its distances from the shares of
the merged values among 20,000 points per bag. The figures are squared correlations of distances of
``HDDEmbedding("hellinger", n_basis=20)`` with the truth over all pairs of bags: the table of ``scaling/curves.py``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy import stats

import distembed as de

MAPS = ("linear", "asinh", "rank", "auto")


def shapes(deviation: float) -> dict:
    """Functions of a Gaussian of that deviation, and whether they merge values."""

    def ranks(z):
        return np.clip(stats.norm.cdf(z / deviation), 1e-15, 1 - 1e-15)

    return {
        "uniform": (ranks, False),
        "normal": (lambda z: z, False),
        "Poisson counts, mean 3": (lambda z: stats.poisson.ppf(ranks(z), 3), True),
        "normal and one outlier": (lambda z: z + 1e3 * (np.arange(z.size) == 7).reshape(z.shape), False),
        "exponential": (lambda z: -np.log1p(-ranks(z)), False),
        "Student, 3 degrees": (lambda z: stats.t.ppf(ranks(z), 3), False),
        "lognormal, deviation 1": (np.exp, False),
        "lognormal, deviation 2": (lambda z: np.exp(2 * z), False),
        "Cauchy": (lambda z: stats.cauchy.ppf(ranks(z)), False),
        "Pareto, exponent 1": (lambda z: 1 / (1 - ranks(z)), False),
        "negative binomial counts": (lambda z: stats.nbinom.ppf(ranks(z), 0.5, 0.02), True),
        "70 % zeros or lognormal": (lambda z: np.where(z < 0.5, 0, np.exp(2 * (z - 0.5))), True),
    }


def gaussian_distances(mean, deviation):
    """Squared Hellinger distances, ∫ (√p - √q)², of all pairs of Gaussians."""
    variances = deviation[:, None] ** 2 + deviation**2
    overlap = np.sqrt(2 * np.outer(deviation, deviation) / variances)
    return 2 - 2 * overlap * np.exp(-0.25 * (mean[:, None] - mean) ** 2 / variances)


def merged_distances(points):
    """The same from shares of values; those that are many are taken together, some 40 at a time."""
    levels = np.unique(np.quantile(points[points > 0], np.linspace(0, 1, 41)))
    edges = np.concatenate([[-1, 1e-9], levels[:-1] + 1e-9, [np.inf]])
    roots = np.sqrt([np.histogram(bag, edges)[0] / bag.size for bag in points])
    return np.sum((roots[:, None] - roots) ** 2, axis=2)


def table(n_bags=60, n_points=2000, seed=0, only=None):
    """Rows: name of the shape, all or only some, one figure per map, and what "auto" chose."""
    rng = np.random.default_rng(seed)
    mean, deviation = rng.normal(0, 0.6, n_bags), np.exp(rng.normal(-0.3, 0.25, n_bags))
    latent = mean[:, None] + deviation[:, None] * rng.normal(size=(n_bags, n_points))
    even = mean[:, None] + deviation[:, None] * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    pairs = np.triu_indices(n_bags, 1)
    known = shapes(np.sqrt(0.36 + np.mean(deviation**2)))
    for name in known if only is None else only:
        shape, merges = known[name]
        truth = merged_distances(shape(even)) if merges else gaussian_distances(mean, deviation)
        found = []
        for kind in MAPS:
            cube = de.UnitCube(map=kind)
            rows = de.HDDEmbedding("hellinger", n_basis=20).fit_transform(cube.fit_transform(shape(latent)[..., None]))
            d2 = np.sum((rows[:, None] - rows) ** 2, axis=2)
            found.append(np.corrcoef(d2[pairs], truth[pairs])[0, 1] ** 2)
        yield (name, *found, cube.maps_[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=60)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a basis can't hold the peaks that bad maps make
    print(f"{'column':26}" + "".join(f"{kind:8}" for kind in MAPS))
    for name, *figures, chosen in table(options.bags, options.points, options.seed):
        print(f"{name:26}" + "".join(f"{figure:<8.3f}" for figure in figures) + f"({chosen})", flush=True)


if __name__ == "__main__":
    main()
