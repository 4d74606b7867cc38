"""Features whose dot products are a Gaussian kernel on the rows before: random ones, and those of the kernel itself."""

from .fourier import RandomFourierFeatures
from .fourier import orthogonal_frequencies as orthogonal_frequencies
from .medians import median_distance as median_distance

__all__ = ["RandomFourierFeatures"]
