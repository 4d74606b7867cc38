"""Homogeneous distances: kappa, measure, quadrature, sampling, and the open class."""

import copy
import pickle

import numpy as np
import pytest
from scipy import integrate, stats

import exact
from distembed import HomogeneousDistance, distances

NAMES = ["js", "hellinger", "tv", "chi2"]
WITH_DENSITY = ["js", "tv", "chi2"]
each = pytest.mark.parametrize("name", NAMES)
each_with_density = pytest.mark.parametrize("name", WITH_DENSITY)

rng = np.random.default_rng(0)
X, Y = rng.gamma(0.7, size=(2, 200))
X[:5], Y[3:8] = 0.0, 0.0


@each
def test_kappa_is_the_judges(name):
    np.testing.assert_allclose(distances.get(name).kappa(X, Y), exact.kappa(X, Y, name), rtol=1e-12, atol=1e-15)


@each
def test_mass_is_kappa_of_one_and_zero(name):
    distance = distances.get(name)
    masses = {"js": np.log(2) / 2, "hellinger": 0.5, "tv": 0.5, "chi2": 0.5}
    assert distance.mass == pytest.approx(masses[name], abs=1e-14)
    assert distance.mass == pytest.approx(float(distance.kappa(1.0, 0.0)), abs=1e-14)


@each_with_density
def test_discretised_measure_integrates_like_quad(name):
    distance = distances.get(name)
    lam, masses = distance._rule
    for power in (0, 1):
        found = np.sum(masses / (1 + lam) ** power)
        want = integrate.quad(lambda x, k=power: float(exact.measure(x, name)) / (1 + x) ** k, 0, np.inf, epsabs=1e-13)
        assert found == pytest.approx(want[0], abs=1e-10)


@each
def test_gauss_weights_are_positive_and_sum_to_the_mass(name):
    for n in (1, 2, 5, 16, 40):
        lambdas, weights = distances.get(name).quadrature(n)
        assert np.all(weights > 0)
        assert np.all(np.diff(lambdas) > 0)
        assert weights.sum() == pytest.approx(distances.get(name).mass, rel=1e-12)
        assert len(lambdas) == (1 if name == "hellinger" else n)


def test_the_smallest_numbers_have_a_finite_kappa():
    tiny = np.array([5e-324, 1e-310, 0.0])
    for judge in (lambda x, y: distances.get("js").kappa(x, y), lambda x, y: exact.kappa(x, y, "js")):
        assert np.all(np.isfinite(judge(tiny, np.zeros(3))))
        assert np.all(np.isfinite(judge(tiny, tiny[::-1])))


@pytest.mark.parametrize("name", ["js", "chi2"])
def test_gauss_is_exact_for_polynomials_in_lambda_squared(name):
    lambdas, weights = distances.get(name).quadrature(4)
    for degree in range(8):
        want = integrate.quad(lambda x, k=degree: float(exact.measure(x, name)) * x ** (2 * k), 0, 30, epsabs=1e-14)[0]
        assert np.sum(weights * lambdas ** (2 * degree)) == pytest.approx(want, rel=1e-8)


def test_tv_rule_is_gauss_legendre_in_theta():
    x, w = np.polynomial.legendre.leggauss(7)
    lambdas, weights = distances.get("tv").quadrature(7)
    np.testing.assert_allclose(np.arctan(2 * lambdas), (x + 1) * np.pi / 4, rtol=1e-10)
    np.testing.assert_allclose(weights, w / 4, rtol=1e-10)


def test_worst_errors_of_the_rules():
    errors = {
        (name, n): distances.get(name).rule_error(*distances.get(name).quadrature(n))
        for name, n in (("js", 3), ("tv", 5), ("tv", 16), ("hellinger", 1))
    }
    assert errors["js", 3] == pytest.approx(0.008, abs=0.0005)
    assert errors["tv", 5] == pytest.approx(0.081, abs=0.001)
    assert errors["tv", 16] == pytest.approx(0.028, abs=0.002)
    assert errors["hellinger", 1] < 1e-12


@each_with_density
def test_more_lambdas_approximate_better(name):
    distance = distances.get(name)
    errors = [distance.rule_error(*distance.quadrature(n)) for n in (4, 8, 16, 32, 64)]
    assert np.all(np.diff(errors) < 0)
    np.testing.assert_allclose(
        distance.approximate(X, Y, *distance.quadrature(200)), distance.kappa(X, Y), atol=0.004 * np.max(X + Y)
    )


def test_auto_takes_the_fewest_lambdas_below_the_tolerance():
    for name in NAMES:
        distance = distances.get(name)
        lambdas, weights = distance.auto_quadrature(0.02)
        assert distance.rule_error(lambdas, weights) <= 0.02
        if len(lambdas) > 1:
            assert distance.rule_error(*distance.quadrature(len(lambdas) - 1)) > 0.02
    with pytest.raises(ValueError, match="'tv' needs more than 256 lambdas for a tolerance of 1e-05"):
        distances.get("tv").auto_quadrature(1e-5)


@each_with_density
def test_random_lambdas_follow_the_measure(name):
    drawn = distances.get(name).sample(4000, random_state=0)

    def cdf(x):
        density = integrate.quad(lambda lam: float(exact.measure(lam, name)), 0, x)[0]
        return density / distances.get(name).mass

    assert stats.kstest(drawn[:400], np.vectorize(cdf)).pvalue > 0.01
    assert np.all(drawn >= 0)
    np.testing.assert_array_equal(drawn, distances.get(name).sample(4000, random_state=0))


def test_total_variation_draws_are_half_a_cauchy():
    drawn = distances.get("tv").sample(20_000, random_state=1)
    np.testing.assert_allclose(np.median(drawn), 0.5, rtol=0.05)  # tan(pi / 4) / 2
    assert np.mean(drawn > 10) == pytest.approx(1 - 2 / np.pi * np.arctan(20), abs=0.005)


@each_with_density
def test_random_rule_is_unbiased(name):
    distance = distances.get(name)
    lambdas = distance.sample(20_000, random_state=0)
    mean = distance.approximate(X, Y, lambdas, np.full(20_000, distance.mass / 20_000))
    np.testing.assert_allclose(mean, distance.kappa(X, Y), atol=0.02 * np.max(X + Y))


@each
def test_kappa_alone_is_enough(name):
    known = distances.get(name)
    found = HomogeneousDistance("again", kappa=lambda x, y: exact.kappa(x, y, name))
    assert found.mass == pytest.approx(known.mass, abs=1e-12)
    assert found._rule[1].sum() == pytest.approx(known.mass, abs=1e-5)
    n = 1 if name == "hellinger" else 8
    np.testing.assert_allclose(
        found.approximate(X, Y, *found.quadrature(n)), known.approximate(X, Y, *known.quadrature(n)), atol=0.03
    )


@each_with_density
def test_the_measure_alone_is_enough(name):
    found = HomogeneousDistance("again", measure=lambda lam: exact.measure(lam, name))
    assert found.mass == pytest.approx(distances.get(name).mass, abs=1e-9)
    np.testing.assert_allclose(found.kappa(X, Y), distances.get(name).kappa(X, Y), atol=1e-5)


def test_an_atom_alone_is_a_scaled_hellinger_distance():
    found = HomogeneousDistance("half", atom=0.25)
    np.testing.assert_allclose(found.kappa(X, Y), distances.get("hellinger").kappa(X, Y) / 2, atol=1e-12)
    np.testing.assert_array_equal(found.quadrature(3), [[0.0], [0.25]])


@pytest.mark.parametrize(
    "kappa", [lambda x, y: np.abs(x - y) ** 3 / (x + y) ** 2, lambda x, y: (x - y) ** 4 / (x + y) ** 3]
)
def test_a_kappa_with_a_negative_measure_is_refused(kappa):
    with pytest.raises(ValueError, match=r"measure is negative \(near lambda = .*not a squared Hilbertian metric"):
        HomogeneousDistance("bad", kappa=kappa)


@pytest.mark.parametrize(
    ("kappa", "rule"),
    [
        (lambda x, y: (x - y) ** 2, "homogeneous"),
        (lambda x, y: np.maximum(x - y, 0), "symmetric"),
        (lambda x, y: x + y, "be 0 where x = y"),
        (lambda x, y: -np.abs(x - y), "nonnegative"),
        (lambda x, y: np.full_like(x, np.nan), "one finite number"),
    ],
)
def test_what_is_no_kappa_is_refused(kappa, rule):
    with pytest.raises(ValueError, match=f"kappa must .*{rule}"):
        HomogeneousDistance("bad", kappa=kappa)


def test_the_papers_jensen_shannon_measure_is_refused():
    with pytest.raises(
        ValueError, match=r"belong to kappa: kappa\(1, 0\.02\) is 0\.304285, the measure gives 0\.392703"
    ):
        HomogeneousDistance(
            "printed",
            kappa=lambda x, y: exact.kappa(x, y, "js"),
            measure=lambda lam: exact.measure(lam, "chi2") / (1 + lam**2),
        )


def test_a_measure_of_the_right_mass_but_another_distance_is_refused():
    with pytest.raises(ValueError, match="does not belong to kappa"):
        HomogeneousDistance(
            "mixed", kappa=lambda x, y: exact.kappa(x, y, "tv"), measure=lambda lam: exact.measure(lam, "chi2")
        )


def test_negative_or_infinite_measures_and_nothing_at_all_are_refused():
    with pytest.raises(ValueError, match="nonnegative with a finite integral"):
        HomogeneousDistance("bad", measure=lambda lam: np.cos(lam) / (1 + lam**2))
    with pytest.raises(ValueError, match="give kappa, or measure, or both"):
        HomogeneousDistance("nothing")
    with pytest.raises(ValueError, match="atom must be a mass >= 0"):
        HomogeneousDistance("bad", atom=-1.0)


def test_get_names_what_it_knows():
    assert distances.available() == ["js", "hellinger", "tv", "chi2"]
    assert distances.get(distances.get("tv")) is distances.get("tv")
    with pytest.raises(ValueError, match=r"distance: must be one of 'js', 'hellinger', 'tv', 'chi2' .* got 'kl'"):
        distances.get("kl")
    with pytest.raises(ValueError, match="got 3"):
        distances.get(3)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, 10_000])
def test_number_of_lambdas_is_checked(n):
    with pytest.raises(ValueError, match="n_lambdas: must be an integer from 1 to 256"):
        distances.get("js").quadrature(n)


@each
def test_copies_are_equal(name):
    distance = distances.get(name)
    for other in (copy.deepcopy(distance), pickle.loads(pickle.dumps(distance))):
        assert other == distance
        np.testing.assert_array_equal(other.quadrature(2), distance.quadrature(2))
    assert distance != "js"
    assert repr(distance) == f"HomogeneousDistance('{name}')"
