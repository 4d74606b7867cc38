"""Linear ridge regression: against scikit-learn, refitting and Gaussian processes, in memory and in batches."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import distembed as de
from distembed import LinearRidge
from distembed.models import normal_equations as _normal_equations
from distembed.models.normal_equations import Inverse, NormalEquations, Rows, centre_rows, row_blocks
from exact import ridge, ridge_deviation, ridge_leave_one_out, ridge_noise

SOLVERS = ("primal", "dual")
shapes = pytest.mark.parametrize(("n", "d"), [(40, 6), (9, 20), (12, 12)])
solvers = pytest.mark.parametrize("solver", SOLVERS)
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
@weightings
@pytest.mark.parametrize("alpha", [0.05, 3.0])
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_agrees_with_ridge(n, d, solver, weighted, alpha, n_outputs):
    Z, y, w = data(n, d, n_outputs)
    w = w if weighted else None
    ours = LinearRidge(alpha, solver=solver).fit(Z, y, w)
    theirs = Ridge(alpha, solver="svd").fit(Z, y, w)
    assert_allclose(np.atleast_2d(ours.coef_), np.atleast_2d(theirs.coef_), rtol=1e-9, atol=1e-12)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-9, atol=1e-12)
    assert np.shape(ours.predict(Z)) == y.shape
    assert_allclose(ours.predict(Z), theirs.predict(Z).reshape(y.shape), rtol=1e-9, atol=1e-12)
    assert np.shape(ours.coef_) == ((d,) if n_outputs is None else (n_outputs, d))
    assert np.shape(ours.intercept_) == (() if n_outputs is None else (n_outputs,))


@weightings
def test_agrees_with_the_judge(weighted):
    Z, y, w = data()
    w = w if weighted else None
    model = LinearRidge(0.7).fit(Z, y, w)
    b, c = ridge(Z, y, 0.7, w)
    assert_allclose(model.coef_, b, rtol=1e-10)
    assert_allclose(model.intercept_, c, rtol=1e-10, atol=1e-12)
    assert_allclose(model.sigma2_, ridge_noise(Z, y, 0.7, w), rtol=1e-10)


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
    assert isinstance(LinearRidge().fit(*data(9, 20)[:2]).learned(), Rows)
    assert isinstance(LinearRidge().fit(*data(40, 6)[:2]).learned(), NormalEquations)
    Z, y, w = data(22, 21)
    assert isinstance(LinearRidge().fit(Z, y, w).learned(), Rows)  # 20 rows count


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
        near.add(Z[rows], y[rows], np.ones(len(y[rows])))
        far.add(Z[rows] + 1e6, y[rows], np.ones(len(y[rows])))
    assert_allclose(far.G, near.G, rtol=1e-10, atol=1e-9)
    assert_allclose(far.B, near.B, rtol=1e-10, atol=1e-9)
    lone = NormalEquations(5, 1).add(odd, y[:1], np.ones(1)).add(Z, y, np.ones(500))
    both = np.vstack([odd, Z])
    C = np.cov(both.T, bias=True) * 501
    assert_allclose(np.tril(lone.G), np.tril(C), rtol=1e-12)


# --------------------------------------------------------------------------------------------------------------
# Leave-one-out
# --------------------------------------------------------------------------------------------------------------


@shapes
@solvers
@weightings
@pytest.mark.parametrize("alpha", [0.2, 5.0])
def test_leave_one_out_is_refitting(n, d, solver, weighted, alpha):
    Z, y, w = data(n, d)
    w = w if weighted else None
    wanted = ridge_leave_one_out(Z, y, alpha, w)
    v = np.ones(n) if w is None else w
    model = LinearRidge(alpha, solver=solver).fit(Z, y, w)
    assert_allclose(model.loo_predictions_, wanted, rtol=1e-8, atol=1e-10)
    assert_allclose(model.loo_error_, np.sum(v * (y - wanted) ** 2) / v.sum(), rtol=1e-8)


@solvers
def test_leave_one_out_of_least_squares(solver):
    Z, y, w = data(30, 5)
    model = LinearRidge(0, solver=solver).fit(Z, y, w)
    assert_allclose(model.loo_predictions_, ridge_leave_one_out(Z, y, 0.0, w), rtol=1e-9)
    Z[3, 0], Z[np.arange(30) != 3, 0] = 1.0, 0.0  # only row 3 tells the first coefficient
    model = LinearRidge(0, solver=solver).fit(Z, y)
    assert_array_equal(np.flatnonzero(np.isnan(model.loo_predictions_)), [3])
    assert np.isnan(model.loo_error_)


def test_leave_one_out_of_tiny_alphas_in_the_dual():
    Z, y, w = data(9, 20)
    model = LinearRidge(1e-9).fit(Z, y, w)
    assert_allclose(model.loo_predictions_, ridge_leave_one_out(Z, y, 1e-9, w), rtol=1e-5)


# --------------------------------------------------------------------------------------------------------------
# Deviations
# --------------------------------------------------------------------------------------------------------------


@shapes
@solvers
@weightings
def test_deviation_is_that_of_a_gaussian_process(n, d, solver, weighted):
    Z, y, w = data(n, d)
    new = np.vstack([Z[:3], 2 * Z[:3] + 1, np.zeros(d)])
    w = w if weighted else None
    mean, deviation = LinearRidge(0.4, solver=solver).fit(Z, y, w).predict(new, True)
    assert mean.shape == deviation.shape == (7,)
    assert_allclose(deviation, ridge_deviation(Z, y, new, 0.4, w), rtol=1e-8)


@shapes
def test_deviations_of_least_squares_agree(n, d):
    Z, y, _ = data(n + d, d)
    primal, dual = (LinearRidge(0, solver=solver).fit(Z, y).predict(Z + 1, True)[1] for solver in SOLVERS)
    assert_allclose(primal, dual, rtol=1e-8)


def test_deviation_agrees_with_scikit_learn():
    Z, y, _ = data(25, 4)
    Z -= Z.mean(axis=0)  # some versions of the next forget to centre new rows
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


@weightings
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_batches_agree_with_memory(weighted, n_outputs):
    Z, y, w = data(40, 6, n_outputs, noise=2.0)
    w = w if weighted else None
    model, memory = LinearRidge(0.5), LinearRidge(0.5).fit(Z, y, w)
    for batch in batches_of(Z, y, w):
        assert model.partial_fit(*batch) is model
    assert_allclose(model.coef_, memory.coef_, rtol=1e-9)
    assert_allclose(model.intercept_, memory.intercept_, rtol=1e-9, atol=1e-12)
    assert_allclose(model.sigma2_, memory.sigma2_, rtol=1e-9)
    for ours, theirs in zip(model.predict(Z + 1, return_std=True), memory.predict(Z + 1, return_std=True), strict=True):
        assert_allclose(ours, theirs, rtol=1e-9)
    assert not hasattr(model, "loo_error_")
    with pytest.raises(AttributeError, match=r"loo_predictions_ needs all rows in memory, but some came in batches"):
        _ = model.loo_predictions_


@pytest.mark.parametrize("repeated", [False, True])
def test_fewer_rows_than_features_in_batches(repeated):
    Z, y, w = data(9, 20)
    if repeated:  # two targets for the same row: residuals do not vanish with alpha
        Z[3] = Z[4]
    for alpha in np.logspace(-9, 2, 12):
        memory, batches = LinearRidge(alpha).fit(Z, y, w), LinearRidge(alpha).partial_fit(Z, y, w)
        assert_allclose(batches.coef_, memory.coef_, atol=1e-13 / alpha)  # rounding of B, over alpha
        if alpha >= 1e-3:  # below, residuals are lost in the difference of sums
            assert_allclose(batches.sigma2_, memory.sigma2_, rtol=1e-5)


def test_partial_fit_is_lazy(monkeypatch, tmp_path):
    calls, own = [], Inverse.of
    monkeypatch.setattr(Inverse, "of", lambda *given: calls.append(1) or own(*given))
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
    de.save(LinearRidge().partial_fit(Z, y), tmp_path / "model", updatable=True)  # a checkpoint
    assert len(calls) == 2
    lazy = pickle.loads(pickle.dumps(LinearRidge().partial_fit(Z, y)))
    assert_array_equal(lazy.coef_, LinearRidge().partial_fit(Z, y).coef_)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 30)])
def test_partial_fit_goes_on_from_fit(n, d):
    Z, y, w = data(n, d)
    half = n // 2
    model = LinearRidge(0.3).fit(Z[:half], y[:half], w[:half])
    assert hasattr(model, "loo_error_")
    model.partial_fit(Z[half:], y[half:], w[half:])
    assert not hasattr(model, "loo_error_")
    wanted = LinearRidge(0.3).fit(Z, y, w)
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
    inner = Rows.of
    monkeypatch.setattr(Rows, "of", lambda z, *rest: seen.append(len(z)) or inner(z, *rest))
    Z, y, w = data(95, 6)
    small = LinearRidge(0.3).fit(Z, y, w)
    assert max(seen) <= 10
    assert len(seen) == 10
    monkeypatch.undo()
    whole = LinearRidge(0.3).fit(Z, y, w)
    assert_allclose(small.coef_, whole.coef_, rtol=1e-10)
    assert_allclose(small.loo_predictions_, whole.loo_predictions_, rtol=1e-10)


# --------------------------------------------------------------------------------------------------------------
# Normal equations
# --------------------------------------------------------------------------------------------------------------


SUMS = ("n_rows", "weight", "z_mean", "y_mean", "G", "B", "yy")


def sums(batches):
    new = NormalEquations(batches[0][0].shape[1], batches[0][1].shape[1])
    for batch in batches:
        new.add(*batch)
    return new


def test_sums_are_sums():
    Z, y, w = data(40, 6, 2)
    kept = w > 0
    found = sums(batches_of(Z, y, w))
    z, t = Z - found.z_mean, y - found.y_mean
    assert found.n_rows == kept.sum()
    assert_allclose(found.weight, w.sum())
    assert_allclose(found.z_mean, w @ Z / w.sum())
    assert_allclose(found.y_mean, w @ y / w.sum())
    assert_allclose(np.tril(found.G), np.tril((w[:, None] * z).T @ z), rtol=1e-12, atol=1e-12)
    assert_allclose(found.B, (w[:, None] * z).T @ t, rtol=1e-12, atol=1e-12)
    assert_allclose(found.yy, w @ t**2)


def test_same_batches_same_bits_other_batches_nearly():
    Z, y, w = data(200, 6, 2)
    first, again = sums(batches_of(Z, y, w)), sums(batches_of(Z, y, w))
    for name in SUMS:
        assert_array_equal(getattr(again, name), getattr(first, name))
    for sizes in ((), (1,) * 150, (100, 50)):
        other = sums(batches_of(Z, y, w, sizes))
        for name in SUMS:
            assert_allclose(getattr(other, name), getattr(first, name), rtol=1e-11, atol=1e-11)


def test_products_in_single_precision_cost_no_more_than_single_rows():
    """The error of G is below 2e-7 √n of the mean squared length in every direction: predictions do not see it."""
    rng = np.random.default_rng(0)
    n, d, alpha = 20_000, 700, 0.01
    angles = rng.normal(size=(n, 6)) @ rng.normal(size=(6, d // 2)) * 0.4
    Z = (np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(2 / d)).astype(np.float32)  # length one
    y, w = np.sin(Z[:, :1] * 9) + 1e6, rng.uniform(0.5, 2, size=n)
    exact, rough = NormalEquations(d, 1), NormalEquations(d, 1, single=True)
    for rows in row_blocks(n, 4 * d):
        exact.add(Z[rows].astype(float), y[rows], w[rows])
    rough.add(Z[:100], y[:100], w[:100]).add(Z[100:], y[100:], w[100:])
    gap = np.tril(rough.G - exact.G)
    assert 0 < np.linalg.norm(gap + np.tril(gap, -1).T, 2) < 2e-7 * np.sqrt(n)
    found = [sums.coefficients(sums.inverse(alpha)) for sums in (exact, rough)]
    predicted = [(Z - sums.z_mean) @ b for sums, b in zip((exact, rough), found, strict=True)]
    assert np.abs(predicted[1] - predicted[0]).max() < 1e-4 * np.std(predicted[0])
    assert_allclose(rough.z_mean, exact.z_mean, atol=1e-8)
    assert_allclose(rough.yy, exact.yy)


def test_single_precision_is_for_single_rows_and_penalties_that_hide_it():
    Z, y, w = data(60, 6)
    small = Z.astype(np.float32)
    length = float(np.mean(np.sum(small**2, axis=1)))
    assert LinearRidge(2e-3 * length).partial_fit(small, y, w).learned().single
    assert not LinearRidge(1e-4 * length).partial_fit(small, y, w).learned().single
    assert not LinearRidge(2e-3 * length).partial_fit(Z, y, w).learned().single
    far = LinearRidge(1.0).partial_fit(small, y, np.full(60, 1e-30)).partial_fit(small, 1e100 * y)
    assert np.isfinite(far.coef_).all()


def test_constant_columns_are_zero():
    Z = np.full((1000, 2), 0.1)
    assert not centre_rows(Z, np.random.default_rng(0).uniform(size=1000))[0].any()
    found = NormalEquations(2, 1)
    for _ in range(7):
        found.add(Z, np.zeros((1000, 1)), np.ones(1000))
    assert not found.G.any()
    assert_array_equal(found.z_mean, [0.1, 0.1])


def test_blocks_cover_rows():
    for n, d in ((1, 1), (1000, 10_000), (5_000_000, 3)):
        edges = list(row_blocks(n, d))
        assert edges[0].start == 0
        assert edges[-1].stop == n
        assert all(a.stop == b.start for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_sums_and_rows_agree(alpha):
    Z, y, w = data(25, 8, 2)
    kept = w > 0
    equations, rows = sums([(Z, y, w)]), Rows.of(Z[kept], y[kept], w[kept])
    ours, theirs = equations.inverse(alpha), rows.inverse(alpha)
    assert_allclose(rows.coefficients(theirs), equations.coefficients(ours), rtol=1e-9)
    new = Z - equations.z_mean
    assert_allclose(rows.forms(new, theirs), equations.forms(new, ours), rtol=1e-9)
    assert_allclose(rows.left(theirs)[1].sum(), kept.sum() - 1 - ours.rank(), rtol=1e-10)
    assert_allclose(rows.trace, equations.trace)
    for name in SUMS:
        assert_allclose(getattr(rows.equations(), name), getattr(equations, name), rtol=1e-11, atol=1e-11)


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
        LinearRidge(0.3, solver=solver).fit(Z, y, w),
        LinearRidge(0.3, solver=solver).fit(Z[kept], y[kept], w[kept]),
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
    model = LinearRidge(solver=solver).fit([[1.0, 2.0]], [3.0])
    assert_array_equal(model.predict([[5.0, 6.0]]), [3.0])
    assert np.isnan(model.loo_error_)
    assert np.isnan(model.sigma2_)
    assert_allclose(LinearRidge(2.0).partial_fit([[1.0, 2.0]], [3.0]).predict([[5.0, 6.0]]), [3.0])


@solvers
@pytest.mark.parametrize("alpha", [0, 1.0])
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


def test_works_in_a_search():
    Z, y, w = data()
    search = GridSearchCV(LinearRidge(), {"alpha": [0.1, 1.0]}, cv=3).fit(Z, y, sample_weight=w)
    assert search.best_score_ > 0.8


def test_input_is_untouched():
    Z, y, w = data(40, 6, 2)
    copies = Z.copy(), y.copy(), w.copy()
    for solver in SOLVERS:
        LinearRidge(solver=solver).fit(Z, y, w).predict(Z, return_std=True)
    LinearRidge().fit(Z[:4], y[:4], w[:4]).partial_fit(Z, y)
    for now, then in zip((Z, y, w), copies, strict=True):
        assert_array_equal(now, then)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"alpha": -1.0}, ValueError, r"LinearRidge\(alpha=...\): must be a number in \[0, inf\), got -1.0; give a"),
        ({"alpha": [1.0]}, TypeError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"alpha": np.nan}, ValueError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"alpha": "best"}, TypeError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"alpha": None}, TypeError, r"LinearRidge\(alpha=...\): must be a number"),
        ({"solver": "svd"}, ValueError, r"LinearRidge\(solver=...\): must be one of 'auto', 'primal', 'dual'"),
    ],
)
def test_parameter_errors(options, error, text):
    Z, y, _ = data()
    for call in (LinearRidge(**options).fit, LinearRidge(**options).partial_fit):
        with pytest.raises(error, match=text):
            call(Z, y)


def test_weight_errors():
    Z, y, _ = data()
    rule = "LinearRidge: sample_weight must be one finite number >= 0 a row, not all zero, got"
    for weights, error, text in (
        (np.ones(3), ValueError, rf"{rule} shape \(3,\) for 40 rows"),
        (np.r_[np.ones(39), -1], ValueError, f"{rule} -1.0 for row 39"),
        (np.r_[np.nan, np.ones(39)], ValueError, f"{rule} nan for row 0"),
        (np.zeros(40), ValueError, f"{rule} zeros alone"),
        (["a"] * 40, TypeError, "sample_weight must be numbers"),
    ):
        for fit in (LinearRidge().fit, LinearRidge().partial_fit):
            with pytest.raises(error, match=text):
                fit(Z, y, weights)
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


def test_the_dual_has_no_batches():
    Z, y, _ = data()
    with pytest.raises(ValueError, match=r"LinearRidge\(solver='dual'\): must be 'auto' or 'primal' for batches"):
        LinearRidge(solver="dual").partial_fit(Z, y)


# --------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(40, 6), (9, 20)])
def test_files_hold_what_predicts_and_the_rest_if_asked(n, d, tmp_path):
    Z, y, w = data(n, d, 2)
    for model in (LinearRidge(0.3).fit(Z, y, w), LinearRidge(0.3).partial_fit(Z, y, w)):
        de.save(model, tmp_path / "slim")
        slim = de.load(tmp_path / "slim")
        assert_array_equal(slim.predict(Z), model.predict(Z))
        assert_array_equal(slim.sigma2_, model.sigma2_)
        assert hasattr(slim, "loo_error_") == hasattr(model, "loo_error_")
        for call in (lambda slim=slim: slim.predict(Z, return_std=True), lambda slim=slim: slim.partial_fit(Z, y)):
            with pytest.raises(ValueError, match=r"this model comes from a file without .* updatable=True"):
                call()
        assert_array_equal(slim.fit(Z, y).coef_, LinearRidge(0.3).fit(Z, y).coef_)  # to fit again is possible
        de.save(model, tmp_path / "whole", updatable=True)
        whole = de.load(tmp_path / "whole")
        assert_allclose(whole.predict(Z, return_std=True), model.predict(Z, return_std=True), rtol=1e-12)
        assert_array_equal(whole.partial_fit(Z, y).coef_, model.partial_fit(Z, y).coef_)
    de.save(LinearRidge(0.3), tmp_path / "unfitted")
    with pytest.raises(NotFittedError):
        de.load(tmp_path / "unfitted").predict(Z)


@parametrize_with_checks([LinearRidge(), LinearRidge(solver="primal")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
