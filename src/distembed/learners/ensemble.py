"""Predictions of many candidates as one: which of them count how much, and the ensemble that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.progress import SILENT, Stages
from ..compute.registry import storable
from .head_base import Head
from .heads import KernelHead
from .wide_head import WideHead

_STARTED, _STEPS, _ROUNDS = 3, 12, 25  # of the greedy selection
_LEAST_PROBABILITY = 1e-4


class View(NamedTuple):
    """What heads see of bags: the features of an embedding behind a scaler."""

    name: str
    scaler: Any
    embedding: Any

    def fitted(self, bags: Bags) -> View:
        """The same, fitted."""
        with warnings.catch_warnings():  # of settings that nobody chose
            warnings.simplefilter("ignore", UserWarning)
            scaler = clone(self.scaler).fit(bags)
            return View(self.name, scaler, clone(self.embedding).fit(scaler.transform(bags)))

    def features(self, bags: Bags) -> Array:
        """Features of bags, float64 of shape (n_bags, n_features)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(self.embedding.transform(self.scaler.transform(bags)), np.float64)


def losses(predicted: Array, targets: Array, n_classes: int | None) -> Array:
    """Loss of each bag, ndarray of shape (n_bags,): -log p of its class, or the squared error over the variance.

    Examples
    --------
    >>> losses(np.array([[0.25, 0.75]]), np.array([1]), 2).round(3)
    array([0.288])
    """
    if n_classes is not None:
        return np.asarray(-np.log(np.maximum(predicted[np.arange(len(targets)), targets], _LEAST_PROBABILITY)))
    variance = np.maximum(targets.var(axis=0), 1e-300)
    return np.asarray(np.mean((predicted - targets) ** 2 / variance, axis=1))


def mixed(weights: Array, predicted: Array) -> Array:
    """Sum of predictions (n_candidates, n_bags, n_outputs) times weights, ndarray of shape (n_bags, n_outputs)."""
    return np.asarray(np.einsum("c,cno->no", weights, predicted))


def greedy_weights(held_out: Array, loss: Callable[[Array, Array], float], rng: np.random.RandomState) -> Array:
    """Weights of candidates, ndarray of shape (n_candidates,) that sums to one.

    Parameters
    ----------
    held_out : ndarray of shape (n_candidates, n_bags, n_outputs)
        Predictions for bags that were held out.
    loss : callable
        ``loss(predictions, rows)``: the mean loss of predictions for these bags, by their positions.
    rng : RandomState
        Draws halves of the candidates, and bags with replacement.

    Examples
    --------
    >>> truth = np.arange(20.0)[:, None]
    >>> good, bad = truth + 0.1, -truth
    >>> weights = greedy_weights(
    ...     np.stack([good, bad, good - 0.2]),
    ...     lambda found, rows: float(np.mean((found - truth[rows]) ** 2)),
    ...     np.random.RandomState(0),
    ... )
    >>> bool(weights[1] < 0.05), round(float(weights.sum()), 6)
    (True, 1.0)
    """
    n_candidates, n_bags, _ = held_out.shape
    total = np.zeros(n_candidates)
    for _ in range(_ROUNDS):
        some = np.sort(rng.choice(n_candidates, min(n_candidates, max(2, -(-n_candidates // 2))), replace=False))
        rows = np.asarray(rng.randint(n_bags, size=n_bags))
        known = held_out[some][:, rows]
        single = np.array([loss(each, rows) for each in known])
        counts = np.zeros(len(some))
        counts[np.argsort(single, kind="stable")[:_STARTED]] = 1
        best, kept = np.inf, counts.copy()
        for _ in range(_STEPS):
            mean = mixed(counts, known)
            tried = [loss((mean + each) / (counts.sum() + 1), rows) for each in known]
            if min(tried) < best:
                best, kept = min(tried), counts.copy()
                kept[int(np.argmin(tried))] += 1
            counts[int(np.argmin(tried))] += 1
        total[some] += kept / kept.sum()
    return np.asarray(total / total.sum())


@storable
@dataclass(frozen=True, eq=False)
class Ensemble:
    """The chosen candidates, fitted, and their weights.

    Parameters
    ----------
    views : dict of str to tuple
        Fitted scaler, fitted embedding, and the mean and the size of its features, of the views that members see.
    members : tuple of tuple
        The names of the views, and the fitted head.
    weights : ndarray of shape (n_members,)
        Positive, of sum one.
    """

    views: dict[str, tuple[Any, Any, Array, float]]
    members: tuple[tuple[tuple[str, ...], Any], ...]
    weights: Array

    def predict(self, bags: Bags) -> Array:
        """Probabilities of classes or numbers, ndarray of shape (n_bags, n_outputs)."""
        seen = self._seen(bags)
        found = [head.predict(self._rows(names, seen)) for names, head in self.members]
        return mixed(self.weights, np.stack(found))

    def refit(self, bags: Bags, targets: Array, weight: Array, stages: Stages = SILENT) -> Ensemble:
        """The same fitted to other bags: views, settings and weights stay, heads learn again.

        Parameters
        ----------
        bags : Bags
            Other bags, any number of them.
        targets : ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Codes of classes, or numbers.
        weight : ndarray of shape (n_bags,)
            Weights of bags, of mean one.
        stages : Stages
            Hear of members.

        Notes
        -----
        Kernels on more than 3,000 bags are by random features, forests are grown on 20,000 bags at most, and large
        margins learn from 3,000.
        """
        stages.begin("learning from all bags", len(self.members))
        seen = self._seen(bags)
        members = []
        for names, head in self.members:
            rows, some = self._rows(names, seen), slice(None)
            head = fitting_head(head, len(rows))
            if head.most_rows is not None and len(rows) > head.most_rows:
                some = np.random.RandomState(head.random_state).choice(len(rows), head.most_rows, replace=False)
            members.append((names, head.refit(rows[some], targets[some], weight[some])))
            stages.advance(1)
        return replace(self, members=tuple(members))

    def _seen(self, bags: Bags) -> dict[str, Array]:
        """Features of all views."""
        return {name: View(name, *parts[:2]).features(bags) for name, parts in self.views.items()}

    def _rows(self, names: tuple[str, ...], seen: dict[str, Array]) -> Array:
        return side_by_side([(seen[name], *self.views[name][2:]) for name in names])


def fitting_head(head: Head, n_rows: int) -> Any:
    """A copy of a fitted head that can be fitted to so many rows with its settings."""
    if isinstance(head, KernelHead) and head.loss != "svm" and n_rows > (head.most_rows or n_rows):
        return WideHead.like(head)
    return copy(head)


def side_by_side(parts: Sequence[tuple[Array, Array, float]]) -> Array:
    """Features of several views as one matrix: as they are for one, else centred and of equal size."""
    if len(parts) == 1:
        return parts[0][0]
    return np.hstack([(features - mean) / size for features, mean, size in parts])
