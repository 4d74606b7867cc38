"""What a model loses when the values of a column are permuted across the points of all bags."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.learners import permutation_importance

N = 80
RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(0.5, 2, N)
POINTS = np.stack([RNG.normal(size=(N, 40)), RNG.normal(0, SPREAD[:, None], (N, 40))], axis=-1)
BAGS = de.Bags.from_arrays(list(POINTS), ids=[f"town {i}" for i in range(N)], columns=["noise", "signal"])
PIPE = make_pipeline(de.MomentEmbedding("deviation"), Ridge())


def test_the_column_that_tells_bags_apart_matters():
    model = PIPE.fit(BAGS[:50], SPREAD[:50])
    found = permutation_importance(model, BAGS[50:], SPREAD[50:], n_repeats=4, random_state=0)
    assert found.columns == ["noise", "signal"]
    assert found.importances.shape == (2, 4)
    assert abs(found.importances_mean[0]) < 0.05 < 0.5 < found.importances_mean[1]
    again = permutation_importance(model, BAGS[50:], SPREAD[50:], n_repeats=4, random_state=0)
    assert np.array_equal(found.importances, again.importances)


def test_targets_by_id_weights_and_scores():
    y = pd.Series(SPREAD, index=BAGS.ids)
    model = PIPE.fit(BAGS, SPREAD)
    plain, shuffled = (permutation_importance(model, BAGS, each, random_state=0) for each in (SPREAD, y.sample(frac=1)))
    assert np.array_equal(plain.importances, shuffled.importances)
    errors = permutation_importance(model, BAGS, y, scoring="neg_mean_squared_error", random_state=0)
    assert np.allclose(errors.importances, plain.importances * SPREAD.var())
    some = permutation_importance(model, BAGS, y, sample_weight=np.arange(N) % 2, random_state=0)
    assert not np.allclose(some.importances, plain.importances)
    classes = make_pipeline(de.MomentEmbedding("deviation"), LogisticRegression()).fit(BAGS, SPREAD > 1.2)
    found = permutation_importance(classes, BAGS, SPREAD > 1.2, random_state=0)
    assert found.importances_mean[1] > 0.2 > found.importances_mean[0]


def test_a_column_goes_with_the_one_that_says_where_it_is_missing():
    frame = BAGS.to_frame()
    frame.loc[::7, "signal"] = np.nan
    bags = de.Bags.from_frame(frame, bag="bag", nan="indicator")
    assert bags.n_dims == 3
    found = permutation_importance(PIPE.fit(bags, SPREAD), bags, SPREAD, random_state=0)
    assert found.columns == ["noise", "signal"]


def test_covariates_stay_as_they_are():
    table = {"age": RNG.normal(size=N)}
    model = de.DistributionRegressor("deviation", random_state=0).fit(BAGS, SPREAD, covariates=table)
    found = permutation_importance(model, BAGS, SPREAD, covariates=table, n_repeats=1, random_state=0)
    assert found.importances_mean[1] > 0.3
    with pytest.raises(ValueError, match="covariates go with scoring=None alone; leave scoring out"):
        permutation_importance(model, BAGS, SPREAD, covariates=table, scoring="r2")
    with pytest.raises(ValueError, match=r"permutation_importance\(n_repeats=...\): must be an integer in \[1, inf\)"):
        permutation_importance(model, BAGS, SPREAD, n_repeats=0)


def test_importances_are_a_table():
    bags = np.random.default_rng(0).normal(size=(40, 20, 2)) + np.linspace(0, 2, 40)[:, None, None] * [1, 0]
    y = np.linspace(0, 2, 40)
    model = de.DistributionRegressor("mean", n_components=None, random_state=0).fit(bags, y)
    found = de.learners.permutation_importance(model, bags, y, random_state=0)
    assert [line.split()[0] for line in repr(found).splitlines()] == ["column", "x0", "x1"]
    frame = found.to_frame()
    assert frame["name"].tolist() == ["x0", "x1"]
    assert frame["importance"].tolist() == sorted(found.importances_mean, reverse=True)
