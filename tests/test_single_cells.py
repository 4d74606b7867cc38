"""Donors and values of cells as AnnData, and the sample representation of patpy; skipped where these are missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.bags.labels import points_of_rows

ROOT = Path(__file__).parents[1]
N_DONORS = 30


@pytest.fixture(scope="module")
def adata():
    """Cells of donors in random order; T cells of ill donors are shifted, and age is missing for one."""
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat(np.arange(N_DONORS), 40))
    ill = donor % 2 == 1
    kind = rng.choice(["T", "B"], len(donor))
    X = rng.normal(size=(len(donor), 3)) + 2.0 * (ill & (kind == "T"))[:, None] * [1, 0, 0]
    age = np.where(donor == 3, np.nan, 40.0 + donor)
    obs = {"donor": [f"d{i}" for i in donor], "status": np.where(ill, "ill", "well"), "age": age, "cell_type": kind}
    names = [f"cell{i}" for i in range(len(donor))]
    frame = pd.DataFrame(obs, index=names).astype({"donor": "category", "cell_type": "category"})
    made = anndata.AnnData(X, obs=frame, var=pd.DataFrame(index=["a", "b", "c"]))
    made.obsm["X_pca"] = X[:, :2]
    made.obs["height"] = np.bincount(donor, X[:, 0])[donor]
    return made


@pytest.fixture(scope="module")
def fitted(adata):
    bags, y, table = de.Bags.from_anndata(
        adata, "donor", rep="X_pca", label="status", covariates=["age"], categorical=["cell_type"]
    )
    model = de.DistributionClassifier("statistics + covariates, linear", random_state=0).fit(bags, y, covariates=table)
    return bags, y, table, model


def test_points_of_rows_are_those_of_the_loop():
    rng = np.random.default_rng(0)
    keys = rng.choice(list("abcd"), 50)
    values = rng.normal(size=50)
    bags = de.Bags.from_frame({"bag": keys, "x": values}, bag="bag").select(["d", "a"])
    rows = points_of_rows(bags, keys, "test")
    assert_array_equal(rows >= 0, np.isin(keys, ["a", "d"]))
    assert_array_equal(bags.points[rows[rows >= 0], 0], values[rows >= 0])
    with pytest.raises(ValueError, match=r"test: bag 0 \(id 'd'\) must have its"):
        points_of_rows(bags, np.append(keys, "d"), "test")


def test_donors_to_anndata(fitted, tmp_path):
    import anndata

    bags, _, table, model = fitted
    found = de.donors_to_anndata(
        bags,
        covariates=table,
        predictions=model,
        features=make_pipeline(de.Standardize(), de.MomentEmbedding()).fit(bags),
        map=de.explore(bags),
        distances="ranks",
    )
    assert found.obs_names.tolist() == bags.ids.tolist()
    assert_array_equal(found.obs["n_points"], bags.sizes)
    assert_array_equal(found.obs["age"], table["age"])
    assert_array_equal(found.obs["prediction"], model.predict(bags, covariates=table))
    assert_allclose(found.obs["probability_ill"], model.predict_proba(bags, covariates=table)[:, 0])
    assert set(found.obs["set"]) <= {"ill", "well", "ill|well"}
    assert set(found.obs) >= {"group", "oddness_pvalue"}
    assert (found.obsm["X_map"].shape, found.obsp["distances"].shape) == ((N_DONORS, 2), (N_DONORS, N_DONORS))
    found.write_h5ad(tmp_path / "donors.h5ad")
    again = anndata.read_h5ad(tmp_path / "donors.h5ad")
    assert_allclose(again.X, found.X)
    assert list(again.obs) == list(found.obs)


def test_names_of_donors(fitted):
    bags, _, table, _ = fitted
    known = {"prediction": np.arange(N_DONORS)}
    found = de.donors_to_anndata(
        bags, covariates=table.iloc[::-1], predictions=known, map=np.zeros((N_DONORS, 3)),
        distances=np.zeros((N_DONORS, N_DONORS)), features=table.assign(two=2.0), key_added="de",
    )  # fmt: skip
    assert list(found.obs) == ["n_points", "age", "de_prediction"]
    assert_array_equal(found.obs["age"], table["age"])
    assert (list(found.obsm), list(found.obsp), list(found.var_names)) == (
        ["X_de_map"], ["de_distances"], ["age", "two"],
    )  # fmt: skip
    with pytest.raises(ValueError, match="columns that are added too: 'prediction'; rename them, or pass key_added"):
        de.donors_to_anndata(bags, covariates=known, predictions=known)
    with pytest.raises(ValueError, match=r"map must have one row per bag, 30, got shape \(3, 2\)"):
        de.donors_to_anndata(bags, map=np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"distances must have shape \(30, 30\)"):
        de.donors_to_anndata(bags, distances=np.zeros((30, 2)))


def test_intervals_of_donors(adata):
    bags, y = de.Bags.from_anndata(adata, "donor", label="height")
    model = de.DistributionRegressor("mean, linear", random_state=0).fit(bags, y)
    found = de.donors_to_anndata(bags, predictions=model, coverage=0.8)
    assert_allclose(found.obs[["low", "high"]], model.predict_interval(bags, coverage=0.8))


def test_cells_to_obs(adata, fitted):
    bags, _, table, model = fitted
    some = bags[:4]
    why = model.explain(some, output="ill", covariates=table.iloc[:4], random_state=0)
    cells = adata.copy()
    de.cells_to_obs(cells, why, bag="donor")
    inside = cells.obs["donor"].isin(some.ids).to_numpy()
    assert_array_equal(np.isfinite(cells.obs["effect"]), inside)
    assert_array_equal(cells.obs["effect_region"].notna(), inside)
    for i, name in enumerate(some.ids):
        mine = cells[cells.obs["donor"] == name]
        assert_array_equal(mine.obs["effect"], why.of(i))
        assert_array_equal(mine.obsm["X_pca"], some[i][:, :2])
        for region in why.regions[i]:
            there = mine.obs["effect_region"] == region.rule
            assert there.mean() == pytest.approx(region.share)
    de.cells_to_obs(cells, some.points[:, 0], bag="donor", bags=some, key_added="first")
    assert_array_equal(cells.obs["first"][inside], cells.obsm["X_pca"][inside, 0])
    with pytest.raises(TypeError, match="bags must be given with an array of values"):
        de.cells_to_obs(cells, some.points[:, 0], bag="donor")
    with pytest.raises(ValueError, match="must have its 40 points among the rows, got"):
        de.cells_to_obs(cells[:500].copy(), why, bag="donor")


def test_backed_files_are_as_objects(adata, tmp_path):
    import anndata

    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    options = {"bag": "donor", "categorical": ["cell_type"], "label": "status", "covariates": ["age"]}
    for source in (backed, tmp_path / "cells.h5ad"):
        for got, wanted in zip(
            de.Bags.from_anndata(source, **options), de.Bags.from_anndata(adata, **options), strict=True
        ):
            assert got.equals(wanted) if hasattr(got, "equals") else np.all(got == wanted)
    backed.file.close()


def test_command_line(adata, tmp_path):
    import anndata

    cells = tmp_path / "cells.h5ad"
    adata.write_h5ad(cells)
    run("fit", cells, "--bag", "donor", "--label", "status", "--rep", "X_pca", "--covariates", "age", "--categorical",
        "cell_type", "--embedding", "statistics + covariates, linear", "-o", tmp_path / "m", "-q")  # fmt: skip
    run("predict", tmp_path / "m", cells, "--coverage", 0.9, "-o", tmp_path / "donors.h5ad")
    donors = anndata.read_h5ad(tmp_path / "donors.h5ad")
    bags, _, table = de.Bags.from_anndata(adata, "donor", rep="X_pca", covariates=["age"], categorical=["cell_type"])
    model = de.load(tmp_path / "m")
    assert list(donors.obs) == ["prediction", "probability_ill", "probability_well", "set"]
    wanted = dict(zip(bags.ids.tolist(), model.predict(bags, covariates=table), strict=True))
    assert donors.obs["prediction"].astype(str).to_dict() == wanted
    run("embed", cells, "--bag", "donor", "--embedding", "mean", "-o", tmp_path / "features.h5ad")
    features = anndata.read_h5ad(tmp_path / "features.h5ad")
    assert (features.shape, features.var_names[0]) == ((N_DONORS, 3), "mean_a")
    run("explain", tmp_path / "m", cells, "-o", tmp_path / "explained.h5ad")
    explained = anndata.read_h5ad(tmp_path / "explained.h5ad")
    assert explained.obs[["effect", "effect_region"]].notna().all(axis=None)
    assert_array_equal(explained.X, adata.X)
    assert_allclose(explained.obs.groupby("donor", observed=True)["effect"].mean(), 0, atol=1e-6)
    assert "which is not an .h5ad file" in refused("explain", tmp_path / "m", "a.csv", "-o", tmp_path / "e.h5ad")


@pytest.mark.filterwarnings("default")  # of few donors
@pytest.mark.parametrize("language", ["python", "sh"])
def test_the_first_lines_of_the_guide(adata, tmp_path, monkeypatch, language):
    import anndata

    text = (ROOT / "docs" / "guide" / "single_cells.md").read_text(encoding="utf-8")
    first = re.search(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    later = adata.obs["donor"].isin([f"d{i}" for i in range(22, N_DONORS)]).to_numpy()
    adata[~later].write_h5ad("cells.h5ad")
    adata[later].write_h5ad("new.h5ad")
    truth = adata[later].obs.groupby("donor", observed=True)["status"].first()
    if language == "python":
        names = {}
        exec(first, names)
        donors, cells = names["donors"], names["new"]
        assert set(donors.obs) >= {"age", "set", "group", "oddness_pvalue"}
    else:
        for line in first.splitlines():
            run(*line.split()[1:])
        donors, cells = anndata.read_h5ad("donors.h5ad"), anndata.read_h5ad("explained.h5ad")
        assert "<html" in Path("map.html").read_text(encoding="utf-8")[:500]
    right = donors.obs["prediction"].astype(str) == truth.astype(str).loc[donors.obs_names]
    assert right.mean() >= 0.75
    ill = cells.obs[cells.obs["status"] == "ill"]
    shifted = ill["cell_type"] == "T"
    assert ill["effect"][shifted].mean() > ill["effect"][~shifted].mean()


def test_without_anndata(monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ImportError, match=r"needs anndata: pip install 'distembed\[anndata\]'"):
        de.donors_to_anndata([[1.0], [2.0]])
    monkeypatch.setitem(sys.modules, "patpy.tl", None)
    monkeypatch.delitem(vars(de.single_cells), "DonorRepresentation", raising=False)
    with pytest.raises(ImportError, match="pip install patpy"):
        _ = de.single_cells.DonorRepresentation


@pytest.mark.filterwarnings("ignore")  # patpy's own
@pytest.mark.parametrize(("layer", "embedding"), [("X_pca", "ranks"), ("X", "js")])
def test_patpy(adata, layer, embedding):
    tl = pytest.importorskip("patpy.tl")
    method = de.single_cells.DonorRepresentation(
        "donor", "cell_type", layer=layer, embedding=embedding, with_types=embedding == "ranks"
    )
    assert isinstance(method, tl.SampleRepresentationMethod)
    cells = adata.copy()
    method.prepare_anndata(cells)
    distances = method.calculate_distance_matrix()
    assert distances.shape == (N_DONORS, N_DONORS)
    assert_allclose(distances, distances.T)
    assert method.calculate_distance_matrix() is distances
    assert method.sample_representation.index.tolist() == list(method.samples)
    assert method.evaluate_representation("status", method="knn", task="classification")["score"] > 0.2
    assert method.to_adata().shape[0] == N_DONORS
    assert set(method.fit_linear_probe("status")) >= {"accuracy", "f1"}
    assert method.embed("MDS", n_jobs=1).shape == (N_DONORS, 2)
