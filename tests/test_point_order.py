"""A fit with a seed does not depend on the order of the points inside bags."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import distembed as de
from distembed.bags.point_order import draw_rows, order_points, sort_points
from distembed.density import KDE, MCMC, Importance, Pooled
from distembed.density.estimate import pool
from distembed.embeddings import catalogue
from distembed.embeddings.codebook import draw_evenly
from distembed.embeddings.fisher import draw_points

N_BAGS = 24
RNG = np.random.default_rng(0)
SPREAD = np.linspace(0.5, 1.5, N_BAGS)
FEW = {"codebook-js": {"n_words": 8, "max_points": 500}, "fisher": {"n_components": 4, "max_points": 500}}


@pytest.fixture(autouse=True)
def _same_draws():
    """Every test starts from one seed, whichever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def make_bags(kind, n_dims=2):
    """Bags of 60 to 83 points in the unit cube, more in all than any embedding here looks at to fit."""
    drawn = [RNG.normal(0.5, 0.1 * spread, size=(60 + i, n_dims)) for i, spread in enumerate(SPREAD)]
    points = np.clip(np.concatenate(drawn), 0, 1)
    weights = None
    if kind == "integers":
        points = np.round(points * 8) / 8
    if kind == "weights":
        points[:, 0] = np.round(points[:, 0] * 8) / 8
        weights = RNG.choice([0.5, 1.0, 2.0], len(points))
    return de.Bags(points, np.append(0, np.cumsum(60 + np.arange(N_BAGS))), weights)


def shuffle(bags):
    """The same bags, the points of each in another order."""
    rows = np.concatenate([start + RNG.permutation(n) for start, n in zip(bags.offsets, bags.sizes, strict=False)])
    return bags.replace(points=bags.points[rows], weights=None if bags.weights is None else bags.weights[rows])


def require_same(found, wanted, tolerance=1e-6):
    """Compare within a millionth of the largest deviation of a column."""
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * max(wanted.std(axis=0).max(), 1e-9)


@pytest.mark.parametrize("kind", ["floats", "integers", "weights"])
@pytest.mark.parametrize("name", list(catalogue.available()))
def test_embeddings_do_not_depend_on_the_order_of_points(name, kind):
    embedding = de.embeddings.get(name, **FEW.get(name, {}))
    if "random_state" in embedding.get_params():
        embedding.set_params(random_state=0)
    bags = make_bags(kind)
    new = make_bags("floats")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.asarray(embedding.fit(bags).transform(new))
        require_same(np.asarray(embedding.fit(shuffle(bags)).transform(new)), wanted)


@pytest.mark.parametrize("nodes", [Importance(512), MCMC(512, n_chains=64, burn_in=20)])
def test_drawn_nodes_do_not_depend_on_the_order_of_points(nodes):
    bags = make_bags("floats", 4)
    embedding = de.HDDEmbedding("js", n_basis=2, bandwidth=0.1, nodes=nodes, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = embedding.fit(bags).transform(bags)
        require_same(embedding.fit(shuffle(bags)).transform(bags), wanted)


@pytest.mark.parametrize("name", ["auto", "fisher", "mmd"])
def test_regressors_do_not_depend_on_the_order_of_points(name):
    bags = make_bags("floats")
    model = de.DistributionRegressor(name, random_state=0)
    wanted = model.fit(bags, SPREAD).predict(bags)
    require_same(model.fit(shuffle(bags), SPREAD).predict(bags)[:, None], wanted[:, None])


def test_classifiers_do_not_depend_on_the_order_of_points():
    bags = make_bags("integers")
    model = de.DistributionClassifier("auto", random_state=0)
    wanted = model.fit(bags, SPREAD > 1).predict_proba(bags)
    # Solvers stop at a tolerance: rounding of points alone moves probabilities by some millionths.
    require_same(model.fit(shuffle(bags), SPREAD > 1).predict_proba(bags), wanted, 1e-5)


@pytest.mark.parametrize("kind", ["floats", "integers", "weights", "units"])
@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_order_depends_on_values_alone(kind, n_dims):
    bags = make_bags(kind, n_dims)
    if kind == "units":
        bags = bags.replace(points=np.column_stack([1e12 * np.round(bags.points[:, 0], 1), 1e-9 * bags.points[:, 1:]]))
    found = sort_points(shuffle(bags))
    assert found == sort_points(bags)
    for i in range(N_BAGS):
        assert np.array_equal(np.unique(found[i], axis=0), np.unique(bags[i], axis=0))


def test_order_of_large_bags_is_that_of_small_ones():
    bags = de.Bags(np.round(RNG.normal(size=(2000, 2)), 1), [0, 900, 2000])
    many = de.Bags(bags.points, [0, 900, *range(901, 2001)])
    assert np.array_equal(bags.points[order_points(bags)[:900]], bags.points[order_points(many)[:900]])


def test_the_largest_points_are_in_order():
    points = np.array([[1.7e308, -1.7e308], [1.7e308, 1.7e308], [-1.7e308, 1.7e308], [1.7e308, 1.6e308]])
    wanted = sort_points(de.Bags(points, [0, 4]))
    assert wanted == sort_points(de.Bags(points[::-1], [0, 4]))


def test_copies_of_points_are_drawn_one_by_one():
    """The number of zeros among those drawn is hypergeometric: copies of a point neither come together nor once."""
    bags = de.Bags.from_arrays([np.repeat([0.0, 1.0, 2.0], [50, 30, 20]), np.repeat([0.0, 1.0], [10, 90])])
    rng = np.random.RandomState(0)
    counts = [np.sum(bags.points[draw_rows(bags, 40, rng)] == 0) for _ in range(2000)]
    assert abs(np.mean(counts) - 40 * 0.3) < 0.2
    assert abs(np.var(counts) - 40 * 0.3 * 0.7 * 160 / 199) < 0.8


@pytest.mark.parametrize("draw", [draw_points, lambda *args: draw_evenly(*args).points])
def test_even_draws_take_every_point_with_the_same_chance(draw):
    values = np.sort(RNG.integers(0, 5, size=(3, 97)), axis=1).astype(float)
    rng = np.random.RandomState(0)
    drawn = np.array([draw(de.as_bags(values[:, :, None]), 30, rng).reshape(3, 10) for _ in range(2000)])
    assert np.abs(drawn.mean(axis=(0, 2)) - values.mean(axis=1)).max() < 0.02


def test_pools_of_few_points_a_bag_reach_as_far_as_the_bags():
    bags = de.as_bags(RNG.normal(0.5, 0.1, size=(200, 300, 1)))
    pooled: Pooled = pool(KDE(), bags, np.array([0.05]), limit=400)
    assert abs(np.std(pooled.points) - 0.1) < 0.004
