"""What a fit by a cluster costs: tasks measured on this machine, and a billion bags simulated from them.

    python tools/cluster_costs.py [--measure] [--bags 40000] [--out results]

``--measure`` takes some minutes, on two idle cores, and writes ``scale_costs.csv`` (seconds and bytes of tasks) and
``scale_points.csv`` (whole fits by one and two workers). Without it both are read. Then ``scale.csv``, ``scale.md`` and
``scale.png`` are made by ``simulate_cluster.py``, of which docs/scale.md tells.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from scale_report import write_report
from soak_cluster import workers

POINTS, ROWS = 200, 500_000  # of a bag, of a part
WIDTHS = (2000, 5000)  # D
SAMPLE = 1000  # bags that decide settings
N_BAGS = 2 * ROWS // POINTS  # of which tasks are measured


def write(folder: Path, n_bags: int, n_points: int, rows: int) -> Path:
    """A table in the order of its bags, in one file."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, path = np.random.default_rng(0), folder / f"{n_bags}-{n_points}-{rows}.parquet"
    schema = pa.schema({"id": pa.int64(), "x": pa.float32(), "y": pa.float32()})
    with parquet.ParquetWriter(path, schema) as out:
        for first in range(0, n_bags, 5000):
            own = np.repeat(np.arange(first, min(first + 5000, n_bags)), n_points)
            points = (rng.normal(size=(2, len(own))) * (1 + own % 7)).astype(np.float32)
            out.write_table(pa.table([own, *points], schema=schema), row_group_size=min(rows, 100_000))
    return path


def learner(width: int) -> Any:
    """What is fitted: settings are given."""
    import distembed as de

    return de.DistributionRegressor("js", n_components=width, tune=None, max_search_bags=SAMPLE, random_state=0)


def best(work: Callable[[], Any], times: int = 3) -> float:
    """The least of some times, in seconds of processor time, which other work beside hardly changes."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def of_workers(path: Path, width: int) -> dict[str, float]:
    """Tasks of workers, in this process, with one thread: a part of the table, and its sums."""
    from distembed import cluster
    from distembed.cluster.engine import alone
    from distembed.cluster.parts import bags_of, rows_of, take
    from distembed.cluster.sums import PackedSums
    from distembed.embeddings.sketches import row_from_pieces
    from distembed.learners.sketched_bags import Steps

    table = cluster.open(path, bag="id", partition_rows=ROWS)
    part, spec, found = table.parts[0], table.spec, dict[str, float]()
    with alone():
        found["survey"] = best(lambda: np.unique(rows_of(part, spec, ids_only=True).ids, return_counts=True))
        found["read"] = best(lambda: rows_of(part, spec))
        rows = rows_of(part, spec)
        ids = np.unique(rows.ids)
        found["order"] = best(lambda: bags_of(take(rows, ids), spec))
        bags = bags_of(rows, spec)
        y = np.asarray(bags.ids % 7, float)
        model, some = learner(width), slice(0, SAMPLE)
        found["begin"] = best(lambda: model.fit_batches(lambda: iter([(bags[some], y[some])])), 1)
        before, start = dict(model.timings_), time.process_time()
        for first in range(0, len(bags), 1024):
            model.partial_fit(bags[first : first + 1024], y[first : first + 1024])
        spent = {name: seconds - before.get(name, 0.0) for name, seconds in model.timings_.items()}
        rate = (time.process_time() - start) / sum(spent.values())
        found["embed"] = rate * (spent["scaling"] + spent["embedding"])
        found["features"], found["sums"] = rate * spent["random features"], rate * spent["linear model"]
        found = {name: value if name == "begin" else value / len(bags) for name, value in found.items()}
        steps, cut = Steps.of(model), bags[:100]
        sketches = steps.sketches(cut)
        found["sketch"] = best(lambda: steps.sketches(cut)) / len(cut)
        found["finish"] = best(lambda: [row_from_pieces(steps.embedding, [one, one]) for one in sketches]) / len(cut)
        equations = model.model_.head.ridge.learned()
        found["solve"] = best(lambda: deepcopy(model.model_.head.ridge).adopt(equations).solve(), 1)
        copies = [deepcopy(equations) for _ in range(2)]
        found["pack"] = best(lambda: PackedSums.of(copies.pop()), 2)
        packed = PackedSums.of(deepcopy(equations))
        found["join"], found["bytes"] = best(lambda: packed.join(packed)), float(packed.G.nbytes)
    found["file"] = path.stat().st_size / N_BAGS
    return found


def of_the_rest(folder: Path) -> dict[str, float]:
    """What moves between workers, and what scheduler and client do, in processor time of their process."""
    import distembed as de
    from distembed import cluster
    from distembed.cluster.engine import Graph

    found = dict[str, float]()
    with workers(2) as client:
        one, two = client.scheduler_info()["workers"]
        sent = []
        for _ in range(3):
            made = client.submit(np.ones, 2**22, workers=[one], pure=False)
            client.submit(len, made, workers=[one], pure=False).result()
            start = time.perf_counter()
            client.submit(len, made, workers=[two], pure=False).result()
            sent.append(time.perf_counter() - start)
        found["move"] = 2**25 / min(sent)
        n_tasks = 2000
        for name in ("task", "result"):
            graph = Graph(client, str)
            asked = [graph.add("task", i, int, i) for i in range(n_tasks)]
            few = [graph.add("few", i, len, asked[i : i + 50]) for i in range(0, n_tasks, 50)]
            start = time.process_time()
            graph.compute(few if name == "task" else asked)
            found[name] = (time.process_time() - start) / n_tasks
        found["result"] -= found["task"]
        plain, spent = de.DistributionRegressor("mean", n_components=None, tune=None, max_search_bags=100), []
        sizes, peaks = (20_000, 220_000), []
        for n_bags in sizes:
            table = cluster.open(write(folder, n_bags, 2, 10**9), bag="id", partition_rows=n_bags // 4)
            labels = de.tables.LabelTable(np.arange(n_bags), np.arange(n_bags) % 7.0)
            start = time.process_time()
            cluster.fit(plain, table, labels, client=client)
            spent.append(time.process_time() - start)
            tracemalloc.start()
            cluster.fit(plain, table, labels, client=client)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        found["client"], found["ids"] = np.diff(spent)[0] / np.diff(sizes)[0], np.diff(peaks)[0] / np.diff(sizes)[0]
    return found


def points(folder: Path, n_bags: int, width: int) -> list[dict[str, float]]:
    """Whole fits by one and two workers, in turns, parts of three sizes."""
    from distembed import cluster
    from distembed.tables import LabelTable

    path, labels = write(folder, n_bags, POINTS, 10**9), LabelTable(np.arange(n_bags), np.arange(n_bags) % 7.0)
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for _ in range(2):
        for n in (1, 2):
            with workers(n) as client:
                small = cluster.open(path, bag="id", partition_rows=4 * ROWS)
                cluster.fit(learner(50), small, labels, client=client)  # workers have imported all they need
                for rows in (ROWS // 5, ROWS, 2 * ROWS):
                    table, start = cluster.open(path, bag="id", partition_rows=rows), time.perf_counter()
                    before = processor_time(client)
                    cluster.fit(learner(width), table, labels, client=client)
                    took = time.perf_counter() - start, processor_time(client) - before
                    known = found.get((n, rows), took)
                    found[n, rows] = min(known[0], took[0]), min(known[1], took[1])
    return [
        {"workers": n, "rows": rows, "bags": n_bags, "width": width, "seconds": took, "processor": spent}
        for (n, rows), (took, spent) in found.items()
    ]


def processor_time(client: Any) -> float:
    """Of this process and of all workers so far."""
    return time.process_time() + sum(client.run(time.process_time).values())


def measure(out: Path, n_bags: int) -> None:
    """Measure, and write both files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [("any", key, value) for key, value in of_the_rest(folder).items()]
        path = write(folder, N_BAGS, POINTS, ROWS)
        for width in WIDTHS:
            rows += [(str(width), key, value) for key, value in of_workers(path, width).items()]
        with (out / "scale_costs.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("width", "name", "value"), *rows])
        measured = points(folder, n_bags, WIDTHS[0])
    with (out / "scale_points.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(measured[0]))
        table.writeheader()
        table.writerows(measured)


def main(argv: list[str] | None = None) -> None:
    """Measure if asked to, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure tasks and fits on this machine first")
    parser.add_argument("--bags", type=int, default=40_000, help="of the fits that are measured")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "results")
    asked = parser.parse_args(argv)
    if asked.measure:
        measure(asked.out, asked.bags)
    write_report(asked.out)


if __name__ == "__main__":
    main()
