"""``distembed evaluate``: how good predictions are."""

from __future__ import annotations

from typing import Any

import click

from ._options import TableOptions, check_writable, common, example, join_options, label_options
from ._screen import Screen

__all__ = ["command"]

_MOST_SHOWN = 12  # classes in the matrix on the screen


@click.command("evaluate", epilog=example("distembed evaluate predictions.csv --labels masses.csv --label mass"))
@click.argument("predictions", type=click.Path(path_type=str))
@label_options
@click.option("--bag", metavar="COLUMN", help="Column of bag ids in PREDICTIONS. [default: its first column]")
@click.option("--prediction", default="prediction", show_default=True, metavar="COLUMN", help="Column of predictions.")
@click.option("--classify/--regress", default=None, help="Labels are classes, or numbers. [default: text is classes]")
@join_options("ignore")
@click.option("--bag-type", type=click.Choice(["auto", "integer", "text"]), default="auto", help="What ids are.")
@click.option("--delimiter", metavar="SIGN", help="What stands between values in CSV. [default: a comma]")
@click.option("--plot", metavar="FILE", help="Draw predicted against true, or the confusion matrix, to a PNG.")
@common
def command(
    screen: Screen,
    predictions: str,
    labels: str,
    label: str,
    labels_bag: str | None,
    bag: str | None,
    prediction: str,
    classify: bool | None,
    missing: str,
    unknown: str,
    bag_type: str,
    delimiter: str | None,
    plot: str | None,
) -> None:
    """Compare predictions with labels, bag by bag.

    Numbers: RMSE, MAE and R². Classes: accuracy, the confusion matrix and, where there are probabilities, log-loss. Of
    predictions with intervals (columns low and high) or sets of classes (column set): the share that holds the truth,
    and the mean width or size. Standard errors are by the bootstrap over bags.
    """
    check_writable(plot, "--plot")
    import numpy as np

    from ..tables import read_labels
    from ..tables.files import list_files
    from ..tables.readers import describe
    from ._inputs import matching_ids, open_labels
    from ._scores import confusion, of_classes, of_numbers

    names = describe(list_files(predictions)[0], delimiter, None).names
    bag = bag or names[0]
    how: dict[str, Any] = {"bag_type": bag_type, "delimiter": delimiter}
    if prediction not in names:
        raise click.UsageError(
            f"{predictions!r} has no column {prediction!r}; name the column of predictions by --prediction"
        )
    made = read_labels(predictions, bag=bag, label=prediction, **how)
    options = TableOptions(bag, None, None, bag_type, delimiter, "1GB", None)
    known = open_labels(labels, labels_bag or bag, label, options)
    joined = matching_ids(made.ids, known, repr(predictions), missing, unknown)
    truth, predicted = joined.labels, made.labels[joined.kept]
    if len(joined.unknown) and unknown == "ignore":
        screen.note(f"{len(joined.unknown):,} labels have no prediction, and do not count")
    if classify is None:
        classify = truth.dtype.kind not in "iuf" or any(name.startswith("probability_") for name in names)
    found: dict[str, Any] = {"command": "evaluate", "n_bags": len(truth)}
    if classify:
        truth, predicted = _alike(truth, predicted)
        columns = [name for name in names if name.startswith("probability_")]
        shares = classes = None
        if columns:
            shares = np.stack([read_labels(predictions, bag=bag, label=name, **how).labels for name in columns], axis=1)
            shares = shares[joined.kept].astype(float)
            classes = np.array([name.removeprefix("probability_") for name in columns])
        scores = of_classes(truth.astype(str), predicted.astype(str), classes, shares)
        if "set" in names and bag != "set":
            scores |= _of_sets(truth.astype(str), _read_sets(predictions, delimiter)[joined.kept])
        matrix = confusion(truth, predicted)
        found |= {"kind": "classification", "confusion": {"classes": matrix[0], "counts": matrix[1]}}
    else:
        for name, values in ((label, truth), (prediction, predicted)):
            if values.dtype.kind not in "iufb":
                raise click.UsageError(f"column {name!r} holds text, not numbers; use --classify, or name another")
        scores = of_numbers(truth.astype(float), predicted.astype(float))
        if {"low", "high"} <= set(names) - {bag}:
            ends = [
                read_labels(predictions, bag=bag, label=name, **how).labels[joined.kept] for name in ("low", "high")
            ]
            if all(values.dtype.kind in "iuf" for values in ends):
                scores |= _of_intervals(truth.astype(float), *ends)
        matrix = None
        found |= {"kind": "regression"}
    found["scores"] = {name: score._asdict() for name, score in scores.items()}
    from .fit import _names

    rows = [(_names(name), str(score)) for name, score in scores.items()]
    screen.table(f"{label}, {len(truth):,} bags", ("score", "value"), rows)
    if matrix is not None and len(matrix[0]) <= _MOST_SHOWN:
        counts = [(str(name), *(f"{n:,}" for n in row)) for name, row in zip(*matrix, strict=True)]
        screen.table("Confusion matrix", ("true \\ predicted", *map(str, matrix[0])), counts)
    if plot is not None:
        from ._outputs import save_figure
        from ._pictures import draw_confusion, draw_numbers

        title = f"{len(truth):,} bags\n" + ", ".join(f"{name} {score}" for name, score in rows)
        figure = draw_numbers(truth, predicted, label, title) if matrix is None else draw_confusion(*matrix, title)
        save_figure(figure, plot)
        found["plot"] = plot
    screen.result(found)


def _of_intervals(truth: Any, low: Any, high: Any) -> dict[str, Any]:
    """Share of intervals that hold the truth, and their mean width."""
    return {"coverage": _mean((low <= truth) & (truth <= high)), "width": _mean(high - low)}


def _of_sets(truth: Any, sets: Any) -> dict[str, Any]:
    """Share of sets that hold the truth, and their mean number of classes."""
    held = [name in members for name, members in zip(truth.tolist(), sets, strict=True)]
    return {"coverage": _mean(held), "set_size": _mean([len(members) for members in sets])}


def _mean(values: Any) -> Any:
    """A mean and its standard error; that of the bootstrap, of infinitely many draws."""
    import numpy as np

    from ._scores import Score

    numbers = np.asarray(values, float)
    enough = len(numbers) > 1 and bool(np.all(np.isfinite(numbers)))
    return Score(float(numbers.mean()), float(numbers.std() / np.sqrt(len(numbers))) if enough else float("nan"))


def _read_sets(path: str, delimiter: str | None) -> Any:
    """Sets of classes, each a list of names, in the order of the table."""
    import numpy as np

    from ..tables.files import list_files
    from ..tables.packages import arrow
    from ..tables.readers import read_pieces

    sets: list[list[str]] = []
    for file in list_files(path):
        for batch in read_pieces(file, delimiter, ["set"], {"set": arrow().string()}):
            for members in batch.column(0).to_pylist():
                parts = members.split("|") if isinstance(members, str) else members or []
                sets.append([str(name) for name in parts if name != ""])
    found = np.empty(len(sets), object)
    found[:] = sets
    return found


def _alike(truth: Any, predicted: Any) -> tuple[Any, Any]:
    """Both as text if they are of different kinds."""
    kinds = {truth.dtype.kind, predicted.dtype.kind}
    if len(kinds) == 1 or kinds <= set("iuf"):
        return truth, predicted
    return truth.astype(str), predicted.astype(str)
