"""``distembed test``: groups, strata, factors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import read_columns, refused, run

from distembed.tables import read_bags, write_table
from distembed.two_sample import factors_test, groups_test


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two sites that differ, a treatment that moves half of the bags of each."""
    path = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(0)
    site, arm = np.repeat(["a", "b"], 12), np.tile(["drug", "none"], 12)
    ids = np.array([f"p{i:02d}" for i in range(24)])
    shift = 3 * (site == "b") + 0.8 * (arm == "drug")
    x = rng.normal(np.repeat(shift, 20), 1)
    write_table({"patient": np.repeat(ids, 20), "x": x, "z": rng.normal(size=480)}, path / "points.csv")
    order = rng.permutation(24)
    columns = {"patient": ids, "site": site, "arm": arm, "age": rng.normal(50, 9, 24)}
    write_table({name: each[order] for name, each in columns.items()}, path / "labels.csv")
    return path


def words(study):
    return ("test", study / "points.csv", "--bag", "patient", "--labels", study / "labels.csv", "--seed", 0)


def test_two_groups_inside_strata(study):
    found = json.loads(run(*words(study), "--label", "arm", "--strata", "site", "--json").stdout)
    bags = read_bags(study / "points.csv", bag="patient")
    x = np.tile([True, False], 12)
    site = np.repeat(["a", "b"], 12)
    expected = groups_test(bags[x], bags[~x], strata=(site[x], site[~x]), random_state=0)
    assert found["p"] == pytest.approx(expected.pvalue)
    assert found["statistic"] == pytest.approx(expected.statistic)
    assert found["p"] < 0.01
    assert found["groups"] == {"drug": 12, "none": 12}
    text = run(*words(study), "--label", "arm", "--columns-too", "--permutations", 99).stdout
    assert "12 bags of 'drug', 12 bags of 'none'" in text
    assert "adjusted p" in text


def test_several_factors(study, tmp_path):
    more = ("--label", "arm,age", "--covariates", "site", "--permutations", 99, "-o", tmp_path / "f.csv")
    text = run(*words(study), *more).stdout
    assert all(each in text for each in ("factor", "R2", "arm", "age", "residual"))
    bags = read_bags(study / "points.csv", bag="patient")
    labels = read_columns(study / "labels.csv")
    order = np.argsort([int(each[1:]) for each in labels["patient"]])
    of = {name: column[order] for name, column in labels.items()}
    factors = {"arm": of["arm"], "age": of["age"]}
    expected = factors_test(bags, factors, covariates={"site": of["site"]}, n_permutations=99, random_state=0)
    table = read_columns(tmp_path / "f.csv")
    assert table["factor"].tolist() == ["arm", "age"]
    np.testing.assert_allclose(table["p"], expected.pvalues)
    np.testing.assert_allclose(table["r2"], expected.r2)


def test_what_does_not_fit_is_refused(study):
    assert "has no column 'drug'" in refused(*words(study), "--label", "drug")
    assert "--match-sizes is for one label" in refused(*words(study), "--label", "arm,age", "--match-sizes")
    points = ("test", study / "points.csv", "--bag", "patient")
    assert "'z' is a factor, and would be a column of the points" in refused(*points, "--label", "z")
