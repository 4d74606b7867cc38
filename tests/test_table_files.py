"""Which files a table is, what their ids are, and what becomes of a sort that is stopped."""

import os

import numpy as np
import pytest

from distembed.tables import TableError, points, read_bags, read_labels, write_table


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
    """It may come while DuckDB reads, which words errors of its source anew, or while it sorts."""
    rng = np.random.default_rng(0)
    path, scratch = tmp_path / "t.parquet", tmp_path / "scratch"
    scratch.mkdir()
    write_table({"id": rng.permutation(200_000) // 10, "x": rng.normal(size=200_000)}, path)

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
    import duckdb

    class Interrupted:
        def __init__(self, connection):
            self._connection = connection

        def __getattr__(self, name):
            return getattr(self._connection, name)

        def sql(self, query):
            raise RuntimeError("Query interrupted")

    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *args, **more: Interrupted(connect(*args, **more)))
    with pytest.raises(KeyboardInterrupt):
        read()
    monkeypatch.undo()
    assert list(scratch.iterdir()) == []
    assert read() == whole
