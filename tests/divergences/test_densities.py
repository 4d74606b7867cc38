"""Plug-in divergences: known densities to many digits, points within their error, narrow ones in ten dimensions."""

import heapq
import warnings

import numpy as np
import pytest
from scipy import special

import distembed as de
import exact
from distembed.density import Density
from distembed.density.nodes import MCMC, Grid, Importance, MonteCarlo, Sobol
from distembed.divergences import Pairwise, densities, plugin

DISTANCES = ["js", "hellinger", "tv", "chi2"]
every_distance = pytest.mark.parametrize("distance", DISTANCES)


class Product:
    """A density with independent coordinates."""

    def __init__(self, *margins):
        self.margins = margins

    def pdf(self, u):
        return np.exp(np.sum([margin.logpdf(x) for margin, x in zip(self.margins, u.T, strict=True)], axis=0))

    def sample(self, n, rng):
        return np.stack([margin.draw(n, rng) for margin in self.margins], axis=1)


class Mute:
    """The same, up to a factor and without a sample."""

    def __init__(self, density, factor):
        self.density, self.factor = density, factor

    def pdf(self, u):
        return self.factor * self.density.pdf(u)


class TruncatedNormal:
    def __init__(self, mean, width):
        self.mean, self.width = mean, width
        self.low, self.high = special.ndtr([-mean / width, (1 - mean) / width])

    def logpdf(self, x):
        inside = np.log((self.high - self.low) * self.width * np.sqrt(2 * np.pi))
        return -0.5 * ((x - self.mean) / self.width) ** 2 - inside

    def pdf(self, x):
        return np.exp(self.logpdf(x))

    def draw(self, n, rng):
        return self.mean + self.width * special.ndtri(rng.uniform(self.low, self.high, size=n))


class Beta:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def logpdf(self, x):
        return special.xlogy(self.a - 1, x) + special.xlog1py(self.b - 1, -x) - special.betaln(self.a, self.b)

    def pdf(self, x):
        return np.exp(self.logpdf(x))

    def draw(self, n, rng):
        return rng.beta(self.a, self.b, size=n)


class Known(Density):
    """The true densities: a bag says by its first coordinate which one is meant."""

    smooths = "nothing"
    integrates_to_one = True

    def __init__(self, *truths):
        self.truths = truths

    def of(self, points, weights, bandwidth):
        return self.truths[round(points[0, 0] * 100)]

    def bags(self, n_dims):
        return [np.full((1, n_dims), i / 100) for i in range(len(self.truths))]


class KnownUpToMass(Known):
    integrates_to_one = False


RISING, FLAT, FALLING = Product(Beta(2, 1)), Product(Beta(1, 1)), Product(Beta(1, 2))
RAMPS = {
    "js": [[0, 0.053781946, np.log(2) - 0.5], [0.053781946, 0, 0.053781946], [np.log(2) - 0.5, 0.053781946, 0]],
    "hellinger": [
        [0, 1 - 2 * np.sqrt(2) / 3, 1 - np.pi / 4],
        [1 - 2 * np.sqrt(2) / 3, 0, 1 - 2 * np.sqrt(2) / 3],
        [1 - np.pi / 4, 1 - 2 * np.sqrt(2) / 3, 0],
    ],
    "tv": [[0, 0.25, 0.5], [0.25, 0, 0.25], [0.5, 0.25, 0]],
}


# --------------------------------------------------------------------------------------------------------------
# Known densities: the integral alone
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["js", "hellinger", "tv"])
def test_ramps_on_a_grid_to_many_digits(distance):
    known = Known(RISING, FLAT, FALLING)
    found = plugin(known.bags(1), distance=distance, density=known, nodes=Grid(20_000))
    # Midpoints of width δ see the root at 0 with an error of order δ^1.5, and all else with δ² or less.
    np.testing.assert_allclose(found, RAMPS[distance], atol=20_000**-1.5)


@pytest.mark.parametrize("distance", ["js", "hellinger", "tv"])
@pytest.mark.parametrize(
    "kind", ["pairs", Sobol(2048), MonteCarlo(4000), Importance(4000), MCMC(4000, n_chains=200)], ids=repr
)
def test_ramps_at_every_kind_of_nodes(distance, kind):
    known = Known(RISING, FLAT, FALLING)
    found = plugin(known.bags(1), distance=distance, density=known, nodes=kind, random_state=0)
    np.testing.assert_allclose(found, RAMPS[distance], atol=0.02)


def test_normal_densities_in_the_cube():
    # N(0, 1) and N(1, 1), scaled to the cube by a factor of 20: a map of the space changes no distance.
    known = Known(Product(TruncatedNormal(0.5, 0.05)), Product(TruncatedNormal(0.55, 0.05)))
    for distance, truth in {"js": 0.111421482, "hellinger": 1 - 0.882496903, "tv": 0.382924923}.items():
        found = plugin(known.bags(1), distance=distance, density=known, nodes=Grid(20_000))
        assert found[0, 1] == pytest.approx(truth, abs=1e-7)
        many = plugin(known.bags(1), distance=distance, density=known, nodes=Pairwise(50_000), random_state=0)
        assert many[0, 1] == pytest.approx(truth, abs=0.004)


@every_distance
def test_pairs_are_unbiased_and_within_their_bound(distance):
    known = Known(*(Product(TruncatedNormal(mean, 0.08), Beta(2, 3)) for mean in (0.4, 0.5)))
    truth = exact.distance(*(density.pdf for density in known.truths), distance, n_dims=2)
    found = np.array(
        [
            plugin(known.bags(2), distance=distance, density=known, nodes=Pairwise(128), random_state=seed)[0, 1]
            for seed in range(40)
        ]
    )
    bound = de.distances.get(distance).mass / np.sqrt(2 * 128)
    assert found.std() < bound
    assert abs(found.mean() - truth) < 3.5 * found.std() / np.sqrt(40)


def test_more_nodes_are_more_accurate():
    known = Known(Product(*[TruncatedNormal(0.4, 0.1)] * 4), Product(*[TruncatedNormal(0.45, 0.1)] * 4))
    truth = 1 - np.exp(-4 * 0.05**2 / (8 * 0.1**2))  # the truncation is at four deviations

    def error(n):
        found = [
            plugin(known.bags(4), distance="hellinger", density=known, nodes=Pairwise(n), random_state=seed)[0, 1]
            for seed in range(20)
        ]
        return np.sqrt(np.mean((np.array(found) - truth) ** 2))

    assert error(2048) < error(64) / 3


def test_an_unknown_mass_and_no_sample_change_nothing():
    truths = [Product(*[TruncatedNormal(mean, 0.1)] * 2) for mean in (0.4, 0.5, 0.9)]
    factors = (1.0, 1e40, 1e-60)
    mute = KnownUpToMass(*(Mute(truth, factor) for truth, factor in zip(truths, factors, strict=True)))
    want = plugin(mute.bags(2), density=Known(*truths), nodes=Grid(200))
    # A bag names its density by its first point; the others are where the chains start.
    rng = np.random.RandomState(0)
    bags = [np.vstack([point, truth.sample(100, rng)]) for point, truth in zip(mute.bags(2), truths, strict=True)]
    found = plugin(bags, density=mute, nodes=Pairwise(4000), random_state=0)
    np.testing.assert_allclose(found, want, atol=0.02)


def test_densities_apart_have_the_largest_distance():
    apart = Known(Product(TruncatedNormal(0.1, 0.001)), Product(TruncatedNormal(0.9, 0.001)))
    mute = KnownUpToMass(*(apart.truths))
    for density in (apart, mute):
        found = plugin(density.bags(1), density=density, nodes="pairs", random_state=0)
        np.testing.assert_allclose(found, [[0, np.log(2)], [np.log(2), 0]], atol=1e-12)


# --------------------------------------------------------------------------------------------------------------
# Ten dimensions
# --------------------------------------------------------------------------------------------------------------


def bhattacharyya(p, q):
    """The product formula: ∫ √(pq) of independent coordinates."""
    nodes, weights = exact.box_quadrature(n_nodes=4096)
    x = nodes[:, 0]
    return np.prod([weights @ np.sqrt(a.pdf(x) * b.pdf(x)) for a, b in zip(p.margins, q.margins, strict=True)])


def js_by_simulation(p, q, n=200_000):
    rng = np.random.RandomState(123)
    means = []
    for own in (p, q):
        u = own.sample(n, rng)
        means.append(np.mean(np.log(2 * own.pdf(u) / (p.pdf(u) + q.pdf(u)))))
    return np.mean(means)


NARROW = {
    "normal": [Product(*(TruncatedNormal(0.5 + 0.018 * s * (-1) ** j, 0.05) for j in range(10))) for s in range(3)],
    "beta": [Product(*(Beta(40 + 6 * s * (j % 2), 60) for j in range(10))) for s in range(3)],
}


@pytest.mark.parametrize("family", list(NARROW))
def test_narrow_densities_in_ten_dimensions(family):
    truths = NARROW[family]
    known, upper = Known(*truths), np.triu_indices(3, 1)
    wanted = {
        "hellinger": [1 - bhattacharyya(truths[i], truths[j]) for i, j in zip(*upper, strict=True)],
        "js": [js_by_simulation(truths[i], truths[j]) for i, j in zip(*upper, strict=True)],
    }
    for distance, want in wanted.items():
        found = plugin(known.bags(10), distance=distance, density=known, random_state=0)
        np.testing.assert_allclose(found[upper], want, rtol=0.04)
        shared = plugin(known.bags(10), distance=distance, density=known, nodes=Importance(), random_state=0)
        np.testing.assert_allclose(shared[upper], want, rtol=0.06)
    with pytest.warns(UserWarning, match=r"plugin: .* have another mass .* use nodes='importance'"):
        missed = plugin(known.bags(10), distance="hellinger", density=known, nodes=Sobol(4096), random_state=0)
    assert np.all(missed[upper] < 0.3 * np.array(wanted["hellinger"]))


def best_energy(density, size, n_basis=200):
    """Energy of √p in the ``size`` largest coefficients of the product cosine basis: no index set catches more."""
    nodes, weights = exact.box_quadrature(n_nodes=4096)
    phi = exact.basis_functions(nodes[:, 0], n_basis)
    margins = [margin.pdf(nodes[:, 0]) for margin in density.margins]
    shares = [np.sort(((weights * np.sqrt(p)) @ phi) ** 2)[::-1] for p in margins]
    total, start = 0.0, (0,) * len(shares)
    heap, seen = [(-np.prod([share[0] for share in shares]), start)], {start}
    for _ in range(size):
        value, alpha = heapq.heappop(heap)
        total -= value
        for j in range(len(shares)):
            higher = (*alpha[:j], alpha[j] + 1, *alpha[j + 1 :])
            if higher[j] < n_basis and higher not in seen:
                seen.add(higher)
                heapq.heappush(heap, (-np.prod([s[k] for s, k in zip(shares, higher, strict=True)]), higher))
    return total


def test_no_index_set_of_a_thousand_functions_catches_narrow_densities_in_ten_dimensions():
    assert best_energy(Product(*NARROW["normal"][0].margins[:1]), 100) > 0.999
    assert best_energy(NARROW["normal"][0], 1000) < 0.05
    assert best_energy(NARROW["beta"][0], 1000) < 0.005


@pytest.mark.parametrize(
    ("density", "options"),
    [("mixture", {}), ("copula", {"bandwidth": "silverman", "nodes": Pairwise(1024)})],
    ids=["mixture", "copula"],
)
def test_narrow_densities_in_ten_dimensions_from_points(density, options):
    truths, rng = NARROW["normal"], np.random.RandomState(0)
    bags = [truth.sample(4000, rng) for truth in (truths[0], truths[2])]
    found = plugin(bags, distance="hellinger", density=density, random_state=0, **options)
    assert found[0, 1] == pytest.approx(1 - bhattacharyya(truths[0], truths[2]), rel=0.1)


def test_a_kernel_density_estimate_cannot_do_it():
    truths, rng = NARROW["normal"], np.random.RandomState(0)
    bags = [truth.sample(1000, rng) for truth in truths[:2]]
    options = {"density": "kde", "bandwidth": "silverman", "nodes": Pairwise(256)}
    found = plugin(bags, distance="hellinger", **options, random_state=0)
    assert found[0, 1] > 1.4 * (1 - bhattacharyya(*truths[:2]))


# --------------------------------------------------------------------------------------------------------------
# Bags of points
# --------------------------------------------------------------------------------------------------------------


def clouds(n_bags=4, n=60, n_dims=2, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    points = [np.clip(rng.normal(0.3 + 0.1 * i, 0.12, (n + i, n_dims)), 0, 1) for i in range(n_bags)]
    weights = [rng.uniform(0.5, 2, len(x)) for x in points] if weighted else None
    return de.Bags.from_arrays(points, weights=weights)


@every_distance
@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_shared_nodes_are_the_judges_sum(distance, n_dims):
    bags = clouds(n_dims=n_dims, weighted=True)
    kind = MonteCarlo(300)
    nodes = kind.resolve(n_dims, random_state=np.random.RandomState(5))
    p = [exact.kde(bags[i], nodes.points, 0.15, weights=bags.weights_of(i)) for i in range(4)]
    found = plugin(bags, distance=distance, density="kde", bandwidth=0.15, nodes=kind, random_state=5)
    np.testing.assert_allclose(found, exact.pairwise_distances(p, distance, nodes.weights), atol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_the_automatic_grid_is_the_judges_integral(n_dims):
    bags = clouds(3, n_dims=n_dims)
    nodes, weights = exact.box_quadrature(n_dims, n_nodes={1: 512, 2: 96, 3: 32}[n_dims])
    p = [exact.kde(points, nodes, 0.1) for points in bags]
    for distance in DISTANCES:
        want = exact.pairwise_distances(p, distance, weights)
        found = plugin(bags, distance=distance, bandwidth=0.1)
        np.testing.assert_allclose(found, want, atol=0.01 * want.max())


def test_pairs_are_the_judges_integral():
    bags = clouds(3, weighted=True)
    nodes, weights = exact.box_quadrature(2, n_nodes=96)
    p = [exact.kde(bags[i], nodes, 0.1, weights=bags.weights_of(i)) for i in range(3)]
    found = plugin(bags, bandwidth=0.1, nodes=Pairwise(8192), random_state=0)
    np.testing.assert_allclose(found, exact.pairwise_distances(p, "js", weights), atol=0.006)


@pytest.mark.parametrize("nodes", ["auto", "pairs", Sobol(256)], ids=repr)
def test_symmetry_and_other_bags(nodes):
    bags = clouds(5)
    options = {"bandwidth": 0.1, "nodes": nodes, "random_state": 0}
    square = plugin(bags, **options)
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_array_equal(np.diag(square), 0.0)
    assert np.all(square[np.triu_indices(5, 1)] > 0)
    part = plugin(bags[:3], bags[1:], **options)
    assert part.shape == (3, 4)
    assert part[1, 0] == 0.0  # the same bag: the integrand is zero everywhere
    np.testing.assert_allclose(part, square[:3, 1:], atol=0.02 if nodes == "pairs" else 1e-9)
    np.testing.assert_array_equal(square, plugin(list(bags), **options))


@pytest.mark.parametrize("nodes", [Grid(32), Pairwise(300)], ids=repr)
def test_blocks_and_threads_change_nothing(nodes, monkeypatch):
    bags = clouds(9)
    options = {"bandwidth": 0.1, "nodes": nodes, "random_state": 0}
    want = plugin(bags, n_jobs=1, **options)
    np.testing.assert_array_equal(plugin(bags, n_jobs=2, **options), want)
    rectangle = plugin(bags, bags[4:], **options)
    monkeypatch.setattr(densities, "_BLOCK_BYTES", 3 * 8 * 1024)  # three bags on the grid
    monkeypatch.setattr(densities, "_BLOCK_VALUES", 1300)
    np.testing.assert_allclose(plugin(bags, **options), want, atol=1e-14)
    np.testing.assert_allclose(plugin(bags, bags[4:], **options), rectangle, atol=1e-14)


def test_points_give_the_truth_as_bags_grow():
    def error(n):
        rng = np.random.default_rng(0)
        bags = [np.sqrt(rng.uniform(size=n)), rng.uniform(size=n), 1 - np.sqrt(rng.uniform(size=n))]
        return np.max(np.abs(plugin(bags) - RAMPS["js"]))

    small, large = error(300), error(30_000)
    assert large < 0.005
    assert large < small / 3


@pytest.mark.parametrize("nodes", ["auto", "pairs"])
def test_weights_are_copies(nodes):
    bags = clouds(3, n=40)
    weights = np.ones(bags.n_points)
    weights[::4] = 2
    heavy = de.Bags(bags.points, bags.offsets, weights=3 * weights)
    copied = de.Bags.from_arrays([np.concatenate([bags[i], bags[i][heavy.weights_of(i) == 6]]) for i in range(3)])
    options = {"bandwidth": 0.1, "nodes": Pairwise(6000) if nodes == "pairs" else nodes, "random_state": 0}
    np.testing.assert_allclose(
        plugin(heavy, **options), plugin(copied, **options), atol=0.02 if nodes == "pairs" else 1e-10
    )
    absent = de.Bags.from_arrays(
        [np.vstack([x, [[7.0, 7.0]]]) for x in bags], weights=[[1] * len(x) + [0] for x in bags]
    )
    close = 0.02 if nodes == "pairs" else 1e-12  # other draws, by weight
    np.testing.assert_allclose(plugin(absent, **options), plugin(bags, **options), atol=close)


def test_float32_is_computed_in_double_and_returned_in_single():
    single = clouds().astype(np.float32)
    found = plugin(single, bandwidth=0.1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, plugin(single.astype(float), bandwidth=0.1), atol=1e-6)
    assert plugin(single, clouds(), bandwidth=0.1).dtype == np.float64


@pytest.mark.parametrize("n_dims", [2, 4])
def test_small_and_degenerate_bags_are_finite(n_dims):
    rng = np.random.default_rng(0)
    bags = [rng.uniform(size=(1, n_dims)), np.full((5, n_dims), 0.5), rng.uniform(size=(30, n_dims))]
    bags[2][:, 0] = 0.3  # a constant dimension
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = plugin(bags, random_state=0)
    assert np.all(np.isfinite(found))
    assert np.all(found[np.triu_indices(3, 1)] > 0)
    assert found.max() <= np.log(2) + 1e-6


def test_own_bandwidths_and_densities():
    narrow, wide = (np.random.default_rng(0).normal(0.5, s, (200, 1)).clip(0, 1) for s in (0.02, 0.2))
    own = plugin([narrow, wide], bandwidth="scott", density=de.KDE(per_bag=True), nodes=Grid(1000))
    x = Grid(1000).resolve(1)
    p = [exact.kde(points, x.points, points.std() * 200**-0.2) for points in (narrow, wide)]
    np.testing.assert_allclose(own, exact.pairwise_distances(p, "js", x.weights), atol=1e-3)


@pytest.mark.parametrize("density", ["histogram", "copula", "mixture", "knn"])
def test_every_density_serves(density):
    bags = clouds(3, n=200)
    grid = plugin(bags, density=density, nodes=Grid(128))
    pairs = plugin(bags, density=density, nodes=Pairwise(4096), random_state=0)
    np.testing.assert_allclose(pairs, grid, atol=0.02)


def test_a_distance_of_ones_own():
    bags = clouds()
    mine = de.HomogeneousDistance("mine", kappa=lambda x, y: exact.kappa(x, y, "chi2"))
    np.testing.assert_allclose(
        plugin(bags, distance=mine, bandwidth=0.1), plugin(bags, distance="chi2", bandwidth=0.1), atol=1e-12
    )


def test_random_state_counts_and_grids_need_none():
    bags = clouds(n_dims=4)
    one, same, other = (plugin(bags, bandwidth=0.1, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(plugin(clouds()), plugin(clouds()))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": [[0.5, 1.5]]}, ValueError, r"plugin: points must lie in the unit cube .* has 1.5 .*UnitCube\(\).fit_tr"),
        ({"Y": [[0.5, 0.6]]}, ValueError, r"plugin\(Y=...\): must have points of 2 dimension\(s\), as X, got 1; pass"),
        ({"distance": "euclid"}, ValueError, "distance: must be one of 'js'"),
        ({"density": "parzen"}, ValueError, "density: must be one of 'kde'"),
        ({"nodes": "lattice"}, ValueError, "nodes: must be 'auto', 'grid'"),
        ({"nodes": Pairwise(1)}, ValueError, r"Pairwise\(n=...\): must be an integer in \[2"),
        ({"bandwidth": -1.0}, ValueError, "bandwidth: must be positive"),
        ({"bandwidth_scale": 0.0}, ValueError, r"plugin\(bandwidth_scale=...\)"),
        ({"n_jobs": 0}, ValueError, "n_jobs: must not be 0"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        plugin(**({"X": clouds(), "random_state": 0, "bandwidth": 0.1} | arguments))


def test_the_automatic_density_is_a_mixture_beyond_three_dimensions():
    for n_dims, name in ((3, "kde"), (4, "mixture")):
        bags = clouds(2, n_dims=n_dims)
        options = {"bandwidth": 0.2, "random_state": 0}
        np.testing.assert_array_equal(plugin(bags, **options), plugin(bags, density=name, **options))


def test_categorical_columns_are_refused():
    bags = de.Bags([[0.3, 0], [0.4, 1]], [0, 1, 2], categories={1: ["f", "m"]})
    with pytest.raises(ValueError, match=r"plugin\(X=...\): must have continuous columns only.*use HDDEmbedding"):
        plugin(bags)
