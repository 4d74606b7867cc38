"""Results as tables and pictures: whole files or none, or CSV on standard output."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..compute.arrays import Array
from ..compute.atomic_files import write_whole
from ..tables import TableError
from ..tables.writing import TableWriter, open_table_writer

_INK, _FAINT, _POINT = "#2b2b33", "#c3c6cf", "#2a6f97"
_MOST_POINTS = 20_000
_MOST_NUMBERS = 15  # classes, for counts to be written into their squares


# --------------------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------------------


class _Printer:
    """Rows that come in pieces, as CSV on standard output."""

    n_rows = 0

    def add(self, columns: Mapping[str, Any]) -> None:
        """Print some rows, the header first."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        arrays = [np.asarray(values) for values in columns.values()]
        if not self.n_rows:
            rows.writerow(columns)
        rows.writerows(zip(*map(_words, arrays), strict=True))
        self.n_rows += len(arrays[0])
        click.echo(text.getvalue(), nl=False)


def _words(values: Array) -> list[str]:
    if values.dtype.kind == "b":  # as Arrow writes them
        return ["true" if value else "false" for value in values]
    return [str(value) for value in values]


@contextmanager
def open_writer(path: str | None) -> Iterator[TableWriter | _Printer]:
    """Where rows go, piece by piece: to a file that takes its name when all of it is there, or to standard output."""
    if path in (None, "-"):
        yield _Printer()
        return
    with open_table_writer(str(path)) as writer:
        yield writer
        if not writer.n_rows:
            raise TableError(f"can't write {str(path)!r}: there are no rows; check the table")


def put_table(columns: Mapping[str, Any], path: str | None) -> None:
    """Write columns to a file, or as CSV to standard output."""
    with open_writer(path) as writer:
        writer.add(columns)


def free_name(name: str, taken: Any) -> str:
    """A name for a column that is not one of those taken."""
    while name in taken:
        name += "_"
    return name


# --------------------------------------------------------------------------------------------------------------
# Pictures
# --------------------------------------------------------------------------------------------------------------


def new_figure(width: float = 5.2, height: float = 5.0) -> Any:
    """A figure that no window belongs to."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install 'distembed[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw(truth: Array, predicted: Array, matrix: tuple[Array, Array] | None, name: str, title: str) -> Any:
    """Predicted against true, or the confusion matrix of classes."""
    if matrix is None:
        return _draw_numbers(truth, predicted, name, title)
    return _draw_confusion(*matrix, title)


def _draw_numbers(truth: Array, predicted: Array, name: str, title: str) -> Any:
    """A point for each bag, predicted over true, and the line where they are equal."""
    figure = new_figure()
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)
    if len(truth) > _MOST_POINTS:
        some = np.random.default_rng(0).choice(len(truth), _MOST_POINTS, replace=False)
        truth, predicted = truth[some], predicted[some]
    low, high = (float(f(np.concatenate([truth, predicted]))) for f in (np.min, np.max))
    margin = 0.04 * (high - low) or 1.0
    ends = (low - margin, high + margin)
    axes.plot(ends, ends, color=_FAINT, linewidth=1.2, zorder=1)
    size = float(np.clip(6000 / len(truth), 4, 30))
    axes.scatter(truth, predicted, s=size, color=_POINT, alpha=0.7, linewidths=0, zorder=2)
    axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel=f"{name}, true", ylabel=f"{name}, predicted")
    axes.set_title(title, fontsize=9, color=_INK, loc="left")
    return figure


def _draw_confusion(classes: Array, counts: Array, title: str) -> Any:
    """Shares of each true class that were taken for each class, with the numbers of bags."""
    n = len(classes)
    side = float(np.clip(2.5 + 0.45 * n, 4.2, 14))
    figure = new_figure(side + 0.6, side)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if n <= _MOST_NUMBERS:
        for i, j in np.ndindex(n, n):
            color = "white" if shares[i, j] > 0.5 else _INK
            axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=color)
    names = [str(each) for each in classes]
    axes.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), names)
    axes.set(xlabel="predicted", ylabel="true")
    axes.set_title(title, fontsize=9, color=_INK, loc="left")
    return figure


def save_figure(figure: Any, path: str) -> None:
    """Write a picture, in the format of its suffix (PNG by default)."""
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    try:
        image = io.BytesIO()
        figure.savefig(image, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    except ValueError as error:
        if "format" not in str(error).lower():
            raise
        raise ValueError(f"--plot {path!r}: pictures are png, pdf or svg; rename it") from None
    with write_whole(path) as file:
        file.write(image.getvalue())
