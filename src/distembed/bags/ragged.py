"""Parts of bags from sequences with one array or data frame a bag, and from other libraries' ragged arrays.

Every reader returns `Parts`, for `Bags` to validate. pandas, polars, pyarrow and awkward are recognised by
the module of an object's type, and never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .anndata import looks_like_anndata, refuse_anndata
from .categories import check_labels, factorise
from .checks import as_float, empty_bag, libraries, unmask
from .flat import FloatArray, IntArray, Parts, bag_name, few, no_bags, place_of
from .frames import encode, grouped_parts, is_category, own_labels, plain_categories
from .ids import column_keys, names_in_index, wrong_number_of_ids


def stack(
    arrays: Sequence[Any],
    ids: Any = None,
    columns: Any = None,
    given: Mapping[Any, Any] | None = None,
    empty: str = "error",
) -> tuple[FloatArray, IntArray, Sequence[str] | None, dict[Any, Any] | None]:
    """Return points, offsets, names of columns and labels of a sequence of (n_i, n_dims) or (n_i,) arrays, or frames.

    Columns of frames are put in one order by their names: that of `columns` if those are the names, else that of the
    first frame. Arrays have no names and go by position. `given` has labels of columns that are known. With
    ``empty="allow"`` an array without points has no points of any width, unless it is of shape (0, n_dims).
    """
    if ids is not None and len(ids) != len(arrays):
        raise wrong_number_of_ids(len(ids), len(arrays))
    parts: list[FloatArray] = []
    sizes: list[int] = []
    place = 0
    order: list[Any] | None = None
    labels = _labels_of_frames(arrays, given or {})
    for position, values in enumerate(arrays):
        name = bag_name(position, ids)
        if values is None:
            raise TypeError(f"{name} is None; leave it out")
        names = frame_names(values)
        part = as_float(values, name) if names is None or not labels else _encode_frame(values, names, labels, name)
        if part.ndim == 1:
            part = part[:, None]
        if part.ndim != 2:
            raise ValueError(
                f"{name} must be an array of shape (n_points, n_dims), or (n_points,) for 1-D points, "
                f"got shape {part.shape}; reshape it to two axes"
            )
        if names is not None:
            if order is None:
                first = position
                order = list(columns) if _same_names(columns, names) else names
            part = _in_order(part, names, order, name, bag_name(first, ids))
        if not len(part) and empty != "allow":
            raise empty_bag(position, ids)
        sizes.append(len(part))
        if not len(part) and names is None and np.ndim(values) < 2:
            continue
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"every bag must have the same number of coordinates, got {part.shape[1]} in {name} and "
                f"{parts[0].shape[1]} in {bag_name(place, ids)}; give all bags the same columns"
            )
        place = place if parts else position
        parts.append(part)
    if not sizes:
        raise no_bags("the sequence of arrays is empty")
    if not parts:
        raise ValueError("all bags are empty, and none says how many coordinates points have; give np.empty((0, n))")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if columns is None and order is not None and all(isinstance(name, str) for name in order):
        columns = order
    categories = dict(given or {})
    categories |= {(order or []).index(name): each for name, each in labels.items() if name not in categories}
    filled = [part for part in parts if len(part)] or parts[:1]  # the type of an array without points says nothing
    return filled[0] if len(filled) == 1 else np.concatenate(filled), offsets, columns, categories or None


def _labels_of_frames(arrays: Sequence[Any], given: Mapping[Any, Any]) -> dict[Any, tuple[Any, ...]]:
    """Return the labels of the columns of frames whose type says that they hold categories, those of all frames."""
    found: dict[Any, dict[tuple[Any, ...], None]] = {}
    for values in arrays:
        for j, name in enumerate(frame_names(values) or ()):
            if is_category(values[name]) and (name in given or j in given):
                found[name] = {check_labels(given.get(name, given.get(j)), f"categories of column {name!r}"): None}
            elif is_category(values[name]):
                column = plain_categories(values[name])
                own = own_labels(column)
                keys, missing = column_keys(column)
                own = factorise(np.delete(keys, missing), f"column {name!r}")[1] if own is None else own
                found.setdefault(name, {})[check_labels(own, f"labels of column {name!r}")] = None
    return {name: next(iter(each)) if len(each) == 1 else _union(each) for name, each in found.items()}


def _union(labels: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return all labels, sorted where they are of one kind."""
    every = dict.fromkeys(label for each in labels for label in each)
    return tuple(sorted(every) if len({isinstance(label, str) for label in every}) == 1 else every)


def _encode_frame(frame: Any, names: list[Any], labels: Mapping[Any, tuple[Any, ...]], name: str) -> FloatArray:
    """Return the points of a frame, codes where a column holds labels."""
    bags = np.full(len(frame), name, dtype=object)
    columns = [
        encode(frame[each], each, labels[each], bags, "error")[0] if each in labels else as_float(frame[each], name)
        for each in names
    ]
    return as_float(np.column_stack(columns), name)


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


def ragged_parts(obj: Any) -> Parts:
    """Return the parts of bags held by one object of another library or by an array."""
    modules = libraries(obj)
    kind = type(obj).__name__
    if modules & {"pandas", "polars", "pyarrow"} and hasattr(type(obj), "columns"):
        raise TypeError(f"bags can't be read from a {kind} alone: use Bags.from_frame(df, bag=<column of bag ids>)")
    if kind in ("DataFrameGroupBy", "SeriesGroupBy", "GroupBy") and modules & {"pandas", "polars"}:
        return grouped_parts(obj)
    if "awkward" in modules:
        return _from_awkward(obj)
    if "pyarrow" in modules:
        return _from_arrow(obj)
    if "polars" in modules:
        return _from_arrow(obj.to_arrow())
    if "pandas" in modules:
        return _stacked(obj.tolist(), names_in_index(obj))
    if isinstance(obj, Mapping):
        raise TypeError("bags can't be read from a mapping: use Bags.from_arrays(list(d.values()), ids=list(d))")
    if looks_like_anndata(obj):
        raise refuse_anndata(obj)
    if hasattr(obj, "toarray"):
        raise TypeError(f"bags can't be read from a sparse {kind}: use .toarray(), one dense array a bag")
    if hasattr(obj, "__array__"):
        return _from_ndarray(np.asanyarray(obj))  # not asarray, which would drop a mask
    if isinstance(obj, Sequence) and not isinstance(obj, str | bytes):
        return _stacked(obj)
    remedy = "; put it in a list: list(...)" if isinstance(obj, Iterable) and not np.isscalar(obj) else ""
    raise TypeError(
        "bags must be Bags, a list of (n_points, n_dims) arrays, a 3-D array, or an awkward or pyarrow list "
        f"array, got {kind}{remedy}"
    )


def _stacked(arrays: Sequence[Any], ids: Any = None) -> Parts:
    points, offsets, columns, categories = stack(arrays, ids)
    names = None if columns is None else tuple(columns)
    labels = None if categories is None else tuple(categories.items())
    return Parts(points, offsets, ids=ids, columns=names, categories=labels)


def _from_ndarray(array: NDArray[Any]) -> Parts:
    if array.ndim == 1 and array.dtype == object:
        return _stacked(array.tolist())
    if array.ndim == 2:
        raise ValueError(
            f"a 2-D array is ambiguous as bags, got shape {array.shape}: write X[:, :, None] if each row is "
            "a bag of 1-D points, [X] if all of it is one bag"
        )
    if array.ndim == 1:
        raise ValueError(f"a 1-D array is not bags, got shape {array.shape}: write [x] for one bag of 1-D points")
    if array.ndim != 3:
        raise ValueError(f"bags must be a 3-D array (n_bags, n_points, n_dims), got shape {array.shape}")
    n_bags, size, n_dims = array.shape
    if not n_bags:
        raise no_bags(f"the array has shape {array.shape}")
    return Parts(array.reshape(n_bags * size, n_dims), np.arange(n_bags + 1) * size)


def _check_widths(widths: IntArray, offsets: IntArray, first_bag: int = 0) -> None:
    """Raise unless all points have the same number of coordinates."""
    bad = np.flatnonzero(widths != widths[:1])
    if bad.size:
        bag, row = place_of(int(bad[0]), offsets)
        raise ValueError(
            f"every point must have the same number of coordinates, got {widths[bad[0]]} at bag {bag + first_bag}, row "
            f"{row} and {widths[0]} at the first point"
        )


def _from_awkward(array: Any) -> Parts:
    ak = sys.modules["awkward"]
    if array.fields and array.ndim == 1:  # a record of lists is a list of records
        array = ak.zip({field: array[field] for field in array.fields})
    if array.ndim < 2:
        raise ValueError(f"an awkward array of bags must be n * var * d or n * var, got {array.type}")
    missing = np.flatnonzero(ak.to_numpy(ak.is_none(array)))
    if missing.size:
        raise ValueError(f"bag {missing[0]} is missing (None), {missing.size} in all; leave such bags out")
    if not len(array):
        raise no_bags("the awkward array is empty")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ak.to_numpy(ak.num(array, axis=1)), dtype=np.int64)])
    flat = ak.flatten(array, axis=1)
    if flat.fields:
        columns = [unmask(ak.to_numpy(flat[field])) for field in flat.fields]
        return Parts(np.column_stack(columns), offsets, columns=tuple(flat.fields))
    if flat.ndim == 2:
        _check_widths(ak.to_numpy(ak.fill_none(ak.num(flat, axis=1), -1)), offsets)
    points = unmask(ak.to_numpy(flat))
    return Parts(points[:, None] if points.ndim == 1 else points, offsets)


def _from_arrow(array: Any) -> Parts:
    pa = sys.modules["pyarrow"]
    missing = np.flatnonzero(np.asarray(array.is_null()))
    if missing.size:
        raise ValueError(f"bag {missing[0]} is null ({missing.size} in all); leave such bags out")
    if not len(array):
        raise no_bags("the pyarrow array is empty")
    chunks = [chunk for chunk in getattr(array, "chunks", [array]) if len(chunk)]
    parts = []
    start = 0
    for chunk in chunks:
        parts.append(_from_arrow_chunk(pa, getattr(chunk, "storage", chunk), start))
        start += len(chunk)
    if len(parts) == 1:
        return parts[0]
    points = np.concatenate([part.points for part in parts])
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    return Parts(points, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]), columns=parts[0].columns)


def arrow_lists(pa: Any, array: Any) -> tuple[Any, IntArray] | None:
    """Return what an arrow list array is made of, or None for an array of another type.

    Parameters
    ----------
    pa : module
        pyarrow.
    array : pyarrow.Array
        Perhaps a slice of a longer one.

    Returns
    -------
    values : pyarrow.Array
        The values of all lists, one after the other.
    offsets : ndarray of shape (n_lists + 1,)
        Where each list begins in them, from 0.
    """
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten(), np.arange(len(array) + 1) * array.type.list_size
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        # A slice keeps all values of its parent: its offsets start where it does.
        offsets = array.offsets.to_numpy().astype(np.int64)
        return array.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]
    return None


def _from_arrow_chunk(pa: Any, array: Any, first_bag: int) -> Parts:
    lists = arrow_lists(pa, array)
    if lists is None:
        raise TypeError(f"a pyarrow array of bags must be a list type, one list a bag, got {array.type}")
    values, offsets = lists
    if pa.types.is_nested(values.type) and values.null_count:
        bag, row = place_of(int(np.flatnonzero(values.is_null())[0]), offsets)
        raise ValueError(f"points must not be null, got null at bag {bag + first_bag}, row {row}; leave it out")
    if pa.types.is_struct(values.type):
        columns = [_arrow_numbers(pa, column) for column in values.flatten()]
        return Parts(np.column_stack(columns), offsets, columns=tuple(field.name for field in values.type))
    coordinates = arrow_lists(pa, values)
    if coordinates is None:
        return Parts(_arrow_numbers(pa, values)[:, None], offsets)
    numbers, bounds = coordinates
    _check_widths(np.diff(bounds), offsets, first_bag)
    width = bounds[1] if len(bounds) > 1 else 1
    return Parts(_arrow_numbers(pa, numbers).reshape(len(values), width), offsets)


def _arrow_numbers(pa: Any, array: Any) -> NDArray[Any]:
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"coordinates must be real numbers (float, integer or boolean), got {kind}")
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype == object else values  # booleans with nulls
