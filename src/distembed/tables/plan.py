"""From names of columns to a plan: how the files of a table become points, or the error that says what they lack.

Ids of bags have a kind in files (whole numbers, text, dates, ...), an arrow type in the sort, and NumPy's type in bags.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags.flat import few
from ..bags.ragged import arrow_lists
from ..compute.checks import Argument, Message
from .files import Head, TableError, describe, format_of, list_files, no_rows, pa, read_pieces

BAG_TYPES = ("auto", "integer", "text")
_TIME_UNITS = ("s", "ms", "us", "ns")
_INDEX = re.compile(r"__index_level_[0-9]+__")  # how pandas names an index without a name


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
    first = heads[0]
    chosen = _chosen(first, bag, columns, weights) if of_bags is None else list(columns)
    for head in heads:
        for name in chosen:
            check_column(head, of_bags or "columns", name)
        if weights is not None:
            check_column(head, "weights", weights)
    names, lists = chosen, False
    if of_bags is None:
        lists = _holds_lists(first.type_of(chosen[0]))
        for head in heads:
            _check_types(head, chosen, weights, lists)
        names = _coordinate_names(heads, chosen, delimiter)
    is_csv = format_of(first.path) == "CSV"
    numbers = [(head, name) for head in heads for name in (*chosen, weights) if name is not None]
    single = of_bags is None and all(_is_single(head.type_of(name)) for head in heads for name in chosen)
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
    )


# --------------------------------------------------------------------------------------------------------------
# Columns
# --------------------------------------------------------------------------------------------------------------


def check_column(head: Head, argument: str, name: Any) -> None:
    """Raise, with the closest name, unless a file has a column exactly once."""
    found = head.names.count(name)
    if found == 1:
        return
    where = Message(f"{str(head.path)!r}: ", Argument(argument), f" names column {name!r}, which the table")
    if found:
        raise TableError(Message(where, f" has {found} times; rename one of them"))
    separators = [sign for sign in ";\t|" if len(head.names) == 1 and sign in head.names[0]]
    if separators and format_of(head.path) == "CSV":
        why = f" lacks, because its header is one name, {head.names[0]!r}; pass "
        raise TableError(Message(where, why, Argument("delimiter", separators[0])))
    folded = {other.lower(): other for other in reversed(head.names)}
    close = difflib.get_close_matches(str(name).lower(), list(folded), 1)
    hint = f"did you mean {folded[close[0]]!r}?" if close else f"it has {few(head.names)}"
    raise TableError(Message(where, f" lacks; {hint}"))


def _chosen(head: Head, bag: str, columns: Any, weights: str | None) -> list[str]:
    """Return the names of the coordinate columns, by default those of numbers, or of lists where there are any."""
    if weights is not None and weights == bag:
        raise TableError(f"weights must be another column than bag, got {bag!r} for both; name the column of weights")
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        if bag in chosen:
            raise TableError(f"columns must not contain {bag!r}, the column of bag ids; leave it out")
        if not chosen or len(set(chosen)) < len(chosen):
            raise TableError(f"columns must be one or more names that differ, got {few(chosen)}; name each column once")
        return chosen
    typed = [
        (name, kind)
        for name, kind in zip(head.names, head.types, strict=True)
        if name not in (bag, weights) and not _INDEX.fullmatch(name)
    ]
    chosen = [name for name, kind in typed if _holds_lists(kind)] or [name for name, kind in typed if is_number(kind)]
    if not chosen:
        raise TableError(
            Message(
                f"{str(head.path)!r}: ", Argument("columns", None),
                " takes every column of numbers, and there is none beside ", Argument("bag", bag),
                f"; it has {few(head.names)}; convert a column, or name it in columns",
            )
        )  # fmt: skip
    return chosen


def _check_types(head: Head, chosen: list[str], weights: str | None, lists: bool) -> None:
    """Raise if a coordinate or weight is of a type that holds no numbers. In CSV, values tell."""
    for name in chosen if weights is None else [*chosen, weights]:
        kind = head.type_of(name)
        if lists != _holds_lists(kind) and (lists or _list_values(kind) is not None):
            rule = "lists of numbers, as the other columns" if lists else "numbers, as the other columns"
        elif not (lists or format_of(head.path) == "CSV" or is_number(kind) or pa.types.is_null(kind)):
            rule = "numbers"
        else:
            continue
        raise TableError(
            f"{str(head.path)!r}: column {name!r} must hold {rule}, got {kind}; convert it, or leave it out"
        )


def _coordinate_names(heads: list[Head], chosen: list[str], delimiter: str | None) -> list[str]:
    """Return the names of the coordinates: those of the columns, unless one column holds whole points."""
    path, kind = heads[0].path, heads[0].type_of(chosen[0])
    whole = [name for name in chosen if point_endings(heads[0].type_of(name)) is not None]
    if not whole:
        return chosen
    if len(chosen) > 1:
        raise TableError(
            f"{str(path)!r}: column {whole[0]!r} holds whole points, so it must be the only one of columns, got "
            f"{few(chosen)}; name it alone"
        )
    endings = point_endings(kind) or [str(j) for j in range(_first_width(heads, chosen[0], delimiter))]
    return endings if pa.types.is_struct(_list_values(kind)) else [f"{chosen[0]}_{end}" for end in endings]


def _first_width(heads: list[Head], name: str, delimiter: str | None) -> int:
    """Return the number of coordinates of the first point in a column of lists of lists."""
    for head in heads:
        for batch in read_pieces(head.path, delimiter, [name], {}):
            column = batch.column(batch.schema.names.index(name)).drop_null()
            points = arrow_lists(pa, column)[0].drop_null() if len(column) else column  # type: ignore[index]
            if len(points):
                return len(points[0])
    raise TableError(f"{str(heads[0].path)!r}: column {name!r} holds no points; check how it was written")


# --------------------------------------------------------------------------------------------------------------
# Types of numbers
# --------------------------------------------------------------------------------------------------------------


def is_number(kind: Any) -> bool:
    """Whether values of an arrow type are real numbers."""
    types = pa.types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _list_values(kind: Any) -> Any:
    """Return the type of the values of a list type, or None."""
    types = pa.types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if lists else None


def point_endings(kind: Any) -> list[str] | None:
    """Return the endings of the coordinates' names if lists of this type are of whole points, else None."""
    types, values = pa.types, _list_values(kind)
    if values is None:
        return None
    if types.is_struct(values):
        return [field.name for field in values] if all(is_number(field.type) for field in values) else None
    inner = _list_values(values)
    if inner is None or not is_number(inner):
        return None
    return [str(j) for j in range(values.list_size)] if types.is_fixed_size_list(values) else []


def _holds_lists(kind: Any) -> bool:
    """Whether values of an arrow type are lists of numbers or of whole points."""
    values = _list_values(kind)
    return values is not None and (is_number(values) or point_endings(kind) is not None)


def _is_single(kind: Any) -> bool:
    """Whether the numbers of a type fit float32: single or half precision, in lists or not."""
    types = pa.types
    if types.is_struct(kind):
        return all(_is_single(field.type) for field in kind)
    values = _list_values(kind)
    return bool(types.is_float32(kind) or types.is_float16(kind)) if values is None else _is_single(values)


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
