"""Ids of bags: which bag each row of a table belongs to, and which row of a table each bag has.

Rows name their bag by one column, or by several whose values are joined to one id. Ids of several columns are text,
such as ``2013-01-01/JFK``, and :func:`join_ids` is the one place that makes them. It looks at one row at a time: tables
that come in pieces, and tables of labels, get the same ids.

The other way round, targets, weights and covariates are put in the order of the bags. A Series or data frame of pandas
has an index. If it is the ids of the bags, in any order, it names the bag of each value. If it has none of them, as
0, 1, ... for ids that are text, the values are in the order of the bags. An index that has some of the ids, or has them
as numbers where they are text, is refused: any guess could be wrong. Several levels are joined as columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import check_choice, closest_name
from .checks import canonical_ids, is_missing, refuse_repeated
from .flat import FlatBags, IntArray, few, gather_rows, no_bags

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
        The column of bag ids, or several, see :func:`join_ids`.

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
    return found[0] if len(found) == 1 else join_ids(found)


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


def join_ids(columns: Sequence[Any]) -> NDArray[Any]:
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
    >>> join_ids([days, ["JFK", "a/b"], [1.0, 2.5]]).tolist()
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


# --------------------------------------------------------------------------------------------------------------
# Rows in the order of the bags
# --------------------------------------------------------------------------------------------------------------


def rows_by_id(values: Any, ids: Any, name: str, plain: str = "to_numpy()") -> IntArray | None:
    """The row of each bag, by the index of an object of pandas; None where rows are in the order of the bags.

    Parameters
    ----------
    values : Series, data frame or anything else
        What else has no index.
    ids : array-like of shape (n_bags,)
        Ids of the bags.
    name : str
        How errors call the values.
    plain : str
        The method of the values by which they lose their index.
    """
    index = _index_of(values)
    if index is None:
        return None
    labels = plain_ids(index)
    wanted = plain_ids(np.asarray(ids))
    if labels == wanted:
        return None
    row = {label: i for i, label in enumerate(labels)}
    absent, besides = _differences(row, wanted)
    remedy = f"{name}.{plain} if rows are in the order of the bags"
    if len(absent) == len(set(wanted)):
        _refuse_other_kind(labels, wanted, name, remedy)
        return None
    if absent or besides:
        wrong = " and ".join([*([f"lacks {few(absent)}"] if absent else []), *(["has"] if besides else [])])
        raise ValueError(
            f"{name}: the index must hold the ids of all bags and no others, or none of them; it {wrong}"
            f"{f' {few(besides)} besides' if besides else ''}{_near(absent, besides)}; take {name}.loc[bags.ids], "
            f"or bags.select(...) of the ids that both have, or {remedy}"
        )
    refuse_repeated(index, f"the index of {name} must name each bag once")
    return np.array([row[label] for label in wanted])


def align_targets(ids: NDArray[Any], targets: Any, extra: str) -> NDArray[Any]:
    """Return targets that belong to ids, by a mapping or an index, in the order of `ids`."""
    check_choice("Bags.align", "extra", extra, ("error", "ignore"))
    index = _index_of(targets)
    if isinstance(targets, Mapping):
        keys = list(targets)
        values = np.asarray(list(targets.values()))
    elif index is not None:
        refuse_repeated(index, "the index of targets must name each bag once")
        keys = plain_ids(index)
        values = np.asarray(targets.to_numpy())
    else:
        raise TypeError(
            "targets must be a mapping of id to target or a pandas object indexed by id, got "
            f"{type(targets).__name__}; from two columns use dict(zip(ids, values))"
        )
    row = {key: position for position, key in enumerate(keys)}
    wanted = plain_ids(ids)
    absent, besides = _differences(row, wanted)
    if absent:
        raise ValueError(
            f"targets must have every id of the bags, missing: {few(absent)}{_kinds(absent, besides)}"
            f"{_near(absent, besides)}; add them, or leave those bags out: bags[np.isin(bags.ids, list(targets))], "
            "for a Series list(targets.index)"
        )
    if besides and extra == "error":
        raise ValueError(
            f"targets must have only ids of the bags, unknown: {few(besides)}; leave those out, by extra='ignore'"
        )
    return np.asarray(values[[row[key] for key in wanted]])


def positions_of(ids: NDArray[Any], wanted: Any) -> IntArray:
    """Positions of the bags that have these ids, in this order; an unknown id is an error with the nearest one."""
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise TypeError(f"Bags.select: ids must be a sequence of ids, got {wanted!r}; write [{wanted!r}] for one bag")
    refuse_repeated(ids, "select by positions: bags[[...]]")
    row = {key: position for position, key in enumerate(plain_ids(ids))}
    asked = plain_ids(np.asarray(wanted)) if hasattr(wanted, "__array__") else list(wanted)
    unknown = [key for key in asked if key not in row]
    if unknown:
        raise ValueError(
            f"Bags.select: ids must be those of the bags, unknown: {few(unknown)}{_kinds(list(row), unknown)}"
            f"{_near(unknown, list(row))}; bags.ids has all of them"
        )
    return np.array([row[key] for key in asked], dtype=np.int64)


def _index_of(values: Any) -> NDArray[Any] | None:
    if isinstance(values, FlatBags):
        return values.ids if values.has_ids else None
    index: Any = getattr(values, "index", None)
    if not hasattr(index, "to_numpy"):
        return None
    if getattr(index, "nlevels", 1) > 1:  # as from_frame(bag=[...]) joins columns
        return join_ids([index.get_level_values(k).to_numpy() for k in range(index.nlevels)])
    return np.asarray(index.to_numpy())


def _differences(row: dict[Any, int], wanted: list[Any]) -> tuple[list[Any], list[Any]]:
    """Ids that have no row, and labels of rows that are no ids, in their order."""
    known = set(wanted)
    return [key for key in dict.fromkeys(wanted) if key not in row], [key for key in row if key not in known]


def _refuse_other_kind(labels: list[Any], wanted: list[Any], name: str, remedy: str) -> None:
    """Refuse an index that is the ids, in another order, but for their type."""
    texts = [str(label) for label in wanted]
    others = [str(label) for label in labels]
    if texts != others and set(texts) == set(others):
        raise TypeError(
            f"{name}: the index must be of the type of the ids, got {_kind(labels[0])} such as {labels[0]!r} for ids "
            f"that are {_kind(wanted[0])} such as {wanted[0]!r}; convert it, e.g. {name}.index = "
            f"{name}.index.astype({type(wanted[0]).__name__}), or give {remedy}"
        )


def _kinds(ids: list[Any], others: list[Any]) -> str:
    """A word on ids that are numbers on one side and text on the other."""
    texts = {str(each): each for each in others}
    same = next(((one, texts[str(one)]) for one in ids if str(one) in texts), None)
    if same is None:
        return ""
    return f" (the ids of the bags are {_kind(same[0])}, such as {same[0]!r}, these are {_kind(same[1])}: {same[1]!r})"


def _kind(value: Any) -> str:
    return {"str": "text", "int": "whole numbers", "float": "numbers"}.get(type(value).__name__, type(value).__name__)


def _near(absent: list[Any], known: list[Any]) -> str:
    """A suggestion for the first of some ids that are absent."""
    close = closest_name(absent[0], known) if absent else None
    return f" (is {close!r} meant for {absent[0]!r}?)" if close else ""
