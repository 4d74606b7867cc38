r"""The search for bandwidth, sigma and penalty: successive halving, in which few settings see many bags.

    points -> bins -> densities -> features -> angles -> random features -> kernel -> centred kernel -> predictions
              once    per bandwidth ................    per sigma .........................   per penalty, few of them

All pairs of bandwidth and sigma are scored on a small part of the bags; those that may be better than the best by an
amount that matters are scored on three times as many, and so on, the last few on all. Scoring a pair costs the cube of
the number of bags, so it is the last few that cost.

The model that is scored is ridge regression on random features, in the dual: as many per bag as the model will have,
because their noise depends on the setting. Classes are regressed on as columns of 0 and 1. In the end another setting
than the one nearest to the rules is taken only if its predictions are better by more than half a standard error of the
difference: errors on a few hundred bags differ by chance, and the rules are a good guess.

A Cholesky factorisation for each penalty looks wasteful, but the tridiagonal form that would serve all takes as long
as ten of them at 2,667 bags, while a walk downhill along the penalties looks at three or four.

*Views* (:class:`~distembed.Views`) are searched one by one, and then their weights:

    view by view: bags -> bandwidth, sigma (successive halving) -> kernel
    kernels -> weights, one view after the other, the best first -> penalty

To add a view to those before it, some multiples of their weight are tried, none included, on the exact kernels of at
most 2,000 bags.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..bags import Bags
from ..compute.arrays import Array, Scratch
from ..compute.parallel import blas_threads, run_chunks
from ..compute.progress import SILENT, Stages
from ..compute.registry import storable
from ..embeddings import HistogramEmbedding, MeanEmbedding
from ..embeddings.views import Views, steps_of
from ..features import RandomFourierFeatures, median_distance
from ..features.exact_kernel import averaged_kernel
from ..features.fourier import random_kernel, row_chunks
from ..models.held_out import downhill
from ..models.normal_equations import HeldOutRidge
from .batch import Batch, Clock
from .stacking import N_BLOCKS

Setting = tuple[float | None, float | None]  # scales of bandwidth and of sigma

BANDWIDTH_SCALES = (0.5, 0.71, 1.0, 1.41, 2.0)
SIGMA_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = tuple(float(alpha) for alpha in np.round(10.0 ** np.arange(-4, 1.25, 0.5), 6))
MOST_JUDGES = 1000  # random features that judge a setting where the model has many more bags than features
CAUTION = 0.5  # standard errors by which another setting must be better in the end
CHOICE = "is chosen: one further from x 1 must be better by more than half a standard error"
COLUMNS = ("bandwidth", "sigma", "penalty", "bags")  # of tables of trials, before that of R²
HOPELESS = 2.0  # standard errors by which a setting must be worse to be left out of the next round
LITTLE = 0.005  # of the mean squared error: what other random frequencies change is as much
FEWEST_IN_ROUND = 300  # that a round has
GROWTH = 3  # of the bags from round to round
MOST_SETTINGS = 10  # that are left after a round
MOST_FINALISTS = 5
FIRST_ALPHA = 0.1  # where the first walk along the penalties begins
MULTIPLES = (0.1, 0.3, 1.0, 3.0)  # of the weight of the views before
MOST_TO_WEIGH_VIEWS = 2000  # bags
MANY_BAGS = 1000  # from which on products are large enough for several threads


def width_name(embedding: Any) -> str | None:
    """The parameter that says how far an embedding, or the one that it wraps, smooths a bag; None without any.

    Examples
    --------
    >>> import distembed as de
    >>> [width_name(one) for one in (de.HDDEmbedding(), de.MeanEmbedding(), de.MomentEmbedding())]
    ['bandwidth_scale', 'sigma_scale', None]
    >>> width_name(de.Marginals(de.HistogramEmbedding()))
    'embedding__bins'
    """
    parameters = embedding.get_params()
    for prefix, one in (("", embedding), ("embedding__", parameters.get("embedding"))):
        if f"{prefix}bandwidth_scale" in parameters and parameters.get(f"{prefix}method") != "points":
            return f"{prefix}bandwidth_scale"
        for kind, name in ((MeanEmbedding, "sigma_scale"), (HistogramEmbedding, "bins")):
            if isinstance(one, kind):
                return prefix + name
    return None


def widen(embedding: Any, scale: float | None) -> Any:
    """A clone that smooths by this factor: bandwidth, width of bins, or, squared, sigma of points.

    The median distance between points is a rougher guess than a rule for densities, and deserves a wider look.

    Examples
    --------
    >>> from distembed import HistogramEmbedding
    >>> widen(HistogramEmbedding(bins=(10, 3)), 1.41)
    HistogramEmbedding(bins=(7, 2))
    """
    name = width_name(embedding)
    if name is None or scale is None:
        return clone(embedding)
    own = embedding.get_params()[name]
    if not name.endswith("bins"):
        return clone(embedding).set_params(**{name: own * (scale**2 if name.endswith("sigma_scale") else scale)})
    bins = [max(1, round(float(n) / scale)) for n in np.atleast_1d(own)]
    return clone(embedding).set_params(**{name: bins[0] if np.ndim(own) == 0 else tuple(bins)})


def mean_square(F: Array) -> float:
    """Mean squared distance of rows from their mean; one if they are all the same, but for rounding.

    Examples
    --------
    >>> mean_square(np.array([[1.0, 7.0], [5.0, 7.0]]))
    4.0
    """
    centre = F.mean(axis=0, dtype=np.float64)
    found = float(np.mean(np.sum((F - centre) ** 2, axis=1)))
    return found if found > (100 * np.finfo(F.dtype).eps * np.linalg.norm(centre)) ** 2 else 1.0


@storable(alpha="any", error="any")  # which may be infinite
@dataclass(frozen=True)
class Trial:
    """One setting, and the mean squared error of predictions on bags that were held out, of targets of variance one.

    ``n_bags`` took part, those that were held out included.
    """

    bandwidth_scale: float | None
    sigma_scale: float | None
    alpha: float
    error: float
    n_bags: int

    @property
    def r2(self) -> float:
        """R² on held-out bags."""
        return 1 - self.error

    def cells(self, times: str = "x") -> tuple[str, ...]:
        """Bandwidth, sigma, penalty, number of bags and R² as tables show them; ``times`` stands before scales."""
        scales = ("-" if each is None else f"{times} {each:g}" for each in (self.bandwidth_scale, self.sigma_scale))
        return *scales, f"{self.alpha:g}", f"{self.n_bags:,}", f"{self.r2:.4f}"


@storable(gain="any")  # which may be infinite
@dataclass(frozen=True)
class Search:
    """What was tried and what it cost.

    Attributes
    ----------
    trials : list of Trial
        In the order of the search.
    n_bags, n_held_out : int
        Bags that took part, and how many of them were held out, in all folds together.
    seconds : dict of str to float
        What each stage took. Not in model files.
    best, gain : Trial and float
        The trial that was chosen, and by how many standard errors of the difference it is better than a constant.
    held_out : ndarray of shape (n_bags, n_outputs) or None
        Predictions of the chosen setting for the bags that were held out, NaN for others. Not in model files.
    cross_fitted : ndarray of shape (n_bags, n_outputs) or None
        The same with a setting for each fifth of the bags that the others chose: what the choice is worth on new bags.
        Not in model files.
    """

    trials: list[Trial]
    n_bags: int
    n_held_out: int
    seconds: dict[str, float]
    best: Trial
    gain: float = 0.0
    held_out: Array | None = field(default=None, repr=False, compare=False)
    cross_fitted: Array | None = field(default=None, repr=False, compare=False)

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        return vars(self) | {"held_out": None, "cross_fitted": None, "seconds": {}}

    def best_of_pairs(self) -> list[Trial]:
        """Of each pair of bandwidth and sigma the trial with most bags, with its best penalty; the most bags first."""
        best: dict[tuple[Any, Any], Trial] = {}
        for trial in (self.best, *sorted(self.trials, key=_rank)):  # the chosen one first, among equals
            best.setdefault((trial.bandwidth_scale, trial.sigma_scale), trial)
        return sorted(best.values(), key=_rank)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [(*COLUMNS, "R2 on held-out bags")]
        for trial in self.best_of_pairs():
            *others, score = trial.cells()
            rows.append((*others, f"{score} <" if trial is self.best else score))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        rule = [] if self.best is self.best_of_pairs()[0] else [f"< {CHOICE}"]
        return "\n".join([*lines, *rule, f"{self.n_bags:,} bags, {self.n_held_out:,} held out{took and f'; {took}'}"])


def _rank(trial: Trial) -> tuple[int, float]:
    return -trial.n_bags, trial.error


class Judged(NamedTuple):
    """A trial, its squared errors, bag by bag, and its predictions for these bags, fold after fold."""

    trial: Trial
    squares: Array
    predicted: Array | None = None


def round_sizes(n_bags: int, fewest: int = FEWEST_IN_ROUND) -> list[int]:
    """How many bags each round has.

    Examples
    --------
    >>> round_sizes(4000), round_sizes(2000), round_sizes(300)
    ([444, 1333, 4000], [666, 2000], [300])
    """
    found = [n_bags]
    while found[0] // GROWTH >= fewest:
        found.insert(0, found[0] // GROWTH)
    return found


def features_of(
    embedding: Any, bags: Bags, scales: Sequence[float | None], single: bool = False
) -> Iterator[tuple[float | None, Array, Any]]:
    """Scales, features of bags and their group; points are binned once for all bandwidths of a density.

    With ``single`` features of binned points are float32, as the random features are that follow.
    """
    widths = [scale for scale in scales if scale is not None]
    if widths and hasattr(embedding, "transform_wider"):
        fitted = widen(embedding, min(widths)).fit(bags)
        stages = getattr(fitted, "stages_", None)
        if single and stages is not None and stages.cells is None and stages.smooths_bins:
            bags = bags.astype(np.float32)
        wider = fitted.transform_wider(bags, [width / min(widths) for width in widths])
        yield from ((width, F, getattr(fitted, "group_", None)) for width, F in zip(widths, wider, strict=True))
    else:
        for scale in scales:
            fitted = widen(embedding, scale).fit(bags)
            yield scale, np.asarray(fitted.transform(bags)), getattr(fitted, "group_", None)


class Kernels:
    """Kernels exp(-d²/(2σ²)) of the features of one bandwidth, by random features or exactly; linear without a sigma.

    Frequencies are drawn from the seed alone, so settings differ by themselves; ``drawn`` keeps them from one
    bandwidth to the next. With a group, kernels are averaged over it.
    """

    def __init__(
        self, F: Array, n_components: int | None, seed: int, n_jobs: int | None, drawn: Any = None, group: Any = None
    ) -> None:
        self._given = np.asarray(F) if group is None else np.asarray(F)[:, : group.width(F.shape[1])]
        self._features = np.array(F, np.float64)
        self._group = group
        common = self._features.mean(axis=0, keepdims=True)
        self._features -= common if group is None else group.mean(common)  # it would cost digits of distances
        self._n_components: Any = n_components
        self._seed = seed
        self._n_jobs = n_jobs
        self._drawn: dict[int, RandomFourierFeatures] = {} if drawn is None else drawn

    @cached_property
    def _median(self) -> float:
        return median_distance(self._given, np.random.RandomState(self._seed))

    @cached_property
    def _angles(self) -> Array:
        """Angles ω·x of the bags, ndarray of shape (n_bags, n_components / 2), where sigma is the median distance."""
        F = (self._features / self._median).astype(np.float32)
        n_bags, width = self._features.shape
        if width not in self._drawn:
            random = RandomFourierFeatures(self._n_components, sigma=1.0, random_state=self._seed)
            self._drawn[width] = random.fit(F)
        project = self._drawn[width].projection(F.dtype)
        angles = np.empty((n_bags, self._n_components // 2), F.dtype)
        run_chunks(
            lambda rows, scratch: project(F[rows], angles[rows], scratch), row_chunks(*angles.shape), self._n_jobs
        )
        return angles

    def __call__(self, sigma_scale: float | None) -> Array:
        """The kernel for a multiple of the median distance."""
        F = self._features
        if sigma_scale is None:
            return np.asarray(F @ F.T / mean_square(self._given))
        if self._n_components is None:
            return averaged_kernel(F, F, sigma_scale * self._median, self._group)
        if self._group is not None:
            return random_kernel(
                F / (sigma_scale * self._median), self._n_components, self._seed, self._group, self._drawn
            )
        angles = self._angles
        n_bags, half = self._angles.shape
        Z = np.empty((n_bags, 2 * half), angles.dtype)

        def turn(rows: slice, scratch: Scratch) -> None:
            turned = np.divide(angles[rows], angles.dtype.type(sigma_scale), out=Z[rows, half:])
            np.sin(turned, out=Z[rows, :half])
            np.cos(turned, out=turned)

        run_chunks(turn, row_chunks(n_bags, 2 * half), self._n_jobs)
        K = Z @ Z.T
        K /= half
        return np.asarray(K)


class Judge:
    """Errors of kernels on held-out bags, for penalties in increasing order.

    Targets are divided by their deviation, so several count alike.
    """

    def __init__(
        self, Y: Array, weight: Array, folds: list[tuple[Array, Array]], alphas: Sequence[float], all_alphas: bool
    ) -> None:
        spread = np.sqrt(np.average((Y - np.average(Y, axis=0, weights=weight)) ** 2, axis=0, weights=weight))
        self._unit = np.where(spread > 0, spread, 1.0)
        self._n_counted = max(1, np.count_nonzero(spread))
        self._targets = Y / self._unit
        self._weight = weight
        self._folds = folds
        self._all = all_alphas
        self._alphas = sorted({float(alpha) for alpha in alphas})

    def __call__(self, setting: Setting, K: Array, start: float) -> tuple[list[Trial], Judged]:
        """Trials of the penalties that were looked at, from the one nearest to a start on, and the best of them."""
        models = [
            HeldOutRidge(K[np.ix_(train, train)], self._targets[train], self._weight[train], K[np.ix_(held, train)])
            for train, held in self._folds
        ]
        seen: dict[int, Judged] = {}

        def error(at: int) -> float:
            if at not in seen:
                found, squares, predicted = self._error(models, self._alphas[at])
                seen[at] = Judged(Trial(*setting, self._alphas[at], found, len(K)), squares, predicted)
            return seen[at].trial.error

        n = len(self._alphas)
        if self._all:
            best = min(range(n), key=error)
        else:
            best = downhill(error, n, int(np.argmin(np.abs(np.log(np.array(self._alphas) / start)))))
        return [seen[at].trial for at in sorted(seen)], seen[best]

    def gain(self, judged: Judged) -> float:
        """By how many standard errors a trial is better than the mean of the training bags as prediction."""
        parts = []
        for train, held in self._folds:
            mean = np.average(self._targets[train], axis=0, weights=self._weight[train])
            weight = self._weight[held]
            squares = np.sum((mean - self._targets[held]) ** 2, axis=1) / self._n_counted
            parts.append(squares * (weight / weight.mean()))
        return gain(Judged(Trial(None, None, np.inf, 1.0, 0), np.concatenate(parts)), judged)

    def held_out(self, judged: Judged) -> Array | None:
        """Predictions of a trial by position, NaN where a bag was never held out."""
        if judged.predicted is None:
            return None
        found = np.full(self._targets.shape, np.nan)
        found[np.concatenate([held for _, held in self._folds])] = judged.predicted * self._unit
        return found

    def _error(self, models: list[HeldOutRidge], alpha: float) -> tuple[float, Array, Array | None]:
        parts = []
        every = []
        mean = 0.0
        for model, (_, held) in zip(models, self._folds, strict=True):
            predicted = model.predict(alpha)
            weight = self._weight[held]
            if predicted is None:
                return np.inf, np.full(sum(len(one) for _, one in self._folds), np.inf), None
            squares = np.sum((predicted - self._targets[held]) ** 2, axis=1) / self._n_counted
            mean += float(np.average(squares, weights=weight)) / len(models)
            parts.append(squares * (weight / weight.mean()))
            every.append(predicted)
        return mean, np.concatenate(parts), np.concatenate(every)


def gain(one: Judged, other: Judged) -> float:
    """By how many standard errors of the difference another trial is better than one."""
    if not (np.isfinite(one.trial.error) and np.isfinite(other.trial.error)):  # a penalty below the kernel's digits
        return 0.0 if one.trial.error == other.trial.error else np.copysign(np.inf, one.trial.error - other.trial.error)
    differences = one.squares - other.squares
    deviation = differences.std() / np.sqrt(len(differences))
    return float(differences.mean() / deviation) if deviation > 0 else 0.0


def survivors(judged: list[Judged], most: int) -> list[Judged]:
    """The best, and those that may be better by an amount that matters, at most n, in their original order."""
    best, *others = sorted(judged, key=lambda one: one.trial.error)
    kept = [best, *(one for one in others if may_matter(best, one))][:most]
    return [one for one in judged if any(one is other for other in kept)]


def may_matter(best: Judged, other: Judged) -> bool:
    """Whether another trial's mean squared error may be below the best one's by more than :data:`LITTLE` of it."""
    if not np.isfinite(other.trial.error):
        return False
    differences = best.squares - other.squares
    most = differences.mean() + HOPELESS * differences.std() / np.sqrt(len(differences))
    return bool(most > LITTLE * best.trial.error)


def cautious_choice(judged: list[Judged]) -> Judged:
    """The best, if it is clearly better than those before it, of which the first is the nearest to the rules."""
    best = judged[0]
    for one in judged[1:]:
        if gain(best, one) > CAUTION:
            best = one
    return best


def cross_fit_choice(judged: list[Judged], folds: Sequence[tuple[Array, Array]], exhaustive: bool) -> Judged:
    """Predictions, each of a trial that was chosen without it: by the other folds or, of one fold, its other fifths."""
    lengths = [len(held) for _, held in folds]
    n = sum(lengths)
    block = np.repeat(np.arange(len(folds)), lengths) if len(folds) > 1 else np.arange(n) * N_BLOCKS // n
    finite = [one for one in judged if one.predicted is not None]
    if not finite:
        return judged[0]
    found = np.empty_like(np.asarray(finite[0].predicted))
    for b in np.unique(block):
        others = block != b
        some = [
            Judged(replace(one.trial, error=float(one.squares[others].mean())), one.squares[others]) for one in finite
        ]
        chosen = min(some, key=lambda one: one.trial.error) if exhaustive else cautious_choice(some)
        at = next(i for i, one in enumerate(some) if one is chosen)
        found[~others] = np.asarray(finite[at].predicted)[~others]
    return Judged(finite[0].trial, finite[0].squares, found)


def search(
    embedding: Any,
    bags: Bags,
    Y: Array,
    weight: Array,
    folds: list[tuple[Array, Array]],
    *,
    bandwidth_scales: Sequence[float],
    sigma_scales: Sequence[float] | None,
    alphas: Sequence[float],
    components_for: Callable[[int], int] | None = None,
    exhaustive: bool = False,
    fewest_in_round: int = FEWEST_IN_ROUND,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
    stages: Stages = SILENT,
) -> Search:
    """Look for the setting that predicts held-out bags best.

    Parameters
    ----------
    embedding : estimator
        Unfitted.
    bags : Bags
        Scaled as the embedding needs them.
    Y : ndarray of shape (n_bags, n_outputs)
        Targets; columns of classes.
    weight : ndarray of shape (n_bags,)
        Positive weights.
    folds : list of pairs of index arrays
    bandwidth_scales, sigma_scales, alphas : sequences of float
        ``sigma_scales=None``: the linear kernel of the features, divided by their :func:`mean_square`.
    components_for : callable or None
        Number of random features that score a sigma for a model that learns from n bags, see
        :func:`judging_components`. None: the kernel itself is used.
    exhaustive : bool
        Score all pairs of scales on all bags, with all penalties, and take the best.
    fewest_in_round : int, default=300
        Bags on which settings are scored in the first round.
    rng : RandomState
    n_jobs : int or None
        Threads.
    stages : Stages
        Receives progress, one step per pair of scales that was looked at in each round.
    """
    clock = Clock()
    seed = int(rng.randint(2**31))
    order = rng.permutation(bags.n_bags)
    widths: list[float | None] = [None] if width_name(embedding) is None else [*map(float, bandwidth_scales)]
    sigmas: list[float | None] = [None] if sigma_scales is None else [*map(float, sigma_scales)]
    settings = [(width, sigma) for width in widths for sigma in sigmas]
    settings.sort(key=lambda pair: sum(abs(np.log(scale)) for scale in pair if scale is not None))  # the rules first
    starts = dict.fromkeys(settings, FIRST_ALPHA)
    trials: list[Trial] = []

    def score_all(settings: list[Setting], some: Array) -> list[Judged]:
        """One round: score settings on some of the bags."""
        there = np.full(bags.n_bags, -1)
        there[some] = np.arange(len(some))
        parts = [(there[train][there[train] >= 0], there[held][there[held] >= 0]) for train, held in folds]
        judge = Judge(Y[some], weight[some], parts, alphas, exhaustive)
        n_components = None if components_for is None else components_for(len(parts[0][0]))
        looked: dict[Setting, Judged] = {}
        drawn: dict[int, Any] = {}
        scales = [*dict.fromkeys(width for width, _ in settings)]
        single = n_components is not None
        for width, F, group in features_of(embedding, bags[some], scales, single):
            kernels = Kernels(F, n_components, seed, n_jobs, drawn, group)
            clock.lap("features")
            for setting in (pair for pair in settings if pair[0] == width):
                K = kernels(setting[1])
                clock.lap("kernels")
                tried, looked[setting] = judge(setting, K, starts[setting])
                trials.extend(tried)
                starts[setting] = looked[setting].trial.alpha
                clock.lap("kernel ridge")
                stages.advance(1)
        return [looked[setting] for setting in settings]

    sizes = [bags.n_bags] if exhaustive else round_sizes(bags.n_bags, fewest_in_round)
    with blas_threads(n_jobs if bags.n_bags >= MANY_BAGS else 1), warnings.catch_warnings():
        # Settings that are only looked at need no warnings; the chosen one is fitted again.
        warnings.simplefilter("ignore", UserWarning)
        for n, after in zip(sizes, [*sizes[1:], None], strict=True):
            stages.begin("choosing settings", len(settings))
            judged = score_all(settings, np.sort(order[:n]))
            if after is not None:
                judged = survivors(judged, MOST_SETTINGS if after < sizes[-1] else MOST_FINALISTS)
                settings = [(one.trial.bandwidth_scale, one.trial.sigma_scale) for one in judged]
    chosen = min(judged, key=lambda one: one.trial.error) if exhaustive else cautious_choice(judged)
    judge = Judge(Y, weight, folds, alphas, exhaustive)
    better = float(np.clip(judge.gain(chosen), -1e9, 1e9))
    held_out = judge.held_out(chosen)
    cross_fitted = judge.held_out(cross_fit_choice(judged, folds, exhaustive))
    n_held_out = sum(len(held) for _, held in folds)
    return Search(trials, bags.n_bags, n_held_out, clock.seconds, chosen.trial, better, held_out, cross_fitted)


def judging_components(n_components: int, n_bags: int, n_learned: int) -> int:
    """Number of random features that score a setting on fewer bags than the model will learn from.

    Random features are noise that depends on the setting: the smaller sigma and the rougher the densities, the more. As
    many of them a bag as the model will have make that noise count as much; a thousand at least.

    Examples
    --------
    >>> judging_components(5000, n_bags=4000, n_learned=1333), judging_components(2000, 200_000, 1333)
    (1666, 1000)
    """
    same_share = n_components * n_learned // n_bags
    return max(same_share, min(n_components, MOST_JUDGES)) // 2 * 2


def single_or_default(values: Sequence[float], default: float) -> float:
    """The value if there is one alone, else the default."""
    return float(values[0]) if len(values) == 1 else default


# Weights of views


def choose_views(
    views: Views,
    batch: Batch,
    Y: Array,
    folds: list[tuple[Array, Array]],
    *,
    rng: np.random.RandomState,
    stages: Stages,
    **settings: Any,
) -> tuple[Search, Views]:
    """Choose bandwidth and sigma of each view, and their weights.

    Parameters
    ----------
    views : Views
        Unfitted.
    batch : Batch
        Bags as they come.
    Y : ndarray of shape (n_bags, n_outputs)
        Targets; columns of classes.
    folds : list of pairs of index arrays
    rng, stages, **settings
        As of :func:`~distembed.learners.search.search`.

    Returns
    -------
    search : Search
        Whose trials are those of the sums of kernels.
    views : Views
        Unfitted, with all that was chosen.
    """
    with warnings.catch_warnings():  # what was chosen is fitted again
        warnings.simplefilter("ignore", UserWarning)
        return _choose(views, batch, Y, folds, rng, stages, settings)


def _choose(
    views: Views,
    batch: Batch,
    Y: Array,
    folds: list[tuple[Array, Array]],
    rng: np.random.RandomState,
    stages: Stages,
    settings: Mapping[str, Any],
) -> tuple[Search, Views]:
    alphas = settings["alphas"]
    n_jobs = settings["n_jobs"]
    chosen = {}
    scales = []
    parts = []
    for name, view in views.views.items():
        before, embedding = steps_of(view)
        scaled: Bags = batch.bags
        for step in before:
            scaled = step.fit(scaled).transform(scaled)
        found = search(embedding, scaled, Y, batch.weight, folds, rng=rng, stages=stages, **settings)
        best = widen(embedding, found.best.bandwidth_scale)
        chosen[name] = _with_embedding(view, before, best)
        scales.append(found.best.sigma_scale or 1.0)
        parts.append((scaled, best))
    few = np.sort(rng.permutation(len(Y))[:MOST_TO_WEIGH_VIEWS])
    there = np.full(len(Y), -1)
    there[few] = np.arange(len(few))
    pairs = [(there[train][there[train] >= 0], there[held][there[held] >= 0]) for train, held in folds]
    judge = Judge(Y[few], batch.weight[few], pairs, alphas, all_alphas=False)
    seed = int(rng.randint(2**31))
    kernels = []
    for (scaled, embedding), scale in zip(parts, scales, strict=True):
        fitted = embedding.fit(scaled[few])
        rows = np.asarray(fitted.transform(scaled[few]))
        kernels.append(Kernels(rows, None, seed, n_jobs, group=getattr(fitted, "group_", None))(scale))
    stages.begin("choosing weights of views", None)
    given = None if isinstance(views.weights, str) else np.asarray(views.weights, float)
    weights, trials, judged = _weigh(judge, kernels, given)
    n_held_out = sum(len(held) for _, held in pairs)
    held_out = np.full(Y.shape, np.nan)
    predicted = judge.held_out(judged)
    held_out[few] = np.nan if predicted is None else predicted
    whole = Search(trials, len(few), n_held_out, {}, judged.trial, float(judge.gain(judged)), held_out, held_out)
    tuned = Views(chosen, weights=tuple(weights.tolist()), sigma_scales=tuple(float(scale) for scale in scales))
    return whole, tuned


def _with_embedding(view: Any, before: list[Any], embedding: Any) -> Any:
    """A view with another embedding, and the scaler that it was given."""
    if not before:
        return clone(embedding)
    return Pipeline([(f"step{i}", clone(step)) for i, step in enumerate([*before, embedding])])


def _weigh(judge: Judge, kernels: Sequence[Array], given: Array | None) -> tuple[Array, list[Trial], Judged]:
    """Weights of sum one that predict held-out bags best, all trials, and the best of them."""
    trials: list[Trial] = []

    def of(weights: Array, start: float) -> Judged:
        share = weights / weights.sum()
        K = sum(weight * kernel for weight, kernel in zip(share, kernels, strict=True) if weight > 0)
        tried, best = judge((None, None), np.asarray(K), start)
        trials.extend(tried)
        return best

    if given is not None:
        return given / given.sum(), trials, of(given, FIRST_ALPHA)
    alone = [of(weights, FIRST_ALPHA) for weights in np.eye(len(kernels))]
    order = np.argsort([one.trial.error for one in alone], kind="stable")
    best = alone[order[0]]
    weights = np.eye(len(kernels))[order[0]]
    for v in order[1:]:
        found = [(best, weights)]  # without the view
        for multiple in MULTIPLES:
            more = weights.copy()
            more[v] = multiple
            found.append((of(more, best.trial.alpha), more))
        best, weights = min(found, key=lambda pair: pair[0].trial.error)
        weights = weights / weights.sum()
    return weights, trials, best
