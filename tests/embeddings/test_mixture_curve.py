"""The curve of likelihoods: those of the mixtures that it names, in nats per point, whatever the units of points."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture

import distembed as de
from distembed import datasets
from distembed.bags import Bags
from distembed.learners import MixtureComponents


@pytest.fixture(scope="module")
def generated():
    return datasets.make_mixture_components(12, 200, random_state=3)[0]


def curve(bags, **options):
    return de.MixtureCurveEmbedding(**{"max_components": 5, "random_state": 0, **options}).fit_transform(bags)


def test_one_component_in_closed_form(generated):
    for bag, row in zip(generated, curve(generated), strict=True):
        _, log_det = np.linalg.slogdet(2 * np.pi * np.e * np.cov(bag.T, bias=True))
        assert_allclose(row[0], -0.5 * log_det, rtol=1e-12)


def test_gains_are_those_of_the_mixtures_that_are_counted(generated):
    """Other starts find other maxima, which are as high in the mean."""
    found = curve(generated, n_init=16, tol=1e-7, max_iter=500)
    counted = MixtureComponents(max_components=5, n_init=16, tol=1e-5, max_iter=500, random_state=0).fit(generated)
    likelihood = np.maximum.accumulate(counted.criteria(generated).log_likelihood, axis=1) / 200
    assert_allclose(found[:, 0], likelihood[:, 0], rtol=1e-9)
    gaps = found[:, 1:] - (likelihood[:, 1:] - likelihood[:, :1])
    assert np.abs(gaps.mean(axis=0)).max() < 0.01
    assert np.abs(gaps).max() < 0.05


def test_gains_against_scikit_learn():
    rng = np.random.default_rng(0)
    bag = rng.normal(size=(300, 2)) + 12 * np.eye(3, 2)[rng.integers(3, size=300)]
    row = curve([bag], max_components=3, tol=1e-9)[0]
    options = {"n_init": 5, "tol": 1e-9, "reg_covar": 0, "random_state": 0}
    wanted = [GaussianMixture(k, **options).fit(bag).score(bag) for k in (1, 2, 3)]
    assert_allclose([row[0], row[0] + row[1], row[0] + row[2]], wanted, rtol=1e-5)


def test_more_components_are_never_less_likely(generated):
    gains = curve(generated, n_init=1, max_iter=5)[:, 1:]
    assert (gains >= 0).all()
    assert (np.diff(gains, axis=1) >= 0).all()


def test_an_affine_map_moves_all_bags_alike(generated):
    before = curve(generated)
    turned = [bag @ [[2.0, 1.0], [-0.5, 30.0]] + 1000 for bag in generated]
    after = curve(turned)
    assert_allclose(after[:, 1:], before[:, 1:], atol=1e-6)
    assert_allclose(after[:, 0] - before[:, 0], -np.log(60.5), rtol=1e-9)


def test_a_row_depends_on_its_bag_alone():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) * rng.uniform(0.5, 2) for n in (1, 2, 13, 40, 41, 100, 40)]
    model = de.MixtureCurveEmbedding(4, random_state=0).fit(arrays)
    wanted = model.transform(arrays)
    assert_array_equal(np.concatenate([model.transform([x]) for x in arrays]), wanted)
    assert_array_equal(model.transform([rng.permutation(x) for x in arrays]), wanted)
    assert_array_equal(model.set_params(n_jobs=3).transform(arrays), wanted)


def test_weights_are_copies(generated):
    bag = generated[0]
    counts = 1 + np.arange(200) % 3
    copies = np.repeat(bag, counts, axis=0)
    weighted = Bags(bag, [0, 200], weights=counts / 7)
    assert_allclose(curve(weighted), curve([copies]), rtol=1e-6, atol=1e-8)


def test_a_curve_is_flat_where_there_are_too_few_points():
    twelve = np.random.default_rng(0).normal(size=(12, 2))
    found = curve([np.zeros((1, 2)), np.ones((9, 2)), twelve, [[0.0, 1], [0, 2], [0, 4]]])
    assert np.isfinite(found).all()
    assert_array_equal(found[[0, 1, 3], 1:], 0)
    assert found[2, 1] > 0  # eleven parameters
    assert_array_equal(found[2, 2:], found[2, 1])  # seventeen


def test_it_counts_components():
    bags, y = datasets.make_mixture_components(120, 200, random_state=0)
    rows = curve(bags, n_init=1, max_iter=30)
    assert np.corrcoef(rows[:, 0], y)[0, 1] < -0.3
    design = np.c_[rows, np.ones(120)]
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert np.corrcoef(fitted, y)[0, 1] > 0.75


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_components": 0}, r"MixtureCurveEmbedding\(max_components=...\): must be .* got 0"),
        ({"n_init": 0}, r"MixtureCurveEmbedding\(n_init=...\): must be .* got 0"),
        ({"reg": 0.0}, r"MixtureCurveEmbedding\(reg=...\): must be .* got 0.0"),
        ({"tol": -1}, r"MixtureCurveEmbedding\(tol=...\): must be .* got -1"),
    ],
)
def test_errors_of_parameters(generated, options, words):
    with pytest.raises(ValueError, match=words):
        curve(generated, **options)
