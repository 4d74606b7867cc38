"""Tables in parts, and a survey of them: which bags are in which parts, and with how many points.

A bag whose points are in one part alone is worked on there. Bags that are cut by parts are few where a table is in
order, or nearly, however it is cut: their pieces come together, as sketches where the embedding has some that are
smaller than the points. Where many bags are cut the rows are shuffled first, by Dask, to parts of whole bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..bags.flat import few
from ..bags.ids import as_ids
from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.progress import SILENT, Stages
from ..tables import TableError
from ..tables.files import list_files
from ..tables.formats import check_reading
from ..tables.paths import as_path
from ..tables.plan import make_plan
from .engine import Graph, client_for, lazily
from .parts import FilePart, PartRows, Spec, bags_of, join_rows, row_group_sizes, rows_of, take

ROWS = 500_000  # of a part
_MOST_CUT = 0.2  # share of rows in bags that are cut from which on rows are shuffled


class Survey(NamedTuple):
    """What is where: ids of all bags, sorted, their numbers of points, and for each part the bags in it.

    Parameters
    ----------
    ids : ndarray of shape (n_bags,)
        All ids.
    sizes : ndarray of shape (n_bags,)
        Points of each bag.
    inside : tuple of ndarray of int
        For each part, positions of its bags among the ids, increasing.
    counts : tuple of ndarray of int
        For each part, how many points of each of these it has.
    """

    ids: Array
    sizes: Array
    inside: tuple[Array, ...]
    counts: tuple[Array, ...]

    @property
    def n_parts_of(self) -> Array:
        """In how many parts each bag is."""
        return np.bincount(np.concatenate(self.inside), minlength=len(self.ids))

    @property
    def is_cut(self) -> Array:
        """Which bags are in several parts."""
        return np.asarray(self.n_parts_of > 1)


@dataclass(frozen=True)
class ClusterTable:
    """A table in parts; :func:`open` makes one.

    Attributes
    ----------
    bag : str
        The column of bag ids.
    columns : tuple of str
        The coordinates.
    weights : str or None
        The column of weights of points.
    parts : list
        What workers read: some row groups of files, whole files, or partitions of a Dask frame.

    Examples
    --------
    >>> import tempfile
    >>> from distembed import cluster
    >>> from distembed.tables import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"id": [3, 1, 3], "x": [0.5, 0.1, 0.2]}, f"{folder}/t.parquet")
    ...     table = cluster.open(f"{folder}/t.parquet", bag="id")
    >>> table.bag, table.columns, len(table.parts)
    ('id', ('x',), 1)
    """

    spec: Spec
    parts: list[Any] = field(repr=False)
    name: str
    left_out: dict[str, str] = field(default_factory=dict, repr=False)
    few_cut_rows: int = field(default=200_000, repr=False)  # of bags that are cut: these are never shuffled

    @property
    def bag(self) -> str:
        """The column of bag ids."""
        return self.spec.bag

    @property
    def columns(self) -> tuple[str, ...]:
        """The coordinates."""
        return self.spec.columns

    @property
    def weights(self) -> str | None:
        """The column of weights."""
        return self.spec.weights

    def __str__(self) -> str:
        return self.name

    def describe(self, part: int) -> str:
        """What errors call a part."""
        one = self.parts[part] if part < len(self.parts) else None
        return str(one) if isinstance(one, FilePart) else f"partition {part} of {self.name}"

    def survey(self, client: Any = None, stages: Stages = SILENT) -> Survey:
        """Look at the ids of all parts.

        Parameters
        ----------
        client : distributed.Client, optional
            Who works.
        stages : Stages, optional
            Receives progress, one step per part.
        """
        graph = Graph(client_for(client, "ClusterTable.survey"), self.describe)
        stages.begin("surveying parts", len(self.parts))
        asked = [graph.add("survey", i, _look, part, self.spec) for i, part in enumerate(self.parts)]
        found = graph.compute(asked)
        stages.advance(len(found))
        seen = [(ids, counts) for ids, counts in found if len(ids)]
        if not seen:
            raise TableError(f"{self}: no rows, and there must be at least one; check how it was written")
        kinds = {ids.dtype.kind for ids, _ in seen}
        if len(kinds) > 1:
            raise TableError(f"{self}: column {self.bag!r} of bag ids must be of one type in all parts; convert it")
        every = np.unique(np.concatenate([ids for ids, _ in seen]))
        inside = tuple(np.searchsorted(every, ids.astype(every.dtype)) for ids, _ in found)
        counts = tuple(counts for _, counts in found)
        sizes = np.bincount(np.concatenate(inside), np.concatenate(counts), len(every)).astype(np.int64)
        return Survey(as_ids(every), sizes, inside, counts)

    def take(self, ids: Any, survey: Survey, client: Any = None) -> Bags:
        """Bring some whole bags to the client, sorted by id.

        Parameters
        ----------
        ids : array-like
            Of bags that are there.
        survey : Survey
            Of this table.
        client : distributed.Client, optional
            Who works.
        """
        graph = Graph(client_for(client, "ClusterTable.take"), self.describe)
        wanted = np.unique(np.asarray(ids))
        places = np.searchsorted(survey.ids, wanted)
        asked = []
        for i, (part, inside) in enumerate(zip(self.parts, survey.inside, strict=True)):
            own = np.intersect1d(places, inside)
            if len(own):
                asked.append(graph.add("take", i, _take, part, self.spec, survey.ids[own]))
        bags = bags_of(join_rows(graph.compute(asked)), self.spec)
        if not np.array_equal(bags.sizes, survey.sizes[places]):
            raise TableError(f"{self}: has changed since it was looked at; do it again when it is complete")
        return bags

    def in_whole_bags(self, survey: Survey) -> tuple[ClusterTable, Survey]:
        """The table itself where few rows are in bags that are cut; else one whose rows are shuffled, by Dask."""
        n_cut = int(survey.sizes[survey.is_cut].sum())
        if n_cut <= max(self.few_cut_rows, _MOST_CUT * survey.sizes.sum()):
            return self, survey
        return self._shuffle(survey)

    def _shuffle(self, survey: Survey) -> tuple[ClusterTable, Survey]:
        """A table whose part k has the bags from one bound of ids to the next."""
        try:
            import pandas as pd
            from dask import dataframe
        except ImportError as error:
            raise ImportError(
                f"{self}: most bags are cut by parts, and to shuffle rows needs pandas: pip install "
                "'distembed[cluster,frames]', or sort the table by its bags"
            ) from error
        ends = np.cumsum(survey.sizes)
        n_parts = max(1, -(-int(ends[-1]) // ROWS))
        first = np.unique(np.searchsorted(ends, np.arange(n_parts) * (ends[-1] / n_parts), side="right"))
        bounds = survey.ids[first]
        columns = [f"c{j}" for j in range(len(self.columns))]
        kinds = {"part": np.int64, "place": np.int64, **dict.fromkeys(columns, self.spec.dtype)}
        if self.weights is not None:
            kinds["w"] = np.dtype(float)
        meta = pd.DataFrame({name: np.empty(0, kind) for name, kind in kinds.items()})
        meta.insert(2, "id", pd.Series(survey.ids[:0]))
        names = tuple(meta.columns)
        frames = [lazily(_as_frame, part, self.spec, bounds, i, names) for i, part in enumerate(self.parts)]
        made = dataframe.from_delayed(frames, meta=meta, verify_meta=False)
        made = made.set_index("part", divisions=list(range(len(bounds) + 1)))
        parts = [lazily(_order_rows, part, survey.ids.dtype) for part in made.to_delayed()]
        edges = np.append(first, len(survey.ids))
        inside = tuple(np.arange(a, b) for a, b in pairwise(edges.tolist()))
        table = replace(self, parts=parts, name=f"{self.name}, shuffled")
        return table, Survey(survey.ids, survey.sizes, inside, tuple(survey.sizes[own] for own in inside))


def open(  # noqa: A001
    source: Any,
    *,
    bag: str,
    columns: Sequence[str] | str | None = None,
    weights: str | None = None,
    storage_options: dict[str, Any] | None = None,
    partition_rows: int = ROWS,
    bag_type: str = "auto",
    delimiter: str | None = None,
    decimal: str = ".",
) -> ClusterTable:
    """Open a table of points for a cluster; only the beginnings of files are read.

    Parameters
    ----------
    source : path, URL, several of them, or a Dask frame
        A file, a folder, a pattern, or a list; local paths must be seen by all workers. ``s3://``, ``gs://``, ``az://``
        and others go through fsspec. Parquet is cut by its row groups; files of other formats are parts as a whole.
    bag, columns, weights, bag_type, delimiter, decimal
        As in :class:`distembed.tables.BagTable`.
    storage_options : dict, optional
        What fsspec takes, for URLs. Credentials in the environment need none.
    partition_rows : int, default=500_000
        Rows of a part, about: what a worker has in memory at a time. Row groups are not cut.

    Returns
    -------
    ClusterTable

    Examples
    --------
    >>> import tempfile
    >>> from distembed import cluster
    >>> from distembed.tables import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(3):
    ...         write_table({"id": [i, i], "x": [0.5, 0.1]}, f"{folder}/{i}.parquet")
    ...     len(cluster.open(f"{folder}/*.parquet", bag="id", partition_rows=4).parts)
    2
    """
    most = int(check_number("cluster.open", "partition_rows", partition_rows, low=1, integer=True))
    if hasattr(source, "to_delayed"):
        return _open_frame(source, bag, columns, weights)
    entries = [source] if isinstance(source, str) or not isinstance(source, Sequence) else list(source)
    files = list_files([as_path(entry, storage_options) for entry in entries])
    plan = make_plan(list(files), bag, columns, weights, check_reading("cluster.open", delimiter, decimal), bag_type)
    spec = Spec(plan.bag, plan.names, plan.weights, plan.dtype, plan)
    return ClusterTable(spec, _cut(plan.files, most), str(plan), dict(plan.left_out))


def _open_frame(frame: Any, bag: str, columns: Any, weights: str | None) -> ClusterTable:
    kinds = dict(frame.dtypes)
    own = [bag, *([] if weights is None else [weights])]
    chosen = [columns] if isinstance(columns, str) else columns
    numbers = [name for name, kind in kinds.items() if getattr(kind, "kind", "O") in "fiub" and name not in own]
    chosen = tuple(numbers if chosen is None else chosen)
    for name in (*own, *chosen):
        if name not in kinds:
            raise TableError(f"the Dask frame has no column {name!r}; it has {few(list(kinds))}")
    if not chosen:
        raise TableError(f"the Dask frame has no column of numbers beside {bag!r}; it has {few(list(kinds))}")
    single = all(str(kinds[name]) == "float32" for name in chosen)
    spec = Spec(bag, tuple(map(str, chosen)), weights, np.dtype(np.float32 if single else float))
    return ClusterTable(spec, list(frame.to_delayed()), "a Dask frame")


def _cut(files: Sequence[Any], rows: int) -> list[FilePart]:
    """Parts of about n rows: row groups of Parquet in their order, across files; other files as they are."""
    parts: list[FilePart] = []
    held: list[tuple[Any, int, int]] = []
    n_held = 0
    for path in files:
        sizes = row_group_sizes(path)
        if sizes is None:
            parts.append(FilePart(((path, 0, -1),)))
            continue
        for number, size in enumerate(sizes):
            if held and n_held + size > rows:
                parts.append(FilePart(tuple(held)))
                held = []
                n_held = 0
            if held and held[-1][0] == path:
                held[-1] = (path, held[-1][1], number + 1)
            else:
                held.append((path, number, number + 1))
            n_held += size
    return [*parts, FilePart(tuple(held))] if held else parts


# --------------------------------------------------------------------------------------------------------------
# In workers
# --------------------------------------------------------------------------------------------------------------


def _look(part: Any, spec: Spec) -> tuple[Array, Array]:
    return np.unique(rows_of(part, spec, ids_only=True).ids, return_counts=True)


def _take(part: Any, spec: Spec, wanted: Array) -> PartRows:
    return take(rows_of(part, spec), wanted)


def _as_frame(part: Any, spec: Spec, bounds: Array, number: int, names: tuple[str, ...]) -> Any:
    """Rows of a part as a data frame, with the part where each belongs, and its place in the table."""
    import pandas as pd

    rows = rows_of(part, spec)
    columns: dict[str, Any] = {
        "part": np.searchsorted(bounds, rows.ids, side="right").astype(np.int64) - 1,
        "place": (number << 40) + np.arange(len(rows.ids), dtype=np.int64),
        "id": pd.Series(rows.ids),
        **{f"c{j}": rows.points[:, j] for j in range(rows.points.shape[1])},
    }
    if rows.weights is not None:
        columns["w"] = rows.weights
    return pd.DataFrame(columns)[list(names)]


def _order_rows(frame: Any, kind: np.dtype[Any]) -> PartRows:
    """Rows of a shuffled part in the order of the table, however they came."""
    frame = frame.sort_values("place")
    ids = np.asarray(frame["id"])
    columns = [name for name in frame.columns if name.startswith("c")]
    weights = np.asarray(frame["w"]) if "w" in frame.columns else None
    points = np.column_stack([np.asarray(frame[name]) for name in columns])
    return PartRows(as_ids(ids.astype(str) if kind.kind == "U" else ids.astype(kind)), points, weights)
