"""AnnData and FCS files as tables."""

import flowio
import h5py
import numpy as np
from small_tables import message

from distembed.tables import (
    BagTable,
    open_bags,
    write_table,
)
from distembed.tables.cell_files import obs_covariates, obs_labels


def fcs_file(path, values, names=("CD4", "CD8")):
    with path.open("wb") as file:
        flowio.create_fcs(file, np.ravel(values), list(names))


def h5ad_file(path):
    with h5py.File(path, "w") as file:
        file["X"] = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
        file["obs/donor"] = np.array(["b", "a", "b"], dtype="S1")
        file["obs/age"] = np.array([31, 64, 31])
        file["var/_index"] = np.array(["g", "h"], dtype="S1")
    return path


def test_h5ad_files_are_tables(tmp_path):
    path = h5ad_file(tmp_path / "cells.h5ad")
    table = open_bags(path, bag="donor", nan="indicator")
    assert (table.n_bags, table.n_points, table.known_points) == (2, 3, 3)
    assert (table.columns, table.file_columns, table.nan) == (("g", "h", "h missing"), ("g", "h"), {"h": 4.0})
    assert [batch.ids.tolist() for batch in table.batches(max_bags=1)] == [["a"], ["b"]]
    assert [batch.ids.tolist() for batch in table.batches(max_bags=1, start=1)] == [["b"]]
    assert str(table) == repr(str(path))
    assert dict(obs_labels(path, bag="donor", label="age")) == {"a": 64, "b": 31}
    assert open_bags(path, bag="donor", columns=["g"]).columns == ("g",)
    assert "1 in 'h'; pass nan='drop'" in message(open_bags, path, bag="donor")
    assert "must be the only table, got 2" in message(open_bags, [path, path], bag="donor")
    assert "rep must be a key of obsm" in message(open_bags, path, bag="donor", rep="X_pca")
    assert "cofactor applies to FCS files" in message(open_bags, path, bag="donor", cofactor=5)
    assert "weights" in message(open_bags, path, bag="donor", weights="w")
    assert "read it with Bags.from_anndata" in message(BagTable, path, bag="donor")


def test_fcs_files_are_tables(tmp_path):
    for name in ("p10.fcs", "p2.fcs"):
        fcs_file(tmp_path / name, [[1.0, 2.0], [3.0, 4.0]])
    (tmp_path / "info.csv").write_text("file,label\np2.fcs,ill\np10.fcs,well\n")
    for source in (tmp_path, str(tmp_path / "*.fcs"), [tmp_path / "p2.fcs", tmp_path / "p10.fcs"]):
        table = open_bags(source, bag="file", cofactor=2)
        assert table.ids().tolist() == ["p10.fcs", "p2.fcs"]
        assert np.allclose(next(table.batches())[0], np.arcsinh([[0.5, 1], [1.5, 2]]), atol=1e-6)
    assert "lacks the channel 'CD3'" in message(open_bags, tmp_path, bag="file", columns=["CD3"])
    assert "rep applies to AnnData files" in message(open_bags, tmp_path, bag="file", rep="X")
    write_table({"id": [1, 2], "x": [1.0, 2.0]}, tmp_path / "t.csv")
    assert open_bags(tmp_path / "t.csv", bag="id").n_bags == 2


def test_covariates_of_obs(tmp_path):
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        obs = file.create_group("obs")
        obs.attrs["column-order"] = ["donor", "age", "sex"]
        obs["donor"] = np.array([b"b", b"a", b"b"])
        obs["age"] = [31.0, np.nan, 31.0]
        obs["sex"] = np.array([b"f", b"m", b"f"])
        file["X"] = np.ones((3, 2))
    table = obs_covariates(tmp_path / "cells.h5ad", bag="donor", covariates=["age", "sex"])
    np.testing.assert_array_equal(table.of(["a", "b"])["age"], [np.nan, 31])
    assert table.of(["a", "b"])["sex"].tolist() == ["m", "f"]
