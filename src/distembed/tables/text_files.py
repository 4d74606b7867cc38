"""CSV files: types by their first block, rows block by block, and the line of what is wrong."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import TableError
from .files import reading, unreadable
from .ids import DATE, INTEGER
from .packages import arrow
from .schemas import Head, is_number

__all__ = ["BLOCK", "check_delimiter", "csv_batches", "csv_head", "line_of", "separator"]

BLOCK = 1 << 22  # bytes read at once; the first block tells the types
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf(inity)?)|true|false|", re.I)


def check_delimiter(owner: str, delimiter: Any) -> None:
    """Raise unless a delimiter is one character, or None."""
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1):
        raise ValueError(f"{owner}(delimiter=...): must be one character, got {delimiter!r}; give ';', for example")


def separator(path: Path, delimiter: str | None) -> str:
    """Return what stands between the values of a CSV file."""
    return delimiter or ("\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ",")


def _open_csv(path: Path, delimiter: str | None, **convert: Any) -> Any:
    module = arrow("pyarrow.csv")
    return module.open_csv(
        arrow().input_stream(str(path)),
        read_options=module.ReadOptions(block_size=BLOCK),
        parse_options=module.ParseOptions(delimiter=separator(path, delimiter), newlines_in_values=True),
        convert_options=module.ConvertOptions(**convert),
    )


def csv_head(path: Path, delimiter: str | None, bag: str | None) -> Head:
    """Return the names of a CSV file, and the types that its first block suggests."""
    pa = arrow()
    try:
        with _open_csv(path, delimiter, column_types={} if bag is None else {bag: pa.string()}) as reader:
            schema = reader.schema
            batch = next((piece for piece in reader if piece.num_rows), None)
    except pa.ArrowInvalid as error:
        raise _fault(path, delimiter, [], error) from None
    head = Head(path, tuple(schema.names), tuple(schema.types), None if batch is not None else 0)
    if batch is None or bag is None or head.names.count(bag) != 1:
        return head
    ids = batch.column(head.names.index(bag))
    compute = arrow("pyarrow.compute")
    ids = ids.filter(compute.not_equal(ids, ""))
    kind = "text"
    for name, pattern in (("integer", INTEGER), ("date", DATE)):
        if compute.all(compute.match_substring_regex(ids, pattern)).as_py():
            kind = name
    return Head(path, head.names, head.types, None, kind if len(ids) else None)


def csv_batches(path: Path, delimiter: str | None, names: list[str], types: dict[str, Any]) -> Iterator[Any]:
    """Yield the columns `names` of a CSV file, a record batch a block."""
    # An empty field is missing; words such as NA are not, because they may be ids.
    missing: dict[str, Any] = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
    with reading(path):
        try:
            with _open_csv(path, delimiter, include_columns=names, column_types=types, **missing) as reader:
                yield from reader
        except arrow().ArrowInvalid as error:
            numbers = [name for name, kind in types.items() if is_number(kind)]
            raise _fault(path, delimiter, numbers, error) from None


def _records(path: Path, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the values of every row, the header first; slow, and only for errors."""
    with arrow().input_stream(str(path)) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=separator(path, delimiter))
        yield from ((reader.line_num, record) for record in reader if record)


def line_of(path: Path, delimiter: str | None, row: int) -> int:
    """Return the number of the line on which a row ends, counted from 1; rows are counted from 0, after the header."""
    records = enumerate(_records(path, delimiter))
    return next((line for i, (line, _) in records if i == row + 1), row + 2)


def _fault(path: Path, delimiter: str | None, numbers: list[str], error: Exception) -> TableError:
    """Return the error for the first value that is no number, or for the first row that is too short or too long."""
    with suppress(csv.Error, OSError, StopIteration):
        records = _records(path, delimiter)
        _, header = next(records)
        places = [(header.index(name), name) for name in numbers if name in header]
        for line, record in records:
            if len(record) != len(header):
                return TableError(
                    f"{str(path)!r}, line {line}: got {len(record)} values where the header has {len(header)}; correct "
                    "that line, or pass the delimiter"
                )
            for place, name in places:
                if not _NUMBER.fullmatch(record[place].strip()):
                    return TableError(
                        f"{str(path)!r}, line {line}, column {name!r}: must be a number, got {record[place]!r}; "
                        "correct it, or leave the row or the column out"
                    )
    return unreadable(path, error)
