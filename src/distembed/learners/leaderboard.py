"""What candidates an ensemble was chosen from, how good each is alone, and how much it counts: a list, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import pandas_for
from ..compute.registry import storable

WIDTH = 80
_LONGEST_NAME = 40
_LEAST_PROBABILITY = 1e-4
KEYS = ("name", "score", "standard_error", "weight", "seconds")
_NAMES = {"r2": "R²", "neg_log_loss": "-log loss"}


def losses(predicted: Array, targets: Array, n_classes: int | None) -> Array:
    """Loss of each bag, ndarray of shape (n_bags,): -log p of its class, or the squared error over the variance.

    Examples
    --------
    >>> losses(np.array([[0.25, 0.75]]), np.array([1]), 2).round(3)
    array([0.288])
    """
    if n_classes is not None:
        return np.asarray(-np.log(np.maximum(predicted[np.arange(len(targets)), targets], _LEAST_PROBABILITY)))
    variance = targets.var(axis=0)
    variance = np.where(variance > 1e-24 * np.mean(targets**2, axis=0), variance, 1.0)  # of a constant: rounding
    return np.asarray(np.mean((predicted - targets) ** 2 / variance, axis=1))


def leaderboard_row(
    name: str,
    predicted: Array,
    targets: Array,
    weight: Array,
    n_classes: int | None,
    *,
    share: float,
    seconds: float,
) -> dict[str, Any]:
    """A row for one candidate: R², or minus the mean log loss, of bags that were held out.

    Parameters
    ----------
    name : str
        Of the candidate.
    predicted : ndarray of shape (n_bags, n_outputs)
        Predictions for bags that were held out.
    targets, n_classes
        As for :func:`losses`.
    weight : ndarray of shape (n_bags,)
        Of the bags.
    share, seconds : float
        What it counts in the model, and what it took.
    """
    each = losses(predicted, targets, n_classes)
    mean = float(np.average(each, weights=weight))
    error = float(np.sqrt(np.average((each - mean) ** 2, weights=weight) / len(each)))
    score = 1 - mean if n_classes is None else -mean
    return {"name": name, "score": score, "standard_error": error, "weight": float(share), "seconds": seconds}


@storable(scoring="text", cut="list[text]")
class Leaderboard(list[dict[str, Any]]):
    """Candidates by their scores on held-out bags, best first: a list of dicts that prints as a table.

    Parameters
    ----------
    rows : iterable of dict
        With the keys name, score (higher is better), standard_error, weight (in the ensemble) and seconds.
    scoring : str, default=""
        What the score is, such as ``"r2"`` or ``"neg_log_loss"``.
    cut : iterable of str, default=()
        Names of the candidates that a time limit did not allow to try.

    Examples
    --------
    >>> rows = [
    ...     {"name": "constant", "score": 0.0, "standard_error": 0.1, "weight": 0.0, "seconds": 0.01},
    ...     {"name": "js, rbf", "score": 0.91, "standard_error": 0.02, "weight": 1.0, "seconds": 0.4},
    ... ]
    >>> Leaderboard(rows, "r2", cut=["statistics, forest"])
    candidate     R²  std. error  weight  seconds
    js, rbf    0.910       0.020   1.000      0.4
    constant   0.000       0.100       -      0.0
    Not tried within the time limit: statistics, forest
    >>> Leaderboard(rows)[0]["name"], Leaderboard(rows) == rows[::-1]
    ('js, rbf', True)
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), scoring: str = "", cut: Iterable[str] = ()) -> None:
        super().__init__(sorted(rows, key=lambda row: -np.nan_to_num(row["score"], nan=-np.inf)))
        self.scoring = scoring
        self.cut = tuple(cut)

    @property
    def header(self) -> tuple[str, ...]:
        """Titles of the columns of :meth:`cells`."""
        return ("candidate", _NAMES.get(self.scoring, self.scoring or "score"), "std. error", "weight", "seconds")

    def cells(self) -> list[tuple[str, ...]]:
        """The rows as people read them."""
        return [
            (
                _short(str(row["name"])),
                _number(row["score"], 3),
                _number(row["standard_error"], 3),
                _number(row["weight"], 3) if row["weight"] else "-",
                _number(row["seconds"], 1),
            )
            for row in self
        ]

    @property
    def note(self) -> str:
        """What a time limit cut, or nothing."""
        if not self.cut:
            return ""
        names = "; ".join(self.cut) if any("," in name for name in self.cut) else ", ".join(self.cut)
        return f"Not tried within the time limit: {names}"

    def __repr__(self) -> str:
        rows: Sequence[tuple[str, ...]] = [self.header, *self.cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(n) for c, n in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        return "\n".join([*lines, *wrap(self.note, WIDTH)])

    def to_frame(self) -> Any:
        """The rows as a pandas data frame, with the keys as columns."""
        return pandas_for("Leaderboard.to_frame").DataFrame(list(self), columns=list(KEYS))

    def html(self) -> str:
        """The table for notebooks, with what each candidate counts as a bar."""
        from ..compute.svg import Safe, html_table

        bars = [
            Safe(
                f'<meter value="{row["weight"]:.3f}" title="weight {row["weight"]:.3f}"></meter>'
                if row["weight"]
                else ""
            )
            for row in self
        ]
        cells = [[*cells, bar] for cells, bar in zip(self.cells(), bars, strict=True)]
        return html_table([*self.header, ""], cells, note=self.note)

    _repr_html_ = html

    # Files and pickles keep the rows beside the attributes.

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        # Without seconds: two runs of one fit give the same file.
        return {"rows": [{**row, "seconds": np.nan} for row in self], **vars(self)}

    def __distembed_fits__(self) -> bool:
        return all(
            isinstance(row, dict)
            and set(row) == set(KEYS)
            and all(isinstance(row[key], str if key == "name" else float | int | np.floating) for key in KEYS)
            for row in self
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        self.extend(rest.pop("rows", ()))  # pickle has its own way of them
        self.__dict__.update(rest)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
