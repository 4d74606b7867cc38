"""Pictures of predictions: against the truth, with intervals where there are some, or the confusion matrix."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..compute.arrays import Array
from ..compute.atomic_files import write_whole

_INK, _FAINT, _POINT, _MISSED = "#2b2b33", "#c3c6cf", "#2a6f97", "#b3404a"
_MOST_NUMBERS = 15  # classes, for counts to be written into their squares
_TITLE_SIZE, _WIDTHS = 9, (80, 65, 50, 40, 30, 20)  # characters of a line that are tried
_GLUE = "\N{NO-BREAK SPACE}"


def new_figure(width: float, height: float) -> Any:
    """A figure that no window belongs to."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: str) -> None:
    """Write a picture, in the format of its suffix (PNG by default)."""
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    image = io.BytesIO()
    figure.savefig(image, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    with write_whole(path) as file:
        file.write(image.getvalue())


def draw_numbers(
    path: str, truth: Array, predicted: Array, name: str, title: Sequence[str], ends: tuple[Array, Array] | None = None
) -> None:
    """Draw predicted over true to a file, a point for each bag, and the line where they are equal.

    `ends` are those of intervals; one that does not hold the truth has another colour. `title` comes in pieces, which
    are put on as many lines as it takes.
    """
    figure = new_figure(5.2, 5.0)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)
    all_values = np.concatenate([truth, predicted, *(() if ends is None else ends)])
    all_values = all_values[np.isfinite(all_values)]
    margin = 0.04 * float(np.ptp(all_values)) or 1.0
    limits = (all_values.min() - margin, all_values.max() + margin)
    axes.plot(limits, limits, color=_FAINT, linewidth=1.2, zorder=1)
    size = float(np.clip(6000 / len(truth), 4, 30))
    if ends is not None:
        low, high = (np.clip(each, *limits) for each in ends)
        missed = (truth < low) | (truth > high)
        for which, color in ((~missed, _POINT), (missed, _MISSED)):
            axes.vlines(truth[which], low[which], high[which], color=color, alpha=0.35, linewidth=1.0, zorder=2)
            axes.scatter(truth[which], predicted[which], s=size, color=color, alpha=0.8, linewidths=0, zorder=3)
    else:
        axes.scatter(truth, predicted, s=size, color=_POINT, alpha=0.7, linewidths=0, zorder=2)
    axes.set(xlim=limits, ylim=limits, aspect="equal", xlabel=f"{name}, true", ylabel=f"{name}, predicted")
    _set_title(figure, axes, title)
    save_figure(figure, path)


def draw_confusion(path: str, classes: Array, counts: Array, name: str, title: Sequence[str]) -> None:
    """Draw to a file the shares of each true class that were taken for each class, with the numbers of bags."""
    n, names = len(classes), [str(each) for each in classes]
    side = float(np.clip(2.5 + 0.45 * n, 4.2, 14))
    figure = new_figure(side + 0.6, side)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if n <= _MOST_NUMBERS:
        for i, j in np.ndindex(n, n):
            color = "white" if shares[i, j] > 0.5 else _INK
            axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=color)
    axes.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), names)
    axes.set(xlabel=f"{name}, predicted", ylabel=f"{name}, true")
    _set_title(figure, axes, title)
    save_figure(figure, path)


def _set_title(figure: Any, axes: Any, pieces: Sequence[str]) -> None:
    """Put a title above the axes: its first piece, and the others on as many lines as they need to fit the picture."""
    for most in _WIDTHS:
        lines = [pieces[0], *textwrap.wrap(", ".join(each.replace(" ", _GLUE) for each in pieces[1:]), most)]
        text = "\n".join(lines).replace(_GLUE, " ")
        title = axes.set_title(text, fontsize=_TITLE_SIZE, color=_INK, loc="left")
        figure.draw_without_rendering()
        if title.get_window_extent().x1 <= figure.bbox.x1:
            return
