"""Bandwidth rules against textbook formulas and brute force."""

import numpy as np
import pytest
from scipy import stats

from distembed import Bags, as_bags, embeddings
from distembed.density import bandwidth, kde_at
from distembed.density.likelihood import WIDEST
from distembed.density.subsets import Draws


def mixtures(n_bags=6, n_points=150, n_dims=2, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.2, 0.8, size=(n_bags, 3, n_dims))
    parts = rng.integers(3, size=(n_bags, n_points))
    points = np.take_along_axis(centres, parts[:, :, None], axis=1) + rng.normal(0, 0.05, (n_bags, n_points, n_dims))
    return Bags.from_arrays(list(np.clip(points, 0, 1)))


def reflect(n_dims):
    return ["reflect"] * n_dims


@pytest.mark.parametrize("n_dims", [1, 2, 4])
@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_textbook_rules(n_dims, rule):
    bags = mixtures(n_dims=n_dims)
    factors = [stats.gaussian_kde(points.T, bw_method=rule).factor * points.std(axis=0) for points in bags]
    found = bandwidth.resolve(rule, bags, reflect(n_dims))
    np.testing.assert_allclose(found, np.exp(np.mean(np.log(factors), axis=0)), rtol=1e-10)


def test_distance_undersmooths_likelihood_by_the_derived_power():
    for n_dims in (1, 2, 3):
        bags = mixtures(n_points=100, n_dims=n_dims)
        ratio = bandwidth.resolve("distance", bags, reflect(n_dims)) / bandwidth.resolve(
            "likelihood", bags, reflect(n_dims)
        )
        np.testing.assert_allclose(ratio, 100 ** (1 / (n_dims + 4) - 1 / (n_dims + 2)), rtol=1e-9)


def test_isj_is_near_the_optimum_for_a_normal_and_below_silverman_for_two_modes():
    rng = np.random.default_rng(0)
    normal = rng.normal(0.5, 0.1, 5000)
    optimum = 0.1 * (4 / 3 / 5000) ** 0.2
    assert bandwidth.isj(normal) == pytest.approx(optimum, rel=0.15)
    two = np.concatenate([rng.normal(0.2, 0.02, 2500), rng.normal(0.8, 0.02, 2500)])
    assert bandwidth.isj(two) == pytest.approx(0.02 * (4 / 3 / 2500) ** 0.2, rel=0.25)
    assert bandwidth.isj(two) < 0.2 * two.std() * (4 / 3 / 5000) ** 0.2


def test_isj_counts_weights_and_scales_with_dimension():
    rng = np.random.default_rng(0)
    x = rng.normal(0.5, 0.1, 400)
    assert bandwidth.isj(x, np.full(400, 7.0)) == pytest.approx(bandwidth.isj(x))
    bags = mixtures(n_points=200)
    margins = [[bandwidth.isj(x) for x in points.T] for points in bags]
    want = np.exp(np.mean(np.log(margins), axis=0)) * 200 ** (1 / 5 - 1 / 6)
    np.testing.assert_allclose(bandwidth.resolve("isj", bags, reflect(2)), want, rtol=1e-9)
    assert np.isnan(bandwidth.isj(np.array([0.5, 0.5])))


@pytest.mark.parametrize("rule", bandwidth.RULES)
def test_weights_count_as_copies_do(rule):
    bags = mixtures(3, 80)
    constant = Bags(bags.points, bags.offsets, weights=np.full(bags.n_points, 3.0))
    np.testing.assert_allclose(
        bandwidth.resolve(rule, constant, reflect(2)), bandwidth.resolve(rule, bags, reflect(2)), rtol=0.03
    )


@pytest.mark.parametrize("rule", bandwidth.RULES)
def test_ties_do_not_drive_the_bandwidth_to_zero(rule):
    rng = np.random.default_rng(0)
    lattice = Bags.from_arrays([rng.integers(0, 32, size=(500, 2)) / 31 for _ in range(4)])
    assert np.all(bandwidth.resolve(rule, lattice, reflect(2)) > 0.01)


@pytest.mark.parametrize("rule", bandwidth.RULES)
@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_degenerate_bags_have_a_bandwidth(rule, n_dims):
    one_point = Bags.from_arrays([np.full((1, n_dims), 0.3), np.full((1, n_dims), 0.7)])
    equal = Bags.from_arrays([np.full((5, n_dims), 0.3)])
    constant = Bags.from_arrays([np.c_[np.random.default_rng(0).uniform(size=(20, n_dims - 1)), np.full(20, 0.5)]])
    for bags in (one_point, equal, constant):
        found = bandwidth.resolve(rule, bags, reflect(n_dims))
        assert np.all(np.isfinite(found))
        assert np.all(found > 0)


def test_only_a_limited_number_of_bags_is_looked_at(monkeypatch):
    seen, rule = [], bandwidth.RULES["distance"]
    monkeypatch.setitem(bandwidth.RULES, "distance", lambda b, *rest: seen.append(b.n_bags) or rule(b, *rest))
    bandwidth.resolve("distance", mixtures(200, 5), reflect(2))
    assert seen == [bandwidth.MAX_BAGS]


def test_numbers_are_taken_as_they_are():
    bags = mixtures()
    np.testing.assert_array_equal(bandwidth.resolve(0.1, bags, reflect(2)), [0.1, 0.1])
    np.testing.assert_array_equal(bandwidth.resolve((0.1, 0.2), bags, reflect(2), scale=2.0), [0.2, 0.4])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.1, r"must be positive \(1e-06 at least, the cube has side 1\), got -0.1"),
        (0.0, "must be positive"),
        (float("nan"), "must be positive"),
        ((0.1, 0.2, 0.3), r"one per dimension \(2\), got \(0\.1, 0\.2, 0\.3\); give 2 numbers"),
        ("botev", "or a rule .*'distance'.* got 'botev'"),
    ],
)
def test_bad_bandwidths_are_refused(value, text):
    with pytest.raises(ValueError, match=text):
        bandwidth.resolve(value, mixtures(), reflect(2))


@pytest.mark.parametrize("value", [True, None, {}, ["a", "b"]])
def test_what_is_no_number_is_no_bandwidth(value):
    with pytest.raises(TypeError, match=r"bandwidth: must be a positive number, .* 0\.05 is a usual size"):
        bandwidth.resolve(value, mixtures(), reflect(2))


def test_effective_sizes_and_spreads():
    bags = Bags(np.array([[0.0], [1.0], [0.5]]), [0, 2, 3], weights=[3.0, 1.0, 2.0])
    np.testing.assert_allclose(bandwidth.effective_sizes(bags), [1.6, 1.0])
    np.testing.assert_allclose(bandwidth.spreads(bags).ravel(), [np.sqrt(0.1875), 0.0])


@pytest.mark.parametrize("rule", bandwidth.RULES)
@pytest.mark.parametrize("scale", [1e-300, 1e160])
def test_the_scale_of_weights_does_not_matter(rule, scale):
    bags = mixtures(3, 60)
    weights = np.random.default_rng(0).uniform(0.5, 1, bags.n_points)
    plain, scaled = (Bags(bags.points, bags.offsets, weights=weights * s) for s in (1.0, scale))
    np.testing.assert_allclose(
        bandwidth.resolve(rule, scaled, reflect(2)), bandwidth.resolve(rule, plain, reflect(2)), rtol=1e-6
    )


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("spread", [0.1, 0.02, 0.005, 0.0005])
def test_likelihood_scales_with_the_spread_of_the_bags(n_dims, spread):
    rng = np.random.default_rng(0)
    shapes = rng.normal(size=(4, 150, n_dims))
    centres = rng.uniform(0.4, 0.6, size=(4, 1, n_dims))
    bags = Bags.from_arrays(list(centres + spread * np.clip(shapes, -3, 3)))
    ratio = bandwidth.resolve("likelihood", bags, reflect(n_dims)) / bandwidth.resolve("scott", bags, reflect(n_dims))
    assert np.all((ratio > 0.7) & (ratio < 1.6))


def test_isj_ignores_points_without_weight():
    x = np.random.default_rng(0).normal(0.5, 0.1, 100)
    crowd = np.concatenate([x, np.linspace(0, 1, 900)])
    assert bandwidth.isj(crowd, np.repeat([1.0, 0.0], [100, 900])) == pytest.approx(bandwidth.isj(x))
    assert bandwidth.isj(np.tile(x, 3)) == pytest.approx(bandwidth.isj(x))


# --------------------------------------------------------------------------------------------------------------
# Greedy
# --------------------------------------------------------------------------------------------------------------


def few_of_many(n_dims, n_points=300, n_bags=3, seed=0):
    """Bags that differ from uniform in the first and the fourth of many coordinates."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(n_bags, n_points, n_dims))
    points[:, :, [0, 3]] = rng.beta(6, rng.uniform(3, 12, size=(n_bags, 1, 2)), size=(n_bags, n_points, 2))
    return Bags.from_arrays(list(points))


@pytest.mark.parametrize("n_dims", [10, 20])
def test_greedy_shrinks_what_matters_and_nothing_else(n_dims):
    bags = few_of_many(n_dims)
    found = bandwidth.resolve("greedy", bags, reflect(n_dims))
    relevant = np.isin(np.arange(n_dims), [0, 3])
    assert np.all(found[relevant] < 0.12)
    np.testing.assert_array_equal(found[~relevant], WIDEST)


def test_greedy_bandwidths_make_better_densities_in_many_dimensions():
    truth, rng = stats.beta(6, 4), np.random.default_rng(0)
    points, draws = rng.uniform(size=(3, 300, 10)), rng.uniform(size=(300, 10))
    points[:, :, :2], draws[:, :2] = rng.beta(6, 4, size=(3, 300, 2)), rng.beta(6, 4, size=(300, 2))
    bags, density = as_bags(points), truth.pdf(draws[:, :2]).prod(axis=1)
    error = {}
    for rule in ("greedy", "scott", "likelihood"):
        h = bandwidth.resolve(rule, bags, reflect(10))
        found = kde_at(points[0], draws, h, reflect(10))
        error[rule] = 1 - np.mean(np.sqrt(found / density))  # squared Hellinger distance, by draws from the truth
    assert error["greedy"] < 0.04
    assert error["greedy"] < 0.5 * min(error["scott"], error["likelihood"])


def test_greedy_sees_pairs_whose_margins_are_uniform():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(3, 300, 6))
    points[:, :, 4] = (points[:, :, 1] + 0.5 * rng.integers(2, size=(3, 300)) + rng.normal(0, 0.05, (3, 300))) % 1
    found = bandwidth.resolve("greedy", as_bags(points), reflect(6))
    assert set(np.flatnonzero(found < 1)) == {1, 4}


def test_greedy_leaves_uniform_bags_uniform_and_takes_narrow_ones():
    rng = np.random.default_rng(0)
    uniform = as_bags(rng.uniform(size=(4, 200, 5)))
    np.testing.assert_array_equal(bandwidth.resolve("greedy", uniform, reflect(5)), WIDEST)
    narrow = as_bags(0.5 + 0.0005 * np.clip(rng.normal(size=(4, 150, 2)), -3, 3))
    ratio = bandwidth.resolve("greedy", narrow, reflect(2)) / bandwidth.resolve("scott", narrow, reflect(2))
    assert np.all((ratio > 0.3) & (ratio < 1.6))


def test_rules_look_once_at_bags_of_the_same_values(monkeypatch):
    calls, rule = [], bandwidth.RULES["distance"]
    counted = lambda *arguments: calls.append(1) or rule(*arguments)  # noqa: E731
    monkeypatch.setitem(bandwidth.RULES, "distance", counted)
    bags = mixtures(3, 60, 2)
    first = bandwidth.resolve("distance", bags, reflect(2))
    again = bandwidth.resolve("distance", Bags(bags.points.copy(), bags.offsets), reflect(2), scale=2.0)
    np.testing.assert_array_equal(again, 2 * first)
    assert len(calls) == 1
    weighted = Bags(bags.points, bags.offsets, weights=np.linspace(1, 2, bags.n_points))
    others = (
        bandwidth.resolve("distance", Bags(bags.points * 0.9, bags.offsets), reflect(2)),
        bandwidth.resolve("distance", weighted, reflect(2)),
        bandwidth.resolve("distance", bags, ["periodic", "reflect"]),
        bandwidth.resolve("distance", Bags(bags.points, [0, 70, 120, 180]), reflect(2)),
    )
    assert len(calls) == 5
    assert all(not np.array_equal(first, other) for other in others)


def test_greedy_leaves_constant_coordinates_at_the_fallback():
    points = np.random.default_rng(0).beta(6, 4, size=(3, 200, 3))
    points[:, :, 1] = 0.4
    found = bandwidth.resolve("greedy", as_bags(points), reflect(3))
    assert found[1] == bandwidth.FALLBACK
    np.testing.assert_allclose(found[[0, 2]], bandwidth.resolve("greedy", as_bags(points[:, :, [0, 2]]), reflect(2)))


@pytest.mark.parametrize("rule", bandwidth.RULES)
@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_one_dominating_weight_is_one_point(rule, n_dims):
    rng = np.random.default_rng(0)
    points, weights = rng.beta(3, 5, size=(2, 80, n_dims)), np.ones((2, 80))
    weights[1, 3] = 1e18
    heavy = Bags.from_arrays([points[1]], weights=[weights[1]])
    factor = (4 / (n_dims + 2)) ** (1 / (n_dims + 4)) if rule == "silverman" else 1.0
    np.testing.assert_allclose(bandwidth.resolve(rule, heavy, reflect(n_dims)), factor * bandwidth.FALLBACK)
    both = Bags.from_arrays(list(points), weights=list(weights))
    alone = bandwidth.resolve("scott", both[:1], reflect(n_dims))
    np.testing.assert_allclose(bandwidth.resolve("scott", both, reflect(n_dims)), alone)
    assert bandwidth.resolve(rule, both, reflect(n_dims)).min() > 0.01


# --------------------------------------------------------------------------------------------------------------
# Many columns at once
# --------------------------------------------------------------------------------------------------------------


def many_columns(n_bags=40, seed=0, weights=False, dtype=float):
    """Columns of all kinds: wide, narrow (those are stretched), at a face, with copies, constant."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, n_bags)
    offsets = np.append(0, np.cumsum(sizes))
    n = offsets[-1]
    kinds = [
        rng.uniform(size=n), rng.normal(0.5, 0.02, n), rng.beta(0.5, 3, n), rng.integers(0, 5, n) / 4, np.full(n, 0.3),
        rng.normal(0.7, 1e-4, n), np.round(rng.uniform(size=n), 2),
        rng.integers(0, 2, n) * 0.5 + rng.normal(0.25, 0.05, n),
    ]  # fmt: skip
    points = np.clip(np.column_stack(kinds), 0, 1).astype(dtype)
    return Bags(points, offsets, weights=rng.exponential(size=n) if weights else None)


def columns_of(bags):
    return [bags.replace(points=bags.points[:, [j]].copy()) for j in range(bags.n_dims)]


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("rule", ["scott", "likelihood", "distance"])
def test_columns_at_once_have_the_bandwidths_of_columns_by_themselves(rule, weights, boundary):
    columns = columns_of(many_columns(weights=weights))
    found = bandwidth.for_columns(rule, columns, boundary)
    want = [bandwidth.resolve(rule, column, [boundary])[0] for column in columns]
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_columns_at_once_in_float32_of_large_bags_and_in_several_batches():
    def draws():
        return Draws(np.random.RandomState(0), evaluated=10)

    columns = columns_of(many_columns(dtype=np.float32))
    want = [bandwidth.RULES["distance"](bandwidth.spaced(column), ["reflect"], draws())[0] for column in columns]
    for most in (2**20, columns[0].n_points):
        found = bandwidth.for_columns("distance", columns, "reflect", draws=draws(), most_points=most)
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_columns_without_any_spread():
    columns = columns_of(Bags(np.full((6, 2), 0.5), [0, 3, 6]))
    np.testing.assert_allclose(bandwidth.for_columns("likelihood", columns, "reflect"), bandwidth.FALLBACK)
    assert len(bandwidth.for_columns("distance", [], "reflect")) == 0


@pytest.mark.parametrize("name", ["js", "l2"])
def test_a_density_of_thousands_of_dimensions_is_refused_by_arithmetic(name):
    with pytest.raises(ValueError, match=r"at most 500 dimensions for a density, got 2,000; its error"):
        embeddings.get(name).fit(np.full((3, 4, 2_000), 0.5))
