"""What regression and classification of bags share: scaling, the search for settings, features, and a linear model.

:class:`Learner` makes one chain of fitted stages from bags that are all there; ``refit`` keeps it. Batches are for
:class:`~distembed.learners.batches.BatchLearner`, ensembles for :class:`~distembed.learners.auto.AutoLearner`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagInput, by_id, check_bags
from ..basis import LowEnergyWarning
from ..compute.arrays import Array, hashed
from ..compute.checks import Argument, Message, check_choice, check_number
from ..compute.progress import Progress, Stages, stages_of
from ..embeddings.views import Views
from .chain import (
    Batch,
    Chain,
    Clock,
    check_components,
    check_numbers,
    check_scales,
    new_stages,
    seeded,
    warn_if_constant,
    widened,
    width_name,
)
from .covariates import CovariateEncoder, given_ids
from .ensemble import Ensemble
from .exact_kernel import begun
from .explain import explain
from .ridge import fit_ridge
from .search import ALPHAS, BANDWIDTH_SCALES, SIGMA_SCALES, Search, judging_components, only, search
from .symmetry import check_symmetric, with_symmetries
from .view_search import choose_views

DEFAULT_ALPHA = 0.1
USELESS = 0.999  # error of predictions, where that of a constant is one


class NoChainError(ValueError, AttributeError):
    """An attribute that ensembles do not have, so that ``hasattr`` and ``dir`` can tell."""


class Learner(BagInput):
    """Base of ``DistributionRegressor`` and ``DistributionClassifier``.

    Targets are numbers here; for classes a subclass has other methods of the first group.
    """

    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}  # no data that a pipeline would pass on

    takes_categories = True
    has_classes = False

    model_: Any
    encoder_: CovariateEncoder | None = None
    search_: Search | None
    trained_on_: Array = np.empty(0, np.uint32)  # hashed ids of the bags that were learned from, if they have some
    best_params_: dict[str, Any]
    _penalty: float  # of the linear model: alpha in the units of its features

    def __init__(
        self,
        embedding: Any = "auto",
        *,
        scale: Any = "auto",
        n_components: int | str | None = 5000,
        tune: str | int | None = 3,
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        symmetries: Any = None,
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
        self.symmetries = symmetries

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

    def _fit_model(self, rows: Iterator[tuple[Array, slice]], coded: Array, weight: Array, penalty: float) -> Any:
        """A linear model, fitted to rows of features that come in pieces."""
        return fit_ridge(penalty, rows, self._columns(coded), weight)

    # All bags at once

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        progress: Progress = False,
        covariates: Any = None,
    ) -> Self:
        """Choose the settings, and fit all stages.

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
            Bags of one group are held out together.
        progress : bool, callable or object, default=False
            Whether to show on standard error how far it is. A callable is called as ``progress(done, total)``; an
            object with ``begin(stage, total)``, total maybe None, and ``advance(more)`` is told of stages by name.
        covariates : table of n_bags rows, optional
            What is known of bags besides their points: numbers, text and truth values, some of which may be missing;
            see :class:`~distembed.learners.covariates.CovariateEncoder`. The model is then an ensemble.

        Returns
        -------
        self
        """
        batch = self.settled(X, y, sample_weight, groups, covariates)
        if self.is_auto or covariates is not None:
            return self._fit_ensemble(batch, progress)
        with stages_of(progress, f"{type(self).__name__}.fit") as stages:
            scaled = self._fit_chain(batch, check_random_state(self.random_state), stages)
            self._learn(scaled, batch, stages)
        return self

    def settled(self, X: Any, y: Any, sample_weight: Any, groups: Any, covariates: Any = None) -> Batch:
        """What ``fit`` learns from: parameters and bags checked, classes settled and coded, weights of classes in."""
        self._check_parameters()
        batch = self._checked(X, y, sample_weight, groups, reset=True)
        self.encoder_ = None
        if covariates is not None:
            self.encoder_ = CovariateEncoder().fit(covariates, given_ids(batch.bags), batch.weight)
            batch = batch._replace(beside=self.beside(batch.bags, covariates))
        batch = batch.counted()
        self._settle_targets(batch.y)
        if not self.has_classes:
            warn_if_constant(self, batch.y, stacklevel=3)
        return self._weighted(batch._replace(y=self._coded(batch.y)), reset=True)

    def refit(
        self, X: Any, y: Any, sample_weight: Any = None, *, covariates: Any = None, progress: Progress = False
    ) -> Self:
        """Fit the linear model again, to other bags; scaling, settings, embedding and random features stay.

        For more bags, or other targets. What the model had learned before is forgotten; ``partial_fit`` adds to it. Of
        an ensemble views, settings of heads, calibration and weights of members stay, and heads learn again.

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
        batch = self._checked(X, y, sample_weight)
        batch = batch._replace(beside=self.beside(batch.bags, covariates)).counted()
        self._check_refit(batch.y)
        batch = self._weighted(batch._replace(y=self._coded(batch.y)))
        with stages_of(progress, f"{type(self).__name__}.refit") as stages:
            if self.is_ensemble:
                self._refit_ensemble(batch, stages)
            else:
                self._learn(self.chain_.scale(batch.bags), batch, stages)
        return self

    # Ensembles

    @property
    def is_auto(self) -> bool:
        """Whether an ensemble of embeddings is to be chosen, in place of one embedding by name."""
        return isinstance(self.embedding, str) and self.embedding == "auto"

    @property
    def is_ensemble(self) -> bool:
        """Whether what was fitted is an ensemble: of ``"auto"``, or of one embedding and covariates."""
        return isinstance(getattr(self, "model_", None), Ensemble)

    def beside(self, bags: Bags, covariates: Any) -> Array | None:
        """Covariates of bags as numbers, as ``fit`` encodes them; None if it had none."""
        if self.encoder_ is None and covariates is None:
            return None
        if self.encoder_ is None:
            raise ValueError(
                f"{type(self).__name__}: covariates were given, but fit had none; leave them out, or fit with them"
            )
        if covariates is None:
            names = ", ".join(column.name for column in self.encoder_.columns_)
            raise ValueError(f"{type(self).__name__}: covariates must be given, as in fit; pass a table of {names}")
        return self.encoder_.transform(covariates, given_ids(bags), n_bags=bags.n_bags)

    def given(self, X: Any, covariates: Any) -> tuple[Bags, Array | None]:
        """What predictions are asked for: bags, and their encoded covariates, checked."""
        check_is_fitted(self, "model_")
        bags = check_bags(self, X, reset=False)
        return bags, self.beside(bags, covariates)

    def _fit_ensemble(self, batch: Batch, progress: Progress) -> Self:
        """Choose candidates and their weights, and fit them."""
        raise NotImplementedError

    def _refit_ensemble(self, batch: Batch, stages: Stages) -> None:
        """Fit the heads of the ensemble again."""
        raise NotImplementedError

    # What was fitted

    @property
    def chain_(self) -> Chain:
        """The fitted stages before the linear model: ``scaler_``, ``embedding_`` and ``features_``."""
        check_is_fitted(self, "model_")
        if self.is_ensemble:
            raise NoChainError(
                f"{type(self).__name__}: an ensemble has no single chain of stages, so it can't explain predictions or "
                "tell their deviations; fit one embedding by its name, such as 'js', without covariates"
            )
        return Chain(self.scaler_, self.embedding_, self.features_)

    def transform_features(self, X: Any) -> Array:
        """What the linear model sees of bags, ndarray of shape (n_bags, n_components)."""
        chain = self.chain_
        return np.asarray(chain.apply(np.asarray, check_bags(self, X, reset=False)))

    def explain(self, X: Any, *, output: Any = None) -> Any:
        """Which points made the predictions what they are: :func:`distembed.learners.explain.explain` of this model.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        output : optional
            Which of several targets, by its number, or which class, by its name.
        """
        return explain(self, X, output=output)

    # Stages

    def _new_stages(self) -> tuple[Any, Any]:
        """An unfitted scaler or None, and an unfitted embedding, with the symmetries of the learner."""
        found = new_stages(self, self.scale, self.embedding)
        return found if self.symmetries is None else with_symmetries(self, *found)

    def _fit_chain(self, batch: Batch, rng: np.random.RandomState, stages: Stages) -> Bags:
        """Choose the settings, and fit all stages before the linear model; returns the scaled bags."""
        clock, (scaler, embedding) = Clock(), self._new_stages()
        drawn = np.random.RandomState(rng.randint(2**31))  # what the model draws, however the search goes
        batch = batch if self.tune is None else batch.numbered(self)
        stages.begin("scaling points", None)
        scaled = batch.bags if scaler is None else scaler.fit(batch.bags).transform(batch.bags)
        clock.lap("scaling")
        seeded(embedding, rng, self.n_jobs)
        embedding = self._choose(embedding, batch._replace(bags=scaled), rng, stages)
        clock.lap("search")
        stages.begin("fitting the embedding" if self.n_components != "exact" else begun(self, scaled.n_bags), None)
        with self._only_what_was_chosen():
            embedding = embedding.fit(scaled)
        clock.lap("fitting the embedding")
        if getattr(embedding, "group_", None) is not None:
            check_symmetric(self, scaler, embedding)
        self._settle_model(embedding, batch._replace(bags=scaled), rng, stages)
        clock.lap("search")
        chain, unit, collapsed = Chain.fit(
            scaler, embedding, scaled, drawn, n_components=self.n_components,
            sigma_scale=self.best_params_["sigma_scale"], n_jobs=self.n_jobs,
        )  # fmt: skip
        self._warn_if_useless(*collapsed)
        self.scaler_, self.embedding_, self.features_ = chain.scaler, chain.embedding, chain.features
        self._penalty = self.best_params_["alpha"] * unit
        clock.lap("fitting the embedding")
        self.timings_ = clock.seconds
        return scaled

    def _warn_if_useless(self, word: str, wholly: bool) -> None:
        """Say so where held-out bags are predicted no better than by a constant, or features have collapsed."""
        found = self.search_
        share = f"the features of {'all' if wholly else 'most'} training bags are {word}"
        if found is not None:
            useless = found.best.error >= USELESS or (word != "" and found.gain < (3 if wholly else 1))
            why = f"; {share}" if word else ""
            fault = f"held-out bags are predicted no better than by a constant (search_){why}" if useless else ""
        else:
            fault = f"{share}, so that nothing can be learned from them" if wholly else ""
        if fault:
            said, other = f"{type(self).__name__}: {fault}; use ", Argument("embedding", "auto")
            remedy = " or another one, and see that bags have their own targets"
            warnings.warn(Message(said, other, remedy), UserWarning, stacklevel=4)

    @contextmanager
    def _only_what_was_chosen(self) -> Iterator[None]:
        """Without warnings of settings that the user did not choose, or that predictions of held-out bags judged."""
        with warnings.catch_warnings():
            if isinstance(self.embedding, str):
                warnings.simplefilter("ignore", UserWarning)
            elif self.search_ is not None:
                warnings.simplefilter("ignore", LowEnergyWarning)
            yield

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
            share = min(0.5, 0.1 * bags.n_bags / len(some.y))  # a tenth of all bags
            folds = some.folds(self.tune, self.has_classes, rng, share)
            D: Any = self.n_components
            judges = None if linear or D == "exact" else partial(judging_components, int(D), bags.n_bags)
            settings: dict[str, Any] = {
                "bandwidth_scales": self.bandwidth_scales, "sigma_scales": None if linear else self.sigma_scales,
                "alphas": self.alphas, "components_for": judges, "exhaustive": self.exhaustive, "rng": rng,
                "n_jobs": self.n_jobs, "stages": stages,
            }  # fmt: skip
            Y = self._columns(some.y).reshape(len(some.y), -1)
            if isinstance(embedding, Views) and not linear:
                self.search_, embedding = choose_views(embedding, some, Y, folds, **settings)
            else:
                self.search_ = search(embedding, some.bags, Y, some.weight, folds, **settings)
            self.best_params_ = {name: getattr(self.search_.best, name) for name in self.best_params_}
        return widened(embedding, self.best_params_["bandwidth_scale"])

    def _settle_model(self, embedding: Any, batch: Batch, rng: np.random.RandomState, stages: Stages) -> None:
        """Choose what else the linear model needs, from scaled bags and their fitted embedding."""

    def _learn(self, scaled: Bags, batch: Batch, stages: Stages) -> None:
        """Fit the linear model to scaled bags and coded targets."""
        chain, clock = Chain(self.scaler_, self.embedding_, self.features_), Clock(self.timings_)

        def rows() -> Iterator[tuple[Array, slice]]:
            stages.begin("learning", scaled.n_bags)
            for Z, some in chain.pieces(scaled, clock, training=True):
                yield Z, some
                stages.advance(some.stop - some.start)
            stages.begin("solving", None)

        self.model_ = self._fit_model(rows(), batch.y, batch.weight, self._penalty)
        self._learned_from(scaled, batch)
        clock.lap("linear model")

    def _learned_from(self, scaled: Bags, batch: Batch) -> None:
        """Hear of scaled bags and coded targets that are part of the linear model now."""

    def _checked(
        self, X: Any, y: Any, weight: Any = None, groups: Any = None, *, reset: bool = False, may_vanish: bool = False
    ) -> Batch:
        bags = check_bags(self, X, reset=reset)
        if reset or bags.has_ids:
            known = np.empty(0, np.uint32) if reset else self.trained_on_
            self.trained_on_ = hashed(bags.ids, known) if bags.has_ids else known
        targets = self._check_targets(by_id(y, bags, "y"), bags.n_bags)
        weight, groups = by_id(weight, bags, "sample_weight"), by_id(groups, bags, "groups")
        return Batch.checked(self, bags, targets, weight, groups, may_vanish)

    def predict(self, X: Any, covariates: Any = None) -> Any:
        """Predict the targets of bags."""
        raise NotImplementedError

    # Parameters

    def _check_parameters(self) -> None:
        if self.time_limit is not None:
            check_number(self, "time_limit", self.time_limit, low=0, inclusive="neither")
        if not self.is_auto:
            self._new_stages()
        check_components(self, self.n_components)
        if isinstance(self.tune, str):
            check_choice(self, "tune", self.tune, ("holdout",))
        elif self.tune is not None:
            remedy = "give a number of folds, 'holdout', or None for no search"
            check_number(self, "tune", self.tune, low=2, high=100, integer=True, remedy=remedy)
        for name in ("bandwidth_scales", "sigma_scales", "alphas", *(["Cs"] if self.has_classes else [])):
            check_scales(self, name, getattr(self, name))
        check_number(self, "max_search_bags", self.max_search_bags, low=10, integer=True)
