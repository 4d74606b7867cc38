"""Which files a table is, what their ids are, and what becomes of a sort that is stopped."""

import contextlib
import io
import os
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from distembed.bags import Bags
from distembed.tables import BagTable, TableError, open_bags, points, read_bags, read_labels, write_table
from distembed.tables.formats import FileSchema, reading
from distembed.tables.paths import as_path
from distembed.tables.plan import check_column


def test_a_file_under_two_names_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    write_table({"id": [1, 2], "x": [1.0, 2.0]}, path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "soft.csv").symlink_to(path)
    os.link(path, tmp_path / "in" / "hard.csv")
    monkeypatch.chdir(tmp_path)
    for other in ("t.csv", str(path), "in/../t.csv", "in/soft.csv", "in/hard.csv", "*.csv"):
        for read in (lambda files: read_bags(files, bag="id"), lambda files: read_labels(files, bag="id", label="x")):
            with pytest.raises(TableError, match=r"each file must be named once, got 't.csv' .*; leave out the second"):
                read(["t.csv", other])
    with pytest.raises(TableError, match=r"got 'in/hard.csv' and 'in/soft.csv', which is the same file"):
        read_bags("in", bag="id")
    assert read_bags("t.csv", bag="id").n_bags == 2


@pytest.mark.parametrize("suffix", ["npz", "parquet", "feather"])
def test_ids_with_a_nul_inside_do_not_merge(tmp_path, suffix):
    ids = np.array(["a\0b", "a", "a\0b", "c", ""])
    path = tmp_path / f"t.{suffix}"
    if suffix == "npz":
        np.savez(path, id=ids, x=np.arange(5.0))
    else:
        write_table({"id": ids, "x": np.arange(5.0)}, path)
    bags = read_bags(path, bag="id")
    assert (bags.ids.tolist(), bags.sizes.tolist()) == (["", "a", "a\0b", "c"], [1, 1, 2, 1])


def test_a_signal_during_the_sort_stays_what_it_is(tmp_path, monkeypatch):
    """It may come in the thread that reads ahead."""
    rng = np.random.default_rng(0)
    path, scratch = tmp_path / "t.parquet", tmp_path / "scratch"
    scratch.mkdir()
    made = pa.table({"id": rng.permutation(200_000) // 10, "x": rng.normal(size=200_000)})
    parquet.write_table(made, path, write_statistics=False)  # which would make a sort superfluous

    def read():
        return read_bags(path, bag="id", sorted=False, temp_directory=scratch)

    whole, read_pieces = read(), points.read_pieces
    for stop in (KeyboardInterrupt, SystemExit):

        def pieces(*args, stop=stop):
            for number, piece in enumerate(read_pieces(*args)):
                if number == 2:
                    raise stop
                yield piece

        monkeypatch.setattr(points, "read_pieces", pieces)
        with pytest.raises(stop):
            read()
    monkeypatch.undo()
    assert list(scratch.iterdir()) == []
    assert read() == whole


# --------------------------------------------------------------------------------------------------------------
# Odd files
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_only_ordinary_files_are_tables(tmp_path):
    """A pipe that nobody writes to would wait for ever, and a device may have no end."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zeros.parquet").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zeros.parquet"):
        with pytest.raises(TableError, match="is not a regular file but a pipe or a device; write it to a file"):
            read_bags(tmp_path / name, bag="bag")
    with pytest.raises(TableError, match="holds no tables"):
        read_bags(tmp_path, bag="bag")
    for name, read in (("a.h5ad", open_bags), ("p.fcs", open_bags), ("b.npz", lambda path, bag: Bags.load(path))):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ValueError, match="is not a regular file"):
            read(tmp_path / name, bag="bag")


def npz_claiming(path, shape, n_bytes=0, told=None):
    """Write an archive whose header says more than it has."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(n_bytes))
    if told is not None:  # what the directory says of the size
        data, size = bytearray(path.read_bytes()), len(header.getvalue()) + n_bytes
        place = data.rindex(size.to_bytes(4, "little"))
        data[place : place + 4] = told.to_bytes(4, "little")
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("shape", "n_bytes", "told", "text"),
    [
        ((0, 10**8), 0, None, r"has the shape \(0, 100000000\) and no values"),
        ((2, 10**5 + 1), 16 * (10**5 + 1), None, "makes 100,001 columns, and a table has at most 100,000"),
        ((1, 10**8), 0, None, "takes 800,000,000 bytes, and the file holds at most 0"),
        ((10**12,), 16, None, "takes 8,000,000,000,000 bytes, and the file holds at most 16"),
        ((10**7,), 0, 128 + 8 * 10**7, "takes 80,000,000 bytes"),
    ],
)
def test_archives_that_claim_more_than_they_hold_are_refused_by_arithmetic(tmp_path, shape, n_bytes, told, text):
    npz_claiming(tmp_path / "t.npz", shape, n_bytes, told)
    tracemalloc.start()
    try:
        with pytest.raises(TableError, match=text):
            read_bags(tmp_path / "t.npz", bag="bag")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_columns_are_found_without_a_search():
    class Names(tuple):
        def index(self, *args):
            raise AssertionError("a search for each of many columns is quadratic")

        count = __contains__ = index

    n = 1_000
    schema = FileSchema("t.csv", Names(f"c{j}" for j in range(n)), tuple(range(n)), None)
    for j in range(n):
        check_column(schema, "columns", f"c{j}")
    assert [schema.type_of(f"c{j}") for j in range(n)] == list(range(n))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_other_text_is_named(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("bag,x\na,1\nb,2\n".encode(encoding))
    kind = encoding.upper()[:6]
    with pytest.raises(TableError, match=f"is {kind} text, and must be UTF-8; save it as UTF-8"):
        read_bags(tmp_path / "t.csv", bag="bag")


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_text_that_is_not_utf_8_names_its_column(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    words = pa.array([b"caf\xe9", b"tea"]).view(pa.string())
    for column in (words, words.dictionary_encode()):
        table = pa.table({"bag": column, "x": [1.0, 2.0]})
        if suffix == "parquet":
            parquet.write_table(table, path)
        else:
            feather.write_feather(table, path)
        with pytest.raises(TableError, match="column 'bag' holds text that is not UTF-8; write it again"):
            read_bags(path, bag="bag")


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="pyarrow has no views of text")
def test_views_of_text_are_text(tmp_path):
    views = pa.array(["a", "b"]).cast(pa.string_view())
    table = pa.table({"bag": views, "x": [1.0, 2.0], "label": views})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert read_bags(tmp_path / "t.arrow", bag="bag", columns="x").ids.tolist() == ["a", "b"]
    assert read_labels(tmp_path / "t.arrow", bag="bag", label="label")["b"] == "b"


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_a_file_that_changes_while_it_is_read_is_told(tmp_path, suffix):
    """One that is mapped to memory and cut would end the process."""
    path = tmp_path / f"t.{suffix}"
    n = 200_000
    write_table({"bag": np.arange(n) // 100, "x": np.arange(n) % 7.0}, path)
    table = BagTable(path, bag="bag", sorted=True)
    with contextlib.closing(table.batches(max_points=1_000)) as batches:
        next(batches)
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(TableError, match=r"t\.\w+' (has changed while it was read; do it again|is not a readable)"):
            list(batches)
    write_table({"bag": [1, 2], "x": [1.0, 2.0]}, path)
    with pytest.raises(TableError, match="has changed while it was read; do it again when it is complete"):
        list(table.batches())  # which is another table than the plan was made for
    path.unlink()
    with pytest.raises(TableError, match="can't be read any more: No such file or directory; put it back"):
        list(table.batches())


@pytest.mark.parametrize("name", ["ArrowIndexError", "ArrowTypeError", "ArrowCapacityError", "ArrowSerializationError"])
def test_whatever_pyarrow_says_of_damaged_bytes_is_one_sentence(tmp_path, name):
    with pytest.raises(TableError, match=r"not a readable .*: it is damaged"), reading(as_path(tmp_path / "t.arrow")):
        raise getattr(pa.lib, name)("Index 210 out of bounds")
    with pytest.raises(IndexError, match="of our own"), reading(as_path(tmp_path / "t.arrow")):
        raise IndexError("of our own")


def test_labels_whose_codes_are_out_of_bounds_are_damage(tmp_path):
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 210], pa.int32()), pa.array(["a", "b"]), safe=False)
    table = pa.table({"id": pa.array([1, 2]), "x": pa.array([0.5, 1.5]), "kind": codes})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(TableError, match=r"not a readable .*: it is damaged"):
        read_bags(tmp_path / "t.arrow", bag="id", columns=["x"], categorical=["kind"])
    with pytest.raises(TableError, match=r"not a readable .*: it is damaged"):
        read_labels(tmp_path / "t.arrow", bag="id", label="kind")
