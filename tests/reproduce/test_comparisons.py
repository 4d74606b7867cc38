"""The experiments with mixtures and images, made tiny: all of the way from steps to the page."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import distembed as de
from reproduce import comparisons, images, mixture, past_the_paper
from reproduce.study import write_report

# Histograms stand for the densities: they need no search for a bandwidth.
HELLINGER = comparisons.Method("Hellinger", "histogram-hellinger")
JS = comparisons.Method("histogram JS", "histogram-js")


class TinyMixture(mixture.Experiment):
    points, sizes, n_test, n_components, n_seeds, kl_size = (20, 30), (16, 24), 12, 20, 2, 3
    fresh, n_augmented, n_kl_seeds = (20, 21), 1, 2
    kl_alphas = (0.1,)
    kl_full, kl_block = ((20, 16),), 10

    def _methods(self):
        return HELLINGER, JS, comparisons.Method("Hellinger, linear", "histogram-hellinger", linear=True)

    def steps(self):
        return [step for step in super().steps() if "literal" not in step.name]


class TinyImages(images.Experiment):
    sizes, n_test, n_components, kl_size, kl_test = (24,), 20, 20, 4, 4
    kl_train, kl_block = 30, 16

    def _methods(self):
        return HELLINGER, JS


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Cats have a bright upper half, dogs a bright lower one."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("data")
    y = np.arange(80) % 2
    x = rng.integers(0, 120, size=(80, 8, 8, 3))
    x[y == 0, :4] += 120
    x[y == 1, 4:] += 120
    x = x.astype(np.uint8)
    np.savez(folder / "cifar_cats_dogs.npz", x_train=x[:50], y_train=y[:50], x_test=x[50:], y_test=y[50:])
    return folder


@pytest.fixture(autouse=True)
def plain_bandwidths(monkeypatch):
    """By a formula, where histograms can't stand for densities."""
    monkeypatch.setattr(past_the_paper, "HDDEmbedding", partial(de.HDDEmbedding, bandwidth="scott"))


def _all(study):
    for step in study.missing():
        study.run(step)
    return study.results()


@pytest.mark.filterwarnings("ignore:.*held-out bags are predicted no better than by a constant")  # of 16 bags
def test_mixtures_from_steps_to_page(tmp_path):
    study = TinyMixture(cache=tmp_path / "cache")
    results = _all(study)
    assert len({step.name for step in study.steps()}) == len(study.steps()) == len(results)
    assert study.missing() == []
    report = study.report(results)
    errors, differences, criteria, past = report.tables
    assert {row[1] for row in errors.rows} == {20, 30}
    curves = (past_the_paper.CURVE, past_the_paper.CURVE_AND_VIEWS)
    kl = [("KL", "JS"), ("KL, intercept", "JS"), ("KL, intercept", "KL")]
    assert [tuple(row[:4]) for row in differences.rows] == [
        *(("Hellinger", "histogram JS", n_points, 16) for n_points in (20, 30)),
        *((*pair, n_points, n_train) for n_points, n_train in ((20, 30), (30, 20)) for pair in kl),
        *((name, "JS", 20, 16) for name in ("JS, symmetries", "JS, symmetries and views", *curves)),
    ]
    assert {row[-2] for row in differences.rows} <= {"better", "worse", "equal within the margin", "undecided"}
    assert "Holm's correction over the 12 comparisons on this page" in report.introduction
    kl = results["KL points=20 seed=1"]
    beside = results["JS points=20 bags=30 seed=1"]
    np.testing.assert_array_equal(kl["truth"], beside["truth"][:3])
    assert not np.array_equal(kl["predicted"], kl["predicted_intercept"])
    assert len(criteria.rows) == 10
    assert [tuple(row[:2]) for row in past.rows] == [
        *((name, 16) for name in ("JS", "JS, augmented", "JS, symmetries", "JS, symmetries and views", *curves)),
        *((name, 24) for name in ("JS", "JS, symmetries", "JS, symmetries and views", curves[1])),
    ]
    assert [row[:3] for row in errors.rows if row[0] == "KL"] == [("KL", 20, 16)]
    assert sum("one seed" in line for line in report.findings) == 1
    assert {row[-2] for row in past.rows} == {1, 2}
    assert sum("fresh seeds" in line for line in report.findings) == 10
    assert sum("components to choose from" in line for line in report.findings) == 2
    found = results["Hellinger points=20 bags=16 seed=0"]
    error, _ = comparisons.rmse(found["predicted"], found["truth"])
    assert [row[3] for row in errors.rows if row[:3] == ("Hellinger", 20, 16)] == [f"{error:.3f}"]
    written = write_report(report, "mixture", tmp_path / "results")
    assert {path.suffix for path in written} == {".md", ".csv", ".png"}
    assert all(path.stat().st_size for path in written)


def test_kl_of_mixtures_comes_row_by_row(tmp_path):
    study = TinyMixture(cache=tmp_path)
    *rows, last = [step for step in study.steps() if step.name.startswith("KL") and "bags=16" in step.name]
    with pytest.raises(RuntimeError, match=r"4 steps must come before it, the first is 'KL rows points=20 bags=16"):
        last.compute()
    found = [step.compute()["kl"] for step in rows]
    train, test = np.concatenate(found[:2]), np.concatenate(found[2:])
    np.fill_diagonal(train, 0)
    bags, _, new, _ = study.draw(20, 16, 0)
    matrix = de.kernels.DivergenceMatrix("knn:kl")
    np.testing.assert_allclose((train + train.T) / 2, matrix.fit_transform(bags), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(test, matrix.transform(new), rtol=1e-5, atol=1e-5)


def test_smaller_training_sets_are_beginnings_and_test_bags_stay():
    study = TinyMixture()
    few, few_y, new, _ = study.draw(20, 16, 1)
    many, many_y, same, _ = study.draw(20, 24, 1)
    np.testing.assert_array_equal(few.points, many[:16].points)
    np.testing.assert_array_equal(few_y, many_y[:16])
    np.testing.assert_array_equal(new.points, same.points)
    other, *_ = study.draw(20, 16, 0)
    assert not np.array_equal(other.points, few.points)


def test_a_report_of_nothing_and_of_a_part(tmp_path):
    study = TinyMixture(cache=tmp_path)
    assert study.report({}).tables[0].rows == []
    step = study.steps()[0]
    study.run(step)
    assert len(study.report(study.results()).tables[0].rows) == 1


def test_images_from_steps_to_page(tmp_path, photographs, monkeypatch):
    monkeypatch.setattr(images, "WIDER", (1.0, 2.0))
    study = TinyImages(cache=tmp_path / "cache", data=photographs)
    results = _all(study)
    report = study.report(results)
    (errors,) = report.tables
    names = ["Hellinger", "histogram JS", "Hellinger, views", "Hellinger, views, exact kernel"]
    assert [(row[0], row[1]) for row in errors.rows] == [
        *((name, "usual") for name in (*names, "KL")), *((name, "fresh") for name in names)
    ]  # fmt: skip
    assert max(float(row[3]) for row in errors.rows) < 20  # halves of different brightness are easy
    found = [line for line in report.findings if line.startswith("Hellinger against histogram JS")]
    assert len(found) == 2
    assert ": undecided (the paper: about equal); " in found[0]  # of twenty images nothing is certain
    assert "fresh split" in found[1]
    assert not any("extrapolated" in line for line in report.findings)
    without = {name: each for name, each in results.items() if name != "KL n=30"}
    assert any("KL" in line and "extrapolated" in line for line in study.report(without).findings)
    assert "errors" in report.figures


def test_a_fresh_split_has_other_test_images(tmp_path, photographs):
    study = TinyImages(cache=tmp_path, data=photographs)
    usual, fresh = study._data(50), study._data(50, fresh=True)
    assert [len(y) for y in fresh[1::2]] == [50, 20]
    images_of = [sorted(map(bytes, np.ascontiguousarray(part[2].points.reshape(20, -1)))) for part in (usual, fresh)]
    assert images_of[0] != images_of[1]
    assert not {bytes(bag) for bag in fresh[0]} & {bytes(bag) for bag in fresh[2]}


def test_kl_divergences_come_row_by_row(tmp_path, photographs):
    study = TinyImages(cache=tmp_path, data=photographs)
    *_, last = study.steps()
    with pytest.raises(RuntimeError, match=r"4 steps must come before it, the first is 'KL of training images from 0'"):
        last.compute()
    bags, _, new, _ = study._data(30)
    rows = [step.compute()["kl"] for step in study.steps() if step.name.startswith("KL of")]
    train, test = np.concatenate(rows[:2]), np.concatenate(rows[2:])
    np.fill_diagonal(train, 0)
    matrix = de.kernels.DivergenceMatrix("knn:kl")
    np.testing.assert_allclose((train + train.T) / 2, matrix.fit_transform(bags), atol=1e-9)
    np.testing.assert_allclose(test, matrix.transform(new), atol=1e-9)


def test_images_need_their_data(tmp_path, monkeypatch):
    monkeypatch.delenv("DISTEMBED_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="DISTEMBED_DATA"):
        TinyImages(cache=tmp_path)._data(5)
    with pytest.raises(FileNotFoundError, match=r"cifar_cats_dogs\.npz is not there"):
        TinyImages(cache=tmp_path, data=tmp_path)._data(5)


def test_an_image_and_its_mirror_image_are_the_same_bag():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, size=(1, 6, 5, 3), dtype=np.uint8)
    bags = images.gray_bags(np.concatenate([image, image[:, :, ::-1]]))
    a, b = (np.array(sorted(map(tuple, bag.round(6).tolist()))) for bag in bags)
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert bags.sizes.tolist() == [60, 60]
    features = de.HDDEmbedding("js", n_basis=3, bandwidth=0.1).fit_transform(bags)
    np.testing.assert_allclose(features[0], features[1], atol=1e-5)


def test_curves_and_levels_far_away_are_told_in_the_title():
    curves = {"JS": [(1.0, 1.5, 0.1), (2.0, 1.4, 0.1)], "L2": [(1.0, 2.8, 0.1)]}
    figure = comparisons.draw_curves({"a": curves}, "RMSE", log_time=True, levels={"a": {"AIC": 1.6, "BIC": 3.0}})
    (axis,) = figure.axes
    assert axis.get_title(loc="left") == "a\nnot shown: L2 2.80; BIC 3.00"
    assert axis.get_xscale() == "log"
