"""HDDEmbedding against ground truth, against its slow twin, and against the paper's literal recipe."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

import distembed as de
import exact

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast

TRUTH = {  # d^2 for p = 2x against the uniform density, and against 2(1 - x)
    "js": (0.053781946, np.log(2) - 0.5),
    "hellinger": (1 - 2 * np.sqrt(2) / 3, 1 - np.pi / 4),
    "tv": (0.25, 0.5),
    "chi2": (None, None),
}


def ramps(n, seed=0):
    """A bag each of p = 2x, of the uniform density, and of 2(1 - x)."""
    u = np.random.default_rng(seed).uniform(size=(3, n))
    return de.Bags.from_arrays([np.sqrt(u[0]), u[1], 1 - np.sqrt(u[2])])


def clouds(n_bags=4, n_points=80, n_dims=2, seed=0, dtype=float, weighted=False):
    rng = np.random.default_rng(seed)
    arrays = [
        np.clip(rng.normal(rng.uniform(0.3, 0.7, n_dims), 0.15, (n_points + i, n_dims)), 0, 1).astype(dtype)
        for i in range(n_bags)
    ]
    weights = [rng.uniform(0.1, 1, len(a)) for a in arrays] if weighted else None
    return de.Bags.from_arrays(arrays, weights=weights)


def twin(bags, embedding):
    """The same features by the judge: KDE, lambda functions and projection on the embedding's own nodes."""
    nodes = embedding.nodes_
    density = de.density.get(embedding.density)
    kind = "cosine" if isinstance(de.basis.get(embedding.basis), de.Cosine) else "fourier"
    table = exact.tensor_basis(nodes.points, embedding.n_basis, kind)
    keep = np.append(np.ones(len(embedding.lambdas_), bool), embedding.lambdas_ != 0)
    rows = []
    for i, points in enumerate(bags):
        p = exact.kde(points, nodes.points, embedding.bandwidth_, density.boundary, bags.weights_of(i))
        functions = exact.lambda_functions(p, embedding.lambdas_, embedding.lambda_weights_)[keep]
        rows.append(exact.project(functions, table, nodes.weights).ravel())
    return np.array(rows)


@pytest.mark.parametrize("distance", ["js", "hellinger", "tv"])
def test_squared_distances_approach_the_truth(distance):
    errors = []
    for n in (300, 30_000):
        embedding = de.HDDEmbedding(distance, n_lambdas=16, n_basis=20)
        found = euclidean_distances(embedding.fit_transform(ramps(n)), squared=True)
        errors.append(max(abs(found[0, 1] - TRUTH[distance][0]), abs(found[0, 2] - TRUTH[distance][1])))
    # Noise never cancels in |p - q|, and tv's lambdas converge slowly: it is the hardest of the family.
    assert errors[1] < (0.03 if distance == "tv" else 0.012)
    assert errors[1] < errors[0]


@pytest.mark.parametrize("distance", de.distances.available())
@pytest.mark.parametrize("basis", ["cosine", "fourier"])
@pytest.mark.parametrize("n_dims", [1, 2, 3, 4])
def test_scattered_nodes_give_the_twins_features(distance, basis, n_dims):
    bags = clouds(n_dims=n_dims, weighted=True)
    kind = {"cosine": de.Cosine, "fourier": de.Fourier}[basis](index_set="tensor")
    embedding = de.HDDEmbedding(
        distance, n_basis=3, n_lambdas=2, bandwidth=0.1, basis=kind, nodes=de.MonteCarlo(128), random_state=0
    )
    found = embedding.fit_transform(bags)
    np.testing.assert_allclose(found, twin(bags, embedding), atol=1e-10)


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_fine_grid_gives_the_twins_features(boundary, n_dims):
    bags = clouds(2, 30, n_dims=n_dims, weighted=True)
    size = {1: 400, 2: 120, 3: 32}[n_dims]
    embedding = de.HDDEmbedding(
        "js", n_basis=4, bandwidth=0.12, density=de.KDE(boundary), nodes=de.Grid(size), n_lambdas=3
    )
    np.testing.assert_allclose(
        embedding.fit_transform(bags), twin(bags, embedding), atol={1: 1e-4, 2: 1e-3, 3: 6e-3}[n_dims]
    )


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_the_automatic_grid_is_fine_enough(n_dims):
    bags = clouds(6, 100, n_dims)
    coarse = de.HDDEmbedding("js", n_basis=6).fit(bags)
    fine = de.HDDEmbedding(
        "js", n_basis=6, bandwidth=coarse.bandwidth_, nodes=de.Grid({1: 600, 2: 200, 3: 64}[n_dims])
    ).fit(bags)
    d_coarse, d_fine = (euclidean_distances(e.transform(bags), squared=True) for e in (coarse, fine))
    np.testing.assert_allclose(d_coarse, d_fine, atol=0.02 * d_fine.max())


def test_the_papers_literal_recipe_is_reachable():
    bags = clouds()
    embedding = de.HDDEmbedding(
        "js",
        lambda_rule="random",
        n_lambdas=5,
        nodes=de.MonteCarlo(300),
        basis="fourier",
        density=de.KDE("none"),
        bandwidth=0.08,
        n_basis=4,
        random_state=0,
    ).fit(bags)
    literal = exact.literal_recipe(
        list(bags), embedding.lambdas_, embedding.nodes_.points, 0.08, 4, np.log(2) / 2, basis="fourier"
    )
    np.testing.assert_allclose(embedding.transform(bags), literal, atol=1e-10)


def test_a_grid_of_cosines_never_overstates_the_distance_on_its_nodes():
    bags = clouds(5, 50)
    embedding = de.HDDEmbedding("tv", n_basis=8, n_lambdas=9).fit(bags)
    p = de.KDE().prepare(embedding.nodes_, embedding.bandwidth_, np.dtype(float))(bags)
    p = np.moveaxis(p, -2, 0).reshape(5, -1)
    rule = embedding.lambdas_, embedding.lambda_weights_
    on_nodes = [[de.distances.get("tv").approximate(a, b, *rule).mean() for a in p] for b in p]
    found = euclidean_distances(embedding.transform(bags), squared=True)
    assert np.all(found <= np.array(on_nodes) + 1e-12)
    complete = de.HDDEmbedding("tv", n_basis=24, n_lambdas=9, bandwidth=embedding.bandwidth_, nodes=de.Grid(24)).fit(
        bags
    )
    p = np.moveaxis(de.KDE().prepare(complete.nodes_, complete.bandwidth_, np.dtype(float))(bags), -2, 0).reshape(5, -1)
    on_nodes = [[de.distances.get("tv").approximate(a, b, *rule).mean() for a in p] for b in p]
    np.testing.assert_allclose(euclidean_distances(complete.transform(bags), squared=True), on_nodes, atol=1e-10)


def test_layout_names_and_sizes():
    bags = clouds()
    embedding = de.HDDEmbedding("js", n_basis=(3, 2), n_lambdas=2).fit(bags)
    assert embedding.n_basis_functions_ == 6
    assert embedding.transform(bags).shape == (4, 24)
    names = embedding.get_feature_names_out()
    assert names[0] == "js_re0_0_0"
    assert names[7] == "js_re1_0_1"
    assert names[-1] == "js_im1_2_1"
    assert len(set(names)) == 24
    np.testing.assert_array_equal(embedding.indices_, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    assert de.HDDEmbedding("hellinger", n_basis=3).fit_transform(bags).shape == (4, 9)


def test_hellinger_features_are_coefficients_of_the_square_root():
    # <A(p), A(p)> = 1/2 integral p = 1/2 when the basis is complete on the grid.
    found = de.HDDEmbedding("hellinger", n_basis=32, nodes=de.Grid(32)).fit_transform(clouds())
    np.testing.assert_allclose(np.sum(found**2, axis=1), 0.5, rtol=1e-10)


def test_a_custom_distance():
    mine = de.HomogeneousDistance("mine", kappa=lambda x, y: exact.kappa(x, y, "chi2"))
    bags = clouds()
    found = euclidean_distances(de.HDDEmbedding(mine, n_lambdas=8).fit_transform(bags))
    known = euclidean_distances(de.HDDEmbedding("chi2", n_lambdas=8).fit_transform(bags))
    np.testing.assert_allclose(found, known, atol=2e-3)


@pytest.mark.parametrize("distance", de.distances.available())
def test_float32_agrees_with_float64(distance):
    single = clouds(dtype=np.float32)
    embedding = de.HDDEmbedding(distance, bandwidth=0.05)
    a, b = embedding.fit_transform(single), embedding.fit_transform(single.astype(float))
    assert a.dtype == np.float32
    assert b.dtype == np.float64
    np.testing.assert_allclose(a, b, atol=5e-4)
    np.testing.assert_allclose(euclidean_distances(a, squared=True), euclidean_distances(b, squared=True), atol=2e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")  # nodes see little of such densities
def test_densities_beyond_float32_leave_float32_features_finite():
    rng = np.random.default_rng(0)
    points = np.clip(0.5 + 0.02 * rng.normal(size=(8, 20, 40)) + 0.05 * rng.normal(size=(8, 1, 40)), 0, 1)
    embedding = de.HDDEmbedding("js", bandwidth=0.01, n_basis=3, random_state=0).fit(points)
    single = embedding.transform(points.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, embedding.transform(points), atol=1e-5)


def test_densities_beyond_all_numbers_are_refused():
    points = np.random.default_rng(0).uniform(size=(3, 5, 120))
    with pytest.raises(ValueError, match=r"120 dimensions.* reach 1e360.*with Marginals, or raise bandwidth_scale"):
        de.HDDEmbedding("js", bandwidth=1e-3, n_basis=2).fit(points)


def test_bandwidth_is_resolved_once_or_per_bag():
    narrow, wide = (np.clip(np.random.default_rng(0).normal(0.5, s, (200, 1)), 0, 1) for s in (0.02, 0.2))
    bags = de.Bags.from_arrays([narrow, wide])
    once = de.HDDEmbedding("js", bandwidth="scott", n_basis=30).fit(bags)
    own = de.HDDEmbedding("js", bandwidth="scott", n_basis=30, density=de.KDE(per_bag=True), nodes=de.Grid(200)).fit(
        bags
    )
    for i in range(2):
        h = narrow.std() * 200**-0.2 if i == 0 else wide.std() * 200**-0.2
        alone = de.HDDEmbedding("js", bandwidth=h, n_basis=30, nodes=de.Grid(200)).fit(bags)
        np.testing.assert_allclose(own.transform(bags)[i], alone.transform(bags)[i], atol=2e-3)
    assert np.max(np.abs(own.transform(bags) - once.transform(bags))) > 0.01
    np.testing.assert_allclose(
        de.HDDEmbedding("js", bandwidth="scott", bandwidth_scale=0.5).fit(bags).bandwidth_, once.bandwidth_ / 2
    )


def test_random_state_governs_lambdas_and_nodes():
    bags = clouds(n_dims=4)

    def features(seed):
        return de.HDDEmbedding(
            "tv", n_basis=2, lambda_rule="random", nodes=de.Sobol(64), random_state=seed
        ).fit_transform(bags)

    np.testing.assert_array_equal(features(0), features(0))
    assert not np.allclose(features(0), features(1))


def test_threads_change_nothing():
    bags = clouds(300, 30)
    one, two = (de.HDDEmbedding(bandwidth=0.1, n_jobs=n).fit(bags).transform(bags) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_distances_do_not_depend_on_the_map_of_the_space():
    # A smooth map of the space changes no HDD: linear and rank scaling see the same distances, up to estimation error.
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays([rng.gamma(shape, size=(4000, 1)) for shape in (1.5, 2.0, 3.0, 5.0)])
    found = [
        euclidean_distances(
            de.HDDEmbedding("js", n_basis=40).fit_transform(de.UnitCube(map=kind).fit_transform(bags)), squared=True
        )
        for kind in ("linear", "rank")
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.02)
    assert found[0].max() > 0.2


def test_a_bag_is_not_lost_in_a_crowd():
    # One huge bag among small ones: chunks of bags and blocks of points must not mix them up.
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(size=(n, 2)) for n in (3, 200_000, 1, 50)]
    embedding = de.HDDEmbedding("js", bandwidth=0.1).fit(arrays)
    together = embedding.transform(arrays)
    for i, points in enumerate(arrays):
        np.testing.assert_allclose(embedding.transform([points])[0], together[i], atol=1e-12)


def test_random_lambdas_of_hellinger_are_one():
    random, gauss = (de.HDDEmbedding("hellinger", lambda_rule=rule, n_basis=3) for rule in ("random", "gauss"))
    np.testing.assert_allclose(random.fit_transform(clouds()), gauss.fit_transform(clouds()))


def test_points_without_weight_are_absent():
    bags = clouds(weighted=True)
    weights = np.where(np.arange(bags.n_points) % 3 == 0, 0.0, bags.weights)
    points = np.where(weights[:, None] == 0, 7.0, bags.points)  # outside the cube: nobody looks
    with_absent = de.Bags(points, bags.offsets, weights=weights)
    without = with_absent.drop_weightless()
    for rule in ("distance", "isj"):
        a, b = (de.HDDEmbedding("js", bandwidth=rule).fit_transform(bags) for bags in (with_absent, without))
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_parameters_count_in_fit_only():
    bags = clouds()
    embedding = de.HDDEmbedding("js", bandwidth=0.1).fit(bags)
    want, names = embedding.transform(bags), embedding.get_feature_names_out()
    embedding.set_params(distance="tv", density=de.KDE("periodic", per_bag=True), bandwidth="scott", n_basis=3)
    np.testing.assert_array_equal(embedding.transform(bags), want)
    np.testing.assert_array_equal(embedding.get_feature_names_out(), names)


def test_fourier_functions_need_a_larger_grid():
    with pytest.raises(ValueError, match="more nodes than Fourier functions"):
        de.HDDEmbedding(basis="fourier", n_basis=10, nodes=de.Grid(10)).fit(clouds())
