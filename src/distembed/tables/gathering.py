"""Points in order of their bags, by row groups of Parquet whose footers say between which ids they lie.

Row groups are read in order of their smallest id. Rows with an id below all that is still to come are complete: they
are sorted by themselves, and go. So a table that is in order, or nearly, is never sorted as a whole, and needs no pass
over its ids that says so; rows in memory are those of the row groups that overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Array
from .files import TableError, compute, format_of, pa, parquet, reading, source_of
from .plan import Plan

KINDS = ("integer", "unsigned", "text")  # of ids whose order is that of the footers
_RADIX = 1 << 16  # from so many bags on NumPy's sort compares


class RowGroup(NamedTuple):
    """A part of a file: its number in a footer, the ids between which it lies, its rows, and those before it.

    Rows before it are counted in its file, ``first``, and in the table, ``place``.
    """

    path: Path
    footer: Any
    number: int
    low: Any
    high: Any
    n_rows: int
    first: int
    place: int


def row_groups(plan: Plan) -> list[RowGroup] | None:
    """The row groups of a table; None where it is no Parquet, or where footers do not tell the ids."""
    if plan.lists or plan.how.joined or plan.ids not in KINDS or {*map(format_of, plan.files)} != {"Parquet"}:
        return None
    found, place = [], 0
    for path in plan.files:
        with reading(path):
            footer = parquet.read_metadata(source_of(path))
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
            first, place = first + group.num_rows, place + group.num_rows
    return found


def most_held(groups: Sequence[RowGroup]) -> int:
    """How many rows wait for others at most; twice as many may be in memory.

    Examples
    --------
    >>> made = [RowGroup(Path("t"), None, i, low, low + 15, 100, 0, 100 * i) for i, low in enumerate((0, 10, 20, 40))]
    >>> most_held(made), most_held(made[::-1])  # the second overlaps with the first and the third
    (200, 200)
    """
    ordered, most, held = _ordered(groups), 0, list[RowGroup]()
    for i, group in enumerate(ordered):
        held.append(group)
        most = max(most, sum(each.n_rows for each in held))
        held = [each for each in held if i + 1 < len(ordered) and each.high >= ordered[i + 1].low]
    return most


def gathered(
    groups: Sequence[RowGroup], read: Callable[[RowGroup], Iterator[Any]], since: Any = None
) -> Generator[Any, None, None]:
    """Yield the rows of all row groups sorted by bag, then by place in the table.

    Parameters
    ----------
    groups : sequence of RowGroup
        From :func:`row_groups`.
    read : callable
        Returns the record batches of a row group, ids first, in the order of the rows.
    since : int or str, optional
        Row groups whose ids all come before this one are not read.

    Yields
    ------
    pyarrow.RecordBatch
        With the columns of those that were read.
    """
    ordered = _ordered([group for group in groups if since is None or group.high >= since])
    held: list[Any] = []
    n_left = n_fresh = 0  # rows that were looked at in vain, and others
    for i, group in enumerate(ordered):
        place = group.place
        for batch in read(group):
            _check(group, batch.column(0))
            places = pa.array(np.arange(place, place + batch.num_rows))
            held.append(pa.record_batch([*batch.columns, places], names=[*batch.schema.names, ""]))
            place += batch.num_rows
        n_fresh += place - group.place
        is_last = i + 1 == len(ordered)
        if not held or (n_fresh < n_left and not is_last):  # else rows that wait long would be looked at too often
            continue
        rows = pa.Table.from_batches(held)
        if not is_last:
            complete = compute.less(rows.column(0), pa.scalar(ordered[i + 1].low, rows.column(0).type))
            held = rows.filter(compute.invert(complete)).to_batches()
            n_left, n_fresh = len(rows), 0
            rows = rows.filter(complete)
            n_left -= len(rows)
        yield from _sorted(rows.combine_chunks())


def _ordered(groups: Sequence[RowGroup]) -> list[RowGroup]:
    return sorted(groups, key=lambda group: (group.low, group.place))


def _sorted(rows: Any) -> Iterator[Any]:
    """Rows by id, then by place, without the places."""
    for batch in rows.to_batches():
        places = batch.column(batch.num_columns - 1).to_numpy()
        by_place = None if np.all(places[1:] > places[:-1]) else np.argsort(places, kind="stable")
        codes = _codes(batch.column(0))
        if by_place is None:
            order = np.argsort(codes, kind="stable")
        else:
            order = by_place[np.argsort(codes[by_place], kind="stable")]
        yield batch.select(range(batch.num_columns - 1)).take(pa.array(order))


def _codes(ids: Any) -> Array:
    """Numbers in the order of ids, small ones where there are few: these are sorted by counting."""
    if pa.types.is_integer(ids.type):
        values = ids.to_numpy()
        low = values.min()
        return np.asarray((values - low).astype(np.uint16) if int(values.max()) - int(low) < _RADIX else values)
    words = ids.dictionary_encode()
    rank = np.empty(len(words.dictionary), np.uint16 if len(words.dictionary) < _RADIX else np.int64)
    rank[compute.sort_indices(words.dictionary).to_numpy()] = np.arange(len(rank))
    return np.asarray(rank[words.indices.to_numpy()])


def _check(group: RowGroup, ids: Any) -> None:
    """Raise where a footer is wrong: rows would be lost."""
    if not len(ids):
        return
    found = compute.min_max(ids)
    if found["min"].as_py() < group.low or found["max"].as_py() > group.high:
        raise TableError(
            f"{str(group.path)!r}: row group {group.number} holds ids from {found['min'].as_py()!r} to "
            f"{found['max'].as_py()!r}, and the footer says {group.low!r} to {group.high!r}; write the file again"
        )
