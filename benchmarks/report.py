"""The results as Markdown tables, CSV files and one picture."""

from __future__ import annotations

import csv
from pathlib import Path

from picture import draw

FIELDS = (
    "section", "case", "name", "engine", "threads", "us_a_bag", "us_a_pair", "share_of_whole", "sgemm_share",
    "copy_share", "ratio_numpy_one", "ratio_numpy_all", "ratio_numba_one", "ratio_numba_all", "m", "n_components",
    "us_hadamard", "value", "unit", "computes", "settings",
)  # fmt: skip
GROWTH_FIELDS = ("quantity", "side", "size", "seconds", "slope", "last_slope", "unit")
HOW = """\
Sides of a comparison take turns in one process, and each counts with its best turn; every side is first compared with
an independent computation of what it returns. Times are those of one run on one machine: read the ratios. *One* is one
thread, *all* is as many as the machine has cores. Input is float32 in the unit cube, M = 3 lambdas, 10 basis functions
a dimension."""
STAGES = """\
*Of the whole*: of A features by engine numpy in one thread. *Of sgemm*, *of a copy*: operations and bytes per second,
as a share of what the machine does in as many threads; every array is counted once a stage, so a stage that finds it in
the cache can exceed a copy."""
PEERS = """\
The columns with a slash are ratios to A features with that engine and so many threads. Of several variants of a peer
the fastest is shown. Loops in Python run in one thread. What compares pairs of bags is timed a pair, and its Gram
matrix is extrapolated."""
GROWTH = """\
Least-squares slopes of log time against log size, and the slope of the last step; a slope below one is work that does
not depend on the size. All points are in `bench_growth.csv`."""
HADAMARD = "Random features of m values, dense or structured; orthogonal frequencies take the time of dense ones."
Column = tuple[str, str, str]  # heading, field, kind of value
COLUMNS: dict[str, list[Column]] = {
    "machine": [
        ("speed", "name", "text"), ("engine", "engine", "text"), ("threads", "threads", "text"),
        ("value", "value", "digits"), ("", "unit", "text"), ("measured", "settings", "text"),
    ],
    "stages": [
        ("stage", "name", "text"), ("engine", "engine", "text"), ("threads", "threads", "text"),
        ("us per bag", "us_a_bag", "digits"), ("of the whole", "share_of_whole", "share"),
        ("of sgemm", "sgemm_share", "share"), ("of a copy", "copy_share", "share"), ("counted", "settings", "text"),
    ],
    "peers": [
        ("what", "name", "text"), ("computes", "computes", "text"), ("us per pair", "us_a_pair", "digits"),
        ("us per bag", "us_a_bag", "digits"), ("/ numpy, one", "ratio_numpy_one", "digits"),
        ("/ numpy, all", "ratio_numpy_all", "digits"), ("/ numba, one", "ratio_numba_one", "digits"),
        ("/ numba, all", "ratio_numba_all", "digits"), ("settings", "settings", "text"),
    ],
    "growth": [
        ("in", "quantity", "text"), ("side, threads", "side", "text"), ("from", "first", "count"),
        ("to", "last", "count"), ("ms", "ms_first", "digits"), ("to ms", "ms_last", "digits"),
        ("slope", "slope", "slope"), ("last step", "last_slope", "slope"), ("of", "unit", "text"),
    ],
    "memory": [
        ("what", "name", "text"), ("engine", "engine", "text"), ("MB", "value", "digits"), ("how", "settings", "text"),
    ],
    "crossover": [
        ("m", "m", "count"), ("D", "n_components", "count"), ("us per row, dense", "us_a_bag", "digits"),
        ("us per row, Hadamard", "us_hadamard", "digits"), ("dense / Hadamard", "value", "digits"),
    ],
}  # fmt: skip


def number(value: object, kind: str) -> str:
    """A value for the eye: three digits, a share in per cent, a whole number, or text."""
    if value is None or value == "":
        return ""
    if kind == "share":
        return f"{100 * value:.0f} %" if value >= 0.095 else f"{100 * value:.1f} %"
    if kind == "slope":
        return f"{value:.3f}"
    if kind == "digits":
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(rows: list[dict], kind: str) -> str:
    """A Markdown table with columns in line; those without any value are left out."""
    columns = [column for column in COLUMNS[kind] if any(row.get(column[1]) not in (None, "") for row in rows)]
    cells = [[number(row.get(field), kind).replace("|", "\\|") for _, field, kind in columns] for row in rows]
    cells.insert(0, [heading for heading, _, _ in columns])
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    right = [kind != "text" for _, _, kind in columns]
    rule = ["-" * (width - 1) + ":" if end else "-" * width for width, end in zip(widths, right, strict=True)]
    lines = [
        [cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(line, widths, right, strict=True)]
        for line in cells
    ]
    lines.insert(1, rule)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def pick(rows: list[dict], **values: object) -> dict:
    """The first row with these values, or an empty one."""
    return next((row for row in rows if all(row.get(key) == value for key, value in values.items())), {})


def curves(rows: list[dict]) -> list[dict]:
    """One row a curve, of its first and last point."""
    found = []
    for key in dict.fromkeys((row["quantity"], row["side"]) for row in rows):
        own = [row for row in rows if (row["quantity"], row["side"]) == key]
        ends = {"first": own[0]["size"], "last": own[-1]["size"]}
        times = {"ms_first": own[0]["seconds"] * 1e3, "ms_last": own[-1]["seconds"] * 1e3}
        found.append(own[0] | ends | times)
    return found


def in_short(results: dict[str, list[dict]]) -> list[str]:
    """The figures that others quote, one a line."""
    lines, peers = [], results.get("peers", [])
    recipe = pick(peers, name="literal recipe of the paper")
    for engine in ("numpy", "numba"):
        one, every = (pick(peers, name=f"A features, engine {engine}", threads=threads) for threads in ("one", "all"))
        if every:
            times = f"{one['us_a_bag']:.1f} us a bag in one thread, {every['us_a_bag']:.1f} in all"
            ratios = f"{recipe[f'ratio_{engine}_one']:,.0f} and {recipe[f'ratio_{engine}_all']:,.0f} times as long"
            lines.append(f"A features, engine {engine}: {times}; the literal recipe takes {ratios}.")
    dense = [row for row in results.get("stages", []) if row["name"] == "dense random features"]
    if dense:
        shares = ", ".join(f"{100 * row['value']:.0f} % ({row['engine']}, {row['threads']})" for row in dense)
        lines.append(
            f"Dense random features, m = 600, D = 5,000, sines and cosines included, as a share of sgemm: {shares}."
        )
    bags = [row for row in curves(results.get("growth", [])) if row["quantity"] == "n_bags"]
    if bags:
        slopes = ", ".join(f"{row['slope']:.3f} ({row['side']})" for row in bags)
        lines.append(
            f"From {bags[0]['first']:,} to {bags[0]['last']:,} bags time grows as n_bags to the power {slopes}."
        )
    memory = results.get("memory", [])
    if memory:
        peaks = ", ".join(f"{row['value']:.1f} MB (engine {row['engine']})" for row in memory)
        lines.append(f"Peak memory beyond input and output: {peaks}.")
    wins = [row for row in results.get("crossover", []) if row["value"] > 1 and row["n_components"] == 2 * row["m"]]
    if wins:
        lines.append(f"Hadamard frequencies win from m = {min(row['m'] for row in wins):,} on at D = 2m.")
    return lines


def markdown(results: dict[str, list[dict]], machine: str, kind: str) -> str:
    """The whole report."""
    parts = ["# Benchmark", f"Machine: {machine}. A {kind} run of `make bench`.", HOW]
    lines = in_short(results)
    if lines:
        parts += ["## In short", "\n".join(f"- {line}" for line in lines)]
    if rows := results.get("stages"):
        parts += ["## The machine", table([row for row in rows if row["section"] == "machine"], "machine")]
        parts += ["## Stages", STAGES]
        for case in dict.fromkeys(row["case"] for row in rows if row["section"] == "stages"):
            parts += [f"### {case}", table([row for row in rows if row.get("case") == case], "stages")]
    if rows := results.get("peers"):
        parts += ["## Peers", f"{rows[0]['case']}. {PEERS}", table(rows, "peers")]
    if rows := results.get("growth"):
        parts += ["## Growth", GROWTH, table(curves(rows), "growth")]
    if rows := results.get("memory"):
        parts += ["## Memory", table(rows, "memory")]
    if rows := results.get("crossover"):
        parts += ["## Hadamard frequencies", HADAMARD, table(rows, "crossover")]
    return "\n\n".join(parts) + "\n"


def write(results: dict[str, list[dict]], text: str, folder: Path) -> None:
    """bench.md, bench.csv, bench_growth.csv and bench.png; without a section, without its part."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.md").write_text(text)
    rows = [row for name, section in results.items() if name != "growth" for row in section]
    for name, fields, content in (("bench", FIELDS, rows), ("bench_growth", GROWTH_FIELDS, results.get("growth"))):
        if content:
            with open(folder / f"{name}.csv", "w", newline="") as file:
                writer = csv.DictWriter(file, fields, lineterminator="\n")
                writer.writeheader()
                writer.writerows({k: _short(v) for k, v in row.items()} for row in content)
    draw(results, folder / "bench.png")


def _short(value: object) -> object:
    return f"{float(value):.6g}" if isinstance(value, float) else value
