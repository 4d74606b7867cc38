"""What an explanation of predictions is: a map for each bag and a value for each point."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags
from ..compute.checks import check_number

__all__ = ["Explanation"]

Array = NDArray[Any]

_ROWS_SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Answer of :func:`explain`; prints as a table.

    Attributes
    ----------
    map : ndarray of shape (n_bags, g_1, ..., g_l)
        g on the nodes, less its mean under the bag's density: how the prediction changes with mass that is put there,
        in units of the prediction for a share of one. Stretching the axes does not change it.
    density : ndarray of shape (n_bags, g_1, ..., g_l)
        p on the nodes, of mean one: the map means most where this is large, and ``map * density`` has the mean zero.
    nodes : tuple of l ndarrays of shape (g_j,)
        The axes of the grid in the units of the points.
    points : ndarray of shape (n_points,)
        The value of each point, in the order of ``bags.points``.
    shares : ndarray of shape (n_points,)
        w, the weight of each point divided by the sum of its bag; zero for points that the scaler drops.
    predictions : ndarray of shape (n_bags,)
        What is explained: the prediction, or the decision function of the class.
    output : object
        The class, or the number of the output.
    bags : Bags
        As they were passed.

    Examples
    --------
    >>> from distembed import HDDEmbedding
    >>> from distembed.learners.explain import explain
    >>> from distembed.learners.ridge import LinearRidge
    >>> from sklearn.pipeline import make_pipeline
    >>> bags = np.random.default_rng(0).beta([[2.0]], [[[1.0]], [[2.0]], [[3.0]]], size=(3, 50, 1))
    >>> model = make_pipeline(HDDEmbedding(n_basis=5), LinearRidge(0.01)).fit(bags, [1.0, 2.0, 3.0])
    >>> found = explain(model, bags)
    >>> found.map.shape == (3, len(found.nodes[0])), found.points.shape
    (True, (150,))
    >>> found.top(0, 3).dtype.names
    ('point', 'x0', 'weight', 'value', 'change')
    """

    map: Array
    density: Array
    nodes: tuple[Array, ...]
    points: Array
    shares: Array
    predictions: Array
    output: Any
    bags: Bags

    def of(self, i: int) -> Array:
        """Values of the points of bag i, ndarray of shape (n_i,)."""
        return self.points[self.bags._span(i)]

    def top(self, i: int, n: int = 10) -> Array:
        """The most influential points of bag i.

        Parameters
        ----------
        i : int
            Position of the bag.
        n : int, default=10
            How many points at most.

        Returns
        -------
        structured ndarray of shape (n,)
            ``point`` (its position in the bag), the coordinates by their names (x0, x1, ... if they have none),
            ``weight`` (its share w of the bag), ``value`` (v) and ``change`` (-w v / (1 - w), the first order change of
            the prediction without the point; NaN for the only one). The largest changes of either sign come first.
            ``pandas.DataFrame(table)`` makes a frame of it.
        """
        n = check_number("top", "n", n, low=1, integer=True)
        points, values, weights = self._bag(i)
        change = np.full(len(values), np.nan)
        np.divide(-weights * values, 1 - weights, out=change, where=weights < 1)
        order = np.lexsort((-np.abs(values), -np.nan_to_num(np.abs(change))))[:n]
        others = ("point", "weight", "value", "change")
        names = [f"{name}_" if name in others else name for name in self._names()]
        kinds = [(name, points.dtype) for name in names]
        kinds = [("point", np.dtype(np.int64)), *kinds, *((name, np.dtype(float)) for name in others[1:])]
        table = np.empty(len(order), dtype=kinds)
        columns = [order, *points[order].T, weights[order], values[order], change[order]]
        for name, column in zip(table.dtype.names or (), columns, strict=True):
            table[name] = column
        return table

    def plot(self, i: int, ax: Any = None) -> Any:
        """Draw the map of bag i and the values of its points; needs ``pip install 'distembed[plot]'``.

        Parameters
        ----------
        i : int
            Position of the bag.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib Axes
            One dimension: the map as a curve, and the points at their values. Two: the map in colours, red where mass
            raises the prediction and blue where it lowers it, and the points in the colours of their values, the
            largest of which has the deepest. The map is drawn where the density is a hundredth of its maximum at least.
        """
        points, values, weights = self._bag(i)
        if len(self.nodes) > 2:
            raise ValueError(
                f"Explanation.plot: draws one or two dimensions, got {len(self.nodes)}; draw a cut such as "
                "map[i][:, :, k], or look at top(i)"
            )
        try:
            pyplot = importlib.import_module("matplotlib.pyplot")
        except ImportError as error:
            raise ImportError("Explanation.plot needs matplotlib: pip install 'distembed[plot]'") from error
        if ax is None:
            ax = pyplot.subplots()[1]
        names, p = self._names(), self.density[i]
        heights = np.where(p >= 0.01 * p.max(), self.map[i], np.nan)
        sizes = 12 + 60 * weights / weights.max() * min(1.0, 30 / len(weights))
        if len(self.nodes) == 1:
            ax.axhline(0, color="0.8", linewidth=1)
            ax.plot(self.nodes[0], heights, color="0.3")
            ax.scatter(points[:, 0], values, s=sizes, color="C3", zorder=3)
            ax.set(xlabel=names[0], ylabel="change of the prediction with mass")
        else:
            most = float(np.max(np.abs(values[weights > 0]))) or 1.0
            colours = {"cmap": "RdBu_r", "vmin": -most, "vmax": most}
            mesh = ax.pcolormesh(self.nodes[0], self.nodes[1], heights.T, shading="nearest", **colours)
            shown = weights > 0
            ax.scatter(*points[shown].T, s=sizes[shown], c=values[shown], edgecolors="0.2", linewidths=0.5, **colours)
            ax.figure.colorbar(mesh, ax=ax, label="change of the prediction with mass")
            ax.set(xlabel=names[0], ylabel=names[1])
        ax.set_title(f"bag {self.bags.ids[i]}: {self.predictions[i]:.4g}")
        return ax

    def __repr__(self) -> str:
        n_bags, shown = self.bags.n_bags, min(self.bags.n_bags, _ROWS_SHOWN)
        rows = [["bag", "prediction", "lowest value", "at", "highest value", "at"]]
        for i in range(shown):
            points, values, weights = self._bag(i)
            cells = [str(self.bags.ids[i]), f"{self.predictions[i]:.4g}"]
            there = np.flatnonzero(weights > 0)
            for k in (there[values[there].argmin()], there[values[there].argmax()]):
                cells += [f"{values[k]:.3g}", "(" + ", ".join(f"{x:.4g}" for x in points[k]) + ")"]
            rows.append(cells)
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        what = "" if self.output is None else f" of output {self.output!r}"
        grid = " x ".join(str(len(axis)) for axis in self.nodes)
        title = f"Explanation of {n_bags} predictions{what}, on {grid} nodes"
        return "\n".join([title, *lines, *([f"... {n_bags - shown} more"] if n_bags > shown else [])])

    def _names(self) -> tuple[str, ...]:
        return tuple(self.bags._named().columns or ())

    def _bag(self, i: int) -> tuple[Array, Array, Array]:
        """Points, values and shares of bag i."""
        rows = self.bags._span(i)
        return self.bags.points[rows], self.points[rows], self.shares[rows]
