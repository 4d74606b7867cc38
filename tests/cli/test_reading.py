"""How the command line reads tables: signs of CSV for each, ids of several columns, labels that are not there."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run

import distembed as de
from distembed.tables import TableError, read_bags, read_labels

FAST = ("--embedding", "deviation", "--components", "0", "--tune", "none")


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """Delays by day and origin, whose spread is to be learned; as CSV, as CSV of Europe, and as Parquet."""
    path, rng = tmp_path_factory.mktemp("reading"), np.random.default_rng(0)
    days = pd.date_range("2013-01-01", periods=15).strftime("%Y-%m-%d")
    bags = pd.DataFrame([(day, origin) for day in days for origin in ("JFK", "a/b")], columns=["date", "origin"])
    bags["spread"] = rng.uniform(0.5, 2, len(bags)).round(4)
    rows = rng.permutation(np.repeat(np.arange(len(bags)), 20))
    points = bags.iloc[rows].drop(columns="spread").reset_index(drop=True)
    points["delay"] = (rng.normal(size=len(rows)) * bags["spread"].to_numpy()[rows]).round(6)
    points["gate"] = rng.uniform(size=len(rows)).round(6)
    points.to_csv(path / "points.csv", index=False)
    points.to_csv(path / "europe.csv", index=False, sep=";", decimal=",")
    points.assign(date=pd.to_datetime(points["date"])).to_parquet(path / "points.parquet", index=False)
    bags.to_csv(path / "labels.csv", index=False)
    bags.to_csv(path / "labels_europe.csv", index=False, sep=";", decimal=",")
    return path


def fit_words(folder, output, *more, points="points.csv", labels="labels.csv"):
    return ("fit", folder / points, "--bag", "date,origin", "--labels", folder / labels, "--label", "spread",
            *FAST, "-o", output, *more)  # fmt: skip


def test_ids_of_several_columns_are_those_of_frames(flights):
    wanted = de.Bags.from_frame(pd.read_csv(flights / "points.csv"), bag=["date", "origin"])
    for bag, name in (
        (["date", "origin"], "points.csv"),
        ("date,origin", "points.csv"),
        ("date, origin", "points.parquet"),
    ):
        found = read_bags(flights / name, bag=bag)
        assert found.columns == ("delay", "gate")
        assert found.ids.tolist() == sorted(wanted.ids.tolist())
        assert found.select(wanted.ids) == wanted
    assert found.ids[:2].tolist() == ["2013-01-01/JFK", "2013-01-01/a\\/b"]
    labels = read_labels(flights / "labels.csv", bag="date,origin", label="spread")
    assert set(labels) == set(found.ids.tolist())


def test_from_points_to_scores_by_several_columns(flights, tmp_path):
    run(*fit_words(flights, tmp_path / "m.distembed"))
    run("predict", tmp_path / "m.distembed", flights / "points.parquet", "-o", tmp_path / "made.csv")
    assert pd.read_csv(tmp_path / "made.csv").columns.tolist() == ["date,origin", "prediction"]
    words = ("evaluate", tmp_path / "made.csv", "--labels", flights / "labels.csv", "--label", "spread", "--json")
    assert json.loads(run(*words).stdout)["scores"]["r2"]["value"] > 0.5
    told = json.loads(run("info", flights / "points.csv", "--bag", "date,origin", "--json").stdout)
    assert (told["bags"]["n_bags"], told["bags"]["rows_least"]) == (30, 20)
    out_of_core = json.loads(run(*fit_words(flights, tmp_path / "b", "--out-of-core", "--json")).stdout)
    assert out_of_core["n_bags"] == 30


@pytest.mark.parametrize(
    ("bag", "said"),
    [
        ("date,orign", "--bag names column 'orign', which the table lacks; did you mean 'origin'?"),
        ("date,date", "--bag must name a column, or several that differ"),
    ],
)
def test_wrong_columns_of_ids(flights, bag, said):
    assert said in refused("embed", flights / "points.csv", "--bag", bag)
    assert "columns must not contain 'date'" in refused(
        "embed", flights / "points.csv", "--bag", "date,origin", "--columns", "delay,date"
    )


def test_a_row_without_a_part_of_its_id(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,x\n1,u,1\n1,,2\n")
    with pytest.raises(TableError, match=r"line 3, column 'a,b': a row must name its bag, got no id"):
        read_bags(tmp_path / "t.csv", bag="a,b")


def test_a_column_with_a_comma_is_a_column(tmp_path):
    (tmp_path / "t.csv").write_text('"a,b",a,b,x\n1,7,8,1.5\n2,7,8,2.5\n')
    assert read_bags(tmp_path / "t.csv", bag="a,b", columns="x").ids.tolist() == [1, 2]


def test_signs_of_each_table(flights, tmp_path):
    plain = json.loads(run(*fit_words(flights, tmp_path / "a", "--json")).stdout)["scores"]
    for points, labels, more in (
        ("europe.csv", "labels_europe.csv", ("--decimal", ",")),
        ("europe.csv", "labels.csv", ("--decimal", ",", "--labels-decimal", ".", "--labels-delimiter", ",")),
        ("points.csv", "labels_europe.csv", ("--labels-decimal", ",", "--labels-delimiter", ";")),
        ("points.parquet", "labels_europe.csv", ("--labels-decimal", ",")),
    ):
        words = fit_words(flights, tmp_path / "b", *more, "--json", points=points, labels=labels)
        assert json.loads(run(*words).stdout)["scores"] == plain
    run("predict", tmp_path / "b", flights / "europe.csv", "--decimal", ",", "-o", tmp_path / "made.csv")
    words = ("evaluate", tmp_path / "made.csv", "--labels", flights / "labels_europe.csv", "--label", "spread")
    assert "R²" in run(*words, "--labels-decimal", ",").stdout


def test_wrong_signs_are_told_the_option(flights, tmp_path):
    said = refused(*fit_words(flights, tmp_path / "m", labels="labels_europe.csv"))
    assert "--labels-delimiter ';'" in said
    said = refused("embed", flights / "europe.csv", "--bag", "date,origin", "--delimiter", ";")
    assert "got '" in said
    assert "if the comma is a decimal sign, pass --decimal ," in said
    said = refused("embed", flights / "europe.csv", "--bag", "date,origin", "--delimiter", ",", "--decimal", ",")
    assert "--decimal: must differ from the delimiter" in said


@pytest.mark.parametrize(
    ("words", "got"), [(["1.5", "NA", "2"], "'NA'"), (["a", "n/a", "b"], "'n/a'"), (["a", "", "b"], "none")]
)
def test_labels_that_are_not_there(tmp_path, words, got):
    path = tmp_path / "labels.csv"
    path.write_text("bag,y\n" + "".join(f"{i},{word}\n" for i, word in enumerate(words)))
    with pytest.raises(
        TableError, match=rf"line 3, column 'y' \(bag 1\): a bag must have a label, got {got}.*missing='drop'"
    ):
        read_labels(path, bag="bag", label="y")
    assert list(read_labels(path, bag="bag", label="y", missing="drop")) == [0, 2]


def test_missing_labels_are_dropped_with_their_bags(flights, tmp_path):
    labels = pd.read_csv(flights / "labels.csv")
    labels.loc[4, "spread"] = np.nan
    labels.to_csv(tmp_path / "labels.csv", index=False, na_rep="NA")
    words = [*fit_words(flights, tmp_path / "m", "--json"), "--labels", tmp_path / "labels.csv"]
    assert "--missing drop" in refused(*words)
    found = json.loads(run(*words, "--missing", "drop").stdout)
    assert (found["n_bags"], found["n_unlabelled"]) == (29, 1)


def test_none_may_be_the_name_of_a_class(tmp_path):
    (tmp_path / "labels.csv").write_text("bag,y\n1,None\n2,Mild\n")
    assert read_labels(tmp_path / "labels.csv", bag="bag", label="y").labels.tolist() == ["None", "Mild"]
