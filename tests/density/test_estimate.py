"""What holds for all density estimates: mass, degenerate bags, weights, names, and the contract of embeddings."""

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

from distembed import Bags, Grid, HDDEmbedding, KernelSmoother, MonteCarlo, Sobol, as_bags, density
from distembed.compute.arrays import bags_first
from distembed.density import KDE, KNN, Copula, Histogram, Mixture, Scored
from distembed.density.estimate import distinct_points, draw_inside, normalise, pool
from distembed.density.nodes import GridNodes, Importance, mass_on_nodes
from distembed.divergences import plugin
from distembed.estimator_checks import bag_transformer_checks

float64 = np.dtype(float)

EVERY = {
    "histogram": Histogram(),
    "histogram-bins": Histogram((3, 7)),
    "copula": Copula(),
    "copula-product": Copula(shrinkage=1.0),
    "mixture": Mixture(),
    "mixture-2": Mixture(2),
    "knn": KNN(),
    "knn-3": KNN(3),
    "scored": Scored(KernelDensity(bandwidth=0.1)),
}
every_density = pytest.mark.parametrize("estimate", EVERY.values(), ids=EVERY)


def make(n_dims, sizes=(60, 1, 7), weighted=False):
    rng = np.random.default_rng(n_dims)
    arrays = [rng.beta(0.8, 1.5, size=(n, n_dims)) for n in sizes]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0, 2, n) + 0.01 for n in sizes] if weighted else None)


def values(estimate, nodes, bags, h=0.1, dtype=float64):
    prepared = estimate.prepare(nodes, None if h is None else np.full(bags.n_dims, h), dtype)
    return bags_first(prepared(bags, None, None)).reshape(bags.n_bags, -1)


def scattered(n_dims, n=200, kind=MonteCarlo):
    return kind(n).resolve(n_dims, random_state=np.random.RandomState(0))


@every_density
@pytest.mark.parametrize("nodes", [Grid(24).resolve(2), scattered(2, 4096, Sobol)], ids=["grid", "scattered"])
def test_degenerate_bags_have_finite_densities_of_mass_one(estimate, nodes):
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays(
        [
            np.array([[0.3, 0.6]]),
            np.full((5, 2), 0.7),
            np.c_[rng.uniform(size=20), np.full(20, 0.5)],
            rng.integers(0, 2, size=(20, 2)).astype(float),
            np.array([[0.0, 1.0], [1.0, 1.0]]),
            rng.uniform(size=(3, 2)),
        ]
    )
    found = values(estimate, nodes, bags)
    assert np.isfinite(found).all()
    assert found.min() >= 0
    mass = found @ nodes.weights
    exact = isinstance(nodes, GridNodes) and isinstance(estimate, Histogram)
    np.testing.assert_allclose(mass, 1.0, atol=1e-9 if exact or not estimate.integrates_to_one else 1e-2)


@every_density
def test_the_evaluator_gives_the_density_of_each_bag_whatever_its_company(estimate):
    bags, nodes, h = make(2), scattered(2), np.full(2, 0.1)
    found = values(estimate, nodes, bags)
    np.testing.assert_allclose(values(estimate, nodes, bags[1:2])[0], found[1], rtol=1e-9)
    for i, points in enumerate(bags):
        alone = estimate.of(points, None, h).pdf(nodes.points)
        if not estimate.integrates_to_one:
            alone = normalise(alone, nodes.weights)
        np.testing.assert_allclose(found[i], alone, rtol=1e-9, atol=1e-12)


@every_density
def test_weights_count_as_copies_and_order_is_irrelevant(estimate):
    rng = np.random.default_rng(0)
    points, counts = rng.uniform(size=(30, 2)), rng.integers(1, 4, 30)
    weighted = Bags(points, [0, 30], weights=counts.astype(float))
    repeated = as_bags([rng.permutation(np.repeat(points, counts, axis=0))])
    nodes = Grid(16).resolve(2)
    np.testing.assert_allclose(values(estimate, nodes, weighted), values(estimate, nodes, repeated), rtol=1e-7)


@every_density
def test_a_bandwidth_a_bag(estimate):
    bags, nodes = make(2), scattered(2)
    each = np.array([[0.1, 0.2], [0.2, 0.2], [0.3, 0.1]])
    found = estimate.prepare(nodes, each[0], float64)(bags, each, None)
    for i in range(3):
        alone = estimate.prepare(nodes, each[i], float64)(bags[i : i + 1], None, None)
        np.testing.assert_allclose(found[i], alone[0], rtol=1e-9, atol=1e-12)


@every_density
def test_float32(estimate):
    nodes, bags = Grid(16).resolve(2), make(2)
    single = values(estimate, nodes, bags.astype(np.float32), dtype=np.dtype(np.float32))
    double = values(estimate, nodes, bags.astype(np.float32).astype(float))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-5 * double.max())


@pytest.mark.parametrize("estimate", [Histogram(), Copula(), Mixture(2), EVERY["scored"]], ids=repr)
def test_draws_have_the_density(estimate):
    rng = np.random.default_rng(1)
    one = estimate.of(rng.beta(2, 3, size=(200, 2)), None, np.full(2, 0.08))
    drawn = one.sample(4000, np.random.RandomState(0))
    assert drawn.shape == (4000, 2)
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    nodes = Grid(48).resolve(2)
    p = one.pdf(nodes.points)
    assert p.mean() == pytest.approx(1.0, abs=0.02)
    edges = np.linspace(0, 1, 5)
    got = np.histogram2d(*drawn.T, bins=edges)[0] / 4000
    want = p.reshape(4, 12, 4, 12).mean(axis=(1, 3)) / 16
    np.testing.assert_allclose(got, want, atol=0.025)


def test_draws_end_even_where_the_cube_is_never_hit():
    drawn = draw_inside(lambda n: np.full((n, 2), 3.0), 2)
    np.testing.assert_array_equal(drawn, np.ones((2, 2)))


def test_what_a_bandwidth_means_is_no_parameter():
    assert [kind.smooths for kind in (KDE, Copula, Mixture, KNN, Scored)] == ["joint", "margins"] + ["nothing"] * 3
    assert [kind.integrates_to_one for kind in (KDE, Histogram, Copula, Mixture, KNN, Scored)] == [True] * 3 + [
        False
    ] * 3
    assert repr(Copula()) == "Copula(shrinkage='auto')"
    assert repr(KNN()) == "KNN(k='auto', least_radius=0.01)"


def test_nodes_that_see_a_density():
    rng = np.random.default_rng(0)
    p, volumes = rng.uniform(size=(1, 50)), rng.dirichlet(np.ones(50))
    masses = p[0] * volumes
    assert mass_on_nodes(p, volumes)[0] == pytest.approx(masses.sum())
    assert mass_on_nodes(p, volumes)[1] == pytest.approx(masses.sum() ** 2 / np.sum(masses**2))
    assert mass_on_nodes(normalise(p[0], volumes)[None], volumes)[1] == pytest.approx(mass_on_nodes(p, volumes)[1])
    assert mass_on_nodes(np.ones((1, 50)), np.full(50, 0.02))[1] == pytest.approx(50)
    assert mass_on_nodes(np.eye(50)[3:4], volumes)[1] == pytest.approx(1)
    assert mass_on_nodes(np.zeros((1, 50)), volumes)[1] == 0


def test_densities_that_no_node_sees_are_uniform_and_warned_of():
    nodes = Grid(8).resolve(2)
    at_node, between = nodes.points[5], nodes.points[5] + 1 / 16
    bags = Bags.from_arrays([at_node[None], between[None], between[None]])
    with pytest.warns(
        UserWarning, match=r"Scored: no node sees the density of some bags, .*; use nodes='imp"
    ) as warned:
        found = values(Scored(KernelDensity(bandwidth=1e-3)), nodes, bags)
    assert len(warned) == 1
    np.testing.assert_allclose(found[1:], 1.0)
    assert mass_on_nodes(found[:1], nodes.weights)[1] == pytest.approx(1)


def test_distinct_points():
    points, mass = distinct_points(np.array([[0.5, 0.1], [0.2, 0.9], [0.5, 0.1], [0.5, 0.0]]), np.array([1, 2, 3, 4.0]))
    np.testing.assert_array_equal(points, [[0.2, 0.9], [0.5, 0.0], [0.5, 0.1]])
    np.testing.assert_allclose(mass, [0.2, 0.4, 0.4])


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Copula(2.0), r"Copula\(shrinkage=...\): must be a number in \[0, 1\], got 2\.0; 'auto' estimates it"),
        (Mixture("aic"), r"Mixture\(n_components=...\): must be an integer .* or 'bic', got 'aic'; 'bic' chooses"),
        (Mixture(0), r"Mixture\(n_components=...\): must be an integer in \[1, 1000\], got 0"),
        (Mixture(least_deviation=0.0), r"Mixture\(least_deviation=...\): must be a number in \[0\.0001, 10\]"),
        (KNN("all"), r"KNN\(k=...\): must be a positive integer or 'auto', got 'all'; 'auto' is √n"),
        (KNN(0), r"KNN\(k=...\): must be an integer in \[1, .* got 0"),
        (KNN(least_radius=0.0), r"KNN\(least_radius=...\): must be a number in \[1e-06, 1\], got 0\.0"),
        (
            Histogram((2, 3, 4)),
            r"Histogram\(bins=...\): must be one number, or one per dimension \(2\), got \(2, 3, 4\)",
        ),
        (Histogram(0), r"Histogram\(bins=...\): must be an integer in \[1, .* got 0"),
    ],
    ids=repr,
)
def test_bad_parameters_are_refused(estimate, text):
    with pytest.raises(ValueError, match=text):
        HDDEmbedding(density=estimate).fit(make(2))


@pytest.mark.parametrize("estimate", [Histogram(), Copula()])
def test_a_bandwidth_is_needed(estimate):
    with pytest.raises(ValueError, match="needs a bandwidth, got None; give"):
        estimate.of(np.zeros((1, 1)), None, None)


class Flat(density.Density):
    """Every bag is uniform."""

    smooths = "nothing"

    def of(self, points, weights, bandwidth):
        return self

    def pdf(self, u):
        return np.ones(len(u))


def test_a_density_that_is_registered_is_found_by_its_name():
    bags = make(2)
    density.register("flat", Flat)
    try:
        found = HDDEmbedding("hellinger", n_basis=2, density="flat").fit_transform(bags)
        np.testing.assert_allclose(found, HDDEmbedding("hellinger", n_basis=2, density=Flat()).fit_transform(bags))
        np.testing.assert_allclose(plugin(bags, density="flat"), 0.0, atol=1e-12)
        smoother = KernelSmoother(response_density="flat").fit(bags, bags)
        np.testing.assert_allclose(smoother.predict(bags), 1.0)
        with pytest.raises(ValueError, match="'knn', 'flat', a density object"):
            density.get("parzen")
        with pytest.raises(ValueError, match="there is a density 'flat' already; choose another name"):
            density.register("flat", Flat)
    finally:
        density.forget("flat")
    with pytest.raises(ValueError, match="got 'flat'"):
        density.get("flat")


@pytest.mark.parametrize(("wrong", "error"), [("parzen", ValueError), (3, TypeError), (None, TypeError)])
def test_unknown_densities_are_refused(wrong, error):
    with pytest.raises(
        error, match="density: must be one of 'kde', 'copula', 'histogram', 'mixture', 'knn', a density"
    ):
        HDDEmbedding(density=wrong).fit(make(1))


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
@pytest.mark.parametrize("name", ["kde", "histogram", "copula", "mixture", "knn"])
def test_names(name):
    bags = make(2, sizes=(30, 40))
    found = HDDEmbedding("hellinger", n_basis=4, density=name).fit_transform(bags)
    assert found.shape == (2, 16)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("estimate", [Histogram(), Copula()], ids=repr)
def test_nodes_drawn_from_the_density_find_its_mass(estimate):
    bags = as_bags(np.random.default_rng(0).beta(2, 5, size=(4, 100, 4)))
    h = np.full(4, 0.1)
    nodes = Importance(512).resolve(4, random_state=np.random.RandomState(0), pooled=pool(estimate, bags, h))
    p = np.array([estimate.of(points, None, h).pdf(nodes.points) for points in bags])
    np.testing.assert_allclose(p @ nodes.weights, 1.0, atol=0.25)
    assert (p @ nodes.weights).mean() == pytest.approx(1.0, abs=0.06)


CONTRACT = {
    "histogram": HDDEmbedding(n_basis=3, bandwidth=0.15, density="histogram"),
    "histogram-rule": HDDEmbedding(n_basis=3, bandwidth_scale=0.3, density="histogram"),
    "histogram-bins": HDDEmbedding(n_basis=3, density=Histogram(4)),
    "histogram-scattered": HDDEmbedding(n_basis=3, bandwidth=0.15, density="histogram", nodes=Sobol(64)),
    "copula": HDDEmbedding(n_basis=3, bandwidth=0.15, density="copula"),
    "knn": HDDEmbedding(n_basis=3, density="knn"),
    "scored": HDDEmbedding(n_basis=3, density=KernelDensity(bandwidth=0.2), nodes=Sobol(64)),
    "mixture": HDDEmbedding("hellinger", n_basis=3, density=Mixture(2)),
}
FEW = (
    "fit_keeps_parameters",
    "pickle",
    "point_order",
    "own_bag",
    "duplicates",
    "integer_weights",
    "float32",
    "one_point",
)


def checks():
    for key, estimator in CONTRACT.items():
        for name, check in bag_transformer_checks(estimator):
            if name in FEW or key in ("histogram", "copula", "knn"):
                yield pytest.param(check, id=f"{key}-{name}")


@pytest.mark.parametrize("check", list(checks()))
def test_the_contract(check):
    check()
