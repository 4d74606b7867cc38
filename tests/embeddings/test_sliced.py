"""Sliced Wasserstein features."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist, squareform
from scipy.special import ndtri
from scipy.stats import wasserstein_distance

from distembed.bags import Bags
from distembed.embeddings import SlicedWassersteinEmbedding
from distembed.embeddings.sliced import cell_averages, orthonormal_directions, padded_groups
from exact import divergences as exact


def make_bags(n_bags=10, n_dims=3, low=1, high=40, seed=0, weights=False):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(low, high, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    points = 3 * rng.normal(size=(offsets[-1], n_dims))
    points[rng.uniform(size=len(points)) < 0.1] = points[0]  # some are equal
    mass = None
    if weights:
        mass = rng.uniform(0.1, 2.0, offsets[-1])
        mass[rng.uniform(size=len(mass)) < 0.2] = 0
        mass[offsets[:-1]] = 1  # no bag may weigh nothing
    return Bags(points, offsets, mass)


def weights_of(bags, i):
    return None if bags.weights is None else bags.weights_of(i)


def squared_distances(bags, *args, **options):
    return squareform(pdist(SlicedWassersteinEmbedding(*args, **options).fit_transform(bags), "sqeuclidean"))


# ------------------------------------------------------------------------------------------------------------
# The judge itself
# ------------------------------------------------------------------------------------------------------------


def test_groups_waste_little_and_lose_nothing():
    bags = make_bags(n_bags=300, high=1000, weights=True).drop_weightless()
    seen, cells = [], 0
    for group in padded_groups(bags):
        seen += group.bags.tolist()
        cells += group.points.shape[0] * group.points.shape[1]
        assert_allclose(group.shares.sum(axis=1), 1)
        for row, i in enumerate(group.bags):
            n = len(bags[i])
            assert_array_equal(group.points[row, :n], bags[i])
            assert not group.shares[row, n:].any()
    assert sorted(seen) == list(range(300))
    assert cells <= 1.25 * bags.n_points


def test_the_judge_sorts_equal_sizes():
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    assert exact.wasserstein_squared(x, y) == pytest.approx(np.mean((np.sort(x) - np.sort(y)) ** 2))


def test_the_judge_against_repeated_points_and_against_w1():
    rng = np.random.default_rng(1)
    x, y, u, v = rng.normal(size=7), rng.normal(size=5), rng.integers(1, 4, 7), rng.integers(1, 4, 5)
    many_x, many_y = np.repeat(np.repeat(x, u), v.sum()), np.repeat(np.repeat(y, v), u.sum())
    assert exact.wasserstein_squared(x, y, u, v) == pytest.approx(np.mean((np.sort(many_x) - np.sort(many_y)) ** 2))
    assert exact.wasserstein_squared(x, y, u, v) >= wasserstein_distance(x, y, u, v) ** 2  # W1 <= W2


# ------------------------------------------------------------------------------------------------------------
# Against the judge
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(("n_dims", "n_quantiles"), [(1, 1), (1, 7), (3, 20), (2, 64)])
def test_features_are_cell_averages_of_quantile_functions(n_dims, n_quantiles, weights):
    bags = make_bags(n_dims=n_dims, weights=weights)
    embedding = SlicedWassersteinEmbedding(4, n_quantiles=n_quantiles, random_state=0).fit(bags)
    n_projections = len(embedding.directions_)
    rows = embedding.transform(bags).reshape(bags.n_bags, n_projections, n_quantiles)
    for i in range(bags.n_bags):
        for k, direction in enumerate(embedding.directions_):
            wanted = exact.quantile_cells(bags[i] @ direction, n_quantiles, weights_of(bags, i))
            assert_allclose(rows[i, k] * np.sqrt(n_projections * n_quantiles), wanted, atol=1e-12)


def test_sorted_points_of_equal_bags_are_exact_where_n_divides_q():
    bags = Bags.from_arrays(np.random.default_rng(0).normal(size=(5, 12, 2)))
    embedding = SlicedWassersteinEmbedding(6, n_quantiles=24, random_state=0).fit(bags)
    got = squareform(pdist(embedding.transform(bags), "sqeuclidean"))
    for i, j in zip(*np.triu_indices(5, 1), strict=True):
        wanted = exact.sliced_wasserstein_squared(bags[i], bags[j], embedding.directions_)
        assert got[i, j] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("weights", [False, True])
def test_cells_shrink_distances_and_less_the_more_they_are(weights):
    bags = make_bags(n_bags=6, low=5, weights=weights)
    directions = SlicedWassersteinEmbedding(5, random_state=0).fit(bags).directions_
    truth = np.zeros((6, 6))
    for i, j in zip(*np.triu_indices(6, 1), strict=True):
        pair = bags[i], bags[j], directions, weights_of(bags, i), weights_of(bags, j)
        truth[i, j] = truth[j, i] = exact.sliced_wasserstein_squared(*pair)
    before = np.zeros((6, 6))
    for n_quantiles in (1, 4, 16, 64, 512):
        got = squared_distances(bags, 5, n_quantiles=n_quantiles, random_state=0)
        assert (got <= truth + 1e-12).all()
        assert (got >= before - 1e-12).all()  # each cell is cut in pieces
        before = got
    off = ~np.eye(6, dtype=bool)
    assert_allclose(before[off], truth[off], rtol=0.02)


def test_the_loss_of_cells_for_gaussians():
    """The docstring's figures: 1 - sum of squared cell averages of the standard normal quantile function / Q."""
    n = 2**16
    z = ndtri((np.arange(n) + 0.5) / n)
    bags, truth = Bags.from_arrays([z, 2 * z]), exact.wasserstein_squared(z, 2 * z)
    for n_quantiles, loss in [(5, 0.103), (10, 0.041), (20, 0.017), (50, 0.005), (100, 0.002)]:
        got = squared_distances(bags, n_quantiles=n_quantiles)[0, 1]
        assert got / truth == pytest.approx(1 - loss, abs=6e-4)


# ------------------------------------------------------------------------------------------------------------
# Known distances
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_projections", [3, 30])
def test_a_unit_shift_in_three_dimensions_is_a_third(n_projections):
    x = np.random.default_rng(0).normal(size=(17, 3))
    shift = np.array([2, -1, 2]) / 3
    got = squared_distances(Bags.from_arrays([x, x + shift]), n_projections, n_quantiles=5, random_state=0)
    assert got[0, 1] == pytest.approx(1 / 3, rel=1e-12)  # whole blocks of orthogonal directions


def test_a_shift_seen_from_broken_blocks_is_right_on_average():
    x = np.random.default_rng(0).normal(size=(9, 3))
    bags = Bags.from_arrays([x, x + np.array([0, 1, 0])])
    got = [squared_distances(bags, 4, n_quantiles=2, random_state=seed)[0, 1] for seed in range(300)]
    assert np.mean(got) == pytest.approx(1 / 3, abs=0.02)
    assert np.std(got) > 0.01


def test_directions_are_orthonormal_in_blocks_and_uniform():
    theta = orthonormal_directions(10, 4, np.random.RandomState(0))
    for block in (theta[:4], theta[4:8], theta[8:]):
        assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-14)
    many = orthonormal_directions(30_000, 3, np.random.RandomState(0))
    assert_allclose(many.mean(axis=0), 0, atol=0.02)
    assert_allclose(np.mean(many**4, axis=0), 1 / 5, atol=0.01)  # of a uniform direction in three dimensions
    assert_array_equal(orthonormal_directions(3, 1, np.random.RandomState(0)), np.ones((3, 1)))


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 1.0), (0.0, 3.0), (2.0, 0.5)])
def test_gaussians_on_a_line(mean, deviation):
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays([rng.normal(size=40_000), rng.normal(mean, deviation, size=30_000)])
    got = squared_distances(bags, n_quantiles=400)[0, 1]
    assert got == pytest.approx(mean**2 + (1 - deviation) ** 2, rel=0.03)


def test_points_on_a_line_need_one_direction():
    bags = make_bags(n_dims=1)
    few, many = (SlicedWassersteinEmbedding(n, random_state=0).fit(bags) for n in (1, 50))
    assert_array_equal(many.directions_, [[1.0]])
    assert_array_equal(few.transform(bags), many.transform(bags))


def test_bags_of_one_distribution_come_together_as_points_grow():
    def distance(n):
        bags = Bags.from_arrays(np.random.default_rng(n).normal(size=(16, n, 2)))
        return pdist(SlicedWassersteinEmbedding(10, random_state=0).fit_transform(bags), "sqeuclidean").mean()

    assert distance(1600) < 0.12 * distance(100)  # 1/16 is the rate


def test_the_distance_of_gaussians_converges_as_points_grow():
    """SW2^2 of N(0, I) and N(0, 4 I) is 1, of which 20 cells lose 1.7 %."""

    def error(n):
        found = []
        for seed in range(8):
            x, y = np.random.default_rng(seed).normal(size=(2, n, 2))
            got = squared_distances(Bags.from_arrays([x, 2 * y]), 10, random_state=seed)[0, 1]
            found.append(abs(got - (1 - 0.0167)))
        return np.mean(found)

    assert error(3200) < 0.6 * error(200)
    assert error(3200) < 0.05


def test_more_directions_are_better():
    x = np.random.default_rng(0).normal(size=(200, 5))
    bags = Bags.from_arrays([x, x * [3, 1, 1, 1, 1]])

    def spread(n):
        return np.std([squared_distances(bags, n, random_state=seed)[0, 1] for seed in range(20)])

    assert spread(80) < 0.6 * spread(5)


# ------------------------------------------------------------------------------------------------------------
# Bags are distributions
# ------------------------------------------------------------------------------------------------------------


def test_copies_weights_and_one_point():
    x = np.random.default_rng(0).normal(size=(6, 2))
    counts = np.array([1, 2, 3, 1, 4, 2])
    bags = Bags.from_arrays(
        [x, np.repeat(x, 3, axis=0), np.repeat(x, counts, axis=0), x, x[:1], np.repeat(x[:1], 9, axis=0)],
        weights=[np.ones(6), np.ones(18), np.ones(counts.sum()), 0.1 * counts, [5.0], np.ones(9)],
    )
    rows = SlicedWassersteinEmbedding(6, random_state=0).fit_transform(bags)
    assert_allclose(rows[0], rows[1], atol=1e-14)
    assert_allclose(rows[2], rows[3], atol=1e-14)
    assert_allclose(rows[4], rows[5], atol=1e-14)
    plain = SlicedWassersteinEmbedding(6, random_state=0).fit_transform([x, x[:1]])
    assert_allclose(rows[[0, 4]], plain, atol=1e-14)


def test_features_are_linear_in_the_points():
    bags = make_bags(weights=True)
    shift = np.array([1.0, -2.0, 0.5])
    embedding = SlicedWassersteinEmbedding(6, n_quantiles=5, random_state=0).fit(bags)
    moved = embedding.transform(Bags(2 * bags.points + shift, bags.offsets, bags.weights))
    added = np.repeat(embedding.directions_ @ shift, 5) / np.sqrt(30)
    assert_allclose(moved, 2 * embedding.transform(bags) + added, atol=1e-13)


def test_cells_of_sorted_values():
    values = np.array([[[0.0, 1.0, 4.0]], [[2.0, 3.0, 0.0]]])
    got = cell_averages(values, np.array([3, 2]), 3)
    assert_allclose(got[:, 0], [[0, 1, 4], [2, 2.5, 3]])
    shares = np.array([[[0.5, 0.25, 0.25]], [[0.9, 0.1, 0.0]]])
    got = cell_averages(values, np.array([3, 2]), 2, shares)
    assert_allclose(got[:, 0], [[0, 2.5], [2, 2.2]])


# ------------------------------------------------------------------------------------------------------------
# Precision, memory, threads
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e8), (np.float32, 2.0**14)])
@pytest.mark.parametrize("weights", [False, True])
def test_a_large_offset_shifts_and_costs_no_digits(dtype, offset, weights):
    rng = np.random.default_rng(0)
    points = np.round(rng.normal(size=(3000, 1)) * 64) / 64  # exact in both, with and without the offset
    mass = rng.uniform(1, 2, 3000) if weights else None
    plain = Bags(points, [0, 1000, 3000], mass)
    far = Bags((points + offset).astype(dtype), plain.offsets, mass)
    embedding = SlicedWassersteinEmbedding(n_quantiles=16).fit(plain)
    got, wanted = embedding.transform(far), embedding.transform(plain) + offset / 4
    assert got.dtype == dtype
    assert_allclose(got, wanted, rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("far", [1e8, -1e8])
def test_a_far_point_costs_the_others_no_digits_wherever_it_stands(dtype, weights, far):
    a = np.arange(10.0)
    arrays = [[far, *a], [far, *(a + 0.5)], [*a, far], [*(a + 0.5), far], [*a[:4], far, *a[4:]]]
    mass = [np.ones(11)] * 5 if weights else None
    bags = Bags.from_arrays([np.array(x) for x in arrays], mass)
    embedding = SlicedWassersteinEmbedding(n_quantiles=11).fit(bags)
    rows = embedding.transform(bags.astype(dtype))
    assert_array_equal(rows[[2, 3, 4]], rows[[0, 1, 0]])
    wanted = np.stack([exact.quantile_cells(np.array(x), 11) / np.sqrt(11) for x in arrays])
    assert_allclose(rows, wanted, rtol=2 * np.finfo(dtype).eps, atol=1e-7)
    assert np.sum((rows[0] - rows[1]) ** 2) == pytest.approx(0.25 * 10 / 11, rel=1e-5)


@pytest.mark.parametrize("weights", [False, True])
def test_chunks_strips_and_threads_change_nothing(weights):
    bags = make_bags(n_bags=60, high=200, weights=weights)
    whole = SlicedWassersteinEmbedding(random_state=0).fit_transform(bags)
    alone, together = (SlicedWassersteinEmbedding(random_state=0, n_jobs=n_jobs) for n_jobs in (1, 3))
    alone.chunk_bytes = together.chunk_bytes = 2**16
    one = alone.fit_transform(bags)
    assert_array_equal(together.fit_transform(bags), one)
    assert_allclose(one, whole, atol=1e-13)


@pytest.mark.parametrize("weights", [False, True])
def test_memory_does_not_grow_with_bags(weights):
    def peak(n_bags):
        points = np.random.default_rng(0).normal(size=(100 * n_bags, 2)).astype(np.float32)
        bags = Bags(points, np.arange(n_bags + 1) * 100, np.ones(len(points)) if weights else None)
        embedding = SlicedWassersteinEmbedding(10, random_state=0, n_jobs=1).fit(bags)
        tracemalloc.start()
        rows = embedding.transform(bags)
        used = tracemalloc.get_traced_memory()[1] - rows.nbytes
        tracemalloc.stop()
        return used

    assert peak(1600) < 1.2 * peak(400)


def test_one_long_bag_is_cut_by_directions():
    points = np.random.default_rng(0).normal(size=(60_000, 2))
    embedding = SlicedWassersteinEmbedding(50, random_state=0, n_jobs=1).fit([points])
    tracemalloc.start()
    embedding.transform([points])
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 50 * points[:, 0].nbytes  # all projections at once, once


# ------------------------------------------------------------------------------------------------------------
# The estimator
# ------------------------------------------------------------------------------------------------------------


def test_feature_names():
    embedding = SlicedWassersteinEmbedding(2, n_quantiles=2, random_state=0).fit(make_bags())
    assert embedding.get_feature_names_out().tolist() == ["sw_p0_q0", "sw_p0_q1", "sw_p1_q0", "sw_p1_q1"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"n_projections": 0},
            ValueError,
            r"SlicedWassersteinEmbedding\(n_projections=...\): must be an integer .* 0;",
        ),
        (
            {"n_projections": 2.5},
            TypeError,
            r"\(n_projections=...\): must be an integer in \[1, inf\), got 2.5 of type",
        ),
        ({"n_quantiles": -1}, ValueError, r"SlicedWassersteinEmbedding\(n_quantiles=...\): must be an integer .* -1;"),
        ({"n_quantiles": True}, TypeError, r"\(n_quantiles=...\): must be an integer .* got True of type bool"),
        ({"n_quantiles": 20_001}, ValueError, r"50 directions times 20,001 quantiles make 1,000,050 .*; lower n_quant"),
    ],
)
def test_bad_parameters(options, error, text):
    with pytest.raises(error, match=text):
        SlicedWassersteinEmbedding(**options).fit(make_bags())


def test_overflow_is_an_error_with_a_remedy():
    with pytest.raises(ValueError, match=r"SlicedWassersteinEmbedding: features must be finite, .* divide them"):
        SlicedWassersteinEmbedding(3, random_state=0).fit_transform(Bags.from_arrays([[[1e308, 1e308], [-1e308, 0]]]))
