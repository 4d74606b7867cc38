"""The search for the settings of views: each by itself, then their weights on held-out bags; and what views tell.

    view by view: bags -> bandwidth, sigma (successive halving) -> kernel
    kernels -> weights, one view after the other, the best first -> penalty

To add a view to those before it, some multiples of their weight are tried, none included, on the exact kernels of at
most 2,000 bags.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.progress import Stages
from ..embeddings.views import Views, steps_of
from .batch import Batch
from .search import FIRST_ALPHA, Judge, Judged, Kernels, Search, Trial, search, widened

MULTIPLES = (0.1, 0.3, 1.0, 3.0)  # of the weight of the views before
MOST_BAGS = 2000  # that choose weights


def choose_views(
    views: Views,
    batch: Batch,
    Y: Array,
    folds: list[tuple[Array, Array]],
    *,
    rng: np.random.RandomState,
    stages: Stages,
    **settings: Any,
) -> tuple[Search, Views]:
    """Choose bandwidth and sigma of each view, and their weights.

    Parameters
    ----------
    views : Views
        Unfitted.
    batch : Batch
        Bags as they come.
    Y : ndarray of shape (n_bags, n_outputs)
        Targets; columns of classes.
    folds : list of pairs of index arrays
    rng, stages, **settings
        As of :func:`~distembed.learners.search.search`.

    Returns
    -------
    search : Search
        Whose trials are those of the sums of kernels.
    views : Views
        Unfitted, with all that was chosen.
    """
    with warnings.catch_warnings():  # what was chosen is fitted again
        warnings.simplefilter("ignore", UserWarning)
        return _choose(views, batch, Y, folds, rng, stages, settings)


def _choose(
    views: Views,
    batch: Batch,
    Y: Array,
    folds: list[tuple[Array, Array]],
    rng: np.random.RandomState,
    stages: Stages,
    settings: Mapping[str, Any],
) -> tuple[Search, Views]:
    alphas, n_jobs = settings["alphas"], settings["n_jobs"]
    chosen, scales, parts = {}, [], []
    for name, view in views.views.items():
        before, embedding = steps_of(view)
        scaled: Bags = batch.bags
        for step in before:
            scaled = step.fit(scaled).transform(scaled)
        found = search(embedding, scaled, Y, batch.weight, folds, rng=rng, stages=stages, **settings)
        best = widened(embedding, found.best.bandwidth_scale)
        chosen[name] = _with_embedding(view, before, best)
        scales.append(found.best.sigma_scale or 1.0)
        parts.append((scaled, best))
    few = np.sort(rng.permutation(len(Y))[:MOST_BAGS])
    there = np.full(len(Y), -1)
    there[few] = np.arange(len(few))
    pairs = [(there[train][there[train] >= 0], there[held][there[held] >= 0]) for train, held in folds]
    judge = Judge(Y[few], batch.weight[few], pairs, alphas, all_alphas=False)
    seed, kernels = int(rng.randint(2**31)), []
    for (scaled, embedding), scale in zip(parts, scales, strict=True):
        fitted = embedding.fit(scaled[few])
        rows = np.asarray(fitted.transform(scaled[few]))
        kernels.append(Kernels(rows, None, seed, n_jobs, group=getattr(fitted, "group_", None))(scale))
    stages.begin("choosing weights of views", None)
    given = None if isinstance(views.weights, str) else np.asarray(views.weights, float)
    weights, trials, judged = _weigh(judge, kernels, given)
    n_held_out, held_out = sum(len(held) for _, held in pairs), np.full(Y.shape, np.nan)
    predicted = judge.held_out(judged)
    held_out[few] = np.nan if predicted is None else predicted
    whole = Search(trials, len(few), n_held_out, {}, judged.trial, float(judge.gain(judged)), held_out)
    tuned = Views(chosen, weights=tuple(weights.tolist()), sigma_scales=tuple(float(scale) for scale in scales))
    return whole, tuned


def _with_embedding(view: Any, before: list[Any], embedding: Any) -> Any:
    """A view with another embedding, and the scaler that it was given."""
    if not before:
        return clone(embedding)
    return Pipeline([(f"step{i}", clone(step)) for i, step in enumerate([*before, embedding])])


def _weigh(judge: Judge, kernels: Sequence[Array], given: Array | None) -> tuple[Array, list[Trial], Judged]:
    """Weights of sum one that predict held-out bags best, all trials, and the best of them."""
    trials: list[Trial] = []

    def of(weights: Array, start: float) -> Judged:
        share = weights / weights.sum()
        K = sum(weight * kernel for weight, kernel in zip(share, kernels, strict=True) if weight > 0)
        tried, best = judge((None, None), np.asarray(K), start)
        trials.extend(tried)
        return best

    if given is not None:
        return given / given.sum(), trials, of(given, FIRST_ALPHA)
    alone = [of(weights, FIRST_ALPHA) for weights in np.eye(len(kernels))]
    order = np.argsort([one.trial.error for one in alone], kind="stable")
    best, weights = alone[order[0]], np.eye(len(kernels))[order[0]]
    for v in order[1:]:
        found = [(best, weights)]  # without the view
        for multiple in MULTIPLES:
            more = weights.copy()
            more[v] = multiple
            found.append((of(more, best.trial.alpha), more))
        best, weights = min(found, key=lambda pair: pair[0].trial.error)
        weights = weights / weights.sum()
    return weights, trials, best


@dataclass(frozen=True, eq=False)
class ViewExplanation:
    """What each view adds to the predictions of bags.

    Attributes
    ----------
    names : tuple of str
        Of the views.
    contributions : ndarray of shape (n_bags, n_views)
        Parts of the predictions, less their means over these bags: they and ``constant`` add up to ``predictions``.
    constant : float
        Mean of the predictions.
    predictions : ndarray of shape (n_bags,)
    what : str
        What is predicted.
    """

    names: tuple[str, ...]
    contributions: Array
    constant: float
    predictions: Array
    what: str

    def __repr__(self) -> str:
        spread = self.contributions.std(axis=0)
        total = float(np.sum(spread)) or 1.0
        rows = [
            f"{name:<{max(map(len, self.names))}}  {one:10.4g}  {one / total:6.1%}"
            for name, one in zip(self.names, spread, strict=True)
        ]
        title = f"What views add to the {self.what} of {len(self.predictions)} bags: deviation, and its share"
        return "\n".join([title, *rows])


def by_view(explained: Any, bags: Bags) -> ViewExplanation:
    """What each view adds to predictions: sums of kernels make sums of predictions.

    Parameters
    ----------
    explained : object
        With ``scaler``, ``embedding`` and ``features`` of a model of views, and ``coef``, ``intercept`` and ``what`` of
        its linear model.
    bags : Bags
        As in ``predict``.
    """
    embedding, features = explained.embedding, explained.features
    scaled = bags if explained.scaler is None else explained.scaler.transform(bags)
    rows = np.asarray(embedding.transform(scaled), np.float64)
    if features is None:
        parts = np.add.reduceat(rows * explained.coef, np.cumsum((0, *embedding.widths_[:-1])), axis=1)
    else:
        parts = features.contributions(rows, explained.coef)
    predictions = parts.sum(axis=1) + explained.intercept
    return ViewExplanation(
        tuple(embedding.views), parts - parts.mean(axis=0), float(predictions.mean()), predictions, explained.what
    )
