"""A head of scikit-learn's kind: held-out predictions, weights, several outputs, classes, and what is refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import ARDRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import distembed as de
from distembed.models.foreign_head import ForeignHead


def shifted(n, seed):
    """Bags whose first column is shifted, and the shifts."""
    rng = np.random.default_rng(seed)
    shift = rng.permutation(np.linspace(-1.5, 1.5, n))
    points = rng.normal(0, 0.4, size=(n, 10, 2))
    points[..., 0] += shift[:, None]
    return points, shift


OLD, SHIFT = shifted(36, 0)
NEW, NEW_SHIFT = shifted(40, 1)
SIDES = np.where(SHIFT > 0, "high", "low")
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
NUMBERS = np.column_stack([ROWS[:, 0] + 0.1 * RNG.normal(size=60), np.sin(2 * ROWS[:, 1])])
CODES = np.digitize(ROWS[:, 0] + 0.3 * RNG.normal(size=60), [-0.5, 0.5])
WEIGHT = RNG.uniform(0.2, 3, 60)
FOLDS = list(StratifiedKFold(4, shuffle=True, random_state=0).split(ROWS, CODES))


def test_held_out_predictions_are_those_of_clones_without_the_fold():
    head = ForeignHead(Ridge(2.0)).fit(ROWS, NUMBERS[:, 0], WEIGHT, FOLDS)
    for seen, held in FOLDS:
        by_hand = Ridge(2.0).fit(ROWS[seen], NUMBERS[seen, 0], WEIGHT[seen])
        np.testing.assert_allclose(head.held_out_[held, 0], by_hand.predict(ROWS[held]))
    whole = Ridge(2.0).fit(ROWS, NUMBERS[:, 0], WEIGHT)
    np.testing.assert_allclose(head.predict(ROWS)[:, 0], whole.predict(ROWS))
    again = head.refit(ROWS[:30], NUMBERS[:30, 0]).predict(ROWS)[:, 0]
    np.testing.assert_allclose(again, Ridge(2.0).fit(ROWS[:30], NUMBERS[:30, 0]).predict(ROWS))
    assert not hasattr(head, "held_out_")


@pytest.mark.parametrize("depth", [1, 2])
def test_pipelines_pass_weights_on_to_their_last_step(depth):
    pipeline = make_pipeline(StandardScaler(), Ridge(2.0))
    deep = pipeline if depth == 1 else make_pipeline(StandardScaler(), pipeline)
    head = ForeignHead(deep).fit(ROWS, NUMBERS[:, 0], WEIGHT, FOLDS)
    by_hand = pipeline.fit(ROWS, NUMBERS[:, 0], ridge__sample_weight=WEIGHT)
    np.testing.assert_allclose(head.predict(ROWS)[:, 0], by_hand.predict(ROWS))
    model = de.DistributionRegressor("mean", head=deep, random_state=0).fit(OLD, SHIFT)
    assert model.leaderboard_[0]["name"] == "mean, Ridge"
    assert model.score(NEW, NEW_SHIFT) > 0.75
    model.set_params(**{"head__ridge__alpha" if depth == 1 else "head__pipeline__ridge__alpha": 100.0})
    assert model.fit(OLD, SHIFT).predict(NEW).std() < 0.5 * NEW_SHIFT.std()


@pytest.mark.parametrize("wrap", [lambda head: head, lambda head: make_pipeline(StandardScaler(), head)])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_several_outputs_by_an_estimator_that_takes_one(wrap, weight):
    estimator = wrap(GradientBoostingRegressor(n_estimators=10, random_state=0))
    head = ForeignHead(estimator).fit(ROWS, NUMBERS, weight, FOLDS)
    assert head.held_out_.shape == head.predict(ROWS).shape == (60, 2)
    for j in range(2):
        alone = ForeignHead(estimator).fit(ROWS, NUMBERS[:, j], weight, FOLDS)
        np.testing.assert_allclose(head.held_out_[:, j], alone.held_out_[:, 0])
        np.testing.assert_allclose(head.predict(ROWS)[:, j], alone.predict(ROWS)[:, 0])


def test_several_outputs_by_an_estimator_that_takes_them():
    head = ForeignHead(KNeighborsRegressor(3)).fit(ROWS, NUMBERS, None, FOLDS)
    assert isinstance(head.estimator_, KNeighborsRegressor)
    np.testing.assert_allclose(head.predict(ROWS), KNeighborsRegressor(3).fit(ROWS, NUMBERS).predict(ROWS))


def test_weights_are_refused_where_the_estimator_takes_none():
    said = "head=KNeighborsRegressor: takes no sample_weight, got weights that differ; leave sample_weight"
    for estimator in (KNeighborsRegressor(3), make_pipeline(StandardScaler(), KNeighborsRegressor(3))):
        with pytest.raises(ValueError, match=said):
            ForeignHead(estimator).fit(ROWS, NUMBERS, WEIGHT, FOLDS)
        ForeignHead(estimator).fit(ROWS, NUMBERS, np.full(60, 3.0), FOLDS)  # equal weights say nothing
    model = de.DistributionClassifier("mean", head=KNeighborsClassifier(3), class_weight={"high": 2.0, "low": 1.0})
    with pytest.raises(ValueError, match=r"head=KNeighborsClassifier: .* leave sample_weight and class_weight out"):
        model.fit(OLD, SIDES)


@pytest.mark.parametrize("k", [2, 3])
def test_scores_become_probabilities_where_there_are_none(k):
    codes = np.minimum(CODES, k - 1)
    head = ForeignHead(LinearSVC(), n_classes=k, random_state=0).fit(ROWS, codes, WEIGHT, FOLDS)
    assert head.calibration_ is not None
    for found in (head.held_out_, head.predict(ROWS)):
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert log_loss(codes, found) < 0.75 * np.log(k)
    shuffled = np.random.default_rng(1).permutation(codes)
    fooled = ForeignHead(LinearSVC(), n_classes=k, random_state=0).fit(ROWS, shuffled, None, FOLDS)
    assert log_loss(shuffled, fooled.held_out_) > 0.9 * np.log(k)
    assert ForeignHead(RandomForestClassifier(5), n_classes=k).fit(ROWS, codes, None, FOLDS).calibration_ is None


@pytest.mark.parametrize("estimator", [LinearSVC(), RandomForestClassifier(10), KNeighborsClassifier(3)])
def test_a_class_that_a_fold_lacks_is_unlikely_there(estimator):
    codes = np.where(CODES == 2, 0, CODES)
    own = FOLDS[1][1][0]
    codes[own] = 2  # models without its fold do not know the class
    head = ForeignHead(estimator, n_classes=3, random_state=0).fit(ROWS, codes, None, FOLDS)
    assert head.held_out_.shape == (60, 3)
    np.testing.assert_allclose(head.held_out_.sum(axis=1), 1)
    assert head.held_out_[own, 2] < 0.3
    again = head.refit(ROWS[codes < 2], codes[codes < 2]).predict(ROWS)  # none of all rows has it
    np.testing.assert_allclose(again.sum(axis=1), 1)
    assert again[:, 2].max() < 0.3


def test_seeds_are_those_of_the_learner_where_the_estimator_has_none():
    head = ForeignHead(RandomForestClassifier(5), n_classes=3, random_state=7)
    found = [clone(head).fit(ROWS, CODES, None, FOLDS).predict(ROWS) for _ in range(2)]
    np.testing.assert_array_equal(*found)
    own = ForeignHead(RandomForestClassifier(5, random_state=1), n_classes=3, random_state=7)
    assert own.fit(ROWS, CODES, None, FOLDS).estimator_.random_state == 1


@pytest.mark.parametrize(
    ("learner", "head", "said"),
    [
        (
            de.DistributionRegressor,
            LinearSVC(),
            "must be a regressor, got LinearSVC, which is a classifier; choose one",
        ),
        (de.DistributionClassifier, Ridge(), "must be a classifier, got Ridge, which is a regressor; choose one for"),
        (de.DistributionRegressor, Ridge, "must be an estimator of scikit-learn's kind, got <class .*; pass an object"),
        (de.DistributionRegressor, StandardScaler(), "must be an estimator of scikit-learn's kind, got StandardScaler"),
        (de.DistributionRegressor, "ridge", "must be an estimator of scikit-learn's kind, got 'ridge'; pass an object"),
    ],
)
@pytest.mark.parametrize("embedding", ["auto", "mean", ["mean", "js"]])
def test_other_kinds_of_heads_are_refused(learner, head, said, embedding):
    y = SIDES if learner is de.DistributionClassifier else SHIFT
    with pytest.raises(TypeError, match=rf"{learner.__name__}\(head=...\): {said}"):
        learner(embedding, head=head).fit(OLD, y)


def test_weights_of_several_outputs_are_refused_by_the_name_of_the_head():
    with pytest.raises((ValueError, TypeError), match=r"head=ARDRegression.*sample_weight"):
        ForeignHead(ARDRegression()).fit(ROWS, NUMBERS, WEIGHT, FOLDS)
