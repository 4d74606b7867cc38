"""One member: an embedding whose settings a search chooses, random features, and a linear head.

    bags -> scaler -> embedding (bandwidth) -> random features (sigma) -> linear head (alpha, or C)

The settings are chosen on held-out bags, see :mod:`distembed.learners.search`; then all stages are fitted to all bags.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..basis import LowEnergyWarning
from ..compute.arrays import Array
from ..compute.checks import Argument, Message, collapsed
from ..compute.progress import Stages
from ..embeddings.views import Views
from ..features import RandomFourierFeatures
from ..features.exact_kernel import KernelFeatures, starting_with
from ..models.calibration import N_NEAR_FOLDS, calibrate, log_shares
from ..models.folds import Folds, inner_folds, sample_rows
from ..models.held_out import Softmax, downhill, softmax_by_folds, spectrum, thin_spectrum
from ..models.linear_head import DEFAULT_ALPHA, DEFAULT_C, LinearHead, class_scores, squared_hinges, support_vectors
from .batch import Batch, Clock
from .error_law import ClassLaw, ErrorLaw, known_sizes, learn_law
from .leaderboard import ENSEMBLE, Leaderboard, leaderboard_row
from .model import Member, Model
from .scores import Score
from .search import (
    Kernels,
    Search,
    choose_views,
    judging_components,
    mean_square,
    search,
    single_or_default,
    widen,
    width_name,
)
from .stacking import HeldOut, score_choice
from .targets import Classes, Numbers
from .view import BagRows, FittedView, check_symmetric, name_of, new_scaler_and_embedding, set_seeds

FEWEST_TO_TUNE = 5  # bags, of which some are held out to choose settings
SIGMA_BAGS = 2000  # whose distances sigma is a multiple of the median of
C_BAGS = 4000  # bags that choose C, at most
MOST_DIRECTIONS = 1000  # of the kernel, in which logistic regression chooses C
USELESS = 0.999  # error of predictions, where that of a constant is one


class Choice(NamedTuple):
    """What a learner chose: the fitted model, how good candidates were, and what was tried."""

    model: Model
    leaderboard: Leaderboard
    search: Search | None
    best_params: dict[str, Any]
    timings: dict[str, float]
    law: ErrorLaw | ClassLaw | None


def tuned_name(owner: Any) -> str:
    """What the leaderboard calls the one member of a learner."""
    return f"{name_of(owner.embedding)}, tuned-{getattr(owner, 'model', 'ridge')}"


def tune_member(
    owner: Any,
    batch: Batch,
    targets: Numbers | Classes,
    rng: np.random.RandomState,
    stages: Stages,
    grows: bool = False,
) -> Choice:
    """Choose the settings of one member on held-out bags, and fit it.

    Parameters
    ----------
    owner : Learner
        Whose parameters choose what is tried.
    batch : Batch
        Bags, with coded targets.
    targets : Numbers or Classes
        What the targets are.
    rng : RandomState
        Draws held-out bags, and what embeddings, features and heads draw.
    stages : Stages
        Receives progress, over settings and over bags that are learned from.
    grows : bool, default=False
        Whether batches follow, and the bags at hand only choose.
    """
    clock = Clock()
    scaler, embedding = new_scaler_and_embedding(owner)
    drawn = np.random.RandomState(rng.randint(2**31))  # what the model draws, however the search goes
    judging = batch if owner.tune is None else batch.number_groups(owner)
    stages.begin("scaling points", None)
    scaled = batch.bags if scaler is None else scaler.fit(batch.bags).transform(batch.bags)
    clock.lap("scaling")
    set_seeds(embedding, rng, owner.n_jobs)
    tuner = _Tuner(owner, judging._replace(bags=scaled), targets, rng, stages)
    embedding = tuner.choose_settings(embedding)
    clock.lap("search")
    exact = owner.n_components == "exact"
    stages.begin("fitting the embedding" if not exact else starting_with(owner, scaled.n_bags), None)
    with _without_idle_warnings(owner, tuner.search):
        embedding = embedding.fit(scaled)
    clock.lap("fitting the embedding")
    if getattr(embedding, "group_", None) is not None:
        check_symmetric(owner, scaler, embedding)
    head = tuner.choose_head(embedding)
    clock.lap("search")
    view, unit, look = _fit_features(owner, scaler, embedding, scaled, drawn, tuner.params["sigma_scale"])
    _warn_if_useless(owner, tuner.search, *look)
    head.set_params(alpha=tuner.params["alpha"], unit=unit)
    clock.lap("fitting the embedding")
    name = name_of(owner.embedding)
    model = Model({name: view}, (Member((name,), head),), np.ones(1), grows=head.grows)
    if grows:
        model = model.for_batches(1.0)
    else:
        head.refit(BagRows(view, scaled, clock, True, stages), batch.y, batch.weight, batch.groups)
        clock.lap("linear model")
    held_out, sizes = tuner.held_out()
    board = _leaderboard(owner, targets, held_out, sum(clock.seconds.values()))
    law = None
    if held_out is not None:
        whole = Score(board.ensemble["score"], board.ensemble["standard_error"])
        law = learn_law(held_out, np.array([0.0, 1.0, 0.0]), held_out.predicted[2], sizes, whole)
    return Choice(model, board, tuner.search, tuner.params, clock.seconds, law)


def _fit_features(
    owner: Any, scaler: Any, embedding: Any, scaled: Bags, rng: np.random.RandomState, sigma_scale: float | None
) -> tuple[FittedView, float, tuple[str, bool]]:
    """Fit features of a kernel to the rows of scaled bags.

    Returns
    -------
    view : FittedView
    unit : float
        In what penalties of the linear model are measured: one for features of a kernel, else the mean squared distance
        of the embedding's features from their mean, by which the search divides its kernel.
    collapsed : (str, bool)
        What these features have in common, see :func:`~distembed.compute.checks.collapsed`.
    """
    seed = int(rng.randint(2**31))
    n_components = owner.n_components
    with warnings.catch_warnings():  # of training bags, and of features, of which the learner tells
        warnings.simplefilter("ignore", UserWarning)
        some = scaled if n_components == "exact" else scaled[sample_rows(scaled.n_bags, SIGMA_BAGS, None, rng)]
        A = np.asarray(embedding.transform(some))
        if n_components is None:
            return FittedView(scaler, embedding), mean_square(A), collapsed(A)
        if hasattr(embedding, "kernel_features"):
            features = embedding.kernel_features(n_components, seed, owner.n_jobs)
        else:
            exact = n_components == "exact"
            features = KernelFeatures() if exact else RandomFourierFeatures(n_components, n_jobs=owner.n_jobs)
            group = getattr(embedding, "group_", None)
            features.set_params(sigma_scale=sigma_scale or 1.0, random_state=seed, group=group)
        return FittedView(scaler, embedding, features.fit(A)), 1.0, collapsed(A)


@contextmanager
def _without_idle_warnings(owner: Any, found: Search | None) -> Iterator[None]:
    """Without warnings of settings that the user did not choose, or that held-out bags have scored."""
    with warnings.catch_warnings():
        if isinstance(owner.embedding, str):
            warnings.simplefilter("ignore", UserWarning)
        elif found is not None:
            warnings.simplefilter("ignore", LowEnergyWarning)
        yield


def _warn_if_useless(owner: Any, found: Search | None, word: str, wholly: bool) -> None:
    """Warn if held-out bags are predicted no better than by a constant, or features have collapsed."""
    share = f"the features of {'all' if wholly else 'most'} training bags are {word}"
    if found is not None:
        useless = found.best.error >= USELESS or (word != "" and found.gain < (3 if wholly else 1))
        why = f"; {share}" if word else ""
        fault = f"held-out bags are predicted no better than by a constant (search_){why}" if useless else ""
    else:
        fault = f"{share}, so nothing can be learned from them" if wholly else ""
    if fault:
        said = f"{type(owner).__name__}: {fault}; use "
        other = Argument("embedding", "auto")
        remedy = " or another one, and check that y matches the right bags, or collect more"
        warnings.warn(Message(said, other, remedy), UserWarning, stacklevel=5)


class _Tuner:
    """What chooses settings: of the kernel for all models, then C of those that have one.

    Parameters
    ----------
    owner : Learner
    batch : Batch
        Scaled bags, coded targets, numbers for groups.
    targets, rng, stages
        As of :func:`tune_member`.
    """

    def __init__(
        self, owner: Any, batch: Batch, targets: Numbers | Classes, rng: np.random.RandomState, stages: Stages
    ) -> None:
        self.owner = owner
        self.search: Search | None = None
        self.params: dict[str, Any] = {}
        self._judged: tuple[Array | None, Array | None, Batch, Folds, bool] | None = None
        self._batch = batch
        self._targets = targets
        self._rng = rng
        self._stages = stages

    def choose_settings(self, embedding: Any) -> Any:
        """Set ``search`` and ``params``; returns the embedding that smooths as far as was chosen."""
        owner = self.owner
        batch = self._batch
        linear = self.owner.n_components is None
        has_width = width_name(embedding) is not None
        self.params = {
            "bandwidth_scale": single_or_default(owner.bandwidth_scales, 1.0) if has_width else None,
            "sigma_scale": None if linear else single_or_default(owner.sigma_scales, 1.0),
            "alpha": single_or_default(owner.alphas, DEFAULT_ALPHA),
        }
        n_bags = batch.bags.n_bags
        groups = batch.groups
        few = n_bags < FEWEST_TO_TUNE or (groups is not None and len(np.unique(groups)) < 3)
        if owner.tune is None or few:
            return widen(embedding, self.params["bandwidth_scale"])
        some = batch.sample(owner.max_search_bags, self._rng)
        share = min(0.5, 0.1 * n_bags / len(some.y))  # a tenth of all bags
        folds = some.folds(owner.tune, self._targets.n_classes is not None, self._rng, share)
        D: Any = owner.n_components
        settings: dict[str, Any] = {
            "bandwidth_scales": owner.bandwidth_scales,
            "sigma_scales": None if linear else owner.sigma_scales,
            "alphas": owner.alphas,
            "components_for": None if linear or D == "exact" else partial(judging_components, int(D), n_bags),
            "exhaustive": owner.exhaustive,
            "rng": self._rng,
            "n_jobs": owner.n_jobs,
            "stages": self._stages,
        }
        Y = self._targets.columns(some.y)
        if isinstance(embedding, Views) and not linear:
            self.search, embedding = choose_views(embedding, some, Y, folds, **settings)
        else:
            self.search = search(embedding, some.bags, Y, some.weight, folds, **settings)
        self.params = {name: getattr(self.search.best, name) for name in self.params}
        self._judged = self.search.held_out, self.search.cross_fitted, some, folds, False
        return widen(embedding, self.params["bandwidth_scale"])

    def held_out(self) -> tuple[HeldOut | None, Array]:
        """Held-out predictions of the constant, of the member, and of the choice of its settings by other bags.

        And the sizes of these bags. None if nothing was held out, or not bags of all classes. Scores of ridge become
        probabilities.
        """
        nothing = None, np.empty(0)
        if self._judged is None:
            return nothing
        predicted, honest, batch, folds, are_probabilities = self._judged
        if predicted is None or honest is None:
            return nothing
        held = np.flatnonzero(np.isfinite(predicted).all(axis=1) & np.isfinite(honest).all(axis=1))
        y = batch.y[held]
        weight = batch.weight[held]
        groups = None if batch.groups is None else batch.groups[held]
        k = self._targets.n_classes
        both = [predicted[held], honest[held]]
        if k is not None and not are_probabilities:
            if len(np.unique(y)) < k:
                return nothing
            parts = inner_folds(y, groups, 0, N_NEAR_FOLDS)
            both = [calibrate(log_shares(each), y, weight, k, parts)[1] for each in both]
        constant = _predict_constant(batch, folds, k)[held]
        found = HeldOut(np.stack([constant, *both]), y, weight, k, groups, len(folds))
        return found, known_sizes(batch.bags, 1.0)[held]

    def choose_head(self, embedding: Any) -> LinearHead:
        """The unfitted head; of logistic regression and support vectors, C is chosen for a fitted embedding."""
        if isinstance(self._targets, Numbers):
            return LinearHead()
        owner = self.owner
        k = self._targets.n_classes
        seed = int(self._rng.randint(2**31))
        head = LinearHead(owner.model, n_classes=k, random_state=seed)
        if owner.model == "ridge":
            return head
        self.params["C"] = single_or_default(owner.Cs, DEFAULT_C)
        if self.search is not None:
            some = self._batch.sample(min(owner.max_search_bags, C_BAGS), self._rng)
            pairs = some.folds(owner.tune, True, self._rng)
            folds = [pair for pair in pairs if len(np.unique(some.y[pair[0]])) > 1]
            if folds and owner.model == "svm":
                head.calibration = self._choose_svm(embedding, some, folds, seed)
            elif folds and len(owner.Cs) > 1:
                self._stages.begin("choosing C", None)
                self._choose_logistic(embedding, some, folds, seed)
        head.set_params(C=self.params["C"])
        return head

    def _choose_logistic(self, embedding: Any, batch: Batch, folds: Folds, seed: int) -> None:
        """The C of least log loss on held-out bags, in the leading directions of the exact kernel."""
        F = np.asarray(embedding.transform(batch.bags), np.float64)
        k = self._targets.n_classes or 0
        if self.owner.n_components is None and F.shape[1] <= len(F):
            found = thin_spectrum((F - F.mean(axis=0)) / np.sqrt(mean_square(F)), batch.weight)
        else:
            found = spectrum(self._kernel(F, embedding, seed), batch.weight, MOST_DIRECTIONS, seed)
        rows = found.features(MOST_DIRECTIONS)
        Cs = sorted({float(C) for C in self.owner.Cs})
        predicted, C, _ = softmax_by_folds(rows, batch.y, batch.weight, k, folds, Cs)
        self.params["C"] = C
        self._judged = predicted, predicted, batch, folds, True

    def _choose_svm(self, embedding: Any, batch: Batch, folds: Folds, seed: int) -> Softmax | None:
        """The C of least loss on held-out bags, with the exact kernel; returns calibration on the scores of these."""
        Cs = sorted({float(C) for C in self.owner.Cs})
        bags, y, weight, groups, _ = batch
        self._stages.begin("choosing C", len(Cs) * len(folds))
        F = np.asarray(embedding.transform(bags), np.float64)
        k = self._targets.n_classes or 0
        Z = self._kernel_rows(F, embedding, seed)
        scores: dict[int, Array] = {}

        def loss(i: int) -> float:
            scores[i] = np.full((len(y), k), np.nan)
            total = 0.0
            for train, held in folds:
                model = support_vectors(Cs[i], seed).fit(Z[train], y[train], sample_weight=weight[train])
                total += float(weight[held] @ squared_hinges(model, Z[held], y[held]))
                scores[i][held] = class_scores(model, Z[held], k)
                self._stages.advance(1)
            return total

        best = downhill(loss, len(Cs), len(Cs) // 2)
        self._stages.advance((len(Cs) - len(scores)) * len(folds))
        self.params["C"] = Cs[best]
        held = np.flatnonzero(np.isfinite(scores[best][:, 0]))
        if len(np.unique(y[held])) < k:
            return None
        inner = inner_folds(y[held], None if groups is None else groups[held], seed)
        model, predicted = calibrate(scores[best][held], y[held], weight[held], k, inner)
        everyone = np.full((len(y), k), np.nan)
        everyone[held] = predicted
        self._judged = everyone, everyone, batch, folds, True
        return model

    def _kernel(self, F: Array, embedding: Any, seed: int) -> Array:
        if isinstance(embedding, Views):
            rows = embedding.kernel_features("exact", seed, self.owner.n_jobs).fit_transform(F)
            return np.asarray(rows @ rows.T)
        group = getattr(embedding, "group_", None)
        return Kernels(F, None, seed, self.owner.n_jobs, group=group)(self.params["sigma_scale"])

    def _kernel_rows(self, F: Array, embedding: Any, seed: int) -> Array:
        """Rows whose dot products are the kernel: that of random features, or of the features themselves."""
        if self.owner.n_components is None and F.shape[1] <= len(F):
            return np.asarray((F - F.mean(axis=0)) / np.sqrt(mean_square(F)))
        K = self._kernel(F, embedding, seed)
        K[np.diag_indices(len(K))] += 1e-6  # equal bags
        return np.asarray(np.linalg.cholesky(K))


def _predict_constant(batch: Batch, folds: Folds, n_classes: int | None) -> Array:
    """What a constant predicts for bags that are held out; zero for others."""
    found = np.zeros((len(batch.y), n_classes or batch.y.shape[1]))
    outputs = batch.y if n_classes is None else np.eye(n_classes)[batch.y]
    for train, held in folds:
        found[held] = np.average(outputs[train], axis=0, weights=batch.weight[train])
    return found


def _leaderboard(owner: Any, targets: Numbers | Classes, held_out: HeldOut | None, seconds: float) -> Leaderboard:
    """The one member, the constant and the model, with scores where bags were held out."""
    unknown = Score(np.nan, np.nan)
    constant, member, whole = (unknown,) * 3
    if held_out is not None:
        constant, member, _ = map(held_out.score, held_out.predicted)
        whole = score_choice(held_out, *held_out.predicted[1:])
    rows = [
        leaderboard_row(tuned_name(owner), member, share=1.0, seconds=seconds),
        leaderboard_row(ENSEMBLE, whole, share=np.nan, seconds=seconds),
    ]
    if held_out is not None:
        rows.append(leaderboard_row("constant", constant, share=0.0, seconds=0.0))
    return Leaderboard(rows, "r2" if targets.n_classes is None else "neg_log_loss")
