"""Probabilities of classes: models without some rows, the rows that are kept for that, and softmax on their scores."""

import warnings

import numpy as np
import pytest

import distembed as de
from distembed.models.calibration import MOST_TO_CALIBRATE, KeptRows, calibrate
from distembed.models.folds import inner_folds
from distembed.models.ridge import LinearRidge


@pytest.mark.parametrize("n_features", [5, 60])  # solved by columns, by rows
@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("asked", ["some", "all, in another order", "all"])
def test_a_model_without_some_rows_is_the_one_that_never_saw_them(n_features, batches, asked):
    rng = np.random.default_rng(0)
    Z, y, weight = rng.normal(size=(40, n_features)), rng.normal(size=(40, 2)), rng.uniform(0.5, 2, size=40)
    model = LinearRidge(0.3)
    if batches:
        model.partial_fit(Z[:25], y[:25], weight[:25]).partial_fit(Z[25:], y[25:], weight[25:])
    else:
        model.fit(Z, y, weight)
    order = rng.permutation(40)
    some = {"some": order[:24], "all, in another order": order, "all": np.arange(40)}[asked]
    parts = np.array_split(np.arange(20), 4)
    found = model.without(Z[some], y[some], weight[some], parts)
    for part in parts:
        kept = np.setdiff1d(np.arange(40), some[part])
        alone = LinearRidge(0.3).fit(Z[kept], y[kept], weight[kept])
        np.testing.assert_allclose(found[part], alone.predict(Z[some[part]]), rtol=1e-7, atol=1e-9)
    assert np.isnan(found[20:]).all()


def test_kept_rows_do_not_depend_on_how_they_come():
    rng = np.random.default_rng(0)
    codes, Z = rng.integers(0, 3, size=3000), rng.normal(size=(3000, 2))
    groups = np.repeat(np.arange(600), 5)

    def kept(step):
        found = KeptRows.of(3)
        for i in range(0, 3000, step):
            some = slice(i, i + step)
            found = found.add(codes[some], np.ones(len(codes[some])), groups[some], 7, lambda at, i=i: Z[i + at])
        return found

    one, many = kept(3000), kept(100)
    assert len(one.codes) == MOST_TO_CALIBRATE
    order, other = np.lexsort(one.rows.T), np.lexsort(many.rows.T)
    np.testing.assert_array_equal(one.rows[order], many.rows[other])
    assert one.grouped
    assert many.grouped
    np.testing.assert_allclose(np.bincount(many.codes, many.weights), np.bincount(codes))
    assert np.bincount(one.codes).min() > MOST_TO_CALIBRATE // 3 - 2
    assert len(np.unique(one.keys)) < 1.3 * MOST_TO_CALIBRATE / 5  # whole groups, nearly
    assert len(KeptRows.of(100).add(np.arange(4000) % 100, np.ones(4000), None, 0, lambda at: Z[at % 9]).codes) == 3000


def test_calibration_finds_the_frequencies_of_scores_in_any_unit():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-1, 2, size=4000)
    codes = (rng.uniform(size=4000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    folds = inner_folds(codes, None, 0)
    for unit in (1e-3, 1.0, 1e3):
        scores = unit * (np.stack([-log_odds, log_odds], axis=1) / 5 + 3)
        found = calibrate(scores, codes, np.ones(4000), 2, folds)[0].predict(scores)[:, 1]
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-log_odds)), atol=0.04)
    heavy = np.where(codes == 1, 5.0, 1.0)
    scores = np.stack([-log_odds, log_odds], axis=1)
    found = calibrate(scores, codes, heavy, 2, folds)[0].predict(scores)[:, 1]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-log_odds) / 5), atol=0.04)


def test_folds_have_all_classes_and_whole_groups():
    codes = np.repeat([0, 1], [50, 3])
    folds = inner_folds(codes, None, 0)
    assert len(folds) == 3
    assert all(set(codes[held]) == {0, 1} for _, held in folds)
    groups = np.repeat(np.arange(10), 6)
    for seen, held in inner_folds(np.tile([0, 1], 30), groups, 0):
        assert not set(groups[seen]) & set(groups[held])


# Learners


def unequal(n, shares, seed=0):
    """Bags of overlapping classes of these shares."""
    rng = np.random.default_rng(seed)
    codes = np.resize(np.repeat(np.arange(len(shares)), shares), n)
    means = np.array([[0.0, 0.0], [0.8, 0.0], [0.0, 0.8]])[codes]
    return rng.normal(means[:, None], 1.0, size=(n, 10, 2)), np.array(["a", "b", "c"])[codes]


def classifier(model, **given):
    settings = {"n_components": 60, "bandwidth_scales": (1.0,), "sigma_scales": (1.0, 2.0), "random_state": 0}
    return de.DistributionClassifier("mean", model=model, **settings | given)


@pytest.mark.parametrize("shares", [(9, 1), (12, 5, 3)], ids=["two", "three"])
@pytest.mark.parametrize("weights", [None, "balanced", {"b": 4.0}], ids=["none", "balanced", "dict"])
@pytest.mark.parametrize("model", ["logistic", "svm", "ridge"])
def test_the_likeliest_class_is_predicted_and_probabilities_hold(model, weights, shares):
    bags, y = unequal(200, shares)
    new, truth = unequal(2000, shares, seed=1)
    fitted = classifier(model, class_weight=weights).fit(bags, y)
    found = fitted.predict_proba(new)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.predict(new), fitted.classes_[found.argmax(axis=1)])
    weight = fitted.class_weight_[np.searchsorted(fitted.classes_, truth)]
    for k, name in enumerate(fitted.classes_):
        said, came = np.average(found[:, k], weights=weight), np.average(truth == name, weights=weight)
        assert said == pytest.approx(came, abs=0.07)
    held = found[np.arange(2000), np.searchsorted(fitted.classes_, truth)]
    frequent = np.bincount(np.searchsorted(fitted.classes_, truth), weight) / weight.sum()
    guess = -np.average(np.log(frequent[np.searchsorted(fitted.classes_, truth)]), weights=weight)
    assert -np.average(np.log(held), weights=weight) < 0.8 * guess


def test_ensembles_predict_the_likeliest_class():
    bags, y = unequal(60, (9, 1))
    given = {"covariates": {"sex": np.tile(["f", "m"], 30)}}
    fitted = de.DistributionClassifier("mean", class_weight="balanced", random_state=0).fit(bags, y, **given)
    found = fitted.predict_proba(bags, **given)
    np.testing.assert_array_equal(fitted.predict(bags, **given), fitted.classes_[found.argmax(axis=1)])
    assert (fitted.predict(bags, **given) == "b").mean() > 0.1


def test_batches_of_ridge_have_the_probabilities_of_fit(tmp_path):
    bags, y = unequal(120, (12, 5, 3))
    whole = classifier("ridge", tune=None).fit(bags, y)
    parts = classifier("ridge", tune=None)
    for some in (slice(0, 50), slice(50, 120)):
        parts.partial_fit(bags[some], y[some], classes=["a", "b", "c"])
    assert parts.predict_proba(bags).shape == (120, 3)
    batches = classifier("ridge", tune=None).fit_batches(lambda: iter([(bags, y)]), classes=["a", "b", "c"])
    np.testing.assert_allclose(batches.predict_proba(bags), whole.predict_proba(bags), atol=1e-6)
    for updatable in (False, True):
        de.save(parts, tmp_path / "m", updatable=updatable)
        np.testing.assert_array_equal(de.load(tmp_path / "m").predict_proba(bags), parts.predict_proba(bags))
    again = de.load(tmp_path / "m").partial_fit(bags[:30], y[:30])
    parts.partial_fit(bags[:30], y[:30])
    np.testing.assert_allclose(again.predict_proba(bags), parts.predict_proba(bags), rtol=1e-9)
    slim = tmp_path / "slim"
    de.save(parts, slim)
    assert slim.stat().st_size < (tmp_path / "m").stat().st_size


def test_a_class_that_no_bag_has_yet_is_not_likely():
    bags, y = unequal(60, (9, 1))
    fitted = classifier("ridge", tune=None).partial_fit(bags, y, classes=["a", "b", "c"])
    assert (fitted.predict_proba(bags)[:, 2] == 0).all()
    one = classifier("ridge", tune=None).partial_fit(bags[y == "a"], y[y == "a"], classes=["a", "b"])
    np.testing.assert_array_equal(one.predict_proba(bags[:3]), [[1, 0]] * 3)


def test_groups_are_left_out_together():
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(30), 6)
    y = np.where(of % 2, "odd", "even")  # nothing tells it but the group
    bags = rng.normal(rng.normal(0, 3, size=(30, 1, 2))[of], 0.3, size=(180, 10, 2))
    model = classifier("ridge", sigma_scales=(0.25, 0.5))
    with pytest.warns(UserWarning, match="no better than by a constant"):
        known = model.fit(bags, y, groups=of).predict_proba(bags)
    unknown = model.fit(bags, y).predict_proba(bags)
    assert known.max(axis=1).mean() < unknown.max(axis=1).mean() - 0.3


def test_neighbours_are_told_from_strangers_where_bags_are_many():
    """Scores of three classes in a row: that of the middle says which of the others it is, and a factor cannot."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-2, 2, size=2000)
    truth = np.exp(-((place[:, None] - np.array([-1.0, 0.0, 1.0])) ** 2))
    truth /= truth.sum(axis=1, keepdims=True)
    codes = (rng.uniform(size=(2000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    scores = np.stack([-place, 0 * place, place], axis=1) + np.array([[0.0, 0.3, 0.0]])
    turned = scores @ np.array([[1.0, 0.5, -0.5], [0.0, 1.0, 0.0], [0.5, -0.5, 1.0]])
    for n, most in ((2000, 0.03), (40, 0.2)):
        found, _ = calibrate(turned[:n], codes[:n], np.ones(n), 3, inner_folds(codes[:n], None, 0))
        assert np.abs(found.predict(turned) - truth).mean() < most


def test_support_vectors_without_held_out_bags_have_no_probabilities():
    bags, y = unequal(60, (9, 1))
    for fitted in (classifier("svm", tune=None), classifier("svm", tune=None).fit(bags, y)):
        assert not hasattr(fitted, "predict_proba")
        with pytest.raises(AttributeError) as caught:
            fitted.predict_proba(bags)
        assert "only where bags of all classes were held out" in str(caught.value)
    assert set(fitted.predict(bags)) <= {"a", "b"}
    assert hasattr(classifier("svm"), "predict_proba")
    one_value = classifier("svm", Cs=(1.0,)).fit(bags, y)
    assert one_value.best_params_["C"] == 1.0
    assert one_value.predict_proba(bags).shape == (60, 2)


def test_refit_calibrates_ridge_again_and_keeps_what_support_vectors_have():
    bags, y = unequal(120, (9, 3))
    for model in ("ridge", "svm"):
        fitted = classifier(model).fit(bags[:60], y[:60])
        before = fitted.calibration_
        fitted.refit(bags, y)
        assert (fitted.calibration_ is before) == (model == "svm")
        np.testing.assert_allclose(fitted.predict_proba(bags).sum(axis=1), 1)


def test_rare_classes():
    bags, y = unequal(40, (38, 2))
    with pytest.warns(UserWarning, match="class 'b' has so few bags that settings are scored on fewer folds"):
        assert classifier("logistic").fit(bags, y).search_.n_held_out == 40
    alone = np.r_[np.flatnonzero(y == "a"), np.flatnonzero(y == "b")[:1]]
    with pytest.raises(
        ValueError, match=r"at least two bags, got 1 of 'b'; add bags of it, leave it out, or name one .*tune=None"
    ):
        classifier("logistic").fit(bags[alone], y[alone])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in ("logistic", "svm", "ridge"):
            assert classifier(model, tune=None).fit(bags[alone], y[alone]).predict(bags).shape == (40,)
