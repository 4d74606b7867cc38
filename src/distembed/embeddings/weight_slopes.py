r"""How the row of a bag changes with the weight of each of its points.

Let P be a bag as a distribution, and δ_x a point. What is wanted is the derivative of the row A along the mixture

.. math:: D(x) = \frac{d}{dε} A((1 - ε) P + ε \, δ_x) \Big|_{ε = 0}, \qquad Σ_i w_i D(x_i) = 0.

*Means of statistics* (:class:`~distembed.embeddings.sketches.Additive`: densities, mean maps, moments, histograms,
codebooks, Fisher vectors) mix like P, so D is exact: a small step from the means of the bag to those of the point.
Other rows that turn out to be means of the rows of their points are differences of these. Averages of quantiles over
cells have a derivative in closed form. *Single quantiles* do not: what a point changes is the difference that it makes,
left out. *Everything else* goes by groups of near points, each left out in turn: A - A without the group, times
(1 - W) / W for a group of weight W.

*Cost*: one row for each point, or about forty rows of the whole bag.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array

N_GROUPS = 32  # into which the points of a bag are divided
EACH_ALONE = 64  # points, up to which every point is a group
_ROUNDING = 1e-6  # of the largest feature


def weight_slopes(embedding: Any, bag: Bags) -> Array:
    """Derivatives of the row of one bag in the weights of its points, ndarray of shape (n_points, n_features).

    Parameters
    ----------
    embedding : estimator
        Fitted.
    bag : Bags
        One bag, as ``transform`` takes it.

    Examples
    --------
    >>> from distembed import MomentEmbedding
    >>> bag = Bags.from_arrays([[0.0, 1.0, 5.0]])
    >>> weight_slopes(MomentEmbedding("mean").fit(bag), bag).round(6).ravel()
    array([-2., -1.,  3.])
    """
    ancestry = type(embedding).__mro__
    known = next((k for k, kind in enumerate(ancestry) if "weight_slopes" in vars(kind)), None)
    changed = next((k for k, kind in enumerate(ancestry) if "transform" in vars(kind)), 0)
    if known is None or changed < known or not hasattr(embedding, "weight_slopes"):  # rows of its own
        found = of_means(embedding, bag)
        return by_groups(embedding, bag) if found is None else found
    return np.asarray(embedding.weight_slopes(bag))


def of_means(embedding: Any, bag: Bags) -> Array | None:
    """Slopes if the row of the bag is the mean of the rows of its points; otherwise None."""
    shares = bag.shares()
    shares = np.full(bag.n_points, 1 / bag.n_points) if shares is None else shares
    singles = bag.replace(offsets=np.arange(bag.n_points + 1), weights=None, ids=None)
    rows = np.asarray(embedding.transform(singles), np.float64)
    row = np.asarray(embedding.transform(bag), np.float64)[0]
    slack = _ROUNDING * (np.abs(row).max(initial=0.0) + np.abs(rows).max(initial=0.0))
    if not np.allclose(shares @ rows, row, rtol=0, atol=slack):
        return None
    return np.asarray(rows - row)


def by_groups(embedding: Any, bag: Bags) -> Array:
    """Slopes of any embedding: the difference that groups of near points make, each left out in turn."""
    group = divide_points(bag)
    shares = bag.shares()
    shares = np.full(bag.n_points, 1 / bag.n_points) if shares is None else shares
    n_groups = int(group.max()) + 1
    row = np.asarray(embedding.transform(bag), np.float64)[0]
    found = np.zeros((n_groups, len(row)))
    mass = np.bincount(group, shares, n_groups)
    out = np.flatnonzero((mass > 0) & (mass < 1))
    if len(out):
        rest = [np.flatnonzero(group != g) for g in out]
        taken = np.concatenate(rest)
        offsets = np.append(0, np.cumsum([len(each) for each in rest]))
        weights = None if bag.weights is None else bag.weights[taken]
        others = bag.replace(points=bag.points[taken], offsets=offsets, weights=weights, ids=None)
        without = np.asarray(embedding.transform(others), np.float64)
        found[out] = (row - without) * ((1 - mass[out]) / mass[out])[:, None]
    return np.asarray(found[group])


def divide_points(bag: Bags) -> Array:
    """Groups of near points of one bag, ndarray of int of shape (n_points,): halves of halves along the widest column.

    Examples
    --------
    >>> divide_points(Bags.from_arrays([[3.0, 1.0, 2.0]]))
    array([2, 0, 1])
    """
    points = np.asarray(bag.points, np.float64)
    spread = points.std(axis=0)
    points = points / np.where(spread > 0, spread, 1.0)
    wanted = len(points) if len(points) <= EACH_ALONE else N_GROUPS
    parts = [np.arange(len(points))]
    while len(parts) < wanted:
        largest = max(range(len(parts)), key=lambda k: len(parts[k]))
        rows = parts[largest]
        widest = int(points[rows].var(axis=0).argmax())
        order = rows[np.argsort(points[rows, widest], kind="stable")]
        half = len(order) // 2
        parts[largest : largest + 1] = [order[:half], order[half:]]
    group = np.empty(len(points), np.intp)
    for g, rows in enumerate(parts):
        group[rows] = g
    return group
