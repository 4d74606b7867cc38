"""Bags that a fit does not see, and what is told by them.

Some bags take no part in the fit: they are predicted, which gives an honest score, and then the linear model learns
from them too, so that no bag is lost. Scaling, settings and embedding stay as they were. Or they calibrate intervals:
then nothing may learn from them, for intervals are as wide as the errors on bags that the model has not seen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ..compute.arrays import Array
from ..compute.checks import Message
from ..learners.scores import Score, of_classes, of_numbers
from ..tables import Joined, LabelTable, TableError, join
from .options import Labels

if TYPE_CHECKING:
    from ..bags import Bags
    from ..compute.progress import Stages
    from ..tables import BagTable
    from .covariates import Covariates

Mask = NDArray[np.bool_]

FEWEST_BAGS = 20  # of fewer, none is kept out unless the user wants it
MOST_TEST_BAGS = 2000  # as many as are looked at by the search
_JUDGED_AT_ONCE = 500


# --------------------------------------------------------------------------------------------------------------
# Their labels
# --------------------------------------------------------------------------------------------------------------


def _alike(ids: Any, labels: LabelTable) -> LabelTable:
    """Labels whose ids are text as those of the bags are: 7 in a CSV file, which is a number elsewhere, may be text."""
    bags = np.asarray(getattr(ids, "ids", ids))
    texts = labels.ids.astype(str)
    if bags.dtype.kind == "U" and labels.ids.dtype.kind in "iu" and np.isin(texts, bags).any():
        return LabelTable(texts, labels.labels)
    return labels


def matching_ids(ids: Any, labels: Labels, table_name: str, missing: str, unknown: str) -> Joined:
    """The labels of bags; errors name the file in which the partner is missing."""
    table = _alike(ids, labels.table)
    spare = "ignore" if unknown == "ignore" else "warn"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = join(ids, table, missing=missing, unknown=spare)
    except TableError as error:
        raise TableError(Message(f"{table_name} and {labels.where}: ", *error.args)) from None
    for each in caught:
        text = Message(f"{labels.where}: ", *each.message.args)  # type: ignore[union-attr]
        if unknown == "error":
            raise TableError(text)
        warnings.warn(text, UserWarning, stacklevel=2)
    return found


# --------------------------------------------------------------------------------------------------------------
# Which bags are kept out
# --------------------------------------------------------------------------------------------------------------


def choose_test(y: Array, classes: bool, groups: Array | None, share: float | None, seed: int) -> Mask:
    """Which bags are kept out: whole groups, or the same share of each class, or any.

    Parameters
    ----------
    y : ndarray of shape (n_bags,)
        Labels.
    classes : bool
        Whether these are classes; of each, two bags at least are left.
    groups : ndarray of shape (n_bags,), optional
        Bags of one group are kept out together; two groups at least are left.
    share : float or None
        How many; None is a tenth, at most 2,000, and none of fewer than 20 bags.
    seed : int

    Examples
    --------
    >>> int(choose_test(np.repeat(["a", "b"], 20), True, None, 0.1, 0).sum())
    4
    >>> int(choose_test(np.arange(10.0), False, None, None, 0).sum())
    0
    """
    n = len(y)
    chosen = np.zeros(n, bool)
    if share is None:
        share = 0.0 if n < FEWEST_BAGS else min(0.1, MOST_TEST_BAGS / n)
    if share == 0:
        return chosen
    rng = np.random.default_rng(seed)
    if groups is not None:
        names, sizes = np.unique(groups, return_counts=True)
        order = rng.permutation(len(names))
        enough = int(np.searchsorted(np.cumsum(sizes[order]), share * n)) + 1
        return np.isin(groups, names[order[: max(0, min(enough, len(names) - 2))]])
    for part in [np.flatnonzero(y == name) for name in np.unique(y)] if classes else [np.arange(n)]:
        count = max(0, min(round(share * len(part)), len(part) - 2))
        chosen[rng.choice(part, count, replace=False)] = True
    return chosen


def choose_calibration(n_bags: int, groups: Array | None, share: float | None, coverage: float, seed: int) -> Mask:
    """Which bags calibrate intervals: a share of all bags, or of all groups, drawn evenly, and enough of them.

    The promise is for bags that come as these have come, so classes have no say here.

    Parameters
    ----------
    n_bags : int
    groups : ndarray of shape (n_bags,), optional
        Whole groups are kept out, and count as one each.
    share : float or None
        How many; None is a fifth, and at most 2,000 bags.
    coverage : float
        c; ⌈c / (1 - c)⌉ bags or groups are needed.
    seed : int

    Examples
    --------
    >>> int(choose_calibration(50, None, None, 0.9, 0).sum())
    10
    """
    level = Fraction(str(coverage))  # as it is written: 0.9, not the double next to it
    needed = math.ceil(level / (1 - level))
    number = np.arange(n_bags) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_units = int(number.max()) + 1
    what = "bags" if groups is None else "groups"
    if share is None:
        share = min(0.2, MOST_TEST_BAGS / n_bags)
    n_kept = min(math.ceil(share * n_units), n_units - 2)
    if n_kept < needed:
        enough = math.ceil(100 * needed / n_units) / 100
        more = f"add --test {enough:g}, or lower --coverage" if needed + 2 <= n_units else "lower --coverage"
        raise click.UsageError(
            f"--coverage {coverage:g} needs {needed} {what} that are kept out, and {max(n_kept, 0)} of {n_units} would "
            f"be; {more}"
        )
    chosen = np.random.default_rng(seed).permutation(n_units)[:n_kept]
    return np.isin(number, chosen)


@dataclass(frozen=True)
class FitTask:
    """What is to be learned, and from what."""

    model: Any  # the learner
    table: BagTable
    labels: Labels
    groups: Labels | None
    covariates: Covariates | None
    missing: str  # what becomes of bags without label
    unknown: str  # and of labels without bag
    test: float | None  # share of bags that are kept out
    coverage: float | None  # of intervals
    seed: int

    def labelled(self, bags: Any) -> tuple[Any, Array, Array | None, Mask]:
        """Those of the bags, or ids, that have labels; their labels, their groups, and which the fit may not see."""
        joined = matching_ids(bags, self.labels, str(self.table), self.missing, self.unknown)
        bags = bags[joined.kept]
        y = joined.labels
        groups = None
        if self.groups is not None:
            groups = matching_ids(bags, self.groups, str(self.table), "error", "ignore").labels
        if self.coverage is not None:
            return bags, y, groups, choose_calibration(len(y), groups, self.test, self.coverage, self.seed)
        classes = is_classifier(self.model)
        out = choose_test(y, classes, groups, self.test, self.seed)
        lost = np.setdiff1d(y[out], y[~out]) if classes else y[:0]
        if len(lost):
            raise click.UsageError(
                f"class {lost.tolist()[0]!r} is in groups alone that are kept out; add --test 0, or try another --seed"
            )
        return bags, y, groups, out

    def columns_of(self, bags: Bags) -> Callable[[Any], dict[str, Any]]:
        """What the learner is given of the covariates of some of these bags, by rows; nothing if there are none."""
        if self.covariates is None:
            return lambda rows: {}
        columns = self.covariates.of(bags.ids)
        return lambda rows: {"covariates": {name: values[rows] for name, values in columns.items()}}


# --------------------------------------------------------------------------------------------------------------
# What they are for
# --------------------------------------------------------------------------------------------------------------


@dataclass
class Fitted:
    """A fitted model, and how it did on bags that it had not seen."""

    model: Any  # the learner
    n_bags: int
    n_points: int
    n_test: int = 0
    judged_by: str | None = None  # "test" or "leave-one-out"
    truth: Array = field(default_factory=lambda: np.empty(0))
    predicted: Array = field(default_factory=lambda: np.empty(0))
    probabilities: Array | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    conformal: Any = None  # the learner with intervals or sets of classes around it
    mean_size: float = float("nan")  # their width, or number of classes, on average
    seen: Any = None  # bags, labels, groups, which were kept out, and covariates by rows; where all are in memory

    def judge(self, bags: Bags, y: Array, bar: Stages, covariates: dict[str, Array] | None = None) -> None:
        """Predict bags that were kept out."""
        start = perf_counter()
        model = self.model
        some = []
        self.judged_by = "test"
        self.truth = y
        self.n_test = bags.n_bags
        shares = hasattr(model, "predict_proba")
        bar.begin("judging", bags.n_bags)
        for first in range(0, bags.n_bags, _JUDGED_AT_ONCE):
            here = slice(first, first + _JUDGED_AT_ONCE)
            piece = bags[here]
            beside = {}
            if covariates is not None:
                beside["covariates"] = {name: values[here] for name, values in covariates.items()}
            some.append(model.predict_proba(piece, **beside) if shares else model.predict(piece, **beside))
            bar.advance(piece.n_bags)
        found = np.concatenate(some)
        self.probabilities = found if shares else None
        self.predicted = model.classes_[found.argmax(axis=1)] if shares else found
        self.seconds["judging"] = perf_counter() - start

    def use_kept_out(
        self,
        bags: Bags,
        y: Array,
        groups: Array | None,
        coverage: float | None,
        bar: Stages,
        covariates: dict[str, Array] | None = None,
    ) -> None:
        """Judge the model on bags that were kept out of batches; then they calibrate it, or it learns from them too."""
        self.judge(bags, y, bar, covariates)
        if coverage is not None:
            self.calibrate(bags, y, groups, coverage, bar)
            return
        start = perf_counter()
        bar.begin("learning from all bags", bags.n_bags)
        self.model.partial_fit(bags, y, covariates=covariates).model_.solve()
        self.seconds["learning from all bags"] = perf_counter() - start

    def calibrate(self, bags: Bags, y: Array, groups: Array | None, coverage: float, bar: Stages) -> None:
        """Put intervals, or sets of classes, around the model, by the bags that were kept out."""
        from ..learners import ConformalClassifier, ConformalRegressor

        start = perf_counter()
        bar.begin("calibrating", None)
        settings: dict[str, Any] = {"coverage": coverage, "prefit": True}
        if is_classifier(self.model):  # people read these sets, and an empty one tells them nothing
            self.conformal = ConformalClassifier(self.model, allow_empty=False, random_state=0, **settings)
            sizes = self.conformal.calibrate(bags, y, groups=groups).predict_set(bags).sum(axis=1)
        else:
            self.conformal = ConformalRegressor(self.model, **settings)
            sizes = np.diff(self.conformal.calibrate(bags, y, groups=groups).predict_interval(bags), axis=1)
        self.mean_size = float(sizes.mean())
        self.seconds["calibrating"] = perf_counter() - start

    def scores(self) -> dict[str, Score]:
        """How good its predictions were; nothing if it was not judged."""
        if self.judged_by is None:
            return {}
        if is_classifier(self.model):
            return of_classes(self.truth, self.predicted, self.model.classes_, self.probabilities)
        return of_numbers(self.truth, self.predicted)
