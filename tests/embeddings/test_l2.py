"""L2Embedding against ground truth, against its slow twin, and against what is said of its bias."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import make_pipeline

import distembed as de
import exact
from distembed.basis import LowEnergyWarning
from distembed.compute.arrays import Scratch
from distembed.embeddings import L2Embedding
from distembed.embeddings.stages import PointMeans, tabulate

SMALL = {"n_basis": 3, "bandwidth": 0.15}
TENSOR = np.indices((10,)).T


def ramp(x):
    """The density 2x of the first coordinate."""
    return 2 * x[:, 0]


def flat(x):
    return np.ones(len(x))


def ramps(n, times, seed=0):
    """Bags of n points: so many of p = 2x, and as many of the uniform density."""
    u = np.random.default_rng(seed).uniform(size=(2, times, n, 1))
    return de.as_bags(np.concatenate([np.sqrt(u[0]), u[1]]))


def clouds(sizes=(30, 1, 57, 200), n_dims=2, seed=0, dtype=float, weighted=False):
    rng = np.random.default_rng(seed)
    arrays = [np.clip(rng.normal(rng.uniform(0.3, 0.7, n_dims), 0.2, (n, n_dims)), 0, 1).astype(dtype) for n in sizes]
    weights = [rng.uniform(0.1, 1, len(a)) for a in arrays] if weighted else None
    return de.Bags.from_arrays(arrays, weights=weights)


def squared(features):
    return float(np.sum((features[0].astype(float) - features[1]) ** 2))


def twin(bags, indices, kind):
    return np.array([exact.l2_point_coefficients(x, indices, kind, bags.weights_of(i)) for i, x in enumerate(bags)])


# ------------------------------------------------------------------------------------------------ the judge itself
def test_known_distances():
    def square(x, y):
        return (x - y) ** 2

    assert exact.distance(ramp, flat, square) == pytest.approx(1 / 3, abs=1e-12)

    def normal(mean, std):
        return lambda t: np.exp(-((t[:, 0] - mean) ** 2) / (2 * std**2)) / (np.sqrt(2 * np.pi) * std)

    for bound, other, known in ((12, normal(1, 1), 0.124798294), (24, normal(0, 2), 0.066317364)):
        found = exact.distance(normal(0, 1), other, square, bounds=(-bound, bound))
        assert found == pytest.approx(known, abs=5e-10)


def test_known_coefficients():
    found = exact.l2_coefficients(ramp, TENSOR)
    np.testing.assert_allclose(found[:3], [1, -4 * np.sqrt(2) / np.pi**2, 0], atol=1e-12)
    wanted = np.where(TENSOR[1:, 0] % 2 == 1, -4 * np.sqrt(2) / (np.pi * TENSOR[1:, 0]) ** 2, 0)
    np.testing.assert_allclose(found[1:], wanted, atol=1e-12)
    assert exact.distance(ramp, flat, lambda x, y: (x - y) ** 2) == pytest.approx(1 / 3)


# ------------------------------------------------------------------------------------------------------ convergence
@pytest.mark.parametrize("options", [{}, {"method": "points"}, {"density": "histogram"}], ids=str)
def test_distances_of_gaussians_on_a_box(options):
    """Normal points on [-8, 8]: on the unit interval the distance is 16 times as large."""
    rng, n = np.random.default_rng(0), 60_000
    for stds, means, truth in (((1, 1), (0, 1), 0.124798294), ((1, 2), (0, 0), 0.066317364)):
        arrays = [(rng.normal(mean, std, n) + 8) / 16 for mean, std in zip(means, stds, strict=True)]
        bags = de.Bags.from_arrays([x[(x >= 0) & (x <= 1)] for x in arrays])
        found = squared(L2Embedding(40, **options).fit_transform(bags))
        assert found / 16 == pytest.approx(truth, rel=0.03)


@pytest.mark.parametrize(("options", "rate"), [({}, 0.6), ({"method": "points"}, 0.4)], ids=["density", "points"])
def test_coefficients_approach_the_truth(options, rate):
    """Errors at 16 times the points: a quarter for means; somewhat more where bandwidths shrink slowly."""
    truth = np.stack([exact.l2_coefficients(p, TENSOR[:6]) for p in (ramp, flat)])
    errors = []
    for n in (250, 4000):
        found = L2Embedding(6, **options).fit_transform(ramps(n, 20)).reshape(2, 20, 6)
        errors.append(np.sqrt(np.mean((found - truth[:, None]) ** 2)))
    assert errors[1] < rate * errors[0]
    assert errors[1] < 0.02


@pytest.mark.parametrize("options", [{}, {"method": "points"}], ids=["density", "points"])
def test_distances_approach_the_truth(options):
    truth = np.sum((exact.l2_coefficients(ramp, TENSOR) - exact.l2_coefficients(flat, TENSOR)) ** 2)
    errors = []
    for n in (250, 4000):
        a, b = L2Embedding(**options).fit_transform(ramps(n, 20)).reshape(2, 20, 10)
        errors.append(np.mean(np.abs(np.sum((a - b) ** 2, axis=1) - truth)))
    assert errors[1] < 0.6 * errors[0]
    assert errors[1] < 0.04


@pytest.mark.parametrize("kind", ["cosine", "fourier", "legendre"])
def test_means_over_points_are_unbiased_and_distances_too_large_by_the_variance(kind):
    indices, n, m = TENSOR[:9], 50, 80
    truth = [exact.l2_coefficients(p, indices, kind) for p in (ramp, flat)]
    variance = [exact.l2_point_variance(p, indices, kind) for p in (ramp, flat)]
    rng, times = np.random.default_rng(0), 4000
    embedding = L2Embedding(9, method="points", basis=kind).fit([[0.5]])
    a = embedding.transform(de.as_bags(np.sqrt(rng.uniform(size=(times, n, 1)))))
    b = embedding.transform(de.as_bags(rng.uniform(size=(times, m, 1))))
    for found, wanted, size, spread in zip((a, b), truth, (n, m), variance, strict=True):
        np.testing.assert_allclose(found.mean(axis=0), wanted, atol=5 * np.sqrt(found.var(axis=0).max() / times))
        assert found.var(axis=0).sum() == pytest.approx(spread / size, rel=0.05)
    distances = np.sum((a - b) ** 2, axis=1)
    wanted = np.sum((truth[0] - truth[1]) ** 2) + variance[0] / n + variance[1] / m
    assert distances.mean() == pytest.approx(wanted, abs=5 * distances.std() / np.sqrt(times))
    if kind == "fourier":  # cos² + sin² = 1, so that the rule |V| - |A|² is exact
        assert variance[1] == pytest.approx(9 - 1)
        assert variance[0] == pytest.approx(9 - np.sum(truth[0] ** 2))


def test_bias_falls_as_the_number_of_points_grows():
    rng, excess = np.random.default_rng(0), []
    embedding = L2Embedding(method="points").fit([[0.5]])
    for n in (40, 640):
        a, b = (embedding.transform(de.as_bags(rng.uniform(size=(600, n, 1)))) for _ in range(2))
        excess.append(np.mean(np.sum((a - b) ** 2, axis=1)))
    assert excess[0] == pytest.approx(2 * 9 / 40, rel=0.1)
    assert excess[1] == pytest.approx(excess[0] / 16, rel=0.15)


def test_split_halves_remove_the_bias():
    rng = np.random.default_rng(0)
    bags = de.as_bags(rng.uniform(size=(40, 60, 1)))
    embedding = L2Embedding(method="points").fit(bags)
    found = de.sizes.split_half_distances(embedding, bags, random_state=0)[np.triu_indices(40, 1)]
    raw = euclidean_distances(embedding.transform(bags), squared=True)[np.triu_indices(40, 1)]
    assert abs(found.mean()) < 0.1 * raw.mean()


# --------------------------------------------------------------------------------------------------- the slow twins
SETS = {
    "tensor-1": (1, de.Cosine()),
    "tensor-2": (2, de.Cosine()),
    "tensor-3": (3, de.Fourier()),
    "tensor-5": (5, de.Legendre("tensor")),
    "auto-4": (4, de.Cosine()),
    "total-6": (6, de.Legendre("total_degree")),
    "cross-4": (4, de.Fourier("hyperbolic_cross")),
    "cross-25": (25, de.Cosine("hyperbolic_cross")),
    "sobolev-3": (3, de.Cosine("sobolev")),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(("n_dims", "basis"), SETS.values(), ids=SETS)
def test_means_over_points_are_the_twins(n_dims, basis, weighted):
    bags = clouds(n_dims=n_dims, weighted=weighted)
    embedding = L2Embedding(4 if n_dims < 5 else 3, method="points", basis=basis)
    found = embedding.fit_transform(bags)
    kind = type(basis).__name__.lower()
    np.testing.assert_allclose(found, twin(bags, embedding.indices_, kind), atol=1e-11)


def test_uneven_numbers_of_functions():
    bags = clouds(n_dims=3, weighted=True)
    embedding = L2Embedding((2, 1, 7), method="points")
    np.testing.assert_allclose(embedding.fit_transform(bags), twin(bags, embedding.indices_, "cosine"), atol=1e-12)


@pytest.mark.parametrize("sizes", [(1,), (511,), (512,), (513, 1), (16, 16), (3000, 2, 100), (5,) * 300])
def test_bags_of_any_size_are_cut_into_blocks(sizes):
    bags = clouds(sizes, n_dims=2, seed=1)
    embedding = L2Embedding(5, method="points")
    np.testing.assert_allclose(embedding.fit_transform(bags), twin(bags, embedding.indices_, "cosine"), atol=1e-12)


@pytest.mark.parametrize("basis", [de.Cosine(), de.Fourier(), de.Legendre()], ids=lambda basis: type(basis).__name__)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 100])
def test_recurrences_give_the_functions(basis, n):
    x = np.r_[0.0, 1.0, 0.5, 1e-6, 1 - 1e-6, np.random.default_rng(0).uniform(size=3000)]
    table = np.empty((n, len(x)))
    tabulate(basis, x, table, Scratch())
    np.testing.assert_allclose(table.T, exact.basis_functions(x, n, type(basis).__name__.lower()), atol=2e-14 * n**2)


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
@pytest.mark.parametrize("n_dims", [1, 2])
def test_densities_on_a_grid_give_the_twins_features(boundary, n_dims):
    bags = clouds((30, 40), n_dims, weighted=True)
    embedding = L2Embedding(4, 0.12, density=de.KDE(boundary), nodes=de.Grid({1: 400, 2: 120}[n_dims]))
    found = embedding.fit_transform(bags)
    nodes = embedding.nodes_
    table = exact.tensor_basis(nodes.points, 4)
    for i, points in enumerate(bags):
        p = exact.kde(points, nodes.points, embedding.bandwidth_, boundary, bags.weights_of(i))
        np.testing.assert_allclose(found[i], exact.project(p[None], table, nodes.weights)[0], atol=2e-3)


@pytest.mark.parametrize("basis", ["cosine", "fourier"])
@pytest.mark.parametrize("n_dims", [1, 3, 4])
@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")
def test_densities_at_scattered_nodes_give_the_twins_features(basis, n_dims):
    bags = clouds((30, 40), n_dims, weighted=True)
    kind = {"cosine": de.Cosine, "fourier": de.Fourier}[basis](index_set="tensor")
    embedding = L2Embedding(3, (0.1,) * n_dims, basis=kind, nodes=de.MonteCarlo(128), random_state=0)
    found = embedding.fit_transform(bags)
    nodes = embedding.nodes_
    table = exact.tensor_basis(nodes.points, 3, basis)
    for i, points in enumerate(bags):
        p = exact.kde(points, nodes.points, embedding.bandwidth_, "reflect", bags.weights_of(i))
        np.testing.assert_allclose(found[i], exact.project(p[None], table, nodes.weights)[0], atol=1e-10)


@pytest.mark.parametrize("nodes", [de.Grid(24), de.Sobol(512), de.Importance(512)], ids=lambda n: type(n).__name__)
def test_distances_never_exceed_those_on_the_nodes_and_reach_them(nodes):
    """Functions are orthonormal under the sum over the nodes, also where those are drawn and have their own volumes."""
    bags = clouds((60,) * 5, n_dims=2)
    few, many = (L2Embedding(n, 0.1, nodes=nodes, random_state=0).fit(bags) for n in (3, 14))
    at, volumes = many.nodes_.points, many.nodes_.weights
    p = np.array([exact.kde(x, at, 0.1) for x in bags])
    wanted = exact.pairwise_distances(p, lambda x, y: (x - y) ** 2, volumes)
    low, high = (euclidean_distances(each.transform(bags), squared=True) for each in (few, many))
    assert np.all(low <= high + 1e-9)
    np.testing.assert_allclose(high, wanted, rtol=0, atol=0.03 * wanted.max())
    assert many.energy_ == pytest.approx(1, abs=0.02)


def test_smoothing_is_a_factor_on_cosine_coefficients():
    """With reflecting boundaries the KDE's coefficients are exp(-(πkh)²/2) times those of the points."""
    bags, h, k = clouds((50, 80), 1), 0.1, np.arange(6)
    smooth = L2Embedding(6, h, nodes=de.Grid(600)).fit_transform(bags)
    means = L2Embedding(6, method="points").fit_transform(bags)
    np.testing.assert_allclose(smooth, means * np.exp(-((np.pi * k * h) ** 2) / 2), atol=1e-4)


def test_means_over_points_are_linear_in_the_bag():
    bags = clouds((30, 70))
    embedding = L2Embedding(4, method="points").fit(bags)
    a, b = embedding.transform(bags)
    (union,) = embedding.transform([bags.points])
    np.testing.assert_allclose(union, 0.3 * a + 0.7 * b, atol=1e-13)


def test_the_automatic_grid_is_fine_enough():
    rng = np.random.default_rng(0)
    for n_dims, size in ((1, 1000), (2, 128)):
        bags = de.Bags.from_arrays([np.clip(rng.normal(m, 0.1, (300, n_dims)), 0, 1) for m in (0.4, 0.5, 0.55)])
        automatic = L2Embedding().fit(bags)
        fine = L2Embedding(bandwidth=automatic.bandwidth_, nodes=de.Grid(size)).fit(bags)
        found, wanted = (euclidean_distances(each.transform(bags), squared=True) for each in (automatic, fine))
        np.testing.assert_allclose(found, wanted, rtol=0.01, atol=1e-9)


# ----------------------------------------------------------------------------------------------------------- energy
def test_energy_is_the_share_of_squared_distances():
    places = np.array([[0.1, 0.1], [0.3, 0.2], [0.2, 0.3]])
    bags = de.Bags.from_arrays([place + x / 2 for place, x in zip(places, clouds((50, 90, 30), 2), strict=True)])
    text = r"^L2Embedding: the basis functions capture less than 90% of the squared distances between .* densities"
    with pytest.warns(LowEnergyWarning, match=text):
        embedding = L2Embedding(2, 0.1, nodes=de.Grid(64)).fit(bags)
    p = np.array([exact.kde(x, embedding.nodes_.points, 0.1) for x in bags])
    wanted = exact.captured_share(p[:, None], exact.tensor_basis(embedding.nodes_.points, 2), embedding.nodes_.weights)
    assert embedding.energy_ == pytest.approx(wanted, rel=1e-3)
    assert embedding.node_mass_ == pytest.approx(1, abs=1e-6)


def test_low_energy_points_to_the_caller_of_fit_and_enough_is_silent():
    centres = np.linspace(0.3, 0.7, 6)[:, None, None]
    bags = de.as_bags(np.random.default_rng(0).normal(centres, 0.05, size=(6, 60, 1)))
    with pytest.warns(LowEnergyWarning) as caught:
        few = L2Embedding(2, 0.03).fit(bags)
    assert caught[0].filename == __file__
    assert caught[0].message.energy == few.energy_ < 0.9
    assert caught[0].message.n_basis_functions == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0.97 < L2Embedding(25, 0.03).fit(bags).energy_ < 1.001
        again = few.set_params(method="points").fit(bags)  # a second fit keeps nothing of the first
    missing = (again.energy_, again.lost_signal_, again.node_mass_, again.nodes_, again.bandwidth_)
    assert missing == (None,) * 5


# ---------------------------------------------------------------------------------------------------- random features
@pytest.mark.parametrize("method", ["density", "points"])
def test_random_features_make_the_kernel(method):
    bags = clouds((200,) * 8, 1)
    embedding = L2Embedding(12, 0.08, method=method)
    sigma = 1.5
    model = make_pipeline(embedding, de.RandomFourierFeatures(20_000, sigma=sigma, random_state=0))
    z = model.fit_transform(bags)
    distances = euclidean_distances(embedding.fit_transform(bags), squared=True)
    np.testing.assert_allclose(z @ z.T, exact.kernel(distances, sigma), atol=0.03)
    if method == "density":
        nodes, weights = exact.box_quadrature(1, n_nodes=512)
        p = np.array([exact.kde(x, nodes, 0.08) for x in bags])
        truth = exact.pairwise_distances(p, lambda x, y: (x - y) ** 2, weights)
        np.testing.assert_allclose(z @ z.T, exact.kernel(truth, sigma), atol=0.04)


@pytest.mark.parametrize("options", [{}, {"method": "points"}], ids=["density", "points"])
@pytest.mark.parametrize("n_dims", [1, 2, 3, 5])
@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")
def test_float32_threads_and_chunks(options, n_dims):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 150 if n_dims < 5 else 20)
    bags = clouds(sizes, n_dims, weighted=True)
    embedding = L2Embedding(4, 0.15, **options, random_state=0, n_jobs=1).fit(bags)
    wanted = embedding.transform(bags)
    single = embedding.transform(bags.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, wanted, atol=1e-4 * np.abs(wanted).max())
    np.testing.assert_array_equal(embedding.set_params(n_jobs=2).transform(bags), wanted)
    apart = np.concatenate([embedding.transform(bags[i : i + 7]) for i in range(0, bags.n_bags, 7)])
    np.testing.assert_allclose(apart, wanted, atol=1e-11 * np.abs(wanted).max())


def test_points_without_weight_are_absent():
    bags = clouds((20, 30), weighted=True)
    weights = np.where(np.arange(50) % 3 == 0, 0, bags.weights)
    outside = np.where((weights == 0)[:, None], 7.0, bags.points)  # nobody looks at them
    kept = de.Bags.from_arrays(
        [bags[0][weights[:20] > 0], bags[1][weights[20:] > 0]],
        weights=[weights[:20][weights[:20] > 0], weights[20:][weights[20:] > 0]],
    )
    for options in ({}, {"method": "points"}):
        found = L2Embedding(4, 0.2, **options).fit_transform(de.Bags(outside, bags.offsets, weights))
        np.testing.assert_allclose(found, L2Embedding(4, 0.2, **options).fit_transform(kept), atol=1e-12)


def test_memory_does_not_grow_with_the_number_of_bags_or_points(monkeypatch):
    monkeypatch.setattr("distembed.compute.parallel._idle", [])  # what earlier tests have left behind would hide memory
    monkeypatch.setattr("distembed.compute.parallel._MOST_IDLE", 0)
    rng, peaks = np.random.default_rng(0), []
    embedding = L2Embedding(6, method="points", n_jobs=1).fit(rng.uniform(size=(2, 9, 2)))
    for n_bags, n_points in ((600, 50), (4800, 50), (2, 120_000)):
        bags = de.as_bags(rng.uniform(size=(n_bags, n_points, 2)))
        embedding.transform(bags[:1])
        tracemalloc.start()
        embedding.transform(bags)
        peaks.append(tracemalloc.get_traced_memory()[1] - n_bags * 36 * 8)
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0] + 2**20
    assert peaks[2] < 8 * bags.n_points * 3 + 2**23  # the masses of a chunk, and a piece


def test_sparse_sets_are_not_computed_as_tensors():
    """Work a point is some multiple of |V|, counted, in thirty dimensions too."""
    for basis, n_dims in ((de.Cosine(), 10), (de.Cosine("hyperbolic_cross"), 30), (de.Cosine("total_degree"), 6)):
        indices = basis.indices((4,) * n_dims)
        means = PointMeans(basis, indices)
        assert means.n_products < 12 * len(indices)


# ------------------------------------------------------------------------------------------------ categorical columns
@pytest.mark.parametrize("options", [{}, {"method": "points"}], ids=["density", "points"])
def test_cells_hold_their_shares(options):
    rng = np.random.default_rng(0)
    labels = [rng.choice(3, n) for n in (50, 80)]
    arrays = [np.column_stack([rng.uniform(size=len(c)), c]) for c in labels]
    bags = de.Bags.from_arrays(arrays, columns=["age", "job"], categories={"job": ["x", "y", "z"]})
    embedding = L2Embedding(3, 0.2, **options).fit(bags)
    found = embedding.transform(bags).reshape(2, 3, 3)
    names = embedding.get_feature_names_out()
    assert list(names[:4]) == ["l2_job=x_0", "l2_job=x_1", "l2_job=x_2", "l2_job=y_0"]
    for i, (array, label) in enumerate(zip(arrays, labels, strict=True)):
        for c in range(3):
            part = array[label == c, :1]
            wanted = L2Embedding(3, 0.2, **options).fit_transform([part])[0] * np.mean(label == c)
            np.testing.assert_allclose(found[i, c], wanted, atol=1e-10)


@pytest.mark.parametrize("method", ["density", "points"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bags_of_labels_alone_have_the_distance_of_histograms(method, dtype):
    shares = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
    arrays = [np.repeat([0, 1, 2], np.rint(10 * share).astype(int)).astype(dtype) for share in shares]
    bags = de.Bags.from_arrays(arrays, categories={0: ["a", "b", "c"]})
    found = L2Embedding(method=method).fit_transform(bags)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, shares, atol=1e-6)


# --------------------------------------------------------------------------------------------------- names and errors
def test_names_and_sizes():
    embedding = L2Embedding((2, 3), method="points").fit(clouds())
    assert list(embedding.get_feature_names_out()) == ["l2_0_0", "l2_0_1", "l2_0_2", "l2_1_0", "l2_1_1", "l2_1_2"]
    assert embedding.n_basis_functions_ == embedding._n_features_out == 6
    assert de.Marginals(L2Embedding(method="points")).fit_transform(clouds(n_dims=3)).shape == (4, 30)


ERRORS = [
    ({"method": "means"}, ValueError, r"L2Embedding\(method=...\): must be one of 'density', 'points', got 'means'"),
    ({"method": None}, TypeError, r"L2Embedding\(method=...\): must be one of 'density', 'points', got None"),
    ({"n_basis": 0}, ValueError, r"L2Embedding\(n_basis=...\): must be an integer in \[1, 10000\], got 0"),
    ({"n_basis": (3, 4, 5)}, ValueError, r"L2Embedding\(n_basis=...\): must be one number, or one per dimension \(2\)"),
    (
        {"n_basis": 2000, "method": "points"},
        ValueError,
        r"in 2 dimensions make 4,000,000 features per bag, more",
    ),
    ({"bandwidth": -1.0}, ValueError, r"bandwidth: must be positive .*, got -1.0"),
    ({"basis": "wavelet"}, ValueError, r"basis: must be one of 'cosine'"),
    (
        {"nodes": de.Sobol(8)},
        ValueError,
        r"L2Embedding\(n_basis=...\): makes 100 basis functions, more than nodes \(8\)",
    ),
]


@pytest.mark.parametrize(("options", "error", "text"), ERRORS, ids=lambda value: str(value)[:30])
def test_wrong_parameters(options, error, text):
    with pytest.raises(error, match=text):
        L2Embedding(**options).fit(clouds())


@pytest.mark.parametrize("method", ["density", "points"])
def test_points_outside_the_cube(method):
    text = r"L2Embedding: .*unit cube \[0, 1\]\^2, but point 1 of bag 1 has 1.5 in dimension 0; .*UnitCube\(\)"
    bags = [np.full((3, 2), 0.5), np.array([[0.1, 0.2], [1.5, 0.2]])]
    with pytest.raises(ValueError, match=text):
        L2Embedding(method=method).fit(bags)
    with pytest.raises(ValueError, match=text):
        L2Embedding(2, 0.4, method=method).fit(bags[:1]).transform(bags)
