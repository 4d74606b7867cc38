"""Points and weights from sequences with one array or data frame for each bag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .checks import as_float, empty_bag, wrong_number_of_ids
from .flat import FloatArray, IntArray, bag_name, few, no_bags


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
                f"weights of {bag_name(i, ids)} must have shape ({size},), got {part.shape}; give one per point"
            )
    return np.concatenate(parts)
