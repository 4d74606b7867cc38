"""What the command line writes: never over what it reads, and nothing is lost before the model is there."""

import os

import numpy as np
import pytest
from command_line import refused, run

import distembed as de
from distembed.tables import read_bags, write_table

FAST = ("--embedding", "deviation", "--components", "20")
SMALL_BATCHES = {"distembed.cli.options.BATCH_POINTS": 300, "distembed.learners.batch.Checkpoint.seconds_between": -1.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and a model; tests write elsewhere."""
    path, rng = tmp_path_factory.mktemp("outputs"), np.random.default_rng(0)
    spread, bag = rng.uniform(0.5, 2, 60), rng.permutation(np.repeat(np.arange(60), 25))
    x, y = rng.normal(size=(2, len(bag))) * spread[bag]
    names = np.array([f"c{i:03}" for i in range(60)])
    for suffix in ("csv", "parquet"):
        write_table({"cluster": names[bag], "x": x, "y": y}, path / f"points.{suffix}")
    write_table({"cluster": names, "spread": spread}, path / "labels.csv")
    run(*fit_words(path, path / "numbers.distembed", *FAST, "-q"))
    return path


def fit_words(folder, output, *more, points="points.parquet"):
    return ("fit", folder / points, "--bag", "cluster", "--columns", "x,y", "--labels", folder / "labels.csv",
            "--label", "spread", "-o", output, *more)  # fmt: skip


def spellings(path, place):
    """Other names of a file: by a detour, by a link, and by a hard link."""
    (place / "x").mkdir()
    (place / f"soft{path.suffix}").symlink_to(path)
    os.link(path, place / f"hard{path.suffix}")
    return [path, place / "x" / ".." / os.path.relpath(path, place), place / f"soft{path.suffix}",
            place / f"hard{path.suffix}"]  # fmt: skip


def test_an_output_that_is_an_input_is_refused(folder, tmp_path):
    points, labels, model = (folder / name for name in ("points.csv", "labels.csv", "numbers.distembed"))
    before = [path.read_bytes() for path in (points, labels, model)]
    new = ["--bag", "cluster"]
    for output in spellings(points, tmp_path):
        for words in (
            fit_words(folder, output, *FAST, points="points.csv"),
            ("predict", model, points, "-o", output),
            ("embed", points, *new, "-o", output),
            ("embed", points, *new, "-o", tmp_path / "f.csv", "--save-model", output),
            ("distances", points, *new, "-o", output),
            ("explain", model, points, "-o", output),
        ):
            assert "it is the file of TABLE too, and would be overwritten; name another" in refused(*words)
    assert "the file of --labels too" in refused(*fit_words(folder, labels, *FAST))
    said = refused("predict", model, points, "--covariates-from", labels, "-o", labels)
    assert "the file of --covariates-from too" in said
    (tmp_path / "p.png").write_bytes(labels.read_bytes())
    said = refused(
        "evaluate", tmp_path / "p.png", "--labels", labels, "--label", "spread", "--plot", tmp_path / "p.png"
    )
    assert "the file of PREDICTIONS too" in said
    same = tmp_path / "same.png"
    assert "--plot" in refused(*fit_words(folder, same, *FAST, "--plot", same))
    assert [path.read_bytes() for path in (points, labels, model)] == before


def test_outputs_that_can_not_be_written_are_noticed_first(folder, tmp_path, monkeypatch):
    def never(*args):
        raise AssertionError

    monkeypatch.setattr("distembed.cli.options.read_all", never)
    said = refused(*fit_words(folder, tmp_path / "m", *FAST, "--plot", tmp_path / "a.xyz"))
    assert said.endswith("a.xyz': pictures are png, pdf or svg; rename it")
    monkeypatch.setattr("distembed.compute.atomic_files._made", lambda path: os.open("/dev/full", os.O_RDWR))
    said = refused(*fit_words(folder, tmp_path / "m", *FAST))
    assert said.endswith("no space left on device; make room there, or name another folder")
    assert f"{tmp_path / 'm'}" in said


@pytest.fixture
def small_batches(monkeypatch):
    for name, value in SMALL_BATCHES.items():
        monkeypatch.setattr(name, value)


@pytest.mark.parametrize("where", ["distembed.learners.holdout.Holdout.of", "distembed.files.save"])
def test_the_checkpoint_stays_until_the_model_is_there(folder, tmp_path, small_batches, monkeypatch, where):
    words = [*FAST, "--out-of-core"]
    run(*fit_words(folder, tmp_path / "whole", *words, "-q"))

    def stop(*args, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(where, stop)
        said = run(*fit_words(folder, tmp_path / "m", *words), code=130).stderr.splitlines()[-1]
    assert said.endswith("m.partial', and the same command goes on from there")
    assert not (tmp_path / "m").exists()
    for more in (["--bag-type", "text"], ["--delimiter", ","]):
        assert "half-finished fit of other data" in refused(*fit_words(folder, tmp_path / "m", *words, *more))
    assert "batches are done" in run(*fit_words(folder, tmp_path / "m", *words)).stderr
    assert not (tmp_path / "m.partial").exists()
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    gone_on, whole = (de.load(tmp_path / name).predict(bags) for name in ("m", "whole"))
    np.testing.assert_array_equal(gone_on, whole)


def test_an_old_checkpoint_goes_when_the_model_is_there(folder, tmp_path, small_batches, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("distembed.files.save", lambda *args, **more: (_ for _ in ()).throw(KeyboardInterrupt()))
        run(*fit_words(folder, tmp_path / "m", *FAST, "--out-of-core"), code=130)
    assert (tmp_path / "m.partial").exists()
    run(*fit_words(folder, tmp_path / "m", *FAST, "-q"))
    assert not (tmp_path / "m.partial").exists()
    (tmp_path / "m.partial").write_text("notes")
    run(*fit_words(folder, tmp_path / "m", *FAST, "-q"))
    assert (tmp_path / "m.partial").read_text() == "notes"
