"""The mean bag of a group: what its bags have in common, as a bag."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags import Bags, as_bags
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number

_STEP = 1.0


def mean_bag(
    X: Any, kind: str = "density", *, n_points: int = 200, n_iterations: int = 60, random_state: Any = 0
) -> Array:
    r"""The mean of bags, as points.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads.
        All bags count the same.
    kind : {"density", "sliced"}, default="density"
        ``"density"``: points drawn from the mean of the densities, so two bags far apart have a mean with two lumps.
        ``"sliced"``: the barycentre of the sliced Wasserstein distance, so two bags that are shifts of each other have
        a mean half way between them.
    n_points : int, default=200
        Of the mean bag.
    n_iterations : int, default=60
        Random directions, a set of n_dims + 1 of them at a time, of ``"sliced"``.
    random_state : int, Generator or None, default=0
        Of draws and directions.

    Returns
    -------
    ndarray of shape (n_points, n_dims)

    Notes
    -----
    *The barycentre* minimises the mean of the squared sliced distances, by gradient steps: in each random direction the
    points of the mean move to the mean over bags of the quantiles at their ranks. Columns should have comparable units.
    Cost: O(n_iterations n_dims N log N) for N points in all.

    References
    ----------
    Rabin, Peyré, Delon and Bernot (2011). Wasserstein barycenter and its application to texture mixing. SSVM.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(shift, 1, size=(300, 1)) for shift in (0, 10)]
    >>> mixture, middle = (de.mean_bag(bags, kind, random_state=0) for kind in ("density", "sliced"))
    >>> bool(mixture.std() > 4), bool(abs(middle.mean() - 5) < 0.3), bool(0.8 < middle.std() < 1.2)
    (True, True, True)
    """
    check_choice("mean_bag", "kind", kind, ("density", "sliced"))
    n_points = check_number("mean_bag", "n_points", n_points, low=1, integer=True)
    n_iterations = check_number("mean_bag", "n_iterations", n_iterations, low=1, integer=True)
    bags = as_bags(X).drop_weightless()
    if bags.categories is not None:
        raise ValueError(
            f"mean_bag(X=...): bags must have columns of numbers alone, got the categorical columns "
            f"{list(bags.category_labels)}; leave them out"
        )
    rng = np.random.default_rng(random_state)
    start = _mixture(bags, n_points, rng)
    return start if kind == "density" else _barycentre(bags, start, n_iterations, rng)


def _mixture(bags: Bags, n: int, rng: np.random.Generator) -> Array:
    """Points of all bags, each bag with the same chance."""
    shares = bags.shares()
    shares = np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares
    places = np.cumsum(shares / shares.sum())
    wanted = (np.arange(n) + rng.uniform(size=n)) / n  # stratified: every bag gives its share
    return np.asarray(bags.points[np.minimum(np.searchsorted(places, wanted), bags.n_points - 1)], np.float64)


def _barycentre(bags: Bags, x: Array, n_iterations: int, rng: np.random.Generator) -> Array:
    levels = (np.arange(len(x)) + 0.5) / len(x)
    parts = [
        (bags.points[a:b].astype(np.float64), None if bags.weights is None else bags.weights[a:b])
        for a, b in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    ]
    d = x.shape[1]
    for _ in range(n_iterations):
        directions = np.linalg.qr(rng.normal(size=(d, d)))[0]
        projected = x @ directions
        target = np.zeros_like(projected)
        for points, weights in parts:
            target += _quantiles(points @ directions, weights, levels)
        target /= len(parts)
        order = np.argsort(projected, axis=0)
        moves = np.empty_like(projected)
        np.put_along_axis(moves, order, target - np.take_along_axis(projected, order, axis=0), axis=0)
        x = x + _STEP * moves @ directions.T
    return x


def _quantiles(values: Array, weights: Array | None, levels: Array) -> Array:
    """Quantiles of each column."""
    order = np.argsort(values, axis=0)
    found = np.empty((len(levels), values.shape[1]))
    for j in range(values.shape[1]):
        w = np.ones(len(values)) if weights is None else weights[order[:, j]].astype(float)
        found[:, j] = np.interp(levels, (np.cumsum(w) - w / 2) / w.sum(), values[order[:, j], j])
    return found
