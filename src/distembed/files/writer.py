"""What model files may hold, and models as rows of plain values and arrays: the first half of model files.

A file names classes and functions that are ``storable``, and some models of scikit-learn; nothing else is looked up.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Iterable
from inspect import getattr_static
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .. import ROOMS, distances
from ..bags import Bags
from ..compute.arrays import Array
from ..compute.registry import NAMES, STORABLE

# Models of scikit-learn whose state is plain and whose predictions are NumPy's. SVC is not: libsvm trusts the shapes of
# arrays. Classes and functions of distembed are those that are ``storable``.
SCIKIT_LEARN = {
    "sklearn.decomposition": ("PCA",),
    "sklearn.kernel_ridge": ("KernelRidge",),
    "sklearn.linear_model": (
        "ElasticNet", "Lasso", "LinearRegression", "LogisticRegression", "LogisticRegressionCV", "Ridge",
        "RidgeClassifier", "RidgeClassifierCV", "RidgeCV",
    ),
    "sklearn.mixture": ("GaussianMixture",),
    "sklearn.neighbors": ("KernelDensity",),  # unfitted, as a density; its tree is refused
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing": ("LabelBinarizer", "MinMaxScaler", "StandardScaler"),
    "sklearn.svm": ("LinearSVC", "LinearSVR"),
}  # fmt: skip
SPARSE = ("csc_array", "csc_matrix", "csr_array", "csr_matrix")
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
REMEDIES = {
    "density": "use one of the built-in densities",
    "distance": f"use one of the built-in distances {', '.join(map(repr, distances.available()))}",
    "divergence": "use a divergence by its name, or an embedding",
    "kernel": "use a kernel by its name",
}
MAX_DEPTH = 100
MAX_KEY = 1000  # scalars in a key of a dict
MAX_DIGITS = 3000  # of an integer, hexadecimal: Python prints no more than 4,300 decimal ones
MAX_RANGE = 1_000_000
_SCALAR = (str, int, float, complex, bytes, np.generic, type(None))


def known(kind: str, name: str) -> Any:
    """The class or function of a name in a file, or None; nothing is imported but the package and scikit-learn."""
    if kind == "estimator":
        for module, names in SCIKIT_LEARN.items():
            if name.startswith("sklearn.") and name.partition(".")[2] in names:
                return getattr(importlib.import_module(module), name.partition(".")[2])
    if name not in STORABLE[kind] and name.startswith("distembed."):
        for room in ROOMS[: ROOMS.index("exploration") + 1]:  # which fill the table
            importlib.import_module(f"distembed.{room}")
            if name in STORABLE[kind]:
                break
    return STORABLE[kind].get(name)


def name_of(kind: str, thing: Any) -> str | None:
    """The name in files of exactly this class or function, or None if they may not hold it."""
    name = NAMES.get(thing, f"sklearn.{getattr(thing, '__qualname__', '')}")
    return name if known(kind, name) is thing else None


@functools.lru_cache(10_000)
def is_attribute(kind: Any, name: Any) -> bool:
    """Whether an object of that class may have an attribute of that name: it hides no method and no property."""
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
        return False
    found = getattr_static(kind, name, None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(type(found), "__get__")


def is_key(value: Any) -> bool:
    """Whether a value may be a key of a dict or member of a set: a scalar, or a short tuple of these, not of tuples."""
    if type(value) in (tuple, frozenset):
        return len(value) <= MAX_KEY and all(isinstance(part, _SCALAR) for part in value)
    return isinstance(value, _SCALAR)


def short(value: Any) -> str:
    """A value as text of at most sixty characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Writer:
    """Objects as rows of plain values, each after its parts, and the arrays that they hold."""

    def __init__(self, updatable: bool = False, ids: bool = True, background: bool = True) -> None:
        self._updatable = updatable
        self._ids = ids
        self._background = background
        self.rows: list[dict[str, Any]] = []
        self.arrays: list[Array] = []
        self._done: dict[int, tuple[int, int, Any]] = {}  # id: row, depth, and the object, so that its id stays its own
        self._open: dict[int, int] = {}  # id of an object that is being written: depth of its parts so far

    def value(self, value: Any, path: str) -> Any:
        """A scalar as it stands in a row, anything else as the number of its own row."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            if abs(value) >= 16 ** (MAX_DIGITS - 3):
                raise self.refusal(0, path, f"it has more than {MAX_DIGITS:,} digits", "use a smaller number")
            return value if abs(value) < 2**63 else {"int": hex(value)}
        if kind is float:
            return value if np.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if kind is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.generic) and value.dtype.kind in "biufcSUMm" and kind is value.dtype.type:
            return {"numpy": value.dtype.str, "bytes": value.tobytes()[: value.dtype.itemsize].hex()}
        if isinstance(value, np.dtype) and value.kind in "biufcSUMm":
            return {"dtype": value.str}
        if kind is distances.HomogeneousDistance and value.name in distances.available():
            if value == distances.get(value.name):
                return {"distance": value.name}
        elif isinstance(value, types.FunctionType) and (name := name_of("function", value)):
            return {"function": name}
        elif value is np.random.mtrand._rand:  # that of check_random_state(None)
            return {"random_state": "global"}
        return {"at": self._row(value, path)}

    def _row(self, value: Any, path: str) -> int:
        key = id(value)
        if key in self._open:
            raise self.refusal(value, path, "it holds itself", "take the cycle out")
        if len(self._open) > MAX_DEPTH:
            raise self.refusal(value, path, f"it is nested more than {MAX_DEPTH} deep", "make it flatter")
        if key not in self._done:
            self._open[key] = 0
            row = self._write(value, path)
            depth = self._open.pop(key) + 1
            if depth > MAX_DEPTH:
                raise self.refusal(value, path, f"it is nested more than {MAX_DEPTH} deep", "make it flatter")
            self._done[key] = len(self.rows), depth, value
            self.rows.append(row)
        number, depth, _ = self._done[key]
        if self._open:
            outer = next(reversed(self._open))
            self._open[outer] = max(self._open[outer], depth)
        return number

    def _write(self, value: Any, path: str) -> dict[str, Any]:
        kind = type(value)
        if kind in (list, tuple):
            return {"kind": kind.__name__, "items": self._items(value, path)}
        if kind in (set, frozenset):
            return {"kind": kind.__name__, "items": self._items(sorted(value, key=repr), path, keys=True)}
        if kind is dict:
            keys = self._items(value, path, keys=True)
            return {"kind": "dict", "keys": keys, "items": [self.value(v, f"{path}[{k!r}]") for k, v in value.items()]}
        if kind in (slice, range):
            if kind is range and value[MAX_RANGE:]:
                raise self.refusal(value, path, f"it has more than {MAX_RANGE:,} numbers", "make it shorter")
            return {"kind": kind.__name__, "items": self._items((value.start, value.stop, value.step), path)}
        if kind in (np.ndarray, np.memmap):
            return self._array(np.asarray(value), path)
        if kind.__name__ in SPARSE and kind is getattr(sparse, kind.__name__):
            parts = self._items((value.data, value.indices, value.indptr), path)
            return {"kind": "sparse", "class": kind.__name__, "items": parts, "shape": [int(n) for n in value.shape]}
        if kind is np.random.RandomState and value.get_state(legacy=False)["bit_generator"] == "MT19937":
            return {"kind": "random_state", "items": self._items([value.get_state(legacy=False)], path)}
        if kind is np.random.Generator and value.bit_generator.state["bit_generator"] in BIT_GENERATORS:
            seeds = value.bit_generator.seed_seq
            seeds = seeds.state if type(seeds) is np.random.SeedSequence else None
            return {"kind": "generator", "items": self._items([value.bit_generator.state, seeds], path)}
        if kind is functools.partial:
            function = name_of("function", value.func)
            if function is None:
                raise self.refusal(value, path)
            parts = self._items([value.args, value.keywords], path)
            return {"kind": "partial", "function": function, "items": parts}
        if kind is Bags:
            parts = value.parts if self._ids else value.parts._replace(ids=None)
            return {"kind": "bags", "items": self._items(parts, path)}
        if name := name_of("estimator", kind):
            return self._estimator(value, name, path)
        if name := name_of("object", kind):
            state = value._asdict() if issubclass(kind, tuple) else attributes(value, self._updatable)
            return {"kind": "object", "class": name, "state": self._named(value, state, path)}
        raise self.refusal(value, path)

    def _items(self, values: Iterable[Any], path: str, keys: bool = False) -> list[Any]:
        found = list(values)
        if keys and not all(map(is_key, found)):
            raise self.refusal(
                found, path, "keys and members of sets must be numbers, text or tuples of these", "change it"
            )
        return [self.value(value, f"{path}[{i}]") for i, value in enumerate(found)]

    def _named(self, owner: Any, state: dict[str, Any], path: str) -> dict[str, Any]:
        kind: Any = type(owner)
        for name in state:
            if not isinstance(owner, tuple) and not is_attribute(kind, name):
                raise self.refusal(
                    state[name], f"{path}.{name}", "it hides a method of its object", "delete the attribute"
                )
        return {name: self.value(value, f"{path}.{name}") for name, value in state.items()}

    def _estimator(self, value: Any, name: str, path: str) -> dict[str, Any]:
        asked = self._updatable
        if hasattr(type(value), "__distembed_whole__"):
            self._updatable = asked or value.__distembed_whole__()
        state = attributes(value, self._updatable)
        for own in () if self._ids else getattr(value, "__distembed_ids__", ()):
            state.pop(own, None)
        for own in () if self._background else getattr(value, "__distembed_background__", ()):
            state.pop(own, None)
        requests = state.pop("_metadata_request", None)
        short = type(value).__name__
        path = f"{path} > {short}" if path else short
        parameters = {key: state.pop(key, None) for key in value._get_param_names()}
        row = {
            "kind": "estimator",
            "class": name,
            "parameters": {key: self.value(each, f"{path}({key}=...)") for key, each in parameters.items()},
            "state": self._named(value, state, path),
        }
        self._updatable = asked
        if requests is not None:
            row["requests"] = {
                method: dict(each.requests)
                for method, each in vars(requests).items()
                if isinstance(each, type(requests.fit)) and each.requests
            }
        return row

    def _array(self, array: Array, path: str) -> dict[str, Any]:
        if array.dtype == object:
            items = self._items(array.ravel().tolist(), path)
            return {"kind": "objects", "shape": list(array.shape), "items": items}
        dtype = array.dtype
        if dtype.kind not in "biufcSUMmV" or dtype.hasobject or dtype.itemsize == 0:
            raise self.refusal(array, path, f"its dtype is {dtype}", "convert it to numbers or text")
        self.arrays.append(array)
        row = {"kind": "array", "array": len(self.arrays) - 1, "shape": list(array.shape), "dtype": str(dtype)}
        return row if array.flags.writeable else {**row, "readonly": True}

    def refusal(self, value: Any, path: str, why: str = "opening one must run nothing", remedy: str = "") -> TypeError:
        """The error for what files do not hold: where it is, why, and what to do."""
        argument = path.rpartition("(")[2].partition("=")[0]
        if not remedy and hasattr(type(value), "fit"):
            remedy = "use an estimator that model files know, such as Ridge, LogisticRegression or LinearSVC"
            if hasattr(value, "best_estimator_"):
                remedy = "save its best_estimator_"
        remedy = remedy or REMEDIES.get(argument, "use what distembed or NumPy has built in")
        text = " ".join(repr(value).split())
        text = text if len(text) <= 100 else text[:97] + "..."
        return TypeError(
            f"save: {path or 'model'}: {text} can't be written to a model file, because {why}; {remedy}, or keep the "
            "model with pickle yourself"
        )


def attributes(value: Any, updatable: bool = True) -> dict[str, Any]:
    """What an object remembers, without what it caches: what it says itself, or all its attributes."""
    kind = type(value)
    if hasattr(kind, "__distembed_state__"):
        state = dict(value.__distembed_state__(updatable))
    elif kind.__getstate__ not in (object.__getstate__, BaseEstimator.__getstate__):
        state = dict(value.__getstate__())
        state.pop("_sklearn_version", None)
    else:
        state = dict(getattr(value, "__dict__", {}))
        slots = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
        state |= {name: getattr(value, name) for name in slots if name != "__dict__" and hasattr(value, name)}
    cached = functools.cached_property
    return {name: each for name, each in state.items() if not isinstance(getattr_static(kind, name, None), cached)}
