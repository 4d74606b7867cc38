"""What every kind of model can do: one table, each cell of which is tried or refused by name; a page shows the same."""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from pyarrow import parquet
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import distembed as de
from distembed import cluster
from distembed.learners.batch import Checkpoint
from distembed.learners.candidates import SECONDARY, views_for
from distembed.learners.prediction_table import columns_of
from distembed.models.forest import ForestHead

distributed = pytest.importorskip("distributed")
pytest.importorskip("jinja2")
pytestmark = pytest.mark.filterwarnings("ignore:UnitCube. .* clipped to the faces")  # new bags reach a little further

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "abilities.md"

# Kinds of models


class Kind(NamedTuple):
    """Parameters of a regressor and of a classifier, whether they have covariates, and how they are fitted."""

    numbers: dict[str, Any]
    classes: dict[str, Any]
    covariates: bool = False
    way: str = "fit"


def both(**parameters):
    return parameters, parameters


def heads(numbers, classes):
    return {"embedding": "mean", "head": numbers}, {"embedding": "mean", "head": classes}


NAMED = both(embedding="js", n_components=60, bandwidth_scales=(1.0,))
KINDS = {
    "auto": Kind(*both(embedding="auto")),
    "name": Kind(*NAMED),
    "list": Kind(*both(embedding=["mean", "statistics"])),
    "row": Kind(*both(embedding="statistics, rbf")),
    "head": Kind(*heads(GradientBoostingRegressor(n_estimators=20), RandomForestClassifier(10))),
    "covariates": Kind(*both(embedding="mean"), covariates=True),
    "file": Kind(*NAMED, way="file"),
    "batches": Kind(*NAMED, way="batches"),
    "cluster": Kind(*NAMED, way="cluster"),
}
COLUMNS = tuple(KINDS)
# Other heads, for cells that begin with "if".
KINDS["if it has `partial_fit`"] = Kind(*heads(SGDRegressor(eta0=0.1), SGDClassifier(loss="log_loss")))
KINDS["if files know it"] = Kind(*heads(Ridge(0.1), LogisticRegression()))

# Data


class Data(NamedTuple):
    """Bags whose first column is shifted, the shifts, and a table of what is known of bags besides points."""

    bags: de.Bags
    shift: Any
    table: pd.DataFrame

    def target(self, task="numbers", covariates=False):
        y = self.shift + covariates * self.table["age"].to_numpy()
        return {
            "numbers": y,
            "outputs": np.column_stack([y, -2 * y]),
            "classes": np.where(y > 0, "high", "low"),
            "three classes": np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])],
        }[task]

    def __getitem__(self, some):
        return Data(self.bags[some], self.shift[some], self.table.iloc[some])


def make(n=36, seed=0):
    rng = np.random.default_rng(seed)
    shift, ids = rng.permutation(np.linspace(-1.5, 1.5, n)), np.arange(n) + 1000 * seed
    points = rng.normal(0, 0.4, size=(n, 10, 2))
    points[..., 0] += shift[:, None]
    table = pd.DataFrame({"age": rng.normal(0, 1.5, n), "sex": rng.choice(["f", "m"], n)}, index=ids)
    return Data(de.Bags.from_arrays(list(points), ids=ids, columns=["u", "v"]), shift, table)


OLD, NEW = make(), make(40, seed=1)


def batches(data, y, weight=None, groups=None, table=None, size=18):
    """What ``fit_batches`` takes."""

    def some(start=0):
        for i in range(start * size, len(y), size):
            own = slice(i, i + size)
            yield (data.bags[own], y[own], *(None if each is None else each[own] for each in (weight, groups, table)))

    return some


# Models


class Lab:
    """Learners of every kind, fitted each in its own way."""

    def __init__(self, folder, client):
        self._folder, self.client = folder, client
        self._models, self._n_paths = {}, 0

    def path(self):
        """A new one."""
        self._n_paths += 1
        return self._folder / f"{self._n_paths}"

    def learner(self, kind, task="numbers", **parameters):
        """One that is not fitted."""
        known, has_classes = KINDS[kind], "classes" in task
        made = de.DistributionClassifier if has_classes else de.DistributionRegressor
        return made(**(known.classes if has_classes else known.numbers) | {"random_state": 0} | parameters)

    def model(self, kind, task="numbers"):
        """One that is fitted to the old bags, to be used up."""
        if (kind, task) not in self._models:
            self._models[kind, task] = self.fit(kind, OLD, task)
        return deepcopy(self._models[kind, task])

    def fit(self, kind, data, task="numbers", *, y=None, weight=None, groups=None, covariates=None):
        """Fit to some bags, in the way of the kind."""
        has_table = KINDS[kind].covariates if covariates is None else covariates
        y = data.target(task, has_table) if y is None else y
        given = (data.bags, y, weight, groups)
        table, way, learner = data.table if has_table else None, KINDS[kind].way, self.learner(kind, task)
        if way == "batches":
            return learner.fit_batches(batches(data, y, weight, groups, table))
        if way == "cluster":
            return self.fit_by_cluster(learner, *given, table)
        model = learner.fit(*given, covariates=table)
        return self.through_file(model) if way == "file" else model

    def through_file(self, model, **more):
        path = self.path()
        de.save(model, path, **more)
        return de.load(path)

    def table(self, bags):
        """Bags as a table in parts that cut some of them."""
        columns = {"id": np.repeat(bags.ids, bags.sizes)} | dict(zip(bags.columns, bags.points.T, strict=True))
        if bags.weights is not None:
            columns["w"] = bags.weights
        parquet.write_table(pa.table(columns), path := self.path().with_suffix(".parquet"), row_group_size=75)
        weights = None if bags.weights is None else "w"
        return cluster.open(path, bag="id", columns=list(bags.columns), weights=weights, partition_rows=80)

    def fit_by_cluster(self, learner, bags, y, weight=None, groups=None, table=None, **more):
        by_id = [None if each is None else dict(zip(bags.ids.tolist(), each, strict=True)) for each in (weight, groups)]
        labels = dict(zip(bags.ids.tolist(), y.tolist(), strict=True))
        return cluster.fit(
            learner, self.table(bags), labels, sample_weight=by_id[0], groups=by_id[1], covariates=table,
            client=self.client, **more,
        )  # fmt: skip

    def by_cluster(self, what, model, data, **more):
        """What ``cluster.predict`` or ``cluster.embed`` write of bags, as a frame."""
        files = what(model, self.table(data.bags), self.path(), client=self.client, **more)
        return pd.concat([pd.read_parquet(file) for file in files]).sort_values("id").set_index("id")


def most_views(*given):
    return [view for view in views_for(*given) if view.name not in (*SECONDARY, "sliced-wasserstein", "fisher")]


def few_views(*given):
    return [view for view in views_for(*given) if view.name in ("statistics", "mean", "js", "landmarks")]


@pytest.fixture(autouse=True, scope="module")
def few_views_folds_and_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.learners.candidates.views_for", few_views)
        patch.setattr("distembed.learners.selection.FEW_FOR_ONE_DRAW", 0)  # folds are drawn once
        patch.setattr("distembed.learners.selection.N_FOLDS", 3)
        patch.setattr("distembed.models.forest.FOLD_TREES", 4)
        patch.setattr("distembed.models.kernel_head.KernelHead.most_sums", 100)
        patch.setattr(ForestHead.__init__, "__defaults__", ("forest", None, 4, None))
        yield


@pytest.fixture(scope="module")
def lab(tmp_path_factory, few_views_folds_and_trees):
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
        yield Lab(tmp_path_factory.mktemp("lab"), client)


def known_of(model, data):
    """The covariates that a model needs besides bags."""
    return {} if model.encoder_ is None else {"covariates": data.table}


def ask(model, method, data=NEW, **more):
    return getattr(model, method)(data.bags, **known_of(model, data), **more)


def is_good(model, task="numbers", data=NEW, least=0.75):
    """Whether new bags are predicted well."""
    given = known_of(model, data)
    return model.score(data.bags, data.target(task, bool(given)), **given) > least


# Abilities: each is a function that a kind passes, or that raises where the kind is refused

ABILITIES: dict[str, Any] = {}
METHODS: dict[str, str] = {}  # which are absent where an ability is refused


def ability(name, method=None):
    def keep(function):
        ABILITIES[name] = function
        if method is not None:
            METHODS[name] = method
        return function

    return keep


@ability("numbers")
def predicts_numbers(lab, kind):
    model = lab.model(kind)
    assert ask(model, "predict").shape == (40,)
    assert is_good(model)
    assert not hasattr(model, "predict_proba")


@ability("classes")
def predicts_classes(lab, kind):
    model = lab.model(kind, "classes")
    assert model.classes_.tolist() == ["high", "low"]
    assert set(ask(model, "predict")) == {"high", "low"}
    assert is_good(model, "classes")


@ability("several outputs")
def predicts_several_outputs(lab, kind):
    model = lab.model(kind, "outputs")
    assert ask(model, "predict").shape == (40, 2)
    assert is_good(model, "outputs")
    assert np.corrcoef(*ask(model, "predict").T)[0, 1] < -0.95


@ability("`predict_proba`")
def has_probabilities(lab, kind):
    for task in ("classes", "three classes"):
        model = lab.model(kind, task)
        found, truth = ask(model, "predict_proba"), NEW.target(task, KINDS[kind].covariates)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], ask(model, "predict"))
        assert log_loss(truth, found, labels=model.classes_) < 0.8 * np.log(len(model.classes_))


@ability("`decision_function`")
def has_scores(lab, kind):
    model = lab.model(kind, "classes")
    found, shares = ask(model, "decision_function"), ask(model, "predict_proba")
    assert found.shape == (40,)
    if "js" in model.model_.views and model.model_.is_single:
        assert spearmanr(found, shares[:, 1]).statistic > 0.95  # where classes are unequal they are not the same order
    else:
        np.testing.assert_allclose(found, np.log(shares[:, 1] / shares[:, 0]), rtol=1e-6)
    assert ask(lab.model(kind, "three classes"), "decision_function").shape == (40, 3)


@ability("`sample_weight`")
def takes_weights_of_bags(lab, kind):
    y = OLD.target("numbers", KINDS[kind].covariates)
    absent, rng = np.arange(36) % 4 == 0, np.random.default_rng(0)
    model = lab.fit(kind, OLD, y=np.where(absent, 1e3, y), weight=np.where(absent, 0.0, 1.0))
    assert is_good(model)
    if KINDS[kind].way in ("fit", "file"):
        without = lab.fit(kind, OLD[~absent], y=y[~absent])
        np.testing.assert_array_equal(ask(model, "predict"), ask(without, "predict"))
    uneven = lab.fit(kind, OLD, y=y, weight=rng.uniform(0.1, 3, 36))
    assert not np.allclose(ask(uneven, "predict"), ask(lab.model(kind), "predict"))
    assert is_good(uneven)


def with_points_of_others(data, weight):
    """Each bag with the points of another one, which weigh this much."""
    arrays = [np.vstack([own, other]) for own, other in zip(data.bags, data.bags[::-1], strict=True)]
    weights = [np.r_[np.ones(10), np.full(10, weight)] for _ in arrays]
    bags = de.Bags.from_arrays(arrays, weights=weights, ids=data.bags.ids, columns=data.bags.columns)
    return data._replace(bags=bags)


@ability("weights of points")
def takes_weights_of_points(lab, kind):
    model, new = lab.fit(kind, with_points_of_others(OLD, 0.0)), with_points_of_others(NEW, 0.0)
    assert is_good(model, data=new)
    np.testing.assert_allclose(ask(model, "predict", new), ask(model, "predict"), atol=0.05)
    assert np.abs(ask(model, "predict", with_points_of_others(NEW, 1.0)) - ask(model, "predict")).max() > 0.5


@ability("`groups`")
def holds_groups_out_together(lab, kind):
    copies, ids = np.repeat(np.arange(8), 5), np.arange(40)
    data = make(8, seed=3)[copies]
    data = data._replace(bags=data.bags.replace(ids=ids), table=data.table.set_index(ids))
    y = np.random.default_rng(0).normal(size=8)[copies]  # equal bags have equal noise, and nothing else
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(than a constant|than by a constant)")
        easy, honest = (lab.fit(kind, data, y=y, groups=groups).leaderboard_[0]["score"] for groups in (None, copies))
    assert easy > 0.5
    assert honest < 0.3
    with pytest.raises(ValueError, match="groups must be at least two, got one; leave groups out"):
        lab.fit(kind, data, y=y, groups=0 * copies)


@ability("`covariates`")
def takes_covariates(lab, kind):
    model = lab.fit(kind, OLD, covariates=True)
    assert is_good(model)
    assert {"age", "sex"} == {column.name for column in model.encoder_.columns_}
    with pytest.raises(ValueError, match="covariates must be given, as in fit; pass a table of age, sex"):
        model.predict(NEW.bags)
    with pytest.raises(ValueError, match="lacks 'sex'"):
        model.predict(NEW.bags, covariates=NEW.table[["age"]])
    other = NEW.target(covariates=True)
    assert is_good(model.refit(NEW.bags, other, covariates=NEW.table), data=OLD)
    if KINDS[kind].way in ("batches", "cluster"):
        more = lab.fit(kind, OLD, covariates=True)
        before = ask(more, "predict")
        assert is_good(more.partial_fit(NEW.bags, other, covariates=NEW.table), data=OLD)
        assert not np.allclose(ask(more, "predict"), before)


@ability("categories")
def takes_categories(lab, kind):
    rng, n = np.random.default_rng(0), 40
    share = rng.permutation(np.linspace(0, 1, n))
    code = (rng.uniform(size=(n, 20)) < share[:, None]).astype(float)
    points = np.stack([rng.normal(size=(n, 20)), code], axis=2).reshape(-1, 2)
    if KINDS[kind].way == "cluster":
        columns = {
            "id": np.repeat(np.arange(n), 20),
            "age": points[:, 0],
            "sex": np.array(["f", "m"])[code.ravel().astype(int)],
        }
        parquet.write_table(pa.table(columns), path := lab.path().with_suffix(".parquet"))
        cluster.open(path, bag="id", columns=["age", "sex"])
    bags = de.Bags(points, np.arange(n + 1) * 20, columns=["age", "sex"], categories={"sex": ["f", "m"]})
    table = pd.DataFrame({"age": np.zeros(n), "sex": rng.choice(["f", "m"], n)})
    data = Data(bags, share, table)
    model = lab.fit(kind, data[:30])
    assert is_good(model, data=data[30:], least=0.5)
    assert model.categories_in_ == {1: ("f", "m")}


@ability("`refit`", "refit")
def learns_again(lab, kind):
    model = lab.model(kind)
    names = [member.views for member in model.model_.members]
    model.refit(NEW.bags, -NEW.target("numbers", KINDS[kind].covariates), **known_of(model, NEW))
    assert [member.views for member in model.model_.members] == names
    assert np.corrcoef(ask(model, "predict", OLD), OLD.target("numbers", KINDS[kind].covariates))[0, 1] < -0.85
    sure = lab.model(kind, "classes")
    assert is_good(
        sure.refit(NEW.bags, NEW.target("classes", KINDS[kind].covariates), **known_of(sure, NEW)), "classes", OLD
    )


@ability("`fit_and_score`")
def holds_bags_out_and_learns_from_all(lab, kind):
    has_table = KINDS[kind].covariates
    y, table = OLD.target(covariates=has_table), OLD.table if has_table else None
    model = lab.learner(kind)
    found = model.fit_and_score(OLD.bags, y, test=0.25, covariates=table)
    assert found.scores["r2"].value > 0.6
    train = OLD[~found.rows]
    again = lab.learner(kind).fit(train.bags, y[~found.rows], covariates=train.table if has_table else None)
    np.testing.assert_allclose(ask(again, "predict", OLD[found.rows]), found.predicted)
    np.testing.assert_allclose(ask(again.refit(OLD.bags, y, covariates=table), "predict"), ask(model, "predict"))


@ability("`fit_batches`", "fit_batches")
def learns_from_batches(lab, kind):
    has_table = KINDS[kind].covariates
    table = OLD.table if has_table else None
    for task in ("numbers", "classes"):
        model = clone(lab.model(kind, task)).set_params(max_search_bags=24)
        weight, groups = np.random.default_rng(0).uniform(0.5, 1.5, 36), np.arange(36) // 2
        model.fit_batches(batches(OLD, OLD.target(task, has_table), weight, groups, table))
        assert model.n_batches_seen_ == 2
        assert is_good(model, task, least=0.7)


@ability("`partial_fit`", "partial_fit")
def learns_from_bags_that_arrive(lab, kind):
    has_table = KINDS[kind].covariates
    for task in ("numbers", "classes"):
        model, more = clone(lab.model(kind, task)), {} if task == "numbers" else {"classes": ["high", "low"]}
        for some in (OLD[:24], OLD[24:], NEW[:20]):
            table = {"covariates": some.table} if has_table else {}
            model.partial_fit(some.bags, some.target(task, has_table), **more, **table)
        assert model.n_batches_seen_ == 3
        assert is_good(model, task, NEW[20:], least=0.7)


@ability("`partial_fit` after `fit`", "partial_fit")
def learns_more_after_fit(lab, kind):
    model = lab.model(kind)
    before = ask(model, "predict")
    model.partial_fit(NEW.bags, NEW.shift)
    assert not np.allclose(ask(model, "predict"), before)
    assert is_good(model)


@ability("`checkpoint`")
def goes_on_after_a_stop(lab, kind):
    learner, path = clone(lab.model(kind)), lab.path()
    y, table = OLD.target("numbers", KINDS[kind].covariates), OLD.table if KINDS[kind].covariates else None
    if KINDS[kind].way == "cluster":
        path.mkdir()
        again = lab.fit_by_cluster(learner, OLD.bags, y, table=table, checkpoint=path)
        np.testing.assert_array_equal(ask(again, "predict"), ask(lab.model(kind), "predict"))
        return
    whole, passes = batches(OLD, y, table=table, size=12), 0

    def stops(start=0):
        nonlocal passes
        passes += 1
        for i, batch in enumerate(whole(start)):
            if passes == 2 and i == 2:
                raise KeyboardInterrupt
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "keep_now_and_then", Checkpoint.keep)
        with pytest.raises(KeyboardInterrupt):
            learner.fit_batches(stops, checkpoint=path)
    again = clone(learner).fit_batches(whole, checkpoint=path)
    np.testing.assert_allclose(ask(again, "predict"), ask(clone(learner).fit_batches(whole), "predict"), rtol=1e-6)
    assert not path.exists()


@ability("`cluster.fit`")
def is_fitted_by_a_cluster(lab, kind):
    y, table = OLD.target("numbers", KINDS[kind].covariates), OLD.table if KINDS[kind].covariates else None
    absent = np.arange(36) % 4 == 0
    model = lab.fit_by_cluster(
        clone(lab.model(kind)),
        OLD.bags,
        np.where(absent, 1e3, y),
        np.where(absent, 0.0, 1.0),
        np.arange(36) // 2,
        table,
    )
    assert is_good(model)


@ability("`cluster.predict`")
def predicts_by_a_cluster(lab, kind):
    model = lab.model(kind)
    found = lab.by_cluster(cluster.predict, model, NEW, **known_of(model, NEW))
    np.testing.assert_allclose(found["prediction"], ask(model, "predict"), rtol=1e-6)


@ability("files")
def is_kept_in_files(lab, kind):
    for task, method in (("numbers", "predict"), ("classes", "predict_proba")):
        model = lab.model(kind, task)
        again = lab.through_file(model)
        np.testing.assert_array_equal(ask(again, method), ask(model, method))
        assert again.leaderboard_ == model.leaderboard_


@ability("updatable files")
def goes_on_from_a_file(lab, kind):
    has_table = KINDS[kind].covariates
    table = OLD.table if has_table else None
    model = clone(lab.model(kind)).fit_batches(batches(OLD, OLD.target("numbers", has_table), table=table))
    again, before = lab.through_file(model, updatable=True), ask(model, "predict")
    np.testing.assert_array_equal(ask(again, "predict"), before)
    for each in (model, again):
        each.partial_fit(NEW.bags, NEW.target("numbers", has_table), **known_of(model, NEW))
    np.testing.assert_allclose(ask(again, "predict"), ask(model, "predict"), rtol=1e-9)
    assert not np.allclose(ask(again, "predict"), before)


@ability("`ConformalRegressor`")
def has_intervals(lab, kind):
    has_table = KINDS[kind].covariates
    truth = NEW.target("numbers", has_table)
    if KINDS[kind].way == "fit":
        model = de.ConformalRegressor(lab.learner(kind), coverage=0.8, random_state=0)
        known = {"covariates": OLD.table} if has_table else {}
        model.fit(OLD.bags, OLD.target("numbers", has_table), **known)
    else:
        model = de.ConformalRegressor(lab.model(kind), coverage=0.8, prefit=True)
        model.calibrate(NEW.bags[:20], truth[:20], **known_of(lab.model(kind), NEW[:20]))
    low, high = model.predict_interval(NEW.bags[20:], **known_of(model.estimator_, NEW[20:])).T
    assert 0.5 < np.mean((low <= truth[20:]) & (truth[20:] <= high)) <= 1
    assert np.all(high - low < (4 if has_table else 2))


@ability("`explain`", "explain")
def explains(lab, kind):
    model = lab.model(kind)
    given = known_of(model, NEW)
    found = model.explain(NEW.bags, **given)
    np.testing.assert_allclose(found.predictions, model.predict(NEW.bags, **given), rtol=1e-6)
    np.testing.assert_allclose(found.contributions.sum(axis=1), found.predictions - found.reference, atol=1e-8)
    assert spearmanr(found.points, NEW.bags.points[:, 0]).statistic > 0.2
    assert len(found.regions) == NEW.bags.n_bags


@ability("`transform_features`", "transform_features")
def makes_a_vector_of_a_bag(lab, kind):
    model = lab.model(kind)
    found = model.transform_features(NEW.bags)
    assert found.shape == (40, model.model_.view.width)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(lab.by_cluster(cluster.embed, model, NEW).to_numpy(), found, atol=1e-6)


@ability("`return_std`")
def has_deviations(lab, kind):
    model = lab.model(kind)
    found, deviation = ask(model, "predict", return_std=True)
    np.testing.assert_allclose(found, ask(model, "predict"))
    truth = NEW.target("numbers", KINDS[kind].covariates)
    assert 0.3 < np.std((found - truth) / deviation) < 3


@ability("`predict_interval`, `predict_quantiles`")
def has_a_distribution(lab, kind):
    model = lab.model(kind)
    ends = ask(model, "predict_interval", coverage=0.8)
    truth = NEW.target("numbers", KINDS[kind].covariates)
    assert 0.5 < np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) <= 1
    found = ask(model, "predict_quantiles", q=[0.9, 0.5, 0.1])
    np.testing.assert_allclose(found[:, ::2], ends[:, ::-1])
    assert np.all(np.diff(found, axis=1) <= 0)


@ability("`predict_set`")
def has_sets(lab, kind):
    model = lab.model(kind, "classes")
    sets = ask(model, "predict_set", coverage=0.8)
    assert sets.shape == (NEW.bags.n_bags, len(model.classes_))
    assert sets.any(axis=1).all()
    np.testing.assert_array_equal(sets[np.arange(len(sets)), ask(model, "predict_proba").argmax(axis=1)], True)


@ability("`likeness`")
def compares_bags(lab, kind):
    model, known = lab.model(kind), known_of(lab.model(kind), NEW)
    found = ask(model, "likeness")
    assert found.column_names[:2] == ("u", "v")
    assert np.all((found.pvalues >= 1 / 37) & (found.pvalues <= 1))
    assert found.group_pvalue > 0.01
    assert found.to_frame().shape == (40, 2 + len(found.column_names))
    moved = NEW.bags.replace(points=NEW.bags.points * [1, 2])
    found = model.likeness(moved, **known)
    assert (found.group_pvalue, found.group_columns[0]) == (0.001, "v")
    with pytest.warns(UserWarning, match="40 bags as a group differ from the training bags .*, most of all in 'v'"):
        model.predict(moved, **known)


@ability("`report.write`")
def is_reported(lab, kind):
    model, path = lab.model(kind), lab.path()
    de.report.write(model, NEW.bags, NEW.target("numbers", KINDS[kind].covariates), path, **known_of(model, NEW))
    text = path.read_text(encoding="utf-8")
    assert model.leaderboard_[0]["name"].partition(",")[0] in text
    assert "None of these bags was used for training" in text


@ability("`leaderboard_`")
def has_a_leaderboard(lab, kind):
    for task, scoring in (("numbers", "r2"), ("classes", "neg_log_loss")):
        board = lab.model(kind, task).leaderboard_
        names = [row["name"] for row in board]
        assert names[-1] == "ensemble"
        assert sum(row["weight"] for row in board.candidates) == pytest.approx(1)
        assert all(name == "constant" or len(name.split(", ")) == 2 for name in names[:-1])
        assert len(set(names)) == len(names) > 1
        assert (board.scoring, board.to_frame()["name"].tolist()) == (scoring, names)
        assert all(np.isfinite(row["score"]) for row in board)


@ability("`clone`, `GridSearchCV`, pickle")
def works_with_scikit_learn(lab, kind):
    model, y = lab.model(kind), OLD.target("numbers", KINDS[kind].covariates)
    np.testing.assert_array_equal(ask(pickle.loads(pickle.dumps(model)), "predict"), ask(model, "predict"))
    fresh = clone(model)
    assert not hasattr(fresh, "model_")
    assert repr(fresh) == repr(lab.learner(kind))
    with sklearn.config_context(enable_metadata_routing=KINDS[kind].covariates):
        given = {}
        if KINDS[kind].covariates:
            given = {"covariates": OLD.table}
            fresh.set_fit_request(covariates=True).set_score_request(covariates=True)
        search = GridSearchCV(fresh, {"random_state": [0]}, cv=2, error_score="raise").fit(OLD.bags, y, **given)
    assert search.best_score_ > 0.6


# The table: what is not in it is "yes"

TABLE = {name: dict.fromkeys(COLUMNS, "yes") for name in ABILITIES}
TABLE["several outputs"]["cluster"] = "no: one label"
TABLE["`covariates`"]["row"] = "no: name them"
TABLE["categories"]["cluster"] = "no: numbers"
TABLE["`fit_batches`"]["head"] = TABLE["`partial_fit`"]["head"] = "if it has `partial_fit`"
TABLE["`partial_fit` after `fit`"] |= dict.fromkeys(("auto", "list", "row", "covariates"), "no: `refit`")
TABLE["`partial_fit` after `fit`"]["head"] = "if it has `partial_fit`"
TABLE["`partial_fit` after `fit`"]["file"] = "no: updatable"
TABLE["`checkpoint`"]["head"] = TABLE["updatable files"]["head"] = "no: not in files"
TABLE["`cluster.fit`"]["head"] = "no: workers"
TABLE["files"]["head"] = "if files know it"
TABLE["`transform_features`"] |= dict.fromkeys(("auto", "list", "covariates"), "no: one name")

# What is said where a cell is refused: what is at fault, and a remedy.
SAID = {
    "no: one label": r"labels must be 1-D, one per id, .* give one per id",
    "no: name them": r"\(embedding='statistics, rbf'\): looks at no covariates.* name a row such as 'statistics \+ cov",
    "no: numbers": r"column 'sex' must hold numbers, got string; convert it",
    "if it has `partial_fit`": r"head=GradientBoostingRegressor needs all bags at once; use one with partial_fit",
    "no: `refit`": r"partial_fit: .* this one comes from fit; use refit with all bags",
    "no: updatable": r"from a file without what deviations and partial_fit need; save it with updatable=True",
    "no: not in files": r"\(head=...\): SGDRegressor\(.*\) can't be written to a model file.* with pickle yourself",
    "no: workers": r"\(head=GradientBoostingRegressor\): workers can't join what it learns; leave head out",
    "if files know it": r"\(head=...\): GradientBoostingRegressor\(.*\) can't be written.* such as Ridge",
    "no: one name": r"no single vector .* fit one embedding by name",
}  # fmt: skip
OTHERS = {"no: not in files": "if it has `partial_fit`"}  # the head that is refused, where that is not the usual one


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", TABLE, ids=lambda name: name.replace("`", ""))
def test_each_cell_is_as_the_table_says(name, kind, lab):
    cell, check = TABLE[name][kind], ABILITIES[name]
    if cell == "yes" or cell.startswith("if"):
        check(lab, kind if cell == "yes" else cell)
    if cell != "yes":
        tried = OTHERS.get(cell, kind)
        with pytest.raises((ValueError, TypeError), match=SAID[cell]):
            check(lab, tried)
        if name in METHODS:
            assert not hasattr(lab.model(tried), METHODS[name])


def test_the_page_shows_the_same_table():
    lines = re.findall(r"^\|(.*)\|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    header, _, *rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert [re.sub("[`*]", "", name) for name in header[1:]] == list(COLUMNS)
    assert {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows} == TABLE


# Names of a leaderboard


@pytest.mark.filterwarnings("ignore:.*held-out bags are not predicted clearly")  # of the worst rows
@pytest.mark.parametrize(("task", "has_table"), [("numbers", False), ("numbers", True), ("classes", False)])
def test_each_row_of_a_leaderboard_is_the_name_of_a_model_with_its_score(task, has_table, lab, monkeypatch):
    views = views_for if task == "numbers" and not has_table else most_views
    monkeypatch.setattr("distembed.learners.candidates.views_for", views)
    data = make(44, seed=5)
    given = (data.bags, data.target(task, has_table)), {"covariates": data.table} if has_table else {}
    board = lab.learner("auto", task).fit(*given[0], **given[1]).leaderboard_
    assert len(board) > 15
    for row in board.candidates:
        if has_table and "covariates" not in row["name"]:
            with pytest.raises(ValueError, match="looks at no covariates, got some; leave them out"):
                lab.learner("auto", task, embedding=row["name"]).fit(*given[0], **given[1])
            continue
        model = lab.learner("auto", task, embedding=row["name"]).fit(*given[0], **given[1])
        found = {each["name"]: each for each in model.leaderboard_}
        assert found[row["name"]]["score"] == pytest.approx(row["score"], abs=1e-6)
        assert found[row["name"]]["weight"] == 1
        assert np.isfinite(model.predict(data.bags, **given[1]) if task == "numbers" else 0).all()


@pytest.mark.parametrize(("task", "model"), [("numbers", "ridge"), ("classes", "logistic"), ("classes", "svm")])
def test_the_row_of_a_named_embedding_is_its_name_too(task, model, lab):
    more = {} if task == "numbers" else {"model": model}
    named = lab.learner("name", task, **more).fit(OLD.bags, OLD.target(task))
    row = lab.learner("name", task, embedding=f"js, tuned-{model}").fit(OLD.bags, OLD.target(task))
    assert row.leaderboard_[0]["name"] == named.leaderboard_[0]["name"] == f"js, tuned-{model}"
    assert row.leaderboard_[0]["score"] == pytest.approx(named.leaderboard_[0]["score"], abs=1e-6)
    np.testing.assert_allclose(row.decision_function(NEW.bags) if more else row.predict(NEW.bags),
                               named.decision_function(NEW.bags) if more else named.predict(NEW.bags))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mean, rbff", r"\(embedding='mean, rbff'\): 'rbff' is not a head; use 'rbf', or one of 'linear'"),
        ("mean, Ridge", r"'Ridge' is not a head; use 'rbf-ridge'"),  # without head=Ridge()
        ("mean, svm", r"'svm' is not a head"),  # of numbers
        ("maen, rbf", r"no view is called 'maen'; is 'mean' meant\?"),
        ("mean + js, tuned-ridge", r"'tuned-ridge' is not a head"),
        (["mean", "js, tuned-ridge"], r"a 'tuned-...' head stands alone, got it in a list; leave out the list"),
        (["mean", "statistic"], r"no view is called 'statistic'; is 'statistics' meant"),
        ([], r"a list must name at least one view, got none"),
        ("mean + covariates, rbf", r"'mean \+ covariates, rbf' needs covariates, got none; pass fit\(..., covariates="),
    ],
)
def test_names_that_are_none_are_refused(name, said):
    with pytest.raises(ValueError, match=said):
        de.DistributionRegressor(name).fit(OLD.bags, OLD.shift)


# Parameters: each one acts, or is refused by name

VALUES: dict[str, list[Any]] = {
    "head": [Ridge()],
    "sizes": [True, False],
    "model": ["logistic", "svm"],
    "scale": [None, de.UnitCube((-9, 9)), de.UnitCube(map="rank")],
    "n_components": [40, None, "exact"],
    "tune": [2, "holdout", None],
    "bandwidth_scales": [(3.0,), (0.3, 3.0)],
    "sigma_scales": [(0.2,), (0.2, 0.4)],
    "alphas": [(10.0,), (1.0, 10.0)],
    "Cs": [(0.01,), (0.01, 0.02)],
    "exhaustive": [True],
    "max_search_bags": [12],
    "time_limit": [1e-9],
    "class_weight": [{"high": 9.0, "low": 1.0}],
    "random_state": [1],
    "n_jobs": [2],
    "symmetries": ["reflections", [np.negative]],
    "missing_targets": ["drop"],
    "ordered": [["low", "high"]],
}
ASKED = {
    "auto": {"embedding": "auto"},
    "list": {"embedding": ["mean", "statistics"]},
    "row": {"embedding": "statistics, rbf"},
    "name": {"embedding": "js", "n_components": 60},
    "name, covariates": {"embedding": "js"},
    "head": {"embedding": "js", "head": KNeighborsRegressor(3)},
}
IDLE = {("name, covariates", "n_components", "40")}  # acts for more than 3,000 bags
IDLE |= {(kind, "n_jobs", "2") for kind in ASKED}
IDLE |= {(kind, "missing_targets", "'drop'") for kind in ASKED}  # none is missing
IDLE |= {(kind, "sizes", "False") for kind in ASKED}  # bags here have one size


def outcome(kind, learner, **parameters):
    """What can be seen of a model: predictions, the leaderboard and the search."""
    classes = learner is de.DistributionClassifier
    asked = ASKED[kind] | ({"head": KNeighborsClassifier(3)} if classes and kind == "head" else {})
    if "head" in parameters:
        asked = {"embedding": asked["embedding"]}
    table = kind == "name, covariates"
    model = learner(**{"random_state": 0} | asked | parameters)
    y = OLD.target("classes" if classes else "numbers", table)
    model.fit(OLD.bags, y, **({"covariates": OLD.table} if table else {}))
    found = ask(model, "predict_proba" if hasattr(model, "predict_proba") else "predict")
    found = found == "high" if found.dtype.kind == "U" else found
    board = [(row["name"], round(row["score"], 9), round(row["weight"], 9)) for row in model.leaderboard_.candidates]
    return found.round(9).tobytes(), board, None if model.search_ is None else len(model.search_.trials)


def parameters():
    for learner in (de.DistributionRegressor, de.DistributionClassifier):
        own = inspect.signature(learner).parameters
        if learner is de.DistributionClassifier:  # others are as those of regressors
            own = [name for name in own if name not in inspect.signature(de.DistributionRegressor).parameters]
        for name in own:
            for kind in ASKED if name != "embedding" else ():
                for value in VALUES[name]:
                    if name == "head" and kind == "head":
                        continue
                    yield pytest.param(learner, kind, name, value, id=f"{kind}, {name}={value!r:.30}")


@pytest.fixture(scope="module")
def usual():
    """Outcomes of default values, each computed once."""
    found = {}

    def of(kind, learner):
        if (kind, learner) not in found:
            found[kind, learner] = outcome(kind, learner)
        return found[kind, learner]

    return of


def test_all_parameters_have_values_to_try():
    assert {*VALUES, "embedding"} == {*inspect.signature(de.DistributionClassifier).parameters}


@pytest.mark.filterwarnings("ignore::UserWarning")  # settings that nobody would choose
@pytest.mark.parametrize(("learner", "kind", "name", "value"), list(parameters()))
def test_each_parameter_acts_or_is_refused(learner, kind, name, value, usual):
    try:
        found = outcome(kind, learner, **{name: value})
    except (ValueError, TypeError) as error:
        said = str(error)
    else:
        assert (found != usual(kind, learner)) != ((kind, name, repr(value)) in IDLE)
        return
    assert re.search(rf"\b{name}\b", said), said
    assert "; " in said, said  # and a remedy


# Heads of scikit-learn's kind


@pytest.mark.parametrize("embedding", ["auto", ["mean", "statistics"], ["mean, rbf", "statistics"]])
def test_a_head_joins_those_that_compete(embedding, lab):
    model = lab.learner("auto", embedding=embedding, head=Ridge(0.1)).fit(OLD.bags, OLD.shift)
    names = [row["name"] for row in model.leaderboard_]
    assert {"statistics, Ridge", "statistics, rbf", "constant"} <= set(names)
    row = lab.learner("row", embedding="statistics, Ridge", head=Ridge(0.1)).fit(OLD.bags, OLD.shift)
    score = next(each["score"] for each in model.leaderboard_ if each["name"] == "statistics, Ridge")
    assert row.leaderboard_[0]["score"] == pytest.approx(score, abs=1e-6)
    with_table = lab.learner("auto", embedding=embedding, head=Ridge(0.1))
    with_table.fit(OLD.bags, OLD.target(covariates=True), covariates=OLD.table)
    assert {"covariates, Ridge", "statistics + covariates, Ridge"} <= {row["name"] for row in with_table.leaderboard_}
    assert is_good(with_table)


# Single claims, each of which stands for a corner of the table

CLAIMS: dict[str, Any] = {}


def claim(text):
    def keep(function):
        CLAIMS[text] = function
        return function

    return keep


def added(embedding, task="numbers", **parameters):
    """How far predictions move when more bags are added, and the model."""
    learner = de.DistributionRegressor if task == "numbers" else de.DistributionClassifier
    model = learner(embedding, random_state=0, **parameters).partial_fit(OLD.bags[:24], OLD.target(task)[:24])
    method = "predict" if task == "numbers" else "predict_proba"
    before = ask(model, method)
    return np.abs(ask(model.partial_fit(OLD.bags[24:], OLD.target(task)[24:]), method) - before).max(), model


def refused_or(call, *names):
    """What a call returns, or None if it is refused with all of these names."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        said = str(error)
    assert all(re.search(rf"\b{name}\b", said) for name in names), said
    return None


@claim("a row with a tuned head takes covariates, or refuses them")
def tuned_row_with_covariates(lab):
    model = de.DistributionRegressor("mean, tuned-ridge", random_state=0)
    refused_or(lambda: model.fit(OLD.bags, OLD.shift, covariates=OLD.table), "covariates")


@claim("a row with a tuned head refuses another head")
def tuned_row_with_a_head(lab):
    refused_or(lambda: de.DistributionRegressor("mean, tuned-ridge", head=Ridge()).fit(OLD.bags, OLD.shift), "head")


@claim("rows of classes with rbf-ridge, laplace and svm learn from batches, or are refused")
def rows_in_batches(lab):
    for kind in ("rbf-ridge", "laplace", "svm"):
        found = refused_or(lambda kind=kind: added(f"statistics, {kind}", "classes"), kind)
        assert found is None or is_good(found[1], "classes")


@claim("a Laplace kernel stays one in batches, or is refused")
def laplace_in_batches(lab):
    found = refused_or(lambda: added("statistics, laplace"), "laplace")
    wanted = de.DistributionRegressor("statistics, laplace", random_state=0).fit(OLD.bags, OLD.shift)
    assert found is None or np.abs(ask(found[1], "predict") - ask(wanted, "predict")).max() < 0.2


@claim("a forest alone learns from the batches that follow, or is refused")
def forest_in_batches(lab):
    found = refused_or(lambda: added("statistics, forest"), "forest")
    assert found is None or found[0] > 0


@claim("a head with partial_fit and without predict_proba learns from all batches, or is refused")
def hinge_in_batches(lab):
    found = refused_or(lambda: added("mean", "classes", head=SGDClassifier()), "head")
    assert found is None or found[0] > 0


@claim("a head that takes one output learns several from batches, or is refused")
def outputs_in_batches(lab):
    model = de.DistributionRegressor("mean", head=SGDRegressor(), random_state=0)
    refused_or(lambda: model.fit_batches(batches(OLD, OLD.target("outputs"))), "head")


@claim("weights that are equal in a batch count beside those of other batches")
def weights_in_batches(lab):
    def found(weight):
        model = de.DistributionRegressor("mean", head=SGDRegressor(), random_state=0)
        model.partial_fit(OLD.bags[:18], OLD.shift[:18]).partial_fit(OLD.bags[18:], OLD.shift[18:], np.full(18, weight))
        return ask(model, "predict")

    assert not np.allclose(found(1.0), found(9.0))


@claim("refit of a row with a tuned head keeps all classes, or refuses bags that lack one")
def refit_without_a_class(lab):
    y = OLD.target("three classes")
    model = de.DistributionClassifier("mean, tuned-logistic", n_components=20, random_state=0).fit(OLD.bags, y)
    some = y != "low"
    found = refused_or(lambda: model.refit(OLD.bags[some], y[some]), "classes")
    assert found is None or found.predict_proba(NEW.bags).shape == (40, 3)


@claim("a head with neither probabilities nor scores is refused by name")
def hard_votes(lab):
    votes = VotingClassifier([("a", KNeighborsClassifier(3))], voting="hard")
    refused_or(lambda: de.DistributionClassifier("mean", head=votes).fit(OLD.bags, OLD.target("classes")), "head")


@claim("a model of a cluster remembers which bags it has learned from")
def bags_of_a_cluster(lab):
    learner = lab.learner("name", max_search_bags=12)
    assert len(lab.fit_by_cluster(learner, OLD.bags, OLD.shift).trained_on_) == 36


@claim("deviations are refused as such where there are covariates")
def deviations_by_a_cluster(lab):
    model = lab.model("covariates")
    refused_or(lambda: columns_of(model, NEW.bags, std=True, covariates=NEW.table), "deviations")


@claim("groups of a cluster are by id, and a missing one is named")
def groups_of_a_cluster(lab):
    given = lab.learner("name"), lab.table(OLD.bags), dict(enumerate(OLD.shift.tolist()))
    for groups in ({0: "a"}, np.arange(36) // 2):
        assert refused_or(lambda groups=groups: cluster.fit(*given, groups=groups, client=lab.client), "groups") is None


@claim("probabilities of support vectors without a search are absent before fit and after")
def probabilities_of_support_vectors(lab):
    model = de.DistributionClassifier("mean, tuned-svm", tune=None)
    assert hasattr(model, "predict_proba") == hasattr(model.fit(OLD.bags, OLD.target("classes")), "predict_proba")


@pytest.mark.filterwarnings("ignore:.*held-out bags are not predicted clearly")
@pytest.mark.parametrize("text", CLAIMS)
def test_claims(text, lab):
    CLAIMS[text](lab)
