"""The two ways to fit: all bags in memory, or batches from disk with a checkpoint. Both judge on bags kept out.

Some bags take no part in the fit: they are predicted, which gives an honest score, and then the linear model learns
from them too, so that no bag is lost. Scaling, settings and embedding stay as they were. Or they calibrate intervals:
then nothing may learn from them, for intervals are as wide as the errors on bags that the model has not seen.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ..bags import Bags, concat
from ..files import load
from ..learners.conformal_split import coverage_of
from ..tables import BagTable, TableError
from ._app import Stopped
from ._inputs import Labels, batches_of, matching_ids, read_all, read_ids
from ._screen import Screen

__all__ = ["Fitted", "choose_calibration", "choose_test", "fit_in_memory", "fit_out_of_core"]

Array = NDArray[Any]

FEWEST_BAGS = 20  # of fewer, none is kept out unless the user wants it
MOST_TEST_BAGS = 2000  # as many as are looked at by the search
_JUDGED_AT_ONCE = 500


@dataclass
class Fitted:
    """A fitted model, and how it did on bags that it had not seen."""

    model: Any  # the learner
    n_bags: int
    n_points: int
    n_test: int = 0
    judged_by: str | None = None  # "test" or "leave-one-out"
    truth: Array = field(default_factory=lambda: np.empty(0))
    predicted: Array = field(default_factory=lambda: np.empty(0))
    probabilities: Array | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    conformal: Any = None  # the learner with intervals or sets of classes around it
    mean_size: float = float("nan")  # their width, or number of classes, on average


def choose_test(y: Array, classes: bool, groups: Array | None, share: float | None, seed: int) -> NDArray[np.bool_]:
    """Which bags are kept out: whole groups, or the same share of each class, or any.

    Parameters
    ----------
    y : ndarray of shape (n_bags,)
        Labels.
    classes : bool
        Whether these are classes; of each, two bags at least are left.
    groups : ndarray of shape (n_bags,), optional
        Bags of one group are kept out together; two groups at least are left.
    share : float or None
        How many; None is a tenth, at most 2,000, and none of fewer than 20 bags.
    seed : int

    Examples
    --------
    >>> choose_test(np.repeat(["a", "b"], 20), True, None, 0.1, 0).sum()
    np.int64(4)
    >>> choose_test(np.arange(10.0), False, None, None, 0).sum()
    np.int64(0)
    """
    n = len(y)
    chosen = np.zeros(n, bool)
    if share is None:
        share = 0.0 if n < FEWEST_BAGS else min(0.1, MOST_TEST_BAGS / n)
    if share == 0:
        return chosen
    rng = np.random.default_rng(seed)
    if groups is not None:
        names, sizes = np.unique(groups, return_counts=True)
        order = rng.permutation(len(names))
        enough = int(np.searchsorted(np.cumsum(sizes[order]), share * n)) + 1
        return np.isin(groups, names[order[: max(0, min(enough, len(names) - 2))]])
    for part in [np.flatnonzero(y == name) for name in np.unique(y)] if classes else [np.arange(n)]:
        count = max(0, min(round(share * len(part)), len(part) - 2))
        chosen[rng.choice(part, count, replace=False)] = True
    return chosen


def choose_calibration(
    n_bags: int, groups: Array | None, share: float | None, coverage: float, seed: int
) -> NDArray[np.bool_]:
    """Which bags calibrate intervals: a share of all bags, or of all groups, drawn evenly, and enough of them.

    The promise is for bags that come as these have come, so classes have no say here.

    Parameters
    ----------
    n_bags : int
    groups : ndarray of shape (n_bags,), optional
        Whole groups are kept out, and count as one each.
    share : float or None
        How many; None is a fifth, and at most 2,000 bags.
    coverage : float
        c; ⌈c / (1 - c)⌉ bags or groups are needed.
    seed : int

    Examples
    --------
    >>> choose_calibration(50, None, None, 0.9, 0).sum()
    np.int64(10)
    """
    level = coverage_of("fit", coverage)
    needed = math.ceil(level / (1 - level))
    number = np.arange(n_bags) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_units, what = int(number.max()) + 1, "bags" if groups is None else "groups"
    if share is None:
        share = min(0.2, MOST_TEST_BAGS / n_bags)
    n_kept = min(math.ceil(share * n_units), n_units - 2)
    if n_kept < needed:
        enough = math.ceil(100 * needed / n_units) / 100
        more = f"add --test {enough:g}, or lower --coverage" if needed + 2 <= n_units else "lower --coverage"
        raise click.UsageError(
            f"--coverage {coverage:g} needs {needed} {what} that are kept out, and {max(n_kept, 0)} of {n_units} would "
            f"be; {more}"
        )
    chosen = np.random.default_rng(seed).permutation(n_units)[:n_kept]
    return np.isin(number, chosen)


def _kept_out(
    model: Any, y: Array, groups: Array | None, test: float | None, coverage: float | None, seed: int
) -> NDArray[np.bool_]:
    """Which bags the fit does not see."""
    if coverage is not None:
        return choose_calibration(len(y), groups, test, coverage, seed)
    classes = is_classifier(model)
    out = choose_test(y, classes, groups, test, seed)
    lost = np.setdiff1d(y[out], y[~out]) if classes else y[:0]
    if len(lost):
        raise click.UsageError(
            f"class {lost.tolist()[0]!r} is in groups alone that are kept out; add --test 0, or try another --seed"
        )
    return out


def _judge(fitted: Fitted, bags: Bags, y: Array, bar: Any) -> None:
    """Predict bags that were kept out."""
    start = perf_counter()
    model, some = fitted.model, []
    fitted.judged_by, fitted.truth, fitted.n_test = "test", y, bags.n_bags
    shares = hasattr(model, "predict_proba")
    bar.begin("judging", bags.n_bags)
    for first in range(0, bags.n_bags, _JUDGED_AT_ONCE):
        piece = bags[first : first + _JUDGED_AT_ONCE]
        some.append(model.predict_proba(piece) if shares else model.predict(piece))
        bar.advance(piece.n_bags)
    found = np.concatenate(some)
    fitted.probabilities = found if shares else None
    fitted.predicted = model.classes_[found.argmax(axis=1)] if shares else found
    fitted.seconds["judging"] = perf_counter() - start


def _calibrate(fitted: Fitted, bags: Bags, y: Array, groups: Array | None, coverage: float, bar: Any) -> None:
    """Put intervals, or sets of classes, around the model, by the bags that were kept out."""
    from ..learners import ConformalClassifier, ConformalRegressor

    start = perf_counter()
    bar.begin("calibrating")
    settings: dict[str, Any] = {"coverage": coverage, "prefit": True}
    if is_classifier(fitted.model):  # people read these sets, and an empty one tells them nothing
        fitted.conformal = ConformalClassifier(fitted.model, allow_empty=False, random_state=0, **settings)
        sizes = fitted.conformal.calibrate(bags, y, groups=groups).predict_set(bags).sum(axis=1)
    else:
        fitted.conformal = ConformalRegressor(fitted.model, **settings)
        sizes = np.diff(fitted.conformal.calibrate(bags, y, groups=groups).predict_interval(bags), axis=1)
    fitted.mean_size = float(sizes.mean())
    fitted.seconds["calibrating"] = perf_counter() - start


class _Shown:
    """The stages of a fit on the bar of the command, some under other names."""

    def __init__(self, bar: Any, names: dict[str, str] | None = None) -> None:
        self.bar, self._names = bar, names or {}
        self._stage, self._total, self._done = "", None, 0  # type: tuple[str, int | None, int]

    def begin(self, stage: str, total: int | None) -> None:
        """The learner begins a stage."""
        self._stage, self._total, self._done = self._names.get(stage, stage), total, 0
        self.again()

    def again(self, n_bags: int | None = None) -> None:
        """Show the stage of the learner again, after something else was shown."""
        all_bags = n_bags if self._stage in ("looking at all bags", "learning") else None
        total = all_bags if self._total is None else self._total
        self.bar.begin(self._stage, total, "settings" if self._stage.startswith("choosing") else "bags")
        if self._done:
            self.bar.advance(self._done)

    def advance(self, more: int) -> None:
        """The learner has done more."""
        self._done += more
        self.bar.advance(more)


# --------------------------------------------------------------------------------------------------------------
# In memory
# --------------------------------------------------------------------------------------------------------------


def fit_in_memory(
    model: Any,
    table: BagTable,
    labels: Labels,
    groups: Labels | None,
    *,
    missing: str,
    unknown: str,
    test: float | None,
    coverage: float | None,
    seed: int,
    screen: Screen,
) -> Fitted:
    """Fit to all bags at once."""
    start = perf_counter()
    bags = read_all(table, screen)
    seconds = {"reading": perf_counter() - start}
    joined = matching_ids(bags, labels, str(table._plan), missing, unknown)
    bags, y = bags[joined.kept], joined.labels
    by = None
    if groups is not None:
        by = matching_ids(bags, groups, str(table._plan), "error", "ignore").labels
    out = _kept_out(model, y, by, test, coverage, seed)
    fitted = Fitted(model, bags.n_bags, bags.n_points, seconds=seconds)
    with screen.bar("scaling points") as bar:
        model.fit(bags[~out], y[~out], groups=None if by is None else by[~out], progress=_Shown(bar))
        seconds |= model.timings_
        if out.any():
            _judge(fitted, bags[out], y[out], bar)
        if coverage is not None:
            _calibrate(fitted, bags[out], y[out], None if by is None else by[out], coverage, bar)
        elif out.any():
            start = perf_counter()
            model.refit(bags, y, progress=_Shown(bar, {"learning": "learning from all bags"}))
            seconds["learning from all bags"] = perf_counter() - start
        elif hasattr(model.model_, "loo_predictions_") and not is_classifier(model):
            fitted.judged_by, fitted.truth, fitted.predicted = "leave-one-out", y, model.model_.loo_predictions_
    return fitted


# --------------------------------------------------------------------------------------------------------------
# Out of core
# --------------------------------------------------------------------------------------------------------------


def fit_out_of_core(
    model: Any,
    table: BagTable,
    labels: Labels,
    groups: Labels | None,
    *,
    missing: str,
    unknown: str,
    test: float | None,
    coverage: float | None,
    seed: int,
    checkpoint: Path,
    restart: bool,
    screen: Screen,
) -> Fitted:
    """Fit to batches from disk; what is done is kept in a checkpoint beside the output."""
    start = perf_counter()
    ids = read_ids(table, screen)
    joined = matching_ids(ids, labels, str(table._plan), missing, unknown)
    seconds = {"reading ids": perf_counter() - start}
    kept_ids, y = ids[joined.kept], joined.labels
    by = None
    if groups is not None:
        by = matching_ids(kept_ids, groups, str(table._plan), "error", "ignore").labels
    out = _kept_out(model, y, by, test, coverage, seed)
    told = (missing, test, coverage, seed, None if by is None else by.tolist())
    made_from = _fingerprint(table, labels, repr(told))
    model.table_ = {**model.table_, "made_from": made_from}
    n_done, earlier = _look_at_checkpoint(model, checkpoint, restart, screen)
    source = _Batches(table, len(ids), kept_ids, y, by, out)
    start = perf_counter()
    try:
        with screen.bar("sorting") as bar:
            source.shown = shown = _Shown(bar)
            classes = np.unique(y[~out]) if is_classifier(model) else None
            model.fit_batches(source, classes=classes, checkpoint=checkpoint, progress=shown)
            fitted = Fitted(model, len(y), 0, seconds=seconds)
            inside = dict(model.timings_)
            seconds |= inside
            seconds["sorting and reading"] = perf_counter() - start - sum(inside.values()) + earlier
            bags, rows = source.kept_out(n_done)
            if bags is not None:
                _judge(fitted, bags, y[rows], bar)
            if bags is not None and coverage is not None:
                _calibrate(fitted, bags, y[rows], None if by is None else by[rows], coverage, bar)
            elif bags is not None:
                start = perf_counter()
                bar.begin("learning from all bags", bags.n_bags)
                model.partial_fit(bags, y[rows])
                model.model_.coef_  # noqa: B018 - solves the equations
                seconds["learning from all bags"] = perf_counter() - start
    except KeyboardInterrupt:
        if checkpoint.exists():
            raise Stopped(
                f"stopped; what was done is kept in {str(checkpoint)!r}, and the same command goes on from there"
            ) from None
        raise Stopped("stopped before anything was worth keeping; the same command begins again") from None
    fitted.n_points = source.n_points
    del model.table_["made_from"]
    return fitted


def _fingerprint(table: BagTable, labels: Labels, more: str) -> str:
    """Which data a checkpoint belongs to: files with sizes and times, columns, and what else decides the batches."""
    seen = hashlib.sha256(more.encode())
    for path in (*table.files, *labels.paths):
        facts = path.stat()
        seen.update(f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    seen.update(repr((table.bag, table.columns, table.weights, labels.where)).encode())
    return seen.hexdigest()


def _look_at_checkpoint(model: Any, path: Path, restart: bool, screen: Screen) -> tuple[int, float]:
    """Number of batches that are done, and seconds of stages; a checkpoint of other data or settings is refused."""
    if not path.exists():
        return 0, 0.0
    if restart:
        path.unlink()
        return 0, 0.0
    remedy = "add --restart to begin again, or choose another -o"
    try:
        kept = load(path)
    except ValueError:
        raise TableError(f"{str(path)!r} should be a half-finished fit and can't be read; {remedy}") from None
    same = type(kept) is type(model) and repr(kept.get_params()) == repr(model.get_params())
    if not same or getattr(kept, "table_", None) != model.table_:
        raise TableError(f"{str(path)!r} is a half-finished fit of other data or settings; {remedy}")
    screen.note(f"going on from {str(path)!r}: {kept.n_batches_seen_} batches are done")
    return int(kept.n_batches_seen_), float(sum(kept.timings_.values()))


class _Batches:
    """Batches with their labels for ``fit_batches``; bags that are kept out, or have no label, weigh nothing.

    So there is one batch for every batch of the table, and the number of those that are done tells where to go on.
    """

    def __init__(
        self, table: BagTable, n_bags: int, ids: Array, y: Array, groups: Array | None, out: NDArray[np.bool_]
    ) -> None:
        self._table, self._n_bags, self._y, self._groups, self._out = table, n_bags, y, groups, out
        self._rows = {key: row for row, key in enumerate(ids.tolist())}
        self._aside: dict[int, tuple[Bags, Array]] = {}  # bags that are kept out, and their rows, by batch
        self.n_points = 0
        self.shown: Any = None

    def __call__(self, start: int = 0) -> Iterator[tuple[Bags, Array, Array, Array | None]]:
        for number, (bags, rows) in enumerate(self._labelled(start), start):
            weight = ((rows >= 0) & ~self._out[rows]).astype(float)
            self._put_aside(number, bags, rows)
            yield bags, self._y[rows], weight, None if self._groups is None else self._groups[rows]

    def _labelled(self, start: int) -> Iterator[tuple[Bags, Array]]:
        """Batches, and the row of the label of each bag, -1 where there is none."""
        self.shown.bar.begin("sorting")
        first, self.n_points = True, 0
        for bags in batches_of(self._table, start):
            if first:
                self.shown.again(self._n_bags)
                first = False
            rows = np.array([self._rows.get(key, -1) for key in bags.ids.tolist()])
            self.n_points += bags.n_points
            yield bags, rows

    def _put_aside(self, number: int, bags: Bags, rows: Array) -> None:
        aside = (rows >= 0) & self._out[rows]
        if aside.any() and number not in self._aside:
            self._aside[number] = bags[aside], rows[aside]

    def kept_out(self, n_skipped: int) -> tuple[Bags | None, Array]:
        """Bags that were kept out, and their rows; those of batches that an earlier run has read are read now."""
        if n_skipped and self._out.any():
            self.shown.begin("looking for bags kept out", self._n_bags)
            for number, (bags, rows) in enumerate(self._labelled(0)):
                self._put_aside(number, bags, rows)
                self.shown.advance(bags.n_bags)
        parts = [self._aside[number] for number in sorted(self._aside)]
        if not parts:
            return None, np.empty(0, int)
        return concat([bags for bags, _ in parts]), np.concatenate([rows for _, rows in parts])
