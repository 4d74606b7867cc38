"""What candidates an ensemble was chosen from, how good each is alone, and how much it counts: a list, and a table.

A candidate's score is that of its held-out predictions, which also chose its settings and rank it: the best of many
looks better than it is. The last row, "ensemble", is the model itself, and its score is corrected for the choice (see
:mod:`distembed.learners.stacking`): it is the one to expect for new bags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from ..compute.checks import pandas_for
from ..compute.registry import storable
from .scores import Score

WIDTH = 80
_LONGEST_NAME = 40
KEYS = ("name", "score", "standard_error", "weight", "seconds")
ENSEMBLE = "ensemble"  # the row of the model itself
MAX_ROWS = 5000  # in model files; printing takes time
_NAMES = {"r2": "R²", "neg_log_loss": "-log loss"}


def leaderboard_row(name: str, found: Score, *, share: float, seconds: float) -> dict[str, Any]:
    """A row: a candidate, its score on held-out bags, its weight in the model, and its seconds.

    Examples
    --------
    >>> leaderboard_row("constant", Score(-0.01, 0.02), share=0.0, seconds=0.1)["standard_error"]
    0.02
    """
    return dict(zip(KEYS, (name, *found, float(share), seconds), strict=True))


@storable(scoring="text", cut="list[text]", dropped="list[text]")
class Leaderboard(list[dict[str, Any]]):
    """Candidates by their scores on held-out bags, best first, then the model: a list of dicts that prints as a table.

    Parameters
    ----------
    rows : iterable of dict
        With the keys name, score (higher is better), standard_error, weight (in the ensemble) and seconds. Weights of
        candidates sum to one; that of the row "ensemble" is NaN, and it stands last.
    scoring : str, default=""
        What the score is, such as ``"r2"`` or ``"neg_log_loss"``.
    cut : iterable of str, default=()
        Names of the candidates that a time limit did not allow to try.
    dropped : iterable of str, default=()
        Names of those that were far behind on some of the bags: they have the score of these, and no weight.

    Examples
    --------
    >>> rows = [
    ...     {"name": "constant", "score": 0.0, "standard_error": 0.1, "weight": 0.0, "seconds": 0.01},
    ...     {"name": "js, rbf", "score": 0.91, "standard_error": 0.02, "weight": 1.0, "seconds": 0.4},
    ...     {"name": "ensemble", "score": 0.9, "standard_error": 0.03, "weight": float("nan"), "seconds": 0.5},
    ... ]
    >>> Leaderboard(rows, "r2", cut=["statistics, forest"])
    candidate     R²  std. error  weight  seconds
    js, rbf    0.910       0.020   1.000      0.4
    constant   0.000       0.100       -      0.0
    ensemble   0.900       0.030       -      0.5
    Not tried within the time limit: statistics, forest
    >>> Leaderboard(rows)[0]["name"], Leaderboard(rows).ensemble["score"]
    ('js, rbf', 0.9)
    """

    dropped: tuple[str, ...] = ()  # in files of before there were races

    def __init__(
        self,
        rows: Iterable[dict[str, Any]] = (),
        scoring: str = "",
        cut: Iterable[str] = (),
        dropped: Iterable[str] = (),
    ) -> None:
        super().__init__(sorted(rows, key=_place))
        self.scoring = scoring
        self.cut = tuple(cut)
        self.dropped = tuple(dropped)

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """All rows but that of the ensemble."""
        return [row for row in self if row["name"] != ENSEMBLE]

    @property
    def ensemble(self) -> dict[str, Any]:
        """The row of the model itself."""
        return next(row for row in self if row["name"] == ENSEMBLE)

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
        """Which candidates were dropped early, and which ones a time limit cut; or nothing."""
        said = []
        if self.dropped:
            n = len(self.dropped)
            said.append(f"{n} candidate{'s' * (n > 1)} dropped early, with scores on some of the bags (.dropped)")
        if self.cut:
            said.append(f"Not tried within the time limit: {_listed(self.cut)}")
        return ". ".join(said)

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
                if row["weight"] > 0
                else ""
            )
            for row in self
        ]
        cells = [[*cells, bar] for cells, bar in zip(self.cells(), bars, strict=True)]
        return html_table([*self.header, ""], cells, note=self.note)

    _repr_html_ = html

    def __eq__(self, other: object) -> bool:
        """Whether rows are equal but for their seconds, a missing number being equal to another."""
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(map(_equal_rows, self, other))

    __hash__ = None

    # Files and pickles keep the rows beside the attributes.

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        # Without seconds: two runs of one fit give the same file.
        return {"rows": [{**row, "seconds": np.nan} for row in self], **vars(self)}

    def __distembed_fits__(self) -> bool:
        return len(self) <= MAX_ROWS and all(
            isinstance(row, dict)
            and set(row) == set(KEYS)
            and all(isinstance(row[key], str if key == "name" else float | int | np.floating) for key in KEYS)
            for row in self
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        self.extend(rest.pop("rows", ()))  # pickle has its own way of them
        self.__dict__.update(rest)


def _equal_rows(one: Any, other: Any) -> bool:
    if not (isinstance(other, dict) and one.keys() == other.keys()):
        return False
    compared = ((value, other[key]) for key, value in one.items() if key != "seconds")
    return all(a == b or (a != a and b != b) for a, b in compared)


def _place(row: dict[str, Any]) -> tuple[bool, float]:
    return row["name"] == ENSEMBLE, -np.nan_to_num(row["score"], nan=-np.inf)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names) if any("," in name for name in names) else ", ".join(names)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
