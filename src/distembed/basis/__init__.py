"""Orthonormal bases on the unit cube: functions of one dimension, which products of them, and projections."""

from . import groups as groups
from . import index_sets
from .functions import Basis as Basis
from .functions import Cosine, Fourier, Legendre
from .functions import LowEnergyWarning as LowEnergyWarning
from .functions import Projection as Projection
from .functions import evenly as evenly
from .functions import get as get
from .groups import Symmetries
from .index_sets import HyperbolicCross, SobolevEllipsoid, Tensor, TotalDegree
from .index_sets import TooManyFunctions as TooManyFunctions

__all__ = [
    "Cosine", "Fourier", "HyperbolicCross", "Legendre", "SobolevEllipsoid", "Symmetries", "Tensor", "TotalDegree",
    "index_sets",
]  # fmt: skip
