"""Bags from and to long tables, one row a point: pandas, polars, pyarrow, or a mapping of names to arrays.

The libraries are recognised by the module of an object's type, and imported only to build a table that was asked for.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Message
from .categories import check_labels, decode, factorise, recode
from .checks import Rule, as_float, canonical_ids, check_nan, is_missing, libraries, unmask
from .coordinates import (
    NAMELESS,
    NUMBERS_AS_TEXT,
    Watch,
    are_mostly_numbers,
    choose,
    first_stray,
    is_nameless,
    left_out_text,
    stray_text,
)
from .flat import FloatArray, IntArray, Parts, few, gather_rows, no_bags
from .missing import LABEL, remedies, settle

_PIECE = 65_536  # rows of a column that are looked at together


def frame_parts(frame: Any, bag: Any, columns: Any, weights: Any, categorical: Any = None, nan: Any = "error") -> Parts:
    """Return the parts of the bags in a long table."""
    rule = check_nan("Bags.from_frame", nan)
    if weights is not None and weights == bag:
        raise ValueError(
            f"weights: must be another column than bag, got {weights!r} for both; name the column of weights"
        )
    names = column_names(frame, "df")
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
    given = _given_labels(categorical, chosen)
    keys = bag_keys(frame[bag], bag)
    rows, offsets, ids = group(keys)
    if columns is None and len(chosen) > 1:
        chosen = _coordinates(frame, chosen, given, keys, rows, offsets)
    points, categories = None, {}
    if rows is None and not given:
        points = _frame_block(frame, names, chosen)
    if points is None:
        values: list[NDArray[Any]] = []
        for j, name in enumerate(chosen):
            if name in given:
                codes, categories[j] = _codes(frame[name], name, given[name], keys, rule)
                values.append(codes)
            else:
                values.append(_numbers(frame[name], name, offsets[-1]))
        if len(values) == 1 and rows is None:
            points = values[0][:, None]
        else:
            floats = [column for column in values if column.dtype.kind == "f"]  # codes are whole numbers in any float
            points = np.empty((offsets[-1], len(values)), np.result_type(*floats) if floats else np.float64)
            for j, column in enumerate(values):
                points[:, j] = column if rows is None else column[rows]
    if weights is not None:
        weights = _numbers(frame[weights], weights, offsets[-1])
        weights = weights if rows is None else weights[rows]
    columns = tuple(str(name) for name in chosen)
    return settle(Parts(points, offsets, weights, ids, columns, tuple(categories.items()) or None), rule)


def _coordinates(
    frame: Any, names: list[Any], given: Mapping[Any, Any], keys: NDArray[Any], rows: IntArray | None, offsets: IntArray
) -> list[Any]:
    """Return the columns that are coordinates, with a warning that says which others are not and why.

    A column of text of which most values are numbers is an error that shows the first that is not.
    """
    codes = np.empty(len(keys), np.int64)
    codes[slice(None) if rows is None else rows] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    numbers, reasons, bags = [], {}, range(len(offsets) - 1)
    for place, name in enumerate(names):
        if name in given:
            numbers.append(name)
            continue
        values = _values(frame[name])
        kind = _kind_of(values)
        if kind == "text":
            words = [None if is_missing(value) else str(value) for value in values.tolist()]
            reasons[name] = "holds text (name it in categorical if its values are labels)"
            if are_mostly_numbers(words):
                reasons[name] = NUMBERS_AS_TEXT
                if (row := first_stray(words)) is not None:
                    where = f"column {name!r}, row {row} (bag {few([keys[row]])}): "
                    raise ValueError(Message(where, stray_text(str(words[row]))))
            continue
        if kind == "date":
            reasons[name] = "holds dates or times"
            continue
        numbers.append(name)
        if is_nameless(name, place == 0, values.dtype.kind in "iu"):
            reasons[name] = NAMELESS
        elif kind == "number" and values.shape == keys.shape:
            verdict = _verdict(values, codes, bags)
            reasons |= {} if verdict is None else {name: verdict}
    chosen, left_out = choose(numbers or names, reasons)
    if left_out:
        warnings.warn(left_out_text(chosen, left_out), UserWarning, stacklevel=4)
    return chosen


def _verdict(values: NDArray[Any], codes: IntArray, bags: Sequence[int]) -> str | None:
    """Return why a column of numbers is no coordinate, if it is none; a first piece acquits most."""
    watch = Watch()
    for start in range(0, len(values), _PIECE):
        watch.add(values[start : start + _PIECE], codes[start : start + _PIECE], bags)
        if not watch.is_open:
            return None
    return watch.verdict()


def _kind_of(values: NDArray[Any]) -> str:
    """Return what a column holds: numbers, text, dates, or something else, which has an error of its own."""
    if values.dtype.kind != "O":
        return {"U": "text", "T": "text", "M": "date", "m": "date"}.get(values.dtype.kind, "number")
    known = [value for value in values.flat if not is_missing(value)]
    for kind, types in (("text", str), ("date", (date, time, timedelta))):
        if known and all(isinstance(value, types) for value in known):
            return kind
    mixed = any(isinstance(value, str) for value in known) and all(isinstance(value, str | Real) for value in known)
    return "text" if mixed else "other"


def _given_labels(categorical: Any, chosen: list[Any]) -> dict[Any, Any]:
    """Return, for each categorical column, its labels, or None where the column says them."""
    if categorical is None:
        return {}
    labels: dict[Any, Any]
    if isinstance(categorical, Mapping):
        labels = {name: check_labels(v, f"categorical[{name!r}]") for name, v in categorical.items()}
    elif isinstance(categorical, str):
        labels = {categorical: None}
    elif isinstance(categorical, Iterable) and getattr(categorical, "ndim", 1) != 0:
        labels = dict.fromkeys(categorical)
    else:
        raise TypeError(
            "categorical must be a sequence of names of columns, or a mapping of names to labels, got "
            f"{categorical!r}; write categorical=['sex']"
        )
    absent = [name for name in labels if name not in chosen]
    if absent:
        raise ValueError(
            f"categorical names {few(absent)}, which is not among the columns {few(chosen)}; add it to columns, or "
            "leave it out of categorical"
        )
    return labels


def _codes(column: Any, name: Any, labels: Any, bags: NDArray[Any], rule: Rule) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Return a column of labels as codes, and the labels: those given, or the column's own, or its sorted values.

    A missing label is an error, or NaN, so that its point is left out, or the last of the labels.
    """
    where = f"column {name!r}"
    keys, missing = column_keys(column)
    if missing.size and rule == "error":
        said = (
            f"categorical {where} must have a label in every row, got {missing.size} missing (NaN, None or null), the "
            f"first in row {missing[0]} (bag {few([bags[missing[0]]])}); drop those rows, fill in a label such as "
            f"{LABEL!r}, or "
        )
        raise ValueError(Message(said, remedies()))
    if keys.shape != bags.shape:
        raise ValueError(f"{where} must have one value a row, shape {bags.shape}, got {keys.shape}")
    given = _own_labels(column) if labels is None else labels
    there = np.ones(len(keys), bool)
    there[missing] = False
    found, distinct = factorise(keys[there], where)
    given = check_labels(distinct if given is None else given, f"labels of {where}")
    if missing.size and labels is None and rule != "drop" and LABEL not in given:
        given = (*given, LABEL)
    codes = np.full(len(keys), np.nan if rule == "drop" else given.index(LABEL) if LABEL in given else -1)
    codes[there] = recode(found, distinct, given)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        row = int(unknown[0])
        raise ValueError(
            f"{where} must hold only the labels {few(given)}, got {few([keys[row]])} in row {row} (bag "
            f"{few([bags[row]])}), {unknown.size} such rows in all; drop those rows, or add the label to "
            f"categorical={{{name!r}: [...]}} of all bags"
        )
    return codes if missing.size else codes.astype(np.int64), given


def _own_labels(column: Any) -> list[Any] | None:
    """Return the labels that the type of a column fixes, in its order: pandas, polars' Enum, ordered pyarrow."""
    dtype: Any = getattr(column, "dtype", getattr(column, "type", None))
    if type(dtype).__name__ in ("CategoricalDtype", "Enum"):
        return list(dtype.categories)
    if type(dtype).__name__ == "DictionaryType" and dtype.ordered:
        whole = column.unify_dictionaries().combine_chunks()
        return list(getattr(whole, "chunks", [whole])[0].dictionary.to_pylist())
    return None


def column_names(frame: Any, argument: str) -> list[Any]:
    """Return the names of the columns of a table that was given as some argument; ``frame[name]`` is then a column.

    Examples
    --------
    >>> column_names({"age": [50, 60], "sex": ["f", "m"]}, "covariates")
    ['age', 'sex']
    """
    if type(frame).__name__ == "LazyFrame":
        raise TypeError(f"{argument} must be in memory, got a LazyFrame; use .collect()")
    if isinstance(frame, Mapping):
        return list(frame)
    names = getattr(frame, "column_names", None)
    names = getattr(frame, "columns", None) if names is None else names
    if names is None or isinstance(frame, np.ndarray):
        raise TypeError(
            f"{argument} must be a pandas or polars DataFrame, a pyarrow Table or a mapping of names to arrays, got "
            f"{type(frame).__name__}"
        )
    return list(names)


def column_keys(column: Any) -> tuple[NDArray[Any], IntArray]:
    """Return the values of a column of ids or labels, and the rows in which they are missing."""
    if type(getattr(column, "type", None)).__name__ == "DictionaryType":  # whose to_numpy gives nulls a label
        column = column.cast(column.type.value_type)
    if hasattr(column, "isna"):  # pandas: comparisons with its NA are not boolean, so look before comparing
        missing = np.flatnonzero(np.asarray(column.isna()))
        if missing.size:
            return np.asarray(column), missing
    keys = np.asarray(column.to_numpy()) if hasattr(column, "to_numpy") else canonical_ids(column)
    empty = keys != keys if keys.dtype.kind != "O" else np.fromiter(map(is_missing, keys), bool, len(keys))
    return keys, np.flatnonzero(empty)


def plain_ids(ids: NDArray[Any]) -> list[Any]:
    """Return ids as Python objects; dates in one unit, because they hash by unit."""
    return list((ids.astype("M8[ns]") if ids.dtype.kind == "M" else ids).tolist())


def bag_keys(column: Any, name: Any) -> NDArray[Any]:
    """Return the values of the column of bag ids, none missing."""
    keys, missing = column_keys(column)
    if not len(keys):
        raise no_bags("the table has no rows")
    if missing.size:
        raise ValueError(
            f"every row must say its bag, got {missing.size} missing (NaN, None or null) in column {name!r}, the first "
            f"in row {missing[0]}; drop those rows"
        )
    return keys


def group(keys: NDArray[Any]) -> tuple[IntArray | None, IntArray, NDArray[Any]]:
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
    if "pandas" not in libraries(frame) or width < 2 or names[start : start + width] != chosen:
        return None
    dtypes = set(frame.dtypes.iloc[start : start + width])
    if len(dtypes) > 1 or not dtypes <= {np.dtype(np.float32), np.dtype(np.float64)}:
        return None
    block: FloatArray = frame.iloc[:, start : start + width].to_numpy()
    return block if block.flags.c_contiguous else None


def _numbers(column: Any, name: Any, n_points: int) -> FloatArray:
    """Return a column of a table as a 1-D float array, nulls as NaN."""
    dtype: Any = getattr(column, "dtype", getattr(column, "type", None))
    values = _values(column)
    if values.dtype == object and all(isinstance(value, Real) or _is_null(value) for value in values.flat):
        values = np.array([np.nan if _is_null(value) else float(value) for value in values.flat]).reshape(values.shape)
    if values.dtype.kind not in "fiub":
        raise TypeError(
            f"column {name!r} must be real numbers (float, integer or boolean), got dtype "
            f"{dtype or values.dtype}; convert it, drop its nulls, leave it out of columns, or, if it holds labels, "
            f"pass categorical=[{name!r}]"
        )
    if values.shape != (n_points,):
        raise ValueError(f"column {name!r} must have one value a row, shape ({n_points},), got {values.shape}")
    return as_float(values, f"column {name!r}")


def _values(column: Any) -> NDArray[Any]:
    """Return a column of a table as an array."""
    dtype: Any = getattr(column, "dtype", getattr(column, "type", None))
    if "pandas" in libraries(column) and not isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        single = dtype.kind == "f" and dtype.itemsize <= 4
        found: NDArray[Any] = column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return found
    return unmask(column.to_numpy() if hasattr(column, "to_numpy") else np.asanyarray(column))


def _is_null(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"


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
    labels = dict(parts.categories or ())
    for j, name in enumerate(columns):
        values = parts.points[:, j]
        data[name] = decode(values, labels[j]) if j in labels else np.ascontiguousarray(values)
    if parts.weights is not None:
        data[weights] = parts.weights
    return module.table(data) if library == "pyarrow" else module.DataFrame(data)
