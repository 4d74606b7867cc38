"""``distembed evaluate``: how good predictions are."""

from __future__ import annotations

from typing import Any

import click

from . import options as opt
from .app import Screen
from .results import check_outputs, draw, show_confusion

_PROBABILITY = "probability_"


@click.command("evaluate", epilog=opt.example("distembed evaluate predictions.csv --labels masses.csv --label mass"))
@click.argument("predictions", type=click.Path(path_type=str))
@opt.labels("PREDICTIONS")
@opt.column("--bag", of=("predictions",), help="Column of bag ids in PREDICTIONS. [default: its first column]")
@opt.column("--prediction", of=("predictions",), default="prediction", help="Column of predictions.")
@opt.column("--groups", of=("labels",), help="Its column of groups: standard errors are over groups, not bags.")
@opt.classify
@opt.join("ignore")
@click.option("--bag-type", type=opt.TYPES_OF_IDS, default="auto", help="Type of ids.")
@opt.csv_signs
@opt.plot
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Compare predictions with labels, bag by bag.

    For numbers: RMSE, MAE and R². For classes: accuracy, the confusion matrix and, if there are probabilities,
    log-loss. For intervals (columns low and high) or sets of classes (column set): the share that holds the truth, and
    the mean width or size. Standard errors are from the jackknife over bags, or over groups of bags with --groups.
    """
    check_outputs({"--plot": asked.plot}, {"PREDICTIONS": asked.predictions, "--labels": asked.labels})
    import numpy as np

    from ..learners import scores as scores_by
    from ..learners.classes import refuse_strangers, unify_classes
    from ..plot.charts import confusion_counts
    from ..tables import read_labels
    from ..tables.files import list_files, read_schema
    from ..tables.formats import Reading
    from .fit_task import matching_ids

    source = asked.predictions
    reading = Reading(asked.delimiter, asked.decimal)
    names = read_schema(list_files(source)[0], reading, None).names
    id_column = asked.bag or names[0]
    if asked.prediction not in names:
        raise click.UsageError(
            f"{source!r} has no column {asked.prediction!r}; name the column of predictions by --prediction"
        )
    how = {name: getattr(asked, name) for name in ("bag_type", "delimiter", "decimal")}
    columns = [name for name in names if name.startswith(_PROBABILITY)]
    classify = True if asked.classify is None and columns else asked.classify

    def read(name: str, classes: bool | None = classify) -> Any:
        return read_labels(source, bag=id_column, label=name, classes=classes, **how)

    def read_both() -> tuple[Any, Any]:
        labels = opt.open_labels(asked, [source], asked, asked.labels_bag or id_column, asked.label, classify)
        return read(asked.prediction, classify), labels

    made, known = read_both()
    if classify is None and known.table.labels.dtype.kind not in "iuf":
        classify = True
        made, known = read_both()
    joined = matching_ids(made.ids, known, repr(source), asked.missing, asked.unknown)
    truth = joined.labels
    predicted = made.labels[joined.kept]
    if len(joined.unknown) and asked.unknown == "ignore":
        screen.note(f"{len(joined.unknown):,} labels have no prediction, and do not count")
    groups = None
    if asked.groups is not None:
        by = opt.open_labels(asked, [source], asked, asked.labels_bag or id_column, asked.groups, True)
        groups = matching_ids(made.ids[joined.kept], by, repr(source), "error", "ignore").labels
    found: dict[str, Any] = {"command": "evaluate", "n_bags": len(truth)}
    matrix = ends = None
    if classify:
        has_sets = "set" in names and id_column != "set"
        sets = _read_sets(source, reading)[joined.kept] if has_sets else []
        truth, predicted, classes, members = unify_classes(
            truth,
            predicted,
            [name.removeprefix(_PROBABILITY) for name in columns],
            [name for each in sets for name in each],
        )
        of_model = np.concatenate([predicted, classes, members]) if columns or has_sets else predicted
        refuse_strangers(truth, of_model, f"labels, column {asked.label!r},", f"predictions, {asked.prediction!r},")
        shares = None
        if columns:
            shares = np.stack([read(name).labels[joined.kept] for name in columns], axis=1).astype(float)
        scores = scores_by.of_classes(truth, predicted, classes, shares, groups=groups)
        if has_sets:
            ends_of_sets = np.cumsum([len(each) for each in sets])[:-1]
            scores |= scores_by.of_sets(truth, [each.tolist() for each in np.split(members, ends_of_sets)], groups)
        matrix = confusion_counts(truth, predicted)
        found |= {"kind": "classification", "confusion": {"classes": matrix[0], "counts": matrix[1]}}
    else:
        for name, values in ((asked.label, truth), (asked.prediction, predicted)):
            if values.dtype.kind not in "iufb":
                raise click.UsageError(f"column {name!r} holds text, not numbers; use --classify, or name another")
        scores = scores_by.of_numbers(truth.astype(float), predicted.astype(float), groups=groups)
        if {"low", "high"} <= set(names) - {id_column}:
            low, high = (read(name).labels[joined.kept] for name in ("low", "high"))
            if low.dtype.kind in "iuf" and high.dtype.kind in "iuf":
                scores |= scores_by.of_intervals(truth, low, high, groups)
                ends = np.stack([low, high], axis=1)
        found |= {"kind": "regression"}
    found["scores"] = {name: score.as_dict() for name, score in scores.items()}
    rows = [(scores_by.title(name), str(score)) for name, score in scores.items()]
    screen.table(f"{asked.label}, {len(truth):,} bags", ("score", "value"), rows)
    if matrix is not None:
        show_confusion(*matrix, screen)
    if asked.plot is not None:
        title = [f"{len(truth):,} bags", *(f"{name} {score}" for name, score in rows)]
        draw(asked.plot, truth, predicted, matrix is not None, asked.label, title, ends)
        found["plot"] = asked.plot
    screen.result(found)


def _read_sets(path: str, reading: Any) -> Any:
    """Sets of classes, each a list of names, in the order of the table."""
    import numpy as np

    from ..tables.files import list_files, read_pieces

    sets: list[list[str]] = []
    for file in list_files(path):
        for batch in read_pieces(file, reading, ["set"], {"set": "string"}):
            for members in batch.column(0).to_pylist():
                parts = members.split("|") if isinstance(members, str) else members or []
                sets.append([str(name) for name in parts if name != ""])
    found = np.empty(len(sets), object)
    found[:] = sets
    return found
