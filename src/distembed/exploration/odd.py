r"""Odd bags: unlike all others at their size, or with a value that no other bag has.

Two things make a bag odd. Its distribution may be unlike those of other bags of about its size: that is ``likeness``
(:mod:`distembed.learners.likeness`), of each bag against the others. Or it may hold a wrong value, one wind of 1,048
miles per hour among many right ones, which no distribution shows. So each column has a usual range: with
v = asinh((x - median) / scale), from the first percentile of the smallest v of bags to the 99th of the largest. A value
outside of it by f times its width, f > ½, adds 10 f to the oddness O of its bag and column. The p-value is the share of
bags that are at least as odd,

.. math:: p = \frac{1 + \#\{i: O_i \ge O\}}{n + 1},

with each bag of the fit held out from what it is compared with, so it is uniform for bags like the others, small or
large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagInput, check_bags
from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import storable
from ..learners.likeness import Likeness, Reference

_BEYOND = 0.5  # widths of the usual range outside of it, from which on a value counts
_WEIGHT = 10.0  # oddness of a value that is one width outside
_WIDTH = 0.08  # of smoothing over ranks of sizes
_KNOTS = 40
_TAIL = 0.01  # of bags on each side that do not decide the range


@storable(centre="finite(d)", scale="finite(d)", low="finite(d)", high="finite(d)")
@dataclass(frozen=True, eq=False)
class UsualRange:
    """Where the values of each column lie in nearly all bags.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_columns,)
        v = asinh((x - centre) / scale).
    low, high : ndarray of shape (n_columns,)
        Ends of the range of v; that of categorical columns holds all codes.
    """

    centre: Array
    scale: Array
    low: Array
    high: Array

    def __distembed_fits__(self) -> bool:
        return bool((self.scale > 0).all())

    @classmethod
    def learn(cls, bags: Bags) -> UsualRange:
        """Look at the smallest and largest values of bags."""
        points = bags.points.astype(np.float64)
        quarters = np.quantile(points, [0.25, 0.5, 0.75], axis=0)
        spread = (quarters[2] - quarters[0]) / 1.35
        deviation = points.std(axis=0)
        scale = np.where(spread > 0, spread, np.where(deviation > 0, deviation, 1.0))
        made = cls(quarters[1], scale, np.zeros(bags.n_dims), np.zeros(bags.n_dims))
        low, high = made._ends(bags)
        n = bags.n_bags
        inner = min(int((1 - _TAIL) * (n - 1)), max(n - 2, 0))
        low = np.sort(low, axis=0)[n - 1 - inner]
        high = np.sort(high, axis=0)[inner]
        for j in bags.categories or {}:
            low[j], high[j] = 0.0, 1e9
        return cls(made.centre, scale, low, high)

    def beyond(self, bags: Bags) -> Array:
        """How far the values of bags are outside, in widths of the range; ndarray of shape (n_bags, n_columns)."""
        low, high = self._ends(bags)
        width = np.maximum(self.high - self.low, 0.1)
        return np.asarray(np.maximum(np.maximum(high - self.high, self.low - low) / width, 0.0))

    def _ends(self, bags: Bags) -> tuple[Array, Array]:
        v = np.arcsinh((bags.points - self.centre) / self.scale)
        starts = bags.offsets[:-1]
        return np.minimum.reduceat(v, starts, axis=0), np.maximum.reduceat(v, starts, axis=0)


@storable(sizes="finite(k)", location="finite(k)", spread="finite(k)")
@dataclass(frozen=True, eq=False)
class SizeLaw:
    """The mean and the deviation that oddness has at each size of a bag, by ranks of sizes.

    Parameters
    ----------
    sizes : ndarray of shape (n_knots,)
        Quantiles of the sizes, increasing.
    location, spread : ndarray of shape (n_knots,)

    Examples
    --------
    >>> sizes = np.repeat([10.0, 1000.0], 50)
    >>> oddness = np.random.default_rng(0).normal(np.log(sizes))
    >>> made = SizeLaw.learn(sizes, oddness).standardise(sizes, oddness)
    >>> bool(abs(made[:50].mean() - made[50:].mean()) < 0.2)
    True
    """

    sizes: Array
    location: Array
    spread: Array

    def __distembed_fits__(self) -> bool:
        return len(self.sizes) > 0 and bool(np.all(np.diff(self.sizes) >= 0) and (self.spread > 0).all())

    @classmethod
    def learn(cls, sizes: Array, oddness: Array) -> SizeLaw:
        """Smooth over bags of about equal rank by size."""
        n = len(sizes)
        rank = (rankdata(sizes) - 0.5) / n
        width = max(_WIDTH, 10.0 / n)
        knots = np.unique(rank[np.argsort(sizes, kind="stable")[np.linspace(0, n - 1, min(n, _KNOTS)).astype(int)]])
        near = np.exp(-0.5 * ((knots[:, None] - rank) / width) ** 2)
        near /= near.sum(axis=1, keepdims=True)
        x = np.stack([np.ones(n), np.zeros(n)])
        location, spread = np.empty(len(knots)), np.empty(len(knots))
        for k, w in enumerate(near):  # local lines: no bias at the ends
            x[1] = rank - knots[k]
            gram = (x * w) @ x.T + np.diag([0.0, 1e-4])
            line = np.linalg.solve(gram, (x * w) @ oddness)
            location[k] = line[0]
            spread[k] = np.sqrt(w @ (oddness - x.T @ line) ** 2)
        at = np.interp(knots, np.sort(rank), np.sort(sizes).astype(float))
        return cls(at, location, np.maximum(spread, 1e-3 + 0.2 * float(np.std(oddness))))

    def standardise(self, sizes: Array, oddness: Array) -> Array:
        """Deviations from what bags of these sizes have."""
        location, spread = (np.interp(sizes, self.sizes, each) for each in (self.location, self.spread))
        return np.asarray((oddness - location) / spread)


@storable(oddness_="finite(n)", pvalues_="finite(n)", reference_="Reference", range_="UsualRange", _law="SizeLaw")
class OddBags(OutlierMixin, BagInput):
    """Bags that are unlike all others, in scikit-learn's manner for outliers.

    Parameters
    ----------
    alpha : float, default=0.01
        Bags with a p-value of at most this are odd for ``predict``.

    Attributes
    ----------
    pvalues_ : ndarray of shape (n_bags,)
        p-values of the bags of the fit, each held out: uniform if all are alike.
    oddness_ : ndarray of shape (n_bags,)
        What they are ranks of; larger is odder.
    likeness_ : Likeness
        The same with a score of each column, of the bags of the fit.
    reference_ : Reference
        What new bags are compared with.
    range_ : UsualRange
        Where the values of each column usually lie.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    *Small bags are not odd for being small.* A bag is compared with what bags of its size are like. The number of
    points itself does not count: add ``bags.sizes`` to what you look at if it matters.

    *Columns.* ``likeness_.odd_columns`` names for each bag the column in which it is oddest, and
    ``likeness_.column_scores`` has the score of each.

    *p-values* are no smaller than 1 / 1,001, because at most 1,000 bags are kept to compare with. Among a million bags
    look at the order of ``score_samples``.

    *Model files* hold what new bags are compared with: not ``likeness_``, which has the ids of the bags of the fit, and
    ``pvalues_`` only with ``updatable=True``.

    *Cost.* O(n_points) for ranks of columns, and n_features² operations for each bag, of some 10 features per column.

    See Also
    --------
    DistributionRegressor.likeness : Of new bags, whether they are like those that a learner was fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> arrays = [rng.normal(size=(n, 2)) for n in rng.integers(5, 200, size=150)]
    >>> arrays[7] = arrays[7] + [0, 2]  # shifted in one column
    >>> arrays[8][0, 0] = 1000  # one wrong value
    >>> odd = de.OddBags().fit(de.Bags.from_arrays(arrays, columns=["u", "v"]))
    >>> worst = np.argsort(odd.pvalues_)[:2]
    >>> sorted(worst.tolist()), [odd.likeness_.odd_columns[i] for i in sorted(worst)]
    ([7, 8], ['v', 'u'])
    >>> new = [rng.normal(size=(50, 2)), rng.normal(5, 1, size=(50, 2))]
    >>> odd.pvalues(de.Bags.from_arrays(new, columns=["u", "v"])) < 0.05
    array([False,  True])
    """

    takes_categories = True

    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = alpha

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        own = {"likeness_"} if updatable else {"likeness_", "pvalues_"}
        return {name: value for name, value in vars(self).items() if name not in own}

    def __distembed_fits__(self) -> bool:
        reference = self.reference_
        n_columns = self.n_features_in_
        return (
            isinstance(self._law, SizeLaw)
            and len(self.oddness_) > 0
            and 0 <= self.alpha <= 1
            and len(self.range_.centre) == len(reference.column_names) == n_columns
            and reference.rows.suits(self)
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compare each bag with all others.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            At least three bags.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        check_number(self, "alpha", self.alpha, low=0, high=1)
        bags = check_bags(self, X, reset=True).drop_weightless()
        if bags.n_bags < 3:
            raise ValueError(f"OddBags: X must have at least 3 bags to compare, got {bags.n_bags}; give more")
        self.reference_, own = Reference.learn(bags)
        self.range_ = UsualRange.learn(bags)
        self._law = SizeLaw.learn(bags.sizes, own.oddness)
        own = replace(own, oddness=self._law.standardise(bags.sizes, own.oddness))
        own = _with_values(own, self.range_.beyond(bags))
        self.oddness_ = own.oddness
        self.pvalues_ = rankdata(-own.oddness, method="max") / len(own.oddness)
        self.likeness_ = replace(own, pvalues=self.pvalues_)
        return self

    def likeness(self, X: Any) -> Likeness:
        """p-values and scores of columns of new bags.

        Parameters
        ----------
        X : Bags or anything that ``fit`` takes
            Bags with the columns of the fit. Those of the fit itself are in ``likeness_``, held out.

        Returns
        -------
        Likeness
        """
        check_is_fitted(self, "reference_")
        bags = check_bags(self, X, reset=False).drop_weightless()
        found = self.reference_.compare(bags, group=False)
        found = replace(found, oddness=self._law.standardise(bags.sizes, found.oddness))
        found = _with_values(found, self.range_.beyond(bags))
        odder = len(self.oddness_) - np.searchsorted(np.sort(self.oddness_), found.oddness - 1e-9)
        return replace(found, pvalues=(1 + odder) / (len(self.oddness_) + 1))

    def pvalues(self, X: Any) -> Array:
        """p-values that bags are like those of the fit, ndarray of shape (n_bags,) in (0, 1]."""
        return self.likeness(X).pvalues

    def score_samples(self, X: Any) -> Array:
        """Minus the oddness of bags, ndarray of shape (n_bags,): the lower, the odder, as scikit-learn has it."""
        return np.asarray(-self.likeness(X).oddness)

    def decision_function(self, X: Any) -> Array:
        """Scores minus that from which on a bag is odd, ndarray of shape (n_bags,): negative for odd bags."""
        return self.score_samples(X) + float(np.quantile(self.oddness_, 1 - self.alpha))

    def predict(self, X: Any) -> Array:
        """-1 for odd bags and 1 for others, ndarray of shape (n_bags,)."""
        return np.where(self.pvalues(X) <= self.alpha, -1, 1)

    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """-1 for odd bags of the fit, each held out, and 1 for others."""
        return np.where(self.fit(X).pvalues_ <= self.alpha, -1, 1)


def _with_values(found: Likeness, beyond: Array) -> Likeness:
    """Likeness in which values far outside of the usual range count."""
    more = _WEIGHT * np.where(beyond > _BEYOND, beyond, 0.0)
    oddness = found.oddness + more.max(axis=1)
    return replace(found, oddness=oddness, column_scores=found.column_scores + more)
