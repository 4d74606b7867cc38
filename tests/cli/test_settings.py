"""Embeddings on the command line: parameters that are objects, marginals, scales, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run

import distembed as de
from distembed.cli.settings import setting


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bags of three columns, one of them with a long tail, and the spread of their points."""
    path, rng = tmp_path_factory.mktemp("embeddings"), np.random.default_rng(0)
    spread, bag = rng.uniform(0.5, 2, 30), np.repeat(np.arange(30), 25)
    points = pd.DataFrame(rng.normal(size=(len(bag), 3)) * spread[bag, None], columns=["x", "y", "z"])
    points.assign(z=np.exp(2 * points["z"])).assign(bag=bag).to_csv(path / "points.csv", index=False)
    pd.DataFrame({"bag": np.arange(30), "spread": spread}).to_csv(path / "labels.csv", index=False)
    return path


def bags_of(folder):
    return de.Bags.from_frame(pd.read_csv(folder / "points.csv"), bag="bag")


def embedded(folder, *more):
    words = ("embed", folder / "points.csv", "--bag", "bag", *more, "-o", folder / "features.csv")
    run(*words)
    return pd.read_csv(folder / "features.csv").drop(columns="bag").to_numpy()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20", 20),
        ("-1.5", -1.5),
        ("True", True),
        ("none", None),
        ("gauss", "gauss"),
        ("[0.1, -2, a]", [0.1, -2, "a"]),
        ("Sobol(4096)", de.Sobol(4096)),
        ("Importance(uniform=0.5)", de.Importance(uniform=0.5)),
        ("KDE(boundary='none')", de.KDE(boundary="none")),
        ("Cosine(TotalDegree())", de.Cosine(de.TotalDegree())),
    ],
)
def test_values_of_settings(text, value):
    assert repr(setting(text)) == repr(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Sobl(1)", "no object is called 'Sobl'; did you mean 'Sobol'?"),
        ("open('x')", "no object is called 'open'; there are"),
        ("Sobol(4096", "neither a list such as [1,2] nor an object"),
        ("Sobol(size=3)", "unexpected keyword argument 'size'"),
        ("Sobol(1+1)", "'1 + 1' is not a number, word, list, or object"),
        ("Sobol.fit(1)", "is not a number, word, list, or object"),
        ("Sobol(**[])", "is not a number, word, list, or object"),
    ],
)
def test_what_is_no_value_is_said(text, said):
    assert said in refused("embed", "a.csv", "--bag", "b", "--set", f"nodes={text}")


def test_objects_are_those_of_python(folder):
    made = embedded(folder, "--columns", "x", "--set", "density=KDE(boundary='periodic')", "--set", "n_basis=12")
    bags = de.Bags.from_frame(pd.read_csv(folder / "points.csv"), bag="bag", columns=["x"])
    embedding = de.HDDEmbedding("js", density=de.KDE(boundary="periodic"), n_basis=12)
    assert np.allclose(made, embedding.fit_transform(de.UnitCube().fit_transform(bags)))


@pytest.mark.parametrize("which", ["each", "pairs", 5])
def test_marginals_are_those_of_python(folder, which):
    made = embedded(folder, "--marginals", which, "--embedding", "covariance")
    wanted = de.Marginals(de.MomentEmbedding("covariance"), which, random_state=0).fit_transform(bags_of(folder))
    assert np.allclose(made, wanted)


@pytest.mark.parametrize(
    ("scale", "scaler"),
    [("rank", de.UnitCube(map="rank")), ("auto", de.UnitCube(map="auto")), ("standardize", de.Standardize())],
)
def test_scales_are_those_of_python(folder, scale, scaler):
    name = "mean" if scale == "standardize" else "l2"
    made = embedded(folder, "--scale", scale, "--embedding", name, "--columns", "z")
    bags = de.Bags.from_frame(pd.read_csv(folder / "points.csv"), bag="bag", columns=["z"])
    wanted = de.embeddings.get(name).fit_transform(scaler.fit_transform(bags))
    assert np.allclose(made, wanted)


def test_fits_with_marginals_and_scale(folder, tmp_path):
    words = ("fit", folder / "points.csv", "--bag", "bag", "--labels", folder / "labels.csv", "--label", "spread",
             "--components", 0, "--tune", "none", "-o", tmp_path / "m.distembed")  # fmt: skip
    run(*words, "--embedding", "hellinger", "--marginals", "each", "--scale", "rank")
    model = de.load(tmp_path / "m.distembed")
    assert repr(model.embedding) == "Marginals(embedding=HDDEmbedding(distance='hellinger'), random_state=0)"
    assert model.scaler_.map == "rank"
    assert run("predict", tmp_path / "m.distembed", folder / "points.csv").stdout.count("\n") == 31
    assert "--marginals is of one embedding, and --embedding auto" in refused(*words, "--marginals", "each")
    assert "must be 'each', 'pairs' or a number" in refused(*words, "--marginals", "all")


def test_distances_with_marginals_and_scale(folder, tmp_path):
    words = ("distances", folder / "points.csv", "--bag", "bag", "--columns", "z", "-o", tmp_path / "d.csv", "--json")
    assert json.loads(run(*words, "--embedding", "js", "--marginals", "each").stdout)["n_bags"] == 30
    run(*words, "--scale", "rank")
    bags = de.Bags.from_frame(pd.read_csv(folder / "points.csv"), bag="bag", columns=["z"])
    cube = de.UnitCube(map="rank").fit_transform(bags)
    made = pd.read_csv(tmp_path / "d.csv").drop(columns="bag").to_numpy()
    wanted = de.kernels.comparisons.Comparison("js", cube, "distances")
    assert np.allclose(made, wanted.both_ways(wanted.look_at(cube)))
    assert "--marginals applies to an embedding" in refused(*words, "--marginals", "each")


def test_wrong_values_are_said_in_options(folder):
    words = ("embed", folder / "points.csv", "--bag", "bag", "--columns", "x")
    assert "must be an integer in [1, 10000], got 'abc'" in refused(*words, "--set", "n_basis=abc")
    for command in ("embed", "distances"):
        said = refused(command, *words[1:], "--scale", "standardize")
        assert "--scale standardize leaves points outside the unit cube, where they must be; use linear, asinh" in said


def test_a_fitted_embedding_has_its_settings(folder, tmp_path):
    embedded(folder, "--embedding", "mean", "--save-model", tmp_path / "e.distembed")
    words = ("embed", folder / "points.csv", "--model", tmp_path / "e.distembed", "-o", tmp_path / "f.csv")
    for option in (("--scale", "rank"), ("--set", "n_basis=3"), ("--marginals", "each"), ("--embedding", "mmd")):
        assert f"{option[0]} applies to an embedding that is fitted here" in refused(*words, *option)
