"""The default ensemble: candidates, selection, what it predicts, what it refuses, and its file."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import distembed as de
from distembed.learners.batch import Checkpoint
from distembed.learners.candidates import Library, views_for
from distembed.learners.model import Model
from distembed.models.forest import ForestHead
from distembed.models.kernel_head import KernelHead
from distembed.models.wide_head import WideHead


@pytest.fixture(autouse=True, scope="module")
def few_folds_and_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)  # folds are drawn once
        patch.setattr("distembed.models.forest.FOLD_TREES", 8)
        patch.setattr(ForestHead.__init__, "__defaults__", ("forest", None, 8, None))
        yield


def shapes(n=48, seed=0):
    """Bags of equal mean and deviation: one bump or two."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, size=n)
    points = rng.normal(size=(n, 40, 1))
    two = np.sign(rng.normal(size=points.shape)) * 0.9 + np.sqrt(1 - 0.81) * points
    return np.where(kind[:, None, None] == 1, two, points), np.array(["one", "two"])[kind]


def spreads(n=48, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, size=n)
    return rng.normal(0, spread[:, None, None], size=(n, 20, 2)), spread


@pytest.fixture(scope="module")
def classifier():
    return de.DistributionClassifier("auto", random_state=0).fit(*shapes())


@pytest.fixture(scope="module")
def regressor():
    return de.DistributionRegressor("auto", random_state=0).fit(*spreads())


FEW_VIEWS = ["statistics", "mmd", "hellinger-marginals"]  # an ensemble as well, in a fraction of the time


def test_it_learns_what_means_do_not_show(classifier):
    bags, y = shapes(80, seed=1)
    assert classifier.score(bags, y) > 0.9
    by_name = {row["name"]: row for row in classifier.leaderboard_}
    assert by_name["mean, linear"]["score"] < -0.6  # no better than a coin
    assert classifier.leaderboard_[0]["score"] > -0.4


def test_numbers(regressor):
    bags, y = spreads(80, seed=1)
    assert regressor.score(bags, y) > 0.85
    assert regressor.predict(bags).shape == (80,)
    two = de.DistributionRegressor("auto", random_state=0).fit(
        spreads()[0], np.column_stack([spreads()[1], -spreads()[1]])
    )
    assert two.predict(bags).shape == (80, 2)


@pytest.mark.parametrize("model", ["classifier", "regressor"])
def test_the_leaderboard(model, request):
    fitted = request.getfixturevalue(model)
    rows = fitted.leaderboard_
    assert all(set(row) == {"name", "score", "standard_error", "weight", "seconds"} for row in rows)
    assert {"constant", "mean, linear"} <= {row["name"] for row in rows}
    assert len({row["name"] for row in rows}) == len(rows)
    assert rows[-1]["name"] == "ensemble"
    assert np.isnan(rows[-1]["weight"])
    scores = [row["score"] for row in rows.candidates]
    assert scores == sorted(scores, reverse=True)
    assert sum(row["weight"] for row in rows.candidates) == pytest.approx(1)
    assert fitted.scoring_ == {"classifier": "neg_log_loss", "regressor": "r2"}[model]


def test_probabilities(classifier):
    bags, _ = shapes(20, seed=2)
    found = classifier.predict_proba(bags)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(classifier.predict(bags), classifier.classes_[found.argmax(axis=1)])
    np.testing.assert_allclose(classifier.decision_function(bags), np.log(found[:, 1] / found[:, 0]))  # log odds


@pytest.mark.parametrize("model", ["classifier", "regressor"])
def test_files_hold_it(model, request, tmp_path):
    fitted = request.getfixturevalue(model)
    bags = (shapes if model == "classifier" else spreads)(20, seed=2)[0]
    de.save(fitted, tmp_path / "m")
    again = de.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), fitted.predict(bags))
    assert again.leaderboard_ == fitted.leaderboard_


def test_equal_seeds_give_equal_models_and_units_do_not_matter(regressor):
    bags, y = spreads()
    units = np.array([2.0**-20, 2.0**15])
    again = de.DistributionRegressor("auto", random_state=0).fit(bags * units + 3 * units, y)
    found = again.predict(bags[:20] * units + 3 * units)
    np.testing.assert_allclose(found, regressor.predict(bags[:20]), atol=1e-4)
    assert [row["name"] for row in again.leaderboard_[:3]] == [row["name"] for row in regressor.leaderboard_[:3]]


def test_categories():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=40)
    code = (rng.uniform(size=(40, 20)) < 0.3 + 0.4 * y[:, None]).astype(float)
    points = np.stack([rng.normal(size=(40, 20)), code], axis=2).reshape(-1, 2)
    bags = de.Bags(points, np.arange(41) * 20, columns=["age", "sex"], categories={"sex": ["f", "m"]})
    model = de.DistributionClassifier("auto", random_state=0).fit(bags[:30], y[:30])
    assert model.score(bags[30:], y[30:]) > 0.7


def test_more_bags_than_are_judged():
    bags, y = spreads(120)
    model = de.DistributionRegressor(FEW_VIEWS, max_search_bags=40, random_state=0).fit(bags, y)
    assert model.score(*spreads(60, seed=3)) > 0.85
    bags, y = shapes(120)
    model = de.DistributionClassifier(FEW_VIEWS, max_search_bags=40, random_state=0).fit(bags, y)
    assert model.score(*shapes(60, seed=3)) > 0.8


def test_a_time_limit_leaves_candidates_out():
    with pytest.warns(UserWarning, match="held-out bags are not predicted clearly .* or give a longer time_limit"):
        model = de.DistributionRegressor("auto", random_state=0, time_limit=1e-9).fit(*spreads(30))
    assert [row["name"] for row in model.leaderboard_.candidates if row["name"] != "mean, linear"] == ["constant"]


@pytest.mark.filterwarnings("ignore:DistributionClassifier. held-out bags are not predicted clearly")  # so much noise
def test_weights_of_classes_reach_the_ensemble():
    bags, y = shapes(44)
    rare = np.r_[np.flatnonzero(y == "one"), np.flatnonzero(y == "two")[:6]]
    noisy = bags[rare] + np.random.default_rng(1).normal(0, 1.5, size=bags[rare].shape)
    plain = de.DistributionClassifier(FEW_VIEWS, random_state=0).fit(noisy, y[rare])
    balanced = de.DistributionClassifier(FEW_VIEWS, class_weight="balanced", random_state=0).fit(noisy, y[rare])
    assert balanced.predict_proba(noisy)[:, 1].mean() > plain.predict_proba(noisy)[:, 1].mean() + 0.1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m, X: m.partial_fit(X, np.zeros(len(X))), "this one comes from fit; use refit with all bags"),
    ],
)
def test_what_an_ensemble_can_not_do_is_said(regressor, call, text):
    with pytest.raises(ValueError, match=text):
        call(regressor, spreads(10)[0])


def test_classes_of_one_bag_and_few_bags():
    bags, y = shapes(30)
    with pytest.raises(ValueError, match=r"at least two bags, got 1 of 'alone'"):
        de.DistributionClassifier("auto").fit(bags, np.r_[["alone"], y[1:]])
    with pytest.raises(ValueError, match=r"needs at least 6 bags"):
        de.DistributionRegressor("auto").fit(bags[:4], np.arange(4.0))
    rare = np.r_[np.flatnonzero(y == "one"), np.flatnonzero(y == "two")[:3]]
    with pytest.warns(UserWarning, match="class 'two' has so few bags that settings are scored on fewer folds"):
        de.DistributionClassifier("auto", random_state=0).fit(bags[rare], y[rare])


def test_laplace_kernels_are_tried_on_few_bags():
    views = views_for(de.Bags.from_arrays([np.zeros((4, 2))] * 5), 0, None)

    def kinds(n_bags):
        return {candidate.name.partition(", ")[2] for candidate in Library(np.arange(n_bags) % 2, 2, 0).of(views)}

    assert kinds(1000) - kinds(1001) == {"laplace", "forest"}
    assert kinds(1001) - kinds(1000) == {"rbf-ridge"}
    for head, wide in ((KernelHead("rbf"), True), (KernelHead("laplace"), False), (KernelHead("rbf", "svm", 2), False)):
        assert not isinstance(head.for_rows(3000), WideHead)
        head.scale_, head.alpha_, head.calibration_ = 1.0, 1.0, None
        head.penalty_ = 1.0
        assert isinstance(head.for_rows(3001), WideHead) == wide


def test_a_constant_target_is_learned_with_one_word():
    bags, _ = spreads(20)
    with pytest.warns(UserWarning, match="y is the same for all bags") as seen:
        model = de.DistributionRegressor(random_state=0).fit(bags, np.full(20, 0.1))
    assert len(seen) == 1
    assert model.predict(bags[:3]) == pytest.approx(0.1)


def test_a_column_that_training_bags_hardly_use_does_not_rule_new_bags():
    """A counter that one training bag has once: in its deviations, new bags that have it are far from everything."""
    (bags, y), (new, truth) = spreads(60), spreads(60, seed=1)
    rare, often = np.zeros((60, 20, 1)), np.zeros((60, 20, 1))
    rare[0, 0], often[:, :4] = 1.0, 40.0
    model = de.DistributionRegressor("auto", random_state=0).fit(np.concatenate([bags, rare], axis=2), y)
    plain = model.score(np.concatenate([new, 0 * often], axis=2), truth)
    assert plain > 0.85
    with pytest.warns(UserWarning, match="outside the range of the training points") as said:
        found = model.score(np.concatenate([new, often], axis=2), truth)
    assert found > 0  # not clipped it was -1e15
    assert len(said) == 1


def test_an_ensemble_is_the_weighted_mean_of_its_members(regressor):
    bags = de.as_bags(spreads(7, seed=5)[0])
    model = regressor.model_
    assert isinstance(model, Model)
    single = [Model(model.views, (member,), np.ones(1)).predict(bags) for member in model.members]
    wanted = np.tensordot(model.weights, np.stack(single), 1)
    np.testing.assert_allclose(model.predict(bags), wanted)
    np.testing.assert_allclose(model.predict(bags, at_once=3), wanted)


@pytest.mark.parametrize(("model", "make"), [("classifier", shapes), ("regressor", spreads)])
def test_refit_keeps_all_but_the_heads(model, make, request, tmp_path):
    fitted, (bags, y) = copy.copy(request.getfixturevalue(model)), make(60, seed=6)
    before = fitted.model_
    kept = before.predict(de.as_bags(bags))
    assert fitted.refit(*make()).model_ is not before
    same = fitted.model_.predict(de.as_bags(bags))  # but for the trees, which are grown anew
    np.testing.assert_allclose(same, kept, atol=0.1)
    fitted.refit(bags, y, np.r_[np.zeros(5), np.ones(55)])
    np.testing.assert_array_equal(before.predict(de.as_bags(bags)), kept)
    assert fitted.model_.weights is before.weights
    assert fitted.model_.views is before.views
    assert fitted.score(bags, y) > 0.9
    de.save(fitted, tmp_path / "m")
    again = de.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), fitted.predict(bags))
    np.testing.assert_array_equal(again.refit(bags, y).predict(bags), fitted.refit(bags, y).predict(bags))


# Batches


def batches(bags, y, size=20):
    return lambda start=0: iter([(bags[i : i + size], y[i : i + size]) for i in range(start * size, len(y), size)])


@pytest.mark.parametrize(
    ("learner", "make"), [(de.DistributionRegressor, spreads), (de.DistributionClassifier, shapes)]
)
def test_all_batches_are_learned_from(learner, make, tmp_path):
    bags, y = make(120)
    model = learner("auto", max_search_bags=40, random_state=0).fit_batches(batches(bags, y))
    assert model.n_batches_seen_ == 6
    heads = [head for _, head in model.model_.members if isinstance(head, WideHead)]
    assert heads
    assert {head.model_.learned().n_rows for head in heads} == {120}
    test = make(80, seed=1)
    assert model.score(*test) > 0.85
    de.save(model, tmp_path / "m")
    again = de.load(tmp_path / "m")
    np.testing.assert_allclose(again.model_.predict(de.as_bags(test[0])), model.model_.predict(de.as_bags(test[0])))
    more = make(40, seed=2)
    before = model.model_.predict(de.as_bags(test[0]))
    model.partial_fit(*more)
    assert not np.array_equal(model.model_.predict(de.as_bags(test[0])), before)
    assert model.score(*test) > 0.85


def test_bags_that_keep_arriving():
    bags, y = spreads(60)
    model = (
        de.DistributionRegressor("auto", random_state=0).partial_fit(bags[:30], y[:30]).partial_fit(bags[30:], y[30:])
    )
    assert model.score(*spreads(60, seed=1)) > 0.8
    with pytest.raises(ValueError, match="at least two bags, got 0 of 'three'"):
        de.DistributionClassifier("auto").partial_fit(*shapes(20), classes=["one", "two", "three"])


def test_interrupted_work_goes_on_to_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "seconds_between", -1.0)
    bags, y = spreads(80)
    made = batches(bags, y)

    def stops(start=0):
        for i, batch in enumerate(made(start)):
            if stops.calls > 1 and i == 2:
                raise KeyboardInterrupt
            yield batch

    def counted(start=0):
        stops.calls += 1
        return stops(start)

    stops.calls, path = 0, tmp_path / "work"
    model = de.DistributionRegressor(FEW_VIEWS, max_search_bags=40, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit_batches(counted, checkpoint=path)
    again = de.DistributionRegressor(FEW_VIEWS, max_search_bags=40, random_state=0).fit_batches(made, checkpoint=path)
    whole = de.DistributionRegressor(FEW_VIEWS, max_search_bags=40, random_state=0).fit_batches(made)
    np.testing.assert_allclose(again.predict(bags), whole.predict(bags), rtol=1e-9)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # three bags that were shifted
def test_members_are_few_where_bags_are_many_and_rare_classes_are_judged(monkeypatch):
    monkeypatch.setattr("distembed.learners.selection.MOST_FOR_KERNEL_MATRIX", 60)
    monkeypatch.setattr("distembed.learners.selection.MOST_MEMBERS", 2)
    bags, y = shapes(100)
    y[:3] = "new"
    bags[:3] += 5
    with pytest.warns(UserWarning, match="class 'new' has so few bags"):
        model = de.DistributionClassifier("auto", max_search_bags=40, random_state=0).fit(bags, y)
    assert sum(row["weight"] > 0 for row in model.leaderboard_) <= 3  # the constant too
    np.testing.assert_array_equal(model.predict(bags[:3]), ["new"] * 3)


def mixed(n=48, seed=0):
    """Bags of a skewed number and a category; their target is the mean rank of the one, and a share of the other."""
    rng = np.random.default_rng(seed)
    shift = rng.uniform(-1, 1, size=n)
    share = rng.uniform(size=n)
    numbers = [np.exp(2 * rng.uniform(m - 1, m + 1, size=30)) for m in shift]
    codes = [rng.uniform(size=30) < p for p in share]
    points = np.column_stack([np.concatenate(numbers), np.concatenate(codes)])
    bags = de.Bags(points, np.arange(0, 30 * n + 1, 30), columns=["price", "kind"], categories={1: ["old", "new"]})
    return bags, shift + 2 * share


def test_numbers_of_tables_with_categories_have_views_of_ranks(tmp_path):
    bags, y = mixed()
    names = [view.name for view in views_for(bags, 0, None)]
    assert {"rank-mean", "rank-covariance"} <= set(names)
    model = de.DistributionRegressor("rank-mean, rbf", random_state=0).fit(bags[:36], y[:36])
    assert model.score(bags[36:], y[36:]) > 0.6
    curved = bags.replace(points=np.column_stack([np.log(bags.points[:, 0]), bags.points[:, 1]]))
    again = de.DistributionRegressor("rank-mean, rbf", random_state=0).fit(curved[:36], y[:36])
    np.testing.assert_allclose(again.predict(curved[36:]), model.predict(bags[36:]), rtol=0.02, atol=0.02)
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict(bags), model.predict(bags))


def test_categories_alone_have_no_ranks_and_many_labels_no_covariances():
    codes = np.zeros((40, 1))
    of_categories = de.Bags(codes, [0, 20, 40], columns=["kind"], categories={0: ["a", "b"]})
    assert not any(view.name.startswith("rank") for view in views_for(of_categories, 0, None))
    labels = [f"label {i}" for i in range(50)]
    wide = de.Bags(np.zeros((40, 2)), [0, 20, 40], columns=["x", "kind"], categories={1: labels})
    names = {view.name for view in views_for(wide, 0, None)}
    assert {"moments", "rank-moments"} <= names
    assert not {"covariance", "fisher"} & names
