"""Split-half distances and the noise floor: what unequal sizes do to distances."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.bags import Bags
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.embeddings import BlockAverage
from distembed.sizes import noise_floor, smoothed_bootstrap, split_half_distances, split_halves

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast


def hdd(**options):
    return de.HDDEmbedding("hellinger", **{"n_basis": 8, "bandwidth": 0.06, **options})


def uniform_bags(sizes, n_dims=1, seed=0, dtype=np.float64, weights=False, ids=None):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(sizes)]
    points = rng.uniform(size=(offsets[-1], n_dims)).astype(dtype)
    return Bags(points, offsets, weights=rng.uniform(0.5, 2, offsets[-1]) if weights else None, ids=ids)


def normal_bags(n_bags, size, seed=0, mean=0.5):
    return Bags(
        np.random.default_rng(seed).normal(mean, 0.12, size=(n_bags * size, 1)).clip(0, 1),
        np.arange(n_bags + 1) * size,
    )


class Recorder(BagEstimator):
    """Means of bags; counts the bags and points it sees."""

    seen: list

    def fit(self, X, y=None):
        bags = check_bags(self, X, reset=True)
        self.sizes_, self.y_ = bags.sizes, y
        Recorder.seen = []
        return self

    def transform(self, X):
        bags = check_bags(self, X, reset=False)
        Recorder.seen.append(bags.sizes)
        w = np.ones(bags.n_points, bags.dtype) if bags.weights is None else bags.weights
        starts = bags.offsets[:-1]
        return np.add.reduceat(w[:, None] * bags.points, starts) / np.add.reduceat(w, starts)[:, None]


# ------------------------------------------------------------------------------------------------------------
# Split-half distances
# ------------------------------------------------------------------------------------------------------------


def pair_error(d2):
    """Standard error of the mean over pairs of bags: by bags, since the pairs of a bag go together."""
    n = len(d2)
    return 2 * np.std(d2.sum(axis=1) / (n - 1)) / np.sqrt(n)


def test_two_bags_of_one_density_have_a_noise_floor_which_splitting_removes():
    bags = normal_bags(300, 30)
    embedding = de.HDDEmbedding("hellinger", n_basis=15).fit(bags)
    plain = pdist(embedding.transform(bags), "sqeuclidean").mean()
    assert 0.027 < plain < 0.055
    d2 = split_half_distances(embedding, bags, random_state=0)
    pairs = squareform(d2)
    assert abs(pairs.mean()) < 4 * pair_error(d2)
    assert pair_error(d2) < 0.05 * plain
    assert 0.3 < np.mean(pairs < 0) < 0.7  # about half of them come out negative, as they should


def test_split_half_distances_converge_to_the_true_distance():
    # Densities 2x and 1 on the unit interval: JS = 0.053781946. Plain distances add the noise floor to it.
    rng = np.random.default_rng(0)
    for size, bandwidth, tolerance in ((400, 0.03, 0.004), (4000, 0.01, 0.001)):
        X = de.as_bags(np.sqrt(rng.uniform(size=(60, size, 1))))
        Y = de.as_bags(rng.uniform(size=(60, size, 1)))
        embedding = de.HDDEmbedding("js", n_basis=20, bandwidth=bandwidth).fit(X)
        plain = cdist(embedding.transform(X), embedding.transform(Y), "sqeuclidean").mean()
        split = split_half_distances(embedding, X, Y, random_state=0).mean()
        assert abs(split - 0.053781946) < tolerance
        assert plain - split > 0.001


def test_split_half_distances_are_what_the_formula_says():
    bags = uniform_bags([6, 10, 8])
    embedding = hdd().fit(bags)
    rng = np.random.RandomState(0)
    A, B = (embedding.transform(half) for half in split_halves(bags, rng))
    own, mean = np.sum(A * B, axis=1), (A + B) / 2
    want = own[:, None] + own - 2 * mean @ mean.T
    np.fill_diagonal(want, 0)
    got = split_half_distances(embedding, bags, n_splits=1, random_state=0)
    assert_allclose(got, want, atol=1e-12)
    assert_array_equal(got, got.T)


def test_more_splits_lower_the_noise_and_leave_the_mean():
    bags = normal_bags(60, 20)
    embedding = hdd().fit(bags)
    one, many = (split_half_distances(embedding, bags, n_splits=n, random_state=0) for n in (1, 16))
    assert np.std(squareform(many)) < np.std(squareform(one))
    assert abs(many.mean() - one.mean()) < 0.01


def test_block_averages_and_split_halves_remove_bias_and_noise():
    # Bags of 40 and of 800 points of one density: what is left between the two groups after splitting is bias,
    # by the formula of the module about (R / (8 n h))² / 2 = 0.0017 for halves of 20 uniform points.
    X, Y = uniform_bags([40] * 4000, seed=1), uniform_bags([800] * 40, seed=2)
    plain = hdd(bandwidth=0.03).fit(X)
    even = BlockAverage(hdd(bandwidth=0.03), block_size=20).fit(X)
    biased = split_half_distances(plain, X, Y, n_splits=2, random_state=0)
    fair = split_half_distances(even, X, Y, n_splits=2, random_state=0)
    error = np.std(fair.mean(axis=1)) / np.sqrt(4000) + np.std(fair.mean(axis=0)) / np.sqrt(40)
    assert abs(fair.mean()) < 3 * error
    assert biased.mean() > 5 * error
    assert_allclose(biased.mean(), 0.0017, rtol=0.5)


def test_halves_are_disjoint_equal_and_carry_weights():
    bags = uniform_bags([2, 7, 20], weights=True, ids=["a", "b", "c"])
    first, second = split_halves(bags, np.random.RandomState(0))
    assert first.sizes.tolist() == second.sizes.tolist() == [1, 3, 10]
    assert first.ids.tolist() == ["a", "b", "c"]
    weight_of = dict(zip(bags.points.ravel().tolist(), bags.weights.tolist(), strict=True))
    for i in range(3):
        assert not np.isin(first[i], second[i]).any()
        assert np.isin(np.r_[first[i], second[i]], bags[i]).all()
        assert [weight_of[x] for x in second[i].ravel().tolist()] == second.weights_of(i).tolist()


def test_points_without_weight_are_no_points():
    bags = uniform_bags([20, 30])
    weights = np.ones(50)
    weights[5:20] = 0
    light = Bags(bags.points, bags.offsets, weights=weights)
    less = Bags(np.r_[bags.points[:5], bags.points[20:]], [0, 5, 35])
    embedding = hdd().fit(bags)
    a, b = (split_half_distances(embedding, X, random_state=0) for X in (light, less))
    assert_allclose(a, b, atol=1e-12)
    c, d = (noise_floor(embedding, X, [1, 2], random_state=0) for X in (light, less))
    assert_allclose(c, d, atol=1e-12)


def test_bags_of_one_point_can_not_be_split():
    bags = uniform_bags([5, 1, 5], ids=["a", "b", "c"])
    embedding = hdd().fit(bags)
    with pytest.raises(ValueError, match=r"at least 2 points .* got 1 in bag 1 \(id 'b'\); leave that bag out"):
        split_half_distances(embedding, bags)
    with pytest.raises(ValueError, match=r"split_half_distances\(Y=\.\.\.\): every bag"):
        split_half_distances(embedding, bags[[0]], bags)
    with pytest.raises(ValueError, match=r"split_half_distances\(n_splits=\.\.\.\): must be an integer in \[1, inf\)"):
        split_half_distances(embedding, bags[[0]], n_splits=0)


def test_split_half_distances_of_lists_pipelines_and_float32():
    bags = uniform_bags([10, 12, 14])
    pipeline = make_pipeline(de.UnitCube(), hdd()).fit(bags)
    d2 = split_half_distances(pipeline, list(bags), list(bags)[:2], random_state=0)
    assert d2.shape == (3, 2)
    assert d2.dtype == np.float64
    single = split_half_distances(pipeline, bags.astype(np.float32), random_state=0)
    assert single.dtype == np.float32
    assert_allclose(single, split_half_distances(pipeline, bags, random_state=0), atol=1e-4)


# ------------------------------------------------------------------------------------------------------------
# The noise floor
# ------------------------------------------------------------------------------------------------------------


def true_floor(embedding, sizes, n_bags=600):
    """Mean squared distance of many independent bags of the density itself."""
    A = [embedding.transform(normal_bags(n_bags, n, seed=10 + n)) for n in sizes]
    B = [embedding.transform(normal_bags(n_bags, n, seed=20_000 + n)) for n in sizes]
    return np.array([[np.mean(np.sum((a - b) ** 2, axis=1)) for b in B] for a in A])


def test_the_noise_floor_agrees_with_direct_simulation():
    bags = normal_bags(40, 1200)
    embedding = hdd(bandwidth=0.03, n_basis=15).fit(bags)
    sizes = [20, 100, 600]
    floor = noise_floor(embedding, bags, sizes, n_repeats=6, n_bags=40, random_state=0)
    assert_allclose(floor, true_floor(embedding, sizes), rtol=0.08)
    assert_array_equal(floor, floor.T)
    assert np.all(np.diff(floor, axis=0) < 0)
    assert np.all(np.diff(np.diagonal(floor)) < 0)


def test_the_noise_floor_of_bags_larger_than_the_reference_is_a_fair_approximation():
    bags = normal_bags(40, 150)
    embedding = hdd(bandwidth=0.03, n_basis=15).fit(bags)
    sizes = [30, 140, 300]
    floor = noise_floor(embedding, bags, sizes, n_repeats=6, n_bags=40, random_state=0)
    assert_allclose(floor, true_floor(embedding, sizes), rtol=0.25)


def test_the_noise_floor_is_about_what_theory_says():
    # Ten times the points, a tenth of the variance; Hellinger: at most R |S| / (4 n h), for two bags and |S| = 1.
    bags = uniform_bags([3000] * 10)
    h = 0.03
    floor = np.diagonal(noise_floor(hdd(bandwidth=h, n_basis=40).fit(bags), bags, [100, 1000], random_state=0))
    assert_allclose(floor[0] / floor[1], 10, rtol=0.15)
    assert_allclose(floor, 1 / (2 * np.sqrt(np.pi)) / (4 * np.array([100, 1000]) * h), rtol=0.15)


def test_a_pipeline_has_the_floor_of_its_embedding():
    rng = np.random.default_rng(0)
    raw = Bags(rng.normal(100, 20, size=(4000, 1)), np.arange(21) * 200)
    pipeline = make_pipeline(de.UnitCube(), hdd()).fit(raw)
    inside = noise_floor(pipeline[1], pipeline[0].transform(raw), [30, 150], random_state=0)
    assert_allclose(noise_floor(pipeline, raw, [30, 150], random_state=0), inside, rtol=1e-10)
    features = make_pipeline(de.UnitCube(), hdd(), de.RandomFourierFeatures(n_components=50, random_state=0)).fit(raw)
    assert noise_floor(features, raw, [30, 150], random_state=0).shape == (2, 2)


def test_embeddings_without_a_bandwidth_get_a_plain_bootstrap_and_block_averages_their_own():
    bags = uniform_bags([50] * 5, weights=True)
    assert noise_floor(Recorder().fit(bags), bags, [40, 20], random_state=0).min() > 0
    blocks_of = BlockAverage(hdd(), block_size=20).fit(bags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        floor = noise_floor(blocks_of, bags, [20, 40], random_state=0)
    assert floor[1, 1] < floor[0, 0]


def test_smoothed_bootstrap_draws_by_weight_inside_the_cube():
    points, weights = np.array([[0.0, 0.2], [1.0, 0.7]], np.float32), np.array([1.0, 3.0], np.float32)
    rng = np.random.RandomState(0)
    drawn = smoothed_bootstrap(points, weights, 4000, np.array([0.01, 0.02]), rng)
    assert drawn.dtype == np.float32
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert_allclose(np.mean(drawn[:, 0] > 0.5), 0.75, atol=0.03)
    assert_allclose(np.std(drawn[drawn[:, 0] > 0.5, 1]), 0.02, rtol=0.1)
    assert np.isin(smoothed_bootstrap(points, weights, 50, None, rng), points).all()


@pytest.mark.parametrize(
    ("sizes", "options", "text"),
    [
        ([0, 5], {}, r"noise_floor\(sizes=\.\.\.\): must be an integer in \[1, inf\), got"),
        ([2.5], {}, r"noise_floor\(sizes=\.\.\.\): must be an integer"),
        ([], {}, r"noise_floor\(sizes=\.\.\.\): must hold at least one size"),
        ([5], {"n_repeats": 0}, r"noise_floor\(n_repeats=\.\.\.\): must be an integer"),
        ([5], {"n_bags": 0}, r"noise_floor\(n_bags=\.\.\.\): must be an integer"),
    ],
)
def test_wrong_arguments_are_refused(sizes, options, text):
    bags = uniform_bags([10, 10])
    with pytest.raises((TypeError, ValueError), match=text):
        noise_floor(hdd().fit(bags), bags, sizes, **options)
