"""What the ensemble costs and gains beside one embedding by name: errors, their difference and seconds, in one process.

    python experiments/ensemble.py [--bags 1000 10000] [--embedding js] [--test 3000] [--seed 0]

Bags are the paper's mixtures, 200 points each, and the target is the number of their components. The difference of the
root mean squared errors has the standard error of the paired differences over test bags (delta method).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import distembed as de
from distembed.datasets import make_mixture_components


def squared_errors(name, train, y, test, truth):
    """Squared errors of a learner on test bags, and the seconds of its fit: wall clock and processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    model = de.DistributionRegressor(name, random_state=0).fit(train, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return (model.predict(test) - truth) ** 2, wall, cpu


def main():
    """Print a row for each number of bags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--embedding", default="js")
    parser.add_argument("--test", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    test, truth = make_mixture_components(asked.test, 200, random_state=asked.seed + 1_000_000)
    first = f"{'bags':>7} {'RMSE of ' + asked.embedding:>12} {'auto':>7} {'difference':>18}"
    print(first, f"{'wall s':>13} {'processor s':>13}")
    for n_bags in asked.bags:
        train, y = make_mixture_components(n_bags, 200, random_state=asked.seed)
        one, *seconds = squared_errors(asked.embedding, train, y, test, truth)
        all_of_them, *more = squared_errors("auto", train, y, test, truth)
        single, mean = np.sqrt(one.mean()), np.sqrt(all_of_them.mean())
        error = np.std((all_of_them - one) / (single + mean)) / np.sqrt(len(one))
        costs = " ".join(f"{few:6.1f} {many:6.1f}" for few, many in zip(seconds, more, strict=True))
        print(f"{n_bags:7} {single:12.4f} {mean:7.4f} {mean - single:+9.4f} ± {error:.4f} {costs}", flush=True)


if __name__ == "__main__":
    main()
