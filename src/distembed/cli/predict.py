"""``distembed predict``: labels of new bags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from . import by_cluster
from . import options as opt
from .app import Screen
from .models import learner_of, load_model, table_of_model
from .results import check_outputs, free_name, open_writer

if TYPE_CHECKING:
    from ..bags import Bags


@click.command("predict", epilog=opt.example("distembed predict mass.distembed new.parquet -o predictions.csv"))
@click.argument("model", type=click.Path(path_type=str))
@opt.table
@opt.table_options("as when the model was fitted")
@opt.covariates_from("TABLE itself", "--labels")
@opt.column(
    "--labels-bag", of=("covariates_from",), help="Its column of bag ids. [default: as when the model was fitted]"
)
@opt.labels_signs
@opt.empty("--covariates-from, or of --ids-from,")
@click.option(
    "--ids-from",
    metavar="FILE",
    help="With --empty: a table of all bags' ids, one row per bag. [default: --covariates-from]",
)
@click.option("--std", is_flag=True, help="Add the standard deviation of each predicted number.")
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Add intervals, or sets of classes, that hold the truth with this probability.",
)
@click.option(
    "--likeness",
    is_flag=True,
    help="Add a p-value of each bag's similarity to the training bags, and its oddest column.",
)
@opt.output
@by_cluster.workers
@by_cluster.scheduler
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Predict the labels of the bags of a table.

    The table is read in batches, in bounded memory. The result has one row per bag: id, prediction and, for classes,
    their probabilities if the model has them.

    A model that was fitted with --covariates finds them by name in --covariates-from, or in TABLE. With --empty, ids of
    a table of ids that have no points in TABLE are predicted too, as the last rows.

    --coverage adds the ends of intervals, low and high, or the set of classes: a list in Parquet
    and Feather, else names joined by "|". A model that was fitted with --coverage adds its own. --likeness adds a
    p-value, the share of the training bags that are as odd given the size of the bag, and the oddest column. With
    --workers or --scheduler, -o is a folder with a Parquet file for each part of the table. In an .h5ad file (-o
    donors.h5ad) the columns are in obs, one row per donor.
    """
    read = {"MODEL": asked.model, "TABLE": asked.table, "--covariates-from": asked.covariates_from}
    read |= {"--ids-from": asked.ids_from}
    clustered = by_cluster.wants_cluster(asked)
    if clustered:
        by_cluster.check_folder(asked)
    else:
        check_outputs({"-o": asked.output}, read, table=True, h5ad=True)
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
    if asked.likeness:
        _check_likeness(learner, asked, clustered)
    covariates = None
    if asked.covariates_from is not None or getattr(learner, "encoder_", None) is not None:
        from .covariates import covariates_of_model

        covariates = covariates_of_model(learner, asked, points)
    if clustered:
        if asked.empty:
            raise click.UsageError("--empty is not for --workers and --scheduler; leave either out")
        by_cluster.write_by_cluster("predict", fitted, asked, screen, None if covariates is None else covariates.table)
        return
    pieces: list[dict[str, Any]] = []
    n_bags = 0
    names = dict[str, str]()
    wanted = _ids_of_all(asked, points, learner)
    with _writer(asked, screen) as writer, opt.counted_batches(points, screen, "predicting") as batches:
        for bags in batches if wanted is None else _then_empty(batches, wanted):
            given = {} if covariates is None else {"covariates": covariates.of(bags.ids)}
            found = {
                "": bags.ids,
                **columns_of(
                    fitted, bags, std=asked.std, lists=lists, coverage=asked.coverage, likeness=asked.likeness, **given
                ),
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


def _ids_of_all(asked: opt.Asked, points: Any, learner: Any) -> Any:
    """The table of ids of all bags; some may have no points; None without --empty."""
    source = asked.ids_from or asked.covariates_from
    if not asked.empty:
        if asked.ids_from is not None:
            raise click.UsageError("--ids-from names bags without points; add --empty, or leave it out")
        return None
    if source is None:
        raise click.UsageError("--empty needs a table of the ids of all bags; name it by --ids-from")
    from ..tables import read_labels

    column = asked.labels_bag or getattr(learner, "table_", {}).get("labels_bag") or points.bag
    how = opt.reading_of_labels(asked, asked.options) | ({"bag_type": "text"} if points.ids_are_text else {})
    return read_labels([source], bag=column, label=column, classes=True, **how)


def _then_empty(batches: Iterable[Bags], wanted: Any) -> Iterator[Bags]:
    """The bags of a table, then the empty ones: those that it does not name."""
    import numpy as np

    lacking = np.ones(len(wanted), bool)
    last = None
    for bags in batches:
        rows = wanted.index.rows_of(bags.ids)
        lacking[rows[rows >= 0]] = False
        last = bags[-1:]
        yield bags
    if last is not None and lacking.any():
        yield last.with_empty(wanted.ids[lacking])[1:]


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


def _check_likeness(learner: Any, asked: opt.Asked, clustered: bool) -> None:
    """Refuse likeness to bags that are not known."""
    if clustered:
        raise click.UsageError("--likeness is not for --workers and --scheduler yet; leave either out")
    if not hasattr(learner, "likeness"):
        raise click.UsageError(
            f"{asked.model!r} holds {type(learner).__name__}, which knows nothing of its training bags; fit "
            "DistributionRegressor or DistributionClassifier"
        )


def _writer(asked: opt.Asked, screen: Screen) -> Any:
    """Where predictions go, piece by piece; None where they are part of an answer in JSON."""
    return nullcontext() if asked.output is None and screen.as_json else open_writer(asked)
