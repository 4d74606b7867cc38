"""What heads share: the check of what they are fitted to, averages over folds, and what model files hold of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..compute.arrays import Array
from ..compute.checks import check_number

Folds = Sequence[tuple[Array, Array]]


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
        raise ValueError(f"{name}.fit: at most {most:,} rows fit in memory, got {n:,}; judge it on a part of the bags")
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


def averaged(folds: Folds, n_rows: int, predict: Callable[[int, Array, Array], Array]) -> Array:
    """Predictions (n_rows, n_outputs) of ``predict(fold, seen, held)`` at held rows, averaged over repeated folds.

    Examples
    --------
    >>> folds = [(np.array([2]), np.array([0, 1])), (np.array([0, 1]), np.array([2]))]
    >>> averaged(folds, 3, lambda fold, seen, held: np.full((len(held), 1), float(fold))).ravel()
    array([0., 0., 1.])
    """
    found = [predict(i, seen, held) for i, (seen, held) in enumerate(folds)]
    total, times = np.zeros((n_rows, found[0].shape[1])), np.zeros((n_rows, 1))
    for (_, held), rows in zip(folds, found, strict=True):
        total[held] += rows
        times[held] += 1
    return total / times


class Head(BaseEstimator):
    """What heads share: the check of new rows, and what files hold.

    ``fit(features, targets, weight, folds)`` chooses settings and holds rows out; ``refit(features, targets, weight)``
    learns from other rows with the settings of ``fit``, and ``held_out_`` is gone.
    """

    most_rows: int | None = None  # to which it can be fitted again; None is any number
    n_classes: int | None
    n_features_in_: int
    held_out_: Array

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

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        state = dict(vars(self))
        if not updatable:
            state.pop("held_out_", None)
        return state

    def check_classes(self) -> int | None:
        """Number of classes, or None for regression."""
        if self.n_classes is None:
            return None
        return check_number(self, "n_classes", self.n_classes, low=2, integer=True)
