r"""A default that suits the table: many candidates, judged on the same held-out bags, and an ensemble of the best.

    bags -> views (scaler, embedding -> features) -> heads on each view -> predictions for held-out bags
         -> greedy selection with replacement -> weights of the candidates

No embedding wins on all tables: means do where classes are shifted, covariances where columns hang together, densities
where shapes differ, and statistics with a forest where columns are many and bags few. So each candidate is a pair of a
view and a head that suits it, all are judged on the same folds, and the ensemble is chosen as Caruana et al. (2004) do:
starting from the best few, the candidate is added that lowers the loss of the mean most, as often as it helps. On a
hundred bags that alone would fit noise; so it is done for many samples of the bags, and the weights are averaged.

*Cost.* One fit per view, and per head one eigendecomposition or a few hundred trees for at most :data:`JUDGED` bags:
candidates are judged on some of the bags if there are more, and the chosen ones, at most :data:`MOST_MEMBERS` for more
than 3,000 bags, are fitted to all. Processor seconds of ``"auto"`` over those of ``"js"``, settings chosen for both, on
the paper's mixtures: 21 over 15 for 1,000 bags, 84 over 29 for 10,000 (``experiments/ensemble.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message
from ..compute.parallel import run_chunks
from ..compute.progress import Progress, Stages, stages_of
from .batches import BatchLearner
from .candidates import COVARIATES, Candidate, Library, views_for
from .chain import Batch, Clock, new_stages, seeded, subset
from .classes import check_rare
from .ensemble import Ensemble, FittedView, View, greedy_weights, losses, mixed, side_by_side
from .heads import MOST_ROWS, KernelHead
from .leaderboard import Leaderboard
from .symmetry import refuse_in_ensembles

JUDGED = 2000  # bags that take part in judging candidates
MOST_MEMBERS = 5  # beside the constant, where bags are more than a kernel matrix holds and each member takes long
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
    named: View | None = None,
    grows: bool = False,
    n_jobs: int | None = None,
    time_limit: float | None = None,
) -> AutoFit:
    """Judge all candidates, choose, and fit what was chosen.

    Parameters
    ----------
    batch : Batch
        Bags; codes of classes, or numbers of shape (n_bags, n_outputs); weights; groups; encoded covariates.
    n_classes : int or None
        None: regression.
    rng : RandomState
        Draws folds, bags to judge on, and what embeddings and heads draw.
    stages : Stages
        Hear of candidates.
    named : View, optional
        The only view of points besides their mean.
    grows : bool, default=False
        Whether the ensemble is to learn from batches that follow, and the bags at hand only choose it.
    n_jobs : int or None
        Threads.
    time_limit : float, optional
        Seconds after which no further candidate is tried; the model then depends on the clock.
    """
    seed, start = int(rng.randint(2**31)), perf_counter()
    part = _judging(batch, n_classes, rng)
    repeats, has_classes = range(3 if len(part.y) < FEW_BAGS else 1), n_classes is not None
    folds = [fold for _ in repeats for fold in part.folds(N_FOLDS, has_classes, rng)]
    views, candidates = _library(part, n_classes, seed, named, grows, n_jobs)
    until = np.inf if time_limit is None else start + time_limit
    fitted, tried = _judged(views, candidates, part, folds, stages, n_jobs, until)
    held_out = np.stack([candidate.head.held_out_ for candidate, _ in tried])

    def losses_of(found: Array, rows: Array) -> Array:
        return np.asarray(part.weight[rows] * losses(found, part.y[rows], n_classes))

    most = MOST_MEMBERS if grows or len(batch.y) > MOST_ROWS else len(tried)
    weights = _chosen_weights(held_out, losses_of, most, has_classes, rng)
    chosen = [(candidate, share) for (candidate, _), share in zip(tried, weights, strict=True) if share > 0]
    ensemble = Ensemble(
        {name: fitted[name][0] for name in views if any(name in candidate.views for candidate, _ in chosen)},
        tuple((candidate.views, candidate.head) for candidate, _ in chosen),
        np.array([share for _, share in chosen]),
    )
    if grows:
        ensemble = ensemble.growing()
    elif len(part.y) < len(batch.y):
        ensemble = ensemble.refit(batch.bags, batch.y, batch.weight / batch.weight.mean(), batch.beside, stages)
    scoring = "r2" if n_classes is None else "neg_log_loss"
    judged = _rows(tried, held_out, weights, part.y, part.weight, n_classes)
    cut = [candidate.name for candidate in candidates if all(candidate is not one for one, _ in tried)]
    return AutoFit(ensemble, Leaderboard(judged, scoring, cut), scoring)


def _judging(batch: Batch, n_classes: int | None, rng: np.random.RandomState) -> Batch:
    """The bags on which candidates are judged, weights of mean one; some of every class."""
    some = subset(len(batch.y), JUDGED, batch.groups, rng)
    for code in range(n_classes or 0):
        own = np.flatnonzero(batch.y == code)
        some = np.union1d(some, own if np.isin(own, some).sum() < N_FOLDS and len(own) < 2 * N_FOLDS else own[:0])
    part = batch.take(some)
    return part._replace(weight=part.weight / part.weight.mean())


def _library(
    part: Batch, n_classes: int | None, seed: int, named: View | None, grows: bool, n_jobs: int | None
) -> tuple[dict[str, View], list[Candidate]]:
    """Views by name, and candidates; constant and mean come first."""
    views, library = views_for(part.bags, seed, n_jobs), Library(part.y, n_classes, seed)
    if named is not None:
        views = [views[0], named]
    candidates = library.of(views) if named is None else library.named(named.name)
    if part.beside is not None:
        views.append(View(COVARIATES, None, None))
        candidates = library.with_covariates(candidates)
    return {view.name: view for view in views}, library.growing(candidates) if grows else candidates


def _judged(
    views: dict[str, View],
    candidates: Sequence[Candidate],
    part: Batch,
    folds: Sequence[tuple[Array, Array]],
    stages: Stages,
    n_jobs: int | None,
    until: float,
) -> tuple[dict[str, tuple[FittedView, Array]], list[tuple[Candidate, float]]]:
    """Fitted views with their features; and candidates, fitted, with the seconds that each would take alone.

    Views have threads of their own; then heads are fitted at the same time. After ``until`` none is begun but the first
    two, the constant and the mean.
    """
    fitted: dict[str, tuple[FittedView, Array]] = {}
    seconds: dict[str, float] = {}
    stages.begin("embedding for candidates", len(views))
    for name, view in views.items():
        clock = perf_counter()
        if not fitted or clock < until:
            fitted[name] = view.fitted(part.bags, part.beside)
            seconds[name] = perf_counter() - clock
        stages.advance(1)
    spent: dict[str, float] = {}
    one_at_a_time = Lock()
    stages.begin("trying candidates", len(candidates))

    def work(group: Sequence[Candidate], _: Scratch) -> None:
        sigma: dict[str, float] = {}  # heads of the same rows share it
        for candidate in group:
            clock = perf_counter()
            if all(name in fitted for name in candidate.views) and (clock < until or candidate in candidates[:2]):
                rows = side_by_side([fitted[name][::-1] for name in candidate.views])
                smooth = isinstance(candidate.head, KernelHead) and candidate.head.kernel == "rbf"
                candidate.head.fit(rows, part.y, part.weight, folds, **(sigma if smooth else {}))
                if smooth:
                    sigma["sigma"] = candidate.head.scale_
                spent[candidate.name] = perf_counter() - clock + sum(seconds[name] for name in candidate.views)
            with one_at_a_time:
                stages.advance(1)

    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.views, []).append(candidate)
    run_chunks(work, list(groups.values()), n_jobs)
    return fitted, [(candidate, spent[candidate.name]) for candidate in candidates if candidate.name in spent]


def _chosen_weights(
    held_out: Array,
    losses_of: Callable[[Array, Array], Array],
    most: int,
    has_classes: bool,
    rng: np.random.RandomState,
) -> Array:
    """Weights of all candidates, the first of which is the constant: what it counts shrinks predictions to it.

    At most so many others have weights: where there are more, the heaviest are chosen from again.

    With a gain over the constant of g, and its standard error s, the constant counts (s / g)² (James and Stein): on
    held-out bags the ensemble looks better than it is, because it is the best of many. Of probabilities it counts at
    least 1 / (n + 1), so that nothing is impossible after n bags, and at most a half, which leaves the order of classes
    as it is where they have equal weights.
    """
    everyone = np.arange(held_out.shape[1])
    weights = greedy_weights(held_out, losses_of, rng)
    if np.count_nonzero(weights) > most:
        some, weights = np.sort(np.argsort(-weights, kind="stable")[:most]), np.zeros(len(weights))
        weights[some] = greedy_weights(held_out[some], losses_of, rng)
    gain = losses_of(held_out[0], everyone) - losses_of(mixed(weights, held_out), everyone)
    error, mean = gain.std() / np.sqrt(len(gain)), gain.mean()
    share = 1.0 if mean <= error else (error / mean) ** 2
    weights *= 1 - (np.clip(share, 1 / (len(gain) + 1), 0.5) if has_classes else share)
    weights[0] += 1 - weights.sum()
    return weights


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


class AutoLearner(BatchLearner):
    """A learner that chooses an ensemble, for ``embedding="auto"`` and for covariates."""

    leaderboard_: Leaderboard
    scoring_: str
    time_limit: float | None
    _weight_unit: float  # mean weight of the bags that chose the ensemble

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's picture of the parameters and, of an ensemble, its leaderboard."""
        found: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in found and self.is_ensemble:
            found["text/html"] += self.leaderboard_.html()
        return found

    def _fit_ensemble(self, batch: Batch, progress: Progress) -> Self:
        batch = batch.numbered(self)
        self._check_counts(batch)
        with stages_of(progress, f"{type(self).__name__}.fit") as stages:
            self._choose_ensemble(batch, check_random_state(self.random_state), stages)
        return self

    def _choose_ensemble(self, batch: Batch, rng: np.random.RandomState, stages: Stages, grows: bool = False) -> None:
        """Set what was fitted."""
        refuse_in_ensembles(self)
        clock, n_classes = Clock(), len(self.classes_) if self.has_classes else None
        self._n_outputs = batch.y.shape[1:]
        found = fit_ensemble(
            self._as_columns(batch.numbered(self)), n_classes, rng, stages,
            named=self._named_view(rng), grows=grows, n_jobs=self.n_jobs, time_limit=self.time_limit,
        )  # fmt: skip
        self.model_, self.leaderboard_, self.scoring_ = found.ensemble, found.leaderboard, found.scoring
        self.search_, self.best_params_ = None, {}
        if (batch.y != batch.y[0]).any():  # of constant targets all is said
            self._warn_if_useless_ensemble()
        clock.lap("candidates")
        self.timings_ = clock.seconds

    def _warn_if_useless_ensemble(self) -> None:
        """Say so where the best candidate is not better than the constant by half a standard error."""
        best = self.leaderboard_[0]
        constant = max((row["score"] for row in self.leaderboard_ if row["name"] == "constant"), default=-np.inf)
        if best["score"] - constant <= 0.5 * best["standard_error"]:
            time = (", or give a longer ", Argument("time_limit")) if self.leaderboard_.cut else ()
            said = "no candidate predicts held-out bags clearly better than a constant (leaderboard_); see that bags "
            message = Message(f"{type(self).__name__}: {said}have their own targets, add bags", *time)
            warnings.warn(message, UserWarning, stacklevel=5)

    def _refit_ensemble(self, batch: Batch, stages: Stages) -> None:
        bags, y, weight, _, beside = self._as_columns(batch)
        self.model_ = self.model_.refit(bags, y, weight / weight.mean(), beside, stages)

    def _as_columns(self, batch: Batch) -> Batch:
        """Targets as heads take them: codes of classes, or a matrix."""
        return batch if self.has_classes else batch._replace(y=batch.y.reshape(len(batch.y), -1))

    def _named_view(self, rng: np.random.RandomState) -> View | None:
        """The one embedding that was asked for; None for ``"auto"``."""
        if self.is_auto:
            return None
        scaler, embedding = new_stages(self, self.scale, self.embedding)
        seeded(embedding, rng, self.n_jobs)
        return View(self.embedding if isinstance(self.embedding, str) else type(embedding).__name__, scaler, embedding)

    def _check_counts(self, batch: Batch) -> None:
        """Refuse fewer bags than can be held out, and classes of one bag."""
        name = f"{type(self).__name__}{'(' + repr('auto') + ')' if self.is_auto else ''}"
        if len(batch.y) < LEAST_BAGS:
            raise ValueError(
                f"{name}: needs at least {LEAST_BAGS} bags to hold some out, got {len(batch.y)}; name one embedding, "
                "such as 'mean', with tune=None"
            )
        if self.has_classes:
            check_rare(name, self.classes_, batch.y, N_FOLDS)

    # Batches

    def _begin(self, sample: Batch, rng: np.random.RandomState, stages: Stages) -> None:
        if not self.is_auto:
            super()._begin(sample, rng, stages)
            return
        batch = self._weighted(sample._replace(y=self._coded(sample.y)), reset=True)
        self._check_counts(batch)
        self._choose_ensemble(batch, rng, stages, grows=True)
        self._weight_unit = float(batch.weight.mean())
        self.n_batches_seen_, self._n_bags_seen = 0, 0

    def _learn_more(self, batch: Batch) -> None:
        if not self.is_ensemble:
            super()._learn_more(batch)
            return
        if not self.model_.grows:
            raise ValueError(
                f"{type(self).__name__}: bags can be added to an ensemble that partial_fit or fit_batches began, this "
                "one comes from fit; use refit with all bags"
            )
        clock, (bags, y, weight, _, _) = Clock(self.timings_), self._as_columns(batch)
        self.model_.partial_fit(bags, y, weight / self._weight_unit)
        clock.lap("learning")
