"""Ids of bags: of which kind they are in files, the one type they have in the sort, and NumPy's again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import TableError
from .files import format_of
from .packages import arrow
from .schemas import Head

__all__ = ["BAG_TYPES", "DATE", "INTEGER", "UNITS", "can_cast", "cast_ids", "common_kind", "id_type", "id_values"]

BAG_TYPES = ("auto", "integer", "text")
# What text of CSV files is taken for integers and dates.
INTEGER, DATE = r"^(0|-?[1-9][0-9]{0,17})$", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
UNITS = ("s", "ms", "us", "ns")


def _id_kind(head: Head, bag: str) -> str:
    if head.ids is not None:
        return head.ids
    types, kind = arrow().types, head.type_of(bag)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = {
        "unsigned": types.is_uint64,
        "integer": types.is_integer,
        "number": types.is_floating,
        "boolean": types.is_boolean,
        "date": types.is_date,
    }
    for name, test in tests.items():
        if test(kind):
            return name
    if types.is_timestamp(kind):
        return str(kind.unit)
    if types.is_string(kind) or types.is_large_string(kind) or getattr(types, "is_string_view", lambda _: False)(kind):
        return "text"
    if types.is_null(kind):
        raise TableError(f"{str(head.path)!r}: column {bag!r} of bag ids has no values; fill them in")
    raise TableError(
        f"{str(head.path)!r}: column {bag!r} of bag ids must hold whole numbers, text, dates or times, got {kind}; "
        "convert it to text"
    )


def common_kind(heads: list[Head], bag: str, bag_type: str) -> str:
    """Return the one kind of ids of several files: the type asked for, or the one they have."""
    kinds = {_id_kind(head, bag): head for head in heads if head.ids is not None or format_of(head.path) != "CSV"}
    if bag_type != "auto":
        return bag_type
    if len(kinds) < 2:
        return next(iter(kinds), "text")
    if set(kinds) <= set(UNITS):
        return max(kinds, key=UNITS.index)
    if set(kinds) == {"integer", "unsigned"}:
        return "integer"
    (one, a), (two, b) = list(kinds.items())[:2]
    if format_of(a.path) == "CSV":
        return "text"
    raise TableError(
        f"column {bag!r} of bag ids must be of one type in all files, got {one} in {str(a.path)!r} and {two} in "
        f"{str(b.path)!r}; convert one of them, or pass bag_type='text'"
    )


def id_type(kind: str) -> Any:
    """Return the arrow type that ids of a kind have in the sort."""
    pa = arrow()
    return {"text": pa.string(), "number": pa.float64(), "unsigned": pa.uint64()}.get(kind, pa.int64())


def cast_ids(column: Any, kind: str) -> Any:
    """Return ids as they are in the sort: dates and times as whole numbers. Raises ArrowInvalid for what is none."""
    pa = arrow()
    if kind == "number":  # adding zero makes -0 and 0 one id
        return pa.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0)
    if kind == "date":
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if kind in UNITS:
        return column.cast(pa.timestamp(kind, column.type.tz)).cast(pa.int64())
    return column.cast(id_type(kind))


def can_cast(column: Any, kind: str) -> bool:
    """Whether `cast_ids` takes these ids."""
    try:
        cast_ids(column, kind)
    except arrow().ArrowInvalid:
        return False
    return True


def id_values(ids: Any, kind: str) -> NDArray[Any]:
    """Return ids as they are in the sort, an arrow array, as NumPy ids of their kind."""
    if kind == "text":
        return np.array(ids.to_pylist(), dtype=str)
    values: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    if kind == "boolean":
        return values.astype(bool)
    unit = "D" if kind == "date" else kind
    return values.astype(f"M8[{unit}]") if kind in ("date", *UNITS) else values
