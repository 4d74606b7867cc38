r"""Members by competition: many candidates, scored on the same held-out bags, and a weighted mean of the best.

    bags -> views (scaler, embedding -> features) -> heads on each view -> predictions for held-out bags
         -> greedy selection with replacement -> weights of the candidates

No embedding wins on all tables: means do where classes are shifted, covariances where columns are correlated, densities
where shapes differ, and statistics with a forest where columns are many and bags few. So each candidate is a pair of a
view and a head that suits it, all are scored on the same folds, and :mod:`distembed.learners.stacking` weighs them.

Most of them leave early, in a race on some of the bags (:mod:`distembed.learners.race`).

*Cost.* One fit per view, and per head that stays in the race a few inverses of a kernel matrix or a few hundred trees
for at most :data:`MOST_SCORED` bags: candidates are scored on some of the bags if there are more, and the chosen ones,
at most :data:`MOST_MEMBERS` for more than 3,000 bags, are fitted to all (``experiments/ensemble.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message
from ..compute.parallel import run_chunks
from ..compute.progress import Stages
from ..models.base import Head
from ..models.folds import Folds, sample_rows
from ..models.kernel_head import MOST_FOR_KERNEL_MATRIX, KernelHead
from .batch import Batch, Clock
from .candidates import CONSTANT, VARIANTS, Candidate, Request, library_for, own_view
from .error_law import known_sizes, learn_law
from .leaderboard import ENSEMBLE, Leaderboard, leaderboard_row
from .model import Member, Model, side_by_side
from .race import FEWEST_TO_RACE, Heat, heat_sizes, with_unit_weight, within_reach
from .stacking import HeldOut, choose_weights, cross_fit, score_choice, weighted_sum
from .targets import Classes, Numbers, check_rare
from .tuning import Choice
from .view import FittedView, View

MOST_SCORED = 2000  # bags that take part in judging candidates
MOST_MEMBERS = 5  # besides the constant, where bags are more than a kernel matrix holds and each member takes long
FEW_FOR_ONE_DRAW = 250  # bags; below, the folds are drawn three times
N_FOLDS = 5
FEWEST_TO_COMPETE = 6


def choose_members(
    owner: Any,
    request: Request,
    batch: Batch,
    targets: Numbers | Classes,
    rng: np.random.RandomState,
    stages: Stages,
    grows: bool = False,
) -> Choice:
    """Score all candidates, choose, and fit what was chosen.

    Parameters
    ----------
    owner : Learner
        Whose parameters choose what is tried, and for how long.
    request : Request
        Which candidates.
    batch : Batch
        Bags, with coded targets, weights, groups and encoded covariates.
    targets : Numbers or Classes
        What the targets are.
    rng : RandomState
        Draws folds, bags to score on, and what embeddings and heads draw.
    stages : Stages
        Receives progress, one step per candidate.
    grows : bool, default=False
        Whether the model is to learn from batches that follow, and the bags at hand only choose it.
    """
    batch = batch.number_groups(owner)
    _check_counts(owner, request, batch, targets)
    clock = Clock()
    own = own_view(owner, request, rng)
    n_classes = targets.n_classes
    seed = int(rng.randint(2**31))
    start = perf_counter()
    part = _sample_for_scores(batch, n_classes, min(MOST_SCORED, owner.max_search_bags), rng)
    repeats = range(3 if len(part.y) < FEW_FOR_ONE_DRAW else 1)
    has_classes = n_classes is not None
    folds = [fold for _ in repeats for fold in part.folds(_n_folds(owner), has_classes, rng)]
    views, candidates = library_for(
        owner, request, own, part.bags, part.y, n_classes, seed,
        has_covariates=part.covariates is not None, grows=grows,
    )  # fmt: skip
    until = np.inf if owner.time_limit is None else start + owner.time_limit
    track = _Track(views, part, folds, len(repeats), stages, owner.n_jobs)
    staying = candidates
    dropped = list[dict[str, Any]]()
    if len(candidates) >= FEWEST_TO_RACE and owner.tune is not None:
        staying, dropped = _race(track, candidates, n_classes, _n_folds(owner), seed, start, until)
    else:
        track.embed(candidates, until)
    tried = track.judge(staying, until, candidates[:2])
    late = candidates if perf_counter() > until else []  # else what was not tried are variants of what was dropped
    tried.sort(key=lambda each: candidates.index(each.candidate))
    predicted = np.stack([each.head.held_out_ for each in tried])
    held_out = HeldOut(predicted, part.y, part.weight, n_classes, part.groups, track.n_folds)
    if request.is_row or owner.tune is None or (request.is_alone and part.covariates is None):
        weights = np.zeros(len(tried))
        weights[-1] = 1.0  # the constant is there to compare with
        honest = predicted[-1]
    else:
        most = MOST_MEMBERS if grows or len(batch.y) > MOST_FOR_KERNEL_MATRIX else len(tried)
        weights = choose_weights(held_out, most, rng)
        honest = cross_fit(held_out, lambda some: choose_weights(some, most, np.random.RandomState(seed)), seed)
    chosen = [(each, share) for each, share in zip(tried, weights, strict=True) if np.any(share > 0)]
    if grows or len(part.y) == len(batch.y):  # else all are fitted again
        for each, _ in chosen:
            each.head.complete(track.rows(each.candidate.views), part.y, part.weight)
    members = tuple(Member(each.candidate.views, each.head) for each, _ in chosen)
    seen = {name: track.fitted[name][0] for name in views if any(name in member.views for member in members)}
    model = Model(seen, members, np.array([share for _, share in chosen]))
    if grows:
        model = model.for_batches(float(batch.weight.mean()))
    elif len(part.y) < len(batch.y):
        model = model.refit(batch, stages)
    if request.is_alone and model.members[-1].head.grows:
        model = replace(model, grows=True, weight_unit=float(batch.weight.mean()))
    rows = [
        leaderboard_row(
            each.candidate.name, held_out.score(rows), share=float(np.mean(share)), seconds=track.spent(each)
        )
        for each, rows, share in zip(tried, predicted, weights, strict=True)
    ]
    honest = targets.inside(honest)
    whole = score_choice(held_out, targets.inside(weighted_sum(weights, predicted)), honest)
    last = leaderboard_row(ENSEMBLE, whole, share=np.nan, seconds=perf_counter() - start)
    known = {row["name"] for row in (*rows, *dropped)}
    cut = [candidate.name for candidate in late if candidate.name not in known]
    scoring = "neg_log_loss" if has_classes else "r2"
    board = Leaderboard([*rows, *dropped, last], scoring, cut, [row["name"] for row in dropped])
    if len(candidates) > 1 and (batch.y != batch.y[0]).any():  # of constant targets all is said
        _warn_if_useless(owner, board)
    clock.lap("candidates")
    law = learn_law(held_out, weights, honest, known_sizes(part.bags, 1.0), whole)
    return Choice(model, board, None, {}, clock.seconds, law)


def _check_counts(owner: Any, request: Request, batch: Batch, targets: Numbers | Classes) -> None:
    """Refuse fewer bags than can be held out, and classes of one bag."""
    name = f"{type(owner).__name__}{'(' + repr('auto') + ')' if request.everything else ''}"
    if len(batch.y) < FEWEST_TO_COMPETE:
        raise ValueError(
            f"{name}: needs at least {FEWEST_TO_COMPETE} bags to hold some out, got {len(batch.y)}; name one "
            "embedding, such as 'mean', with tune=None"
        )
    if isinstance(targets, Classes):
        check_rare(name, targets.classes, batch.y, _n_folds(owner))


def _n_folds(owner: Any) -> int:
    """The number of folds that a learner asks for."""
    return N_FOLDS if owner.tune in ("auto", None) else int(owner.tune)


def _warn_if_useless(owner: Any, board: Leaderboard) -> None:
    """Warn if the ensemble is not better than the constant by half a standard error."""
    model = board.ensemble
    constant = max((row["score"] for row in board if row["name"] == CONSTANT), default=-np.inf)
    if model["score"] - constant <= 0.5 * model["standard_error"]:
        time = (", or give a longer ", Argument("time_limit")) if board.cut else ()
        said = "held-out bags are not predicted clearly better than by a constant (leaderboard_); check that y "
        message = Message(f"{type(owner).__name__}: {said}matches the right bags, or collect more bags", *time)
        warnings.warn(message, UserWarning, stacklevel=5)


def _sample_for_scores(batch: Batch, n_classes: int | None, most: int, rng: np.random.RandomState) -> Batch:
    """The bags on which candidates are scored, weights of mean one; some of every class."""
    some = sample_rows(len(batch.y), most, batch.groups, rng)
    for code in range(n_classes or 0):
        own = np.flatnonzero(batch.y == code)
        some = np.union1d(some, own if np.isin(own, some).sum() < N_FOLDS and len(own) < 2 * N_FOLDS else own[:0])
    return with_unit_weight(batch.take(some))


class _Tried(NamedTuple):
    """A candidate with its head as it was fitted, and the seconds that it took."""

    candidate: Candidate
    head: Head
    seconds: float


class _Track:
    """Fitted views of some bags, and candidates on them; views whose time has come too late are not there.

    Parameters
    ----------
    views : dict of str to View
        Not fitted.
    part : Batch
        Bags.
    folds : sequence of pairs of index arrays
        Of these bags.
    n_repeats : int
        How often they are drawn.
    stages : Stages
        Receives progress, one step per view, then per candidate.
    n_jobs : int or None
        Threads.
    """

    def __init__(
        self, views: dict[str, View], part: Batch, folds: Folds, n_repeats: int, stages: Stages, n_jobs: int | None
    ) -> None:
        self.views = views
        self.part = part
        self.folds = folds
        self.n_folds = len(folds) // n_repeats
        self.stages = stages
        self.n_jobs = n_jobs
        self.sigmas: dict[tuple[str, ...], tuple[float, float, int]] = {}  # and α; by how many bags
        self.fitted: dict[str, tuple[FittedView, Array]] = {}
        self.seconds: dict[str, float] = {}
        self.scaled: dict[int, tuple[Any, Bags]] = {}  # by the scaler that views share

    def embed(self, candidates: Sequence[Candidate], until: float) -> None:
        """Fit the views of candidates; after ``until`` none is begun but the first."""
        seen = {name for candidate in candidates for name in candidate.views}
        views = {name: view for name, view in self.views.items() if name in seen and name not in self.fitted}
        self.stages.begin("embedding for candidates", len(views))
        for name, view in views.items():
            clock = perf_counter()
            if not self.fitted or clock < until:
                self.fitted[name] = view.fit(self.part.bags, self.part.covariates, self.scaled)
                self.seconds[name] = perf_counter() - clock
            self.stages.advance(1)

    def spent(self, one: _Tried) -> float:
        """Seconds that a candidate would have taken alone."""
        return one.seconds + sum(self.seconds[name] for name in one.candidate.views)

    def rows(self, names: Sequence[str]) -> Array:
        """What a head sees of the bags."""
        return side_by_side([self.fitted[name][::-1] for name in names])

    def judge(
        self, candidates: Sequence[Candidate], until: float, first: Sequence[Candidate], heat: Heat | None = None
    ) -> list[_Tried]:
        """Candidates with heads that know how they predict held-out bags, in the order in which they are given.

        Views had threads of their own; heads are fitted at the same time. After ``until`` none is begun but ``first``.

        Parameters
        ----------
        candidates : sequence of Candidate
            Those whose views are not there are left out.
        until : float
            A time.
        first : sequence of Candidate
            Those that are tried in any case.
        heat : Heat, optional
            Copies of heads, cheaper ones, are tried on its bags. All bags by default.
        """
        part, folds = (self.part, self.folds) if heat is None else (heat.part, heat.folds)
        found: dict[str, _Tried] = {}
        one_at_a_time = Lock()
        self.stages.begin("trying candidates", len(candidates))

        def work(group: Sequence[Candidate], _: Scratch) -> None:
            for candidate in group:
                clock = perf_counter()
                if all(name in self.fitted for name in candidate.views) and (clock < until or candidate in first):
                    rows = self.rows(candidate.views)
                    rows = rows if heat is None else rows[heat.some]
                    head = candidate.head if heat is None else candidate.head.for_race()
                    if isinstance(head, KernelHead) and head.kernel == "rbf":
                        before = self.sigmas.get(candidate.views)
                        if before is None:
                            head.fit(rows, part.y, part.weight, folds)
                        elif before[2] in (len(rows), head.sigma_rows):  # heads of the same rows share it
                            head.fit(rows, part.y, part.weight, folds, before[0])
                        else:
                            head.fit(rows, part.y, part.weight, folds, near=before[:2])
                        self.sigmas[candidate.views] = (head.scale_, head.alpha_, min(len(rows), head.sigma_rows))
                    else:
                        head.hold_out(rows, part.y, part.weight, folds)
                    found[candidate.name] = _Tried(candidate, head, perf_counter() - clock)
                with one_at_a_time:
                    self.stages.advance(1)

        groups: dict[tuple[str, ...], list[Candidate]] = {}
        for candidate in candidates:
            groups.setdefault(candidate.views, []).append(candidate)
        run_chunks(work, list(groups.values()), self.n_jobs)
        return [found[candidate.name] for candidate in candidates if candidate.name in found]


def _race(
    track: _Track,
    candidates: Sequence[Candidate],
    n_classes: int | None,
    tune: int,
    seed: int,
    start: float,
    until: float,
) -> tuple[list[Candidate], list[dict[str, Any]]]:
    """Candidates that stay in a race, best first, and rows of the leaderboard of those that left it.

    Heats end when half of the time is over: then those that were never tried have a place behind the others.
    """
    rows = list[dict[str, Any]]()
    rng = np.random.RandomState(seed)
    half = until if np.isinf(until) else (start + until) / 2
    variants = [candidate for candidate in candidates if set(candidate.views) & set(VARIANTS)]
    staying = [candidate for candidate in candidates if candidate not in variants]
    track.embed(staying, until)
    for size in heat_sizes(len(track.part.y)):
        heat = Heat.draw(track.part, track.folds[: track.n_folds], size, n_classes, tune, rng)
        tried = track.judge(staying, half, staying[:1], heat)
        stays = _stays(tried, heat, n_classes)
        good = {name for each, stay in zip(tried, stays, strict=True) if stay for name in each.candidate.views}
        more = [each for each in variants if all(VARIANTS.get(name, name) in good for name in each.views)]
        variants = []
        if more:
            track.embed(more, until)
            tried += track.judge(more, half, [], heat)
            staying += more
            stays = _stays(tried, heat, n_classes)
        held_out = heat.held_out([each.head.held_out_ for each in tried], n_classes)
        late = [one for one in staying if all(one is not each.candidate for each in tried)]
        order = np.argsort([held_out.losses(each).mean() for each in held_out.predicted[1:]], kind="stable") + 1
        for i in order[~stays[order]]:
            score = held_out.score(held_out.predicted[i])
            rows.append(leaderboard_row(tried[i].candidate.name, score, share=0.0, seconds=track.spent(tried[i])))
        staying = [tried[0].candidate, *(tried[i].candidate for i in order[stays[order]]), *late]
        if perf_counter() > half:
            break
    return staying, rows


def _stays(tried: Sequence[_Tried], heat: Heat, n_classes: int | None) -> Array:
    """Which candidates stay in the race; the first, the constant, always does."""
    stays = within_reach(heat.held_out([each.head.held_out_ for each in tried], n_classes))
    stays[0] = True
    return stays
