"""``distembed sketch`` and ``distembed merge``: parts of bags, by people who do not share their points."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import refused, run

from distembed.tables import write_table


@pytest.fixture
def folder(tmp_path):
    """A table of 20 bags, as a whole and in two parts that cut all bags."""
    rng = np.random.default_rng(0)
    table = {"b": rng.integers(0, 20, 600), "x": rng.normal(size=600), "y": rng.normal(size=600)}
    for name, rows in (("all", slice(None)), ("one", slice(0, 300)), ("two", slice(300, None))):
        write_table({key: values[rows] for key, values in table.items()}, tmp_path / f"{name}.csv")
    return tmp_path


def rows_of(path):
    from pyarrow import parquet

    table = parquet.read_table(path)
    return table.column_names, np.column_stack(table.columns)


def test_sketches_of_parts_are_merged_to_the_vectors_of_the_whole(folder):
    model, parts = folder / "m.distembed", [folder / f"{name}.sketches" for name in ("one", "two")]
    run("embed", folder / "all.csv", "--bag", "b", "--save-model", model, "-o", folder / "want.parquet")
    for part in parts:
        run("sketch", part.with_suffix(".csv"), "--model", model, "-o", part)
    run("merge", *parts, "-o", folder / "both.sketches")
    run("merge", *parts, "-o", folder / "got.parquet")
    run("merge", folder / "both.sketches", "-o", folder / "again.parquet")
    names, wanted = rows_of(folder / "want.parquet")
    for name in ("got", "again"):
        found = rows_of(folder / f"{name}.parquet")
        assert found[0] == names
        np.testing.assert_allclose(found[1], wanted, atol=1e-12)


def test_the_first_part_may_fit_the_embedding(folder):
    how = ("--bag", "b", "--embedding", "histogram-js", "--components", "20")
    run("sketch", folder / "one.csv", *how, "-o", folder / "one.sketches")
    run("sketch", folder / "two.csv", "--model", folder / "one.sketches", "-o", folder / "two.sketches")
    run("merge", folder / "one.sketches", folder / "two.sketches", "-o", folder / "rows.parquet")
    assert rows_of(folder / "rows.parquet")[1].shape == (20, 21)


def test_errors(folder):
    for name in ("one", "two"):
        run("sketch", folder / f"{name}.csv", "--bag", "b", "--embedding", "mean", "-o", folder / f"{name}.sketches")
    run("sketch", folder / "two.csv", "--bag", "b", "--embedding", "d3", "-o", folder / "other.sketches")
    run("embed", folder / "one.csv", "--bag", "b", "--save-model", folder / "m.distembed", "-o", folder / "f.csv")
    cases = {
        ("merge", folder / "one.sketches", folder / "other.sketches", "-o", folder / "x.csv"): "the same fitted model",
        ("merge", folder / "m.distembed", "-o", folder / "x.csv"): "files that 'distembed sketch' wrote",
        (
            "sketch",
            folder / "one.csv",
            "--bag",
            "b",
            "--embedding",
            "skl",
            "-o",
            folder / "x.sketches",
        ): "do not add up",
    }
    for command, text in cases.items():
        assert text in refused(*command)
