r"""Sizes of bags as information: how many points a bag has, and how much they weigh.

    bags -> log n, log Σ w, log (Σ w)² / Σ w² -> rows, next to those of other views

A molecule has as many points as atoms, and a plot as many as animals were caught: their numbers say much about the
target, and no embedding shows them, because embeddings see the shares of points alone. Where a number of points is a
choice of whoever took the sample, it is an artefact, and ``sizes=False`` keeps it from the model.

*Which columns.* n counts the points of positive weight. The sum of the weights, and the number of equal points that
they are worth, are there where points have weights; each column only where it varies over the training bags. Weights
of sum one, such as fractions, have no sum to look at.

*Cost*: O(n_points).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.estimators import BagEmbedding
from ..compute.arrays import Array
from ..compute.checks import Argument, Message
from ..compute.registry import storable
from .leaderboard import Leaderboard

SIZE = "size"  # the name of the view
COLUMNS = ("log_n", "log_weight", "log_effective_n")
LEAST_SPREAD = 1e-3  # deviation of a logarithm below which a column is constant: weights of sum one, rounded
LITTLE = 0.05  # weight of members that see sizes, or share that sizes alone explain, of which nothing is said
LITTLE_MORE = 0.01  # what the best candidate that sees sizes explains more than others


def log_sizes(bags: Bags) -> Array:
    """Logarithms of the numbers of points, of the sums of their weights, and of effective numbers of points.

    Parameters
    ----------
    bags : Bags
        None of them empty.

    Returns
    -------
    ndarray of shape (n_bags, 3)
        In float64. Points without weights weigh 1.

    Examples
    --------
    >>> np.exp(log_sizes(Bags(np.zeros((5, 1)), [0, 2, 5], weights=[2, 2, 3, 1, 0]))).round(2)
    array([[2. , 4. , 2. ],
           [2. , 4. , 1.6]])
    """
    if bags.weights is None:
        return np.repeat(np.log(bags.sizes.astype(np.float64))[:, None], 3, axis=1)
    starts = bags.offsets[:-1]
    weights = bags.weights.astype(np.float64)
    unit = np.maximum.reduceat(weights, starts)  # squares of tiny weights would vanish
    part = weights / np.repeat(unit, bags.sizes)
    counts = np.add.reduceat((weights > 0).astype(np.float64), starts)
    sums = np.add.reduceat(part, starts)
    squares = np.add.reduceat(part**2, starts)
    found: Array = np.log(np.column_stack([counts, sums, sums**2 / squares]))
    found[:, 1] += np.log(unit)
    return found


def varying_columns(bags: Bags) -> Array:
    """Which columns of :func:`log_sizes` bags differ in, ndarray of int; without weights the first alone."""
    found = log_sizes(bags)[:, : 1 if bags.weights is None else 3]
    return np.flatnonzero(found.std(axis=0) > LEAST_SPREAD)


@storable(chosen_="int(m)", mean_="finite(m)", scale_="finite(m)")
class SizeEmbedding(BagEmbedding):
    """Embed bags by the logarithms of their sizes, standardised over the training bags.

    Attributes
    ----------
    chosen_ : ndarray of int of shape (n_features,)
        Which columns of :func:`log_sizes` there are: those in which training bags differ, else the number of points.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and deviation of each column over the training bags; 1 where it is constant.
    n_features_in_ : int
        n_dims.

    Examples
    --------
    >>> SizeEmbedding().fit_transform([[0.0], [0.0, 5.0], [4.0, 4.0, 4.0, 7.0]]).round(2)
    array([[-1.22],
           [ 0.  ],
           [ 1.22]])
    """

    takes_categories = True

    def _fit(self, bags: Bags, y: Any) -> None:
        some = varying_columns(bags)
        self.chosen_ = some if len(some) else np.zeros(1, np.int64)
        found = log_sizes(bags)[:, self.chosen_]
        spread = found.std(axis=0)
        self.mean_ = found.mean(axis=0)
        self.scale_ = np.where(spread > LEAST_SPREAD, spread, 1.0)
        self._n_features_out = len(self.chosen_)

    def __distembed_fits__(self) -> bool:
        inside = (self.chosen_ >= 0) & (self.chosen_ < len(COLUMNS))
        return bool(inside.all() and (self.scale_ > 0).all()) and self._n_features_out == len(self.chosen_)

    def _transform(self, bags: Bags) -> Array:
        return np.asarray((log_sizes(bags)[:, self.chosen_] - self.mean_) / self.scale_)

    def _feature_names(self) -> Iterable[str]:
        return [COLUMNS[k] for k in self.chosen_]


def size_weight(model: Any) -> float:
    """Weight, in a fitted model, of the members that see sizes."""
    pairs = zip(model.members, model.weights, strict=True)
    return float(sum(np.mean(weight) for member, weight in pairs if SIZE in member.views))


def share_of_sizes(board: Leaderboard) -> float:
    """What sizes alone explain of a target on held-out bags: R², or the share of the constant's log loss; at least 0.

    0 where it is not more than its standard error, NaN where no candidate saw sizes alone.
    """
    constant = next((row["score"] for row in board.candidates if row["name"] == "constant"), np.nan)
    alone = [row for row in board.candidates if row["name"].startswith(f"{SIZE}, ")]
    if not alone or not np.isfinite(constant):
        return np.nan
    best = max(alone, key=lambda row: row["score"])
    if best["score"] - constant <= best["standard_error"]:
        return 0.0
    return max(float(best["score"] if board.scoring == "r2" else 1 - best["score"] / constant), 0.0)


def _adds_little(board: Leaderboard) -> bool:
    """Whether candidates that see sizes are hardly better than others."""
    scores: dict[bool, list[float]] = {True: [], False: []}
    for row in board.candidates:
        if row["name"] != "constant":
            scores[SIZE in row["name"].rpartition(", ")[0].split(" + ")].append(row["score"])
    return bool(scores[True] and scores[False]) and max(scores[True]) < max(scores[False]) + LITTLE_MORE


def describe_sizes(learner: Any) -> str:
    """A sentence for people on what sizes of bags count in a fitted learner, empty where they count little.

    It names the remedy as a :class:`~distembed.compute.checks.Message` does, in the words of Python or of the command
    line.
    """
    model = getattr(learner, "model_", None)
    if model is None or SIZE not in model.views:
        return ""
    weight = size_weight(model)
    share = share_of_sizes(learner.leaderboard_)
    explains = share >= LITTLE
    if weight < LITTLE or (not explains and _adds_little(learner.leaderboard_)):
        return ""
    what = "the variance" if learner.scoring_ == "r2" else "the log loss"
    alone = f"bag sizes alone explain {share:.0%} of {what}, and " if explains else "bag sizes count: "
    members = f"members that see them have {weight:.0%} of the weight; if sizes are an artefact of sampling, "
    return Message(alone, members, "fit with ", Argument("sizes", False))
