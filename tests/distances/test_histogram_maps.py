"""Explicit maps of additive kernels: against the judge, against scikit-learn, and their errors as the papers say."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.kernel_approximation import AdditiveChi2Sampler

import exact as judge
from distembed import HomogeneousDistance
from distembed.distances import histogram_maps as maps

H = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
TRUTH = {"js": 0.066414314, "hellinger": 0.067544468, "tv": 0.3}
KERNELS = ("js", "chi2", "hellinger", "tv")


def random_histograms(n_rows=8, n_values=12, seed=0, dtype=float):
    """Histograms of very different shares, a third of them zero."""
    rng = np.random.default_rng(seed)
    h = rng.gamma(0.3, size=(n_rows, n_values)) * (rng.uniform(size=(n_rows, n_values)) > 0.3)
    h[:, 0] += 1e-3
    return (h / h.sum(axis=1, keepdims=True)).astype(dtype)


def squared_distances(features):
    return np.sum((features[:, None].astype(float) - features[None].astype(float)) ** 2, axis=2)


def true_distances(h, kernel):
    return np.array([[judge.histogram_distance(a, b, kernel) for b in h] for a in h.astype(float)])


def halved_tv(x, y):
    return np.abs(x - y) / 4


# --------------------------------------------------------------------------------------------------------------
# Values
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "kind", "order", "tolerance"),
    [
        ("js", "vedaldi", 40, 1e-9),
        ("js", "gauss", 5, 1e-9),
        ("hellinger", "vedaldi", None, 1e-9),
        ("hellinger", "gauss", None, 1e-9),
        ("tv", "vedaldi", 128, 0.006),
        ("intersection", "gauss", 128, 0.011),
    ],
)
def test_three_values(kernel, kind, order, tolerance):
    a, b = maps.explicit_map(kernel, kind, order)(H)
    wanted = TRUTH["tv" if kernel == "intersection" else kernel]
    assert abs(np.sum((a - b) ** 2) - wanted) <= tolerance + 5e-10


def test_the_judge_has_the_three_values():
    for kernel, wanted in TRUTH.items():
        assert abs(judge.histogram_distance(*H, kernel) - wanted) < 5e-10


@pytest.mark.parametrize("kernel", ["l2", "linear"])
@pytest.mark.parametrize("kind", ["none", "vedaldi", "gauss"])
def test_no_map_gives_the_values_themselves(kernel, kind):
    np.testing.assert_array_equal(maps.explicit_map(kernel, kind)(H), H)


# --------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["js", "chi2", "tv"])
@pytest.mark.parametrize("order", [0, 1, 3, 8])
def test_samples_of_the_spectrum_are_the_judges(kernel, order):
    h = random_histograms()
    period = maps.best_period(kernel, order)
    wanted = [[judge.spectrum_map(x, kernel, order, period) for x in row] for row in h]
    found = maps.explicit_map(kernel, "vedaldi", order)(h)
    assert found.shape == (len(h), (2 * order + 1) * h.shape[1])
    np.testing.assert_allclose(found, np.swapaxes(wanted, 1, 2).reshape(len(h), -1), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["vedaldi", "gauss"])
@pytest.mark.parametrize("order", [1, 3, 10])
def test_errors_stay_below_the_documented_bound(kernel, kind, order):
    h = random_histograms(20)
    made = maps.explicit_map(kernel, kind, order)
    worst = maps.worst_error(kernel, made.lambdas, made.weights)
    off = np.abs(squared_distances(made(h)) - true_distances(h, kernel))
    assert off.max() <= 2 * worst + 1e-12
    kernels = [[judge.additive_kernel(a, b, kernel).sum() for b in h] for a in h]
    assert np.abs(made(h) @ made(h).T - kernels).max() <= 4 * worst + 1e-12


def test_the_judges_kernels_are_those_of_the_table():
    x, y = np.array([0.3, 1.0, 2.0]), np.array([0.7, 0.2, 2.0])
    np.testing.assert_allclose(judge.additive_kernel(x, y, "chi2"), x * y / (x + y))
    np.testing.assert_allclose(judge.additive_kernel(x, y, "tv"), np.minimum(x, y) / 2)
    np.testing.assert_allclose(judge.additive_kernel(x, y, "hellinger"), np.sqrt(x * y) / 2)
    js = x / 4 * np.log((x + y) / x) + y / 4 * np.log((x + y) / y)
    np.testing.assert_allclose(judge.additive_kernel(x, y, "js"), js)


@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_chi2_is_scikit_learns_sampler_where_settings_coincide(n_steps):
    h = random_histograms()
    sampler = AdditiveChi2Sampler(sample_steps=n_steps, sample_interval=0.45)  # its kernel is 2xy/(x+y), twice ours
    theirs = sampler.fit_transform(h).reshape(len(h), -1, h.shape[1])
    ours = maps.LambdaMap(*maps.spectrum_rule("chi2", n_steps - 1, period=0.45))(h).reshape(theirs.shape)
    order = [0, *range(1, 2 * n_steps - 1, 2), *range(2, 2 * n_steps - 1, 2)]  # theirs alternate cosines and sines
    np.testing.assert_allclose(np.sqrt(2) * ours, theirs[:, order], atol=1e-12)


# --------------------------------------------------------------------------------------------------------------
# Errors and order
# --------------------------------------------------------------------------------------------------------------


def errors(kernel, orders):
    return [maps.worst_error(kernel, *maps.spectrum_rule(kernel, n)) for n in orders]


@pytest.mark.parametrize("kernel", ["js", "chi2"])
def test_errors_of_js_and_chi2_fall_exponentially(kernel):
    # The tail of the spectrum ends at nL and the kernel repeats at 2π/L: balanced, both errors are exp(-c √n).
    logs = np.log(errors(kernel, (4, 16, 64)))
    assert logs[1] < 1.6 * logs[0]
    assert logs[2] < 1.6 * logs[1]
    assert np.exp(logs[2]) < 1e-10


def test_errors_of_the_intersection_fall_slowly():
    found = errors("tv", (4, 16, 64))
    assert all(0.2 * a < b < 0.6 * a for a, b in pairwise(found))


def test_the_intersection_needs_many_more_terms_than_js():
    def fewest(kernel, tolerance):
        return next(n for n in range(256) if errors(kernel, [n])[0] <= tolerance)

    assert fewest("js", 0.02) == 1
    assert fewest("chi2", 0.02) == 2
    assert fewest("tv", 0.02) >= 10


@pytest.mark.parametrize("kernel", ["js", "chi2", "tv"])
def test_histograms_see_the_order_too(kernel):
    h = random_histograms(30, seed=1)
    wanted = true_distances(h, kernel)
    off = [np.abs(squared_distances(maps.explicit_map(kernel, order=n)(h)) - wanted).max() for n in (1, 4, 16)]
    assert off[1] < (0.8 if kernel == "tv" else 0.2) * off[0]
    assert off[2] < (0.8 if kernel == "tv" else 0.01) * off[1]


@pytest.mark.parametrize("kernel", ["js", "chi2", "tv"])
@pytest.mark.parametrize("order", [0, 1, 3, 7])
def test_no_other_period_is_better(kernel, order):
    best = maps.best_period(kernel, order)
    least = errors(kernel, [order])[0]
    for period in best * np.array([0.5, 0.8, 0.97, 1.03, 1.25, 2.0]):
        assert maps.worst_error(kernel, *maps.spectrum_rule(kernel, order, period=period)) > least
    assert maps.best_period.cache_info().hits > 0


@pytest.mark.parametrize(("order", "interval"), [(0, 0.8), (1, 0.5), (2, 0.4)])
def test_the_period_is_better_than_scikit_learns(order, interval):
    theirs = maps.worst_error("chi2", *maps.spectrum_rule("chi2", order, period=interval))
    assert errors("chi2", [order])[0] < 0.5 * theirs


def test_gauss_is_better_where_values_are_alike_or_zero_and_worse_where_one_is_far_smaller():
    y = np.linspace(0.4, 0.9, 20)
    wanted = judge.kappa(1.0, y, "js")
    off = {}
    for kind in ("gauss", "vedaldi"):
        made = maps.explicit_map("js", kind, 3)
        alike = squared_distances(made(np.append(1.0, y)[:, None]))[0, 1:]
        zero = squared_distances(made([[0.0], [1.0]]))[0, 1]
        off[kind] = (np.abs(alike / wanted - 1).max(), abs(zero - np.log(2) / 2))
    assert off["gauss"][0] < 1e-6 < 0.01 < off["vedaldi"][0] < 0.02
    assert off["gauss"][1] < 1e-12  # its weights have the mass
    ratio = [[1e-4], [1.0]]
    far = {kind: squared_distances(maps.explicit_map("js", kind, 3)(ratio))[0, 1] for kind in off}
    exact = float(judge.kappa(1e-4, 1.0, "js"))
    assert abs(far["vedaldi"] - exact) < 0.5 * abs(far["gauss"] - exact)


# --------------------------------------------------------------------------------------------------------------
# Zero, scale, precision, names
# --------------------------------------------------------------------------------------------------------------

CASES = [(k, m, n) for k in KERNELS for m in ("vedaldi", "gauss") for n in (1, 4)]


@pytest.mark.parametrize(("kernel", "kind", "order"), CASES)
def test_zero_values_have_features_of_zero(kernel, kind, order):
    h = random_histograms()
    made = maps.explicit_map(kernel, kind, order)
    found = made(h).reshape(len(h), made.n_functions, -1)
    assert np.all(found.transpose(0, 2, 1)[h == 0] == 0)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("kernel", "kind", "order"), CASES)
def test_squared_distances_scale_as_the_values_do(kernel, kind, order):
    made = maps.explicit_map(kernel, kind, order)
    h = random_histograms()
    np.testing.assert_allclose(squared_distances(made(250.0 * h)), 250.0 * squared_distances(made(h)), atol=1e-10)


@pytest.mark.parametrize(("kernel", "kind", "order"), [*CASES, ("l2", "none", None)])
def test_float32_stays_float32(kernel, kind, order):
    made, h = maps.explicit_map(kernel, kind, order), random_histograms(dtype=np.float32)
    found = made(h)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, made(h.astype(float)), atol=2e-5)
    assert made(np.array([[3, 0, 1]])).dtype == np.float64


@pytest.mark.parametrize(("kernel", "kind", "order"), [*CASES, ("l2", "none", None)])
def test_there_is_a_name_for_every_feature_of_a_value(kernel, kind, order):
    made = maps.explicit_map(kernel, kind, order)
    assert len(set(made.parts)) == len(made.parts) == made.n_functions == made(H).shape[1] / 3


def test_numbers_of_features_are_the_documented_ones():
    sizes = {(k, m): maps.explicit_map(k, m, 4).n_functions for k, m in (("js", "vedaldi"), ("js", "gauss"))}
    assert sizes == {("js", "vedaldi"): 9, ("js", "gauss"): 8}
    assert [maps.explicit_map(k, m).n_functions for k, m in (("js", "vedaldi"), ("js", "gauss"))] == [7, 6]
    assert maps.explicit_map("hellinger", order=9).n_functions == 1


@pytest.mark.parametrize("kind", ["vedaldi", "gauss"])
def test_a_distance_of_ones_own(kind):
    own = HomogeneousDistance("half_tv", kappa=halved_tv)
    h = random_histograms()
    found = squared_distances(maps.explicit_map(own, kind, 60)(h))
    np.testing.assert_allclose(found, true_distances(h, "tv") / 2, atol=0.01)
    assert maps.check_kernel(own, "explicit_map") == "half_tv"


def test_hellingers_rule_is_one_sample_whatever_the_order():
    lambdas, weights = maps.spectrum_rule("hellinger", 5)
    assert (lambdas.tolist(), weights.tolist()) == ([0.0], [0.5])
    assert maps.worst_error("hellinger", lambdas, weights) < 1e-15


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: maps.explicit_map("kl"), ValueError, r"explicit_map\(kernel=...\): must be one of 'js', .* got 'kl'"),
        (lambda: maps.explicit_map(3), TypeError, r"explicit_map\(kernel=...\)"),
        (lambda: maps.explicit_map("js", "fourier"), ValueError, r"\(map=...\): must be one of 'vedaldi', .*'fourier'"),
        (lambda: maps.explicit_map("js", order=-1), ValueError, r"\(order=...\): must be an integer in \[0, 256\]"),
        (lambda: maps.explicit_map("js", "gauss", 0), ValueError, r"\(order=...\): must be an integer in \[1, 256\]"),
        (lambda: maps.explicit_map("js", order=2.0), TypeError, r"got 2.0 of type float; 3 is a usual order"),
        (lambda: maps.explicit_map("js", "none"), ValueError, "whose kernel is 'l2', got kernel='js'; use kernel='l2'"),
        (lambda: maps.spectrum_rule("js", 2, period=0.0), ValueError, r"spectrum_rule\(period=...\).*\(0, inf\)"),
        (lambda: maps.spectrum_rule("js", 1000), ValueError, r"spectrum_rule\(order=...\).*got 1000"),
        (lambda: maps.explicit_map()(H[0]), ValueError, r"must be an array of shape .* got shape \(3,\)"),
        (lambda: maps.explicit_map()(-H), ValueError, "must be finite and not negative, got -0.2; pass counts"),
        (lambda: maps.explicit_map()(H * np.nan), ValueError, "must be finite and not negative, got nan"),
    ],
)
def test_errors_say_what_to_do(call, error, text):
    with pytest.raises(error, match=text):
        call()
