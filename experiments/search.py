"""What the search of DistributionRegressor costs, and what it loses against looking at everything.

    python experiments/search.py [--seeds 3] [--train 4000] [--test 2000] [--components 5000]

The task is the paper's, the number of components of 2-D mixtures from 200 points. *default*: 2,000 bags take part, and
walks along sigmas and penalties look at some of the settings. *full*: all bags take part, and all settings are looked
at. Both are then fitted to all training bags, with the same random frequencies. Prints a table, and writes
results/search.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from time import perf_counter

import numpy as np

import distembed as de

COLUMNS = (
    "search", "seed", "bags", "settings", "bandwidth_scale", "sigma_scale", "alpha", "search_seconds",
    "fit_seconds", "rmse", "standard_error",
)  # fmt: skip
RESULTS = Path(__file__).parents[1] / "results"


def row(name, seed, model, bags, y, n_train):
    """One line of the table."""
    start = perf_counter()
    model.fit(bags[:n_train], y[:n_train])
    took = perf_counter() - start
    squares = (model.predict(bags[n_train:]) - y[n_train:]) ** 2
    rmse = np.sqrt(squares.mean())
    best = model.best_params_
    return (
        name, seed, model.search_.n_bags, len(model.search_.trials), best["bandwidth_scale"], best["sigma_scale"],
        best["alpha"], round(sum(model.search_.seconds.values()), 1), round(took, 1), round(float(rmse), 4),
        round(float(squares.std() / np.sqrt(len(squares)) / (2 * rmse)), 4),
    ), model  # fmt: skip


def compare(seed=0, n_train=4000, n_test=2000, n_components=5000, n_points=200):
    """The two rows of a seed, and the model of the default search."""
    bags, y = de.datasets.make_mixture_components(n_train + n_test, n_points, random_state=seed)
    settings = {"scale": de.UnitCube((-10, 10)), "n_components": n_components, "random_state": seed}
    first, model = row("default", seed, de.DistributionRegressor("js", **settings), bags, y, n_train)
    everything = de.DistributionRegressor("js", exhaustive=True, max_search_bags=n_train, **settings)
    return [first, row("full", seed, everything, bags, y, n_train)[0]], model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--components", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=RESULTS / "search.csv")
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        found, model = compare(seed, options.train, options.test, options.components)
        for cells in (COLUMNS, *found) if not rows else found:
            print("  ".join(f"{cell!s:>15}" for cell in cells), flush=True)
        rows += found
    lost = [default[-2] - full[-2] for default, full in zip(rows[::2], rows[1::2], strict=True)]
    print(f"lost against the full search: {np.mean(lost):+.4f} of RMSE, mean of {len(lost)} seeds")
    print("seconds of each stage:", ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in model.timings_.items()))
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
