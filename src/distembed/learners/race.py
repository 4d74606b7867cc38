r"""A race of candidates on some of the bags, so those that cannot win need not be scored on all.

    candidates -> heat on few bags -> those within reach of the best -> heat on more -> ... -> scored on all bags

In a heat all candidates are scored on the same bags and folds. One leaves the race if its mean loss is above that of
the best by more than :data:`REACH` standard errors of the difference, bag by bag, unless it is one of the best
:data:`LEAST`; or if :data:`MOST` others are better. Weights of :mod:`distembed.learners.stacking` are those of few
candidates, and nearly all go to these. A candidate that leaves has the score of its last heat, and no weight; nothing
else looks at its predictions. Of several outputs, it stays if it is within reach for one of them.

*Cost.* Heads cost n³ in n bags, and the scale of a Gaussian kernel, ten times that, is chosen in heats, near the end of
the one before. Up to 300 bags, the one heat is on all of them, with folds drawn once and small forests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..compute.arrays import Array
from ..models.folds import Folds, sample_rows
from .batch import Batch
from .stacking import HeldOut

HEATS = (300, 700)  # bags
FEWEST_TO_RACE = 12  # candidates that need a race
LEAST = 8  # that stay after a heat
MOST = 12  # at most
REACH = 2.0  # standard errors


def heat_sizes(n_bags: int) -> list[int]:
    """How many bags each heat has.

    Examples
    --------
    >>> heat_sizes(90), heat_sizes(500), heat_sizes(2000)
    ([90], [300], [300, 700])
    """
    first, second = HEATS
    return [min(n_bags, first), *([second] if n_bags > 1.5 * second else [])]


@dataclass(frozen=True, eq=False)
class Heat:
    """Bags on which candidates are compared.

    Parameters
    ----------
    some : ndarray of int
        Their positions.
    part : Batch
        These bags, with weights of mean one.
    folds : sequence of pairs of index arrays
        Drawn once, of these bags.
    """

    some: Array
    part: Batch
    folds: Folds

    @classmethod
    def draw(
        cls, whole: Batch, folds: Folds, size: int, n_classes: int | None, tune: int, rng: np.random.RandomState
    ) -> Heat:
        """Draw bags, some of every class, and their folds; those that are given if the bags are all."""
        n = len(whole.y)
        some = sample_rows(n, size, whole.groups, rng)
        if len(some) == n:
            return cls(some, whole, folds)
        for code in range(n_classes or 0):
            own = np.flatnonzero(whole.y == code)
            lacking = min(tune, len(own)) - np.isin(own, some).sum()
            if lacking > 0:
                some = np.union1d(some, rng.permutation(np.setdiff1d(own, some))[:lacking])
        part = with_unit_weight(whole.take(some))
        return cls(some, part, part.folds(tune, n_classes is not None, rng))

    def held_out(self, predicted: Sequence[Array], n_classes: int | None) -> HeldOut:
        """Held-out predictions of candidates for these bags."""
        part = self.part
        return HeldOut(np.stack(predicted), part.y, part.weight, n_classes, part.groups, len(self.folds))


def with_unit_weight(part: Batch) -> Batch:
    """A batch whose weights have mean one."""
    return part._replace(weight=part.weight / part.weight.mean())


def within_reach(held_out: HeldOut) -> Array:
    """Which candidates stay in the race, ndarray of bool of shape (n_candidates,).

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> truth = rng.normal(size=(100, 1))
    >>> errors = [0.3] * 9 + [0.9] * 2
    >>> predicted = np.stack([truth + error * rng.normal(size=(100, 1)) for error in errors])
    >>> within_reach(HeldOut(predicted, truth, np.ones(100))).astype(int)
    array([1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0])
    """
    if held_out.n_classes is None and held_out.targets.shape[1] > 1:
        each = range(held_out.targets.shape[1])
        return np.asarray(np.any([within_reach(held_out.output(o)) for o in each], axis=0))
    losses = np.stack([held_out.losses(predicted) for predicted in held_out.predicted])
    order = np.argsort(losses.mean(axis=1), kind="stable")
    behind = losses - losses[order[0]]
    errors = np.array([held_out.standard_error(each) for each in behind])
    stays = behind.mean(axis=1) <= REACH * errors
    stays[order[:LEAST]] = True
    stays[order[MOST:]] = False
    return np.asarray(stays)
