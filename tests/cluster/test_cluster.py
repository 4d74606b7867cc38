"""Fits, predictions and embeddings by a cluster of Dask workers: the same as those of one machine, whatever happens."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import refused, run
from pyarrow import parquet
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed import cluster
from distembed.cluster import fitting, writing
from distembed.cluster.checkpoints import Checkpoints
from distembed.cluster.engine import Graph, client_for, lazily
from distembed.cluster.fitting import are_smaller, steps_for_sketches
from distembed.cluster.table import ClusterTable, Survey
from distembed.models.forest import ForestHead
from distembed.tables import TableError, write_table

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.xdist_group("cluster")

N_BAGS = 90


def make(seed=0):
    """Bags of unequal sizes, whose spread is to be predicted, as rows in the order of their ids."""
    rng = np.random.default_rng(seed)
    spread, sizes = rng.uniform(0.5, 2, N_BAGS), rng.integers(15, 40, N_BAGS)
    bag = np.repeat(np.arange(N_BAGS), sizes)
    points = rng.normal(size=(len(bag), 2)) * spread[bag, None]
    weights = rng.uniform(0.5, 2, len(bag))
    return spread, pd.DataFrame({"id": bag, "x": points[:, 0], "y": points[:, 1], "w": weights})


SPREAD, FRAME = make()
LABELS = dict(enumerate(SPREAD))
BAGS = de.Bags.from_frame(FRAME, bag="id", columns=["x", "y"])
WIDE = de.UnitCube((-9, 9))  # where some bags decide, others lie outside


def learner(embedding="js", **settings):
    return de.DistributionRegressor(embedding, **{"n_components": 100, "tune": None, "random_state": 0, **settings})


def by_one_machine(model, y=SPREAD, bags=BAGS):
    classes = np.unique(y) if hasattr(model, "class_weight") else None
    return model.fit_batches(lambda: iter([(bags, y)]), classes=classes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table in order of its bags, and in no order, with small row groups."""
    path = tmp_path_factory.mktemp("cluster")
    for name, frame in (("sorted", FRAME), ("shuffled", FRAME.sample(frac=1, random_state=0))):
        parquet.write_table(
            pa.Table.from_pandas(frame, preserve_index=False), path / f"{name}.parquet", row_group_size=97
        )
    return path


@pytest.fixture(scope="module")
def client():
    """Threads of this process: what tasks do is the same."""
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as made:
        yield made


def open_table(folder, name="sorted", rows=200, **more):
    return cluster.open(folder / f"{name}.parquet", bag="id", columns=["x", "y"], partition_rows=rows, **more)


def bits(model):
    return model.model_.head.ridge.coef_.tobytes()


# Processes


@pytest.fixture
def quick_workers():
    """Processes that are forks of one that has imported what they need."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        imported = ["dask.dataframe", "pyarrow.dataset", "distembed.cluster.fitting", "distembed.learners.estimators"]
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", *imported])
        yield


def test_workers_have_no_say_in_the_bits_of_a_model(folder, quick_workers):
    """Two workers, two of which one is killed, and one; parts of three sizes; rows in order and in none."""

    def opened(*case):
        return replace(open_table(folder, *case), few_cut_rows=100)  # rows without order are shuffled

    cases = [("sorted", 10**6), ("sorted", 700), ("sorted", 200), ("shuffled", 400)]
    wanted, deviation = by_one_machine(learner()).predict(BAGS), SPREAD.std()
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as processes,
        distributed.Client(processes) as client,
    ):
        found = {case: cluster.fit(learner(), opened(*case), LABELS, client=client) for case in cases}
        for model in found.values():
            assert np.abs(model.predict(BAGS) - wanted).max() < 1e-8 * deviation
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.2, os.kill, (victim, signal.SIGKILL))
        killer.start()
        again = cluster.fit(learner(), opened(*cases[2]), LABELS, client=client)
        assert bits(again) == bits(found[cases[2]])
        killer.join()
        processes.scale(1)
        for case in cases:
            assert bits(cluster.fit(learner(), opened(*case), LABELS, client=client)) == bits(found[case])


# What is learned


@pytest.mark.parametrize("embedding", ["js", "mean", "mmd", "sliced-wasserstein", "covariance"])
@pytest.mark.parametrize("small", [True, False])
def test_bags_that_are_cut_are_merged_by_sketches_or_gathered(client, folder, tmp_path, embedding, small, monkeypatch):
    """Sketches give the same, whether they are smaller than points or not."""
    for module in (fitting, writing):
        monkeypatch.setattr(module, "are_smaller", lambda model, sizes: small and bool(steps_for_sketches(model)))
    one = by_one_machine(learner(embedding))
    model = cluster.fit(learner(embedding), open_table(folder), pd.Series(LABELS), client=client)
    assert np.abs(model.predict(BAGS) - one.predict(BAGS)).max() < 1e-8 * SPREAD.std()
    assert bool(steps_for_sketches(model)) == (embedding != "sliced-wasserstein")
    cluster.predict(model, open_table(folder), tmp_path / "p", client=client)
    found = parquet.read_table(tmp_path / "p").to_pandas().sort_values("id")
    np.testing.assert_allclose(found["prediction"], model.predict(BAGS), rtol=1e-9)


def test_sketches_are_taken_where_they_are_smaller_than_points():
    model = by_one_machine(learner())
    assert not are_smaller(model, np.array([100, 100]))
    assert are_smaller(model, np.array([10**6]))
    assert not are_smaller(by_one_machine(learner("sliced-wasserstein")), np.array([10**6]))


def test_settings_are_chosen_on_a_sample_that_parts_do_not_change(client, folder):
    settings = {"tune": 3, "max_search_bags": 40, "scale": WIDE}
    models = [
        cluster.fit(learner(**settings), open_table(folder, name, rows), LABELS, client=client)
        for name, rows in (("sorted", 200), ("sorted", 10**6), ("shuffled", 10**6))
    ]
    assert len({str(model.best_params_) for model in models}) == 1
    assert len({model.features_.frequencies_.tobytes() for model in models}) == 1
    one, *others = (model.predict(BAGS) for model in models)
    assert max(np.abs(other - one).max() for other in others) < 1e-8 * SPREAD.std()


def test_classes(client, folder):
    y = np.where(SPREAD > 1.2, "wide", "narrow")
    made = de.DistributionClassifier("deviation", n_components=60, tune=None, random_state=0)
    one = by_one_machine(clone(made), y)
    model = cluster.fit(made, open_table(folder), dict(enumerate(y)), client=client)
    assert not hasattr(made, "classes_")
    assert model.classes_.tolist() == ["narrow", "wide"]
    np.testing.assert_allclose(model.predict_proba(BAGS), one.predict_proba(BAGS), atol=1e-7)


def test_ensembles(client, folder, monkeypatch):
    monkeypatch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)  # folds are drawn once
    monkeypatch.setattr("distembed.models.forest.FOLD_TREES", 8)
    monkeypatch.setattr("distembed.models.kernel_head.KernelHead.most_sums", 100)
    monkeypatch.setattr(ForestHead.__init__, "__defaults__", ("forest", None, 8, None))
    some, few = dict(list(LABELS.items())[:12]), de.DistributionRegressor(random_state=0)
    one = by_one_machine(clone(few), SPREAD[:12], BAGS[:12])
    model = cluster.fit(few, open_table(folder, rows=1300), some, missing="drop", client=client)
    assert np.abs(model.predict(BAGS) - one.predict(BAGS)).max() < 1e-4 * SPREAD.std()  # features are float32


def test_weights_of_points_and_labels_from_files(client, folder, tmp_path):
    write_table({"id": np.arange(N_BAGS + 1), "s": np.append(SPREAD, 9.0)}, tmp_path / "labels.csv")
    table = open_table(folder, weights="w")
    with pytest.warns(UserWarning, match="1 label has no bag: 90"):
        model = cluster.fit(learner(), table, tmp_path / "labels.csv", label="s", client=client)
    weighted = de.Bags.from_frame(FRAME, bag="id", columns=["x", "y"], weights="w")
    one = by_one_machine(learner(), bags=weighted)
    assert np.abs(model.predict(weighted) - one.predict(weighted)).max() < 1e-8 * SPREAD.std()


def test_dask_frames(client):
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(FRAME[["id", "x", "y"]], npartitions=7, sort=False)
    labels = pd.DataFrame({"id": np.arange(N_BAGS), "s": SPREAD})
    model = cluster.fit(learner(), cluster.open(frame, bag="id"), labels, label="s", client=client)
    assert np.abs(model.predict(BAGS) - by_one_machine(learner()).predict(BAGS)).max() < 1e-8 * SPREAD.std()
    empty = dask.from_pandas(FRAME[["id", "x", "y"]], npartitions=1, sort=False).query("id < 0")
    both = cluster.open(dask.concat([empty, frame]), bag="id")
    assert bits(cluster.fit(learner(), both, LABELS, client=client))
    with pytest.raises(TableError, match="no rows, and there must be at least one"):
        cluster.fit(learner(), cluster.open(empty, bag="id"), LABELS, client=client)
    with pytest.raises(TableError, match="the Dask frame has no column 'bag'; it has 'id', 'x', 'y'"):
        cluster.open(frame, bag="bag")


def test_bags_without_labels_are_refused_or_left_out(client, folder):
    some = {key: value for key, value in LABELS.items() if key >= 5}
    with pytest.raises(TableError, match=r"5 bags have no label: 0, 1, 2, 3, 4; add them, or pass missing='drop'"):
        cluster.fit(learner(), open_table(folder), some, client=client)
    model = cluster.fit(learner(), open_table(folder), some, missing="drop", client=client)
    one = by_one_machine(learner(), SPREAD[5:], BAGS[5:])
    assert np.abs(model.predict(BAGS) - one.predict(BAGS)).max() < 1e-8 * SPREAD.std()


# What is written


def test_predictions_and_vectors(client, folder, tmp_path):
    model = by_one_machine(learner())
    table = open_table(folder)
    files = cluster.predict(model, table, tmp_path / "p", client=client)
    found = parquet.read_table(tmp_path / "p").to_pandas().sort_values("id")
    assert [os.path.basename(file) for file in files] == [f"part-{i:05d}.parquet" for i in range(len(table.parts))]
    assert found["id"].tolist() == list(range(N_BAGS))
    np.testing.assert_allclose(found["prediction"], model.predict(BAGS), rtol=1e-9)
    with pytest.raises(TableError, match=r"holds parts already; name another folder, or empty it"):
        cluster.predict(model, table, tmp_path / "p", client=client)
    cluster.embed(model, table, tmp_path / "e", client=client)
    rows = parquet.read_table(tmp_path / "e").to_pandas().sort_values("id")
    np.testing.assert_allclose(rows.drop(columns="id"), model.transform_features(BAGS), atol=1e-12)
    pipeline = make_pipeline(model.scaler_, model.embedding_)
    cluster.embed(pipeline, table, tmp_path / "f", client=client)
    rows = parquet.read_table(tmp_path / "f").to_pandas().sort_values("id")
    np.testing.assert_allclose(rows.drop(columns="id"), pipeline.transform(BAGS), atol=1e-12)
    assert rows.columns.tolist()[1:] == pipeline.get_feature_names_out().tolist()


def test_intervals(client, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "are_smaller", lambda *args: True)
    model = by_one_machine(learner(scale=WIDE), SPREAD[:60], BAGS[:60])
    intervals = de.ConformalRegressor(model, coverage=0.8, prefit=True).calibrate(BAGS[60:], SPREAD[60:])
    cluster.predict(intervals, open_table(folder), tmp_path / "p", client=client)
    found = parquet.read_table(tmp_path / "p").to_pandas().sort_values("id")
    np.testing.assert_allclose(found[["low", "high"]], intervals.predict_interval(BAGS), rtol=1e-9)


# What goes wrong


def test_a_client_that_was_stopped_goes_on(client, folder, tmp_path):
    class Stop(Exception):
        pass

    class Impatient:
        """Stops the fit when 40 bags were learned from, after a moment for the groups that are ready to be summed."""

        left = np.inf

        def begin(self, stage, total):
            self.left = 40 if (stage, total) == ("learning", N_BAGS) else np.inf

        def advance(self, more):
            self.left -= more
            if self.left < 0:
                time.sleep(0.5)
                raise Stop

    table, arguments = open_table(folder, rows=97), {"client": client, "checkpoint": tmp_path / "kept"}
    wanted = cluster.fit(learner(), table, LABELS, client=client)
    with pytest.raises(Stop):
        cluster.fit(learner(), table, LABELS, progress=Impatient(), **arguments)
    kept = {path.name.split("-", 2)[2].split("-")[0] for path in (tmp_path / "kept").iterdir()}
    assert kept == {"settings.distembed", "sums"}
    others = open_table(folder, rows=194)
    assert bits(cluster.fit(learner(), others, LABELS, **arguments)) == bits(
        cluster.fit(learner(), others, LABELS, client=client)
    )
    assert bits(cluster.fit(learner(), table, LABELS, **arguments)) == bits(wanted)
    assert not list((tmp_path / "kept").iterdir())


def test_a_checkpoint_belongs_to_what_is_in_the_table(tmp_path):
    """Neither a time nor a place counts, and a change that leaves both does."""

    def digest(name="t.csv"):
        table = cluster.open(tmp_path / name, bag="id", columns=["x", "y"])
        survey = Survey(np.arange(2), np.ones(2), (np.arange(2),), (np.ones(2),))
        return Checkpoints(tmp_path / "kept", learner(), table, survey, [], np.ones(2, bool), None)._digest

    FRAME.to_csv(tmp_path / "t.csv", index=False)
    first, facts = digest(), (tmp_path / "t.csv").stat()
    os.utime(tmp_path / "t.csv", ns=(1, 1))
    (tmp_path / "copy.csv").write_bytes((tmp_path / "t.csv").read_bytes())
    assert digest() == digest("copy.csv") == first
    text = (tmp_path / "t.csv").read_bytes()
    place = text.rindex(b".") + 3
    (tmp_path / "t.csv").write_bytes(text[:place] + (b"1" if text[place:][:1] != b"1" else b"2") + text[place + 1 :])
    os.utime(tmp_path / "t.csv", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (tmp_path / "t.csv").stat().st_size == facts.st_size
    assert digest() != first


def test_a_part_that_can_not_be_read_is_named(client, folder, tmp_path):
    for i in range(3):
        parquet.write_table(
            pa.Table.from_pandas(FRAME[FRAME["id"] % 3 == i], preserve_index=False), tmp_path / f"{i}.parquet"
        )
    table = cluster.open(tmp_path / "*.parquet", bag="id", columns=["x", "y"], partition_rows=10)
    content = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(content[:200] + bytes(len(content) - 400) + content[-200:])
    with pytest.raises(TableError, match=r"partition 1 \('.*1\.parquet', row groups 0 to 0\): "):
        cluster.fit(learner(), table, LABELS, client=client)


def test_a_part_that_kills_workers_is_named(client, folder):
    graph = Graph(client, open_table(folder).describe)
    killed = distributed.scheduler.KilledWorker("distembed-ab12-sums-2-77", None, 3)
    assert "partition 2 ('" in str(graph.reword(killed))
    assert "sorted.parquet', row groups 4 to 5): workers died again and again" in str(graph.reword(killed))


def test_bags_that_are_lost_or_changed_are_found(client, folder, monkeypatch):
    table = open_table(folder)
    survey = table.survey(client)
    more = survey._replace(sizes=survey.sizes + 1)
    monkeypatch.setattr(ClusterTable, "survey", lambda *args: more)
    with pytest.raises(TableError, match="has changed since it was looked at"):
        cluster.fit(learner(), table, LABELS, client=client)
    monkeypatch.setattr(ClusterTable, "take", lambda *args: BAGS)
    with pytest.raises(TableError, match=r"90 bags of .* points were learned from, and 90 of .* were there before"):
        cluster.fit(learner(), table, LABELS, client=client)


def test_settings_that_can_not_run_are_refused_before_anything_is_read(folder):
    table = replace(open_table(folder), parts=[])
    with pytest.raises(ValueError, match=r"model='svm' needs all bags at once; use model='ridge'"):
        cluster.fit(de.DistributionClassifier("js", model="svm"), table, LABELS, client=object())
    with pytest.raises(TypeError, match="must be a DistributionRegressor or DistributionClassifier, got UnitCube"):
        cluster.fit(de.UnitCube(), table, LABELS)


def test_errors_of_arguments(folder, client):
    with pytest.raises(TypeError, match=r"must be a distributed\.Client, got 3"):
        cluster.fit(learner(), open_table(folder), LABELS, client=3)
    with pytest.raises(TableError, match="no file matches"):
        cluster.open(folder / "none*.parquet", bag="id")
    with pytest.raises(TableError, match="bag names column 'idd', which the table lacks; did you mean 'id'"):
        cluster.open(folder / "sorted.parquet", bag="idd")
    with pytest.raises(ValueError, match="must name the column of labels of a file"):
        cluster.fit(learner(), open_table(folder), "labels.csv", client=client)
    with pytest.raises(TableError, match="the frame has no column 'z'"):
        cluster.fit(learner(), open_table(folder), pd.DataFrame({"id": [1]}), label="z", client=client)
    with pytest.warns(UserWarning, match="held-out bags are not predicted clearly better than by a constant"):
        hasty = by_one_machine(de.DistributionRegressor(random_state=0, time_limit=1e-6))
    with pytest.raises(ValueError, match="an ensemble has no single vector"):
        cluster.embed(hasty, None, "x")


def test_a_table_of_other_columns_is_refused_before_it_is_read(folder):
    with pytest.raises(ValueError, match=r"must have the columns \['x', 'y'\], as in fit, got \['x', 'y', 'w'\]; open"):
        cluster.predict(
            by_one_machine(learner()), cluster.open(folder / "sorted.parquet", bag="id"), "x", client=object()
        )


def test_without_a_client_the_error_says_how_to_get_one(folder, monkeypatch):
    def nobody():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", nobody)
    with pytest.raises(ValueError, match=r"needs a client, and there is none; .*LocalCluster.*--workers N"):
        cluster.fit(learner(), open_table(folder), LABELS)


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("distembed", "0.0.9", "has distembed 0.0.9, and the client has {own}; install the same on all workers"),
        ("distembed", None, "has no distembed, and the client has {own}"),
        ("numpy", "1.0.1", "has numpy 1.0.1, and the client has {own}"),
        ("scikit-learn", "0.1.2", "has scikit-learn 0.1.2, and"),
        ("numpy", "{minor}.99", None),
    ],
)
def test_workers_of_other_versions_are_refused_before_they_work(client, folder, monkeypatch, name, version, said):
    found = client.get_versions(packages=["distembed", "numpy", "scipy", "scikit-learn"])
    own = found["client"]["packages"][name]
    (address,) = found["workers"]
    found["workers"][address]["packages"][name] = version and version.format(minor=own.rpartition(".")[0])
    monkeypatch.setattr(client, "get_versions", lambda packages: found)
    if said is None:
        assert client_for(client, "here") is client
        return
    monkeypatch.setattr(Graph, "compute", None)
    for work in (
        lambda: cluster.fit(learner(), open_table(folder), LABELS, client=client),
        lambda: cluster.predict(by_one_machine(learner()), open_table(folder), folder / "never", client=client),
    ):
        with pytest.raises(ValueError, match=re.escape(f": worker {address} {said.format(own=own)}")):
            work()
    assert not (folder / "never").exists()


def test_errors_of_tasks_name_their_part(client):
    graph = Graph(client, lambda part: f"part {part}")
    with pytest.raises(TableError, match=r"partition 3 \(part 3\): invalid literal"):
        graph.compute([graph.add("test", 3, int, "x")])
    assert graph.compute([lazily(int, "7")]) == [7]


# The command line


@pytest.fixture
def labels(tmp_path):
    write_table({"id": np.arange(N_BAGS), "s": SPREAD}, tmp_path / "labels.csv")
    return tmp_path / "labels.csv"


def test_commands_by_a_scheduler(client, folder, labels, tmp_path):
    points, at = folder / "sorted.parquet", ("--scheduler", client.scheduler.address)
    how = ("--bag", "id", "--columns", "x,y", "--labels", labels, "--label", "s", "--embedding", "js", "--tune", "none")
    how += ("--components", "100", "--json")
    one = json.loads(run("fit", points, *how, "--out-of-core", "-o", tmp_path / "one.distembed").stdout)
    kept = ("--checkpoint", tmp_path / "kept")
    answer = run("fit", points, *how, *at, *kept, "-o", tmp_path / "two.distembed")
    two = json.loads(answer.stdout)
    assert "1 worker; dashboard: http" in answer.stderr
    assert two["scores"]["rmse"]["value"] == pytest.approx(one["scores"]["rmse"]["value"], rel=1e-9)
    run("predict", tmp_path / "two.distembed", points, *at, "-o", tmp_path / "p")
    run("predict", tmp_path / "one.distembed", points, "-o", tmp_path / "p.parquet")
    found, wanted = (parquet.read_table(tmp_path / name).to_pandas() for name in ("p", "p.parquet"))
    np.testing.assert_allclose(found.sort_values("id")["prediction"], wanted["prediction"], atol=1e-8)
    features = ("--embedding", "mean", "--save-model", tmp_path / "mean.distembed", "-o", tmp_path / "e")
    run("embed", points, "--bag", "id", "--columns", "x,y", *features, *at)
    run("embed", points, "--model", tmp_path / "mean.distembed", *at, "-o", tmp_path / "f")
    rows = [parquet.read_table(tmp_path / name).to_pandas() for name in ("e", "f")]
    assert rows[0].equals(rows[1])
    np.testing.assert_allclose(rows[0][["mean_x", "mean_y"]], [bag.mean(axis=0) for bag in BAGS], atol=1e-12)


def test_intervals_by_a_scheduler(client, folder, labels, tmp_path):
    how = f"--bag id --columns x,y --labels {labels} --label s --embedding mean --tune none --components 60".split()
    at = ("--scheduler", client.scheduler.address, "-o", tmp_path / "m.distembed")
    run("fit", folder / "sorted.parquet", *how, "--coverage", "0.8", *at)
    assert de.load(tmp_path / "m.distembed").coverage == 0.8


def test_commands_refuse_what_a_cluster_can_not_do(folder, labels, tmp_path):
    points, fit = folder / "sorted.parquet", ("--bag", "id", "--labels", labels, "--label", "s", "-o", tmp_path / "m")
    cases = {
        ("--workers", "2", "--scheduler", "tcp://a:1"): "--workers starts a cluster and --scheduler names one",
        ("--workers", "2", "--nan", "drop"): "--nan is not for --workers; leave one of them out",
        ("--workers", "2", "--out-of-core"): "is not for --workers; leave one of them out",
        ("--checkpoint", tmp_path): "--checkpoint applies to --workers and --scheduler",
    }
    for more, text in cases.items():
        assert text in refused("fit", points, *fit, *more)
    model = tmp_path / "e.distembed"
    de.save(de.MomentEmbedding("mean").fit(BAGS), model)
    assert "-o must be a folder with --workers" in refused("embed", points, "--bag", "id", "--workers", "2")


def test_the_soak_at_small_size(client, tmp_path, monkeypatch):
    """So it can't rot."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import soak_cluster as soak

    soak.shuffle(soak.write(tmp_path, 120))
    one, two = (soak.digest(soak.fit(tmp_path, 20, client, name)) for name in ("sorted", "sorted"))
    assert one == two
    assert soak.peak(os.getpid()) > 0 or not Path("/proc").exists()
    part = soak.Part("bits", "the same bits")
    part.check(False, "they differ")
    soak.report([part], soak.SMALL, tmp_path / "report.md")
    assert "## bits: **1 findings**" in (tmp_path / "report.md").read_text()
