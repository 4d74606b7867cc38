"""How good predictions are, beside baselines, with standard errors by the jackknife over bags.

A score is a function of sums over bags, so that leaving out each bag in turn is a subtraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array

LEAST_PROBABILITY = 1e-15
N_FOLDS = 5
ROUNDING = 1e-12  # of a score, in its own size


class Score(NamedTuple):
    """A number and its standard error, NaN where it can't be told."""

    value: float
    error: float

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "-"
        error = 0.0 if self.error <= ROUNDING * abs(self.value) else self.error
        return f"{self.value:.4g}" + (f" ± {error:.2g}" if np.isfinite(error) else "")


def jackknife(parts: Array, score: Callable[[Array], Any]) -> Score:
    """A score of sums of parts, which are of shape (n_parts, n_bags), and its standard error.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=400)
    >>> found = jackknife(np.stack([x, np.ones(400)]), lambda sums: sums[0] / sums[1])
    >>> bool(np.isclose(found.error, x.std(ddof=1) / 20))
    True
    """
    total, n = parts.sum(axis=1, keepdims=True), parts.shape[1]
    value = float(np.ravel(score(total))[0])
    if n < 3:
        return Score(value, float("nan"))
    without = np.ravel(score(total - parts))
    return Score(value, float(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2))))


def of_numbers(truth: Array, predicted: Array) -> dict[str, Score]:
    """R², root mean squared error and mean absolute error.

    Examples
    --------
    >>> found = of_numbers(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 6.0]))
    >>> [round(score.value, 3) for score in found.values()]
    [0.2, 1.0, 0.5]
    """
    centred, error, one = truth - truth.mean(), predicted - truth, np.ones(len(truth))
    parts = np.stack([error**2, np.abs(error), centred, centred**2, one])

    def r2(sums: Array) -> Array:
        spread = sums[3] - sums[2] ** 2 / sums[4]
        return np.asarray(1 - sums[0] / np.where(spread > 0, spread, np.nan))

    return {
        "R²": jackknife(parts, r2),
        "RMSE": jackknife(parts, lambda sums: np.sqrt(sums[0] / sums[4])),
        "MAE": jackknife(parts, lambda sums: sums[1] / sums[4]),
    }


def of_classes(
    truth: Array, predicted: Array, classes: Array | None = None, probabilities: Array | None = None
) -> dict[str, Score]:
    """Balanced accuracy, accuracy and, where there are probabilities, log loss in nats.

    Examples
    --------
    >>> found = of_classes(np.array(["a", "b", "b", "b"]), np.array(["b", "b", "b", "b"]))
    >>> [score.value for score in found.values()]
    [0.5, 0.75]
    """
    right, one = np.asarray(truth == predicted, float), np.ones(len(truth))
    members = np.asarray(truth == np.unique(truth)[:, None], float)
    n = len(members)

    def balanced(sums: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nanmean(np.where(sums[n:] > 0, sums[:n] / sums[n:], np.nan), axis=0))

    found = {
        "balanced accuracy": jackknife(np.concatenate([members * right, members]), balanced),
        "accuracy": jackknife(np.stack([right, one]), lambda sums: sums[0] / sums[1]),
    }
    if classes is not None and probabilities is not None:
        given = np.max(np.where(truth[:, None] == classes[None, :], probabilities, 0.0), axis=1)
        loss = -np.log(np.maximum(given, LEAST_PROBABILITY))
        found["log loss"] = jackknife(np.stack([loss, one]), lambda sums: sums[0] / sums[1])
    return found


def losses(truth: Array, predicted: Array, probabilities: Array | None, classes: Array | None) -> Array:
    """How far each prediction is off: absolute errors, or one less the probability of the true class."""
    if classes is None:
        return np.asarray(np.abs(predicted - truth))
    if probabilities is None:
        return np.asarray(truth != predicted, float)
    return np.asarray(1 - np.max(np.where(truth[:, None] == classes[None, :], probabilities, 0.0), axis=1))


def means(bags: Bags) -> Array:
    """Mean of the points of each bag, ndarray of shape (n_bags, n_dims)."""
    shares = bags.shares()
    shares = np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares
    return np.asarray(np.add.reduceat(bags.points * shares[:, None], bags.offsets[:-1]))


def baselines(train: Bags, y_train: Array, test: Bags, classes: bool) -> dict[str, Array]:
    """Predictions by a constant and by a linear model of the means of bags, for bags that these have not seen.

    Without training bags, those of the test bags are predicted from each other, each fold from the others.

    Parameters
    ----------
    train, test : Bags
        The same where there are no others.
    y_train : ndarray of shape (n_bags,)
        Targets of ``train``.
    classes : bool
        Whether these are classes.

    Returns
    -------
    dict of str to ndarray of shape (n_test,)
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    constant: Any = DummyClassifier() if classes else DummyRegressor()
    linear: Any = LogisticRegression(max_iter=1000) if classes else RidgeCV(np.logspace(-2, 4, 13))
    models = {"constant": constant, "means, linear": make_pipeline(StandardScaler(), linear)}
    X, Z = means(train), means(test)
    if train is not test:
        wanted = 2 if classes else 1
        return {
            name: model.fit(X, y_train).predict(Z)
            for name, model in models.items()
            if name == "constant" or len(np.unique(y_train)) >= wanted
        }
    if len(y_train) < 2 * N_FOLDS:
        return {}
    folds = KFold(N_FOLDS, shuffle=True, random_state=0)
    if classes and min(len(np.unique(y_train[rows])) for rows, _ in folds.split(X)) < 2:
        return {"constant": cross_val_predict(constant, X, y_train, cv=folds)}
    return {name: cross_val_predict(model, X, y_train, cv=folds) for name, model in models.items()}
