"""Bags as notebooks show them: sizes and columns, each with a small picture."""

from __future__ import annotations

import numpy as np

from ..compute.svg import html_table, number, sparkline
from .flat import FlatBags

MOST_COLUMNS = 20
_MOST_POINTS = 100_000  # that are looked at
_BARS = 24


def bags_html(bags: FlatBags) -> str:
    """A table of the columns under a line of the sizes; O(n_points) at most, of a hundred thousand points.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> text = bags_html(Bags.from_arrays([[1.0, 2.0], [3.0]], columns=["<x>"]))
    >>> text.count("<svg"), "&lt;x&gt;" in text
    (2, True)
    """
    parts, sizes = bags.named_parts(), bags.sizes
    points = bags.points[:: max(1, bags.n_points // _MOST_POINTS)]
    rows = []
    for j, name in enumerate((parts.columns or ())[:MOST_COLUMNS]):
        values, labels = points[:, j], (bags.categories or {}).get(j)
        if labels is None:
            counts = np.histogram(values, _BARS)[0]
            facts = [number(each) for each in np.quantile(values, [0, 0.5, 1])]
        else:
            counts = np.bincount(values.astype(int), minlength=len(labels))
            facts = [f"{len(labels)} labels", str(labels[int(counts.argmax())]), ""]
        rows.append([name, *facts, sparkline(counts, f"distribution of {name}")])
    spread = np.histogram(np.log(sizes), _BARS)[0] if sizes.min() < sizes.max() else np.array([len(sizes)])
    facts = [number(each) for each in np.quantile(sizes, [0, 0.5, 1])]
    rows.insert(0, ["(points per bag)", *facts, sparkline(spread, "bag sizes, on a logarithmic scale")])
    left = bags.n_dims - MOST_COLUMNS
    title = f"Bags: {bags.n_bags:,} bags, {bags.n_points:,} points, {bags.n_dims} columns"
    note = f"... {left} more columns" if left > 0 else ""
    return html_table(["column", "lowest", "median", "highest", "distribution"], rows, title, note)
