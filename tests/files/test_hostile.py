"""Hostile model files: each ends in a sentence or in predictions, and none takes long, much, or the process with it."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso, Ridge, RidgeClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import LabelBinarizer, MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

import distembed as de
from distembed.compute.registry import INVARIANTS, STORABLE
from distembed.embeddings.moments import MomentEmbedding
from distembed.files import ModelFileError, load, save
from distembed.files.archive import read_archive
from distembed.files.reader import EVERY, forms, rules_of
from distembed.learners.model import Model
from distembed.models.forest import ForestHead
from distembed.scaling.unit_cube import SharedCube

TOOLS = Path(__file__).parents[2] / "tools"
RNG = np.random.default_rng(0)
BAGS = de.Bags.from_arrays([RNG.uniform(size=(n, 2)) for n in (8, 12, 20, 5, 9, 30)])
TARGETS = np.linspace(0, 1, 6)


@pytest.fixture(scope="module")
def fuzz():
    """The module ``tools/fuzz.py``."""
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("fuzz")
    sys.path.remove(str(TOOLS))


@pytest.fixture
def forge(fuzz, tmp_path):
    """Writes a file with right checksums: of a model that a function changes, or of objects."""
    parts_of = importlib.import_module("mutations").Parts

    def write(model=None, change=None, rows=None, arrays=()):
        path = tmp_path / "m.distembed"
        if rows is None:
            save(model, path)
            found = read_archive(path)
            parts = parts_of(found.document, found.arrays, found.versions)
            change(parts.document["objects"], parts.arrays)
            for row in parts.document["objects"]:
                if row["kind"] == "array":
                    array = parts.arrays[row["array"]]
                    row["shape"], row["dtype"] = list(array.shape), str(array.dtype)
        else:
            parts = parts_of({"objects": rows}, list(arrays), {})
        path.write_bytes(parts.pack())
        return path

    return write


def pipeline():
    return make_pipeline(de.UnitCube(), de.HDDEmbedding("js", n_basis=3), Ridge()).fit(BAGS, TARGETS)


def array_at(rows, kind, attribute):
    """The number of the array that is an attribute of the first object of a class."""
    row = next(row for row in rows if row.get("class") == f"distembed.{kind}")
    return rows[row["state"][attribute]["at"]]["array"]


def estimator(kind="distembed.UnitCube", **state):
    return {"kind": "estimator", "class": kind, "parameters": {}, "state": state}


# --------------------------------------------------------------------------------------------------------------
# What compiled code sees
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bounds_that_are_not_finite_are_refused(forge, bad):
    def change(rows, arrays):
        arrays[array_at(rows, "UnitCube", "low_")][0] = bad

    with pytest.raises(ModelFileError, match=r"UnitCube.low_ must be finite\(d\), where d = 2"):
        load(forge(pipeline(), change))


def test_projections_and_grids_of_another_width_are_refused(forge):
    def narrower(rows, arrays):
        projection = next(row for row in rows if row.get("class") == "distembed.Projection")
        first = rows[projection["state"]["matrices"]["at"]]["items"][0]["at"]
        arrays[rows[first]["array"]] = arrays[rows[first]["array"]][:, :-1].copy()

    def finer(rows, arrays):
        grid = next(row for row in rows if row.get("class") == "distembed.GridNodes")
        rows[grid["state"]["shape"]["at"]]["items"] = [40, 50]

    with pytest.raises(ModelFileError, match=r"the parts of its DensityStages don't fit together"):
        load(forge(pipeline(), narrower))
    with pytest.raises(ModelFileError, match=r"the parts of its DensityStages don't fit together"):
        load(forge(pipeline(), finer))


def test_the_trial_predicts_classes_and_their_scores(forge):
    """A label binarizer matters to ``predict`` alone, not to ``decision_function``."""

    def change(rows, arrays):
        next(row for row in rows if row.get("class") == "sklearn.LabelBinarizer")["state"]["y_type_"] = 3

    model = make_pipeline(de.UnitCube(), de.HDDEmbedding("js", n_basis=3), RidgeClassifier()).fit(BAGS, TARGETS > 0.5)
    with pytest.raises(ModelFileError, match="is not as save writes it"):
        load(forge(model, change))


def test_the_engine_in_a_file_is_ignored(tmp_path):
    pytest.importorskip("numba")
    save(de.HDDEmbedding("js", n_basis=3, engine="numba").fit(BAGS), tmp_path / "m")
    assert load(tmp_path / "m").engine == "auto"


def test_compiled_code_bounds_its_own_indices():
    pytest.importorskip("numba")
    embedding = de.HDDEmbedding("js", n_basis=3, engine="numba").fit(BAGS)
    points = BAGS.points.copy()
    points[3, 1] = np.nan
    broken = BAGS.replace(points=points)  # as a scaler with broken bounds makes them
    with pytest.raises(ValueError, match=r"HDDEmbedding: points must lie in the unit cube .* nan in dimension 1"):
        embedding.transform(broken)
    for change in ("indices", "columns", "width"):
        embedding = de.HDDEmbedding("js", n_basis=3, engine="numba").fit(BAGS)
        projection = embedding.stages_.projection
        if change == "columns":
            projection.columns = np.array([0, 1, 2, 3, 4, 5, 6, 7, 10**6])
        elif change == "width":
            projection.matrices[0] = projection.matrices[0][:, :-1].copy()
        else:
            embedding._n_features_out -= 1
        with pytest.raises(ValueError, match=r"fit it again"):
            embedding.transform(BAGS)


def test_parts_of_odd_bags_and_groups_fit_together(forge):
    def fewer_columns(rows, arrays):
        for name in ("centre", "scale", "low", "high"):
            number = array_at(rows, "UsualRange", name)
            arrays[number] = arrays[number][:1].copy()

    def no_spread(rows, arrays):
        arrays[array_at(rows, "SizeLaw", "spread")][0] = 0

    def other_labels(rows, arrays):
        n = len(rows) - 1
        rows[-1]["state"]["categories_in_"] = {"at": n + 1}
        labels = {"kind": "tuple", "items": ["a", "b"]}
        rows[n:n] = [labels, {"kind": "dict", "keys": [0], "items": [{"at": n}]}]

    def fewer_axes(rows, arrays):
        arrays[array_at(rows, "BagClusters", "centres_")] = np.zeros((2, 1))

    def more_labels(rows, arrays):
        next(row for row in rows if row.get("class") == "distembed.LabelBins")["state"]["n_labels"] = 10**12

    codes = BAGS.replace(points=BAGS.points > [2, 0.5], categories={1: ["f", "m"]})
    odd, groups = de.OddBags(), de.BagClusters(2)
    for model, change, said in (
        (odd, fewer_columns, "the parts of its OddBags don't fit together"),
        (odd, no_spread, "the parts of its SizeLaw don't fit together"),
        (odd, other_labels, "the parts of its OddBags don't fit together"),
        (groups, fewer_axes, "the parts of its BagClusters don't fit together"),
        (groups, more_labels, "LabelBins, claims"),
    ):
        bags = codes if change is more_labels else BAGS
        with pytest.raises(ModelFileError, match=said):
            load(forge(model.fit(bags), change))


# --------------------------------------------------------------------------------------------------------------
# What takes long, or much
# --------------------------------------------------------------------------------------------------------------


def test_keys_of_one_hash_are_refused(forge):
    keys = [{"int": hex((2**61 - 1) * (i + 1))} for i in range(50_000)]  # as a table they take a minute
    for row in ({"kind": "set", "items": keys}, {"kind": "dict", "keys": keys, "items": [1] * len(keys)}):
        with pytest.raises(ModelFileError, match=r"its keys have the same hashes"):
            load(forge(rows=[row, estimator(extra={"at": 0})]))


@pytest.mark.parametrize("kind", ["tuple", "list", "union"])
def test_parts_of_parts_of_parts_are_counted(kind, forge):
    rows = [estimator()]
    for _ in range(60):
        again = {"at": len(rows) - 1}
        if kind == "union":
            rows += [{"kind": "tuple", "items": [name, again]} for name in "ab"]
            rows.append({"kind": "list", "items": [{"at": len(rows) - 2}, {"at": len(rows) - 1}]})
            steps = {"transformer_list": {"at": len(rows) - 1}}
            rows.append({"kind": "estimator", "class": "sklearn.FeatureUnion", "parameters": steps, "state": {}})
        else:
            rows.append({"kind": kind, "items": [again, again]})
    with pytest.raises(ModelFileError, match=r"holds its parts too often|nested more than 100 deep"):
        load(forge(rows=[*rows, estimator(extra={"at": len(rows) - 1})]))


@pytest.mark.filterwarnings("ignore:load")  # no version wrote it
def test_long_lists_load(forge):
    model = load(forge(rows=[{"kind": "list", "items": [1] * 200_000}, estimator(extra={"at": 0})]))
    assert len(model.extra) == 200_000


def test_what_claims_to_be_long_is_refused(forge):
    empty = {"kind": "array", "array": 0, "shape": [0, 2**40], "dtype": "float64"}
    with pytest.raises(ModelFileError, match=r"is not an array of plain numbers or text of its size"):
        load(forge(rows=[empty, estimator(extra={"at": 0})], arrays=[np.empty((0, 2**40))]))
    with pytest.raises(ModelFileError, match=r"it has more than 1,000,000 numbers"):
        load(forge(rows=[{"kind": "range", "items": [0, 2**62, 1]}, estimator(extra={"at": 0})]))
    with pytest.raises(ModelFileError, match=r"stands for no value"):
        load(forge(rows=[estimator(extra={"int": "0x" + "f" * 10**5})]))
    with pytest.raises(ModelFileError, match=r"would take far more memory than its size"):
        load(forge(rows=[[]] * 10**6))


@pytest.mark.parametrize("name", ["n_features_in_", "_n_features_out", "_kind"])
def test_counts_that_lie_are_refused(name, forge):
    def change(rows, _):
        rows[-1]["state"][name] = "mean" if name == "_kind" else 10**6

    with pytest.raises(ModelFileError, match=r"the parts of its MomentEmbedding don't fit together"):
        load(forge(MomentEmbedding("covariance").fit(BAGS), change))


def test_trees_without_an_end_are_refused(forge):
    folds = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    x = np.linspace(0, 1, 40)
    head = ForestHead("extra", n_trees=2, random_state=0).fit(x[:, None], x, None, folds)

    def change(rows, arrays):
        inner = np.flatnonzero(arrays[array_at(rows, "Trees", "feature")] >= 0)[0]
        arrays[array_at(rows, "Trees", "left")][inner] = inner  # its own child

    with pytest.raises(ModelFileError, match=r"the parts of its Trees don't fit together"):
        load(forge(head, change))


# --------------------------------------------------------------------------------------------------------------
# Parts of a wrong kind or width, in models too heavy to be tried
# --------------------------------------------------------------------------------------------------------------


def chain(kind, steps, *parts):
    """Rows of a chain or union of references to the parts, which come first."""
    items = [{"kind": "tuple", "items": [f"s{i}", {"at": at}]} for i, at in enumerate(steps)]
    start = len(parts)
    listed = {"kind": "list", "items": [{"at": start + i} for i in range(len(items))]}
    name = "steps" if kind == "Pipeline" else "transformer_list"
    made = estimator(f"sklearn.{kind}") | {"parameters": {name: {"at": start + len(items)}}}
    return [*parts, *items, listed, made]


@pytest.mark.parametrize(
    ("kind", "first", "second", "said"),
    [
        (
            "FeatureUnion",
            "DistributionRegressor",
            "UnitCube",
            "step 's0', a DistributionRegressor, which has no transform",
        ),
        (
            "Pipeline",
            "LinearRidge",
            "LinearRidge",
            "a Pipeline has the step 's0', a LinearRidge, which has no transform",
        ),
        ("Pipeline", "HDDEmbedding", "HDDEmbedding", "the step 's1' that takes bags, and gets rows"),
        ("Pipeline", "UnitCube", "LinearRidge", "the step 's1' that takes rows, and gets bags"),
        ("FeatureUnion", "HDDEmbedding", "RandomFourierFeatures", "parts that take bags beside parts that take rows"),
    ],
)
def test_parts_of_a_wrong_kind_are_refused(kind, first, second, said, forge):
    parts = (estimator(f"distembed.{first}"), estimator(f"distembed.{second}"))
    with pytest.raises(ModelFileError, match=said):
        load(forge(rows=chain(kind, (0, 1), *parts)))


def test_unions_of_chains_are_followed(forge):
    rows = chain("FeatureUnion", (0, 0), estimator("distembed.HDDEmbedding"))
    union = len(rows) - 1
    with pytest.raises(ModelFileError, match="the step 's1' that takes bags, and gets rows"):
        load(forge(rows=chain("Pipeline", (union, union), *rows)))


def test_steps_that_are_not_pairs_are_refused(forge):
    rows = chain("Pipeline", (0,), estimator())
    rows[1]["items"] *= 2
    with pytest.raises(ModelFileError, match=r"Pipeline\.steps must be pairs of a name and an estimator"):
        load(forge(rows=rows))


@pytest.mark.parametrize("name", ["_n_features_out", "n_features_in_"])
def test_widths_that_are_not_those_of_the_stages_are_refused(name, forge, monkeypatch):
    monkeypatch.setattr("distembed.files.reader.HEAVY", 0)

    def change(rows, _):
        next(row for row in rows if row.get("class") == "distembed.HDDEmbedding")["state"][name] = 7

    with pytest.raises(ModelFileError, match="the parts of its HDDEmbedding don't fit together"):
        load(forge(de.HDDEmbedding("js", n_basis=3).fit(BAGS), change))


@pytest.mark.parametrize(("scaler", "attribute"), [(MinMaxScaler, "min_"), (StandardScaler, "var_")])
def test_scalers_of_scikit_learn_are_described(scaler, attribute, forge):
    def change(rows, arrays):
        row = next(row for row in rows if row.get("class") == f"sklearn.{scaler.__name__}")
        number = rows[row["state"][attribute]["at"]]["array"]
        arrays[number] = arrays[number][:, None].copy()

    with pytest.raises(ModelFileError, match=rf"{scaler.__name__}.{attribute} must be finite\(d\)"):
        load(forge(scaler().fit(np.eye(2)), change))


def test_one_row_of_coefficients_has_one_intercept(forge):
    """Two intercepts would broadcast with the two rows of the trial."""

    def change(rows, arrays):
        row = next(row for row in rows if row.get("class") == "sklearn.LinearSVR")
        number = rows[row["state"]["intercept_"]["at"]]["array"]
        arrays[number] = np.zeros(2)

    with pytest.raises(ModelFileError, match=r"LinearSVR\.intercept_ must be one number"):
        load(forge(LinearSVR().fit(np.eye(2), [0.0, 1.0]), change))


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few bags
def test_leaderboards_without_an_end_are_refused(forge):
    model = de.DistributionRegressor(random_state=0).fit(BAGS, TARGETS)

    def change(rows, _):
        board = next(row for row in rows if row.get("class") == "distembed.Leaderboard")
        listed = rows[board["state"]["rows"]["at"]]
        listed["items"] = (listed["items"] * 10_000)[:5_001]

    with pytest.raises(ModelFileError, match="the parts of its Leaderboard don't fit together"):
        load(forge(model, change))


# --------------------------------------------------------------------------------------------------------------
# What honest models may do
# --------------------------------------------------------------------------------------------------------------


def test_models_that_refuse_the_bags_of_the_trial_load(tmp_path):
    far = BAGS.replace(points=1e6 + BAGS.points)
    model = make_pipeline(de.UnitCube(outside="error"), de.HDDEmbedding("js", n_basis=3), Ridge()).fit(far, TARGETS)
    save(model, tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(far), model.predict(far))


@pytest.mark.parametrize(
    "model",
    [LabelBinarizer(), PCA(2), Lasso(0.01), RidgeClassifier(), make_pipeline("passthrough", LinearSVC())],
    ids=str,
)
def test_models_of_scikit_learn_load(model, tmp_path):
    rows, labels = RNG.normal(size=(20, 3)), np.arange(20) % 2
    several = isinstance(model, Lasso | RidgeClassifier)  # outputs or labels of a row
    targets = np.column_stack([labels, 1 - labels]) if several else labels
    model = model.fit(labels) if isinstance(model, LabelBinarizer) else model.fit(rows, targets)
    save(model, tmp_path / "m")
    assert type(load(tmp_path / "m")) is type(model)


def test_heavy_models_are_not_tried(tmp_path, monkeypatch):
    model = de.HDDEmbedding("js", n_basis=3, nodes=de.Grid(800)).fit(BAGS[:1])
    save(model, tmp_path / "m")
    monkeypatch.setattr("distembed.files.model_files.try_once", lambda _: pytest.fail("the model was tried"))
    assert load(tmp_path / "m").nodes_ == model.nodes_


def test_classes_of_others_are_not_tried(tmp_path, monkeypatch):
    @de.files.storable
    class Mine(MomentEmbedding):
        def transform(self, X):
            raise IndexError("these bags are not mine")

    monkeypatch.setattr(Mine, "__module__", "elsewhere.mine")
    try:
        de.files.storable(Mine)
        save(Mine().fit(BAGS), tmp_path / "m")
        assert isinstance(load(tmp_path / "m"), Mine)
    finally:
        for table in STORABLE.values():
            for name in [name for name, thing in table.items() if thing is Mine]:
                del table[name]


def test_unions_that_drop_a_part_load(tmp_path):
    model = FeatureUnion([("mean", MomentEmbedding("mean")), ("none", "drop")]).fit(BAGS)
    save(model, tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").transform(BAGS), model.transform(BAGS))


# --------------------------------------------------------------------------------------------------------------
# All of it, in small
# --------------------------------------------------------------------------------------------------------------

FEW = ("js", "l2", "mmd-spectrum", "histogram-js", "projections", "ridge pipeline", "hadamard features", "extra head",
       "classifier", "covariates", "categories", "conformal", "nystroem knn", "odd categories", "groups")  # fmt: skip


@pytest.fixture(scope="module")
def samples(fuzz, tmp_path_factory):
    return fuzz.corpus(tmp_path_factory.mktemp("models"), FEW)


@pytest.mark.filterwarnings("ignore")  # of whatever hostile models compute
def test_mutations_are_refused_or_predict(fuzz, samples, tmp_path):
    """What ``make fuzz`` does 100,000 times: see ``results/fuzz.md``."""
    endings = []
    for i in range(250):
        way, sample, data = fuzz.mutation(i, samples)
        (tmp_path / "m").write_bytes(data)
        ending, why = fuzz.ending_of(tmp_path / "m", sample.asked, sample.options)
        assert ending not in fuzz.FINDINGS, f"mutation {i}, {way} of {sample.name}: {why}"
        endings.append(ending)
    assert 10 < endings.count("predicts") < 200  # neither all nor none


def test_all_arrays_of_models_are_described(samples, tmp_path):
    """Where a class gains an array, what it must be is said beside ``storable``."""
    lacking = set()
    for sample in samples:
        (tmp_path / "m").write_bytes(sample.data)
        rows = read_archive(tmp_path / "m").document["objects"]
        for row in rows:
            kind = STORABLE[row["kind"]].get(row["class"]) if row["kind"] in ("estimator", "object") else None
            for name, value in row["state"].items() if kind else ():
                is_array = isinstance(value, dict) and "at" in value and rows[value["at"]]["kind"] == "array"
                if is_array and name not in rules_of(kind):
                    lacking.add(f"{kind.__name__}.{name}")
    assert not lacking


def test_all_rules_can_be_read():
    for kind in [*INVARIANTS, *STORABLE["object"].values(), *STORABLE["estimator"].values()]:
        for rule in rules_of(kind).values():
            assert forms(rule)
    with pytest.raises(ValueError, match=r"is not a form of attributes; see its docstring"):
        forms("finite[n]")


def test_bases_and_annotations_are_rules():
    class Part(NamedTuple):
        name: str
        mean: float
        others: "tuple[float, ...] | None"
        deep: "dict[str, tuple[str, ...]]"
        unknown: "Elsewhere | None"  # noqa: F821
        where: Any

    assert rules_of(Part) == {
        **EVERY, "name": "text", "mean": "number", "others": "list[number] | None", "deep": "dict[list[text]]",
    }  # fmt: skip
    assert rules_of(SharedCube)["low_"] == "finite(d)"  # as its base declares
    assert rules_of(Model)["views"] == "dict[FittedView]"
    assert rules_of(Ridge)["coef_"] == "finite(d) | finite(o, d)"


def test_the_report_counts_everything(fuzz, samples):
    tally = fuzz.Tally()
    for ending in ("refused", "predicts", "crash"):
        tally.add(7, "JSON", "js", ending, "exit -11")
    report = tally.report(samples, 0, 60.0)
    assert "| JSON | 3 | 1 | 1 | 0 | 0 | 0 | 0 | 1 |" in report
    assert "- 7: crash, JSON of 'js': exit -11" in report
    assert json.dumps(len(samples)) in report
