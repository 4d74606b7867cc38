"""Warnings: few, true, once a fit, the same text each time, with a remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import distembed as de
from distembed.basis import LowEnergyWarning
from distembed.cli.app import command_of, in_options
from distembed.compute.checks import Argument, Message
from distembed.datasets import make_cells

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
    text = "y is the same for all bags, so there is nothing to learn, and the model predicts that number; check"
    assert found == [f"DistributionRegressor: {text} the targets"]
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


# --------------------------------------------------------------------------------------------------------------
# Settings
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "tune"), [("js", 2), ("js", None), ("l2", None), ("codebook-js", None)])
def test_learners_do_not_warn_of_settings_that_the_library_chose(name, tune):
    bags, severity = make_cells(30, random_state=0)
    model = de.DistributionRegressor(name, **FAST | {"tune": tune, "bandwidth_scales": (0.5,)})
    assert said(lambda: model.fit(bags, severity)) == []
    if name == "codebook-js":
        coarse = de.Bags.from_arrays([RNG.integers(0, 3, (20, 2)) for _ in range(20)])  # fewer points than words
        assert said(lambda: model.fit(coarse, SPREAD[:20])) == []
    else:
        assert model.embedding_.energy_ < 0.9


def test_what_the_user_chose_is_warned_of_once_unless_predictions_judged_it():
    model = de.DistributionRegressor(de.HDDEmbedding("js", n_basis=2), **FAST)
    text = (
        "HDDEmbedding: the basis functions capture less than 90% of the squared distances between the training bags' "
        "lambda functions (energy_), and what they miss is more than noise"
    )
    (found,) = said(lambda: model.fit(BAGS, SPREAD))
    assert found.startswith(text)
    assert said(lambda: model.set_params(tune=2).fit(BAGS, SPREAD)) == []


def test_the_same_thing_has_the_same_words_each_time():
    texts = set()
    for n_points in (20, 60, 90):
        rng = np.random.default_rng(n_points)
        bags = de.as_bags(rng.uniform(0.2, 0.8, (6, 1, 2)) + rng.uniform(-0.1, 0.1, (6, n_points, 2)))
        with pytest.warns(LowEnergyWarning) as seen:
            embedding = de.HDDEmbedding("js", n_basis=2, bandwidth=0.05).fit(bags)
        assert seen[0].message.energy == embedding.energy_
        assert seen[0].message.n_basis_functions == 4
        texts.add(str(seen[0].message))
    (text,) = texts
    assert text.endswith("raise n_basis or bandwidth_scale, or look at fewer dimensions at a time with Marginals")
    (alone,) = said(
        lambda: de.HDDEmbedding("js", n_basis=2, bandwidth=0.02).fit(bags[:2].replace(points=bags[:2].points[:, :1]))
    )
    assert alone.endswith("raise n_basis or bandwidth_scale")  # one dimension has no marginals


def test_training_bags_are_not_called_unlike_the_training_bags():
    rng = np.random.default_rng(0)  # bags that have little in common, more of them than nodes are drawn from
    bags = rng.uniform(0.1, 0.9, (60, 1, 5)) + rng.normal(0, 0.03, (60, 20, 5)).clip(-0.1, 0.1)
    embedding = de.HDDEmbedding("hellinger", n_basis=2, nodes=de.Importance(1024), bandwidth="scott", random_state=0)
    text = (
        "HDDEmbedding: the densities of training bags, of mass 1, have another mass on the nodes, off by a quarter and"
    )
    (found,) = said(lambda: embedding.fit(bags))
    assert found == f"{text} more, so distances are as far off; use more nodes, or a larger bandwidth"
    assert said(lambda: embedding.transform(bags)) == []
    assert said(lambda: de.DistributionRegressor(embedding, **FAST).fit(bags, bags[:, 0, 0])) == [found]


def test_strangers_are_told_once_and_in_the_same_words():
    near = 0.3 + 0.02 * np.random.default_rng(0).normal(size=(40, 30, 4))
    embedding = de.HDDEmbedding("hellinger", n_basis=2, bandwidth=0.05, nodes=de.Importance(1024), random_state=0)
    said(lambda: embedding.fit(near))
    assert said(lambda: embedding.transform(near)) == []
    found = said(lambda: embedding.transform(near + 0.4)) + said(lambda: embedding.transform(near[:7] + 0.5))
    assert len(found) == 2
    assert len(set(found)) == 1
    assert found[0].startswith("HDDEmbedding: some bags lie where few nodes are, unlike the training bags, so")


@pytest.mark.parametrize("command", ["embed", "distances"])
def test_the_command_line_names_remedies_that_it_has(command):
    text = Message(
        "raise ", Argument("n_basis"), " or use ", Argument("nodes", "importance"), " or ", Argument("Marginals")
    )
    assert in_options(UserWarning(text)) == "raise --set n_basis=... or use --set nodes=importance or --marginals"
    parameters = {option for each in command_of(command).params for option in each.opts}
    assert {"--set", "--marginals"} <= parameters


# --------------------------------------------------------------------------------------------------------------
# Features and models that tell nothing
# --------------------------------------------------------------------------------------------------------------


def apart(n_bags=40, n_dims=12, seed=0):
    """Bags whose Gaussian fits do not overlap."""
    rng = np.random.default_rng(seed)
    shapes, places = rng.normal(size=(n_bags, n_dims, n_dims)), 10 * rng.normal(size=(n_bags, 1, n_dims))
    return de.as_bags(rng.normal(size=(n_bags, 30, n_dims)) @ shapes + places)


HALVES = np.arange(40) % 2
REMEDY = "use embedding='auto' or another one, and check that y matches the right bags, or collect more"


def test_an_embedding_whose_features_are_orthogonal_says_so():
    (found,) = said(lambda: de.GaussianEmbedding(random_state=0).fit(apart()))
    assert found.startswith("GaussianEmbedding: the Gaussian fits of the training bags hardly overlap, so features")
    assert said(lambda: de.GaussianEmbedding(n_landmarks=15, random_state=0).fit(apart())) == [found]
    assert said(lambda: de.GaussianEmbedding("skl", random_state=0).fit(apart())) == []
    assert said(lambda: de.GaussianEmbedding(random_state=0).fit(BAGS)) == []


@pytest.mark.parametrize("learner", [de.DistributionRegressor, de.DistributionClassifier])
def test_a_learner_of_collapsed_features_says_so_once(learner):
    fault = "held-out bags are predicted no better than by a constant (search_)"
    orthogonal = "the features of all training bags are orthogonal"
    model = learner("bhattacharyya", **FAST | {"tune": 3})
    assert said(lambda: model.fit(apart(), HALVES)) == [f"{learner.__name__}: {fault}; {orthogonal}; {REMEDY}"]
    assert model.search_.gain < 3
    nothing = "so nothing can be learned from them"
    model.set_params(tune=None)
    assert said(lambda: model.fit(apart(), HALVES)) == [f"{learner.__name__}: {orthogonal}, {nothing}; {REMEDY}"]
    same = np.tile(RNG.normal(size=(1, 20, 2)), (40, 1, 1))
    for n_components in (20, None):
        model = learner("deviation", scale=None, **FAST | {"n_components": n_components})
        (found,) = said(lambda: model.fit(same, HALVES))  # noqa: B023
        assert found == f"{learner.__name__}: the features of all training bags are the same, {nothing}; {REMEDY}"


def test_a_model_that_is_no_better_than_a_constant_says_so():
    noise = np.random.default_rng(3).normal(size=30)
    model = de.DistributionRegressor("deviation", **FAST | {"tune": 3})
    text = "DistributionRegressor: held-out bags are predicted no better than by a constant (search_)"
    assert said(lambda: model.fit(BAGS, noise)) == [f"{text}; {REMEDY}"]
    assert said(lambda: model.fit(BAGS, SPREAD)) == []
    assert model.search_.gain > 3


def test_an_ensemble_that_is_no_better_than_a_constant_says_so():
    model = de.DistributionRegressor("mean", random_state=0)
    noise, nothing = np.random.default_rng(1).normal(size=30), {"age": np.random.default_rng(2).normal(size=30)}
    (found,) = said(lambda: model.fit(BAGS, noise, covariates=nothing))
    text = "held-out bags are not predicted clearly better than by a constant (leaderboard_); check that y matches the"
    assert found == f"DistributionRegressor: {text} right bags, or collect more bags"
    assert said(lambda: model.fit(BAGS, SPREAD, covariates={"spread": SPREAD})) == []


def test_random_features_of_rows_that_are_all_orthogonal_or_the_same_say_so():
    text = "so nothing can be learned from them; use another embedding"
    for rows, word in ((np.eye(20), "orthogonal"), (np.ones((20, 3)), "the same")):
        assert said(lambda: de.RandomFourierFeatures(10, random_state=0).fit(rows)) == [  # noqa: B023
            f"RandomFourierFeatures: the rows of X are all {word}, {text}"
        ]
    assert said(lambda: de.RandomFourierFeatures(10, random_state=0).fit(1e6 + RNG.normal(size=(20, 3)))) == []
