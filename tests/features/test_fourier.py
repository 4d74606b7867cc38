"""Random Fourier features: bias, worst case, average, improvement with size, exact limit."""

import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import exact
from distembed import RandomFourierFeatures
from distembed.compute.arrays import Scratch, write_cosines, write_sines_and_cosines
from distembed.features import fourier as random_features
from distembed.features import hadamard as _hadamard
from distembed.features import median_distance, orthogonal_frequencies
from distembed.features.fourier import row_chunks

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6))
PAIRS = np.triu_indices(40, 1)
EXACT = exact.kernel(np.sum((X[:, None] - X) ** 2, axis=2), 2.0)[PAIRS]
variants = pytest.mark.parametrize(
    ("frequencies", "features"),
    [(a, b) for a in ("orthogonal", "independent", "hadamard") for b in ("paired", "phase")],
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

    orthogonal = mean_square("orthogonal")
    assert orthogonal < 0.7 * mean_square("independent")
    assert mean_square("hadamard") < 1.3 * orthogonal


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
    assert median_distance(np.ones((5, 2)), state) == pytest.approx(np.sqrt(2))  # their length
    assert median_distance(np.zeros((5, 2)), state) == 1.0
    assert median_distance(np.ones((1, 2)), state) == pytest.approx(np.sqrt(2))
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
        ({"frequencies": "gaussian"}, "must be one of 'auto', 'orthogonal', 'independent', 'hadamard'"),
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


@pytest.mark.parametrize("kind", ["orthogonal", "hadamard"])
def test_a_scale_too_small_for_the_dtype_is_refused(kind):
    with pytest.raises(ValueError, match=r"must be large enough for float32, got the scale .*; rescale the rows"):
        RandomFourierFeatures(10, sigma=1e-44, frequencies=kind).fit(X.astype(np.float32))


# --------------------------------------------------------------------------------------------------------------
# Structured frequencies
# --------------------------------------------------------------------------------------------------------------


def explicit_frequencies(signs, lengths, n_dims):
    """lengths · (H D1 H D2 H D3) with H / sqrt(size) for H, as matrices: (n, n_dims)."""
    size = signs.shape[2]
    H = hadamard(size) / np.sqrt(size)
    blocks = [H @ np.diag(a) @ H @ np.diag(b) @ H @ np.diag(c) for a, b, c in signs.transpose(1, 0, 2).astype(float)]
    return (lengths[:, None] * np.concatenate(blocks)[: len(lengths)])[:, :n_dims]


@pytest.mark.parametrize("strip", [2**17, 700])  # 700: few rows and one block at a time
@pytest.mark.parametrize(
    ("n_dims", "n"), [(1, 1), (3, 40), (32, 32), (33, 64), (64, 5), (64, 33), (100, 300), (300, 1200), (1000, 600)]
)
def test_structured_products_are_those_with_the_matrix(n_dims, n, strip):
    signs, lengths = _hadamard.draw(n, n_dims, np.random.RandomState(0))
    assert signs.dtype == np.int8
    assert set(np.unique(signs)) == {-1, 1}
    want = explicit_frequencies(signs, lengths, n_dims).T
    np.testing.assert_allclose(_hadamard.frequency_matrix(signs, lengths, n_dims), want, atol=1e-12)
    rows = np.random.default_rng(0).normal(size=(70, n_dims))
    out = np.full((70, n), np.nan)
    single = np.full((70, n), np.nan, np.float32)
    for made in (out, single):
        projection = _hadamard.HadamardProjection(signs, lengths, made.dtype)
        projection.strip_values = strip
        projection(rows.astype(made.dtype), made, Scratch())
    np.testing.assert_allclose(out, rows @ want, atol=1e-10)
    np.testing.assert_allclose(single, out, atol=1e-5 * np.abs(out).max())


def test_structured_blocks_are_orthogonal_with_gaussian_lengths():
    fitted = RandomFourierFeatures(2 * 160, sigma=0.5, frequencies="hadamard", random_state=0)
    w = fitted.fit(np.zeros((2, 64))).frequencies_.T
    assert w.shape == (160, 64)
    for start in (0, 64, 128):
        gram = w[start : start + 64] @ w[start : start + 64].T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), fitted.lengths_)
    _, lengths = _hadamard.draw(7000, 64, np.random.RandomState(1))
    assert np.mean(lengths**2) == pytest.approx(64, rel=0.01)
    assert np.mean(lengths**4) == pytest.approx(64 * 66, rel=0.02)  # E chi^4 = m (m + 2)


@pytest.mark.parametrize("n_dims", [1, 5, 32, 100])
def test_structured_kernel_is_unbiased_along_axes(n_dims):
    # The directions are discrete, so the worst differences are along one axis, or few.
    differences = np.vstack(
        [np.eye(n_dims)[0], np.ones(n_dims) / np.sqrt(n_dims), np.eye(n_dims)[: n_dims // 2 + 1].sum(0)]
    )
    differences[2] /= np.linalg.norm(differences[2])
    angles = np.empty((3, 100_000))
    _hadamard.HadamardProjection(*_hadamard.draw(100_000, n_dims, np.random.RandomState(0)), float)(
        differences, angles, Scratch()
    )
    for length in (0.5, 1.0, 2.0, 3.0):
        np.testing.assert_allclose(np.cos(length * angles).mean(axis=1), np.exp(-(length**2) / 2), atol=0.006)


def test_structured_work_grows_as_m_log_m(monkeypatch):
    original, counted = np.matmul, []

    def matmul(a, b, out):
        counted.append(a.shape[-1] * out.size)
        return original(a, b, out=out)

    def work(n_dims, n_rows, n_blocks):
        fitted = RandomFourierFeatures(2 * n_dims * n_blocks, sigma=1.0, frequencies="hadamard").fit(
            np.zeros((2, n_dims))
        )
        monkeypatch.setattr(np, "matmul", matmul)
        counted.clear()
        fitted.transform(np.zeros((n_rows, n_dims), np.float32))
        monkeypatch.setattr(np, "matmul", original)
        return sum(counted)

    for bits in (8, 12, 16):  # 16 multiplications for every four bits of an index, in three transforms
        assert work(2**bits, 2, 1) == 3 * 2 * 2**bits * 4 * bits
    assert work(256, 70, 3) == 105 * work(256, 2, 1)


def test_wide_rows_have_structured_frequencies():
    for width, n, kind in ((899, 1000, "orthogonal"), (900, 1000, "hadamard"), (900, 998, "orthogonal")):
        rows = np.random.default_rng(0).normal(size=(4, width))
        auto, named = (RandomFourierFeatures(n, frequencies=name, random_state=0) for name in ("auto", kind))
        np.testing.assert_array_equal(auto.fit_transform(rows), named.fit_transform(rows))


def test_structured_frequencies_are_kept_as_signs():
    given = np.tri(40, 900, dtype=np.float32)
    fitted = RandomFourierFeatures(2000, frequencies="hadamard", random_state=0).fit(given)
    assert fitted.signs_.shape == (3, 1, 1024)
    assert fitted.lengths_.dtype == fitted.frequencies_.dtype == np.float32
    assert fitted.frequencies_.shape == (900, 1000)
    assert "frequencies_" not in dir(fitted)  # or displays of all attributes would form it
    stored = pickle.dumps(fitted)
    assert len(stored) < 12_000
    rows = np.random.default_rng(0).normal(size=(5, 900))
    want = fitted.transform(rows)
    np.testing.assert_array_equal(pickle.loads(stored).transform(rows), want)
    np.testing.assert_array_equal(clone(fitted).fit(given).transform(rows), want)
    fitted.set_params(frequencies="independent").fit(rows)
    assert not hasattr(fitted, "signs_")
    assert not hasattr(fitted, "lengths_")
    assert fitted.frequencies_.shape == (900, 1000)
    assert not hasattr(RandomFourierFeatures(frequencies="hadamard"), "frequencies_")


@pytest.mark.parametrize("features", ["paired", "phase"])
def test_structured_features_in_float32_and_in_threads(features, monkeypatch):
    options = {"sigma": 8.0, "frequencies": "hadamard", "features": features, "random_state": 0}
    rows = np.random.default_rng(0).normal(size=(300, 70))
    fitted = RandomFourierFeatures(600, **options).fit(rows)
    Z = fitted.transform(rows)
    single = RandomFourierFeatures(600, **options).fit(rows.astype(np.float32)).transform(rows.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, atol=1e-6)
    np.testing.assert_array_equal(
        fitted.set_params(n_jobs=1).transform(rows), fitted.set_params(n_jobs=2).transform(rows)
    )
    monkeypatch.setattr(random_features, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(random_features, "_CHUNK_VALUES", 1)
    monkeypatch.setattr(random_features, "_STRIP_VALUES", 1300)
    np.testing.assert_allclose(fitted.transform(rows), Z, atol=1e-13)
    np.testing.assert_allclose(fitted.transform(rows[:1]), Z[:1], atol=1e-13)


@parametrize_with_checks([RandomFourierFeatures(20, frequencies="hadamard", features="phase")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --------------------------------------------------------------------------------------------------------------
# Sines, cosines and chunks
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "spread", "tolerance"), [(float, 3.0, 1e-14), (float, 300.0, 1e-12), (np.float32, 30.0, 1e-6)]
)
def test_sines_and_cosines(dtype, spread, tolerance):
    angles = np.random.default_rng(0).normal(0, spread, size=(50, 400))
    angles[0, :81] = np.arange(-40, 41) * np.pi / 4  # where the reduction to half a turn changes branch
    angles[1, :3] = 0.0, 1e-300, -1e-12
    angles = angles.astype(dtype)
    both = np.empty((50, 800), dtype)
    write_sines_and_cosines(angles.copy(), both[:, :400], both[:, 400:], dtype(0.7), Scratch())
    np.testing.assert_allclose(both[:, :400], 0.7 * np.sin(angles.astype(float)), atol=tolerance)
    np.testing.assert_allclose(both[:, 400:], 0.7 * np.cos(angles.astype(float)), atol=tolerance)
    want = 0.7 * np.cos(angles.astype(float))
    write_cosines(angles, angles, dtype(0.7), Scratch())
    np.testing.assert_allclose(angles, want, atol=tolerance)


@pytest.mark.parametrize("n_rows", [1, 63, 64, 200, 1000, 12_000])
@pytest.mark.parametrize("n_components", [2, 5000, 10**7])
def test_chunks_are_equal_and_cover_all_rows(n_rows, n_components):
    chunks = row_chunks(n_rows, n_components)
    sizes = [chunk.stop - chunk.start for chunk in chunks]
    assert np.concatenate([np.arange(n_rows)[chunk] for chunk in chunks]).tolist() == list(range(n_rows))
    assert set(sizes[:-1]) <= {max(sizes)}
    assert max(sizes) < 2 * 64 or max(sizes) <= max(64, 2**22 // n_components)
    if n_rows >= 256:
        assert len(chunks) >= 4


def test_the_benchmark_runs_and_checks_its_answers():
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "random_features.py"))
    table = script["crossover"](ms=(20, 64), n_rows=6, repeats=1)
    assert [row[:2] for row in table] == [(20, 20), (20, 40), (20, 5000), (64, 64), (64, 128), (64, 5000)]
    assert all(dense / fast == ratio for _, _, dense, fast, ratio in table)
    assert script["share_of_product"](8, 1, m=20, n_components=40, n=32) > 0


def test_sigma_of_mostly_equal_rows_is_no_rounding():
    rng = np.random.default_rng(0)
    rows = np.where(np.arange(40)[:, None] % 4 == 0, rng.normal(size=(40, 3)), 0.7)
    for dtype in (np.float64, np.float32):
        same = rows.astype(dtype)
        noisy = same + (np.finfo(dtype).eps * rng.normal(size=same.shape)).astype(dtype)
        expected = median_distance(same, np.random.RandomState(0))
        assert median_distance(noisy, np.random.RandomState(0)) == pytest.approx(expected, rel=1e-5)
        assert expected == pytest.approx(np.mean(pdist(same)), rel=1e-5)
    assert median_distance(np.full((5, 4), 1e20), np.random.RandomState(0)) == 2e20
    far = np.vstack([rng.normal(size=(40, 3)), [[1e20, 0, 0]]])  # others keep their distances
    assert median_distance(far, np.random.RandomState(0)) < 4
