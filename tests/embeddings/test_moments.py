"""Moments of bags, and the D3 descriptor."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist, squareform

from distembed.bags import Bags
from distembed.bags.moments import own_moments, pool
from distembed.embeddings import MomentEmbedding
from distembed.embeddings.moments import directional_total_variation
from exact import moments as exact

KINDS = ("d3", "mean", "deviation", "covariance")


def make_bags(n_bags=12, n_dims=3, low=1, high=40, seed=0, dtype=np.float64, weights=False, columns=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(low, high, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    points = rng.normal(size=(offsets[-1], n_dims)) @ rng.normal(size=(n_dims, n_dims))
    points += np.repeat(rng.normal(size=(n_bags, n_dims)), sizes, axis=0)
    mass = None
    if weights:
        mass = rng.uniform(0.1, 2.0, offsets[-1])
        mass[rng.uniform(size=len(mass)) < 0.2] = 0
        mass[offsets[:-1]] = 1  # no bag may weigh nothing
    return Bags(points.astype(dtype), offsets, mass, columns=columns)


def arrays_of(bags):
    weights = None if bags.weights is None else [bags.weights_of(i) for i in range(bags.n_bags)]
    return list(bags), weights


def weights_of(bags, i):
    return None if bags.weights is None else bags.weights_of(i)


# ------------------------------------------------------------------------------------------------------------
# Against the judge
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n_dims", [1, 3])
def test_every_kind_against_its_formula(n_dims, weights):
    bags = make_bags(n_dims=n_dims, weights=weights)
    means = np.array([exact.bag_mean(bags[i], weights_of(bags, i)) for i in range(bags.n_bags)])
    matrices = np.array([exact.bag_covariance(bags[i], weights_of(bags, i)) for i in range(bags.n_bags)])
    deviations = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    upper = np.triu_indices(n_dims)
    triangle = matrices[:, upper[0], upper[1]] * np.where(upper[0] == upper[1], 1, np.sqrt(2))
    centre, spread = exact.pooled_moments(*arrays_of(bags))
    d3 = np.array([exact.d3(bags[i], centre, spread, weights_of(bags, i)) for i in range(bags.n_bags)])
    wanted = {
        "mean": means,
        "deviation": np.hstack([means, deviations]),
        "covariance": np.hstack([means, triangle]),
        "d3": d3,
    }
    for kind, rows in wanted.items():
        assert_allclose(MomentEmbedding(kind).fit_transform(bags), rows, atol=1e-13, err_msg=kind)
    fitted = MomentEmbedding().fit(bags)
    assert_allclose(fitted.mean_, centre, atol=1e-14)
    assert_allclose(fitted.deviation_, spread, atol=1e-14)


def test_against_numpy():
    bags = make_bags(n_dims=4, low=2)
    rows = MomentEmbedding("covariance").fit_transform(bags)
    for row, points in zip(rows, bags, strict=True):
        matrix = np.cov(points.T, bias=True)
        assert_allclose(row[:4], points.mean(axis=0), atol=1e-14)
        assert_allclose(row[4:], np.where(np.eye(4), 1, np.sqrt(2))[np.triu_indices(4)] * matrix[np.triu_indices(4)])


def test_distances_of_covariances_are_frobenius():
    bags = make_bags(n_dims=5)
    got = squareform(pdist(MomentEmbedding("covariance").fit_transform(bags), "sqeuclidean"))
    for i in range(3):
        for j in range(3, 6):
            gap = exact.bag_covariance(bags[i]) - exact.bag_covariance(bags[j])
            shift = exact.bag_mean(bags[i]) - exact.bag_mean(bags[j])
            assert got[i, j] == pytest.approx(np.linalg.norm(gap, "fro") ** 2 + shift @ shift)


def test_distances_of_deviations_are_those_of_gaussians():
    z = np.random.default_rng(0).normal(size=400)
    z = (z - z.mean()) / z.std()
    a, b = MomentEmbedding("deviation").fit_transform(Bags.from_arrays([z, 3 + 0.5 * z]))
    assert np.sum((a - b) ** 2) == pytest.approx(3**2 + 0.5**2)  # W2^2 of N(0, 1) and N(3, 1/4)


@pytest.mark.parametrize("kind", ["mean", "deviation", "covariance"])
def test_scaled_moments_are_moments_of_standardised_points(kind):
    bags = make_bags(weights=True)
    centre, spread = exact.pooled_moments(*arrays_of(bags))
    standard = Bags((bags.points - centre) / spread, bags.offsets, bags.weights)
    got = MomentEmbedding(kind, scale=True).fit_transform(bags)
    assert_allclose(got, MomentEmbedding(kind).fit_transform(standard), atol=1e-12)


def test_scaling_leaves_a_constant_coordinate_in_its_units():
    train, new = Bags.from_arrays([[[0.0, 7.0], [2.0, 7.0]]]), Bags.from_arrays([[[1.0, 9.0], [1.0, 13.0]]])
    embedding = MomentEmbedding("deviation", scale=True).fit(train)
    assert_allclose(embedding.transform(new), [[0, 4, 0, 2]])


# ------------------------------------------------------------------------------------------------------------
# D3
# ------------------------------------------------------------------------------------------------------------


def test_d3_is_total_variation_for_equal_deviations():
    for mean, deviation in [(1.0, 1.0), (-0.3, 0.2), (5.0, 2.0)]:
        got = directional_total_variation(*map(np.array, (mean, deviation, 0.0, deviation)))
        assert abs(got) == pytest.approx(exact.gaussian_total_variation(mean, deviation, 0.0, deviation), abs=1e-9)
        assert np.sign(got) == np.sign(mean)
    assert directional_total_variation(*map(np.array, (1.0, 1.0, 0.0, 1.0))) == pytest.approx(0.382924923, abs=1e-9)


def test_d3_is_a_lower_bound_of_total_variation():
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(40):
        m, s, m0, s0 = rng.normal(), rng.uniform(0.2, 2), rng.normal(), rng.uniform(0.2, 2)
        got = float(directional_total_variation(*map(np.array, (m - m0, s, m0, s0))))
        assert got == pytest.approx(exact.directional_total_variation(m, s, m0, s0), abs=1e-12)
        gaps.append(exact.gaussian_total_variation(m, s, m0, s0) - abs(got))
    assert min(gaps) > -1e-9
    assert max(gaps) > 0.01  # a bound, not the distance


def test_the_threshold_is_missed_equally_often_and_is_the_best_for_equal_deviations():
    from scipy.stats import norm

    m, s, m0, s0 = 1.3, 0.4, 0.2, 1.1
    t = (m * s0 + m0 * s) / (s + s0)
    assert norm(m, s).cdf(t) == pytest.approx(norm(m0, s0).sf(t))
    thresholds = np.linspace(-3, 4, 2001)
    best = (norm(m, s0).sf(thresholds) - norm(m0, s0).sf(thresholds)).max()
    assert exact.directional_total_variation(m, s0, m0, s0) == pytest.approx(best, abs=1e-6)


def test_d3_does_not_know_units():
    bags = make_bags(weights=True)
    shift, factor = np.array([1e3, -4.0, 0.0]), np.array([1e-3, 1.0, 1e6])
    moved = Bags(bags.points * factor + shift, bags.offsets, bags.weights)
    assert_allclose(MomentEmbedding().fit_transform(moved), MomentEmbedding().fit_transform(bags), atol=1e-9)
    mirrored = Bags(-bags.points, bags.offsets, bags.weights)
    assert_allclose(MomentEmbedding().fit_transform(mirrored), -MomentEmbedding().fit_transform(bags), atol=1e-12)


def test_d3_of_constant_coordinates():
    train = Bags.from_arrays([[[0.1, 0.0]] * 3, [[0.1, 1.0]] * 7])
    embedding = MomentEmbedding().fit(train)
    assert_array_equal(embedding.deviation_[:1], [0.0])
    assert_array_equal(embedding.transform(train)[:, 0], [0, 0])
    assert_array_equal(embedding.transform(Bags.from_arrays([[[0.2, 0.0]], [[-3.0, 0.0]]]))[:, 0], [1, -1])
    assert_array_equal(embedding.transform(train.astype(np.float32))[:, 0], [0, 0])  # 0.1 is another number there
    assert_array_equal(MomentEmbedding().fit(train.astype(np.float32)).transform(train)[:, 0], [0, 0])


def test_pooled_points_count_alike():
    bags = Bags.from_arrays([np.zeros(30), np.ones(10)])
    assert_allclose(MomentEmbedding().fit(bags).mean_, [0.25])
    weighted = Bags(bags.points, bags.offsets, np.r_[np.full(30, 5.0), np.full(10, 1e-3)])
    assert_allclose(MomentEmbedding().fit(weighted).mean_, [0.25])  # only ratios inside a bag matter


def test_a_bag_at_the_training_points_is_near_zero_and_nearer_with_more_points():
    def error(n):
        rng = np.random.default_rng(n)
        bags = Bags.from_arrays(rng.normal(size=(60, n, 2)))
        return np.sqrt(np.mean(MomentEmbedding().fit_transform(bags) ** 2))

    assert error(1600) < 0.4 * error(100)  # 1/4 is the rate


# ------------------------------------------------------------------------------------------------------------
# Precision, memory, threads
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e9), (np.float32, 2.0**14)])
def test_large_offsets_cost_no_digits(dtype, offset):
    rng = np.random.default_rng(0)
    points = np.round(rng.normal(size=(3000, 2)) * 64) / 64  # exact in both, with and without the offset
    plain = Bags(points, [0, 1000, 3000])
    far = Bags((points + offset).astype(dtype), plain.offsets)
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    for kind in ("deviation", "covariance"):
        got, wanted = MomentEmbedding(kind).fit_transform(far), MomentEmbedding(kind).fit_transform(plain)
        assert got.dtype == dtype
        assert_allclose(got[:, 2:], wanted[:, 2:], rtol=tolerance, atol=tolerance)
    got, wanted = MomentEmbedding().fit_transform(far), MomentEmbedding().fit_transform(plain)
    assert_allclose(got, wanted, atol=1e-5 if dtype == np.float64 else 1e-6)  # means are rounded at the offset


@pytest.mark.parametrize(("dtype", "power"), [(np.float64, -565), (np.float64, 600), (np.float32, -100)])
def test_tiny_and_huge_units_change_nothing(dtype, power):
    # A power of two, the same for all coordinates or for the first alone, is exact.
    bags = make_bags(n_bags=90, weights=True).astype(dtype)
    for factors in (np.full(3, 2.0**power), np.array([2.0**power, 1, 1])):
        moved = Bags((bags.points * factors).astype(dtype), bags.offsets, bags.weights)
        assert_array_equal(MomentEmbedding().fit_transform(moved), MomentEmbedding().fit_transform(bags))
        for kind in ("mean", "deviation", "covariance"):
            got = MomentEmbedding(kind, scale=True).fit_transform(moved)
            assert_array_equal(got, MomentEmbedding(kind, scale=True).fit_transform(bags), err_msg=kind)
        got = MomentEmbedding("deviation").fit_transform(moved) / np.r_[factors, factors]
        assert_allclose(got, MomentEmbedding("deviation").fit_transform(bags), rtol=1e-6)


def test_the_smallest_numbers_have_deviations():
    tiny = 2.0**-1074
    bags = Bags.from_arrays([[0.0, 400 * tiny], [200 * tiny, 200 * tiny]])
    assert_array_equal(MomentEmbedding("deviation").fit_transform(bags)[:, 1], [200 * tiny, 0])


def test_covariances_near_the_smallest_float32_keep_their_digits():
    points = np.random.default_rng(0).normal(size=(20_000, 2)).astype(np.float32)
    rows = [MomentEmbedding("covariance").fit_transform([points * np.float32(f)])[0, 2:] for f in (1, 2.0**-60)]
    assert_allclose(rows[1].astype(float) * 2.0**120, rows[0], rtol=1e-6)  # terms of the sums are subnormal


def test_a_long_float32_bag():
    points = np.random.default_rng(0).uniform(size=(300_000, 2)).astype(np.float32)
    row = MomentEmbedding("covariance").fit_transform(Bags(points, [0, len(points)]))[0]
    assert_allclose(row[:2], points.astype(float).mean(axis=0), rtol=1e-6)
    assert_allclose(
        row[2:], np.cov(points.T.astype(float), bias=True)[np.triu_indices(2)] * [1, np.sqrt(2), 1], atol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_and_threads_change_nothing(kind):
    bags = make_bags(n_bags=90, n_dims=5, weights=True)
    whole = MomentEmbedding(kind, scale=True).fit_transform(bags)
    alone, together = (MomentEmbedding(kind, scale=True, n_jobs=n_jobs) for n_jobs in (1, 3))
    alone.chunk_bytes = together.chunk_bytes = 5000
    one = alone.fit_transform(bags)
    assert_array_equal(together.fit_transform(bags), one)
    assert_allclose(one, whole, atol=1e-12)


@pytest.mark.parametrize("kind", ["d3", "covariance"])
def test_memory_does_not_grow_with_bags(kind):
    def peak(n_bags):
        bags = Bags.from_arrays(np.random.default_rng(0).normal(size=(n_bags, 100, 8)).astype(np.float32))
        embedding = MomentEmbedding(kind, n_jobs=1)
        tracemalloc.start()
        rows = embedding.fit_transform(bags)
        used = tracemalloc.get_traced_memory()[1] - rows.nbytes
        tracemalloc.stop()
        return used

    assert peak(3000) < 1.2 * peak(1000)


def test_parts_pool_to_the_whole():
    bags = make_bags()
    means, deviations = own_moments(bags, "deviation")
    total, mean, deviation = pool(bags.sizes, means, deviations)
    assert total == bags.n_points
    assert_allclose(mean, bags.points.mean(axis=0))
    assert_allclose(deviation, bags.points.std(axis=0))


# ------------------------------------------------------------------------------------------------------------
# The estimator
# ------------------------------------------------------------------------------------------------------------


def test_feature_names():
    bags = make_bags(n_dims=2, columns=["a", "b"])
    names = {kind: MomentEmbedding(kind).fit(bags).get_feature_names_out().tolist() for kind in KINDS}
    assert names == {
        "d3": ["d3_a", "d3_b"],
        "mean": ["mean_a", "mean_b"],
        "deviation": ["mean_a", "mean_b", "deviation_a", "deviation_b"],
        "covariance": ["mean_a", "mean_b", "covariance_a*a", "covariance_a*b", "covariance_b*b"],
    }


def test_feature_names_are_unique_where_columns_hold_underscores():
    names = MomentEmbedding("covariance").fit(make_bags(n_dims=4, columns=["a", "a_b", "b", "b_b"]))
    assert len(set(names.get_feature_names_out())) == 14


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("then", KINDS)
def test_a_fitted_embedding_is_what_was_fitted(first, then):
    bags = make_bags()
    for scale in (False, True):
        embedding = MomentEmbedding(first, scale=scale).fit(bags)
        rows, names = embedding.transform(bags), embedding.get_feature_names_out()
        embedding.set_params(kind=then, scale=not scale)
        assert_array_equal(embedding.transform(bags), rows)
        assert_array_equal(embedding.get_feature_names_out(), names)


def test_training_points_are_kept_only_where_they_are_used():
    bags = make_bags()
    embedding = MomentEmbedding().fit(bags)
    assert embedding.mean_.shape == embedding.deviation_.shape == (3,)
    assert not hasattr(embedding.set_params(kind="mean").fit(bags), "mean_")
    assert hasattr(embedding.set_params(scale=True).fit(bags), "mean_")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"kind": "median"}, ValueError, r"MomentEmbedding\(kind=...\): must be one of 'd3', .* got 'median'; choose"),
        ({"kind": 2}, TypeError, r"MomentEmbedding\(kind=...\): must be one of .* got 2"),
        ({"scale": "yes"}, TypeError, r"MomentEmbedding\(scale=...\): must be True or False, got 'yes'; True standard"),
    ],
)
def test_bad_parameters(options, error, text):
    with pytest.raises(error, match=text):
        MomentEmbedding(**options).fit(make_bags())


def test_too_many_features():
    wide = Bags(np.zeros((1, 1413)), [0, 1])
    with pytest.raises(ValueError, match=r"'covariance' of 1,413 dimensions makes 1,000,404 .* use kind='deviation'"):
        MomentEmbedding("covariance").fit(wide)
    assert MomentEmbedding("covariance").fit(Bags(np.zeros((1, 1412)), [0, 1]))._n_features_out == 998_990
    MomentEmbedding("deviation").fit(wide)


@pytest.mark.parametrize(("dtype", "large"), [(np.float64, 1e200), (np.float32, 1e25)])
def test_overflow_is_an_error_with_a_remedy(dtype, large):
    bags = Bags((make_bags().points * large).astype(dtype), make_bags().offsets)
    with pytest.raises(ValueError, match=r"MomentEmbedding: features must be finite, .* divide them by a constant"):
        MomentEmbedding("covariance").fit_transform(bags)
    if dtype == np.float32:
        assert np.isfinite(MomentEmbedding("deviation").fit_transform(bags)).all()


@pytest.mark.parametrize("kind", ["deviation", "covariance", "d3"])
@pytest.mark.parametrize("offset", [2.0**33, 2.0**46])
def test_points_far_from_zero_have_the_features_of_near_ones(kind, offset):
    """Also where bags are cut into pieces that are merged."""
    rng = np.random.default_rng(0)
    far = rng.normal(size=(9_000, 2)) * np.repeat([1.0, 2.0, 3.0], 3_000)[:, None] + offset
    bags, near = (Bags(points, [0, 3_000, 6_000, 9_000]) for points in (far, far - offset))
    columns = slice(None) if kind == "d3" else slice(2, None)  # the means have an offset
    one, two = (MomentEmbedding(kind).fit_transform(each)[:, columns] for each in (bags, near))
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-2 if kind == "d3" and offset > 2.0**40 else 1e-6)
