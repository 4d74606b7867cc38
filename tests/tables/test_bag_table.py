"""Tables on disk: the same bags whatever the format, the cuts and the order of rows; and errors of one sentence."""

import datetime
import gzip
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from small_tables import SUFFIXES, loop_over_rows, message, points_table, shuffled

from distembed.bags import Bags, concat
from distembed.tables import (
    BagTable,
    bag_table,
    ordering,
    plan,
    points,
    read_bags,
    write_table,
)
from distembed.tables.formats import Reading


# -------------------------------------------------------------------------------------------- the same bags
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("rows", [100, 65_536])  # many pieces, or one
def test_any_format_gives_the_bags_of_a_loop(tmp_path, piece_sizes, suffix, text, rows):
    piece_sizes(rows=rows)
    data = points_table(text=text)
    write_table(data, tmp_path / f"t{suffix}")
    found = read_bags(tmp_path / f"t{suffix}", bag="id", weights="w")
    assert found == loop_over_rows(data, ["x", "y"], "w")
    assert found.columns == ("x", "y")
    assert found.ids.dtype.kind == ("U" if text else "i")


@pytest.mark.parametrize("rows", [1, 64, 1000])
def test_row_groups_do_not_matter(tmp_path, rows):
    data = points_table()
    pa.parquet.write_table(pa.table(data), tmp_path / "t.parquet", row_group_size=rows)
    pa.feather.write_feather(pa.table(data), str(tmp_path / "t.feather"), chunksize=rows, compression="lz4")
    expected = loop_over_rows(data, ["x", "y", "w"])
    assert read_bags(tmp_path / "t.parquet", bag="id") == expected
    assert read_bags(tmp_path / "t.feather", bag="id") == expected


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".npz"])
@pytest.mark.parametrize("parts", [1, 7])
def test_files_do_not_matter(tmp_path, suffix, parts):
    data = points_table()
    for i, rows in enumerate(np.array_split(np.arange(400), parts)):
        write_table({name: values[rows] for name, values in data.items()}, tmp_path / f"part-{i:03}{suffix}")
    (tmp_path / "README.txt").write_text("not a table")
    (tmp_path / f"_hidden{suffix}").write_text("")
    (tmp_path / f".hidden{suffix}").write_text("")
    expected = loop_over_rows(data, ["x", "y"], "w")
    files = sorted(tmp_path.glob(f"part*{suffix}"))
    for source in (tmp_path, str(tmp_path), f"{tmp_path}/part-*{suffix}", files, [str(file) for file in files]):
        table = BagTable(source, bag="id", weights="w")
        assert table.files == tuple(files)
    assert read_bags(tmp_path, bag="id", weights="w") == expected
    assert (table.n_points, table.n_bags) == (400, expected.n_bags)


def test_row_order_changes_only_the_order_within_bags(tmp_path):
    data = points_table()
    write_table(data, tmp_path / "a.parquet")
    write_table(shuffled(data), tmp_path / "b.parquet")
    a, b = (read_bags(tmp_path / name, bag="id") for name in ("a.parquet", "b.parquet"))
    assert a.ids.tolist() == b.ids.tolist()
    for one, two in zip(a, b, strict=True):
        assert np.array_equal(one[np.lexsort(one.T)], two[np.lexsort(two.T)])


def test_points_of_a_bag_stand_in_the_order_of_the_files_given(tmp_path):
    for name, x in (("a", [1.0, 2.0]), ("b", [3.0, 4.0])):
        write_table({"id": [1, 0], "x": x}, tmp_path / f"{name}.csv")
    found = read_bags([tmp_path / "b.csv", tmp_path / "a.csv"], bag="id")
    assert found.points[:, 0].tolist() == [4.0, 2.0, 3.0, 1.0]


def test_many_pieces_keep_the_order_of_rows_within_a_bag(tmp_path, piece_sizes):
    piece_sizes(rows=50)
    n = 5000
    ids = np.random.default_rng(3).integers(0, 4, n)
    write_table({"id": ids, "x": np.arange(n, dtype=float)}, tmp_path / "t.parquet")
    for threads in (1, 2):
        bags = read_bags(tmp_path / "t.parquet", bag="id", threads=threads)
        assert all((np.diff(bag[:, 0]) > 0).all() for bag in bags)


def test_columns_weights_and_default_columns(tmp_path):
    data = points_table() | {"name": np.array(["n"] * 400), "flag": np.arange(400) % 2 == 0}
    write_table(data, tmp_path / "t.parquet")
    table = BagTable(tmp_path / "t.parquet", bag="id", weights="w")
    assert table.columns == ("x", "y", "flag")
    assert table.weights == "w"
    assert table.bag == "id"
    assert repr(table).startswith("BagTable('")
    found = read_bags(tmp_path / "t.parquet", bag="id", columns=["y", "x"], weights="w")
    assert found == loop_over_rows(data, ["y", "x"], "w")
    assert read_bags(tmp_path / "t.parquet", bag="id", columns="flag").dtype == np.float64
    frame = pd.DataFrame(data).set_index(pd.Index(np.arange(400) * 3))
    frame.to_parquet(tmp_path / "p.parquet", index=True)
    assert BagTable(tmp_path / "p.parquet", bag="id").columns == ("x", "y", "w", "flag")  # no nameless index


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".npz"])
@pytest.mark.parametrize("sort", [True, False])
def test_float32_stays_float32(tmp_path, suffix, sort):
    ids = np.array([0, 0, 1, 2] if sort else [2, 0, 1, 0])
    single = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    write_table({"id": ids, "x": single, "y": single}, tmp_path / f"s{suffix}")
    write_table({"id": ids, "x": single, "y": single.astype(float)}, tmp_path / f"d{suffix}")
    write_table({"id": ids, "x": single, "y": np.arange(4)}, tmp_path / f"i{suffix}")
    found = read_bags(tmp_path / f"s{suffix}", bag="id")
    assert found.dtype == np.float32
    assert found == loop_over_rows({"id": ids, "x": single, "y": single}, ["x", "y"])
    assert read_bags(tmp_path / f"d{suffix}", bag="id").dtype == np.float64
    assert read_bags(tmp_path / f"i{suffix}", bag="id").dtype == np.float64


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_boolean_columns(tmp_path, suffix):
    write_table({"id": [1, 0, 1], "flag": [True, False, False]}, tmp_path / f"t{suffix}")
    assert read_bags(tmp_path / f"t{suffix}", bag="id").points[:, 0].tolist() == [0.0, 1.0, 0.0]


def test_decimal_half_and_unsigned_columns(tmp_path):
    columns = {
        "id": pa.array([2, 1, 2], pa.uint8()),
        "d": pa.array([1, 2, 3]).cast(pa.decimal128(24, 2)),
        "u": pa.array([1, 2, 3], pa.uint32()),
    }
    pa.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read_bags(tmp_path / "t.parquet", bag="id").points.tolist() == [[2, 2], [1, 1], [3, 3]]
    write_table({"id": [2, 1], "h": np.array([0.5, 0.25], np.float16)}, tmp_path / "h.npz")
    assert read_bags(tmp_path / "h.npz", bag="id").dtype == np.float32


def test_npz_with_a_block_of_coordinates_and_foreign_byte_order(tmp_path):
    xs = np.arange(8.0).reshape(4, 2).astype(">f8")
    np.savez(tmp_path / "t.npz", X=xs, id=np.array([1, 0, 1, 0], ">i4"), note=np.array("meta"))
    found = read_bags(tmp_path / "t.npz", bag="id")
    assert found.columns == ("X_0", "X_1")
    assert found.points.tolist() == [[2, 3], [6, 7], [0, 1], [4, 5]]


def test_compressed_and_delimited_csv(tmp_path):
    text = "\ufeffid;x\n2;1e-3\n\n1;+2.5\n2; 3 \n"
    with gzip.open(tmp_path / "t.csv.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    found = read_bags(tmp_path / "t.csv.gz", bag="id", delimiter=";")
    assert found == Bags.from_arrays([[2.5], [0.001, 3.0]], ids=[1, 2], columns=["x"])
    assert message(read_bags, tmp_path / "t.csv.gz", bag="id").endswith("pass delimiter=';'")


def test_names_and_paths_with_quotes_spaces_semicolons_and_unicode(tmp_path, piece_sizes):
    piece_sizes(rows=2)
    bag, x, y = 'bag"; DROP TABLE points; --', "x'y \\ z", 'größe; SELECT 1, "q"'
    folder = tmp_path / 'it\'s; a "folder" *x [1]'
    folder.mkdir()
    data = {bag: np.array(["b'; --", 'a"', "b'; --", "日本"]), x: np.arange(4.0), y: np.arange(4.0) * 2}
    expected = loop_over_rows(data, [x, y], bag=bag)
    for suffix in SUFFIXES:
        write_table(data, folder / f"t'; --{suffix}")
        assert read_bags(str(folder / f"t'; --{suffix}"), bag=bag) == expected
    found_at = folder / "t'; --.parquet"
    found = read_bags(found_at, bag=bag, columns=[y], weights=x)
    assert found.weights.tolist() == [1, 0, 2, 3]
    assert [batch.n_bags for batch in BagTable(found_at, bag=bag).batches(max_bags=1, start=1)] == [1, 1]
    scratch = folder / "tmp'; --"
    scratch.mkdir()
    assert read_bags(folder / "t'; --.csv", bag=bag, temp_directory=scratch) == expected
    assert not list(scratch.iterdir())


# ---------------------------------------------------------------------------------------------------------- ids
@pytest.mark.parametrize("rows", [3, 65_536])
def test_text_ids_are_sorted_by_code_point(tmp_path, piece_sizes, rows):
    piece_sizes(rows=rows)
    ids = np.array(["b", "B", "a", "ä", "Z", "10", "9", "", "\U0001f600", "\uffff"])
    write_table({"id": ids, "x": np.arange(10.0)}, tmp_path / "t.parquet")
    found = read_bags(tmp_path / "t.parquet", bag="id")
    assert found.ids.tolist() == sorted(ids.tolist()) == np.sort(ids).tolist()


@pytest.mark.parametrize("values", [["b", "a", "b", "c"], [7, 3, 7, 9]])
def test_dictionary_ids_are_their_values(tmp_path, values):
    # Categories in another order than that of the values: ids are sorted by value all the same.
    frame = pd.DataFrame({"id": pd.Categorical(values, categories=list(dict.fromkeys(values))), "x": np.arange(4.0)})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        assert read_bags(tmp_path / name, bag="id") == loop_over_rows({"id": values, "x": np.arange(4.0)}, ["x"])
    pl.DataFrame({"id": pl.Series(["b", "a", "b"], dtype=pl.Categorical), "x": [1.0, 2.0, 3.0]}).write_parquet(
        tmp_path / "p.parquet"
    )
    assert read_bags(tmp_path / "p.parquet", bag="id").ids.tolist() == ["a", "b"]


def test_dates_and_times_as_ids(tmp_path, piece_sizes):
    piece_sizes(rows=2)
    days = np.array(["2024-03-01", "1969-12-31", "2024-03-01"], "M8[D]")
    x = np.array([1.0, 2.0, 3.0])
    for suffix in SUFFIXES:
        write_table({"id": days, "x": x}, tmp_path / f"d{suffix}")
        found = read_bags(tmp_path / f"d{suffix}", bag="id")
        assert found.ids.astype("M8[D]").tolist() == [datetime.date(1969, 12, 31), datetime.date(2024, 3, 1)]
        assert found.points[:, 0].tolist() == [2.0, 1.0, 3.0]
        if suffix != ".npz":  # whose arrays of days arrow has in its own way
            assert found.ids.dtype == np.dtype("M8[D]")
    for unit in ("s", "ms", "us", "ns"):
        write_table({"id": days.astype(f"M8[{unit}]") + np.timedelta64(1, unit), "x": x}, tmp_path / "t.parquet")
        found = read_bags(tmp_path / "t.parquet", bag="id")
        assert (found.ids == np.sort(np.unique(days)).astype(f"M8[{unit}]") + np.timedelta64(1, unit)).all()
    zoned = pa.array(days.astype("M8[us]")).cast(pa.timestamp("us", "Europe/Paris"))
    pa.parquet.write_table(pa.table({"id": zoned, "x": x}), tmp_path / "z.parquet")
    assert read_bags(tmp_path / "z.parquet", bag="id").ids.tolist() == ["1969-12-31T00:00Z", "2024-03-01T00:00Z"]


@pytest.mark.parametrize("rows", [2, 65_536])
def test_other_kinds_of_ids(tmp_path, piece_sizes, rows):
    piece_sizes(rows=rows)
    big = np.array([2**63 + 5, 2**63 + 4, 3], np.uint64)
    cases = {"big": big, "float": np.array([0.5, -0.0, 0.0]), "bool": np.array([True, False, True])}
    for name, ids in cases.items():
        write_table({"id": ids, "x": np.arange(3.0)}, tmp_path / f"{name}.parquet")
        found = read_bags(tmp_path / f"{name}.parquet", bag="id")
        assert found.ids.dtype == ids.dtype
        assert found.ids.tolist() == sorted(set(ids.tolist()))
    assert read_bags(tmp_path / "float.parquet", bag="id")[0].ravel().tolist() == [1.0, 2.0]


def test_files_of_different_integer_widths_and_of_different_kinds(tmp_path):
    write_table({"id": np.array([1, 2], np.int32), "x": [1.0, 2.0]}, tmp_path / "a.parquet")
    write_table({"id": np.array([1, 2], np.int64), "x": np.array([3.0, 4.0], np.float32)}, tmp_path / "b.parquet")
    assert read_bags(tmp_path, bag="id").points[:, 0].tolist() == [1, 3, 2, 4]
    write_table({"id": ["1", "2"], "x": [3.0, 4.0]}, tmp_path / "c.parquet")
    text = message(read_bags, tmp_path, bag="id")
    assert "column 'id' of bag ids must be of one type in all files, got integer in" in text
    assert "bag_type='text'" in text
    assert read_bags(tmp_path, bag="id", bag_type="text").ids.tolist() == ["1", "2"]
    assert read_bags(tmp_path, bag="id", bag_type="integer").ids.tolist() == [1, 2]


def test_ids_of_csv_files(tmp_path, piece_sizes):
    path = tmp_path / "t.csv"
    path.write_text("id,x\n007,1\n7,2\n")
    assert read_bags(path, bag="id").ids.tolist() == ["007", "7"]
    assert read_bags(path, bag="id", bag_type="integer").ids.tolist() == [7]
    path.write_text("id,x\nNA,1\nDE,2\nnull,3\n")
    assert read_bags(path, bag="id").ids.tolist() == ["DE", "NA", "null"]
    path.write_text("id,x\n2,1\n10,2\n")
    assert read_bags(path, bag="id").ids.tolist() == [2, 10]
    assert read_bags(path, bag="id", bag_type="text").ids.tolist() == ["10", "2"]
    piece_sizes(block=1000)  # by the first of which types are guessed
    path.write_text("id,x\n" + "1,0.5\n" * 900 + "x7,1\n")
    text = message(read_bags, path, bag="id")
    assert text.startswith(f"{str(path)!r}, line 902, column 'id': an id must be a whole number")
    assert text.endswith("got 'x7'; correct it, or pass bag_type='text'")


def test_ids_that_are_missing(tmp_path):
    pa.parquet.write_table(pa.table({"id": ["a", None, "b"], "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    expected = "row 1, column 'id': a row must name its bag, got no id; drop that row, or fill the id in"
    assert message(read_bags, tmp_path / "t.parquet", bag="id") == f"{str(tmp_path / 't.parquet')!r}, {expected}"
    write_table({"id": [1.0, 2.0, np.nan], "x": [1.0, 2.0, 3.0]}, tmp_path / "f.feather")
    assert "row 2, column 'id': a row must name its bag" in message(read_bags, tmp_path / "f.feather", bag="id")
    (tmp_path / "t.csv").write_text("id,x\n1,2\n,3\n")
    assert "line 3, column 'id': a row must name its bag" in message(read_bags, tmp_path / "t.csv", bag="id")
    pa.parquet.write_table(pa.table({"id": pa.nulls(2), "x": [1.0, 2.0]}), tmp_path / "n.parquet")
    assert "has no values" in message(read_bags, tmp_path / "n.parquet", bag="id")
    pa.parquet.write_table(pa.table({"id": [[1], [2]], "x": [1.0, 2.0]}), tmp_path / "l.parquet")
    assert "must hold whole numbers, text, dates or times" in message(read_bags, tmp_path / "l.parquet", bag="id")
    lists = pa.table({"id": pa.array([[1.0], [1.0], [2.0]]), "x": [1.0, 2.0, 3.0], "constant": [4, 4, 4]})
    pa.parquet.write_table(lists, tmp_path / "m.parquet")
    assert "must hold whole numbers, text, dates or times" in message(read_bags, tmp_path / "m.parquet", bag="id")


# ------------------------------------------------------------------------------------------------------ batches
@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize(
    "limits", [{"max_points": 40}, {"max_points": 1}, {"max_bags": 4}, {"max_points": 60, "max_bags": 2}]
)
def test_batches_are_whole_bags_in_order(tmp_path, piece_sizes, sort, limits):
    piece_sizes(rows=16)
    data = points_table()
    order = np.argsort(data["id"], kind="stable") if sort else slice(None)
    write_table({name: values[order] for name, values in data.items()}, tmp_path / "t.parquet")
    expected = loop_over_rows(data, ["x", "y"], "w")
    table = BagTable(tmp_path / "t.parquet", bag="id", weights="w")
    batches = list(table.batches(**limits))
    assert concat(batches) == expected
    assert batches == list(table.batches(**limits))
    for batch in batches:
        assert batch.n_bags == 1 or batch.n_points <= limits.get("max_points", 400)
        assert batch.n_bags <= limits.get("max_bags", 400)
    for one, two in pairwise(batches):  # as full as they can be
        full = one.n_points + two.sizes[0] > limits.get("max_points", 400) or one.n_bags == limits.get("max_bags")
        assert full
    for start in (1, len(batches) - 1, len(batches), len(batches) + 3):
        assert list(table.batches(**limits, start=start)) == batches[start:]
    assert table._sorted is sort


def test_start_with_text_and_with_files_cut_anywhere(tmp_path):
    data = points_table(text=True)
    write_table(data, tmp_path / "a.parquet")
    for i, rows in enumerate(np.array_split(np.arange(400), 5)):
        write_table({name: values[rows] for name, values in data.items()}, tmp_path / f"p{i}.csv")
    one, two = BagTable(tmp_path / "a.parquet", bag="id"), BagTable(f"{tmp_path}/p*.csv", bag="id")
    batches = list(one.batches(max_points=50))
    assert [batch.ids.tolist() for batch in two.batches(max_points=50)] == [batch.ids.tolist() for batch in batches]
    assert list(two.batches(max_points=50, start=3)) == batches[3:]


def test_a_bag_longer_than_a_batch_stays_whole(tmp_path, piece_sizes):
    piece_sizes(rows=32)
    ids = np.array([0] * 5 + [1] * 1000 + [2] * 3)
    for order in (np.arange(1008), np.random.default_rng(0).permutation(1008)):
        write_table({"id": ids[order], "x": order.astype(float)}, tmp_path / "t.feather")
        batches = list(BagTable(tmp_path / "t.feather", bag="id").batches(max_points=10))
        assert [(batch.ids.tolist(), batch.n_points) for batch in batches] == [([0], 5), ([1], 1000), ([2], 3)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_reading_may_stop_early(tmp_path, piece_sizes, suffix):
    piece_sizes(rows=50)
    path = tmp_path / f"t{suffix}"
    write_table({"id": np.arange(400), "x": np.arange(400.0)}, path)
    batches = BagTable(path, bag="id").batches(max_bags=10)
    assert next(batches).ids.tolist() == list(range(10))
    batches.close()
    assert len(list(BagTable(path, bag="id").batches(max_bags=10))) == 40


def test_pieces_and_waiting_points_stay_small(tmp_path, monkeypatch, piece_sizes):
    piece_sizes(rows=128)
    n = 20_000
    data = {"id": np.random.default_rng(0).integers(0, 2000, n), "x": np.arange(n, dtype=float)}
    write_table(data, tmp_path / "t.parquet")
    sizes, waiting = [], []
    cut = bag_table.cuts_of

    def counted(function):
        def batches(*args, **kwargs):
            for batch in function(*args, **kwargs):
                sizes.append(batch.num_rows)
                yield batch

        return batches

    def watched(starts, n_points, *limits):
        waiting.append(n_points)
        return cut(starts, n_points, *limits)

    monkeypatch.setattr(ordering, "stream", counted(ordering.stream))
    monkeypatch.setattr(bag_table, "sort", counted(bag_table.sort))
    monkeypatch.setattr(bag_table, "cuts_of", watched)
    batches = list(BagTable(tmp_path / "t.parquet", bag="id").batches(max_points=500))
    assert max(batch.n_points for batch in batches) <= 500
    assert max(sizes) <= 2048
    assert max(waiting) <= 500 + 2048
    assert all(batch.points.base is None or len(batch.points.base) <= 500 for batch in batches)


def memory_of_reading(path, n, group, how):
    """The most bytes that arrow has while a file of n rows is read piece by piece, and the bytes of the table."""
    rng = np.random.default_rng(0)
    table = pa.table({"id": np.arange(n) // 100, **{f"x{j}": rng.integers(0, 10**6, n) / 64 for j in range(4)}})
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=group)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, str(path), chunksize=group)
    else:
        pa.csv.write_csv(table, path)
    size = table.nbytes
    del table
    made = plan.make_plan(path, "id", None, None, how, "auto")
    before, most = pa.total_allocated_bytes(), 0
    for batch in points.stream(made):
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    return most, size


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, suffix):
    how = Reading(rows=4096, block=1 << 16)
    (small, _), (large, size) = (memory_of_reading(tmp_path / f"t{suffix}", n, 10_000, how) for n in (100_000, 400_000))
    assert large < size / 2
    assert suffix == ".csv" or large < 1.5 * small  # CSV is read some blocks ahead, how many is a matter of time


def test_a_row_group_is_never_in_memory_as_a_whole(tmp_path):
    most, size = memory_of_reading(tmp_path / "t.parquet", 1_200_000, 1_200_000, Reading(rows=4096))
    assert most < size / 2


def test_lists_are_read_few_rows_at_a_time(tmp_path):
    table = pa.table({"id": list(range(100)), "x": [[float(i)] * 64 for i in range(100)]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    made = plan.make_plan(tmp_path / "t.parquet", "id", None, None, Reading(rows=256), "auto")
    assert max(batch.num_rows for batch in points.stream(made)) <= 256


def test_sorted_is_verified(tmp_path):
    write_table({"id": ["a", "b", "b", "c", "a"], "x": np.arange(5.0)}, tmp_path / "t.parquet")
    text = message(lambda: list(BagTable(tmp_path / "t.parquet", bag="id", sorted=True).batches()))
    assert text == (
        f"{str(tmp_path / 't.parquet')!r}, column 'id': sorted=True needs rows in order of bags, but bag 'a' comes "
        "back after bag 'c'; leave sorted out, and the table is sorted on the way"
    )
    write_table({"id": [1, 2], "x": [1.0, 2.0]}, tmp_path / "1.csv")
    write_table({"id": [2, 1], "x": [3.0, 4.0]}, tmp_path / "2.csv")
    assert "bag 1 comes back after bag 2" in message(read_bags, f"{tmp_path}/?.csv", bag="id", sorted=True)
    write_table({"id": [2, 3], "x": [3.0, 4.0]}, tmp_path / "2.csv")
    expected = Bags.from_arrays([[1.0], [2.0, 3.0], [4.0]], ids=[1, 2, 3], columns=["x"])
    for known in (True, False, None):
        assert read_bags(f"{tmp_path}/?.csv", bag="id", sorted=known) == expected


def test_tables_need_pyarrow(tmp_path, monkeypatch):
    write_table({"id": [1, 1, 2], "x": [1.0, 2.0, 3.0]}, tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'distembed\[tables\]'"):
        read_bags(tmp_path / "a.parquet", bag="id")


def big_table(path, n=300_000):
    rng = np.random.default_rng(0)
    write_table({"id": rng.integers(0, 5000, n), **{f"x{j}": rng.normal(size=n) for j in range(4)}}, path)


def test_spills_within_the_memory_limit_and_removes_its_files(tmp_path, monkeypatch):
    big_table(tmp_path / "t.parquet")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    table = BagTable(tmp_path / "t.parquet", bag="id", memory_limit="20MB", threads=1, temp_directory=scratch)
    batches = table.batches(max_points=1000)
    first = next(batches)
    spilled = sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file())
    assert spilled > 1_000_000
    batches.close()
    assert not list(scratch.iterdir())

    whole = list(table.batches(max_points=50_000))
    assert not list(scratch.iterdir())
    assert sum(batch.n_points for batch in whole) == 300_000
    assert whole[0][: first.n_bags] == first

    left = table.batches(max_points=1000)  # forgotten, not closed
    next(left)
    del left
    assert not list(scratch.iterdir())

    def fails():
        for batch in table.batches(max_points=1000):
            raise RuntimeError(batch)

    with pytest.raises(RuntimeError, match="Bags"):
        fails()
    assert not list(scratch.iterdir())


def test_errors_leave_no_temporary_files(tmp_path, monkeypatch):
    big_table(tmp_path / "a.parquet", 200_000)
    write_table({"id": [1, 2], **{f"x{j}": [1.0, np.nan] for j in range(4)}}, tmp_path / "b.parquet")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    text = message(read_bags, files, bag="id", temp_directory=scratch)
    assert text == (
        f"{str(files[1])!r}, row 1, column 'x0' (bag 2): a coordinate must be a finite number, got nan; drop that row, "
        "or fill the value in; missing values in all: 1 in 'x0', 1 in 'x1', 1 in 'x2', 1 in 'x3'; pass nan='drop' to "
        "leave out such points, or nan='indicator' to fill the values in and add indicator columns"
    )
    assert not list(scratch.iterdir())
    small = {"bag": "id", "temp_directory": scratch, "sorted": False, "memory_limit": "1MB"}
    pa.parquet.write_table(pa.parquet.read_table(files[0]), files[0], write_statistics=False)
    assert read_bags(files[0], **small) == read_bags(files[0], bag="id")
    assert not list(scratch.iterdir())

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.ipc.new_file", full)
    text = message(read_bags, files[0], **small)
    wanted = f"sorting by column 'id' failed with temporary files in {str(scratch)!r}; make room there, or name another"
    assert wanted in text
    assert not list(scratch.iterdir())


def test_temporary_files_go_to_the_folder_of_the_system_by_default(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    big_table(tmp_path / "t.parquet")
    batches = BagTable(tmp_path / "t.parquet", bag="id", memory_limit="20MB", threads=1).batches(max_points=1000)
    next(batches)
    assert list(scratch.iterdir())
    batches.close()
    assert not list(scratch.iterdir())


def test_bad_arguments(tmp_path):
    write_table({"id": [1], "x": [1.0]}, tmp_path / "t.parquet")
    path = tmp_path / "t.parquet"
    for options, text in [
        ({"memory_limit": "lots"}, r"BagTable\(memory_limit=...\): must be a size such as '500MB', got 'lots'"),
        ({"memory_limit": 5}, "must be a size such as '500MB', got 5"),
        ({"temp_directory": tmp_path / "no"}, "must be an existing folder"),
        ({"delimiter": ", "}, "must be one character"),
        ({"bag_type": "float"}, "must be one of 'auto', 'integer', 'text'"),
        ({"threads": 0}, r"BagTable\(threads=...\)"),
    ]:
        with pytest.raises(ValueError, match=text):
            BagTable(path, bag="id", **options)
    with pytest.raises(TypeError, match="must be True, False or None"):
        BagTable(path, bag="id", sorted="yes")
    with pytest.raises(TypeError, match=r"read by Bags\.from_frame"):
        BagTable(pd.DataFrame({"id": [1]}), bag="id")
    for options in ({"max_points": 0}, {"max_bags": 0}, {"start": -1}):
        with pytest.raises(ValueError, match="batches"):
            BagTable(path, bag="id").batches(**options)
    assert "another column than bag" in message(BagTable, path, bag="id", weights="id")
    assert "must not contain 'id'" in message(BagTable, path, bag="id", columns=["id"])
    assert "names that differ" in message(BagTable, path, bag="id", columns=["x", "x"])
    assert "names that differ" in message(BagTable, path, bag="id", columns=[])


# -------------------------------------------------------------------------------------------------------- lists
def list_table(kind=None):
    x = [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]
    return pa.table(
        {
            "id": ["b", "a", "c"],
            "x": pa.array(x, pa.list_(kind or pa.float64())),
            "y": pa.array([[10, 20], [30], [40, 50, 60]], pa.large_list(pa.int64())),
            "w": pa.array([[1.0, 1.0], [2.0], [1.0, 2.0, 3.0]]),
            "label": [0, 1, 0],
        }
    )


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_list_columns_are_one_row_a_bag(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    table = list_table()
    write_table(table, path)
    found = read_bags(path, bag="id", columns=["x", "y"], weights="w")
    assert found.ids.tolist() == ["a", "b", "c"]
    assert [bag.tolist() for bag in found] == [[[3, 30]], [[1, 10], [2, 20]], [[4, 40], [5, 50], [6, 60]]]
    assert found.weights.tolist() == [2, 1, 1, 1, 2, 3]
    bag_table = BagTable(path, bag="id", weights="w")
    assert bag_table.columns == ("x", "y")  # lists, not the label
    assert (bag_table.n_points, bag_table.n_bags) == (6, 3)
    batches = list(bag_table.batches(max_points=3))
    assert [batch.ids.tolist() for batch in batches] == [["a", "b"], ["c"]]
    assert list(bag_table.batches(max_points=3, start=1)) == batches[1:]
    write_table(table.slice(1), tmp_path / f"s{suffix}")
    assert read_bags(tmp_path / f"s{suffix}", bag="id", columns="x").points[:, 0].tolist() == [3, 4, 5, 6]


def test_list_columns_may_be_single_precision_and_a_bag_may_have_several_rows(tmp_path):
    table = list_table(pa.float32())
    write_table(pa.concat_tables([table, table]), tmp_path / "t.parquet")
    found = read_bags(tmp_path / "t.parquet", bag="id", columns=["x"])
    assert found.dtype == np.float32
    assert found[1].ravel().tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("kind", "points", "names"),
    [
        (pa.list_(pa.list_(pa.float64(), 2)), [[[1, 2], [3, 4]], [[5, 6]]], ("p_0", "p_1")),
        (pa.list_(pa.list_(pa.float32())), [[[1, 2], [3, 4]], [[5, 6]]], ("p_0", "p_1")),
        (pa.large_list(pa.large_list(pa.int32())), [[[1, 2], [3, 4]], [[5, 6]]], ("p_0", "p_1")),
        (
            pa.list_(pa.struct([("u", pa.float64()), ("v", pa.float64())])),
            [[{"u": 1, "v": 2}, {"u": 3, "v": 4}], [{"u": 5, "v": 6}]],
            ("u", "v"),
        ),
    ],
)
def test_lists_of_whole_points(tmp_path, kind, points, names):
    table = pa.table({"id": [2, 1], "p": pa.array(points, kind)})
    for suffix in (".parquet", ".feather"):
        write_table(table, tmp_path / f"t{suffix}")
        found = read_bags(tmp_path / f"t{suffix}", bag="id")
        assert found.columns == names
        assert found.ids.tolist() == [1, 2]
        assert found.points.tolist() == [[5, 6], [1, 2], [3, 4]]
        assert found.dtype == (np.float32 if kind == pa.list_(pa.list_(pa.float32())) else np.float64)


def test_faults_of_lists(tmp_path):
    path = tmp_path / "t.parquet"

    def read(**columns):
        write_table(pa.table({"id": ["a", "b"], **columns}), path)
        return message(read_bags, path, bag="id")

    assert "row 1, column 'y' (bag 'b'): lists of a row must be equally long, got 1 and, in 'x', 2" in read(
        x=[[1.0], [2.0, 3.0]], y=[[1.0], [2.0]]
    )
    assert "row 1, column 'x' (bag 'b'): a bag must have at least one point, got an empty list" in read(x=[[1.0], []])
    assert "row 0, column 'x' (bag 'a'): a bag must have a list of points, got null" in read(x=[None, [1.0]])
    assert "row 1, column 'x' (bag 'b'): a coordinate must be a finite number, got no value" in read(
        x=[[1.0], [2.0, None]]
    )
    assert "row 1, column 'x' (bag 'b'): a coordinate must be a finite number, got inf" in read(x=[[1.0], [np.inf]])
    assert "row 1, column 'p' (bag 'b'): a point must have 2 coordinates, as the first has, got 1" in read(
        p=[[[1.0, 2.0]], [[3.0]]]
    )
    assert "row 1, column 'p' (bag 'b'): a point must not be null" in read(p=[[[1.0, 2.0]], [None]])
    assert "column 'p' holds no points" in read(p=pa.array([[], []], pa.list_(pa.list_(pa.float64()))))
    assert "must be the only one of columns" in read(p=[[[1.0, 2.0]], [[3.0, 1.0]]], x=[[1.0], [1.0]])
    assert "column 'p' holds whole points" in read(a=[[1.0], [1.0]], p=[[[1.0, 2.0]], [[3.0, 1.0]]])
    write_table(pa.table({"id": ["a"], "p": [[{"u": 1.0, "v": 2.0}]]}), path)
    write_table(pa.table({"id": ["b"], "p": [[{"v": 3.0, "u": 4.0}]]}), tmp_path / "u.parquet")
    assert read_bags(tmp_path, bag="id").points.tolist() == [[1.0, 2.0], [4.0, 3.0]]
    write_table(pa.table({"id": ["b"], "p": [[{"v": 3.0}]]}), tmp_path / "u.parquet")
    assert "u.parquet', row 0, column 'p' (bag 'b'): a point must have the fields 'u', 'v', got 'v'; add it" in message(
        read_bags, tmp_path, bag="id"
    )
    write_table(pa.table({"id": ["a"], "x": [[1.0]], "y": [1.0]}), path)
    text = message(read_bags, path, bag="id", columns=["x", "y"])
    assert "column 'y' must hold lists of numbers, as the other columns, got double" in text
    text = message(read_bags, path, bag="id", columns=["y", "x"])
    assert "column 'x' must hold numbers, as the other columns, got list" in text
    assert "column 'y' must hold lists of numbers" in message(read_bags, path, bag="id", columns="x", weights="y")


# --------------------------------------------------------------------------------------------------- bad tables
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".npz"])
def test_values_that_are_not_finite(tmp_path, suffix, value):
    path = tmp_path / f"t{suffix}"
    write_table({"id": [7, 8, 7], "x": [1.0, 2.0, 3.0], "y z": [1.0, value, 3.0]}, path)
    place = "line 3" if suffix == ".csv" else "row 1"
    said = message(read_bags, path, bag="id")
    got = "no value" if suffix == ".csv" and np.isnan(value) else value
    assert said.startswith(
        f"{str(path)!r}, {place}, column 'y z' (bag 8): a coordinate must be a finite number, got {got}; drop that "
        "row, or fill the value in"
    )
    assert ("; missing values in all: 1 in 'y z'; pass nan='drop'" in said) == bool(np.isnan(value))


def test_nulls_and_columns_without_values(tmp_path):
    table = pa.table({"id": [7, 8], "x": [1, None], "f": [True, None], "n": pa.nulls(2), "a": [np.nan, np.nan]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for column, row, got in (("x", 1, "no value"), ("f", 1, "no value"), ("n", 0, "no value"), ("a", 0, "nan")):
        text = message(read_bags, tmp_path / "t.parquet", bag="id", columns=[column])
        assert f"row {row}, column {column!r} (bag {7 + row}): a coordinate must be a finite number, got {got};" in text
    (tmp_path / "t.csv").write_text("id,x\n7,1\n8,\n")
    assert "line 3, column 'x' (bag 8): a coordinate must be a finite number, got no value" in message(
        read_bags, tmp_path / "t.csv", bag="id"
    )


def test_weights_that_no_bag_can_have(tmp_path):
    path = tmp_path / "t.parquet"
    for weights, text in [
        ([1.0, -2.0, 1.0], "row 1, column 'w' (bag 8): a weight must be nonnegative, got -2.0; drop that row"),
        ([1.0, np.nan, 1.0], "row 1, column 'w' (bag 8): a weight must be a finite number, got nan"),
        ([1.0, 0.0, 1.0], "column 'w': weights must have a positive, finite sum in every bag, got 0.0"),
    ]:
        write_table({"id": [7, 8, 9], "x": [1.0, 2.0, 3.0], "w": weights}, path)
        assert text in message(read_bags, path, bag="id", weights="w")


def test_text_in_a_column_of_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('id,name,"x"\n1,"two\nlines",1\n2,a,12a\n')
    assert message(read_bags, path, bag="id", columns=["x"]) == (
        f"{str(path)!r}, line 4, column 'x': must be a number, got '12a'; correct it, leave the row or the "
        "column out, or, if it holds labels, name it in categorical"
    )
    path.write_text("id,x\n1,1\n2,NA\n")  # still a column of numbers, by default
    assert "line 3, column 'x' (bag 2): a coordinate must be a finite number, got no" in message(
        read_bags, path, bag="id"
    )
    write_table({"id": [1, 2], "x": ["1", "12a"]}, tmp_path / "t.parquet")
    assert message(read_bags, tmp_path / "t.parquet", bag="id", columns=["x"]) == (
        f"{str(tmp_path / 't.parquet')!r}: column 'x' must hold numbers, got string; convert it, leave it out, or, "
        "if it holds labels, name it in categorical"
    )
    text = message(read_bags, tmp_path / "t.parquet", bag="id")
    assert "columns=None takes every column of numbers, and there is none except bag='id'" in text


def test_rows_of_unequal_length(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x\n1,1\n2\n")
    assert message(read_bags, path, bag="id") == (
        f"{str(path)!r}, line 3: got 1 values where the header has 2; correct that line, or pass delimiter"
    )


def test_columns_that_are_not_there(tmp_path):
    path = tmp_path / "t.parquet"
    write_table({"cluster": [1], "ra": [1.0], "dec": [1.0]}, path)
    start = f"{str(path)!r}: "
    assert message(read_bags, path, bag="clutser") == (
        start + "bag names column 'clutser', which the table lacks; did you mean 'cluster'?"
    )
    text = message(read_bags, path, bag="cluster", columns=["RA", "dec"])
    assert text == start + "columns names column 'RA', which the table lacks; did you mean 'ra'?"
    text = message(read_bags, path, bag="cluster", weights="mass")
    assert text == start + "weights names column 'mass', which the table lacks; it has 'cluster', 'ra', 'dec'"
    write_table({"cluster": [1], "ra": [1.0]}, tmp_path / "u.parquet")
    assert "u.parquet': columns names column 'dec', which the table lacks" in message(
        read_bags, tmp_path, bag="cluster"
    )
    (tmp_path / "t.csv").write_text("id,x,x\n1,2,3\n")
    assert "which the table has 2 times; rename one" in message(read_bags, tmp_path / "t.csv", bag="id", columns="x")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tables_without_rows(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_table({"id": np.array([], int), "x": np.array([], float)}, path)
    assert message(read_bags, path, bag="id") == (
        f"{str(path)!r}: no rows, and there must be at least one; check how it was written"
    )
    write_table({"id": np.array([], int), "x": np.array([], float)}, tmp_path / f"c{suffix}")
    assert "and 1 more tables: no rows" in message(read_bags, [path, tmp_path / f"c{suffix}"], bag="id")
    write_table({"id": [2, 1], "x": [1.0, 2.0], "y": [1.0, 2.0]}, tmp_path / f"b{suffix}")  # among others, no harm
    assert read_bags(tmp_path, bag="id").ids.tolist() == [1, 2]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_are_empty_or_damaged(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(b"")
    assert message(read_bags, path, bag="id") == f"{str(path)!r} is empty; write it again"
    if suffix in (".csv", ".tsv"):
        path.write_bytes(b"id,x\n\xff\xfe,1\n" if suffix == ".csv" else b"id\tx\n\xff\xfe\t1\n")
        assert message(read_bags, path, bag="id") == f"{str(path)!r} is not UTF-8 text; save it as UTF-8"
        return
    write_table(points_table(), path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-6], b"id,x\n1,2\n", whole[:-20] + b"\0" * 20):
        path.write_bytes(content)
        kind = {".parquet": "Parquet", ".npz": "npz"}.get(suffix, "Feather")
        text = message(read_bags, path, bag="id")
        assert text == (
            f"{str(path)!r} is not a readable {kind} file: it is damaged, cut off or of another format; write it "
            "again, or correct its suffix"
        )


def test_damage_inside_a_file(tmp_path):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table(points_table()), path, compression="snappy", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[200:6000] = os.urandom(5800)
    path.write_bytes(bytes(content))
    assert "is not a readable Parquet file" in message(read_bags, path, bag="id", sorted=False)


def test_paths_that_name_no_table(tmp_path):
    folder = tmp_path / "folder.parquet"
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing")
    (tmp_path / "t.xlsx").write_text("x")
    write_table({"id": [1], "x": [1.0]}, tmp_path / "t.csv")
    write_table({"id": [1], "x": [1.0]}, tmp_path / "t.parquet")
    known = ".parquet, .pq, .feather, .arrow, .csv, .tsv, .npz"
    assert message(read_bags, folder, bag="id") == (
        f"directory {str(folder)!r} holds no tables ({known}); name another directory or a file"
    )
    path = tmp_path / "t.xlsx"
    text = message(read_bags, path, bag="id")
    assert text == f"{str(path)!r} has an unknown suffix; tables are {known}, and CSV may end in .gz"
    path = tmp_path / "none.csv"
    assert message(read_bags, path, bag="id") == f"no such file: {str(path)!r}; check the path"
    path = tmp_path / "none*.csv"
    assert message(read_bags, path, bag="id") == f"no file matches {str(path)!r}; check the pattern"
    text = message(read_bags, tmp_path, bag="id")
    assert text.startswith("tables must all have one format, got ")
    assert text.endswith("name those of one format, for example by a glob such as '*.parquet'")
    assert "names no files" in message(read_bags, [], bag="id")
    assert "more than once" in message(read_bags, [tmp_path / "t.csv"] * 2, bag="id")
    (tmp_path / "in" / "year=1").mkdir(parents=True)
    write_table({"id": [1], "x": [1.0]}, tmp_path / "in" / "year=1" / "t.csv")
    assert read_bags(tmp_path / "in", bag="id").n_bags == 1


def test_a_file_without_permission(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write_table({"id": [1], "x": [1.0]}, path)
    plain = Path.open

    def refusing(self, *args, **kwargs):
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refusing)
    assert message(read_bags, path, bag="id") == (
        f"no permission to read {str(path)!r}; change its permissions or copy it"
    )


def test_archives_of_bags_are_no_tables(tmp_path):
    Bags.from_arrays([[1.0]]).save(tmp_path / "b.npz")
    text = message(read_bags, tmp_path / "b.npz", bag="bag")
    assert text == f"{str(tmp_path / 'b.npz')!r} was written by Bags.save and is not a table; read it with Bags.load"
    np.savez(tmp_path / "u.npz", id=np.arange(3), x=np.arange(4.0))
    assert "one entry per row, got lengths 'id' 3, 'x' 4" in message(read_bags, tmp_path / "u.npz", bag="id")
    np.savez(tmp_path / "o.npz", id=np.arange(2), x=np.array([1, "a"], dtype=object))
    assert "column 'x' must hold numbers, got binary" in message(read_bags, tmp_path / "o.npz", bag="id", columns="x")


# ---------------------------------------------------------------------------------------------- missing values
GAPS = {"id": ["b", "a", "b", "a"], "x": [1.0, np.nan, 3.0, 5.0], "y": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".npz"])
def test_missing_values_of_tables_are_those_of_frames(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_table(GAPS, path)
    grouped = {name: np.asarray(values)[[1, 3, 0, 2]] for name, values in GAPS.items()}
    for nan in ("drop", "indicator", {"x": 7.0}, {"y": 7.0}):
        if nan == {"y": 7.0}:
            assert "column 'x' must have no missing values" in message(read_bags, path, bag="id", nan=nan)
        else:
            assert read_bags(path, bag="id", nan=nan) == Bags.from_frame(grouped, bag="id", nan=nan)
    table = BagTable(path, bag="id", nan="indicator")
    assert table.columns == ("x", "y", "x missing")
    assert (table.file_columns, table.nan) == (("x", "y"), {"x": 3.0})
    assert [batch.missing_fills for batch in table.batches(max_bags=1)] == [{"x": 3.0}, {"x": 2.0}]  # b lacks nothing
    assert BagTable(path, bag="id", nan="drop").nan == "drop"


def test_words_for_missing_numbers_in_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x\nNA,1\nNA,NA\nb,\nb,NULL\nb,n/a\nb,2\n")  # NA may be an id
    bags = read_bags(path, bag="id", nan="drop")
    assert bags.ids.tolist() == ["NA", "b"]
    assert bags.points.tolist() == [[1], [2]]


def test_bags_that_lose_all_points_are_named(tmp_path):
    path = tmp_path / "t.parquet"
    write_table({"id": [1, 2, 2, 3], "x": [1.0, np.nan, np.nan, 2.0]}, path)
    said = message(read_bags, path, bag="id", nan="drop")
    assert said.startswith(f"{str(path)!r}: bag 1 (id 2) has missing values in every point, so nan='drop' leaves")
    with pytest.raises(
        ValueError, match=r"BagTable\(nan=...\): must be one of 'error', 'drop', 'indicator', got 'mean'"
    ):
        BagTable(path, bag="id", nan="mean")
    write_table({"id": [1, 2], "x": [np.nan, np.nan], "y": [1.0, 2.0]}, path)
    assert "column 'x' has no value at all" in message(BagTable, path, bag="id", nan="indicator")
    write_table({"id": [1, 2], "x": [np.nan, np.inf]}, path)
    assert "got inf" in message(read_bags, path, bag="id", nan="drop")
