"""The paper's Gram matrix experiment: how well features reproduce the Jensen-Shannon kernel.

Fifty random mixtures of five truncated Gaussians on the unit square, a bag of 2,500 points of each (the paper's
appendix). The true kernel exp(-JS/(2σ²)) comes from the true densities, with σ² the median of the true JS over distinct
pairs; the estimates come from the points alone. ``gram_stages.py`` computes, this module reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from distembed.compute.arrays import Array

from .claims import CONFIRMED, Difference, judge, over_repetitions, rule
from .gram_stages import LIMIT, METHODS, PIPELINES, SCORES, SOURCES, WAYS, attempts, estimate, sources
from .study import Report, Results, Step, Study, Table, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[str, Mapping[int, Mapping[str, Any]]]  # results by method and seed
Draws = Sequence[Mapping[str, Any]]  # results of one kind of step, a draw each

PAPER = {"entropies": 0.9812, "A features": 0.9735, "random features": 0.9662}  # over all pairs
TARGETS = (
    ("A features", "R2", 0.993),
    ("random features", "R2", 0.992),
    ("A features", "determination", 0.985),
    ("A features, Richardson", "R2", 0.994),
    ("A features, Richardson", "determination", 0.9935),
)
MARGIN = 0.001
_WHY = "0.001 of R², the last digit that the paper gives, and about what R² varies by from draw to draw"
# What is compared, first with second, by which score.
_COMPARED = (
    ("entropies", "literal recipe", "R2 all pairs"),
    ("entropies", "A features", "R2 all pairs"),
    ("random features", "A features", "R2 all pairs"),
    ("random features", "random features, iid", "R2"),
    ("A features, Richardson", "A features", "R2"),
    ("A features, Richardson", "A features", "determination"),
    ("printed measure", "A features", "R2"),
    ("printed measure", "A features", "determination"),
    ("literal recipe", "paper", "R2 all pairs"),
    ("literal recipe, random features", "paper", "R2 all pairs"),
)
_TITLES = {"R2": "R²", "R2 all pairs": "R² over all pairs", "determination": "the coefficient of determination"}
Judged = Mapping[tuple[str, str, str], tuple[Difference, str]]
_ORDER = (
    "entropies", "A features", "A features, Richardson", "random features", "random features, iid", "literal recipe",
    "literal recipe, random features", "printed measure",
)  # fmt: skip
_PANELS = ("entropies", "A features", "random features", "literal recipe")
_INK = "#2b2b33"
_POINT = "#2a6f97"
_R2 = SCORES.index("R2")
_RMS = SCORES.index("rms error")
_COUNTS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}


def _seeds(n: int) -> str:
    return f"{_COUNTS.get(n, n)} seed{'s' * (n > 1)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _values(scores: Scores, method: str, column: str) -> Array:
    return np.array([float(found[column]) for found in scores[method].values()])


def _mean(scores: Scores, method: str, column: str) -> float:
    return float(_values(scores, method, column).mean())


def _scores_table(scores: Scores) -> Table:
    rows = []
    for method in (name for name in _ORDER if name in scores):
        r2 = _values(scores, method, "R2")
        deviation = round(float(r2.std(ddof=1)), 4) if len(r2) > 1 else None
        others = [round(_mean(scores, method, name), 4) for name in ("R2 all pairs", "determination", "largest error")]
        seconds = round(_mean(scores, method, "cpu_seconds"), 2)
        rows.append((method, PAPER.get(method), round(float(r2.mean()), 4), deviation, *others, seconds, len(r2)))
    columns = (
        "method", "paper, all pairs", "R2", "deviation over seeds", "R2 all pairs", "determination", "largest error",
        "CPU seconds", "seeds",
    )  # fmt: skip
    return Table("scores", "True and estimated kernel values, mean over seeds", columns, rows)


def _attempts_table(found: Draws) -> Table:
    """Means over draws with 95 % intervals of R² and of the coefficient of determination."""
    rows = []
    for name in (*WAYS, LIMIT):
        values = np.array([each[name] for each in found])
        cells = []
        for column in values.T[:2]:
            mean = over_repetitions(column)
            cells += [f"{value:.4f}" for value in (mean.mean, *mean.interval())]
        rows.append((name, *cells, f"{values[:, 2].mean():.4f}", len(values)))
    ends = ("95 % low", "95 % high")
    columns = ("distances", "R2", *ends, "determination", *ends, "rms error", "seeds")
    return Table("attempts", "Richardson's extrapolation in several ways, and the limit", columns, rows)


def _stage_means(stages: Draws) -> dict[str, Array]:
    """Of each pipeline: nothing exact, each source alone exact, all but each exact; by scores."""
    return {name: np.mean([found[name] for found in stages], axis=0) for name in PIPELINES if stages}


def _sources_table(stages: Draws) -> Table:
    rows: list[Sequence[Any]] = []
    for pipeline, means in _stage_means(stages).items():
        rows.append((pipeline, "all, as they are", *_figures(means[0]), None, None, len(stages)))
        n = len(SOURCES)
        for source, alone, rest in zip(SOURCES, means[1 : n + 1], means[n + 1 :], strict=True):
            rows.append((pipeline, source, *_figures(alone), *_figures(rest), len(stages)))
    columns = (
        "pipeline", "source", "R2, this exact", "rms error, this exact", "R2, all others exact",
        "rms error, all others exact", "seeds",
    )  # fmt: skip
    title = "The five sources of error, one at a time replaced by its exact twin, and the other way round"
    return Table("sources", title, columns, rows)


def _figures(row: Array) -> tuple[float, float]:
    return round(float(row[_R2]), 4), round(float(row[_RMS]), 4)


def _target_findings(scores: Scores) -> list[str]:
    found = []
    for method, column, target in TARGETS:
        if method in scores:
            mean = _mean(scores, method, column)
            n = len(scores[method])
            name = {"R2": "R² over distinct pairs"}.get(column, "coefficient of determination")
            word = "reached" if mean >= target else "missed"
            low, high = over_repetitions(_values(scores, method, column)).interval()
            interval = "" if np.isnan(low) else f", 95 % interval {low:.5f} to {high:.5f}"
            found.append(
                f"{_capital(method)}: {name} {mean:.5f} ({_seeds(n)}{interval}); the aim of {target:g} is {word}."
            )
    return found


def _judged(scores: Scores) -> Judged:
    """Differences over the seeds that both methods have, and their words; the paper's figures are of one draw."""
    found = {}
    for first, second, column in _COMPARED:
        if second == "paper":
            printed = PAPER[{"literal recipe": "A features"}.get(first, "random features")]
            if first in scores:
                values = _values(scores, first, column)
                # Beside n draws the paper's is one more, which deviates by s: (1/n + 1) s² is the variance.
                found[first, second, column] = over_repetitions(values - printed, overlap=1.0)
            continue
        both = [seed for seed in scores.get(first, {}) if seed in scores.get(second, {})]
        if both:
            apart = [scores[first][seed][column] - scores[second][seed][column] for seed in both]
            found[first, second, column] = over_repetitions(apart)
    words = judge(found, MARGIN, more_is_better=True)
    return {key: (difference, words[key]) for key, difference in found.items()}


def _compare(scores: Scores, judged: Judged, first: str, second: str, column: str) -> str:
    """The word, both figures and their difference."""
    difference, word = judged[first, second, column]
    figures = " and ".join(f"{_mean(scores, method, column):.4f}" for method in (first, second))
    return f"{word} ({_TITLES[column]} {figures}, difference {difference.told(4)})"


def _paper_findings(scores: Scores, judged: Judged) -> list[str]:
    found = []
    entropies = [key for key in _COMPARED[:2] if key in judged]
    if entropies:
        against = {"literal recipe": "Against its literal recipe", "A features": "Against the default of this package"}
        parts = []
        for key in entropies:
            confirmed = CONFIRMED["better"][judged[key][1]]
            parts.append(f"{against[key[1]]}: {_compare(scores, judged, *key)}, so {confirmed}.")
        found.append(
            f"The paper: entropies are somewhat better than A features ({PAPER['entropies']:.3f} and "
            f"{PAPER['A features']:.3f}). {' '.join(parts)}"
        )
    key = _COMPARED[2]
    if key in judged:
        lost = {"better": "refuted", "worse": "confirmed"}.get(judged[key][1], judged[key][1])
        found.append(
            f"The paper: random features lose a little to the exact kernel ({PAPER['A features']:.3f} and "
            f"{PAPER['random features']:.3f}). Here they are {_compare(scores, judged, *key)}, so {lost}."
        )
    for method, _, column in (key for key in _COMPARED if key[1] == "paper" and key in judged):
        difference, word = judged[method, "paper", column]
        values = _values(scores, method, column)
        printed = values.mean() - difference.mean
        found.append(
            f"{_capital(method)}: {_TITLES[column]} {values.mean():.4f}; against the paper's {printed:.4f}, one draw: "
            f"{word} (difference {difference.told(4)})."
        )
    return found


def _own_findings(scores: Scores, judged: Judged) -> list[str]:
    found = []
    titles = {
        ("random features", "random features, iid"): "Orthogonal frequencies against independent ones",
        ("A features, Richardson", "A features"): "Richardson's extrapolation against A features",
        ("printed measure", "A features"): "Table 1's misprinted measure against the corrected one",
    }
    for pair, title in titles.items():
        parts = [_compare(scores, judged, *key) for key in judged if key[:2] == pair]
        if parts:
            found.append(f"{title}: {'; '.join(parts)}.")
    return found


def _limit_finding(tried: Draws) -> str:
    mean = np.mean([found[LIMIT] for found in tried], axis=0)
    return (
        "The limit of an efficient one among regular estimates of JS on these points: "
        f"R² {mean[0]:.4f}, coefficient of determination "
        f"{mean[1]:.4f} ({_seeds(len(tried))})."
    )


def _source_findings(stages: Draws) -> list[str]:
    found = []
    n = len(SOURCES)
    for pipeline, means in _stage_means(stages).items():
        whole = means[0, _RMS]
        exact_one = means[1 : n + 1, _RMS]
        only_one = means[n + 1 :, _RMS]
        first, second = np.argsort(-only_one)[:2]
        saved = int(np.argmin(exact_one))
        found.append(
            f"Sources of error, {pipeline} pipeline: rms error {whole:.4f} in all. Were all other stages exact, "
            f"{SOURCES[first]} would make {only_one[first]:.4f} and {SOURCES[second]} {only_one[second]:.4f}, the "
            f"others less. Exact {SOURCES[saved]} alone helps most, to {exact_one[saved]:.4f} ({_seeds(len(stages))})."
        )
        worse = [i for i in range(n) if exact_one[i] > 1.02 * whole]
        if worse:
            listed = ", ".join(f"{SOURCES[i]} ({exact_one[i]:.4f})" for i in worse)
            found.append(
                f"In the {pipeline} pipeline errors cancel. The rms error grows if one alone is exact: {listed}."
            )
    return found


def _scatter(panels: Mapping[str, tuple[Array, Array]]) -> Figure:
    """The paper's figure: estimated over true kernel values, a panel for each method."""
    figure = new_figure(3.1 * len(panels), 3.5)
    values = np.concatenate([each for pair in panels.values() for each in pair])
    ends = (float(values.min()) - 0.03, float(values.max()) + 0.03)
    row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (method, (true, found)) in zip(row, panels.items(), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK)
        axes.scatter(true, found, s=6, color=_POINT, alpha=0.5, linewidths=0, zorder=1)
        axes.plot(ends, ends, color=_INK, linewidth=0.7, zorder=2)
        axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel="true kernel value")
        r2 = np.corrcoef(true, found)[0, 1] ** 2
        axes.set_title(f"{method}, R² = {r2:.4f}", fontsize=9, color=_INK, loc="left")
    row[0].set_ylabel("estimate")
    return figure


class Experiment(Study):
    """The Gram experiment: ten draws, a step for each method on each, and the sources of error on three of them.

    Attributes
    ----------
    n_seeds, n_seeds_sources : int
        Draws; with ``quick`` two and one of them, the literal recipe on the first alone, and no entropies, whose
        kernels between all points take a minute.
    n_bags, n_points, n_components : int
        Size of the experiment, the paper's.

    Examples
    --------
    >>> len(Experiment().steps()), Experiment(quick=True).steps()[0].name
    (93, 'seed 0, A features')
    """

    name = "gram"
    summary = "how well features reproduce the Jensen-Shannon kernel of 50 mixtures, and where their errors come from"

    n_seeds: ClassVar[int] = 10
    n_seeds_sources: ClassVar[int] = 3
    smaller: ClassVar[dict[str, int]] = {"n_seeds": 2, "n_seeds_sources": 1}
    n_bags: ClassVar[int] = 50
    n_points: ClassVar[int] = 2500
    n_components: ClassVar[int] = 7000

    def steps(self) -> list[Step]:
        """A step for each seed and method, in this order, and one for the sources of error of a seed."""
        sizes = {"n_bags": self.n_bags, "n_points": self.n_points, "n_components": self.n_components}
        found = []
        for seed in range(self.n_seeds):
            for method in METHODS:
                if self.quick and (method == "entropies" or (seed and method.startswith("literal"))):
                    continue
                work: Callable[[], dict[str, Any]] = partial(estimate, method, seed, **sizes)
                found.append(Step(f"seed {seed}, {method}", {"method": method, "seed": seed, **sizes}, work))
            few = {"n_bags": self.n_bags, "n_points": self.n_points}
            work = partial(attempts, seed, **few)
            found.append(Step(f"seed {seed}, attempts", {"method": "attempts", "seed": seed, **few}, work))
            if seed < self.n_seeds_sources:
                work = partial(sources, seed, **sizes)
                found.append(Step(f"seed {seed}, sources", {"method": "sources", "seed": seed, **sizes}, work))
        return found

    def report(self, results: Results) -> Report:
        """Scores, sources of error and the paper's figure, of the steps that are there."""
        there = [(step.settings, results[step.name]) for step in self.steps() if step.name in results]
        by_method = {name: {of["seed"]: found for of, found in there if of["method"] == name} for name in METHODS}
        scores = {method: found for method, found in by_method.items() if found}
        stages = [found for of, found in there if of["method"] == "sources"]
        tried = [found for of, found in there if of["method"] == "attempts"]
        report = Report("The Gram matrix experiment", self.introduction(study=self))
        judged = _judged(scores)
        if judged:
            report.introduction += "\n" + rule(len(judged), _WHY)
        report.findings += _target_findings(scores) + _paper_findings(scores, judged) + _own_findings(scores, judged)
        report.findings += _source_findings(stages)
        if tried:
            report.findings.append(_limit_finding(tried))
        if scores:
            report.tables.append(_scores_table(scores))
        if tried:
            report.tables.append(_attempts_table(tried))
        if stages:
            report.tables.append(_sources_table(stages))
        first = {method: scores[method][0] for method in _PANELS if 0 in scores.get(method, {})}
        if first:
            report.figures["scatter"] = _scatter({name: (each["true"], each["found"]) for name, each in first.items()})
        return report
