"""``distembed info``: what a model file or a table holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from ._options import common, example
from ._screen import Screen

__all__ = ["command"]


@click.command("info", epilog=example("distembed info mass.distembed", "distembed info points.parquet --bag cluster"))
@click.argument("path", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option("--bag", metavar="COLUMN", help="Column of bag ids of a table: tell of bags and their sizes too.")
@click.option("--delimiter", metavar="SIGN", help="What stands between values in CSV. [default: a comma]")
@common
def command(screen: Screen, path: tuple[str, ...], bag: str | None, delimiter: str | None) -> None:
    """Tell what a model file or a table holds.

    Of a table: rows, columns with their types, ranges and missing values and, with --bag, the sizes of bags.
    """
    if len(path) == 1 and _is_model(path[0]):
        _tell_model(path[0], screen)
    else:
        _tell_table(path, bag, delimiter, screen)


def _is_model(path: str) -> bool:
    """Whether to read it as a model: what has no suffix of a table and is an existing file."""
    from ..tables.files import format_of

    return format_of(Path(path)) is None and Path(path).is_file()


def _tell_model(path: str, screen: Screen) -> None:
    from ..files import info, load
    from ._inputs import learner_of

    told = info(path)
    loaded = load(path)
    model = learner_of(loaded)
    coverage: dict[str, Any] | None = None
    if model is not loaded:
        groups = loaded.groups_
        n_groups = None if groups is None else len(set(groups.tolist()))
        coverage = {"coverage": loaded.coverage, "n_bags": len(loaded.scores_), "n_groups": n_groups}
    remembered: dict[str, Any] = getattr(model, "table_", {})
    settings = getattr(model, "best_params_", {})
    search = getattr(model, "search_", None)
    screen.line(str(told))
    if remembered:
        needs = [remembered["bag"], *remembered["columns"]]
        needs += [remembered["weights"]] if remembered.get("weights") else []
        what = f"predicts {remembered['label']!r}" if "label" in remembered else "makes features"
        screen.line(f"{what} from a table with the columns {', '.join(needs)}")
    if settings:
        screen.line(
            "settings: " + ", ".join(f"{name} {value:g}" for name, value in settings.items() if value is not None)
        )
    if coverage is not None:
        what = "sets of classes hold" if hasattr(loaded, "predict_set") else "intervals hold"
        of = "" if coverage["n_groups"] is None else f" of {coverage['n_groups']:,} groups"
        screen.line(
            f"{what} the truth with probability {coverage['coverage']:g}; calibrated on {coverage['n_bags']:,} bags{of}"
        )
    if search is not None:
        screen.line(f"R² on held-out bags of the search: {1 - search.best.error:.4f}")
    screen.result(
        {
            "command": "info",
            "path": path,
            "kind": "model",
            "model": told.model,
            "fitted": told.fitted,
            "parameters": told.parameters,
            "versions": told.versions,
            "format": told.format,
            "n_bytes": told.n_bytes,
            "table": remembered or None,
            "settings": settings or None,
            "classes": getattr(model, "classes_", None),
            "coverage": coverage,
        }
    )


def _tell_table(paths: tuple[str, ...], bag: str | None, delimiter: str | None, screen: Screen) -> None:
    from ..tables.errors import no_rows
    from ..tables.files import list_files
    from ..tables.readers import describe, read_pieces
    from ..tables.schemas import check_column

    files = list_files(paths[0] if len(paths) == 1 else list(paths))
    heads = [describe(file, delimiter, bag) for file in files]
    first = heads[0]
    for head in heads:
        if bag is not None:
            check_column(head, "bag", bag)
    columns = {name: _Column(str(kind)) for name, kind in zip(first.names, first.types, strict=True)}
    names = list(dict.fromkeys(first.names))
    sizes: Counter[Any] = Counter()
    n_rows = 0
    known = None if any(head.rows is None for head in heads) else sum(head.rows or 0 for head in heads)
    with screen.bar("reading", known, "rows") as bar:
        for file, head in zip(files, heads, strict=True):
            for name in names:
                check_column(head, "columns", name)
            text = {} if bag is None else {bag: "string"}
            for batch in read_pieces(file, delimiter, names, text):
                n_rows += batch.num_rows
                for name in names:
                    columns[name].add(batch.column(batch.schema.names.index(name)))
                if bag is not None:
                    sizes.update(_counts(batch.column(batch.schema.names.index(bag))))
                bar.advance(batch.num_rows)
    if not n_rows:
        raise no_rows(files)
    found: dict[str, Any] = {
        "command": "info",
        "kind": "table",
        "files": [str(file) for file in files],
        "n_rows": n_rows,
        "columns": {name: column.as_dict() for name, column in columns.items()},
    }
    rows = [(name, *column.cells()) for name, column in columns.items()]
    title = f"{files[0]}" + (f" and {len(files) - 1} more" if len(files) > 1 else "") + f": {n_rows:,} rows"
    screen.table(title, ("column", "type", "missing", "least", "greatest"), rows)
    if bag is None:
        screen.line("--bag COLUMN tells of bags")
    else:
        found["bags"] = _tell_bags(sizes, bag, screen)
    screen.result(found)


def _tell_bags(sizes: Counter[Any], bag: str, screen: Screen) -> dict[str, Any]:
    import numpy as np

    rows = np.array(list(sizes.values()))
    some = [str(name) for name in list(sizes)[:5]]
    told = {
        "column": bag,
        "n_bags": len(rows),
        "rows_least": int(rows.min()),
        "rows_median": float(np.median(rows)),
        "rows_greatest": int(rows.max()),
        "some": some,
    }
    more = ", ..." if len(sizes) > len(some) else ""
    screen.line(
        f"{len(rows):,} bags by {bag!r}: {rows.min():,} to {rows.max():,} rows each, median {np.median(rows):,.0f}; "
        f"{', '.join(some)}{more}"
    )
    return told


def _counts(ids: Any) -> dict[Any, int]:
    """How many rows each id of a batch has."""
    pairs = ids.drop_null().value_counts()
    return dict(zip(pairs.field(0).to_pylist(), pairs.field(1).to_pylist(), strict=True))


class _Column:
    """What is known of a column: values that are missing, and their range."""

    def __init__(self, kind: str) -> None:
        self.kind, self.missing = kind, 0
        self.least: Any = None
        self.greatest: Any = None

    def add(self, values: Any) -> None:
        """Look at some values."""
        import pyarrow as pa
        import pyarrow.compute as compute

        self.kind = str(values.type)
        self.missing += compute.sum(values.is_null(nan_is_null=True)).as_py() or 0
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_nested(values.type) or pa.types.is_null(values.type) or pa.types.is_binary(values.type):
            return
        if pa.types.is_floating(values.type):
            values = values.filter(compute.invert(compute.is_nan(values.fill_null(float("nan")))))
        ends = compute.min_max(values).as_py()
        for name, pick in (("min", min), ("max", max)):
            if ends[name] is not None:
                attribute = "least" if name == "min" else "greatest"
                known = getattr(self, attribute)
                setattr(self, attribute, ends[name] if known is None else pick(known, ends[name]))

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"type": self.kind, "missing": self.missing, "least": self.least, "greatest": self.greatest}

    def cells(self) -> tuple[str, ...]:
        """For people."""
        return (self.kind, f"{self.missing:,}", _short(self.least), _short(self.greatest))


def _short(value: Any) -> str:
    if value is None:
        return "-"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else text[:21] + "..."
