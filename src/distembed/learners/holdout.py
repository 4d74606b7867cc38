r"""Held-out bags: a learner is scored on bags that its fit does not see, and then learns from them too.

    bags -> training bags -> fit: scaling, settings, members
         -> held-out bags -> predictions -> scores with standard errors
         -> all bags -> refit: settings stay, and no bag is lost

:meth:`Learner.fit_and_score` does all of it for bags in memory. Bags that calibrate intervals are held out too, and
nothing may learn from them afterwards: intervals are as wide as the errors on held-out bags.

*Cost* beyond ``fit``: predictions for the held-out bags, and one ``refit``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..compute.arrays import Array
from ..compute.checks import Argument, Message
from ..compute.progress import SILENT, Stages
from .conformal import coverage_of, n_units_needed
from .prediction_table import predict_with_probabilities
from .scores import Score, of_classes, of_numbers, title

Mask = NDArray[np.bool_]

FEWEST_TO_SPLIT = 20  # bags; of fewer, none is held out unless the user wants it
MOST_HELD_OUT = 2000  # bags, as many as the search looks at
_PIECE = 500  # bags that are predicted at a time


# Which bags are held out


def choose_test(y: Array, classes: bool, groups: Array | None, share: float | None, seed: Any) -> Mask:
    """Which bags are held out to score a model: whole groups, or the same share of each class, or any.

    Parameters
    ----------
    y : ndarray of shape (n_bags,)
        Targets.
    classes : bool
        Whether these are classes; at least two bags of each are left.
    groups : ndarray of shape (n_bags,), optional
        Bags of one group are held out together; at least two groups are left.
    share : float or None
        Of the bags; None is a tenth, at most 2,000 bags, and none of fewer than 20.
    seed : int or None
        Draws the bags.

    Returns
    -------
    ndarray of bool of shape (n_bags,)

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
        share = 0.0 if n < FEWEST_TO_SPLIT else min(0.1, MOST_HELD_OUT / n)
    if share == 0:
        return chosen
    rng = np.random.default_rng(seed)
    if groups is not None:
        names, sizes = np.unique(groups, return_counts=True)
        order = rng.permutation(len(names))
        enough = int(np.searchsorted(np.cumsum(sizes[order]), share * n)) + 1
        chosen = np.isin(groups, names[order[: max(0, min(enough, len(names) - 2))]])
        lost = np.setdiff1d(y[chosen], y[~chosen]) if classes else y[:0]
        if len(lost):
            said = f"class {lost.tolist()[0]!r} is in groups alone that are kept out; add "
            raise ValueError(Message(said, Argument("test", 0), ", or try another ", Argument("random_state")))
        return chosen
    for part in [np.flatnonzero(y == name) for name in np.unique(y)] if classes else [np.arange(n)]:
        count = max(0, min(round(share * len(part)), len(part) - 2))
        chosen[rng.choice(part, count, replace=False)] = True
    return chosen


def choose_calibration(n_bags: int, groups: Array | None, share: float | None, coverage: float, seed: Any) -> Mask:
    """Which bags calibrate intervals: a share of all bags, or of all groups, drawn evenly, and enough of them.

    The promise is for bags that come as these have come, so classes are not balanced here.

    Parameters
    ----------
    n_bags : int
        How many there are.
    groups : ndarray of shape (n_bags,), optional
        Whole groups are held out, and count as one each.
    share : float or None
        Of the bags, or groups; None is a fifth, and at most 2,000 bags.
    coverage : float
        c; ⌈c / (1 - c)⌉ bags or groups are needed.
    seed : int or None
        Draws the bags.

    Returns
    -------
    ndarray of bool of shape (n_bags,)

    Examples
    --------
    >>> int(choose_calibration(50, None, None, 0.9, 0).sum())
    10
    """
    needed = n_units_needed(coverage_of("choose_calibration", coverage))
    number = np.arange(n_bags) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_units = int(number.max()) + 1
    if share is None:
        share = min(0.2, MOST_HELD_OUT / n_bags)
    n_kept = min(math.ceil(share * n_units), n_units - 2)
    if n_kept < needed:
        what = "bags" if groups is None else "groups"
        enough = Argument("test", float(f"{math.ceil(100 * needed / n_units) / 100:g}"))
        remedy = Message("add ", enough, ", or lower ") if needed + 2 <= n_units else Message("lower ")
        raise ValueError(
            Message(
                Argument("coverage", float(f"{coverage:g}")),
                f" needs {needed} {what} that are kept out, and {max(n_kept, 0)} of {n_units} would be; ",
                remedy,
                Argument("coverage"),
            )
        )
    chosen = np.random.default_rng(seed).permutation(n_units)[:n_kept]
    return np.isin(number, chosen)


# How good predictions for them are


@dataclass(frozen=True, eq=False)
class Holdout:
    """Predictions for held-out bags, and how good they are.

    Attributes
    ----------
    how : {"test", "leave-one-out"} or None
        Whether one model predicted bags that were held out together, or a model of all others each of them. None:
        nothing was held out.
    rows : ndarray of bool of shape (n_bags,)
        Which bags these are.
    truth, predicted : ndarray of shape (n_held_out,)
        Their targets, and the predictions.
    probabilities : ndarray of shape (n_held_out, n_classes) or None
        Of classes, where the model has them.
    classes : ndarray of shape (n_classes,) or None
        Of classifiers.
    seconds : dict of str to float
        What fitting, predicting and learning from all bags took.
    groups : ndarray of shape (n_held_out,) or None
        Bags of one group err together: standard errors are over groups.

    Examples
    --------
    >>> found = Holdout("test", np.ones(4, bool), np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 6.0]))
    >>> print(found)
    4 held-out bags: RMSE 1 ± 0.87, MAE 0.5 ± 0.5, R² 0.2 ± 1.2
    """

    how: str | None = None
    rows: Mask = field(default_factory=lambda: np.empty(0, bool))
    truth: Array = field(default_factory=lambda: np.empty(0))
    predicted: Array = field(default_factory=lambda: np.empty(0))
    probabilities: Array | None = None
    classes: Array | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    groups: Array | None = None

    @classmethod
    def of(
        cls,
        learner: Any,
        bags: Any,
        y: Array,
        covariates: Any = None,
        *,
        rows: Mask | None = None,
        groups: Array | None = None,
        stages: Stages = SILENT,
    ) -> Self:
        """Predict held-out bags of a learner, some at a time.

        Parameters
        ----------
        learner : DistributionRegressor or DistributionClassifier
            Fitted.
        bags : Bags
            The held-out ones.
        y : ndarray of shape (n_held_out,)
            Their targets.
        covariates : table that takes slices, optional
            Of these bags.
        rows : ndarray of bool of shape (n_bags,), optional
            Which of all bags these are; by default there are no others.
        groups : ndarray of shape (n_held_out,), optional
            Bags of one group err together.
        stages : Stages
            Receives progress, one step per bag.
        """
        start = perf_counter()
        found = []
        stages.begin("judging", bags.n_bags)
        for first in range(0, bags.n_bags, _PIECE):
            here = slice(first, first + _PIECE)
            piece = bags[here]
            found.append(predict_with_probabilities(learner, piece, None if covariates is None else covariates[here]))
            stages.advance(piece.n_bags)
        predicted, probabilities = zip(*found, strict=True)
        return cls(
            "test",
            np.ones(len(y), bool) if rows is None else rows,
            y,
            np.concatenate(predicted),
            None if probabilities[0] is None else np.concatenate(probabilities),
            getattr(learner, "classes_", None),
            {"judging": perf_counter() - start},
            groups,
        )

    @property
    def n_test(self) -> int:
        """How many bags were held out together."""
        return len(self.truth) if self.how == "test" else 0

    @property
    def scores(self) -> dict[str, Score]:
        """Scores by name, see :mod:`distembed.learners.scores`; none if nothing was held out."""
        if self.how is None:
            return {}
        if self.classes is not None:
            return of_classes(self.truth, self.predicted, self.classes, self.probabilities, self.groups)
        return of_numbers(self.truth, self.predicted, self.groups)

    def __str__(self) -> str:
        if self.how is None:
            return "no bags were held out"
        scores = ", ".join(f"{title(name)} {score}" for name, score in self.scores.items())
        return f"{len(self.truth):,} held-out bags: {scores}"
