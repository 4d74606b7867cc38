"""The bound: its terms against their formulas, simulations and solutions. The budget: against known densities."""

import math
import warnings

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.spatial.distance import pdist

import exact
from distembed import Bags, Grid, HDDEmbedding, L2Embedding, MeanEmbedding, MonteCarlo, Sobol, distances
from distembed.datasets import make_gram_mixtures
from distembed.density import kernel
from distembed.density.nodes import GridNodes
from distembed.features import RandomFourierFeatures
from distembed.theory import (
    density_term,
    epsilon_reached,
    error_bound,
    error_budget,
    integration_term,
    lambda_tail,
    lambda_term,
    n_basis_functions,
    random_feature_term,
    size_needed,
    truncation_term,
)
from distembed.theory.budget import PairNoise, StageProbe, fit_sums, pair_sums

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


# --------------------------------------------------------------------------------------------------------------
# The budget against the truth
# --------------------------------------------------------------------------------------------------------------


def _rms(x):
    return float(np.sqrt(np.mean(x**2)))


def _truth(embedding, bags, densities, sigma):
    """Errors of points, bandwidth, both and all from the true densities, smoothed on a fine grid."""
    size = 90
    p = densities.on_grid(size).reshape(-1, size, size)
    u = (np.arange(size) + 0.5) / size

    def smoothed(axes):
        each = zip(axes, embedding.bandwidth_, strict=True)
        first, second = (kernel(x[:, None], u, h, "reflect") / size for x, h in each)
        return (first @ p @ second.T).reshape(len(p), -1)

    def k(d2):
        return np.exp(-d2 / (2 * sigma**2))

    probe = StageProbe.of(embedding, bags, np.random.RandomState(0))
    fine = GridNodes((size, size))
    noisy = k(pdist(embedding.transform(bags), "sqeuclidean"))
    quiet = k(pdist(probe.projected(smoothed(embedding.nodes_.axes)), "sqeuclidean"))
    smooth, sharp = k(probe.exact(smoothed((u, u)), fine)), k(probe.exact(p.reshape(len(p), -1), fine))
    return {
        "points": _rms(noisy - quiet),
        "bandwidth": _rms(smooth - sharp),
        "density": _rms(noisy - quiet + smooth - sharp),
        "total": _rms(noisy - sharp),
    }


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")
@pytest.mark.parametrize(("distance", "n_points"), [("js", 100), ("js", 500), ("js", 2500), ("tv", 500), ("l2", 2500)])
def test_budget_is_within_a_factor_of_two_of_the_truth(distance, n_points):
    bags, densities = make_gram_mixtures(8, n_points, random_state=3)
    embedding = (L2Embedding() if distance == "l2" else HDDEmbedding(distance)).fit(bags)
    budget = error_budget(bags, embedding, n_components=2000, random_state=0)
    truth = _truth(embedding, bags, densities, budget.sigma)
    found = {name: budget.stages[name].rms for name in ("points", "bandwidth")}
    found |= {"density": budget.density, "total": budget.total}
    ratios = {name: found[name] / truth[name] for name in truth}
    assert all(0.5 < ratio < 2 for ratio in ratios.values()), ratios


def _betas(ab, n_points, rng):
    """Products of beta densities: bags, and their densities on a grid by their distribution functions."""
    n_dims, size = ab.shape[1], 400 if ab.shape[1] == 1 else 60
    edges = np.linspace(0, 1, size + 1)
    each = np.diff(stats.beta.cdf(edges, ab[..., :1], ab[..., 1:]), axis=-1) * size
    bags = Bags.from_arrays([rng.beta(one[:, 0], one[:, 1], size=(n_points, n_dims)) for one in ab])
    return bags, each


@pytest.mark.parametrize(("n_dims", "n_points"), [(1, 50), (1, 500), (2, 100)])
def test_noise_of_points_is_within_a_factor_of_two_for_betas(n_dims, n_points):
    rng, found, wanted = np.random.default_rng(0), [], []
    for _ in range(2):
        bags, each = _betas(rng.uniform(1.5, 6, (8, n_dims, 2)), n_points, rng)
        embedding = HDDEmbedding("js").fit(bags)
        budget = error_budget(bags, embedding, n_components=500, random_state=0)
        u = (np.arange(each.shape[-1]) + 0.5) / each.shape[-1]
        h, axes = embedding.bandwidth_, embedding.nodes_.axes
        smooth = [each[:, j] @ (kernel(axes[j][:, None], u, h[j], "reflect") / len(u)).T for j in range(n_dims)]
        p = smooth[0] if n_dims == 1 else (smooth[0][:, :, None] * smooth[1][:, None]).reshape(len(each), -1)
        probe = StageProbe.of(embedding, bags, np.random.RandomState(0))
        both = (pdist(A, "sqeuclidean") for A in (embedding.transform(bags), probe.projected(p)))
        noisy, quiet = (np.exp(-d2 / (2 * budget.sigma**2)) for d2 in both)
        wanted.append(_rms(noisy - quiet))
        found.append(budget.stages["points"].rms)
    assert 0.5 < _rms(np.array(found)) / _rms(np.array(wanted)) < 2


def test_noise_of_odd_and_unequal_bags_is_extrapolated_from_what_halves_have():
    sizes, scale = np.array([3, 4, 5, 8, 2]), np.array([1.0, 2.0, 0.5, 3.0, 1.0])

    def squares(n):
        return 50 + pair_sums(scale * n**-0.75)

    halves = squares(sizes // 2)
    noise = PairNoise(squares(sizes), [(halves, halves)], (sizes // 2) / sizes, 0.75)
    assert np.allclose(noise.limit(), 50)


def test_projection_does_not_lengthen():
    """Noise that the extrapolation leaves in ψ but not in A is not the basis's, and more functions are no remedy."""
    rng = np.random.default_rng(0)
    few, many = (_betas(rng.uniform(1.5, 6, (6, 1, 2)), n, rng)[0] for n in (50, 5000))
    budget = error_budget(few, HDDEmbedding("js").fit(many), n_components=1000, random_state=0)
    assert budget.stages["basis"].bias >= 0
    assert "too few points" in budget.advice


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_densities_too_small_for_kappa_are_zero():
    bags = Bags.from_arrays([[0.2, 0.25], [0.6, 0.61], [0.4, 0.42]])
    embedding = HDDEmbedding("js", bandwidth=0.01, nodes=Sobol(4096), n_basis=4, random_state=0).fit(bags)
    probe = StageProbe.of(embedding, bags, np.random.RandomState(0))
    p = probe.densities(bags, embedding.nodes_)
    assert not np.any((p > 0) & (p < np.finfo(float).tiny))
    assert np.all(probe.exact(p, embedding.nodes_) < 0.7)


@pytest.fixture(scope="module")
def large():
    return make_gram_mixtures(6, 2500, random_state=1)[0]


def test_more_points_less_error():
    rms = [
        error_budget(make_gram_mixtures(8, n, random_state=0)[0], "js", n_components=500, random_state=0)
        .stages["points"].rms
        for n in (100, 1600)
    ]  # fmt: skip
    assert rms[1] < 0.6 * rms[0]


def test_random_features_are_measured_as_they_are(large):
    few, many = (
        error_budget(large[:6], "js", n_components=n, frequencies="independent", random_state=0).stages[
            "random features"
        ]
        for n in (100, 2500)
    )
    assert many.rms < 0.4 * few.rms
    assert 0.03 < few.rms < 0.15  # 1/sqrt(D) for far pairs


# --------------------------------------------------------------------------------------------------------------
# Every stage dominates somewhere, and is named
# --------------------------------------------------------------------------------------------------------------

CASES = {
    "points": (None, {}, 5000, "too few points per bag (20 in the median)"),
    "basis": ("js", {"n_basis": 2}, 5000, "raise n_basis to 4"),
    "lambdas": ("tv", {"n_lambdas": 1}, 5000, "n_lambdas='auto'"),
    "nodes": ("js", {"nodes": Grid(5), "n_basis": 5}, 5000, "nodes=Grid("),
    "random features": ("js", {}, 20, "n_components"),
    "bandwidth": ("js", {"bandwidth_scale": 6.0}, 5000, "bandwidth_scale="),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("stage", CASES)
def test_largest_stage_is_named_with_its_knob(stage, large):
    distance, given, n_components, words = CASES[stage]
    bags = make_gram_mixtures(6, 20, random_state=0)[0] if distance is None else large
    budget = error_budget(bags, HDDEmbedding(distance or "js", **given), n_components=n_components, random_state=0)
    assert next(iter(budget.stages)) == stage, str(budget)
    assert words in budget.advice
    rms = [s.rms for s in budget.stages.values()]
    assert rms == sorted(rms, reverse=True)


def test_advice_on_bandwidth_leads_back_to_the_rule(large):
    budget = error_budget(large, HDDEmbedding("js", bandwidth_scale=6.0), n_components=500, random_state=0)
    assert float(budget.advice.split("bandwidth_scale=")[1]) == pytest.approx(1.0, abs=0.05)
    assert budget.stages["bandwidth"].bias > 0  # smooth densities look alike


def test_nothing_needs_turning():
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays([rng.beta(a, 3, size=20_000) for a in (1.5, 2, 3, 4, 5, 6)])
    budget = error_budget(bags, "js", n_components=20_000, frequencies="independent", random_state=0)
    assert budget.advice == "no stage is off by 0.01 or more: nothing needs turning", str(budget)


def test_random_nodes_and_lambdas_have_their_stages():
    bags = make_gram_mixtures(5, 60, random_state=0)[0]
    few, many = (
        error_budget(
            bags,
            HDDEmbedding("js", lambda_rule="random", n_lambdas=m, nodes=MonteCarlo(n), n_basis=5, random_state=1),
            n_components=100,
            random_state=0,
        ).stages
        for n, m in ((64, 1), (512, 200))
    )
    assert many["nodes"].rms < 0.5 * few["nodes"].rms
    assert many["lambdas"].rms < 0.5 * few["lambdas"].rms


def test_stages_add_up(large):
    """The chain has no gap: signed changes add up to the whole of it."""
    budget = error_budget(large[:5], "chi2", n_components=500, random_state=0)
    bound = sum(s.rms for s in budget.stages.values())
    assert budget.total <= bound
    assert set(budget.stages) == {"points", "bandwidth", "lambdas", "basis", "nodes", "random features"}
    assert all(abs(s.bias) <= s.rms <= s.largest for s in budget.stages.values())


def test_additive_fit_is_exact_for_sums():
    each = np.random.default_rng(0).normal(size=7)
    assert np.allclose(fit_sums(pair_sums(each), 7), each)
    assert np.allclose(pair_sums(fit_sums(np.array([0.3]), 2)), 0.3)


def test_projected_features_are_those_of_transform():
    bags = make_gram_mixtures(3, 30, random_state=0)[0]
    for embedding in (HDDEmbedding("js"), L2Embedding(), HDDEmbedding("hellinger", nodes="importance", random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            embedding.fit(bags)
        probe = StageProbe.of(embedding, bags, np.random.RandomState(0))
        found = probe.projected(probe.densities(bags, embedding.nodes_))
        assert np.allclose(found, embedding.transform(bags), atol=1e-10)


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_distances_on_nodes_are_those_of_the_judge(large):
    embedding = HDDEmbedding("tv", n_lambdas=7).fit(large[:3])
    probe = StageProbe.of(embedding, large[:3], np.random.RandomState(0))
    p = probe.densities(large[:3], embedding.nodes_)
    i, j = np.triu_indices(3, k=1)
    wanted = exact.kappa(p[i], p[j], "tv").mean(axis=1)
    assert np.allclose(probe.exact(p, embedding.nodes_), wanted)
    rule = embedding.lambdas_, embedding.lambda_weights_
    wanted = distances.get("tv").approximate(p[i], p[j], *rule).mean(axis=1)
    assert np.allclose(probe.unprojected(p), wanted)


# --------------------------------------------------------------------------------------------------------------
# Input and output
# --------------------------------------------------------------------------------------------------------------


def test_budget_prints_an_aligned_table(large):
    text = str(error_budget(large[:5], "hellinger", n_components=500, random_state=0))
    lines = text.split("\n")
    assert lines[0].endswith("10 pairs of 5 bags")
    assert len({len(line) for line in lines[1:8]}) == 1
    assert lines[-2].startswith("total")


def test_budget_is_seeded_and_takes_some_bags(large):
    first, again = (error_budget(large, "hellinger", max_bags=3, n_components=100, random_state=3) for _ in range(2))
    assert first == again
    assert first.n_bags == 3
    other = error_budget(large, "hellinger", max_bags=3, n_components=100, random_state=4)
    assert other != first


def test_fitted_embedding_and_sigma_are_kept(large):
    embedding = HDDEmbedding("js", bandwidth=0.07).fit(large)
    before = dict(vars(embedding))
    budget = error_budget(large[:4], embedding, sigma=0.5, n_components=100, random_state=0)
    assert budget.sigma == 0.5
    assert vars(embedding) == before
    unfitted = HDDEmbedding("js", bandwidth=0.07)
    error_budget(large[:4], unfitted, n_components=100, random_state=0)
    assert not hasattr(unfitted, "nodes_")


def test_float32_weights_and_densities_without_bandwidth():
    few = make_gram_mixtures(3, 300, random_state=1)[0]
    weights = np.ones(few.n_points)
    weights[::5] = 0
    weighed = Bags(few.points, few.offsets, weights=weights)
    kept = weights > 0
    sizes = np.add.reduceat(kept, few.offsets[:-1])
    without = Bags(few.points[kept], np.r_[0, np.cumsum(sizes)])
    given = {"n_components": 100, "random_state": 0}
    one, other = error_budget(weighed, "js", **given), error_budget(without, "js", **given)
    for name, stage in other.stages.items():
        assert one.stages[name].rms == pytest.approx(stage.rms, rel=1e-6)
    assert one.total == pytest.approx(other.total, rel=1e-6)
    single = error_budget(few.astype(np.float32), "js", **given)
    double = error_budget(few, "js", **given)
    assert single.total == pytest.approx(double.total, rel=0.01)
    histogram = error_budget(few, HDDEmbedding("js", density="histogram"), **given)
    assert "points" in histogram.stages
    assert "lambdas" not in error_budget(few, "l2", **given).stages


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_five_dimensions():
    rng = np.random.default_rng(0)
    bags = Bags(rng.beta(2, 2, size=(4 * 30, 5)), np.arange(5) * 30)
    budget = error_budget(bags, HDDEmbedding("hellinger", n_basis=3, random_state=0), n_components=200, random_state=0)
    assert set(budget.stages) == {"points", "bandwidth", "lambdas", "basis", "nodes", "random features"}
    assert np.isfinite(budget.total)


def test_what_it_refuses(large):
    with pytest.raises(TypeError, match="must be an HDDEmbedding, an L2Embedding or the name of a distance"):
        error_budget(large, MeanEmbedding())
    with pytest.raises(ValueError, match=r"error_budget\(embedding=...\): must be one of 'js', .*'l2', got 'mmd'"):
        error_budget(large, "mmd")
    with pytest.raises(ValueError, match="method='density'"):
        error_budget(large, L2Embedding(method="points"))
    with pytest.raises(ValueError, match="at least 2 bags, got 1"):
        error_budget(large[:1], "js")
    with pytest.raises(ValueError, match="at least 2 points of positive weight"):
        error_budget([[[0.1], [0.3]], [[0.5]]], "js")
    with pytest.raises(ValueError, match="points must lie in the unit cube"):
        error_budget([[[0.1], [0.3]], [[0.5], [1.5]]], "js")
    with pytest.raises(ValueError, match=r"error_budget\(max_bags=...\)"):
        error_budget(large, max_bags=1)
    table = {"bag": ["a", "a", "b", "b"], "x": [0.1, 0.2, 0.3, 0.4], "sex": ["f", "m", "f", "m"]}
    mixed = Bags.from_frame(table, bag="bag", columns=["x", "sex"], categorical=["sex"])
    with pytest.raises(ValueError, match="no categorical columns, got 'sex'"):
        error_budget(mixed, "js")
