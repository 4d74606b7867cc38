"""Fits to batches from disk, in bounded memory, and a checkpoint from which a stopped fit goes on.

A file of its own because it needs NumPy to be imported, and ``distembed fit --help`` does without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..bags import Bags, concat
from ..compute.arrays import Array
from ..compute.checks import in_pieces
from ..compute.progress import Stages
from ..files import load
from ..learners.batch import fingerprint, is_same_fit
from ..tables import BagTable, TableError
from ..tables.paths import digest_of_parts
from . import options as opt
from .app import Screen, explain_if_stopped
from .fit_task import FitTask, Fitted

_MERE_MEANS = ("memory_limit", "temp_directory", "threads")  # options of tables that change no bag
_RESOLVED = ("bag", "columns", "weights", "nan")  # options of which the table knows what they came to


@contextmanager
def keep_until_saved(checkpoint: Path) -> Iterator[None]:
    """Remove a checkpoint at the end, when the model is in its file; if stopped before, show how to continue."""

    def how_to_go_on() -> str:
        if not checkpoint.exists():
            return "stopped before anything was worth keeping; the same command begins again"
        return f"stopped; what was done is kept in {str(checkpoint)!r}, and the same command goes on from there"

    with explain_if_stopped(how_to_go_on):
        yield
    checkpoint.unlink(missing_ok=True)


def remove_checkpoint(path: Path) -> None:
    """Remove the half-finished fit of a model that is now there, made otherwise; a file of another kind stays."""
    with suppress(ValueError, OSError):
        if "made_from" in getattr(load(path), "table_", {}):
            path.unlink()


def fit_out_of_core(
    task: FitTask, options: opt.TableOptions, checkpoint: Path, restart: bool, screen: Screen
) -> Fitted:
    """Fit to batches from disk; what is done is kept in a checkpoint, which stays."""
    model = task.model
    start = perf_counter()
    with screen.bar("reading ids", task.table.known_points, "points") as bar:
        ids = task.table.ids(progress=bar)
    kept_ids, y, groups, out = task.labelled(ids)
    seconds = {"reading ids": perf_counter() - start}
    fitted = Fitted(model, len(y), 0, seconds=seconds, n_unlabelled=len(ids) - len(y))
    columns = task.covariates_of(kept_ids)
    decided = (ids, kept_ids, y, groups, out, *(columns or {}).values())
    model.table_ = {**model.table_, "made_from": _fingerprint(task, options, *decided)}
    n_done, earlier = _look_at_checkpoint(model, checkpoint, restart, screen)
    start = perf_counter()
    pieces = in_pieces((task.table.known_points or 0) / opt.BATCH_POINTS)
    with screen.bar("sorting") as bar, task.table.sorted_once(), pieces:
        source = _Batches(task.table, len(ids), kept_ids, y, groups, out, bar, columns)
        source.fingerprint = model.table_["made_from"]
        classes = np.unique(y[~out]) if is_classifier(model) else None
        model.fit_batches(source, classes=classes, checkpoint=checkpoint, keep_checkpoint=True, progress=source)
        inside = dict(model.timings_)
        seconds |= inside
        seconds["sorting and reading"] = perf_counter() - start - sum(inside.values()) + earlier
        if out.any():
            bags, rows = source.kept_out(n_done)
            given = None if columns is None else {name: values[rows] for name, values in columns.items()}
            fitted.use_kept_out(bags, y[rows], None if groups is None else groups[rows], task.coverage, bar, given)
    fitted.n_points = source.n_points
    del model.table_["made_from"]
    return fitted


def _fingerprint(task: FitTask, options: opt.TableOptions, *decided: Array | None) -> str:
    """Which data a checkpoint belongs to: the content of the table, how it is read, and the labels they came to."""
    table = task.table
    read = {name: each for name, each in vars(options).items() if name not in (*_MERE_MEANS, *_RESOLVED)}
    asked = (task.missing, task.test, task.coverage, task.seed, read)
    content = digest_of_parts(table.files)
    return fingerprint((asked, content, table.bag, table.columns, table.weights, table.nan), decided)


def _look_at_checkpoint(model: Any, path: Path, restart: bool, screen: Screen) -> tuple[int, float]:
    """Number of batches that are done, and seconds of stages; a checkpoint of other data or settings is refused."""
    if restart:
        path.unlink(missing_ok=True)
    if not path.exists():
        return 0, 0.0
    remedy = "add --restart to begin again, or choose another -o"
    try:
        kept = load(path)
    except ValueError:
        raise TableError(f"{str(path)!r} should be a half-finished fit and can't be read; {remedy}") from None
    if not is_same_fit(kept, model) or getattr(kept, "table_", None) != model.table_:
        raise TableError(f"{str(path)!r} is a half-finished fit of other data or settings; {remedy}")
    screen.note(f"going on from {str(path)!r}: {kept.n_batches_seen_} batches are done")
    return int(kept.n_batches_seen_), float(sum(kept.timings_.values()))


class _Batches:
    """Batches with their labels for ``fit_batches``; bags that are kept out, or have no label, weigh nothing.

    So there is one batch for every batch of the table, and the number of those that are done tells where to go on. It
    is told of the stages of the fit, and shows that the table is being sorted until its first batch comes.
    """

    fingerprint = ""  # of what they are made from

    def __init__(
        self,
        table: BagTable,
        n_bags: int,
        ids: Array,
        y: Array,
        groups: Array | None,
        out: Array,
        bar: Stages,
        columns: dict[str, Array] | None,
    ) -> None:
        self._table = table
        self._n_bags = n_bags
        self._y = y
        self._groups = groups
        self._out = out
        self._bar = bar
        self._columns = columns  # covariates
        self._ids = ids  # sorted
        self._aside: dict[int, tuple[Bags, Array]] = {}  # bags that are kept out, and their rows, by batch
        self._stage: tuple[str, int | None] = ("sorting", None)
        self._done = self.n_points = 0

    def begin(self, stage: str, total: int | None) -> None:
        """The next stage; passes over all bags have as many bags as the table."""
        passes = stage in ("looking at all bags", "learning", "looking for bags kept out")
        self._stage = (stage, self._n_bags if total is None and passes else total)
        self._done = 0
        self._bar.begin(*self._stage)

    def advance(self, more: int) -> None:
        """So much more of it is done."""
        self._done += more
        self._bar.advance(more)

    def __call__(self, start: int = 0) -> Iterator[tuple[Bags, Array, Array, Array | None, dict[str, Array] | None]]:
        for bags, rows in self._labelled(start):
            weight = ((rows >= 0) & ~self._out[rows]).astype(float)
            groups = None if self._groups is None else self._groups[rows]
            columns = None if self._columns is None else {name: each[rows] for name, each in self._columns.items()}
            yield bags, self._y[rows], weight, groups, columns

    def _labelled(self, start: int) -> Iterator[tuple[Bags, Array]]:
        """Batches, and the row of the label of each bag, -1 where there is none; bags kept out are put aside."""
        self._bar.begin("sorting", None)
        self.n_points = 0
        for number, bags in enumerate(self._table.batches(max_points=opt.BATCH_POINTS, start=start), start):
            if number == start:
                self._bar.begin(*self._stage)
                self._bar.advance(self._done)
            rows = np.minimum(np.searchsorted(self._ids, bags.ids), len(self._ids) - 1)
            rows[self._ids[rows] != bags.ids] = -1
            aside = (rows >= 0) & self._out[rows]
            if aside.any() and number not in self._aside:
                self._aside[number] = bags[aside], rows[aside]
            self.n_points += bags.n_points
            yield bags, rows

    def kept_out(self, n_skipped: int) -> tuple[Bags, Array]:
        """Bags that were kept out, and their rows; those of batches that an earlier run has read are read now."""
        if n_skipped:
            self.begin("looking for bags kept out", None)
            for bags, _ in self._labelled(0):
                self.advance(bags.n_bags)
        parts, rows = zip(*(self._aside[number] for number in sorted(self._aside)), strict=True)
        return concat(parts), np.concatenate(rows)
