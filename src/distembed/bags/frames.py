"""Bags from and to long tables, one row per point: pandas, polars, pyarrow, or a mapping of names to arrays.

The libraries are recognised by the module of an object's type, and imported only to build a table that was asked for.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Message, closest_name
from .categories import (
    MAX_LABELS,
    OTHER,
    check_labels,
    decode,
    factorise,
    given_labels,
    plain_label,
    recode,
    with_other,
)
from .checks import Rule, as_float, check_nan, libraries, unmask
from .coordinates import (
    HOLDS_TEXT,
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
from .flat import FloatArray, IntArray, Parts, few
from .ids import bag_keys, column_keys, group, is_missing
from .labels import check_label, column_of_bags
from .missing import LABEL, remedies, settle

_MANY_ROWS = 50  # in which labels must come again
_PLAIN_KINDS = ("string", "integer", "floating", "boolean", "mixed-integer", "mixed-integer-float", "mixed", "empty")
_PIECE = 65_536  # rows of a column that are looked at together


def frame_parts(
    frame: Any,
    bag: Any,
    columns: Any,
    weights: Any,
    categorical: Any = None,
    nan: Any = "error",
    label: Any = None,
    empty: str = "error",
) -> Parts:
    """Return the parts of the bags in a long table; the column of labels is none of the points."""
    rule = check_nan("Bags.from_frame", nan)
    names = column_names(frame, "df")
    of_bag = bag_names(bag, names)
    if weights is not None and weights in of_bag:
        raise ValueError(
            f"weights: must be another column than bag, got {weights!r} for both; name the column of weights"
        )
    if columns is None:
        chosen = [name for name in names if name not in (*of_bag, weights, label)]
    else:
        chosen = [columns] if isinstance(columns, str) else list(columns)
    given = dict(given_labels(categorical))
    wanted = {"bag": of_bag, "columns": chosen, "weights": [] if weights is None else [weights], "categorical": given}
    wanted |= {} if label is None else {"label": [label]}
    for argument, asked in wanted.items():
        for name in asked:
            _check_column(argument, name, names)
    if not chosen:
        raise ValueError(f"columns must name at least one coordinate, got none; the table has {few(names)}")
    if label is not None:
        check_label(label, {"bag": of_bag, "columns": chosen, "weights": [weights], "categorical": given})
    if len(set(of_bag)) < max(1, len(of_bag)):
        raise ValueError(f"bag must name a column, or several that differ, got {bag!r}; name each once")
    both = [name for name in of_bag if name in chosen]
    absent = [name for name in given if name not in chosen]
    if both:
        raise ValueError(f"columns must not contain {few(both)}, the column of bag ids")
    if absent:
        raise ValueError(
            f"categorical names {few(absent)}, which is not among the columns {few(chosen)}; add it to columns, or "
            "leave it out of categorical"
        )
    keys = bag_keys(frame.__getitem__, of_bag)
    rows, offsets, ids = group(keys)
    if columns is None and len(chosen) > 1:
        chosen = _coordinates(frame, chosen, given, keys, rows, offsets)
    given |= {name: None for name in chosen if name not in given and is_category(frame[name])}
    points = None
    categories = {}
    if rows is None and not given:
        points = _frame_block(frame, names, chosen)
    if points is None:
        values: list[NDArray[Any]] = []
        for j, name in enumerate(chosen):
            if name in given:
                codes, categories[j] = encode(frame[name], name, given[name], keys, rule)
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
    return settle(Parts(points, offsets, weights, ids, columns, tuple(categories.items()) or None), rule, empty)


def bag_names(bag: Any, names: list[Any]) -> list[Any]:
    """Return the columns of bag ids, one or several."""
    return list(bag) if isinstance(bag, list) or (isinstance(bag, tuple) and bag not in names) else [bag]


def frame_labels(frame: Any, bag: Any, label: Any) -> NDArray[Any]:
    """Return the values of a column of a long table, one per bag, in the order of the bags of `frame_parts`."""
    keys = bag_keys(frame.__getitem__, bag_names(bag, column_names(frame, "df")))
    return column_of_bags(keys, frame[label], label)


def grouped_parts(groups: Any) -> Parts:
    """Return the parts of the bags in a data frame of pandas or polars that was grouped, in the order of the groups."""
    if not hasattr(groups, "ngroup"):  # polars
        if not all(isinstance(name, str) for name in groups.by) or groups.named_by:
            raise TypeError(
                "bags can't be read from groups by expressions; add their column, and use Bags.from_frame(df, bag=...)"
            )
        return frame_parts(groups.df, list(groups.by), None, None)
    numbers = groups.ngroup()
    sizes = groups.size()
    keys = sizes.index[sizes.to_numpy() > 0]  # categories without any row have no bag
    if numbers.isna().any() or (numbers < 0).any():
        raise ValueError(
            "every row must name its bag, but some keys of the groups are missing; drop those rows before groupby"
        )
    _, codes = np.unique(numbers.to_numpy(), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    levels = [keys.get_level_values(k) for k in range(keys.nlevels)]
    # no column is called as the last
    frame = groups.obj.iloc[order]
    first = next(iter(groups))[1]
    bag = object()
    table: dict[Any, Any] = {bag: bag_keys(levels.__getitem__, list(range(len(levels))))[codes[order]]}
    if not hasattr(first, "columns"):
        return frame_parts({first.name: frame} | table, bag, None, None)
    names = [name for name in first.columns if not _is_key(frame[name], name, keys, codes[order])]
    return frame_parts({name: frame[name] for name in names} | table, bag, None, None)


def _is_key(column: Any, name: Any, keys: Any, codes: IntArray) -> bool:
    """Whether a column is one of the keys by which rows were grouped, not only called as one."""
    return name in keys.names and bool((keys.get_level_values(name)[codes] == column.to_numpy()).all())


def _coordinates(
    frame: Any, names: list[Any], given: Mapping[Any, Any], keys: NDArray[Any], rows: IntArray | None, offsets: IntArray
) -> list[Any]:
    """Return the columns that are coordinates, with a warning that names the others and the reason.

    A column of text with mostly numbers is an error that shows the first that is not.
    """
    codes = np.empty(len(keys), np.int64)
    codes[slice(None) if rows is None else rows] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    numbers = []
    reasons: dict[Any, str] = {}
    bags = range(len(offsets) - 1)
    for place, name in enumerate(names):
        if name in given:
            numbers.append(name)
            continue
        if is_category(frame[name]):
            fault = _fault_of_category(frame[name], rows, offsets)
            numbers += [] if fault else [name]
            reasons |= {name: fault} if fault else {}
            continue
        values = _values(frame[name])
        kind = _kind_of(values)
        if kind == "text":
            words = [None if is_missing(value) else str(value) for value in values.tolist()]
            reasons[name] = HOLDS_TEXT
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


def _fault_of_category(column: Any, rows: IntArray | None, offsets: IntArray) -> str | None:
    """Return why a column of categories is not a coordinate, or None: its labels identify bags or points."""
    keys, missing = column_keys(plain_categories(column))
    there = np.ones(len(keys), bool)
    there[missing] = False
    codes = np.full(len(keys), -1)
    codes[there], distinct = factorise(keys[there], "labels")
    if len(distinct) > MAX_LABELS or (len(keys) >= _MANY_ROWS and 2 * len(distinct) > len(keys)):
        return f"has {len(distinct):,} labels in {len(keys):,} rows"
    codes = codes if rows is None else codes[rows]
    low, high = (reduce(codes, offsets[:-1]) for reduce in (np.minimum.reduceat, np.maximum.reduceat))
    large = np.diff(offsets) > 1
    return "has one label in each bag" if large.any() and (low == high)[large].all() else None


def _verdict(values: NDArray[Any], codes: IntArray, bags: Sequence[int]) -> str | None:
    """Return why a column of numbers is not a coordinate, or None; a first piece acquits most."""
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


def _check_column(argument: str, name: Any, names: list[Any]) -> None:
    """Refuse a column that a table lacks, with the name that is nearest, or has more than once."""
    count = names.count(name)
    if count != 1:
        close = None if count else closest_name(name, names)
        fault = "which the table has more than once" if count else "which the table lacks"
        hint = f"did you mean {close!r}?" if close else f"it has {few(names)}"
        raise ValueError(f"{argument} names column {name!r}, {fault}; {hint}")


def encode(column: Any, name: Any, labels: Any, bags: NDArray[Any], rule: Rule) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Return a column of labels as codes, and the labels: those given, or the column's own, or its sorted values.

    A missing label is an error, or NaN, so its point is left out, or the last of the labels. A label that is not
    among those given is "other".
    """
    where = f"column {name!r}"
    column = plain_categories(column)
    keys, missing = column_keys(column)
    if missing.size and rule == "error":
        said = (
            f"categorical {where} must have a label in every row, got {missing.size} missing (NaN, None or null), the "
            f"first in row {missing[0]} (bag {few([bags[missing[0]]])}); drop those rows, fill in a label such as "
            f"{LABEL!r}, or "
        )
        raise ValueError(Message(said, remedies()))
    if keys.shape != bags.shape:
        raise ValueError(f"{where} must have one value per row, shape {bags.shape}, got {keys.shape}")
    given = own_labels(column) if labels is None else labels
    there = np.ones(len(keys), bool)
    there[missing] = False
    found, distinct = factorise(keys[there], where)
    given = check_labels(distinct if given is None else given, f"labels of {where}")
    gaps = [LABEL] if missing.size and rule != "drop" and LABEL not in given else []
    if labels is not None:
        given = with_other([*(plain_label(value, where) for value in distinct), *gaps], given, where, stacklevel=4)
    else:
        given = (*given, *gaps)
    codes = np.full(len(keys), np.nan if rule == "drop" else given.index(LABEL) if LABEL in given else -1)
    codes[there] = recode(found, distinct, given)
    codes[codes < 0] = given.index(OTHER) if OTHER in given else -1
    return codes if missing.size else codes.astype(np.int64), given


def is_category(column: Any) -> bool:
    """Return whether the type of a column says that it holds categories: of pandas, polars or pyarrow."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    return type(dtype).__name__ in ("CategoricalDtype", "Categorical", "Enum", "DictionaryType")


def plain_categories(column: Any) -> Any:
    """Return a column; categories of pandas such as intervals and dates become their text."""
    dtype: Any = getattr(column, "dtype", None)
    if type(dtype).__name__ != "CategoricalDtype" or dtype.categories.inferred_type in _PLAIN_KINDS:
        return column
    return getattr(column, "cat", column).rename_categories(str)


def own_labels(column: Any) -> list[Any] | None:
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


def _frame_block(frame: Any, names: list[Any], chosen: list[Any]) -> FloatArray | None:
    """Return the C-contiguous block that holds adjacent float columns of a pandas frame, or None."""
    start = names.index(chosen[0])
    width = len(chosen)
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
        raise ValueError(f"column {name!r} must have one value per row, shape ({n_points},), got {values.shape}")
    return as_float(values, f"column {name!r}")


def _values(column: Any) -> NDArray[Any]:
    """Return a column of a table as an array."""
    dtype: Any = getattr(column, "dtype", getattr(column, "type", None))
    if type(dtype).__name__ == "SparseDtype":  # of pandas
        return np.asarray(column.sparse.to_dense())
    if "pandas" in libraries(column) and not isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        single = dtype.kind == "f" and dtype.itemsize <= 4
        found: NDArray[Any] = column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return found
    return unmask(column.to_numpy() if hasattr(column, "to_numpy") else np.asanyarray(column))


def _is_null(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"


def build_frame(library: str, bag: str, weights: str, parts: Parts) -> Any:
    """Return the long table of `parts`, whose ids and columns are given, as a table of `library`."""
    ids = np.asarray(parts.ids)
    columns = parts.columns or ()
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
