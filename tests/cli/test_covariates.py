"""Covariates on the command line: where they are found, and what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from command_line import FAST, fit_words, make_rows, refused, run

import distembed as de
from distembed.tables import read_bags, write_table
from distembed.tables.labels import read_covariates


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Tables with an age and a sex of each bag, beside labels and in the table of points; and a model."""
    path = tmp_path_factory.mktemp("covariates")
    points, labels = make_rows(40)
    rng = np.random.default_rng(1)
    sex, age = np.array(["f", "m"])[rng.integers(0, 2, 40)], rng.integers(20, 80, 40)
    labels["dose"] = labels["spread"] + 3 * (sex == "m")
    labels |= {"age": np.where(age > 70, "", age.astype(str)), "sex": sex}
    write_table(labels, path / "labels.csv")
    write_table(points, path / "points.parquet")
    rows = np.char.replace(points["cluster"], "c", "").astype(int)
    del points["w"]
    write_table({**points, "age": age[rows], "sex": sex[rows]}, path / "all.parquet")
    words = fit_words(path, path / "m", "--covariates", "age,sex", "--embedding", "deviation", "--json", label="dose")
    (path / "said.json").write_text(run(*words).stdout)
    return path


def test_covariates_from_the_table_of_labels(patients):
    found = json.loads((patients / "said.json").read_text())
    board = {row["name"]: row["score"] for row in found["leaderboard"]}
    assert {"deviation, linear", "deviation + covariates, linear", "covariates, linear"} <= set(board)
    assert board["deviation + covariates, linear"] > board["deviation, linear"]
    assert (found["covariates"], found["embedding"]) == (["age", "sex"], "deviation")
    assert found["scores"]["r2"]["value"] > 0.5
    bags = read_bags(patients / "points.parquet", bag="cluster", columns=["x", "y"])
    table = read_covariates(patients / "labels.csv", bag="cluster", covariates=["age", "sex"])
    wanted = de.load(patients / "m").predict(bags, covariates=table.of(bags.ids))
    for option in ("--covariates-from", "--labels"):
        words = ("predict", patients / "m", patients / "points.parquet", option, patients / "labels.csv", "--json")
        np.testing.assert_allclose(json.loads(run(*words).stdout)["columns"]["prediction"], wanted)


def test_covariates_from_the_table_of_points(patients, tmp_path):
    table = patients / "all.parquet"
    run("fit", table, "--bag", "cluster", "--labels", patients / "labels.csv", "--label", "dose", "--covariates",
        "age,sex", "--covariates-from", table, "--time-limit", 1e-6, "-o", tmp_path / "m", "-q")  # fmt: skip
    assert de.load(tmp_path / "m").table_["columns"] == ["x", "y"]  # an age is no coordinate
    assert len(run("predict", tmp_path / "m", patients / "all.parquet").stdout.splitlines()) == 41
    said = refused("predict", tmp_path / "m", patients / "points.parquet")
    assert "has no column 'age', 'sex'; name their table by --covariates-from" in said


def test_covariates_out_of_core(patients, tmp_path, small_batches):
    words = ("--covariates", "age,sex", "--embedding", "deviation", "--out-of-core", "--json")
    found = json.loads(run(*fit_words(patients, tmp_path / "m", *words, label="dose")).stdout)
    assert (found["out_of_core"], found["covariates"]) == (True, ["age", "sex"])
    assert found["scores"]["r2"]["value"] > 0.5
    more = ("--covariates-from", patients / "labels.csv", "--json")
    said = json.loads(run("predict", tmp_path / "m", patients / "points.parquet", *more).stdout)
    assert said["n_bags"] == 40


def test_a_row_of_the_leaderboard_is_a_name(patients, tmp_path):
    words = fit_words(patients, tmp_path / "m", "--embedding", "statistics, rbf", "--json", label="spread")
    found = json.loads(run(*words).stdout)
    weights = {row["name"]: row["weight"] for row in found["leaderboard"]}
    assert weights == {"statistics, rbf": 1.0, "constant": 0.0, "ensemble": None}
    assert "'rbff' is not a head; use 'rbf'" in refused(*words[:-1], "--embedding", "statistics, rbff")
    assert "no view is called 'statistic'; is 'statistics' meant?" in refused(
        *words[:-1], "--embedding", "statistic, rbf"
    )


def test_what_covariates_refuse(patients, folder, tmp_path):
    def fit(*more, points="all.parquet"):
        return refused(*fit_words(patients, tmp_path / "m", *more, label="dose", points=points))

    assert "labels.csv' has no column 'agee'" in fit("--covariates", "agee")
    assert fit("--covariates", "agee").endswith("did you mean 'age'?")
    assert "'dose', which is the label or the bag" in fit("--covariates", "dose")
    said = fit("--covariates", "x")
    assert re.search(
        "covariate 'x' must have one value per bag, got .* and .* in bag 'c000', and in 39 more bags", said
    )
    assert "--coverage has no intervals" in fit("--covariates", "age", "--coverage", "0.8")
    assert "--components is of one model, and with --covariates" in fit("--covariates", "age", *FAST)
    assert "must name" in fit("--covariates-from", patients / "labels.csv")
    (tmp_path / "few.csv").write_text("cluster,age,sex\nc000,33,f\n")
    words = ("predict", patients / "m", patients / "points.parquet", "--covariates-from", tmp_path / "few.csv")
    assert "39 bags have no covariates: 'c001'" in refused(*words)
    (tmp_path / "few.csv").write_text("cluster,age,sex\nc000,old,f\n")
    assert "'age' must hold numbers, as when the model was fitted, got 'old'" in refused(*words)
    said = refused("predict", folder / "numbers.distembed", folder / "points.csv", "--labels", patients / "labels.csv")
    assert "the model was fitted without covariates" in said


def test_explanations_have_covariates(patients, tmp_path):
    words = ("explain", patients / "m", patients / "points.parquet", "--covariates-from", patients / "labels.csv")
    found = json.loads(run(*words, "--contributions", tmp_path / "c.csv", "--json").stdout)["predictions"]
    assert list(found[0]["contributions"]) == ["x", "y", "age", "sex"]
    for each in found:
        assert sum(each["contributions"].values()) == pytest.approx(each["prediction"] - each["reference"])
    header = (tmp_path / "c.csv").read_text().partition("\n")[0].replace('"', "")
    assert header == "cluster,prediction,reference,x,y,age,sex"
    assert "sex" in run(*words, "--id", "c007").stdout
