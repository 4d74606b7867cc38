"""Classes that have an order."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de

ORDER = ["poor", "fair", "good", "best"]
VIEWS = ["mean", "statistics"]


@pytest.fixture(scope="module")
def grades():
    rng = np.random.default_rng(0)
    shift = rng.uniform(-2, 2, 140)
    points = rng.normal(shift[:, None, None], 1, (140, 15, 2))
    return points, np.array(ORDER)[np.digitize(shift + 0.4 * rng.normal(size=140), [-1, 0, 1])]


def learner(embedding=VIEWS, **more):
    return de.DistributionClassifier(embedding, random_state=0, **more)


def test_heads_of_ranks_join_the_candidates_and_classes_stay_sorted(grades, tmp_path):
    points, y = grades
    model = learner(ordered=ORDER).fit(points[:90], y[:90])
    names = [row["name"] for row in model.leaderboard_]
    assert {"statistics, ordered-rbf", "statistics, ordered-extra-trees", "mean, ordered-linear"} <= set(names)
    assert any(row["weight"] > 0 and "ordered" in row["name"] for row in model.leaderboard_)
    assert model.classes_.tolist() == sorted(ORDER)
    assert model.targets_.ranks.tolist() == [3, 1, 2, 0]
    shares = model.predict_proba(points[90:])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert model.score(points[90:], y[90:]) > 0.5
    de.save(model, tmp_path / "m.distembed")
    np.testing.assert_array_equal(de.load(tmp_path / "m.distembed").predict_proba(points[90:]), shares)
    model.refit(points, y)
    assert model.predict_set(points).any(axis=1).all()
    assert not any("ordered" in row["name"] for row in learner().fit(points[:90], y[:90]).leaderboard_)


def test_a_row_by_its_name_and_lists(grades):
    points, y = grades
    row = learner("statistics, ordered-rbf", ordered=ORDER).fit(points, y)
    assert row.leaderboard_[0]["name"] == "statistics, ordered-rbf"
    listed = learner(["mmd", "mean, ordered-rbf"], ordered=ORDER).fit(points, y)
    assert {"mmd, ordered-rbf", "mean, ordered-rbf"} <= {each["name"] for each in listed.leaderboard_}


@pytest.mark.parametrize("ordered", [["poor", "fair", "good"], [*ORDER, "super"], ["poor", "fair", "good", "good"]])
def test_an_order_names_each_class_once(grades, ordered):
    with pytest.raises(ValueError, match=r"ordered=\.\.\.\): must list the classes of y, \['best', .*each once"):
        learner(ordered=ordered).fit(*grades)


def test_an_order_acts_or_is_refused(grades):
    with pytest.raises(TypeError, match=r"must be a list of all classes from low to high, got 'best'"):
        learner(ordered="best").fit(*grades)
    for embedding in ("js", "mean, rbf", ["mean, rbf", "mean, linear"]):
        with pytest.raises(ValueError, match=r"ordered=.*applies where candidates compete"):
            learner(embedding, ordered=ORDER).fit(*grades)
    with pytest.raises(ValueError, match="'ordered-rbf' is not a head"):
        learner("mean, ordered-rbf").fit(*grades)
    assert not hasattr(learner(ordered=ORDER), "fit_batches")
    numbers = np.array([ORDER.index(name) for name in grades[1]])
    model = learner(ordered=[3, 2, 1, 0]).fit(grades[0], numbers)
    assert model.classes_.tolist() == [0, 1, 2, 3]
