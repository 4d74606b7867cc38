"""Real tables: the learners against what people usually take, on bags that people have.

    set -> repeats x folds (or the published split) -> method, its settings chosen on the training bags -> classes

Methods see the same folds. The score of a fold is the balanced accuracy, the mean over classes of the share of their
bags that is found, so differences are paired. The mean over J folds, and the mean of paired differences, have the
variance (1/J + n_test/n_train) s² (Nadeau and Bengio 2003), because folds of several repeats overlap. A published split
has one score; its interval is over test bags.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from time import process_time
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from distembed.bags import Bags
from distembed.basis import LowEnergyWarning
from distembed.compute.arrays import Array
from distembed.embeddings import HDDEmbedding, Marginals
from distembed.learners import DistributionClassifier

from .claims import Difference, judge, over_bags, over_repetitions, rule
from .real_sets import SETS, Labelled, RealSet, with_indicators
from .rivals import RIVALS, Contender, folds_of
from .study import Report, Results, Step, Study, Table

MOST_JOINT = 3  # dimensions of a joint density
VERSIONS = {"auto": 7}  # one more when the ensemble changes; peers need not be computed again then
NAMED_VERSION = 3  # the same of embeddings by name
MARGIN = 0.02
WHY = "0.02 of balanced accuracy, one bag in fifty"


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


# --------------------------------------------------------------------------------------------------------------
# The experiment
# --------------------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------
# The report
# --------------------------------------------------------------------------------------------------------------


def balanced_losses(truth: Array, predicted: Array) -> Array:
    """One number per bag, 0 where it is right, whose mean is one less the balanced accuracy.

    Examples
    --------
    >>> balanced_losses(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])).round(2).tolist()
    [0.0, 0.0, 0.67, 0.0]
    """
    _, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    losses: Array = (truth != predicted) * (len(truth) / (len(counts) * counts[codes]))
    return losses


class Outcome:
    """What one method has predicted on one set, over all repeats that are there."""

    def __init__(self, steps: Sequence[Mapping[str, Any]]) -> None:
        self.scores: dict[tuple[int, int], float] = {}  # of repeat and fold
        self.seconds = float(np.mean(np.concatenate([found["fit_seconds"] for found in steps])))
        for found in steps:
            truth, predicted, fold = (np.asarray(found[name]) for name in ("truth", "predicted", "fold"))
            for number in range(fold.max() + 1):
                test = fold == number
                self.losses = balanced_losses(truth[test], predicted[test])
                self.scores[int(found["repeat"]), number] = 1 - float(self.losses.mean())
        self.n_folds = int(fold.max()) + 1
        self.n_right, self.n_test = int(np.sum(self.losses == 0)), len(self.losses)  # of the last fold

    @property
    def score(self) -> float:
        """The mean over folds."""
        return float(np.mean([*self.scores.values()]))

    @property
    def _overlap(self) -> float:
        return 1 / (self.n_folds - 1)

    def mean(self) -> Difference:
        """The mean score, and how far it is known."""
        if self.n_folds > 1:
            return over_repetitions([*self.scores.values()], self._overlap)
        return over_bags(np.ones_like(self.losses), self.losses)

    def less(self, other: Outcome) -> Difference:
        """Score less that of another method, on the folds that both have."""
        if self.n_folds == 1:
            return over_bags(other.losses, self.losses)
        common = sorted(self.scores.keys() & other.scores.keys())
        return over_repetitions([self.scores[each] - other.scores[each] for each in common], self._overlap)


Outcomes = Mapping[str, Mapping[str, Outcome]]  # by set and method
Compared = Mapping[tuple[str, str], Difference]  # of a set and a method, less ours
Words = Mapping[tuple[str, str], str]


def mean_ranks(outcomes: Outcomes) -> dict[str, tuple[float, int]]:
    """The mean rank of each method, 1 for the best, and the number of sets that it is over; best first."""
    ranks: dict[str, list[float]] = {}
    for found in outcomes.values():
        scores = [round(outcome.score, 6) for outcome in found.values()]
        for method, rank in zip(found, rankdata([-score for score in scores]), strict=True):
            ranks.setdefault(method, []).append(float(rank))
    means = {method: (float(np.mean(all_ranks)), len(all_ranks)) for method, all_ranks in ranks.items()}
    return dict(sorted(means.items(), key=lambda item: item[1][0]))


def make_report(
    introduction: str,
    results: Results,
    sets: Mapping[str, RealSet],
    methods: Sequence[str],
    ours: Sequence[str],
    absent: Mapping[str, str],
) -> Report:
    """Tables and findings of what is there.

    Parameters
    ----------
    introduction : str
    results : mapping of str to mapping
        Of steps, by name.
    sets : mapping of str to RealSet
    methods : sequence of str
        In the order of the tables.
    ours : sequence of str
        The methods of this package. The first that is there, on whichever set, is compared with all others.
    absent : mapping of str to str
        Methods that could not be run, and why.
    """
    report = Report("Real tables", introduction)
    outcomes, left_out = _outcomes(results, sets, methods)
    if not outcomes:
        report.findings.append("No method has been run yet.")
        return report
    mine = next((method for method in ours if any(method in found for found in outcomes.values())), "")
    compared = {
        (name, method): outcome.less(found[mine])
        for name, found in outcomes.items()
        for method, outcome in found.items()
        if method != mine and mine in found
    }
    words = judge(compared, MARGIN, more_is_better=True)
    if compared:
        report.introduction += "\n" + rule(len(compared), WHY)
    report.findings += _ranking(outcomes) + _against_rivals(outcomes, sets, mine, ours, compared, words)
    report.tables += [
        _scores(outcomes, methods),
        _differences(outcomes, mine, compared, words),
        _described(results, outcomes, sets),
        Table(
            "left_out", "Left out", ("method", "set", "why"), [(m, "all", why) for m, why in absent.items()] + left_out
        ),
    ]
    return report


def _outcomes(
    results: Results, sets: Mapping[str, RealSet], methods: Sequence[str]
) -> tuple[dict[str, dict[str, Outcome]], list[tuple[str, str, str]]]:
    """Outcomes by set and method, in their order, and what was left out: method, set and reason."""
    steps: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    left_out = {}
    for found in results.values():
        key = str(found["set"]), str(found["method"])
        if "left_out" in found:
            left_out[key] = key[1], key[0], str(found["left_out"])
        else:
            steps.setdefault(key, []).append(found)
    by_set = {name: {method: steps[name, method] for method in methods if (name, method) in steps} for name in sets}
    outcomes = {
        name: {method: Outcome(of_method) for method, of_method in found.items()}
        for name, found in by_set.items()
        if found
    }
    return outcomes, [*left_out.values()]


def _ranking(outcomes: Outcomes) -> list[str]:
    ranks = mean_ranks(outcomes)
    most = max(n for _, n in ranks.values())
    words = [f"{method} {rank:.1f}" + f" (of {n} sets)" * (n < most) for method, (rank, n) in ranks.items()]
    fewer = " Ranks over fewer sets do not compare with the others." * any(n < most for _, n in ranks.values())
    return [f"Mean rank of the mean scores over {most} sets, 1 is best: {', '.join(words)}.{fewer}"]


def _against_rivals(
    outcomes: Outcomes, sets: Mapping[str, RealSet], mine: str, ours: Sequence[str], compared: Compared, words: Words
) -> list[str]:
    """A sentence per set: the best of the others, which is known only afterwards, against our method."""
    sentences = []
    for name, found in outcomes.items():
        rivals = [method for method in found if method not in ours]
        if mine not in found or not rivals:
            continue
        best = max(rivals, key=lambda method: found[method].score)
        right = f", {found[mine].n_right} of {found[mine].n_test} test bags" if sets[name].published else ""
        sentences.append(
            f"{name}: {mine} {found[mine].score:.3f}{right}. The best of the others ({best}) has "
            f"{found[best].score:.3f}: {words[name, best]}; difference {compared[name, best].told(3)}."
        )
    return sentences


def _scores(outcomes: Outcomes, methods: Sequence[str]) -> Table:
    ranks = mean_ranks(outcomes)
    rows = []
    for method in methods:
        if method in ranks:
            cells = [f"{found[method].score:.3f}" if method in found else None for found in outcomes.values()]
            rows.append((method, *cells, f"{ranks[method][0]:.1f}"))
    return Table("scores", "Balanced accuracy", ("method", *outcomes, "mean rank"), rows)


def _differences(outcomes: Outcomes, reference: str, differences: Compared, words: Words) -> Table:
    """All methods of a set, best first, each less the reference where that is there."""
    rows = []
    for name, found in outcomes.items():
        for method, outcome in sorted(found.items(), key=lambda item: -item[1].score):
            compared: list[str | None] = [None] * 4
            if (name, method) in differences:
                apart = differences[name, method]
                compared = [*(f"{value:+.3f}" for value in (apart.mean, *apart.interval())), words[name, method]]
            mean = outcome.mean()
            rows.append((
                name, method, *(f"{value:.3f}" for value in (mean.mean, *mean.interval())), len(outcome.scores),
                reference, *compared, f"{outcome.seconds:.1f}",
            ))  # fmt: skip
    columns = (
        "set", "method", "balanced accuracy", "95 % low", "95 % high", "folds", "compared with", "difference",
        "its low", "its high", "word", "seconds per fit",
    )  # fmt: skip
    return Table("differences", "Intervals, paired differences and seconds of a core per fit", columns, rows)


def _described(results: Results, outcomes: Outcomes, sets: Mapping[str, RealSet]) -> Table:
    first: dict[str, Mapping[str, Any]] = {}
    for found in results.values():
        first.setdefault(str(found["set"]), found)
    rows = [
        (
            name, sets[name].what, len(np.asarray(first[name]["truth"])), int(first[name]["n_points"]),
            int(first[name]["n_dims"]), int(first[name]["n_classes"]),
            "balanced" if sets[name].balanced else "as they are",
            "published split" if sets[name].published else "folds",
        )
        for name in outcomes
    ]  # fmt: skip
    columns = ("set", "bags and points", "bags", "points", "columns", "classes", "class weights", "judged on")
    return Table("sets", "Sets", columns, rows)
