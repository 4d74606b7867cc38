"""The sort of a table that is more than one piece: O(n log n) for n points, on disk beyond a memory limit.

Rows are read until there are as many as memory allows, sorted, and written to a file: a run. Parts of runs are then
gathered as row groups of Parquet are, see :mod:`distembed.tables.gathering`. Where there are too many runs for that,
they are made one before it goes on.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..compute.atomic_files import scratch_folder
from ..compute.parallel import ahead
from .files import ROWS, TableError, ipc, pa
from .gathering import RowGroup, gathered, in_order_of_ids
from .plan import Plan

_RUN_SHARE = 16  # of the memory limit: rows are read ahead, and there are copies of those that are sorted
_MOST_RUNS = 64  # that are gathered at a time
_PARTS = 128  # of a run: those that are in memory, one of each run and as many that wait, are less than two runs
_FEWEST = 1024  # rows of a part


@dataclass(frozen=True)
class SortLimits:
    """What a sort may use: memory, threads (None for all cores), and a folder for what exceeds memory."""

    memory_limit: str
    threads: int | None
    temp_directory: str | os.PathLike[str] | None

    @property
    def n_bytes(self) -> float:
        """The memory limit as a number.

        Examples
        --------
        >>> SortLimits("1.5 GB", None, None).n_bytes, SortLimits("2KiB", None, None).n_bytes
        (1500000000.0, 2048.0)
        """
        found = re.fullmatch(r"([0-9.]+) ?([KMGT]?)(i?)B", self.memory_limit.upper().replace("IB", "iB"))
        assert found is not None
        return float(found[1]) * float(1024 if found[3] else 1000) ** " KMGT".index(found[2] or " ")


def sort_outside(plan: Plan, limits: SortLimits, batches: Generator[Any, None, None]) -> Generator[Any, None, None]:
    """Yield points in order of bags, those of a bag in their order; files are removed at the end."""
    with scratch_folder(limits.temp_directory) as folder, closing(SortedRuns(plan, limits, batches, folder)) as runs:
        yield from runs.batches()


class SortedRuns:
    """The rows of record batches, ids first, sorted once and for all: in memory, or as runs in the files of a folder.

    Parameters
    ----------
    plan : Plan
        What errors are about.
    limits : SortLimits
        A run is a sixteenth of the memory limit.
    batches : generator of record batches
        Is read to its end at once.
    folder : str
        Where runs are written; the files are the folder's to remove.
    """

    def __init__(self, plan: Plan, limits: SortLimits, batches: Generator[Any, None, None], folder: str) -> None:
        self._plan = plan
        self._limits = limits
        self._folder = folder
        self._open = ExitStack()
        self._groups = list[RowGroup]()
        self._whole: list[Any] = []
        self._n_files = self._n_runs = self._n_rows = self._step = 0
        lists = _runs(batches, limits.n_bytes / _RUN_SHARE)
        try:
            with closing(lists if limits.threads == 1 else ahead(lists)) as runs:
                for run in runs:
                    if self._whole:
                        self._write(iter(self._whole))
                    self._whole = list(in_order_of_ids(run))
                    if self._n_runs == _MOST_RUNS:
                        self._merge()
            if self._n_runs:
                self._write(iter(self._whole))
                self._whole = []
        except BaseException:
            self.close()
            raise

    def batches(self) -> Generator[Any, None, None]:
        """All batches, from the first."""
        if not self._n_runs:
            for batch in self._whole:
                yield from (batch.slice(first, ROWS) for first in range(0, batch.num_rows, ROWS))
            return
        try:
            yield from gathered(self._groups, lambda part: iter([part.footer.get_batch(part.number)]))
        except (pa.ArrowException, OSError):
            raise self._error() from None

    def close(self) -> None:
        """Close the files."""
        self._groups = []
        self._open.close()

    def _write(self, batches: Iterator[Any]) -> None:
        """Write a run of sorted batches, in parts."""
        path = os.path.join(self._folder, f"run{self._n_files}")
        made = list[tuple[Any, Any, int]]()
        first = next(batches)
        step = self._step = self._step or max(_FEWEST, len(first) // _PARTS)
        try:
            with pa.OSFile(path, "wb") as sink, ipc.new_file(sink, first.schema) as writer:
                for batch in chain([first], batches):
                    for start in range(0, len(batch), step):
                        part = batch.slice(start, step)
                        writer.write_batch(part)
                        ids = part.column(0)
                        made.append((ids[0].as_py(), ids[-1].as_py(), len(part)))
            source = self._open.enter_context(pa.OSFile(path, "rb"))
            reader = self._open.enter_context(ipc.open_file(source))
        except (pa.ArrowException, OSError):
            raise self._error() from None
        for number, (low, high, n_rows) in enumerate(made):
            self._groups.append(RowGroup(Path(path), reader, number, low, high, n_rows, 0, self._n_rows))
            self._n_rows += n_rows
        self._n_files = self._n_files + 1
        self._n_runs = self._n_runs + 1

    def _merge(self) -> None:
        """Make one run of all."""
        old = self._groups
        files = self._open
        self._open = ExitStack()
        self._groups = []
        self._n_rows = 0
        self._n_runs = 0
        with files:
            self._write(gathered(old, lambda part: iter([part.footer.get_batch(part.number)])))
        for path in {part.path for part in old}:
            path.unlink()

    def _error(self) -> TableError:
        given = self._limits.temp_directory
        where = tempfile.gettempdir() if given is None else str(given)
        return TableError(
            f"{self._plan}: sorting by column {self._plan.bag!r} failed with temporary files in {where!r}; make room "
            "there, or name another temp_directory"
        )


def _runs(batches: Generator[Any, None, None], n_bytes: float) -> Generator[list[Any], None, None]:
    """Yield batches in lists of so many bytes."""
    held = list[Any]()
    size = 0
    with closing(batches):
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= n_bytes:
                yield held
                held = []
                size = 0
    if held:
        yield held
