"""Bags from and to other libraries' tables and ragged arrays, and on disk.

Every reader returns `Parts`, for `Bags` to validate. pandas, polars, pyarrow and awkward are recognised by
the module of an object's type, and never imported except to build a table that was asked for.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ._bag_checks import (
    FloatArray,
    IntArray,
    Parts,
    as_float,
    canonical_ids,
    few,
    gather_rows,
    is_missing,
    no_bags,
    stack,
    validate,
)

_FORMAT, _VERSION = "distembed.Bags", 1
# What np.load and the zip archive below it raise for bytes that are no archive, or a damaged one.
_UNREADABLE = (
    ValueError,
    TypeError,
    EOFError,
    OSError,
    RuntimeError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
)


def _libraries(obj: Any) -> set[str]:
    """Return the top-level modules that define the type of `obj` and its bases."""
    return {base.__module__.partition(".")[0] for base in type(obj).__mro__}


# ---------------------------------------------------------------------------------------------- ragged arrays
def ragged_parts(obj: Any) -> Parts:
    """Return the parts of bags held by one object of another library or by an array."""
    libraries, kind = _libraries(obj), type(obj).__name__
    if libraries & {"pandas", "polars", "pyarrow"} and hasattr(type(obj), "columns"):
        raise TypeError(f"bags can't be read from a {kind} alone: use Bags.from_frame(df, bag=<column of bag ids>)")
    if "awkward" in libraries:
        return _from_awkward(obj)
    if "pyarrow" in libraries:
        return _from_arrow(obj)
    if "polars" in libraries:
        return _from_arrow(obj.to_arrow())
    if "pandas" in libraries:
        return Parts(*stack(obj.tolist()))
    if isinstance(obj, Mapping):
        raise TypeError("bags can't be read from a mapping: use Bags.from_arrays(list(d.values()), ids=list(d))")
    if hasattr(obj, "toarray"):
        raise TypeError(f"bags can't be read from a sparse {kind}: use .toarray(), one dense array a bag")
    if hasattr(obj, "__array__"):
        return _from_ndarray(np.asanyarray(obj))  # not asarray, which would drop a mask
    if isinstance(obj, Sequence) and not isinstance(obj, str | bytes):
        return Parts(*stack(obj))
    remedy = "; put it in a list: list(...)" if isinstance(obj, Iterable) and not np.isscalar(obj) else ""
    raise TypeError(
        "bags must be Bags, a list of (n_points, n_dims) arrays, a 3-D array, or an awkward or pyarrow list "
        f"array, got {kind}{remedy}"
    )


def _from_ndarray(array: NDArray[Any]) -> Parts:
    if array.ndim == 1 and array.dtype == object:
        return Parts(*stack(array.tolist()))
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
        bag, row = _place(int(bad[0]), offsets, first_bag)
        raise ValueError(
            f"every point must have the same number of coordinates, got {widths[bad[0]]} at bag {bag}, row "
            f"{row} and {widths[0]} at the first point"
        )


def _place(point: int, offsets: IntArray, first_bag: int) -> tuple[int, int]:
    bag = int(np.searchsorted(offsets, point, side="right")) - 1
    return bag + first_bag, point - int(offsets[bag])


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
        columns = [_unmask(ak.to_numpy(flat[field])) for field in flat.fields]
        return Parts(np.column_stack(columns), offsets, columns=tuple(flat.fields))
    if flat.ndim == 2:
        _check_widths(ak.to_numpy(ak.fill_none(ak.num(flat, axis=1), -1)), offsets)
    points = _unmask(ak.to_numpy(flat))
    return Parts(points[:, None] if points.ndim == 1 else points, offsets)


def _unmask(values: Any) -> NDArray[Any]:
    """Return missing values as NaN, which validation then refuses by place."""
    return np.ma.filled(values.astype(np.float64), np.nan) if np.ma.is_masked(values) else np.asarray(values)


def _from_arrow(array: Any) -> Parts:
    pa = sys.modules["pyarrow"]
    missing = np.flatnonzero(np.asarray(array.is_null()))
    if missing.size:
        raise ValueError(f"bag {missing[0]} is null, {missing.size} in all; leave such bags out")
    if not len(array):
        raise no_bags("the pyarrow array is empty")
    chunks = [chunk for chunk in getattr(array, "chunks", [array]) if len(chunk)]
    parts, start = [], 0
    for chunk in chunks:
        parts.append(_from_arrow_chunk(pa, getattr(chunk, "storage", chunk), start))
        start += len(chunk)
    if len(parts) == 1:
        return parts[0]
    points = np.concatenate([part.points for part in parts])
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    return Parts(points, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]), columns=parts[0].columns)


def _unlist(pa: Any, array: Any) -> tuple[Any, IntArray] | None:
    """Return the values of an arrow list array and offsets into them, from 0; None for another type."""
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten(), np.arange(len(array) + 1) * array.type.list_size
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        # A slice keeps all values of its parent: its offsets start where it does.
        offsets = array.offsets.to_numpy().astype(np.int64)
        return array.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]
    return None


def _from_arrow_chunk(pa: Any, array: Any, first_bag: int) -> Parts:
    lists = _unlist(pa, array)
    if lists is None:
        raise TypeError(f"a pyarrow array of bags must be a list type, one list a bag, got {array.type}")
    values, offsets = lists
    if pa.types.is_nested(values.type) and values.null_count:
        bag, row = _place(int(np.flatnonzero(values.is_null())[0]), offsets, first_bag)
        raise ValueError(f"points must not be null, got null at bag {bag}, row {row}; leave it out")
    if pa.types.is_struct(values.type):
        columns = [_arrow_numbers(pa, column) for column in values.flatten()]
        return Parts(np.column_stack(columns), offsets, columns=tuple(field.name for field in values.type))
    coordinates = _unlist(pa, values)
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


# --------------------------------------------------------------------------------------------------- tables
def frame_parts(frame: Any, bag: Any, columns: Any, weights: Any) -> Parts:
    """Return the parts of the bags in a long table."""
    if weights is not None and weights == bag:
        raise ValueError(
            f"weights: must be another column than bag, got {weights!r} for both; name the column of weights"
        )
    names = _column_names(frame)
    if columns is None:
        chosen = [name for name in names if name not in (bag, weights)]
    else:
        chosen = [columns] if isinstance(columns, str) else list(columns)
    wanted = [("bag", bag), *(("columns", name) for name in chosen)]
    for argument, name in wanted if weights is None else [*wanted, ("weights", weights)]:
        if names.count(name) != 1:
            fault = "which the table has more than once" if name in names else "which the table lacks"
            raise ValueError(f"{argument} names column {name!r}, {fault}; it has {few(names)}")
    if not chosen:
        raise ValueError(f"columns must name at least one coordinate, got none; the table has {few(names)}")
    if bag in chosen:
        raise ValueError(f"columns must not contain {bag!r}, the column of bag ids")
    rows, offsets, ids = _group(_bag_keys(frame[bag], bag))
    points = _frame_block(frame, names, chosen) if rows is None else None
    if points is None:
        values = [_numbers(frame[name], name, offsets[-1]) for name in chosen]
        if len(values) == 1 and rows is None:
            points = values[0][:, None]
        else:
            points = np.empty((offsets[-1], len(values)), np.result_type(*values))
            for j, column in enumerate(values):
                points[:, j] = column if rows is None else column[rows]
    if weights is not None:
        weights = _numbers(frame[weights], weights, offsets[-1])
        weights = weights if rows is None else weights[rows]
    return Parts(points, offsets, weights, ids, tuple(str(name) for name in chosen))


def _column_names(frame: Any) -> list[Any]:
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("df must be in memory, got a LazyFrame; use .collect()")
    if isinstance(frame, Mapping):
        return list(frame)
    names = getattr(frame, "column_names", None)
    names = getattr(frame, "columns", None) if names is None else names
    if names is None or isinstance(frame, np.ndarray):
        raise TypeError(
            f"df must be a pandas or polars DataFrame, a pyarrow Table or a mapping of names to arrays, got "
            f"{type(frame).__name__}"
        )
    return list(names)


def _bag_keys(column: Any, name: Any) -> NDArray[Any]:
    if hasattr(column, "isna"):  # pandas: comparisons with its NA are not boolean, so look before comparing
        missing = np.flatnonzero(np.asarray(column.isna()))
        if missing.size:
            _missing_id(name, missing.size, missing[0])
    keys = np.asarray(column.to_numpy()) if hasattr(column, "to_numpy") else canonical_ids(column)
    if not len(keys):
        raise no_bags("the table has no rows")
    empty = keys != keys if keys.dtype.kind != "O" else np.fromiter(map(is_missing, keys), bool, len(keys))
    if empty.any():
        _missing_id(name, int(empty.sum()), int(empty.argmax()))
    return keys


def _missing_id(name: Any, count: int, row: int) -> NoReturn:
    raise ValueError(
        f"every row must say its bag, got {count} missing (NaN, None or null) in column {name!r}, the first "
        f"in row {row}; drop those rows"
    )


def _group(keys: NDArray[Any]) -> tuple[IntArray | None, IntArray, NDArray[Any]]:
    """Return the rows bag after bag (None if they stand so already), the offsets and the ids.

    Runs of equal keys are ordered, not rows: O(n_points + n_runs log n_runs); grouped rows are not moved.
    """
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    lengths = np.diff(starts, append=len(keys))
    run_keys = keys[starts]
    if keys.dtype.kind == "O":
        seen: dict[Any, int] = {}
        try:
            codes = np.fromiter((seen.setdefault(key, len(seen)) for key in run_keys), np.int64, len(starts))
        except TypeError as error:
            raise TypeError(f"bag ids must be hashable, got {type(run_keys[0]).__name__}") from error
    else:
        _, first, inverse = np.unique(run_keys, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        codes = rank[inverse]
    if codes[-1] + 1 == len(codes):
        return None, np.append(starts, len(keys)), run_keys
    runs = np.argsort(codes, kind="stable")
    rows, offsets = gather_rows(starts[runs], lengths[runs])
    heads = np.flatnonzero(np.diff(codes[runs], prepend=-1))
    return rows, np.append(offsets[heads], len(keys)), run_keys[runs[heads]]


def _frame_block(frame: Any, names: list[Any], chosen: list[Any]) -> FloatArray | None:
    """Return the C-contiguous block that holds adjacent float columns of a pandas frame, or None."""
    start, width = names.index(chosen[0]), len(chosen)
    if "pandas" not in _libraries(frame) or width < 2 or names[start : start + width] != chosen:
        return None
    dtypes = set(frame.dtypes.iloc[start : start + width])
    if len(dtypes) > 1 or not dtypes <= {np.dtype(np.float32), np.dtype(np.float64)}:
        return None
    block: FloatArray = frame.iloc[:, start : start + width].to_numpy()
    return block if block.flags.c_contiguous else None


def _numbers(column: Any, name: Any, n_points: int) -> FloatArray:
    """Return a column of a table as a 1-D float array, nulls as NaN."""
    dtype: Any = getattr(column, "dtype", getattr(column, "type", None))
    if "pandas" in _libraries(column) and not isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        single = dtype.kind == "f" and dtype.itemsize <= 4
        values = column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    else:
        values = _unmask(column.to_numpy() if hasattr(column, "to_numpy") else np.asanyarray(column))
    if values.dtype.kind not in "fiub":
        raise TypeError(
            f"column {name!r} must be real numbers (float, integer or boolean), got dtype "
            f"{dtype or values.dtype}; convert it, drop its nulls, or leave it out of columns"
        )
    if values.shape != (n_points,):
        raise ValueError(f"column {name!r} must have one value a row, shape ({n_points},), got {values.shape}")
    return as_float(values, f"column {name!r}")


def build_frame(library: str, bag: str, weights: str, parts: Parts) -> Any:
    """Return the long table of `parts`, whose ids and columns are given, as a table of `library`."""
    ids, columns = np.asarray(parts.ids), parts.columns or ()
    if library not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"library must be 'pandas', 'polars' or 'pyarrow', got {library!r}")
    if len({bag, weights, *columns}) != len(columns) + 2:
        raise ValueError(f"bag={bag!r}, weights={weights!r} and the columns {few(columns)} must all differ")
    try:
        module = importlib.import_module(library)
    except ImportError as error:
        extra = " polars" if library == "polars" else ""
        raise ImportError(
            f"to_frame(library={library!r}) needs {library}: pip install 'distembed[frames]'{extra}"
        ) from error
    ids = np.repeat(ids, np.diff(parts.offsets))
    data = {bag: ids.tolist() if ids.dtype == object else ids}
    data |= {name: np.ascontiguousarray(parts.points[:, j]) for j, name in enumerate(columns)}
    if parts.weights is not None:
        data[weights] = parts.weights
    return module.table(data) if library == "pyarrow" else module.DataFrame(data)


# ----------------------------------------------------------------------------------------------------- files
def write_npz(path: str | os.PathLike[str], parts: Parts, compress: bool) -> None:
    """Write parts to an .npz archive: first beside `path`, then moved there."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"can't save bags to {str(target)!r}: folder {str(target.parent)!r} does not exist")
    if parts.ids is not None and parts.ids.dtype.kind == "O":
        kinds = sorted({type(value).__name__ for value in parts.ids})
        raise TypeError(f"ids must be numbers, text, bytes or dates to be saved, got objects ({', '.join(kinds)})")
    entries: dict[str, Any] = {name: np.asarray(value) for name, value in parts._asdict().items() if value is not None}
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            # `format` lists the entries, so that one lost to a damaged directory is missed.
            head: dict[str, Any] = {"format": np.array([_FORMAT, *entries]), "version": np.array(_VERSION)}
            (np.savez_compressed if compress else np.savez)(file, **head, **entries)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def read_npz(path: str | os.PathLike[str]) -> Parts:
    """Return the validated parts in an archive of `write_npz`, without pickle."""
    with Path(path).open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array, and was not written by Bags.save")
            if not {"format", "version"} <= set(archive.files):
                raise ValueError("it was not written by Bags.save")
            found, *names = np.atleast_1d(archive["format"]).tolist()
            if found != _FORMAT:
                raise ValueError("it was not written by Bags.save")
            version = int(archive["version"])
            if version > _VERSION:
                raise ValueError(
                    f"its format version is {version}, and this distembed reads up to {_VERSION}; upgrade distembed"
                )
            absent = {"points", "offsets", *names} - set(archive.files)
            if absent:
                raise ValueError(f"it lacks {few(sorted(absent))}")
            entries = {key: archive[key] if key in names else None for key in Parts._fields}
            columns = None if entries["columns"] is None else entries["columns"].tolist()
            return validate(**{**entries, "columns": columns})
        except _UNREADABLE as error:
            raise ValueError(f"can't read bags from {os.fspath(path)!r}: {error}") from error
