r"""What a prediction owes to each column: Shapley values, the other columns taken from training bags.

With f the prediction, b a training bag of the background, and S some of the columns, the *mixed bag* x_S b has the
columns S of the bag x and the others of b. The value of S, and what column j contributes, are

.. math:: v(S) = \sum_b q_b f(x_S b), \qquad φ_j = \sum_{S \not\ni j} \frac{|S|! \, (d - |S| - 1)!}{d!}
          \; \big(v(S \cup j) - v(S)\big), \qquad \sum_j φ_j = f(x) - \sum_b q_b f(b).

*Mixed bags.* The points of either bag are laid along [0, 1), each as long as its share of the weight, those of x in an
order drawn once for each b. Where a piece of a point of x lies over one of a point of b, the mixed bag has a point of
this length, with the columns S of the one and the rest of the other. So it has at most n + m - 1 points; its columns S
are distributed together as they are in x, the others as they are in b, and the two are independent but for the draw.
Covariates, and the size where there is a view of it, are columns as well; these are taken as they are.

*The background* is up to 16 training bags, see :mod:`distembed.learners.background`. Its weights q are equal, but for
the least change (in relative entropy) that makes the mean prediction that of the training bags.

*Computation.* With up to four columns all coalitions are computed, and the error is 0. With more, columns are added one
by one in 16 orders, one for each b, or in 8 of seven columns and more; each adds up to f(x) - f(b) exactly. Orders come
in pairs, one the reverse of the other. The error is the standard error over orders, of what is left of their
contributions after a linear regression on f(b), whose mean is known.

*Cost*: at most 14 · 16 predictions for each bag with up to four columns, 16 (d - 1) with five or six, 8 (d - 1) with
more, of bags with up to 200 more points. Changes of covariates alone need no embedding.

References
----------
Shapley (1953). A value for n-person games. Štrumbelj and Kononenko (2014). Explaining prediction models and individual
predictions with feature contributions. Mitchell, Cooper, Frank and Holmes (2022). Sampling permutations for Shapley
value estimation. JMLR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from ..bags import Bags
from ..bags.point_order import sort_points
from ..compute.arrays import Array
from ..compute.progress import SILENT, Stages
from .background import MOST_POINTS, Background
from .covariates import CovariateEncoder
from .importance import column_groups
from .model import Model
from .size import SIZE
from .targets import Classes, Numbers

MOST_EXACT = 4  # columns of which all coalitions are computed
MANY_COLUMNS = 6  # with more, half of the orders
_VALUES = 2**22  # coordinates of mixed bags, and features, that are in memory
_LEAST_MASS = 1e-12  # of a piece of a point, which is otherwise rounding


@dataclass(frozen=True)
class Columns:
    """Columns that contribute: of points, covariates, and the size.

    Attributes
    ----------
    names : list of str
        Of all of them.
    points : list of list of int
        Positions of the columns of points that go together.
    covariates : list of list of int
        The same of encoded covariates.
    size : bool
        Whether the size is one of them.
    """

    names: list[str]
    points: list[list[int]]
    covariates: list[list[int]]
    size: bool

    @classmethod
    def of(cls, model: Model, bags: Bags, encoder: CovariateEncoder | None) -> Columns:
        """The columns that a model looks at."""
        names = list(bags.named_parts().columns or ())
        groups = column_groups(names)
        found = [names[columns[0]] for columns in groups]
        places = []
        if encoder is not None:
            first = 0
            for column in encoder.columns_:
                places.append(list(range(first, first + len(column.names))))
                found.append(column.name)
                first += len(column.names)
        size = SIZE in model.used_views
        return cls([*found, *([SIZE] if size else [])], groups, places, size)

    def __len__(self) -> int:
        return len(self.names)


class Plan(NamedTuple):
    """Which coalitions are computed with each bag of the background, and how they make contributions.

    Attributes
    ----------
    background : ndarray of int of shape (n_orders,)
        The bag of each.
    coalitions : ndarray of bool of shape (n_orders, n_coalitions, n_columns)
        Which columns are those of the bag that is explained.
    coefficients : ndarray of shape (n_orders, n_coalitions, n_columns)
        Contributions are their products with the values.
    exact : bool
        Whether these are all coalitions with all bags of the background.
    """

    background: Array
    coalitions: Array
    coefficients: Array
    exact: bool

    @classmethod
    def of(cls, n_columns: int, n_background: int, rng: np.random.RandomState) -> Plan:
        """All coalitions of few columns, else orders.

        Examples
        --------
        >>> plan = Plan.of(2, 1, np.random.RandomState(0))
        >>> plan.coalitions[0].astype(int).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> plan.coefficients[0].T.tolist()
        [[-0.5, -0.5, 0.5, 0.5], [-0.5, 0.5, -0.5, 0.5]]
        """
        d = n_columns
        if d <= MOST_EXACT:
            masks = np.array([*product([False, True], repeat=d)])
            size = masks.sum(axis=1)[:, None]
            weights = np.array([factorial(k) * factorial(d - k - 1) / factorial(d) for k in range(d)] + [0.0])
            own = np.where(masks, weights[np.maximum(size - 1, 0)], -weights[size])
            shape = (n_background, *masks.shape)
            return cls(np.arange(n_background), np.broadcast_to(masks, shape), np.broadcast_to(own, shape), True)
        background = np.arange(n_background)
        if d > MANY_COLUMNS and n_background >= 4:  # of each pair one, now the lower and now the higher
            half = np.arange(n_background // 2)
            background = 2 * half + half % 2
        orders = list[Array]()
        while len(orders) < len(background):
            order = rng.permutation(d)
            orders += [order, order[::-1]]
        place = np.argsort(np.array(orders[: len(background)]), axis=1)  # of each column in the order
        steps = np.arange(d + 1)[None, :, None]
        before = place[:, None, :]
        coefficients = (steps == before + 1).astype(float) - (steps == before)
        return cls(background, before < steps, coefficients, False)


class Contributions(NamedTuple):
    """What columns contribute, ndarrays of shape (n_bags, n_columns), and the reference, of shape (n_bags,)."""

    values: Array
    errors: Array
    reference: Array


class Game:
    """Predictions of mixed bags.

    Parameters
    ----------
    model : Model
        Fitted.
    targets : Numbers or Classes
        Have the bounds of predictions.
    background : Background
        Training bags.
    columns : Columns
        Of both.
    plan : Plan
        What is computed.
    """

    def __init__(
        self, model: Model, targets: Numbers | Classes, background: Background, columns: Columns, plan: Plan
    ) -> None:
        self.model = model
        self.targets = targets
        self.columns = columns
        self.plan = plan
        self.background = background
        self._kinds = model.used_views
        self._of_points = [name for name in self._kinds if name != SIZE and model.views[name].embedding is not None]
        self._of_covariates = [name for name in self._kinds if model.views[name].embedding is None]

    @property
    def n_predictions(self) -> int:
        """Predictions of mixed bags that a bag takes."""
        masks = self.plan.coalitions
        return int(np.count_nonzero(masks.any(axis=2) & ~np.all(masks, axis=2)))

    def prepare(self, like: Bags) -> None:
        """Look at the background, in the form of the bags that are explained."""
        bags = self.background.bags
        weights = None if bags.weights is None else bags.weights.astype(like.dtype)
        bags = like.replace(points=bags.points.astype(like.dtype), offsets=bags.offsets, weights=weights, ids=None)
        self._bags = bags
        self._rows: dict[str, Any] = {name: self.model.views[name].rows(bags) for name in self._of_points}
        self._marks = [_marks(bags, b) for b in range(bags.n_bags)]
        rows: dict[str, Any] = dict(self._rows)
        for name in self._of_covariates:
            rows[name] = self.model.views[name].rows(bags, self.background.covariates)
        if SIZE in self._kinds:
            rows[SIZE] = self.background.sizes
        self.predicted = self.targets.inside(self.model.outputs_of_rows(rows))

    def values(self, bags: Bags, covariates: Array | None, predicted: Array) -> Array:
        """Predictions (n_bags, n_orders, n_coalitions, n_outputs) of some bags mixed with the background."""
        plan = self.plan
        n_points = len(self.columns.points)
        masks = plan.coalitions
        n_bags = bags.n_bags
        inner: Array = np.logical_and(masks.any(axis=2), np.logical_not(masks.all(axis=2)))
        found = np.empty((n_bags, *masks.shape[:2], predicted.shape[1]))
        found[:, ~inner] = np.where(
            np.all(masks[~inner], axis=1)[None, :, None],
            predicted[:, None],
            self.predicted[np.broadcast_to(plan.background[:, None], inner.shape)[~inner]][None],
        )
        if not inner.any():
            return found
        order, step = np.nonzero(inner)
        asked = masks[order, step]
        mixed, place = self._mixed(bags, order, asked[:, :n_points])
        rows = {}
        own = np.repeat(np.arange(n_bags), len(order))
        other = np.tile(plan.background[order], n_bags)
        for name in self._of_points:
            view = self.model.views[name]
            parts = [view.rows(bags), self._rows[name], *([view.rows(mixed)] if mixed is not None else [])]
            rows[name] = np.concatenate(parts)[place]
        known = np.tile(asked[:, n_points:], (n_bags, 1))
        for name in self._of_covariates:
            table: Any = self.background.covariates
            mine: Any = covariates
            encoded = table[other].copy()
            for k, columns in enumerate(self.columns.covariates):
                encoded[:, columns] = np.where(known[:, k, None], mine[own][:, columns], encoded[:, columns])
            rows[name] = self.model.views[name].rows(bags, encoded)
        if SIZE in self._kinds:
            sizes: Any = self.background.sizes
            rows[SIZE] = np.where(known[:, -1:], self.model.views[SIZE].rows(bags)[own], sizes[other])
        mixtures = self.targets.inside(self.model.outputs_of_rows(rows))
        found[:, order, step] = mixtures.reshape(n_bags, len(order), -1)
        return found

    def _mixed(self, bags: Bags, order: Array, asked: Array) -> tuple[Bags | None, Array]:
        """Mixed bags, each once, and where those of all bags and coalitions stand: after the bags and the background.

        ``order`` and ``asked`` are the orders, and the columns of points, of each coalition.
        """
        n_bags = bags.n_bags
        n_background = self._bags.n_bags
        place = np.empty((n_bags, len(order)), np.intp)
        points = list[Array]()
        weights = list[Array]()
        known = bags.points
        for i in range(n_bags):
            marks = _marks(bags, i)
            made: dict[tuple[int, bytes], int] = {}
            pair: Any = None
            for k, (p, mask) in enumerate(zip(order.tolist(), asked, strict=True)):
                b = int(self.plan.background[p])
                if mask.all() or not mask.any():
                    place[i, k] = i if mask.all() else n_bags + b
                    continue
                key = (b, mask.tobytes())
                if key not in made:
                    if pair is None or pair[0] != b:
                        pair = (b, *_couple(marks, self._marks[b], np.random.RandomState(b)))
                    _, mine, theirs, mass = pair
                    rows = self._bags.points[self._bags.offsets[b] + theirs]
                    columns = [j for own, group in zip(mask, self.columns.points, strict=True) if own for j in group]
                    rows[:, columns] = known[bags.offsets[i] + mine][:, columns]
                    made[key] = n_bags + n_background + len(points)
                    points.append(rows)
                    weights.append(mass)
                place[i, k] = made[key]
        if not points:
            return None, place.ravel()
        offsets = np.append(0, np.cumsum([len(each) for each in points]))
        mixed = bags.replace(points=np.concatenate(points), offsets=offsets, weights=np.concatenate(weights), ids=None)
        return mixed, place.ravel()

    def pieces(self, bags: Bags) -> Iterator[slice]:
        """Bags whose mixed bags are in memory."""
        n = self.n_predictions
        width = sum(self.model.views[name].width for name in self._kinds)
        cost = np.cumsum(n * ((bags.sizes + MOST_POINTS) * bags.n_dims + width))
        start = 0
        while start < bags.n_bags:
            before = cost[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(cost, before + _VALUES, side="right")))
            yield slice(start, stop)
            start = stop


def contributions(
    game: Game,
    bags: Bags,
    covariates: Array | None,
    predicted: Array,
    outputs: Array,
    stages: Stages = SILENT,
) -> Contributions:
    """What each column contributes to predictions.

    Parameters
    ----------
    game : Game
        Prepared.
    bags : Bags
        Checked.
    covariates : ndarray of shape (n_bags, n_columns) or None
        Encoded.
    predicted : ndarray of shape (n_bags, n_outputs)
        Predictions for the bags.
    outputs : ndarray of int of shape (n_bags,)
        Which output is explained, of each bag.
    stages : Stages
        Receives progress, one step per bag.
    """
    plan = game.plan
    d = len(game.columns)
    bags = sort_points(bags.drop_weightless())
    values = np.empty((bags.n_bags, d))
    errors = np.zeros((bags.n_bags, d))
    reference = np.empty(bags.n_bags)
    mean = game.background.mean
    shares = {
        k: _shares(game.predicted[plan.background, k], None if mean is None else float(mean[k]))
        for k in np.unique(outputs).tolist()
    }
    stages.begin("columns", bags.n_bags)
    for some in game.pieces(bags):
        own = None if covariates is None else covariates[some]
        found = game.values(bags[some], own, predicted[some])
        for i, k in enumerate(outputs[some].tolist(), some.start):
            each = np.einsum("ps,psj->pj", found[i - some.start, :, :, k], plan.coefficients)
            q = shares[k]
            values[i] = q @ each
            reference[i] = q @ game.predicted[plan.background, k]
            if not plan.exact and d > 1:
                errors[i] = _errors(each, game.predicted[plan.background, k])
        stages.advance(some.stop - some.start)
    return Contributions(values, errors, reference)


def _marks(bags: Bags, i: int) -> Array:
    """Shares of the points of a bag, ndarray of shape (n_i,)."""
    weights = bags.weights_of(i)
    if weights is None:
        return np.full(int(bags.sizes[i]), 1.0 / bags.sizes[i])
    shares = weights.astype(np.float64) / float(weights.max())
    return np.asarray(shares / shares.sum())


def _couple(mine: Array, theirs: Array, rng: np.random.RandomState) -> tuple[Array, Array, Array]:
    """Lay the points of two bags over one another, those of the first in a random order.

    Parameters
    ----------
    mine, theirs : ndarray of shape (n,) and (m,)
        Shares of points, of sum one.
    rng : RandomState
        Draws the order.

    Returns
    -------
    first, second : ndarray of int of shape (n_pieces,)
        The point of either bag of each piece.
    mass : ndarray of shape (n_pieces,)
        Their lengths, of sum one.

    Examples
    --------
    >>> first, second, mass = _couple(np.full(2, 0.5), np.full(3, 1 / 3), np.random.RandomState(0))
    >>> [np.bincount(each, mass).round(3).tolist() for each in (first, second)]
    [[0.5, 0.5], [0.333, 0.333, 0.333]]
    """
    order = rng.permutation(len(mine))
    ends = np.cumsum(mine[order])
    others = np.cumsum(theirs)
    ends[-1] = others[-1] = 1.0
    cuts = np.sort(np.concatenate([ends, others]))
    mass = np.diff(cuts, prepend=0.0)
    kept = mass > _LEAST_MASS
    middles = (cuts - mass / 2)[kept]
    first = np.minimum(np.searchsorted(ends, middles, side="right"), len(mine) - 1)
    second = np.minimum(np.searchsorted(others, middles, side="right"), len(theirs) - 1)
    return order[first], second, mass[kept]


def _shares(predicted: Array, mean: float | None) -> Array:
    """Weights of the background, of sum one: equal but for the least change that makes the mean prediction this one.

    Examples
    --------
    >>> _shares(np.array([1.0, 2.0, 3.0]), 2.0).round(6)
    array([0.333333, 0.333333, 0.333333])
    >>> bool(abs(_shares(np.array([1.0, 2.0, 3.0]), 2.4) @ [1, 2, 3] - 2.4) < 1e-9)
    True
    """
    n = len(predicted)
    spread = float(predicted.max() - predicted.min())
    equal = np.full(n, 1 / n)
    if mean is None or spread <= 0 or not predicted.min() < mean < predicted.max():
        return equal
    z = (predicted - mean) / spread
    low, high = -1.0, 1.0
    while softmax(high * z) @ z < 0 and high < 1e4:
        high *= 2
    while softmax(low * z) @ z > 0 and low > -1e4:
        low *= 2
    if softmax(high * z) @ z < 0 or softmax(low * z) @ z > 0:
        return equal
    return np.asarray(softmax(brentq(lambda t: softmax(t * z) @ z, low, high, xtol=1e-14, rtol=1e-14) * z))


def _errors(each: Array, predicted: Array) -> Array:
    """Standard errors of means over orders (n_orders, n_columns), of what a regression on predictions leaves."""
    n = len(each)
    x = predicted - predicted.mean()
    centred = each - each.mean(axis=0)
    square = float(x @ x)
    left = centred - np.outer(x, x @ centred / square) if square > 0 else centred
    return np.asarray(np.sqrt(np.sum(left**2, axis=0) / (n * max(n - 2, 1))))
