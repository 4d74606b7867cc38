"""Bags from AnnData: objects and .h5ad files, of today's encoding and of older ones."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from distembed import Bags
from distembed.bags import anndata
from distembed.bags.anndata import labels_of

DONORS = np.array(["b", "a", "b", "c", "a", "b"])
STATUS = np.array(["ill", "well", "ill", "well", "well", "ill"])
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
        obs.attrs["_index"], obs.attrs["column-order"] = "_index", ["donor", "status", "age", *more]
        put_text(obs, "_index", [f"cell{i}" for i in range(len(X))])
        put_categories(obs, "donor", DONORS)
        put_categories(obs, "status", STATUS)
        obs["age"] = AGES
        for name, values in more.items():
            obs[name] = values
        var = file.create_group("var")
        var.attrs["_index"] = "gene"
        put_text(var, "gene", GENES)
        put_matrix(file, "X", X, how)
        obsm = file.create_group("obsm")
        obsm["X_pca"] = X[:, :2] * 2
        put_matrix(obsm, "X_sparse", X, "csc")
        frame = obsm.create_group("scores")
        frame.attrs["encoding-type"], frame.attrs["column-order"] = "dataframe", ["s1", "s2"]
        frame["s1"], frame["s2"] = X[:, 0], X[:, 1]
    return path


def as_object(X):
    obs = pd.DataFrame({"donor": pd.Categorical(DONORS), "status": pd.Categorical(STATUS), "age": AGES})
    reps = {"X_pca": (X.toarray() if sp.issparse(X) else X)[:, :2] * 2}
    return SimpleNamespace(X=X, obs=obs, obsm=reps, var_names=pd.Index(GENES))


def expected(X):
    return Bags.from_arrays([X[donor == DONORS] for donor in "bac"], ids=list("bac"), columns=GENES)


@pytest.mark.parametrize("how", ["array", "csr", "csc", "csr_old"])
@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_files(tmp_path, monkeypatch, how, block):
    monkeypatch.setattr(anndata, "BLOCK_VALUES", block)
    path = write(tmp_path / "cells.h5ad", cells(), how)
    bags, y = Bags.from_anndata(path, bag="donor", label="status")
    assert bags == expected(cells())
    assert bags.dtype == np.float32
    assert y.tolist() == ["ill", "well", "well"]
    assert (
        Bags.from_anndata(str(path), "donor", columns=["k", "g"])[0].tolist()
        == cells()[DONORS == "b"][:, [2, 0]].tolist()
    )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array])
def test_objects(make):
    data = as_object(make(cells(dtype=float)))
    assert Bags.from_anndata(data, bag="donor") == expected(cells(dtype=float))
    bags, ages = Bags.from_anndata(data, bag="donor", rep="X_pca", label="age")
    assert bags.columns == ("X_pca_0", "X_pca_1")
    assert bags.points[0].tolist() == (cells(dtype=float)[0, :2] * 2).tolist()
    assert ages.tolist() == [31, 64, 47]


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
    assert y.tolist() == ["ill", "well", "well"]
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
    with pytest.raises(ValueError, match=r"bag 2 \(id 'c'\) has missing values in every point, so that nan='drop'"):
        Bags.from_anndata(path, "donor", nan="drop")
    bags = Bags.from_anndata(path, "donor", nan="indicator")
    assert bags.columns == ("g", "h", "k", "h missing")
    assert bags.missing_fills == {"h": pytest.approx(np.nanmean(X[:, 1]))}
    assert bags.points[:, 3].tolist() == [1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"bag": "doner"}, "bag names the column of obs 'doner', which is not there; did you mean 'donor'?"),
        ({"bag": "zzz"}, "it has 'donor', 'status', 'age'"),
        ({"bag": "donor", "label": "stat"}, "label names the column of obs 'stat'"),
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
