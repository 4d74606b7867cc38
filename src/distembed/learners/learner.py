"""What regression and classification of bags share: scaling, the search for settings, features, and a linear model.

:class:`Learner` makes one chain of fitted stages, whichever way bags come: all at once (``fit``), in batches
(``fit_batches``), as they arrive (``partial_fit``); ``refit`` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagInput, check_bags
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number
from ..compute.progress import SILENT, Progress, Stages, stages_of
from .batches import Checkpoint, batch_parts, batches_from, draw_sample
from .chain import Batch, Chain, Clock, check_components, check_numbers, check_scales, new_stages, widened, width_name
from .explain import Explanation, explain
from .ridge import LinearRidge, fit_ridge
from .search import ALPHAS, BANDWIDTH_SCALES, SIGMA_SCALES, Search, judging_components, only, search

DEFAULT_ALPHA = 0.1


class Learner(BagInput):
    """Base of ``DistributionRegressor`` and ``DistributionClassifier``.

    Targets are numbers here; for classes a subclass has other methods of the first group.
    """

    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}  # no data that a pipeline would pass on

    takes_categories = True
    has_classes = False

    model_: Any
    search_: Search | None
    best_params_: dict[str, Any]
    _n_bags_seen: int  # in the batches that are part of the model
    _n_bags_in_all: int | None  # as far as is known before the last batch
    _penalty: float  # of the linear model: alpha in the units of its features

    def __init__(
        self,
        embedding: Any = "js",
        *,
        scale: Any = "auto",
        n_components: int | None = 5000,
        tune: str | int | None = 3,
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.embedding = embedding
        self.scale = scale
        self.n_components = n_components
        self.tune = tune
        self.bandwidth_scales = bandwidth_scales
        self.sigma_scales = sigma_scales
        self.alphas = alphas
        self.exhaustive = exhaustive
        self.max_search_bags = max_search_bags
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs

    # Targets, and the linear model

    def _check_targets(self, y: Any, n_bags: int) -> Array:
        """Targets, checked, before it is known which classes there are."""
        return check_numbers(self, y, n_bags, "DistributionClassifier")

    def _settle_targets(self, y: Array) -> None:
        """Look at the targets of all bags, or at all classes: which classes there are."""

    def _coded(self, y: Array) -> Array:
        """Targets as the linear model takes them, when classes are settled."""
        return y

    def _columns(self, coded: Array) -> Array:
        """The same as numbers: a column for each class."""
        return coded

    def _check_refit(self, y: Array) -> None:
        """Refuse targets that need another fit."""

    def _weighted(self, batch: Batch, reset: bool = False) -> Batch:
        """Bags of coded targets, with the weights by which they are learned from."""
        return batch

    def _check_batches(self) -> None:
        """Refuse a linear model that can't be added to."""

    def _fit_model(self, rows: Iterator[tuple[Array, slice]], coded: Array, weight: Array, penalty: float) -> Any:
        """A linear model, fitted to rows of features that come in pieces."""
        return fit_ridge(penalty, rows, self._columns(coded), weight)

    # All bags at once

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, progress: Progress = False) -> Self:
        """Choose the settings, and fit all stages.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags, in any units if points are scaled.
        y : array-like of shape (n_bags,) or, in regression, (n_bags, n_outputs)
            Finite numbers, or classes: text, numbers or truth values.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        groups : array-like of shape (n_bags,), optional
            Bags of one group are held out together.
        progress : bool, callable or object, default=False
            Whether to show on standard error how far it is. A callable is called as ``progress(done, total)``, stage by
            stage. An object with ``begin(stage, total)``, where total may be None, and ``advance(more)`` is told of
            all stages by name.

        Returns
        -------
        self
        """
        batch = self.settled(X, y, sample_weight, groups)
        with stages_of(progress, f"{type(self).__name__}.fit") as stages:
            scaled = self._fit_chain(batch, check_random_state(self.random_state), stages)
            self._learn(scaled, batch, stages)
        return self

    def settled(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Batch:
        """What ``fit`` learns from: parameters and bags checked, classes settled and coded, weights of classes in."""
        self._check_parameters()
        batch = self._checked(X, y, sample_weight, groups, reset=True).counted()
        self._settle_targets(batch.y)
        return self._weighted(batch._replace(y=self._coded(batch.y)), reset=True)

    def refit(self, X: Any, y: Any, sample_weight: Any = None, *, progress: Progress = False) -> Self:
        """Fit the linear model again, to other bags; scaling, settings, embedding and random features stay.

        For more bags, bags that were kept out to judge the model, or other targets. What the model had learned before
        is forgotten; ``partial_fit`` adds to it.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Targets; classes are those of ``fit``.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        progress : bool, callable or object, default=False
            As in ``fit``.

        Returns
        -------
        self

        Examples
        --------
        >>> import distembed as de
        >>> spread = np.random.default_rng(0).uniform(0.5, 2, size=80)
        >>> bags = np.random.default_rng(1).normal(0, spread[:, None, None], size=(80, 50, 1))
        >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags[:40], spread[:40])
        >>> settings = model.best_params_
        >>> model.refit(bags, spread).best_params_ == settings
        True
        """
        chain, batch = self.chain_, self.settled_again(X, y, sample_weight)
        with stages_of(progress, f"{type(self).__name__}.refit") as stages:
            self._learn(chain.scale(batch.bags), batch, stages)
        return self

    def settled_again(self, X: Any, y: Any, sample_weight: Any) -> Batch:
        """What ``refit`` learns from: classes and their weights are those of ``fit``."""
        batch = self._checked(X, y, sample_weight).counted()
        self._check_refit(batch.y)
        return self._weighted(batch._replace(y=self._coded(batch.y)))

    @property
    def chain_(self) -> Chain:
        """The fitted stages before the linear model: ``scaler_``, ``embedding_`` and ``features_``."""
        check_is_fitted(self, "model_")
        return Chain(self.scaler_, self.embedding_, self.features_)

    def transform_features(self, X: Any) -> Array:
        """What the linear model sees of bags, ndarray of shape (n_bags, n_components)."""
        chain = self.chain_
        return np.asarray(chain.apply(np.asarray, check_bags(self, X, reset=False)))

    def explain(self, X: Any, *, output: Any = None) -> Explanation:
        """Which points made the predictions what they are: :func:`distembed.learners.explain.explain` of this model.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        output : optional
            Which of several targets, by its number, or which class, by its name.
        """
        return explain(self, X, output=output)

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
            As in ``fit``; bags that were looked at come first. A callable gets what is done where no total is known.

        Returns
        -------
        self

        Notes
        -----
        Two passes, or one with ``tune=None``. ``max_search_bags`` bags, drawn evenly (with ``tune=None``: the first),
        decide scaling, settings, embedding and sigma. If an iterator raises, the model is that of the batches before.
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
            stages.begin("solving", None)
            clock = Clock(self.timings_)
            self.model_.solve()
            clock.lap("linear model")
        file.remove()
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
        batch = self._checked(X, y, sample_weight, reset=first, may_vanish=True)
        if first:
            self._check_parameters()
            if not batch.weight.any():
                raise ValueError(f"{type(self).__name__}.partial_fit: all bags have weight zero; leave them out")
            self._settle_targets(batch.y if classes is None else np.asarray(classes))
            self._begin(batch.counted(), check_random_state(self.random_state), SILENT)
        self._add(batch)
        return self

    def _begin_batches(self, make_iterator: Callable[..., Iterable[Any]], classes: Any, stages: Stages) -> None:
        """Look at the batches, and fit all stages but the linear model to a sample of them."""
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
            counted, chain, clock = batch.counted(), self.chain_, Clock(self.timings_)
            counted = self._weighted(counted._replace(y=self._coded(counted.y)))
            columns, scaled = self._columns(counted.y), chain.scale(counted.bags)
            clock.lap("scaling")
            for Z, rows in chain.pieces(scaled, clock):
                self.model_.partial_fit(Z, columns[rows], sample_weight=counted.weight[rows])
            clock.lap("linear model")
        self.n_batches_seen_ = getattr(self, "n_batches_seen_", 0) + 1  # none after fit
        self._n_bags_seen = getattr(self, "_n_bags_seen", 0) + batch.bags.n_bags

    # Stages

    def _fit_chain(self, batch: Batch, rng: np.random.RandomState, stages: Stages) -> Bags:
        """Choose the settings, and fit all stages before the linear model; returns the scaled bags."""
        clock, (scaler, embedding) = Clock(), new_stages(self, self.scale, self.embedding)
        drawn = np.random.RandomState(rng.randint(2**31))  # what the model draws, however the search goes
        batch = batch if self.tune is None else batch.numbered(self)
        stages.begin("scaling points", None)
        scaled = batch.bags if scaler is None else scaler.fit(batch.bags).transform(batch.bags)
        clock.lap("scaling")
        for parameter, value in embedding.get_params().items():  # so that the search, too, draws the same again
            kind = parameter.rpartition("__")[2]
            if value is None and kind == "random_state":
                embedding.set_params(**{parameter: int(rng.randint(2**31))})
            if value is None and kind == "n_jobs":
                embedding.set_params(**{parameter: self.n_jobs})
        embedding = self._choose(embedding, batch._replace(bags=scaled), rng, stages)
        clock.lap("search")
        stages.begin("fitting the embedding", None)
        chain, unit = Chain.fit(
            scaler, embedding, scaled, drawn, n_components=self.n_components,
            sigma_scale=self.best_params_["sigma_scale"], n_jobs=self.n_jobs,
        )  # fmt: skip
        self.scaler_, self.embedding_, self.features_ = chain.scaler, chain.embedding, chain.features
        self._penalty = self.best_params_["alpha"] * unit
        clock.lap("fitting the embedding")
        self.timings_ = clock.seconds
        return scaled

    def _choose(self, embedding: Any, batch: Batch, rng: np.random.RandomState, stages: Stages) -> Any:
        """Set ``search_`` and ``best_params_``; returns the embedding that smooths as far as was chosen."""
        bags, groups, linear = batch.bags, batch.groups, self.n_components is None
        has_width = width_name(embedding) is not None
        self.search_ = None
        self.best_params_ = {
            "bandwidth_scale": only(self.bandwidth_scales, 1.0) if has_width else None,
            "sigma_scale": None if linear else only(self.sigma_scales, 1.0),
            "alpha": only(self.alphas, DEFAULT_ALPHA),
        }
        few = bags.n_bags < 5 or (groups is not None and len(np.unique(groups)) < 3)
        if self.tune is not None and not few:
            some = batch.sample(self.max_search_bags, rng)
            n = len(some.y)
            share = min(0.5, 0.1 * bags.n_bags / n)  # a tenth of all bags
            folds = some.folds(self.tune, self.has_classes, rng, share)
            judges = partial(judging_components, int(self.n_components or 0), bags.n_bags)
            self.search_ = search(
                embedding, some.bags, self._columns(some.y).reshape(n, -1), some.weight, folds,
                bandwidth_scales=self.bandwidth_scales, sigma_scales=None if linear else self.sigma_scales,
                alphas=self.alphas, components_for=None if linear else judges, exhaustive=self.exhaustive, rng=rng,
                n_jobs=self.n_jobs, stages=stages,
            )  # fmt: skip
            self.best_params_ = {name: getattr(self.search_.best, name) for name in self.best_params_}
        return widened(embedding, self.best_params_["bandwidth_scale"])

    def _learn(self, scaled: Bags, batch: Batch, stages: Stages) -> None:
        """Fit the linear model to scaled bags and coded targets."""
        chain, clock = Chain(self.scaler_, self.embedding_, self.features_), Clock(self.timings_)

        def rows() -> Iterator[tuple[Array, slice]]:
            stages.begin("learning", scaled.n_bags)
            for Z, some in chain.pieces(scaled, clock):
                yield Z, some
                stages.advance(some.stop - some.start)
            stages.begin("solving", None)

        self.model_ = self._fit_model(rows(), batch.y, batch.weight, self._penalty)
        clock.lap("linear model")

    # Input

    def _checked(
        self, X: Any, y: Any, weight: Any = None, groups: Any = None, *, reset: bool = False, may_vanish: bool = False
    ) -> Batch:
        bags = check_bags(self, X, reset=reset)
        targets = self._check_targets(y, bags.n_bags)
        return Batch.checked(self, bags, targets, weight, groups, may_vanish)

    # Parameters

    def _check_parameters(self) -> None:
        new_stages(self, self.scale, self.embedding)
        check_components(self, self.n_components)
        if isinstance(self.tune, str):
            check_choice(self, "tune", self.tune, ("holdout",))
        elif self.tune is not None:
            remedy = "give a number of folds, 'holdout', or None for no search"
            check_number(self, "tune", self.tune, low=2, high=100, integer=True, remedy=remedy)
        for name in ("bandwidth_scales", "sigma_scales", "alphas", *(["Cs"] if self.has_classes else [])):
            check_scales(self, name, getattr(self, name))
        check_number(self, "max_search_bags", self.max_search_bags, low=10, integer=True)
