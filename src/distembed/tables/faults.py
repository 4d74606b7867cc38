"""What is wrong with a file that can't be read, as a sentence: slow, and only for errors."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..bags.coordinates import MISSING_WORDS, is_number_word
from ..compute.checks import Argument, Message
from .files import Reading, TableError, format_of, pa, separator, source_of
from .remote import Remote

_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def unreadable(path: Path, error: Exception) -> TableError:
    """Return the error for a file whose bytes can't be read."""
    if isinstance(error, PermissionError):
        return TableError(f"no permission to read {str(path)!r}; change its permissions or copy it")
    if isinstance(path, Remote) and isinstance(error, OSError) and not isinstance(error, pa.ArrowException):
        why = error.strerror or type(error).__name__  # never its text, which may hold more than people should see
        return TableError(f"{str(path)!r} can't be read from its store: {why.lower()}; try again, or look at the store")
    other = _other_text(path) if format_of(path) == "CSV" else None
    if other is not None:
        return TableError(f"{str(path)!r} is {other} text, and must be UTF-8; save it as UTF-8")
    if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
        what = "is not UTF-8 text" if format_of(path) == "CSV" else "has a column whose name is not UTF-8"
        return TableError(f"{str(path)!r} {what}; save it as UTF-8")
    return TableError(
        f"{str(path)!r} is no readable {format_of(path)} file: it is damaged, cut off or of another format; write it "
        "again, or correct its suffix"
    )


def _text(path: Any) -> Any:
    return pa.input_stream(source_of(path), compression=path.packing if isinstance(path, Remote) else "detect")


def _other_text(path: Path) -> str | None:
    """Return what text a CSV file is by its first bytes, if not UTF-8; zeros between letters tell of UTF-16."""
    with suppress(ValueError, OSError), _text(path) as stream:
        begin = stream.read(1000)
        found = (kind for mark, kind in _MARKS.items() if begin.startswith(mark))
        return next(found, "UTF-16" if begin.count(0) >= len(begin) // 3 > 0 else None)
    return None


def _csv_records(path: Path, how: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the values of every row, the header first; slow, and only for errors."""
    with _text(path) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=separator(path, how))
        yield from ((reader.line_num, record) for record in reader if record)


def line_of(path: Path, how: Reading, row: int) -> int:
    """Return the number of the line on which a row ends, counted from 1; rows are counted from 0, after the header."""
    records = enumerate(_csv_records(path, how))
    return next((line for i, (line, _) in records if i == row + 1), row + 2)


def csv_fault(path: Path, how: Reading, numbers: list[str], error: Exception) -> TableError:
    """Return the error for the first value that is no number, or for the first row that is too short or too long."""
    if _other_text(path) is not None:
        return unreadable(path, error)
    with suppress(csv.Error, OSError, StopIteration):
        records = _csv_records(path, how)
        _, header = next(records)
        places = [(header.index(name), name) for name in numbers if name in header]
        for line, record in records:
            if len(record) != len(header):
                sign = next((sign for sign in ";\t|" if len(header) == 1 and sign in header[0]), ...)
                said = f"{str(path)!r}, line {line}: got {len(record)} values where the header has {len(header)}; "
                return TableError(Message(said, "correct that line, or pass ", Argument("delimiter", sign)))
            for place, name in places:
                word = record[place].strip()
                fits = word.lower() in ("true", "false") or word in MISSING_WORDS
                if not (fits or is_number_word(how.plain(word))):
                    said = f"{str(path)!r}, line {line}, column {name!r}: must be a number, got {record[place]!r}; "
                    remedy = "correct it, leave the row or the column out, or, if it holds labels, name it in "
                    return TableError(Message(said, remedy, Argument("categorical")))
    return unreadable(path, error)
