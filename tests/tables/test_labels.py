"""Labels and covariates of bags: read from tables, and joined by id."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from small_tables import SUFFIXES, message, points_table

from distembed.bags import Bags
from distembed.tables import (
    BagTable,
    LabelTable,
    TableError,
    join,
    read_labels,
    write_table,
)
from distembed.tables.labels import read_covariates


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_of_any_format_and_type(tmp_path, suffix):
    path = tmp_path / f"l{suffix}"
    cases = {"number": [0.5, 1.5, 2.0], "whole": [3, 1, 2], "text": ["u", "v", "u"], "flag": [True, False, True]}
    write_table({"id": ["c", "a", "b"], **cases}, path)
    for name, values in cases.items():
        table = read_labels(path, bag="id", label=name)
        assert table.ids.tolist() == ["c", "a", "b"]
        assert table.labels.tolist() == values
        assert table.labels.dtype == np.array(values).dtype
        assert dict(table) == dict(zip(["c", "a", "b"], values, strict=True))
        bags = Bags.from_arrays([[1.0], [2.0], [3.0]], ids=["a", "b", "c"])
        assert bags.align(table).tolist() == join(bags, table).labels.tolist() == [values[1], values[2], values[0]]
    assert repr(table) == "LabelTable(3 labels of dtype bool, ids='c'..'b')"


def test_labels_of_several_files_and_of_categories(tmp_path):
    for i in range(3):
        frame = pd.DataFrame({"id": [i], "y": pd.Categorical([f"class {i % 2}"])})
        frame.to_parquet(tmp_path / f"{i}.parquet")
    table = read_labels(tmp_path, bag="id", label="y")
    assert table.labels.tolist() == ["class 0", "class 1", "class 0"]
    assert table.labels.dtype.kind == "U"


def test_faults_of_label_tables(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("id,y\n" + "".join(f"{i},1\n{i},2\n" for i in range(7)))
    assert message(read_labels, path, bag="id", label="y") == (
        f"{str(path)!r}, column 'y' must have one value per bag, got 1 and 2 in bag 0, and in 6 more bags; name "
        "another column, or correct those rows"
    )
    path.write_text("id,y\n1,1.5\n2,\n")
    assert message(read_labels, path, bag="id", label="y") == (
        f"{str(path)!r}, line 3, column 'y' (bag 2): a bag must have a label, got none; drop that row, fill it in, "
        "or pass missing='drop'"
    )
    for word in ("1.5", "spiral"):
        path.write_text(f"id,y\n1,{word}\n2,NA\n")
        assert "a bag must have a label, got 'NA', which is none" in message(read_labels, path, bag="id", label="y")
    path.write_text("id,y\n")
    assert "no rows" in message(read_labels, path, bag="id", label="y")
    path.write_text("id,y\n1,2\n")
    assert "label names column 'Y', which the table lacks; did you mean 'y'?" in message(
        read_labels, path, bag="id", label="Y"
    )
    write_table({"id": [1, 2], "y": [1.0, np.nan], "d": np.array([1, 2], "M8[D]")}, tmp_path / "l.parquet")
    assert "row 1, column 'y' (bag 2): a bag must have a label" in message(
        read_labels, tmp_path / "l.parquet", bag="id", label="y"
    )
    assert "a label must be a number or text" in message(read_labels, tmp_path / "l.parquet", bag="id", label="d")
    with pytest.raises(ValueError, match="labels must be 1-D, one per id"):
        LabelTable([1, 2], [1])


def test_join_names_what_is_missing_and_unknown():
    labels = LabelTable([f"l{i}" for i in range(9)], np.arange(9))
    ids = ["l3", *(f"x{i}" for i in range(7)), "l1"]
    text = message(join, ids, labels)
    assert text == (
        "7 bags have no label: 'x0', 'x1', 'x2', 'x3', 'x4', ... (7 in all); add them, or pass missing='drop'"
    )
    with pytest.warns(UserWarning, match=r"7 labels have no bag: 'l0', 'l2', 'l4', 'l5', 'l6', ... \(7 in all\)"):
        joined = join(ids, labels, missing="drop")
    assert joined.kept.tolist() == [0, 8]
    assert joined.labels.tolist() == [3, 1]
    assert joined.missing.tolist() == ids[1:-1]
    assert joined.unknown.tolist() == ["l0", "l2", "l4", "l5", "l6", "l7", "l8"]
    assert "7 labels have no bag" in message(join, ["l3", "l1"], labels, unknown="error")
    assert join(["l3", "l1", "l3"], labels, unknown="ignore").labels.tolist() == [3, 1, 3]
    said = message(join, ["x"], labels, missing="drop", unknown="ignore")
    assert said == "1 bag has no label: 'x' (labels are of ids such as 'l0'); add labels"
    for options in ({"missing": "skip"}, {"unknown": "skip"}):
        with pytest.raises(ValueError, match="join"):
            join(["l1"], labels, **options)


def test_join_compares_by_the_canonical_form_of_ids():
    assert join(np.array([7, 8], np.uint64), {8.0: "b", 7.0: "a"}).labels.tolist() == ["a", "b"]
    big = 2**53
    assert join([big, big + 1], LabelTable([big + 1, big], [1, 0])).labels.tolist() == [0, 1]
    days = np.array(["2024-01-02", "2024-01-01"], "M8[D]")
    assert join(days, LabelTable(days.astype("M8[us]"), [2, 1])).labels.tolist() == [2, 1]
    assert LabelTable(days, [2, 1])[np.datetime64("2024-01-01T00", "h")] == 1
    assert join([7, 8], {"8": 2, "7": 1}).labels.tolist() == [1, 2]
    assert join(["1224", "7"], LabelTable(np.array([7.0, 1224.0]), [1, 2])).labels.tolist() == [2, 1]
    assert "1 bag has no label: True" in message(join, [True], {1: 1})
    assert message(join, ["001", "002"], {1: 1, 2: 2}) == (
        "2 bags have no label: '001', '002' ('001' of the bags and 1 of the labels differ in leading zeros: pad both "
        "alike, e.g. by .astype(str).str.zfill(3)); add them, or pass missing='drop'"
    )
    with pytest.warns(UserWarning, match="1 bag without a label is left out: 'a ' .* differ in blanks"):
        join(["a ", "b"], {"a": 1, "b": 2}, missing="drop", unknown="ignore")
    assert "'7', 7 ('7' and 7 are one id); keep one" in message(LabelTable, ["7", 7], [1, 2])


def test_batches_and_labels_together(tmp_path):
    data = points_table()
    write_table(data, tmp_path / "points.parquet")
    ids = np.unique(data["id"])
    write_table({"id": ids[::-1], "y": ids[::-1] * 2.0}, tmp_path / "labels.csv")
    labels = read_labels(tmp_path / "labels.csv", bag="id", label="y")
    seen = []
    for batch in BagTable(tmp_path / "points.parquet", bag="id").batches(max_bags=5):
        joined = join(batch, labels, unknown="ignore")
        assert joined.labels.tolist() == (batch.ids * 2.0).tolist()
        seen += batch.ids.tolist()
    assert seen == ids.tolist()


# --------------------------------------------------------------------------------------------------------------
# Covariates
# --------------------------------------------------------------------------------------------------------------

AGES = pd.DataFrame(
    {
        "bag": ["b", "a", "b", "c", "a"],
        "age": [31.0, np.nan, 31.0, 64.0, np.nan],
        "sex": pd.Categorical(["f", "m", "f", None, "m"]),
        "smokes": [True, False, True, True, False],
        "x": np.arange(5.0),
    }
)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "feather"])
def test_covariates_are_read_from_rows_of_points(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    AGES.to_csv(path, index=False) if suffix == "csv" else write_table(AGES, path)
    table = read_covariates(path, bag="bag", covariates=["age", "sex", "smokes"])
    assert table.kinds == {"age": "number", "sex": "text", "smokes": "text"}
    found = table.of(["c", "a", "b"])
    np.testing.assert_array_equal(found["age"], [64, np.nan, 31])
    assert found["sex"].tolist() == [None, "m", "f"]
    assert [word.lower() for word in found["smokes"]] == ["true", "false", "true"]


def test_covariates_are_of_the_kind_that_is_asked_for(tmp_path):
    write_table({"bag": ["a", "b"], "site": ["1", "NA"], "age": [1, 2]}, tmp_path / "t.csv")
    how = {"bag": "bag", "covariates": ["site", "age"]}
    assert read_covariates(tmp_path / "t.csv", **how).kinds == {"site": "number", "age": "number"}
    table = read_covariates(tmp_path / "t.csv", **how, kinds={"site": "text", "age": "text"})
    assert table.of(["a", "b"])["site"].tolist() == ["1", None]
    assert table.of(["a", "b"])["age"].tolist() == ["1", "2"]
    write_table({"bag": ["a"], "age": [7]}, tmp_path / "t.parquet")
    table = read_covariates(tmp_path / "t.parquet", bag="bag", covariates=["age"], kinds={"age": "text"})
    assert table.of(["a"])["age"].tolist() == ["7"]


@pytest.mark.parametrize(
    ("columns", "name", "said"),
    [
        ({"age": [1.0, 2.0, 3.0]}, "age", "'age' must have one value per bag, got 1.0 and 2.0 in bag 'a'; name"),
        ({"age": [1.0, None, 3.0]}, "age", "got 1.0 and none in bag 'a'"),
        ({"age": pa.array([[1], [1], [2]])}, "age", "'age': a covariate must be a number, text or a truth value"),
        ({"age": np.array(["2024-01-01"] * 3, "M8[D]")}, "age", "got date32[day]; make a number of it, such as an age"),
        ({"age": [1.0, 1.0, 3.0]}, "ages", "covariates names column 'ages', which the table lacks; did you mean"),
    ],
)  # fmt: skip
def test_covariates_that_can_not_be_read(tmp_path, columns, name, said):
    parquet.write_table(pa.table({"bag": ["a", "a", "b"], **columns}), tmp_path / "t.parquet")
    with pytest.raises(TableError) as error:
        read_covariates(tmp_path / "t.parquet", bag="bag", covariates=[name])
    assert said in str(error.value)


def test_covariates_of_other_bags_or_types(tmp_path):
    for name, ages in (("1", [1, 2]), ("2", ["x", "y"])):
        write_table({"bag": [f"{name}a", f"{name}b"], "age": ages}, tmp_path / f"{name}.parquet")
    with pytest.raises(TableError, match="must be of one type in all files"):
        read_covariates(tmp_path, bag="bag", covariates=["age"])
    table = read_covariates(tmp_path / "1.parquet", bag="bag", covariates=["age"])
    with pytest.raises(TableError, match="1 bag has no covariates: 'z'; add rows for them"):
        table.of(["1a", "z"])
    with pytest.raises(TableError, match=r"'1A' of the bags and '1a' of the covariates differ in upper and lower case"):
        table.of(["1A", "1b"])
