"""A linear model of features, mostly random ones: ridge regression, logistic regression or support vectors.

The head of a learner that was given one embedding. Its settings come from a search before it, so it only learns. Ridge
regression takes rows some at a time, and more of them later; its scores of classes become probabilities by some of the
rows, see :mod:`distembed.models.calibration`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from ..compute.arrays import Array
from ..compute.registry import storable
from .base import Head, RowSource, as_matrix, as_source
from .calibration import KeptRows, log_shares
from .held_out import Softmax
from .ridge import LinearRidge, fit_ridge

MODELS = ("ridge", "logistic", "svm")
DEFAULT_ALPHA = 0.1
DEFAULT_C = 10.0
_STEP = 1e-5  # of the largest score, by which predictions are differentiated
LARGE_C = 3.0  # from where liblinear is faster in the primal than in the dual, whose steps grow in number like C


@storable(
    model_="LinearRidge | LogisticRegression | LinearSVC",
    _calibration="Softmax | None",
    _kept="KeptRows | None",
)
class LinearHead(Head):
    r"""Ridge regression, logistic regression or a support vector machine with settings that are known.

    Parameters
    ----------
    model : {"ridge", "logistic", "svm"}, default="ridge"
        Ridge regression, of columns of 0 and 1 for classes; the other two are for classes alone.
    alpha : float, default=0.1
        Penalty of ridge regression on features over the root of ``unit``.
    C : float, default=10.0
        Inverse penalty of the other two, likewise.
    unit : float, default=1.0
        Mean squared length of features about their mean, where that is not one.
    n_classes : int, optional
        Number of classes; None for regression.
    calibration : Softmax, optional
        What makes probabilities of the scores of ``"svm"``.
    random_state : int, default=0
        Draws the rows on which ridge regression is calibrated, and the order of steps of liblinear.

    Attributes
    ----------
    model_ : LinearRidge, LogisticRegression or LinearSVC
        Fitted.
    held_out_ : ndarray of shape (n_rows, n_outputs)
        Of ridge regression of numbers on no more rows than features: predictions for each row from the model without
        it.

    Notes
    -----
    *Cost*: that of :class:`~distembed.models.ridge.LinearRidge`, or of liblinear and L-BFGS; for classes by ridge
    regression also that of calibration on some 1,000 rows, which are computed a second time.

    Examples
    --------
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> head = LinearHead(n_classes=2).refit(Z, (Z[:, 0] > 0).astype(int), np.ones(200))
    >>> head.predict(np.array([[3.0, 0.0, 0.0]])).round(1)
    array([[0., 1.]])
    """

    streams = True
    _calibration: Softmax | None = None  # None for ridge until it is needed
    _kept: KeptRows | None = None  # of ridge; in updatable files alone
    model_: Any

    def __init__(
        self,
        model: str = "ridge",
        *,
        alpha: float = DEFAULT_ALPHA,
        C: float = DEFAULT_C,
        unit: float = 1.0,
        n_classes: int | None = None,
        calibration: Softmax | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.alpha = alpha
        self.C = C
        self.unit = unit
        self.n_classes = n_classes
        self.calibration = calibration
        self.random_state = random_state

    @property
    def penalty(self) -> float:
        """Of ridge regression on the features as they are."""
        return self.alpha * self.unit

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether it is ridge regression, to which rows can be added."""
        return self.model == "ridge"

    @property
    def ridge(self) -> LinearRidge | None:  # type: ignore[override]
        """The ridge regression, with its sums over rows."""
        model = getattr(self, "model_", None)
        return model if isinstance(model, LinearRidge) else None

    def for_batches(self) -> Head:
        """A copy that has learned from no row yet, if it is ridge regression."""
        if not self.grows:
            return self
        found: LinearHead = clone(self)
        found.model_ = LinearRidge(self.penalty, solver="primal")
        return found

    def forget(self) -> None:
        """Forget all rows."""
        self.model_ = LinearRidge(self.penalty, solver="primal")
        self._kept = None
        self._calibration = None

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Learn; nothing is chosen, because the settings are known."""
        return self.refit(features, targets, weight)

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Learn from rows, in place of those before.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features) or RowSource
            Rows.
        targets : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Codes of classes, or numbers.
        weight : ndarray of shape (n_rows,), optional
            Positive.
        groups : ndarray of shape (n_rows,), optional
            Rows of a group are held out together in calibration.

        Returns
        -------
        self
        """
        rows = as_source(features)
        weight = np.ones(len(rows)) if weight is None else weight
        self.__dict__.pop("held_out_", None)
        self._kept = self._calibration = None
        if self.model != "ridge":
            self._fit_machine(as_matrix(rows), targets, weight)
            return self
        self.model_ = fit_ridge(self.penalty, rows.pieces(), self._outputs(targets), weight)
        if self.n_classes is None:
            if self.model_.left_out is not None:
                self.held_out_ = self.model_.left_out
        else:
            self._offer(rows, targets, weight, groups)
            self._calibration = self.calibration_
        return self

    def partial_fit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Add rows to ridge regression; parameters as for ``refit``."""
        rows = as_source(features)
        weight = np.ones(len(rows)) if weight is None else weight
        self.__dict__.pop("held_out_", None)
        if not hasattr(self, "model_"):
            self.model_ = LinearRidge(self.penalty, solver="primal")
        outputs = self._outputs(targets)
        for Z, some in rows.pieces():
            self.model_.partial_fit(Z, outputs[some], sample_weight=weight[some])
        if self.n_classes is not None:
            self._offer(rows, targets, weight, groups)
        return self

    def _outputs(self, targets: Array) -> Array:
        """Targets of ridge regression, ndarray of shape (n_rows, n_outputs)."""
        if self.n_classes is None:
            return np.asarray(targets).reshape(len(targets), -1)
        return np.asarray(targets[:, None] == np.arange(self.n_classes), float)

    def _offer(self, rows: RowSource, codes: Array, weight: Array, groups: Array | None) -> None:
        """Keep some of the rows for calibration."""
        kept = self._kept or KeptRows.of(self.n_classes or 0)
        self._kept = kept.add(codes, weight, groups, self.random_state, rows.take)
        self._calibration = None

    def _fit_machine(self, Z: Array, codes: Array, weight: Array) -> None:
        length = np.sqrt(self.unit).astype(Z.dtype)  # of features that are not random
        if self.model == "svm":
            machine = support_vectors(self.C, self.random_state)
        else:
            machine = LogisticRegression(C=self.C, max_iter=1000)
        machine.fit(Z / length, codes, sample_weight=weight)
        machine.coef_ = machine.coef_ / length
        self.model_ = machine

    @property
    def calibration_(self) -> Softmax | None:
        """What makes probabilities of the scores of ``"svm"`` and ``"ridge"``; None where it is not known."""
        if self.calibration is not None:
            return self.calibration
        if self._calibration is None and self._kept is not None:
            self._calibration = self._kept.calibrate(self.model_, self.random_state)
        return self._calibration

    @property
    def has_probabilities(self) -> bool:
        """Whether ``predict`` has probabilities of classes."""
        return self.model == "logistic" or self.calibration_ is not None

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities, ndarray of shape (n_rows, n_outputs)."""
        if self.n_classes is None:
            return np.asarray(self.model_.predict(features))
        if self.model == "logistic":
            return np.asarray(self.model_.predict_proba(features))
        calibration: Any = self.calibration_
        if self.model == "ridge":
            return np.asarray(calibration.predict(log_shares(self.model_.predict(features))))
        return np.asarray(calibration.predict(class_scores(self.model_, features, self.n_classes)))

    def slopes(self, features: Any, outputs: Array) -> Array:
        """Gradients of predictions in the features; of scores, where there are no probabilities."""
        rows = np.asarray(features)
        return np.asarray(self.slopes_in_scores(self.linear_scores(rows), outputs) @ self.coefficients())

    def coefficients(self) -> Array:
        """Of the linear scores, ndarray of shape (n_scores, n_features)."""
        return np.atleast_2d(np.asarray(self.model_.coef_, np.float64))

    def slopes_in_scores(self, scores: Array, outputs: Array) -> Array:
        """Gradients of predictions in the linear scores, both ndarrays of shape (n_rows, n_scores)."""
        if self.n_classes is None:
            return np.asarray(outputs[:, None] == np.arange(scores.shape[1]), float)
        places = np.arange(len(scores))
        found = np.empty(scores.shape)
        for k in range(scores.shape[1]):
            step = np.zeros(scores.shape[1])
            step[k] = _STEP * max(1.0, float(np.abs(scores).max()))
            ends = [self._from_scores(scores + sign * step)[places, outputs] for sign in (1, -1)]
            found[:, k] = (ends[0] - ends[1]) / (2 * step[k])
        return found

    def linear_scores(self, rows: Array) -> Array:
        """Linear scores, ndarray of shape (n_rows, n_scores): one of two classes, but for ridge regression."""
        if self.n_classes is None or self.model == "ridge":
            return np.asarray(self.model_.predict(rows), np.float64).reshape(len(rows), -1)
        return np.asarray(self.model_.decision_function(rows), np.float64).reshape(len(rows), -1)

    def _from_scores(self, scores: Array) -> Array:
        """Predictions of classes from linear scores, or the scores of classes where there are no probabilities."""
        if self.model == "ridge":
            calibration: Any = self.calibration_
            return np.asarray(calibration.predict(log_shares(scores)))
        own = np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
        if self.model == "logistic":
            return np.asarray(softmax(own, axis=1))
        if self.calibration_ is None:
            return own
        known = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
        every = np.full((len(scores), self.n_classes or 0), -1.0)
        every[:, self.model_.classes_] = known
        return np.asarray(self.calibration_.predict(every))

    def scores(self, features: Any) -> Array:
        """The linear scores of classes, ndarray of shape (n_rows, n_classes)."""
        if self.model == "ridge":
            return np.asarray(self.model_.predict(features))
        found = np.asarray(self.model_.decision_function(features))
        return found if found.ndim == 2 else np.stack([np.zeros_like(found), found], axis=1)

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        """What a model file holds: the rows of calibration only if rows are to be added."""
        slim = {} if updatable or self._kept is None else {"_calibration": self.calibration_, "_kept": None}
        return super().__distembed_state__(updatable) | slim


def support_vectors(C: float, seed: int) -> LinearSVC:
    """An unfitted linear support vector machine."""
    return LinearSVC(C=C, dual=False if C >= LARGE_C else "auto", random_state=seed, max_iter=10_000)


def class_scores(model: LinearSVC, Z: Array, n_classes: int) -> Array:
    """Scores of all classes, ndarray of shape (n_rows, n_classes); -1, beyond the margin, of held-out rows."""
    found = np.asarray(model.decision_function(Z), np.float64)
    scores = np.full((len(Z), n_classes), -1.0)
    scores[:, model.classes_] = np.stack([-found, found], axis=1) if found.ndim == 1 else found
    return scores


def squared_hinges(model: LinearSVC, Z: Array, codes: Array) -> Array:
    """What the model minimises the sum of, for each row."""
    true = codes[:, None] == model.classes_
    values = model.decision_function(Z)
    signs = np.where(true, 1, -1) if values.ndim == 2 else np.where(true[:, 1], 1, -1)
    return np.asarray((np.maximum(0, 1 - signs * values) ** 2).reshape(len(Z), -1).sum(axis=1))
