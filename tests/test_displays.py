"""What notebooks show: tables with small pictures, in which everything is escaped; terminals show what they did."""

from __future__ import annotations

import io

import numpy as np
import pytest

import distembed as de
from distembed.compute import svg
from distembed.compute.progress import Line
from distembed.theory import ErrorBudget, Stage

EVIL = "<script>alert(1)</script>"


def html(thing):
    text = thing._repr_html_()
    assert "<script" not in text
    return text


def test_bags_show_sizes_and_columns():
    bags = de.Bags.from_arrays([np.random.default_rng(n).normal(size=(n, 2)) for n in (5, 50, 9)], columns=[EVIL, "b"])
    text = html(bags)
    assert "3 bags, 64 points, 2 columns" in text
    assert text.count("<svg") == 3
    assert "&lt;script&gt;" in text
    assert repr(bags).startswith("Bags(n_bags=3")
    wide = de.Bags.from_arrays([np.zeros((2, 30))])
    assert "... 10 more columns" in html(wide)
    people = de.Bags([[31, 0], [64, 1]], [0, 2], columns=["age", "sex"], categories={"sex": ["f", EVIL]})
    assert "2 labels" in html(people)


@pytest.fixture(scope="module")
def cells():
    return de.datasets.make_cells(40, random_state=0)


def test_ensembles_show_their_leaderboard(cells):
    model = de.DistributionRegressor(random_state=0, time_limit=1e-9)
    assert "candidate" not in model._repr_mimebundle_().get("text/html", "")
    with pytest.warns(UserWarning, match="held-out bags are not predicted clearly"):
        model.fit(*cells)
    shown = model._repr_mimebundle_()
    assert "DistributionRegressor" in shown["text/html"]
    assert html(model.leaderboard_) in shown["text/html"]
    assert "<meter" in html(model.leaderboard_)


def test_explanations_show_values(cells):
    bags, y = cells
    model = de.DistributionRegressor("js", n_components=20, tune=None, random_state=0).fit(bags, y)
    found = model.explain(bags.replace(ids=np.array([f"{EVIL}{i}" for i in range(40)])))
    text = html(found)
    assert text.count("<svg") == 12
    assert "... 28 more" in text


def test_tests_and_budgets():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(1.0, 1.0, size=(40, 2))
    more = {"n_permutations": 39, "random_state": 0}
    whether = de.two_sample.bags_test(x, y, **more)
    assert str(whether) in html(whether)
    assert "adjusted p" in html(de.two_sample.which_coordinates(x, y, **more))
    regions = html(de.two_sample.which_regions(x, y, n_cells=14, **more))
    assert "14 regions" in regions
    assert "... 2 more" in regions
    budget = ErrorBudget({"points": Stage(0.02, -0.01, 0.05)}, 0.02, 0.02, 0.5, 30, f"use larger bags {EVIL}")
    assert html(budget).count("<meter") == 2


def test_bars_move_in_notebooks():
    kind = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    shown = []
    for file in (kind(), io.StringIO()):
        with Line("", file, patience=0.0, every=0.0) as line:
            line.begin("learning", 3)
            for _ in range(3):
                line.advance(1)
        shown.append(file.getvalue())
    assert shown[0].count("\r") == 4
    assert "\r" not in shown[1]


def test_charts_have_ticks_and_escape():
    chart = svg.Chart(EVIL, (0, 10), (0, 1), EVIL, EVIL, rows=[EVIL, "b" * 200])
    chart.points([1, 2], [0, 1], "a", [EVIL, "b"])
    chart.bar(0, 5, 0.2, 0.8, title=EVIL)
    chart.text(1, 1, EVIL)
    text = str(chart)
    assert "<script" not in text
    assert text.count("<circle") == 2
    assert ">10</text>" in text
    assert svg.ticks(3, 3) == [3]
    assert svg.padded([np.nan]) == (0.0, 1.0)
    assert str(svg.Chart("", (2, 2), (1, 1)))
