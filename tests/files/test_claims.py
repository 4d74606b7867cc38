"""Claims of model files: what a file asks for is bounded by its size, parts counted as often as they are used."""

import importlib
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import refused
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.density.neighbours import BagNeighbours
from distembed.files import ModelFileError, load, save
from distembed.files.archive import read_archive
from distembed.files.claims import MEMORY, Allowance, Claim, claim_of

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
BAGS = de.Bags.from_arrays([RNG.uniform(size=(n, 3)) for n in (8, 12, 20, 5, 9, 30)])
TARGETS = np.linspace(0, 1, 6)


@pytest.fixture(scope="module")
def mutations():
    """The module ``tools/mutations.py``."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("mutations")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def forge(mutations, tmp_path):
    """Writes a file with right checksums of a model that a function changes."""

    def write(model, change):
        path = tmp_path / "m.distembed"
        save(model, path)
        parts = mutations.Parts(*read_archive(path)[:3])
        change(parts.document["objects"], parts.arrays)
        path.write_bytes(parts.pack())
        return path

    return write


@pytest.mark.parametrize(
    ("name", "said"), [("union of references", "claims|too often"), ("grid of a billion", "claims 16,[0-9]+ MB")]
)
def test_files_that_claim_gigabytes_are_refused_in_little_memory(name, said, mutations, tmp_path):
    """A union of sixty references to a scaler of four million columns, and a grid of a thousand nodes an axis."""
    path = tmp_path / "m.distembed"
    path.write_bytes(mutations.CLAIMS[name]())
    assert path.stat().st_size < 60_000
    words = "import sys, distembed as de\ntry:\n    de.load(sys.argv[1])\nexcept ValueError as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", words, str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)),
    )
    assert done.returncode == 0, done.stderr[-500:]
    with pytest.raises(ModelFileError, match=said):
        load(path)
    assert "max_memory" in done.stdout


def test_large_models_load_by_leave(tmp_path, monkeypatch):
    model = de.HDDEmbedding("js", n_basis=10, nodes=de.Grid(40)).fit(BAGS[:2])
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").nodes_ == model.nodes_
    monkeypatch.setattr("distembed.files.claims.MEMORY", 2**20)  # as if the grid were far finer
    with pytest.raises(ModelFileError, match=r"DensityStages, claims 11 MB for one bag, .* load it with max_memory="):
        load(tmp_path / "m")
    assert load(tmp_path / "m", max_memory=2e9).nodes_ == model.nodes_


def test_claims_of_parts_add_up():
    assert Claim(1, 5, 6) + Claim(2, 3, 5) == Claim(3, 5, 11)
    allowance = Allowance(1000)
    assert allowance.excess(Claim(0, MEMORY, MEMORY)) is None
    assert "claims 1,074 MB" in allowance.excess(Claim(MEMORY, MEMORY, 0))
    assert "uses its parts too often" in allowance.excess(Claim(0, 1, 1e12))
    assert Allowance(1000, 1e13).excess(Claim(0, 1, 1e12)) is None


def test_one_array_in_many_objects_is_counted_each_time(mutations, tmp_path):
    rows = [{"kind": "array", "array": 0, "shape": [2**18], "dtype": "float64"}]
    scaler = {"kind": "estimator", "class": "distembed.Standardize", "parameters": {}, "state": {"center_": {"at": 0}}}
    parts = mutations.Parts({"objects": [*rows, *[scaler] * 30_000]}, [np.zeros(2**18)], {})
    (tmp_path / "m").write_bytes(parts.pack())
    with pytest.raises(ModelFileError, match=r"uses its parts too often"):
        load(tmp_path / "m")


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few basis functions
@pytest.mark.parametrize("value", [2**40, 10**9])
def test_rounds_and_images_are_claims(value, forge):
    density = de.density.Scored(importlib.import_module("sklearn.mixture").GaussianMixture(2))

    def change(rows, _):
        next(row for row in rows if row.get("class") == "sklearn.GaussianMixture")["parameters"]["n_init"] = value

    with pytest.raises(ModelFileError, match=r"GaussianMixture, claims"):
        load(forge(de.HDDEmbedding("js", n_basis=2, density=density, nodes=de.Sobol(64)).fit(BAGS), change))


def first(rows, kind):
    """The first object of a class."""
    return next(row for row in rows if row.get("class") == f"distembed.{kind}")


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few basis functions
@pytest.mark.parametrize(
    ("model", "kind", "place", "name", "said"),
    [
        (de.DistributionClassifier("mean", model="svm"), "LinearHead", "parameters", "n_classes", "LinearHead, claims"),
        (de.embeddings.get("l2-points", n_basis=2), "PointMeans", "state", "_n_functions", "PointMeans don't fit"),
        (de.HDDEmbedding("js", n_basis=2), "HDDEmbedding", "state", "n_features_in_", "HDDEmbedding don't fit"),
    ],
)
def test_sizes_in_a_few_digits_take_no_memory(model, kind, place, name, said, forge):
    def change(rows, _):
        first(rows, kind)[place][name] = 2**21 if name == "n_features_in_" else 2**40

    labels = [0, 1, 0, 1, 0, 1]
    with pytest.raises(ModelFileError, match=said):
        load(forge(model.fit(BAGS, labels), change))


def test_columns_of_cells_are_those_of_the_embedding(forge):
    frame = {"bag": [0, 0, 1, 1], "x": [0.1, 0.5, 0.3, 0.9], "kind": ["a", "b", "b", "a"]}
    bags = de.Bags.from_frame(frame, bag="bag", categorical=["kind"])

    def change(rows, _):
        first(rows, "Cells")["state"]["n_columns"] = 2**30

    with pytest.raises(ModelFileError, match="the parts of its HDDEmbedding don't fit together"):
        load(forge(de.HDDEmbedding("js", n_basis=2, bandwidth=0.2).fit(bags), change))


def test_bags_in_a_model_are_passed_over():
    assert claim_of(BAGS).total == 4 * BAGS.points.nbytes
    assert claim_of(BAGS).held == 0  # the arrays are objects of their own


def test_images_are_as_wide_as_the_features():
    """A number of components in a file is not a size of memory."""
    rows = np.random.default_rng(0).normal(size=(5, 4))
    group = de.embeddings.symmetric.OrbitGroup(2)
    features = de.RandomFourierFeatures(6, sigma=1.0, random_state=0, group=group).fit(rows)
    expected = features.transform(rows)
    features.n_components = 2**48
    np.testing.assert_array_equal(features.transform(rows), expected)


@pytest.mark.parametrize(("n_bags", "engine"), [(2, "NumPyEngine"), (16, "CompiledEngine")])
def test_few_bags_on_a_large_grid_leave_no_lanes_empty(n_bags, engine, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr("distembed.compute.checks.LARGE_WORK", 0)
    monkeypatch.setattr("distembed.compute.checks.COLD_WORK", 0)
    monkeypatch.setattr("distembed.embeddings.hdd.LARGE_GRID", 100)
    model = de.HDDEmbedding("js", n_basis=3, nodes=de.Grid(8)).fit(BAGS)
    assert type(model._engine(model.stages_, n_bags, np.dtype(float))).__name__ == engine


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few basis functions
def test_densities_at_many_nodes_are_computed_some_at_a_time(monkeypatch):
    model = de.HDDEmbedding("js", n_basis=2, density="knn", nodes=de.Grid(6)).fit(BAGS)
    whole = model.transform(BAGS)
    monkeypatch.setattr("distembed.density.estimate._NODES_AT_A_TIME", 50)
    seen = []
    pdf = BagNeighbours.pdf
    monkeypatch.setattr(BagNeighbours, "pdf", lambda self, u: (seen.append(len(u)), pdf(self, u))[1])
    np.testing.assert_allclose(model.transform(BAGS), whole, rtol=1e-12)
    assert max(seen) == 50


# --------------------------------------------------------------------------------------------------------------
# Whole archives
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["twice", "bytes before", "bytes after", "bytes between"])
def test_archives_with_more_bytes_than_members_are_refused(how, tmp_path):
    path = tmp_path / "m.distembed"
    save(de.UnitCube().fit(BAGS), path)
    data = path.read_bytes()
    list_of_members = data.index(b"PK\x01\x02")
    path.write_bytes(
        {
            "twice": data + data,
            "bytes before": b"PK\x03\x04" + bytes(100) + data,
            "bytes after": data + bytes(10),
            "bytes between": data[:list_of_members] + bytes(100) + data[list_of_members:],
        }[how]
    )
    with pytest.raises(ModelFileError, match=r"has bytes before, between or after its members|no whole model file"):
        load(path)


# --------------------------------------------------------------------------------------------------------------
# What models remember
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        7,
        ["bag"],
        {},
        {"bag": "b"},
        {"bag": None, "columns": ["x"]},
        {"bag": "b", "columns": 3},
        {"bag": "b", "columns": [["x"]]},
        {"bag": "b", "columns": ["x"], "weights": 1.5},
        {"bag": "b", "columns": ["x"], "nan": 3},
        {"bag": "b", "columns": ["x"], "categorical": {"x": 3}},
        {"bag": "b", "columns": ["x"], "nan": {3: 3.0}},
        {"bag": "b", "columns": ["x"], "label": ["y"]},
        {"bag": "b", "columns": ["x"], "surprise": "y"},
    ],
    ids=repr,
)
def test_tables_that_no_command_remembers_are_refused(table, tmp_path):
    model = de.DistributionRegressor("mean", n_components=None, tune=None, random_state=0).fit(BAGS, TARGETS)
    model.table_ = table
    save(model, tmp_path / "m")
    (tmp_path / "t.csv").write_text("b,x\n1,2\n")
    for words in (("info", tmp_path / "m"), ("predict", tmp_path / "m", tmp_path / "t.csv")):
        assert "DistributionRegressor.table_" in refused(*words)


def test_settings_and_candidates_that_no_fit_has_are_refused(tmp_path):
    model = de.DistributionRegressor("mean", n_components=None, tune=None, random_state=0).fit(BAGS, TARGETS)
    model.best_params_ = {"alpha": "large"}
    save(model, tmp_path / "m")
    assert "best_params_ must be dict[number | None]" in refused("info", tmp_path / "m")
    model.best_params_ = {}
    model.leaderboard_[0]["score"] = "good"
    save(model, tmp_path / "m")
    assert "the parts of its Leaderboard don't fit together" in refused("info", tmp_path / "m")


# --------------------------------------------------------------------------------------------------------------
# Equal bytes
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")  # of so few bags
@pytest.mark.parametrize("updatable", [False, True])
@pytest.mark.parametrize("embedding", ["mean", ["mean", "statistics"]])
def test_two_runs_of_one_fit_give_equal_bytes(embedding, updatable, tmp_path):
    for name in "ab":
        model = de.DistributionRegressor(embedding, random_state=0).fit(BAGS, TARGETS)
        assert model.timings_
        save(model, tmp_path / name, updatable=updatable)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = load(tmp_path / "a")
    assert found.timings_ == {}
    assert [row["name"] for row in found.leaderboard_] == [row["name"] for row in model.leaderboard_]
    assert np.isnan(found.leaderboard_[0]["seconds"])


# --------------------------------------------------------------------------------------------------------------
# What can be saved can be loaded
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of what overflows
@pytest.mark.parametrize("scale", [1e160, 1e300])
def test_points_near_the_largest_numbers_are_refused_by_fit_or_load(scale, tmp_path):
    huge = BAGS.replace(points=scale * BAGS.points)
    with pytest.raises(ValueError, match=r"RandomFourierFeatures\(sigma='median'\): .* divide them by a constant"):
        de.RandomFourierFeatures(10, random_state=0).fit(huge.points)
    with pytest.raises(ValueError, match=r"LocalScale: distances of neighbours must be finite"):
        de.LocalScale((1, 2)).fit(huge)
    n_loaded = 0
    for method in de.embeddings.available().values():
        model = make_pipeline(de.Standardize(), method.make())
        for each in (method.make(), model):
            try:
                each.fit(huge)
            except ValueError:
                continue
            save(each, tmp_path / "m")
            load(tmp_path / "m")
            n_loaded += 1
    assert n_loaded
