"""The sort of a table that is more than one piece: DuckDB's, O(n log n) for n points, on disk beyond a memory limit."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compute.atomic_files import scratch_folder
from ..compute.checks import Argument, Message
from .files import ROWS, Package, TableError, ipc, pa
from .plan import Plan

duckdb = Package("duckdb", "sorting a table by bag")


@dataclass(frozen=True)
class SortLimits:
    """What a sort may use: memory, threads (None for all cores), and a folder for what exceeds memory."""

    memory_limit: str
    threads: int | None
    temp_directory: str | os.PathLike[str] | None

    @property
    def n_bytes(self) -> float:
        """The memory limit as a number.

        Examples
        --------
        >>> SortLimits("1.5 GB", None, None).n_bytes, SortLimits("2KiB", None, None).n_bytes
        (1500000000.0, 2048.0)
        """
        found = re.fullmatch(r"([0-9.]+) ?([KMGT]?)(i?)B", self.memory_limit.upper().replace("IB", "iB"))
        assert found is not None
        return float(found[1]) * float(1024 if found[3] else 1000) ** " KMGT".index(found[2] or " ")


def sort_outside(plan: Plan, limits: SortLimits, schema: Any, batches: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield points sorted by DuckDB, within the memory limit."""
    faults: list[BaseException] = []  # what ended the batches, a signal perhaps, which DuckDB words anew

    def numbered() -> Iterator[Any]:
        place = 0
        try:
            for batch in batches:
                places = pa.array(np.arange(place, place + batch.num_rows))
                place += batch.num_rows
                yield pa.record_batch([*batch.columns, places], names=[*batch.schema.names, "place"])
        except GeneratorExit:  # DuckDB wants no more
            raise
        except BaseException as error:
            faults.append(error)
            raise

    query = f"SELECT {', '.join(schema.names)} FROM points ORDER BY id, place"  # names of ours, see `points`
    config = {"memory_limit": limits.memory_limit, "preserve_insertion_order": "false"}
    config |= {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    config |= {} if limits.threads is None else {"threads": str(limits.threads)}
    with scratch_folder(limits.temp_directory) as scratch:
        connection = duckdb.connect(":memory:", config=config | {"temp_directory": scratch})
        reader = None
        try:
            places = schema.append(pa.field("place", pa.int64()))
            connection.register("points", pa.RecordBatchReader.from_batches(places, numbered()))
            relation = connection.sql(query)
            # DuckDB 2 has the first name, DuckDB 1 the second.
            open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            reader = open_reader(ROWS)
            yield from reader
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise faults[0] if faults else _sort_error(plan, limits, error) from None
        except RuntimeError as error:
            if str(error) != "Query interrupted":  # what DuckDB makes of a signal that comes in its own code
                raise
            raise KeyboardInterrupt from None
        finally:
            relation = open_reader = None  # the files are removed when nothing holds the database any more
            if reader is not None:
                reader.close()
                reader = None
            connection.close()


class SortedOnce:
    """The batches of one sort, kept in a file as they come, for passes after the first.

    A pass that was broken off is taken up by the next one: it reads what is in the file, and the sort goes on.

    Parameters
    ----------
    live : generator of record batches
        The sort.
    schema : pyarrow.Schema
        Of its batches.
    path : str
        A file that is not there yet.

    Examples
    --------
    >>> import pyarrow as pa
    >>> made = (pa.record_batch([[number]], names=["id"]) for number in range(3))
    >>> with scratch_folder() as folder:
    ...     kept = SortedOnce(made, pa.schema([("id", pa.int64())]), f"{folder}/sorted")
    ...     first = next(kept.batches())
    ...     [batch.column(0)[0].as_py() for batch in kept.batches()], len(list(kept.batches()))
    ...     kept.close()
    ([0, 1, 2], 3)
    """

    def __init__(self, live: Generator[Any, None, None], schema: Any, path: str) -> None:
        self._live, self._path, self._n_kept = live, path, 0
        self._sink = pa.OSFile(path, "wb")
        self._writer = ipc.new_stream(self._sink, schema)

    def batches(self) -> Generator[Any, None, None]:
        """All batches, from the first; one pass at a time."""
        n_kept = self._n_kept
        if n_kept:
            with pa.OSFile(self._path, "rb") as source, ipc.open_stream(source) as reader:
                for _ in range(n_kept):
                    yield reader.read_next_batch()
        for batch in self._live:
            self._writer.write_batch(batch)
            self._sink.flush()
            self._n_kept += 1
            yield batch

    def close(self) -> None:
        """End the sort; the file is its folder's to remove."""
        self._live.close()
        self._writer.close()
        self._sink.close()


def _sort_error(plan: Plan, limits: SortLimits, error: Exception) -> TableError:
    doing = f"{plan}: sorting by column {plan.bag!r}"
    if isinstance(error, duckdb.OutOfMemoryException) and "temp_directory" not in str(error):
        limit = Argument("memory_limit", limits.memory_limit)
        return TableError(Message(f"{doing} needs more than ", limit, "; raise it, or use fewer threads"))
    where = tempfile.gettempdir() if limits.temp_directory is None else str(limits.temp_directory)
    return TableError(
        f"{doing} failed with temporary files in {where!r}; make room there, or name another temp_directory"
    )
