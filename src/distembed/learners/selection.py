r"""Members by competition: many candidates, judged on the same held-out bags, and a weighted mean of the best.

    bags -> views (scaler, embedding -> features) -> heads on each view -> predictions for held-out bags
         -> greedy selection with replacement -> weights of the candidates

No embedding wins on all tables: means do where classes are shifted, covariances where columns hang together, densities
where shapes differ, and statistics with a forest where columns are many and bags few. So each candidate is a pair of a
view and a head that suits it, all are judged on the same folds, and :mod:`distembed.learners.stacking` weighs them.

*Cost.* One fit per view, and per head one eigendecomposition or a few hundred trees for at most :data:`MOST_SCORED`
bags: candidates are judged on some of the bags if there are more, and the chosen ones, at most :data:`MOST_MEMBERS` for
more than 3,000 bags, are fitted to all. Processor seconds of ``"auto"`` over those of ``"js"``, settings chosen for
both, on the paper's mixtures: 21 over 15 for 1,000 bags, 84 over 29 for 10,000 (``experiments/ensemble.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message
from ..compute.parallel import run_chunks
from ..compute.progress import Stages
from ..models.folds import Folds, sample_rows
from ..models.kernel_head import MOST_FOR_KERNEL_MATRIX, KernelHead
from .batch import Batch, Clock
from .candidates import CONSTANT, Candidate, Request, library_for, own_view
from .error_law import known_sizes, learn_law
from .leaderboard import ENSEMBLE, Leaderboard, leaderboard_row
from .model import Member, Model, side_by_side
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
    """Judge all candidates, choose, and fit what was chosen.

    Parameters
    ----------
    owner : Learner
        Whose parameters say what is tried, and for how long.
    request : Request
        Which candidates.
    batch : Batch
        Bags, with coded targets, weights, groups and encoded covariates.
    targets : Numbers or Classes
        What the targets are.
    rng : RandomState
        Draws folds, bags to judge on, and what embeddings and heads draw.
    stages : Stages
        Hear of candidates.
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
    fitted, tried = _fit_candidates(views, candidates, part, folds, stages, owner.n_jobs, until)
    predicted = np.stack([candidate.head.held_out_ for candidate, _ in tried])
    n_folds = len(folds) // len(repeats)
    held_out = HeldOut(predicted, part.y, part.weight, n_classes, part.groups, n_folds)
    if request.is_row or owner.tune is None or (request.is_alone and part.covariates is None):
        weights = np.zeros(len(tried))
        weights[-1] = 1.0  # the constant is there to compare with
        honest = predicted[-1]
    else:
        most = MOST_MEMBERS if grows or len(batch.y) > MOST_FOR_KERNEL_MATRIX else len(tried)
        weights = choose_weights(held_out, most, rng)
        honest = cross_fit(held_out, lambda some: choose_weights(some, most, np.random.RandomState(seed)), seed)
    chosen = [(candidate, share) for (candidate, _), share in zip(tried, weights, strict=True) if share > 0]
    members = tuple(Member(candidate.views, candidate.head) for candidate, _ in chosen)
    seen = {name: fitted[name][0] for name in views if any(name in member.views for member in members)}
    model = Model(seen, members, np.array([share for _, share in chosen]))
    if grows:
        model = model.for_batches(float(batch.weight.mean()))
    elif len(part.y) < len(batch.y):
        model = model.refit(batch, stages)
    if request.is_alone and model.members[-1].head.grows:
        model = replace(model, grows=True, weight_unit=float(batch.weight.mean()))
    rows = [
        leaderboard_row(candidate.name, held_out.score(each), share=share, seconds=seconds)
        for (candidate, seconds), each, share in zip(tried, predicted, weights, strict=True)
    ]
    whole = score_choice(held_out, weighted_sum(weights, predicted), honest)
    rows.append(leaderboard_row(ENSEMBLE, whole, share=np.nan, seconds=perf_counter() - start))
    cut = [candidate.name for candidate in candidates if all(candidate is not one for one, _ in tried)]
    board = Leaderboard(rows, "neg_log_loss" if has_classes else "r2", cut)
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
    """Say so where the ensemble is not better than the constant by half a standard error."""
    model = board.ensemble
    constant = max((row["score"] for row in board if row["name"] == CONSTANT), default=-np.inf)
    if model["score"] - constant <= 0.5 * model["standard_error"]:
        time = (", or give a longer ", Argument("time_limit")) if board.cut else ()
        said = "held-out bags are not predicted clearly better than by a constant (leaderboard_); check that y "
        message = Message(f"{type(owner).__name__}: {said}matches the right bags, or collect more bags", *time)
        warnings.warn(message, UserWarning, stacklevel=5)


def _sample_for_scores(batch: Batch, n_classes: int | None, most: int, rng: np.random.RandomState) -> Batch:
    """The bags on which candidates are judged, weights of mean one; some of every class."""
    some = sample_rows(len(batch.y), most, batch.groups, rng)
    for code in range(n_classes or 0):
        own = np.flatnonzero(batch.y == code)
        some = np.union1d(some, own if np.isin(own, some).sum() < N_FOLDS and len(own) < 2 * N_FOLDS else own[:0])
    part = batch.take(some)
    return part._replace(weight=part.weight / part.weight.mean())


def _fit_candidates(
    views: dict[str, View],
    candidates: Sequence[Candidate],
    part: Batch,
    folds: Folds,
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
            fitted[name] = view.fit(part.bags, part.covariates)
            seconds[name] = perf_counter() - clock
        stages.advance(1)
    spent: dict[str, float] = {}
    one_at_a_time = Lock()
    stages.begin("trying candidates", len(candidates))

    def work(group: Sequence[Candidate], _: Scratch) -> None:
        sigma: float | None = None  # heads of the same rows share it
        for candidate in group:
            clock = perf_counter()
            if all(name in fitted for name in candidate.views) and (clock < until or candidate in candidates[:2]):
                rows = side_by_side([fitted[name][::-1] for name in candidate.views])
                head = candidate.head
                if isinstance(head, KernelHead) and head.kernel == "rbf":
                    sigma = head.fit(rows, part.y, part.weight, folds, sigma).scale_
                else:
                    head.fit(rows, part.y, part.weight, folds)
                spent[candidate.name] = perf_counter() - clock + sum(seconds[name] for name in candidate.views)
            with one_at_a_time:
                stages.advance(1)

    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.views, []).append(candidate)
    run_chunks(work, list(groups.values()), n_jobs)
    return fitted, [(candidate, spent[candidate.name]) for candidate in candidates if candidate.name in spent]
