"""``distembed predict``: labels of new bags."""

from __future__ import annotations

from typing import Any

import click

from ._options import (
    TableOptions,
    check_writable,
    common,
    example,
    jobs_option,
    output_option,
    table_argument,
    table_options,
)
from ._screen import Screen

__all__ = ["command"]


@click.command("predict", epilog=example("distembed predict mass.distembed new.parquet -o predictions.csv"))
@click.argument("model", type=click.Path(path_type=str))
@table_argument
@table_options("as when the model was fitted")
@click.option("--std", is_flag=True, help="Add the predictive standard deviation of numbers.")
@output_option
@jobs_option
@common
def command(
    screen: Screen, model: str, table: tuple[str, ...], options: TableOptions, std: bool, output: str | None
) -> None:
    """Predict the labels of the bags of a table.

    The result has the bag's id, prediction and, of classes, their probabilities where the model has any. The table is
    read in batches, in bounded memory.
    """
    check_writable(output)
    from ._inputs import load_model, predicting, table_of_model
    from ._outputs import check_table_path, free_name, put_table

    check_table_path(output)
    fitted = load_model(model)
    if not hasattr(fitted, "predict"):
        raise click.UsageError(
            f"{model!r} holds {type(fitted).__name__}, which predicts nothing; try 'distembed embed'"
        )
    if std and hasattr(fitted, "classes_"):
        raise click.UsageError("--std is of numbers, and this model predicts classes; leave it out")
    points = table_of_model(fitted, table, options)
    pieces: list[dict[str, Any]] = []
    with predicting(points, screen, "predicting") as batches:
        pieces.extend({"": bags.ids, **_predictions(fitted, bags, std)} for bags in batches)
    import numpy as np

    names = {name: free_name(name, {points.bag}) if name else points.bag for name in pieces[0]}
    columns = {names[name]: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    n_bags = len(columns[points.bag])
    if output is None and screen.as_json:
        screen.result({"command": "predict", "n_bags": n_bags, "columns": columns})
        return
    put_table(columns, output)
    if output is not None:
        screen.line(f"{output}: predictions for {n_bags:,} bags")
        screen.result({"command": "predict", "output": output, "n_bags": n_bags, "names": list(columns)})


def _predictions(model: Any, bags: Any, std: bool) -> dict[str, Any]:
    """Columns of predictions, by name."""
    import numpy as np

    if hasattr(model, "predict_proba"):
        shares = np.asarray(model.predict_proba(bags))
        columns = {"prediction": np.asarray(model.classes_)[shares.argmax(axis=1)]}
        return columns | {f"probability_{name}": shares[:, j] for j, name in enumerate(model.classes_)}
    if std:
        predicted, deviation = model.predict(bags, return_std=True)
        return _numbered("prediction", predicted) | _numbered("std", deviation)
    return _numbered("prediction", model.predict(bags))


def _numbered(name: str, values: Any) -> dict[str, Any]:
    return {name: values} if values.ndim == 1 else {f"{name}_{j}": column for j, column in enumerate(values.T)}
