"""The rules that make arrays valid bags, and the errors that name what breaks them.

`validate` is the only door into a `Bags` for data from outside; every other function is one rule. The cost is
one pass over the points (a sum, which is finite only if every term is) and O(n_bags log n_bags) for the ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


class Parts(NamedTuple):
    """What a `Bags` holds, before or after validation, in the order of its constructor."""

    points: FloatArray
    offsets: IntArray
    weights: FloatArray | None = None
    ids: NDArray[Any] | None = None
    columns: tuple[str, ...] | None = None

    def readonly(self) -> Parts:
        """Return the parts as read-only views, leaving the flags of the caller's own arrays alone."""
        points, offsets, weights, ids = (None if array is None else readonly(array) for array in self[:4])
        return Parts(points, offsets, weights, ids, self.columns)  # type: ignore[arg-type]


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def few(values: Iterable[Any]) -> str:
    """Return up to five values as text, and how many there are if there are more."""
    shown = [value.item() if isinstance(value, np.generic) else value for value in values]
    text = ", ".join(repr(value) for value in shown[:5])
    return text if len(shown) <= 5 else f"{text}, ... ({len(shown)} in all)"


def bag_name(position: int, ids: Any = None) -> str:
    """Return how errors call a bag: its position, and its id where ids were given."""
    return f"bag {position}" if ids is None else f"bag {position} (id {few([ids[position]])})"


def no_bags(why: str) -> ValueError:
    """Return the error for a collection without bags."""
    return ValueError(f"no bags: {why}, and Bags holds at least one bag; check what was selected or read")


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


def gather_rows(starts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the row numbers of the segments [start, start + size), one after another, and their offsets."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets


def as_positions(key: Any, n_bags: int) -> IntArray:
    """Return a slice, boolean mask or array of positions as non-negative positions of bags."""
    if isinstance(key, slice):
        return np.arange(*key.indices(n_bags))
    index = np.asarray(None if isinstance(key, tuple) else key)  # a tuple means axes, and bags have one
    if index.ndim == 1 and index.size == 0:
        return np.zeros(0, np.int64)
    if index.ndim != 1 or index.dtype.kind not in "iub":
        raise TypeError(
            "bags are selected by an integer, a slice, a 1-D boolean mask or a 1-D array of positions, got "
            f"{type(key).__name__} of dtype {index.dtype} and shape {index.shape}; to select by id use "
            "np.flatnonzero(np.isin(bags.ids, wanted))"
        )
    if index.dtype.kind == "b":
        if len(index) != n_bags:
            raise IndexError(f"a boolean mask must have one entry a bag, got {len(index)} for {n_bags} bags")
        return np.flatnonzero(index)
    bad = np.flatnonzero((index < -n_bags) | (index >= n_bags))
    if bad.size:
        raise IndexError(f"bag {index[bad[0]]} (entry {bad[0]} of the selection) is out of bounds for {n_bags} bags")
    index = index.astype(np.int64, copy=False)
    return np.where(index < 0, index + n_bags, index)


def repeated(ids: NDArray[Any]) -> list[Any]:
    """Return the ids that occur more than once."""
    if ids.dtype.kind != "O":
        values, counts = np.unique(ids, return_counts=True)
        return list(values[counts > 1])
    try:
        return [value for value, count in Counter(ids.tolist()).items() if count > 1]
    except TypeError as error:
        raise TypeError(f"ids must be hashable, got {type(ids[0]).__name__}") from error


def refuse_repeated(ids: NDArray[Any], remedy: str) -> None:
    """Raise if an id occurs twice."""
    twice = repeated(ids)
    if twice:
        raise ValueError(f"ids must be unique, got more than once: {few(twice)}; {remedy}")


def is_missing(value: Any) -> bool:
    """Return whether an id is None, NaN, NaT or a data frame's NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def canonical_ids(ids: Any) -> NDArray[Any]:
    """Return ids as a 1-D array: text as 'U', ids of one other kind as NumPy has them, else objects."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a sequence of one id a bag, got {type(ids).__name__}")
    # Not np.asarray of a list: it would turn ["a", 1] into text and tuples into rows.
    array = np.asarray(ids) if hasattr(ids, "__array__") else np.fromiter(ids, dtype=object)
    if array.ndim != 1:
        raise ValueError(f"ids must be 1-D, one id a bag, got shape {array.shape}")
    if array.dtype.kind == "T":  # NumPy's text of variable width, which files can't hold
        array = array.astype(object)
    if array.dtype.kind == "O" and array.size:
        types = {type(value) for value in array}
        if all(issubclass(kind, str) for kind in types):
            return array.astype(str)
        if len(types) == 1 and issubclass(types.pop(), int | float | bytes | np.generic):
            converted = np.array(array.tolist())
            # Integers on both sides of 2^63 have no common type but float64, which would merge neighbours.
            if converted.dtype.kind != "f" or isinstance(array[0], float | np.floating):
                return converted
    return array


def check_ids(ids: Any, n_bags: int) -> NDArray[Any]:
    """Return `ids` as an array of unique ids, one a bag, none missing."""
    array = canonical_ids(ids)
    if len(array) != n_bags:
        raise ValueError(f"ids must hold one id a bag, got {len(array)} ids for {n_bags} bags")
    missing = np.flatnonzero([is_missing(v) for v in array] if array.dtype.kind == "O" else array != array)
    if missing.size:
        raise ValueError(f"ids must not be missing, got {few([array[missing[0]]])} for bag {missing[0]}")
    refuse_repeated(array, "give each bag its own id")
    return array


def check_points(points: Any) -> FloatArray:
    """Return `points` as a C-contiguous float array of shape (n_points, n_dims)."""
    array = as_float(points, "points")
    if array.ndim != 2:
        remedy = "points[:, None] makes 1-D points" if array.ndim == 1 else "for a 3-D array use as_bags"
        raise ValueError(f"points must be 2-D (n_points, n_dims), got shape {array.shape}; {remedy}")
    if array.shape[1] == 0:
        raise ValueError(f"points must have at least one coordinate, got shape {array.shape}")
    return np.ascontiguousarray(array)


def check_offsets(offsets: Any) -> IntArray:
    """Return `offsets` as a 1-D int64 array of at least two entries."""
    array = np.asarray(offsets)
    if array.ndim != 1:
        raise ValueError(f"offsets must be 1-D, of n_bags + 1 entries, got shape {array.shape}")
    if len(array) < 2:
        raise no_bags(f"offsets must have n_bags + 1 entries, got {len(array)}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"offsets must be integers, got dtype {array.dtype}")
    return array.astype(np.int64, copy=False)


def check_bounds(offsets: IntArray, n_points: int, ids: Any) -> None:
    """Raise unless `offsets` runs from 0 to `n_points`, strictly increasing."""
    if offsets[0] != 0:
        raise ValueError(f"offsets must start at 0, got {offsets[0]}; give np.r_[0, np.cumsum(sizes)]")
    bad = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if bad.size:
        here = int(bad[0])
        start, stop = offsets[here], offsets[here + 1]
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
    return ValueError(f"{bag_name(position, ids)} is empty, and a bag has at least one point; leave it out")


def check_finite(values: FloatArray, offsets: IntArray, name: str, ids: Any, columns: Any = None) -> None:
    """Raise, naming the first place, if `values` holds NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.flatnonzero(~np.isfinite(values))
    if not bad.size:  # finite values whose sum overflows
        return
    row, column = divmod(int(bad[0]), values.size // len(values))
    bag = int(np.searchsorted(offsets, row, side="right")) - 1
    where = f"{bag_name(bag, ids)}, row {row - offsets[bag]}"
    if values.ndim == 2:
        where += f", column {column}" if columns is None else f", column {columns[column]!r}"
    raise ValueError(
        f"{name} must be finite, got {values.flat[bad[0]]} at {where} ({bad.size} such values in all); "
        "remove those points or fill the values in first"
    )


def check_weights(weights: Any, offsets: IntArray, dtype: np.dtype[Any], ids: Any) -> FloatArray:
    """Return `weights` as a float array: one a point, finite, nonnegative, of positive sum in every bag."""
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(as_float(weights, "weights").astype(dtype, copy=False))
    if array.shape != (offsets[-1],):
        raise ValueError(f"weights must be 1-D, one a point: shape ({offsets[-1]},), got shape {array.shape}")
    check_finite(array, offsets, "weights", ids)
    if array.min() < 0:
        row = int(array.argmin())
        bag = int(np.searchsorted(offsets, row, side="right")) - 1
        where = f"{bag_name(bag, ids)}, row {row - offsets[bag]}"
        raise ValueError(f"weights must be nonnegative, got {array[row]} at {where}; leave such points out, or shift")
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(array, offsets[:-1])
    bad = np.flatnonzero(~(np.isfinite(sums) & (sums > 0)))
    if bad.size:
        raise ValueError(
            f"weights must have a positive, finite sum in every bag, got {sums[bad[0]]} in "
            f"{bag_name(int(bad[0]), ids)} ({bad.size} such bags in all); leave them out or rescale"
        )
    return array


def check_columns(columns: Any, n_dims: int) -> tuple[str, ...]:
    """Return `columns` as a tuple of unique names, one a coordinate."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a sequence of names, one a coordinate, got {columns!r}")
    names = tuple(columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns must be text, got {few(names)}")
    if len(names) != n_dims or len(set(names)) != n_dims:
        raise ValueError(f"columns must be {n_dims} unique names, one a coordinate, got {few(names)}")
    return tuple(str(name) for name in names)


def validate(points: Any, offsets: Any, weights: Any, ids: Any, columns: Any) -> Parts:
    """Return the parts of a `Bags` from outside data, or raise the error that names what is wrong."""
    points = check_points(points)
    offsets = check_offsets(offsets)
    ids = None if ids is None else check_ids(ids, len(offsets) - 1)
    columns = None if columns is None else check_columns(columns, points.shape[1])
    check_bounds(offsets, len(points), ids)
    check_finite(points, offsets, "points", ids, columns)
    if weights is not None:
        weights = check_weights(weights, offsets, points.dtype, ids)
    return Parts(points, offsets, weights, ids, columns)


def select_slice(parts: Parts, start: int, stop: int) -> Parts:
    """Return the consecutive bags from `start` to `stop`, as views."""
    if stop <= start:
        raise no_bags("the selection is empty")
    points, offsets, weights, ids, columns = parts
    bounds = offsets[start : stop + 1]
    span = slice(bounds[0], bounds[-1])
    weights = None if weights is None else weights[span]
    return Parts(points[span], bounds - bounds[0], weights, None if ids is None else ids[start:stop], columns)


def select(parts: Parts, index: IntArray) -> Parts:
    """Return the bags at positions `index`: views of consecutive bags, else one gather."""
    if not index.size:
        raise no_bags("the selection is empty")
    if (np.diff(index) == 1).all():
        return select_slice(parts, int(index[0]), int(index[-1]) + 1)
    points, offsets, weights, ids, columns = parts
    ids = None if ids is None else ids[index]
    rows, offsets = gather_rows(offsets[index], offsets[index + 1] - offsets[index])
    weights = None if weights is None else weights.take(rows)
    return Parts(points.take(rows, axis=0), offsets, weights, ids, columns)  # half the time of points[rows]


def cast(parts: Parts, dtype: np.dtype[Any]) -> Parts:
    """Return the parts with points and weights in another float dtype, if they stay finite in it."""
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype}")
    with np.errstate(over="ignore"):
        points = parts.points.astype(dtype)
    check_finite(points, parts.offsets, f"points as {dtype}", parts.ids, parts.columns)
    weights = parts.weights
    weights = None if weights is None else check_weights(weights, parts.offsets, dtype, parts.ids)
    return parts._replace(points=points, weights=weights)


def stack(arrays: Sequence[Any], ids: Any = None) -> tuple[FloatArray, IntArray]:
    """Return the points and offsets of a sequence of (n_i, n_dims) or (n_i,) arrays."""
    if ids is not None and len(ids) != len(arrays):
        raise ValueError(f"ids must hold one id a bag, got {len(ids)} ids for {len(arrays)} bags")
    parts: list[FloatArray] = []
    for position, values in enumerate(arrays):
        name = bag_name(position, ids)
        if values is None:
            raise TypeError(f"{name} is None; leave it out")
        part = as_float(values, name)
        if part.ndim == 1:
            part = part[:, None]
        if part.ndim != 2:
            raise ValueError(
                f"{name} must be an array of shape (n_points, n_dims), or (n_points,) for 1-D points, "
                f"got shape {part.shape}"
            )
        if not len(part):
            raise empty_bag(position, ids)
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"every bag must have the same number of coordinates, got {part.shape[1]} in {name} and "
                f"{parts[0].shape[1]} in {bag_name(0, ids)}; give all bags the same columns"
            )
        parts.append(part)
    if not parts:
        raise no_bags("the sequence of arrays is empty")
    sizes = np.fromiter((len(part) for part in parts), np.int64, len(parts))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return parts[0] if len(parts) == 1 else np.concatenate(parts), offsets


def stack_weights(weights: Sequence[Any], sizes: IntArray, ids: Any) -> FloatArray:
    """Return one flat array of weights from a sequence of one array a bag."""
    if len(weights) != len(sizes):
        raise ValueError(f"weights must hold one array a bag, got {len(weights)} for {len(sizes)} bags")
    parts = [as_float(part, f"weights of {bag_name(i, ids)}") for i, part in enumerate(weights)]
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if part.shape != (size,):
            raise ValueError(f"weights of {bag_name(i, ids)} must have shape ({size},), got {part.shape}")
    return np.concatenate(parts)


def join(parts: Sequence[Parts]) -> Parts:
    """Return valid parts one after another, or raise the error that says which of them disagree."""
    if not parts:
        raise no_bags("concat got an empty list")
    widths = [part.points.shape[1] for part in parts]
    names = [part.columns for part in parts]
    first = next((i for i, columns in enumerate(names) if columns is not None), 0)
    for i, part in enumerate(parts):
        if widths[i] != widths[0]:
            raise ValueError(
                f"concat needs bags of equal width, got n_dims={widths[i]} at position {i} and "
                f"n_dims={widths[0]} at position 0"
            )
        if (part.ids is None) != (parts[0].ids is None):
            given, absent = (0, i) if part.ids is None else (i, 0)
            raise ValueError(
                f"concat needs ids in all collections or in none, got ids at position {given} and none at "
                f"position {absent}; give those bags ids with Bags(b.points, b.offsets, b.weights, ids=...)"
            )
        if part.columns not in (None, names[first]):
            raise ValueError(
                f"concat needs equal columns, got {part.columns} at position {i} and {names[first]} at position {first}"
            )
    ids = None
    if parts[0].ids is not None:
        given_ids = [part.ids for part in parts if part.ids is not None]
        same = len({array.dtype.kind for array in given_ids}) == 1
        ids = np.concatenate([array if same else array.astype(object) for array in given_ids])
        refuse_repeated(ids, "rename them before joining")
    points = np.concatenate([part.points for part in parts])
    weights = None
    if any(part.weights is not None for part in parts):
        filled = [np.ones(len(part.points)) if part.weights is None else part.weights for part in parts]
        weights = np.concatenate(filled).astype(points.dtype, copy=False)
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Parts(points, offsets, weights, ids, names[first])


def align_targets(ids: NDArray[Any], targets: Any) -> NDArray[Any]:
    """Return the targets in the order of `ids`."""
    if isinstance(targets, Mapping):
        keys, values = list(targets), np.asarray(list(targets.values()))
    elif hasattr(getattr(targets, "index", None), "to_numpy"):
        index = targets.index.to_numpy()
        refuse_repeated(index, "the index of targets must name each bag once")
        keys, values = _plain(index), np.asarray(targets.to_numpy())
    else:
        raise TypeError(
            "targets must be a mapping of id to target or a pandas object indexed by id, got "
            f"{type(targets).__name__}; from two columns use dict(zip(ids, values))"
        )
    row = {key: position for position, key in enumerate(keys)}
    wanted = _plain(ids)
    missing = [key for key in wanted if key not in row]
    if missing:
        raise ValueError(f"targets must have every id of the bags, missing: {few(missing)}")
    unknown = row.keys() - set(wanted)
    if unknown:
        named = [key for key in row if key in unknown]
        raise ValueError(f"targets must have only ids of the bags, unknown: {few(named)}; leave those out")
    return values[[row[key] for key in wanted]]


def _plain(ids: NDArray[Any]) -> list[Any]:
    """Return ids as Python objects; dates in one unit, because they hash by unit."""
    return list((ids.astype("M8[ns]") if ids.dtype.kind == "M" else ids).tolist())
