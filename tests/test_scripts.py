"""Benchmarks and experiments run at small size, so that they cannot rot."""

import csv
import importlib
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import distembed as de
import exact

ROOT = Path(__file__).parent.parent


@pytest.fixture
def benchmark(monkeypatch):
    """The modules of benchmarks/ by name; they import each other like scripts, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = set(sys.modules)
    monkeypatch.setattr(importlib.import_module("timing"), "SETTLE", 0)  # seconds that only a measurement needs
    yield importlib.import_module
    for path in (ROOT / "benchmarks").glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)


def test_the_benchmark_runs_and_checks_its_answers(benchmark, tmp_path, capsys):
    results = benchmark("run").run(benchmark("timing").TINY, out=tmp_path)
    printed = capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"bench.md", "bench.csv", "bench_growth.csv", "bench.png"}
    assert (tmp_path / "bench.md").read_text() in printed
    with open(tmp_path / "bench.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(section) for name, section in results.items() if name != "growth")
    peers = [row for row in rows if row["section"] == "peers"]
    assert all(
        float(row["us_a_bag"] or row["us_a_pair"]) > 0 for row in peers if "not installed" not in row["settings"]
    )
    assert {row["name"] for row in rows if row["section"] == "stages"} >= {
        "binning", "smoothing", "lambda functions", "projection", "random features", "A features", "fit",
    }  # fmt: skip
    assert "as a share of sgemm" in printed
    with open(tmp_path / "bench_growth.csv", newline="") as file:
        assert {row["quantity"] for row in csv.DictReader(file)} >= {"n_bags", "n_points", "n_dims", "n_components"}


def test_rows_of_the_table_benchmark_are_kept_from_run_to_run(benchmark, tmp_path):
    table = benchmark("table")
    path, labels = table.make(tmp_path, 30, "near", 1)
    assert (len(de.tables.read_bags(path, bag="bag")), len(labels.read_text().splitlines())) == (30, 31)
    stages = {"embedding": 1.0, "random features": 1.0, "linear model": 2.0}
    row = {"order": "near", "dims": 2, "bags": 1000, "components": 10, "read": 1.0, "sort": 3.0, "gather": 2.0,
           "features": 4.0, "sums": 5.0, "fit": 8.0, "predict": 3.0, "ratio": 0.8, "predict ratio": 0.6,
           "stages": str(stages).replace("'", '"')}  # fmt: skip
    table.merged([row, row | {"order": "shuffled"}], tmp_path / "t.csv")
    kept = table.merged([row | {"bags": 10_000, "fit": 80.0}, row | {"fit": 4.0}], tmp_path / "t.csv")
    assert [(each["order"], each["bags"], each["fit"]) for each in kept] == [
        ("near", 1000, 4.0), ("near", 10_000, 80.0), ("shuffled", 1000, 8.0),
    ]  # fmt: skip
    assert table.shares(kept[0]) == {"gather": 0.5, "features": 2.0, "sums": 2.5}
    assert "| near | 2 | 1,000 | 10,000 | 1.301 |" in table.page(kept)  # log10 of 20
    table.draw(kept, tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 1000


@pytest.mark.parametrize("kind", ["fourier", "cosine"])
def test_the_fast_literal_recipe_equals_the_slow_one_over_many_bags_and_blocks(benchmark, kind):
    rng = np.random.default_rng(10)
    bags = [rng.random((n, 2)) for n in (150, *range(1, 18))]
    arguments = [0.05, 0.3, 0.9], rng.random((3000, 2)), [0.04, 0.1], 4, 0.5, kind
    found, some = benchmark("literal_recipe").literal_recipe(bags, *arguments), [0, 1, 15, 16, 17]
    truth = exact.literal_recipe([bags[i] for i in some], *arguments)
    np.testing.assert_allclose(found[some], truth, atol=1e-12)


def test_the_fast_literal_recipe_keeps_float32_throughout(benchmark):
    recipe, rng = benchmark("literal_recipe").literal_recipe, np.random.default_rng(11)
    bags, nodes = [rng.random((50, 2)).astype(np.float32) for _ in range(3)], rng.random((400, 2))
    arguments = ([0.1, 0.6], nodes, 0.05, 5, 0.3)
    single, double = recipe(bags, *arguments), recipe(bags, *arguments, dtype=np.float64)
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, atol=2e-5)
    assert recipe([bags[0], bags[1].astype(float)], *arguments).dtype == np.float64
    assert recipe([b.astype(float) for b in bags], *arguments, dtype="f4").dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fast_literal_recipe_gives_zero_not_nan_where_nodes_are_out_of_reach(benchmark, dtype):
    recipe, nodes = benchmark("literal_recipe").literal_recipe, np.array([[0.0], [1.0]])
    found = recipe([np.zeros((3, 1))], [0.0, 2.0], nodes, 0.01, 1, 0.5, dtype=dtype)
    at_one = recipe([np.zeros((3, 1))], [0.0, 2.0], nodes[1:], 0.01, 1, 0.5, dtype=dtype)
    assert np.all(np.isfinite(found))
    assert np.any(np.abs(found) > 0.1)
    np.testing.assert_allclose(at_one, 0, atol=1e-17)


def test_a_peer_that_is_not_installed_is_said_so(benchmark, monkeypatch):
    timing, peers, cases = benchmark("timing"), benchmark("peers"), benchmark("cases")
    monkeypatch.setattr(peers, "installed", lambda package: None)
    for make in (peers.fft_kde, peers.sliced_wasserstein):
        assert make(cases.cases(timing.TINY)[0], timing.TINY).variants == {}


def test_the_benchmark_refuses_wrong_answers(benchmark):
    timing = benchmark("timing")
    with pytest.raises(AssertionError, match="wrong answer: densities"):
        timing.close("densities", [1.0], [1.1], atol=0.01)
    with pytest.raises(AssertionError, match=r"R2 is 0\.25"):
        timing.correlated("distances", [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], least=0.9)
    assert timing.slope([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_the_calibration_runs(capsys):
    script = runpy.run_path(str(ROOT / "experiments" / "calibrate_bandwidth.py"))
    densities, bags = script["draw"](script["shells"], 2, 100, 6, np.random.default_rng(0))
    np.testing.assert_allclose(densities.mean(axis=1), 1.0)
    found = script["losses"](densities, bags)
    assert found.shape == (2, len(script["FACTORS"]))
    assert np.all(found > 0)


def test_the_study_of_densities_in_many_dimensions_runs(monkeypatch):
    script = runpy.run_path(str(ROOT / "experiments" / "many_dimensions_study.py"))
    module = script["study"].__globals__
    monkeypatch.setitem(module, "N_BAGS", 3)
    monkeypatch.setitem(module, "N_DRAWS", 2000)
    monkeypatch.setitem(module, "DENSITIES", (("auto", "distance"), ("copula", "likelihood")))
    rows = list(script["study"]([4], ("modes",), [40], ("A features", "plugin"), 2))
    assert [row[3:5] for row in rows] == [("A features", "auto"), ("A features", "copula"), ("plugin", "copula")]
    assert all(len(row) == len(script["COLUMNS"]) for row in rows)


def test_the_experiment_in_many_dimensions_runs():
    script = runpy.run_path(str(ROOT / "experiments" / "many_dimensions.py"))
    row = dict(zip(script["COLUMNS"], next(script["ten_dimensions"](["gaussians"], sizes=(300,))), strict=True))
    assert (row["n_dims"], row["density"], row["distance"]) == (10, "mixture", "hellinger")
    assert 0 < row["rms"] <= row["worst"] < 0.5


def test_sizes_of_the_basis_are_compared(capsys):
    script = runpy.run_path(str(ROOT / "experiments" / "basis_size.py"))
    script["main"](["--repeats", "1", "--bags", "30", "--test", "20", "--tasks", "peak", "--distances", "hellinger"])
    header, row = capsys.readouterr().out.splitlines()
    assert header.startswith("task")
    assert row.startswith("peak         hellinger")


def test_neighbours_are_compared_with_trees(benchmark, capsys):
    benchmark("knn").main(n_bags=4, turns=1)
    assert "cKDTree, one thread" in capsys.readouterr().out


def test_two_trees_are_compared(benchmark, capsys):
    ratios = benchmark("compare").compare(ROOT, ROOT, rounds=1, n_bags=20, only="*A *js")
    assert set(ratios) == {"A features, js", "A + random features, js"}
    assert all(ratio > 0 for ratio in ratios.values())
    assert "after / before" in capsys.readouterr().out


def test_a_folder_without_the_package_is_refused(benchmark, tmp_path):
    with pytest.raises(SystemExit, match="holds no src/distembed"):
        benchmark("compare").compare(tmp_path, ROOT, rounds=1, n_bags=20)


def test_the_search_is_compared_with_a_full_one(tmp_path, monkeypatch, capsys):
    sizes = ["--seeds=1", "--draws=2", "--train=60", "--test=10", "--components=50", f"--out={tmp_path / 'search.csv'}"]
    monkeypatch.setattr(sys, "argv", ["search.py", *sizes])
    runpy.run_path(str(ROOT / "experiments" / "search.py"), run_name="__main__")
    assert "lost against the full search" in capsys.readouterr().out
    with open(tmp_path / "search.csv", newline="") as file:
        assert [row["search"] for row in csv.DictReader(file)] == ["default", "full"]


def test_the_table_of_methods_is_written(tmp_path, monkeypatch, capsys):
    sizes = ["--bags", "20", "--turns", "1", "--train", "40", "--test", "4"]
    monkeypatch.setattr(sys, "argv", ["methods.py", *sizes, "--out", str(tmp_path / "m.md")])
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    components = importlib.import_module("components")
    for name, value in {"D": 100, "SCALES": (1.0,), "PENALTIES": (0.1,), "N_POINTS": 50}.items():
        monkeypatch.setattr(components, name, value)
    runpy.run_path(str(ROOT / "experiments" / "methods.py"), run_name="__main__")
    written = (tmp_path / "m.md").read_text(encoding="utf-8")
    assert written.strip() in capsys.readouterr().out
    first, second = written.split("## Features and pairs of bags")
    assert sum(line.startswith("| `") for line in first.splitlines()) == len(de.embeddings.available())
    assert {"KL kernel matrix", "EM and AIC", "the constant 5.5"} <= {
        line.split("|")[1].strip().split(",")[0] for line in second.splitlines() if line.startswith("|")
    }


def test_reliability_is_printed(capsys):
    script = runpy.run_path(str(ROOT / "experiments" / "reliability.py"))
    truth = np.repeat([0.1, 0.5, 0.9], 1000)
    came = (np.random.default_rng(0).uniform(size=3000) < truth).astype(float)
    said, share, mass = script["bins_of"](truth, came, np.ones(3000))
    assert np.abs(said - share).max() < 0.1
    assert mass.sum() == pytest.approx(1)
    script["main"](["--repeats=1", "--bags=40", "--test=200", "--models", "ridge", "--bins"])
    printed = capsys.readouterr().out.splitlines()
    assert sum(" ridge " in line for line in printed) == sum(" truth " in line for line in printed) == 4
    assert sum("came true" in line for line in printed) == 80


@pytest.mark.filterwarnings("ignore:DistributionRegressor. held-out bags are predicted no better")  # by means
def test_the_leaderboard_is_compared_with_new_bags(capsys):
    script = runpy.run_path(str(ROOT / "experiments" / "leaderboard.py"))
    script["main"](["--repeats", "2", "--bags", "20", "--laws", "noise", "--embedding", "mean"])
    header, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:3] for row in rows] == [["noise", "numbers", "20"], ["noise", "classes", "20"]]
    assert len(rows[0].split()) == len(header.split())


def test_costs_and_gains_of_the_ensemble(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ensemble.py", "--bags", "60", "--test", "20", "--embedding", "mean"])
    runpy.run_path(str(ROOT / "experiments" / "ensemble.py"), run_name="__main__")
    titles, row = capsys.readouterr().out.splitlines()
    assert titles.split()[:4] == ["bags", "RMSE", "of", "mean"]
    assert row.split()[0] == "60"
    assert float(row.split()[2]) - float(row.split()[1]) == pytest.approx(float(row.split()[3]), abs=2e-4)


def test_parts_of_the_ensemble_and_widths_of_kernels_are_compared(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    few_bags, laplace = (importlib.import_module(name) for name in ("few_bags", "laplace"))
    for module in (few_bags, laplace):
        monkeypatch.delitem(sys.modules, module.__name__)  # others may have a module of that name
    small = ["--tasks", "cells", "--bags", "40", "--new", "20", "--repeats", "1"]
    few_bags.main([*small, "--views", "mean", "--variants", "no svm"])
    assert [line.split(",")[0].split()[0] for line in capsys.readouterr().out.splitlines()] == ["task", "cells", "mean"]
    laplace.main(small)
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:2] == ["cells,", "40"]
    assert len(row) == 2 + 2 * 5
    assert all(0 < float(loss) < 2 for loss in row[2:])


def test_the_size_of_the_package_is_printed(tmp_path, capsys):
    files = {
        "__init__.py": 'ROOMS = ("bags", "cli")\n',
        "bags/flat.py": '"""Two\nlines."""\n\na, b = 1, 2  # packed\nc = d, e = a, b\nf, g = c\n',
        "cli.py": "from .bags import _hidden\n\n\ndef show(x):\n    x._own = x._other\n    x._own._asdict()\n",
    }
    for name, text in files.items():
        path = tmp_path / "distembed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    main = runpy.run_path(str(ROOT / "tools" / "house.py"))["main"]
    main(["--src", str(tmp_path), "--no-calls", "--list"])
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line]
    assert printed[1:] == [
        "bags 1 3 6 6", "cli 1 4 6 6", "__init__ 1 1 1 1", "all 3 8 13 6",
        "packed assignments 2 of 5, 40.0%", "private uses 2",
        "bags/flat.py:4 packed", "bags/flat.py:5 packed", "cli.py:1 _hidden", "cli.py:5 _other",
    ]  # fmt: skip


def test_calls_that_change_files_are_counted(tmp_path):
    (tmp_path / "there.py").write_text("def g():\n    return 1\n")
    (tmp_path / "back.py").write_text("def f(g):\n    g(), g(), h(g)\n\ndef h(g):\n    g()\n")
    g = runpy.run_path(str(tmp_path / "there.py"))["g"]
    f = runpy.run_path(str(tmp_path / "back.py"))["f"]
    calls = runpy.run_path(str(ROOT / "tools" / "house.py"))["Calls"](tmp_path)
    calls.follow(lambda: f(g))
    assert calls.files == {"back.py": 2, "there.py": 3}
    assert calls.pairs == {("back.py", "there.py"): 3}


def test_levels_of_tests_in_designs():
    script = runpy.run_path(str(ROOT / "experiments" / "levels_of_tests.py"))
    settings = list(script["settings"]())
    assert len(settings) == 20
    for setting in settings[::5]:
        assert 0 <= script["rejected"](3, True, *setting, 0.0) <= 1
