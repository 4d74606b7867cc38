"""``distembed embed``: features are those of the library."""

from __future__ import annotations

import json

import numpy as np
from command_line import FAST, read_columns, refused, run

import distembed as de
from distembed.tables import read_bags


def test_features_are_those_of_the_pipeline(folder, tmp_path, monkeypatch):
    from sklearn.pipeline import make_pipeline

    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x"])
    pipeline = make_pipeline(de.UnitCube(), de.HDDEmbedding("hellinger", n_basis=9))
    expected = pipeline.fit_transform(bags)
    words = ("--bag", "cluster", "--columns", "x", "--embedding", "hellinger", "--set", "n_basis=9")
    monkeypatch.setattr("distembed.cli.options.BATCH_POINTS", 300)
    for suffix in ("csv", "parquet", "npz"):
        path = tmp_path / f"f.{suffix}"
        run("embed", folder / "points.parquet", *words, "-o", path, "--save-model", tmp_path / "e.distembed")
        columns = dict(np.load(path)) if suffix == "npz" else read_columns(path)
        assert list(columns) == ["cluster", *pipeline.get_feature_names_out()]
        assert columns.pop("cluster").tolist() == bags.ids.tolist()
        np.testing.assert_allclose(np.stack(list(columns.values()), axis=1), expected, rtol=1e-9, atol=1e-12)
    printed = run("embed", folder / "points.csv", "--model", tmp_path / "e.distembed").stdout.splitlines()
    np.testing.assert_allclose([float(x) for x in printed[1].split(",")[1:]], expected[0], rtol=1e-9, atol=1e-12)


def test_features_of_a_learner_and_random_features(folder, tmp_path):
    run("embed", folder / "points.csv", "--model", folder / "numbers.distembed", "-o", tmp_path / "f.parquet")
    assert len(read_columns(tmp_path / "f.parquet")) == 21
    found = json.loads(run("embed", folder / "points.csv", "--bag", "cluster", "--columns", "x,y", *FAST, "--fit-bags",
                           10, "-o", tmp_path / "f.parquet", "--json").stdout)  # fmt: skip
    assert (found["n_bags"], found["n_features"]) == (60, 20)
    assert "--bag is missing" in refused("embed", folder / "points.csv")
