r"""What the search for bandwidth, sigma and penalty needs: record, folds, a walk, embeddings that smooth more or less.

:mod:`distembed.learners.search` is the search itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from ..compute.checks import check_number
from ..compute.registry import storable
from ..embeddings import HistogramEmbedding, MeanEmbedding

__all__ = [
    "ALPHAS", "BANDWIDTH_SCALES", "SIGMA_SCALES", "Clock", "Search", "Trial", "check_scales", "downhill", "folds_of",
    "judging_components", "mean_square", "n_folds", "only", "subset", "widened", "width_parameter",
]  # fmt: skip

Array = NDArray[Any]

BANDWIDTH_SCALES = (0.5, 0.71, 1.0, 1.41, 2.0)
SIGMA_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = tuple(float(alpha) for alpha in np.round(10.0 ** np.arange(-4, 1.25, 0.5), 6))
FEW_BAGS = 200  # a tenth of fewer says nothing
MOST_JUDGES = 1000  # random features that judge a setting where the model has many more bags than features


@storable
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


@storable
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
        What each stage took.
    best : Trial
        The trial that was chosen.
    """

    trials: list[Trial]
    n_bags: int
    n_held_out: int
    seconds: dict[str, float]
    best: Trial

    def best_of_pairs(self) -> list[Trial]:
        """Of each pair of bandwidth and sigma the trial with most bags, with its best penalty; the most bags first."""
        best: dict[tuple[Any, Any], Trial] = {}
        for trial in self.trials:
            key = (trial.bandwidth_scale, trial.sigma_scale)
            if key not in best or (trial.n_bags, -trial.error) > (best[key].n_bags, -best[key].error):
                best[key] = trial
        best[self.best.bandwidth_scale, self.best.sigma_scale] = self.best  # among equals
        return sorted(best.values(), key=lambda trial: (-trial.n_bags, trial.error))

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("bandwidth", "sigma", "penalty", "bags", "R2 on held-out bags")]
        for trial in self.best_of_pairs():
            mark = " <" if trial is self.best else ""
            scales = ["-" if scale is None else f"x {scale:g}" for scale in (trial.bandwidth_scale, trial.sigma_scale)]
            rows.append((*scales, f"{trial.alpha:g}", f"{trial.n_bags:,}", f"{1 - trial.error:.4f}{mark}"))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        return "\n".join([*lines, f"{self.n_bags:,} bags, {self.n_held_out:,} held out; {took}"])


class Clock:
    """Seconds per stage, added to a dictionary.

    Examples
    --------
    >>> clock = Clock({"embedding": 5.0})
    >>> clock.lap("embedding")
    >>> clock.seconds["embedding"] > 5
    True
    """

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = {} if seconds is None else seconds
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to that of a stage."""
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


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


def check_scales(owner: object, name: str, values: Any) -> None:
    """Refuse what is no sequence of positive numbers."""
    if isinstance(values, str) or np.ndim(values) != 1 or not len(values):
        raise TypeError(
            f"{type(owner).__name__}({name}=...): must be a sequence of positive numbers, got {values!r}; write "
            f"({values!r},) for one"
        )
    for value in values:
        check_number(owner, name, value, low=0, inclusive="neither")


def only(values: Sequence[float], default: float) -> float:
    """The value if there is one alone, else the default."""
    return float(values[0]) if len(values) == 1 else default


def n_folds(tune: str | int, n_bags: int, groups: Array | None) -> str | int:
    """How a learner's ``tune`` splits so many bags: ``"holdout"``, or a number of folds.

    Examples
    --------
    >>> n_folds("holdout", 500, None), n_folds("holdout", 50, None), n_folds(3, 50, np.repeat([0, 1], 25))
    ('holdout', 5, 2)
    """
    if tune == "holdout" and n_bags >= FEW_BAGS:
        return "holdout"
    n = n_bags if groups is None else len(np.unique(groups))
    return min(5 if tune == "holdout" else int(tune), n)


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


def downhill(error: Callable[[int], float], n: int, start: int) -> int:
    """The least of n errors that have one valley, looking at few of them.

    Examples
    --------
    >>> seen = []
    >>> downhill(lambda i: seen.append(i) or (i - 6) ** 2, 11, start=5), seen
    (6, [5, 6, 7])
    >>> downhill(lambda i: (i - 6) ** 2, 5, start=0)
    4
    """
    at, least = start, error(start)
    for step in (1, -1):
        moved = False
        while 0 <= at + step < n and (there := error(at + step)) < least:
            at, least, moved = at + step, there, True
        if moved:
            break
    return at
