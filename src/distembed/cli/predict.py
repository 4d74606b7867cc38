"""``distembed predict``: labels of new bags."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from . import options as opt
from .app import Screen
from .models import check_one_embedding, learner_of, load_model, table_of_model
from .results import check_outputs, free_name, open_writer


@click.command("predict", epilog=opt.example("distembed predict mass.distembed new.parquet -o predictions.csv"))
@click.argument("model", type=click.Path(path_type=str))
@opt.table
@opt.table_options("as when the model was fitted")
@opt.covariates_from("TABLE itself", "--labels")
@opt.column(
    "--labels-bag", of=("covariates_from",), help="Its column of bag ids. [default: as when the model was fitted]"
)
@opt.labels_signs
@click.option("--std", is_flag=True, help="Add the predictive standard deviation of numbers.")
@opt.output
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Predict the labels of the bags of a table.

    A model that was fitted with --covariates looks for them, by their names, in --covariates-from, or in TABLE itself.

    The result has the bag's id, prediction and, of classes, their probabilities where the model has any. A model that
    was fitted with --coverage adds the ends of intervals, low and high, or the set of classes: a list in Parquet and
    Feather, else names joined by "|". The table is read in batches, in bounded memory.
    """
    read = {"MODEL": asked.model, "TABLE": asked.table, "--covariates-from": asked.covariates_from}
    check_outputs({"-o": asked.output}, read, table=True)
    import numpy as np

    from ..tables.files import format_of

    lists = screen.as_json if asked.output in (None, "-") else format_of(str(asked.output)) in ("Parquet", "Feather")
    fitted = load_model(asked.model)
    if not hasattr(fitted, "predict"):
        raise click.UsageError(
            f"{asked.model!r} holds {type(fitted).__name__}, which predicts nothing; try 'distembed embed'"
        )
    if asked.std and hasattr(fitted, "classes_"):
        raise click.UsageError("--std is of numbers, and this model predicts classes; leave it out")
    if asked.std:
        check_one_embedding(learner_of(fitted), asked.model, "--std")
    points = table_of_model(fitted, asked.table, asked.options)
    learner = learner_of(fitted)
    beside = None
    if asked.covariates_from is not None or getattr(learner, "encoder_", None) is not None:
        from .covariates import covariates_of_model

        beside = covariates_of_model(learner, asked, points)
    pieces: list[dict[str, Any]] = []
    n_bags, names = 0, dict[str, str]()
    with _writer(asked.output, screen) as writer, opt.counted_batches(points, screen, "predicting") as batches:
        for bags in batches:
            given = {} if beside is None else {"covariates": beside.of(bags.ids)}
            found = {"": bags.ids, **_predictions(fitted, bags, asked.std, lists, given)}
            names = names or {name: free_name(name, {points.bag}) if name else points.bag for name in found}
            pieces.append({names[name]: values for name, values in found.items()})
            n_bags += bags.n_bags
            if writer is not None and "set" not in found:  # the first sets might not tell the type of all
                writer.add(pieces.pop())
        columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in names.values() if pieces}
        if writer is not None and pieces:
            writer.add(columns)
    if writer is None:
        screen.result({"command": "predict", "n_bags": n_bags, "columns": columns})
    elif asked.output is not None:
        screen.line(f"{asked.output}: predictions for {n_bags:,} bags", detail=True)
        screen.result({"command": "predict", "output": asked.output, "n_bags": n_bags, "names": [*names.values()]})


def _writer(output: str | None, screen: Screen) -> Any:
    """Where predictions go, piece by piece; None where they are part of an answer in JSON."""
    return nullcontext() if output is None and screen.as_json else open_writer(output)


def _predictions(model: Any, bags: Any, std: bool, lists: bool, given: dict[str, Any]) -> dict[str, Any]:
    """Columns of predictions, by name; ``given`` has the covariates, if there are any."""
    import numpy as np

    learner = learner_of(model)
    if hasattr(learner, "predict_proba"):
        shares = np.asarray(learner.predict_proba(bags, **given))
        columns = {"prediction": np.asarray(learner.classes_)[shares.argmax(axis=1)]}
        columns |= {f"probability_{name}": shares[:, j] for j, name in enumerate(learner.classes_)}
    elif std:
        predicted, deviation = learner.predict(bags, return_std=True)
        columns = _numbered("prediction", predicted) | _numbered("std", deviation)
    else:
        columns = _numbered("prediction", learner.predict(bags, **given))
    if hasattr(model, "predict_interval"):
        ends = model.predict_interval(bags)
        columns |= _numbered("low", ends[..., 0]) | _numbered("high", ends[..., 1])
    if hasattr(model, "predict_set"):
        columns["set"] = _named(model.predict_set(bags), model.classes_, lists)
    return columns


def _named(sets: Any, classes: Any, lists: bool) -> Any:
    """Sets of classes as lists, or as their names joined by |."""
    import numpy as np

    found = np.empty(len(sets), object)
    if lists:
        for i, row in enumerate(sets):
            found[i] = classes[row].tolist()
        return found
    names = np.array([str(name) for name in classes])
    if any("|" in name for name in names):
        raise click.UsageError("names of classes have a |, which stands between them in a set; write .parquet instead")
    return np.array(["|".join(names[row]) for row in sets])


def _numbered(name: str, values: Any) -> dict[str, Any]:
    return {name: values} if values.ndim == 1 else {f"{name}_{j}": column for j, column in enumerate(values.T)}
