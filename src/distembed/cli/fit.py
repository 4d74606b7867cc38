"""``distembed fit``: from points and labels to a model file.

The options are checked and the tables opened here; then the fit is in memory (below), out of core
(:mod:`distembed.cli.out_of_core`) or by a cluster (:mod:`distembed.cli.by_cluster`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from . import by_cluster
from . import options as opt
from .app import Screen
from .results import check_outputs, report_fit

if TYPE_CHECKING:
    from ..tables import BagTable
    from .covariates import Covariates
    from .fit_task import FitTask, Fitted


MANY_POINTS = 5_000_000  # beyond, fits are out of core unless the user says otherwise
MANY_VALUES = 250_000_000  # features of all bags: 2 GB
POINT_BYTES = 16  # of a file, where it does not say how many points it has
OF_ONE_MODEL = ("components", "tune", "model", "updatable")  # options without meaning for ensembles
_FEW_CLASSES = 20


def _tune(ctx: click.Context, option: click.Parameter, value: str) -> str | int | None:
    """``auto``, ``holdout``, ``none`` or a number of folds."""
    if value in ("auto", "holdout", "none"):
        return None if value == "none" else value
    if value.isdecimal() and 2 <= int(value) <= 100:
        return int(value)
    raise click.BadParameter(
        f"{value!r} must be 'auto', 'holdout', 'none' or a number of folds from 2 to 100", ctx, option
    )


def _class_weight(ctx: click.Context, option: click.Parameter, value: str | None) -> Any:
    """``balanced``, or a dict of names of classes to weights."""
    if value in (None, "balanced"):
        return value
    found: dict[str, float] = {}
    for part in str(value).split(","):
        name, _, number = part.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            found = {}
        if not name.strip() or not found:
            text = f"{value!r} must be 'balanced', or weights by class, such as sick=5,well=1"
            raise click.BadParameter(text, ctx, option)
    return found


@click.command(
    "fit",
    epilog=opt.example("distembed fit points.parquet --bag cluster --labels masses.csv --label mass -o mass.distembed"),
)
@opt.table
@opt.table_options()
@opt.labels("TABLE")
@opt.classify
@opt.column(
    "--covariates", of=("covariates_from", "labels", "table"), several=True,
    help="Columns with one value per bag, such as age,sex, in the labels' table or in TABLE: numbers or text; missing "
    "values are allowed.",
)  # fmt: skip
@opt.covariates_from("the labels' table, or TABLE")
@opt.embedding(
    "auto",
    "How bags become vectors: an ensemble of many embeddings (auto), one by name, or a row of a leaderboard, such as "
    "'rank-mean, rbf'",
    ("auto",),
)
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
    help="Of auto: stop trying candidates after this time; the model then depends on the clock.",
)  # fmt: skip
@click.option(
    "--sizes", type=click.Choice(["auto", "yes", "no"]), default="auto",
    help="Whether candidates use the number of points of a bag, and their total weight: if it helps on held-out bags "
    "(auto, with --embedding auto), always, or never.",
)  # fmt: skip
@click.option(
    "--components", type=click.IntRange(min=0), default=5000,
    help="Number of random features; 0: a linear model of the embedding itself.",
)  # fmt: skip
@click.option(
    "--tune", callback=_tune, metavar="HOW", default="auto",
    help="Choose settings on this many folds, three by default, on a tenth of the bags (holdout), or not at all "
    "(none).",
)  # fmt: skip
@click.option(
    "--model", type=click.Choice(["ridge", "logistic", "svm"]), help="Linear model for classes. [default: ridge]",
)  # fmt: skip
@click.option(
    "--class-weight", callback=_class_weight, metavar="HOW",
    help="Weights of classes: equal totals, however few bags a class has (balanced), or given ones: sick=5,well=1.",
)  # fmt: skip
@click.option(
    "--ordered", metavar="A,B,C",
    help="All classes from low to high, such as poor,fair,good: heads that learn their order join the candidates.",
)  # fmt: skip
@opt.column("--groups", of=("labels", "table"), help="Column of groups; bags of one group are held out together.")
@click.option(
    "--test", type=click.FloatRange(0, 0.9), metavar="SHARE",
    help="Share of bags that are held out to score the model. [default: a tenth, of 20 bags or more; a fifth with "
    "--coverage; at most 2,000]",
)  # fmt: skip
@click.option(
    "--coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="C",
    help="Make predict return intervals, or sets of classes, that hold the truth with this probability, e.g. 0.9; the "
    "held-out bags calibrate them and are not used for training.",
)  # fmt: skip
@opt.seed
@click.option(
    "--out-of-core/--in-memory", default=None,
    help="Read points in batches, in bounded memory. [default: beyond 5 million points]",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Start over, even if a stopped fit left a checkpoint.")
@by_cluster.workers
@by_cluster.scheduler
@by_cluster.checkpoint
@opt.join("error")
@opt.empty("--labels")
@click.option("-o", "--output", required=True, metavar="FILE", help="The model file, such as model.distembed.")
@click.option("--updatable", is_flag=True, help="Store what --std, and partial_fit in Python, need.")
@click.option("--no-ids", is_flag=True, help="Store no hashed ids of training bags; reports then cannot mark them.")
@opt.plot
@click.option("--report", metavar="FILE", help="Write a report on the held-out bags, in one HTML file.")
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Learn to predict a label from the points of a bag.

    TABLE has one row per point; several files, directories and globs are read as one table. It may be an .h5ad file, or
    a folder of FCS files, one bag each. Labels are in a separate table, or in a column of TABLE, or of the obs of an
    .h5ad file, that has one value per bag.

    With --empty, a label whose bag has no points is used too: a plot without animals is an observation. Without it,
    --unknown sets how such labels are handled.

    Name columns that describe bags, not points, such as an age, by --covariates; candidates are then scored with and
    without them.

    By default many combinations of features and models are scored on held-out bags, and the model is a weighted mean of
    the best. --embedding js, or another name, fits one embedding. This is faster, and allows the options --set,
    --marginals, --scale, --components, --tune, --model and --updatable.

    Some bags are held out: the model is scored on them, and then learns from them too. With --coverage they determine
    how wide intervals must be. With --out-of-core, run the same command again to continue a stopped fit from a
    checkpoint next to the model (model.distembed.partial).

    --workers and --scheduler share the work among processes of this machine or of a cluster; the model is the same.
    """
    begin = perf_counter()
    _check_options(asked)
    checkpoint = Path(f"{asked.output}.partial")
    written = {
        "-o": asked.output,
        "--plot": asked.plot,
        "--report": asked.report,
        "the checkpoint next to -o,": str(checkpoint),
    }
    read = {"TABLE": asked.table, "--labels": asked.labels, "--covariates-from": asked.covariates_from}
    check_outputs(written, read)
    opt.check_takes_labels(asked, "auto")
    points = _open_points(asked)
    asked.left_out = points.left_out
    opt.note_left_out(points, screen)
    id_column = asked.labels_bag or points.bag
    open_labels = partial(opt.open_labels, asked, asked.table, asked.options, id_column)
    known = open_labels(asked.label, asked.classify)
    by = None if asked.groups is None else open_labels(asked.groups, True)
    classes = _are_classes(known.table.labels, asked.label, asked.classify, screen)
    if opt.are_candidates(asked.embedding):
        _need_enough(asked, len(known.table), screen)
    linear = asked.model
    out_of_core = asked.out_of_core
    clustered = asked.workers is not None or asked.scheduler is not None or asked.checkpoint is not None
    if clustered and by_cluster.wants_cluster(asked):
        out_of_core = True
    elif out_of_core is None:
        width = 1 if opt.are_candidates(asked.embedding) else max(asked.components, 1)
        out_of_core = _is_large(points) or len(known.table) * width > MANY_VALUES
    if asked.empty and out_of_core:
        raise click.UsageError("--empty needs all bags in memory; add --in-memory, or leave --empty out")
    if asked.report and out_of_core:
        raise click.UsageError("--report needs all bags in memory; add --in-memory, or leave --report out")
    if asked.class_weight is not None and not classes:
        raise click.UsageError("--class-weight applies to classes, and these labels are numbers; leave it out")
    if isinstance(asked.class_weight, dict):
        asked.class_weight = _weights_by_class(asked.class_weight, known.table.labels)
    if asked.ordered is not None:
        if not classes or out_of_core:
            why = "needs all bags in memory; add --in-memory" if classes else "applies to classes; add --classify"
            raise click.UsageError(f"--ordered {why}, or leave --ordered out")
        asked.ordered = _order_of_classes(asked.ordered, known.table.labels)
    if linear is not None and not classes:
        raise click.UsageError(
            "--model applies to classes, and these labels are numbers; leave it out, or add --classify"
        )
    if out_of_core and classes and linear not in (None, "ridge"):
        raise click.UsageError(f"--model {linear} needs all bags in memory; use --model ridge, or add --in-memory")
    from .fit_task import FitTask

    model = _new_learner(asked, classes, out_of_core)
    model.table_ = opt.table_facts(points, asked.options) | {"label": asked.label}
    if asked.labels_bag is not None:
        model.table_["labels_bag"] = asked.labels_bag
    how = {name: getattr(asked, name) for name in ("missing", "unknown", "test", "coverage", "seed", "empty")}
    task = FitTask(model, points, known, by, _covariates(asked, points, id_column), **how)
    if clustered:
        found = by_cluster.fit_by_cluster(task, asked, screen)
        _save(found, asked)
    elif out_of_core:
        from .out_of_core import fit_out_of_core, keep_until_saved

        with keep_until_saved(checkpoint):
            found = fit_out_of_core(task, asked.options, checkpoint, asked.restart, screen)
            _save(found, asked)
    else:
        found = _fit_in_memory(task, screen)
        _save(found, asked)
        if checkpoint.exists():
            from .out_of_core import remove_checkpoint

            remove_checkpoint(checkpoint)
    if asked.report is not None:
        from .report import write_report_of_fit

        write_report_of_fit(found, asked, perf_counter() - begin, screen)
    report_fit(found, asked, perf_counter() - begin, out_of_core, screen)


def _save(found: Fitted, asked: opt.Asked) -> None:
    """Write the model file."""
    from ..files import save

    start = perf_counter()
    made = found.model if found.conformal is None else found.conformal
    save(made, asked.output, updatable=asked.updatable, ids=not asked.no_ids)
    found.seconds["saving"] = perf_counter() - start


def _open_points(asked: opt.Asked) -> BagTable:
    """The table of points; columns of numbers with one value per bag are not coordinates."""
    points = opt.open_table(asked.table, asked.options)
    if asked.labels is None:
        _check_label(asked, points)
    of_bags = dict.fromkeys(asked.covariates or (), "is a covariate") | {asked.label: "is the label"}
    of_bags |= {} if asked.groups is None else {asked.groups: "tells groups"}
    points.left_out = {name: of_bags.get(name, why) for name, why in points.left_out.items()}
    found = {name: why for name, why in of_bags.items() if name in points.file_columns}
    both = [name for name in found if name in points.categorical]
    if both:
        raise click.UsageError(f"--categorical names {both[0]!r}, which {found[both[0]]}; leave it out")
    if asked.options.columns is not None or not found:
        return points
    asked.options.columns = tuple(name for name in points.file_columns if name not in found) or None
    if asked.options.columns is None:
        each = ", ".join(f"{name!r} {why}" for name, why in found.items())
        raise click.UsageError(f"{points}: no column of numbers is left for points: {each}; add --columns")
    left_out = points.left_out | found
    points = opt.open_table(asked.table, asked.options)
    points.left_out = left_out
    return points


def _check_label(asked: opt.Asked, points: BagTable) -> None:
    """Refuse a column of TABLE that is the label and something else too."""
    others = {"--bag": (points.bag,), "--weights": (points.weights,), "--columns": asked.options.columns or ()}
    for option, names in others.items():
        if asked.label in names:
            raise click.UsageError(f"--label and {option} both name {asked.label!r}; leave it out of one of them")


def _covariates(asked: opt.Asked, points: BagTable, id_column: str) -> Covariates | None:
    """The columns of bags that the user names."""
    if asked.covariates is None:
        if asked.covariates_from is not None:
            raise click.UsageError("--covariates-from is a table whose columns --covariates must name; name some")
        return None
    from .covariates import Place, find_covariates

    own = [name for name in asked.covariates if name in (asked.label, id_column, points.bag)]
    if own:
        raise click.UsageError(f"--covariates names {own[0]!r}, which is the label or the bag; leave it out")
    places = [Place(list(asked.table), points.bag)]
    if asked.labels is not None:
        places.insert(0, Place([asked.labels], id_column))
    if asked.covariates_from is not None:
        places = [Place([asked.covariates_from], id_column)]
    return find_covariates(asked.covariates, places, points, asked)


def _check_options(asked: opt.Asked) -> None:
    """Refuse options of one model with an ensemble, and the other way round."""
    given = opt.given_options()
    auto = opt.are_candidates(asked.embedding)
    if not (auto or asked.covariates) and asked.time_limit is not None:
        raise click.UsageError("--time-limit applies to --embedding auto, which tries many methods; leave it out")
    if asked.covariates and asked.coverage is not None:
        raise click.UsageError("--coverage has no intervals for models with --covariates; leave one of them out")
    for name in ("settings", "marginals", "scale", *OF_ONE_MODEL) if auto else OF_ONE_MODEL if asked.covariates else ():
        if name in given:
            why = "of one embedding, and --embedding auto takes many; add --embedding js"
            why = why if auto else "of one model, and with --covariates it is an ensemble; leave out --covariates"
            raise click.UsageError(f"{given[name]} is {why}, or leave {given[name]} out")


def _need_enough(asked: opt.Asked, n_bags: int, screen: Screen) -> None:
    """Use one embedding if there are too few bags to compare many."""
    from ..learners.selection import FEWEST_TO_COMPETE

    if n_bags < FEWEST_TO_COMPETE:
        screen.note(f"only {n_bags} labelled bags: too few to compare embeddings, using --embedding js")
        asked.embedding = "js"
        asked.time_limit = None


def _weights_by_class(given: dict[str, float], labels: Any) -> dict[Any, float]:
    """Weights by classes as the labels have them."""
    import numpy as np

    from ..learners.classes import class_names, find_classes

    classes = np.unique(labels)
    codes = find_classes(list(given), classes)
    strange = [name for name, code in zip(given, codes, strict=True) if code < 0]
    if strange:
        known = ", ".join(class_names(classes)[:10])
        raise click.UsageError(f"--class-weight: {strange[0]!r} is none of the classes, {known}; correct it")
    return dict(zip(classes[codes].tolist(), given.values(), strict=True))


def _order_of_classes(given: str, labels: Any) -> list[Any]:
    """Classes as the labels have them, in the order that the user names."""
    import numpy as np

    from ..learners.classes import class_names, find_classes

    classes = np.unique(labels)
    names = [name.strip() for name in given.split(",")]
    codes = find_classes(names, classes)
    if sorted(codes.tolist()) != list(range(len(classes))):
        known = ", ".join(class_names(classes)[:10])
        raise click.UsageError(
            f"--ordered must name each class once, {known}, from low to high, got {given}; correct it"
        )
    return list(classes[codes].tolist())


def _new_learner(asked: opt.Asked, classes: bool, out_of_core: bool) -> Any:
    """The learner that the options describe."""
    from ..learners import DistributionClassifier, DistributionRegressor

    made: Any = asked.embedding
    chosen: dict[str, Any] = {"time_limit": asked.time_limit, "random_state": asked.seed}
    chosen["sizes"] = {"auto": "auto", "yes": True, "no": False}[asked.sizes]
    if asked.settings or asked.marginals or asked.scale:
        from .settings import make_embedding, make_scaler

        made = make_embedding(asked.embedding, asked.settings, asked.marginals, asked.seed)
        chosen["scale"] = "auto" if asked.scale is None else make_scaler(asked.scale, made)
    if not opt.are_candidates(asked.embedding):
        chosen |= {"n_components": asked.components or None, "tune": asked.tune}
    if not classes:
        return DistributionRegressor(made, **chosen)
    return DistributionClassifier(
        made, model=asked.model or "ridge", class_weight=asked.class_weight, ordered=asked.ordered, **chosen
    )


def _is_large(table: BagTable) -> bool:
    """Whether there are too many points to keep all in memory."""
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
    from .fit_task import Fitted

    model = task.model
    start = perf_counter()
    bags = opt.read_all(task.table, screen)
    seconds = {"reading": perf_counter() - start}
    bags = task.add_empty(bags)
    n_read = bags.n_bags
    bags, y, groups, out = task.labelled(bags)
    columns = task.covariates_of(bags.ids)
    fitted = Fitted(model, bags.n_bags, bags.n_points, seconds=seconds, seen=(bags, y, groups, columns))
    fitted.n_unlabelled = n_read - bags.n_bags
    with screen.bar("scaling points") as bar:
        fitted.holdout = model.fit_and_score(
            bags, y, test=out, groups=groups, covariates=columns, refit=task.coverage is None, progress=bar
        )
        seconds |= fitted.holdout.seconds
        if task.coverage is not None:
            fitted.calibrate(bags[out], y[out], None if groups is None else groups[out], task.coverage, bar)
    return fitted
