"""Pictures of models: predictions and where they come from, candidates and settings, and the error budget."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bags.ids import id_text
from ..compute.arrays import Array
from ..compute.checks import check_number
from . import drawing
from .charts import (
    ENSEMBLE,
    budget_steps,
    confusion_counts,
    leaderboard_rows,
    marginal_map,
    prediction_axes,
    reliability_curve,
    reliability_labels,
)

_MOST_NUMBERS = 15  # classes, for counts to be written into their squares
_MOST_CANDIDATES = 25
_LEAST = 0.01  # of the largest density: where it is lower, no map is drawn


def predictions(
    truth: Any,
    predicted: Any,
    *,
    intervals: Any = None,
    name: str = "target",
    title: Sequence[str] = (),
    ax: Any = None,
) -> Any:
    """Draw predicted numbers over true ones, a point for each bag, and the line where they are equal.

    Parameters
    ----------
    truth, predicted : array-like of shape (n_bags,)
        Targets and predictions.
    intervals : array-like of shape (n_bags, 2), optional
        Ends of intervals, as of :meth:`~distembed.ConformalRegressor.predict_interval`. One that does not hold the
        truth has another colour and a cross.
    name : str, default="target"
        What is predicted, for the axes.
    title : sequence of str, optional
        Pieces, which are put on as many lines as they need.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        Both axes have the same limits.

    Examples
    --------
    >>> import distembed as de
    >>> ax = de.plot.predictions([1.0, 2.0, 3.0], [1.5, 2.0, 2.5], name="mass")
    >>> ax.get_xlabel(), ax.get_xlim() == ax.get_ylim()
    ('mass, true', True)
    """
    y = np.asarray(truth, float)
    found = np.asarray(predicted, float)
    ends = None if intervals is None else np.asarray(intervals, float)
    if y.ndim != 1 or y.shape != found.shape or (ends is not None and ends.shape != (len(y), 2)):
        given = f"{y.shape}, {found.shape}" + ("" if ends is None else f" and intervals of {ends.shape}")
        raise ValueError(
            f"plot.predictions: truth and predicted must be of shape (n_bags,), and intervals (n_bags, 2), got "
            f"{given}; draw one target at a time"
        )
    ax = drawing.tidy(drawing.axes_of(ax, 5.2, 5.0))
    limits, ends, missed = prediction_axes(y, found, ends)
    ax.plot(limits, limits, color=drawing.FAINT, linewidth=1.2, zorder=1)
    size = float(np.clip(6000 / len(y), 4, 30))
    if ends is None or missed is None:
        ax.scatter(y, found, s=size, color=drawing.POINT, alpha=0.7, linewidths=0, zorder=2)
    else:
        low, high = ends.T
        for which, colour, shape, word in (
            (~missed, drawing.POINT, "o", "interval holds the truth"), (missed, drawing.MISSED, "X", "does not"),
        ):  # fmt: skip
            ax.vlines(y[which], low[which], high[which], color=colour, alpha=0.35, linewidth=1.0, zorder=2)
            label = f"{word} ({which.mean():.0%})"
            style = {"s": size, "color": colour, "marker": shape, "alpha": 0.8, "linewidths": 0, "label": label}
            ax.scatter(y[which], found[which], zorder=3, **style)
        ax.legend(fontsize=drawing.SMALL, frameon=False)
    ax.set(xlim=limits, ylim=limits, aspect="equal", xlabel=f"{name}, true", ylabel=f"{name}, predicted")
    if title:
        drawing.set_title(ax, title)
    return ax


def confusion(truth: Any, predicted: Any, *, name: str = "class", title: Sequence[str] = (), ax: Any = None) -> Any:
    """Draw the shares of each true class that were taken for each class, with the numbers of bags.

    Parameters
    ----------
    truth, predicted : array-like of shape (n_bags,)
        Classes.
    name : str, default="class"
        What is predicted, for the axes.
    title : sequence of str, optional
        Pieces, which are put on as many lines as they need.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        One row per true class. Beyond fifteen classes colours stand alone.

    Examples
    --------
    >>> import distembed as de
    >>> ax = de.plot.confusion(["a", "b", "b"], ["a", "b", "a"])
    >>> [text.get_text() for text in ax.texts]
    ['1', '0', '1', '1']
    """
    found = confusion_counts(np.asarray(truth), np.asarray(predicted))
    classes, counts = found
    n = len(classes)
    names = [str(each) for each in classes]
    side = float(np.clip(2.5 + 0.45 * n, 4.2, 14))
    ax = drawing.axes_of(ax, side + 0.6, side)
    shares = found.shares
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if n <= _MOST_NUMBERS:
        for i, j in np.ndindex(n, n):
            colour = "white" if shares[i, j] > 0.5 else drawing.INK
            ax.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=colour)
    ax.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(n), names)
    ax.set(xlabel=f"{name}, predicted", ylabel=f"{name}, true")
    if title:
        drawing.set_title(ax, title)
    return ax


def reliability(
    truth: Any, probabilities: Any, *, classes: Any, n_bins: int = 10, name: str = "class", ax: Any = None
) -> Any:
    """Draw how often predictions of a probability come true, over that probability.

    Parameters
    ----------
    truth : array-like of shape (n_bags,)
        Classes.
    probabilities : array-like of shape (n_bags, n_classes)
        As of ``predict_proba``.
    classes : array-like of shape (n_classes,)
        What the columns are: ``classes_`` of the model.
    n_bins : int, default=10
        Groups of about equal numbers of bags.
    name : str, default="class"
        What is predicted.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        Bars are two standard errors to each side. Of more than two classes the probability of the predicted class is
        taken.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> p = np.random.default_rng(0).uniform(size=500)
    >>> y = np.random.default_rng(1).uniform(size=500) < p
    >>> ax = de.plot.reliability(y, np.stack([1 - p, p], axis=1), classes=[False, True], name="ill")
    >>> ax.get_xlabel()
    'predicted probability of ill True'
    """
    n_bins = check_number("plot.reliability", "n_bins", n_bins, low=1, integer=True)
    y = np.asarray(truth)
    shares = np.asarray(probabilities, float)
    names = np.asarray(classes)
    if shares.shape != (len(y), len(names)):
        raise ValueError(
            f"plot.reliability(probabilities=...): must be of shape ({len(y)}, {len(names)}), one row per bag and one "
            f"column per class, got {shares.shape}; pass predict_proba(bags)"
        )
    curve = reliability_curve(y, shares, names, n_bins)
    xlabel, ylabel = reliability_labels(names, name)
    ax = drawing.tidy(drawing.axes_of(ax, 5.2, 5.0))
    ax.plot([0, 1], [0, 1], color=drawing.FAINT, linewidth=1.2)
    style = {"fmt": "o-", "color": drawing.POINT, "linewidth": 1.2, "markersize": 5, "capsize": 2}
    ax.errorbar(curve.probabilities, curve.shares, curve.errors, **style)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=xlabel, ylabel=ylabel)
    return ax


def leaderboard(board: Any, *, ax: Any = None) -> Any:
    """Draw the scores of candidates on held-out bags, with their standard errors; the best is on top.

    Parameters
    ----------
    board : Leaderboard, learner with ``leaderboard_``, or list of dicts like it
        Rows with name, score, standard_error and weight.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        Candidates that count in the ensemble are filled, with their weights next to them. Of more than 25, the best
        ones and the baselines are drawn. The ensemble itself stands last.

    Examples
    --------
    >>> import distembed as de
    >>> rows = [{"name": "js", "score": 0.9, "standard_error": 0.02, "weight": 1.0, "seconds": 0.1},
    ...         {"name": "constant", "score": 0.0, "standard_error": 0.1, "weight": 0.0, "seconds": 0.0}]
    >>> [text.get_text() for text in de.plot.leaderboard(rows).get_yticklabels()]
    ['js', 'constant']
    """
    found = getattr(board, "leaderboard_", board)
    rows = leaderboard_rows(found, _MOST_CANDIDATES)
    ax = drawing.tidy(drawing.axes_of(ax, 7.2, 1.2 + 0.27 * len(rows)))
    for place, row in enumerate(rows):
        counts = row["weight"] > 0
        fill = drawing.POINT if counts or row["name"] == ENSEMBLE else "none"
        style = {"color": drawing.POINT, "markerfacecolor": fill, "capsize": 2, "markersize": 6, "linewidth": 1.2}
        ax.errorbar(row["score"], place, xerr=row["standard_error"], fmt="o", **style)
        if counts:
            ax.annotate(
                f"{row['weight']:.2f}", (row["score"] + row["standard_error"], place), xytext=(6, 0),
                textcoords="offset points", va="center", fontsize=8, color=drawing.INK,
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [textwrap.shorten(str(row["name"]), 40, placeholder="...") for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    score = getattr(found, "header", ("", "score"))[1]
    ax.set_xlabel(f"{score} on held-out bags (bars: one standard error; numbers: weight in the ensemble)")
    return ax


def search(found: Any, *, ax: Any = None) -> Any:
    """Draw how well settings predict held-out bags: R² over the scales of bandwidth and sigma.

    Parameters
    ----------
    found : Search, or learner with ``search_``
        Of one embedding, with ``tune`` other than None.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        A square for each pair, with the number of bags that it was scored on below R²; the chosen one has a frame.
        Where one of the two has no scale, a line.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> bags, y = de.datasets.make_cells(40, random_state=0)
    >>> model = de.DistributionRegressor("js", n_components=50, random_state=0).fit(bags, y)
    >>> de.plot.search(model).get_xlabel()
    'sigma, times its rule'
    """
    trials = getattr(found, "search_", found)
    if trials is None:
        raise ValueError("plot.search(found=...): nothing was searched; fit one embedding by its name with tune=3")
    pairs = trials.best_of_pairs()
    best = trials.best
    widths, sigmas = (
        sorted({getattr(each, name) for each in pairs if getattr(each, name) is not None})
        for name in ("bandwidth_scale", "sigma_scale")
    )
    if not widths or not sigmas:
        return _search_line(pairs, best, "bandwidth" if widths else "sigma" if sigmas else "alpha", ax)
    ax = drawing.axes_of(ax, 6.0, 4.8)
    scores = np.full((len(widths), len(sigmas)), np.nan)
    for each in pairs:
        i = widths.index(each.bandwidth_scale)
        j = sigmas.index(each.sigma_scale)
        scores[i, j] = each.r2
    low = float(np.nanmax(scores)) - 3 * max(float(np.nanmax(scores) - np.nanmedian(scores)), 0.01)
    shown = ax.imshow(scores, cmap=drawing.SEQUENTIAL, vmin=low, origin="lower", aspect="auto")
    ax.figure.colorbar(shown, ax=ax, label="R² on held-out bags", extend="min")
    middle = (low + float(np.nanmax(scores))) / 2
    for each in pairs:
        i = widths.index(each.bandwidth_scale)
        j = sigmas.index(each.sigma_scale)
        colour = "white" if scores[i, j] < middle else "black"
        ax.text(j, i, f"{scores[i, j]:.3f}\n{each.n_bags:,}", ha="center", va="center", color=colour, fontsize=8)
    at = widths.index(best.bandwidth_scale), sigmas.index(best.sigma_scale)
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((at[1] - 0.47, at[0] - 0.47), 0.94, 0.94, fill=False, edgecolor=drawing.MISSED, linewidth=3))
    ax.set_xticks(range(len(sigmas)), [f"x {each:g}" for each in sigmas])
    ax.set_yticks(range(len(widths)), [f"x {each:g}" for each in widths])
    ax.set(xlabel="sigma, times its rule", ylabel="bandwidth, times its rule")
    ax.set_title(f"chosen: the framed one, penalty {best.alpha:g}", fontsize=drawing.SMALL, loc="left")
    return ax


def _search_line(pairs: Sequence[Any], best: Any, what: str, ax: Any) -> Any:
    """R² over the one setting that was searched."""
    ax = drawing.tidy(drawing.axes_of(ax))
    name = what if what == "alpha" else f"{what}_scale"
    rows = sorted((getattr(each, name), each.r2) for each in pairs)
    ax.plot(*zip(*rows, strict=True), "o-", color=drawing.POINT)
    chosen = (getattr(best, name), best.r2)
    ax.plot(*chosen, "o", color=drawing.MISSED, markersize=11, markerfacecolor="none", markeredgewidth=2)
    ax.set(
        xscale="log", ylabel="R² on held-out bags", xlabel="penalty" if what == "alpha" else f"{what}, times its rule"
    )
    return ax


def budget(found: Any, *, ax: Any = None) -> Any:
    """Draw what each stage contributes to the mean squared error of the kernel between bags, as a waterfall.

    Parameters
    ----------
    found : ErrorBudget
        Of :func:`distembed.theory.error_budget`.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        Squares of the stages' errors, one on top of the other; what they cancel or add together; and the square of the
        total. The root stands next to each bar; the advice is the title.

    Examples
    --------
    >>> import distembed as de
    >>> stages = {"points": de.theory.Stage(0.02, -0.01, 0.05), "basis": de.theory.Stage(0.01, 0.01, 0.02)}
    >>> ax = de.plot.budget(de.theory.ErrorBudget(stages, 0.02, 0.02, 0.5, 30, "use larger bags"))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['points', 'basis', 'together', 'total']
    """
    steps, most = budget_steps(found)
    ax = drawing.tidy(drawing.axes_of(ax, 7.2, 1.6 + 0.4 * len(steps)))
    for row, step in enumerate(steps):
        colour = drawing.INK if step.name == "total" else drawing.MISSED if step.height >= 0 else "#009e73"
        ax.barh(row, step.height, left=step.left, color=colour, height=0.7)
        style = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": drawing.SMALL}
        ax.annotate(step.text, (step.end, row), **style)
    ax.set_yticks(range(len(steps)), [step.name for step in steps])
    ax.set_ylim(len(steps) - 0.5, -0.5)
    ax.set_xlim(0, 1.25 * most or 1.0)
    ax.set_xlabel("mean squared error of the kernel (numbers: its root)")
    drawing.set_title(ax, textwrap.wrap(found.advice, 80))
    return ax


# --------------------------------------------------------------------------------------------------------------
# Explanations
# --------------------------------------------------------------------------------------------------------------


def explanation(found: Any, i: int = 0, *, ax: Any = None) -> Any:
    """Draw where in space the prediction of a bag comes from, and the values of its points.

    Parameters
    ----------
    found : Explanation
        Of :func:`distembed.learners.explain.explain`, or ``model.explain(bags)``.
    i : int, default=0
        Position of the bag.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        Without a map: bars of what each column contributes, the largest above, with their errors. With one, of one
        column: the map as a curve, and the points at their values. Two: the map in colours, red where mass raises
        the prediction and blue where it lowers it, and the points in the colours of their values. More: a small picture
        for each column (``ax.child_axes``), of the mean of the map under the density at each value of the column.
        Everywhere the map is drawn where the density is a hundredth of its maximum at least.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> bags, y = de.datasets.make_cells(40, random_state=0)
    >>> model = de.DistributionRegressor("js", n_components=50, tune=None, random_state=0).fit(bags, y)
    >>> ax = de.plot.explanation(model.explain(bags[:3]), 1)
    >>> ax.get_xlabel() == (bags.columns or ("x0", "x1"))[0]
    True
    """
    i = range(found.bags.n_bags)[i]
    if found.map is None:
        return contributions(found, i, ax=ax)
    rows = slice(int(found.bags.offsets[i]), int(found.bags.offsets[i + 1]))
    points = found.bags.points[rows]
    values = found.points[rows]
    weights = found.shares[rows]
    names = drawing.names_of(found.bags)
    title = f"bag {id_text(found.bags.ids, i)}: {found.what} {found.predictions[i]:.4g}"
    label = f"change of the {found.what} with mass"
    sizes = 12 + 60 * weights / weights.max() * min(1.0, 30 / len(weights))
    if len(names) == 1:
        ax = drawing.tidy(drawing.axes_of(ax))
        _draw_curve(ax, found.nodes[0], found.map[i], found.density[i], points[:, 0], values, sizes)
        ax.set(xlabel=names[0], ylabel=label)
    elif len(names) == 2:
        ax = drawing.tidy(drawing.axes_of(ax, 7.0, 5.2))
        p = found.density[i]
        shown = weights > 0
        heights = np.where(p >= _LEAST * p.max(), found.map[i], np.nan)
        most = float(np.max(np.abs(values[shown]))) or 1.0
        colours = {"cmap": drawing.DIVERGING, "vmin": -most, "vmax": most}
        mesh = ax.pcolormesh(found.nodes[0], found.nodes[1], heights.T, shading="nearest", **colours)
        ax.scatter(*points[shown].T, s=sizes[shown], c=values[shown], edgecolors="0.2", linewidths=0.5, **colours)
        ax.figure.colorbar(mesh, ax=ax, label=label)
        ax.set(xlabel=names[0], ylabel=names[1])
    else:
        ax = drawing.axes_of(ax, 2.8 * len(names), 3.2)
        for j, panel in enumerate(drawing.panels(ax, len(names), len(names), left=0.6, above=0.1)):
            curve, density = marginal_map(found.map[i], found.density[i], j)
            _draw_curve(panel, found.nodes[j], curve, density, points[:, j], values, sizes / 2)
            panel.set_xlabel(names[j], fontsize=drawing.SMALL)
            if j == 0:
                panel.set_ylabel(label, fontsize=drawing.SMALL)
    ax.set_title(title)
    return ax


def contributions(found: Any, i: int = 0, *, most: int = 15, ax: Any = None) -> Any:
    """Draw what each column contributes to the prediction for a bag, as bars.

    Parameters
    ----------
    found : Explanation
        Of ``model.explain(bags)``.
    i : int, default=0
        Position of the bag.
    most : int, default=15
        Columns at most; the others are one bar.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        The largest contribution above; lines are standard errors.

    Examples
    --------
    >>> import distembed as de
    >>> bags, y = de.datasets.make_cells(40, random_state=0)
    >>> model = de.DistributionRegressor("mean", n_components=50, tune=None, random_state=0).fit(bags, y)
    >>> ax = de.plot.contributions(model.explain(bags[:3]), 1)
    >>> sorted(text.get_text() for text in ax.get_yticklabels())
    ['marker_a', 'marker_b']
    """
    i = range(found.bags.n_bags)[i]
    order = np.argsort(-np.abs(found.contributions[i]), kind="stable")
    names = [found.column_names[j] for j in order[:most]]
    heights = found.contributions[i, order[:most]].tolist()
    errors = found.errors[i, order[:most]].tolist()
    if len(order) > most:
        names.append(f"{len(order) - most} others")
        heights.append(float(found.contributions[i, order[most:]].sum()))
        errors.append(float(np.sqrt(np.sum(found.errors[i, order[most:]] ** 2))))
    ax = drawing.tidy(drawing.axes_of(ax, 6.4, 1.4 + 0.32 * max(len(names), 2)))
    colours = [drawing.MISSED if height >= 0 else drawing.INK for height in heights]
    rows = np.arange(len(names))
    ax.barh(rows, heights, color=colours, height=0.7)
    if any(errors):
        ax.errorbar(heights, rows, xerr=errors, fmt="none", ecolor="0.3", linewidth=1)
    ax.axvline(0, color=drawing.FAINT, linewidth=1)
    ax.set_yticks(rows, names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"contribution to the {found.what}, {found.reference_of(i):.4g} on average")
    ax.set_title(f"bag {id_text(found.bags.ids, i)}: {found.what} {found.predictions[i]:.4g}")
    return ax


def _draw_curve(ax: Any, x: Array, heights: Array, p: Array, points: Array, values: Array, sizes: Array) -> None:
    """A map of one column, the points at their values, and the line of no change."""
    ax.axhline(0, color=drawing.FAINT, linewidth=1)
    ax.plot(x, np.where(p >= _LEAST * p.max(), heights, np.nan), color=drawing.INK)
    ax.scatter(points, values, s=sizes, color=drawing.MISSED, alpha=0.6, linewidths=0, zorder=3)
