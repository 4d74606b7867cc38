"""What predictions are held against: a constant, a linear model of the means of bags; and how far each one is off."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array

N_FOLDS = 5


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


def predictions(train: Bags, y_train: Array, test: Bags, classes: bool) -> dict[str, Array]:
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
