"""From bags to predictions of kernel machines: matrices to their formulas, new bags one by one, searches and caches."""

import pickle
import tracemalloc

import joblib
import numpy as np
import pytest
from contract import broken_rules
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import exact
from distembed import Bags, HDDEmbedding, UnitCube
from distembed.datasets import make_mixture_components
from distembed.density import bandwidth as bandwidths
from distembed.divergences import knn, plugin
from distembed.kernels import DivergenceMatrix, PSDRepair, RBFKernel, comparisons, median_sigma

KINDS = ["hellinger", "js_entropy", "mmd", "knn:kl", "knn:l2", "gaussian:kl", "gaussian:l2"]
every_kind = pytest.mark.parametrize("name", KINDS)

CALLS = []


def make_bags(n_bags=8, n_dims=2, seed=0, **options):
    rng = np.random.default_rng(seed)
    arrays = [rng.beta(*rng.uniform(1, 5, 2), size=(rng.integers(8, 16), n_dims)) for _ in range(n_bags)]
    return Bags.from_arrays(arrays, **options)


def means_of(bags):
    return np.array([np.average(bag, axis=0, weights=bags.weights_of(i)) for i, bag in enumerate(bags)])


def mean_gap(X, Y=None):
    """Squared distance of means."""
    first = means_of(X)
    return np.sum((first[:, None] - (first if Y is None else means_of(Y))) ** 2, axis=2)


def mean_gap_above(X, Y=None):
    """An asymmetric one: a bag of larger mean is three times as far."""
    first = means_of(X)[:, 0]
    gap = np.subtract.outer(first, first if Y is None else means_of(Y)[:, 0])
    return np.where(gap > 0, 3.0, 1.0) * gap**2


def counted(X, Y=None):
    """Squared distance of means, and a note of what was asked for."""
    CALLS.append((len(X), None if Y is None else len(Y)))
    return mean_gap(X, Y)


def wide_and_narrow(n_bags=40, seed=0, n_points=20):
    """Bags of two widths, text labels, and the widths."""
    rng = np.random.default_rng(seed)
    width = np.where(np.arange(n_bags) % 2, 0.25, 0.08)
    bags = Bags.from_arrays([np.clip(rng.normal(0.5, w, (n_points, 2)), 0, 1) for w in width])
    return bags, np.where(width > 0.1, "wide", "narrow"), width


def svc(divergence="knn:kl", **options):
    return make_pipeline(DivergenceMatrix(divergence), RBFKernel(), PSDRepair(), SVC(kernel="precomputed"), **options)


def ridge(divergence="knn:kl", alpha=0.1, **options):
    return make_pipeline(
        DivergenceMatrix(divergence), RBFKernel(**options), PSDRepair(), KernelRidge(kernel="precomputed", alpha=alpha)
    )


# The contract

# fit_transform: a bag against itself is known there and nowhere else. Copies are no density to neighbours, nor left out
# with their point; weights mean nothing to neighbours; one point has no neighbour and no density without it.
NEIGHBOURS = ("fit_transform", "duplicates", "integer_weights", "weight_scale", "one_point", "uneven_sizes")
LEFT_OUT = ("fit_transform", "duplicates", "integer_weights", "one_point", "uneven_sizes")

CONTRACT = [
    (DivergenceMatrix(), ()),
    (DivergenceMatrix("gaussian:kl", symmetric=False), ()),
    (DivergenceMatrix("js_entropy"), LEFT_OUT),
    (DivergenceMatrix("knn:kl"), NEIGHBOURS),
    (DivergenceMatrix(HDDEmbedding("js", n_basis=4, bandwidth=0.2)), ()),
    (DivergenceMatrix(mean_gap_above), ()),
    (make_pipeline(UnitCube(), DivergenceMatrix("mmd", n_jobs=2), RBFKernel()), ()),
]


@pytest.mark.parametrize(("estimator", "skip"), CONTRACT)
def test_contract(estimator, skip):
    assert broken_rules(estimator, skip) == {}


@parametrize_with_checks([RBFKernel(sigma_scale=0.5)])
def test_scikit_learn(estimator, check):
    check(estimator)


# Divergences


@every_kind
def test_it_is_the_comparison_of_all_pairs(name):
    train, new = make_bags(), make_bags(5, seed=1)
    compare = comparisons.Comparison(name, train, "test")
    seen, rows = compare.look_at(train), compare.look_at(new)
    matrix = DivergenceMatrix(name, symmetric=False)
    assert_allclose(matrix.fit_transform(train), compare(seen), rtol=1e-9, atol=1e-12)
    assert_allclose(matrix.transform(new), compare(rows, seen), rtol=1e-9, atol=1e-12)
    both = DivergenceMatrix(name)
    square = both.fit_transform(train)
    assert_array_equal(square, square.T)
    assert_allclose(square, (compare(seen) + compare(seen).T) / 2, rtol=1e-9, atol=1e-12)
    forth, back = compare(rows, seen), compare(seen, rows).T
    assert_allclose(both.transform(new), (forth + back) / 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("which", ["hellinger", "l2", "kl", "skl"])
def test_gaussian_fits_lean_on_training_bags_alone(which):
    train, new = make_bags(), make_bags(5, seed=1)
    matrix = DivergenceMatrix(f"gaussian:{which}", symmetric=False).fit(train)
    fits, reg = exact.gaussian_fits(list(train)), 1e-3
    pooled = (fits[0][1] - (1 - reg) * exact.bag_covariance(train[0])) / reg
    others = [(exact.bag_mean(bag), (1 - reg) * exact.bag_covariance(bag) + reg * pooled) for bag in new]
    for found, rows in ((matrix.transform(new), others), (matrix.transform(train), fits)):
        wanted = [[exact.gaussian_divergence(*p, *q, which) for q in fits] for p in rows]
        assert_allclose(found, wanted, atol=1e-9 * np.max(np.abs(wanted)))


@every_kind
def test_only_the_diagonal_knows_that_a_bag_is_itself(name):
    train = make_bags()
    matrix = DivergenceMatrix(name)
    square = matrix.fit_transform(train)
    as_new = matrix.transform(train)
    off = ~np.eye(len(square), dtype=bool)
    assert_allclose(as_new[off], square[off], rtol=1e-9, atol=1e-12)
    assert_allclose(np.diag(square), 0, atol=1e-12)
    if name.startswith("knn:") or name == "js_entropy":  # a point is its own neighbour, or part of its own density
        assert np.all(np.abs(np.diag(as_new)) > 1e-3)
    else:
        assert_allclose(np.diag(as_new), 0, atol=1e-12)


@every_kind
def test_rows_of_new_bags_do_not_depend_on_each_other(name):
    train, new = make_bags(), make_bags(6, seed=1)
    far = Bags.from_arrays([*new, np.random.default_rng(2).uniform(0.9, 1, (40, 2))])
    for symmetric in (True, False):
        matrix = DivergenceMatrix(name, symmetric=symmetric).fit(train)
        whole = matrix.transform(new)
        for i in range(len(new)):
            assert_allclose(matrix.transform(new[[i]]), whole[[i]], rtol=1e-9, atol=1e-12)
        assert_allclose(matrix.transform(far)[:-1], whole, rtol=1e-9, atol=1e-12)


@every_kind
def test_chunks_and_threads_do_not_show(name):
    train, new = make_bags(5), make_bags(11, seed=1)
    matrix = DivergenceMatrix(name, n_jobs=1).fit(train)
    whole = matrix.transform(new)
    assert_array_equal(DivergenceMatrix(name, n_jobs=2).fit(train).transform(new), whole)
    matrix.chunk_bags = 3
    assert_allclose(matrix.transform(new), whole, rtol=1e-9, atol=1e-12)


def test_fit_and_fit_transform_leave_the_same_behind():
    train, new = make_bags(), make_bags(4, seed=1)
    for divergence in ("knn:kl", "js", mean_gap_above, HDDEmbedding("js", n_basis=3)):
        first, second = DivergenceMatrix(divergence).fit(train), DivergenceMatrix(divergence)
        second.fit_transform(train)
        assert_array_equal(first.transform(new), second.transform(new))
        assert first.n_bags_ == second.n_bags_ == len(train)


def test_both_directions_of_a_callable_are_averaged():
    train, new = make_bags(), make_bags(5, seed=1)
    gaps = [np.subtract.outer(means_of(x)[:, 0], means_of(train)[:, 0]) ** 2 for x in (train, new)]
    matrix = DivergenceMatrix(mean_gap_above)
    assert_allclose(matrix.fit_transform(train), 2 * gaps[0], atol=1e-15)  # (3 + 1) / 2
    assert_allclose(matrix.transform(new), 2 * gaps[1], atol=1e-15)
    one_way = DivergenceMatrix(mean_gap_above, symmetric=False)
    assert_array_equal(one_way.fit_transform(train), mean_gap_above(train))
    assert_array_equal(one_way.transform(new), mean_gap_above(new, train))


def test_one_training_bag_says_nothing_about_directions():
    train, new = make_bags(1), make_bags(5, seed=1)
    matrix = DivergenceMatrix(mean_gap_above)
    assert_array_equal(matrix.fit_transform(train), [[0]])
    assert_allclose(matrix.transform(new), 2 * (means_of(new)[:, :1] - means_of(train)[0, 0]) ** 2, atol=1e-15)


def test_callables_are_asked_for_no_more_than_is_needed():
    train, new = make_bags(), make_bags(5, seed=1)
    CALLS.clear()
    matrix = DivergenceMatrix(counted)
    matrix.fit_transform(train)
    matrix.transform(new)
    assert CALLS == [(8, None), (5, 8)]  # symmetric, as the training matrix shows
    CALLS.clear()
    DivergenceMatrix(counted).fit(train).transform(new)
    assert CALLS == [(1, 8), (5, 8), (8, 5)]


def test_an_embedding_gives_distances_of_features():
    train, new = make_bags(), make_bags(5, seed=1)
    embedding = HDDEmbedding("js", n_basis=4, bandwidth=0.2)
    matrix = DivergenceMatrix(embedding)
    square = matrix.fit_transform(train)
    A = clone(embedding).fit(train).transform(train)
    B = clone(embedding).fit(train).transform(new)
    assert_allclose(square, np.sum((A[:, None] - A) ** 2, axis=2), atol=1e-12)
    assert_allclose(matrix.transform(new), np.sum((B[:, None] - A) ** 2, axis=2), atol=1e-12)
    assert "divergence__n_basis" in matrix.get_params()


def test_categorical_columns_are_for_embeddings_that_take_them():
    table = {"x": [0.1, 0.2, 0.5, 0.8, 0.3, 0.4], "sex": list("fmffmm"), "bag": [0, 0, 1, 1, 2, 2]}
    bags = Bags.from_frame(table, bag="bag", categorical=["sex"])
    assert DivergenceMatrix(HDDEmbedding("js", n_basis=3, bandwidth=0.2)).fit_transform(bags).shape == (3, 3)
    for divergence in ("knn:kl", "mmd", mean_gap):
        with pytest.raises(ValueError, match=r"DivergenceMatrix: X must have no categorical columns, got 'sex'"):
            DivergenceMatrix(divergence).fit(bags)


def test_float32_comes_out_as_it_went_in_and_finite():
    train, new = make_bags(), make_bags(5, seed=1)
    matrix = DivergenceMatrix("knn:kl")
    square, single = matrix.fit_transform(train), matrix.fit_transform(train.astype(np.float32))
    assert (square.dtype, single.dtype) == (np.float64, np.float32)
    assert_array_equal(single, single.T)
    assert_allclose(single, square, atol=1e-3)
    assert matrix.transform(new.astype(np.float32)).dtype == np.float32
    # Densities of equal points are huge: l2 is in their units, and larger than any float32.
    equal = Bags.from_arrays([np.full((5, 3), 0.5), np.full((5, 3), 0.25)])
    assert DivergenceMatrix("knn:l2").fit_transform(equal).max() > 1e39
    found = DivergenceMatrix("knn:l2").fit_transform(equal.astype(np.float32))
    assert np.isfinite(found).all()
    assert found.max() == np.finfo(np.float32).max


def test_names_of_columns():
    named = make_bags(3, ids=["u", "v", "w"])
    repeated = named[[1, 1]]  # names must differ
    for bags, names in (
        (make_bags(2), ["bag0", "bag1"]),
        (named, ["u", "v", "w"]),
        (repeated, ["bag0", "bag1"]),
        (make_bags(2, ids=[7, 9]), ["7", "9"]),
    ):
        assert list(DivergenceMatrix(mean_gap).fit(bags).get_feature_names_out()) == names


def test_names_of_columns_go_through_the_pipeline():
    pytest.importorskip("pandas")
    train, new = make_bags(4, ids=list("stuv")), make_bags(3, seed=1)
    steps = make_pipeline(DivergenceMatrix(mean_gap), RBFKernel(), PSDRepair()).set_output(transform="pandas")
    for frame in (steps.fit_transform(train), steps.transform(new)):
        assert list(frame.columns) == list("stuv") == list(steps.get_feature_names_out())


def cheap(X, Y=None):
    first = X.points.reshape(X.n_bags, -1).mean(axis=1)
    second = first if Y is None else Y.points.reshape(Y.n_bags, -1).mean(axis=1)
    return np.subtract.outer(first, second) ** 2


def test_memory_beside_the_result_does_not_grow_with_new_bags():
    points = np.random.default_rng(0).uniform(size=(4000, 4, 1))
    matrix = DivergenceMatrix(cheap).fit(points[:100])
    peaks = []
    for n in (1000, 4000):
        bags = Bags.from_arrays(points[:n])
        tracemalloc.start()
        out = matrix.transform(bags)
        peaks.append(tracemalloc.get_traced_memory()[1] - out.nbytes)
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


# Kernels of distances


def test_kernels_are_their_formula():
    rng = np.random.default_rng(0)
    d2, rows = mean_gap(make_bags(9)), rng.normal(1, 1, (4, 9))
    assert (rows < 0).any()
    for kernel, sigma in (
        (RBFKernel(), median_sigma(d2)),
        (RBFKernel(sigma_scale=3), 3 * median_sigma(d2)),
        (RBFKernel(0.5, sigma_scale=0.5), 0.25),
    ):
        assert_allclose(kernel.fit_transform(d2), exact.rbf_kernel(d2, sigma), rtol=1e-12)
        assert_allclose(kernel.transform(rows), exact.rbf_kernel(rows, sigma), rtol=1e-12)
        assert kernel.sigma_ == pytest.approx(sigma, rel=1e-14)


def test_kernels_keep_float32():
    d2 = mean_gap(make_bags(9)).astype(np.float32)
    kernel = RBFKernel()
    assert kernel.fit_transform(d2).dtype == kernel.transform(d2[:2]).dtype == np.float32
    assert isinstance(kernel.sigma_, float)
    assert kernel.transform(d2[:2].astype(np.float64)).dtype == np.float64


@pytest.mark.parametrize(
    ("kernel", "X", "error", "text"),
    [
        (
            RBFKernel(0),
            np.eye(2),
            ValueError,
            r"RBFKernel\(sigma=\.\.\.\): must be a number in \(0, inf\), got 0; give",
        ),
        (RBFKernel("mean"), np.eye(2), ValueError, r"RBFKernel\(sigma=\.\.\.\): must be one of 'median', got 'mean'"),
        (RBFKernel(None), np.eye(2), TypeError, r"RBFKernel\(sigma=\.\.\.\): must be a number .*got None"),
        (
            RBFKernel(sigma_scale=-1),
            np.eye(2),
            ValueError,
            r"RBFKernel\(sigma_scale=\.\.\.\): must be .*got -1; choose",
        ),
        (
            RBFKernel(),
            np.ones((2, 3)),
            ValueError,
            r"RBFKernel: fit must have a square .*\(2, 3\); pass rows of new bags",
        ),
        (RBFKernel(), [[0, np.nan], [1, 0]], ValueError, "NaN"),
    ],
)
def test_errors_of_kernels_say_what_to_do(kernel, X, error, text):
    with pytest.raises(error, match=text):
        kernel.fit(X)


def test_rows_of_the_wrong_width_are_refused():
    with pytest.raises(ValueError, match="has 3 features, but RBFKernel is expecting 2"):
        RBFKernel().fit(np.ones((2, 2))).transform(np.ones((1, 3)))


# Errors of divergences


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"divergence": "jss"},
            ValueError,
            r"DivergenceMatrix\(divergence=\.\.\.\): must be one of 'js'.*got 'jss'; cho",
        ),
        ({"divergence": "kl"}, ValueError, r"DivergenceMatrix\(divergence=\.\.\.\): must be one of 'js'.*got 'kl'"),
        ({"divergence": "knn:jss"}, ValueError, r"DivergenceMatrix\(divergence=\.\.\.\): must be one of 'knn:kl'.*jss"),
        ({"divergence": "knn:bc"}, ValueError, r"DivergenceMatrix\(divergence=\.\.\.\): must be one of 'knn:kl'.*:bc"),
        ({"divergence": "knn:renyi:1"}, ValueError, r"'renyi:<a>' must be a positive number other than 1.*write"),
        (
            {"divergence": "gaussian:x"},
            ValueError,
            r"DivergenceMatrix\(divergence=\.\.\.\): must be one of 'gaussian:h",
        ),
        ({"divergence": None}, TypeError, r"DivergenceMatrix\(divergence=\.\.\.\): .*got None; pass a function"),
        (
            {"divergence": HDDEmbedding},
            TypeError,
            r"DivergenceMatrix\(divergence=\.\.\.\): must be .*got .*HDDEmbedding.*not its class",
        ),
        (
            {"divergence": lambda X, Y=None: np.zeros((2, 3))},
            ValueError,
            r"DivergenceMatrix\(divergence=\.\.\.\): must return a matrix of shape \(., 8\).*got \(2, 3\); correct the",
        ),
        (
            {"divergence": lambda X, Y=None: np.full((len(X), 8), np.nan)},
            ValueError,
            r"DivergenceMatrix\(divergence=\.\.\.\): must be finite, got nan in row 0, column 0; replace",
        ),
        (
            {"divergence": lambda X, Y=None: [["far"]]},
            TypeError,
            r"DivergenceMatrix\(divergence=\.\.\.\): must be a matrix of numbers, got dtype <U3; convert",
        ),
        ({"symmetric": "yes"}, TypeError, r"DivergenceMatrix\(symmetric=\.\.\.\): must be True or False, got 'yes'"),
        ({"symmetric": 1}, TypeError, r"DivergenceMatrix\(symmetric=\.\.\.\): must be True or False, got 1; choose"),
        ({"n_jobs": 0}, ValueError, r"n_jobs: must not be 0"),
    ],
)
def test_errors_say_what_to_do(options, error, text):
    for method in ("fit", "fit_transform"):
        with pytest.raises(error, match=text):
            getattr(DivergenceMatrix(**options), method)(make_bags())


def test_fit_refuses_what_the_divergence_refuses():
    single = Bags.from_arrays([[0.1, 0.2], [0.5], [0.3, 0.4]])
    with pytest.raises(ValueError, match=r"knn.*at least 2 points.*got 1 in bag 1; leave that bag out"):
        DivergenceMatrix("knn:kl").fit(single)
    with pytest.raises(ValueError, match=r"unit cube.*bag 1 has 1\.5.*UnitCube"):
        DivergenceMatrix("js").fit([[0.1, 0.2], [0.5, 1.5]])
    with pytest.raises(ValueError, match=r"DivergenceMatrix\(divergence=\.\.\.\): 'js' must have points of at most 3"):
        DivergenceMatrix("js").fit(make_bags(n_dims=4))


def test_errors_about_many_new_bags_name_the_bag():
    new = [[0.1, 0.2]] * 7 + [[0.5]]
    matrix = DivergenceMatrix("knn:kl").fit([[0.1, 0.2, 0.4], [0.2, 0.6]])
    matrix.chunk_bags = 3
    with pytest.raises(ValueError, match=r"at least 2 points.*\(id 7\)"):
        matrix.transform(new)
    with pytest.raises(ValueError, match=r"at least 2 points.*\(id 'last'\)"):
        matrix.transform(Bags.from_arrays(new, ids=[*"abcdefg", "last"]))


# Kernel machines


def test_kernel_ridge_is_its_formula():
    """(K + αI)⁻¹ y with matrices of the function, and with those of the judge: kernels summed, integrals by Gauss."""
    train, new = make_bags(10, 1), make_bags(6, 1, seed=1)
    y, sigma, alpha = means_of(train)[:, 0], 0.3, 0.05
    model = make_pipeline(DivergenceMatrix("js"), RBFKernel(sigma), KernelRidge(kernel="precomputed", alpha=alpha)).fit(
        train, y
    )
    h = bandwidths.resolve("distance", train, ("reflect",))

    def by_hand(square, rows):
        K, k = (exact.rbf_kernel(d2, sigma) for d2 in (square, rows))
        return k @ np.linalg.solve(K + alpha * np.eye(10), y)

    fast = by_hand(plugin(train, bandwidth=h), plugin(new, train, bandwidth=h))
    assert_allclose(model.predict(new), fast, rtol=1e-9)
    nodes, weights = exact.box_quadrature(1, n_nodes=1024)
    p, q = ([exact.kde(bag, nodes, h) for bag in bags] for bags in (train, new))
    d2 = exact.pairwise_distances([*p, *q], "js", weights)
    assert_allclose(model.predict(new), by_hand(d2[:10, :10], d2[10:, :10]), atol=0.01 * np.ptp(y))


def test_kernel_ridge_on_an_embedding_is_that_of_its_features():
    bags, _, width = wide_and_narrow()
    embedding = HDDEmbedding("js", n_basis=5, bandwidth=0.1)
    model = ridge(embedding, sigma=0.3).fit(bags[:30], width[:30])
    A = clone(embedding).fit(bags[:30]).transform(bags)
    features = KernelRidge(kernel="rbf", gamma=1 / (2 * 0.3**2), alpha=0.1).fit(A[:30], width[:30])
    assert_allclose(model.predict(bags[30:]), features.predict(A[30:]), rtol=1e-7)


def test_support_vectors_are_those_of_the_same_matrices():
    bags, label, _ = wide_and_narrow()
    square, rows = knn(bags[:30]), knn(bags[30:], bags[:30])
    square, rows = (square + square.T) / 2, (rows + knn(bags[:30], bags[30:]).T) / 2
    sigma = median_sigma(square)
    repair = PSDRepair().fit(exact.rbf_kernel(square, sigma))
    machine = SVC(kernel="precomputed").fit(exact.repaired_kernel(exact.rbf_kernel(square, sigma), "clip"), label[:30])
    model = svc().fit(bags[:30], label[:30])
    wanted = machine.decision_function(repair.transform(exact.rbf_kernel(rows, sigma)))
    assert_allclose(model.decision_function(bags[30:]), wanted, atol=1e-5)  # the tolerance of its solver is 1e-3
    assert_array_equal(model.predict(bags[30:]), machine.predict(repair.transform(exact.rbf_kernel(rows, sigma))))


@pytest.mark.parametrize("divergence", ["knn:kl", "js", "gaussian:skl", mean_gap])
def test_predictions_do_not_depend_on_the_other_new_bags(divergence):
    bags, _, width = wide_and_narrow()
    model = ridge(divergence).fit(bags[:25], width[:25])
    together = model.predict(bags[25:])
    alone = [model.predict(bags[[i]])[0] for i in range(25, 40)]
    assert_allclose(alone, together, rtol=1e-8)


def test_the_first_step_says_how_to_slice():
    assert not get_tags(svc()).input_tags.pairwise
    assert not get_tags(ridge()).input_tags.pairwise
    assert get_tags(RBFKernel()).input_tags.pairwise
    assert get_tags(make_pipeline(RBFKernel(), PSDRepair(), SVC(kernel="precomputed"))).input_tags.pairwise


@pytest.mark.parametrize("kind", ["Bags", "list"])
def test_cross_validation_of_bags(kind):
    bags, label, width = wide_and_narrow(24)
    X = bags if kind == "Bags" else list(bags)
    folds = [(np.setdiff1d(np.arange(24), test), test) for test in np.arange(24).reshape(3, 8)]
    scores, predicted = [], np.empty(24, label.dtype)
    for train, test in folds:
        model = svc().fit(bags[train], label[train])
        predicted[test] = model.predict(bags[test])
        scores.append(model.score(bags[test], label[test]))
    assert_array_equal(cross_val_score(svc(), X, label, cv=folds, error_score="raise"), scores)
    assert_array_equal(cross_val_predict(svc(), X, label, cv=folds), predicted)
    grid = {"rbfkernel__sigma_scale": [0.5, 1], "psdrepair__method": ["clip", "flip"], "svc__C": [1, 10]}
    search = GridSearchCV(svc(), grid, cv=folds, error_score="raise").fit(X, label)
    assert search.best_score_ >= np.mean(scores)
    assert set(search.predict(X[:4])) <= {"wide", "narrow"}
    assert cross_val_score(ridge(), X, width, cv=folds, error_score="raise").min() > 0


def test_several_targets():
    bags, _, width = wide_and_narrow()
    y = np.stack([width, 1 / width], axis=1)
    model = ridge(alpha=0.01).fit(bags[:30], y[:30])
    found = model.predict(bags[30:])
    assert found.shape == (10, 2)
    for j in range(2):
        assert_allclose(found[:, j], ridge(alpha=0.01).fit(bags[:30], y[:30, j]).predict(bags[30:]), rtol=1e-9)
    assert cross_val_predict(ridge(), bags, y, cv=3).shape == (40, 2)


def test_groups_of_bags_stay_together():
    bags, label, _ = wide_and_narrow()
    groups = np.arange(40) // 4
    scores = cross_val_score(svc(), bags, label, groups=groups, cv=GroupKFold(5), error_score="raise")
    by_hand = []
    for train, test in GroupKFold(5).split(np.arange(40), groups=groups):
        assert not set(groups[train]) & set(groups[test])
        by_hand.append(svc().fit(bags[train], label[train]).score(bags[test], label[test]))
    assert_array_equal(scores, by_hand)
    search = GridSearchCV(svc(), {"svc__C": [0.1, 10]}, cv=GroupKFold(5), error_score="raise")
    assert search.fit(bags, label, groups=groups).best_score_ > 0.8


def test_cross_validation_on_divergences_computed_once():
    """A divergence that fits nothing to bags gives the same scores from one matrix, sliced by rows and columns."""
    bags, label, _ = wide_and_narrow()
    on_matrix = make_pipeline(RBFKernel(), PSDRepair(), SVC(kernel="precomputed"))
    D = DivergenceMatrix("knn:kl").fit_transform(bags)
    assert_array_equal(cross_val_score(on_matrix, D, label, cv=4), cross_val_score(svc(), bags, label, cv=4))


GRID = {"rbfkernel__sigma_scale": [0.5, 1], "psdrepair__method": ["clip", "flip"], "svc__C": [1, 10]}


@pytest.mark.parametrize("kind", ["Bags", "list"])
def test_a_cache_keeps_the_matrices_of_folds(kind, tmp_path):
    """One square a fold and one for the refit. Rows of validation bags are asked for each of the 8 settings."""
    bags, label, _ = wide_and_narrow(24)
    X = bags if kind == "Bags" else list(bags)
    results = []
    for memory, squares in ((None, 3 * 8 + 1), (joblib.Memory(tmp_path, verbose=0), 3 + 1)):
        CALLS.clear()
        search = GridSearchCV(svc(counted, memory=memory), GRID, cv=3, error_score="raise").fit(X, label)
        assert sum(columns is None for _, columns in CALLS) == squares
        assert [call for call in CALLS if call[1] is not None] == [(8, 16)] * (3 * 8)
        results.append(search.cv_results_["mean_test_score"])
    assert_array_equal(*results)
    CALLS.clear()
    GridSearchCV(svc(counted, memory=joblib.Memory(tmp_path, verbose=0)), GRID, cv=3).fit(X, label)
    assert all(columns is not None for _, columns in CALLS)  # the cache is on disk: nothing square is left to do


def test_a_search_on_divergences_computed_once_asks_once():
    bags, label, _ = wide_and_narrow(24)
    CALLS.clear()
    D = DivergenceMatrix(counted).fit_transform(bags)
    search = GridSearchCV(make_pipeline(RBFKernel(), PSDRepair(), SVC(kernel="precomputed")), GRID, cv=3).fit(D, label)
    assert CALLS == [(24, None)]
    on_bags = GridSearchCV(svc(counted), GRID, cv=3).fit(bags, label)
    assert_array_equal(search.cv_results_["mean_test_score"], on_bags.cv_results_["mean_test_score"])


def test_bags_have_one_hash():
    """What a cache goes by: the same for equal bags, however they were made, and another for other bags."""

    def make():
        return make_bags(6, ids=list("abcdef"), weights=[np.ones(len(bag)) for bag in make_bags(6)], columns=["u", "v"])

    bags = make()
    same = [make(), pickle.loads(pickle.dumps(bags)), bags[:], bags[np.arange(6)], bags[[0, 1, 2, 3, 4, 5]]]
    assert {joblib.hash(each) for each in same} == {joblib.hash(bags)}
    assert joblib.hash(bags[1:4]) == joblib.hash(make()[[1, 2, 3]])
    others = [bags[:5], bags[::-1], bags.astype(np.float32), Bags(bags.points, bags.offsets), make_bags(6, seed=1)]
    assert len({joblib.hash(each) for each in [bags, *others]}) == 6


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_models_survive_pickle_and_clone():
    bags, label, _ = wide_and_narrow()
    for divergence in ("knn:kl", "gaussian:kl", HDDEmbedding("js", n_basis=3)):
        model = svc(divergence).fit(bags[:30], label[:30])
        wanted = model.decision_function(bags[30:])
        assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(bags[30:]), wanted)
        assert_array_equal(clone(model).fit(bags[:30], label[:30]).decision_function(bags[30:]), wanted)


def test_one_or_four_components():
    """The number of components of a mixture, from bags of 100 points."""
    bags, y = make_mixture_components(800, 100, random_state=0)
    chosen = np.concatenate([np.flatnonzero(y == 1)[:60], np.flatnonzero(y == 4)[:60]])
    chosen = np.random.default_rng(0).permutation(chosen)
    train, test = chosen[:60], chosen[60:]
    assert len(test) == 60
    model = svc().fit(bags[train], y[train])
    assert model.score(bags[test], y[test]) > 0.8  # chance is .5, with a standard error of .065
