"""Scaling of points: from any units to the unit cube."""

from .unit_cube import UnitCube

__all__ = ["UnitCube"]
