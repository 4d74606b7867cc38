"""Pictures of explanations: where in space a prediction comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compute.arrays import Array
from . import drawing

_LEAST = 0.01  # of the largest density: where it is lower, no map is drawn


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
        One column: the map as a curve, and the points at their values. Two: the map in colours, red where mass raises
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
    rows = slice(int(found.bags.offsets[i]), int(found.bags.offsets[i + 1]))
    points = found.bags.points[rows]
    values = found.points[rows]
    weights = found.shares[rows]
    names = drawing.names_of(found.bags)
    title = f"bag {found.bags.ids[i]}: {found.what} {found.predictions[i]:.4g}"
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
            curve, density = margin(found.map[i], found.density[i], j)
            _draw_curve(panel, found.nodes[j], curve, density, points[:, j], values, sizes / 2)
            panel.set_xlabel(names[j], fontsize=drawing.SMALL)
            if j == 0:
                panel.set_ylabel(label, fontsize=drawing.SMALL)
    ax.set_title(title)
    return ax


def margin(values: Array, density: Array, j: int) -> tuple[Array, Array]:
    """The mean of a map under a density at each value of column j, and the density of that column.

    Examples
    --------
    >>> margin(np.array([[1.0, 3.0], [5.0, 5.0]]), np.array([[3.0, 1.0], [0.0, 0.0]]), 0)
    (array([1.5, 5. ]), array([2., 0.]))
    """
    others = tuple(k for k in range(values.ndim) if k != j)
    total = density.sum(axis=others)
    plain = values.mean(axis=others)
    weighted = (values * density).sum(axis=others)
    return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), plain), density.mean(axis=others)


def _draw_curve(ax: Any, x: Array, heights: Array, p: Array, points: Array, values: Array, sizes: Array) -> None:
    """A map of one column, the points at their values, and the line of no change."""
    ax.axhline(0, color=drawing.FAINT, linewidth=1)
    ax.plot(x, np.where(p >= _LEAST * p.max(), heights, np.nan), color=drawing.INK)
    ax.scatter(points, values, s=sizes, color=drawing.MISSED, alpha=0.6, linewidths=0, zorder=3)
