"""Distances to landmarks: against their definition, with the draws and the units that they allow."""

import numpy as np
import pytest

import distembed as de

RNG = np.random.default_rng(0)
BAGS = de.Bags.from_arrays([RNG.normal(size=(n, 3)) for n in RNG.integers(1, 9, size=12)])


def plain(bag, landmark):
    return min(np.linalg.norm(x - z) for x in bag for z in landmark)


def test_features_are_those_of_the_definition():
    found = de.LandmarkEmbedding(random_state=0).fit(BAGS).transform(BAGS[3:7])
    want = [[plain(bag, landmark) for landmark in BAGS] for bag in BAGS[3:7]]
    np.testing.assert_allclose(found, np.array(want) / np.sqrt(12), atol=1e-12)


def test_landmarks_and_their_points_are_drawn():
    embedding = de.LandmarkEmbedding(5, max_points=2, random_state=0).fit(BAGS)
    assert embedding.transform(BAGS).shape == (12, 5)
    assert embedding.landmarks_.n_points <= 10
    again = de.LandmarkEmbedding(5, max_points=2, random_state=0).fit(BAGS)
    np.testing.assert_array_equal(again.transform(BAGS), embedding.transform(BAGS))


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1e150, 1e300])
def test_units_scale_the_features(unit):
    plain = de.LandmarkEmbedding().fit_transform(BAGS)
    found = de.LandmarkEmbedding().fit_transform(BAGS.replace(points=BAGS.points * unit))
    np.testing.assert_allclose(found / unit, plain, rtol=1e-12)


def test_weightless_points_do_not_count():
    large = int(np.argmax(BAGS.sizes))
    weights = np.ones(BAGS.n_points)
    weights[BAGS.offsets[large]] = 0
    found = de.LandmarkEmbedding().fit_transform(BAGS.replace(weights=weights))
    without = [bag[1:] if i == large else bag for i, bag in enumerate(BAGS)]
    np.testing.assert_allclose(found, de.LandmarkEmbedding().fit_transform(without), atol=1e-12)


def test_one_point_that_tells_is_found_where_means_and_quantiles_see_little():
    rng = np.random.default_rng(1)
    y = np.arange(120) % 2
    points = rng.normal(size=(120, 30, 4))
    points[y == 1, 0] = rng.normal([2.5, 2.5, 2.5, 2.5], 0.1, size=(60, 4))
    model = de.DistributionClassifier("landmarks", random_state=0).fit(points[:80], y[:80])
    assert model.score(points[80:], y[80:]) > 0.9


def test_bad_parameters_are_named():
    for given in ({"n_landmarks": 0}, {"max_points": 0}):
        with pytest.raises(ValueError, match=r"LandmarkEmbedding\(" + next(iter(given))):
            de.LandmarkEmbedding(**given).fit(BAGS)
