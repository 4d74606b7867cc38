"""Homogeneous density distances, the quadrature of their measures, and the functions of a density that they need."""

from .homogeneous import MAX_LAMBDAS as MAX_LAMBDAS
from .homogeneous import HomogeneousDistance
from .homogeneous import available as available
from .homogeneous import forget as forget
from .homogeneous import get as get
from .homogeneous import register as register

__all__ = ["HomogeneousDistance"]
