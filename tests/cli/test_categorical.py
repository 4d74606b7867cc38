"""Columns of labels on the command line: read from tables, remembered by models, and refused with a remedy."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run

import distembed as de
from distembed.tables import BagTable, TableError, read_bags, write_table


def people(n_bags=40, n_points=30, seed=0):
    """Towns of people: which of them work depends on the sex, and that on the town; ages tell nothing."""
    rng = np.random.default_rng(seed)
    mixed = np.arange(n_bags) % 2
    town = np.repeat([f"t{i:02}" for i in range(n_bags)], n_points)
    sex = rng.integers(2, size=len(town))
    works = np.where(np.repeat(mixed, n_points), rng.integers(2, size=len(town)), sex)
    frame = pd.DataFrame({"town": town, "age": rng.uniform(20, 60, len(town)).round(2)})
    frame["sex"], frame["works"] = np.array(["f", "m"])[sex], np.array(["no", "yes"])[works]
    return frame, pd.DataFrame({"town": [f"t{i:02}" for i in range(n_bags)], "kind": np.where(mixed, "mixed", "split")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a model with labels; tests write elsewhere."""
    path = tmp_path_factory.mktemp("categorical")
    points, labels = people()
    points.sample(frac=1, random_state=0).to_csv(path / "points.csv", index=False)
    points.to_parquet(path / "points.parquet", index=False)
    labels.to_csv(path / "labels.csv", index=False)
    run(*fit_words(path, path / "model.distembed", "--categorical", "sex,works", "-q"))
    return path


def fit_words(folder, output, *more, points="points.csv"):
    return ("fit", folder / points, "--bag", "town", "--labels", folder / "labels.csv", "--label", "kind",
            "--embedding", "js", "--components", "0", "--tune", "none", "-o", output, *more)  # fmt: skip


def test_tables_make_codes_of_labels_as_frames_do(folder):
    wanted = de.Bags.from_frame(people()[0], bag="town", categorical=["sex", "works"])
    assert read_bags(folder / "points.parquet", bag="town", categorical=["sex", "works"]) == wanted
    table = BagTable(folder / "points.csv", bag="town", categorical="sex", columns=["works", "age"], nan="drop")
    with pytest.raises(TableError, match=r"must be a number, got '(no|yes)'.*categorical"):
        next(table.batches())
    table = BagTable(folder / "points.csv", bag="town", categorical=["works", "sex"])
    (bags,) = table.batches()
    assert (table.columns, table.categorical) == (("age", "sex", "works"), {"sex": ("f", "m"), "works": ("no", "yes")})
    assert bags.category_labels == wanted.category_labels
    assert np.allclose(np.sort(bags[3], axis=0), np.sort(wanted[3], axis=0))


def test_a_model_learns_from_labels_and_remembers_them(folder, tmp_path):
    points, labels = people(seed=1)
    points.sample(frac=1, random_state=1).to_csv(tmp_path / "new.csv", index=False)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    run("predict", folder / "model.distembed", tmp_path / "new.csv", "-o", tmp_path / "made.csv")
    judged = ("evaluate", tmp_path / "made.csv", "--labels", tmp_path / "labels.csv", "--label", "kind", "--json")
    assert json.loads(run(*judged).stdout)["scores"]["accuracy"]["value"] > 0.9
    told = json.loads(run("info", folder / "model.distembed", "--json").stdout)["table"]
    assert told["categorical"] == {"sex": ["f", "m"], "works": ["no", "yes"]}
    points.assign(sex=points["sex"].replace("m", "x")).to_csv(tmp_path / "odd.csv", index=False)
    found = run("predict", folder / "model.distembed", tmp_path / "odd.csv")
    assert found.stdout.count("\n") == 41
    assert "odd.csv', column 'sex': labels that the training bags lack, such as 'x', count as 'other'" in found.stderr
    said = refused("predict", folder / "model.distembed", folder / "points.csv", "--categorical", "sex")
    assert "--categorical: the model was fitted with 'sex', 'works'; leave it out" in said


def test_left_out_text_is_told_the_option(folder, tmp_path):
    said = run(*fit_words(folder, tmp_path / "m.distembed")).stderr
    assert "'sex' holds text; 'works' holds text" in said
    assert "by --categorical" in said
    assert "--categorical" not in run(*fit_words(folder, tmp_path / "m.distembed", "--columns", "age")).stderr
    said = refused(*fit_words(folder, tmp_path / "m.distembed", "--columns", "age,sex", points="points.parquet"))
    assert "column 'sex' must hold numbers, got" in said
    assert "--categorical" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("sx", "--categorical names column 'sx', which the table lacks; did you mean 'sex'?"),
        ("town", "--categorical must not name 'town', the column of bag ids"),
    ],
)
def test_wrong_names_are_refused(folder, tmp_path, option, said):
    assert said in refused(*fit_words(folder, tmp_path / "m.distembed", "--categorical", option))


def test_the_label_beside_the_points_is_no_coordinate(folder, tmp_path):
    points, labels = people()
    points.drop(columns=["sex", "works"]).merge(labels, on="town").to_csv(tmp_path / "both.csv", index=False)
    words = [*fit_words(folder, tmp_path / "m.distembed")]
    words[1] = tmp_path / "both.csv"
    said = run(*words).stderr
    assert "left out: 'kind' is the label. Coordinates are 'age'" in said
    assert "--categorical" not in said
    assert "--categorical names 'kind', which is the label" in refused(*words, "--categorical", "kind")


def test_what_takes_no_labels_says_what_does(folder, tmp_path):
    words = (folder / "points.csv", "--bag", "town", "--categorical", "sex,works")
    for said in (refused("distances", *words), refused("embed", *words, "--embedding", "mmd")):
        assert "--embedding js" in said
        assert "--categorical" in said
        assert "from_frame" not in said
    for more in (("--embedding", "js"), ("--embedding", "mean", "--scale", "standardize")):
        assert run("distances", *words, *more).stdout.count("\n") == 41
    run("distances", *words, "--divergence", "gaussian:skl", "--scale", "standardize", "-o", tmp_path / "d.csv")
    assert run("embed", *words).stdout.count("\n") == 41


def test_fits_standardize_labels_where_the_embedding_takes_numbers(folder, tmp_path):
    words = ("fit", folder / "points.csv", "--bag", "town", "--labels", folder / "labels.csv", "--label", "kind",
             "--categorical", "sex,works", "--components", 0, "--tune", "none", "-o", tmp_path / "m")  # fmt: skip
    found = json.loads(run(*words, "--embedding", "covariance", "--test", 0.4, "--json").stdout)
    assert found["scores"]["accuracy"]["value"] > 0.9
    assert run("predict", tmp_path / "m", folder / "points.parquet").stdout.count("\n") == 41
    said = refused(*words, "--embedding", "histogram-js")
    assert "--embedding histogram-js takes numerical columns only; add --embedding js, which takes labels too" in said


def test_missing_labels(folder, tmp_path):
    points, _ = people()
    points.loc[[3, 40, 41], "sex"] = "NA"
    points.to_csv(tmp_path / "gaps.csv", index=False)
    words = ("embed", tmp_path / "gaps.csv", "--bag", "town", "--categorical", "sex,works")
    said = refused(*words)
    assert "gaps.csv', line 5, column 'sex' (bag 't00'): a label is missing" in said
    assert "--nan drop" in said
    kept = read_bags(tmp_path / "gaps.csv", bag="town", categorical=["sex", "works"], nan="drop")
    assert kept.n_points == len(points) - 3
    filled = read_bags(tmp_path / "gaps.csv", bag="town", categorical=["sex", "works"], nan="indicator")
    assert filled.category_labels["sex"] == ("f", "m", "missing")
    gaps = points.assign(sex=points["sex"].replace("NA", None))
    assert filled == de.Bags.from_frame(gaps, bag="town", categorical=["sex", "works"], nan="indicator")
    run(*words, "--nan", "indicator", "-o", tmp_path / "f.csv", "--save-model", tmp_path / "e.distembed")
    assert run("embed", folder / "points.csv", "--model", tmp_path / "e.distembed").stdout.count("\n") == 41


def test_labels_are_compared_by_what_is_written(tmp_path):
    """Whole numbers and truth values are the same labels in CSV, in Parquet and in models of Python."""
    points, labels = people(n_points=20)
    points["grade"], points["works"] = np.where(points["sex"] == "f", 1, 2), points["works"] == "yes"
    points = points.drop(columns="sex")
    y = labels.set_index("town")["kind"]
    bags = de.Bags.from_frame(points, bag="town", categorical=["grade", "works"])
    model = de.DistributionClassifier("js", n_components=None, tune=None).fit(bags, y)
    de.save(model, tmp_path / "python.distembed")
    points.to_csv(tmp_path / "new.csv", index=False)
    points.astype({"grade": float}).to_parquet(tmp_path / "new.parquet", index=False)
    for name in ("new.csv", "new.parquet"):
        run("predict", tmp_path / "python.distembed", tmp_path / name, "--bag", "town", "-o", tmp_path / "made.csv")
        made = pd.read_csv(tmp_path / "made.csv")
        assert made["prediction"].tolist() == model.predict(bags).tolist()


def test_a_model_of_python_with_fills_predicts_here(tmp_path):
    points, labels = people(n_points=20)
    points.loc[[3, 40], "age"] = np.nan
    bags = de.Bags.from_frame(points, bag="town", categorical=["sex", "works"], nan="indicator")
    model = de.DistributionClassifier("js", n_components=None, tune=None)
    de.save(model.fit(bags, labels["kind"].to_numpy()), tmp_path / "python.distembed")
    points.to_csv(tmp_path / "new.csv", index=False)
    run("predict", tmp_path / "python.distembed", tmp_path / "new.csv", "--bag", "town", "-o", tmp_path / "made.csv")
    assert pd.read_csv(tmp_path / "made.csv")["prediction"].tolist() == model.predict(bags).tolist()


def test_names_of_points_are_no_labels(folder, tmp_path):
    points, _ = people()
    points.assign(name=[f"p{i}" for i in range(len(points))]).to_csv(tmp_path / "named.csv", index=False)
    said = refused("embed", tmp_path / "named.csv", "--bag", "town", "--categorical", "sex,name")
    assert (
        "column 'name': 1,200 labels in 1,200 rows name points, not kinds of points; leave it out of --categorical"
        in said
    )
    assert "; labels are in sex, works" in run("info", folder / "model.distembed").stdout


def test_columns_of_lists_have_no_labels(tmp_path):
    table = pd.DataFrame({"bag": ["a", "b"], "x": [[1.0, 2.0], [3.0]], "sex": [["f", "m"], ["f"]]})
    table.to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(TableError, match=r"categorical.*one row per point"):
        BagTable(tmp_path / "lists.parquet", bag="bag", categorical="sex")
    write_table({"bag": [1, 2], "sex": ["f", "m"]}, tmp_path / "only.csv")
    assert read_bags(tmp_path / "only.csv", bag="bag", categorical="sex").points.ravel().tolist() == [0, 1]
