"""Feather files, which are Arrow IPC: mapped to memory, so that a record batch may be larger than it.

Who reads a mapped file beyond where it was cut is killed by the system. So pieces are copied as soon as they are read,
and the file is looked at before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .files import ROWS, check_stamp, ipc, pa, stamp
from .remote import Remote


def open_ipc(path: Path, names: list[str] | None = None) -> Any:
    """Return a reader of an Arrow IPC file or stream, of some columns."""
    mapped = pa.BufferReader(path.read_bytes()) if isinstance(path, Remote) else pa.memory_map(str(path))
    try:
        opener, reader = ipc.open_file, ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        opener, reader = ipc.open_stream, ipc.open_stream(mapped)
    if names is None:
        return reader
    wanted = set(names)
    fields = [j for j, name in enumerate(reader.schema.names) if name in wanted]
    mapped.seek(0)
    return opener(mapped, options=ipc.IpcReadOptions(included_fields=fields))


def pieces_of(path: Path, names: list[str] | None = None) -> Iterator[Any]:
    """Yield the rows of an Arrow IPC file or stream in record batches that are copies."""
    before, reader = stamp(path), open_ipc(path, names)
    count = getattr(reader, "num_record_batches", None)
    batches = iter(reader) if count is None else map(reader.get_batch, range(count))
    while True:
        check_stamp(path, before)
        batch = next(batches, None)
        if batch is None:
            return
        _check(batch)
        for start in range(0, batch.num_rows, ROWS):
            check_stamp(path, before)
            columns = [column.slice(start, ROWS) for column in batch.columns]
            copies = [pa.concat_arrays([column, column.slice(0, 0)]) for column in columns]
            yield pa.record_batch(copies, names=batch.schema.names)


def _check(batch: Any) -> None:
    """Raise ArrowInvalid for damaged offsets, or codes of labels, which would be followed out of bounds."""
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):  # that is told with the name of the column, if anybody wants it
                raise
