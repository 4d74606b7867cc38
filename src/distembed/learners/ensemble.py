"""Predictions of many candidates as one: which of them count how much, and the ensemble that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.parallel import one_blas_thread
from ..compute.progress import SILENT, Stages
from ..compute.registry import storable
from ..scaling import Standardize
from .head_base import Head
from .heads import MOST_ROWS, KernelHead
from .wide_head import WideHead

_BEST, _STEPS, _ROUNDS = 20, 10, 10  # of the greedy selection
MOST_SUMS = 2000  # features of a head to which bags are added
_LEAST_PROBABILITY = 1e-4
_BEYOND = 0.25  # of the range of a feature in training, that a new bag may lie outside of it
_PIECE = 10_000  # bags whose features are in memory for predictions


class View(NamedTuple):
    """What heads see of bags: the features of an embedding behind a scaler, or encoded covariates without either."""

    name: str
    scaler: Any
    embedding: Any

    def fitted(self, bags: Bags, beside: Array | None = None) -> tuple[FittedView, Array]:
        """The same, fitted, and the features of the bags."""
        scaler = embedding = None
        if self.embedding is not None:
            with warnings.catch_warnings():  # of settings that nobody chose
                warnings.simplefilter("ignore", UserWarning)
                scaler = None if self.scaler is None else clone(self.scaler).fit(bags)
                embedding = clone(self.embedding).fit(bags if scaler is None else scaler.transform(bags))
        features = _features(scaler, embedding, bags, beside)
        mean, low, high = features.mean(axis=0), features.min(axis=0), features.max(axis=0)
        size = float(np.sqrt(np.mean(np.sum((features - mean) ** 2, axis=1)))) or 1.0
        beyond = _BEYOND * (high - low)
        return FittedView(scaler, embedding, mean, size, low - beyond, high + beyond), features


@storable(mean="finite(m)", size="number", low="finite(m)", high="finite(m)")
class FittedView(NamedTuple):
    """A fitted scaler or None, a fitted embedding, or None for covariates, and what its features were in training.

    Attributes
    ----------
    scaler, embedding : object or None
        Fitted.
    mean : ndarray of shape (n_features,)
        Mean of each feature.
    size : float
        Root mean squared distance from it.
    low, high : ndarray of shape (n_features,)
        Features of new bags are clipped to this range: that of the training bags and a quarter of it on either side. A
        column that is nearly constant in training has a tiny deviation, so that a new bag can lie a hundred deviations
        away from everything that heads have seen. No fold shows that, since views are fitted to all training bags.
    """

    scaler: Any
    embedding: Any
    mean: Array
    size: float
    low: Array
    high: Array

    def __distembed_fits__(self) -> bool:
        return bool(np.all(self.low <= self.high))

    def features(self, bags: Bags, beside: Array | None = None) -> Array:
        """Features of bags, float64 of shape (n_bags, n_features)."""
        return np.clip(_features(self.scaler, self.embedding, bags, beside), self.low, self.high)


def _features(scaler: Any, embedding: Any, bags: Bags, beside: Array | None) -> Array:
    if embedding is None:
        return np.asarray(beside, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scaled = bags if scaler is None else scaler.transform(bags)
        return np.asarray(embedding.transform(scaled), np.float64)


def losses(predicted: Array, targets: Array, n_classes: int | None) -> Array:
    """Loss of each bag, ndarray of shape (n_bags,): -log p of its class, or the squared error over the variance.

    Examples
    --------
    >>> losses(np.array([[0.25, 0.75]]), np.array([1]), 2).round(3)
    array([0.288])
    """
    if n_classes is not None:
        return np.asarray(-np.log(np.maximum(predicted[np.arange(len(targets)), targets], _LEAST_PROBABILITY)))
    variance = targets.var(axis=0)
    variance = np.where(variance > 1e-24 * np.mean(targets**2, axis=0), variance, 1.0)  # of a constant: rounding
    return np.asarray(np.mean((predicted - targets) ** 2 / variance, axis=1))


def mixed(weights: Array, predicted: Array) -> Array:
    """Sum of predictions (n_candidates, n_bags, n_outputs) times weights, ndarray of shape (n_bags, n_outputs)."""
    return np.asarray(np.einsum("c,cno->no", weights, predicted))


def greedy_weights(held_out: Array, losses_of: Callable[[Array, Array], Array], rng: np.random.RandomState) -> Array:
    """Weights of candidates, ndarray of shape (n_candidates,) that sums to one.

    The best twenty take part. The mean starts with those of them that are not worse than the best by two standard
    errors of the difference; then whichever lowers the loss of the mean most is added, as often as it helps, for
    several samples of the bags.

    Parameters
    ----------
    held_out : ndarray of shape (n_candidates, n_bags, n_outputs)
        Predictions for bags that were held out.
    losses_of : callable
        ``losses_of(predictions, rows)``: the loss of each of these bags, by their positions.
    rng : RandomState
        Draws bags with replacement.

    Examples
    --------
    >>> truth = np.arange(20.0)[:, None]
    >>> good, bad = truth + 0.1, -truth
    >>> weights = greedy_weights(
    ...     np.stack([good, bad, good - 0.2]),
    ...     lambda found, rows: np.mean((found - truth[rows]) ** 2, axis=1),
    ...     np.random.RandomState(0),
    ... )
    >>> bool(weights[1] < 0.05), round(float(weights.sum()), 6)
    (True, 1.0)
    """
    n_candidates, n_bags, _ = held_out.shape
    alone = np.stack([losses_of(each, np.arange(n_bags)) for each in held_out])
    top = np.argsort(alone.mean(axis=1), kind="stable")[:_BEST]
    worse = alone[top] - alone[top[0]]
    started = (worse.mean(axis=1) <= 2 * worse.std(axis=1) / np.sqrt(n_bags)).astype(np.float64)
    total = np.zeros(n_candidates)
    for _ in range(_ROUNDS):
        rows = np.asarray(rng.randint(n_bags, size=n_bags))
        known = held_out[top][:, rows]
        best, kept, counts = np.inf, started, started
        for _ in range(_STEPS):
            mean = mixed(counts, known)
            tried = [float(losses_of((mean + each) / (counts.sum() + 1), rows).mean()) for each in known]
            counts = counts + (np.arange(len(top)) == np.argmin(tried))
            if min(tried) < best:
                best, kept = min(tried), counts
        total[top] += kept / kept.sum()
    return np.asarray(total / total.sum())


@storable(views="dict[FittedView]", members="list[any]", weights="finite(n)", grows="bool")
@dataclass(frozen=True, eq=False)
class Ensemble:
    """The chosen candidates, fitted, and their weights.

    Parameters
    ----------
    views : dict of str to FittedView
        The views that members see.
    members : tuple of tuple
        The names of the views, and the fitted head.
    weights : ndarray of shape (n_members,)
        Positive, of sum one.
    grows : bool, default=False
        Whether bags can be added.
    """

    views: dict[str, FittedView]
    members: tuple[tuple[tuple[str, ...], Any], ...]
    weights: Array
    grows: bool = False

    def __distembed_fits__(self) -> bool:
        return len(self.members) == len(self.weights) > 0

    def predict(self, bags: Bags, beside: Array | None = None) -> Array:
        """Probabilities of classes or numbers, ndarray of shape (n_bags, n_outputs).

        Parameters
        ----------
        bags : Bags
            As many dimensions as in ``fit``.
        beside : ndarray of shape (n_bags, n_columns), optional
            Encoded covariates, if there is a view of them.
        """
        for view in self.views.values():
            if isinstance(view.scaler, Standardize):  # its warnings are not heard from within a view
                view.scaler.warn_of_far_points(bags, stacklevel=4)
                break
        found = []
        for start in range(0, bags.n_bags, _PIECE):
            some = slice(start, start + _PIECE)
            seen = self.heads_and_rows(bags[some], None if beside is None else beside[some])
            found.append(mixed(self.weights, np.stack([head.predict(rows) for head, rows in seen])))
        return np.concatenate(found)

    def refit(
        self, bags: Bags, targets: Array, weight: Array, beside: Array | None = None, stages: Stages = SILENT
    ) -> Ensemble:
        """The same fitted to other bags: views, settings and weights stay, heads learn again.

        Parameters
        ----------
        bags : Bags
            Other bags, any number of them.
        targets : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Codes of classes, or numbers.
        weight : ndarray of shape (n_bags,)
            Weights of bags, of mean one.
        beside : ndarray of shape (n_bags, n_columns), optional
            Encoded covariates, if there is a view of them.
        stages : Stages
            Hear of members.

        Notes
        -----
        Gaussian kernels on more than 3,000 bags are by random features, forests are grown on 20,000 bags at most, and
        large margins and Laplace kernels learn from 3,000.
        """
        stages.begin("fitting members to all bags", len(self.members))
        heads = []
        for head, rows in self.heads_and_rows(bags, beside):
            again, some = fitting_head(head, len(rows)), np.arange(len(rows))
            if again.most_rows is not None and len(rows) > again.most_rows:
                some = np.random.RandomState(again.random_state).choice(len(rows), again.most_rows, replace=False)
            with one_blas_thread() if len(some) <= MOST_ROWS else nullcontext():
                heads.append(again.refit(rows[some], targets[some], weight[some]))
            stages.advance(1)
        return self._with(heads)

    def growing(self) -> Ensemble:
        """The same for bags that are yet to come: kernel heads that know their settings, and nothing else.

        Trees stay, and so do linear heads of more than 2,000 features: the sums over bags have that number squared.
        """
        heads = [
            WideHead.like(head, MOST_SUMS)
            if isinstance(head, KernelHead) and (head.kernel == "rbf" or head.n_features_in_ <= MOST_SUMS)
            else head
            for _, head in self.members
        ]
        return replace(self._with(heads), grows=True)

    def partial_fit(self, bags: Bags, targets: Array, weight: Array) -> None:
        """Add bags to what heads have learned from; parameters as for :meth:`refit`."""
        members = tuple(member for member in self.members if isinstance(member[1], WideHead))
        for head, rows in replace(self, members=members).heads_and_rows(bags, None):
            head.partial_fit(rows, targets, weight)

    def solve(self) -> None:
        """Solve the equations of added bags now, rather than when predictions first need it."""
        for _, head in self.members:
            if isinstance(head, WideHead):
                head.solve()

    def _with(self, heads: Sequence[Any]) -> Ensemble:
        """The same with other heads."""
        return replace(self, members=tuple((names, head) for (names, _), head in zip(self.members, heads, strict=True)))

    def heads_and_rows(self, bags: Bags, beside: Array | None) -> Iterator[tuple[Any, Array]]:
        """The head of each member, and the rows that it sees; features are computed once, and dropped after use."""
        last = {name: i for i, (names, _) in enumerate(self.members) for name in names}
        seen: dict[str, Array] = {}
        for i, (names, head) in enumerate(self.members):
            for name in names:
                if name not in seen:
                    seen[name] = self.views[name].features(bags, beside)
            yield head, side_by_side([(seen[name], self.views[name]) for name in names])
            for name in names:
                if last[name] == i:
                    del seen[name]


def fitting_head(head: Head, n_rows: int) -> Any:
    """A copy of a fitted head that can be fitted to so many rows with its settings."""
    widens = isinstance(head, KernelHead) and head.kernel != "laplace" and head.loss != "svm"
    if widens and n_rows > (head.most_rows or n_rows):
        return WideHead.like(head)
    return copy(head)


def side_by_side(parts: Sequence[tuple[Array, FittedView]]) -> Array:
    """Features of several views as one matrix: as they are for one, else centred and of equal size."""
    if len(parts) == 1:
        return parts[0][0]
    return np.hstack([(features - view.mean) / view.size for features, view in parts])
