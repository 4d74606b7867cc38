"""``distembed info``: models and tables."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from command_line import refused, run

from distembed.tables import write_table


def test_info_of_models(folder):
    shown = run("info", folder / "numbers.distembed").stdout
    assert shown.startswith("distembed.DistributionRegressor, fitted\n")
    assert "predicts 'spread' from a table with the columns cluster, x, y" in shown
    found = json.loads(run("info", folder / "classes.distembed", "--json").stdout)
    assert found["kind"] == "model"
    assert found["classes"] == ["large", "small"]
    assert found["parameters"]["embedding"] == "deviation"


def test_info_of_tables(folder, tmp_path):
    write_table({"id": ["a", "b", "a"], "x": [1.0, np.nan, -2.0], "n": [1, 2, 3]}, tmp_path / "t.parquet")
    found = json.loads(run("info", tmp_path / "t.parquet", "--bag", "id", "--json").stdout)
    assert found["n_rows"] == 3
    assert found["columns"]["x"] == {"type": "double", "missing": 1, "least": -2.0, "greatest": 1.0}
    assert found["columns"]["n"]["greatest"] == 3
    assert found["bags"]["n_bags"] == 2
    assert found["bags"]["rows_greatest"] == 2
    for name in ("points.csv", "points.parquet"):
        shown = run("info", folder / name, "--bag", "cluster").stdout
        assert "1,500 rows" in shown
        assert "60 bags by 'cluster': 25 to 25 rows each" in shown
    assert "--bag COLUMN shows bags" in run("info", tmp_path / "t.parquet").stdout
    assert "lacks; it has" in refused("info", tmp_path / "t.parquet", "--bag", "zzzz")
    assert "no such file" in refused("info", tmp_path / "absent")


def test_columns_with_commas_and_outer_spaces_can_be_named(tmp_path):
    path = tmp_path / "t.csv"
    write_table({"a,b": ["u", "v", "v"], " x ": [1.0, 2.0, 4.0], "y, cm": [0.0, 1.0, 5.0], "z": [3.0, 1.0, 1.0]}, path)
    words = ("embed", path, "--bag", "a,b", "--columns", 'z, " x "', "--columns", '"y, cm"', "--embedding", "mean")
    assert run(*words).stdout.splitlines() == ['"a,b",mean_z,mean_ x ,"mean_y, cm"', "u,3.0,1.0,0.0", "v,1.0,3.0,3.0"]


def test_info_of_types_that_nobody_computes_with(tmp_path):
    table = pa.table(
        {
            "bag": ["a", "b", "b"],
            "half": pa.array(np.array([1.0, 3.0, 0.0], np.float16), mask=np.array([False, False, True])),
            "span": pa.array([1500, None, 500], pa.duration("ms")),
            "list": pa.array([[1.0], None, []]),
            "struct": pa.array([{"x": 1}, None, {"x": 2}]),
            "months": pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
        }
    )
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    found = json.loads(run("info", tmp_path / "t.arrow", "--bag", "bag", "--json").stdout)["columns"]
    assert [found[name]["missing"] for name in ("half", "span", "list", "struct", "months")] == [1] * 5
    assert (found["half"]["least"], found["half"]["greatest"]) == (1, 3)
    assert (found["span"]["least"], found["list"]["least"]) == ("0:00:00.500000", None)
    assert "bag ids must hold whole numbers, text, dates or times" in refused(
        "info", tmp_path / "t.arrow", "--bag", "list"
    )


def test_info_of_lists_and_dates(tmp_path):
    import datetime

    table = pa.table({"id": [datetime.date(2024, 1, 31)], "x": [[1.0, 2.0]], "c": pa.array(["u"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    found = json.loads(run("info", tmp_path / "t.parquet", "--json", "--bag", "id").stdout)
    assert found["columns"]["id"]["least"] == "2024-01-31"
    assert found["columns"]["x"]["least"] is None
    assert found["columns"]["c"]["greatest"] == "u"
