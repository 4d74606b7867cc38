"""Names and types of the columns of a file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bags.checks import few
from .errors import TableError
from .files import format_of
from .packages import arrow

__all__ = ["Head", "check_column", "holds_lists", "is_number", "is_single", "list_values", "point_endings"]


@dataclass(frozen=True)
class Head:
    """What the beginning of a file tells: types by name in file order, rows if known, and the kind of the ids."""

    path: Path
    names: tuple[str, ...]
    types: tuple[Any, ...]
    rows: int | None
    ids: str | None = None  # of a CSV file, whose types are guessed

    def type_of(self, name: str) -> Any:
        """Return the type of a column."""
        return self.types[self.names.index(name)]


def check_column(head: Head, argument: str, name: Any) -> None:
    """Raise, with the closest name, unless a file has a column exactly once."""
    found = head.names.count(name)
    if found == 1:
        return
    where = f"{str(head.path)!r}: {argument} names column {name!r}, which the table"
    if found:
        raise TableError(f"{where} has {found} times; rename one of them")
    separators = [sign for sign in ";\t|" if len(head.names) == 1 and sign in head.names[0]]
    if separators and format_of(head.path) == "CSV":
        raise TableError(
            f"{where} lacks, because its header is one name, {head.names[0]!r}; pass delimiter={separators[0]!r}"
        )
    folded = {other.lower(): other for other in reversed(head.names)}
    close = difflib.get_close_matches(str(name).lower(), list(folded), 1)
    if close:
        raise TableError(f"{where} lacks; did you mean {folded[close[0]]!r}?")
    raise TableError(f"{where} lacks; it has {few(head.names)}")


def is_number(kind: Any) -> bool:
    """Whether values of an arrow type are real numbers."""
    types = arrow().types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def list_values(kind: Any) -> Any:
    """Return the type of the values of a list type, or None."""
    types = arrow().types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if lists else None


def point_endings(kind: Any) -> list[str] | None:
    """Return the endings of the coordinates' names if lists of this type are of whole points, else None."""
    types, values = arrow().types, list_values(kind)
    if values is None:
        return None
    if types.is_struct(values):
        return [field.name for field in values] if all(is_number(field.type) for field in values) else None
    inner = list_values(values)
    if inner is None or not is_number(inner):
        return None
    return [str(j) for j in range(values.list_size)] if types.is_fixed_size_list(values) else []


def holds_lists(kind: Any) -> bool:
    """Whether values of an arrow type are lists of numbers or of whole points."""
    values = list_values(kind)
    return values is not None and (is_number(values) or point_endings(kind) is not None)


def is_single(kind: Any) -> bool:
    """Whether the numbers of a type fit float32: single or half precision, in lists or not."""
    types = arrow().types
    if types.is_struct(kind):
        return all(is_single(field.type) for field in kind)
    values = list_values(kind)
    return bool(types.is_float32(kind) or types.is_float16(kind)) if values is None else is_single(values)
