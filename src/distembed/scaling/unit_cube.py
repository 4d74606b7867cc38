r"""Scaling: any box to the unit cube, one coordinate at a time.

The embeddings of densities work on [0, 1]^d. Each coordinate gets its own increasing map

.. math::  u = \frac{g(x) - g(a)}{g(b) - g(a)}, \qquad a \le x \le b,

with bounds a (``low_``) and b (``high_``) and one of three functions g: the identity (``"linear"``),
asinh((x - median) / scale) (``"asinh"``) or the pooled empirical distribution function (``"rank"``).

Homogeneous density distances (Jensen-Shannon, Hellinger, total variation, ...) do not change when the space
goes through a smooth invertible map: the Jacobian multiplies both densities alike and cancels against the
volume element. So none of the maps costs information, and the right one can make densities far easier to
estimate with one bandwidth. L2 distances and maximum mean discrepancies do change.

Cost: O(n_points n_dims), times log n_quantiles for ``"rank"``; ``fit`` of curved maps and quantiles sorts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagEstimator, check_bags
from ..compute.arrays import column_range, map_blocks, outside, outside_rows
from ..compute.checks import check_choice, check_number
from ..compute.registry import storable
from . import coordinate_maps as maps

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

WARN_ABOVE = 0.01  # fraction of clipped points that earns a warning


@storable
class UnitCube(OneToOneFeatureMixin, BagEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    r"""Scale points to the unit cube: bags to bags in [0, 1]^d.

    Every coordinate goes through an increasing map of its own from [``low_``, ``high_``] to [0, 1], the same
    for all bags. Homogeneous density distances are the same after any such map, so the choice of ``map``
    costs no information; it decides how hard the densities are to estimate with one bandwidth:

    - ``"linear"`` keeps the shape of the densities. Right where points fill their range roughly evenly.
    - ``"asinh"`` is linear around the median and logarithmic far from it, on both sides. Right for heavy
      tails and for values over several orders of magnitude, which a linear map squeezes into a corner.
    - ``"rank"`` makes the pooled points uniform in each coordinate, whatever their units and tails. Right
      where scales are unknown or very uneven; it also draws apart what is dense only by rounding or noise.

    Parameters
    ----------
    bounds : "minmax", float in (0, 0.5), or pair (low, high), default="minmax"
        The box. ``"minmax"``: smallest and largest value of each coordinate over all training points. A
        number q: the q and 1 - q quantiles of each coordinate, weights respected (a bag counts for its
        effective number of points, so the scale of its weights is irrelevant). A pair: the box itself, each
        end a number or one number a dimension.
    margin : float, default=0.05
        How far ``"minmax"`` and quantile bounds are moved outwards on either side, as a fraction of the span;
        with ``map="asinh"`` of the span of asinh values, or tails would leave the rest of the cube empty.
        Explicit bounds are taken as they are.
    outside : {"clip", "drop", "error"}, default="clip"
        What happens to points with a coordinate outside the box: moved to its nearest face, removed, or
        refused. Clipping piles mass on faces: ``transform`` warns when it moves more than 1 % of the points.
    map : {"linear", "asinh", "rank"}, default="linear"
        The map, above. Medians, scales and ranks are taken over the training points inside the bounds,
        coordinate by coordinate, weights respected. Categorical columns stay as they are, whatever the map.
    n_quantiles : int, default=1000
        Largest number of inner knots of the ``"rank"`` map.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_dims,)
        The box in input units, margin included; 0 and the number of labels for a categorical column.
    center_, scale_ : ndarray of shape (n_dims,) or None
        Of ``map="asinh"``: median and robust scale (IQR / 1.349, or else the standard deviation, or else 1).
    knots_ : list of n_dims ndarrays of shape (2, n_knots) or None
        Of ``map="rank"``: positions and heights of the knots of each coordinate, both strictly increasing.
    clipped_ : float
        Fraction of the points, each counting one, that were outside the box in the latest ``fit`` or
        ``transform``.
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

    A coordinate that is constant, or whose quantiles coincide, gets bounds 1/2 to either side and maps to
    1/2. The arithmetic is float64; bags come back in the dtype in which they came. ``"rank"`` is continuous
    and invertible but has corners at its knots; values tied in training are mapped half way up their jump.
    A range that overflows float64 is refused.

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
    center_: Any
    scale_: Any
    knots_: Any
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
        check_choice(self, "map", self.map, ("linear", "asinh", "rank"))
        n_quantiles = check_number(self, "n_quantiles", self.n_quantiles, low=2, integer=True)
        bags = check_bags(self, X, reset=True).drop_weightless()
        weights = None if bags.weights is None else maps.pooled_weights(bags.weights, bags.offsets)
        self.center_ = self.scale_ = self.knots_ = None
        if isinstance(self.bounds, Real) or (isinstance(self.bounds, str) and self.bounds == "minmax"):
            low, high = self._data_box(bags.points, weights)
        else:
            low, high, margin = *self._explicit_box(bags.n_dims), 0.0
        self._set_box(*_widen(low, high, 0.0 if self.map == "asinh" else margin))
        if self.map == "asinh":
            shapes = [maps.asinh_shape(*column) for column in self._inside(bags.points, weights)]
            self.center_, self.scale_ = np.array(shapes).T.copy()
            self._check_asinh()
            spread = np.where(low < high, margin, 0.0)  # a constant coordinate has its bounds already
            self._set_box(*maps.widen_asinh(self.low_, self.high_, self.center_, self.scale_, spread))
        elif self.map == "rank":
            self.knots_ = [maps.rank_knots(*column, n_quantiles) for column in self._inside(bags.points, weights)]
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
        self.clipped_ = float(rows.mean())
        if self.outside == "error" and rows.any():
            remedy = 'widen margin or bounds, or pass outside="clip" or "drop"'
            self._refuse(bags, rows, self.low_, self.high_, remedy)
        elif self.outside == "drop" and rows.any():
            bags = _drop(bags, rows)
        elif self.clipped_ > WARN_ABOVE:
            warnings.warn(
                f"UnitCube: {100 * self.clipped_:.3g} % of the points lie outside the bounds and were "
                "clipped to the faces of the cube, where they pile up; widen margin or bounds, or pass "
                'outside="drop"',
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
            raise ValueError(
                f"UnitCube: X must have a dtype that can hold the bounds of fit, got {bags.dtype}; pass float64 bags"
            )
        return bags.replace(points=points)

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: the output is bags, whatever container is asked for.

        It is here so that ``Pipeline.set_output`` can reach the steps that return arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            Ignored.

        Returns
        -------
        UnitCube
            The estimator itself.
        """
        return self

    def _data_box(self, points: NDArray[Any], weights: Array | None) -> tuple[Array, Array]:
        """Find the range of the data, or a pair of quantiles, before the margin."""
        low, high = column_range(points)
        self._check_span(low, high)
        if isinstance(self.bounds, str):
            return low, high
        remedy = 'pass a small one such as 0.01, or "minmax", or a pair (low, high)'
        q = check_number(self, "bounds", self.bounds, low=0, high=0.5, inclusive="neither", remedy=remedy)
        ends = np.array([q, 1 - q])
        low, high = np.stack([maps.weighted_quantile(x.astype(np.float64), ends, weights) for x in points.T], axis=1)
        return low, high

    def _explicit_box(self, n_dims: int) -> tuple[Array, Array]:
        """Read the pair (low, high), one number a dimension."""
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
                f"a finite number or {n_dims} of them, one a dimension, got {self.bounds!r}; "
                "pass (low, high), not one pair a dimension"
            )
        low, high = ends
        if (low >= high).any():
            j = int(np.argmax(low >= high))
            raise ValueError(
                f"UnitCube(bounds=...): low must be below high, got low {low[j]:g} and high {high[j]:g} in "
                f"{self._dimension(j)}; pass (low, high), not one pair a dimension"
            )
        self._check_span(low, high)
        return low, high

    def _set_box(self, low: Array, high: Array) -> None:
        """Store the bounds, unless their margin made them overflow."""
        low, high = self._open(low, high)
        self._check_span(low, high)
        self.low_, self.high_ = low, high

    def _open(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The box with room for every code in its categorical columns, in place: none is ever outside."""
        for j, labels in getattr(self, "categories_in_", {}).items():
            low[j], high[j] = 0.0, len(labels)
        return low, high

    def _map(self, function: Callable[[Array], Array], points: NDArray[Any]) -> NDArray[Any]:
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
                f"UnitCube: the range of {self._dimension(j)} must be finite in float64, got {low[j]:g} to "
                f"{high[j]:g}; divide this coordinate by a constant first"
            )

    def _inside(
        self, points: NDArray[Any], weights: Array | None
    ) -> Iterator[tuple[Array, Array | None, float, float]]:
        """For each coordinate, the values of the points inside its bounds, their weights, and the bounds."""
        for j, (low, high) in enumerate(zip(self.low_.tolist(), self.high_.tolist(), strict=True)):
            x = points[:, j]
            rows = ~outside(x, low, high)
            if weights is not None:
                rows &= weights > 0
            if not rows.any():
                raise ValueError(
                    f"UnitCube(map={self.map!r}): some training points must lie inside the bounds, got none "
                    f"in {self._dimension(j)}, where points run from {x.min():g} to {x.max():g} and bounds "
                    f'from {low:g} to {high:g}; give bounds in the units of the points, or "minmax"'
                )
            values = np.clip(x[rows].astype(np.float64), low, high)
            yield values, None if weights is None else weights[rows], low, high

    def _check_asinh(self) -> None:
        """Refuse an asinh map that overflows or that rounds both bounds to the same value."""
        with np.errstate(over="ignore"):
            low, high = self._asinh_ends()
        sound = np.isfinite(low) & np.isfinite(high) & (low < high)
        if not sound.all():
            j = int(np.argmin(sound))
            raise ValueError(
                "UnitCube(map='asinh'): bounds must be finite and distinct in units of the scale of the "
                f"points, got bounds {self.low_[j]:g} to {self.high_[j]:g}, center {self.center_[j]:g} and "
                f"scale {self.scale_[j]:g} in {self._dimension(j)}; pass map='rank' or other bounds"
            )

    def _asinh_ends(self) -> Array:
        """Bounds (2, n_dims) in units of the asinh map, before they become 0 and 1."""
        ends = np.stack([self.low_, self.high_])
        return np.asarray(np.arcsinh((ends - self.center_) / self.scale_))

    def _forward(self, x: Array) -> Array:
        """Map coordinates (n_dims, n) to the unit cube, after clipping them to the box, in place."""
        low, high = self.low_[:, None], self.high_[:, None]
        np.clip(x, low, high, out=x)
        if self.map == "linear":
            return _to_unit(x, low, high)
        if self.map == "asinh":
            x -= self.center_[:, None]
            x /= self.scale_[:, None]
            return _to_unit(np.arcsinh(x, out=x), *self._asinh_ends()[..., None])
        return np.stack([maps.interpolate(column, *knots) for column, knots in zip(x, self.knots_, strict=True)])

    def _backward(self, u: Array) -> Array:
        """Map coordinates (n_dims, n) of the unit cube to the box, in place."""
        low, high = self.low_[:, None], self.high_[:, None]
        if self.map == "linear":
            return _from_unit(u, low, high)
        if self.map == "asinh":
            x = np.sinh(_from_unit(u, *self._asinh_ends()[..., None]), out=u)
            x *= self.scale_[:, None]
            x += self.center_[:, None]
            return np.clip(x, low, high, out=x)
        return np.stack([maps.interpolate(column, *knots[::-1]) for column, knots in zip(u, self.knots_, strict=True)])

    def _refuse(self, bags: Bags, rows: Mask, low: Array, high: Array, remedy: str) -> NoReturn:
        """Raise the error that names the first point outside, marked in ``rows``, and its coordinate."""
        row = int(np.argmax(rows))
        j = int(np.argmax(outside(bags.points[row], low, high)))
        i = int(np.searchsorted(bags.offsets, row, side="right")) - 1
        raise ValueError(
            f"UnitCube: points must lie in the bounds [{low[j]}, {high[j]}] of {self._dimension(j)}, got "
            f"{bags.points[row, j]} at point {row - int(bags.offsets[i])} of {bags.name_of(i)}; {remedy}"
        )

    def _dimension(self, j: int) -> str:
        """``dimension 1 ('dec')``, or ``dimension 1`` without column names."""
        names = getattr(self, "feature_names_in_", None)
        return f"dimension {j}" if names is None else f"dimension {j} ({names[j]!r})"


def _drop(bags: Bags, rows: Mask) -> Bags:
    """Remove the points marked in ``rows``; no bag may lose all its points, nor all its weight."""
    keep, starts = ~rows, bags.offsets[:-1]
    sizes = np.add.reduceat(keep, starts, dtype=np.int64)
    heavy = keep if bags.weights is None else keep & (bags.weights > 0)
    n_heavy = np.add.reduceat(heavy, starts, dtype=np.int64)
    if not n_heavy.all():
        i = int(np.argmin(n_heavy))
        left = "no point" if sizes[i] == 0 else "no point of positive weight"
        raise ValueError(
            f'UnitCube(outside="drop"): every bag must keep weight inside the bounds, got {left} in '
            f'{bags.name_of(i)}; widen margin or bounds, leave the bag out, or pass outside="clip"'
        )
    weights = None if bags.weights is None else bags.weights[keep]
    return bags.replace(points=bags.points[keep], offsets=np.r_[0, np.cumsum(sizes)], weights=weights)


def _widen(low: Array, high: Array, margin: float) -> tuple[Array, Array]:
    """Bounds (n_dims,) moved outwards by ``margin`` spans, or by 1/2 where the span is zero.

    Where 1/2 is lost in the rounding of a huge value they move by 2^-30 of it. The result may be infinite.
    """
    with np.errstate(over="ignore"):
        span = high - low
        step = np.where(span > 0, margin * span, np.maximum(0.5, 2.0**-30 * np.abs(low)))
        return low - step, high + step


def _to_unit(x: Array, low: Array, high: Array) -> Array:
    """Affine map of [low, high] to [0, 1], in place, never outside despite rounding."""
    x -= low
    x /= high - low
    return np.clip(x, 0.0, 1.0, out=x)


def _from_unit(u: Array, low: Array, high: Array) -> Array:
    """Affine map of [0, 1] to [low, high], in place, never outside despite rounding."""
    u *= high - low
    u += low
    return np.clip(u, low, high, out=u)
