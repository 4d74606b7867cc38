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


def test_errors_are_over_groups(tmp_path):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(20), 30)
    error = rng.normal(size=20)[group] + 0.1 * rng.normal(size=600)
    truth = rng.normal(size=600)
    classes = np.where(truth > 0, "up", "down")
    guesses = np.where(np.abs(error) < 1, classes, np.where(truth > 0, "down", "up"))
    columns = {"prediction": truth + error, "low": truth + error - 1, "high": truth + error + 1}
    write_table({"id": np.arange(600), **columns}, tmp_path / "p.csv")
    write_table({"id": np.arange(600), "prediction": guesses, "set": guesses}, tmp_path / "c.csv")
    write_table({"id": np.arange(600), "y": truth, "class": classes, "group": group}, tmp_path / "l.csv")
    for table, label, names in (("p.csv", "y", ("mae", "coverage")), ("c.csv", "class", ("accuracy", "coverage"))):
        words = ("evaluate", tmp_path / table, "--labels", tmp_path / "l.csv", "--label", label, "--json")
        alone = json.loads(run(*words).stdout)["scores"]
        grouped = json.loads(run(*words, "--groups", "group").stdout)["scores"]
        for name in names:
            assert alone[name]["value"] == pytest.approx(grouped[name]["value"])
            ratio = grouped[name]["standard_error"] / alone[name]["standard_error"]
            assert ratio == pytest.approx(np.sqrt(30), rel=0.2)


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


@pytest.mark.parametrize(
    ("truth", "predicted"),
    [
        (["0.0", "1.0"], ["0", "1"]),
        (["0", "1"], ["0.0", "1.0"]),
        (["1", "2.0"], ["1", "2"]),
        (["-1", "+1"], ["-1", "1"]),
        (["-0.0", "1"], ["0", "1"]),
        (["True", "False"], ["true", "false"]),
        (["true", "false"], ["1", "0"]),
        (["01", "2"], ["01", "2"]),
    ],
)
def test_one_class_may_be_spelt_in_several_ways(tmp_path, truth, predicted):
    write_words(tmp_path / "l.csv", "y", truth)
    write_words(tmp_path / "p.csv", "prediction", predicted)
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y", "--classify", "--json")
    found = json.loads(run(*words).stdout)
    assert found["scores"]["accuracy"]["value"] == 1.0
    assert np.array(found["confusion"]["counts"]).tolist() == [[10, 0], [0, 10]]


def write_words(path, name, words):
    path.write_text(f"id,{name}\n" + "".join(f"b{i},{words[i % len(words)]}\n" for i in range(20)), encoding="utf-8")


def test_probabilities_and_sets_go_by_the_same_classes(tmp_path):
    rows = "".join(f"b{i},{i % 2}.0,{1 - i % 2},{i % 2},{i % 2}.0\n" for i in range(20))
    head = "id,prediction,probability_0.0,probability_1.0,set\n"
    (tmp_path / "p.csv").write_text(head + rows, encoding="utf-8")
    write_words(tmp_path / "l.csv", "y", ["0", "1"])
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y", "--json")
    found = json.loads(run(*words).stdout)["scores"]
    assert (found["accuracy"]["value"], found["log_loss"]["value"], found["coverage"]["value"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        (["ill", "well"], "must share classes, got 'ill', 'well' and 'no', 'yes'"),
        (["Yes", "no"], "must spell classes alike, got 'Yes' and 'yes', which differ in upper and lower case"),
        (["yes ", "no"], "must spell classes alike, got 'yes ' and 'yes', which differ in blanks"),
    ],
)
def test_classes_that_can_not_be_the_same_are_refused(tmp_path, truth, said):
    write_words(tmp_path / "l.csv", "y", truth)
    write_words(tmp_path / "p.csv", "prediction", ["yes", "no"])
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y")
    assert said in refused(*words)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("spelt", [("1", "2.0"), ("01", "1"), ("true", "false")])
def test_classes_survive_fit_predict_and_evaluate(tmp_path, spelt, suffix):
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(24), 15)
    write_table({"id": ids, "x": rng.normal(size=ids.size) + 4 * (ids % 2)}, tmp_path / "points.csv")
    rows = "".join(f"{i},{spelt[i % 2]}\n" for i in range(24))
    (tmp_path / "l.csv").write_text("id,y\n" + rows, encoding="utf-8")
    labels = ("--labels", tmp_path / "l.csv", "--label", "y")
    run("fit", tmp_path / "points.csv", "--bag", "id", *labels, "--classify", "--embedding", "mean",
        "--components", "0", "--tune", "none", "-o", tmp_path / "m.distembed", "-q")  # fmt: skip
    predictions = tmp_path / f"p.{suffix}"
    run("predict", tmp_path / "m.distembed", tmp_path / "points.csv", "-o", predictions, "-q")
    assert json.loads(run("evaluate", predictions, *labels, "--json").stdout)["scores"]["accuracy"]["value"] == 1.0


def test_classes_with_leading_zeros_stay_apart(tmp_path):
    (tmp_path / "l.csv").write_text("id,y\na,1\nb,01\nc,2\n", encoding="utf-8")
    read = {"bag": "id", "label": "y"}
    assert read_labels(tmp_path / "l.csv", **read, classes=True).labels.tolist() == ["1", "01", "2"]
    assert read_labels(tmp_path / "l.csv", **read).labels.tolist() == [1, 1, 2]
