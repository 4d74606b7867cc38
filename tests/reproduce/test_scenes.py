"""Scene-15: the squashing, machines from dot products, and the experiment on made-up activations."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from sklearn.svm import LinearSVC

import distembed as de
from distembed.compute.progress import SILENT
from reproduce import scene_kernels, scenes
from reproduce.activations import EARLIER, LAST, Activations, SquashedImages, slopes, squash
from reproduce.large_margins import fit_margins, random_splits, score_splits
from reproduce.scenes import make_report
from reproduce.study import write_report

N_FILTERS = 6
CATEGORIES = ("Bedroom", "Coast", "Street")
PER_CATEGORY = 14


# ----------------------------------------------------------------------------------------------- squashing


def test_percentiles_go_where_the_paper_wants_them():
    values = np.random.default_rng(0).gamma(2, 3, 5000) - 5
    marks = [0.0, np.quantile(values[values > 0], 0.9), np.quantile(values[values < 0], 0.1)]
    positive, negative = slopes(values)
    out = squash(np.array(marks)[:, None], np.array([positive]), np.array([negative]))
    assert np.allclose(out[:, 0], [0.5, 0.9, 0.1], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.0, 1.0], (logit(0.9), logit(0.9))),  # no negative ones
        ([-2.0, -2.0], (logit(0.9) / 2, logit(0.9) / 2)),  # no positive ones
        ([0.0, 0.0], (1.0, 1.0)),
        ([-1.0, 0.0, 4.0], (logit(0.9) / 4, logit(0.9))),  # a single one of each
    ],
)
def test_filters_of_one_sign(values, expected):
    assert np.allclose(slopes(np.array(values)), expected)


def test_half_precision_is_squashed_into_the_unit_interval():
    values = np.array([[65504.0], [-65504.0], [6e-8], [-6e-8], [0.0]], np.float16)
    for slope in (1e-3, 1e6):
        out = squash(values, np.array([slope]), np.array([slope]))
        assert out.dtype == np.float32
        assert out.min() >= 0
        assert out.max() <= 1
        assert out[4, 0] == 0.5


def test_images_are_the_same_by_filters_and_by_images(monkeypatch):
    images = fake_images()
    whole = images.some(np.arange(len(images)))
    columns = [bags.points for bags in images.by_filters(4)]
    assert np.array_equal(np.concatenate(columns, axis=1), whole.points)
    monkeypatch.setattr("reproduce.activations.CHUNK_BYTES", 2000)
    chunks = list(images.by_images())
    assert len(chunks) > 5
    assert de.concat(chunks) == whole


# ----------------------------------------------------------------------------------------------- machines


def problem(n=90, n_features=200, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), n // 3)
    x = rng.normal(size=(n, n_features)) + 1.5 * rng.normal(size=(3, n_features))[labels] * (
        rng.random(n_features) < 0.1
    )
    x[1] = x[0]  # a duplicate pair: the Gram matrix is singular
    x[-1] = x[2]  # of two classes
    x -= x.mean(axis=0)
    return x / np.sqrt(np.mean(np.sum(x**2, axis=1))), labels


@pytest.mark.parametrize("n_features", [3, 200])
@pytest.mark.parametrize("C", [0.03, 1.0, 100.0])
def test_dot_products_give_the_machine_of_the_raw_features(C, n_features):
    x, labels = problem(n_features=n_features)
    train = random_splits(labels, 20, 1, 0)[0]
    test = np.setdiff1d(np.arange(len(labels)), train)
    machine = LinearSVC(C=C, tol=1e-10, max_iter=1_000_000, random_state=0).fit(x[train], labels[train])
    beta = fit_margins(x[train] @ x[train].T, labels[train], C)
    values = (x[test] @ x[train].T + 1) @ beta
    assert np.allclose(values, machine.decision_function(x[test]), atol=1e-5)
    assert np.allclose(x[train].T @ beta, machine.coef_.T, atol=1e-5)
    assert np.allclose(beta.sum(axis=0), machine.intercept_, atol=1e-5)


@pytest.mark.parametrize("start_at", [None, 1e-3, 1e3])
def test_conditions_of_the_optimum_hold_to_rounding(start_at):
    x, labels = problem(seed=1)
    gram, C = x @ x.T, 5.0
    start = None if start_at is None else fit_margins(gram, labels, start_at)
    beta = fit_margins(gram, labels, C, start)
    signs = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    losses = np.maximum(0, 1 - signs * ((gram + 1) @ beta))
    assert np.allclose(beta, 2 * C * signs * losses, atol=1e-8)


def test_splits_have_so_many_of_each_class_and_do_not_change():
    labels = np.repeat([0, 1, 2], [9, 30, 12])
    splits = random_splits(labels, 8, 5, seed=3)
    assert all(np.array_equal(np.bincount(labels[train]), [8, 8, 8]) for train in splits)
    assert all(np.array_equal(a, b) for a, b in zip(splits, random_splits(labels, 8, 5, seed=3), strict=True))
    assert not np.array_equal(splits[0], splits[1])


def test_accuracy_is_that_of_liblinear_with_the_chosen_settings():
    x, labels = problem()
    noise = np.random.default_rng(5).normal(size=(90, 40))
    splits = random_splits(labels, 20, 3, 0)
    scores = score_splits([noise @ noise.T / 40, x @ x.T], labels, splits, (0.01, 1.0, 100.0), 3, seed=0)
    assert np.all(scores.kernel == 1)
    for train, accuracy, C in zip(splits, scores.accuracy, scores.C, strict=True):
        test = np.setdiff1d(np.arange(len(labels)), train)
        machine = LinearSVC(C=C, tol=1e-8, max_iter=1_000_000, random_state=0).fit(x[train], labels[train])
        assert accuracy == machine.score(x[test], labels[test])


def test_which_rows_are_right_is_kept():
    x, labels = problem()
    splits = random_splits(labels, 20, 3, 0)
    scores = score_splits([x @ x.T], labels, splits, (0.01, 1.0), 3, seed=0)
    for train, accuracy, right in zip(splits, scores.accuracy, scores.right, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(right < 0), np.sort(train))
        assert np.mean(right[right >= 0]) == pytest.approx(accuracy)


def test_labels_without_meaning_are_not_learned():
    x = np.random.default_rng(0).normal(size=(240, 30))
    labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], 80))
    scores = score_splits([x @ x.T / 30], labels, random_splits(labels, 30, 6, 0), (0.1, 1.0, 10.0), 3, seed=0)
    assert abs(scores.accuracy.mean() - 1 / 3) < 0.08


# ----------------------------------------------------------------------------------------------- Gram matrices


def fake_points(n_images, seed=0):
    """Activations that tell three categories apart by their spread."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 30, n_images)
    kinds = np.repeat(np.arange(n_images) % 3, sizes)
    points = rng.normal(size=(sizes.sum(), N_FILTERS)) * (1 + kinds[:, None]) - 1
    return points.astype(np.float16), sizes


def fake_images(n_images=24):
    return SquashedImages(*fake_points(n_images))


@pytest.mark.parametrize("name", ["hellinger", "d3", "mean", "hist-10", "mmd-each"])
def test_blocks_of_filters_add_up_to_all_of_them(name, monkeypatch):
    monkeypatch.setattr(scenes, "FILTERS_AT_A_TIME", 4)
    images, method = fake_images(), scenes.METHODS[name]
    gram, n_features, _ = scenes.gram_of(method, images)
    features = de.Marginals(method.make()).fit_transform(images.some(np.arange(len(images)))).astype(float)
    assert features.shape[1] == n_features
    features -= features.mean(axis=0)
    expected = features @ features.T
    assert np.allclose(gram, expected / np.mean(np.diag(expected)), atol=1e-8)


def test_d3_of_each_filter_is_d3_of_all():
    bags = fake_images().some(np.arange(24))
    each = de.Marginals(de.MomentEmbedding("d3")).fit_transform(bags)
    assert np.allclose(each, de.MomentEmbedding("d3").fit_transform(bags), atol=1e-6)


def test_the_joint_mmd_looks_at_all_filters():
    gram, n_features, energy = scenes.gram_of(scenes.METHODS["mmd-1"], fake_images())
    assert n_features == 4096
    assert np.isnan(energy)
    assert np.isclose(np.mean(np.diag(gram)), 1)
    assert np.allclose(gram.sum(axis=0), 0, atol=1e-8)  # centred


def test_random_features_approach_the_kernel_of_the_median():
    x = np.random.default_rng(0).normal(size=(30, 100))
    gram = x @ x.T / 100
    squares = np.sum((x[:, None] - x) ** 2, axis=2) / 100
    median = np.median(squares[np.triu_indices(30, 1)])
    centre = np.eye(30) - 1 / 30
    exact = centre @ np.exp(-squares / (2 * 0.25 * median)) @ centre
    exact /= np.mean(np.diag(exact))

    def error(n_components):
        grams = [scenes.random_feature_grams(gram, n_components, (0.5,), seed)[0] for seed in range(4)]
        return np.mean([np.sqrt(np.mean((each - exact) ** 2)) for each in grams])

    assert error(16_000) < 0.02
    assert error(16_000) < 0.6 * error(1000)


# ----------------------------------------------------------------------------------------------- the experiment


class Small(scenes.Experiment):
    plan = scenes.Plan(("js", "mmd-1", "d3"), 0, 1, 8, 3, 2, (0.1, 10.0), 200, (0.5, 1.0), past=False)
    quick_plan = scenes.Plan(("js", "mean"), each_nth_filter=2, n_splits=2, Cs=(1.0,), n_components=100, past=False)
    quick_images = (9, 6)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "scene15"
    folder.mkdir(parents=True)
    files = [f"{category}/image_{i + 1:04}.jpg" for category in CATEGORIES for i in range(PER_CATEGORY)]
    lines = ["file,category", *(f"{file},{file.partition('/')[0]}" for file in files)]
    (folder / "index.csv").write_text("\n".join(lines) + "\n")
    (folder.parent / "vgg16_conv_fp16.npz").write_bytes(b"")
    return tmp_path


def write_parts(folder, files):
    """Part files as the network would leave them."""
    activations = Activations(folder, folder, folder, files, scenes.SHORTEST)
    rng = np.random.default_rng(0)
    for part in activations.parts:
        kinds = np.array([CATEGORIES.index(file.partition("/")[0]) for file in part])
        sizes = rng.integers(20, 30, len(part))
        points = rng.normal(size=(sizes.sum(), N_FILTERS)) * (1 + np.repeat(kinds, sizes)[:, None]) - 1
        for layer in (LAST, EARLIER):
            path = activations._path(part, layer)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, points=points.astype(np.float16), sizes=sizes, files=np.array(part))
    return activations


def files_of(data):
    return [line.partition(",")[0] for line in (data / "data/scene15/index.csv").read_text().splitlines()[1:]]


def small(data, **options):
    return Small(data=data / "data", cache=data / "cache", **options)


def test_from_activations_to_the_report(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # not needed for what is there
    write_parts(data / "cache", files_of(data))
    study = small(data)
    study.prepare(None)  # nothing is to be computed
    assert [step.name for step in study.missing()] == ["js", "mmd-1", "d3"]
    assert "No method" in study.report(study.results()).findings[0]
    for step in study.missing():
        study.run(step)
        report = study.report(study.results())  # with only some steps there
        assert len(report.tables[0].rows) == 2 * len(study.results())
    assert not study.missing()
    found = study.results()["js"]
    assert found["A_accuracy"].shape == found["z_accuracy"].shape == (3,)
    assert found["n_train"] == 24
    assert found["n_test"] == 3 * PER_CATEGORY - 24
    assert found["A_accuracy"].mean() > 0.9  # spreads of 1, 2 and 3 are told apart
    assert 0.9 < found["energy"] <= 1
    again = small(data)._compute(scenes.METHODS["js"], Small.plan)
    assert all(np.array_equal(again[name], found[name]) for name in ("A_accuracy", "z_accuracy", "z_C", "A_C"))
    page, *others = write_report(report, study.name, data / "out")
    assert {path.name for path in others} == {
        "scenes_accuracy.png",
        "scenes_accuracy.csv",
        "scenes_by_image.csv",
        "scenes_choices.csv",
    }
    text = page.read_text()
    assert "18 pairs of identical images" in text
    assert "torchvision" in text


def test_the_quick_version_takes_some_images_of_each_category(data):
    files = files_of(data)
    firsts = [file for file in files if int(file[-8:-4]) <= 6]
    write_parts(data / "cache" / "quick", firsts)
    study = small(data, quick=True)
    assert study._images()[1].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    before = study.steps()
    assert before[0].settings["per_category"] == 6
    assert before[0].settings["n_train"] == 4

    write_parts(data / "cache", files)  # now all are there
    study = small(data, quick=True)
    images, labels = study._images()
    assert np.bincount(labels).tolist() == [9, 9, 9]
    assert len(images) == 27
    assert images.n_filters == N_FILTERS / 2
    assert [step.name for step in study.missing()] == ["js", "mean"]
    for step in study.missing():
        study.run(step)
    report = study.report(study.results())
    assert not any(word in line for line in report.findings for word in ("confirmed", "refuted"))


def test_some_of_the_kept_images(data):
    activations = write_parts(data / "cache", files_of(data))
    points, sizes = activations.load()
    ends = np.cumsum(sizes)
    some, kept = activations.load(["Coast/image_0002.jpg", "Street/image_0014.jpg"])
    assert points.dtype == some.dtype == np.float16
    i = PER_CATEGORY + 1
    assert kept.tolist() == [sizes[i], sizes[-1]]
    assert np.array_equal(some, np.concatenate([points[ends[i - 1] : ends[i]], points[ends[-2] :]]))


def test_kept_activations_of_other_images_are_refused(data):
    files = files_of(data)
    write_parts(data / "cache", files)
    others = Activations(data, data, data / "cache", [files[0], *files[:1:-1], files[1]], scenes.SHORTEST)
    with pytest.raises(ValueError, match=r"holds other images than index\.csv has there; remove"):
        others.load()


def test_without_torch_an_error_tells_the_extra(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'distembed\[vision\]'"):
        small(data).prepare(SILENT)


def test_without_data_an_error_tells_the_option(tmp_path, monkeypatch):
    monkeypatch.delenv("DISTEMBED_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="--data"):
        scenes.Experiment(cache=tmp_path).prepare(SILENT)
    for quick in (False, True):  # to list steps takes no data
        study = scenes.Experiment(quick=quick, cache=tmp_path)
        assert study.missing() == study.steps()
        assert study.report(study.results()).introduction


# ----------------------------------------------------------------------------------------------- past the paper


def test_second_order_is_the_root_of_the_covariance():
    rng = np.random.default_rng(0)
    sizes = np.array([30, 12, 50, 5])  # the last has a covariance without an inverse
    points = rng.normal(size=(sizes.sum(), 6)).astype(np.float16)
    roots = []
    for rows in np.split(np.maximum(points.astype(float), 0), np.cumsum(sizes)[:-1]):
        values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
        roots.append((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    roots = np.array(roots) - np.mean(roots, axis=0)
    wanted = np.einsum("iab,jab->ij", roots, roots)
    found = scene_kernels.second_order(points, sizes)
    np.testing.assert_allclose(found, wanted / np.mean(np.diag(wanted)), atol=1e-3)


def test_bands_are_bags_of_their_own():
    rng = np.random.default_rng(0)
    grids = np.array([[6, 4], [5, 3], [4, 7]])
    points = rng.normal(size=(grids.prod(axis=1).sum(), 5)).astype(np.float16)
    seen = []

    def margins(images):
        seen.append(images.some(np.arange(3)).sizes.tolist())
        return np.eye(3)

    found = scene_kernels.bands(points, grids, margins)
    assert seen == [[8, 6, 7], [8, 3, 14], [8, 6, 7]]
    np.testing.assert_allclose(found, scene_kernels.centre_and_scale(np.eye(3)))


def test_sums_of_kernels_from_activations_to_the_report(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    files = files_of(data)
    activations = write_parts(data / "cache", files)
    sizes = activations.load()[1]
    monkeypatch.setattr(Activations, "grids", lambda self, only: np.stack([sizes, np.ones_like(sizes)], axis=1))
    study = small(data)
    study.plan = replace(Small.plan, methods=("js",), past=True)
    assert [step.name for step in study.missing()] == ["js", "past the paper"]
    study.run(study.missing()[1])
    report = study.report(study.results())  # without the paper's methods
    assert [table.name for table in report.tables] == ["past"]
    rows = {row[0]: row[1:] for row in report.tables[0].rows}
    assert len(rows) == 8 + 3 + 2
    assert float(rows["chosen by folds of training images"][0]) > 80
    assert rows["margins"][2] is None
    assert rows["bands"][4] in ("better", "worse", "equal", "undecided", "equal within the margin")
    assert "93 % is" in report.findings[0]
    study.run(study.missing()[0])
    assert len(study.report(study.results()).tables) == 4


# ----------------------------------------------------------------------------------------------- findings


def made_up(**means):
    wiggle = np.array([-0.002, 0.0, 0.001, 0.002, -0.001])
    fixed = {"n_train": 100, "n_test": 100, "n_features": 10, "energy": np.nan, "feature_seconds": 1.0}
    choices = {"A_C": np.ones(5), "z_C": np.ones(5), "z_sigma_scale": np.ones(5)}
    return {
        name: fixed | choices | {"A_accuracy": mean + i % 2 * wiggle, "z_accuracy": mean - 0.01 + i % 2 * wiggle}
        for i, (name, mean) in enumerate(means.items())
    }


def test_differences_by_image_are_paired_over_splits():
    rng = np.random.default_rng(0)
    hard = rng.uniform(size=400)  # images that are hard for one method are so for the other, in every split
    right = {
        name: (hard < share).astype(np.int8) * np.ones((5, 1), np.int8) for name, share in (("js", 0.9), ("d3", 0.8))
    }
    results = made_up(js=0.9, d3=0.8)
    for name, each in right.items():
        each[np.arange(5)[:, None], np.arange(400).reshape(5, 80)] = -1
        results[name] |= {"A_right": each, "z_right": each}
    methods = {name: (method.title, method.family) for name, method in scenes.METHODS.items()}
    table = make_report("", results, methods).tables[-1]
    (row,) = [each for each in table.rows if each[:2] == ["D3", "A"]]
    share = np.mean((hard >= 0.8) & (hard < 0.9))
    assert float(row[2]) == pytest.approx(-100 * share, abs=0.01)
    low, high = (float(end) for end in row[3].split(" to "))
    error = 100 * np.sqrt(share * (1 - share) / 400)  # that of 400 images, not of 1,600 tests
    assert (high - low) / 2 == pytest.approx(1.97 * error, rel=0.02)
    assert row[4] == "worse"
    assert "by_image" not in {each.name for each in make_report("", made_up(js=0.9, d3=0.8), methods).tables}


def findings(**means):
    methods = {name: (method.title, method.family) for name, method in scenes.METHODS.items()}
    return make_report("", made_up(**means), methods).findings


def test_findings_follow_from_the_results():
    good = findings(js=0.92, l2=0.9, d3=0.9205)
    assert "92.00 %" in good[0]
    assert "is reached." in good[0]
    assert "D3 (A), 92.05 %" in good[1]
    assert "JS (A) -0.05, 95 % interval -0.05 to -0.05 points: equal within the margin (refuted)" in good[1]
    assert good[2].endswith("points: better (confirmed).")
    assert "is not reached." in findings(js=0.9)[0]
    assert findings(js=0.9, l2=0.95)[1].endswith("worse (refuted).")
    assert len(findings(l2=0.9)) == 1  # nothing of ours to compare: only A against z


def test_the_words_of_the_table_are_corrected_over_its_rows():
    methods = {name: (method.title, method.family) for name, method in scenes.METHODS.items()}
    report = make_report("", made_up(js=0.92, l2=0.9, d3=0.92), methods)
    assert "over the 2 comparisons of the findings" in report.introduction
    assert "corrected over its own 5 comparisons with JS" in report.introduction
    words = {tuple(row[:2]): row[-2] for row in report.tables[0].rows}
    assert words["JS", "A"] is None
    assert words["JS", "z"] == words["L2", "A"] == "worse"
    assert words["D3", "A"] == "equal within the margin"
