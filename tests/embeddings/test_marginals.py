"""Marginals: one embedding a coordinate, a pair or a random projection, side by side."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

import distembed as de
from distembed.bags import Bags
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.compute.parallel import bag_slices
from distembed.embeddings import Marginals

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast


def make_bags(n_bags=12, n_dims=4, size=40, seed=0, dtype=np.float64, weights=False, columns=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(size // 2, size, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    points = rng.beta(2, 3, size=(offsets[-1], n_dims)).astype(dtype)
    mass = rng.uniform(0.1, 2.0, offsets[-1]) if weights else None
    return Bags(points, offsets, weights=mass, columns=columns)


def take(bags, coordinates):
    return Bags(bags.points[:, coordinates], bags.offsets, weights=bags.weights)


def hdd(**options):
    return de.HDDEmbedding("hellinger", **{"n_basis": 5, "bandwidth": "scott", **options})


class Noise(BagEstimator):
    """An embedding by random numbers and the mean: it shows which seed it was given, and has no feature names."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        check_bags(self, X, reset=True)
        self.draw_ = np.random.RandomState(self.random_state).normal(size=2)
        return self

    def transform(self, X):
        bags = check_bags(self, X, reset=False)
        return np.array([bag.mean() + self.draw_ for bag in bags])


# ------------------------------------------------------------------------------------------------------------
# Which parts
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
def test_each_is_the_hstack_of_one_embedding_a_coordinate(weights):
    bags = make_bags(weights=weights)
    got = Marginals(hdd()).fit_transform(bags)
    want = np.hstack([hdd().fit_transform(take(bags, [j])) for j in range(4)])
    assert got.shape == (12, 20)
    assert_allclose(got, want, atol=1e-12)


def test_pairs_are_the_hstack_of_one_embedding_a_pair():
    bags = make_bags()
    model = Marginals(hdd(n_basis=3), which="pairs").fit(bags)
    assert model.parts_ == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    want = np.hstack([hdd(n_basis=3).fit_transform(take(bags, list(pair))) for pair in model.parts_])
    assert_allclose(model.transform(bags), want, atol=1e-12)
    assert model.n_features_out_ == want.shape[1]


def test_pairs_see_dependence_that_single_coordinates_do_not():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 2000))
    bags = Bags.from_arrays([np.c_[x, x], np.c_[x, y]])  # the same margins, up to noise
    each, pairs = (pdist(Marginals(hdd(bandwidth=0.1), which).fit_transform(bags)) for which in ("each", "pairs"))
    assert each[0] < 0.1 * pairs[0]


def test_squared_distances_add_over_the_parts():
    bags = make_bags()
    embedding = de.HDDEmbedding("js", n_basis=6)  # the default bandwidth
    total = pdist(Marginals(embedding).fit_transform(bags), "sqeuclidean")
    parts = [pdist(clone(embedding).fit_transform(take(bags, [j])), "sqeuclidean") for j in range(4)]
    assert_allclose(total, np.sum(parts, axis=0), rtol=1e-10)


def test_projections_are_embeddings_of_scaled_projections():
    bags = make_bags(weights=True)
    model = Marginals(hdd(), which=7, random_state=3).fit(bags)
    assert model.directions_.shape == (7, 4)
    assert_allclose(np.linalg.norm(model.directions_, axis=1), 1.0)
    assert not hasattr(model, "parts_")
    columns = [Bags(bags.points @ w[:, None], bags.offsets, weights=bags.weights) for w in model.directions_]
    want = [make_pipeline(de.UnitCube(outside="clip"), hdd()).fit_transform(column) for column in columns]
    assert_allclose(model.transform(bags), np.hstack(want), atol=1e-10)


def test_projections_depend_on_the_seed_alone():
    bags = make_bags()
    first, again, other = (Marginals(hdd(), which=3, random_state=seed).fit_transform(bags) for seed in (0, 0, 1))
    assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_projections_of_points_far_outside_training_are_clipped_with_a_warning():
    bags = make_bags()
    model = Marginals(hdd(), which=2, random_state=0).fit(bags)
    far = Bags(bags.points * 100, bags.offsets)
    with pytest.warns(UserWarning, match="clipped to the faces"):
        assert np.isfinite(model.transform(far)).all()


def test_a_second_fit_forgets_the_parts_of_the_first():
    bags = make_bags()
    model = Marginals(hdd(), which=3, random_state=0).fit(bags).set_params(which="each").fit(bags)
    assert not hasattr(model, "directions_")
    assert not hasattr(model, "cubes_")
    assert model.parts_ == [(0,), (1,), (2,), (3,)]
    assert model.get_feature_names_out()[0].startswith("x0__")


@pytest.mark.parametrize("n_dims", [300])
def test_hundreds_of_dimensions(n_dims):
    bags = make_bags(n_bags=8, n_dims=n_dims, size=30, dtype=np.float32)
    A = Marginals(hdd(bandwidth=0.1)).fit_transform(bags)
    assert A.shape == (8, 1500)
    assert A.dtype == np.float32
    assert np.isfinite(A).all()


@pytest.mark.parametrize(
    ("which", "error"),
    [("every", ValueError), (0, ValueError), (-3, ValueError), (2.0, TypeError), (True, TypeError), (None, TypeError)],
)
def test_unknown_parts_are_refused(which, error):
    with pytest.raises(
        error, match=r"Marginals\(which=\.\.\.\): must be 'each', 'pairs' or a number of projections"
    ) as e:
        Marginals(hdd(), which=which).fit(make_bags())
    assert f"got {which!r}" in str(e.value)


def test_pairs_need_two_dimensions():
    with pytest.raises(ValueError, match=r"which='pairs'.*at least 2 dimensions, got 1; pass which='each'"):
        Marginals(hdd(), which="pairs").fit(make_bags(n_dims=1))


def test_integers_of_numpy_count_as_numbers_of_projections():
    assert Marginals(hdd(), which=np.int64(2), random_state=0).fit_transform(make_bags()).shape == (12, 10)


# ------------------------------------------------------------------------------------------------------------
# Size
# ------------------------------------------------------------------------------------------------------------


class Counting(de.HDDEmbedding):
    """Counts its fits."""

    n_fits = 0

    def fit(self, X, y=None):
        type(self).n_fits += 1
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("which", "text"),
    [
        ("each", "4 parts (each of 4 coordinates) of 1,000 features each make 4,000 features, 32,000 bytes per bag"),
        ("pairs", "6 parts (pairs of 4 coordinates) of 1,000 features each make 6,000 features, 48,000 bytes per bag"),
        (5, "5 parts (projections) of 1,000 features each make 5,000 features, 40,000 bytes per bag"),
    ],
)
def test_too_many_features_are_refused_after_one_part(which, text):
    Counting.n_fits = 0
    n_basis = (40, 25) if which == "pairs" else 1000
    model = Marginals(Counting("hellinger", n_basis=n_basis, bandwidth=0.1), which, max_features=3999)
    with pytest.raises(ValueError, match="max_features") as error:
        model.fit(make_bags())
    assert text in str(error.value)
    assert "more than 3,999; lower the number of features of the embedding" in str(error.value)
    assert "raise max_features" in str(error.value)
    assert Counting.n_fits == 1
    with pytest.raises(NotFittedError):
        model.transform(make_bags())


def test_an_absurd_number_of_pairs_is_refused_at_once():
    wide = Bags(np.full((2, 20_000), 0.5), [0, 1, 2])
    with pytest.raises(ValueError, match=r"199,990,000 parts \(pairs of 20000 coordinates\)"):
        Marginals(hdd(bandwidth=0.1), "pairs").fit(wide)


@pytest.mark.parametrize("value", [0, 2.5])
def test_the_limit_itself_is_checked(value):
    with pytest.raises(
        (TypeError, ValueError), match=r"Marginals\(max_features=\.\.\.\): must be an integer in \[1, inf"
    ):
        Marginals(hdd(), max_features=value).fit(make_bags())


class Total(BagEstimator):
    """The sum of the points of a bag, without a working set of its own."""

    def fit(self, X, y=None):
        check_bags(self, X, reset=True)
        return self

    def transform(self, X):
        bags = check_bags(self, X, reset=False)
        return np.add.reduceat(bags.points, bags.offsets[:-1], axis=0).sum(axis=1, keepdims=True)


def working_set(model, bags):
    """Peak of memory while transforming, in bytes, without the result."""
    model.fit(bags)
    tracemalloc.start()
    out = model.transform(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - out.nbytes


@pytest.mark.parametrize("which", ["each", 30])
def test_the_working_set_grows_neither_with_dimensions_nor_with_bags(which):
    rng = np.random.default_rng(0)
    small, wide, many = (
        Bags(rng.uniform(size=(n_bags * 100, n_dims)), np.arange(n_bags + 1) * 100)
        for n_bags, n_dims in ((60, 40), (60, 200), (1200, 40))
    )
    model = Marginals(Total(), which, random_state=0)
    model.chunk_bytes = 2**18  # 4,096 points in a chunk
    base = working_set(model, small)
    assert working_set(model, wide) < base + 100_000  # all columns: 9.6 MB
    assert working_set(model, many) < base + 200_000  # all columns: 38 MB, one of them: 0.96 MB
    assert base < 4 * 2**18  # two blocks of columns


@pytest.mark.parametrize("which", ["each", "pairs", 3])
def test_chunks_do_not_change_the_answer(which):
    bags = make_bags(n_bags=30, weights=True)
    model = Marginals(hdd(n_basis=4), which, random_state=0).fit(bags)
    whole = model.transform(bags)
    model.chunk_bytes = 5000
    assert_allclose(model.transform(bags), whole, atol=1e-12)


def test_slices_of_bags_cover_them_within_the_budget():
    sizes = np.random.default_rng(0).integers(1, 50, 200)
    slices = bag_slices(sizes, 8, 16, budget=800)
    assert_array_equal(np.concatenate([np.arange(200)[rows] for rows in slices]), np.arange(200))
    costs = [(8 * sizes[rows] + 16).sum() for rows in slices]
    assert max(costs) <= 800
    assert min(costs[:-1]) > 800 - (8 * 50 + 16)
    assert bag_slices(sizes, 8, 16, budget=1) == [slice(i, i + 1) for i in range(200)]


# ------------------------------------------------------------------------------------------------------------
# A good citizen of scikit-learn
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["each", "pairs", 4])
def test_names_are_unique_and_as_many_as_features(which):
    bags = make_bags(n_dims=3)
    model = Marginals(hdd(n_basis=2), which, random_state=0).fit(bags)
    names = model.get_feature_names_out().tolist()
    assert len(names) == len(set(names)) == model.transform(bags).shape[1]
    first = {"each": "x0__hellinger_re0_0", "pairs": "x0_x1__hellinger_re0_0_0", 4: "p0__hellinger_re0_0"}[which]
    last = {"each": "x2__hellinger_re0_1", "pairs": "x1_x2__hellinger_re0_1_1", 4: "p3__hellinger_re0_1"}[which]
    assert (names[0], names[-1]) == (first, last)


def test_names_of_columns_are_used():
    model = Marginals(hdd(n_basis=1)).fit(make_bags(columns=["ra", "dec", "v", "z"]))
    assert model.get_feature_names_out().tolist() == [f"{c}__hellinger_re0_0" for c in ("ra", "dec", "v", "z")]
    assert model.embeddings_[1].feature_names_in_.tolist() == ["dec"]


def test_pairs_of_columns_whose_joined_names_meet_go_by_number():
    model = Marginals(hdd(n_basis=1), "pairs").fit(make_bags(columns=["a", "a_b", "b_c", "c"]))
    names = model.get_feature_names_out().tolist()
    assert len(set(names)) == 6
    assert names[0] == "x0_x1__hellinger_re0_0_0"


def test_an_embedding_without_names_gets_numbers():
    model = Marginals(Noise(random_state=0)).fit(make_bags(n_dims=2))
    assert model.get_feature_names_out().tolist() == ["x0__0", "x0__1", "x1__0", "x1__1"]


def test_float32_stays_and_agrees_with_float64():
    bags = make_bags()
    model = Marginals(hdd()).fit(bags)
    single = model.transform(bags.astype(np.float32))
    assert single.dtype == np.float32
    assert model.transform(bags).dtype == np.float64
    assert_allclose(single, model.transform(bags), atol=1e-4)


@pytest.mark.filterwarnings("ignore:UnitCube. .* lie outside")  # of a fold, in random projections
def test_grid_search_over_a_parameter_of_the_embedding():
    bags = make_bags(n_bags=24)
    y = np.array([bag[:, 0].mean() for bag in bags])
    pipeline = make_pipeline(Marginals(hdd(), random_state=0), Ridge(1e-3))
    search = GridSearchCV(pipeline, {"marginals__embedding__n_basis": [1, 4], "marginals__which": ["each", 2]}, cv=3)
    search.fit(bags, y)
    assert search.best_params_["marginals__embedding__n_basis"] == 4
    assert Marginals(hdd()).get_params()["embedding__n_basis"] == 5


def test_a_pipeline_inside():
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(5, 10, size=(300, 3)), [0, 100, 200, 300])
    model = Marginals(make_pipeline(de.UnitCube(), hdd())).fit(bags)
    want = make_pipeline(de.UnitCube(), Marginals(hdd())).fit_transform(bags)
    assert isinstance(model.embeddings_[0], Pipeline)
    assert_allclose(model.transform(bags), want, atol=1e-12)
    assert model.get_feature_names_out()[0] == "x0__hellinger_re0_0"


def test_marginals_of_a_pipeline_with_random_features():
    bags = make_bags()
    inner = make_pipeline(hdd(), de.RandomFourierFeatures(n_components=16))
    model = Marginals(inner, random_state=0).fit(bags)
    assert model.transform(bags).shape == (12, 64)
    assert_array_equal(model.transform(bags), clone(model).fit(bags).transform(bags))
    seeds = [embedding[-1].random_state for embedding in model.embeddings_]
    assert len(set(seeds)) == 4
    assert all(isinstance(seed, int) for seed in seeds)


def test_seeds_of_the_parts():
    bags = make_bags()
    derived = [e.draw_[0] for e in Marginals(Noise(), random_state=0).fit(bags).embeddings_]
    again = [e.draw_[0] for e in Marginals(Noise(), random_state=0).fit(bags).embeddings_]
    own = [e.draw_[0] for e in Marginals(Noise(random_state=5), random_state=0).fit(bags).embeddings_]
    assert derived == again
    assert len(set(derived)) == 4  # one a part
    assert own == [np.random.RandomState(5).normal()] * 4
    assert Marginals(Noise()).fit(bags).embeddings_[0].random_state is None


def test_output_as_a_frame():
    pd = pytest.importorskip("pandas")
    bags = make_bags()
    model = Marginals(hdd()).set_output(transform="pandas").fit(bags)
    frame = model.transform(bags)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    inside = Marginals(hdd().set_output(transform="pandas")).fit_transform(bags)
    assert_allclose(inside, frame.to_numpy())


def test_clone_repr_and_pickle():
    bags = make_bags()
    embedding = hdd()
    model = Marginals(embedding, which=2, random_state=0).fit(bags)
    assert not hasattr(embedding, "bandwidth_")  # the clones are fitted, not the original
    assert "Marginals(embedding=HDDEmbedding(" in repr(model)
    assert not hasattr(clone(model), "embeddings_")
    assert_array_equal(pickle.loads(pickle.dumps(model)).transform(bags), model.transform(bags))


def test_rows_follow_their_bags_and_input_is_untouched():
    bags = make_bags(weights=True)
    before = bags.points.copy()
    model = Marginals(hdd()).fit(bags)
    A = model.transform(bags)
    assert_allclose(model.transform(bags[::-1]), A[::-1], atol=1e-12)
    assert_allclose(model.transform(bags[3:4]), A[3:4], atol=1e-12)
    assert_array_equal(bags.points, before)
    plain = Marginals(hdd(bandwidth=0.1)).fit(bags)
    assert_allclose(plain.transform([bag[::-1] for bag in bags]), plain.transform(list(bags)), atol=1e-12)


def test_errors_name_the_coordinate_and_the_bag():
    bags = make_bags(columns=["ra", "dec", "v", "z"])
    model = Marginals(hdd()).fit(bags)
    points = bags.points.copy()
    points[bags.offsets[5], 2] = 7.0
    model.chunk_bytes = 1
    with pytest.raises(ValueError, match=r"\(id .*5.* has 7 in dimension 0") as error:
        model.transform(bags.replace(points=points))
    assert error.value.__notes__ == ["raised by the embedding that Marginals uses for v"]


def test_unfitted_and_wrong_width():
    with pytest.raises(NotFittedError):
        Marginals(hdd()).transform(make_bags())
    with pytest.raises(ValueError, match=r"Marginals: X must have points of 4 dimension\(s\), as in fit, got 3"):
        Marginals(hdd()).fit(make_bags()).transform(make_bags(n_dims=3))


# ------------------------------------------------------------------------------------------------------------
# Columns together
# ------------------------------------------------------------------------------------------------------------


def by_hand(embedding, bags, columns):
    return [clone(embedding).fit(take(bags, [j])) for j in columns]


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
@pytest.mark.parametrize("distance", ["hellinger", "js"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_default_bandwidths_and_features_are_those_of_parts_by_hand(boundary, distance, dtype):
    bags = make_bags(n_bags=40, weights=boundary == "reflect", dtype=dtype)
    embedding = de.HDDEmbedding(distance, n_basis=6, bandwidth_scale=1.3, density=de.KDE(boundary=boundary))
    model, parts = Marginals(embedding).fit(bags), by_hand(embedding, bags, range(4))
    want = [part.bandwidth_ for part in parts]
    assert_allclose([part.bandwidth_ for part in model.embeddings_], want, rtol=1e-6)
    assert [part.bandwidth for part in model.embeddings_] == ["distance"] * 4
    features = np.hstack([part.transform(take(bags, [j])) for j, part in enumerate(parts)])
    assert_allclose(model.transform(bags), features, atol=1e-6 if dtype is np.float64 else 1e-4)


def test_default_bandwidths_of_projections_and_of_l2_are_those_of_parts_by_hand():
    bags = make_bags(n_bags=40)
    for embedding in (de.HDDEmbedding("hellinger"), de.L2Embedding(method="density")):
        model = Marginals(embedding, which=3, random_state=0).fit(bags)
        for w, cube, part in zip(model.directions_, model.cubes_, model.embeddings_, strict=True):
            column = cube.transform(Bags(bags.points @ w[:, None], bags.offsets))
            assert_allclose(part.bandwidth_, clone(embedding).fit(column).bandwidth_, rtol=1e-6)


def test_categorical_columns_keep_their_own_way():
    bags, rng = make_bags(n_bags=40, n_dims=3), np.random.default_rng(1)
    points = bags.points.copy()
    points[:, 1] = rng.integers(0, 2, len(points))
    mixed = Bags(points, bags.offsets, categories={1: ("a", "b")})
    model, parts = (
        Marginals(de.HDDEmbedding("hellinger")).fit(mixed),
        by_hand(de.HDDEmbedding("hellinger"), bags, [0, 2]),
    )
    found = [model.embeddings_[j].bandwidth_ for j in (0, 2)]
    assert_allclose(found, [part.bandwidth_ for part in parts], rtol=1e-6)
    assert model.embeddings_[1].stages_.cells is not None


@pytest.mark.parametrize("which", ["each", "pairs", 3])
def test_wider_features_are_those_of_the_parts(which):
    bags, factors = make_bags(), [1.0, 1.5, 3.0]
    model = Marginals(hdd(), which, random_state=0).fit(bags)
    short = list(model.transform_wider(bags, factors))
    model.few_bags = 0  # the general way
    for factor, features, want in zip(factors, short, model.transform_wider(bags, factors), strict=True):
        assert_allclose(features, want, atol=1e-12)
        if which == "each":
            each = [next(iter(p.transform_wider(take(bags, [j]), [factor]))) for j, p in enumerate(model.embeddings_)]
            assert_allclose(features, np.hstack(each), atol=1e-12)
    assert_allclose(short[0], model.transform(bags), atol=1e-12)
    assert not hasattr(Marginals(de.MeanEmbedding()), "transform_wider")


def test_what_parts_warn_of_is_told_once():
    bags = make_bags(n_dims=6)
    with pytest.warns(UserWarning, match="narrower than half a bin.*so in several marginals") as told:
        Marginals(hdd(bandwidth=1e-5, nodes=de.Grid(64))).fit(bags)
    assert sum("half a bin" in str(one.message) for one in told) == 1
    assert sum("capture too little" in str(one.message) for one in told) <= 1
