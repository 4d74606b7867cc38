"""Where the rows of results go: to a file, or to standard output."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tables.writing import TableWriter


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
