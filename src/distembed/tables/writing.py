"""Tables written whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..bags import Bags
from ..bags.flat import few
from ..bags.ids import canonical_text
from .arrow import arrow_array, is_text, pa
from .formats import FORMATS, known_format
from .paths import AnyPath, TableError, as_path

_BEGINNINGS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # of formulas; wide signs too
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def quote_formula(text: str) -> str:
    """Return text that no spreadsheet takes for a formula: with a quote before it where it begins as one.

    Examples
    --------
    >>> quote_formula("=1+1"), quote_formula("-5"), quote_formula("a=b")
    ("'=1+1", '-5', 'a=b')
    """
    return f"'{text}" if text.startswith(_BEGINNINGS) and not _NUMBER.fullmatch(text) else text


def write_table(data: Any, path: str | os.PathLike[str], *, spreadsheet_safe: bool = False) -> None:
    """Write a table, in the format of the suffix: .parquet, .feather, .arrow, .csv, .tsv or .npz.

    Parameters
    ----------
    data : mapping of str to array-like, pandas or polars DataFrame, or pyarrow Table
        Columns of equal length.
    path : path
        Written under another name in the same folder, forced to the disk and then renamed: whatever happens, `path` is
        the old file or the new one. Or the URL of an object store, which gets it in one piece.
    spreadsheet_safe : bool, default=False
        In CSV, put a quote before text that a spreadsheet would run as a formula, names of columns included: text that
        begins with ``=``, ``+``, ``-``, ``@``, a tab or the end of a line. Numbers stay as they are. For tables that
        people open, not for tables that are joined with others by their ids.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from distembed.tables import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"x": [1.5, 2.5], "label": ["a", "b"]}, f"{folder}/t.csv")
    ...     print(Path(folder, "t.csv").read_text())
    "x","label"
    1.5,"a"
    2.5,"b"
    """
    with open_table_writer(path, spreadsheet_safe) as writer:
        writer.add(data)


def table_obstacle(path: str | os.PathLike[str]) -> str | None:
    """Return why a table can't be written there, and what to do; None if nothing is known to be in the way."""
    if Path(path).suffix.lower() not in FORMATS:
        return f"its suffix must be one of {', '.join(FORMATS)}; rename it"
    return as_path(path).obstacle()


@contextmanager
def open_table_writer(path: str | os.PathLike[str], spreadsheet_safe: bool = False) -> Iterator[TableWriter]:
    """Open a table that is written piece by piece, and becomes `path` when all of it is on the disk."""
    target = as_path(path)
    problem = table_obstacle(path)
    if problem is not None:
        raise TableError(f"can't write {str(target)!r}: {problem}")
    try:
        # For pyarrow, a file that can be read is not one to write to.
        with target.write_whole() as whole, open(whole.fileno(), "wb", closefd=False) as file:
            writer = TableWriter(target, file, spreadsheet_safe)
            try:
                yield writer
            finally:
                writer.close()
    except PermissionError:
        raise TableError(f"no permission to write {str(target)!r}; choose another folder") from None


class TableWriter:
    """Rows that come in pieces, on their way to a file in the format of its suffix.

    Parameters
    ----------
    path : LocalPath or RemotePath
        Name of the file, for its format and for errors.
    file : binary file
        Where the bytes go.
    spreadsheet_safe : bool
        As in `write_table`.
    """

    def __init__(self, path: AnyPath, file: BinaryIO, spreadsheet_safe: bool = False) -> None:
        self._path = path
        self._file = file
        self._format = known_format(path)
        self._quotes = spreadsheet_safe and not self._format.typed
        self._writer: Any = None
        self.n_rows = 0

    def add(self, data: Any) -> None:
        """Write some rows: columns as in `write_table`, the same every time."""
        table = _as_arrow(data, self._path)
        table = table if self._format.typed else _with_plain_times(table)
        table = _with_quotes(table) if self._quotes else table
        self.n_rows += table.num_rows
        if self._writer is None:
            self._writer = self._format.open_writer(self._path, self._file, table.schema)
        self._format.write(self._writer, table)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()


def _with_quotes(table: Any) -> Any:
    """Return a table of pyarrow's whose text no spreadsheet takes for formulas."""
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if is_text(kind):
            words = (None if word is None else quote_formula(word) for word in column.to_pylist())
            column = pa.array(words, pa.string())
        columns.append(column)
    return pa.table(columns, names=[quote_formula(name) for name in table.column_names])


def _as_arrow(data: Any, target: AnyPath) -> Any:
    """Return a table as pyarrow has it."""
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, Mapping):
            arrays = {str(name): np.asarray(values) for name, values in data.items()}
            wrong = [name for name, values in arrays.items() if values.ndim != 1]
            if wrong:
                raise TableError(f"can't write {str(target)!r}: columns must be 1-D, and {few(wrong)} is not; split it")
            if not arrays:
                raise TableError(f"can't write {str(target)!r}: a table has at least one column, got none; name one")
            return pa.table({name: arrow_array(values) for name, values in arrays.items()})
        if hasattr(data, "to_arrow"):  # polars
            return data.to_arrow()
        sparse = {name: kind.subtype for name, kind in data.dtypes.items() if type(kind).__name__ == "SparseDtype"}
        return pa.Table.from_pandas(data.astype(sparse) if sparse else data, preserve_index=False)
    except (pa.ArrowException, TypeError, AttributeError):
        raise TableError(
            f"can't write {str(target)!r}: data must be columns of equal length, each of numbers, text or dates, got "
            f"{type(data).__name__}; give a mapping of names to arrays, or a data frame"
        ) from None


def _with_plain_times(table: Any) -> Any:
    """Return a table whose times are text, in the one form that ids have: CSV has no types."""
    for j, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(j)
            there = column.drop_null()
            texts = np.full(len(column), None, object)
            texts[np.asarray(column.is_valid())] = canonical_text(there if field.type.tz else there.to_numpy())
            table = table.set_column(j, field.name, pa.array(texts, pa.string()))
    return table


def write_bags(bags: Bags, path: str | os.PathLike[str], *, bag: str = "bag", weights: str = "weight") -> None:
    """Write bags as a table of one row per point, which `read_bags` and :class:`BagTable` read.

    Parameters
    ----------
    bags : Bags
        Their ids must differ. Categorical columns are written as labels, for `Bags.from_frame`.
    path : path
        As in `write_table`.
    bag, weights : str
        Names of the column of ids and, if points have weights, of the column of weights.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.bags import Bags
    >>> from distembed.tables import read_bags, write_bags
    >>> bags = Bags.from_arrays([[1.0, 2.0], [3.0]], ids=["a", "b"], columns=["x"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bags(bags, f"{folder}/bags.parquet")
    ...     read_bags(f"{folder}/bags.parquet", bag="bag") == bags
    True
    """
    write_table(bags.to_frame("pyarrow", bag, weights), path)
