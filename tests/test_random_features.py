"""Random Fourier features: bias, worst case, average, improvement with size, exact limit."""

import numpy as np
import pytest

from distembed import RandomFourierFeatures, exact
from distembed.random_features import median_distance, orthogonal_frequencies

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6))
PAIRS = np.triu_indices(40, 1)
EXACT = exact.kernel(np.sum((X[:, None] - X) ** 2, axis=2), 2.0)[PAIRS]
variants = pytest.mark.parametrize(
    ("frequencies", "features"),
    [(a, b) for a in ("orthogonal", "independent") for b in ("paired", "phase")],
)


def kernel(n_components, seed=0, **options):
    Z = RandomFourierFeatures(n_components, sigma=2.0, random_state=seed, **options).fit_transform(X)
    return (Z @ Z.T)[PAIRS]


@variants
def test_features_are_the_judges(frequencies, features):
    found = RandomFourierFeatures(8, sigma=1.5, frequencies=frequencies, features=features, random_state=0).fit(X)
    Z = found.transform(X)
    if features == "paired":
        want = exact.random_fourier_features(X, found.frequencies_.T, "paired")
        want = np.hstack([want[:, 0::2], want[:, 1::2]])  # the judge interleaves sines and cosines
    else:
        want = exact.random_fourier_features(X, found.frequencies_.T, "offset", offsets=found.phases_)
    np.testing.assert_allclose(Z, want, atol=1e-12)


@variants
def test_unbiased(frequencies, features):
    draws = np.array([kernel(64, seed, frequencies=frequencies, features=features) for seed in range(300)])
    standard_error = draws.std(axis=0) / np.sqrt(300)
    z = (draws.mean(axis=0) - EXACT) / standard_error
    assert np.max(np.abs(z)) < 5
    assert abs(np.mean(z)) < 1


@variants
def test_error_falls_with_size_as_one_over_the_root(frequencies, features):
    def mean_square(n):
        return np.mean(
            [(kernel(n, seed, frequencies=frequencies, features=features) - EXACT) ** 2 for seed in range(20)]
        )

    assert mean_square(200) / mean_square(3200) == pytest.approx(16, rel=0.5)
    worst = np.max(np.abs(kernel(20_000, frequencies=frequencies, features=features) - EXACT))
    assert worst < 0.04


def test_orthogonal_frequencies_have_less_variance():
    def mean_square(kind):
        return np.mean([(kernel(240, seed, frequencies=kind) - EXACT) ** 2 for seed in range(60)])

    assert mean_square("orthogonal") < 0.7 * mean_square("independent")


def test_paired_features_have_unit_length():
    Z = RandomFourierFeatures(50, random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("n", "n_dims"), [(3, 7), (7, 7), (20, 7), (5, 1)])
def test_blocks_are_orthogonal_with_gaussian_lengths(n, n_dims):
    w = orthogonal_frequencies(n, n_dims, np.random.RandomState(0))
    assert w.shape == (n, n_dims)
    for start in range(0, n, n_dims):
        gram = w[start : start + n_dims] @ w[start : start + n_dims].T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    many = orthogonal_frequencies(7000, 7, np.random.RandomState(1))
    assert np.mean(many**2) == pytest.approx(1.0, abs=0.03)
    assert np.mean(np.sum(many**2, axis=1) ** 2) == pytest.approx(7 * 9, rel=0.05)  # E chi^4 = m (m + 2)


def test_sigma_is_a_number_or_the_median_times_the_scale():
    distances = np.sqrt(np.sum((X[:, None] - X) ** 2, axis=2))[PAIRS]
    assert RandomFourierFeatures(4).fit(X).sigma_ == pytest.approx(np.median(distances))
    assert RandomFourierFeatures(4, sigma_scale=0.5).fit(X).sigma_ == pytest.approx(np.median(distances) / 2)
    assert RandomFourierFeatures(4, sigma=3, sigma_scale=2).fit(X).sigma_ == 6


def test_median_of_degenerate_rows():
    state = np.random.RandomState(0)
    assert median_distance(np.ones((5, 2)), state) == 1.0
    assert median_distance(np.ones((1, 2)), state) == 1.0
    mostly = np.zeros((10, 1))
    mostly[0] = 5.0
    assert median_distance(mostly, state) == pytest.approx(1.0)  # nine of 45 pairs are 5 apart
    large = np.random.default_rng(0).normal(size=(5000, 3))
    assert median_distance(large, state) == pytest.approx(median_distance(large, state, 5000), rel=0.03)


def test_float32_and_threads():
    single = X.astype(np.float32)
    fitted = RandomFourierFeatures(3000, sigma=2.0, random_state=0).fit(single)
    Z = fitted.transform(single)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, RandomFourierFeatures(3000, sigma=2.0, random_state=0).fit_transform(X), atol=1e-5)
    many = np.tile(single, (30, 1))
    np.testing.assert_allclose(fitted.set_params(n_jobs=1).transform(many), np.tile(Z, (30, 1)), atol=1e-6)
    np.testing.assert_array_equal(
        fitted.set_params(n_jobs=1).transform(many), fitted.set_params(n_jobs=2).transform(many)
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_components": 7}, "must be even.* got 7; use 8, or features='phase'"),
        ({"n_components": 0}, r"n_components=...\): must be an integer in \[1, inf\), got 0"),
        ({"sigma": -1.0}, r"sigma=...\): must be a number in \(0, inf\), got -1.0"),
        ({"sigma": "mean"}, "must be a positive number or 'median', got 'mean'; with 'median', sigma_scale"),
        ({"sigma_scale": 0}, r"sigma_scale=...\): must be a number in \(0, inf\)"),
        ({"frequencies": "hadamard"}, "must be one of 'orthogonal', 'independent'"),
        ({"features": "sine"}, "must be one of 'paired', 'phase'"),
    ],
)
def test_bad_parameters(options, text):
    with pytest.raises(ValueError, match=text):
        RandomFourierFeatures(**options).fit(X)
    with pytest.raises(TypeError, match="positive number or 'median', got None"):
        RandomFourierFeatures(4, sigma=None).fit(X)


def test_parameters_count_in_fit_only():
    fitted = RandomFourierFeatures(10, random_state=0).fit(X)
    want = fitted.transform(X)
    np.testing.assert_array_equal(fitted.set_params(n_components=20, features="phase").transform(X), want)
    assert not hasattr(
        RandomFourierFeatures(10, features="phase").fit(X).set_params(features="paired").fit(X), "phases_"
    )


def test_a_scale_too_small_for_the_dtype_is_refused():
    with pytest.raises(ValueError, match=r"must be large enough for float32, got the scale .*; rescale the rows"):
        RandomFourierFeatures(10, sigma=1e-44).fit(X.astype(np.float32))
