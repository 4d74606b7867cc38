"""Tables written whole or not at all."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..bags import Bags
from ..bags.checks import few
from ..compute.atomic_files import write_whole
from .array_files import arrow_array
from .errors import TableError
from .files import FORMATS, format_of
from .packages import arrow
from .readers import ROWS
from .text_files import separator

__all__ = ["table_file", "write_bags", "write_npz", "write_table"]


def write_table(data: Any, path: str | os.PathLike[str]) -> None:
    """Write a table, in the format of the suffix: .parquet, .feather, .arrow, .csv, .tsv or .npz.

    Parameters
    ----------
    data : mapping of str to array-like, pandas or polars DataFrame, or pyarrow Table
        Columns of equal length.
    path : path
        Written under another name in the same folder, forced to the disk and then renamed: whatever happens, `path` is
        the old file or the new one.

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
    target = Path(path)
    kind = format_of(target)
    if kind is None or target.suffix.lower() not in FORMATS:
        raise TableError(f"can't write {str(target)!r}: its suffix must be one of {', '.join(FORMATS)}; rename it")
    table = _as_arrow(data, target)
    with table_file(target) as file:
        if kind == "Parquet":
            arrow("pyarrow.parquet").write_table(table, file)
        elif kind == "Feather":
            with arrow("pyarrow.ipc").new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=ROWS)
        elif kind == "CSV":
            module = arrow("pyarrow.csv")
            module.write_csv(table, file, module.WriteOptions(delimiter=separator(target, None)))
        else:
            write_npz(table, file, target)


@contextmanager
def table_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that becomes `path` in one step when all of it is on the disk; after an error `path` is as before."""
    target = Path(path)
    folder = (target.resolve() if target.is_symlink() else target).parent
    if target.is_dir():
        raise TableError(f"can't write {str(target)!r}: it is a directory; name a file in it")
    if target.exists() and not target.is_file():
        raise TableError(f"can't write {str(target)!r}: it is no ordinary file; name another")
    if not folder.is_dir():
        raise TableError(f"can't write {str(target)!r}: folder {str(folder)!r} does not exist; make it first")
    try:
        # For pyarrow, a file that can be read is not one to write to.
        with write_whole(target) as whole, open(whole.fileno(), "wb", closefd=False) as file:
            yield file
    except PermissionError:
        raise TableError(f"no permission to write {str(target)!r}; choose another folder") from None


def _as_arrow(data: Any, target: Path) -> Any:
    """Return a table as pyarrow has it."""
    pa = arrow()
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
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, AttributeError):
        raise TableError(
            f"can't write {str(target)!r}: data must be columns of equal length, each of numbers, text or dates, got "
            f"{type(data).__name__}; give a mapping of names to arrays, or a data frame"
        ) from None


def write_npz(table: Any, file: Any, target: Path) -> None:
    """Write a pyarrow Table as an .npz archive, one array a column; `target` is its name in errors."""
    with zipfile.ZipFile(file, "w") as archive:  # not np.savez, for which a column can't be called "file"
        for name in table.column_names:
            values = table.column(name).to_numpy()
            if values.dtype == object:
                values = np.array(values.tolist())
            if values.dtype == object:
                raise TableError(f"can't write {str(target)!r}: column {name!r} has no one type; convert it")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def write_bags(bags: Bags, path: str | os.PathLike[str], *, bag: str = "bag", weights: str = "weight") -> None:
    """Write bags as a table of one row a point, which `read_bags` and :class:`BagTable` read.

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
    arrow()
    write_table(bags.to_frame("pyarrow", bag, weights), path)
