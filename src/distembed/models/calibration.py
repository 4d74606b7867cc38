r"""Probabilities of classes from the scores of a model, by bags that it did not see.

The scores s of support vectors and of ridge regression are not probabilities. Softmax regression on scores of bags that
were held out makes them so,

.. math:: p = \mathrm{softmax}(s A + b),

for two classes Platt's sigmoid (1999). A and b minimise the weighted log loss, so probabilities are right on
average for classes as frequent as in training, or, if bags of a class weigh more, as heavy as they are. The likeliest
class is then the best guess at these weights, which the largest score is not where classes are unequal.

Support vectors have such scores from the search for C. Ridge regression has them in closed form, for the model itself
and not for one of fewer bags: :meth:`~distembed.models.ridge.LinearRidge.without`. For that :class:`KeptRows` keeps
some rows of what the model has learned from, however many there were.

References
----------
Platt (1999). Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import minimize

from ..compute.arrays import Array
from ..compute.registry import storable, within
from .folds import inner_folds
from .held_out import Softmax, softmax_by_folds, softmax_loss
from .ridge import LinearRidge

N_NEAR_FOLDS = 3  # on which the penalty of M is chosen
MOST_TO_CALIBRATE = 1000  # rows on which ridge regression is calibrated,
LEAST_OF_EACH = 30  # or so many for each class if these are more
# times the number of classes: smaller scores of ridge regression go on along a line
KNEE = 0.05
MOST_KNEE = 0.3
_NEAR = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)  # penalties of M
_FAR = 1e3  # that of a, for classes that nothing confuses


def log_shares(scores: Array) -> Array:
    """Logarithms of the scores of ridge regression, probabilities but for their range; small ones go on by a tangent.

    Softmax of log s is s, where scores of all classes are positive. A score of noise about zero says little about how
    rare a class is, and so has no logarithm here, but a place on a line: below .05 for each class, at most .3.

    Examples
    --------
    >>> log_shares(np.array([[-0.1, 1.1], [0.5, 0.5]])).round(2)
    array([[-4.3 ,  0.1 ],
           [-0.69, -0.69]])
    """
    knee = min(KNEE * scores.shape[1], MOST_KNEE)
    above = np.maximum(scores, knee)
    return np.asarray(np.log(above) + (scores - above) / knee)


def calibrate(
    scores: Array, codes: Array, weight: Array, n_classes: int, folds: Sequence[tuple[Array, Array]]
) -> tuple[Softmax, Array]:
    r"""Softmax regression on held-out scores, near one factor for all of them.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, n_classes)
        Of models that did not see the bag.
    codes : ndarray of shape (n_bags,) of int
        Classes.
    weight : ndarray of shape (n_bags,)
        Positive.
    n_classes : int
        Number of classes.
    folds : sequence of (seen, held) index arrays
        Each row is held out at least once.

    Returns
    -------
    model : Softmax
        Of scores as they are; penalties are for scores of deviation one, so their unit does not matter.
    held_out : ndarray of shape (n_bags, n_classes)
        Probabilities for bags of such regressions that did not see them.

    Notes
    -----
    With A = a I + M, first a and b are found alone. Then M, under a penalty that is chosen on the folds: few bags tell
    little more than a, but neighbours, such as one and two modes, need other weights than strangers do.

    Examples
    --------
    >>> codes = np.array([0, 1, 0, 1] * 5)
    >>> scores = np.array([[1.0, -1.0], [0.5, -0.5], [-0.5, 0.5], [-1.0, 1.0]] * 5)
    >>> folds = [(np.arange(10), np.arange(10, 20)), (np.arange(10, 20), np.arange(10))]
    >>> calibrate(scores, codes, np.ones(20), 2, folds)[0].predict(np.array([[0.0, 0.0]])).round(2)
    array([[0.5, 0.5]])
    """
    weight = weight / weight.mean()
    mean = np.average(scores, axis=0, weights=weight)
    spread = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weight).mean()) or 1.0
    z = (scores - mean) / spread
    factor = _common_factor(z, codes, weight)
    held_out, _, model = softmax_by_folds(z, codes, weight, n_classes, folds, _NEAR, factor * z)
    coef = (factor * np.eye(n_classes) + model.coef) / spread
    return Softmax(coef, model.intercept - mean @ coef), held_out


def _common_factor(z: Array, codes: Array, weight: Array) -> float:
    """The a of least weighted log loss of softmax(a z + b)."""
    present, ours = np.unique(codes, return_inverse=True)
    z, at = z[:, present], (np.arange(len(z)), ours)

    def objective(found: Array) -> tuple[float, Array]:
        loss, pull = softmax_loss(found[0] * z + found[1:], at, weight)
        return loss + 0.5 * float(found[0]) ** 2 / _FAR, np.append((pull * z).sum() + found[0] / _FAR, pull.sum(axis=0))

    shares = np.log(np.bincount(ours, weight) / weight.sum())
    return float(minimize(objective, np.append(1.0, shares), jac=True, method="L-BFGS-B").x[0])


@storable(
    totals="finite(c)",
    n_offered="n",
    rows="finite(k, f) | None",
    codes="int(k)",
    weight="finite(k)",
    keys="finite(k)",
)
@dataclass(frozen=True, eq=False)
class KeptRows:
    """Some rows of all that a model learns from: the same number of each class, or all rows of a smaller class.

    Parameters
    ----------
    totals : ndarray of shape (n_classes,)
        Weights of all bags that were offered, by class.
    n_offered : int
        Their number.
    rows : ndarray of shape (n_kept, n_features) or None
        Features.
    codes, weight, keys : ndarray of shape (n_kept,)
        Classes, weights, and the random numbers, of which the smallest of each class are kept.
    grouped : bool
        Whether all bags have a group; those of one group have the same key.

    Examples
    --------
    >>> kept = KeptRows.of(2)
    >>> for _ in range(3):
    ...     kept = kept.add(np.repeat([0, 1], [990, 10]), np.ones(1000), None, 0, lambda some: np.zeros((len(some), 4)))
    >>> np.bincount(kept.codes), kept.rows.shape
    (array([970,  30]), (1000, 4))
    >>> np.bincount(kept.codes, kept.weights)
    array([2970.,   30.])
    """

    totals: Array
    n_offered: int
    rows: Array | None
    codes: Array
    weight: Array
    keys: Array
    grouped: bool

    def __distembed_fits__(self) -> bool:
        return within(self.codes, len(self.totals))

    @classmethod
    def of(cls, n_classes: int) -> Self:
        """No rows yet."""
        return cls(np.zeros(n_classes), 0, None, np.empty(0, np.int64), np.empty(0), np.empty(0), True)

    def add(
        self, codes: Array, weight: Array, groups: Array | None, seed: int, rows_of: Callable[[Array], Array]
    ) -> KeptRows:
        """Offer bags; some are kept: only for these ``rows_of(positions)`` is asked for rows of features."""
        n = len(self.codes)
        keys = np.concatenate([self.keys, _keys(len(codes), groups, seed, self.n_offered)])
        every = np.concatenate([self.codes, codes])
        weights = np.concatenate([self.weight, weight])
        chosen = _smallest(every, keys, max(MOST_TO_CALIBRATE, LEAST_OF_EACH * len(self.totals)))
        new = chosen[chosen >= n] - n
        parts = [] if self.rows is None else [self.rows[chosen[chosen < n]]]
        if len(new):
            parts.append(rows_of(new))
        totals = self.totals + np.bincount(codes, weight, minlength=len(self.totals))
        return KeptRows(
            totals, self.n_offered + len(codes), np.concatenate(parts), every[chosen], weights[chosen], keys[chosen],
            self.grouped and groups is not None,
        )  # fmt: skip

    @property
    def weights(self) -> Array:
        """Weights of the rows that make each class as heavy as all that was offered of it."""
        kept = np.bincount(self.codes, self.weight, minlength=len(self.totals))
        return np.asarray(self.weight * (self.totals / np.where(kept > 0, kept, 1.0))[self.codes])

    def calibrate(self, model: LinearRidge, seed: int) -> Softmax:
        """Softmax regression on the scores that models without some of the rows give these."""
        k = len(self.totals)
        if len(np.unique(self.codes)) < 2:
            return Softmax(np.zeros((k, k)), np.where(self.totals > 0, 0.0, -np.inf))
        groups = self.keys if self.grouped else None
        columns = np.asarray(self.codes[:, None] == np.arange(k), np.float64)
        parts = [held for _, held in inner_folds(self.codes, groups, seed)]
        scores = log_shares(model.without(self.rows, columns, self.weight, parts))
        return calibrate(scores, self.codes, self.weights, k, inner_folds(self.codes, groups, seed, N_NEAR_FOLDS))[0]


def _keys(n: int, groups: Array | None, seed: int, offered: int) -> Array:
    """Uniform random numbers for bags; equal ones for bags of a group, in whatever batch."""
    if groups is None:
        return np.random.default_rng([seed, offered]).uniform(size=n)
    return np.array([zlib.crc32(f"{seed} {label!r}".encode()) / 2**32 for label in groups.tolist()])


def _smallest(codes: Array, keys: Array, most: int) -> Array:
    """Positions of the bags to keep, in increasing order: those of the smallest ranks by key within their class."""
    if len(codes) <= most:
        return np.arange(len(codes))
    order = np.lexsort((keys, codes))
    starts = np.searchsorted(codes[order], codes[order])
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes)) - starts
    return np.sort(np.lexsort((keys, rank))[:most])
