"""Bags of a table on disk, in batches or all at once."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.checks import canonical_ids
from ..compute.checks import Argument, Message, check_choice, check_number
from ..compute.progress import Progress, stages_of
from .files import TableError, check_delimiter, compute, pa
from .plan import BAG_TYPES, Plan, id_values, make_plan
from .points import SortLimits, in_order, is_in_order, sort, stream

_NO_LIMIT = 1 << 62
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?)?B", re.I)


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

    Attributes
    ----------
    files : tuple of Path
        The files that have rows, in the order in which they are read.
    bag, weights : str
        Names of the columns of bag ids and of weights, or None.
    columns : tuple of str
        Names of the coordinates.
    file_columns : tuple of str
        Names of the columns that hold them: one, where lists of whole points stand in it.
    known_points : int or None
        Number of points if the footers of the files tell it.

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
            rule = f": must be a size such as '500MB', got {memory_limit!r}; give one"
            raise ValueError(Message(Argument("memory_limit", owner="BagTable"), rule))
        if sorted not in (None, True, False):
            rule = f": must be True, False or None, got {sorted!r}; leave it out if unsure"
            raise TypeError(Message(Argument("sorted", owner="BagTable"), rule))
        if temp_directory is not None and not Path(temp_directory).is_dir():
            rule = f": must be an existing folder, got {str(temp_directory)!r}; make it first"
            raise ValueError(Message(Argument("temp_directory", owner="BagTable"), rule))
        check_delimiter("BagTable", delimiter)
        bag_type = check_choice("BagTable", "bag_type", bag_type, BAG_TYPES)
        self.memory_limit = memory_limit.strip()
        self.threads = None if threads is None else check_number("BagTable", "threads", threads, low=1, integer=True)
        self.temp_directory = temp_directory
        self._plan = plan = make_plan(source, bag, columns, weights, delimiter, bag_type)
        self.files, self.bag, self.weights = plan.files, plan.bag, plan.weights
        self.columns, self.file_columns = plan.names, plan.columns
        self.known_points = None if plan.lists else plan.rows
        self._sorted = sorted

    @cached_property
    def n_points(self) -> int:
        """Number of points; where the footers of the files do not say, one pass counts them."""
        if self.known_points is not None:
            return self.known_points
        return sum(batch.num_rows for batch in stream(self._plan, ids_only=True))

    @cached_property
    def n_bags(self) -> int:
        """Number of bags, by one pass over the ids."""
        return len(self.ids())

    def __str__(self) -> str:
        return str(self._plan)

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

    def ids(self, progress: Progress = False) -> NDArray[Any]:
        """Return the ids of all bags, sorted, by one pass over their column.

        Parameters
        ----------
        progress : bool, callable or object
            Whether to show a bar of points, or who is told how far the pass is.

        Examples
        --------
        >>> import tempfile
        >>> from distembed.tables import BagTable, write_table
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_table({"id": [3, 1, 3], "x": [0.5, 0.1, 0.2]}, f"{folder}/t.csv")
        ...     BagTable(f"{folder}/t.csv", bag="id").ids().tolist()
        [1, 3]
        """
        found: Any = None
        with closing(stream(self._plan, ids_only=True)) as batches, stages_of(progress, "BagTable.ids") as stages:
            stages.begin("reading ids", self.known_points)
            for batch in batches:
                ids = batch.column(0).unique()
                found = ids if found is None else pa.concat_arrays([found, ids]).unique()
                stages.advance(batch.num_rows)
        return canonical_ids(id_values(found.take(compute.sort_indices(found)), self._plan.ids))

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
                    raise TableError(Message(f"{plan}{column}: ", *error.args)) from None
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
        """Return the record batches of points in order of their bags."""
        if self._sorted is None:
            self._sorted = is_in_order(self._plan)
        if self._sorted:
            return in_order(self._plan, ids_only=ids_only, since=since)
        limits = SortLimits(self.memory_limit, self.threads, self.temp_directory)
        return sort(self._plan, limits, ids_only=ids_only, since=since)


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
