"""``distembed report``: a model and bags in one HTML file; and the same after a fit."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from . import options as opt
from .app import Screen
from .models import learner_of, load_model, table_of_model
from .results import check_outputs

if TYPE_CHECKING:
    from .fit_task import Fitted


@click.command(
    "report", epilog=opt.example("distembed report mass.distembed new.parquet --labels masses.csv -o report.html")
)
@click.argument("model", type=click.Path(path_type=str))
@opt.table
@opt.table_options("as when the model was fitted")
@click.option(
    "--labels",
    metavar="FILE",
    help="Table of labels, one row per bag or per point, or .h5ad. [default: TABLE, where "
    "--label names its column; else nothing is scored]",
)
@opt.column("--label", of=("labels", "table"), help="Column of labels. [default: as when the model was fitted]")
@opt.column("--labels-bag", of=("labels", "table"), help="Its column of bag ids. [default: that of --bag]")
@opt.labels_signs
@opt.column("--groups", of=("labels", "table"), help="Column of groups of bags to compare.")
@opt.covariates_from("the labels' table, or TABLE")
@opt.join("ignore")
@click.option("-o", "--output", required=True, metavar="FILE", help="The report, such as report.html.")
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Write a report on a model and the bags of a table, in one HTML file that needs no network.

    It shows the data, how well the model predicts held-out bags, the leaderboard, a map of all bags, what drives
    predictions, groups of bags that are predicted worse, the error budget, and how the report was made. Bags that were
    used for training are recognised by id, marked, and left out of the scores. 'distembed fit --report' shows the
    predictions for the bags that were held out from the fit.
    """
    from ..tables.cell_files import cell_file_kind

    begin = perf_counter()
    read = {"MODEL": asked.model, "TABLE": asked.table, "--labels": asked.labels}
    check_outputs({"-o": asked.output}, read | {"--covariates-from": asked.covariates_from})
    fitted = load_model(asked.model)
    learner = learner_of(fitted)
    if not hasattr(fitted, "predict"):
        raise click.UsageError(f"{asked.model!r} holds {type(fitted).__name__}, which predicts nothing; give a model")
    points = table_of_model(fitted, asked.table, asked.options)
    y = groups = covariates = None
    known = getattr(learner, "table_", None) or {}
    label = asked.label or known.get("label")
    bags = opt.read_all(points, screen)
    of_obs = label is not None and cell_file_kind(list(asked.table)) == "AnnData"
    if asked.labels is not None or asked.label is not None or of_obs:
        from .fit_task import matching_ids

        if label is None:
            raise click.UsageError("--label is missing, and the model does not remember one; name the column of labels")
        remembered = None if asked.labels is None else known.get("labels_bag")
        id_column = asked.labels_bag or remembered or points.bag
        classes = hasattr(learner, "classes_")
        open_labels = partial(opt.open_labels, asked, asked.table, asked.options, id_column)
        table = open_labels(label, classes)
        joined = matching_ids(bags, table, str(points), asked.missing, asked.unknown)
        bags = bags[joined.kept]
        y = joined.labels
        if asked.groups is not None:
            by = open_labels(asked.groups, True)
            groups = matching_ids(bags, by, str(points), "error", "ignore").labels
    if getattr(learner, "encoder_", None) is not None:
        from .covariates import covariates_of_model

        asked.covariates_from = asked.covariates_from or asked.labels
        columns = covariates_of_model(learner, asked, points)
        covariates = None if columns is None else columns.of(bags.ids)
    reading = {"command": _command(), "seconds of reading": f"{perf_counter() - begin:.1f}"}
    _write(fitted, bags, y, asked.output, screen, covariates=covariates, groups=groups, name=label, run=reading)
    screen.line(f"{asked.output}: report on {bags.n_bags:,} bags", detail=True)
    screen.result({"command": "report", "output": asked.output, "n_bags": bags.n_bags, "label": label})


def write_report_of_fit(found: Fitted, asked: opt.Asked, took: float, screen: Screen) -> None:
    """The report of ``fit``, with the predictions that it made for the bags that were kept out."""
    bags, y, groups, covariates = found.seen
    holdout = found.holdout
    rows = holdout.rows
    held_out = None
    if holdout.how is not None:
        how = f"{int(rows.sum()):,} bags were kept out of the fit, and predicted before the model learned from them."
        if holdout.how != "test":
            how = f"Each of {len(y):,} bags was predicted by a model of all others; settings have seen all."
        elif found.conformal is not None:
            how = f"{int(rows.sum()):,} bags were kept out of the fit, and calibrated the intervals or sets."
        held_out = {"rows": rows, "predicted": holdout.predicted, "probabilities": holdout.probabilities, "how": how}
    model = found.model if found.conformal is None else found.conformal
    run = {
        "command": _command(),
        "model file": asked.output,
        "seed": asked.seed,
        "seconds of the command": f"{took:.1f}",
    }
    more: dict[str, Any] = {
        "covariates": covariates,
        "groups": groups,
        "name": asked.label,
        "run": run,
        "held_out": held_out,
    }
    _write(model, bags, y, asked.report, screen, **more)
    screen.note(f"{asked.report}: report on {bags.n_bags:,} bags")


def _write(model: Any, bags: Any, y: Any, path: str, screen: Screen, **more: Any) -> None:
    from .. import report

    with screen.bar("writing the report"):
        report.write(model, bags, y, path, **more)


def _command() -> str:
    """What the user has typed."""
    return shlex.join(["distembed", *sys.argv[1:]])
