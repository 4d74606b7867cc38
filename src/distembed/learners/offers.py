"""Which methods a learner offers: one that it cannot offer is absent, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

from sklearn.base import is_classifier

from ..compute.checks import Message
from ..models.foreign_head import foreign_name
from .candidates import GROWING, Request
from .model import NotOfferedError


class offered_if:
    """A method that is absent, with the reason, where a function of the estimator gives one.

    Parameters
    ----------
    why_not : callable
        The reason as text; empty where the method is there.
    """

    def __init__(self, why_not: Callable[[Any], str]) -> None:
        self.why_not = why_not
        self._method: Any = None

    def __call__(self, method: Any) -> Any:
        """Decorate a method."""
        self._method = method
        return update_wrapper(self, method)

    def __get__(self, learner: Any, owner: Any = None) -> Any:
        if learner is None:
            return self._method
        reason = self.why_not(learner)
        if reason:
            raise NotOfferedError(Message(f"{type(learner).__name__}.{self._method.__name__}: ", reason))
        return MethodType(self._method, learner)


def why_no_batches(learner: Any) -> str:
    """Why a learner can't learn from batches, from its parameters alone."""
    request = Request.of(learner)
    if request.head is not None:
        name = foreign_name(request.head)
        if not hasattr(request.head, "partial_fit"):
            return f"head={name} needs all bags at once; use one with partial_fit for batches, or leave head out"
        if is_classifier(learner) and not hasattr(request.head, "predict_proba"):
            return f"head={name} has no predict_proba, and scores need all bags at once; use another head for batches"
    if getattr(learner, "ordered", None) is not None:
        return "ordered=... needs all bags at once; leave it out for batches"
    growing = [*GROWING, *([] if request.head is None else [foreign_name(request.head)])]
    if request.heads and not set(request.heads) & set(growing):
        return f"{request.heads[0]!r} needs all bags at once; use a head of {', '.join(map(repr, growing))} for batches"
    if request.is_tuned and isinstance(learner.n_components, str):
        return f"n_components={learner.n_components!r} needs all bags at once; use n_components=5000 for batches"
    model = request.model or getattr(learner, "model", "ridge")
    if request.is_tuned and model != "ridge":
        return f"model={model!r} needs all bags at once; use model='ridge' for batches"
    return ""


def why_no_more_bags(learner: Any) -> str:
    """Why bags can't be added now."""
    reason = why_no_batches(learner)
    if reason or not hasattr(learner, "model_"):
        return reason
    if not learner.model_.grows:
        return (
            "bags can be added to a model that partial_fit or fit_batches began, this one comes from fit; use refit "
            "with all bags"
        )
    ridges = [member.head.ridge for member in learner.model_.members if member.head.ridge is not None]
    return next((ridge.why_not_updatable for ridge in ridges if ridge.why_not_updatable), "")


def why_no_law(learner: Any) -> str:
    """Why a fitted learner has no intervals."""
    if not hasattr(learner, "model_") or learner.law_ is not None:
        return ""
    return (
        "needs errors of held-out bags, and the fit held none out (tune=None, or too few bags); fit with tune='auto', "
        "or use a conformal learner with bags of its own"
    )


def why_no_likeness(learner: Any) -> str:
    """Why bags can't be compared with those of the fit."""
    missing = hasattr(learner, "model_") and learner.reference_ is None
    return (
        "the model comes from a file of an older version, which kept nothing of its bags; fit again" if missing else ""
    )


def why_no_features(learner: Any) -> str:
    """Why there is no single vector of a bag."""
    single = not Request.of(learner).several and (not hasattr(learner, "model_") or learner.model_.is_single)
    return "" if single else "an ensemble has no single vector of a bag; fit one embedding by name"


def why_no_probabilities(learner: Any) -> str:
    """Why there are no probabilities: support vectors need held-out bags of all classes."""
    if hasattr(learner, "model_"):
        there = all(getattr(member.head, "has_probabilities", True) for member in learner.model_.members)
    else:
        request = Request.of(learner)
        there = (request.model or learner.model) != "svm" or learner.tune is not None or not request.is_tuned
    if there:
        return ""
    return (
        "model='svm' has probabilities only where bags of all classes were held out to choose its settings; use tune=3 "
        "and at least five bags, or model='logistic'"
    )
