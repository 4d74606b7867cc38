"""Predicted against true, and the confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_confusion", "draw_numbers", "new_figure"]

Array = NDArray[Any]

_INK, _FAINT, _POINT = "#2b2b33", "#c3c6cf", "#2a6f97"
_MOST_POINTS = 20_000
_MOST_NUMBERS = 15  # classes, for counts to be written into their squares


def new_figure(width: float = 5.2, height: float = 5.0) -> Any:
    """A figure that no window belongs to."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install 'distembed[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _plain_axes(figure: Any) -> Any:
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=_INK)
    return axes


def draw_numbers(truth: Array, predicted: Array, name: str, title: str) -> Any:
    """A point for each bag, predicted over true, and the line where they are equal."""
    figure = new_figure()
    axes = _plain_axes(figure)
    if len(truth) > _MOST_POINTS:
        some = np.random.default_rng(0).choice(len(truth), _MOST_POINTS, replace=False)
        truth, predicted = truth[some], predicted[some]
    low, high = (float(f(np.concatenate([truth, predicted]))) for f in (np.min, np.max))
    room = 0.04 * (high - low) or 1.0
    ends = (low - room, high + room)
    axes.plot(ends, ends, color=_FAINT, linewidth=1.2, zorder=1)
    size = float(np.clip(6000 / len(truth), 4, 30))
    axes.scatter(truth, predicted, s=size, color=_POINT, alpha=0.7, linewidths=0, zorder=2)
    axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel=f"{name}, true", ylabel=f"{name}, predicted")
    axes.set_title(title, fontsize=9, color=_INK, loc="left")
    return figure


def draw_confusion(classes: Array, counts: Array, title: str) -> Any:
    """Shares of each true class that were taken for each class, with the numbers of bags."""
    n = len(classes)
    side = float(np.clip(2.5 + 0.45 * n, 4.2, 14))
    figure = new_figure(side + 0.6, side)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if n <= _MOST_NUMBERS:
        for i, j in np.ndindex(n, n):
            axes.text(
                j, i, f"{counts[i, j]:,}", ha="center", va="center", color="white" if shares[i, j] > 0.5 else _INK
            )
    names = [str(each) for each in classes]
    axes.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), names)
    axes.set(xlabel="predicted", ylabel="true")
    axes.set_title(title, fontsize=9, color=_INK, loc="left")
    return figure
