"""``distembed distances``: matrices and nearest bags."""

from __future__ import annotations

import json

import numpy as np
from command_line import read_columns, refused, run

from distembed import divergences
from distembed.tables import read_bags


def test_distances(folder, tmp_path):
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x"])
    words = (folder / "points.parquet", "--bag", "cluster", "--columns", "x")
    run("distances", *words, "--divergence", "gaussian:skl", "-o", tmp_path / "d.parquet")
    columns = read_columns(tmp_path / "d.parquet")
    assert columns.pop("cluster").tolist() == list(columns) == bags.ids.tolist()
    matrix = np.stack(list(columns.values()), axis=1)
    np.testing.assert_allclose(matrix, divergences.gaussian(bags, divergence="skl"), rtol=1e-9, atol=1e-12)
    run("distances", *words, "--divergence", "gaussian:skl", "--nearest", 3, "-o", tmp_path / "n.csv")
    near = read_columns(tmp_path / "n.csv")
    assert list(near) == ["cluster", "rank", "neighbour", "squared_distance"]
    np.fill_diagonal(matrix, np.inf)
    expected = bags.ids[np.argsort(matrix, axis=1)[:, :3]]
    assert near["neighbour"].tolist() == expected.ravel().tolist()


def test_distances_in_blocks_against_another_table_and_of_an_embedding(folder, tmp_path, monkeypatch):
    words = (folder / "points.parquet", "--bag", "cluster", "--columns", "x")
    whole = run("distances", *words, "--divergence", "hellinger").stdout
    monkeypatch.setattr("distembed.cli.distances._LEAST_ROWS", 7)
    against = run("distances", *words, "--divergence", "hellinger", "--against", folder / "points.csv").stdout
    numbers = [np.array([line.split(",")[1:] for line in text.splitlines()[1:]], float) for text in (whole, against)]
    np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-9)
    found = json.loads(run("distances", *words, "--embedding", "mmd", "-o", tmp_path / "d.csv", "--json").stdout)
    assert (found["embedding"], found["n_bags"]) == ("mmd", 60)
    assert "--divergence: must be one of" in refused("distances", *words, "--divergence", "js2")
    assert "there are only 59 other bags" in refused("distances", *words, "--nearest", 60)
