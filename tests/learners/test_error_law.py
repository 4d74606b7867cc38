"""How sure predictions are: intervals, quantiles, deviations and sets from the errors of held-out bags."""

import numpy as np
import pytest

import distembed as de
from distembed.learners.error_law import ClassLaw, ErrorLaw, known_sizes
from distembed.learners.stacking import HeldOut


def law_of(errors, sizes=None, spread=None, **more):
    n = len(errors)
    truth = np.random.default_rng(9).normal(size=(n, 1))
    sizes = np.full(n, 20.0) if sizes is None else sizes
    spread = np.zeros((n, 1)) if spread is None else spread
    predicted = truth - errors[:, None]
    return ErrorLaw.of(HeldOut(predicted[None], truth, np.ones(n)), predicted, sizes, spread, **more)


def at(law, q, size=20.0, spread=0.0):
    return law.quantiles(np.zeros((1, 1)), np.array([size]), np.array([[spread]]), np.asarray(q, float))[0, 0]


def test_equal_bags_have_the_quantiles_of_conformal_prediction():
    errors = np.random.default_rng(0).normal(size=19)
    np.testing.assert_allclose(at(law_of(errors), [0.05, 0.5, 0.95]), np.sort(errors)[[0, 9, 18]])


def test_variances_that_fall_with_the_size_are_found():
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 200, size=4000)
    law = law_of(rng.normal(size=4000) * np.sqrt(0.5 + 20 / sizes), sizes)
    for size in (2, 10, 200):
        wanted = np.sqrt(0.5 + 20 / size)
        assert law.deviations(np.array([size]), np.zeros((1, 1)))[0, 0] == pytest.approx(wanted, rel=0.1)
    assert at(law, [0.9], 2)[0] == pytest.approx(1.2816 * np.sqrt(10.5), rel=0.1)


def test_variances_that_grow_with_the_spread_of_members_are_found():
    rng = np.random.default_rng(0)
    spread = rng.uniform(0, 2, size=(4000, 1))
    law = law_of(rng.normal(size=4000) * np.sqrt(0.2 + 3 * spread[:, 0] ** 2), spread=spread)
    assert at(law, [0.9], spread=2.0)[0] == pytest.approx(1.2816 * np.sqrt(12.2), rel=0.1)


def test_tails_go_on_beyond_the_held_out_bags():
    law = law_of(np.random.default_rng(0).normal(size=30))
    found = at(law, [1e-6, 1e-4, 0.01, 0.5, 0.99, 1 - 1e-4, 1 - 1e-6])
    assert np.all(np.diff(found) > 0)
    assert 3 < found[-1] < 9


def test_optimism_makes_widths_larger():
    errors = np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(at(law_of(errors, optimism=1.5), [0.1, 0.9]), 1.5 * at(law_of(errors), [0.1, 0.9]))


def test_errors_of_zero_and_constant_targets_have_narrow_intervals():
    for errors in (np.zeros(20), np.r_[np.zeros(19), 1e-9]):
        found = at(law_of(errors), [0.1, 0.9])
        assert np.all(np.isfinite(found))
        assert found[0] <= found[1] < 1e-4


def test_many_bags_keep_few_numbers():
    law = law_of(np.random.default_rng(0).normal(size=2000))
    assert law.residuals.shape == (401, 1)


def test_sizes_that_are_not_known_are_typical():
    law = law_of(np.ones(4), np.array([1.0, 1.0, 2.0, 2.0]))
    assert law.typical_size == pytest.approx(4 / 3)
    assert known_sizes(np.zeros(3), 7.0).tolist() == [7, 7, 7]


def test_sets_hold_the_class_as_often_as_asked_and_are_never_empty():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], size=4000)
    codes = np.array([rng.choice(3, p=row) for row in p])
    law = ClassLaw.of(HeldOut(p[None, :2000], codes[:2000], np.ones(2000), 3), p[:2000])
    for coverage in (0.5, 0.8, 0.95):
        sets = law.sets(p[2000:], coverage)
        assert sets.any(axis=1).all()
        right = sets[np.arange(2000), codes[2000:]].mean()
        assert right > coverage - 0.03
        assert right < coverage + 0.03 or coverage == 0.5  # where the likeliest class alone is right more often
    assert law.sets(p[2000:], 1 - 1e-9).all()


def draws(n, seed, classes=False):
    """Small bags, of which the truth can be known less well."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    sizes = rng.choice([4, 100], size=n)
    bags = de.Bags.from_arrays([rng.normal(t, 2, size=(m, 1)) for t, m in zip(truth, sizes, strict=True)])
    return bags, truth > 0 if classes else truth


@pytest.mark.parametrize("embedding", ["mean", ["mean", "deviation"]])
def test_intervals_hold_new_targets_whatever_the_size_of_a_bag(embedding):
    model = de.DistributionRegressor(embedding, random_state=0).fit(*draws(200, 0))
    bags, truth = draws(1000, 1)
    low, high = model.predict_interval(bags).T
    for size in (4, 100):
        rows = bags.sizes == size
        assert np.mean((low <= truth) & (truth <= high), where=rows) == pytest.approx(0.9, abs=0.06)
    assert np.mean((high - low)[bags.sizes == 4]) > 1.5 * np.mean((high - low)[bags.sizes == 100])
    predicted, deviation = model.predict(bags, return_std=True)
    assert np.std((truth - predicted) / deviation) == pytest.approx(1, abs=0.15)


def test_several_outputs():
    bags, truth = draws(80, 0)
    Y = np.stack([truth, -5 * truth], axis=1)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags, Y)
    assert model.predict_interval(bags[:7]).shape == (7, 2, 2)
    found = model.predict_quantiles(bags[:7], [0.9, 0.1, 0.5])
    assert found.shape == (7, 2, 3)
    assert np.all((found[..., 1] <= found[..., 2]) & (found[..., 2] <= found[..., 0]))
    predicted, deviation = model.predict(bags, return_std=True)
    assert predicted.shape == deviation.shape == (80, 2)


def test_refit_keeps_the_law_and_files_hold_it(tmp_path):
    bags, truth = draws(60, 0)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags, truth)
    law = model.law_
    assert model.refit(bags[:40], truth[:40]).law_ is law
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict_interval(bags), model.predict_interval(bags))


@pytest.mark.parametrize(("call", "said"), [
    (lambda m, X: m.predict_interval(X, coverage=1.0), r"predict_interval\(coverage=...\): must be"),
    (lambda m, X: m.predict_quantiles(X, [0.0, 0.5]), r"\(q=...\): must be a list of levels .* got \[0.0"),
    (lambda m, X: m.predict_quantiles(X, 0.5), r"\(q=...\): must be a list of levels between 0 and 1, got 0.5; write"),
])  # fmt: skip
def test_errors(call, said):
    bags, truth = draws(30, 0)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags, truth)
    with pytest.raises(ValueError, match=said):
        call(model, bags)
