"""Real tables: the learners against what people usually take, on bags that people have.

    set -> repeats x folds (or the published split) -> method, its settings chosen on the training bags -> classes

Methods see the same folds. A score is the balanced accuracy of a fold, so that differences are paired; folds of several
repeats overlap, and intervals are corrected for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from time import process_time
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from distembed.bags import Bags
from distembed.basis import LowEnergyWarning
from distembed.compute.arrays import Array
from distembed.embeddings import HDDEmbedding, Marginals
from distembed.learners import DistributionClassifier

from .real_report import make_report
from .real_sets import SETS, Labelled, RealSet, with_indicators
from .rivals import RIVALS, Contender, folds_of
from .study import Report, Results, Step, Study

MOST_JOINT = 3  # dimensions of a joint density
VERSIONS = {"auto": 6}  # one more when the ensemble changes; peers need not be computed again then
NAMED_VERSION = 3  # the same of embeddings by name


def _ours(embedding: Callable[[], Any]) -> Callable[[int, str | None], Any]:
    def make(seed: int, class_weight: str | None) -> DistributionClassifier:
        return DistributionClassifier(embedding(), class_weight=class_weight, random_state=seed, n_jobs=1)

    return make


def _joint(bags: Bags) -> str:
    return f"{bags.n_dims} columns are too many for a joint density" if bags.n_dims > MOST_JOINT else ""


OURS = (
    Contender("auto", _ours(lambda: "auto"), codes=True),
    Contender("Hellinger of each column", _ours(lambda: Marginals(HDDEmbedding("hellinger"))), codes=True),
    Contender("JS", _ours(lambda: "js"), _joint),
    Contender("MMD", _ours(lambda: "mmd")),
    Contender("covariance", _ours(lambda: "covariance")),
    Contender("mean", _ours(lambda: "mean")),
)
METHODS = {method.name: method for method in (*OURS, *RIVALS)}
BY_NAME = {each.name: each for each in SETS}


@lru_cache(maxsize=1)
def _read(data: RealSet, paths: tuple[Path, ...]) -> Labelled:
    return data.read(*paths)


class Experiment(Study):
    """Balanced accuracy of the learners and of their peers on real tables.

    Examples
    --------
    >>> [step.name for step in Experiment().steps() if step.name.startswith("hsb82: mean,")]
    ['hsb82: mean, repeat 0', 'hsb82: mean, repeat 1', 'hsb82: mean, repeat 2', 'hsb82: mean, repeat 3']
    """

    name = "real"
    summary = "real tables of schools, birds, molecules, patients: balanced accuracy beside that of usual methods"
    needs_data = True

    sets: tuple[str, ...] = tuple(BY_NAME)
    methods: tuple[str, ...] = tuple(METHODS)
    n_repeats = 4

    smaller: ClassVar[dict[str, Any]] = {
        "sets": ("hsb82", "musk1"),
        "methods": ("auto", "MMD", "covariance", "mean", "means + logistic", "statistics + forest", "statistics + SVM"),
        "n_repeats": 1,
    }

    def steps(self) -> list[Step]:
        """All methods on one repeat of the folds of one set, then the next repeat, then the next set."""
        return [
            self._step(BY_NAME[name], METHODS[method], repeat)
            for name in self.sets
            for repeat in range(1 if BY_NAME[name].published else self.n_repeats)
            for method in self.methods
            if not METHODS[method].missing
        ]

    def _step(self, data: RealSet, method: Contender, repeat: int) -> Step:
        settings: dict[str, Any] = {
            "set": data.name,
            "method": method.name,
            "repeat": repeat,
            "balanced": data.balanced,
        }
        if method in OURS:
            settings["version"] = VERSIONS.get(method.name, NAMED_VERSION)
        compute = partial(self._compute, data, method, repeat)
        return Step(f"{data.name}: {method.name}" + f", repeat {repeat}" * (not data.published), settings, compute)

    def _compute(self, data: RealSet, method: Contender, repeat: int) -> dict[str, Any]:
        """Predictions for all bags that are in a test part, and the seconds of each fit."""
        bags, y, train = _read(data, tuple(self.find("real", file) for file in data.files))
        classes, codes = np.unique(y, return_inverse=True)
        found: dict[str, Any] = {
            "set": data.name, "method": method.name, "repeat": repeat, "truth": codes, "n_points": bags.n_points,
            "n_dims": bags.n_dims, "n_classes": len(classes),
        }  # fmt: skip
        why = method.unfit(bags)
        if why:
            return found | {"left_out": why}
        seen = bags if method.codes else with_indicators(bags)
        predicted = np.full(len(y), -1)
        fold = np.full(len(y), -1)
        fit_seconds = []
        predict_seconds = []
        with _quietly():
            for number, (known, new) in enumerate(_splits(codes, train, repeat)):
                model = method.make(repeat, "balanced" if data.balanced else None)
                start = process_time()
                model.fit(seen[known], codes[known])
                fitted = process_time()
                predicted[new] = model.predict(seen[new])
                fold[new] = number
                fit_seconds.append(fitted - start)
                predict_seconds.append(process_time() - fitted)
        found |= {"fit_seconds": np.array(fit_seconds), "predict_seconds": np.array(predict_seconds)}
        return found | {"predicted": predicted, "fold": fold}

    def report(self, results: Results) -> Report:
        """Scores, paired differences and ranks of the methods that are there."""
        sets = {name: BY_NAME[name] for name in self.sets}
        absent = {method: METHODS[method].missing for method in self.methods if METHODS[method].missing}
        ours = [method.name for method in OURS]
        return make_report(self.introduction(study=self), results, sets, self.methods, ours, absent)


def _splits(codes: Array, train: Array | None, repeat: int) -> Iterator[tuple[Array, Array]]:
    """Training and test bags: the published ones, else stratified folds, another shuffle in each repeat."""
    if train is None:
        yield from folds_of(codes, repeat).split(codes, codes)
    else:
        yield np.flatnonzero(train), np.flatnonzero(~train)


@contextmanager
def _quietly() -> Iterator[None]:
    """One thread for all libraries, and none of the warnings that a search over settings brings about."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", LowEnergyWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
