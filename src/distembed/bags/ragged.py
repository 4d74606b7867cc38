"""Bags from lists of arrays, other libraries' ragged arrays, and other bags; :mod:`.frames` has tables.

Every reader returns `Parts`, for `Bags` to validate. pandas, polars, pyarrow and awkward are recognised by
the module of an object's type, and never imported except to build a table that was asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .categories import common
from .checks import libraries, refuse_repeated, unmask
from .container import Bags, stack
from .flat import IntArray, Parts, no_bags, place_of
from .frames import grouped_parts


def as_bags(obj: Any) -> Bags:
    """Return `obj` as `Bags`, without copying points where their layout allows it.

    Parameters
    ----------
    obj : Bags, sequence of arrays, 3-D array, awkward Array, pyarrow list array, Series of lists, or grouped frame
        - a list, tuple or object array of one (n_i, n_dims) or (n_i,) array or data frame per bag, which are copied;
        - ``frame.groupby(...)`` of pandas, or ``group_by`` of polars: one bag per group, in the order of the groups, of
          the other columns, or of those that were chosen, ``frame.groupby("id")[["x", "y"]]``; ids as in
          :meth:`Bags.from_frame`, which has more to say about weights, labels and missing values;
        - a 3-D array of shape (n_bags, n, n_dims) holds bags of equal size;
        - awkward ``n * var * d``, ``n * var`` and ``n * var * {x: ..., y: ...}``;
        - pyarrow lists (also large, fixed-size, chunked) of numbers, of lists of numbers, or of structs.

    Returns
    -------
    Bags
        `Bags` as they are. Names of record fields and of frames' columns become `columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.bags import as_bags
    >>> as_bags(np.zeros((10, 50, 3)))
    Bags(n_bags=10, n_points=500, n_dims=3, sizes=50, dtype=float64)

    >>> import pandas as pd
    >>> flights = pd.DataFrame({"day": [2, 1, 2], "origin": ["JFK", "LGA", "JFK"], "delay": [5.0, -1.0, 30.0]})
    >>> as_bags(flights.groupby(["day", "origin"])).ids.tolist()
    ['1/LGA', '2/JFK']
    """
    if isinstance(obj, Bags):
        return obj
    if isinstance(obj, list | tuple):
        return Bags.from_arrays(obj)
    return Bags(*ragged_parts(obj))


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
        return _stacked(obj.tolist())
    if isinstance(obj, Mapping):
        raise TypeError("bags can't be read from a mapping: use Bags.from_arrays(list(d.values()), ids=list(d))")
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


def _stacked(arrays: Sequence[Any]) -> Parts:
    points, offsets, columns = stack(arrays)
    return Parts(points, offsets, columns=None if columns is None else tuple(columns))


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


def concat(collections: Iterable[Bags]) -> Bags:
    """Return the bags of several `Bags`, one after another.

    Parameters
    ----------
    collections : iterable of Bags
        Of equal width and `categories`, and of equal `columns` where they have them. Either all have ids, which must
        not repeat, or none has. Where only some have weights, the points of the others weigh one.

    Returns
    -------
    Bags
        float32 only if all are.

    Examples
    --------
    >>> from distembed.bags import Bags, concat
    >>> concat([Bags.from_arrays([[1.0]]), Bags.from_arrays([[2.0, 3.0]])]).sizes
    array([1, 2])
    """
    if isinstance(collections, Bags):
        raise TypeError("concat takes a list of Bags, got one Bags; write concat([a, b])")
    parts = list(collections)
    for i, part in enumerate(parts):
        if not isinstance(part, Bags):
            raise TypeError(f"concat takes Bags, got {type(part).__name__} at position {i}; use as_bags")
    joined = join([part.parts for part in parts])
    categories = common([part.parts for part in parts], joined.columns)
    return parts[0].replace(**joined._replace(categories=categories)._asdict())


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
                f"n_dims={widths[0]} at position 0; give all of them the same columns, e.g. by "
                "Bags.from_frame(..., columns=[...])"
            )
        if (part.ids is None) != (parts[0].ids is None):
            given, absent = (0, i) if part.ids is None else (i, 0)
            raise ValueError(
                f"concat needs ids in all collections or in none, got ids at position {given} and none at "
                f"position {absent}; give those bags ids with Bags(b.points, b.offsets, b.weights, ids=...)"
            )
        if part.columns not in (None, names[first]):
            raise ValueError(
                f"concat needs equal columns, got {part.columns} at position {i} and {names[first]} at position "
                f"{first}; reorder or rename them before joining"
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
