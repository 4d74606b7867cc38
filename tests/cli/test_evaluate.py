"""``distembed evaluate``: scores of numbers and classes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from command_line import PNG, refused, run
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, root_mean_squared_error

from distembed.tables import read_labels, write_table


def test_scores_of_numbers(folder, tmp_path):
    rng = np.random.default_rng(0)
    truth, error = rng.normal(size=400), rng.normal(size=400)
    write_table({"id": np.arange(400), "prediction": truth + error}, tmp_path / "p.csv")
    write_table({"bag": np.arange(500), "y": np.append(truth, np.zeros(100))}, tmp_path / "l.csv")
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y", "--labels-bag", "bag")
    result = run(*words, "--json", "--plot", tmp_path / "p.png")
    found = json.loads(result.stdout)["scores"]
    assert "100 labels have no prediction" in result.stderr
    assert found["rmse"]["value"] == pytest.approx(root_mean_squared_error(truth, truth + error))
    assert found["mae"]["value"] == pytest.approx(mean_absolute_error(truth, truth + error))
    assert found["r2"]["value"] == pytest.approx(r2_score(truth, truth + error))
    assert found["mae"]["standard_error"] == pytest.approx(np.abs(error).std() / 20, rel=0.1)
    assert found["rmse"]["standard_error"] == pytest.approx(1 / np.sqrt(2 * 400), rel=0.2)
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    assert "has no column 'predicted'" in refused(*words, "--prediction", "predicted")
    assert "label has no bag" in refused(*words, "--unknown", "error").replace("labels have", "label has")


def test_scores_of_classes(folder, tmp_path):
    run("predict", folder / "classes.distembed", folder / "points.parquet", "-o", tmp_path / "p.csv")
    words = ("evaluate", tmp_path / "p.csv", "--labels", folder / "labels.csv", "--label", "size")
    found = json.loads(run(*words, "--json", "--plot", tmp_path / "p.pdf").stdout)
    truth = read_labels(folder / "labels.csv", bag="cluster", label="size").labels
    predicted = read_labels(tmp_path / "p.csv", bag="cluster", label="prediction").labels
    large = read_labels(tmp_path / "p.csv", bag="cluster", label="probability_large").labels
    assert found["scores"]["accuracy"]["value"] == pytest.approx(np.mean(truth == predicted))
    assert found["scores"]["log_loss"]["value"] == pytest.approx(log_loss(truth == "large", large))
    assert np.trace(found["confusion"]["counts"]) == np.sum(truth == predicted)
    assert re.search(r"true \\ predicted +large +small", run(*words).stdout)
    assert (tmp_path / "p.pdf").read_bytes().startswith(b"%PDF")
    assert "holds text, not numbers; use --classify" in refused(
        *words, "--regress", "--prediction", "probability_large"
    )


def test_scores_that_can_not_be_told_are_null(tmp_path):
    write_table({"id": [1], "prediction": [2.0]}, tmp_path / "p.csv")
    write_table({"id": [1], "y": [3.0]}, tmp_path / "l.csv")
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y")
    found = json.loads(run(*words, "--json").stdout)["scores"]
    assert found["rmse"] == {"value": 1.0, "standard_error": None}
    assert found["r2"] == {"value": None, "standard_error": None}
    assert re.search(r"^R² +-$", run(*words).stdout, re.MULTILINE)
