"""``--sizes``: whether models look at sizes of bags, and what commands print of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import run

import distembed as de
from distembed.tables import write_table


@pytest.fixture(scope="module")
def catches(tmp_path_factory):
    """The label is the logarithm of the number of points."""
    path = tmp_path_factory.mktemp("sizes")
    rng = np.random.default_rng(0)
    n = rng.integers(3, 40, size=40)
    names = np.array([f"c{i:02}" for i in range(40)])
    write_table({"cluster": np.repeat(names, n), "x": rng.normal(size=n.sum())}, path / "points.parquet")
    write_table({"cluster": names, "caught": np.log(n)}, path / "labels.csv")
    return path


def fit(folder, *more):
    words = (
        "fit",
        folder / "points.parquet",
        "--bag",
        "cluster",
        "--labels",
        folder / "labels.csv",
        "--label",
        "caught",
    )
    return run(*words, "-o", folder / "m", *more)


def test_a_sentence_where_they_count(catches):
    said = fit(catches, "--embedding", "size, rbf").stdout
    sentence = "bag sizes alone explain "
    assert sentence in said
    assert "if sizes are an artefact of sampling, fit with --sizes no" in " ".join(said.split())
    assert sentence in run("info", catches / "m").stdout
    assert json.loads(run("info", catches / "m", "--json").stdout)["sizes"].endswith("--sizes no")


def test_yes_and_no(catches):
    found = json.loads(fit(catches, "--embedding", "mean", "--sizes", "yes", "--json").stdout)
    assert {row["name"] for row in found["leaderboard"]} >= {"mean + size, rbf"}
    assert "members that see them have" in found["sizes"]
    found = json.loads(fit(catches, "--embedding", "mean, rbf", "--sizes", "no", "--json").stdout)
    assert found["sizes"] is None
    assert de.load(catches / "m").sizes is False
