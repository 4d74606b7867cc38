"""Batches of bags: a sample of them, and checkpoints between them.

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
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from ..bags import concat
from ..bags.estimators import by_id, check_weights
from ..compute.arrays import Array
from ..compute.progress import SILENT, Progress, Stages, stages_of
from ..files import ModelFileError, load, save
from .chain import Batch, Clock
from .learner import Learner
from .ridge import LinearRidge

_SECONDS_BETWEEN = 20.0  # checkpoints, or twenty times as long as one takes


def batch_parts(batch: Any, where: str) -> Sequence[Any]:
    """What ``make_iterator()`` yielded: bags, targets, and maybe weights and groups."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3, 4):
        raise TypeError(
            f"{where}: a batch must be (bags, y), (bags, y, sample_weight) or (bags, y, sample_weight, groups), got "
            f"{type(batch).__name__}; let make_iterator() yield tuples"
        )
    return batch


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
    bags, y, weight, groups, _ = zip(*kept, strict=True)
    labels = None if groups[0] is None else np.concatenate([each.astype(object) for each in groups])  # of any types
    joined = Batch(concat(bags) if len(bags) > 1 else bags[0], np.concatenate(y), np.concatenate(weight), labels)
    return [joined.take(chosen)], keys[chosen]


def batches_from(make_iterator: Callable[..., Iterable[Any]], n: int) -> Iterator[Any]:
    """Batches from number n on; a ``make_iterator`` with a parameter ``start`` leaves the others out itself.

    Examples
    --------
    >>> list(batches_from(lambda: iter("abc"), 1)), list(batches_from(lambda start=0: iter("abc"[start:]), 2))
    (['b', 'c'], ['c'])
    """
    with suppress(TypeError, ValueError):  # some callables have no signature
        if n and "start" in inspect.signature(make_iterator).parameters:
            make_iterator, n = partial(make_iterator, start=n), 0
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

    def text(value: Any) -> str:
        if isinstance(value, np.random.RandomState) or hasattr(value, "get_params"):
            value = type(value)
        return repr(np.asarray(value, object).tolist() if isinstance(value, np.ndarray | tuple) else value)

    given = learner.get_params().items()
    return {name: text(value) for name, value in given if name.rpartition("__")[2] != "n_jobs"}


class BatchLearner(Learner):
    """A learner of bags that come in batches, again at every pass (``fit_batches``) or as they arrive."""

    _n_bags_seen: int  # in the batches that are part of the model
    _n_bags_in_all: int | None  # as far as is known before the last batch

    def _score(self, metric: Any, X: Any, y: Any, sample_weight: Any, covariates: Any) -> float:
        """A metric of predictions."""
        weight = by_id(sample_weight, X, "sample_weight")
        if weight is not None:
            weight = check_weights(self, weight, len(X))
        return float(metric(by_id(y, X, "y"), self.predict(X, covariates), sample_weight=weight))

    def fit_batches(
        self,
        make_iterator: Callable[..., Iterable[Any]],
        *,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        keep_checkpoint: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Fit to batches of bags, in memory that does not grow with their number.

        Parameters
        ----------
        make_iterator : callable
            Called once for every pass, returns an iterator over batches ``(bags, y)``, ``(bags, y, sample_weight)`` or
            ``(bags, y, sample_weight, groups)``, of one bag at least, the same ones in the same order every time.
            ``sample_weight`` may be None. Bags of one group, in whatever batches, are held out together. If it has a
            parameter ``start``, it is called with the number of batches to leave out when interrupted work goes on.
        classes : array-like of shape (n_classes,), optional
            All classes, for classifiers with ``tune=None``, which can't know them before the end.
        checkpoint : path, optional
            Where to keep what has been done. If the file is there, work goes on from it; it must come from the same
            settings. It is removed at the end.
        keep_checkpoint : bool, default=False
            Leave it there at the end, with all batches in it, to be removed when the model itself is in a file.
        progress : bool, callable or object, default=False
            As in ``fit``; bags that were looked at come first. A callable gets what is done where no total is known.

        Returns
        -------
        self

        Notes
        -----
        Two passes, or one with ``tune=None``. ``max_search_bags`` bags, drawn evenly (with ``tune=None``: the first),
        decide scaling, settings, embedding and sigma. If an iterator raises, the model is that of the batches before.

        Of ``"auto"`` they decide candidates, their settings and their weights. Members with kernels then learn from all
        batches, by ridge regression on at most 2,000 features each, with the calibration that the sample gave for
        classes; trees keep what they learned from the sample.
        """
        self._check_batches()
        self._check_parameters()
        where = f"{type(self).__name__}.fit_batches"
        if not callable(make_iterator):
            raise TypeError(
                f"{where}(make_iterator=...): must be a callable that returns an iterator, got "
                f"{type(make_iterator).__name__}; pass a function, e.g. lambda: iter(batches)"
            )
        file = Checkpoint(checkpoint, where)
        with stages_of(progress, where) as stages:
            kept = file.load(self)
            if kept is not None:
                self.__dict__.update(vars(kept) | self.get_params(deep=False))
            else:
                self._begin_batches(make_iterator, classes, stages)
                file.keep(self)
            self._add_batches(make_iterator, file, stages)
            if keep_checkpoint:
                file.keep(self)
            stages.begin("solving", None)
            clock = Clock(self.timings_)
            self.model_.solve()
            clock.lap("linear model")
        if not keep_checkpoint:
            file.remove()
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Self:
        """Add bags that have arrived; the first call decides all settings, as the sample of ``fit_batches`` does.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags, of the same width in all calls.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        classes : array-like of shape (n_classes,), optional
            All classes, if the first bags do not have all of them. Used by classifiers in the first call.

        Returns
        -------
        self
        """
        self._check_batches()
        first = not hasattr(self, "model_")
        batch = self._checked(X, y, sample_weight, reset=first, may_vanish=True)
        if first:
            self._check_parameters()
            if not batch.weight.any():
                raise ValueError(f"{type(self).__name__}.partial_fit: all bags have weight zero; leave them out")
            self._settle_targets(batch.y if classes is None else np.asarray(classes))
            self._begin(batch.counted(), check_random_state(self.random_state), SILENT)
        self._add(batch)
        return self

    def _check_batches(self) -> None:
        """Refuse a linear model that can't be added to."""
        if isinstance(self.n_components, str):
            raise ValueError(
                f"{type(self).__name__}(n_components={self.n_components!r}): needs all bags at once; use "
                "n_components=5000 for batches"
            )

    def _begin_batches(self, make_iterator: Callable[..., Iterable[Any]], classes: Any, stages: Stages) -> None:
        """Look at the batches, and fit all stages but the linear model to a sample of them."""
        self.encoder_ = None  # batches have no covariates
        rng, where = check_random_state(self.random_state), f"{type(self).__name__}.fit_batches"
        stages.begin("looking at all bags" if self.tune is not None else "looking at the first bags", None)
        n_bags, labels = 0, list[Array]()

        def all_batches() -> Iterator[Batch]:
            nonlocal n_bags, labels
            for given in make_iterator():
                batch = self._checked(*batch_parts(given, where), reset=n_bags == 0, may_vanish=True)
                n_bags += batch.bags.n_bags
                stages.advance(batch.bags.n_bags)
                if self.has_classes:
                    labels = [np.unique(np.concatenate([*labels, batch.y[batch.weight > 0]]))]
                yield batch

        sample = draw_sample(all_batches(), self.max_search_bags, None if self.tune is None else rng, where)
        self._n_bags_in_all = None if self.tune is None else n_bags
        if self.has_classes:
            self._settle_targets(labels[0] if classes is None else np.asarray(classes))
        self._begin(sample, rng, stages)

    def _begin(self, sample: Batch, rng: np.random.RandomState, stages: Stages) -> None:
        """Fit all stages but the linear model, which has seen nothing yet."""
        self._fit_chain(self._weighted(sample._replace(y=self._coded(sample.y)), reset=True), rng, stages)
        self.model_ = LinearRidge(self._penalty, solver="primal")
        self.n_batches_seen_, self._n_bags_seen = 0, 0

    def _add_batches(self, make_iterator: Callable[..., Iterable[Any]], file: Checkpoint, stages: Stages) -> None:
        """Add all batches that are not part of the model yet."""
        expected, where = self._n_bags_in_all, f"{type(self).__name__}.fit_batches"
        stages.begin("learning", expected)
        if self._n_bags_seen:
            stages.advance(self._n_bags_seen)
        for given in batches_from(make_iterator, self.n_batches_seen_):
            batch = self._checked(*batch_parts(given, where), may_vanish=True)
            self._add(batch)
            stages.advance(batch.bags.n_bags)
            file.keep_now_and_then(self)
        if self._n_bags_seen != (expected or self._n_bags_seen or 1):
            raise ValueError(
                f"{where}: make_iterator() gave {expected or 'some'} bags in the first pass, and {self._n_bags_seen} "
                "in the second; it must return a new iterator over the same batches at every call"
            )

    def _add(self, batch: Batch) -> None:
        """Add one batch to the linear model."""
        if batch.weight.any():
            counted = batch.counted()
            self._learn_more(self._weighted(counted._replace(y=self._coded(counted.y))))
        self.n_batches_seen_ = getattr(self, "n_batches_seen_", 0) + 1  # none after fit
        self._n_bags_seen = getattr(self, "_n_bags_seen", 0) + batch.bags.n_bags

    def _learn_more(self, batch: Batch) -> None:
        """Add coded targets, with weights of classes, to the linear model."""
        chain, clock = self.chain_, Clock(self.timings_)
        columns, scaled = self._columns(batch.y), chain.scale(batch.bags)
        clock.lap("scaling")
        for Z, rows in chain.pieces(scaled, clock):
            self.model_.partial_fit(Z, columns[rows], sample_weight=batch.weight[rows])
        self._learned_from(scaled, batch)
        clock.lap("linear model")
