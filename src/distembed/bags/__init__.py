"""Bags of points: the container, what it is made from, and what estimators of bags share."""

from .container import Bags
from .joining import concat
from .ragged import as_bags

__all__ = ["Bags", "as_bags", "concat"]
