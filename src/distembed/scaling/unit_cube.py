r"""Scaling: any box to the unit cube, one coordinate at a time.

The embeddings of densities work on [0, 1]^d. Each coordinate gets its own increasing map

.. math::  u = \frac{g(x) - g(a)}{g(b) - g(a)}, \qquad a \le x \le b,

with one of three functions g, see :class:`UnitCube`; :mod:`distembed.scaling.curves` has those that are not lines, and
the rule that chooses between them. Homogeneous density distances (Jensen-Shannon, Hellinger, total variation, ...) do
not change when the space goes through a smooth invertible map: the Jacobian multiplies both densities alike and cancels
against the volume element. L2 distances and maximum mean discrepancies do change.

Symmetries that swap columns need one box for all of these: :class:`SharedCube`. :func:`scaler_for` chooses between the
cube and standardisation for an embedding.

Cost: O(n_points n_dims), times log n_quantiles for ``"rank"``; ``fit`` of curved maps and quantiles sorts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagScaler, check_bags, name_of_dimension
from ..compute.arrays import Array, column_range, from_unit, map_blocks, outside, outside_rows, to_unit, widen_bounds
from ..compute.checks import InputError, check_choice, check_number
from ..compute.registry import storable
from .curves import AsinhCurve, BoundedColumn, Curve, RankCurve, SigmoidCurve, choose_map, weighted_quantile
from .standardize import WARN_ABOVE, Standardize


def _drop(bags: Bags, rows: Array) -> Bags:
    """Remove the points marked in ``rows``; no bag may lose all its points, nor all its weight."""
    starts = bags.offsets[:-1]
    heavy = ~rows if bags.weights is None else ~rows & (bags.weights > 0)
    has_weight = np.logical_or.reduceat(heavy, starts)
    if not has_weight.all():
        i = int(np.argmin(has_weight))
        left = "no point" if np.logical_and.reduceat(rows, starts)[i] else "no point of positive weight"
        raise InputError(
            f'UnitCube(outside="drop"): every bag must keep weight inside the bounds, got {left} in '
            f'{bags.name_of(i)}; widen margin or bounds, leave the bag out, or pass outside="clip"'
        )
    return bags.keep_points(~rows)


def _with_rows(x: Array, rows: dict[int, Array]) -> Array:
    """Some rows of ``x`` replaced, in place."""
    for j, row in rows.items():
        x[j] = row
    return x


@storable(
    low_="finite(d)",
    high_="finite(d)",
    maps_="list[text]",
    curves_="dict[AsinhCurve | RankCurve | SigmoidCurve]",
    clipped_="number",
)
class UnitCube(OneToOneFeatureMixin, BagScaler):
    r"""Scale points to the unit cube: bags to bags in [0, 1]^d.

    Every coordinate goes through an increasing map of its own from [``low_``, ``high_``] to [0, 1], the same
    for all bags. Homogeneous density distances are the same after any such map, so the choice of ``map``
    costs no information; it decides how hard the densities are to estimate with one bandwidth:

    - ``"linear"`` keeps the shape of the densities. Right where points fill their range roughly evenly.
    - ``"asinh"`` is linear around the median and logarithmic far from it, on both sides. Right for heavy
      tails and for values over several orders of magnitude, which a linear map squeezes into a corner.
    - ``"rank"`` makes the pooled points uniform in each coordinate, whatever their units and tails. Right
      where scales are unknown or very uneven; it also draws apart what is dense only by rounding or noise.
    - ``"sigmoid"`` is the logistic function behind a line for either sign: 0 goes to 0.5, the 90th percentile of the
      positive values to 0.9, the 10th percentile of the negative ones to 0.1. Right for values with zero in the middle,
      such as activations of a network in front of their rectifier.
    - ``"auto"`` chooses for each column. Linear, where the central 98 % of the points fill half of the box; else the
      first of linear, asinh and rank that leaves at least 0.015 of the cube to every tenth of the points, those
      between two quantiles. ``maps_`` holds the choice. Learners use this one.

    Parameters
    ----------
    bounds : "minmax", float in (0, 0.5), or pair (low, high), default="minmax"
        The box. ``"minmax"``: smallest and largest value of each coordinate over all training points. A
        number q: the q and 1 - q quantiles of each coordinate, weights respected (a bag counts for its
        effective number of points, so the scale of its weights is irrelevant). A pair: the box itself, each
        end a number or one number per dimension.
    margin : float, default=0.05
        How far ``"minmax"`` and quantile bounds are moved outwards on either side, as a fraction of the span;
        with ``map="asinh"`` of the span of asinh values, or tails would leave the rest of the cube empty.
        Explicit bounds are taken as they are. ``"minmax"`` with ``map="sigmoid"`` needs no margin: the box is where
        the logistic function is not yet 0 or 1 to rounding, or the range of the data if that is larger.
    outside : {"clip", "drop", "error"}, default="clip"
        What happens to points with a coordinate outside the box: moved to its nearest face, removed, or
        refused. Clipping piles mass on faces: ``transform`` warns when it moves more than 1 % of the points.
    map : {"linear", "asinh", "rank", "sigmoid", "auto"}, default="linear"
        The map, above. Medians, scales and ranks are taken over the training points inside the bounds,
        coordinate by coordinate, weights respected. Categorical columns stay as they are, whatever the map.
    n_quantiles : int, default=1000
        Largest number of inner knots of the ``"rank"`` map.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_dims,)
        The box in input units, margin included; 0 and the number of labels for a categorical column.
    maps_ : tuple of str
        The map of each column: ``"linear"``, ``"asinh"``, ``"rank"``, ``"sigmoid"``, or ``"category"`` for one that
        stays as it is.
    curves_ : dict of int to AsinhCurve, RankCurve or SigmoidCurve
        The columns whose map is curved. An ``AsinhCurve`` has ``center``, the median, ``scale`` (IQR / 1.349, or else
        the standard deviation, or else 1) and its bounds; a ``RankCurve`` has ``knots`` of shape (2, n_knots),
        positions and heights, both strictly increasing; a ``SigmoidCurve`` has ``negative`` and ``positive``, the
        sizes that go to 0.1 and 0.9.
    clipped_ : float
        Fraction of the points, those of positive weight counting one, that were outside the box in the latest ``fit``
        or ``transform``.
    n_features_in_ : int
        Number of dimensions.
    feature_names_in_ : ndarray of shape (n_dims,)
        Names of the coordinates, if the bags had column names.
    categories_in_ : dict of int to tuple
        Labels of the categorical columns, if the bags had any.

    Notes
    -----
    With g the identity, asinh((x - center) / scale) or the interpolated distribution function,

    .. math::  u = (g(x) - g(\mathrm{low})) / (g(\mathrm{high}) - g(\mathrm{low})).

    With the logistic function u is g(x) itself: no point is moved to a face by ``"minmax"``, and narrower bounds leave
    the ends of the cube empty. Its inverse loses digits towards 1. With the other maps a coordinate that is constant,
    or whose quantiles coincide, gets bounds 1/2 to either side and maps to 1/2. The arithmetic is float64; bags come
    back in the dtype in which they came. ``"rank"`` is continuous and invertible but has corners at its knots; values
    tied in training are mapped half way up their jump. A range that overflows float64 is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.scaling import UnitCube
    >>> bags = [np.array([[0.0, 10.0], [1.0, 30.0]]), np.array([[4.0, 20.0]])]
    >>> cube = UnitCube(margin=0).fit(bags)
    >>> cube.transform(bags).points
    array([[0.  , 0.  ],
           [0.25, 1.  ],
           [1.  , 0.5 ]])

    Heavy tails: the linear map squeezes nearly everything into a corner, the others don't.

    >>> tail = [np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1000.0])]
    >>> for kind in ["linear", "asinh", "rank"]:
    ...     print(f"{kind:6}", UnitCube(map=kind).fit_transform(tail).points.ravel().round(2))
    linear [0.05 0.05 0.05 0.05 0.05 0.05 0.05 0.05 0.95]
    asinh  [0.05 0.07 0.1  0.13 0.17 0.21 0.24 0.27 0.95]
    rank   [0.06 0.17 0.28 0.39 0.5  0.61 0.72 0.83 0.94]
    """

    takes_categories = True
    low_: Array
    high_: Array
    maps_: tuple[str, ...]
    curves_: dict[int, Curve]
    clipped_: float

    def __init__(
        self,
        bounds: Any = "minmax",
        *,
        margin: float = 0.05,
        outside: str = "clip",
        map: str = "linear",  # noqa: A002
        n_quantiles: int = 1000,
    ) -> None:
        self.bounds = bounds
        self.margin = margin
        self.outside = outside
        self.map = map
        self.n_quantiles = n_quantiles

    def __distembed_fits__(self) -> bool:
        return len(self.maps_) == self.n_features_in_ and set(self.curves_) <= set(range(self.n_features_in_))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the box and the shape of the map.

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
        margin = check_number(self, "margin", self.margin, low=0)
        check_choice(self, "outside", self.outside, ("clip", "drop", "error"))
        check_choice(self, "map", self.map, ("linear", "asinh", "rank", "sigmoid", "auto"))
        check_number(self, "n_quantiles", self.n_quantiles, low=2, integer=True)
        bags = check_bags(self, X, reset=True).drop_weightless()
        weights = bags.pooled_weights()
        if isinstance(self.bounds, Real) or (isinstance(self.bounds, str) and self.bounds == "minmax"):
            low, high = self._data_box(bags.points, weights)
        else:
            low, high, margin = *self._explicit_box(bags.n_dims), 0.0
        self._set_box(*widen_bounds(low, high, 0.0))
        self.maps_ = tuple(self._map_name(j, bags.points, weights) for j in range(bags.n_dims))
        # The margin of an asinh map is a fraction of its own span, which is known once the curve is.
        self._set_box(*widen_bounds(low, high, np.where([name == "asinh" for name in self.maps_], 0.0, margin)))
        spread = np.where(low < high, margin, 0.0)  # a constant coordinate has its bounds already
        self.curves_ = {
            j: self._curve(j, self._inside(j, bags.points, weights), spread[j])
            for j, name in enumerate(self.maps_)
            if name in ("asinh", "rank", "sigmoid")
        }
        low = self.low_.copy()
        high = self.high_.copy()
        for j, curve in self.curves_.items():
            if isinstance(curve, AsinhCurve):
                low[j] = curve.low
                high[j] = curve.high
            elif isinstance(curve, SigmoidCurve) and isinstance(self.bounds, str):
                low[j] = min(low[j], curve.box[0])
                high[j] = max(high[j], curve.box[1])
        self._set_box(low, high)
        self.clipped_ = float(outside_rows(bags.points, self.low_, self.high_).mean())
        return self

    def transform(self, X: Any) -> Bags:
        """Map points into the unit cube.

        Parameters
        ----------
        X : bags
            ``Bags`` or anything that ``as_bags`` takes.

        Returns
        -------
        Bags
            With points in [0, 1]^d, and the dtype, weights, ids, columns and categorical columns of ``X``.
        """
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        rows = outside_rows(bags.points, self.low_, self.high_)
        counted = rows if bags.weights is None else rows & (bags.weights > 0)
        self.clipped_ = float(counted.mean())
        if self.outside == "error" and counted.any():
            remedy = 'widen margin or bounds, or pass outside="clip" or "drop"'
            self._refuse(bags, counted, self.low_, self.high_, remedy)
        elif self.outside == "drop" and rows.any():
            bags = _drop(bags, rows)
        elif self.clipped_ > WARN_ABOVE:
            warnings.warn(
                f"UnitCube: more than {WARN_ABOVE:.0%} of the points (clipped_) lie outside the bounds and were "
                "clipped to the faces of the cube, where they pile up; fit on points like them too, widen margin or "
                'bounds, or pass outside="drop"',
                UserWarning,
                stacklevel=2,
            )
        return bags.replace(points=self._map(self._forward, bags.points))

    def inverse_transform(self, X: Any) -> Bags:
        """Map points of the unit cube back to input units.

        Exact up to rounding for points that were inside the box; clipped points stay on its faces.

        Parameters
        ----------
        X : bags
            ``Bags`` or anything that ``as_bags`` takes, with points in [0, 1]^d.

        Returns
        -------
        Bags
            With points in the box [``low_``, ``high_``], and the dtype, weights, ids, columns and categorical
            columns of ``X``.
        """
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        zero, one = self._open(np.zeros(bags.n_dims), np.ones(bags.n_dims))
        rows = outside_rows(bags.points, zero, one)
        if rows.any():
            remedy = "pass points of the unit cube, as transform returns them, or clip them to it"
            self._refuse(bags, rows, zero, one, remedy)
        with np.errstate(over="ignore"):  # checked just below
            points = self._map(self._backward, bags.points)
        if not np.isfinite(points).all():
            raise InputError(
                f"UnitCube: X must have a dtype that can hold the bounds of fit, got {bags.dtype}; pass float64 bags"
            )
        return bags.replace(points=points)

    def _data_box(self, points: Array, weights: Array | None) -> tuple[Array, Array]:
        """Find the range of the data, or a pair of quantiles, before the margin."""
        low, high = column_range(points)
        self._check_span(low, high)
        if isinstance(self.bounds, str):
            return low, high
        remedy = 'pass a small one such as 0.01, or "minmax", or a pair (low, high)'
        q = check_number(self, "bounds", self.bounds, low=0, high=0.5, inclusive="neither", remedy=remedy)
        ends = np.array([q, 1 - q])
        low, high = np.stack([weighted_quantile(x.astype(np.float64), ends, weights) for x in points.T], axis=1)
        return low, high

    def _explicit_box(self, n_dims: int) -> tuple[Array, Array]:
        """Read the pair (low, high), one number per dimension."""
        try:
            pair = () if isinstance(self.bounds, str) else self.bounds
            ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), (n_dims,)) for end in pair]
        except (TypeError, ValueError):
            ends = []
        if len(ends) == 2:
            ends = list(self._open(*(end.copy() for end in ends)))
        if len(ends) != 2 or not np.isfinite(ends).all():
            raise ValueError(
                "UnitCube(bounds=...): must be 'minmax', a quantile in (0, 0.5) or a pair (low, high), each "
                f"a finite number or {n_dims} of them, one per dimension, got {self.bounds!r}; "
                "pass (low, high), not one pair per dimension"
            )
        low, high = ends
        if (low >= high).any():
            j = int(np.argmax(low >= high))
            raise ValueError(
                f"UnitCube(bounds=...): low must be below high, got low {low[j]:g} and high {high[j]:g} in "
                f"{name_of_dimension(self, j)}; pass (low, high), not one pair per dimension"
            )
        self._check_span(low, high)
        return low, high

    def _set_box(self, low: Array, high: Array) -> None:
        """Store the bounds, unless their margin made them overflow."""
        low, high = self._open(low, high)
        self._check_span(low, high)
        self.low_ = low
        self.high_ = high

    def _open(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The box with room for every code in its categorical columns, in place: none is ever outside."""
        for j, labels in getattr(self, "categories_in_", {}).items():
            low[j], high[j] = 0.0, len(labels)
        return low, high

    def _map(self, function: Callable[[Array], Array], points: Array) -> Array:
        """Apply a map to all columns but the categorical ones."""
        result = map_blocks(function, points)
        codes = list(getattr(self, "categories_in_", ()))
        if codes:
            result[:, codes] = points[:, codes]
        return result

    def _check_span(self, low: Array, high: Array) -> None:
        """Refuse bounds whose difference is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            overflow = ~np.isfinite(high - low)
        if overflow.any():
            j = int(np.argmax(overflow))
            raise ValueError(
                f"UnitCube: the range of {name_of_dimension(self, j)} must be finite in float64, got {low[j]:g} to "
                f"{high[j]:g}; divide this coordinate by a constant first"
            )

    def _inside(self, j: int, points: Array, weights: Array | None) -> BoundedColumn:
        """One coordinate of the points inside its bounds."""
        x = points[:, j]
        low = float(self.low_[j])
        high = float(self.high_[j])
        rows = ~outside(x, low, high)
        if weights is not None:
            rows &= weights > 0
        if not rows.any():
            raise ValueError(
                f"UnitCube(map={self.map!r}): some training points must lie inside the bounds, got none "
                f"in {name_of_dimension(self, j)}, where points run from {x.min():g} to {x.max():g} and bounds "
                f'from {low:g} to {high:g}; give bounds in the units of the points, or "minmax"'
            )
        values = np.clip(x[rows].astype(np.float64), low, high)
        return BoundedColumn(values, None if weights is None else weights[rows], low, high)

    def _map_name(self, j: int, points: Array, weights: Array | None) -> str:
        """The map of one column, which is what the parameter says, but for ``"auto"`` and categories."""
        if j in getattr(self, "categories_in_", ()):
            return "category"
        return choose_map(self._inside(j, points, weights)) if self.map == "auto" else self.map

    def _curve(self, j: int, column: BoundedColumn, margin: float) -> Curve:
        """The map of one column, with a margin of its own where it is asinh."""
        if self.maps_[j] == "rank":
            return RankCurve.of(column, self.n_quantiles)
        if self.maps_[j] == "sigmoid":
            return SigmoidCurve.of(column)
        curve = AsinhCurve.of(column)
        if not curve.is_sound:
            raise ValueError(
                "UnitCube(map='asinh'): bounds must be finite and distinct in units of the scale of the "
                f"points, got bounds {curve.low:g} to {curve.high:g}, center {curve.center:g} and "
                f"scale {curve.scale:g} in {name_of_dimension(self, j)}; pass map='rank' or other bounds"
            )
        return curve.with_margin(margin)

    def _forward(self, x: Array) -> Array:
        """Map coordinates (n_dims, n) to the unit cube, after clipping them to the box, in place."""
        low = self.low_[:, None]
        high = self.high_[:, None]
        np.clip(x, low, high, out=x)
        curved = {j: curve.forward(x[j]) for j, curve in self.curves_.items()}
        return _with_rows(to_unit(x, low, high), curved)

    def _backward(self, u: Array) -> Array:
        """Map coordinates (n_dims, n) of the unit cube to the box, in place."""
        curved = {j: curve.backward(u[j]) for j, curve in self.curves_.items()}
        return _with_rows(from_unit(u, self.low_[:, None], self.high_[:, None]), curved)

    def _refuse(self, bags: Bags, rows: Array, low: Array, high: Array, remedy: str) -> NoReturn:
        """Raise the error that names the first point outside, marked in ``rows``, and its coordinate."""
        row = int(np.argmax(rows))
        j = int(np.argmax(outside(bags.points[row], low, high)))
        raise InputError(
            f"UnitCube: points must lie in the bounds [{low[j]}, {high[j]}] of {name_of_dimension(self, j)}, got "
            f"{bags.points[row, j]} at {bags.name_of_point(row)}; {remedy}"
        )


@storable
class SharedCube(UnitCube):
    """Scale points to the unit cube by linear maps, some columns by one and the same.

    Parameters
    ----------
    columns : tuple of int or "all", default=()
        Columns that share the smallest box that holds them all, so to swap them changes no length.
    margin : float, default=0.05
        As of :class:`~distembed.UnitCube`.

    Examples
    --------
    >>> cube = SharedCube((0, 1), margin=0).fit([np.array([[0.0, 1.0, 5.0], [4.0, 3.0, 6.0]])])
    >>> cube.low_, cube.high_
    (array([0., 0., 5.]), array([4., 4., 6.]))
    """

    def __init__(self, columns: str | tuple[int, ...] = (), *, margin: float = 0.05) -> None:
        super().__init__(margin=margin)
        self.columns = columns

    def _data_box(self, points: Array, weights: Array | None) -> tuple[Array, Array]:
        low, high = (np.array(end, float) for end in super()._data_box(points, weights))
        if self.columns:
            shared: Any = slice(None) if isinstance(self.columns, str) else [*self.columns]
            low[shared], high[shared] = low[shared].min(), high[shared].max()
        return low, high


def scaler_for(embedding: Any) -> UnitCube | Standardize | None:
    """What to put before an embedding so that neither the units nor the offsets of columns matter.

    ``UnitCube(map="auto")`` where points must lie in the unit cube, ``Standardize()`` elsewhere, and None before a
    pipeline that begins with a scaler of its own. What ``Marginals`` and ``BlockAverage`` wrap decides for them; of
    embeddings side by side, one that wants the unit cube.

    Parameters
    ----------
    embedding : estimator
        Not fitted.

    Returns
    -------
    UnitCube, Standardize or None
        Not fitted.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.scaling import scaler_for
    >>> from sklearn.pipeline import make_pipeline, make_union
    >>> [scaler_for(each) for each in (de.HDDEmbedding(), de.MomentEmbedding(), de.Marginals(de.L2Embedding()))]
    [UnitCube(map='auto'), Standardize(), UnitCube(map='auto')]
    >>> scaler_for(make_union(de.MomentEmbedding(), de.HDDEmbedding()))
    UnitCube(map='auto')
    >>> scaler_for(make_pipeline(de.UnitCube((0, 255)), de.HDDEmbedding())) is None
    True
    """
    units = _units_of(embedding)
    return UnitCube(map="auto") if units == "unit cube" else Standardize() if units == "any" else None


def _units_of(embedding: Any) -> str:
    """Where points must lie: ``"unit cube"``, ``"any"``, or ``"own"`` for what scales them itself."""
    if isinstance(embedding, BagScaler):
        return "own"
    if isinstance(embedding, Pipeline):
        return _units_of(embedding.steps[0][1])
    if isinstance(embedding, FeatureUnion):
        found = {_units_of(each) for _, each in embedding.transformer_list}
        return next(units for units in ("unit cube", "own", "any") if units in found)
    if hasattr(embedding, "embedding"):
        return _units_of(embedding.embedding)
    return str(getattr(embedding, "units", "any"))
