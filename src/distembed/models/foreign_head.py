"""Any estimator of scikit-learn's kind as a head: cloned for every fold, and once more for all rows."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Protocol, Self

import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ..compute.arrays import Array
from ..compute.registry import storable
from .base import Head, Training, check_training
from .folds import average_over_folds
from .held_out import Softmax, softmax_by_folds

_LEAST = 1e-6  # probability of a class that an estimator calls impossible


class Estimator(Protocol):
    """What learners ask of a head from outside: an estimator of scikit-learn's kind."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows."""
        ...

    def predict(self, X: Any) -> Any:
        """Predict targets."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor."""
        ...


def final_step(estimator: Any) -> Any:
    """The last step of a pipeline, however deep, or the estimator itself."""
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def fit_argument(estimator: Any, name: str) -> str:
    """``ridge__sample_weight`` for a pipeline, where the last step is meant."""
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        last, step = estimator.steps[-1]
        return f"{last}__{fit_argument(step, name)}"
    return name


def foreign_name(estimator: Any) -> str:
    """What leaderboards call a head of scikit-learn's kind.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> foreign_name(make_pipeline(StandardScaler(), Ridge()))
    'Ridge'
    """
    return type(final_step(estimator)).__name__


def check_foreign(owner: Any, estimator: Any) -> None:
    """Refuse what is not an estimator for the targets of a learner."""
    where = f"{type(owner).__name__}(head=...)"
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in ("fit", "predict", "get_params")):
        raise TypeError(
            f"{where}: must be an estimator of scikit-learn's kind, got {estimator!r}; pass an object with fit and "
            "predict, such as HistGradientBoostingRegressor()"
        )
    wanted = "classifier" if is_classifier(owner) else "regressor"
    kind = "classifier" if is_classifier(estimator) else "regressor" if is_regressor(estimator) else "neither"
    if wanted == "classifier" and kind == wanted and not has_scores(estimator):
        raise TypeError(
            f"{where}: must have predict_proba or decision_function, got {foreign_name(estimator)} without either; "
            "choose another classifier"
        )
    if kind != wanted:
        raise TypeError(
            f"{where}: must be a {wanted}, got {foreign_name(estimator)}, which is "
            f"{kind if kind == 'neither' else f'a {kind}'}; choose one for the targets at hand"
        )


def has_scores(estimator: Any) -> bool:
    """Whether a classifier has probabilities or scores."""
    return hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")


@storable(calibration_="Softmax | None", n_outputs_="n")
class ForeignHead(Head):
    """An estimator of scikit-learn's kind.

    Parameters
    ----------
    estimator : estimator
        Unfitted; it is cloned.
    n_classes : int, optional
        Number of classes; None for regression.
    random_state : int or None, default=None
        For estimators that have a ``random_state`` of None.

    Attributes
    ----------
    estimator_ : estimator
        Fitted to all rows.
    held_out_ : ndarray of shape (n_rows, n_outputs)
        Predictions for each row by clones that did not see it, averaged over repeated folds.
    calibration_ : Softmax or None
        What makes probabilities of the scores of a classifier without ``predict_proba``.

    Notes
    -----
    *Cost*: one fit for each fold, and one for all rows. Several outputs are passed on if the estimator takes them, else
    each has a clone. Weights are passed on; where they differ and the estimator takes none, that is an error.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import KFold
    >>> F = np.random.default_rng(0).normal(size=(60, 2))
    >>> head = ForeignHead(Ridge(1e-3)).fit(F, F[:, :1] + 1, None, KFold(5).split(F))
    >>> bool(np.abs(head.held_out_ - F[:, :1] - 1).max() < 1e-3)
    True
    """

    def __init__(self, estimator: Any, n_classes: int | None = None, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_classes = n_classes
        self.random_state = random_state

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether rows can be added: only what the estimator itself has, and no calibration of scores."""
        return hasattr(self.estimator, "partial_fit") and (
            self.n_classes is None or hasattr(self.estimator, "predict_proba")
        )

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Fit a clone for each fold, and one to all rows; parameters as for other heads."""
        given = check_training(self, features, targets, weight, folds, self.check_classes())
        self.n_features_in_ = given.rows.shape[1]
        self.n_outputs_ = given.outputs.shape[1]
        self.calibration_: Softmax | None = None

        def predicted(fold: int, seen: Array, held: Array) -> Array:
            return self._raw(self._fit_new(given, seen), given.rows[held])

        found = average_over_folds(given.folds, len(given.rows), predicted)
        if self.n_classes is not None and not self._has_probabilities:
            found, _, self.calibration_ = softmax_by_folds(
                found, given.codes, given.weight, self.n_classes, given.folds
            )
        self.held_out_ = found
        self.estimator_ = self._fit_new(given, np.arange(len(given.rows)))
        return self

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Fit a clone to other rows."""
        given = self.check_again(features, targets, weight)
        self.n_outputs_ = given.outputs.shape[1]
        self.estimator_ = self._fit_new(given, np.arange(len(given.rows)))
        return self

    def for_batches(self) -> Head:
        """A head of the same estimator that has learned from no row, if rows can be added to it."""
        if not self.grows:
            return self
        found = ForeignHead(self.estimator, self.n_classes, self.random_state)
        found.n_features_in_ = self.n_features_in_
        found.n_outputs_ = self.n_outputs_
        found.calibration_ = None
        found.estimator_ = found._new()
        return found

    def partial_fit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Pass rows on to the estimator."""
        given = self.check_again(features, targets, weight)
        more: dict[str, Any] = self._weights("partial_fit", given.weight)
        if self.n_classes is None:
            numbers = given.outputs.ravel() if given.outputs.shape[1] == 1 else given.outputs
            self.estimator_.partial_fit(given.rows, numbers, **more)
        else:
            self.estimator_.partial_fit(given.rows, given.codes, classes=np.arange(self.n_classes), **more)
        return self

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities, ndarray of shape (n_rows, n_outputs)."""
        found = self._raw(self.estimator_, self.check_rows(features))
        return found if self.calibration_ is None else self.calibration_.predict(found)

    @property
    def _has_probabilities(self) -> bool:
        return hasattr(self.estimator, "predict_proba")

    def _new(self) -> Any:
        made = clone(self.estimator)
        seeds = {name: self.random_state for name, value in made.get_params().items()
                 if name.rpartition("__")[2] == "random_state" and value is None}  # fmt: skip
        made = made.set_params(**seeds) if seeds else made
        if self.n_classes is None and self.n_outputs_ > 1 and not get_tags(final_step(made)).target_tags.multi_output:
            return MultiOutputRegressor(made)
        return made

    def _fit_new(self, given: Training, rows: Array) -> Any:
        made = self._new()
        targets = given.outputs if self.n_classes is None else given.codes
        if self.n_classes is None and targets.shape[1] == 1:
            targets = targets.ravel()
        with warnings.catch_warnings():  # one for each fold tells nothing new
            warnings.simplefilter("ignore", UserWarning)
            return made.fit(given.rows[rows], targets[rows], **self._weights("fit", given.weight[rows]))

    def _weights(self, method: str, weight: Array) -> dict[str, Array]:
        """Weights as an argument of a method; none where they say nothing: all are equal or, in batches, one."""
        if np.allclose(weight, weight[0] if method == "fit" else 1.0):
            return {}
        if "sample_weight" not in inspect.signature(getattr(final_step(self.estimator), method)).parameters:
            raise ValueError(
                f"head={foreign_name(self.estimator)}: takes no sample_weight, got weights that differ; leave "
                "sample_weight and class_weight out, or use another head"
            )
        return {fit_argument(self.estimator, "sample_weight"): weight}

    def _raw(self, estimator: Any, rows: Array) -> Array:
        """Numbers, probabilities, or scores of all classes: ndarray of shape (n_rows, n_outputs)."""
        if self.n_classes is None:
            return np.asarray(estimator.predict(rows), np.float64).reshape(len(rows), -1)
        seen = np.asarray(estimator.classes_, np.intp)
        if self._has_probabilities:
            found = np.full((len(rows), self.n_classes), _LEAST)
            found[:, seen] = np.maximum(estimator.predict_proba(rows), _LEAST)
            return np.asarray(found / found.sum(axis=1, keepdims=True))
        scores = np.asarray(estimator.decision_function(rows), np.float64)
        found = np.full((len(rows), self.n_classes), scores.min() - 1)
        found[:, seen] = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
        return found
