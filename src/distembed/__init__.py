"""Machine learning when each example is a distribution."""

from . import basis, bandwidth, bags, density, distances, nodes
from .bags import Bags, as_bags
from .density import KDE
from .embeddings import HDDEmbedding
from .nodes import Grid, MonteCarlo, Sobol

__version__ = "0.1.0"
