"""Predictions as the columns of a table: numbers or classes, probabilities, deviations, intervals and sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from .classes import class_names


def inner(model: Any) -> Any:
    """The learner inside of intervals or sets of classes, or the model itself.

    Examples
    --------
    >>> inner("a model")
    'a model'
    """
    calibrated = hasattr(model, "predict_interval") or hasattr(model, "predict_set")
    return getattr(model, "estimator_", model) if calibrated else model


def predict_with_probabilities(learner: Any, bags: Any, covariates: Any = None) -> tuple[Array, Array | None]:
    """Predictions for bags, and the probabilities of their classes, or None where the learner has none."""
    given = {} if covariates is None else {"covariates": covariates}
    if not hasattr(learner, "predict_proba"):
        return np.asarray(learner.predict(bags, **given)), None
    probabilities = np.asarray(learner.predict_proba(bags, **given))
    return np.asarray(learner.classes_)[probabilities.argmax(axis=1)], probabilities


def intervals_and_sets(
    model: Any, bags: Any, coverage: float | None = None, covariates: Any = None
) -> tuple[Array | None, Array | None]:
    """Intervals of numbers, or sets of classes, where a model has them, and None for what it has not.

    Parameters
    ----------
    model : learner, or one with intervals or sets of classes around it
        Fitted. The latter knows its coverage.
    bags : Bags
        What to predict for.
    coverage : float, optional
        Of the intervals of a learner; None: it has none.
    covariates : table, optional
        Of these bags.
    """
    given: dict[str, Any] = {}
    if inner(model) is model:
        if coverage is None:
            return None, None
        given = {"coverage": coverage} | ({} if covariates is None else {"covariates": covariates})
    ends = np.asarray(model.predict_interval(bags, **given)) if hasattr(model, "predict_interval") else None
    sets = np.asarray(model.predict_set(bags, **given)) if hasattr(model, "predict_set") else None
    return ends, sets


def columns_of(
    model: Any,
    bags: Bags,
    *,
    std: bool = False,
    lists: bool = False,
    covariates: Any = None,
    coverage: float | None = None,
    likeness: bool = False,
) -> dict[str, Array]:
    """Columns of predictions, by name.

    Parameters
    ----------
    model : learner, or one with intervals or sets of classes around it
        Fitted.
    bags : Bags
        What to predict for.
    std : bool, default=False
        Whether deviations are wanted, of numbers.
    lists : bool, default=False
        Whether sets of classes are lists, or else text.
    covariates : table, optional
        Of these bags.
    coverage : float, optional
        Of intervals and sets of a learner, see :func:`intervals_and_sets`.
    likeness : bool, default=False
        Whether p-values of the likeness to training bags are wanted, and the column in which each bag is oddest.

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.as_bags(np.random.default_rng(0).normal(size=(30, 20, 1)))
    >>> y = bags.points.reshape(30, 20).mean(axis=1)
    >>> model = de.DistributionRegressor("mean", n_components=None, random_state=0).fit(bags, y)
    >>> list(columns_of(model, bags, std=True, coverage=0.9))
    ['prediction', 'std', 'low', 'high']
    """
    learner = inner(model)
    if std and not hasattr(learner, "predict_proba"):
        given = {} if covariates is None else {"covariates": covariates}
        predicted, deviation = learner.predict(bags, return_std=True, **given)
        columns = _name_outputs("prediction", predicted) | _name_outputs("std", deviation)
    else:
        predicted, probabilities = predict_with_probabilities(learner, bags, covariates)
        columns = _name_outputs("prediction", predicted)
        if probabilities is not None:
            names = class_names(learner.classes_)
            columns |= {f"probability_{name}": probabilities[:, j] for j, name in enumerate(names)}
    ends, sets = intervals_and_sets(model, bags, coverage, covariates)
    if ends is not None:
        columns |= _name_outputs("low", ends[..., 0]) | _name_outputs("high", ends[..., 1])
    if likeness:
        found = learner.likeness(bags, **({} if covariates is None else {"covariates": covariates}))
        columns |= {"likeness": found.pvalues, "odd_column": np.array(found.odd_columns)}
    if sets is not None:
        columns["set"] = _name_sets(sets, model.classes_, lists)
    return columns


def _name_sets(sets: Any, classes: Any, lists: bool) -> Array:
    """Sets of classes as lists, or as their names joined by |."""
    found = np.empty(len(sets), object)
    if lists:
        for i, row in enumerate(sets):
            found[i] = classes[row].tolist()
        return found
    names = np.array(class_names(classes))
    if any("|" in name for name in names):
        raise ValueError("names of classes have a |, which stands between them in a set; write .parquet instead")
    return np.array(["|".join(names[row]) for row in sets])


def _name_outputs(name: str, values: Any) -> dict[str, Array]:
    """Columns by name: one, or one for each output."""
    return {name: values} if values.ndim == 1 else {f"{name}_{j}": column for j, column in enumerate(values.T)}
