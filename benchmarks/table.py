"""From a table on disk to a model and to predictions, beside what the machine can do and what people would write.

    python benchmarks/table.py [--bags 10000 100000] [--orders sorted near shuffled] [--dims 2] [--components 2000]

Tables are Parquet, 200 points per bag, coordinates in float32, 5,000 bags per row group: rows in order of their bags,
shuffled within 10,000 bags ("near"), or all shuffled. The target is the spread of a bag, in units of its own.

Limits of the machine, in the same run, on the same table: DuckDB's read of all columns, DuckDB's sort of all rows with
the result written, both in two threads within the same memory limit, and products of matrices in float32: 2 n D² for
the sums of ridge regression, 2 n w D for random features of w values. Rivals: means, deviations and quartiles of each
column by DuckDB or pandas, then ridge regression or boosted trees. Memory is the largest resident set of a process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
POINTS, PER_GROUP, NEAR = 200, 5000, 10_000
WIDTH = 1000  # of the A features of js in the plane: ten lambda functions, ten by ten cosines
TESTED = 2000


def make(folder, n_bags, order, dims, rng):
    """A table and its labels; nothing is made twice."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path, labels = folder / f"{order}-{dims}-{n_bags}.parquet", folder / f"{n_bags}.csv"
    spread = np.random.default_rng(n_bags).uniform(0.5, 1.5, size=n_bags)
    if not labels.exists():
        rows = (f"{bag},{value:.6f}\n" for bag, value in enumerate(spread))
        labels.write_text("bag,spread\n" + "".join(rows))
    if path.exists():
        return path, labels
    names = ["bag", *(f"x{j}" for j in range(dims))]
    schema = pa.schema([("bag", pa.int64()), *((name, pa.float32()) for name in names[1:])])
    with parquet.ParquetWriter(str(path), schema) as writer:
        block = n_bags if order == "shuffled" else NEAR
        for first in range(0, n_bags, block):
            ids = np.repeat(np.arange(first, min(first + block, n_bags)), POINTS)
            if order != "sorted":
                rng.shuffle(ids)
            for start in range(0, len(ids), PER_GROUP * POINTS):
                some = ids[start : start + PER_GROUP * POINTS]
                points = rng.standard_normal((len(some), dims), dtype=np.float32)
                points *= spread[some, None].astype(np.float32)
                writer.write_table(pa.table([some, *points.T], schema=schema))
    return path, labels


def in_process(code, *given):
    """Seconds, largest resident set in GB and what a program prints."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    pid = subprocess.Popen([sys.executable, "-c", code, *map(str, given)], stdout=subprocess.PIPE, text=True)
    out, _ = pid.communicate()
    if pid.returncode:
        raise SystemExit(f"a part of the benchmark failed: {code[:60]!r}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return perf_counter() - start, cpu, out


DUCKDB = """
import duckdb, sys
path, limit, query = sys.argv[1:]
connection = duckdb.connect(config={"memory_limit": limit, "threads": "2"})
connection.execute(query.format(path=path)).fetchall()
"""
FIT = "import sys; from distembed.cli import main; sys.argv[0] = 'distembed'; sys.exit(main())"
AGGREGATES = """
import sys, time, numpy as np, duckdb
from sklearn.linear_model import RidgeCV
path, labels, n, kind = sys.argv[1:]
if kind == "duckdb":
    names = [row[0] for row in duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()][1:]
    parts = ", ".join(f"avg({x}), stddev({x}), approx_quantile({x}, [.25, .5, .75])" for x in names)
    rows = duckdb.sql(f"SELECT bag, {parts} FROM '{path}' GROUP BY bag ORDER BY bag").fetchnumpy()
    F = np.column_stack([np.stack(v) if v.dtype == object else v for v in list(rows.values())[1:]])
    model = RidgeCV(10.0 ** np.arange(-3, 3))
else:
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingRegressor
    groups = pd.read_parquet(path).groupby("bag")
    F = pd.concat([groups.mean(), groups.std(), groups.quantile(.25), groups.quantile(.75)], axis=1).to_numpy()
    model = HistGradientBoostingRegressor(random_state=0)
y = np.loadtxt(labels, delimiter=",", skiprows=1)[:, 1]
order = np.random.default_rng(0).permutation(len(y)); test, train = order[:2000], order[2000:]
model.fit(F[train], y[train])
print(np.sqrt(np.mean((model.predict(F[test]) - y[test]) ** 2)))
"""


def product_seconds(n_bags, width, components):
    """Seconds of float32 products: n x w times w x D, and 2 n D² for the sums, by blocks of 2,048 rows."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((2048, components), dtype=np.float32)
    A, W = rng.standard_normal((2048, width), dtype=np.float32), rng.standard_normal((width, components), np.float32)
    best = [np.inf, np.inf]
    for _ in range(5):
        for i, (left, right) in enumerate(((A, W), (Z.T, Z))):
            start = perf_counter()
            left @ right
            best[i] = min(best[i], perf_counter() - start)
    return tuple(n_bags / 2048 * each for each in best)


def measure(folder, n_bags, order, dims, components, limit, rivals, rng):
    """One row of the table."""
    path, labels = make(folder, n_bags, order, dims, rng)
    model, out = folder / "model.distembed", folder / "predictions.parquet"
    row = {"order": order, "dims": dims, "bags": n_bags}
    row["read"] = in_process(DUCKDB, path, limit, "SELECT count(*), " + ", ".join(
        f"sum(x{j})" for j in range(dims)) + ", max(bag) FROM '{path}'")[0]  # fmt: skip
    sort = f"COPY (SELECT * FROM '{{path}}' ORDER BY bag) TO '{folder / 'sorted.parquet'}' (FORMAT parquet)"
    row["sort"] = in_process(DUCKDB, path, limit, sort)[0]
    row["features"], row["sums"] = product_seconds(n_bags, WIDTH, components)
    fit = ["fit", path, "--bag", "bag", "--labels", labels, "--label", "spread", "--embedding", "js", "--components",
           components, "--out-of-core", "--memory-limit", limit, "--restart", "--json", "-o", model]  # fmt: skip
    for name, more in (("fit", ["--tune", "none"]), ("with search", [])):
        row[name], row[f"{name}, cpu"], said = in_process(FIT, *fit, *more)
        found = json.loads(said)
        if name == "fit":
            row["stages"], row["rmse"] = found["seconds"], found["scores"]["rmse"]["value"]
    row["predict"] = in_process(FIT, "predict", model, path, "-o", out, "-q")[0]
    row["memory"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    for kind in ("duckdb", "pandas") if rivals else ():
        row[kind], _, said = in_process(AGGREGATES, path, labels, n_bags, kind)
        row[f"{kind} rmse"] = float(said)
    bound = row["sort"] + row["sums"] if order == "shuffled" else row["read"] + row["features"] + row["sums"]
    row["ratio"] = row["fit"] / bound
    row["predict ratio"] = row["predict"] / (row["read"] + row["features"])
    return row


def main(argv=None):
    """Print the table, and write it to results/table.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--orders", nargs="+", default=["sorted", "near", "shuffled"])
    parser.add_argument("--dims", type=int, nargs="+", default=[2])
    parser.add_argument("--components", type=int, default=2000)
    parser.add_argument("--memory-limit", default="500MB")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "table.md")
    given = parser.parse_args(argv)
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        for dims in given.dims:
            for n_bags in given.bags:
                for order in given.orders:
                    rng = np.random.default_rng(0)
                    rows.append(measure(folder, n_bags, order, dims, given.components, given.memory_limit,
                                        not given.no_rivals, rng))  # fmt: skip
                    print(json.dumps(rows[-1]), flush=True)
    write(rows, given)


def write(rows, given):
    """A page of Markdown."""
    names = ("read", "sort", "features", "sums", "fit", "fit, cpu", "with search", "predict", "ratio", "predict ratio")
    rivals = ("rmse", "duckdb", "duckdb rmse", "pandas", "pandas rmse")
    lines = [
        "# From a table to a model", "",
        f"{POINTS} points per bag, float32, D = {given.components:,}, {given.memory_limit}, {os.cpu_count()} cores.",
        "Seconds.", "",
        "*ratio* is the fit with settings given, over the sort and the product of the sums for shuffled rows, over",
        "the read and the products of features and sums for others. *predict ratio* is over the read and the product",
        "of the features. Made by `make bench-table`.", "",
        "| order | dims | bags | " + " | ".join(names) + " | GB | " + " | ".join(rivals) + " |",
        "|" + "---|" * (4 + len(names) + len(rivals)),
    ]  # fmt: skip
    for row in rows:
        cells = [f"{row[name]:.3g}" if name in row else "" for name in (*names, "memory", *rivals)]
        lines.append(f"| {row['order']} | {row['dims']} | {row['bags']:,} | " + " | ".join(cells) + " |")
    lines += ["", "## Stages of the fit, seconds", ""]
    for row in rows:
        stages = ", ".join(f"{name} {seconds:.3g}" for name, seconds in row["stages"].items())
        lines.append(f"- {row['order']}, {row['dims']}-D, {row['bags']:,} bags: {stages}")
    given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
