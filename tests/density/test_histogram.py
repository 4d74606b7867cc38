"""Histograms against their formula, and bins that do not fit the nodes."""

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

from distembed import Bags, Grid, HDDEmbedding, MonteCarlo, as_bags
from distembed.compute.arrays import bags_first
from distembed.density import KDE, KNN, Copula, Histogram, Mixture, Scored
from distembed.density.histogram import Boxes, overlaps

float64 = np.dtype(float)


def make(n_dims, sizes=(60, 1, 7), weighted=False):
    rng = np.random.default_rng(n_dims)
    arrays = [rng.beta(0.8, 1.5, size=(n, n_dims)) for n in sizes]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0, 2, n) + 0.01 for n in sizes] if weighted else None)


def values(estimate, nodes, bags, h=0.1, dtype=float64):
    prepared = estimate.prepare(nodes, None if h is None else np.full(bags.n_dims, h), dtype)
    return bags_first(prepared(bags, None, None)).reshape(bags.n_bags, -1)


def scattered(n_dims, n=200, kind=MonteCarlo):
    return kind(n).resolve(n_dims, random_state=np.random.RandomState(0))


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
    for estimate in (Copula(), Mixture(), KNN(), Scored(KernelDensity(bandwidth=0.1))):
        estimate.warn_if_unresolved(Grid(2).resolve(2), np.full(2, 1e-3))


def test_bins_that_do_not_fit_the_nodes_warn():
    with pytest.warns(UserWarning, match=r"\(64,\) nodes is not a multiple of \(10,\) bins, .*choose nodes=Grid\(70\)"):
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
    model = HDDEmbedding("hellinger", n_basis=10, density=Histogram(20), nodes=Grid(10))
    with pytest.warns(UserWarning, match="finer than") as seen:
        model.fit(bags)
    fine = [warning for warning in seen if "finer than" in str(warning.message)]
    assert [warning.filename for warning in fine] == [__file__]
    model.transform(bags)  # where a warning would be an error
