"""Statistics of columns: quantiles against their definition, and inputs of all kinds."""

import numpy as np
import pytest

import distembed as de
from distembed import Bags
from distembed.embeddings.statistics import bag_quantiles

PROBABILITIES = np.array([0.0, 0.1, 0.25, 0.5, 0.8, 1.0])
RNG = np.random.default_rng(0)
POINTS, OFFSETS = RNG.normal(size=(60, 3)), np.arange(0, 61, 3)


def plain_quantiles(values, weights):
    """Linear between the ends of the flat parts of the distinct values, the lightest of which has none."""
    distinct = np.unique(values)
    mass = np.array([weights[values == value].sum() for value in distinct]) / weights.sum()
    upto, least = np.cumsum(mass), mass.min()
    places = np.column_stack([upto - mass, upto - least]).ravel()
    return np.interp(PROBABILITIES * (1 - least), places, np.repeat(distinct, 2))


@pytest.mark.parametrize("digits", [9, 0], ids=["distinct", "ties"])
@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_are_those_of_the_definition(digits, weighted):
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 9, size=40)
    offsets = np.append(0, np.cumsum(sizes))
    weights = rng.uniform(0.1, 2, size=offsets[-1]) if weighted else None
    bags = Bags(np.round(2 * rng.normal(size=(offsets[-1], 3)), digits), offsets, weights=weights)
    found = bag_quantiles(bags, PROBABILITIES)
    for i in range(bags.n_bags):
        own = np.ones(sizes[i]) if weights is None else bags.weights_of(i)
        want = np.stack([plain_quantiles(x, own) for x in bags[i].T], axis=1)
        np.testing.assert_allclose(found[i], want, atol=1e-12)


@pytest.mark.parametrize("values", [[0, 0, 0, 10], [3, 1, 2], [5], [1, 1, 2, 2, 2, 7]])
@pytest.mark.parametrize("copies", [1, 3])
def test_quantiles_are_those_of_numpy_whatever_the_copies(values, copies):
    found = bag_quantiles(Bags.from_arrays([np.repeat(np.array(values, float), copies)]), PROBABILITIES)
    np.testing.assert_allclose(found[0, :, 0], np.quantile(values, PROBABILITIES), atol=1e-12)


def test_chunks_change_nothing():
    bags = Bags(POINTS, OFFSETS)
    whole = de.StatisticsEmbedding().fit_transform(bags)
    embedding = de.StatisticsEmbedding()
    embedding.chunk_bytes = 1
    np.testing.assert_allclose(embedding.fit_transform(bags), whole)


INPUTS = {
    "one point per bag": Bags(POINTS, np.arange(61)),
    "one bag": Bags(POINTS, [0, 60]),
    "constant column": Bags(np.c_[POINTS, np.full(60, 7.0)], OFFSETS),
    "nothing but zeros": Bags(np.zeros((60, 2)), OFFSETS),
    "units of 1e300 and 1e-300": Bags(POINTS * [1e300, 1, 1e-300], OFFSETS),
    "one far point": Bags(np.r_[POINTS[:-1], [[1e300, 0, 0]]], OFFSETS),
    "far from zero": Bags(POINTS + 1e15, OFFSETS),
    "large float32": Bags((5e37 * POINTS).astype(np.float32), OFFSETS),
    "integers": Bags(np.round(POINTS), OFFSETS),
    "categories": Bags(np.c_[POINTS, np.arange(60) % 3], OFFSETS, categories={3: ["a", "b", "c"]}),
    "weights with zeros": Bags(POINTS, OFFSETS, weights=np.tile([0, 1, 0.0], 20)),
    "weights of all sizes": Bags(POINTS, OFFSETS, weights=np.tile([1e300, 1, 1e-300], 20)),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("scaler", [de.Standardize(), de.Standardize(robust=True), de.UnitCube(map="auto")], ids=repr)
def test_any_input_has_finite_statistics(name, scaler):
    bags = INPUTS[name]
    scaled = scaler.fit_transform(bags)
    assert np.isfinite(scaled.points).all()
    for given in (bags, scaled):
        if given.categories is None:
            assert np.isfinite(de.StatisticsEmbedding().fit_transform(given)).all()
