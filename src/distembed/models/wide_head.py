"""A head for more rows than a kernel matrix holds: random features or features as they are, and sums over rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ..compute.arrays import Array
from ..compute.registry import storable
from ..features import RandomFourierFeatures
from .base import Head, softmax_slopes
from .held_out import Softmax
from .ridge import LinearRidge, fit_ridge

N_COMPONENTS = 5000
_PIECE = 4096  # rows of random features at a time


@storable(random_="RandomFourierFeatures | None", model_="LinearRidge | Softmax")
class WideHead(Head):
    r"""Ridge or logistic regression with the settings that a :class:`KernelHead` chose on some of the rows.

    Parameters
    ----------
    kernel : {"rbf", "linear"}, default="rbf"
        ``"rbf"``: random features of the Gaussian kernel. ``"linear"``: the features themselves over ``scale``.
    scale : float, default=1.0
        σ of the Gaussian kernel, or the unit of features.
    penalty : float, default=1.0
        α of ridge regression, or C of logistic regression.
    n_classes : int, optional
        None for regression.
    calibration : Softmax, optional
        What makes probabilities of the scores of ridge regression. None with classes: logistic regression.
    n_components : int, default=5000
        D, the number of random features.
    random_state : int, default=0
        Draws them.

    Notes
    -----
    *Cost* in n rows: n D² operations of ridge regression, in D² numbers of memory, and some 100 n D of logistic
    regression, which keeps n D numbers. ``partial_fit`` is for ridge regression.

    Examples
    --------
    >>> F = np.random.default_rng(0).normal(size=(300, 2))
    >>> head = WideHead(scale=2.0, penalty=0.01, n_components=200).fit(F, np.sin(F[:, :1]))
    >>> bool(np.abs(head.predict(F) - np.sin(F[:, :1])).max() < 0.1)
    True
    """

    model_: LinearRidge | Softmax

    def __init__(
        self,
        kernel: str = "rbf",
        scale: float = 1.0,
        penalty: float = 1.0,
        n_classes: int | None = None,
        calibration: Softmax | None = None,
        n_components: int = N_COMPONENTS,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.scale = scale
        self.penalty = penalty
        self.n_classes = n_classes
        self.calibration = calibration
        self.n_components = n_components
        self.random_state = random_state

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether it is ridge regression, to which rows can be added."""
        return self.n_classes is None or self.calibration is not None

    @property
    def ridge(self) -> LinearRidge | None:  # type: ignore[override]
        """The sums over rows."""
        model = getattr(self, "model_", None)
        return model if isinstance(model, LinearRidge) else None

    def forget(self) -> None:
        """Forget all rows, and keep the random features."""
        self.model_ = clone(self.model_)

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Fit to rows; nothing is chosen, and nothing held out."""
        return self.refit(features, targets, weight)

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Fit to rows."""
        self._begin(features)
        given = self.check_again(features, targets, weight)
        pieces = (slice(i, min(i + _PIECE, len(given.rows))) for i in range(0, len(given.rows), _PIECE))
        rows: Iterator[tuple[Array, slice]] = ((self._features(given.rows[some]), some) for some in pieces)
        if self.grows:
            self.model_ = fit_ridge(self.penalty, rows, given.outputs, given.weight)
            return self
        from sklearn.linear_model import LogisticRegression  # slow to import

        Z = np.concatenate([part for part, _ in rows])
        found = LogisticRegression(C=self.penalty, max_iter=200, tol=1e-4)
        found.fit(Z, given.codes, sample_weight=given.weight)
        coef = found.coef_
        intercept = found.intercept_
        if len(coef) == 1:  # of two classes scikit-learn keeps one
            coef = np.vstack([0 * coef, coef])
            intercept = np.r_[0.0, intercept]
        model = Softmax(np.zeros((Z.shape[1], given.outputs.shape[1])), np.full(given.outputs.shape[1], -np.inf))
        model.coef[:, found.classes_] = coef.T
        model.intercept[found.classes_] = intercept
        self.model_ = model
        return self

    def partial_fit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Add rows to the sums of ridge regression; the equations are solved when predictions need it."""
        if not hasattr(self, "model_"):
            self._begin(features)
            self.model_ = LinearRidge(self.penalty, solver="primal")
        ridge: Any = self.model_
        given = self.check_again(features, targets, weight)
        for i in range(0, len(given.rows), _PIECE):
            some = slice(i, i + _PIECE)
            ridge.partial_fit(self._features(given.rows[some]), given.outputs[some], given.weight[some])
        return self

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities, ndarray of shape (n_rows, n_outputs)."""
        rows = self.check_rows(features)
        parts = [self.model_.predict(self._features(rows[i : i + _PIECE])) for i in range(0, len(rows), _PIECE)]
        out = np.concatenate(parts)
        return out if self.calibration is None else self.calibration.predict(out)

    def slopes(self, features: Any, outputs: Array) -> Array:
        """Gradients of predictions in the features, through random features and softmax."""
        rows = self.check_rows(features)
        Z = self._features(rows)
        model = self.model_
        if isinstance(model, Softmax):
            by_score = softmax_slopes(model.predict(Z), outputs)
            coef = model.coef
        else:
            coef = np.atleast_2d(np.asarray(model.coef_, np.float64)).T
            by_score = (outputs[:, None] == np.arange(coef.shape[1])).astype(float)
            if self.calibration is not None:
                probabilities = self.calibration.predict(np.asarray(model.predict(Z)))
                by_score = softmax_slopes(probabilities, outputs) @ self.calibration.coef.T
        if self.random_ is None:
            return np.asarray(by_score @ coef.T / self.scale)
        each = (self.random_.gradients(rows, np.asarray(Z, np.float64), column) for column in coef.T)
        return np.asarray(sum(by_score[:, [k]] * slopes for k, slopes in enumerate(each)))

    def _begin(self, features: Any) -> None:
        self.n_features_in_ = np.shape(features)[1]
        self.random_: RandomFourierFeatures | None = None
        if self.kernel == "rbf":
            made = RandomFourierFeatures(self.n_components, sigma=self.scale, random_state=self.random_state)
            self.random_ = made.fit(np.asarray(features[:1], np.float32))

    def _features(self, rows: Array) -> Array:
        if self.random_ is None:
            return rows / self.scale
        return np.asarray(self.random_.transform(rows.astype(np.float32)))
