"""Ten functions per dimension or ``n_basis="auto"`` in learners: RMSE and processor time on new bags.

    python experiments/basis_size.py [--repeats 2] [--bags 1000] [--test 1000] [--tasks ...]

Tasks are the paper's mixtures in the plane, the share of a narrow peak on the line, and a correlation in three
dimensions, which has a third of the bags. Ratios are those of "auto" to ten functions, in mean over repeats.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import distembed as de

SIZES = (10, "auto")


def mixture(n, rng):
    """How many Gaussians 200 points of the plane come from."""
    return de.datasets.make_mixture_components(n, 200, random_state=int(rng.integers(2**31)))


def peak(n, rng):
    """The share of 200 points of the line that lie in a narrow peak on top of a wide one."""
    share, place = rng.uniform(size=n), rng.uniform(0.3, 0.7, size=(n, 1))
    width = np.where(rng.uniform(size=(n, 200)) < share[:, None], 0.02, 0.06)
    return (place + width * rng.normal(size=(n, 200)))[..., None], share


def correlation(n, rng):
    """The correlation of the first two of three columns, 300 points."""
    r = rng.uniform(-0.9, 0.9, size=n // 3)
    x = rng.normal(size=(n // 3, 300, 3))
    x[..., 1] = r[:, None] * x[..., 0] + np.sqrt(1 - r[:, None] ** 2) * x[..., 1]
    return x, r


TASKS = {"mixture": mixture, "peak": peak, "correlation": correlation}


def judged(distance, n_basis, train, test):
    """RMSE, seconds, functions per dimension and share of energy."""
    start = time.process_time()
    embedding = de.HDDEmbedding(distance, n_basis=n_basis)
    model = de.DistributionRegressor(embedding, n_components=2000, random_state=0, n_jobs=1).fit(*train)
    error = np.sqrt(np.mean((model.predict(test[0]) - test[1]) ** 2))
    return error, time.process_time() - start, model.embedding_.n_basis_, model.embedding_.energy_


def main(argv=None):
    """Print a line for each task and distance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--distances", nargs="+", default=["js", "hellinger", "tv"])
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    print("task         distance   RMSE 10  auto    ratio   seconds ratio   functions   energy 10  auto")
    for task in given.tasks:
        for distance in given.distances:
            found = []
            for seed in range(given.repeats):
                rng = np.random.default_rng(seed)
                train, test = TASKS[task](given.bags, rng), TASKS[task](given.test, rng)
                found.append([judged(distance, n_basis, train, test) for n_basis in SIZES])
            ten, auto = np.array(found, float).mean(axis=0)
            print(
                f"{task:<12} {distance:<10} {ten[0]:.4f}   {auto[0]:.4f}  {auto[0] / ten[0]:.3f}   "
                f"{auto[1] / ten[1]:.2f}            {auto[2]:<9.0f}   {ten[3]:.3f}      {auto[3]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
