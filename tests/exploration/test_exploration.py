"""Exploring bags without labels: odd bags at their size, groups, maps, duplicates, means, nearest bags."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import spearmanr
from sklearn.exceptions import NotFittedError

import distembed as de
from distembed.exploration import near_duplicates
from distembed.exploration.mean_bag import _mixture
from distembed.files import load, save


def alike(n=300, seed=0, d=3, low=2, high=400):
    """Bags of one law, each with a mean of its own, of very unequal sizes."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(low), np.log(high), n)).astype(int)
    return [rng.normal(rng.normal(0, 0.5, d), 1, size=(m, d)) for m in sizes]


def two_kinds(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(3 * (i % 2), 1, size=(rng.integers(10, 90), 2)) for i in range(n)]


# -------------------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("updatable", [False, True])
def test_model_files_answer_for_new_bags_and_hold_no_ids(tmp_path, updatable):
    arrays, path = two_kinds(), tmp_path / "model"
    bags = de.Bags.from_arrays(arrays, ids=[f"secret {i}" for i in range(len(arrays))])
    new = de.as_bags(two_kinds(20, seed=1))
    odd, groups = de.OddBags(alpha=0.1).fit(bags), de.BagClusters().fit(bags)
    answers = {odd: (odd.pvalues, odd.score_samples, odd.decision_function, odd.predict), groups: (groups.predict,)}
    for model, methods in answers.items():
        save(model, path, updatable=updatable)
        assert not any("secret".encode(code) in path.read_bytes() for code in ("utf-8", "utf-16-le", "utf-32-le"))
        found = load(path)
        for method in methods:
            assert_array_equal(getattr(found, method.__name__)(new), method(new))
    assert [str(c) for c in found.columns_[0]] == [str(c) for c in groups.columns_[0]]
    if updatable:
        assert_array_equal(found.labels_, groups.labels_)
    else:
        pytest.importorskip("pandas")
        with pytest.raises(NotFittedError, match=r"save with updatable=True"):
            found.to_frame()


# ---------------------------------------------------------------------------------------------------------- odd
def test_oddness_does_not_depend_on_size_and_pvalues_are_uniform():
    sizes, oddness, p = [], [], []
    for seed in range(4):
        odd = de.OddBags().fit(alike(seed=seed))
        sizes.append(odd.reference_.sizes)
        oddness.append(odd.oddness_)
        p.append(odd.pvalues(de.as_bags(alike(100, seed=100 + seed))))
    assert abs(spearmanr(np.concatenate(sizes), np.concatenate(oddness)).statistic) < 0.1
    shares = [np.mean(np.concatenate(p) <= level) for level in (0.05, 0.2, 0.5)]
    assert_allclose(shares, [0.05, 0.2, 0.5], rtol=0.4)


def test_shifted_bags_of_all_sizes_and_wrong_values_are_found():
    arrays = alike(300, low=20)
    for i in (5, 50, 150):
        arrays[i] = arrays[i] + [0, 4, 0]
    arrays[77][0, 2] = -1e5
    odd = de.OddBags().fit(de.Bags.from_arrays(arrays, columns=["a", "b", "c"]))
    worst = np.argsort(odd.pvalues_, kind="stable")[:4]
    assert set(worst) == {5, 50, 77, 150}
    names = odd.likeness_.odd_columns
    assert names[77] == "c"
    assert [names[i] for i in (5, 50, 150)] == ["b", "b", "b"]


def test_scikit_learns_manners_for_outliers():
    bags, new = de.as_bags(alike(150)), de.as_bags(alike(20, seed=9))
    odd = de.OddBags(alpha=0.1).fit(bags)
    assert_array_equal(odd.predict(new), np.where(odd.pvalues(new) <= 0.1, -1, 1))
    assert_array_equal(np.argsort(odd.score_samples(new)), np.argsort(-odd.likeness(new).oddness))
    assert 5 <= (de.OddBags(alpha=0.1).fit_predict(bags) == -1).sum() <= 16
    assert ((odd.decision_function(new) < -1e-9) <= (odd.pvalues(new) <= 0.11)).all()
    assert_allclose(pickle.loads(pickle.dumps(odd)).pvalues(new), odd.pvalues(new))
    with pytest.raises(ValueError, match="at least 3 bags"):
        de.OddBags().fit(bags[:2])


# ------------------------------------------------------------------------------------------------------- groups
def test_groups_that_are_there_are_found_and_none_where_there_are_none():
    groups = de.BagClusters().fit(two_kinds())
    assert groups.n_clusters_ == 2
    assert len(set(groups.labels_[::2])) == len(set(groups.labels_[1::2])) == 1
    assert all(groups.labels_[i] == k for k, i in enumerate(groups.medoids_))
    assert_array_equal(groups.predict(two_kinds(10, seed=3)), groups.labels_[:10])
    assert de.BagClusters().fit(alike(100)).n_clusters_ == 1
    assert de.BagClusters(3).fit(alike(50)).n_clusters_ == 3


def test_hdbscan_and_other_embeddings_find_them_too():
    for more in ({"method": "hdbscan"}, {"embedding": "mmd"}, {"embedding": de.MomentEmbedding("mean")}):
        groups = de.BagClusters(**more).fit(two_kinds())
        assert groups.n_clusters_ == 2, more
        of = groups.labels_[::2], groups.labels_[1::2]
        assert not {*of[0]} & ({*of[1]} - {-1}), more
    with pytest.raises(ValueError, match="must be 'ranks', an embedding, or one of"):
        de.BagClusters(embedding="nothing").fit(two_kinds())


# -------------------------------------------------------------------------------------------------- explorations
@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    arrays = two_kinds(80)
    arrays[11][0, 1] = 5000.0
    arrays[20] = arrays[4][::-1]
    bags = de.Bags.from_arrays(arrays, columns=["u", "v"], ids=[f"p{i}" for i in range(80)])
    return de.explore(bags, factors={"kind": np.arange(80) % 2, "noise": rng.normal(size=80)})


def test_an_exploration_names_what_is_in_the_table(found):
    assert found.map.shape == np.asarray(found.map).shape == (80, 2)
    assert found.odd.pvalues.shape == found.sizes.shape == np.asarray(found.groups).shape == (80,)
    assert found.odd.pvalues.argmin() == 11
    assert found.summary["oddest"][0][:2] == ("p11", "v")
    assert found.map.far[11]
    assert found.map.columns[11] == "v"
    assert found.groups.n_groups == 2
    assert found.duplicates[0][:2] == (4, 20)
    assert found.factors["kind"][0] > 0.5 > found.factors["noise"][0]
    assert found.factors["kind"][1] < 0.01
    assert 0.5 < found.map.shown <= 1
    assert "p4 and p20" in repr(found)
    frame = found.to_frame()
    assert list(frame.index[:2]) == ["p0", "p1"]
    assert frame["pvalue"].idxmin() == "p11"


def test_far_bags_stand_at_the_edge_of_any_embedding():
    arrays = two_kinds(60)
    arrays[7] = arrays[7] + [1e6, 0]
    found = de.explore(de.Bags.from_arrays(arrays, columns=["u", "v"]), embedding=de.MomentEmbedding("mean"))
    others = np.delete(np.arange(60), 7)
    assert found.map.far[7]
    assert found.map.columns[7] == "u"
    assert np.ptp(found.map.xy[others, 0]) > 0.1 * np.ptp(found.map.xy[:, 0])  # no streak


def test_many_bags_and_tables_are_looked_at_in_batches(monkeypatch, tmp_path):
    bags = de.Bags.from_arrays(two_kinds(150), columns=["u", "v"])
    whole = de.explore(bags)
    monkeypatch.setattr("distembed.exploration.exploring.MOST_BAGS", 60)
    monkeypatch.setattr("distembed.exploration.exploring._AT_ONCE", 40)
    calls = []
    some = de.explore(bags, progress=lambda done, total: calls.append(done))
    assert calls
    assert some.sample.n_bags == 60
    assert some.map.shape == (150, 2)
    assert_array_equal(some.groups.labels == some.groups.labels[0], whole.groups.labels == whole.groups.labels[0])
    de.tables.write_table(bags.to_frame("pyarrow", "id"), tmp_path / "t.parquet")
    table = de.tables.open_bags(tmp_path / "t.parquet", bag="id")
    again = de.explore(table)
    assert_allclose(again.odd.pvalues, some.odd.pvalues)
    assert_array_equal(again.sizes, bags.sizes)


def test_what_is_not_a_table_of_bags_is_refused():
    with pytest.raises(ValueError, match="at least 3 bags"):
        de.explore(two_kinds(2))
    with pytest.raises(ValueError, match="axes"):
        de.explore(two_kinds(9), axes="tsne")
    with pytest.raises(ValueError, match=r"explore\(factors=...\)"):
        de.explore(two_kinds(9), factors={"site": [1, 2]})


# ------------------------------------------------------------------------------------- duplicates, nearest, means
def test_near_duplicates_are_those_that_share_most_rows():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(30, 2)) for _ in range(40)]
    arrays[9] = np.concatenate([arrays[2][:28], rng.normal(size=(2, 2))])  # 28 of 32
    arrays[10] = np.concatenate([arrays[3][:20], rng.normal(size=(10, 2))])  # 20 of 40
    assert [each[:2] for each in near_duplicates(arrays)] == [(2, 9)]
    expected = {
        (i, j): len({*map(tuple, a)} & {*map(tuple, b)}) / len({*map(tuple, a)} | {*map(tuple, b)})
        for (i, a), (j, b) in itertools.combinations(enumerate(arrays), 2)
    }
    assert_allclose(near_duplicates(arrays)[0].shared, expected[2, 9])
    labels = [rng.integers(0, 2, size=(6, 1)).astype(float) for _ in range(40)]
    assert not near_duplicates(labels)  # a handful of labels shows nothing


def test_distances_have_ids_and_nearest_bags_are_the_nearest():
    bags = de.Bags.from_arrays(two_kinds(12), ids=list("abcdefghijkl"))
    for divergence in ("ranks", "mmd", "hellinger"):
        found = de.distances_between(bags, divergence=divergence)
        matrix = np.asarray(found)
        assert found.to_frame().loc["a", "b"] == matrix[0, 1]
        assert_allclose(matrix, matrix.T, atol=1e-9)
        near = de.nearest_bags(bags, ["c", "a"], k=3, divergence=divergence)
        expected = np.argsort(np.where(np.eye(12) > 0, np.inf, matrix), axis=1, kind="stable")[[2, 0], :3]
        assert_array_equal(near.neighbours, expected)
        assert near.ids.tolist() == ["c", "a"]
        assert {*near.neighbour_ids[0]} <= {*"aegik"}
    assert len(de.nearest_bags(bags, bags[:2], k=1).to_frame()) == 2
    assert_array_equal(de.nearest_bags(bags, bags[:2], k=1).neighbours.ravel(), [0, 1])
    with pytest.raises(ValueError, match="no bag has the id 'z'"):
        de.nearest_bags(bags, "z")


def test_mean_bags():
    rng = np.random.default_rng(0)
    bags = de.as_bags([rng.normal([m, 0], 1, size=(300, 2)) for m in (-6, 0, 6)])
    middle = de.mean_bag(bags, "sliced", n_points=300)
    assert_allclose(middle.mean(axis=0), [0, 0], atol=0.2)
    assert_allclose(middle.std(axis=0), [1, 1], atol=0.15)
    assert de.mean_bag(bags)[:, 0].std() > 4
    weighted = de.Bags([[0.0], [1.0]], [0, 2], weights=[3.0, 1.0])
    assert_allclose(_mixture(weighted, 400, rng).mean(), 0.25, atol=0.01)
    one = np.array([[0.0], [1.0], [2.0]])
    line = np.sort(de.mean_bag([one, one + 4], "sliced", n_points=3).ravel())
    assert_allclose(line, [2, 3, 4], atol=0.5)
