"""Files of tables: which there are, what each says of its columns, and their rows piece by piece.

Parquet and Feather are read by pyarrow. CSV is read block by block; its first block tells the types. Archives of NumPy
are read by :mod:`distembed.tables.files`. What can't be read is a :class:`TableError`.

What is wrong with a file that can't be read, as a sentence: slow, and only for errors.

Feather files, which are Arrow IPC: mapped to memory, so that a record batch may be larger than it.

Who reads a mapped file beyond where it was cut is killed by the system. So pieces are copied as soon as they are read,
and the file is looked at before.

NumPy archives as tables: an array is a column, or one per coordinate if it is 2-D. They are read whole.

What an archive says of itself is compared with its size before anything is made of it: a header of a hundred bytes may
claim terabytes.
"""

from __future__ import annotations

import csv
import glob
import importlib
import io
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags.coordinates import MISSING_WORDS, is_number_word
from ..bags.flat import few
from ..compute.checks import Argument, Message, check_choice
from .remote import Remote

FORMATS = {
    ".parquet": "Parquet", ".pq": "Parquet", ".feather": "Feather", ".arrow": "Feather", ".csv": "CSV", ".tsv": "CSV",
    ".npz": "npz",
}  # fmt: skip
_PACKED = (".gz", ".bz2", ".zst")
_FIELDS = {".h5ad": "Bags.from_anndata", ".fcs": "Bags.from_fcs"}

ROWS = 65_536  # rows of a piece
BLOCK = 1 << 22  # bytes of CSV that are read at once; the first block tells the types

# What ids in CSV files are taken for integers and dates.
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


# --------------------------------------------------------------------------------------------------------------
# Errors and packages
# --------------------------------------------------------------------------------------------------------------


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


# Besides all that pyarrow has of its own, some of which are no ValueErrors either.
_UNREADABLE = (ValueError, OSError, NotImplementedError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the libraries raise for bytes they can't read into one sentence."""
    try:
        yield
    except (TableError, ImportError):
        raise
    except Exception as error:
        if not isinstance(error, _UNREADABLE) and type(error).__module__.partition(".")[0] != "pyarrow":
            raise

        raise unreadable(path, error) from None


class Package:
    """A module of the extra `tables`, imported when something of it is used, or the error that says how to install it.

    `what` says what needs it.
    """

    def __init__(self, name: str, what: str = "reading and writing tables") -> None:
        self._name = name
        self._what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return Package, (self._name, self._what)

    def __getattr__(self, attribute: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            package = self._name.partition(".")[0]
            raise ImportError(f"{self._what} needs {package}: pip install 'distembed[tables]'") from error
        return getattr(module, attribute)


pa = Package("pyarrow")
compute = Package("pyarrow.compute")
arrow_csv = Package("pyarrow.csv")
ipc = Package("pyarrow.ipc")
parquet = Package("pyarrow.parquet")


# --------------------------------------------------------------------------------------------------------------
# Which files there are
# --------------------------------------------------------------------------------------------------------------


def as_path(entry: Any, storage_options: dict[str, Any] | None = None) -> Any:
    """Return a local path, or the file or folder of a store that a URL names."""
    text = os.fspath(entry)
    if isinstance(entry, Remote) or "://" not in text or text.startswith("file://"):
        return entry if isinstance(entry, Remote) else Path(text.removeprefix("file://"))
    return Remote(text, storage_options)


def source_of(path: Any) -> Any:
    """Return what pyarrow reads: the name of a local file, or an open file of a store."""
    return path.open("rb") if isinstance(path, Remote) else str(path)


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format that the suffix of a path tells, or None."""
    last = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
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
    return tuple(files)


def _check_once(files: Sequence[Path]) -> None:
    """Raise if a file is there twice, under whatever names: its points would count twice."""
    known: dict[Any, tuple[int, Any]] = {}
    for i, path in enumerate(files):
        facts = path.stat()
        at, first = known.setdefault((facts.st_dev, facts.st_ino) if facts.st_ino else str(path), (i, path))
        if at != i:
            how = "more than once" if first == path else f"and {str(path)!r}, which is the same file"
            raise TableError(f"each file must be named once, got {str(first)!r} {how}; leave out the second")


def _matches(path: Path) -> list[Path]:
    known = ", ".join(FORMATS)
    try:
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*")) if format_of(file) and file.is_file()]
            shown = [file for file in inside if all(part[0] not in "._" for part in file.relative_to(path).parts)]
            if not shown:
                raise TableError(f"directory {str(path)!r} holds no tables ({known}); name another directory or a file")
            return shown
        exists = path.exists()
        is_file = path.is_file()
    except OSError as error:
        raise unreadable(path, error) from None
    if not exists and any(sign in str(path) for sign in "*?["):
        found = path.matches() if isinstance(path, Remote) else sorted(glob.glob(str(path), recursive=True))
        if not found:
            raise TableError(f"no file matches {str(path)!r}; check the pattern")
        return [file for match in found for file in _matches(as_path(match))]
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


# --------------------------------------------------------------------------------------------------------------
# Any file: its beginning, and its rows
# --------------------------------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """How files are read: the signs of CSV, and the columns whose values are joined to one id."""

    delimiter: str | None = None
    decimal: str = "."
    joined: tuple[str, ...] = ()

    @property
    def bag(self) -> str:
        """The name of the column of joined ids."""
        return ",".join(self.joined)

    def plain(self, word: str) -> str:
        """Return a word with a point in place of the decimal sign."""
        return word if self.decimal == "." else word.translate({ord(","): ".", ord("."): ","})


def check_reading(owner: str, delimiter: Any, decimal: Any) -> Reading:
    """Return how CSV is read; a delimiter is one character, or None, and not the decimal sign."""
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1):
        where = Argument("delimiter", owner=owner)
        raise ValueError(Message(where, f": must be one character, got {delimiter!r}; give ';', for example"))
    if check_choice(owner, "decimal", decimal, (".", ",")) == delimiter:
        where = Argument("decimal", owner=owner)
        raise ValueError(Message(where, f": must differ from the delimiter, got {decimal!r} for both; change one"))
    return Reading(delimiter, decimal)


@dataclass(frozen=True)
class Head:
    """What the beginning of a file tells: types by name in file order, rows if known, and the kind of the ids."""

    path: Path
    names: tuple[str, ...]
    types: tuple[Any, ...]
    rows: int | None
    ids: str | None = None  # of a CSV file, whose types are guessed

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each name is there."""
        return Counter(self.names)

    @cached_property
    def _types(self) -> dict[str, Any]:
        return dict(zip(reversed(self.names), reversed(self.types), strict=True))

    def type_of(self, name: str) -> Any:
        """Return the type of a column, of the first of this name."""
        return self._types[name]


def describe(path: Path, how: Reading, bag: str | None) -> Head:
    """Return what the beginning of a file tells of it; footers and first blocks are all that is read.

    Beside columns whose values are joined to ids stands one that has these.
    """
    if how.joined and bag == how.bag:
        head = describe(path, how, None)
        return replace(head, names=(*head.names, bag), types=(*head.types, pa.string()), ids="text")
    with reading(path):
        with path.open("rb") as file:
            if not file.read(1):
                raise TableError(f"{str(path)!r} is empty; write it again")
        kind = format_of(path)
        if kind == "Parquet":
            with parquet.ParquetFile(source_of(path)) as table:
                schema = table.schema_arrow
                rows = table.metadata.num_rows
                return Head(path, tuple(schema.names), tuple(schema.types), rows)
        if kind == "Feather":
            schema = open_ipc(path).schema
            has_rows = any(batch.num_rows for batch in pieces_of(path))
            return Head(path, tuple(schema.names), tuple(schema.types), None if has_rows else 0)
        if kind == "npz":
            return npz_head(path)
        return _csv_head(path, how, bag)


def read_pieces(
    path: Path, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None = None
) -> Iterator[Any]:
    """Yield record batches with at least the columns `names` of one file, in the order of its rows.

    `types` are the arrow types of columns of a CSV file. Other files say theirs. `group` is the footer of a Parquet
    file and the number of a row group, where only that is to be read.
    """
    if how.joined and how.bag in names:
        from .texts import with_joined_ids

        names = [name for name in dict.fromkeys((*names, *how.joined)) if name != how.bag]
        types = {name: each for name, each in types.items() if name != how.bag} | dict.fromkeys(how.joined, pa.string())
        yield from (with_joined_ids(batch, how) for batch in read_pieces(path, how, names, types))
        return
    begin = stamp(path)
    with closing(_batches(path, how, names, types, group)) as batches:
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS):
                check_stamp(path, begin)
                yield batch.slice(start, ROWS)
    check_stamp(path, begin)


def stamp(path: Path) -> tuple[int, int]:
    """Return what tells a file from itself after a change: its size and when it was written."""
    try:
        facts = path.stat()
    except OSError as error:
        raise TableError(f"{str(path)!r} can't be read any more: {error.strerror}; put it back") from None
    return facts.st_size, facts.st_mtime_ns


def check_stamp(path: Path, before: tuple[int, int]) -> None:
    """Raise if a file has changed since."""
    if stamp(path) != before:
        raise TableError(f"{str(path)!r} has changed while it was read; do it again when it is complete")


def values_of(batch: Any, name: str) -> Any:
    """Return a column of a record batch, categories as the values they stand for."""
    column = batch.column(batch.schema.get_field_index(name))
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _batches(
    path: Path, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None
) -> Generator[Any, None, None]:
    """Yield the record batches of a file, however long they are."""
    kind = format_of(path)
    with reading(path):
        if kind == "CSV":
            yield from _csv_batches(path, how, names, types)
        elif kind == "Parquet":
            # Without these it would hold all of the file, or all of a row group, before the first piece.
            bounded = {"pre_buffer": False, "buffer_size": 1 << 20}
            footer, groups = (None, None) if group is None else (group[0], [group[1]])
            with parquet.ParquetFile(source_of(path), metadata=footer, **bounded) as table:
                batches = table.iter_batches(_rows_at_once(table.metadata, names), row_groups=groups, columns=names)
                yield from (_with_text(path, batch) for batch in batches)
        elif kind == "Feather":
            yield from (_with_text(path, batch) for batch in pieces_of(path, names))
        else:
            yield npz_batch(path, names)


def _with_text(path: Path, batch: Any) -> Any:
    """Return a record batch, its views of text as text; raise if text is not UTF-8, which pyarrow does not look at."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.dictionary if pa.types.is_dictionary(column.type) else column
        if is_text(values.type):
            try:
                values.validate(full=True)
            except pa.ArrowInvalid:
                what = f"{str(path)!r}: column {name!r} holds text that is not UTF-8"
                raise TableError(f"{what}; write it again, decoded as what it is, often Latin-1") from None
        columns.append(column.cast(pa.string()) if str(column.type) == "string_view" else column)
    return pa.record_batch(columns, names=batch.schema.names)


def is_text(kind: Any) -> bool:
    """Whether values of an arrow type are text."""
    return str(kind) in ("string", "large_string", "string_view")


def _rows_at_once(metadata: Any, names: list[str]) -> int:
    """Return how many rows to read at once, so that a piece has about ROWS points even where rows are lists."""
    most = 1
    wanted = set(names)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = (group.column(j) for j in range(group.num_columns))
        values = [chunk.num_values for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted]
        most = max(most, max(values, default=0) // max(group.num_rows, 1))
    return max(1, ROWS // most)


# --------------------------------------------------------------------------------------------------------------
# CSV
# --------------------------------------------------------------------------------------------------------------


def separator(path: Path, how: Reading) -> str:
    """Return what stands between the values of a CSV file."""
    if ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        return how.delimiter or "\t"
    return how.delimiter or (";" if how.decimal == "," else ",")


def _open_csv(path: Path, how: Reading, **convert: Any) -> Any:
    return arrow_csv.open_csv(
        pa.input_stream(source_of(path), compression=path.packing if isinstance(path, Remote) else "detect"),
        read_options=arrow_csv.ReadOptions(block_size=BLOCK),
        parse_options=arrow_csv.ParseOptions(delimiter=separator(path, how), newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(null_values=MISSING_WORDS, decimal_point=how.decimal, **convert),
    )


def _csv_head(path: Path, how: Reading, bag: str | None) -> Head:
    """Return the names of a CSV file, and the types that its first block suggests."""
    try:
        with _open_csv(path, how, column_types={} if bag is None else {bag: pa.string()}) as reader:
            schema = reader.schema
            batch = next((piece for piece in reader if piece.num_rows), None)
    except pa.ArrowInvalid as error:
        raise csv_fault(path, how, [], error) from None
    names = tuple(schema.names)
    kind = None
    if any("\0" in name for name in names):
        raise ValueError  # of other text, see `unreadable`
    if batch is not None and bag is not None and names.count(bag) == 1:
        ids = batch.column(names.index(bag))
        ids = ids.filter(compute.not_equal(ids, ""))
        patterns = {"date": DATE, "integer": INTEGER, "text": ""} if len(ids) else {}
        fits = ((name, compute.match_substring_regex(ids, pattern)) for name, pattern in patterns.items())
        kind = next((name for name, each in fits if compute.all(each).as_py()), None)
    return Head(path, names, tuple(schema.types), None if batch is not None else 0, kind)


def _csv_batches(path: Path, how: Reading, names: list[str], types: dict[str, Any]) -> Iterator[Any]:
    """Yield the columns `names` of a CSV file, a record batch for each block."""
    try:
        with _open_csv(path, how, include_columns=names, column_types=types) as reader:
            yield from map(_without_empty_text, reader)
    except pa.ArrowInvalid as error:
        numbers = [name for name, kind in types.items() if kind != pa.string()]
        raise csv_fault(path, how, numbers, error) from None


def _without_empty_text(batch: Any) -> Any:
    """Return a record batch with null for text that is empty; words such as NA are text, because they may be ids."""
    columns = [
        compute.if_else(compute.equal(column, ""), None, column) if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)


# What is wrong with a file that can't be read, as a sentence: slow, and only for errors

_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def unreadable(path: Path, error: Exception) -> TableError:
    """Return the error for a file whose bytes can't be read."""
    if isinstance(error, PermissionError):
        return TableError(f"no permission to read {str(path)!r}; change its permissions or copy it")
    if isinstance(path, Remote) and isinstance(error, OSError) and not isinstance(error, pa.ArrowException):
        why = error.strerror or type(error).__name__  # never its text, which may hold more than people should see
        return TableError(f"{str(path)!r} can't be read from its store: {why.lower()}; try again, or look at the store")
    other = _other_text(path) if format_of(path) == "CSV" else None
    if other is not None:
        return TableError(f"{str(path)!r} is {other} text, and must be UTF-8; save it as UTF-8")
    if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
        what = "is not UTF-8 text" if format_of(path) == "CSV" else "has a column whose name is not UTF-8"
        return TableError(f"{str(path)!r} {what}; save it as UTF-8")
    return TableError(
        f"{str(path)!r} is no readable {format_of(path)} file: it is damaged, cut off or of another format; write it "
        "again, or correct its suffix"
    )


def _text(path: Any) -> Any:
    return pa.input_stream(source_of(path), compression=path.packing if isinstance(path, Remote) else "detect")


def _other_text(path: Path) -> str | None:
    """Return what text a CSV file is by its first bytes, if not UTF-8; zeros between letters tell of UTF-16."""
    with suppress(ValueError, OSError), _text(path) as stream:
        begin = stream.read(1000)
        found = (kind for mark, kind in _MARKS.items() if begin.startswith(mark))
        return next(found, "UTF-16" if begin.count(0) >= len(begin) // 3 > 0 else None)
    return None


def _csv_records(path: Path, how: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the values of every row, the header first; slow, and only for errors."""
    with _text(path) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=separator(path, how))
        yield from ((reader.line_num, record) for record in reader if record)


def line_of(path: Path, how: Reading, row: int) -> int:
    """Return the number of the line on which a row ends, counted from 1; rows are counted from 0, after the header."""
    records = enumerate(_csv_records(path, how))
    return next((line for i, (line, _) in records if i == row + 1), row + 2)


def csv_fault(path: Path, how: Reading, numbers: list[str], error: Exception) -> TableError:
    """Return the error for the first value that is no number, or for the first row that is too short or too long."""
    if _other_text(path) is not None:
        return unreadable(path, error)
    with suppress(csv.Error, OSError, StopIteration):
        records = _csv_records(path, how)
        _, header = next(records)
        places = [(header.index(name), name) for name in numbers if name in header]
        for line, record in records:
            if len(record) != len(header):
                sign = next((sign for sign in ";\t|" if len(header) == 1 and sign in header[0]), ...)
                said = f"{str(path)!r}, line {line}: got {len(record)} values where the header has {len(header)}; "
                return TableError(Message(said, "correct that line, or pass ", Argument("delimiter", sign)))
            for place, name in places:
                word = record[place].strip()
                fits = word.lower() in ("true", "false") or word in MISSING_WORDS
                if not (fits or is_number_word(how.plain(word))):
                    said = f"{str(path)!r}, line {line}, column {name!r}: must be a number, got {record[place]!r}; "
                    remedy = "correct it, leave the row or the column out, or, if it holds labels, name it in "
                    return TableError(Message(said, remedy, Argument("categorical")))
    return unreadable(path, error)


# Feather files, which are Arrow IPC: mapped to memory, so that a record batch may be larger than it


def open_ipc(path: Path, names: list[str] | None = None) -> Any:
    """Return a reader of an Arrow IPC file or stream, of some columns."""
    mapped = pa.BufferReader(path.read_bytes()) if isinstance(path, Remote) else pa.memory_map(str(path))
    try:
        opener = ipc.open_file
        reader = ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        opener = ipc.open_stream
        reader = ipc.open_stream(mapped)
    if names is None:
        return reader
    wanted = set(names)
    fields = [j for j, name in enumerate(reader.schema.names) if name in wanted]
    mapped.seek(0)
    return opener(mapped, options=ipc.IpcReadOptions(included_fields=fields))


def pieces_of(path: Path, names: list[str] | None = None) -> Iterator[Any]:
    """Yield the rows of an Arrow IPC file or stream in record batches that are copies."""
    before = stamp(path)
    reader = open_ipc(path, names)
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


# NumPy archives as tables: an array is a column, or one per coordinate if it is 2-D. They are read whole

MOST_COLUMNS = 100_000
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MOST_PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1_040}  # bytes that a byte of each kind can stand for


def npz_head(path: Path) -> Head:
    """Return the columns of an .npz archive: its 1-D arrays, and those of its 2-D arrays as name_0, name_1, ..."""
    names: list[str] = []
    types = []
    lengths = {}
    with zipfile.ZipFile(source_of(path)) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"format", "version", "points", "offsets"} <= set(members):
            raise TableError(f"{str(path)!r} was written by Bags.save and is no table; read it with Bags.load")
        for name in members:
            shape, dtype = _checked(path, name, archive)
            if len(shape) in (1, 2):
                lengths[name] = shape[0]
                width = 1 if len(shape) == 1 else shape[1]
                if len(names) + width > MOST_COLUMNS:
                    raise TableError(
                        f"{str(path)!r}: array {name!r} of shape {shape} makes {len(names) + width:,} columns, and a "
                        f"table has at most {MOST_COLUMNS:,}; write fewer"
                    )
                names += [name] if len(shape) == 1 else [f"{name}_{j}" for j in range(width)]
                types += [_npz_type(dtype)] * width
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
        raise TableError(f"{str(path)!r}: arrays must have one entry per row, got lengths {rows}; write it again")
    return Head(path, tuple(names), tuple(types), next(iter(lengths.values()), 0))


def _checked(path: Path, name: str, archive: zipfile.ZipFile) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array, or raise if it can't have them within the bytes of the file."""
    facts = archive.getinfo(f"{name}.npy")
    with archive.open(facts) as member:
        shape, _, dtype = _NPY_HEADERS[np.lib.format.read_magic(member)](member)
        size = prod(shape) * dtype.itemsize
        told = facts.file_size - member.tell()
    most = path.stat().st_size * _MOST_PACKED.get(facts.compress_type, 0)
    if (not dtype.hasobject and size != told) or told > most:
        raise TableError(
            f"{str(path)!r}: array {name!r} of shape {shape} takes {size:,} bytes, and the file holds at most "
            f"{max(0, min(told, most)):,}; it is damaged: write it again"
        )
    return shape, dtype


def _npz_type(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind == "f" and dtype.itemsize > 8:
        return pa.float64()
    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.binary()


def npz_batch(path: Path, names: list[str]) -> Any:
    """Return columns of an .npz archive, of which `npz_head` has told, as one record batch."""
    columns: dict[str, NDArray[Any]] = {}
    wanted = {*names, *(name.rpartition("_")[0] for name in names)}
    with np.load(source_of(path), allow_pickle=False) as archive:
        for name in archive.files:
            if name in wanted:
                block = archive[name]
                columns |= {f"{name}_{j}": each for j, each in enumerate(block.T)} if block.ndim == 2 else {name: block}
    return pa.record_batch([arrow_array(columns[name]) for name in names], names=names)


def arrow_array(values: NDArray[Any]) -> Any:
    """Return a NumPy array as an arrow one: contiguous, in the machine's byte order, at most double precision."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        signs = values.view(np.uint32).reshape(len(values), -1)
        if np.any((signs[:, :-1] == 0) & (signs[:, 1:] != 0)):  # pyarrow cuts NumPy's text at the first NUL
            return pa.array(values.tolist(), pa.string())
    return pa.array(values)
