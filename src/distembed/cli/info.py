"""``distembed info``: what a model file, a table, an .h5ad file or FCS files hold, and which methods there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from . import options as opt
from .app import Screen
from .models import calibration_of, is_linear, learner_of, show_leaderboard
from .results import empty_note, size_note

if TYPE_CHECKING:
    from ..compute.arrays import Array

_MOST_VALUES = 4  # of a column of obs that are shown, or names of variables
_WIDTH = 50  # of such a list
_NONE = -1  # code of a missing value
_INDEX = "_index"  # names of the rows of obs, which nobody gave


@click.command(
    "info", epilog=opt.example("distembed info mass.distembed", "distembed info points.parquet --bag cluster")
)
@click.argument("path", nargs=-1, type=click.Path(path_type=str))
@opt.column("--bag", of=("path",), help="Column of bag ids of a table: show bags and their sizes too.")
@click.option("--methods", is_flag=True, help="Show the names that --embedding and --divergence take.")
@opt.csv_signs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Show what a model file or a table holds.

    Of a table: rows, columns with their types, ranges and missing values and, with --bag, the sizes of bags. Of an
    .h5ad file: variables, columns of obs and keys of obsm. Of FCS files: channels and numbers of events.
    """
    if asked.methods == bool(asked.path):
        raise click.UsageError("name a model or a table, or add --methods; one of the two")
    from ..tables.cell_files import cell_file_kind
    from ..tables.formats import format_of

    if asked.methods:
        _show_methods(screen)
    elif (kind := cell_file_kind(list(asked.path))) is not None:
        screen.result(_show_fcs(asked.path, screen) if kind == "FCS" else _show_anndata(asked.path, asked.bag, screen))
    elif len(asked.path) == 1 and format_of(asked.path[0]) is None and Path(asked.path[0]).is_file():
        _show_model(asked.path[0], screen)
    else:
        _show_table(asked, screen)


# --------------------------------------------------------------------------------------------------------------
# Methods and models
# --------------------------------------------------------------------------------------------------------------


def _show_methods(screen: Screen) -> None:
    from .. import embeddings
    from ..kernels import comparisons

    methods = embeddings.available()
    divergences = comparisons.available()
    screen.line(f"Names for --embedding:\n{methods!r}\n\nNames for --divergence:\n{', '.join(divergences)}")
    found = [{"name": each.name, "estimates": each.estimates} for each in methods.values()]
    screen.result({"command": "info", "kind": "methods", "embeddings": found, "divergences": divergences})


def _show_model(path: str, screen: Screen) -> None:
    from ..files import info, load

    facts = info(path)
    loaded = load(path)
    model = learner_of(loaded)
    coverage = None if model is loaded else calibration_of(loaded)
    remembered: dict[str, Any] = getattr(model, "table_", {})
    settings = getattr(model, "best_params_", {})
    search = getattr(model, "search_", None)
    screen.line(str(facts))
    if remembered:
        needs = [remembered["bag"], *remembered["columns"]]
        needs += [remembered["weights"]] if remembered.get("weights") else []
        what = f"predicts {remembered['label']!r}" if "label" in remembered else "makes features"
        labels = remembered.get("categorical")
        of_labels = f"; labels are in {', '.join(labels)}" if labels else ""
        screen.line(f"{what} from a table with the columns {', '.join(needs)}{of_labels}")
    if settings:
        known = (f"{name} {value:g}" for name, value in settings.items() if value is not None)
        screen.line("settings: " + ", ".join(known))
    empty = getattr(model, "empty_", None)
    if empty is not None and empty.n_bags:
        screen.line(f"has learned from {empty.n_bags:,} empty bags; {empty_note(model)}")
    sizes = size_note(model)
    if sizes is not None:
        screen.line(sizes)
    if coverage is not None:
        what = "sets of classes hold" if hasattr(loaded, "predict_set") else "intervals hold"
        of = "" if coverage["n_groups"] is None else f" of {coverage['n_groups']:,} groups"
        screen.line(
            f"{what} the truth with probability {coverage['coverage']:g}; calibrated on {coverage['n_bags']:,} bags{of}"
        )
    board = getattr(model, "leaderboard_", None)
    if board is not None and not is_linear(model):
        screen.line()
        show_leaderboard(board, screen)
    if search is not None:
        what = "R² of indicators" if hasattr(model, "classes_") else "R²"
        screen.line(f"{what} on held-out bags of the search: {search.best.r2:.4f}")
    told = {name: getattr(facts, name) for name in ("model", "fitted", "parameters", "versions", "format", "n_bytes")}
    more = {"table": remembered or None, "settings": settings or None, "classes": getattr(model, "classes_", None)}
    more |= {"sizes": sizes, "n_empty": 0 if empty is None else empty.n_bags}
    more |= {"leaderboard": board, "scoring": getattr(model, "scoring_", None), "not_tried": getattr(board, "cut", [])}
    screen.result({"command": "info", "path": path, "kind": "model", **told, **more, "coverage": coverage})


# --------------------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------------------


def _show_table(asked: opt.Asked, screen: Screen) -> None:
    from ..tables.files import list_files, no_rows, read_pieces, read_schema
    from ..tables.formats import check_reading
    from ..tables.plan import bag_columns, check_column, kind_of_ids

    files = list_files(asked.path)
    how = check_reading("info", asked.delimiter, asked.decimal)
    bag = asked.bag
    if bag is not None:
        bag, how = bag_columns(files[0], bag, how)
    heads = [read_schema(file, how, bag) for file in files]
    first = heads[0]
    n_rows = 0
    columns = {name: _TableColumn(str(kind)) for name, kind in zip(first.names, first.types, strict=True)}
    sizes: Counter[Any] = Counter()
    known = None if any(head.rows is None for head in heads) else sum(head.rows or 0 for head in heads)
    for head in heads:
        for name in how.joined or ([] if bag is None else [bag]):
            check_column(head, "bag", name)
    if bag is not None:
        kind_of_ids(heads, bag, "auto")
    with screen.bar("reading", known, "rows") as bar:
        for head in heads:
            for name in columns:
                check_column(head, "columns", name)
            for batch in read_pieces(head.path, how, list(columns), {} if bag is None else {bag: "string"}):
                n_rows += batch.num_rows
                values = dict(zip(batch.schema.names, batch.columns, strict=True))
                for name, column in columns.items():
                    column.add(values[name])
                if bag is not None:
                    counts = values[bag].drop_null().value_counts().to_pylist()
                    sizes.update({pair["values"]: pair["counts"] for pair in counts})
                bar.advance(batch.num_rows)
    if not n_rows:
        raise no_rows(files)
    found: dict[str, Any] = {
        "command": "info",
        "kind": "table",
        "files": [str(file) for file in files],
        "n_rows": n_rows,
        "columns": {name: vars(column) for name, column in columns.items()},
    }
    rows = [(name, *column.cells()) for name, column in columns.items()]
    title = f"{files[0]}" + (f" and {len(files) - 1} more" if len(files) > 1 else "") + f": {n_rows:,} rows"
    screen.table(title, ("column", "type", "missing", "least", "greatest"), rows)
    if bag is None:
        screen.line("--bag COLUMN shows bags")
    else:
        found["bags"] = _show_bags(sizes, bag, screen)
    screen.result(found)


def _show_bags(sizes: Counter[Any], bag: str, screen: Screen) -> dict[str, Any]:
    """How many bags there are, and how many rows each has."""
    rows = sizes.values()
    some = [str(name) for name in list(sizes)[:5]]
    least = min(rows)
    middle = float(median(rows))
    greatest = max(rows)
    names = ", ".join([*some, "..."] if len(sizes) > len(some) else some)
    each = f"{least:,} to {greatest:,} rows each, median {middle:,.0f}"
    screen.line(f"{len(rows):,} bags by {bag!r}: {each}; {names}")
    numbers = {"rows_least": least, "rows_median": middle, "rows_greatest": greatest}
    return {"column": bag, "n_bags": len(rows), **numbers, "some": some}


class _TableColumn:
    """What is known of a column: its type, how many values are missing, and their range."""

    def __init__(self, kind: str) -> None:
        self.type = kind
        self.missing = 0
        self.least: Any = None
        self.greatest: Any = None

    def add(self, values: Any) -> None:
        """Look at some values."""
        import pyarrow as pa
        import pyarrow.compute as compute

        self.type = str(values.type)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_float16(values.type):
            values = values.cast(pa.float32())
        self.missing += compute.sum(values.is_null(nan_is_null=True)).as_py() or 0
        if pa.types.is_binary(values.type):
            return
        with suppress(pa.ArrowNotImplementedError):  # lists and structs have no order, and others none that is known
            if pa.types.is_duration(values.type):
                ends = compute.min_max(values.cast(pa.int64())).values()
                least, greatest = (end.cast(values.type).cast(pa.duration("us"), safe=False).as_py() for end in ends)
            else:  # NaN is not equal to itself
                least, greatest = compute.min_max(values.filter(compute.equal(values, values))).as_py().values()
            if least is not None:
                self.least = least if self.least is None else min(self.least, least)
                self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def cells(self) -> tuple[str, ...]:
        """For people."""
        return (_short(self.type), f"{self.missing:,}", _short(self.least), _short(self.greatest))


def _short(value: Any) -> str:
    if value is None:
        return "-"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else text[:21] + "..."


# --------------------------------------------------------------------------------------------------------------
# Files of AnnData and FCS
# --------------------------------------------------------------------------------------------------------------


def _show_anndata(paths: Sequence[str], bag: str | None, screen: Screen) -> dict[str, Any]:
    """Variables, columns of obs with their values, and keys of obsm."""
    import numpy as np

    from ..bags.anndata import contents
    from ..tables import TableError

    if len(paths) > 1:
        raise TableError(f"an .h5ad file must be the only table, got {len(paths)}; name one of them")
    path = paths[0]
    found = contents(paths[0])
    if bag is not None and bag not in found.obs:
        raise TableError(f"{path!r}: obs has no column {bag!r}; it has {', '.join(map(repr, found.obs))}")
    coded = {name: _codes(*column) for name, column in found.obs.items() if name != _INDEX or bag == _INDEX}
    columns = {name: _ObsColumn(*found.obs[name], *codes) for name, codes in coded.items()}
    if bag is not None:
        for name, facts in columns.items():
            facts.per_bag = _is_constant(coded[bag][0], coded[name][0])
    header = ("column of obs", "type", "missing", "values", *(["per bag"] if bag is not None else []))
    rows = [(name, *facts.cells()) for name, facts in columns.items()]
    screen.table(f"{path}: {found.n_points:,} points", header, rows)
    some = _few(found.variables, len(found.variables))
    screen.line(f"X has {len(found.variables):,} variables: {some}" if some else "there is no X; name a key by --rep")
    reps = ", ".join(f"{key} ({width} columns)" for key, width in found.reps.items())
    screen.line(f"obsm, for --rep: {reps}" if reps else "obsm is empty")
    told: dict[str, Any] = {"command": "info", "kind": "AnnData", "files": [path], "n_points": found.n_points}
    told |= {"variables": found.variables, "obs": {name: vars(facts) for name, facts in columns.items()}}
    told["obsm"] = found.reps
    if bag is None:
        screen.line("--bag COLUMN shows bags")
        return told
    codes, names = coded[bag]
    sizes = Counter(dict(zip(names, np.bincount(codes[codes != _NONE], minlength=len(names)).tolist(), strict=True)))
    return told | {"bags": _show_bags(sizes, bag, screen)}


class _ObsColumn:
    """What is known of a column of obs."""

    def __init__(self, values: Array, missing: Array, codes: Array, names: list[Any]) -> None:
        kind = "truth value" if values.dtype == bool else "number" if values.dtype.kind in "iuf" else "text"
        self.type = kind
        self.missing = len(missing)
        self.n_values = len(names)
        self.some = names[:_MOST_VALUES] if kind == "text" else names[:: max(1, len(names) - 1)]
        self.per_bag: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """For people."""
        if self.type == "text":
            shown = _few([str(name) for name in self.some], self.n_values)
        else:
            shown = " to ".join(f"{end:.6g}" for end in self.some) if self.some else "-"
        per_bag = () if self.per_bag is None else ("one" if self.per_bag else "several",)
        return (self.type, f"{self.missing:,}", f"{self.n_values:,}: {shown}", *per_bag)


def _codes(values: Array, missing: Array) -> tuple[Array, list[Any]]:
    """Positions of values among the distinct ones, sorted, and these; -1 for missing ones."""
    import numpy as np

    there = np.ones(len(values), bool)
    there[missing] = False
    known = values[there]
    names, codes = np.unique(known.astype(str) if known.dtype == object else known, return_inverse=True)
    found = np.full(len(values), _NONE)
    found[there] = codes
    return found, names.tolist()


def _is_constant(bags: Array, codes: Array) -> bool:
    """Whether a column has one value in each bag."""
    import numpy as np

    pairs = np.unique(np.stack([bags, codes]), axis=1)
    return bool(pairs.shape[1] == len(np.unique(bags)))


def _few(names: Sequence[str], n_names: int) -> str:
    """The first names, as many as fit, and whether there are more."""
    shown = list(names[:_MOST_VALUES])
    while len(shown) > 1 and len(", ".join(shown)) > _WIDTH:
        shown.pop()
    return ", ".join([*shown, *(["..."] if n_names > len(shown) else [])])


def _show_fcs(paths: Sequence[str], screen: Screen) -> dict[str, Any]:
    """Channels with their ranges, numbers of events, and tables in the same folder, which may have the labels."""
    from ..tables import open_bags
    from ..tables.formats import format_of

    table = open_bags(list(paths), bag="file")
    (bags,) = table.batches(max_points=None)
    ends = [{"least": each.min(), "greatest": each.max()} for each in bags.points.T]
    rows = [(name, *(f"{end:.6g}" for end in each.values())) for name, each in zip(table.columns, ends, strict=True)]
    title = f"{paths[0]}: {bags.n_bags:,} FCS files, {bags.n_points:,} points"
    screen.table(title, ("channel", "least", "greatest"), rows)
    sizes = dict(zip(bags.ids.tolist(), bags.sizes.tolist(), strict=True))
    told = {"command": "info", "kind": "FCS", "files": [str(path) for path in table.files], "n_points": bags.n_points}
    found = told | {"columns": dict(zip(table.columns, ends, strict=True))}
    found |= {"bags": _show_bags(Counter(sizes), "file", screen)}
    folders = [Path(path) for path in paths if Path(path).is_dir()]
    near = [str(file) for folder in folders for file in sorted(folder.iterdir()) if format_of(file)]
    if near:
        screen.line(f"tables in the same folder, perhaps of labels: {', '.join(near)}")
    return found | {"tables": near}
