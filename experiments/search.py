"""What the search of DistributionRegressor costs, and what it loses against looking at everything.

    python experiments/search.py [--seeds 3] [--draws 5] [--train 4000] [--test 2000] [--components 5000]

The task is the paper's, the number of components of 2-D mixtures from 200 points. *default*: a race in which few
settings see all bags. *full*: all settings are judged on all bags, with all penalties. Both are then fitted to all
training bags. The same setting with other random frequencies is off by some hundredths, more than what settings
differ by; so the settings that were found are compared over several draws of frequencies, the same for both. Prints a
table, and writes results/search.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.base import clone

import distembed as de

COLUMNS = (
    "search", "seed", "bags", "trials", "bandwidth_scale", "sigma_scale", "alpha", "search_seconds", "fit_seconds",
    "rmse", "standard_error", "rmse_of_draws", "deviation_of_draws",
)  # fmt: skip
RESULTS = Path(__file__).parents[1] / "results"


def squares_of(model, bags, y, n_train):
    """Squared errors of a model on the bags that it was not fitted to."""
    return (model.predict(bags[n_train:]) - y[n_train:]) ** 2


def row(name, model, bags, y, n_train, n_draws):
    """One line of the table: a search, and its setting with other random frequencies."""
    start = perf_counter()
    model.fit(bags[:n_train], y[:n_train])
    took, best = perf_counter() - start, model.best_params_
    squares = squares_of(model, bags, y, n_train)
    rmse = np.sqrt(squares.mean())
    again = clone(model).set_params(tune=None, **{f"{key}s": (value,) for key, value in best.items()})
    draws = [rmse]
    for i in range(1, n_draws):
        again.set_params(random_state=1000 * i + model.random_state).fit(bags[:n_train], y[:n_train])
        draws.append(np.sqrt(squares_of(again, bags, y, n_train).mean()))
    numbers = (
        rmse, squares.std() / np.sqrt(len(squares)) / (2 * rmse), np.mean(draws), np.std(draws, ddof=int(n_draws > 1)),
    )  # fmt: skip
    return (
        name, model.random_state, model.search_.n_bags, len(model.search_.trials), *best.values(),
        round(sum(model.search_.seconds.values()), 1), round(took, 1), *(round(float(one), 4) for one in numbers),
    )  # fmt: skip


def compare(seed=0, n_train=4000, n_test=2000, n_components=5000, n_points=200, n_draws=5):
    """The two rows of a seed, and the model of the default search."""
    bags, y = de.datasets.make_mixture_components(n_train + n_test, n_points, random_state=seed)
    settings = {"scale": de.UnitCube((-10, 10)), "n_components": n_components, "random_state": seed}
    model = de.DistributionRegressor("js", **settings)
    everything = de.DistributionRegressor("js", exhaustive=True, max_search_bags=n_train, **settings)
    found = [("default", model), ("full", everything)]
    return [row(name, one, bags, y, n_train, n_draws) for name, one in found], model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--components", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=RESULTS / "search.csv")
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        found, model = compare(seed, options.train, options.test, options.components, n_draws=options.draws)
        for cells in (COLUMNS, *found) if not rows else found:
            print("  ".join(f"{cell!s:>15}" for cell in cells), flush=True)
        rows += found
    lost = [default[-2] - full[-2] for default, full in zip(rows[::2], rows[1::2], strict=True)]
    seeds = ", ".join(f"{one:+.4f}" for one in lost)
    print(f"lost against the full search, means of {options.draws} draws: {np.mean(lost):+.4f} of RMSE ({seeds})")
    print("seconds of each stage:", ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in model.timings_.items()))
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
