"""A model from a file predicts once, for two small bags, before anybody gets it.

Each object of a file was checked by itself then; this finds parts that don't fit together, before a user's bags do. An
honest model predicts, or refuses bags that are not its own in words. What a hostile one does, where an operation on its
parts fails, is a reason to refuse the file.
"""

from __future__ import annotations

import dis
import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import FeatureUnion, Pipeline

from ..bags import Bags
from ..bags.estimators import BagInput
from ..compute.arrays import Array

METHODS = ("predict", "predict_interval", "predict_set", "transform")
SCORES = ("predict_proba", "decision_function")
N_BAGS, N_POINTS = 2, 8
_RAISE = dis.opmap["RAISE_VARARGS"]


def in_words(error: BaseException) -> bool:
    """Whether an error is a ValueError that a statement raised, in words, and not an operation that failed.

    Examples
    --------
    >>> try:
    ...     np.zeros(2) + np.zeros(3)
    ... except ValueError as error:
    ...     in_words(error)
    False
    >>> try:
    ...     Bags([[1.0]], [0, 2])
    ... except ValueError as error:
    ...     in_words(error)
    True
    """
    trace = error.__traceback__
    if trace is None or not isinstance(error, ValueError):
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


def try_once(model: Any) -> None:
    """Let a model predict for two small bags, or rows; raises what an honest model does not raise."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            asked, options = _input(model)
            for method in METHODS:
                if method == "predict" and hasattr(model, "classes_"):
                    _compare_classes(model, asked, options)
                elif hasattr(model, method):
                    getattr(model, method)(asked, **(options if method == "predict" else {}))
        except Exception as error:
            if not in_words(error):
                raise


def _compare_classes(model: Any, asked: Any, options: dict[str, Any]) -> None:
    """Predict scores, and raise unless each class has one: which is the largest depends on the bag."""
    score = next((getattr(model, name) for name in SCORES if hasattr(model, name)), None)
    found = score if score is None else np.asarray(score(asked, **options))
    if found is None or (2 if found.ndim == 1 else found.shape[1]) != len(model.classes_):
        raise TypeError(f"it has {len(model.classes_)} classes, and not as many scores")


def _input(model: Any) -> tuple[Any, dict[str, Any]]:
    """What a model takes: bags or rows of its width, and covariates if it has seen some."""
    first = model
    while isinstance(first, Pipeline | FeatureUnion) or hasattr(first, "estimator_"):
        if isinstance(first, Pipeline | FeatureUnion):
            first = (first.steps if isinstance(first, Pipeline) else first.transformer_list)[0][1]
        else:
            first = first.estimator_
    n_dims = getattr(first, "n_features_in_", 1)
    n_points = N_POINTS if n_dims < 1000 else 1
    rows = np.arange(N_BAGS * n_points * n_dims, dtype=np.float32).reshape(-1, n_dims)
    rows *= 0.618034
    rows %= 1
    if not isinstance(first, BagInput):
        return rows[:N_BAGS], {}
    categories = getattr(first, "categories_in_", None)
    for j in categories or ():
        rows[:, j] = 0
    bags = Bags(rows, np.arange(N_BAGS + 1) * n_points, categories=categories)
    encoder = getattr(first, "encoder_", None)
    if encoder is None:
        return bags, {}
    return bags, {"covariates": {column.name: _values(column) for column in encoder.columns_}}


def _values(column: Any) -> Array:
    """As many values as bags that a column of covariates has seen."""
    labels = getattr(column, "labels", (0.0,))
    return np.array([*labels[:1]] * N_BAGS)
