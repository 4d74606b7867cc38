"""Machine learning when each example is a distribution: a bag of points.

Bags go in; out come vectors whose dot products are kernels on Jensen-Shannon, Hellinger, total-variation and other
distances between the underlying densities, in time linear in the data. Any linear model does the rest.

Modules are imported when they are first used, so that ``import distembed`` and the command line start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = (
    "bandwidth", "basis", "conformal", "datasets", "density", "distances", "divergences", "embeddings",
    "estimator_checks", "exact", "explain", "homogeneous_maps", "index_sets", "kernels", "learners", "linear",
    "mixtures", "model_files", "nodes", "sizes", "smoothing", "tables", "theory", "two_sample",
)  # fmt: skip
_NAMES = {
    "bags": ("Bags", "as_bags", "concat"),
    "basis": ("Cosine", "Fourier", "Legendre"),
    "density": ("KDE", "KNN", "Copula", "Histogram", "Mixture", "Scored"),
    "distances": ("HomogeneousDistance",),
    "embeddings": (
        "BlockAverage", "CodebookEmbedding", "FisherEmbedding", "GaussianEmbedding", "HDDEmbedding",
        "HistogramEmbedding", "L2Embedding", "Marginals", "MeanEmbedding", "MomentEmbedding",
        "SlicedWassersteinEmbedding",
    ),
    "index_sets": ("HyperbolicCross", "SobolevEllipsoid", "Tensor", "TotalDegree"),
    "learners": ("DistributionClassifier", "DistributionRegressor"),
    "mixtures": ("MixtureComponents",),
    "model_files": ("load", "save"),
    "nodes": ("MCMC", "Grid", "Importance", "MonteCarlo", "Sobol"),
    "random_features": ("RandomFourierFeatures",),
    "scaling": ("UnitCube",),
    "smoothing": ("KernelSmoother",),
}  # fmt: skip
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "KDE",
    "KNN",
    "MCMC",
    "Bags",
    "BlockAverage",
    "CodebookEmbedding",
    "Copula",
    "Cosine",
    "DistributionClassifier",
    "DistributionRegressor",
    "FisherEmbedding",
    "Fourier",
    "GaussianEmbedding",
    "Grid",
    "HDDEmbedding",
    "Histogram",
    "HistogramEmbedding",
    "HomogeneousDistance",
    "HyperbolicCross",
    "Importance",
    "KernelSmoother",
    "L2Embedding",
    "Legendre",
    "Marginals",
    "MeanEmbedding",
    "Mixture",
    "MixtureComponents",
    "MomentEmbedding",
    "MonteCarlo",
    "RandomFourierFeatures",
    "Scored",
    "SlicedWassersteinEmbedding",
    "Sobol",
    "SobolevEllipsoid",
    "Tensor",
    "TotalDegree",
    "UnitCube",
    "as_bags",
    "bandwidth",
    "basis",
    "concat",
    "conformal",
    "datasets",
    "density",
    "distances",
    "divergences",
    "embeddings",
    "estimator_checks",
    "exact",
    "explain",
    "homogeneous_maps",
    "index_sets",
    "kernels",
    "learners",
    "linear",
    "load",
    "mixtures",
    "model_files",
    "nodes",
    "save",
    "sizes",
    "smoothing",
    "tables",
    "theory",
    "two_sample",
]

if TYPE_CHECKING:
    from . import (
        bandwidth,
        basis,
        conformal,
        datasets,
        density,
        distances,
        divergences,
        embeddings,
        estimator_checks,
        exact,
        explain,
        homogeneous_maps,
        index_sets,
        kernels,
        learners,
        linear,
        mixtures,
        model_files,
        nodes,
        sizes,
        smoothing,
        tables,
        theory,
        two_sample,
    )
    from .bags import Bags, as_bags, concat
    from .basis import Cosine, Fourier, Legendre
    from .density import KDE, KNN, Copula, Histogram, Mixture, Scored
    from .distances import HomogeneousDistance
    from .embeddings import (
        BlockAverage,
        CodebookEmbedding,
        FisherEmbedding,
        GaussianEmbedding,
        HDDEmbedding,
        HistogramEmbedding,
        L2Embedding,
        Marginals,
        MeanEmbedding,
        MomentEmbedding,
        SlicedWassersteinEmbedding,
    )
    from .index_sets import HyperbolicCross, SobolevEllipsoid, Tensor, TotalDegree
    from .learners import DistributionClassifier, DistributionRegressor
    from .mixtures import MixtureComponents
    from .model_files import load, save
    from .nodes import MCMC, Grid, Importance, MonteCarlo, Sobol
    from .random_features import RandomFourierFeatures
    from .scaling import UnitCube
    from .smoothing import KernelSmoother


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES or name in _NAMES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
