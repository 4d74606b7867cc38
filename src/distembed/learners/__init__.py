"""Learners: from bags to predictions, with members and settings chosen on held-out bags."""

from . import conformal, explain
from .conformal import ConformalClassifier, ConformalRegressor
from .conformal import conformal_quantile as conformal_quantile
from .estimators import DistributionClassifier, DistributionRegressor
from .importance import permutation_importance as permutation_importance
from .learning_curves import learning_curve
from .mixture_components import MixtureComponents
from .sketched_bags import SketchedBags
from .smoother import KernelSmoother

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "DistributionClassifier",
    "DistributionRegressor",
    "KernelSmoother",
    "MixtureComponents",
    "SketchedBags",
    "conformal",
    "explain",
    "learning_curve",
]
