"""Parts of a table as workers read them: rows of some row groups, of a file, or of a partition of a Dask frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..bags.ids import as_ids
from ..compute.arrays import Array
from ..tables import TableError
from ..tables.arrow import pa
from ..tables.formats import known_format
from ..tables.plan import Plan, id_values
from ..tables.points import RowGroup, stream


@dataclass(frozen=True)
class Spec:
    """How the rows of a part are read: the names of its columns, and the plan of files, if they are files."""

    bag: str
    columns: tuple[str, ...]
    weights: str | None
    dtype: np.dtype[Any]
    plan: Plan | None = None


@dataclass(frozen=True)
class FilePart:
    """Row groups of Parquet files, or whole files: (path, first row group, one beyond the last), -1 for all of it."""

    pieces: tuple[tuple[Any, int, int], ...]

    def __str__(self) -> str:
        path, first, stop = self.pieces[0]
        more = f" and {len(self.pieces) - 1} more" if len(self.pieces) > 1 else ""
        groups = "" if stop < 0 else f", row groups {first} to {stop - 1}"
        return f"{str(path)!r}{groups}{more}"


class PartRows(NamedTuple):
    """Rows of a part, in their order: ids (n,), points (n, n_dims) and weights (n,) or None."""

    ids: Array
    points: Array
    weights: Array | None


def rows_of(part: Any, spec: Spec, *, ids_only: bool = False) -> PartRows:
    """Read a part: files, a partition of a Dask frame, or rows that were read already."""
    if isinstance(part, PartRows):
        return part
    return _from_files(part, spec, ids_only) if isinstance(part, FilePart) else _from_frame(part, spec)


def _from_files(part: FilePart, spec: Spec, ids_only: bool) -> PartRows:
    assert spec.plan is not None
    plan = spec.plan
    batches = list[Any]()
    for path, first, stop in part.pieces:
        own = replace(plan, files=(path,), stamps={path: plan.stamps[path]})
        for group in _groups(path, first, stop):
            batches += stream(own, ids_only=ids_only, group=group)
    if not batches:
        return PartRows(
            np.empty(0, np.int64), np.empty((0, len(plan.names))), None if plan.weights is None else np.empty(0)
        )
    table = pa.Table.from_batches(batches)
    ids = as_ids(id_values(table.column(0).combine_chunks(), plan.ids))
    if ids_only:
        return PartRows(ids, np.empty((len(ids), 0)), None)
    points = np.column_stack([np.asarray(table.column(1 + j)) for j in range(len(plan.names))])
    return PartRows(ids, points, None if plan.weights is None else np.asarray(table.column("w")))


def _groups(path: Any, first: int, stop: int) -> Iterator[RowGroup | None]:
    if stop < 0:
        yield None
        return
    footer = known_format(path).footer(path)
    row = sum(footer.row_group(i).num_rows for i in range(first))
    for number in range(first, stop):
        n_rows = footer.row_group(number).num_rows
        if n_rows:
            yield RowGroup(path, footer, number, None, None, n_rows, row, row)
        row += n_rows


def row_group_sizes(path: Any) -> list[int] | None:
    """Rows of each row group of a file; None for files of formats without row groups."""
    footer = known_format(path).footer(path)
    if footer is None:
        return None
    return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]


def _from_frame(frame: Any, spec: Spec) -> PartRows:
    """Rows of a data frame of pandas."""
    if not len(frame):
        empty = np.empty((0, len(spec.columns)), spec.dtype)
        return PartRows(np.empty(0, np.int64), empty, None if spec.weights is None else np.empty(0))
    ids = as_ids(frame[spec.bag])
    if np.asarray(frame[spec.bag].isna()).any():
        raise TableError(f"column {spec.bag!r}: a row must name its bag, got no id; drop such rows")
    points = np.column_stack([_numbers(frame[name], name, spec.dtype) for name in spec.columns])
    weights = None if spec.weights is None else _numbers(frame[spec.weights], spec.weights, np.dtype(float))
    return PartRows(ids, points, weights)


def _numbers(column: Any, name: str, dtype: np.dtype[Any]) -> Array:
    values = np.asarray(column, dtype)
    if not np.isfinite(values).all():
        raise TableError(
            f"column {name!r}: values must be finite numbers, got others; drop those rows, or fill them in"
        )
    return values


def bags_of(rows: PartRows, spec: Spec) -> Bags:
    """The bags, or pieces of bags, of some rows, sorted by id; points of a bag stay in the order of the rows."""
    ids, inverse, sizes = np.unique(rows.ids, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    weights = None if rows.weights is None else rows.weights[order]
    return Bags(rows.points[order], np.append(0, np.cumsum(sizes)), weights, ids=ids, columns=spec.columns)


def take(rows: PartRows, wanted: Array) -> PartRows:
    """Those rows whose ids are among the wanted."""
    there = np.isin(rows.ids, wanted)
    weights = None if rows.weights is None else rows.weights[there]
    return PartRows(rows.ids[there], rows.points[there], weights)


def join_rows(pieces: Sequence[PartRows]) -> PartRows:
    """Rows of several parts, one after the other."""
    pieces = [piece for piece in pieces if len(piece.ids)] or pieces[:1]
    ids, points, weights = zip(*pieces, strict=True)
    return PartRows(
        np.concatenate(ids), np.concatenate(points), None if weights[0] is None else np.concatenate(weights)
    )
