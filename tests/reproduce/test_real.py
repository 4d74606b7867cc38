"""The experiment on real tables, on small made-up data: readers, peers, and all of the way from steps to the page."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import distembed as de
from reproduce import real, real_sets, rivals
from reproduce.study import write_report

RNG = np.random.default_rng
# Searches that take less time.
SMALLER = {
    "statistics + forest": {"n_trees": 20},
    "statistics + boosting": {"most_trees": 15},
    "DeepSets": {"networks": rivals.NETWORKS[:2]},
}


def easy_bags(n_bags=30, n_points=12, n_classes=2, seed=0):
    """Classes differ in mean and deviation of the first of four columns, in units that differ."""
    rng, y = RNG(seed), np.arange(n_bags) % n_classes
    points = rng.normal(size=(n_bags, n_points, 4))
    points[..., 0] = points[..., 0] * (1 + y)[:, None] + 4 * y[:, None]
    return de.Bags.from_arrays(points * [1000, 1, 1, 0.001]), y


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def write_long(folder, name, bags, y, label, part=None):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    owner = np.repeat([f"b{i}" for i in range(bags.n_bags)], bags.sizes)
    columns = {"bag": owner.tolist(), **{f"f{j}": column for j, column in enumerate(bags.points.T)}}
    parquet.write_table(pyarrow.table(columns), folder / f"{name}.points.parquet")
    rows = [[f"b{i}", value, *([part[i]] if part else [])] for i, value in enumerate(y)]
    write_csv(folder / f"{name}.labels.csv", ["bag", label, *(["part"] if part else [])], rows[::-1])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of two of the sets, made up: one with folds, one with a published split."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "real").mkdir()
    bags, y = easy_bags()
    write_long(folder / "real", "musk1", bags, y, "label")
    bags, y = easy_bags(36, n_classes=3)
    write_long(folder / "real", "japanese_vowels", bags, y, "speaker", ["train"] * 18 + ["test"] * 18)
    return folder


# --------------------------------------------------------------------------------------------------------------
# Sets
# --------------------------------------------------------------------------------------------------------------


def test_labels_follow_bags_whatever_their_order(data):
    files = [data / "real" / f"japanese_vowels.{kind}" for kind in ("points.parquet", "labels.csv")]
    bags, y, train = real_sets.read_long(*files, label="speaker", part="part")
    assert bags.n_bags == 36
    assert y.tolist() == [str(i % 3) for i in range(36)]
    np.testing.assert_array_equal(train, np.arange(36) < 18)


def test_categorical_columns_are_read_as_such(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"bag": ["a", "a", "b"], "x": [0.0, 1.0, 2.0], "sx": ["f", "m", "f"]})
    parquet.write_table(table, tmp_path / "points")
    write_csv(tmp_path / "labels", ["bag", "sector"], [["b", "Public"], ["a", "Catholic"]])
    bags, y, train = real_sets.read_long(tmp_path / "points", tmp_path / "labels", label="sector", categorical=("sx",))
    assert bags.category_labels == {"sx": ("f", "m")}
    assert y.tolist() == ["Catholic", "Public"]
    assert train is None
    assert real_sets.with_indicators(bags).points.tolist() == [[0, 0], [1, 1], [2, 0]]


def test_cells_of_donors(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"PC1": [1.0, 2.0, 3.0], "PC2": [4.0, 5.0, 6.0], "sample_id": ["d", "c", "d"]}
    parquet.write_table(pyarrow.table({**columns, "phenotype": ["ill", "well", "ill"]}), tmp_path / "cells")
    bags, y, _ = real_sets.read_cells(tmp_path / "cells")
    assert dict(zip(bags.ids.tolist(), y.tolist(), strict=True)) == {"d": "ill", "c": "well"}
    assert bags.n_dims == 2


def test_an_h5ad_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = np.arange(6.0).reshape(3, 2)
        file["var/_index"] = ["g", "h"]
        file["var"].attrs["_index"] = "_index"
        file["obs/_index"] = ["1", "2", "3"]
        file["obs"].attrs["_index"] = "_index"
        file["obs/sampleID"], file["obs/status"] = ["p", "q", "p"], ["ill", "well", "ill"]
    bags, y, _ = real_sets.read_anndata(tmp_path / "a.h5ad", bag="sampleID", label="status")
    assert y.tolist() == ["ill", "well"]
    assert bags[0].tolist() == [[0, 1], [4, 5]]


def test_fcs_files_and_their_split(tmp_path, monkeypatch):
    ids = ["s1.fcs", "s2.fcs"]
    monkeypatch.setattr(
        de.Bags, "from_fcs", classmethod(lambda cls, folder: cls(np.eye(2), [0, 1, 2], ids=ids)), raising=False
    )
    write_csv(
        tmp_path / "fcs_info.csv", ["fcsName", "Label", "dataset"], [["s2.fcs", "b", "test"], ["s1.fcs", "a", "train"]]
    )
    _, y, train = real_sets.read_fcs(tmp_path)
    assert y.tolist() == ["a", "b"]
    assert train.tolist() == [True, False]


def test_digits_weigh_their_ink():
    from sklearn.datasets import load_digits

    bags, y, _ = real_sets.read_digits()
    image = load_digits().images[0]
    assert bags.weights_of(0).sum() == image.sum()
    down, right = np.indices(image.shape)
    centre = [(image * (right + 0.5)).sum() / image.sum() / 8, (image * (down + 0.5)).sum() / image.sum() / 8]
    np.testing.assert_allclose(np.average(bags[0], axis=0, weights=bags.weights_of(0)), centre)
    assert len(y) == 1797


# --------------------------------------------------------------------------------------------------------------
# Peers
# --------------------------------------------------------------------------------------------------------------


def test_statistics_of_weighted_points_are_those_of_copies():
    points, weights = np.array([[1.0, 5.0], [2.0, 4.0], [4.0, 0.0]]), np.array([1.0, 2.0, 1.0])
    one = rivals.statistics(de.Bags(points, [0, 3], weights=weights))
    copies = rivals.statistics(de.Bags(points[[0, 1, 1, 2]], [0, 4]))
    np.testing.assert_allclose(one[:, :4], copies[:, :4])  # means and deviations
    quantiles = one[0, 4:].reshape(7, 2)
    assert quantiles[[0, 3, 6]].tolist() == [[1, 0], [2, 4], [4, 5]]
    assert (np.diff(quantiles, axis=0) >= 0).all()
    means = rivals.means(de.Bags(points, [0, 3], weights=weights))
    np.testing.assert_allclose(means, one[:, :2])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rival", rivals.RIVALS, ids=lambda rival: rival.name)
def test_every_peer_learns_what_is_easy(rival, n_classes):
    if rival.missing:
        pytest.skip(rival.missing)
    bags, y = easy_bags(48, n_classes=n_classes)
    with threadpool_limits(1):
        model = rival.make(0, "balanced", **SMALLER.get(rival.name, {})).fit(bags[:36], y[:36])
        assert np.mean(model.predict(bags[36:]) == y[36:]) > 0.8


def test_a_witness_is_enough_whichever_class_has_it():
    rng, y = RNG(0), np.arange(40) % 2
    points = rng.normal(size=(40, 6, 2))
    points[y == 0, 2] += 6  # the positive class is the first one
    bags = de.Bags.from_arrays(points)
    model = rivals.MISVM(0).fit(bags[:24], y[:24])
    assert [*model.machines] == [0]
    np.testing.assert_array_equal(model.predict(bags[24:]), y[24:])


@pytest.mark.parametrize("rival", [rival for rival in rivals.RIVALS if rival.name != "DeepSets"], ids=lambda r: r.name)
def test_every_peer_takes_a_handful_of_bags(rival):
    """Ten bags, as in the smallest of the sets: no fold has fewer bags than a setting asks for."""
    bags, y = easy_bags(14)
    made = rival.make(0, None, **SMALLER.get(rival.name, {}))
    with threadpool_limits(1):
        assert set(made.fit(bags[:10], y[:10]).predict(bags[10:])) <= {0, 1}


def test_peers_that_bags_do_not_suit():
    by_name = {rival.name: rival for rival in rivals.RIVALS}
    plain, _ = easy_bags()
    weighted = de.Bags(plain.points, plain.offsets, weights=np.ones(plain.n_points))
    single = de.Bags([[0.0], [1.0], [2.0]], [0, 1, 3])
    assert by_name["GloScope"].unfit(plain) == ""
    assert by_name["GloScope"].unfit(single) == "1 bags have one point, which has no neighbour"
    assert "weights" in by_name["GloScope"].unfit(weighted)
    assert "weights" in by_name["MI-SVM"].unfit(weighted)
    assert by_name["statistics + SVM"].unfit(weighted) == ""


def test_folds_are_fewer_for_rare_classes():
    assert rivals.folds_of(np.repeat([0, 1], [20, 3]), 0).get_n_splits() == 3
    assert rivals.folds_of(np.repeat([0, 1], [20, 30]), 0).get_n_splits() == 5


# --------------------------------------------------------------------------------------------------------------
# Scores
# --------------------------------------------------------------------------------------------------------------


def outcome(truth, predicted, fold, repeat=0, seconds=1.0):
    step = {"truth": np.array(truth), "predicted": np.array(predicted), "fold": np.array(fold), "repeat": repeat}
    return real.Outcome([{**step, "fit_seconds": np.array([seconds])}])


def test_losses_are_those_of_balanced_accuracy():
    from sklearn.metrics import balanced_accuracy_score

    rng = RNG(0)
    truth, predicted = rng.integers(3, size=50), rng.integers(3, size=50)
    expected = balanced_accuracy_score(truth, predicted)
    assert 1 - real.balanced_losses(truth, predicted).mean() == pytest.approx(expected)


def test_differences_are_corrected_for_overlapping_folds():
    truth, fold = [0, 1] * 10, np.repeat(np.arange(5), 4)
    wrong = np.array(truth)
    wrong[[0, 5, 8]] = 1 - wrong[[0, 5, 8]]
    one, other = outcome(truth, truth, fold), outcome(truth, wrong, fold)
    found = one.less(other)
    differences = np.array([0.25, 0.25, 0.25, 0, 0])
    assert found.mean == pytest.approx(differences.mean())
    half = 2.7764 * differences.std(ddof=1) * np.sqrt(1 / 5 + 1 / 4)  # Student's t with 4 degrees of freedom
    assert found.interval()[1] - found.mean == pytest.approx(half, rel=1e-4)
    assert other.less(one) == pytest.approx((-found.mean, found.error, 4))


def test_only_common_folds_are_compared():
    truth, fold = [0, 1] * 4, np.repeat([0, 1], 4)
    one, other = outcome(truth, truth, fold), outcome(truth, truth, fold)
    one.scores[1, 0], one.scores[1, 1] = 0.0, 0.0  # a second repeat
    assert one.less(other).mean == 0


def test_a_published_split_counts_test_bags():
    found = outcome([0, 1, 0, 1, 1], [-1, -1, 0, 1, 0], [-1, -1, 0, 0, 0])
    assert (found.n_right, found.n_test) == (2, 3)
    assert found.mean().mean == found.score == pytest.approx(0.75)
    low, high = found.mean().interval()
    assert low <= found.score <= high


def test_equal_scores_share_a_rank():
    truth, fold = [0, 1] * 4, np.repeat([0, 1], 4)
    good, bad = outcome(truth, truth, fold), outcome(truth, [0] * 8, fold)
    ranks = real.mean_ranks({"s": {"a": bad, "b": good, "c": good}, "t": {"a": good, "b": bad}})
    assert ranks == {"c": (1.5, 1), "b": (1.75, 2), "a": (2.0, 2)}


# --------------------------------------------------------------------------------------------------------------
# From steps to the page
# --------------------------------------------------------------------------------------------------------------


class Tiny(real.Experiment):
    sets = ("musk1", "japanese_vowels")
    methods = ("mean", "JS", "means + logistic")
    n_repeats = 2


def test_from_steps_to_page(data, tmp_path):
    study = Tiny(data=data, cache=tmp_path / "cache")
    steps = study.checked_steps()
    assert [step.name for step in steps[-4:]] == ["musk1: means + logistic, repeat 1"] + [
        f"japanese_vowels: {method}" for method in Tiny.methods
    ]
    for step in study.missing():
        study.run(step)
    assert study.missing() == []
    results = study.results()
    found = results["musk1: mean, repeat 1"]
    assert sorted(np.bincount(found["fold"])) == [6] * 5
    assert not np.array_equal(found["fold"], results["musk1: mean, repeat 0"]["fold"])
    np.testing.assert_array_equal(found["fold"], results["musk1: means + logistic, repeat 1"]["fold"])  # paired
    published = results["japanese_vowels: mean"]
    np.testing.assert_array_equal(published["fold"], np.repeat([-1, 0], 18))
    report = study.report(results)
    scores, differences, described, left_out = report.tables
    assert [row[0] for row in scores.rows] == ["mean", "means + logistic"]
    assert left_out.rows == [("JS", name, "4 columns are too many for a joint density") for name in Tiny.sets]
    assert len(differences.rows) == 4
    assert {row[6] for row in differences.rows} == {"mean"}
    assert described.rows[0][:6] == ("musk1", real.BY_NAME["musk1"].what, 30, 360, 4, 2)
    assert sum("of 18 test bags" in finding for finding in report.findings) == 1
    assert report.findings[0].startswith("Mean rank of the mean scores over 2 sets")
    written = write_report(report, "real", tmp_path / "results")
    assert [path.name for path in written] == [
        "real.md", "real_scores.csv", "real_differences.csv", "real_sets.csv", "real_left_out.csv",
    ]  # fmt: skip


def test_what_can_not_be_run_is_told(data, tmp_path, monkeypatch):
    class Wide(Tiny):
        sets, methods, n_repeats = ("musk1",), ("mean", "refusing", "absent"), 1

    made = {
        "mean": real.METHODS["mean"],
        "refusing": rivals.Contender("refusing", None, lambda bags: f"{bags.n_dims} columns are too many"),
        "absent": rivals.Contender("absent", None, missing="PyTorch is not installed"),
    }
    monkeypatch.setattr(real, "METHODS", made)
    study = Wide(data=data, cache=tmp_path)
    assert [step.name for step in study.steps()] == ["musk1: mean, repeat 0", "musk1: refusing, repeat 0"]
    for step in study.missing():
        study.run(step)
    left_out = study.report(study.results()).tables[-1]
    assert left_out.rows == [
        ("absent", "all", "PyTorch is not installed"), ("refusing", "musk1", "4 columns are too many"),
    ]  # fmt: skip


def test_classes_weigh_the_same_where_the_set_says_so(data, tmp_path, monkeypatch):
    seen = []

    class Watching:
        def fit(self, bags, y):
            return self

        def predict(self, bags):
            return np.zeros(bags.n_bags, int)

    def make(seed, class_weight):
        seen.append((seed, class_weight))
        return Watching()

    monkeypatch.setattr(real, "METHODS", {"watching": rivals.Contender("watching", make)})
    for balanced in (False, True):
        changed = real_sets.RealSet(*list(vars(real.BY_NAME["musk1"]).values())[:4], balanced)
        monkeypatch.setitem(real.BY_NAME, "musk1", changed)

        class One(Tiny):
            sets, methods, n_repeats = ("musk1",), ("watching",), 1

        study = One(data=data, cache=tmp_path)
        study.run(study.steps()[0])
    assert seen == [(0, None)] * 5 + [(0, "balanced")] * 5


def test_steps_need_no_data_but_computing_does(tmp_path, monkeypatch):
    monkeypatch.delenv("DISTEMBED_DATA", raising=False)
    study = real.Experiment(cache=tmp_path)
    assert len(study.checked_steps()) > 200
    with pytest.raises(FileNotFoundError, match=r"real: needs real data; .*--data.*docs/experiments\.md"):
        study.run(study.steps()[0])
    with pytest.raises(FileNotFoundError, match=r"hsb82\.points\.parquet is not there; docs/experiments\.md tells"):
        real.Experiment(data=tmp_path, cache=tmp_path).steps()[0].compute()


def test_all_sets_are_compared_with_one_method():
    """A set on which it was not run is not compared with another of ours instead."""
    truth, fold = [0, 1] * 4, np.repeat([0, 1], 4)
    step = {"truth": np.array(truth), "predicted": np.array(truth), "fold": fold, "repeat": 0}
    step |= {"fit_seconds": np.ones(2), "n_points": 8, "n_dims": 1, "n_classes": 2}
    there = [("musk1", "mean"), ("musk1", "GloScope"), ("hsb82", "MMD"), ("hsb82", "mean"), ("hsb82", "GloScope")]
    results = {f"{name}: {method}": {**step, "set": name, "method": method} for name, method in there}
    sets = {name: real.BY_NAME[name] for name in ("musk1", "hsb82")}
    report = real.make_report("", results, sets, ["MMD", "mean", "GloScope"], ["MMD", "mean"], {})
    compared = [(row[0], row[1], row[-2]) for row in report.tables[1].rows if row[-2] is not None]
    assert compared == [("hsb82", method, "equal within the margin") for method in ("mean", "GloScope")]
    assert "over the 2 comparisons on this page" in report.introduction
    assert [line.partition(":")[0] for line in report.findings[1:]] == ["hsb82"]
    assert "MMD 2.0 (of 1 sets)" in report.findings[0]
    assert report.findings[0].endswith("Ranks over fewer sets do not compare with the others.")


def test_no_result_is_a_page_too(tmp_path):
    report = real.Experiment(cache=tmp_path).report({})
    assert report.findings == ["No method has been run yet."]
