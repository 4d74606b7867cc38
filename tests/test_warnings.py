"""Warnings: few, true, once a fit, the same text each time, with a remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import distembed as de

RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(0.5, 2, 30)
BAGS = de.as_bags(RNG.normal(0, SPREAD[:, None, None], (30, 20, 2)))
FAST = {"n_components": 50, "tune": None, "random_state": 0}


def said(call):
    """What a call warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in seen]


# --------------------------------------------------------------------------------------------------------------
# Targets and weights
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tune", [None, 2])
def test_a_constant_target_gets_one_word(tune):
    model = de.DistributionRegressor("deviation", **FAST | {"tune": tune})
    found = said(lambda: model.fit(BAGS, np.full(30, 3.0)))
    text = (
        "y is the same for all bags, so that there is nothing to learn, and the model predicts that number; check the"
    )
    assert found == [f"DistributionRegressor: {text} targets"]
    assert model.predict(BAGS) == pytest.approx(3.0)
    assert said(lambda: model.fit(BAGS, np.column_stack([SPREAD, np.ones(30)])))[0].startswith(
        "DistributionRegressor: an output of y is the same for all bags"
    )
    assert said(lambda: model.fit(BAGS[:1], [3.0])) == []


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_wrong_weights_of_a_score_are_named(value):
    weight = np.ones(30)
    weight[4] = value
    model = de.DistributionRegressor("deviation", **FAST).fit(BAGS, SPREAD)
    text = rf"^DistributionRegressor: sample_weight must be one finite number >= 0 a bag.* got {value} for bag 4; leave"
    with pytest.raises(ValueError, match=text):
        model.score(BAGS, SPREAD, sample_weight=weight)
    smoother = de.KernelSmoother().fit(de.UnitCube().fit_transform(BAGS), SPREAD)
    with pytest.raises(ValueError, match=rf"^KernelSmoother: sample_weight must .* got {value} for bag 4; leave"):
        smoother.score(de.UnitCube().fit_transform(BAGS), SPREAD, sample_weight=weight)
