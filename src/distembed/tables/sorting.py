"""Points in order of their bags: as they stand, if they do, or sorted on the way.

The sort is DuckDB's, O(n log n) for n points, in memory up to a limit and on disk beyond it. A table of one piece is
sorted by pyarrow.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from ..bags.checks import few
from .errors import TableError
from .ids import id_values
from .packages import arrow, need
from .pieces import batch_schema, stream
from .plans import Plan
from .readers import ROWS

__all__ = ["Room", "in_order", "is_in_order", "sort"]


@dataclass(frozen=True)
class Room:
    """What a sort may use: memory, threads (None for all cores), and a folder for what exceeds memory."""

    memory_limit: str
    threads: int | None
    temp_directory: str | os.PathLike[str] | None


def is_in_order(plan: Plan) -> bool:
    """Whether rows stand in order of their ids, by a pass over the ids that ends where the order does."""
    with closing(stream(plan, ids_only=True)) as batches:
        return next(_out_of_order(batches), None) is None


def in_order(plan: Plan, *, ids_only: bool, since: Any) -> Generator[Any, None, None]:
    """Yield the batches of `stream` if they are in order of their ids, and an error where they are not."""
    last = None
    for batch in stream(plan, ids_only=ids_only, since=since):
        fault = next(_out_of_order([batch], last), None)
        if fault is not None:
            before, after = (few(id_values(value, plan.ids)) for value in fault)
            raise TableError(
                f"{plan}, column {plan.bag!r}: sorted=True needs rows in order of bags, but bag {after} "
                f"comes back after bag {before}; leave sorted out, and the table is sorted on the way"
            )
        last = batch.column(0).slice(batch.num_rows - 1)
        yield batch


def sort(plan: Plan, room: Room, *, ids_only: bool, since: Any) -> Generator[Any, None, None]:
    """Yield the points of `stream` sorted by bag, then by place in the table."""
    compute = arrow("pyarrow.compute")
    batches = stream(plan, ids_only=ids_only, since=since)
    begin = list(islice(batches, 2))
    if len(begin) < 2:  # one piece needs no database, which takes longer to start than this to sort
        for batch in begin:
            yield batch.take(compute.sort_indices(batch.column(0)))
        return
    yield from _sort_outside(plan, room, batch_schema(plan, ids_only), _Feed(chain(begin, batches)))


def _sort_outside(plan: Plan, room: Room, schema: Any, feed: _Feed) -> Generator[Any, None, None]:
    """Yield the points of the feed sorted by DuckDB, within the memory limit."""
    pa, duckdb = arrow(), need("duckdb", "sorting a table by bag")
    query = f"SELECT {', '.join(schema.names)} FROM points ORDER BY id, place"  # names of ours, see batch_schema
    config = {"memory_limit": room.memory_limit, "preserve_insertion_order": "false"}
    config |= {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    config |= {} if room.threads is None else {"threads": str(room.threads)}
    with tempfile.TemporaryDirectory(prefix="distembed-", dir=room.temp_directory) as scratch:
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
            raise feed.error or _sort_error(plan, room, duckdb, error) from None
        finally:
            relation = open_reader = None  # the files are removed when nothing holds the database any more
            if reader is not None:
                reader.close()
                reader = None
            connection.close()


def _sort_error(plan: Plan, room: Room, duckdb: Any, error: Exception) -> TableError:
    doing = f"{plan}: sorting by column {plan.bag!r}"
    if isinstance(error, duckdb.OutOfMemoryException) and "temp_directory" not in str(error):
        return TableError(f"{doing} needs more than memory_limit={room.memory_limit!r}; raise it, or use fewer threads")
    where = tempfile.gettempdir() if room.temp_directory is None else str(room.temp_directory)
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
