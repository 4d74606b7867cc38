"""Bad tables through every command, each table in a process of its own."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from soak import Part

MOST_SECONDS, MOST_BYTES = 20, 2 * 2**30
WORDS = ["", " ", "NA", "nan", "inf", "-inf", "1e400", "abc", "1,5", "0x1f", "true", "12:30", "\0", "\N{SNOWMAN}", '"',
         "9" * 400, "-0", "1_000", "None", "?", "2024-01-31", "1e-400", "\ufeff"]  # fmt: skip


def good(rng: np.random.Generator) -> dict[str, Any]:
    """Columns of a small table that every command takes."""
    bag = np.repeat([f"b{i}" for i in range(12)], 6)
    return {"bag": bag, "x": rng.normal(size=72), "y": rng.normal(size=72), "t": np.repeat(np.arange(12.0), 6)}


def bad_csv(rng: np.random.Generator, columns: dict[str, Any]) -> bytes:
    """Text with something odd in it."""
    rows = [list(columns), *map(list, zip(*(map(str, each) for each in columns.values()), strict=True))]
    for _ in range(int(rng.integers(1, 4))):
        i, j = int(rng.integers(len(rows))), int(rng.integers(4))
        what = int(rng.integers(9))
        if what <= 3 and j < len(rows[i]):
            rows[i][j] = str(rng.choice(WORDS))
        elif what == 4:
            rows[i] = rows[i][:j]
        elif what == 5:
            rows[i] = rows[i] + ["1"] * j
        elif what == 6:
            for row in rows[1:]:
                if j < len(row):
                    row[j] = str(rng.choice(WORDS))
        elif what == 7 and j < len(rows[0]):
            rows[0][j] = rows[0][0]
        else:
            rows = rows[: 1 + i % 4]
    sign = str(rng.choice([",", ",", ",", ";", "\t", "|"]))
    end = str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    text = end.join(sign.join(row) for row in rows) + (end if rng.random() < 0.8 else "")
    return text.encode(str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"])), errors="replace")


def bad_columns(rng: np.random.Generator, columns: dict[str, Any]) -> Any:
    """An arrow table with a column of another type."""
    import pyarrow as pa

    n = len(columns["x"])
    kinds = {
        "half": lambda: pa.array(columns["x"].astype(np.float16)), "list": lambda: pa.array([[1.0, 2.0]] * n),
        "ragged": lambda: pa.array([[1.0] * (i % 3) for i in range(n)]), "struct": lambda: pa.array([{"a": 1.0}] * n),
        "span": lambda: pa.array(range(n), pa.duration("ms")), "nulls": lambda: pa.nulls(n),
        "bytes": lambda: pa.array([b"\xff"] * n), "text": lambda: pa.array(["w"] * n),
        "views": lambda: pa.array(["w"] * n).cast(pa.string_view()), "truth": lambda: pa.array([True] * n),
        "gaps": lambda: pa.array([None if i % 5 == 0 else 1.0 * i for i in range(n)]),
        "infinite": lambda: pa.array([np.inf] + [1.0] * (n - 1)), "huge": lambda: pa.array([1e308, -1e308] * (n // 2)),
        "date": lambda: pa.array(np.arange(n).astype("M8[D]")),
        "unsigned": lambda: pa.array([2**64 - 1] * n, pa.uint64()),
        "category": lambda: pa.array(["u", "v"] * (n // 2)).dictionary_encode(),
        "decimal": lambda: pa.array([1] * n).cast(pa.decimal128(30, 2)),
        "latin": lambda: pa.array([b"caf\xe9"] * n).view(pa.string()),
        "maps": lambda: pa.array([[("k", 1.0)]] * n, pa.map_(pa.string(), pa.float64())),
        "nested": lambda: pa.array([[[1.0, 2.0]] * (1 + i % 3) for i in range(n)]),
    }  # fmt: skip
    arrays = {name: pa.array(values) for name, values in columns.items()}
    for _ in range(int(rng.integers(1, 3))):
        arrays[str(rng.choice(list(arrays)))] = kinds[str(rng.choice(list(kinds)))]()
    table = pa.table(arrays)
    return table.slice(0, int(rng.choice([0, 1, n, n, n, n])))


def bad_table(rng: np.random.Generator, folder: Path) -> Path:
    """Write a table with something wrong."""
    from distembed.tables import write_table

    columns, suffix = good(rng), str(rng.choice(["csv", "csv", "parquet", "arrow", "npz", "csv.gz"]))
    path = folder / f"t.{suffix}"
    if suffix.startswith("csv"):
        data = bad_csv(rng, columns)
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    elif suffix == "npz" or rng.random() < 0.2:
        write_table(columns, path)
    else:
        import pyarrow as pa
        from pyarrow import parquet

        table = bad_columns(rng, columns)
        if suffix == "parquet":
            views = [name for name in table.column_names if "view" in str(table.schema.field(name).type)]
            parquet.write_table(table.drop_columns(views), path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    if rng.random() < 0.35:
        data = bytearray(path.read_bytes())
        if rng.random() < 0.5 and data:
            for place in rng.integers(len(data), size=int(rng.integers(1, 20))):
                data[place] = int(rng.integers(256))
        else:
            data = data[: int(rng.integers(len(data) + 1))]
        path.write_bytes(data)
    return path


def commands(table: Path, folder: Path) -> list[list[str]]:
    """Every command that reads tables, on this one."""
    t, m = str(table), str(folder / "model")
    point = ["--bag", "bag"]
    fast = ["--embedding", "deviation", "--components", "20"]
    return [
        ["info", t], ["info", t, *point, "--json"], ["embed", t, *point, "--embedding", "mean", "-o", f"{m}.csv"],
        ["distances", t, *point, "-o", f"{m}.csv", "--embedding", "mean"],
        ["fit", t, *point, "--labels", str(folder / "labels.csv"), "--label", "mass", "-o", m, *fast, "-q"],
        ["fit", str(folder / "points.csv"), *point, "--labels", t, "--label", "t", "-o", m, *fast, "-q"],
        ["predict", str(folder / "good.distembed"), t, "-o", f"{m}.csv"],
        ["evaluate", t, "--labels", str(folder / "labels.csv"), "--label", "mass"],
        ["explain", str(folder / "good.distembed"), t, "-o", f"{m}.csv"],
    ]  # fmt: skip


def run_here(words: list[str]) -> tuple[int, str, str]:
    """Exit code and what a command said."""
    from distembed.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            return 99, out.getvalue(), traceback.format_exc()
    return code, out.getvalue(), err.getvalue()


def judged(code: int, err: str) -> str | None:
    """What is wrong with how a command ended, or None."""
    lines = [line for line in err.splitlines() if line.strip()]
    plain = [line for line in lines if not line.startswith("distembed: ")]
    if code not in (0, 2) or plain or "unexpected" in err:
        return f"code {code}: {' / '.join(lines[-3:])}"
    if code == 2 and ";" not in lines[-1] and "?" not in lines[-1]:
        return f"no remedy: {lines[-1]}"
    return None


def one_table(seed: list[int], folder: Path) -> str:
    """All commands on one table, in a child; what it found, a line each."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES + 2**31, MOST_BYTES + 2**31))
            path = bad_table(np.random.default_rng(seed), folder)
            for words in commands(path, folder):
                os.write(writer, f"@{' '.join(words)}\n".encode())
                start = time.monotonic()
                signal.alarm(2 * MOST_SECONDS)
                code, _, err = run_here(words)
                signal.alarm(0)
                seconds = time.monotonic() - start
                wrong = f"takes {seconds:.0f} s" if seconds > MOST_SECONDS else judged(code, err)
                os.write(writer, (f"!{wrong}\n" if wrong else f"={code}\n").encode(errors="replace"))
        except BaseException as error:
            os.write(writer, f"!the soak's own {type(error).__name__}: {error}\n".encode(errors="replace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return text + (f"!ended by signal {os.WTERMSIG(status)}\n" if os.WIFSIGNALED(status) else "")


def tables(part: Part) -> None:
    """Tables until their number or the time is used up."""
    import sklearn.linear_model  # noqa: F401  # children need not import it again

    from distembed.tables import write_table

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = part.rng
        columns = good(rng)
        write_table({key: columns[key] for key in ("bag", "x", "y")}, folder / "points.csv")
        write_table({"bag": [f"b{i}" for i in range(12)], "mass": np.arange(12.0)}, folder / "labels.csv")
        words = ["fit", str(folder / "points.csv"), "--bag", "bag", "--labels", str(folder / "labels.csv")]
        words += ["--label", "mass", "-o", str(folder / "good.distembed"), "--embedding", "deviation", "-q"]
        code, _, err = run_here(words)
        if code:
            raise RuntimeError(err)
        done = 0
        while part.goes_on(done):
            command = ""
            for line in one_table([part.seed, done], folder).splitlines():
                if line.startswith("@"):
                    command = line[1:].replace(name, "")
                    part.counts["commands"] += 1
                elif line.startswith("!"):
                    part.finding(f"table {done}: {command}: {line[1:]}".replace(name, ""))
                else:
                    part.counts["held" if line == "=0" else "refused"] += 1
            done += 1
            part.counts["tables"] = done
            for path in folder.glob("t.*"):
                path.unlink()
    sys.stdout.flush()
