"""Bags with their targets, weights, groups and covariates: what a learner learns from, whole or in batches.

    pass 1: batches -> sample of bags -> scaling, settings, embedding, random features
    pass 2: batches -> sums of the normal equations -> checkpoint, now and then

More bags than memory holds take two passes over batches, which come again in the same order at every pass. The first
draws a sample, which decides all settings; the second adds every bag to the normal equations of ridge regression, whose
size depends on the number of features alone. Without a search one pass is enough: the first bags decide, and all are
added. Work that was interrupted goes on from the checkpoint to the same result.

*Memory*: one batch, the sample, and the sums.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags, concat
from ..bags.ids import is_missing
from ..compute.arrays import Array
from ..compute.checks import check_weights
from ..files import ModelFileError, load, save
from ..models.folds import folds_of, n_folds, sample_rows
from .covariates import CovariateColumns


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


class Batch(NamedTuple):
    """Bags, targets, weights of bags, and groups and encoded covariates if there are any."""

    bags: Bags
    y: Array
    weight: Array
    groups: Array | None = None
    covariates: Any = None  # an array of shape (n_bags, n_columns), or a CovariateColumns that is not encoded yet

    @classmethod
    def of(
        cls, owner: object, bags: Bags, y: Array, weight: Any = None, groups: Any = None, may_vanish: bool = False
    ) -> Batch:
        """Check weights and groups as the user gave them, in the name of an owner."""
        labels = None if groups is None else check_labels(type(owner).__name__, "groups", groups, bags.n_bags)
        return cls(bags, y, check_weights(owner, weight, bags.n_bags, may_vanish=may_vanish), labels)

    def number_groups(self, owner: object) -> Batch:
        """Replace the labels of groups by numbers; there must be at least two groups."""
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
        """Take some of the bags, by positions or a mask."""
        groups, covariates = (None if each is None else each[some] for each in (self.groups, self.covariates))
        return Batch(self.bags[some], self.y[some], self.weight[some], groups, covariates)

    def sample(self, most: int, rng: np.random.RandomState) -> Batch:
        """Draw at most this many of the bags, see :func:`~distembed.models.folds.sample_rows`."""
        return self.take(sample_rows(len(self.y), most, self.groups, rng))

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

    def fingerprint(self) -> str:
        """Return a digest of points, targets and weights, which identifies a batch."""
        return fingerprint("batch", (self.bags.points, self.bags.offsets, self.bags.weights, self.y, self.weight))

    def drop_weightless(self) -> Batch:
        """Leave out the bags of weight zero, which are as if absent; some must be left."""
        there = self.weight > 0
        return self if there.all() else self.take(there)


def check_labels(where: str, name: str, values: Any, n_bags: int) -> Array:
    """One label for each bag, none missing."""
    labels = np.asarray(values)
    if labels.shape != (n_bags,):
        raise ValueError(
            f"{where}: {name} must be one label per bag, got shape {labels.shape} for {n_bags} bags; pass them in the "
            "order of the bags"
        )
    lost = np.flatnonzero([is_missing(value) for value in labels] if labels.dtype.kind in "OfM" else [])
    if lost.size:
        raise ValueError(
            f"{where}: {name} must have no missing labels, got {labels[lost[0]]} for bag {lost[0]}; give such bags a "
            "label of their own"
        )
    return labels


# Passes over batches


def sample_batches(batches: Iterable[Batch], most: int, rng: np.random.RandomState | None, where: str) -> Batch:
    """Draw at most this many bags of positive weight, evenly from all batches, in their order.

    The number of bags is not known before the last batch, so :func:`~distembed.models.folds.sample_rows` can't
    draw them: every bag gets a random key, and those of the smallest keys stay.

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
    keys = np.empty(0)
    seen = False
    for batch in batches:
        seen = True
        if kept:
            _check_alike(kept[0], batch, where)
        drawn = np.full(len(batch.weight), -1.0) if rng is None else rng.uniform(size=len(batch.weight))
        drawn[batch.weight == 0] = np.inf
        keys = np.concatenate([keys, drawn])
        kept.append(batch._replace(bags=batch.bags.replace(ids=None)))  # so that batches of any ids can be joined
        if len(keys) > 2 * most or rng is None:
            kept, keys = _keep_smallest(kept, keys, most)
            if rng is None and len(keys) == most:
                break
    if not seen:
        raise ValueError(f"{where}: make_iterator() gave no batches; it must return a new iterator at every call")
    kept, keys = _keep_smallest(kept, keys, most)
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


def _keep_smallest(kept: list[Batch], keys: Array, most: int) -> tuple[list[Batch], Array]:
    """Keep the bags of the smallest keys, in their order, as one batch; those of infinite keys never."""
    order = np.argsort(keys, kind="stable")[:most]
    chosen = np.sort(order[np.isfinite(keys[order])])
    if not len(chosen):
        return [], keys[:0]
    bags, y, weight, groups, tables = zip(*kept, strict=True)
    labels = None if groups[0] is None else np.concatenate([each.astype(object) for each in groups])  # of any types
    table = None if tables[0] is None else CovariateColumns.join(tables)
    joined = Batch(concat(bags) if len(bags) > 1 else bags[0], np.concatenate(y), np.concatenate(weight), labels, table)
    return [joined.take(chosen)], keys[chosen]


def batch_parts(batch: Any, where: str) -> Sequence[Any]:
    """What ``make_iterator()`` yielded: bags, targets, and maybe weights, groups and covariates."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3, 4, 5):
        raise TypeError(
            f"{where}: a batch must be (bags, y), or this with sample_weight, groups and covariates, in this order, "
            f"got {type(batch).__name__}; let make_iterator() yield tuples"
        )
    return batch


def batches_from(make_iterator: Callable[..., Iterable[Any]], n: int) -> Iterator[Any]:
    """Batches from number n on; a ``make_iterator`` with a parameter ``start`` leaves the others out itself.

    Examples
    --------
    >>> list(batches_from(lambda: iter("abc"), 1)), list(batches_from(lambda start=0: iter("abc"[start:]), 2))
    (['b', 'c'], ['c'])
    """
    with suppress(TypeError, ValueError):  # some callables have no signature
        if n and "start" in inspect.signature(make_iterator).parameters:
            make_iterator = partial(make_iterator, start=n)
            n = 0
    return islice(make_iterator(), n, None)


class Checkpoint:
    """A file that keeps a learner between batches, or none.

    Parameters
    ----------
    path : path or None
        The file; None: nothing is kept.
    where : str
        What errors begin with.
    """

    seconds_between = 20.0  # two files, or twenty times as long as one takes

    def __init__(self, path: str | Path | None, where: str) -> None:
        self._path = None if path is None else Path(path)
        self._where = f"{where}(checkpoint=...)"
        self._written = monotonic()
        self._pause = self.seconds_between
        if self._path is not None and (self._path.is_dir() or not self._path.parent.is_dir()):  # known before any work
            raise FileNotFoundError(
                f"{self._where}: must be a file in a folder that exists, got {self._path}; make the folder first"
            )

    def load(self, learner: Any) -> Any:
        """The learner that was kept, None if none was; one of other settings is refused."""
        if self._path is None or not self._path.exists():
            return None
        try:
            kept = load(self._path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{self._where}: no work can go on from it: {error}; to start over, remove the file"
            ) from error
        if not is_same_fit(kept, learner):
            raise ValueError(
                f"{self._where}: {self._path} comes from other settings; remove it, or choose another name"
            )
        return kept

    def check_batches(self, kept: str, given: str) -> None:
        """Refuse to go on with other batches than those of the learner that was kept."""
        if kept != given:
            raise ValueError(
                f"{self._where}: {self._path} comes from other batches; give those of the first run, or remove it"
            )

    def keep(self, learner: Any) -> None:
        """Write the learner."""
        if self._path is not None:
            save(learner, self._path, updatable=True)
            self._written = monotonic()

    def keep_now_and_then(self, learner: Any) -> None:
        """Write the learner if the last time is long ago."""
        start = monotonic()
        if start - self._written > self._pause:
            self.keep(learner)
            self._pause = max(self.seconds_between, 20 * (self._written - start))

    def remove(self) -> None:
        """Remove the file, when all is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def is_same_fit(kept: Any, learner: Any) -> bool:
    """Whether a learner that was kept is of the class and the settings of another."""
    return type(kept) is type(learner) and settings_of(kept) == settings_of(learner)


def settings_of(learner: Any) -> dict[str, str]:
    """Parameters as text, without ``n_jobs``, which changes no result, and without states of generators, which move."""

    def text(value: Any) -> str:
        if isinstance(value, np.random.RandomState) or hasattr(value, "get_params"):
            value = type(value)
        return repr(np.asarray(value, object).tolist() if isinstance(value, np.ndarray | tuple) else value)

    given = learner.get_params().items()
    return {name: text(value) for name, value in given if name.rpartition("__")[2] != "n_jobs"}


def fingerprint(described: Any, arrays: Iterable[Array | None]) -> str:
    """Digest of what a fit is made from, which its checkpoint is bound to: anything with a ``repr``, and arrays.

    Examples
    --------
    >>> one, two = np.array([1, 2]), np.array(["a", None], object)
    >>> len(fingerprint("table", [one, None])), fingerprint("table", [one]) == fingerprint("table", [two])
    (64, False)
    """
    seen = hashlib.sha256(repr(described).encode())
    for each in arrays:
        if each is None:
            seen.update(b"none")
            continue
        values = repr(each.tolist()).encode() if each.dtype == object else np.ascontiguousarray(each).tobytes()
        seen.update(f"{each.dtype} {each.shape}\0".encode() + values)
    return seen.hexdigest()
