r"""A default that suits the table: many candidates, judged on the same held-out bags, and an ensemble of the best.

    bags -> views (scaler, embedding -> features) -> heads on each view -> predictions for held-out bags
         -> greedy selection with replacement -> weights of the candidates

No embedding wins on all tables: means do where classes are shifted, covariances where columns hang together, densities
where shapes differ, and statistics with a forest where columns are many and bags few. So each candidate is a pair of a
view and a head that suits it, all are judged on the same folds, and the ensemble is chosen as Caruana et al. (2004) do:
starting from the best few, the candidate is added that lowers the loss of the mean most, as often as it helps. On a
hundred bags that alone would fit noise; so it is done for many random halves of the candidates on resampled bags, and
the weights are averaged.

*Cost.* One fit per view, and per head one eigendecomposition or a few hundred trees for at most :data:`JUDGED` bags:
candidates are judged on some of the bags if there are more, and the chosen ones are fitted to all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.progress import Progress, Stages, stages_of
from .candidates import Candidate, candidates_for, views_for
from .chain import Batch, Chain, Clock
from .ensemble import Ensemble, View, greedy_weights, losses, mixed, side_by_side
from .leaderboard import Leaderboard
from .learner import Learner

JUDGED = 2000  # bags that take part in judging candidates
FEW_BAGS = 250  # below it the folds are drawn three times
N_FOLDS = 5
LEAST_BAGS = 6


class AutoFit(NamedTuple):
    """What :func:`fit_ensemble` found."""

    ensemble: Ensemble
    leaderboard: Leaderboard
    scoring: str


def fit_ensemble(
    batch: Batch,
    n_classes: int | None,
    rng: np.random.RandomState,
    stages: Stages,
    *,
    n_jobs: int | None = None,
    time_limit: float | None = None,
) -> AutoFit:
    """Judge all candidates, choose, and fit what was chosen.

    Parameters
    ----------
    batch : Batch
        Bags; codes of classes, or numbers of shape (n_bags, n_outputs); weights; groups.
    n_classes : int or None
        None: regression.
    rng : RandomState
        Draws folds, bags to judge on, and what embeddings and heads draw.
    stages : Stages
        Hear of candidates.
    n_jobs : int or None
        Threads.
    time_limit : float, optional
        Seconds after which no further candidate is tried; the model then depends on the clock.
    """
    seed, start = int(rng.randint(2**31)), perf_counter()
    part = batch.sample(JUDGED, rng)
    targets, weight = part.y, part.weight / part.weight.mean()
    folds = [fold for _ in range(3 if len(targets) < FEW_BAGS else 1) for fold in _folds(part, n_classes, rng)]
    views = {view.name: view for view in views_for(part.bags, seed, n_jobs)}
    candidates = candidates_for(list(views.values()), n_classes, len(targets), seed)
    stages.begin("trying candidates", len(candidates))
    fitted: dict[str, tuple[View, Array, Array, float]] = {}
    tried: list[tuple[Candidate, float]] = []
    for candidate in candidates:
        clock = perf_counter()
        if time_limit is not None and clock - start > time_limit and len(tried) > 1:
            break
        for name in candidate.views:
            if name not in fitted:
                view = views[name].fitted(part.bags)
                features = view.features(part.bags)
                mean = features.mean(axis=0)
                size = float(np.sqrt(np.mean(np.sum((features - mean) ** 2, axis=1)))) or 1.0
                fitted[name] = view, features, mean, size
        rows = side_by_side([fitted[name][1:] for name in candidate.views])
        candidate.head.fit(rows, targets, weight, folds)
        tried.append((candidate, perf_counter() - clock))
        stages.advance(1)
    stages.advance(len(candidates) - len(tried))
    held_out = np.stack([candidate.head.held_out_ for candidate, _ in tried])

    def each(found: Array, rows: Array) -> Array:
        return np.asarray(weight[rows] * losses(found, targets[rows], n_classes))

    weights = _chosen_weights(held_out, each, rng)
    chosen = [(candidate, share) for (candidate, _), share in zip(tried, weights, strict=True) if share > 0]
    used = {name for candidate, _ in chosen for name in candidate.views}
    ensemble = Ensemble(
        {name: (*fitted[name][0][1:], *fitted[name][2:]) for name in views if name in used},
        tuple((candidate.views, candidate.head) for candidate, _ in chosen),
        np.array([share for _, share in chosen]),
    )
    if len(part.y) < len(batch.y):
        ensemble = ensemble.refit(batch.bags, batch.y, batch.weight / batch.weight.mean(), stages)
    scoring = "r2" if n_classes is None else "neg_log_loss"
    judged = _rows(tried, held_out, weights, targets, weight, n_classes)
    cut = [candidate.name for candidate in candidates[len(tried) :]]
    return AutoFit(ensemble, Leaderboard(judged, scoring, cut), scoring)


def _chosen_weights(held_out: Array, each: Callable[[Array, Array], Array], rng: np.random.RandomState) -> Array:
    """Weights of all candidates, the first of which is the constant: where it counts, it shrinks predictions to it.

    The ensemble must be better than the constant by more than the standard error of their difference, because it is
    the best of many; else the constant counts alone.
    """
    everyone = np.arange(held_out.shape[1])
    weights = greedy_weights(held_out, lambda found, rows: float(each(found, rows).mean()), rng)
    weights[weights < 0.5 / len(held_out)] = 0.0  # what was chosen by chance costs time and space
    weights /= weights.sum()
    gain = each(held_out[0], everyone) - each(mixed(weights, held_out), everyone)
    if gain.mean() > gain.std() / np.sqrt(len(gain)):
        return weights
    return np.asarray(np.arange(len(held_out)) == 0, np.float64)


def _folds(part: Batch, n_classes: int | None, rng: np.random.RandomState) -> list[tuple[Array, Array]]:
    """Folds in which every class is learned from; fewer than usual, with a warning, where a class is rare."""
    most = len(part.y) if part.groups is None else len(np.unique(part.groups))
    n_folds = min(N_FOLDS, most)
    if n_classes is not None:
        rarest = int(np.bincount(part.y, minlength=n_classes).min())
        if rarest < n_folds:
            warnings.warn(
                f"'auto': the rarest class has {rarest} bags, so candidates are judged on {max(2, rarest)} folds in "
                f"place of {n_folds}; more bags of that class would tell them apart better",
                stacklevel=4,
            )
            n_folds = max(2, rarest)
    return part.folds(n_folds, n_classes is not None, rng)


def _rows(
    tried: Sequence[tuple[Candidate, float]],
    held_out: Array,
    weights: Array,
    targets: Array,
    weight: Array,
    n_classes: int | None,
) -> list[dict[str, Any]]:
    """Rows for all candidates: R², or minus the mean log loss, of bags that were held out."""
    rows = []
    for (candidate, seconds), predicted, share in zip(tried, held_out, weights, strict=True):
        each = losses(predicted, targets, n_classes)
        mean = float(np.average(each, weights=weight))
        error = float(np.sqrt(np.average((each - mean) ** 2, weights=weight) / len(each)))
        score = 1 - mean if n_classes is None else -mean
        row = {"name": candidate.name, "score": score, "standard_error": error, "weight": float(share)}
        rows.append({**row, "seconds": seconds})
    return rows


# --------------------------------------------------------------------------------------------------------------
# Learners
# --------------------------------------------------------------------------------------------------------------


class AutoLearner(Learner):
    """A learner that may choose an ensemble in place of one embedding: ``embedding="auto"``."""

    leaderboard_: Leaderboard
    scoring_: str
    time_limit: float | None

    @property
    def is_auto(self) -> bool:
        """Whether an ensemble is chosen in place of one embedding."""
        return isinstance(self.embedding, str) and self.embedding == "auto"

    @property
    def chain_(self) -> Chain:
        """The fitted stages before the linear model: ``scaler_``, ``embedding_`` and ``features_``."""
        if isinstance(getattr(self, "model_", None), Ensemble):
            raise ValueError(
                f"{type(self).__name__}('auto'): an ensemble of several embeddings has no single chain to explain, "
                "refit or add to; fit one embedding by its name, such as 'js', for that"
            )
        return super().chain_

    def _check_parameters(self) -> None:
        if self.time_limit is not None:
            check_number(self, "time_limit", self.time_limit, low=0, inclusive="neither")
        if not self.is_auto:
            super()._check_parameters()

    def _check_counts(self, batch: Batch) -> None:
        """Refuse fewer bags than can be held out, and classes of one bag."""
        name = f"{type(self).__name__}('auto')"
        if len(batch.y) < LEAST_BAGS:
            raise ValueError(
                f"{name}: needs at least {LEAST_BAGS} bags to hold some out, got {len(batch.y)}; name one embedding, "
                "such as 'mean', with tune=None"
            )
        if self.has_classes:
            counts = np.bincount(batch.y, minlength=len(self.classes_))
            if counts.min() < 2:
                alone = self.classes_.tolist()[int(counts.argmin())]
                raise ValueError(
                    f"{name}: every class must have at least two bags, got one of {alone!r}; leave that class out, or "
                    "add bags of it"
                )

    def _check_batches(self) -> None:
        if self.is_auto:
            raise ValueError(
                f"{type(self).__name__}('auto'): needs all bags at once; name one embedding for batches, such as 'js'"
            )

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, progress: Progress = False) -> Self:
        """Choose the settings, and fit all stages; see :meth:`Learner.fit` for the parameters."""
        if not self.is_auto:
            return super().fit(X, y, sample_weight, groups, progress)
        self._check_parameters()
        batch = self.settled(X, y, sample_weight, groups)
        self._check_counts(batch)
        clock, n_classes = Clock(), len(self.classes_) if self.has_classes else None
        self._n_outputs = batch.y.shape[1:]
        targets = batch.y if self.has_classes else batch.y.reshape(len(batch.y), -1)
        with stages_of(progress, f"{type(self).__name__}.fit") as stages:
            found = fit_ensemble(
                batch.numbered(self)._replace(y=targets), n_classes, check_random_state(self.random_state), stages,
                n_jobs=self.n_jobs, time_limit=self.time_limit,
            )  # fmt: skip
        self.model_, self.leaderboard_, self.scoring_ = found.ensemble, found.leaderboard, found.scoring
        self.search_, self.best_params_ = None, {}
        clock.lap("candidates")
        self.timings_ = clock.seconds
        return self

    def refit(self, X: Any, y: Any, sample_weight: Any = None, *, progress: Progress = False) -> Self:
        """Learn from other bags with what ``fit`` chose; see :meth:`Learner.refit` for the parameters.

        Of an ensemble views, settings of heads, calibration of probabilities and weights of members stay.
        """
        if not isinstance(getattr(self, "model_", None), Ensemble):
            return super().refit(X, y, sample_weight, progress=progress)
        batch = self.settled_again(X, y, sample_weight)
        targets = batch.y if self.has_classes else batch.y.reshape(len(batch.y), -1)
        with stages_of(progress, f"{type(self).__name__}.refit") as stages:
            self.model_ = self.model_.refit(batch.bags, targets, batch.weight / batch.weight.mean(), stages)
        return self
