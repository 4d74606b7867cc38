"""Bags with targets and weights: checks, subsets and folds, batches, a sample of them, checkpoints between them.

Learning from more bags than memory holds takes two passes over the batches: the first draws a sample of bags, which
decides scaling, settings, embedding and random features; the second adds every bag to the normal equations of ridge
regression, whose size depends on the number of features alone. Without a search one pass is enough: the first bags
decide, and all are added. What was added is written to a checkpoint now and then, and work that was interrupted goes on
from there to the same result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from sklearn import model_selection
from sklearn.utils.multiclass import check_classification_targets

from ..bags import Bags, concat
from ..compute.arrays import Array
from ..compute.checks import check_number
from ..files import ModelFileError, load, save

__all__ = [
    "Batch",
    "Checkpoint",
    "batch_parts",
    "batches_from",
    "check_classes",
    "check_numbers",
    "check_scales",
    "check_weights",
    "draw_sample",
    "folds_of",
    "n_folds",
    "subset",
]


FEW_BAGS = 200  # a tenth of fewer says nothing
_SECONDS_BETWEEN = 20.0  # checkpoints, or twenty times as long as one takes


class Batch(NamedTuple):
    """Bags, targets, weights of bags, and groups if there are any."""

    bags: Bags
    y: Array
    weight: Array
    groups: Array | None = None

    @classmethod
    def checked(
        cls, owner: object, bags: Bags, y: Array, weight: Any = None, groups: Any = None, may_vanish: bool = False
    ) -> Batch:
        """Check weights and groups as the user gave them, in the name of an owner."""
        labels = None if groups is None else np.asarray(groups)
        if labels is not None and labels.shape != (bags.n_bags,):
            raise ValueError(
                f"{type(owner).__name__}: groups must be one label a bag, got shape {labels.shape} for {bags.n_bags} "
                "bags; pass them in the order of the bags"
            )
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
        groups = None if self.groups is None else self.groups[some]
        return Batch(self.bags[some], self.y[some], self.weight[some], groups)

    def counted(self) -> Batch:
        """Without the bags of weight zero, which are as if absent; some must be left."""
        there = self.weight > 0
        return self if there.all() else self.take(there)


def batch_parts(batch: Any, where: str) -> Sequence[Any]:
    """What ``make_iterator()`` yielded: bags, targets, and maybe weights and groups."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3, 4):
        raise TypeError(
            f"{where}: a batch must be (bags, y), (bags, y, sample_weight) or (bags, y, sample_weight, groups), got "
            f"{type(batch).__name__}; let make_iterator() yield tuples"
        )
    return batch


def check_numbers(owner: object, y: Any, n_bags: int, other: str) -> Array:
    """Targets of regression: finite numbers, one or one row for each bag; ``other`` is the class for classes."""
    name, given = type(owner).__name__, np.asarray(y)
    try:
        if given.dtype.kind in "cMmSU" or any(isinstance(value, str) for value in given.ravel()[:1]):
            raise TypeError
        targets = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: y must be numbers, got {type(y).__name__} that are not; use {other} for classes"
        ) from None
    if targets.ndim not in (1, 2) or len(targets) != n_bags:
        raise ValueError(
            f"{name}: y must be one number, or one row, a bag, got shape {targets.shape} for {n_bags} bags; "
            "bags.align(series) puts targets in the order of the bags"
        )
    if not np.all(np.isfinite(targets)):
        i = int(np.argwhere(~np.isfinite(targets))[0][0])
        raise ValueError(f"{name}: y must be finite, got {targets[i]} for bag {i}; leave such bags out")
    return targets


def check_classes(owner: object, y: Any, n_bags: int, other: str) -> Array:
    """Targets of classification: one class for each bag; ``other`` is the class for numbers."""
    name, labels = type(owner).__name__, np.asarray(y)
    if labels.shape != (n_bags,):
        raise ValueError(
            f"{name}: y must be one class a bag, got shape {labels.shape} for {n_bags} bags; bags.align(series) puts "
            "classes in the order of the bags"
        )
    try:
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            raise ValueError("some are not finite")
        check_classification_targets(labels)
        np.unique(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: y must be classes, all text or all whole numbers, none missing, got others ({error}); leave bags "
            f"without a class out, and use {other} for numbers"
        ) from None
    return labels


def check_weights(owner: object, sample_weight: Any, n: int, *, may_vanish: bool = False, unit: str = "bag") -> Array:
    """Weights of bags, or of other units, ones by default; all of them may be zero only where that is said."""
    if sample_weight is None:
        return np.ones(n)
    name = type(owner).__name__
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: sample_weight must be numbers, got {type(sample_weight).__name__} that are not; pass one number "
            f"a {unit}"
        ) from None
    rule = f"{name}: sample_weight must be one finite number >= 0 a {unit}{'' if may_vanish else ', not all zero'}"
    if weight.shape != (n,):
        raise ValueError(
            f"{rule}, got shape {weight.shape} for {n} {unit}s; weights of points belong into Bags(weights=...)"
        )
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong) or not (may_vanish or weight.any()):
        got = f"{weight[wrong[0]]} for {unit} {wrong[0]}" if len(wrong) else "zeros alone"
        raise ValueError(f"{rule}, got {got}; leave such {unit}s out, or give them the weight zero")
    return weight


def check_scales(owner: object, name: str, values: Any) -> None:
    """Refuse what is no sequence of positive numbers."""
    if isinstance(values, str) or np.ndim(values) != 1 or not len(values):
        raise TypeError(
            f"{type(owner).__name__}({name}=...): must be a sequence of positive numbers, got {values!r}; write "
            f"({values!r},) for one"
        )
    for value in values:
        check_number(owner, name, value, low=0, inclusive="neither")


def subset(n_bags: int, most: int, groups: Array | None, rng: np.random.RandomState) -> Array:
    """Positions of at most so many bags, in increasing order.

    Whole groups if there are any, or, where fewer than three would fit, some bags of each.
    """
    if n_bags <= most:
        return np.arange(n_bags)
    if groups is None:
        return np.sort(rng.choice(n_bags, most, replace=False))
    names, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    n_whole = int(np.searchsorted(np.cumsum(sizes[order]), most, side="right"))
    if n_whole >= 3:
        return np.flatnonzero(np.isin(number, order[:n_whole]))
    drawn = rng.permutation(n_bags)
    firsts = drawn[np.unique(number[drawn], return_index=True)[1]][order][: most // 2]  # a bag of each group
    return np.sort(np.concatenate([firsts, drawn[~np.isin(drawn, firsts)]])[:most])


def n_folds(tune: str | int, n_bags: int, groups: Array | None) -> str | int:
    """How a learner's ``tune`` splits so many bags: ``"holdout"``, or a number of folds.

    Examples
    --------
    >>> n_folds("holdout", 500, None), n_folds("holdout", 50, None), n_folds(3, 50, np.repeat([0, 1], 25))
    ('holdout', 5, 2)
    """
    if tune == "holdout" and n_bags >= FEW_BAGS:
        return "holdout"
    n = n_bags if groups is None else len(np.unique(groups))
    return min(5 if tune == "holdout" else int(tune), n)


def folds_of(
    how: str | int,
    y: Array,
    groups: Array | None,
    classes: bool,
    rng: np.random.RandomState,
    share: float = 0.1,
) -> list[tuple[Array, Array]]:
    """Training and held-out positions: a share held out, or so many folds; groups stay together."""
    seed, n = int(rng.randint(2**31)), len(y)
    strata = bool(classes and np.min(np.unique(y, return_counts=True)[1]) >= (2 if how == "holdout" else how))
    if how == "holdout":
        share = max(share, 1 / n)
        if groups is not None:
            splitter: Any = model_selection.GroupShuffleSplit(1, test_size=share, random_state=seed)
        else:
            n_classes = len(np.unique(y)) if strata else 0
            strata = strata and n * share >= n_classes and n - n * share >= n_classes
            splitter = (model_selection.StratifiedShuffleSplit if strata else model_selection.ShuffleSplit)(
                1, test_size=share, random_state=seed
            )
    elif groups is not None:
        splitter = model_selection.StratifiedGroupKFold(how) if strata else model_selection.GroupKFold(how)
    else:
        splitter = (model_selection.StratifiedKFold if strata else model_selection.KFold)(
            how, shuffle=True, random_state=seed
        )
    return [(train, held) for train, held in splitter.split(np.zeros(n), y, groups)]


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
    if (other.groups is None) != (first.groups is None):
        raise ValueError(
            f"{where}: groups must be given in all batches or in none, got some batches with and some without; give "
            "every bag a group"
        )


def _smallest(kept: list[Batch], keys: Array, most: int) -> tuple[list[Batch], Array]:
    """The bags of the smallest keys, in their order, as one batch; those of infinite keys never."""
    order = np.argsort(keys, kind="stable")[:most]
    chosen = np.sort(order[np.isfinite(keys[order])])
    if not len(chosen):
        return [], keys[:0]
    bags, y, weight, groups = zip(*kept, strict=True)
    known = [labels.astype(object) for labels in groups if labels is not None]  # of any types
    joined = Batch(
        concat(bags) if len(bags) > 1 else bags[0],
        np.concatenate(y),
        np.concatenate(weight),
        np.concatenate(known) if known else None,
    )
    return [joined.take(chosen)], keys[chosen]


def batches_from(make_iterator: Callable[..., Iterable[Any]], n: int) -> Iterator[Any]:
    """Batches from number n on; a ``make_iterator`` with a parameter ``start`` leaves the others out itself.

    Examples
    --------
    >>> list(batches_from(lambda: iter("abc"), 1)), list(batches_from(lambda start=0: iter("abc"[start:]), 2))
    (['b', 'c'], ['c'])
    """
    can_start = False
    with suppress(TypeError, ValueError):  # some callables have no signature
        can_start = "start" in inspect.signature(make_iterator).parameters
    if n and can_start:
        yield from make_iterator(start=n)
        return
    for number, batch in enumerate(make_iterator()):
        if number >= n:
            yield batch


class Checkpoint:
    """A file that keeps a learner between batches, or none.

    Parameters
    ----------
    path : path or None
        The file; None: nothing is kept.
    where : str
        What errors begin with.
    """

    def __init__(self, path: str | Path | None, where: str) -> None:
        self._path = None if path is None else Path(path)
        self._where = f"{where}(checkpoint=...)"
        self._written, self._pause = monotonic(), _SECONDS_BETWEEN
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
                f"{self._where}: no work can go on from it: {error}; to start anew, remove the file"
            ) from error
        if type(kept) is not type(learner) or _settings(kept) != _settings(learner):
            raise ValueError(
                f"{self._where}: {self._path} comes from other settings; remove it, or choose another name"
            )
        return kept

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
            self._pause = max(_SECONDS_BETWEEN, 20 * (self._written - start))

    def remove(self) -> None:
        """Remove the file, when all is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _settings(learner: Any) -> dict[str, str]:
    """Parameters as text, without ``n_jobs``, which changes no result, and without states of generators, which move."""
    found = {}
    for name, value in learner.get_params().items():
        if isinstance(value, np.random.RandomState) or hasattr(value, "get_params"):
            value = type(value)
        if isinstance(value, np.ndarray | tuple):
            value = np.asarray(value, object).tolist()
        found[name] = repr(value)
    return {name: text for name, text in found.items() if name.rpartition("__")[2] != "n_jobs"}
