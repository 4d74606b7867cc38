"""From bags to predictions: regression, classification, the search, and batches."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVC

import distembed as de
from distembed import Bags
from distembed.features import median_distance
from distembed.learners import DistributionClassifier, DistributionRegressor
from distembed.learners.batch import Checkpoint
from distembed.learners.search import (
    HeldOutRidge,
    Judged,
    Kernels,
    Trial,
    cautious_choice,
    gain,
    round_sizes,
    search,
    survivors,
    widen,
    width_name,
)
from distembed.learners.tuning import _Tuner
from distembed.learners.view import BagRows
from distembed.models.folds import folds_of, sample_rows
from distembed.models.held_out import downhill

FAST = {"n_components": 200, "random_state": 0}


def spreads(n_bags=120, n_points=40, seed=0, n_dims=1):
    """Bags of different spread, and the spreads."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(0.5, 2, size=n_bags)
    return rng.normal(0, y[:, None, None], size=(n_bags, n_points, n_dims)), y


def shapes(n_bags=120, n_points=60, seed=0):
    """One bump or two, of equal mean and variance; classes are words."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, size=n_bags)
    one = rng.normal(size=(n_bags, n_points, 1))
    two = 0.9 * np.sign(rng.normal(size=one.shape)) + np.sqrt(1 - 0.81) * one
    return np.where(kind[:, None, None] == 1, two, one), np.array(["one", "two"])[kind]


# --------------------------------------------------------------------------------------------------------------
# The search
# --------------------------------------------------------------------------------------------------------------


def test_dual_ridge_with_intercept_and_weights_is_ridge_on_the_features():
    rng = np.random.default_rng(0)
    Z, Y, w, new = rng.normal(3, 1, (30, 5)), rng.normal(size=(30, 2)), rng.uniform(0.2, 3, 30), rng.normal(size=(4, 5))
    for weight in (w, np.full(30, 2.5), np.ones(30)):
        dual = HeldOutRidge(Z @ Z.T, Y, weight, new @ Z.T)
        for alpha in (5.0, 0.1, 1.0):  # in any order
            expected = Ridge(alpha).fit(Z, Y, sample_weight=weight).predict(new)
            np.testing.assert_allclose(dual.predict(alpha), expected, rtol=1e-8)


def test_a_penalty_below_the_digits_of_the_kernel_gives_no_predictions():
    v = np.array([1.0, -1.0, 0.0])
    K = np.eye(3) - (1 + 1e-6) * np.outer(v, v) / 2  # of eigenvalue -1e-6
    assert HeldOutRidge(K, np.ones((3, 1)), np.ones(3), K).predict(1e-9) is None
    assert HeldOutRidge(K, np.ones((3, 1)), np.ones(3), K).predict(1e-3) is not None


def test_penalties_that_are_too_small_leave_the_rule_or_what_is_not():
    bags, y = spreads(30)
    bags, y = np.concatenate([bags, bags]), np.concatenate([y, y])  # a kernel that is singular
    model = de.DistributionRegressor("js", n_components=100, random_state=0)
    with pytest.warns(UserWarning, match="no better than by a constant"):
        nothing = model.set_params(alphas=(1e-300, 1e-30)).fit(bags, y)
    assert (nothing.best_params_["bandwidth_scale"], nothing.best_params_["sigma_scale"]) == (1.0, 1.0)
    assert str(nothing.search_).count("<") == 1
    assert model.set_params(alphas=(1e-300, 0.1)).fit(bags, y).best_params_["alpha"] == 0.1


@pytest.mark.parametrize("start", range(7))
def test_a_walk_downhill_ends_at_the_bottom_and_looks_at_nothing_twice(start):
    for bottom in range(7):
        seen = []
        assert downhill(lambda i, b=bottom, seen=seen: (seen.append(i), abs(i - b))[1], 7, start) == bottom
        assert len(seen) == len(set(seen)) <= abs(start - bottom) + 3


def test_one_binning_gives_the_features_of_every_bandwidth():
    bags = np.random.default_rng(0).beta(2, 3, size=(30, 50, 2))
    fitted = de.HDDEmbedding(bandwidth=0.05, nodes=de.Grid(40)).fit(bags)
    for factor, features in zip(
        [1.0, 1.5, 3.0], fitted.transform_wider(de.as_bags(bags), [1.0, 1.5, 3.0]), strict=True
    ):
        alone = de.HDDEmbedding(bandwidth=0.05 * factor, nodes=de.Grid(40)).fit(bags)
        alone_bins = alone.stages_.density.prepare(alone.nodes_, alone.bandwidth_, np.dtype(float)).n_bins
        tolerance = 1e-12 if alone_bins == (80, 80) else 2e-3  # wider kernels ask for fewer bins
        np.testing.assert_allclose(features, alone.transform(bags), atol=tolerance)


def test_other_densities_are_fitted_again_for_every_bandwidth():
    bags = de.as_bags(np.random.default_rng(0).beta(2, 3, size=(20, 50, 1)))
    fitted = de.HDDEmbedding(bandwidth=0.05, density="histogram").fit(bags)
    (features,) = fitted.transform_wider(bags, [2.0])
    alone = de.HDDEmbedding(bandwidth=0.05, bandwidth_scale=2.0, density="histogram").fit(bags)
    np.testing.assert_array_equal(features, alone.transform(bags))


def test_the_parameter_that_widens_an_embedding():
    assert width_name(de.HDDEmbedding()) == "bandwidth_scale"
    assert width_name(de.Marginals(de.HDDEmbedding())) == "embedding__bandwidth_scale"
    assert width_name(de.L2Embedding(method="points")) is None
    assert width_name(de.HistogramEmbedding()) == "bins"
    assert width_name(de.MeanEmbedding()) == "sigma_scale"
    assert width_name(de.MomentEmbedding()) is None
    assert widen(de.Marginals(de.HistogramEmbedding(bins=10)), 0.5).embedding.bins == 20
    assert widen(de.HistogramEmbedding(bins=2), 8.0).bins == 1
    assert widen(de.MeanEmbedding(sigma_scale=3.0), 0.5).sigma_scale == 0.75


def test_few_settings_see_all_bags_and_one_that_is_nearly_the_best_wins():
    bags, y = spreads(270)
    scaled = de.UnitCube().fit_transform(bags)
    folds = folds_of(3, y, None, False, np.random.RandomState(0))
    settings = {"bandwidth_scales": (0.5, 1.0, 2.0), "sigma_scales": (0.25, 0.5, 1.0, 2.0), "alphas": (0.01, 0.1, 1.0)}
    halving, everything = (
        search(
            de.HDDEmbedding(bandwidth=0.1), scaled, y[:, None], np.ones(270), folds, **settings, exhaustive=exhaustive,
            fewest_in_round=30, rng=np.random.RandomState(1),
        )
        for exhaustive in (False, True)
    )  # fmt: skip
    pairs = {n: {(t.bandwidth_scale, t.sigma_scale) for t in halving.trials if t.n_bags == n} for n in (30, 90, 270)}
    assert len(pairs[30]) == 12  # all
    assert len(pairs[270]) <= 5
    assert pairs[270] <= pairs[90] <= pairs[30]
    assert len(everything.trials) == 36
    assert {trial.n_bags for trial in everything.trials} == {270}
    assert everything.best.error == min(trial.error for trial in everything.trials)
    assert everything.best.error <= halving.best.error <= 1.05 * everything.best.error
    same = {(t.bandwidth_scale, t.sigma_scale, t.alpha): t.error for t in everything.trials}
    for trial in halving.trials:
        if trial.n_bags == 270:
            assert same[trial.bandwidth_scale, trial.sigma_scale, trial.alpha] == pytest.approx(trial.error, rel=1e-9)
    assert str(halving).count("<") == 1
    assert "held out" in str(halving)


def judged(*squares, setting=1.0):
    """A trial with these squared errors."""
    return Judged(Trial(setting, None, 0.1, float(np.mean(squares)), len(squares)), np.array(squares, float))


def test_a_gain_is_counted_in_standard_errors_of_the_difference():
    one, other = judged(3.0, 5.0, 4.0, 4.0), judged(2.0, 2.0, 2.0, 2.0)
    difference = np.array([1.0, 3.0, 2.0, 2.0])
    assert gain(one, other) == pytest.approx(difference.mean() / (difference.std() / 2))
    assert gain(other, one) == -gain(one, other)
    assert gain(one, one) == 0
    shifted = judged(*(one.squares + 1))  # no spread of the difference: nothing to count in
    assert gain(one, shifted) == 0
    impossible = judged(np.inf, np.inf, np.inf, np.inf)  # a penalty below the digits of the kernel
    assert gain(impossible, one) == np.inf
    assert gain(one, impossible) == -np.inf
    assert gain(impossible, impossible) == 0


def test_survivors_are_not_clearly_worse_than_the_best():
    best, near, far = judged(1.0, 2.0, 3.0), judged(2.0, 1.0, 3.5), judged(5.0, 6.1, 7.0)
    assert survivors([far, near, best], 10) == [near, best]  # in the order in which they came
    assert survivors([far, near, best], 1) == [best]
    assert survivors([best], 5) == [best]


def test_settings_that_can_not_matter_do_not_survive():
    noise, common = np.random.default_rng(0).normal(size=(2, 4000))
    noise -= noise.mean()
    best = judged(*(1.0 + 0.1 * common))
    same = judged(*(best.squares + 0.001 + 0.002 * noise))  # worse, and it would matter little if it were not
    unclear = judged(*(best.squares + 0.001 + noise))
    assert survivors([same, best, unclear], 5) == [best, unclear]
    assert survivors([best, judged(*np.full(4000, np.inf))], 5) == [best]


def test_kernels_of_one_projection_are_those_of_random_features():
    F = np.random.default_rng(0).normal(size=(40, 60)) + 5.0
    kernels = Kernels(F, 200, seed=3, n_jobs=1)
    sigma = median_distance(F, np.random.RandomState(3))
    for scale in (0.5, 1.0, 4.0):
        X = (F - F.mean(axis=0)) / (scale * sigma)
        rows = de.RandomFourierFeatures(200, sigma=1.0, random_state=3).fit_transform(X)
        np.testing.assert_allclose(kernels(scale), rows @ rows.T, atol=2e-5)


def test_the_cautious_choice_leaves_the_first_for_a_clear_gain_alone():
    rule, noisy, clear = judged(2.0, 2.0, 2.0, 2.0), judged(0.0, 4.5, 0.0, 3.4), judged(1.0, 1.1, 0.9, 1.0)
    assert noisy.trial.error < rule.trial.error
    assert cautious_choice([rule, noisy]) is rule
    assert cautious_choice([rule, noisy, clear]) is clear
    assert cautious_choice([clear, rule]) is clear


def test_rounds_have_three_times_as_many_bags_each():
    for n in (5, 399, 1200, 4000, 100_000):
        sizes = round_sizes(n)
        assert sizes[-1] == n
        assert all(after // 3 == before for before, after in pairwise(sizes))
        assert sizes[0] == n or 400 <= sizes[0] < 1200


def test_another_setting_must_be_better_by_half_a_standard_error():
    bags, y = spreads(60)
    scaled = de.UnitCube().fit_transform(bags)
    A = de.HDDEmbedding().fit_transform(scaled)
    d2, median = ((A[:, None] - A) ** 2).sum(axis=-1), median_distance(A, np.random.RandomState(1))
    folds = folds_of(3, y, None, False, np.random.RandomState(0))
    moved = []
    for seed in range(12):
        target = y + np.random.default_rng(seed).normal(0, 0.5, size=60)
        squares = []
        for sigma in (1.0, 1.5):
            K = np.exp(-d2 / (2 * (sigma * median) ** 2))
            parts = [
                HeldOutRidge(K[np.ix_(t, t)], target[t, None], np.ones(len(t)), K[np.ix_(h, t)]).predict(0.3)[:, 0]
                - target[h]
                for t, h in folds
            ]
            squares.append(np.concatenate(parts) ** 2)
        gain = squares[0] - squares[1]
        found = search(
            de.HDDEmbedding(), scaled, target[:, None], np.ones(60), folds, bandwidth_scales=(1.0,), alphas=(0.3,),
            sigma_scales=(1.0, 1.5), rng=np.random.RandomState(1),
        )  # fmt: skip
        moved.append(found.best.sigma_scale == 1.5)
        assert moved[-1] == (gain.mean() > gain.std() / np.sqrt(60) / 2)
    assert 0 < sum(moved) < 12  # both happen


def test_errors_of_the_search_are_those_of_the_models_by_hand():
    bags, y = spreads(60)
    scaled = de.UnitCube().fit_transform(bags)
    train, held = folds_of("holdout", y, None, False, np.random.RandomState(0))[0]
    found = search(
        de.HDDEmbedding(), scaled, y[:, None], np.ones(60), [(train, held)], bandwidth_scales=(1.0,),
        sigma_scales=(1.0,), alphas=(0.3,), rng=np.random.RandomState(1),
    )  # fmt: skip
    A = de.HDDEmbedding().fit_transform(scaled)
    d2 = ((A[:, None] - A) ** 2).sum(axis=-1)
    K = np.exp(-d2 / (2 * median_distance(A, np.random.RandomState(1)) ** 2))
    centring = np.eye(len(train)) - 1 / len(train)
    Kt, rows = K[np.ix_(train, train)], K[np.ix_(held, train)]
    model = KernelRidge(alpha=0.3, kernel="precomputed").fit(centring @ Kt @ centring, y[train] - y[train].mean())
    predicted = (rows - Kt.mean(axis=0)) @ centring @ model.dual_coef_ + y[train].mean()
    assert found.best.error == pytest.approx(np.mean((predicted - y[held]) ** 2) / y.var(), rel=1e-8)


@pytest.mark.parametrize("how", ["holdout", 3])
def test_groups_stay_together_and_classes_are_spread(how):
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(12), 5)
    for train, held in folds_of(how, np.zeros(60), groups, False, rng):
        assert not set(groups[train]) & set(groups[held])
    classes = np.repeat([0, 1], [50, 10])
    for _, held in folds_of(how, classes, None, True, rng):
        assert np.mean(classes[held]) == pytest.approx(1 / 6, abs=0.06)
    some = sample_rows(60, 17, groups, rng)
    assert len(some) <= 17
    assert all(np.sum(groups[some] == g) == 5 for g in np.unique(groups[some]))


# --------------------------------------------------------------------------------------------------------------
# Regression and classification
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedding", ["js", "l2", "mmd-spectrum", "histogram-js", "covariance"])
def test_regression_by_any_embedding_beats_the_mean_by_far(embedding):
    bags, y = spreads(160)
    model = DistributionRegressor(embedding, **FAST).fit(bags[:120], y[:120])
    assert model.score(bags[120:], y[120:]) > 0.7
    assert set(model.best_params_) == {"bandwidth_scale", "sigma_scale", "alpha"}


def test_objects_wrappers_and_features_without_random_ones():
    bags, y = spreads(100, n_dims=2)
    for embedding in (
        de.HDDEmbedding("tv", n_basis=4),
        de.Marginals(de.HDDEmbedding("hellinger")),
        de.MomentEmbedding("deviation"),
    ):
        for n_components in (200, None):
            model = DistributionRegressor(embedding, n_components=n_components, random_state=0)
            assert model.fit(bags[:80], y[:80]).score(bags[80:], y[80:]) > 0.5
    assert (
        embedding.get_params() == de.MomentEmbedding("deviation").get_params()
    )  # what the user passed stays as it was


def test_a_model_is_its_stages_one_after_the_other():
    bags, y = spreads(60)
    model = DistributionRegressor("js", **FAST).fit(bags, y)
    Z = model.features_.transform(model.embedding_.transform(model.scaler_.transform(bags)))
    np.testing.assert_array_equal(model.transform_features(bags), Z)
    by_hand = Ridge(model.best_params_["alpha"]).fit(Z, y)
    np.testing.assert_allclose(model.predict(bags), by_hand.predict(Z), rtol=1e-7)
    assert model.embedding_.bandwidth_scale == model.best_params_["bandwidth_scale"]
    assert set(model.timings_) >= {"scaling", "search", "embedding", "random features", "linear model"}


def test_primal_and_dual_agree(monkeypatch):
    bags, y = spreads(100)
    dual = DistributionRegressor("js", n_components=120, tune=None, random_state=0).fit(bags, y)
    monkeypatch.setattr(BagRows, "values_at_once", 120 * 30)
    parts = DistributionRegressor("js", n_components=90, tune=None, random_state=0).fit(bags, y)
    Z = parts.transform_features(bags)
    np.testing.assert_allclose(parts.predict(bags), Ridge(0.1).fit(Z, y).predict(Z), rtol=1e-6)
    np.testing.assert_allclose(dual.predict(bags), parts.predict(bags), atol=0.2)


def test_several_outputs_deviations_and_weights():
    bags, y = spreads(80)
    Y = np.stack([y, y**2], axis=1)
    model = DistributionRegressor("js", **FAST).fit(bags, Y)
    predicted, deviation = model.predict(bags, return_std=True)
    assert predicted.shape == deviation.shape == (80, 2)
    assert np.all(deviation > 0)
    weight = np.r_[np.ones(60), np.zeros(20)]
    wrong = np.r_[y[:60], np.full(20, 99.0)]
    weighted = DistributionRegressor("js", **FAST).fit(bags, wrong, sample_weight=weight)
    alone = DistributionRegressor("js", **FAST).fit(bags[:60], y[:60])
    np.testing.assert_allclose(weighted.predict(bags), alone.predict(bags), rtol=1e-9)


def test_a_model_explains_its_predictions():
    bags, y = spreads(60)
    model = DistributionRegressor("js", **FAST).fit(bags, y)
    why = model.explain(bags[:5])
    np.testing.assert_allclose(why.predictions, model.predict(bags[:5]), rtol=1e-9)
    assert why.points.shape == (5 * 40,)


@pytest.mark.parametrize("model", ["logistic", "svm", "ridge"])
def test_classification(model):
    bags, y = shapes()
    fitted = DistributionClassifier("js", model=model, **FAST).fit(bags[:80], y[:80])
    assert fitted.score(bags[80:], y[80:]) > 0.85
    assert fitted.classes_.tolist() == ["one", "two"]
    found = fitted.predict_proba(bags)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found[:, 1] > 0.5, fitted.predict(bags) == "two")
    assert np.corrcoef(found[:, 1], fitted.decision_function(bags))[0, 1] > 0.9


@pytest.mark.parametrize("n_components", [None, 100])
@pytest.mark.parametrize("model", ["svm", "logistic"])
def test_the_C_of_least_loss_on_held_out_bags_is_chosen(monkeypatch, model, n_components):
    """The oracle tries every C, by the kernel that the features approximate, with scikit-learn's defaults."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=60)
    bags = rng.normal(0.4 * labels[:, None, None], 1, size=(60, 20, 2)) / 10 + 0.5
    embedding, seen, name = de.HistogramEmbedding(bins=(6, 12)), [], f"_choose_{model}"
    own = getattr(_Tuner, name)
    monkeypatch.setattr(_Tuner, name, lambda self, *given: seen.append(given) or own(self, *given))
    settings = {"bandwidth_scales": (1.0,), "sigma_scales": (1.0,), "n_components": n_components, "random_state": 0}
    learner = DistributionClassifier(embedding, model=model, scale=None, **settings).fit(bags, labels)
    ((_, (chosen_from, y, *_), folds, *_),) = seen

    F = embedding.fit(chosen_from).transform(chosen_from).astype(float)
    F -= F.mean(axis=0)
    assert F.shape[1] > len(F)
    K = F @ F.T / np.mean(np.sum(F**2, axis=1))
    if n_components is not None:
        K = np.exp(-np.sum((F[:, None] - F) ** 2, axis=2) / (2 * np.median(pdist(F)) ** 2))
    Z = np.linalg.cholesky(K + 1e-6 * np.eye(60))

    def loss(C, train, held):
        if model == "logistic":
            one = LogisticRegression(C=C, max_iter=1000).fit(Z[train], y[train])
            return log_loss(y[held], one.predict_proba(Z[held]), normalize=False)
        values = LinearSVC(C=C, random_state=0).fit(Z[train], y[train]).decision_function(Z[held])
        return np.sum(np.maximum(0, 1 - np.where(y[held][:, None] == np.arange(3), 1, -1) * values) ** 2)

    losses = [sum(loss(C, *fold) for fold in folds) for C in learner.Cs]
    assert learner.best_params_["C"] == learner.Cs[int(np.argmin(losses))] not in (learner.Cs[0], learner.Cs[-1])


def test_three_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=120)
    bags = rng.normal(y[:, None, None], 1, size=(120, 30, 1))
    for model in ("logistic", "svm", "ridge"):
        fitted = DistributionClassifier("hellinger", model=model, **FAST).fit(bags[:90], y[:90])
        assert fitted.decision_function(bags).shape == (120, 3)
        assert fitted.score(bags[90:], y[90:]) > 0.9


def test_scikit_learn_can_clone_pickle_and_search():
    bags, y = spreads(60)
    bags = de.as_bags(bags)
    model = DistributionRegressor("js", **FAST, tune=None)
    assert cross_val_score(model, bags, y, cv=3).mean() > 0.5
    found = GridSearchCV(model, {"embedding": ["js", "hellinger"], "n_components": [50, 100]}, cv=2).fit(bags, y)
    assert found.best_score_ > 0.5
    fitted = clone(model).fit(bags, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(bags), fitted.predict(bags))
    np.testing.assert_array_equal(clone(fitted).fit(bags, y).predict(bags), fitted.predict(bags))


def test_groups_are_respected_and_few_bags_are_not_searched():
    bags, y = spreads(40)
    model = DistributionRegressor("js", tune=4, **FAST).fit(bags, y, groups=np.repeat(np.arange(8), 5))
    assert model.search_.n_held_out == 40
    tiny = DistributionRegressor("js", scale=de.UnitCube((-10, 10)), **FAST).fit(bags[:3], y[:3])
    assert tiny.search_ is None
    assert np.all(np.isfinite(tiny.predict(bags)))


def test_categorical_columns():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    share = rng.uniform(size=60)
    rows = [
        pd.DataFrame({"bag": i, "x": rng.uniform(size=50), "kind": np.where(rng.uniform(size=50) < s, "a", "b")})
        for i, s in enumerate(share)
    ]
    bags = Bags.from_frame(pd.concat(rows), bag="bag", columns=["x", "kind"], categorical=["kind"])
    model = DistributionRegressor("hellinger", **FAST).fit(bags[:45], share[:45])
    assert model.score(bags[45:], share[45:]) > 0.7


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"embedding": "jss"}, ValueError, r"DistributionRegressor\(embedding=...\): no embedding is called 'jss'"),
        ({"embedding": de.HDDEmbedding}, TypeError, r"DistributionRegressor\(embedding=...\)"),
        ({"n_components": 0}, ValueError, r"n_components=...\): must be"),
        ({"tune": "cv"}, ValueError, r"tune=...\): must be one of 'auto', 'holdout'"),
        ({"tune": 1}, ValueError, r"tune=...\): must be"),
        ({"alphas": 0.1}, TypeError, r"alphas=...\): must be a sequence"),
        ({"alphas": (0.0,)}, ValueError, r"alphas=...\): must be"),
        ({"scale": "minmax"}, ValueError, r"scale=...\): must be one of 'auto'"),
        ({"scale": 5}, TypeError, r"Regressor\(scale=...\): must be 'auto', None or a scaler"),
        ({"n_components": 7}, ValueError, r"Regressor\(n_components=...\): must be even, .* use 8"),
    ],
)
def test_bad_parameters_are_named(parameters, error, words):
    with pytest.raises(error, match=words):
        DistributionRegressor(**{"embedding": "js"} | parameters).fit(*spreads(10))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, 2.0], r"one number, or one row, a bag, got shape \(2,\) for 5 bags"),
        ([1.0, 2.0, np.nan, 4.0, 5.0], "must be finite, got nan for bag 2"),
        (["a", "b", "c", "d", "e"], "use DistributionClassifier"),
        (["1", "2", "3", "4", "5"], "y must be numbers"),
        (np.array(["1", "2", "3", "4", "5"], object), "y must be numbers"),
        (np.arange(5) + 1j, "y must be numbers"),
        (np.arange(5).astype("datetime64[s]"), "y must be numbers"),
    ],
)
def test_bad_targets_are_named(y, words):
    with pytest.raises((ValueError, TypeError), match=words):
        DistributionRegressor().fit(spreads(5)[0], y)


def test_bad_classes_weights_and_groups_are_named():
    bags, y = shapes(10)
    with pytest.raises(ValueError, match="at least two classes, got"):
        DistributionClassifier().fit(bags, ["a"] * 10)
    with pytest.raises(ValueError, match="one class per bag"):
        DistributionClassifier().fit(bags, y[:4])
    with pytest.raises(ValueError, match="sample_weight must be one finite number"):
        DistributionClassifier().fit(bags, y, sample_weight=np.zeros(10))
    with pytest.raises(ValueError, match="groups must be one label per bag"):
        DistributionClassifier().fit(bags, y, groups=[1, 2])
    with pytest.raises(ValueError, match="groups must be at least two"):
        DistributionClassifier().fit(bags, y, groups=np.ones(10))
    with pytest.raises(TypeError, match="groups must be labels of one kind"):
        DistributionClassifier().fit(bags, y, groups=np.array([1, "a"] * 5, object))
    for missing in (None, np.nan):
        with pytest.raises(ValueError, match=f"groups must have no missing labels, got {missing} for bag 0; give"):
            DistributionClassifier().fit(bags, y, groups=np.array([missing, "a"] * 5, object))
    with pytest.raises(ValueError, match="groups must have no missing labels, got nan for bag 9; give"):
        DistributionClassifier().fit(bags, y, groups=np.append(np.arange(9.0), np.nan))
    with pytest.raises(TypeError, match="sample_weight must be numbers"):
        DistributionClassifier().fit(bags, y, sample_weight=["a"] * 10)
    for wrong in ([np.nan, 1.0] * 5, np.linspace(0, 1, 10), np.array(["a", None] * 5, object)):
        with pytest.raises(ValueError, match="DistributionClassifier: y must be classes"):
            DistributionClassifier().fit(bags, wrong)
    for Cs, error in ((1.0, TypeError), ((), TypeError), ((-1.0,), ValueError)):
        with pytest.raises(error, match=r"DistributionClassifier\(Cs=...\): must be"):
            DistributionClassifier("js", Cs=Cs).fit(bags, y)


def test_before_fit_nothing_is_predicted():
    bags, _ = shapes(3)
    for predict in (
        DistributionRegressor().predict,
        DistributionClassifier().predict,
        DistributionClassifier().decision_function,
        DistributionClassifier().predict_proba,
    ):
        with pytest.raises(NotFittedError):
            predict(bags)


@pytest.mark.parametrize("embedding", ["mmd", "codebook-js", "sliced-wasserstein", "fisher"])
def test_the_same_random_state_gives_the_same_search(embedding):
    bags, y = spreads(30, n_dims=2)
    one, two = (
        DistributionRegressor(embedding, n_components=20, sigma_scales=(1.0,), n_jobs=n_jobs, random_state=0).fit(
            bags, y
        )
        for n_jobs in (1, 2)
    )
    assert one.search_.trials == two.search_.trials
    np.testing.assert_array_equal(one.predict(bags), two.predict(bags))


def test_an_embedding_keeps_its_own_random_state():
    bags, y = spreads(10)
    model = DistributionRegressor(de.MeanEmbedding(random_state=5), tune=None, **FAST).fit(bags, y)
    assert model.embedding_.random_state == 5
    inner = DistributionRegressor(de.Marginals(de.MeanEmbedding()), tune=None, **FAST).fit(bags, y)
    assert inner.embedding_.embedding.random_state is not None


@pytest.mark.parametrize(("scale", "offset"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 1e4)])
def test_without_random_features_penalties_do_not_depend_on_units(scale, offset):
    rng = np.random.default_rng(0)
    y = rng.normal(size=90)
    bags = y[:, None, None] + rng.normal(size=(90, 20, 1))
    model, other = (DistributionRegressor("mean", n_components=None, random_state=0) for _ in range(2))
    model.fit(bags[:60], y[:60])
    other.fit(scale * bags[:60] + offset, y[:60])
    assert other.best_params_ == model.best_params_
    np.testing.assert_allclose(other.predict(scale * bags + offset), model.predict(bags), atol=1e-6)
    batches = DistributionRegressor("mean", n_components=None, random_state=0)
    batches.fit_batches(batches_of(scale * bags[:60] + offset, y[:60]))
    assert batches.score(scale * bags[60:] + offset, y[60:]) > 0.9


def test_one_value_alone_counts_without_a_search():
    bags, y = spreads(10)
    settings = {"bandwidth_scales": (2.0,), "sigma_scales": (0.5,), "alphas": (3.0,)}
    model = DistributionRegressor("js", tune=None, **settings, **FAST).fit(bags, y)
    assert model.best_params_ == {"bandwidth_scale": 2.0, "sigma_scale": 0.5, "alpha": 3.0}
    assert model.embedding_.bandwidth_scale == 2.0


def test_few_bags_in_groups_are_searched_by_folds():
    bags, y = spreads(40)
    model = DistributionRegressor("js", sigma_scales=(1.0,), **FAST).fit(bags, y, groups=np.arange(40) % 8)
    assert model.search_.n_held_out == 40


def test_large_groups_do_not_make_the_search_larger():
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(4), [5000, 300, 300, 1])
    some = sample_rows(len(groups), 100, groups, rng)
    assert len(some) == len(np.unique(some)) == 100
    assert set(groups[some]) == {0, 1, 2, 3}


# --------------------------------------------------------------------------------------------------------------
# Progress, and the linear model again
# --------------------------------------------------------------------------------------------------------------


class Diary(list):
    def begin(self, stage, total):
        self.append([stage, total, 0])

    def advance(self, more):
        self[-1][2] += more


def test_a_fit_tells_how_far_it_is():
    bags, y = spreads(60)
    settings = {"bandwidth_scales": (0.71, 1.0, 1.41), "sigma_scales": (0.5, 1.0), **FAST}
    diary, numbers = Diary(), []
    told = DistributionRegressor("js", **settings).fit(bags, y, progress=diary)
    assert diary == [
        ["scaling points", None, 0], ["choosing settings", 6, 6], ["fitting the embedding", None, 0],
        ["learning", 60, 60], ["solving", None, 0],
    ]  # fmt: skip
    quiet = DistributionRegressor("js", **settings).fit(bags, y)
    np.testing.assert_array_equal(told.predict(bags), quiet.predict(bags))
    assert set(vars(told)) == set(vars(quiet))
    every = DistributionRegressor("js", exhaustive=True, **settings)
    every.fit(bags, y, progress=lambda done, total: numbers.append((done, total)))
    assert numbers == [*((i, 6) for i in range(1, 7)), (60, 60)]
    diary.clear()
    DistributionClassifier("js", model="svm", Cs=(1.0, 10.0), tune=2, **settings).fit(bags, y > 1.2, progress=diary)
    assert ["choosing C", 4, 4] in diary
    with pytest.raises(TypeError, match=r"DistributionRegressor.fit\(progress=...\): must be True, False"):
        every.fit(bags, y, progress="yes")


def test_batches_tell_how_far_they_are():
    bags, y = spreads(60)
    diary = Diary()
    model = DistributionRegressor("js", bandwidth_scales=(1.0,), **FAST)
    model.fit_batches(batches_of(bags, y), progress=diary)
    assert diary == [
        ["looking at all bags", None, 60], ["scaling points", None, 0], ["choosing settings", 5, 5],
        ["fitting the embedding", None, 0], ["learning", 60, 60], ["solving", None, 0],
    ]  # fmt: skip
    assert model.n_batches_seen_ == 3


@pytest.mark.parametrize("learner", [DistributionRegressor, DistributionClassifier])
def test_progress_is_no_metadata(learner):
    assert set(learner().get_metadata_routing().fit.requests) == {"sample_weight", "groups", "covariates"}


@pytest.mark.parametrize("n_components", [60, None])
def test_refit_keeps_all_but_the_linear_model(n_components):
    bags, y = spreads(100)
    model = DistributionRegressor("js", n_components=n_components, random_state=0).fit(bags[:50], y[:50])
    before, settings, alpha = model.transform_features(bags), model.best_params_, model.model_.head.penalty
    weight = np.random.default_rng(0).integers(0, 3, size=100)
    assert model.refit(bags, 2 * y, sample_weight=weight) is model
    np.testing.assert_array_equal(model.transform_features(bags), before)
    assert model.best_params_ == settings
    by_hand = Ridge(alpha).fit(before, 2 * y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(bags), by_hand.predict(before), rtol=1e-5)


def test_refit_knows_the_classes_of_fit():
    bags, y = shapes(60)
    for model in ("logistic", "ridge"):
        learner = DistributionClassifier("js", model=model, tune=None, **FAST).fit(bags[:40], y[:40])
        again = clone(learner).fit(bags[:40], y[:40]).refit(bags[:40], y[:40])
        np.testing.assert_array_equal(again.decision_function(bags), learner.decision_function(bags))
        with pytest.raises(ValueError, match=r"classes of fit, \['one', 'two'\], got 'three'; fit again"):
            learner.refit(bags, np.where(np.arange(60) < 3, "three", y))
    with pytest.raises(ValueError, match=r"of all classes of fit, .* got none of 'two'; add some"):
        DistributionClassifier("js", model="svm", tune=None, **FAST).fit(bags, y).refit(bags[:5], ["one"] * 5)
    with pytest.raises(NotFittedError):
        DistributionRegressor("js").refit(*spreads(5))


# --------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_file_of_a_model_holds_what_predicts(dtype, tmp_path):
    bags, y = spreads(100, n_dims=2)
    bags = bags.astype(dtype)
    model = DistributionRegressor(de.HDDEmbedding("js", n_basis=10), tune=None, random_state=0).fit(bags, y)
    assert model.n_components == 5000
    de.save(model, tmp_path / "slim")
    de.save(model, tmp_path / "whole", updatable=True)
    assert (tmp_path / "slim").stat().st_size < 2e5 < 4e6 < (tmp_path / "whole").stat().st_size
    slim, whole = de.load(tmp_path / "slim"), de.load(tmp_path / "whole")
    for one in (slim, whole):
        np.testing.assert_array_equal(one.predict(bags), model.predict(bags))
    assert hasattr(whole, "partial_fit")
    assert not hasattr(slim, "partial_fit")
    with pytest.raises(ValueError, match="comes from a file without what deviations and partial_fit need"):
        slim.partial_fit(bags, y)
    for one in (slim, whole, model):  # nothing was held out
        with pytest.raises(
            ValueError, match=r"predict\(return_std=True\): needs errors of held-out bags, .* tune='auto'"
        ):
            one.predict(bags, return_std=True)
        assert not hasattr(one, "predict_interval")
    np.testing.assert_array_equal(slim.refit(bags, 2 * y).predict(bags), model.refit(bags, 2 * y).predict(bags))


def test_a_file_that_can_be_added_to_goes_on(tmp_path):
    bags, y = spreads(90)
    model = DistributionRegressor("js", n_components=60, random_state=0).partial_fit(bags[:60], y[:60])
    de.save(model, tmp_path / "model", updatable=True)
    loaded = de.load(tmp_path / "model")
    for one in (model, loaded):
        one.partial_fit(bags[60:], y[60:])
        assert one.n_batches_seen_ == 2
    np.testing.assert_array_equal(loaded.predict(bags), model.predict(bags))


# --------------------------------------------------------------------------------------------------------------
# Batches
# --------------------------------------------------------------------------------------------------------------


def test_groups_in_batches_are_held_out_together():
    """Bags of a group are copies, with one label of pure chance: only who holds copies back sees that it is chance."""
    rng = np.random.default_rng(0)
    chance, groups = rng.normal(size=20), np.tile(np.arange(20), 4)
    bags = (rng.normal(size=(20, 15, 1)) + rng.normal(size=(20, 1, 1)))[groups]

    def batches(*more):
        return lambda: (
            (bags[i : i + 30], chance[groups][i : i + 30], *(each[i : i + 30] for each in more)) for i in (0, 30, 60)
        )

    settings = {"n_components": 40, "random_state": 0, "bandwidth_scales": (1.0,)}
    apart = DistributionRegressor("js", **settings).fit_batches(batches(np.ones(80)))
    together = DistributionRegressor("js", **settings).fit_batches(batches(np.ones(80), groups))
    assert 1 - apart.search_.best.error > 0.5
    assert 1 - together.search_.best.error < 0.2
    named = np.char.add("g", np.char.zfill(groups.astype(str), 2))  # in the same order
    unweighted = lambda: ((*batch[:2], None, batch[3]) for batch in batches(groups, named)())  # noqa: E731
    assert DistributionRegressor("js", **settings).fit_batches(unweighted).search_.trials == together.search_.trials
    first, second, _ = batches(np.ones(80), groups)()
    with pytest.raises(ValueError, match="groups must be given in all batches or in none"):
        DistributionRegressor("js", **settings).fit_batches(lambda: iter([first, second[:3]]))
    with pytest.raises(ValueError, match="groups must be at least two"):
        DistributionRegressor("js", **settings).fit_batches(lambda: iter([(*first[:3], np.zeros(30))]))
    with pytest.raises(TypeError, match="groups must be labels of one kind"):
        DistributionRegressor("js", **settings).fit_batches(lambda: iter([first, (*second[:3], named[30:60])]))


def batches_of(bags, y, size=25, calls=None):
    def make(start=0):
        if calls is not None:
            calls.append(start)
        for first in range(start * size, len(y), size):
            yield bags[first : first + size], y[first : first + size]

    return make


def test_batches_make_the_model_of_all_bags():
    bags, y = spreads(200)
    model = DistributionRegressor("js", n_components=60, random_state=0)
    model.fit_batches(batches_of(bags, y))
    Z = model.transform_features(bags)
    by_hand = Ridge(model.best_params_["alpha"]).fit(Z, y)
    np.testing.assert_allclose(model.predict(bags), by_hand.predict(Z), rtol=1e-6)
    assert model.search_.n_bags == 200


def test_without_a_search_one_pass_is_enough():
    bags, y = spreads(200)
    calls = []
    model = DistributionRegressor("js", n_components=60, tune=None, max_search_bags=50, random_state=0)
    model.fit_batches(batches_of(bags, y, calls=calls))
    assert len(calls) == 2  # the first one ends after 50 bags
    assert model.score(bags, y) > 0.7


def test_the_sample_is_bounded_and_drawn_from_all_batches():
    bags, y = spreads(400)
    seen = []
    model = DistributionRegressor("js", n_components=60, max_search_bags=40, random_state=0)
    keep = model._begin
    model._begin = lambda sample, *more: (seen.append(sample), keep(sample, *more))
    model.fit_batches(batches_of(bags, y))
    assert seen[0][0].n_bags == 40
    positions = np.searchsorted(np.sort(y), np.sort(seen[0][1]))
    assert positions.max() > 300
    assert positions.min() < 100
    del model._begin


def test_bags_that_keep_arriving():
    bags, y = spreads(200)
    model = DistributionRegressor("js", n_components=60, random_state=0)
    for first in range(0, 200, 50):
        model.partial_fit(bags[first : first + 50], y[first : first + 50])
    Z = model.transform_features(bags)
    by_hand = Ridge(model.best_params_["alpha"]).fit(Z, y)
    np.testing.assert_allclose(model.predict(bags), by_hand.predict(Z), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # from the first bags, all of one class
def test_classes_in_batches():
    bags, y = shapes(200)
    order = np.argsort(y, kind="stable")  # one class after the other
    model = DistributionClassifier("js", model="ridge", n_components=100, random_state=0)
    model.fit_batches(batches_of(bags[order], y[order]))
    assert model.score(bags, y) > 0.85
    alone = DistributionClassifier("js", model="ridge", n_components=100, tune=None, max_search_bags=20, random_state=0)
    with pytest.raises(ValueError, match="at least two classes"):
        alone.fit_batches(batches_of(bags[order], y[order]))
    alone.fit_batches(batches_of(bags[order], y[order]), classes=["one", "two"])
    assert alone.score(bags, y) > 0.8
    with pytest.raises(ValueError, match=r"classes \['one', 'two'\], got .*three"):
        alone.partial_fit(bags[:2], ["one", "three"])
    with pytest.raises(ValueError, match="model='ridge' for batches"):
        DistributionClassifier("js", model="logistic").fit_batches(batches_of(bags, y))


class Killed(BaseException):
    pass


class Stop:
    """Ends work when so many bags have been learned from."""

    def __init__(self, n=0):
        self.n = n

    def begin(self, stage, total):
        self.left = self.n if stage == "learning" else np.inf

    def advance(self, more):
        self.left -= more
        if self.left <= 0:
            raise Killed


def test_interrupted_work_goes_on_to_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "seconds_between", -1.0)
    bags, y = spreads(200)
    settings = {"n_components": 60, "random_state": 0}
    whole = DistributionRegressor("js", **settings).fit_batches(batches_of(bags, y))
    path = tmp_path / "model.partial"

    def killed_after(n, calls):
        try:
            model = DistributionRegressor("js", **settings)
            model.fit_batches(batches_of(bags, y, calls=calls), checkpoint=path, progress=Stop(n))
        except Killed:
            return None
        return model

    calls = []
    for n in (1, 60, 120):
        assert killed_after(n, calls) is None
        assert path.exists()
    finished = killed_after(10**9, calls)
    assert not path.exists()
    assert max(calls) > 0  # it went on in the middle
    np.testing.assert_array_equal(finished.predict(bags), whole.predict(bags))
    assert set(vars(finished)) == set(vars(whole))
    assert set(whole.timings_) >= {"scaling", "search", "embedding", "random features", "linear model"}


def test_a_checkpoint_of_other_settings_is_refused(tmp_path, monkeypatch):
    bags, y = spreads(60)
    path = tmp_path / "model.partial"

    with pytest.raises(Killed):
        DistributionRegressor("js", **FAST).fit_batches(batches_of(bags, y), checkpoint=path, progress=Stop())
    with pytest.raises(ValueError, match="comes from other settings; remove it"):
        DistributionRegressor("tv", **FAST).fit_batches(batches_of(bags, y), checkpoint=path)
    other_threads = DistributionRegressor("js", n_jobs=2, **FAST).fit_batches(batches_of(bags, y), checkpoint=path)
    assert other_threads.n_jobs == 2


def test_a_checkpoint_of_other_batches_is_refused(tmp_path):
    bags, y = spreads(60)
    path = tmp_path / "model.partial"
    with pytest.raises(Killed):
        DistributionRegressor("js", **FAST).fit_batches(batches_of(bags, y), checkpoint=path, progress=Stop())
    others = 1.5 * bags
    for given in (batches_of(others, y), batches_of(bags, y[::-1]), lambda: iter([])):
        with pytest.raises(ValueError, match="comes from other batches; give those of the first run, or remove it"):
            DistributionRegressor("js", **FAST).fit_batches(given, checkpoint=path)
    DistributionRegressor("js", **FAST).fit_batches(batches_of(bags, y), checkpoint=path)


def test_a_checkpoint_knows_generators_and_arrays_again(tmp_path):
    bags, y = spreads(60)
    path = tmp_path / "model.partial"

    def model(alphas):
        return DistributionRegressor("js", n_components=60, alphas=alphas, random_state=np.random.RandomState(0))

    with pytest.raises(Killed):
        model(np.array([0.1, 1.0])).fit_batches(batches_of(bags, y), checkpoint=path, progress=Stop())
    found = model([0.1, 1.0]).fit_batches(batches_of(bags, y), checkpoint=path)
    np.testing.assert_array_equal(found.predict(bags), model([0.1, 1.0]).fit_batches(batches_of(bags, y)).predict(bags))


def test_bad_checkpoints_are_named(tmp_path):
    bags, y = spreads(20)
    model, calls = DistributionRegressor("js", **FAST), []
    with pytest.raises(FileNotFoundError, match=r"checkpoint=...\): must be a file in a folder that exists"):
        model.fit_batches(batches_of(bags, y, calls=calls), checkpoint=tmp_path / "none" / "model.partial")
    assert not calls  # before any work
    (tmp_path / "model.partial").write_bytes(b"something else")
    with pytest.raises(ValueError, match="to start over, remove the file"):
        model.fit_batches(batches_of(bags, y), checkpoint=tmp_path / "model.partial")


def test_bad_batches_are_named():
    model = DistributionRegressor("js", **FAST)
    with pytest.raises(ValueError, match="gave no batches"):
        model.fit_batches(lambda: iter(()))
    with pytest.raises(TypeError, match=r"a batch must be \(bags, y\)"):
        model.fit_batches(lambda: iter([spreads(5)[0]]))
    bags, y = spreads(20)
    with pytest.raises(ValueError, match="all bags have weight zero"):
        model.fit_batches(lambda: iter([(bags, y, np.zeros(20))]))
    with pytest.raises(ValueError, match="dimension"):
        model.fit_batches(lambda: iter([(bags, y), (spreads(5, n_dims=2)[0], y[:5])]))
    with pytest.raises(TypeError, match=r"make_iterator=...\): must be a callable"):
        model.fit_batches([(bags, y)])
    once = iter([(bags, y)])
    with pytest.raises(ValueError, match="20 bags in the first pass, and 0 in the second"):
        model.fit_batches(lambda: once)
    with pytest.raises(ValueError, match="same outputs in all batches"):
        model.fit_batches(lambda: iter([(bags, y), (bags, np.stack([y, y], axis=1))]))
    with pytest.raises(ValueError, match="all bags have weight zero"):
        DistributionRegressor("js", **FAST).partial_fit(bags, y, sample_weight=np.zeros(20))


@pytest.mark.parametrize("model", ["logistic", "svm"])
def test_units_do_not_matter_where_there_are_no_random_features(model):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=60)
    bags = rng.normal(0.3 * y[:, None, None], 1, size=(60, 30, 2))
    settings = {"model": model, "n_components": None, "random_state": 0}
    near = de.DistributionClassifier("covariance", **settings).fit(bags[:40], y[:40])
    far = de.DistributionClassifier("mean", **settings).fit(1000 * bags[:40], y[:40])
    same = de.DistributionClassifier("mean", **settings).fit(bags[:40], y[:40])
    assert near.score(bags[40:], y[40:]) > 0.6
    np.testing.assert_array_equal(far.predict(1000 * bags[40:]), same.predict(bags[40:]))
    assert far.best_params_["C"] == same.best_params_["C"]


# Weights of classes


def unbalanced(n=120, seed=0):
    """Two kinds of bags that overlap, one of them rare."""
    rng = np.random.default_rng(seed)
    kind = rng.uniform(size=n) < 0.15
    return rng.normal(0.6 * kind[:, None, None], 1, size=(n, 15, 1)), np.where(kind, "rare", "usual")


@pytest.mark.parametrize("model", ["logistic", "svm", "ridge"])
def test_balanced_classes_are_weights_of_bags(model):
    bags, y = unbalanced()
    given = {"model": model, "n_components": 50, "tune": None, "random_state": 0}
    balanced = de.DistributionClassifier("mean", class_weight="balanced", **given).fit(bags, y)
    sums = {name: np.sum(y == name) for name in ("rare", "usual")}
    weight = np.array([len(y) / (2 * sums[name]) for name in y])
    by_hand = de.DistributionClassifier("mean", **given).fit(bags, y, sample_weight=weight)
    np.testing.assert_allclose(balanced.decision_function(bags), by_hand.decision_function(bags), atol=1e-8)
    plain = de.DistributionClassifier("mean", **given).fit(bags, y)
    assert np.sum(balanced.predict(bags) == "rare") > np.sum(plain.predict(bags) == "rare")
    np.testing.assert_allclose(balanced.class_weight_, [len(y) / (2 * sums[name]) for name in balanced.classes_])


def test_weights_of_classes_by_name():
    bags, y = unbalanced()
    given = {"n_components": 50, "tune": None, "random_state": 0}
    mine = de.DistributionClassifier("mean", class_weight={"rare": 3}, **given).fit(bags, y)
    by_hand = de.DistributionClassifier("mean", **given).fit(bags, y, sample_weight=np.where(y == "rare", 3.0, 1.0))
    np.testing.assert_allclose(mine.predict_proba(bags), by_hand.predict_proba(bags), atol=1e-8)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ({"odd": 2}, r"class_weight=...\): must name classes of y, \['rare', 'usual'\], got 'odd'"),
        ("even", r"must be None, 'balanced' or a dict of classes to weights, got 'even'"),
        ({"rare": -1}, r"must be positive numbers"),
    ],
)
def test_wrong_weights_of_classes(weights, text):
    with pytest.raises(ValueError, match=text):
        de.DistributionClassifier("mean", class_weight=weights).fit(*unbalanced())


# --------------------------------------------------------------------------------------------------------------
# Bags that are mostly equal
# --------------------------------------------------------------------------------------------------------------


def mostly_zero(n_bags=120, seed=0):
    """Three bags in four hold zeros alone; the others have a spread, which is the target."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n_bags) % 4 == 0, rng.uniform(0.5, 2, n_bags), 0.0)
    return rng.normal(size=(n_bags, 30, 1)) * y[:, None, None], y


@pytest.mark.parametrize("name", ["js", "l2", "mmd", "mmd-spectrum", "histogram-js", "codebook-js", "skl", "fisher"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_where_most_bags_are_equal_predictions_do_not_depend_on_the_batch(name, dtype):
    bags, y = mostly_zero()
    bags = bags.astype(dtype)
    model = DistributionRegressor(name, **FAST | {"tune": 2, "bandwidth_scales": (1.0,)}).fit(bags[:80], y[:80])
    together, alone = model.predict(bags[80:]), np.concatenate([model.predict(bag[None]) for bag in bags[80:]])
    assert np.allclose(together, alone, atol=1e-9 if dtype == np.float64 else 1e-3)
    assert model.features_.sigma_ > 1e-3
    assert np.corrcoef(together, y[80:])[0, 1] > 0.9


@pytest.mark.parametrize("model", ["ridge", "logistic"])
@pytest.mark.parametrize("n_components", [100, None])
def test_classes_of_mostly_equal_bags_do_not_depend_on_the_batch(model, n_components):
    bags, y = mostly_zero()
    learner = DistributionClassifier("mmd", model=model, n_components=n_components, tune=2, random_state=0)
    learner.set_params(bandwidth_scales=(1.0,), sigma_scales=(1.0,)).fit(bags[:80], y[:80] > 0)
    alone = np.concatenate([learner.predict_proba(bag[None]) for bag in bags[80:]])
    assert np.allclose(learner.predict_proba(bags[80:]), alone, atol=1e-6)
    assert learner.score(bags[80:], y[80:] > 0) == 1
