"""Tables and models that several files of tests read."""

from __future__ import annotations

import json

import pytest
from command_line import FAST, SMALL_BATCHES, fit_words, make_rows, run

from distembed.tables import write_table


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables, and a model of each kind; tests write elsewhere."""
    path = tmp_path_factory.mktemp("cli")
    points, labels = make_rows()
    write_table(points, path / "points.parquet")
    write_table(points, path / "points.csv")
    write_table(labels, path / "labels.csv")
    for label, model in (("spread", "numbers"), ("size", "classes")):
        run("fit", path / "points.parquet", "--bag", "cluster", "--columns", "x,y", "--labels", path / "labels.csv",
            "--label", label, *FAST, "-o", path / f"{model}.distembed", "-q")  # fmt: skip
    return path


@pytest.fixture
def small_batches(monkeypatch):
    for name, value in SMALL_BATCHES.items():
        monkeypatch.setattr(name, value)


@pytest.fixture(scope="session")
def ensemble(folder, tmp_path_factory):
    """A model of the default embedding, and what its fit said."""
    path = tmp_path_factory.mktemp("auto") / "m.distembed"
    return path, json.loads(run(*fit_words(folder, path, "--json")).stdout)
