"""Sizes of bags as information: what candidates see of them, when they count, and how they are kept out."""

from __future__ import annotations

import re

import numpy as np
import pytest

import distembed as de
from distembed.learners.size import LEAST_SPREAD, SizeEmbedding, describe_sizes, log_sizes, share_of_sizes, size_weight


@pytest.fixture(autouse=True, scope="module")
def few_folds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)  # folds are drawn once
        yield


def plots(n_bags=60, seed=0, weighted=False):
    """The target is the logarithm of the number of points, and the mean of the first column."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 40, size=n_bags)
    shift = rng.normal(size=n_bags)
    arrays = [rng.normal([m, 0], 1, size=(n, 2)) for n, m in zip(sizes, shift, strict=True)]
    weights = [rng.uniform(0.5, 1.5, size=n) for n in sizes] if weighted else None
    bags = de.Bags.from_arrays(arrays, weights=weights, ids=[f"p{i}" for i in range(n_bags)])
    return bags, 2 * np.log(sizes) + shift


def learner(*args, kind=de.DistributionRegressor, **parameters):
    return kind(*args, random_state=0, n_jobs=1, **parameters)


@pytest.fixture(scope="module")
def model():
    return learner().fit(*plots())


def slow_log_sizes(bags):
    """One bag after the other."""
    rows = []
    for i in range(bags.n_bags):
        w = bags.weights_of(i)
        w = np.ones(bags.sizes[i]) if w is None else np.asarray(w, float)
        rows.append([np.log((w > 0).sum()), np.log(w.sum()), np.log(w.sum() ** 2 / (w**2).sum())])
    return np.array(rows)


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_logarithms_are_those_of_each_bag(unit):
    bags, _ = plots(20, weighted=True)
    weights = bags.weights.copy()
    weights[::5] = 0
    bags = bags.replace(weights=weights)
    found = log_sizes(bags.replace(weights=weights * unit)) - [0, np.log(unit), 0]
    np.testing.assert_allclose(found, slow_log_sizes(bags), atol=1e-12)


def test_columns_are_those_that_vary():
    bags, _ = plots(30, weighted=True)
    sums = np.add.reduceat(bags.weights, bags.offsets[:-1])
    shares = bags.replace(weights=bags.weights / np.repeat(sums, bags.sizes))
    names = {"log_n", "log_weight", "log_effective_n"}
    assert set(SizeEmbedding().fit(bags).get_feature_names_out()) == names
    assert set(SizeEmbedding().fit(shares).get_feature_names_out()) == names - {"log_weight"}
    assert SizeEmbedding().fit(bags.replace(weights=None)).get_feature_names_out().tolist() == ["log_n"]
    rows = SizeEmbedding().fit_transform(bags)
    np.testing.assert_allclose([rows.mean(axis=0), rows.std(axis=0)], [[0] * 3, [1] * 3], atol=1e-12)
    rounded = shares.replace(weights=np.round(shares.weights, 4))  # fractions as tables have them
    assert log_sizes(rounded)[:, 1].std() < LEAST_SPREAD


@pytest.fixture(scope="module")
def blind():
    return learner(sizes=False).fit(*plots())


def test_sizes_are_found_where_they_matter(model, blind):
    bags, y = plots(80, seed=1)
    assert model.score(bags, y) > 0.8
    assert model.score(bags, y) > blind.score(bags, y) + 0.05
    assert "size" in model.model_.views
    assert size_weight(model.model_) > 0.5
    assert 0.4 < share_of_sizes(model.leaderboard_) < 0.9
    names = [row["name"] for row in model.leaderboard_]
    assert {"size, linear", "size, rbf", "statistics + size, rbf"} <= set(names)


def test_false_is_the_code_without_them(model, blind):
    bags, y = plots(24)
    one_size = de.Bags.from_arrays([bags[i][:4] for i in range(bags.n_bags)])
    usual, without = (learner(sizes=sizes).fit(one_size, y) for sizes in ("auto", False))
    assert usual.leaderboard_ == without.leaderboard_  # bags of one size have no such candidates
    np.testing.assert_array_equal(usual.predict(one_size), without.predict(one_size))
    assert not any("size" in row["name"] for row in usual.leaderboard_)
    others = {row["name"]: row["score"] for row in model.leaderboard_.candidates if "size" not in row["name"]}
    assert others == {row["name"]: row["score"] for row in blind.leaderboard_.candidates}


def test_true_shows_them_to_every_candidate():
    bags, y = plots()
    for embedding in (["mean", "covariance"], "mean", "mean, rbf"):
        found = learner(embedding, sizes=True).fit(bags, y)
        names = [row["name"] for row in found.leaderboard_.candidates]
        assert all("size" in name for name in names if name != "constant")
        assert found.leaderboard_.ensemble["score"] > 0.6
    table = {"age": np.arange(60.0)}
    found = learner("mean", sizes=True).fit(bags, y, covariates=table)
    assert "mean + size + covariates, rbf" in [row["name"] for row in found.leaderboard_]
    assert found.predict(bags, covariates=table).shape == (60,)
    alone = learner("mean", sizes=True, tune=None).fit(bags, y)
    assert [member.views for member in alone.model_.members] == [("mean", "size")]


def test_covariates_stand_next_to_them():
    bags, y = plots()
    age = np.random.default_rng(3).normal(size=60)
    found = learner(["statistics", "size"]).fit(bags, y + age, covariates={"age": age})
    rows = {row["name"]: row["score"] for row in found.leaderboard_}
    assert rows["statistics + size + covariates, rbf"] > max(rows["statistics + size, rbf"], rows["covariates, rbf"])
    assert found.score(bags, y + age, covariates={"age": age}) > 0.7


def test_rows_and_lists_name_them():
    bags, y = plots()
    found = learner(["mean", "js", "size"]).fit(bags, y)
    names = {row["name"] for row in found.leaderboard_}
    assert {"mean + size, rbf", "js + size, rbf", "size, linear", "mean, rbf"} <= names
    row = learner("mean + size, rbf").fit(bags, y)
    scores = {each["name"]: each["score"] for each in found.leaderboard_}
    assert row.leaderboard_[0]["score"] == pytest.approx(scores["mean + size, rbf"])


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"sizes": "yes"}, "sizes=...): must be 'auto', True or False, got 'yes'; use 'auto'"),
        ({"embedding": "mean + size, rbf", "sizes": False}, "sees sizes, which sizes=False rules out; leave one"),
        ({"embedding": "constant", "sizes": True}, "something that looks at them; got bags of one size, or the con"),
        ({"embedding": "js, tuned-ridge", "sizes": True}, "sees no sizes; name the embedding alone: 'js'"),
    ],
)  # fmt: skip
def test_what_is_refused(parameters, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        learner(**parameters).fit(*plots())


@pytest.mark.parametrize("parameters", [{"sizes": True}, {"embedding": ["mean", "size"]}, {"embedding": "size, rbf"}])
def test_bags_of_one_size_are_refused_where_sizes_are_asked_for(parameters):
    with pytest.raises(ValueError, match="got bags of one size"):
        learner(**parameters).fit(np.zeros((20, 5, 2)) + np.arange(20.0)[:, None, None], np.arange(20.0))


def test_a_file_and_copies_know_them(model, tmp_path):
    bags, y = plots(20, seed=2)
    de.save(model, tmp_path / "m")
    again = de.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert describe_sizes(again) == describe_sizes(model) != ""
    assert again.refit(bags, y).predict(bags).shape == (20,)


def test_batches_and_weights():
    bags, y = plots(weighted=True)
    model = learner(["mean", "size"]).fit_batches(lambda: iter([(bags[:30], y[:30]), (bags[30:], y[30:])]))
    assert model.score(bags, y) > 0.8
    moved = bags.replace(weights=3 * bags.weights)  # all bags weigh more: another size
    assert not np.allclose(model.predict(moved), model.predict(bags))


def test_classes_and_categories():
    bags, _ = plots(60)
    points = np.column_stack([bags.points[:, 0], np.arange(bags.n_points) % 3])
    bags = de.Bags(points, bags.offsets, columns=["x", "kind"], categories={1: ["a", "b", "c"]})
    model = learner(["statistics", "size"], kind=de.DistributionClassifier).fit(bags[:40], (bags.sizes > 20)[:40])
    assert model.score(bags[40:], (bags.sizes > 20)[40:]) > 0.8
    assert 0.3 < share_of_sizes(model.leaderboard_) <= 1
    assert "of the log loss, and" in describe_sizes(model)


def test_the_sentence(model):
    said = describe_sizes(model)
    assert said.startswith("bag sizes alone explain ")
    assert said.endswith("% of the weight; if sizes are an artefact of sampling, fit with sizes=False")
    rng = np.random.default_rng(0)
    bags, _ = plots()
    shift = np.array([bags[i][:, 0].mean() for i in range(bags.n_bags)])
    without = learner(["mean", "size"]).fit(bags, 5 * shift + 0.1 * rng.normal(size=60))
    assert (share_of_sizes(without.leaderboard_), describe_sizes(without)) == (0, "")
    assert describe_sizes(learner("js", n_components=40).fit(*plots())) == ""
