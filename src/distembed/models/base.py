r"""Heads: from rows of features to predictions, and to predictions for rows that they did not see.

Every head has the same few methods, so whoever combines, keeps, streams or asks heads need not know which one it
is. Targets are numbers of shape (n_rows, n_outputs), or codes 0, ..., k - 1 of classes with ``n_classes=k``; then
predictions are probabilities.

=====================================  ================================================================================
``fit(rows, targets, weight, folds)``  choose settings on held-out rows, learn from all; ``held_out_`` has predictions
                                       for each row of models that did not see it
``hold_out(rows, ...)``                the first half of ``fit``, enough to compare heads; ``complete`` does the rest
``for_race()``                         an unfitted copy that is cheap to compare
``refit(rows, targets, weight)``       learn from other rows with the settings that are known
``for_rows(n)``                        an unfitted copy with these settings that can learn from n rows
``for_batches()``                          a copy with these settings to which rows can be added, if there is one
``partial_fit(rows, targets, weight)`` add rows, where ``grows``; ``solve()`` does what predictions would do first
``predict(rows)``                      numbers or probabilities, ndarray of shape (n_rows, n_outputs)
``scores(rows)``                       of classes, what is largest for the likeliest one
``slopes(rows, outputs)``              gradients of one output of each row, where predictions are smooth
=====================================  ================================================================================

Rows are a matrix, or a :class:`RowSource` for heads that need not have all of them in memory (``streams``).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import described, storable
from .folds import Folds, average_over_folds
from .ridge import LinearRidge

LEAST_SCORE = 1e-300  # probability whose logarithm is taken for smaller ones


@runtime_checkable
class RowSource(Protocol):
    """Rows of features that are computed when they are asked for, some at a time."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def pieces(self) -> Iterator[tuple[Array, slice]]:
        """All rows, some at a time, and which these are."""
        ...

    def take(self, positions: Array) -> Array:
        """Some of the rows, by their positions."""
        ...


class MatrixRows:
    """Rows in memory as a :class:`RowSource`, in one piece.

    Examples
    --------
    >>> [piece.shape for piece, _ in MatrixRows(np.zeros((3, 2))).pieces()]
    [(3, 2)]
    """

    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def pieces(self) -> Iterator[tuple[Array, slice]]:
        """All rows."""
        yield self.rows, slice(0, len(self.rows))

    def take(self, positions: Array) -> Array:
        """Some of the rows."""
        return np.asarray(self.rows[positions])


def as_source(rows: Any) -> RowSource:
    """Rows of either kind as a source."""
    return rows if isinstance(rows, RowSource) else MatrixRows(rows)


def as_matrix(rows: Any) -> Array:
    """Rows of either kind as a matrix."""
    return np.concatenate([piece for piece, _ in rows.pieces()]) if isinstance(rows, RowSource) else np.asarray(rows)


class Training(NamedTuple):
    """What heads are fitted to, checked: see :func:`check_training`."""

    rows: Array
    outputs: Array
    codes: Array
    weight: Array
    folds: Folds


def check_training(
    owner: object, rows: Any, targets: Any, weight: Any, folds: Any, n_classes: int | None, most: int | None = None
) -> Training:
    """Features, targets, weights and folds in float64, or an error that says what is wrong with them.

    Parameters
    ----------
    owner : object
        The head, for errors.
    rows : array-like of shape (n_rows, n_features)
        Finite numbers.
    targets : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Numbers, or codes of classes.
    weight : array-like of shape (n_rows,) or None
        Positive numbers; None is one for each row.
    folds : iterable of (seen, held) index arrays or None
        The two parts of a fold are all rows, and each row is held out at least once. None: nothing is held out.
    n_classes : int or None
        Number of classes; None for regression.
    most : int, optional
        The largest number of rows.

    Returns
    -------
    Training
        ``outputs`` are the targets as a matrix, one column of zeros and ones per class; ``codes`` is empty for
        regression.

    Examples
    --------
    >>> check_training("KernelHead", np.eye(2), [0, 1], None, [([0], [1]), ([1], [0])], 2).outputs
    array([[1., 0.],
           [0., 1.]])
    """
    name = owner if isinstance(owner, str) else type(owner).__name__
    x = np.asarray(rows, dtype=np.float64)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        rule = "features must be a matrix of finite numbers with at least one row and one column"
        raise ValueError(f"{name}.fit: {rule}, got shape {x.shape}; leave out what is missing, or fill it in")
    n = len(x)
    if most is not None and n > most:
        raise ValueError(f"{name}.fit: at most {most:,} rows fit in memory, got {n:,}; score it on a part of the bags")
    y = np.asarray(targets)
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    if len(y) != n or w.shape != (n,):
        raise ValueError(f"{name}.fit: {n} rows need as many targets and weights, got {y.shape} and {w.shape}")
    if not (np.isfinite(w).all() and (w > 0).all()):
        raise ValueError(f"{name}.fit: weights must be positive and finite, got {w.min()}; leave out rows of weight 0")
    pairs = [(np.asarray(seen, dtype=np.intp), np.asarray(held, dtype=np.intp)) for seen, held in folds or ()]
    counts = np.full(n, int(folds is None))
    for seen, held in pairs:
        if len(seen) == 0 or not np.array_equal(np.sort(np.concatenate([seen, held])), np.arange(n)):
            raise ValueError(f"{name}.fit: seen and held rows of a fold must be all {n} rows; pass KFold(...).split(F)")
        counts[held] += 1
    if not counts.all():
        raise ValueError(f"{name}.fit: row {counts.argmin()} is in no fold; every row must be held out once at least")
    if n_classes is None:
        outputs = np.asarray(y, dtype=np.float64).reshape(n, -1)
        if not np.isfinite(outputs).all():
            raise ValueError(f"{name}.fit: targets must be finite numbers; leave out bags without one")
        return Training(x, outputs, np.empty(0, np.intp), w, pairs)
    codes = y.astype(np.intp)
    if codes.ndim != 1 or (codes != y).any() or codes.min() < 0 or codes.max() >= n_classes:
        raise ValueError(f"{name}.fit: targets must be codes 0 to {n_classes - 1} of classes; use np.unique's inverse")
    return Training(x, np.eye(n_classes)[codes], codes, w, pairs)


def softmax_slopes(probabilities: Array, outputs: Array) -> Array:
    """Gradients in the scores of one probability of each row, ndarray of shape (n_rows, n_classes).

    Examples
    --------
    >>> softmax_slopes(np.array([[0.25, 0.75]]), np.array([1]))
    array([[-0.1875,  0.1875]])
    """
    own = np.take_along_axis(probabilities, outputs[:, None], axis=1)
    return np.asarray(own * ((outputs[:, None] == np.arange(probabilities.shape[1])) - probabilities))


@described(held_out_="real(_, _)")
class Head(BaseEstimator):
    """Base of the heads, whose methods the module tells; a subclass has ``fit``, ``refit`` and ``predict`` at least.

    Attributes
    ----------
    n_classes : int or None
        Number of classes; None for regression.
    most_rows : int or None
        To how many rows it can be fitted again; None is any number.
    streams : bool
        Whether it takes a :class:`RowSource`.
    grows : bool
        Whether rows can be added.
    ridge : LinearRidge or None
        The sums over rows to which rows are added, which may be made elsewhere and joined.
    """

    most_rows: int | None = None
    streams: bool = False
    grows: bool = False
    ridge: LinearRidge | None = None
    n_classes: int | None
    n_features_in_: int
    held_out_: Array

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Choose settings on held-out rows, and learn from all."""
        raise NotImplementedError

    def hold_out(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Choose settings and predict held-out rows; what else ``fit`` does, and takes long, waits for ``complete``."""
        return self.fit(features, targets, weight, folds)

    def complete(self, features: Any, targets: Any, weight: Any = None) -> Self:
        """Do what ``hold_out`` left of ``fit``."""
        return self

    def for_race(self) -> Head:
        """An unfitted copy that is cheap to compare with others."""
        return type(self)(**self.get_params(deep=False))

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Learn from other rows with the settings of ``fit``; rows of a group are held out together, if any are."""
        raise NotImplementedError

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities, ndarray of shape (n_rows, n_outputs)."""
        raise NotImplementedError

    def scores(self, features: Any) -> Array:
        """Scores of classes, ndarray of shape (n_rows, n_classes): logarithms of their probabilities."""
        return np.asarray(np.log(np.maximum(self.predict(features), LEAST_SCORE)))

    def slopes(self, features: Any, outputs: Array) -> Array | None:
        """Gradients of predictions in the features, ndarray of shape (n_rows, n_features), if they are smooth.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features)
            Rows.
        outputs : ndarray of int of shape (n_rows,)
            Which column of ``predict`` is meant, of each row.
        """
        return None

    def for_rows(self, n_rows: int) -> Head:
        """A copy that can learn from this number of rows with these settings."""
        return copy(self)

    def for_batches(self) -> Head:
        """A copy to which rows can be added and that has learned from none, if there is one; else the head itself."""
        return self

    def partial_fit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Add rows, where ``grows``."""
        raise NotImplementedError

    def forget(self) -> None:
        """Forget all rows that were added, and keep the settings."""

    def solve(self) -> None:
        """Solve now what predictions would solve first."""
        if self.ridge is not None:
            self.ridge.solve()

    def check_again(self, features: Any, targets: Any, weight: Any, most: int | None = None) -> Training:
        """What ``refit`` learns from, checked; forgets what was held out."""
        self.check_rows(features)
        self.__dict__.pop("held_out_", None)
        return check_training(self, features, targets, weight, None, self.n_classes, most)

    def check_rows(self, features: Any) -> Array:
        """New rows in float64, as wide as those of ``fit``."""
        check_is_fitted(self, "n_features_in_")
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{type(self).__name__}: features must have the {self.n_features_in_} columns of fit, got "
                f"shape {rows.shape}; pass features of the same embedding"
            )
        return rows

    def check_classes(self) -> int | None:
        """Number of classes, or None for regression."""
        if self.n_classes is None:
            return None
        return check_number(self, "n_classes", self.n_classes, low=2, integer=True)

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        state = dict(vars(self))
        if not updatable:
            state.pop("held_out_", None)
        return state


@storable(value_="finite(o)")
class ConstantHead(Head):
    """The weighted mean of the targets, or the weighted share of each class: what every other head must beat.

    Parameters
    ----------
    n_classes : int, optional
        Number of classes; None for regression.

    Attributes
    ----------
    value_ : ndarray of shape (n_outputs,)
        The prediction.
    held_out_ : ndarray of shape (n_rows, n_outputs)
        For each row the mean over the rows of other folds.

    Examples
    --------
    >>> head = ConstantHead().fit(np.zeros((4, 1)), [1.0, 2.0, 3.0, 4.0], None, [([0, 1], [2, 3]), ([2, 3], [0, 1])])
    >>> head.predict(np.zeros((1, 1))), head.held_out_.ravel()
    (array([[2.5]]), array([3.5, 3.5, 1.5, 1.5]))
    """

    def __init__(self, n_classes: int | None = None) -> None:
        self.n_classes = n_classes

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Average the targets.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features)
            Only their number matters.
        targets, weight, folds
            As for :class:`KernelHead`.

        Returns
        -------
        self
        """
        given = check_training(self, features, targets, weight, folds, self.check_classes())

        def mean(fold: int, seen: Array, held: Array) -> Array:
            value = np.average(given.outputs[seen], axis=0, weights=given.weight[seen])
            return np.tile(value, (len(held), 1))

        self.n_features_in_ = given.rows.shape[1]
        self.value_ = np.average(given.outputs, axis=0, weights=given.weight)
        self.held_out_ = average_over_folds(given.folds, len(given.rows), mean)
        return self

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Average other targets."""
        given = self.check_again(features, targets, weight)
        self.value_ = np.average(given.outputs, axis=0, weights=given.weight)
        return self

    def predict(self, features: Any) -> Array:
        """One constant prediction for each row, ndarray of shape (n_rows, n_outputs)."""
        return np.tile(self.value_, (len(self.check_rows(features)), 1))

    def slopes(self, features: Any, outputs: Array) -> Array:
        """Zeros."""
        return np.zeros(np.shape(features))
