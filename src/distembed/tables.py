"""Tables of points on disk, larger than memory: bags in batches, labels by bag, and files that are whole or absent.

A table has one row a point: a column of bag ids, columns of coordinates, perhaps one of weights. It may have one row a
bag instead, with lists in the columns of coordinates. It is a file, several, a glob or a directory: Parquet (.parquet,
.pq), Feather or Arrow IPC (.feather, .arrow), CSV (.csv, .tsv, also .gz), or NumPy (.npz, which is read whole).

One rule holds for all of them: **bags are sorted by id**, and the points of a bag stand in the order of the files and
of their rows. So bags do not depend on formats, row groups, or how a table is cut into files; text is sorted by code
point. The cost is one external sort by DuckDB, O(n_points log n_points), within `memory_limit` and on disk beyond it;
nothing is sorted where ids stand in order, and a small table in memory. Needs ``pip install 'distembed[tables]'``.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
import zipfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._bag_checks import canonical_ids, few, repeated
from ._base import check_choice, check_number
from ._table_sources import (
    FORMATS,
    ROWS,
    Plan,
    TableError,
    arrow,
    arrow_array,
    batch_schema,
    count_rows,
    format_of,
    id_values,
    label_columns,
    make_plan,
    need,
    replacing,
    separator,
    stream,
)
from .bags import Bags

__all__ = [
    "BagTable",
    "Joined",
    "LabelTable",
    "TableError",
    "join",
    "read_bags",
    "read_labels",
    "write_bags",
    "write_table",
]

_NO_LIMIT = 1 << 62
_BAG_TYPES = ("auto", "integer", "text")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?)?B", re.I)
_KINDS = {"i": "whole numbers", "u": "whole numbers", "f": "numbers", "U": "text", "b": "booleans", "M": "dates"}
_MISSING = {"na", "nan", "n/a", "#n/a", "null", "none"}


class BagTable:
    """Table of points on disk, as batches of whole bags.

    Parameters
    ----------
    source : path, or sequence of paths
        A file, a directory (with those inside it, except names that begin with . or _), a glob, or several of these,
        all of one format. Files are in the order given, those of a directory or glob sorted by name.
    bag : str
        The column of bag ids: whole numbers, text, dates, times, booleans, or numbers. Dictionaries (categoricals)
        are the values they stand for.
    columns : sequence of str, optional
        The coordinates. By default every column of numbers but `bag` and `weights`, in file order; or, where some
        columns hold lists of numbers, those. A single column may hold lists of points: structs, whose fields name the
        coordinates, or lists, for column_0, column_1, ...; so a 2-D array of an .npz archive is named.
    weights : str, optional
        The column of point weights.
    sorted : bool, optional
        Whether rows stand in order of their ids already. True is verified on the way, and an id that comes back is an
        error. By default a pass over the ids tells, which ends where the order does. False sorts without looking.
    memory_limit : str
        Memory of the sort, such as ``"500MB"``; beyond it the sort goes on on disk.
    threads : int, optional
        Threads of the sort, by default all cores. The batches do not depend on it.
    temp_directory : path, optional
        Where the sort puts a folder of temporary files, which it removes at the end; by default the system's.
    bag_type : {"auto", "integer", "text"}
        Type of the ids. In CSV, "auto" takes for integers what begins as 7, -7 or 0, for dates what begins as
        2024-01-31, and all else for text (so 007 is text).
    delimiter : str, optional
        What stands between values in CSV, by default a comma, in .tsv a tab.

    Notes
    -----
    Making it reads footers and first blocks only, and finds what is wrong with names and types. float32 stays float32
    if every coordinate is; all other numbers become float64. In CSV the first 4 MB tell which columns are numbers.
    Values are checked while they are read: NaN, null and infinity, a missing id or a negative weight are a
    :class:`TableError` that names file, row, column and bag.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import BagTable, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/galaxies.parquet"
    ...     write_table({"cluster": ["b", "a", "b", "c"], "v": [1.0, 2.0, 3.0, 4.0]}, path)
    ...     table = BagTable(path, bag="cluster")
    ...     for batch in table.batches(max_points=3):
    ...         print(batch.ids.tolist(), batch.points[:, 0].tolist())
    ['a', 'b'] [2.0, 1.0, 3.0]
    ['c'] [4.0]
    """

    def __init__(
        self,
        source: Any,
        *,
        bag: str,
        columns: Sequence[str] | str | None = None,
        weights: str | None = None,
        sorted: bool | None = None,  # noqa: A002
        memory_limit: str = "1GB",
        threads: int | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        bag_type: str = "auto",
        delimiter: str | None = None,
    ) -> None:
        if not isinstance(memory_limit, str) or not _MEMORY.fullmatch(memory_limit.strip()):
            raise ValueError(
                f"BagTable(memory_limit=...): must be a size such as '500MB', got {memory_limit!r}; give one"
            )
        if sorted not in (None, True, False):
            raise TypeError(
                f"BagTable(sorted=...): must be True, False or None, got {sorted!r}; leave it out if unsure"
            )
        if temp_directory is not None and not Path(temp_directory).is_dir():
            raise ValueError(
                f"BagTable(temp_directory=...): must be an existing folder, got {str(temp_directory)!r}; make it first"
            )
        _check_delimiter("BagTable", delimiter)
        self.memory_limit = memory_limit.strip()
        self.threads = None if threads is None else check_number("BagTable", "threads", threads, low=1, integer=True)
        self.temp_directory = temp_directory
        bag_type = check_choice("BagTable", "bag_type", bag_type, _BAG_TYPES)
        self._plan: Plan = make_plan(source, bag, columns, weights, delimiter, bag_type)
        self._sorted = sorted
        self._counts: tuple[int, int] | None = None
        self._n_rows: int | None = self._plan.rows

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that have rows, in the order in which they are read."""
        return self._plan.files

    @property
    def bag(self) -> str:
        """Name of the column of bag ids."""
        return self._plan.bag

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return self._plan.names

    @property
    def weights(self) -> str | None:
        """Name of the column of weights, or None."""
        return self._plan.weights

    @property
    def n_rows(self) -> int:
        """Number of rows of the files; where their footers do not say, one pass over the ids counts them."""
        if self._n_rows is None:
            self._n_rows = count_rows(self._plan)
        return self._n_rows

    @property
    def n_points(self) -> int:
        """Number of points, from the pass of `n_bags`."""
        return self._counted()[1]

    @property
    def n_bags(self) -> int:
        """Number of bags. The first look costs one pass over the ids, sorted if they are not."""
        return self._counted()[0]

    def _counted(self) -> tuple[int, int]:
        if self._counts is None:
            bags = points = 0
            with closing(self._groups(1_000_000, _NO_LIMIT, ids_only=True)) as groups:
                for group in groups:
                    bags, points = bags + len(group.sizes), points + int(group.sizes.sum())
            self._counts = bags, points
        return self._counts

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights={self.weights!r}"
        return f"BagTable({self._plan}, bag={self.bag!r}, columns={list(self.columns)}{weights})"

    def batches(
        self, *, max_points: int | None = 1_000_000, max_bags: int | None = None, start: int = 0
    ) -> Iterator[Bags]:
        """Return an iterator over the bags, in order of their ids.

        Parameters
        ----------
        max_points, max_bags : int or None
            A batch is filled until the next bag would exceed one of these. A bag is never cut: one of more than
            `max_points` points is a batch of its own.
        start : int
            How many batches to leave out, to go on where an earlier run with the same limits stopped. It costs a pass
            over the ids alone; then only bags from there on are read into the sort.

        Returns
        -------
        iterator of Bags
            The same batches in every run. Memory is about `memory_limit`, `max_points` points twice and the longest
            bag. Temporary files go when the iterator ends, fails or is closed.

        Examples
        --------
        >>> import tempfile
        >>> from distembed.tables import BagTable, write_table
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_table({"id": [3, 1, 2, 1], "x": [0.5, 0.1, 0.2, 0.3]}, f"{folder}/t.csv")
        ...     table = BagTable(f"{folder}/t.csv", bag="id")
        ...     [batch.ids.tolist() for batch in table.batches(max_bags=1, start=1)]
        [[2], [3]]
        """
        limits = []
        for name, value in (("max_points", max_points), ("max_bags", max_bags)):
            checked = None if value is None else check_number("batches", name, value, low=1, integer=True)
            limits.append(_NO_LIMIT if checked is None else checked)
        return self._batches(limits[0], limits[1], check_number("batches", "start", start, low=0, integer=True))

    def _batches(self, max_points: int, max_bags: int, start: int) -> Generator[Bags, None, None]:
        since = None
        if start:
            with closing(self._groups(max_points, max_bags, ids_only=True)) as groups:
                first = next(islice(groups, start, None), None)
            if first is None:
                return
            since = first.ids[0].as_py()
        plan = self._plan
        with closing(self._groups(max_points, max_bags, since=since)) as groups:
            for group in groups:
                offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(group.sizes)])
                ids = id_values(group.ids, plan.ids)
                try:
                    bags = Bags(group.points, offsets, group.weights, ids, plan.names)
                except ValueError as error:  # what only whole bags show, such as weights that are all zero
                    column = "" if plan.weights is None else f", column {plan.weights!r}"
                    raise TableError(f"{plan}{column}: {error}") from None
                yield bags

    def _groups(
        self, max_points: int, max_bags: int, *, ids_only: bool = False, since: Any = None
    ) -> Generator[_Group, None, None]:
        """Yield the bags in order, cut into groups."""
        cutter = _Cutter(self._plan, max_points, max_bags, ids_only)
        with closing(self._in_order(ids_only, since)) as batches:
            for batch in batches:
                cutter.add(batch)
                yield from cutter.groups(final=False)
        yield from cutter.groups(final=True)

    def _in_order(self, ids_only: bool, since: Any) -> Generator[Any, None, None]:
        """Yield record batches of points in order of their bags."""
        if self._sorted is None:
            with closing(stream(self._plan, ids_only=True)) as batches:
                self._sorted = next(_out_of_order(batches), None) is None
        if not self._sorted:
            yield from self._sort(ids_only, since)
            return
        last = None
        for batch in stream(self._plan, ids_only=ids_only, since=since):
            fault = next(_out_of_order([batch], last), None)
            if fault is not None:
                before, after = (few(id_values(value, self._plan.ids)) for value in fault)
                raise TableError(
                    f"{self._plan}, column {self.bag!r}: sorted=True needs rows in order of bags, but bag {after} "
                    f"comes back after bag {before}; leave sorted out, and the table is sorted on the way"
                )
            last = batch.column(0).slice(batch.num_rows - 1)
            yield batch

    def _sort(self, ids_only: bool, since: Any) -> Generator[Any, None, None]:
        """Yield the points sorted by bag, then by place in the table, within the memory limit."""
        pa, compute = arrow(), arrow("pyarrow.compute")
        batches = stream(self._plan, ids_only=ids_only, since=since)
        begin = list(islice(batches, 2))
        if len(begin) < 2:  # one piece needs no database, which takes longer to start than this to sort
            for batch in begin:
                yield batch.take(compute.sort_indices(batch.column(0)))
            return
        duckdb = need("duckdb", "sorting a table by bag")
        schema = batch_schema(self._plan, ids_only)
        feed = _Feed(chain(begin, batches))
        query = f"SELECT {', '.join(schema.names)} FROM points ORDER BY id, place"  # names of ours, see batch_schema
        config = {"memory_limit": self.memory_limit, "preserve_insertion_order": "false"}
        config |= {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        config |= {} if self.threads is None else {"threads": str(self.threads)}
        with tempfile.TemporaryDirectory(prefix="distembed-", dir=self.temp_directory) as scratch:
            connection = duckdb.connect(":memory:", config=config | {"temp_directory": scratch})
            reader = None
            try:
                places = schema.append(pa.field("place", pa.int64()))
                connection.register("points", pa.RecordBatchReader.from_batches(places, feed))
                relation = connection.sql(query)
                # DuckDB 2 has the first name, DuckDB 1 the second.
                open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
                reader = open_reader(ROWS)
                yield from reader
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise feed.error or self._sort_error(duckdb, error) from None
            finally:
                relation = open_reader = None  # the files are removed when nothing holds the database any more
                if reader is not None:
                    reader.close()
                    reader = None
                connection.close()

    def _sort_error(self, duckdb: Any, error: Exception) -> TableError:
        doing = f"{self._plan}: sorting by column {self.bag!r}"
        if isinstance(error, duckdb.OutOfMemoryException) and "temp_directory" not in str(error):
            return TableError(
                f"{doing} needs more than memory_limit={self.memory_limit!r}; raise it, or use fewer threads"
            )
        where = tempfile.gettempdir() if self.temp_directory is None else str(self.temp_directory)
        return TableError(
            f"{doing} failed with temporary files in {where!r}; make room there, or name another temp_directory"
        )


class _Feed:
    """Numbers the points that it hands to the sort, and keeps the error that ends them, which DuckDB rewrites."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.batches, self.place = batches, 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        pa = arrow()
        try:
            for batch in self.batches:
                places = pa.array(np.arange(self.place, self.place + batch.num_rows))
                self.place += batch.num_rows
                yield pa.record_batch([*batch.columns, places], names=[*batch.schema.names, "place"])
        except (ValueError, ImportError) as error:
            self.error = error
            raise


def _out_of_order(batches: Iterable[Any], last: Any = None) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of ids that stand in the wrong order, each as an array of one; `last` comes before them all."""
    pa, compute = arrow(), arrow("pyarrow.compute")
    for batch in batches:
        ids = batch.column(0) if last is None else pa.concat_arrays([last, batch.column(0)])
        falls = compute.less(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(falls):
            yield ids.slice(place, 1), ids.slice(place + 1, 1)
        last = ids.slice(len(ids) - 1)


class _Group(NamedTuple):
    """Some whole bags: their ids as an arrow array, their sizes, points and weights."""

    ids: Any
    sizes: NDArray[np.int64]
    points: NDArray[Any]
    weights: NDArray[Any] | None


class _Cutter:
    """Collects points in order of their bags, and cuts them into groups of whole bags.

    The last bag may go on in the next record batch, so it stays until another id comes. Groups are filled in order as
    far as the limits allow: where they are cut depends on the sizes of the bags alone.
    """

    def __init__(self, plan: Plan, max_points: int, max_bags: int, ids_only: bool) -> None:
        self.max_points, self.max_bags = max_points, max_bags
        self.n_dims, self.dtype = 0 if ids_only else len(plan.names), plan.dtype
        self.weighted = plan.weights is not None and not ids_only
        self.ids: list[Any] = []  # of the bags, as are the sizes; both in pieces, joined when a group is due
        self.sizes: list[NDArray[np.int64]] = []
        self.points: list[NDArray[Any]] = []
        self.weights: list[NDArray[Any]] = []
        self.n_points = self.n_bags = 0

    def add(self, batch: Any) -> None:
        """Take the next record batch."""
        pa, compute = arrow(), arrow("pyarrow.compute")
        ids, n = batch.column(0), batch.num_rows
        if not n:
            return
        changed = compute.not_equal(ids.slice(1), ids.slice(0, n - 1)).to_numpy(zero_copy_only=False)
        starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(changed) + 1])
        heads, sizes = ids.take(pa.array(starts)), np.diff(starts, append=n)
        if self.ids and self.ids[-1][-1].as_py() == heads[0].as_py():
            self.sizes[-1][-1] += sizes[0]
            heads, sizes = heads.slice(1), sizes[1:]
        if len(sizes):
            self.ids.append(heads)
            self.sizes.append(sizes)
        points = np.empty((n, self.n_dims), self.dtype)
        for j in range(self.n_dims):
            points[:, j] = batch.column(1 + j).to_numpy()
        self.points.append(points)
        if self.weighted:
            self.weights.append(batch.column(1 + self.n_dims).to_numpy())
        self.n_points, self.n_bags = self.n_points + n, self.n_bags + len(sizes)

    def groups(self, final: bool) -> Iterator[_Group]:
        """Yield the groups that are full, or after the last record batch all that is left."""
        full = self.n_bags > 1 and (self.n_points > self.max_points or self.n_bags > self.max_bags)
        if not self.n_bags or not (full or final):
            return
        pa = arrow()
        ids, sizes = pa.concat_arrays(self.ids), np.concatenate(self.sizes)
        points = self.points[0] if len(self.points) == 1 else np.concatenate(self.points)
        weights = np.concatenate(self.weights) if self.weighted else None
        self.points, self.weights = [], []  # not three times in memory
        ends = np.cumsum(sizes)
        bag = row = 0
        while bag < len(sizes):
            fit = int(np.searchsorted(ends, row + self.max_points, side="right")) - bag
            stop = bag + max(1, min(fit, self.max_bags))
            if stop >= len(sizes) and not final:
                break
            end = int(ends[stop - 1])
            rows = slice(row, end)
            whole = row == 0 and end == len(points)
            yield _Group(
                ids.slice(bag, stop - bag),
                sizes[bag:stop],
                points if whole else points[rows].copy(),  # a view would keep the rest in memory
                None if weights is None else weights[rows].copy(),
            )
            bag, row = stop, end
        left = bag < len(sizes)
        self.ids, self.sizes = ([ids.slice(bag)], [sizes[bag:]]) if left else ([], [])
        self.points = [points[row:].copy()] if left else []
        self.weights = [weights[row:].copy()] if left and weights is not None else []
        self.n_bags, self.n_points = len(sizes) - bag, len(points) - row


def _check_delimiter(owner: str, delimiter: Any) -> None:
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1):
        raise ValueError(f"{owner}(delimiter=...): must be one character, got {delimiter!r}; give ';', for example")


def read_bags(
    source: Any,
    *,
    bag: str,
    columns: Sequence[str] | str | None = None,
    weights: str | None = None,
    **options: Any,
) -> Bags:
    """Return all bags of a table on disk, sorted by id, in memory.

    Parameters
    ----------
    source, bag, columns, weights
        As in :class:`BagTable`.
    **options
        The other options of :class:`BagTable`: `sorted`, `memory_limit`, `threads`, `temp_directory`, `bag_type`,
        `delimiter`.

    Returns
    -------
    Bags
        Those of ``BagTable(...).batches()``, in one. Memory is twice that of the points.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import read_bags, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"id": [2, 1, 2], "x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}, f"{folder}/t.parquet")
    ...     read_bags(f"{folder}/t.parquet", bag="id")
    Bags(n_bags=2, n_points=3, n_dims=2, sizes=1..2, dtype=float64, ids=1..2, columns=x, y)
    """
    table = BagTable(source, bag=bag, columns=columns, weights=weights, **options)
    with closing(table._batches(_NO_LIMIT, _NO_LIMIT, 0)) as batches:
        return next(batches)


# ----------------------------------------------------------------------------------------------------- labels
class LabelTable(Mapping[Any, Any]):
    """Labels by bag id: a mapping, and two arrays in the order of the table.

    Attributes
    ----------
    ids, labels : ndarray of shape (n_labels,)
        The ids, all different, and their labels.

    Examples
    --------
    >>> from distembed.tables import LabelTable
    >>> table = LabelTable(["a", "b"], [0.5, 1.5])
    >>> float(table["b"]), len(table), list(table)
    (1.5, 2, ['a', 'b'])
    """

    def __init__(self, ids: ArrayLike, labels: ArrayLike) -> None:
        self.ids, self.labels = canonical_ids(ids), np.asarray(labels)
        if self.labels.shape != self.ids.shape:
            raise ValueError(
                f"labels must be 1-D, one an id: shape {self.ids.shape}, got {self.labels.shape}; give one label an id"
            )
        twice = repeated(self.ids)
        if twice:
            raise TableError(
                _counted(len(twice), "id has", "ids have") + f" more than one label: {few(twice)}; keep one"
            )
        self._rows = {key: row for row, key in enumerate(_keys(self.ids))}

    def __getitem__(self, bag: Any) -> Any:
        return self.labels[self._rows[_keys(canonical_ids([bag]))[0]]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids.tolist())

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        ends = f"{few(self.ids[:1])}..{few(self.ids[-1:])}"
        return f"LabelTable({len(self)} labels of dtype {self.labels.dtype}, ids={ends})"


def _keys(ids: NDArray[Any]) -> list[Any]:
    """Return ids as objects that hash by value: dates by the nanosecond, whatever their unit."""
    return list((ids.astype("M8[ns]") if ids.dtype.kind == "M" else ids).tolist())


def _counted(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def read_labels(
    source: Any, *, bag: str, label: str, bag_type: str = "auto", delimiter: str | None = None
) -> LabelTable:
    """Return the labels in a table of one row a bag.

    Parameters
    ----------
    source, bag, bag_type, delimiter
        As in :class:`BagTable`.
    label : str
        The column of labels: numbers, booleans or text. In CSV, labels are whole numbers if all are, else numbers if
        all are, else text.

    Returns
    -------
    LabelTable
        A missing label, or an id with two, is an error that names it.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import read_labels, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"cluster": ["a", "b"], "mass": [14.1, 14.8]}, f"{folder}/labels.csv")
    ...     read_labels(f"{folder}/labels.csv", bag="cluster", label="mass").labels
    array([14.1, 14.8])
    """
    _check_delimiter("read_labels", delimiter)
    check_choice("read_labels", "bag_type", bag_type, _BAG_TYPES)
    plan, ids, labels = label_columns(source, bag, label, delimiter, bag_type)
    if labels.type == arrow().string() and format_of(plan.files[0]) == "CSV":
        labels = _guessed(labels, plan)
    kind = labels.type
    types = arrow().types
    text = types.is_string(kind) or types.is_large_string(kind)
    values = np.array(labels.to_pylist(), dtype=str) if text else np.asarray(labels)
    try:
        return LabelTable(id_values(ids, plan.ids), values)
    except TableError as error:
        raise TableError(f"{plan}, column {bag!r}: {error}") from None


def _guessed(labels: Any, plan: Plan) -> Any:
    """Return the labels of a CSV file as the simplest type that all of them fit."""
    pa = arrow()
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        try:
            return labels.cast(kind)
        except pa.ArrowInvalid:
            continue
    words = labels.to_pylist()
    numbers = [word for word in words if word.strip().lower() not in _MISSING]
    if len(numbers) < len(words):
        try:
            pa.array(numbers, pa.string()).cast(pa.float64())
        except pa.ArrowInvalid:
            return labels  # text, in which NA is a word like others
        raise TableError(
            f"{plan}, column {plan.columns[0]!r}: every bag must have a label, got "
            f"{next(word for word in words if word.strip().lower() in _MISSING)!r} among numbers; drop those rows"
        )
    return labels


class Joined(NamedTuple):
    """What `join` found: positions of the ids that have labels, these labels, and the ids left over on either side.

    Examples
    --------
    >>> from distembed.tables import join
    >>> join(["a"], {"a": 1}).labels
    array([1])
    """

    kept: NDArray[np.int64]
    labels: NDArray[Any]
    missing: NDArray[Any]
    unknown: NDArray[Any]


def join(ids: Any, labels: Mapping[Any, Any], *, missing: str = "error", unknown: str = "warn") -> Joined:
    """Return the labels of bags, by id.

    Parameters
    ----------
    ids : Bags, or array-like of ids
        The bags, for instance of one batch.
    labels : LabelTable or mapping of id to label
        From `read_labels`.
    missing : {"error", "drop"}
        What becomes of a bag without a label.
    unknown : {"warn", "error", "ignore"}
        What becomes of a label without a bag: an id without points. Batches by batches, ignore them.

    Returns
    -------
    Joined
        ``bags[joined.kept]`` has the labels ``joined.labels``, in the order of `ids`; ``joined.missing`` and
        ``joined.unknown`` are the ids without partner.

    Notes
    -----
    Ids are compared by value. Whole numbers stay whole numbers, and 7 equals 7.0; dates equal dates of another unit.
    The text ``"7"`` is no number: if one side is text and the other is not, that is an error.

    Examples
    --------
    >>> from distembed.tables import LabelTable, join
    >>> joined = join([1, 2, 3], LabelTable([3, 1], [30, 10]), missing="drop")
    >>> joined.kept, joined.labels, joined.missing
    (array([0, 2]), array([10, 30]), array([2]))
    """
    check_choice("join", "missing", missing, ("error", "drop"))
    check_choice("join", "unknown", unknown, ("warn", "error", "ignore"))
    bags = canonical_ids(ids.ids if isinstance(ids, Bags) else ids)
    table = labels if isinstance(labels, LabelTable) else LabelTable(list(labels), list(labels.values()))
    one, two = (_KINDS.get(side.dtype.kind) for side in (bags, table.ids))
    numbers = {"whole numbers", "numbers"}
    if len(bags) and len(table) and one and two and one != two and not {one, two} <= numbers:
        raise TableError(
            f"ids are {one} in the bags ({few(bags[:1])}) and {two} in the labels ({few(table.ids[:1])}); make them "
            "one type, for example by bag_type='text' in both readers"
        )
    found = np.array([table._rows.get(key, -1) for key in _keys(bags)], dtype=np.int64)
    kept = np.flatnonzero(found >= 0)
    lost, seen = bags[found < 0], np.zeros(len(table), bool)
    seen[found[kept]] = True
    spare = table.ids[~seen]
    if len(lost) and (missing == "error" or not len(kept)):
        remedy = "add labels" if missing == "drop" else "add them, or pass missing='drop'"
        raise TableError(_counted(len(lost), "bag has", "bags have") + f" no label: {few(lost)}; {remedy}")
    if len(spare) and unknown != "ignore":
        text = _counted(len(spare), "label has", "labels have") + f" no bag: {few(spare)}; check the ids"
        if unknown == "error":
            raise TableError(f"{text}, or pass unknown='ignore'")
        warnings.warn(f"{text}, or pass unknown='ignore'", UserWarning, stacklevel=2)
    return Joined(kept, table.labels[found[kept]], lost, spare)


# ---------------------------------------------------------------------------------------------------- writing
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
    with replacing(target) as file:
        if kind == "Parquet":
            arrow("pyarrow.parquet").write_table(table, file)
        elif kind == "Feather":
            with arrow("pyarrow.ipc").new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=ROWS)
        elif kind == "CSV":
            module = arrow("pyarrow.csv")
            module.write_csv(table, file, module.WriteOptions(delimiter=separator(target, None)))
        else:
            _write_npz(table, file, target)


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


def _write_npz(table: Any, file: Any, target: Path) -> None:
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
