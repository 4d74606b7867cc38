"""Files of a table: which there are, the columns of each, and their rows piece by piece, whatever their format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from ..bags.flat import few
from ..bags.ids import join_ids
from .arrow import pa, values_of
from .formats import FORMATS, FileSchema, Reading, format_of, is_text_in_utf8, known_format, reading, unreadable
from .paths import AnyPath, TableError, as_path, check_stamp, stamp

_FIELDS = {".h5ad": "Bags.from_anndata", ".fcs": "Bags.from_fcs"}


# --------------------------------------------------------------------------------------------------------------
# Which files there are
# --------------------------------------------------------------------------------------------------------------


def list_files(source: Any) -> tuple[AnyPath, ...]:
    """Return the files of a path, a directory, a glob, or several of them: those of a directory sorted by name."""
    if not isinstance(source, str | os.PathLike | Sequence) or isinstance(source, bytes):
        raise TypeError(
            f"source must be a path, a glob, a directory or a list of these, got {type(source).__name__}; a table in "
            "memory is read by Bags.from_frame"
        )
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    files = [file for entry in entries for file in _matches(as_path(entry))]
    if not files:
        raise TableError("source names no files, got an empty list; give a path, a directory or a glob")
    kinds = {format_of(file): file for file in files}
    if len(kinds) > 1:
        raise TableError(
            f"tables must all have one format, got {few(sorted(str(file) for file in kinds.values()))}; name those of "
            "one format, for example by a glob such as '*.parquet'"
        )
    _check_once(files)
    check_names(files)
    return tuple(files)


def _check_once(files: Sequence[AnyPath]) -> None:
    """Raise if a file is there twice, under whatever names: its points would count twice."""
    known: dict[Any, tuple[int, Any]] = {}
    for i, path in enumerate(files):
        facts = path.stat()
        at, first = known.setdefault((facts.st_dev, facts.st_ino) if facts.st_ino else str(path), (i, path))
        if at != i:
            how = "more than once" if first == path else f"and {str(path)!r}, which is the same file"
            raise TableError(f"each file must be named once, got {str(first)!r} {how}; leave out the second")


def check_names(files: Sequence[AnyPath]) -> None:
    """Raise if the name of a file is not text: pyarrow can't open it, and no message can show it."""
    for path in files:
        if not is_text_in_utf8(str(path)):
            raise TableError(f"{str(path)!r}: the name of a table must be text in UTF-8; rename it")


def _matches(path: AnyPath) -> list[AnyPath]:
    known = ", ".join(FORMATS)
    try:
        if path.is_dir():
            below: list[Any] = sorted(path.rglob("*"))
            inside = [file for file in below if format_of(file) and file.is_file()]
            shown = [file for file in inside if all(part[0] not in "._" for part in file.relative_to(path).parts)]
            if not shown:
                raise TableError(f"directory {str(path)!r} holds no tables ({known}); name another directory or a file")
            return shown
        exists = path.exists()
        is_file = path.is_file()
    except OSError as error:
        raise unreadable(path, error) from None
    if not exists and is_pattern(path):
        found = path.matches()
        if not found:
            raise TableError(f"no file matches {str(path)!r}; check the pattern")
        return [file for match in found for file in _matches(match)]
    if not exists:
        raise TableError(f"no such file: {str(path)!r}; check the path")
    if not is_file:  # a pipe or a device may never end
        raise TableError(f"{str(path)!r} is not a regular file but a pipe or a device; write it to a file first")
    reader = _FIELDS.get(path.suffix.lower())
    if reader is not None:
        raise TableError(f"{str(path)!r} is not a long table; read it with {reader}, or tables.open_bags")
    if format_of(path) is None:
        raise TableError(f"{str(path)!r} has an unknown suffix; tables are {known}, and CSV may end in .gz")
    return [path]


def is_pattern(path: AnyPath) -> bool:
    """Whether a path may stand for several."""
    return any(sign in str(path) for sign in "*?[")


def no_rows(files: Sequence[AnyPath]) -> TableError:
    """Return the error for a table without rows."""
    more = f" and {len(files) - 1} more tables" if len(files) > 1 else ""
    return TableError(f"{str(files[0])!r}{more}: no rows, and there must be at least one; check how it was written")


# --------------------------------------------------------------------------------------------------------------
# Any file: its columns, and its rows
# --------------------------------------------------------------------------------------------------------------


def read_schema(path: AnyPath, how: Reading, bag: str | None) -> FileSchema:
    """Return the columns of a file; footers and first blocks are all that is read.

    Where values of several columns are joined to ids there is one more column, which holds these.
    """
    if how.joined and bag == how.bag:
        schema = read_schema(path, how, None)
        return replace(schema, names=(*schema.names, bag), types=(*schema.types, pa.string()), ids="text")
    with reading(path):
        with path.open("rb") as file:
            if not file.read(1):
                raise TableError(f"{str(path)!r} is empty; write it again")
        return known_format(path).schema(path, how, bag)


def read_pieces(
    path: AnyPath, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None = None
) -> Iterator[Any]:
    """Yield record batches with at least the columns `names` of one file, in the order of its rows.

    `types` are the arrow types of columns of a CSV file. Other files have their own. `group` is the footer of a Parquet
    file and the number of a row group, where only that is to be read.
    """
    if how.joined and how.bag in names:
        names = [name for name in dict.fromkeys((*names, *how.joined)) if name != how.bag]
        types = {name: each for name, each in types.items() if name != how.bag} | dict.fromkeys(how.joined, pa.string())
        yield from (_with_joined_ids(batch, how) for batch in read_pieces(path, how, names, types))
        return
    begin = stamp(path)
    with reading(path), closing(known_format(path).batches(path, how, names, types, group)) as batches:
        for batch in batches:
            for start in range(0, batch.num_rows, how.rows):
                check_stamp(path, begin)
                yield batch.slice(start, how.rows)
    check_stamp(path, begin)


def _with_joined_ids(batch: Any, how: Reading) -> Any:
    """Return a record batch with one more column, the ids of bags that several columns name; null where one is."""
    columns = [values_of(batch, name) for name in how.joined]
    there = np.logical_and.reduce([np.asarray(column.is_valid()) for column in columns])
    ids = np.full(batch.num_rows, None, object)
    if there.any():
        known = pa.array(there)
        ids[there] = join_ids([column.filter(known).to_numpy(zero_copy_only=False) for column in columns])
    return batch.append_column(how.bag, pa.array(ids, pa.string()))
