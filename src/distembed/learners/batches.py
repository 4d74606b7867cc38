"""Learning from more bags than memory holds: some bags choose the settings, and all of them make the linear model.

Two passes over the batches: the first draws a sample of bags, which decides scaling, settings, embedding and random
features; the second adds every bag to the normal equations of ridge regression, whose size depends on the number of
features alone. Without a search one pass is enough: the first bags decide, and all are added. What was added is written
to a checkpoint now and then, and work that was interrupted goes on from there to the same result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..bags import Bags, concat
from ..bags.estimators import check_bags
from ..compute.progress import SILENT, Progress, Stages, stages_of
from .chain import Learner
from .ridge import LinearRidge

__all__ = ["BatchLearner"]

Array = NDArray[Any]
Batch = tuple[Bags, Array, Array, Array | None]  # with weights of bags, and groups if there are any

_SECONDS_BETWEEN = 20.0  # checkpoints, or twenty times as long as one takes


class BatchLearner(Learner):
    """Learners whose linear model is a ridge regression that can be added to."""

    n_batches_seen_: int  # that are part of the model
    _n_bags_done: int  # and their bags
    _n_bags_in_all: int | None  # as far as is known

    # What a subclass says

    def _settle_targets(self, y: Array) -> None:
        """Look at targets, of all bags if they were all looked at, or at all classes: which classes there are."""

    def _distinct_targets(self, y: Array) -> Array:
        """What to remember of the targets of a batch until they are settled."""
        return y[:0]

    def _columns(self, y: Array) -> Array:
        """Targets as columns of numbers."""
        raise NotImplementedError

    def _check_batches(self) -> None:
        """Refuse a model that can't be added to."""

    # Batches

    def fit_batches(
        self,
        make_iterator: Callable[..., Iterable[Any]],
        *,
        classes: Any = None,
        checkpoint: str | Path | None = None,
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
        progress : bool, callable or object, default=False
            Whether to show on standard error how far the passes and the search are. A callable is called as
            ``progress(done, total)``, stage by stage: bags looked at, settings looked at, bags learned from. Where the
            total is not known, it is what is done. An object with ``begin(stage, total)``, where total may be None, and
            ``advance(more)`` is told of all stages by name.

        Returns
        -------
        self

        Notes
        -----
        Two passes, or one with ``tune=None``. ``max_search_bags`` bags, drawn evenly from all (with ``tune=None``: the
        first ones), decide scaling, settings, embedding and sigma. If an iterator raises, the model is that of the
        batches before.
        """
        with stages_of(progress, f"{type(self).__name__}.fit_batches") as stages:
            return self._fit_batches(make_iterator, classes, checkpoint, stages)

    def _fit_batches(
        self, make_iterator: Callable[..., Iterable[Any]], classes: Any, checkpoint: str | Path | None, stages: Stages
    ) -> Self:
        self._check_batches()
        self._check_parameters()
        where = f"{type(self).__name__}.fit_batches"
        if not callable(make_iterator):
            raise TypeError(
                f"{where}(make_iterator=...): must be a callable that returns an iterator, got "
                f"{type(make_iterator).__name__}; pass a function, e.g. lambda: iter(batches)"
            )
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None and (path.is_dir() or not path.parent.is_dir()):  # known now, not after the first pass
            raise FileNotFoundError(
                f"{where}(checkpoint=...): must be a file in a folder that exists, got {path}; make the folder first"
            )
        if path is not None and path.exists():
            self._go_on_from(path)
            n_bags = self._n_bags_in_all
        else:
            rng = check_random_state(self.random_state)
            stages.begin("looking at all bags" if self.tune is not None else "looking at the first bags", None)
            sample, distinct, n_bags = self._sample(make_iterator, rng, stages)
            self._n_bags_in_all, self.n_batches_seen_, self._n_bags_done = n_bags, 0, 0
            self._settle_targets(distinct if classes is None else np.asarray(classes))
            self._prepare(sample, rng, stages)
            if path is not None:
                self._keep(path)
        stages.begin("learning", n_bags)
        if self._n_bags_done:
            stages.advance(self._n_bags_done)
        self._add_all(make_iterator, path, stages)
        if self._n_bags_done != (n_bags or self._n_bags_done or 1):
            raise ValueError(
                f"{where}: make_iterator() gave {n_bags or 'some'} bags in the first pass, and {self._n_bags_done} in "
                "the second; it must return a new iterator over the same batches at every call"
            )
        stages.begin("solving", None)
        start = perf_counter()
        self.model_.coef_  # noqa: B018 - solves, so that a failure is known now
        self.timings_["linear model"] += perf_counter() - start
        del self._n_bags_in_all
        if path is not None:
            path.unlink(missing_ok=True)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Self:
        """Add bags that have arrived; the first call decides scaling, settings, embedding and sigma.

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
        bags, targets, weight, _ = self._checked((X, y, sample_weight), reset=first)
        if first:
            self._check_parameters()
            if not weight.any():
                raise ValueError(f"{type(self).__name__}.partial_fit: all bags have weight zero; leave them out")
            self.n_batches_seen_ = 0
            self._settle_targets(targets if classes is None else np.asarray(classes))
            self._prepare((bags, targets, weight, None), check_random_state(self.random_state))
        self._add(bags, targets, weight)
        return self

    def _checked(self, batch: Any, reset: bool = False) -> Batch:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3, 4):
            raise TypeError(
                f"{type(self).__name__}.fit_batches: a batch must be (bags, y), (bags, y, sample_weight) or (bags, "
                f"y, sample_weight, groups), got {type(batch).__name__}; let make_iterator() yield tuples"
            )
        bags = check_bags(self, batch[0], reset=reset)
        y = self._batch_targets(batch[1], bags.n_bags)
        weight = self._weights(batch[2] if len(batch) > 2 else None, bags.n_bags, may_vanish=True)
        groups = batch[3] if len(batch) > 3 else None
        return bags, y, weight, None if groups is None else self._group_labels(groups, bags.n_bags).astype(object)

    def _sample(
        self, make_iterator: Callable[..., Iterable[Any]], rng: np.random.RandomState, stages: Stages
    ) -> tuple[Batch, Array, int | None]:
        """Bags that decide, targets to settle, and the number of bags in all (None if not all were looked at)."""
        kept: list[Batch] = []
        distinct: list[Array] = []
        keys, n_bags, most = np.empty(0), 0, self.max_search_bags
        for batch in make_iterator():
            bags, y, weight, groups = self._checked(batch, reset=n_bags == 0)
            if kept and y.shape[1:] != kept[0][1].shape[1:]:
                raise ValueError(
                    f"{type(self).__name__}.fit_batches: y must have the same outputs in all batches, got shape "
                    f"{y.shape} after {kept[0][1].shape}; pass the same columns every time"
                )
            if kept and (groups is None) != (kept[0][3] is None):
                raise ValueError(
                    f"{type(self).__name__}.fit_batches: groups must be given in all batches or in none, got some "
                    f"batches with and some without; give every bag a group"
                )
            n_bags += bags.n_bags
            stages.advance(bags.n_bags)
            distinct = [np.concatenate([*distinct, self._distinct_targets(y[weight > 0])])]
            drawn = np.full(bags.n_bags, -1.0) if self.tune is None else rng.uniform(size=bags.n_bags)
            drawn[weight == 0] = np.inf
            keys = np.concatenate([keys, drawn])
            kept.append((_bare(bags), y, weight, groups))
            if len(keys) > 2 * most or self.tune is None:
                kept, keys = _smallest(kept, keys, most)
                if self.tune is None and len(keys) == most:
                    break
        if not n_bags:
            raise ValueError(
                f"{type(self).__name__}.fit_batches: make_iterator() gave no batches; it must return a new iterator at "
                "every call"
            )
        kept, keys = _smallest(kept, keys, most)
        if not len(keys):
            raise ValueError(f"{type(self).__name__}.fit_batches: all bags have weight zero; leave sample_weight out")
        return kept[0], distinct[0], None if self.tune is None else n_bags

    def _prepare(self, sample: Batch, rng: np.random.RandomState, stages: Stages = SILENT) -> None:
        """Decide all stages but the linear model."""
        bags, y, weight, groups = sample
        there = weight > 0
        bags, y, weight, groups = bags[there], y[there], weight[there], None if groups is None else groups[there]
        if groups is not None and self.tune is not None:
            self._check_groups(groups)
            groups = np.unique(groups, return_inverse=True)[1]
        self.timings_: dict[str, float] = {}
        start = perf_counter()
        drawn = np.random.RandomState(rng.randint(2**31))  # what the model draws, however the search goes
        stages.begin("scaling points", None)
        self.scaler_ = self._scaler().fit(bags) if self._wants_scaling() else None
        scaled = bags if self.scaler_ is None else self.scaler_.transform(bags)
        start = self._took("scaling", start)
        columns = self._columns(y).reshape(len(y), -1)
        self._choose(scaled, y if y.ndim == 1 else y[:, 0], columns, weight, groups, rng, stages)
        start = self._took("search", start)
        stages.begin("fitting the embedding", None)
        self._fit_features(scaled, drawn)
        self._took("fitting the embedding", start)
        self.model_ = LinearRidge(self._penalty, solver="primal")

    def _add_all(self, make_iterator: Callable[..., Iterable[Any]], path: Path | None, stages: Stages) -> None:
        written, pause = monotonic(), _SECONDS_BETWEEN
        for batch in _from(make_iterator, self.n_batches_seen_):
            bags, y, weight, _ = self._checked(batch)
            self._add(bags, y, weight)
            self.n_batches_seen_ += 1
            self._n_bags_done += bags.n_bags
            stages.advance(bags.n_bags)
            if path is not None and monotonic() - written > pause:
                start = monotonic()
                self._keep(path)
                written = monotonic()
                pause = max(_SECONDS_BETWEEN, 20 * (written - start))

    def _add(self, bags: Bags, y: Array, weight: Array) -> None:
        there = weight > 0
        if not there.any():
            return
        if not there.all():
            bags, y, weight = bags[there], y[there], weight[there]
        columns = self._columns(y)
        scaled = bags if self.scaler_ is None else self.scaler_.transform(bags)
        seconds = self._seconds = {"embedding": 0.0, "random features": 0.0}
        start = perf_counter()
        for Z, rows in self._pieces(scaled):
            self.model_.partial_fit(Z, columns[rows], sample_weight=weight[rows])
        del self._seconds
        seconds["linear model"] = perf_counter() - start - sum(seconds.values())
        for stage, took in seconds.items():
            self.timings_[stage] = self.timings_.get(stage, 0.0) + took

    # Checkpoints

    def _keep(self, path: Path) -> None:
        from ..files import save

        save(self, path)

    def _go_on_from(self, path: Path) -> None:
        from ..files import ModelFileError, load

        try:
            kept = load(path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{type(self).__name__}.fit_batches(checkpoint=...): no work can go on from it: {error}; to start "
                "anew, remove the file"
            ) from error
        if type(kept) is not type(self) or _settings(kept) != _settings(self):
            raise ValueError(
                f"{type(self).__name__}.fit_batches(checkpoint=...): {path} comes from other settings; remove it, or "
                "choose another name"
            )
        del self._base
        own = self.get_params(deep=False)
        self.__dict__.update(vars(kept) | own)


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


def _bare(bags: Bags) -> Bags:
    """Bags without ids, so that batches of any ids can be joined."""
    return bags.replace(ids=None)


def _smallest(kept: list[Batch], keys: Array, most: int) -> tuple[list[Batch], Array]:
    """The bags of the smallest keys, in their order, as one batch; those of infinite keys never."""
    order = np.argsort(keys, kind="stable")[:most]
    chosen = np.sort(order[np.isfinite(keys[order])])
    if not len(chosen):
        return [], keys[:0]
    bags = concat([batch[0] for batch in kept]) if len(kept) > 1 else kept[0][0]
    y, weight = (np.concatenate([batch[i] for batch in kept]) for i in (1, 2))
    known = [batch[3] for batch in kept if batch[3] is not None]
    groups = np.concatenate(known)[chosen] if known else None
    return [(bags[chosen], y[chosen], weight[chosen], groups)], keys[chosen]


def _from(make_iterator: Callable[..., Iterable[Any]], n: int) -> Iterator[Any]:
    """Batches from number n on."""
    can_start = False
    with suppress(TypeError, ValueError):  # some callables have no signature
        can_start = "start" in inspect.signature(make_iterator).parameters
    if n and can_start:
        yield from make_iterator(start=n)
        return
    for number, batch in enumerate(make_iterator()):
        if number >= n:
            yield batch
