"""Any file of a table piece by piece: its beginning first, then record batches of about `ROWS` points."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from .array_files import npz_batch, npz_head
from .errors import TableError
from .files import format_of, reading
from .packages import arrow
from .schemas import Head
from .text_files import csv_batches, csv_head

__all__ = ["ROWS", "describe", "read_pieces"]

ROWS = 65_536  # rows of a piece


def describe(path: Path, delimiter: str | None, bag: str | None) -> Head:
    """Return what the beginning of a file tells of it; footers and first blocks are all that is read."""
    with reading(path):
        with path.open("rb") as file:
            if not file.read(1):
                raise TableError(f"{str(path)!r} is empty; write it again")
        kind = format_of(path)
        if kind == "Parquet":
            with arrow("pyarrow.parquet").ParquetFile(str(path)) as table:
                schema, rows = table.schema_arrow, table.metadata.num_rows
                return Head(path, tuple(schema.names), tuple(schema.types), rows)
        if kind == "Feather":
            schema = _ipc(path).schema
            return Head(path, tuple(schema.names), tuple(schema.types), None)
        if kind == "npz":
            return npz_head(path)
        return csv_head(path, delimiter, bag)


def read_pieces(path: Path, delimiter: str | None, names: list[str], types: dict[str, Any]) -> Iterator[Any]:
    """Yield record batches with at least the columns `names` of one file, in the order of its rows.

    `types` are the arrow types of columns of a CSV file. Other files say theirs.
    """
    with closing(_batches(path, delimiter, names, types)) as batches:
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS):
                yield batch.slice(start, ROWS)


def _batches(path: Path, delimiter: str | None, names: list[str], types: dict[str, Any]) -> Generator[Any, None, None]:
    """Yield the record batches of a file, however long they are."""
    kind = format_of(path)
    if kind == "CSV":
        yield from csv_batches(path, delimiter, names, types)
        return
    with reading(path):
        if kind == "Parquet":
            # Without these it would hold all of the file, or all of a row group, before the first piece.
            bounded = {"pre_buffer": False, "buffer_size": 1 << 20}
            with arrow("pyarrow.parquet").ParquetFile(str(path), **bounded) as table:
                yield from table.iter_batches(_piece_rows(table.metadata, names), columns=names)
        elif kind == "Feather":
            reader = _ipc(path, names)
            count = getattr(reader, "num_record_batches", None)
            yield from reader if count is None else map(reader.get_batch, range(count))
        else:
            yield npz_batch(path, names)


def _piece_rows(metadata: Any, names: list[str]) -> int:
    """Return how many rows to read at once, so that a piece has about ROWS points even where rows are lists."""
    most = 1
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = (group.column(j) for j in range(group.num_columns))
        values = [chunk.num_values for chunk in chunks if chunk.path_in_schema.partition(".")[0] in names]
        most = max(most, max(values, default=0) // max(group.num_rows, 1))
    return max(1, ROWS // most)


def _ipc(path: Path, names: list[str] | None = None) -> Any:
    """Return a reader of an Arrow IPC file or stream, of some columns."""
    ipc, pa = arrow("pyarrow.ipc"), arrow()
    mapped = pa.memory_map(str(path))
    try:
        opener, reader = ipc.open_file, ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        opener, reader = ipc.open_stream, ipc.open_stream(mapped)
    if names is None:
        return reader
    fields = [j for j, name in enumerate(reader.schema.names) if name in names]
    mapped.seek(0)
    return opener(mapped, options=ipc.IpcReadOptions(included_fields=fields))
