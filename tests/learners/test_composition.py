"""Bags of points that come again: the shares of the distinct ones, and where there is such a view."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.learners.candidates import views_for
from distembed.learners.composition import CompositionEmbedding, distinct_points


def alloys(n_bags=60, n_elements=8, seed=0):
    """Fractions of elements, each described by three columns; a trace of the first one counts."""
    rng = np.random.default_rng(seed)
    elements = np.random.default_rng(9).normal(size=(n_elements, 3))
    arrays, weights, target = [], [], []
    for _ in range(n_bags):
        some = np.sort(rng.choice(n_elements, 5, replace=False))
        shares = rng.dirichlet(np.full(5, 0.5))
        arrays.append(elements[some])
        weights.append(shares)
        target.append(np.sqrt(shares[some == 0].sum()) - np.sqrt(shares[some == 1].sum()))
    return de.Bags.from_arrays(arrays, weights=weights), np.array(target)


def test_rows_are_roots_of_shares():
    bags, _ = alloys(20)
    rows = CompositionEmbedding().fit_transform(bags)
    assert rows.shape == (20, 9)
    np.testing.assert_allclose(np.sum(rows**2, axis=1), 1)
    distinct = np.unique(bags.points, axis=0)
    for i in range(20):  # one bag and one point after the other
        wanted = [bags.weights_of(i)[(bags[i] == point).all(axis=1)].sum() for point in distinct]
        np.testing.assert_allclose(np.sort(rows[i])[1:], np.sort(np.sqrt(wanted)), atol=1e-7)
    strange = bags.replace(points=bags.points + 1)
    np.testing.assert_allclose(CompositionEmbedding().fit(bags).transform(strange)[:, -1], 1)


def test_points_in_single_precision_are_known():
    bags, _ = alloys(20)
    made = CompositionEmbedding().fit(bags)
    np.testing.assert_allclose(made.transform(bags.astype(np.float32)), made.transform(bags), atol=1e-6)
    doubled = de.Bags.from_arrays([np.repeat(bags[i], 2, axis=0) for i in range(3)])
    plain = de.Bags.from_arrays([bags[i] for i in range(3)])
    np.testing.assert_allclose(made.transform(doubled), made.transform(plain))


@pytest.mark.parametrize(("values", "there"), [(1, False), (3, True), (50, False), (5000, False)])
def test_the_view_is_there_where_points_come_again(values, there):
    points = np.random.default_rng(0).integers(0, values, size=(20_000, 1)).astype(float)
    bags = de.Bags(points, np.arange(0, 20_001, 500))  # 40 bags
    assert (distinct_points(bags) is not None) == there
    assert any(view.name == "composition" for view in views_for(bags, 0, None)) == there


def test_shares_are_learned(tmp_path):
    bags, y = alloys()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)
        model = de.DistributionRegressor(["mean", "statistics", "composition"], random_state=0).fit(bags[:45], y[:45])
    assert "composition" in model.model_.views
    assert {"composition, extra-trees", "composition, rbf"} <= {row["name"] for row in model.leaderboard_}
    assert model.score(bags[45:], y[45:]) > 0.7
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict(bags), model.predict(bags))
