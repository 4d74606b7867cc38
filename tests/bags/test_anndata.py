"""Bags from AnnData: objects and .h5ad files, of today's encoding and of older ones."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import distembed as de
from distembed import Bags
from distembed.bags import anndata
from distembed.bags.anndata import labels_of

DONORS = np.array(["b", "a", "b", "c", "a", "b"])
STATUS = np.array(["ill", "well", "ill", "well", "well", "ill"])
TYPES = np.array(["T", "B", "B", "T", "NK", "T"])
AGES = np.array([31.0, 64.0, 31.0, 47.0, 64.0, 31.0])
GENES = ["g", "h", "k"]
TEXT = h5py.string_dtype()


def cells(seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return np.where(rng.uniform(size=(6, 3)) < 0.5, 0, rng.normal(size=(6, 3))).astype(dtype)


def put_text(group, name, values):
    group.create_dataset(name, data=np.array(values, dtype=object), dtype=TEXT)


def put_categories(group, name, values, missing=()):
    labels, codes = np.unique(values, return_inverse=True)
    codes[list(missing)] = -1
    column = group.create_group(name)
    column.attrs["encoding-type"] = "categorical"
    column["codes"] = codes.astype(np.int8)
    put_text(column, "categories", labels)


def put_matrix(group, name, values, how):
    if how == "array":
        group[name] = values
        return
    matrix = sp.csr_matrix(values) if how.startswith("csr") else sp.csc_matrix(values)
    found = group.create_group(name)
    if how == "csr_old":
        found.attrs["h5sparse_format"], found.attrs["h5sparse_shape"] = "csr", values.shape
    else:
        found.attrs["encoding-type"], found.attrs["shape"] = f"{how}_matrix", values.shape
    for part in ("data", "indices", "indptr"):
        found[part] = getattr(matrix, part)


def write(path, X, how="array", **more):
    """Write a small .h5ad file of today's encoding."""
    with h5py.File(path, "w") as file:
        obs = file.create_group("obs")
        obs.attrs["_index"], obs.attrs["column-order"] = "_index", ["donor", "status", "age", "type", *more]
        put_text(obs, "_index", [f"cell{i}" for i in range(len(X))])
        put_categories(obs, "donor", DONORS)
        put_categories(obs, "status", STATUS)
        obs["age"] = AGES
        put_categories(obs, "type", TYPES)
        for name, values in more.items():
            obs[name] = values
        var = file.create_group("var")
        var.attrs["_index"] = "gene"
        put_text(var, "gene", GENES)
        put_matrix(file, "X", X, how)
        obsm = file.create_group("obsm")
        obsm["X_pca"] = X[:, :2] * 2
        put_matrix(obsm, "X_sparse", X, "csc")
        put_matrix(file.create_group("layers"), "raw", X * 3, how)
        frame = obsm.create_group("scores")
        frame.attrs["encoding-type"], frame.attrs["column-order"] = "dataframe", ["s1", "s2"]
        frame["s1"], frame["s2"] = X[:, 0], X[:, 1]
    return path


def as_object(X):
    labels = {"donor": DONORS, "status": STATUS, "type": TYPES}
    obs = pd.DataFrame({name: pd.Categorical(values) for name, values in labels.items()} | {"age": AGES})
    reps = {"X_pca": (X.toarray() if sp.issparse(X) else X)[:, :2] * 2}
    return SimpleNamespace(X=X, obs=obs, obsm=reps, layers={"raw": X * 3}, var_names=pd.Index(GENES))


def expected(X):
    return Bags.from_arrays([X[donor == DONORS] for donor in "abc"], ids=list("abc"), columns=GENES)


@pytest.mark.parametrize("how", ["array", "csr", "csc", "csr_old"])
@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_files(tmp_path, monkeypatch, how, block):
    monkeypatch.setattr(anndata, "BLOCK_VALUES", block)
    path = write(tmp_path / "cells.h5ad", cells(), how)
    bags, y = Bags.from_anndata(path, bag="donor", label="status")
    assert bags == expected(cells())
    assert bags.dtype == np.float32
    assert y.tolist() == ["well", "ill", "well"]
    assert (
        Bags.from_anndata(str(path), "donor", columns=["k", "g"])[1].tolist()
        == cells()[DONORS == "b"][:, [2, 0]].tolist()
    )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array])
def test_objects(make):
    data = as_object(make(cells(dtype=float)))
    assert Bags.from_anndata(data, bag="donor") == expected(cells(dtype=float))
    bags, ages = Bags.from_anndata(data, bag="donor", rep="X_pca", label="age")
    assert bags.columns == ("X_pca_0", "X_pca_1")
    assert bags.points[2].tolist() == (cells(dtype=float)[0, :2] * 2).tolist()
    assert ages.tolist() == [64, 31, 47]


def test_representations(tmp_path):
    path, X = write(tmp_path / "cells.h5ad", cells()), cells()
    assert Bags.from_anndata(path, "donor", rep="X") == expected(X)
    assert Bags.from_anndata(path, "donor", rep="X_sparse").columns == ("X_sparse_0", "X_sparse_1", "X_sparse_2")
    assert np.array_equal(Bags.from_anndata(path, "donor", rep="X_sparse").points, expected(X).points)
    assert Bags.from_anndata(path, "donor", rep="scores").columns == ("s1", "s2")
    with pytest.raises(
        ValueError, match=r"rep must be a key of obsm, got 'X_umap'; obsm has 'X_pca', 'X_sparse', 'scores'"
    ):
        Bags.from_anndata(path, "donor", rep="X_umap")
    with h5py.File(path, "a") as file:
        del file["X"]
    with pytest.raises(ValueError, match="there is no X; pass rep: name a key of obsm, one of 'X_pca'"):
        Bags.from_anndata(path, "donor")


def test_encodings_of_columns(tmp_path):
    path = write(tmp_path / "cells.h5ad", cells())
    with h5py.File(path, "a") as file:
        obs = file["obs"]
        labels = obs.create_group("__categories")
        put_text(labels, "old", ["x", "y"])
        obs["old"] = np.array([1, 0, 1, 1, 0, 1], np.int8)
        obs["old"].attrs["categories"] = labels["old"].ref
        masked = obs.create_group("masked")
        masked.attrs["encoding-type"] = "nullable-integer"
        masked["values"], masked["mask"] = np.arange(6), DONORS == "c"
        obs["fixed"] = DONORS.astype("S1")
        obs["flag"] = DONORS == "a"
    assert labels_of(path, "donor", "old") == {"b": "y", "a": "x", "c": "y"}
    assert labels_of(path, "fixed", "flag") == {"b": False, "a": True, "c": False}
    with pytest.raises(
        ValueError, match="label='masked' must have one value per bag, got 0 and 5 in bag 'b', and in 1"
    ):
        labels_of(path, "donor", "masked")


def test_records_of_before(tmp_path):
    path = tmp_path / "old.h5ad"
    with h5py.File(path, "w") as file:
        obs = np.empty(6, dtype=[("index", "S5"), ("donor", "S1"), ("status", "i1")])
        obs["index"], obs["donor"], obs["status"] = [f"c{i}" for i in range(6)], DONORS, STATUS == "well"
        file["obs"] = obs
        file["var"] = np.array([(name,) for name in GENES], dtype=[("index", "S1")])
        file["X"] = cells()
        put_text(file.create_group("uns"), "status_categories", ["ill", "well"])
        file["obsm"] = np.array([(row,) for row in cells()[:, :2]], dtype=[("X_pca", "f4", (2,))])
    bags, y = Bags.from_anndata(path, bag="donor", label="status")
    assert bags == expected(cells())
    assert y.tolist() == ["well", "ill", "well"]
    assert Bags.from_anndata(path, "donor", rep="X_pca").n_dims == 2


def test_labels(tmp_path):
    path = write(tmp_path / "cells.h5ad", cells(), cluster=np.arange(6))
    with pytest.raises(
        ValueError, match=r"cells.h5ad': label='cluster' must have one value per bag, got 0 and 5 in bag 'b'"
    ):
        Bags.from_anndata(path, bag="donor", label="cluster")
    with h5py.File(path, "a") as file:
        del file["obs/status"]
        put_categories(file["obs"], "status", STATUS, missing=[3])
    assert labels_of(path, "donor", "status") == {"b": "ill", "a": "well"}
    with pytest.raises(ValueError, match="label='status' must have a value for every bag, got none for 'c'; leave"):
        Bags.from_anndata(path, bag="donor", label="status")
    with h5py.File(path, "a") as file:
        del file["obs/status"]
        put_categories(file["obs"], "status", STATUS, missing=[0])
    with pytest.raises(ValueError, match="got none and 'ill' in bag 'b'"):
        labels_of(path, "donor", "status")


def test_missing_values(tmp_path):
    X = cells(dtype=float) + 1
    X[[0, 3], 1] = np.nan
    path = write(tmp_path / "cells.h5ad", X)
    with pytest.raises(ValueError, match=r"missing values .*: 2 in 'h'; pass nan='drop' .* nan='indicator'"):
        Bags.from_anndata(path, "donor")
    with pytest.raises(ValueError, match=r"bag 2 \(id 'c'\) has missing values in every point, so nan='drop'"):
        Bags.from_anndata(path, "donor", nan="drop")
    bags = Bags.from_anndata(path, "donor", nan="indicator")
    assert bags.columns == ("g", "h", "k", "h missing")
    assert bags.missing_fills == {"h": pytest.approx(np.nanmean(X[:, 1]))}
    assert bags.points[:, 3].tolist() == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"bag": "doner"}, "bag names the column of obs 'doner', which is not there; did you mean 'donor'?"),
        ({"bag": "zzz"}, "it has 'donor', 'status', 'age', 'type'"),
        ({"bag": "donor", "label": "stat"}, "label names the column of obs 'stat'"),
        ({"bag": "donor", "covariates": ["sex"]}, "covariates names the column of obs 'sex'"),
        ({"bag": "donor", "categorical": ["typ"]}, "column of obs 'typ', which is not there; did you mean 'type'?"),
        ({"bag": "donor", "layer": "logs"}, "layer must be a key of layers, got 'logs'; there are 'raw'"),
        ({"bag": "donor", "layer": "raw", "rep": "X_pca"}, "rep='X_pca' and layer 'raw' are two matrices"),
        ({"bag": "donor", "categorical": "donor"}, "categorical must not contain 'donor', the column of bag ids"),
        ({"bag": "donor", "columns": []}, "columns must name at least one coordinate, got none"),
        ({"bag": ["donor", "donor"]}, "bag must name a column of obs, or several that differ"),
        ({"bag": "donor", "label": "age", "covariates": ["age"]}, "got one that covariates names too"),
        ({"bag": "donor", "columns": ["q"]}, "columns names 'q', which is not there; it has 'g', 'h', 'k'"),
    ],
)
def test_unknown_names(tmp_path, arguments, match):
    with pytest.raises(ValueError, match=match.replace("?", r"\?")):
        Bags.from_anndata(write(tmp_path / "cells.h5ad", cells()), **arguments)


def test_names_that_repeat():
    data = as_object(cells())
    data.var_names = ["g", "g", "g-1"]
    assert Bags.from_anndata(data, "donor").columns == ("g", "g-2", "g-1")


def test_files_that_are_not_anndata(tmp_path, monkeypatch):
    path = tmp_path / "cells.h5ad"
    with pytest.raises(ValueError, match="no such file"):
        Bags.from_anndata(path, "donor")
    path.write_bytes(b"no HDF5")
    with pytest.raises(ValueError, match=r"cells.h5ad' is not a readable .h5ad file"):
        Bags.from_anndata(path, "donor")
    with h5py.File(path, "w") as file:
        file["X"] = cells()
    with pytest.raises(ValueError, match="without obs, so it is not AnnData"):
        Bags.from_anndata(path, "donor")
    with pytest.raises(ValueError, match="is a folder"):
        Bags.from_anndata(tmp_path, "donor")
    with pytest.raises(TypeError, match=r"which has X, obs and obsm, .* got DataFrame"):
        Bags.from_anndata(pd.DataFrame({"donor": [1]}), "donor")
    short = as_object(cells())
    short.X = short.X[:5]
    with pytest.raises(ValueError, match="X must have one row per row of obs, 6, got 5"):
        Bags.from_anndata(short, "donor")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"needs h5py: pip install 'distembed\[h5ad\]'"):
        Bags.from_anndata(path, "donor")


@pytest.mark.parametrize("how", ["array", "csr", "csc"])
def test_layers_and_the_words_of_scanpy(tmp_path, how):
    X = cells(dtype=float)
    path = write(tmp_path / "cells.h5ad", X, how)
    data = as_object(X if how == "array" else sp.csr_matrix(X))
    for source in (path, data):
        assert Bags.from_anndata(source, "donor", layer="raw") == expected(X * 3)
        assert Bags.from_anndata(source, groupby="donor", use_rep="X_pca") == Bags.from_anndata(
            source, "donor", "X_pca"
        )
    with pytest.raises(TypeError, match="bag and groupby mean the same, got 'donor' and 'status'; leave groupby out"):
        Bags.from_anndata(data, "donor", groupby="status")
    with pytest.raises(TypeError, match="name the column of obs that has the donor of each cell"):
        Bags.from_anndata(data)


def test_columns_of_labels(tmp_path):
    X = cells(dtype=float)
    codes = [["B", "NK", "T"].index(each) for donor in "abc" for each in TYPES[donor == DONORS]]
    for source in (write(tmp_path / "cells.h5ad", X), as_object(X)):
        bags = Bags.from_anndata(source, "donor", categorical=["type"])
        assert bags.columns == ("g", "h", "k", "type")
        assert bags.category_labels == {"type": ("B", "NK", "T")}
        assert bags.points[:, 3].tolist() == codes
        assert np.array_equal(bags.points[:, :3], expected(X).points)
        only = Bags.from_anndata(source, "donor", columns=[], categorical="type")
        assert (only.columns, only.points[:, 0].tolist()) == (("type",), codes)
        both = Bags.from_anndata(source, "donor", columns=["k", "type"], categorical={"type": ["T", "NK", "B"]})
        assert (both.columns, both.category_labels) == (("k", "type"), {"type": ("T", "NK", "B")})
        assert both.points[:, 1].tolist() == [2 - code for code in codes]
    with pytest.warns(UserWarning, match="such as 'NK', count as 'other'"):
        fewer = Bags.from_anndata(as_object(X), "donor", categorical={"type": ["B", "T"]})
    assert fewer.category_labels == {"type": ("B", "T", "other")}
    named = as_object(X)
    named.obs["g"] = TYPES
    with pytest.raises(ValueError, match="categorical names 'g', a coordinate too; rename"):
        Bags.from_anndata(named, "donor", categorical=["g"])
    named.obs.loc[2, "type"] = None
    with pytest.raises(ValueError, match=r"column 'type' must have a label in every row, got 1 missing .*bag 'b'"):
        Bags.from_anndata(named, "donor", categorical=["type"])
    filled = Bags.from_anndata(named, "donor", categorical=["type"], nan="indicator")
    assert filled.category_labels == {"type": ("B", "NK", "T", "missing")}
    assert Bags.from_anndata(named, "donor", categorical=["type"], nan="drop").sizes.tolist() == [2, 2, 1]


def test_covariates(tmp_path):
    path = write(tmp_path / "cells.h5ad", cells())
    with h5py.File(path, "a") as file:
        file["obs/age"][3] = np.nan
    data = as_object(cells())
    data.obs["age"] = np.where(DONORS == "c", np.nan, AGES)
    for source in (path, data):
        bags, y, table = Bags.from_anndata(source, "donor", covariates=["age", "status"])
        assert y is None
        assert (table.index.tolist(), table.index.name) == (bags.ids.tolist(), "donor")
        np.testing.assert_array_equal(table["age"], [64, 31, np.nan])
        assert table["status"].tolist() == ["well", "ill", "well"]
        assert list(table["status"].cat.categories) == ["ill", "well"]
        _, y, table = Bags.from_anndata(source, "donor", label="status", covariates="age")
        assert (y.tolist(), list(table)) == (["well", "ill", "well"], ["age"])
        with pytest.raises(ValueError, match="covariates='type' must have one value per bag, got 'B' and 'T' in"):
            Bags.from_anndata(source, "donor", covariates=["age", "type"])


def test_order_is_that_of_groupby():
    data = as_object(cells())
    rng = np.random.default_rng(0)
    data.obs["text"] = rng.permutation(["d10", "d9", "d1", "d9", "d10", "d9"])
    data.obs["number"] = [3.0, -1.0, 3.0, 20.0, -1.0, 20.0]
    data.obs["own"] = pd.Categorical(DONORS, categories=["c", "unused", "b", "a"])
    for bag in ("text", "number", "own"):
        groups = data.obs.groupby(bag, observed=True)["age"].first()
        bags, _, table = Bags.from_anndata(data, bag, covariates=[])
        assert bags.ids.tolist() == groups.index.tolist() == table.index.tolist()
    pairs = data.obs.groupby(["own", "text"], observed=True).size()
    bags = Bags.from_anndata(data, ["own", "text"])
    assert bags.ids.tolist() == [f"{one}/{other}" for one, other in pairs.index]
    assert bags.sizes.tolist() == pairs.tolist()
    data.obs["mixed"] = pd.Series([1, "x", 1, "y", "x", 1], dtype=object)  # can't be sorted
    assert Bags.from_anndata(data, "mixed").ids.tolist() == [1, "x", "y"]


def test_anndata_in_place_of_bags():
    data = as_object(cells())
    said = r"use distembed.Bags.from_anndata\(adata, bag=<column of obs>\), such as one of 'donor', 'status', 'type'"
    with pytest.raises(TypeError, match=said):
        de.as_bags(data)
    with pytest.raises(TypeError, match=said):
        de.DistributionClassifier().fit(data, STATUS)


def replaced(name, values):
    def spoil(file):
        del file[name]
        file[name] = values

    return spoil


@pytest.mark.parametrize(
    ("how", "spoil", "said"),
    [
        ("array", replaced("obs/donor/codes", np.array([0, 1, 9, 2, 0, 1], np.int8)), "index 9 is out of bounds"),
        ("array", replaced("obs/type/codes", np.array([0, 1, 9, 2, 0, 1], np.int8)), "index 9 is out of bounds"),
        ("array", replaced("obs/donor/codes", np.full(6, 0.5)), "must be of integer"),
        ("array", replaced("X", np.full((6, 3), b"a")), "X must be real numbers"),
        ("array", replaced("X", np.ones((6, 3, 2))), r"X must have two axes, .* got shape \(6, 3, 2\)"),
        ("array", replaced("X", 1.0), "X must have two axes"),
        ("csr", replaced("X/indptr", np.array([0, 99, 2, 3, 4, 5, 6])), "indptr of a sparse matrix must rise from 0"),
        ("csr", replaced("X/indices", np.full(18, 50)), "indices of a sparse matrix must be from 0 to 2"),
        ("csr", replaced("X/indices", np.full(18, -1)), "indices of a sparse matrix must be from 0 to 2"),
        ("csc", replaced("X/indices", np.full(18, 50)), "indices of a sparse matrix must be from 0 to 5"),
        ("csc", replaced("X/indptr", np.array([0, 1])), "indptr of a sparse matrix must rise from 0"),
        ("csr", lambda file: file["X"].attrs.modify("shape", (2**40, 3)), "indptr of a sparse matrix"),
        ("csr", lambda file: file["X"].attrs.modify("shape", (6, 2**40)), "X has 1,099,511,627,776 columns"),
        ("csr", lambda file: file["X"].attrs.create("shape", "ab"), "the shape of X must be two whole numbers"),
    ],
)
def test_damaged_files_are_refused_in_a_sentence(tmp_path, how, spoil, said):
    path = write(tmp_path / "cells.h5ad", cells(), how)
    with h5py.File(path, "a") as file:
        spoil(file)
    with pytest.raises(ValueError, match=said):
        Bags.from_anndata(path, "donor", categorical=["type"], covariates=["age"])
