"""The table of candidates: a list in all but its looks."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import distembed as de
from distembed.learners.leaderboard import WIDTH, Leaderboard


def row(name, score, weight=0.0):
    return {"name": name, "score": score, "standard_error": 0.01, "weight": weight, "seconds": 0.25}


ROWS = [row("constant", 0.0), row("a < b", 0.75, 0.6), row("very long " * 9, -12.5), row("js, rbf", 0.5, 0.4)]


@pytest.fixture
def board():
    return Leaderboard(ROWS, "r2", cut=[f"candidate {i}" for i in range(30)])


def test_it_is_a_list_of_dicts_best_first(board):
    assert [entry["score"] for entry in board] == [0.75, 0.5, 0.0, -12.5]
    assert board == sorted(ROWS, key=lambda entry: -entry["score"])
    assert json.loads(json.dumps(board)) == board


def test_it_prints_as_a_table_of_80_columns(board):
    lines = str(board).splitlines()
    assert lines[0].split() == ["candidate", "R²", "std.", "error", "weight", "seconds"]
    assert lines[1].split() == ["a", "<", "b", "0.750", "0.010", "0.600", "0.2"]
    assert lines[3].split()[-2] == "-"  # it does not count
    assert lines[5].startswith("Not tried within the time limit: candidate 0, candidate 1")
    assert max(map(len, lines)) <= WIDTH
    assert max(map(len, str(Leaderboard(ROWS, "neg_log_loss")).splitlines())) <= WIDTH
    assert len({len(line) for line in lines[:5]}) == 1
    assert "Not tried" not in str(Leaderboard(ROWS))
    assert str(Leaderboard()).split()[0] == "candidate"


def test_notebooks_show_a_table(board):
    html = board._repr_html_()
    assert html.count("<tr>") == 5
    assert "a &lt; b" in html
    assert "Not tried within the time limit" in html


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda board: pickle.loads(pickle.dumps(board))])
def test_copies_are_whole(board, again):
    assert str(again(board)) == str(board)
    assert again(board) == board


def test_model_files_keep_it(board, tmp_path):
    bags = np.random.default_rng(0).normal(size=(8, 5, 1))
    model = de.DistributionRegressor("mean", n_components=None, tune=None).fit(bags, bags.mean(axis=(1, 2)))
    model.leaderboard_ = board
    de.save(model, tmp_path / "model")
    again = de.load(tmp_path / "model").leaderboard_
    assert type(again) is Leaderboard
    assert again == board
    assert np.isnan([row["seconds"] for row in again]).all()  # files have no times
