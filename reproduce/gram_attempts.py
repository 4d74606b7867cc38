"""How close kernels can come to the true ones: Richardson's extrapolation in several ways, and what is out of reach.

The limit is the mean of ½ log(2p/(p + q)) over the points of one bag, plus that of ½ log(2q/(p + q)) over those of the
other, with the true densities p and q. Its expectation is JS, and the two logarithms are the influence functions of JS:
no estimate from the same points, without knowing p and q, has less variance to first order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import exact
from distembed import divergences
from distembed.bags import Bags
from distembed.compute.arrays import Array
from distembed.datasets import MixtureDensities
from distembed.embeddings import HDDEmbedding

from .claims import over_repetitions
from .gram_stages import draw, score
from .study import Table

# Times the default bandwidth; functions along each dimension, None for no basis and no lambdas.
WAYS: dict[str, tuple[float, int | None]] = {
    "A features, h": (1.0, 10),
    "A features, 1.2 h": (1.2, 10),
    "A features, 1.41 h": (float(np.sqrt(2)), 10),
    "A features, 1.7 h": (1.7, 10),
    "A features, 2 h": (2.0, 10),
    "A features of 14 functions, 1.7 h": (1.7, 14),
    "no features, 1.41 h": (float(np.sqrt(2)), None),
    "no features, 1.7 h": (1.7, None),
    "no features, 2 h": (2.0, None),
}
LIMIT = "limit"
SHOWN = ("R2", "determination", "rms error")


def efficient_distances(bags: Bags, densities: MixtureDensities) -> Array:
    """JS of all pairs by the logarithms of the true densities at the points, ndarray of shape (n_bags, n_bags).

    Examples
    --------
    >>> problem = draw(0, n_bags=3, n_points=2000)
    >>> found = efficient_distances(problem.bags, problem.densities)
    >>> bool(np.abs(exact.kernel(found, problem.sigma) - problem.kernel).max() < 0.05)
    True
    """
    means = np.empty((bags.n_bags, bags.n_bags))
    for i, points in enumerate(bags):
        p = densities.pdf(points)
        means[i] = np.mean(np.log(2 * p[i] / (p[i] + p)), axis=1) / 2
    return means + means.T


def attempts(seed: int, n_bags: int = 50, n_points: int = 2500) -> dict[str, Any]:
    """Scores of all ways on one draw, in the order of ``SHOWN``, by their names."""
    problem = draw(seed, n_bags, n_points)
    bags = problem.bags
    squared = {LIMIT: efficient_distances(bags, problem.densities)}
    for name, (scale, n_basis) in WAYS.items():
        if n_basis is None:
            squared[name] = divergences.plugin(bags, distance="js", bandwidth_scale=scale, bias="richardson", n_jobs=1)
        else:
            embedding = HDDEmbedding("js", n_basis=n_basis, bandwidth_scale=scale, n_jobs=1).fit(bags)
            squared[name] = embedding.squared_distances(bags, bias="richardson")
    scores = {name: score(problem.kernel, exact.kernel(each, problem.sigma)) for name, each in squared.items()}
    return {name: np.array([each[column] for column in SHOWN]) for name, each in scores.items()}


def attempts_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """Means over draws with 95 % intervals of R² and of the coefficient of determination."""
    rows = []
    for name in (*WAYS, LIMIT):
        values = np.array([each[name] for each in found])
        cells = []
        for column in values.T[:2]:
            mean = over_repetitions(column)
            cells += [f"{value:.4f}" for value in (mean.mean, *mean.interval())]
        rows.append((name, *cells, f"{values[:, 2].mean():.4f}", len(values)))
    ends = ("95 % low", "95 % high")
    columns = ("distances", "R2", *ends, "determination", *ends, "rms error", "seeds")
    return Table("attempts", "Richardson's extrapolation in several ways, and the limit", columns, rows)
