r"""How many bags, and how many points per bag, are enough? Learning curves with a law, an interval and a sentence.

A model is fitted to nested parts of the training bags, and to bags with some of their points left out, and scored on
held-out bags. The score follows a power law,

.. math:: s(n) = a - b n^{-c}, \qquad b \ge 0,\; a \le 1,\; c \in [0.1, 1.5],

whose posterior is sampled: for each c of a grid (a, b) are normal given the mean scores, with a prior of c around ½.
What all sizes of a split share, the luck of its held-out bags, moves the whole curve. It widens the interval of the
level, and not that of the gain.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils import check_random_state

from ..bags import Bags, as_bags
from ..bags.estimators import by_id
from ..compute.arrays import Array
from ..compute.checks import check_number, pandas_for
from ..compute.progress import Progress, stages_of

_EXPONENTS = np.linspace(0.1, 1.5, 29)
_N_DRAWS = 4000
_LEAST_NOISE = 0.003  # of a mean score
_SHARES_OF_POINTS = (0.125, 0.25, 0.5)
_COVERAGE = 0.9


class Forecast(NamedTuple):
    """A score at a size: about, and the ends of its 90 % interval; and the same of the gain."""

    score: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """Draws of the parameters of s(n) = a - b n^(-c).

    Parameters
    ----------
    a, b, c : ndarray of shape (n_draws,)
    level : float
        Deviation of what moves the whole curve.
    sizes, scores, errors : ndarray of shape (n_sizes,)
        What was measured: mean scores and their standard errors.

    Examples
    --------
    >>> n = np.array([10.0, 20, 40, 80])
    >>> law = PowerLaw.fit(n, (0.8 - n**-0.5)[None] + np.zeros((5, 1)))
    >>> at = law.at(320.0)
    >>> bool(at.low < 0.8 - 320**-0.5 < at.high)
    True
    """

    a: Array
    b: Array
    c: Array
    level: float
    sizes: Array
    scores: Array
    errors: Array

    @classmethod
    def fit(cls, sizes: Array, scores: Array, overlap: float = 1.0, seed: int = 0) -> PowerLaw:
        """Sample the law, from scores of shape (n_splits, n_sizes).

        ``overlap``: by how much the variance of what differs between sizes is larger than that of independent splits.
        """
        n = np.asarray(sizes, float)
        k, m = scores.shape
        mean = scores.mean(axis=0)
        split = scores.mean(axis=1)
        level2 = float(split.var(ddof=1)) / k if k > 1 else 0.0
        rest = scores - mean - (split - split.mean())[:, None]
        noise = np.sqrt((rest**2).sum(axis=0) / max(k - 1, 1) / k * overlap) if k > 1 else np.full(m, 0.01)
        pooled = np.sqrt(float(np.mean(noise**2)))
        sigma = np.sqrt(0.5 * noise**2 + 0.5 * pooled**2 + _LEAST_NOISE**2)
        rng = np.random.default_rng(seed)
        unit = n / n[-1]
        fits = [_given(unit**-c, mean, sigma) for c in _EXPONENTS]
        prior = -0.5 * ((np.log(_EXPONENTS) - np.log(0.5)) / 0.6) ** 2
        evidence = np.array([each[2] for each in fits]) + prior
        weights = np.exp(evidence - evidence.max())
        chosen = rng.choice(len(_EXPONENTS), 8 * _N_DRAWS, p=weights / weights.sum())
        normal = rng.normal(size=(len(chosen), 2))
        ab = np.array([fits[i][0] for i in chosen]) + np.einsum(
            "nij,nj->ni", np.array([fits[i][1] for i in range(len(fits))])[chosen], normal
        )
        valid = np.flatnonzero((ab[:, 1] >= 0) & (ab[:, 0] <= 1))[:_N_DRAWS]
        if len(valid) < 50:  # the curve falls or is flat: nothing is to be gained
            ab = np.column_stack([np.minimum(ab[:, 0] - np.maximum(ab[:, 1], 0), 1), np.zeros(len(ab))])
            valid = np.arange(min(_N_DRAWS, len(ab)))
        c = _EXPONENTS[chosen[valid]]
        errors = np.sqrt(sigma**2 + level2)
        return cls(ab[valid, 0], ab[valid, 1] * n[-1] ** c, c, float(np.sqrt(level2)), n, mean, errors)

    def draws(self, n: float) -> Array:
        """Scores at a size, one for each draw."""
        return np.asarray(self.a - self.b * float(n) ** -self.c)

    def at(self, n: float, noise: float = 0.0) -> Forecast:
        """The score at a size, and its gain over the largest size that was measured."""
        now, then = self.draws(self.sizes[-1]), self.draws(n)
        rng = np.random.default_rng(1)
        whole = then + np.hypot(self.level, noise) * rng.normal(size=len(then))
        ends = [(1 - _COVERAGE) / 2, (1 + _COVERAGE) / 2]
        low, high = np.quantile(whole, ends)
        gain_low, gain_high = np.quantile(then - now, ends)
        middle = float(np.median(then))
        return Forecast(
            middle, float(low), float(high), float(np.median(then - now)), float(gain_low), float(gain_high)
        )


def _given(x: Array, mean: Array, sigma: Array) -> tuple[Array, Array, float]:
    """Mean, root of the covariance, and logarithm of the evidence of (a, b) in mean = a - b x."""
    design = np.column_stack([np.ones(len(x)), -x]) / sigma[:, None]
    target = mean / sigma
    precision = design.T @ design + np.diag([1.0, 1.0])  # scores and what they lack are about one
    covariance = np.linalg.inv(precision)
    centre = covariance @ (design.T @ target)
    rest = float(target @ target - centre @ precision @ centre)
    evidence = -0.5 * rest + 0.5 * float(np.linalg.slogdet(covariance)[1])
    return centre, np.linalg.cholesky(covariance), evidence


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """What :func:`learning_curve` found; prints as a sentence.

    Attributes
    ----------
    bags : PowerLaw
        Scores over the number of training bags.
    points : PowerLaw or None
        Scores over the share of the points of each bag; None if that was not asked.
    score_name : str
        ``"R2"`` or ``"accuracy"``, of held-out bags.
    n_bags : int
        Bags of the table.
    scores_of_bags, scores_of_points : ndarray of shape (n_splits, n_sizes)
        Scores of each split.
    """

    bags: PowerLaw
    points: PowerLaw | None
    score_name: str
    n_bags: int
    scores_of_bags: Array = field(repr=False)
    scores_of_points: Array | None = field(repr=False, default=None)

    def with_bags(self, n_bags: float) -> Forecast:
        """The score with this many training bags."""
        return self.bags.at(n_bags)

    def with_points(self, times: float) -> Forecast | None:
        """The score with this many times as many points in each bag."""
        return None if self.points is None else self.points.at(times)

    def to_frame(self) -> Any:
        """A pandas data frame of the measured scores and their standard errors."""
        pandas = pandas_for("LearningCurve.to_frame")
        parts = [("bags", self.bags), *([] if self.points is None else [("share of points", self.points)])]
        rows = [
            {"over": what, "size": n, "score": s, "standard_error": e}
            for what, law in parts
            for n, s, e in zip(law.sizes, law.scores, law.errors, strict=True)
        ]
        return pandas.DataFrame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the curves; see :func:`distembed.plot.learning_curve`."""
        from ..plot import learning_curve as draw

        return draw(self, ax=ax)

    def __repr__(self) -> str:
        now = float(self.bags.scores[-1])
        more = int(self.bags.sizes[-1])
        found = self.with_bags(2 * more)
        text = (
            f"{more:,} more training bags would bring {self.score_name} from {now:.2f} to about {found.score:.2f} "
            f"({found.low:.2f} to {found.high:.2f})"
        )
        twice = self.with_points(2)
        if twice is None:
            return text
        if twice.gain < 0.01:
            return f"{text}; more points per bag would bring next to nothing (up to {max(twice.gain_high, 0):.2f})"
        gain = f"{twice.gain:.2f} ({twice.gain_low:.2f} to {twice.gain_high:.2f})"
        return f"{text}; twice as many points per bag would bring about {gain}"


def learning_curve(
    model: Any,
    bags: Any,
    y: Any,
    *,
    covariates: Any = None,
    groups: Any = None,
    n_sizes: int = 5,
    points: bool = True,
    n_folds: int = 5,
    n_repeats: int = 1,
    random_state: Any = 0,
    progress: Progress = False,
) -> LearningCurve:
    """How the score on held-out bags grows with the number of bags, and with the points of each.

    Parameters
    ----------
    model : estimator
        A learner of bags, or a pipeline; it is cloned for each fit.
    bags : Bags or anything that :func:`distembed.as_bags` reads
        At least 20 bags.
    y : array-like of shape (n_bags,), or Series indexed by id
        Targets: numbers are scored by R², for classifiers classes by the accuracy.
    covariates : mapping of str to array-like, or data frame, optional
        If ``fit`` takes some; rows in the order of the bags.
    groups : array-like of shape (n_bags,), optional
        Bags of one group are held out together.
    n_sizes : int, default=5
        Numbers of training bags that are tried, at equal ratios, from an eighth of them, or ten, to all.
    points : bool, default=True
        Whether to leave out points, too: an eighth, a quarter and a half of each bag are kept.
    n_folds, n_repeats : int, default=5 and 1
        Folds that are held out in turn, and how often the bags are split into folds.
    random_state : int, RandomState or None, default=0
        Of splits and parts.
    progress : bool, callable or object, default=False
        Shows how many fits are done.

    Returns
    -------
    LearningCurve
        ``print`` shows a sentence, ``with_bags(n)`` and ``with_points(times)`` a score with its 90 % interval,
        ``plot()`` a picture.

    Notes
    -----
    *The law* a - b n^(-c) is a habit of learning curves, not a theorem. Forecasts of up to twice the bags can be
    believed as far as their intervals reach; beyond that, less.

    *How often intervals hold* was checked on three real tables (districts, communes, days; 194 to 723 bags) with ridge
    regression and a forest, from curves of half of the bags to scores with twice as many, 51 times: those of 90 % held
    the score in more than nine of ten cases, and the gain in eight of ten.

    *What is forecast* is the score on bags like these. Held-out bags are part of the table, so its luck is in all
    scores.

    *Cost.* n_folds n_repeats (n_sizes + 3) fits, 40 by default, most of them of fewer bags: choose a model that fits
    fast, such as one row of a leaderboard.

    Examples
    --------
    >>> import distembed as de
    >>> bags, severity = de.datasets.make_cells(80, random_state=0)
    >>> model = de.DistributionRegressor("mean, linear")
    >>> found = de.learning_curve(model, bags, severity, points=False)
    >>> found.bags.sizes.tolist(), found.score_name
    ([10.0, 16.0, 25.0, 40.0, 64.0], 'R2')
    >>> forecast = found.with_bags(128)
    >>> bool(forecast.low <= forecast.score <= forecast.high)
    True
    """
    owner = "learning_curve"
    n_sizes = check_number(owner, "n_sizes", n_sizes, low=3, high=20, integer=True)
    n_folds = check_number(owner, "n_folds", n_folds, low=2, integer=True)
    n_repeats = check_number(owner, "n_repeats", n_repeats, low=1, integer=True)
    found = as_bags(bags)
    targets = np.asarray(by_id(y, found, "y"))
    if targets.shape != (found.n_bags,):
        raise ValueError(f"{owner}(y=...): must be of shape ({found.n_bags},), got {targets.shape}; one per bag")
    if found.n_bags < 20:
        raise ValueError(f"{owner}(bags=...): must have at least 20 bags, got {found.n_bags}; a curve needs more")
    rng = check_random_state(random_state)
    task = _Task(model, found, targets, covariates, bool(is_classifier(model)))
    given = None if groups is None else np.asarray(by_id(groups, found, "groups"))
    splits = list(task.splits(n_folds, n_repeats, given, rng))
    smallest = min(len(train) for train, _ in splits)
    first = min(max(10, smallest // 8), smallest // 2)
    sizes = np.unique(np.rint(np.geomspace(first, smallest, n_sizes)).astype(int))
    shares = _SHARES_OF_POINTS if points and found.sizes.max() > 1 else ()
    by_bags = np.empty((len(splits), len(sizes)))
    by_points = np.empty((len(splits), len(shares) + 1))
    with stages_of(progress, owner, "fits") as stages:
        stages.begin("fitting", len(splits) * (len(sizes) + len(shares)))
        for k, (train, test) in enumerate(splits):
            order = task.nested(train, rng)
            for j, n in enumerate(sizes):
                by_bags[k, j] = task.score(order[:n], test, 1.0, rng)
                stages.advance(1)
            for j, share in enumerate(shares):
                by_points[k, j] = task.score(order[:smallest], test, share, rng)
                stages.advance(1)
            by_points[k, -1] = by_bags[k, -1]
    overlap = 1 + len(splits) / (n_folds - 1)  # training bags of splits are the same ones: Nadeau and Bengio (2003)
    law = PowerLaw.fit(sizes.astype(float), by_bags, overlap)
    of_points = PowerLaw.fit(np.array([*shares, 1.0]), by_points, overlap) if shares else None
    name = "accuracy" if task.classify else "R2"
    return LearningCurve(law, of_points, name, found.n_bags, by_bags, by_points if shares else None)


@dataclass(frozen=True, eq=False)
class _Task:
    """Fits to parts of the bags, and scores on others."""

    model: Any
    bags: Bags
    y: Array
    covariates: Any
    classify: bool

    def splits(self, n_folds: int, n_repeats: int, groups: Array | None, rng: Any) -> Any:
        """Training and held-out bags."""
        n = np.zeros(len(self.y))
        for _ in range(n_repeats):
            seed = rng.randint(2**31 - 1)
            folds: Any = KFold(n_folds, shuffle=True, random_state=seed)
            if groups is not None:
                folds = GroupKFold(n_folds, shuffle=True, random_state=seed)
            elif self.classify:
                folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
            yield from folds.split(n, self.y, groups)

    def nested(self, train: Array, rng: Any) -> Array:
        """Training bags in an order whose beginnings are parts of them; of classes all are there early."""
        order = rng.permutation(train)
        if not self.classify:
            return np.asarray(order)
        place = np.empty(len(order))
        for each in np.unique(self.y[order]):
            here = np.flatnonzero(self.y[order] == each)
            place[here] = (np.arange(len(here)) + 0.5) / len(here)
        return np.asarray(order[np.argsort(place, kind="stable")])

    def score(self, train: Array, test: Array, share: float, rng: Any) -> float:
        """R² with the variance of all targets, or accuracy."""
        first, second = (_thinned(self.bags[rows], share, rng) for rows in (train, test))
        more: dict[str, Any] = {}
        ask: dict[str, Any] = {}
        if self.covariates is not None:
            more["covariates"], ask["covariates"] = (_rows(self.covariates, rows) for rows in (train, test))
        with warnings.catch_warnings():  # fits to few bags warn that there are few
            warnings.simplefilter("ignore", UserWarning)
            fitted = clone(self.model).fit(first, self.y[train], **more)
        predicted = np.asarray(fitted.predict(second, **ask))
        if self.classify:
            return float(np.mean(predicted == self.y[test]))
        truth = self.y[test].astype(float)
        return float(1 - np.mean((truth - predicted) ** 2) / np.var(self.y.astype(float)))


def _rows(table: Any, rows: Array) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return {name: np.asarray(values)[rows] for name, values in table.items()}


def _thinned(bags: Bags, share: float, rng: Any) -> Bags:
    """Bags with a share of their points, drawn at random, at least one of each."""
    if share >= 1:
        return bags
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    order = np.lexsort((rng.random_sample(bags.n_points), owner))
    rank = np.arange(bags.n_points) - bags.offsets[owner]
    kept = np.minimum(np.maximum(np.rint(share * bags.sizes).astype(int), 1), bags.sizes)
    rows = np.sort(order[rank < kept[owner]])
    weights = None if bags.weights is None else bags.weights[rows]
    return bags.replace(points=bags.points[rows], offsets=np.append(0, np.cumsum(kept)), weights=weights)
