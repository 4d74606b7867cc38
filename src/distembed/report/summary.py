"""The first section of a report, for readers who read only one: score, drivers, size of the data, and caveats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.svg import Chart, number, padded
from ..learners import scores
from ..learners.prediction_table import inner
from ..plot.charts import ENSEMBLE
from .predictions import COVERAGE, Effects, Predictions, rows_of

Section = dict[str, Any]

MOST_DRIVERS = 8
FEW_SCORED = 30  # bags; below, a score is hardly known
FEW_TRAINED = 0.05  # p-values above this do not make a bag odd
ODD = 0.01  # p-values of likeness below this are odd
_NORMAL = 1.96  # standard errors of a 95 % interval
_SCORES = ("r2", "balanced_accuracy")
_ROWS = {"constant": "a constant", "means, linear": "a linear model of the means"}


def summary(
    model: Any, bags: Bags, found: Predictions, effect: Effects, sections: dict[str, Section], covariates: Any = None
) -> Section:
    """The score next to those of simple models, what drives predictions, and what to beware of.

    Parameters
    ----------
    model : learner
    bags : Bags
    found : Predictions
    effect : Effects
    sections : dict of str to dict
        The sections "data", "quality" and "groups" of the same report, whose numbers are repeated here.
    covariates : table, optional
        Of all bags.
    """
    quality = sections["quality"]
    of_fit = found.n_outputs == 1  # else leaderboards have means over outputs
    rows = scored_rows(model, quality) if of_fit or quality.get("table") else []
    notes = [*_of_scores(rows, quality), *_of_likeness(model, bags, found, covariates)]
    notes += sections["data"]["notes"]
    notes += [
        f"{_first_upper(row[0])}: the error is {row[2]}, against {row[3]} of the other bags."
        for row in sections["groups"]["rows"]
        if row[-1]
    ]
    new = int((~found.trained).sum())
    cards = [("bags", number(bags.n_bags)), ("points", number(bags.n_points)), ("columns", number(bags.n_dims))]
    if 0 < new < bags.n_bags:
        cards.append(("bags new to the model", number(new)))
    if quality.get("held") is not None:
        cards.append((f"of {COVERAGE:.0%} intervals hold the truth", f"{quality['held'].value:.0%}"))
    section: Section = {"cards": cards, "notes": notes, "text": "", "chart": None, "drivers": _drivers(effect)}
    if rows:
        section |= {"text": _text(rows), "chart": _chart(rows)}
    return section


def scored_rows(model: Any, quality: Section) -> list[tuple[str, str, scores.Score, int]]:
    """The model and simple models: name, what the score is, the score, and the number of bags (0: those of the fit).

    Scores of bags that are new to the model; or else of the held-out bags of the fit, where it kept such scores.
    """
    table = quality.get("table")
    if table:
        name = next((each for each in _SCORES if each in table[0][1]), None)
        if name is None:
            return []
        return [(_ROWS.get(label, label), scores.title(name), own[name], quality["n"]) for label, own in table]
    board: Any = getattr(inner(model), "leaderboard_", None)
    own = {} if board is None else {row["name"]: row for row in board}
    if ENSEMBLE not in own or not np.isfinite(own[ENSEMBLE]["score"]):
        return []
    named = {ENSEMBLE: "this model", "mean, linear": "a linear model of the means", "constant": "a constant"}
    what = board.header[1]
    return [
        (label, what, scores.Score(own[name]["score"], own[name]["standard_error"]), 0)
        for name, label in named.items()
        if name in own
    ]


def _text(rows: list[tuple[str, str, scores.Score, int]]) -> str:
    _, what, score, n = rows[0]
    where = f"{n:,} bags that are new to the model" if n else "held-out bags of the fit, corrected for the choice"
    text = f"The {what} is {_rounded(score.value)} on {where}"
    if np.isfinite(score.standard_error):
        low, high = (score.value + sign * _NORMAL * score.standard_error for sign in (-1, 1))
        text += f" (95 % interval {_rounded(low)} to {_rounded(high)})"
    others = [f"{label} has {_rounded(other.value)}" for label, _, other, _ in rows[1:] if np.isfinite(other.value)]
    return text + (f"; {' and '.join(others)}." if others else ".")


def _rounded(value: float) -> str:
    """Two decimals, or three where these would hide the distance to one."""
    return f"{value + 0.0:.3f}" if 0.985 <= value < 1 else f"{value + 0.0:.2f}".replace("-0.00", "0.00")


def _chart(rows: list[tuple[str, str, scores.Score, int]]) -> Chart:
    values = np.array([score.value for _, _, score, _ in rows])
    errors = np.array([score.standard_error for _, _, score, _ in rows])
    errors = np.where(np.isfinite(errors), _NORMAL * errors, 0.0)
    what = rows[0][1]
    names = [label for label, _, _, _ in rows]
    alt = f"{what}: " + ", ".join(f"{name} {_rounded(value)}" for name, value in zip(names, values, strict=True))
    chart = Chart(alt, padded(values - errors, values + errors), (0, 1), what, rows=names, width=520)
    places = np.arange(len(rows))
    chart.segments(values - errors, places, values + errors, places)
    kinds = ["k0", *("open" for _ in rows[1:])]
    chart.points(values, places, kinds, [f"{name}: {_rounded(v)}" for name, v in zip(names, values, strict=True)], 6)
    return chart


def _drivers(effect: Effects) -> list[tuple[str, float, str]]:
    """Columns by their share of what all columns contribute: name, width of a bar, share."""
    sizes = np.abs(effect.changes).mean(axis=0) if len(effect.rows) else np.zeros(0)
    total = float(sizes.sum())
    if not total:
        return []
    some = list(zip(effect.columns, (sizes / total).tolist(), strict=True))[:MOST_DRIVERS]
    most = some[0][1]
    return [(name, round(share / most, 3), f"{share:.0%}") for name, share in some]


def _of_scores(rows: list[tuple[str, str, scores.Score, int]], quality: Section) -> list[str]:
    notes = []
    if not rows:
        return [quality["how"]]
    n = rows[0][3]
    if not n and quality.get("scores") is None:
        notes.append(f"{quality['how']} The score above is that of held-out bags of the fit.")
    if 0 < n < FEW_SCORED:
        notes.append(f"Only {n:,} bags are scored, so the score is hardly known: see its interval.")
    own = rows[0][2]
    best = max(rows[1:], key=lambda row: row[2].value, default=None)
    if best is not None and own.value - best[2].value < _NORMAL * max(own.standard_error, best[2].standard_error):
        notes.append(f"The model is not clearly better than {best[0]}.")
    held = quality.get("held")
    if held is not None and abs(held.value - COVERAGE) > 2.5 * held.standard_error:
        notes.append(f"{held.value:.0%} of the intervals hold the truth, where {COVERAGE:.0%} should.")
    return notes


def _of_likeness(model: Any, bags: Bags, found: Predictions, covariates: Any) -> list[str]:
    """Whether bags that are new to the model are like its training bags."""
    learner = inner(model)
    rows = np.flatnonzero(~found.trained)
    if len(rows) < 2 or not hasattr(learner, "likeness"):
        return []
    given = None if covariates is None else rows_of(covariates, rows)
    likeness = learner.likeness(bags[rows]) if given is None else learner.likeness(bags[rows], given)
    notes = []
    if likeness.group_pvalue <= ODD:
        columns = ", ".join(likeness.group_columns[:3])
        notes.append(
            f"The new bags differ from the training bags (p = {likeness.group_pvalue:.2g}), most in {columns}: "
            "expect larger errors than those of the fit."
        )
    level = max(ODD, float(likeness.pvalues.min()))  # of few training bags p-values cannot be small
    n_odd = int((likeness.pvalues <= level).sum())
    if level <= FEW_TRAINED and n_odd > max(2.0, 3 * level * len(rows)):
        notes.append(
            f"{n_odd:,} of {len(rows):,} new bags are unlike all training bags (p ≤ {level:.2g}, where "
            f"{level * len(rows):.1f} are expected by chance)."
        )
    return notes


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def first_shown(found: Predictions, losses: Array | None) -> int:
    """The bag that the map shows first: the one with the largest error, or else the first that is new to the model."""
    new = np.flatnonzero(~found.trained)
    if not len(new):
        return 0
    return int(new[0] if losses is None else new[np.argmax(losses[new])])
