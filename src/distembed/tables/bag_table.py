"""Bags of a table on disk, in batches or all at once.

A batch is filled with whole bags, in order of their ids, until the next one would exceed a limit: where batches are cut
depends on the sizes of the bags alone. Memory is about that of the sort, three batches and the longest bag.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..bags.categories import given_labels
from ..bags.checks import Rule, check_nan
from ..bags.coordinates import left_out_text
from ..bags.flat import Parts
from ..bags.ids import as_ids
from ..bags.labels import check_label
from ..bags.missing import SUFFIX, settle
from ..compute.atomic_files import scratch_folder
from ..compute.checks import Argument, Message, check_choice, check_number
from ..compute.parallel import ahead
from ..compute.progress import Progress, stages_of
from .arrow import compute, pa
from .formats import check_reading
from .labels import join, read_labels
from .ordering import SortedRuns, SortLimits, distinct_ids, gather, in_order, is_in_order, sort
from .paths import TableError
from .plan import BAG_TYPES, ZONED, id_values, make_plan
from .points import find_labels, present_means, stream

_NO_LIMIT = 1 << 62
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?)?B", re.I)


class BagTable:
    """Table of points on disk, as batches of whole bags.

    Parameters
    ----------
    source : path, or sequence of paths
        A file, a directory (with those inside it, except names that begin with . or _), a glob, or several of these,
        all of one format. Files are in the order given, those of a directory or glob sorted by name.
    bag : str, or sequence of str
        The column of bag ids: whole numbers, text, dates, times, booleans, or numbers. Dictionaries (categoricals)
        are the values they stand for. Values of several columns, a list or ``"date,origin"``, are joined to text, as in
        :meth:`distembed.Bags.from_frame`.
    columns : sequence of str, optional
        The coordinates. By default every column of numbers but `bag` and `weights`, in file order; or, where some
        columns hold lists of numbers, those. Constants, numbers of rows and an index without a name are left out
        then, unless nothing else is there, and `left_out` has the reason; a column of numbers with a stray word is an
        error. A single column may hold lists of points: structs, whose fields name the
        coordinates, or lists, for column_0, column_1, ...; so a 2-D array of an .npz archive is named.
    weights : str, optional
        The column of point weights.
    sorted : bool, optional
        Whether rows stand in order of their ids already. True is verified on the way, and an id that comes back is an
        error. By default a pass over the ids finds out, which ends where the order does. False sorts without looking.
    memory_limit : str
        Memory of the sort, such as ``"500MB"``; beyond it the sort goes on on disk.
    threads : int, optional
        1: rows are not read ahead while others are sorted. The batches do not depend on it.
    temp_directory : path, optional
        Where the sort puts a folder of temporary files, which it removes at the end; by default the system's.
    bag_type : {"auto", "integer", "text"}
        Type of the ids. In CSV, "auto" takes for integers what begins as 7, -7 or 0, for dates what begins as
        2024-01-31, and all else for text (so 007 is text).
    delimiter : str, optional
        What stands between values in CSV, by default a comma, in .tsv a tab, and a semicolon where `decimal` is ",".
    decimal : {".", ","}
        The decimal sign of numbers in CSV.
    nan : {"error", "drop", "indicator"}, or mapping of column to number
        How to handle missing coordinates, as in :meth:`distembed.Bags.from_frame`. "indicator" costs a pass over all
        points when the table is opened.
    categorical : sequence of str, or mapping of str to sequence of labels, optional
        Columns that hold labels; they are coordinates, whether `columns` names them or not. A pass over them when the
        table is opened tells the labels; a mapping fixes them.

    Attributes
    ----------
    files : tuple of Path
        The files that have rows, in the order in which they are read.
    bag, weights : str
        Names of the columns of bag ids and of weights, or None.
    columns : tuple of str
        Names of the coordinates, those that say where values are missing last.
    nan : str or dict of str to float
        How missing coordinates are handled: "error", "drop", or the fills by column. New tables are read alike by it.
    file_columns : tuple of str
        Names of the columns that hold them: one, where lists of whole points stand in it.
    categorical : dict of str to tuple
        The labels of the categorical columns. New tables are read alike by it.
    left_out : dict of str to str
        Columns that are not coordinates, unless `columns` names some, and why.
    known_points : int or None
        Number of points if the footers of the files have it.
    ids_are_text : bool
        Whether ids are text; those of times with a zone are.

    Notes
    -----
    Making it reads footers and first blocks only, and finds what is wrong with names and types; without `columns` it
    reads on in those that look like a constant or like numbers of rows, until a value shows otherwise. float32 stays
    float32 if every coordinate is; all other numbers become float64. In CSV the first 4 MB determine which columns are
    numbers. Values are checked while they are read: NaN, null and infinity, a missing id or a negative weight are a
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

    _limits = SortLimits("1GB")
    _scratch: str | None = None  # a folder, inside of `sorted_once`
    _kept: SortedRuns | None = None

    def __init__(
        self,
        source: Any,
        *,
        bag: str | Sequence[str],
        columns: Sequence[str] | str | None = None,
        weights: str | None = None,
        sorted: bool | None = None,  # noqa: A002
        memory_limit: str = "1GB",
        threads: int | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        bag_type: str = "auto",
        delimiter: str | None = None,
        nan: Any = "error",
        categorical: Any = None,
        decimal: str = ".",
    ) -> None:
        rule = check_nan("BagTable", nan)
        if not isinstance(memory_limit, str) or not _MEMORY.fullmatch(memory_limit.strip()):
            rule = f": must be a size such as '500MB', got {memory_limit!r}; give one"
            raise ValueError(Message(Argument("memory_limit", owner="BagTable"), rule))
        if sorted not in (None, True, False):
            rule = f": must be True, False or None, got {sorted!r}; leave it out if unsure"
            raise TypeError(Message(Argument("sorted", owner="BagTable"), rule))
        if temp_directory is not None and not Path(temp_directory).is_dir():
            rule = f": must be an existing folder, got {str(temp_directory)!r}; make it first"
            raise ValueError(Message(Argument("temp_directory", owner="BagTable"), rule))
        how = check_reading("BagTable", delimiter, decimal)
        bag_type = check_choice("BagTable", "bag_type", bag_type, BAG_TYPES)
        threads = None if threads is None else check_number("BagTable", "threads", threads, low=1, integer=True)
        self._limits = SortLimits(memory_limit.strip(), threads, temp_directory)
        labels = {} if categorical is None else given_labels(categorical)
        plan = make_plan(source, bag, columns, weights, how, bag_type, labels=labels)
        plan = replace(plan, gaps="" if rule == "error" else "drop" if rule == "drop" else "fill")
        self.categorical = find_labels(plan) if plan.labels else {}
        self._plan = plan = replace(plan, labels=self.categorical)
        self.nan: Rule = present_means(plan) if rule == "indicator" else rule
        self.files = plan.files
        self.bag = plan.bag
        self.weights = plan.weights
        indicators = (f"{name}{SUFFIX}" for name in (self.nan if isinstance(self.nan, dict) else ()))
        self.columns, self.file_columns = (*plan.names, *indicators), plan.columns
        self.left_out = plan.left_out
        self.known_points = None if plan.lists else plan.rows
        self.ids_are_text = plan.ids in ("text", ZONED)
        self._sorted = sorted

    @cached_property
    def n_points(self) -> int:
        """Number of points, also of those that lack values; a pass counts them if the files do not have it."""
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
    ) -> Generator[Bags, None, None]:
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
            The same batches in every run; a thread reads the next one while one is in use. Memory is about
            `memory_limit`, `max_points` points three times and the longest bag. Temporary files go when the iterator
            ends, fails or is closed.

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
        points, bags = (
            _NO_LIMIT if value is None else check_number("batches", name, value, low=1, integer=True)
            for name, value in (("max_points", max_points), ("max_bags", max_bags))
        )
        return ahead(self._batches(points, bags, check_number("batches", "start", start, low=0, integer=True)))

    @contextmanager
    def sorted_once(self) -> Iterator[None]:
        """Inside of it a table is sorted once, for as many calls of :meth:`batches` as there are, one at a time.

        The sorted points are kept in a temporary file, as large as they are in memory.

        Examples
        --------
        >>> import tempfile
        >>> from distembed.tables import BagTable, write_table
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_table({"id": [3, 1, 3], "x": [0.5, 0.1, 0.2]}, f"{folder}/t.csv")
        ...     table = BagTable(f"{folder}/t.csv", bag="id")
        ...     with table.sorted_once():
        ...         [batch.ids.tolist() for _ in range(2) for batch in table.batches()]
        [[1, 3], [1, 3]]
        """
        with scratch_folder(self._limits.temp_directory) as folder:
            self._scratch = folder
            try:
                yield
            finally:
                if self._kept is not None:
                    self._kept.close()
                self._scratch = self._kept = None

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
        with stages_of(progress, "BagTable.ids") as stages:
            stages.begin("reading ids", self.known_points)
            found = distinct_ids(self._plan, stages.advance)
        return as_ids(id_values(found, self._plan.ids))

    def _batches(self, max_points: int, max_bags: int, start: int) -> Generator[Bags, None, None]:
        since = None
        plan = self._plan
        if start:
            with closing(self._groups(max_points, max_bags, ids_only=True)) as groups:
                first = next(islice(groups, start, None), None)
            if first is None:
                return
            since = first[0].column(0)[0].as_py()
        with closing(self._groups(max_points, max_bags, since=since)) as groups:
            for table, starts in groups:
                ids = id_values(table.column(0).take(pa.array(starts)).combine_chunks(), plan.ids)
                coordinates = slice(1, 1 + len(plan.names))
                points = np.concatenate([np.column_stack(each.columns[coordinates]) for each in table.to_batches()])
                weights = None if plan.weights is None else np.array(table.column("w"))
                categories = tuple((plan.names.index(name), labels) for name, labels in plan.labels.items()) or None
                parts = Parts(points, np.append(starts, len(table)), weights, ids, plan.names, categories)
                try:
                    parts = parts if self.nan == "error" else settle(parts, self.nan)
                except ValueError as error:
                    raise TableError(Message(f"{plan}: ", *error.args)) from None
                try:
                    bags = Bags(*parts)
                except ValueError as error:  # what only whole bags show, such as weights that are all zero
                    column = "" if plan.weights is None else f", column {plan.weights!r}"
                    raise TableError(Message(f"{plan}{column}: ", *error.args)) from None
                yield bags

    def _groups(
        self, max_points: int, max_bags: int, *, ids_only: bool = False, since: Any = None
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        """Yield the points in order of their bags, in groups of whole bags: tables, and where each bag begins in them.

        The last bag may go on in the next record batch, so it stays until another id comes. Groups are filled in order
        as far as the limits allow: where they are cut depends on the sizes of the bags alone.
        """
        held: list[Any] = []  # record batches that are in no group yet
        starts = np.zeros(1, np.int64)
        n_points = 0
        with closing(self._in_order(ids_only, since)) as batches:
            for batch in batches:
                ids = batch.column(0)
                before = held[-1].column(0).slice(held[-1].num_rows - 1) if held else ids.slice(0, 1)
                shifted = pa.concat_arrays([before, ids.slice(0, len(ids) - 1)])
                changed = compute.not_equal(ids, shifted).to_numpy(zero_copy_only=False)
                starts = np.append(starts, n_points + np.flatnonzero(changed))
                held.append(batch)
                n_points += batch.num_rows
                if len(starts) == 1 or (n_points <= max_points and len(starts) <= max_bags):
                    continue
                table = pa.Table.from_batches(held)
                cuts = cuts_of(starts, n_points, max_points, max_bags)
                yield from _slice_groups(table, starts, cuts[:-1])
                row = starts[cuts[-2]]
                held = table.slice(row).to_batches()
                starts = starts[cuts[-2] :] - row
                n_points = n_points - row
        yield from _slice_groups(pa.Table.from_batches(held), starts, cuts_of(starts, n_points, max_points, max_bags))

    def _in_order(self, ids_only: bool, since: Any) -> Generator[Any, None, None]:
        """Return the record batches of points in order of their bags."""
        gathered = None if self._sorted else gather(self._plan, self._limits, ids_only=ids_only, since=since)
        if gathered is not None:
            return gathered
        if self._sorted is None:
            self._sorted = is_in_order(self._plan)
        if self._sorted:
            return in_order(self._plan, ids_only=ids_only, since=since)
        if self._scratch is None or ids_only or since is not None:
            return sort(self._plan, self._limits, ids_only=ids_only, since=since)
        if self._kept is None:
            self._kept = SortedRuns(self._plan, self._limits, stream(self._plan), self._scratch)
        return self._kept.batches()


def cuts_of(starts: NDArray[np.int64], n_points: int, max_points: int, max_bags: int) -> list[int]:
    """Return the numbers of the bags with which groups begin, and the number of bags."""
    ends = np.append(starts[1:], n_points)
    cuts = [0]
    while cuts[-1] < len(starts):
        fit = int(np.searchsorted(ends, starts[cuts[-1]] + max_points, side="right")) - cuts[-1]
        cuts.append(cuts[-1] + max(1, min(fit, max_bags)))
    return cuts


def _slice_groups(table: Any, starts: NDArray[np.int64], cuts: list[int]) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """Yield the groups of bags between cuts."""
    rows = np.append(starts, len(table))
    for first, stop in pairwise(cuts):
        yield table.slice(rows[first], rows[stop] - rows[first]), starts[first:stop] - rows[first]


@overload
def read_bags(
    source: Any, *, bag: Any, columns: Any = ..., weights: Any = ..., label: None = ..., **options: Any
) -> Bags: ...


@overload
def read_bags(
    source: Any, *, bag: Any, columns: Any = ..., weights: Any = ..., label: str, **options: Any
) -> tuple[Bags, NDArray[Any]]: ...


def read_bags(
    source: Any,
    *,
    bag: str | Sequence[str],
    columns: Sequence[str] | str | None = None,
    weights: str | None = None,
    label: str | None = None,
    **options: Any,
) -> Bags | tuple[Bags, NDArray[Any]]:
    """Return all bags of a table on disk, sorted by id, in memory.

    Parameters
    ----------
    source, bag, columns, weights
        As in :class:`BagTable`.
    label : str, optional
        A column with one value per bag, to be returned too, which is then no coordinate; one that varies in a bag, or
        lacks values, is an error.
    **options
        The other options of :class:`BagTable`: `sorted`, `memory_limit`, `threads`, `temp_directory`, `bag_type`,
        `delimiter`, `decimal`, `nan`, `categorical`.

    Returns
    -------
    Bags, or (Bags, ndarray of shape (n_bags,)) with `label`
        Those of ``BagTable(...).batches()``, in one. Memory is twice that of the points. A warning names the columns
        that are left out, where `columns` does not.

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
    if label is not None:
        check_label(label, {"bag": (table.bag,), "columns": columns or (), "weights": (weights,)})
        if label in table.file_columns:
            rest = [name for name in table.file_columns if name != label]
            table = BagTable(source, bag=bag, columns=rest, weights=weights, **options)
        table.left_out.pop(label, None)
    if table.left_out:
        warnings.warn(left_out_text(table.columns, table.left_out), UserWarning, stacklevel=2)
    with closing(table.batches(max_points=None)) as batches:
        bags = next(batches)
    if label is None:
        return bags
    how = {name: options[name] for name in ("bag_type", "delimiter", "decimal") if name in options}
    return bags, join(bags, read_labels(source, bag=bag, label=label, **how)).labels
