"""Labels in the table of points: a column with one value per bag."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import FAST, make_rows, refused, run

import distembed as de
from distembed.tables import read_bags, read_labels, write_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Points with their labels, the same without, and the table of labels."""
    path = tmp_path_factory.mktemp("own")
    points, labels = make_rows(n_bags=24, n_points=12)
    place = {key: i for i, key in enumerate(labels["cluster"])}
    rows = [place[key] for key in points["cluster"]]
    both = points | {name: np.asarray(labels[name])[rows] for name in ("spread", "size")}
    write_table(points, path / "points.csv")
    write_table(both, path / "both.csv")
    write_table(both, path / "both.parquet")
    write_table(labels, path / "labels.csv")
    return path


def fit(path, table, output, *more):
    return ("fit", path / table, "--bag", "cluster", "--label", "spread", *FAST, "--tune", "none", "-o", output, *more)


@pytest.mark.parametrize("how", ["--in-memory", "--out-of-core"])
@pytest.mark.parametrize("table", ["both.csv", "both.parquet"])
def test_a_fit_takes_labels_from_the_table_of_points(tables, tmp_path, table, how):
    own = tmp_path / "own.distembed"
    apart = tmp_path / "apart.distembed"
    columns = ("--columns", "x,y")
    run(*fit(tables, table, own, *columns, how, "-q"))
    run(*fit(tables, "points.csv", apart, *columns, "--labels", tables / "labels.csv", how, "-q"))
    bags = read_bags(tables / "points.csv", bag="cluster", columns=["x", "y"])
    np.testing.assert_allclose(de.load(own).predict(bags), de.load(apart).predict(bags), rtol=1e-9)


def test_the_label_is_never_a_coordinate(tables, tmp_path):
    model = tmp_path / "m.distembed"
    said = run(*fit(tables, "both.csv", model)).stderr
    assert "spread" not in de.load(model).table_["columns"]
    assert "is the label" in said
    clash = refused(*fit(tables, "both.csv", model, "--columns", "x,spread"))
    assert "--label and --columns both name 'spread'; leave it out of one of them" in clash
    assert "--label and --weights both name 'spread'" in refused(*fit(tables, "both.csv", model, "--weights", "spread"))


def test_bags_with_two_labels_and_without_any(tables, tmp_path):
    table = {"cluster": np.array(["a", "a", "b", "b"]), "x": np.arange(4.0)}
    path = tmp_path / "t.csv"
    write_table(table | {"spread": np.array([1.5, 2.5, 3.0, 3.0])}, path)
    said = refused(*fit(tmp_path, "t.csv", tmp_path / "m", "--columns", "x"))
    assert "column 'spread' must have one value per bag, got 1.5 and 2.5 in bag 'a'; name another column" in said
    path.write_text("cluster,x,spread\na,0,1.5\na,1,\nb,2,3\nb,3,3.0\n")
    said = refused(*fit(tmp_path, "t.csv", tmp_path / "m", "--columns", "x"))
    assert "(bag 'a'): a bag must have a label, got none" in said
    said = refused(*fit(tmp_path, "t.csv", tmp_path / "m", "--columns", "x", "--missing", "drop"))
    assert "column 'spread' must have one value per bag, got none and 1.5 in bag 'a'" in said


def test_a_table_without_the_column_needs_labels(tables, tmp_path):
    said = refused(*fit(tables, "points.csv", tmp_path / "m"))
    assert f"--labels is missing, and {str(tables / 'points.csv')!r} has no column 'spread'" in said
    assert "name the table of labels" in said


def test_report_and_evaluate_take_labels_of_points(tables, tmp_path):
    model = tmp_path / "m.distembed"
    run(*fit(tables, "both.csv", model, "--columns", "x,y", "--no-ids", "-q"))
    run("predict", model, tables / "both.csv", "-o", tmp_path / "p.csv", "-q")
    own = run("evaluate", tmp_path / "p.csv", "--labels", tables / "both.csv", "--label", "spread", "--json").stdout
    apart = run("evaluate", tmp_path / "p.csv", "--labels", tables / "labels.csv", "--label", "spread", "--json").stdout
    assert own == apart
    run("report", model, tables / "both.csv", "--label", "spread", "-o", tmp_path / "r.html", "-q")
    assert "R²" in (tmp_path / "r.html").read_text()
    predicted = read_labels(tmp_path / "p.csv", bag="cluster", label="prediction")
    truth = read_labels(tables / "both.parquet", bag="cluster", label="spread")
    table = {"cluster": predicted.ids, "prediction": predicted.labels}
    write_table(table | {"spread": [truth[key] for key in predicted]}, tmp_path / "joined.csv")
    joined = run("evaluate", tmp_path / "joined.csv", "--label", "spread", "--json").stdout
    assert joined == own.replace("p.csv", "joined.csv")
