"""The page of an exploration: everything escaped, everything in one file, every bag on the map or named."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import distembed as de

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(3 * (i % 2), 1, size=(rng.integers(9, 40), 2)) for i in range(60)]
    arrays[9][0, 1] = 1e5
    arrays[20] = arrays[4]
    return de.Bags.from_arrays(arrays, columns=["u", EVIL], ids=[f"{i}{EVIL}" for i in range(60)])


def write(found, path):
    de.report.explore(found, path, name=EVIL, run={"command": EVIL})
    text = path.read_text(encoding="utf-8")
    payload = json.loads(re.search(r'id="payload">(.*?)</script>', text, re.S)[1])
    return text, payload


def test_a_page_is_one_file_and_escapes_what_the_user_wrote(bags, tmp_path):
    text, payload = write(de.explore(bags, factors={EVIL: np.arange(60) % 2}), tmp_path / "p.html")
    assert EVIL not in text
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert payload["ids"][9] == f"9{EVIL}"
    assert payload["columns"][9] == EVIL
    assert len(payload["scores"]) == 60
    assert text.count("<circle") == 60
    for words in ("2 groups, found again in other bags", "100%", "bags with p ≤ .01", "group 2"):
        assert words in text, words


def test_a_map_of_many_bags_has_the_oddest(bags, tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.report.exploring.MOST_ON_MAP", 30)
    text, payload = write(de.explore(bags), tmp_path / "p.html")
    assert text.count("<circle") == len(payload["ids"]) == 30
    assert f"9{EVIL}" in payload["ids"]
    assert "Of 60 bags 30 are drawn" in text


def test_bags_without_groups_categories_and_ids(tmp_path):
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=900), rng.integers(0, 2, 900)])
    bags = de.Bags(points, np.arange(0, 901, 30), columns=["x", "sex"], categories={1: ["f", "m"]})
    text, payload = write(de.explore(bags), tmp_path / "p.html")
    assert "No number of groups" in text
    assert payload["names"] == ["x", "sex"]
