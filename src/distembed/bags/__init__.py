"""Bags of points: the container, what it is made from, and what estimators of bags share."""

from .container import Bags, as_bags, concat

__all__ = ["Bags", "as_bags", "concat"]
