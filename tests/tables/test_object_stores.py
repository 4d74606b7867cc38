"""Tables in object stores, by URL: through a server that speaks S3, and stores that are slow or fail."""

from __future__ import annotations

import gzip
import io
import re
import time

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run

import distembed as de
from distembed import cluster
from distembed.tables import BagTable, TableError, read_bags, read_labels
from distembed.tables.paths import RemotePath, as_path

fsspec = pytest.importorskip("fsspec")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.xdist_group("cluster")

SECRET = "not-to-be-told"
RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(0.5, 2, 40)
FRAME = pd.DataFrame({"id": np.repeat(np.arange(40), 25)})
FRAME = FRAME.assign(x=RNG.normal(size=1000) * SPREAD[FRAME["id"]], y=RNG.normal(size=1000))
BAGS = de.Bags.from_frame(FRAME, bag="id")


def learner():
    return de.DistributionRegressor("js", n_components=60, tune=None, random_state=0)


def put(store, path, data):
    """Write a frame to a store in the format of its suffix."""
    made = {"parquet": lambda out: data.to_parquet(out, index=False, row_group_size=90),
            "feather": lambda out: data.to_feather(out),
            "csv": lambda out: data.to_csv(out, index=False)}  # fmt: skip
    with store.open(path, "wb") as out:
        made[path.rpartition(".")[2]](out)


@pytest.fixture(scope="module")
def s3():
    """A server that speaks S3, with a bucket, and what to give fsspec for it."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "user", "secret": SECRET, "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    store = fsspec.filesystem("s3", **options)
    store.mkdir("bucket")
    put(store, "bucket/points/a.parquet", FRAME[:430])
    put(store, "bucket/points/b.parquet", FRAME[430:])
    put(store, "bucket/labels.csv", pd.DataFrame({"id": np.arange(40), "s": SPREAD}))
    yield options
    server.stop()


@pytest.fixture
def environment(s3, monkeypatch):
    """Credentials in the environment, as users of a cloud have them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3["client_kwargs"]["endpoint_url"])
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture(scope="module")
def client():
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as made:
        yield made


A, B = "s3://bucket/points/a.parquet", "s3://bucket/points/b.parquet"


@pytest.mark.parametrize("source", ["s3://bucket/points", "s3://bucket/points/*.parquet", [A, B]])
def test_tables_by_url(environment, source):
    bags = read_bags(source, bag="id")
    assert np.array_equal(bags.points, BAGS.points)
    assert BagTable(source, bag="id").n_bags == 40


def test_commands_by_url(environment, tmp_path):
    how = ("--bag", "id", "--labels", "s3://bucket/labels.csv", "--label", "s", "--embedding", "mean", "--tune", "none")
    run("fit", "s3://bucket/points/*.parquet", *how, "--components", "0", "-o", tmp_path / "m.distembed")
    run("predict", tmp_path / "m.distembed", "s3://bucket/points", "-o", "s3://bucket/predicted.parquet")
    found = pd.read_parquet(fsspec.filesystem("s3").open("bucket/predicted.parquet"))
    model = de.load(tmp_path / "m.distembed")
    np.testing.assert_allclose(found["prediction"], model.predict(BAGS), rtol=1e-9)


def test_a_url_given_twice(environment):
    with pytest.raises(TableError, match=r"each file must be named once, got 's3://bucket/points/a.parquet' more than"):
        read_bags([A, A], bag="id")


def test_labels_by_url(environment):
    assert read_labels("s3://bucket/labels.csv", bag="id", label="s").labels == pytest.approx(SPREAD)


def test_a_fit_from_a_store_to_a_store(s3, client):
    table = cluster.open("s3://bucket/points/*.parquet", bag="id", storage_options=s3, partition_rows=100)
    store, wanted = fsspec.filesystem("s3", **s3), learner().fit_batches(lambda: iter([(BAGS, SPREAD)]))
    kept = RemotePath("s3://bucket/kept", s3)
    model = cluster.fit(learner(), table, dict(enumerate(SPREAD)), client=client, checkpoint=kept)
    assert np.abs(model.predict(BAGS) - wanted.predict(BAGS)).max() < 1e-8 * SPREAD.std()
    assert not store.find("bucket/kept")
    files = cluster.predict(model, table, "s3://bucket/p", client=client, storage_options=s3)
    assert files[0] == "s3://bucket/p/part-00000.parquet"
    found = pd.concat(pd.read_parquet(store.open(file)) for file in store.find("bucket/p")).sort_values("id")
    np.testing.assert_allclose(found["prediction"], model.predict(BAGS), rtol=1e-9)


def test_checkpoints_in_a_store(s3, client):
    class Stop(Exception):
        pass

    class Impatient:
        def begin(self, stage, total):
            self.stage = stage

        def advance(self, more):
            if (self.stage, more) != ("learning", 40) and self.stage == "learning":
                time.sleep(0.3)
                raise Stop

    table = cluster.open("s3://bucket/points/*.parquet", bag="id", storage_options=s3, partition_rows=90)
    how = {"client": client, "checkpoint": RemotePath("s3://bucket/stopped", s3)}
    with pytest.raises(Stop):
        cluster.fit(learner(), table, dict(enumerate(SPREAD)), progress=Impatient(), **how)
    assert fsspec.filesystem("s3", **s3).find("bucket/stopped")
    again = cluster.fit(learner(), table, dict(enumerate(SPREAD)), **how)
    once = cluster.fit(learner(), table, dict(enumerate(SPREAD)), client=client)
    assert again.model_.head.ridge.coef_.tobytes() == once.model_.head.ridge.coef_.tobytes()


def test_errors_tell_no_credentials(s3, client):
    with pytest.raises(ValueError, match="a URL must not hold a user or a password") as caught:
        read_bags(f"s3://user:{SECRET}@bucket/points", bag="id")
    errors = [caught.value]
    for source, text in {
        "s3://bucket/none.parquet": r"no such file: 's3://bucket/none\.parquet'; check the path",
        "s3://bucket/none/*.parquet": "no file matches",
    }.items():
        with pytest.raises(TableError, match=text) as caught:
            cluster.open(source, bag="id", storage_options=s3)
        errors.append(caught.value)
    table = cluster.open("s3://bucket/points", bag="id", storage_options=s3)
    assert all(SECRET not in text for text in (repr(table), str(table), *(str(error) for error in errors)))


def test_a_store_that_nobody_knows():
    with pytest.raises(ValueError, match="fsspec knows no 'nowhere'; check the URL"):
        read_bags("nowhere://a/b.parquet", bag="id")


@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv"])
def test_formats_in_memory(suffix):
    store = fsspec.filesystem("memory")
    put(store, f"formats/t.{suffix}", FRAME)
    assert np.allclose(read_bags(f"memory://formats/t.{suffix}", bag="id").points, BAGS.points)
    store.rm("formats", recursive=True)


def test_paths_by_url_of_files(tmp_path):
    FRAME.to_parquet(tmp_path / "t.parquet", index=False)
    assert as_path(f"file://{tmp_path}/t.parquet") == tmp_path / "t.parquet"
    assert np.array_equal(read_bags(f"file://{tmp_path}/t.parquet", bag="id").points, BAGS.points)


# Stores that are slow, or fail


def flaky(fails):
    """A store in memory whose first reads of a kind fail, or all of them."""
    from fsspec.implementations.memory import MemoryFileSystem

    class Flaky(MemoryFileSystem):
        protocol = "flaky"
        left = fails
        cachable = False

        def _open(self, path, mode="rb", **more):
            time.sleep(0.001)
            if mode == "rb" and path.endswith("b.parquet") and Flaky.armed and Flaky.left > 0:
                Flaky.left -= 1
                raise OSError(5, "Input/output error")
            return super()._open(path, mode, **more)

    Flaky.armed = False
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    store = Flaky()
    put(store, "/bad/a.parquet", FRAME[:430])
    put(store, "/bad/b.parquet", FRAME[430:])
    table = cluster.open("flaky:///bad/*.parquet", bag="id", partition_rows=430)
    Flaky.armed = True
    return table


def test_reads_that_fail_are_tried_again(client):
    model = cluster.fit(learner(), flaky(2), dict(enumerate(SPREAD)), client=client)
    wanted = learner().fit_batches(lambda: iter([(BAGS, SPREAD)]))
    assert np.abs(model.predict(BAGS) - wanted.predict(BAGS)).max() < 1e-8 * SPREAD.std()


def test_a_file_that_always_fails_is_named(client):
    text = r"partition [12] \('flaky://bad/b\.parquet', row groups .*\): .* a request to its store failed: input/output"
    with pytest.raises(TableError, match=text):
        cluster.fit(learner(), flaky(10**9), dict(enumerate(SPREAD)), client=client)


def test_only_files_that_were_written_are_listed(client):
    """The bag is cut by all parts, and in the file of the first."""
    store = fsspec.filesystem("memory")
    put(store, "cut/t.parquet", FRAME.assign(id=0))
    table = cluster.open("memory://cut/t.parquet", bag="id", partition_rows=90)
    assert len(table.parts) > 1
    found = cluster.embed(de.MomentEmbedding("mean").fit(BAGS), table, "memory://cut/out", client=client)
    assert found == ["memory://cut/out/part-00000.parquet"]
    assert store.find("cut/out") == ["/cut/out/part-00000.parquet"]
    store.rm("cut", recursive=True)


# Stores that end a file early, that can't be reached, and that are no stores


def put_table(store, path, suffix):
    """Write the table in any format."""
    if suffix == "csv.gz":
        store.pipe_file(path, gzip.compress(FRAME.to_csv(index=False).encode()))
    elif suffix == "npz":
        with store.open(path, "wb") as out:
            np.savez(out, **{name: FRAME[name].to_numpy() for name in FRAME})
    else:
        put(store, path, FRAME)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv", "csv.gz", "npz"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_file_that_its_store_ends_early_is_named(suffix, share):
    from fsspec.implementations.memory import MemoryFileSystem

    class Short(MemoryFileSystem):
        protocol = "short"
        cachable = False

        def _open(self, path, mode="rb", **more):
            file = super()._open(path, mode, **more)
            return Cut(file, share) if mode == "rb" and armed else file

    class Cut(io.BytesIO):
        """All that there is, by its size, but no byte of the second half."""

        def __init__(self, file, share):
            data = file.read()
            self.size = len(data)
            super().__init__(data[: int(share * self.size)])

        def seek(self, place, whence=0):
            return super().seek(place + self.size, 0) if whence == 2 else super().seek(place, whence)

    fsspec.register_implementation("short", Short, clobber=True)
    armed = False
    path = f"/short/{suffix}/t.{suffix}"
    put_table(Short(), path, suffix)
    assert np.allclose(read_bags(f"short:/{path}", bag="id").points, BAGS.points)
    armed = True
    size = Short().info(path)["size"]
    with pytest.raises(TableError) as caught:
        read_bags(f"short:/{path}", bag="id")
    text = rf"'short:/{path}' ended after [\d,]+ of the {size:,} bytes that its store lists; try again, or look at"
    assert re.match(text, str(caught.value)), caught.value


def test_a_bucket_that_ends_a_file_early(environment, monkeypatch, tmp_path):
    """The rows before its end would be taken for all."""
    import s3fs

    put(fsspec.filesystem("s3"), "bucket/short.csv", FRAME)
    fetch = s3fs.S3File._fetch_range
    monkeypatch.setattr(s3fs.S3File, "_fetch_range", lambda self, start, end: fetch(self, start, end)[: 9_000 - start])
    said = refused("info", "s3://bucket/short.csv", "--bag", "id")
    assert re.match(r"distembed: 's3://bucket/short\.csv' ended after 9,000 of the \d\d,\d+ bytes that its store", said)


@pytest.mark.parametrize(
    ("url", "changed", "text"),
    [
        ("s3://bucket/t.csv", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "no connection; check the network and the"),
        ("s3://bucket/*.csv", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "no connection; check the network and the"),
        ("s3://bucket/t.csv", {"AWS_ACCESS_KEY_ID": None}, "there are no credentials; set them in the environment"),
        ("s3://unknown/t.csv", {}, "no such file: 's3://unknown/t.csv'; check the path"),
        ("s3://unknown/*.csv", {}, "no file matches 's3://unknown/*.csv'; check the pattern"),
        ("http://host/t.csv?key=1", {}, "http://...: tables are local files, or files in object stores such as s3://"),
        ("ftp://host/t.csv", {}, "ftp://...: tables are local files, or files in object stores such as s3://"),
        ("nowhere://a/t.csv", {}, "fsspec knows no 'nowhere'; check the URL"),
    ],
)
def test_stores_that_can_not_be_asked(environment, monkeypatch, tmp_path, url, changed, text):
    """One sentence, by every way to them."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in changed.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    if "AWS_ACCESS_KEY_ID" in changed:
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    fsspec.filesystem("s3").clear_instance_cache()
    FRAME.to_parquet(tmp_path / "points.parquet", index=False)
    labels = ("--label", "s", "-o", tmp_path / "m.distembed", "--embedding", "mean")
    for words in (
        ("info", url),
        ("embed", url, "--bag", "id", "--embedding", "mean"),
        ("fit", tmp_path / "points.parquet", "--bag", "id", "--labels", url, *labels),
    ):
        assert text in refused(*words)
    if "*" not in url and "no such file" not in text:
        words = (
            "embed",
            tmp_path / "points.parquet",
            "--bag",
            "id",
            "--embedding",
            "mean",
            "-o",
            url.partition("?")[0],
        )
        assert text in refused(*words)
    fsspec.filesystem("s3").clear_instance_cache()
