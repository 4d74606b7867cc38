"""The summary of a report: the score beside simple models, drivers, and every caveat where it is due."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import r2_score

import distembed as de
from distembed.learners.scores import Score
from distembed.report.predictions import Predictions
from distembed.report.summary import first_shown, scored_rows


def means_that_matter(n_bags, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n_bags)
    points = np.stack([rng.normal(y[:, None], 1.0, size=(n_bags, 40)), rng.normal(shift, 1, size=(n_bags, 40))], -1)
    return de.Bags.from_arrays(list(points), columns=["signal", "noise"], ids=[f"{seed}-{i}" for i in range(n_bags)]), y


@pytest.fixture(scope="module")
def model():
    return de.DistributionRegressor("mean", n_components=50, tune=None, random_state=0).fit(*means_that_matter(60))


def summary_of(tmp_path, model, bags, y, **more):
    path = tmp_path / "report.html"
    de.report.write(model, bags, y, path, **more)
    section = re.search(r'<section id="summary".*?</section>', path.read_text(encoding="utf-8"), re.DOTALL)[0]
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def test_score_baselines_and_drivers(tmp_path, model):
    text = summary_of(tmp_path, model, *means_that_matter(50, seed=1), name="dose")
    assert re.search(r"The R² is 0\.8\d on 50 bags that are new to the model \(95 % interval 0\.\d+ to 0\.\d+\)", text)
    assert "a linear model of the means has 0." in text
    assert "The model is not clearly better than a linear model of the means." in text  # which is the truth here
    assert text.index("signal") < text.index("noise")
    assert "differ from the training bags" not in text
    assert "hardly known" not in text


def test_caveats(tmp_path, model):
    with pytest.warns(UserWarning, match="differ from the training bags"):
        text = summary_of(tmp_path, model, *means_that_matter(20, shift=6.0, seed=2))
    assert "Only 20 bags are scored" in text
    assert "The new bags differ from the training bags" in text
    assert "most in noise" in text
    assert "20 of 20 new bags are unlike all training bags" in text


def test_without_labels_and_without_new_bags(tmp_path, model):
    bags, y = means_that_matter(60)
    assert "There are no labels" in summary_of(tmp_path, model, bags, None)
    assert "none is left to score the model on" in summary_of(tmp_path, model, bags, y)


def test_an_ensemble_on_its_training_bags_has_the_score_of_the_fit():
    class Board(list):
        header = ("candidate", "R²")

    names = {"js, rbf": 0.9, "mean, linear": 0.4, "constant": -0.01, "ensemble": 0.88}
    board = Board({"name": name, "score": score, "standard_error": 0.02} for name, score in names.items())
    rows = scored_rows(SimpleNamespace(leaderboard_=board), {"scores": None})
    assert [row[0] for row in rows] == ["this model", "a linear model of the means", "a constant"]
    assert rows[0] == ("this model", "R²", Score(0.88, 0.02), 0)


def test_the_map_first_shows_a_bag_that_counts():
    found = Predictions(np.zeros(4), trained=np.array([True, False, False, True]))
    assert first_shown(found, np.array([9.0, 1.0, 2.0, 9.0])) == 2
    assert first_shown(found, None) == 1
    assert first_shown(Predictions(np.zeros(2), trained=np.ones(2, bool)), None) == 0


def test_one_of_several_outputs(tmp_path):
    bags, y = means_that_matter(60)
    both = np.stack([np.zeros(60) + np.arange(60) % 2, y], axis=1)
    model = de.DistributionRegressor("mean", n_components=50, tune=None, random_state=0).fit(bags[:40], both[:40])
    text = summary_of(tmp_path, model, bags[40:], both[40:], output=1, name="dose")
    own = float(re.search(r"The R² is (\S+) on 20 bags", text)[1])
    assert own == pytest.approx(r2_score(both[40:, 1], model.predict(bags[40:])[:, 1]), abs=0.006)
    assert text.index("signal") < text.index("noise")
    assert summary_of(tmp_path, model, bags[40:], both[40:, 1], output=1) == text
    with pytest.raises(ValueError, match=r"must be from 0 to 1 for a model of 2 outputs, got 2"):
        de.report.write(model, bags, None, tmp_path / "r.html", output=2)
