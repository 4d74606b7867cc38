"""Training bags that a fitted learner keeps: what the columns of a bag are replaced by when it is explained.

To ask what a prediction owes to a column, the column is taken from other bags. A model keeps a few training bags for
that, thinned to few points: of all training bags, in the order of their predictions, one from each of equal parts. With
them goes the mean prediction of the training bags, to which contributions add up.

*Cost*: one prediction for each training bag, of at most 1,000; at most 100 kB in a model file, or five points of each
of 16 bags where these take more.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bags import Bags, concat
from ..bags.point_order import sort_points
from ..compute.arrays import Array
from ..compute.registry import storable
from .model import Model
from .size import SIZE
from .targets import Classes, Numbers

N_BAGS = 16  # that are kept
MOST_PREDICTED = 1000  # training bags whose mean prediction stands for that of all
MOST_POINTS = 200  # of each bag that is kept
_BYTES = 100_000
_FEWEST_POINTS = 5
_DRAWS = 4  # thinned copies of each bag, of which the one is kept that is predicted most like the whole bag
_ROUNDING = 1e-4  # deviations of a column, within which values are kept in float32


@storable(covariates="finite(n, _) | None", sizes="finite(n, _) | None", mean="finite(o) | None")
@dataclass(frozen=True, eq=False)
class Background:
    """Training bags, thinned, in the order of their predictions.

    Parameters
    ----------
    bags : Bags
        At most 16, of at most 200 points each.
    covariates : ndarray of shape (n_bags, n_columns), optional
        Encoded, if the model has some.
    sizes : ndarray of shape (n_bags, n_features), optional
        Rows of the view of bag sizes, of the whole bags, if the model has this view.
    mean : ndarray of shape (n_outputs,), optional
        Mean prediction of the training bags, where these have been predicted.
    """

    bags: Bags
    covariates: Array | None = None
    sizes: Array | None = None
    mean: Array | None = None

    def __distembed_fits__(self) -> bool:
        n = self.bags.n_bags
        return all(each is None or len(each) == n for each in (self.covariates, self.sizes))

    @classmethod
    def of(
        cls, model: Model, targets: Numbers | Classes, bags: Any, covariates: Array | None, trained: bool = True
    ) -> Background:
        """Choose from training bags.

        Parameters
        ----------
        model : Model
            Fitted.
        targets : Numbers or Classes
            Have the bounds of predictions.
        bags : Bags
            Training bags.
        covariates : ndarray of shape (n_bags, n_columns) or None
            Encoded.
        trained : bool, default=True
            Whether heads have learned; before they have, bags are drawn whatever their predictions.
        """
        rng = np.random.RandomState(0)  # of its own: what else a fit draws stays as it is
        some = np.arange(bags.n_bags)
        if len(some) > MOST_PREDICTED:
            some = np.sort(rng.choice(len(some), MOST_PREDICTED, replace=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of training bags
            predicted = None
            mean = None
            order = rng.permutation(len(some))
            if trained:
                known = None if covariates is None else covariates[some]
                predicted = targets.inside(model.outputs(bags[some], known))
                mean = predicted.mean(axis=0)
                order = np.lexsort((np.arange(len(some)), *_keys(predicted)))
            places = ((np.arange(min(N_BAGS, len(some))) + 0.5) * len(some) / min(N_BAGS, len(some))).astype(int)
            chosen = order[places]
            rows = some[chosen]
            own = None if covariates is None else covariates[rows]
            truth = None if predicted is None else predicted[chosen]
            thinned = _thin(model, bags[rows], own, truth, rng)
            sizes = model.views[SIZE].rows(bags[rows]) if SIZE in model.used_views else None
        return cls(_shorten(thinned), own, sizes, mean)


def _shorten(bags: Bags) -> Bags:
    """Bags in float32, where that is exact enough."""
    points = bags.points
    single = points.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.abs(points - single).max(axis=0) <= _ROUNDING * points.std(axis=0)
    return bags.replace(points=single) if exact.all() else bags


def _keys(predicted: Array) -> list[Array]:
    """Sort keys of predictions, the last one first: the likeliest class, and its probability; or the first number."""
    if predicted.shape[1] == 1:
        return [predicted[:, 0]]
    best = predicted.argmax(axis=1)
    return [predicted[np.arange(len(best)), best], best]


def _thin(model: Model, bags: Bags, covariates: Array | None, truth: Array | None, rng: np.random.RandomState) -> Bags:
    """Bags of fewer points: of some draws, the one whose prediction is nearest to that of the whole bag."""
    bags = sort_points(bags.drop_weightless().replace(ids=None))
    most = int(np.clip(_BYTES // (4 * bags.n_dims * bags.n_bags), _FEWEST_POINTS, MOST_POINTS))
    alike = truth is None or bags.sizes.max() <= most or SIZE in model.used_views  # thinned bags have other sizes
    n_draws = 1 if alike else _DRAWS
    draws = [_every_so_often(bags, most, rng) for _ in range(n_draws)]
    if n_draws > 1:
        n = bags.n_bags
        known = None if covariates is None else np.tile(covariates, (n_draws, 1))
        found = model.outputs(concat(draws), known).reshape(n_draws, n, -1)
        best = np.sum((found - truth) ** 2, axis=2).argmin(axis=0)
        return concat([draws[k][i : i + 1] for i, k in enumerate(best)])
    return draws[0]


def _every_so_often(bags: Bags, most: int, rng: np.random.RandomState) -> Bags:
    """Points at equal steps of the order, started at random: a stratified sample of each bag."""
    rows = []
    for start, size in zip(bags.offsets[:-1], bags.sizes, strict=True):
        n = min(size, most)
        rows.append(start + ((np.arange(n) + rng.uniform()) * size / n).astype(int))
    taken = np.concatenate(rows)
    offsets = np.append(0, np.cumsum([len(each) for each in rows]))
    weights = None if bags.weights is None else bags.weights[taken]
    return bags.replace(points=bags.points[taken], offsets=offsets, weights=weights)
