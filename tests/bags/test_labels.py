"""Labels in frames of points: one value per bag."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from distembed.bags import Bags
from distembed.tables import read_bags, write_table

CELLS = {"patient": ["b", "a", "b"], "size": [1.0, 2.0, 3.0], "age": [31, 64, 31], "status": ["ill", "well", "ill"]}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_labels_come_with_bags(make):
    bags, age = Bags.from_frame(make(CELLS), bag="patient", columns=["size"], label="age")
    assert (bags.ids.tolist(), age.tolist(), age.dtype.kind) == (["b", "a"], [31, 64], "i")
    _, status = Bags.from_frame(make(CELLS), bag="patient", columns="size", label="status")
    assert (status.tolist(), status.dtype.kind) == (["ill", "well"], "U")
    _, pairs = Bags.from_frame(make(CELLS), bag=["patient", "age"], columns=["size"], label="status")
    assert pairs.tolist() == ["ill", "well"]


def test_the_label_is_no_coordinate():
    bags, _ = Bags.from_frame({name: CELLS[name] for name in ("patient", "size", "age")}, bag="patient", label="age")
    assert bags.columns == ("size",)
    for argument in ("columns", "weights"):
        with pytest.raises(ValueError, match=f"label='age' must be a column of its own, got one that {argument} names"):
            Bags.from_frame(CELLS, bag="patient", **({"columns": "size"} | {argument: "age"}), label="age")
    with pytest.raises(ValueError, match="label names column 'agee', which the table lacks; did you mean 'age'"):
        Bags.from_frame(CELLS, bag="patient", columns="size", label="agee")


def test_labels_of_categories_and_their_faults():
    frame = pd.DataFrame(CELLS)
    frame["status"] = frame["status"].astype("category")
    assert Bags.from_frame(frame, "patient", "size", label="status")[1].tolist() == ["ill", "well"]
    with pytest.raises(ValueError, match="label='status' must have one value per bag, got 'ill' and 'well' in bag 'b'"):
        Bags.from_frame(frame.assign(status=["ill", "well", "well"]), "patient", "size", label="status")
    with pytest.raises(ValueError, match="must have one value per bag, got none and 'ill' in bag 'b'; name another"):
        Bags.from_frame(frame.assign(status=["ill", "well", None]), "patient", "size", label="status")
    with pytest.raises(ValueError, match=r"got none for 'a'; leave those rows out: df\[df\['status'\].notna\(\)\]"):
        Bags.from_frame(frame.assign(status=["ill", None, "ill"]), "patient", "size", label="status")


def test_tables_on_disk_give_labels_too(tmp_path):
    path = tmp_path / "t.parquet"
    write_table({name: np.array(CELLS[name]) for name in ("patient", "size", "age")}, path)
    bags, y = read_bags(path, bag="patient", label="age")
    assert (bags.columns, bags.ids.tolist(), y.tolist()) == (("size",), ["a", "b"], [64, 31])
    with pytest.raises(ValueError, match="label='age' must be a column of its own, got one that columns names too"):
        read_bags(path, bag="patient", columns=["size", "age"], label="age")
