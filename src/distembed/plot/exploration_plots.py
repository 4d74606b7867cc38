"""Pictures of an exploration: the map of all bags, with groups and far bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags.ids import id_text
from . import drawing

_MOST_NAMED = 8


def exploration(found: Any, *, ax: Any = None) -> Any:
    """Draw the map of an exploration: groups in colours, the odd bags named with the column that makes them odd.

    Parameters
    ----------
    found : Exploration
        What :func:`distembed.explore` returned.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        Bags far from all others stand at the edge, as crosses.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> found = de.explore([rng.normal(rng.normal(size=2), 1, size=(20, 2)) for _ in range(40)])
    >>> de.plot.exploration(found).get_xlabel().startswith("principal component 1 (")
    True
    """
    xy = found.map.xy
    far = found.map.far
    ax = drawing.tidy(drawing.axes_of(ax, 7.2, 5.4))
    size = float(np.clip(8000 / max(len(xy), 1), 4, 45))
    labels = found.groups.labels
    if found.groups.n_groups > 1:
        names = np.where(labels < 0, "between", np.char.add("group ", (labels + 1).astype(str)))
        drawing.colour_bags(ax, xy[~far, 0], xy[~far, 1], names[~far], "", size)
    else:
        drawing.colour_bags(ax, xy[~far, 0], xy[~far, 1], None, "", size)
    ax.scatter(xy[far, 0], xy[far, 1], s=1.5 * size, color=drawing.INK, marker="X", linewidths=0)
    order = np.argsort(-found.odd.oddness, kind="stable")
    columns = found.odd.odd_columns
    for i in [j for j in order if far[j] or found.odd.pvalues[j] <= 0.01][:_MOST_NAMED]:
        text = f"{id_text(found.ids, int(i))}: {columns[i]}"
        ax.annotate(text, xy[i], (4, 4), textcoords="offset points", fontsize=drawing.SMALL - 1, color=drawing.INK)
    ax.margins(0.12)
    for axis, share, which in zip((ax.set_xlabel, ax.set_ylabel), found.map.shares, "12", strict=True):
        named = found.map.what.removesuffix("s") if np.isfinite(share) else found.map.what
        axis(f"{named} {which}" + (f" ({100 * share:.0f} % of the squared distances)" if np.isfinite(share) else ""))
    return ax
