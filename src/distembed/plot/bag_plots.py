"""Pictures of bags: each by itself, all on a map, and the matrix of their distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bags import Bags, as_bags
from ..bags.estimators import by_id
from ..bags.ids import id_text
from ..compute.arrays import Array
from ..compute.checks import check_number
from . import drawing
from .charts import density_of, limits_of, place, shares_of_labels

_MOST_SHOWN = 12  # bags, unless the user names them
_MOST_POINTS = 500  # of a bag that are drawn
# bins of densities in one column and in two
_FINE = 128
_COARSE = 48
_MOST_ORDERED = 300  # bags whose leaves are put in the best order, which takes the cube of their number
_MOST_NAMES = 40  # bags for their ids to stand beside a matrix


def bags(
    X: Any,
    which: Sequence[int] | None = None,
    *,
    columns: Any = None,
    labels: Any = None,
    max_points: int = _MOST_POINTS,
    ax: Any = None,
) -> Any:
    """Draw bags, each in a small picture of its own, all with the same axes.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags, in the units of the user.
    which : sequence of int, optional
        Positions of the bags; by default the first twelve.
    columns : name, position, or one or two of these, optional
        By default the first two columns. One: the density as a curve, and the points below; labels of a categorical
        column as bars. Two: the points, over lines of equal density.
    labels : array-like of shape (n_bags,), optional
        What stands behind the ids in the titles, such as targets.
    max_points : int, default=500
        Of larger bags evenly spaced points are drawn; densities are of all.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        ``ax.child_axes`` are the small pictures. A point in a thousand may lie outside of them.

    Notes
    -----
    Cost: O(n_points) of the bags shown. Densities are smoothed histograms; see :mod:`distembed.density` for others.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> points = np.random.default_rng(0).normal(size=(4, 50, 2))
    >>> ax = de.plot.bags(points, labels=["a", "b", "a", "b"])
    >>> [each.get_title() for each in ax.child_axes]
    ['0: a', '1: b', '2: a', '3: b']
    """
    found = as_bags(X)
    labels = by_id(labels, found, "labels")
    max_points = check_number("plot.bags", "max_points", max_points, low=1, integer=True)
    chosen = drawing.columns_of("plot.bags", found, columns, 2)
    positions = range(min(_MOST_SHOWN, found.n_bags)) if which is None else [range(found.n_bags)[i] for i in which]
    n_columns = int(np.ceil(np.sqrt(len(positions))))
    n_rows = -(-len(positions) // n_columns)
    ax = drawing.axes_of(ax, max(4.0, 2.1 * n_columns), max(3.0, 1.9 * n_rows))
    names = drawing.names_of(found)
    limits = [_limits(found, j) for j in chosen]
    for k, (i, panel) in enumerate(zip(positions, drawing.panels(ax, len(positions), n_columns), strict=True)):
        name = id_text(found.ids, i)
        title = name if labels is None else f"{name}: {_text(np.asarray(labels)[i])}"
        panel.set_title(title, fontsize=drawing.SMALL, color=drawing.INK)
        _draw_bag(panel, found, i, chosen, limits, max_points)
        if k + n_columns >= len(positions):
            panel.set_xlabel(names[chosen[0]], fontsize=drawing.SMALL)
        if k % n_columns == 0:
            panel.set_ylabel(names[chosen[1]] if len(chosen) > 1 else "density", fontsize=drawing.SMALL)
    return ax


def _limits(found: Bags, j: int) -> tuple[float, float]:
    labels = (found.categories or {}).get(j)
    return limits_of(found.points[:, j]) if labels is None else (-0.5, len(labels) - 0.5)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _draw_bag(panel: Any, found: Bags, i: int, columns: list[int], limits: list[Any], most: int) -> None:
    """One bag in its own picture."""
    rows = slice(int(found.offsets[i]), int(found.offsets[i + 1]))
    points = found.points[rows][:, columns]
    weights = None if found.weights is None else found.weights[rows]
    some = points[:: -(-len(points) // most)]
    categories = found.categories or {}
    if len(columns) == 1 and columns[0] in categories:
        shares = shares_of_labels(found, columns[0], rows)
        panel.bar(range(len(shares)), shares, color=drawing.POINT)
    elif len(columns) == 1:
        density, x = density_of(points, limits, _FINE, weights)
        panel.fill_between(x, density, color=drawing.POINT, alpha=0.25, linewidth=0)
        panel.plot(x, density, color=drawing.POINT, linewidth=1.3)
        panel.plot(some[:, 0], np.zeros(len(some)), "|", color=drawing.INK, markersize=5, alpha=0.4)
        panel.set_ylim(bottom=-0.06 * density.max())
    else:
        if not set(columns) & set(categories) and len(points) > 2 and np.ptp(points, axis=0).min() > 0:
            density, x, y = density_of(points, limits, _COARSE, weights)
            levels = density.max() * np.array([0.1, 0.3, 0.6])
            panel.contour(x, y, density.T, levels=levels, colors=drawing.INK, linewidths=0.8, alpha=0.6)
        size = float(np.clip(300 / len(some), 2, 14))
        panel.scatter(*some.T, s=size, color=drawing.POINT, alpha=0.5, linewidths=0)
        panel.set_ylim(limits[1])
    panel.set_xlim(limits[0])
    for j, axis in zip(columns, (panel.xaxis, panel.yaxis), strict=False):
        if j in categories:
            axis.set_ticks(range(len(categories[j])), [str(each) for each in categories[j]])


# --------------------------------------------------------------------------------------------------------------
# The map
# --------------------------------------------------------------------------------------------------------------


def map(  # noqa: A001
    X: Any,
    labels: Any = None,
    *,
    distances: bool = False,
    name: str = "",
    thumbnails: int = 0,
    bags: Any = None,
    columns: Any = None,
    ax: Any = None,
) -> Any:
    """Draw all bags as points in the plane, near each other where they are alike.

    Parameters
    ----------
    X : Bags, or array-like of shape (n_bags, n_features) or (n_bags, n_bags)
        Features, such as those of an embedding; or distances. Of bags, means and deviations of columns are taken.
    labels : array-like of shape (n_bags,), optional
        What colours the points: numbers by a scale, classes by colours and shapes.
    distances : bool, default=False
        Whether ``X`` has distances between bags.
    name : str, default=""
        What the labels are.
    thumbnails : int, default=0
        Number of bags, spread over the map, that get a small picture of their density next to them.
    bags : Bags or anything that :func:`distembed.as_bags` reads, optional
        Those of the thumbnails, where ``X`` is not bags.
    columns : name, position, or one or two of these, optional
        Of thumbnails; by default the first two.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        ``ax.child_axes`` are the thumbnails.

    Notes
    -----
    Principal components, or classical scaling of distances; the axes show their shares of the variance. Any other
    layout, such as one of UMAP, is drawn as it is if it has two columns of mean zero, up to a rotation. Cost:
    O(n_bags n_features min(n_bags, n_features)), or O(n_bags³) for distances.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> shift = np.repeat([0.0, 3.0], 10)
    >>> points = np.random.default_rng(0).normal(shift[:, None, None], 1.0, size=(20, 50, 2))
    >>> ax = de.plot.map(de.as_bags(points), np.repeat(["well", "ill"], 10), name="status")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['ill', 'well']
    """
    thumbnails = check_number("plot.map", "thumbnails", thumbnails, low=0, integer=True)
    given = X if isinstance(X, Bags) else None if bags is None else as_bags(bags)
    if thumbnails and given is None:
        raise ValueError("plot.map(thumbnails=...): needs bags, and X has features or distances; pass bags=...")
    xy, shares = place(X, distances)
    labels = labels if given is None else by_id(labels, given, "labels")
    ax = drawing.tidy(drawing.axes_of(ax, 7.2, 5.4))
    size = float(np.clip(8000 / len(xy), 5, 45))
    drawing.colour_bags(ax, xy[:, 0], xy[:, 1], labels, name, size)
    word = "coordinate" if distances else "principal component"
    ax.set(xlabel=f"{word} 1 ({shares[0]:.0%} of the variance)", ylabel=f"{word} 2 ({shares[1]:.0%})")
    ax.margins(0.08)
    if thumbnails and given is not None:
        _draw_thumbnails(ax, given, xy, thumbnails, columns)
    return ax


def _draw_thumbnails(ax: Any, found: Bags, xy: Array, n: int, columns: Any) -> None:
    """Densities of bags that are far from each other on the map, next to their points."""
    chosen = drawing.columns_of("plot.map", found, columns, 2)
    limits, low, high = [_limits(found, j) for j in chosen], *np.array([ax.get_xlim(), ax.get_ylim()]).T
    unit = (xy - low) / (high - low)
    places = [int(np.argmin(np.sum((unit - 0.5) ** 2, axis=1)))]
    while len(places) < min(n, len(xy)):
        nearest = np.min([np.sum((unit - unit[i]) ** 2, axis=1) for i in places], axis=0)
        places.append(int(nearest.argmax()))
    for i in places:
        x, y = np.clip(unit[i] + 0.01, 0, 0.88)
        small = ax.inset_axes((x, y, 0.12, 0.12))
        rows = slice(int(found.offsets[i]), int(found.offsets[i + 1]))
        weights = None if found.weights is None else found.weights[rows]
        density, *axes = density_of(found.points[rows][:, chosen], limits, _COARSE, weights)
        if len(chosen) == 1:
            small.fill_between(axes[0], density, color=drawing.INK, alpha=0.6, linewidth=0)
        else:
            small.pcolormesh(*axes, density.T, cmap="Greys", shading="nearest")
        small.set(xticks=[], yticks=[])
        small.set_title(id_text(found.ids, i), fontsize=6, pad=1)


# --------------------------------------------------------------------------------------------------------------
# Distances
# --------------------------------------------------------------------------------------------------------------


def distances(matrix: Any, *, ids: Any = None, labels: Any = None, name: str = "distance", ax: Any = None) -> Any:
    """Draw a matrix of distances between bags, with those that are alike next to each other.

    Parameters
    ----------
    matrix : array-like of shape (n_bags, n_bags), or Bags
        Symmetric, or nearly so; negative values, which estimates of squared distances may have, count as zero. Of bags
        the maximum mean discrepancies of their standardised points are taken; :func:`distembed.distances_between` has
        others.
    ids : array-like of shape (n_bags,), optional
        What the bags are called; written for up to forty. By default the ids of bags, and of what
        ``distances_between`` returned.
    labels : array-like of shape (n_bags,), optional
        Classes or numbers, as a strip of colours above the matrix.
    name : str, default="distance"
        What the colours are.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The order is that of the leaves of average linkage, of up to 300 bags such that neighbours are alike. O(n_bags²)
    operations, O(n_bags³) for the best order.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> x = np.array([0.0, 5.0, 0.2, 5.1])
    >>> ax = de.plot.distances(np.abs(x[:, None] - x), ids=["a", "b", "c", "d"])
    >>> sorted(text.get_text() for text in ax.get_yticklabels()[:2]) in (["a", "c"], ["b", "d"])
    True
    """
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    if isinstance(matrix, Bags):
        ids = matrix.ids if ids is None else ids
        matrix = _discrepancies(matrix)
    ids = getattr(matrix, "ids", None) if ids is None else ids
    found = np.asarray(matrix, float)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or len(found) < 2:
        raise ValueError(
            f"plot.distances(matrix=...): must be square, of at least two bags, got shape {found.shape}; pass "
            "distances of all pairs"
        )
    condensed = squareform(np.maximum((found + found.T) / 2, 0.0), checks=False)
    tree = linkage(condensed, "average")
    order = leaves_list(optimal_leaf_ordering(tree, condensed) if len(found) <= _MOST_ORDERED else tree)
    ax = drawing.axes_of(ax, 6.6, 5.6)
    shown = ax.imshow(found[np.ix_(order, order)], cmap=drawing.SEQUENTIAL, interpolation="nearest")
    ax.figure.colorbar(shown, ax=ax, label=name)
    n = len(found)
    if n <= _MOST_NAMES:
        texts = [str(each) for each in (np.arange(n) if ids is None else np.asarray(ids))[order]]
        ax.set_xticks(range(n), texts, rotation=90, fontsize=8)
        ax.set_yticks(range(n), texts, fontsize=8)
    else:
        ax.set(xticks=[], yticks=[], xlabel=f"{n:,} bags", ylabel=f"{n:,} bags")
    if labels is not None:
        _draw_strip(ax, np.asarray(labels)[order])
    return ax


def _discrepancies(found: Bags) -> Array:
    """Distances by the mean of a kernel, of standardised points."""
    from ..kernels.comparisons import Comparison
    from ..scaling import Standardize

    scaled = Standardize(robust=True).fit_transform(found)
    compare = Comparison("mmd", scaled, "plot.distances")
    return np.sqrt(np.maximum(compare.both_ways(compare.look_at(scaled)), 0.0))


def _draw_strip(ax: Any, labels: Array) -> None:
    """A strip above the matrix that shows the labels of its columns, and what its colours are."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    strip = ax.inset_axes((0, 1.02, 1, 0.04))
    strip.set(xticks=[], yticks=[])
    if labels.dtype.kind == "f":
        strip.imshow(labels[None], cmap="viridis", aspect="auto", interpolation="nearest")
        strip.set_title(f"label, from {labels.min():.4g} to {labels.max():.4g}", fontsize=8)
        return
    names, codes = np.unique(labels.astype(str), return_inverse=True)
    colours = [drawing.COLOURS[k % len(drawing.COLOURS)] for k in range(len(names))]
    strip.imshow(codes[None], cmap=ListedColormap(colours), aspect="auto", interpolation="nearest")
    patches = [Patch(color=colour, label=each) for colour, each in list(zip(colours, names, strict=True))[:12]]
    columns = min(len(patches), 4)
    strip.legend(handles=patches, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=columns, fontsize=8, frameon=False)
