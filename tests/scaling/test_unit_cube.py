"""Scaling to the unit cube, and the scaler that learners put before an embedding."""

from __future__ import annotations

import pickle
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils import estimator_html_repr, get_tags

import distembed as de
from distembed.bags import Bags
from distembed.compute.arrays import outside, to_unit
from distembed.compute.checks import check_choice, check_number
from distembed.scaling import Standardize, UnitCube, scaler_for
from distembed.scaling.curves import (
    interpolate,
    weighted_quantile,
)

MAPS = ("linear", "asinh", "rank", "auto")
quick = settings(max_examples=60, deadline=None, derandomize=True)
every_map = pytest.mark.parametrize("kind", MAPS)

# Values that meet in ties, in tiny gaps and over many orders of magnitude.
numbers = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 3.0, 1e-300, 1e300]),
    st.floats(-1e6, 1e6, allow_subnormal=False),
)
columns = st.integers(1, 40).flatmap(lambda n: arrays(np.float64, n, elements=numbers))


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


def transform_quietly(cube, bags):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return cube.transform(bags)


def test_rounding_never_leaves_the_interval():
    rng = np.random.default_rng(0)
    for low, high in np.sort(rng.normal(size=(300, 2))):
        knots, heights = np.array([0.0, 1.0]), np.array([low, high])
        assert interpolate(np.array([1.0]), knots, heights) == high
        assert (to_unit(np.array([np.nextafter(low, -9), np.nextafter(high, 9)]), low, high) == [0, 1]).all()


def test_pooled_weights_forget_the_scale_of_each_bag():
    bags = Bags(np.zeros((6, 1)), [0, 3, 6], weights=np.array([1.0, 1.0, 1.0, 2.0, 6.0, 0.0]))
    pooled = bags.pooled_weights()
    assert_allclose(pooled[:3], 1)  # equal weights: each point counts one
    assert_allclose(pooled[3:].sum(), 8**2 / 40)  # effective number of points
    assert_allclose(pooled[4] / pooled[3], 3)
    scaled = bags.replace(weights=bags.weights * np.repeat([1e200, 1e-200], 3))
    assert_allclose(scaled.pooled_weights(), pooled)
    assert bags.replace(weights=None).pooled_weights() is None


# ------------------------------------------------------------------------------------------------------------
# Bounds
# ------------------------------------------------------------------------------------------------------------


def test_minmax_bounds_are_widened_by_the_margin():
    bags = make_bags()
    low, high = bags.points.min(axis=0), bags.points.max(axis=0)
    for kind in ("linear", "rank"):
        cube = UnitCube(margin=0.1, map=kind).fit(bags)
        assert_allclose(cube.low_, low - 0.1 * (high - low))
        assert_allclose(cube.high_, high + 0.1 * (high - low))
        assert cube.clipped_ == 0


def test_margin_of_asinh_is_a_fraction_of_the_asinh_span():
    bags = make_bags()
    unit = UnitCube(margin=0.1, map="asinh").fit_transform(bags).points
    assert_allclose(unit.min(axis=0), 0.1 / 1.2)
    assert_allclose(unit.max(axis=0), 1.1 / 1.2)


@every_map
def test_no_margin_maps_extremes_to_the_faces(kind):
    cube = UnitCube(margin=0, map=kind)
    unit = cube.fit_transform(make_bags(dtype=np.float32)).points
    assert_array_equal(unit.min(axis=0), 0)
    assert_array_equal(unit.max(axis=0), 1)
    assert cube.clipped_ == 0


def of_curves(cube):
    """Centers and scales of asinh maps."""
    return np.array([(curve.center, curve.scale) for curve in cube.curves_.values()]).T


def test_quantile_bounds_respect_weights():
    bags = make_bags(weights=True, n_bags=40)
    cube = UnitCube(0.1, margin=0).fit(bags)
    pooled = bags.pooled_weights()
    for j in range(3):
        expected = weighted_quantile(bags.points[:, j], np.array([0.1, 0.9]), pooled)
        assert_allclose([cube.low_[j], cube.high_[j]], expected)
    outside = (bags.points < cube.low_) | (bags.points > cube.high_)
    assert cube.clipped_ == outside.any(axis=1).mean()
    assert_allclose(pooled @ outside / pooled.sum(), 0.2, atol=0.01)


def test_quantile_bounds_ignore_the_scale_of_a_bags_weights():
    bags = make_bags(weights=True)
    scale = np.repeat(10.0 ** np.arange(-3, 4), bags.sizes)
    other = Bags(bags.points, bags.offsets, weights=bags.weights * scale)
    a, b = (UnitCube(0.05, map="asinh").fit(x) for x in (bags, other))
    assert_allclose([a.low_, a.high_, *of_curves(a)], [b.low_, b.high_, *of_curves(b)])


@pytest.mark.parametrize(
    "bounds", [(-1, 4), [-1, [4, 4]], ([-1.0, -1.0], 4), np.array([[-1, -1], [4, 4]]), (np.float32(-1), 4)]
)
def test_explicit_bounds_are_taken_as_they_are(bounds):
    bags = one_bag([0, -1], [1.5, 4])
    cube = UnitCube(bounds, margin=3).fit(bags)
    assert_array_equal(cube.low_, [-1, -1])
    assert_array_equal(cube.high_, [4, 4])
    assert_allclose(cube.transform(bags).points, [[0.2, 0], [0.5, 1]])


@every_map
@pytest.mark.parametrize("value", [0.0, 0.1, -7.25, 3e7, 1e16, -1e300])
def test_constant_coordinate_maps_to_the_middle(kind, value):
    bags = one_bag([value, 0], [value, 1], [value, 5])
    cube = UnitCube(map=kind).fit(bags)
    assert_allclose(cube.transform(bags).points[:, 0], 0.5, atol=1e-6)
    assert_allclose(cube.inverse_transform(cube.transform(bags)).points[:, 0], value)
    if abs(value) < 1e6:
        assert_allclose([cube.low_[0], cube.high_[0]], [value - 0.5, value + 0.5])


@every_map
def test_coinciding_quantiles_are_treated_as_constant(kind):
    bags = one_bag(*[2.0] * 98, -50, 60)
    cube = UnitCube(0.1, map=kind).fit(bags)
    assert (cube.low_, cube.high_) == (1.5, 2.5)
    assert cube.clipped_ == 0.02
    unit = transform_quietly(cube, bags).points.ravel()
    assert_allclose(unit, [0.5] * 98 + [0, 1])


@every_map
def test_faces_go_to_faces_and_back(kind):
    points = np.random.default_rng(0).normal(size=(50, 200))
    cube = UnitCube(map=kind).fit([points])
    unit = cube.transform([np.stack([cube.low_, cube.high_])])
    assert_array_equal(unit.points, [[0] * 200, [1] * 200])
    back = cube.inverse_transform(unit).points
    assert_allclose(back, [cube.low_, cube.high_], rtol=1e-12)
    assert ((cube.low_ <= back) & (back <= cube.high_)).all()


@every_map
def test_single_point(kind):
    bags = one_bag([3.0, -4.0])
    assert_allclose(UnitCube(map=kind).fit_transform(bags).points, 0.5)


# ------------------------------------------------------------------------------------------------------------
# The maps
# ------------------------------------------------------------------------------------------------------------


def test_linear_map_is_affine():
    bags = make_bags()
    cube = UnitCube().fit(bags)
    expected = (bags.points - cube.low_) / (cube.high_ - cube.low_)
    assert_allclose(cube.transform(bags).points, expected)


def test_asinh_map_against_its_formula():
    bags = make_bags()
    cube = UnitCube(map="asinh", margin=0).fit(bags)
    q25, q50, q75 = np.quantile(bags.points, [0.25, 0.5, 0.75], axis=0, method="hazen")
    center, scale = of_curves(cube)
    assert_allclose(center, q50)
    assert_allclose(scale, (q75 - q25) / 1.349)
    g = np.arcsinh((bags.points - q50) / scale)
    expected = (g - g.min(axis=0)) / (g.max(axis=0) - g.min(axis=0))
    assert_allclose(cube.transform(bags).points, expected, atol=1e-12)


def test_asinh_scale_falls_back_to_the_standard_deviation_then_one():
    values = np.r_[np.zeros(90), np.arange(10.0)]
    cube = UnitCube(map="asinh").fit([np.c_[values, np.ones(100)]])
    assert_allclose(of_curves(cube)[1], [values.std(), 1])
    weights = np.r_[np.full(90, 2.0), np.ones(10)]
    weighted = UnitCube(map="asinh").fit(Bags(values[:, None], [0, 100], weights=weights))
    mean = np.average(values, weights=weights)
    assert_allclose(weighted.curves_[0].scale, np.sqrt(np.average((values - mean) ** 2, weights=weights)))


def test_rank_map_makes_pooled_points_uniform():
    bags = Bags(np.random.default_rng(0).standard_cauchy((5000, 2)), [0, 1000, 5000])
    cube = UnitCube(map="rank", n_quantiles=100).fit(bags)
    unit = np.sort(cube.transform(bags).points, axis=0)
    ideal = (np.arange(5000) + 0.5) / 5000
    assert np.abs(unit - ideal[:, None]).max() < 0.01
    assert [curve.knots.shape for curve in cube.curves_.values()] == 2 * [(2, 102)]


def test_rank_map_with_all_knots_is_the_distribution_function():
    values = np.random.default_rng(1).normal(size=50)
    cube = UnitCube(map="rank").fit([values])
    unit = cube.transform([values]).points.ravel()
    assert_allclose(unit, (values.argsort().argsort() + 0.5) / 50)
    ends = cube.transform([np.r_[cube.low_, (cube.low_ + values.min()) / 2, cube.high_]])
    assert_allclose(ends.points.ravel(), [0, 0.005, 1], atol=1e-12)


def test_rank_map_with_narrow_bounds_ranks_only_what_is_inside():
    values = np.arange(100.0)
    cube = UnitCube((39.5, 49.5), map="rank", outside="drop").fit([values])
    assert_allclose(cube.transform([values]).points.ravel(), (np.arange(10) + 0.5) / 10)


@every_map
def test_second_fit_forgets_the_first(kind):
    cube = UnitCube(map="asinh").fit(make_bags(columns=["a", "b", "c"]))
    cube.set_params(map=kind).fit(make_bags(1, n_dims=2))
    fresh = UnitCube(map=kind).fit(make_bags(1, n_dims=2))
    assert cube.__dict__.keys() == fresh.__dict__.keys()
    assert not hasattr(cube, "feature_names_in_")


@every_map
@quick
@given(values=columns, fresh=columns, margin=st.sampled_from([0.0, 0.05, 1.0]))
def test_maps_increase_and_stay_inside(kind, values, fresh, margin):
    try:
        cube = UnitCube(map=kind, margin=margin).fit([values])
    except ValueError as error:  # 1e300 beside 1e-300
        assert kind == "asinh"
        assert "finite" in str(error)  # noqa: PT017
        return
    unit = transform_quietly(cube, [np.sort(np.r_[values, fresh])]).points.ravel()
    assert np.isfinite(unit).all()
    assert unit.min() >= 0
    assert unit.max() <= 1
    assert (np.diff(unit) >= -1e-15).all()


@every_map
@quick
@given(
    values=arrays(np.float64, 30, elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3))),
    at=arrays(np.float64, 20, elements=st.floats(0, 1)),
    margin=st.sampled_from([0.0, 0.05, 0.5]),
)
def test_round_trip(kind, values, at, margin):
    cube = UnitCube(map=kind, margin=margin).fit([values])
    low, high = cube.low_[0], cube.high_[0]
    x = np.clip(np.r_[values, low + at * (high - low)], low, high)
    back = cube.inverse_transform(cube.transform([x])).points.ravel()
    assert_allclose(back, x, rtol=0, atol=1e-11 * (high - low))
    assert back.min() >= low
    assert back.max() <= high
    assert_allclose(cube.transform(cube.inverse_transform([at])).points.ravel(), at, rtol=0, atol=1e-6)


@every_map
def test_round_trip_of_weighted_bags_keeps_everything(kind):
    bags = make_bags(weights=True, columns=["a", "b", "c"])
    cube = UnitCube(map=kind).fit(bags)
    back = cube.inverse_transform(cube.transform(bags))
    assert_allclose(back.points, bags.points, rtol=1e-9, atol=1e-12)
    assert_array_equal(back.offsets, bags.offsets)
    assert_array_equal(back.weights, bags.weights)
    assert_array_equal(back.ids, bags.ids)
    assert tuple(back.columns) == ("a", "b", "c")


def test_points_of_weight_zero_are_never_outside():
    train = one_bag([0.0], [1.0])
    new = Bags([[0.5], [9.0]], [0, 2], weights=[1, 0])
    for rule in ("clip", "drop", "error"):
        cube = UnitCube(outside=rule).fit(train)
        assert cube.transform(new).points[0] == 0.5  # and no warning
        assert cube.clipped_ == 0


@every_map
def test_clipped_points_come_back_on_the_faces(kind):
    cube = UnitCube((0, 1), map=kind).fit([np.linspace(0, 1, 11)])
    with pytest.warns(UserWarning, match="clipped"):
        unit = cube.transform([np.array([-5.0, 0.5, 1e300])])
    assert_allclose(unit.points.ravel(), [0, 0.5, 1], atol=1e-15)
    assert_allclose(cube.inverse_transform(unit).points.ravel(), [0, 0.5, 1], atol=1e-15)


# ------------------------------------------------------------------------------------------------------------
# Precision
# ------------------------------------------------------------------------------------------------------------


@every_map
def test_float32_stays_float32_and_inside(kind):
    single = make_bags(dtype=np.float32, weights=True, n_bags=50)
    double = Bags(single.points.astype(float), single.offsets, weights=single.weights.astype(float))
    cube = UnitCube(map=kind).fit(single)
    unit = cube.transform(single)
    assert unit.dtype == unit.weights.dtype == np.float32
    assert unit.points.min() >= 0
    assert unit.points.max() <= 1
    assert_allclose(unit.points, UnitCube(map=kind).fit_transform(double).points, atol=1e-6)
    back = cube.inverse_transform(unit)
    assert back.dtype == np.float32
    assert_allclose(back.points, single.points, rtol=1e-3, atol=1e-3)


def test_bounds_are_compared_in_the_precision_of_the_points():
    point = np.array([np.float32(0.1)])
    assert point.astype(float) > 0.1
    cube = UnitCube((0, 0.1), outside="error").fit([point])
    assert cube.transform([point]).points == 1
    assert not outside(point, -1e300, 1e300)


def test_integers_become_float64():
    assert UnitCube().fit_transform([np.arange(5)]).dtype == np.float64


@pytest.mark.parametrize("kind", ["linear", "rank"])
def test_huge_values(kind):
    values = np.array([-8e307, -1e300, 0.0, 1e300, 7e307])
    cube = UnitCube(map=kind).fit([values])
    unit = cube.transform([values]).points
    assert (np.diff(unit, axis=0) >= 0).all()
    assert_allclose(cube.inverse_transform(unit[None]).points.ravel(), values, rtol=1e-9, atol=1e293)
    assert_array_equal(transform_quietly(cube, [np.array([-1.7e308, 1.7e308])]).points.ravel(), [0, 1])


@every_map
def test_tiny_values(kind):
    values = np.array([0.0, 1e-310, 3e-310, 4e-310])
    cube = UnitCube(map=kind).fit([values])
    unit = cube.transform([values]).points.ravel()
    assert (np.diff(unit) > 0).all()
    assert_allclose(cube.inverse_transform([unit]).points.ravel(), values, rtol=1e-9)


@every_map
@pytest.mark.parametrize(
    ("bounds", "margin", "values"),
    [("minmax", 0, [-1.5e308, 1.5e308]), (0.1, 0, [-1.5e308, 1.5e308]), ((-1e308, 1.5e308), 0, [1, 2])],
)
def test_infinite_range_is_refused(kind, bounds, margin, values):
    rule = r"UnitCube: the range of dimension 0 must be finite in float64, got -1.* to 1.5e\+308; divide"
    with pytest.raises(ValueError, match=rule):
        UnitCube(bounds, margin=margin, map=kind).fit([np.array(values, dtype=float)])


def test_range_that_overflows_by_its_margin_is_refused():
    with pytest.raises(ValueError, match="range of dimension 0 must be finite in float64, got -inf to inf"):
        UnitCube(margin=2).fit([np.array([-8e307, 8e307])])
    with pytest.raises(ValueError, match="range of dimension 0 must be finite in float64, got -inf to inf"):
        UnitCube(margin=1e3, map="asinh").fit([np.array([-1.0, 0, 1.0])])


def test_asinh_out_of_reach_is_refused():
    rule = r"UnitCube\(map='asinh'\): bounds must be finite and distinct .* pass map='rank' or other bounds"
    with pytest.raises(ValueError, match=rule):
        UnitCube(map="asinh").fit([np.array([0.0, 1e-20, 2e-20, 3e-20, 4e-20, 5e-20, 6e-20, 7e-20, 1e300])])


def test_inverse_into_a_dtype_too_small_is_refused():
    cube = UnitCube().fit([np.array([0.0, 1e300])])
    with pytest.raises(ValueError, match="dtype that can hold the bounds of fit, got float32; pass float64"):
        cube.inverse_transform([np.array([1.0], dtype=np.float32)])


@every_map
@pytest.mark.parametrize("outside", ["clip", "drop"])
def test_input_is_untouched(kind, outside):
    bags = make_bags(weights=True)
    points, weights = bags.points.copy(), bags.weights.copy()
    cube = UnitCube(0.01, map=kind, outside=outside, margin=0).fit(bags)
    unit = transform_quietly(cube, bags)
    assert_array_equal(bags.points, points)
    assert_array_equal(bags.weights, weights)
    copy = unit.points.copy()
    cube.inverse_transform(unit)
    assert_array_equal(unit.points, copy)


# ------------------------------------------------------------------------------------------------------------
# Points outside
# ------------------------------------------------------------------------------------------------------------


def test_clip_warns_above_one_percent():
    inside, outside = np.linspace(0, 1, 99), [2.0]
    cube = UnitCube((0, 1)).fit([inside])
    cube.transform([np.r_[inside, outside]])  # one percent exactly: no warning
    assert cube.clipped_ == 0.01
    rule = r'UnitCube: more than 1% of the points .* clipped .* widen margin or bounds, or pass outside="drop"'
    with pytest.warns(UserWarning, match=rule):
        unit = cube.transform([np.r_[inside, outside * 3]])
    assert cube.clipped_ == 3 / 102
    assert_array_equal(unit.points[-3:], 1)


def test_fit_records_what_it_would_clip_and_does_not_warn():
    bags = [np.array([[0.0, 0], [1, 9], [9, 9], [1, 1]])]
    assert UnitCube((0, 5)).fit(bags).clipped_ == 0.5  # each point counts once


@pytest.mark.parametrize("weights", [False, True])
def test_drop_against_a_loop_over_bags(weights):
    bags = make_bags(3, n_bags=30, weights=weights, columns=["a", "b", "c"])
    bags = bags[bags.sizes > 3]
    cube = UnitCube(0.02, outside="drop", margin=0).fit(bags)
    unit = cube.transform(bags)
    kept = 0
    for i, points in enumerate(bags):
        inside = [all((cube.low_ <= x) & (x <= cube.high_)) for x in points]
        expected = (points[inside] - cube.low_) / (cube.high_ - cube.low_)
        assert_allclose(unit[i], expected)
        if weights:
            own = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
            assert_array_equal(unit.weights[unit.offsets[i] : unit.offsets[i + 1]], own[inside])
        kept += sum(inside)
    assert unit.offsets[-1] == len(unit.points) == kept < len(bags.points)
    assert cube.clipped_ == pytest.approx(1 - kept / len(bags.points))
    assert_array_equal(unit.ids, bags.ids)
    assert tuple(unit.columns) == ("a", "b", "c")
    assert (unit.weights is None) is not weights
    Bags(unit.points, unit.offsets, unit.weights)  # passes the checks of the container


def test_drop_that_empties_a_bag_is_refused():
    bags = Bags(np.array([[0.5], [0.6], [3.0], [4.0]]), [0, 2, 4], ids=["near", "far"])
    cube = UnitCube((0, 1), outside="drop").fit(bags)
    rule = r"outside=\"drop\"\): .* got no point in bag 1 \(id 'far'\); widen margin .* or pass outside=\"clip\""
    with pytest.raises(ValueError, match=rule):
        cube.transform(bags)


def test_drop_that_leaves_a_bag_without_weight_is_refused():
    bags = Bags(np.array([[0.5], [0.6], [3.0]]), [0, 1, 3], weights=[1.0, 0.0, 1.0], ids=[7, 8])
    cube = UnitCube((0, 1), outside="drop").fit(bags)
    with pytest.raises(ValueError, match=r"got no point of positive weight in bag 1 \(id 8\); widen"):
        cube.transform(bags)


def test_error_names_bag_point_coordinate_value_and_bounds():
    points = np.array([[0.5, 0.5], [0.6, 0.1], [0.2, 3.25]])
    bags = Bags(points, [0, 1, 3], ids=["a", "b"], columns=["ra", "dec"])
    cube = UnitCube((0, 1), outside="error").fit(bags)
    rule = (
        r"UnitCube: points must lie in the bounds \[0\.0, 1\.0\] of dimension 1 \('dec'\), got 3\.25 at "
        r"point 1 of bag 1 \(id 'b'\); widen margin or bounds, or pass outside=\"clip\" or \"drop\""
    )
    with pytest.raises(ValueError, match=rule):
        cube.transform(bags)
    assert cube.clipped_ == 1 / 3
    cube.transform(bags[:1])
    assert cube.clipped_ == 0


def test_inverse_refuses_points_outside_the_cube():
    cube = UnitCube().fit([np.arange(3.0)])
    rule = r"\[0\.0, 1\.0\] of dimension 0, got 1\.5 at point 1 of bag 0; pass points of the unit cube"
    with pytest.raises(ValueError, match=rule):
        cube.inverse_transform([np.array([0.5, 1.5])])


# ------------------------------------------------------------------------------------------------------------
# Errors of parameters
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "rule"),
    [
        (
            {"margin": -1},
            ValueError,
            r"UnitCube\(margin=...\): must be a number in \[0, inf\), got -1; choose",
        ),
        ({"margin": np.nan}, ValueError, r"UnitCube\(margin=...\): .*, got nan; choose"),
        ({"margin": np.inf}, ValueError, r"UnitCube\(margin=...\): .*, got inf; choose"),
        ({"margin": "wide"}, TypeError, r"UnitCube\(margin=...\): .*, got 'wide' of type str; choose"),
        ({"margin": True}, TypeError, r"UnitCube\(margin=...\): .*, got True of type bool"),
        (
            {"outside": "wrap"},
            ValueError,
            r"UnitCube\(outside=...\): must be one of 'clip', 'drop', 'error', got",
        ),
        (
            {"map": "log"},
            ValueError,
            r"UnitCube\(map=...\): must be one of .*, got 'log'; choose one of these",
        ),
        ({"map": None}, TypeError, r"UnitCube\(map=...\): must be one of .*, got None"),
        (
            {"n_quantiles": 1},
            ValueError,
            r"UnitCube\(n_quantiles=...\): must be an integer in \[2, inf\), got 1",
        ),
        ({"n_quantiles": 9.5}, TypeError, r"must be an integer in \[2, inf\), got 9.5 of type float"),
        (
            {"bounds": 0.5},
            ValueError,
            r"UnitCube\(bounds=...\): must be a number in \(0, 0.5\), got 0.5; pass a",
        ),
        ({"bounds": 0}, ValueError, r"must be a number in \(0, 0.5\), got 0; pass a small one such as 0.01"),
        ({"bounds": True}, TypeError, r"must be a number in \(0, 0.5\), got True of type bool"),
        (
            {"bounds": "range"},
            ValueError,
            r"UnitCube\(bounds=...\): must be 'minmax', a quantile .* got 'range'",
        ),
        ({"bounds": "01"}, ValueError, r"must be 'minmax', a quantile .* got '01'; pass \(low, high\)"),
        ({"bounds": None}, ValueError, r"must be 'minmax', a quantile .* got None; pass \(low, high\)"),
        (
            {"bounds": (0, np.inf)},
            ValueError,
            r"each a finite number or 2 of them, one per dimension, got \(0, inf",
        ),
        ({"bounds": (0, "x")}, ValueError, r"pair \(low, high\), each a finite number .* got \(0, 'x'\)"),
        ({"bounds": (0, 1, 2)}, ValueError, r"must be 'minmax', .* got \(0, 1, 2\); pass \(low, high\)"),
        ({"bounds": (0, [1, 2, 3])}, ValueError, r"2 of them, one per dimension, got \(0, \[1, 2, 3\]\)"),
        (
            {"bounds": (3, 2)},
            ValueError,
            r"low must be below high, got low 3 and high 2 in dimension 0 \('a'\);",
        ),
        (
            {"bounds": ([0, 1], 1)},
            ValueError,
            r"got low 1 and high 1 in dimension 1 \('b'\); pass \(low, high\)",
        ),
        (
            {"bounds": ((0, 1), (0, 1))},
            ValueError,
            r"dimension 0 .* pass \(low, high\), not one pair per dimension",
        ),
    ],
)
def test_parameters_are_checked_in_fit(parameters, error, rule):
    cube = UnitCube(**parameters)
    with pytest.raises(error, match=rule):
        cube.fit(make_bags(n_dims=2, columns=["a", "b"]))


@pytest.mark.parametrize("kind", ["asinh", "rank"])
def test_bounds_without_training_points_are_refused(kind):
    rule = rf"UnitCube\(map='{kind}'\): .* got none in dimension 1, where points run from 5 to 6 and bounds from"
    with pytest.raises(ValueError, match=rule):
        UnitCube((0, 1), map=kind).fit([np.array([[0.5, 5], [0.1, 6]])])
    weighted = Bags(np.array([[0.5], [5.0]]), [0, 2], weights=[0.0, 1.0])
    with pytest.raises(ValueError, match="some training points must lie inside the bounds, got none"):
        UnitCube((0, 1), map=kind).fit(weighted)


def test_number_and_choice_return_what_they_check():
    assert check_number("f", "n", np.int64(3), low=1, integer=True) == 3
    assert type(check_number("f", "n", np.int64(3), integer=True)) is int
    assert type(check_number("f", "x", np.float32(0.5))) is float
    assert check_choice("f", "how", "a", ("a", "b")) == "a"


@pytest.mark.parametrize(
    ("inclusive", "interval", "inside", "outside"),
    [
        ("both", r"\[0, 1\]", [0, 1], [-0.1, 1.1]),
        ("left", r"\[0, 1\)", [0, 0.9], [1]),
        ("right", r"\(0, 1\]", [0.1, 1], [0]),
        ("neither", r"\(0, 1\)", [0.1, 0.9], [0, 1]),
    ],
)
def test_interval_ends(inclusive, interval, inside, outside):
    for value in inside:
        assert check_number("f", "x", value, low=0, high=1, inclusive=inclusive) == value
    for value in outside:
        with pytest.raises(ValueError, match=rf"f\(x=...\): must be a number in {interval}, got {value}; halve"):
            check_number("f", "x", value, low=0, high=1, inclusive=inclusive, remedy="halve it")


# ------------------------------------------------------------------------------------------------------------
# scikit-learn
# ------------------------------------------------------------------------------------------------------------


class BagMeans(TransformerMixin, BaseEstimator):
    """The smallest step that turns bags into a table."""

    def fit(self, X, y=None):
        self.n_means_ = X.n_dims
        return self

    def transform(self, X):
        return np.stack([points.mean(axis=0) for points in X])

    def get_feature_names_out(self, input_features=None):
        return np.array([f"mean{j}" for j in range(self.n_means_)], dtype=object)


def test_pipeline_set_output_reaches_later_steps():
    pandas = pytest.importorskip("pandas")
    bags = make_bags()
    pipeline = make_pipeline(UnitCube(), BagMeans()).set_output(transform="pandas")
    frame = pipeline.fit_transform(bags, np.arange(bags.n_bags))
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["mean0", "mean1", "mean2"]
    assert_allclose(frame.to_numpy(), [p.mean(axis=0) for p in UnitCube().fit_transform(bags)])


def test_set_output_never_wraps_bags():
    cube, bags = UnitCube(), make_bags()
    assert cube.set_output(transform="pandas") is cube
    with config_context(transform_output="pandas"):
        assert isinstance(cube.fit_transform(bags), Bags)
        assert isinstance(cube.transform(bags), Bags)


def test_names_of_coordinates():
    plain, named = make_bags(), make_bags(columns=["ra", "dec", "v"])
    assert UnitCube().fit(plain).get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    cube = UnitCube().fit(named)
    assert cube.get_feature_names_out().tolist() == ["ra", "dec", "v"]
    assert cube.feature_names_in_.dtype == object
    with pytest.warns(
        UserWarning, match="X has no column names, but the model was fitted with 'ra', 'dec', 'v': taken"
    ):
        assert cube.transform(plain).columns == ("ra", "dec", "v")
    with pytest.raises(ValueError, match=r"UnitCube: X must have the columns \['ra', .* reorder the columns"):
        cube.transform(make_bags(columns=["dec", "ra", "v"]))


@every_map
@pytest.mark.parametrize("copy", [clone, lambda cube: pickle.loads(pickle.dumps(cube))])
def test_clone_and_pickle(kind, copy):
    bags = make_bags()
    cube = UnitCube(0.01, margin=0.5, outside="drop", map=kind, n_quantiles=50).fit(bags)
    other = copy(cube)
    assert other.get_params() == cube.get_params()
    if copy is clone:
        assert not hasattr(other, "low_")
        other.fit(bags)
    assert_array_equal(other.transform(bags).points, cube.transform(bags).points)


def test_unfitted():
    for method in ("transform", "inverse_transform"):
        with pytest.raises(NotFittedError, match="UnitCube instance is not fitted yet"):
            getattr(UnitCube(), method)(make_bags())
    with pytest.raises(NotFittedError):
        UnitCube().get_feature_names_out()


def test_another_width_is_refused():
    cube = UnitCube().fit(make_bags(n_dims=3))
    assert cube.n_features_in_ == 3
    rule = r"UnitCube: X must have points of 3 dimension\(s\), as in fit, got 2; pass bags with the same"
    for method in (cube.transform, cube.inverse_transform):
        with pytest.raises(ValueError, match=rule):
            method(make_bags(n_dims=2))


def test_tags_and_repr():
    tags = get_tags(UnitCube())
    assert not tags.input_tags.two_d_array
    assert tags.input_tags.three_d_array
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert tags.requires_fit
    assert not tags.no_validation
    assert "UnitCube" in estimator_html_repr(UnitCube(margin=0.2))
    assert repr(UnitCube(0.01, map="rank")) == "UnitCube(bounds=0.01, map='rank')"


@every_map
def test_list_array_and_bags_agree(kind):
    cube_points = np.random.default_rng(0).normal(size=(4, 6, 2))
    forms = [cube_points, list(cube_points), Bags(cube_points.reshape(24, 2), np.arange(5) * 6)]
    units = [UnitCube(map=kind).fit_transform(form).points for form in forms]
    assert_array_equal(units[0], units[1])
    assert_array_equal(units[0], units[2])


@every_map
@pytest.mark.parametrize("n_dims", [1, 2, 40])
def test_many_points_are_mapped_as_few(kind, n_dims):
    points = np.random.default_rng(0).normal(size=(40_000 // n_dims, n_dims))  # several blocks
    cube = UnitCube(0.01, map=kind).fit([points])
    rows = ((points < cube.low_) | (points > cube.high_)).any(axis=1)
    whole = transform_quietly(cube, [points])
    assert cube.clipped_ == rows.mean()
    some = transform_quietly(cube, [points[-7:]])
    assert_allclose(whole.points[-7:], some.points, rtol=1e-14)
    back = cube.inverse_transform(whole).points
    assert_allclose(back, np.clip(points, cube.low_, cube.high_), atol=1e-10)
    linear = UnitCube(margin=0).fit([points])
    assert_array_equal(linear.low_, points.min(axis=0))
    assert_array_equal(linear.high_, points.max(axis=0))


@every_map
def test_a_bag_is_mapped_alone_and_point_order_is_irrelevant(kind):
    bags = make_bags()
    cube = UnitCube(map=kind).fit(bags)
    whole = cube.transform(bags)
    for i in range(bags.n_bags):
        assert_allclose(cube.transform(bags[[i]]).points, whole[i], rtol=1e-14)
    shuffled = Bags(bags.points[::-1], bags.offsets[-1] - bags.offsets[::-1])
    assert_allclose(UnitCube(map=kind).fit(shuffled).transform(bags).points, whole.points, rtol=1e-14)


# ------------------------------------------------------------------------------------------------------------
# Learners: units never matter
# ------------------------------------------------------------------------------------------------------------


def test_scalers_of_embeddings():
    cube, plain = de.HDDEmbedding(), de.MomentEmbedding()
    wrapped = [
        cube,
        de.Marginals(cube),
        de.BlockAverage(cube),
        de.BlockAverage(de.Marginals(cube)),
        make_union(plain, cube),
    ]
    assert all(repr(scaler_for(each)) == "UnitCube(map='auto')" for each in [*wrapped, make_pipeline(cube, PCA())])
    others = [plain, de.Marginals(plain), make_pipeline(plain, PCA()), BagMeans()]
    assert all(isinstance(scaler_for(each), Standardize) for each in others)
    assert scaler_for(make_pipeline(UnitCube((0, 255)), cube)) is None
    assert scaler_for(de.Marginals(make_pipeline(UnitCube(), cube))) is None


UNITS = 10.0 ** np.array([-6, 0, 6])
OFFSETS = np.array([3.0, -100.0, 0.5])
# Two columns for what smooths in the cube, three for what takes any.
EMBEDDINGS = {
    **{name: name for name in de.embeddings.available()},
    "marginals": de.Marginals(de.HDDEmbedding("hellinger", n_basis=4)),
    "marginals of means": de.Marginals(de.MeanEmbedding(20, random_state=0)),
    "blocks": de.BlockAverage(de.HDDEmbedding("js", n_basis=4), 10, random_state=0),
}


@pytest.mark.filterwarnings("ignore")  # of few points, which have nothing to do with units
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_predictions_do_not_depend_on_units(name):
    rng = np.random.default_rng(5)
    width = np.exp(rng.normal(0, 0.3, 40))
    place = rng.normal(size=(40, 1, 3))
    y = width + 0.1 * place[:, 0, 2]  # some embeddings see the spread alone, others the place
    bags = width[:, None, None] * rng.normal(size=(40, 25, 3)) + place
    bags[..., 2] = np.exp(2 * bags[..., 2])
    kept = 2 if scaler_for(as_embedding(name)).__class__ is UnitCube else 3
    bags, units, offsets = bags[..., -kept:], UNITS[-kept:], OFFSETS[-kept:]

    def predicted(points):
        model = de.DistributionRegressor(EMBEDDINGS[name], n_components=50, tune=2, random_state=0)
        return model.fit(points[:30], y[:30]).predict(points[30:])

    wanted = predicted(bags)
    assert wanted.std() > 1e-3
    assert_allclose(predicted(bags * units), wanted, rtol=0, atol=1e-6)
    assert_allclose(predicted((bags + offsets) * units[::-1]), wanted, rtol=0, atol=1e-6)


def as_embedding(name):
    return de.embeddings.get(name) if isinstance(EMBEDDINGS[name], str) else EMBEDDINGS[name]


def test_categories_reach_embeddings_of_numbers(pupils):
    bags = de.concat([pupils] * 10)
    y = np.tile([0.0, 1.0], 10)
    model = de.DistributionRegressor("mean", n_components=None, tune=None).fit(bags, y)
    assert isinstance(model.scaler_, Standardize)
    assert model.embedding_.n_features_in_ == 5


def test_explicit_scalers_stay():
    bags, y = np.random.default_rng(0).uniform(size=(20, 15, 2)), np.arange(20.0)
    for scale in (None, UnitCube(), UnitCube((0, 1)), Standardize(robust=True)):
        model = de.DistributionRegressor("mean", scale=scale, n_components=None, tune=None).fit(bags, y)
        assert repr(model.scaler_) == repr(scale)


@pytest.mark.filterwarnings("ignore")  # bad maps make peaks that the basis can't hold
def test_the_experiment_of_maps_runs():
    script = runpy.run_path(str(Path(__file__).parents[2] / "experiments" / "column_maps.py"))
    (tails,) = script["table"](12, 100, only=["Cauchy"])
    assert tails[4] > 0.8 > tails[1]


@pytest.mark.parametrize("scaler", [Standardize(), Standardize(robust=True), UnitCube(map="auto")])
def test_scalers_go_through_files(scaler, pupils, tmp_path):
    fitted = clone(scaler).fit(pupils)
    de.save(fitted, tmp_path / "scaler")
    again = de.load(tmp_path / "scaler")
    assert_array_equal(again.transform(pupils).points, fitted.transform(pupils).points)
    assert_array_equal(again.get_feature_names_out(), fitted.get_feature_names_out())
