"""Targets, weights and groups that have an index: by id, by position, or refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed import Bags
from distembed.bags.estimators import by_id
from distembed.learners import ConformalClassifier, ConformalRegressor, KernelSmoother, MixtureComponents
from distembed.two_sample import groups_test

N = 60
IDS = [f"town {i}" for i in range(N)]
RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(0.5, 2, N)
BAGS = Bags.from_arrays(list(RNG.normal(0, SPREAD[:, None, None], (N, 30, 1))), ids=IDS)
KIND = np.where(SPREAD > 1.2, "wide", "narrow")
WEIGHT = RNG.integers(1, 4, N).astype(float)
GROUPS = np.arange(N) % 7
FAST = {"n_components": 50, "tune": None, "random_state": 0}


def shuffled(values, seed=1):
    """The same, by id, in another order."""
    series = pd.Series(np.asarray(values), index=IDS)
    return series.sample(frac=1, random_state=seed)


def regressor(**given):
    return de.DistributionRegressor("deviation", **FAST | given)


def classifier(**given):
    return de.DistributionClassifier("deviation", model="ridge", **FAST | given)


# --------------------------------------------------------------------------------------------------------------
# The rule
# --------------------------------------------------------------------------------------------------------------


def test_an_index_that_is_the_ids_is_put_in_their_order():
    assert np.array_equal(by_id(shuffled(SPREAD), BAGS, "y"), SPREAD)
    frame = pd.DataFrame({"a": SPREAD, "b": WEIGHT}, index=IDS).sample(frac=1, random_state=0)
    assert np.array_equal(by_id(frame, BAGS, "y"), np.column_stack([SPREAD, WEIGHT]))


def test_without_an_index_without_ids_or_with_a_plain_range_values_go_by_position():
    for values in (SPREAD, SPREAD.tolist(), pd.Series(SPREAD), pd.Series(SPREAD, index=np.arange(60.0))):
        assert np.array_equal(by_id(values, BAGS, "y"), SPREAD)
    assert by_id(shuffled(SPREAD), BAGS.replace(ids=None), "y").tolist() == shuffled(SPREAD).tolist()
    assert by_id(None, BAGS, "y") is None
    twice = BAGS[[3, 3, 5]]  # a bootstrap of both: the index repeats as the ids do
    assert by_id(pd.Series(SPREAD, index=IDS).iloc[[3, 3, 5]], twice, "y").tolist() == SPREAD[[3, 3, 5]].tolist()
    assert by_id(pd.Series([2.0, 1.0], index=["town 5", "town 3"]), twice, "y").tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ([*IDS[1:], "village"], r"y: the index must hold .* it lacks 'town 0' and has 'village' besides; take y.loc"),
        (IDS[1:], r"it lacks 'town 0'; take"),
        ([*IDS, "village"], r"it has 'village' besides; take y.loc\[bags.ids\], .* y.to_numpy\(\) if rows are in the"),
        ([*IDS, "town 3"], "more than once: 'town 3'; the index of y must name each bag once"),
        (["twon 0", *IDS[1:]], r"lacks 'town 0' and has 'twon 0' besides \(is 'twon 0' meant for 'town 0'\?\)"),
    ],
)
def test_an_index_that_has_some_of_the_ids_is_refused(index, text):
    with pytest.raises(ValueError, match=text):
        by_id(pd.Series(0.0, index=index), BAGS, "y")


@pytest.mark.parametrize(
    "index", [[f"x{i}" for i in range(N)], np.arange(N)[::-1], np.arange(1, N + 1), np.arange(N) / 2]
)
def test_an_index_of_its_own_is_refused(index):
    with pytest.raises(
        ValueError, match=r"y: the index must be the ids of the bags, .*; use y.to_numpy\(\) if rows are"
    ):
        by_id(pd.Series(SPREAD, index=index), BAGS, "y")


def test_numbers_and_their_text_are_one_id():
    bags = Bags.from_arrays([[1.0], [2.0]], ids=["7", "8"])
    for index in ([8, 7], [8.0, 7.0], ["8", "7"]):
        assert by_id(pd.Series([1, 2], index=index), bags, "y").tolist() == [2, 1]
        assert bags.align(dict(zip(index, [1, 2], strict=True))).tolist() == [2, 1]
        assert bags.select(index).ids.tolist() == ["8", "7"]
    with pytest.raises(
        ValueError, match=r"got more than once: 7, '7' \(7 and '7' are one id\); targets must name each"
    ):
        bags.align({7: 1, "7": 2, 8: 3})
    with pytest.raises(ValueError, match=r"ids must be unique, got more than once: 7, '7' \(7 and '7' are one id\)"):
        Bags.from_arrays([[1.0], [2.0]], ids=[7, "7"])


def test_align_leaves_extra_ids_out_on_request():
    table = {**dict(zip(IDS, SPREAD, strict=True)), "village": 3.0}
    assert BAGS.align(table, extra="ignore").tolist() == SPREAD.tolist()
    with pytest.raises(ValueError, match="unknown: 'village'; leave those out, by extra='ignore'"):
        BAGS.align(table)
    with pytest.raises(ValueError, match=r"Bags.align\(extra=...\): must be one of 'error', 'ignore'"):
        BAGS.align(table, extra="drop")


def test_select_takes_bags_by_id():
    some = BAGS.select(["town 9", "town 2"])
    assert some == BAGS[[9, 2]]
    assert BAGS.select(BAGS.ids[3:5]) == BAGS[3:5]
    assert BAGS.select(pd.Index(IDS[:2])) == BAGS[:2]
    with pytest.raises(ValueError, match=r"unknown: 'twon 9' \(is 'town 9' meant for 'twon 9'\?\)"):
        BAGS.select(["twon 9"])
    with pytest.raises(TypeError, match=r"must be a sequence of ids, got 'town 9'; write \['town 9'\] for one bag"):
        BAGS.select("town 9")
    with pytest.raises(ValueError, match="select by positions"):
        BAGS[[1, 1]].select(["town 1"])


# --------------------------------------------------------------------------------------------------------------
# Who keeps it
# --------------------------------------------------------------------------------------------------------------


def test_learners_fit_refit_score_and_add_by_id():
    y, weight, groups = shuffled(SPREAD), shuffled(WEIGHT, 2), shuffled(GROUPS, 3)
    plain = regressor(tune=2).fit(BAGS, SPREAD, WEIGHT, GROUPS)
    model = regressor(tune=2).fit(BAGS, y, weight, groups)
    assert np.array_equal(model.predict(BAGS), plain.predict(BAGS))
    assert model.score(BAGS, y, weight) == plain.score(BAGS, SPREAD, WEIGHT) > 0.5
    assert np.array_equal(model.refit(BAGS, y, weight).predict(BAGS), plain.refit(BAGS, SPREAD, WEIGHT).predict(BAGS))
    more, same = regressor().partial_fit(BAGS, y, weight), regressor().partial_fit(BAGS, SPREAD, WEIGHT)
    assert np.array_equal(more.predict(BAGS), same.predict(BAGS))
    batches = regressor().fit_batches(lambda: iter([(BAGS, y, weight)]))
    assert np.allclose(batches.predict(BAGS), same.predict(BAGS))
    several = pd.DataFrame({"a": SPREAD, "b": -SPREAD}, index=IDS).sample(frac=1, random_state=0)
    assert regressor().fit(BAGS, several).score(BAGS, several) > 0.5


def test_classifiers_fit_and_score_by_id():
    model = classifier().fit(BAGS, shuffled(KIND), shuffled(WEIGHT, 2))
    plain = classifier().fit(BAGS, KIND, WEIGHT)
    assert np.array_equal(model.predict_proba(BAGS), plain.predict_proba(BAGS))
    assert model.score(BAGS, shuffled(KIND), shuffled(WEIGHT, 2)) == plain.score(BAGS, KIND, WEIGHT) > 0.8


@pytest.mark.parametrize("name", ["y", "sample_weight", "groups"])
def test_learners_refuse_some_of_the_ids_by_the_name_of_the_argument(name):
    given = {"y": SPREAD, name: pd.Series(1.0, index=[*IDS[1:], "village"])}
    with pytest.raises(ValueError, match=f"^{name}: the index must hold"):
        regressor().fit(BAGS, **given)


def test_smoothers_and_mixtures_go_by_id():
    plain = KernelSmoother("mmd").fit(BAGS, SPREAD, WEIGHT)
    model = KernelSmoother("mmd").fit(BAGS, shuffled(SPREAD), shuffled(WEIGHT, 2))
    assert np.array_equal(model.predict(BAGS), plain.predict(BAGS))
    assert model.score(BAGS, shuffled(SPREAD), shuffled(WEIGHT, 2)) == plain.score(BAGS, SPREAD, WEIGHT)
    responses = Bags.from_arrays(list(RNG.beta(2, 1 + SPREAD[:, None, None], (N, 20, 1))), ids=IDS)
    order = RNG.permutation(N)
    densities = KernelSmoother("mmd").fit(BAGS, responses[order])
    assert np.allclose(densities.predict(BAGS), KernelSmoother("mmd").fit(BAGS, responses).predict(BAGS))
    assert densities.score(BAGS, responses[order]) == densities.score(BAGS, responses)
    counts = MixtureComponents(max_components=2, random_state=0).fit(BAGS)
    found = counts.predict(BAGS).astype(float)
    found[0] += 1
    assert counts.score(BAGS, shuffled(found)) == counts.score(BAGS, found)


def test_conformal_learners_go_by_id():
    by = np.where(np.arange(N) % 2, "odd", "even")
    estimator = make_pipeline(de.MomentEmbedding("deviation"), Ridge(1e-3))
    plain = ConformalRegressor(estimator, coverage=0.6, random_state=0).fit(BAGS, SPREAD, WEIGHT, by=by)
    model = ConformalRegressor(estimator, coverage=0.6, random_state=0)
    model.fit(BAGS, shuffled(SPREAD), shuffled(WEIGHT, 2), by=shuffled(by, 3))
    expected = plain.predict_interval(BAGS, by=by)
    assert np.array_equal(model.predict_interval(BAGS, by=shuffled(by, 4)), expected)
    assert model.score(BAGS, shuffled(SPREAD)) == plain.score(BAGS, SPREAD)
    classes = make_pipeline(de.MomentEmbedding("deviation"), LogisticRegression())
    plain = ConformalClassifier(classes, random_state=0).fit(BAGS, KIND)
    model = ConformalClassifier(classes, random_state=0).fit(BAGS, shuffled(KIND))
    assert np.array_equal(model.predict_set(BAGS), plain.predict_set(BAGS))
    assert model.score(BAGS, shuffled(KIND)) == plain.score(BAGS, KIND)


def test_a_pipeline_that_would_go_by_position_is_refused():
    y = shuffled(SPREAD)
    pipeline = make_pipeline(de.MomentEmbedding("deviation"), Ridge())
    for step in (de.kernels.DivergenceMatrix("mmd"), de.kernels.NystroemFeatures("mmd"), MixtureComponents("bic")):
        with pytest.raises(ValueError, match=rf"{type(step).__name__}: y has the ids"):
            make_pipeline(step, Ridge()).fit(BAGS, y)
    with pytest.raises(ValueError, match=r"MomentEmbedding: y .* another order .* use bags.align\(y\)"):
        pipeline.fit(BAGS, y)
    assert pipeline.fit(BAGS, y.loc[BAGS.ids]).score(BAGS, BAGS.align(y)) > 0.5
    with pytest.raises(ValueError, match="the index must hold"):
        cross_val_score(regressor(), BAGS, y, error_score="raise")


def test_searches_that_split_bags_and_series_alike_work():
    y = pd.Series(SPREAD, index=IDS)
    search = GridSearchCV(regressor(), {"alphas": [(0.1,), (1.0,)]}, cv=3).fit(BAGS, y)
    assert search.best_score_ > 0.5


def test_pairs_that_share_some_ids_are_refused():
    x, y = BAGS[:6], BAGS[[0, 1, 2, 3, 4, 7]]
    with pytest.raises(ValueError, match="bag 5 is 'town 5' in X and 'town 7' in Y"):
        groups_test(x, y, "mmd", paired=True, n_permutations=9)
