"""Tables are written whole or not at all, and come back."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from small_tables import SUFFIXES, message

from distembed.bags import Bags
from distembed.tables import (
    read_bags,
    write_bags,
    write_table,
)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bags_come_back(tmp_path, suffix):
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays(
        [rng.normal(size=(n, 2)) for n in (3, 1, 5)],
        weights=[rng.uniform(1, 2, n) for n in (3, 1, 5)],
        ids=["a", "b'", 'c"'],
        columns=["x", "file"],
    )
    path = tmp_path / f"b{suffix}"
    write_bags(bags, path, bag="self", weights="arr_0")
    assert read_bags(path, bag="self", weights="arr_0") == bags
    if suffix not in (".csv", ".tsv"):
        write_bags(bags.astype("float32"), path)
        assert read_bags(path, bag="bag", weights="weight") == bags.astype("float32")
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_any_frame_can_be_written(tmp_path, make):
    data = {"id": ["b", "a"], "x": [1.5, 2.5], "day": np.array(["2024-01-01", "2024-01-02"], "M8[D]")}
    for suffix in SUFFIXES:
        write_table(make(data), tmp_path / f"t{suffix}")
        assert read_bags(tmp_path / f"t{suffix}", bag="id", columns="x").points[:, 0].tolist() == [2.5, 1.5]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("when", ["writing", "fsync", "replace"])
def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch, suffix, when):
    path = tmp_path / f"t{suffix}"
    write_table({"id": [1], "x": [1.0]}, path)
    old = path.read_bytes()

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    if when == "writing":
        target = {".parquet": "parquet.ParquetWriter", ".csv": "csv.CSVWriter", ".tsv": "csv.CSVWriter"}.get(suffix)
        if target is not None:
            monkeypatch.setattr(f"pyarrow.{target}", fail)
        elif suffix == ".npz":
            monkeypatch.setattr(np.lib.format, "write_array", fail)
        else:
            monkeypatch.setattr("pyarrow.ipc.new_file", fail)
    else:
        monkeypatch.setattr(os, when, fail)
    with pytest.raises(KeyboardInterrupt):
        write_table({"id": [2], "x": [2.0]}, path)
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == [path.name]
    write_table({"id": [2], "x": [2.0]}, path)
    assert read_bags(path, bag="id").ids.tolist() == [2]


def test_a_link_is_followed_and_permissions_stay(tmp_path):
    path, link = tmp_path / "t.csv", tmp_path / "link.csv"
    write_table({"id": [1], "x": [1.0]}, path)
    path.chmod(0o640)
    link.symlink_to(path)
    write_table({"id": [2], "x": [2.0]}, link)
    assert link.is_symlink()
    assert read_bags(path, bag="id").ids.tolist() == [2]
    assert path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "lost.csv").symlink_to(tmp_path / "no" / "t.csv")
    text = message(write_table, {"x": [1.0]}, tmp_path / "lost.csv")
    assert text.endswith(f"folder {str(tmp_path / 'no')!r} does not exist; make it first")


def test_what_can_not_be_written(tmp_path, monkeypatch):
    start = f"can't write {str(tmp_path / 't.parquet')!r}: "
    write = write_table
    assert message(write, {"x": [[1.0], [2.0]]}, tmp_path / "t.parquet") == (
        start + "columns must be 1-D, and 'x' is not; split it"
    )
    assert message(write, {"x": [1.0], "y": [1.0, 2.0]}, tmp_path / "t.parquet").startswith(
        start + "data must be columns of equal length"
    )
    assert "at least one column" in message(write, {}, tmp_path / "t.parquet")
    assert "got int; give a mapping" in message(write, 3, tmp_path / "t.parquet")
    assert "its suffix must be one of .parquet" in message(write, {"x": [1.0]}, tmp_path / "t.txt")
    assert "its suffix must be one of .parquet" in message(write, {"x": [1.0]}, tmp_path / "t.csv.gz")
    assert "does not exist; make it first" in message(write, {"x": [1.0]}, tmp_path / "no" / "t.csv")
    assert "has no one type" in message(write, pa.table({"x": [None, "a"]}), tmp_path / "t.npz")
    (tmp_path / "d.csv").mkdir()
    assert "it is a directory; name a file in it" in message(write, {"x": [1.0]}, tmp_path / "d.csv")
    os.mkfifo(tmp_path / "p.csv")
    assert "it is not a regular file; name another" in message(write, {"x": [1.0]}, tmp_path / "p.csv")
    (tmp_path / "p.csv").unlink()
    with pytest.raises(ValueError, match="ids must be unique"):
        write_bags(Bags.from_arrays([[1.0], [2.0]], ids=[1, 2])[[0, 0]], tmp_path / "t.csv")
    plain = os.open

    def refusing(path, flags, *args, **kwargs):
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    assert message(write, {"x": [1.0]}, tmp_path / "t.csv") == (
        f"can't write {str(tmp_path / 't.csv')!r}: folder {str(tmp_path)!r} takes no file: "
        "permission denied; name another folder"
    )
    assert os.listdir(tmp_path) == ["d.csv"]


# What spreadsheets would run

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "\N{FULLWIDTH EQUALS SIGN}1"]


def test_text_that_spreadsheets_would_run_is_quoted_where_asked(tmp_path):
    words = [*FORMULAS, "a=b", "-5", "+1e3", "", "it's"]
    columns = {"=id": words, "x": -np.arange(len(words)) - 0.5}
    write_table(columns, tmp_path / "plain.csv")
    write_table(columns, tmp_path / "safe.csv", spreadsheet_safe=True)
    plain, safe = (
        pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=False, dtype=str) for name in ("plain", "safe")
    )
    assert plain["=id"].tolist()[:4] == FORMULAS[:4]
    assert safe["'=id"].tolist() == [f"'{word}" for word in FORMULAS] + words[len(FORMULAS) :]
    assert safe["x"].tolist() == plain["x"].tolist()
    write_table(columns, tmp_path / "t.parquet", spreadsheet_safe=True)
    assert pd.read_parquet(tmp_path / "t.parquet")["=id"].tolist() == words


def test_categories_are_quoted_too(tmp_path):
    frame = pd.DataFrame({"c": pd.Categorical(["=1", "b", None])})
    write_table(frame, tmp_path / "t.csv", spreadsheet_safe=True)
    assert pd.read_csv(tmp_path / "t.csv")["c"].tolist()[:2] == ["'=1", "b"]
