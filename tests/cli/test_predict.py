"""``distembed predict``: predictions, intervals and sets of classes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import FAST, fit_words, read_columns, refused, run

import distembed as de
from distembed.tables import read_bags, read_labels


def test_predictions_are_those_of_the_model(folder, tmp_path):
    model = de.load(folder / "numbers.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    printed = run("predict", folder / "numbers.distembed", folder / "points.parquet").stdout
    lines = printed.splitlines()
    assert lines[0] == "cluster,prediction"
    assert [line.split(",")[0] for line in lines[1:]] == bags.ids.tolist()
    np.testing.assert_array_equal([float(line.split(",")[1]) for line in lines[1:]], model.predict(bags))
    for suffix in ("csv", "parquet", "feather", "npz"):
        path = tmp_path / f"p.{suffix}"
        run("predict", folder / "numbers.distembed", folder / "points.csv", "-o", path)
        found = read_labels(path, bag="cluster", label="prediction")
        np.testing.assert_allclose(found.labels, model.predict(bags), rtol=1e-12)
    found = json.loads(run("predict", folder / "numbers.distembed", folder / "points.csv", "--json").stdout)
    assert found["n_bags"] == 60
    assert found["columns"]["cluster"][:2] == ["c000", "c001"]


def test_predictions_do_not_depend_on_batches(folder, monkeypatch):
    whole = run("predict", folder / "numbers.distembed", folder / "points.parquet").stdout
    monkeypatch.setattr("distembed.cli.options.BATCH_POINTS", 60)
    numbers = [[float(line.split(",")[1]) for line in text.splitlines()[1:]] for text in
               (whole, run("predict", folder / "numbers.distembed", folder / "points.parquet").stdout)]  # fmt: skip
    np.testing.assert_allclose(*numbers, rtol=1e-9)


def test_deviations_of_predictions(folder, tmp_path):
    model = de.load(folder / "numbers.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    found = json.loads(
        run("predict", folder / "numbers.distembed", folder / "points.parquet", "--std", "--json").stdout
    )
    np.testing.assert_allclose(found["columns"]["std"], model.predict(bags, return_std=True)[1])
    assert "--std applies to models" in refused("predict", folder / "classes.distembed", folder / "points.csv", "--std")
    run(*fit_words(folder, tmp_path / "m", *FAST, "--tune", "none", "-q"))
    for option in (["--std"], ["--coverage", "0.9"]):
        assert "held-out bags" in refused("predict", tmp_path / "m", folder / "points.csv", *option)


def test_intervals_and_sets_of_any_model(folder):
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    words = (folder / "points.parquet", "--coverage", "0.8", "--json")
    found = json.loads(run("predict", folder / "numbers.distembed", *words).stdout)["columns"]
    ends = de.load(folder / "numbers.distembed").predict_interval(bags, coverage=0.8)
    np.testing.assert_allclose(np.transpose([found["low"], found["high"]]), ends)
    found = json.loads(run("predict", folder / "classes.distembed", *words).stdout)["columns"]
    model = de.load(folder / "classes.distembed")
    assert found["set"] == [model.classes_[row].tolist() for row in model.predict_set(bags, coverage=0.8)]
    assert "0<x<1" in refused("predict", folder / "numbers.distembed", folder / "points.csv", "--coverage", "1")


def test_classes_have_probabilities(folder):
    found = json.loads(run("predict", folder / "classes.distembed", folder / "points.parquet", "--json").stdout)
    columns = found["columns"]
    total = np.add(columns["probability_large"], columns["probability_small"])
    np.testing.assert_allclose(total, 1)
    picked = np.where(np.array(columns["probability_large"]) > 0.5, "large", "small")
    assert columns["prediction"] == picked.tolist()
    model = de.load(folder / "classes.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    assert columns["prediction"] == model.predict(bags).tolist()


def test_models_from_python_need_the_column_of_bags(folder, tmp_path):
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["y", "x"])
    y = np.arange(60.0)
    model = de.DistributionRegressor("deviation", n_components=20, tune=None, random_state=0).fit(bags, y)
    de.save(model, tmp_path / "m.distembed")
    assert "--bag is missing" in refused("predict", tmp_path / "m.distembed", folder / "points.parquet")
    found = json.loads(
        run("predict", tmp_path / "m.distembed", folder / "points.parquet", "--bag", "cluster", "--json").stdout
    )
    np.testing.assert_allclose(found["columns"]["prediction"], model.predict(bags))


@pytest.mark.parametrize("how", ["--in-memory", "--out-of-core"])
def test_intervals(folder, tmp_path, small_batches, how):
    output = tmp_path / "m.distembed"
    words = fit_words(folder, output, *FAST, "--coverage", 0.8, "--test", 0.4, "--updatable", how)
    found = json.loads(run(*words, "--json").stdout)
    model = de.load(output)
    assert isinstance(model, de.conformal.ConformalRegressor)
    assert found["coverage"] == {"coverage": 0.8, "n_bags": 24, "n_groups": None,
                                 "mean_width": pytest.approx(2 * np.sort(model.scores_)[19])}  # fmt: skip
    learner = model.estimator_
    assert learner.search_.n_bags == 36
    assert "24 bags kept out, which were not learned from" in run(*words).stdout
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    y = bags.align(dict(read_labels(folder / "labels.csv", bag="cluster", label="spread")))
    Z = learner.transform_features(bags)
    errors = np.sort(np.abs(y - learner.predict(bags)))
    assert np.all(np.isclose(model.scores_[:, None], errors).any(axis=1))
    from sklearn.linear_model import Ridge

    all_bags = Ridge(learner.best_params_["alpha"]).fit(Z, y).predict(Z)
    assert np.abs(learner.predict(bags) - all_bags).max() > 1e-3
    run("predict", output, folder / "points.csv", "-o", tmp_path / "p.csv")
    columns = read_columns(tmp_path / "p.csv")
    assert list(columns) == ["cluster", "prediction", "low", "high"]
    np.testing.assert_allclose(np.stack([columns["low"], columns["high"]], axis=1), model.predict_interval(bags))
    words = ("evaluate", tmp_path / "p.csv", "--labels", folder / "labels.csv", "--label", "spread", "--json")
    scores = json.loads(run(*words).stdout)["scores"]
    inside = (columns["low"] <= y) & (y <= columns["high"])
    assert scores["coverage"]["value"] == pytest.approx(inside.mean())
    assert scores["coverage"]["standard_error"] == pytest.approx(inside.std(ddof=1) / np.sqrt(60))
    assert scores["width"]["value"] == pytest.approx(np.mean(columns["high"] - columns["low"]))
    shown = run("info", output).stdout
    assert "intervals hold the truth with probability 0.8; calibrated on 24 bags" in shown
    assert "predicts 'spread' from a table with the columns cluster, x, y" in shown
    std = run("predict", output, folder / "points.csv", "--std").stdout
    assert std.startswith("cluster,prediction,std,low,high\n")


def test_sets_of_classes(folder, tmp_path):
    output = tmp_path / "m.distembed"
    embedding = ("--embedding", "hellinger", "--components", 50, "--tune", "none")
    run(*fit_words(folder, output, *embedding, "--coverage", 0.8, "--test", 0.4, "-q", label="size"))
    model = de.load(output)
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    sets = [model.classes_[row].tolist() for row in model.predict_set(bags)]
    assert min(map(len, sets)) == 1
    truth = read_labels(folder / "labels.csv", bag="cluster", label="size").labels
    held = np.mean([name in each for name, each in zip(truth.tolist(), sets, strict=True)])
    for suffix in (".csv", ".parquet", ".npz"):
        path = tmp_path / f"p{suffix}"
        run("predict", output, folder / "points.parquet", "-o", path)
        if suffix == ".parquet":
            assert pq.read_table(path)["set"].to_pylist() == sets
        if suffix == ".csv":
            assert read_columns(path)["set"].tolist() == ["|".join(each) for each in sets]
        words = ("evaluate", path, "--labels", folder / "labels.csv", "--label", "size", "--json")
        scores = json.loads(run(*words).stdout)["scores"]
        assert scores["coverage"]["value"] == pytest.approx(held)
        assert scores["set_size"]["value"] == pytest.approx(np.mean(list(map(len, sets))))
    found = json.loads(run("predict", output, folder / "points.parquet", "--json").stdout)
    assert found["columns"]["set"] == sets
    found = json.loads(run("explain", output, folder / "points.csv", "--id", "c007", "--json").stdout)
    assert found["class"] == model.estimator_.predict(bags)[7] == "large"
    assert found["predictions"][0]["prediction"] == pytest.approx(model.estimator_.predict_proba(bags)[7].max())
    assert json.loads(run("info", output, "--json").stdout)["coverage"] == {
        "coverage": 0.8, "n_bags": 24, "n_groups": None,
    }  # fmt: skip


def test_intervals_by_groups_and_too_few_bags(folder, tmp_path):
    words = fit_words(folder, tmp_path / "m", *FAST, "--groups", "site", "--test", 0.6, "--json")
    found = json.loads(run(*words, "--coverage", 0.75).stdout)["coverage"]
    assert (found["n_bags"], found["n_groups"]) == (40, 4)
    said = refused(*words, "--coverage", 0.9)
    assert "--coverage 0.9 needs 9 groups that are kept out, and 4 of 6 would be; lower --coverage" in said
    said = refused(*fit_words(folder, tmp_path / "n", *FAST, "--coverage", 0.95))
    assert "--coverage 0.95 needs 19 bags that are kept out, and 12 of 60 would be; add --test 0.32, or" in said
    assert "is not in the range 0<x<1" in refused(*words, "--coverage", 1)


def test_likeness_to_the_training_bags(folder):
    model = de.load(folder / "numbers.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    words = (folder / "points.parquet", "--likeness", "--json")
    found = json.loads(run("predict", folder / "numbers.distembed", *words).stdout)["columns"]
    wanted = model.likeness(bags)
    np.testing.assert_allclose(found["likeness"], wanted.pvalues)
    assert found["odd_column"] == wanted.odd_columns
