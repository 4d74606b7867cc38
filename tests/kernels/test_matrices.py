"""Kernel matrices to their formulas, repairs to their eigenvectors, features of landmarks to the kernel."""

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
from contract import broken_rules
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import exact
from distembed import Bags, MeanEmbedding
from distembed.divergences import gaussian, plugin
from distembed.kernels import NystroemFeatures, PSDRepair, median_sigma, psd, rbf, symmetrise

METHODS = ["clip", "flip", "shift", "square"]
every_method = pytest.mark.parametrize("method", METHODS)


def indefinite(n=12, seed=0):
    """A symmetric matrix with eigenvalues of both signs."""
    return symmetrise(np.random.default_rng(seed).normal(size=(n, n)))


def squares(n=8, seed=0):
    """Squared distances with some noise, so that a few are negative."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return np.sum((x[:, None] - x) ** 2, axis=2) + rng.normal(0, 0.5, (n, n))


def mean_gap(X, Y=None):
    """Squared distance of means."""
    means = [np.array([np.average(bag, axis=0, weights=B.weights_of(i)) for i, bag in enumerate(B)])
             for B in (X, X if Y is None else Y)]  # fmt: skip
    return np.sum((means[0][:, None] - means[1]) ** 2, axis=2)


def mean_gap_above(X, Y=None):
    """An asymmetric one: a bag of larger mean is three times as far."""
    Y = X if Y is None else Y
    first, second = ([np.average(bag, weights=B.weights_of(i)) for i, bag in enumerate(B)] for B in (X, Y))
    gap = np.subtract.outer(first, second)
    return np.where(gap > 0, 3.0, 1.0) * gap**2


def mean_gap_eighth(X, Y=None):
    """A divergence whose Gaussian kernel is indefinite: the gap to the eighth power."""
    return mean_gap(X, Y) ** 4


def make_bags(n_bags=10, n_dims=1, seed=0):
    rng = np.random.default_rng(seed)
    return Bags.from_arrays(
        [rng.beta(*rng.uniform(1, 6, 2), size=(rng.integers(5, 30), n_dims)) for _ in range(n_bags)]
    )


# Matrices


def test_rbf_is_its_formula():
    d2 = squares()
    assert (d2 < 0).any()
    assert_allclose(rbf(d2, 0.7), exact.rbf_kernel(d2, 0.7), rtol=1e-13)
    assert_allclose(rbf(d2), exact.rbf_kernel(d2, median_sigma(d2)), rtol=1e-13)


def test_rbf_by_hand():
    assert_allclose(rbf([[0, 8], [-1, 2]], 2.0), [[1, np.exp(-1)], [1, np.exp(-0.25)]], rtol=1e-15)


def test_median_counts_positive_entries_off_the_diagonal():
    assert median_sigma([[5.0, 1.0, 4.0], [9.0, 5.0, -3.0], [0.0, 4.0, 5.0]]) == 2.0  # of 1, 4, 9, 4
    assert median_sigma([[16.0, 4.0, 9.0], [0.0, 9.0, -1.0]]) == 3.0  # rectangular: of 16, 4, 9, 9
    assert median_sigma([[0.0]]) == median_sigma(np.zeros((3, 3))) == 1.0


def test_rbf_of_any_scale_is_finite():
    assert_array_equal(rbf([[0.0, 1e300], [1e-300, 1.0]], 1e-200), [[1, 0], [0, 0]])
    assert_array_equal(rbf([[0.0, 1e300]], 1e200), [[1, 1]])
    assert_array_equal(rbf(np.float32([[0, 1]]), 1e-60), [[1, 0]])


def test_symmetrise():
    K = np.random.default_rng(0).normal(size=(4, 4))
    assert_array_equal(symmetrise(K), symmetrise(K).T)
    assert_allclose(symmetrise(K), (K + K.T) / 2, rtol=1e-15)


def test_repairs_by_hand():
    K = np.diag([-2.0, -1.0, 0.0, 1.0, 2.0])
    wanted = {"clip": [0, 0, 0, 1, 2], "flip": [2, 1, 0, 1, 2], "shift": [0, 1, 2, 3, 4], "square": [4, 1, 0, 1, 4]}
    for method in METHODS:
        assert_array_equal(psd(K, method), np.diag(wanted[method]))


@every_method
def test_repairs_are_their_sum_over_eigenvectors(method):
    K = indefinite()
    fixed = psd(K, method)
    assert_allclose(fixed, exact.repaired_kernel(K, method), atol=1e-12)
    assert_array_equal(fixed, fixed.T)
    assert np.linalg.eigvalsh(fixed)[0] > -1e-12


def test_square_is_the_product_and_clip_the_nearest():
    K = indefinite()
    assert_allclose(psd(K, "square"), K @ K.T, atol=1e-12)
    distance = np.linalg.norm(psd(K, "clip") - K)
    assert_allclose(distance, np.sqrt(np.sum(np.minimum(np.linalg.eigvalsh(K), 0) ** 2)), rtol=1e-12)
    assert all(distance <= np.linalg.norm(psd(K, method) - K) for method in METHODS)


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_a_good_matrix_stays(method):
    K = indefinite() @ indefinite().T
    assert_allclose(psd(K, method), K, atol=1e-12)


def test_dtypes_are_kept_and_input_untouched():
    K = indefinite()
    before = K.copy()
    for single in (K.astype(np.float32), K):
        results = [rbf(single**2), symmetrise(single), *(psd(single, m) for m in METHODS)]
        results += [PSDRepair(m).fit(K).transform(single) for m in METHODS]
        results += [PSDRepair(m).fit_transform(single) for m in METHODS]
        assert {result.dtype for result in results} == {single.dtype}
    assert rbf([[0, 1]]).dtype == np.float64
    assert_array_equal(K, before)
    assert_allclose(psd(K.astype(np.float32)), psd(K), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: rbf([[1.0]], 0),
            ValueError,
            r"rbf\(sigma=\.\.\.\): must be a number in \(0, inf\), got 0; give a pos",
        ),
        (lambda: rbf([[1.0]], "mean"), ValueError, r"rbf\(sigma=\.\.\.\): must be one of 'median', got 'mean'"),
        (lambda: rbf([1.0]), ValueError, r"rbf\(distances_squared=\.\.\.\): must be a matrix.*got shape \(1,\)"),
        (lambda: rbf([[0, np.nan]]), ValueError, r"must be finite, got nan in row 0, column 1; replace"),
        (lambda: rbf([["a"]]), TypeError, r"must be a matrix of numbers, got dtype <U1"),
        (lambda: median_sigma(np.empty((0, 0))), ValueError, r"median_sigma.*not empty, got shape \(0, 0\)"),
        (lambda: symmetrise([[1.0, 2.0]]), ValueError, r"symmetrise\(K=\.\.\.\): must be a square.*got shape \(1, 2\)"),
        (lambda: psd([[1.0, 2.0], [0.0, 1.0]]), ValueError, r"psd: K must be symmetric.*up to 2; use symmetrise\(K\)"),
        (lambda: psd([[1.0]], "cut"), ValueError, r"psd\(method=\.\.\.\): must be one of 'clip', .*got 'cut'"),
        (lambda: PSDRepair("cut").fit([[1.0]]), ValueError, r"PSDRepair\(method=\.\.\.\): must be one of"),
        (lambda: PSDRepair().fit([[1.0, 2.0], [0.0, 1.0]]), ValueError, r"PSDRepair: K must be symmetric"),
        (
            lambda: PSDRepair().fit([[1.0, 2.0]]),
            ValueError,
            r"square matrix.*got shape \(1, 2\); pass rows of new bags",
        ),
        (lambda: PSDRepair().transform([[1.0]]), NotFittedError, "not fitted"),
    ],
)
def test_errors_say_what_to_do(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Repair of training matrices and new rows


@pytest.mark.parametrize("method", ["clip", "flip", "square"])
def test_training_rows_are_treated_as_new_ones(method):
    K = indefinite()
    assert_allclose(PSDRepair(method).fit_transform(K), PSDRepair(method).fit(K).transform(K), atol=1e-12)
    assert_array_equal(PSDRepair(method).fit_transform(K), psd(K, method))


def test_shift_leaves_new_rows_alone():
    K, new = indefinite(), indefinite(seed=1)[:3]
    repair = PSDRepair("shift").fit(K)
    assert_array_equal(repair.transform(new), new)
    assert_array_equal(repair.transform(K), K)
    assert repair.shift_ == pytest.approx(-np.linalg.eigvalsh(K)[0])
    assert_allclose(PSDRepair("shift").fit_transform(K), K + repair.shift_ * np.eye(len(K)), atol=1e-12)


def test_new_rows_are_their_formula():
    K, new = indefinite(), np.random.default_rng(1).normal(size=(3, 12))
    values, vectors = np.linalg.eigh(K)
    plus = vectors[:, values > 0]
    assert_allclose(PSDRepair("clip").fit(K).transform(new), new @ plus @ plus.T, atol=1e-12)
    flipped = new @ (vectors * np.sign(values)) @ vectors.T
    assert_allclose(PSDRepair("flip").fit(K).transform(new), flipped, atol=1e-12)
    assert_allclose(PSDRepair("square").fit(K).transform(new), new @ K, atol=1e-12)


def test_eigenvectors_of_zero_are_absent():
    K = np.diag([1.0, -1.0, 0.0])
    assert_array_equal(PSDRepair("flip").fit(K).transform([[1.0, 2.0, 3.0]]), [[1, -2, 0]])
    assert_array_equal(PSDRepair("clip").fit(K).transform([[1.0, 2.0, 3.0]]), [[1, 0, 0]])


def test_negative_share():
    repair = PSDRepair().fit(np.diag([3.0, -1.0, 0.0]))
    assert repair.negative_share_ == 0.25
    assert repair.shift_ == 0.0
    assert_array_equal(repair.eigenvalues_, [-1, 0, 3])
    assert PSDRepair().fit(np.zeros((2, 2))).negative_share_ == 0.0


def test_a_repaired_model_of_new_bags():
    """Two kinds of bags, an indefinite kernel from noisy distances, and rows of bags that fit did not see."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = np.where(y, 1.5, -1.5) + rng.normal(size=60)
    K = symmetrise(rbf((x[:, None] - x) ** 2 + rng.normal(0, 1.5, (60, 60))))
    assert np.linalg.eigvalsh(K)[0] < -0.1
    train, test = np.arange(40), np.arange(40, 60)
    for method in METHODS:
        model = make_pipeline(PSDRepair(method), SVC(kernel="precomputed"))
        model.fit(K[np.ix_(train, train)], y[train])
        assert model.score(K[np.ix_(test, train)], y[test]) >= 0.8
        ridge = make_pipeline(PSDRepair(method), KernelRidge(kernel="precomputed", alpha=1.0))
        found = ridge.fit(K[np.ix_(train, train)], y[train]).predict(K[np.ix_(test, train)])
        assert np.mean((found > 0.5) == y[test]) >= 0.8


def test_cross_validation_slices_rows_and_columns():
    K, y = indefinite(30), np.arange(30) % 3
    model = make_pipeline(PSDRepair(), SVC(kernel="precomputed"))
    search = GridSearchCV(model, {"psdrepair__method": METHODS, "svc__C": [1, 10]}, cv=3, error_score="raise").fit(K, y)
    assert search.predict(K[:4]).shape == (4,)
    by_hand = []
    for fold in range(3):
        test = np.arange(10 * fold, 10 * fold + 10)
        train = np.setdiff1d(np.arange(30), test)
        model.fit(K[np.ix_(train, train)], y[train])
        by_hand.append(model.score(K[np.ix_(test, train)], y[test]))
    folds = [(np.setdiff1d(np.arange(30), t), t) for t in np.arange(30).reshape(3, 10)]
    assert_array_equal(cross_val_score(model, K, y, cv=folds), by_hand)


def test_names_frames_clones_and_pickles():
    pd = pytest.importorskip("pandas")
    K = pd.DataFrame(indefinite(3), columns=list("abc"))
    repair = clone(PSDRepair("flip")).set_output(transform="pandas").fit(K)
    frame = repair.transform(K)
    assert list(frame.columns) == list(repair.get_feature_names_out()) == ["a", "b", "c"]
    assert repair.n_features_in_ == 3
    assert_array_equal(pickle.loads(pickle.dumps(repair)).transform(K), frame)
    assert clone(repair).get_params() == {"method": "flip"}
    assert list(PSDRepair().fit(indefinite(2)).get_feature_names_out()) == ["x0", "x1"]


@parametrize_with_checks([PSDRepair(), PSDRepair("flip")])
def test_scikit_learn(estimator, check):
    check(estimator)


# Features of landmarks

CONTRACT = [
    NystroemFeatures("tv", n_landmarks=3, sigma=0.3),  # some of the bags, by name
    NystroemFeatures(mean_gap),  # all of them, by a function
]


def test_contract():
    assert [broken_rules(estimator) for estimator in CONTRACT] == [{}] * len(CONTRACT)


@pytest.mark.parametrize("name", ["js", "hellinger", "tv", "chi2"])
def test_with_all_bags_as_landmarks_the_kernel_is_exact(name):
    bags = make_bags()
    features = NystroemFeatures(name).fit(bags)
    Z = features.transform(bags)
    assert_allclose(Z @ Z.T, exact.rbf_kernel(plugin(bags, distance=name), features.sigma_), atol=1e-6)
    assert features.negative_share_ < 1e-9
    assert features.symmetric_


def test_dot_products_are_nystroems():
    bags, new = make_bags(12), make_bags(7, seed=1)
    for divergence in (mean_gap, mean_gap_eighth):
        features = NystroemFeatures(divergence, n_landmarks=5, sigma=0.05, random_state=0).fit(bags)
        landmarks = bags[features.landmarks_]
        K = exact.rbf_kernel(divergence(landmarks), 0.05)
        Z = features.transform(new)
        assert Z.shape == (7, 5)
        assert_allclose(
            Z @ Z.T, exact.nystroem_kernel(exact.rbf_kernel(divergence(new, landmarks), 0.05), K), atol=1e-7
        )


def test_more_landmarks_are_better():
    bags = make_bags(60, 2)
    K = rbf(mean_gap(bags), 0.1)

    def error(n):
        fitted = (
            NystroemFeatures(mean_gap, n_landmarks=n, sigma=0.1, random_state=seed).fit(bags) for seed in range(5)
        )
        return np.mean([np.linalg.norm(Z @ Z.T - K) for Z in (each.transform(bags) for each in fitted)])

    errors = [error(n) for n in (3, 12, 60)]
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 1e-5  # the exact limit


def test_an_indefinite_kernel_is_cut_and_told():
    bags = make_bags(20)
    features = NystroemFeatures(mean_gap_eighth).fit(bags)
    eigenvalues = np.linalg.eigvalsh(rbf(mean_gap_eighth(bags), features.sigma_))
    assert features.negative_share_ > 1e-3
    assert features.negative_share_ == pytest.approx(-eigenvalues[eigenvalues < 0].sum() / np.abs(eigenvalues).sum())
    assert np.max(np.sum(features.transform(make_bags(50, seed=2)) ** 2, axis=1)) < 10  # nothing blows up


def test_both_directions_of_an_asymmetric_divergence_count():
    bags, new = make_bags(6), make_bags(4, seed=1)
    features = NystroemFeatures(mean_gap_above, sigma=0.3).fit(bags)
    assert not features.symmetric_
    twin = NystroemFeatures(lambda X, Y=None: 2 * mean_gap(X, Y), sigma=0.3).fit(bags)  # (3 + 1) / 2
    assert twin.symmetric_
    assert_allclose(features.transform(new), twin.transform(new), atol=1e-7)


def test_gaussian_divergences_go_in():
    bags = Bags.from_arrays([np.random.default_rng(i).normal(i % 3, 1, (50, 5)) for i in range(12)])
    Z = NystroemFeatures(partial(gaussian, divergence="skl")).fit_transform(bags)
    near, far = Z[0] @ Z[3], Z[0] @ Z[1]
    assert near > far + 0.1


def test_landmarks_are_drawn_by_the_seed():
    bags = make_bags(30)
    chosen = [NystroemFeatures(mean_gap, n_landmarks=4, random_state=seed).fit(bags) for seed in (0, 0, 1)]
    assert_array_equal(chosen[0].landmarks_, chosen[1].landmarks_)
    assert not np.array_equal(chosen[0].landmarks_, chosen[2].landmarks_)
    assert len(set(chosen[0].landmarks_)) == chosen[0].n_landmarks_ == 4
    assert chosen[0].get_feature_names_out()[0] == f"landmark{chosen[0].landmarks_[0]}"


def test_sigma_is_the_median_of_the_landmarks():
    bags = make_bags(30)
    features = NystroemFeatures(mean_gap, n_landmarks=6, random_state=0).fit(bags)
    assert features.sigma_ == pytest.approx(median_sigma(mean_gap(bags[features.landmarks_])))
    assert NystroemFeatures(mean_gap).fit(bags[:1]).sigma_ == 1.0


def test_chunks_do_not_show():
    bags = make_bags(30)
    features = NystroemFeatures("js", n_landmarks=5, random_state=0).fit(bags)
    whole = features.transform(bags)
    features.chunk_bags = 7
    assert_allclose(features.transform(bags), whole, atol=1e-9)


def test_memory_does_not_grow_with_the_bags():
    points = np.random.default_rng(0).uniform(size=(4000, 4, 1))
    features = NystroemFeatures(cheap, n_landmarks=50, random_state=0).fit(points[:100])
    peaks = []
    for n in (1000, 4000):
        bags = Bags.from_arrays(points[:n])
        tracemalloc.start()
        out = features.transform(bags)
        peaks.append(tracemalloc.get_traced_memory()[1] - out.nbytes)
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def cheap(X, Y=None):
    first = X.points.reshape(X.n_bags, -1).mean(axis=1)
    second = first if Y is None else Y.points.reshape(Y.n_bags, -1).mean(axis=1)
    return np.subtract.outer(first, second) ** 2


def test_divergences_see_no_point_without_weight():
    seen = []

    def spy(X, Y=None):
        seen.extend([X] if Y is None else [X, Y])
        return mean_gap(X, Y)

    weighted = Bags(np.float32([[0], [1], [2], [3]]), [0, 2, 4], weights=[0, 1, 1, 1])
    NystroemFeatures(spy).fit(weighted).transform(weighted)
    assert len(seen) == 3
    assert all(bags.n_points == 3 and bags.dtype == np.float64 for bags in seen)


@pytest.mark.parametrize(
    ("estimator", "error", "text"),
    [
        (NystroemFeatures("kl"), ValueError, r"NystroemFeatures\(divergence=\.\.\.\): must be one of 'js'.*got 'kl'"),
        (
            NystroemFeatures(3),
            TypeError,
            r"divergence=\.\.\.\): must be one of 'js'.* or a callable, got 3; pass a func",
        ),
        (
            NystroemFeatures(n_landmarks=0),
            ValueError,
            r"n_landmarks=\.\.\.\): must be an integer in \[1, 10000\], got 0",
        ),
        (NystroemFeatures(sigma=-1), ValueError, r"sigma=\.\.\.\): must be a number in \(0, inf\), got -1; give a pos"),
        (NystroemFeatures(sigma="mean"), ValueError, r"sigma=\.\.\.\): must be one of 'median', got 'mean'"),
        (
            NystroemFeatures(lambda X, Y=None: np.zeros((2, 3))),
            ValueError,
            r"shape \(10, 10\), .*got \(2, 3\); correct",
        ),
        (NystroemFeatures(gaussian), ValueError, r"must be zero or small between a bag and itself.*pass a divergence"),
        (
            NystroemFeatures(lambda X, Y=None: np.full((10, 10), np.inf)),
            ValueError,
            r"must be finite, got inf in row 0",
        ),
    ],
)
def test_errors_of_features_say_what_to_do(estimator, error, text):
    with pytest.raises(error, match=text):
        estimator.fit(make_bags())


def test_names_are_for_few_dimensions():
    with pytest.raises(ValueError, match=r"'js' must have points of at most 3 dimensions, got 4; use 'knn:kl'"):
        NystroemFeatures().fit(make_bags(n_dims=4))


def test_rounding_is_no_distance():
    """Three bags in four are equal, and their squared distances are rounding, above zero or below."""
    rng = np.random.default_rng(0)
    x = np.where(np.arange(40) % 4 == 0, rng.uniform(1, 3, 40), 0.0)
    d2 = np.subtract.outer(x, x) ** 2
    noisy = d2 + rng.normal(0, 1e-16, d2.shape)
    assert median_sigma(noisy) == pytest.approx(median_sigma(d2))
    assert median_sigma(noisy) > 0.5
    far = d2.copy()
    far[0, 1:] = far[1:, 0] = 1e20  # a bag far from all others changes nothing
    assert median_sigma(far + 1e-3) == pytest.approx(median_sigma(d2 + 1e-3), rel=0.2)


def test_features_of_landmarks_do_not_depend_on_the_batch_where_most_bags_are_equal():
    rng = np.random.default_rng(0)
    spread = np.where(np.arange(40) % 4 == 0, rng.uniform(0.5, 2, 40), 0.0)
    bags = rng.normal(size=(40, 20, 1)) * spread[:, None, None]
    for divergence in ("mmd", MeanEmbedding(200, random_state=0)):
        features = NystroemFeatures(divergence, n_landmarks=10, random_state=0).fit(bags)
        assert features.sigma_ > 1e-3
        alone = np.concatenate([features.transform(bag[None]) for bag in bags])
        assert np.allclose(features.transform(bags), alone, atol=1e-6)
