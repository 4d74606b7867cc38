"""Density estimates other than the kernel's: formulas, mass, degenerate bags, weights, and the family's contract."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from distembed import Bags, Grid, HDDEmbedding, KernelSmoother, MonteCarlo, Sobol, as_bags, density
from distembed.compute.arrays import bags_first
from distembed.density import KDE, KNN, Copula, Histogram, Mixture, Scored, neighbours
from distembed.density.copula import margins_for
from distembed.density.each_bag import distinct, draw_inside, normalised, pool
from distembed.density.estimate import seen
from distembed.density.histogram import Boxes, overlaps
from distembed.density.models import fit_mixture
from distembed.density.neighbours import BagNeighbours
from distembed.density.nodes import GridNodes, Importance
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


# --------------------------------------------------------------------------------------------------------------
# What holds for all
# --------------------------------------------------------------------------------------------------------------


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
            alone = normalised(alone, nodes.weights)
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


def test_there_is_no_sample_where_there_are_no_draws():
    points = np.random.default_rng(0).uniform(size=(20, 1))
    assert not hasattr(KNN().of(points, None, None), "sample")
    assert not hasattr(Scored(OnlyScores()).of(points, None, None), "sample")


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
    assert seen(p, volumes)[0] == pytest.approx(masses.sum())
    assert seen(p, volumes)[1] == pytest.approx(masses.sum() ** 2 / np.sum(masses**2))
    assert seen(normalised(p[0], volumes)[None], volumes)[1] == pytest.approx(seen(p, volumes)[1])
    assert seen(np.ones((1, 50)), np.full(50, 0.02))[1] == pytest.approx(50)
    assert seen(np.eye(50)[3:4], volumes)[1] == pytest.approx(1)
    assert seen(np.zeros((1, 50)), volumes)[1] == 0


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
    assert seen(found[:1], nodes.weights)[1] == pytest.approx(1)


def test_distinct_points():
    points, mass = distinct(np.array([[0.5, 0.1], [0.2, 0.9], [0.5, 0.1], [0.5, 0.0]]), np.array([1, 2, 3, 4.0]))
    np.testing.assert_array_equal(points, [[0.2, 0.9], [0.5, 0.0], [0.5, 0.1]])
    np.testing.assert_allclose(mass, [0.2, 0.4, 0.4])


# --------------------------------------------------------------------------------------------------------------
# Histogram
# --------------------------------------------------------------------------------------------------------------


def brute_histogram(points, weights, bins, nodes):
    cell = np.minimum((points * bins).astype(int), np.array(bins) - 1)
    at = np.minimum((nodes * bins).astype(int), np.array(bins) - 1)
    same = np.all(at[:, None] == cell, axis=2)
    return np.prod(bins) * same @ (weights / weights.sum())


@pytest.mark.parametrize(("n_dims", "bins"), [(1, (5,)), (2, (4, 8)), (3, (2, 3, 4))])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogram_is_the_formula(n_dims, bins, weighted):
    bags, grid = make(n_dims, weighted=weighted), Grid(tuple(2 * b for b in bins)).resolve(n_dims)
    for nodes in (grid, scattered(n_dims)):
        found = values(Histogram(bins), nodes, bags, None)
        for i, points in enumerate(bags):
            weights = np.ones(len(points)) if bags.weights is None else bags.weights_of(i)
            np.testing.assert_allclose(found[i], brute_histogram(points, weights, bins, nodes.points), atol=1e-12)


@pytest.mark.parametrize(("bins", "size"), [(5, 12), (7, 16), (16, 7), (100, 12), (12, 100), (1, 8)])
def test_nodes_that_do_not_fit_the_bins_get_means_over_their_cells(bins, size):
    bags, fine = make(2), Grid(bins * size).resolve(2)
    found = values(Histogram(bins), Grid(size).resolve(2), bags, None)
    np.testing.assert_allclose(found.mean(axis=1), 1.0, rtol=1e-12)
    if bins * size <= 112:
        want = values(Histogram(bins), fine, bags, None).reshape(3, size, bins, size, bins).mean(axis=(2, 4))
        np.testing.assert_allclose(found, want.reshape(3, -1), atol=1e-10)
    np.testing.assert_allclose(overlaps(size, bins).mean(axis=0), 1.0)
    np.testing.assert_allclose(overlaps(size, bins).sum(axis=1), bins)


def test_bins_follow_the_bandwidth():
    assert Histogram().bins_for(np.array([1 / np.sqrt(12) / 9, 1e9, 1e-12]), 3) == (9, 1, 2**20)
    np.testing.assert_allclose(values(Histogram(), Grid(8).resolve(2), make(2), h=4.0), 1.0)
    assert Histogram().smooths == "joint"
    assert Histogram(3).smooths == "nothing"


def test_a_histogram_in_many_dimensions_allocates_no_grid():
    rng = np.random.default_rng(0)
    bags = as_bags(rng.uniform(size=(3, 50, 40)))
    assert values(Histogram(1000), scattered(40, 64), bags, None).shape == (3, 64)
    nodes = np.concatenate([bags[0], rng.uniform(size=(30, 40))])  # 10^120 boxes: points are found in their own alone
    boxes = Boxes(nodes, (1000,) * 40)
    np.testing.assert_array_equal(boxes.find(bags[0]), boxes.of_nodes[:50])
    np.testing.assert_array_equal(boxes.find(bags[1]), -1)
    assert Histogram(1000).of(bags[0], None, None).pdf(bags[0][:1])[0] == pytest.approx(1e120 / 50)


def test_bins_finer_than_nodes_warn():
    with pytest.warns(UserWarning, match=r"\(20, 20\) bins are finer than the 100 nodes, .* or nodes=Grid\(20\)"):
        Histogram(20).warn_if_unresolved(Grid(10).resolve(2), None)
    Histogram(20).warn_if_unresolved(scattered(2), None)  # the mass on the nodes tells
    with pytest.warns(
        UserWarning, match=r"\(bins=None\): \(29,\) bins .*; use a larger bandwidth, or nodes=Grid\(29\)"
    ):
        Histogram().warn_if_unresolved(Grid(10).resolve(1), np.array([0.01]))
    Histogram(10).warn_if_unresolved(Grid(10).resolve(2), None)
    Histogram().warn_if_unresolved(scattered(2), np.full(2, 1e-3))
    for estimate in (Copula(), Mixture(), KNN(), EVERY["scored"]):
        estimate.warn_if_unresolved(Grid(2).resolve(2), np.full(2, 1e-3))


def test_bins_that_do_not_fit_the_nodes_warn():
    with pytest.warns(UserWarning, match=r"\(64,\) nodes is no multiple of \(10,\) bins, .*choose nodes=Grid\(70\)"):
        Histogram(10).warn_if_unresolved(Grid(64).resolve(1), None)
    with pytest.warns(UserWarning, match=r"choose nodes=Grid\(\(18, 21\)\)"):
        Histogram((3, 7)).warn_if_unresolved(Grid(16).resolve(2), None)
    Histogram().warn_if_unresolved(Grid(64).resolve(1), np.array([1 / np.sqrt(12) / 10]))
    disjoint = as_bags([np.full((5, 1), 0.15), np.full((5, 1), 0.25)])
    for size, want in [(70, 0.0), (64, np.sqrt(8 * 2) / 64)]:  # a cell has a share of .8 of one bin and .2 of the other
        p, q = values(Histogram(10), Grid(size).resolve(1), disjoint, None)
        assert np.mean(np.sqrt(p * q)) == pytest.approx(want, abs=1e-9)
    assert Histogram(10).multiples(2) == (10, 10)
    assert Histogram((3, 7)).multiples(2) == (3, 7)
    assert Histogram().multiples(2) is None
    assert KDE().multiples(2) is None


def test_a_single_box_warns():
    for nodes in (Grid(8).resolve(2), scattered(2)):
        with pytest.warns(UserWarning, match=r"one box: every bag is uniform.*use a smaller bandwidth or bins=\.\.\."):
            Histogram().warn_if_unresolved(nodes, np.full(2, 1.0))
        with pytest.warns(UserWarning, match="one box: every bag is uniform.*use more bins"):
            Histogram(1).warn_if_unresolved(nodes, None)
        Histogram().warn_if_unresolved(nodes, np.array([1.0, 0.1]))


def test_the_finest_width():
    assert [Mixture(least_deviation=0.03).finest(), KNN(least_radius=0.02).finest()] == [0.03, 0.02]
    assert [KDE().finest(), Histogram(4).finest()] == [None, None]


def test_an_array_without_dimensions_is_no_list():
    with pytest.raises(TypeError, match=r"Histogram\(bins=...\): must be an integer"):
        Histogram(np.array(3)).bins_for(None, 2)
    table = {"bag": [0, 0], "x": ["a", "b"]}
    with pytest.raises(TypeError, match=r"categorical must be a sequence of names of columns, .*got array\('x'"):
        Bags.from_frame(table, bag="bag", categorical=np.array("x"))
    with pytest.raises(TypeError, match=r"categorical\['x'\] must be a sequence of labels, got array\('a'"):
        Bags.from_frame(table, bag="bag", categorical={"x": np.array("a")})


def test_fit_warns_of_fine_bins_once_and_points_to_its_caller():
    bags = make(1, sizes=(40, 30))
    model = HDDEmbedding("hellinger", n_basis=4, density=Histogram(20), nodes=Grid(10))
    with pytest.warns(UserWarning, match="finer than") as seen:
        model.fit(bags)
    fine = [warning for warning in seen if "finer than" in str(warning.message)]
    assert [warning.filename for warning in fine] == [__file__]
    model.transform(bags)  # where a warning would be an error


# --------------------------------------------------------------------------------------------------------------
# Copula
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.02, 0.1, 0.5, 4.0])
def test_a_copula_of_one_dimension_is_the_kernel_estimate(h):
    bags, nodes = make(1, weighted=True), scattered(1)
    want = values(KDE(), nodes, bags, h)
    np.testing.assert_allclose(values(Copula(), nodes, bags, h), want, atol=2e-3 * want.max())


def correlated(n, r, seed=0):
    """Points, and their density, of a Gaussian copula with beta margins."""
    cov, margin = [[1, r], [r, 1]], stats.beta(2, 4)
    z = np.random.default_rng(seed).multivariate_normal([0, 0], cov, size=n)

    def pdf(u):
        z = ndtri(margin.cdf(u))
        log_copula = stats.multivariate_normal([0, 0], cov).logpdf(z) - stats.norm.logpdf(z).sum(axis=1)
        return np.exp(log_copula) * margin.pdf(u).prod(axis=1)

    return margin.ppf(ndtr(z)), pdf


@pytest.mark.parametrize("r", [-0.8, 0.5, 0.9])
def test_a_copula_finds_correlated_margins(r):
    points, truth = correlated(1000, r)
    one, nodes = Copula().of(points, None, np.full(2, 0.03)), Grid(64).resolve(2)
    assert one.correlation[0, 1] == pytest.approx(r, abs=0.03)
    found = one.pdf(nodes.points)
    assert found.mean() == pytest.approx(1.0, abs=2e-3)
    kernel = KDE().of(points, None, np.full(2, 0.03)).pdf(nodes.points)
    errors = [1 - np.mean(np.sqrt(p * truth(nodes.points))) for p in (found, kernel)]
    assert errors[0] < 0.015
    assert errors[0] < 0.8 * errors[1]


def hellinger_to_truth(estimate, points, truth, draws, h):
    """Squared Hellinger distance to the truth, by its own draws: 1 - E √(p̂ / p)."""
    return 1 - np.mean(np.sqrt(estimate.of(points, None, h).pdf(draws) / truth(draws)))


@pytest.mark.parametrize("n_dims", [5, 10])
@pytest.mark.parametrize("margin", [stats.beta(2, 3), stats.truncnorm(-2, 2, 0.5, 0.25)], ids=["beta", "normal"])
def test_products_of_margins_in_many_dimensions(n_dims, margin):
    rng = np.random.default_rng(0)
    points, draws = margin.rvs((400, n_dims), random_state=rng), margin.rvs((500, n_dims), random_state=rng)

    def truth(u):
        return margin.pdf(u).prod(axis=1)

    scott = points.std() * 400 ** (-1 / (n_dims + 4))
    copula = hellinger_to_truth(Copula(), points, truth, draws, np.full(n_dims, points.std() * 400**-0.2))
    best_kernel = min(
        hellinger_to_truth(KDE(), points, truth, draws, np.full(n_dims, c * scott)) for c in (0.7, 1.0, 1.4)
    )
    assert copula < 0.012 * n_dims
    assert copula < 0.5 * best_kernel


def test_margins_are_made_once_for_all_bags():
    bags, h = make(3), np.array([0.11, 0.12, 0.13])
    before = margins_for.cache_info().misses
    for points in bags:
        Copula().of(points, None, h)
    values(Copula(), scattered(3), bags, 0.11)
    assert margins_for.cache_info().misses == before + 2


def test_noise_is_not_taken_for_dependence():
    points = np.random.default_rng(0).uniform(size=(60, 8))
    h = np.full(8, 0.1)
    off = ~np.eye(8, dtype=bool)
    plain, shrunk, product = (Copula(s).of(points, None, h).correlation[off] for s in (0.0, "auto", 1.0))
    assert np.sum(shrunk**2) < 0.1 * np.sum(plain**2)
    assert not product.any()


@pytest.mark.parametrize("n_dims", [2, 6])
def test_dependent_coordinates_stay_positive_definite(n_dims):
    x = np.random.default_rng(0).uniform(size=(300, 1))
    one = Copula().of(np.repeat(x, n_dims, axis=1), None, np.full(n_dims, 0.03))
    assert np.linalg.eigvalsh(one.correlation)[0] > 1e-3
    assert 0.9 < one.correlation[0, 1] < 1


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


# --------------------------------------------------------------------------------------------------------------
# Mixture
# --------------------------------------------------------------------------------------------------------------


def blobs(n=150, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.3, 0.3], [0.7, 0.4], [0.5, 0.75]])
    return np.concatenate([rng.normal(c, 0.06, size=(n // 3, 2)) for c in centres])


def test_expectation_maximisation_is_scikit_learns():
    points, mass = distinct(blobs(), None)
    start, _ = fit_mixture(points, mass, 3, floor=1e-9, max_iter=1)
    found, log_likelihood = fit_mixture(points, mass, 3, floor=1e-9, tol=1e-12, max_iter=2000)
    covariances = [a @ np.diag(v) @ a.T for v, a in zip(start.variances, start.axes, strict=True)]
    judge = GaussianMixture(
        3,
        tol=1e-12,
        max_iter=2000,
        reg_covar=0,
        weights_init=start.shares,
        means_init=start.means,
        precisions_init=np.linalg.inv(covariances),
    ).fit(points)
    np.testing.assert_allclose(found.means, judge.means_, atol=1e-5)
    np.testing.assert_allclose(found.shares, judge.weights_, atol=1e-5)
    assert log_likelihood == pytest.approx(judge.score(points), abs=1e-8)


def test_the_criterion_finds_the_number_of_components():
    assert len(Mixture().of(blobs(), None, None).components.shares) == 3
    wide = np.clip(np.random.default_rng(0).normal(0.5, 0.15, size=(200, 2)), 0, 1)
    assert len(Mixture().of(wide, None, None).components.shares) == 1


def test_few_points_have_few_components_and_none_is_too_narrow():
    found = Mixture(5).of(np.array([[0.2, 0.2], [0.9, 0.9], [0.9, 0.9]]), None, None).components
    assert len(found.shares) == 2
    np.testing.assert_allclose(np.sort(found.shares), [1 / 3, 2 / 3])
    np.testing.assert_allclose(found.variances, 0.02**2)


def test_mass_outside_the_cube_is_left_out():
    one = Mixture(1, least_deviation=0.1).of(np.array([[0.0, 0.5]]), None, None)
    assert one.mass == pytest.approx(0.5, abs=0.01)


# --------------------------------------------------------------------------------------------------------------
# Neighbours
# --------------------------------------------------------------------------------------------------------------


def brute_neighbours(points, weights, k, nodes, least):
    mass = weights / weights.sum()
    target = min(k * np.sum(mass**2), 1)
    out = []
    for u in nodes:
        distance = np.abs(points - u).max(axis=1)
        r = next(r for r in np.sort(distance) if mass[distance <= r].sum() >= target - 1e-9)
        r = max(r, least)
        sides = [min(x + r, 1) - max(x - r, 0) for x in u]
        out.append(mass[distance <= r].sum() / np.prod(sides))
    return np.array(out)


@pytest.mark.parametrize(
    ("n_dims", "n", "k", "least"),
    [(n_dims, 40, k, 0.01) for n_dims in (1, 2, 4) for k in (1, 3, 8, 50)]
    # Balls larger and smaller than the least, and all smaller.
    + [(1, 2500, 50, 0.01), (1, 2500, 5, 0.01), (2, 400, 4, 0.05), (4, 400, 3, 0.2)],
)
def test_neighbours_are_brute_force(n_dims, n, k, least, monkeypatch):
    rng = np.random.default_rng(0)
    points, nodes = rng.uniform(size=(n, n_dims)), rng.uniform(size=(30, n_dims))
    for weights in (np.ones(n), rng.uniform(0.1, 3, n)):
        one = KNN(k, least).of(points, weights / weights.sum(), None)
        want = brute_neighbours(points, weights, k, nodes, least)
        np.testing.assert_allclose(one.pdf(nodes), want, rtol=1e-10)
        with monkeypatch.context() as context:
            context.setattr(neighbours, "_BLOCK_PAIRS", 7)
            np.testing.assert_allclose(one.pdf(nodes), want, rtol=1e-10)


def test_the_least_ball_holds_what_is_in_it():
    points = np.array([[0.2], [0.205], [0.21], [0.5]])
    one = KNN(1).of(points, None, None)
    at = np.array([[0.2], [0.5], [0.35]])
    np.testing.assert_allclose(one.balls(at), [[0.01, 0.01, 0.14], [0.75, 0.25, 0.25]])  # 0.21 is on the ball's face
    heavy = KNN(1).of(points, np.array([0.1, 0.2, 0.3, 0.4]), None)
    np.testing.assert_allclose(heavy.balls(at[:2]), [[0.01, 0.01], [0.6, 0.4]])


def test_neighbours_on_a_lattice_include_all_at_equal_distance():
    lattice = np.stack(np.meshgrid(*[np.arange(5) / 4] * 2), axis=-1).reshape(-1, 2)
    found = KNN(2).of(lattice, None, None).pdf(np.array([[0.5, 0.5], [0.0, 0.0]]))
    np.testing.assert_allclose(found, [9 / 25 / 0.25, 4 / 25 / 0.0625])


def test_neighbours_of_weighted_points_take_bounded_memory():
    rng = np.random.default_rng(0)
    points, weights = rng.uniform(size=(3000, 1)), rng.pareto(0.7, 3000) + 0.1
    one = BagNeighbours(points, weights / weights.sum(), 0.3, 0.001)
    seen, query = [], one._tree.query

    class Tree:
        query_ball_point, sparse_distance_matrix = one._tree.query_ball_point, one._tree.sparse_distance_matrix

        def query(self, u, k, p):
            seen.append((len(u), len(k)))
            return query(u, k=k, p=p)

    nodes, small = rng.uniform(size=(4000, 1)), BagNeighbours(points, weights / weights.sum(), 0.3, 0.001)
    small._smallest = one._smallest = lambda u: np.zeros(len(u))
    one._tree = Tree()
    found = one.balls(nodes)
    assert max(n * k for n, k in seen) <= 2**20
    assert min(k for _, k in seen) == 32
    np.testing.assert_allclose(small.balls(nodes[:5]), np.array(found)[:, :5])


def test_atoms_count_as_one_point():
    rng = np.random.default_rng(0)
    others = rng.uniform(size=(100, 1))
    inflated = np.concatenate([np.zeros((900, 1)), others])
    one, plain = KNN().of(inflated, None, None), KNN().of(np.concatenate([np.zeros((1, 1)), others]), None, None)
    at = np.array([[0.5], [0.8]])
    np.testing.assert_allclose(one.balls(at)[0], plain.balls(at)[0])
    np.testing.assert_allclose(one.balls(at)[1], plain.balls(at)[1] * 0.101)
    weighted = KNN().of(np.concatenate([np.zeros((1, 1)), others]), np.append(0.9, np.full(100, 0.001)), None)
    np.testing.assert_allclose(weighted.pdf(at), one.pdf(at))
    weights = np.append(rng.uniform(0.5, 1.5, 50), np.full(60, 1e-18))  # many, and of no mass: Kish's number
    np.testing.assert_allclose(neighbours.typical(weights / weights.sum())[0], weights.sum() ** 2 / np.sum(weights**2))


def test_neighbours_approach_the_density():
    rng = np.random.default_rng(0)
    at = np.array([[0.3, 0.3], [0.6, 0.2], [0.05, 0.5]])
    truth = stats.beta(2, 3).pdf(at).prod(axis=1)
    errors = []
    for n in (200, 20000):
        found = [KNN().of(rng.beta(2, 3, size=(n, 2)), None, None).pdf(at) for _ in range(8)]
        errors.append(np.sqrt(np.mean((found / truth - 1) ** 2)))
    assert errors[1] < 0.12
    assert errors[1] < 0.5 * errors[0]


def test_neighbours_get_better_with_more_points():
    rng, u = np.random.default_rng(0), Grid(256).resolve(1)
    truth, errors = 2 * u.points[:, 0], []
    for n in (1000, 10_000, 100_000):
        bags = as_bags([np.sqrt(rng.uniform(size=n)), rng.uniform(size=n)])
        p, q = values(KNN(), u, bags, None)
        errors.append(1 - np.mean(np.sqrt(p * truth)))
    assert errors[2] < 0.5 * errors[1] < 0.25 * errors[0]
    assert 1 - np.mean(np.sqrt(p * q)) == pytest.approx(1 - np.sqrt(8) / 3, rel=0.1)


# --------------------------------------------------------------------------------------------------------------
# Estimators that score
# --------------------------------------------------------------------------------------------------------------


class OnlyScores(KernelDensity):
    """Without draws."""

    @property
    def sample(self):
        raise AttributeError("no draws")


class Broken(KernelDensity):
    def score_samples(self, X):
        return np.full(len(X), np.nan)


def test_scored_kernels_are_open_kernels():
    bags, nodes = make(2, sizes=(40, 30)), scattered(2)
    found = values(Scored(KernelDensity(bandwidth=0.1)), nodes, bags)
    want = values(KDE("none"), nodes, bags)
    np.testing.assert_allclose(found, want / (want @ nodes.weights)[:, None], rtol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        KernelDensity(bandwidth=0.1),
        Scored(KernelDensity(bandwidth=0.1)),
        GaussianMixture(2),
        make_pipeline(StandardScaler(), KernelDensity()),
    ],
    ids=["bare", "wrapped", "mixture", "pipeline"],
)
def test_scored_estimators_are_cloned_and_left_alone(estimator):
    bags = make(1, sizes=(20, 30, 25))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model = clone(HDDEmbedding("hellinger", n_basis=4, density=estimator))
    first, second = model.fit_transform(bags), clone(model).fit(bags).transform(bags)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert np.isfinite(first).all()
    inner = model.density.estimator if isinstance(model.density, Scored) else model.density
    assert not hasattr(inner, "n_features_in_")


def test_a_search_over_densities():
    bags, y = make(1, sizes=(12,) * 8), np.arange(8.0)
    model = make_pipeline(HDDEmbedding("hellinger", n_basis=3, bandwidth=0.1), Ridge())
    choices = ["kde", "histogram", Copula(), KNN(3), KernelDensity(bandwidth=0.2)]
    search = GridSearchCV(model, {"hddembedding__density": choices}, cv=2, error_score="raise").fit(bags, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    model.set_params(hddembedding__density=KernelDensity())
    search = GridSearchCV(model, {"hddembedding__density__bandwidth": [0.1, 0.3]}, cv=2, error_score="raise")
    assert np.isfinite(search.fit(bags, y).cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("wrong", [KernelDensity, Ridge(), StandardScaler(), OnlyScores])
def test_what_can_not_score_is_no_density(wrong):
    for call in (lambda: density.get(wrong), lambda: Scored(wrong).of(np.zeros((2, 1)), None, None)):
        with pytest.raises(TypeError, match=r"must be an estimator with fit and score_samples, .* pass an unfitted"):
            call()


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


def test_estimators_that_do_not_weigh_points_refuse_weights():
    with pytest.raises(ValueError, match=r"have point weights, which fit of GaussianMixture\(\) does not take; drop"):
        HDDEmbedding(density=GaussianMixture()).fit(make(1, weighted=True))


def test_estimators_say_which_bag_they_refuse():
    with pytest.raises(
        ValueError, match=r"to a bag, or a cell of a bag .*, of 1 point in 1 dimension: .*or larger bags"
    ):
        HDDEmbedding(density=GaussianMixture(3)).fit(make(1))


def test_points_whose_share_underflowed_are_not_fitted():
    points = np.array([[0.2], [0.9], [0.4]])
    found = Scored(KernelDensity(bandwidth=0.1)).of(points, np.array([0.5, 0.0, 0.5]), None)
    assert len(found.estimator.tree_.data) == 2
    np.testing.assert_allclose(
        found.pdf(points), Scored(KernelDensity(bandwidth=0.1)).of(points[::2], None, None).pdf(points), rtol=1e-6
    )


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match=r"score_samples must give one log density per point, got shape .* NaN from"):
        HDDEmbedding(density=Broken()).fit(make(1))


# --------------------------------------------------------------------------------------------------------------
# Embeddings
# --------------------------------------------------------------------------------------------------------------


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
