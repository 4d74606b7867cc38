"""What all pictures share: figures, colours that everybody can tell apart, small multiples, titles."""

from __future__ import annotations

import math
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array

INK = "#2b2b33"
FAINT = "#c3c6cf"
POINT = "#0072b2"
MISSED = "#d55e00"
# Okabe and Ito's colours, which people of all kinds of colour vision tell apart; yellow is too pale on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SEQUENTIAL = "cividis"
DIVERGING = "RdBu_r"
SMALL = 9  # points of a font, which can be read in a picture of 800 pixels

_WIDTHS = (80, 65, 50, 40, 30, 20)  # characters of a line of a title that are tried
_GLUE = "\N{NO-BREAK SPACE}"


_WINDOWS = ContextVar("windows", default=True)


@contextmanager
def without_windows() -> Iterator[None]:
    """Figures made inside belong to nobody: a command that writes files opens no window and keeps nothing alive."""
    token = _WINDOWS.set(False)
    try:
        yield
    finally:
        _WINDOWS.reset(token)


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches: the one place that decides where pictures appear.

    It belongs to pyplot, so a notebook shows it below its cell, and ``plt.show()`` shows it in a script. Without a
    display pyplot falls back to a backend that only writes files. Windows belong to the main thread: in other threads,
    and inside :func:`without_windows`, the figure stands alone.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("distembed.plot needs matplotlib: pip install 'distembed[plot]'") from error
    if not _WINDOWS.get() or threading.current_thread() is not threading.main_thread():
        return Figure(figsize=(width, height), layout="constrained")
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained")


def axes_of(ax: Any, width: float = 6.4, height: float = 4.6) -> Any:
    """The axes to draw on: those of the caller, or new ones."""
    return new_figure(width, height).subplots() if ax is None else ax


def tidy(ax: Any) -> Any:
    """Axes with two lines in place of a box."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=INK, labelsize=SMALL)
    return ax


def panels(ax: Any, n: int, n_columns: int | None = None, *, left: float = 0.5, above: float = 0.28) -> list[Any]:
    """Axes of n small pictures inside of axes, row by row; in inches, what stands left of and above each."""
    n_columns = n_columns or math.ceil(math.sqrt(n))
    n_rows = -(-n // n_columns)
    ax.set_axis_off()
    box = ax.get_position()
    wide, high = ax.figure.get_size_inches()
    if ax.figure.get_layout_engine() is None:  # with one, axes without ticks will fill the figure
        wide = wide * box.width
        high = high * box.height
    left = left / wide
    above = above / high
    below = 0.45 / high
    width = 1 / n_columns
    height = 1 / n_rows
    found = []
    for k in range(n):
        i, j = divmod(k, n_columns)
        corner = (j * width + left, 1 - (i + 1) * height + below)
        found.append(tidy(ax.inset_axes((*corner, 0.95 * width - left, height - below - above))))
    return found


def names_of(bags: Bags) -> tuple[str, ...]:
    """Names of the columns; x0, x1, ... where they have none."""
    return tuple(bags.named_parts().columns or ())


def columns_of(owner: str, bags: Bags, columns: Any, most: int) -> list[int]:
    """Positions of columns that are given by name or position; by default the first ones."""
    names = names_of(bags)
    if columns is None:
        return list(range(min(most, bags.n_dims)))
    wanted = [columns] if isinstance(columns, str | int) else list(columns)
    found = [names.index(each) if each in names else each for each in wanted]
    strange = [each for each in found if not isinstance(each, int | np.integer) or not 0 <= each < bags.n_dims]
    if strange or not 1 <= len(found) <= most:
        raise ValueError(
            f"{owner}(columns=...): must name one to {most} of the columns {', '.join(names[:10])}, or give their "
            f"positions, got {columns!r}; choose among these"
        )
    return [int(each) for each in found]


def colour_bags(ax: Any, x: Array, y: Array, labels: Any, name: str, size: float) -> None:
    """A point for each bag: by a colour scale for numbers, by colours and shapes for classes, which a legend names."""
    if labels is None:
        ax.scatter(x, y, s=size, color=POINT, alpha=0.8, linewidths=0)
        return
    values = np.asarray(labels)
    if values.shape != x.shape:
        raise ValueError(f"plot.map(labels=...): must be of shape ({len(x)},), got {values.shape}; pass one per bag")
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(values)) > len(COLOURS)):
        shown = ax.scatter(x, y, s=size, c=values.astype(float), cmap=SEQUENTIAL, alpha=0.9, linewidths=0)
        ax.figure.colorbar(shown, ax=ax, label=name)
        return
    classes = np.unique(values.astype(str))
    for k, each in enumerate(classes):
        here = values.astype(str) == each
        shape = MARKERS[k // len(COLOURS) % len(MARKERS)]
        shape = MARKERS[k % len(MARKERS)] if len(classes) <= len(COLOURS) else shape
        colour = COLOURS[k % len(COLOURS)]
        ax.scatter(x[here], y[here], s=size, color=colour, marker=shape, alpha=0.8, linewidths=0, label=each)
    ax.legend(title=name or None, fontsize=SMALL, frameon=False, ncols=1 + (len(classes) - 1) // 12)


def set_title(ax: Any, pieces: Sequence[str]) -> None:
    """Put a title above the axes: its first piece, and the others on as many lines as they need to fit the picture."""
    figure = ax.figure
    for most in _WIDTHS:
        lines = [pieces[0], *textwrap.wrap(", ".join(each.replace(" ", _GLUE) for each in pieces[1:]), most)]
        text = "\n".join(lines).replace(_GLUE, " ")
        title = ax.set_title(text, fontsize=SMALL, color=INK, loc="left")
        figure.draw_without_rendering()
        if title.get_window_extent().x1 <= figure.bbox.x1:
            return
