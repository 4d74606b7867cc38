"""What ``fuzz.py`` attacks and how: small models of every kind, and mutations of their files.

Checksums are made anew where objects or arrays are mutated, so that what is found is behind them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Collection
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

import distembed as de
from distembed.basis.index_sets import Auto, HyperbolicCross, SobolevEllipsoid, Tensor, TotalDegree
from distembed.embeddings.symmetric import Orbit
from distembed.files import save, storable
from distembed.files.archive import FORMAT, read_archive
from distembed.kernels import DivergenceMatrix, NystroemFeatures, PSDRepair, RBFKernel
from distembed.learners import KernelSmoother, MixtureComponents
from distembed.learners.sketched_bags import SketchedBags
from distembed.models import LinearRidge
from distembed.models.forest import ForestHead
from distembed.models.kernel_head import KernelHead
from distembed.models.target_heads import OrderedHead, TransformedHead
from distembed.models.wide_head import WideHead

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # files that need not reach a disk

# --------------------------------------------------------------------------------------------------------------
# The corpus
# --------------------------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A model file in memory, and what its model is asked about."""

    name: str
    data: bytes
    asked: Any
    options: dict[str, Any]


def some_bags(seed: int, n_bags: int = 12, n_dims: int = 2, **options: Any) -> de.Bags:
    """Bags in the unit cube, of five to fifteen points."""
    rng = np.random.default_rng(seed)
    bags = de.Bags.from_arrays([rng.uniform(size=(rng.integers(5, 16), n_dims)) for _ in range(n_bags)])
    return de.Bags(bags.points, bags.offsets, **options)


class Kind(NamedTuple):
    """A model that is yet to be fitted, what it is fitted to, and what it is asked about."""

    model: Any
    given: tuple[Any, ...]
    asked: Any
    options: dict[str, Any] = {}  # noqa: RUF012  of fit and predict
    fit: str = "fit"


@storable
def mirrored(points: Any) -> Any:
    """Points in a mirror."""
    return 1 - points


def rare_kinds() -> dict[str, Kind]:
    """Models of what no other model of the corpus holds, so everything that is storable is attacked."""
    bags = some_bags(0)
    y = np.linspace(0, 1, 12) ** 2
    classes = np.array(["a", "b", "c"] * 4)
    codes = np.random.default_rng(4).integers(0, 2, (bags.n_points, 1)).astype(float)
    labels = de.Bags(codes, bags.offsets, categories={0: ["f", "m"]})
    named = de.Bags(bags.points, bags.offsets, ids=[f"b{i}" for i in range(12)])
    small = {"n_basis": 3, "random_state": 0}
    H = de.HDDEmbedding
    views = de.Views({"both": H(**small), "first": make_pipeline(de.Select([0]), H(**small))})
    sets = {"auto": Auto(), "cross": HyperbolicCross(), "ellipsoid": SobolevEllipsoid(), "tensor": Tensor(),
            "degree": TotalDegree()}  # fmt: skip
    embeddings = {f"index set {name}": H(basis=de.Cosine(each), **small) for name, each in sets.items()}
    embeddings |= {
        "fourier": H(basis=de.Fourier(), **small),
        "markov chains": H(nodes=de.MCMC(100, n_chains=10, burn_in=10), **small),
        "monte carlo": H(nodes=de.MonteCarlo(100), **small),
        "scored": H(density=KernelDensity(bandwidth=0.2), **small),
        "scored mixture": H(density=GaussianMixture(2), nodes=de.Sobol(64), **small),
        "histogram l2": de.HistogramEmbedding("l2", bins=3),
        "orbit": Orbit(H(**small), [mirrored]),
        "nystroem entropy": NystroemFeatures("js_entropy"),
    }
    found = {name: Kind(model, (bags,), bags[:3]) for name, model in embeddings.items()}
    for head in (ElasticNet(), Lasso(), LinearRegression(), LinearSVR(), LogisticRegressionCV(Cs=2, cv=2),
                 RidgeClassifierCV()):  # fmt: skip
        targets = classes if hasattr(head, "predict_proba") or isinstance(head, RidgeClassifierCV) else y
        chain = make_pipeline(de.MomentEmbedding("mean"), MinMaxScaler(), PCA(2), head)
        found[f"{type(head).__name__} pipeline"] = Kind(chain, (bags, targets), bags[:3])
    few = {"bandwidth_scales": [1.0], "sigma_scales": [1.0], "random_state": 0}
    R = de.DistributionRegressor
    return found | {
        "foreign head": Kind(R("statistics", head=Ridge(), random_state=0), (bags, y), bags[:3]),
        "kernel sum": Kind(R(views, n_components="exact", **few), (bags, y), bags[:3]),
        "labels alone": Kind(R("js", n_components=12, **few), (labels, y), labels[:3]),
        "orbit regressor": Kind(R("js", symmetries=[mirrored], n_components=12, **few), (bags, y), bags[:3]),
        "sketches": Kind(SketchedBags(de.HistogramEmbedding("l2", bins=3).fit(named)), (named,), named, fit="add"),
    }


def kinds() -> dict[str, Kind]:
    """Models of every kind, by name."""
    bags, new, wide = some_bags(0), some_bags(1, 3), some_bags(2, n_dims=3)
    y, classes = np.linspace(0, 1, 12) ** 2, np.array(["a", "b", "c"] * 4)
    rows, rng = np.random.default_rng(3).normal(size=(12, 5)), np.random.default_rng(4)
    small = {"n_basis": 3, "random_state": 0}
    H = de.HDDEmbedding
    found = {name: Kind(method.make(), (bags,), new) for name, method in de.embeddings.available().items()}
    embeddings = {
        "one dimension": (H("js", **small), de.Bags(bags.points[:, :1], bags.offsets)),
        "three dimensions": (H("tv", **small), wide),
        "hyperbolic cross": (H(basis=de.Legendre("hyperbolic_cross"), **small), bags),
        "sobol": (H(basis="fourier", nodes=de.Sobol(64), **small), bags),
        "importance": (H(nodes=de.Importance(100), **small), bags),
        "histogram density": (H(density=de.Histogram(), **small), bags),
        "knn density": (H(density="knn", **small), bags),
        "copula": (H(density="copula", **small), bags),
        "mixture": (H(density="mixture", **small), bags),
        "per bag": (H(density=de.KDE(per_bag=True), bandwidth="scott", **small), bags),
        "periodic": (H(density=de.KDE(boundary="periodic"), **small), bags),
        "pairs": (de.Marginals(H(**small), which="pairs"), wide),
        "projections": (de.Marginals(H(**small), which=2, random_state=0), bags),
        "blocks": (de.BlockAverage(H(**small)), bags),
        "nystroem js": (NystroemFeatures("js"), bags),
        "nystroem knn": (NystroemFeatures("knn:kl"), bags),
        "nystroem mmd": (NystroemFeatures("mmd"), bags),
        "nystroem gaussian": (NystroemFeatures("gaussian:skl"), bags),
        "asinh": (de.UnitCube(map="asinh"), bags),
        "rank": (de.UnitCube(map="rank", n_quantiles=20), bags),
        "standardize": (de.Standardize(robust=True), bags),
        "local scale": (de.LocalScale((1, 2)), bags),
        "select": (de.Select([1]), bags),
        "differences": (de.Differences([0]), bags),
        "views": (de.Views({"both": H(**small), "first": make_pipeline(de.Select([0]), H(**small))}), bags),
        "components": (MixtureComponents(max_components=2, n_init=1, random_state=0), bags),
        "mixture curve": (de.MixtureCurveEmbedding(2, n_init=1, random_state=0), bags),
    }
    found |= {name: Kind(model, (seen,), seen[:3]) for name, (model, seen) in embeddings.items()}
    last = {
        "ridge": (Ridge(), y),
        "many ridges": (RidgeCV([0.1, 1.0]), np.column_stack([y, y**2])),
        "kernel ridge": (KernelRidge(kernel="rbf"), y),
        "logistic": (LogisticRegression(), classes),
        "svm": (LinearSVC(random_state=0), classes),
        "ridge classifier": (RidgeClassifier(), classes.astype(object)),
    }
    for name, (head, targets) in last.items():
        features = de.RandomFourierFeatures(20, random_state=0)
        chain = make_pipeline(de.UnitCube(), H(**small), features, StandardScaler(), head)
        found[f"{name} pipeline"] = Kind(chain, (bags, targets), new)
    union = make_pipeline(FeatureUnion([("js", H(**small)), ("mean", de.MomentEmbedding("mean"))]), Ridge())
    matrix = make_pipeline(DivergenceMatrix("knn:kl"), RBFKernel(), PSDRepair(), KernelRidge(kernel="precomputed"))
    found |= {"union": Kind(union, (bags, y), new), "kernel matrix": Kind(matrix, (bags, y), new)}
    for frequencies in ("orthogonal", "independent", "hadamard"):
        features = de.RandomFourierFeatures(16, frequencies=frequencies, features="phase", random_state=0)
        found[f"{frequencies} features"] = Kind(features, (rows,), rows)
    codes, folds = np.arange(12) % 2, list(KFold(3).split(rows))
    for kind in ("forest", "extra"):
        found[f"{kind} head"] = Kind(ForestHead(kind, n_trees=5, random_state=0), (rows, y, None, folds), rows)
    for kernel, loss in (("rbf", "ridge"), ("rbf", "logistic"), ("rbf", "svm"), ("laplace", "ridge")):
        head = KernelHead(kernel, loss, n_classes=2, random_state=0)
        found[f"{kernel} {loss} head"] = Kind(head, (rows, codes, None, folds), rows)
    grades = np.arange(12) % 3
    ordered = OrderedHead(KernelHead(random_state=0), np.array([2, 0, 1]), 3)
    found["ordered head"] = Kind(ordered, (rows, grades, None, folds), rows)
    curved = TransformedHead(KernelHead("linear"))
    found["transformed head"] = Kind(curved, (rows, np.exp(np.arange(12.0)), None, folds), rows)
    few = {"n_components": 12, "bandwidth_scales": [1.0], "sigma_scales": [0.5, 1.0], "random_state": 0}
    R, C = de.DistributionRegressor, de.DistributionClassifier
    for model in ("ridge", "svm"):
        found[f"{model} classifier"] = Kind(C("mean", model=model, **few), (bags, classes), new)
    covariates = {"age": np.arange(12.0), "sex": np.array(["f", "m"] * 6)}
    labelled = np.column_stack([bags.points[:, 0], rng.integers(0, 2, bags.n_points)])
    mixed = de.Bags(labelled, bags.offsets, categories={1: ["f", "m"]})
    many = some_bags(5, 24)
    firsts, halves = many.points[many.offsets[:-1], 0], np.array(["a", "b"] * 12)
    intervals = de.ConformalRegressor(R("mean", random_state=0), random_state=0)
    sets = de.ConformalClassifier(C("mean", random_state=0), random_state=0)
    views = de.Views({"both": H(**small), "near": make_pipeline(de.LocalScale((1, 2)), de.UnitCube(), H(**small))})
    return (
        rare_kinds()
        | found
        | {
            "wide head": Kind(WideHead(n_components=20), (rows, y), rows),
            "wide classes": Kind(WideHead(n_components=20, n_classes=2), (rows, codes), rows),
            "linear ridge": Kind(LinearRidge(), (rows, y), rows),
            "ridge of batches": Kind(LinearRidge(), (rows, y), rows, fit="partial_fit"),
            "smoother": Kind(KernelSmoother("gaussian:skl"), (bags, y), new),
            "smoother of bags": Kind(KernelSmoother("mmd", random_state=0), (bags, bags), new),
            "regressor": Kind(R("js", **few), (bags, y), new),
            "classifier": Kind(C("tv", **few), (bags, classes), new),
            "symmetries": Kind(R("js", symmetries="dihedral", **few), (bags, y), new),
            "exact": Kind(R("js", **few | {"n_components": "exact"}), (bags, y), new),
            "exact classes": Kind(C("mean", **few | {"n_components": "exact"}), (bags, classes), new),
            "weighted views": Kind(R(views, **few), (bags, y), new),
            "covariates": Kind(R("mmd", random_state=0), (bags, y), new, {"covariates": covariates}),
            "categories": Kind(R("js", **few), (mixed, y), mixed[:3]),
            "auto regressor": Kind(R(random_state=0), (many, firsts), new),
            "auto classifier": Kind(C(random_state=0), (many, halves), new),
            "odd bags": Kind(de.OddBags(), (bags,), new),
            "odd categories": Kind(de.OddBags(), (mixed,), mixed[:3]),
            "groups": Kind(de.BagClusters(3), (mixed,), mixed[:3]),
            "groups of an embedding": Kind(de.BagClusters(2, embedding="js"), (bags,), new),
            "conformal": Kind(intervals, (many, firsts), new),
            "sets": Kind(sets, (many, halves), new),
        }
    )


def corpus(folder: Path, wanted: Collection[str] = ()) -> list[Sample]:
    """The models as files in memory, all or some: what predicts, and for every other one what updates need, too."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, (name, kind) in enumerate(kinds().items()):
            if name in wanted or not wanted:
                model = getattr(kind.model, kind.fit)(*kind.given, **kind.options)
                save(model, folder / "model", updatable=i % 2 == 1)
                few = {key: {c: v[:3] for c, v in table.items()} for key, table in kind.options.items()}
                found.append(Sample(name, (folder / "model").read_bytes(), kind.asked, few))
    return found


# --------------------------------------------------------------------------------------------------------------
# Mutations
# --------------------------------------------------------------------------------------------------------------


class Parts(NamedTuple):
    """A model file taken apart."""

    document: dict[str, Any]
    arrays: list[Any]
    versions: dict[str, str]

    def pack(self) -> bytes:
        """A whole file with right checksums, as a hostile writer makes it."""
        members = {"model.json": json.dumps(self.document).encode("ascii")}
        for i, array in enumerate(self.arrays):
            out = io.BytesIO()
            np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)
            members[f"arrays/{i}.npy"] = out.getvalue()
        return zipped(members, self.versions)


def zipped(members: dict[str, bytes], versions: dict[str, str], how: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of members with right checksums."""
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()}
    text = json.dumps({"format": FORMAT, "versions": versions, "members": listed}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in {**members, "manifest.json": text}.items():
            archive.writestr(name, data)
        archive.comment = f"distembed-model/{FORMAT} sha256:{hashlib.sha256(text).hexdigest()}".encode()
    return out.getvalue()


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in nested JSON."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        top = stack.pop()
        keys = list(top) if isinstance(top, dict) else range(len(top))
        for key in keys:
            found.append((top, key))
            if isinstance(top[key], dict | list):
                stack.append(top[key])
    return found


VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 1000, 10**6, 2**31, 2**62, -(2**63), 0.0, -1.5, 0.5, 1e-300, 1e300, "",
    "x", "js", "auto", "numba", "mean", {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"int": hex(2**70)},
    {"int": "0x" + "f" * 4000}, {"bytes": "00"}, {"dtype": "<f8"}, {"dtype": "<U1000000"}, {"distance": "tv"},
    {"complex": ["0x1p0", "0x1p0"]}, {"numpy": "<f8", "bytes": "000000000000f87f"}, {"function": "distembed.mmd"},
    {"numpy": "<i8", "bytes": "ff" * 8}, {"random_state": "global"}, [], {},
]  # fmt: skip


def mutate_json(parts: Parts, rng: np.random.Generator) -> None:
    """Change, drop, swap or repeat something in the objects, one to three times."""
    rows = parts.document["objects"]
    for _ in range(rng.integers(1, 4)):
        row = rows[rng.integers(len(rows))]
        inside = places(row)
        if not inside:  # all of it was dropped
            continue
        holder, key = inside[rng.integers(len(inside))]
        old, way = holder[key], rng.integers(9)
        if way == 0:
            holder[key] = {"at": int(rng.integers(len(rows)))}
        elif way == 1:
            del holder[key]
        elif way == 2 and isinstance(old, int | float):
            holder[key] = [old + 1, old - 1, -old, 2 * old, old * 10**6, old / 3][rng.integers(6)]
        elif way == 3:
            other, place = inside[rng.integers(len(inside))]
            if not isinstance(old, dict | list) and not isinstance(other[place], dict | list):
                holder[key], other[place] = other[place], old
        elif way == 4 and isinstance(old, list) and old:
            holder[key] = [old[:-1], old + old[-1:], old[::-1], old * 5][rng.integers(4)]
        elif way == 5 and isinstance(old, str):
            texts = [each[k] for each, k in places(rows) if isinstance(each[k], str)]
            holder[key] = texts[rng.integers(len(texts))]
        elif way == 6 and isinstance(holder, dict):
            holder[f"{key}_" if rng.random() < 0.5 else str(key)[:-1]] = holder.pop(key)
        else:
            holder[key] = deepcopy(VALUES[rng.integers(len(VALUES))])


def mutate_arrays(parts: Parts, rng: np.random.Generator) -> None:
    """Change values, shapes or dtypes of arrays, one to three times, and what the objects say of them."""
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(parts.arrays)))
        array = parts.arrays[at].copy()
        way, flat = rng.integers(12), array.reshape(-1)
        if way < 4 and array.size:
            extremes = [np.nan, np.inf, -np.inf, -1, 0, 1, 2, 1e300, -1e300, 1e-300, 2**31, 2**62, array.size]
            with np.errstate(all="ignore"), contextlib.suppress(ValueError, OverflowError, TypeError):
                flat[rng.integers(array.size, size=rng.integers(1, 4))] = extremes[rng.integers(len(extremes))]
        elif way == 4:
            array = array[:-1] if array.ndim else array.reshape(1)
        elif way == 5:
            array = np.concatenate([array, array[-1:]]) if array.ndim else np.stack([array, array])
        elif way == 6:
            array = array.T if array.ndim > 1 else array[None] if rng.random() < 0.5 else array[:, None].copy()
        elif way == 7:
            array = array[..., :-1] if array.ndim else array
        elif way == 8:
            with np.errstate(all="ignore"), contextlib.suppress(ValueError, RuntimeError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                array = array.astype(["f4", "i8", "i1", "c16", "U3", "?", "f2", ">f8", "M8[s]"][rng.integers(9)])
        elif way == 9:
            array = array.reshape(-1) if rng.random() < 0.5 else np.empty((0, *array.shape[1:]), array.dtype)
        elif way == 10 and array.dtype.kind in "iuf":
            array = (rng.standard_normal(array.shape) * 10.0 ** rng.integers(-5, 12)).astype(array.dtype)
        elif way == 11:
            array = parts.arrays[rng.integers(len(parts.arrays))]
        parts.arrays[at] = np.ascontiguousarray(array) if array.ndim else array
        for row in parts.document["objects"]:
            if row.get("kind") == "array" and row.get("array") == at and rng.random() < 0.97:
                row["shape"], row["dtype"] = list(array.shape), str(array.dtype)


def attack(parts: Parts, rng: np.random.Generator) -> None:
    """Objects that take long or much by themselves: colliding keys, tuples of tuples, long ranges, empty arrays."""
    rows, way, n = parts.document["objects"], rng.integers(7), int(rng.integers(1000, 30_000))
    prime = 2**61 - 1
    rows = [dict(row) for row in rows[-1:]]
    if way < 2:
        keys = [{"int": hex(prime * (i + 1))} for i in range(n)]
        rows.insert(0, [{"kind": "set", "items": keys}, {"kind": "dict", "keys": keys, "items": [1] * n}][way])
    elif way < 4:
        kind = ["tuple", "list"][way - 2]
        rows[:0] = [{"kind": kind, "items": [1, 2]}]
        rows[1:1] = [{"kind": kind, "items": [{"at": i}, {"at": i}]} for i in range(rng.integers(20, 90))]
    elif way == 4:
        rows.insert(0, {"kind": "range", "items": [0, 2**62, 1]})
    elif way == 5:
        parts.arrays.append(np.empty((0, 2**40)))
        place = len(parts.arrays) - 1
        rows.insert(0, {"kind": "array", "array": place, "shape": [0, 2**40], "dtype": "float64"})
    else:
        rows[:0] = [{"kind": "tuple", "items": [{"int": "0x" + "f" * n}]}]
        rows[1:1] = [{"kind": "dict", "keys": [{"at": 0}], "items": [1]} for _ in range(n // 10)]
    rows = json.loads(json.dumps(rows).replace('"parameters": {', '"parameters":{'))
    before = len(rows) - 1
    model = {"kind": "estimator", "class": "distembed.UnitCube", "parameters": {"bounds": {"at": before - 1}}}
    parts.document["objects"] = [*rows[:before], {**model, "state": {"extra": {"at": before - 1}}}]


def union_of_references(n_references: int = 60, n_columns: int = 2**22) -> bytes:
    """A union of many references to one scaler that claims many columns, and holds none."""
    state = {"n_features_in_": n_columns, "mean_": None, "scale_": None, "var_": None, "n_samples_seen_": 1}
    parameters = {"with_mean": False, "with_std": False}
    rows: list[Any] = [
        {"kind": "estimator", "class": "sklearn.StandardScaler", "parameters": parameters, "state": state}
    ]
    rows += [{"kind": "tuple", "items": [f"s{i}", {"at": 0}]} for i in range(n_references)]
    rows.append({"kind": "list", "items": [{"at": 1 + i} for i in range(n_references)]})
    steps = {"transformer_list": {"at": len(rows) - 1}}
    rows.append({"kind": "estimator", "class": "sklearn.FeatureUnion", "parameters": steps, "state": {}})
    return Parts({"objects": rows}, [], {}).pack()


def grid_of_a_billion(size: int = 1000) -> bytes:
    """An embedding whose three axes have a thousand nodes each: the file holds axes, the work is on their product."""
    model = de.HDDEmbedding("js", n_basis=1, nodes=de.Grid(12)).fit(some_bags(2, n_dims=3))
    with tempfile.NamedTemporaryFile(dir=MEMORY) as file:
        save(model, file.name)
        parts = apart(Sample("", Path(file.name).read_bytes(), None, {}))
    rows = parts.document["objects"]
    grid = next(row for row in rows if row.get("class") == "distembed.GridNodes")
    rows[grid["state"]["shape"]["at"]]["items"] = [size] * 3
    onto = next(row for row in rows if row.get("class") == "distembed.Projection")
    for item in rows[onto["state"]["matrices"]["at"]]["items"]:
        row = rows[item["at"]]
        parts.arrays[row["array"]] = np.full((1, size), 1 / size)
        row["shape"] = [1, size]
    return parts.pack()


CLAIMS: dict[str, Callable[[], bytes]] = {
    "union of references": union_of_references,
    "grid of a billion": grid_of_a_billion,
}


def mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, insert or remove bytes, half of the time where the archive describes itself."""
    changed = bytearray(data)
    low = data.find(b"PK\x01\x02") if rng.random() < 0.5 else 0
    for at in rng.integers(low, len(changed), size=rng.integers(1, 5)):
        changed[at] ^= 1 << rng.integers(8) if rng.random() < 0.5 else int(rng.integers(1, 256))
    if rng.random() < 0.2:
        at = int(rng.integers(len(changed)))
        changed[at:at] = rng.bytes(rng.integers(1, 9))
    return bytes(changed)


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    """Some of the file: its beginning, its end, or all but a piece."""
    first, last = sorted(int(i) for i in rng.integers(0, len(data), size=2))
    pieces = [data[:first], data[first:], data[:first] + data[last:], data + data[first:last]]
    return [*pieces, data + data, data[:last] + data][rng.integers(6)]


def mutate_zip(data: bytes, rng: np.random.Generator) -> bytes:
    """Other members, names, methods, sizes and ends of the archive, most with right checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    versions = json.loads(members.pop("manifest.json"))["versions"]
    names, way = list(members), rng.integers(8)
    name = names[rng.integers(len(names))]
    if way == 0:
        return zipped(members, versions, zipfile.ZIP_DEFLATED)
    if way == 1:
        members[["../x", "/etc/x", "arrays/00.npy", "MODEL.JSON", "arrays/", "x" * 60_000][rng.integers(6)]] = b"1"
    elif way == 2:
        del members[name]
    elif way == 3:
        other = names[rng.integers(len(names))]
        members[name], members[other] = members[other], members[name]
    elif way == 4:
        members[name] = mutate_bytes(members[name], rng) if members[name] else b""
    elif way == 5:
        header = bytearray(members.get("arrays/0.npy", b"\x93NUMPY\x01\x00"))
        header[8 : min(len(header), 60)] = rng.bytes(max(0, min(len(header), 60) - 8))
        members["arrays/0.npy"] = bytes(header)
    elif way == 6:
        members |= {f"arrays/{i}.npy": b"" for i in range(len(names) - 1, int(rng.integers(len(names), 2000)))}
    made = bytearray(zipped(members, versions))
    if way == 7:  # sizes that lie, in the list of members or at its end
        mark, offset = [(b"PK\x01\x02", 20), (b"PK\x01\x02", 24), (b"PK\x05\x06", 12), (b"PK\x03\x04", 18)][
            rng.integers(4)
        ]
        at = made.rfind(mark) + offset
        made[at : at + 4] = int(rng.choice([0, 1, 2**20, 2**31, 2**32 - 1])).to_bytes(4, "little")
    return bytes(made)


# --------------------------------------------------------------------------------------------------------------
# Claims: files that ask for more than they hold
# --------------------------------------------------------------------------------------------------------------


def claim(parts: Parts, rng: np.random.Generator) -> None:
    """Claim large numbers where sizes stand, or make one length larger wherever it stands, arrays included."""
    rows = parts.document["objects"]
    if rng.random() < 0.5:
        numbers = [(holder, key) for row in rows for holder, key in places(row) if _is_size(holder, key)]
        for place in rng.integers(len(numbers), size=rng.integers(1, 4)) if numbers else ():
            holder, key = numbers[place]
            holder[key] = int(2 ** rng.integers(8, 63))
        return
    lengths = sorted({n for array in parts.arrays for n in array.shape if n > 1})
    if lengths:
        _grow(parts, lengths[rng.integers(len(lengths))], int(rng.choice([50, 500, 1500])))


def _is_size(holder: Any, key: Any) -> bool:
    return type(holder[key]) is int and key not in ("at", "array")


def _grow(parts: Parts, old: int, new: int) -> None:
    """Make every axis of a length longer, and all numbers that tell of it."""
    for i, array in enumerate(parts.arrays):
        if old in array.shape and array.size * (new / old) ** array.shape.count(old) < 10**6:
            for axis, n in enumerate(array.shape):
                array = np.take(array, np.arange(new) % old, axis) if n == old else array
            parts.arrays[i] = np.ascontiguousarray(array)
    for row in parts.document["objects"]:
        if row["kind"] == "array":
            array = parts.arrays[row["array"]]
            row["shape"] = list(array.shape)
            continue
        for holder, key in places(row):
            if _is_size(holder, key) and holder[key] == old:
                holder[key] = new


def repeat(parts: Parts, rng: np.random.Generator) -> None:
    """Refer to one object many times: where a list or a dict has it, or in a union of nothing else."""
    rows = parts.document["objects"]
    lists = [row for row in rows if row["kind"] in ("list", "tuple") and any(map(_is_reference, row["items"]))]
    times = int(rng.choice([10, 100, 1000, 10_000]))
    if lists and rng.random() < 0.5:
        row = lists[rng.integers(len(lists))]
        row["items"] = (row["items"] * times)[:30_000]
    else:
        _combine(rows, min(times, 1000), "sklearn.FeatureUnion")


def nest(parts: Parts, rng: np.random.Generator) -> None:
    """Put the model into unions and chains, of itself, in each other."""
    for _ in range(rng.integers(1, 40)):
        kind = str(rng.choice(["sklearn.FeatureUnion", "sklearn.Pipeline"]))
        _combine(parts.document["objects"], int(rng.integers(1, 4)), kind)


def _combine(rows: list[Any], times: int, kind: str) -> None:
    """Add a union or chain of references to the last object."""
    model = {"at": len(rows) - 1}
    rows += [{"kind": "tuple", "items": [f"s{i}", model]} for i in range(times)]
    rows.append({"kind": "list", "items": [{"at": model["at"] + 1 + i} for i in range(times)]})
    name = "steps" if kind == "sklearn.Pipeline" else "transformer_list"
    parameters = {name: {"at": len(rows) - 1}}
    rows.append({"kind": "estimator", "class": kind, "parameters": parameters, "state": {}})


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and "at" in value


CHANGES: dict[str, tuple[Callable[[Parts, np.random.Generator], None], ...]] = {
    "JSON": (mutate_json,), "arrays": (mutate_arrays,), "both": (mutate_arrays, mutate_json), "attacks": (attack,),
    "claims": (claim,), "repeated parts": (repeat,), "nested parts": (nest,), "claims, repeated": (claim, repeat),
    "claims, nested": (claim, nest),
}  # fmt: skip
WAYS: dict[str, float] = {
    "JSON": 0.25, "arrays": 0.18, "both": 0.13, "zip": 0.07, "flips": 0.05, "truncation": 0.05, "attacks": 0.03,
    "claims": 0.1, "repeated parts": 0.04, "nested parts": 0.04, "claims, repeated": 0.03, "claims, nested": 0.03,
}  # fmt: skip


def mutation(i: int, samples: list[Sample]) -> tuple[str, Sample, bytes]:
    """The way, the model and the bytes of mutation i."""
    rng = np.random.default_rng([20, i])
    sample = samples[rng.integers(len(samples))]
    way = str(rng.choice(list(WAYS), p=list(WAYS.values())))
    whole: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
        "zip": mutate_zip, "flips": mutate_bytes, "truncation": truncate,
    }  # fmt: skip
    if way in whole:
        return way, sample, whole[way](sample.data, rng)
    parts = apart(sample)
    for change in CHANGES[way]:
        (change if parts.arrays or change is not mutate_arrays else mutate_json)(parts, rng)
    return way, sample, parts.pack()


def apart(sample: Sample) -> Parts:
    """The objects and arrays of a model file, to be changed."""
    with tempfile.NamedTemporaryFile(dir=MEMORY) as file:
        file.write(sample.data)
        file.flush()
        archive = read_archive(file.name)
    return Parts(archive.document, archive.arrays, archive.versions)
