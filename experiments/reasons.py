"""Explanations of bags with a planted cause: how often the named column, points and region are the planted ones.

    python experiments/reasons.py [--models auto mmd ...] [--columns 2 10 40] [--bags 100]

The target is the share of points in a cluster that is seen in the first column. Of bags whose prediction is at least a
fifth of a deviation from the reference, the share is printed for which the first column contributes most, for which
the median point of the cluster has a higher value than the median of the others, and whose first region is a rule on
the first column. ``error`` is the median standard error of contributions over the deviation of the predictions, and
``weights`` the correlation of values with predictions for bags of which one weight was changed by a thousandth of the
mass. Seconds are processor time for each bag.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import distembed as de

MODELS = ["auto", "mmd", "mean", "statistics", "fisher", "sliced-wasserstein"]


def planted(n_bags, n_points, n_dims, seed=0):
    """Bags, the share of the cluster in each, and which points are in it."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0, 0.4, n_bags)
    points = rng.normal(size=(n_bags, n_points, n_dims))
    there = rng.uniform(size=(n_bags, n_points)) < share[:, None]
    points[there, 0] = rng.normal(3, 0.3, there.sum())
    return de.as_bags(points), there.mean(axis=1), there


def slopes(model, bag, step=1e-3):
    """Predictions for a bag with one point heavier, less that for the bag."""
    n = len(bag)
    weights = np.ones((n, n)) + n * step * np.eye(n)
    heavier = de.Bags(np.tile(bag, (n, 1)), n * np.arange(n + 1), weights.ravel())
    return model.predict(heavier) - model.predict([bag])[0]


def look_at(name, n_dims, n_bags, n_points):
    """One row of the table."""
    bags, y, there = planted(n_bags + 30, n_points, n_dims)
    model = de.DistributionRegressor(name, random_state=0).fit(bags[:n_bags], y[:n_bags])
    start = time.process_time()
    why = model.explain(bags[n_bags:], random_state=0)
    seconds = (time.process_time() - start) / 30
    spread = why.predictions.std()
    clear = np.flatnonzero(np.abs(why.predictions - why.reference) > 0.2 * spread)
    inside = there[n_bags:]
    sums = np.abs(why.contributions.sum(axis=1) - (why.predictions - why.reference)).max()
    column = np.mean(np.abs(why.contributions[clear]).argmax(axis=1) == 0)
    some = [i for i in clear if inside[i].sum() > 2]
    points = np.mean([np.median(why.of(i)[inside[i]]) > np.median(why.of(i)[~inside[i]]) for i in some])
    region = np.mean(["x0" in why.regions[i][0].rule for i in some])
    error = np.median(why.errors) / spread
    weights = np.median([np.corrcoef(slopes(model, bags[n_bags + i]), why.of(i))[0, 1] for i in range(5)])
    return column, points, region, sums, error, weights, seconds


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--columns", nargs="+", type=int, default=[2, 10, 40])
    parser.add_argument("--bags", type=int, default=100)
    parser.add_argument("--points", type=int, default=100)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("model               columns  column  points  region      sums  error  weights  s per bag")
    for name in asked.models:
        for n_dims in asked.columns:
            found = look_at(name, n_dims, asked.bags, asked.points)
            column, points, region, sums, error, weights, seconds = found
            print(
                f"{name:<20}{n_dims:>7}{column:>8.0%}{points:>8.0%}{region:>8.0%}{sums:>10.0e}{error:>7.3f}"
                f"{weights:>9.4f}{seconds:>11.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
