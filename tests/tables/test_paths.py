"""Local paths and those of stores answer the same methods in the same way."""

import gzip
import pickle

import numpy as np
import pytest

from distembed.tables import TableError, paths
from distembed.tables.formats import FORMATS, format_of
from distembed.tables.paths import LocalPath, RemotePath, as_path, check_stamp, digest_of_parts, stamp

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    """A new folder, on disk or in a store."""
    if request.param == "local":
        yield as_path(tmp_path / "new")
        return
    made = as_path("memory://test-paths/new")
    yield made
    store = fsspec.filesystem("memory")
    if store.exists("/test-paths"):
        store.rm("/test-paths", recursive=True)


def test_a_file_from_its_making_to_its_end(folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "t.csv.gz"
    assert not path.exists()
    assert path.obstacle() is None
    data = gzip.compress(b"a,b\n1,2\n")
    with path.write_whole() as file:
        file.write(data)
    assert path.read_bytes() == path.open_mapped().read() == data
    with path.open_unpacked() as stream:
        assert stream.read() == b"a,b\n1,2\n"
    with path.as_local() as local:
        assert (local.name, local.read_bytes()) == ("t.csv.gz", data)
    assert (folder / "*.gz").matches() == list(folder.rglob("*.gz")) == [path]
    assert (path.suffix, path.suffixes, path.name) == (".gz", [".csv", ".gz"], "t.csv.gz")
    assert pickle.loads(pickle.dumps(path)) == path == as_path(path) == as_path(str(path))
    before = stamp(path)
    check_stamp(path, before)
    with path.write_whole() as file:
        file.write(b"other")
    with pytest.raises(TableError, match="has changed while it was read"):
        check_stamp(path, before)
    path.unlink()
    with pytest.raises(TableError, match="can't be read any more"):
        stamp(path)


def test_what_fails_leaves_the_old_file(folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "t.csv"
    with path.write_whole() as file:
        file.write(b"old")

    def fail():
        with path.write_whole() as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert [each.name for each in folder.iterdir()] == ["t.csv"]


def test_errors_of_files_and_of_bytes(folder):
    path = folder / "t.parquet"
    assert str(path.fault(PermissionError(13, "no"))).startswith(f"no permission to read {str(path)!r}; ")
    assert path.fault(ValueError("damaged")) is None
    if isinstance(path, RemotePath):
        assert "to its store failed: slow; try again" in str(path.fault(OSError(5, "Slow")))


def test_a_digest_of_a_large_file_reads_little_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_BLOCK", 10)
    path = as_path(tmp_path / "t.csv")
    text = bytes(np.random.default_rng(0).integers(256, size=5_000, dtype=np.uint8))
    path.write_bytes(text)
    starts = list(paths._block_starts(5_000))
    assert (starts[0], starts[-1], len(starts)) == (0, 4_990, paths._MOST_BLOCKS)
    before = digest_of_parts([path])
    noticed = []
    for place in (0, starts[5], starts[5] + 10, 4_999):
        path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
        noticed.append(digest_of_parts([path]) != before)
    assert noticed == [True, True, False, True]
    for size in (0, 1, 10, 11, 57, 320):  # all of it
        seen = {i for start in paths._block_starts(size) for i in range(start, min(size, start + 10))}
        assert seen == set(range(size))


def test_both_have_the_methods_that_tables_ask_for():
    own = {name for name in vars(LocalPath) if not name.startswith("_")}
    assert own
    assert own <= set(vars(RemotePath))
    lacking = {name for name in vars(RemotePath) if not name.startswith("_") and not hasattr(LocalPath, name)}
    assert not lacking


def test_formats_have_one_method_for_each_thing():
    assert list(FORMATS) == [".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv", ".npz"]
    for suffix, own in FORMATS.items():
        assert format_of(f"a/t{suffix}") is format_of(f"memory://a/T{suffix.upper()}") is own
        assert (format_of(f"t{suffix}.gz") is own) == (not own.typed)
        assert own.place(as_path("t"), None, 3) == "row 3" if own.typed else own.name == "CSV"
