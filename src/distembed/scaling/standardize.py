r"""Standardisation: every column to mean 0 and deviation 1, over the points of all training bags.

.. math::  z = (x - m) / s.

Means, covariances, random features of points, codebooks and slices add up columns, or compare them by one length: the
column in the smallest unit would decide. After standardisation the units are gone.

Cost: O(n_points n_dims); medians and quartiles sort.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagScaler, check_bags, name_of_dimension
from ..compute.arrays import Array, blocks, column_range, map_blocks, outside_rows
from ..compute.checks import InputError
from ..compute.registry import storable
from .curves import IQR_OF_NORMAL, weighted_quantile

TINY = float(np.finfo(np.float64).tiny)  # the smallest number of full precision
LARGEST = float(np.finfo(np.float64).max)
WARN_ABOVE = 0.01  # share of points outside that earns a warning


@storable(center_="finite(w)", scale_="finite(w)", low_="finite(w)", high_="finite(w)")
class Standardize(OneToOneFeatureMixin, BagScaler):
    r"""Standardise points: bags to bags, each column with mean 0 and deviation 1 over all training points.

    Parameters
    ----------
    robust : bool, default=False
        True: the median in place of the mean, and IQR / 1.349, the deviation of a normal column with such quartiles, in
        place of the deviation, so outliers have no effect; a column whose quartiles coincide keeps its deviation.

    Attributes
    ----------
    center_, scale_ : ndarray of shape (n_dims_out,)
        m and s of each column that comes out, in the units of the points.
    low_, high_ : ndarray of shape (n_dims_out,)
        Beyond these new points are far away: the range of the training points, and as much again on either side.
    n_features_in_ : int
        Number of dimensions.
    feature_names_in_ : ndarray of shape (n_dims,)
        Names of the coordinates, if the bags had column names.
    categories_in_ : dict of int to tuple
        Labels of the categorical columns, if the bags had any.

    Notes
    -----
    .. math::  z = (x - m) / s.

    *Weights* of points are respected; a bag counts for its effective number of points, (Σw)² / Σw², so the scale
    of its weights is irrelevant.

    *A constant column* becomes 0. New values in it are only shifted: s is 1.

    *Other units* at ``transform`` than in ``fit``, or another order of columns, would go unnoticed; so it warns when
    more than 1 % of the points are far away.

    *Categorical columns* become one indicator column for each label, ``sex=f`` and ``sex=m`` in place of ``sex``, so
    the result has only numbers. Indicators are centred; all those of one column are divided by the same s, the
    root of the sum of their variances. So the column as a whole counts as much as one of numbers, however many labels
    it has, and a rare label is not blown up.

    The arithmetic is float64 and safe for all finite values; bags come back in the dtype in which they came. A value so
    far away that z overflows is refused.

    See Also
    --------
    UnitCube : To the unit cube, for embeddings of densities.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> bags = [np.array([[0.0, 1e6], [2.0, 3e6]]), np.array([[4.0, 5e6], [6.0, 7e6]])]
    >>> de.Standardize().fit_transform(bags).points.round(2)
    array([[-1.34, -1.34],
           [-0.45, -0.45],
           [ 0.45,  0.45],
           [ 1.34,  1.34]])

    Categories become indicators:

    >>> pupils = de.Bags(np.array([[7.0, 0], [9.0, 1]]), [0, 1, 2], columns=["mark", "sex"], categories={1: ["f", "m"]})
    >>> scaled = de.Standardize().fit_transform(pupils)
    >>> scaled.columns
    ('mark', 'sex=f', 'sex=m')
    >>> scaled.points.round(2)
    array([[-1.  ,  0.71, -0.71],
           [ 1.  , -0.71,  0.71]])
    """

    takes_categories = True
    center_: Array
    scale_: Array
    low_: Array
    high_: Array

    def __init__(self, robust: bool = False) -> None:
        self.robust = robust

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find center and scale of each column.

        Parameters
        ----------
        X : bags
            ``Bags`` or anything that ``as_bags`` takes.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        if not isinstance(self.robust, bool | np.bool_):
            raise TypeError(
                f"Standardize(robust=...): must be True or False, got {self.robust!r}; True takes medians and quartiles"
            )
        bags = check_bags(self, X, reset=True).drop_weightless()
        names = self.get_feature_names_out()
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise ValueError(
                f"Standardize: columns of indicators must have names of their own, got {twice!r} as a column, too; "
                "rename that column"
            )
        points = self._numbers(bags)
        weights = bags.pooled_weights()
        self.center_, scale = mean_and_deviation(points, weights)
        for j, columns in enumerate(self._places()):
            if j in self._labels:
                scale[columns] = np.sqrt(np.sum(scale[columns] ** 2))
            elif self.robust:
                self.center_[columns], spread = median_and_spread(points[:, columns.start], weights)
                scale[columns] = spread or scale[columns]
        self.scale_ = np.where(scale > 0, np.maximum(scale, 2 * TINY), 1.0)
        low, high = column_range(points)
        with np.errstate(over="ignore"):
            width = np.where(high > low, high - low, np.abs(low))  # of a constant, its rounding to another dtype
            self.low_, self.high_ = np.clip([low - width, high + width], -LARGEST, LARGEST)
        return self

    def transform(self, X: Any) -> Bags:
        """Standardise points.

        Parameters
        ----------
        X : bags
            ``Bags`` or anything that ``as_bags`` takes.

        Returns
        -------
        Bags
            With indicators in place of categorical columns, and the dtype, weights and ids of ``X``.
        """
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        # Halves of two finite numbers have a finite difference.
        center = 0.5 * self.center_[:, None]
        scale = 0.5 * self.scale_[:, None]
        with np.errstate(over="ignore"):  # checked just below
            points = map_blocks(lambda x: (0.5 * x - center) / scale, self._numbers(bags))
        if not np.isfinite(points).all():
            self._refuse(bags, points)
        self._warn_of_far_points(bags)
        columns = None if bags.columns is None else tuple(self._names(bags.columns))
        return bags.replace(points=points, columns=columns, categories=None)

    def _warn_of_far_points(self, bags: Bags) -> None:
        """Warn if more than 1 % of the points are far away from those of ``fit``."""
        numbers = self._numbers(bags)
        far = outside_rows(numbers, self.low_, self.high_)
        if bags.weights is not None:
            far &= bags.weights > 0
        if far.mean() > WARN_ABOVE:
            some = numbers[far]
            beyond = ((some < self.low_) | (some > self.high_)).sum(axis=0)
            j = next(j for j, columns in enumerate(self._places()) if beyond.argmax() < columns.stop)
            warnings.warn(
                f"Standardize: more than {WARN_ABOVE:.0%} of the points lie outside the range of the points of fit by "
                f"more than its width, most of them in {name_of_dimension(self, j)}; see that they have the columns of "
                "fit, in the same order and units",
                UserWarning,
                stacklevel=3,
            )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns that come out: those of ``fit``, ``x0``, ``x1``, ... without, and ``sex=f`` for labels.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns that go in, if ``fit`` saw none.

        Returns
        -------
        ndarray of shape (n_dims_out,) of object
        """
        return np.array(self._names(super().get_feature_names_out(input_features)), dtype=object)

    @property
    def _labels(self) -> Mapping[int, tuple[Any, ...]]:
        return getattr(self, "categories_in_", {})

    def _names(self, columns: Any) -> list[str]:
        """Names of columns as they come out, from those that go in."""
        return [
            each
            for j, name in enumerate(columns)
            for each in ([f"{name}={label}" for label in self._labels[j]] if j in self._labels else [name])
        ]

    def _places(self) -> list[slice]:
        """Which columns come out in place of each one that goes in."""
        ends = np.cumsum([0] + [len(self._labels.get(j, "x")) for j in range(self.n_features_in_)]).tolist()
        return [slice(first, past) for first, past in pairwise(ends)]

    def _numbers(self, bags: Bags) -> Array:
        """The points of bags, with indicators in place of codes."""
        if not self._labels:
            return bags.points
        places = self._places()
        numbers = np.empty((bags.n_points, places[-1].stop), bags.dtype)
        for j, columns in enumerate(places):
            x = bags.points[:, [j]]
            numbers[:, columns] = x == np.arange(columns.stop - columns.start) if j in self._labels else x
        return numbers

    def _refuse(self, bags: Bags, points: Array) -> NoReturn:
        """Raise the error that names the first point that is not finite."""
        row, column = np.argwhere(~np.isfinite(points))[0].tolist()
        j = next(j for j, columns in enumerate(self._places()) if column < columns.stop)
        raise InputError(
            f"Standardize: points must be finite in {bags.dtype} when divided by the deviation {self.scale_[column]:g} "
            f"of {name_of_dimension(self, j)}, got {bags.points[row, j]} at {bags.name_of_point(row)}; "
            "pass the units of fit, or float64 bags"
        )


def mean_and_deviation(points: Array, weights: Array | None) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, the latter exactly zero for a constant one.

    They are taken of u = (x - low) / (high - low), which is in [0, 1] whatever the offset and the unit: nothing
    cancels, overflows or vanishes.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        Finite.
    weights : ndarray of shape (n_points,) or None
        Nonnegative.

    Returns
    -------
    mean, deviation : ndarray of shape (n_dims,)

    Examples
    --------
    >>> mean_and_deviation(np.array([[1e300, 7.0], [3e300, 7.0]]), None)
    (array([2.e+300, 7.e+000]), array([1.e+300, 0.e+000]))
    """
    low, high = column_range(points)
    half = 0.5 * high - 0.5 * low  # the range itself may overflow
    unit = np.where(half > 0, half, 1.0)

    def average(function: Callable[[Array], Array]) -> Array:
        total = sum(
            function((0.5 * x.T - 0.5 * low) / unit).T @ (np.ones(x.shape[1]) if weights is None else weights[rows])
            for rows, x in blocks(points)
        )
        return np.asarray(total / (len(points) if weights is None else weights.sum()))

    mean = average(lambda u: u)
    deviation = np.sqrt(average(lambda u: (u - mean) ** 2))
    return 2 * (0.5 * low + mean * half), 2 * (deviation * half)


def median_and_spread(x: Array, weights: Array | None) -> tuple[float, float]:
    """Median and IQR / 1.349 of one column (n_points,).

    Examples
    --------
    >>> center, scale = median_and_spread(np.array([1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 1e300]), None)
    >>> center, round(scale, 2)
    (3.0, 1.48)
    """
    halves = 0.5 * x.astype(np.float64)  # the difference of two values may overflow
    lower, center, upper = weighted_quantile(halves, np.array([0.25, 0.5, 0.75]), weights)
    return 2 * float(center), 2 * float((upper - lower) / IQR_OF_NORMAL)
