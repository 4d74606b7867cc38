"""Sums of kernels over pairs of points: mean maps, and Jensen-Shannon from entropies.

Each against its slow twin on every pair, and against known Gaussians as points grow.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import exact
from distembed.bags import Bags
from distembed.divergences import js_entropy, kernel_sums, mean_map, mmd, pairs

# --------------------------------------------------------------------------------------------------------------
# Mean maps
# --------------------------------------------------------------------------------------------------------------

GAUSSIANS = [((1, 1), 0.177267635), ((0, 2), 0.094187022)]  # mean and deviation against N(0, 1), MMD² for sigma 1


def normal_bags(seed=0, n_bags=5, n_dims=2, weighted=False):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(rng.normal(), 1, (int(rng.integers(1, 30)), n_dims)) for _ in range(n_bags)]
    weights = [rng.uniform(0.2, 2, len(x)) for x in arrays] if weighted else None
    return Bags.from_arrays(arrays, weights=weights)


def one_by_one(function, X, Y, sigma):
    return [
        [function(X[i], Y[j], sigma, X.weights_of(i), Y.weights_of(j)) for j in range(len(Y))] for i in range(len(X))
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dims", [1, 3, 12])
class TestMeanMapsAgainstTheTwin:
    def test_mean_map(self, n_dims, weighted):
        X, Y = normal_bags(1, 5, n_dims, weighted), normal_bags(2, 4, n_dims, weighted)
        assert_allclose(mean_map(X, Y, sigma=1.3), one_by_one(exact.mean_kernel, X, Y, 1.3), rtol=1e-11)
        assert_allclose(mean_map(X, sigma=1.3), one_by_one(exact.mean_kernel, X, X, 1.3), rtol=1e-11)

    def test_mmd(self, n_dims, weighted):
        X, Y = normal_bags(3, 5, n_dims, weighted), normal_bags(4, 4, n_dims, weighted)
        assert_allclose(mmd(X, Y, sigma=0.7), one_by_one(exact.mmd, X, Y, 0.7), atol=1e-12)
        assert_allclose(mmd(X, sigma=0.7), one_by_one(exact.mmd, X, X, 0.7), atol=1e-12)

    def test_far_points_by_differences(self, n_dims, weighted):
        X, Y = normal_bags(5, 3, n_dims, weighted), normal_bags(6, 3, n_dims, weighted)
        X = X.replace(points=np.vstack([X.points[:-1], np.full((1, n_dims), 1e6)]))
        assert_allclose(mean_map(X, Y, sigma=1.0), one_by_one(exact.mean_kernel, X, Y, 1.0), rtol=1e-9)


class TestMeanMapsUnbiased:
    def test_by_hand(self):
        found = mmd([[0.0, 1.0]], [[0.0, 2.0]], sigma=1.0, unbiased=True)
        own, cross = np.exp([-0.5, -2.0]), np.mean([1, np.exp(-2), np.exp(-0.5), np.exp(-0.5)])
        assert_allclose(found, [[own.sum() - 2 * cross]], rtol=1e-13)

    def test_weights_by_hand(self):
        X = Bags.from_arrays([[0.0, 1.0, 3.0]], weights=[[1, 2, 3]])
        pairs = (1 * 2 * np.exp(-0.5) + 1 * 3 * np.exp(-4.5) + 2 * 3 * np.exp(-2)) / (1 * 2 + 1 * 3 + 2 * 3)
        Y = [[100.0, 200.0]]  # no kernel reaches from one to the other, nor to X
        assert_allclose(mmd(X, Y, sigma=1.0, unbiased=True), [[pairs]], rtol=1e-10)

    def test_mean_of_the_null_is_zero(self):
        rng = np.random.default_rng(7)
        X, Y = rng.normal(size=(2, 400, 10, 1))
        matched = [np.diag(mmd(X, Y, sigma=1.0, unbiased=unbiased)) for unbiased in (True, False)]
        error = np.std(matched[0]) / np.sqrt(400)
        assert abs(np.mean(matched[0])) < 3.5 * error
        bias = 2 * (1 - 1 / np.sqrt(3)) / 10
        assert_allclose(np.mean(matched[1]), bias, atol=3.5 * error)
        assert bias > 10 * error

    def test_alone_or_as_both_arguments(self):
        bags = np.random.default_rng(8).normal(size=(4, 9, 2))
        found, against = (mmd(*both, sigma=1.0, unbiased=True) for both in ((bags,), (bags, bags)))
        assert_array_equal(np.diag(found), 0)
        off = ~np.eye(4, dtype=bool)
        assert_allclose(found[off], against[off], atol=1e-14)

    def test_one_point_is_refused(self):
        text = r"mmd\(X=...\): must have at least 2 points .* got 1 in bag 1.*; leave it out, or use unbiased=False"
        with pytest.raises(ValueError, match=text):
            mmd([[0.0, 1.0], [2.0]], unbiased=True)
        assert mmd([[0.0, 1.0], [2.0]]).shape == (2, 2)


class TestMeanMapsGaussians:
    @pytest.mark.parametrize(("other", "truth"), GAUSSIANS)
    def test_converges(self, other, truth):
        rng, rms = np.random.default_rng(9), []
        for n in (100, 1600):
            pairs = [(rng.normal(0, 1, n), rng.normal(*other, n)) for _ in range(8)]
            errors = [mmd([x], [y], sigma=1.0, unbiased=True)[0, 0] - truth for x, y in pairs]
            rms.append(np.sqrt(np.mean(np.square(errors))))
        assert rms[1] < 0.6 * rms[0]
        assert rms[1] < 0.02


class TestMeanMapsProperties:
    def test_symmetric_and_positive_semidefinite(self):
        bags = normal_bags(10, 30)
        K, d2 = mean_map(bags), mmd(bags)
        assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-12
        assert_array_equal(d2, d2.T)
        assert_array_equal(np.diag(d2), 0)
        assert d2.min() >= 0

    def test_neither_threads_nor_strips_matter(self, monkeypatch):
        X, Y = normal_bags(11, 9), normal_bags(12, 7)
        found, alone = mmd(X, Y, sigma=1.0, n_jobs=1), mean_map(X, sigma=1.0, n_jobs=1)
        assert_array_equal(found, mmd(X, Y, sigma=1.0, n_jobs=3))
        monkeypatch.setattr(pairs.KernelBlocks, "strip_points", 7)
        monkeypatch.setattr(pairs.KernelBlocks, "strip_values", 40)
        assert_allclose(mmd(X, Y, sigma=1.0), found, atol=1e-14)
        assert_allclose(mean_map(X, sigma=1.0), alone, atol=1e-14)

    def test_work_is_half_of_the_pairs(self, monkeypatch):
        counted, plain = [], pairs.gaussian_pairs

        def count(x, y, *options):
            counted.append(len(x) * len(y))
            return plain(x, y, *options)

        monkeypatch.setattr(pairs, "gaussian_pairs", count)
        mean_map(np.zeros((10, 6, 1)), sigma=1.0, n_jobs=1)
        assert sum(counted) == 36 * 55

    def test_median_is_that_of_both(self):
        X, Y = [[0.0, 1.0]], [[3.0]]  # distances 1, 2, 3
        assert_allclose(mean_map(X, Y), mean_map(X, Y, sigma=2.0), rtol=1e-14)

    def test_median_of_many_points_is_drawn(self):
        X = np.random.default_rng(13).normal(size=(3, 500, 1))
        assert_array_equal(mmd(X, random_state=0), mmd(X, random_state=0))

    def test_units_and_origin_do_not_matter(self):
        bags = normal_bags(14)
        moved = bags.replace(points=1000 * bags.points + 1e7)
        assert_allclose(mmd(moved), mmd(bags), atol=1e-8)

    def test_weightless_points_are_absent(self):
        bags = Bags.from_arrays([[0.0, 1.0, 9.0], [2.0, 4.0]], weights=[[1, 2, 0], [1, 1]])
        without = Bags.from_arrays([[0.0, 1.0], [2.0, 4.0]], weights=[[1, 2], [1, 1]])
        assert_array_equal(mmd(bags), mmd(without))

    def test_float32_points_give_float64_and_stay_as_they_are(self):
        bags = normal_bags(15).astype(np.float32)
        before = bags.points.copy()
        assert mmd(bags).dtype == mean_map(bags).dtype == np.float64
        assert_array_equal(bags.points, before)

    def test_huge_points_are_far_and_no_nan(self):
        found = mmd([[0.0, 1.0], [1e308, -1e308]], sigma=1.0)
        assert_allclose(found[0, 1], (1 + np.exp(-0.5)) / 2 + 0.5, rtol=1e-12)


class TestMeanMapsErrors:
    @pytest.mark.parametrize("function", [mean_map, mmd])
    def test_arguments(self, function):
        name = function.__name__
        with pytest.raises(ValueError, match=rf"{name}\(sigma=...\): .* got 'mean'; choose one"):
            function([[0.0], [1.0]], sigma="mean")
        with pytest.raises(ValueError, match=rf"{name}\(sigma=...\): must be a number in \(0, inf\), got 0; give a"):
            function([[0.0], [1.0]], sigma=0)
        with pytest.raises(ValueError, match=rf"{name}\(Y=...\): must have points of 1 dimension\(s\), as X, got 2"):
            function([[0.0], [1.0]], np.zeros((1, 3, 2)))
        labelled = Bags.from_frame({"c": ["u", "v"], "b": [0, 1]}, bag="b", categorical=["c"])
        with pytest.raises(ValueError, match=rf"{name}\(X=...\): must have continuous columns only, got .*'c'"):
            function(labelled)

    def test_unbiased(self):
        with pytest.raises(TypeError, match=r"mmd\(unbiased=...\): must be True or False, got 'yes'"):
            mmd([[0.0, 1.0]], unbiased="yes")


# --------------------------------------------------------------------------------------------------------------
# Entropies
# --------------------------------------------------------------------------------------------------------------

SPLITS = ["halves", "leave-one-out"]
every_split = pytest.mark.parametrize("split", SPLITS)
JS_1D, JS_2D = 0.111421482, 0.287665969


def uniform_bags(seed=0, n_bags=5, n_dims=2, weighted=False):
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(0.1, rng.uniform(0.5, 1), (int(rng.integers(2, 40)), n_dims)) for _ in range(n_bags)]
    weights = [rng.uniform(0.2, 2, len(x)) for x in arrays] if weighted else None
    return Bags.from_arrays(arrays, weights=weights)


def gaussians_1d(rng, n):
    return [rng.normal(0, 1, n), rng.normal(1, 1, n)]


def gaussians_2d(rng, n):
    factor = np.linalg.cholesky([[1, 0.5], [0.5, 1]])
    return [rng.normal(size=(n, 2)) @ factor.T, rng.normal([1, -1], np.sqrt([2, 0.5]), (n, 2))]


def plain_leave_one_out(x, y, bandwidth, boundary, a=None, b=None):
    """The formula, point by point."""
    means = []
    a, b = (np.ones(len(z)) if w is None else w for z, w in ((x, a), (y, b)))
    for own, u, other, v in ((x, a, y, b), (y, b, x, a)):
        logs = []
        for m in range(len(own)):
            rest = np.arange(len(own)) != m
            p = exact.kde(own[rest], own[m : m + 1], bandwidth, boundary, u[rest])[0]
            q = exact.kde(other, own[m : m + 1], bandwidth, boundary, v)[0]
            logs.append(np.log(2 * p / (p + q)))
        means.append(np.average(logs, weights=u))
    return np.mean(means)


class TestEntropiesAgainstTheTwin:
    @pytest.mark.parametrize("boundary", ["none", "reflect", "periodic"])
    @pytest.mark.parametrize("n_dims", [1, 2, 4])
    def test_halves(self, boundary, n_dims):
        X, Y = uniform_bags(1, n_dims=n_dims), uniform_bags(2, 3, n_dims=n_dims)
        found = js_entropy(X, Y, split="halves", bandwidth=0.2, boundary=boundary)
        expected = [[exact.js_from_entropies(x, y, 0.2, boundary) for y in Y] for x in X]
        assert_allclose(found, expected, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("boundary", ["none", "reflect"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_leave_one_out(self, boundary, weighted):
        X, Y = uniform_bags(3, weighted=weighted), uniform_bags(4, 3, weighted=weighted)
        widths = [0.2, 0.3]
        found = js_entropy(X, Y, bandwidth=widths, boundary=boundary)
        expected = [
            [plain_leave_one_out(X[i], Y[j], widths, boundary, X.weights_of(i), Y.weights_of(j)) for j in range(len(Y))]
            for i in range(len(X))
        ]
        assert_allclose(found, expected, rtol=0, atol=1e-10)

    def test_by_hand(self):
        # Means at 0 and 1, densities of one kernel at 0 and 1: log 2/(1 + e^-1/2), twice.
        found = js_entropy([[0.0, 0.0], [1.0, 1.0]], split="halves", bandwidth=1.0)
        assert_allclose(found[0, 1], np.log(2 / (1 + np.exp(-0.5))), rtol=1e-14)

    @every_split
    def test_alone_or_as_both_arguments(self, split):
        bags = uniform_bags(5)
        found = js_entropy(bags, split=split, bandwidth=0.2)
        against = js_entropy(bags, bags, split=split, bandwidth=0.2)
        assert_array_equal(found, found.T)
        assert_array_equal(np.diag(found), 0)
        off = ~np.eye(len(bags), dtype=bool)
        assert_allclose(found[off], against[off], atol=1e-14)
        if split == "halves":
            assert_allclose(np.diag(against), 0, atol=1e-14)

    @every_split
    def test_neither_threads_nor_strips_matter(self, split, monkeypatch):
        bags = uniform_bags(6, 9)
        found = js_entropy(bags, split=split, bandwidth=0.2, n_jobs=1)
        assert_array_equal(found, js_entropy(bags, split=split, bandwidth=0.2, n_jobs=3))
        monkeypatch.setattr(pairs.KernelBlocks, "strip_points", 7)
        monkeypatch.setattr(pairs.KernelBlocks, "strip_values", 50)
        monkeypatch.setattr(kernel_sums, "_GROUP_BAGS", 2)
        assert_allclose(found, js_entropy(bags, split=split, bandwidth=0.2), rtol=0, atol=1e-13)


class TestEntropiesGaussians:
    @staticmethod
    def errors(draw, truth, n, split, n_seeds):
        rng = np.random.default_rng(7)
        return np.array([js_entropy(draw(rng, n), split=split)[0, 1] - truth for _ in range(n_seeds)])

    @every_split
    @pytest.mark.parametrize(
        ("draw", "truth", "last"), [(gaussians_1d, JS_1D, 0.025), (gaussians_2d, JS_2D, 0.03)], ids=["1d", "2d"]
    )
    def test_converges(self, draw, truth, last, split):
        few, many = (self.errors(draw, truth, n, split, 6) for n in (75, 1200))
        rms = [np.sqrt(np.mean(errors**2)) for errors in (few, many)]
        assert rms[1] < 0.6 * rms[0]
        assert rms[1] < last

    def test_one_distribution_is_near_zero_and_below_on_average(self):
        rng = np.random.default_rng(8)
        found = [js_entropy(list(rng.normal(size=(2, 400))))[0, 1] for _ in range(12)]
        assert -0.01 < np.mean(found) < 0

    @pytest.mark.parametrize("bandwidth", [0.1, 0.3, 1.0])
    def test_never_above_the_truth_in_expectation(self, bandwidth):
        rng = np.random.default_rng(9)
        found = [js_entropy(gaussians_1d(rng, 100), bandwidth=bandwidth)[0, 1] for _ in range(100)]
        assert np.mean(found) < JS_1D + 3 * np.std(found) / 10


class TestEntropiesProperties:
    def test_units_do_not_matter(self):
        bags = gaussians_2d(np.random.default_rng(10), 60)
        moved = [x * [1000, 0.01] + [1e5, -3] for x in bags]
        assert_allclose(js_entropy(moved), js_entropy(bags), rtol=0, atol=1e-6)

    def test_order_of_points_does_not_matter_when_one_is_left_out(self):
        bags = gaussians_1d(np.random.default_rng(11), 80)
        found = js_entropy(bags, bandwidth=0.3)
        assert_allclose(js_entropy([np.sort(x) for x in bags], bandwidth=0.3), found, atol=1e-13)

    @every_split
    def test_scale_of_weights_and_weightless_points_do_not_matter(self, split):
        x, y = gaussians_1d(np.random.default_rng(12), 30)
        weights = [np.full(30, 3.0), np.full(30, 0.1)]
        found = js_entropy([x, y], split=split)
        weighted = Bags.from_arrays([x, y], weights=weights)
        assert_allclose(js_entropy(weighted, split=split), found, atol=1e-9)
        more = Bags.from_arrays(
            [np.append(x, 50.0), np.append(-50.0, y)], weights=[np.append(weights[0], 0), np.append(0, weights[1])]
        )
        assert_array_equal(js_entropy(more, split=split), js_entropy(weighted, split=split))

    @every_split
    def test_equal_points_and_far_bags_are_finite(self, split):
        bags = [[1.0, 1.0, 1.0], [1.0, 1.0], [1e9, 1e9 + 1, 5.0], [0.0, 2.0]]
        for bandwidth in ("likelihood", "scott", 1e-3):
            found = js_entropy(bags, split=split, bandwidth=bandwidth)
            assert np.all(np.isfinite(found))
            assert_allclose(found[0, 1], 0, atol=1e-12)

    def test_bags_apart_have_log_two(self):
        x, y = gaussians_1d(np.random.default_rng(13), 50)
        assert_allclose(js_entropy([x, y + 1000], bandwidth=0.5)[0, 1], np.log(2), rtol=1e-12)

    def test_where_every_density_underflows(self):
        # Far apart in their own bag, points of the second say nothing: log 1. Those of the first say log 2.
        for far in (1e10, 1e100, 1e300):
            found = js_entropy([[0.0, 1.0, 2.0], [far, far / 2, -far / 2]], bandwidth=1.0)
            assert_allclose(found[0, 1], np.log(2) / 2, rtol=1e-12)

    def test_clamp(self):
        rng = np.random.default_rng(14)
        bags = list(rng.normal(size=(6, 50)))
        raw, clamped = js_entropy(bags), js_entropy(bags, clamp=True)
        assert raw.min() < 0
        assert_array_equal(clamped, np.clip(raw, 0, np.log(2)))

    def test_float32_points_give_float64(self):
        bags = uniform_bags(15)
        found = js_entropy(bags.astype(np.float32), bandwidth=0.2)
        assert found.dtype == np.float64
        assert_allclose(found, js_entropy(bags, bandwidth=0.2), atol=1e-5)


class TestEntropiesErrors:
    def test_one_point(self):
        text = r"js_entropy\(Y=...\): must have at least 2 points .* got 1 in bag 1.*; one point has no information"
        with pytest.raises(ValueError, match=text):
            js_entropy([[1.0, 2.0]], [[1.0, 2.0], [3.0]])

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"split": "thirds"}, ValueError, r"js_entropy\(split=...\): must be one of .* got 'thirds'"),
            ({"boundary": "open"}, ValueError, r"js_entropy\(boundary=...\): must be one of .* got 'open'"),
            ({"boundary": ["none"] * 2}, ValueError, r"one per dimension \(1\), got .*; give 1 names"),
            ({"boundary": "reflect"}, ValueError, r"js_entropy: points must lie in the unit cube .*boundary='none'"),
            ({"bandwidth": -1.0}, ValueError, r"js_entropy\(bandwidth=...\): .* got -1.0; give a positive number"),
            ({"bandwidth": [1.0, 2.0]}, ValueError, r"one per dimension \(1\) or a rule, got .*; give 1 numbers"),
            ({"bandwidth": "best"}, ValueError, r"bandwidth: must be .* got 'best'"),
            ({"bandwidth": 1.0, "bandwidth_scale": 0}, ValueError, r"js_entropy\(bandwidth_scale=...\): .* got 0"),
            ({"clamp": 1}, TypeError, r"js_entropy\(clamp=...\): must be True or False, got 1"),
        ],
    )
    def test_parameters(self, options, error, text):
        with pytest.raises(error, match=text):
            js_entropy([[1.0, 2.0], [3.0, 4.0]], **options)
