"""Real tables of numbers: the default learner against what people usually take, and how sure each method is.

    table -> split, at random and by group -> repeats x folds -> method -> numbers and, of some, their quantiles

The score is R², the mean over folds of the share of the test bags' variance that is explained. A method that has
quantiles is also scored by the continuous ranked probability score (CRPS), the coverage of its 90 % intervals in thirds
of bags by size, and their width. All methods see the same folds, so differences are paired.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from time import process_time
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from distembed.bags import Bags
from distembed.compute.arrays import Array
from distembed.learners import ConformalRegressor, DistributionRegressor

from .claims import Difference, judge, over_repetitions, rule
from .regression_rivals import RIVALS, Covariates, Rival
from .regression_sets import SETS, Numbered, NumberSet, split
from .study import Report, Results, Step, Study, Table

Q = np.arange(1, 40) / 40  # levels of quantiles: .025 to .975
COVERAGE = 0.9
# Of our learners: one more when their predictions change; rivals need not be computed again then.
VERSIONS = {"auto": 2, "MMD + kernel ridge": 2, "split conformal": 3}
MARGIN = 0.01
WHY = "0.01 of R²"
MOST_CONFORMAL = 1500  # bags of a table on which the learner is fitted once more for split conformal intervals


class Ours:
    """A learner with its default settings."""

    def __init__(self, embedding: str, seed: int) -> None:
        self.model = DistributionRegressor(embedding, random_state=seed, n_jobs=1)

    def fit(self, bags: Bags, y: Array, covariates: Covariates = None) -> Ours:
        """Choose members, and fit."""
        self.model.fit(bags, y, covariates=_frame(covariates))
        return self

    def predict(self, bags: Bags, covariates: Covariates = None) -> Array:
        """One number per bag."""
        return np.asarray(self.model.predict(bags, covariates=_frame(covariates)))

    def quantiles(self, bags: Bags, q: Array, covariates: Covariates = None) -> Array:
        """Quantiles, ndarray of shape (n_bags, n_q)."""
        return np.asarray(self.model.predict_quantiles(bags, q, covariates=_frame(covariates)))


class SplitConformal:
    """The default learner on four fifths of the bags, and intervals by its errors on the others."""

    def __init__(self, seed: int) -> None:
        self.model = ConformalRegressor(DistributionRegressor(random_state=seed, n_jobs=1), random_state=seed)

    def fit(self, bags: Bags, y: Array, covariates: Covariates = None) -> SplitConformal:
        """Fit and calibrate."""
        self.model.fit(bags, y, covariates=_frame(covariates))
        return self

    def predict(self, bags: Bags, covariates: Covariates = None) -> Array:
        """One number per bag."""
        return np.asarray(self.model.predict(bags, covariates=_frame(covariates)))

    def quantiles(self, bags: Bags, q: Array, covariates: Covariates = None) -> Array:
        """Ends of intervals as quantiles."""
        center = self.predict(bags, covariates)
        found = np.tile(center[:, None], (1, len(q)))
        for i, level in enumerate(q):
            if level < 0.5:
                ends = self.model.predict_interval(bags, coverage=1 - 2 * level, covariates=_frame(covariates))
                found[:, i], found[:, -1 - i] = ends[:, 0], ends[:, 1]
        return found


def _frame(covariates: Covariates) -> Any:
    if covariates is None:
        return None
    import pandas

    return pandas.DataFrame({name: _as_labels(column) for name, column in covariates.items()})


def _as_labels(column: Array) -> Array:
    return column.astype(str) if column.dtype.kind not in "iuf" else column


OURS = (
    Rival("auto", partial(Ours, "auto"), is_sure=True),
    Rival("MMD + kernel ridge", partial(Ours, "mmd"), is_sure=True),
    Rival("split conformal", SplitConformal, is_sure=True),
)
METHODS = {method.name: method for method in (*OURS, *RIVALS)}
POINT_METHODS = tuple(name for name in METHODS if name not in ("split conformal", "quantile boosting", "CV+"))
BY_NAME = {each.name: each for each in SETS}


@lru_cache(maxsize=1)
def _read(data: NumberSet, find: Callable[..., Any]) -> Numbered:
    return data.read(find)


class Experiment(Study):
    """R², and how sure, of the learners and of their peers on real tables.

    Examples
    --------
    >>> [step.name for step in Experiment().steps() if step.name.startswith("vietnam_communes random: auto")]
    ['vietnam_communes random: auto, repeat 0', 'vietnam_communes random: auto, repeat 1']
    """

    name = "regression"
    summary = "real tables of districts, schools, alloys, weather: R² and intervals beside those of usual methods"
    needs_data = True

    sets: tuple[str, ...] = tuple(BY_NAME)
    methods: tuple[str, ...] = tuple(METHODS)
    n_repeats = 2

    smaller: ClassVar[dict[str, Any]] = {
        "sets": ("vietnam_communes", "portal_rodents"),
        "methods": ("auto", "means + ridge", "statistics + forest"),
        "n_repeats": 1,
    }

    def steps(self) -> list[Step]:
        """The first repeat of all tables, then the next."""
        return [
            self._step(BY_NAME[name], how, METHODS[method], repeat)
            for repeat in range(self.n_repeats)
            for name in self.sets
            for how in BY_NAME[name].splits
            if repeat == 0 or how == "random"
            for method in self.methods
            if not METHODS[method].missing
        ]

    def _step(self, data: NumberSet, how: str, method: Rival, repeat: int) -> Step:
        settings: dict[str, Any] = {"set": data.name, "split": how, "method": method.name, "repeat": repeat}
        if method in OURS:
            settings["version"] = VERSIONS[method.name]
        compute = partial(self._compute, data, how, method, repeat)
        return Step(f"{data.name} {how}: {method.name}, repeat {repeat}", settings, compute)

    def _compute(self, data: NumberSet, how: str, method: Rival, repeat: int) -> dict[str, Any]:
        """Predictions for all bags, their quantiles, and the seconds of each fit."""
        table = _read(data, self.find)
        n_bags = table.bags.n_bags
        found: dict[str, Any] = {
            "set": data.name, "split": how, "method": method.name, "repeat": repeat, "truth": table.y,
            "sizes": table.bags.sizes, "n_points": table.bags.n_points, "n_dims": table.bags.n_dims,
        }  # fmt: skip
        if method.name == "split conformal" and n_bags > MOST_CONFORMAL:
            return found | {"left_out": f"more than {MOST_CONFORMAL:,} bags, where the default has enough of them"}
        predicted = np.full(n_bags, np.nan)
        quantiles = np.full((n_bags, len(Q)), np.nan)
        fold = np.full(n_bags, -1)
        fit_seconds = []
        with _quietly():
            for number, (known, new) in enumerate(split(table, how, repeat, data.folds)):
                model = method.make(repeat)
                start = process_time()
                model.fit(table.bags[known], table.y[known], _some(table.covariates, known))
                fit_seconds.append(process_time() - start)
                there = _some(table.covariates, new)
                predicted[new] = model.predict(table.bags[new], there)
                if method.is_sure:
                    quantiles[new] = model.quantiles(table.bags[new], Q, there)
                fold[new] = number
        found |= {"fit_seconds": np.array(fit_seconds), "predicted": predicted, "fold": fold}
        return found | ({"quantiles": quantiles.astype(np.float32)} if method.is_sure else {})

    def report(self, results: Results) -> Report:
        """Scores, paired differences, ranks, coverage and widths of the methods that are there."""
        absent = {method: METHODS[method].missing for method in self.methods if METHODS[method].missing}
        return make_report(self.introduction(study=self), results, absent)


def _some(covariates: Covariates, rows: Array) -> Covariates:
    return None if covariates is None else {name: column[rows] for name, column in covariates.items()}


@contextmanager
def _quietly() -> Iterator[None]:
    """One thread for all libraries, and no warnings, which searches over settings and unlike folds bring about."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --------------------------------------------------------------------------------------------------------------
# The report
# --------------------------------------------------------------------------------------------------------------


def crps(truth: Array, quantiles: Array) -> Array:
    """The continuous ranked probability score of each bag: twice the mean pinball loss over the levels of ``Q``.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> x = np.linspace(-3, 3, 601)
    >>> exact = x * (2 * norm.cdf(x) - 1) + 2 * norm.pdf(x) - 1 / np.sqrt(np.pi)
    >>> bool(abs(crps(x, np.tile(norm.ppf(Q), (601, 1))) - exact).max() < 0.06)
    True
    """
    apart = truth[:, None] - quantiles
    return np.asarray(2 * np.maximum(Q * apart, (Q - 1) * apart).mean(axis=1))


class Outcome:
    """What one method has predicted on one split of one table, over all repeats that are there."""

    def __init__(self, steps: Sequence[Mapping[str, Any]]) -> None:
        self.r2: dict[tuple[int, int], float] = {}  # of repeat and fold
        self.crps: dict[tuple[int, int], float] = {}
        self.absolute: list[float] = []
        self.seconds = float(np.mean(np.concatenate([found["fit_seconds"] for found in steps])))
        inside, widths, sizes = [], [], []
        low, high = np.searchsorted(Q, [(1 - COVERAGE) / 2 - 1e-9, (1 + COVERAGE) / 2 - 1e-9])
        for found in steps:
            truth, fold = np.asarray(found["truth"]), np.asarray(found["fold"])
            for number in range(int(fold.max()) + 1):
                test = fold == number
                apart = truth[test] - np.asarray(found["predicted"])[test]
                key = int(found["repeat"]), number
                self.r2[key] = 1 - float(np.mean(apart**2) / truth[test].var())
                self.absolute.append(float(np.mean(np.abs(apart))))
                if "quantiles" in found:
                    known = np.asarray(found["quantiles"], float)[test]
                    self.crps[key] = float(crps(truth[test], known).mean() / truth.std())
                    inside.append((known[:, low] <= truth[test]) & (truth[test] <= known[:, high]))
                    widths.append((known[:, high] - known[:, low]) / truth.std())
                    sizes.append(np.asarray(found["sizes"])[test])
        self.n_folds = int(np.max(steps[0]["fold"])) + 1
        self.is_sure = bool(inside)
        if inside:
            self._measure(np.concatenate(inside), np.concatenate(widths), np.concatenate(sizes))

    def _measure(self, inside: Array, widths: Array, sizes: Array) -> None:
        """Coverage, in all and in thirds by size, and the mean width."""
        self.coverage = float(inside.mean())
        self.width = float(widths.mean())
        rank = np.argsort(np.argsort(sizes, kind="stable"), kind="stable") * 3 // len(sizes)
        self.thirds = [float(inside[rank == third].mean()) for third in range(3)]

    @property
    def score(self) -> float:
        """The mean R² over folds."""
        return float(np.mean([*self.r2.values()]))

    def mean(self) -> Difference:
        """The mean R², and how far it is known."""
        return over_repetitions([*self.r2.values()], 1 / (self.n_folds - 1))

    def less(self, other: Outcome, what: str = "r2") -> Difference:
        """A score less that of another method, on the folds that both have."""
        own, others = getattr(self, what), getattr(other, what)
        common = sorted(own.keys() & others.keys())
        return over_repetitions([own[each] - others[each] for each in common], 1 / (self.n_folds - 1))


Outcomes = Mapping[str, Mapping[str, Outcome]]  # by table with its split, and method


def make_report(introduction: str, results: Results, absent: Mapping[str, str]) -> Report:
    """Tables and findings of what is there.

    Parameters
    ----------
    introduction : str
    results : mapping of str to mapping
        Of steps, by name.
    absent : mapping of str to str
        Methods that could not be run, and why.
    """
    report = Report("Real tables, regression", introduction)
    outcomes, left_out = _outcomes(results)
    if not outcomes:
        report.findings.append("No method has been run yet.")
        return report
    points = {name: {m: each for m, each in found.items() if m in POINT_METHODS} for name, found in outcomes.items()}
    compared = {
        (name, method): outcome.less(found["auto"])
        for name, found in points.items()
        if "auto" in found
        for method, outcome in found.items()
        if method != "auto"
    }
    words = judge(compared, MARGIN, more_is_better=True)
    r2 = {name: {method: each.score for method, each in found.items()} for name, found in points.items()}
    if compared:
        report.introduction += "\n" + rule(len(compared), WHY)
    report.findings += [*_ranking("R²", r2), *_behind(points, compared), *_sure(outcomes)]
    report.tables += [
        _scores(points),
        _differences(points, compared, words),
        _intervals(outcomes),
        Table(
            "left_out", "Left out", ("method", "table", "why"), [*((m, "all", w) for m, w in absent.items()), *left_out]
        ),
    ]
    return report


def _outcomes(results: Results) -> tuple[dict[str, dict[str, Outcome]], list[tuple[str, str, str]]]:
    """Outcomes by table and method, in their order, and what was left out: method, table and reason."""
    steps: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    left_out = {}
    for found in results.values():
        name, method = f"{found['set']}, {found['split']}", str(found["method"])
        if "left_out" in found:
            left_out[name, method] = method, name, str(found["left_out"])
        else:
            steps.setdefault(name, {}).setdefault(method, []).append(found)
    outcomes = {
        name: {method: Outcome(by_method[method]) for method in METHODS if method in by_method}
        for name, by_method in steps.items()
    }
    return outcomes, [*left_out.values()]


def mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, float], int]:
    """Mean ranks of methods, 1 for the largest score, best first, and the number of tables that have all methods.

    Examples
    --------
    >>> mean_ranks({"a": {"x": 0.5, "y": 0.7}, "b": {"x": 0.6, "y": 0.9}, "c": {"x": 0.1}})
    ({'y': 1.0, 'x': 2.0}, 2)
    """
    methods = list(dict.fromkeys(method for found in scores.values() for method in found))
    full = [found for found in scores.values() if all(method in found for method in methods)]
    if not full:
        return {}, 0
    ranks = np.array([rankdata([-round(found[method], 6) for method in methods]) for found in full])
    means = dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True))
    return dict(sorted(means.items(), key=lambda item: item[1])), len(full)


def _ranking(what: str, scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A sentence with the mean ranks over all tables that have all methods, and one over the methods of all tables."""
    everywhere = set.intersection(*(set(found) for found in scores.values()))
    cases = [scores, {name: {m: found[m] for m in found if m in everywhere} for name, found in scores.items()}]
    sentences = []
    for case in cases if len(everywhere) < max(map(len, scores.values())) else cases[:1]:
        ranks, n = mean_ranks(case)
        words = ", ".join(f"{method} {rank:.1f}" for method, rank in ranks.items())
        sentences += [f"Mean rank of {what} over {n} tables and splits, 1 is best: {words}."] if n else []
    return sentences


def _behind(points: Outcomes, compared: Mapping[tuple[str, str], Difference]) -> list[str]:
    """A sentence per table: the best of the others, which is known only afterwards, against ours."""
    sentences = []
    for name, found in points.items():
        rivals = [method for method in found if method != "auto"]
        if "auto" in found and rivals:
            best = max(rivals, key=lambda method: found[method].score)
            sentences.append(
                f"{name}: auto {found['auto'].score:.3f}; the best of the others ({best}) {found[best].score:.3f}, "
                f"difference {compared[name, best].told(3)}."
            )
    return sentences


def _sure(outcomes: Outcomes) -> list[str]:
    """Mean coverage and the mean ranks of CRPS."""
    sure = {n: {m: each for m, each in found.items() if each.is_sure} for n, found in outcomes.items()}
    sure = {name: found for name, found in sure.items() if "auto" in found}
    if not sure:
        return []
    own = [found["auto"] for found in sure.values()]
    thirds = np.mean([each.thirds for each in own], axis=0)
    losses = {n: {m: -float(np.mean([*e.crps.values()])) for m, e in found.items()} for n, found in sure.items()}
    at_random = [
        each.coverage for name, each in zip(sure, own, strict=True) if not name.split(", ")[1].startswith("by")
    ]
    mean = np.mean([each.coverage for each in own])
    coverage = (
        f"90 % intervals of auto hold {mean:.3f} of the test bags on average over {len(own)} tables and splits "
        f"({np.mean(at_random):.3f} over the random splits alone); in thirds by size "
        f"{', '.join(f'{value:.3f}' for value in thirds)}, small bags first."
    )
    return [coverage, *_ranking("CRPS", losses)]


def _scores(points: Outcomes) -> Table:
    methods = [method for method in POINT_METHODS if any(method in found for found in points.values())]
    rows = [
        (method, *(f"{found[method].score:.3f}" if method in found else None for found in points.values()))
        for method in methods
    ]
    return Table("scores", "R², mean over folds", ("method", *points), rows)


def _differences(
    points: Outcomes, compared: Mapping[tuple[str, str], Difference], words: Mapping[tuple[str, str], str]
) -> Table:
    rows = []
    for name, found in points.items():
        for method, outcome in sorted(found.items(), key=lambda item: -item[1].score):
            cells: list[str | None] = [None] * 4
            if (name, method) in compared:
                apart = compared[name, method]
                cells = [*(f"{value:+.3f}" for value in (apart.mean, *apart.interval())), words[name, method]]
            mean = outcome.mean()
            rows.append((
                name, method, *(f"{value:.3f}" for value in (mean.mean, *mean.interval())), len(outcome.r2),
                *cells, f"{np.mean(outcome.absolute):.4g}", f"{outcome.seconds:.1f}",
            ))  # fmt: skip
    columns = (
        "table", "method", "R²", "95 % low", "95 % high", "folds", "less auto", "its low", "its high", "word",
        "mean absolute error", "seconds per fit",
    )  # fmt: skip
    return Table("differences", "Intervals, paired differences and seconds of a core per fit", columns, rows)


def _intervals(outcomes: Outcomes) -> Table:
    rows = []
    for name, found in outcomes.items():
        for method, each in found.items():
            if each.is_sure:
                rows.append((
                    name, method, f"{np.mean([*each.crps.values()]):.4f}", f"{each.coverage:.3f}",
                    *(f"{value:.3f}" for value in each.thirds), f"{each.width:.2f}",
                ))  # fmt: skip
    columns = (
        "table", "method", "CRPS / deviation", "coverage of 90 %", "small bags", "middle", "large bags",
        "width / deviation",
    )  # fmt: skip
    return Table("intervals", "How sure", columns, rows)
