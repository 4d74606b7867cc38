"""Linear ridge regression: against scikit-learn, refitting and Gaussian processes, in memory and in batches."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from distembed.exact import ridge, ridge_deviation, ridge_hat_matrix, ridge_leave_one_out, ridge_noise
from distembed.learners import LinearRidge
from distembed.learners import normal_equations as _normal_equations
from distembed.learners.normal_equations import NormalEquations, centred, row_blocks
from distembed.learners.ridge_solutions import solve_dual, solve_primal

GRID = (0.01, 0.3, 2.0, 50.0)
SOLVERS = ("primal", "dual")
shapes = pytest.mark.parametrize(("n", "d"), [(40, 6), (9, 20), (12, 12)])
solvers = pytest.mark.parametrize("solver", SOLVERS)
intercepts = pytest.mark.parametrize("intercept", [True, False])
weightings = pytest.mark.parametrize("weighted", [False, True])


def data(n=40, d=6, n_outputs=None, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) @ np.diag(np.linspace(0.3, 2.0, d)) + rng.normal(size=d)
    b = rng.normal(size=(d, n_outputs or 1))
    y = Z @ b + 3 + noise * rng.normal(size=(n, n_outputs or 1)) * np.linspace(1, 4, n_outputs or 1)
    w = rng.uniform(0.1, 3, size=n)
    w[[1, n // 2]] = 0
    return Z, y if n_outputs else y[:, 0], w


def batches_of(Z, y, w=None, sizes=(5, 1, 17)):
    edges = [0, *np.cumsum(sizes), len(Z)]
    return [(Z[a:b], y[a:b], *(() if w is None else (w[a:b],))) for a, b in itertools.pairwise(edges) if b > a]


# --------------------------------------------------------------------------------------------------------------
# Coefficients
# --------------------------------------------------------------------------------------------------------------


@shapes
@solvers
@intercepts
@weightings
@pytest.mark.parametrize("alpha", [0.05, 3.0])
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_agrees_with_ridge(n, d, solver, intercept, weighted, alpha, n_outputs):
    Z, y, w = data(n, d, n_outputs)
    w = w if weighted else None
    ours = LinearRidge(alpha, fit_intercept=intercept, solver=solver).fit(Z, y, w)
    many = LinearRidge([alpha, alpha * (1 + 1e-15)], fit_intercept=intercept, solver=solver).fit(Z, y, w)
    theirs = Ridge(alpha, fit_intercept=intercept, solver="svd").fit(Z, y, w)
    for model in (ours, many):
        assert_allclose(np.atleast_2d(model.coef_), np.atleast_2d(theirs.coef_), rtol=1e-9, atol=1e-12)
        assert_allclose(model.intercept_, theirs.intercept_, rtol=1e-9, atol=1e-12)
        assert np.shape(model.predict(Z)) == y.shape
        assert_allclose(model.predict(Z), theirs.predict(Z).reshape(y.shape), rtol=1e-9, atol=1e-12)
    assert np.shape(ours.coef_) == ((d,) if n_outputs is None else (n_outputs, d))
    assert np.shape(ours.intercept_) == (() if n_outputs is None else (n_outputs,))


@intercepts
@weightings
def test_agrees_with_the_judge(intercept, weighted):
    Z, y, w = data()
    w = w if weighted else None
    model = LinearRidge(0.7, fit_intercept=intercept).fit(Z, y, w)
    b, c = ridge(Z, y, 0.7, w, intercept)
    assert_allclose(model.coef_, b, rtol=1e-10)
    assert_allclose(model.intercept_, c, rtol=1e-10, atol=1e-12)
    assert_allclose(model.sigma2_, ridge_noise(Z, y, 0.7, w, intercept), rtol=1e-10)
    H = ridge_hat_matrix(Z, 0.7, w, intercept)
    kept = slice(None) if w is None else w > 0
    v = np.ones(len(Z)) if w is None else w[kept]
    e = y[kept] - model.predict(Z[kept])
    gcv = np.sum(v * e**2) / v.sum() / (1 - np.trace(H) / len(H)) ** 2
    assert_allclose(model.gcv_error_, gcv, rtol=1e-10)


@solvers
def test_zero_alpha_is_least_squares_of_least_norm(solver):
    for n, d in ((40, 6), (9, 20)):
        Z, y, _ = data(n, d)
        Z = np.column_stack([Z, Z[:, 0], np.full(n, 7.0)])  # a column twice, and a constant one
        model = LinearRidge(0.0, solver=solver).fit(Z, y)
        wanted = LinearRegression().fit(Z, y)
        assert_allclose(model.coef_, wanted.coef_, rtol=1e-9, atol=1e-12)
        assert model.coef_[-1] == 0
        assert np.isnan(model.sigma2_) == (n < d)


@solvers
def test_alpha_too_small_for_cholesky(solver):
    Z, y, _ = data(30, 4)
    Z = np.hstack([Z, Z])
    model = LinearRidge(1e-18, solver=solver).fit(Z, y)
    assert_allclose(model.predict(Z), LinearRegression().fit(Z, y).predict(Z), rtol=1e-9)


def test_auto_takes_the_smaller_matrix():
    assert "_rows" in vars(LinearRidge().fit(*data(9, 20)[:2]))
    assert "_equations" in vars(LinearRidge().fit(*data(40, 6)[:2]))
    Z, y, w = data(22, 21)
    assert "_rows" in vars(LinearRidge().fit(Z, y, w))  # 20 rows count


@solvers
def test_offsets_cost_no_digits(solver):
    Z, y, w = data(40, 6)
    Z = np.round(Z * 2**20) / 2**20  # so that the shift itself is exact
    near = LinearRidge(0.1, solver=solver).fit(Z, y, w)
    far = LinearRidge(0.1, solver=solver).fit(Z + 2.0**20, y + 2.0**20, w)
    assert_allclose(far.coef_, near.coef_, rtol=1e-9)
    assert_allclose(far.predict(Z + 2.0**20) - 2.0**20, near.predict(Z), atol=1e-8)
    assert_allclose(far.loo_error_, near.loo_error_, rtol=1e-8)


def test_mean_of_a_million():
    rng = np.random.default_rng(0)
    Z = np.round(rng.normal(size=(500, 5)) * 1024) / 1024
    y = rng.normal(size=(500, 1))
    near, far = NormalEquations(5, 1), NormalEquations(5, 1)
    odd = np.full((1, 5), -3e6)  # the first batch is no guide to the others
    for rows in (slice(0, 1), slice(1, 200), slice(200, 500)):
        near.add(Z[rows], y[rows])
        far.add(Z[rows] + 1e6, y[rows])
    assert_allclose(far.G, near.G, rtol=1e-10, atol=1e-9)
    assert_allclose(far.B, near.B, rtol=1e-10, atol=1e-9)
    lone = NormalEquations(5, 1).add(odd, y[:1]).add(Z, y)
    both = np.vstack([odd, Z])
    C = np.cov(both.T, bias=True) * 501
    assert_allclose(np.tril(lone.G), np.tril(C), rtol=1e-12)


# --------------------------------------------------------------------------------------------------------------
# Leave-one-out and the choice of alpha
# --------------------------------------------------------------------------------------------------------------


@shapes
@solvers
@intercepts
@weightings
@pytest.mark.parametrize("alpha", [0.2, 5.0])
def test_leave_one_out_is_refitting(n, d, solver, intercept, weighted, alpha):
    Z, y, w = data(n, d)
    w = w if weighted else None
    wanted = ridge_leave_one_out(Z, y, alpha, w, intercept)
    v = np.ones(n) if w is None else w
    error = np.sum(v * (y - wanted) ** 2) / v.sum()
    for grid in (alpha, [alpha, alpha * (1 + 1e-15)]):
        model = LinearRidge(grid, fit_intercept=intercept, solver=solver).fit(Z, y, w)
        assert_allclose(model.loo_predictions_, wanted, rtol=1e-8, atol=1e-10)
        assert_allclose(model.loo_error_, error, rtol=1e-8)


@solvers
def test_leave_one_out_of_least_squares(solver):
    Z, y, w = data(30, 5)
    model = LinearRidge(0, solver=solver).fit(Z, y, w)
    assert_allclose(model.loo_predictions_, ridge_leave_one_out(Z, y, 0.0, w), rtol=1e-9)
    Z[3, 0], Z[np.arange(30) != 3, 0] = 1.0, 0.0  # only row 3 tells the first coefficient
    model = LinearRidge(0, solver=solver).fit(Z, y)
    assert_array_equal(np.flatnonzero(np.isnan(model.loo_predictions_)), [3])
    assert np.isnan(model.loo_error_)
    assert LinearRidge([0, 1.0], solver=solver).fit(Z, y).alpha_ == 1.0


def test_leave_one_out_of_tiny_alphas_in_the_dual():
    Z, y, w = data(9, 20)
    for grid in (1e-9, [1e-9, 1e-9 * (1 + 1e-15)]):
        model = LinearRidge(grid).fit(Z, y, w)
        assert_allclose(model.loo_predictions_, ridge_leave_one_out(Z, y, 1e-9, w), rtol=1e-5)


@solvers
@intercepts
@weightings
def test_alpha_has_the_least_error(solver, intercept, weighted):
    Z, y, w = data(30, 12, 2, noise=3.0)
    w = w if weighted else None
    model = LinearRidge(GRID[::-1], fit_intercept=intercept, solver=solver).fit(Z, y, w)
    assert_array_equal(model.alphas_, GRID)
    v = np.ones(30) if w is None else w
    errors = np.empty((len(GRID), 2))
    for i, k in itertools.product(range(len(GRID)), range(2)):
        left_out = ridge_leave_one_out(Z, y[:, k], GRID[i], w, intercept)
        errors[i, k] = np.sum(v * (y[:, k] - left_out) ** 2) / v.sum()
    assert_allclose(model.alpha_errors_, errors, rtol=1e-9)
    centre = np.average(y, axis=0, weights=v) if intercept else 0.0
    variances = np.average((y - centre) ** 2, axis=0, weights=v)
    best = int(np.argmin((errors / variances).mean(axis=1)))
    assert model.alpha_ == GRID[best]
    assert_allclose(model.loo_error_, errors[best])
    own = clone(model).set_params(alpha_per_output=True).fit(Z, y, w)
    assert_array_equal(own.alpha_, np.array(GRID)[errors.argmin(axis=0)])
    for k in range(2):
        alone = LinearRidge(own.alpha_[k], fit_intercept=intercept, solver=solver).fit(Z, y[:, k], w)
        assert_allclose(own.coef_[k], alone.coef_, rtol=1e-9)
        assert_allclose(own.intercept_[k], alone.intercept_, rtol=1e-9, atol=1e-12)
        assert_allclose(own.loo_error_[k], alone.loo_error_)
        assert_allclose(own.sigma2_[k], alone.sigma2_)
        assert_allclose(own.gcv_error_[k], alone.gcv_error_)
        for ours, theirs in zip(own.predict(Z, return_std=True), alone.predict(Z, return_std=True), strict=True):
            assert_allclose(ours[:, k], theirs, rtol=1e-9)


def test_outputs_may_differ_in_alpha():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 10))
    y = np.column_stack([Z @ rng.normal(size=10) * 100, rng.normal(size=60)])  # all signal, all noise
    model = LinearRidge("auto", alpha_per_output=True).fit(Z, y)
    assert model.alpha_[0] < model.alpha_[1] / 100


def test_agrees_with_ridge_cv():
    for n, d in ((40, 6), (9, 20)):
        Z, y, _ = data(n, d, noise=2.0)
        theirs = RidgeCV(GRID, store_cv_results=True).fit(Z, y)
        ours = LinearRidge(GRID).fit(Z, y)
        assert ours.alpha_ == theirs.alpha_
        assert_allclose(ours.alpha_errors_[:, 0], theirs.cv_results_.mean(axis=0), rtol=1e-8)
        assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)


def test_auto_alphas_follow_the_scale_of_features():
    Z, y, _ = data(50, 8, noise=2.0)
    model, scaled = LinearRidge("auto").fit(Z, y), LinearRidge("auto").fit(1000 * Z, y)
    assert_allclose(scaled.alpha_, 1e6 * model.alpha_)
    assert_allclose(scaled.predict(1000 * Z), model.predict(Z))
    assert len(model.alphas_) == 25
    G = np.cov(Z.T, bias=True) * 50
    assert_allclose(model.alphas_[[0, -1]], np.array([1e-8, 1e4]) * np.trace(G) / 8)


def test_auto_alphas_help():
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z, b = rng.normal(size=(80, 60)), rng.normal(size=60) / 8
        y = Z @ b + rng.normal(size=80)
        models = [LinearRidge("auto"), LinearRidge(0.0), *(LinearRidge(alpha) for alpha in np.logspace(0, 3, 10))]
        errors.append([np.sum((model.fit(Z, y).coef_ - b) ** 2) for model in models])
    mean = np.mean(errors, axis=0)
    assert mean[0] < 1.15 * mean[2:].min()
    assert mean[0] < 0.3 * mean[1]


def test_of_equal_errors_the_largest_alpha():
    Z = np.random.default_rng(0).normal(size=(20, 3))
    assert LinearRidge(GRID).fit(Z, np.full(20, 2.0)).alpha_ == GRID[-1]
    assert LinearRidge(GRID).fit(Z[:1], [1.0]).alpha_ == GRID[-1]


# --------------------------------------------------------------------------------------------------------------
# Deviations
# --------------------------------------------------------------------------------------------------------------


@shapes
@solvers
@intercepts
@weightings
def test_deviation_is_that_of_a_gaussian_process(n, d, solver, intercept, weighted):
    Z, y, w = data(n, d)
    new = np.vstack([Z[:3], 2 * Z[:3] + 1, np.zeros(d)])
    w = w if weighted else None
    wanted = ridge_deviation(Z, y, new, 0.4, w, intercept)
    for grid in (0.4, [0.4, 0.4 * (1 + 1e-15)]):
        mean, deviation = LinearRidge(grid, fit_intercept=intercept, solver=solver).fit(Z, y, w).predict(new, True)
        assert mean.shape == deviation.shape == (7,)
        assert_allclose(deviation, wanted, rtol=1e-8)


def test_deviation_agrees_with_scikit_learn():
    Z, y, _ = data(25, 4)
    model = LinearRidge(0.4, fit_intercept=False).fit(Z, y)
    fixed = {"constant_value_bounds": "fixed"}
    kernel = ConstantKernel(model.sigma2_ / 0.4, **fixed) * DotProduct(0.0, "fixed")
    process = GaussianProcessRegressor(kernel + WhiteKernel(model.sigma2_, "fixed"), optimizer=None, alpha=0).fit(Z, y)
    for ours, theirs in zip(model.predict(Z + 1, True), process.predict(Z + 1, return_std=True), strict=True):
        assert_allclose(ours, theirs, rtol=1e-7)
    Z -= Z.mean(axis=0)  # older versions of the next forget to centre new rows
    bayes = BayesianRidge().fit(Z, y)  # its deviation lacks the intercept's 1/n
    model = LinearRidge(bayes.lambda_ / bayes.alpha_).fit(Z, y)
    assert_allclose(model.coef_, bayes.coef_, rtol=1e-6)
    ours = (model.predict(Z, True)[1] ** 2 / model.sigma2_ - 1 / 25) / bayes.alpha_
    assert_allclose(ours, bayes.predict(Z, return_std=True)[1] ** 2, rtol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(60, 10), (30, 45)])
def test_coverage(n, d):
    rng = np.random.default_rng(0)
    alpha, sigma, z = 4.0, 0.7, []
    for _ in range(150):
        Z, new = rng.normal(size=(n, d)), rng.normal(size=(20, d)) * 1.5
        b, c = rng.normal(size=d) * sigma / np.sqrt(alpha), rng.normal() * 10
        w = rng.uniform(0.2, 3, size=n)
        y = Z @ b + c + sigma / np.sqrt(w) * rng.normal(size=n)
        mean, deviation = LinearRidge(alpha).fit(Z, y, w).predict(new, return_std=True)
        z.append((new @ b + c + sigma * rng.normal(size=20) - mean) / deviation)
    inside = np.mean(np.abs(z) < 1.96)
    assert 0.92 < inside < 0.965
    assert 0.64 < np.mean(np.abs(z) < 1) < 0.72


def test_noise_is_unbiased():
    rng = np.random.default_rng(1)
    for alpha in (0.0, 2.0):
        found = []
        for _ in range(300):
            Z = rng.normal(size=(30, 8))
            b = rng.normal(size=8) * (1 / np.sqrt(alpha) if alpha else 1)
            found.append(LinearRidge(alpha).fit(Z, Z @ b + rng.normal(size=30)).sigma2_)
        assert abs(np.mean(found) - 1) < 4 * np.std(found) / np.sqrt(300)


# --------------------------------------------------------------------------------------------------------------
# Batches
# --------------------------------------------------------------------------------------------------------------


@intercepts
@weightings
@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("alpha", [0.5, GRID])
def test_batches_agree_with_memory(intercept, weighted, n_outputs, alpha):
    Z, y, w = data(40, 6, n_outputs, noise=2.0)
    w = w if weighted else None
    batches = batches_of(Z, y, w)
    whole = LinearRidge(alpha, fit_intercept=intercept).fit_batches(lambda: batches)
    parts = LinearRidge(alpha, fit_intercept=intercept)
    for batch in batches:
        assert parts.partial_fit(*batch) is parts
    memory = LinearRidge(whole.alpha_, fit_intercept=intercept).fit(Z, y, w)
    new, wanted = Z + 1, memory.predict(Z + 1, return_std=True)
    for model in (whole, parts):
        assert_allclose(model.coef_, memory.coef_, rtol=1e-9)
        assert_allclose(model.intercept_, memory.intercept_, rtol=1e-9, atol=1e-12)
        assert_allclose(model.sigma2_, memory.sigma2_, rtol=1e-9)
        assert_allclose(model.gcv_error_, memory.gcv_error_, rtol=1e-9)
        for ours, theirs in zip(model.predict(new, return_std=True), wanted, strict=True):
            assert_allclose(ours, theirs, rtol=1e-9)
    assert_array_equal(whole.coef_, parts.coef_)


def test_alpha_by_generalised_cross_validation():
    Z, y, w = data(40, 6, noise=6.0)
    model = LinearRidge(GRID).fit_batches(lambda: iter(batches_of(Z, y, w)))
    kept = w > 0
    wanted = []
    for alpha in GRID:
        b, c = ridge(Z, y, alpha, w)
        trace = np.trace(ridge_hat_matrix(Z, alpha, w))
        mean_square = np.sum(w * (y - Z @ b - c) ** 2) / w.sum()
        wanted.append(mean_square / (1 - trace / kept.sum()) ** 2)
    assert_allclose(model.alpha_errors_[:, 0], wanted, rtol=1e-9)
    assert model.alpha_ == GRID[int(np.argmin(wanted))]
    assert_allclose(model.gcv_error_, min(wanted), rtol=1e-9)
    assert not hasattr(model, "loo_error_")
    with pytest.raises(AttributeError, match=r"loo_predictions_ needs all rows in memory.*see gcv_error_"):
        _ = model.loo_predictions_


@intercepts
@pytest.mark.parametrize("repeated", [False, True])
def test_fewer_rows_than_features_in_batches(intercept, repeated):
    Z, y, w = data(9, 20)
    if repeated:  # two targets for the same row: residuals do not vanish with alpha
        Z[3] = Z[4]
    grid = np.logspace(-9, 2, 12)
    model = LinearRidge(grid, fit_intercept=intercept).partial_fit(Z, y, w)
    memory = [LinearRidge(alpha, fit_intercept=intercept).fit(Z, y, w) for alpha in grid]
    assert_allclose(model.alpha_errors_[:, 0], [one.gcv_error_ for one in memory], rtol=1e-5)
    for alpha, one in zip(grid, memory, strict=True):
        single = LinearRidge(alpha, fit_intercept=intercept).partial_fit(Z, y, w)
        assert_allclose(single.sigma2_, one.sigma2_, rtol=1e-5)
        assert_allclose(single.coef_, one.coef_, atol=1e-13 / alpha)  # rounding of B, over alpha


def test_generalised_cross_validation_is_near_leaving_out():
    Z, y, _ = data(400, 10, noise=3.0)
    model = LinearRidge("auto").fit(Z, y)
    assert_allclose(model.gcv_error_, model.loo_error_, rtol=0.01)


def test_partial_fit_is_lazy(monkeypatch):
    calls = []
    monkeypatch.setattr("distembed.learners.ridge.solve_primal", lambda *args: calls.append(1) or solve_primal(*args))
    Z, y, _ = data()
    model = LinearRidge()
    for batch in batches_of(Z, y):
        model.partial_fit(*batch)
    assert not calls
    model.predict(Z, return_std=True)
    assert model.coef_.shape == (6,)
    assert len(calls) == 1
    before = model.coef_
    model.partial_fit(Z + 1, y)
    assert len(calls) == 1
    assert not np.array_equal(model.coef_, before)
    assert len(calls) == 2
    lazy = pickle.loads(pickle.dumps(LinearRidge().partial_fit(Z, y)))
    assert_array_equal(lazy.coef_, LinearRidge().partial_fit(Z, y).coef_)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 30)])
@intercepts
def test_partial_fit_goes_on_from_fit(n, d, intercept):
    Z, y, w = data(n, d)
    half = n // 2
    model = LinearRidge(0.3, fit_intercept=intercept).fit(Z[:half], y[:half], w[:half])
    assert hasattr(model, "loo_error_")
    model.partial_fit(Z[half:], y[half:], w[half:])
    assert not hasattr(model, "loo_error_")
    wanted = LinearRidge(0.3, fit_intercept=intercept).fit(Z, y, w)
    assert_allclose(model.coef_, wanted.coef_, rtol=1e-9)
    assert_allclose(model.sigma2_, wanted.sigma2_, rtol=1e-8)
    assert_array_equal(model.fit(Z, y, w).coef_, wanted.coef_)  # and fit forgets


def test_a_batch_without_weight_is_as_if_absent():
    Z, y, _ = data()
    model = LinearRidge().partial_fit(Z, y)
    before = model.coef_
    assert_array_equal(model.partial_fit(Z, y, np.zeros(40)).coef_, before)


def test_memory_does_not_grow_with_rows(monkeypatch):
    seen = []
    monkeypatch.setattr(_normal_equations, "_BLOCK_VALUES", 60)
    monkeypatch.setattr(_normal_equations, "_BLOCK_ROWS", 10)
    inner = NormalEquations._add_block
    monkeypatch.setattr(NormalEquations, "_add_block", lambda s, z, *rest: seen.append(len(z)) or inner(s, z, *rest))
    Z, y, w = data(95, 6)
    small = LinearRidge(GRID).fit(Z, y, w)
    assert max(seen) <= 10
    assert len(seen) == 10
    monkeypatch.undo()
    whole = LinearRidge(GRID).fit(Z, y, w)
    assert_allclose(small.coef_, whole.coef_, rtol=1e-10)
    assert_allclose(small.loo_predictions_, whole.loo_predictions_, rtol=1e-10)


# --------------------------------------------------------------------------------------------------------------
# Normal equations
# --------------------------------------------------------------------------------------------------------------


def sums(batches, dtype=np.float64):
    new = NormalEquations(batches[0][0].shape[1], batches[0][1].shape[1], dtype)
    for batch in batches:
        new.add(*batch)
    return new


def assert_same(a, b, **tolerance):
    for name, value in a.state().items():
        if name == "dtype":
            continue
        if tolerance:
            assert_allclose(b.state()[name], value, **tolerance)
        else:
            assert_array_equal(b.state()[name], value)


def test_sums_are_sums():
    Z, y, w = data(40, 6, 2)
    kept = w > 0
    found = sums(batches_of(Z, y, w))
    assert found.n_rows == kept.sum()
    assert_allclose(found.weight, w.sum())
    assert_allclose(found.z_mean, w @ Z / w.sum())
    assert_allclose(found.y_mean, w @ y / w.sum())
    for about_mean in (True, False):
        z, t = (Z - found.z_mean, y - found.y_mean) if about_mean else (Z, y)
        G, B, yy = found.moments(about_mean)
        assert_allclose(np.tril(G), np.tril((w[:, None] * z).T @ z), rtol=1e-12, atol=1e-12)
        assert_allclose(B, (w[:, None] * z).T @ t, rtol=1e-12, atol=1e-12)
        assert_allclose(yy, w @ t**2)
        assert_allclose(found.trace(about_mean), np.trace(G))


def test_same_batches_same_bits_other_batches_nearly():
    Z, y, w = data(200, 6, 2)
    first = sums(batches_of(Z, y, w))
    assert_same(sums(batches_of(Z, y, w)), first)
    for sizes in ((), (1,) * 150, (100, 50)):
        assert_same(sums(batches_of(Z, y, w, sizes)), first, rtol=1e-11, atol=1e-11)


def test_merging_is_adding():
    Z, y, w = data(200, 6, 2)
    Z[100:] += 1e4  # means far apart
    wanted = sums([(Z, y, w)])
    left, right = sums([(Z[:70], y[:70], w[:70])]), sums([(Z[70:], y[70:], w[70:])])
    before = right.state()
    assert_same(left.merge(right), wanted, rtol=1e-11, atol=1e-8)
    assert all(np.array_equal(before[name], value) for name, value in right.state().items())
    empty = NormalEquations(6, 2)
    assert_same(NormalEquations(6, 2).merge(right), right)
    assert_same(sums([(Z[70:], y[70:], w[70:])]).merge(empty), right)
    copied = NormalEquations(6, 2).merge(right).add(Z, y)
    assert copied.n_rows > right.n_rows
    assert all(np.array_equal(before[name], value) for name, value in right.state().items())
    with pytest.raises(ValueError, match=r"must have 6 and 2 columns, as before, got 5 and 2"):
        left.merge(NormalEquations(5, 2))


def test_checkpoints(tmp_path):
    Z, y, w = data(60, 6, 2)
    batches = batches_of(Z, y, w)
    half = sums(batches[:2])
    np.savez(tmp_path / "sums.npz", **half.state())
    with np.load(tmp_path / "sums.npz", allow_pickle=False) as state:
        resumed = NormalEquations.from_state(state)
    assert_same(resumed, half)
    for batch in batches[2:]:
        resumed.add(*batch)
    assert_same(resumed, sums(batches))
    with pytest.raises(ValueError, match=r"state lacks \['G', 'yy'\]"):
        NormalEquations.from_state({k: v for k, v in half.state().items() if k not in ("G", "yy")})
    with pytest.raises(ValueError, match=r"G must have the shape \(6, 6\), got \(5, 6\)"):
        NormalEquations.from_state({**half.state(), "G": half.G[:5]})


def test_products_in_float32():
    Z, y, w = data(3000, 20, 2)
    Z, exact = (Z + 1000).astype(np.float32), sums([((Z + 1000).astype(np.float32), y, w)])
    rough = sums([(Z, y, w)], np.float32)
    error = np.abs(rough.G - exact.G).max() / np.abs(exact.G).max()
    assert 0 < error < 1e-6
    assert_array_equal(rough.B, exact.B)
    with pytest.raises(ValueError, match=r"NormalEquations\(dtype=...\): must be float32 or float64, got int64"):
        NormalEquations(2, 1, int)


def test_constant_columns_are_zero():
    Z = np.full((1000, 2), 0.1)
    assert not centred(Z, np.random.default_rng(0).uniform(size=1000))[0].any()
    found = NormalEquations(2, 1)
    for _ in range(7):
        found.add(Z, np.zeros((1000, 1)))
    assert not found.G.any()
    assert_array_equal(found.z_mean, [0.1, 0.1])


def test_blocks_cover_rows():
    for n, d in ((1, 1), (1000, 10_000), (5_000_000, 3)):
        edges = list(row_blocks(n, d))
        assert edges[0].start == 0
        assert edges[-1].stop == n
        assert all(a.stop == b.start for a, b in itertools.pairwise(edges))


def test_solvers_agree():
    Z, y, w = data(25, 8, 2)
    kept = w > 0
    equations = sums([(Z, y, w)])
    root = np.sqrt(w[kept])[:, None]
    rows, targets = root * (Z[kept] - equations.z_mean), root * (y[kept] - equations.y_mean)
    direction = root[:, 0] / np.sqrt(w.sum())
    new, pair = Z - 1, np.array([0.3, 0.3])
    found = []
    for alphas in (np.array([0.3]), np.array([0.3, 4.0])):
        found.append(solve_primal(equations, True, alphas))
        found.append(solve_dual(rows, targets, direction, alphas))
    assert len({type(solver) for solver in found}) == 4
    for other in found[1:]:
        assert_allclose(other.coefficients(pair), found[0].coefficients(pair), rtol=1e-9)
        assert_allclose(other.freedom(pair), found[0].freedom(pair), rtol=1e-10)
        assert_allclose(other.forms(new, pair[:1]), found[0].forms(new, pair[:1]), rtol=1e-9)
        assert_allclose(np.ravel(other.residual_squares(pair))[:2], found[0].residual_squares(pair)[0], rtol=1e-9)


# --------------------------------------------------------------------------------------------------------------
# Types, edges, errors
# --------------------------------------------------------------------------------------------------------------


@solvers
def test_float32_rows_lose_nothing_but_their_own_digits(solver):
    Z, y, w = data(40, 30, noise=0.01)
    single = (Z + 100).astype(np.float32)
    model = LinearRidge(1e-4, solver=solver).fit(single, y, w)
    wanted = LinearRidge(1e-4, solver=solver).fit(single.astype(np.float64), y, w)
    assert_allclose(model.coef_, wanted.coef_, rtol=1e-9)
    mean, deviation = model.predict(single, return_std=True)
    assert mean.dtype == deviation.dtype == np.float32
    assert_allclose(mean, wanted.predict(single.astype(np.float64)), rtol=1e-6)
    assert model.predict(Z).dtype == np.float64
    assert model.coef_.dtype == np.float64


@solvers
def test_rows_of_weight_zero_are_as_if_absent(solver):
    Z, y, w = data(40, 6, 2)
    kept = w > 0
    model, wanted = (
        LinearRidge(GRID, solver=solver).fit(Z, y, w),
        LinearRidge(GRID, solver=solver).fit(Z[kept], y[kept], w[kept]),
    )
    assert_array_equal(model.coef_, wanted.coef_)
    assert_array_equal(model.sigma2_, wanted.sigma2_)
    assert_array_equal(model.loo_predictions_[kept], wanted.loo_predictions_)
    assert_allclose(model.loo_predictions_[~kept], wanted.predict(Z[~kept]))


def test_scale_of_weights():
    Z, y, w = data()
    model, scaled = LinearRidge(1.0).fit(Z, y, w), LinearRidge(4.0).fit(Z, y, 4 * w)
    assert_allclose(scaled.coef_, model.coef_)
    assert_allclose(scaled.loo_error_, model.loo_error_)
    assert_allclose(scaled.sigma2_, 4 * model.sigma2_)
    assert_array_equal(LinearRidge().fit(Z, y, 2.0).coef_, LinearRidge().fit(Z, y, np.full(40, 2.0)).coef_)


@solvers
def test_one_row(solver):
    model = LinearRidge("auto", solver=solver).fit([[1.0, 2.0]], [3.0])
    assert_array_equal(model.predict([[5.0, 6.0]]), [3.0])
    assert np.isnan(model.loo_error_)
    assert np.isnan(model.sigma2_)
    alone = LinearRidge(2.0, solver=solver, fit_intercept=False).fit([[1.0, 2.0]], [3.0])
    assert_allclose(alone.coef_, np.array([1.0, 2.0]) * 3 / 7)
    assert_allclose(alone.loo_predictions_, [0.0], atol=1e-12)
    assert_allclose(LinearRidge(2.0).partial_fit([[1.0, 2.0]], [3.0]).predict([[5.0, 6.0]]), [3.0])


@solvers
@pytest.mark.parametrize("alpha", [0, 1.0, "auto"])
def test_constant_columns(solver, alpha):
    model = LinearRidge(alpha, solver=solver).fit(np.full((30, 3), 0.1), np.arange(30.0))
    assert_array_equal(model.coef_, np.zeros(3))
    assert_allclose(model.intercept_, 14.5)
    assert_allclose(model.predict(np.ones((2, 3))), 14.5)
    assert_allclose(model.loo_predictions_, (14.5 * 30 - np.arange(30)) / 29)


def test_one_output_keeps_its_shape():
    Z, y, _ = data()
    assert LinearRidge().fit(Z, y).predict(Z).shape == (40,)
    assert LinearRidge().fit(Z, y[:, None]).predict(Z).shape == (40, 1)
    assert LinearRidge().fit(Z, y[:, None]).loo_predictions_.shape == (40, 1)
    assert isinstance(LinearRidge(GRID, alpha_per_output=True).fit(Z, y).alpha_, float)
    assert LinearRidge(GRID, alpha_per_output=True).fit(Z, y[:, None]).alpha_.shape == (1,)


def test_works_in_a_search():
    Z, y, w = data()
    search = GridSearchCV(LinearRidge(), {"alpha": [0.1, (0.1, 1.0), "auto"]}, cv=3).fit(Z, y, sample_weight=w)
    assert search.best_score_ > 0.8


def test_input_is_untouched():
    Z, y, w = data(40, 6, 2)
    copies = Z.copy(), y.copy(), w.copy()
    for solver in SOLVERS:
        LinearRidge("auto", solver=solver).fit(Z, y, w).predict(Z, return_std=True)
    LinearRidge(fit_intercept=False).fit(Z[:4], y[:4], w[:4]).partial_fit(Z, y)
    for now, then in zip((Z, y, w), copies, strict=True):
        assert_array_equal(now, then)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"alpha": -1.0}, ValueError, r"LinearRidge\(alpha=...\): must be a number in \[0, inf\), got -1.0; give a"),
        ({"alpha": [1.0, -2.0]}, ValueError, r"must be a number in \[0, inf\), got -2.0; give a number"),
        ({"alpha": []}, ValueError, r"LinearRidge\(alpha=...\): must have a value at least, got \[\]"),
        ({"alpha": [[1.0]]}, TypeError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"alpha": np.nan}, ValueError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"alpha": "best"}, ValueError, r"LinearRidge\(alpha=...\): must be one of 'auto', got 'best'"),
        ({"alpha": None}, TypeError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"solver": "svd"}, ValueError, r"LinearRidge\(solver=...\): must be one of 'auto', 'primal', 'dual'"),
        ({"fit_intercept": "no"}, TypeError, r"LinearRidge\(fit_intercept=...\): must be True or False, got 'no'"),
        ({"alpha_per_output": 1}, TypeError, r"LinearRidge\(alpha_per_output=...\): must be True or False, got 1"),
    ],
)
def test_parameter_errors(options, error, text):
    Z, y, _ = data()
    for call in (
        lambda model: model.fit(Z, y),
        lambda model: model.partial_fit(Z, y),
        lambda model: model.fit_batches(lambda: [(Z, y)]),
    ):
        with pytest.raises(error, match=text):
            call(LinearRidge(**options))


def test_weight_errors():
    Z, y, _ = data()
    for weights, text in (
        (np.ones(3), r"sample_weight must have the shape \(40,\), got \(3,\); pass one number a row"),
        (np.r_[np.ones(39), -1], r"sample_weight must be finite and at least zero, got -1 in row 39"),
        (np.r_[np.nan, np.ones(39)], r"sample_weight must be finite and at least zero, got nan in row 0"),
        (np.zeros(40), r"sample_weight must be positive for some row, got zeros alone"),
        (["a"] * 40, r"sample_weight must be numbers"),
    ):
        for fit in (LinearRidge().fit, LinearRidge().partial_fit):
            with pytest.raises(ValueError, match=text):
                fit(Z, y, weights)
        with pytest.raises(ValueError, match=text):
            LinearRidge().fit_batches(lambda weights=weights: [(Z, y, weights)])
    empty = LinearRidge()
    with pytest.raises(ValueError, match="zeros alone"):
        empty.partial_fit(Z, y, np.zeros(40))
    with pytest.raises(NotFittedError):
        empty.predict(Z)
    assert empty.partial_fit(Z[:, :2], y).coef_.shape == (2,)


def test_data_errors():
    Z, y, _ = data()
    for model in (LinearRidge(), LinearRidge().partial_fit(Z, y)):
        with pytest.raises(ValueError, match=r"LinearRidge: y must be real numbers, got .*; for classes use"):
            model.partial_fit(Z, np.where(y > 3, "yes", "no"))
    for words in (["a", 1.0] * 20, np.array(["a", 1.0] * 20, dtype=object), np.full(40, "2020", "M8[Y]")):
        with pytest.raises(ValueError, match=r"y must be real numbers, got"):
            LinearRidge().fit(Z, words)
    for bad in (np.where(Z[0, 0] == Z, np.nan, Z), np.where(Z[0, 0] == Z, np.inf, Z), Z[:3], Z[0], Z[:0]):
        with pytest.raises(ValueError, match=r"NaN|infinity|inconsistent|2D array|0 sample"):
            LinearRidge().fit(bad, y)
    with pytest.raises(ValueError, match="NaN"):
        LinearRidge().fit(Z, np.where(y == y[0], np.nan, y))
    for solver in SOLVERS:
        for big, targets in ((1e200 * Z, y), (Z, 1e200 * y)):
            model = LinearRidge(solver=solver)
            with pytest.raises(ValueError, match=r"X and y must have finite squares, got larger values; rescale"):
                model.fit(big, targets)
            with pytest.raises(NotFittedError):
                model.predict(Z)
    model = LinearRidge().partial_fit(Z, y)
    with pytest.raises(ValueError, match=r"X has 5 features, but LinearRidge is expecting 6"):
        model.partial_fit(Z[:, :5], y)
    with pytest.raises(ValueError, match=r"y must have 1 output\(s\), as before, got 2; pass the same columns"):
        model.partial_fit(Z, np.column_stack([y, y]))
    assert_array_equal(model.coef_, LinearRidge().partial_fit(Z, y).coef_)  # refused batches leave no trace
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        _ = LinearRidge().coef_


def test_batch_errors():
    Z, y, _ = data()
    with pytest.raises(TypeError, match=r"make_iterator=...\): must be a callable that returns an iterator, got list"):
        LinearRidge().fit_batches([(Z, y)])
    with pytest.raises(ValueError, match="there must be a batch at least, got none"):
        LinearRidge().fit_batches(lambda: iter(()))
    for batch in (Z, (Z,), (Z, y, y, y)):
        with pytest.raises(ValueError, match=r"a batch must be \(Z, y\) or \(Z, y, weights\), got"):
            LinearRidge().fit_batches(lambda batch=batch: [batch])
    for call in (lambda model: model.partial_fit(Z, y), lambda model: model.fit_batches(lambda: [(Z, y)])):
        with pytest.raises(ValueError, match=r"LinearRidge\(solver='dual'\): must be 'auto' or 'primal' for batches"):
            call(LinearRidge(solver="dual"))


def refused_checks(estimator):
    if estimator.alpha == 1.0:
        return {}
    # To leave-one-out errors a row of weight two is one row, and alpha follows them.
    why = "alpha is chosen by leaving out rows, and a repeated row is not left out with its twin"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@parametrize_with_checks(
    [
        LinearRidge(),
        LinearRidge(solver="primal"),
        LinearRidge(fit_intercept=False, alpha_per_output=True),
        LinearRidge("auto"),
    ],
    expected_failed_checks=refused_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
