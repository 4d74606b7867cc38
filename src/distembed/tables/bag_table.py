"""Bags of a table on disk, in batches or all at once."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.checks import check_choice, check_number
from .cutting import Cutter, Group
from .errors import TableError
from .ids import BAG_TYPES, id_values
from .pieces import count_rows
from .plans import Plan, make_plan
from .sorting import Room, in_order, is_in_order, sort
from .text_files import check_delimiter

__all__ = ["BagTable", "read_bags"]

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
        check_delimiter("BagTable", delimiter)
        self.memory_limit = memory_limit.strip()
        self.threads = None if threads is None else check_number("BagTable", "threads", threads, low=1, integer=True)
        self.temp_directory = temp_directory
        bag_type = check_choice("BagTable", "bag_type", bag_type, BAG_TYPES)
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
    ) -> Generator[Group, None, None]:
        """Yield the bags in order, cut into groups."""
        cutter = Cutter(self._plan, max_points, max_bags, ids_only)
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
        room = Room(self.memory_limit, self.threads, self.temp_directory)
        return sort(self._plan, room, ids_only=ids_only, since=since)


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
