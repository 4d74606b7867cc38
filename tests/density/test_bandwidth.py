"""Bandwidth rules against textbook formulas and brute force."""

import numpy as np
import pytest
from scipy import optimize, stats

import exact
from distembed import Bags, HDDEmbedding, as_bags, embeddings
from distembed.density import bandwidth, kde, kde_at
from distembed.density import likelihood as _likelihood
from distembed.density.bandwidth import WIDEST, LeaveOneOut
from distembed.density.likelihood import Draws


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


def loo_log_likelihood(points, h, weights):
    """Brute force: the density of the others at each point."""
    total = 0.0
    for i in range(len(points)):
        others = np.arange(len(points)) != i
        total += weights[i] * np.log(exact.kde(points[others], points[[i]], h, "reflect", weights[others])[0])
    return total / weights.sum()


@pytest.mark.parametrize("n_dims", [1, 2, 3, 4])
def test_likelihood_maximises_the_leave_one_out_likelihood(n_dims):
    rng = np.random.default_rng(0)
    plain = mixtures(2, 60, n_dims)
    weights = rng.uniform(0.5, 2, plain.n_points)
    bags = Bags(plain.points, plain.offsets, weights=weights)
    found = bandwidth.resolve("likelihood", bags, reflect(n_dims))

    def objective(scale):
        h = scale * found
        return np.mean([loo_log_likelihood(p, h, bags.weights_of(i)) for i, p in enumerate(bags)])

    values = [objective(scale) for scale in (0.75, 1.0, 1.33)]
    assert values[1] == max(values)
    # ... and close to the maximum of the parabola through the three.
    assert max(values[0], values[2]) < values[1] - 0.3 * abs(values[0] - values[2])


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_grid_that_resolves_a_bandwidth_tells_its_likelihood(n_dims):
    points = np.clip(np.random.default_rng(0).normal(0.5, 0.15, size=(5, 200, n_dims)), 0, 1)
    bags, boundaries = as_bags(points), ["reflect"] * n_dims
    chosen = Draws(np.random.RandomState(0)).rows(bags, 200)
    for h in (0.06, 0.1, 0.3):
        shape = _likelihood.resolving(np.full(n_dims, h), (160,) * n_dims)
        found = _likelihood.GridLikelihood(bags, boundaries, shape, chosen)(np.full(n_dims, h))
        direct = _likelihood.DirectLikelihood(bags, boundaries, Draws(np.random.RandomState(0)))
        assert max(shape) < 160
        assert found == pytest.approx(direct(np.full(n_dims, h)), abs=1e-3)


def test_likelihood_follows_boundaries():
    rng = np.random.default_rng(0)
    uniform = Bags.from_arrays([rng.uniform(size=500) for _ in range(4)])
    wide, narrow = (bandwidth.resolve("likelihood", uniform, [b])[0] for b in ("periodic", "none"))
    assert wide > 2 * narrow  # a uniform density wants all the smoothing that it can get, unless it leaks


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
    bags = mixtures(200, 5)
    seen = []
    original = bandwidth.likelihood
    monkeypatch.setattr(bandwidth, "likelihood", lambda b, *rest: seen.append(b.n_bags) or original(b, *rest))
    bandwidth.resolve("distance", bags, reflect(2))
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


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
def test_leave_one_out_products_are_brute_force(boundary):
    bags = mixtures(2, 12, 3)
    h = np.array([0.1, 0.3, WIDEST])
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, size=(2, 12))
    state = LeaveOneOut(Bags.from_arrays(list(bags), weights=list(weights)), [boundary] * 3)
    for j in (0, 1):
        state.move(j, h[j])
    want = [
        np.log(exact.kde(np.delete(x, i, 0), x[[i]], h, boundary, np.delete(w, i))[0])
        for x, w in zip(bags, weights, strict=True)
        for i in range(12)
    ]
    np.testing.assert_allclose(state.log_density(None), want, atol=0.02)
    ratio = state.ratio(2, 0.2)
    mean, error = state.gain(ratio, state.log_density(None))
    gains = state.log_density(ratio) - state.log_density(None)
    assert mean == pytest.approx(state.share @ gains, rel=1e-6)
    assert error > 0


def test_greedy_leaves_uniform_bags_uniform_and_takes_narrow_ones():
    rng = np.random.default_rng(0)
    uniform = as_bags(rng.uniform(size=(4, 200, 5)))
    np.testing.assert_array_equal(bandwidth.resolve("greedy", uniform, reflect(5)), WIDEST)
    narrow = as_bags(0.5 + 0.0005 * np.clip(rng.normal(size=(4, 150, 2)), -3, 3))
    ratio = bandwidth.resolve("greedy", narrow, reflect(2)) / bandwidth.resolve("scott", narrow, reflect(2))
    assert np.all((ratio > 0.3) & (ratio < 1.6))


def test_likelihood_is_not_misled_by_rounding_in_many_dimensions():
    bags = as_bags(np.random.default_rng(0).uniform(size=(3, 100, 12)))
    assert bandwidth.resolve("likelihood", bags, reflect(12)).min() > 0.2


def test_likelihood_in_many_dimensions_takes_some_points_of_large_bags(monkeypatch):
    monkeypatch.setattr(_likelihood, "_KERNELS", 80)
    bags = mixtures(1, 480, 4)
    weighted = Bags(bags.points, bags.offsets, weights=np.random.default_rng(0).uniform(0.5, 2, bags.n_points))
    seen, without = [], _likelihood.DirectLikelihood._without
    monkeypatch.setattr(
        _likelihood.DirectLikelihood, "_without", lambda self, x, *rest: seen.append(len(x)) or without(self, x, *rest)
    )
    for given in (bags, weighted):
        few = bandwidth.resolve("likelihood", given, reflect(4))
        assert set(seen) == {80}
        with monkeypatch.context() as context:
            context.setattr(_likelihood, "_KERNELS", 10_000)
            everything = bandwidth.resolve("likelihood", given, reflect(4), random_state=np.random.RandomState(0))
        assert set(seen) == {80, 480}
        np.testing.assert_allclose(few, everything, rtol=0.1)
        seen.clear()


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
# Which bags and points: not by their order
# --------------------------------------------------------------------------------------------------------------

SIZES = {
    "equal": lambda rng, n: np.full(n, 25),
    "unequal": lambda rng, n: rng.integers(1, 60, n),
    "few huge": lambda rng, n: np.where(np.arange(n) % 40 == 3, 1500, rng.integers(4, 20, n)),
}


def bags_of_sizes(kind, n_dims, n_bags=120, seed=0):
    """Bags of as many widths as bags: which of them are looked at shows."""
    rng = np.random.default_rng(seed)
    widths = np.exp(rng.normal(np.log(0.06), 0.6, n_bags))
    sizes = SIZES[kind](rng, n_bags)
    return [np.clip(rng.normal(0.5, w, size=(n, n_dims)), 0, 1) for n, w in zip(sizes, widths, strict=True)]


def other_orders(arrays, n_orders=3, weights=None):
    """The same bags in other orders, and their points too."""
    for seed in range(n_orders):
        rng = np.random.default_rng(seed)
        order, rows = rng.permutation(len(arrays)), [rng.permutation(len(points)) for points in arrays]
        own = None if weights is None else [weights[i][rows[i]] for i in order]
        yield Bags.from_arrays([arrays[i][rows[i]] for i in order], weights=own)


def contents(bags):
    """Bags as sorted tuples, to compare whatever the order of their points."""
    weights = bags.shares()
    table = bags.points if weights is None else np.c_[bags.points, np.round(weights, 9)]
    return [sorted(map(tuple, part.tolist())) for part in np.split(table, bags.offsets[1:-1])]


@pytest.mark.parametrize(
    ("rule", "n_dims", "kind", "n_orders"),
    [
        *((rule, 1, "unequal", 2 if rule == "isj" else 4) for rule in bandwidth.RULES),
        *(("scott", 3, kind, 4) for kind in SIZES),
        *(("distance", 2, kind, 1) for kind in ("equal", "few huge")),
        *((rule, 4, "unequal", 1) for rule in ("distance", "greedy")),
    ],
)
def test_order_does_not_matter(rule, n_dims, kind, n_orders):
    arrays = bags_of_sizes(kind, n_dims)
    want = bandwidth.resolve(rule, Bags.from_arrays(arrays), reflect(n_dims))
    for bags in other_orders(arrays, n_orders):
        np.testing.assert_allclose(bandwidth.resolve(rule, bags, reflect(n_dims)), want, rtol=1e-6)


@pytest.mark.parametrize("margins", [False, True])
def test_order_does_not_matter_with_weights_and_by_margins(margins):
    arrays = bags_of_sizes("unequal", 2)
    weights = [np.random.default_rng(i).exponential(size=len(points)) for i, points in enumerate(arrays)]
    want = bandwidth.resolve("distance", Bags.from_arrays(arrays, weights=weights), reflect(2), margins=margins)
    for bags in other_orders(arrays, 1, weights):
        found = bandwidth.resolve("distance", bags, reflect(2), margins=margins)
        np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize(("rule", "n_dims"), [("likelihood", 1), ("distance", 2), ("distance", 4), ("greedy", 4)])
def test_order_does_not_matter_for_few_bags_of_many_points(rule, n_dims, monkeypatch):
    monkeypatch.setattr(_likelihood, "EVALUATED", 40)
    monkeypatch.setattr(_likelihood, "_KERNELS", 60)
    monkeypatch.setattr(bandwidth, "_GREEDY_POINTS", 50)
    rng = np.random.default_rng(0)
    shapes = zip((30, 90, 200, 90), (0.05, 0.1, 0.15, 0.2), strict=True)
    arrays = [np.clip(rng.normal(0.5, width, (n, n_dims)), 0, 1) for n, width in shapes]
    want = bandwidth.resolve(rule, Bags.from_arrays(arrays), reflect(n_dims))
    for bags in other_orders(arrays, 2):
        np.testing.assert_allclose(bandwidth.resolve(rule, bags, reflect(n_dims)), want, rtol=1e-6)


def test_order_does_not_matter_to_an_embedding():
    arrays = bags_of_sizes("unequal", 2)
    want = HDDEmbedding("hellinger").fit(Bags.from_arrays(arrays))
    for bags in other_orders(arrays, 1):
        found = HDDEmbedding("hellinger").fit(bags)
        np.testing.assert_allclose(found.bandwidth_, want.bandwidth_, rtol=1e-6)
        assert found.energy_ == pytest.approx(want.energy_, rel=1e-6)


def ties(kind, seed=0):
    """Bags many of which agree in size and mean."""
    rng = np.random.default_rng(seed)
    if kind == "lattice":
        return list(rng.integers(0, 3, size=(300, 6, 2)) / 2)
    if kind == "float32 lattice":
        return list((rng.integers(0, 4, size=(300, 7, 2)) / 255).astype(np.float32))
    if kind == "centred":
        points = rng.uniform(-0.3, 0.3, size=(300, 9, 2))
        return list(0.5 + points - points.mean(axis=1, keepdims=True))
    if kind == "mirrored":  # equal sums over coordinates, and equal coordinates
        half = rng.uniform(size=(150, 5, 2))
        return [*half, *half[:, :, ::-1]]
    return list(np.repeat(rng.uniform(size=(10, 4, 2)), 30, axis=0))  # copies


@pytest.mark.parametrize("kind", ["lattice", "float32 lattice", "centred", "mirrored", "copies"])
@pytest.mark.parametrize("limit", [1, 7, 32])
def test_ties_do_not_bring_the_order_back(kind, limit):
    arrays = ties(kind)
    want = contents(bandwidth.spaced(Bags.from_arrays(arrays), limit))
    assert len(want) == limit
    for bags in other_orders(arrays, 4):
        assert contents(bandwidth.spaced(bags, limit)) == want


def test_the_bags_looked_at_are_those_at_evenly_spaced_places_of_a_sorted_list():
    arrays = bags_of_sizes("unequal", 3, 500)
    ranked = sorted(arrays, key=lambda points: (len(points), points.mean()))
    want = [ranked[int((i + 0.5) * 500 / 32)] for i in range(32)]
    assert contents(bandwidth.spaced(Bags.from_arrays(arrays))) == contents(Bags.from_arrays(want))


@pytest.mark.parametrize("kind", [*SIZES, "lattice", "centred"])
def test_the_same_bags_are_looked_at_however_they_are_written(kind):
    arrays = bags_of_sizes(kind, 2, 300) if kind in SIZES else ties(kind)
    plain, rng = Bags.from_arrays(arrays, ids=np.arange(300)), np.random.default_rng(0)

    def looked_at(bags):
        return contents(plain[bandwidth.spaced(bags).ids])

    want = looked_at(plain)
    for scale in (np.ones(300), np.full(300, 7.0), np.exp(rng.normal(size=300))):
        weighted = plain.replace(weights=np.repeat(scale, plain.sizes))
        assert looked_at(weighted) == want
    ghosts = [np.r_[points, rng.uniform(size=(3, 2))] for points in arrays]
    presence = [np.r_[np.ones(len(points)), np.zeros(3)] for points in arrays]
    assert looked_at(Bags.from_arrays(ghosts, presence, ids=plain.ids)) == want
    assert looked_at(plain.astype(np.float32)) == want


@pytest.mark.parametrize("limit", [5, 32])
def test_no_more_bags_than_the_limit_are_left_as_they_are(limit):
    bags = Bags.from_arrays(bags_of_sizes("unequal", 2, limit))
    assert bandwidth.spaced(bags, limit) is bags
    assert bandwidth.spaced(bags[:3], limit).n_bags == 3


@pytest.mark.parametrize(("rule", "n_dims"), [("scott", 1), ("scott", 2), ("distance", 1)])
def test_few_bags_stand_for_three_thousand_of_two_sizes(rule, n_dims):
    rng = np.random.default_rng(0)
    # In an order in which a look at evenly spaced positions finds large bags alone.
    large = np.isin(np.arange(3000), np.linspace(0, 2999, 32).round().astype(int)) | (rng.uniform(size=3000) < 0.2)
    widths = rng.uniform(0.09, 0.12, 3000)
    bags = Bags.from_arrays(
        [np.clip(rng.normal(0.5, w, (n, n_dims)), 0, 1) for n, w in zip(np.where(large, 300, 10), widths, strict=True)]
    )
    few = bandwidth.spaced(bags)
    assert abs(np.mean(few.sizes == 300) - large.mean()) <= 1 / 32
    draws = Draws(np.random.RandomState(0))
    everything = bandwidth.RULES[rule](bags, reflect(n_dims), draws)
    found = bandwidth.resolve(rule, bags, reflect(n_dims))
    np.testing.assert_allclose(found, everything, rtol=0.1)
    alone = bandwidth.RULES[rule](few[few.sizes == 300], reflect(n_dims), draws)
    assert np.all(alone < 0.8 * everything)


def test_draws_are_random_subsets_and_all_points_of_small_bags():
    bags = Bags.from_arrays([np.random.default_rng(i).uniform(size=(n, 2)) for i, n in enumerate((5, 400, 20, 400))])
    found = Draws(np.random.RandomState(0)).rows(bags, 20)
    assert [len(np.unique(rows)) for rows in found] == [5, 20, 20, 20]
    for rows, low, high in zip(found, bags.offsets, bags.offsets[1:], strict=False):
        assert low <= rows.min() <= rows.max() < high
    others = Draws(np.random.RandomState(1)).rows(bags, 20)
    assert set(found[1].tolist()) != set(others[1].tolist())
    # Not at regular steps along the line: the gaps of random ranks vary as exponential ones do. Nor at the same ranks.
    first, second = (
        np.sort(np.argsort(np.argsort(_likelihood.on_a_line(bags[i])))[found[i] - bags.offsets[i]]) for i in (1, 3)
    )
    assert np.std(np.diff(first)) > 0.5 * np.mean(np.diff(first))
    assert len(np.intersect1d(first, second)) < 10


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


def test_columns_at_once_in_float32_of_large_bags_and_in_several_batches(monkeypatch):
    monkeypatch.setattr(_likelihood, "EVALUATED", 10)
    monkeypatch.setattr(bandwidth, "EVALUATED", 10)
    columns = columns_of(many_columns(dtype=np.float32))
    want = [bandwidth.resolve("distance", column, ["reflect"])[0] for column in columns]
    for most in (2**20, columns[0].n_points):
        monkeypatch.setattr(bandwidth, "_HELD_POINTS", most)
        np.testing.assert_allclose(bandwidth.for_columns("distance", columns, "reflect"), want, rtol=1e-6)


def test_columns_without_any_spread():
    columns = columns_of(Bags(np.full((6, 2), 0.5), [0, 3, 6]))
    np.testing.assert_allclose(bandwidth.for_columns("likelihood", columns, "reflect"), bandwidth.FALLBACK)
    assert len(bandwidth.for_columns("distance", [], "reflect")) == 0


@pytest.mark.parametrize("seed", range(8))
def test_searches_side_by_side_take_the_steps_of_scipy(seed):
    rng = np.random.default_rng(seed)
    terms, phases = rng.normal(size=4), rng.uniform(0, 6, 4)
    looked, wanted = [], []

    def f(x):
        return float(np.sum(terms * np.cos(np.arange(1, 5) * x + phases)))

    def seen(x):
        wanted.append(float(x))
        return f(x)

    best = optimize.minimize_scalar(seen, bounds=(-1, 2), method="bounded", options={"xatol": 0.003}).x
    search = bandwidth.bounded_search(-1, 2, 0.003)
    looked.append(next(search))
    try:
        while True:
            looked.append(search.send(f(looked[-1])))
    except StopIteration as end:
        assert end.value == pytest.approx(best)  # noqa: PT017
    np.testing.assert_allclose(looked, wanted, rtol=1e-12)


@pytest.mark.parametrize("n", [16, 33])
@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
@pytest.mark.parametrize("h", [0.01, 0.2, 7.0])
def test_kernels_between_bins_are_those_between_their_midpoints(boundary, h, n):
    x = (np.arange(n) + 0.5) / n
    far, i = kde.kernel_of_bins(np.array(h), boundary, n), np.arange(n)
    found = far[np.abs(i[:, None] - i)] + (far[i[:, None] + i + 1] if boundary == "reflect" else 0)
    np.testing.assert_allclose(found, kde.kernel(x[:, None], x, h, boundary), rtol=1e-10, atol=1e-14)


def test_bags_in_order_are_those_that_partitions_find(monkeypatch):
    bags = many_columns(n_bags=200)
    for column in columns_of(bags):
        few = _likelihood.spaced(column)
        with monkeypatch.context() as patch:
            patch.setattr(_likelihood, "_SORTED", 0)
            want = _likelihood.spaced(column)
        np.testing.assert_array_equal(few.sizes, want.sizes)
        assert [sorted(p.ravel()) for p in few] == [sorted(p.ravel()) for p in want]


@pytest.mark.parametrize("name", ["js", "l2"])
def test_a_density_of_thousands_of_dimensions_is_refused_by_arithmetic(name):
    with pytest.raises(ValueError, match=r"at most 500 dimensions for a density, got 2,000; its error"):
        embeddings.get(name).fit(np.full((3, 4, 2_000), 0.5))
