"""From names of columns to a plan: how the files of a table become points, or the error that says what they lack.

Ids of bags have a kind in files (whole numbers, text, dates, ...), an arrow type in the sort, and NumPy's type in bags.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, Message
from .columns import check_column, check_types, chosen_columns, coordinate_names, holds_lists, is_single
from .files import Head, TableError, describe, format_of, list_files, no_rows, pa

BAG_TYPES = ("auto", "integer", "text")
_TIME_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Plan:
    """How the files of a table become record batches."""

    files: tuple[Path, ...]
    delimiter: str | None
    bag: str
    columns: tuple[str, ...]  # of the table
    names: tuple[str, ...]  # of the coordinates, more than `columns` where one column holds whole points
    weights: str | None
    ids: str  # integer, unsigned, number, boolean, text, date, or the unit of a time
    guessed: bool  # whether CSV text was taken for integers or dates because it begins so
    dtype: np.dtype[Any]
    lists: bool  # one row a bag
    booleans: frozenset[tuple[Path, str]]  # columns of CSV files that hold true and false
    rows: int | None
    left_out: dict[str, str]  # columns that are no coordinates, and why
    gaps: bool = False  # whether missing coordinates are let through, as NaN

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{str(self.files[0])!r}{more}"


def make_plan(
    source: Any,
    bag: str,
    columns: Any,
    weights: str | None,
    delimiter: str | None,
    bag_type: str,
    of_bags: str | None = None,
) -> Plan:
    """Return how a table of points is read, or the error that names what its files lack.

    `of_bags` is the argument that names `columns`, if they are not coordinates but tell something of bags.
    """
    files = list_files(source)
    heads = [describe(path, delimiter, bag) for path in files]
    for head in heads:
        check_column(head, "bag", bag)
    heads = [head for head in heads if head.rows != 0]
    if not heads:
        raise no_rows(files)
    first, chosen = heads[0], list(columns or ())
    left_out: dict[str, str] = {}
    if of_bags is None:
        chosen, left_out = chosen_columns(heads, bag, columns, weights, delimiter)
    for head in heads:
        for name in chosen:
            check_column(head, of_bags or "columns", name)
        if weights is not None:
            check_column(head, "weights", weights)
    names, lists = chosen, False
    if of_bags is None:
        lists = holds_lists(first.type_of(chosen[0]))
        for head in heads:
            check_types(head, chosen, weights, lists)
        names = coordinate_names(heads, chosen, delimiter)
    is_csv = format_of(first.path) == "CSV"
    numbers = [(head, name) for head in heads for name in (*chosen, weights) if name is not None]
    single = of_bags is None and all(is_single(head.type_of(name)) for head in heads for name in chosen)
    return Plan(
        files=tuple(head.path for head in heads),
        delimiter=delimiter,
        bag=bag,
        columns=tuple(chosen),
        names=tuple(names),
        weights=weights,
        ids=_common_kind(heads, bag, bag_type),
        guessed=bag_type == "auto" and is_csv,
        dtype=np.dtype(np.float32 if single else float),
        lists=lists,
        booleans=frozenset(
            (head.path, name) for head, name in numbers if is_csv and pa.types.is_boolean(head.type_of(name))
        ),
        rows=None if any(head.rows is None for head in heads) else sum(head.rows or 0 for head in heads),
        left_out=left_out,
    )


# --------------------------------------------------------------------------------------------------------------
# Ids
# --------------------------------------------------------------------------------------------------------------


def _id_kind(head: Head, bag: str) -> str:
    if head.ids is not None:
        return head.ids
    types, kind = pa.types, head.type_of(bag)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = {
        "unsigned": types.is_uint64,
        "integer": types.is_integer,
        "number": types.is_floating,
        "boolean": types.is_boolean,
        "date": types.is_date,
        "text": lambda kind: str(kind) in ("string", "large_string", "string_view"),
    }
    found = next((name for name, test in tests.items() if test(kind)), None)
    if found is not None:
        return found
    if types.is_timestamp(kind):
        return str(kind.unit)
    if types.is_null(kind):
        raise TableError(f"{str(head.path)!r}: column {bag!r} of bag ids has no values; fill them in")
    raise TableError(
        f"{str(head.path)!r}: column {bag!r} of bag ids must hold whole numbers, text, dates or times, got {kind}; "
        "convert it to text"
    )


def _common_kind(heads: list[Head], bag: str, bag_type: str) -> str:
    """Return the one kind of ids of several files: the type asked for, or the one they have."""
    kinds = {_id_kind(head, bag): head for head in heads if head.ids is not None or format_of(head.path) != "CSV"}
    if bag_type != "auto":
        return bag_type
    if len(kinds) < 2:
        return next(iter(kinds), "text")
    if set(kinds) <= set(_TIME_UNITS):
        return max(kinds, key=_TIME_UNITS.index)
    if set(kinds) == {"integer", "unsigned"}:
        return "integer"
    (one, a), (two, b) = list(kinds.items())[:2]
    if format_of(a.path) == "CSV":
        return "text"
    text = (
        f"column {bag!r} of bag ids must be of one type in all files, got {one} in {str(a.path)!r} and {two} in "
        f"{str(b.path)!r}; convert one of them, or pass "
    )
    raise TableError(Message(text, Argument("bag_type", "text")))


def id_type(kind: str) -> Any:
    """Return the arrow type that ids of a kind have in the sort."""
    return {"text": pa.string(), "number": pa.float64(), "unsigned": pa.uint64()}.get(kind, pa.int64())


def cast_ids(column: Any, kind: str) -> Any:
    """Return ids as they are in the sort: dates and times as whole numbers. Raises ArrowInvalid for what is none."""
    if kind == "number":  # adding zero makes -0 and 0 one id
        return pa.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0)
    if kind == "date":
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if kind in _TIME_UNITS:
        return column.cast(pa.timestamp(kind, column.type.tz)).cast(pa.int64())
    return column.cast(id_type(kind))


def id_values(ids: Any, kind: str) -> NDArray[Any]:
    """Return ids as they are in the sort, an arrow array, as NumPy ids of their kind."""
    if kind == "text":
        return np.array(ids.to_pylist(), dtype=str)
    values: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    if kind == "boolean":
        return values.astype(bool)
    unit = "D" if kind == "date" else kind
    return values.astype(f"M8[{unit}]") if kind in ("date", *_TIME_UNITS) else values
