"""``distembed explain``: which points made a prediction what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from . import options as opt
from .app import Screen
from .models import check_one_embedding, learner_of, load_model, table_of_model
from .results import check_outputs, free_name, put_table

if TYPE_CHECKING:
    from ..bags import Bags
    from ..tables import BagTable


@click.command(
    "explain", epilog=opt.example("distembed explain mass.distembed new.parquet --id A370 -o values.csv --plot map.png")
)
@click.argument("model", type=click.Path(path_type=str))
@opt.table
@opt.table_options("as when the model was fitted")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this bag; may be given again. [default: all bags]")
@click.option("--class", "name", metavar="CLASS", help="The class that is explained. [default: the second of two]")
@click.option("--top", type=click.IntRange(min=1), default=10, help="Points to show of one bag.")
@click.option("-o", "--output", metavar="FILE", help="Values of all points: CSV, Parquet, ... by its suffix.")
@click.option("--plot", metavar="FILE", help="Draw the map of the one bag to a PNG; of one or two coordinates.")
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Tell which points, and which places, make predictions what they are.

    The value of a point is the derivative of the prediction in its weight: mass at points of positive value raises the
    prediction, or the score of the class.
    """
    written = {"-o": asked.output, "--plot": asked.plot}
    check_outputs(written, {"MODEL": asked.model, "TABLE": asked.table}, table=True)
    if asked.plot is not None and len(asked.ids) != 1:
        raise click.UsageError("--plot draws one bag; name it by --id")
    from ..learners.explain import explain
    from .judging import new_figure, save_figure

    fitted = learner_of(load_model(asked.model))
    check_one_embedding(fitted, asked.model, "explain")
    points = table_of_model(fitted, asked.table, asked.options)
    bags = _read_some(points, asked.ids, screen) if asked.ids else opt.read_all(points, screen)
    with screen.bar("explaining", bags.n_bags):
        found = explain(fitted, bags, output=_class_of(fitted, asked.name))
    if asked.plot is not None:
        figure = new_figure(6.4, 5.0)
        found.plot(0, ax=figure.subplots())
        save_figure(figure, asked.plot)
    if asked.output is not None:
        frame = found.bags.to_frame("pyarrow", points.bag, free_name("weight", points.columns))
        columns = dict(zip(frame.column_names, frame.columns, strict=True))
        put_table(columns | {free_name("value", columns): found.points}, asked.output)
    best: list[dict[str, Any]] = []
    if bags.n_bags == 1:
        shown = found.top(0, asked.top)
        best = [dict(zip(shown.dtype.names or (), row, strict=True)) for row in shown.tolist()]
        rows = [[_cell(value) for value in row.values()] for row in best]
        screen.table(f"Bag {bags.ids[0]}: {found.predictions[0]:.4g}", list(best[0]), rows)
    else:
        screen.line(str(found))
    for path, what in ((asked.output, f"values of {bags.n_points:,} points"), (asked.plot, "the map")):
        if path is not None:
            screen.line(f"{path}: {what}")
    predictions = [{"bag": bag, "prediction": y} for bag, y in zip(bags.ids, found.predictions, strict=True)]
    files = {"output": asked.output, "plot": asked.plot}
    screen.result({"command": "explain", **files, "class": found.output, "predictions": predictions, "top": best})


def _read_some(table: BagTable, wanted: Sequence[str], screen: Screen) -> Bags:
    """The bags of some ids, as they are written in the shell, in the order of the table."""
    import numpy as np

    from ..bags import concat
    from ..tables import TableError

    left, parts = set(wanted), []
    with opt.counted_batches(table, screen, "looking for bags") as batches:
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
            f"{table}, column {table.bag!r}: no bag has the id {sorted(left)[0]!r}; 'distembed info' with --bag shows "
            "some that it has"
        )
    return parts[0] if len(parts) == 1 else concat(parts)


def _class_of(model: Any, name: str | None) -> Any:
    """The class as the model has it."""
    if name is None:
        return None
    if not hasattr(model, "classes_"):
        raise click.UsageError("--class is of classes, and this model predicts numbers; leave it out")
    classes = {str(each): each for each in model.classes_}
    if name not in classes:
        raise click.UsageError(f"--class {name!r} is none of the model's: {', '.join(classes)}; choose one of these")
    return classes[name]


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
