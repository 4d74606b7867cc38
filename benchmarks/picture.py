"""One picture of the benchmark: peers, stages, growth and random features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

OURS, THEIRS, EXTRAPOLATED = "#1f6fb2", "#b0b7bf", "#d9a441"
COLOURS = {"numpy": "#1f6fb2", "numba": "#c2452d"}
TITLES = {
    "n_bags": "bags",
    "n_points": "points per bag",
    "n_dims": "dimensions",
    "n_components": "random features",
}


def draw(results: dict[str, list[dict]], path: Path) -> None:
    """Draw what there is to the file."""
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 14), layout="constrained")
    top, middle, bottom = figure.subfigures(3, 1, height_ratios=(1.35, 1, 1))
    _peers(top.subplots(), results.get("peers", []))
    growth, stages = results.get("growth", []), results.get("stages", [])
    *panels, last = middle.subplots(1, 3)
    cases = list(dict.fromkeys(row["case"] for row in stages if "case" in row))
    for axes, case in zip(panels, cases, strict=False):
        _stages(axes, [row for row in stages if row.get("case") == case])
    *panels, corner = bottom.subplots(1, 4)
    for axes, quantity in zip([last, *panels], TITLES, strict=True):
        _growth(axes, [row for row in growth if row["quantity"] == quantity])
    _crossover(corner, results.get("crossover", []))
    figure.savefig(path, dpi=100)


def _plain(axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def _sizes(axes, sizes: list[int]) -> None:
    """Ticks at the sizes themselves."""
    ticks = sorted(set(sizes))
    axes.set_xticks(ticks, [f"{n / 1000:.3g}k" if n >= 10_000 else f"{n:,}" for n in ticks], fontsize=9)
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def _peers(axes, rows: list[dict]) -> None:
    _plain(axes, "Time a bag (logarithmic); 2-D, n = 200, float32")
    rows = sorted((row for row in rows if row.get("us_a_bag")), key=lambda row: -row["us_a_bag"])
    if not rows:
        return
    names = [f"{row['name']}, {row['threads']}" if row.get("threads") else row["name"] for row in rows]
    times = np.array([row["us_a_bag"] for row in rows])
    colours = [
        COLOURS[row["engine"]] if row.get("engine") else EXTRAPOLATED if "Gram" in row["name"] else THEIRS
        for row in rows
    ]
    bars = axes.barh(names, times, color=colours, height=0.7)
    axes.bar_label(bars, [f"{t:,.0f} us" if t >= 100 else f"{t:.3g} us" for t in times], padding=4, fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(right=times.max() * 6)
    axes.tick_params(axis="y", labelsize=9)
    axes.set_xlabel("us per bag; Gram matrices of 10,000 bags are extrapolated from pairs")


def _stages(axes, rows: list[dict]) -> None:
    _plain(axes, f"Stages, {rows[0]['case']}")
    stages = [row for row in rows if row["engine"] == "numpy" and "features" not in row["name"]]
    whole = [row for row in rows if row["name"] == "A features"]
    left = 0.0
    shades = ("#16486f", "#1f6fb2", "#6aa5d4", "#b4d2ea")
    for row, shade in zip(stages, shades, strict=True):
        axes.barh("stages (numpy, one)", row["us_a_bag"], left=left, color=shade, label=row["name"])
        left += row["us_a_bag"]
    for row in whole:
        axes.barh(f"{row['engine']}, {row['threads']}", row["us_a_bag"], color=COLOURS[row["engine"]], alpha=0.85)
    axes.invert_yaxis()
    axes.set_xlabel("us per bag")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.15), ncols=4, handlelength=1)


def _growth(axes, rows: list[dict]) -> None:
    if not rows:
        return
    _plain(axes, f"Time by number of {TITLES[rows[0]['quantity']]}")
    for side in dict.fromkeys(row["side"] for row in rows):
        own = [row for row in rows if row["side"] == side]
        sizes, times = [row["size"] for row in own], [row["seconds"] for row in own]
        colour = COLOURS.get(side.split(",")[0], "#555555")
        style = "o--" if side.endswith("all") else "o-"
        axes.loglog(sizes, times, style, color=colour, ms=4, lw=1.4, label=f"{side}: slope {own[0]['slope']:.2f}")
    axes.set_xlabel(rows[0]["unit"].split(";")[0])
    axes.set_ylabel("seconds")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False)
    _sizes(axes, [row["size"] for row in rows])


def _crossover(axes, rows: list[dict]) -> None:
    _plain(axes, "Dense over Hadamard frequencies")
    if not rows:
        return
    kinds = {"D = m": lambda m, n: n == m, "D = 2m": lambda m, n: n == 2 * m, "D = 5,000": lambda m, n: n == 5000}
    for (name, fits), colour in zip(kinds.items(), ("#6aa5d4", "#1f6fb2", "#c2452d"), strict=True):
        own = [row for row in rows if fits(row["m"], row["n_components"])]
        axes.semilogx([row["m"] for row in own], [row["value"] for row in own], "o-", ms=4, color=colour, label=name)
    axes.axhline(1, color="#555555", lw=0.8)
    axes.set_xlabel("m; Hadamard is faster above the line")
    axes.set_ylabel("ratio of times")
    _sizes(axes, [row["m"] for row in rows])
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False)
