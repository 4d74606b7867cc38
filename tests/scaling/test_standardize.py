"""Columns to mean 0 and deviation 1."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import distembed as de
from distembed.bags import Bags
from distembed.scaling import Standardize
from distembed.scaling.curves import (
    weighted_quantile,
)


def make_bags(seed=0, n_bags=7, n_dims=3, dtype=np.float64, weights=False, columns=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    points = rng.normal(size=(offsets[-1], n_dims)) * 10.0 ** np.arange(n_dims)
    points[:, -1] = np.exp(points[:, -1] / 10.0 ** (n_dims - 1) * 2)
    mass = rng.uniform(0.1, 5.0, offsets[-1]).astype(dtype) if weights else None
    ids = [f"bag-{i}" for i in range(n_bags)]
    return Bags(points.astype(dtype), offsets, weights=mass, ids=ids, columns=columns)


def one_bag(*values, **kwargs):
    points = np.asarray(values, dtype=float)
    return Bags(points.reshape(len(points), -1), [0, len(points)], **kwargs)


both = pytest.mark.parametrize("robust", [False, True])


def test_standardized_columns_have_mean_zero_and_deviation_one():
    bags = make_bags(columns=["a", "b", "c"])
    scaler = Standardize()
    scaled = scaler.fit_transform(bags)
    assert_allclose(scaled.points.mean(axis=0), 0, atol=1e-12)
    assert_allclose(scaled.points.std(axis=0), 1)
    assert_allclose(scaler.center_, bags.points.mean(axis=0))
    assert_allclose(scaler.scale_, bags.points.std(axis=0))
    assert tuple(scaled.columns) == ("a", "b", "c")
    assert_array_equal(scaled.ids, bags.ids)
    assert_array_equal(scaled.offsets, bags.offsets)


def test_robust_standardization_is_by_median_and_quartiles():
    bags = make_bags()
    scaler = Standardize(robust=True).fit(bags)
    q25, q50, q75 = np.quantile(bags.points, [0.25, 0.5, 0.75], axis=0, method="hazen")
    assert_allclose(scaler.center_, q50)
    assert_allclose(scaler.scale_, (q75 - q25) / 1.349)
    mostly = np.r_[np.zeros(90), np.arange(10.0)]
    assert_allclose(Standardize(robust=True).fit([mostly]).scale_, mostly.std())
    far = np.r_[np.linspace(-1, 1, 99), 1e300]
    assert Standardize(robust=True).fit([far]).scale_ < 1


@both
def test_weights_are_respected_and_their_scale_is_not(robust):
    bags = make_bags(weights=True)
    pooled = bags.pooled_weights()
    scaler = Standardize(robust).fit(bags)
    if robust:
        expected = [weighted_quantile(x, np.array([0.5]), pooled)[0] for x in bags.points.T]
        assert_allclose(scaler.center_, expected)
    else:
        mean = np.average(bags.points, axis=0, weights=pooled)
        assert_allclose(scaler.center_, mean)
        assert_allclose(scaler.scale_, np.sqrt(np.average((bags.points - mean) ** 2, axis=0, weights=pooled)))
    scale = np.repeat(10.0 ** np.arange(-3, 4), bags.sizes)
    other = Standardize(robust).fit(Bags(bags.points, bags.offsets, weights=bags.weights * scale))
    assert_allclose(other.center_, scaler.center_)
    assert_allclose(other.scale_, scaler.scale_)
    padded = Bags(np.r_[bags.points, [[1e9] * 3]], np.r_[bags.offsets[:-1], bags.n_points + 1], np.r_[bags.weights, 0])
    assert_allclose(Standardize(robust).fit(padded).center_, scaler.center_)


@both
@pytest.mark.parametrize("value", [0.0, 0.1, -7.25, 1e16, -1.7e308, 5e-324])
def test_constant_columns_become_zero(robust, value):
    bags = one_bag([value, 0], [value, 1], [value, 5])
    scaler = Standardize(robust).fit(bags)
    assert_array_equal(scaler.transform(bags).points[:, 0], 0)
    assert scaler.scale_[0] == 1
    assert_array_equal(Standardize(robust).fit_transform(one_bag([value, 3.0])).points, 0)


@both
@pytest.mark.parametrize("factor", [1e-300, 1e-6, 1.0, 1e6, 1e300])
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_units_and_offsets_vanish(robust, factor, offset):
    bags = make_bags()
    z = (bags.points - bags.points.mean(axis=0)) / bags.points.std(axis=0)
    wanted = Standardize(robust).fit_transform(bags.replace(points=z)).points
    got = Standardize(robust).fit_transform(bags.replace(points=(z + offset) * factor)).points
    assert_allclose(got, wanted, atol=1e-8 if offset else 1e-12)


@both
def test_the_largest_numbers(robust):
    values = np.array([-1.7e308, -1.0, 0.0, 1.0, 1.7e308])
    scaled = Standardize(robust).fit_transform([values]).points.ravel()
    assert np.isfinite(scaled).all()
    assert (np.diff(scaled) >= 0).all()


def test_points_that_overflow_are_refused_by_name():
    bags = Bags(np.array([[0.0], [1e-300], [2e-300]]), [0, 1, 3], ids=["a", "b"], columns=["dose"])
    scaler = Standardize().fit(bags)
    rule = (
        r"Standardize: points must be finite in float64 when divided by the deviation 8.16\S* of dimension 0 "
        r"\('dose'\), got 1e\+100 at point 1 of bag 1 \(id 'b'\); pass the units of fit"
    )
    with pytest.raises(ValueError, match=rule):
        scaler.transform(bags.replace(points=np.array([[0.0], [0.0], [1e100]])))


@both
def test_other_units_than_in_fit_are_noticed(robust):
    bags = make_bags(n_bags=20, columns=["x", "y", "z"])
    scaler = Standardize(robust).fit(bags)
    metres = bags.points * [1.0, 1000.0, 1.0]
    with pytest.warns(UserWarning, match=r"more than its width, most of them in dimension 1 \('y'\); see that") as said:
        scaler.transform(bags.replace(points=metres))
    assert len(said) == 1
    few = np.where(np.arange(len(metres))[:, None] < len(metres) // 100, metres, bags.points)
    scaler.transform(bags.replace(points=few))  # warnings are errors: one point in a hundred may be far
    weights = np.ones(len(metres))
    weights[1:] = 0
    first = np.where(np.arange(len(metres))[:, None] == 0, bags.points, metres)
    scaler.transform(bags.replace(points=first, weights=weights)[:1])  # points without weight do not count


def test_a_constant_column_of_another_dtype_is_not_far():
    scaler = Standardize().fit(one_bag([0.1, 0], [0.1, 1]).astype(np.float32))
    assert_allclose(scaler.transform(one_bag([0.1, 0], [0.1, 1])).points[:, 0], 0, atol=1e-8)
    scaler = Standardize().fit(one_bag([0.0, 0], [0.0, 1]))
    with pytest.warns(UserWarning, match=r"most of them in dimension 0"):
        scaler.transform(one_bag([3.0, 0], [0.0, 1]))


@both
def test_standardize_keeps_float32(robust):
    single = make_bags(dtype=np.float32, weights=True)
    scaled = Standardize(robust).fit_transform(single)
    assert scaled.dtype == scaled.weights.dtype == np.float32
    double = single.astype(np.float64)
    assert_allclose(scaled.points, Standardize(robust).fit_transform(double).points, atol=1e-5)


@both
def test_categories_become_indicators_that_count_as_one_column(robust, pupils):
    scaler = Standardize(robust)
    scaled = scaler.fit_transform(pupils)
    names = ["mark", "subject=art", "subject=maths", "subject=music", "income"]
    assert list(scaled.columns) == list(scaler.get_feature_names_out()) == names
    assert scaled.categories is None
    indicators = pupils.points[:, [1]] == np.arange(3)
    share = indicators.mean(axis=0)
    spread = np.sqrt(np.sum(share * (1 - share)))
    assert_allclose(scaled.points[:, 1:4], (indicators - share) / spread)
    assert_allclose(scaled.points[:, 1:4].var(axis=0).sum(), 1)
    numbers = Standardize(robust).fit_transform(Bags(pupils.points[:, [0, 2]], pupils.offsets))
    assert_allclose(scaled.points[:, [0, 4]], numbers.points)
    assert de.MomentEmbedding("mean").fit_transform(scaled).shape == (2, 5)
    nameless = Standardize(robust).fit(Bags(pupils.points, pupils.offsets, categories=dict(pupils.categories)))
    assert list(nameless.get_feature_names_out()) == ["x0", "x1=art", "x1=maths", "x1=music", "x2"]
    assert nameless.transform(Bags(pupils.points, pupils.offsets, categories=dict(pupils.categories))).columns is None


def test_labels_that_never_occur_become_zero():
    bags = Bags(np.array([[0.0], [0.0]]), [0, 2], categories={0: ["f", "m"]})
    assert_array_equal(Standardize().fit_transform(bags).points, 0)


def test_names_of_indicators_that_are_taken_are_refused():
    bags = Bags(np.array([[0.0, 1.0]]), [0, 1], columns=["sex", "sex=m"], categories={0: ["f", "m"]})
    with pytest.raises(ValueError, match=r"Standardize: columns .* got 'sex=m' as a column, too; rename that column"):
        Standardize().fit(bags)


def test_robust_must_be_true_or_false():
    with pytest.raises(TypeError, match=r"Standardize\(robust=...\): must be True or False, got 'yes'; True takes"):
        Standardize("yes").fit(make_bags())
    with pytest.raises(NotFittedError, match="Standardize instance is not fitted yet"):
        Standardize().transform(make_bags())
