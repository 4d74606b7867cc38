"""The experiments with mixtures and images, made tiny: all of the way from steps to the page."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.reproduce import comparisons, images, mixture
from distembed.reproduce.study import write_report

# Histograms stand for the densities: they need no search for a bandwidth.
HELLINGER = comparisons.Method("Hellinger", "histogram-hellinger")
JS = comparisons.Method("histogram JS", "histogram-js")


class TinyMixture(mixture.Experiment):
    points, sizes, n_test, n_components, n_seeds, kl_size = (20, 30), (16, 24), 12, 20, 2, 12
    fresh, n_augmented = (20, 21), 1

    def _methods(self):
        return HELLINGER, JS, comparisons.Method("Hellinger, linear", "histogram-hellinger", linear=True)

    def steps(self):
        return [step for step in super().steps() if "literal" not in step.name]


class TinyImages(images.Experiment):
    sizes, n_test, n_components, kl_size, kl_test = (40,), 20, 20, 4, 4

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
    assert [tuple(row[:2]) for row in differences.rows] == [("Hellinger", "histogram JS")]
    assert len(criteria.rows) == 10
    assert [tuple(row[:2]) for row in past.rows] == [
        *((name, 16) for name in ("JS", "JS, augmented", "JS, symmetries", "JS, symmetries and views")),
        *((name, 24) for name in ("JS", "JS, symmetries", "JS, symmetries and views")),
    ]
    assert {row[-2] for row in past.rows} == {1, 2}
    assert sum("fresh seeds" in line for line in report.findings) == 7
    assert sum("components to choose from" in line for line in report.findings) == 2
    found = results["Hellinger points=20 bags=16 seed=0"]
    error, _ = comparisons.rmse(found["predicted"], found["truth"])
    assert [row[3] for row in errors.rows if row[:3] == ("Hellinger", 20, 16)] == [f"{error:.3f}"]
    written = write_report(report, "mixture", tmp_path / "results")
    assert {path.suffix for path in written} == {".md", ".csv", ".png"}
    assert all(path.stat().st_size for path in written)


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


def test_images_from_steps_to_page(tmp_path, photographs):
    study = TinyImages(cache=tmp_path / "cache", data=photographs)
    report = study.report(_all(study))
    (errors,) = report.tables
    names = ["Hellinger", "histogram JS", "Hellinger, views"]
    assert [row[0] for row in errors.rows] == names
    assert float(errors.rows[0][2]) < 20  # halves of different brightness are easy
    assert any("about equal to histogram JS" in line for line in report.findings)
    assert any("KL" in line and "extrapolated" in line for line in report.findings)
    assert "errors" in report.figures


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


def test_intervals():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        _, low, high = comparisons.paired_interval(rng.normal(0.3, 1.0, size=5))
        covered += low <= 0.3 <= high
    assert 0.92 <= covered / 400 <= 0.98
    wrong = rng.uniform(size=(2, 500)) < np.array([[0.3], [0.4]])
    apart, low, high = comparisons.bootstrap(*wrong.astype(float))
    assert low < apart < high
    assert apart == pytest.approx(wrong[1].mean() - wrong[0].mean())
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt((0.21 + 0.24) / 500), rel=0.15)


def test_curves_and_levels_far_away_are_told_in_the_title():
    curves = {"JS": [(1.0, 1.5, 0.1), (2.0, 1.4, 0.1)], "L2": [(1.0, 2.8, 0.1)]}
    figure = comparisons.draw_curves({"a": curves}, "RMSE", log_time=True, levels={"a": {"AIC": 1.6, "BIC": 3.0}})
    (axis,) = figure.axes
    assert axis.get_title(loc="left") == "a\nnot shown: L2 2.80; BIC 3.00"
    assert axis.get_xscale() == "log"
