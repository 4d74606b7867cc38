"""Two trees of the package against each other: A features, random features, fits and learners, in turns.

    python benchmarks/compare.py --before FOLDER [--after FOLDER] [--rounds 7] [--bags 2000] [--only 'fit, *']

A folder holds ``src/distembed``. Each tree has a process of its own, which makes the same bags, answers once, and then
waits for its turns: for every job the two take turns, and times and ratios are medians of the rounds. Answers must be
equal to rounding, or the run ends with an error. Only the ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from statistics import median
from subprocess import PIPE, Popen
from time import perf_counter

import numpy as np

FITTED = (
    "js", "tv", "hellinger", "l2", "l2-points", "mmd", "histogram-js", "codebook-js", "covariance", "d3",
    "sliced-wasserstein", "bhattacharyya", "fisher",
)  # fmt: skip
SETTINGS = {"random_state": 0, "n_jobs": 1}  # of all that know them
ROUNDING = 1e-3  # of the largest value: random features of float32 turn errors of 1e-5 into 5e-4


def make_jobs(n_bags: int) -> dict:
    """Work of the tree that is on the path: name and function; what it returns is compared."""
    import distembed as de

    rng = np.random.default_rng(0)
    points = np.clip(rng.normal(0.5, 0.12, size=(n_bags, 200, 2)) + rng.normal(0, 0.1, size=(n_bags, 1, 2)), 0, 1)
    bags = de.as_bags(points.astype(np.float32))
    few = bags[: max(20, n_bags // 10)]
    y = few.points.reshape(few.n_bags, -1).std(axis=1)
    jobs = {}
    for distance in ("hellinger", "tv", "js"):
        embedding = de.HDDEmbedding(distance, n_jobs=1).fit(few)
        jobs[f"A features, {distance}"] = lambda embedding=embedding: embedding.transform(bags)
    features = de.RandomFourierFeatures(5000, frequencies="orthogonal", **SETTINGS).fit(embedding.transform(few))
    jobs["A + random features, js"] = lambda: features.transform(embedding.transform(bags))
    for name in FITTED:
        estimator = de.embeddings.get(name)
        estimator.set_params(**{key: value for key, value in SETTINGS.items() if key in estimator.get_params()})
        jobs[f"fit, {name}"] = lambda estimator=estimator: estimator.fit(few).transform(few[:20])
    return jobs | make_learner_jobs(few, y)


def make_learner_jobs(bags, y) -> dict:
    """Fits and predictions of learners; random features that differ by their draw answer with a truth value."""
    import distembed as de

    codes, half, table = (y > np.median(y)).astype(int), len(y) // 2, {"age": np.arange(len(y)) % 7}

    def regressor(embedding="js", **settings):
        return de.DistributionRegressor(embedding, **SETTINGS | settings)

    def batches():
        return iter([(bags[:half], y[:half]), (bags[half:], y[half:])])

    small = {"n_components": 500}
    auto = cache(lambda: regressor("auto").fit(bags, y))
    js = cache(lambda: regressor(scale=de.UnitCube(), **small).fit(bags, y))
    jobs = {
        "learner, js": lambda: regressor(scale=de.UnitCube(), **small).fit(bags, y).predict(bags[:20]),
        "learner, js, 5,000 features": lambda: regressor().fit(bags, y).score(bags, y) > 0.5,
        "learner, mean, no search": lambda: regressor("mean", tune=None, **small).fit(bags, y).predict(bags[:20]),
        "learner, mean, covariates": lambda: regressor("mean").fit(bags, y, covariates=table).score(
            bags, y, covariates=table),
        "learner, js in batches": lambda: regressor(**small).fit_batches(batches).predict(bags[:20]),
        "learner, auto": lambda: regressor("auto").fit(bags, y).score(bags, y),
        "predict, js": lambda: js().predict(bags),
        "predict, auto": lambda: auto().predict(bags),
    }  # fmt: skip
    for model in ("ridge", "logistic", "svm"):
        classifier = de.DistributionClassifier("js", model=model, **SETTINGS | small)
        jobs[f"learner, classes, {model}"] = lambda c=classifier: c.fit(bags, codes).predict_proba(bags[:20])
    return jobs


def work(answers: str, n_bags: int, only: str) -> None:
    """What each process does: answer all jobs, then do the job that a line names and tell its seconds."""
    warnings.simplefilter("ignore")
    jobs = {name: job for name, job in make_jobs(n_bags).items() if fnmatchcase(name, only)}
    np.savez(answers, **{name: job() for name, job in jobs.items()})
    print("ready", flush=True)
    for line in sys.stdin:
        start = perf_counter()
        jobs[line.rstrip("\n")]()
        print(perf_counter() - start, flush=True)


class Tree:
    """A process that works in one tree of the package."""

    def __init__(self, folder: Path, answers: Path, n_bags: int, only: str) -> None:
        if not (folder / "src" / "distembed").is_dir():
            raise SystemExit(f"compare.py: {folder} holds no src/distembed; name the root of a tree of the package")
        command = [sys.executable, __file__, "--work", str(answers), "--bags", str(n_bags), "--only", only]
        settings = os.environ | {"PYTHONPATH": str(folder / "src"), "OPENBLAS_NUM_THREADS": "1"}
        self.process = Popen(command, env=settings, stdin=PIPE, stdout=PIPE, text=True)
        if not self.process.stdout.readline():
            raise SystemExit(f"compare.py: {folder} could not do its jobs; its error stands above")
        with np.load(answers) as found:
            self.answers = dict(found)

    def seconds(self, name: str) -> float:
        """Of one turn."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(before: Path, after: Path, rounds: int, n_bags: int, only: str = "*") -> dict[str, float]:
    """How many times as long the second tree takes for each job; prints a table."""
    with tempfile.TemporaryDirectory() as folder:
        trees = [Tree(tree, Path(folder, f"{i}.npz"), n_bags, only) for i, tree in enumerate((before, after))]
    ratios = {}
    print(f"{'':28}{'before ms':>11}{'after ms':>11}{'after / before':>16}")
    for name, answer in trees[0].answers.items():
        if not np.allclose(answer, trees[1].answers[name], rtol=0, atol=ROUNDING * np.abs(answer).max()):
            raise SystemExit(f"compare.py: {name}: the answers of the two trees differ")
        turns = [tuple(tree.seconds(name) for tree in trees) for _ in range(rounds)]
        ratios[name] = median(new / old for old, new in turns)
        milliseconds = [1e3 * median(side) for side in zip(*turns, strict=True)]
        print(f"{name:28}{milliseconds[0]:11.1f}{milliseconds[1]:11.1f}{ratios[name]:16.2f}", flush=True)
    for tree in trees:
        tree.process.communicate()
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required="--work" not in sys.argv, help="root of the other tree")
    parser.add_argument("--after", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bags", type=int, default=2000)
    parser.add_argument("--only", default="*", help="pattern of names of jobs")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.work, asked.bags, asked.only)
    else:
        compare(asked.before, asked.after, asked.rounds, asked.bags, asked.only)
