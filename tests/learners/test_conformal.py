"""Conformal prediction: quantiles by hand, coverage within exact bounds, groups, labels, and any estimator inside."""

import pickle
import warnings
from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import expit, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import distembed as de
from distembed import Bags
from distembed.learners import ConformalClassifier, ConformalRegressor, conformal_quantile
from distembed.learners.conformal import adaptive_scores, hash_uniforms


class Column(RegressorMixin, BaseEstimator):
    """Predicts the first column, with the second as its deviation."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X, return_std=False):
        X = np.asarray(X, float)
        return (X[:, 0], X[:, 1]) if return_std else X[:, 0]


class Given(ClassifierMixin, BaseEstimator):
    """Whose probabilities are the columns of X."""

    def __init__(self, classes=(0, 1, 2)):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.asarray(self.classes)
        return self

    def predict_proba(self, X):
        return np.asarray(X, float)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Recorder(RegressorMixin, BaseEstimator):
    """Keeps what its fit was given."""

    def fit(self, X, y, sample_weight=None, groups=None):
        self.X_, self.y_, self.weight_, self.groups_ = X, y, sample_weight, groups
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def rows(n=200, n_dims=3, seed=0):
    """Ordinary rows, and a linear function of them with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_dims))
    return X, X.sum(axis=1) + rng.normal(size=n)


def located(n=200, seed=0, n_points=20):
    """Bags of unequal sizes around their targets."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    sizes = rng.integers(5, n_points, size=n)
    return Bags.from_arrays([rng.normal(m, 1, size=(k, 1)) for m, k in zip(y, sizes, strict=True)]), y


def three(n=300, seed=0):
    """Rows of three overlapping classes that are words."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, size=n)
    return rng.normal(kind[:, None], 0.8, size=(n, 2)), np.array(["a", "b", "c"])[kind]


def calibrated(scores, **options):
    """A regressor that predicts zero, with these scores."""
    zeros = np.zeros((len(scores), 1))
    inside = DummyRegressor(strategy="constant", constant=0.0).fit(zeros, zeros[:, 0])
    return ConformalRegressor(inside, prefit=True, **options).calibrate(zeros, scores)


def holds(interval, y):
    return (interval[..., 0] <= y) & (y <= interval[..., 1])


def holds_class(conformal, sets, y):
    return sets[np.arange(len(y)), np.searchsorted(conformal.classes_, y)]


def assert_coverage(counts, n_new, n, coverage):
    """Numbers of n_new bags that were held, in independent repetitions with n calibration bags and no equal scores."""
    k = ceil((n + 1) * Fraction(repr(coverage)))
    law = stats.betabinom(n_new, k, n + 1 - k)
    z = (np.sum(counts) - len(counts) * law.mean()) / np.sqrt(len(counts) * law.var())
    assert abs(z) < 4, f"{np.mean(counts) / n_new:.4f} in place of {k / (n + 1):.4f}"


def quantile_by_hand(scores, coverage, groups=None):
    """The smallest score t such that groups' shares of scores up to t sum to c (K + 1), in fractions."""
    groups = list(range(len(scores))) if groups is None else groups
    target = Fraction(repr(coverage)) * (len(set(groups)) + 1)
    for t in sorted(scores):
        shares = [
            Fraction(sum(s <= t for s, g in zip(scores, groups, strict=True) if g == name), groups.count(name))
            for name in set(groups)
        ]
        if sum(shares) >= target:
            return t
    return np.inf


# --------------------------------------------------------------------------------------------------------------
# The quantile
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coverage", "q"), [(0.05, 1), (0.1, 1), (0.11, 2), (0.5, 5), (0.8, 8), (0.81, 9), (0.9, 9), (0.9001, np.inf)]
)
def test_the_quantile_of_nine_scores(coverage, q):
    scores = np.array([7.0, 3, 9, 1, 5, 2, 8, 6, 4])
    assert conformal_quantile(scores, coverage) == q
    np.testing.assert_array_equal(conformal_quantile(np.stack([scores, -scores], axis=1), coverage)[0], q)


def test_the_coverage_is_the_decimal_number_that_is_written():
    for n in (1, 2, 9, 10, 19, 29, 39, 49, 69, 99, 100, 199, 999):
        scores = np.arange(1.0, n + 1)
        for percent in range(1, 100):
            k = -(-(n + 1) * percent // 100)
            assert conformal_quantile(scores, percent / 100) == (k if k <= n else np.inf)


def test_equal_scores():
    assert conformal_quantile([1, 1, 1, 1, 1, 1, 1, 2, 2], 0.7) == 1
    assert conformal_quantile([1, 1, 1, 1, 1, 1, 1, 2, 2], 0.8) == 2
    assert conformal_quantile(np.zeros(9), 0.9) == 0
    assert conformal_quantile([0, np.inf, np.inf], 0.25) == 0
    assert conformal_quantile([0, np.inf, np.inf], 0.5) == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_are_those_of_fractions(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = rng.integers(1, 40)
        scores, groups = rng.integers(0, 15, n).astype(float).tolist(), rng.integers(0, 12, n).tolist()
        for coverage in (0.1, 0.3, 0.5, 0.7, 0.75, 0.9):
            assert conformal_quantile(scores, coverage) == quantile_by_hand(scores, coverage)
            assert conformal_quantile(scores, coverage, groups) == quantile_by_hand(scores, coverage, groups)


def test_groups_of_one_bag_are_no_groups_and_copies_of_bags_change_nothing():
    scores = np.random.default_rng(0).normal(size=37)
    q = conformal_quantile(scores, 0.83)
    assert conformal_quantile(scores, 0.83, np.arange(37)) == q
    for copies in (3, 7, 49):  # sums of 1/49 are not one
        assert conformal_quantile(np.tile(scores, copies), 0.83, np.tile(np.arange(37), copies)) == q


@pytest.mark.parametrize(("n", "coverage"), [(9, 0.9), (20, 0.9), (50, 0.55), (99, 0.99), (30, 0.2)])
def test_coverage_of_the_quantile_is_exact(n, coverage):
    rng = np.random.default_rng(n)
    scores, new = rng.exponential(size=(n, 20_000)), rng.exponential(size=20_000)
    held = np.count_nonzero(new <= conformal_quantile(scores, coverage))
    law = stats.binom(20_000, ceil((n + 1) * Fraction(repr(coverage))) / (n + 1))
    assert law.ppf(1e-4) <= held <= law.ppf(1 - 1e-4)


def test_coverage_given_the_calibration_bags_has_its_beta_law():
    n, k = 40, 37
    q = conformal_quantile(np.random.default_rng(0).uniform(size=(n, 2000)), 0.9)  # the coverage of uniform scores
    assert stats.kstest(q, stats.beta(k, n + 1 - k).cdf).pvalue > 1e-3
    assert stats.kstest(q, stats.beta(k - 1, n + 2 - k).cdf).pvalue < 1e-6  # the test can tell


def test_what_quantiles_refuse():
    for scores in ([], [[]], [1.0, np.nan], 3.0):
        with pytest.raises(
            ValueError, match=r"conformal_quantile\(scores=...\): must be one number, or one row, a bag"
        ):
            conformal_quantile(scores, 0.9)
    with pytest.raises(
        ValueError, match=r"conformal_quantile\(coverage=...\): must be a number in \(0, 1\), got 90; 0.9 "
    ):
        conformal_quantile([1.0], 90)
    with pytest.raises(
        ValueError, match="conformal_quantile: groups must be one label per bag, got shape \\(1,\\) for 2"
    ):
        conformal_quantile([1.0, 2.0], 0.9, groups=[0])


# --------------------------------------------------------------------------------------------------------------
# Intervals
# --------------------------------------------------------------------------------------------------------------


def test_the_interval_by_hand():
    conformal = calibrated([1.0, -2, 3, -4, 5, -6, 7, -8, 9])
    np.testing.assert_array_equal(conformal.scores_, np.arange(1, 10))
    np.testing.assert_allclose(conformal.predict_interval(np.zeros((2, 1))), [[-9, 9], [-9, 9]], rtol=1e-14)
    np.testing.assert_allclose(conformal.predict_interval(np.zeros((1, 1)), coverage=0.45), [[-5, 5]], rtol=1e-14)
    np.testing.assert_array_equal(conformal.predict(np.zeros((3, 1))), np.zeros(3))


def test_coverage_of_a_model_on_rows():
    held = []
    for seed in range(60):
        X, y = rows(300, seed=seed)
        conformal = ConformalRegressor(Ridge(), coverage=0.8, calibration=0.3, random_state=seed).fit(X[:100], y[:100])
        assert len(conformal.scores_) == 30
        held.append(np.count_nonzero(holds(conformal.predict_interval(X[100:]), y[100:])))
    assert_coverage(held, 200, 30, 0.8)


def test_coverage_of_a_pipeline_on_bags():
    bags, y = located(5000)
    model = make_pipeline(de.MomentEmbedding("mean"), LinearRegression())
    held = []
    for seed in range(25):
        chunk = slice(200 * seed, 200 * (seed + 1))
        b, t = bags[chunk], y[chunk]
        conformal = ConformalRegressor(model, calibration=0.5, random_state=seed).fit(b[:100], t[:100])
        held.append(np.count_nonzero(holds(conformal.predict_interval(b[100:]), t[100:])))
    assert_coverage(held, 100, 50, 0.9)


def test_coverage_needs_no_right_model():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(100):
        X = rng.normal(size=(240, 1))
        y = np.exp(2 * X[:, 0]) * rng.standard_cauchy(240)
        conformal = ConformalRegressor(Ridge(), calibration=0.5, random_state=0).fit(X[:40], y[:40])
        held.append(np.count_nonzero(holds(conformal.predict_interval(X[40:]), y[40:])))
    assert_coverage(held, 200, 20, 0.9)


def test_scores_of_the_training_bags_would_not_do():
    """An interpolating model has no errors on its own bags: this is what the split is for."""
    X, y = rows(400)
    fitted = KNeighborsRegressor(1).fit(X[:200], y[:200])
    cheated = ConformalRegressor(fitted, prefit=True).calibrate(X[:200], y[:200])
    honest = ConformalRegressor(KNeighborsRegressor(1), random_state=0).fit(X[:200], y[:200])
    assert np.mean(holds(cheated.predict_interval(X[200:]), y[200:])) < 0.05
    assert np.mean(holds(honest.predict_interval(X[200:]), y[200:])) > 0.75


def test_every_output_is_covered_by_itself():
    X, y = rows(600)
    Y = np.stack([y, 100 * y[::-1]], axis=1)
    conformal = ConformalRegressor(Ridge(), calibration=0.5, random_state=0).fit(X[:300], Y[:300])
    interval = conformal.predict_interval(X[300:])
    assert interval.shape == (300, 2, 2)
    assert conformal.scores_.shape == (150, 2)
    for j in range(2):
        alone = ConformalRegressor(Ridge(), calibration=0.5, random_state=0).fit(X[:300], Y[:300, j])
        np.testing.assert_allclose(interval[:, j], alone.predict_interval(X[300:]), rtol=1e-9)
    column = ConformalRegressor(Ridge(), calibration=0.5, random_state=0).fit(X[:300], y[:300, None])
    assert column.predict_interval(X).shape in {(600, 1, 2), (600, 2)}  # as the estimator predicts
    np.testing.assert_allclose(column.predict_interval(X[300:]).reshape(300, 2), interval[:, 0])


def test_normalised_intervals_by_hand():
    X = np.column_stack([np.arange(9.0), np.full(9, 2.0)])
    y = X[:, 0] + 2 * np.arange(1, 10) * np.array([1, -1, 1, -1, 1, -1, 1, -1, 1])
    conformal = ConformalRegressor(Column().fit(X, y), method="normalised", prefit=True).calibrate(X, y)
    np.testing.assert_allclose(conformal.scores_, np.arange(1, 10))
    found = conformal.predict_interval([[10.0, 1.0], [10.0, 3.0], [10.0, 0.0]])
    np.testing.assert_allclose(found, [[1, 19], [-17, 37], [10, 10]], rtol=1e-13)


def test_normalised_intervals_hold_where_noise_differs():
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.1, 10, size=4000)
    X = np.column_stack([rng.normal(size=4000), noise])
    y = X[:, 0] + noise * rng.normal(size=4000)
    shares = {}
    for method in ("absolute", "normalised"):
        conformal = ConformalRegressor(Column(), method=method, calibration=0.5, random_state=0).fit(X[:2000], y[:2000])
        held = holds(conformal.predict_interval(X[2000:]), y[2000:])
        shares[method] = [held[noise[2000:] < 3].mean(), held[noise[2000:] > 8].mean()]
    assert shares["absolute"][0] > 0.99
    assert shares["absolute"][1] < 0.8
    assert np.all(np.abs(np.array(shares["normalised"]) - 0.9) < 0.04)


def test_normalised_with_models_that_have_deviations():
    X, y = rows(60, 1)
    process = GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0)
    for model in (process, make_pipeline(de.LinearRidge()), de.LinearRidge()):
        conformal = ConformalRegressor(model, method="normalised", calibration=0.5, random_state=0).fit(X[:40], y[:40])
        held = conformal.calibration_indices_
        mean, std = conformal.estimator_.predict(X[:40][held], return_std=True)
        np.testing.assert_allclose(conformal.scores_, np.abs(y[held] - mean) / std)
        assert np.mean(holds(conformal.predict_interval(X[40:]), y[40:])) > 0.6
    Y = np.stack([y, -3 * y], axis=1)
    ridge = ConformalRegressor(de.LinearRidge(), method="normalised", calibration=0.5, random_state=0).fit(X, Y)
    interval = ridge.predict_interval(X)
    np.testing.assert_allclose(interval[:, 1, 0], -3 * interval[:, 0, 1], rtol=1e-6)


def test_files_hold_what_normalised_intervals_need(tmp_path):
    X, y = rows(60, 3)
    for method in ("absolute", "normalised"):
        model = ConformalRegressor(de.LinearRidge(), method=method, calibration=0.5, random_state=0).fit(X, y)
        de.save(model, tmp_path / method)
        np.testing.assert_array_equal(de.load(tmp_path / method).predict_interval(X), model.predict_interval(X))
    with pytest.raises(ValueError, match="comes from a file without"):
        de.load(tmp_path / "absolute").estimator_.predict(X, return_std=True)


def test_deviations_of_zero_have_defined_scores():
    X = np.column_stack([np.zeros(10), np.r_[0.0, 0.0, np.ones(8)]])
    y = np.r_[0.0, 5.0, np.arange(1.0, 9)]
    conformal = ConformalRegressor(Column().fit(X, y), method="normalised", prefit=True).calibrate(X, y)
    np.testing.assert_array_equal(conformal.scores_[:3], [0, np.inf, 1])
    np.testing.assert_array_equal(
        conformal.predict_interval([[3.0, 0.0]], coverage=0.95 * 20 / 21), [[-np.inf, np.inf]]
    )
    np.testing.assert_array_equal(
        holds(conformal.predict_interval([[3.0, 0.0]], coverage=0.5), np.array([3.0])), [True]
    )


def test_what_normalised_intervals_refuse():
    X, y = rows(50)
    with pytest.raises(
        TypeError, match=r"method='normalised'\): needs an estimator with predict\(X, return_std=True\), got"
    ):
        ConformalRegressor(Ridge(), method="normalised").fit(X, y)
    with pytest.raises(ValueError, match=r"deviations must be >= 0, got -.*; use method='absolute'"):
        ConformalRegressor(Column(), method="normalised").fit(-np.abs(X), y)


def test_quantiles_of_an_estimator_are_widened_by_hand():
    X, y = rows(120, 1)
    model = QuantileRegressor(alpha=0)
    conformal = ConformalRegressor(model, coverage=0.8, method="quantile", calibration=0.5, random_state=0).fit(X, y)
    held = conformal.calibration_indices_
    train = np.setdiff1d(np.arange(120), held)
    low, high = (QuantileRegressor(quantile=c, alpha=0).fit(X[train], y[train]).predict(X) for c in (0.1, 0.9))
    scores = np.maximum(low - y, y - high)[held]
    np.testing.assert_allclose(conformal.scores_, scores, atol=1e-12)
    q = quantile_by_hand(scores.tolist(), 0.8)
    np.testing.assert_allclose(conformal.predict_interval(X), np.stack([low - q, high + q], axis=1), atol=1e-9)
    median = QuantileRegressor(quantile=0.5, alpha=0).fit(X[train], y[train]).predict(X)
    np.testing.assert_allclose(conformal.predict(X), median)
    assert model.quantile == 0.5


def test_quantiles_on_bags_know_unequal_noise():
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.2, 3, size=900)
    bags = de.as_bags(rng.normal(0, spread[:, None, None], size=(900, 200, 1)))
    y = spread * rng.normal(size=900)
    model = make_pipeline(de.MomentEmbedding("deviation"), QuantileRegressor(alpha=0))
    conformal = ConformalRegressor(model, method="quantile", calibration=0.5, random_state=0).fit(bags[:500], y[:500])
    interval, narrow = conformal.predict_interval(bags[500:]), spread[500:] < 1
    width = np.diff(interval)[:, 0]
    assert width[narrow].mean() < 0.6 * width[~narrow].mean()
    held = holds(interval, y[500:])
    assert abs(held.mean() - 0.9) < 0.06
    assert abs(held[narrow].mean() - 0.9) < 0.1


class Fan(RegressorMixin, BaseEstimator):
    """Predicts quantiles around one that lie apart in proportion to X, in the wrong order."""

    def __init__(self, quantile=0.5):
        self.quantile = quantile

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return 1 + 10 * (0.5 - self.quantile) * X[:, 0]


def test_intervals_that_would_turn_inside_out_are_their_middle():
    X = np.ones((30, 1))
    conformal = ConformalRegressor(Fan(), method="quantile", coverage=0.5, random_state=0).fit(X, np.ones(30))
    conformal.calibrate(X, np.full(30, 2.0))  # 1.5 inside the end of [-1.5, 3.5]
    np.testing.assert_array_equal(conformal.scores_, -1.5)
    found = conformal.predict_interval([[1.0], [2.0], [0.5]] @ np.eye(1))
    np.testing.assert_allclose(found, [[0, 2], [-2.5, 4.5], [1, 1]], atol=1e-13)
    conformal.calibrate(X, np.full(30, 4.0))
    np.testing.assert_allclose(conformal.predict_interval(X[:1]), [[-2, 4]], rtol=1e-13)


def test_what_quantiles_of_estimators_refuse():
    X, y = rows(50)
    with pytest.raises(TypeError, match=r"needs an estimator with one parameter named quantile, .*, got none; use"):
        ConformalRegressor(Ridge(), method="quantile").fit(X, y)
    model = ConformalRegressor(QuantileRegressor().fit(X, y), method="quantile", prefit=True)
    with pytest.raises(
        ValueError, match=r"method='quantile'\): fits the estimator to three quantiles, got prefit=True"
    ):
        model.calibrate(X, y)


def test_a_truth_at_the_very_end_is_inside():
    """Numbers of few values have many scores that are equal: rounding must not put them all outside."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        centre, y = rng.normal(0, 30), rng.normal(0, 0.3)
        X = np.full((9, 1), centre)
        for method, unit in (("absolute", 1.0), ("normalised", rng.uniform(0.01, 10))):
            X = np.column_stack([np.full(9, centre), np.full(9, unit)])
            inside = Column().fit(X, None)
            conformal = ConformalRegressor(inside, method=method, prefit=True).calibrate(X, np.full(9, y))
            interval = conformal.predict_interval(X[:1])
            assert holds(interval, y).all()
            assert np.diff(interval)[0, 0] <= 2 * abs(y - centre) * (1 + 1e-14) + 1e-13


def test_too_few_bags_give_infinite_intervals_and_a_warning_that_counts():
    conformal = calibrated(np.arange(8.0))
    text = (
        r"ConformalRegressor: too few calibration bags for a coverage of 0.9, intervals are infinite: 8; 9 are needed"
    )
    with pytest.warns(UserWarning, match=text):
        interval = conformal.predict_interval(np.zeros((3, 1)))
    np.testing.assert_array_equal(interval, [[-np.inf, np.inf]] * 3)
    with pytest.warns(UserWarning, match="of 0.999, intervals are infinite: 8; 999 are needed"):
        conformal.predict_interval(np.zeros((3, 1)), coverage=0.999)
    assert np.isfinite(conformal.predict_interval(np.zeros((3, 1)), coverage=0.8)).all()
    for coverage, n in ((0.9, 9), (0.95, 19), (0.99, 99), (0.55, 2), (0.5, 1)):  # as many as the warning says suffice
        assert np.isfinite(calibrated(np.arange(float(n)), coverage=coverage).predict_interval(np.zeros((1, 1)))).all()
        if n > 1:
            with pytest.warns(UserWarning, match=f"{n - 1}; {n} are needed"):
                calibrated(np.arange(n - 1.0), coverage=coverage).predict_interval(np.zeros((1, 1)))


# --------------------------------------------------------------------------------------------------------------
# Labels: a promise for each kind of bag
# --------------------------------------------------------------------------------------------------------------


def test_by_label_each_kind_is_covered_where_the_average_fails():
    rng = np.random.default_rng(0)
    held = {False: [], True: []}
    for _ in range(40):
        kind = np.tile(["calm", "calm", "calm", "wild"], 150)  # 150 and 50 of the first 200
        y = rng.normal(size=600) * np.where(kind == "wild", 10, 1)
        X = np.zeros((600, 1))
        for use in (False, True):
            model = ConformalRegressor(DummyRegressor().fit(X, y * 0), prefit=True)
            model.calibrate(X[:200], y[:200], by=kind[:200] if use else None)
            interval = model.predict_interval(X[200:], by=kind[200:] if use else None)
            inside = holds(interval, y[200:])
            held[use].append([inside[kind[200:] == "calm"].sum(), inside[kind[200:] == "wild"].sum()])
    wrong, right = np.array(held[False]), np.array(held[True])
    assert wrong[:, 0].mean() / 300 > 0.99
    assert wrong[:, 1].mean() / 100 < 0.75
    assert_coverage(right[:, 0], 300, 150, 0.9)
    assert_coverage(right[:, 1], 100, 50, 0.9)


def test_labels_have_their_own_quantile_in_fit():
    bags, y = located(300)
    by = np.array(["x", "y", "z"])[np.arange(300) % 3]
    model = make_pipeline(de.MomentEmbedding("mean"), LinearRegression())
    conformal = ConformalRegressor(model, calibration=0.5, random_state=0).fit(bags, y, by=by)
    np.testing.assert_array_equal(conformal.by_, by[conformal.calibration_indices_])
    half = np.diff(conformal.predict_interval(bags[:6], by=by[:6]))[:, 0] / 2
    for i in range(6):
        q = quantile_by_hand(conformal.scores_[conformal.by_ == by[i]].tolist(), 0.9)
        assert half[i] == pytest.approx(q, rel=1e-12)
    assert len(set(half.round(12))) == 3


def test_labels_that_calibration_did_not_have():
    X, y, by = np.zeros((40, 1)), np.arange(40.0), [1] * 20 + [2] * 20
    conformal = ConformalRegressor(DummyRegressor().fit(X, 0 * y), prefit=True).calibrate(X, y, by=by)
    with pytest.raises(
        ValueError, match="by must have the labels of calibration, got 3; calibrate with bags of that label"
    ):
        conformal.predict_interval(X[:2], by=[1, 3])
    with pytest.raises(ValueError, match="got '1'"):
        conformal.predict_interval(X[:2], by=["1", "2"])
    conformal.set_params(unknown="all")
    found = conformal.predict_interval(X[:4], by=[3, 2, 1, 3])[:, 1]
    np.testing.assert_allclose(found, [36, 38, 18, 36], rtol=1e-14)
    np.testing.assert_allclose(conformal.predict_interval(X[:1], by=[9])[:, 1], 36, rtol=1e-14)


def test_few_bags_of_a_label_give_infinite_intervals_and_are_named():
    X, y, by = np.zeros((40, 1)), np.arange(40.0), ["many"] * 32 + ["few"] * 3 + ["some"] * 5
    conformal = ConformalRegressor(DummyRegressor().fit(X, 0 * y), prefit=True).calibrate(X, y, by=by)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(conformal.predict_interval(X[:2], by=["many"] * 2)).all()
    with pytest.warns(UserWarning, match="intervals are infinite: 3 of 'few', 5 of 'some'; 9 are needed"):
        interval = conformal.predict_interval(X[:4], by=["few", "many", "some", "few"])
    np.testing.assert_array_equal(np.isinf(interval), [[True] * 2, [False] * 2, [True] * 2, [True] * 2])


def test_labels_in_one_place_only_are_refused():
    X, y = np.zeros((40, 1)), np.arange(40.0)
    conformal = ConformalRegressor(DummyRegressor().fit(X, y), prefit=True).calibrate(X, y, by=[0] * 40)
    with pytest.raises(ValueError, match="by must be given, as in calibration, got NoneType; pass one label per bag"):
        conformal.predict_interval(X)
    conformal.calibrate(X, y)
    with pytest.raises(ValueError, match="by must not be given: calibration had none, got list; pass it to fit or"):
        conformal.predict_interval(X, by=[0] * 40)


@pytest.mark.parametrize("name", ["by", "groups"])
def test_labels_are_one_a_bag_and_not_missing(name):
    X, y = rows(20)
    model = ConformalRegressor(Ridge())
    with pytest.raises(
        ValueError, match=rf"{name} must be one label per bag, got shape \(19,\) for 20 bags; pass them"
    ):
        model.fit(X, y, **{name: [0] * 19})
    for missing in ([np.nan] + [1.0] * 19, [None] + ["a"] * 19):
        with pytest.raises(
            ValueError, match=f"{name} must have no missing labels, got (nan|None) for bag 0; give such"
        ):
            model.fit(X, y, **{name: missing})


# --------------------------------------------------------------------------------------------------------------
# The split, groups, weights
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "share", "held"), [(10, 0.2, 2), (11, 0.2, 3), (30, 0.1, 3), (2, 0.5, 1), (100, 0.55, 55)]
)
def test_the_share_of_bags_that_is_kept(n, share, held):
    X, y = rows(n)
    conformal = ConformalRegressor(Recorder(), calibration=share, random_state=0).fit(X, y)
    assert len(conformal.calibration_indices_) == len(conformal.scores_) == held
    train = np.setdiff1d(np.arange(n), conformal.calibration_indices_)
    np.testing.assert_array_equal(conformal.estimator_.X_, X[train])
    np.testing.assert_array_equal(conformal.estimator_.y_, y[train])
    other = ConformalRegressor(Recorder(), calibration=share, random_state=0).fit(X, y)
    np.testing.assert_array_equal(other.calibration_indices_, conformal.calibration_indices_)


def test_every_bag_is_kept_equally_often():
    X, y = rows(10)
    counts = np.zeros(10)
    for seed in range(400):
        model = ConformalRegressor(Recorder(), calibration=0.3, random_state=seed).fit(X, y)
        counts[model.calibration_indices_] += 1
    assert np.all(np.abs(counts - 120) < 4 * np.sqrt(400 * 0.3 * 0.7))


@pytest.mark.parametrize("make", [np.asarray, lambda g: np.array([f"patient {i}" for i in g])])
def test_groups_are_on_one_side(make):
    X, y = rows(100)
    groups = make(np.random.default_rng(0).integers(0, 20, size=100))
    for seed in range(10):
        conformal = ConformalRegressor(Recorder(), calibration=0.3, random_state=seed).fit(X, y, groups=groups)
        held = set(groups[conformal.calibration_indices_])
        train = set(conformal.estimator_.groups_)
        assert not held & train
        assert len(held) == ceil(0.3 * len(held | train))
        np.testing.assert_array_equal(conformal.groups_, groups[conformal.calibration_indices_])


def test_groups_go_to_the_last_step_that_takes_them():
    X, y = rows(60)
    groups = np.arange(60) // 3
    conformal = ConformalRegressor(make_pipeline(make_pipeline(Recorder())), random_state=0).fit(X, y, groups=groups)
    train = np.setdiff1d(np.arange(60), conformal.calibration_indices_)
    np.testing.assert_array_equal(conformal.estimator_[-1][-1].groups_, groups[train])
    ConformalRegressor(make_pipeline(Ridge()), random_state=0).fit(X, y, groups=groups)  # has no use for them


def test_a_bag_of_a_new_group_is_covered():
    """Large groups are alike inside and have small errors: bags do not count, groups do."""
    rng = np.random.default_rng(0)
    inside = DummyRegressor().fit([[0.0]], [0.0])
    held = {True: 0, False: 0}
    n_reps = 500
    for _ in range(n_reps):
        large = rng.uniform(size=20) < 0.5  # nineteen groups to calibrate with, one that is new
        sizes = np.where(large, 30, 2)
        effect = rng.normal(size=20) * np.where(large, 0.1, 5)
        group = np.repeat(np.arange(20), sizes)
        y = effect[group] + 0.01 * rng.normal(size=len(group))
        old, X = group < 19, np.zeros((len(group), 1))
        new = y[~old][0]
        for use in (True, False):
            conformal = ConformalRegressor(inside, coverage=0.8, prefit=True)
            conformal.calibrate(X[old], y[old], groups=group[old] if use else None)
            held[use] += holds(conformal.predict_interval(X[:1]), new)[0]
    assert held[False] < 0.7 * n_reps
    assert held[True] >= stats.binom(n_reps, 0.8).ppf(1e-4)
    assert held[True] <= stats.binom(n_reps, 0.8 + 2 / 20).ppf(1 - 1e-4)


def test_too_few_groups():
    X, y = np.zeros((400, 1)), np.arange(400.0)
    groups = np.arange(400) // 50
    conformal = ConformalRegressor(DummyRegressor().fit(X, y), prefit=True).calibrate(X, y, groups=groups)
    with pytest.warns(UserWarning, match="too few calibration groups for a coverage of 0.9, .*: 8; 9 are needed"):
        assert np.isinf(conformal.predict_interval(X[:1])).all()
    conformal.calibrate(X, y, groups=np.arange(400) // 40, by=["a"] * 360 + ["b"] * 40)
    assert np.isfinite(conformal.predict_interval(X[:1], by=["a"])).all()
    with pytest.warns(UserWarning, match="too few calibration groups .*: 1 of 'b'; 9 are needed"):
        conformal.predict_interval(X[:1], by=["b"])


def test_labels_and_groups_together():
    rng = np.random.default_rng(0)
    y, groups, by = rng.exponential(size=300), rng.integers(0, 60, 300), rng.integers(0, 2, 300)
    X = np.zeros((300, 1))
    conformal = ConformalRegressor(DummyRegressor().fit(X, 0 * y), prefit=True).calibrate(X, y, by, groups)
    found = conformal.predict_interval(X[:2], by=[0, 1])[:, 1]
    for label in (0, 1):
        here = by == label
        q = quantile_by_hand(y[here].tolist(), 0.9, groups[here].tolist())
        assert found[label] == pytest.approx(q, rel=1e-13)


def test_weights_go_to_the_estimator():
    X, y = rows(80)
    w = np.random.default_rng(1).uniform(0.1, 5, size=80)
    for model, weight_of in ((Ridge(), "sample_weight"), (make_pipeline(Ridge()), "ridge__sample_weight")):
        conformal = ConformalRegressor(model, random_state=0).fit(X, y, sample_weight=w)
        train = np.setdiff1d(np.arange(80), conformal.calibration_indices_)
        alone = clone(model).fit(X[train], y[train], **{weight_of: w[train]})
        np.testing.assert_array_equal(conformal.predict(X), alone.predict(X))
        assert not np.allclose(conformal.predict(X), clone(model).fit(X[train], y[train]).predict(X))
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2)
    searched = ConformalRegressor(search, random_state=0).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(searched.predict(X), conformal.predict(X))
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(Ridge().set_fit_request(sample_weight=True))
        routed = ConformalRegressor(model, random_state=0).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(routed.predict(X), conformal.predict(X))


def test_bags_of_weight_zero_are_as_if_absent():
    X, y = rows(80)
    w = np.ones(80)
    w[::4] = 0
    y_spoilt = np.where(w > 0, y, 1e9)
    found = ConformalRegressor(Ridge(), random_state=0).fit(X, y_spoilt, sample_weight=w)
    alone = ConformalRegressor(Ridge(), random_state=0).fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    np.testing.assert_array_equal(found.predict_interval(X), alone.predict_interval(X))
    np.testing.assert_array_equal(found.calibration_indices_, np.flatnonzero(w)[alone.calibration_indices_])


def test_what_weights_refuse():
    X, y = rows(20)
    for w in (np.ones(19), -np.ones(20), np.full(20, np.inf)):
        with pytest.raises(
            ValueError, match="ConformalRegressor: sample_weight must be one finite number >= 0 a bag, got"
        ):
            ConformalRegressor(Ridge()).fit(X, y, sample_weight=w)
    with pytest.raises(TypeError, match="sample_weight must be taken by the estimator's fit, which that of KNeighbors"):
        ConformalRegressor(make_pipeline(KNeighborsRegressor())).fit(X, y, sample_weight=np.ones(20))
    with pytest.raises(ValueError, match="must leave some bags for the estimator, got 0 bags in all"):
        ConformalRegressor(Ridge()).fit(X, y, sample_weight=np.zeros(20))


# --------------------------------------------------------------------------------------------------------------
# Sets of classes
# --------------------------------------------------------------------------------------------------------------


def test_lac_by_hand():
    p = np.array([[0.1 * i, 1 - 0.1 * i, 0] for i in range(1, 10)])
    conformal = ConformalClassifier(Given().fit(p, None), prefit=True, coverage=0.5).calibrate(p, np.zeros(9, int))
    np.testing.assert_allclose(np.sort(conformal.scores_), np.arange(1, 10) / 10)
    sets = conformal.predict_set([[0.51, 0.49, 0], [0.4, 0.3, 0.3], [0, 0.5, 0.5], [0.1, 0.2, 0.7]])
    np.testing.assert_array_equal(sets, [[1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1]])
    assert sets.dtype == bool
    conformal.set_params(allow_empty=False)
    np.testing.assert_array_equal(conformal.predict_set([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]]), [[1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(conformal.predict_set([[0.51, 0.49, 0]], coverage=0.9), [[1, 1, 0]])


def test_adaptive_scores_by_hand():
    p = np.array([[0.2, 0.5, 0.3], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    expected = [[1.0, 0.5, 0.8], [0.75, 1.0, 0.5], [1.0, 1.0, 1.0]]
    np.testing.assert_allclose(adaptive_scores(p, np.ones(3)), expected)
    np.testing.assert_allclose(adaptive_scores(p, np.zeros(3)), [[0.8, 0, 0.5], [0.5, 0.75, 0], [1, 1, 0]], atol=1e-15)
    u = np.array([0.5, 0.1, 0.9])
    np.testing.assert_allclose(adaptive_scores(p, u), [[0.9, 0.25, 0.65], [0.525, 0.775, 0.05], [1, 1, 0.9]])


@pytest.mark.parametrize("options", [{}, {"method": "aps"}, {"method": "aps", "randomised": False}])
def test_coverage_of_sets(options):
    held, size = [], []
    for seed in range(40):
        X, y = three(260, seed)
        model = ConformalClassifier(LogisticRegression(), coverage=0.8, calibration=0.5, random_state=seed, **options)
        model.fit(X[:60], y[:60])
        sets = model.predict_set(X[60:])
        held.append(np.count_nonzero(holds_class(model, sets, y[60:])))
        size.append(sets.sum(axis=1).mean())
    assert_coverage(held, 200, 30, 0.8)
    assert np.mean(size) < 2


def test_coverage_of_sets_on_bags():
    held = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        kind = rng.integers(0, 2, size=240)
        bags = de.as_bags(rng.normal(kind[:, None, None], 6, size=(240, 20, 1)))
        model = make_pipeline(de.MomentEmbedding("mean"), LogisticRegression())
        conformal = ConformalClassifier(model, calibration=0.5, random_state=seed).fit(bags[:80], kind[:80])
        held.append(np.count_nonzero(holds_class(conformal, conformal.predict_set(bags[80:]), kind[80:])))
    assert_coverage(held, 160, 40, 0.9)


def test_equal_scores_cover_more_and_never_less():
    """A tree has few probabilities."""
    held = {"lac": [], "aps": []}
    for seed in range(30):
        X, y = three(300, seed)
        for method, found in held.items():
            tree = DecisionTreeClassifier(max_depth=2, random_state=0)
            model = ConformalClassifier(tree, method=method, calibration=0.4, random_state=seed).fit(X[:100], y[:100])
            found.append(holds_class(model, model.predict_set(X[100:]), y[100:]).mean())
    for found in held.values():
        assert np.mean(found) > 0.9 - 4 * np.std(found) / np.sqrt(30)


def test_right_probabilities_make_adaptive_scores_uniform():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 1, 2, 0.3], size=4000)
    y = np.array([rng.choice(4, p=row) for row in p])
    model = ConformalClassifier(Given((0, 1, 2, 3)).fit(p, y), method="aps", prefit=True, random_state=0)
    assert stats.kstest(model.calibrate(p, y).scores_, "uniform").pvalue > 1e-3
    whole = model.set_params(randomised=False).calibrate(p, y)
    assert stats.kstest(whole.scores_, "uniform").pvalue < 1e-6


def test_adaptive_sets_grow_where_the_classifier_is_unsure():
    rng = np.random.default_rng(0)
    sure = rng.uniform(size=4000) < 0.8
    p = np.where(sure[:, None], [0.98, 0.01, 0.01], [0.4, 0.3, 0.3]) * rng.uniform(0.99, 1.01, size=(4000, 3))
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in p])
    found = {}
    for method in ("lac", "aps"):
        model = ConformalClassifier(Given().fit(p, y), method=method, prefit=True, random_state=0)
        model.calibrate(p[:2000], y[:2000])
        sets = model.predict_set(p[2000:])
        unsure = ~sure[2000:]
        found[method] = holds_class(model, sets, y[2000:])[unsure].mean(), sets.sum(axis=1).mean()
    assert found["lac"][0] < 0.75
    assert abs(found["aps"][0] - 0.9) < 0.06
    assert found["lac"][1] < found["aps"][1]


def test_random_shares_are_uniform_and_belong_to_the_bag():
    p = np.random.default_rng(0).dirichlet([1, 1, 1], size=5000)
    u = hash_uniforms(p, 7)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.06
    assert all(abs(np.corrcoef(u, column)[0, 1]) < 0.06 for column in p.T)
    assert abs(np.corrcoef(u, hash_uniforms(p, 8))[0, 1]) < 0.06
    np.testing.assert_array_equal(hash_uniforms(p[30:31], 7), u[30:31])
    assert np.mean(hash_uniforms(p * (1 + 1e-16), 7) == u) > 0.999
    line = np.linspace(0, 1, 5001)
    assert stats.kstest(hash_uniforms(np.stack([line, 1 - line], axis=1), 7), "uniform").pvalue > 1e-3


def test_a_bag_has_the_same_set_alone_and_among_others():
    X, y = three()
    model = ConformalClassifier(LogisticRegression(), method="aps", random_state=0).fit(X, y)
    sets = model.predict_set(X)
    np.testing.assert_array_equal(np.concatenate([model.predict_set(x[None]) for x in X[:50]]), sets[:50])
    np.testing.assert_array_equal(model.predict_set(X[::-1])[::-1], sets)
    again = ConformalClassifier(LogisticRegression(), method="aps", random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict_set(X), sets)


def test_more_coverage_gives_larger_sets():
    X, y = three()
    for method in ("lac", "aps"):
        model = ConformalClassifier(LogisticRegression(), method=method, calibration=0.5, random_state=0).fit(X, y)
        sets = [model.predict_set(X, coverage=c) for c in (0.3, 0.6, 0.9, 0.99)]
        assert all(np.all(a <= b) for a, b in pairwise(sets))
        assert sets[0].sum() < sets[-1].sum()


def test_predictions_and_probabilities_are_those_of_the_estimator():
    X, y = three()
    model = ConformalClassifier(LogisticRegression(), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))
    np.testing.assert_array_equal(model.predict_proba(X), model.estimator_.predict_proba(X))
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
    assert model.response_method_ == "predict_proba"
    assert model.score(X, y) == model.estimator_.score(X, y)


def test_decision_functions_stand_in_for_probabilities():
    X, y = three()
    model = ConformalClassifier(RidgeClassifier(), calibration=0.5, random_state=0).fit(X, y)
    held = model.calibration_indices_
    p = softmax(model.estimator_.decision_function(X[held]), axis=1)
    np.testing.assert_allclose(model.scores_, 1 - p[np.arange(len(held)), np.searchsorted(model.classes_, y[held])])
    assert model.response_method_ == "decision_function"
    assert not hasattr(model, "predict_proba")
    two = np.where(y == "a", "a", "rest")
    model = ConformalClassifier(RidgeClassifier(), calibration=0.5, random_state=0).fit(X, two)
    p = expit(model.estimator_.decision_function(X[model.calibration_indices_]))
    np.testing.assert_allclose(model.scores_, np.where(two[model.calibration_indices_] == "rest", 1 - p, p))
    for method in ("lac", "aps"):
        model.set_params(method=method).fit(X[:200], two[:200])
        assert holds_class(model, model.predict_set(X[200:]), two[200:]).mean() > 0.8


def test_sets_by_label():
    X, y = three(2000)
    by = np.where(np.random.default_rng(1).uniform(size=2000) < 0.2, "noisy", "clean")
    y = np.where(by == "noisy", np.random.default_rng(2).permutation(y), y)
    shares = {}
    for use in (False, True):
        model = ConformalClassifier(LogisticRegression(), calibration=0.5, random_state=0)
        model.fit(X[:1000], y[:1000], by=by[:1000] if use else None)
        held = holds_class(model, model.predict_set(X[1000:], by=by[1000:] if use else None), y[1000:])
        shares[use] = held[by[1000:] == "noisy"].mean()
    assert shares[False] < 0.8
    assert abs(shares[True] - 0.9) < 0.08
    with pytest.raises(ValueError, match="ConformalClassifier: by must have the labels of calibration, got 'new'"):
        model.predict_set(X[:1], by=["new"])
    assert model.set_params(unknown="all").predict_set(X[:1], by=["new"]).shape == (1, 3)


def test_too_few_bags_give_all_classes():
    X, y = three(20)
    model = ConformalClassifier(LogisticRegression(), random_state=0).fit(X, y)
    with pytest.warns(
        UserWarning, match="ConformalClassifier: too few calibration bags .*, sets have all classes: 4; 9 "
    ):
        assert model.predict_set(X).all()


def test_a_class_that_the_estimator_has_not_seen_counts_as_missed():
    X, y = three(60)
    model = ConformalClassifier(LogisticRegression().fit(X[y != "c"], y[y != "c"]), prefit=True, coverage=0.5)
    with pytest.warns(UserWarning, match=r"must have the classes of the estimator, \['a', 'b'\], got 'c', whose bags"):
        model.calibrate(X, y)
    assert np.all(np.isinf(model.scores_) == (y == "c"))
    assert model.predict_set(X, coverage=0.95).all()  # nothing less would do


def test_what_classifiers_refuse():
    X, y = three(50)
    with pytest.raises(
        TypeError, match="must be a classifier with predict_proba or decision_function, got Ridge; use one"
    ):
        ConformalClassifier(Ridge()).fit(X, np.arange(50) % 2)
    with pytest.raises(ValueError, match=r"y must be one class per bag, got shape \(50, 1\) for 50 bags; bags.align"):
        ConformalClassifier(LogisticRegression()).fit(X, y[:, None])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        ConformalClassifier(LogisticRegression()).fit(X, X[:, 0])
    with pytest.raises(
        ValueError, match=r"predict_proba must give one finite number per class, got shape \(10, 2\) for 3"
    ):
        ConformalClassifier(Given()).fit(X, np.zeros(50, int))


# --------------------------------------------------------------------------------------------------------------
# Any estimator, any input; scikit-learn
# --------------------------------------------------------------------------------------------------------------


def test_all_forms_of_bags_agree():
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    array = rng.normal(y[:, None, None], 1, size=(60, 15, 1))
    ids = [f"bag {i}" for i in range(60)]
    bags = Bags(array.reshape(-1, 1), np.arange(0, 901, 15), weights=np.ones(900), ids=ids)
    model = ConformalRegressor(make_pipeline(de.MomentEmbedding("mean"), LinearRegression()), random_state=0)
    expected = clone(model).fit(array, y).predict_interval(array)
    for X in (bags, list(array), tuple(array), de.as_bags(array)):
        np.testing.assert_allclose(clone(model).fit(X, y).predict_interval(X), expected, rtol=1e-10)
    recorded = ConformalRegressor(Recorder(), random_state=0).fit(bags, y)
    assert isinstance(recorded.estimator_.X_, Bags)
    train = np.setdiff1d(np.arange(60), recorded.calibration_indices_)
    assert bags[train] == recorded.estimator_.X_  # weights and ids come along


@pytest.mark.parametrize("library", ["pyarrow", "awkward"])
def test_ragged_arrays_of_other_libraries(library):
    make = getattr(pytest.importorskip(library), {"pyarrow": "array", "awkward": "Array"}[library])
    bags, y = located(60)
    X = make([[{"x": value} for value in bag[:, 0].tolist()] for bag in bags])  # scikit-learn can't take bags of them
    model = ConformalRegressor(make_pipeline(de.MomentEmbedding("mean"), LinearRegression()), random_state=0)
    expected = clone(model).fit(bags, y).predict_interval(bags)
    np.testing.assert_allclose(model.fit(X, y).predict_interval(X), expected, rtol=1e-10)


def test_frames_and_sparse_rows():
    pandas = pytest.importorskip("pandas")
    X, y = rows(60)
    expected = ConformalRegressor(Ridge(solver="lsqr", tol=1e-12), random_state=0).fit(X, y).predict_interval(X)
    frame, series = pandas.DataFrame(X, columns=["a", "b", "c"], index=range(100, 160)), pandas.Series(y)
    model = ConformalRegressor(Ridge(solver="lsqr", tol=1e-12), random_state=0).fit(frame, series)
    np.testing.assert_allclose(model.predict_interval(frame), expected, rtol=1e-7)
    assert list(model.estimator_.feature_names_in_) == ["a", "b", "c"]
    model = ConformalRegressor(Ridge(solver="lsqr", tol=1e-12), random_state=0).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(model.predict_interval(sparse.csr_matrix(X)), expected, rtol=1e-4)


def test_calibration_of_a_fitted_estimator_is_the_second_half_of_fit():
    X, y = rows(100)
    whole = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
    held = whole.calibration_indices_
    train = np.setdiff1d(np.arange(100), held)
    fitted = Ridge().fit(X[train], y[train])
    prefit = ConformalRegressor(fitted, prefit=True).calibrate(X[held], y[held])
    assert prefit.estimator_ is fitted
    np.testing.assert_array_equal(prefit.predict_interval(X), whole.predict_interval(X))
    assert not hasattr(prefit, "calibration_indices_")
    whole.calibrate(X[:50], y[:50])  # other bags, the same estimator
    assert len(whole.scores_) == 50
    assert not hasattr(whole, "calibration_indices_")
    np.testing.assert_array_equal(whole.predict(X), prefit.predict(X))


def test_what_needs_a_fitted_estimator_says_so():
    X, y = rows(50)
    with pytest.raises(
        ValueError, match=r"prefit=True\): the estimator is fitted already; call calibrate\(X, y\) with"
    ):
        ConformalRegressor(Ridge().fit(X, y), prefit=True).fit(X, y)
    for action in (
        lambda: ConformalRegressor(Ridge(), prefit=True).calibrate(X, y),
        lambda: ConformalRegressor(Ridge()).calibrate(X, y),
        lambda: ConformalRegressor(Ridge()).predict(X),
        lambda: ConformalRegressor(Ridge()).predict_interval(X),
        lambda: ConformalRegressor(Ridge().fit(X, y), prefit=True).predict_interval(X),
        lambda: ConformalClassifier(LogisticRegression()).predict_set(X),
        lambda: ConformalClassifier(LogisticRegression()).predict_proba(X),
    ):
        with pytest.raises(NotFittedError):
            action()


def test_the_estimator_that_was_given_stays_unfitted_and_the_input_untouched():
    X, y = rows(50)
    before, given = X.copy(), Ridge()
    model = ConformalRegressor(given, random_state=0).fit(X, y)
    assert not hasattr(given, "coef_")
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(Ridge(), coverage=0.8, calibration=0.4, method="absolute", unknown="all", random_state=3),
        ConformalClassifier(LogisticRegression(), method="aps", randomised=True, allow_empty=False, random_state=3),
    ],
)
def test_clone_pickle_and_parameters(model):
    X, y = rows(80)
    y = y if isinstance(model, ConformalRegressor) else (y > 0).astype(int)
    copy = clone(model)
    shown, kept = copy.get_params(deep=False), model.get_params(deep=False)
    assert {k: v for k, v in shown.items() if k != "estimator"} == {k: v for k, v in kept.items() if k != "estimator"}
    predict = "predict_interval" if isinstance(model, ConformalRegressor) else "predict_set"
    fitted = copy.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(getattr(again, predict)(X), getattr(fitted, predict)(X))
    inside = "estimator__alpha" if isinstance(model, ConformalRegressor) else "estimator__C"
    assert clone(model).set_params(**{inside: 7.0}).get_params()[inside] == 7.0
    assert "estimator=" in repr(model)
    fitted._repr_html_()


def test_selection_over_the_estimator_inside():
    bags, y = located(90)
    model = ConformalRegressor(make_pipeline(de.MomentEmbedding("mean"), Ridge()), random_state=0)
    search = GridSearchCV(model, {"estimator__ridge__alpha": [0.1, 1e6]}, cv=3).fit(bags, y)
    assert search.best_params_ == {"estimator__ridge__alpha": 0.1}
    assert search.predict(bags).shape == (90,)
    assert search.best_estimator_.predict_interval(bags).shape == (90, 2)
    assert np.mean(cross_val_score(model, bags, y, cv=3)) > 0.7
    X, names = three()
    sets = GridSearchCV(
        ConformalClassifier(LogisticRegression()), {"estimator__C": [1.0]}, cv=3, scoring="neg_log_loss"
    )
    assert sets.fit(X, names).best_score_ > -1


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"coverage": 90},
            ValueError,
            r"ConformalRegressor\(coverage=...\): must be a number in \(0, 1\), got 90; 0.9 me",
        ),
        ({"coverage": 1.0}, ValueError, r"coverage=...\): must be a number in \(0, 1\), got 1.0"),
        ({"coverage": "high"}, TypeError, r"coverage=...\): must be a number"),
        (
            {"calibration": 0},
            ValueError,
            r"calibration=...\): must be a number in \(0, 1\), got 0; 0.2 means one fifth",
        ),
        (
            {"calibration": 0.99},
            ValueError,
            r"calibration=0.99\): must leave some bags for the estimator, got 20 bags in",
        ),
        (
            {"method": "cqr"},
            ValueError,
            r"method=...\): must be one of 'absolute', 'normalised', 'quantile', got 'cqr'",
        ),
        ({"unknown": "ignore"}, ValueError, r"unknown=...\): must be one of 'error', 'all', got 'ignore'"),
        (
            {"estimator": Ridge},
            TypeError,
            r"estimator=...\): must be an estimator such as .*; pass an object with fit and",
        ),
        ({"estimator": "ridge"}, TypeError, r"estimator=...\): must be an estimator such as .* got 'ridge'"),
    ],
)
def test_parameters_are_checked_in_fit(options, error, text):
    X, y = rows(20)
    model = ConformalRegressor(**({"estimator": Ridge()} | options))
    with pytest.raises(error, match=text):
        model.fit(X, y)


def test_coverage_is_checked_in_prediction():
    with pytest.raises(ValueError, match=r"ConformalRegressor\(coverage=...\): must be a number in \(0, 1\), got 95"):
        calibrated(np.arange(30.0)).predict_interval(np.zeros((1, 1)), coverage=95)


def test_targets_and_predictions_are_checked():
    X, y = rows(30)
    model = ConformalRegressor(Ridge(), random_state=0)
    with pytest.raises(
        TypeError, match="y must be numbers, got list that are not; use ConformalClassifier for classes"
    ):
        model.fit(X, ["a"] * 30)
    with pytest.raises(ValueError, match=r"y must be one number, or one row, a bag, got shape \(29,\) for 30 bags"):
        model.fit(X, y[:29])
    with pytest.raises(ValueError, match="y must be finite, got nan for bag 4; leave such bags out"):
        model.fit(X, np.where(np.arange(30) == 4, np.nan, y))
    with pytest.raises(
        ValueError, match=r"predictions must have the shape of y, \(30, 2\), got \(30,\); use an estimator"
    ):
        ConformalRegressor(Ridge().fit(X, y), prefit=True).calibrate(X, np.stack([y, y], axis=1))
    spoilt = Ridge().fit(X, y)
    spoilt.intercept_ = np.nan
    with pytest.raises(ValueError, match="predictions and their deviations must be finite, got nan for bag 0; mend"):
        ConformalRegressor(spoilt, prefit=True).calibrate(X, y)
    with pytest.raises(ValueError, match="must leave some groups for the estimator, got 1 groups in all"):
        model.fit(X, y, groups=np.zeros(30))


def test_a_second_fit_forgets_the_first():
    X, y = rows(100)
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, y, by=np.arange(100) % 2, groups=np.arange(100))
    model.fit(X[:, :2], y)
    assert model.by_ is None
    assert model.groups_ is None
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(
        model.predict_interval(X[:, :2]), clone(model).fit(X[:, :2], y).predict_interval(X[:, :2])
    )


def test_scores_never_stay_with_another_estimator():
    X, y = rows(100)
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="needs an estimator with predict"):
        model.set_params(method="normalised").fit(X, y)  # the estimator is fitted, and then has no deviations
    with pytest.raises(NotFittedError):
        model.predict_interval(X)
    model.set_params(method="absolute").fit(X, y)
    before = model.predict_interval(X)
    with pytest.raises(ValueError, match="y must be finite"):
        model.set_params(estimator=Ridge(1e9).fit(X, y), prefit=True).calibrate(X, np.full(100, np.nan))
    np.testing.assert_array_equal(model.predict_interval(X), before)


def test_dummy_classes_and_truth_values():
    X = np.zeros((100, 1))
    y = np.arange(100) % 10 < 7
    model = ConformalClassifier(DummyClassifier(strategy="prior"), calibration=0.5, random_state=0).fit(X, y)
    assert model.predict_set(X, coverage=0.95).all()  # all scores of a class are equal
    np.testing.assert_array_equal(model.predict_set(X[:1], coverage=0.5), [[False, True]])


def of_two_sizes(n, seed):
    """Small bags show their number less well."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    sizes = rng.choice([3, 12, 100], size=n)
    return de.Bags.from_arrays([rng.normal(t, 2, size=(m, 1)) for t, m in zip(y, sizes, strict=True)]), y


def test_parts_by_size_have_their_own_intervals(tmp_path):
    learner = de.DistributionRegressor("mean", n_components=None, random_state=0)
    model = de.ConformalRegressor(learner, coverage=0.8, calibration=0.5, random_state=0)
    model.fit(*of_two_sizes(300, 0), by="size")
    bags, y = of_two_sizes(600, 1)
    low, high = model.predict_interval(bags).T
    for size in (3, 12, 100):
        own = bags.sizes == size
        assert np.mean(((low <= y) & (y <= high))[own]) == pytest.approx(0.8, abs=0.12)
    assert np.mean((high - low)[bags.sizes == 3]) > 1.5 * np.mean((high - low)[bags.sizes == 100])
    np.testing.assert_array_equal(model.predict_interval(bags, by="size"), np.stack([low, high], axis=1))
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict_interval(bags), np.stack([low, high], axis=1))
    few = de.ConformalRegressor(learner, random_state=0).fit(*of_two_sizes(60, 0), by="size")
    assert len(few.size_limits_) == 0


def test_the_default_learner_and_covariates():
    bags, y = of_two_sizes(60, 0)
    model = de.ConformalRegressor(random_state=0)
    assert model._base.get_params()["embedding"] == "auto"
    assert de.ConformalClassifier()._base.get_params()["embedding"] == "auto"
    with pytest.raises(ValueError, match=r"\(prefit=True\): needs the fitted estimator, got none"):
        de.ConformalRegressor(prefit=True).calibrate(bags, y)
    age = {"age": y + np.random.default_rng(0).normal(0, 0.1, 60)}
    model = de.ConformalRegressor(de.DistributionRegressor("mean", random_state=0), coverage=0.8, random_state=0)
    model.fit(bags[:40], y[:40], covariates={"age": age["age"][:40]})
    new = {"age": age["age"][40:]}
    assert model.predict_interval(bags[40:], covariates=new).shape == (20, 2)
    assert model.score(bags[40:], y[40:], covariates=new) > 0.8
    high = y > 0
    sets = de.ConformalClassifier(de.DistributionClassifier("mean", random_state=0), coverage=0.8, random_state=0)
    sets.fit(bags[:40], high[:40], covariates={"age": age["age"][:40]})
    assert sets.predict_set(bags[40:], covariates=new).shape == (20, 2)
    assert sets.score(bags[40:], high[40:], covariates=new) > 0.7
    plain = make_pipeline(de.MomentEmbedding("mean"), LinearRegression())
    with pytest.raises(TypeError, match="covariates must be taken by the estimator's fit"):
        de.ConformalRegressor(plain).fit(bags, y, covariates=age)
