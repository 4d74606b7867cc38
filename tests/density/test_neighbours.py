"""Nearest neighbour densities against brute force."""

import numpy as np
import pytest
from scipy import stats

from distembed import Grid, as_bags
from distembed.compute.arrays import bags_first
from distembed.density import KNN, neighbours
from distembed.density.neighbours import BagNeighbours

float64 = np.dtype(float)


def values(estimate, nodes, bags, h=0.1, dtype=float64):
    prepared = estimate.prepare(nodes, None if h is None else np.full(bags.n_dims, h), dtype)
    return bags_first(prepared(bags, None, None)).reshape(bags.n_bags, -1)


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
def test_neighbours_are_brute_force(n_dims, n, k, least):
    rng = np.random.default_rng(0)
    points, nodes = rng.uniform(size=(n, n_dims)), rng.uniform(size=(30, n_dims))
    for weights in (np.ones(n), rng.uniform(0.1, 3, n)):
        one = KNN(k, least).of(points, weights / weights.sum(), None)
        want = brute_neighbours(points, weights, k, nodes, least)
        np.testing.assert_allclose(one.pdf(nodes), want, rtol=1e-10)
        one.block_pairs = 7
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
