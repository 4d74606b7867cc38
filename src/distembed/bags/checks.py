"""The rules that make arrays valid bags, and the errors that name what breaks them.

`validate` is the only door into a `Bags` for data from outside; every other function is one rule; those of
ids are in ``ids.py``. The cost is one pass over the points (a sum, which is finite only if every term is), and
O(n_bags log n_bags) for the ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, InputError, Message, check_choice, check_number
from .flat import FlatBags, FloatArray, IntArray, Parts, bag_name, few, no_bags, row_name, sum_by_bag
from .ids import check_ids

NAN_CHOICES = ("error", "drop", "indicator")
EMPTY_CHOICES = ("error", "allow")
Fills = dict[str, float]  # what stands for missing values, by column
Rule = str | Fills  # one of the choices, or the fills of the bags that came first


def libraries(obj: Any) -> set[str]:
    """Return the top-level modules that define the type of `obj` and its bases."""
    return {base.__module__.partition(".")[0] for base in type(obj).__mro__}


def unmask(values: Any) -> NDArray[Any]:
    """Return missing values as NaN, which validation then refuses by place."""
    return np.ma.filled(values.astype(np.float64), np.nan) if np.ma.is_masked(values) else np.asarray(values)


def as_float(values: Any, name: str) -> FloatArray:
    """Return `values` as a float32 or float64 array, the caller's own memory where it is one already."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must have no masked entries; remove those points or fill them in first")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers, got rows of unequal length") from error
    if array.dtype.kind not in "fiub":
        sparse = hasattr(values, "toarray")
        got = f"a sparse {type(values).__name__}" if sparse else f"dtype {array.dtype}"
        remedy = "use .toarray()" if sparse else "convert it to float64 first"
        raise TypeError(f"{name} must be real numbers (float, integer or boolean), got {got}; {remedy}")
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    # A long double may overflow here; the infinity is then refused, by place, as any other.
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if single else np.float64, copy=False)


def check_points(points: Any) -> FloatArray:
    """Return `points` as a C-contiguous float array of shape (n_points, n_dims)."""
    array = as_float(points, "points")
    if array.ndim != 2:
        remedy = "points[:, None] makes 1-D points" if array.ndim == 1 else "for a 3-D array use as_bags"
        raise ValueError(f"points must be 2-D (n_points, n_dims), got shape {array.shape}; {remedy}")
    if array.shape[1] == 0:
        raise ValueError(f"points must have at least one coordinate, got shape {array.shape}; give a column")
    return np.ascontiguousarray(array)


def check_offsets(offsets: Any) -> IntArray:
    """Return `offsets` as a 1-D int64 array of at least two entries."""
    array = np.asarray(offsets)
    if array.ndim != 1:
        raise ValueError(
            f"offsets must be 1-D, of n_bags + 1 entries, got shape {array.shape}; give np.r_[0, np.cumsum(sizes)]"
        )
    if len(array) < 2:
        raise no_bags(f"offsets must have n_bags + 1 entries, got {len(array)}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"offsets must be integers, got dtype {array.dtype}; use .astype(int)")
    return array.astype(np.int64, copy=False)


def check_bounds(offsets: IntArray, n_points: int, ids: Any, empty: str = "error") -> None:
    """Raise unless `offsets` runs from 0 to `n_points`, strictly increasing, or never falling if bags may be empty."""
    if offsets[0] != 0:
        raise ValueError(f"offsets must start at 0, got {offsets[0]}; give np.r_[0, np.cumsum(sizes)]")
    bad = np.flatnonzero(offsets[1:] < offsets[:-1] if empty == "allow" else offsets[1:] <= offsets[:-1])
    if bad.size:
        here = int(bad[0])
        start = offsets[here]
        stop = offsets[here + 1]
        if start == stop:
            raise empty_bag(here, ids)
        raise ValueError(
            f"offsets must increase, got {start} then {stop} for {bag_name(here, ids)}; give np.r_[0, np.cumsum(sizes)]"
        )
    if offsets[-1] != n_points:
        raise ValueError(
            f"offsets must end at the number of points, {n_points}, got {offsets[-1]}; give np.r_[0, np.cumsum(sizes)]"
        )


def empty_bag(position: int, ids: Any) -> ValueError:
    """Return the error for a bag without points."""
    return ValueError(
        Message(
            f"{bag_name(position, ids)} is empty, and a bag has at least one point; leave it out, or, for learners, "
            "which predict such bags too, pass ", Argument("empty", "allow"),
        )
    )  # fmt: skip


def refuse_empty(bags: FlatBags, owner: str = "") -> None:
    """Raise, naming the first, if some of the bags are empty: all but learners need points in every bag.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> refuse_empty(Bags([[1.0]], [0, 1, 1], empty="allow"), "MeanEmbedding")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    distembed.compute.checks.InputError: MeanEmbedding: bag 1 is empty (1 such bag of 2), and only fit a...
    """
    if bags.has_empty:
        empty = np.flatnonzero(bags.sizes == 0)
        many = f"{empty.size:,} such bag{'s' * (empty.size > 1)} of {bags.n_bags:,}"
        raise InputError(
            f"{owner}{': ' * bool(owner)}{bags.name_of(int(empty[0]))} is empty ({many}), and only fit and predict of "
            "DistributionRegressor and DistributionClassifier take empty bags; leave them out: bags[bags.sizes > 0]"
        )


def check_finite(values: FloatArray, offsets: IntArray, name: str, ids: Any, columns: Any = None) -> None:
    """Raise, naming the first place, if `values` holds NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.flatnonzero(~np.isfinite(values))
    if not bad.size:  # finite values whose sum overflows
        return
    row, column = divmod(int(bad[0]), values.size // len(values))
    where = row_name(row, offsets, ids)
    if values.ndim == 2:
        where += f", column {column}" if columns is None else f", column {columns[column]!r}"
    raise ValueError(
        f"{name} must be finite, got {values.flat[bad[0]]} at {where} ({bad.size} such values in all); "
        "remove those points or fill the values in first"
    )


def check_weights(weights: Any, offsets: IntArray, dtype: np.dtype[Any], ids: Any) -> FloatArray:
    """Return `weights` as a float array: one per point, finite, nonnegative, of positive sum in every bag."""
    with np.errstate(over="ignore"):
        given = as_float(weights, "weights")
        array = np.ascontiguousarray(given.astype(dtype, copy=False))
    if array.shape != (offsets[-1],):
        raise ValueError(
            f"weights must be 1-D, one per point: shape ({offsets[-1]},), got shape {array.shape}; for weights bag by "
            "bag use Bags.from_arrays"
        )
    check_finite(array, offsets, "weights", ids)
    if array.min(initial=0) < 0:
        row = int(array.argmin())
        where = row_name(row, offsets, ids)
        raise ValueError(f"weights must be nonnegative, got {array[row]} at {where}; leave such points out, or shift")
    with np.errstate(over="ignore"):
        sums = sum_by_bag(array, offsets)
    bad = np.flatnonzero(~(np.isfinite(sums) & (sums > 0)) & (np.diff(offsets) > 0))
    if bad.size:
        own = given[offsets[bad[0]] : offsets[bad[0] + 1]]
        vanished = f" as {dtype}, the type of the points, from weights up to {own.max()}" if own.any() else ""
        raise ValueError(
            f"weights must have a positive, finite sum in every bag, got {sums[bad[0]]} in "
            f"{bag_name(int(bad[0]), ids)}{vanished} ({bad.size} such bags in all); leave them out or rescale"
        )
    return array


def check_columns(columns: Any, n_dims: int) -> tuple[str, ...]:
    """Return `columns` as a tuple of unique names, one per coordinate."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a sequence of names, one per coordinate, got {columns!r}; pass a list")
    names = tuple(columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns must be text, got {few(names)}; use str(name)")
    if len(names) != n_dims or len(set(names)) != n_dims:
        raise ValueError(f"columns must be {n_dims} unique names, one per coordinate, got {few(names)}; rename them")
    return tuple(str(name) for name in names)


def check_nan(owner: str, nan: Any) -> Rule:
    """Return what is to become of missing values: a choice, or fills by column.

    Examples
    --------
    >>> check_nan("Bags.from_frame", {"age": 47})
    {'age': 47.0}
    >>> check_nan("Bags.from_frame", "mean")
    Traceback (most recent call last):
    ...
    ValueError: Bags.from_frame(nan=...): must be one of 'error', 'drop', 'indicator', got 'mean'; choose one of these
    """
    if isinstance(nan, Mapping):
        return {str(name): check_number(owner, f"nan[{name!r}]", fill) for name, fill in nan.items()}
    return check_choice(owner, "nan", nan, NAN_CHOICES)


def validate(points: Any, offsets: Any, weights: Any, ids: Any, columns: Any, empty: str = "error") -> Parts:
    """Return the parts of a `Bags` from outside data, or raise the error that names what is wrong."""
    check_choice("Bags", "empty", empty, EMPTY_CHOICES)
    points = check_points(points)
    offsets = check_offsets(offsets)
    ids = None if ids is None else check_ids(ids, len(offsets) - 1)
    columns = None if columns is None else check_columns(columns, points.shape[1])
    check_bounds(offsets, len(points), ids, empty)
    check_finite(points, offsets, "points", ids, columns)
    if weights is not None:
        weights = check_weights(weights, offsets, points.dtype, ids)
    return Parts(points, offsets, weights, ids, columns)


def cast(parts: Parts, dtype: np.dtype[Any]) -> Parts:
    """Return the parts with points and weights in another float dtype, if they stay finite in it."""
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype}; choose one of these")
    with np.errstate(over="ignore"):
        points = parts.points.astype(dtype)
    check_finite(points, parts.offsets, f"points as {dtype}", parts.ids, parts.columns)
    weights = parts.weights
    weights = None if weights is None else check_weights(weights, parts.offsets, dtype, parts.ids)
    return parts._replace(points=points, weights=weights)
