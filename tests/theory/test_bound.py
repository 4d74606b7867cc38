"""The bound: its terms against their formulas, simulations and solutions."""

import math

import numpy as np
import pytest
from scipy import integrate

import exact
from distembed import distances
from distembed.features import RandomFourierFeatures
from distembed.theory import (
    density_term,
    epsilon_reached,
    error_bound,
    integration_term,
    lambda_tail,
    lambda_term,
    n_basis_functions,
    random_feature_term,
    size_needed,
    truncation_term,
)

FAMILY = ["js", "hellinger", "tv", "chi2"]
TERMS = {
    "density": density_term,
    "lambdas": lambda_term,
    "truncation": truncation_term,
    "integration": integration_term,
    "random features": random_feature_term,
}

# --------------------------------------------------------------------------------------------------------------
# The terms as formulas
# --------------------------------------------------------------------------------------------------------------


def test_terms_are_the_corrected_formulas():
    Z, rho = math.log(2) / 2, 0.3
    assert random_feature_term(0.1, 2000) == pytest.approx(2 * math.exp(-2000 * 0.01 / 4))
    assert random_feature_term(0.1, 2000, printed=True) == pytest.approx(2 * math.exp(-2000 * 0.01))
    wanted = 2 * math.exp(-2 * 900 * 0.3**4 / (4 * Z * (1 + rho)) ** 2)  # Hoeffding, range 4Z(1 + rho)
    assert lambda_term(0.3, 900, lower=rho) == pytest.approx(wanted)
    V, M = 7, 3
    x = math.sqrt(Z * (1 + rho) + 0.25 / (8 * V)) - math.sqrt(Z * (1 + rho))
    B2 = Z * (math.sqrt(3) + 1) ** 2
    assert integration_term(0.5, 10_000, basis_functions=V, n_lambdas=M, lower=rho, upper=3.0) == 1.0
    size = 10_000_000
    given = {"basis_functions": V, "n_lambdas": M, "lower": rho, "upper": 3.0}
    wanted = 16 * M * V * math.exp(-size * x * x / (4 * B2))
    assert integration_term(0.5, size, **given) == pytest.approx(wanted, rel=1e-6)
    wanted = 8 * M * V * math.exp(-size * x * x / (2 * 4 * B2))  # supremum 2^(l/2), squared
    assert integration_term(0.5, size, basis="real", n_dims=2, **given) == pytest.approx(wanted, rel=1e-6)
    L = 2 * 1.5**2 / (rho * (1 - 4 ** (0.4 - 0.9)))
    zeta = 5e4 * 0.01 / (8 * 0.5 * L) - 0.25
    found = truncation_term(
        0.1, 5e4, n_lambdas=1, distance="tv", n_dims=2, lower=rho, sobolev=0.4, estimate_smoothness=0.9,
        estimate_lipschitz=1.5, rough=0.01,
    )  # fmt: skip
    assert found == pytest.approx(0.01 + 2 * (1 - 2 / math.pi * math.atan(2 * math.sqrt(zeta))))
    n, u = 40_000, 0.3**2 / (4 * Z)
    rate = (n / math.log(n)) ** (2 / 6)
    wanted = 2 * 1.5 * math.exp(-math.log(n) * (u * rate - 0.5) ** 2 / 0.7)
    constants = {"n_dims": 2, "density_constant": 1.5, "density_rate": 0.7, "density_bias": 0.5}
    assert density_term(0.3, n, **constants) == pytest.approx(min(1, wanted))
    assert 0 < wanted < 1


@pytest.mark.parametrize("name", ["js", "tv", "chi2"])
@pytest.mark.parametrize("value", [0.0, 0.2, 1.0, 2.5])
def test_tail_of_lambda_is_that_of_the_measure(name, value):
    rest = integrate.quad(lambda x: float(exact.measure(np.array(x), name)), value, np.inf, epsabs=1e-13)[0]
    assert lambda_tail(value, name) == pytest.approx(rest / distances.get(name).mass, rel=1e-6)


def test_tail_of_lambda_is_that_of_draws():
    for name in FAMILY:
        drawn = distances.get(name).sample(40_000, 0)
        assert abs(np.mean(drawn > 0.7) - lambda_tail(0.7, name)) < 0.01


def test_tails_stay_accurate_far_out():
    assert lambda_tail(20.0, "chi2") == pytest.approx(4 / math.pi * math.exp(-20 * math.pi), rel=1e-9)
    assert lambda_tail(1e9, "tv") == pytest.approx(1e-9 / math.pi, rel=1e-9)
    assert lambda_tail(20.0, "js") < lambda_tail(20.0, "chi2") / 1000


@pytest.mark.parametrize("name", FAMILY)
def test_kappa_is_at_most_mass_times_difference(name):
    """What the density term rests on."""
    x = np.linspace(0, 1, 1001)
    assert np.all(exact.kappa(np.ones_like(x), x, name) <= distances.get(name).mass * (1 - x) + 1e-12)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize(("threshold", "s"), [(1, 0.5), (4, 0.5), (6.5, 0.5), (9, 1.0), (3, 0.3)])
def test_basis_functions_are_counted(n_dims, threshold, s):
    side = math.floor(threshold ** (1 / (2 * s)) + 1e-9)
    axis = np.abs(np.arange(-side, side + 1.0)) ** (2 * s)
    total = sum(np.meshgrid(*[axis] * n_dims))
    assert n_basis_functions(threshold, n_dims=n_dims, sobolev=s) == np.count_nonzero(total <= threshold + 1e-9)


def test_too_many_to_count_is_an_upper_bound():
    few, many = n_basis_functions(400, n_dims=3), (2 * 400 + 1) ** 3
    assert few < many
    assert n_basis_functions(4000, n_dims=3) == (2 * 4000 + 1) ** 3


# --------------------------------------------------------------------------------------------------------------
# Solutions
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("distance", FAMILY)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.05), (0.4, 0.001)])
def test_round_trips(name, distance, epsilon, delta):
    given = {} if name == "random features" else {"distance": distance}
    size = size_needed(name, epsilon, delta, **given)
    term = TERMS[name]
    assert term(epsilon, size, **given) <= delta
    if name == "lambdas" and distance == "hellinger":
        assert size == 1
        assert epsilon_reached(name, 1, delta, **given) == 0
        return
    step = 2 if name == "random features" else 1
    assert term(epsilon, size - step, **given) > delta  # the least
    reached = epsilon_reached(name, size, delta, **given)
    assert reached <= epsilon * (1 + 1e-11)
    assert term(reached, size, **given) <= delta
    assert term(reached * (1 - 1e-9), size, **given) > delta
    # A little more than is reached at one size less: sizes that differ by one are all that lies between.
    assert epsilon < epsilon_reached(name, size - step, delta, **given)


def test_closed_forms_of_solutions():
    assert size_needed("random features", 0.1, 0.05) == 2 * math.ceil(4 * math.log(40) / 0.01 / 2)
    assert epsilon_reached("random features", 5000, 0.01) == pytest.approx(math.sqrt(4 * math.log(200) / 5000))
    wanted = (8 * (0.5 * 1.5) ** 2 * math.log(40) / 7) ** 0.25
    assert epsilon_reached("lambdas", 7, distance="tv") == pytest.approx(wanted)


def test_what_has_no_solution_is_an_error():
    with pytest.raises(
        ValueError, match=r"no size up to 2\^400 brings the term 'truncation' down to 0\.05.*lower rough"
    ):
        size_needed("truncation", 0.1, 0.05, rough=0.1)
    with pytest.raises(ValueError, match=r"no epsilon up to 1e\+30 brings the term 'truncation' .*lower rough"):
        epsilon_reached("truncation", 10, 0.05, rough=0.1)
    with pytest.raises(ValueError, match="raise delta or epsilon"):
        size_needed("lambdas", 1e-40)
    with pytest.raises(ValueError, match="must be one of 'density'"):
        size_needed("points", 0.1)
    with pytest.raises(ValueError, match=r"no epsilon up to .* brings the term 'density'.*raise delta or the size"):
        epsilon_reached("density", 2)


def test_extremes_do_not_overflow():
    huge = 10**400
    for name, term in TERMS.items():
        assert term(1e300, 10 if name == "density" else 1) == (pytest.approx(0) if name != "density" else 0)
        assert term(1e-300, 10) == 1
        assert 0 <= term(0.3, 1e308 if name == "truncation" else huge) < 1e-6
        assert size_needed(name, 1e300) == {"density": 3, "random features": 2}.get(name, 1)
        for delta in (1e-300, 1 - 1e-12):
            reached = epsilon_reached(name, 3, delta)
            assert term(reached, 3) <= delta
    assert integration_term(0.1, huge, basis_functions=huge) == 1
    assert integration_term(0.1, 10, basis="real", n_dims=5000) == 1
    assert truncation_term(0.1, 10, n_lambdas=huge) == 1
    assert lambda_tail(1e200) == 0
    assert error_bound(1e300, n_points=5, threshold=1e200, n_dims=2).total == 1
    with pytest.raises(ValueError, match=r"n_basis_functions\(threshold=...\).*lower threshold or raise sobolev"):
        n_basis_functions(1e10, sobolev=0.01)


def test_hellingers_atom_is_beyond_zero():
    """At ζ = 0 what is left out may be as large as ε, with certainty."""
    constant = 1 / (0.5 * (1 - 4 ** (0.5 - 1.0)))
    epsilon, threshold = 1.0, 8 * 0.5 * constant * 0.25
    assert truncation_term(epsilon, threshold, distance="hellinger") == 1
    assert truncation_term(epsilon, threshold * (1 + 1e-9), distance="hellinger") == 0


# --------------------------------------------------------------------------------------------------------------
# The whole bound
# --------------------------------------------------------------------------------------------------------------


def _enough(epsilon, delta, distance):
    """Sizes at which the bound is at most delta."""
    part = epsilon / 5 * math.sqrt(math.e)
    given = {"distance": distance}
    n_lambdas = size_needed("lambdas", part, delta / 5, **given)
    threshold = size_needed("truncation", part, delta / 5, n_lambdas=n_lambdas, **given)
    functions = n_basis_functions(threshold)
    return {
        "n_points": size_needed("density", part, delta / 5, **given),
        "n_lambdas": n_lambdas,
        "threshold": threshold,
        "n_nodes": size_needed(
            "integration", part, delta / 5, n_lambdas=n_lambdas, basis_functions=functions, **given
        ),
        "n_components": size_needed("random features", epsilon / 5, delta / 5),
    }  # fmt: skip


@pytest.mark.parametrize("distance", FAMILY)
def test_bound_adds_its_terms(distance):
    sizes = _enough(0.3, 0.05, distance)
    known = {"density_rate": 1.0, "density_bias": 1.0}  # as density_term has them
    bound = error_bound(0.3, distance=distance, **known, **sizes)
    assert bound.total == pytest.approx(sum(bound.terms.values()))
    assert bound.total <= 0.05
    assert list(bound.terms) == list(TERMS)
    assert bound.terms["density"] == density_term(bound.epsilons["density"], sizes["n_points"], distance=distance)
    for name in sizes:
        fewer = error_bound(0.3, distance=distance, **known, **{**sizes, name: max(1, sizes[name] // 10)})
        if name != "n_lambdas":  # fewer lambdas are fewer functions to truncate and integrate
            assert fewer.total > 0.05
    assert (bound.terms["lambdas"] == 0) == (distance == "hellinger")


def test_epsilon_is_split():
    bound = error_bound(0.1, n_points=100, sigma=2.0)
    unit = 2.0 * math.sqrt(math.e)
    given = {name: e if name == "random features" else e / unit for name, e in bound.epsilons.items()}
    assert all(share == pytest.approx(0.02) for share in given.values())
    shares = {"density": 4, "lambdas": 1, "truncation": 1, "integration": 1, "random features": 3}
    bound = error_bound(0.1, n_points=100, sigma=2.0, split=shares)
    assert bound.epsilons["density"] == pytest.approx(0.04 * unit)
    assert bound.epsilons["random features"] == pytest.approx(0.03)
    hellinger = error_bound(0.1, n_points=100, sigma=2.0, distance="hellinger")
    assert hellinger.epsilons["lambdas"] == 0
    assert hellinger.epsilons["density"] == pytest.approx(0.025 * unit)


def test_bound_prints_a_table():
    lines = str(error_bound(0.1, n_points=100, density_bias=1.0)).split("\n")
    assert lines[0] == "P(error of the kernel >= 0.1) <= 1"
    assert len({len(line) for line in lines[1:]}) == 1


def test_constants_are_derived_or_asked_for():
    """No probability comes of constants that somebody made up."""
    sizes = {"n_lambdas": 10**6, "threshold": 10**9, "n_nodes": 10**60, "n_components": 10**8}
    bound = error_bound(5.0, n_points=10**12, **sizes)
    assert bound.terms["density"] == bound.total == 1
    assert str(bound).endswith("the density term counts as 1, because density_bias is not known: give it")
    given = error_bound(5.0, n_points=10**12, density_bias=3.0, **sizes)
    assert given.total < 1e-3
    assert "not known" not in str(given)
    rate = 2.0 * (2 / math.sqrt(4 * math.pi) + 4 / math.sqrt(2 * math.pi))  # erratum 12, upper = 2, one dimension
    derived = error_bound(1.2, n_points=3000, density_bias=0.5)
    assert derived.terms["density"] == density_term(
        derived.epsilons["density"], 3000, density_rate=rate, density_bias=0.5
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, r"error_bound\(epsilon=...\)"),
        ({"distance": "kl"}, "must be one of 'js'"),
        ({"n_points": 1.5}, r"density_term\(n_points=...\)"),
        ({"lower": 0.0}, r"lower=...\)"),
        ({"sobolev": 1.0}, r"truncation_term\(sobolev=...\)"),
        ({"lower": 1.5}, r"lower=...\)"),
        ({"upper": 0.9}, r"integration_term\(upper=...\)"),
        ({"split": [1, 1, 1, 1, 1]}, r"error_bound\(split=...\): must be a mapping"),
        ({"split": dict.fromkeys(TERMS, "a")}, r"error_bound\(split\['density'\]=...\)"),
        ({"split": {"density": 1}}, "must give a share to each of 'density', 'lambdas'"),
        ({"basis": "cosine"}, "must be one of 'complex', 'real'"),
    ],
)
def test_bad_arguments_of_the_bound(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        error_bound(**{"epsilon": 0.1, "n_points": 100, **given})


# --------------------------------------------------------------------------------------------------------------
# Simulations
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0.3, 1.0, 6.0])
def test_random_feature_term_holds_and_the_printed_one_does_not(gap):
    D, n_draws = 40, 20_000
    x = np.array([[0.0], [gap]])
    # Independent frequencies: D n_draws features of one fit are the D features of n_draws of them.
    rff = RandomFourierFeatures(D * n_draws, sigma=1.0, frequencies="independent", random_state=0)
    z = rff.fit_transform(x).reshape(2, 2, n_draws, D // 2) * math.sqrt(n_draws)
    errors = np.abs(np.einsum("ikl,ikl->k", z[0], z[1]) - math.exp(-(gap**2) / 2))
    for epsilon in (0.1, 0.2, 0.3, math.sqrt(6 / D), 0.5):
        seen = np.mean(errors >= epsilon)
        assert seen <= random_feature_term(epsilon, D)
    epsilon = math.sqrt(6 / D)
    seen, printed = np.mean(errors >= epsilon), random_feature_term(epsilon, D, printed=True)
    if gap == 6.0:  # a far pair: uniform phases
        assert seen - printed > 4 * math.sqrt(seen / n_draws)


@pytest.mark.parametrize("name", ["js", "tv", "chi2"])
def test_lambda_term_holds(name):
    x = (np.arange(64) + 0.5) / 64
    p, q = 1 + 0.9 * np.cos(2 * np.pi * x), 1 - 0.9 * np.cos(2 * np.pi * x)
    distance = distances.get(name)
    truth = math.sqrt(float(distance.kappa(p, q).mean()))
    turned = np.cos(np.multiply.outer(distance.sample(2000 * 10, 0), np.log(p / q)))
    one = distance.mass * np.mean(p + q - 2 * np.sqrt(p * q) * turned, axis=1).reshape(2000, 10)
    assert abs(one.mean() - truth**2) < 0.03 * truth**2
    errors = np.abs(np.sqrt(one.mean(axis=1)) - truth)
    for epsilon in (0.05, 0.1, 0.2, 0.5, 0.8):
        assert np.mean(errors >= epsilon) <= lambda_term(epsilon, 10, distance=name, lower=0.0)


def test_density_term_holds_with_the_mean_fluctuation_and_not_without():
    """A uniform density and a wrapped kernel, so that there is no bias; ½-Hölder, so that h is small."""
    n, size, beta = 20_000, 1024, 0.5
    h = (math.log(n) / n) ** (1 / (2 * beta + 1))
    rng, damped = np.random.default_rng(0), np.exp(-2 * (np.pi * h * np.arange(size // 2 + 1)) ** 2)
    counts = np.array([np.histogram(rng.uniform(size=n), size, (0, 1))[0] for _ in range(100)])
    gaps = np.abs(np.fft.irfft(np.fft.rfft(counts / n * size) * damped, size) - 1).max(axis=1)

    def bound(u, **constants):  # of one bag, half of that of two
        return density_term(math.sqrt(4 * 0.5 * u), n, distance="tv", smoothness=beta, **constants) / 2

    rate, mean = 2 / math.sqrt(4 * math.pi) + 4 / math.sqrt(2 * math.pi), gaps.mean() / h**beta
    assert 0.2 < mean < math.sqrt(2 / math.sqrt(4 * math.pi) / (2 * beta + 1))
    for more in (0.05, 0.1, 0.2, 1.0, 2.0):
        u = (mean + more) * h**beta
        assert np.mean(gaps >= u) <= 2 * bound(u, density_rate=rate, density_bias=mean)
    u = 0.7 * mean * h**beta
    assert np.mean(gaps >= u) > 0.9
    assert bound(u, density_rate=2 / math.sqrt(4 * math.pi), density_bias=0.0) < 0.4


def test_holder_functions_are_in_the_sobolev_ellipsoid():
    """The lemma behind the truncation term, for |sin πx|^γ, which has L = π^γ."""
    x, k = np.arange(2**14) / 2**14, np.abs(np.fft.fftfreq(2**14, 2**-14))
    for g, s in ((1.0, 0.5), (0.6, 0.3), (0.3, 0.25)):
        a = np.fft.fft(np.abs(np.sin(np.pi * x)) ** g) / len(x)
        assert np.sum(k ** (2 * s) * np.abs(a) ** 2) <= np.pi ** (2 * g) / (1 - 4 ** (s - g)) * 4 ** (s - 2 * g) / 2


def test_integration_term_holds():
    rng, n_nodes, M, V = np.random.default_rng(0), 2000, 2, 3
    lam, Z = np.array([0.26, 1.1]), math.log(2) / 2

    def coefficients(u, density):
        p = density(u)
        f = math.sqrt(Z) * p[..., None] ** (0.5 + 1j * lam)
        parts = np.concatenate([f.real, f.imag], axis=-1)
        waves = np.exp(-2j * np.pi * u[..., None] * np.arange(-1, 2))
        return np.einsum("...nk,...nf->...kf", waves, parts) / u.shape[-1]

    def squared(u):
        gap = coefficients(u, lambda x: 1 + 0.5 * np.cos(2 * np.pi * x)) - coefficients(u, lambda x: np.ones_like(x))
        return np.sum(np.abs(gap) ** 2, axis=(-1, -2)) / M

    truth = math.sqrt(float(squared((np.arange(2000) + 0.5) / 2000)))
    errors = np.abs(np.sqrt(squared(rng.uniform(size=(100, n_nodes)))) - truth)
    for epsilon in (0.001, 0.003, 0.01, 0.5, 3.0):
        bound = integration_term(epsilon, n_nodes, basis_functions=V, n_lambdas=M, lower=0.5, upper=1.5)
        assert np.mean(errors >= epsilon) <= bound
    assert bound < 0.01  # the last says something
    assert 1e-5 < np.median(errors) < 0.02
