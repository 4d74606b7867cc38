"""Pictures of learning curves: what more bags, and more points per bag, would bring."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import drawing


def learning_curve(found: Any, *, ax: Any = None) -> Any:
    """Draw a learning curve over the number of bags, and over the points per bag where these were varied.

    Parameters
    ----------
    found : LearningCurve
        What :func:`distembed.learning_curve` returned.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib Axes
        ``ax.child_axes`` are the curves: measured scores with two standard errors, and the law with its 90 % interval
        up to twice the largest size.

    Examples
    --------
    >>> import distembed as de
    >>> bags, severity = de.datasets.make_cells(60, random_state=0)
    >>> model = de.DistributionRegressor("mean, linear")
    >>> found = de.learning_curve(model, bags, severity, n_sizes=3, n_folds=2)
    >>> [each.get_xlabel() for each in de.plot.learning_curve(found).child_axes]
    ['training bags', 'share of the points of each bag']
    """
    parts = [("training bags", found.bags)]
    if found.points is not None:
        parts.append(("share of the points of each bag", found.points))
    ax = drawing.axes_of(ax, 4.6 * len(parts) + 0.6, 3.8)
    panels = drawing.panels(ax, len(parts), len(parts), left=0.7)
    low = min(float((law.scores - 2 * law.errors).min()) for _, law in parts)
    high = max(max(law.at(2 * law.sizes[-1]).high, float(law.scores.max())) for _, law in parts)
    for panel, (name, law) in zip(panels, parts, strict=True):
        n = np.geomspace(law.sizes[0], 2 * law.sizes[-1], 40)
        curve = np.array([law.at(each)[:3] for each in n])
        panel.fill_between(n, curve[:, 1], curve[:, 2], color=drawing.POINT, alpha=0.18, linewidth=0)
        panel.plot(n, curve[:, 0], color=drawing.POINT, linewidth=1.5)
        style = {"fmt": "o", "color": drawing.INK, "markersize": 5, "linewidth": 1.2}
        panel.errorbar(law.sizes, law.scores, yerr=2 * law.errors, **style)
        panel.axvline(law.sizes[-1], color=drawing.FAINT, linestyle=":", linewidth=1)
        panel.set(xscale="log", xlabel=name, ylim=(low - 0.05, high + 0.05))
        marks = [law.sizes[0], law.sizes[len(law.sizes) // 2], law.sizes[-1], 2 * law.sizes[-1]]
        panel.set_xticks(marks, [f"{each:g}" for each in marks])
        panel.minorticks_off()
    panels[0].set_ylabel(f"{found.score_name} of held-out bags")
    return ax
