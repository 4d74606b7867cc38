"""Predictions of many candidates as one: which of them count how much, and the ensemble that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.registry import storable
from ..features import RandomFourierFeatures
from .head_base import Head
from .heads import KernelHead
from .ridge import fit_ridge

_STARTED, _STEPS, _ROUNDS = 3, 12, 25  # of the greedy selection
_LEAST_PROBABILITY = 1e-4
_PIECE = 4096  # rows of random features at a time


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
        seen = {name: View(name, *parts[:2]).features(bags) for name, parts in self.views.items()}
        found = [head.predict(self._rows(names, seen)) for names, head in self.members]
        return mixed(self.weights, np.stack(found))

    def _rows(self, names: tuple[str, ...], seen: dict[str, Array]) -> Array:
        return side_by_side([(seen[name], *self.views[name][2:]) for name in names])


def side_by_side(parts: Sequence[tuple[Array, Array, float]]) -> Array:
    """Features of several views as one matrix: as they are for one, else centred and of equal size."""
    if len(parts) == 1:
        return parts[0][0]
    return np.hstack([(features - mean) / size for features, mean, size in parts])


@storable
class WideHead(Head):
    """A kernel head for more rows than a kernel matrix holds: random features with the settings that a part chose.

    Parameters
    ----------
    sigma : float
        Of the Gaussian kernel.
    penalty : float
        α of ridge regression, or C of logistic regression.
    n_classes : int, optional
        None for regression.
    n_components : int, default=3000
        D, the number of random features.
    random_state : int, default=0
        Draws them.
    """

    def __init__(
        self,
        sigma: float = 1.0,
        penalty: float = 1.0,
        n_classes: int | None = None,
        n_components: int = 3000,
        random_state: int = 0,
    ) -> None:
        self.sigma = sigma
        self.penalty = penalty
        self.n_classes = n_classes
        self.n_components = n_components
        self.random_state = random_state

    @classmethod
    def like(cls, head: KernelHead, random_state: int) -> WideHead:
        """With the settings of a head that was fitted to some of the rows."""
        penalty = head.alpha_ if head.n_classes is None else head.penalty_
        return cls(head.scale_, penalty if np.isfinite(penalty) else 1.0, head.n_classes, random_state=random_state)

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Fit to all rows; nothing is chosen, and nothing held out."""
        F = np.asarray(features, np.float32)
        self.n_features_in_ = F.shape[1]
        self.random_ = RandomFourierFeatures(self.n_components, sigma=self.sigma, random_state=self.random_state)
        self.random_.fit(F[:1])
        weight = np.ones(len(F)) if weight is None else weight
        if self.n_classes is None:
            pieces = (slice(i, min(i + _PIECE, len(F))) for i in range(0, len(F), _PIECE))
            rows = ((self.random_.transform(F[some]), some) for some in pieces)
            model = fit_ridge(self.penalty, rows, np.asarray(targets, np.float64), weight)
            self.coef_, self.intercept_ = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
            return self
        Z = self.random_.transform(F)
        found = LogisticRegression(C=self.penalty, max_iter=200, tol=1e-3).fit(Z, targets, sample_weight=weight)
        coef, intercept = found.coef_, found.intercept_
        if len(coef) == 1:  # of two classes scikit-learn keeps one
            coef, intercept = np.vstack([0 * coef, coef]), np.r_[0.0, intercept]
        self.coef_ = np.zeros((Z.shape[1], self.n_classes))
        self.intercept_ = np.full(self.n_classes, -np.inf)
        self.coef_[:, found.classes_], self.intercept_[found.classes_] = coef.T, intercept
        return self

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities, ndarray of shape (n_rows, n_outputs)."""
        rows = self.check_rows(features).astype(np.float32)
        parts = [self.random_.transform(rows[i : i + _PIECE]) @ self.coef_ for i in range(0, len(rows), _PIECE)]
        out = np.concatenate(parts) + self.intercept_
        return np.asarray(out if self.n_classes is None else softmax(out, axis=1))
