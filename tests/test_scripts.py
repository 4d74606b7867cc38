"""Benchmarks and experiments run at small size, so that they cannot rot."""

import runpy
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent


def test_the_benchmark_runs_and_checks_its_answers(capsys):
    ratio, share = runpy.run_path(str(ROOT / "benchmarks" / "core.py"))["main"](300, n_literal=4, turns=2)
    printed = capsys.readouterr().out
    assert ratio > 1
    assert share > 0
    assert "us a bag" in printed
    assert "of this machine's sgemm" in printed


def test_the_calibration_runs(capsys):
    script = runpy.run_path(str(ROOT / "experiments" / "calibrate_bandwidth.py"))
    densities, bags = script["draw"](script["shells"], 2, 100, 6, np.random.default_rng(0))
    np.testing.assert_allclose(densities.mean(axis=1), 1.0)
    found = script["losses"](densities, bags)
    assert found.shape == (2, len(script["FACTORS"]))
    assert np.all(found > 0)
