"""Sums of workers: right, left as they are, and few and small enough for the memory of a worker."""

from __future__ import annotations

import tracemalloc
import weakref
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import distembed as de
from distembed import cluster
from distembed.cluster import fitting
from distembed.cluster.engine import Graph
from distembed.cluster.sums import PackedSums, Total
from distembed.models.normal_equations import NormalEquations
from distembed.tables import write_table

D = 300
MATRIX = 8 * D * D  # bytes of G


def equations(seed=0, n=40, shift=0.0):
    rng = np.random.default_rng(seed)
    return NormalEquations(D, 2).add(rng.normal(size=(n, D)) + shift, rng.normal(size=(n, 2)), rng.uniform(1, 2, n))


@pytest.fixture
def allocated():
    """See that no more bytes are taken at any moment than so many, beyond those that are held already."""

    @contextmanager
    def limit(most):
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield
        assert tracemalloc.get_traced_memory()[1] - held < most

    tracemalloc.start()
    yield limit
    tracemalloc.stop()


def test_packed_sums_join_to_those_of_all_rows():
    rng = np.random.default_rng(1)
    Z, y, w = rng.normal(size=(90, D)) + 1e3, rng.normal(size=(90, 2)), rng.uniform(1, 2, 90)
    wanted = NormalEquations(D, 2).add(Z, y, w)
    parts = [PackedSums.of(NormalEquations(D, 2).add(Z[i], y[i], w[i])) for i in np.array_split(np.arange(90), 3)]
    found = parts[0].join(parts[1]).join(parts[2]).equations()
    for name in ("z_mean", "y_mean", "B", "yy", "weight", "n_rows"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(np.tril(found.G), np.tril(wanted.G), rtol=1e-10, atol=1e-9)


def test_joining_leaves_both_as_they_are():
    """A task may be run again, with the same sums."""
    one, two = PackedSums.of(equations()), PackedSums.of(equations(1, shift=2.0))
    before = [array.copy() for each in (one, two) for array in (each.G, each.B, each.z_mean, each.yy)]
    first = one.join(two)
    second = one.join(two)
    after = [array for each in (one, two) for array in (each.G, each.B, each.z_mean, each.yy)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert first.G.tobytes() == second.G.tobytes()


def test_sums_take_half_a_matrix_and_joins_no_more_than_their_result(allocated):
    whole = equations()
    place = whole.G.ctypes.data
    with allocated(0.6 * MATRIX):  # numpy 2.5 counts what shrinks twice, though it stays where it is
        one = PackedSums.of(whole)
    assert one.G.ctypes.data == place
    assert one.G.nbytes == MATRIX * (D + 1) / (2 * D)
    two = PackedSums.of(equations(1))
    with allocated(0.6 * MATRIX):
        one.join(two)


def test_sums_of_nothing_join():
    one = Total((PackedSums.of(equations()),), 40, 400, pieces="cut")
    for joined in (Total().join(one), one.join(Total())):
        assert joined.sums is one.sums
        assert (joined.n_bags, joined.n_points, joined.pieces) == (40, 400, None)
    assert Total().join(Total()) == Total()


@pytest.fixture
def model_and_bags():
    rng = np.random.default_rng(0)
    bags = de.as_bags(rng.normal(size=(4 * fitting.BAGS_AT_ONCE, 3, 1)).astype(np.float32))
    y = bags.points.reshape(-1, 3).std(axis=1)
    learner = de.DistributionRegressor("deviation", n_components=D, tune=None, random_state=0)
    return fitting.forget_bags(learner.fit_batches(lambda: iter([(bags[:100], y[:100])]))), bags, y


def test_a_part_takes_one_matrix_and_some_features_however_many_bags_it_has(model_and_bags, allocated):
    model, bags, y = model_and_bags
    features = 4 * D * fitting.BAGS_AT_ONCE
    fitting.learn_sums(fitting.deepcopy(model), bags, fitting.Known(y), 0)  # what is loaded for it once is there
    for n in (fitting.BAGS_AT_ONCE, len(bags)):
        with allocated(MATRIX + 3 * features):
            total = fitting.learn_sums(fitting.deepcopy(model), bags[:n], fitting.Known(y[:n]), n)
        assert total.sums[0].n_rows == n


def test_few_sums_wait_for_others(tmp_path, monkeypatch):
    """In the order in which Dask asks for tasks, one worker holds one for each level of the tree, and two that join."""
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    monkeypatch.setattr(fitting, "FAN_IN", 3)
    monkeypatch.setattr(fitting, "_WIDE", 4)
    alive, most, plain = set(), 0, PackedSums.__init__

    def counted(self, *args, **more):
        nonlocal most
        plain(self, *args, **more)
        alive.add(id(self))
        weakref.finalize(self, alive.discard, id(self))
        most = max(most, len(alive))

    def compute(graph, wanted, stages=None):
        return list(dask.compute(*wanted, scheduler="sync", optimize_graph=False))

    monkeypatch.setattr(PackedSums, "__init__", counted)
    monkeypatch.setattr(Graph, "compute", compute)
    rng, bag = np.random.default_rng(0), np.repeat(np.arange(200), 10)
    for i in range(40):
        own = bag // 5 == i
        write_table({"id": bag[own], "x": rng.normal(size=own.sum())}, tmp_path / f"{i:02d}.parquet")
    learner = de.DistributionRegressor("deviation", n_components=20, tune=None, random_state=0)
    table = cluster.open(tmp_path / "*.parquet", bag="id", partition_rows=50)
    alone = {"client": {"packages": {}}, "workers": {}}
    client = SimpleNamespace(scheduler_info=None, get_versions=lambda packages: alone)
    cluster.fit(learner, table, dict(enumerate(rng.normal(size=200))), client=client)
    n_levels = 4  # 40 parts, 14 groups, 4 of these, all
    assert len(table.parts) == 40
    assert 3 <= most <= n_levels + 2
