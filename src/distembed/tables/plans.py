"""From names of columns to a plan: how the files of a table become points, or the error that says what they lack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..bags.checks import few
from ..bags.ragged import _unlist
from .errors import TableError, no_rows
from .files import format_of, list_files
from .ids import common_kind
from .packages import arrow
from .readers import describe, read_pieces
from .schemas import Head, check_column, holds_lists, is_number, is_single, list_values, point_endings

__all__ = ["Plan", "label_plan", "make_plan"]

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

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{str(self.files[0])!r}{more}"


def make_plan(source: Any, bag: str, columns: Any, weights: str | None, delimiter: str | None, bag_type: str) -> Plan:
    """Return how a table is read, or the error that names what its files lack."""
    filled = _filled(source, bag, delimiter)
    first = filled[0]
    chosen = _chosen(first, bag, columns, weights)
    for head in filled:
        for name in chosen:
            check_column(head, "columns", name)
        if weights is not None:
            check_column(head, "weights", weights)
    lists = holds_lists(first.type_of(chosen[0]))
    for head in filled:
        _check_types(head, chosen, weights, lists)
    endings = point_endings(first.type_of(chosen[0])) if lists else None
    whole = [name for name in chosen if point_endings(first.type_of(name)) is not None]
    if whole and len(chosen) > 1:
        raise TableError(
            f"{str(first.path)!r}: column {whole[0]!r} holds whole points, so it must be the only one of columns, got "
            f"{few(chosen)}; name it alone"
        )
    if endings == []:
        endings = [str(j) for j in range(_first_width(filled, chosen[0], delimiter))]
    struct = endings is not None and arrow().types.is_struct(list_values(first.type_of(chosen[0])))
    names = chosen if endings is None else [end if struct else f"{chosen[0]}_{end}" for end in endings]
    return Plan(
        files=tuple(head.path for head in filled),
        delimiter=delimiter,
        bag=bag,
        columns=tuple(chosen),
        names=tuple(names),
        weights=weights,
        ids=common_kind(filled, bag, bag_type),
        guessed=bag_type == "auto" and format_of(first.path) == "CSV",
        dtype=np.dtype(
            np.float32 if all(is_single(head.type_of(name)) for head in filled for name in chosen) else float
        ),
        lists=lists,
        booleans=frozenset(
            (head.path, name) for head in filled for name in (*chosen, weights) if name and _is_boolean(head, name)
        ),
        rows=None if any(head.rows is None for head in filled) else sum(head.rows or 0 for head in filled),
    )


def _filled(source: Any, bag: str, delimiter: str | None) -> list[Head]:
    """Return the beginnings of the files that have rows."""
    files = list_files(source)
    heads = [describe(path, delimiter, bag) for path in files]
    for head in heads:
        check_column(head, "bag", bag)
    filled = [head for head in heads if head.rows != 0]
    if not filled:
        raise no_rows(files)
    return filled


def label_plan(source: Any, bag: str, label: str, delimiter: str | None, bag_type: str) -> Plan:
    """Return how a table of labels is read, or the error that names what its files lack."""
    filled = _filled(source, bag, delimiter)
    for head in filled:
        check_column(head, "label", label)
    return Plan(
        files=tuple(head.path for head in filled),
        delimiter=delimiter,
        bag=bag,
        columns=(label,),
        names=(label,),
        weights=None,
        ids=common_kind(filled, bag, bag_type),
        guessed=bag_type == "auto" and format_of(filled[0].path) == "CSV",
        dtype=np.dtype(float),
        lists=False,
        booleans=frozenset(),
        rows=None,
    )


def _is_boolean(head: Head, name: str) -> bool:
    return format_of(head.path) == "CSV" and bool(arrow().types.is_boolean(head.type_of(name)))


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
    chosen = [name for name, kind in typed if holds_lists(kind)] or [name for name, kind in typed if is_number(kind)]
    if not chosen:
        raise TableError(
            f"{str(head.path)!r}: columns=None takes every column of numbers, and there is none beside bag={bag!r}; it "
            f"has {few(head.names)}; convert a column, or name it in columns"
        )
    return chosen


def _check_types(head: Head, chosen: list[str], weights: str | None, lists: bool) -> None:
    """Raise if a coordinate or weight is of a type that holds no numbers. In CSV, values tell."""
    numbers = chosen if weights is None else [*chosen, weights]
    types = arrow().types
    for name in numbers:
        kind = head.type_of(name)
        if lists != holds_lists(kind) and (lists or list_values(kind) is not None):
            rule = "lists of numbers, as the other columns" if lists else "numbers, as the other columns"
        elif not lists and format_of(head.path) != "CSV" and not (is_number(kind) or types.is_null(kind)):
            rule = "numbers"
        else:
            continue
        raise TableError(
            f"{str(head.path)!r}: column {name!r} must hold {rule}, got {kind}; convert it, or leave it out"
        )


def _first_width(heads: list[Head], name: str, delimiter: str | None) -> int:
    """Return the number of coordinates of the first point in a column of lists of lists."""
    pa = arrow()
    for head in heads:
        for batch in read_pieces(head.path, delimiter, [name], {}):
            column = batch.column(batch.schema.names.index(name)).drop_null()
            points = _unlist(pa, column)[0].drop_null() if len(column) else column  # type: ignore[index]
            if len(points):
                return len(points[0])
    raise TableError(f"{str(heads[0].path)!r}: column {name!r} holds no points; check how it was written")
