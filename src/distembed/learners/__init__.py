"""Learners: from bags to predictions, with settings chosen on held-out bags."""

from . import conformal, explain
from .classification import DistributionClassifier
from .conformal import ConformalClassifier, ConformalRegressor
from .conformal import conformal_quantile as conformal_quantile
from .importance import permutation_importance as permutation_importance
from .mixture_components import MixtureComponents
from .regression import DistributionRegressor
from .ridge import LinearRidge
from .sketched_bags import SketchedBags
from .smoother import KernelSmoother

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "DistributionClassifier",
    "DistributionRegressor",
    "KernelSmoother",
    "LinearRidge",
    "MixtureComponents",
    "SketchedBags",
    "conformal",
    "explain",
]
