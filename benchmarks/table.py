"""From a table on disk to a model and to predictions, beside what the machine can do and what people would write.

    python benchmarks/table.py [--bags 10000 100000] [--orders sorted near shuffled] [--dims 1 2 3] [--folder FOLDER]

Tables are Parquet, 200 points per bag, coordinates in float32, 5,000 bags per row group: rows in order of their bags,
shuffled within 10,000 bags ("near"), or all shuffled. The target is the spread of a bag, in units of its own.

Limits of the machine, in the same run, on the same table: DuckDB's read of all columns, DuckDB's sort of all rows with
the result written, both in two threads within the same memory limit, and products of matrices in float32: 2 n D² for
the sums of ridge regression, 2 n w D for random features of w values. Rivals: means, deviations and quartiles of each
column by DuckDB, Polars or pandas, then ridge regression or boosted trees. Memory is the largest resident set of one
process, the fit.

Each row is of one run, and is added to results/table.csv, where it takes the place of an older one of the same table;
so rows may be measured one by one. The page and the picture are of all rows there.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
POINTS, PER_GROUP, NEAR = 200, 5000, 10_000
TESTED = 2000
ORDERS = ("sorted", "near", "shuffled")
RIVALS = ("duckdb", "polars", "pandas")
KEY = ("order", "dims", "bags", "components")


# --------------------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------------------


def make(folder, n_bags, order, dims):
    """A table and its labels; nothing is made twice."""
    folder.mkdir(parents=True, exist_ok=True)
    path, labels = folder / f"{order}-{dims}-{n_bags}.parquet", folder / f"{n_bags}.csv"
    if path.exists() and labels.exists():
        return path, labels
    spread, rng = np.random.default_rng(n_bags).uniform(0.5, 1.5, size=n_bags), np.random.default_rng(0)
    if not labels.exists():
        rows = (f"{bag},{value:.6f}\n" for bag, value in enumerate(spread))
        labels.write_text("bag,spread\n" + "".join(rows))
    if path.exists():
        return path, labels
    import pyarrow as pa
    import pyarrow.parquet as parquet

    names = ["bag", *(f"x{j}" for j in range(dims))]
    schema = pa.schema([("bag", pa.int64()), *((name, pa.float32()) for name in names[1:])])
    unfinished = path.with_suffix(".unfinished")
    with parquet.ParquetWriter(str(unfinished), schema) as writer:
        block = n_bags if order == "shuffled" else NEAR
        for first in range(0, n_bags, block):
            ids = np.repeat(np.arange(first, min(first + block, n_bags), dtype=np.int32), POINTS)
            if order != "sorted":
                rng.shuffle(ids)
            for start in range(0, len(ids), PER_GROUP * POINTS):
                some = ids[start : start + PER_GROUP * POINTS]
                points = rng.standard_normal((len(some), dims), dtype=np.float32)
                points *= spread[some, None].astype(np.float32)
                writer.write_table(pa.table([some.astype(np.int64), *points.T], schema=schema))
    unfinished.rename(path)
    return path, labels


# --------------------------------------------------------------------------------------------------------------
# Processes
# --------------------------------------------------------------------------------------------------------------


DUCKDB = """
import duckdb, sys
path, limit, query = sys.argv[1:]
connection = duckdb.connect(config={"memory_limit": limit, "threads": "2"})
connection.execute("SET enable_progress_bar = false")
connection.execute(query.format(path=path)).fetchall()
"""
COMMAND = "import sys; from distembed.cli import main; sys.argv[0] = 'distembed'; sys.exit(main())"
GATHER = """
import sys, time
from distembed.tables import BagTable
table = BagTable(sys.argv[1], bag="bag", memory_limit=sys.argv[2])
start = time.perf_counter()
for bags in table.batches():
    pass
print(time.perf_counter() - start)
"""
PRODUCTS = """
import sys, time, numpy as np
from distembed.files import load
n_bags, width = int(sys.argv[2]), len(load(sys.argv[1]).embedding_.get_feature_names_out())
rng, components = np.random.default_rng(0), int(sys.argv[3])
Z, other = rng.standard_normal((2, 2048, components), dtype=np.float32)  # of one by itself, NumPy makes half
A, W = rng.standard_normal((2048, width), dtype=np.float32), rng.standard_normal((width, components), np.float32)
seconds = [[], []]
for _ in range(8):
    for i, (left, right) in enumerate(((A, W), (Z.T, other))):
        start = time.perf_counter()
        left @ right
        seconds[i].append(time.perf_counter() - start)
print(width, *(n_bags / 2048 * float(np.median(each)) for each in seconds))
"""
AGGREGATES = """
import sys, numpy as np
path, labels, tested, kind = sys.argv[1:]
if kind == "duckdb":
    import duckdb
    duckdb.sql("SET enable_progress_bar = false")  # it goes to standard output
    names = [row[0] for row in duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()][1:]
    parts = ", ".join(f"avg({x}), stddev({x}), approx_quantile({x}, [.25, .5, .75])" for x in names)
    rows = duckdb.sql(f"SELECT bag, {parts} FROM '{path}' GROUP BY bag ORDER BY bag").fetchnumpy()
    F = np.column_stack([np.stack(v) if v.dtype == object else v for v in list(rows.values())[1:]])
elif kind == "polars":
    import polars as pl
    names = pl.scan_parquet(path).collect_schema().names()[1:]
    parts = [getattr(pl.col(x), how)().alias(f"{x} {how}") for x in names for how in ("mean", "std", "median")]
    parts += [pl.col(x).quantile(q).alias(f"{x} {q}") for x in names for q in (.25, .75)]
    F = pl.scan_parquet(path).group_by("bag").agg(parts).sort("bag").drop("bag").collect().to_numpy()
else:
    import pandas as pd
    groups = pd.read_parquet(path).groupby("bag")
    F = pd.concat([groups.mean(), groups.std(), groups.quantile(.25), groups.quantile(.75)], axis=1).to_numpy()
if kind == "pandas":
    from sklearn.ensemble import HistGradientBoostingRegressor
    model = HistGradientBoostingRegressor(random_state=0)
else:
    from sklearn.linear_model import RidgeCV
    model = RidgeCV(10.0 ** np.arange(-3, 3))
y = np.loadtxt(labels, delimiter=",", skiprows=1)[:, 1]
order = np.random.default_rng(0).permutation(len(y)); test, train = order[:int(tested)], order[int(tested):]
model.fit(F[train], y[train])
print(np.sqrt(np.mean((model.predict(F[test]) - y[test]) ** 2)))
"""


def in_process(code, *given):
    """Seconds, seconds of processors, largest resident set in GB, and what a program prints.

    A child begins with the memory of this process, for which nothing large is made here.
    """
    start = perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code, *map(str, given)], stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)  # of this child alone
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"a part of the benchmark failed: {code[:60]!r} {given}")
    return perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, out


# --------------------------------------------------------------------------------------------------------------
# One table
# --------------------------------------------------------------------------------------------------------------


def measure(given, n_bags, order, dims, folder):
    """One row of the results."""
    made = ["--make-only", "--folder", folder, "--bags", str(n_bags), "--orders", order, "--dims", str(dims)]
    subprocess.run([sys.executable, __file__, *made], check=True, stdout=subprocess.DEVNULL)
    path, labels = make(folder, n_bags, order, dims)
    model, out, limit = folder / "model.distembed", folder / "predictions.parquet", given.memory_limit
    row = {"order": order, "dims": dims, "bags": n_bags, "components": given.components, "limit": limit}
    sums = ", ".join(f"sum(x{j})" for j in range(dims))
    row["read"] = in_process(DUCKDB, path, limit, f"SELECT count(*), {sums}, max(bag) FROM '{{path}}'")[0]
    written = folder / "sorted-by-duckdb"
    sort = f"COPY (SELECT * FROM '{{path}}' ORDER BY bag) TO '{written}' (FORMAT parquet)"
    row["sort"] = in_process(DUCKDB, path, limit, sort)[0]
    written.unlink()
    row["gather"] = float(in_process(GATHER, path, limit)[-1])
    fit = ["fit", path, "--bag", "bag", "--labels", labels, "--label", "spread", "--embedding", "js", "--components",
           given.components, "--out-of-core", "--memory-limit", limit, "--restart", "--json", "-o", model]  # fmt: skip
    if not given.no_search:
        row["with search"] = in_process(COMMAND, *fit)[0]
    row["fit"], row["fit, cpu"], row["GB"], said = in_process(COMMAND, *fit, "--tune", "none")
    found = json.loads(said)
    row["stages"], row["rmse"] = json.dumps(found["seconds"]), found["scores"]["rmse"]["value"]
    products = in_process(PRODUCTS, model, n_bags, given.components)[-1].split()
    row["width"], row["features"], row["sums"] = int(products[0]), float(products[1]), float(products[2])
    predict = in_process(COMMAND, "predict", model, path, "-o", out, "-q", "--memory-limit", limit)
    row["predict"], row["predict, cpu"], row["predict, GB"], _ = predict
    embed = ["embed", path, "--bag", "bag", "--components", 100, "-o", out, "-q", "--memory-limit", limit]
    row["embed"], _, row["embed, GB"], _ = in_process(COMMAND, *embed)
    for kind in () if given.no_rivals else RIVALS:
        row[kind], _, row[f"{kind}, GB"], said = in_process(AGGREGATES, path, labels, TESTED, kind)
        row[f"{kind} rmse"] = float(said)
    bound = row["sort"] + row["sums"] if order == "shuffled" else row["read"] + row["features"] + row["sums"]
    row["ratio"], row["predict ratio"] = row["fit"] / bound, row["predict"] / (row["read"] + row["features"])
    return row


# --------------------------------------------------------------------------------------------------------------
# Results
# --------------------------------------------------------------------------------------------------------------


def merged(rows, path):
    """Rows of a file with newer ones in their place, in order; the file has them all afterwards."""
    old = []
    if path.exists():
        with path.open(newline="") as file:
            old = [{name: _number(value) for name, value in row.items() if value != ""} for row in csv.DictReader(file)]
    found = {tuple(row[name] for name in KEY): row for row in (*old, *rows)}
    kept = sorted(found.values(), key=lambda row: (row["dims"], ORDERS.index(row["order"]), row["bags"]))
    names = list(dict.fromkeys(name for row in kept for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: f"{v:.5g}" if isinstance(v, float) else v for name, v in row.items()} for row in kept)
    return kept


def _number(text):
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def shares(row):
    """What the machine needs alone over what a stage took, by stage; above one, a stage does less work than that."""
    stages = json.loads(row["stages"])
    whole = row["sort"] if row["order"] == "shuffled" else row["read"]
    features = stages["embedding"] + stages["random features"]
    return {
        "gather": whole / row["gather"],
        "features": row["features"] / features,
        "sums": row["sums"] / stages["linear model"],
    }


def slopes(rows):
    """Slopes of the fit's seconds in bags, by logarithms, between neighbouring sizes of a table."""
    found = []
    for before, after in pairwise(rows):
        same = all(before[name] == after[name] for name in ("order", "dims", "components"))
        if same and after["bags"] > before["bags"]:
            slope = np.log(after["fit"] / before["fit"]) / np.log(after["bags"] / before["bags"])
            found.append((after["order"], after["dims"], before["bags"], after["bags"], slope))
    return found


def page(rows):
    """A page of Markdown."""
    names = ("read", "sort", "features", "sums", "gather", "fit", "fit, cpu", "with search", "predict", "ratio",
             "predict ratio", "GB", "predict, GB")  # fmt: skip
    lines = [
        "# From a table to a model", "",
        f"{POINTS} points per bag, float32; seconds on {os.cpu_count()} cores, each row of one run. Made by",
        "`make bench-table`; `results/table.csv` has all figures.", "",
        "*read*, *sort*: DuckDB's of the same file, *sort* with the result written. *features*, *sums*: products of",
        "matrices in float32, 2 n w D and 2 n D². *gather*: all bags by `BagTable.batches`, nothing done with them.",
        "*ratio* is the fit with settings given, over the sort and the product of the sums for shuffled rows, over",
        "the read and the products of features and sums for others. *predict ratio* is over the read and the product",
        "of the features. Memory is that of the process of the fit, or of predict.", "",
        "| order | dims | bags | D | " + " | ".join(names) + " |",
        "|" + "---|" * (4 + len(names)),
    ]  # fmt: skip
    lines += [f"| {_title(row)} | " + " | ".join(_cell(row, name) for name in names) + " |" for row in rows]
    lines += ["", "## Stages", "",
              "Share of the machine's limit: what the machine needs alone, over what the stage took. Gathering is",
              "beside the read, or the sort for shuffled rows; features and sums are beside the products, of which",
              "paired features and symmetric sums make half: so shares may be above one.", "",
              "| order | dims | bags | D | gather | features | sums | stages of the fit, seconds |",
              "|" + "---|" * 8]  # fmt: skip
    for row in rows:
        stages = ", ".join(f"{name} {seconds:.3g}" for name, seconds in json.loads(row["stages"]).items())
        lines.append(f"| {_title(row)} | " + " | ".join(f"{v:.2f}" for v in shares(row).values()) + f" | {stages} |")
    if slopes(rows):
        lines += ["", "## Slopes of the fit in bags", "", "| order | dims | from | to | slope |", "|" + "---|" * 5]
        lines += [f"| {order} | {dims} | {a:,} | {b:,} | {slope:.3f} |" for order, dims, a, b, slope in slopes(rows)]
    lines += ["", "## Throughput", "",
              "Millions of points a second from Parquet to Parquet, starting Python included: *predict* with",
              "the model of the fit, *embed* by JS with 100 random features; *read* is DuckDB's, nothing written.", "",
              "| order | dims | bags | D | read | predict | embed | embed, GB |", "|" + "---|" * 8]  # fmt: skip
    for row in (row for row in rows if "embed" in row):
        rates = [row["bags"] * POINTS / 1e6 / row[name] for name in ("read", "predict", "embed")]
        cells = [f"{rate:.3g}" for rate in rates] + [_cell(row, "embed, GB")]
        lines.append(f"| {_title(row)} | " + " | ".join(cells) + " |")
    beside = [row for row in rows if RIVALS[0] in row]
    if beside:
        lines += ["", "## What people would write", "",
                  f"Seconds / RMSE on {TESTED:,} bags not seen (each its own) / GB. DuckDB and Polars: means,",
                  "deviations and quartiles of each column, then ridge regression; pandas: then boosted trees. Labels",
                  "are the deviation of normal points, which theirs is the best estimate of.", "",
                  "| order | dims | bags | D | distembed | " + " | ".join(RIVALS) + " |", "|" + "---|" * 8]  # fmt: skip
    for row in beside:
        figures = [("fit", "rmse", "GB"), *((k, f"{k} rmse", f"{k}, GB") for k in RIVALS)]
        cells = [f"{row[fit]:.3g} / {row[rmse]:.4f} / {row[gb]:.2f}" for fit, rmse, gb in figures]
        lines.append(f"| {_title(row)} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _title(row):
    return f"{row['order']} | {row['dims']} | {row['bags']:,} | {row['components']:,}"


def _cell(row, name):
    return f"{row[name]:.3g}" if name in row else ""


def draw(rows, path):
    """Seconds over bags, beside the limits, and shares of stages."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for color, order in zip(("C0", "C1", "C2"), ORDERS, strict=True):
        some = [row for row in rows if row["order"] == order and row["dims"] == 2]
        if some:
            bags = [row["bags"] for row in some]
            left.plot(bags, [row["fit"] for row in some], "o-", color=color, label=f"fit, {order}")
            left.plot(bags, [row["fit"] / row["ratio"] for row in some], "--", color=color, label="its limit")
            left.plot(bags, [row["predict"] for row in some], "s:", color=color, label=f"predict, {order}")
    left.set(xscale="log", yscale="log", xlabel="bags of 200 points, 2-D", ylabel="seconds")
    if left.lines:
        left.legend(fontsize=7)
    largest = {(row["order"], row["dims"]): row for row in rows}  # the last is the largest
    for i, (title, row) in enumerate(largest.items()):
        found = shares(row)
        right.bar(np.arange(len(found)) + 0.8 * i / len(largest), list(found.values()), 0.75 / len(largest),
                  label=f"{title[0]}, {title[1]}-D, {row['bags']:,} bags")  # fmt: skip
    right.axhline(1, color="k", lw=0.8)
    right.set_xticks(np.arange(3) + 0.35, ["gather / read or sort", "features / sgemm", "sums / sgemm"])
    right.set_ylabel("share of the machine's limit")
    right.legend(fontsize=7)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--dims", type=int, nargs="+", choices=(1, 2, 3), default=[2])
    parser.add_argument("--components", type=int, default=2000)
    parser.add_argument("--memory-limit", default="1GB")
    parser.add_argument("--no-rivals", action="store_true", help="leave out what people would write")
    parser.add_argument("--no-search", action="store_true", help="leave out the fit that searches for settings")
    parser.add_argument("--folder", type=Path, help="where tables are kept, to be used again")
    parser.add_argument("--make-only", action="store_true", help="make the tables, and measure nothing")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "table.md")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        for dims in given.dims:
            for n_bags in given.bags:
                for order in given.orders:
                    if given.make_only:
                        print(make(folder, n_bags, order, dims)[0], flush=True)
                        continue
                    row = measure(given, n_bags, order, dims, folder)
                    print(json.dumps(row), flush=True)
                    rows = merged([row], given.output.with_suffix(".csv"))
                    given.output.write_text(page(rows), encoding="utf-8")
                    draw(rows, given.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
