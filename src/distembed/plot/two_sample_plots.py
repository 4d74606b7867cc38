"""Pictures of two-sample tests: whether two bags or groups differ, in which columns, and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compute.checks import check_number
from . import drawing


def two_sample(found: Any, *, alpha: float = 0.05, names: tuple[str, str] = ("x", "y"), ax: Any = None) -> Any:
    """Draw the answer of a test of :mod:`distembed.two_sample`.

    Parameters
    ----------
    found : TestResult, CoordinatesResult or RegionsResult
        What a test returned.
    alpha : float, default=0.05
        Adjusted p-values of at most this are marked.
    names : pair of str, default=("x", "y")
        What the two bags or groups are called.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        *Whether* they differ: the statistics of the permutations, and the observed one as a line. *Which columns*: the
        adjusted p-values on a logarithmic axis, the smallest on top. *Where*: shares of the points of each, over the
        regions of one column; for two and more, the centres of the regions in the first two columns, as large as their
        share and in red where the first has more, in blue where the second has. Regions that do not differ are hollow.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 1)), rng.normal(1.0, 1.0, size=(200, 1))
    >>> found = de.two_sample.which_regions(x, y, n_cells=8, n_permutations=99, random_state=0)
    >>> de.plot.two_sample(found, names=("before", "after")).get_ylabel()
    'share of points'
    """
    alpha = check_number("plot.two_sample", "alpha", alpha, low=0, high=1)
    if hasattr(found, "null"):
        return _draw_null(found, drawing.tidy(drawing.axes_of(ax)))
    if hasattr(found, "statistics"):
        ax = drawing.axes_of(ax, 6.8, 1.4 + 0.3 * len(found.names))
        return _draw_columns(found, alpha, drawing.tidy(ax))
    if not hasattr(found, "share_x"):
        raise TypeError(
            "plot.two_sample(found=...): must be what bags_test, groups_test, which_coordinates or which_regions "
            f"returned, got {type(found).__name__}; run one of them"
        )
    ax = drawing.tidy(drawing.axes_of(ax, 7.2, 4.8))
    return (_draw_line if len(found.names) == 1 else _draw_plane)(found, alpha, names, ax)


def _draw_null(found: Any, ax: Any) -> Any:
    ax.hist(found.null, bins=min(40, 5 + len(found.null) // 10), color=drawing.FAINT, label="permuted")
    ax.axvline(found.statistic, color=drawing.MISSED, linewidth=2, label="observed")
    ax.set(xlabel=f"statistic ({found.divergence})", ylabel="permutations")
    ax.set_title(str(found), fontsize=drawing.SMALL, loc="left")
    ax.legend(fontsize=drawing.SMALL, frameon=False)
    return ax


def _draw_columns(found: Any, alpha: float, ax: Any) -> Any:
    order = np.lexsort((found.pvalues, found.adjusted))
    p = found.adjusted[order]
    colours = [drawing.MISSED if each <= alpha else drawing.FAINT for each in p]
    ax.hlines(range(len(p)), p, 1.0, colors=colours, linewidth=2)
    ax.scatter(p, range(len(p)), c=colours, s=45, zorder=3)
    ax.axvline(alpha, color=drawing.INK, linewidth=1, linestyle=":")
    ax.set_yticks(range(len(p)), [found.names[i] for i in order])
    ax.set_ylim(len(p) - 0.5, -0.5)
    ax.set(xscale="log", xlim=(min(float(p.min()), alpha) / 2, 1.2), xlabel=f"adjusted p ({found.divergence})")
    ax.set_title(f"{int((p <= alpha).sum())} of {len(p)} columns differ", fontsize=drawing.SMALL, loc="left")
    return ax


def _draw_line(found: Any, alpha: float, names: tuple[str, str], ax: Any) -> Any:
    """Shares over the regions of one column, which are bins."""
    order = np.argsort(found.centre[:, 0])
    low = found.low[order, 0]
    high = found.high[order, 0]
    differs = found.adjusted[order] <= alpha
    edges = np.concatenate([low[:1], (high[:-1] + low[1:]) / 2, high[-1:]])
    for shares, colour, style, name in (
        (found.share_x, drawing.POINT, "-", names[0]), (found.share_y, drawing.MISSED, "--", names[1]),
    ):  # fmt: skip
        ax.stairs(shares[order], edges, color=colour, linewidth=2, linestyle=style, label=name)
    for k in np.flatnonzero(differs):
        ax.axvspan(edges[k], edges[k + 1], color="#e69f00", alpha=0.2, linewidth=0)
    ax.set(xlabel=found.names[0], ylabel="share of points", ylim=(0, None))
    ax.set_title(f"shaded: {int(differs.sum())} of {len(edges) - 1} regions differ", fontsize=drawing.SMALL, loc="left")
    ax.legend(fontsize=drawing.SMALL, frameon=False)
    return ax


def _draw_plane(found: Any, alpha: float, names: tuple[str, str], ax: Any) -> Any:
    """Centres of the regions in the first two columns."""
    differs = found.adjusted <= alpha
    most = float(np.max(np.abs(found.z))) or 1.0
    sizes = 40 + 1500 * (found.share_x + found.share_y) / 2
    x = found.centre[:, 0]
    y = found.centre[:, 1]
    style = {"cmap": drawing.DIVERGING, "vmin": -most, "vmax": most}
    ax.scatter(x[~differs], y[~differs], s=sizes[~differs], facecolors="none", edgecolors=drawing.FAINT, linewidths=1.5)
    shown = ax.scatter(x[differs], y[differs], s=sizes[differs], c=found.z[differs], edgecolors=drawing.INK, **style)
    ax.figure.colorbar(shown, ax=ax, label=f"z: red, more in {names[0]}; blue, more in {names[1]}")
    ax.set(xlabel=found.names[0], ylabel=found.names[1])
    ax.margins(0.15)
    ax.set_title(f"{int(differs.sum())} of {len(x)} regions differ", fontsize=drawing.SMALL, loc="left")
    return ax
