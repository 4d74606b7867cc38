"""Mean maps in full: the slow twin on every pair, known Gaussians as points grow, and the unbiased statistic."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import exact
from distembed.bags import Bags
from distembed.divergences import mean_map, mmd
from distembed.divergences import pairs as kernel_pairs

GAUSSIANS = [((1, 1), 0.177267635), ((0, 2), 0.094187022)]  # mean and deviation against N(0, 1), MMD² for sigma 1


def ragged(seed=0, n_bags=5, n_dims=2, weighted=False):
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
class TestAgainstTheTwin:
    def test_mean_map(self, n_dims, weighted):
        X, Y = ragged(1, 5, n_dims, weighted), ragged(2, 4, n_dims, weighted)
        assert_allclose(mean_map(X, Y, sigma=1.3), one_by_one(exact.mean_kernel, X, Y, 1.3), rtol=1e-11)
        assert_allclose(mean_map(X, sigma=1.3), one_by_one(exact.mean_kernel, X, X, 1.3), rtol=1e-11)

    def test_mmd(self, n_dims, weighted):
        X, Y = ragged(3, 5, n_dims, weighted), ragged(4, 4, n_dims, weighted)
        assert_allclose(mmd(X, Y, sigma=0.7), one_by_one(exact.mmd, X, Y, 0.7), atol=1e-12)
        assert_allclose(mmd(X, sigma=0.7), one_by_one(exact.mmd, X, X, 0.7), atol=1e-12)

    def test_far_points_by_differences(self, n_dims, weighted):
        X, Y = ragged(5, 3, n_dims, weighted), ragged(6, 3, n_dims, weighted)
        X = X.replace(points=np.vstack([X.points[:-1], np.full((1, n_dims), 1e6)]))
        assert_allclose(mean_map(X, Y, sigma=1.0), one_by_one(exact.mean_kernel, X, Y, 1.0), rtol=1e-9)


class TestUnbiased:
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


class TestGaussians:
    @pytest.mark.parametrize(("other", "truth"), GAUSSIANS)
    def test_converges(self, other, truth):
        rng, rms = np.random.default_rng(9), []
        for n in (100, 1600):
            pairs = [(rng.normal(0, 1, n), rng.normal(*other, n)) for _ in range(8)]
            errors = [mmd([x], [y], sigma=1.0, unbiased=True)[0, 0] - truth for x, y in pairs]
            rms.append(np.sqrt(np.mean(np.square(errors))))
        assert rms[1] < 0.6 * rms[0]
        assert rms[1] < 0.02


class TestProperties:
    def test_symmetric_and_positive_semidefinite(self):
        bags = ragged(10, 30)
        K, d2 = mean_map(bags), mmd(bags)
        assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-12
        assert_array_equal(d2, d2.T)
        assert_array_equal(np.diag(d2), 0)
        assert d2.min() >= 0

    def test_neither_threads_nor_strips_matter(self, monkeypatch):
        X, Y = ragged(11, 9), ragged(12, 7)
        found, alone = mmd(X, Y, sigma=1.0, n_jobs=1), mean_map(X, sigma=1.0, n_jobs=1)
        assert_array_equal(found, mmd(X, Y, sigma=1.0, n_jobs=3))
        monkeypatch.setattr(kernel_pairs, "_STRIP_POINTS", 7)
        monkeypatch.setattr(kernel_pairs, "_STRIP_VALUES", 40)
        assert_allclose(mmd(X, Y, sigma=1.0), found, atol=1e-14)
        assert_allclose(mean_map(X, sigma=1.0), alone, atol=1e-14)

    def test_work_is_half_of_the_pairs(self, monkeypatch):
        counted, plain = [], kernel_pairs.gaussian_pairs

        def count(x, y, *options):
            counted.append(len(x) * len(y))
            return plain(x, y, *options)

        monkeypatch.setattr(kernel_pairs, "gaussian_pairs", count)
        mean_map(np.zeros((10, 6, 1)), sigma=1.0, n_jobs=1)
        assert sum(counted) == 36 * 55

    def test_median_is_that_of_both(self):
        X, Y = [[0.0, 1.0]], [[3.0]]  # distances 1, 2, 3
        assert_allclose(mean_map(X, Y), mean_map(X, Y, sigma=2.0), rtol=1e-14)

    def test_median_of_many_points_is_drawn(self):
        X = np.random.default_rng(13).normal(size=(3, 500, 1))
        assert_array_equal(mmd(X, random_state=0), mmd(X, random_state=0))

    def test_units_and_origin_do_not_matter(self):
        bags = ragged(14)
        moved = bags.replace(points=1000 * bags.points + 1e7)
        assert_allclose(mmd(moved), mmd(bags), atol=1e-8)

    def test_weightless_points_are_absent(self):
        bags = Bags.from_arrays([[0.0, 1.0, 9.0], [2.0, 4.0]], weights=[[1, 2, 0], [1, 1]])
        without = Bags.from_arrays([[0.0, 1.0], [2.0, 4.0]], weights=[[1, 2], [1, 1]])
        assert_array_equal(mmd(bags), mmd(without))

    def test_float32_points_give_float64_and_stay_as_they_are(self):
        bags = ragged(15).astype(np.float32)
        before = bags.points.copy()
        assert mmd(bags).dtype == mean_map(bags).dtype == np.float64
        assert_array_equal(bags.points, before)

    def test_huge_points_are_far_and_no_nan(self):
        found = mmd([[0.0, 1.0], [1e308, -1e308]], sigma=1.0)
        assert_allclose(found[0, 1], (1 + np.exp(-0.5)) / 2 + 0.5, rtol=1e-12)


class TestErrors:
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
