"""Bases, separable products and integration nodes."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import distembed as de
import exact
from distembed import Cosine, Fourier, Grid, Importance, MonteCarlo, Sobol, basis
from distembed.basis import (
    HyperbolicCross,
    Legendre,
    LowEnergyWarning,
    Projection,
    SobolevEllipsoid,
    Tensor,
    TotalDegree,
)
from distembed.compute.arrays import bags_first, contract
from distembed.density import Density, nodes

KINDS = {"cosine": Cosine(), "fourier": Fourier(), "legendre": Legendre()}
SETS = [Tensor(), TotalDegree(), HyperbolicCross(), SobolevEllipsoid(s=0.4), SobolevEllipsoid(t=5)]
every_kind = pytest.mark.parametrize("kind", list(KINDS))
every_width = pytest.mark.parametrize("n_dims", [1, 2, 3])


@every_kind
def test_functions_are_the_judges_and_orthonormal(kind):
    x, weights = np.polynomial.legendre.leggauss(400)  # exact for polynomials, and for these waves to rounding
    x, weights = (x + 1) / 2, weights / 2
    values = KINDS[kind].values(x, 12)
    np.testing.assert_allclose(values, exact.basis_functions(x, 12, kind), atol=1e-12)
    np.testing.assert_allclose((values * weights[:, None]).T @ values, np.eye(12), atol=1e-12)


def test_high_degrees_are_stable():
    x = np.linspace(0, 1, 101)
    np.testing.assert_allclose(Legendre().values(x, 300), exact.basis_functions(x, 300, "legendre"), atol=1e-9)
    assert Legendre().values(x, 1).tolist() == np.ones((101, 1)).tolist()


def by_cholesky(table, weights):
    """Functions orthonormal under the weighted sum, from their Gram matrix: the slow twin of the QR decomposition."""
    factor = np.linalg.cholesky((table * weights[:, None]).T @ table)
    return np.linalg.solve(factor, table.T).T


def judges_table(at, indices, kind):
    """Values of the functions at all nodes: (n_nodes, n_basis_functions)."""
    columns = []
    for j, n in enumerate(indices.max(axis=0) + 1):
        if isinstance(at, nodes.GridNodes) and kind == "legendre":
            axis = exact.basis_functions(at.axes[j], n, kind)
            axis = by_cholesky(axis, np.full(len(axis), 1 / len(axis)))
            columns.append(axis[np.unravel_index(np.arange(at.n_nodes), at.shape)[j]])
        else:
            columns.append(exact.basis_functions(at.points[:, j], n, kind))
    return np.prod([column[:, k] for column, k in zip(columns, indices.T, strict=True)], axis=0)


@every_kind
@every_width
@pytest.mark.parametrize("index_set", SETS, ids=repr)
def test_projection_is_the_judges_on_every_kind_of_nodes(kind, n_dims, index_set):
    rng = np.random.default_rng(0)
    n_basis = (3, 4, 2)[:n_dims]
    family = type(KINDS[kind])(index_set=index_set)
    for where in (Grid((6, 5, 7)[:n_dims]), Sobol(64), MonteCarlo(50)):
        at = where.resolve(n_dims, random_state=np.random.RandomState(0))
        functions = rng.normal(size=(2, 3, at.n_nodes))  # two functions of three bags
        project = Projection(family, n_basis, at)
        table = judges_table(at, project.indices, kind)
        want = np.einsum("fbi,ia,i->bfa", functions, table, at.weights).reshape(3, -1)
        stored = np.ascontiguousarray(np.moveaxis(functions.reshape(2, 3, *at.shape), 1, -2))
        np.testing.assert_allclose(project(stored), want, atol=1e-12)
        out = np.full_like(want, np.nan)
        assert project(stored, out) is out
        np.testing.assert_allclose(out, want, atol=1e-12)
        single = project.astype(np.dtype(np.float32))(stored.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, want, atol=1e-5)
        assert project.indices.tolist() == family.indices(n_basis).tolist()


def scattered(kind, n, n_dims, seed=0):
    """Sobol nodes, or nodes that crowd towards zero with the volumes that make up for it."""
    at = Sobol(n).resolve(n_dims, random_state=np.random.RandomState(seed))
    if kind == "even":
        return at
    points = at.points**1.5  # of density Π (2/3) x^(-1/3)
    return nodes.PointNodes(points, np.prod(1.5 * np.cbrt(points), axis=1) / len(points))


@every_kind
@pytest.mark.parametrize("spread", ["even", "crowded"])
def test_orthonormal_functions_are_those_of_the_gram_matrix(kind, spread):
    at = scattered(spread, 128, 2)
    family = type(KINDS[kind])("total_degree")
    project = Projection(family, (5, 4), at, orthonormalise=True)
    table = by_cholesky(judges_table(at, project.indices, kind), at.weights)
    functions = np.random.default_rng(0).normal(size=(2, 3, at.n_nodes))
    want = np.einsum("fbi,ia,i->bfa", functions, table, at.weights).reshape(3, -1)
    np.testing.assert_allclose(project(functions), want, atol=1e-10)


@every_kind
@pytest.mark.parametrize("spread", ["even", "crowded"])
def test_orthonormal_functions_keep_the_span_and_never_overstate(kind, spread):
    rng = np.random.default_rng(1)
    at = scattered(spread, 256, 3)
    project = Projection(type(KINDS[kind])("total_degree"), (4, 4, 4), at, orthonormalise=True)
    table = judges_table(at, project.indices, kind)
    inside = rng.normal(size=(1, 4, table.shape[1])) @ table.T
    np.testing.assert_allclose(np.sum(project(inside) ** 2, axis=1), (inside[0] ** 2) @ at.weights, rtol=1e-10)
    beyond = rng.normal(size=(1, 4, at.n_nodes))
    assert np.all(np.sum(project(beyond) ** 2, axis=1) <= (beyond[0] ** 2) @ at.weights)


def test_orthonormal_functions_are_better_at_scattered_nodes():
    """Squared norms of a smooth function: the plain sum adds about |V| / n of it, here a sixth; the other nothing."""
    errors = {True: [], False: []}
    for seed in range(10):
        at = MonteCarlo(1000).resolve(3, random_state=np.random.RandomState(seed))
        function = np.prod(np.sqrt(np.pi / 2 * np.sin(np.pi * at.points)), axis=1)[None, None]
        for orthonormalise in errors:
            project = Projection(Cosine("total_degree"), (9, 9, 9), at, orthonormalise=orthonormalise)
            errors[orthonormalise].append(np.sum(project(function) ** 2) - (function[0] ** 2) @ at.weights)
    assert np.mean(errors[False]) > 0.1
    assert np.max(np.abs(errors[True])) < 0.03


def test_a_node_of_double_volume_is_two_nodes():
    at = scattered("crowded", 64, 2)
    half = at.weights.copy()
    half[:5] /= 2
    twice = nodes.PointNodes(np.concatenate([at.points, at.points[:5]]), np.append(half, half[:5]))
    functions = np.random.default_rng(0).normal(size=(1, 3, 64))
    copies = np.concatenate([functions, functions[..., :5]], axis=-1)
    for orthonormalise in (False, True):
        one, two = (Projection(Legendre(), (3, 3), to, orthonormalise=orthonormalise) for to in (at, twice))
        np.testing.assert_allclose(one(functions), two(copies), atol=1e-12)


def test_more_functions_than_nodes_span_all_there_is():
    at = scattered("even", 16, 2)
    functions = np.random.default_rng(0).normal(size=(1, 3, 16))
    found = Projection(Cosine(), (5, 5), at, orthonormalise=True)(functions)
    assert found.shape == (3, 25)
    np.testing.assert_allclose(np.sum(found**2, axis=1), (functions[0] ** 2) @ at.weights)


def test_nodes_in_a_corner_stay_orthonormal():
    at = nodes.PointNodes(
        0.01 * Sobol(512).resolve(3, random_state=np.random.RandomState(0)).points, np.full(512, 1 / 512)
    )
    project = Projection(Cosine("total_degree"), (7, 7, 7), at, orthonormalise=True)
    matrix = project.matrices[0] * np.sqrt(512)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-10)


def test_a_table_that_does_not_fit_is_refused():
    at = nodes.PointNodes(np.zeros((2**20, 2)), np.full(2**20, 2.0**-20))
    with pytest.raises(ValueError, match=r"basis: 400 functions at 1,048,576 nodes .*more than 268,435,456 .*n_basis"):
        Projection(Cosine(), (20, 20), at)


@pytest.mark.parametrize("distance", ["js", "hellinger", "tv", "chi2"])
def test_densities_relative_to_the_nodes_have_the_same_distances(distance):
    at = scattered("crowded", 64, 2)
    even, factors = basis.evenly(at)
    p, q = np.random.default_rng(0).uniform(0.1, 2, size=(2, 64))
    want = at.weights @ exact.kappa(p, q, distance)
    assert even.weights @ exact.kappa(factors * p, factors * q, distance) == pytest.approx(want, rel=1e-12)
    for same in (scattered("even", 64, 2), Grid(8).resolve(2)):
        assert basis.evenly(same) == (same, None)


@pytest.mark.parametrize("n", [6, 10])
def test_polynomials_on_a_grid_are_orthonormal_and_better_for_it(n):
    at = Grid(16).resolve(1)
    x = at.points[:, 0]
    p, q = np.sqrt(2 * x), np.sqrt(1.5 - x)  # roots of densities
    truth = np.mean((np.sqrt(2 * x) - np.sqrt(1.5 - x)) ** 2)
    a, b = Projection(Legendre(), (n,), at)(np.array([[p, q]]))
    plain = np.sum((exact.basis_functions(x, n, "legendre").T @ (p - q) / 16) ** 2)
    assert abs(np.sum((a - b) ** 2) - truth) < abs(plain - truth)
    complete = Projection(Legendre(), (16,), at)(np.array([[p, q]]))
    assert np.sum((complete[0] - complete[1]) ** 2) == pytest.approx(truth, rel=1e-12)


def test_indices_name_the_columns():
    at = Grid(8).resolve(2)
    project = basis.Projection(Cosine(), (2, 3), at)
    for k, alpha in enumerate(project.indices):
        function = np.prod([Cosine().values(x, 3)[:, a] for x, a in zip(at.points.T, alpha, strict=True)], axis=0)
        coefficients = project(function.reshape(1, 8, 1, 8))
        np.testing.assert_allclose(coefficients[0], np.eye(6)[k], atol=1e-12)


def test_cosine_coefficients_of_a_ramp():
    at = Grid(4000).resolve(1)
    coefficients = basis.Projection(Cosine(), (200,), at)(2 * at.points.T[None])[0]
    assert coefficients[1] == pytest.approx(-4 * np.sqrt(2) / np.pi**2, abs=1e-6)
    assert coefficients[2] == pytest.approx(0, abs=1e-12)
    assert np.sum(coefficients**2) == pytest.approx(4 / 3, abs=1e-6)


@every_width
@pytest.mark.parametrize("own", [False, True])
def test_contract_is_an_einsum(n_dims, own):
    rng = np.random.default_rng(0)
    sizes, targets, n_bags = (4, 5, 6)[:n_dims], (2, 3, 7)[:n_dims], 3
    matrices = [rng.normal(size=(n_bags, m, g) if own else (m, g)) for m, g in zip(targets, sizes, strict=True)]
    array = rng.normal(size=(2, n_bags, *sizes))
    want = array
    for j, matrix in enumerate(matrices):
        stack = matrix if own else np.stack([matrix] * n_bags)
        moved = np.moveaxis(want, 2 + j, -1)
        want = np.moveaxis(np.einsum("fb...g,bmg->fb...m", moved, stack), -1, 2 + j)
    stored = np.ascontiguousarray(np.moveaxis(array, 1, -2))
    found = np.moveaxis(contract(stored, matrices), -2, 1)
    np.testing.assert_allclose(found, want, atol=1e-12)
    assert bags_first(stored).shape[0] == n_bags


@every_width
def test_midpoints_integrate_cosines_exactly(n_dims):
    at = Grid(9).resolve(n_dims)
    table = exact.tensor_basis(at.points, 9, "cosine")
    np.testing.assert_allclose(table.T @ (table * at.weights[:, None]), np.eye(9**n_dims), atol=1e-11)


def test_automatic_grids_follow_bandwidth_and_basis():
    def shape(h, n, n_dims=1):
        return Grid().resolve(n_dims, bandwidth=np.full(n_dims, h), n_basis=(n,) * n_dims).shape

    assert shape(0.01, 10) == (152,)
    assert shape(0.5, 10) == (64,)
    assert shape(0.5, 50) == (80,)
    assert shape(0.01, 10, 2) == (56, 56)
    assert shape(0.5, 10, 2) == (16, 16)
    assert shape(0.5, 30, 3) == (48, 48, 48)
    assert shape(1e-6, 10) == (4096,)
    assert shape(1e-6, 10, 2) == (256, 256)
    assert shape(1e-6, 10, 3) == (64, 64, 64)
    assert Grid().resolve(2, bandwidth=np.full(2, 0.01), n_basis=(10, 10), fineness=2.0).shape == (112, 112)
    assert Grid([8, 12]).resolve(2).shape == (8, 12)


def test_quasi_random_nodes_integrate_better():
    def error(kind, seed):
        at = kind.resolve(3, random_state=np.random.RandomState(seed))
        return abs(np.sum(at.weights * np.prod(1 + np.sin(at.points), axis=1)) - (2 - np.cos(1)) ** 3)

    sobol, monte_carlo = (np.mean([error(kind(1024), seed) for seed in range(10)]) for kind in (Sobol, MonteCarlo))
    assert sobol < monte_carlo / 20


def test_nodes_are_reproducible_and_in_the_cube():
    for kind in (Sobol(100), MonteCarlo(100)):
        a, b = (kind.resolve(6, random_state=np.random.RandomState(3)).points for _ in range(2))
        np.testing.assert_array_equal(a, b)
        assert a.min() >= 0
        assert a.max() <= 1
    assert Sobol(100).resolve(2).n_nodes == 128


def test_names_and_errors():
    assert isinstance(nodes.get("auto", 3), Grid)
    assert isinstance(nodes.get("auto", 4), Importance)
    assert nodes.get(MonteCarlo(7), 2) == MonteCarlo(7)
    with pytest.raises(ValueError, match=r"nodes: must be 'auto', 'grid', .* got 'lattice'"):
        nodes.get("lattice", 2)
    with pytest.raises(ValueError, match="1 to 3 dimensions, the points have 4; use nodes='importance'"):
        Grid().resolve(4)
    with pytest.raises(ValueError, match=r"at least as many nodes as basis functions .*10.* got 4; use Grid\(20\)"):
        Grid(4).resolve(1, n_basis=(10,))
    with pytest.raises(ValueError, match=r"one per dimension \(3\), got \(4, 4\); give 3 sizes"):
        Grid((4, 4)).resolve(3)
    with pytest.raises(ValueError, match=r"Sobol\(n=...\): must be an integer in \[2"):
        Sobol(1).resolve(2)
    with pytest.raises(ValueError, match=r"basis: must be one of 'cosine', 'fourier', 'legendre' .* got 'haar'"):
        basis.get("haar")
    assert basis.get("legendre") == Legendre()


# --------------------------------------------------------------------------------------------------------------
# The energy that a basis captures
# --------------------------------------------------------------------------------------------------------------


class Known(Density):
    """Bags of one point x < 0.57 stand for the density (√(1-x²) + x √2 cos(3πu))²: energies 1 - x² and x²."""

    smooths = "nothing"

    def of(self, points, weights, bandwidth):
        share = points[0, 0]

        class Squared:
            def pdf(self, u):
                return (np.sqrt(1 - share**2) + share * np.sqrt(2) * np.cos(3 * np.pi * u[:, 0])) ** 2

        return Squared()


def quiet(embedding, bags):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowEnergyWarning)
        return embedding.fit(bags)


def test_energy_is_the_share_of_squared_distances_that_the_functions_capture():
    bags = de.Bags.from_arrays([[0.1], [0.3], [0.5]])
    few, enough = (
        quiet(de.HDDEmbedding("hellinger", n_basis=n, density=Known(), nodes=Grid(64)), bags) for n in (3, 4)
    )
    x = np.array([0.1, 0.3, 0.5])
    captured = np.var(np.sqrt(1 - x**2))
    assert few.energy_ == pytest.approx(captured / (captured + np.var(x)), rel=1e-9)
    assert few.lost_signal_ == pytest.approx(1 - few.energy_, rel=1e-9)  # one point has no noise to tell apart
    assert enough.energy_ == pytest.approx(1, rel=1e-12)


def clouds(n_dims, n_bags=3):
    rng = np.random.default_rng(0)
    return de.as_bags(rng.uniform(0.2, 0.8, (n_bags, 1, n_dims)) + rng.uniform(-0.2, 0.2, (n_bags, 60, n_dims)))


@pytest.mark.parametrize("distance", ["js", "hellinger"])
@pytest.mark.parametrize("family", [Cosine, Legendre])
def test_energy_grows_with_the_basis_to_one(distance, family):
    bags = clouds(1)
    energies = [
        quiet(de.HDDEmbedding(distance, n_basis=n, bandwidth=0.05, nodes=Grid(40), basis=family()), bags).energy_
        for n in (1, 2, 4, 8, 16, 40)
    ]
    assert np.all(np.diff(energies) > 0)
    assert energies[-1] == pytest.approx(1, abs=1e-9)
    at = Sobol(256)
    energies = [
        quiet(
            de.HDDEmbedding(distance, n_basis=n, bandwidth=0.1, nodes=at, basis=family("total_degree"), random_state=0),
            clouds(2),
        ).energy_
        for n in (2, 4, 8, 16)
    ]
    assert np.all(np.diff(energies) > 0)
    assert energies[-1] <= 1


def test_low_energy_warns_and_enough_does_not():
    bags = de.Bags.from_arrays([[0.5], [0.55]])
    embedding = de.HDDEmbedding("hellinger", n_basis=3, density=Known(), nodes=Grid(64))
    text = (
        r"^HDDEmbedding: the basis functions capture less than 90% of the squared distances between the training bags' "
        r"lambda functions \(energy_\), and what they miss is more than noise \(lost_signal_\), so distances come out "
        r"too small; raise n_basis$"
    )
    with pytest.warns(LowEnergyWarning, match=text) as caught:
        embedding.fit(bags)
    assert caught[0].filename == __file__
    assert caught[0].message.energy == embedding.energy_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding.set_params(n_basis=4).fit(bags)


class Chatty(de.HDDEmbedding):
    def fit(self, X, y=None):
        warnings.warn("something else", RuntimeWarning, stacklevel=2)
        return super().fit(X, y)


def test_marginals_warn_once_for_all_parts():
    bags = de.as_bags(np.array([[[0.5, 0.1, 0.4, 0.55]], [[0.5, 0.2, 0.4, 0.55]]]))
    options = {"n_basis": 3, "density": Known(), "nodes": Grid(64)}
    text = r"^Marginals: the basis functions capture too little of the training bags in some marginals \(energy_\)"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        each = de.Marginals(Chatty("hellinger", **options)).fit(bags)
    kinds = [warning.category for warning in caught]
    assert kinds == [RuntimeWarning] * 4 + [LowEnergyWarning]
    assert caught[-1].filename == __file__
    assert min(part.energy_ for part in each.embeddings_) == caught[-1].message.energy
    with pytest.warns(LowEnergyWarning, match=text):
        de.Marginals(de.HDDEmbedding("hellinger", **options)).fit(bags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LowEnergyWarning, match=text):
            de.Marginals(de.HDDEmbedding("hellinger", **options)).fit(bags)
        with pytest.raises(RuntimeWarning, match="something else") as raised:
            de.Marginals(Chatty("hellinger", **options)).fit(bags)
        assert "Marginals uses for x0" in raised.value.__notes__[0]
        de.Marginals(de.HDDEmbedding("hellinger", n_basis=4, density=Known(), nodes=Grid(64))).fit(bags)


def test_energy_of_bags_with_bandwidths_of_their_own():
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays([np.full(40, 0.5) + rng.normal(0, 0.01, 40), rng.uniform(size=40)])
    embedding = de.HDDEmbedding("hellinger", n_basis=5, bandwidth="scott", density=de.KDE(per_bag=True))
    with pytest.warns(LowEnergyWarning):
        embedding.fit(bags)
    all_of_it = de.HDDEmbedding(
        "hellinger", n_basis=embedding.nodes_.shape[0], nodes=de.Grid(embedding.nodes_.shape[0])
    )
    all_of_it.set_params(bandwidth="scott", density=de.KDE(per_bag=True)).fit(bags)
    part, whole = (pdist(each.transform(bags), "sqeuclidean")[0] for each in (embedding, all_of_it))
    assert embedding.energy_ == pytest.approx(part / whole, rel=1e-6)


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_fit_looks_at_some_bags_at_a_time():
    rng = np.random.default_rng(0)
    peaks = []
    for n_bags in (2, 16):
        bags = de.as_bags(rng.uniform(size=(n_bags, 20, 3)))
        tracemalloc.start()
        de.HDDEmbedding("tv", n_basis=2, n_lambdas=20, bandwidth=0.2, nodes=Grid(24)).fit(bags)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_densities_that_are_divided_by_their_mass_warn_where_few_nodes_see_them():
    bags = de.as_bags(np.random.default_rng(0).normal(0.5, 0.02, size=(4, 50, 5)))
    with pytest.warns(UserWarning, match=r"HDDEmbedding: the densities of training bags lie on so few of the nodes"):
        de.HDDEmbedding("hellinger", n_basis=3, density="mixture", nodes=Sobol(1024), random_state=0).fit(bags)
    de.HDDEmbedding("hellinger", n_basis=3, density="mixture", nodes=Importance(1024), random_state=0).fit(bags)
