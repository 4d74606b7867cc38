"""``distembed explore``: one HTML file, and a table of the bags."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import read_columns, refused, run

import distembed as de
from distembed.tables import read_bags, write_table


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    path = tmp_path_factory.mktemp("weather")
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 30, 60)
    day = np.repeat([f"d{i:02d}" for i in range(60)], sizes)
    site = np.arange(60) % 2
    rows = {"day": day, "temp": rng.normal(np.repeat(3.0 * site, sizes)), "wind": rng.normal(size=len(day))}
    rows["wind"][40] = 1048.0
    write_table(rows, path / "points.csv")
    write_table({"day": [f"d{i:02d}" for i in range(60)], "site": np.array(["n", "s"])[site]}, path / "sites.csv")
    return path, day[40]


def test_a_page_and_a_table(weather, tmp_path):
    path, wrong = weather
    words = ("explore", path / "points.csv", "--bag", "day", "-o", tmp_path / "page.html")
    more = ("--labels", path / "sites.csv", "--factors", "site", "--bags", tmp_path / "bags.csv", "--json")
    found = json.loads(run(*words, *more).stdout)
    assert found["oddest"][0]["bag"] == wrong
    assert found["oddest"][0]["column"] == "wind"
    assert found["n_groups"] == 2
    assert found["factors"]["site"]["r2"] > 0.5
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert wrong in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    table = read_columns(tmp_path / "bags.csv")
    assert table["day"][np.argmin(table["p"])] == wrong
    assert {*table["group"]} == {1, 2}
    bags = read_bags(path / "points.csv", bag="day")
    np.testing.assert_allclose(table["p"], de.explore(bags).odd.pvalues)


def test_large_tables_are_read_in_batches(weather, tmp_path, monkeypatch):
    words = ("explore", weather[0] / "points.csv", "--bag", "day", "-o", tmp_path / "page.html", "--json")
    whole = json.loads(run(*words).stdout)
    monkeypatch.setattr("distembed.cli.explore._MOST_IN_MEMORY", -1)
    assert json.loads(run(*words).stdout)["oddest"] == whole["oddest"]


def test_what_does_not_fit_is_refused(weather, tmp_path):
    words = ("explore", weather[0] / "points.csv", "--bag", "day", "-o", tmp_path / "page.html")
    assert "--embedding: must be 'ranks', an embedding" in refused(*words, "--embedding", "jss")
    assert "--factors must name" in refused(*words, "--labels", weather[0] / "sites.csv")
    assert "'wind' is a factor" in refused(*words, "--factors", "wind")
