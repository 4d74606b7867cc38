"""Where results go: to files, which must not be those that are read, or to standard output."""

from __future__ import annotations

import csv
import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..compute.atomic_files import obstacle

if TYPE_CHECKING:
    from ..tables.writing import TableWriter


def check_outputs(written: Mapping[str, str | None], read: Mapping[str, Any], *, table: bool = False) -> None:
    """Refuse, before any work, files that can't be written, or that are read or written otherwise too.

    Both are paths by the names of their options; with ``table``, ``-o`` is a table. Links and other spellings count.
    """
    inputs = {_identity(path): option for option, source in read.items() for path in _files_of(source)}
    for option, path in written.items():
        if path is None or (table and option == "-o" and path == "-"):
            continue
        if option == "--plot":
            problem = _picture_obstacle(path)
        elif table and option == "-o":
            from ..tables.writing import table_obstacle as problem_of

            problem = problem_of(path)
        else:
            problem = obstacle(path)
        also = inputs.setdefault(_identity(path), option)
        if also != option:
            problem = f"it is the file of {also} too, and would be overwritten; name another"
        if problem is not None:
            raise click.UsageError(f"{option} {path!r}: {problem}")


def _identity(path: str | Path) -> Any:
    """What tells a file from others, however it is spelt; one that is not there yet has its path alone."""
    with suppress(OSError):
        facts = os.stat(path)
        if facts.st_ino:
            return facts.st_dev, facts.st_ino
    return os.path.realpath(path)


def _files_of(source: str | Sequence[str] | None) -> Iterator[Path]:
    """The files that tables, folders of tables or patterns stand for."""
    from ..tables.files import format_of

    for entry in [source] if isinstance(source, str) else source or ():
        for path in map(Path, [entry] if os.path.exists(entry) else glob.glob(entry, recursive=True)):
            inside = path.rglob("*") if path.is_dir() else ()
            yield from (file for file in inside if format_of(file) or file.suffix.lower() == ".fcs")
            yield path


def _picture_obstacle(path: str) -> str | None:
    """Why a picture can't be drawn there; None if nothing is known to be in the way."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install 'distembed[plot]'") from error
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    if kind not in FigureCanvasBase.get_supported_filetypes():
        return "pictures are png, pdf or svg; rename it"
    return obstacle(path)


class _Printer:
    """Rows that come in pieces, as CSV on standard output."""

    n_rows = 0

    def add(self, columns: Mapping[str, Any]) -> None:
        """Print some rows, the header first."""
        import numpy as np

        arrays = [np.asarray(values) for values in columns.values()]
        arrays = [np.where(each, "true", "false") if each.dtype == bool else each for each in arrays]  # as Arrow does
        rows = csv.writer(sys.stdout, lineterminator="\n")
        if not self.n_rows:
            rows.writerow(columns)
        rows.writerows(zip(*(map(str, each) for each in arrays), strict=True))
        sys.stdout.flush()
        self.n_rows += len(arrays[0])


@contextmanager
def open_writer(path: str | None) -> Iterator[TableWriter | _Printer]:
    """Where rows go, piece by piece: to a file that takes its name when all of it is there, or to standard output."""
    if path in (None, "-"):
        yield _Printer()
        return
    from ..tables import TableError
    from ..tables.writing import open_table_writer

    with open_table_writer(str(path)) as writer:
        yield writer
        if not writer.n_rows:
            raise TableError(f"can't write {str(path)!r}: there are no rows; check the table")


def put_table(columns: Mapping[str, Any], path: str | None) -> None:
    """Write columns to a file, or as CSV to standard output."""
    with open_writer(path) as writer:
        writer.add(columns)


def free_name(name: str, taken: Any) -> str:
    """A name for a column that is not one of those taken."""
    while name in taken:
        name += "_"
    return name
