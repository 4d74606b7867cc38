"""Bags without a target: refused, or left out and counted."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de


def make(n=40):
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 2, n)
    points = rng.normal(0, spread[:, None, None], (n, 20, 1))
    return de.Bags.from_arrays(points, ids=[f"b{i}" for i in range(n)]), spread


def learner(**more):
    return de.DistributionRegressor("mean", n_components=20, random_state=0, tune=None, **more)


def test_missing_numbers_are_refused_or_left_out_and_counted():
    bags, y = make()
    y[[3, 7]] = np.nan
    there = np.flatnonzero(np.isfinite(y))
    with pytest.raises(ValueError, match=r"y must be finite, got nan for bag 3.*pass missing_targets='drop'"):
        learner().fit(bags, y)
    with pytest.warns(UserWarning, match="2 of 40 bags have no target and are left out: 'b3', 'b7'"):
        model = learner(missing_targets="drop").fit(bags, y, sample_weight=np.arange(40) + 1.0)
    apart = learner().fit(bags[there], y[there], sample_weight=there + 1.0)
    np.testing.assert_array_equal(model.predict(bags), apart.predict(bags))
    np.testing.assert_array_equal(model.trained_on_, apart.trained_on_)
    y[5] = np.inf
    with pytest.raises(ValueError, match="y must be finite"), pytest.warns(UserWarning, match="no target"):
        learner(missing_targets="drop").fit(bags, y)
    with pytest.raises(ValueError, match="must have some values, got 40 missing"):
        learner(missing_targets="drop").fit(bags, [None] * 40)
    with pytest.raises(ValueError, match="missing_targets"):
        learner(missing_targets="zero").fit(bags, np.zeros(40))


@pytest.mark.filterwarnings("ignore:.*have no target")
def test_covariates_groups_outputs_refit_and_scores_follow():
    bags, spread = make(60)
    y = np.stack([spread, 2 * spread], axis=1)
    y[4, 1] = np.nan
    age = np.arange(60.0)
    there = np.delete(np.arange(60), 4)
    model = de.DistributionRegressor(["mean"], random_state=0, missing_targets="drop")
    groups = np.arange(60) // 2
    model.fit(bags, y, groups=groups, covariates={"age": age})
    apart = de.DistributionRegressor(["mean"], random_state=0)
    apart.fit(bags[there], y[there], groups=groups[there], covariates={"age": age[there]})
    np.testing.assert_array_equal(model.predict(bags, {"age": age}), apart.predict(bags, {"age": age}))
    model.refit(bags, y, covariates={"age": age})
    found = learner(missing_targets="drop").fit_and_score(bags, y[:, 1], test=0.2)
    assert found.rows.shape == (60,)
    assert not found.rows[4]
    np.testing.assert_array_equal(found.truth, y[found.rows, 1])


def test_missing_classes_and_batches():
    pd = pytest.importorskip("pandas")
    bags, spread = make()
    y = pd.Series(np.where(spread > 1.2, "big", "small"), index=bags.ids, dtype="string").iloc[::-1]
    y.iloc[0] = pd.NA
    model = de.DistributionClassifier("mean", n_components=20, random_state=0, tune=None, missing_targets="drop")
    with pytest.warns(UserWarning, match="1 of 40 bags have no target and are left out: 'b39'"):
        model.fit(bags, y)
    assert model.classes_.tolist() == ["big", "small"]
    numbers = spread.copy()
    numbers[0] = np.nan
    with pytest.warns(UserWarning, match="1 of 40 bags have no target"):
        learner(missing_targets="drop").partial_fit(bags, numbers)
