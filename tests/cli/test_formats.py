"""Missing values, and the formats of the fields: .h5ad and FCS files."""

from __future__ import annotations

import json
import re

import flowio
import h5py
import numpy as np
import pytest
from command_line import FAST, make_rows, refused, run

import distembed as de
from distembed.tables import read_labels, write_table


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    """Points of which some lack y, points of which none does, and labels."""
    path = tmp_path_factory.mktemp("gaps")
    points, labels = make_rows(n_bags=30, n_points=12)
    write_table(points, path / "whole.csv")
    points["y"] = np.where(np.arange(len(points["y"])) % 9 == 0, np.nan, points["y"])
    write_table(points, path / "points.csv")
    write_table(labels, path / "labels.csv")
    return path


def fit_gaps(gaps, output, *more):
    return ("fit", gaps / "points.csv", "--bag", "cluster", "--columns", "x,y", "--labels", gaps / "labels.csv",
            "--label", "size", *FAST, "--tune", "none", "-o", output, *more)  # fmt: skip


def test_missing_values_are_counted_by_default(gaps, tmp_path):
    said = refused(*fit_gaps(gaps, tmp_path / "m"))
    assert "missing values in all: 40 in 'y'; pass --nan drop to leave out such points, or --nan indicator" in said
    write_table({"cluster": ["a", "b"], "x": [1.0, np.nan]}, tmp_path / "t.csv")
    said = refused("embed", tmp_path / "t.csv", "--bag", "cluster", "--nan", "drop")
    assert "(id 'b') has missing values in every point, so --nan drop leaves none" in said


@pytest.mark.parametrize("how", ["--in-memory", "--out-of-core"])
@pytest.mark.parametrize("nan", ["drop", "indicator"])
def test_models_remember_what_becomes_of_missing_values(gaps, tmp_path, nan, how):
    model = tmp_path / "m.distembed"
    run(*fit_gaps(gaps, model, "--nan", nan, how, "-q"))
    known = de.load(model)
    if nan == "drop":
        assert known.table_["nan"] == "drop"
        assert known.n_features_in_ == 2
    else:
        assert list(known.table_["nan"]) == ["y"]
        assert list(known.feature_names_in_) == ["x", "y", "y missing"]
        assert known.missing_fills_.keys() == known.table_["nan"].keys()
    for table in ("points.csv", "whole.csv"):
        run("predict", model, gaps / table, "-o", tmp_path / "p.csv", "-q")
        assert len(read_labels(tmp_path / "p.csv", bag="cluster", label="prediction")) == 30
        run("embed", gaps / table, "--model", model, "-o", tmp_path / "e.csv", "-q")
    other = "indicator" if nan == "drop" else "drop"
    assert f"--nan {other}: the model was fitted" in refused("predict", model, gaps / "points.csv", "--nan", other)


def test_a_model_of_whole_tables_names_the_choices(gaps, tmp_path):
    words = fit_gaps(gaps, tmp_path / "m", "-q")
    run(words[0], gaps / "whole.csv", *words[2:])
    assert "40 in 'y'; pass --nan drop" in refused("predict", tmp_path / "m", gaps / "points.csv")
    run("predict", tmp_path / "m", gaps / "points.csv", "--nan", "drop", "-o", tmp_path / "p.csv")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """An .h5ad file with labels of donors, and a folder of FCS files beside a table of their labels."""
    path = tmp_path_factory.mktemp("cells")
    rng = np.random.default_rng(0)
    sick = np.arange(24) % 2
    donor, X = np.repeat(np.arange(24), 15), rng.normal(size=(360, 2)) + 3 * np.repeat(sick, 15)[:, None]
    order = rng.permutation(360)
    with h5py.File(path / "cells.h5ad", "w") as file:
        file["X"], file["obsm/X_pca"] = X[order].astype(np.float32), X[order][:, :1]
        file["obs/donor"] = np.array([f"d{i:02}" for i in donor[order]], dtype="S3")
        file["obs/status"] = np.where(sick[donor[order]], b"sick", b"well")
        file["obs/n_reads"] = np.arange(360)
        file["obs/age"] = np.where(donor[order] == 3, np.nan, 20.0 + donor[order])
        file["obs/type"] = np.where(X[order][:, 1] > 1, b"T", b"B")
        file["layers/raw"] = X[order] * 2
        file["var/_index"] = np.array([b"g", b"h"])
    (path / "fcs").mkdir()
    for i in range(24):
        with (path / "fcs" / f"p{i}.fcs").open("wb") as file:
            swap = [1, 0] if i % 3 else [0, 1]
            flowio.create_fcs(file, X[donor == i][:, swap].ravel(), [("CD4", "CD8")[j] for j in swap])
    names = [f"p{i}.fcs" for i in range(24)]
    write_table({"file": names, "status": np.where(sick, "sick", "well")}, path / "fcs" / "info.csv")
    return path


def test_h5ad_from_fit_to_evaluate(cells, tmp_path):
    table, model, made = cells / "cells.h5ad", tmp_path / "m.distembed", tmp_path / "p.csv"
    run("fit", table, "--bag", "donor", "--label", "status", *FAST, "--tune", "none", "-o", model, "-q")
    assert de.load(model).table_ == {"bag": "donor", "columns": ["g", "h"], "weights": None, "label": "status"}
    run("predict", model, table, "-o", made)
    scores = json.loads(run("evaluate", made, "--labels", table, "--label", "status", "--json").stdout)["scores"]
    assert scores["accuracy"]["value"] > 0.4
    run("embed", table, "--bag", "donor", "--rep", "X_pca", "--embedding", "mean", "-o", tmp_path / "e.csv",
        "--save-model", tmp_path / "e.distembed")  # fmt: skip
    run("embed", table, "--model", tmp_path / "e.distembed", "-o", tmp_path / "f.csv")
    assert (tmp_path / "e.csv").read_text() == (tmp_path / "f.csv").read_text()
    assert (tmp_path / "e.csv").read_text().startswith('"donor","mean_X_pca_0"')


def test_fcs_from_fit_to_evaluate(cells, tmp_path):
    table, labels, model = cells / "fcs", cells / "fcs" / "info.csv", tmp_path / "m.distembed"
    run("fit", table, "--labels", labels, "--label", "status", "--cofactor", 5, *FAST,  # a file is a bag
        "--tune", "none", "-o", model, "-q")  # fmt: skip
    assert de.load(model).table_["cofactor"] == 5
    run("predict", model, table, "-o", tmp_path / "p.csv")
    made = read_labels(tmp_path / "p.csv", bag="file", label="prediction")
    assert len(made) == 24
    bags = de.Bags.from_fcs(table, channels=["CD4", "CD8"], cofactor=5)
    assert list(de.load(model).predict(bags)) == [made[name] for name in bags.ids]
    run("embed", table, "--embedding", "mean", "-o", tmp_path / "e.csv")
    assert (tmp_path / "e.csv").read_text().startswith('"file",')
    run("fit", table, "--labels", labels, "--label", "status", *FAST, "--tune", "none", "--no-compensate", "-o", model,
        "-q")  # fmt: skip
    assert de.load(model).table_["compensate"] is False
    run("predict", model, table, "-o", tmp_path / "p.csv")
    said = refused("embed", table, "--embedding", "mean", "--compensate", "-o", tmp_path / "e.csv")
    assert said.endswith("has no $SPILLOVER of its channels; leave that file out, or pass --no-compensate")


def test_covariates_from_obs(cells, tmp_path):
    table = cells / "cells.h5ad"
    words = ("fit", table, "--bag", "donor", "--label", "status", "--time-limit", 1e-6, "-o", tmp_path / "m")
    run(*words, "--covariates", "age", "-q")
    assert len(run("predict", tmp_path / "m", table).stdout.splitlines()) == 25
    assert "--covariates n_reads must have one value per bag" in refused(*words, "--covariates", "n_reads")


def test_layers_and_cell_types(cells, tmp_path):
    table, model = cells / "cells.h5ad", tmp_path / "m.distembed"
    run("fit", table, "--bag", "donor", "--label", "status", "--layer", "raw", "--categorical", "type", "--columns",
        "h,type", *FAST, "--tune", "none", "-o", model, "-q")  # fmt: skip
    known = de.load(model).table_
    assert (known["layer"], known["columns"], known["categorical"]) == ("raw", ["h", "type"], {"type": ("B", "T")})
    run("predict", model, table, "-o", tmp_path / "p.csv")
    made = read_labels(tmp_path / "p.csv", bag="donor", label="prediction")
    bags = de.Bags.from_anndata(table, "donor", layer="raw", columns=["h"], categorical=["type"])
    assert de.load(model).predict(bags).tolist() == [made[name] for name in bags.ids.tolist()]
    fit = ("fit", table, "--bag", "donor", "--label", "status", "-o", model)
    assert "--layer must be a key of layers, got 'logs'; there are 'raw'" in refused(*fit, "--layer", "logs")
    assert "--categorical names the column of obs 'typ'" in refused(*fit, "--categorical", "typ", "--embedding", "mean")
    assert "FCS files have no --categorical columns" in refused("embed", cells / "fcs", "--categorical", "CD4")


def test_info_of_the_formats_of_the_fields(cells):
    shown = run("info", cells / "cells.h5ad", "--bag", "donor").stdout
    assert re.search(r"^status +text +0 +2: sick, well +one$", shown, re.MULTILINE)
    assert re.search(r"^n_reads +number +0 +360: 0 to 359 +several$", shown, re.MULTILINE)
    assert re.search(r"^age +number +15 +23: 20 to 43 +one$", shown, re.MULTILINE)
    assert "X has 2 variables: g, h\nobsm, for --rep: X_pca (1 columns)\n24 bags by 'donor': 15 to 15 rows" in shown
    found = json.loads(run("info", cells / "cells.h5ad", "--json").stdout)
    assert (found["kind"], found["n_points"], found["variables"]) == ("AnnData", 360, ["g", "h"])
    assert set(found["obs"]) == {"age", "donor", "n_reads", "status", "type"}
    assert "--bag COLUMN shows bags" in run("info", cells / "cells.h5ad").stdout
    assert "obs has no column 'doner'" in refused("info", cells / "cells.h5ad", "--bag", "doner")
    shown = run("info", cells / "fcs").stdout
    assert re.search(r"^CD4 +-?[0-9.]+ +[0-9.]+$", shown, re.MULTILINE)
    assert "24 bags by 'file': 15 to 15 rows each" in shown
    assert shown.endswith("info.csv\n")
    found = json.loads(run("info", cells / "fcs", "--json").stdout)
    assert (found["kind"], found["bags"]["n_bags"], list(found["columns"])) == ("FCS", 24, ["CD4", "CD8"])


def test_refusals_of_the_formats_of_the_fields(cells, tmp_path):
    table, fit = cells / "cells.h5ad", ("--bag", "donor", "--label", "status", "-o", tmp_path / "m")
    assert "--labels is missing" in refused("fit", cells / "fcs", *fit)
    assert "--rep must be a key of obsm, got 'pca'; obsm has 'X_pca'" in refused("fit", table, *fit, "--rep", "pca")
    assert "--cofactor applies to FCS files" in refused("fit", table, *fit, "--cofactor", "5")
    said = refused("fit", table, "--bag", "donor", "--label", "n_reads", "-o", tmp_path / "m")
    assert "--label n_reads must have one value per bag, got" in said
    assert "'d" in said
    said = refused("fit", table, "--bag", "doner", "--label", "status", "-o", tmp_path / "m")
    assert "--bag names the column of obs 'doner', which is not there; did you mean 'donor'?" in said
    assert "lacks the channel 'CD3'" in refused("embed", cells / "fcs", "--columns", "CD3")
