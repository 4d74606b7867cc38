"""The sections of a report: tables and charts, as the template takes them.

One function for each: data, quality, methods, map, drivers, groups and budget. The numbers of charts that
:mod:`distembed.plot` has too are those of :mod:`distembed.plot.charts`.
"""

from __future__ import annotations

import textwrap
import warnings
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.ids import canonical_text, id_text
from ..bags.missing import SUFFIX
from ..compute.arrays import Array
from ..compute.svg import Chart, number, padded, sparkline
from ..exploration.groups import PrincipalAxes
from ..exploration.rows import RankRows
from ..learners import scores
from ..learners.model import Model
from ..learners.prediction_table import inner
from ..learners.search import COLUMNS
from ..plot.charts import (
    ENSEMBLE,
    budget_steps,
    confusion_counts,
    density_of,
    leaderboard_rows,
    limits_of,
    place,
    prediction_axes,
    principal_plane,
    reliability_curve,
    reliability_labels,
)
from .payload import text_of
from .predictions import AT_ONCE, Effects, Predictions

Section = dict[str, Any]

LEAK = 0.1  # share of the variance that bag sizes may explain without a warning
N_FOLDS = 5  # of baselines
MOST_PLACED = 2000  # bags that decide the axes of the map
MOST_CANDIDATES = 15
MOST_POINTS = 2000  # of a chart
MOST_CLASSES = 12  # of a confusion matrix
WORST = 10
LEAST_RANKED = 10  # bags of a map by ranks
LEAST_TRAINED = 10  # bags that baselines learn from
LEAST_GROUP = 8  # bags of a group that is compared with the others
CERTAIN = 2.5  # standard errors by which a group must do worse to be called so


# --------------------------------------------------------------------------------------------------------------
# The bags
# --------------------------------------------------------------------------------------------------------------


def data(bags: Bags, y: Array | None, found: Predictions, scaler: Any, name: str, sizes_used: str) -> Section:
    """The bags: how many, how large, of which columns; and what their sizes explain.

    ``sizes_used`` is the sentence of a model that looks at them, see :func:`~distembed.learners.size.describe_sizes`.
    """
    sizes = bags.sizes
    notes = []
    counts = np.histogram(np.log(sizes), 24)[0] if sizes.max() > sizes.min() else [len(sizes)]
    predicted = found.predicted if found.probabilities is None else found.probabilities.max(axis=1)
    if sizes_used:
        notes.append(f"{sizes_used[:1].upper()}{sizes_used[1:]}.")
    for values, what in () if sizes_used else ((y, name), (predicted, f"predicted {name}")):
        share = size_leak(bags, values)
        if share > LEAK:
            notes.append(
                f"Bag sizes alone explain {share:.0%} of the variance of the {what}: a model may read sizes instead of "
                "shapes. See distembed.sizes, or draw the same number of points from each bag."
            )
    summary = [
        ("bags", number(bags.n_bags)),
        ("points", number(bags.n_points)),
        ("columns", number(bags.n_dims)),
        ("points per bag", " / ".join(number(each) for each in np.quantile(sizes, [0, 0.5, 1]))),
        ("bags with a label", "none" if y is None else number(len(y))),
    ]
    spark = sparkline(counts, "bag sizes, on a logarithmic scale")
    columns = columns_of(bags, scaler)
    told = [name for name in ("missing", "outside") if any(row[name] != "-" for row in columns)]
    return {"summary": summary, "sizes": spark, "columns": columns, "told": told, "notes": notes}


def columns_of(bags: Bags, scaler: Any) -> list[dict[str, Any]]:
    """A row for each column: what it holds, what is missing, what lies outside of the training range; - is nothing."""
    names = list(bags.named_parts().columns or ())
    found = []
    low = getattr(scaler, "low_", None)
    high = getattr(scaler, "high_", None)
    for j, name in enumerate(names):
        if name.endswith(SUFFIX) and name.removesuffix(SUFFIX) in names:
            continue
        values = bags.points[:, j]
        labels = (bags.categories or {}).get(j)
        there = name + SUFFIX in names
        missing = float(bags.points[:, names.index(name + SUFFIX)].mean()) if there else 0.0
        row: dict[str, Any] = {"name": name, "missing": f"{missing:.1%}" if missing else "-", "outside": "-"}
        if labels is not None:
            counts = np.bincount(values.astype(int), minlength=len(labels))
            row |= {"low": f"{len(labels)} labels", "middle": str(labels[int(counts.argmax())]), "high": ""}
        else:
            counts = np.histogram(values, 24, limits_of(values))[0]
            row |= dict(zip(("low", "middle", "high"), map(number, np.quantile(values, [0, 0.5, 1])), strict=True))
            if low is not None and high is not None and len(low) == len(names):
                outside = float(np.mean((values < low[j]) | (values > high[j])))
                row["outside"] = f"{outside:.2%}" if outside else "-"
        found.append({**row, "shape": sparkline(counts, f"distribution of {name}")})
    return found


def size_leak(bags: Bags, values: Array | None) -> float:
    """Share of the variance of numbers, or of indicators of classes, that the logarithm of bag sizes explains.

    Examples
    --------
    >>> bags = Bags.from_arrays([np.zeros(n) for n in (1, 2, 4, 8)])
    >>> round(size_leak(bags, np.array([0.0, 1.0, 2.0, 3.0])), 6), size_leak(bags[:1], np.zeros(1))
    (1.0, 0.0)
    """
    if values is None or bags.n_bags < 3 or len(np.unique(bags.sizes)) < 2:
        return 0.0
    sizes = np.log(bags.sizes)
    y = np.asarray(values)
    columns = y.astype(float)[:, None] if y.dtype.kind in "iuf" else np.asarray(y[:, None] == np.unique(y), float)
    columns = columns - columns.mean(axis=0)
    total = float(np.sum(columns**2))
    slopes = (sizes - sizes.mean()) @ columns
    return float(np.sum(slopes**2) / np.sum((sizes - sizes.mean()) ** 2) / total) if total else 0.0


# --------------------------------------------------------------------------------------------------------------
# Predictions
# --------------------------------------------------------------------------------------------------------------


def quality(
    bags: Bags, y: Array | None, found: Predictions, classes: Array | None, name: str, groups: Any = None
) -> Section:
    """Scores of held-out bags, those of baselines, charts, and the bags with the largest errors."""
    if y is None:
        return {"scores": None, "how": "There are no labels, so predictions can't be scored."}
    rows = np.flatnonzero(~found.trained)
    if len(rows) < 2:
        return {"scores": None, "how": found.how}
    truth = y[rows]
    predicted = found.predicted[rows]
    shares = None if found.probabilities is None else found.probabilities[rows]
    by = None if groups is None else np.asarray(groups)[rows]

    def score(made: Array, shares: Array | None = None) -> dict[str, scores.Score]:
        if classes is None:
            return scores.of_numbers(truth.astype(float), made, by)
        return scores.of_classes(truth, made, None if shares is None else classes, shares, by)

    own = score(predicted, shares)
    table = [("this model", own)]
    train = np.flatnonzero(found.trained)
    test = bags[rows]
    trained = len(train) >= LEAST_TRAINED
    learned = (bags[train], y[train]) if trained else (test, truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, made in baseline_predictions(*learned, test, classes is not None).items():
            table.append((label, score(made)))
    header = list(own)
    titles = [scores.title(name) for name in header]
    body = [[label, *(str(each[column]) if column in each else "-" for column in header)] for label, each in table]
    section: Section = {"scores": {"header": ["model", *titles], "rows": body}, "how": found.how, "n": len(rows)}
    section["table"] = table
    section["baselines"] = (
        "There are too few bags for baselines." if len(table) == 1
        else "Baselines have learned from the bags that are marked." if trained
        else f"Baselines are predicted from the other bags here, in {N_FOLDS} folds."
    )  # fmt: skip
    section |= _calibration(truth, rows, found, classes, by)
    section["charts"] = _charts(bags, rows, truth, found, classes, name)
    if classes is not None:
        section["confusion"] = _confusion(truth, predicted)
    section["worst"] = _worst(bags, rows, truth, found, classes)
    return section


def losses(truth: Array, predicted: Array, probabilities: Array | None, classes: Array | None) -> Array:
    """How far each prediction is off: absolute errors, or one less the probability of the true class."""
    if classes is None:
        return np.asarray(np.abs(predicted - truth))
    if probabilities is None:
        return np.asarray(truth != predicted, float)
    return np.asarray(1 - np.max(np.where(truth[:, None] == classes[None, :], probabilities, 0.0), axis=1))


def bag_means(bags: Bags) -> Array:
    """Mean of the points of each bag, ndarray of shape (n_bags, n_dims)."""
    shares = bags.shares()
    shares = np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares
    return np.asarray(np.add.reduceat(bags.points * shares[:, None], bags.offsets[:-1]))


def baseline_predictions(train: Bags, y_train: Array, test: Bags, classes: bool) -> dict[str, Array]:
    """Predictions by a constant and by a linear model of the means of bags, for held-out bags.

    Without training bags, those of the test bags are predicted from each other, each fold from the others.

    Parameters
    ----------
    train, test : Bags
        The same where there are no others.
    y_train : ndarray of shape (n_bags,)
        Targets of ``train``.
    classes : bool
        Whether these are classes.

    Returns
    -------
    dict of str to ndarray of shape (n_test,)
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    constant: Any = DummyClassifier() if classes else DummyRegressor()
    linear: Any = LogisticRegression(max_iter=1000) if classes else RidgeCV(np.logspace(-2, 4, 13))
    models = {"constant": constant, "means, linear": make_pipeline(StandardScaler(), linear)}
    X = bag_means(train)
    Z = bag_means(test)
    if train is not test:
        wanted = 2 if classes else 1
        return {
            name: model.fit(X, y_train).predict(Z)
            for name, model in models.items()
            if name == "constant" or len(np.unique(y_train)) >= wanted
        }
    if len(y_train) < 2 * N_FOLDS:
        return {}
    folds = KFold(N_FOLDS, shuffle=True, random_state=0)
    if classes and min(len(np.unique(y_train[rows])) for rows, _ in folds.split(X)) < 2:
        return {"constant": cross_val_predict(constant, X, y_train, cv=folds)}
    return {name: cross_val_predict(model, X, y_train, cv=folds) for name, model in models.items()}


def _calibration(truth: Array, rows: Array, found: Predictions, classes: Array | None, groups: Any) -> Section:
    """How often intervals or sets hold the truth."""
    if found.intervals is not None:
        held = scores.of_intervals(truth, found.intervals[rows, 0], found.intervals[rows, 1], groups)
        what = "intervals"
        wide = f"Their mean width is {number(held['width'].value)}."
    elif found.sets is not None and classes is not None:
        held = scores.of_sets(truth, [classes[members].tolist() for members in found.sets[rows]], groups)
        what = "sets of classes"
        wide = f"They have {held['set_size'].value:.2f} classes on average."
    else:
        return {}
    share = held["coverage"]
    about: Section = {} if found.intervals is None else {"held": share}
    return about | {"coverage": f"{share.value:.1%} ± {share.standard_error:.1%} of the {what} hold the truth. {wide}"}


def _charts(
    bags: Bags, rows: Array, truth: Array, found: Predictions, classes: Array | None, name: str
) -> list[tuple[str, Chart]]:
    if classes is None:
        return [("Predicted over true", _scatter(bags, rows, truth.astype(float), found, name))]
    if found.probabilities is None or len(rows) < 10:
        return []
    n_bins = int(np.clip(len(rows) // 10, 2, 10))
    curve = reliability_curve(truth, found.probabilities[rows], classes, n_bins)
    x = curve.probabilities
    y = curve.shares
    alt = "How often predictions of a probability come true, over that probability"
    chart = Chart(alt, (0, 1), (0, 1), *reliability_labels(classes, name))
    chart.line([0, 1], [0, 1], "faint")
    chart.segments(x, np.maximum(y - curve.errors, 0), x, np.minimum(y + curve.errors, 1))
    chart.line(x, y)
    titles = [f"{n} bags: {p:.0%} predicted, {q:.0%} true" for n, p, q in zip(curve.counts, x, y, strict=True)]
    chart.points(x, y, "k0", titles, 5)
    return [("Reliability (bars: two standard errors)", chart)]


def _scatter(bags: Bags, rows: Array, truth: Array, found: Predictions, name: str) -> Chart:
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_POINTS)).astype(int))
    x = truth[some]
    y = found.predicted[rows[some]]
    which = rows[some]
    limits, ends, missed = prediction_axes(x, y, None if found.intervals is None else found.intervals[which])
    chart = Chart(f"Predicted {name} over true {name}", limits, limits, f"{name}, true", f"{name}, predicted")
    chart.line(limits, limits, "faint")
    kinds = ["k0"] * len(x)
    if ends is not None and missed is not None:
        chart.segments(x, ends[:, 0], x, ends[:, 1])
        kinds = np.where(missed, "k1", "k0").tolist()
    named = zip(canonical_text(bags.ids[which]).tolist(), x, y, strict=True)
    titles = [f"{name}: true {number(a)}, predicted {number(b)}" for name, a, b in named]
    chart.points(x, y, kinds, titles, float(np.clip(60 / np.sqrt(len(x)), 2, 4.5)))
    return chart


def _confusion(truth: Array, predicted: Array) -> Section | None:
    made = confusion_counts(truth, predicted)
    if len(made.classes) > MOST_CLASSES:
        return None
    rows = [
        (str(name), [(f"{n:,}", round(float(share), 2)) for n, share in zip(row, part, strict=True)])
        for name, row, part in zip(*made, made.shares, strict=True)
    ]
    return {"classes": [str(each) for each in made.classes], "rows": rows}


def _worst(bags: Bags, rows: Array, truth: Array, found: Predictions, classes: Array | None) -> list[list[str]]:
    shares = None if found.probabilities is None else found.probabilities[rows]
    off = losses(truth, found.predicted[rows], shares, classes)
    order = np.argsort(-off, kind="stable")[:WORST]
    return [
        [id_text(bags.ids, rows[k]), text_of(truth[k]), text_of(found.predicted[rows[k]]), number(float(off[k])),
         number(int(bags.sizes[rows[k]]))]
        for k in order
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------------------------
# Methods and the error budget
# --------------------------------------------------------------------------------------------------------------


def methods(model: Any) -> Section:
    """What was tried: candidates of an ensemble, or settings of one embedding."""
    learner = inner(model)
    board = getattr(learner, "leaderboard_", None)
    search = getattr(learner, "search_", None)
    if search is None and board is not None and len(board) > 1:
        rows = [list(each) for each in board.cells()]
        text = (
            "Candidates, scored on the same held-out bags when the model was fitted; the model is their weighted mean. "
            "These scores chose settings and members, so the best candidate looks better than it is. The last row, "
            '"ensemble", is the model itself: its score is corrected for the choice, and is the one to expect for new '
            "bags."
        )
        chart = _board_chart(board)
        return {"text": text, "header": list(board.header), "rows": rows, "note": board.note, "chart": chart}
    if search is not None:
        header = [*COLUMNS, "R² on held-out bags", "chosen"]
        rows = [[*trial.cells("×"), "yes" if trial is search.best else ""] for trial in search.best_of_pairs()]
        what = type(learner.embedding_).__name__ if hasattr(learner, "embedding_") else "embedding"
        return {"text": f"Settings of one {what}, scored on held-out bags.", "header": header, "rows": rows, "note": ""}
    return {"text": "One model was fitted, without a search.", "header": [], "rows": [], "note": ""}


def _board_chart(board: Any) -> Chart:
    rows = leaderboard_rows(board, MOST_CANDIDATES)
    values = np.array([row["score"] for row in rows])
    errors = np.array([row["standard_error"] for row in rows])
    alt = "Scores of the candidates on held-out bags; the filled ones count in the ensemble"
    names = [textwrap.shorten(str(row["name"]), 34, placeholder="...") for row in rows]
    chart = Chart(alt, padded(values - errors, values + errors), (0, 1), board.header[1], rows=names, width=520)
    places = np.arange(len(rows))
    chart.segments(values - errors, places, values + errors, places)
    filled = [row["weight"] > 0 or row["name"] == ENSEMBLE for row in rows]
    texts = [
        f"{row['name']}: {row['score']:.3f}"
        if row["name"] == ENSEMBLE
        else f"{row['name']}: weight {row['weight']:.2f}"
        for row in rows
    ]
    chart.points(values, places, ["k0" if each else "open" for each in filled], texts, 5)
    return chart


def budget(model: Any, bags: Bags) -> Section | None:
    """The error budget of a learner of one density embedding, on some of the bags; None of others."""
    from ..embeddings import HDDEmbedding, L2Embedding
    from ..theory import error_budget

    learner = inner(model)
    embedding = getattr(learner, "embedding_", None)
    if not isinstance(embedding, HDDEmbedding | L2Embedding) or bags.n_bags < 2:
        return None
    rows = np.unique(np.linspace(0, bags.n_bags - 1, min(bags.n_bags, 30)).astype(int))
    try:
        scaled = bags[rows] if learner.scaler_ is None else learner.scaler_.transform(bags[rows])
        found = error_budget(scaled, embedding, n_components=500, max_bags=30, random_state=0)
    except ValueError:  # such as bags of one point
        return None
    steps, most = budget_steps(found)
    alt = "Mean squared error of the kernel between bags, stage by stage"
    names = [step.name for step in steps]
    chart = Chart(alt, (0, 1.5 * most), (0, 1), "mean squared error of the kernel", rows=names)
    for k, step in enumerate(steps):
        kind = "bar total" if step.name == "total" else "bar down" if step.height < 0 else "bar"
        right = step.left + step.height
        chart.bar(step.left, right, k - 0.35, k + 0.35, kind, f"{step.name}: {step.height:.3g}")
        chart.text(step.end, k, step.text)
    table = [[name, f"{s.rms:.4f}", f"{s.bias:+.4f}", f"{s.largest:.4f}"] for name, s in found.stages.items()]
    text = (
        f"What each stage contributes to the error of exp(-d²/(2σ²)) between {found.n_bags} of the bags, with 500 "
        f"random features and σ = {found.sigma:.3g}."
    )
    return {"text": text, "rows": table, "chart": chart, "advice": found.advice[:1].upper() + found.advice[1:] + "."}


# --------------------------------------------------------------------------------------------------------------
# The map
# --------------------------------------------------------------------------------------------------------------


def map_of_bags(model: Any, bags: Bags, made: Predictions, classes: Array | None, name: str) -> Section:
    """All bags as circles in the plane, in the colours of their predictions."""
    xy, shares, what = _layout(model, bags)
    if classes is None:
        order = np.argsort(np.argsort(made.predicted, kind="stable"), kind="stable")
        kinds = [f"q{k}" for k in (order * 5 // bags.n_bags).tolist()]
        edges = np.quantile(made.predicted, np.linspace(0, 1, 6))
        legend = [(f"q{k}", f"{number(edges[k])} to {number(edges[k + 1])}") for k in range(5)]
    else:
        codes = (
            np.searchsorted(classes, made.predicted) if np.all(classes[:-1] <= classes[1:]) else np.zeros(len(xy), int)
        )
        kinds = [f"k{k % 7}" for k in codes.tolist()]
        legend = [(f"k{k % 7}", str(each)) for k, each in enumerate(classes[:14])]
    kinds = [f"{kind} seen" if old else kind for kind, old in zip(kinds, made.trained.tolist(), strict=True)]
    labels = [
        f"{axis} component ({share:.0%} of the variance)"
        for axis, share in zip(("first", "second"), shares, strict=True)
    ]
    chart = Chart("Map of all bags", padded(xy[:, 0]), padded(xy[:, 1]), *labels, width=680, height=450)
    chart.points(xy[:, 0], xy[:, 1], kinds, r=float(np.clip(90 / np.sqrt(len(xy)), 2, 6)))
    return {
        "chart": chart,
        "legend": legend,
        "what": what,
        "marked": bool(made.trained.any()),
        "name": f"predicted {name}",
    }


def _layout(model: Any, bags: Bags) -> tuple[Array, Array, str]:
    """Places of bags on a map, their shares of the variance, and of what features these are.

    A learner of one embedding has its features; else functions of ranks are taken, or means and deviations of columns
    of few bags. Axes are decided by 2,000 bags, and clipped so wild values do not squeeze the others.
    """
    learner = inner(model)
    few = np.unique(np.linspace(0, bags.n_bags - 1, min(bags.n_bags, MOST_PLACED)).astype(int))
    if not isinstance(getattr(learner, "model_", None), Model) or not learner.model_.is_single:
        if bags.n_bags < LEAST_RANKED:
            xy, shares = place(bags)
            return xy, shares, "means and deviations of the columns"
        ranks = RankRows().fit(bags[few])
        axes = PrincipalAxes.of(np.asarray(ranks.transform(bags[few]), float))
        found = [axes.scores(ranks.transform(bags[k : k + AT_ONCE]))[:, :2] for k in range(0, bags.n_bags, AT_ONCE)]
        return np.concatenate(found), axes.variances[:2] / axes.variances.sum(), "ranks of the columns' values"
    view = learner.model_.view

    def rows(some: Bags) -> Array:
        return np.asarray(view.embed(view.scale(some)), float)

    plane = principal_plane(rows(bags[few]))
    pieces = [plane.project(rows(bags[k : k + AT_ONCE])) for k in range(0, bags.n_bags, AT_ONCE)]
    return np.concatenate(pieces), plane.shares, f"features of {type(view.embedding).__name__}"


# --------------------------------------------------------------------------------------------------------------
# What drives predictions, and for whom they are worse
# --------------------------------------------------------------------------------------------------------------


def drivers(bags: Bags, found: Predictions, effect: Effects, name: str, classes: Array | None) -> Section:
    """How much columns matter, and where in them bags of high and low predictions differ."""
    sizes = np.abs(effect.changes).mean(axis=0)[:15]
    what = "contribution to" if effect.explained else "change of"
    unit = f"mean {what} the " + (f"predicted {name}" if found.probabilities is None else "probability")
    alt = "How much columns contribute to predictions, or change them when their values are those of other bags"
    chart = Chart(alt, (0, 1.1 * float(sizes.max(initial=0)) or 1.0), (0, 1), unit, rows=effect.columns[:15], width=520)
    for k, size in enumerate(sizes):
        chart.bar(0, float(size), k - 0.3, k + 0.3, "bar", f"{effect.columns[k]}: {size:.4g}")
    if classes is None:
        low, high = np.quantile(found.predicted, [1 / 3, 2 / 3])
        groups = {"lowest third": found.predicted <= low, "highest third": found.predicted >= high}
    else:
        names, counts = np.unique(found.predicted, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:3]
        groups = {str(names[k]): found.predicted == names[k] for k in order}
    groups = {label: mask for label, mask in groups.items() if mask.any()}
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    shares = bags.shares()
    weights = (np.ones(bags.n_points) if shares is None else shares * bags.sizes[owner]) / bags.sizes[owner]
    step = max(1, bags.n_points // 500_000)
    where = []
    for j, column in effect.of_points[:6]:
        if j in (bags.categories or {}):
            continue
        limits = limits_of(bags.points[:, j])
        curves = []
        for mask in groups.values():
            some = np.flatnonzero(mask[owner])[::step]
            curves.append(density_of(bags.points[some][:, [j]], [limits], 96, weights[some]))
        most = max(float(curve.max()) for curve, _ in curves)
        alt = f"Density of {column} in bags by prediction: {', '.join(groups)}"
        small = Chart(alt, limits, (0, 1.05 * most), column, "density", width=340, height=220)
        for k, (curve, x) in enumerate(curves):
            small.line(x, curve, f"line k{k}")
        where.append(small)
    more = f" {effect.left_out} further columns were not asked." if effect.left_out else ""
    text = (
        f"{len(effect.rows):,} bags were predicted again with the values of one column permuted across all their "
        f"points. Columns with the same information stand in for each other, and then neither seems to matter.{more}"
    )
    if effect.explained:
        text = (
            f"What each column contributes to the predictions for {len(effect.rows):,} bags, the others being those of "
            "training bags (Shapley values): they add up to the prediction less its mean over the training bags. "
            "Columns that carry the same information share what they contribute."
        )
    return {"text": text, "chart": chart, "where": where, "groups": list(groups)}


def groups(
    bags: Bags, y: Array | None, found: Predictions, classes: Array | None, effect: Effects, given: Any
) -> Section:
    """Bags that do worse than the others: by groups of the user, by class, by size, by means of the main columns."""
    rows = np.flatnonzero(~found.trained)
    few = "There are too few labelled held-out bags to compare groups of them."
    if y is None or len(rows) < 2 * LEAST_GROUP:
        return {"text": few, "rows": []}
    truth = y[rows]
    shares = None if found.probabilities is None else found.probabilities[rows]
    off = losses(truth, found.predicted[rows], shares, classes)
    parts: list[tuple[str, Array]] = []
    if given is not None:
        parts += [(f"group {each}", np.asarray(given)[rows] == each) for each in np.unique(np.asarray(given)[rows])]
    if classes is not None:
        parts += [(f"true class {each}", truth == each) for each in classes]
    else:
        parts += _thirds("target", truth.astype(float))
    parts += _thirds("bag size", bags.sizes[rows].astype(float))
    means = bag_means(bags[rows])
    for j, name in effect.of_points[:3]:
        parts += _thirds(f"mean of {name}", means[:, j])
    table = []
    for label, mask in parts:
        if LEAST_GROUP <= mask.sum() <= len(mask) - LEAST_GROUP:
            here = off[mask]
            rest = off[~mask]
            gap = float(here.mean() - rest.mean())
            error = float(np.sqrt(here.var(ddof=1) / len(here) + rest.var(ddof=1) / len(rest)))
            worse = "worse" if gap > CERTAIN * error else ""
            table.append(
                [
                    label,
                    f"{mask.sum():,}",
                    f"{here.mean():.4g}",
                    f"{rest.mean():.4g}",
                    f"{gap:+.3g} ± {error:.2g}",
                    worse,
                ]
            )
    table.sort(key=lambda row: row[-1] == "")
    unit = "Mean absolute errors" if classes is None else "Mean of one less the probability of the true class"
    text = f"{unit} of groups of bags, next to those of all others. Worse: by more than {CERTAIN} standard errors."
    return {"text": text if table else few, "rows": table}


def _thirds(name: str, values: Array) -> list[tuple[str, Array]]:
    low, high = np.quantile(values, [1 / 3, 2 / 3])
    if low == high:
        return []
    return [(f"{name} up to {number(low)}", values <= low), (f"{name} from {number(high)}", values >= high)]
