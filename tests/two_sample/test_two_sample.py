"""Two-sample tests: statistics to their formulas, p-values to full enumeration, levels, power, and where."""

import itertools
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed import Bags, UnitCube
from distembed.divergences import gaussian, knn, mmd, plugin
from distembed.kernels import symmetrise
from distembed.two_sample import (
    TestResult,
    bags_test,
    groups_test,
    permutations,
    point_statistics,
    which_coordinates,
    which_regions,
)
from distembed.two_sample.answers import p_value, step_down
from distembed.two_sample.permutations import make_generator, pool_bags, pool_points, splits, swaps
from distembed.two_sample.point_statistics import NeighbourLists
from distembed.two_sample.where import clusters, quantile_bins
from exact import mmd as exact_mmd
from exact import neighbour_divergence
from exact import two_sample as exact

NULLS = 400
NAMES = ["mmd", "js", "hellinger", "tv", "chi2", "knn:kl", "knn:renyi:0.9", "knn:l2", "gaussian:skl", "js_entropy"]


def two_bags(n=30, m=40, d=2, shift=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift


def two_groups(n=6, m=7, size=12, shift=0.0, spread=0.5, seed=0):
    """Groups of 1-D bags that have means of their own."""
    rng = np.random.default_rng(seed)
    return [
        [rng.normal(rng.normal(mean, spread), 1, size=size) for _ in range(number)]
        for number, mean in ((n, 0.0), (m, shift))
    ]


def mean_gap(X, Y=None):
    """Squared distance of means."""
    a, b = (np.array([bag.mean(axis=0) for bag in B]) for B in (X, X if Y is None else Y))
    return np.sum((a[:, None] - b) ** 2, axis=2)


def within_sampling_error(rejected, n, least=True, level=0.05):
    """Whether so many rejections of n fit a test of that level: exact binomial bounds of 99.9 %."""
    low, high = binom.ppf([0.0005, 0.9995], n, level)
    return (low if least else 0) <= rejected <= high


# --------------------------------------------------------------------------------------------------------------
# Statistics
# --------------------------------------------------------------------------------------------------------------


def test_statistics_are_the_divergences():
    x, y = two_bags()
    pool = pool_points("test", x, y, make_generator(0))
    pair, sigma = [x, y], np.median(
        [np.linalg.norm(a - b) for a, b in itertools.combinations(np.concatenate([x, y]), 2)]
    )  # fmt: skip
    expected = {
        "mmd": exact_mmd(x, y, sigma),
        "knn:kl": symmetrise(knn(pair))[0, 1],
        "knn:renyi:0.9": symmetrise(knn(pair, divergence="renyi:0.9"))[0, 1],
        "gaussian:skl": gaussian(pair, divergence="skl", reference=pool.example())[0, 1],
    }
    for name, value in expected.items():
        assert bags_test(x, y, name, n_permutations=3, random_state=0).statistic == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", ["js", "tv"])
def test_statistics_of_densities_are_those_of_plugin(name, d):
    x, y = two_bags(d=d)
    pool = pool_points("test", 7 * x, 7 * y, make_generator(0))
    drawn = splits(pool.first, 5, make_generator(1))
    found = point_statistics.point_statistics("test", name, pool, drawn, make_generator(2), None).values
    cube = UnitCube().fit(pool.bags)
    h = de.bandwidth.resolve("distance", cube.transform(pool.example()), ["reflect"] * d)
    for row, value in zip(drawn.rows(slice(0, 6)), found, strict=True):
        pair = cube.transform(pool.both(row[None]))
        assert value == pytest.approx(plugin(pair, distance=name, bandwidth=h.tolist())[0, 1], rel=1e-9)


@pytest.mark.parametrize("sizes", [(30, 40), (3, 25), (2, 2), (5, 5)])
@pytest.mark.parametrize("name", ["kl", "renyi:0.9", "renyi:1.5", "tsallis:0.5", "hellinger"])
def test_lists_of_neighbours_give_what_searches_give(sizes, name):
    points = np.random.default_rng(0).normal(size=(sum(sizes), 2)) * 1e5
    lists = NeighbourLists(points, sizes, name, 4)
    rows = splits(np.arange(sum(sizes)) < sizes[0], 20, make_generator(0)).rows(slice(0, 20))
    for row, value in zip(rows, lists.both_ways(rows), strict=True):
        expected = symmetrise(knn([points[row], points[~row]], divergence=name))[0, 1]
        assert value == pytest.approx(expected, rel=1e-9)


def test_short_lists_are_searched_again(monkeypatch):
    x, y = two_bags()
    whole = bags_test(x, y, "knn:kl", n_permutations=30, random_state=0)
    monkeypatch.setattr("distembed.two_sample.point_statistics._LIST_FAILS", 1e9)  # lists of k points
    short = bags_test(x, y, "knn:kl", n_permutations=30, random_state=0)
    assert_allclose(short.null, whole.null, rtol=1e-9)


def test_long_lists_are_not_made(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(3, 2)), np.random.default_rng(1).normal(size=(600, 2))
    whole = NeighbourLists(np.concatenate([x, y]), (3, 600), "kl", 4)
    monkeypatch.setattr(NeighbourLists, "__init__", None)  # no call
    found = bags_test(x, y, "knn:kl", n_permutations=3, random_state=0)
    observed = np.arange(603) < 3
    assert found.statistic == pytest.approx(whole.both_ways(observed[None])[0], rel=1e-9)


def test_copies_go_the_slow_way():
    x, y = two_bags(n=15, m=15)
    x[1] = y[0] = x[0]
    found = bags_test(x, y, "knn:kl", n_permutations=5, random_state=0)
    assert found.statistic == pytest.approx(symmetrise(knn([x, y]))[0, 1], rel=1e-9)


@pytest.mark.parametrize(
    "embedding",
    [
        de.MeanEmbedding(50, random_state=0),
        de.MeanEmbedding(50, method="spectrum"),
        de.MomentEmbedding("mean", scale=True),
        make_pipeline(UnitCube(), de.L2Embedding(4, method="points")),
    ],
    ids=["features", "spectrum", "mean", "points"],
)
def test_linear_embeddings_are_linear(embedding, monkeypatch):
    x, y = (z + 1e3 for z in two_bags())
    assert point_statistics.is_linear(embedding)
    monkeypatch.setattr(point_statistics, "_FEATURE_VALUES", 800)  # some points at a time
    fast = bags_test(x, y, embedding, n_permutations=50, random_state=0)
    monkeypatch.setattr(point_statistics, "is_linear", lambda embedding: False)
    slow = bags_test(x, y, embedding, n_permutations=50, random_state=0)
    assert_allclose(fast.null, slow.null, rtol=1e-6, atol=1e-9)
    assert (fast.statistic, fast.pvalue) == (pytest.approx(slow.statistic, rel=1e-6), slow.pvalue)


def test_other_embeddings_and_functions_are_compared_pair_by_pair():
    x, y = two_bags(shift=1.0)
    names = {de.SlicedWassersteinEmbedding(20, random_state=0): "SlicedWassersteinEmbedding", mean_gap: "mean_gap"}
    names[make_pipeline(UnitCube(), de.HDDEmbedding(n_basis=4))] = "UnitCube + HDDEmbedding"
    for divergence, name in names.items():
        found = bags_test(x, y, divergence, n_permutations=99, random_state=0)
        assert (found.divergence, found.pvalue) == (name, 0.01)
    assert bags_test(x, y, mean_gap).statistic == pytest.approx(np.sum((x.mean(axis=0) - y.mean(axis=0)) ** 2))


def test_both_directions_of_a_divergence_count():
    def above(X, Y=None):
        means = [np.array([bag.mean() for bag in B]) for B in (X, X if Y is None else Y)]
        return np.maximum(np.subtract.outer(*means), 0)

    x, y = two_bags(d=1)
    gap = abs(x.mean() - y.mean()) / 2
    assert bags_test(x, y, above, n_permutations=9).statistic == pytest.approx(gap)
    assert bags_test(y, x, above, n_permutations=9).statistic == pytest.approx(gap)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_features_take_over_for_many_points(d, monkeypatch):
    x, y = two_bags(60, 50, d)
    exactly = bags_test(x, y, random_state=0)
    monkeypatch.setattr(point_statistics, "MOST_KERNEL_POINTS", 100)
    quickly = bags_test(x, y, random_state=0)
    tolerance = 2e-3 if d < 3 else 0.3
    assert quickly.statistic == pytest.approx(exactly.statistic, rel=tolerance)
    assert np.corrcoef(quickly.null, exactly.null)[0, 1] > 0.95
    assert abs(quickly.pvalue - exactly.pvalue) < 0.01


def test_energy_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(20, 2)) for _ in range(4)], [rng.normal(0.3, 1, size=(20, 2)) for _ in range(6)]
    d2 = symmetrise(knn([*X, *Y]))
    found = groups_test(X, Y, "knn:kl", random_state=0)
    assert found.statistic == pytest.approx(exact.energy_statistic(d2, np.arange(10) < 4), rel=1e-9)
    assert found.exhaustive
    assert found.n_permutations == 209


def test_energy_is_the_squared_distance_of_mean_features_without_noise():
    X, Y = two_groups(30, 20, shift=0.4)
    a, b = (np.array([bag.mean() for bag in group]) for group in (X, Y))
    found = groups_test(X, Y, de.MomentEmbedding("mean"), n_permutations=9)
    unbiased = (a.mean() - b.mean()) ** 2 - a.var(ddof=1) / len(a) - b.var(ddof=1) / len(b)
    assert found.statistic == pytest.approx(unbiased, rel=1e-9)


# --------------------------------------------------------------------------------------------------------------
# Exactness
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(3, 4), (4, 3), (4, 4), (1, 6)])
def test_small_bags_are_enumerated(sizes):
    x, y = two_bags(*sizes, d=2, shift=1.0, seed=2)
    pool = np.concatenate([x, y])
    sigma = np.median([np.linalg.norm(a - b) for a, b in itertools.combinations(pool, 2)])
    values = exact.all_splits(x, y, lambda a, b: exact_mmd(a, b, sigma))
    found = bags_test(x, y)
    assert found.exhaustive
    assert found.n_permutations + 1 == len(values) // (2 if sizes[0] == sizes[1] else 1)
    assert found.pvalue == pytest.approx(exact.share_at_least(values), abs=1e-12)
    repeats = 2 if sizes[0] == sizes[1] else 1
    assert_allclose(np.repeat(np.sort([found.statistic, *found.null]), repeats), np.sort(values), atol=1e-12)


def test_small_bags_are_enumerated_with_neighbours():
    x, y = two_bags(4, 3, d=1, shift=2.0)

    def both(a, b):
        one, other = ((a, b), (b, a))
        return sum(neighbour_divergence(*pair, "kl", k=4) for pair in (one, other)) / 2

    found = bags_test(x, y, "knn:kl")
    assert found.pvalue == pytest.approx(exact.share_at_least(exact.all_splits(x, y, both)), abs=1e-12)


@pytest.mark.parametrize("sizes", [(3, 4), (5, 2), (4, 4)])
def test_small_groups_are_enumerated(sizes):
    X, Y = two_groups(*sizes, shift=1.0)
    d2 = mmd([*X, *Y])
    n = sum(sizes)
    values = [exact.energy_statistic(d2, np.isin(np.arange(n), rows)) for rows in
              itertools.combinations(range(n), sizes[0])]  # fmt: skip
    found = groups_test(X, Y, "mmd")
    assert found.exhaustive
    assert found.pvalue == pytest.approx(exact.share_at_least(values), abs=1e-12)
    assert found.statistic == pytest.approx(values[0], rel=1e-9)


def test_few_pairs_are_enumerated():
    X, Y = two_groups(6, 6, shift=0.5, spread=2.0)
    d2 = mmd([*X, *Y])
    values = exact.all_swaps(6, lambda signs: exact.paired_statistic(d2, signs))
    found = groups_test(X, Y, "mmd", paired=True)
    assert found.exhaustive
    assert found.n_permutations == 31
    assert found.pvalue == pytest.approx(exact.share_at_least(values), abs=1e-12)
    assert_allclose(np.repeat(np.sort([found.statistic, *found.null]), 2), np.sort(values), atol=1e-12)


def test_step_down_is_closed_testing():
    rng = np.random.default_rng(0)
    for _ in range(12):
        values = rng.integers(0, 6, size=(30, 5)).astype(float)  # with many ties
        values[0] += rng.integers(0, 3, size=5)
        assert_allclose(step_down(values), exact.closed_testing_pvalues(values), atol=1e-12)


def test_splits_are_uniform_and_of_the_observed_size():
    observed = np.arange(12) < 5
    drawn = splits(observed, 700, make_generator(0))
    rows = drawn.rows(slice(1, 701))
    assert not drawn.exhaustive
    assert_array_equal(drawn.rows(slice(0, 1))[0], observed)
    assert_array_equal(rows.sum(axis=1), 5)
    assert np.all(np.abs(rows.mean(axis=0) - 5 / 12) < 4.5 * np.sqrt(5 * 7 / 144 / 700))
    pairs = np.corrcoef(rows.T)[np.triu_indices(12, 1)]
    assert abs(pairs.mean() + 1 / 11) < 0.02


@pytest.mark.parametrize(("size", "n", "count"), [(2, 5, 10), (3, 6, 10), (1, 2, 1), (4, 8, 35)])
def test_all_splits_are_there_once(size, n, count):
    observed = np.isin(np.arange(n), np.arange(n)[-size:])
    every = splits(observed, 10**6, make_generator(0))
    rows = every.rows(slice(0, len(every)))
    assert every.exhaustive
    assert len({min(tuple(row), tuple(~row)) if 2 * size == n else tuple(row) for row in rows}) == len(rows) == count
    assert_array_equal(rows[0], observed)  # of halves not the mirror image: differences have a sign


def test_swaps_are_uniform():
    drawn = swaps(20, 500, make_generator(0)).rows(slice(0, 501))
    assert not drawn[0].any()
    assert np.all(np.abs(drawn[1:].mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(500))
    assert len(swaps(5, 15, make_generator(0))) == 16
    assert swaps(5, 15, make_generator(0)).exhaustive
    assert not swaps(6, 15, make_generator(0)).exhaustive
    assert len(swaps(100, 15, make_generator(0))) == 16


def test_chunks_and_threads_do_not_show(monkeypatch):
    x, y = two_bags(20, 25)
    X, Y = two_groups(8, 9)
    tests = [lambda name=name, jobs=None: bags_test(x, y, name, n_permutations=60, random_state=0, n_jobs=jobs)
             for name in ("mmd", "js", "knn:kl", "gaussian:skl", de.MeanEmbedding(20, random_state=0))]  # fmt: skip
    tests.append(lambda jobs=None: groups_test(X, Y, n_permutations=60, random_state=0, n_jobs=jobs))
    whole = [test() for test in tests]
    for test, before in zip(tests, whole, strict=True):
        assert_array_equal(test(jobs=1).null, test(jobs=2).null)
        assert_array_equal(test(jobs=2).null, before.null)
    monkeypatch.setattr(permutations, "_CHUNK_ITEMS", 300)
    for test, before in zip(tests, whole, strict=True):
        assert_allclose(test().null, before.null, rtol=1e-9, atol=1e-12)
        assert test().pvalue == before.pvalue


# --------------------------------------------------------------------------------------------------------------
# Level and power
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_permutations", "d", "rule", "n_nulls"),
    [
        ("mmd", 99, 2, None, NULLS),
        ("knn:kl", 99, 2, None, NULLS),
        ("js", 99, 1, "scott", NULLS),
        ("js", 39, 1, "distance", 120),  # the rule in use, whose search takes longer than the test
        (mean_gap, 19, 2, None, NULLS),
    ],
)
def test_level_of_bags(name, n_permutations, d, rule, n_nulls, monkeypatch):
    monkeypatch.setattr(point_statistics, "BANDWIDTH", rule)
    rng = np.random.default_rng(1)
    draws = (rng.standard_t(3, size=(18, d)) for _ in range(n_nulls))
    p = [bags_test(z[:8], z[8:], name, n_permutations=n_permutations, random_state=i).pvalue
         for i, z in enumerate(draws)]  # fmt: skip
    assert within_sampling_error(np.sum(np.array(p) <= 0.05 + 1e-12), n_nulls)
    assert within_sampling_error(np.sum(np.array(p) <= 0.5 + 1e-12), n_nulls, level=0.5)


@pytest.mark.parametrize(("divergence", "paired"), [("mmd", False), ("gaussian:skl", False), ("mmd", True)])
def test_level_of_groups(divergence, paired):
    rejected = 0
    for seed in range(NULLS):
        X, Y = two_groups(9, 9 if paired else 6, size=6, seed=seed)
        p = groups_test(X, Y, divergence, paired=paired, n_permutations=99, random_state=seed).pvalue
        rejected += p <= 0.05 + 1e-12
    assert within_sampling_error(rejected, NULLS)


ALTERNATIVES = {
    "shift": lambda rng, n: rng.normal(0.6, 1, n),
    "scale": lambda rng, n: rng.normal(0, 2, n),
    "shape": lambda rng, n: rng.choice([-1, 1], n) * 0.95 + rng.normal(0, np.sqrt(1 - 0.95**2), n),
}


@pytest.mark.parametrize(
    ("alternative", "name"),
    [
        ("shift", "mmd"),
        ("shift", "js"),
        ("shift", "gaussian:skl"),
        ("scale", "mmd"),
        ("scale", "js"),
        ("scale", "knn:kl"),
        ("shape", "js"),
        ("shape", "hellinger"),
        ("shape", "knn:kl"),
    ],
)
def test_power(alternative, name):
    found = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=100), ALTERNATIVES[alternative](rng, 100)
        found += bags_test(x, y, name, n_permutations=39, random_state=seed).pvalue <= 0.05
    assert found / 12 > 0.8


def test_power_for_groups():
    found = 0
    for seed in range(12):
        X, Y = two_groups(10, 12, size=40, shift=1.0, seed=seed)
        found += groups_test(X, Y, n_permutations=99, random_state=seed).pvalue <= 0.05
    assert found / 12 > 0.8


@pytest.mark.parametrize("divergence", [de.SlicedWassersteinEmbedding(random_state=0), de.MomentEmbedding("mean")])
def test_pairs_show_a_shift_much_smaller_than_their_spread(divergence):
    found = {True: 0, False: 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        means = rng.normal(0, 4, 12)
        X, Y = ([rng.normal(mean + shift, 1, size=60) for mean in means] for shift in (0.0, 0.5))
        for paired in found:
            p = groups_test(X, Y, divergence, paired=paired, n_permutations=99, random_state=seed).pvalue
            found[paired] += p <= 0.05
    assert found[True] / 12 > 0.8
    assert found[False] / 12 < 0.2


def test_a_smaller_exponent_sees_spread():
    found = {2.0: 0, 1.0: 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, Y = ([rng.normal(rng.normal(0, s), 0.3, size=10) for _ in range(25)] for s in (0.3, 2.0))
        for exponent in found:
            p = groups_test(X, Y, de.MomentEmbedding("mean"), exponent=exponent, n_permutations=99, random_state=seed)
            found[exponent] += p.pvalue <= 0.05
    assert found[1.0] / 12 > 0.8
    assert found[2.0] / 12 < 0.4


# --------------------------------------------------------------------------------------------------------------
# Where
# --------------------------------------------------------------------------------------------------------------


def test_error_over_all_coordinates():
    rng = np.random.default_rng(0)
    mixing = np.eye(4) + 0.6  # coordinates depend on each other
    named = 0
    for i in range(NULLS):
        z = rng.normal(size=(20, 4)) @ mixing
        named += bool(which_coordinates(z[:9], z[9:], "mmd", n_permutations=39, random_state=i).differ())
    assert within_sampling_error(named, NULLS)


def test_error_over_the_other_coordinates_and_power():
    right = wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(25, 4)), rng.normal([0, 0, 1.5, 0], size=(25, 4))
        names = which_coordinates(x, y, "mmd", n_permutations=99, random_state=seed).differ()
        right, wrong = right + ("x2" in names), wrong + bool(set(names) - {"x2"})
    assert right > 80
    assert within_sampling_error(wrong, 100, least=False)


def test_error_over_all_bins():
    rng = np.random.default_rng(0)
    named = 0
    for i in range(NULLS):
        z = rng.normal(size=60)
        named += bool(which_regions(z[:25], z[25:], n_cells=8, n_permutations=99, random_state=i).differ())
    assert within_sampling_error(named, NULLS, least=False)  # counts are tied, so rejections are rarer


def test_error_over_all_clusters_of_groups():
    rng = np.random.default_rng(0)
    named = 0
    for i in range(NULLS // 2):
        bags = rng.normal(size=(11, 6, 2)) + rng.normal(size=(11, 1, 2))
        found = which_regions(bags[:5], bags[5:], n_cells=6, permute="bags", n_permutations=99, random_state=i)
        named += bool(found.differ())
    assert within_sampling_error(named, NULLS // 2, least=False)


def test_the_coordinate_that_differs_is_named():
    rng = np.random.default_rng(0)
    x = Bags.from_arrays([rng.normal(size=(80, 3))], columns=["age", "mass", "height"])
    y = Bags.from_arrays([rng.normal(size=(60, 3)) * [1, 2.5, 1]], columns=["age", "mass", "height"])
    for divergence in ("js", "mmd", "knn:kl", de.SlicedWassersteinEmbedding(1), mean_gap):
        found = which_coordinates(x, y, divergence, n_permutations=99, random_state=0)
        assert found.names == ("age", "mass", "height")
        assert found.sizes == (80, 60)
        assert np.all(found.adjusted >= found.pvalues - 1e-12)
        if divergence is not mean_gap:
            assert found.adjusted[1] == found.adjusted.min() <= 0.05
    one = which_coordinates(x, y, coordinates=["mass"], n_permutations=99, random_state=0)
    assert one.adjusted[0] == one.pvalues[0]
    assert which_coordinates(x, y, coordinates=[1], n_permutations=99, random_state=0).names == ("mass",)


def test_the_coordinate_of_groups_is_named():
    rng = np.random.default_rng(0)
    X = [rng.normal(rng.normal(0, 0.3, 3), 1, size=(30, 3)) for _ in range(10)]
    Y = [rng.normal(rng.normal([0, 0, 1], 0.3), 1, size=(30, 3)) for _ in range(10)]
    found = which_coordinates(X, Y, permute="bags", n_permutations=199, random_state=0)
    assert found.differ() == ["x2"]
    assert found.permuted == "bags"
    alone = groups_test([bag[:, 2] for bag in X], [bag[:, 2] for bag in Y], "js", n_permutations=199, random_state=0)
    assert found.statistics[2] == pytest.approx(alone.statistic, rel=1e-6)
    paired = which_coordinates(X, Y, permute="bags", paired=True, n_permutations=199, random_state=0)
    assert paired.permuted == "pairs"
    assert paired.differ() == ["x2"]


def test_coordinates_are_any_sequence():
    x, y = two_bags()
    for wanted in (["x1"], ("x1",), np.array([1]), np.array(["x1"]), pytest.importorskip("pandas").Index(["x1"])):
        assert which_coordinates(x, y, coordinates=wanted, n_permutations=3, random_state=0).names == ("x1",)
    for wanted in ("x1", 1, {1}, np.array(1), {"x1": 1}):
        with pytest.raises(TypeError, match=r"coordinates=...\): must be a sequence of names or positions, got"):
            which_coordinates(x, y, coordinates=wanted)


def test_a_constant_coordinate_does_not_differ():
    x, y = two_bags(shift=1.0)
    x[:, 1] = y[:, 1] = 3.7
    found = which_coordinates(x, y, "mmd", n_permutations=99, random_state=0)
    assert found.differ() == ["x0"]
    assert found.adjusted[1] == found.pvalues[1] == 1


def test_the_region_that_differs_is_named():
    right = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y = rng.uniform(size=(400, 2)), rng.uniform(size=(500, 2))
        y[:75] = rng.normal([0.8, 0.2], 0.03, size=(75, 2))
        found = which_regions(x, y, n_permutations=99, random_state=seed)
        inside = np.all((found.centre[0] > [0.65, 0.05]) & (found.centre[0] < [0.95, 0.35]))
        right += bool(inside) and found.adjusted[0] <= 0.05 and found.share_x[0] < found.share_y[0]
    assert right / 12 > 0.8


def test_the_region_of_groups_is_named():
    rng = np.random.default_rng(0)

    def bag(extra):
        return np.concatenate([rng.normal(rng.normal(0, 0.2), 1, size=60), rng.normal(2.5, 0.1, size=extra)])

    X, Y = [bag(0) for _ in range(9)], [bag(8) for _ in range(11)]
    for paired in (False, True):
        found = which_regions(X, Y[: 9 if paired else 11], permute="bags", paired=paired, n_cells=10,
                              n_permutations=199, random_state=0)  # fmt: skip
        assert found.low[0] < 2.5 < found.high[0]
        assert found.adjusted[0] <= 0.05
        assert found.z[0] < 0
        assert found.share_y[0] > found.share_x[0]


@pytest.mark.parametrize("d", [1, 3])
def test_regions_are_what_they_say(d):
    x, y = two_bags(70, 50, d)
    found = which_regions(x, y, n_cells=12, n_permutations=19, random_state=0)
    deviations = np.concatenate([x, y]).std(axis=0)
    if d == 1:
        home = [np.array([np.flatnonzero((p >= found.low) & (p <= found.high))[0] for p in z]) for z in (x, y)]
    else:
        gaps = [np.sum(((z[:, None] - found.centre) / deviations) ** 2, axis=2) for z in (x, y)]
        home = [np.argmin(each, axis=1) for each in gaps]
    for i in range(12):
        inside = [part == i for part in home]
        both = np.concatenate([x[inside[0]], y[inside[1]]])
        assert_allclose([part.mean() for part in inside], [found.share_x[i], found.share_y[i]])
        assert found.z[i] == pytest.approx(exact.share_gap(*(part.astype(float) for part in inside)))
        assert_allclose([both.mean(axis=0), both.min(axis=0), both.max(axis=0)],
                        [found.centre[i], found.low[i], found.high[i]])  # fmt: skip
    assert np.all(np.diff(np.abs(found.z)) <= 1e-12)
    assert np.all(np.diff(found.adjusted) >= 0)


@pytest.mark.parametrize("permute", ["points", "bags"])
@pytest.mark.parametrize("seed", range(4))
def test_z_has_the_sign_of_the_difference_when_halves_are_enumerated(permute, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0, 1, size=(4, 15)), rng.normal(1, 1, size=(4, 15))
    x, y = (x[:, 0], y[:, 0]) if permute == "points" else (list(x), list(y))
    found = which_regions(x, y, n_cells=3, permute=permute, random_state=seed)
    assert found.exhaustive
    assert np.any(found.z)
    assert np.all(found.z * (found.share_x - found.share_y) > -1e-12)


def test_shares_of_groups_are_means_over_bags():
    weighted = Bags.from_arrays([[0.0, 1.0, 5.0], [0.0, 6.0]], weights=[[1, 1, 2], [3, 1]])
    other = Bags.from_arrays([[1.0, 7.0], [0.5, 8.0, 9.0, 6.5]])
    found = which_regions(weighted, other, n_cells=2, permute="bags")
    lower = int(np.argmin(found.low[:, 0]))
    edge = found.high[lower, 0] + 1e-9
    assert edge < 5
    shares = [np.average(bag[:, 0] < edge, weights=weighted.weights_of(i)) for i, bag in enumerate(weighted)]
    assert found.share_x[lower] == pytest.approx(np.mean(shares))
    assert found.share_y[lower] == pytest.approx(np.mean([np.mean(bag < edge) for bag in other]))


@pytest.mark.parametrize("n_bins", [2, 7, 16])
def test_bins_have_equal_masses(n_bins):
    rng = np.random.default_rng(0)
    x = rng.normal(size=500) ** 3
    labels = quantile_bins(x, np.ones(500), n_bins)
    counts = np.bincount(labels)
    assert len(counts) == n_bins
    assert np.ptp(counts) <= 4
    assert np.all(np.diff(labels[np.argsort(x)]) >= 0)
    order = rng.permutation(500)
    assert_array_equal(quantile_bins(np.arctan(x[order]), np.ones(500), n_bins), labels[order])
    weighted = quantile_bins(x, np.where(x > 0, 9.0, 1.0), n_bins)
    assert np.all(np.bincount(weighted, np.where(x > 0, 9.0, 1.0)) < 1.2 * 10 * 250 / n_bins)


def test_copies_stay_in_one_cell():
    values = np.repeat([0.0, 1.0, 2.0], [50, 3, 4])
    assert_array_equal(quantile_bins(values, np.ones(57), 10), values)
    assert_array_equal(quantile_bins(np.ones(5), np.ones(5), 4), 0)
    flat = Bags.from_arrays([np.stack([values, values], axis=1)])
    assert len(np.unique(clusters(flat, 10, 0))) == 3
    assert_array_equal(clusters(Bags.from_arrays([np.ones((5, 2))]), 4, 0), 0)


def test_clusters_do_not_depend_on_units():
    points = np.random.default_rng(0).normal(size=(200, 3))
    labels = clusters(Bags.from_arrays([points]), 6, 0)
    assert_array_equal(clusters(Bags.from_arrays([points * [1e-3, 1e9, 1] + 5]), 6, 0), labels)
    assert len(np.unique(labels)) == 6


def test_answers_print_and_become_tables():
    x, y = two_bags(shift=2.0)
    result = bags_test(x, y, n_permutations=199, random_state=0)
    assert str(result) == "p = 0.005 (199 permutations): the bags differ"
    assert "null" not in repr(result)
    assert str(bags_test([1.0, 2.0], [1.5, 2.5])) == "p = 1 (all 3 splits): no sign that the bags differ"
    X, Y = two_groups(5, 5)
    assert str(groups_test(X, Y, "mmd", paired=True)).endswith("(all 16 swaps): no sign that the groups differ")
    coordinates = which_coordinates(x, y, n_permutations=19, random_state=0)
    assert repr(coordinates).splitlines()[:2] == [
        "js by coordinate, 19 permutations of points",
        "coordinate  statistic  p     adjusted p",
    ]
    regions = which_regions(x, y, n_permutations=19, random_state=0)
    assert repr(regions).splitlines()[0] == "16 regions, 19 permutations of points"
    assert repr(regions).splitlines()[-1] == "... 4 more"
    pytest.importorskip("pandas")
    assert list(coordinates.to_frame().index) == ["x0", "x1"]
    assert list(coordinates.to_frame().columns) == ["statistic", "p", "adjusted_p"]
    frame = regions.to_frame()
    assert frame.shape == (16, 10)
    assert_array_equal(frame["adjusted_p"], regions.adjusted)


def test_tables_need_pandas_alone(monkeypatch):
    found = which_coordinates(*two_bags(), n_permutations=9, random_state=0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"CoordinatesResult.to_frame needs pandas: pip install 'distembed\[frames\]'"
    ):
        found.to_frame()


# --------------------------------------------------------------------------------------------------------------
# What must not matter
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", [*NAMES, de.MeanEmbedding(50, random_state=0), de.SlicedWassersteinEmbedding(5)])
def test_order_of_points_and_of_bags_does_not_matter(divergence):
    x, y = two_bags(12, 15, shift=0.4)
    options = {"n_permutations": 39, "random_state": 3}
    if not isinstance(divergence, str):
        divergence.set_params(random_state=0)
    found = bags_test(x, y, divergence, **options)
    shuffled = bags_test(x[::-1], y[np.random.default_rng(0).permutation(15)], divergence, **options)
    swapped = bags_test(y, x, divergence, **options)
    for other in (shuffled, swapped):
        assert other.pvalue == found.pvalue
        assert_allclose(other.null, found.null, rtol=1e-7, atol=1e-12)
        assert other.statistic == pytest.approx(found.statistic, rel=1e-7)
    assert (found.sizes, swapped.sizes) == ((12, 15), (15, 12))


@pytest.mark.parametrize("paired", [False, True])
def test_order_of_bags_in_groups_does_not_matter(paired):
    X, Y = two_groups(40, 40 if paired else 35, size=8, shift=0.3)  # more than bandwidths look at
    options = {"n_permutations": 99, "random_state": 3, "paired": paired}
    found = groups_test(X, Y, **options)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    other = order if paired else rng.permutation(len(Y))
    shuffled = groups_test([X[i][::-1] for i in order], [rng.permutation(Y[i]) for i in other], **options)
    swapped = groups_test(Y, X, **options)
    for again in (shuffled, swapped):
        assert again.pvalue == found.pvalue
        assert_allclose(again.null, found.null, atol=1e-12)


def test_order_does_not_matter_for_where():
    x, y = two_bags(20, 25)
    found, again = (which_regions(*pair, n_permutations=39, random_state=0) for pair in ((x, y), (y[::-1], x)))
    assert_allclose(found.low, again.low)
    assert_allclose(found.z, -again.z)
    assert_allclose(found.adjusted, again.adjusted)
    found, again = (which_coordinates(*pair, n_permutations=39, random_state=0) for pair in ((x, y), (y[::-1], x)))
    assert_allclose(found.adjusted, again.adjusted)


def test_units_do_not_matter():
    x, y = two_bags()
    for name in ("mmd", "js", "knn:kl"):
        a = bags_test(x, y, name, n_permutations=99, random_state=0)
        b = bags_test(1e-6 * x, 1e-6 * y, name, n_permutations=99, random_state=0)
        assert a.pvalue == b.pvalue
        assert b.statistic == pytest.approx(a.statistic, rel=1e-6)


def test_seeds():
    x, y = two_bags()
    a, b, c = (bags_test(x, y, n_permutations=19, random_state=seed) for seed in (0, np.random.RandomState(0), 1))
    assert_array_equal(a.null, b.null)
    assert not np.array_equal(a.null, c.null)


def test_kinds_of_input():
    x, y = two_bags()
    found = bags_test(x, y, n_permutations=19, random_state=0)
    assert isinstance(found, TestResult)
    for a, b in [
        (Bags.from_arrays([x]), Bags.from_arrays([y], ids=["b"])),
        (x.tolist(), y.tolist()),
        (Bags.from_arrays([x], weights=[np.full(30, 2.0)]), y),
        (Bags.from_arrays([np.append(x, [[9, 9]], axis=0)], weights=[np.append(np.ones(30), 0)]), y),
    ]:
        assert_allclose(bags_test(a, b, n_permutations=19, random_state=0).null, found.null, rtol=1e-9)
    single = bags_test(x.astype(np.float32), y.astype(np.float32), n_permutations=19, random_state=0)
    assert single.statistic == pytest.approx(found.statistic, rel=1e-5)
    before = x.copy()
    bags_test(x, y, "js", n_permutations=9)
    assert_array_equal(x, before)


def test_categories_go_to_embeddings_that_take_them():
    rng = np.random.default_rng(0)

    def bag(share):
        points = np.stack([rng.uniform(size=80), rng.uniform(size=80) < share], axis=1)
        return Bags.from_arrays([points], columns=["age", "sex"], categories={"sex": ["f", "m"]})

    x, y = bag(0.2), bag(0.8)
    embedding = de.HDDEmbedding("hellinger", n_basis=15)
    assert bags_test(x, y, embedding, n_permutations=99, random_state=0).pvalue == 0.01
    for name in ("mmd", "js", "knn:kl"):
        with pytest.raises(ValueError, match=r"bags_test: bags must have continuous columns only, got .*\['sex'\]"):
            bags_test(x, y, name)
    with pytest.raises(ValueError, match=r"which_regions: bags must have continuous columns only"):
        which_regions(x, y)


# --------------------------------------------------------------------------------------------------------------
# Edges
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", [*NAMES, de.MeanEmbedding(20), de.MomentEmbedding("deviation"), mean_gap])
@pytest.mark.parametrize("d", [1, 2])
def test_copies_of_one_point_have_p_one(divergence, d):
    x, y = np.full((9, d), 0.1), np.full((12, d), 0.1)
    found = bags_test(x, y, divergence, n_permutations=30, random_state=0)
    assert found.pvalue == 1


@pytest.mark.parametrize("divergence", ["mmd", "js", "tv", "gaussian:skl", de.MomentEmbedding("mean")])
def test_equal_bags_have_p_one(divergence):
    x = np.random.default_rng(0).choice([0.1, 0.2, 0.7], size=(24, 1))
    assert bags_test(x, x[::-1], divergence, n_permutations=99, random_state=0).pvalue == 1


def test_ties_count_against():
    x, y = np.zeros(10), np.append(np.zeros(9), 1.0)  # each split has the odd one on either side: all are tied
    for name in ("mmd", "js", "gaussian:hellinger"):
        assert bags_test(x, y, name, n_permutations=50, random_state=0).pvalue == 1
    assert p_value(np.array([0.3, 0.1 + 0.2, 0.1])) == pytest.approx(2 / 3)
    same = [[1.0, 2.0]] * 3
    assert groups_test(same, same, "mmd").pvalue == 1
    assert groups_test(same, same, "mmd", paired=True).pvalue == 1
    assert_array_equal(which_regions(np.ones(5), np.ones(7)).adjusted, 1)


def test_bags_of_one_point():
    alone = bags_test([0.0], [1.0])
    assert (alone.pvalue, alone.n_permutations, alone.exhaustive, len(alone.null)) == (1.0, 0, True, 0)
    y = np.random.default_rng(0).normal(size=30)
    for name in ("mmd", "js", de.MomentEmbedding("mean")):
        far, near = bags_test([50.0], y, name), bags_test([float(np.median(y))], y, name)
        assert far.exhaustive
        assert far.n_permutations == 30
        assert far.pvalue == pytest.approx(1 / 31)
        assert near.pvalue > 0.05
    with pytest.raises(ValueError, match=r"at least 2 points"):
        bags_test([50.0], y, "knn:kl")


@pytest.mark.parametrize("embedding", [de.MomentEmbedding("mean"), de.SlicedWassersteinEmbedding(random_state=0)])
@pytest.mark.parametrize("paired", [False, True])
def test_offsets_do_not_matter_for_groups(embedding, paired):
    rng = np.random.default_rng(0)
    x, y = rng.normal(0, 1, size=(5, 20, 2)), rng.normal(0.5, 1, size=(5, 20, 2))
    here = groups_test(x, y, embedding, paired=paired)
    there = groups_test(x + 1e8, y + 1e8, embedding, paired=paired)
    assert there.statistic == pytest.approx(here.statistic, rel=1e-5)
    assert there.pvalue == here.pvalue  # all permutations are there


def test_far_points_are_fine():
    x, y = two_bags()
    x[0] = 1e150
    for name in ("mmd", "js", "knn:kl"):
        assert 0 < bags_test(x, y, name, n_permutations=19, random_state=0).pvalue <= 1


def test_input_is_pooled_without_labels():
    x, y = two_bags(4, 6, d=1)
    pool = pool_points("test", x, y, make_generator(0))
    assert_array_equal(np.sort(pool.bags.points[pool.first], axis=0), np.sort(x, axis=0))
    assert pool.example().sizes.tolist() == [4, 6]
    assert_array_equal(pool_points("test", y, x, make_generator(0)).bags.points, pool.bags.points)
    X, Y = two_groups(4, 4)
    groups = pool_bags("test", X, Y, True, make_generator(0))
    for i, j in groups.pairs:
        a, b = np.sort(groups.bags[i], axis=0), np.sort(groups.bags[j], axis=0)
        at = next(k for k in range(4) if np.array_equal(np.sort(X[k]), a.ravel()))
        assert_array_equal(np.sort(Y[at]), b.ravel())


X2, Y2 = two_bags(6, 7)
GX, GY = two_groups(3, 4)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: bags_test(X2, Y2[:, :1]), ValueError, r"bags_test\(y=...\): must have points of 2 dim.*got 1; p"),
        (lambda: bags_test([np.nan, 1.0], [1.0]), ValueError, r"got nan at bag 0 \(id 'x'\)"),
        (lambda: bags_test([1.0], [np.inf]), ValueError, r"got inf at bag 0 \(id 'y'\)"),
        (lambda: bags_test(Bags.from_arrays(GX), X2), ValueError, r"x=...\): must be a single bag, got 3.*groups_test"),
        (lambda: bags_test(X2, [X2, Y2, X2]), ValueError, r"y=...\): must be a single bag, got 3.*groups_test"),
        (lambda: bags_test(X2, [X2.tolist()] * 3), ValueError, r"y=...\): must be a single bag, got 3.*groups_test"),
        (lambda: bags_test(X2, np.ones((4, 3, 2))), ValueError, r"y=...\): must be a single bag, got 4.*groups_test"),
        (lambda: which_coordinates(X2, Y2, exponent=1), ValueError, r"exponent=...\): must be 2 where points.*'bags'"),
        (
            lambda: bags_test(Bags.from_arrays([X2], weights=[np.arange(1, 7)]), Y2),
            ValueError,
            r"bags_test\(x=...\): points must weigh the same, .*got weights from 1 to 6; leave the weights out",
        ),
        (lambda: bags_test(X2, Y2, n_permutations=0), ValueError, r"n_permutations=...\): must be an int.*got 0; 999"),
        (lambda: bags_test(X2, Y2, n_permutations=9.5), TypeError, r"n_permutations=...\): must be an integer.*9.5"),
        (lambda: bags_test(X2, Y2, n_permutations=True), TypeError, r"n_permutations=...\): must be an integer.*True"),
        (lambda: bags_test(X2, Y2, "kl"), ValueError, r"bags_test\(divergence=...\): must be one of 'js'.*got 'kl'"),
        (lambda: bags_test(X2, Y2, 3), TypeError, r"bags_test\(divergence=...\): must be one of 'js'.*got 3"),
        (lambda: bags_test(np.ones((5, 4)), np.ones((6, 4)), "js"), ValueError, r"'js' must have points of at most 3"),
        (lambda: bags_test(X2, Y2, lambda X: np.zeros((3, 3))), ValueError, r"must return a matrix of shape \(2, 2\)"),
        (lambda: bags_test(X2, Y2, random_state="x"), ValueError, r"cannot be used to seed"),
        (lambda: groups_test(GX, GY[:1]), ValueError, r"Y=...\): must be a group of at least 2 bags, got 1"),
        (lambda: groups_test(GX, GY, paired=True), ValueError, r"paired=True\): .* got 3 and 4 bags; leave out"),
        (lambda: groups_test(GX, GY, paired="yes"), TypeError, r"paired=...\): must be True or False, got 'yes'"),
        (lambda: groups_test(GX, GY, exponent=0), ValueError, r"exponent=...\): must be a number in \(0, 2\], got 0"),
        (lambda: groups_test(GX, [X2, Y2]), ValueError, r"groups_test\(Y=...\): must have points of 1 dimension"),
        (
            lambda: groups_test(
                Bags.from_arrays(GX, ids=["a", "b", "c"]), Bags.from_arrays(GX, ids=["a", "c", "b"]), paired=True
            ),
            ValueError,
            r"bag 1 is 'b' in X and 'c' in Y; give both the same ids in the same order",
        ),
        (lambda: which_coordinates(X2, Y2, permute="rows"), ValueError, r"permute=...\): must be one of 'points', "),
        (lambda: which_coordinates(X2, Y2, paired=True), ValueError, r"paired=...\): must be False where points"),
        (lambda: which_coordinates(X2, Y2, coordinates="x0"), TypeError, r"must be a sequence.*write \['x0'\]"),
        (lambda: which_coordinates(X2, Y2, coordinates=["a"]), ValueError, r"coordinates of x0, x1.*0 to 1, got 'a'"),
        (lambda: which_coordinates(X2, Y2, coordinates=[2]), ValueError, r"positions from 0 to 1, got 2"),
        (lambda: which_coordinates(X2, Y2, coordinates=[0, "x0"]), ValueError, r"at least one coordinate, each once"),
        (lambda: which_coordinates(X2, Y2, coordinates=[]), ValueError, r"at least one coordinate, each once"),
        (lambda: which_regions(X2, Y2, n_cells=1), ValueError, r"must be an integer in \[2, 4096\], got 1"),
        (
            lambda: which_regions(Bags.from_arrays(GX), Bags.from_arrays(GY)),
            ValueError,
            r"which_regions\(x=...\): must be a single bag, got 3 of them.*permute='bags'",
        ),
        (lambda: which_regions(X2, Y2).differ(2), ValueError, r"differ\(alpha=...\): must be a number in \[0, 1\]"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(call, error, text):
    with pytest.raises(error, match=text):
        call()


# --------------------------------------------------------------------------------------------------------------
# Groups whose bags have other sizes
# --------------------------------------------------------------------------------------------------------------


def groups_of_sizes(small, large, n=10, seed=0):
    """Two groups of bags of one density, which differ in the sizes of bags alone."""
    rng = np.random.default_rng(seed)
    return [[rng.normal(size=size) for _ in range(n)] for size in (small, large)]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    "divergence", ["js", "knn:kl", make_pipeline(de.UnitCube(), de.HDDEmbedding("js", n_basis=4)), plugin]
)
def test_sizes_that_differ_between_groups_are_warned_of(divergence, paired):
    X, Y = groups_of_sizes(10, 40)
    if callable(divergence):
        X, Y = ([bag / 20 + 0.5 for bag in group] for group in (X, Y))
    text = (
        r"^groups_test: the bags of one group are smaller than those of the other, and '.*' sees that too, so a small "
        r"p-value may mean no more than this; draw as many points from each bag first, as match_sizes=True of "
        r"groups_test does, put BlockAverage around the "
        r"embedding, or use divergence='mmd' with exponent=2$"
    )
    with pytest.warns(UserWarning, match=text) as seen:
        groups_test(X, Y, divergence, paired=paired, n_permutations=99, random_state=0)
    assert seen[0].filename == __file__


def test_other_tests_of_groups_warn_of_sizes_too():
    X, Y = groups_of_sizes(10, 40)
    with pytest.warns(UserWarning, match="^which_coordinates: the bags of one group are smaller"):
        which_coordinates(X, Y, permute="bags", n_permutations=99, random_state=0)
    with pytest.warns(UserWarning, match="'mmd' sees that too"):  # spreads grow as bags shrink
        groups_test(X, Y, exponent=1, n_permutations=99, random_state=0)
    with pytest.warns(UserWarning, match="smaller than those"):  # all three splits of four bags
        groups_test(X[:2], Y[:2], "js", n_permutations=99, random_state=0)


def test_sizes_that_do_not_matter_are_not_warned_of():
    X, Y = groups_of_sizes(10, 40)
    block = make_pipeline(de.UnitCube(), de.BlockAverage(de.HDDEmbedding("js", n_basis=4)))
    for divergence in ("mmd", de.MomentEmbedding("mean"), block):
        groups_test(X, Y, divergence, n_permutations=9, random_state=0)
    rng = np.random.default_rng(0)
    mixed = [rng.normal(size=size) for size in rng.permutation(np.repeat([10, 20, 40], 8))]
    for order in ([*range(24)], [*range(12, 24), *range(12)]):  # groups of the same sizes, and nearly the same
        groups_test([mixed[i] for i in order[:12]], [mixed[i] for i in order[12:]], "js", n_permutations=99)
    groups_test(*groups_of_sizes(40, 41), "js", n_permutations=9, random_state=0)


def test_level_where_sizes_differ():
    """What the warning speaks of: densities reject too often, means over points and bags cut to one size do not."""
    n_tests = 60
    rejected = {"js": 0, "mmd": 0, "cut": 0}
    for seed in range(n_tests):
        X, Y = groups_of_sizes(10, 60, seed=seed)
        cut = [bag[:10] for bag in Y]
        given = {"n_permutations": 39, "random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rejected["js"] += groups_test(X, Y, "js", **given).pvalue <= 0.05
        rejected["mmd"] += groups_test(X, Y, **given).pvalue <= 0.05
        rejected["cut"] += groups_test(X, cut, "js", **given).pvalue <= 0.05
    assert rejected["js"] > 0.15 * n_tests
    assert rejected["mmd"] <= 0.15 * n_tests
    assert rejected["cut"] <= 0.13 * n_tests  # 5 %, and three deviations


@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_the_default_takes_any_number_of_columns(n_dims):
    rng = np.random.default_rng(0)
    X, Y = ([rng.normal(shift, 1, (20, n_dims)) for _ in range(6)] for shift in (0, 1))
    for found in (groups_test(X, Y, n_permutations=99), bags_test(X[0], Y[0], n_permutations=99)):
        assert found.divergence == "mmd"
        assert found.pvalue <= 0.05


def test_names_of_the_guide_are_taken():
    X, Y = two_groups(4, 4, size=12, shift=1.0)
    names = ["mmd", "js", "hellinger", "tv", "chi2", "knn:kl", "gaussian:skl", "js_entropy"]
    for divergence in [*names, de.embeddings.get("sliced-wasserstein")]:
        assert 0 < groups_test(X, Y, divergence, n_permutations=9).pvalue <= 1
