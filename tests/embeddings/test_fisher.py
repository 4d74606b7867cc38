"""Fisher vectors: gradients against differences of the likelihood, and the information against its own mixture."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from distembed import Bags
from distembed.bags.moments import CoordinateFrame
from distembed.embeddings import FisherEmbedding, fisher
from distembed.embeddings.fisher import draw_points, fisher_sums, fisher_vectors
from exact import gaussians as exact

APART = (
    np.array([0.2, 0.5, 0.3]),
    np.array([[-30.0, 0.0], [0.0, 20.0], [40.0, -10.0]]),
    np.array([[1.0, 2.0], [0.5, 1.0], [3.0, 1.0]]),
)


def identity(n_dims):
    return CoordinateFrame(np.zeros(n_dims), np.ones(n_dims), np.ones(n_dims))


def make_bags(n_bags=15, n_dims=2, seed=0, weights=False, size=60):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, size, n_bags)
    arrays = [
        rng.choice([-2.0, 0.0, 3.0], size=(n, 1)) + rng.normal(size=(n, n_dims)) + rng.normal(size=n_dims)
        for n in sizes
    ]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0.1, 3, n) for n in sizes] if weights else None)


# --------------------------------------------------------------------------------------------------------------
# Gradients and information
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n_dims", [1, 3])
def test_features_are_the_gradient_of_the_mean_log_likelihood(weights, n_dims):
    bags = make_bags(8, n_dims, weights=weights)
    bags = Bags(bags.points * np.geomspace(1, 1e3, n_dims) + 50.0, bags.offsets, bags.weights)
    model = FisherEmbedding(4, random_state=0).fit(bags)
    mixture = model.shares_, model.means_, model.deviations_
    wanted = [exact.fisher_vector(points, bags.weights_of(i), *mixture) for i, points in enumerate(bags)]
    got = model.transform(bags)
    assert got.shape == (8, 4 * (2 * n_dims + 1))
    assert_allclose(got, wanted, atol=1e-6 * np.max(np.abs(wanted)))


def test_whitened_features_are_the_gradient_after_the_map():
    rng = np.random.default_rng(0)
    bags = Bags(make_bags(8).points @ rng.normal(size=(2, 2)), make_bags(8).offsets)
    model = FisherEmbedding(3, covariance="whitened", random_state=0).fit(bags)
    mapped = Bags(model._frame.apply(bags.points), bags.offsets)
    shares = np.repeat(1 / mapped.sizes, mapped.sizes)
    assert_allclose(np.cov(mapped.points.T, ddof=0, aweights=shares), np.eye(2), atol=1e-10)
    wanted = [exact.fisher_vector(points, None, model.shares_, model.means_, model.deviations_) for points in mapped]
    assert_allclose(model.transform(bags), wanted, atol=1e-6 * np.max(np.abs(wanted)))


def draw(mixture, n, rng):
    shares, means, deviations = mixture
    which = rng.choice(len(shares), size=n, p=shares)
    return means[which] + deviations[which] * rng.normal(size=(n, means.shape[1]))


def test_points_of_the_mixture_have_gradients_of_mean_zero_and_covariance_one():
    n, shares = 40_000, APART[0]
    each = Bags(draw(APART, n, np.random.default_rng(0)), np.arange(n + 1))  # one point a bag
    G = fisher_vectors(fisher_sums(each, identity(2), *APART), *APART)
    information = np.eye(15)
    information[:3, :3] -= np.sqrt(np.outer(shares, shares))  # shares have a sum of one
    assert_allclose(G.mean(axis=0), 0, atol=4.5 / np.sqrt(n))
    # Fourth moments of the deviations' entries are 15 / π: a standard deviation of √(15 / 0.2 / n) = 0.043.
    assert_allclose(np.cov(G.T), information, atol=0.15)
    assert np.linalg.norm(np.cov(G.T) - information) < 0.25


def test_one_gaussian_has_exactly_its_information():
    mixture = np.ones(1), np.array([[3.0]]), np.array([[2.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    each = Bags(3 + 2 * nodes[:, None], np.arange(21))
    G = fisher_vectors(fisher_sums(each, identity(1), *mixture), *mixture)
    mass = weights / weights.sum()
    assert_allclose(mass @ G, 0, atol=1e-10)
    assert_allclose((G * mass[:, None]).T @ G, np.diag([0, 1, 1]), atol=1e-10)


def test_features_of_bags_from_the_mixture_shrink_with_the_root_of_their_size():
    rng, lengths = np.random.default_rng(0), []
    for n in (25, 400):
        bags = Bags(draw(APART, 60 * n, rng), np.arange(0, 60 * n + 1, n))
        G = fisher_vectors(fisher_sums(bags, identity(2), *APART), *APART)
        lengths.append(np.mean(np.linalg.norm(G, axis=1)))
    assert_allclose(lengths[1] / lengths[0], 0.25, rtol=0.2)
    assert_allclose(lengths[0], np.sqrt((15 - 1) / 25), rtol=0.15)


def test_a_shift_is_seen_in_its_own_units():
    # E G_μ = Δ/σ to first order for a shift of all means by Δ, summed over components with √π.
    rng = np.random.default_rng(0)
    bags = [draw(APART, 20_000, rng), draw(APART, 20_000, rng) + np.array([0.1, 0.0])]
    sums = fisher_sums(Bags.from_arrays(bags), identity(2), *APART)
    still, moved = fisher_vectors(sums, *APART)[:, 3:9].reshape(2, 3, 2)
    assert_allclose((moved - still)[:, 0], np.sqrt(APART[0]) * 0.1 / APART[2][:, 0], atol=0.03)


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


def test_the_mixture_finds_the_components():
    rng = np.random.default_rng(0)
    bags = Bags(draw(APART, 20_000, rng), np.arange(0, 20_001, 100))
    model = FisherEmbedding(3, reg=1e-6, random_state=0).fit(bags)
    order = np.argsort(model.means_[:, 0])
    assert_allclose(model.shares_[order], APART[0], atol=0.02)
    assert_allclose(model.means_[order], APART[1], atol=0.15)
    assert_allclose(model.deviations_[order], APART[2], rtol=0.05)


def test_units_do_not_matter():
    bags = make_bags(weights=True)
    moved = Bags(bags.points * [1e-12, 1e9] + [0.0, 1e10], bags.offsets, bags.weights)
    wanted = FisherEmbedding(4, random_state=0).fit_transform(bags)
    assert_allclose(FisherEmbedding(4, random_state=0).fit_transform(moved), wanted, atol=1e-4 * np.abs(wanted).max())


def test_improved_rows_are_signed_roots_of_length_one():
    bags = make_bags()
    plain = FisherEmbedding(4, random_state=0).fit_transform(bags)
    improved = FisherEmbedding(4, improved=True, random_state=0).fit_transform(bags)
    roots = np.sign(plain) * np.sqrt(np.abs(plain))
    assert_allclose(improved, roots / np.linalg.norm(roots, axis=1, keepdims=True), atol=1e-12)
    assert_array_equal(fisher.signed_roots(np.zeros((1, 3))), np.zeros((1, 3)))


def test_points_are_drawn_evenly_from_bags():
    bags = Bags.from_arrays([np.arange(4.0), np.full(100, 10.0), [20.0]])
    rng = np.random.RandomState(0)
    drawn = draw_points(bags, 60, rng).ravel()
    assert_array_equal(np.histogram(drawn, [0, 1, 2, 3, 9, 11, 21])[0], [5, 5, 5, 5, 20, 20])
    assert len(draw_points(bags, 2, rng)) == 2
    assert len(draw_points(bags, 10**9, rng)) == 300  # as many of each as the largest has
    weighted = Bags(np.arange(4.0)[:, None], [0, 4], weights=[1, 2, 3, 4])
    assert_array_equal(np.bincount(draw_points(Bags.from_arrays([np.arange(10.0)]), 10, rng).ravel().astype(int)), 1)
    many = np.concatenate([draw_points(weighted, 4, np.random.RandomState(seed)) for seed in range(500)])
    assert_allclose(np.bincount(many.ravel().astype(int)) / len(many), [0.1, 0.2, 0.3, 0.4], atol=0.03)


def test_weights_draw_the_points_of_the_mixture():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (100, 1)), rng.normal(50, 1, (100, 1))])
    model = FisherEmbedding(2, random_state=0).fit(Bags(points, [0, 200], weights=np.repeat([1.0, 9.0], 100)))
    assert_allclose(np.sort(model.shares_), [0.1, 0.9], atol=0.01)


def test_fewer_components_than_asked_for_where_points_are_few():
    model = FisherEmbedding(16, random_state=0).fit([np.zeros((3, 2)), np.ones((1, 2))])
    assert model.n_components_ == 2
    assert np.isfinite(model.transform([np.full((1, 2), 0.5)])).all()


@pytest.mark.parametrize("covariance", ["diag", "whitened"])
def test_one_point_is_one_component(covariance):
    model = FisherEmbedding(1, covariance=covariance, reg=0.04).fit([np.zeros((1, 2))])
    assert_array_equal(model.shares_, [1])
    assert_array_equal(model.means_, [[0, 0]])
    assert_allclose(model.deviations_, 0.2)
    assert_allclose(model.transform([np.zeros((1, 2))])[0, :3], 0)


def test_a_mixture_of_one_drawn_point():
    bags = make_bags()
    model = FisherEmbedding(1, max_points=1, random_state=0).fit(bags)
    assert np.any(np.all(np.abs(bags.points - model.means_) < 1e-9, axis=1))
    assert_allclose(model.deviations_, np.sqrt(1e-3) * model._frame.half[None])
    assert np.isfinite(model.transform(bags)).all()


def test_a_reg_below_rounding_is_named():
    rng = np.random.default_rng(0)
    bags = [np.repeat(rng.integers(0, 3, size=(3, 2)), 5, axis=0).astype(float) for _ in range(8)]
    with pytest.raises(ValueError, match=r"FisherEmbedding\(reg=...\): must be above .*got 1e-16, .*; raise reg, or"):
        FisherEmbedding(8, reg=1e-16, random_state=0).fit(bags)
    assert np.isfinite(FisherEmbedding(8, random_state=0).fit_transform(bags)).all()


@pytest.mark.parametrize("covariance", ["diag", "whitened"])
def test_stretches_of_a_bag_whose_shares_underflow_are_as_if_absent(covariance):
    rng = np.random.default_rng(0)
    points, few = 3 * rng.normal(size=(100_000, 2)), rng.normal(size=(50, 2))
    weights = np.repeat([1e-300, 1e300], [70_000, 30_000])
    bags = Bags.from_arrays([points, few], weights=[weights, np.ones(50)])
    kept = Bags.from_arrays([points[70_000:], few], weights=[np.ones(30_000), np.ones(50)])
    model = FisherEmbedding(1, covariance=covariance, max_points=500, random_state=0).fit(bags)
    twin = FisherEmbedding(1, covariance=covariance, max_points=500, random_state=0).fit(kept)
    assert_allclose(model.transform(bags), model.transform(kept), atol=1e-9)
    deviations = [each._frame.apply(kept[0]).std(axis=0) for each in (model, twin)]
    assert_allclose(*deviations, rtol=1e-6)


def test_parameters_set_after_fit_wait_for_the_next_fit():
    bags = make_bags()
    model = FisherEmbedding(2, random_state=0).fit(bags)
    wanted, names = model.transform(bags), model.get_feature_names_out()
    model.set_params(improved=True, covariance="whitened", n_components=5, reg=0.1)
    assert_array_equal(model.transform(bags), wanted)
    assert_array_equal(model.get_feature_names_out(), names)


def test_threads_and_chunks_change_nothing(monkeypatch):
    bags = make_bags(100, weights=True, size=300)
    model = FisherEmbedding(4, random_state=0).fit(bags)
    wanted = model.transform(bags)
    with monkeypatch.context() as patch:
        patch.setattr("distembed.compute.parallel._CHUNK_BYTES", 20_000)
        patch.setattr(fisher, "_SEGMENT_VALUES", 1)  # 64 points
        pieces = [model.set_params(n_jobs=n_jobs).transform(bags) for n_jobs in (1, 3)]
    assert_allclose(pieces[0], wanted, atol=1e-11 * np.abs(wanted).max())
    assert_array_equal(pieces[1], pieces[0])


def test_points_far_outside_give_finite_features():
    model = FisherEmbedding(3, covariance="whitened", random_state=0).fit(make_bags())
    for dtype, far in ((np.float64, 1e300), (np.float32, 1e38)):
        got = model.transform([np.full((1, 2), far, dtype), np.array([[far, -far], [-far, far]], dtype)])
        assert got.dtype == dtype
        assert np.isfinite(got).all()


def test_memory_does_not_grow_with_the_largest_bag():
    points = np.random.default_rng(0).normal(size=(300_000, 3)).astype(np.float32)
    bags = Bags(points, [0, 10, len(points)])
    model = FisherEmbedding(8, max_points=500, random_state=0, n_jobs=1).fit(bags)
    model.transform(bags)
    tracemalloc.start()
    model.transform(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * fisher._SEGMENT_VALUES  # 75 MB would hold all responsibilities


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"n_components": 0},
            ValueError,
            r"FisherEmbedding\(n_components=...\): must be an integer in \[1, 100000\], got 0",
        ),
        ({"covariance": "full"}, ValueError, r"FisherEmbedding\(covariance=...\): must be one of 'diag', 'whitened'"),
        ({"improved": 1}, TypeError, r"FisherEmbedding\(improved=...\): must be True or False, got 1"),
        ({"reg": 0}, ValueError, r"FisherEmbedding\(reg=...\): must be a number in \(0, 1\], got 0"),
        (
            {"max_points": 3},
            ValueError,
            r"FisherEmbedding\(max_points=...\): must be an integer in \[16, inf\), got 3; draw more",
        ),
    ],
)
def test_bad_parameters_are_refused_in_fit(options, error, text):
    with pytest.raises(error, match=text):
        FisherEmbedding(**options).fit(make_bags())


@pytest.mark.parametrize("reg", [1e-3, 1e-2])
def test_a_component_of_equal_points_has_the_deviation_that_reg_says(reg):
    points = np.repeat([[0.0, 10.0], [4.0, 50.0]], 30, axis=0)
    fitted = FisherEmbedding(2, reg=reg, random_state=0).fit([points])
    assert_allclose(fitted.deviations_, np.sqrt(reg) * np.tile(points.std(axis=0), (2, 1)), rtol=1e-6)
