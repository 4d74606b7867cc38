"""Kernel smoothing to its formula bag by bag, its limits, its leave-one-out errors, and densities as responses."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

from distembed import KDE, Bags, Grid, HDDEmbedding, Histogram, MomentEmbedding, Sobol, UnitCube
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.divergences import gaussian
from distembed.estimator_checks import check_bag_transformer
from distembed.learners import KernelSmoother
from distembed.learners import smoother as smoothing
from exact import kde
from exact import learners as exact

KERNELS = ["gaussian", "epanechnikov", "triangular", "uniform"]
COMPACT = KERNELS[1:]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
nobody_near = pytest.mark.filterwarnings("ignore:KernelSmoother. some bags have no training bag")


def mean_gap(X, Y=None):
    """Squared distance of means, in plain differences."""
    first, second = (
        np.array([np.average(bag, axis=0, weights=B.weights_of(i)) for i, bag in enumerate(B)])
        for B in (X, X if Y is None else Y)
    )
    return np.sum((first[:, None] - second) ** 2, axis=2)


def mean_gap_above(X, Y=None):
    """An asymmetric one: a bag of larger mean is three times as far."""
    first, second = (np.array([bag.mean() for bag in B]) for B in (X, X if Y is None else Y))
    gap = np.subtract.outer(first, second)
    return np.where(gap > 0, 3.0, 1.0) * gap**2


def make_bags(n_bags=12, n_dims=1, seed=0):
    rng = np.random.default_rng(seed)
    return Bags.from_arrays(
        [rng.beta(*rng.uniform(1, 6, 2), size=(rng.integers(5, 30), n_dims)) for _ in range(n_bags)]
    )


def points(*positions):
    """One bag of one point at each position."""
    return Bags.from_arrays([[x] for x in positions])


def gaussians(n_bags, seed, n_points=60):
    """Bags of Gaussians in the unit interval, their centres and their deviations."""
    rng = np.random.default_rng(seed)
    centre, width = rng.uniform(0.3, 0.7, n_bags), rng.uniform(0.03, 0.1, n_bags)
    drawn = rng.normal(centre[:, None], width[:, None], size=(n_bags, n_points)).clip(0, 1)
    return Bags.from_arrays(drawn), centre, width


# The formula


@nobody_near
@every_kernel
@pytest.mark.parametrize("h", [0.003, 0.1, 1.0])
def test_numbers_equal_the_judge(kernel, h):
    train, new, rng = make_bags(), make_bags(9, seed=1), np.random.default_rng(2)
    y, w = 1e3 + rng.normal(size=(12, 3)), rng.uniform(0, 2, 12)
    fitted = KernelSmoother(mean_gap, bandwidth=h, kernel=kernel).fit(train, y, sample_weight=w)
    means, deviations = exact.smoothed(mean_gap(new, train), y, h, kernel, w)
    got, std = fitted.predict(new, return_std=True)
    assert_allclose(got, means, rtol=1e-13)
    assert_allclose(std, deviations, rtol=1e-9, atol=1e-12)
    assert_array_equal(fitted.predict(new), got)
    one = KernelSmoother(mean_gap, bandwidth=h, kernel=kernel).fit(train, y[:, 1], sample_weight=w)
    assert one.predict(new).shape == (9,)
    assert_allclose(one.predict(new), means[:, 1], rtol=1e-13)
    assert_allclose(one.predict(new, return_std=True)[1], deviations[:, 1], rtol=1e-9, atol=1e-12)


@nobody_near
@every_kernel
@pytest.mark.parametrize("h", [0.003, 0.1])
def test_densities_equal_the_judge(kernel, h):
    train, new, y = make_bags(), make_bags(5, seed=1), make_bags(12, 2, seed=3)
    w = np.random.default_rng(2).uniform(0, 2, 12)
    fitted = KernelSmoother(mean_gap, bandwidth=h, kernel=kernel, response_nodes=Grid(9), response_bandwidth=0.2)
    fitted.fit(train, y, sample_weight=w)
    means, _ = exact.smoothed(mean_gap(new, train), fitted.responses_, h, kernel, w)
    got = fitted.predict(new)
    assert got.shape == (5, 81) == (5, len(fitted.nodes_.points))
    assert_allclose(got, means, rtol=1e-12)
    assert_allclose(got @ fitted.nodes_.weights, 1, rtol=1e-12)
    assert got.min() >= 0


def test_plain_formula():
    train, new = points(0.1, 0.2, 0.5), points(0.25)
    y, w = np.array([1.0, 4.0, 2.0]), np.array([1.0, 2.0, 0.5])
    K = w * np.exp(-((np.array([0.15, 0.05, 0.25]) / 0.1) ** 2) / 2)
    got, std = KernelSmoother(mean_gap, bandwidth=0.1).fit(train, y, w).predict(new, return_std=True)
    assert_allclose(got, [K @ y / K.sum()], rtol=1e-14)
    assert_allclose(std, [np.sqrt(K @ (y - got) ** 2 / K.sum())], rtol=1e-14)


def test_responses_are_density_estimates_of_weighted_points():
    rng = np.random.default_rng(0)
    y = Bags(rng.uniform(size=(60, 2)), [0, 10, 35, 60], weights=rng.integers(0, 3, 60) + 0.0)
    for nodes, rtol in ((Sobol(64), 1e-10), (Grid(32), 0.02)):
        model = KernelSmoother(mean_gap, bandwidth=1.0, response_bandwidth=[0.1, 0.2], response_nodes=nodes)
        model.set_params(random_state=0).fit(make_bags(3), y)
        assert_array_equal(model.response_bandwidth_, [0.1, 0.2])
        for i in range(3):
            wanted = kde(y[i], model.nodes_.points, [0.1, 0.2], weights=y.weights_of(i))
            assert_allclose(model.responses_[i], wanted, rtol=rtol, atol=rtol * wanted.max() / 10)


# Distances


def test_by_name_by_embedding_and_both_ways():
    train, new, y = make_bags(), make_bags(5, seed=1), np.arange(12.0)
    named = KernelSmoother("gaussian:hellinger", bandwidth=0.3).fit(train, y).predict(new)
    assert_allclose(
        named, exact.smoothed(gaussian(new, train, "hellinger", reference=train), y[:, None], 0.3)[0][:, 0], rtol=1e-9
    )
    embedding = MomentEmbedding("mean").fit(train)
    A, B = embedding.transform(train), embedding.transform(new)
    d2 = np.sum((B[:, None] - A) ** 2, axis=2)
    got = KernelSmoother(MomentEmbedding("mean"), bandwidth=0.3).fit(train, y).predict(new)
    assert_allclose(got, exact.smoothed(d2, y[:, None], 0.3)[0][:, 0], rtol=1e-9)
    d2 = (mean_gap_above(new, train) + mean_gap_above(train, new).T) / 2
    for bandwidth in (0.1, [0.1]):  # without and with the matrix that tells whether a callable is symmetric
        got = KernelSmoother(mean_gap_above, bandwidth=bandwidth).fit(train, y).predict(new)
        assert_allclose(got, exact.smoothed(d2, y[:, None], 0.1)[0][:, 0], rtol=1e-9)


@pytest.mark.parametrize("divergence", ["js", "tv", "knn:kl", "js_entropy", "mmd", "gaussian:kl"])
def test_every_kind_of_distance(divergence):
    bags, centre, _ = gaussians(40, 0)
    model = KernelSmoother(divergence).fit(bags[:30], centre[:30])
    assert model.score(bags[30:], centre[30:]) > 0.7
    assert_allclose(model.loo_error_, model.loo_curve_[1].min(), rtol=1e-9)


def test_negative_estimates_count_as_zero():
    def negative(X, Y=None):
        return mean_gap(X, Y) - 0.01

    train, new, y = points(0.1, 0.15, 0.6), points(0.12), np.array([1.0, 2.0, 9.0])
    got = KernelSmoother(negative, bandwidth=0.01).fit(train, y).predict(new)
    assert_allclose(got, [1.5], rtol=1e-12)


def test_weights_of_points_are_copies():
    rng = np.random.default_rng(0)
    bags = make_bags(8)
    counts = rng.integers(1, 4, bags.n_points)
    sizes = np.add.reduceat(counts, bags.offsets[:-1])
    weighted = Bags(bags.points, bags.offsets, counts + 0.0)
    copied = Bags(np.repeat(bags.points, counts, axis=0), np.r_[0, np.cumsum(sizes)])
    embedding = HDDEmbedding("hellinger", bandwidth=0.1)
    for y in (np.arange(8.0), None):
        settings = {"bandwidth": 0.2, "response_bandwidth": 0.1}
        got, wanted = (
            KernelSmoother(embedding, **settings).fit(X, X if y is None else y).predict(X) for X in (weighted, copied)
        )
        assert_allclose(got, wanted, rtol=1e-9)


def test_categories_through_an_embedding_that_takes_them():
    rng = np.random.default_rng(0)
    arrays = [np.c_[rng.uniform(size=30), rng.uniform(size=30) < share] for share in np.linspace(0, 1, 12)]
    bags = Bags.from_arrays(arrays, categories={1: ["f", "m"]})
    y = np.linspace(0, 1, 12)
    model = KernelSmoother(HDDEmbedding("hellinger", n_basis=3)).fit(bags, y)
    assert np.corrcoef(model.predict(bags), y)[0, 1] > 0.9
    with pytest.raises(ValueError, match="KernelSmoother: X must have no categorical columns, got 'x1'"):
        KernelSmoother("knn:kl").fit(bags, y)
    with pytest.raises(ValueError, match="y must have no categorical columns, got 'x1'"):
        KernelSmoother(mean_gap).fit(make_bags(), bags)


# Limits


@nobody_near
@every_kernel
def test_no_bandwidth_is_the_nearest_bag_and_a_large_one_the_mean(kernel):
    train, new, rng = make_bags(), make_bags(7, seed=1), np.random.default_rng(2)
    w = rng.uniform(0.5, 2, 12)
    nearest = np.argmin(mean_gap(new, train), axis=1)
    for y in (rng.normal(size=12), make_bags(12, 2, seed=3)):
        model = KernelSmoother(mean_gap, bandwidth=1e-9, kernel=kernel, response_bandwidth=0.1).fit(train, y, w)
        assert_allclose(model.predict(new), model.responses_[nearest], rtol=1e-12)
        model.set_params(bandwidth=1e9).fit(train, y, w)
        mean = np.average(model.responses_, axis=0, weights=w)
        assert_allclose(model.predict(new), np.broadcast_to(mean, model.predict(new).shape), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", COMPACT)
def test_nobody_near_is_the_nearest_and_warns_once(kernel, monkeypatch):
    monkeypatch.setattr(KernelSmoother, "values_at_once", 1)
    train, y = points(0.1, 0.3, 0.3, 0.9), np.array([1.0, 2.0, 6.0, 5.0])
    new = points(*[0.1] * 20, 0.5, 0.75, *[0.1] * 20)  # of the last block too
    model = KernelSmoother(mean_gap, bandwidth=0.05, kernel=kernel).fit(train, y, [1, 3, 1, 1])
    with pytest.warns(UserWarning, match="some bags have no training bag within the bandwidth") as caught:
        got = model.predict(new)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_allclose(got[[0, 20, 21, -1]], [1, 3, 5, 1], rtol=1e-14)  # 3 = (3 * 2 + 6) / 4: equally near


def test_far_away_gaussian_weights_do_not_vanish():
    train, y = points(0.1, 0.3, 0.9), np.array([1.0, 2.0, 5.0])
    for h in (1e-3, 1e-9, 1e-200):
        got, std = KernelSmoother(mean_gap, bandwidth=h).fit(train, y).predict(points(1e6, -1e6, 0.21), return_std=True)
        assert_allclose(got, [5, 1, 2], rtol=1e-12)
        assert_allclose(std, 0, atol=1e-7)


# Leave-one-out


@every_kernel
def test_curve_equals_the_judge(kernel):
    bags, rng = make_bags(15), np.random.default_rng(2)
    y, w = rng.normal([0, 1e3], 1, size=(15, 2)), np.append(rng.uniform(0.1, 2, 14), 0)
    model = KernelSmoother(mean_gap, kernel=kernel).fit(bags, y, sample_weight=w)
    h, errors = model.loo_curve_
    assert h.shape == (smoothing.N_BANDWIDTHS,)
    assert errors.shape == (smoothing.N_BANDWIDTHS, 2)
    wanted = np.array([exact.leave_one_out_error(mean_gap(bags), y, each, kernel, w) for each in h])
    assert_allclose(errors, wanted, rtol=1e-9)
    variances = np.average((y - np.average(y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    best = np.argmin(np.mean(wanted / variances, axis=1))
    assert_allclose(model.bandwidth_, h[best], rtol=1e-12)
    assert_allclose(model.loo_error_, wanted[best], rtol=1e-9)


@nobody_near
@every_kernel
@pytest.mark.parametrize("kind", ["numbers", "bags"])
def test_choice_equals_refits_without_each_bag(kernel, kind):
    bags, grid = make_bags(10), np.geomspace(0.01, 1, 6)
    y = np.array([bag.mean() ** 2 for bag in bags]) if kind == "numbers" else bags
    settings = {"kernel": kernel, "response_bandwidth": 0.1, "response_nodes": Grid(40)}
    model = KernelSmoother(mean_gap, bandwidth=grid[::-1], **settings).fit(bags, y)
    squares = []
    for h in grid:
        refits = KernelSmoother(mean_gap, bandwidth=float(h), **settings)
        left = [np.arange(10) != i for i in range(10)]
        off = np.array([refits.fit(bags[s], y[s]).predict(bags[~s])[0] for s in left]) - model.responses_
        squares.append(np.mean(off**2) if kind == "numbers" else np.mean(off**2 @ model.nodes_.weights))
    assert_array_equal(model.loo_curve_[0], grid)
    assert_allclose(model.loo_curve_[1], squares, rtol=1e-9)
    assert model.bandwidth_ == grid[np.argmin(squares)]
    assert_allclose(model.loo_error_, min(squares), rtol=1e-9)
    assert not hasattr(refits, "loo_error_")


@pytest.mark.parametrize("size", [5, 40])  # fewer nodes than bags, and more
def test_error_of_densities_is_integrated(size):
    bags, y = make_bags(12), make_bags(12, seed=3)
    w = np.random.default_rng(0).uniform(0, 2, 12)
    model = KernelSmoother(mean_gap, response_nodes=Grid(size), response_bandwidth=0.3).fit(bags, y, w)
    for h, error in list(zip(*model.loo_curve_, strict=True))[::5]:
        per_node = exact.leave_one_out_error(mean_gap(bags), model.responses_, h, weights=w)
        assert_allclose(error, per_node @ model.nodes_.weights, rtol=1e-9)


def test_outputs_count_equally_whatever_their_units():
    bags, centre, width = gaussians(50, 0)
    y = np.c_[centre, width]
    chosen = [KernelSmoother(mean_gap).fit(bags, y * units).bandwidth_ for units in ([1, 1], [1e6, 1], [1, 1e6])]
    assert chosen[0] == chosen[1] == chosen[2]


def test_median_bandwidth():
    train, y = points(0.0, 0.1, 0.4), np.array([0.0, 1.0, 3.0])
    model = KernelSmoother(mean_gap, bandwidth="median").fit(train, y)
    assert_allclose(model.bandwidth_, 0.3, rtol=1e-12)
    assert_allclose(model.loo_error_, exact.leave_one_out_error(mean_gap(train), y[:, None], 0.3)[0], rtol=1e-12)
    assert_allclose(model.loo_curve_, [[model.bandwidth_], [model.loo_error_]])


@every_kernel
def test_grid_spans_the_nearest_bag_to_the_mean(kernel):
    """The ends of the curve are the errors of the nearest other bag, nearly, and of the mean of the others, nearly."""
    bags, centre, _ = gaussians(60, 3)
    y = centre + np.random.default_rng(0).normal(0, 0.05, 60)
    d2 = mean_gap(bags)
    np.fill_diagonal(d2, np.inf)
    errors = KernelSmoother(mean_gap, kernel=kernel).fit(bags, y).loo_curve_[1]
    others = (y.sum() - y) / 59
    assert_allclose(errors[0], np.mean((y - y[np.argmin(d2, axis=1)]) ** 2), rtol=0.15)
    assert_allclose(errors[-1], np.mean((y - others) ** 2), rtol=0.35)
    assert errors.min() < 0.8 * min(errors[0], errors[-1])


def test_blocks_change_nothing(monkeypatch):
    bags, new, y = make_bags(15), make_bags(40, seed=1), np.random.default_rng(0).normal(size=(15, 2))
    model = KernelSmoother(mean_gap).fit(bags, y)
    wanted, curve = model.predict(new, return_std=True), model.loo_curve_[1]
    monkeypatch.setattr(KernelSmoother, "values_at_once", 1)
    again = KernelSmoother(mean_gap).fit(bags, y)
    assert_allclose(again.loo_curve_[1], curve, rtol=1e-12)
    assert_allclose(again.predict(new, return_std=True), wanted, rtol=1e-12)


def test_predict_looks_at_some_bags_at_a_time():
    seen = []

    def counted(X, Y=None):
        seen.append((len(X), len(X if Y is None else Y)))
        return mean_gap(X, Y)

    KernelSmoother(counted, bandwidth=[0.1]).fit(make_bags(5), np.arange(5.0)).predict(
        Bags.from_arrays(np.linspace(0, 1, 3000)[:, None])
    )
    assert seen == [(5, 5), (1024, 5), (1024, 5), (952, 5)]


# What it is good for


def test_more_training_bags_predict_better():
    """Mean and entropy of the bag's Gaussian; squared errors over four seeds, at 16 times as many bags below 0.4."""
    for target in (lambda centre, width: centre, lambda centre, width: np.log(width)):
        errors = []
        for n_train in (15, 240):
            each = []
            for seed in range(4):
                bags, centre, width = gaussians(n_train + 50, seed)
                y = target(centre, width)
                model = KernelSmoother("gaussian:hellinger").fit(bags[:n_train], y[:n_train])
                each.append(np.mean((model.predict(bags[n_train:]) - y[n_train:]) ** 2))
            errors.append(np.mean(each))
        assert errors[1] < 0.4 * errors[0]


def test_leave_one_out_error_is_that_of_new_bags():
    found = []
    for seed in range(4):
        bags, centre, _ = gaussians(250, seed)
        model = KernelSmoother(HDDEmbedding("hellinger", bandwidth=0.04)).fit(bags[:100], centre[:100])
        found.append([model.loo_error_, np.mean((model.predict(bags[100:]) - centre[100:]) ** 2)])
    own, new = np.mean(found, axis=0)
    assert 0.6 < own / new < 1.5


@pytest.mark.parametrize("move", [lambda x: 1 - x, lambda x: (x + 0.3) / 1.6])
def test_from_distribution_to_distribution(move):
    """The response is the mirror image, or moved and squeezed: near the true density, far from the mean of all."""
    bags, centre, width = gaussians(240, 0, n_points=200)
    responses = Bags(move(bags.points), bags.offsets)
    model = KernelSmoother("hellinger", response_nodes=Grid(100)).fit(bags[:200], responses[:200])
    u = model.nodes_.points[:, 0]
    slope = move(1.0) - move(0.0)
    middle, deviation = move(centre[200:, None]), abs(slope) * width[200:, None]
    true = np.exp(-(((u - middle) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
    off, off_mean, size = (
        np.mean((true - other) ** 2 @ model.nodes_.weights)
        for other in (model.predict(bags[200:]), model.responses_.mean(axis=0), 0.0)
    )
    assert off < 0.08 * size
    assert off < off_mean / 5
    assert 0.8 < model.score(bags[200:], responses[200:]) < 1


def test_prediction_of_a_training_mixture_in_two_dimensions_has_mass_one():
    bags = make_bags(10, 2)
    model = KernelSmoother("hellinger").fit(bags, bags)
    p = model.predict(make_bags(4, 2, seed=9))
    assert p.shape == (4, model.nodes_.n_nodes)
    assert model.nodes_.points.shape == (model.nodes_.n_nodes, 2)
    assert_allclose(p @ model.nodes_.weights, 1, rtol=1e-9)
    assert model.response_bandwidth_.shape == (2,)


@pytest.mark.parametrize("density", ["histogram", Histogram(5), "mixture", KDE(per_bag=True), KDE("periodic")])
def test_other_densities_of_responses(density):
    bags = make_bags(4)
    model = KernelSmoother(mean_gap, bandwidth=0.1, response_density=density).fit(bags, bags)
    assert_allclose(model.predict(bags) @ model.nodes_.weights, 1, rtol=0.02)


def test_responses_of_many_dimensions_on_drawn_nodes():
    bags = make_bags(8, 4)
    model = KernelSmoother(mean_gap, bandwidth=0.1, response_bandwidth=0.3, random_state=0).fit(bags, bags)
    assert_allclose(model.predict(bags) @ model.nodes_.weights, 1, rtol=0.2)
    assert_array_equal(clone(model).fit(bags, bags).predict(bags), model.predict(bags))
    few = KernelSmoother(mean_gap, bandwidth=0.1, response_bandwidth=0.02, response_nodes=Sobol(256), random_state=0)
    with pytest.warns(UserWarning, match="densities of training responses, of mass 1, have another mass") as caught:
        few.fit(bags, bags)
    assert caught[0].filename == __file__


def test_coarse_grid_of_responses_warns_here():
    bags = make_bags(8, 3)
    with pytest.warns(UserWarning, match="narrower than half a bin") as caught:
        KernelSmoother(mean_gap, response_bandwidth=0.003).fit(bags, bags)
    assert caught[0].filename == __file__


# Bags


@every_kernel
def test_order_of_bags_is_irrelevant(kernel):
    bags, new, rng = make_bags(20), make_bags(6, seed=1), np.random.default_rng(2)
    order = rng.permutation(20)
    for y in (rng.normal(size=20), make_bags(20, seed=3)):
        one = KernelSmoother(mean_gap, kernel=kernel, response_bandwidth=0.1).fit(bags, y)
        other = clone(one).fit(bags[order], y[order])
        assert_allclose(other.bandwidth_, one.bandwidth_, rtol=1e-12)
        assert_allclose(other.predict(new), one.predict(new), rtol=1e-10)
        assert_allclose(one.predict(new[::-1]), one.predict(new)[::-1], rtol=1e-12)


@pytest.mark.parametrize("bandwidth", ["loo", "median", 0.1, [0.1, 0.2]])
def test_one_training_bag(bandwidth):
    bag, new = make_bags(1), make_bags(4, seed=1)
    model = KernelSmoother("hellinger", bandwidth=bandwidth).fit(bag, [7.5])
    assert_array_equal(model.predict(new), np.full(4, 7.5))
    assert_array_equal(model.predict(new, return_std=True)[1], np.zeros(4))
    assert bandwidth == 0.1 or np.isnan(model.loo_error_)
    assert model.bandwidth_ in (0.1, 0.2, 1.0)
    model = KernelSmoother("hellinger", bandwidth=bandwidth).fit(bag, bag)
    assert_allclose(model.predict(new) - model.responses_, 0, atol=1e-12)


@nobody_near
@every_kernel
@pytest.mark.parametrize("divergence", [mean_gap, "hellinger", HDDEmbedding("hellinger", bandwidth=0.1)])
def test_copies_of_training_bags_share_their_weight(kernel, divergence):
    bags = make_bags(8)
    twice = bags[np.repeat(np.arange(8), 2)]
    y = np.random.default_rng(0).normal(size=16)
    model = KernelSmoother(divergence, bandwidth=1e-9, kernel=kernel).fit(twice, y)
    assert_allclose(model.predict(bags), y.reshape(8, 2).mean(axis=1), rtol=1e-9)
    model = KernelSmoother(divergence, kernel=kernel).fit(twice, y)  # distances of zero do not make the curve
    assert model.loo_curve_[0][0] > 1e-4
    assert np.isfinite(model.loo_curve_[1]).all()


def test_training_bags_that_are_all_alike():
    alike, y = make_bags(1)[[0, 0, 0]], [1.0, 2.0, 6.0]
    model = KernelSmoother(mean_gap).fit(alike, y)
    assert_allclose(model.predict(make_bags(2, seed=1)), [3, 3], rtol=1e-12)
    assert_allclose(model.loo_error_, np.mean(np.array([3, 1.5, 4.5]) ** 2), rtol=1e-9)
    got = (
        KernelSmoother("hellinger").fit(alike, y).predict(make_bags(2, seed=1))
    )  # distances of training bags: rounding
    assert_allclose(got, [3, 3], rtol=1e-9)


@every_kernel
def test_constant_responses_are_predicted_exactly(kernel):
    model = KernelSmoother(mean_gap, kernel=kernel).fit(make_bags(), np.full(12, 0.1))
    assert_array_equal(model.predict(make_bags(5, seed=1)), np.full(5, 0.1))
    assert model.loo_error_ == 0
    assert model.bandwidth_ == model.loo_curve_[0][-1]  # of equally good ones the largest


@nobody_near
@every_kernel
def test_integer_weights_are_copies(kernel):
    bags, new, rng = make_bags(), make_bags(6, seed=1), np.random.default_rng(2)
    counts = np.array([0, 1, 2, 3, 1, 0, 1, 4, 1, 1, 2, 1])
    copies = np.repeat(np.arange(12), counts)
    for y in (rng.normal(size=12), make_bags(12, seed=3)):
        settings = {"bandwidth": 0.05, "kernel": kernel, "response_bandwidth": 0.1}
        weighted = KernelSmoother(mean_gap, **settings).fit(bags, y, counts)
        copied = KernelSmoother(mean_gap, **settings).fit(bags[copies], y[copies])
        assert_allclose(weighted.predict(new), copied.predict(new), rtol=1e-10)
        scaled = KernelSmoother(mean_gap, **settings).fit(bags, y, counts * 1e300)
        assert_allclose(scaled.predict(new), weighted.predict(new), rtol=1e-12)


@pytest.mark.parametrize("divergence", ["js", HDDEmbedding("hellinger")])
def test_bags_of_weight_zero_are_absent(divergence):
    bags, new, keep = make_bags(), make_bags(6, seed=1), np.arange(12) % 3 > 0
    for y in (np.where(keep, np.arange(12.0), np.nan), make_bags(12, seed=3)):
        with_zeros = KernelSmoother(divergence).fit(bags, y, sample_weight=keep)
        without = KernelSmoother(divergence).fit(bags[keep], y[keep])
        assert_array_equal(with_zeros.predict(new), without.predict(new))
        assert_array_equal(with_zeros.loo_curve_[1], without.loo_curve_[1])


class Smoothed(BagEstimator, BaseEstimator):
    """Predictions of two responses as features: so the rules for transformers of bags apply to the smoother."""

    def __init__(self, smoother):
        self.smoother = smoother

    def fit(self, X, y=None):
        bags = check_bags(self, X, reset=True)
        targets = np.c_[np.arange(bags.n_bags) % 3, np.arange(bags.n_bags)]
        self.smoother_ = clone(self.smoother).fit(X, targets)
        self._n_features_out = 2
        return self

    def transform(self, X):
        return self.smoother_.predict(X) if hasattr(self, "smoother_") else self.smoother.predict(X)

    def get_feature_names_out(self, input_features=None):
        return np.array(["first", "second"], dtype=object)


@nobody_near
@pytest.mark.parametrize(
    "smoother",
    [
        KernelSmoother("hellinger", bandwidth=0.3, n_jobs=1),
        KernelSmoother(HDDEmbedding("hellinger", n_basis=3, bandwidth=0.2), kernel="epanechnikov", bandwidth=0.6),
        KernelSmoother("mmd", bandwidth=0.1),
    ],
)
def test_contract_of_the_family(smoother):
    check_bag_transformer(Smoothed(smoother))


def test_float32_points_give_float32():
    bags, y = make_bags(), np.arange(12.0)
    model = KernelSmoother("hellinger").fit(bags.astype(np.float32), y)
    assert model.predict(bags).dtype == np.float64
    got, std = model.predict(bags.astype(np.float32), return_std=True)
    assert got.dtype == std.dtype == np.float32
    assert_allclose(got, model.predict(bags), rtol=1e-4)
    model.fit(bags, bags.astype(np.float32))
    assert model.predict(bags.astype(np.float32)).dtype == np.float32


def test_threads_change_nothing():
    bags, new = make_bags(80), make_bags(30, seed=1)
    one, two = (KernelSmoother("hellinger", bandwidth=0.3, n_jobs=n).fit(bags, bags).predict(new) for n in (1, 2))
    assert_array_equal(one, two)


# scikit-learn


def test_clone_pickle_and_tags():
    bags, y = make_bags(), np.arange(12.0)
    model = KernelSmoother(HDDEmbedding("hellinger"), bandwidth=0.3, kernel="triangular")
    assert is_regressor(model)
    assert not hasattr(model, "transform")
    assert not hasattr(model, "fit_transform")
    assert clone(model).get_params()["divergence__distance"] == "hellinger"
    with pytest.raises(NotFittedError):
        model.predict(bags)
    with pytest.raises(NotFittedError):
        model.score(bags, bags)
    with pytest.raises(ValueError, match="y must hold"):
        model.fit(bags, y[:3])
    with pytest.raises(NotFittedError):
        model.predict(bags)
    assert "KernelSmoother" in model._repr_html_()
    for responses in (y, bags):
        loaded = pickle.loads(pickle.dumps(model.fit(bags, responses)))
        assert_array_equal(loaded.predict(bags), model.predict(bags))
    assert not hasattr(model.divergence, "bandwidth_")


def test_second_fit_forgets_the_first():
    bags, y = make_bags(), np.arange(12.0)
    model = KernelSmoother(mean_gap, response_bandwidth=0.1).fit(bags, bags)
    model.fit(bags, y)
    assert not hasattr(model, "nodes_")
    assert not hasattr(model, "response_bandwidth_")
    assert_array_equal(model.predict(bags), KernelSmoother(mean_gap).fit(bags, y).predict(bags))
    model.set_params(bandwidth=0.1).fit(bags, y)
    assert not hasattr(model, "loo_curve_")


def test_pipeline_search_and_cross_validation():
    bags, centre, _ = gaussians(40, 0)
    bags = Bags(100 * bags.points - 30, bags.offsets)
    model = make_pipeline(UnitCube(), KernelSmoother("hellinger"))
    scores = cross_val_score(model, bags, centre, cv=4)
    assert scores.shape == (4,)
    assert scores.mean() > 0.8
    assert cross_val_predict(model, bags, np.c_[centre, centre], cv=4).shape == (40, 2)
    grid = {"kernelsmoother__bandwidth": [0.2, "loo"], "kernelsmoother__kernel": ["gaussian", "triangular"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a fold may have a bag with nobody near
        search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(bags, centre)
    assert search.best_score_ > 0.8
    assert search.predict(bags).shape == (40,)


def test_search_with_bags_as_responses():
    bags, *_ = gaussians(40, 0)
    mirrored = Bags(1 - bags.points, bags.offsets)
    model = KernelSmoother("gaussian:hellinger", response_bandwidth=0.03, response_nodes=Grid(50))
    search = GridSearchCV(model, {"bandwidth": [0.15, 50.0]}, cv=3, error_score="raise").fit(bags, mirrored)
    assert search.best_params_ == {"bandwidth": 0.15}
    assert search.best_score_ > 0.5
    assert search.cv_results_["mean_test_score"][1] < 0.05  # the mean of all


def test_scores():
    bags, rng = make_bags(), np.random.default_rng(0)
    w, y = rng.uniform(0.1, 1, 12), rng.normal(size=(12, 2))
    model = KernelSmoother(mean_gap, bandwidth=0.1).fit(bags, y)
    assert_allclose(model.score(bags, y, w), r2_score(y, model.predict(bags), sample_weight=w), rtol=1e-12)
    model = KernelSmoother(mean_gap, bandwidth=0.1, response_bandwidth=0.1).fit(bags, bags)
    p, volumes = model.responses_, model.nodes_.weights
    by_hand = r2_score(
        p * np.sqrt(volumes), model.predict(bags) * np.sqrt(volumes), sample_weight=w, multioutput="variance_weighted"
    )
    assert_allclose(model.score(bags, bags, w), by_hand, rtol=1e-9)
    assert KernelSmoother(mean_gap, response_bandwidth=0.1).fit(bags[:1], bags[:1]).score(bags[:1], bags[:1]) == 1


def test_kinds_of_responses():
    bags, rng = make_bags(6), np.random.default_rng(0)
    arrays = [rng.uniform(size=(n, 2)) for n in (3, 4, 5, 6, 7, 8)]
    model = KernelSmoother(mean_gap, bandwidth=0.1, response_bandwidth=0.1)
    wanted = model.fit(bags, Bags.from_arrays(arrays)).predict(bags)
    for y in (arrays, tuple(arrays), np.fromiter(arrays, dtype=object, count=6)):
        assert_array_equal(model.fit(bags, y).predict(bags), wanted)
    stacked = rng.uniform(size=(6, 5, 2))
    for y in (stacked, list(stacked)):
        assert model.fit(bags, y).predict(bags).shape == (6, model.nodes_.n_nodes)
    assert model.fit(bags, [list(range(n)) for n in (1, 2, 1, 2, 1, 2)]).predict(bags).ndim == 2
    for y, shape in (([1, 2, 3, 4, 5, 6], (6,)), ([True] * 6, (6,)), (np.ones((6, 1)), (6, 1)), ([[1, 2]] * 6, (6, 2))):
        assert model.fit(bags, y).predict(bags).shape == shape
        assert not hasattr(model, "nodes_")


# Errors


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"kernel": "cosine"}, ValueError, r"KernelSmoother\(kernel=...\): must be one of 'gaussian', .* got 'cosine'"),
        ({"kernel": None}, TypeError, r"KernelSmoother\(kernel=...\): must be one of"),
        ({"bandwidth": 0}, ValueError, r"KernelSmoother\(bandwidth=...\): must be a number in \(0, inf\), got 0; give"),
        ({"bandwidth": [0.1, -1]}, ValueError, r"KernelSmoother\(bandwidth=...\): .* got -1; give a positive number"),
        ({"bandwidth": []}, TypeError, r"KernelSmoother\(bandwidth=...\): must be a number"),
        ({"bandwidth": None}, TypeError, r"KernelSmoother\(bandwidth=...\): must be a number"),
        ({"bandwidth": "scott"}, ValueError, r"KernelSmoother\(bandwidth=...\): must be one of 'loo', 'median'"),
        ({"divergence": "euclid"}, ValueError, r"KernelSmoother\(divergence=...\): must be one of 'js'"),
        ({"divergence": 3}, TypeError, r"KernelSmoother\(divergence=...\): must be one of 'js'"),
    ],
)
def test_wrong_parameters(settings, error, text):
    with pytest.raises(error, match=text):
        KernelSmoother(**settings).fit(make_bags(), np.arange(12.0))


@pytest.mark.parametrize(
    ("y", "error", "text"),
    [
        (np.arange(11.0), ValueError, "y must hold one response a bag, got 11 for 12 bags"),
        (make_bags(5), ValueError, "y must hold one response a bag, got 5 for 12 bags"),
        ([], ValueError, "y must hold one response a bag, got 0 for 12 bags"),
        (np.append(np.zeros(11), np.nan), ValueError, "y must be finite, got nan for bag 11"),
        (np.append(np.inf, np.zeros(11)), ValueError, "y must be finite, got inf for bag 0"),
        (
            ["a"] * 12,
            TypeError,
            r"y must be numbers of shape \(n_bags,\) or \(n_bags, n_outputs\), or bags, got dtype <U1",
        ),
        (np.array([object()] * 12), TypeError, r"y must be numbers .* got dtype object, shape \(12,\)"),
        (np.array(["ab"] * 12, dtype=object), TypeError, "y must be numbers .* got dtype object"),
        (np.zeros(12, complex), TypeError, "y must be numbers .* got dtype complex128"),
        (np.zeros((12, 0)), TypeError, r"y must be numbers .* shape \(12, 0\)"),
        (None, TypeError, "y must be numbers .* got None"),
        ([[1.0, np.nan], [1.0]] * 6, ValueError, "KernelSmoother: y, read as bags: points must be finite"),
        ([[0.1, 0.2], [1.5]] * 6, ValueError, r"KernelSmoother \(y\): points must lie in the unit cube .* UnitCube"),
    ],
)
def test_wrong_responses(y, error, text):
    with pytest.raises(error, match=text):
        KernelSmoother(mean_gap).fit(make_bags(), y)


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (np.ones(11), r"sample_weight must be one finite number >= 0 a bag.* got shape \(11,\)"),
        (1.0, r"sample_weight must be .* got shape \(\)"),
        (np.append(np.ones(11), -1), "sample_weight must be .* got -1.0 for bag 11"),
        (np.append(np.ones(11), np.nan), "sample_weight must be .* got nan for bag 11"),
        (np.zeros(12), "sample_weight must be .* got zeros alone"),
    ],
)
def test_wrong_weights(weight, text):
    with pytest.raises(ValueError, match=text):
        KernelSmoother(mean_gap).fit(make_bags(), np.arange(12.0), weight)


def test_wrong_calls():
    bags = make_bags()
    model = KernelSmoother(mean_gap, response_bandwidth=0.1).fit(bags, bags)
    with pytest.raises(ValueError, match=r"predict\(return_std=True\) needs responses that are numbers"):
        model.predict(bags, return_std=True)
    with pytest.raises(ValueError, match=r"points of 1 dimension\(s\), as in fit, got 2"):
        model.predict(make_bags(12, 2))
    with pytest.raises(ValueError, match="y must hold one bag of 1-D points for each of 12 bags, got 12 of 2-D points"):
        model.score(bags, make_bags(12, 2))
    with pytest.raises(ValueError, match="KernelSmoother: y, read as bags"):
        model.score(bags, np.arange(12.0))
    with pytest.raises(ValueError, match="must lie in the unit cube"):
        KernelSmoother("js").fit(Bags.from_arrays([[0.5, 1.5], [0.1]]), [0, 1])
