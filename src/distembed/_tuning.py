r"""The search for bandwidth, sigma and penalty, made cheap: no stage is computed twice.

    points -> bins -> densities -> features -> random features -> kernel -> centred kernel -> predictions
              once    a bandwidth  a bandwidth  a sigma           a sigma   a sigma           a penalty, few of them

The model that is judged is ridge regression on random features, in the dual: as many a bag as the model will have. The
kernel itself would do without, but their noise depends on the setting, and the model will have it. Classes are
regressed on as columns of 0 and 1. All sigmas are looked at for the bandwidth of the rule; for every other bandwidth a
walk downhill begins at the best sigma so far, unless that one is clearly worse there. Another setting is taken only if
its predictions are better by more than half a standard error of the difference: errors on some hundred bags differ by
chance, and the rule is a good guess.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from ._dual_ridge import DualRidge, downhill
from ._parallel import blas_threads
from ._progress import SILENT, Stages
from .bags import Bags
from .embeddings._density_features import DensityEmbedding
from .embeddings.histogram import HistogramEmbedding
from .embeddings.mean import MeanEmbedding
from .random_features import RandomFourierFeatures, median_distance

__all__ = [
    "Search", "Trial", "folds_of", "judging_components", "mean_square", "search", "subset",
    "widened", "width_parameter",
]  # fmt: skip

Array = NDArray[Any]

CAUTION = 0.5  # standard errors by which another setting must be better
HOPELESS = 2.0  # standard errors by which a bandwidth must be worse to be given up after one look
FIRST_ALPHA = 0.1  # where the first walk along the penalties begins
MANY_BAGS = 1000  # from which on products are large enough for several threads
MOST_JUDGES = 1000  # random features that judge a setting where the model has many more bags than features


@dataclass(frozen=True)
class Trial:
    """One setting, and the mean squared error of predictions on bags that were held out, of targets of variance one."""

    bandwidth_scale: float | None
    sigma_scale: float | None
    alpha: float
    error: float


@dataclass
class Search:
    """What was tried and what it cost.

    Attributes
    ----------
    trials : list of Trial
        In the order of the search.
    n_bags, n_held_out : int
        Bags that took part, and how many of them were held out, in all folds together.
    seconds : dict of str to float
        What each stage took.
    """

    trials: list[Trial] = field(default_factory=list)
    n_bags: int = 0
    n_held_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    chosen: Trial | None = None

    @property
    def best(self) -> Trial:
        """The trial that was chosen."""
        return min(self.trials, key=lambda trial: trial.error) if self.chosen is None else self.chosen

    def best_of_pairs(self) -> list[Trial]:
        """Of each pair of bandwidth and sigma the trial with the best penalty, in the order of the search."""
        best: dict[tuple[Any, Any], Trial] = {}
        for trial in self.trials:
            key = (trial.bandwidth_scale, trial.sigma_scale)
            if key not in best or trial.error < best[key].error:
                best[key] = trial
        best[self.best.bandwidth_scale, self.best.sigma_scale] = self.best  # among equals
        return list(best.values())

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("bandwidth", "sigma", "penalty", "R2 on held-out bags")]
        for trial in self.best_of_pairs():
            mark = " <" if trial is self.best else ""
            scales = ["-" if scale is None else f"x {scale:g}" for scale in (trial.bandwidth_scale, trial.sigma_scale)]
            rows.append((*scales, f"{trial.alpha:g}", f"{1 - trial.error:.4f}{mark}"))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        return "\n".join([*lines, f"{self.n_bags:,} bags, {self.n_held_out:,} held out; {took}"])

    def _took(self, stage: str, start: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + perf_counter() - start


def subset(n_bags: int, most: int, groups: Array | None, rng: np.random.RandomState) -> Array:
    """Positions of at most so many bags, in increasing order.

    Whole groups if there are any, or, where fewer than three would fit, some bags of each.
    """
    if n_bags <= most:
        return np.arange(n_bags)
    if groups is None:
        return np.sort(rng.choice(n_bags, most, replace=False))
    names, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    n_whole = int(np.searchsorted(np.cumsum(sizes[order]), most, side="right"))
    if n_whole >= 3:
        return np.flatnonzero(np.isin(number, order[:n_whole]))
    drawn = rng.permutation(n_bags)
    firsts = drawn[np.unique(number[drawn], return_index=True)[1]][order][: most // 2]  # a bag of each group
    return np.sort(np.concatenate([firsts, drawn[~np.isin(drawn, firsts)]])[:most])


def mean_square(F: Array) -> float:
    """Mean squared distance of rows from their mean; one if they are all the same.

    Examples
    --------
    >>> mean_square(np.array([[1.0, 7.0], [5.0, 7.0]]))
    4.0
    """
    return float(np.mean(np.sum((F - F.mean(axis=0)) ** 2, axis=1))) or 1.0


def folds_of(
    how: str | int,
    y: Array,
    groups: Array | None,
    classes: bool,
    rng: np.random.RandomState,
    share: float = 0.1,
) -> list[tuple[Array, Array]]:
    """Training and held-out positions: a share held out, or so many folds; groups stay together."""
    seed, n = int(rng.randint(2**31)), len(y)
    strata = bool(classes and np.min(np.unique(y, return_counts=True)[1]) >= (2 if how == "holdout" else how))
    if how == "holdout":
        share = max(share, 1 / n)
        if groups is not None:
            splitter: Any = GroupShuffleSplit(1, test_size=share, random_state=seed)
        else:
            n_classes = len(np.unique(y)) if strata else 0
            strata = strata and n * share >= n_classes and n - n * share >= n_classes
            splitter = (StratifiedShuffleSplit if strata else ShuffleSplit)(1, test_size=share, random_state=seed)
    elif groups is not None:
        splitter = StratifiedGroupKFold(how) if strata else GroupKFold(how)
    else:
        splitter = (StratifiedKFold if strata else KFold)(how, shuffle=True, random_state=seed)
    return [(train, held) for train, held in splitter.split(np.zeros(n), y, groups)]


class _Features:
    """Features of the bags of a search at each bandwidth, one at a time."""

    def __init__(self, embedding: Any, bags: Bags, scales: Sequence[float]) -> None:
        self._embedding, self._bags, self._scales = embedding, bags, scales

    def all(self) -> Iterator[tuple[float | None, Array]]:
        """Scale and features, the scale of the rule first."""
        if width_parameter(self._embedding) is None:
            yield None, np.asarray(clone(self._embedding).fit(self._bags).transform(self._bags))
            return
        order = sorted(map(float, self._scales), key=lambda scale: abs(np.log(scale)))
        if isinstance(self._embedding, DensityEmbedding):
            narrowest = min(order)
            fitted = widened(self._embedding, narrowest).fit(self._bags)
            yield from zip(order, fitted._wider(self._bags, [scale / narrowest for scale in order]), strict=True)
            return
        for scale in order:
            yield scale, np.asarray(widened(self._embedding, scale).fit(self._bags).transform(self._bags))


def width_parameter(embedding: Any) -> str | None:
    """The parameter that says how far an embedding, or the one that it wraps, smooths a bag; None without any.

    Examples
    --------
    >>> import distembed as de
    >>> [width_parameter(one) for one in (de.HDDEmbedding(), de.MeanEmbedding(), de.MomentEmbedding())]
    ['bandwidth_scale', 'sigma_scale', None]
    >>> width_parameter(de.Marginals(de.HistogramEmbedding()))
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


def widened(embedding: Any, scale: float) -> Any:
    """A clone that smooths so many times as far: bandwidth, width of bins, or, squared, sigma of points.

    The median distance between points is a rougher guess than a rule for densities, and deserves a wider look.

    Examples
    --------
    >>> import distembed as de
    >>> widened(de.HDDEmbedding(), 2.0), widened(de.HistogramEmbedding(bins=(10, 3)), 1.41)
    (HDDEmbedding(bandwidth_scale=2.0), HistogramEmbedding(bins=(7, 2)))
    """
    name = width_parameter(embedding)
    if name is None:
        return clone(embedding)
    own = embedding.get_params()[name]
    if not name.endswith("bins"):
        return clone(embedding).set_params(**{name: own * (scale**2 if name.endswith("sigma_scale") else scale)})
    bins = [max(1, round(float(n) / scale)) for n in np.atleast_1d(own)]
    return clone(embedding).set_params(**{name: bins[0] if np.ndim(own) == 0 else tuple(bins)})


def judging_components(n_components: int, n_bags: int, n_learned: int) -> int:
    """How many random features judge a setting on fewer bags than the model will learn from.

    Random features are noise that depends on the setting: the smaller sigma and the rougher the densities, the more. As
    many of them a bag as the model will have make that noise count as much; a thousand at least.

    Examples
    --------
    >>> judging_components(5000, n_bags=4000, n_learned=1333), judging_components(2000, 200_000, 1333)
    (1666, 1000)
    """
    same_share = n_components * n_learned // n_bags
    return max(same_share, min(n_components, MOST_JUDGES)) // 2 * 2


class _Kernels:
    """Kernels exp(-d²/(2σ²)) of the features of one bandwidth, by random features or exactly; linear without a sigma.

    Frequencies are drawn from the seed alone, so that settings differ by themselves.
    """

    def __init__(self, F: Array, n_components: int | None, seed: int, n_jobs: int | None) -> None:
        self._features = np.array(F, np.float64)
        self._features -= self._features.mean(axis=0)  # what all have in common would cost digits of distances
        self._random: RandomFourierFeatures | None = None
        self._median: float | None = None
        self._n_components, self._seed, self._n_jobs = n_components, seed, n_jobs

    def __call__(self, sigma_scale: float | None) -> Array:
        """The kernel for a multiple of the median distance."""
        F = self._features
        if sigma_scale is None:
            return np.asarray(F @ F.T / mean_square(F))
        if self._median is None:
            self._median = median_distance(F, np.random.RandomState(self._seed))
        sigma = sigma_scale * self._median
        if self._n_components is None:
            return np.asarray(np.exp(euclidean_distances(F, squared=True) / (-2 * sigma**2)))
        scaled = (F / sigma).astype(np.float32)
        if self._random is None:
            random = RandomFourierFeatures(self._n_components, sigma=1.0, random_state=self._seed, n_jobs=self._n_jobs)
            self._random = random.fit(scaled)
        Z = self._random.transform(scaled)
        return np.asarray(Z @ Z.T, np.float64)


class _Judge:
    """Errors of kernels on held-out bags, for penalties in increasing order.

    Targets are divided by their deviation, so that several count alike.
    """

    def __init__(
        self, Y: Array, weight: Array, folds: list[tuple[Array, Array]], alphas: Sequence[float], all_alphas: bool
    ) -> None:
        spread = np.sqrt(np.average((Y - np.average(Y, axis=0, weights=weight)) ** 2, axis=0, weights=weight))
        self._targets, self._n_counted = Y / np.where(spread > 0, spread, 1.0), max(1, np.count_nonzero(spread))
        self._weight, self._folds, self.alphas, self._all = weight, folds, sorted(map(float, alphas)), all_alphas
        self._next = int(np.argmin(np.abs(np.log(np.array(self.alphas) / FIRST_ALPHA))))  # where the next walk begins

    def __call__(self, K: Array) -> tuple[dict[float, float], float, Array]:
        """Errors of the penalties that were looked at, the best of these, and its squared errors, bag by bag."""
        models = [
            DualRidge(K[np.ix_(train, train)], self._targets[train], self._weight[train], K[np.ix_(held, train)])
            for train, held in self._folds
        ]
        errors: dict[int, float] = {}
        squares: dict[int, Array] = {}

        def error(at: int) -> float:
            if at not in errors:
                errors[at], squares[at] = self._error(models, self.alphas[at])
            return errors[at]

        if self._all:
            best = min(range(len(self.alphas)), key=error)
        else:
            best = self._next = downhill(error, len(self.alphas), self._next)
        return {self.alphas[at]: errors[at] for at in sorted(errors)}, self.alphas[best], squares[best]

    def _error(self, models: list[DualRidge], alpha: float) -> tuple[float, Array]:
        parts, mean = [], 0.0
        for model, (_, held) in zip(models, self._folds, strict=True):
            predicted, weight = model.predict(alpha), self._weight[held]
            if predicted is None:
                return np.inf, np.full(sum(len(one) for _, one in self._folds), np.inf)
            squares = np.sum((predicted - self._targets[held]) ** 2, axis=1) / self._n_counted
            mean += float(np.average(squares, weights=weight)) / len(models)
            parts.append(squares * (weight / weight.mean()))
        return mean, np.concatenate(parts)


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
    n_components: int | None = None,
    exhaustive: bool = False,
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
    n_components : int or None
        Number of random features that judge a sigma, see :func:`judging_components`. None: the kernel itself.
    exhaustive : bool
        Look at all pairs of scales, and at all penalties of each.
    rng : RandomState
    n_jobs : int or None
        Threads.
    stages : Stages
        Told how many pairs of scales were looked at, of how many at most.
    """
    found = Search(n_bags=bags.n_bags, n_held_out=sum(len(held) for _, held in folds))
    judge = _Judge(Y, weight, folds, alphas, exhaustive)
    features, start = _Features(embedding, bags, bandwidth_scales), perf_counter()
    seed = int(rng.randint(2**31))
    least = np.empty(0)  # errors of the chosen trial, bag by bag
    sigmas: list[float | None] = [None] if sigma_scales is None else [*sorted(map(float, sigma_scales))]
    n_widths, n_looks = 1 if width_parameter(embedding) is None else len(bandwidth_scales), 0
    most = n_widths * len(sigmas)
    stages.begin("choosing settings", most)

    def gain(error: float, squares: Array) -> float:
        """By how many standard errors a trial is better than the chosen one."""
        if found.chosen is None:
            return np.inf
        if not (np.isfinite(error) and np.isfinite(found.chosen.error)):  # a penalty below the digits of the kernel
            return 0.0 if error == found.chosen.error else np.copysign(np.inf, found.chosen.error - error)
        differences = least - squares
        deviation = differences.std() / np.sqrt(len(differences))
        return float(differences.mean() / deviation) if deviation > 0 else 0.0

    def look(scale: float | None, kernels: _Kernels, at: int) -> tuple[float, bool]:
        """The error of a setting, and whether it is hopeless."""
        nonlocal n_looks, least
        start, sigma = perf_counter(), sigmas[at]
        K = kernels(sigma)
        found._took("kernels", start)
        start = perf_counter()
        errors, alpha, squares = judge(K)
        tried = {penalty: Trial(scale, sigma, penalty, error) for penalty, error in errors.items()}
        found.trials += tried.values()
        better = gain(errors[alpha], squares)
        if better > (0.0 if exhaustive else CAUTION):
            found.chosen, least = tried[alpha], squares
        found._took("kernel ridge", start)
        n_looks += 1
        stages.advance(1)
        return errors[alpha], better < -HOPELESS

    with blas_threads(n_jobs if bags.n_bags >= MANY_BAGS else 1), warnings.catch_warnings():
        # Settings that are only looked at need no warnings; the chosen one is fitted again.
        warnings.simplefilter("ignore", UserWarning)
        for scale, F in features.all():
            found._took("features", start)
            kernels = _Kernels(F, n_components, seed, n_jobs)
            if found.chosen is None or exhaustive:
                for at in sorted(range(len(sigmas)), key=lambda i: abs(float(np.log(sigmas[i] or 1.0)))):
                    look(scale, kernels, at)
            else:
                at, walk = sigmas.index(found.chosen.sigma_scale), partial(look, scale, kernels)
                error, is_hopeless = walk(at)
                if not is_hopeless:
                    downhill(lambda i, walk=walk: walk(i)[0], len(sigmas), at, error)  # type: ignore[misc]
            start = perf_counter()
    if n_looks < most:  # those that were not needed
        stages.advance(most - n_looks)
    return found
