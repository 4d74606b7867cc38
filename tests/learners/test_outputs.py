"""Several outputs choose their own members."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.learners.stacking import HeldOut, choose_weights, weighted_sum

VIEWS = ["mean, linear", "covariance, linear"]


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(0)
    shift = rng.normal(size=120)
    spread = rng.uniform(0.5, 2, 120)
    points = shift[:, None, None] + spread[:, None, None] * rng.normal(size=(120, 25, 1))
    return points, np.stack([shift, spread, rng.normal(size=120)], axis=1)


def test_each_output_has_the_members_that_suit_it(several, tmp_path):
    points, y = several
    model = de.DistributionRegressor(VIEWS, random_state=0).fit(points[:80], y[:80])
    weights = model.model_.weights
    assert weights.shape == (len(model.model_.members), 3)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    board = {row["name"]: row["weight"] for row in model.leaderboard_.candidates}
    assert sum(board.values()) == pytest.approx(1)
    chosen = [type(member.head).__name__ + member.views[0] for member in model.model_.members]
    mean, second = (weights[chosen.index(f"KernelHead{name}")] for name in ("mean", "covariance"))
    assert mean[0] > mean[1] + 0.3
    assert second[1] > 0.9
    assert weights[0, 2] > 0.5  # the constant, for noise
    ends = model.predict_interval(points[80:])
    assert ends.shape == (40, 3, 2)
    assert np.all(np.diff(ends) >= 0)
    apart = de.DistributionRegressor(VIEWS, random_state=0).fit(points[:80], y[:80, 1])
    errors = [
        np.mean((each - y[80:, 1]) ** 2) for each in (model.predict(points[80:])[:, 1], apart.predict(points[80:]))
    ]
    assert errors[0] < 1.1 * errors[1]
    de.save(model, tmp_path / "m.distembed")
    again = de.load(tmp_path / "m.distembed")
    np.testing.assert_array_equal(again.predict(points), model.predict(points))
    np.testing.assert_array_equal(again.predict_interval(points[80:]), ends)
    model.refit(points, y)
    assert model.model_.weights is weights
    grown = de.DistributionRegressor(VIEWS, random_state=0).partial_fit(points, y)
    assert grown.model_.weights.ndim == 2
    assert grown.predict(points).shape == y.shape


def test_one_output_has_the_weights_that_it_has_alone():
    rng = np.random.RandomState(0)
    truth = rng.normal(size=(60, 2))
    errors = np.array([[3.0, 3.0], [0.2, 2.0], [2.0, 0.2], [1.0, 1.0]])
    predicted = truth + errors[:, None] * rng.normal(size=(4, 60, 2))
    predicted[0] = 0.0
    held_out = HeldOut(predicted, truth, np.ones(60))
    weights = choose_weights(held_out, 4, np.random.RandomState(0))
    assert weights.shape == (4, 2)
    first = choose_weights(held_out.output(0), 4, np.random.RandomState(0))
    np.testing.assert_array_equal(weights[:, 0], first)
    assert weights[1, 0] > 0.8
    assert weights[2, 1] > 0.8
    few = choose_weights(held_out, 2, np.random.RandomState(0))
    assert np.count_nonzero(few[1:].any(axis=1)) <= 2
    np.testing.assert_allclose(few.sum(axis=0), 1)
    loss = [held_out.losses(weighted_sum(each, predicted)).mean() for each in (weights, np.full(4, 0.25))]
    assert loss[0] < loss[1]
