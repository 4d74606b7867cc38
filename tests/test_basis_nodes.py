"""Bases, separable products and integration nodes."""

import numpy as np
import pytest

from distembed import Cosine, Fourier, Grid, MonteCarlo, Sobol, basis, exact, nodes
from distembed._separable import bags_first, contract

KINDS = {"cosine": Cosine(), "fourier": Fourier()}
every_kind = pytest.mark.parametrize("kind", list(KINDS))
every_width = pytest.mark.parametrize("n_dims", [1, 2, 3])


@every_kind
def test_functions_are_the_judges_and_orthonormal(kind):
    x = (np.arange(400) + 0.5) / 400
    values = KINDS[kind].values(x, 12)
    np.testing.assert_allclose(values, exact.basis_functions(x, 12, kind), atol=1e-12)
    np.testing.assert_allclose(values.T @ values / 400, np.eye(12), atol=1e-12)


@every_kind
@every_width
def test_projection_is_the_judges_on_every_kind_of_nodes(kind, n_dims):
    rng = np.random.default_rng(0)
    n_basis = (3, 4, 2)[:n_dims]
    for where in (Grid((6, 5, 7)[:n_dims]), Sobol(64), MonteCarlo(50)):
        at = where.resolve(n_dims, random_state=np.random.RandomState(0))
        functions = rng.normal(size=(2, 3, at.n_nodes))  # two functions of three bags
        table = np.ones((at.n_nodes, 1))
        for x, n in zip(at.points.T, n_basis, strict=True):
            table = (table[:, :, None] * exact.basis_functions(x, n, kind)[:, None]).reshape(at.n_nodes, -1)
        want = np.einsum("fbi,ia,i->bfa", functions, table, at.weights).reshape(3, -1)
        stored = np.moveaxis(functions.reshape(2, 3, *at.shape), 1, -2)
        project = basis.Projection(KINDS[kind], n_basis, at)
        np.testing.assert_allclose(project(np.ascontiguousarray(stored)), want, atol=1e-12)
        assert project.indices.shape == (np.prod(n_basis), n_dims)


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
    assert isinstance(nodes.get("auto", 4), Sobol)
    assert nodes.get(MonteCarlo(7), 2) == MonteCarlo(7)
    with pytest.raises(ValueError, match=r"nodes: must be 'auto', 'grid', .* got 'lattice'"):
        nodes.get("lattice", 2)
    with pytest.raises(ValueError, match="1 to 3 dimensions, the points have 4; use nodes=Sobol"):
        Grid().resolve(4)
    with pytest.raises(ValueError, match=r"at least as many nodes as basis functions .*10.* got 4; use Grid\(20\)"):
        Grid(4).resolve(1, n_basis=(10,))
    with pytest.raises(ValueError, match=r"one a dimension \(3\), got \(4, 4\); give 3 sizes"):
        Grid((4, 4)).resolve(3)
    with pytest.raises(ValueError, match=r"Sobol\(n=...\): must be an integer in \[2"):
        Sobol(1).resolve(2)
    with pytest.raises(ValueError, match=r"basis: must be one of 'cosine', 'fourier' .* got 'haar'"):
        basis.get("haar")
