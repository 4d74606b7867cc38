"""What is to be seen of the bags themselves: columns, sizes, densities, and their places on a map."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from ..bags import Bags
from ..bags.missing import SUFFIX
from ..compute.arrays import Array
from ..compute.svg import number, sparkline
from ..learners.model import Model
from ..learners.predicted import inner
from ..plot.of_bags import place
from ..plot.of_explanations import margin
from ..plot.smoothing import limits_of
from .predicting import AT_ONCE

MOST_MAPS = 300  # bags whose explanation the report holds
BINS = 28  # of the density of a column
SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
MOST_PLACED = 2000  # bags that decide the axes of the map
LEAK = 0.1  # share of the variance that bag sizes may explain without a word


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


def densities(bags: Bags, columns: list[int]) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """Densities of all bags in some columns as text, a sign for each bin, and what each column is.

    Each density is in units of its own maximum. Cost: O(n_points) for each column.
    """
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    shares = bags.shares()
    texts = []
    about = []
    names = list(bags.named_parts().columns or ())
    signs = np.array(list(SIGNS))
    for j in columns:
        labels = (bags.categories or {}).get(j)
        if labels is None:
            low, high = limits_of(bags.points[:, j])
            n = BINS
            cells = np.clip((bags.points[:, j] - low) / (high - low) * n, 0, n - 1).astype(int)
        else:
            low = -0.5
            high = len(labels) - 0.5
            n = len(labels)
            cells = bags.points[:, j].astype(int)
        counts = np.bincount(owner * n + cells, shares, minlength=bags.n_bags * n).reshape(-1, n)
        counts = counts if labels is not None else gaussian_filter1d(counts.astype(float), 1.0, axis=1, mode="nearest")
        every = counts.sum(axis=0)
        levels = np.rint(63 * counts / np.maximum(counts.max(axis=1, keepdims=True), 1e-300)).astype(int)
        texts.append(["".join(row) for row in signs[levels]])
        ends = (number(low), number(high)) if labels is None else (str(labels[0]), str(labels[-1]))
        about.append(
            {"name": names[j], "low": ends[0], "high": ends[1], "all": (every / every.max()).round(3).tolist()}
        )
    return [list(row) for row in zip(*texts, strict=True)], about


def explained(model: Any, bags: Bags, predicted: Array, columns: list[int]) -> dict[int, list[tuple[str, float]]]:
    """Where in some columns mass changes the prediction of a bag, for learners of one density embedding that explain.

    Of at most 300 bags: for each column a sign for each bin of :func:`densities`, from the most negative change to the
    most positive one and a blank where the bag has no density, and the largest change. Nothing if the model does not
    explain. See :func:`distembed.learners.explain.explain`.
    """
    learner = inner(model)
    found = dict[int, list[tuple[str, float]]]()
    if bags.categories is not None or not hasattr(learner, "explain"):
        return found
    some = np.unique(np.linspace(0, bags.n_bags - 1, min(bags.n_bags, MOST_MAPS)).astype(int))
    outputs = [(None, some)]
    if hasattr(learner, "classes_"):
        outputs = [(each, some[predicted[some] == each]) for each in learner.classes_]
    try:
        answers = [(rows, learner.explain(bags[rows], output=output)) for output, rows in outputs if len(rows)]
    except (TypeError, ValueError):  # the many models that do not
        return found
    middles = {j: _middles(limits_of(bags.points[:, j])) for j in columns}
    for rows, answer in answers:
        for k, i in enumerate(rows.tolist()):
            curves = [margin(answer.map[k], answer.density[k], j) for j in columns]
            found[i] = [
                _signed(np.interp(middles[j], answer.nodes[j], curve), np.interp(middles[j], answer.nodes[j], density))
                for j, (curve, density) in zip(columns, curves, strict=True)
            ]
    return found


def _middles(limits: tuple[float, float]) -> Array:
    edges = np.linspace(*limits, BINS + 1)
    return np.asarray((edges[1:] + edges[:-1]) / 2)


def _signed(curve: Array, density: Array) -> tuple[str, float]:
    """A curve as signs, and what the last of these stands for."""
    there = density >= 0.01 * density.max()
    most = float(np.max(np.abs(curve[there]), initial=0.0))
    levels = np.rint(31.5 + 31.5 * np.clip(curve / (most or 1.0), -1, 1)).astype(int)
    return "".join(SIGNS[level] if here else " " for level, here in zip(levels, there, strict=True)), float(
        f"{most:.3g}"
    )


def layout(model: Any, bags: Bags) -> tuple[Array, Array, str]:
    """Places of bags on a map, their shares of the variance, and of what features these are.

    A learner of one embedding has its features; else means and deviations of columns are taken. Axes are decided by
    2,000 bags.
    """
    learner = inner(model)
    few = np.unique(np.linspace(0, bags.n_bags - 1, min(bags.n_bags, MOST_PLACED)).astype(int))
    if not isinstance(getattr(learner, "model_", None), Model) or not learner.model_.is_single:
        xy, shares = place(bags)
        return xy, shares, "means and deviations of the columns"
    view = learner.model_.view

    def rows(some: Bags) -> Array:
        return np.asarray(view.embed(view.scale(some)), float)

    A = rows(bags[few])
    mean = A.mean(axis=0)
    values, vectors = np.linalg.eigh((A - mean) @ (A - mean).T)
    axes = (A - mean).T @ vectors[:, ::-1][:, :2]
    axes = axes / np.maximum(np.linalg.norm(axes, axis=0), 1e-300)
    shares = np.maximum(values[::-1], 0)[:2] / max(float(values.sum()), 1e-300)
    pieces = [rows(bags[k : k + AT_ONCE]) - mean for k in range(0, bags.n_bags, AT_ONCE)]
    return np.concatenate([piece @ axes for piece in pieces]), shares, f"features of {type(view.embedding).__name__}"
