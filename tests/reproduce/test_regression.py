"""The experiment on tables of numbers, on small made-up data: tables, peers, and all of the way to the page."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

import distembed as de
from reproduce import regression, regression_rivals
from reproduce.regression_sets import SETS, split
from reproduce.study import write_report

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The files of two tables, made up: one at random, one with groups; the target is the mean of a column."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "real").mkdir()
    rng = np.random.default_rng(0)
    for name, columns in {
        "vietnam_communes": {"log_expenditure_individuals": None},
        "portal_rodents": {"n_species": None, "plot": np.arange(40) // 4},
    }.items():
        shift = rng.normal(size=40)
        sizes = rng.integers(5, 15, size=40)
        owner = np.repeat(np.arange(40), sizes)
        points = pandas.DataFrame({"bag": owner, "a": rng.normal(size=len(owner)) + 3 * shift[owner], "b": 1.0 * owner})
        points.to_parquet(folder / "real" / f"{name}.points.parquet", index=False)
        labels = {each: shift if values is None else values for each, values in columns.items()}
        pandas.DataFrame({"bag": np.arange(40), **labels})[::-1].to_csv(
            folder / "real" / f"{name}.labels.csv", index=False
        )
    return folder


def test_all_of_the_way_to_a_page(data, tmp_path, monkeypatch):
    quick = replace(regression.METHODS["auto"], make=partial(regression.Ours, ["mean, linear", "statistics, linear"]))
    monkeypatch.setitem(regression.METHODS, "auto", quick)
    study = regression.Experiment(quick=True, data=data, cache=tmp_path / "cache")
    study.methods = ("auto", "means + ridge", "NGBoost")
    for step in study.missing():
        study.run(step)
    assert not study.missing()
    written = write_report(study.report(study.results()), "regression", tmp_path / "results")
    page = written[0].read_text(encoding="utf-8")
    assert "portal_rodents, by plot: auto 0.9" in page
    assert "90 % intervals of auto hold" in page
    scores = (tmp_path / "results" / "regression_scores.csv").read_text().splitlines()
    assert scores[0] == 'method,"vietnam_communes, random","portal_rodents, random","portal_rodents, by plot"'
    assert [line.split(",")[0] for line in scores[1:]][:1] == ["auto"]


def test_groups_are_held_out_together(data):
    table = next(each for each in SETS if each.name == "portal_rodents")
    found = table.read(lambda *names: data.joinpath(*names))
    assert table.splits == ("random", "by plot")
    tested = np.concatenate([test for _, test in split(found, "random", 0, False)])
    assert sorted(tested) == list(range(40))
    for train, test in split(found, "by plot", 0, False):
        assert not set(found.groups[train]) & set(found.groups[test])


def test_published_folds_are_the_only_split():
    steels = next(each for each in SETS if each.folds)
    assert steels.splits == ("by fold",)


def test_months_of_dates():
    days = {each.name: each.group for each in SETS}
    assert days["bike_days"]({"bag": np.array(["1/2/11", "12/31/12"])}).tolist() == ["1/11", "12/12"]
    assert days["beijing_days"]({"bag": np.array(["2010-01-02"])}).tolist() == ["2010-01"]


def test_rows_of_rivals_hold_sizes_covariances_and_covariates():
    bags = de.Bags([[0.0, 0.0], [2.0, 4.0], [1.0, 1.0]], [0, 2, 3])
    rows = regression_rivals.everything(bags)
    np.testing.assert_allclose(rows[0, -4:], [np.log(2), 1, 2, 4])
    encode = regression_rivals.Encoder({"season": np.array([1, 2]), "origin": np.array(["a", "b"])})
    assert encode({"season": np.array([3]), "origin": np.array(["b"])}, 1).tolist() == [[3, 0, 1]]


def test_coverage_crps_and_ranks_of_known_distributions():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=3000)
    step = {
        "truth": truth, "fold": np.arange(3000) % 3, "repeat": 0, "predicted": np.zeros(3000),
        "fit_seconds": np.ones(3),
        "sizes": np.arange(3000), "quantiles": np.tile(norm.ppf(regression.Q), (3000, 1)),
    }  # fmt: skip
    found = regression.Outcome([step])
    assert found.coverage == pytest.approx(0.9, abs=0.02)
    assert found.thirds == pytest.approx([0.9] * 3, abs=0.03)
    assert found.width == pytest.approx(2 * norm.ppf(0.95) / truth.std(), rel=1e-6)
    assert np.mean([*found.crps.values()]) == pytest.approx(
        1 / np.sqrt(np.pi), rel=0.05
    )  # of a normal law against itself
    assert found.score == pytest.approx(0, abs=0.01)
    narrow = regression.Outcome([step | {"quantiles": step["quantiles"] / 3}])
    assert found.less(narrow, "crps").interval()[1] < 0


class Known:
    """Predicts what it is told."""

    def fit(self, bags, y, covariates=None):
        self.y = y
        return self

    def predict(self, bags, covariates=None):
        return np.full(bags.n_bags, self.y.mean())


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
@pytest.mark.parametrize("rival", regression_rivals.RIVALS, ids=lambda rival: rival.name)
def test_rivals_beat_a_constant(rival):
    if rival.missing:
        pytest.skip(rival.missing)
    rng = np.random.default_rng(1)
    shift = rng.normal(size=60)
    bags = de.Bags.from_arrays(rng.normal(size=(60, 8, 2)) * 0.5 + shift[:, None, None])
    model = rival.make(0)
    if rival.name == "statistics + forest":
        model = regression_rivals.OnRows(regression_rivals.everything, regression_rivals.Forest(0, 20))
    predicted = model.fit(bags[:45], shift[:45]).predict(bags[45:])
    constant = Known().fit(bags[:45], shift[:45]).predict(bags[45:])
    assert np.mean((predicted - shift[45:]) ** 2) < 0.5 * np.mean((constant - shift[45:]) ** 2)
    if rival.is_sure:
        found = model.quantiles(bags[45:], regression.Q)
        assert found.shape == (15, len(regression.Q))
        assert np.all(np.diff(found, axis=1) >= -1e-9)


def test_ends_of_conformal_intervals_are_quantiles():
    rng = np.random.default_rng(2)
    shift = rng.normal(size=120)
    bags = de.Bags.from_arrays(rng.normal(size=(120, 8, 1)) + shift[:, None, None])
    model = regression.SplitConformal(0)
    model.model.set_params(estimator__embedding=["mean, linear"])
    found = model.fit(bags, shift).quantiles(bags, regression.Q)
    assert np.all(np.diff(found, axis=1) >= -1e-9)
