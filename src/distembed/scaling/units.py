"""Which scaler makes units irrelevant to an embedding."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import FeatureUnion, Pipeline

from .base import BagScaler
from .standardize import Standardize
from .unit_cube import UnitCube


def scaler_for(embedding: Any) -> UnitCube | Standardize | None:
    """What to put before an embedding so that neither the units nor the offsets of columns matter.

    ``UnitCube(map="auto")`` where points must lie in the unit cube, ``Standardize()`` elsewhere, and None before a
    pipeline that begins with a scaler of its own. What ``Marginals`` and ``BlockAverage`` wrap decides for them; of
    embeddings side by side, one that wants the unit cube.

    Parameters
    ----------
    embedding : estimator
        Not fitted.

    Returns
    -------
    UnitCube, Standardize or None
        Not fitted.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.scaling import scaler_for
    >>> from sklearn.pipeline import make_pipeline, make_union
    >>> [scaler_for(each) for each in (de.HDDEmbedding(), de.MomentEmbedding(), de.Marginals(de.L2Embedding()))]
    [UnitCube(map='auto'), Standardize(), UnitCube(map='auto')]
    >>> scaler_for(make_union(de.MomentEmbedding(), de.HDDEmbedding()))
    UnitCube(map='auto')
    >>> scaler_for(make_pipeline(de.UnitCube((0, 255)), de.HDDEmbedding())) is None
    True
    """
    units = _units_of(embedding)
    return UnitCube(map="auto") if units == "unit cube" else Standardize() if units == "any" else None


def _units_of(embedding: Any) -> str:
    """Where points must lie: ``"unit cube"``, ``"any"``, or ``"own"`` for what scales them itself."""
    if isinstance(embedding, BagScaler):
        return "own"
    if isinstance(embedding, Pipeline):
        return _units_of(embedding.steps[0][1])
    if isinstance(embedding, FeatureUnion):
        found = {_units_of(each) for _, each in embedding.transformer_list}
        return next(units for units in ("unit cube", "own", "any") if units in found)
    if hasattr(embedding, "embedding"):
        return _units_of(embedding.embedding)
    return str(getattr(embedding, "units", "any"))
