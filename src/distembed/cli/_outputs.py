"""Results as tables and pictures: whole files or none, or CSV on standard output."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..compute.atomic_files import write_whole
from ..tables import TableError, write_table
from ..tables.array_files import arrow_array
from ..tables.files import FORMATS, format_of
from ..tables.packages import arrow
from ..tables.text_files import separator
from ..tables.writing import table_file, write_npz

__all__ = ["TableWriter", "check_table_path", "free_name", "open_writer", "put_table", "save_figure"]


def check_table_path(path: str | None) -> None:
    """Refuse a suffix that is no format before any work is done."""
    if path not in (None, "-") and Path(str(path)).suffix.lower() not in FORMATS:
        raise click.UsageError(f"-o {path!r}: its suffix must be one of {', '.join(FORMATS)}; rename it")


def put_table(columns: Mapping[str, Any], path: str | None) -> None:
    """Write columns to a file, or as CSV to standard output."""
    if path not in (None, "-"):
        write_table(dict(columns), str(path))
        return
    with open_writer(path) as writer:
        writer.add(columns)


class TableWriter:
    """Rows that come in pieces, on their way to a file."""

    def __init__(self, path: str | None, file: Any) -> None:
        self._path = None if path in (None, "-") else Path(str(path))
        self._file, self._writer, self._parts = file, None, []  # type: ignore[var-annotated]
        self._started = False
        self.n_rows = 0

    def add(self, columns: Mapping[str, Any]) -> None:
        """Write some rows; columns are the same every time."""
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        self.n_rows += len(next(iter(arrays.values())))
        if self._path is None:
            self._print(arrays)
            return
        if format_of(self._path) == "npz":
            self._parts.append(arrays)
            return
        pa = arrow()
        table = pa.table({name: arrow_array(values) for name, values in arrays.items()})
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)  # type: ignore[attr-defined]

    def _open(self, schema: Any) -> Any:
        assert self._path is not None
        kind = format_of(self._path)
        if kind == "Parquet":
            return arrow("pyarrow.parquet").ParquetWriter(self._file, schema)
        if kind == "Feather":
            return arrow("pyarrow.ipc").new_file(self._file, schema)
        module = arrow("pyarrow.csv")
        return module.CSVWriter(
            self._file, schema, write_options=module.WriteOptions(delimiter=separator(self._path, None))
        )

    def _print(self, arrays: Mapping[str, Any]) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        if not self._started:
            rows.writerow(arrays)
            self._started = True
        rows.writerows(zip(*(_words(values) for values in arrays.values()), strict=True))
        click.echo(text.getvalue(), nl=False)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
        elif self._parts:
            together = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
            table = arrow().table({name: arrow_array(values) for name, values in together.items()})
            write_npz(table, self._file, Path(str(self._path)))


def _words(values: Any) -> list[Any]:
    if values.dtype.kind == "b":  # as Arrow writes them
        return ["true" if value else "false" for value in values]
    return [str(value) for value in values]


@contextmanager
def open_writer(path: str | None) -> Iterator[TableWriter]:
    """A writer whose file takes its name when all of it is there; without a path, standard output."""
    if path in (None, "-"):
        yield TableWriter(None, None)
        return
    with table_file(str(path)) as file:
        writer = TableWriter(path, file)
        try:
            yield writer
        finally:
            writer.close()
        if not writer.n_rows:
            raise TableError(f"can't write {str(path)!r}: there are no rows; check the table")


def free_name(name: str, taken: Any) -> str:
    """A name for a column that is not one of those taken."""
    while name in taken:
        name += "_"
    return name


def save_figure(figure: Any, path: str) -> None:
    """Write a picture, in the format of its suffix (PNG by default)."""
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    try:
        image = io.BytesIO()
        figure.savefig(image, format=kind, dpi=150, metadata={"Date": None} if kind in ("svg",) else None)
    except ValueError as error:
        if "format" not in str(error).lower():
            raise
        raise ValueError(f"--plot {path!r}: pictures are png, pdf or svg; rename it") from None
    with write_whole(path) as file:
        file.write(image.getvalue())
