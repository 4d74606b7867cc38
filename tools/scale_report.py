"""From measured costs of tasks to a billion bags: ``scale.csv``, ``.md`` and ``.png``, see cluster_costs.py."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

from simulate_cluster import Cluster, Work, simulate

BAGS, POINTS = 10**9, 200
PRICE = 0.04  # dollars per core and hour
TASKS, JOINS = 3, 1.125  # tasks of a part and of a join: sums, pieces of bags that are cut, count; an eighth of a group
WORKERS = (10, 100, 1000, 10_000)
ROWS = (1_000_000, 4_000_000, 8_000_000, 32_000_000)
CHOSEN = 8_000_000  # rows of a part, for a billion bags
WEATHER = {
    "nothing goes wrong": {},
    "usual": {"failures": 0.05, "slow": 0.02, "factor": 5.0},
    "rough": {"failures": 0.1, "slow": 0.05, "factor": 10.0},
}
COSTS = {  # what is measured, in seconds and bytes: its unit on the page, and how many of these make one
    "survey": ("µs per bag", 1e6),
    "read": ("µs per bag", 1e6),
    "order": ("µs per bag", 1e6),
    "embed": ("µs per bag", 1e6),
    "features": ("µs per bag", 1e6),
    "sums": ("µs per bag", 1e6),
    "sketch": ("µs per bag that is cut", 1e6),
    "finish": ("µs per bag that is cut", 1e6),
    "fixed": ("ms per part, by whole fits", 1e3),
    "pack": ("ms per part", 1e3),
    "join": ("ms per part", 1e3),
    "bytes": ("MB of a sum", 1e-6),
    "begin": ("s, settings from 1,000 bags", 1.0),
    "solve": ("s", 1.0),
    "move": ("MB per s between two workers", 1e-6),
    "task": ("ms per task, of scheduler and client", 1e3),
    "result": ("ms per result that goes to the client", 1e3),
    "client": ("µs per bag, of the client", 1e6),
    "ids": ("bytes per bag, of the client", 1.0),
    "file": ("bytes per bag, of the table", 1.0),
}
COLOURS, GREY = ("#2f6f9f", "#e09f3e", "#d1495b"), "#858995"

Costs = dict[str, float]


class Fit(NamedTuple):
    """A fit that was simulated: seconds in all and by who was waited for, if nobody had waited for others."""

    seconds: float
    client: float
    scheduler: float
    work: float  # of all workers, divided by their number
    moved: float  # bytes
    lost: int
    again: int

    def processor(self, workers: int) -> float:
        """Seconds of all processors together."""
        return self.client + self.scheduler + self.work * workers

    @property
    def limit(self) -> str:
        """Who was waited for most."""
        return max(("client", "scheduler", "work"), key=lambda name: getattr(self, name))


def simulated(costs: Costs, bags: int, rows: int, cluster: Cluster, points: int = POINTS) -> Fit:
    """The seconds of a fit: what the client does alone, the survey, and the sums.

    Parameters
    ----------
    costs : dict of str to float
        As measured, by name.
    bags, rows, points : int
        Bags of the table, rows of a part, points of a bag.
    cluster : Cluster
        Who works.
    """
    parts = max(1, -(-bags * points // rows))
    own = bags / parts
    bag = sum(costs[name] for name in ("read", "order", "embed", "features", "sums"))
    fixed = costs.get("fixed", 0.0) + costs["pack"]
    part = own * bag + fixed + costs["sketch"] + costs["finish"]  # nearly every part cuts a bag
    task, result = costs["task"], costs["result"]  # the survey of a part comes back, and the count of its bags
    survey = simulate(Work(parts, own * costs["survey"], task + result), cluster)
    sums = simulate(Work(parts, part, TASKS * task + result, costs["join"], JOINS * task, costs["bytes"]), cluster)
    client = costs["begin"] + costs["solve"] + bags * costs["client"]
    scheduler = parts * ((1 + TASKS + JOINS) * task + 2 * result)
    work = (survey.busy + sums.busy) / cluster.workers
    return Fit(
        client + survey.seconds + sums.seconds, client, scheduler, work, sums.moved, sums.lost + survey.lost, sums.again
    )


def read(out: Path) -> tuple[dict[int, Costs], list[dict[str, float]]]:
    """Costs by D, and fits that were measured."""
    with (out / "scale_costs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    widths = sorted({int(row["width"]) for row in rows if row["width"] != "any"})
    costs = {
        width: {row["name"]: float(row["value"]) for row in rows if row["width"] in ("any", str(width))}
        for width in widths
    }
    with (out / "scale_points.csv").open(newline="") as file:
        return costs, [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def fixed_cost(costs: Costs, measured: list[dict[str, float]]) -> float:
    """What a part takes beyond its measured tasks, in seconds: by fits of one worker, parts of two sizes."""
    small, *_, large = sorted((row for row in measured if row["workers"] == 1), key=lambda row: row["rows"])
    parts = [row["bags"] * POINTS / row["rows"] for row in (small, large)]
    known = [simulated(costs, int(row["bags"]), int(row["rows"]), Cluster(1)).processor(1) for row in (small, large)]
    left = (small["processor"] - known[0]) - (large["processor"] - known[1])
    return max(0.0, left / (parts[0] - parts[1]))


def write_report(
    out: Path, bags: int = BAGS, workers: tuple[int, ...] = WORKERS, sizes: tuple[int, ...] = ROWS
) -> None:
    """Simulate, and write table, page and picture into a folder that has the measurements."""
    costs, measured = read(out)
    first = min(costs)
    fixed = fixed_cost(costs[first], measured)
    for each in costs.values():
        each["fixed"] = fixed
    for row in measured:
        here = Cluster(int(row["workers"]), bandwidth=costs[first]["move"])
        fit = simulated(costs[int(row["width"])], int(row["bags"]), int(row["rows"]), here)
        row["simulated"], row["expected"] = fit.seconds, fit.processor(here.workers)
    found = [
        (width, name, n, CHOSEN, simulated(each, bags, CHOSEN, Cluster(n, **how)))
        for width, each in costs.items()
        for name, how in WEATHER.items()
        for n in workers
    ]
    by_size = [
        (first, "usual", n, rows, simulated(costs[first], bags, rows, Cluster(n, **WEATHER["usual"])))
        for n in workers[-2:]
        for rows in sizes
    ]
    with (out / "scale.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["width", "weather", "workers", "rows", *Fit._fields, "limit"])
        for *case, fit in found + by_size:
            table.writerow([*case, *(f"{value:.6g}" for value in fit), fit.limit])
    (out / "scale.md").write_text(page(costs, measured, found, by_size, bags), encoding="utf-8")
    draw(measured, [case for case in found if case[0] == first], by_size, bags, out / "scale.png")


PAGE = """# A billion bags, simulated

`python tools/cluster_costs.py`: tasks of bags of {points} points in the plane were measured on one core, and {bags:,}
of these bags are simulated; docs/scale.md tells how, and what follows.

![Fits measured and simulated; time against workers; time against the size of parts](scale.png)

## Measured: tasks

{costs}

## Measured: whole fits

The lesser of two runs of `cluster.fit`, D = {width:,.0f}, {n_measured:,.0f} bags: processor time of client, scheduler
and workers together, and time by the clock, which other work on the machine makes longer.

{measured}

## Simulated: workers, parts of {chosen:,} rows

{by_workers}

## Simulated: sizes of parts, D = {width:,.0f}, usual weather

{by_size}

`failures` are workers lost per worker and hour, which are back after a minute; `slow` is the share of tasks that take
`factor` times as long: {weather}. What moves goes at 1 GB per second and worker. All workers are paid from beginning
to the end, {price} dollars per core and hour. The table has {size:,.1f} TB.
"""


def table_of(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def page(costs: dict[int, Costs], measured: list[Any], found: list[Any], by_size: list[Any], bags: int) -> str:
    """The page of results."""
    head = ["seconds", "client alone", "scheduler", "work / workers", "moved, TB", "lost", "parts again", "core hours",
            "dollars"]  # fmt: skip

    def cells(workers: int, fit: Fit) -> list[str]:
        hours = workers * fit.seconds / 3600
        shown = [*(f"{value:,.0f}" for value in fit[:4]), f"{fit.moved / 1e12:,.2f}", f"{fit.lost:,}", f"{fit.again:,}"]
        return [*shown, f"{hours:,.0f}", f"{hours * PRICE:,.2f}"]

    return PAGE.format(
        points=POINTS,
        bags=bags,
        chosen=CHOSEN,
        price=PRICE,
        width=measured[0]["width"],
        n_measured=measured[0]["bags"],
        size=bags * costs[min(costs)]["file"] / 1e12,
        weather="; ".join(
            f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in how.items())
            for name, how in WEATHER.items()
            if how
        ),
        costs=table_of(
            ["", *(f"D = {width:,}" for width in costs)],
            [
                [f"{name}, {unit}", *(f"{factor * each[name]:,.3g}" for each in costs.values())]
                for name, (unit, factor) in COSTS.items()
            ],
        ),
        measured=table_of(
            ["workers", "rows of a part", "processor time, s", "simulated", "time, s", "simulated"],
            [
                [f"{row['workers']:.0f}", f"{row['rows']:,.0f}"]
                + [f"{row[name]:.1f}" for name in ("processor", "expected", "seconds", "simulated")]
                for row in measured
            ],
        ),
        by_workers=table_of(
            ["D", "weather", "workers", *head],
            [[f"{width:,}", name, f"{n:,}", *cells(n, fit)] for width, name, n, _, fit in found],
        ),
        by_size=table_of(
            ["rows of a part", "parts", "workers", *head],
            [
                [f"{rows:,}", f"{-(-bags * POINTS // rows):,}", f"{n:,}", *cells(n, fit)]
                for _, _, n, rows, fit in by_size
            ],
        ),
    )


def draw(measured: list[Any], found: list[Any], by_size: list[Any], bags: int, path: Path) -> None:
    """Fits measured and simulated; time against workers, and against the size of parts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for n, colour in ((1, COLOURS[0]), (2, COLOURS[2])):
        own = [row for row in measured if row["workers"] == n]
        rows, name = [row["rows"] for row in own], f"{n} worker{'s' * (n > 1)}"
        left.plot(rows, [row["expected"] for row in own], color=colour, label=f"{name}, simulated")
        left.plot(rows, [row["processor"] for row in own], "o", color=colour, label=f"{name}, measured")
    left.set(xscale="log", ylim=(0, None), xlabel="rows of a part", ylabel="processor time, s")
    left.set_title(f"{measured[0]['bags']:,.0f} bags")
    for name, colour in zip(WEATHER, COLOURS, strict=True):
        own = [(n, fit.seconds / 3600) for _, weather, n, _, fit in found if weather == name]
        middle.plot(*zip(*own, strict=True), color=colour, label=name)
    *_, n, _, fit = found[0]
    middle.plot([1, 10_000], [fit.work * n / 3600, fit.work * n / 36e6], ":", color=GREY, label="work / workers")
    middle.axhline(fit.client / 3600, color=GREY, linestyle="--", linewidth=1, label="the client alone")
    typical = sorted(row["rows"] for row in measured)[len(measured) // 2]
    own = [
        (row["workers"], row["processor"] / row["workers"] * bags / row["bags"] / 3600)
        for row in measured
        if row["rows"] == typical
    ]
    middle.plot(*zip(*own, strict=True), "o", color="#3a3a3a", label="measured, times more bags")
    middle.set(xscale="log", yscale="log", xlabel="workers", ylabel="hours", title=f"{bags:,} bags")
    for number, colour in zip(sorted({case[2] for case in by_size}), COLOURS, strict=False):
        own = [(rows, fit.seconds / 3600) for _, _, n, rows, fit in by_size if n == number]
        right.plot(*zip(*own, strict=True), "o-", color=colour, label=f"{number:,} workers")
    right.set(xscale="log", yscale="log", xlabel="rows of a part", ylabel="hours", title="Which size of parts")
    for ax in (left, middle, right):
        ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
