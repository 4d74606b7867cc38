"""Curved maps of single columns, the quantiles that they are made of, and the rule that chooses a map."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import distembed as de
from distembed.bags import Bags
from distembed.compute.arrays import widen_bounds
from distembed.scaling import UnitCube
from distembed.scaling.curves import (
    BoundedColumn,
    RankCurve,
    choose_map,
    interpolate,
    spread_quantiles,
    weighted_quantile,
)

MAPS = ("linear", "asinh", "rank", "auto")
quick = settings(max_examples=60, deadline=None, derandomize=True)

# Values that meet in ties, in tiny gaps and over many orders of magnitude.
numbers = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 3.0, 1e-300, 1e300]),
    st.floats(-1e6, 1e6, allow_subnormal=False),
)
columns = st.integers(1, 40).flatmap(lambda n: arrays(np.float64, n, elements=numbers))


def test_interpolate_is_np_interp_where_slopes_are_tame():
    rng = np.random.default_rng(0)
    knots, heights = np.sort(rng.normal(size=(2, 20)))
    x = rng.uniform(-4, 4, 500)
    assert_allclose(interpolate(x, knots, heights), np.interp(x, knots, heights), rtol=0, atol=1e-14)


def test_interpolate_survives_gaps_that_overflow_slopes():
    knots, heights = np.array([0.0, 5e-324, 1e-300, 1e308]), np.array([0.0, 0.5, 0.75, 1.0])
    assert_array_equal(interpolate(knots, knots, heights), heights)
    assert_array_equal(interpolate(heights, heights, knots), knots)
    assert interpolate(np.array([0.5e308]), knots, heights) == 0.875


@quick
@given(columns, columns)
def test_interpolate_is_monotone_to_the_last_bit(knots, x):
    knots = np.unique(np.r_[knots, -2e6, 2e6])
    heights = np.linspace(0, 1, len(knots)) ** 3
    assert (np.diff(interpolate(np.sort(x), knots, heights)) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_quantiles_of_equal_weights_follow_hazen(n):
    values = np.random.default_rng(n).normal(size=n).round(1)
    q = np.linspace(0, 1, 21)
    expected = np.quantile(values, q, method="hazen")
    assert_allclose(weighted_quantile(values, q), expected, atol=1e-13)
    assert_allclose(weighted_quantile(values, q, np.full(n, 0.3)), expected, atol=1e-13)


def test_weighted_quantiles_against_a_loop():
    rng = np.random.default_rng(4)
    values, weights, q = rng.normal(size=30), rng.uniform(0.1, 3, 30), rng.uniform(size=50)
    pairs = sorted(zip(values, weights, strict=True))
    total, below, positions = sum(w for _, w in pairs), 0.0, []
    for _, w in pairs:
        positions.append((below + w / 2) / total)
        below += w
    expected = np.interp(q, positions, [v for v, _ in pairs])
    assert_allclose(weighted_quantile(values, q, weights), expected, rtol=1e-12)


def test_weighted_quantiles_ignore_scale_and_weight_zero():
    rng = np.random.default_rng(5)
    values, weights, q = rng.normal(size=40), rng.uniform(0.1, 3, 40), np.linspace(0, 1, 11)
    expected = weighted_quantile(values, q, weights)
    assert_allclose(weighted_quantile(values, q, 1e-9 * weights), expected, rtol=1e-12)
    padded = weighted_quantile(np.r_[-99, values, 99], q, np.r_[0, weights, 0])
    assert_array_equal(padded, expected)


def test_rank_knots_merge_ties_half_way_up_the_jump():
    knots, heights = RankCurve.of(BoundedColumn(np.array([2.0, 5.0, 2.0, 2.0]), None, 0.0, 6.0), 100).knots
    assert_array_equal(knots, [0, 2, 5, 6])
    assert_allclose(heights, [0, 3 / 8, 7 / 8, 1])
    weighted = RankCurve.of(BoundedColumn(np.array([2.0, 5.0]), np.array([1.0, 1.0]), 0.0, 6.0), 100).knots
    assert_allclose(weighted[1], [0, 0.25, 0.75, 1])


def test_rank_knots_respect_weights():
    values, weights = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 0.0, 6.0, 1.0])
    values, weights = np.repeat(values, 100), np.repeat(weights, 100)
    knots, heights = RankCurve.of(BoundedColumn(values, weights, -1.0, 4.0), 1000).knots
    assert_array_equal(knots, [-1, 0, 2, 3, 4])
    assert_allclose(heights, [0, 1 / 16, 1 / 2, 15 / 16, 1], atol=1e-2)


@quick
@given(columns, st.integers(2, 10))
def test_rank_knots_increase_strictly_and_are_few(values, n_quantiles):
    low, high = widen_bounds(values.min(keepdims=True), values.max(keepdims=True), 0.05)
    knots, heights = RankCurve.of(BoundedColumn(values, None, low[0], high[0]), n_quantiles).knots
    assert (np.diff(knots) > 0).all()
    assert (np.diff(heights) >= 0.5 / n_quantiles - 1e-12).all()
    assert len(knots) <= n_quantiles + 2
    assert heights[0] == 0
    assert heights[-1] == 1


# ------------------------------------------------------------------------------------------------------------
# A map for each column
# ------------------------------------------------------------------------------------------------------------


LATENT = np.random.default_rng(0).normal(size=20_000)
OUTLIER = np.where(np.arange(20_000) == 7, 1e3, LATENT)
SHAPES = {
    "uniform": (stats.norm.cdf(LATENT), "linear"),
    "normal": (LATENT, "linear"),
    "counts": (stats.poisson.ppf(stats.norm.cdf(LATENT), 3), "linear"),
    "rare": ((LATENT > 2.5) * 1.0, "linear"),
    "clusters": (np.sign(LATENT) + 0.001 * LATENT, "linear"),
    "constant": (np.full(100, 7.0), "linear"),
    "outlier": (OUTLIER, "asinh"),
    "student": (stats.t.ppf(stats.norm.cdf(LATENT), 3), "asinh"),
    "lognormal": (np.exp(LATENT), "asinh"),
    "heavier": (np.exp(3 * LATENT), "rank"),
    "pareto": (1 / (1 - stats.norm.cdf(LATENT)), "rank"),
    "zeros": (np.where(LATENT < 0.5, 0, np.exp(2 * LATENT)), "rank"),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (1e-6, 0), (1e6, 1e6), (-1, 0), (1e-200, 0), (1e200, 0)])
def test_the_map_fits_the_shape_whatever_the_units(name, factor, offset):
    values, expected = SHAPES[name]
    cube = UnitCube(map="auto").fit([factor * values + offset])
    assert cube.maps_ == (expected,)


def test_columns_have_maps_of_their_own():
    names = ["normal", "lognormal", "pareto"]
    bags = [np.stack([SHAPES[name][0] for name in names], axis=1)]
    cube = UnitCube(map="auto").fit(bags)
    assert cube.maps_ == ("linear", "asinh", "rank")
    assert [(j, curve.name) for j, curve in cube.curves_.items()] == [(1, "asinh"), (2, "rank")]
    assert cube.curves_[1] == UnitCube(map="asinh").fit(bags).curves_[1]
    for j, kind in enumerate(cube.maps_):
        assert_array_equal(cube.transform(bags).points[:, j], UnitCube(map=kind).fit_transform(bags).points[:, j])
    back = cube.inverse_transform(cube.transform(bags))
    assert_allclose(back.points, bags[0], rtol=1e-6, atol=1e-9)


def test_categories_have_no_map():
    codes = np.r_[0, 1, 1, 1.0]
    bags = Bags(np.c_[codes, codes], [0, 4], categories={1: ["f", "m"]})
    for kind in MAPS:
        cube = UnitCube(map=kind).fit(bags)
        assert cube.maps_ == ("linear" if kind == "auto" else kind, "category")
        assert_array_equal(cube.transform(bags).points[:, 1], codes)


def test_one_outlier_is_seen_among_few_points():
    few = np.r_[np.linspace(-1, 1, 30), 1e3]
    assert UnitCube(map="auto").fit([few]).maps_ == ("asinh",)
    assert UnitCube(map="auto").fit([few[:-1]]).maps_ == ("linear",)


def test_auto_map_takes_ranks_where_asinh_overflows():
    values = np.r_[np.linspace(0, 1e-20, 50), 1e300]
    assert UnitCube(map="auto").fit([values]).maps_ == ("rank",)


def test_auto_map_of_weighted_points_is_that_of_copies():
    values, counts = np.random.default_rng(3).standard_cauchy(400), 1 + np.arange(400) % 4
    copies = np.repeat(values, counts)
    weighted = BoundedColumn(values, counts.astype(float), values.min(), values.max())
    assert choose_map(weighted) == choose_map(BoundedColumn(copies, None, values.min(), values.max()))
    probabilities = np.linspace(0, 1, 9)
    assert_allclose(
        spread_quantiles(values, counts.astype(float), probabilities), spread_quantiles(copies, None, probabilities)
    )


def test_spread_quantiles_of_continuous_values_are_quantiles():
    p = np.linspace(0.05, 0.95, 10)
    assert_allclose(spread_quantiles(LATENT, None, p), np.quantile(LATENT, p), atol=0.01)
    counts = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])
    assert_allclose(spread_quantiles(counts, None, np.array([0, 0.25, 0.5, 0.8, 1])), [0, 0.25, 0.5, 1.5, 2])


def test_distances_after_the_auto_map_are_near_the_truth():
    """Bags are functions of Gaussian ones, whose Hellinger distances are known and the same after every function."""
    rng = np.random.default_rng(1)
    mean, deviation = rng.normal(0, 0.6, 20), np.exp(rng.normal(-0.3, 0.25, 20))
    latent = mean[:, None] + deviation[:, None] * rng.normal(size=(20, 300))
    variances = deviation[:, None] ** 2 + deviation**2
    overlap = np.sqrt(2 * np.outer(deviation, deviation) / variances)
    truth = 2 - 2 * overlap * np.exp(-0.25 * (mean[:, None] - mean) ** 2 / variances)
    pairs = np.triu_indices(20, 1)

    def agreement(points, kind):
        cube = UnitCube(map=kind).fit_transform(points[:, :, None])
        rows = de.HDDEmbedding("hellinger", n_basis=20).fit_transform(cube)
        d2 = np.sum((rows[:, None] - rows) ** 2, axis=2)
        return np.corrcoef(d2[pairs], truth[pairs])[0, 1] ** 2

    for shape in (np.sinh, np.exp, lambda z: np.exp(3 * z), lambda z: np.sinh(3 * z)):
        assert agreement(shape(latent), "auto") > 0.93
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the basis can't hold such a peak
        assert agreement(np.exp(3 * latent), "linear") < 0.5


def test_auto_map_with_weights_below_the_digits_of_their_sum():
    points = np.random.default_rng(0).normal(size=(60, 2))
    bags = Bags(points, np.arange(0, 61, 3), weights=np.tile([1e300, 1.0, 0.0], 20))
    assert np.isfinite(UnitCube(map="auto").fit_transform(bags).points).all()


# ------------------------------------------------------------------------------------------------------------
# The logistic map
# ------------------------------------------------------------------------------------------------------------


def activations(seed=0, n_points=999):
    """Two columns of both signs, as outputs of a network in front of its rectifier."""
    rng = np.random.default_rng(seed)
    return rng.normal([-2.0, 0.5], [3.0, 1.0], (n_points, 2))


def test_sigmoid_has_the_three_values_of_the_paper():
    points = activations()
    cube = UnitCube(map="sigmoid").fit([points[:400], points[400:]])
    for j, x in enumerate(points.T):
        anchors = np.array([np.quantile(x[x < 0], 0.1), 0.0, np.quantile(x[x > 0], 0.9)])
        new = np.zeros((3, 2))
        new[:, j] = anchors
        assert_allclose(cube.transform([new]).points[:, j], [0.1, 0.5, 0.9], rtol=1e-12)
        scores = np.where(x < 0, x / -anchors[0], x / anchors[2])  # a line for either sign, the logistic behind it
        assert_allclose(cube.transform([points]).points[:, j], 1 / (1 + 9.0**-scores), rtol=1e-12)


def test_sigmoid_is_the_squashing_of_the_scenes():
    from reproduce.activations import slopes, squash

    points = activations(1)
    positive, negative = np.array([slopes(x) for x in points.T]).T
    assert_allclose(
        UnitCube(map="sigmoid").fit_transform([points]).points, squash(points, positive, negative), atol=1e-6
    )


def test_sigmoid_weights_are_copies_in_the_limit():
    points = activations(2, 4000)
    counts = 1 + np.arange(4000) % 3
    weighted = UnitCube(map="sigmoid").fit(Bags(points, [0, 4000], weights=counts.astype(float)))
    copied = UnitCube(map="sigmoid").fit([np.repeat(points, counts, axis=0)])
    for j in range(2):
        assert_allclose(weighted.curves_[j].positive, copied.curves_[j].positive, rtol=1e-3)
        assert_allclose(weighted.curves_[j].negative, copied.curves_[j].negative, rtol=1e-3)
    equal = UnitCube(map="sigmoid").fit(Bags(points, [0, 4000], weights=np.full(4000, 0.3)))
    assert_allclose(equal.curves_[0].positive, np.quantile(points[points[:, 0] > 0, 0], 0.9), rtol=1e-12)


def test_sigmoid_clips_nothing_and_comes_back():
    points = activations(3)
    cube = UnitCube(map="sigmoid").fit([points])
    new = 3 * activations(4)  # up to three times as far as in training
    unit = cube.transform([new])
    assert cube.clipped_ == 0
    assert 0 < unit.points.min() < unit.points.max() <= 1
    assert_allclose(cube.inverse_transform(unit).points, new, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0, 3.0], (2.8, 2.8)),  # one sign lends its scale to the other
        ([-5.0], (5.0, 5.0)),
        ([0.0, 0.0], (1.0, 1.0)),
        ([-1e300, 0.0, 1e-300], (1e300, 1e-300)),
    ],
)
def test_sigmoid_of_odd_columns(values, expected):
    cube = UnitCube(map="sigmoid").fit([np.array(values)])
    assert_allclose((cube.curves_[0].negative, cube.curves_[0].positive), expected)
    unit = cube.transform([np.array(values)]).points
    assert np.isfinite(unit).all()
    assert_allclose(unit[np.array(values) == 0], 0.5)


def test_sigmoid_keeps_to_given_bounds():
    cube = UnitCube((-1, 2), map="sigmoid").fit([np.linspace(-4, 4, 81)])  # slopes are of the points inside
    assert (cube.low_, cube.high_) == (-1, 2)
    with pytest.warns(UserWarning, match="clipped"):
        unit = cube.transform([np.array([-9.0, 0.0, 9.0])]).points.ravel()
    assert_array_equal(unit, cube.transform([np.array([-1.0, 0.0, 2.0])]).points.ravel())
    assert 0 < unit[0] < 0.5 == unit[1] < unit[2] < 1


@quick
@given(columns, columns)
def test_sigmoid_increases_and_stays_inside(values, fresh):
    cube = UnitCube(map="sigmoid").fit([values])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        unit = cube.transform([np.sort(np.r_[values, fresh])]).points.ravel()
    assert ((unit >= 0) & (unit <= 1)).all()
    assert (np.diff(unit) >= 0).all()


def test_sigmoid_is_stored(tmp_path):
    cube = UnitCube(map="sigmoid").fit([activations()])
    de.save(cube, tmp_path / "cube.distembed")
    again = de.load(tmp_path / "cube.distembed")
    assert again.curves_ == cube.curves_
