"""Which linear model makes classes of the features of one embedding: accuracy, log loss and seconds on new bags.

    python experiments/heads.py [--repeats 3] [--bags 800] [--test 1000] [--tasks ...]

Differences are those of a model and the first one, on the same bags, in mean and standard error over repeats. Seconds
are those of the head alone: choosing C, fitting and calibrating; and of the whole fit, with the search for settings of
the kernel, which all have in common. Below each task stands half a standard error of the first model on the
new bags of one repeat: a smaller difference is none.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits

import distembed as de

MODELS = ("ridge", "logistic", "svm")


def components(n, rng):
    """How many Gaussians, of one to four, 100 points of the square come from."""
    codes, bags = rng.integers(1, 5, size=n), []
    for k in codes:
        at, part = rng.uniform(size=(k, 2)), rng.integers(0, k, size=100)
        bags.append(at[part] + rng.uniform(0.05, 0.15, size=(k, 2))[part] * rng.normal(size=(100, 2)))
    return de.as_bags(bags), codes


def correlation(n, rng):
    """Which quarter of -.9 to .9 the correlation of 80 points is in."""
    r = rng.uniform(-0.9, 0.9, size=n)
    x, noise = rng.normal(size=(2, n, 80))
    return np.stack([x, r[:, None] * x + np.sqrt(1 - r[:, None] ** 2) * noise], axis=2), np.digitize(r, [-0.5, 0, 0.5])


def digits(n, rng):
    """Which digit weighted pixels show, sheared and shifted a little."""
    grid, data = np.stack(np.divmod(np.arange(64), 8), axis=1) + 0.5, load_digits()
    chosen, points, weights = rng.integers(0, len(data.data), size=n), [], []
    for ink in data.data[chosen]:
        points.append(grid[ink > 0] @ (np.eye(2) + 0.08 * rng.normal(size=(2, 2))) + 0.3 * rng.normal(size=2))
        weights.append(ink[ink > 0])
    return de.Bags.from_arrays(points, weights=weights), data.target[chosen]


def means(n, rng):
    """Which of three Gaussians, near each other and unequally frequent, 15 points come from: log odds are linear."""
    codes = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    return rng.normal(np.array([[0, 0], [0.55, 0], [0, 0.55]])[codes][:, None], 1, size=(n, 15, 2)), codes


def modes(n, rng):
    """Whether 100 points have one mode or two, of equal mean and variance."""
    codes, points = rng.integers(0, 2, size=n), rng.normal(size=(n, 100, 2))
    far = rng.uniform(0.3, 0.9, size=(n, 1, 1))
    two = np.sign(rng.normal(size=points.shape)) * far + np.sqrt(1 - far**2) * points
    return np.where(codes[:, None, None] == 1, two, points), codes


def rare(n, rng):
    """Which bags, an eighth of all, are of a Gamma law of another shape."""
    codes = (rng.uniform(size=n) < 0.125).astype(int)
    return rng.gamma(2 + 0.6 * codes[:, None, None], 1, size=(n, 40, 1)), codes


TASKS = {task.__name__: task for task in (components, correlation, digits, means, modes, rare)}


def judged(model, train, test, seed):
    """Whether each new bag was right, its log loss, and seconds of the head and of the fit."""
    learner, start = de.DistributionClassifier("js", model=model, n_components=2000, random_state=seed), time.time()
    learner.fit(*train)
    took = time.time() - start
    others = [seconds for stage, seconds in learner.timings_.items() if stage not in ("search", "linear model")]
    head = took - sum(learner.search_.seconds.values()) - sum(others)
    found, codes = learner.predict_proba(test[0]), np.searchsorted(learner.classes_, test[1])
    return found.argmax(axis=1) == codes, -np.log(np.maximum(found[np.arange(len(codes)), codes], 1e-6)), head, took


def main(argv=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bags", type=int, default=800)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    print("task         model      accuracy            log loss            head s    fit s")
    for name in given.tasks:
        found = {model: [] for model in given.models}
        for seed in range(given.repeats):
            rng = np.random.default_rng(seed)
            train, test = TASKS[name](given.bags, rng), TASKS[name](given.test, rng)
            for model in given.models:
                found[model].append(judged(model, train, test, seed))
        for model, runs in found.items():
            cells = []
            for at in (0, 1):
                of, first = (np.array([run[at].mean() for run in all_]) for all_ in (runs, found[given.models[0]]))
                text = f"{of.mean():.4f}"
                if model != given.models[0]:
                    gap = of - first
                    text += f" {gap.mean():+.4f} ({gap.std(ddof=1) / np.sqrt(len(gap)):.4f})"
                cells.append(text.ljust(24))
            seconds = "   ".join(f"{np.mean([run[at] for run in runs]):6.2f}" for at in (2, 3))
            print(name.ljust(12), model.ljust(10), *cells, seconds, sep=" ", flush=True)
        halves = [np.mean([run[at].std() for run in found[given.models[0]]]) / 2 / given.test**0.5 for at in (0, 1)]
        print(" " * 23, f"half an error {halves[0]:.4f}".ljust(24), f"{halves[1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
