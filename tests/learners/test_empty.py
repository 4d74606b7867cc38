"""Learners and bags without points."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.learners import empty as empty_module

VIEWS = ["mean", "covariance"]


def make(n=60, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, n)
    empty = rng.random(n) < share
    arrays = [np.empty((0, 2)) if none else rng.normal(0, s, (20, 2)) for none, s in zip(empty, spread, strict=True)]
    return de.Bags.from_arrays(arrays, empty="allow"), spread, empty, rng


def test_points_never_see_empty_bags_and_rows_stay_in_order():
    bags, spread, empty, rng = make()
    y = np.where(empty, 9 + 0.1 * rng.normal(size=len(spread)), spread)
    model = de.DistributionRegressor(VIEWS, random_state=0).fit(bags, y)
    apart = de.DistributionRegressor(VIEWS, random_state=0).fit(bags[~empty], y[~empty])
    np.testing.assert_array_equal(model.predict(bags)[~empty], apart.predict(bags[~empty]))
    np.testing.assert_allclose(model.predict(bags)[empty], y[empty].mean(), atol=0.02)
    assert model.empty_.n_bags == empty.sum()
    ends = model.predict_interval(bags, 0.8)
    np.testing.assert_array_equal(ends[~empty], apart.predict_interval(bags[~empty], 0.8))
    inside = (ends[empty, 0] <= y[empty]) & (y[empty] <= ends[empty, 1])
    assert 0.6 < inside.mean() <= 1
    assert np.ptp(ends[empty][0]) < 0.6  # as wide as these bags vary
    predicted, deviation = model.predict(bags, return_std=True)
    assert predicted.shape == deviation.shape == y.shape
    assert 0.05 < deviation[empty][0] < 0.2
    assert model.predict(bags[empty]).shape == (empty.sum(),)


def test_means_are_shrunken_where_empty_bags_are_few():
    y = np.array([[0.0], [1.0], [2.0], [3.0], [10.0], [10.0]])

    def mean(empty):
        return empty_module._mean_of_empty(y, np.ones(6), np.array(empty, bool), False)[0]

    overall = y.mean()
    one, two = mean([0, 0, 0, 0, 0, 1]), mean([0, 0, 0, 0, 1, 1])
    assert overall < one < two < 10
    assert mean([0] * 6) == overall
    codes = np.eye(2)[[0, 0, 1, 1, 1, 1]]
    found = empty_module._mean_of_empty(codes, np.ones(6), np.array([0, 0, 0, 0, 1, 1], bool), True)
    np.testing.assert_allclose(found, [1 / 9, 8 / 9])


def test_covariates_predict_empty_bags():
    bags, spread, empty, rng = make(80)
    age = rng.normal(size=80)
    y = np.where(empty, 9 + age, spread)
    table = {"age": age}
    model = de.DistributionRegressor(VIEWS, random_state=0).fit(bags, y, covariates=table)
    errors = model.predict(bags, covariates=table)[empty] - y[empty]
    assert np.sqrt(np.mean(errors**2)) < 0.5 * np.std(y[empty])


def test_classes(tmp_path):
    bags, spread, empty, rng = make()
    y = np.where(empty, np.where(rng.random(60) < 0.8, "big", "small"), np.where(spread > 1.2, "big", "small"))
    model = de.DistributionClassifier(VIEWS, random_state=0).fit(bags, y)
    shares = model.predict_proba(bags)
    m, big = empty.sum(), (y == "big").mean()
    np.testing.assert_allclose(shares[empty, 0], ((y[empty] == "big").sum() + big) / (m + 1))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert model.predict_set(bags).any(axis=1).all()
    assert model.decision_function(bags).shape == (60,)
    assert (model.predict(bags)[empty] == "big").all()
    de.save(model, tmp_path / "m.distembed")
    again = de.load(tmp_path / "m.distembed")
    np.testing.assert_array_equal(again.predict_proba(bags), shares)
    np.testing.assert_array_equal(again.predict_set(bags), model.predict_set(bags))
    only = np.where(empty, "none", y)
    with pytest.raises(ValueError, match="class 'none' has empty bags alone"):
        de.DistributionClassifier(VIEWS, random_state=0).fit(bags, only)


def test_one_embedding_refit_and_fit_and_score():
    bags, spread, empty, _ = make()
    y = np.where(empty, 5.0, spread)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0)
    found = model.fit_and_score(bags, y, test=0.2)
    assert found.rows.sum() == 12
    np.testing.assert_allclose(model.predict(bags)[empty], 5.0, atol=0.1)
    model.refit(bags, np.where(empty, 7.0, spread))
    np.testing.assert_allclose(model.predict(bags)[empty], 7.0, atol=0.1)
    left_out = model.set_params(embedding="deviation", n_components=100).fit_and_score(bags, y, test=0.0)
    np.testing.assert_array_equal(left_out.rows, ~empty)


def test_what_is_not_known_is_said():
    bags, spread, empty, _ = make()
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags[~empty], spread[~empty])
    with pytest.warns(UserWarning, match="no training bag was empty, so nothing is known of bags such as"):
        predicted = model.predict(bags)
    np.testing.assert_allclose(predicted[empty], spread[~empty].mean())
    with pytest.raises(ValueError, match="all 2 bags are empty"):
        model.fit(bags[np.flatnonzero(empty)[:2]], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"is empty \(15 such bags of 60\), and only"):
        model.transform_features(bags)
    first = de.DistributionRegressor("mean", n_components=20, random_state=0)
    with pytest.raises(ValueError, match="is empty, and empty bags need all bags at once"):
        first.partial_fit(bags, spread)
    first.partial_fit(bags[~empty], spread[~empty])
    with pytest.raises(ValueError, match="models that learn from batches know nothing of such bags"):
        first.predict(bags)


def test_conformal_intervals_hold_empty_bags():
    bags, spread, empty, _ = make(80)
    y = np.where(empty, 5.0, spread)
    model = de.ConformalRegressor(de.DistributionRegressor("mean", n_components=20, random_state=0), random_state=0)
    ends = model.fit(bags, y).predict_interval(bags)
    assert ends.shape == (80, 2)
    assert np.isfinite(ends).all()


def test_reports_count_empty_bags(tmp_path):
    pytest.importorskip("jinja2")
    bags, spread, empty, _ = make()
    y = np.where(empty, 5.0, spread)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags, y)
    de.report.write(model, bags, y, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert f"{empty.sum()} of 60; pictures and scores are of the others" in text
