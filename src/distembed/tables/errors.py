"""What is wrong with a table, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["TableError", "no_rows"]


class TableError(ValueError):
    """A table that can't be read as bags or labels, or can't be written.

    The message is one sentence, which names the file, the column and the remedy.

    Examples
    --------
    >>> from distembed.tables import TableError, read_bags
    >>> try:
    ...     read_bags("galaxies.parquet", bag="cluster")
    ... except TableError as error:
    ...     print(error)
    no such file: 'galaxies.parquet'; check the path
    """


def no_rows(files: Sequence[Path]) -> TableError:
    """Return the error for a table without rows."""
    more = f" and {len(files) - 1} more tables" if len(files) > 1 else ""
    return TableError(f"{str(files[0])!r}{more}: no rows, and there must be at least one; check how it was written")
