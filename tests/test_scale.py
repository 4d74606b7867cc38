"""The simulation of clusters, against closed forms; the report that is made of it, at small size."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import simulate_cluster

    return simulate_cluster


@pytest.mark.parametrize(("n", "workers"), [(10, 4), (12, 4), (1, 5), (100, 7)])
def test_equal_tasks_take_rounds(tool, n, workers):
    found = tool.simulate(tool.Work(n, 2.0), tool.Cluster(workers))
    assert found == (2.0 * -(-n // workers), 2.0 * n, n, 0, 0, 0.0)


def test_a_scheduler_that_is_slower_than_workers_decides(tool):
    found = tool.simulate(tool.Work(1000, 1.0, scheduler=0.1), tool.Cluster(50))
    assert found.seconds == pytest.approx(1000 * 0.1 + 1.0)
    found = tool.simulate(tool.Work(1000, 1.0, scheduler=0.001), tool.Cluster(50))
    assert found.seconds == pytest.approx(1000 / 50, rel=0.06)


def test_one_worker_joins_all_sums_and_moves_none(tool):
    found = tool.simulate(tool.Work(300, 1.0, join=0.5, sums=1e6), tool.Cluster(1))
    assert found.seconds == pytest.approx(300 + 299 * 0.5)
    assert (found.tasks, found.moved) == (599, 0)


def test_many_workers_wait_for_the_joins_of_each_level(tool):
    """Seven of eight parts, 31 of 32 groups, and all that the last level has; each moves a sum, or two."""
    found = tool.simulate(tool.Work(8 * 32 * 3, 1.0, join=0.5), tool.Cluster(8 * 32 * 3))
    assert found.seconds == pytest.approx(1 + (7 + 31 + 2) * 0.5)
    moving = tool.simulate(tool.Work(8, 1.0, join=0.5, sums=1e9), tool.Cluster(8, bandwidth=1e10))
    assert 1 + 7 * 0.6 - 1e-9 <= moving.seconds <= 1 + 7 * 0.7 + 1e-9
    assert 7e9 <= moving.moved <= 14e9


def test_a_task_that_is_lost_is_begun_again(tool):
    """Of exponential failures of rate f, each followed by r seconds, a task of t takes (1/f + r)(exp(f t) - 1)."""
    t, r, per_hour = 100.0, 20.0, 30.0
    cluster = tool.Cluster(1, failures=per_hour, restart=r)
    took = np.array([tool.simulate(tool.Work(1, t), cluster, seed).seconds for seed in range(2000)])
    rate = per_hour / 3600
    wanted = (1 / rate + r) * (np.exp(rate * t) - 1)
    assert abs(took.mean() - wanted) < 4 * took.std() / np.sqrt(len(took))


def test_stragglers_make_the_work_longer_by_their_share(tool):
    found = tool.simulate(tool.Work(20_000, 1.0), tool.Cluster(10, slow=0.1, factor=5.0))
    assert found.busy == pytest.approx(20_000 * (1 + 0.1 * 4), rel=0.02)


def test_what_is_lost_is_made_again_and_nothing_is_left_out(tool):
    """Tasks are those of a calm day, and as many more as were lost."""
    work, n = tool.Work(500, 10.0, join=1.0, sums=1e6), 500
    calm, rough = (tool.Run(work, tool.Cluster(20, failures=rate), 1) for rate in (0.0, 20.0))
    one, two = calm.outcome(), rough.outcome()
    assert (one.lost, one.again, one.tasks) == (0, 0, 2 * n - 1)
    assert two.lost > 20
    assert two.again > 20
    assert two.seconds > one.seconds
    assert two.tasks >= one.tasks + two.again
    assert rough.root.is_done()
    assert all(not leaf.wanted and leaf.holder is None for leaf in rough.leaves)
    assert sum(map(len, rough.held)) == 1  # the root


def test_the_report(tool, tmp_path):
    pytest.importorskip("matplotlib")
    import scale_report

    with (tmp_path / "scale_costs.csv").open("w", newline="") as file:
        rows = [
            (width, name, 1e6 if name == "move" else 1e-4)
            for width in (20, 50)
            for name in scale_report.COSTS
            if name != "fixed"
        ]
        csv.writer(file).writerows([("width", "name", "value"), *rows])
    with (tmp_path / "scale_points.csv").open("w", newline="") as file:
        rows = [(n, size, 4000, 20, 3.0 / n, 3.0) for n in (1, 2) for size in (10_000, 50_000, 100_000)]
        csv.writer(file).writerows([("workers", "rows", "bags", "width", "seconds", "processor"), *rows])
    scale_report.write_report(tmp_path, 10**6, (10, 100), (2_000_000, 8_000_000))
    assert (tmp_path / "scale.png").stat().st_size > 10_000
    text = (tmp_path / "scale.md").read_text(encoding="utf-8")
    assert "| 2,000,000 | 100 | 100 |" in text
    with (tmp_path / "scale.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == 2 * 3 * 2 + 2 * 2
    assert {row["limit"] for row in found} <= {"client", "scheduler", "work"}
    calm = [row for row in found if row["weather"] == "nothing goes wrong"]
    assert all(float(row["seconds"]) > float(row["work"]) + float(row["client"]) for row in calm)
