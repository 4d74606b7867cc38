"""Points in order of their bags: as they stand, gathered from row groups that overlap little, or sorted.

*As they stand*, where a pass over the ids finds them in order.

*Gathered.* Footers of Parquet have the smallest and the largest id of every row group. Row groups are read in order of
their smallest id; rows with an id below all that is still to come are complete: they are sorted by themselves, and go.
So a table that is in order, or nearly, is never sorted as a whole, and needs no pass over its ids before; rows in
memory are those of the row groups that overlap.

*Sorted*: O(n log n) for n points, on disk beyond a memory limit. Rows are read until there are as many as memory
allows, sorted, and written to a file: a run. Parts of runs are then gathered as row groups are. Where there are too
many runs for that, they are made one before it goes on.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..bags.flat import few
from ..compute.arrays import Array
from ..compute.atomic_files import scratch_folder
from ..compute.parallel import ahead
from .arrow import compute, ipc, pa
from .paths import LocalPath, TableError
from .plan import Plan, id_type, id_values
from .points import RowGroup, stream

FEW_ROWS_TO_SORT = 65_536  # of a table: one piece, which is sorted at once
_FOOTER_KINDS = ("integer", "unsigned", "text")  # of ids whose order is that of the footers
_RADIX = 1 << 16  # NumPy sorts this many different numbers by counting, and compares more of them
_COPIES = 4  # of rows that are gathered: those that wait, as many new ones, and both again when some go
_RUN_SHARE = 16  # of the memory limit: rows are read ahead, and there are copies of those that are sorted
_PARTS = 128  # of a run: those that are in memory, one of each run and as many that wait, are less than two runs
_FEW_IDS = 1 << 20
_MOST_TICKED = 1 << 26  # ids, present or not


# --------------------------------------------------------------------------------------------------------------
# As they stand
# --------------------------------------------------------------------------------------------------------------


class _OutOfOrder(TableError):
    """A row of a bag that comes after rows of a later one."""


def is_in_order(plan: Plan) -> bool:
    """Whether rows stand in order of their ids, by a pass over the ids that ends where the order does."""
    try:
        for _ in in_order(plan, ids_only=True):
            pass
    except _OutOfOrder:
        return False
    return True


def in_order(plan: Plan, *, ids_only: bool, since: Any = None) -> Generator[Any, None, None]:
    """Yield the batches of `stream` if they are in order of their ids, and an error where they are not."""
    last: Any = None
    for batch in stream(plan, ids_only=ids_only, since=since):
        ids = batch.column(0) if last is None else pa.concat_arrays([last, batch.column(0)])
        falls = np.flatnonzero(compute.less(ids.slice(1), ids.slice(0, len(ids) - 1)))
        if falls.size:
            before, after = (few(id_values(ids.slice(row, 1), plan.ids)) for row in (falls[0], falls[0] + 1))
            raise _OutOfOrder(
                f"{plan}, column {plan.bag!r}: sorted=True needs rows in order of bags, but bag {after} "
                f"comes back after bag {before}; leave sorted out, and the table is sorted on the way"
            )
        last = ids.slice(len(ids) - 1)
        yield batch


# --------------------------------------------------------------------------------------------------------------
# Row groups
# --------------------------------------------------------------------------------------------------------------


def row_groups(plan: Plan) -> list[RowGroup] | None:
    """Return the row groups of a table; None where it is not Parquet, or where footers do not have the ids."""
    if plan.lists or plan.how.joined or plan.ids not in _FOOTER_KINDS:
        return None
    found = []
    place = 0
    for path in plan.files:
        footer = plan.format.footer(path)
        if footer is None:
            return None
        names = [footer.schema.column(j).path for j in range(footer.num_columns)]
        first = 0
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if not group.num_rows:
                continue
            known = group.column(names.index(plan.bag)).statistics
            if known is None or not known.has_min_max or isinstance(known.min, str) != (plan.ids == "text"):
                return None
            found.append(RowGroup(path, footer, number, known.min, known.max, group.num_rows, first, place))
            first = first + group.num_rows
            place = place + group.num_rows
    return found


def most_held(groups: Sequence[RowGroup]) -> int:
    """Return how many rows wait for others at most; twice as many may be in memory.

    Examples
    --------
    >>> path = LocalPath("t")
    >>> made = [RowGroup(path, None, i, low, low + 15, 100, 0, 100 * i) for i, low in enumerate((0, 10, 20, 40))]
    >>> most_held(made), most_held(made[::-1])  # the second overlaps with the first and the third
    (200, 200)
    """
    ordered = _by_lowest_id(groups)
    most = 0
    held = list[RowGroup]()
    for i, group in enumerate(ordered):
        held.append(group)
        most = max(most, sum(each.n_rows for each in held))
        held = [each for each in held if i + 1 < len(ordered) and each.high >= ordered[i + 1].low]
    return most


def merge_groups(
    groups: Sequence[RowGroup], read: Callable[[RowGroup], Iterator[Any]], since: Any = None
) -> Generator[Any, None, None]:
    """Yield the rows of all row groups sorted by bag, then by place in the table.

    Parameters
    ----------
    groups : sequence of RowGroup
        From `row_groups`.
    read : callable
        Returns the record batches of a row group, ids first, in the order of the rows.
    since : int or str, optional
        Row groups whose ids all come before this one are not read.

    Yields
    ------
    pyarrow.RecordBatch
        With the columns of those that were read.
    """
    ordered = _by_lowest_id([group for group in groups if since is None or group.high >= since])
    held: list[tuple[int, Any]] = []  # batches that are not complete, and the places of their first rows
    n_left = n_fresh = 0  # rows that were looked at in vain, and others
    for i, group in enumerate(ordered):
        place = group.place
        for batch in read(group):
            _check_footer(group, batch.column(0))
            held.append((place, batch))
            place += batch.num_rows
        n_fresh += place - group.place
        is_last = i + 1 == len(ordered)
        if not held or (n_fresh < n_left and not is_last):  # else rows that wait long would be looked at too often
            continue
        held.sort(key=lambda each: each[0])
        rows = [batch for _, batch in held]
        if is_last:
            held = []
        else:
            low = pa.scalar(ordered[i + 1].low, rows[0].column(0).type)
            complete = [compute.less(batch.column(0), low) for batch in rows]
            rest = [batch.filter(compute.invert(mask)) for batch, mask in zip(rows, complete, strict=True)]
            held = [(place, batch) for (place, _), batch in zip(held, rest, strict=True) if batch.num_rows]
            rows = [batch.filter(mask) for batch, mask in zip(rows, complete, strict=True)]
            n_left = sum(batch.num_rows for batch in rest)
            n_fresh = 0
        yield from sort_by_id(rows)


def sort_by_id(batches: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows of some batches, ids first, in order of ids; those of one id stay in their order."""
    for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
        yield batch.take(pa.array(_stable_order(batch.column(0))))


def _by_lowest_id(groups: Sequence[RowGroup]) -> list[RowGroup]:
    return sorted(groups, key=lambda group: (group.low, group.place))


def _stable_order(ids: Any) -> Array:
    """Return the order of ids; numbers of 16 bits are sorted by counting, so others are, where two are enough."""
    codes = _codes(ids)
    n_codes = int(codes.max()) + 1
    if n_codes <= _RADIX or n_codes > _RADIX**2:
        return np.argsort(codes.astype(np.uint16) if n_codes <= _RADIX else codes, kind="stable")
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # by the last sixteen bits
    return np.asarray(order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")])


def _codes(ids: Any) -> Array:
    """Return numbers from zero on in the order of ids."""
    if pa.types.is_integer(ids.type):
        values = ids.to_numpy()
        low = values.min()
        return np.asarray(values.astype(np.uint64) - np.uint64(int(low) % 2**64))  # modulo 2^64, which has room
    words = ids.dictionary_encode()
    rank = np.empty(len(words.dictionary), np.uint64)
    rank[compute.sort_indices(words.dictionary).to_numpy()] = np.arange(len(rank))
    return np.asarray(rank[words.indices.to_numpy()])


def _check_footer(group: RowGroup, ids: Any) -> None:
    """Raise where a footer is wrong: rows would be lost."""
    if not len(ids):
        return
    found = compute.min_max(ids)
    if found["min"].as_py() < group.low or found["max"].as_py() > group.high:
        raise TableError(
            f"{str(group.path)!r}: row group {group.number} holds ids from {found['min'].as_py()!r} to "
            f"{found['max'].as_py()!r}, and the footer says {group.low!r} to {group.high!r}; write the file again"
        )


def gather(plan: Plan, limits: SortLimits, *, ids_only: bool, since: Any) -> Generator[Any, None, None] | None:
    """Return the batches of `sort` without a sort of the whole; None without ids in footers, or if too many overlap."""
    if plan.rows is None or plan.rows <= FEW_ROWS_TO_SORT:
        return None
    groups = row_groups(plan)
    row_bytes = (
        2 * 8 + 16 * (plan.ids == "text") + len(plan.names) * plan.dtype.itemsize + 8 * (plan.weights is not None)
    )
    if groups is None or _COPIES * row_bytes * most_held(groups) > limits.n_bytes:
        return None
    return merge_groups(groups, lambda group: stream(plan, ids_only=ids_only, since=since, group=group), since)


def distinct_ids(plan: Plan, tell: Callable[[int], object], groups: Sequence[RowGroup] | None = None) -> Any:
    """Return the ids of all bags, sorted, as an arrow array, by one pass; `tell` is told how many rows are read.

    Whole numbers between the smallest and the largest of `groups`, by default those of the footers, are ticked off if
    they are not too far apart, which costs a tenth of hashing.
    """
    if groups is None:
        groups = (row_groups(plan) if plan.ids in ("integer", "unsigned") else None) or []
    low = min((group.low for group in groups), default=0)
    high = max((group.high for group in groups), default=-1)
    there = np.zeros(high - low + 1 if high - low < _MOST_TICKED else 0, bool)
    # other ids of pieces, and how many there were when they were last made one
    found = list[Any]()
    known = 0
    with closing(stream(plan, ids_only=True)) as batches:
        for batch in batches:
            ids = batch.column(0)
            values = ids.to_numpy() if len(there) else None
            if values is not None and values.min() >= low and values.max() <= high:
                there[values - low] = True
            else:
                found.append(ids.unique())
            if sum(map(len, found)) > 2 * known:
                found = [pa.concat_arrays(found).unique()]
                known = len(found[0]) + _FEW_IDS
            tell(batch.num_rows)
    kind = id_type(plan.ids)
    ticked = [pa.array(np.flatnonzero(there).astype(kind.to_pandas_dtype()) + low)] if len(there) else []
    every = pa.concat_arrays([*ticked, *found]).unique()
    return every.take(compute.sort_indices(every))


# --------------------------------------------------------------------------------------------------------------
# Sorted
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SortLimits:
    """What a sort may use: memory, threads (None for all cores), and a folder for what exceeds memory.

    `most_runs` are merged at a time, in parts of at least `fewest_rows`.
    """

    memory_limit: str
    threads: int | None = None
    temp_directory: str | os.PathLike[str] | None = None
    most_runs: int = 64
    fewest_rows: int = 1024

    @property
    def n_bytes(self) -> float:
        """The memory limit as a number.

        Examples
        --------
        >>> SortLimits("1.5 GB").n_bytes, SortLimits("2KiB").n_bytes
        (1500000000.0, 2048.0)
        """
        found = re.fullmatch(r"([0-9.]+) ?([KMGT]?)(i?)B", self.memory_limit.upper().replace("IB", "iB"))
        assert found is not None
        return float(found[1]) * float(1024 if found[3] else 1000) ** " KMGT".index(found[2] or " ")


def sort(plan: Plan, limits: SortLimits, *, ids_only: bool, since: Any) -> Generator[Any, None, None]:
    """Yield the points of `stream` sorted by bag, then by place in the table; temporary files go at the end."""
    batches = stream(plan, ids_only=ids_only, since=since)
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
        self.n_merges = 0
        lists = _runs(batches, limits.n_bytes / _RUN_SHARE)
        try:
            with closing(lists if limits.threads == 1 else ahead(lists)) as runs:
                for run in runs:
                    if self._whole:
                        self._write(iter(self._whole))
                    self._whole = list(sort_by_id(run))
                    if self._n_runs == limits.most_runs:
                        self._merge()
            if self._n_runs:
                self._write(iter(self._whole))
                self._whole = []
        except BaseException:
            self.close()
            raise

    def batches(self) -> Generator[Any, None, None]:
        """Yield all batches, from the first."""
        step = self._plan.how.rows
        if not self._n_runs:
            for batch in self._whole:
                yield from (batch.slice(first, step) for first in range(0, batch.num_rows, step))
            return
        try:
            yield from merge_groups(self._groups, lambda part: iter([part.footer.get_batch(part.number)]))
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
        step = self._step = self._step or max(self._limits.fewest_rows, len(first) // _PARTS)
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
            self._groups.append(RowGroup(LocalPath(path), reader, number, low, high, n_rows, 0, self._n_rows))
            self._n_rows += n_rows
        self._n_files = self._n_files + 1
        self._n_runs = self._n_runs + 1

    def _merge(self) -> None:
        """Make one run of all."""
        self.n_merges += 1
        old = self._groups
        files = self._open
        self._open = ExitStack()
        self._groups = []
        self._n_rows = 0
        self._n_runs = 0
        with files:
            self._write(merge_groups(old, lambda part: iter([part.footer.get_batch(part.number)])))
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
    """Yield batches in lists of this many bytes."""
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
