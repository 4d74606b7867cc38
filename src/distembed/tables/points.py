"""Points of a table as checked record batches, in the order of the files.

Whatever the format, a piece of a file becomes one record batch of known names and types: ``id``, the coordinates
``c0``, ``c1``, ... and the weights ``w``; names of the user get no further. Values are checked here, where file and row
are known.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags.categories import OTHER, with_other
from ..bags.checks import Fills
from ..bags.coordinates import MISSING_WORDS
from ..bags.flat import Label, few
from ..bags.missing import LABEL, count_text, mean_fills, remedies
from ..bags.ragged import arrow_lists
from ..compute.checks import Argument, Message
from .arrow import compute, is_number, pa, point_endings, values_of
from .files import no_rows, read_pieces
from .formats import DATE, INTEGER
from .paths import AnyPath, TableError, check_stamp
from .plan import Plan, cast_ids, id_type, id_values

_MANY_PAIRS = 1 << 22  # of ids and values, among which those that come again are looked for
_MANY_ROWS = 50  # in which labels must come again
_NO_LABELS = [word for word in MISSING_WORDS if word != "None"]  # which may be the name of a class


class RowGroup(NamedTuple):
    """A part of a file: its number in a footer, the ids between which it lies, its rows, and those before it.

    Rows before it are counted in its file, ``first``, and in the table, ``place``.
    """

    path: AnyPath
    footer: Any
    number: int
    low: Any
    high: Any
    n_rows: int
    first: int
    place: int


# --------------------------------------------------------------------------------------------------------------
# In the order of the files
# --------------------------------------------------------------------------------------------------------------


def stream(
    plan: Plan, *, ids_only: bool = False, since: Any = None, group: RowGroup | None = None
) -> Generator[Any, None, None]:
    """Yield the points of a table in the order of its files and rows, as checked record batches.

    Parameters
    ----------
    plan : Plan
        From `make_plan`.
    ids_only : bool
        Leave out coordinates and weights, and do not read them.
    since : int, float or str, optional
        Leave out bags whose id, as it is in the batches, comes before this one.
    group : RowGroup, optional
        Read this part of the table alone.

    Yields
    ------
    pyarrow.RecordBatch
        ``id`` (int64, uint64, float64 or string, see `id_values`), ``c0``, ``c1``, ... and ``w``.
    """
    numbers = plan.columns if plan.weights is None else (*plan.columns, plan.weights)
    if ids_only:
        numbers = plan.columns[:1] if plan.lists else ()
    for piece in _pieces(plan, numbers=numbers, group=group):
        if since is not None:
            piece.keep(compute.greater_equal(piece.ids, pa.scalar(since, piece.ids.type)))
        if len(piece.rows):
            yield piece.points(ids_only)


def present_means(plan: Plan) -> Fills:
    """Return, by one pass, the mean of the present values of each coordinate that has missing ones."""
    try:
        return mean_fills(*_present(plan), plan.names)
    except TableError:
        raise
    except ValueError as error:
        raise TableError(f"{plan}: {error}") from None


def _present(plan: Plan) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the sum of the present values of each coordinate, their number, and that of missing values."""
    sums, present, missing = np.zeros((3, len(plan.names)))
    for batch in stream(replace(plan, gaps=plan.gaps or "drop")):
        for j in range(len(plan.names)):
            values = batch.column(1 + j).to_numpy(zero_copy_only=False)
            there = ~np.isnan(values)
            sums[j] += values.sum(where=there, dtype=np.float64)
            present[j] += there.sum()
            missing[j] += len(values) - there.sum()
    return sums, present.astype(np.int64), missing.astype(np.int64)


def find_labels(plan: Plan) -> dict[str, tuple[Label, ...]]:
    """Return the labels of categorical columns, by one pass over them: those that are there, sorted, or those given.

    Where some are not among those given, "other" comes after these, with a warning. A column that has another label in
    most rows tells points apart, not kinds of points, and is an error.
    """
    found: dict[str, dict[Any, None]] = {name: {} for name in plan.labels}
    n_rows = 0
    for piece in _pieces(plan, texts=list(plan.labels)):
        n_rows += len(piece.rows)
        for name, seen in found.items():
            words = piece.words(name)
            seen |= dict.fromkeys(words.dictionary.to_pylist())
            seen |= {LABEL: None} if words.null_count and plan.gaps == "fill" else {}
    labels = {}
    for name, given in plan.labels.items():
        if not found[name] and given is None:
            raise TableError(f"{plan}: column {name!r} has no label at all; leave it out")
        where = f"{plan}, column {name!r}"
        if given is None and n_rows >= _MANY_ROWS and 2 * len(found[name]) > n_rows:
            which = f"{len(found[name]):,} labels in {n_rows:,} rows name points, not kinds of points; leave it out of "
            raise TableError(Message(f"{where}: ", which, Argument("categorical")))
        seen = found[name]
        labels[name] = sort_labels(seen) if given is None else with_other(match_labels(seen, given), given, where)
    return labels


def read_labelled(plan: Plan) -> tuple[Any, Any]:
    """Return the ids and the labels of a table as arrow arrays, each pair once, null where one may be missing.

    Labels of CSV are text. Rows are those of bags, or of points, which repeat the label of their bag.
    """
    where = f"{plan}, column {plan.columns[0]!r}"
    tables = (pa.table([piece.ids, piece.labels()], names=["id", "c0"]) for piece in _pieces(plan, texts=plan.columns))
    rows = _distinct(tables, f"{where}: labels")
    if rows.column(1).null_count == len(rows):
        raise TableError(f"{where}: no row has a label; check the column")
    return rows.column(0).combine_chunks(), rows.column(1)


def distinct_rows(plan: Plan) -> Any:
    """Return the ids ``id`` and the columns ``c0``, ``c1``, ... of a table, each row once; values of CSV are text."""
    names = ["id", *(f"c{j}" for j in range(len(plan.columns)))]
    pieces = _pieces(plan, texts=plan.columns)
    tables = (pa.table([piece.ids, *map(piece.covariate, plan.columns)], names=names) for piece in pieces)
    return _distinct(tables, f"{plan}: covariates")


def _distinct(tables: Iterable[Any], what: str) -> Any:
    """Return the rows of tables, each once, in order of first appearance; memory is that of few more."""
    found: list[Any] = []
    most = _MANY_PAIRS
    for table in tables:
        found.append(_each_once(table))
        if sum(map(len, found)) > most:
            found = [_each_once(_stack(found, what))]
            most = max(most, 2 * len(found[0]))
    return _each_once(_stack(found, what))


def _each_once(table: Any) -> Any:
    """Return the rows of a table, each once; one of which no id comes again is left alone."""
    if compute.count_distinct(table.column(0), mode="all").as_py() == len(table):
        return table
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def _stack(tables: list[Any], what: str) -> Any:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        raise TableError(f"{what} must be of one type in all files; convert them in some") from None


def _pieces(
    plan: Plan, *, numbers: Sequence[str] = (), texts: Sequence[str] = (), group: RowGroup | None = None
) -> Iterator[_Piece]:
    """Yield the rows of a table piece by piece, with their ids; of a CSV file, columns are numbers or text."""
    n_rows = 0
    texts = [*texts, *(name for name in numbers if name in plan.labels)]
    for path in plan.files if group is None else [group.path]:
        types = {name: pa.bool_() if (path, name) in plan.booleans else pa.float64() for name in numbers}
        types |= dict.fromkeys([plan.bag, *texts], pa.string())
        start, only = (0, None) if group is None else (group.first, (group.footer, group.number))
        check_stamp(path, plan.stamps[path])
        for batch in read_pieces(path, plan.how, list(types), types, only):
            yield _Piece(plan, path, batch, np.arange(start, start + batch.num_rows))
            start += batch.num_rows
        n_rows += start
    if not n_rows:
        raise no_rows(plan.files)


def batch_schema(plan: Plan, ids_only: bool) -> Any:
    """Return the schema of the batches of `stream`."""
    fields = [("id", id_type(plan.ids))]
    if not ids_only:
        fields += [(f"c{j}", pa.from_numpy_dtype(plan.dtype)) for j in range(len(plan.names))]
        fields += [("w", pa.float64())] if plan.weights else []
    return pa.schema(fields)


class _Piece:
    """Some rows of a file, with the errors that name what is wrong in them."""

    def __init__(self, plan: Plan, path: AnyPath, batch: Any, rows: NDArray[Any]) -> None:
        self._plan = plan
        self._path = path
        self._batch = batch
        self.rows = rows  # their places in the file
        self.ids = self._cast_ids()

    def keep(self, mask: Any) -> None:
        """Leave out rows."""
        self._batch, self.ids = self._batch.filter(mask), self.ids.filter(mask)
        self.rows = self.rows[mask.to_numpy(zero_copy_only=False)]

    def labels(self) -> Any:
        """Return the column of labels, null where one is missing, unless that is an error."""
        name = self._plan.columns[0]
        types = pa.types
        column = self.column(name)
        if not (is_number(column.type) or types.is_string(column.type) or types.is_large_string(column.type)):
            text = f"a label must be a number or text, got {column.type}; convert the column"
            raise TableError(f"{str(self._path)!r}, column {name!r}: {text}")
        missing = column.is_null(nan_is_null=True)
        if not self._plan.format.typed:
            words = compute.is_in(compute.utf8_trim_whitespace(column), pa.array(_NO_LABELS))
            missing = compute.or_(missing, words)
        if compute.any(missing).as_py() and not self._plan.gaps:
            row = np.flatnonzero(missing)[0]
            got = f"{column[row].as_py()!r}, which is none" if column[row].is_valid else "none"
            text = f"a bag must have a label, got {got}; drop that row, fill it in, or pass "
            raise self._fault(row, name, text, Argument("missing", "drop"))
        column = compute.if_else(missing, None, column)
        return column.cast(pa.float64()) if types.is_decimal(column.type) else column

    def covariate(self, name: str) -> Any:
        """Return a column of numbers, text or truth values, null where it is missing."""
        column = self.column(name)
        types = pa.types
        kinds = (is_number, types.is_string, types.is_large_string, types.is_null)
        if not any(test(column.type) for test in kinds):
            raise TableError(
                f"{str(self._path)!r}, column {name!r}: a covariate must be a number, text or a truth value, got "
                f"{column.type}; make a number of it, such as an age in years, or text"
            )
        return compute.if_else(compute.is_nan(column), None, column) if types.is_floating(column.type) else column

    def points(self, ids_only: bool) -> Any:
        """Return the record batch of points, or raise the error that names the first value that may not be."""
        plan = self._plan
        weights = None if ids_only else self._plan.weights
        columns: list[tuple[str, Any]] = []
        if plan.lists:
            sizes, columns = self._flatten(plan.columns[:1] if ids_only else plan.columns, weights)
            index = np.repeat(np.arange(len(sizes)), sizes)
            self.rows, self.ids = self.rows[index], self.ids.take(pa.array(index))
        elif not ids_only:
            columns = [(name, self.column(name)) for name in (*plan.columns, weights) if name is not None]
        arrays = [self.ids]
        for j, (name, column) in enumerate([] if ids_only else columns):
            is_weight = j == len(plan.names)
            values = self._codes(name) if name in plan.labels else self._floats(name, column, is_weight)
            arrays.append(pa.array(values))
        return pa.record_batch(arrays, schema=batch_schema(plan, ids_only))

    def _fault(self, row: int, column: str, *text: str | Argument) -> TableError:
        """Return the error for a value in a row of this piece: file, place, column, bag."""
        row, number = int(row), int(self.rows[row])
        place = self._plan.format.place(self._path, self._plan.how, number)
        bag = ""
        if column != self._plan.bag:
            bag = f" (bag {few(id_values(self.ids.slice(row, 1), self._plan.ids))})"
        return TableError(Message(f"{str(self._path)!r}, {place}, column {column!r}{bag}: ", *text))

    def column(self, name: str) -> Any:
        """Return a column, categories as the values they stand for."""
        return values_of(self._batch, name)

    def _cast_ids(self) -> Any:
        """Return the ids in the type that batches have."""
        plan = self._plan
        kind = self._plan.ids
        column = self.column(plan.bag)
        missing = column.is_null(nan_is_null=True)
        if compute.any(missing).as_py():
            row = np.flatnonzero(missing)[0]
            raise self._fault(row, plan.bag, "a row must name its bag, got no id; drop that row, or fill the id in")
        as_text = Argument("bag_type", "text")
        if plan.guessed and kind in ("integer", "date"):
            fits = compute.match_substring_regex(column, INTEGER if kind == "integer" else DATE)
            if not compute.all(fits).as_py():
                row = np.flatnonzero(compute.invert(fits))[0]
                what = "a whole number" if kind == "integer" else "a date"
                rule = f"an id must be {what}, as at the beginning of the table, got {column[row].as_py()!r}"
                raise self._fault(row, plan.bag, f"{rule}; correct it, or pass ", as_text)
        with suppress(pa.ArrowInvalid):
            return cast_ids(column, kind)
        row = 0
        with suppress(pa.ArrowInvalid):
            for row in range(len(column)):  # up to the first that can't be cast
                cast_ids(column.slice(row, 1), kind)
        what = {"integer": "a whole number below 2^63", "date": "a date"}.get(kind, f"of type {kind}")
        raise self._fault(row, plan.bag, f"an id must be {what}, got {column[row].as_py()!r}; pass ", as_text)

    def _flatten(self, names: Sequence[str], weights: str | None) -> tuple[NDArray[Any], list[tuple[str, Any]]]:
        """Return the sizes of the lists, and their values with the name of the column they are from."""
        sizes: Any = None
        columns: list[tuple[str, Any]] = []
        for name in names if weights is None else (*names, weights):
            column = self.column(name)
            if column.null_count:
                row = np.flatnonzero(column.is_null())[0]
                raise self._fault(row, name, "a bag must have a list of points, got null; drop that row")
            values, offsets = arrow_lists(pa, column)  # type: ignore[misc]
            lengths = np.diff(offsets)
            sizes = lengths if sizes is None else sizes
            if not lengths.all() and name == names[0]:
                row = np.flatnonzero(lengths == 0)[0]
                raise self._fault(row, name, "a bag must have at least one point, got an empty list; drop that row")
            if (bad := np.flatnonzero(lengths != sizes)).size:
                both = f"{lengths[bad[0]]} and, in {names[0]!r}, {sizes[bad[0]]}"
                raise self._fault(bad[0], name, f"lists of a row must be equally long, got {both}; correct that row")
            nested = name != weights and point_endings(column.type) is not None
            columns += self._coordinates(name, values, offsets) if nested else [(name, values)]
        return sizes, columns

    def _coordinates(self, name: str, points: Any, offsets: NDArray[Any]) -> list[tuple[str, Any]]:
        """Return the coordinates of points that are lists or structs."""
        names = self._plan.names
        bags = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        if points.null_count:
            raise self._fault(bags[np.flatnonzero(points.is_null())[0]], name, "a point must not be null; drop it")
        if pa.types.is_struct(points.type):
            fields = dict(zip((field.name for field in points.type), points.flatten(), strict=True))
            if not set(names) <= set(fields):
                raise self._fault(0, name, f"a point must have the fields {few(names)}, got {few(fields)}; add it")
            return [(name, fields[field]) for field in names]
        values, bounds = arrow_lists(pa, points)  # type: ignore[misc]
        widths = np.diff(bounds)
        bad = np.flatnonzero(widths != len(names))
        if bad.size:
            text = f"a point must have {len(names)} coordinates, as the first has, got {widths[bad[0]]}"
            raise self._fault(bags[bad[0]], name, f"{text}; correct that row")
        index = np.arange(len(points)) * len(names)
        return [(name, values.take(pa.array(index + j))) for j in range(len(names))]

    def words(self, name: str) -> Any:
        """Return a column of labels as an arrow dictionary, null where one is missing."""
        return words_of(self.column(name), self._plan.format.typed)

    def _codes(self, name: str) -> NDArray[Any]:
        """Return the codes of a column of labels; a missing one that is to be filled in has a label, too."""
        words = self.words(name)
        labels = self._plan.labels[name]
        codes = codes_of(words, labels)
        missing = np.isnan(codes)
        if missing.any() and not self._plan.gaps:
            text = "a label is missing; drop that row, fill it in, or "
            raise self._fault(np.flatnonzero(missing)[0], name, text, *remedies().parts)
        other = labels.index(OTHER) if OTHER in labels else -1
        if self._plan.gaps == "fill":
            codes[missing] = labels.index(LABEL) if LABEL in labels else other
        codes[codes < 0] = other
        return codes.astype(self._plan.dtype)

    def _floats(self, name: str, column: Any, is_weight: bool) -> NDArray[Any]:
        """Return a column of numbers as floats, all finite, and nonnegative if they are weights."""
        if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
            column = column.cast(pa.float64())
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        dtype = np.dtype(float) if is_weight else self._plan.dtype
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        what = "a weight" if is_weight else "a coordinate"
        gaps = self._plan.gaps and not is_weight
        if (bad := np.flatnonzero(np.isinf(values) if gaps else ~np.isfinite(values))).size:
            got = "no value" if column.is_null()[int(bad[0])].as_py() else repr(float(values[bad[0]]))
            text = f"{what} must be a finite number, got {got}; drop that row, or fill the value in"
            more = Message("") if is_weight or np.isinf(values[bad[0]]) else self._count_missing()
            raise self._fault(bad[0], name, text, *more.parts)
        if is_weight and values.min() < 0:
            row = np.flatnonzero(values < 0)[0]
            text = f"a weight must be nonnegative, got {float(values[row])!r}; drop that row, or correct it"
            raise self._fault(row, name, text)
        return values

    def _count_missing(self) -> Message:
        """Return how many values are missing in all of the table, and what can become of them."""
        with suppress(TableError):  # of other values
            found = count_text(_present(self._plan)[2], self._plan.names)
            return Message(f"; missing values in all: {found}; ", remedies())
        return Message("; ", remedies())


# --------------------------------------------------------------------------------------------------------------
# Labels of categorical columns
# --------------------------------------------------------------------------------------------------------------

# They are compared by what is written: 1 in CSV, which is text, is the whole number 1 of Parquet, and true is True. In
# CSV, spaces around labels do not count, and NA and the like are missing.


def words_of(column: Any, typed: bool) -> Any:
    """Return a column of labels as an arrow dictionary, null where a label is missing."""
    if not typed:
        column = compute.utf8_trim_whitespace(column)
        missing = compute.is_in(column, pa.array(MISSING_WORDS))
        column = compute.if_else(missing, None, column)
    elif pa.types.is_floating(column.type):
        column = compute.if_else(compute.is_nan(column), None, column)
    return column.dictionary_encode()


def sort_labels(values: Iterable[Any]) -> tuple[Label, ...]:
    """Return distinct values as labels: sorted, those of no plain kind, such as dates, as text.

    Examples
    --------
    >>> sort_labels(["m", "f", "m"]), sort_labels([2, 1])
    (('f', 'm'), (1, 2))
    """
    plain: set[Label] = {value if isinstance(value, str | bool | int | float) else str(value) for value in values}
    with suppress(TypeError):
        return tuple(sorted(plain))
    return tuple(sorted(map(str, plain)))  # of files that have different types


def match_labels(values: Iterable[Any], labels: Sequence[Label]) -> list[Any]:
    """Return values, those that are written as labels are as these labels.

    Examples
    --------
    >>> match_labels(["2", "x"], (1, 2)), match_labels(["True"], (False, True))
    ([2, 'x'], [True])
    """
    places = {_as_written(label): label for label in labels}
    lower = all(isinstance(label, bool) for label in labels)  # true, True and TRUE
    written = [(value, _as_written(value)) for value in values]
    return [places.get(word.lower() if lower else word, value) for value, word in written]


def codes_of(words: Any, labels: Sequence[Label]) -> NDArray[np.float64]:
    """Return the positions of words among labels: NaN for missing ones, -1 for what is not a label.

    Examples
    --------
    >>> import pyarrow
    >>> codes_of(words_of(pyarrow.array(["2", "1", None, "3"]), typed=False), (1, 2))
    array([ 1.,  0., nan, -1.])
    """
    places = {label: k for k, label in enumerate(labels)}
    codes = [places.get(label, -1) for label in match_labels(words.dictionary.to_pylist(), labels)]
    rows = words.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = np.array([*codes, np.nan])[rows]
    return found


def _as_written(label: Any) -> str:
    """Return a label as it is written in CSV."""
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
