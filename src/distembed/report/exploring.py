"""From an exploration of bags without labels to one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.ids import canonical_text, id_text
from ..compute.arrays import Array
from ..compute.atomic_files import write_whole
from ..compute.svg import Chart, number, padded, sparkline
from ..plot.charts import density_of, limits_of
from .sections import columns_of
from .writing import open_template, versions

Section = dict[str, Any]

MOST_ON_MAP = 5000  # bags
MOST_ODD = 50
MOST_COLUMNS = 6  # of charts of groups
_MOST_SCORES = 8  # columns of a bag
_MOST_NEAR = 5
_MOST_POINTS = 100_000  # of a group, for its density
_BINS = 64


def explore(
    found: Any, path: str | os.PathLike[str], *, name: str = "bags", run: Mapping[str, Any] | None = None
) -> None:
    """Write an exploration as one HTML file, which needs no network and no other file.

    Parameters
    ----------
    found : Exploration
        What :func:`distembed.explore` returned.
    path : path
        The file, which is replaced when the page is complete.
    name : str, default="bags"
        What the bags are called in the title.
    run : mapping of str to anything, optional
        What else stands under "what was run", such as a command.

    Notes
    -----
    Needs jinja2: ``pip install 'distembed[report]'``. Everything from the table is escaped. The map has at most 5,000
    bags, the oddest among them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import distembed as de
    >>> found = de.explore(np.random.default_rng(0).normal(size=(30, 20, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     de.report.explore(found, f"{folder}/bags.html")
    ...     with open(f"{folder}/bags.html", encoding="utf-8") as file:
    ...         text = file.read()
    >>> "Odd bags" in text
    True
    """
    template = open_template("explore.html")
    chosen = _on_map(found)
    page = {
        "title": f"{number(len(found.sizes))} {name}",
        "overview": _overview(found),
        "map": _map(found, chosen),
        "odd": _odd(found),
        "groups": _groups(found),
        "factors": _factors(found),
        "payload": _payload(found, chosen),
        "run": [*((str(key), str(value)) for key, value in (run or {}).items()), *versions()],
    }
    text = template.render(**page)
    with write_whole(Path(path)) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _on_map(found: Any) -> Array:
    """Positions of the bags on the map: all, or the oddest and others at random."""
    n = len(found.sizes)
    if n <= MOST_ON_MAP:
        return np.arange(n)
    oddest = np.argsort(-found.odd.oddness, kind="stable")[: MOST_ON_MAP // 10]
    others = np.setdiff1d(np.arange(n), oddest)
    drawn = np.random.default_rng(0).choice(others, MOST_ON_MAP - len(oddest), replace=False)
    return np.sort(np.concatenate([oddest, drawn]))


def _overview(found: Any) -> Section:
    sizes = found.sizes[found.sizes > 0]
    counts = np.histogram(np.log(sizes), 24)[0] if np.ptp(sizes) else [len(sizes)]
    cards = [
        ("bags", number(len(found.sizes))),
        ("points", number(int(found.sizes.sum()))),
        ("columns", number(len(found.column_names))),
        ("points per bag", " / ".join(number(each) for each in np.quantile(found.sizes, [0, 0.5, 1]))),
        ("groups", number(found.groups.n_groups) if found.groups.n_groups > 1 else "none"),
        ("bags with p ≤ .01", f"{found.summary['n_odd']:,} ({len(found.sizes) / 100:,.0f} by chance)"),
    ]
    return {
        "cards": cards,
        "text": found.summary["text"],
        "sizes": sparkline(counts, "bag sizes, on a logarithmic scale"),
        "columns": columns_of(found.sample, None),
    }


def _is_odd(found: Any) -> Array:
    return np.asarray(found.map.far | (found.odd.pvalues <= 0.01))


def _map(found: Any, chosen: Array) -> Section:
    xy = found.map.xy[chosen]
    odd = _is_odd(found)[chosen]
    labels = found.groups.labels[chosen]
    plain = [f"k{k % 7}" if k >= 0 else "k6" for k in labels.tolist()]
    kinds = [f"{kind} odd" if far else kind for kind, far in zip(plain, odd.tolist(), strict=True)]
    axes = [
        f"{found.map.what} {i}" if np.isnan(share) else f"component {i} ({share:.0%} of the squared distances)"
        for i, share in zip((1, 2), found.map.shares, strict=True)
    ]
    chart = Chart("Map of the bags", padded(xy[:, 0]), padded(xy[:, 1]), *axes, width=680, height=450)
    chart.points(xy[:, 0], xy[:, 1], kinds, r=float(np.clip(90 / np.sqrt(len(xy)), 2, 6)))
    order = np.argsort(-found.odd.oddness[chosen], kind="stable")
    columns = found.odd.odd_columns
    right = float(np.mean(chart.xlim))
    for i in [j for j in order if odd[j]][:3]:
        words = f"{_short(id_text(found.ids, int(chosen[i])))}: {_short(columns[chosen[i]])}"
        chart.text(float(xy[i, 0]), float(xy[i, 1]), words, "start" if xy[i, 0] < right else "end", "name")
    legend = [("odd", "odd bags")]
    if found.groups.n_groups > 1:
        legend = [(f"k{k % 7}", f"group {k + 1}") for k in range(min(found.groups.n_groups, 7))] + legend
    shown = f"The two axes, {found.map.what}, show {found.map.shown:.0%} of the squared distances."
    if len(chosen) < len(found.sizes):
        shown += f" Of {len(found.sizes):,} bags {len(chosen):,} are drawn, the oddest among them."
    return {"chart": chart, "legend": legend, "text": shown}


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _odd(found: Any) -> Section:
    order = np.argsort(-found.odd.oddness, kind="stable")[:MOST_ODD]
    names = found.odd.odd_columns
    places = {name: j for j, name in enumerate(found.column_names)}
    of_sample = {name: i for i, name in enumerate(canonical_text(found.sample.ids).tolist())}
    rows = []
    for i in order.tolist():
        at = of_sample.get(canonical_text(found.ids[i : i + 1]).tolist()[0])
        values = ["-", "-", "-"] if at is None else _values(found.sample, at, places[names[i]])
        p, odd = found.odd.pvalues[i], found.odd.oddness[i]
        rows.append([id_text(found.ids, i), number(int(found.sizes[i])), f"{p:.2g}", f"{odd:.1f}", names[i], *values])
    n = len(found.sizes)
    text = (
        "p is the share of bags that are at least as odd, at the size of this bag: bags are not odd for being small. "
        f"If all were alike, {n / 100:,.0f} of {n:,} would have p ≤ .01, and {found.summary['n_odd']:,} have."
    )
    return {"rows": rows, "text": text}


def _values(bags: Bags, i: int, j: int) -> list[str]:
    labels = (bags.categories or {}).get(j)
    values = bags.points[bags.offsets[i] : bags.offsets[i + 1], j]
    if labels is not None:
        return ["", f"mostly {labels[int(np.bincount(values.astype(int)).argmax())]}", ""]
    return [number(float(each)) for each in (values.min(), values.mean(), values.max())]


def _groups(found: Any) -> Section:
    groups = found.groups
    if groups.n_groups < 2:
        best = max(groups.strengths.items(), key=lambda each: each[1], default=None)
        tried = "" if best is None else f" ({best[0]} come closest: {best[1]:.0%}, and 80% is asked)"
        text = "No number of groups of some bags is found again in the others: bags merge into each other" + tried
        return {"rows": [], "text": f"{text}."}
    rows = []
    for k, columns in enumerate(groups.columns):
        n = int((groups.labels == k).sum())
        differs = "; ".join(str(each) for each in columns[:3])
        rows.append([f"group {k + 1}", f"{n:,}", id_text(found.ids, int(groups.medoids[k])), differs])
    between = int((groups.labels < 0).sum())
    strength = groups.strengths.get(groups.n_groups)
    text = f"{groups.n_groups} groups" + (f", found again in other bags ({strength:.0%})" if strength else "")
    text += f"; {between:,} bags lie between them." if between else "."
    return {
        "rows": rows,
        "text": text,
        "names": [f"group {k + 1}" for k in range(groups.n_groups)],
        "charts": _charts(found),
    }


def _charts(found: Any) -> list[Chart]:
    """Densities of the groups in the columns in which they differ most."""
    bags = found.sample
    at = {name: i for i, name in enumerate(canonical_text(found.ids).tolist())}
    labels = np.array([found.groups.labels[at[name]] for name in canonical_text(bags.ids).tolist()])
    owners = np.repeat(labels, bags.sizes)
    best: dict[str, float] = {}
    for columns in found.groups.columns:
        for each in columns:
            best[each.name] = max(best.get(each.name, 0.0), abs(each.effect), abs(each.spread))
    places = {name: j for j, name in enumerate(found.column_names)}
    charts = []
    for name in sorted(best, key=lambda each: -best[each])[:MOST_COLUMNS]:
        j = places[name]
        if j in (bags.categories or {}):
            continue
        limits = limits_of(bags.points[:, j])
        lines = []
        for k in range(found.groups.n_groups):
            values = bags.points[owners == k][:, [j]]
            values = values[:: max(1, len(values) // _MOST_POINTS)]
            lines.append(density_of(values, [limits], _BINS))
        top = max(float(density.max()) for density, _ in lines)
        chart = Chart(
            f"Points of the groups in {name}", limits, (0, 1.05 * top), _short(name, 40), width=320, height=200
        )
        for k, (density, x) in enumerate(lines):
            chart.line(x, density, f"line k{k % 7}")
        charts.append(chart)
    return charts


def _factors(found: Any) -> Section:
    order = sorted(found.factors.items(), key=lambda each: -each[1][0])
    pairs = [
        [id_text(found.ids, each.first), id_text(found.ids, each.second), f"{each.shared:.0%}"]
        for each in found.duplicates[:MOST_ODD]
    ]
    return {"rows": [[name, f"{share:.1%}", f"{p:.2g}"] for name, (share, p) in order], "duplicates": pairs}


def _payload(found: Any, chosen: Array) -> dict[str, Any]:
    """What the script of the page knows of the bags on the map."""
    from scipy.spatial import cKDTree

    scores = found.odd.column_scores[chosen]
    order = np.argsort(-scores, axis=1, kind="stable")[:, :_MOST_SCORES]
    values = np.take_along_axis(scores, order, axis=1)
    xy = found.map.xy[chosen]
    k = min(_MOST_NEAR + 1, len(xy))
    near = cKDTree(xy).query(xy, k)[1].reshape(len(xy), -1)
    names = found.odd.odd_columns
    return {
        "ids": canonical_text(found.ids[chosen]).tolist(),
        "sizes": found.sizes[chosen].tolist(),
        "p": [f"{p:.2g}" for p in found.odd.pvalues[chosen]],
        "columns": [names[i] for i in chosen.tolist()],
        "names": list(found.odd.column_names),
        "scores": [
            [[int(j), f"{value:.1f}"] for j, value in zip(*each, strict=True)]
            for each in zip(order, values, strict=True)
        ],
        "near": [[int(j) for j in row if j != i][:_MOST_NEAR] for i, row in enumerate(near.tolist())],
    }
