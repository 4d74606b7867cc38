"""The number of components: fits equal plain loops, never fall, and answers depend on the bag alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import GridSearchCV

from distembed import datasets
from distembed.bags import Bags
from distembed.density import many_mixtures as mixtures
from distembed.density.many_mixtures import (
    Bayes,
    Likelihood,
    climb,
    padded_length,
    seed_groups,
    step,
    sum_groups,
    whiten,
)
from distembed.estimator_checks import check_bag_transformer
from distembed.learners import MixtureComponents
from exact import information_criteria, mixture_em, mixture_seeds, mixture_variational

CRITERIA = ("aic", "bic", "bayes")
quick = {"max_components": 4, "n_init": 2, "max_iter": 25, "random_state": 0}


@pytest.fixture(scope="module")
def generated():
    return datasets.make_mixture_components(12, 200, random_state=3)


def clouds(n_clouds, n_points=60, n_dims=2, apart=30.0, seed=0):
    """Round clouds of deviation one on a circle (or a line) of points ``apart`` from each other."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n_clouds) / n_clouds
    centres = np.zeros((n_clouds, n_dims))
    centres[:, 0] = apart * (np.arange(n_clouds) if n_dims == 1 else np.cos(angle))
    if n_dims > 1:
        centres[:, 1] = apart * np.sin(angle)
    return (centres[:, None] + rng.normal(size=(n_clouds, n_points, n_dims))).reshape(-1, n_dims)


def skewed(n, n_dims, seed=0):
    """Two overlapping clouds in skewed coordinates, as weighted points."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_dims)) + 3 * rng.integers(2, size=(n, 1))
    return x @ rng.normal(size=(n_dims, n_dims)) + 100, rng.uniform(0.2, 3, n)


# --------------------------------------------------------------------------------------------------------------
# Against plain loops
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_equal_plain_loops(n_dims, weighted):
    x, w = skewed(60, n_dims)
    weights = [w] if weighted else None
    bags = Bags.from_arrays([x], weights=weights)
    draws = np.random.default_rng(1).uniform(size=(2, 4))
    points = whiten(bags)
    groups = seed_groups(points, draws)
    order = np.lexsort(x.T[::-1])
    for reg in (1e-6, 0.2):
        sums = sum_groups(points, groups[3], 4)
        model = Likelihood(reg)
        fast = []
        for _ in range(15):
            likelihood, sums = step(points.features, points.weights, model.update(sums)[0])
            fast.append(likelihood[0] + points.log_det[0] * len(x))
        for i in range(2):
            plain = mixture_em(x[order], groups[3][0, i, : len(x)], 15, reg, w[order] if weighted else None)
            np.testing.assert_allclose(np.array(fast)[:, i], plain, rtol=1e-8)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_starts_equal_plain_loops(n_dims):
    x, w = skewed(50, n_dims)
    draws = np.random.default_rng(1).uniform(size=(3, 5))
    order = np.lexsort(x.T[::-1])
    groups = seed_groups(whiten(Bags.from_arrays([x], weights=[w])), draws)[:, 0, :, : len(x)]
    for i in range(3):
        np.testing.assert_array_equal(groups[:, i], np.array(mixture_seeds(x, draws[i], w))[:, order])


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_variational_steps_equal_plain_loops(n_dims, weighted):
    x, w = skewed(70, n_dims)
    points = whiten(Bags.from_arrays([x], weights=[w] if weighted else None))
    groups = seed_groups(points, np.random.default_rng(1).uniform(size=(1, 5)))[-1]
    order, sums, fast = np.lexsort(x.T[::-1]), sum_groups(points, groups, 5), []
    for _ in range(20):
        theta, extra = Bayes(0.2).update(sums)
        objective, sums = step(points.features, points.weights, theta)
        fast.append((objective + extra)[0, 0] + points.log_det[0] * len(x))
    weights = w[order] if weighted else None
    plain, masses = mixture_variational(x[order], groups[0, 0, : len(x)], 20, 0.2, 5, weights)
    np.testing.assert_allclose(fast, plain, rtol=1e-8)
    np.testing.assert_allclose(sums[0, 0, :, 0], masses, atol=1e-7)


@pytest.mark.parametrize("kind", ["likelihood", "bayes"])
def test_no_step_falls(generated, kind):
    points = whiten(generated[0])
    model = Likelihood(0.01) if kind == "likelihood" else Bayes(0.1)
    groups = seed_groups(points, np.random.default_rng(0).uniform(size=(3, 8)))[-1]
    sums, before = sum_groups(points, groups, 8), -np.inf
    for _ in range(30):
        theta, extra = model.update(sums)
        objective, sums = step(points.features, points.weights, theta)
        assert np.all(objective + extra >= before - 1e-9 * 200)
        before = objective + extra


def test_climb_is_steps_of_the_better_half_each_bag_by_itself(generated):
    points, model = whiten(generated[0][:6]), Likelihood(1e-4)
    starts = sum_groups(points, seed_groups(points, np.random.default_rng(0).uniform(size=(5, 4)))[-1], 4)
    found = climb(points, starts, model, max_iter=200, tol=0.01)
    for i in range(len(starts)):
        one, alive, before, made = [part[i : i + 1] for part in points], list(starts[i]), -np.inf, 0

        def move(sums, features=one[2], weights=one[1]):
            likelihood, sums = step(features, weights, model.update(sums[None, None])[0])
            return likelihood[0, 0], sums[0, 0]

        while len(alive) > 1:
            for _ in range(mixtures.SHORT):
                pairs = [move(sums) for sums in alive]
                alive = [sums for _, sums in pairs]
            made += mixtures.SHORT
            best = sorted(range(len(alive)), key=lambda j: -pairs[j][0])[: (len(alive) + 1) // 2]
            alive, before = [alive[j] for j in best], pairs[best[0]][0]
        while made < 200:
            now, alive[0] = move(alive[0])
            made += 1
            if now - before < 0.01:
                break
            before = now
        assert (found.n_steps[i], found.objective[i]) == (made, pytest.approx(now, rel=1e-10))
    assert len(set(found.n_steps)) > 1


def test_climb_keeps_to_max_iter(generated):
    points = whiten(generated[0])
    starts = sum_groups(points, seed_groups(points, np.random.default_rng(0).uniform(size=(5, 4)))[-1], 4)
    for max_iter in (1, 10, 13, 45):
        assert set(climb(points, starts, Likelihood(1e-4), max_iter=max_iter, tol=-np.inf).n_steps) == {max_iter}


# --------------------------------------------------------------------------------------------------------------
# Against scikit-learn
# --------------------------------------------------------------------------------------------------------------


def test_likelihoods_reach_those_of_scikit_learn(generated):
    bags = generated[0][:6]
    ours = MixtureComponents(max_components=4, reg=1e-6, random_state=0).fit(bags).criteria(bags).log_likelihood
    for k, least in ((1, -1e-3), (2, -0.5), (4, -0.5)):  # of about -900
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = [200 * GaussianMixture(k, n_init=3, random_state=0).fit(x).score(x) for x in bags]
        assert np.mean(ours[:, k - 1] - theirs) > least


def test_criteria_of_one_fit_are_those_of_scikit_learn():
    x = clouds(3)
    found = MixtureComponents(max_components=3, tol=1e-6, random_state=0).fit([x]).criteria([x])
    theirs = GaussianMixture(3, n_init=3, tol=1e-9, reg_covar=0, random_state=0).fit(x)
    assert found.aic[0, 2] == pytest.approx(theirs.aic(x), rel=1e-8)
    assert found.bic[0, 2] == pytest.approx(theirs.bic(x), rel=1e-8)


def test_variational_weights_are_those_of_scikit_learn():
    x = clouds(3)
    theirs = BayesianGaussianMixture(
        n_components=5,
        weight_concentration_prior_type="dirichlet_distribution",
        tol=1e-9,
        max_iter=500,
        reg_covar=0,
        random_state=0,
    ).fit(x)
    draws = np.random.default_rng(0).uniform(size=(3, 5))
    masses = mixtures.posterior_masses(Bags.from_arrays([x]), draws, max_iter=500, tol=1e-9, n_jobs=1)[0]
    shares = (masses + 1 / 5) / (len(x) + 1)
    np.testing.assert_allclose(np.sort(shares), np.sort(theirs.weights_), atol=1e-4)


# --------------------------------------------------------------------------------------------------------------
# What the criteria say
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_far_clouds_are_counted(criterion, n_dims):
    bags = [clouds(3, n_dims=n_dims, seed=seed) for seed in range(9)]
    found = MixtureComponents(criterion, max_components=5, random_state=0).fit(bags).predict(bags)
    assert found.dtype.kind == "i"
    assert found.min() == np.median(found) == 3
    if criterion != "aic":  # which takes one too many now and then, however far clouds are apart
        np.testing.assert_array_equal(found, 3)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_bic_sees_one_gaussian(n_dims):
    bags = np.random.default_rng(0).normal(size=(10, 150, n_dims)) @ (np.eye(n_dims) + 0.5)
    model = MixtureComponents("bic", max_components=4, n_init=4, random_state=0).fit(bags)
    np.testing.assert_array_equal(model.predict(bags), 1)


def test_formulas_of_the_criteria(generated):
    bags = generated[0][:3]
    found = MixtureComponents(**quick).fit(bags).criteria(bags)
    for i in range(3):
        for k in range(1, 5):
            wanted = information_criteria(found.log_likelihood[i, k - 1], k, 200, 2)
            np.testing.assert_allclose((found.aic[i, k - 1], found.bic[i, k - 1]), wanted, rtol=1e-12)
    np.testing.assert_array_equal(found.n_components, [1, 2, 3, 4])
    np.testing.assert_array_equal(found.n_parameters, 6 * found.n_components - 1)


def test_answers_are_the_least_of_the_scores(generated):
    bags, _ = generated
    found = {}
    for criterion in ("aic", "bic"):
        model = MixtureComponents(criterion, **quick).fit(bags)
        found[criterion] = model.predict(bags)
        np.testing.assert_array_equal(model.scores(bags), getattr(model.criteria(bags), criterion))
        np.testing.assert_array_equal(found[criterion], 1 + model.scores(bags).argmin(axis=1))
    assert np.all(found["bic"] <= found["aic"])  # log n > 2


def test_more_starts_and_steps_find_more(generated):
    bags, _ = generated

    def total(**options):
        return MixtureComponents(**{**quick, **options}).fit(bags).criteria(bags).log_likelihood.mean(axis=0)

    few = total(n_init=1, max_iter=12)
    assert np.all(total(n_init=1, max_iter=200)[1:] > few[1:])
    assert total(n_init=10, max_iter=200).sum() > total(n_init=1, max_iter=200).sum()


def test_regularisation_bounds_what_points_in_a_row_gain():
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[:20, 0] = -5  # a third of the points on a line, the first in sorted order
    points, found = whiten(Bags.from_arrays([x])), []
    for reg in (1e-2, 1e-4, 1e-6):
        sums = sum_groups(points, (np.arange(60) >= 20)[None, None].astype(int), 2)
        found.append(climb(points, sums, Likelihood(reg), max_iter=50, tol=0.0).objective[0])
    np.testing.assert_allclose(np.diff(found), 10 * np.log(100), rtol=1e-3)  # 20 points, half a logarithm each


# --------------------------------------------------------------------------------------------------------------
# A bag alone
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["bic", "bayes"])
def test_company_order_and_threads_do_not_matter(criterion, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) * rng.uniform(0.5, 2) for n in (1, 2, 13, 40, 41, 100, 40)]
    model = MixtureComponents(criterion, **quick).fit(arrays)
    wanted, criteria = model.predict(arrays), model.criteria(arrays)
    alone = np.concatenate([model.predict([x]) for x in arrays])
    np.testing.assert_array_equal(alone, wanted)
    for i, x in enumerate(arrays):
        np.testing.assert_array_equal(model.criteria([x]).log_likelihood[0], criteria.log_likelihood[i])
    shuffled = [rng.permutation(x) for x in arrays]
    np.testing.assert_array_equal(model.criteria(shuffled).log_likelihood, criteria.log_likelihood)
    threads = clone(model).set_params(n_jobs=3).fit(arrays)
    np.testing.assert_array_equal(threads.criteria(arrays).log_likelihood, criteria.log_likelihood)
    monkeypatch.setattr(mixtures, "_CHUNK_BYTES", 1)
    np.testing.assert_array_equal(threads.criteria(arrays).log_likelihood, criteria.log_likelihood)
    np.testing.assert_array_equal(threads.predict(arrays), wanted)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_units_do_not_matter(generated, criterion):
    bags = generated[0]
    model = MixtureComponents(criterion, **quick).fit(bags)
    scale, shift = np.array([1000.0, 1e-3]), np.array([-5e3, 7.0])
    moved = [x * scale + shift for x in bags]
    np.testing.assert_array_equal(model.predict(moved), model.predict(bags))
    plain, other = model.criteria(bags), model.criteria(moved)
    np.testing.assert_allclose(other.log_likelihood, plain.log_likelihood - 200 * np.log(scale).sum(), rtol=1e-6)
    for factor in (1e-200, 1e200):
        np.testing.assert_array_equal(model.predict([x * factor for x in bags[:3]]), model.predict(bags[:3]))


def test_turned_points_have_the_same_likelihood_from_the_same_groups(generated):
    x = generated[0][0]
    turn = np.array([[1.0, 5.0], [-0.3, 2.0]])
    order, likelihoods = np.lexsort(x.T[::-1]), []
    x = x[order]
    for y in (x, x @ turn):
        points = whiten(Bags.from_arrays([y]))
        place = np.lexsort(y.T[::-1])
        groups = np.zeros((1, 1, points.points.shape[1]), int)
        groups[0, 0, : len(x)] = (np.arange(len(x)) // 70)[place]
        fit = climb(points, sum_groups(points, groups, 3), Likelihood(0.05), max_iter=30, tol=0.0)
        likelihoods.append(fit.objective[0])
    assert likelihoods[0] == pytest.approx(likelihoods[1], rel=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_are_ratios_and_copies_are_weights(criterion):
    x, w = skewed(80, 2)
    w = np.round(w) + 1
    model = MixtureComponents(criterion, **quick).fit([x])
    plain = model.criteria(Bags.from_arrays([x], weights=[w]))
    scaled = model.criteria(Bags.from_arrays([x], weights=[w * 1e-30]))
    np.testing.assert_allclose(scaled.aic, plain.aic, rtol=1e-9)
    # With tol = 0 and fixed steps, copies have the same fits and as many times the likelihood.
    exact = clone(model).set_params(tol=0.0).fit([x])
    copies = exact.criteria([np.repeat(x, w.astype(int), axis=0)]).log_likelihood
    weighted = exact.criteria(Bags.from_arrays([x], weights=[w])).log_likelihood
    np.testing.assert_allclose(copies, weighted * w.sum() / len(x), rtol=1e-4)
    padded = Bags.from_arrays([np.vstack([x, [[1e9, -1e9]]])], weights=[np.append(w, 0.0)])
    np.testing.assert_array_equal(model.criteria(padded).aic, plain.aic)
    np.testing.assert_array_equal(model.predict(padded), model.predict(Bags.from_arrays([x], weights=[w])))


def test_heavy_weights_move_the_answer():
    x = np.vstack([clouds(2, 40), clouds(1, 40, seed=1) + np.array([0, 500])])
    light = np.repeat([1.0, 1e-12], [80, 40])
    model = MixtureComponents("bic", max_components=5, random_state=0).fit([x])
    assert model.predict([x]) == [3]
    assert model.predict(Bags.from_arrays([x], weights=[light])) == [2]


# --------------------------------------------------------------------------------------------------------------
# Bags that are hardly any
# --------------------------------------------------------------------------------------------------------------

DEGENERATE = {
    "one point": np.ones((1, 2)),
    "two points": np.array([[0.0, 1.0], [2.0, 3.0]]),
    "copies": np.full((50, 2), 0.1),
    "two places": np.repeat([[0.1, 0.7], [3.0, 5.0]], 30, axis=0),
    "a constant coordinate": np.column_stack([np.random.default_rng(0).normal(size=90), np.full(90, 7.3)]),
    "a line": np.outer(np.random.default_rng(0).normal(size=90), [1.0, -3.0]) + 11,
    "an outlier": np.vstack([np.random.default_rng(0).normal(size=(80, 2)), [[1e12, -1e12]]]),
    "huge": 1e308 * np.random.default_rng(0).uniform(-1, 1, size=(70, 2)),
    "tiny": 1e-310 * np.random.default_rng(0).normal(size=(70, 2)),
    "far away": 1e15 + np.random.default_rng(0).normal(size=(70, 2)),
    "integers": np.random.default_rng(0).integers(0, 2, size=(70, 2)).astype(float),
}


@pytest.mark.parametrize("criterion", CRITERIA)
def test_degenerate_bags_have_answers(criterion):
    bags = list(DEGENERATE.values())
    model = MixtureComponents(criterion, **quick).fit(bags)
    found, criteria = dict(zip(DEGENERATE, model.predict(bags), strict=True)), model.criteria(bags)
    assert all(1 <= k <= 4 for k in found.values())
    assert found["one point"] == found["copies"] == 1
    assert np.isfinite(criteria.log_likelihood[:, 0]).all()
    assert not np.isnan(np.stack(criteria[:3])).any()
    if criterion != "bayes":
        assert found["two points"] == found["two places"] == 1  # fewer different points than parameters


def test_a_constant_coordinate_tells_nothing():
    x = clouds(3, n_dims=1)
    flat = np.column_stack([x, np.full(len(x), 4.0)])
    for criterion in ("bic", "bayes"):
        model = MixtureComponents(criterion, max_components=5, random_state=0).fit([flat])
        assert model.predict([flat]) == [3]


def test_too_few_points_for_so_many_parameters():
    x = np.random.default_rng(0).normal(size=(18, 2))
    model = MixtureComponents(**quick).fit([x])
    found = model.criteria([x, x[:17], x[:16], np.repeat(x[:16], 4, axis=0), x[:1]])
    np.testing.assert_array_equal(np.isfinite(found.aic).sum(axis=1), [3, 3, 2, 2, 1])  # p = 5, 11, 17
    np.testing.assert_array_equal(np.isfinite(found.aic), np.isfinite(found.bic))
    assert np.all(found.log_likelihood[~np.isfinite(found.aic)] == -np.inf)


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------

ESTIMATORS = {
    **{criterion: MixtureComponents(criterion, **quick) for criterion in CRITERIA},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_contract(name):
    # The number of points is evidence: copies of all points are more of it, and no other distribution.
    check_bag_transformer(ESTIMATORS[name], skip=("duplicates", "integer_weights"))


def test_it_is_a_regressor_that_needs_no_targets(generated):
    bags, y = generated
    model = MixtureComponents(**quick).fit(bags)
    assert is_regressor(model)
    assert model.score(bags, y) == pytest.approx(r2_score(y, model.predict(bags)))
    search = GridSearchCV(model, {"criterion": ["aic", "bic"]}, cv=2, scoring="neg_root_mean_squared_error")
    assert np.isfinite(search.fit(bags, y).cv_results_["mean_test_score"]).all()
    assert model.get_feature_names_out().tolist() == ["n_components_aic"]
    np.testing.assert_array_equal(model.transform(bags)[:, 0], model.predict(bags))


def test_one_fitted_model_gives_one_answer_whatever_the_random_state(generated):
    bags = generated[0][:4]
    model = MixtureComponents(max_components=3, n_init=1).fit(bags)
    np.testing.assert_array_equal(model.scores(bags), model.scores(bags))


def test_float32(generated):
    bags = generated[0][:4]
    single = Bags(bags.points.astype(np.float32), bags.offsets)
    model = MixtureComponents(**quick).fit(single)
    found = model.criteria(single)
    assert {part.dtype.name for part in found[:3]} == {"float32"}
    assert model.scores(single).dtype == np.float32
    np.testing.assert_allclose(found.aic, model.criteria(bags).aic, rtol=1e-3)


def test_work_is_linear_in_the_number_of_bags(generated, monkeypatch):
    work = []

    def counted(features, weights, theta):
        work.append(theta[..., 0].size * features.shape[2])
        return step(features, weights, theta)

    monkeypatch.setattr(mixtures, "step", counted)
    bags = generated[0]
    model = MixtureComponents(**quick).fit(bags)
    monkeypatch.setattr(mixtures, "_FEWER", 1.0)  # every bag leaves the arrays at once
    monkeypatch.setattr(mixtures, "_BAGS_AT_ONCE", 5)
    totals = []
    for copies in (1, 3):
        work.clear()
        model.predict(bags[np.tile(np.arange(12), copies)])
        totals.append(sum(work))
    assert totals[1] <= 3 * totals[0] * 1.1


def test_padding_is_less_than_an_eighth():
    sizes = np.arange(1, 5000)
    lengths = padded_length(sizes)
    assert np.all((lengths >= sizes) & (lengths < 1.125 * sizes + 1e-9))
    assert len(np.unique(lengths)) < 100


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"criterion": "icl"}, ValueError, r"MixtureComponents\(criterion=...\): must be one of 'aic', 'bic', 'bayes'"),
        ({"max_components": 0}, ValueError, r"\(max_components=...\): must be an integer in \[1, 100\], got 0"),
        ({"n_init": 1.5}, TypeError, r"\(n_init=...\): must be an integer"),
        ({"max_iter": 0}, ValueError, r"\(max_iter=...\): must be an integer in \[1, 100000\], got 0"),
        ({"tol": -1}, ValueError, r"\(tol=...\): must be a number in \[0, inf\), got -1"),
        ({"reg": 0}, ValueError, r"\(reg=...\): must be a number in \[1e-08, 1\], got 0"),
        ({"n_jobs": 0}, ValueError, "n_jobs: must not be 0"),
    ],
)
def test_errors_of_parameters(options, error, words):
    with pytest.raises(error, match=words):
        MixtureComponents(**options).fit(np.zeros((1, 3, 2)))


def test_bayes_has_no_scores():
    bags = np.random.default_rng(0).normal(size=(2, 30, 1))
    model = MixtureComponents("bayes", **quick).fit(bags)
    with pytest.raises(ValueError, match="must be 'aic' or 'bic' for scores, got 'bayes'"):
        model.scores(bags)
    assert model.criteria(bags).aic.shape == (2, 4)
