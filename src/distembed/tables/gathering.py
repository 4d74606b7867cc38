"""Points in order of their bags, by parts of a table of which is known between which ids they lie.

Footers of Parquet tell that of row groups, and a sort of the parts that it has written. These are read in order of
their smallest id. Rows with an id below all that is still to come are complete: they are sorted by themselves, and go.
So a table that is in order, or nearly, is never sorted as a whole, and needs no pass over its ids that says so; rows in
memory are those of the parts that overlap.
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
_RADIX = 1 << 16  # from so many ids on NumPy's sort compares


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
    found = []
    place = 0
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
            first = first + group.num_rows
            place = place + group.num_rows
    return found


def most_held(groups: Sequence[RowGroup]) -> int:
    """How many rows wait for others at most; twice as many may be in memory.

    Examples
    --------
    >>> made = [RowGroup(Path("t"), None, i, low, low + 15, 100, 0, 100 * i) for i, low in enumerate((0, 10, 20, 40))]
    >>> most_held(made), most_held(made[::-1])  # the second overlaps with the first and the third
    (200, 200)
    """
    ordered = _ordered(groups)
    most = 0
    held = list[RowGroup]()
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
    held: list[tuple[int, Any]] = []  # batches that are not complete, and the places of their first rows
    n_left = n_fresh = 0  # rows that were looked at in vain, and others
    for i, group in enumerate(ordered):
        place = group.place
        for batch in read(group):
            _check(group, batch.column(0))
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
        yield from in_order_of_ids(rows)


def in_order_of_ids(batches: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows of some batches, ids first, in order of ids; those of one id stay in their order."""
    for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
        yield batch.take(pa.array(_stable_order(batch.column(0))))


def _ordered(groups: Sequence[RowGroup]) -> list[RowGroup]:
    return sorted(groups, key=lambda group: (group.low, group.place))


def _stable_order(ids: Any) -> Array:
    """The order of ids; numbers of 16 bits are sorted by counting, so others are, where two are enough."""
    codes = _codes(ids)
    n_codes = int(codes.max()) + 1
    if n_codes <= _RADIX or n_codes > _RADIX**2:
        return np.argsort(codes.astype(np.uint16) if n_codes <= _RADIX else codes, kind="stable")
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # by the last sixteen bits
    return np.asarray(order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")])


def _codes(ids: Any) -> Array:
    """Numbers from zero on in the order of ids."""
    if pa.types.is_integer(ids.type):
        values = ids.to_numpy()
        low = values.min()
        return np.asarray(values.astype(np.uint64) - np.uint64(int(low) % 2**64))  # modulo 2^64, which has room
    words = ids.dictionary_encode()
    rank = np.empty(len(words.dictionary), np.uint64)
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
