"""The two ways to fit: all bags in memory, or batches from disk with a checkpoint. Both judge on bags kept out.

Some bags take no part in the fit: they are predicted, which gives an honest score, and then the linear model learns
from them too, so that no bag is lost. Scaling, settings and embedding stay as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, concat
from ..model_files import load
from ..tables import BagTable, TableError
from ._app import Stopped
from ._inputs import Labels, batches_of, matching_ids, read_all, read_ids
from ._screen import Screen

__all__ = ["Fitted", "choose_test", "fit_in_memory", "fit_out_of_core"]

Array = NDArray[Any]

FEWEST_BAGS = 20  # of fewer, none is kept out unless the user wants it
MOST_TEST_BAGS = 2000  # as many as are looked at by the search


@dataclass
class Fitted:
    """A fitted model, and how it did on bags that it had not seen."""

    model: Any
    n_bags: int
    n_points: int
    n_test: int = 0
    judged_by: str | None = None  # "test" or "leave-one-out"
    truth: Array = field(default_factory=lambda: np.empty(0))
    predicted: Array = field(default_factory=lambda: np.empty(0))
    probabilities: Array | None = None
    seconds: dict[str, float] = field(default_factory=dict)


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


def _judge(fitted: Fitted, bags: Bags, y: Array) -> None:
    """Predict bags that were kept out."""
    start = perf_counter()
    model = fitted.model
    fitted.judged_by, fitted.truth, fitted.n_test = "test", y, bags.n_bags
    if hasattr(model, "predict_proba"):
        fitted.probabilities = model.predict_proba(bags)
        fitted.predicted = model.classes_[fitted.probabilities.argmax(axis=1)]
    else:
        fitted.predicted = model.predict(bags)
    fitted.seconds["judging"] = perf_counter() - start


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
    out = choose_test(y, model._classes, by, test, seed)
    fitted = Fitted(model, bags.n_bags, bags.n_points, seconds=seconds)
    with screen.bar("scaling points") as bar, _watched(model, bar):
        model.fit(bags[~out], y[~out], groups=None if by is None else by[~out])
        seconds |= model.timings_
        if out.any():
            bar.begin("judging", int(out.sum()))
            _judge(fitted, bags[out], y[out])
            start = perf_counter()
            bar.begin("learning from all bags", bags.n_bags)
            _learn_from_all(model, bags, y)
            seconds["learning from all bags"] = perf_counter() - start
        elif not model._classes and hasattr(model.model_, "loo_predictions_"):
            fitted.judged_by, fitted.truth, fitted.predicted = "leave-one-out", y, model.model_.loo_predictions_
    return fitted


def _learn_from_all(model: Any, bags: Bags, y: Array) -> None:
    """Fit the linear model again, to all bags, with the stages before it as they are."""
    scaled = bags if model.scaler_ is None else model.scaler_.transform(bags)
    targets = model._codes(y) if model._classes else model._batch_targets(y, bags.n_bags)
    model._fit_model(model._pieces(scaled), bags.n_bags, targets, np.ones(bags.n_bags))


@contextmanager
def _watched(model: Any, bar: Any) -> Iterator[None]:
    """Let a bar see the stages of a fit, and the bags that the linear model has learned from."""
    after = {"scaling": "choosing settings", "search": "fitting the embedding", "fitting the embedding": "learning"}
    took, pieces = model._took, model._pieces

    def seen_took(stage: str, start: float) -> Any:
        if stage in after and after[stage] != "learning":
            bar.begin(after[stage])
        return took(stage, start)

    def seen_pieces(scaled: Bags) -> Iterator[Any]:
        bar.begin("learning", scaled.n_bags)
        for Z, rows in pieces(scaled):
            yield Z, rows
            bar.advance(rows.stop - rows.start)

    model._took, model._pieces = seen_took, seen_pieces
    try:
        yield
    finally:
        del model._took, model._pieces


# --------------------------------------------------------------------------------------------------------------
# Out of core
# --------------------------------------------------------------------------------------------------------------


def fit_out_of_core(
    model: Any,
    table: BagTable,
    labels: Labels,
    *,
    missing: str,
    unknown: str,
    test: float | None,
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
    out = choose_test(y, model._classes, None, test, seed)
    made_from = _fingerprint(table, labels, repr((missing, test, seed)))
    model.table_ = {**model.table_, "made_from": made_from}
    n_done, earlier = _look_at_checkpoint(model, checkpoint, restart, screen)
    source = _Batches(table, kept_ids, y, out, screen)
    start = perf_counter()
    try:
        with screen.bar("sorting") as bar:
            source.bar = bar
            model.fit_batches(source, classes=np.unique(y[~out]) if model._classes else None, checkpoint=checkpoint)
            fitted = Fitted(model, len(y), 0, seconds=seconds)
            inside = dict(model.timings_)
            seconds |= inside
            seconds["sorting and reading"] = perf_counter() - start - sum(inside.values()) + earlier
            bags, truth = source.kept_out(n_done)
            if bags is not None:
                bar.begin("judging", bags.n_bags)
                _judge(fitted, bags, truth)
                start = perf_counter()
                model.partial_fit(bags, truth)
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
    screen.note(f"going on from {str(path)!r}: {kept._n_batches} batches are done")
    return int(kept._n_batches), float(sum(kept.timings_.values()))


class _Batches:
    """Batches with their labels for ``fit_batches``; bags that are kept out, or have no label, weigh nothing.

    So there is one batch for every batch of the table, and the number of those that are done tells where to go on.
    """

    def __init__(self, table: BagTable, ids: Array, y: Array, out: NDArray[np.bool_], screen: Screen) -> None:
        self._table, self._ids, self._y, self._out, self._screen = table, ids, y, out, screen
        self._rows = {key: row for row, key in enumerate(ids.tolist())}
        self._aside: dict[int, tuple[Bags, Array]] = {}  # bags that are kept out, by batch
        self._pass, self.n_points = 0, 0
        self.bar: Any = None

    def __call__(self, start: int = 0) -> Iterator[tuple[Bags, Array, Array]]:
        self._pass += 1
        for number, (bags, rows) in enumerate(self._labelled(start), start):
            weight = ((rows >= 0) & ~self._out[rows]).astype(float)
            self._put_aside(number, bags, rows)
            yield bags, self._y[rows], weight
        self.bar.begin("choosing settings" if self._pass == 1 and not start else "solving")

    def _labelled(self, start: int) -> Iterator[tuple[Bags, Array]]:
        """Batches, and the row of the label of each bag, -1 where there is none."""
        self.bar.begin("sorting")
        first, self.n_points = True, 0
        for bags in batches_of(self._table, start):
            if first:
                doing = "looking at all bags" if self._pass == 1 and not start else "learning"
                self.bar.begin(doing, None if start else len(self._ids))
                first = False
            rows = np.array([self._rows.get(key, -1) for key in bags.ids.tolist()])
            self.n_points += bags.n_points
            yield bags, rows
            self.bar.advance(bags.n_bags)

    def _put_aside(self, number: int, bags: Bags, rows: Array) -> None:
        aside = (rows >= 0) & self._out[rows]
        if aside.any() and number not in self._aside:
            self._aside[number] = bags[aside], self._y[rows[aside]]

    def kept_out(self, n_skipped: int) -> tuple[Bags | None, Array]:
        """Bags that were kept out, and their labels; those of batches that an earlier run has read are read now."""
        if n_skipped and self._out.any():
            for number, (bags, rows) in enumerate(self._labelled(0)):
                self._put_aside(number, bags, rows)
        parts = [self._aside[number] for number in sorted(self._aside)]
        if not parts:
            return None, self._y[:0]
        return concat([bags for bags, _ in parts]), np.concatenate([y for _, y in parts])
