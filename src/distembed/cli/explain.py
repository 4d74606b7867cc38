"""``distembed explain``: why predictions are what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from . import options as opt
from .app import Screen
from .models import learner_of, load_model, table_of_model
from .results import check_outputs, free_name, is_h5ad, put_table

if TYPE_CHECKING:
    from ..bags import Bags
    from ..tables import BagTable


@click.command(
    "explain", epilog=opt.example("distembed explain mass.distembed new.parquet --id A370 -o values.csv --plot why.png")
)
@click.argument("model", type=click.Path(path_type=str))
@opt.table
@opt.table_options("as when the model was fitted")
@opt.covariates_from("TABLE itself", "--labels")
@opt.column(
    "--labels-bag", of=("covariates_from",), help="Its column of bag ids. [default: as when the model was fitted]"
)
@opt.labels_signs
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this bag; may be given again. [default: all bags]")
@click.option("--class", "name", metavar="CLASS", help="The class to explain. [default: the one predicted]")
@click.option("--top", type=click.IntRange(min=1), default=10, help="Number of points to show for one bag.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the values of all points: CSV, Parquet, ...; or .h5ad, TABLE with the values in obs.",
)
@click.option("--contributions", metavar="FILE", help="Write contributions of columns, one row per bag.")
@opt.spreadsheet_safe
@click.option("--plot", metavar="FILE", help="Draw the explanation of the one bag to a PNG.")
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Explain predictions by columns, points and regions.

    Columns: the contribution of each column and covariate, with all others taken from training bags. Contributions add
    up to the prediction minus its mean over the training bags. Points: the change of the prediction with the weight of
    each point. Regions: rules on columns, and how much the points there matter. For classes, the probability of the
    class predicted for each bag is explained, unless --class names one.
    """
    written = {"-o": asked.output, "--contributions": asked.contributions, "--plot": asked.plot}
    read = {"MODEL": asked.model, "TABLE": asked.table, "--covariates-from": asked.covariates_from}
    check_outputs(written, read, table=True, h5ad=True)
    if is_h5ad(asked.output) and (len(asked.table) != 1 or not is_h5ad(asked.table[0])):
        raise click.UsageError(
            f"-o {asked.output!r}: cells of TABLE are written, which is not an .h5ad file; name a CSV file"
        )
    if asked.plot is not None and len(asked.ids) != 1:
        raise click.UsageError("--plot draws one bag; name it by --id")
    import numpy as np

    from ..bags.ids import id_text, plain_ids

    fitted = learner_of(load_model(asked.model))
    if not hasattr(fitted, "explain") and not hasattr(fitted, "steps"):
        raise click.UsageError(
            f"{asked.model!r} holds {type(fitted).__name__}, which predicts nothing to explain; give a learner's file"
        )
    name = _class_of(fitted, asked.name)
    points = table_of_model(fitted, asked.table, asked.options)
    covariates = None
    if asked.covariates_from is not None or getattr(fitted, "encoder_", None) is not None:
        from .covariates import covariates_of_model

        covariates = covariates_of_model(fitted, asked, points)
    bags = _read_some(points, asked.ids, screen) if asked.ids else opt.read_all(points, screen)
    with screen.bar("explaining", bags.n_bags) as bar:
        parts = _explain(fitted, bags, name, covariates, bar)
    rows = np.argsort(np.concatenate([where for where, _ in parts]))
    classes, scores = (
        np.concatenate(each)[rows]
        for each in zip(*((np.full(len(where), part.output), part.predictions) for where, part in parts), strict=True)
    )
    found = parts[0][1]
    if asked.plot is not None:
        from ..plot.drawing import without_windows
        from .results import save_figure

        with without_windows():
            ax = found.plot(0)
        save_figure(ax.figure, asked.plot)
    if is_h5ad(asked.output):
        _write_cells(asked.table[0], points.bag, parts, asked.output)
    elif asked.output is not None:
        values = np.empty(bags.n_points)
        owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
        for where, part in parts:
            values[np.isin(owner, where)] = part.points
        frame = bags.to_frame("pyarrow", points.bag, free_name("weight", points.columns))
        columns = dict(zip(frame.column_names, frame.columns, strict=True))
        columns |= {free_name("value", columns): values}
        columns |= {free_name("class", columns): classes[owner]} if hasattr(fitted, "classes_") else {}
        put_table(columns, asked)
    by_column = _join_columns(parts, rows)
    if asked.contributions is not None:
        table: dict[str, Any] = {points.bag: bags.ids}
        table |= {free_name("class", table): classes} if hasattr(fitted, "classes_") else {}
        for each, values in by_column.items():
            table[free_name(each, table)] = values
        put_table(table, opt.Asked(**(vars(asked) | {"output": asked.contributions})))
    best: list[dict[str, Any]] = []
    if bags.n_bags == 1:
        shown = found.top(0, asked.top)
        best = [dict(zip(shown.dtype.names or (), row, strict=True)) for row in shown.tolist()]
        screen.line(f"B{found.bag_table(0)[1:]}\n")
        cells = [[_cell(value) for value in row.values()] for row in best]
        screen.table(f"Points of bag {id_text(bags.ids, 0)} that change it most", list(best[0]), cells)
    else:
        screen.line("\n\n".join(str(part) for _, part in parts))
    what = {
        asked.output: f"values of {bags.n_points:,} points",
        asked.contributions: f"contributions of {len(found.column_names)} columns to {bags.n_bags:,} predictions",
        asked.plot: "the picture",
    }
    for path, text in what.items():
        if path is not None:
            screen.line(f"{path}: {text}", detail=True)
    of_bags = [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]
    regions = {int(i): part.regions[k] for where, part in parts for k, i in enumerate(where)}
    whole = zip(plain_ids(bags.ids), classes, scores, of_bags, strict=True)
    predictions = [
        {
            "bag": bag, "class": label, "prediction": score, "reference": own.pop("reference"),
            "contributions": {key: value for key, value in own.items() if key != "prediction"},
            "regions": [region._asdict() for region in regions[i]],
        }
        for i, (bag, label, score, own) in enumerate(whole)
    ]  # fmt: skip
    only = classes[0] if len(parts) == 1 else None
    files = {"output": asked.output, "contributions": asked.contributions, "plot": asked.plot}
    screen.result({"command": "explain", **files, "class": only, "predictions": predictions, "top": best})


def _write_cells(source: str, bag: str, parts: Any, path: str) -> None:
    """Write the cells of an .h5ad file again, with their values and the names of their regions in obs."""
    import anndata
    import pandas as pd

    from ..single_cells import cells_to_obs, write_h5ad

    cells = anndata.read_h5ad(source)
    found: list[Any] = []
    for _, part in parts:
        cells_to_obs(cells, part, bag)
        found.append(cells.obs[["effect", "effect_region"]].astype({"effect_region": object}))
    for name in ("effect", "effect_region"):
        column = found[0][name]
        for other in found[1:]:
            column = column.where(column.notna(), other[name])
        cells.obs[name] = pd.Categorical(column) if column.dtype == object else column
    write_h5ad(cells, path)


def _join_columns(parts: Any, rows: Any) -> dict[str, Any]:
    """Predictions, references and contributions by name, in the order of the bags."""
    import numpy as np

    names = ["prediction", "reference"]
    for name in parts[0][1].column_names:
        names.append(free_name(name, names))
    found = []
    for where, part in parts:
        references = [part.reference_of(i) for i in range(len(where))]
        found.append(np.column_stack([part.predictions, references, part.contributions]))
    return dict(zip(names, np.concatenate(found)[rows].T, strict=True))


def _explain(model: Any, bags: Bags, name: Any, covariates: Any, progress: Any) -> list[tuple[Any, Any]]:
    """Explanations of bags, and their places: one of all, or one of the bags of each class that is predicted."""
    import numpy as np

    from ..learners.explain import explain

    def of(some: Any, output: Any = None) -> Any:
        given = None if covariates is None else covariates.of(bags.ids[some])
        return explain(model, bags[some], output=output, random_state=0, covariates=given, progress=progress)

    everything = np.arange(bags.n_bags)
    if not hasattr(model, "classes_"):
        label = getattr(model, "table_", {}).get("label")
        found = of(everything)
        return [(everything, found if label is None else replace(found, what=f"predicted {label}"))]
    if name is not None:
        return [(everything, of(everything, name))]
    given = {} if covariates is None else {"covariates": covariates.of(bags.ids)}
    predicted = model.predict(bags, **given)
    places = [(each, np.flatnonzero(predicted == each)) for each in model.classes_]
    return [(where, of(where, each)) for each, where in places if len(where)]


def _read_some(table: BagTable, wanted: Sequence[str], screen: Screen) -> Bags:
    """The bags of some ids, as they are written in the shell, in the order of the table."""
    import numpy as np

    from ..bags import concat
    from ..bags.ids import canonical_text
    from ..tables import TableError

    asked = dict(zip(canonical_text(list(wanted)).tolist(), wanted, strict=True))
    parts = []
    with opt.counted_batches(table, screen, "looking for bags") as batches:
        for bags in batches:
            names = canonical_text(bags.ids)
            here = np.isin(names, list(asked))
            if here.any():
                parts.append(bags[here])
                for name in names[here].tolist():
                    del asked[name]
            if not asked:
                break
    if asked:
        raise TableError(
            f"{table}, column {table.bag!r}: no bag has the id {min(asked.values())!r}; 'distembed info' with "
            "--bag shows some that it has"
        )
    return parts[0] if len(parts) == 1 else concat(parts)


def _class_of(model: Any, name: str | None) -> Any:
    """The class as the model has it."""
    if name is None:
        return None
    if not hasattr(model, "classes_"):
        raise click.UsageError("--class applies to classes, and this model predicts numbers; leave it out")
    from ..learners.classes import class_names, one_class

    found = one_class(name, model.classes_)
    if found is None:
        known = ", ".join(class_names(model.classes_))
        raise click.UsageError(f"--class {name!r} is none of the model's: {known}; choose one of these")
    return found


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
