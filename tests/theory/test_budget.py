"""The error budget against known densities, and its advice against known culprits."""

import warnings
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist
from scipy.special import betaln
from scipy.stats import qmc

import distembed as de
import exact
from distembed import Bags, Grid, HDDEmbedding, L2Embedding, MeanEmbedding, MonteCarlo, Sobol, distances
from distembed.datasets import make_gram_mixtures
from distembed.density import kernel
from distembed.density.nodes import GridNodes
from distembed.theory import (
    error_budget,
)
from distembed.theory.budget import PairNoise, StageProbe, fit_sums, pair_sums

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


# --------------------------------------------------------------------------------------------------------------
# Advice: following it reduces the true error of known culprits, in nine of ten cases
# --------------------------------------------------------------------------------------------------------------

N_BAGS = 8
N_TRUE = {1: 2**12, 2: 2**14, 3: 2**15, 5: 2**16}  # nodes of the truth: enough for an error of 0.002


@lru_cache
def shapes(n_dims):
    """Parameters of products of beta densities, (n_bags, n_dims, 2)."""
    return np.random.default_rng(n_dims).uniform(1.8, 5, size=(N_BAGS, n_dims, 2))


@lru_cache
def beta_points(n_dims, n):
    a, b = shapes(n_dims).transpose(2, 0, 1)[:, :, None]
    return de.as_bags(np.random.default_rng(7).beta(a, b, size=(N_BAGS, n, n_dims)))


@lru_cache
def true_distances(n_dims, distance):
    """d² over all pairs by quasi-Monte Carlo with the true densities."""
    u = np.clip(qmc.Sobol(n_dims, seed=0).random(N_TRUE[n_dims]), 1e-9, 1 - 1e-9)
    a, b = shapes(n_dims).transpose(2, 0, 1)[:, :, None]
    p = np.exp(np.sum((a - 1) * np.log(u) + (b - 1) * np.log1p(-u) - betaln(a, b), axis=2))
    kappa = de.distances.get(distance).kappa
    return np.array([np.mean(kappa(p[i], p[j])) for i in range(N_BAGS) for j in range(i + 1, N_BAGS)])


def true_error(bags, embedding, n_components, sigma, distance):
    rff = de.RandomFourierFeatures(n_components, sigma=sigma, random_state=1)
    Z = rff.fit_transform(embedding.fit_transform(bags))
    K = (Z @ Z.T)[np.triu_indices(N_BAGS, 1)]
    return np.sqrt(np.mean((K - np.exp(-true_distances(bags.n_dims, distance) / (2 * sigma**2))) ** 2))


MANY = 5_000  # random features, so that they are not the culprit
CULPRITS = {  # dimensions, distance, settings, random features, points per bag
    "1-D bandwidth": (1, "js", {"bandwidth_scale": 6.0}, MANY, 5000),
    "1-D bandwidth, hellinger": (1, "hellinger", {"bandwidth_scale": 8.0}, MANY, 5000),
    "1-D grid": (1, "js", {"nodes": de.Grid(4), "n_basis": 4}, MANY, 5000),
    "1-D Monte Carlo": (1, "js", {"nodes": de.MonteCarlo(60)}, MANY, 400),
    "1-D Monte Carlo, many functions": (1, "js", {"nodes": de.MonteCarlo(60), "n_basis": 30}, MANY, 500),
    "1-D Sobol": (1, "js", {"nodes": de.Sobol(8), "n_basis": 4}, MANY, 1000),
    "1-D lambdas": (1, "tv", {"n_lambdas": 1}, MANY, 5000),
    "1-D random lambdas": (1, "chi2", {"n_lambdas": 1, "lambda_rule": "random"}, MANY, 5000),
    "1-D basis": (1, "js", {"n_basis": 2}, MANY, 5000),
    "1-D components": (1, "js", {}, 20, 5000),
    "2-D bandwidth": (2, "js", {"bandwidth_scale": 4.0}, MANY, 5000),
    "2-D grid": (2, "js", {"nodes": de.Grid(3), "n_basis": 3}, MANY, 5000),
    "2-D Monte Carlo": (2, "js", {"nodes": de.MonteCarlo(500)}, MANY, 500),
    "2-D Monte Carlo, few functions": (2, "js", {"nodes": de.MonteCarlo(100), "n_basis": 4}, MANY, 500),
    "2-D Monte Carlo, hellinger": (2, "hellinger", {"nodes": de.MonteCarlo(300)}, MANY, 300),
    "2-D Sobol": (2, "js", {"nodes": de.Sobol(32), "n_basis": 4}, MANY, 500),
    "2-D lambdas": (2, "tv", {"n_lambdas": 1}, MANY, 5000),
    "2-D basis": (2, "js", {"n_basis": 2}, MANY, 5000),
    "2-D components": (2, "js", {}, 40, 5000),
    "3-D Monte Carlo": (3, "js", {"nodes": de.MonteCarlo(800), "n_basis": 5}, MANY, 200),
    "3-D basis": (3, "hellinger", {"n_basis": 2}, MANY, 2000),
    "5-D Monte Carlo": (5, "hellinger", {"nodes": de.MonteCarlo(300), "n_basis": 3}, MANY, 100),
    "5-D components": (5, "hellinger", {"nodes": de.Sobol(1024), "n_basis": 3}, 20, 200),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_following_the_advice_reduces_the_true_error():
    found = {}
    for name, (n_dims, distance, settings, n_components, n_points) in CULPRITS.items():
        bags, embedding = beta_points(n_dims, n_points), de.HDDEmbedding(distance, random_state=0, **settings)
        sigma = float(np.sqrt(np.median(true_distances(n_dims, distance))))
        budget = error_budget(bags, embedding, n_components=n_components, sigma=sigma, random_state=0)
        before = true_error(bags, embedding, n_components, sigma, distance)
        remedy = dict(budget.remedy)
        n_after = remedy.pop("n_components", n_components)
        more = bags if budget.remedy else beta_points(n_dims, 4 * n_points)
        after = true_error(more, embedding.set_params(**remedy), n_after, sigma, distance)
        found[name] = (after < before, before, after, budget.advice)
    failed = {name: each for name, each in found.items() if not each[0]}
    assert len(failed) <= 0.1 * len(found), failed


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_nodes_are_charged_where_the_basis_is_not_orthonormal():
    embedding = de.HDDEmbedding("js", nodes=de.MonteCarlo(200), random_state=0)
    budget = error_budget(beta_points(2, 500), embedding, n_components=1000, random_state=0)
    assert "too few nodes: use nodes=MonteCarlo(" in budget.advice
    assert budget.remedy["nodes"].n >= 800
    assert budget.stages["nodes"].bias < 0  # distances come out too large
