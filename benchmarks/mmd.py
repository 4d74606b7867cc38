"""MMD: the kernel's Fourier series against averaged random features, time and error side by side.

    python benchmarks/mmd.py [--bags 2000] [--turns 9]

Both sides embed the same float32 bags, 2-D, n = 200, with the same sigma, and take turns in one process. Errors are of
MMD² over pairs of bags, against the V-statistic in float64. The series comes with three numbers of features: the fewest
whose errors, largest and root mean square, are not above those of random features, and two more accurate ones. Only
ratios of one run mean anything, and only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from timing import close, in_turns, machine_line, one_thread

import distembed as de
from distembed.embeddings import MeanEmbedding
from exact import mmd

N_POINTS, N_DIMS, N_COMPONENTS = 200, 2, 5000
FEATURES = (9, 13, 21, 25, 37, 45, 57, 69, 81, 97, 121, 149, 177, 200, 250)  # of the series, from the fewest on


@dataclass(frozen=True)
class Row:
    """One side: features per bag, seconds per bag, and errors of MMD² over pairs, largest and root mean square."""

    name: str
    n_features: int
    seconds: float
    largest: float
    rms: float


def clouds(n_bags, n_points=N_POINTS, n_dims=N_DIMS, seed=0):
    """Gaussian clouds of their own centres and widths, float32."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal(size=(n_bags, n_points, n_dims))
    points *= rng.uniform(0.5, 1.5, size=(n_bags, 1, 1))
    points += rng.normal(size=(n_bags, 1, n_dims))
    return de.as_bags(points.astype(np.float32))


def distances(A):
    """Squared distances between all pairs of rows."""
    A = A.astype(float)
    i, j = np.triu_indices(len(A), 1)
    return np.sum((A[i] - A[j]) ** 2, axis=1)


def errors(embedding, bags, want):
    """Largest and root mean square error of MMD² over pairs of bags."""
    error = distances(embedding.transform(bags)) - want
    return float(np.max(np.abs(error))), float(np.sqrt(np.mean(error**2)))


def fewest(bags, judged, want, sigma, bound):
    """The series of fewest features whose largest and rms errors are at most ``bound``."""
    for n in FEATURES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that few capture little: their error decides
            series = MeanEmbedding(n, sigma, method="spectrum").fit(bags)
        if np.all(np.array(errors(series, judged, want)) <= bound):
            return series
    raise AssertionError(f"wrong answer: no series of at most {FEATURES[-1]} features is as good as random features")


def compare(n_bags=2000, n_judged=40, turns=9, n_components=N_COMPONENTS, slow_bags=40, n_jobs=None):
    """Rows of random features, of the series at equal error, and of more accurate series."""
    bags = clouds(n_bags)
    judged = bags[: min(n_judged, n_bags)]
    random = MeanEmbedding(n_components, random_state=0, n_jobs=n_jobs).fit(bags)
    sigma = random.sigma_
    arrays = [points.astype(float) for points in judged]
    pairs = zip(*np.triu_indices(len(arrays), 1), strict=True)
    want = np.array([mmd(arrays[i], arrays[j], sigma) for i, j in pairs])
    bound = errors(random, judged, want)
    close("MMD of random features", distances(random.transform(judged)), want, atol=5 / np.sqrt(n_components))
    full = MeanEmbedding(1000, sigma, method="spectrum").fit(bags)
    close("MMD of the series", distances(full.transform(judged)), want, atol=5e-6)
    half = MeanEmbedding(full.waves_.shape[0] // 2, sigma, method="spectrum").fit(bags)
    sides = {"series, equal error": fewest(bags, judged, want, sigma, bound), "half series": half, "series": full}
    few = bags[: min(slow_bags, n_bags)]  # random features take long enough
    calls = {f"random features, D = {n_components:,}": (random, few)}
    calls |= {name: (side.set_params(n_jobs=n_jobs), bags) for name, side in sides.items()}
    runs = {name: partial(side.transform, some) for name, (side, some) in calls.items()}
    if n_jobs == 1:
        runs = {name: one_thread(run) for name, run in runs.items()}
    best = in_turns(runs, turns)
    return [
        Row(name, side.transform(judged[:1]).shape[1], best[name] / some.n_bags, *errors(side, judged, want))
        for name, (side, some) in calls.items()
    ]


def main(n_bags=2000, turns=9):
    print(machine_line())
    for n_jobs, threads in ((None, "default threads"), (1, "one thread")):
        rows = compare(n_bags, turns=turns, n_jobs=n_jobs)
        print(f"MMD of 2-D bags, n = {N_POINTS}, float32, {threads}")
        print(
            f"  {'':28s} {'features':>8s} {'us per bag':>9s} {'largest error':>14s} {'rms error':>10s} {'faster':>7s}"
        )
        for row in rows:
            print(
                f"  {row.name:28s} {row.n_features:8d} {row.seconds * 1e6:9.1f} {row.largest:14.1e} {row.rms:10.1e} "
                f"{rows[0].seconds / row.seconds:6.0f}x"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    main(options.bags, options.turns)
