"""Record what learners predict, so that a change of their insides can be shown to change nothing.

    python tools/freeze.py record FILE.npz [--only PATTERN] [--jobs 2]
    python tools/freeze.py compare FILE.npz [--only PATTERN] [--jobs 2]

A table of small, seeded configurations uses the package as anybody does, by its public names alone: learners of all
kinds, batches, model files, clusters, conformal prediction and the command line. ``record`` writes their predictions,
settings, trials and leaderboards to a file, never seconds; ``compare`` makes them again, in new processes, and tells
for each configuration whether it is the same bit for bit, or which of its arrays differ and by how much of their
spread. It ends with code 1 if anything differs. ``--only`` takes a pattern such as ``'auto*'``, or a part of names.

BLAS has one thread in these processes, however many there are, because sums by several threads may differ in their
last bits. Record and compare on the same machine, with the same versions of NumPy, SciPy and scikit-learn.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import io
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import distembed as de
from distembed.learners.view_contributions import view_contributions

Found = dict[str, Any]  # arrays, numbers and texts by name
Configuration = Callable[[], Found]

CONFIGURATIONS: dict[str, Configuration] = {}
NEW = 20  # bags that predictions are made for
ERROR = "error"  # the only key of a configuration that raises
BETWEEN = " :: "  # name of the configuration and of the array, in the file
NEVER = {"seconds", "output", "path", "files", "versions", "n_bytes", "format"}  # of what commands tell


# --------------------------------------------------------------------------------------------------------------
# Bags
# --------------------------------------------------------------------------------------------------------------


def spreads(n: int, dims: int = 2, size: int = 20, *, seed: int = 0, **more: Any) -> tuple[de.Bags, np.ndarray]:
    """Bags of unequal sizes and units, whose spread is to be predicted."""
    rng = np.random.default_rng(seed)
    spread, sizes = rng.uniform(0.5, 2, n), rng.integers(max(1, size // 2), size + size // 2 + 1, n)
    shift = rng.normal(0, 0.5, size=(n, dims))
    points = rng.standard_t(6, size=(sizes.sum(), dims)) * np.repeat(spread, sizes)[:, None] + shift.repeat(sizes, 0)
    points *= 10.0 ** np.arange(dims)
    return de.Bags(points, np.append(0, sizes.cumsum()), **more), spread + 0.3 * shift[:, 0]


def shapes(n: int, classes: int = 2, dims: int = 2, size: int = 15, *, seed: int = 0) -> tuple[de.Bags, np.ndarray]:
    """Bags of one, two or three bumps, unequally frequent, and the names of these classes."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(classes, n, p=np.array([0.5, 0.3, 0.2])[:classes] / np.array([0.5, 0.3, 0.2])[:classes].sum())
    sizes = rng.integers(max(1, size // 2), size + size // 2 + 1, n)
    of = np.repeat(kind, sizes)
    points = rng.normal(size=(len(of), dims))
    points[:, 0] = 0.6 * points[:, 0] + 1.1 * (rng.integers(0, 10, len(of)) % (of + 1) - 0.5 * of)
    points[:, -1] += 0.3 * of
    return de.Bags(points, np.append(0, sizes.cumsum())), np.array(["one", "two", "three"])[kind]


def weighted(bags: de.Bags) -> de.Bags:
    """The same bags, with weights of points."""
    weights = np.random.default_rng(7).uniform(0, 2, bags.n_points)
    return de.Bags(bags.points, bags.offsets, weights)


def with_labels(n: int, classes: bool) -> tuple[de.Bags, np.ndarray]:
    """Bags of a column of numbers and one of three labels, and what is to be predicted of them."""
    rng = np.random.default_rng(3)
    y = rng.uniform(0, 1, n)
    code = rng.integers(0, 3, size=(n, 20)) * (rng.uniform(size=(n, 20)) < 0.3 + 0.6 * y[:, None])
    points = np.stack([rng.normal(size=(n, 20)) + y[:, None], code], axis=2).reshape(-1, 2)
    bags = de.Bags(points, np.arange(n + 1) * 20, columns=["age", "kind"], categories={"kind": ["a", "b", "c"]})
    return bags, np.where(y > 0.5, "high", "low") if classes else y


def covariates_of(y: np.ndarray) -> dict[str, Any]:
    """What is known of bags besides their points, with gaps: a number, a text and a truth value."""
    rng, n = np.random.default_rng(5), len(y)
    number = np.unique(y, return_inverse=True)[1]
    age = 0.02 * number + rng.normal(size=n)
    site = np.array(["north", "south", "west"], object)[(number % 3 + rng.integers(0, 2, n)) % 3]
    age[rng.uniform(size=n) < 0.1], site[rng.uniform(size=n) < 0.1] = np.nan, None
    return {"age": age, "site": site, "new": rng.uniform(size=n) < 0.4}


def rows_of(table: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Some rows of covariates."""
    return {name: values[rows] for name, values in table.items()}


def arguments_of(words: Iterable[str], y: np.ndarray) -> dict[str, Any]:
    """Weights, groups and covariates of bags, by the names of arguments of ``fit``."""
    rng = np.random.default_rng(11)
    made: dict[str, Callable[[], Any]] = {
        "sample_weight": lambda: rng.integers(0, 4, len(y)) / 2.0,
        "groups": lambda: rng.integers(0, max(4, len(y) // 4), len(y)),
        "covariates": lambda: covariates_of(y),
    }
    return {word: made[word]() for word in words}


# --------------------------------------------------------------------------------------------------------------
# What is recorded
# --------------------------------------------------------------------------------------------------------------


def numbers(values: Iterable[Any]) -> np.ndarray:
    """Numbers, some of which may be None."""
    return np.array([np.nan if value is None else float(value) for value in values])


def known(model: Any, X: Any, prefix: str = "", **more: Any) -> Found:
    """Predictions of a fitted learner, and what it tells of its choices."""
    found: Found = {}
    for name in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, name):
            found[name] = np.asarray(getattr(model, name)(X, **more))
    if hasattr(model, "classes_"):
        found["classes"] = np.asarray(model.classes_)
    settings = getattr(model, "best_params_", {})
    found["settings"], found["settings names"] = numbers(settings.values()), ", ".join(settings)
    search = getattr(model, "search_", None)
    if search is not None:
        fields = ("bandwidth_scale", "sigma_scale", "alpha", "error", "n_bags")
        found |= {f"trials {name}": numbers(getattr(each, name) for each in search.trials) for name in fields}
        found["trials chosen"] = numbers(getattr(search.best, name) for name in fields)
        found["trials bags"] = numbers([search.n_bags, search.n_held_out])
        found["trials gain"] = float(search.gain)
    board = getattr(model, "leaderboard_", None)
    if board is not None:
        columns = ("score", "standard_error", "weight")
        found |= {f"leaderboard {name}": numbers(row[name] for row in board) for name in columns}
        found["leaderboard names"] = "; ".join(str(row["name"]) for row in board)
        found["scoring"] = str(model.scoring_)
    if hasattr(model, "n_batches_seen_"):
        found["batches"] = int(model.n_batches_seen_)
    return {prefix + name: value for name, value in found.items()}


def explained(model: Any, X: Any, prefix: str = "explain ", **more: Any) -> Found:
    """What the learner says of points and places."""
    found = model.explain(X, **more)
    return {f"{prefix}{name}": getattr(found, name) for name in ("points", "map", "density", "predictions")}


def flat(found: dict[str, Any], prefix: str = "") -> Found:
    """The JSON object of a command: numbers of each field as an array, and the field with dots in their place."""
    made: Found = {}
    for name in sorted(found.keys() - NEVER):
        seen: list[float] = []
        made[f"{prefix}{name} text"] = json.dumps(_without_numbers(found[name], seen), sort_keys=True)
        if seen:
            made[f"{prefix}{name}"] = np.array(seen)
    return made


def _without_numbers(value: Any, seen: list[float]) -> Any:
    if isinstance(value, dict):
        return {name: _without_numbers(value[name], seen) for name in sorted(value.keys() - NEVER)}
    if isinstance(value, list):
        return [_without_numbers(each, seen) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        seen.append(float(value))
        return "."
    return value


def said(function: Callable[[], Any]) -> str:
    """The error that a function raises, or that it raises none."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing is raised"


# --------------------------------------------------------------------------------------------------------------
# Ways to a configuration
# --------------------------------------------------------------------------------------------------------------


def configuration(name: str) -> Callable[[Configuration], Configuration]:
    """Put a function into the table: a decorator."""

    def put(function: Configuration) -> Configuration:
        if name in CONFIGURATIONS:
            raise ValueError(f"there is a configuration {name!r} already")
        CONFIGURATIONS[name] = function
        return function

    return put


def regressor(embedding: Any = "js", **settings: Any) -> de.DistributionRegressor:
    """An unfitted learner of numbers, small and seeded."""
    usual = {} if embedding == "auto" else {"n_components": 150}
    return de.DistributionRegressor(embedding, **usual | {"random_state": 0} | settings)


def classifier(embedding: Any = "js", **settings: Any) -> de.DistributionClassifier:
    """An unfitted learner of classes, small and seeded."""
    usual = {} if embedding == "auto" else {"n_components": 150}
    return de.DistributionClassifier(embedding, **usual | {"random_state": 0} | settings)


def fitted(learner: Any, X: Any, y: Any, words: Iterable[str] = ()) -> Found:
    """Fit to all bags but the last, which are predicted; words name further arguments of ``fit``."""
    X = X if isinstance(X, de.Bags) else de.as_bags(X)
    given = arguments_of(words, y)
    some = {name: rows_of(v, slice(-NEW)) if name == "covariates" else v[:-NEW] for name, v in given.items()}
    model = learner.fit(X[:-NEW], y[:-NEW], **some)
    beside = {"covariates": rows_of(given["covariates"], slice(-NEW, None))} if "covariates" in given else {}
    return known(model, X[-NEW:], **beside)


def regress(embedding: Any = "js", *words: str, n: int = 80, dims: int = 2, size: int = 20, **settings: Any) -> Found:
    """Fit a learner of numbers."""
    return fitted(regressor(embedding, **settings), *spreads(n + NEW, dims, size), words)


def classify(
    embedding: Any = "js", *words: str, n: int = 80, classes: int = 2, dims: int = 2, size: int = 15, **settings: Any
) -> Found:
    """Fit a learner of classes."""
    return fitted(classifier(embedding, **settings), *shapes(n + NEW, classes, dims, size), words)


def outputs(embedding: Any, **settings: Any) -> Found:
    """Fit a learner of two numbers."""
    X, y = spreads(80 + NEW)
    return fitted(regressor(embedding, **settings), X, np.stack([y, np.cos(3 * y)], axis=1))


def batches_of(X: de.Bags, y: np.ndarray, n: int, *more: np.ndarray) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """What ``fit_batches`` takes: bags, targets, and maybe weights and groups, in n batches of unequal sizes."""
    ends = np.linspace(0, 1, n + 1) ** 0.8 * len(y)

    def make() -> Iterator[tuple[Any, ...]]:
        for start, stop in zip(ends[:-1].astype(int), ends[1:].astype(int), strict=True):
            yield (X[start:stop], y[start:stop], *(each[start:stop] for each in more))

    return make


def in_batches(learner: Any, X: de.Bags, y: np.ndarray, n: int = 4, *more: np.ndarray) -> Found:
    """Fit to batches."""
    model = learner.fit_batches(batches_of(X[:-NEW], y[:-NEW], n, *more))
    return known(model, X[-NEW:])


def as_they_come(learner: Any, X: de.Bags, y: np.ndarray, n: int = 3) -> Found:
    """Add batches one after another, and predict after the first and the last."""
    found: Found = {}
    for k, batch in enumerate(batches_of(X[:-NEW], y[:-NEW], n)()):
        learner.partial_fit(
            *batch, **({"classes": np.unique(y)} if k == 0 and hasattr(learner, "class_weight") else {})
        )
        if k in (0, n - 1):
            found |= known(learner, X[-NEW:], f"after {k + 1} ")
    return found


def through_file(model: Any, updatable: bool = False) -> Any:
    """The model, saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.distembed"
        de.save(model, path, updatable=updatable)
        return de.load(path)


# --------------------------------------------------------------------------------------------------------------
# Ensembles; those that take longest come first
# --------------------------------------------------------------------------------------------------------------

A, R, C = functools.partial, regress, classify

CONFIGURATIONS |= {
    "auto regressor, 2,050 bags": A(R, "auto", n=2050, size=3),
    "auto classifier, 2,050 bags": A(C, "auto", n=2050, size=3),
    "auto classifier, 3 columns, three classes": A(C, "auto", dims=3, classes=3, n=110),
    "auto classifier, 1 column": A(C, "auto", dims=1, n=60),
    "auto classifier, 8 columns": A(C, "auto", dims=8, n=50),
    "auto classifier, balanced": A(C, "auto", class_weight="balanced", n=50),
    "auto classifier, weights and groups": A(C, "auto", "sample_weight", "groups", n=60),
    "auto classifier, covariates": A(C, "auto", "covariates", n=40),
    "auto classifier, two threads": A(C, "auto", n=45, n_jobs=2),
    "auto classifier, categories": lambda: fitted(classifier("auto"), *with_labels(40 + NEW, True)),
    "auto regressor, 1 column": A(R, "auto", dims=1, n=60),
    "auto regressor, 3 columns": A(R, "auto", dims=3, n=60),
    "auto regressor, 8 columns": A(R, "auto", dims=8, n=60),
    "auto regressor, 45 columns": A(R, "auto", dims=45, n=40),
    "auto regressor, 300 bags": A(R, "auto", n=300, size=60),
    "auto regressor, two outputs": A(outputs, "auto"),
    "auto regressor, weights": A(R, "auto", "sample_weight"),
    "auto regressor, groups": A(R, "auto", "groups"),
    "auto regressor, covariates": A(R, "auto", "covariates", n=50),
    "auto regressor, all of these": A(R, "auto", "sample_weight", "groups", "covariates", n=50),
    "auto regressor, categories": lambda: fitted(regressor("auto"), *with_labels(50 + NEW, False)),
}


@configuration("auto regressor, weights of points, float32")
def _() -> Found:
    X, y = spreads(60 + NEW)
    return fitted(regressor("auto"), weighted(X).astype(np.float32), y)


@configuration("auto regressor, refit, saved and loaded")
def _() -> Found:
    X, y = spreads(100 + NEW)
    model = regressor("auto").fit(X[:50], y[:50])
    found = known(model, X[-NEW:]) | known(through_file(model), X[-NEW:], "loaded ")
    return found | known(model.refit(X[:100], 2 * y[:100], np.arange(100.0)), X[-NEW:], "refit ")


@configuration("auto classifier, refit, saved and loaded")
def _() -> Found:
    X, y = shapes(80 + NEW, 3)
    model = classifier("auto").fit(X[:50], y[:50])
    found = known(model, X[-NEW:]) | known(through_file(model), X[-NEW:], "loaded ")
    return found | known(model.refit(X[:80], y[:80]), X[-NEW:], "refit ")


@configuration("auto regressor, batches")
def _() -> Found:
    X, y = spreads(120 + NEW)
    found = in_batches(regressor("auto", max_search_bags=60), X, y)
    weight = np.random.default_rng(0).uniform(size=120)
    return found | {f"weighted {k}": v for k, v in in_batches(regressor("auto"), X, y, 2, weight).items()}


@configuration("auto classifier, batches")
def _() -> Found:
    return in_batches(classifier("auto", max_search_bags=60), *shapes(120 + NEW, 3))


@configuration("auto regressor, partial_fit")
def _() -> Found:
    return as_they_come(regressor("auto"), *spreads(120 + NEW))


@configuration("auto classifier, partial_fit")
def _() -> Found:
    model = classifier("auto", class_weight="balanced")
    found = as_they_come(model, *shapes(120 + NEW))
    X, y = shapes(40, seed=9)
    loaded = through_file(model, updatable=True).partial_fit(X[:30], y[:30])
    return found | known(loaded, X[30:], "loaded and added ")


CONFIGURATIONS |= {
    "covariates beside js, 3,100 bags": A(R, "js", "covariates", n=3100, size=3),
    "covariates beside mean, classes, 2,100 bags": A(C, "mean", "covariates", n=2100, size=3),
    "covariates beside mmd": A(R, "mmd", "covariates", "sample_weight"),
    "covariates beside js, classes": A(C, "js", "covariates", "groups", classes=3),
}


@configuration("covariates, refit, saved and loaded")
def _() -> Found:
    X, y = spreads(80 + NEW)
    beside = covariates_of(y)
    new = rows_of(beside, slice(80, None))
    model = regressor("hellinger").fit(X[:50], y[:50], covariates=rows_of(beside, slice(50)))
    found = known(through_file(model), X[80:], covariates=new)
    model.refit(X[:80], y[:80], covariates=rows_of(beside, slice(80)))
    return found | known(model, X[80:], "refit ", covariates=new)


# --------------------------------------------------------------------------------------------------------------
# Numbers, by one embedding
# --------------------------------------------------------------------------------------------------------------

CONFIGURATIONS |= {f"regressor {name}": A(R, name, n_components=120) for name in de.embeddings.available()}
CONFIGURATIONS |= {
    "regressor, no search": A(R, tune=None),
    "regressor, no search, given scales": A(
        R, "mmd", tune=None, bandwidth_scales=[1.41], sigma_scales=[0.5], alphas=[0.01]
    ),
    "regressor, holdout": A(R, "hellinger", tune="holdout", n=250),
    "regressor, holdout, few bags": A(R, tune="holdout", n=60),
    "regressor, five folds": A(R, "tv", tune=5),
    "regressor, linear": A(R, n_components=None),
    "regressor, linear, more bags than features": A(R, "covariance", n_components=None, n=120),
    "regressor, exact": A(R, n_components="exact"),
    "regressor, exact, no search": A(R, "mean", n_components="exact", tune=None),
    "regressor, exhaustive": A(R, "mmd", exhaustive=True, n=60),
    "regressor, 5,000 components": A(R, "js", n_components=5000),
    "regressor, primal": A(R, "js", n_components=100, n=400),
    "regressor, rounds of the search": A(R, "deviation", n=1000, size=4, n_components=200),
    "regressor, max_search_bags": A(R, "deviation", n=150, max_search_bags=60),
    "regressor, groups": A(R, "js", "groups"),
    "regressor, weights": A(R, "l2", "sample_weight"),
    "regressor, weights and groups": A(R, "histogram-js", "sample_weight", "groups", n=120, tune="holdout"),
    "regressor, two outputs": A(outputs, "js"),
    "regressor, two outputs, linear": A(outputs, "statistics", n_components=None),
    "regressor, categories": lambda: fitted(regressor("js"), *with_labels(60 + NEW, False)),
    "regressor, categories, standardized": lambda: fitted(regressor("mmd"), *with_labels(60 + NEW, False)),
    "regressor, few bags": A(R, n=4),
    "regressor, 1 column": A(R, "tv", dims=1),
    "regressor, 3 columns": A(R, "chi2", dims=3, n=50),
    "regressor, reflections": A(R, symmetries="reflections"),
    "regressor, dihedral, exact": lambda: regress(
        "hellinger", symmetries="dihedral", scale=de.UnitCube((-20, 20)), n_components="exact", n=50
    ),
    "regressor, symmetries by functions": A(R, "mmd", symmetries=[lambda points: points * [-1, 1]]),
    "regressor, two threads": A(R, n_jobs=2, n=150),
    "regressor, no scaling": A(R, "mean", scale=None),
    "regressor, ranks": lambda: regress("js", scale=de.UnitCube(map="rank")),
    "regressor, Marginals": lambda: regress(de.Marginals(de.HDDEmbedding("hellinger", n_basis=8)), dims=5),
    "regressor, Marginals in directions": lambda: regress(
        de.Marginals(de.HDDEmbedding("js", n_basis=8), 6), dims=4
    ),
}  # fmt: skip


def views(weights: Any = "search", **more: Any) -> de.Views:
    """Two densities and means."""
    made = {"both": de.HDDEmbedding("js", n_basis=6), "mean": de.MomentEmbedding("mean"), "rest": de.MeanEmbedding(60)}
    return de.Views(made, weights=weights, **more)


def of_views(model: str) -> Found:
    """Fit a learner of classes to these."""
    return classify(views(), model=model, n=60)


CONFIGURATIONS |= {
    "regressor, Views": lambda: regress(views()),
    "regressor, Views of given weights": lambda: regress(views((1, 2, 0.5)), n=60),
    "regressor, Views, exact": lambda: regress(views(), n_components="exact", n=50),
    "regressor, Views, linear": lambda: regress(views(), n_components=None, n=50),
    "regressor, Views, no search": lambda: regress(views(sigma_scales=(1, 2, 1)), tune=None),
}


@configuration("regressor, float32 and weights of points")
def _() -> Found:
    X, y = spreads(80 + NEW)
    found = fitted(regressor("js"), X.astype(np.float32), y)
    return found | {f"weighted {name}": value for name, value in fitted(regressor("mmd"), weighted(X), y).items()}


@configuration("regressor, refit, deviations, features")
def _() -> Found:
    X, y = spreads(150 + NEW)
    found: Found = {}
    for name, D in (("dual", 200), ("primal", 60), ("linear", None)):
        model = regressor("hellinger", n_components=D).fit(X[:80], y[:80])
        found |= known(model, X[150:], f"{name} ")
        found[f"{name} deviations"] = model.predict(X[150:], return_std=True)[1]
        found[f"{name} features"] = model.transform_features(X[150:])
        model.refit(X[:150], -y[:150], np.arange(150) % 3)
        found |= known(model, X[150:], f"{name} refit ")
        found[f"{name} refit deviations"] = model.predict(X[150:], return_std=True)[1]
    return found


@configuration("regressor, explained")
def _() -> Found:
    X, y = spreads(60 + NEW)
    found = explained(regressor("js").fit(X[:60], y[:60]), X[60:])
    for name, settings in (("exact", {"n_components": "exact"}), ("linear", {"n_components": None}), ("l2", {})):
        model = regressor("l2" if name == "l2" else "hellinger", tune=None, **settings).fit(X[:60], y[:60])
        found |= explained(model, X[60:65], f"{name} ")
    both = regressor("js", tune=None).fit(X[:60], np.stack([y, -(y**2)], axis=1)[:60])
    found |= explained(both, X[60:65], "second ", output=1)
    seen = view_contributions(regressor(views(), n_components=90).fit(X[:60], y[:60]), X[60:])
    return found | {"views text": repr(seen)}


@configuration("regressor, batches")
def _() -> Found:
    X, y = spreads(200 + NEW)
    found: Found = {}
    rng = np.random.default_rng(2)
    weight, groups = rng.integers(0, 3, 200) / 2, rng.integers(0, 40, 200)
    for name, learner, more in (
        ("searched", regressor("js", max_search_bags=80), ()),
        ("first", regressor("mmd", tune=None, max_search_bags=50), ()),
        ("linear", regressor("covariance", n_components=None), (weight,)),
        ("grouped", regressor("tv", tune="holdout"), (weight, groups)),
        ("Views", regressor(views(), max_search_bags=60), ()),
    ):
        found |= {f"{name} {key}": value for key, value in in_batches(learner, X, y, 4, *more).items()}
    both = in_batches(regressor("mean", tune=None), X, np.stack([y, y**2], axis=1))
    return found | {f"two outputs {key}": value for key, value in both.items()}


@configuration("regressor, partial_fit")
def _() -> Found:
    X, y = spreads(150 + NEW)
    found = as_they_come(regressor("js"), X, y)
    model = regressor("hellinger").fit(X[:80], y[:80])
    found |= known(model.partial_fit(X[80:110], y[80:110], np.arange(30) / 9), X[150:], "after fit ")
    return found | known(model.partial_fit(X[110:150], y[110:150]), X[150:], "and more ")


@configuration("regressor, checkpoints")
def _() -> Found:
    X, y = spreads(120 + NEW)
    make = batches_of(X[:120], y[:120], 5)
    passes = iter(range(9))

    def stopped() -> Iterator[Any]:
        is_second = next(passes) > 0
        for k, batch in enumerate(make()):
            if is_second and k == 3:
                raise RuntimeError("stopped")
            yield batch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.partial"
        why = said(lambda: regressor("js").fit_batches(stopped, checkpoint=path))
        found = {"why": why, "kept": str(path.exists())}
        found |= known(regressor("js").fit_batches(make, checkpoint=path), X[120:], "resumed ")
        found["kept at the end"] = str(path.exists())
        first = batches_of(X[:50], y[:50], 2)
        model = regressor("mmd", tune=None).fit_batches(first, checkpoint=path, keep_checkpoint=True)
        found |= known(model, X[120:], "begun ")

        def more(start: int = 0) -> Iterator[Any]:
            return iter([*first(), (X[50:120], y[50:120])][start:])

        return found | known(regressor("mmd", tune=None).fit_batches(more, checkpoint=path), X[120:], "gone on ")


@configuration("regressor, saved and loaded")
def _() -> Found:
    X, y = spreads(110 + NEW)
    found: Found = {}
    for name, embedding, D in (("js", "js", 150), ("exact", "mmd", "exact"), ("linear", "fisher", None)):
        model = regressor(embedding, n_components=D).fit(X[:80], y[:80])
        found |= known(through_file(model), X[110:], f"{name} ")
    loaded = through_file(regressor("js").fit(X[:80], y[:80]), updatable=True)
    found["deviations"] = loaded.predict(X[110:], return_std=True)[1]
    found |= known(loaded.partial_fit(X[80:110], y[80:110]), X[110:], "added ")
    slim = through_file(regressor(views(), tune=None).fit(X[:80], y[:80]))
    return found | known(slim, X[110:], "Views ")


# --------------------------------------------------------------------------------------------------------------
# Classes, by one embedding
# --------------------------------------------------------------------------------------------------------------

for _model in ("ridge", "logistic", "svm"):
    CONFIGURATIONS |= {
        f"classifier {_model}, two classes": A(C, model=_model),
        f"classifier {_model}, three classes": A(C, "mmd", model=_model, classes=3, n=110),
        f"classifier {_model}, balanced": A(C, model=_model, class_weight="balanced"),
        f"classifier {_model}, weights and groups": A(C, "js", "sample_weight", "groups", model=_model, n=110),
        f"classifier {_model}, no search": A(C, "hellinger", model=_model, tune=None, classes=3),
        f"classifier {_model}, linear": A(C, model=_model, n_components=None, n=60),
        f"classifier {_model}, linear, more bags than features": A(C, "mean", model=_model, n_components=None),
        f"classifier {_model}, exact": A(C, model=_model, n_components="exact", n=60),
        f"classifier {_model}, reflections": A(C, model=_model, symmetries="reflections", n=60),
        f"classifier {_model}, Views": A(of_views, _model),
    }
CONFIGURATIONS |= {
    "classifier, weights of classes": A(C, "statistics", class_weight={"one": 1, "two": 3}),
    "classifier, holdout": A(C, "js", tune="holdout", n=250),
    "classifier, primal": A(C, "mean", n_components=60, n=1300, size=2, classes=3),
    "classifier, Cs and alphas": A(C, model="logistic", Cs=[1.0], alphas=[0.1, 1.0]),
    "classifier, categories": lambda: fitted(classifier("js"), *with_labels(60 + NEW, True)),
}


@configuration("classifier, truth values and integers")
def _() -> Found:
    X, y = shapes(60 + NEW, 3)
    found = fitted(classifier("covariance"), X, y == "one")
    codes = np.unique(y, return_inverse=True)[1] * 10
    return found | {f"integers {k}": v for k, v in fitted(classifier("covariance", model="svm"), X, codes).items()}


@configuration("classifier, refit, partial_fit, explained")
def _() -> Found:
    X, y = shapes(120 + NEW, 3)
    found: Found = {}
    for kind in ("ridge", "logistic", "svm"):
        model = classifier("js", model=kind).fit(X[:80], y[:80])
        found |= explained(model, X[120:125], f"{kind} explain ", output="two")
        found[f"{kind} features"] = model.transform_features(X[120:])
        found |= known(model.refit(X[:120], y[:120], np.arange(120) % 4 + 1), X[120:], f"{kind} refit ")
    model = classifier("hellinger", class_weight="balanced").fit(X[:80], y[:80])
    found |= known(model.partial_fit(X[80:120], y[80:120]), X[120:], "added ")
    return found | {f"partial_fit {k}": v for k, v in as_they_come(classifier("js"), X, y).items()}


@configuration("classifier, batches")
def _() -> Found:
    X, y = shapes(200 + NEW, 3)
    found = in_batches(classifier("js", max_search_bags=90), X, y)
    model = classifier("mmd", tune=None, max_search_bags=50, class_weight="balanced")
    model.fit_batches(batches_of(X[:200], y[:200], 3), classes=np.unique(y))
    return found | known(model, X[200:], "first ")


@configuration("classifier, batches of which calibration keeps some")
def _() -> Found:
    X, y = shapes(2600 + NEW, 3, size=2)
    rng = np.random.default_rng(4)
    weight, groups = rng.integers(0, 4, 2600) / 2, rng.integers(0, 900, 2600)
    found: Found = {}
    for name, more in (("plain", ()), ("weighted", (weight,)), ("grouped", (weight, groups))):
        learner = classifier("mean", n_components=80, max_search_bags=200)
        found |= {f"{name} {k}": v for k, v in in_batches(learner, X, y, 5, *more).items()}
        loaded = through_file(learner, updatable=True).partial_fit(X[:300], y[:300])
        found |= known(loaded, X[-NEW:], f"{name} loaded and added ")
    return found


@configuration("classifier, saved and loaded")
def _() -> Found:
    X, y = shapes(110 + NEW, 3)
    found: Found = {}
    for kind in ("ridge", "logistic", "svm"):
        model = classifier("js", model=kind).fit(X[:80], y[:80])
        found |= known(through_file(model), X[110:], f"{kind} ")
    loaded = through_file(classifier("tv").fit(X[:80], y[:80]), updatable=True)
    return found | known(loaded.partial_fit(X[80:110], y[80:110]), X[110:], "added ")


@configuration("refused")
def _() -> Found:
    X, y = spreads(60)
    codes = np.where(y > 1, "wide", "narrow")
    auto = regressor("auto").fit(X, y)
    svm = classifier("mean", model="svm", tune=None).fit(X, codes)
    beside = regressor("mean").fit(X, y, covariates={"y": y})
    return {
        "auto, more bags": said(lambda: auto.partial_fit(X, y)),
        "auto, deviations": said(lambda: auto.predict(X, return_std=True)),
        "auto, five bags": said(lambda: regressor("auto").fit(X[:5], y[:5])),
        "svm, batches": said(lambda: classifier("mean", model="svm").fit_batches(batches_of(X, codes, 2))),
        "svm, no probabilities": said(lambda: svm.predict_proba(X)),
        "svm, refit": said(lambda: svm.refit(X[:5], np.repeat("wide", 5))),
        "exact, batches": said(lambda: regressor("mean", n_components="exact").partial_fit(X, y)),
        "covariates, none": said(lambda: beside.predict(X)),
        "covariates, not asked for": said(lambda: auto.predict(X, covariates={"y": y})),
        "one class": said(lambda: classifier("mean").fit(X, codes[:1].repeat(60))),
        "a class of one bag": said(lambda: classifier("mean").fit(X, np.arange(60) == 0)),
        "another class": said(lambda: classifier("mean").fit(X, codes).partial_fit(X, codes == "wide")),
        "no embedding": said(lambda: regressor("jss").fit(X, y)),
        "tune": said(lambda: regressor("js", tune="some").fit(X, y)),
        "n_components": said(lambda: regressor("js", n_components=0).fit(X, y)),
        "weights": said(lambda: regressor("js").fit(X, y, sample_weight=-y)),
        "width": said(lambda: auto.predict(spreads(5, 3)[0])),
    }


# --------------------------------------------------------------------------------------------------------------
# Around learners
# --------------------------------------------------------------------------------------------------------------


@configuration("ConformalRegressor")
def _() -> Found:
    X, y = spreads(120 + NEW)
    found: Found = {}
    for name, method, words in (
        ("absolute", "absolute", ()),
        ("normalised", "normalised", ("sample_weight",)),
        ("grouped", "absolute", ("groups",)),
    ):
        model = de.ConformalRegressor(regressor("js"), coverage=0.8, method=method, random_state=0)
        model.fit(X[:120], y[:120], **arguments_of(words, y[:120]))
        found |= known(model.estimator_, X[120:], f"{name} ")
        found |= {f"{name} {key}": getattr(model, key) for key in ("scores_", "calibration_indices_")}
        found[f"{name} intervals"] = model.predict_interval(X[120:])
        found[f"{name} loaded"] = through_file(model).predict_interval(X[120:], coverage=0.6)
    return found


@configuration("ConformalClassifier")
def _() -> Found:
    X, y = shapes(120 + NEW, 3)
    found: Found = {}
    for name, kind, method, words in (
        ("lac", "ridge", "lac", ()),
        ("aps", "logistic", "aps", ("sample_weight",)),
        ("svm", "svm", "aps", ("groups",)),
    ):
        model = de.ConformalClassifier(classifier("js", model=kind), coverage=0.8, method=method, random_state=0)
        model.fit(X[:120], y[:120], **arguments_of(words, y[:120]))
        found |= known(model.estimator_, X[120:], f"{name} ")
        found |= {f"{name} {key}": getattr(model, key) for key in ("scores_", "calibration_indices_")}
        found[f"{name} sets"] = model.predict_set(X[120:])
        found[f"{name} loaded"] = through_file(model).predict_set(X[120:], coverage=0.6)
    return found


@configuration("permutation importance")
def _() -> Found:
    X, y = spreads(80 + NEW, 3)
    found: Found = {}
    for name, embedding, n in (("js", "js", 80), ("auto", "auto", 40)):
        model = regressor(embedding).fit(X[:n], y[:n])
        made = de.learners.permutation_importance(model, X[80:], y[80:], n_repeats=2, random_state=0)
        found |= {f"{name} {key}": made[key] for key in ("importances", "importances_mean")}
    return found


@configuration("sketches of a learner")
def _() -> Found:
    X, y = spreads(60 + NEW)
    model = regressor("js", tune=None).fit(X[:60], y[:60])
    one, two = de.SketchedBags(model).add(X[60:]), de.SketchedBags(model).add(X[60:70])
    return {"rows": one.rows(), "merged": one.merge(two).rows()}


@configuration("KernelSmoother")
def _() -> Found:
    X, y = spreads(60 + NEW)
    X = de.UnitCube(map="auto").fit(X).transform(X)
    found: Found = {}
    for divergence in ("js", "hellinger", "mmd"):
        model = de.KernelSmoother(divergence, random_state=0).fit(X[:60], y[:60])
        mean, deviation = model.predict(X[60:], return_std=True)
        found |= {f"{divergence} mean": mean, f"{divergence} deviation": deviation}
    return found


# --------------------------------------------------------------------------------------------------------------
# Clusters
# --------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cluster_and_table(X: de.Bags) -> Iterator[tuple[Any, Any, Path]]:
    """A cluster of threads, a table of bags in pieces that cut bags, and a folder."""
    import pyarrow
    from distributed import Client
    from pyarrow import parquet

    for name in ("distributed", "asyncio"):  # which tell of how clusters close
        logging.getLogger(name).setLevel(logging.CRITICAL)
    columns = {"id": np.repeat(np.arange(X.n_bags), X.sizes), "x": X.points[:, 0], "y": X.points[:, 1]}
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client,
    ):
        parquet.write_table(pyarrow.table(columns), f"{folder}/points.parquet", row_group_size=97)
        table = de.cluster.open(f"{folder}/points.parquet", bag="id", columns=["x", "y"], partition_rows=300)
        yield client, table, Path(folder)


def by_cluster(learner: Any, X: de.Bags, y: np.ndarray, **more: Any) -> Found:
    """Fit by a cluster, and let it predict."""
    from pyarrow import parquet

    with cluster_and_table(X) as (client, table, folder):
        labels = dict(enumerate(y[:-NEW].tolist()))
        model = de.cluster.fit(learner, table, labels, client=client, missing="drop", **more)
        files = de.cluster.predict(model, table, folder / "predictions", client=client)
        made = [parquet.read_table(file).to_pydict() for file in sorted(files)]
    columns = {name: np.concatenate([part[name] for part in made]) for name in made[0]}
    order = np.argsort(columns["id"])
    return known(model, X[-NEW:]) | {f"written {name}": values[order] for name, values in columns.items()}


@configuration("cluster, regressor")
def _() -> Found:
    return by_cluster(regressor("js", max_search_bags=60), *spreads(90 + NEW))


@configuration("cluster, regressor, groups, no search")
def _() -> Found:
    X, y = spreads(90 + NEW)
    found = by_cluster(regressor("mmd", tune=None), X, y)
    groups = {i: i // 5 for i in range(len(y))}
    more = by_cluster(regressor("covariance", n_components=None), X, y, groups=groups)
    return found | {f"grouped {name}": value for name, value in more.items()}


@configuration("cluster, classifier")
def _() -> Found:
    return by_cluster(classifier("js", max_search_bags=60), *shapes(90 + NEW, 3))


@configuration("cluster, auto regressor")
def _() -> Found:
    return by_cluster(regressor("auto", max_search_bags=50), *spreads(70 + NEW))


@configuration("cluster, auto classifier")
def _() -> Found:
    return by_cluster(classifier("auto", max_search_bags=30), *shapes(60 + NEW))


# --------------------------------------------------------------------------------------------------------------
# The command line
# --------------------------------------------------------------------------------------------------------------


def command(*words: Any) -> Found:
    """The JSON object of a command, without paths and seconds."""
    from distembed.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([*map(str, words), "--json", "--quiet"])
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{words[0]} ends with {end.code}: {err.getvalue().strip()}") from None
    found = json.loads(out.getvalue())
    return flat(found, f"{words[0]} ")


def by_commands(X: de.Bags, y: np.ndarray, *words: str, predicting: tuple[str, ...] = ()) -> Found:
    """Fit, predict, evaluate and info of a table on the spot; labels lack some bags, which are predicted only."""
    from distembed.tables import write_table

    names, before = np.array([f"bag {i:03d}" for i in range(len(y))]), Path.cwd()
    beside, columns = covariates_of(y), [f"x{j}" for j in range(X.n_dims)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)  # so that paths are short, and the same
            points = {name: X.points[:, j] for j, name in enumerate(columns)}
            order = np.random.default_rng(1).permutation(X.n_points)
            table = {"bag": np.repeat(names, X.sizes), **points}
            write_table({name: values[order] for name, values in table.items()}, "points.csv")
            site = np.array([str(each) for each in beside["site"]])
            every = {"bag": names, "y": y, "age": np.nan_to_num(beside["age"]), "site": site}
            every["group"] = np.arange(len(y)) // 3
            write_table(every, "all.csv")
            write_table({name: values[:-NEW] for name, values in every.items()}, "labels.csv")
            labels = ["--labels", "labels.csv", "--label", "y"]
            found = command("fit", "points.csv", "--bag", "bag", *labels, "--missing", "drop", "-o", "m.model", *words)
            found |= command("predict", "m.model", "points.csv", *predicting)
            command("predict", "m.model", "points.csv", "-o", "made.csv", *predicting)
            found |= command("evaluate", "made.csv", "--labels", "all.csv", "--label", "y")
            return found | command("info", "m.model")
        finally:
            os.chdir(before)


@configuration("command line, numbers")
def _() -> Found:
    words = ("--embedding", "js", "--components", "150", "--updatable", "--groups", "group")
    return by_commands(*spreads(80 + NEW), *words, predicting=("--std",))


@configuration("command line, numbers, intervals")
def _() -> Found:
    return by_commands(*spreads(80 + NEW), "--embedding", "mmd", "--components", "0", "--coverage", "0.8")


@configuration("command line, classes")
def _() -> Found:
    words = ("--embedding", "hellinger", "--components", "150", "--model", "svm", "--class-weight", "balanced")
    return by_commands(*shapes(80 + NEW, 3), *words)


@configuration("command line, classes, sets")
def _() -> Found:
    return by_commands(*shapes(80 + NEW, 3), "--embedding", "mean", "--components", "150", "--coverage", "0.8")


@configuration("command line, auto, covariates")
def _() -> Found:
    words = ("--covariates", "age,site")
    return by_commands(*spreads(50 + NEW), *words, predicting=("--covariates-from", "all.csv"))


@configuration("command line, auto, classes")
def _() -> Found:
    return by_commands(*shapes(50 + NEW))


@configuration("command line, out of core")
def _() -> Found:
    found = by_commands(*spreads(80 + NEW), "--embedding", "js", "--components", "150", "--out-of-core")
    words = ("--embedding", "mmd", "--components", "150", "--out-of-core", "--tune", "none")
    return found | {f"classes {name}": value for name, value in by_commands(*shapes(80 + NEW, 3), *words).items()}


# --------------------------------------------------------------------------------------------------------------
# Record and compare
# --------------------------------------------------------------------------------------------------------------


def run(name: str) -> tuple[dict[str, np.ndarray], float]:
    """What a configuration gives, as arrays, and seconds; an error is its text."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    try:
        found = CONFIGURATIONS[name]()
    except Exception as error:
        found = {ERROR: f"{type(error).__name__}: {error}"}
    return {key: np.asarray(value) for key, value in found.items()}, time.perf_counter() - start


def results(names: list[str], jobs: int) -> Iterator[tuple[str, dict[str, np.ndarray], float]]:
    """What configurations give, in their order, from processes of their own."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # of the processes: this one has imported NumPy already
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, (found, seconds) in zip(names, pool.map(run, names), strict=True):
            yield name, found, seconds


def difference(old: np.ndarray, new: np.ndarray) -> str:
    """How an array differs from what it was, in a few words; nothing if it is the same bit for bit."""
    if old.dtype == new.dtype and old.shape == new.shape and old.tobytes() == new.tobytes():
        return ""
    if old.dtype.kind == new.dtype.kind == "U":
        if old.shape != new.shape:
            return f"shape {old.shape} -> {new.shape}"
        differs = old != new
        if not old.shape:
            return "text: {} -> {}".format(*_apart(str(old), str(new)))
        at = np.flatnonzero(differs.ravel())
        if not len(at):
            return f"{old.dtype} -> {new.dtype}"
        return f"text: {old.flat[at[0]]} -> {new.flat[at[0]]}, {len(at)} of {old.size}"
    if old.shape != new.shape:
        return f"shape {old.shape} -> {new.shape}"
    kind = f"{old.dtype} -> {new.dtype}, " if old.dtype != new.dtype else ""
    if "U" in (old.dtype.kind, new.dtype.kind):
        return kind.rstrip(", ")
    a, b = old.astype(float), new.astype(float)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    if equal.all():
        return f"{kind}0"
    finite = np.isfinite(a)
    spread = float(np.ptp(a[finite])) if finite.any() else 0.0
    spread = spread or float(np.abs(a[finite]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        off = np.nan_to_num(np.abs(a - b)[~equal], nan=np.inf, posinf=np.inf)
    return f"{kind}{off.max() / spread:.1e}"


def _apart(old: str, new: str, around: int = 20, most: int = 80) -> tuple[str, str]:
    """Two texts from a little before the place where they part."""
    parts = next(
        (i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    start = max(0, parts - around)
    shown = [("..." if start else "") + text[start : start + most] for text in (old, new)]
    return shown[0], shown[1]


def verdict(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> str:
    """One line on a configuration: ``same``, or what differs."""
    if ERROR in new and ERROR not in old:
        return f"raises {new[ERROR]}"
    if ERROR in old and ERROR not in new:
        return f"raised {old[ERROR]}, and raises nothing now"
    differing = {key: difference(old[key], new[key]) for key in old if key in new}
    parts = [f"{key} {how}" for key, how in differing.items() if how]
    parts += [f"{key} gone" for key in old if key not in new] + [f"{key} new" for key in new if key not in old]
    return "; ".join(parts) or "same"


def chosen(names: Iterable[str], pattern: str | None) -> list[str]:
    """Names that match a pattern or contain it."""
    if pattern is None:
        return list(names)
    return [name for name in names if fnmatch.fnmatchcase(name, pattern) or pattern in name]


def record(path: Path, pattern: str | None, jobs: int) -> int:
    """Write what all configurations give."""
    names, arrays, n_errors = chosen(CONFIGURATIONS, pattern), {}, 0
    for name, found, seconds in results(names, jobs):
        raised = f", raises {found[ERROR]}" if ERROR in found else ""
        n_errors += bool(raised)
        print(f"{name}: {len(found)} recorded in {seconds:.1f} s{raised}", flush=True)
        arrays |= {f"{name}{BETWEEN}{key}": value for key, value in found.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    print(f"{len(names)} configurations, {len(arrays)} arrays, {n_errors} errors: {path}")
    return 0


def compare(path: Path, pattern: str | None, jobs: int) -> int:
    """Tell what all configurations give beside what they gave."""
    old: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path, allow_pickle=False) as file:
        for full in file.files:
            name, _, key = full.partition(BETWEEN)
            old.setdefault(name, {})[key] = file[full]
    names, n_same = chosen(CONFIGURATIONS, pattern), 0
    for name, found, _seconds in results([name for name in names if name in old], jobs):
        told = verdict(old[name], found)
        n_same += told == "same"
        print(f"{name}: {told}", flush=True)
    others = [f"{name}: gone" for name in chosen(old, pattern) if name not in CONFIGURATIONS]
    others += [f"{name}: new" for name in names if name not in old]
    print("\n".join([*others, f"{n_same} of {len(names) + sum(': gone' in each for each in others)} are the same"]))
    return int(bool(others) or n_same < len(names))


def main() -> int:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", metavar="PATTERN", help="configurations whose names match it, or contain it")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    asked = parser.parse_args()
    print(f"distembed in {Path(str(de.__file__)).parent}", flush=True)
    return (record if asked.what == "record" else compare)(asked.file, asked.only, asked.jobs)


if __name__ == "__main__":
    sys.exit(main())
