"""Held-out bags: which they are, how a learner is scored on them, and that it learns from them in the end."""

import numpy as np
import pandas as pd
import pytest

import distembed as de
from distembed.learners.holdout import Holdout, choose_calibration, choose_test
from distembed.learners.scores import of_classes, of_numbers

RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(0.5, 2, 60)
BAGS = de.Bags.from_arrays(list(RNG.normal(0, SPREAD[:, None, None], (60, 20, 1))), ids=np.arange(60) + 100)
WIDE = np.where(SPREAD > 1.2, "wide", "narrow")
SITES = np.arange(60) % 6
SITES2 = np.arange(60) // 5  # a dozen


def regressor(**settings):
    return de.DistributionRegressor(**({"embedding": "deviation", "n_components": 20, "random_state": 0} | settings))


def classifier(**settings):
    return de.DistributionClassifier(**({"embedding": "deviation", "n_components": 20, "random_state": 0} | settings))


# Which bags


def test_groups_are_held_out_together():
    out = choose_test(np.zeros(60), False, SITES, 0.3, 0)
    assert set(SITES[out]).isdisjoint(SITES[~out])
    assert out.sum() == 20


def test_two_bags_of_every_class_are_left():
    y = np.repeat([0, 1, 2], [40, 2, 3])
    out = choose_test(y, True, None, 0.5, 0)
    assert np.bincount(y[~out]).tolist() == [20, 2, 2]
    assert not choose_test(np.zeros(100), False, None, 0, 0).any()
    assert choose_test(np.arange(100_000), False, None, None, 0).sum() == 2000


def test_a_class_of_held_out_groups_alone_is_refused():
    y = np.where(SITES == 3, "huge", "small")
    seeds = [seed for seed in range(20) if np.isin(3, SITES[choose_test(np.zeros(60), False, SITES, 0.3, seed)])]
    with pytest.raises(ValueError, match=r"class 'huge' is in groups alone .* add test=0, or try another random_state"):
        choose_test(y, True, SITES, 0.3, seeds[0])


def test_bags_that_calibrate():
    assert choose_calibration(100_000, None, None, 0.9, 0).sum() == 2000
    sites = np.repeat(np.arange(12), np.arange(1, 13))
    out = choose_calibration(78, sites, 0.75, 0.9, 0)
    assert len(set(sites[out])) == 9
    assert set(sites[out]).isdisjoint(sites[~out])


def test_too_few_bags_to_calibrate():
    said = "coverage=0.9 needs 9 bags that are kept out, and 4 of 20 would be; add test=0.45, or lower coverage"
    with pytest.raises(ValueError, match=f"^{said}$"):
        choose_calibration(20, None, None, 0.9, 0)
    with pytest.raises(ValueError, match=r"needs 9 groups that are kept out, and 2 of 6 would be; lower coverage$"):
        choose_calibration(60, SITES, None, 0.9, 0)


# Scores


def test_it_is_fit_predict_and_refit():
    model = regressor()
    found = model.fit_and_score(BAGS, SPREAD, test=0.25)
    out = choose_test(SPREAD, False, None, 0.25, 0)
    by_hand = regressor().fit(BAGS[~out], SPREAD[~out])
    np.testing.assert_array_equal(found.rows, out)
    np.testing.assert_array_equal(found.predicted, by_hand.predict(BAGS[out]))
    assert found.scores == of_numbers(SPREAD[out], found.predicted)
    assert (found.how, found.n_test, found.classes) == ("test", 15, None)
    by_hand.refit(BAGS, SPREAD)
    np.testing.assert_array_equal(model.predict(BAGS), by_hand.predict(BAGS))
    assert {"judging", "learning from all bags"} < set(found.seconds)
    assert str(found).startswith("15 held-out bags: RMSE ")


def test_classes_groups_and_probabilities():
    model = classifier()
    found = model.fit_and_score(BAGS, WIDE, test=0.3, groups=SITES)
    assert set(SITES[found.rows]).isdisjoint(SITES[~found.rows])
    assert found.probabilities.shape == (found.n_test, 2)
    expected = of_classes(WIDE[found.rows], found.predicted, model.classes_, found.probabilities, SITES[found.rows])
    assert found.scores == expected


def test_without_refit_held_out_bags_stay_unknown_and_can_calibrate():
    model = regressor()
    found = model.fit_and_score(BAGS, SPREAD, test=0.4, refit=False)
    np.testing.assert_array_equal(model.predict(BAGS[found.rows]), found.predicted)
    conformal = de.conformal.ConformalRegressor(model, prefit=True).calibrate(BAGS[found.rows], SPREAD[found.rows])
    np.testing.assert_allclose(np.sort(conformal.scores_), np.sort(np.abs(found.truth - found.predicted)))


def test_covariates_and_targets_by_id():
    order = np.random.default_rng(1).permutation(60)
    table = pd.DataFrame({"age": SPREAD + 1}, index=BAGS.ids)
    y = pd.Series(SPREAD, BAGS.ids)
    mask = np.arange(60) < 12
    settings = {"embedding": "mean", "n_components": 5000}
    one = regressor(**settings).fit_and_score(BAGS, y, test=mask, covariates=table)
    other = regressor(**settings).fit_and_score(BAGS, y.iloc[order], test=mask, covariates=table.iloc[order])
    np.testing.assert_array_equal(one.rows, mask)
    np.testing.assert_array_equal(one.predicted, other.predicted)
    assert one.scores["r2"].value > 0.5


def test_few_bags_are_left_out_one_by_one():
    found = regressor().fit_and_score(BAGS[:15], SPREAD[:15])
    assert (found.how, found.n_test, len(found.predicted)) == ("leave-one-out", 0, 15)
    assert found.rows.all()
    assert found.scores["r2"].value > 0
    nothing = classifier().fit_and_score(BAGS[:15], WIDE[:15])
    assert (nothing.how, nothing.scores, str(nothing)) == (None, {}, "no bags were held out")


def test_progress_hears_of_all_stages():
    class Bar:
        def __init__(self):
            self.seen = []

        def begin(self, stage, total):
            self.seen.append(stage)

        def advance(self, more):
            pass

    bar = Bar()
    regressor().fit_and_score(BAGS, SPREAD, progress=bar)
    assert bar.seen.index("judging") > bar.seen.index("choosing settings")
    assert bar.seen[-1] == "solving"


def test_a_state_of_a_generator_draws_other_bags_each_time():
    model = regressor(random_state=np.random.RandomState(0), tune=None)
    first, second = (model.fit_and_score(BAGS, SPREAD, test=0.2).rows for _ in range(2))
    assert (first != second).any()


def test_errors():
    for given, kind, said in [
        ({"y": np.stack([SPREAD, SPREAD], axis=1)}, ValueError, "fit_and_score: y must be one number a bag"),
        ({"test": 1.5}, ValueError, r"fit_and_score\(test=...\): must be a number in \[0, 0.9\]"),
        ({"test": np.ones(3, bool)}, ValueError, "fit_and_score: test must be one label per bag"),
        ({"groups": SITES[:5]}, ValueError, "fit_and_score: groups must be one label per bag"),
    ]:
        with pytest.raises(kind, match=said):
            regressor().fit_and_score(**({"X": BAGS, "y": SPREAD} | given))


def test_nothing_held_out():
    assert Holdout().scores == {}
    assert Holdout().n_test == 0


# Groups


def test_scores_have_errors_over_groups():
    """Ten hospitals with five copies of a patient each are ten observations, whichever score is shown."""
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 10))
    five = np.repeat(np.arange(10), 5)
    for name, wanted in of_numbers(truth, predicted).items():
        found = of_numbers(truth[five], predicted[five], groups=five)[name]
        assert found == pytest.approx(wanted), name
        assert of_numbers(truth[five], predicted[five])[name].standard_error < 0.6 * found.standard_error
    kinds, made = np.array(["a", "b"])[rng.integers(2, size=(2, 10))]
    for made_up in (made, kinds):  # some are right, all are right
        for name, wanted in of_classes(kinds, made_up).items():
            found = of_classes(kinds[five], made_up[five], groups=five)[name]
            assert found == pytest.approx(wanted), name


def test_fit_and_score_has_errors_over_groups():
    effect = np.random.default_rng(1).normal(size=12)[SITES2]
    found = regressor().fit_and_score(BAGS, SPREAD + effect, test=0.5, groups=SITES2)
    assert found.groups is not None
    plain = of_numbers(found.truth, found.predicted)["rmse"]
    assert found.scores["rmse"].value == pytest.approx(plain.value)
    assert found.scores["rmse"].standard_error > 1.2 * plain.standard_error
