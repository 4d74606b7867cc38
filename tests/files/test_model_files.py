"""Model files: what comes back is what was saved, to the last bit, and nothing in a file is run."""

import functools
import hashlib
import io
import json
import os
import pickle
import stat
import zipfile
from contextlib import suppress
from types import ModuleType

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

import distembed as de
from distembed import divergences
from distembed.compute import atomic_files as _atomic
from distembed.compute.registry import STORABLE
from distembed.embeddings import available
from distembed.files import ModelFileError, info, load, save
from distembed.files import writer as names
from distembed.files.archive import FORMAT, write_archive
from distembed.files.model_files import versions_here
from distembed.files.writer import attributes
from distembed.kernels import DivergenceMatrix, NystroemFeatures, PSDRepair, RBFKernel
from distembed.learners import KernelSmoother, MixtureComponents
from distembed.models import LinearRidge

H = functools.partial(de.HDDEmbedding, n_basis=4)


def some_bags(seed=0, n_bags=9, n_dims=2):
    rng = np.random.default_rng(seed)
    return de.Bags.from_arrays([rng.uniform(size=(rng.integers(12, 25), n_dims)) for _ in range(n_bags)])


BAGS, NEW = some_bags(), some_bags(1, 4)
TARGETS = np.linspace(0, 1, 9)
CLASSES = np.array(["galaxy", "star", "é"] * 3)


def same(a, b):
    """Whether two graphs of objects are equal: types, dtypes, bits, attributes."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return a.shape == b.shape and all(map(same, a.ravel(), b.ravel()))
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        return a.shape == b.shape and same(a.data, b.data) and same(a.indices, b.indices)
    if isinstance(a, de.learners.leaderboard.Leaderboard):
        return same(attributes(a), attributes(b))  # without seconds
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float | np.floating):
        return repr(a) == repr(b)
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(legacy=False), b.get_state(legacy=False))
    if isinstance(a, np.random.Generator):
        return same(a.bit_generator.state, b.bit_generator.state)
    if isinstance(a, functools.partial):
        return a.func is b.func and same(a.keywords, b.keywords)
    if isinstance(a, de.Bags):
        return same(tuple(a.parts), tuple(b.parts))
    if type(a).__module__.startswith(("distembed", "sklearn")) and not isinstance(a, de.HomogeneousDistance):
        return same(attributes(a), attributes(b))
    return a == b


def round_trip(model, folder):
    """Save, load and save again; the second file must equal the first one."""
    save(model, folder / "a", updatable=True)
    found = load(folder / "a")
    save(found, folder / "b", updatable=True)
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    assert same(found, model)
    assert same(found.get_params(deep=False), model.get_params(deep=False))
    return found


# --------------------------------------------------------------------------------------------------------------
# What comes back
# --------------------------------------------------------------------------------------------------------------

EMBEDDINGS = {name: method.make() for name, method in available().items()} | {
    "UnitCube asinh": de.UnitCube(map="asinh", bounds=0.01, outside="clip"),
    "UnitCube rank": de.UnitCube(map="rank"),
    "UnitCube bounds": de.UnitCube(bounds=(np.array([-1.0, -1.0]), np.array([2.0, 2.0]))),
    "Marginals each": de.Marginals(H()),
    "Marginals projections": de.Marginals(H(), which=3, random_state=0),
    "BlockAverage": de.BlockAverage(H()),
    "nystroem js": NystroemFeatures("js", n_landmarks=5, random_state=np.random.RandomState(3)),
    "nystroem knn": NystroemFeatures("knn:kl"),
    "nystroem gaussian": NystroemFeatures("gaussian:skl"),
    "nystroem mmd": NystroemFeatures("mmd"),
    "nystroem entropy": NystroemFeatures("js_entropy"),
    "nystroem embedding": NystroemFeatures(H()),
    "nystroem function": NystroemFeatures(divergences.mmd),
    "legendre": H(basis=de.Legendre("hyperbolic_cross")),
    "index set object": H(basis=de.Cosine(de.TotalDegree())),
    "fourier sobol": H(basis="fourier", nodes=de.Sobol(128), random_state=0),
    "importance": H(nodes=de.Importance(300), random_state=0),
    "mcmc": H(nodes=de.MCMC(200, n_chains=20, burn_in=10), random_state=0),
    "histogram density": H(density=de.Histogram()),
    "knn density": H(density="knn", random_state=0),
    "copula": H(density="copula"),
    "mixture": H(density="mixture"),
    "scored": H(density=KernelDensity(bandwidth=0.2), n_lambdas=2),
    "periodic": H(density=de.KDE(boundary="periodic"), bandwidth=[0.1, 0.2]),
    "distance object": H(de.distances.get("chi2")),
    "RandomState": de.MeanEmbedding(n_components=20, random_state=np.random.RandomState(7)),
    "hadamard means": de.MeanEmbedding(n_components=20, random_state=np.int64(7)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of small bags and few basis functions, not of files
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_come_back_to_the_last_bit(name, tmp_path):
    embedding = clone(EMBEDDINGS[name])
    unfitted = round_trip(embedding, tmp_path)
    assert not info(tmp_path / "a").fitted
    embedding.fit(BAGS)
    before = rows(embedding.transform(NEW))
    found = round_trip(embedding, tmp_path)
    assert info(tmp_path / "a").fitted
    assert same(rows(found.transform(NEW)), before)
    assert list(found.get_feature_names_out()) == list(embedding.get_feature_names_out())
    again = rows(unfitted.fit(BAGS).transform(NEW))
    if embedding.get_params().get("random_state", 0) is not None:
        assert same(again, before)
    clone(found).set_params(**found.get_params(deep=False)).fit(NEW)


def rows(result):
    return tuple(result.parts) if isinstance(result, de.Bags) else result


@pytest.mark.parametrize("frequencies", ["orthogonal", "independent", "hadamard"])
@pytest.mark.parametrize("features", ["paired", "phase"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_features_come_back(frequencies, features, dtype, tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 40)).astype(dtype)
    model = de.RandomFourierFeatures(20, frequencies=frequencies, features=features, random_state=0).fit(X)
    found = round_trip(model, tmp_path)
    assert same(found.transform(X), model.transform(X))
    assert same(found.frequencies_, model.frequencies_)


LAST = {
    "ridge": (Ridge(), TARGETS),
    "ridge of many alphas": (RidgeCV([0.1, 1.0, 10.0]), np.column_stack([TARGETS, TARGETS**2])),
    "least squares": (LinearRegression(), TARGETS),
    "kernel ridge": (KernelRidge(kernel="rbf"), TARGETS),
    "logistic": (LogisticRegression(), CLASSES),
    "logistic of many C": (LogisticRegressionCV(Cs=2, cv=2), CLASSES),
    "SVM": (LinearSVC(random_state=0), CLASSES),
    "ridge classifier": (RidgeClassifier(), CLASSES.astype(object)),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # LogisticRegressionCV announces other defaults
@pytest.mark.parametrize("name", LAST)
def test_pipelines_come_back(name, tmp_path):
    last, y = LAST[name]
    features = de.RandomFourierFeatures(30, random_state=0)
    model = make_pipeline(de.UnitCube(), H(), features, StandardScaler(), clone(last)).fit(BAGS, y)
    found = round_trip(model, tmp_path)
    assert same(found.predict(NEW), model.predict(NEW))
    for method in ("decision_function", "predict_proba"):
        if hasattr(model, method):
            assert same(getattr(found, method)(NEW), getattr(model, method)(NEW))
    assert same(clone(found).fit(BAGS, y).predict(NEW), model.predict(NEW))


FEATURES = np.random.default_rng(0).normal(size=(9, 5))
WIDE = np.random.default_rng(1).normal(size=(9, 12))
FEW = {"n_components": 20, "bandwidth_scales": [1.0], "sigma_scales": [0.5, 1.0], "random_state": 0}
LEARNERS = {
    "ridge": lambda: (LinearRidge().fit(FEATURES, TARGETS), FEATURES),
    "ridge in the dual": lambda: (LinearRidge(2.0).fit(WIDE, TARGETS), WIDE),
    "ridge of batches": lambda: (LinearRidge().partial_fit(FEATURES, TARGETS), FEATURES),
    "smoother": lambda: (KernelSmoother("gaussian:skl").fit(BAGS, TARGETS), NEW),
    "smoother of bags": lambda: (KernelSmoother("mmd", random_state=0).fit(BAGS, BAGS), NEW),
    "components": lambda: (MixtureComponents(max_components=2, n_init=1, random_state=0).fit(BAGS), NEW),
    "regressor": lambda: (de.DistributionRegressor("js", **FEW).fit(BAGS, TARGETS), NEW),
    "classifier": lambda: (de.DistributionClassifier("tv", **FEW).fit(BAGS, CLASSES), NEW),
    "odd bags": lambda: (de.OddBags(alpha=0.2).fit(BAGS), NEW),
    "groups": lambda: (de.BagClusters(2).fit(BAGS), NEW),
    "groups of an embedding": lambda: (de.BagClusters(3, embedding="js").fit(BAGS), NEW),
    "no groups": lambda: (de.BagClusters(method="hdbscan", min_cluster_size=4).fit(BAGS), NEW),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of so few bags
@pytest.mark.parametrize("name", LEARNERS)
def test_learners_come_back(name, tmp_path):
    model, X = LEARNERS[name]()
    found = round_trip(model, tmp_path)
    assert same(found.predict(X), model.predict(X))
    if name.startswith("ridge"):
        assert same(found.predict(X, return_std=True), model.predict(X, return_std=True))
    if name == "ridge of batches":  # and goes on
        assert same(found.partial_fit(X, TARGETS).coef_, model.partial_fit(X, TARGETS).coef_)


@pytest.mark.parametrize("divergence", ["js", "gaussian:hellinger", "knn:kl"])
def test_kernel_matrices_come_back(divergence, tmp_path):
    model = make_pipeline(DivergenceMatrix(divergence), RBFKernel(), PSDRepair(), KernelRidge(kernel="precomputed"))
    model.fit(BAGS, TARGETS)
    assert same(round_trip(model, tmp_path).predict(NEW), model.predict(NEW))


def test_union_and_psd_repair_come_back(tmp_path):
    union = FeatureUnion([("js", H()), ("mean", de.MomentEmbedding("mean"))], transformer_weights={"mean": 0.5})
    assert same(round_trip(union.fit(BAGS), tmp_path).transform(NEW), union.transform(NEW))
    K = np.random.default_rng(0).normal(size=(6, 6))
    repair = PSDRepair().fit(K + K.T)
    assert same(round_trip(repair, tmp_path).transform(K), repair.transform(K))


@pytest.mark.parametrize("columns", [["x", "sex"], ["sex"], ["x"]])
def test_names_and_categories_come_back(columns, tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    labels = pd.Categorical(rng.choice(["f", "m"], 200))
    frame = pd.DataFrame({"town": np.repeat(np.arange(8), 25), "x": rng.uniform(size=200), "sex": labels})
    bags = de.Bags.from_frame(frame, bag="town", columns=columns, categorical=[c for c in columns if c == "sex"])
    model = make_pipeline(de.UnitCube(), H(), Ridge()).fit(bags, np.arange(8.0))
    found = round_trip(model, tmp_path)
    assert same(found.predict(bags), model.predict(bags))
    assert list(found[0].feature_names_in_) == columns
    with pytest.raises(ValueError, match=r"columns|dimension"):
        found.predict(de.Bags.from_frame(frame.rename(columns={"x": "z", "sex": "s"}), bag="town",
                                         columns=[{"x": "z", "sex": "s"}[c] for c in columns],
                                         categorical=[c for c in ["s"] if "sex" in columns]))  # fmt: skip


def test_bags_inside_a_model_come_back(tmp_path):
    ids, weights = [f"b{i}" for i in range(len(BAGS))], np.linspace(1, 2, BAGS.n_points)
    bags = de.Bags(BAGS.points.astype(np.float32), BAGS.offsets, weights, ids, ["u", "v"])
    model = NystroemFeatures("gaussian:skl").fit(bags)
    model.extra = de.Bags([[0.5, 1.0], [0.1, 0.0]], [0, 2], categories={1: ["f", "m"]})
    found = round_trip(model, tmp_path)
    assert list(found._seen.ids) == ids
    assert found.extra.categories == model.extra.categories
    assert same(found.transform(bags), model.transform(bags))


def test_output_settings_and_metadata_requests_come_back(tmp_path):
    pytest.importorskip("pandas")
    embedding = H().set_output(transform="pandas").fit(BAGS)
    assert list(round_trip(embedding, tmp_path).transform(NEW)) == list(embedding.get_feature_names_out())
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight="w")
        save(make_pipeline(H(), model), tmp_path / "a")
        found = load(tmp_path / "a")
        save(found, tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert str(found[-1].get_metadata_routing()) == str(model.get_metadata_routing())


VALUES = {
    "scalars": [None, True, False, 0, -1, 2**200, -(2**63), 1.5, -0.0, 5e-324, np.inf, -np.inf, np.nan, 1 - 2j, b"\0a"],
    "text": ["", "é\U0001f600", "\ud800", 'a"\\\n\0'],
    "containers": ((), [], {}, (1, (2, [3])), {1: "a", "1": 2, None: 3, (1, "b"): [4], 2.5: 5, np.int8(3): 6}),
    "sets": [{3, 1, 2}, frozenset({("b", 1), ("a", 2)}), set()],
    "ranges": [slice(None, 3, -1), range(2, 9, 3)],
    "numpy scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("é"), np.str_("")],
    "dates": [np.datetime64("2020-01"), np.timedelta64(3, "h")],
    "dtypes": [np.dtype("float32"), np.dtype(">i2")],
    "random": [np.random.RandomState(1), *(np.random.Generator(kind(5)) for kind in (
        np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64))],
    "sparse": [sparse.csr_matrix(np.eye(3)), sparse.csc_array(np.eye(2, 3, dtype=np.float32))],
    "objects": [np.array(["a", 1, None, 2.5, (1, 2)], dtype=object), np.array([["a"], ["b"]], dtype=object)],
    "distances": [de.distances.get("js"), pickle.loads(pickle.dumps(de.distances.get("tv")))],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(name, tmp_path):
    model = de.UnitCube()
    model.extra = VALUES[name]
    found = round_trip(model, tmp_path).extra
    assert same(found, model.extra)
    if name == "random":
        for a, b in zip(found, model.extra, strict=True):
            assert same(a.normal(size=3), b.normal(size=3))
        assert same(found[2].spawn(1)[0].normal(size=3), model.extra[2].spawn(1)[0].normal(size=3))


ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(12.0)[::2],
    np.zeros((0, 3), np.float32),
    np.array(2.5),
    np.array(["a", "été"]),
    np.array([b"ab", b"c"]),
    np.array([1, 2], ">i4"),
    np.array([1 + 2j], np.complex64),
    np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    np.array([np.nan, -np.nan, -0.0]),
    np.array([True, False]),
    np.float16([0.1]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_come_back(array, tmp_path):
    model = de.UnitCube()
    model.extra = array
    found = round_trip(model, tmp_path).extra
    assert same(found, array)
    assert found.flags.writeable
    assert found.flags.f_contiguous == (array.flags.f_contiguous or array.ndim < 2)
    array.flags.writeable = False
    assert not round_trip(model, tmp_path).extra.flags.writeable
    array.flags.writeable = True


def test_shared_parts_stay_shared(tmp_path):
    shared = np.arange(1000.0)
    embedding = H()
    model = make_pipeline(de.UnitCube(), de.Marginals(embedding))
    model.first, model.second, model.inside = shared, [shared], embedding
    found = round_trip(model, tmp_path)
    assert found.first is found.second[0]
    assert found.inside is found[1].embedding
    assert info(tmp_path / "a").n_arrays == 1
    model = de.MeanEmbedding(random_state=None).fit(BAGS)
    assert round_trip(model, tmp_path)._draw.random_state is np.random.mtrand._rand


def test_bytes_do_not_depend_on_caches_or_time(tmp_path, monkeypatch):
    model = H(nodes=de.Grid(8)).fit(BAGS)
    save(model, tmp_path / "a")
    model.transform(NEW)
    assert model.nodes_.points.shape == (64, 2)  # kept by a cached property
    monkeypatch.setattr("time.time", lambda: 1e9)
    save(model, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_public_estimator_is_in_the_tables():
    modules = [de, *(each for each in map(functools.partial(getattr, de), de.__all__) if isinstance(each, ModuleType))]
    public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    estimators = {each for each in public if isinstance(each, type) and issubclass(each, BaseEstimator)}
    assert len(estimators) >= 15
    missing = [each.__name__ for each in estimators if names.name_of("estimator", each) is None]
    assert missing == [], "make them, and what their fitted attributes hold, storable"


def test_every_row_of_the_tables_is_there_and_no_name_stands_for_two():
    scikit_learn = [f"sklearn.{name}" for row in names.SCIKIT_LEARN.values() for name in row]
    assert all(names.known("estimator", name).__name__ == name.partition(".")[2] for name in scikit_learn)
    for kind, table in STORABLE.items():
        for name, thing in table.items():
            assert names.name_of(kind, thing) == name
    assert sum(map(len, STORABLE.values())) == len({name for table in STORABLE.values() for name in table})


def test_info_tells_without_making(tmp_path, monkeypatch):
    model = make_pipeline(de.UnitCube(margin=0.1), de.Marginals(H("tv")), Ridge(alpha=2.0)).fit(BAGS, TARGETS)
    save(model, tmp_path / "m")
    monkeypatch.setattr(names, "known", lambda kind, name: pytest.fail("a class was looked up"))
    found = info(tmp_path / "m")
    assert found.model == "sklearn.Pipeline"
    assert found.fitted
    assert found.parameters["unitcube__margin"] == 0.1
    assert found.parameters["marginals__embedding__distance"] == "tv"
    assert found.parameters["marginals__embedding"] == "HDDEmbedding"
    assert found.parameters["ridge"] == "Ridge"
    assert found.versions["distembed"] == de.__version__
    assert found.n_bytes < (tmp_path / "m").stat().st_size
    assert set(found.parameters) <= set(model.get_params())
    assert "ridge__alpha = 2.0" in str(found)
    assert f"format {FORMAT}" in str(found)


def test_another_minor_version_warns(tmp_path):
    here = versions_here()
    writer = names.Writer()
    writer.value(de.UnitCube(), "")
    cases = (
        ("distembed", "0.0.9", True),
        ("scikit-learn", "1.5.2", True),
        ("numpy", "1.0", False),
        ("scikit-learn", here["scikit-learn"] + ".post1", False),
    )
    for library, version, warned in cases:
        write_archive(tmp_path / "m", {"objects": writer.rows}, writer.arrays, {**here, library: version})
        if warned:
            with pytest.warns(UserWarning, match=rf"with {library} {version}, this is {here[library]}; compare"):
                load(tmp_path / "m")
        else:
            load(tmp_path / "m")


# --------------------------------------------------------------------------------------------------------------
# What is refused when it is saved
# --------------------------------------------------------------------------------------------------------------


def a_function(X, Y=None):
    return divergences.mmd(X, Y, sigma=0.5)


class Foreign(BaseEstimator):
    def __init__(self, bandwidth=0.1):
        self.bandwidth = bandwidth

    def fit(self, X, y=None):
        return self


class OwnUnitCube(de.UnitCube):
    pass


def with_extra(value):
    model = de.UnitCube()
    model.extra = value
    return model


def cycle():
    a = [1]
    a.append({"a": a})
    return a


def deep(n):
    value = []
    for _ in range(n):
        value = [value]
    return value


OWN = de.HomogeneousDistance("js", kappa=lambda x, y: (x - y) ** 2 / (2 * (x + y)))
NEVER = "opening one must run nothing"
REFUSED = {
    "distance": (
        H(OWN),
        r"save: HDDEmbedding\(distance=...\): HomogeneousDistance\('js'\) can't be written to a model file, because "
        + NEVER
        + "; use one of the built-in distances 'js', .*, or keep the model with pickle yourself",
    ),
    "divergence": (NystroemFeatures(a_function), r"NystroemFeatures\(divergence=...\): <function a_function .* can't"),
    "fitted": (NystroemFeatures(a_function).fit(BAGS), r"NystroemFeatures\(divergence=...\): <function a_function"),
    "lambda": (make_pipeline(de.UnitCube(), H(density=lambda x: x)),
               r"save: Pipeline\(steps=...\)\[1\]\[1\] > HDDEmbedding\(density=...\): <function <lambda> .* built-in"),
    "foreign": (make_pipeline(de.UnitCube(), Foreign()), r"Pipeline\(steps=...\)\[1\]\[1\]: Foreign\(\) can't"),
    "density": (H(density=Foreign()), r"HDDEmbedding\(density=...\): Foreign\(\) can't .*use an estimator that"),
    "function transformer": (make_pipeline(FunctionTransformer(np.log)), r"FunctionTransformer\(.* can't"),
    "subclass": (OwnUnitCube(), r"save: model: OwnUnitCube\(\) can't"),
    "SVC": (make_pipeline(H(), SVC()), r"SVC\(\) can't"),
    "search": (GridSearchCV(H(), {"n_basis": [2]}), "model: GridSearchCV.* can't"),
    "class": (de.UnitCube, "model: <class .*UnitCube'> can't"),
    "no estimator": ([1, 2], r"model: \[1, 2\] can't"),
    "bags": (BAGS, r"got Bags; use bags.save\(path\)"),
    "builtin": (with_extra([1, {"a": eval}]), r"UnitCube.extra\[1\]\['a'\]: <built-in function eval> can't"),
    "private function": (with_extra(divergences.knn_many), "UnitCube.extra: <function knn_many"),
    "method": (with_extra(BAGS.to_frame), "UnitCube.extra: <bound method"),
    "partial": (with_extra(functools.partial(os.system, "true")), "UnitCube.extra: functools.partial"),
    "partial of ours": (with_extra(functools.partial(divergences.knn, divergence=a_function)),
                        r"UnitCube.extra\[1\]\['divergence'\]: <function a_function"),
    "object array": (with_extra(np.array([1, print], object)), r"UnitCube.extra\[1\]: <built-in function print>"),
    "objects in a record": (with_extra(np.array([(1,)], [("a", object)])), "its dtype is"),
    "masked": (with_extra(np.ma.array([1.0])), "masked_array"),
    "module": (with_extra(os), "<module 'os'"),
    "type": (with_extra(int), "<class 'int'>"),
    "cycle": (with_extra(cycle()), r"extra\[1\]\['a'\]: .*, because it holds itself; take the cycle out"),
    "depth": (with_extra(deep(150)), "nested more than 100 deep"),
    "key": (with_extra({de.KDE(): 1}), "keys and members of sets must be"),
    "hidden method": (with_extra(1), "UnitCube.transform: 3 .*it hides a method of its object; delete the attribute"),
    "kernel of ridge": (KernelRidge(kernel=a_function), r"KernelRidge\(kernel=...\): .*; use a kernel by its name"),
    "seed": (de.RandomFourierFeatures(random_state=np.random.RandomState(np.random.PCG64(0))), "RandomState"),
}  # fmt: skip
REFUSED["hidden method"][0].transform = 3


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused_by_name(name, tmp_path):
    model, message = REFUSED[name]
    (tmp_path / "m").write_bytes(b"old")
    with pytest.raises(TypeError, match=message):
        save(model, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_an_open_file_and_a_fitted_search_are_refused(tmp_path):
    with open(tmp_path / "f", "w") as file, pytest.raises(TypeError, match=r"UnitCube.extra: <_io.TextIOWrapper"):
        save(with_extra(file), tmp_path / "m")
    search = GridSearchCV(make_pipeline(H(), Ridge()), {"ridge__alpha": [1, 2]}, cv=2).fit(BAGS, TARGETS)
    with pytest.raises(TypeError, match=r"save its best_estimator_"):
        save(search, tmp_path / "m")
    round_trip(search.best_estimator_, tmp_path)


def test_a_class_decides_what_it_keeps(tmp_path, monkeypatch):
    def keep(self):
        return {name: value for name, value in self.__dict__.items() if name != "scratch"}

    def restore(self, state):
        self.__dict__.update(state, scratch="new")

    monkeypatch.setattr(de.UnitCube, "__getstate__", keep)
    monkeypatch.setattr(de.UnitCube, "__setstate__", restore)
    model = de.UnitCube(margin=0.2)
    model.scratch = print
    save(model, tmp_path / "m")
    found = load(tmp_path / "m")
    assert (found.scratch, found.margin) == ("new", 0.2)


# --------------------------------------------------------------------------------------------------------------
# Writing whole or not at all
# --------------------------------------------------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path, calls = tmp_path / "m", []
    save(de.UnitCube(), path)
    old = path.read_bytes()
    write = np.lib.format.write_array

    def interrupted(*args, **options):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        write(*args, **options)

    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(H().fit(BAGS), path)
    assert len(calls) == 3
    monkeypatch.undo()
    for module, name in ((os, "fsync"), (os, "replace")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(OSError, match=r"No space left"):
                save(H(), path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["m"]


def test_links_are_followed_and_permissions_kept(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "m", tmp_path / "link"
    save(de.UnitCube(), target)
    target.chmod(0o640)
    link.symlink_to(target)
    save(H(n_basis=7), link)
    assert link.is_symlink()
    assert load(target).n_basis == load(link).n_basis == 7
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(tmp_path / "there") == ["m"]


def test_paths_that_are_no_files(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match=r"is a folder, not a model file; give the path of a file that save wrote"):
        load(tmp_path)
    with pytest.raises(OSError, match=r"it is a folder; give the path of a file"):
        save(de.UnitCube(), tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"none.m"):
        save(de.UnitCube(), tmp_path / "none" / "m")
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "broken")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match=r"not a regular file"):  # and is not waited for
        load(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"not a regular file"):
        save(de.UnitCube(), tmp_path / "pipe")
    save(de.UnitCube(), tmp_path / "m")
    denied = PermissionError(13, "Permission denied")
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", lambda *_: (_ for _ in ()).throw(denied))
        with pytest.raises(PermissionError):
            load(tmp_path / "m")
    denied_there = lambda path, *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied", path))  # noqa: E731
    monkeypatch.setattr(_atomic.os, "open", denied_there)
    with pytest.raises(PermissionError, match=r"Permission denied .a new file in .*: '.*m'"):
        save(de.UnitCube(), tmp_path / "m")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_files_that_may_not_be_read_or_written(tmp_path):
    save(de.UnitCube(), tmp_path / "m")
    (tmp_path / "m").chmod(0)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        load(tmp_path / "m")
    with pytest.raises(PermissionError):
        save(H(), tmp_path / "m")
    tmp_path.chmod(0o700)
    assert os.listdir(tmp_path) == ["m"]


# --------------------------------------------------------------------------------------------------------------
# Hostile and damaged files
# --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / "m.distembed"
    save(make_pipeline(de.UnitCube(), H(n_basis=3), Ridge()).fit(BAGS, TARGETS), path)
    return path


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(
    path,
    members,
    *,
    rows=None,
    version=FORMAT,
    versions=None,
    manifest=None,
    how=zipfile.ZIP_STORED,
    more=(),
    comment=None,
):
    """A file of these members with right checksums, as a hostile writer would make it."""
    members = {name: data for name, data in members.items() if name != "manifest.json"}
    if rows is not None:
        members["model.json"] = json.dumps({"objects": rows}).encode()
    listed = {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in members.items()}
    versions = versions_here() if versions is None else versions
    here = {"format": version, "versions": versions, "members": listed} | (manifest or {})
    text = json.dumps(here).encode()
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in [*members.items(), ("manifest.json", text), *more]:
            archive.writestr(name, data)
        digest = hashlib.sha256(text).hexdigest()
        archive.comment = f"distembed-model/{version} sha256:{digest}".encode() if comment is None else comment
    return path


def npy(array, shape=None, descr=None):
    """Bytes of a .npy file, with a header that lies if asked to."""
    out = io.BytesIO()
    header = {
        "descr": descr or array.dtype.str,
        "fortran_order": False,
        "shape": array.shape if shape is None else shape,
    }
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + array.tobytes()


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def cube(**state):
    return {"kind": "estimator", "class": "distembed.UnitCube", "parameters": {}, "state": state}


def test_a_forged_file_that_is_right_loads(valid, tmp_path):
    assert same(load(forge(tmp_path / "m", contents(valid))), load(valid))
    assert load(forge(tmp_path / "m", {}, rows=[cube(a=1)])).a == 1


def test_pickles_are_not_run(valid, tmp_path):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([Touch(tmp_path / "run")], dtype=object), allow_pickle=True)
    members = contents(valid) | {"arrays/0.npy": out.getvalue()}
    with pytest.raises(ModelFileError, match=r"'arrays/0.npy' is not an array of plain numbers or text of its size"):
        load(forge(tmp_path / "m", members))
    for data in (pickle.dumps(Touch(tmp_path / "run")), out.getvalue()):
        (tmp_path / "m").write_bytes(data)
        with pytest.raises(
            ModelFileError, match=r"is not a model file of distembed; give the path of a file that save"
        ):
            load(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Touch(tmp_path / "run")))
    with pytest.raises(ModelFileError, match=r"is an archive, but no whole model file of distembed"):
        load(tmp_path / "m")
    assert not (tmp_path / "run").exists()


NAMES = ["os.system", "builtins.eval", "posix.system", "distembed.compute.parallel.n_threads", "distembed.write_whole",
         "distembed.embeddings.hdd.HDDEmbedding", "distembed.Bags", "sklearn.SVC", "sklearn.FunctionTransformer",
         "distembed.knn", "__main__.Foreign", "", 3, None, ["distembed.UnitCube"]]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_other_names_are_not_looked_up(name, tmp_path, monkeypatch):
    imported = []
    monkeypatch.setattr(names.importlib, "import_module", imported.append)
    for row in (
        {"kind": "estimator", "class": name, "parameters": {}, "state": {}},
        {"kind": "object", "class": name, "state": {}},
    ):
        with pytest.raises(ModelFileError, match=r"is not a class that model files know.*; save the model again with"):
            load(forge(tmp_path / "m", {}, rows=[row], versions={}))
    if name == "distembed.knn":
        return
    before = [EMPTY, {"kind": "dict", "keys": [], "items": []}]
    for row in (cube(a={"function": name}), {"kind": "partial", "function": name, "items": [{"at": 0}, {"at": 1}]}):
        with pytest.raises(ModelFileError, match=r"stands for no value|is not a function that model files know"):
            load(forge(tmp_path / "m", {}, rows=[*before, row], versions={}))
    assert set(imported) <= {f"distembed.{room}" for room in names.ROOMS}  # whatever the file says


def test_an_older_format_says_what_to_do(valid, tmp_path):
    path = forge(tmp_path / "m", contents(valid), version=1)
    with pytest.raises(ModelFileError, match=r"was written by an older distembed .*; fit the model again and save it"):
        load(path)


EMPTY = {"kind": "list", "items": []}
WRONG = {
    "no rows": [],
    "a number for a row": [3],
    "a kind that is none": [{"kind": "code", "items": []}],
    "an unhashable kind": [{"kind": []}],
    "no estimator": [EMPTY],
    "parameters no object": [{**cube(), "parameters": [1]}],
    "state no object": [{**cube(), "state": 3}],
    "unknown parameter": [{**cube(), "parameters": {"colour": 1}}],
    "a later object": [cube(a={"at": 1}), cube()],
    "itself": [cube(a={"at": 0})],
    "before the first": [EMPTY, cube(a={"at": -1})],
    "true as a number": [EMPTY, EMPTY, cube(a={"at": True})],
    "a float as a number": [EMPTY, cube(a={"at": 0.0})],
    "a list for a value": [cube(a=[1])],
    "an object for a value": [cube(a={"b": 1})],
    "__class__": [cube(__class__=1)],
    "__dict__": [cube(__dict__=1)],
    "a method": [cube(transform=1)],
    "an inherited method": [cube(get_params=1)],
    "no name": [cube(**{"a b": 1})],
    "int": [cube(a={"int": "x"})],
    "float": [cube(a={"float": "x"})],
    "complex": [cube(a={"complex": [1, 2]})],
    "numpy of objects": [cube(a={"numpy": "|O", "bytes": "00" * 8})],
    "numpy too short": [cube(a={"numpy": "<f8", "bytes": "00"})],
    "dtype of objects": [cube(a={"dtype": "O"})],
    "dtype of nothing": [cube(a={"dtype": "nonsense"})],
    "distance": [cube(a={"distance": "mine"})],
    "no such array": [{"kind": "array", "array": 0, "shape": [1], "dtype": "float64"}, cube()],
    "items no list": [{"kind": "tuple", "items": "ab"}, cube()],
    "no items": [{"kind": "list"}, cube()],
    "unequal keys": [{"kind": "dict", "keys": [1], "items": []}, cube()],
    "repeated keys": [{"kind": "dict", "keys": [1, 1], "items": [1, 2]}, cube()],
    "unhashable key": [EMPTY, {"kind": "set", "items": [{"at": 0}]}, cube()],
    "range": [{"kind": "range", "items": ["a", 1, 2]}, cube()],
    "shape": [{"kind": "objects", "items": [1], "shape": [5]}, cube()],
    "negative shape": [{"kind": "objects", "items": [1], "shape": [-1]}, cube()],
    "sparse": [{"kind": "sparse", "class": "system", "items": [], "shape": [1]}, cube()],
    "bags": [{"kind": "bags", "items": [1, 2, 3, 4, 5, 6]}, cube()],
    "fields": [{"kind": "object", "class": "distembed.KDE", "state": {"a": 1}}, cube()],
    "named tuple": [{"kind": "object", "class": "distembed.Fits", "state": {}}, cube()],
    "requests": [{**cube(), "requests": {"fit": 1}}],
    "request of a method": [{**cube(), "requests": {"__init__": {"a": True}}}],
    "random state": [{"kind": "random_state", "items": [3]}, cube()],
    "bit generator": [{"kind": "dict", "keys": ["bit_generator"], "items": ["seed"]},
                      {"kind": "generator", "items": [{"at": 0}, None]}, cube()],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_rows_of_the_wrong_form_are_refused(name, tmp_path):
    path = forge(tmp_path / "m", {}, rows=WRONG[name])
    with pytest.raises(ModelFileError, match=r"is not as save writes it .*; save the model again with this distembed"):
        load(path)
    with suppress(ModelFileError):  # which looks at less
        assert str(info(path))


def test_info_does_not_follow_one_estimator_for_ever(tmp_path):
    laughs = [cube()]
    for i in range(60):  # each names the one before twice
        again = {"a": {"at": i}, "b": {"at": i}}
        laughs.append({"kind": "estimator", "class": "sklearn.Pipeline", "parameters": again, "state": {}})
    assert len(info(forge(tmp_path / "m", {}, rows=laughs)).parameters) <= 1000


def test_depth_and_doubling_are_bounded(tmp_path):
    chain = [EMPTY, *({"kind": "list", "items": [{"at": i}]} for i in range(5000)), cube()]
    with pytest.raises(ModelFileError, match=r"nested more than 100 deep"):
        load(forge(tmp_path / "m", {}, rows=chain))
    doubling = [{"kind": "tuple", "items": [1]}]
    doubling += [{"kind": "tuple", "items": [{"at": i}, {"at": i}]} for i in range(60)]
    for row in ({"kind": "set", "items": [{"at": 60}]}, {"kind": "dict", "keys": [{"at": 60}], "items": [1]}):
        with pytest.raises(ModelFileError, match=r"holds its parts too often"):
            load(forge(tmp_path / "m", {}, rows=[*doubling, row, cube()]))
    for text in (b'{"objects":' + b"[" * 200_000, b'{"objects":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
                 b'{"a":' * 100_000 + b"1" + b"}" * 100_000):  # fmt: skip
        with pytest.raises(ModelFileError, match=r"is damaged, incomplete or no model file"):
            load(forge(tmp_path / "m", {"model.json": text}))


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"{", b'{"objects": [NaN]}', b'{"objects": [], "objects": []}',
                                  b"\xff", b'{"objects": ' + b"9" * 5000 + b"}"], ids=repr)  # fmt: skip
def test_json_that_save_does_not_write_is_refused(text, tmp_path):
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", {"model.json": text}))


def test_random_states_stay_inside_their_buffers(tmp_path):
    for rng, key in ((np.random.RandomState(0), "pos"), (np.random.Generator(np.random.Philox(0)), "buffer_pos")):
        save(with_extra(rng), tmp_path / "a")
        members = contents(tmp_path / "a")
        rows = json.loads(members["model.json"])["objects"]
        (row,) = [row for row in rows if row["kind"] == "dict" and key in row["keys"]]
        row["items"][row["keys"].index(key)] = 10**6
        with pytest.raises(ModelFileError, match=r"outside their buffer"):
            load(forge(tmp_path / "m", members, rows=rows))


def test_sparse_indices_stay_inside(tmp_path):
    save(with_extra(sparse.csr_matrix(np.eye(3))), tmp_path / "a")
    members = contents(tmp_path / "a")
    for name in [name for name in members if name.startswith("arrays")]:
        array = np.load(io.BytesIO(members[name]))
        if array.dtype.kind == "i" and len(array) == 3:
            changed = members | {name: npy(np.array([0, 1, 10**6], array.dtype))}
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", changed))


def test_arrays_whose_header_lies_are_refused_before_memory_is_taken(valid, tmp_path):
    members = contents(valid)
    first = np.load(io.BytesIO(members["arrays/0.npy"]))
    lies = [
        npy(first, (2**60,)), npy(first, (2**40, 2**40)), npy(first, (-1,)), npy(first, (first.size + 1,)),
        npy(first, (0,)), npy(first, descr="|O"), npy(first, descr=[("a", "|O")]), npy(first, (10**12,), "<U0"),
        npy(first) + b"more", members["arrays/0.npy"][:-1], members["arrays/0.npy"][:20], b"", b"\x93NUMPY",
        b"\x93NUMPY\x02\x00" + members["arrays/0.npy"][8:], b"\x93NUMPY\x01\x00\xff\xff" + b" " * 70_000,
        b"\x93NUMPY\x01\x00\x10\x00__import__('os')", npy(np.zeros(first.shape, np.float32)),
        npy(np.zeros(first.size + 1)),
    ]  # fmt: skip
    for data in lies:
        with pytest.raises(ModelFileError):
            load(forge(tmp_path / "m", members | {"arrays/0.npy": data}))


def test_a_newer_format_says_upgrade(valid, tmp_path):
    path = forge(tmp_path / "m", contents(valid), version=FORMAT + 1)
    for function in (load, info):
        with pytest.raises(
            ModelFileError, match=rf"m: was written by a newer distembed \(format {FORMAT + 1}, this one reads"
        ):
            function(path)
    with pytest.raises(ModelFileError, match=r"manifest is not as save writes it"):
        load(forge(tmp_path / "m", contents(valid), manifest={"format": FORMAT + 1}))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")  # zipfile's own
def test_other_members_are_refused(valid, tmp_path):
    members = contents(valid)
    cases = {
        "missing or additional members: 'extra.py'": {"more": [("extra.py", b"1")]},
        "missing or additional members: '../x'": {"more": [("../x", b"1")]},
        "missing or additional members: '/etc/x'": {"more": [("/etc/x", b"1")]},
        "two members of one name": {"more": [("model.json", b"{}")]},
        "manifest is not as": {"manifest": {"members": {"model.json": 1}}},
        "manifest is not as ": {"manifest": {"versions": {"numpy": 3}}},
        "missing or additional": {"manifest": {"members": {}}},
        "no whole model file": {"comment": b"distembed"},
        "checksum of its member 'manifest.json'": {"comment": f"distembed-model/{FORMAT} sha256:{'0' * 64}".encode()},
        "checksum of its member 'manifest.json' ": {"comment": f"distembed-model/{FORMAT}".encode()},
    }
    for message, options in cases.items():
        with pytest.raises(ModelFileError, match=message.strip()):
            load(forge(tmp_path / "m", members, **options))
    for name in members:
        if name != "manifest.json":
            with pytest.raises(ModelFileError, match=r"missing or additional|has no member|not as save"):
                load(forge(tmp_path / "m", {key: data for key, data in members.items() if key != name}))
    for name in ("arrays/../../x.npy", "arrays/01.npy", "x"):
        with pytest.raises(ModelFileError, match=r"missing or additional members"):
            load(forge(tmp_path / "m", members | {name: members["arrays/0.npy"]}))


def test_bombs_are_refused_before_they_are_read(valid, tmp_path):
    bomb = contents(valid) | {"arrays/0.npy": npy(np.zeros(2**22))}
    path = forge(tmp_path / "m", bomb, how=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    with pytest.raises(ModelFileError, match=r"is compressed or encrypted, and save does neither"):
        load(path)
    with pytest.raises(ModelFileError, match=r"more than max_bytes=1,000; raise max_bytes if you trust it"):
        load(valid, max_bytes=1000)
    # Members may not claim more bytes than the file has, as overlapping ones would.
    data = bytearray(valid.read_bytes())
    start = data.rfind(b"PK\x01\x02")
    data[start + 20 : start + 28] = (10**9).to_bytes(4, "little") * 2
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match=r"its members claim [0-9,]+ bytes, more than the [0-9,]+ of the file"):
        load(tmp_path / "m")
    end = data.rfind(b"PK\x05\x06")
    data[end + 12 : end + 16] = (2**31).to_bytes(4, "little")
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match=r"its list of members is larger than any that save writes"):
        load(tmp_path / "m")


def test_a_changed_byte_in_any_member_is_found(valid, tmp_path):
    whole = valid.read_bytes()
    with zipfile.ZipFile(valid) as archive:
        for entry in archive.infolist():
            start = entry.header_offset + 30 + len(entry.filename) + len(entry.extra)
            for at in (start, start + entry.file_size // 2, start + entry.file_size - 1):
                changed = bytearray(whole)
                changed[at] ^= 1
                (tmp_path / "m").write_bytes(changed)
                with pytest.raises(ModelFileError, match=r"damaged|checksum|not an array"):
                    load(tmp_path / "m")
    members = contents(valid)
    for name in members:
        if name != "manifest.json":  # right sums of the archive, wrong ones of the manifest
            data = bytearray(members[name])
            data[-1] ^= 1
            listed = json.loads(members["manifest.json"])["members"]
            with pytest.raises(ModelFileError, match=r"checksum of its member|is damaged"):
                load(forge(tmp_path / "m", members | {name: bytes(data)}, manifest={"members": listed}))


def test_every_truncation_is_found(valid, tmp_path):
    whole = valid.read_bytes()
    for size in [*range(60), *range(60, len(whole), len(whole) // 80), *range(len(whole) - 120, len(whole))]:
        (tmp_path / "m").write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match=r"; (save the model again|give the path)"):
            load(tmp_path / "m")


def test_random_damage_is_found_or_harmless(valid, tmp_path):
    whole, rng = valid.read_bytes(), np.random.default_rng(0)
    expected = load(valid).predict(NEW)
    directory = whole.find(b"PK\x01\x02")
    harmless = 0
    for i in range(300):
        data = bytearray(whole)
        low = directory if i % 2 else 0  # half of it where the archive describes itself
        for at in rng.integers(low, len(data), size=rng.integers(1, 4)):
            data[at] ^= 1 << rng.integers(8) if rng.random() < 0.5 else rng.integers(1, 256)
        if rng.random() < 0.2:
            del data[rng.integers(len(data)) :]
        elif rng.random() < 0.2:
            at = rng.integers(len(data))
            data[at:at] = rng.bytes(rng.integers(1, 9))
        (tmp_path / "m").write_bytes(data)
        try:
            found = load(tmp_path / "m")
        except ModelFileError as error:
            assert str(error).startswith(str(tmp_path / "m"))  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        else:
            harmless += 1
            assert same(found.predict(NEW), expected)
    assert harmless < 75  # dates and attributes of members mean nothing


def test_large_files_have_large_headers(valid, tmp_path, monkeypatch):
    model = load(valid)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)  # instead of some gigabytes
    assert same(round_trip(model, tmp_path), model)
    data = bytearray((tmp_path / "a").read_bytes())
    assert b"PK\x06\x06" in data
    end = data.rfind(b"PK\x06\x06")
    data[end + 40 : end + 48] = (2**40).to_bytes(8, "little")
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ModelFileError, match=r"its list of members is larger"):
        load(tmp_path / "a")


def test_members_are_stored_without_dates(valid):
    with zipfile.ZipFile(valid) as archive:
        names = archive.namelist()
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.comment.startswith(f"distembed-model/{FORMAT} sha256:".encode())
    assert (names[0], names[-1]) == ("model.json", "manifest.json")
    assert FORMAT == 2
