"""``distembed fit``: from points and labels to a model file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from . import options as opt
from .app import Screen, Stopped

if TYPE_CHECKING:
    from ..bags import Bags
    from ..compute.arrays import Array
    from ..compute.progress import Stages
    from ..tables import BagTable
    from .judging import FitTask, Fitted

MANY_POINTS = 5_000_000  # beyond, fits are out of core unless the user says otherwise
MANY_VALUES = 250_000_000  # features of all bags: 2 GB
POINT_BYTES = 16  # of a file, where it does not say how many points it has
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
    epilog=opt.example("distembed fit points.parquet --bag cluster --labels masses.csv --label mass -o mass.distembed"),
)
@opt.table
@opt.table_options()
@opt.labels(required=False)
@opt.classify
@opt.embedding()
@click.option(
    "--components", type=click.IntRange(min=0), default=5000,
    help="Number of random features; 0: a linear model of the embedding itself.",
)  # fmt: skip
@click.option(
    "--tune", callback=_tune, metavar="HOW", default="3",
    help="Choose settings on so many folds, on a tenth of the bags (holdout), or not at all (none).",
)  # fmt: skip
@click.option(
    "--model", type=click.Choice(["logistic", "svm", "ridge"]),
    help="Of classes. [default: logistic; ridge out of core]",
)  # fmt: skip
@click.option(
    "--class-weight", type=click.Choice(["balanced"]),
    help="Give all classes the same weight, however few bags they have.",
)  # fmt: skip
@click.option("--groups", metavar="COLUMN", help="Column of the labels' table; bags of a group are held out together.")
@click.option(
    "--test", type=click.FloatRange(0, 0.9), metavar="SHARE",
    help="Share of bags that are kept out to judge the model. [default: a tenth, of 20 bags or more; a fifth with "
    "--coverage; at most 2,000]",
)  # fmt: skip
@click.option(
    "--coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="C",
    help="Make predict give intervals, or sets of classes, that hold the truth with this probability, such as 0.9. The "
    "bags kept out calibrate them, and are not learned from.",
)  # fmt: skip
@opt.seed
@click.option(
    "--out-of-core/--in-memory", default=None,
    help="Read points in batches, in bounded memory. [default: beyond 5 million points]",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Begin again where a stopped fit left a checkpoint.")
@opt.join("error")
@click.option("-o", "--output", required=True, metavar="FILE", help="The model file, such as model.distembed.")
@click.option("--updatable", is_flag=True, help="Keep in the file what --std, and partial_fit in Python, need.")
@opt.plot
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Learn to predict a label from the points of a bag.

    TABLE has one row per point; several files, directories and globs are one table. It may be an .h5ad file, whose obs
    has labels too, or a folder of FCS files, one bag each.

    Some bags are kept out: the model is judged on them, and then learns from them too; or, with --coverage, they tell
    how wide intervals must be. With --out-of-core a stopped fit goes on when the same command is given again, from a
    checkpoint beside the model (model.distembed.partial).
    """
    begin = perf_counter()
    opt.check_writable(asked.output)
    opt.check_writable(asked.plot, "--plot")
    asked.labels = opt.labels_file(asked.labels, asked.table)
    points = opt.open_table(asked.table, asked.options)
    id_column = asked.labels_bag or points.bag
    known = opt.open_labels(asked.labels, id_column, asked.label, asked.options)
    by = None if asked.groups is None else opt.open_labels(asked.labels, id_column, asked.groups, asked.options)
    classes = _are_classes(known.table.labels, asked.label, asked.classify, screen)
    linear, out_of_core = asked.model, asked.out_of_core
    if out_of_core is None:
        out_of_core = _is_large(points) or len(known.table) * max(asked.components, 1) > MANY_VALUES
    if asked.class_weight is not None and not classes:
        raise click.UsageError("--class-weight is of classes, and these labels are numbers; leave it out")
    if linear is not None and not classes:
        raise click.UsageError("--model is of classes, and these labels are numbers; leave it out, or add --classify")
    if out_of_core and classes and linear not in (None, "ridge"):
        raise click.UsageError(f"--model {linear} needs all bags in memory; use --model ridge, or add --in-memory")
    from ..learners import DistributionClassifier, DistributionRegressor
    from .judging import FitTask

    made = opt.make_embedding(asked.embedding, asked.settings) if asked.settings else asked.embedding
    chosen: dict[str, Any] = {"n_components": asked.components or None, "tune": asked.tune, "random_state": asked.seed}
    if classes:
        linear = linear or ("ridge" if out_of_core else "logistic")
        model: Any = DistributionClassifier(made, model=linear, class_weight=asked.class_weight, **chosen)
    else:
        model = DistributionRegressor(made, **chosen)
    model.table_ = opt.remembered(points, asked.options) | {"label": asked.label}
    how = {name: getattr(asked, name) for name in ("missing", "unknown", "test", "coverage", "seed")}
    task = FitTask(model, points, known, by, **how)
    if out_of_core:
        found = _fit_out_of_core(task, Path(f"{asked.output}.partial"), asked.restart, screen)
    else:
        found = _fit_in_memory(task, screen)
    from ..files import save

    start = perf_counter()
    save(model if found.conformal is None else found.conformal, asked.output, updatable=asked.updatable)
    found.seconds["saving"] = perf_counter() - start
    _report(found, asked, perf_counter() - begin, out_of_core, screen)


def _is_large(table: BagTable) -> bool:
    """Whether there are so many points that they had better not be in memory all at once."""
    points = table.known_points
    if points is None:
        points = sum(path.stat().st_size for path in table.files) // POINT_BYTES
    return points > MANY_POINTS


def _are_classes(values: Any, label: str, classify: bool | None, screen: Screen) -> bool:
    import numpy as np

    if classify is None:
        if values.dtype.kind in "iu" and len(np.unique(values)) <= min(_FEW_CLASSES, len(values) // 3):
            screen.note(f"{label!r} is a number to be predicted; add --classify if its values are names of classes")
        return values.dtype.kind not in "iuf"
    if not classify and values.dtype.kind not in "iufb":
        raise click.UsageError(f"--regress needs numbers, and {label!r} is text; leave it out, or use --classify")
    return classify


def _fit_in_memory(task: FitTask, screen: Screen) -> Fitted:
    """Fit to all bags at once."""
    from .judging import Fitted

    model, start = task.model, perf_counter()
    bags = opt.read_all(task.table, screen)
    seconds = {"reading": perf_counter() - start}
    bags, y, groups, out = task.labelled(bags)
    fitted = Fitted(model, bags.n_bags, bags.n_points, seconds=seconds)
    with screen.bar("scaling points") as bar:
        model.fit(bags[~out], y[~out], groups=None if groups is None else groups[~out], progress=bar)
        seconds |= model.timings_
        if out.any():
            fitted.judge(bags[out], y[out], bar)
        if task.coverage is not None:
            fitted.calibrate(bags[out], y[out], None if groups is None else groups[out], task.coverage, bar)
        elif out.any():
            start = perf_counter()
            model.refit(bags, y, progress=bar)
            seconds["learning from all bags"] = perf_counter() - start
        elif hasattr(model.model_, "loo_predictions_") and not hasattr(model, "classes_"):
            fitted.judged_by, fitted.truth, fitted.predicted = "leave-one-out", y, model.model_.loo_predictions_
    return fitted


# --------------------------------------------------------------------------------------------------------------
# Out of core: batches from disk, in bounded memory, and a checkpoint from which a stopped fit goes on
# --------------------------------------------------------------------------------------------------------------


def _fit_out_of_core(task: FitTask, checkpoint: Path, restart: bool, screen: Screen) -> Fitted:
    """Fit to batches from disk; what is done is kept in a checkpoint."""
    import numpy as np
    from sklearn.base import is_classifier

    from .judging import Fitted

    model, start = task.model, perf_counter()
    with screen.bar("reading ids", task.table.known_points, "points") as bar:
        ids = task.table.ids(progress=bar)
    kept_ids, y, groups, out = task.labelled(ids)
    fitted = Fitted(model, len(y), 0, seconds={"reading ids": perf_counter() - start})
    seconds = fitted.seconds
    model.table_ = {**model.table_, "made_from": _fingerprint(task, groups)}
    n_done, earlier = _look_at_checkpoint(model, checkpoint, restart, screen)
    start = perf_counter()
    try:
        with screen.bar("sorting") as bar:
            source = _Batches(task.table, len(ids), kept_ids, y, groups, out, bar)
            classes = np.unique(y[~out]) if is_classifier(model) else None
            model.fit_batches(source, classes=classes, checkpoint=checkpoint, progress=source)
            inside = dict(model.timings_)
            seconds |= inside
            seconds["sorting and reading"] = perf_counter() - start - sum(inside.values()) + earlier
            if out.any():
                bags, rows = source.kept_out(n_done)
                fitted.judge(bags, y[rows], bar)
                if task.coverage is not None:
                    fitted.calibrate(bags, y[rows], None if groups is None else groups[rows], task.coverage, bar)
                else:
                    start = perf_counter()
                    bar.begin("learning from all bags", bags.n_bags)
                    model.partial_fit(bags, y[rows]).model_.solve()
                    seconds["learning from all bags"] = perf_counter() - start
    except KeyboardInterrupt:
        said = "stopped before anything was worth keeping; the same command begins again"
        if checkpoint.exists():
            said = f"stopped; what was done is kept in {str(checkpoint)!r}, and the same command goes on from there"
        raise Stopped(said) from None
    fitted.n_points = source.n_points
    del model.table_["made_from"]
    return fitted


def _fingerprint(task: FitTask, groups: Array | None) -> str:
    """Which data a checkpoint belongs to: files with sizes and times, columns, and what else decides the batches."""
    table, labels = task.table, task.labels
    decides = (task.missing, task.test, task.coverage, task.seed, None if groups is None else groups.tolist())
    seen = hashlib.sha256(repr(decides).encode())
    for path in (*table.files, *labels.paths):
        facts = path.stat()
        seen.update(f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    seen.update(repr((table.bag, table.columns, table.weights, table.nan, labels.where)).encode())
    return seen.hexdigest()


def _look_at_checkpoint(model: Any, path: Path, restart: bool, screen: Screen) -> tuple[int, float]:
    """Number of batches that are done, and seconds of stages; a checkpoint of other data or settings is refused."""
    from ..files import load
    from ..tables import TableError

    if restart:
        path.unlink(missing_ok=True)
    if not path.exists():
        return 0, 0.0
    remedy = "add --restart to begin again, or choose another -o"
    try:
        kept = load(path)
    except ValueError:
        raise TableError(f"{str(path)!r} should be a half-finished fit and can't be read; {remedy}") from None
    same = type(kept) is type(model) and repr(kept.get_params()) == repr(model.get_params())
    if not same or getattr(kept, "table_", None) != model.table_:
        raise TableError(f"{str(path)!r} is a half-finished fit of other data or settings; {remedy}")
    screen.note(f"going on from {str(path)!r}: {kept.n_batches_seen_} batches are done")
    return int(kept.n_batches_seen_), float(sum(kept.timings_.values()))


class _Batches:
    """Batches with their labels for ``fit_batches``; bags that are kept out, or have no label, weigh nothing.

    So there is one batch for every batch of the table, and the number of those that are done tells where to go on. It
    is told of the stages of the fit, and shows that the table is being sorted until its first batch comes.
    """

    def __init__(
        self, table: BagTable, n_bags: int, ids: Array, y: Array, groups: Array | None, out: Array, bar: Stages
    ) -> None:
        self._table, self._n_bags, self._y, self._groups, self._out, self._bar = table, n_bags, y, groups, out, bar
        self._rows = {key: row for row, key in enumerate(ids.tolist())}
        self._aside: dict[int, tuple[Bags, Array]] = {}  # bags that are kept out, and their rows, by batch
        self._stage: tuple[str, int | None] = ("sorting", None)
        self._done = self.n_points = 0

    def begin(self, stage: str, total: int | None) -> None:
        """The next stage; passes over all bags have as many bags as the table."""
        passes = stage in ("looking at all bags", "learning", "looking for bags kept out")
        self._stage, self._done = (stage, self._n_bags if total is None and passes else total), 0
        self._bar.begin(*self._stage)

    def advance(self, more: int) -> None:
        """So much more of it is done."""
        self._done += more
        self._bar.advance(more)

    def __call__(self, start: int = 0) -> Iterator[tuple[Bags, Array, Array, Array | None]]:
        for bags, rows in self._labelled(start):
            weight = ((rows >= 0) & ~self._out[rows]).astype(float)
            yield bags, self._y[rows], weight, None if self._groups is None else self._groups[rows]

    def _labelled(self, start: int) -> Iterator[tuple[Bags, Array]]:
        """Batches, and the row of the label of each bag, -1 where there is none; bags kept out are put aside."""
        import numpy as np

        self._bar.begin("sorting", None)
        self.n_points = 0
        for number, bags in enumerate(self._table.batches(max_points=opt.BATCH_POINTS, start=start), start):
            if number == start:
                self._bar.begin(*self._stage)
                self._bar.advance(self._done)
            rows = np.array([self._rows.get(key, -1) for key in bags.ids.tolist()])
            aside = (rows >= 0) & self._out[rows]
            if aside.any() and number not in self._aside:
                self._aside[number] = bags[aside], rows[aside]
            self.n_points += bags.n_points
            yield bags, rows

    def kept_out(self, n_skipped: int) -> tuple[Bags, Array]:
        """Bags that were kept out, and their rows; those of batches that an earlier run has read are read now."""
        import numpy as np

        from ..bags import concat

        if n_skipped:
            self.begin("looking for bags kept out", None)
            for bags, _ in self._labelled(0):
                self.advance(bags.n_bags)
        parts, rows = zip(*(self._aside[number] for number in sorted(self._aside)), strict=True)
        return concat(parts), np.concatenate(rows)


# --------------------------------------------------------------------------------------------------------------
# The report
# --------------------------------------------------------------------------------------------------------------


def _report(found: Fitted, asked: opt.Asked, took: float, out_of_core: bool, screen: Screen) -> None:
    """Draw and show what was found."""
    from .judging import confusion, draw, score_rows

    plot, label = asked.plot, asked.label
    model, scores, classes = found.model, found.scores(), hasattr(found.model, "classes_")
    matrix = confusion(found.truth, found.predicted) if classes and scores else None
    if plot and not scores:
        screen.note("no bags were kept out, so there is nothing to draw; add --test 0.2")
        plot = None
    elif plot:
        what = "bags kept out" if found.judged_by == "test" else "bags, each left out once"
        said = ", ".join(f"{name} {score}" for name, score in score_rows(scores))
        title = f"{len(found.truth):,} {what}\n{said}"
        draw(plot, found.truth, found.predicted, matrix, label, title)
    seconds = {name: round(value, 3) for name, value in (found.seconds | {"all": took}).items()}
    trials = [] if model.search_ is None else model.search_.best_of_pairs()
    calibration = _calibration(found)
    _show_settings(model, trials, screen)
    if scores:
        title = f"{label}, on {len(found.truth):,} bags that the model had not seen"
        if found.judged_by != "test":
            title = f"{label}, each of {len(found.truth):,} bags left out once (settings have seen all)"
        screen.table(title, ("score", "value"), score_rows(scores))
    if calibration is not None:
        _show_calibration(calibration, screen)
    screen.table("Seconds", ("stage", "s"), [(name, f"{value:.2f}") for name, value in seconds.items()])
    screen.line(f"{asked.output}: {asked.embedding} of {found.n_bags:,} bags, {found.n_points:,} points")
    result: dict[str, Any] = {
        "command": "fit",
        **{name: getattr(asked, name) for name in ("output", "label", "embedding")},
        "plot": plot,
        "kind": "classification" if classes else "regression",
        "out_of_core": out_of_core,
        **{name: getattr(found, name) for name in ("n_bags", "n_points", "n_test", "judged_by")},
        "settings": model.best_params_,
        "search": [
            {name: getattr(each, name) for name in ("bandwidth_scale", "sigma_scale", "alpha", "n_bags")}
            | {"r2": 1 - each.error if isfinite(each.error) else None}
            for each in trials
        ],
        "scores": {name: vars(score) for name, score in scores.items()},
        "coverage": calibration,
        "seconds": seconds,
    }
    if classes:
        result["classes"] = model.classes_
    if matrix is not None:
        result["confusion"] = {"classes": matrix[0], "counts": matrix[1]}
    screen.result(result)


def _show_settings(model: Any, trials: Any, screen: Screen) -> None:
    """What the search has looked at, and what it has chosen."""

    def times(scale: float | None) -> str:
        return "-" if scale is None else f"x {scale:g}"

    if trials:
        best = model.search_.best
        shown = [each for i, each in enumerate(trials) if i < MOST_SETTINGS or each is best]
        rows = [
            (
                times(each.bandwidth_scale), times(each.sigma_scale), f"{each.alpha:g}", f"{each.n_bags:,}",
                f"{1 - each.error:.4f}{' <' if each is best else ''}",
            )
            for each in shown
        ]  # fmt: skip
        chosen = next(i for i, each in enumerate(shown) if each is best)
        title = f"Settings, the best of {len(trials)}, judged on bags that were held out"
        screen.table(title, ("bandwidth", "sigma", "penalty", "bags", "R²"), rows, best=chosen)
    if "C" in model.best_params_:
        screen.line(f"C = {model.best_params_['C']:g}\n")


def _calibration(found: Fitted) -> dict[str, Any] | None:
    """What intervals or sets are calibrated on, and how large they are on average."""
    if found.conformal is None:
        return None
    size = "mean_size" if hasattr(found.model, "classes_") else "mean_width"
    return opt.calibration_of(found.conformal) | {size: found.mean_size}


def _show_calibration(calibration: dict[str, Any], screen: Screen) -> None:
    of = "" if calibration["n_groups"] is None else f" of {calibration['n_groups']:,} groups"
    if "mean_size" in calibration:
        what, size = "sets of classes", f"{calibration['mean_size']:.2f} classes"
    else:
        what, size = "intervals", f"width {calibration['mean_width']:.4g}"
    screen.line(
        f"{what} for a coverage of {calibration['coverage']:g}: {size} on average; calibrated on "
        f"{calibration['n_bags']:,} bags{of} kept out, which were not learned from\n"
    )
