"""``distembed explain``: which points made a prediction what it is."""

from __future__ import annotations

from typing import Any

import click

from ._options import TableOptions, check_writable, common, example, jobs_option, table_argument, table_options
from ._screen import Screen

__all__ = ["command"]


@click.command(
    "explain", epilog=example("distembed explain mass.distembed new.parquet --id A370 -o values.csv --plot map.png")
)
@click.argument("model", type=click.Path(path_type=str))
@table_argument
@table_options("as when the model was fitted")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this bag; may be given again. [default: all bags]")
@click.option("--class", "name", metavar="CLASS", help="The class that is explained. [default: the second of two]")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Points to show of one bag.")
@click.option("-o", "--output", metavar="FILE", help="Values of all points: CSV, Parquet, ... by its suffix.")
@click.option("--plot", metavar="FILE", help="Draw the map of the one bag to a PNG; of one or two coordinates.")
@jobs_option
@common
def command(
    screen: Screen,
    model: str,
    table: tuple[str, ...],
    options: TableOptions,
    ids: tuple[str, ...],
    name: str | None,
    top: int,
    output: str | None,
    plot: str | None,
) -> None:
    """Tell which points, and which places, make predictions what they are.

    The value of a point is the derivative of the prediction in its weight: mass at points of positive value raises the
    prediction, or the score of the class.
    """
    check_writable(output)
    check_writable(plot, "--plot")
    if plot is not None and len(ids) != 1:
        raise click.UsageError("--plot draws one bag; name it by --id")
    from ..learners.explain import explain
    from ._inputs import learner_of, load_model, read_some, table_of_model
    from ._outputs import check_table_path, put_table, save_figure

    check_table_path(output)
    fitted = learner_of(load_model(model))
    points = table_of_model(fitted, table, options)
    bags = read_some(points, ids, screen)
    with screen.bar("explaining", bags.n_bags):
        found = explain(fitted, bags, output=_class_of(fitted, name))
    if plot is not None:
        from ._pictures import new_figure

        figure = new_figure(6.4, 5.0)
        found.plot(0, ax=figure.subplots())
        save_figure(figure, plot)
    if output is not None:
        put_table(_values(found, points.bag), output)
    best: list[dict[str, Any]] = []
    if bags.n_bags == 1:
        shown = found.top(0, top)
        best = [dict(zip(shown.dtype.names or (), row, strict=True)) for row in shown.tolist()]
        rows = [[_cell(value) for value in row.values()] for row in best]
        screen.table(f"Bag {bags.ids[0]}: {found.predictions[0]:.4g}", list(best[0]), rows)
    else:
        screen.line(str(found))
    for path, what in ((output, f"values of {bags.n_points:,} points"), (plot, "the map")):
        if path is not None:
            screen.line(f"{path}: {what}")
    pairs = zip(bags.ids, found.predictions, strict=True)
    screen.result(
        {
            "command": "explain",
            "output": output,
            "plot": plot,
            "class": found.output,
            "predictions": [{"bag": bag, "prediction": value} for bag, value in pairs],
            "top": best,
        }
    )


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


def _values(found: Any, bag: str) -> dict[str, Any]:
    """One row a point: bag, coordinates, weight where there is one, value."""
    import numpy as np

    from ._outputs import free_name

    bags = found.bags
    names = bags.columns or [f"x{j}" for j in range(bags.n_dims)]
    columns: dict[str, Any] = {bag: np.repeat(bags.ids, bags.sizes)}
    for j, name in enumerate(names):
        columns[free_name(name, columns)] = bags.points[:, j]
    if bags.weights is not None:
        columns[free_name("weight", columns)] = bags.weights
    columns[free_name("value", columns)] = found.points
    return columns


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
