"""Scaling of points: from any units to mean 0 and deviation 1, or to the unit cube."""

from .standardize import Standardize
from .unit_cube import UnitCube

__all__ = ["Standardize", "UnitCube"]
