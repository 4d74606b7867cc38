"""What the script of a report knows of every bag: ids, predictions, densities and explanations, as short texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from ..bags import Bags
from ..bags.ids import canonical_text
from ..compute.arrays import Array
from ..compute.svg import number
from ..learners.explain import map_of
from ..learners.prediction_table import inner
from ..plot.charts import limits_of, marginal_map
from .predictions import Effects, Predictions

DENSITIES = 3  # columns whose densities the report holds for every bag
MOST_MAPS = 300  # bags whose explanation the report holds
BINS = 28  # of the density of a column
SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def payload(model: Any, bags: Bags, y: Array | None, made: Predictions, effect: Effects) -> dict[str, Any]:
    """What the script of the page knows of every bag."""
    texts, about = densities(bags, [j for j, _ in effect.of_points[:DENSITIES]])
    predicted = [text_of(each) for each in made.predicted]
    if made.probabilities is not None:
        best = made.probabilities.max(axis=1)
        predicted = [f"{each} ({share:.0%})" for each, share in zip(predicted, best, strict=True)]
    if made.intervals is not None:
        ends = [f" [{number(low)}, {number(high)}]" for low, high in made.intervals]
        predicted = [each + more for each, more in zip(predicted, ends, strict=True)]
    changes = {
        int(row): [float(f"{value:.3g}") for value in values[:8]]
        for row, values in zip(effect.rows, effect.changes, strict=True)
    }
    return {
        "ids": canonical_text(bags.ids).tolist(),
        "labels": None if y is None else [text_of(each) for each in y],
        "predicted": predicted,
        "sizes": bags.sizes.tolist(),
        "seen": made.trained.astype(int).tolist(),
        "densities": texts,
        "columns": about,
        "maps": explain_bags(model, bags, made, [j for j, _ in effect.of_points[:DENSITIES]]),
        "effects": {"columns": effect.columns[:8], "changes": changes, "explained": effect.explained},
    }


def text_of(value: Any) -> str:
    """A target or prediction as text."""
    return number(float(value)) if isinstance(value, int | float | np.number) else str(value)


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


def explain_bags(model: Any, bags: Bags, made: Predictions, columns: list[int]) -> dict[int, list[tuple[str, float]]]:
    """Where in some columns mass changes the prediction of a bag, for learners of one density embedding that explain.

    Of at most 300 bags: for each column a sign for each bin of :func:`densities`, from the most negative change to the
    most positive one and a blank where the bag has no density, and the largest change. Nothing if the model does not
    have a map. See :func:`distembed.learners.explain.map_of`.
    """
    learner = inner(model)
    found = dict[int, list[tuple[str, float]]]()
    if not hasattr(learner, "model_"):
        return found
    some = np.unique(np.linspace(0, bags.n_bags - 1, min(bags.n_bags, MOST_MAPS)).astype(int))
    outputs = np.full(len(some), made.output)
    if hasattr(learner, "classes_"):
        outputs = np.argmax(made.predicted[some][:, None] == learner.classes_, axis=1)
    answer = map_of(learner.model_, bags[some], outputs)
    if answer is None:
        return found
    middles = {j: _middles(limits_of(bags.points[:, j])) for j in columns}
    for k, i in enumerate(some.tolist()):
        curves = [marginal_map(answer.map[k], answer.density[k], j) for j in columns]
        found[i] = [
            _as_signs(np.interp(middles[j], answer.nodes[j], curve), np.interp(middles[j], answer.nodes[j], density))
            for j, (curve, density) in zip(columns, curves, strict=True)
        ]
    return found


def _middles(limits: tuple[float, float]) -> Array:
    edges = np.linspace(*limits, BINS + 1)
    return np.asarray((edges[1:] + edges[:-1]) / 2)


def _as_signs(curve: Array, density: Array) -> tuple[str, float]:
    """A curve as signs, and what the last of these stands for."""
    there = density >= 0.01 * density.max()
    most = float(np.max(np.abs(curve[there]), initial=0.0))
    levels = np.rint(31.5 + 31.5 * np.clip(curve / (most or 1.0), -1, 1)).astype(int)
    return "".join(SIGNS[level] if here else " " for level, here in zip(levels, there, strict=True)), float(
        f"{most:.3g}"
    )
