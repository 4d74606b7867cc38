"""Scaling of points: from any units to mean 0 and deviation 1, or to the unit cube."""

from .columns import Differences, LocalScale, Select
from .standardize import Standardize
from .unit_cube import UnitCube
from .unit_cube import scaler_for as scaler_for

__all__ = ["Differences", "LocalScale", "Select", "Standardize", "UnitCube"]
