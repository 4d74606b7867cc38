"""Symmetries of learners: what they make of scaler and embedding, and what they refuse."""

from __future__ import annotations

from typing import Any

from ..basis import groups
from ..embeddings.orbit import Orbit
from ..scaling import UnitCube
from ..scaling.shared import SharedCube


def with_symmetries(owner: Any, scaler: Any, embedding: Any) -> tuple[Any, Any]:
    """Scaler and embedding of a learner that has ``symmetries``, by name, as an object or as functions of points."""
    name, symmetries = type(owner).__name__, owner.symmetries
    if isinstance(symmetries, list | tuple):
        return None, Orbit(embedding, list(symmetries), scale=scaler)
    found = groups.get(symmetries)
    if "symmetries" not in embedding.get_params(deep=False):
        raise ValueError(
            f"{name}(symmetries=...): {type(embedding).__name__} has none of its own; use one of 'js', 'hellinger', "
            "'tv', 'chi2', 'l2', or give functions of points: symmetries=[function, ...]"
        )
    if isinstance(owner.scale, str) and isinstance(scaler, UnitCube):
        swap = found.swap if isinstance(found.swap, tuple) else "all"
        scaler = SharedCube(swap)
    return scaler, embedding.set_params(symmetries=found)


def check_symmetric(owner: Any, scaler: Any, embedding: Any) -> None:
    """Refuse what a fitted scaler, or no random features, would make of the symmetries of a fitted embedding."""
    name, found = type(owner).__name__, getattr(embedding, "symmetries", None)
    if owner.n_components is None:
        raise ValueError(
            f"{name}(n_components=None): the features of an embedding change with symmetries, and their kernel is "
            "averaged; use n_components=5000 or 'exact'"
        )
    if found is None or not isinstance(scaler, UnitCube):
        return
    _, swap, _ = groups.get(found).dimensions(len(scaler.low_))
    boxes = {(float(scaler.low_[j]), float(scaler.high_[j]), scaler.maps_[j]) for j in swap}
    if len(boxes) > 1 or any(kind in ("asinh", "rank") for *_, kind in boxes):
        raise ValueError(
            f"{name}(scale=...): columns that symmetries swap must share one box and a linear map, got boxes from "
            f"{[scaler.low_[j].item() for j in swap]} to {[scaler.high_[j].item() for j in swap]}; use scale='auto' or "
            "UnitCube(bounds=(low, high))"
        )


def refuse_in_ensembles(owner: Any) -> None:
    """Refuse what ensembles do not have."""
    if owner.symmetries is not None or owner.n_components == "exact":
        raise ValueError(
            f"{type(owner).__name__}: symmetries and n_components='exact' are for one embedding by name, such as 'js', "
            "without covariates; name one, or leave them out"
        )
