"""Empty bags on the command line: labels and ids without points."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import FAST, make_rows, refused, run

import distembed as de
from distembed.tables import read_labels, write_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty")
    points, labels = make_rows(n_bags=24, n_points=12)
    write_table(points, path / "points.csv")
    ids = [*labels["cluster"], "none1", "none2", "none3"]
    spread = [*np.asarray(labels["spread"], float), 7.0, 7.0, 7.0]
    write_table({"cluster": np.array(ids), "spread": np.array(spread)}, path / "labels.csv")
    return path


def test_fit_info_and_predict(tables, tmp_path):
    model = tmp_path / "m.distembed"
    fit = ("fit", tables / "points.csv", "--bag", "cluster", "--labels", tables / "labels.csv", "--label", "spread",
           "--columns", "x,y", *FAST, "--test", "0", "-o", model)  # fmt: skip
    assert "3 labels have no bag" in refused(*fit)
    assert json.loads(run(*fit, "--empty", "--json").stdout)["n_empty"] == 3
    assert "3 of the bags are empty: such bags are predicted from these bags' labels" in run(*fit, "--empty").stdout
    assert de.load(model).empty_.n_bags == 3
    assert "has learned from 3 empty bags" in run("info", model).stdout
    assert json.loads(run("info", model, "--json").stdout)["n_empty"] == 3
    assert "--empty needs all bags in memory" in refused(*fit, "--empty", "--out-of-core")
    predict = ("predict", model, tables / "points.csv", "-o", tmp_path / "p.csv")
    run(*predict, "--empty", "--ids-from", tables / "labels.csv", "--std", "--coverage", "0.8")
    found = read_labels(tmp_path / "p.csv", bag="cluster", label="prediction")
    assert len(found) == 27
    assert float(found["none2"]) == pytest.approx(7.0, abs=0.2)
    assert "name it by --ids-from" in refused(*predict, "--empty")
    assert "add --empty" in refused(*predict, "--ids-from", tables / "labels.csv")


def test_ordered_classes(tables, tmp_path):
    labels = read_labels(tables / "labels.csv", bag="cluster", label="spread")
    grade = np.array(["poor", "fair", "good"])[np.digitize(labels.labels, np.quantile(labels.labels, [0.3, 0.6]))]
    write_table({"cluster": labels.ids, "grade": grade}, tmp_path / "grades.csv")
    fit = ("fit", tables / "points.csv", "--bag", "cluster", "--labels", tmp_path / "grades.csv", "--label", "grade",
           "--columns", "x,y", "--unknown", "ignore", "--embedding", "mean, ordered-linear", "-o",
           tmp_path / "m.distembed")  # fmt: skip
    run(*fit, "--ordered", "poor,fair,good", "-q")
    model = de.load(tmp_path / "m.distembed")
    assert model.targets_.ranks.tolist() == [1, 2, 0]
    assert "--ordered must name each class once, fair, good, poor" in refused(*fit, "--ordered", "poor,good")
    number = ("fit", tables / "points.csv", "--bag", "cluster", "--labels", tables / "labels.csv", "--label", "spread",
              "--columns", "x,y", "--unknown", "ignore", "-o", tmp_path / "n")  # fmt: skip
    assert "--ordered applies to classes" in refused(*number, "--ordered", "1,2")
