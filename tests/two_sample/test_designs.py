"""Tests in designs: strata, covariates, several factors, units, equal sizes; beside permutations by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import distembed as de
from distembed.two_sample import factors_test, groups_power, groups_test
from distembed.two_sample.blocks import shuffles
from distembed.two_sample.factors import gower
from distembed.two_sample.whether import with_equal_sizes


def squared(X, Y=None):
    """Squared distances of means: Euclidean, so that sums of squares are those of regressions."""
    a, b = (np.array([bag.mean(axis=0) for bag in B]) for B in (X, X if Y is None else Y))
    return np.sum((a[:, None] - b) ** 2, axis=2)


def make(n=12, seed=0, shift=0.0, site_shift=0.0):
    rng = np.random.default_rng(seed)
    site, group = np.repeat(["a", "b", "c"], n // 3), rng.permutation(np.arange(n) % 2 == 0)
    means = shift * group + site_shift * (site == "b") + rng.normal(0, 0.3, n)
    return [rng.normal(m, 1, size=(20, 2)) for m in means], site, group


def f_by_hand(rows, tested, nuisance):
    """Pseudo-F by two regressions of the features."""
    both = np.hstack([nuisance, tested])
    rest = [np.sum((rows - x @ np.linalg.lstsq(x, rows, rcond=None)[0]) ** 2) for x in (nuisance, both)]
    q = np.linalg.matrix_rank(both) - np.linalg.matrix_rank(nuisance)
    return (rest[0] - rest[1]) / q / (rest[1] / (len(rows) - np.linalg.matrix_rank(both)))


# ------------------------------------------------------------------------------------------------ permutations
def test_all_permutations_of_labels_inside_blocks():
    labels, blocks = np.array([0, 1, 2, 0, 1, 1]), np.array([0, 1, 0, 1, 0, 1])
    found = shuffles(labels, blocks, 99, np.random.default_rng(0))
    expected = set()
    for order in itertools.permutations(range(6)):
        if np.array_equal(blocks[list(order)], blocks):
            expected.add(tuple(labels[list(order)]))
    assert found.exhaustive
    rows = [tuple(labels[order]) for order in found.orders]
    assert rows[0] == tuple(labels)
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert (np.sort(found.orders, axis=1) == np.arange(6)).all()


def test_drawn_permutations_stay_inside_blocks():
    blocks = np.arange(30) % 3
    found = shuffles(None, blocks, 200, np.random.default_rng(0))
    assert not found.exhaustive
    assert (blocks[found.orders] == blocks).all()
    counts = np.bincount(found.orders[1:, 0], minlength=30)[::3]  # who stands first: one of ten, evenly
    assert counts.min() > 5


# ------------------------------------------------------------------------------------------------------ PERMANOVA
def test_statistics_are_those_of_regressions():
    bags, site, group = make(shift=0.5)
    age = np.random.default_rng(1).normal(size=12)
    found = factors_test(bags, {"group": group, "age": age}, squared, covariates={"site": site}, n_permutations=9)
    rows = np.array([bag.mean(axis=0) for bag in bags])
    sites = (site[:, None] == np.unique(site)).astype(float)
    one, two = group[:, None].astype(float), age[:, None]
    assert_allclose(found.statistics[0], f_by_hand(rows, one, np.hstack([sites, two])))
    assert_allclose(found.statistics[1], f_by_hand(rows, two, np.hstack([sites, one])))
    assert found.degrees.tolist() == [1, 1]
    centred = rows - rows.mean(axis=0)
    assert_allclose(np.trace(gower(squared(bags))), np.sum(centred**2))


def test_one_factor_is_a_plain_permutation_by_hand():
    """All splits of eight bags, the sums of squares by loops."""
    bags, _, _ = make(9)
    labels = np.array(list("xxyyyzzzz"))
    d2 = squared(bags)

    def statistic(names):
        n = len(names)
        total = sum(d2[i, j] for i in range(n) for j in range(i)) / n
        inside = 0.0
        for name in set(names):
            of = [i for i in range(n) if names[i] == name]
            inside += sum(d2[i, j] for i in of for j in of if j < i) / len(of)
        return (total - inside) / 2 / (inside / (n - 3))

    every = [statistic(names) for names in set(itertools.permutations(labels.tolist()))]
    expected = np.mean(np.array(every) >= statistic(labels.tolist()) * (1 - 1e-9))
    found = factors_test(bags, labels, squared, n_permutations=9999)
    assert found.exhaustive
    assert found.n_permutations + 1 == len(every) == 1260
    assert_allclose(found.pvalues[0], expected)
    assert_allclose(found.statistics[0], statistic(labels.tolist()))


def test_residuals_change_places_as_freedman_and_lane_say():
    bags, _, group = make(shift=0.5)
    age = np.random.default_rng(1).normal(size=12)
    rows = np.array([bag.mean(axis=0) for bag in bags])
    x, z = group[:, None].astype(float), np.column_stack([np.ones(12), age])
    fitted = z @ np.linalg.lstsq(z, rows, rcond=None)[0]
    rng = np.random.default_rng(0)
    null = [f_by_hand(fitted + (rows - fitted)[rng.permutation(12)], x, z) for _ in range(2000)]
    found = factors_test(bags, {"group": group}, squared, covariates={"age": age}, n_permutations=1999, random_state=0)
    assert_allclose(np.quantile(found.nulls[0], [0.25, 0.5, 0.75]), np.quantile(null, [0.25, 0.5, 0.75]), rtol=0.15)


def test_answers_depend_on_contents_and_not_on_order():
    bags, site, group = make(15, shift=0.4)
    found = factors_test(bags, {"g": group}, strata=site, n_permutations=99, random_state=0)
    order = np.random.default_rng(5).permutation(15)
    moved = [bags[i] for i in order]
    again = factors_test(moved, {"g": group[order]}, strata=site[order], n_permutations=99, random_state=0)
    assert_allclose(again.statistics, found.statistics)
    assert again.pvalues == found.pvalues


# --------------------------------------------------------------------------------------------------- two groups
def levels(test, n=200):
    """Share of rejections at .1."""
    return np.mean([test(seed) <= 0.1 for seed in range(n)])


def small(seed, confounded, shift=0.0):
    """Two sites that differ; most bags of x come from one of them."""
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1], 8)
    x = np.isin(np.arange(16), [0, 1, 2, 3, 4, 5, 8, 9] if confounded else [0, 1, 2, 3, 8, 9, 10, 11])
    bags = de.as_bags(
        [rng.normal(2 * s + shift * g + rng.normal(0, 0.3), 1, size=10) for s, g in zip(site, x, strict=True)]
    )
    return bags[x], bags[~x], np.append(site[x], site[~x])


def with_strata(seed, strata=True, **more):
    X, Y, site = small(seed, True, **more)
    given = {"strata": site} if strata else {}
    return groups_test(X, Y, squared, n_permutations=99, random_state=seed, **given).pvalue


def test_strata_keep_the_level_where_sites_differ_and_find_what_is_there():
    assert levels(lambda seed: with_strata(seed, strata=False), 50) > 0.3
    assert 0.05 <= levels(with_strata) <= 0.16
    assert levels(lambda seed: with_strata(seed, shift=0.8), 50) > 0.8


def test_covariates_keep_the_level_where_age_confounds():
    def p(seed, adjust=True, shift=0.0):
        rng = np.random.default_rng(seed)
        group = np.arange(24) % 2
        age = rng.normal(group, 1)
        bags = de.as_bags(
            [rng.normal(a + shift * g + rng.normal(0, 0.3), 1, size=10) for a, g in zip(age, group, strict=True)]
        )
        x = group == 1
        ages = {"covariates": ({"age": age[x]}, {"age": age[~x]})} if adjust else {}
        return groups_test(bags[x], bags[~x], squared, n_permutations=99, random_state=seed, **ages).pvalue

    assert levels(lambda seed: p(seed, adjust=False), 50) > 0.3
    assert 0.05 <= levels(p) <= 0.16
    assert levels(lambda seed: p(seed, shift=1.0), 50) > 0.8


def test_units_count_as_one():
    """Four samples of each of ten patients: forty bags, ten independent ones."""

    def p(seed, units=True):
        rng = np.random.default_rng(seed)
        patient = np.repeat(np.arange(10), 4)
        means = rng.normal(0, 1, 10)[patient]
        bags = de.as_bags([rng.normal(m, 1, size=10) for m in means])
        x = patient < 5
        given = {"units": np.append(patient[x], patient[~x])} if units else {}
        return groups_test(bags[x], bags[~x], squared, n_permutations=99, random_state=seed, **given).pvalue

    assert levels(lambda seed: p(seed, units=False), 50) > 0.3
    assert 0.04 <= levels(p) <= 0.16


def test_repeated_measures_have_patients_for_strata():
    rng = np.random.default_rng(0)
    patient, treated = np.repeat(np.arange(8), 2), np.tile([False, True], 8)
    means = rng.normal(0, 5, 8)[patient] + 0.8 * treated
    bags = [rng.normal(mean, 1, size=(40, 1)) for mean in means]
    plain = factors_test(bags, treated, squared, random_state=0)
    found = factors_test(bags, treated, squared, strata=patient, random_state=0)
    assert plain.pvalues[0] > 0.2
    assert found.pvalues[0] < 0.02
    assert found.exhaustive


def test_sizes_are_matched_and_small_bags_stay_whole():
    rng = np.random.default_rng(0)
    X = de.as_bags([rng.normal(size=(n, 2)) for n in rng.integers(5, 20, 15)])
    Y = de.as_bags([rng.normal(size=(n, 2)) for n in rng.integers(50, 200, 12)])
    x, y = with_equal_sizes("test", X, Y, False, np.random.default_rng(0))
    assert x.sizes.tolist() == X.sizes.tolist()
    assert_allclose(np.quantile(x.sizes, [0, 0.5, 1]), np.quantile(y.sizes, [0, 0.5, 1]), atol=2)
    assert {tuple(each) for each in y[3].tolist()} <= {tuple(each) for each in Y[3].tolist()}
    with pytest.warns(UserWarning, match="match_sizes=True"):
        groups_test(X, Y, "hellinger", n_permutations=99, random_state=0)
    assert groups_test(X, Y, "hellinger", match_sizes=True, n_permutations=99, random_state=0).pvalue > 0.05
    x, y = with_equal_sizes("test", X[:12], Y, True, np.random.default_rng(0))
    assert x.sizes.tolist() == y.sizes.tolist()


# --------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda b: factors_test(b, np.zeros(6)), "'factor' must vary beyond strata"),
        (lambda b: factors_test(b, ["a", "b"]), "factors=...*must have one row per bag, got 2"),
        (lambda b: factors_test(b, np.arange(6.0), strata=[1, 1]), "strata=...*must be of shape"),
        (lambda b: factors_test(b, [1.0, 2, 3, 4, 5, np.nan]), "must have a value for every bag, and 1 are missing"),
        (lambda b: factors_test(b, np.arange(6), units=[0, 0, 1, 1, 2, 2]), "one value of 'factor'"),
        (lambda b: factors_test(b[:2], [0, 1]), "at least 3 bags"),
        (lambda b: factors_test(b, list("abcdef")), "6 bags must outnumber"),
        (lambda b: groups_test(b[:3], b[3:], paired=True, strata=np.zeros(6)), "pass the pairs as strata"),
        (lambda b: groups_test(b[:3], b[3:], strata=([0], [0, 1, 1])), "3 values for X and 3 for Y"),
    ],
)
def test_errors_say_what_is_wrong(call, text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(").replace("...*", r"\.\.\..*")):
        call(de.as_bags(np.random.default_rng(0).normal(size=(6, 5, 2))))


# ---------------------------------------------------------------------------------------------------------- power
def pilot(seed, shift, n=60, size=10):
    rng = np.random.default_rng(seed)
    return (de.as_bags([rng.normal(rng.normal(m, 0.6), 1, size=(size, 1)) for _ in range(n)]) for m in (0.0, shift))


def test_power_of_pilots_is_that_of_studies_in_the_mean():
    found = np.mean([groups_power(*pilot(s, 0.6), squared, n_bags=[10, 20]).power[:, 0] for s in range(20)], axis=0)
    true = []
    for n in (10, 20):
        studies = (groups_test(*pilot(900 + s, 0.6, n), squared, n_permutations=99, random_state=s) for s in range(80))
        true.append(np.mean([each.pvalue <= 0.05 for each in studies]))
    assert_allclose(found, true, atol=0.17)


def test_more_points_help_as_far_as_noise_is_in_the_way():
    noisy = groups_power(*pilot(0, 0.6, size=3), squared, n_bags=[5, 10, 20], points=[1, 10], random_state=0)
    assert 0.3 < noisy.noise < 0.7  # 1/3 of .36 + 1/3
    assert (noisy.power[:, 1] >= noisy.power[:, 0]).all()
    assert (np.diff(noisy.power, axis=0) >= -0.02).all()
    assert "points x 10" in repr(noisy)
    assert noisy.to_frame().shape == (3, 2)
    assert noisy.needed(0.0) == 5
    assert noisy.needed(1.1) is None
    nothing = groups_power(*pilot(0, 0.0, n=200), squared, n_bags=[10], difference=0.0, random_state=0)
    assert_allclose(nothing.power, 0.05, atol=0.02)
    with pytest.raises(ValueError, match="at least 4 bags of at least 2 points"):
        groups_power([[0.0, 1.0]] * 3, [[0.0, 1.0]] * 5)
