"""``distembed fit``: from points and labels to a model file."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ._options import (
    TableOptions,
    check_writable,
    common,
    embedding_options,
    example,
    jobs_option,
    join_options,
    label_options,
    make_embedding,
    table_argument,
    table_options,
)
from ._screen import Screen

if TYPE_CHECKING:
    from ._fitting import Fitted

__all__ = ["command"]

MANY_VALUES = 250_000_000  # features of all bags: 2 GB
MOST_SETTINGS = 10  # that are shown
_FEW_CLASSES = 20


def _tune(ctx: click.Context, option: click.Parameter, value: str) -> str | int | None:
    """``holdout``, ``none`` or a number of folds."""
    if value in ("holdout", "none"):
        return None if value == "none" else value
    if value.isdecimal() and 2 <= int(value) <= 100:
        return int(value)
    raise click.BadParameter(f"{value!r} must be 'holdout', 'none' or a number of folds from 2 to 100", ctx, option)


@click.command(
    "fit",
    epilog=example("distembed fit points.parquet --bag cluster --labels masses.csv --label mass -o mass.distembed"),
)
@table_argument
@table_options()
@label_options
@click.option("--classify/--regress", default=None, help="Labels are classes, or numbers. [default: text is classes]")
@embedding_options()
@click.option(
    "--components",
    type=click.IntRange(min=0),
    default=5000,
    show_default=True,
    help="Number of random features; 0: a linear model of the embedding itself.",
)
@click.option(
    "--tune",
    callback=_tune,
    metavar="HOW",
    default="3",
    show_default=True,
    help="Choose settings on so many folds, on a tenth of the bags (holdout), or not at all (none).",
)
@click.option(
    "--model",
    "linear",
    type=click.Choice(["logistic", "svm", "ridge"]),
    help="Of classes. [default: logistic; ridge out of core]",
)
@click.option("--groups", metavar="COLUMN", help="Column of the labels' table; bags of a group are held out together.")
@click.option(
    "--test",
    type=click.FloatRange(0, 0.9),
    metavar="SHARE",
    help="Share of bags that are kept out to judge the model. [default: a tenth, of 20 bags or more; a fifth with "
    "--coverage; at most 2,000]",
)
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="C",
    help="Make predict give intervals, or sets of classes, that hold the truth with this probability, such as 0.9. The "
    "bags kept out calibrate them, and are not learned from.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all random draws.")
@click.option(
    "--out-of-core/--in-memory",
    default=None,
    help="Read points in batches, in bounded memory. [default: beyond 5 million points]",
)
@click.option("--restart", is_flag=True, help="Begin again where a stopped fit left a checkpoint.")
@join_options("error")
@click.option("-o", "--output", required=True, metavar="FILE", help="The model file, such as model.distembed.")
@click.option("--plot", metavar="FILE", help="Draw predicted against true, or the confusion matrix, to a PNG.")
@jobs_option
@common
def command(
    screen: Screen,
    table: tuple[str, ...],
    options: TableOptions,
    labels: str,
    label: str,
    labels_bag: str | None,
    classify: bool | None,
    embedding: str,
    settings: dict[str, Any],
    components: int,
    tune: Any,
    linear: str | None,
    groups: str | None,
    test: float | None,
    coverage: float | None,
    seed: int,
    out_of_core: bool | None,
    restart: bool,
    missing: str,
    unknown: str,
    output: str,
    plot: str | None,
) -> None:
    """Learn to predict a label from the points of a bag.

    TABLE has one row a point; several files, directories and globs are one table.

    Some bags are kept out: the model is judged on them, and then learns from them too; or, with --coverage, they tell
    how wide intervals must be. With --out-of-core a stopped fit goes on when the same command is given again, from a
    checkpoint beside the model (model.distembed.partial).
    """
    check_writable(output)
    check_writable(plot, "--plot")
    from ._fitting import fit_in_memory, fit_out_of_core
    from ._inputs import is_large, open_labels, open_table

    begin = perf_counter()
    points = open_table(table, options)
    id_column = labels_bag or points.bag
    known = open_labels(labels, id_column, label, options)
    by = None if groups is None else open_labels(labels, id_column, groups, options)
    classes = _are_classes(known.table.labels, label, classify, screen)
    if out_of_core is None:
        out_of_core = is_large(points) or len(known.table) * max(components, 1) > MANY_VALUES
    if linear is not None and not classes:
        raise click.UsageError("--model is of classes, and these labels are numbers; leave it out, or add --classify")
    if out_of_core and classes and linear not in (None, "ridge"):
        raise click.UsageError(f"--model {linear} needs all bags in memory; use --model ridge, or add --in-memory")
    made = make_embedding(embedding, settings) if settings else embedding
    model = _learner(classes, made, components, tune, linear or ("ridge" if out_of_core else "logistic"), seed)
    model.table_ = {
        "bag": points.bag,
        "columns": list(points._plan.columns),
        "weights": points.weights,
        "label": label,
    }
    told: dict[str, Any] = {
        "missing": missing,
        "unknown": unknown,
        "test": test,
        "coverage": coverage,
        "seed": seed,
        "screen": screen,
    }
    if out_of_core:
        checkpoint = Path(f"{output}.partial")
        found = fit_out_of_core(model, points, known, by, checkpoint=checkpoint, restart=restart, **told)
    else:
        found = fit_in_memory(model, points, known, by, **told)
    _finish(found, output, plot, label, embedding, begin, out_of_core, screen)


def _are_classes(values: Any, label: str, classify: bool | None, screen: Screen) -> bool:
    import numpy as np

    numbers = values.dtype.kind in "iuf"
    if classify is None:
        if values.dtype.kind in "iu" and len(np.unique(values)) <= min(_FEW_CLASSES, len(values) // 3):
            screen.note(f"{label!r} is a number to be predicted; add --classify if its values are names of classes")
        return not numbers
    if not classify and values.dtype.kind not in "iufb":
        raise click.UsageError(f"--regress needs numbers, and {label!r} is text; leave it out, or use --classify")
    return classify


def _learner(classes: bool, embedding: Any, components: int, tune: Any, linear: str, seed: int) -> Any:
    from ..learners import DistributionClassifier, DistributionRegressor

    settings: dict[str, Any] = {
        "n_components": components or None,
        "tune": tune,
        "random_state": seed,
    }
    if classes:
        return DistributionClassifier(embedding, model=linear, **settings)
    return DistributionRegressor(embedding, **settings)


def _finish(
    found: Fitted,
    output: str,
    plot: str | None,
    label: str,
    embedding: str,
    begin: float,
    out_of_core: bool,
    screen: Screen,
) -> None:
    """Score, save, draw and tell."""
    from ..files import save
    from ._outputs import save_figure
    from ._scores import confusion, of_classes, of_numbers

    model, classes = found.model, hasattr(found.model, "classes_")
    scores: dict[str, Any] = {}
    if found.judged_by:
        scores = (
            of_classes(found.truth, found.predicted, model.classes_, found.probabilities)
            if classes
            else of_numbers(found.truth, found.predicted)
        )
    start = perf_counter()
    save(model if found.conformal is None else found.conformal, output)
    found.seconds["saving"] = perf_counter() - start
    drawn = _draw(found, scores, label) if plot else None
    if plot and drawn is None:
        screen.note("no bags were kept out, so there is nothing to draw; add --test 0.2")
    elif plot:
        save_figure(drawn, plot)
    seconds = {name: round(value, 3) for name, value in found.seconds.items()}
    took = perf_counter() - begin
    _tell(found, scores, seconds, took, output, label, embedding, screen)
    result: dict[str, Any] = {
        "command": "fit",
        "output": output,
        "plot": plot if drawn is not None else None,
        "kind": "classification" if classes else "regression",
        "label": label,
        "embedding": embedding,
        "out_of_core": out_of_core,
        "n_bags": found.n_bags,
        "n_points": found.n_points,
        "n_test": found.n_test,
        "settings": model.best_params_,
        "search": [
            {
                "bandwidth_scale": each.bandwidth_scale,
                "sigma_scale": each.sigma_scale,
                "alpha": each.alpha,
                "r2": 1 - each.error if isfinite(each.error) else None,
                "n_bags": each.n_bags,
            }
            for each in ([] if model.search_ is None else model.search_.best_of_pairs())
        ],
        "judged_by": found.judged_by,
        "scores": {name: score._asdict() for name, score in scores.items()},
        "coverage": _calibration(found),
        "seconds": {**seconds, "all": round(took, 3)},
    }
    if classes:
        result["classes"] = model.classes_
        if found.judged_by:
            names, counts = confusion(found.truth, found.predicted)
            result["confusion"] = {"classes": names, "counts": counts}
    screen.result(result)


def _draw(found: Fitted, scores: dict[str, Any], label: str) -> Any:
    from ._pictures import draw_confusion, draw_numbers
    from ._scores import confusion

    if not found.judged_by:
        return None
    what = "bags kept out" if found.judged_by == "test" else "bags, each left out once"
    title = f"{len(found.truth):,} {what}\n" + ", ".join(f"{_names(name)} {score}" for name, score in scores.items())
    if hasattr(found.model, "classes_"):
        return draw_confusion(*confusion(found.truth, found.predicted), title)
    return draw_numbers(found.truth, found.predicted, label, title)


def _names(score: str) -> str:
    names = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "log_loss": "log-loss", "set_size": "set size"}
    return names.get(score, score)


def _tell(
    found: Fitted,
    scores: dict[str, Any],
    seconds: dict[str, float],
    took: float,
    output: str,
    label: str,
    embedding: str,
    screen: Screen,
) -> None:
    model = found.model
    if model.search_ is not None:
        trials, best = model.search_.best_of_pairs(), model.search_.best
        shown = [each for i, each in enumerate(trials) if i < MOST_SETTINGS or each is best]
        rows = [
            (
                _times(each.bandwidth_scale), _times(each.sigma_scale), f"{each.alpha:g}", f"{each.n_bags:,}",
                f"{1 - each.error:.4f}{' <' if each is best else ''}",
            )
            for each in shown
        ]  # fmt: skip
        chosen = next(i for i, each in enumerate(shown) if each is best)
        title = f"Settings, the best of {len(trials)}, judged on bags that were held out"
        screen.table(title, ("bandwidth", "sigma", "penalty", "bags", "R²"), rows, best=chosen)
    if "C" in model.best_params_:
        screen.line(f"C = {model.best_params_['C']:g}\n")
    if scores:
        title = f"{label}, on {len(found.truth):,} bags that the model had not seen"
        if found.judged_by != "test":
            title = f"{label}, each of {len(found.truth):,} bags left out once (settings have seen all)"
        screen.table(title, ("score", "value"), [(_names(name), str(score)) for name, score in scores.items()])
    if (calibration := _calibration(found)) is not None:
        of = "" if calibration["n_groups"] is None else f" of {calibration['n_groups']:,} groups"
        what = "sets of classes" if "mean_size" in calibration else "intervals"
        size = f"{calibration['mean_size']:.2f} classes" if "mean_size" in calibration else ""
        size = size or f"width {calibration['mean_width']:.4g}"
        screen.line(
            f"{what} for a coverage of {calibration['coverage']:g}: {size} on average; calibrated on "
            f"{calibration['n_bags']:,} bags{of} kept out, which were not learned from\n"
        )
    stages = [(name, f"{value:.2f}") for name, value in seconds.items()]
    screen.table("Seconds", ("stage", "s"), [*stages, ("all", f"{took:.2f}")])
    screen.line(f"{output}: {embedding} of {found.n_bags:,} bags, {found.n_points:,} points")


def _calibration(found: Fitted) -> dict[str, Any] | None:
    """What intervals or sets are calibrated on, and how large they are on average."""
    if found.conformal is None:
        return None
    groups = found.conformal.groups_
    return {
        "coverage": found.conformal.coverage,
        "n_bags": len(found.conformal.scores_),
        "n_groups": None if groups is None else len(set(groups.tolist())),
        ("mean_size" if hasattr(found.model, "classes_") else "mean_width"): found.mean_size,
    }


def _times(scale: float | None) -> str:
    return "-" if scale is None else f"x {scale:g}"
