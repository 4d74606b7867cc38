"""Long tables on disk as a stream of checked record batches, for :mod:`.tables`.

Parquet, Feather (Arrow IPC) and CSV files are read piece by piece with pyarrow; an .npz archive is read whole. Whatever
the format, a piece becomes one record batch of known names and types: ``id``, the coordinates ``c0``, ``c1``, ...
and the weights ``w``. No name and no path of the user's gets further, so that none can end up in a query. Values are
checked here, where file and row are known.
"""

from __future__ import annotations

import csv
import difflib
import glob
import importlib
import io
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ._bag_checks import few
from ._interop import _unlist

ROWS = 65_536  # rows of a piece
BLOCK = 1 << 22  # bytes of CSV read at once; the first block tells the types
FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Feather",
    ".arrow": "Feather",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".npz": "npz",
}
_PACKED = (".gz", ".bz2", ".zst")
_INTEGER, _DATE = r"^(0|-?[1-9][0-9]{0,17})$", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf(inity)?)|true|false|", re.I)
_INDEX = re.compile(r"__index_level_[0-9]+__")  # how pandas names an index without a name
_UNITS = ("s", "ms", "us", "ns")


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


def need(module: str, what: str) -> Any:
    """Return a module of the extra `tables`, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install 'distembed[tables]'") from error


def arrow(module: str = "pyarrow") -> Any:
    """Return pyarrow or a module of it."""
    return need(module, "reading and writing tables")


# ----------------------------------------------------------------------------------------------------- files
def format_of(path: Path) -> str | None:
    """Return the format that the suffix of a path tells, or None."""
    last = [suffix.lower() for suffix in path.suffixes[-2:]]
    if len(last) == 2 and last[1] in _PACKED:
        return "CSV" if FORMATS.get(last[0]) == "CSV" else None
    return FORMATS.get(last[-1]) if last else None


def list_files(source: Any) -> tuple[Path, ...]:
    """Return the files of a path, a directory, a glob, or several of them: those of a directory sorted by name."""
    if not isinstance(source, str | os.PathLike | Sequence) or isinstance(source, bytes):
        raise TypeError(
            f"source must be a path, a glob, a directory or a list of these, got {type(source).__name__}; a table in "
            "memory is read by Bags.from_frame"
        )
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    files = [file for entry in entries for file in _matches(Path(entry))]
    if not files:
        raise TableError("source names no files, got an empty list; give a path, a directory or a glob")
    kinds = {format_of(file): file for file in files}
    if len(kinds) > 1:
        raise TableError(
            f"tables must all have one format, got {few(sorted(str(file) for file in kinds.values()))}; name those of "
            "one format, for example by a glob such as '*.parquet'"
        )
    if len(set(files)) < len(files):
        twice = next(file for file in files if files.count(file) > 1)
        raise TableError(f"each file must be named once, got {str(twice)!r} more than once; leave out the second")
    return tuple(files)


def _matches(path: Path) -> list[Path]:
    known = ", ".join(FORMATS)
    try:
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*")) if format_of(file) and file.is_file()]
            hidden = {file for file in inside if any(part[0] in "._" for part in file.relative_to(path).parts)}
            if len(hidden) == len(inside):
                raise TableError(f"directory {str(path)!r} holds no tables ({known}); name another directory or a file")
            return [file for file in inside if file not in hidden]
        exists = path.exists()
    except OSError as error:
        raise _unreadable(path, error) from None
    if not exists and any(sign in str(path) for sign in "*?["):
        found = sorted(glob.glob(str(path), recursive=True))
        if not found:
            raise TableError(f"no file matches {str(path)!r}; check the pattern")
        return [file for match in found for file in _matches(Path(match))]
    if not exists:
        raise TableError(f"no such file: {str(path)!r}; check the path")
    if format_of(path) is None:
        raise TableError(f"{str(path)!r} has an unknown suffix; tables are {known}, and CSV may end in .gz")
    return [path]


def _unreadable(path: Path, error: Exception) -> TableError:
    if isinstance(error, PermissionError):
        return TableError(f"no permission to read {str(path)!r}; change its permissions or copy it")
    if "UTF8" in str(error):
        return TableError(f"{str(path)!r} is not UTF-8 text; save it as UTF-8")
    kind = format_of(path)
    return TableError(
        f"{str(path)!r} is no readable {kind} file: it is damaged, cut off or of another format; write it again, or "
        "correct its suffix"
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what the libraries raise for bytes they can't read into one sentence."""
    try:
        yield
    except (TableError, ImportError):
        raise
    # pyarrow's errors are ValueErrors, OSErrors and NotImplementedErrors; zlib's are none of these.
    except (ValueError, OSError, NotImplementedError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path, error) from None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that becomes `path` in one step when all of it is on the disk; after an error `path` is as before."""
    target = Path(path)
    if target.is_dir():
        raise TableError(f"can't write {str(target)!r}: it is a directory; name a file in it")
    if not target.parent.is_dir():
        raise TableError(f"can't write {str(target)!r}: folder {str(target.parent)!r} does not exist; make it first")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        with suppress(OSError):  # not every system lets a folder be synchronised
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except PermissionError:
        raise TableError(f"no permission to write {str(target)!r}; choose another folder") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------- schemas
@dataclass(frozen=True)
class Head:
    """What the beginning of a file tells: types by name in file order, rows if known, and the kind of the ids."""

    path: Path
    names: tuple[str, ...]
    types: tuple[Any, ...]
    rows: int | None
    ids: str | None = None  # of a CSV file, whose types are guessed

    def type_of(self, name: str) -> Any:
        """Return the type of a column."""
        return self.types[self.names.index(name)]


@dataclass(frozen=True)
class Plan:
    """How the files of a table become record batches."""

    files: tuple[Path, ...]
    delimiter: str | None
    bag: str
    columns: tuple[str, ...]  # of the table
    names: tuple[str, ...]  # of the coordinates, more than `columns` where one column holds whole points
    weights: str | None
    ids: str  # integer, unsigned, number, boolean, text, date, or the unit of a time
    guessed: bool  # whether CSV text was taken for integers or dates because it begins so
    dtype: np.dtype[Any]
    lists: bool  # one row a bag
    booleans: frozenset[tuple[Path, str]]  # columns of CSV files that hold true and false
    rows: int | None

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{str(self.files[0])!r}{more}"


def is_number(kind: Any) -> bool:
    """Whether values of an arrow type are real numbers."""
    types = arrow().types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _list_values(kind: Any) -> Any:
    """Return the type of the values of a list type, or None."""
    types = arrow().types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if lists else None


def _nested(kind: Any) -> list[str] | None:
    """Return the endings of the coordinates' names if lists of this type are of whole points, else None."""
    types, values = arrow().types, _list_values(kind)
    if values is None:
        return None
    if types.is_struct(values):
        return [field.name for field in values] if all(is_number(field.type) for field in values) else None
    inner = _list_values(values)
    if inner is None or not is_number(inner):
        return None
    return [str(j) for j in range(values.list_size)] if types.is_fixed_size_list(values) else []


def _is_list(kind: Any) -> bool:
    values = _list_values(kind)
    return values is not None and (is_number(values) or _nested(kind) is not None)


def describe(path: Path, delimiter: str | None, bag: str | None) -> Head:
    """Return what the beginning of a file tells of it; footers and first blocks are all that is read."""
    with _reading(path):
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
            return _npz_head(path)
        return _csv_head(path, delimiter, bag)


def check_column(head: Head, argument: str, name: Any) -> None:
    """Raise, with the closest name, unless a file has a column exactly once."""
    found = head.names.count(name)
    if found == 1:
        return
    where = f"{str(head.path)!r}: {argument} names column {name!r}, which the table"
    if found:
        raise TableError(f"{where} has {found} times; rename one of them")
    separators = [sign for sign in ";\t|" if len(head.names) == 1 and sign in head.names[0]]
    if separators and format_of(head.path) == "CSV":
        raise TableError(
            f"{where} lacks, because its header is one name, {head.names[0]!r}; pass delimiter={separators[0]!r}"
        )
    folded = {other.lower(): other for other in reversed(head.names)}
    close = difflib.get_close_matches(str(name).lower(), list(folded), 1)
    if close:
        raise TableError(f"{where} lacks; did you mean {folded[close[0]]!r}?")
    raise TableError(f"{where} lacks; it has {few(head.names)}")


def make_plan(source: Any, bag: str, columns: Any, weights: str | None, delimiter: str | None, bag_type: str) -> Plan:
    """Return how a table is read, or the error that names what its files lack."""
    filled = _filled(source, bag, delimiter)
    first = filled[0]
    chosen = _chosen(first, bag, columns, weights)
    for head in filled:
        for name in chosen:
            check_column(head, "columns", name)
        if weights is not None:
            check_column(head, "weights", weights)
    lists = _is_list(first.type_of(chosen[0]))
    for head in filled:
        _check_types(head, chosen, weights, lists)
    endings = _nested(first.type_of(chosen[0])) if lists else None
    whole = [name for name in chosen if _nested(first.type_of(name)) is not None]
    if whole and len(chosen) > 1:
        raise TableError(
            f"{str(first.path)!r}: column {whole[0]!r} holds whole points, so it must be the only one of columns, got "
            f"{few(chosen)}; name it alone"
        )
    if endings == []:
        endings = [str(j) for j in range(_first_width(filled, chosen[0], delimiter))]
    struct = endings is not None and arrow().types.is_struct(_list_values(first.type_of(chosen[0])))
    names = chosen if endings is None else [end if struct else f"{chosen[0]}_{end}" for end in endings]
    return Plan(
        files=tuple(head.path for head in filled),
        delimiter=delimiter,
        bag=bag,
        columns=tuple(chosen),
        names=tuple(names),
        weights=weights,
        ids=_common_kind(filled, bag, bag_type),
        guessed=bag_type == "auto" and format_of(first.path) == "CSV",
        dtype=np.dtype(np.float32 if all(_single(head.type_of(name)) for head in filled for name in chosen) else float),
        lists=lists,
        booleans=frozenset(
            (head.path, name) for head in filled for name in (*chosen, weights) if name and _is_boolean(head, name)
        ),
        rows=None if any(head.rows is None for head in filled) else sum(head.rows or 0 for head in filled),
    )


def _filled(source: Any, bag: str, delimiter: str | None) -> list[Head]:
    """Return the beginnings of the files that have rows."""
    files = list_files(source)
    heads = [describe(path, delimiter, bag) for path in files]
    for head in heads:
        check_column(head, "bag", bag)
    filled = [head for head in heads if head.rows != 0]
    if not filled:
        raise no_rows(files)
    return filled


def no_rows(files: Sequence[Path]) -> TableError:
    """Return the error for a table without rows."""
    more = f" and {len(files) - 1} more tables" if len(files) > 1 else ""
    return TableError(f"{str(files[0])!r}{more}: no rows, and there must be at least one; check how it was written")


def _is_boolean(head: Head, name: str) -> bool:
    return format_of(head.path) == "CSV" and bool(arrow().types.is_boolean(head.type_of(name)))


def _chosen(head: Head, bag: str, columns: Any, weights: str | None) -> list[str]:
    """Return the names of the coordinate columns, by default those of numbers, or of lists where there are any."""
    if weights is not None and weights == bag:
        raise TableError(f"weights must be another column than bag, got {bag!r} for both; name the column of weights")
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        if bag in chosen:
            raise TableError(f"columns must not contain {bag!r}, the column of bag ids; leave it out")
        if not chosen or len(set(chosen)) < len(chosen):
            raise TableError(f"columns must be one or more names that differ, got {few(chosen)}; name each column once")
        return chosen
    typed = [
        (name, kind)
        for name, kind in zip(head.names, head.types, strict=True)
        if name not in (bag, weights) and not _INDEX.fullmatch(name)
    ]
    chosen = [name for name, kind in typed if _is_list(kind)] or [name for name, kind in typed if is_number(kind)]
    if not chosen:
        raise TableError(
            f"{str(head.path)!r}: columns=None takes every column of numbers, and there is none beside bag={bag!r}; it "
            f"has {few(head.names)}; convert a column, or name it in columns"
        )
    return chosen


def _check_types(head: Head, chosen: list[str], weights: str | None, lists: bool) -> None:
    """Raise if a coordinate or weight is of a type that holds no numbers. In CSV, values tell."""
    numbers = chosen if weights is None else [*chosen, weights]
    types = arrow().types
    for name in numbers:
        kind = head.type_of(name)
        if lists != _is_list(kind) and (lists or _list_values(kind) is not None):
            rule = "lists of numbers, as the other columns" if lists else "numbers, as the other columns"
        elif not lists and format_of(head.path) != "CSV" and not (is_number(kind) or types.is_null(kind)):
            rule = "numbers"
        else:
            continue
        raise TableError(
            f"{str(head.path)!r}: column {name!r} must hold {rule}, got {kind}; convert it, or leave it out"
        )


def _single(kind: Any) -> bool:
    """Whether the numbers of a type fit float32: single or half precision, in lists or not."""
    types = arrow().types
    if types.is_struct(kind):
        return all(_single(field.type) for field in kind)
    values = _list_values(kind)
    return bool(types.is_float32(kind) or types.is_float16(kind)) if values is None else _single(values)


def _id_kind(head: Head, bag: str) -> str:
    if head.ids is not None:
        return head.ids
    types, kind = arrow().types, head.type_of(bag)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = {
        "unsigned": types.is_uint64,
        "integer": types.is_integer,
        "number": types.is_floating,
        "boolean": types.is_boolean,
        "date": types.is_date,
    }
    for name, test in tests.items():
        if test(kind):
            return name
    if types.is_timestamp(kind):
        return str(kind.unit)
    if types.is_string(kind) or types.is_large_string(kind) or getattr(types, "is_string_view", lambda _: False)(kind):
        return "text"
    if types.is_null(kind):
        raise TableError(f"{str(head.path)!r}: column {bag!r} of bag ids has no values; fill them in")
    raise TableError(
        f"{str(head.path)!r}: column {bag!r} of bag ids must hold whole numbers, text, dates or times, got {kind}; "
        "convert it to text"
    )


def _common_kind(heads: list[Head], bag: str, bag_type: str) -> str:
    """Return the one kind of ids of several files: the type asked for, or the one they have."""
    kinds = {_id_kind(head, bag): head for head in heads if head.ids is not None or format_of(head.path) != "CSV"}
    if bag_type != "auto":
        return bag_type
    if len(kinds) < 2:
        return next(iter(kinds), "text")
    if set(kinds) <= set(_UNITS):
        return max(kinds, key=_UNITS.index)
    if set(kinds) == {"integer", "unsigned"}:
        return "integer"
    (one, a), (two, b) = list(kinds.items())[:2]
    if format_of(a.path) == "CSV":
        return "text"
    raise TableError(
        f"column {bag!r} of bag ids must be of one type in all files, got {one} in {str(a.path)!r} and {two} in "
        f"{str(b.path)!r}; convert one of them, or pass bag_type='text'"
    )


def label_columns(source: Any, bag: str, label: str, delimiter: str | None, bag_type: str) -> tuple[Plan, Any, Any]:
    """Return a plan, the ids and the labels of a table of labels, both as arrow arrays; labels of CSV are text."""
    pa = arrow()
    filled = _filled(source, bag, delimiter)
    for head in filled:
        check_column(head, "label", label)
    plan = Plan(
        files=tuple(head.path for head in filled),
        delimiter=delimiter,
        bag=bag,
        columns=(label,),
        names=(label,),
        weights=None,
        ids=_common_kind(filled, bag, bag_type),
        guessed=bag_type == "auto" and format_of(filled[0].path) == "CSV",
        dtype=np.dtype(float),
        lists=False,
        booleans=frozenset(),
        rows=None,
    )
    ids, labels = [], []
    for path in plan.files:
        start = 0
        for batch in _raw(path, delimiter, [bag, label], {bag: pa.string(), label: pa.string()}):
            rows = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            piece = Piece(plan, path, batch, rows, False)
            ids.append(piece.ids)
            labels.append(piece.label(label))
    if not ids:
        raise no_rows(plan.files)
    return plan, pa.concat_arrays(ids), pa.chunked_array(labels)


def _first_width(heads: list[Head], name: str, delimiter: str | None) -> int:
    """Return the number of coordinates of the first point in a column of lists of lists."""
    pa = arrow()
    for head in heads:
        for batch in _raw(head.path, delimiter, [name], {}):
            column = batch.column(batch.schema.names.index(name)).drop_null()
            points = _unlist(pa, column)[0].drop_null() if len(column) else column  # type: ignore[index]
            if len(points):
                return len(points[0])
    raise TableError(f"{str(heads[0].path)!r}: column {name!r} holds no points; check how it was written")


# ---------------------------------------------------------------------------------------------------- readers
def _raw(path: Path, delimiter: str | None, names: list[str], types: dict[str, Any]) -> Iterator[Any]:
    """Yield record batches with at least the columns `names` of one file, in the order of its rows."""
    kind = format_of(path)
    if kind == "CSV":
        yield from _csv_batches(path, delimiter, names, types)
        return
    with _reading(path):
        if kind == "Parquet":
            # Without these it would hold all of the file, or all of a row group, before the first piece.
            bounded = {"pre_buffer": False, "buffer_size": 1 << 20}
            with arrow("pyarrow.parquet").ParquetFile(str(path), **bounded) as table:
                yield from table.iter_batches(_piece_rows(table.metadata, names), columns=names)
        elif kind == "Feather":
            reader = _ipc(path, names)
            count = getattr(reader, "num_record_batches", None)
            for batch in reader if count is None else map(reader.get_batch, range(count)):
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.slice(start, ROWS)
        else:
            batch = _npz_batch(path, names)
            for start in range(0, batch.num_rows, ROWS):
                yield batch.slice(start, ROWS)


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


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _npz_head(path: Path) -> Head:
    """Return the columns of an .npz archive: its 1-D arrays, and those of its 2-D arrays as name_0, name_1, ..."""
    pa = arrow()
    names, types, lengths = [], [], {}
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"format", "version", "points", "offsets"} <= set(members):
            raise TableError(f"{str(path)!r} was written by Bags.save and is no table; read it with Bags.load")
        for name in members:
            with archive.open(f"{name}.npy") as member:
                shape, _, dtype = _HEADERS[np.lib.format.read_magic(member)](member)
            if len(shape) in (1, 2):
                lengths[name] = shape[0]
                width = shape[1] if len(shape) == 2 else None
                names += [name] if width is None else [f"{name}_{j}" for j in range(width)]
                types += [_arrow_type(pa, dtype)] * (1 if width is None else width)
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
        raise TableError(f"{str(path)!r}: arrays must have one entry a row, got lengths {rows}; write it again")
    return Head(path, tuple(names), tuple(types), next(iter(lengths.values()), 0))


def _arrow_type(pa: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind == "f" and dtype.itemsize > 8:
        return pa.float64()
    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.binary()


def _npz_batch(path: Path, names: list[str]) -> Any:
    pa = arrow()
    columns = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            if name in names:
                columns[name] = archive[name]
            elif any(other.rpartition("_")[0] == name for other in names):
                block = archive[name]
                if block.ndim == 2:
                    columns.update({f"{name}_{j}": block[:, j] for j in range(block.shape[1])})
    return pa.record_batch([arrow_array(columns[name]) for name in names], names=names)


def arrow_array(values: NDArray[Any]) -> Any:
    """Return a NumPy array as an arrow one: contiguous, in the machine's byte order, at most double precision."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    return arrow().array(values.astype(values.dtype.newbyteorder("="), copy=False))


# -------------------------------------------------------------------------------------------------------- CSV
def separator(path: Path, delimiter: str | None) -> str:
    """Return what stands between the values of a CSV file."""
    return delimiter or ("\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ",")


def _open_csv(path: Path, delimiter: str | None, **convert: Any) -> Any:
    module = arrow("pyarrow.csv")
    return module.open_csv(
        arrow().input_stream(str(path)),
        read_options=module.ReadOptions(block_size=BLOCK),
        parse_options=module.ParseOptions(delimiter=separator(path, delimiter), newlines_in_values=True),
        convert_options=module.ConvertOptions(**convert),
    )


def _csv_head(path: Path, delimiter: str | None, bag: str | None) -> Head:
    """Return the names of a CSV file, and the types that its first block suggests."""
    pa = arrow()
    try:
        with _open_csv(path, delimiter, column_types={} if bag is None else {bag: pa.string()}) as reader:
            schema = reader.schema
            batch = next((piece for piece in reader if piece.num_rows), None)
    except pa.ArrowInvalid as error:
        raise _csv_fault(path, delimiter, [], error) from None
    head = Head(path, tuple(schema.names), tuple(schema.types), None if batch is not None else 0)
    if batch is None or bag is None or head.names.count(bag) != 1:
        return head
    ids = batch.column(head.names.index(bag))
    compute = arrow("pyarrow.compute")
    ids = ids.filter(compute.not_equal(ids, ""))
    kind = "text"
    for name, pattern in (("integer", _INTEGER), ("date", _DATE)):
        if compute.all(compute.match_substring_regex(ids, pattern)).as_py():
            kind = name
    return Head(path, head.names, head.types, None, kind if len(ids) else None)


def _csv_batches(path: Path, delimiter: str | None, names: list[str], types: dict[str, Any]) -> Iterator[Any]:
    # An empty field is missing; words such as NA are not, because they may be ids.
    missing: dict[str, Any] = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
    with _reading(path):
        try:
            with _open_csv(path, delimiter, include_columns=names, column_types=types, **missing) as reader:
                for batch in reader:
                    for start in range(0, batch.num_rows, ROWS):
                        yield batch.slice(start, ROWS)
        except arrow().ArrowInvalid as error:
            numbers = [name for name, kind in types.items() if is_number(kind)]
            raise _csv_fault(path, delimiter, numbers, error) from None


def _csv_records(path: Path, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the values of every row, the header first; slow, and only for errors."""
    with arrow().input_stream(str(path)) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=separator(path, delimiter))
        yield from ((reader.line_num, record) for record in reader if record)


def _csv_fault(path: Path, delimiter: str | None, numbers: list[str], error: Exception) -> TableError:
    """Return the error for the first value that is no number, or for the first row that is too short or too long."""
    with suppress(csv.Error, OSError, StopIteration):
        records = _csv_records(path, delimiter)
        _, header = next(records)
        places = [(header.index(name), name) for name in numbers if name in header]
        for line, record in records:
            if len(record) != len(header):
                return TableError(
                    f"{str(path)!r}, line {line}: got {len(record)} values where the header has {len(header)}; correct "
                    "that line, or pass the delimiter"
                )
            for place, name in places:
                if not _NUMBER.fullmatch(record[place].strip()):
                    return TableError(
                        f"{str(path)!r}, line {line}, column {name!r}: must be a number, got {record[place]!r}; "
                        "correct it, or leave the row or the column out"
                    )
    return _unreadable(path, error)


# ----------------------------------------------------------------------------------------------------- stream
def stream(plan: Plan, *, ids_only: bool = False, since: Any = None) -> Generator[Any, None, None]:
    """Yield the points of a table in the order of its files and rows, as checked record batches.

    Parameters
    ----------
    plan : Plan
        From `make_plan`.
    ids_only : bool
        Leave out coordinates and weights, and do not read them.
    since : int, float or str, optional
        Leave out bags whose id, as it is in the batches, comes before this one.

    Yields
    ------
    pyarrow.RecordBatch
        ``id`` (int64, uint64, float64 or string, see `id_values`), ``c0``, ``c1``, ... and ``w``.
    """
    pa, compute = arrow(), arrow("pyarrow.compute")
    numbers = [*plan.columns, *([plan.weights] if plan.weights else [])]
    if ids_only:
        numbers = [plan.columns[0]] if plan.lists else []
    total = 0
    for path in plan.files:
        types = {name: pa.bool_() if (path, name) in plan.booleans else pa.float64() for name in numbers}
        start = 0
        for batch in _raw(
            path, plan.delimiter, list({plan.bag: 0, **dict.fromkeys(numbers)}), {**types, plan.bag: pa.string()}
        ):
            rows = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            piece = Piece(plan, path, batch, rows, ids_only)
            if since is not None:
                keep = compute.greater_equal(piece.ids, pa.scalar(since, piece.ids.type))
                piece.keep(np.asarray(keep.to_numpy(zero_copy_only=False), bool))
            if piece.batch.num_rows:
                yield piece.checked()
        total += start
    if not total:
        raise no_rows(plan.files)


def count_rows(plan: Plan) -> int:
    """Return the number of rows of all files, by reading the column of ids."""
    types = {plan.bag: arrow().string()}
    return sum(batch.num_rows for path in plan.files for batch in _raw(path, plan.delimiter, [plan.bag], types))


def batch_schema(plan: Plan, ids_only: bool) -> Any:
    """Return the schema of the batches of `stream`."""
    pa = arrow()
    kind = {"text": pa.string(), "number": pa.float64(), "unsigned": pa.uint64()}.get(plan.ids, pa.int64())
    fields = [("id", kind)]
    if not ids_only:
        fields += [(f"c{j}", pa.from_numpy_dtype(plan.dtype)) for j in range(len(plan.names))]
        fields += [("w", pa.float64())] if plan.weights else []
    return pa.schema(fields)


def id_values(ids: Any, kind: str) -> NDArray[Any]:
    """Return ids as `stream` has them, an arrow array, as NumPy ids of their kind."""
    if kind == "text":
        return np.array(ids.to_pylist(), dtype=str)
    values: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    if kind == "boolean":
        return values.astype(bool)
    unit = "D" if kind == "date" else kind
    return values.astype(f"M8[{unit}]") if kind in ("date", *_UNITS) else values


class Piece:
    """One record batch of a file on its way to a checked one."""

    def __init__(self, plan: Plan, path: Path, batch: Any, rows: NDArray[Any], ids_only: bool) -> None:
        self.plan, self.path, self.batch, self.rows, self.ids_only = plan, path, batch, rows, ids_only
        self.ids = self._ids()

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Leave out rows."""
        pa = arrow()
        self.batch, self.rows, self.ids = (
            self.batch.filter(pa.array(mask)),
            self.rows[mask],
            self.ids.filter(pa.array(mask)),
        )

    def fault(self, row: int, column: str, text: str) -> TableError:
        """Return the error for a value in a row of this piece: file, place, column, bag."""
        number = int(self.rows[row])
        place = f"row {number}"
        if format_of(self.path) == "CSV":
            records = enumerate(_csv_records(self.path, self.plan.delimiter))
            place = f"line {next((line for i, (line, _) in records if i == number + 1), number + 2)}"
        bag = ""
        if column != self.plan.bag:
            bag = f" (bag {few(id_values(self.ids.slice(row, 1), self.plan.ids))})"
        return TableError(f"{str(self.path)!r}, {place}, column {column!r}{bag}: {text}")

    def _column(self, name: str) -> Any:
        return self.batch.column(self.batch.schema.names.index(name))

    def label(self, name: str) -> Any:
        """Return the column of labels, none missing."""
        pa, column = arrow(), self._column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        types = pa.types
        if not (is_number(column.type) or types.is_string(column.type) or types.is_large_string(column.type)):
            text = f"a label must be a number or text, got {column.type}; convert the column"
            raise TableError(f"{str(self.path)!r}, column {name!r}: {text}")
        missing = np.flatnonzero(column.is_null(nan_is_null=True))
        if missing.size:
            raise self.fault(int(missing[0]), name, "a bag must have a label, got none; drop that row, or fill it in")
        return column.cast(pa.float64()) if types.is_decimal(column.type) else column

    def _ids(self) -> Any:
        """Return the ids in the type that batches have."""
        pa, compute = arrow(), arrow("pyarrow.compute")
        plan, kind = self.plan, self.plan.ids
        column = self._column(plan.bag)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        missing = column.is_null(nan_is_null=True)
        if compute.any(missing).as_py():
            row = int(np.flatnonzero(missing.to_numpy(zero_copy_only=False))[0])
            raise self.fault(row, plan.bag, "a row must say its bag, got no id; drop that row, or fill the id in")
        if plan.guessed and kind in ("integer", "date"):
            fits = compute.match_substring_regex(column, _INTEGER if kind == "integer" else _DATE)
            if not compute.all(fits).as_py():
                row = int(np.flatnonzero(~fits.to_numpy(zero_copy_only=False))[0])
                what = "a whole number" if kind == "integer" else "a date"
                raise self.fault(
                    row,
                    plan.bag,
                    f"an id must be {what}, as at the beginning of the table, got {column[row].as_py()!r}; correct it, "
                    "or pass bag_type='text'",
                )
        try:
            return self._cast(column, kind)
        except pa.ArrowInvalid:
            pass
        row = next(i for i in range(len(column)) if not self._fits(column.slice(i, 1), kind))
        what = {"integer": "a whole number below 2^63", "date": "a date"}.get(kind, f"of type {kind}")
        raise self.fault(row, plan.bag, f"an id must be {what}, got {column[row].as_py()!r}; pass bag_type='text'")

    def _fits(self, column: Any, kind: str) -> bool:
        try:
            self._cast(column, kind)
        except arrow().ArrowInvalid:
            return False
        return True

    @staticmethod
    def _cast(column: Any, kind: str) -> Any:
        pa = arrow()
        if kind == "text":
            return column.cast(pa.string())
        if kind == "number":  # adding zero makes -0 and 0 one id
            return pa.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0)
        if kind == "date":
            return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        if kind in _UNITS:
            return column.cast(pa.timestamp(kind, column.type.tz)).cast(pa.int64())
        return column.cast(pa.uint64() if kind == "unsigned" else pa.int64())

    def checked(self) -> Any:
        """Return the record batch, or raise the error that names the first value that may not be."""
        plan, pa = self.plan, arrow()
        schema = batch_schema(plan, self.ids_only)
        columns: list[tuple[str, Any]] = []
        names = [plan.columns[0]] if self.ids_only else list(plan.columns)
        weights = plan.weights if not self.ids_only else None
        if plan.lists:
            sizes, columns = self._unlisted(names, weights)
            self._repeat(sizes)
        elif not self.ids_only:
            columns = [(name, self._column(name)) for name in ([*names, weights] if weights else names)]
        arrays = [self.ids]
        if not self.ids_only:
            for j, (name, column) in enumerate(columns):
                arrays.append(pa.array(self._floats(name, column, is_weight=bool(weights) and j == len(columns) - 1)))
        return pa.record_batch(arrays, schema=schema)

    def _repeat(self, sizes: NDArray[Any]) -> None:
        """Make rows of lists rows of points."""
        index = np.repeat(np.arange(len(sizes)), sizes)
        self.rows, self.ids = self.rows[index], self.ids.take(arrow().array(index))

    def _unlisted(self, names: list[str], weights: str | None) -> tuple[NDArray[Any], list[tuple[str, Any]]]:
        """Return the sizes of the lists, and their values with the name of the column they are from."""
        pa, sizes = arrow(), None
        columns: list[tuple[str, Any]] = []
        for name in [*names, weights] if weights else names:
            column = self._column(name)
            if column.null_count:
                row = int(np.flatnonzero(column.is_null())[0])
                raise self.fault(row, name, "a bag must have a list of points, got null; drop that row")
            values, offsets = _unlist(pa, column)  # type: ignore[misc]
            lengths = np.diff(offsets)
            if sizes is None:
                sizes = lengths
                if not sizes.all():
                    row = int(np.flatnonzero(sizes == 0)[0])
                    raise self.fault(row, name, "a bag must have at least one point, got an empty list; drop that row")
            elif (bad := np.flatnonzero(lengths != sizes)).size:
                text = (
                    f"lists of a row must be equally long, got {lengths[bad[0]]} and, in {names[0]!r}, {sizes[bad[0]]}"
                )
                raise self.fault(int(bad[0]), name, f"{text}; correct that row")
            nested = name != weights and _nested(column.type) is not None
            columns += self._coordinates(name, values, offsets) if nested else [(name, values)]
        assert sizes is not None
        return sizes, columns

    def _coordinates(self, name: str, points: Any, offsets: NDArray[Any]) -> list[tuple[str, Any]]:
        """Return the coordinates of points that are lists or structs."""
        pa, width = arrow(), len(self.plan.names)
        bags = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        if points.null_count:
            raise self.fault(int(bags[np.flatnonzero(points.is_null())[0]]), name, "a point must not be null; drop it")
        if pa.types.is_struct(points.type):
            fields = dict(zip((field.name for field in points.type), points.flatten(), strict=True))
            absent = [field for field in self.plan.names if field not in fields]
            if absent:
                raise self.fault(
                    0, name, f"a point must have the fields {few(self.plan.names)}, got {few(fields)}; add it"
                )
            return [(name, fields[field]) for field in self.plan.names]
        values, bounds = _unlist(pa, points)  # type: ignore[misc]
        bad = np.flatnonzero(np.diff(bounds) != width)
        if bad.size:
            text = f"a point must have {width} coordinates, as the first has, got {np.diff(bounds)[bad[0]]}"
            raise self.fault(int(bags[bad[0]]), name, f"{text}; correct that row")
        index = np.arange(len(points)) * width
        return [(name, values.take(pa.array(index + j))) for j in range(width)]

    def _floats(self, name: str, column: Any, is_weight: bool) -> NDArray[Any]:
        """Return a column of numbers as floats, all finite, and nonnegative if they are weights."""
        pa = arrow()
        if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
            column = column.cast(pa.float64())
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        dtype = np.dtype(float) if is_weight else self.plan.dtype
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        what = "a weight" if is_weight else "a coordinate"
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(values.sum()))  # a sum is finite only if every term is
        if not finite and (bad := np.flatnonzero(~np.isfinite(values))).size:
            got = "no value" if column.is_null()[int(bad[0])].as_py() else repr(float(values[bad[0]]))
            text = f"{what} must be a finite number, got {got}; drop that row, or fill the value in"
            raise self.fault(int(bad[0]), name, text)
        if is_weight and values.min() < 0:
            row = int(np.flatnonzero(values < 0)[0])
            raise self.fault(
                row, name, f"a weight must be nonnegative, got {float(values[row])!r}; drop that row, or correct it"
            )
        return values
