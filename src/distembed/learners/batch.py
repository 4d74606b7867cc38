"""Bags with their targets, weights, groups and covariates: what a learner learns from, whole or in batches."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags, concat
from ..compute.arrays import Array
from ..compute.checks import check_weights
from ..models.folds import folds_of, n_folds, subset
from .covariates import CovariateColumns


class Batch(NamedTuple):
    """Bags, targets, weights of bags, and groups and encoded covariates if there are any."""

    bags: Bags
    y: Array
    weight: Array
    groups: Array | None = None
    covariates: Any = None  # an array of shape (n_bags, n_columns), or a CovariateColumns that is not encoded yet

    @classmethod
    def checked(
        cls, owner: object, bags: Bags, y: Array, weight: Any = None, groups: Any = None, may_vanish: bool = False
    ) -> Batch:
        """Check weights and groups as the user gave them, in the name of an owner."""
        labels = None if groups is None else check_labels(type(owner).__name__, "groups", groups, bags.n_bags)
        return cls(bags, y, check_weights(owner, weight, bags.n_bags, may_vanish=may_vanish), labels)

    def numbered(self, owner: object) -> Batch:
        """The same with numbers for groups, of which there must be two at least."""
        if self.groups is None:
            return self
        try:
            names, number = np.unique(self.groups, return_inverse=True)
        except TypeError:
            raise TypeError(
                f"{type(owner).__name__}: groups must be labels of one kind, got several, such as None and text; give "
                "every bag a label"
            ) from None
        if len(names) < 2:
            raise ValueError(f"{type(owner).__name__}: groups must be at least two, got one; leave groups out")
        return self._replace(groups=number)

    def take(self, some: Array) -> Batch:
        """The same of some of the bags, by positions or a mask."""
        groups, covariates = (None if each is None else each[some] for each in (self.groups, self.covariates))
        return Batch(self.bags[some], self.y[some], self.weight[some], groups, covariates)

    def sample(self, most: int, rng: np.random.RandomState) -> Batch:
        """At most so many of the bags, see :func:`subset`."""
        return self.take(subset(len(self.y), most, self.groups, rng))

    def folds(
        self, tune: Any, classes: bool, rng: np.random.RandomState, share: float = 0.1
    ) -> list[tuple[Array, Array]]:
        """Training and held-out positions, as a learner's ``tune`` says, see :func:`folds_of`.

        No more folds than a rare class has bags.
        """
        how = n_folds(tune, len(self.y), self.groups)
        rarest = int(np.unique(self.y, return_counts=True)[1].min()) if classes else 1
        how = min(how, rarest) if isinstance(how, int) and rarest > 1 else how
        return folds_of(how, self.y, self.groups, classes, rng, share)

    def counted(self) -> Batch:
        """Without the bags of weight zero, which are as if absent; some must be left."""
        there = self.weight > 0
        return self if there.all() else self.take(there)


def check_labels(where: str, name: str, values: Any, n_bags: int) -> Array:
    """One label for each bag."""
    labels = np.asarray(values)
    if labels.shape != (n_bags,):
        raise ValueError(
            f"{where}: {name} must be one label per bag, got shape {labels.shape} for {n_bags} bags; pass them in the "
            "order of the bags"
        )
    return labels


def draw_sample(batches: Iterable[Batch], most: int, rng: np.random.RandomState | None, where: str) -> Batch:
    """At most so many bags of positive weight, drawn evenly from all batches, in their order.

    Parameters
    ----------
    batches : iterable of Batch
        Read to its end, or, without a generator, until there are enough bags.
    most : int
        Most bags to keep.
    rng : RandomState or None
        None: the first bags.
    where : str
        What errors begin with.
    """
    kept: list[Batch] = []
    keys, seen = np.empty(0), False
    for batch in batches:
        seen = True
        if kept:
            _check_alike(kept[0], batch, where)
        drawn = np.full(len(batch.weight), -1.0) if rng is None else rng.uniform(size=len(batch.weight))
        drawn[batch.weight == 0] = np.inf
        keys = np.concatenate([keys, drawn])
        kept.append(batch._replace(bags=batch.bags.replace(ids=None)))  # so that batches of any ids can be joined
        if len(keys) > 2 * most or rng is None:
            kept, keys = _smallest(kept, keys, most)
            if rng is None and len(keys) == most:
                break
    if not seen:
        raise ValueError(f"{where}: make_iterator() gave no batches; it must return a new iterator at every call")
    kept, keys = _smallest(kept, keys, most)
    if not kept:
        raise ValueError(f"{where}: all bags have weight zero; leave sample_weight out")
    return kept[0]


def _check_alike(first: Batch, other: Batch, where: str) -> None:
    if other.y.shape[1:] != first.y.shape[1:]:
        raise ValueError(
            f"{where}: y must have the same outputs in all batches, got shape {other.y.shape} after {first.y.shape}; "
            "pass the same columns every time"
        )
    for name, one, two in (("groups", first.groups, other.groups), ("covariates", first.covariates, other.covariates)):
        if (one is None) != (two is None):
            raise ValueError(
                f"{where}: {name} must be given in all batches or in none, got some batches with and some without; "
                "give them for every bag"
            )


def _smallest(kept: list[Batch], keys: Array, most: int) -> tuple[list[Batch], Array]:
    """The bags of the smallest keys, in their order, as one batch; those of infinite keys never."""
    order = np.argsort(keys, kind="stable")[:most]
    chosen = np.sort(order[np.isfinite(keys[order])])
    if not len(chosen):
        return [], keys[:0]
    bags, y, weight, groups, tables = zip(*kept, strict=True)
    labels = None if groups[0] is None else np.concatenate([each.astype(object) for each in groups])  # of any types
    table = None if tables[0] is None else CovariateColumns.join(tables)
    joined = Batch(concat(bags) if len(bags) > 1 else bags[0], np.concatenate(y), np.concatenate(weight), labels, table)
    return [joined.take(chosen)], keys[chosen]


class Clock:
    """Seconds per stage, added to a dictionary.

    Examples
    --------
    >>> clock = Clock({"embedding": 5.0})
    >>> clock.lap("embedding")
    >>> clock.seconds["embedding"] > 5
    True
    """

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = {} if seconds is None else seconds
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to that of a stage."""
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
