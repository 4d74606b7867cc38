"""``distembed explain``: which points made a prediction what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
@click.option("--class", "name", metavar="CLASS", help="The class that is explained. [default: the one predicted]")
@click.option("--top", type=click.IntRange(min=1), default=10, help="Points to show of one bag.")
@click.option("-o", "--output", metavar="FILE", help="Values of all points: CSV, Parquet, ... by its suffix.")
@opt.spreadsheet_safe
@click.option("--plot", metavar="FILE", help="Draw the map of the one bag to a PNG.")
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Tell which points, and which places, make predictions what they are.

    The value of a point is the derivative of the prediction in its weight: mass at points of positive value raises the
    prediction, or the score of the class: the decision function, which is largest for the predicted class. Each bag is
    explained for the class that is predicted for it, unless --class names one.
    """
    written = {"-o": asked.output, "--plot": asked.plot}
    check_outputs(written, {"MODEL": asked.model, "TABLE": asked.table}, table=True)
    if asked.plot is not None and len(asked.ids) != 1:
        raise click.UsageError("--plot draws one bag; name it by --id")
    import numpy as np

    from ..bags.ids import id_text, plain_ids

    fitted = learner_of(load_model(asked.model))
    check_one_embedding(fitted, asked.model, "explain")
    name = _class_of(fitted, asked.name)
    _check_densities(fitted, asked.model)
    points = table_of_model(fitted, asked.table, asked.options)
    bags = _read_some(points, asked.ids, screen) if asked.ids else opt.read_all(points, screen)
    with screen.bar("explaining", bags.n_bags):
        parts = _explain(fitted, bags, name)
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
    if asked.output is not None:
        values = np.empty(bags.n_points)
        owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
        for where, part in parts:
            values[np.isin(owner, where)] = part.points
        frame = bags.to_frame("pyarrow", points.bag, free_name("weight", points.columns))
        columns = dict(zip(frame.column_names, frame.columns, strict=True))
        columns |= {free_name("value", columns): values}
        columns |= {free_name("class", columns): classes[owner]} if hasattr(fitted, "classes_") else {}
        put_table(columns, asked)
    best: list[dict[str, Any]] = []
    if bags.n_bags == 1:
        shown = found.top(0, asked.top)
        best = [dict(zip(shown.dtype.names or (), row, strict=True)) for row in shown.tolist()]
        cells = [[_cell(value) for value in row.values()] for row in best]
        screen.table(f"Bag {id_text(bags.ids, 0)}: {found.what} {scores[0]:.4g}", list(best[0]), cells)
    else:
        screen.line("\n\n".join(str(part) for _, part in parts))
    for path, what in ((asked.output, f"values of {bags.n_points:,} points"), (asked.plot, "the map")):
        if path is not None:
            screen.line(f"{path}: {what}", detail=True)
    each = zip(plain_ids(bags.ids), classes, scores, strict=True)
    predictions = [{"bag": bag, "class": name, "prediction": score} for bag, name, score in each]
    only = classes[0] if len(parts) == 1 else None
    files = {"output": asked.output, "plot": asked.plot}
    screen.result({"command": "explain", **files, "class": only, "predictions": predictions, "top": best})


def _check_densities(model: Any, path: str) -> None:
    """Refuse a learner whose embedding is not one of densities."""
    from ..embeddings import HDDEmbedding, L2Embedding

    embedding = getattr(model, "embedding_", None)
    if embedding is not None and not isinstance(embedding, HDDEmbedding | L2Embedding):
        raise click.UsageError(
            f"{path!r} is a model of {type(embedding).__name__}, and explain needs one of densities; fit up to "
            "three columns with --embedding js, hellinger, tv, chi2 or l2"
        )


def _explain(model: Any, bags: Bags, name: Any) -> list[tuple[Any, Any]]:
    """Explanations of bags, and their places: one of all, or one of the bags of each class that is predicted."""
    import numpy as np

    from ..learners.explain import explain

    everything = np.arange(bags.n_bags)
    if not hasattr(model, "classes_"):
        label = getattr(model, "table_", {}).get("label")
        found = explain(model, bags)
        return [(everything, found if label is None else replace(found, what=f"predicted {label}"))]
    if name is not None:
        return [(everything, explain(model, bags, output=name))]
    predicted = model.predict(bags)
    places = [(each, np.flatnonzero(predicted == each)) for each in model.classes_]
    return [(where, explain(model, bags[where], output=each)) for each, where in places if len(where)]


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
