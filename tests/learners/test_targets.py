"""Targets as people have them: shares, counts, and one slip of the pen."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.learners.targets import Numbers, natural_bounds, tame_wild

VIEWS = ["mean, linear", "mean, rbf"]


def make(n=80, seed=0):
    rng = np.random.default_rng(seed)
    shift = rng.uniform(-2, 2, n)
    return rng.normal(shift[:, None, None], 1, (n, 20, 2)), shift, rng


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # points are three times as far
@pytest.mark.parametrize("embedding", [VIEWS, "mean"])
def test_shares_and_their_intervals_stay_inside(embedding, tmp_path):
    points, shift, _ = make()
    y = 1 / (1 + np.exp(-4 * shift))
    more = {"n_components": 50} if embedding == "mean" else {}
    model = de.DistributionRegressor(embedding, random_state=0, **more).fit(points, y)
    far = points * 3
    with np.errstate(all="ignore"):
        for found in (model.predict(far), model.predict_interval(points, 0.99), model.predict_quantiles(far, [0.001])):
            assert found.min() >= 0
            assert found.max() <= 1
    ends = model.predict_interval(points)
    assert np.all(ends[:, 0] <= ends[:, 1])
    assert model.predict(points, return_std=True)[0].max() <= 1
    de.save(model, tmp_path / "m.distembed")
    np.testing.assert_array_equal(de.load(tmp_path / "m.distembed").predict(far), model.predict(far))
    model.refit(points, 10 * shift)  # no shares any more
    assert model.predict(points).min() < 0


def test_counts_are_never_negative_and_several_outputs_have_their_own_bounds():
    points, shift, rng = make()
    counts = rng.poisson(np.exp(shift))
    model = de.DistributionRegressor(VIEWS, random_state=0).fit(points, np.stack([counts, shift], axis=1))
    assert model.targets_.low.tolist() == [0, -np.inf]
    found = model.predict(points)
    assert found[:, 0].min() >= 0
    assert found[:, 1].min() < -1
    ends = model.predict_interval(points)
    assert ends.shape == (80, 2, 2)
    assert ends[:, 0].min() == 0


def test_a_range_that_is_no_bound_is_none():
    rng = np.random.default_rng(0)
    growth = rng.uniform(0.01, 0.05, 100)
    assert natural_bounds(growth) == (-np.inf, np.inf)
    assert natural_bounds(300 + 5 * rng.normal(size=100)) == (-np.inf, np.inf)
    assert natural_bounds(rng.normal(size=100)) == (-np.inf, np.inf)
    assert natural_bounds(np.exp(2 * rng.normal(size=100))) == (0, np.inf)
    assert natural_bounds(rng.beta(2, 2, size=100)) == (0, 1)
    assert natural_bounds(rng.binomial(20, 0.03, size=100) / 20) == (0, 1)
    assert natural_bounds(np.array([0.0, 1.0])) == (-np.inf, np.inf)
    known = Numbers.of(rng.poisson(3, 50).astype(float))
    assert known.including(np.array([5.0])) is known
    assert known.including(np.array([-5.0])).low[0] == -np.inf


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # points are three times as far
@pytest.mark.parametrize("embedding", [VIEWS, "mean"])
def test_one_wild_target_does_not_ruin_a_fit(embedding):
    points, shift, _ = make()
    y = shift.copy()
    y[7] = 1e6
    bags = de.Bags.from_arrays(points, ids=[f"b{i}" for i in range(80)])
    more = {"n_components": 50} if embedding == "mean" else {}
    model = de.DistributionRegressor(embedding, random_state=0, **more)
    with pytest.warns(UserWarning, match=r"y is 1e\+06 for bag 7 \(id 'b7'\), more than 1,000 times .* it is taken as"):
        model.fit(bags, y)
    others = np.arange(80) != 7
    assert np.sqrt(np.mean((model.predict(bags) - shift)[others] ** 2)) < 0.3
    with pytest.warns(UserWarning, match="it is taken as"):
        model.refit(bags, y)
    assert np.abs(model.predict(bags)).max() < 3


def test_heavy_tails_are_not_wild():
    rng = np.random.default_rng(0)
    bags = de.as_bags(np.zeros((2000, 1, 1)))
    for y in (np.exp(2.5 * rng.normal(size=2000)), rng.standard_cauchy(2000), rng.poisson(0.01, 2000) * 1e6):
        assert tame_wild("Mine", y, bags) is not None
        np.testing.assert_array_equal(tame_wild("Mine", y, bags), y)
