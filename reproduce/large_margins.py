r"""Linear support vector machines from dot products, over splits, folds and penalties.

LIBLINEAR's default classifier, one class against the rest (``sklearn.svm.LinearSVC``), minimises

.. math:: \tfrac12 (\|w\|^2 + b^2) + C \sum_i \max(0, 1 - y_i (w \cdot x_i + b))^2.

Its solution is w = Σ_i β_i x_i, b = Σ_i β_i, so that with K = X Xᵀ + 1 (1 added to each entry, for b) it depends on the
rows through K alone. β is 0 but on the rows S inside the margin, where (K_SS + I/(2C)) β_S = y_S. Newton's method
(Chapelle 2007, Training a support vector machine in the primal) guesses S, solves, and looks which rows are inside.
When S stays as it is, β is the solution, to rounding. On a Cholesky factor of K LIBLINEAR takes five times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from distembed.compute.arrays import Array

MOST_STEPS = 100  # of Newton's method
ROUNDING = 1e-12  # relative change of the objective that means nothing


def random_splits(labels: Array, n_train: int, n_splits: int, seed: int) -> list[Array]:
    """Rows to train on, ``n_train`` of each class, drawn at random; a sorted array of int for each split.

    Examples
    --------
    >>> random_splits(np.array([0, 0, 0, 1, 1]), n_train=1, n_splits=2, seed=0)
    [array([2, 4]), array([1, 3])]
    """
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [
        np.sort(np.concatenate([rng.choice(rows, n_train, replace=False) for rows in members])) for _ in range(n_splits)
    ]


def fit_margins(gram: Array, labels: Array, C: float, start: Array | None = None) -> Array:
    """Coefficients β of the machines, one class against the rest.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        Dot products of the training rows.
    labels : ndarray of shape (n_rows,) of int
        Classes 0, ..., n_classes - 1.
    C : float
        Weight of the losses.
    start : ndarray of shape (n_rows, n_classes), optional
        Coefficients for another C: their support is the first guess.

    Returns
    -------
    ndarray of shape (n_rows, n_classes)
        Decision values of other rows are ``(dot_products + 1) @ coefficients``.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> beta = fit_margins(x @ x.T, np.array([0, 0, 1, 1]), C=10.0)
    >>> ((x @ x.T + 1) @ beta).round(3)
    array([[ 1.951, -1.951],
           [ 0.976, -0.976],
           [-0.976,  0.976],
           [-1.951,  1.951]])
    """
    n_classes = int(labels.max()) + 1
    kernel = gram + 1.0
    signs = np.where(labels[:, None] == np.arange(n_classes), 1.0, -1.0)
    if start is None:  # all rows inside: one factorisation for all classes
        start = cho_solve(_factor(kernel, C), signs)
    return np.column_stack([_one_machine(kernel, signs[:, j], C, start[:, j]) for j in range(n_classes)])


def _factor(kernel: Array, C: float) -> Any:
    kernel = kernel.copy()
    kernel.flat[:: len(kernel) + 1] += 1 / (2 * C)
    return cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)


def _one_machine(kernel: Array, signs: Array, C: float, beta: Array) -> Array:
    values = kernel @ beta

    def objective(beta: Array, values: Array) -> float:
        return float(0.5 * beta @ values + C * np.sum(np.maximum(0, 1 - signs * values) ** 2))

    best = objective(beta, values)
    inside = signs * values < 1
    for _ in range(MOST_STEPS):
        rows = np.flatnonzero(inside)
        solution = np.zeros_like(beta)
        if len(rows):
            solution[rows] = cho_solve(_factor(kernel[np.ix_(rows, rows)], C), signs[rows], check_finite=False)
        solved = kernel[:, rows] @ solution[rows]
        step = 1.0
        now = objective(solution, solved)
        most = best + ROUNDING * abs(best)
        while now > most:
            step /= 2
            now = objective(beta + step * (solution - beta), values + step * (solved - values))
        beta = beta + step * (solution - beta)
        values = values + step * (solved - values)
        before = inside
        inside = signs * values < 1
        if step == 1.0 and (np.array_equal(before, inside) or best - now <= ROUNDING * abs(now)):
            return beta
        best = now
    raise FloatingPointError(f"scenes: a support vector machine with C = {C:g} did not settle in {MOST_STEPS} steps")


class Scores(NamedTuple):
    """Accuracy on each split, the C and the number of the Gram matrix that were chosen for it, and what is right.

    ``right`` of shape (n_splits, n_rows) is 1 for a test row that is classified rightly, 0 for another, -1 for a
    training row.
    """

    accuracy: Array
    C: Array
    kernel: Array
    right: Array


def score_splits(
    grams: Sequence[Array], labels: Array, splits: Sequence[Array], Cs: Sequence[float], n_folds: int, seed: int
) -> Scores:
    """Accuracy on the rows that a split leaves out, with C and the kernel chosen by folds of its training rows.

    Parameters
    ----------
    grams : sequence of ndarray of shape (n_rows, n_rows)
        One or more to choose from.
    labels : ndarray of shape (n_rows,) of int
    splits : sequence of ndarray of int
        Training rows.
    Cs : sequence of float
        To choose from; of equals the first.
    n_folds : int
        Stratified, the same for all kernels.
    seed : int
        Of the folds.
    """
    chosen = []
    for number, train in enumerate(splits):
        folds = _folds(labels[train], n_folds, np.random.default_rng([seed, number]))
        parts = [(train[folds != k], train[folds == k]) for k in range(n_folds)]
        rights = np.sum([[_right(gram, labels, *part, Cs).sum(axis=1) for gram in grams] for part in parts], axis=0)
        which, at = (int(i) for i in np.unravel_index(np.argmax(rights), rights.shape))
        test = np.setdiff1d(np.arange(len(labels)), train)
        right = np.full(len(labels), -1, np.int8)
        right[test] = _right(grams[which], labels, train, test, [Cs[at]])[0]
        chosen.append((np.count_nonzero(right == 1) / len(test), Cs[at], which, right))
    return Scores(*(np.array(values) for values in zip(*chosen, strict=True)))


def _folds(labels: Array, n_folds: int, rng: np.random.Generator) -> Array:
    """Number of the fold of each row, each class spread evenly."""
    folds = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        folds[rows] = np.arange(len(rows)) % n_folds
    return folds


def _right(gram: Array, labels: Array, train: Array, test: Array, Cs: Sequence[float]) -> Array:
    """Which test rows are classified rightly with each C, ndarray of shape (n_Cs, n_test)."""
    inner = gram[np.ix_(train, train)]
    outer = gram[np.ix_(test, train)] + 1.0
    beta = None
    found = {}
    for C in sorted(Cs):  # a larger C has the support of a smaller one, or little less
        beta = fit_margins(inner, labels[train], C, beta)
        found[C] = np.argmax(outer @ beta, axis=1) == labels[test]
    return np.array([found[C] for C in Cs])
