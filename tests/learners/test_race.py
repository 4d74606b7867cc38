"""The race of candidates: who leaves it, what of them is kept, and that it is the same for any number of threads."""

import numpy as np
import pytest

import distembed as de
from distembed.learners import selection
from distembed.learners.batch import Batch
from distembed.learners.candidates import VARIANTS
from distembed.learners.race import LEAST, MOST, Heat, within_reach
from distembed.learners.stacking import HeldOut
from distembed.models.forest import ForestHead


@pytest.fixture(autouse=True, scope="module")
def few_folds_and_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)  # folds are drawn once
        patch.setattr("distembed.models.forest.FOLD_TREES", 8)
        patch.setattr(ForestHead.__init__, "__defaults__", ("forest", None, 8, None))
        yield


def spreads(n=70, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, size=n)
    return rng.normal(0, spread[:, None, None], size=(n, 20, 4)), spread


def held_out(errors, n=120, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 1))
    shared = rng.normal(size=truth.shape)
    predicted = [truth + error * shared + 0.1 * error * rng.normal(size=truth.shape) for error in errors]
    return HeldOut(np.stack(predicted), truth, np.ones(n))


def test_those_within_reach_stay_and_some_in_any_case():
    stays = within_reach(held_out([1.0] * 5 + [0.3] * 10 + [1.0] * 5))
    assert stays.sum() == 10
    assert stays[5:15].all()
    assert within_reach(held_out([0.3] + [1.0] * 20)).sum() == LEAST
    assert within_reach(held_out([0.3] * 20)).sum() == MOST


def test_the_best_for_one_of_several_outputs_stays():
    first = held_out([0.1] * LEAST + [1.0] * 2 + [0.3])
    second = held_out([1.0] * (LEAST + 2) + [0.1], seed=1)
    both = HeldOut(
        np.concatenate([first.predicted, second.predicted], axis=2),
        np.concatenate([first.targets, second.targets], axis=1),
        first.weight,
    )
    assert within_reach(both)[-1]
    assert within_reach(both)[0]


def test_a_heat_has_every_class_and_whole_groups():
    n = 400
    rng = np.random.RandomState(0)
    codes = (np.arange(n) >= n - 6).astype(int)
    bags = de.as_bags(rng.normal(size=(n, 2, 1)))
    whole = Batch(bags, codes, np.ones(n))
    heat = Heat.draw(whole, [], 60, 2, 5, rng)
    assert np.bincount(heat.part.y)[1] >= 5
    assert sorted(np.concatenate([held for _, held in heat.folds])) == list(range(len(heat.some)))
    grouped = Batch(bags, codes.astype(float)[:, None], np.arange(1.0, n + 1), np.arange(n) // 8)
    heat = Heat.draw(grouped, [], 60, None, 5, rng)
    assert set(np.bincount(heat.part.groups)) <= {0, 8}
    assert heat.part.weight.mean() == pytest.approx(1)
    whole_again = Heat.draw(grouped, [("seen", "held")], n, None, 5, rng)
    assert whole_again.folds == [("seen", "held")]


@pytest.fixture(scope="module")
def model():
    return de.DistributionRegressor(random_state=0, n_jobs=1).fit(*spreads())


def test_who_was_dropped_has_a_score_and_no_weight(model):
    board = model.leaderboard_
    rows = {row["name"]: row for row in board}
    assert len(board.dropped) > 5
    assert all(rows[name]["weight"] == 0 and np.isfinite(rows[name]["score"]) for name in board.dropped)
    assert max(rows[name]["score"] for name in board.dropped) < rows["ensemble"]["score"]
    assert f"{len(board.dropped)} candidates dropped early" in repr(board)
    assert not board.cut
    known = {name for row in rows for view in [row.rpartition(", ")[0]] for name in view.split(" + ")}
    mmd_stays = any(name.startswith("mmd,") and name not in board.dropped for name in rows)
    assert ("narrow-mmd" in known) == mmd_stays
    assert VARIANTS["narrow-mmd"] == "mmd"


def test_threads_change_nothing(model):
    again = de.DistributionRegressor(random_state=0, n_jobs=2).fit(*spreads())
    assert again.leaderboard_ == model.leaderboard_
    bags, _ = spreads(5, seed=1)
    assert again.predict(bags).tobytes() == model.predict(bags).tobytes()


def test_files_know_who_was_dropped(model, tmp_path):
    de.save(model, tmp_path / "m")
    assert list(de.load(tmp_path / "m").leaderboard_.dropped) == list(model.leaderboard_.dropped)


def test_the_race_finds_what_judging_all_finds(model, monkeypatch):
    monkeypatch.setattr(selection, "FEWEST_TO_RACE", 1000)
    slow = de.DistributionRegressor(random_state=0).fit(*spreads())
    assert not slow.leaderboard_.dropped
    bags, y = spreads(200, seed=1)
    assert model.score(bags, y) == pytest.approx(slow.score(bags, y), abs=0.02)


def test_heats_on_some_of_the_bags(monkeypatch):
    monkeypatch.setattr("distembed.learners.race.HEATS", (24, 40))
    bags, y = spreads()
    groups = np.arange(len(y)) // 2
    found = de.DistributionRegressor(random_state=0).fit(bags, y, groups=groups, sample_weight=y)
    assert found.leaderboard_.dropped
    assert found.score(*spreads(100, seed=1)) > 0.8
    classes = np.where(y > 1.2, "wide", "narrow")
    found = de.DistributionClassifier(random_state=0).fit(bags, classes)
    assert found.leaderboard_.dropped
    assert found.score(spreads(100, seed=1)[0], np.where(spreads(100, seed=1)[1] > 1.2, "wide", "narrow")) > 0.85
