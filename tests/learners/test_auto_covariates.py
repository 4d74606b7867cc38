"""Learners with columns of bags beside their points: ensembles with and without them, routing, errors and files."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_validate

import distembed as de

pd = pytest.importorskip("pandas")


@pytest.fixture(autouse=True, scope="module")
def few_folds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)  # folds are drawn once
        yield


def patients(n=48, seed=0):
    """The class needs the spread of points and the sex together; age is noise, and sometimes missing."""
    rng = np.random.default_rng(seed)
    wide, sex = rng.integers(0, 2, size=(2, n))
    points = rng.normal(0, 1 + wide[:, None, None], size=(n, 30, 2))
    bags = de.Bags.from_arrays(list(points), ids=[f"p{i}" for i in range(n)])
    age = np.where(rng.uniform(size=n) < 0.2, np.nan, rng.normal(50, 10, size=n))
    frame = pd.DataFrame({"age": age, "sex": np.array(["f", "m"])[sex]}, index=bags.ids)
    return bags, np.array(["no", "yes"])[wide & sex], frame


@pytest.fixture(scope="module")
def named():
    bags, y, frame = patients()
    return de.DistributionClassifier("deviation", random_state=0).fit(bags, y, covariates=frame)


def test_covariates_beside_points_are_chosen_where_both_matter(named):
    bags, y, frame = patients(80, seed=1)
    assert named.score(bags, y, covariates=frame) > 0.9
    rows = {row["name"]: row for row in named.leaderboard_.candidates}
    kinds = ("linear", "rbf")
    assert set(rows) == {"constant", "mean, linear", "covariates, extra-trees"} | {
        f"{name}, {kind}" for name in ("deviation", "covariates", "deviation + covariates", "mean + covariates")
        for kind in kinds
    } - {"mean + covariates, rbf"}  # fmt: skip
    best = rows["deviation + covariates, rbf"]["score"]
    assert best > max(rows["deviation, rbf"]["score"], rows["covariates, rbf"]["score"]) + 0.1


def test_rows_go_to_bags_by_the_index_or_by_their_order(named):
    bags, _, frame = patients(20, seed=2)
    wanted = named.predict_proba(bags, covariates=frame)
    np.testing.assert_array_equal(named.predict_proba(bags, covariates=frame[::-1]), wanted)
    np.testing.assert_array_equal(named.predict_proba(bags, covariates=frame.reset_index(drop=True)), wanted)
    some = np.array([3, 1])
    np.testing.assert_allclose(named.predict_proba(bags[some], covariates=frame.iloc[some]), wanted[some])
    strange = frame.assign(sex="x")
    with pytest.warns(UserWarning, match="most of all in 'sex'"):
        assert np.isfinite(named.predict_proba(bags, covariates=strange)).all()
    labels = named.classes_[wanted.argmax(axis=1)]
    np.testing.assert_array_equal(named.predict(bags, covariates=frame), labels)


def test_a_file_knows_them(named, tmp_path):
    bags, y, frame = patients(20, seed=2)
    de.save(named, tmp_path / "m")
    again = de.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(bags, frame), named.predict_proba(bags, frame))
    assert again.leaderboard_ == named.leaderboard_
    again.refit(bags, y, covariates=frame)
    assert again.score(bags, y, covariates=frame) > 0.9


def test_auto_tries_all_with_and_without():
    bags, y, frame = patients(30)
    number = (y == "yes") + 0.1 * np.nan_to_num(frame["age"].to_numpy(), nan=50)
    weight = np.r_[0, np.ones(29)]
    model = de.DistributionRegressor("auto", random_state=0).fit(bags, number, weight, covariates=frame)
    names = [row["name"] for row in model.leaderboard_]
    assert {"covariates, rbf", "statistics, rbf", "statistics + covariates, rbf"} <= set(names)
    assert {"statistics + covariates, extra-trees", "mean + covariates, linear"} <= set(names)
    assert len(names) == len(set(names))
    assert model.score(bags, number, covariates=frame) > 0.5


def test_errors():
    bags, y, frame = patients(24)
    plain = de.DistributionClassifier("mean", n_components=20, tune=None, random_state=0).fit(bags, y)
    model = de.DistributionClassifier("mean", random_state=0).fit(bags, y, covariates=frame)
    assert {row["name"] for row in model.leaderboard_} >= {
        "constant",
        "mean, linear",
        "mean, rbf",
        "mean + covariates, rbf",
    }
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match="covariates must be given, as in fit; pass a table of age, sex"):
            getattr(model, method)(bags)
        with pytest.raises(ValueError, match="covariates were given, but fit had none"):
            getattr(plain, method)(bags, covariates=frame)
    with pytest.raises(ValueError, match="covariates must be given"):
        model.refit(bags, y)
    with pytest.raises(ValueError, match="lacks 'age'"):
        model.predict(bags, covariates=frame[["sex"]])
    with pytest.raises(ValueError, match="one row per bag"):
        model.predict(bags, covariates=frame.to_dict("list") | {"age": [1.0]})
    with pytest.raises(ValueError, match="index must hold the ids"):
        model.predict(bags[:4], covariates=frame[2:6])
    with pytest.raises(ValueError, match="covariates must be given"):
        model.explain(bags)
    batches = de.DistributionClassifier("mean", model="ridge", n_components=20, random_state=0)
    batches.fit(bags, y, covariates=frame).fit_batches(lambda: iter([(bags, y)])).predict(bags)
    assert model.fit(bags, y).encoder_ is None
    model.predict(bags)


def test_metadata_are_routed():
    bags, y, frame = patients(40)
    with sklearn.config_context(enable_metadata_routing=True):
        model = de.DistributionClassifier("deviation", random_state=0)
        model.set_fit_request(covariates=True).set_score_request(covariates=True).set_predict_request(covariates=True)
        found = cross_validate(model, bags, y, cv=2, params={"covariates": frame})
        assert found["test_score"].mean() > 0.7
