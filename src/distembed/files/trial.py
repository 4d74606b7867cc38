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
    """Let a model predict for two small bags, or rows; raises what an honest model does not raise.

    They are in float32, which large models need not convert their arrays for; in float64 where that is too coarse.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for dtype in (np.float32, np.float64):
            try:
                _predict(model, *small_input(model, dtype))
            except Exception as error:
                if not in_words(error):
                    raise
            else:
                return


def _predict(model: Any, asked: Any, options: dict[str, Any]) -> None:
    """Call all methods that a model has; raises where classes have no score each: the largest depends on the bag."""
    for method in METHODS:
        if not hasattr(model, method) or (method == "transform" and not hasattr(model, "fit_transform")):
            continue  # an encoder of covariates transforms something else
        score = None
        if method == "predict" and hasattr(model, "classes_"):
            score = next((getattr(model, name) for name in SCORES if hasattr(model, name)), None)
        if score is None:
            getattr(model, method)(asked, **(options if method == "predict" else {}))
            continue
        found = np.asarray(score(asked, **options))
        if (2 if found.ndim == 1 else found.shape[1]) != len(model.classes_):
            raise TypeError(f"it has {len(model.classes_)} classes, and not as many scores")


def small_input(model: Any, dtype: Any) -> tuple[Any, dict[str, Any]]:
    """What a model takes: bags or rows of its width, and covariates if it has seen some."""
    first = first_step(model)
    n_dims = getattr(first, "n_features_in_", 1)
    sizes = (7, 9) if n_dims < 1000 else (1, 1)
    rows = np.arange(sum(sizes) * n_dims, dtype=dtype).reshape(-1, n_dims)
    rows *= 0.618034
    rows %= 1
    if not isinstance(first, BagInput):
        return rows[: len(sizes)], {}
    categories = getattr(first, "categories_in_", None)
    for j in categories or ():
        rows[:, j] = 0
    bags = Bags(rows, np.cumsum([0, *sizes]), categories=categories)
    encoder = getattr(first, "encoder_", None)
    if encoder is None:
        return bags, {}
    return bags, {"covariates": {column.name: _values(column, len(sizes)) for column in encoder.columns_}}


def first_step(model: Any) -> Any:
    """The estimator that gets what a model is given; in a chain, none that takes bags comes after one that does not."""
    if hasattr(model, "estimator_"):
        return first_step(model.estimator_)
    if not isinstance(model, Pipeline | FeatureUnion):
        return model
    steps = model.steps if isinstance(model, Pipeline) else model.transformer_list
    found = [first_step(step) for _, step in steps if step not in (None, "passthrough", "drop")]
    kinds = [isinstance(each, BagInput) for each in found]
    if kinds != sorted(kinds, reverse=True) or (isinstance(model, FeatureUnion) and len(set(kinds)) > 1):
        raise TypeError("a step that takes bags gets rows")
    return found[0] if found else None


def _values(column: Any, n: int) -> Array:
    """So many values that a column of covariates has seen."""
    return np.array([*getattr(column, "labels", (0.0,))[:1]] * n)
