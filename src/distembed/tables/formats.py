"""Formats of tables: one object for each, which reads the files of its suffixes piece by piece, and writes them.

=======  ================  =============================================================================================
Parquet  .parquet, .pq     read some rows at a time; footers have the number of rows and the ids of row groups
Feather  .feather, .arrow  Arrow IPC, mapped to memory; a record batch may be larger than that
CSV      .csv, .tsv        block by block, also packed (.gz, .bz2, .zst); the first block decides the types
npz      .npz              NumPy's archives, read whole: an array is a column, or one per coordinate if it is 2-D
=======  ================  =============================================================================================

Every :class:`Format` has the same methods in the same order: ``schema``, ``batches``, ``footer``, ``place``, ``fault``,
``open_writer``, ``write``. :func:`format_of` finds the one of a path by its suffix. What can't be read is a
:class:`~distembed.tables.TableError`; to find the words for it is slow, and only done for errors.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags.coordinates import MISSING_WORDS, is_number_word
from ..compute.checks import Argument, Message, check_choice
from ..compute.npz import Header, npz_headers
from .arrow import arrow_array, arrow_csv, compute, ipc, is_number, is_text, pa, parquet
from .paths import AnyPath, TableError, check_stamp, stamp

ROWS = 65_536  # rows of a piece
BLOCK = 1 << 22  # bytes of CSV that are read at once; the first block decides the types
_WRITTEN_ROWS = 65_536  # rows of a record batch that is written

# Ids of CSV files that are taken for integers and dates.
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


# --------------------------------------------------------------------------------------------------------------
# How files are read, and what they have
# --------------------------------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """How files are read: signs of CSV, columns whose values are joined to one id, and sizes of pieces."""

    delimiter: str | None = None
    decimal: str = "."
    joined: tuple[str, ...] = ()
    rows: int = ROWS
    block: int = BLOCK

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
    return Reading(delimiter, decimal, rows=ROWS, block=BLOCK)


@dataclass(frozen=True)
class FileSchema:
    """Columns of a file, by its beginning: names in their order, types, number of rows if known, kind of the ids."""

    path: AnyPath
    names: tuple[str, ...]
    types: tuple[Any, ...]
    rows: int | None
    ids: str | None = None  # where types are guessed

    @property
    def format(self) -> Format:
        """The format of the file."""
        return known_format(self.path)

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


# Besides all that pyarrow has of its own, some of which are no ValueErrors either.
_UNREADABLE = (ValueError, OSError, NotImplementedError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


@contextmanager
def reading(path: AnyPath) -> Iterator[None]:
    """Turn what the libraries raise for bytes they can't read into one sentence."""
    try:
        yield
    except (TableError, ImportError):
        raise
    except Exception as error:
        if not isinstance(error, _UNREADABLE) and type(error).__module__.partition(".")[0] != "pyarrow":
            raise

        raise unreadable(path, error) from None


def unreadable(path: AnyPath, error: Exception) -> TableError:
    """Return the error for a file that can't be read, or whose bytes can't."""
    found = path.fault(error)
    if found is not None:
        return found
    own = format_of(path)
    if own is not None:
        return own.fault(path, error)
    why = getattr(error, "strerror", None) or type(error).__name__
    return TableError(f"{str(path)!r} can't be read: {why.lower()}; check the path")


class Format(ABC):
    """A format of tables.

    Attributes
    ----------
    name : str
        For errors.
    suffixes : tuple of str
        Of its files.
    typed : bool
        Whether files have types of columns. Else values are text, types are guessed, and rows are lines.
    has_lists : bool
        Whether a value can be a list.
    """

    name: str
    suffixes: tuple[str, ...]
    typed = True
    has_lists = False

    @abstractmethod
    def schema(self, path: AnyPath, how: Reading, bag: str | None) -> FileSchema:
        """Return the columns of a file; its footer or its beginning is all that is read."""

    @abstractmethod
    def batches(
        self, path: AnyPath, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None
    ) -> Generator[Any, None, None]:
        """Yield record batches, however long, with at least the columns `names`; see `files.read_pieces`."""

    def footer(self, path: AnyPath) -> Any:
        """Return what a file has of its row groups, as Parquet's metadata; None if it has no row groups."""
        return None

    def place(self, path: AnyPath, how: Reading, row: int) -> str:
        """Return what errors call a row; rows are counted from 0."""
        return f"row {row}"

    def fault(self, path: AnyPath, error: Exception) -> TableError:
        """Return the error for bytes that can't be read."""
        if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
            what = "has a column whose name is not UTF-8" if self.typed else "is not UTF-8 text"
            return TableError(f"{str(path)!r} {what}; save it as UTF-8")
        return TableError(
            f"{str(path)!r} is not a readable {self.name} file: it is damaged, cut off or of another format; write it "
            "again, or correct its suffix"
        )

    @abstractmethod
    def open_writer(self, path: AnyPath, file: BinaryIO, schema: Any) -> Any:
        """Return what writes tables of an arrow schema to an open file; `path` is its name, for suffix and errors."""

    def write(self, writer: Any, table: Any) -> None:
        """Write a table of pyarrow's."""
        writer.write_table(table, _WRITTEN_ROWS)


def is_text_in_utf8(text: str) -> bool:
    """Return whether text from the command line or the file system is UTF-8: Python has other bytes as surrogates.

    Examples
    --------
    >>> is_text_in_utf8("coffee"), is_text_in_utf8(chr(0xDCE9))
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_text(path: AnyPath, batch: Any) -> Any:
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


# --------------------------------------------------------------------------------------------------------------
# Parquet
# --------------------------------------------------------------------------------------------------------------


class Parquet(Format):
    """Parquet, by pyarrow: some rows at a time, never a whole row group."""

    name = "Parquet"
    suffixes = (".parquet", ".pq")
    has_lists = True

    def schema(self, path: AnyPath, how: Reading, bag: str | None) -> FileSchema:
        """Return the columns by the footer, which has the number of rows."""
        with parquet.ParquetFile(path.source()) as table:
            schema = table.schema_arrow
            return FileSchema(path, tuple(schema.names), tuple(schema.types), table.metadata.num_rows)

    def batches(
        self, path: AnyPath, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None
    ) -> Generator[Any, None, None]:
        """Yield some rows at a time."""
        # Without these it would hold all of the file, or all of a row group, before the first piece.
        bounded = {"pre_buffer": False, "buffer_size": 1 << 20}
        footer, groups = (None, None) if group is None else (group[0], [group[1]])
        with parquet.ParquetFile(path.source(), metadata=footer, **bounded) as table:
            n_rows = _rows_at_once(table.metadata, names, how.rows)
            batches = table.iter_batches(n_rows, row_groups=groups, columns=names)
            yield from (_with_text(path, batch) for batch in batches)

    def footer(self, path: AnyPath) -> Any:
        """Return the footer."""
        with reading(path):
            return parquet.read_metadata(path.source())

    def open_writer(self, path: AnyPath, file: BinaryIO, schema: Any) -> Any:
        """Return pyarrow's writer; numbers seldom come again, so only other columns have dictionaries."""
        texts = [field.name for field in schema if not is_number(field.type)]
        return parquet.ParquetWriter(file, schema, use_dictionary=texts)

    def write(self, writer: Any, table: Any) -> None:
        """Write row groups of the size that pyarrow chooses."""
        writer.write_table(table)


def _rows_at_once(metadata: Any, names: list[str], rows: int) -> int:
    """Return how many rows to read at once, for pieces of about `rows` points even where rows are lists."""
    most = 1
    wanted = set(names)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = (group.column(j) for j in range(group.num_columns))
        values = [chunk.num_values for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted]
        most = max(most, max(values, default=0) // max(group.num_rows, 1))
    return max(1, rows // most)


# --------------------------------------------------------------------------------------------------------------
# Feather
# --------------------------------------------------------------------------------------------------------------


class Feather(Format):
    """Arrow IPC files and streams.

    Who reads a mapped file beyond where it was cut is killed by the system. So pieces are copied as soon as they are
    read, and the file is looked at before.
    """

    name = "Feather"
    suffixes = (".feather", ".arrow")
    has_lists = True

    def schema(self, path: AnyPath, how: Reading, bag: str | None) -> FileSchema:
        """Return the columns; record batches are read until one has a row."""
        schema = _open_ipc(path).schema
        has_rows = any(batch.num_rows for batch in _copies(path, how))
        return FileSchema(path, tuple(schema.names), tuple(schema.types), None if has_rows else 0)

    def batches(
        self, path: AnyPath, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None
    ) -> Generator[Any, None, None]:
        """Yield copies of some rows at a time."""
        yield from (_with_text(path, batch) for batch in _copies(path, how, names))

    def open_writer(self, path: AnyPath, file: BinaryIO, schema: Any) -> Any:
        """Return pyarrow's writer."""
        return ipc.new_file(file, schema)


def _open_ipc(path: AnyPath, names: list[str] | None = None) -> Any:
    """Return a reader of an Arrow IPC file or stream, of some columns."""
    mapped = path.open_mapped()
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


def _copies(path: AnyPath, how: Reading, names: list[str] | None = None) -> Iterator[Any]:
    """Yield the rows of an Arrow IPC file or stream in record batches that are copies."""
    before = stamp(path)
    reader = _open_ipc(path, names)
    count = getattr(reader, "num_record_batches", None)
    batches = iter(reader) if count is None else map(reader.get_batch, range(count))
    while True:
        check_stamp(path, before)
        batch = next(batches, None)
        if batch is None:
            return
        _check_bounds(batch)
        for start in range(0, batch.num_rows, how.rows):
            check_stamp(path, before)
            columns = [column.slice(start, how.rows) for column in batch.columns]
            copies = [pa.concat_arrays([column, column.slice(0, 0)]) for column in columns]
            yield pa.record_batch(copies, names=batch.schema.names)


def _check_bounds(batch: Any) -> None:
    """Raise ArrowInvalid for damaged offsets, or codes of labels, which would be followed out of bounds."""
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):  # an error with the name of the column, if it is wanted
                raise


# --------------------------------------------------------------------------------------------------------------
# CSV
# --------------------------------------------------------------------------------------------------------------


class CSV(Format):
    """Text with a header, and a sign between values."""

    name = "CSV"
    suffixes = (".csv", ".tsv")
    typed = False

    def schema(self, path: AnyPath, how: Reading, bag: str | None) -> FileSchema:
        """Return the names of a file, and the types that its first block suggests."""
        bag = None if bag is None or not is_text_in_utf8(bag) else bag  # what is not UTF-8 is in no table
        try:
            with _open_csv(path, how, column_types={} if bag is None else {bag: pa.string()}) as reader:
                schema = reader.schema
                batch = next((piece for piece in reader if piece.num_rows), None)
        except pa.ArrowInvalid as error:
            raise self._value_fault(path, how, [], error) from None
        names = tuple(schema.names)
        kind = None
        if any("\0" in name for name in names):
            raise ValueError  # of other text, see `fault`
        if batch is not None and bag is not None and names.count(bag) == 1:
            ids = batch.column(names.index(bag))
            ids = ids.filter(compute.not_equal(ids, ""))
            patterns = {"date": DATE, "integer": INTEGER, "text": ""} if len(ids) else {}
            fits = ((name, compute.match_substring_regex(ids, pattern)) for name, pattern in patterns.items())
            kind = next((name for name, each in fits if compute.all(each).as_py()), None)
        return FileSchema(path, names, tuple(schema.types), None if batch is not None else 0, kind)

    def batches(
        self, path: AnyPath, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None
    ) -> Generator[Any, None, None]:
        """Yield the columns `names`, of the types `types`, a record batch for each block."""
        try:
            with _open_csv(path, how, include_columns=names, column_types=types) as reader:
                yield from map(_without_empty_text, reader)
        except pa.ArrowInvalid as error:
            numbers = [name for name, kind in types.items() if kind != pa.string()]
            raise self._value_fault(path, how, numbers, error) from None

    def place(self, path: AnyPath, how: Reading, row: int) -> str:
        """Return the number of the line on which a row ends, counted from 1."""
        lines = (line for line, _ in _records(path, how))
        return f"line {next((line for i, line in enumerate(lines) if i == row + 1), row + 2)}"

    def fault(self, path: AnyPath, error: Exception) -> TableError:
        """Return the error for bytes that can't be read, perhaps because they are text of another encoding."""
        other = _other_text(path)
        if other is not None:
            return TableError(f"{str(path)!r} is {other} text, and must be UTF-8; save it as UTF-8")
        return super().fault(path, error)

    def _value_fault(self, path: AnyPath, how: Reading, numbers: list[str], error: Exception) -> TableError:
        """Return the error for the first value that is not a number, or for the first row of a wrong length."""
        if _other_text(path) is not None:
            return self.fault(path, error)
        with suppress(csv.Error, OSError, StopIteration):
            records = _records(path, how)
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

    def open_writer(self, path: AnyPath, file: BinaryIO, schema: Any) -> Any:
        """Return pyarrow's writer."""
        return arrow_csv.CSVWriter(
            file, schema, write_options=arrow_csv.WriteOptions(delimiter=_separator(path, Reading()))
        )


_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def _separator(path: AnyPath, how: Reading) -> str:
    """Return what stands between the values of a CSV file."""
    if ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        return how.delimiter or "\t"
    return how.delimiter or (";" if how.decimal == "," else ",")


def _open_csv(path: AnyPath, how: Reading, **convert: Any) -> Any:
    return arrow_csv.open_csv(
        path.open_unpacked(),
        read_options=arrow_csv.ReadOptions(block_size=how.block),
        parse_options=arrow_csv.ParseOptions(delimiter=_separator(path, how), newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(null_values=MISSING_WORDS, decimal_point=how.decimal, **convert),
    )


def _without_empty_text(batch: Any) -> Any:
    """Return a record batch with null for text that is empty; words such as NA are text, because they may be ids."""
    columns = [
        compute.if_else(compute.equal(column, ""), None, column) if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)


def _other_text(path: AnyPath) -> str | None:
    """Return what text a CSV file is by its first bytes, if not UTF-8; zeros between letters are a sign of UTF-16."""
    with suppress(ValueError, OSError), path.open_unpacked() as stream:
        begin = stream.read(1000)
        found = (kind for mark, kind in _MARKS.items() if begin.startswith(mark))
        return next(found, "UTF-16" if begin.count(0) >= len(begin) // 3 > 0 else None)
    return None


def _records(path: AnyPath, how: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the values of every row, the header first; slow, and only for errors."""
    with path.open_unpacked() as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=_separator(path, how))
        yield from ((reader.line_num, record) for record in reader if record)


# --------------------------------------------------------------------------------------------------------------
# Archives of NumPy
# --------------------------------------------------------------------------------------------------------------

MOST_COLUMNS = 100_000


class Archive(Format):
    """NumPy's archives: 1-D arrays are columns, those of 2-D arrays are name_0, name_1, ...

    What an archive says of itself is compared with its size before anything is made of it: a header of a hundred bytes
    may claim terabytes.
    """

    name = "npz"
    suffixes = (".npz",)

    def schema(self, path: AnyPath, how: Reading, bag: str | None) -> FileSchema:
        """Return the columns by the headers of the arrays, which have the number of rows."""
        names: list[str] = []
        types = []
        lengths = {}
        for name, (shape, dtype) in _headers(path).items():
            if len(shape) in (1, 2):
                lengths[name] = shape[0]
                width = 1 if len(shape) == 1 else shape[1]
                if len(names) + width > MOST_COLUMNS:
                    raise TableError(
                        f"{str(path)!r}: array {name!r} of shape {shape} makes {len(names) + width:,} columns, and "
                        f"a table has at most {MOST_COLUMNS:,}; write fewer"
                    )
                names += [name] if len(shape) == 1 else [f"{name}_{j}" for j in range(width)]
                types += [_arrow_type(dtype)] * width
        if len(set(lengths.values())) > 1:
            rows = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
            raise TableError(f"{str(path)!r}: arrays must have one entry per row, got lengths {rows}; write it again")
        return FileSchema(path, tuple(names), tuple(types), next(iter(lengths.values()), 0))

    def batches(
        self, path: AnyPath, how: Reading, names: list[str], types: dict[str, Any], group: tuple[Any, int] | None
    ) -> Generator[Any, None, None]:
        """Yield all rows at once; `schema` has checked their size."""
        columns: dict[str, NDArray[Any]] = {}
        wanted = {*names, *(name.rpartition("_")[0] for name in names)}
        with np.load(path.source(), allow_pickle=False) as archive:
            for name in archive.files:
                if name in wanted:
                    block = archive[name]
                    split = ((f"{name}_{j}", column) for j, column in enumerate(block.T))
                    columns |= dict(split) if block.ndim == 2 else {name: block}
        yield pa.record_batch([arrow_array(columns[name]) for name in names], names=names)

    def open_writer(self, path: AnyPath, file: BinaryIO, schema: Any) -> Any:
        """Return what collects tables, and writes one array for each column at the end."""
        return _ArchiveWriter(path, file)


def _headers(path: AnyPath) -> dict[str, Header]:
    """Return shape and type of each array, or raise if one can't have them within the bytes of the file."""
    try:
        found = npz_headers(path.source(), path.stat().st_size)
    except TableError:  # of the store, which names the file
        raise
    except ValueError as error:
        raise TableError(f"{str(path)!r}: {error}") from error
    if {"format", "version", "points", "offsets"} <= set(found):
        raise TableError(f"{str(path)!r} was written by Bags.save and is not a table; read it with Bags.load")
    return found


def _arrow_type(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind == "f" and dtype.itemsize > 8:
        return pa.float64()
    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.binary()


class _ArchiveWriter:
    """Tables that become an archive when it is closed."""

    def __init__(self, path: AnyPath, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._tables: list[Any] = []

    def write_table(self, table: Any, rows: int) -> None:
        self._tables.append(table)

    def close(self) -> None:
        table = pa.concat_tables(self._tables)
        with zipfile.ZipFile(self._file, "w") as archive:  # not np.savez, for which a column can't be called "file"
            for name in table.column_names:
                values = table.column(name).to_numpy()
                if values.dtype == object:
                    values = np.array(values.tolist())
                if values.dtype == object:
                    raise TableError(f"can't write {str(self._path)!r}: column {name!r} has no one type; convert it")
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)


# --------------------------------------------------------------------------------------------------------------
# By suffix
# --------------------------------------------------------------------------------------------------------------

FORMATS: dict[str, Format] = {
    suffix: each for each in (Parquet(), Feather(), CSV(), Archive()) for suffix in each.suffixes
}
_PACKED = (".gz", ".bz2", ".zst")


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """Return the format that the suffix of a path stands for, or None.

    Examples
    --------
    >>> format_of("points.tsv.gz").name, format_of("points.parquet.gz"), format_of("points.xlsx")
    ('CSV', None, None)
    """
    last = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    if len(last) == 2 and last[1] in _PACKED:
        found = FORMATS.get(last[0])
        return found if found is not None and not found.typed else None
    return FORMATS.get(last[-1]) if last else None


def known_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file that `list_files` has found."""
    found = format_of(path)
    assert found is not None
    return found
