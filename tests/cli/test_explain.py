"""``distembed explain``: values of points."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import PNG, read_columns, refused, run

import distembed as de
from distembed.tables import read_bags


@pytest.fixture(scope="module")
def explained(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "m.distembed"
    run("fit", folder / "points.parquet", "--bag", "cluster", "--columns", "x", "--labels", folder / "labels.csv",
        "--label", "size", "--embedding", "hellinger", "--components", 50, "--tune", "none",
        "-o", path, "-q")  # fmt: skip
    return path


def test_explain(folder, explained, tmp_path):
    words = ("explain", explained, folder / "points.csv")
    result = run(*words, "--id", "c007", "-o", tmp_path / "v.csv", "--plot", tmp_path / "map.png", "--top", 4)
    predicted = de.load(explained).predict(read_bags(folder / "points.csv", bag="cluster", columns=["x"]))
    assert f"Bag c007: probability of class '{predicted[7]}' " in result.stdout
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)
    columns = read_columns(tmp_path / "v.csv")
    assert list(columns) == ["cluster", "x", "value", "class"]
    assert set(columns["cluster"]) == {"c007"}
    assert abs(columns["value"].mean()) < 1e-9 * np.abs(columns["value"]).max()
    against = "small" if predicted[7] == "large" else "large"
    found = json.loads(run(*words, "--id", "c007", "--class", against, "--top", 4, "--json").stdout)
    assert found["class"] == against
    assert len(found["top"]) == 4
    other = json.loads(run(*words, "--id", "c007", "--json").stdout)
    assert other["class"] == predicted[7]
    assert other["predictions"][0]["prediction"] == pytest.approx(1 - found["predictions"][0]["prediction"])
    shown = run(*words, "-o", tmp_path / "all.parquet").stdout
    assert "Explanation of the probability of class 'large', " in shown
    assert "Explanation of the probability of class 'small', " in shown
    every = read_columns(tmp_path / "all.parquet")
    assert every["class"].tolist() == np.repeat(predicted, 25).tolist()
    assert np.allclose(every["value"][7 * 25 : 8 * 25], columns["value"])


def test_what_explain_refuses(folder, explained):
    assert "no bag has the id 'c999'" in refused("explain", explained, folder / "points.csv", "--id", "c999")
    said = refused("explain", explained, folder / "points.csv", "--class", "tiny")
    assert "is none of the model's: large, small" in said
    said = refused("explain", folder / "numbers.distembed", folder / "points.csv", "--class", "tiny")
    assert "--class applies to classes" in said
