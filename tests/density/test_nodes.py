"""Nodes drawn from the training bags' density: volumes, bias, variance, chains, and the mass that nodes find."""

import warnings

import numpy as np
import pytest
from scipy import special, stats

import distembed as de
from distembed.density import KDE, Pooled, metropolis, nodes, pool
from distembed.density.nodes import MCMC, Grid, Importance, MonteCarlo, Sobol, fold

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast


class Normal:
    """A product of truncated normal densities: pdf, and a sample where asked for."""

    def __init__(self, means, width):
        self.margins = [stats.truncnorm(-m / width, (1 - m) / width, loc=m, scale=width) for m in means]
        self.means, self.width = np.array(means), width
        inside = special.ndtr((1 - self.means) / width) - special.ndtr(-self.means / width)
        self.scale = np.prod(1 / (inside * width * np.sqrt(2 * np.pi)))

    def pdf(self, u):
        return self.scale * np.exp(-0.5 * np.sum(((u - self.means) / self.width) ** 2, axis=1))

    def sample(self, n, rng):
        return np.stack([margin.rvs(n, random_state=rng) for margin in self.margins], axis=1)


class OnlyPdf:
    def __init__(self, density, factor=1.0):
        self.density, self.factor = density, factor

    def pdf(self, u):
        return self.factor * self.density.pdf(u)


def pooled(n_dims=2, width=0.05, means=(0.3, 0.6), silent=False, factor=1.0):
    parts = [Normal([mean] * n_dims, width) for mean in means]
    rng = np.random.RandomState(7)
    points = np.concatenate([part.sample(200, rng) for part in parts])
    if silent:
        parts = [OnlyPdf(part, factor) for part in parts]
    return Pooled(parts, n_dims, points, integrates_to_one=factor == 1.0)


def at(kind, density, seed=0):
    return kind.resolve(density.n_dims, random_state=np.random.RandomState(seed), pooled=density)


KINDS = [Importance(1000), Importance(1000, uniform=0.5), MCMC(1000, n_chains=200, burn_in=50)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)


@every_kind
@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_volumes_are_those_of_the_density_drawn_from(kind, n_dims):
    density = pooled(n_dims)
    found = at(kind, density)
    n_uniform = int(np.ceil(kind.n * kind.uniform))
    assert found.points.shape == (1000, n_dims)
    assert found.points.min() >= 0
    assert found.points.max() <= 1
    np.testing.assert_allclose(
        found.weights, 1 / (n_uniform + (1000 - n_uniform) * density.pdf(found.points)), rtol=1e-10
    )
    assert np.all(found.weights > 0)
    assert found.weights.max() <= 1 / n_uniform + 1e-15


@every_kind
def test_nodes_are_reproducible(kind):
    density = pooled()
    one, same, other = (at(kind, density, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.points, same.points)
    np.testing.assert_array_equal(one.weights, same.weights)
    assert not np.allclose(one.points, other.points)


@pytest.mark.parametrize("kind", [Importance(256), MCMC(256, n_chains=64, burn_in=40)], ids=repr)
def test_integrals_are_unbiased(kind):
    density, n_seeds = pooled(), 30
    functions = {  # and their integrals over the square
        "one": (lambda u: np.ones(len(u)), 1.0),
        "mass": (density.pdf, 1.0),
        "polynomial": (lambda u: 1 + u[:, 0] * u[:, 1], 1.25),
        "mean of one part": (lambda u: u[:, 0] * density.parts[0].pdf(u), density.parts[0].margins[0].mean()),
    }
    sums = {name: [] for name in functions}
    for seed in range(n_seeds):
        found = at(kind, density, seed)
        for name, (function, _) in functions.items():
            sums[name].append(found.weights @ function(found.points))
    for name, (_, truth) in functions.items():
        error = np.std(sums[name]) / np.sqrt(n_seeds)
        assert abs(np.mean(sums[name]) - truth) < 3.5 * error, name
        assert error < 0.05, name


def test_narrow_densities_are_integrated_better_than_at_uniform_nodes():
    density = pooled(5)

    def error(kind):
        found = (at(kind, density, seed) for seed in range(8))
        return np.sqrt(np.mean([(nodes.weights @ density.pdf(nodes.points) - 1) ** 2 for nodes in found]))

    errors = {kind: error(kind(1024)) for kind in (Importance, Sobol, MonteCarlo)}
    chains = error(MCMC(1024, n_chains=128, burn_in=50))
    assert errors[Importance] < 0.01
    assert chains < 0.01
    assert errors[Sobol] > 0.8  # they miss it, or nearly
    assert errors[MonteCarlo] > 0.8


def test_the_error_of_a_lambda_function_falls_with_the_number_of_nodes():
    # The mean over seeds of the squared error of the integral of sqrt(p), whose value is known in closed form.
    density = pooled(3, width=0.1, means=(0.5,))
    margin = density.parts[0].margins[0]
    x = (np.arange(20_000) + 0.5) / 20_000
    truth = np.mean(np.sqrt(margin.pdf(x))) ** 3

    def error(n):
        found = (at(Importance(n), density, seed) for seed in range(20))
        return np.sqrt(np.mean([(f.weights @ np.sqrt(density.pdf(f.points)) - truth) ** 2 for f in found])) / truth

    few, many = error(256), error(4096)
    assert many < 0.02
    assert many < few / 2.5


def test_limits_of_the_uniform_share():
    density = pooled()
    found = at(Importance(512, uniform=1.0), density)
    np.testing.assert_allclose(found.weights, 1 / 512)
    bare = at(Importance(512, uniform=0.0), density)
    np.testing.assert_allclose(bare.weights, 1 / (512 * density.pdf(bare.points)))
    assert at(MCMC(100, uniform=0.0, n_chains=10), density).points.shape == (100, 2)


def test_chains_match_a_known_density():
    margin = stats.beta(4, 2)
    start = np.random.RandomState(0).uniform(size=(400, 2))

    def pdf(u):
        return margin.pdf(u[:, 0]) * margin.pdf(u[:, 1])

    x, values, acceptance = metropolis(pdf, start, 40_000, start, np.random.RandomState(0), burn_in=100, thin=5)
    np.testing.assert_array_equal(values, pdf(x))
    np.testing.assert_allclose(x.mean(axis=0), margin.mean(), atol=0.01)
    np.testing.assert_allclose(x.std(axis=0), margin.std(), atol=0.01)
    np.testing.assert_allclose(np.cov(x.T)[0, 1], 0, atol=0.002)
    for quantile in (0.05, 0.25, 0.75, 0.95):
        assert np.mean(x[:, 0] < margin.ppf(quantile)) == pytest.approx(quantile, abs=0.02)
    assert 0.15 < acceptance < 0.6


def test_chains_are_uniform_up_to_the_faces():
    start = np.random.RandomState(0).uniform(size=(200, 3))
    x, _, acceptance = metropolis(lambda u: np.ones(len(u)), start, 20_000, start, np.random.RandomState(1))
    assert acceptance == pytest.approx(1.0)
    counts = np.histogram(x[:, 0], 10, (0, 1))[0]
    np.testing.assert_allclose(counts / 20_000, 0.1, atol=0.012)


def test_chains_find_both_modes_in_their_shares():
    # All chains start in one of two far modes of unequal mass; differences of the archive lead to the other.
    rng = np.random.RandomState(0)
    left, right = Normal([0.2] * 3, 0.04), Normal([0.8] * 3, 0.04)

    def pdf(u):
        return 0.3 * left.pdf(u) + 0.7 * right.pdf(u)

    archive = np.concatenate([left.sample(100, rng), right.sample(100, rng)])
    x, _, _ = metropolis(pdf, left.sample(300, rng), 12_000, archive, rng, burn_in=300, thin=5)
    assert np.mean(x[:, 0] > 0.5) == pytest.approx(0.7, abs=0.05)


def test_a_narrow_target_is_reached_from_far_away():
    rng = np.random.RandomState(0)
    target = Normal([0.7] * 4, 0.02)
    start = np.clip(rng.normal(0.5, 0.1, (300, 4)), 0, 1)
    x, _, acceptance = metropolis(target.pdf, start, 3000, start, rng, burn_in=400, thin=5)
    np.testing.assert_allclose(x.mean(axis=0), 0.7, atol=0.01)
    assert acceptance > 0.05


def test_folding_is_reflection():
    x = np.linspace(-3, 3, 61)
    folded = fold(x)
    assert folded.min() >= 0
    assert folded.max() <= 1
    np.testing.assert_allclose(np.cos(np.pi * folded), np.cos(np.pi * x), atol=1e-12)  # even, of period two


def test_chains_need_no_sample():
    silent = pooled(3, silent=True)
    assert not silent.can_sample
    found = at(MCMC(2000, n_chains=200), silent)
    assert found.weights @ silent.pdf(found.points) == pytest.approx(1, abs=0.03)
    assert 0.1 < found.acceptance < 0.6
    with pytest.raises(ValueError, match=r"Importance: .* no sample method; use nodes=MCMC\(\)"):
        at(Importance(), silent)


@pytest.mark.parametrize("factor", [1e-3, 50.0])
def test_an_unknown_mass_is_found_from_the_uniform_nodes(factor):
    unknown, known = pooled(2, width=0.15, silent=True, factor=factor), pooled(2, width=0.15)
    found = at(MCMC(4000, n_chains=200), unknown)
    assert found.weights.sum() == pytest.approx(1)
    assert found.weights @ known.pdf(found.points) == pytest.approx(1, abs=0.05)


def test_open_boundaries_leave_nodes_out_and_the_rest_right():
    rng = np.random.default_rng(0)
    bags = de.as_bags(rng.uniform(size=(3, 50, 2)))
    density = pool(KDE("none"), bags, np.array([0.1, 0.1]))
    inside = np.mean(density.pdf(Grid(200).resolve(2).points))
    assert inside < 0.95
    drawn = at(Importance(8192), density)
    assert drawn.n_nodes < 8192
    assert drawn.weights @ density.pdf(drawn.points) == pytest.approx(inside, rel=0.03)
    assert drawn.weights.sum() == pytest.approx(1, abs=0.03)
    chains = at(MCMC(4096, n_chains=256, burn_in=30), density)
    assert chains.weights @ density.pdf(chains.points) == pytest.approx(inside, rel=0.05)


# --------------------------------------------------------------------------------------------------------------
# The pooled density
# --------------------------------------------------------------------------------------------------------------


def test_a_pool_takes_few_points_by_weight_and_widens_the_kernel():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(2, 5000, 1))
    weights = np.where(points[..., 0] < 0.5, 3.0, 1.0)
    bags = de.Bags.from_arrays(list(points), weights=list(weights))
    density = pool(KDE(), bags, np.array([0.02]), limit=1000)
    assert density.points.shape == (1000, 1)
    assert np.mean(density.points < 0.5) == pytest.approx(0.75, abs=0.02)
    x = Grid(1000).resolve(1).points
    assert np.mean(density.pdf(x)) == pytest.approx(1, abs=1e-6)
    assert np.mean(density.pdf(x)[:500]) / 2 == pytest.approx(0.75, abs=0.02)
    whole = pool(KDE(), bags, np.array([0.02]))
    np.testing.assert_allclose(density.pdf(x), whole.pdf(x), atol=0.35)
    assert density.parts[0].bandwidth[0] == pytest.approx(0.02 * 10**0.2)


def test_small_bags_are_pooled_whole():
    bags = de.Bags.from_arrays([[0.1, 0.2, 0.9], [0.5, 0.6]], weights=[[1, 2, 1], [1, 1]])
    density = pool(KDE(), bags, np.array([0.1]))
    copies = pool(KDE(), de.Bags.from_arrays([[0.1, 0.2, 0.2, 0.9], [0.5, 0.6]]), np.array([0.1]))
    x = Grid(50).resolve(1).points
    np.testing.assert_allclose(density.pdf(x), copies.pdf(x), rtol=1e-12)


def test_a_pooled_sample_favours_no_part():
    density = pooled(1, means=(0.2, 0.5, 0.8))
    firsts = [density.sample(1, np.random.RandomState(seed))[0, 0] for seed in range(300)]
    np.testing.assert_allclose(np.histogram(firsts, [0, 0.35, 0.65, 1])[0] / 300, 1 / 3, atol=0.08)


# --------------------------------------------------------------------------------------------------------------
# In the embedding
# --------------------------------------------------------------------------------------------------------------


def narrow(n_dims=5, n_bags=4, n=80, width=0.03):
    rng = np.random.default_rng(0)
    return de.as_bags([rng.normal(0.5 + 0.03 * rng.normal(size=n_dims), width, (n, n_dims)) for _ in range(n_bags)])


def embedding(kind, **options):
    return de.HDDEmbedding("hellinger", n_basis=2, bandwidth=0.03, nodes=kind, random_state=0, **options)


@pytest.mark.parametrize("kind", [Importance(512), MCMC(512, n_chains=128, burn_in=20)], ids=repr)
def test_an_embedding_with_drawn_nodes_finds_the_mass(kind):
    fitted = embedding(kind).fit(narrow())
    assert fitted.node_mass_ == pytest.approx(1, abs=0.1)
    np.testing.assert_array_equal(fitted.transform(narrow()), embedding(kind).fit(narrow()).transform(narrow()))


def test_nodes_that_miss_the_points_warn_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = embedding(Sobol(1024)).fit(narrow())
    texts = [str(w.message) for w in caught if "basis functions capture" not in str(w.message)]
    assert len(texts) == 1
    assert "of mass 1, have another mass on the nodes" in texts[0]
    assert "use nodes='importance'" in texts[0]
    assert abs(fitted.node_mass_ - 1) > 0.1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("n_dims", [1, 2, 4, 5])
def test_defaults_do_not_warn(n_dims):
    rng = np.random.default_rng(0)
    bags = de.as_bags([rng.normal(0.5, 0.12, (50, n_dims)).clip(0, 1) for _ in range(4)])
    assert de.HDDEmbedding(n_basis=2, random_state=0).fit(bags).node_mass_ == pytest.approx(1, abs=0.05)


def test_grids_and_open_boundaries():
    bags = narrow(2)
    assert embedding("auto").fit(bags).node_mass_ == pytest.approx(1, abs=1e-9)
    at_the_face = [np.random.default_rng(0).uniform(0, 0.05, (50, 2))]
    leaking = de.HDDEmbedding(n_basis=2, bandwidth=0.1, density=KDE("none"), nodes=Sobol(1024), random_state=0)
    assert leaking.fit(at_the_face).node_mass_ < 0.7  # and no warning: the nodes are not to blame


def test_names_and_errors():
    assert nodes.get("importance", 5) == Importance()
    assert nodes.get("mcmc", 5) == MCMC()
    with pytest.raises(ValueError, match="Importance: needs the density of training bags, got pooled=None"):
        Importance().resolve(2)
    for kind, text in [
        (Importance(1), r"Importance\(n=...\): must be an integer in \[2"),
        (Importance(uniform=-0.1), r"Importance\(uniform=...\): must be a number in \[0, 1\], got -0.1"),
        (MCMC(uniform=1.0), r"MCMC\(uniform=...\): must be a number in \[0, 1\), got 1.0"),
        (MCMC(n_chains=0), r"MCMC\(n_chains=...\): must be an integer in \[1"),
        (MCMC(burn_in=-1), r"MCMC\(burn_in=...\): must be an integer in \[0"),
        (MCMC(thin=0), r"MCMC\(thin=...\): must be an integer in \[1"),
    ]:
        with pytest.raises(ValueError, match=text):
            at(kind, pooled())


def test_bags_unlike_the_training_bags_warn_in_transform():
    rng = np.random.default_rng(0)
    train, strangers = (de.as_bags(rng.normal(centre, 0.03, size=(8, 50, 4))) for centre in (0.3, 0.8))
    for density in ("kde", "mixture"):
        fitted = de.HDDEmbedding("hellinger", bandwidth=0.05, density=density, random_state=0).fit(train)
        fitted.transform(train)
        with pytest.warns(UserWarning, match="some bags lie where few nodes are, unlike the .*fit on") as caught:
            fitted.transform(strangers)
        assert caught[0].filename == __file__


def test_more_functions_than_nodes_are_refused():
    bags = de.as_bags(np.random.default_rng(0).uniform(size=(4, 30, 2)))
    with pytest.raises(ValueError, match=r"makes 400 basis functions, more than nodes \(256\); use more"):
        de.HDDEmbedding("hellinger", n_basis=20, bandwidth=0.1, nodes=Importance(256), random_state=0).fit(bags)


def test_few_random_nodes_for_many_functions_warn():
    bags = de.as_bags(np.random.default_rng(0).beta(2, 2, size=(4, 100, 2)))
    with pytest.warns(UserWarning, match="so few random nodes find more than there is .*Sobol"):
        de.HDDEmbedding("js", bandwidth=0.1, nodes=MonteCarlo(300), random_state=0).fit(bags)
