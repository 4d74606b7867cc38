"""Mean embeddings: the judge, the limits of both methods and how fast they are reached, odd bags, errors."""

import importlib
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.compute.arrays import Scratch
from distembed.embeddings import MeanEmbedding, gaussian_series, mean, stages
from distembed.embeddings.gaussian_series import SeriesMeans, choose_waves, fit_series, in_single
from exact import gaussian_mean_kernel, gaussian_mmd, mean_kernel, mmd

SIZES = (1, 7, 40, 130, 600)


def make_bags(n_dims=2, weighted=False, seed=0, sizes=SIZES):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(3 * rng.normal(size=n_dims), rng.uniform(0.5, 4), size=(n, n_dims)) for n in sizes]
    weights = [rng.exponential(size=n) for n in sizes] if weighted else None
    return de.Bags.from_arrays(arrays, weights)


def squared_distances(rows):
    i, j = np.triu_indices(len(rows), 1)
    return np.sum((rows[i].astype(float) - rows[j]) ** 2, axis=1)


def judged(bags, sigma):
    pairs = zip(*np.triu_indices(bags.n_bags, 1), strict=True)
    return np.array([mmd(bags[i], bags[j], sigma, bags.weights_of(i), bags.weights_of(j)) for i, j in pairs])


def normals(means, deviations, n, repeats, seed=0):
    """As many bags of n points as repeats, of each of some Gaussians in turn."""
    rng = np.random.default_rng(seed)
    points = rng.normal(means, deviations, size=(repeats, n, len(means)))
    return de.as_bags(np.moveaxis(points, -1, 1).reshape(-1, n, 1))


# --------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------


def test_closed_form_of_gaussians():
    assert gaussian_mmd(0, 1, 1, 1, 1.0) == pytest.approx(0.177267635, abs=1e-9)
    assert gaussian_mmd(0, 1, 0, 4, 1.0) == pytest.approx(0.094187022, abs=1e-9)
    p, q = ([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]), ([1.0, 0.0], [[0.3, 0.0], [0.0, 0.7]])
    rng = np.random.default_rng(0)
    x, y = rng.multivariate_normal(*p, 200_000), rng.multivariate_normal(*q, 200_000)
    values = np.exp(-np.sum((x - y) ** 2, axis=1) / (2 * 0.8**2))
    assert gaussian_mean_kernel(*p, *q, 0.8) == pytest.approx(
        values.mean(), abs=5 * values.std() / np.sqrt(len(values))
    )
    assert gaussian_mmd(*p, *p, 0.8) == 0
    assert gaussian_mmd(*p, *q, 0.8) == gaussian_mmd(*q, *p, 0.8) > 0


def test_v_statistic_is_the_double_sum():
    x, y, a = np.array([0.0, 1.0]), np.array([2.0, 2.5]), np.array([3.0, 1.0])
    k = np.exp(-((x[:, None] - y) ** 2) / 8)
    assert mean_kernel(x, y, 2.0) == pytest.approx(k.mean())
    assert mean_kernel(x, y, 2.0, a) == pytest.approx((a / 4) @ k @ [0.5, 0.5])
    assert mmd(x, x, 2.0) == pytest.approx(0, abs=1e-15)
    assert mmd(x, np.repeat(x, [3, 1]), 2.0, a) == pytest.approx(0, abs=1e-15)


# --------------------------------------------------------------------------------------------------------------
# Both methods reach it
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_spectrum_is_exact(n_dims, weighted, scale):
    bags = make_bags(n_dims, weighted)
    embedding = MeanEmbedding(20_000, sigma_scale=scale, method="spectrum")
    A = embedding.fit_transform(bags)
    assert embedding.captured_ > 1 - 2e-7
    np.testing.assert_allclose(squared_distances(A), judged(bags, embedding.sigma_), atol=4e-7)
    kernels = [
        mean_kernel(bags[4], x, embedding.sigma_, bags.weights_of(4), bags.weights_of(i)) for i, x in enumerate(bags)
    ]
    np.testing.assert_allclose(A @ A[4], kernels, atol=4e-7)
    single = embedding.transform(bags.astype(np.float32))
    np.testing.assert_allclose(single, A, atol=3e-6)


def test_an_error_of_the_spectrum_is_below_its_bound():
    bags = make_bags()
    last = np.inf
    for n_components in (60, 120, 240):
        embedding = MeanEmbedding(n_components, sigma_scale=0.7, method="spectrum")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            A = embedding.fit_transform(bags)
        missing = judged(bags, embedding.sigma_) - squared_distances(A)
        n_signs = 2.0 ** np.count_nonzero(embedding.waves_, axis=1)
        assert np.sum(embedding.amplitudes_**2 / n_signs) == pytest.approx(embedding.captured_, rel=1e-6)
        assert np.all(missing > -1e-6)  # distances only lose
        assert np.all(missing < 4 * (1 - embedding.captured_))
        assert missing.max() < last / 2
        last = missing.max()


@pytest.mark.parametrize("method", ["features", "spectrum"])
def test_points_far_from_zero_are_as_near_it(method):
    near = make_bags(2)
    for offset in (2.0**20, 2.0**37, 2.0**47):
        far = de.Bags(near.points + offset, near.offsets)
        moved = de.Bags(far.points - offset, near.offsets)  # as the rounding of the sum left them
        embedding = MeanEmbedding(2_000, method=method, random_state=0)
        A, B = embedding.fit_transform(moved), embedding.fit_transform(far)
        np.testing.assert_allclose(squared_distances(B), squared_distances(A), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("frequencies", ["orthogonal", "independent", "hadamard"])
def test_features_are_means_of_random_fourier_features(frequencies):
    bags = make_bags(3, weighted=True)
    embedding = MeanEmbedding(40, 2.5, frequencies=frequencies, random_state=0)
    A = embedding.fit_transform(bags)
    assert A.shape == (5, 40)
    drawn = de.RandomFourierFeatures(40, sigma=2.5, frequencies=frequencies, random_state=0).fit(np.zeros((1, 3)))
    if frequencies != "hadamard":
        np.testing.assert_array_equal(embedding.frequencies_, drawn.frequencies_)
    shares = np.concatenate([bags.weights_of(i) / bags.weights_of(i).sum() for i in range(bags.n_bags)])
    orders = np.argsort(bags.points, axis=0).T
    centre = in_single([x[o][np.cumsum(shares[o]) >= 2.5][0] for x, o in zip(bags.points.T, orders, strict=True)])
    want = [np.average(drawn.transform(x - centre), axis=0, weights=bags.weights_of(i)) for i, x in enumerate(bags)]
    np.testing.assert_allclose(A, want, atol=1e-12)
    np.testing.assert_allclose(embedding.transform(bags.astype(np.float32)), want, atol=3e-6)


@pytest.mark.parametrize("n_dims", [1, 2, 6])
def test_errors_of_features_fall_as_one_over_the_root(n_dims):
    bags = make_bags(n_dims)

    def mean_square(n):
        found = []
        for seed in range(20):
            embedding = MeanEmbedding(n, 3.0, random_state=seed)
            found.append(squared_distances(embedding.fit_transform(bags)) - want)
        return np.mean(np.square(found))

    want = judged(bags, 3.0)
    few, many = mean_square(50), mean_square(800)
    assert few / many == pytest.approx(16, rel=0.5)
    assert many < 4 / 800


@pytest.mark.parametrize(("q", "want"), [((1, 1), 0.177267635), ((0, 2), 0.094187022)])
def test_points_converge_to_the_truth_with_the_known_bias(q, want):
    bias, deviations = [], []
    for n, repeats in ((50, 2500), (800, 150)):
        A = MeanEmbedding(1000, 1.0, method="spectrum").fit_transform(normals((0, q[0]), (1, q[1]), n, repeats))
        d2 = np.sum((A[0::2] - A[1::2]) ** 2, axis=1)
        own = gaussian_mean_kernel(0, 1, 0, 1, 1.0) + gaussian_mean_kernel(*(q[0], q[1] ** 2) * 2, 1.0)
        error = 5 * d2.std() / np.sqrt(repeats)
        assert d2.mean() == pytest.approx(want + (2 - own) / n, abs=error)
        bias.append((2 - own) / n)
        deviations.append(d2.std())
        if n == 50:
            assert d2.mean() > want + error  # the bias is seen
    assert bias[1] == bias[0] / 16
    assert deviations[1] < 0.4 * deviations[0]  # a quarter, as one over the root


@pytest.mark.parametrize(("method", "error"), [("features", 0.06), ("spectrum", 0.034)])  # 3/√8000 is 0.034
def test_random_features_on_top_make_the_kernel_of_mmd(method, error):
    bags = make_bags()
    pipeline = make_pipeline(
        MeanEmbedding(1000, method=method, random_state=0),
        de.RandomFourierFeatures(8000, sigma=0.7, frequencies="independent", random_state=0),
    )
    Z = pipeline.fit_transform(bags)
    want = np.exp(-judged(bags, pipeline[0].sigma_) / (2 * 0.7**2))
    np.testing.assert_allclose((Z @ Z.T)[np.triu_indices(5, 1)], want, atol=error)


# --------------------------------------------------------------------------------------------------------------
# Waves of the spectrum
# --------------------------------------------------------------------------------------------------------------


def test_waves_are_the_largest_and_whole_frequencies():
    steps = np.array([0.4, 0.7])
    waves, amplitudes, captured = choose_waves(steps, 60)
    assert 50 < len(waves) <= 60
    assert len(np.unique(waves, axis=0)) == len(waves)
    exponents = (np.abs(waves) * steps) ** 2 @ [0.5, 0.5]
    assert np.all(np.diff(exponents) >= 0)
    kept = {tuple(wave) for wave in waves.tolist()}
    everything = np.indices((30, 30)).reshape(2, -1).T
    larger = everything[(everything * steps) ** 2 @ [0.5, 0.5] < exponents[-1] - 1e-9]
    assert kept >= {tuple(wave) for wave in larger.tolist()}
    assert all((s * a, t * b) in kept for a, b in kept for s in (1, -1) for t in (1, -1))
    x, y = np.random.default_rng(0).uniform(-4, 4, size=(2, 2))  # the kernel of differences that they make
    rows = [amplitudes * np.prod(np.where(waves < 0, np.sin(-waves * p), np.cos(waves * p)), axis=1) for p in (x, y)]
    assert rows[0] @ rows[0] == pytest.approx(captured, rel=1e-6)
    weights = np.prod(steps / np.sqrt(2 * np.pi)) * np.exp(-np.sum((waves * steps) ** 2, axis=1) / 2)
    assert rows[0] @ rows[1] == pytest.approx(weights @ np.cos(waves @ (x - y)), abs=1e-12)  # signs: all frequencies


@pytest.mark.parametrize(
    "steps", [[0.3], [0.01], [0.3, 0.5], [1e-6, 1.0], [1e-200, 1e-200], [0.2, 0.3, 0.4], [1e-9] * 3]
)
@pytest.mark.parametrize("n_components", [1, 2, 7, 500])
def test_any_box_has_waves(steps, n_components):
    waves, amplitudes, captured = choose_waves(np.array(steps), n_components)
    assert 1 <= len(waves) <= n_components
    assert len(waves) > n_components - 8 or captured > 1 - 1.1e-7
    assert np.all(np.isfinite(amplitudes))
    assert 0 <= captured <= 1
    assert waves[0].tolist() == [0] * len(steps)


def test_work_is_cut_without_a_trace(monkeypatch):
    bags = make_bags(2, weighted=True)
    bags = de.concat([bags, de.Bags(bags.points, bags.offsets)])
    spectrum = MeanEmbedding(method="spectrum").fit(bags)
    features = MeanEmbedding(60, random_state=0).fit(bags)
    want = [spectrum.transform(bags), features.transform(bags)]
    monkeypatch.setattr(gaussian_series, "_STRIP_BYTES", 50_000)
    monkeypatch.setattr(mean, "_STRIP_VALUES", 1000)
    for longest in (32, 1, 1024):
        monkeypatch.setattr(stages, "_LONGEST_BLOCK", longest)
        for embedding, rows in zip((spectrum, features), want, strict=True):
            np.testing.assert_allclose(embedding.transform(bags), rows, atol=1e-14)


@pytest.mark.parametrize("n_components", [50, 1000])
def test_memory_does_not_grow_with_bags(n_components):
    bags = make_bags(2, sizes=(30,) * 400)
    spectrum = fit_series(bags.points.min(axis=0), bags.points.max(axis=0), 3.0, n_components)
    means, scratch = SeriesMeans(spectrum, np.dtype(float)), Scratch()
    means(bags, np.empty((400, len(spectrum.waves))), scratch)
    used = scratch.n_bytes
    large = de.concat([bags] * 20)
    means(large, np.empty((8000, len(spectrum.waves))), scratch)
    assert scratch.n_bytes <= max(used, 6 * gaussian_series._STRIP_BYTES)


@pytest.mark.parametrize("method", ["features", "spectrum"])
def test_threads_change_nothing(method):
    bags = make_bags(2, weighted=True, sizes=(40, 3, 90) * 60)
    embedding = MeanEmbedding(100, sigma_scale=2, method=method, random_state=0, n_jobs=1).fit(bags)
    want = embedding.transform(bags)
    np.testing.assert_array_equal(embedding.set_params(n_jobs=2).transform(bags), want)


# --------------------------------------------------------------------------------------------------------------
# Scale, units, odd bags
# --------------------------------------------------------------------------------------------------------------


def test_sigma_is_the_median_distance_of_points():
    bags = make_bags()
    i, j = np.triu_indices(bags.n_points, 1)
    median = np.median(np.sqrt(np.sum((bags.points[i] - bags.points[j]) ** 2, axis=1)))
    assert MeanEmbedding(2).fit(bags).sigma_ == pytest.approx(median)
    assert MeanEmbedding(2, sigma_scale=0.5).fit(bags).sigma_ == pytest.approx(median / 2)
    assert MeanEmbedding(2, 3, sigma_scale=2).fit(bags).sigma_ == 6
    many = make_bags(sizes=(400,) * 20)
    i, j = np.random.default_rng(0).integers(many.n_points, size=(2, 100_000))
    median = np.median(np.sqrt(np.sum((many.points[i] - many.points[j]) ** 2, axis=1)))
    assert MeanEmbedding(2, random_state=0).fit(many).sigma_ == pytest.approx(median, rel=0.1)


def test_weights_count_in_the_median():
    rng = np.random.default_rng(0)
    for n in (200, 2000):  # below and above the cap
        points = np.concatenate([rng.normal(0, 1, n), rng.normal(0, 9, n)])
        plain = MeanEmbedding(2, random_state=0).fit([points]).sigma_
        for weights, deviation in ((np.repeat([1.0, 1e-6], n), 1), (np.repeat([1e-6, 1.0], n), 9)):
            bags = de.Bags(points[:, None], [0, 2 * n], weights)
            sigma = MeanEmbedding(2, random_state=0).fit(bags).sigma_
            assert sigma == pytest.approx(0.954 * deviation, rel=0.15)  # the median of |x - y|, of deviation √2
            assert abs(sigma / plain - 1) > 0.5
        absent = de.Bags(points[:, None], [0, 2 * n], np.repeat([1.0, 0.0], n))
        assert (
            MeanEmbedding(2, random_state=0).fit(absent).sigma_
            == MeanEmbedding(2, random_state=0).fit([points[:n]]).sigma_
        )


def test_few_heavy_points_among_many_light_ones_have_the_median():
    rng = np.random.default_rng(0)
    points, heavy = np.r_[rng.normal(0, 50, 1990), np.arange(10.0)][:, None], np.repeat([0, 1], [1990, 10])
    for light in (1e-300, 1e-17, 1e-9):  # the first has a share of zero
        bags = de.Bags(points, [0, 2000], np.where(heavy, 1e300, light * 1e300))
        assert MeanEmbedding(10, random_state=0).fit(bags).sigma_ == 3.0  # of |i - j| below 10
    one = de.Bags(points, [0, 2000], np.where(points[:, 0] == 9, 1e300, 1e-300))
    assert MeanEmbedding(10, random_state=0).fit(one).sigma_ == 1.0


def test_a_draw_by_weight_has_the_median_of_all():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(2500, 2)), rng.exponential(size=2500) ** 3
    i, j = np.triu_indices(2500, 1)
    distances, pairs = np.linalg.norm(points[i] - points[j], axis=1), weights[i] * weights[j]
    order = np.argsort(distances)
    below = np.cumsum(pairs[order])
    median = distances[order][np.searchsorted(below, below[-1] / 2)]
    bags = de.Bags(points, [0, 2500], weights)
    found = [MeanEmbedding(2, random_state=seed).fit(bags).sigma_ for seed in range(10)]
    assert np.mean(found) == pytest.approx(median, rel=0.02)
    assert np.std(found) < 0.05 * median


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("exponent", [-900, -565, 600, 900])
def test_tiny_and_huge_units_have_their_median(weighted, exponent):
    bags = make_bags(weighted=weighted)
    moved = de.Bags(np.ldexp(bags.points, exponent), bags.offsets, bags.weights)
    embedding = MeanEmbedding(20, random_state=0)
    rows, sigma = embedding.fit_transform(bags), embedding.sigma_
    assert embedding.fit(moved).sigma_ == np.ldexp(sigma, exponent)
    np.testing.assert_allclose(squared_distances(embedding.transform(moved)), squared_distances(rows), atol=1e-12)
    far = de.Bags(np.r_[moved.points, [[1.0, 1.0]]], np.r_[moved.offsets, bags.n_points + 1])
    if exponent < 0:  # one point in other units changes little
        assert MeanEmbedding(20).fit(far).sigma_ == pytest.approx(
            np.ldexp(MeanEmbedding(20).fit(bags).sigma_, exponent), rel=0.02
        )


@pytest.mark.parametrize("frequencies", ["orthogonal", "independent", "hadamard"])
def test_a_far_training_point_costs_the_others_no_digits(frequencies):
    rng = np.random.default_rng(0)
    bags = de.as_bags(rng.normal(size=(10, 100, 2)).astype(np.float32))
    for far in (1e8, -1e20):
        points = bags.points.copy()
        points[300] = far
        embedding = MeanEmbedding(200, 1.5, frequencies=frequencies, random_state=0)
        embedding.fit(de.Bags(points, bags.offsets))
        rows = embedding.transform(bags)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, embedding.transform(bags.astype(float)), atol=3e-6)


def test_the_centre_knows_copies_and_weights():
    x = [np.array([0.0, 1.0, 7.0]), np.array([2.0, 8.0])]
    bags = [
        de.Bags.from_arrays(x),
        de.Bags.from_arrays([np.repeat(x[0], 4), x[1]]),
        de.Bags.from_arrays([x[0][::-1], np.r_[x[1], 99.0]], [np.full(3, 0.1), np.array([7.0, 7.0, 0.0])]),
    ]
    rows = [MeanEmbedding(10, 1.0, random_state=0).fit(b).transform(bags[0]) for b in bags]
    np.testing.assert_array_equal(rows[1], rows[0])
    np.testing.assert_array_equal(rows[2], rows[0])


@pytest.mark.parametrize("method", ["features", "spectrum"])
def test_units_do_not_matter(method):
    bags = make_bags(2).astype(np.float32).astype(float)
    rows = MeanEmbedding(300, method=method, random_state=0).fit_transform(bags)
    for factor, shift in ((1e-6, 0.0), (1e9, 0.0), (4.0, 4096.0)):
        moved = de.Bags(factor * bags.points + shift, bags.offsets)
        found = MeanEmbedding(300, method=method, random_state=0).fit_transform(moved)
        np.testing.assert_allclose(squared_distances(found), squared_distances(rows), atol=1e-6)
    single = de.Bags(np.round(64 * bags.points) / 64 + 4096, bags.offsets).astype(np.float32)  # exact in float32
    embedding = MeanEmbedding(300, method=method, random_state=0).fit(single)
    np.testing.assert_allclose(embedding.transform(single), embedding.transform(single.astype(float)), atol=3e-6)


@pytest.mark.parametrize("method", ["features", "spectrum"])
def test_odd_bags(method):
    embedding = MeanEmbedding(50, method=method, random_state=0)
    A = embedding.fit_transform([np.full((3, 2), 7.0), np.full((1, 2), 7.0)])
    assert embedding.sigma_ == 1.0  # all points are equal
    np.testing.assert_allclose(A[0], A[1], atol=1e-14)
    assert squared_distances(A)[0] < 1e-25
    A = embedding.fit_transform([[1.0]])
    assert A @ A[0] == pytest.approx(1, abs=1e-6)
    mostly = [np.r_[np.zeros(20), 4.0], np.zeros(3)]
    assert 0 < embedding.fit(mostly).sigma_ < 4
    np.testing.assert_allclose(
        embedding.transform([np.repeat(mostly[0], 3)]), embedding.transform(mostly[:1]), atol=1e-12
    )
    absent = de.Bags([[0.0], [1.0], [1e9]], [0, 3], [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(embedding.fit(absent).transform(absent), embedding.transform([[0.0, 1.0]]))


# --------------------------------------------------------------------------------------------------------------
# Contract, names, errors
# --------------------------------------------------------------------------------------------------------------


def test_names():
    bags = make_bags()
    assert MeanEmbedding(4).fit(bags).get_feature_names_out().tolist() == [
        "mean_sin0",
        "mean_sin1",
        "mean_cos0",
        "mean_cos1",
    ]
    embedding = MeanEmbedding(25, 20.0, method="spectrum").fit(bags)
    assert {"mean_c0_c0", "mean_c0_s1", "mean_s1_s1"} <= set(embedding.get_feature_names_out())


def test_a_second_fit_forgets_the_other_method():
    bags = make_bags()
    embedding = MeanEmbedding(100, method="spectrum", random_state=0).fit(bags)
    assert not hasattr(embedding, "frequencies_")
    embedding.set_params(method="features").fit(bags)
    assert not any(hasattr(embedding, name) for name in ("waves_", "amplitudes_", "captured_", "box_"))
    assert embedding.transform(bags).shape == (5, 100)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_components": 7}, r"MeanEmbedding\(n_components=...\): must be even, .* got 7; use 8"),
        ({"n_components": 0}, r"n_components=...\): must be an integer in \[1, 1e\+06\], got 0"),
        ({"n_components": 10**12}, r"n_components=...\): must be an integer in \[1, 1e\+06\], got 1000000000000"),
        ({"n_components": 10**30, "method": "spectrum"}, r"MeanEmbedding\(n_components=...\): must be an integer in"),
        ({"sigma": -1.0}, r"MeanEmbedding\(sigma=...\): must be a number in \(0, inf\), got -1.0"),
        ({"sigma": 1e-310}, r"MeanEmbedding\(sigma=...\): must be a positive, finite scale .* got 1e-310; rescale"),
        ({"sigma": "mean"}, "must be a positive number or 'median', got 'mean'; with 'median', sigma_scale"),
        ({"sigma_scale": 0}, r"sigma_scale=...\): must be a number in \(0, inf\)"),
        ({"method": "grid"}, r"MeanEmbedding\(method=...\): must be one of 'features', 'spectrum', got 'grid'"),
        ({"frequencies": "gaussian"}, "must be one of 'orthogonal', 'independent', 'hadamard'"),
    ],
)
def test_bad_parameters(options, text):
    with pytest.raises(ValueError, match=text):
        MeanEmbedding(**options).fit(make_bags())


def test_bad_parameters_of_wrong_type():
    with pytest.raises(TypeError, match="positive number or 'median', got None"):
        MeanEmbedding(4, None).fit(make_bags())
    with pytest.raises(
        ValueError, match=r"method='spectrum'\): needs points of at most 3 dimensions, got 4; use method='f"
    ):
        MeanEmbedding(method="spectrum").fit(make_bags(4))


def test_points_outside_the_box_are_refused():
    bags = de.Bags.from_arrays([[0.0, 1.0], [2.0, 4.0]], ids=["a", "b"])
    embedding = MeanEmbedding(50, 1.0, method="spectrum").fit(bags)
    np.testing.assert_allclose(embedding.box_, [[-1.0], [5.0]])
    a, b = embedding.transform([[-0.99], [4.99]])  # within sigma of the training points
    assert a @ b < np.exp(-8)
    assert a @ embedding.transform([[0.0]])[0] == pytest.approx(np.exp(-(0.99**2) / 2), abs=1e-6)
    strange = de.Bags.from_arrays([[0.0], [1.0, 5.5]], ids=["c", "d"])
    with pytest.raises(
        ValueError, match=r"from -1 to 5 in dimension 0, but point 1 of .*'d'.* has 5.5; fit on bags that reach"
    ):
        embedding.transform(strange)
    with pytest.raises(ValueError, match="or use method='features'"):
        embedding.transform(strange.astype(np.float32))
    embedding.transform(de.Bags([[0.0], [9.0]], [0, 2], [1.0, 0.0]))  # no weight, not there
    assert np.isfinite(MeanEmbedding(50, 1.0).fit(bags).transform([[1e30]])).all()


def test_angles_that_overflow_are_refused():
    embedding = MeanEmbedding(50, 1e-20, random_state=0).fit([[0.0, 1.0]])
    assert np.isfinite(embedding.transform([[0.0, 1e200]])).all()
    with pytest.raises(ValueError, match=r"point 1 of bag 0 has 1e\+30; fit on bags that reach as far, or clip them"):
        embedding.transform(de.Bags.from_arrays([[0.0, 1e30]]).astype(np.float32))
    with pytest.raises(ValueError, match="rescale the points"):
        MeanEmbedding(50).fit([[0.0, 1e305]])


@pytest.mark.parametrize("points", [[0.0, 1.0], [0.0]])
def test_a_sigma_too_small_for_float32_is_named(points):
    embedding = MeanEmbedding(10, 1e-42, random_state=0).fit([points])
    assert np.isfinite(embedding.transform([points])).all()
    single = de.Bags.from_arrays([points]).astype(np.float32)
    message = r"MeanEmbedding\(sigma=...\): is too small for float32 points, .* got 1e-42; raise sigma, pass float64"
    with pytest.raises(ValueError, match=message):
        embedding.transform(single)


def test_a_sigma_too_small_for_the_points_of_fit_is_named():
    single = de.Bags.from_arrays([[0.0, 1e30]]).astype(np.float32)
    with pytest.raises(ValueError, match=r"MeanEmbedding\(sigma=...\): is too small for float32 points, .* got 1e-20;"):
        MeanEmbedding(10, 1e-20, random_state=0).fit_transform(single)
    tiny = de.Bags.from_arrays([[0.0, 1e-42]])
    embedding = MeanEmbedding(50, 1e-42, method="spectrum").fit(tiny)
    with pytest.raises(ValueError, match=r"MeanEmbedding\(sigma=...\): is too small for float32 points"):
        embedding.transform(tiny.astype(np.float32))


def test_few_features_for_a_wide_box_warn():
    with pytest.warns(UserWarning, match=r"MeanEmbedding: the features capture less than 90% of the kernel .captured_"):
        MeanEmbedding(50, 0.1, method="spectrum").fit(make_bags())


def test_the_benchmark_runs_and_checks_its_answers(monkeypatch):
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    rows = importlib.import_module("mmd").compare(
        n_bags=8, n_judged=6, turns=1, n_components=400, slow_bags=2, n_jobs=1
    )
    for path in folder.glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)
    assert rows[0].n_features == 400
    assert rows[1].rms <= rows[0].rms
    assert rows[1].largest <= rows[0].largest
    assert all(more.n_features >= few.n_features for few, more in pairwise(rows[1:]))
    assert rows[-1].largest < 5e-6
