"""The Gram experiment on one seed; experiments/gram.py runs ten."""

import runpy
from pathlib import Path

import pytest

gram = runpy.run_path(str(Path(__file__).parent.parent / "experiments" / "gram.py"))


@pytest.fixture(scope="module")
def scores():
    return gram["run"](0, ("A features", "random features"))


def test_a_features_reproduce_the_kernel(scores):
    r2, _, determination, _ = scores["A features"]
    assert r2 >= 0.993
    assert determination >= 0.985


def test_random_features_reproduce_the_kernel(scores):
    r2, _, determination, _ = scores["random features"]
    assert r2 >= 0.992
    assert determination >= 0.98


def test_the_rivals_run_at_small_size(capsys):
    found = gram["run"](1, gram["METHODS"], n_bags=8, n_points=200)
    assert set(found) == set(gram["METHODS"])
    assert all(values[0] > 0.7 for values in found.values())
