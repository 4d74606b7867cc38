"""Bags in order: row groups with known ids give the batches of a sort, without one; and runs of a sort are merged."""

import re
from contextlib import closing

import numpy as np
import pytest

from distembed.tables import BagTable, TableError, bag_table, ordering
from distembed.tables.formats import Reading
from distembed.tables.ordering import SortedRuns, SortLimits, distinct_ids, merge_groups, row_groups
from distembed.tables.plan import make_plan
from distembed.tables.points import stream

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def small_tables_are_gathered(monkeypatch):
    monkeypatch.setattr(ordering, "FEW_ROWS_TO_SORT", 10)


def write(path, ids, values, sizes, **options):
    """Write a Parquet file with row groups of these sizes."""
    table = pa.table([ids, values, np.arange(len(ids)) % 3 + 1.0], names=["bag", "x", "w"])
    with parquet.ParquetWriter(str(path), table.schema, **options) as writer:
        for start, stop in zip(np.cumsum([0, *sizes[:-1]]), np.cumsum(sizes), strict=True):
            writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.weights, other.weights)
        np.testing.assert_array_equal(one.offsets, other.offsets)


@pytest.mark.parametrize("kind", ["integer", "text", "unsigned", "far"])
@pytest.mark.parametrize("order", ["sorted", "near", "backwards", "shuffled"])
def test_the_batches_of_a_sort(tmp_path, kind, order):
    rng = np.random.default_rng([len(kind), len(order)])
    numbers = np.sort(rng.integers(0, 40, size=300))
    places = {
        "sorted": np.arange(300), "backwards": np.arange(300)[::-1], "shuffled": rng.permutation(300),
        "near": np.argsort(np.arange(300) + rng.uniform(0, 30, size=300)),
    }[order]  # fmt: skip
    numbers = numbers[places]
    ids = {
        "integer": numbers - 20, "text": np.array([f"p{number}é" for number in numbers]),
        "unsigned": numbers.astype(np.uint64) + np.uint64(2**63), "far": numbers * 10**16 - 2 * 10**17,
    }[kind]  # fmt: skip
    for name in ("with footers", "without"):
        (tmp_path / name).mkdir()
    for part, rows in enumerate(np.array_split(np.arange(300), 3)):  # files in another order than their ids
        values, sizes, name = rng.normal(size=len(rows)), rng.multinomial(100, [0.2] * 5), f"{2 - part}.parquet"
        write(tmp_path / "with footers" / name, ids[rows], values, sizes)
        write(tmp_path / "without" / name, ids[rows], values, sizes, write_statistics=False)
    table, by_sort = (BagTable(tmp_path / name, bag="bag", weights="w") for name in ("with footers", "without"))
    assert row_groups(table._plan)
    assert row_groups(by_sort._plan) is None
    found, wanted = (list(each.batches(max_points=40)) for each in (table, by_sort))
    assert_same(found, wanted)
    assert len(found) > 5
    assert table.ids().tolist() == sorted(set(ids.tolist()))
    assert_same(list(table.batches(max_points=40, start=3)), wanted[3:])


def test_no_row_is_sorted_outside_and_few_are_held(tmp_path, monkeypatch):
    ids = np.repeat(np.arange(50), 20)
    write(tmp_path / "t.parquet", ids, np.arange(1000.0), [100] * 10)
    monkeypatch.setattr(ordering, "SortedRuns", None)  # not called
    monkeypatch.setattr(bag_table, "is_in_order", None)  # nor are ids looked at before
    table = BagTable(tmp_path / "t.parquet", bag="bag", weights="w", memory_limit="20KB")  # for 100 rows, not 1,000
    assert sum(batch.n_points for batch in table.batches(max_points=100)) == 1000


def test_where_too_many_rows_would_wait_it_is_left_to_the_sort(tmp_path):
    rng = np.random.default_rng(0)
    write(tmp_path / "t.parquet", rng.permutation(np.repeat(np.arange(50), 20)), np.arange(1000.0), [100] * 10)
    plan = BagTable(tmp_path / "t.parquet", bag="bag", weights="w")._plan
    for limit, is_gathered in (("64MB", True), ("20KB", False)):
        found = ordering.gather(plan, SortLimits(limit), ids_only=False, since=None)
        assert (found is not None) == is_gathered


def test_what_footers_do_not_tell(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"bag": np.repeat(np.arange(10), 10), "x": np.arange(100.0)})
    parquet.write_table(table, path, write_statistics=False)
    assert row_groups(BagTable(path, bag="bag")._plan) is None
    parquet.write_table(table.set_column(0, "bag", table["bag"].cast(pa.float64())), path)
    assert row_groups(BagTable(path, bag="bag")._plan) is None
    parquet.write_table(table, path)
    assert [(group.low, group.high, group.n_rows) for group in row_groups(BagTable(path, bag="bag")._plan)] == [
        (0, 9, 100)
    ]
    assert row_groups(BagTable(path, bag="bag", bag_type="text")._plan) is None  # "10" comes before "9"


def test_a_footer_that_lies_is_an_error(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, np.repeat(np.arange(10), 10), np.arange(100.0), [50, 50])
    plan = BagTable(path, bag="bag", weights="w")._plan
    first, second = row_groups(plan)
    lies = [first._replace(high=3), second]
    message = "row group 0 holds ids from 0 to 4, and the footer says 0 to 3; write the file again"
    with pytest.raises(TableError, match=re.escape(message)):
        list(merge_groups(lies, lambda group: stream(plan, group=group)))
    for groups in (lies, [first, second._replace(high=7)]):
        assert distinct_ids(plan, lambda n_rows: None, groups).to_pylist() == list(range(10))


def test_rows_that_wait_are_not_looked_at_again_and_again(tmp_path, monkeypatch):
    """One row group spans all ids: the rows that are filtered grow in proportion to the table."""
    seen, own = [], ordering.compute.less
    monkeypatch.setattr(ordering.compute, "less", lambda rows, limit: seen.append(len(rows)) or own(rows, limit))
    counts = []
    for n in (20, 40):
        ids = np.r_[np.arange(10 * n), np.repeat(np.arange(10 * n), 1)]
        write(tmp_path / "t.parquet", ids, np.arange(len(ids)), [10 * n, *[10] * n])
        del seen[:]
        assert (
            sum(batch.n_bags for batch in BagTable(tmp_path / "t.parquet", bag="bag", weights="w").batches()) == 10 * n
        )
        counts.append(sum(seen))
    assert counts[1] < 2.6 * counts[0]


def test_a_table_is_sorted_once_for_several_passes(tmp_path, monkeypatch):
    """A pass may be broken off, and temporary files go."""
    rng, scratch = np.random.default_rng(0), tmp_path / "scratch"
    scratch.mkdir()
    ids = rng.permutation(np.repeat(np.arange(3000), 100))
    parquet.write_table(pa.table({"bag": ids, "x": rng.normal(size=len(ids))}), tmp_path / "t", write_statistics=False)
    (tmp_path / "t").rename(tmp_path / "t.parquet")
    table = BagTable(tmp_path / "t.parquet", bag="bag", temp_directory=scratch, memory_limit="20MB")
    seen, own = [], ordering._runs
    monkeypatch.setattr(ordering, "_runs", lambda *args: seen.append(1) or own(*args))
    wanted = [batch.points[:, 0] for batch in table.batches(max_points=50_000)]
    assert len(seen) == 1
    with table.sorted_once():
        first = table.batches(max_points=50_000)
        np.testing.assert_array_equal(next(first).points[:, 0], wanted[0])
        first.close()
        for _ in range(2):
            for found, want in zip(table.batches(max_points=50_000), wanted, strict=True):
                np.testing.assert_array_equal(found.points[:, 0], want)
        assert len(seen) == 2
        assert list(scratch.iterdir())
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("kind", ["integer", "text", "number"])
@pytest.mark.parametrize("most", [3, 64])
def test_many_runs_are_made_one(tmp_path, kind, most):
    """Rows of a bag stay in their order, whatever the number of runs and of merges."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 100, size=5000) * 1000
    words = {"integer": ids, "text": np.array([f"{number}é" for number in ids]), "number": ids / 7}[kind]
    parquet.write_table(
        pa.table({"bag": words, "x": np.arange(5000.0)}), tmp_path / "t.parquet", write_statistics=False
    )
    plan = make_plan(tmp_path / "t.parquet", "bag", None, None, Reading(rows=100), "auto")
    limits = SortLimits("40KB", most_runs=most, fewest_rows=10)
    (tmp_path / "runs").mkdir()
    with closing(SortedRuns(plan, limits, stream(plan), str(tmp_path / "runs"))) as runs:
        found = np.concatenate([batch.column(1).to_numpy() for batch in runs.batches()])
        assert (len(list((tmp_path / "runs").iterdir())) <= 3) == (most == 3)
    np.testing.assert_array_equal(found, np.argsort(words, kind="stable"))
    assert (runs.n_merges > 5) == (most == 3)
