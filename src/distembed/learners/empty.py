r"""Bags without points: what a learner predicts for them, and how they are kept from all that needs points.

    bags -> with points    -> views, heads, members -> predictions
         -> without points -> covariates, or the training bags that were empty -> predictions, in the same rows

A customer without events and a plot without animals have a target, and the lack of points is what is known of them. No
embedding sees such a bag. Without covariates its prediction is the mean target of the m training bags that were empty,
shrunk to that of all bags,

.. math:: \hat y = \bar y + s (\bar y_0 - \bar y), \qquad s = \frac{g^2}{g^2 + v / m}, \qquad g = \bar y_0 - \bar y,

where v is their variance, in which one more bag counts, with the variance of all bags: a single empty bag that is one
standard deviation off moves the
prediction half way. Frequencies of classes are those of the empty bags and of one bag more, which has the
frequencies of all. With covariates, a linear head has learned from those of all training bags, an indicator of the
empty ones, and their products.

Where no training bag was empty, nothing is known of such bags: the prediction is that for any bag, with a warning.

*Errors*: quantiles and sets come from the residuals of the training bags that were empty or, of fewer than
:data:`FEW_FOR_A_LAW`, of all bags around the same head.

*Cost*: none without covariates, and one eigendecomposition of at most :data:`MOST_SCORED` rows with them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bags.flat import few
from ..compute.arrays import Array
from ..compute.checks import InputError
from ..compute.registry import storable
from ..models.base import Head
from ..models.folds import folds_of, sample_rows
from ..models.kernel_head import KernelHead
from .batch import Batch
from .error_law import ClassLaw, ErrorLaw
from .stacking import HeldOut
from .targets import Classes, Numbers

FEW_FOR_A_LAW = 10  # empty training bags; of fewer, errors are those of all bags
MOST_SCORED = 2000  # training bags that take part, besides the empty ones
_N_FOLDS = 5


@storable(mean="finite(o)")
@dataclass(frozen=True, eq=False)
class EmptyBags:
    """What a fitted learner knows of bags without points.

    Parameters
    ----------
    n_bags : int
        Training bags that were empty.
    mean : ndarray of shape (n_outputs,)
        The prediction without covariates: a number for each output, or a probability for each class.
    head : Head or None
        What predicts from covariates and an indicator, where there are covariates and some training bags were empty.
    law : ErrorLaw or ClassLaw
        The distribution of targets around these predictions.

    Examples
    --------
    >>> import distembed as de
    >>> batch = Batch(de.Bags(np.zeros((2, 1)), [0, 1, 2, 2, 2], empty="allow"), np.array([[5.0], [5], [0], [0]]),
    ...               np.ones(4))
    >>> EmptyBags.of(batch, None).predict(2, None).round(2).tolist()
    [[0.5], [0.5]]
    """

    n_bags: int
    mean: Array
    head: Head | None
    law: ErrorLaw | ClassLaw

    @classmethod
    def of(cls, batch: Batch, n_classes: int | None) -> EmptyBags:
        """Learn from training bags with coded targets; some bags may be empty; covariates are encoded."""
        empty = _are_empty(batch.bags)
        y = batch.y if n_classes is None else np.eye(n_classes)[batch.y]
        weight = batch.weight / batch.weight.mean()
        mean = _mean_of_empty(y, weight, empty, n_classes is not None)
        some = np.flatnonzero(empty) if empty.sum() >= FEW_FOR_A_LAW else np.arange(len(y))
        head = None
        if batch.covariates is None or not empty.any():
            predicted = _mean_of_others(y[some], weight[some])
        else:
            drawn = _sample(empty)
            head = _fit_head(batch.take(drawn), empty[drawn], n_classes)
            there = np.isin(drawn, some)
            some = drawn[there]
            predicted = head.held_out_[there]
        law = _learn_law(HeldOut(predicted[None], batch.y[some], weight[some], n_classes))
        return cls(int(empty.sum()), mean, head, law)

    def predict(self, n_bags: int, covariates: Array | None) -> Array:
        """Numbers or probabilities of empty bags, ndarray of shape (n_bags, n_outputs)."""
        if self.head is None or covariates is None:
            return np.tile(self.mean, (n_bags, 1))
        return self.head.predict(_rows(covariates, np.ones(n_bags)))


def _are_empty(bags: Any) -> Array:
    """Which bags are empty; none of those of which only the rows of an embedding are known."""
    return np.asarray(bags.sizes == 0) if getattr(bags, "has_empty", False) else np.zeros(len(bags), bool)


def _rows(covariates: Array, empty: Array) -> Array:
    """Covariates, the indicator of empty bags, and their products: slopes of empty bags may be their own."""
    return np.column_stack([covariates, empty, empty[:, None] * covariates])


def _fit_head(batch: Batch, empty: Array, n_classes: int | None) -> KernelHead:
    """A linear head on covariates, the indicator of empty bags, and their products."""
    groups = None if batch.groups is None else np.unique(batch.groups, return_inverse=True)[1]
    n_units = len(empty) if groups is None else len(np.unique(groups))
    folds = folds_of(min(_N_FOLDS, n_units), batch.y, groups, n_classes is not None, np.random.RandomState(0))
    head = KernelHead("linear", "ridge" if n_classes is None else "logistic", n_classes=n_classes, random_state=0)
    return head.fit(_rows(batch.covariates, empty), batch.y, batch.weight / batch.weight.mean(), folds)


def _sample(empty: Array) -> Array:
    """Positions of the training bags that are used: empty ones and others, at most n of each."""
    rng = np.random.RandomState(0)
    each = [np.flatnonzero(part) for part in (empty, ~empty)]
    return np.sort(np.concatenate([own[sample_rows(len(own), MOST_SCORED, None, rng)] for own in each]))


def _mean_of_empty(y: Array, weight: Array, empty: Array, has_classes: bool) -> Array:
    """The mean of the empty bags, shrunken to that of all bags, ndarray of shape (n_outputs,)."""
    mean = np.average(y, axis=0, weights=weight)
    if not empty.any():
        return np.asarray(mean)
    own = y[empty]
    w = weight[empty]
    m = w.sum()
    if has_classes:
        return np.asarray((w @ own + mean) / (m + 1))
    gap = np.average(own, axis=0, weights=w) - mean
    squares = w @ (own - mean - gap) ** 2 + np.average((y - mean) ** 2, axis=0, weights=weight)
    noise = squares / m**2
    return np.asarray(mean + gap * gap**2 / np.maximum(gap**2 + noise, np.finfo(float).tiny))


def _mean_of_others(y: Array, weight: Array) -> Array:
    """For each bag the mean of all others, ndarray of the shape of y; its own where there are none."""
    left = weight.sum() - weight
    centre = np.average(y, axis=0, weights=weight)
    sums = weight @ (y - centre) - weight[:, None] * (y - centre)
    return np.asarray(centre + sums / np.where(left > 1e-9 * weight, left, np.inf)[:, None])


def _learn_law(held_out: HeldOut) -> ErrorLaw | ClassLaw:
    """The law of the errors of held-out predictions."""
    predicted = held_out.predicted[0]
    if held_out.n_classes is not None:
        return ClassLaw.of(held_out, predicted)
    return ErrorLaw.of(held_out, predicted, np.ones(len(predicted)), np.zeros(predicted.shape))


def with_empty(
    learner: Any,
    bags: Any,
    covariates: Array | None,
    of_points: Callable[[Any, Array | None], Array],
    of_empty: Callable[[EmptyBags, int, Array | None], Array],
) -> Array:
    """What is computed for bags with points and, in another way, for empty ones, in the order of the bags.

    Parameters
    ----------
    learner : Learner
        Whose ``empty_`` knows of empty bags.
    bags : Bags or EmbeddedBags
        Some may be empty.
    covariates : ndarray of shape (n_bags, n_columns) or None
        Encoded.
    of_points : callable
        Takes bags with points, and their covariates.
    of_empty : callable
        Takes what is known of empty bags, their number, and their covariates.

    Returns
    -------
    ndarray of n_bags rows
    """
    empty = _are_empty(bags)
    if not empty.any():
        return of_points(bags, covariates)
    name = type(learner).__name__
    known: EmptyBags | None = learner.empty_
    if known is None:
        raise InputError(
            f"{name}: {bags.name_of(int(empty.argmax()))} is empty, and models that learn from batches know nothing of "
            "such bags; leave it out, or fit to all bags at once"
        )
    if known.n_bags == 0:
        some = few(bags.ids[empty])
        warnings.warn(
            f"{name}: no training bag was empty, so nothing is known of bags such as {some}: they are predicted as any "
            "bag would be; fit to some empty bags, or leave them out",
            UserWarning,
            stacklevel=3,
        )
    one, two = (None if covariates is None else covariates[some] for some in (empty, ~empty))
    rows = of_empty(known, int(empty.sum()), one)
    found = np.empty((len(empty), *rows.shape[1:]), rows.dtype)
    found[empty] = rows
    if not empty.all():
        found[~empty] = of_points(bags[~empty], two)
    return found


def drop_empty(owner: Any, batch: Batch, targets: Numbers | Classes) -> Batch:
    """The bags with points; they must have all classes of the coded targets."""
    filled = ~_are_empty(batch.bags)
    if filled.all():
        return batch
    name = type(owner).__name__
    if not filled.any():
        raise ValueError(
            f"{name}: all {len(filled)} bags are empty, so there is nothing to learn from; add bags with points"
        )
    if isinstance(targets, Classes):
        lost = np.delete(targets.classes, np.unique(batch.y[filled]))
        if len(lost):
            raise ValueError(
                f"{name}: class {lost.tolist()[0]!r} has empty bags alone, so no points can be like it; leave "
                "these bags out, or join the class with another"
            )
    return batch.take(filled)


def refuse_in_batches(owner: Any, bags: Any) -> None:
    """Refuse empty bags where bags come in batches."""
    if getattr(bags, "has_empty", False):
        first = bags.name_of(int((bags.sizes == 0).argmax()))
        raise ValueError(
            f"{type(owner).__name__}: {first} is empty, and empty bags need all bags at once; leave it out, or use fit"
        )
