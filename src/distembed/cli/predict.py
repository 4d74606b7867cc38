"""``distembed predict``: labels of new bags."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from . import by_cluster
from . import options as opt
from .app import Screen
from .models import learner_of, load_model, table_of_model
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
@click.option("--std", is_flag=True, help="Add the standard deviation of numbers around their predictions.")
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Add intervals, or sets of classes, that hold the truth with this probability.",
)
@opt.output
@by_cluster.workers
@by_cluster.scheduler
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Predict the labels of the bags of a table.

    A model that was fitted with --covariates looks for them, by their names, in --covariates-from, or in TABLE itself.

    The result has the bag's id, prediction and, of classes, their probabilities where the model has any. With
    --coverage it has the ends of intervals, low and high, or the set of classes: a list in Parquet and Feather, else
    names joined by "|". A model that was fitted with --coverage adds its own. The table is read in batches, in bounded
    memory. With --workers or --scheduler, -o is a folder, and each part of the table a Parquet file in it.
    """
    read = {"MODEL": asked.model, "TABLE": asked.table, "--covariates-from": asked.covariates_from}
    clustered = by_cluster.wants_cluster(asked)
    if clustered:
        by_cluster.check_folder(asked)
    else:
        check_outputs({"-o": asked.output}, read, table=True)
    import numpy as np

    from ..learners.prediction_table import columns_of
    from ..tables.formats import format_of

    written = None if asked.output in (None, "-") else format_of(str(asked.output))
    lists = screen.as_json if asked.output in (None, "-") else written is not None and written.has_lists
    fitted = load_model(asked.model)
    if not hasattr(fitted, "predict"):
        raise click.UsageError(
            f"{asked.model!r} holds {type(fitted).__name__}, which predicts nothing; try 'distembed embed'"
        )
    if asked.std and hasattr(fitted, "classes_"):
        raise click.UsageError(
            "--std applies to models that predict numbers, and this one predicts classes; leave it out"
        )
    if asked.coverage is not None:
        _check_coverage(fitted, asked, clustered)
    points = table_of_model(fitted, asked.table, asked.options)
    learner = learner_of(fitted)
    covariates = None
    if asked.covariates_from is not None or getattr(learner, "encoder_", None) is not None:
        from .covariates import covariates_of_model

        covariates = covariates_of_model(learner, asked, points)
    if clustered:
        by_cluster.write_by_cluster("predict", fitted, asked, screen, None if covariates is None else covariates.table)
        return
    pieces: list[dict[str, Any]] = []
    n_bags = 0
    names = dict[str, str]()
    with _writer(asked, screen) as writer, opt.counted_batches(points, screen, "predicting") as batches:
        for bags in batches:
            given = {} if covariates is None else {"covariates": covariates.of(bags.ids)}
            found = {
                "": bags.ids,
                **columns_of(fitted, bags, std=asked.std, lists=lists, coverage=asked.coverage, **given),
            }
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


def _check_coverage(fitted: Any, asked: opt.Asked, clustered: bool) -> None:
    """Refuse a coverage that the model can't have, or has already."""
    if learner_of(fitted) is not fitted:
        raise click.UsageError(
            f"{asked.model!r} was fitted with --coverage, and adds intervals or sets by itself; leave --coverage out"
        )
    if clustered:
        raise click.UsageError("--coverage is not for --workers and --scheduler yet; leave either out")
    if not (hasattr(fitted, "predict_interval") or hasattr(fitted, "predict_set")):
        raise click.UsageError(
            f"{asked.model!r} was fitted without held-out bags, so its errors are not known; fit it without --tune none"
        )


def _writer(asked: opt.Asked, screen: Screen) -> Any:
    """Where predictions go, piece by piece; None where they are part of an answer in JSON."""
    return nullcontext() if asked.output is None and screen.as_json else open_writer(asked)
