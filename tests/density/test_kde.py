"""Kernel density estimates on grids and at scattered nodes against the judge."""

import numpy as np
import pytest

import exact
from distembed import KDE, Bags, Grid, MonteCarlo
from distembed.compute.arrays import LinearBinning, bags_first
from distembed.density.kde import KernelProducts, kernel, kernel_of_bins

BOUNDARIES = ["reflect", "periodic", "none"]
every_boundary = pytest.mark.parametrize("boundary", BOUNDARIES)
every_width = pytest.mark.parametrize("n_dims", [1, 2, 3])


def make(n_dims, weighted=True, dtype=float):
    rng = np.random.default_rng(n_dims)
    sizes = (60, 1, 7)
    arrays = [rng.beta(0.8, 1.5, size=(n, n_dims)).astype(dtype) for n in sizes]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0, 2, n) + 0.01 for n in sizes] if weighted else None)


def bin_linear(points, offsets, shape, periodic, weights=None):
    return LinearBinning(shape, periodic, points.dtype)(points, np.array(offsets), weights)


def judge(bags, nodes, bandwidth, boundary):
    return np.array(
        [
            exact.kde(points.astype(float), nodes, bandwidth, boundary, bags.weights_of(i))
            for i, points in enumerate(bags)
        ]
    )


@every_boundary
@every_width
def test_direct_estimate_is_the_judges(n_dims, boundary):
    bags, bandwidth = make(n_dims), np.array([0.08, 0.3, 0.15])[:n_dims]
    nodes = MonteCarlo(200).resolve(n_dims, random_state=np.random.RandomState(0))
    found = KDE(boundary).prepare(nodes, bandwidth, np.dtype(float))(bags)
    np.testing.assert_allclose(found, judge(bags, nodes.points, bandwidth, boundary), rtol=1e-9, atol=1e-12)


@every_boundary
@every_width
def test_grid_estimate_converges_to_the_judges(n_dims, boundary):
    bags, bandwidth = make(n_dims), np.array([0.1, 0.12, 0.15])[:n_dims]
    errors = []
    for size in {1: (32, 128, 512), 2: (24, 48, 96), 3: (16, 24, 40)}[n_dims]:
        nodes = Grid(size).resolve(n_dims)
        found = bags_first(KDE(boundary).prepare(nodes, bandwidth, np.dtype(float))(bags)).reshape(3, -1)
        want = judge(bags, nodes.points, bandwidth, boundary)
        errors.append(np.max(np.abs(found - want)) / np.max(want))
    # Bins a tenth of the bandwidth wide and less: the error is of the order of (bin / bandwidth)^2.
    assert errors[0] > errors[1] > errors[2]
    assert errors[-1] < {1: 1e-4, 2: 2e-3, 3: 2e-2}[n_dims]


def test_each_dimension_has_its_own_boundary():
    bags, nodes, bandwidth = make(2), Grid(128).resolve(2), np.array([0.1, 0.1])
    found = bags_first(KDE(("periodic", "none")).prepare(nodes, bandwidth, np.dtype(float))(bags)).reshape(3, -1)
    want = judge(bags, nodes.points, bandwidth, ("periodic", "none"))
    np.testing.assert_allclose(found, want, atol=3e-3 * want.max())


@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
@pytest.mark.parametrize("bandwidth", [0.003, 0.05, 2.0])
@every_width
def test_no_mass_is_lost(n_dims, bandwidth, boundary):
    nodes = Grid(20).resolve(n_dims)
    found = KDE(boundary).prepare(nodes, np.full(n_dims, bandwidth), np.dtype(float))(make(n_dims))
    np.testing.assert_allclose(bags_first(found).reshape(3, -1).mean(axis=1), 1.0, rtol=1e-10)
    assert found.min() >= 0


def test_a_plain_gaussian_leaks():
    found = KDE("none").prepare(Grid(200).resolve(1), np.array([0.2]), np.dtype(float))(make(1))
    assert np.all(found.mean(axis=1) < 0.95)


@every_width
def test_a_bandwidth_a_bag_equals_each_bag_alone(n_dims):
    bags, nodes = make(n_dims), Grid(24).resolve(n_dims)
    bandwidths = np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.2], [0.3, 0.3, 0.1]])[:, :n_dims]
    together = bags_first(KDE().prepare(nodes, bandwidths[0], np.dtype(float))(bags, bandwidths))
    for i in range(3):
        alone = KDE().prepare(nodes, bandwidths[i], np.dtype(float))(bags[i : i + 1])
        np.testing.assert_allclose(together[i], bags_first(alone)[0], rtol=2e-2, atol=2e-2)


@every_width
def test_binning_keeps_mass_and_mean(n_dims):
    rng = np.random.default_rng(0)
    points, weights = rng.uniform(0.1, 0.9, size=(50, n_dims)), rng.uniform(size=50)
    cells = bin_linear(points, np.array([0, 50]), (10,) * n_dims, (False,) * n_dims, weights)
    grid = Grid(10).resolve(n_dims).points
    assert cells.sum() == pytest.approx(weights.sum())
    np.testing.assert_allclose(cells.ravel() @ grid, weights @ points, rtol=1e-12)


def test_binning_by_hand_at_the_faces():
    faces, offsets = np.array([[0.0], [1.0]]), np.array([0, 2])
    np.testing.assert_allclose(bin_linear(faces, offsets, (4,), (False,)), [[1, 0, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(bin_linear(faces, offsets, (4,), (True,)), [[1, 0, 0, 1]])
    np.testing.assert_allclose(bin_linear(faces[:1], np.array([0, 1]), (4,), (True,)), [[0.5, 0, 0, 0.5]])


@every_boundary
def test_grids_of_parts_add_up(boundary):
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(40, 2))
    periodic = (boundary == "periodic",) * 2
    parts = [bin_linear(points[i::2], np.array([0, 10, 20]), (8, 12), periodic) for i in (0, 1)]
    whole = bin_linear(points, np.array([0, 20, 40]), (8, 12), periodic)
    np.testing.assert_allclose(sum(parts), whole, atol=1e-12)


def test_points_are_binned_in_blocks():
    bags, estimate = make(2), KDE().prepare(Grid(20).resolve(2), np.array([0.1, 0.1]), np.dtype(float))
    whole = estimate(bags)
    estimate.block_points = 7
    np.testing.assert_allclose(estimate(bags), whole, rtol=1e-12)


def test_pairs_are_computed_in_blocks():
    bags = make(2)
    nodes = MonteCarlo(50).resolve(2, random_state=np.random.RandomState(0))
    for boundary in BOUNDARIES:
        whole_block, blocks = (KernelProducts(nodes.points, np.array([0.1, 0.1]), [boundary] * 2) for _ in range(2))
        blocks.block_pairs = 120
        for i, points in enumerate(bags):
            whole = whole_block.mean(points, bags.weights_of(i))
            found = blocks.mean(points, bags.weights_of(i))
            np.testing.assert_allclose(found, whole, rtol=1e-10, atol=1e-14 * whole.max())


def test_float32_agrees_with_float64():
    nodes, bandwidth = Grid(40).resolve(2), np.array([0.05, 0.05])
    double = KDE().prepare(nodes, bandwidth, np.dtype(float))(make(2))
    single = KDE().prepare(nodes, bandwidth, np.dtype(np.float32))(make(2, dtype=np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=2e-4 * double.max())


def test_no_float32_density_is_subnormal():
    bags = Bags.from_arrays([np.full((1, 3), 0.01, np.float32)])
    found = KDE().prepare(Grid(40).resolve(3), np.full(3, 0.03), np.dtype(np.float32))(bags)
    assert np.min(found[found > 0]) > np.finfo(np.float32).tiny


def test_a_bandwidth_too_narrow_for_the_grid_warns():
    with pytest.warns(UserWarning, match="the bandwidth in dimension 1 is narrower than half a bin of the grid"):
        KDE().warn_if_unresolved(Grid(20).resolve(2), np.array([0.1, 0.001]))
    KDE().warn_if_unresolved(MonteCarlo(100).resolve(2), np.array([0.1, 0.001]))  # judged by the mass that they find


@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
def test_an_enormous_bandwidth_is_the_uniform_density(boundary):
    nodes = Grid(20).resolve(1)
    found = KDE(boundary).prepare(nodes, np.array([1e9]), np.dtype(float))(make(1))
    np.testing.assert_allclose(found, 1.0, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-310, 1e-170, 1e160, 1e300])
@pytest.mark.parametrize("nodes", [Grid(20), MonteCarlo(50)])
def test_the_scale_of_weights_does_not_matter(scale, nodes):
    bags, at = make(2), nodes.resolve(2, random_state=np.random.RandomState(0))
    scaled = Bags(bags.points, bags.offsets, weights=np.maximum(bags.weights, 0.1) * scale)
    plain = Bags(bags.points, bags.offsets, weights=np.maximum(bags.weights, 0.1))
    estimate = KDE().prepare(at, np.array([0.1, 0.1]), np.dtype(float))
    np.testing.assert_allclose(estimate(scaled), estimate(plain), rtol=1e-4)


def test_the_wrapped_estimate_of_angles_is_brute_force_and_approaches_von_mises():
    rng = np.random.default_rng(0)
    x, h = (rng.vonmises(np.pi, 2.0, size=(4000, 1)) / (2 * np.pi)) % 1, 0.03  # the mode is at the seam
    for nodes in (Grid(256).resolve(1), MonteCarlo(100).resolve(1, random_state=np.random.RandomState(0))):
        found = KDE("periodic").prepare(nodes, np.array([h]), np.dtype(float))(Bags.from_arrays([x]))[0]
        u = nodes.points
        wrapped = sum(np.exp(-(((u - x.T + k) / h) ** 2) / 2) for k in range(-3, 4)).mean(axis=1)
        np.testing.assert_allclose(found, wrapped / (np.sqrt(2 * np.pi) * h), atol=2e-3 * found.max())
        truth = np.exp(2 * np.cos(2 * np.pi * u[:, 0] - np.pi)) / np.i0(2.0)
        np.testing.assert_allclose(found, truth, atol=0.15 * truth.max())


def test_a_periodic_and_a_reflecting_dimension_in_one_estimate():
    x = np.array([[0.02, 0.02]])
    one = KDE(("periodic", "reflect")).of(x, None, np.array([0.05, 0.05]))
    seam, face = one.pdf(np.array([[0.98, 0.3], [0.06, 0.3]])), one.pdf(np.array([[0.3, 0.98], [0.3, 0.06]]))
    np.testing.assert_allclose(seam[0], seam[1], rtol=1e-9)  # as far from 1.02 as from 0.02
    assert face[0] < 1e-9 * face[1]


@pytest.mark.parametrize("n", [16, 33])
@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
@pytest.mark.parametrize("h", [0.01, 0.2, 7.0])
def test_kernels_between_bins_are_those_between_their_midpoints(boundary, h, n):
    x = (np.arange(n) + 0.5) / n
    far, i = kernel_of_bins(np.array(h), boundary, n), np.arange(n)
    found = far[np.abs(i[:, None] - i)] + (far[i[:, None] + i + 1] if boundary == "reflect" else 0)
    np.testing.assert_allclose(found, kernel(x[:, None], x, h, boundary), rtol=1e-10, atol=1e-14)
