"""Bags of which only the rows are known: what a learner does with sketches of bags that were cut."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from ..learners.predicted import inner
from ..learners.sketched_bags import Steps


class KnownRows:
    """In place of an embedding: rows that were made elsewhere, by the numbers that bags have for ids.

    Parameters
    ----------
    rows : ndarray of shape (n_bags, n_features)
        What the embedding would give.

    Examples
    --------
    >>> KnownRows(np.array([[1.0], [2.0]])).transform(Bags([[0.0]], [0, 1], ids=[1]))
    array([[2.]])
    """

    def __init__(self, rows: Array) -> None:
        self._rows = rows

    def transform(self, bags: Bags) -> Array:
        """Rows of bags."""
        return np.asarray(self._rows[bags.ids])

    def get_feature_names_out(self) -> Array:
        """Numbers of features."""
        return np.arange(self._rows.shape[1]).astype(str).astype(object)


def steps_for_sketches(model: Any) -> Steps | None:
    """How a model makes rows of bags if it can do so from sketches of their pieces; None if it can't."""
    learner = inner(model)
    if getattr(learner, "is_ensemble", False):
        return None
    steps = Steps.of(learner)
    return None if steps.why_no_sketches() else steps


def are_smaller(model: Any, sizes: Array) -> bool:
    """Whether sketches of bags of these sizes are there, and smaller than their points, which would be gathered."""
    steps = steps_for_sketches(model)
    if steps is None or not len(sizes):
        return False
    return bool(sizes.sum() * inner(model).n_features_in_ > len(sizes) * steps.embedding.n_statistics())


def knowing(model: Any, rows: Array) -> tuple[Any, Bags]:
    """A copy of a model that knows the rows of some bags, and these bags, whose points are nothing.

    Parameters
    ----------
    model : learner, or one with intervals or sets of classes around it
        Of one embedding.
    rows : ndarray of shape (n_bags, n_features)
        Of its embedding.
    """
    made, learner = copy(model), copy(inner(model))
    learner.scaler_, learner.embedding_ = None, KnownRows(rows)
    if inner(model) is model:
        made = learner
    else:
        made.estimator_ = learner
    labels = getattr(learner, "categories_in_", None)
    columns = getattr(learner, "feature_names_in_", None)
    points = np.zeros((len(rows), learner.n_features_in_), rows.dtype)
    bags = Bags(points, np.arange(len(rows) + 1), ids=np.arange(len(rows)),
                columns=None if columns is None else list(columns))  # fmt: skip
    return made, bags if labels is None else bags.replace(categories=tuple(labels.items()))
