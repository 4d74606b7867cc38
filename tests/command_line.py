"""Commands in this process, for tests of the command line."""

import inspect
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
from click.testing import CliRunner

from distembed.cli.app import app

FAST = ("--embedding", "deviation", "--components", "20")
SMALL_BATCHES = {"distembed.cli.options.BATCH_POINTS": 200, "distembed.learners.batch.Checkpoint.seconds_between": -1.0}
PNG = b"\x89PNG\r\n"
RUNNER = CliRunner(**({"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}))


def run(*words, code=0, **more):
    """The answer of a command, after a look at its exit code."""
    result = RUNNER.invoke(app, [str(word) for word in words], prog_name="distembed", **more)
    if code == 0 and result.exit_code != 0 and result.exception is not None:
        print(result.stderr)
    assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
    return result


def refused(*words, code=2):
    """The one line that a command says when it refuses; warnings may stand before it."""
    result = run(*words, code=code)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("distembed: warning:")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("distembed: ")
    assert result.stdout == ""
    return lines[0]


def process(*words, **options):
    command = [sys.executable, "-m", "distembed.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def make_rows(n_bags=60, n_points=25, seed=0):
    """Columns of shuffled points, and of labels: spreads, their classes, and groups."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, size=n_bags)
    bag = np.repeat(np.arange(n_bags), n_points)
    names = np.array([f"c{i:03}" for i in range(n_bags)])
    x, y = rng.normal(size=(2, len(bag))) * spread[bag]
    order = rng.permutation(len(bag))
    weight = rng.uniform(0.5, 1, len(bag))
    points = {"cluster": names[bag], "x": x, "y": y, "w": weight}
    labels = {
        "cluster": names,
        "spread": spread,
        "size": np.where(spread > 1.25, "large", "small"),
        "site": np.arange(n_bags) % 6,
    }
    return {name: column[order] for name, column in points.items()}, labels


def fit_words(folder, output, *more, label="spread", points="points.parquet"):
    return ("fit", folder / points, "--bag", "cluster", "--columns", "x,y", "--labels", folder / "labels.csv",
            "--label", label, "-o", output, *more)  # fmt: skip


def read_columns(path):
    import pyarrow.csv

    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
