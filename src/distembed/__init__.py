"""Machine learning when each example is a distribution: a bag of points.

Bags go in; out come vectors whose dot products are kernels on Jensen-Shannon, Hellinger, total-variation and other
distances between the underlying densities, in time linear in the data. Any linear model does the rest.
"""

from . import (
    bandwidth,
    basis,
    datasets,
    density,
    distances,
    divergences,
    embeddings,
    estimator_checks,
    exact,
    homogeneous_maps,
    index_sets,
    kernels,
    nodes,
    sizes,
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
from .nodes import MCMC, Grid, Importance, MonteCarlo, Sobol
from .random_features import RandomFourierFeatures
from .scaling import UnitCube

__version__ = "0.1.0"

__all__ = [
    "KDE",
    "KNN",
    "MCMC",
    "Bags",
    "BlockAverage",
    "CodebookEmbedding",
    "Copula",
    "Cosine",
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
    "L2Embedding",
    "Legendre",
    "Marginals",
    "MeanEmbedding",
    "Mixture",
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
    "datasets",
    "density",
    "distances",
    "divergences",
    "embeddings",
    "estimator_checks",
    "exact",
    "homogeneous_maps",
    "index_sets",
    "kernels",
    "nodes",
    "sizes",
]
