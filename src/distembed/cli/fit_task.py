"""What ``fit`` is asked for and what it found: labels of bags, which bags are held out, scores and intervals.

Holding bags out, scoring and learning from all is in :mod:`distembed.learners.holdout`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from ..compute.arrays import Array
from ..compute.checks import Message
from ..learners.classes import canonical_classes
from ..learners.covariates import CovariateColumns
from ..learners.holdout import Holdout, Mask, choose_calibration, choose_test
from ..tables import Joined, TableError, join
from .options import Labels

if TYPE_CHECKING:
    from ..bags import Bags
    from ..compute.progress import Stages
    from ..tables import BagTable
    from .covariates import Covariates


# --------------------------------------------------------------------------------------------------------------
# Their labels
# --------------------------------------------------------------------------------------------------------------


def matching_ids(ids: Any, labels: Labels, table_name: str, missing: str, unknown: str) -> Joined:
    """The labels of bags; errors name the file in which the partner is missing."""
    spare = "ignore" if unknown == "ignore" else "warn"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = join(ids, labels.table, missing=missing, unknown=spare)
    except TableError as error:
        raise TableError(Message(f"{table_name} and {labels.where}: ", *error.args)) from None
    for each in caught:
        text = Message(f"{labels.where}: ", *each.message.args)  # type: ignore[union-attr]
        if unknown == "error":
            raise TableError(text)
        warnings.warn(text, UserWarning, stacklevel=2)
    return found


# --------------------------------------------------------------------------------------------------------------
# What is fitted
# --------------------------------------------------------------------------------------------------------------


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
    empty: bool = False  # whether labels without points are of empty bags

    def add_empty(self, bags: Bags) -> Bags:
        """The bags, and an empty one for each label without points, where these are wanted."""
        if not self.empty:
            return bags
        index = self.labels.table.index
        return bags.with_empty(self.labels.table.ids[index.unused(index.rows_of(bags.ids))])

    def labelled(self, bags: Any) -> tuple[Any, Array, Array | None, Mask]:
        """Those of the bags, or ids, that have labels; their labels, their groups, and which the fit may not see."""
        joined = matching_ids(bags, self.labels, str(self.table), self.missing, self.unknown)
        bags = bags[joined.kept]
        y = canonical_classes(joined.labels) if is_classifier(self.model) else joined.labels
        groups = None
        if self.groups is not None:
            groups = matching_ids(bags, self.groups, str(self.table), "error", "ignore").labels
        if self.coverage is not None:
            return bags, y, groups, choose_calibration(len(y), groups, self.test, self.coverage, self.seed)
        return bags, y, groups, choose_test(y, is_classifier(self.model), groups, self.test, self.seed)

    def covariates_of(self, ids: Array) -> dict[str, Array] | None:
        """The covariates of bags by name, None if there are none."""
        return None if self.covariates is None else self.covariates.of(ids)


@dataclass
class Fitted:
    """A fitted model, and its scores on held-out bags."""

    model: Any  # the learner
    n_bags: int
    n_points: int
    holdout: Holdout = field(default_factory=Holdout)
    seconds: dict[str, float] = field(default_factory=dict)
    conformal: Any = None  # the learner with intervals or sets of classes around it
    mean_size: float = float("nan")  # their width, or number of classes, on average
    n_unlabelled: int = 0  # bags without a label, which were left out
    seen: Any = None  # bags, labels, groups and covariates; where all are in memory

    def use_kept_out(
        self,
        bags: Bags,
        y: Array,
        groups: Array | None,
        coverage: float | None,
        bar: Stages,
        covariates: dict[str, Array] | None = None,
    ) -> None:
        """Score the model on bags that were kept out of batches; they calibrate it, or it learns from them too."""
        table = None if covariates is None else CovariateColumns.read(covariates, bags.ids)
        self.holdout = Holdout.of(self.model, bags, y, table, groups=groups, stages=bar)
        self.seconds |= self.holdout.seconds
        if coverage is not None:
            self.calibrate(bags, y, groups, coverage, bar)
            return
        start = perf_counter()
        bar.begin("learning from all bags", bags.n_bags)
        self.model.partial_fit(bags, y, covariates=table).model_.solve()
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
