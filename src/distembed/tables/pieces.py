"""Points of a table as a stream of checked record batches.

Whatever the format, a piece of a file becomes one record batch of known names and types: ``id``, the coordinates
``c0``, ``c1``, ... and the weights ``w``. No name and no path of the user's gets further, so that none can end up in a
query. Values are checked here, where file and row are known.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags.checks import few
from ..bags.ragged import _unlist
from .errors import TableError, no_rows
from .files import format_of
from .ids import DATE, INTEGER, can_cast, cast_ids, id_type, id_values
from .packages import arrow
from .plans import Plan
from .readers import read_pieces
from .schemas import is_number, point_endings
from .text_files import line_of

__all__ = ["Piece", "batch_schema", "count_rows", "stream"]


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
        for batch in read_pieces(
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
    return sum(batch.num_rows for path in plan.files for batch in read_pieces(path, plan.delimiter, [plan.bag], types))


def batch_schema(plan: Plan, ids_only: bool) -> Any:
    """Return the schema of the batches of `stream`."""
    pa = arrow()
    fields = [("id", id_type(plan.ids))]
    if not ids_only:
        fields += [(f"c{j}", pa.from_numpy_dtype(plan.dtype)) for j in range(len(plan.names))]
        fields += [("w", pa.float64())] if plan.weights else []
    return pa.schema(fields)


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
            place = f"line {line_of(self.path, self.plan.delimiter, number)}"
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
            fits = compute.match_substring_regex(column, INTEGER if kind == "integer" else DATE)
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
            return cast_ids(column, kind)
        except pa.ArrowInvalid:
            pass
        row = next(i for i in range(len(column)) if not can_cast(column.slice(i, 1), kind))
        what = {"integer": "a whole number below 2^63", "date": "a date"}.get(kind, f"of type {kind}")
        raise self.fault(row, plan.bag, f"an id must be {what}, got {column[row].as_py()!r}; pass bag_type='text'")

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
            nested = name != weights and point_endings(column.type) is not None
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
