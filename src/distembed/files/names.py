"""What a model file may name: classes and functions that are ``storable``, and some models of scikit-learn."""

from __future__ import annotations

import importlib
import types
from inspect import getattr_static
from typing import Any

import numpy as np

from .. import ROOMS, distances
from ..compute.registry import STORABLE, name_in_files

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
MAX_KEY = 1000  # scalars in a key of a dict; the hash of tuples of the same tuples would never end


def known(kind: str, name: str) -> Any:
    """The class or function of a name in a file, or None; nothing is imported but the package and scikit-learn."""
    if kind == "estimator":
        for module, names in SCIKIT_LEARN.items():
            if name.startswith("sklearn.") and name.partition(".")[2] in names:
                return getattr(importlib.import_module(module), name.partition(".")[2])
    if name not in STORABLE[kind] and name.startswith("distembed."):
        for room in ROOMS[: ROOMS.index("learners") + 1]:  # which fill the table
            importlib.import_module(f"distembed.{room}")
    return STORABLE[kind].get(name)


def name_of(kind: str, thing: Any) -> str | None:
    """The name in files of exactly this class or function, or None if they may not hold it."""
    name = name_in_files(thing)
    found = known(kind, name) if name.startswith("sklearn.") else STORABLE[kind].get(name)
    return name if found is thing else None


def is_attribute(kind: type, name: Any) -> bool:
    """Whether an object of that class may have an attribute of that name: it hides no method and no property."""
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
        return False
    found = getattr_static(kind, name, None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(type(found), "__get__")


def key_size(value: Any) -> float:
    """Number of scalars in a key of a dict or member of a set; infinite for what can't be one."""
    if type(value) in (tuple, frozenset):
        size = 1.0
        for part in value:
            size += key_size(part)
            if size > MAX_KEY:
                break
        return size
    return 1 if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic) else np.inf


def short(value: Any) -> str:
    """A value as text of at most sixty characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
