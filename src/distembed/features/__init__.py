"""Random features: rows whose dot products approximate a Gaussian kernel on the rows before."""

from .fourier import RandomFourierFeatures
from .fourier import median_distance as median_distance
from .fourier import orthogonal_frequencies as orthogonal_frequencies

__all__ = ["RandomFourierFeatures"]
