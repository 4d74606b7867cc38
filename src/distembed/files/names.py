"""What a model file may name. A new estimator, and every class that its fitted attributes hold, gets a row here."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Mapping
from inspect import getattr_static
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import distances

__all__ = [
    "BIT_GENERATORS",
    "KINDS",
    "MAX_DEPTH",
    "MAX_KEY",
    "REMEDIES",
    "SPARSE",
    "is_attribute",
    "key_size",
    "known",
    "name_of",
    "short",
]

Array = NDArray[Any]

ESTIMATORS = {
    "distembed.embeddings": (
        "BlockAverage", "CodebookEmbedding", "FisherEmbedding", "GaussianEmbedding", "HDDEmbedding",
        "HistogramEmbedding", "L2Embedding", "Marginals", "MeanEmbedding", "MomentEmbedding",
        "SlicedWassersteinEmbedding",
    ),
    "distembed.learners.conformal": ("ConformalClassifier", "ConformalRegressor"),
    "distembed.kernels": ("NystroemFeatures", "PSDRepair"),
    "distembed.kernels.gram": ("DivergenceMatrix", "RBFKernel"),
    "distembed.learners": ("DistributionClassifier", "DistributionRegressor"),
    "distembed.learners.ridge": ("LinearRidge",),
    "distembed.learners.mixture_components": ("MixtureComponents",),
    "distembed.features.fourier": ("RandomFourierFeatures",),
    "distembed.scaling": ("UnitCube",),
    "distembed.learners.smoother": ("KernelSmoother",),
    # Models whose state is plain and whose predictions are NumPy's. SVC is not: libsvm trusts the shapes of arrays.
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
HELPERS = {
    "distembed.bags.moments": ("Frame",),
    "distembed.embeddings.cells": ("Cells", "NoDimensions", "OneNode"),
    "distembed.embeddings.engines": ("PointMeans",),
    "distembed.divergences.gaussians": ("Fits",),
    "distembed.learners.normal_equations": ("NormalEquations",),
    "distembed.learners.ridge_solutions": ("DualSpectrum", "DualTriangle", "PrimalSpectrum", "PrimalTriangle"),
    "distembed.embeddings.spectrum": ("Spectrum",),
    "distembed.learners.tuning": ("Search", "Trial"),
    "distembed.basis": ("Cosine", "Fourier", "Legendre", "Projection"),
    "distembed.density": ("KDE", "KNN", "Copula", "Histogram", "Mixture", "Scored"),
    "distembed.embeddings.codebook": ("NearestWord",),
    "distembed.distances.histogram_maps": ("LambdaMap", "PlainMap", "UnaryMap"),
    "distembed.basis.index_sets": ("Auto", "HyperbolicCross", "SobolevEllipsoid", "Tensor", "TotalDegree"),
    "distembed.kernels.comparisons": ("Comparison",),
    "distembed.density.nodes": ("MCMC", "Grid", "GridNodes", "Importance", "MonteCarlo", "PointNodes", "Sobol"),
    "distembed.learners.response_densities": ("ResponseDensities",),
}  # fmt: skip
FUNCTIONS = {"distembed.divergences": ("gaussian", "js_entropy", "knn", "mmd", "plugin")}
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


def _table(rows: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    """Names in files, which outlive a move of a class to another module, and where classes are."""
    return {f"{module.partition('.')[0]}.{name}": (module, name) for module, names in rows.items() for name in names}


KINDS = {"estimator": _table(ESTIMATORS), "object": _table(HELPERS), "function": _table(FUNCTIONS)}


@functools.cache
def known(kind: str, name: str) -> Any:
    """The class or function of a name in the tables; the modules of scikit-learn are imported when they are needed."""
    module, attribute = KINDS[kind][name]
    return getattr(importlib.import_module(module), attribute)


def name_of(kind: str, thing: Any) -> str | None:
    """The name in the tables of exactly this class or function."""
    name = f"{str(getattr(thing, '__module__', '')).partition('.')[0]}.{getattr(thing, '__qualname__', '')}"
    return name if name in KINDS[kind] and known(kind, name) is thing else None


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
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
