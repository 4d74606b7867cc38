"""From paths and options to tables, labels, models and bags."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, concat
from ..bags.checks import canonical_ids
from ..files import load
from ..learners.conformal_split import SplitConformal
from ..tables import BagTable, Joined, LabelTable, TableError, join, read_labels
from ..tables.files import format_of, list_files
from ..tables.ids import id_values
from ..tables.pieces import stream
from ._options import TableOptions
from ._screen import Screen

__all__ = [
    "Labels",
    "batches_of",
    "is_large",
    "learner_of",
    "load_model",
    "matching_ids",
    "open_labels",
    "open_table",
    "read_all",
    "read_ids",
    "sample_bags",
    "table_of_model",
]

Array = NDArray[Any]

MANY_POINTS = 5_000_000  # beyond, fits are out of core unless told otherwise
POINT_BYTES = 16  # of a file, where it does not say how many points it has
BATCH_POINTS = 1_000_000


def open_table(source: Sequence[str], options: TableOptions, bag: str | None = None) -> BagTable:
    """The table of points."""
    name = bag or options.bag
    if name is None:
        raise click.UsageError("--bag is missing, and the model does not remember one; name the column of bag ids")
    return BagTable(
        source[0] if len(source) == 1 else list(source),
        bag=name,
        columns=options.columns,
        weights=options.weights,
        memory_limit=options.memory_limit,
        threads=options.jobs,
        temp_directory=options.temp,
        bag_type=options.bag_type,
        delimiter=options.delimiter,
    )


def known_points(table: BagTable) -> int | None:
    """Number of points, where footers tell it."""
    plan = table._plan
    return None if plan.lists else plan.rows


def is_large(table: BagTable) -> bool:
    """Whether there are so many points that they had better not be in memory all at once."""
    points = known_points(table)
    if points is None:
        points = sum(path.stat().st_size for path in table.files) // POINT_BYTES
    return points > MANY_POINTS


def batches_of(table: BagTable, start: int = 0) -> Iterator[Bags]:
    """Batches of bags of about a million points."""
    batches = table.batches(max_points=BATCH_POINTS, start=start)
    with closing(batches):  # type: ignore[type-var]
        yield from batches


def read_all(table: BagTable, screen: Screen) -> Bags:
    """All bags, in memory."""
    with screen.bar("reading", known_points(table), "points") as bar:
        parts = []
        for bags in batches_of(table):
            parts.append(bags)
            bar.advance(bags.n_points)
        return parts[0] if len(parts) == 1 else concat(parts)


def read_ids(table: BagTable, screen: Screen) -> Array:
    """All ids, each once and sorted, by a pass over their column."""
    import pyarrow as pa
    import pyarrow.compute as compute

    plan = table._plan
    found: Any = None
    batches = stream(plan, ids_only=True)
    with closing(batches), screen.bar("reading ids", known_points(table), "points") as bar:
        for batch in batches:
            ids = batch.column(0).unique()
            found = ids if found is None else pa.concat_arrays([found, ids]).unique()
            bar.advance(batch.num_rows)
    return canonical_ids(id_values(found.take(compute.sort_indices(found)), plan.ids))


def sample_bags(table: BagTable, most: int, seed: int, screen: Screen) -> Bags:
    """At most so many bags, drawn evenly from all, in one pass."""
    rng = np.random.default_rng(seed)
    kept: Bags | None = None
    keys = np.empty(0)
    with screen.bar("drawing bags", known_points(table), "points") as bar:
        for bags in batches_of(table):
            keys = np.concatenate([keys, rng.uniform(size=bags.n_bags)])
            kept = bags if kept is None else concat([kept, bags])
            chosen = np.sort(np.argsort(keys, kind="stable")[:most])
            if len(chosen) < len(keys):
                kept, keys = kept[chosen], keys[chosen]
            bar.advance(bags.n_points)
    assert kept is not None  # a table without rows is an error
    return kept


class Labels(NamedTuple):
    """Labels of bags, and where they come from."""

    table: LabelTable
    where: str  # file and column of ids, for messages
    paths: tuple[Path, ...]


def open_labels(path: str, bag: str, label: str, options: TableOptions) -> Labels:
    """The table of labels."""
    return Labels(_labels(path, bag, label, options), f"{path!r}, column {bag!r}", list_files(path))


def _labels(path: str, bag: str, label: str, options: TableOptions) -> LabelTable:
    try:
        return read_labels(path, bag=bag, label=label, bag_type=options.bag_type, delimiter=options.delimiter)
    except TableError as error:
        raise TableError(str(error).replace(": bag names column", ": --labels-bag names column")) from None


def matching_ids(ids: Any, labels: Labels, table_name: str, missing: str, unknown: str) -> Joined:
    """The labels of bags; errors name the file in which the partner is missing."""
    try:
        found = join(ids, labels.table, missing=missing, unknown="ignore")
    except TableError as error:
        raise TableError(f"{table_name} and {labels.where}: {error}") from None
    if len(found.unknown) and unknown != "ignore":
        try:
            join(ids, labels.table, missing=missing, unknown="error")
        except TableError as error:
            text = f"{labels.where}: {error}"
        if unknown == "error":
            raise TableError(text)
        warnings.warn(text, UserWarning, stacklevel=2)
    return found


def load_model(path: str) -> Any:
    """A model from its file."""
    if format_of(Path(path)) is not None and not Path(path).is_dir():
        raise click.UsageError(
            f"{path!r} is a table, and a model comes first; give the file that 'distembed fit' wrote"
        )
    return load(path)


def learner_of(model: Any) -> Any:
    """The learner inside of intervals or sets of classes, or the model itself."""
    return model.estimator_ if isinstance(model, SplitConformal) and hasattr(model, "estimator_") else model


def table_of_model(model: Any, source: Sequence[str], options: TableOptions) -> BagTable:
    """A table of new bags, with the columns that the model was fitted to unless the user names others."""
    model = learner_of(model)
    remembered: dict[str, Any] = getattr(model, "table_", {})
    if options.columns is None and (columns := remembered.get("columns")):
        options.columns = tuple(columns)
    if options.columns is None and hasattr(model, "feature_names_in_"):
        options.columns = tuple(map(str, model.feature_names_in_))
    if options.weights is None:
        options.weights = remembered.get("weights")
    return open_table(source, options, options.bag or remembered.get("bag"))


@contextmanager
def predicting(table: BagTable, screen: Screen, doing: str) -> Iterator[Iterator[Bags]]:
    """Batches of a table, under a bar that counts their points."""
    with screen.bar(doing, known_points(table), "points") as bar:

        def counted() -> Iterator[Bags]:
            for bags in batches_of(table):
                yield bags
                bar.advance(bags.n_points)

        yield counted()


def read_some(table: BagTable, wanted: Sequence[str], screen: Screen) -> Bags:
    """The bags of some ids, as they are written in the shell, in the order of the table."""
    if not wanted:
        return read_all(table, screen)
    left, parts = set(wanted), []
    with predicting(table, screen, "looking for bags") as batches:
        for bags in batches:
            names = np.array([str(name) for name in bags.ids])
            here = np.isin(names, list(left))
            if here.any():
                parts.append(bags[here])
                left -= set(names[here])
            if not left:
                break
    if left:
        raise TableError(
            f"{table._plan}, column {table.bag!r}: no bag has the id {sorted(left)[0]!r}; 'distembed info' with --bag "
            "shows some that it has"
        )
    return parts[0] if len(parts) == 1 else concat(parts)
