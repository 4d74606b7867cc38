"""The base of both learners, with all that regression and classification share.

    fit:      bags, targets -> checked, coded -> candidates, or the search for one member's settings -> model
    predict:  bags -> model: members (view -> rows -> head), weighted -> numbers or probabilities

A fitted learner has a :class:`~distembed.learners.model.Model`, whatever it was asked for. Choosing it is for
:mod:`distembed.learners.selection` and :mod:`distembed.learners.tuning`.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags, as_bags
from ..bags.checks import refuse_empty
from ..bags.estimators import BagInput, by_id, check_bags
from ..bags.flat import few
from ..bags.ids import hash_ids, insert_sorted
from ..compute.arrays import Array
from ..compute.checks import Argument, InputError, Message, check_choice, check_number, check_weights
from ..compute.progress import SILENT, Progress, Stages, stages_of
from ..compute.registry import described
from ..models.folds import n_folds
from ..models.foreign_head import Estimator
from ..models.linear_head import MODELS, LinearHead
from .background import Background
from .batch import Batch, Checkpoint, Clock, batch_parts, batches_from, check_labels, sample_batches
from .candidates import ORDERED, Request
from .classes import as_classes_of, canonical_classes, unify_classes
from .covariates import CovariateColumns, CovariateEncoder, given_ids
from .empty import EmptyBags, drop_empty, refuse_in_batches
from .error_law import ClassLaw, ErrorLaw
from .explain import Explanation, explain
from .holdout import Holdout, choose_test
from .leaderboard import Leaderboard
from .likeness import Likeness, Reference, warn_if_unlike
from .model import Model
from .offers import offered_if, why_no_batches, why_no_features, why_no_likeness, why_no_more_bags
from .search import ALPHAS, BANDWIDTH_SCALES, SIGMA_SCALES, Search
from .selection import choose_members
from .targets import (
    MISSING_CHOICES,
    Classes,
    Numbers,
    check_rare,
    missing_targets,
    tame_wild,
    warn_if_constant,
)
from .tuning import FEWEST_TO_TUNE, tune_member
from .view import EmbeddedBags, EmbeddingLike, new_scaler_and_embedding

# Parameters of the search for the settings of one member, which other requests have no use for.
SEARCH_PARAMETERS = (
    "model", "n_components", "tune", "bandwidth_scales", "sigma_scales", "alphas", "Cs", "exhaustive", "symmetries",
)  # fmt: skip


@described(
    trained_on_="int(_)", trained_salt_="number", model_="Model", law_="ErrorLaw | ClassLaw | None",
    empty_="EmptyBags | None", background_="Background | None", reference_="Reference | None",
    leaderboard_="Leaderboard", scoring_="text", search_="Search | None", best_params_="dict[number | None]",
    timings_="dict[number]",
)  # fmt: skip
class Learner(BagInput):
    """Base of ``DistributionRegressor`` and ``DistributionClassifier``, which define the targets."""

    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}  # no data that a pipeline would pass on

    takes_categories = True
    takes_empty = True
    model_: Model
    empty_: EmptyBags | None = None
    targets_: Numbers | Classes
    encoder_: CovariateEncoder | None = None
    leaderboard_: Leaderboard
    law_: ErrorLaw | ClassLaw | None
    background_: Background | None = None
    reference_: Reference | None = None
    scoring_: str
    search_: Search | None
    best_params_: dict[str, Any]
    timings_: dict[str, float]
    trained_on_: Array = np.empty(0, np.uint32)  # hashed ids of the bags that were learned from, if they have some
    trained_salt_: int = 0  # of these hashes
    __distembed_ids__: ClassVar[tuple[str, ...]] = ("trained_on_", "trained_salt_")
    __distembed_background__: ClassVar[tuple[str, ...]] = ("background_",)
    n_batches_seen_: int
    _n_bags_seen: int  # in the batches that are part of the model
    _n_bags_in_all: int | None  # as far as is known before the last batch
    _made_from: str  # fingerprint of the batches, where a checkpoint is kept

    def __init__(
        self,
        embedding: EmbeddingLike = "auto",
        *,
        head: Estimator | None = None,
        sizes: str | bool = "auto",
        scale: Any = "auto",
        n_components: int | str | None = 5000,
        tune: str | int | None = "auto",
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        symmetries: Any = None,
        missing_targets: str = "error",
    ) -> None:
        self.embedding = embedding
        self.head = head
        self.sizes = sizes
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
        self.symmetries = symmetries
        self.missing_targets = missing_targets

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        times: dict[str, Any] = {"timings_": {}} if "timings_" in vars(self) else {}
        return vars(self) | times  # two runs of one fit give the same file

    # What regression and classification do in their own ways

    def _check_targets(self, y: Any, n_bags: int) -> Array:
        """Targets as the user gave them, checked."""
        raise NotImplementedError

    def _kind_of_targets(self, y: Array) -> Numbers | Classes:
        """What targets of all bags are, or all classes."""
        raise NotImplementedError

    def _weigh_classes(self, batch: Batch) -> None:
        """Look at the coded targets of the bags that choose the model: what classes weigh."""

    def _check_refit(self, y: Array) -> None:
        """Refuse targets that need another fit."""

    # Learning from all bags at once

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        progress: Progress = False,
        covariates: Any = None,
    ) -> Self:
        """Choose members and their settings, and fit them.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags, in any units if points are scaled.
        y : array-like of shape (n_bags,) or, in regression, (n_bags, n_outputs)
            Finite numbers, or classes: text, numbers or truth values. Where bags have ids, a Series of pandas whose
            index is these is put in their order, and so are weights, groups and covariates, here and elsewhere.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        groups : array-like of shape (n_bags,), optional
            Bags of one group are held out together, and standard errors of the leaderboard are over groups.
        progress : bool, callable or object, default=False
            Whether to show on standard error how far it is. A callable is called as ``progress(done, total)``; an
            object with ``begin(stage, total)``, total maybe None, and ``advance(more)`` is called for each stage by
            name.
        covariates : table of n_bags rows, optional
            What is known of bags besides their points: numbers, text and truth values, some of which may be missing;
            see :class:`~distembed.learners.covariates.CovariateEncoder`. Candidates with and without them compete.

        Returns
        -------
        self
        """
        self._check_parameters(covariates is not None)
        batch = self._check_batch(X, y, sample_weight, groups, covariates, reset=True).drop_weightless()
        if not is_classifier(self):
            batch = batch._replace(y=tame_wild(self, batch.y, batch.bags))
        self.targets_ = self._kind_of_targets(batch.y)
        if not is_classifier(self):
            warn_if_constant(self, batch.y, stacklevel=2)
        with stages_of(progress, f"{type(self).__name__}.fit") as stages:
            self._choose(batch, check_random_state(self.random_state), stages)
        return self

    def refit(
        self, X: Any, y: Any, sample_weight: Any = None, *, covariates: Any = None, progress: Progress = False
    ) -> Self:
        """Fit the heads again, to other bags; members, their settings and weights, embeddings and features stay.

        For more bags, or other targets. What the model had learned before is forgotten; ``partial_fit`` adds to it.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Targets; classes are those of ``fit``.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.
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
        check_is_fitted(self, "model_")
        batch = self._check_batch(X, y, sample_weight, None, covariates).drop_weightless()
        self._check_refit(batch.y)
        if not is_classifier(self):
            batch = batch._replace(y=tame_wild(self, batch.y, batch.bags))
        batch = self._code_targets(batch)
        self.empty_ = EmptyBags.of(batch, self.targets_.n_classes)
        batch = drop_empty(self, batch, self.targets_)
        clock = Clock(self.timings_)
        with stages_of(progress, f"{type(self).__name__}.refit") as stages:
            self.model_ = self.model_.refit(batch, stages, clock)
        clock.lap("linear model")
        if isinstance(batch.bags, Bags):
            self.reference_ = self._refer_to(batch)
            self.background_ = Background.of(self.model_, self.targets_, batch.bags, batch.covariates)
        elif self.background_ is not None:  # rows of an embedding have no points
            self.background_ = replace(self.background_, mean=None)
        return self

    def fit_and_score(
        self,
        X: Any,
        y: Any,
        *,
        test: Any = None,
        groups: Any = None,
        covariates: Any = None,
        refit: bool = True,
        progress: Progress = False,
    ) -> Holdout:
        """Fit to most of the bags, score the model on the others, and let it learn from these too.

        Scaling, embedding and settings stay as the training bags chose them.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            All bags.
        y : array-like of shape (n_bags,)
            Numbers or classes, as in ``fit``.
        test : float, ndarray of bool of shape (n_bags,) or None, default=None
            Which share of the bags is held out, drawn by ``random_state``, or which bags: whole groups, or the same
            share of each class. None: a tenth, at most 2,000 bags, and none of fewer than 20.
        groups : array-like of shape (n_bags,), optional
            Bags of one group are held out together, here and inside of ``fit``, and standard errors are over groups.
        covariates : table of n_bags rows, optional
            As in ``fit``.
        refit : bool, default=True
            Whether to learn from the held-out bags in the end. Those that are to calibrate intervals must stay unknown
            to the model: ``ConformalRegressor(model, prefit=True).calibrate(X[found.rows], y[found.rows])``.
        progress : bool, callable or object, default=False
            As in ``fit``.

        Returns
        -------
        Holdout
            ``scores`` with standard errors, ``predicted`` and ``truth`` of the held-out bags, and ``rows``, which these
            are; see :class:`~distembed.learners.holdout.Holdout`. Where none was held out, one embedding by name in
            regression has leave-one-out predictions, whose settings have seen all bags.

        Examples
        --------
        >>> import distembed as de
        >>> spread = np.random.default_rng(0).uniform(0.5, 2, size=80)
        >>> bags = np.random.default_rng(1).normal(0, spread[:, None, None], size=(80, 50, 1))
        >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0)
        >>> found = model.fit_and_score(bags, spread, test=0.25)
        >>> int(found.rows.sum()), bool(found.scores["r2"].value > 0.8)
        (20, True)
        """
        bags = X if isinstance(X, Bags) else as_bags(X)
        y = by_id(y, bags, "y")
        keep = self._with_target(y, bags)
        if keep is not None:
            return self._fit_and_score_some(keep, bags, np.asarray(y)[keep], test, groups, covariates, refit, progress)
        targets = self._check_targets(y, bags.n_bags)
        where = f"{type(self).__name__}.fit_and_score"
        if targets.ndim > 1:
            raise ValueError(f"{where}: y must be one number a bag, got shape {targets.shape}; score each by itself")
        labels = None if groups is None else check_labels(where, "groups", by_id(groups, bags, "groups"), bags.n_bags)
        table = None if covariates is None else CovariateColumns.read(covariates, given_ids(bags), bags.n_bags)
        if np.ndim(test) == 0:
            share = None if test is None else check_number(where, "test", test, low=0, high=0.9)
            seed = self.random_state
            seed = int(seed.randint(2**31)) if isinstance(seed, np.random.RandomState) else seed
            out = choose_test(targets, is_classifier(self), labels, share, seed)
        else:
            out = check_labels(where, "test", test, bags.n_bags).astype(bool)
        with stages_of(progress, where) as stages:
            own = None if labels is None else labels[~out]
            self.fit(bags[~out], targets[~out], None, own, stages, None if table is None else table[~out])
            seconds = dict(self.timings_)
            if not out.any():
                filled = bags.sizes > 0
                own = None if labels is None else labels[filled]
                return replace(self._left_out(targets[filled], filled), seconds=seconds, groups=own)
            some = None if table is None else table[out]
            own = None if labels is None else labels[out]
            found = Holdout.of(self, bags[out], targets[out], some, rows=out, groups=own, stages=stages)
            seconds |= found.seconds
            if refit:
                clock = Clock(seconds)
                self.refit(bags, targets, covariates=table, progress=stages)
                clock.lap("learning from all bags")
        return replace(found, seconds=seconds)

    def _fit_and_score_some(
        self,
        keep: Array,
        bags: Bags,
        y: Array,
        test: Any,
        groups: Any,
        covariates: Any,
        refit: bool,
        progress: Progress,
    ) -> Holdout:
        """Fit to the bags at some positions and score on them; ``rows`` are of all bags."""
        groups = None if groups is None else np.asarray(by_id(groups, bags, "groups"))[keep]
        table = None if covariates is None else CovariateColumns.read(covariates, given_ids(bags), bags.n_bags)[keep]
        test = test if np.ndim(test) == 0 else np.asarray(test)[keep]
        found = self.fit_and_score(
            bags[keep], y, test=test, groups=groups, covariates=table, refit=refit, progress=progress
        )
        if found.how is None:
            return found
        rows = np.zeros(bags.n_bags, bool)
        rows[keep[found.rows]] = True
        return replace(found, rows=rows)

    def _left_out(self, y: Array, rows: Array) -> Holdout:
        """Leave-one-out predictions for the bags of ``fit`` with points, where the one head of a model has them."""
        if not self.model_.is_single or not isinstance(self.model_.head, LinearHead):
            return Holdout()
        if not hasattr(self.model_.head, "held_out_"):
            return Holdout()
        predicted = self.targets_.decode(self.model_.head.held_out_)
        return Holdout("leave-one-out", rows, y, predicted, classes=getattr(self, "classes_", None))

    def _choose(self, batch: Batch, rng: np.random.RandomState, stages: Stages, grows: bool = False) -> None:
        """Set what was fitted, from checked bags; covariates are encoded, targets coded, and weights settled here."""
        self.encoder_ = None
        if batch.covariates is not None:
            ids = given_ids(batch.bags)
            self.encoder_ = CovariateEncoder().fit(batch.covariates, ids, batch.weight)
            batch = batch._replace(covariates=self.encoder_.transform(batch.covariates, ids))
        request = Request.of(self)
        codes = self.targets_.code(batch.y)
        self._weigh_classes(batch._replace(y=codes))
        batch = batch._replace(y=codes, weight=self.targets_.weigh(codes, batch.weight))
        self.empty_ = None if grows else EmptyBags.of(batch, self.targets_.n_classes)
        batch = drop_empty(self, batch, self.targets_)
        codes = batch.y
        tuned = request.is_tuned and batch.covariates is None
        if tuned:
            searched = len(codes) >= FEWEST_TO_TUNE and not grows
            if isinstance(self.targets_, Classes) and searched and self.tune is not None:
                how = n_folds(self.tune, len(codes), None)
                check_rare(type(self).__name__, self.targets_.classes, codes, how)
            found = tune_member(self._as_named(request), batch, self.targets_, rng, stages, grows)
        else:
            found = choose_members(self, request, batch, self.targets_, rng, stages, grows)
        self.model_, self.leaderboard_, self.search_, self.best_params_, self.timings_, self.law_ = found
        self.background_ = Background.of(self.model_, self.targets_, batch.bags, batch.covariates, trained=not grows)
        self.reference_ = self._refer_to(batch)
        self.scoring_ = self.leaderboard_.scoring
        for stale in ("n_batches_seen_", "_n_bags_seen"):
            self.__dict__.pop(stale, None)

    def _refer_to(self, batch: Batch) -> Reference:
        """What new bags are compared with: training bags with encoded covariates."""
        columns = () if self.encoder_ is None else self.encoder_.columns_
        names = [column.name for column in columns for _ in column.names]
        return Reference.of(batch.bags, batch.covariates, names)

    def _as_named(self, request: Request) -> Self:
        """Return this learner, or for a row's name one with the embedding and the model that it names."""
        if request.model is None:
            return self
        found = copy(self)
        found.embedding = request.items[0]
        if is_classifier(self):
            found.model = request.model
        return found

    # Learning from batches

    @offered_if(why_no_batches)
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
            Called once for every pass, returns an iterator over batches ``(bags, y)``, to which ``sample_weight``,
            ``groups`` and ``covariates`` may be added in this order, of one bag at least, the same ones in the same
            order every time. Each of the three may be None. Bags of one group, in whatever batches, are held out
            together. If it has a parameter ``start``, it is called with the number of batches to leave out when
            interrupted work goes on.
        classes : array-like of shape (n_classes,), optional
            All classes, for classifiers with ``tune=None``, which can't know them before the end.
        checkpoint : path, optional
            Where to keep what has been done. If the file is there, work goes on from it; it must come from the same
            settings and the same first batch, or the same ``make_iterator.fingerprint``, a str, if there is one. It is
            removed at the end.
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

        Where candidates compete, these bags decide members, their settings and their weights. Members with kernels then
        learn from all batches, by ridge regression on at most 2,000 features each, with the calibration that the sample
        gave for classes; trees keep what they learned from the sample.
        """
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
                file.check_batches(getattr(kept, "_made_from", ""), self._identify_batches(make_iterator))
            else:
                self._begin_batches(make_iterator, classes, stages, bound=checkpoint is not None)
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

    @offered_if(why_no_more_bags)
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None, covariates: Any = None
    ) -> Self:
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
        covariates : table of n_bags rows, optional
            In all calls or in none, with the same columns.

        Returns
        -------
        self
        """
        first = not hasattr(self, "model_")
        if first:
            self._check_parameters(covariates is not None)
        batch = self._check_batch(X, y, sample_weight, None, covariates, reset=first, may_vanish=True)
        if first:
            if not batch.weight.any():
                raise ValueError(f"{type(self).__name__}.partial_fit: all bags have weight zero; leave them out")
            self.targets_ = self._kind_of_targets(batch.y if classes is None else canonical_classes(classes))
            self._begin(batch.drop_weightless(), check_random_state(self.random_state), SILENT)
            if self.encoder_ is not None:
                batch = self._check_batch(X, y, sample_weight, None, covariates, may_vanish=True)
        self._add(batch)
        return self

    def _begin_batches(
        self, make_iterator: Callable[..., Iterable[Any]], classes: Any, stages: Stages, bound: bool
    ) -> None:
        """Look at the batches, to which a checkpoint is bound; choose all but what heads learn on a sample of them."""
        self._made_from = str(getattr(make_iterator, "fingerprint", ""))
        rng = check_random_state(self.random_state)
        where = f"{type(self).__name__}.fit_batches"
        stages.begin("looking at all bags" if self.tune is not None else "looking at the first bags", None)
        n_bags = 0
        labels = list[Array]()

        def all_batches() -> Iterator[Batch]:
            nonlocal n_bags, labels
            for given in make_iterator():
                batch = self._check_batch(*batch_parts(given, where), reset=n_bags == 0, may_vanish=True)
                if n_bags == 0:
                    self._check_parameters(batch.covariates is not None)
                    self._made_from = self._made_from or (batch.fingerprint() if bound else "")
                n_bags += batch.bags.n_bags
                stages.advance(batch.bags.n_bags)
                if is_classifier(self):
                    *labels, y = unify_classes(*labels, batch.y)
                    batch = batch._replace(y=y)
                    labels = [np.unique(np.concatenate([*labels, y[batch.weight > 0]]))]
                yield batch

        sample = sample_batches(all_batches(), self.max_search_bags, None if self.tune is None else rng, where)
        self._n_bags_in_all = None if self.tune is None else n_bags
        known = labels[0] if is_classifier(self) and classes is None else canonical_classes(classes)
        self.targets_ = self._kind_of_targets(known if is_classifier(self) else sample.y)
        self._begin(sample, rng, stages)

    def _identify_batches(self, make_iterator: Callable[..., Iterable[Any]]) -> str:
        """Return what identifies batches: the ``fingerprint`` of what makes them, or that of the first."""
        known = getattr(make_iterator, "fingerprint", None)
        if known is not None:
            return str(known)
        given = next(iter(make_iterator()), None)
        if given is None:
            return ""
        where = f"{type(self).__name__}.fit_batches"
        return self._check_batch(*batch_parts(given, where), may_vanish=True).fingerprint()

    def _begin(self, sample: Batch, rng: np.random.RandomState, stages: Stages) -> None:
        """Choose all but what heads learn, which have seen nothing yet."""
        self._choose(sample, rng, stages, grows=True)
        self.n_batches_seen_ = 0
        self._n_bags_seen = 0

    def _add_batches(self, make_iterator: Callable[..., Iterable[Any]], file: Checkpoint, stages: Stages) -> None:
        """Add all batches that are not part of the model yet."""
        expected = self._n_bags_in_all
        where = f"{type(self).__name__}.fit_batches"
        stages.begin("learning", expected)
        if self._n_bags_seen:
            stages.advance(self._n_bags_seen)
        for given in batches_from(make_iterator, self.n_batches_seen_):
            batch = self._check_batch(*batch_parts(given, where), may_vanish=True)
            self._add(batch)
            stages.advance(batch.bags.n_bags)
            file.keep_now_and_then(self)
        if self._n_bags_seen != (expected or self._n_bags_seen or 1):
            raise ValueError(
                f"{where}: make_iterator() gave {expected or 'some'} bags in the first pass, and {self._n_bags_seen} "
                "in the second; it must return a new iterator over the same batches at every call"
            )

    def _add(self, batch: Batch) -> None:
        """Add one batch to what heads have learned from."""
        if batch.weight.any():
            clock = Clock(self.timings_)
            self.model_.partial_fit(self._code_targets(batch.drop_weightless()), clock)
            clock.lap("linear model")
            if self.background_ is not None and self.background_.mean is not None:
                self.background_ = replace(self.background_, mean=None)  # of other heads
        self.n_batches_seen_ = getattr(self, "n_batches_seen_", 0) + 1  # none after fit
        self._n_bags_seen = getattr(self, "_n_bags_seen", 0) + batch.bags.n_bags

    # What was given

    def _check_batch(
        self,
        X: Any,
        y: Any,
        weight: Any = None,
        groups: Any = None,
        covariates: Any = None,
        *,
        reset: bool = False,
        may_vanish: bool = False,
    ) -> Batch:
        """Bags to learn from, checked; covariates are encoded, but for ``reset``, where they are only read."""
        bags = self._bags(X, reset)
        if may_vanish:
            refuse_in_batches(self, bags)
        y = by_id(y, bags, "y")
        keep = self._with_target(y, bags)
        targets = self._check_targets(
            y if keep is None else np.asarray(y)[keep], bags.n_bags if keep is None else len(keep)
        )
        weight = by_id(weight, bags, "sample_weight")
        groups = by_id(groups, bags, "groups")
        table: Any
        if reset or not hasattr(self, "model_"):
            table = None if covariates is None else CovariateColumns.read(covariates, given_ids(bags), bags.n_bags)
        else:
            table = self._encode(bags, covariates)
        if keep is None:
            batch = Batch.of(self, bags, targets, weight, groups, may_vanish)
        else:
            every = Batch.of(self, bags, np.zeros(bags.n_bags), weight, groups, may_vanish)
            batch = every._replace(covariates=table).take(keep)._replace(y=targets)
            table = batch.covariates
        self._remember_ids(batch.bags, targets, reset)
        return batch._replace(covariates=table)

    def _with_target(self, y: Any, bags: Any) -> Array | None:
        """Positions of the bags that have a target, if those that have none are to be left out; None if all have."""
        if self.missing_targets != "drop" or np.ndim(y) == 0 or len(y) != bags.n_bags:
            return None
        lost = missing_targets(y)
        if not lost.any():
            return None
        name = type(self).__name__
        if lost.all():
            raise ValueError(f"{name}: y must have some values, got {len(lost)} missing ones; check what was joined")
        which = few(bags.ids[lost]) if isinstance(bags, Bags) else few(np.flatnonzero(lost))
        warnings.warn(
            f"{name}: {lost.sum():,} of {len(lost):,} bags have no target and are left out: {which}",
            UserWarning,
            stacklevel=4,
        )
        return np.flatnonzero(~lost)

    def _remember_ids(self, bags: Any, targets: Array, reset: bool) -> None:
        """Keep hashes of the ids; the salt is a hash of the first ids and targets: one fit, one file."""
        if reset:
            self.trained_on_ = np.empty(0, np.uint32)
        if not bags.has_ids:
            return
        if not len(self.trained_on_):
            values = targets.astype(str) if targets.dtype == object else targets
            seen = hashlib.sha256(hash_ids(bags.ids).tobytes() + values.tobytes())
            self.trained_salt_ = int.from_bytes(seen.digest()[:6], "big")
        self.trained_on_ = insert_sorted(self.trained_on_, hash_ids(bags.ids, self.trained_salt_))

    def _code_targets(self, batch: Batch) -> Batch:
        """Checked bags with coded targets, and the weights by which they are learned from."""
        if isinstance(self.targets_, Numbers):
            self.targets_ = self.targets_.including(batch.y)
        codes = self.targets_.code(batch.y)
        return batch._replace(y=codes, weight=self.targets_.weigh(codes, batch.weight))

    def _bags(self, X: Any, reset: bool = False) -> Any:
        """Bags as the model takes them, checked."""
        if not isinstance(X, EmbeddedBags):
            return check_bags(self, X, reset=reset)
        if reset or not self.model_.is_single:
            raise ValueError(
                f"{type(self).__name__}: rows of an embedding are for fitted learners of one embedding; pass the bags"
            )
        return X

    def _encode(self, bags: Bags, covariates: Any) -> Array | None:
        """Covariates of bags as numbers, as ``fit`` encodes them; None if it had none."""
        if self.encoder_ is None and covariates is None:
            return None
        if self.encoder_ is None:
            raise InputError(
                f"{type(self).__name__}: covariates were given, but fit had none; leave them out, or fit with them"
            )
        if covariates is None:
            names = ", ".join(column.name for column in self.encoder_.columns_)
            raise InputError(f"{type(self).__name__}: covariates must be given, as in fit; pass a table of {names}")
        return self.encoder_.transform(covariates, given_ids(bags), n_bags=bags.n_bags)

    def _check_input(self, X: Any, covariates: Any) -> tuple[Any, Array | None]:
        """What predictions are asked for: bags, and their encoded covariates, checked."""
        check_is_fitted(self, "model_")
        bags = self._bags(X)
        known = self._encode(bags, covariates)
        reference = self._reference_for(bags)
        if reference is not None:
            warn_if_unlike(self, reference, bags, known)
        return bags, known

    def _reference_for(self, bags: Any) -> Reference | None:
        """What bags are compared with; None where the model takes them and their images under symmetries for one."""
        invariant = self.symmetries is not None or getattr(self.embedding, "symmetries", None) is not None
        return None if invariant or isinstance(bags, EmbeddedBags) else self.reference_

    def _widening(self, bags: Any, covariates: Array | None) -> Array:
        """Factors of the widths of bags that are unlike those of fit."""
        reference = self._reference_for(bags)
        return np.ones(len(bags)) if reference is None else reference.widening(bags, covariates)

    # What was fitted

    @property
    def scaler_(self) -> Any:
        """The fitted scaler, of a learner of one view."""
        return self.model_.view.scaler

    @property
    def embedding_(self) -> Any:
        """The fitted embedding, of a learner of one view."""
        return self.model_.view.embedding

    @property
    def features_(self) -> Any:
        """The fitted features of a kernel, of a learner of one view."""
        return self.model_.view.features

    @offered_if(why_no_likeness)
    def likeness(self, X: Any, covariates: Any = None) -> Likeness:
        """Whether bags are like those of ``fit``: p-values, and the columns that make bags odd.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.

        Returns
        -------
        Likeness
            ``pvalues`` and ``column_scores`` of the bags, ``group_pvalue`` of all together, ``to_frame()``; see
            :class:`~distembed.learners.likeness.Likeness`.

        Notes
        -----
        A p-value is the share of the training bags that are as far from the others, at the size of this bag, so small
        bags are not odd for being small. It is never below 1 / (n + 1) for n training bags: of few, only the group
        shows clear differences. Targets take no part. All methods that predict warn where the group clearly differs, or
        bags are far from all training bags; fewer than one in a hundred groups of bags like the training bags are
        warned of. After ``fit_batches`` and in a cluster, bags are compared with those that chose the model.

        Examples
        --------
        >>> import distembed as de
        >>> rng = np.random.default_rng(0)
        >>> bags = de.Bags.from_arrays(list(rng.normal(size=(60, 20, 2))), columns=["u", "v"])
        >>> model = de.DistributionRegressor("mean", n_components=20, tune=None).fit(bags, rng.normal(size=60))
        >>> new = de.Bags.from_arrays(list(rng.normal(size=(20, 20, 2)) * [1, 2]), columns=["u", "v"])
        >>> found = model.likeness(new)
        >>> found.group_pvalue, found.group_columns
        (0.001, ['v', 'u'])
        """
        check_is_fitted(self, "model_")
        bags = self._bags(X)
        if isinstance(bags, EmbeddedBags):
            raise InputError(f"{type(self).__name__}.likeness: needs points, got rows of an embedding; pass the bags")
        known = self._encode(bags, covariates)
        reference: Any = self.reference_
        found: Likeness = reference.compare(bags, known)
        return found

    @offered_if(why_no_features)
    def transform_features(self, X: Any) -> Array:
        """What the head of a learner of one view sees of bags, ndarray of shape (n_bags, n_features)."""
        check_is_fitted(self, "model_")
        bags = self._bags(X)
        if isinstance(bags, Bags):
            refuse_empty(bags, f"{type(self).__name__}.transform_features")
        return np.concatenate([rows for rows, _ in self.model_.rows(bags).pieces()])

    def explain(
        self,
        X: Any,
        output: Any = None,
        random_state: int | np.random.RandomState | None = None,
        covariates: Any = None,
        *,
        background: Any = None,
        progress: Progress = False,
    ) -> Explanation:
        """Why predictions are what they are: by columns, points and regions, see :mod:`distembed.learners.explain`.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        output : optional
            Which of several targets, by its number, or which class, by its name. By default the second of two classes,
            and of more the one that is predicted for each bag.
        random_state : int, RandomState or None, default=None
            Draws orders of columns, where there are more than four.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.
        background : Bags, optional
            From which other columns are taken, in place of the training bags that the model keeps.
        progress : bool, callable or object, default=False
            As in ``fit``.

        Returns
        -------
        Explanation
            ``contributions`` of columns, values of ``points``, and ``regions``; it prints as a table.

        Examples
        --------
        >>> import distembed as de
        >>> spread = np.random.default_rng(0).uniform(0.5, 2, size=80)
        >>> bags = np.random.default_rng(1).normal(0, spread[:, None, None], size=(80, 50, 1))
        >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags[:60], spread[:60])
        >>> why = model.explain(bags[60:])
        >>> bool(np.allclose(why.contributions[:, 0], why.predictions - why.reference))
        True
        """
        return explain(
            self, X, output=output, random_state=random_state, covariates=covariates, background=background,
            progress=progress,
        )  # fmt: skip

    def predict(self, X: Any, covariates: Any = None) -> Any:
        """Predict the targets of bags."""
        raise NotImplementedError

    def _score(self, metric: Any, X: Any, y: Any, sample_weight: Any, covariates: Any) -> float:
        """A metric of predictions."""
        weight = by_id(sample_weight, X, "sample_weight")
        if weight is not None:
            weight = check_weights(self, weight, len(X))
        truth = by_id(y, X, "y")
        if is_classifier(self):
            truth = as_classes_of(truth, self.classes_, "y", "the classes of the model")
        return float(metric(truth, self.predict(X, covariates), sample_weight=weight))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's picture of the parameters and, when fitted, the leaderboard."""
        found: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in found and hasattr(self, "leaderboard_"):
            found["text/html"] += self.leaderboard_.html()
        return found

    # Parameters

    def _check_parameters(self, has_covariates: bool) -> None:
        """Refuse values that can't be, and those that would change nothing."""
        check_choice(self, "model", getattr(self, "model", "ridge"), MODELS)
        request = Request.of(self)
        if request.model is not None and has_covariates:
            raise ValueError(
                f"{type(self).__name__}(embedding={self.embedding!r}): looks at no covariates, got some; leave them "
                f"out, or name the embedding alone: {request.items[0]!r}"
            )
        if self.time_limit is not None:
            check_number(self, "time_limit", self.time_limit, low=0, inclusive="neither")
        if not (request.several or request.is_row):
            new_scaler_and_embedding(self._as_named(request))
        check_components(self, self.n_components)
        if isinstance(self.tune, str):
            check_choice(self, "tune", self.tune, ("auto", "holdout"))
        elif self.tune is not None:
            remedy = "give a number of folds, 'auto', 'holdout', or None for no search"
            check_number(self, "tune", self.tune, low=2, high=100, integer=True, remedy=remedy)
        for name in ("bandwidth_scales", "sigma_scales", "alphas", *(["Cs"] if is_classifier(self) else [])):
            check_scales(self, name, getattr(self, name))
        check_choice(self, "missing_targets", self.missing_targets, MISSING_CHOICES)
        check_number(self, "max_search_bags", self.max_search_bags, low=10, integer=True)
        self._refuse_idle(request, has_covariates)

    def _refuse_idle(self, request: Request, has_covariates: bool) -> None:
        """Refuse parameters that were set and that what is asked for has no use for."""
        more = "covariates" if request.sizes is not True else "covariates and sizes=True"
        one = f"applies to one embedding by name, such as 'js', without {more}"
        if request.is_tuned and not has_covariates:
            idle = {"time_limit": "applies where candidates compete: for 'auto', lists and covariates"}
            if (request.model or getattr(self, "model", "ridge")) == "ridge":
                idle["Cs"] = "applies to model='logistic' and model='svm'"
        else:
            idle = dict.fromkeys(SEARCH_PARAMETERS, one)
            if isinstance(self.tune, int):
                del idle["tune"]
            if request.is_alone and not has_covariates:
                idle["time_limit"] = "applies where candidates compete: for 'auto', lists and covariates"
            if request.several or request.is_row:
                idle["scale"] = one
            else:  # one embedding with covariates or sizes, or with a head of its own
                acting = ["n_components"] * (request.head is None and self.n_components != "exact")
                acting += ["bandwidth_scales"] * (len(self.bandwidth_scales) == 1)
                acting += ["tune"] * (self.tune is None and (has_covariates or request.sizes is True))
                idle = {name: why for name, why in idle.items() if name not in acting}
        rows = request.heads
        alone = (request.is_tuned and not has_covariates) or request.is_alone or (rows and request.several)
        if alone and not any(name.startswith(ORDERED) for name in rows):
            idle["ordered"] = "applies where candidates compete: for 'auto', lists of views, and rows of ordered heads"
        defaults = inspect.signature(type(self).__init__).parameters
        for name, why in idle.items():
            value = getattr(self, name, None)
            if name in defaults and not _are_equal(value, defaults[name].default):
                raise ValueError(
                    Message(Argument(name, owner=type(self).__name__), f": {why}, got {value!r}; leave it out")
                )


def _are_equal(value: Any, default: Any) -> bool:
    """Whether a parameter has its default value."""
    if isinstance(default, tuple):
        return np.ndim(value) == 1 and tuple(value) == default
    return value is default or (type(value) is type(default) and bool(value == default))


def check_components(owner: object, n_components: Any) -> None:
    """Refuse a number of random features that is not even; None is none of them, "exact" the kernel itself."""
    if n_components is None or (isinstance(n_components, str) and n_components == "exact"):
        return
    none = Message(Argument("n_components", None), " for the features themselves")
    remedy: str = Message("give an even number, or ", none)
    n = check_number(owner, "n_components", n_components, low=2, high=10**6, integer=True, remedy=remedy)
    if n % 2:
        where = Argument("n_components", owner=type(owner).__name__)
        rule = f": must be even, for the sine and the cosine of each frequency, got {n}; use {n + 1}, or "
        raise ValueError(Message(where, rule, none))


def check_scales(owner: object, name: str, values: Any) -> None:
    """Refuse what is not a sequence of positive numbers."""
    if isinstance(values, str) or np.ndim(values) != 1 or not len(values):
        raise TypeError(
            f"{type(owner).__name__}({name}=...): must be a sequence of positive numbers, got {values!r}; write "
            f"({values!r},) for one"
        )
    for value in values:
        check_number(owner, name, value, low=0, inclusive="neither")
