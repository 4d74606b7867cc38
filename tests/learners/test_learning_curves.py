"""Learning curves: the law, its interval, and what is fitted and scored."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import distembed as de
from distembed.learners.learning_curves import PowerLaw


class Counting(RegressorMixin, BaseEstimator):
    """Predicts with an error that falls with the number of bags and of points, by a known law."""

    def fit(self, bags, y):
        self.noise_ = np.sqrt(0.2 + 2 / len(y) ** 0.7 + 0.1 / np.mean(bags.sizes))
        return self

    def predict(self, bags):
        truth = np.array([float(name) for name in bags.ids])
        signs = np.where(np.arange(len(truth)) % 2, 1.0, -1.0)
        return truth + signs * self.noise_


class Majority(ClassifierMixin, BaseEstimator):
    def fit(self, bags, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.best_ = self.classes_[counts.argmax()]
        return self

    def predict(self, bags):
        return np.full(bags.n_bags, self.best_)


def table(n=100, size=16):
    y = np.where(np.arange(n) % 2, 1.0, -1.0) * (1 + np.arange(n) / n / 1000)
    return de.Bags.from_arrays([np.full((size, 1), each) for each in y], ids=[f"{each:.8f}" for each in y]), y


def test_intervals_of_the_law_hold_what_larger_sizes_have():
    sizes = np.array([10.0, 18, 32, 57, 100])
    inside = gains = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a, b, c = rng.uniform(0.4, 0.9), rng.uniform(0.5, 2), rng.uniform(0.3, 1.0)
        scores = a - b * sizes**-c + rng.normal(0, 0.02, size=(5, 5)) + rng.normal(0, 0.03, size=(5, 1))
        law = PowerLaw.fit(sizes, scores)
        found, truth = law.at(200), a - b * 200**-c
        inside += found.low <= truth <= found.high
        gains += found.gain_low <= truth - (a - b * 100**-c) <= found.gain_high
    assert inside >= 48
    assert gains >= 48


def test_scores_are_those_of_parts_of_the_training_bags():
    bags, y = table()
    found = de.learning_curve(Counting(), bags, y, random_state=0)
    assert found.bags.sizes.tolist() == [10, 17, 28, 48, 80]
    expected = 1 - (0.2 + 2 / found.bags.sizes**0.7 + 0.1 / 16) / np.var(y)
    assert_allclose(found.bags.scores, expected, atol=1e-6)
    assert found.points.sizes.tolist() == [0.125, 0.25, 0.5, 1.0]
    of_points = 1 - (0.2 + 2 / 80**0.7 + 0.1 / (16 * found.points.sizes)) / np.var(y)
    assert_allclose(found.points.scores, of_points, atol=1e-6)
    forecast = found.with_bags(160)
    assert forecast.low <= 1 - (0.2 + 2 / 160**0.7) / np.var(y) <= forecast.high
    assert "80 more training bags would bring R2 from 0.7" in repr(found)
    assert "more points per bag would bring next to nothing" in repr(found)
    assert len(found.to_frame()) == 9


def test_classes_are_all_there_in_small_parts_and_progress_counts():
    bags = table(60)[0]
    calls = []
    labels = np.where(np.arange(60) % 10 == 0, "rare", "usual")
    found = de.learning_curve(
        Majority(), bags, labels, n_folds=3, points=False, progress=lambda done, total: calls.append((done, total))
    )
    assert found.score_name == "accuracy"
    assert_allclose(found.bags.scores, 0.9)
    assert found.points is None
    assert calls[-1] == (15, 15)
    assert found.with_bags(500).gain == pytest.approx(0, abs=0.01)


def test_what_cannot_be_learned_from_is_refused():
    bags, y = table(30)
    with pytest.raises(ValueError, match="at least 20 bags"):
        de.learning_curve(Counting(), bags[:10], y[:10])
    with pytest.raises(ValueError, match=r"must be of shape \(30,\)"):
        de.learning_curve(Counting(), bags, y[:9])
