"""Bags without names of columns, where a fit has seen names."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import distembed as de

RNG = np.random.default_rng(0)
SPREAD = np.linspace(1, 2, 30)
NAMED = de.Bags.from_arrays([RNG.normal(size=(20, 2)) * spread for spread in SPREAD], columns=["ra", "v"])
SAID = r"X has no column names, but the model was fitted with 'ra', 'v': taken in this order"


def answer_once(method, *args):
    """What a method answers, which warns once."""
    with pytest.warns(UserWarning, match=SAID) as caught:
        found = method(*args)
    assert len(caught) == 1
    return found


@pytest.mark.parametrize("name", ["auto", "js", "covariance", "mean"])
def test_learners_name_columns_once_per_call(name):
    model = de.DistributionRegressor(name, random_state=0).fit(NAMED, SPREAD)
    assert np.array_equal(answer_once(model.predict, list(NAMED)), model.predict(NAMED))
    assert answer_once(model.score, list(NAMED), SPREAD) == model.score(NAMED, SPREAD)


def test_pipelines_name_columns_once_per_call():
    pipe = make_pipeline(de.UnitCube(), de.HDDEmbedding("js", n_basis=4)).fit(NAMED)
    assert np.array_equal(answer_once(pipe.transform, NAMED.replace(columns=None)), pipe.transform(NAMED))
    cube = de.UnitCube().fit(NAMED)
    assert answer_once(cube.transform, list(NAMED)).columns == ("ra", "v")


def test_wrappers_name_columns_once_per_call():
    model = de.ConformalRegressor(de.DistributionRegressor("covariance", random_state=0), random_state=0).fit(
        NAMED, SPREAD
    )
    assert np.array_equal(answer_once(model.predict, list(NAMED)), model.predict(NAMED))
    views = de.Views({"few": de.FisherEmbedding(2, random_state=0), "more": de.FisherEmbedding(3, random_state=0)})
    assert np.array_equal(answer_once(views.fit(NAMED).transform, list(NAMED)), views.transform(NAMED))


def test_bags_refused_for_another_reason_get_no_warning():
    cube = de.UnitCube().fit(NAMED)
    with pytest.raises(ValueError, match=r"points of 2 dimension\(s\), as in fit, got 1"):
        cube.transform([[0.5]])
