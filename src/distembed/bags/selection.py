"""Bags from bags: selections, casts and stacks of valid parts, and targets in their order.

Nothing here loops over bags in Python, except to read a list of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import (
    FloatArray,
    IntArray,
    Parts,
    as_float,
    bag_name,
    check_finite,
    check_weights,
    empty_bag,
    few,
    no_bags,
    refuse_repeated,
    wrong_number_of_ids,
)


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
            raise IndexError(
                f"a boolean mask must have one entry a bag, got {len(index)} for {n_bags} bags; make it from these "
                "bags, such as bags.sizes > 10"
            )
        return np.flatnonzero(index)
    bad = np.flatnonzero((index < -n_bags) | (index >= n_bags))
    if bad.size:
        raise out_of_bounds(int(index[bad[0]]), n_bags, f" (entry {bad[0]} of the selection)")
    index = index.astype(np.int64, copy=False)
    return np.where(index < 0, index + n_bags, index)


def out_of_bounds(position: int, n_bags: int, where: str = "") -> IndexError:
    """Return the error for a bag that is not there."""
    return IndexError(
        f"bag {position}{where} is out of bounds for {n_bags} bags; use positions from {-n_bags} to {n_bags - 1}, and "
        "to select by id np.flatnonzero(np.isin(bags.ids, wanted))"
    )


def select_slice(parts: Parts, start: int, stop: int) -> Parts:
    """Return the consecutive bags from `start` to `stop`, as views."""
    if stop <= start:
        raise no_bags("the selection is empty")
    points, offsets, weights, ids, columns, categories = parts
    bounds = offsets[start : stop + 1]
    span = slice(bounds[0], bounds[-1])
    weights = None if weights is None else weights[span]
    ids = None if ids is None else ids[start:stop]
    return Parts(points[span], bounds - bounds[0], weights, ids, columns, categories)


def select(parts: Parts, index: IntArray) -> Parts:
    """Return the bags at positions `index`: views of consecutive bags, else one gather."""
    if not index.size:
        raise no_bags("the selection is empty")
    if (np.diff(index) == 1).all():
        return select_slice(parts, int(index[0]), int(index[-1]) + 1)
    points, offsets, weights, ids, columns, categories = parts
    ids = None if ids is None else ids[index]
    rows, offsets = gather_rows(offsets[index], offsets[index + 1] - offsets[index])
    weights = None if weights is None else weights.take(rows)
    points = points.take(rows, axis=0)  # half the time of points[rows]
    return Parts(points, offsets, weights, ids, columns, categories)


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


def stack(
    arrays: Sequence[Any], ids: Any = None, columns: Any = None
) -> tuple[FloatArray, IntArray, Sequence[str] | None]:
    """Return points, offsets and names of columns of a sequence of (n_i, n_dims) or (n_i,) arrays, or data frames.

    Columns of frames are put in one order by their names: that of `columns` if those are the names, else that of the
    first frame. Arrays have no names and go by position.
    """
    if ids is not None and len(ids) != len(arrays):
        raise wrong_number_of_ids(len(ids), len(arrays))
    parts: list[FloatArray] = []
    order: list[Any] | None = None
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
                f"got shape {part.shape}; reshape it to two axes"
            )
        names = frame_names(values)
        if names is not None:
            if order is None:
                first, order = position, list(columns) if _same_names(columns, names) else names
            part = _in_order(part, names, order, name, bag_name(first, ids))
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
    if columns is None and order is not None and all(isinstance(name, str) for name in order):
        columns = order
    return parts[0] if len(parts) == 1 else np.concatenate(parts), offsets, columns


def frame_names(values: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame, or None for anything else."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    names = getattr(values, "column_names", None)
    names = getattr(values, "columns", None) if names is None else names
    return None if names is None else list(names)


def _same_names(columns: Any, names: list[Any]) -> bool:
    """Return whether both hold the same names, each once, in whatever order."""
    if columns is None or isinstance(columns, str):
        return False
    given = list(columns)
    return len(given) == len(names) == len(set(names)) and set(given) == set(names)


def _in_order(part: FloatArray, names: list[Any], order: list[Any], name: str, first: str) -> FloatArray:
    """Return the columns of a frame in the order of the first frame's."""
    if names == order:
        return part
    if not _same_names(names, order):
        raise ValueError(
            f"every bag must have the same columns, got {few(names)} in {name} and {few(order)} in {first}; give all "
            "bags the same columns"
        )
    return part[:, [names.index(wanted) for wanted in order]]


def stack_weights(weights: Sequence[Any], sizes: IntArray, ids: Any) -> FloatArray:
    """Return one flat array of weights from a sequence of one array a bag."""
    if len(weights) != len(sizes):
        raise ValueError(
            f"weights must hold one array a bag, got {len(weights)} for {len(sizes)} bags; for weights of all points "
            "in one array use Bags(points, offsets, weights)"
        )
    parts = [as_float(part, f"weights of {bag_name(i, ids)}") for i, part in enumerate(weights)]
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if part.shape != (size,):
            raise ValueError(
                f"weights of {bag_name(i, ids)} must have shape ({size},), got {part.shape}; give one a point"
            )
    return np.concatenate(parts)


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
        raise ValueError(
            f"targets must have every id of the bags, missing: {few(missing)}; add them, or leave those bags out: "
            "bags[np.isin(bags.ids, list(targets))], for a Series list(targets.index)"
        )
    unknown = row.keys() - set(wanted)
    if unknown:
        named = [key for key in row if key in unknown]
        raise ValueError(f"targets must have only ids of the bags, unknown: {few(named)}; leave those out")
    return values[[row[key] for key in wanted]]


def _plain(ids: NDArray[Any]) -> list[Any]:
    """Return ids as Python objects; dates in one unit, because they hash by unit."""
    return list((ids.astype("M8[ns]") if ids.dtype.kind == "M" else ids).tolist())
