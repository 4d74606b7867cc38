"""Fits to batches from disk: the same model, stopped and gone on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from command_line import FAST, SMALL_BATCHES, fit_words, make_rows, refused, run

import distembed as de
from distembed.tables import read_bags, write_table


def test_groups_out_of_core(folder, tmp_path, small_batches, monkeypatch):
    from distembed.learners.learner import Learner

    seen, keep = [], Learner._begin
    monkeypatch.setattr(Learner, "_begin", lambda self, sample, *more: (seen.append(sample), keep(self, sample, *more)))
    words = fit_words(folder, tmp_path / "m", *FAST, "--groups", "site", "--out-of-core", "--json")
    found = json.loads(run(*words).stdout)
    assert (found["out_of_core"], found["n_test"]) == (True, 10)
    groups = seen[0][3]
    assert len(groups) == 50
    assert len(set(groups)) == 5  # whole groups were kept out


def test_out_of_core(folder, tmp_path, small_batches):
    for label, kind in (("spread", "r2"), ("size", "accuracy")):
        words = fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "--updatable", "--json", label=label)
        found = json.loads(run(*words).stdout)
        assert found["out_of_core"] is True
        assert (found["n_bags"], found["n_points"], found["n_test"]) == (60, 1500, 6)
        assert found["scores"][kind]["value"] > 0.5
        model = de.load(tmp_path / "m")
        assert model.model_.head.ridge.learned().n_rows == 60  # those that were kept out are learned from at the end
        assert "made_from" not in model.table_
        assert not (tmp_path / "m.partial").exists()
    said = refused(*fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "--model", "svm", label="size"))
    assert "--model svm needs all bags in memory" in said


@pytest.mark.parametrize("kind", ["M8[D]", "M8[ms]", "f8", "i4", "u8"])
def test_ids_of_any_type_out_of_core(tmp_path, small_batches, kind):
    points, labels = make_rows(24)
    for table in (points, labels):
        table["cluster"] = np.char.replace(table["cluster"], "c", "").astype(int).astype(kind)
    write_table(points, tmp_path / "points.parquet")
    write_table({name: column[:-1] for name, column in labels.items()}, tmp_path / "labels.parquet")
    words = ("fit", tmp_path / "points.parquet", "--bag", "cluster", "--columns", "x,y", "--labels",
             tmp_path / "labels.parquet", "--label", "spread", *FAST, "-o", tmp_path / "m", "--missing", "drop",
             "--out-of-core", "--updatable", "--json")  # fmt: skip
    found = json.loads(run(*words).stdout)
    assert (found["n_bags"], found["n_test"]) == (23, 2)
    assert de.load(tmp_path / "m").model_.head.ridge.learned().n_rows == 23
    assert len(run("predict", tmp_path / "m", tmp_path / "points.parquet").stdout.splitlines()) == 25


def test_without_a_search_out_of_core(folder, tmp_path, small_batches):
    words = fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "--tune", "none", "--json", label="size")
    found = json.loads(run(*words).stdout)
    assert found["search"] == []
    assert found["scores"]["accuracy"]["value"] > 0.5


def test_large_tables_are_read_in_batches(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.cli.fit.MANY_POINTS", 1000)
    for points in ("points.parquet", "points.csv"):
        found = json.loads(run(*fit_words(folder, tmp_path / "m", *FAST, "--json", points=points)).stdout)
        assert found["out_of_core"] is True
    found = json.loads(run(*fit_words(folder, tmp_path / "m", *FAST, "--in-memory", "--json")).stdout)
    assert found["out_of_core"] is False


@pytest.fixture
def stop_after(monkeypatch):
    """Raise KeyboardInterrupt when so many batches have been added."""
    from distembed.learners.learner import Learner

    add = Learner._add

    def stop_after(n):
        calls = []

        def counted(self, *batch):
            calls.append(1)
            if len(calls) > n:
                raise KeyboardInterrupt
            add(self, *batch)

        monkeypatch.setattr(Learner, "_add", counted)

    return stop_after


def test_a_stopped_fit_goes_on_to_the_same_model(folder, tmp_path, small_batches, stop_after):
    words = [*FAST, "--out-of-core"]
    run(*fit_words(folder, tmp_path / "whole", *words, "-q"))
    for n in (0, 2, 3):
        stop_after(n)
        said = run(*fit_words(folder, tmp_path / "m", *words), code=130).stderr.splitlines()[-1]
        assert said.endswith("m.partial', and the same command goes on from there")
        assert (tmp_path / "m.partial").exists()
        assert not (tmp_path / "m").exists()
    stop_after(10**9)
    result = run(*fit_words(folder, tmp_path / "m", *words, "--json"))
    assert re.search("[2-5] batches are done", result.stderr)
    assert min(json.loads(result.stdout)["seconds"].values()) >= 0
    assert not (tmp_path / "m.partial").exists()
    whole, gone_on = (de.load(tmp_path / name) for name in ("whole", "m"))
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    np.testing.assert_array_equal(gone_on.predict(bags), whole.predict(bags))
    assert gone_on.best_params_ == whole.best_params_


def test_a_checkpoint_of_something_else_is_refused(folder, tmp_path, small_batches, stop_after):
    words = [*FAST, "--out-of-core"]
    stop_after(1)
    run(*fit_words(folder, tmp_path / "m", *words), code=130)
    stop_after(10**9)
    for more in (["--seed", "1"], ["--test", "0.3"], ["--embedding", "mean"]):
        said = refused(*fit_words(folder, tmp_path / "m", *words, *more))
        assert "is a half-finished fit of other data or settings; add --restart to begin again" in said
    run(*fit_words(folder, tmp_path / "m", *words, "--seed", "1", "--restart", "-q"))
    assert not (tmp_path / "m.partial").exists()
    (tmp_path / "m.partial").write_bytes(b"something else")
    assert "can't be read; add --restart" in refused(*fit_words(folder, tmp_path / "m", *words))


def change_in_place(path):
    """Change one value of a CSV table; size and time stay."""
    before = path.stat()
    lines = path.read_text().splitlines(keepends=True)
    lines[700] = re.sub(r"\d(?=[^\d]*\n)", lambda digit: str((int(digit[0]) + 1) % 10), lines[700])
    path.write_text("".join(lines))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def test_a_checkpoint_belongs_to_what_is_in_the_table(folder, tmp_path, small_batches, stop_after):
    """Neither a time nor a place counts, and a change that leaves both does."""
    words = (*FAST, "--out-of-core")
    for name in ("points.csv", "labels.csv"):
        shutil.copy(folder / name, tmp_path)
    stop_after(2)
    run(*fit_words(tmp_path, tmp_path / "m", *words, points="points.csv"), code=130)
    stop_after(10**9)
    change_in_place(tmp_path / "points.csv")
    said = refused(*fit_words(tmp_path, tmp_path / "m", *words, points="points.csv"))
    assert "is a half-finished fit of other data or settings" in said
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("points.csv", "labels.csv"):
        shutil.copy(folder / name, elsewhere)
        os.utime(elsewhere / name, ns=(1, 1))
    assert "batches are done" in run(*fit_words(elsewhere, tmp_path / "m", *words, points="points.csv")).stderr


def test_killed_and_started_again(folder, tmp_path, small_batches):
    """The signal that can't be caught, in the middle of the second pass."""
    words = [str(word) for word in fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "-q")]
    code = f"""
import os, pkgutil, signal
for name, value in {SMALL_BATCHES!r}.items():
    module, _, attribute = name.rpartition(".")
    setattr(pkgutil.resolve_name(module), attribute, value)
from distembed.learners.learner import Learner
keep, calls = Learner._add, []
def add(self, *batch):
    calls.append(1)
    if len(calls) > AFTER:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, *batch)
Learner._add = add
from distembed.cli import main
main({words!r})
"""
    for kill in (3, 10**9):
        script = code.replace("AFTER", str(kill))
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
        if kill == 3:
            assert ended.returncode == -signal.SIGKILL
            assert sorted(path.name for path in tmp_path.iterdir()) == ["m.partial"]
    assert ended.returncode == 0, ended.stderr
    run(*fit_words(folder, tmp_path / "whole", *FAST, "--out-of-core", "-q"))
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    gone_on, whole = (de.load(tmp_path / name).predict(bags) for name in ("m", "whole"))
    np.testing.assert_array_equal(gone_on, whole)


def test_an_ensemble_out_of_core(folder, tmp_path, small_batches):
    words = fit_words(folder, tmp_path / "m", "--time-limit", 1e-6, "--out-of-core", "--json", label="size")
    found = json.loads(run(*words).stdout)
    assert (found["out_of_core"], found["n_bags"], found["n_test"]) == (True, 60, 6)
    assert {row["name"] for row in found["leaderboard"]} == {"constant", "mean, linear", "ensemble"}
    assert len(run("predict", tmp_path / "m", folder / "points.csv").stdout.splitlines()) == 61
    assert not (tmp_path / "m.partial").exists()
