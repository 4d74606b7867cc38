"""Any divergence by its name, a function or an embedding: the same numbers as the function, and as the judge's."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

import exact
from distembed import Bags, HDDEmbedding, MeanEmbedding, MomentEmbedding, UnitCube, distances
from distembed.density import bandwidth as bandwidths
from distembed.divergences import gaussian, js_entropy, knn, mmd, plugin
from distembed.divergences.kernel_sums import resolve_widths
from distembed.features.medians import median_distance_of_bags
from distembed.kernels import comparisons
from distembed.kernels.comparisons import Comparison, is_embedding

PLUGIN = ["js", "hellinger", "tv", "chi2"]
NEIGHBOURS = ["kl", "renyi:0.9", "renyi:2", "tsallis:0.5", "hellinger", "l2"]
GAUSSIAN = ["hellinger", "l2", "kl", "skl"]
NAMES = [
    *PLUGIN,
    "js_entropy",
    "mmd",
    *(f"knn:{each}" for each in NEIGHBOURS),
    *(f"gaussian:{each}" for each in GAUSSIAN),
]
every_name = pytest.mark.parametrize("name", NAMES)


def make_bags(n_bags=6, n_dims=2, seed=0, sizes=(8, 16)):
    rng = np.random.default_rng(seed)
    return Bags.from_arrays(
        [rng.beta(*rng.uniform(1, 5, 2), size=(rng.integers(*sizes), n_dims)) for _ in range(n_bags)]
    )


def first_mean_gap(X, Y=None):
    """An asymmetric one: a bag of larger mean is three times as far."""
    first, second = ([np.mean(bag) for bag in each] for each in (X, X if Y is None else Y))
    gap = np.subtract.outer(first, second)
    return np.where(gap > 0, 3.0, 1.0) * gap**2


def function_of(name, train):
    """The divergence of that name with the bandwidth or scale that these bags give, by public functions."""
    kind, _, which = name.partition(":")
    if kind == "knn":
        return partial(knn, divergence=which)
    if kind == "gaussian":
        return partial(gaussian, divergence=which)
    if name == "mmd":
        return partial(mmd, sigma=median_distance_of_bags(train, np.random.RandomState(0)))
    if name == "js_entropy":
        return partial(js_entropy, bandwidth=resolve_widths("likelihood", train, ("none",) * train.n_dims, 1.0))
    h = bandwidths.resolve("distance", train, ("reflect",) * train.n_dims)
    return partial(plugin, distance=name, bandwidth=h)


def judge_of(name, train):
    """The same for one pair of bags, by plain formulas, and how near to them the fast one is."""
    kind, _, which = name.partition(":")
    if kind == "knn":
        return (lambda p, q: exact.neighbour_divergence(p, q, which, 4)), 1e-9
    if name == "mmd":
        sigma = median_distance_of_bags(train, np.random.RandomState(0))
        return (lambda p, q: exact.mmd(p, q, sigma)), 1e-9
    h = bandwidths.resolve("distance", train, ("reflect",) * train.n_dims)
    nodes, weights = exact.box_quadrature(train.n_dims, n_nodes=64)
    return (lambda p, q: weights @ exact.kappa(exact.kde(p, nodes, h), exact.kde(q, nodes, h), name)), 0.01


# Names


def test_names_come_from_the_tables_of_divergences():
    assert comparisons.available()[:4] == distances.available()
    patterns = {name.replace("0.9", "<a>").replace("0.5", "<a>") for name in NAMES if not name.endswith(":2")}
    assert set(comparisons.available()) == patterns


@every_name
def test_names_are_their_functions(name):
    train, new = make_bags(), make_bags(4, seed=1)
    compare, function = Comparison(name, train, "test"), function_of(name, train)
    seen = compare.look_at(train)
    assert_allclose(compare(seen), function(train), rtol=1e-10, atol=1e-12)
    if not name.startswith("gaussian:"):  # whose fits lean on the bags that are compared
        assert_allclose(compare(compare.look_at(new), seen), function(new, train), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [*PLUGIN, "mmd", "knn:kl", "knn:renyi:0.9", "knn:hellinger", "knn:l2"])
def test_names_are_what_the_judge_says(name):
    train, new = make_bags(5), make_bags(3, seed=1)
    compare, (judge, tolerance) = Comparison(name, train, "test"), judge_of(name, train)
    found = compare(compare.look_at(new), compare.look_at(train))
    wanted = np.array([[judge(p, q) for q in train] for p in new])
    assert_allclose(found, wanted, atol=tolerance * np.abs(wanted).max())


def test_gaussian_names_are_what_the_judge_says():
    train = make_bags(5)
    fits = exact.gaussian_fits(list(train))
    for which in GAUSSIAN:
        compare = Comparison(f"gaussian:{which}", train, "test")
        wanted = [[exact.gaussian_divergence(*p, *q, which) for q in fits] for p in fits]
        assert_allclose(compare(compare.look_at(train)), wanted, atol=1e-9 * np.max(np.abs(wanted)))


@every_name
def test_symmetry_is_known_by_name_and_true(name):
    train = make_bags()
    compare = Comparison(name, train, "test")
    d2 = compare(compare.look_at(train))
    assert compare.is_symmetric == (name != "gaussian:kl" and not name.startswith("knn:"))
    assert np.allclose(d2, d2.T, rtol=0, atol=1e-10 * np.abs(d2).max()) == compare.is_symmetric


@every_name
def test_what_is_fitted_is_fitted_to_training_bags(name):
    """Other bags in the same call change nothing, but for the pooled covariances of Gaussian fits."""
    train, new = make_bags(), make_bags(5, seed=1)
    compare = Comparison(name, train, "test")
    seen, rows = compare.look_at(train), compare.look_at(new)
    one = compare.both_ways(rows[:1], seen)
    tolerance = 1e-2 if name.startswith("gaussian:") else 1e-10
    assert_allclose(compare.both_ways(rows, seen)[:1], one, rtol=tolerance, atol=tolerance * np.abs(one).max())


@every_name
def test_threads_and_pickles_do_not_show(name):
    train, new = make_bags(), make_bags(4, seed=1)
    compare = Comparison(name, train, "test", n_jobs=1)
    rows, seen = compare.look_at(new), compare.look_at(train)
    wanted = compare(rows, seen)
    assert_array_equal(Comparison(name, train, "test", n_jobs=2)(rows, seen), wanted)
    assert_array_equal(pickle.loads(pickle.dumps(compare))(rows, seen), wanted)


@every_name
def test_points_without_weight_are_absent(name):
    train = make_bags()
    points = np.concatenate([train.points, np.full((1, 2), 0.9)])
    ghost = Bags(points, [*train.offsets[:-1], len(points)], weights=[*np.ones(train.n_points), 0])
    compare, haunted = Comparison(name, train, "test"), Comparison(name, ghost, "test")
    assert_allclose(haunted(haunted.look_at(ghost)), compare(compare.look_at(train)), rtol=1e-9, atol=1e-12)


def test_what_is_looked_at_is_float64_and_cut_like_bags():
    single = make_bags(5).astype(np.float32)
    for divergence in ("knn:kl", first_mean_gap):
        compare = Comparison(divergence, single, "test")
        seen = compare.look_at(single)
        assert seen.dtype == np.float64
        assert compare(seen).dtype == np.float64
        assert_array_equal(compare(seen[1:3], seen[2:]), compare(seen, seen)[1:3, 2:])
    features = Comparison(MeanEmbedding(6, random_state=0), single, "test").look_at(single)
    assert features.shape == (5, 6)
    assert features.dtype == np.float64


# Embeddings and callables


@pytest.mark.parametrize(
    "embedding",
    [
        HDDEmbedding("hellinger", n_basis=4, bandwidth=0.2),
        MeanEmbedding(8, random_state=0),
        make_pipeline(UnitCube(), HDDEmbedding("js", n_basis=3)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_embeddings_are_distances_of_features(embedding):
    train, new = make_bags(), make_bags(3, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparisons, "plugin", None)  # no divergence of pairs is asked
        compare = Comparison(embedding, train, "test")
        seen, rows = compare.look_at(train), compare.look_at(new)
        found, square = compare.both_ways(rows, seen), compare.both_ways(seen)
    fitted = embedding.fit(train)
    A, B = fitted.transform(train), fitted.transform(new)
    scale = np.sum(A**2, axis=1).max()
    assert_allclose(found, np.sum((B[:, None] - A) ** 2, axis=2), atol=1e-13 * scale)
    assert_allclose(square, np.sum((A[:, None] - A) ** 2, axis=2), atol=1e-13 * scale)
    assert_array_equal(np.diag(square), 0)
    assert compare.is_symmetric


def test_an_embedding_is_cloned():
    embedding = HDDEmbedding("js", n_basis=3)
    Comparison(embedding, make_bags(), "test")
    assert not hasattr(embedding, "bandwidth_")


def test_both_directions_of_a_callable_are_averaged():
    train, new = make_bags(5, 1), make_bags(4, 1, seed=1)
    compare = Comparison(first_mean_gap, train, "test")
    seen, rows = compare.look_at(train), compare.look_at(new)
    assert compare.is_symmetric is None
    square = compare.both_ways(seen)
    assert compare.is_symmetric is False
    assert_array_equal(square, square.T)
    means = [np.array([np.mean(bag) for bag in bags]) for bags in (train, new)]
    assert_allclose(square, 2 * np.subtract.outer(means[0], means[0]) ** 2, atol=1e-15)  # (3 + 1) / 2
    assert_allclose(compare.both_ways(rows, seen), 2 * np.subtract.outer(means[1], means[0]) ** 2, atol=1e-15)


def test_a_symmetric_callable_is_found_out_and_asked_once():
    calls = []

    def spy(X, Y=None):
        calls.append(Y is None)
        return mmd(X, Y, sigma=0.3)

    train = make_bags(4)
    compare = Comparison(spy, train, "test")
    seen = compare.look_at(train)
    compare.both_ways(seen[:2], seen)
    assert calls == [False, False]  # nothing is known yet
    compare.both_ways(seen)
    assert compare.is_symmetric is True
    compare.both_ways(seen[:2], seen)
    assert calls == [False, False, True, False]


def test_embeddings_are_told_from_functions_and_classes():
    assert is_embedding(HDDEmbedding())
    assert is_embedding(make_pipeline(UnitCube(), HDDEmbedding()))
    assert not any(map(is_embedding, (HDDEmbedding, plugin, "js", None, 3)))


# Errors


@pytest.mark.parametrize(
    ("divergence", "error", "text"),
    [
        ("jss", ValueError, r"Own\(divergence=\.\.\.\): must be one of 'js', .*'gaussian:<name>', got 'jss'; choose"),
        ("kl", ValueError, r"Own\(divergence=\.\.\.\): .*got 'kl'"),
        ("knn:bc", ValueError, r"Own\(divergence=\.\.\.\): must be one of 'knn:kl', .*'knn:l2', got 'knn:bc'"),
        ("knn:linear", ValueError, r"Own\(divergence=\.\.\.\): must be one of 'knn:kl'"),
        ("knn:", ValueError, r"Own\(divergence=\.\.\.\): must be one of 'knn:kl'"),
        ("gaussian:linear", ValueError, r"Own\(divergence=\.\.\.\): must be one of 'gaussian:hellinger'"),
        (3, TypeError, r"Own\(divergence=\.\.\.\): must be one of 'js'.*, an embedding or a callable, got 3; pass"),
        (None, TypeError, r"Own\(divergence=\.\.\.\): must be one of 'js'.*got None; pass a function"),
    ],
)
def test_unknown_divergences(divergence, error, text):
    with pytest.raises(error, match=text):
        Comparison(divergence, make_bags(), "Own")


def test_owners_are_named_by_their_class():
    with pytest.raises(ValueError, match=r"^HDDEmbedding\(divergence=\.\.\.\): must be one of"):
        Comparison("jss", make_bags(), HDDEmbedding())


@pytest.mark.parametrize(
    ("matrix", "error", "text"),
    [
        (np.zeros((2, 3)), ValueError, r"Own\(divergence=.*must return a matrix of shape \(4, 4\), one row .*\(2, 3\)"),
        (np.zeros(4), ValueError, r"Own\(divergence=\.\.\.\): must be a matrix, not empty, got shape \(4,\)"),
        (np.full((4, 4), np.nan), ValueError, r"Own\(divergence=.*must be finite, got nan in row 0, column 0; replace"),
        (np.full((4, 4), np.inf), ValueError, r"Own\(divergence=\.\.\.\): must be finite, got inf"),
        (np.full((4, 4), "a"), TypeError, r"Own\(divergence=\.\.\.\): must be a matrix of numbers, got dtype <U1"),
        (None, TypeError, r"Own\(divergence=\.\.\.\): must be a matrix of numbers, got dtype object"),
    ],
)
def test_callables_that_return_something_else(matrix, error, text):
    train = make_bags(4)
    compare = Comparison(lambda X, Y=None: matrix, train, "Own")
    with pytest.raises(error, match=text):
        compare(compare.look_at(train))


def test_what_all_features_have_in_common_costs_no_digits():
    train, new = make_bags(5), make_bags(3, seed=1)
    for shift in (0.0, 1e8):
        both = [Bags(bags.points + shift, bags.offsets) for bags in (train, new)]
        compare = Comparison(MomentEmbedding("mean"), both[0], "Own")
        seen, other = (compare.look_at(bags) for bags in both)
        assert_allclose(compare(seen), np.sum((seen[:, None] - seen) ** 2, axis=2), rtol=1e-12, atol=1e-15)
        assert_allclose(compare(other, seen), np.sum((other[:, None] - seen) ** 2, axis=2), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["knn:renyi", "knn:tsallis", "knn:kl:2", "knn:none", "knn:"])
def test_exponents_stand_where_they_belong(name):
    text = rf"Own\(divergence=\.\.\.\): must be one of 'knn:kl', 'knn:renyi:<a>', .*got '{name}'"
    with pytest.raises(ValueError, match=text):
        Comparison(name, make_bags(), "Own")


def test_points_outside_the_cube_are_refused_at_once():
    bags = make_bags()
    out = Bags(bags.points + 1, bags.offsets)
    text = r"Own: points must lie in the unit cube .*make_pipeline\(UnitCube\(\), Own"
    with pytest.raises(ValueError, match=text):
        Comparison("js", out, "Own")
    with pytest.raises(ValueError, match=text):
        Comparison("js", bags, "Own").look_at(out)


def test_rows_of_a_callable_have_the_shape_of_both():
    train = make_bags(4)
    compare = Comparison(lambda X, Y=None: np.zeros((len(X), len(X))), train, "Own")
    seen = compare.look_at(train)
    compare(seen)
    with pytest.raises(ValueError, match=r"matrix of shape \(2, 4\), one row for each bag of X .*got \(2, 2\)"):
        compare(seen[:2], seen)


@pytest.mark.parametrize("name", PLUGIN)
def test_grids_are_for_few_dimensions(name):
    text = rf"Own\(divergence=\.\.\.\): '{name}' must have points of at most 3 dimensions, got 4; use 'knn:kl'"
    with pytest.raises(ValueError, match=text):
        Comparison(name, make_bags(n_dims=4), "Own")
    for other in ("knn:kl", "gaussian:skl", "mmd", "js_entropy"):
        compare = Comparison(other, make_bags(n_dims=4), "Own")
        assert compare(compare.look_at(make_bags(n_dims=4))).shape == (6, 6)


@pytest.mark.parametrize(
    ("name", "arrays", "text"),
    [
        ("knn:kl", [[0.5], [0.2, 0.3]], r"knn\(X=\.\.\.\): bags must have at least 2 points.*got 1 in bag 0"),
        ("js", [[0.5, 1.5], [0.2, 0.3]], r"unit cube.*point 1 of bag 0 has 1\.5.*UnitCube"),
        ("js_entropy", [[0.2, 0.3], [0.5]], r"js_entropy.*at least 2 points.*got 1 in bag 1"),
    ],
)
def test_what_a_divergence_refuses_it_says_itself(name, arrays, text):
    with pytest.raises(ValueError, match=text):
        whole(name, Bags.from_arrays(arrays))


def whole(name, bags):
    compare = Comparison(name, bags, "Own")
    return compare(compare.look_at(bags))
