"""Which bag a row of a table belongs to: by one column, or by several whose values are joined to one id.

Ids of several columns are text, such as ``2013-01-01/JFK``, and :func:`joined_ids` is the one place that makes them. It
looks at one row at a time: tables that come in pieces, and tables of labels, get the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import canonical_ids, is_missing
from .flat import IntArray, gather_rows, no_bags

BETWEEN = "/"  # the values of several columns in one id


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


def bag_keys(column: Callable[[Any], Any], bag: Any) -> NDArray[Any]:
    """Return the bag of each row, none missing.

    Parameters
    ----------
    column : callable
        Returns the column of a name.
    bag : name, or list of names
        The column of bag ids, or several, see :func:`joined_ids`.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> flights = {"day": [1, 1, 2], "origin": ["JFK", "LGA", "JFK"]}
    >>> bag_keys(flights.get, "origin").tolist(), bag_keys(flights.get, ["day", "origin"]).tolist()
    (['JFK', 'LGA', 'JFK'], ['1/JFK', '1/LGA', '2/JFK'])
    """
    names = bag if isinstance(bag, list) else [bag]
    found = [_present_keys(column(name), name) for name in names]
    return found[0] if len(found) == 1 else joined_ids(found)


def _present_keys(column: Any, name: Any) -> NDArray[Any]:
    keys, missing = column_keys(column)
    if not len(keys):
        raise no_bags("the table has no rows")
    if missing.size:
        raise ValueError(
            f"every row must name its bag, got {missing.size} missing (NaN, None or null) in column {name!r}, the "
            f"first in row {missing[0]}; drop those rows"
        )
    return keys


def joined_ids(columns: Sequence[Any]) -> NDArray[Any]:
    r"""Return the ids of rows whose bag is named by several columns: their values as text, with / between them.

    Whole numbers have no decimal point, dates are those of ISO 8601, without the time where that is midnight, and
    truth values are True and False. A / or a \ inside a value has a \ before it, so that two ids are equal only if
    all values are.

    Parameters
    ----------
    columns : sequence of array-likes of shape (n_rows,)
        Values of the columns, in order, none missing.

    Returns
    -------
    ndarray of shape (n_rows,) of str objects
        Each text is made once: O(n_rows n_columns), and the texts of distinct ids.

    Examples
    --------
    >>> days = np.array(["2013-01-01", "2013-01-02T06:30"], "M8[m]")
    >>> joined_ids([days, ["JFK", "a/b"], [1.0, 2.5]]).tolist()
    ['2013-01-01/JFK/1', '2013-01-02T06:30/a\\/b/2.5']
    """
    codes, texts = _texts(columns[0])
    for column in columns[1:]:
        more, others = _texts(column)
        pairs, codes = np.unique(codes * len(others) + more, return_inverse=True)
        both = (divmod(pair, len(others)) for pair in pairs.tolist())
        texts = [f"{texts[i]}{BETWEEN}{others[j]}" for i, j in both]
    return np.array(texts, dtype=object)[codes]


def _texts(column: Any) -> tuple[IntArray, list[str]]:
    """Return the number of each row's value among the distinct ones, and those as text."""
    values = canonical_ids(column)
    if values.dtype.kind == "O":
        codes, distinct = _numbered(values)
        return codes, [_text(value) for value in distinct]
    found, places = np.unique(values, return_inverse=True)
    return places.astype(np.int64, copy=False), [_text(value) for value in found]


def _numbered(values: NDArray[Any]) -> tuple[IntArray, list[Any]]:
    """Return the number of each object among the distinct ones, and those, in the order of first appearance."""
    seen: dict[Any, int] = {}
    try:
        codes = np.fromiter((seen.setdefault(value, len(seen)) for value in values), np.int64, len(values))
    except TypeError as error:
        raise TypeError(f"bag ids must be hashable, got {type(values[0]).__name__}; use str(id)") from error
    return codes, list(seen)


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(np.datetime_as_string(value, unit="auto"))
    elif isinstance(value, date):  # a datetime is one too
        text = value.isoformat().removesuffix("T00:00:00") if isinstance(value, datetime) else value.isoformat()
    elif isinstance(value, float | np.floating) and value.is_integer():
        text = str(int(value))
    else:
        text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return text.replace("\\", "\\\\").replace(BETWEEN, f"\\{BETWEEN}")


def group(keys: NDArray[Any]) -> tuple[IntArray | None, IntArray, NDArray[Any]]:
    """Return the rows bag after bag (None if they stand so already), the offsets and the ids.

    Runs of equal keys are ordered, not rows: O(n_points + n_runs log n_runs); grouped rows are not moved.
    """
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    lengths = np.diff(starts, append=len(keys))
    run_keys = keys[starts]
    if keys.dtype.kind == "O":
        codes, _ = _numbered(run_keys)
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
