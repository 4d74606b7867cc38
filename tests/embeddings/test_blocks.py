"""Averages over blocks of equal size: how bags are cut, and features that do not show sizes."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.bags import Bags, concat
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.embeddings import BlockAverage, Marginals
from distembed.embeddings.blocks import cut, shuffle

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast


def hdd(**options):
    return de.HDDEmbedding("hellinger", **{"n_basis": 8, "bandwidth": 0.06, **options})


def uniform_bags(sizes, n_dims=1, seed=0, dtype=np.float64, weights=False, ids=None):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(sizes)]
    points = rng.uniform(size=(offsets[-1], n_dims)).astype(dtype)
    return Bags(points, offsets, weights=rng.uniform(0.5, 2, offsets[-1]) if weights else None, ids=ids)


def reorder(bags, seed=1):
    """The same bags, their points in another order."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate(
        [rng.permutation(np.arange(a, b)) for a, b in zip(bags.offsets, bags.offsets[1:], strict=False)]
    )
    return Bags(bags.points[rows], bags.offsets, weights=None if bags.weights is None else bags.weights[rows])


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
# Cutting bags into blocks
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 5, 6, 9, 10, 11, 23, 50])
def test_blocks_have_equal_size_distinct_points_and_use_every_point(size):
    bags = Bags(np.arange(float(size))[:, None], [0, size])
    parts, owner = cut(bags, 5, seed=0)
    assert parts.n_bags == len(owner) == -(-size // 5)
    assert_array_equal(parts.sizes, min(size, 5))
    assert all(len(np.unique(block)) == len(block) for block in parts)
    assert set(parts.points.ravel()) == set(range(size))


def test_blocks_belong_to_their_bags_and_carry_weights_and_ids():
    bags = uniform_bags([3, 17, 5, 40], weights=True, ids=["a", "b", "c", "d"])
    parts, owner = cut(bags, 6, seed=3)
    assert owner.tolist() == [0] + [1] * 3 + [2] + [3] * 7
    assert parts.ids.tolist() == [list("abcd")[i] for i in owner]
    weight_of = dict(zip(bags.points.ravel().tolist(), bags.weights.tolist(), strict=True))
    assert [weight_of[x] for x in parts.points.ravel().tolist()] == parts.weights.tolist()
    for i, block in zip(owner, parts, strict=True):
        assert np.isin(block, bags[int(i)]).all()


def test_blocks_are_uniformly_random_subsets():
    # Ranks of the points of the first block, over many bags of one size: each rank as often as any other, also where
    # the points are always the same few values, and neighbours no more often together than strangers.
    rng = np.random.default_rng(0)
    n_bags, n, m = 4000, 12, 4
    bags = Bags(np.arange(n_bags * n)[:, None] + rng.uniform(size=(n_bags * n, 1)), np.arange(n_bags + 1) * n)
    ranks = shuffle(bags, 0).reshape(n_bags, n) % n
    for block in range(n // m):
        inside = np.zeros((n_bags, n))
        np.put_along_axis(inside, ranks[:, block * m : (block + 1) * m], 1.0, axis=1)
        error = np.sqrt(m / n * (1 - m / n) / n_bags)
        assert np.abs(inside.mean(axis=0) - m / n).max() < 4 * error
        together = np.mean(inside[:, :-1] * inside[:, 1:])
        assert abs(together - m * (m - 1) / n / (n - 1)) < 0.005


def test_equal_points_are_spread_over_blocks():
    # Half of the points are equal: a block of ten holds a hypergeometric number of them, of mean 5 and variance 2.56.
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays([np.r_[np.zeros(20), rng.uniform(size=20)] for _ in range(500)])
    parts, _ = cut(bags, 10, seed=0)
    zeros = np.array([np.count_nonzero(block == 0) for block in parts])
    assert_allclose(zeros.mean(), 5)
    assert_allclose(zeros.var(), 10 * 0.25 * 30 / 39, rtol=0.1)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_order_of_points_does_not_matter(weights, dtype):
    bags = uniform_bags([7, 25, 60, 10], n_dims=2, dtype=dtype, weights=weights)
    other = reorder(bags)
    a, b = (x.points[shuffle(x, 5)] for x in (bags, other))
    assert_array_equal(a, b)
    model = BlockAverage(hdd(n_basis=4), block_size=7).fit(bags)
    assert_allclose(model.transform(other), model.transform(bags), atol=1e-5 if dtype == np.float32 else 1e-12)


def test_order_of_equal_points_with_different_weights_does_not_matter():
    x, w = np.repeat([0.1, 0.5, 0.9], 8), np.random.default_rng(0).uniform(0.1, 1, 24)
    bags = Bags(x[:, None], [0, 24], weights=w)
    model = BlockAverage(hdd(), block_size=7).fit(bags)
    assert_allclose(model.transform(reorder(bags)), model.transform(bags), atol=1e-12)


def test_blocks_do_not_depend_on_precision_or_on_the_scale_of_weights():
    bags = uniform_bags([50, 80], weights=True)
    heavy = Bags(bags.points, bags.offsets, weights=bags.weights * 3.7)
    assert_array_equal(shuffle(bags, 0), shuffle(bags.astype(np.float32), 0))
    assert_array_equal(shuffle(bags, 0), shuffle(heavy, 0))
    assert_array_equal(shuffle(bags, 0), shuffle(Bags(bags.points, bags.offsets), 0))


def test_bags_of_one_size_are_not_all_cut_alike():
    bags = Bags(np.tile(np.arange(30.0), 2)[:, None] + np.repeat([0.0, 0.25], 30)[:, None], [0, 30, 60])
    first, second = shuffle(bags, 0).reshape(2, 30) % 30
    assert (first != second).any()
    assert (shuffle(bags, 0) != shuffle(bags, 1)).any()


# ------------------------------------------------------------------------------------------------------------
# BlockAverage
# ------------------------------------------------------------------------------------------------------------


def leak(features, sizes):
    """Cross-validated R² of log size predicted by ridge regression."""
    y = np.log(sizes)
    folds = KFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(RidgeCV(np.logspace(-6, 3, 10)), features, y, cv=folds)
    return 1 - np.mean((y - predicted) ** 2) / y.var()


@pytest.mark.parametrize("n_dims", [1, 2])
def test_sizes_leak_into_plain_features_but_not_into_block_averages(n_dims):
    rng = np.random.default_rng(n_dims)
    sizes = np.exp(rng.uniform(np.log(30), np.log(3000), 240)).astype(int)
    centers, scales = rng.uniform(0.25, 0.75, (3, n_dims)), rng.uniform(0.05, 0.1, (3, 1))
    which = rng.choice(3, sizes.sum())
    points = centers[which] + scales[which] * rng.normal(size=(len(which), n_dims))
    bags = Bags(1 - np.abs(1 - np.abs(points)), np.r_[0, np.cumsum(sizes)])
    plain = de.HDDEmbedding("js", n_basis=5, bandwidth="scott", bandwidth_scale=0.5)
    assert leak(plain.fit_transform(bags), sizes) > 0.5
    model = BlockAverage(plain).fit(bags)
    assert model.block_size_ == sizes.min()
    assert leak(model.transform(bags), sizes) < 0.15


@pytest.mark.parametrize("points", ["continuous", "few values"])
def test_expectations_are_those_of_bags_of_block_size(points):
    # Means over many bags of 12, 17 and 60 points, against bags of exactly 10: equal within five standard errors.
    rng = np.random.default_rng(0)
    embedding = hdd(n_basis=4)

    def draw(n):
        x = rng.beta(2, 4, size=(1500, n, 1))
        return de.as_bags(x if points == "continuous" else np.round(x * 6) / 6)

    target = embedding.fit_transform(draw(10))
    model = BlockAverage(embedding, block_size=10).fit(draw(10))
    for n in (12, 17, 60):
        A = model.transform(draw(n))
        error = np.sqrt((A.var(axis=0) + target.var(axis=0)) / 1500)
        assert np.all(np.abs(A.mean(axis=0) - target.mean(axis=0)) < 5 * error)
    assert A.var(axis=0).sum() < 0.25 * target.var(axis=0).sum()  # and the noise falls
    plain = embedding.transform(draw(60))
    assert np.any(np.abs(plain.mean(axis=0) - target.mean(axis=0)) > 10 * error)


@pytest.mark.parametrize("size", [30, 10])
def test_bags_of_block_size_are_embedded_as_they_are(size):
    bags = uniform_bags([size] * 12, n_dims=2, weights=True)
    model = BlockAverage(hdd(n_basis=4, bandwidth="scott")).fit(bags)
    assert model.block_size_ == size
    assert_allclose(model.transform(bags), hdd(n_basis=4, bandwidth="scott").fit_transform(bags), atol=1e-12)


def test_averages_are_means_over_the_blocks():
    bags = uniform_bags([25, 10, 47], weights=True)
    model = BlockAverage(hdd(), block_size=10).fit(bags)
    parts, owner = cut(bags, 10, model._seed)
    features = model.embedding_.transform(parts)
    want = [features[owner == i].mean(axis=0) for i in range(3)]
    assert_allclose(model.transform(bags), want, atol=1e-12)


def test_a_row_depends_on_its_own_bag_only():
    bags = uniform_bags([12, 55, 30, 81, 10], n_dims=2, weights=True)
    model = BlockAverage(hdd(n_basis=4)).fit(bags)
    A = model.transform(bags)
    assert_allclose(model.transform(bags[[3]]), A[[3]], atol=1e-12)
    assert_allclose(model.transform(bags[::-1]), A[::-1], atol=1e-12)
    assert_allclose(model.transform(concat([uniform_bags([99], n_dims=2), Bags(*bags._parts[:3])]))[1:], A, atol=1e-12)


def test_chunks_of_bags_and_of_blocks_do_not_change_the_answer():
    bags = uniform_bags([12, 555, 30, 81, 10], weights=True)
    model = BlockAverage(hdd()).fit(bags)
    whole = model.transform(bags)
    model.chunk_bytes = 1000  # bags one by one, 15 blocks at a time
    assert_allclose(model.transform(bags), whole, atol=1e-12)


def test_weights_follow_their_points():
    bags = uniform_bags([40, 40])
    double = Bags(bags.points, bags.offsets, weights=np.full(80, 2.0))
    model = BlockAverage(hdd(), block_size=10).fit(bags)
    assert_allclose(model.transform(double), model.transform(bags), atol=1e-12)
    mean = BlockAverage(Recorder(), block_size=40).fit(bags)
    weighted = uniform_bags([40, 40], weights=True)
    want = [np.average(bag, axis=0, weights=weighted.weights_of(i)) for i, bag in enumerate(weighted)]
    assert_allclose(mean.transform(weighted), want)


def test_points_without_weight_take_no_place_in_blocks():
    bags = uniform_bags([60, 40], weights=True)
    light = Bags(bags.points, bags.offsets, weights=np.where(np.arange(100) % 4, bags.weights, 0.0))
    keep = light.weights > 0
    less = Bags(bags.points[keep], [0, 45, 75], weights=bags.weights[keep])
    model = BlockAverage(hdd()).fit(light)
    assert model.block_size_ == 30  # the smaller bag has 30 points that count
    assert_array_equal(model.transform(light), model.transform(less))
    weights = np.zeros(100)
    weights[[7, 77]] = 1.0  # one point carries all: a short block, but an answer
    with pytest.warns(UserWarning, match="some bags have fewer points"):
        alone = model.transform(Bags(bags.points, bags.offsets, weights=weights))
    assert_allclose(alone, model.embedding_.transform(Bags(bags.points[[7, 77]], [0, 1, 2])), atol=1e-12)


def test_short_bags_stay_one_block_with_a_warning():
    bags = uniform_bags([4, 30, 8, 25])
    with pytest.warns(UserWarning, match=r"BlockAverage: some bags have fewer points than a block \(block_size_\)"):
        model = BlockAverage(hdd()).fit(bags)
    assert model.block_size_ == 10  # "auto" goes no lower
    with pytest.warns(UserWarning, match="some bags have fewer") as caught:
        A = model.transform(bags)
    assert len(caught) == 1
    assert_allclose(A[[0, 2]], model.embedding_.transform(bags[[0, 2]]), atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.transform(bags[[1, 3]]).shape == (2, 8)


def test_the_embedding_is_fitted_on_the_blocks():
    bags = uniform_bags([30, 12, 45])
    model = BlockAverage(Recorder()).fit(bags, ["a", "b", "c"])
    assert model.block_size_ == 12
    assert_array_equal(model.embedding_.sizes_, 12)
    assert model.embedding_.y_.tolist() == list("aaabcccc")
    wide = BlockAverage(de.HDDEmbedding(bandwidth="scott"), block_size=10).fit(uniform_bags([1000] * 4))
    narrow = de.HDDEmbedding(bandwidth="scott").fit(uniform_bags([1000] * 4))
    assert wide.embedding_.bandwidth_[0] > 2 * narrow.bandwidth_[0]  # n = 10, not 1000: a factor of 100^(1/5)


def test_work_is_linear_in_the_points():
    sizes = [10, 35, 400, 1001]
    model = BlockAverage(Recorder(), block_size=10).fit(uniform_bags(sizes))
    Recorder.seen = []
    model.transform(uniform_bags(sizes))
    seen = np.concatenate(Recorder.seen)
    assert len(seen) == 1 + 4 + 40 + 101
    assert_array_equal(seen, 10)


def test_the_working_set_does_not_grow_with_the_bags():
    model = BlockAverage(Recorder(), block_size=10).fit(uniform_bags([10]))
    model.chunk_bytes = 2**18

    def working_set(n_bags):
        bags = uniform_bags([100] * n_bags)
        tracemalloc.start()
        out = model.transform(bags)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak - out.nbytes - 100 * n_bags  # sizes, ids and costs: a few integers a bag, of 800 bytes

    assert working_set(4000) < working_set(400) + 100_000


def test_float32_stays_and_agrees_with_float64():
    bags = uniform_bags([30, 100, 55], n_dims=2)
    model = BlockAverage(hdd(n_basis=4)).fit(bags)
    single = model.transform(bags.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, model.transform(bags), atol=1e-4)


def test_names_frames_clone_and_pickle():
    bags = uniform_bags([30, 100, 55])
    model = BlockAverage(hdd()).fit(bags)
    names = model.get_feature_names_out().tolist()
    assert names == model.embedding_.get_feature_names_out().tolist()
    frame = clone(model).set_output(transform="pandas").fit(bags).transform(bags)
    assert frame.columns.tolist() == names
    assert_array_equal(pickle.loads(pickle.dumps(model)).transform(bags), model.transform(bags))
    assert_array_equal(clone(model).fit(bags).transform(bags), model.transform(bags))
    assert "BlockAverage(embedding=HDDEmbedding(" in repr(model)


def test_block_average_composes_with_pipelines_marginals_and_searches():
    bags = uniform_bags([30, 40, 50] * 8, n_dims=3)
    y = np.array([bag[:, 0].mean() for bag in bags])
    each = BlockAverage(Marginals(hdd()))
    per_coordinate = Marginals(BlockAverage(hdd()))
    assert each.fit_transform(bags).shape == per_coordinate.fit_transform(bags).shape == (24, 24)
    pipeline = make_pipeline(de.UnitCube(), each, Ridge(1e-3))
    grid = {"blockaverage__block_size": [10, 30], "blockaverage__embedding__embedding__n_basis": [1, 6]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(bags, y)
    assert search.best_params_["blockaverage__embedding__embedding__n_basis"] == 6


@pytest.mark.parametrize(("value", "error"), [("smallest", ValueError), (0, ValueError), (2.5, TypeError)])
def test_wrong_block_sizes_are_refused(value, error):
    with pytest.raises(error, match=r"BlockAverage\(block_size=\.\.\.\): must be"):
        BlockAverage(hdd(), block_size=value).fit(uniform_bags([30]))


def test_unfitted_wrong_width_and_errors_that_name_the_bag():
    with pytest.raises(NotFittedError):
        BlockAverage(hdd()).transform(uniform_bags([30]))
    model = BlockAverage(hdd()).fit(uniform_bags([30, 300]))
    with pytest.raises(ValueError, match=r"BlockAverage: X must have points of 1 dimension\(s\), as in fit, got 2"):
        model.transform(uniform_bags([30], n_dims=2))
    outside = uniform_bags([300, 30]).points.copy()
    outside[-1] = 3.0
    with pytest.raises(ValueError, match=r"id .*late.*has 3 in dimension 0"):
        model.transform(Bags(outside, [0, 300, 330], ids=["early", "late"]))
