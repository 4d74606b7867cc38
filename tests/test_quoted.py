"""Numbers that README and the page "Measured" quote are those of the result files.

``results/quoted.csv`` lists where each number comes from: a row of a CSV file by some of its columns, and the column;
or, where a result is on a page alone, words of that page and the number in them. What a table of measurements shows in
its last column has to be in that list.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import distembed as de

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
QUOTED = list(csv.DictReader((RESULTS / "quoted.csv").read_text(encoding="utf-8").splitlines()))
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.]*\w)")
PAGES = ("README.md", "docs/measured.md")


def value(text):
    """The number that a page or a cell shows."""
    return float(text.replace(",", "").lstrip("+"))


def half_a_digit(shown):
    """Half a unit of the last digit: behind the point, or the last that is not zero."""
    whole, _, part = shown.replace(",", "").partition(".")
    zeros = len(whole) - len(whole.rstrip("0"))
    return 0.5 * 10.0 ** (-len(part) if part else zeros)


def found(entry):
    """What the result file has."""
    path = RESULTS / entry["file"]
    if path.suffix == ".md":
        words = entry["row"].replace(",", "")
        there = words in path.read_text(encoding="utf-8").replace(",", "") and entry["column"] in words
        return [entry["column"]] if there else []
    wanted = dict(each.split("=", 1) for each in entry["row"].split(";"))
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row[key] == cell for key, cell in wanted.items())]
    return [row[entry["column"]] for row in rows]


def rounds_to(shown, exact):
    return abs(value(exact) - value(shown)) <= half_a_digit(shown) * (1 + 1e-9)


def tables_of_measurements(text):
    """Last cells of the rows of tables whose header has a column "command", and the column "here"."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if not cells:
            inside = False
        elif "command" in cells and cells[-1] == "here":
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            yield cells


@pytest.mark.parametrize("entry", QUOTED, ids=lambda entry: f"{entry['shown']}-{entry['file']}")
def test_a_quoted_number_is_that_of_its_file(entry):
    exact = found(entry)
    assert any(rounds_to(entry["shown"], each) for each in exact), f"the file has {exact}"


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_the_tables_has_its_place(page):
    known = {value(entry["shown"]) for entry in QUOTED}
    rows = tables_of_measurements((ROOT / page).read_text(encoding="utf-8"))
    lost = {number: cells[0] for cells in rows for number in NUMBER.findall(cells[-1]) if value(number) not in known}
    assert not lost, "add to results/quoted.csv where these come from, or mend the page"


def test_plain_methods_on_the_example_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"means and covariances ([\d.]*\d), seven quantiles with ridge ([\d.]*\d)", readme)
    if shown is None:
        pytest.skip("README does not compare them")
    bags, severity = de.datasets.make_cells(300, random_state=0)
    levels = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
    moments = np.array([np.r_[bag.mean(axis=0), np.cov(bag.T).ravel()] for bag in bags])
    quantiles = np.array([np.quantile(bag, levels, axis=0).ravel() for bag in bags])
    for features, text in zip((moments, quantiles), shown.groups(), strict=True):
        train, test, y_train, y_test = train_test_split(features, severity, random_state=0)
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))).fit(train, y_train)
        assert max(model.score(test, y_test), 0.0) == pytest.approx(float(text), abs=half_a_digit(text))


def test_the_page_has_such_a_table():
    assert sum(1 for _ in tables_of_measurements((ROOT / "docs/measured.md").read_text(encoding="utf-8"))) > 10
