"""Machine learning when each example is a distribution: a bag of points.

Bags go in; out come vectors whose dot products are kernels on Jensen-Shannon, Hellinger, total-variation and other
distances between the underlying densities, in time linear in the data. Any linear model does the rest.
"""

from . import bandwidth, basis, datasets, density, distances, estimator_checks, exact, nodes, sizes
from .bags import Bags, as_bags, concat
from .basis import Cosine, Fourier
from .density import KDE
from .distances import HomogeneousDistance
from .embeddings import BlockAverage, HDDEmbedding, Marginals
from .nodes import Grid, MonteCarlo, Sobol
from .random_features import RandomFourierFeatures
from .scaling import UnitCube

__version__ = "0.1.0"

__all__ = [
    "KDE",
    "Bags",
    "BlockAverage",
    "Cosine",
    "Fourier",
    "Grid",
    "HDDEmbedding",
    "HomogeneousDistance",
    "Marginals",
    "MonteCarlo",
    "RandomFourierFeatures",
    "Sobol",
    "UnitCube",
    "as_bags",
    "bandwidth",
    "basis",
    "concat",
    "datasets",
    "density",
    "distances",
    "estimator_checks",
    "exact",
    "nodes",
    "sizes",
]
