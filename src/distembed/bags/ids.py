"""Ids of bags: their one canonical form, which bag each row of a table belongs to, and which row each bag has.

*The form of an id.* Two ids are one if their canonical texts are equal (:func:`canonical_text`): 7, 7.0 and ``"7"``; a
date, its text and its Timestamp at midnight. Joins, alignment, hashes, reports, workers and the command line all go by
it, while ``bags.ids`` stay as they were given. What only looks alike (``"001"`` and 1, ``"a "`` and ``"a"``, other
case, other Unicode forms, times with and without a zone) is another id, and errors name the difference.

*From rows to bags.* Rows name their bag by one column, or by several whose values are joined to one id, such as
``2013-01-01/JFK``, by :func:`join_ids`. It looks at one row at a time: tables that come in pieces, and tables of
labels, get the same ids.

*From bags to rows.* Targets, weights and covariates are put in the order of the bags. A Series or data frame of pandas
has an index. If it is the ids of the bags, in any order, it names the bag of each value. If it is 0, 1, ... and these
are not ids, the values are in the order of the bags. Any other index is refused. Several levels are joined as columns
are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import check_choice, closest_name
from .flat import FlatBags, IntArray, few, gather_rows, no_bags

BETWEEN = "/"  # the values of several columns in one id
_MOST_WHOLE = 2.0**53  # beyond, floats skip whole numbers
_TRUTH = ("bool", "boolean", "bool[pyarrow]")  # types of truth values of pandas
_FIRST = 1000  # ids without a partner that are compared with others to name a difference
_TIME = re.compile(
    r"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))[T ]((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?"
    r"(Z| ?UTC|[+-]\d{2}(?::?\d{2})?)?"
)
_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_SPAN_UNITS = ("W", "D", "h", "m", "s", "ms", "us", "ns")  # of spans of time that are a number of nanoseconds


# --------------------------------------------------------------------------------------------------------------
# The form of an id
# --------------------------------------------------------------------------------------------------------------


def one_kind(values: Any) -> NDArray[Any]:
    """Return values as a 1-D array: text as 'U', values of one other kind as NumPy has them, else objects."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"ids must be a sequence of one id a bag, got {type(values).__name__}; pass a list")
    # Not np.asarray of a list: it would turn ["a", 1] into text and tuples into rows.
    array = np.asarray(values) if hasattr(values, "__array__") else np.fromiter(values, dtype=object)
    if array.ndim != 1:
        raise ValueError(f"ids must be 1-D, one id a bag, got shape {array.shape}; pass a list of ids")
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


def as_ids(ids: Any) -> NDArray[Any]:
    """Return ids as :func:`one_kind` does; dates and times as NumPy has them, those with a zone as text in UTC.

    Examples
    --------
    >>> as_ids([date(2013, 1, 1), datetime(2013, 1, 2, 6, 30)])
    array(['2013-01-01T00:00:00', '2013-01-02T06:30:00'], dtype='datetime64[s]')
    >>> as_ids([datetime(2013, 1, 2, 6, 30, tzinfo=UTC)])
    array(['2013-01-02T06:30Z'], dtype='<U17')
    """
    array = _text_in_utc(ids) if _has_zone(ids) else one_kind(ids)
    if array.dtype.kind != "O" or not array.size or not all(isinstance(value, date) for value in array):
        return array
    if any(is_missing(value) for value in array):
        return array
    zoned = [isinstance(value, datetime) and value.tzinfo is not None for value in array]
    if all(zoned):
        return np.array([_text(value) for value in array])
    return array if any(zoned) else np.array([np.datetime64(value.isoformat()) for value in array])


def canonical_text(ids: Any) -> NDArray[Any]:
    """Return the text by which ids are compared: equal texts, one id.

    - Whole numbers have no decimal point: 7, 7.0, ``Decimal("7")`` and ``"7"`` are ``"7"``. Text stays as it is.
    - Dates and times are those of ISO 8601, to the last part that is not zero: a date, midnight of that date and
      their texts are ``"2013-01-01"``, half past six ``"2013-01-01T06:30"``. Times with a zone are those of UTC, with a
      Z at the end, and never equal to times without one.
    - Spans of time are whole days, ``"2 days"``, and what is left, ``"2 days 06:30:00"``, as pandas writes them.
    - Truth values are ``"True"`` and ``"False"``, never 1 and 0. Bytes are the UTF-8 text that they hold. The values of
      a tuple are joined, see :func:`join_ids`.

    Parameters
    ----------
    ids : array-like of shape (n,)
        None missing.

    Returns
    -------
    ndarray of shape (n,) of str
        In O(n); about 0.3 µs for a number or a date, and nothing for text.

    Examples
    --------
    >>> canonical_text([7, 7.0, "7", "007", 2.5, True, b"A370"]).tolist()
    ['7', '7', '7', '007', '2.5', 'True', 'A370']
    >>> canonical_text(np.array(["2013-01-01", "2013-01-01T06:30"], "M8[ns]")).tolist()
    ['2013-01-01', '2013-01-01T06:30']
    >>> canonical_text(["2013-01-01 00:00:00", "2013-01-01T07:30:00+01:00"]).tolist()
    ['2013-01-01', '2013-01-01T06:30Z']
    """
    array = as_ids(ids)
    kind = array.dtype.kind
    if kind == "U":
        return _plain_times(array)
    if not len(array):
        return np.empty(0, "U1")
    if kind == "M":
        return np.datetime_as_string(array, unit="auto")
    if kind in "iub":
        return array.astype(str)
    if kind == "f":
        whole = _whole_numbers(array)
        if whole is not None:
            return whole.astype(str)
    return np.array([_text(value) for value in (array if kind in "mf" else array.tolist())])


def plain_ids(ids: NDArray[Any]) -> list[Any]:
    """Return ids as Python objects, dates and times as text: NumPy makes whole numbers of some, by their unit."""
    return list((canonical_text(ids) if ids.dtype.kind == "M" else ids).tolist())


def id_text(ids: NDArray[Any], i: int) -> str:
    """Return the canonical text of one of some ids, for pictures and tables on the screen."""
    return str(canonical_text(ids[i : i + 1])[0])


def _text(value: Any) -> str:
    """Return the canonical text of one id."""
    if isinstance(value, str):
        return _plain_time(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, tuple):
        return BETWEEN.join(map(_escape, map(_text, value)))
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, date) and not is_missing(value):  # a datetime is one too
        zoned = isinstance(value, datetime) and value.tzinfo is not None
        return _plain_time((value.astimezone(UTC) if zoned else value).isoformat())  # type: ignore[attr-defined]
    if isinstance(value, timedelta):  # that of pandas is one too
        return _span_text(np.timedelta64(value))
    if isinstance(value, np.timedelta64):
        return _span_text(value)
    if isinstance(value, Decimal) and value.is_finite():
        return str(int(value)) if value == int(value) else f"{value.normalize():f}"
    if isinstance(value, float | np.floating) and abs(float(value)) < _MOST_WHOLE and value == int(value):
        return str(int(value))
    try:
        hash(value)
    except TypeError as error:
        raise TypeError(f"ids must be hashable, got {type(value).__name__}; use str(id)") from error
    return _plain_time(str(value))  # periods of pandas are such text


def _span_text(span: np.timedelta64) -> str:
    """Return the text of a span of time: whole days, and what is left of one."""
    if np.datetime_data(span.dtype)[0] not in _SPAN_UNITS:  # months differ in length
        return str(span)
    days = int(span // np.timedelta64(1, "D"))
    rest = np.datetime64(0, "D") + (span - np.timedelta64(days, "D"))
    clock = str(np.datetime_as_string(rest, unit="auto"))
    if len(clock) <= len("1970-01-01"):
        return f"{days} days"
    sign = "+" if days < 0 else ""  # pandas counts what is left forwards
    return f"{days} days {sign}{clock[11:]}{':00' if len(clock) == len('1970-01-01T00:00') else ''}"


def _plain_time(text: str) -> str:
    """Return the text of a time in its canonical form, and any other text as it is."""
    found = _TIME.fullmatch(text)
    if found is None:
        return text
    day, clock, seconds, part, zone = found.groups()
    part = (part or "").rstrip("0")
    part = part.ljust(-(-len(part) // 3) * 3, "0")
    if zone is not None and zone[-1] in "0123456789":
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
        except (ValueError, OverflowError):
            return text
        day, clock = moment.strftime("%Y-%m-%d"), moment.strftime("%H:%M")
    rest = f":{seconds}.{part}" if part else f":{seconds}" if seconds not in (None, "00") else ""
    if zone is None and clock == "00:00" and not rest:
        return day
    return f"{day}T{clock}{rest}{'' if zone is None else 'Z'}"


def _plain_times(texts: NDArray[Any]) -> NDArray[Any]:
    """Return texts, those of times in their canonical form."""
    width = texts.dtype.itemsize // 4
    if width < 16 or not len(texts):
        return texts
    signs = np.ascontiguousarray(texts, texts.dtype.newbyteorder("=")).view(np.uint32).reshape(-1, width)
    likely = (signs[:, 4] == ord("-")) & (signs[:, 7] == ord("-")) & (signs[:, 13] == ord(":"))
    if not likely.any():
        return texts
    found = texts.astype(object)
    found[likely] = [_plain_time(text) for text in texts[likely].tolist()]
    return found.astype(str)


def _whole_numbers(values: NDArray[Any]) -> IntArray | None:
    """Return floats as whole numbers, None if some are not."""
    with np.errstate(invalid="ignore"):
        if not (np.abs(values) < _MOST_WHOLE).all():
            return None
        whole = values.astype(np.int64)
    return whole if (whole == values).all() else None


def _has_zone(column: Any) -> bool:
    """Whether a column of pandas, polars or pyarrow holds times with a zone."""
    kind = getattr(column, "dtype", getattr(column, "type", None))
    return bool(getattr(kind, "tz", None) or getattr(kind, "time_zone", None))


def _text_in_utc(column: Any) -> NDArray[Any]:
    """Return times with a zone, none missing, as canonical text."""
    moments = np.asarray(column.to_numpy(dtype="M8[ns]") if hasattr(column, "array") else column.to_numpy())
    texts = np.datetime_as_string(moments, unit="auto").astype(object)
    at_midnight = moments == moments.astype("M8[D]")
    texts[at_midnight] += "T00:00"
    return np.asarray(texts + "Z").astype(str)


# --------------------------------------------------------------------------------------------------------------
# Each id once
# --------------------------------------------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Return whether an id is None, NaN, NaT or a data frame's NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def repeated(ids: NDArray[Any]) -> list[Any]:
    """Return the ids that occur more than once, each spelling once.

    Examples
    --------
    >>> repeated(np.array([7, "a", "7"], object))
    [7, '7']
    """
    numbers = _numbers(ids)
    if numbers is not None:
        ordered = np.sort(numbers[1])  # an order of magnitude faster than a set
        if (ordered[1:] != ordered[:-1]).all():
            return []
    keys = canonical_text(ids).tolist() if numbers is None else numbers[1].tolist()
    if len(set(keys)) == len(keys):
        return []
    again = {key for key, count in Counter(keys).items() if count > 1}
    spellings = {(key, repr(value)): value for key, value in zip(keys, ids, strict=True) if key in again}
    return [spellings[each] for each in sorted(spellings, key=lambda each: each[0])]


def refuse_repeated(ids: NDArray[Any], remedy: str) -> None:
    """Raise if an id occurs twice, in whatever spelling."""
    twice = repeated(ids)
    if twice:
        raise ValueError(f"ids must be unique, got more than once: {few(twice)}{two_spellings(twice)}; {remedy}")


def two_spellings(twice: list[Any]) -> str:
    """A word on ids that :func:`repeated` returns in two spellings."""
    texts = canonical_text(np.fromiter(twice, object)).tolist()
    pairs = zip(pairwise(twice), pairwise(texts), strict=True)
    same = next((pair for pair, (one, two) in pairs if one == two), None)
    return "" if same is None else f" ({few(same[:1])} and {few(same[1:])} are one id)"


def check_ids(ids: Any, n_bags: int) -> NDArray[Any]:
    """Return `ids` as an array of unique ids, one per bag, none missing."""
    array = as_ids(ids)
    if len(array) != n_bags:
        raise wrong_number_of_ids(len(array), n_bags)
    missing = np.flatnonzero([is_missing(v) for v in array] if array.dtype.kind == "O" else array != array)
    if missing.size:
        raise ValueError(
            f"ids must not be missing, got {few([array[missing[0]]])} for bag {missing[0]}; give that bag an id"
        )
    refuse_repeated(array, "give each bag its own id")
    return array


def wrong_number_of_ids(n_ids: int, n_bags: int) -> ValueError:
    """Return the error for ids that are not one per bag."""
    return ValueError(
        f"ids must hold one id a bag, got {n_ids} ids for {n_bags} bags; give one per bag, or none at all"
    )


def hash_ids(ids: Any, salt: int = 0) -> NDArray[np.uint32]:
    """Return one number of 32 bits for each id, of its canonical text alone; another salt, other numbers.

    Examples
    --------
    >>> hash_ids([7, "A370"]).tolist() == hash_ids(["7", "A370"]).tolist() != hash_ids([7, "A370"], salt=5).tolist()
    True
    """
    texts = canonical_text(ids)
    signs = np.ascontiguousarray(texts, texts.dtype.newbyteorder("<")).view("<u4").reshape(len(texts), -1)
    found = np.full(len(signs), 14695981039346656037 ^ (salt * 0x9E3779B97F4A7C15 % 2**64), np.uint64)
    for column in signs.T:  # zeros fill up short texts
        mixed = (found ^ column) * np.uint64(1099511628211)
        found = np.where(column > 0, mixed ^ (mixed >> np.uint64(29)), found)
    return (found ^ (found >> np.uint64(32))).astype(np.uint32)


def insert_sorted(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Return n sorted numbers with b new ones among them, each once, in O(n + b log n).

    Examples
    --------
    >>> insert_sorted(np.array([2, 5]), np.array([7, 5, 1, 7]))
    array([1, 2, 5, 7])
    """
    new = np.unique(new)
    places = np.searchsorted(known, new)
    fresh = (places == len(known)) | (np.append(known, 0)[places] != new)
    return np.insert(known, places[fresh], new[fresh])


# --------------------------------------------------------------------------------------------------------------
# The bag of each row
# --------------------------------------------------------------------------------------------------------------


def column_keys(column: Any) -> tuple[NDArray[Any], IntArray]:
    """Return the values of a column of ids or labels, and the rows in which they are missing."""
    if type(getattr(column, "type", None)).__name__ == "DictionaryType":  # whose to_numpy gives nulls a label
        column = column.cast(column.type.value_type)
    if hasattr(column, "isna"):  # pandas: comparisons with its NA are not boolean, so look before comparing
        missing = np.flatnonzero(np.asarray(column.isna()))
        if missing.size:
            return np.asarray(column), missing
    keys = np.asarray(column.to_numpy()) if hasattr(column, "to_numpy") else one_kind(column)
    empty = keys != keys if keys.dtype.kind != "O" else np.fromiter(map(is_missing, keys), bool, len(keys))
    return keys, np.flatnonzero(empty)


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
    return _text_in_utc(column) if _has_zone(column) else keys


def join_ids(columns: Sequence[Any]) -> NDArray[Any]:
    r"""Return the ids of rows whose bag is named by several columns: their canonical texts, with / between them.

    A / or a \ inside a value has a \ before it, so two ids are equal only if all values are.

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
    values = as_ids(column)
    if values.dtype.kind == "O":
        codes, distinct = _number_objects(values)
        return codes, [_escape(_text(value)) for value in distinct]
    found, places = np.unique(values, return_inverse=True)
    return places.astype(np.int64, copy=False), [_escape(text) for text in canonical_text(found).tolist()]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(BETWEEN, f"\\{BETWEEN}")


def _number_objects(values: NDArray[Any]) -> tuple[IntArray, list[Any]]:
    """Return the number of each object among the distinct ones, and those, in the order of first appearance."""
    seen: dict[Any, int] = {}
    try:
        codes = np.fromiter((seen.setdefault(value, len(seen)) for value in values), np.int64, len(values))
    except TypeError as error:
        raise TypeError(f"bag ids must be hashable, got {type(values[0]).__name__}; use str(id)") from error
    return codes, list(seen)


def group(keys: NDArray[Any]) -> tuple[IntArray | None, IntArray, NDArray[Any]]:
    """Return the rows bag after bag (None if they stand so already), the offsets and the ids.

    Runs of equal keys are ordered, not rows: O(n_points + n_runs log n_runs); grouped rows are not moved.
    """
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    lengths = np.diff(starts, append=len(keys))
    run_keys = keys[starts]
    if keys.dtype.kind == "O":
        codes, _ = _number_objects(run_keys)
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
# The row of each id
# --------------------------------------------------------------------------------------------------------------


class IdIndex:
    """Rows of ids, found by the canonical form of an id; what is made for it is made once, for many questions.

    Parameters
    ----------
    ids : array-like of shape (n,)
        None missing. Of an id that is there twice, one row is found.

    Examples
    --------
    >>> IdIndex([7, 8, 9]).rows_of(["9", "x", 8.0])
    array([ 2, -1,  1])
    """

    def __init__(self, ids: Any) -> None:
        self.ids = as_ids(ids)

    def rows_of(self, wanted: Any) -> IntArray:
        """Return the row of each id, -1 where there is none: O(n log n), O(n) for text."""
        asked = as_ids(wanted)
        if _are_same(asked, self.ids):
            return np.arange(len(asked))
        if not len(self.ids):
            return np.full(len(asked), -1)
        numbers = _numbers(asked)
        if numbers is not None and self._numbers is not None and numbers[0] == self._numbers[0]:
            return self._by_number(numbers[1])
        return np.array(list(map(self._rows.get, canonical_text(asked).tolist(), repeat(-1))), np.int64)

    def unused(self, rows: IntArray) -> NDArray[np.bool_]:
        """Return which ids are in none of the rows that :meth:`rows_of` has found."""
        found = np.ones(len(self.ids), bool)
        found[rows[rows >= 0]] = False
        return found

    @cached_property
    def _numbers(self) -> tuple[str, IntArray] | None:
        return _numbers(self.ids)

    @cached_property
    def _order(self) -> IntArray:
        assert self._numbers is not None
        return np.argsort(self._numbers[1], kind="stable")

    @cached_property
    def _sorted(self) -> IntArray:
        assert self._numbers is not None
        return self._numbers[1][self._order]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return dict(zip(canonical_text(self.ids).tolist(), range(len(self.ids)), strict=True))

    def _by_number(self, asked: IntArray) -> IntArray:
        places = np.minimum(np.searchsorted(self._sorted, asked), len(self._sorted) - 1)
        return np.where(self._sorted[places] == asked, self._order[places], -1)


def _are_same(one: NDArray[Any], two: NDArray[Any]) -> bool:
    """Whether two arrays of ids hold the same ones in the same order and of one type; where not, nothing is known."""
    if one.dtype.kind != two.dtype.kind or one.shape != two.shape or one.dtype.kind == "O":
        return False
    if one.dtype.kind == "U":  # which NumPy compares slowly
        return bool(one[:9].tolist() == two[:9].tolist() and one.tolist() == two.tolist())
    return one.dtype == two.dtype and np.array_equal(one, two)


def _numbers(ids: NDArray[Any]) -> tuple[str, IntArray] | None:
    """Return whole numbers that are equal where canonical texts are, and what they count; None without such."""
    kind = ids.dtype.kind
    if kind == "i" or (kind == "u" and (not len(ids) or ids.max() < 2**63)):
        return "number", ids.astype(np.int64, copy=False)
    if kind == "f":
        whole = _whole_numbers(ids)
        if whole is not None:
            return "number", whole
        if ids.dtype == np.float64:
            return "float", (ids + 0.0).view(np.int64)
    if kind == "M":
        ticks = ids.astype("M8[ns]")
        if np.array_equal(ticks.astype(ids.dtype), ids):  # else beyond the years that nanoseconds reach
            return "time", ticks.view(np.int64)
    return None


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
    bags = as_ids(ids)
    if _has_same_text(values, bags):
        return None
    index = index_of(values)
    if index is None:
        return None
    known = IdIndex(index)
    rows = known.rows_of(bags)
    unused = known.unused(rows)
    if (rows >= 0).all() and not unused.any():
        return None if np.array_equal(rows, np.arange(len(index))) else rows
    if len(index) == len(bags) and np.array_equal(canonical_text(index), canonical_text(bags)):
        return None  # a bootstrap of both: the index repeats as the ids do
    lost = bags[rows < 0]
    spare = index[IdIndex(bags).rows_of(index) < 0]
    is_range = _is_range(index, len(bags))
    if unused.all() and is_range and not _in_other_order(bags, index):
        return None
    if not len(lost) and not len(spare):
        refuse_repeated(index, f"the index of {name} must name each bag once")
    raise ValueError(_other_index(name, lost, spare, f"{name}.{plain}", len(lost) == len(bags), is_range))


def _has_same_text(values: Any, bags: NDArray[Any]) -> bool:
    """Whether an index of text is the ids, in their order: most are, and need not become an array of ids first."""
    index: Any = getattr(values, "index", None)
    if bags.dtype.kind != "U" or not hasattr(index, "to_numpy") or len(index) != len(bags):
        return False
    return bool(index.to_numpy().tolist() == bags.tolist())


def _other_index(name: str, lost: NDArray[Any], spare: NDArray[Any], plain: str, nothing: bool, is_range: bool) -> str:
    """The error for an index that is neither the ids nor 0, 1, ..."""
    remedy = f"{plain} if rows are in the order of the bags"
    near = near_match(lost, spare)
    if nothing:
        got = f"it has {few(spare[:1])} where ids are such as {few(lost[:1])}" if len(spare) else "it is empty"
        alike = f"; {near.text('ids', 'the index')}; {near.remedy}" if near else ""
        return (
            f"{name}: the index must be the ids of the bags, in any order, or 0, 1, ... in the order of the bags; {got}"
            f"{alike}{', or' if alike else ';'} use {remedy}"
        )
    wrong = " and ".join([*([f"lacks {few(lost)}"] if len(lost) else []), *(["has"] if len(spare) else [])])
    besides = f" {few(spare)} besides" if len(spare) else ""
    hint = f" ({near.text('ids', 'the index')}: {near.remedy})" if near else _guess(lost, spare)
    range_too = ", though it is 0, 1, ... as an index without ids is" if is_range else ""
    return (
        f"{name}: the index must hold the ids of all bags and no others, or none of them; it {wrong}{besides}{hint}"
        f"{range_too}; take {name}.loc[bags.ids], or bags.select(...) of the ids that both have, or {remedy}"
    )


def _is_range(index: NDArray[Any], n_bags: int) -> bool:
    """Whether an index is 0, 1, ..., n_bags - 1, in order."""
    return index.dtype.kind in "iuf" and np.array_equal(index, np.arange(n_bags))


def _in_other_order(bags: NDArray[Any], index: NDArray[Any]) -> bool:
    """Whether 0, 1, ... look like the ids, such as '000', '001', ..., in another order."""
    near = {_fold(text): row for row, text in enumerate(canonical_text(index).tolist())}
    rows = [near.get(_fold(text), -1) for text in canonical_text(bags).tolist()]
    return max(rows) >= 0 and rows != list(range(len(rows)))


def index_of(values: Any) -> NDArray[Any] | None:
    """Return the index of a Series or data frame, or the ids of bags, None without; levels are joined to one id."""
    if isinstance(values, FlatBags):
        return values.ids if values.has_ids else None
    index: Any = getattr(values, "index", None)
    if not hasattr(index, "to_numpy"):
        return None
    if getattr(index, "nlevels", 1) > 1:  # as from_frame(bag=[...]) joins columns
        return as_ids(join_ids([index.get_level_values(k) for k in range(index.nlevels)]))
    return as_ids(index)


def names_in_index(values: Any) -> NDArray[Any] | None:
    """Return the index of a Series with one bag a row as ids; None if it is 0, 1, ..., or names no bag once."""
    index = index_of(values)
    if index is None or _is_range(index, len(index)):
        return None
    missing = any(map(is_missing, index)) if index.dtype.kind == "O" else bool((index != index).any())
    return None if missing or repeated(index) else index


def align_targets(ids: NDArray[Any], targets: Any, extra: str) -> NDArray[Any]:
    """Return targets that belong to ids, by a mapping or an index, in the order of `ids`."""
    check_choice("Bags.align", "extra", extra, ("error", "ignore"))
    index = index_of(targets)
    if isinstance(targets, Mapping):
        keys = as_ids(list(targets))
        refuse_repeated(keys, "targets must name each bag once")
        values = np.asarray(list(targets.values()))
    elif index is not None:
        refuse_repeated(index, "the index of targets must name each bag once")
        keys = index
        values = np.asarray(targets.to_numpy())
    else:
        raise TypeError(
            "targets must be a mapping of id to target or a pandas object indexed by id, got "
            f"{type(targets).__name__}; from two columns use dict(zip(ids, values))"
        )
    known = IdIndex(keys)
    rows = known.rows_of(ids)
    spare = keys[known.unused(rows)]
    if (rows < 0).any():
        lost = np.asarray(ids)[rows < 0]
        raise ValueError(
            f"targets must have every id of the bags, missing: {few(lost)}{_hint(lost, spare, 'targets')}; add them, "
            "or leave those bags out: bags[np.isin(bags.ids, list(targets))], for a Series list(targets.index)"
        )
    if len(spare) and extra == "error":
        raise ValueError(
            f"targets must have only ids of the bags, unknown: {few(spare)}; leave those out, by extra='ignore'"
        )
    return np.asarray(values[rows])


def positions_of(ids: NDArray[Any], wanted: Any, unknown: str = "error") -> IntArray:
    """Positions of the bags that have these ids, in this order; an unknown id is an error with a hint, or -1."""
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise TypeError(f"Bags.select: ids must be a sequence of ids, got {wanted!r}; write [{wanted!r}] for one bag")
    refuse_repeated(ids, "select by positions: bags[[...]]")
    asked = as_ids(wanted)
    rows = IdIndex(ids).rows_of(asked)
    if unknown == "error" and (rows < 0).any():
        strange = asked[rows < 0]
        near = near_match(np.asarray(ids), strange)
        hint = f" ({near.text('bags', 'the selection')})" if near else _guess(strange, np.asarray(ids))
        raise ValueError(
            f"Bags.select: ids must be those of the bags, unknown: {few(strange)}{hint}; bags.ids has all of them"
        )
    return rows


def positions_where(mask: Any, ids: NDArray[Any]) -> Any:
    """Return a boolean Series in the order of the bags, by its index; anything else as it is."""
    if not hasattr(getattr(mask, "index", None), "to_numpy") or str(getattr(mask, "dtype", "")) not in _TRUTH:
        return mask
    if mask.isna().any():
        lost = few([mask.index[int(np.argmax(mask.isna()))]])
        raise ValueError(f"a mask must be True or False for every bag, got none for {lost}; use mask.fillna(False)")
    values = mask.to_numpy(dtype=bool)
    rows = rows_by_id(mask, ids, "mask")
    return values if rows is None else values[rows]


# --------------------------------------------------------------------------------------------------------------
# Ids that look alike
# --------------------------------------------------------------------------------------------------------------


class NearMatch(NamedTuple):
    """Two ids that differ in form alone: what the difference is, and what to do."""

    one: Any
    two: Any
    what: str
    remedy: str

    def text(self, where_one: str, where_two: str) -> str:
        """The two ids and where they are, in words.

        Examples
        --------
        >>> near_match(["a"], ["a "]).text("bags", "labels")
        "'a' of the bags and 'a ' of the labels differ in blanks"
        """
        owner = where_two if where_two.startswith("the ") else f"the {where_two}"
        return f"{few([self.one])} of the {where_one} and {few([self.two])} of {owner} differ in {self.what}"


def near_match(ids: Any, others: Any) -> NearMatch | None:
    """Return the first of some ids that is another one but for its form, and that one; None if there is none.

    Forms are blanks, Unicode normal forms, case, leading zeros, a plus sign, decimals, how a date is written, and
    whether a time has a zone. At most 1,000 ids are compared with 100 times as many others.

    Examples
    --------
    >>> near_match(["001", "002"], [2, 3])
    NearMatch(one='002', two=2, what='leading zeros', remedy='pad both alike, e.g. by .astype(str).str.zfill(3)')
    """
    some = as_ids(ids)[:_FIRST]
    many = as_ids(others)[: 100 * _FIRST]
    known: dict[str, int] = {}
    for row, text in enumerate(canonical_text(many).tolist()):
        known.setdefault(_fold(text), row)
    for row, text in enumerate(canonical_text(some).tolist()):
        place = known.get(_fold(text))
        if place is not None:
            what, remedy = _difference(text, str(canonical_text(many[place : place + 1])[0]))
            return NearMatch(_item(some, row), _item(many, place), what, remedy)
    return _other_zone(some, many)


def alike(ids: Any) -> NearMatch | None:
    """Return the first two of some ids that differ in form alone; None if there are none.

    Examples
    --------
    >>> alike(["ill", "well", "Ill"]).what
    'upper and lower case'
    """
    known: dict[str, str] = {}
    for text in canonical_text(ids).tolist():
        other = known.setdefault(_fold(text), text)
        if other != text:
            return NearMatch(other, text, *_difference(other, text))
    return None


def _item(ids: NDArray[Any], row: int) -> Any:
    return plain_ids(ids[row : row + 1])[0]


_BLANK = re.compile(r"[\s\u200b\u2060\ufeff]+")
_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")
_POINT = re.compile(r"(?<=\d)[.,]0*$")
_PLUS = re.compile(r"^\+(?=[\d.])")
_DAY = re.compile(r"^(\d{4})[-/.]?(\d\d)[-/.]?(\d\d)$")
_OF_TIME = "convert one of them, by .tz_convert('UTC').tz_localize(None) or .tz_localize('Europe/Berlin')"
_FORMS: tuple[tuple[str, Callable[[str], str], str], ...] = (
    ("blanks", lambda text: _BLANK.sub(" ", text).strip(), "strip both, e.g. by .str.strip()"),
    ("Unicode form", lambda text: unicodedata.normalize("NFKC", text), "normalise both, by .str.normalize('NFC')"),
    ("upper and lower case", str.casefold, "write both alike, e.g. by .str.lower()"),
    ("leading zeros", lambda text: _ZEROS.sub("", text), "pad both alike, e.g. by .astype(str).str.zfill({width})"),
    ("sign", lambda text: _PLUS.sub("", text), "make numbers of both, by .astype(float)"),
    ("decimals", lambda text: _POINT.sub("", text), "make numbers of both, by .astype(float)"),
    ("the form of dates", lambda text: _DAY.sub(r"\1-\2-\3", text), "make dates of both, by pd.to_datetime(...)"),
)


_LAST_DIGITS = re.compile(r"(?<![\d.])\d+(?=\D*$)")


def _pad(width: int, text: str) -> str:
    """Return a text whose last number has this width."""
    return _LAST_DIGITS.sub(lambda found: found[0].zfill(width), text)


# The forms that an id may have elsewhere: what differs, and the other text.
OTHER_FORMS: tuple[tuple[str, Callable[[str], str]], ...] = (
    *((what, plain) for what, plain, _ in _FORMS),
    *(("upper and lower case", change) for change in (str.upper, str.lower, str.capitalize, str.title)),
    *(("Unicode form", partial(unicodedata.normalize, form)) for form in ("NFC", "NFD")),
    *(("leading zeros", partial(_pad, width)) for width in range(2, 13)),
    ("decimals", lambda text: f"{text}.0"),
    ("the form of dates", lambda text: _DATE.sub(lambda found: found[0].replace("-", ""), text)),
    ("zone", lambda text: f"{text}Z"),
    ("zone", lambda text: text.removesuffix("Z")),
)


def _fold(text: str) -> str:
    """Return a text without its form: equal for ids that look alike."""
    for _, plain, _ in (*_FORMS[-1:], *_FORMS[:-1]):
        text = plain(text)
    moment = text.upper()
    if not _TIME.fullmatch(moment):
        return text
    return _plain_time(moment.removesuffix("Z"))


def _difference(one: str, two: str) -> tuple[str, str]:
    """Return in what two texts that look alike differ, and the remedy."""
    width = max(len(one), len(two))
    for what, plain, remedy in _FORMS:
        if plain(one) == plain(two):
            return what, remedy.format(width=width)
    if one.endswith("Z") != two.endswith("Z"):
        return "zone", _OF_TIME
    return "their form", "write both alike"


def _other_zone(some: NDArray[Any], many: NDArray[Any]) -> NearMatch | None:
    """Times of which one side has a zone and the other has none; dates are midnights without one."""
    found = []
    for ids in (some, many):
        texts = list(enumerate(canonical_text(ids[:_FIRST]).tolist()))[::-1]
        found.append({text.endswith("Z"): row for row, text in texts if _TIME.fullmatch(text) or _DATE.fullmatch(text)})
    for zone in (True, False):
        if found[0].get(zone) is not None and set(found[1]) == {not zone}:
            return NearMatch(_item(some, found[0][zone]), _item(many, found[1][not zone]), "zone", _OF_TIME)
    return None


def _hint(lost: NDArray[Any], spare: NDArray[Any], where: str) -> str:
    """A word on ids that look alike, or on one that may be meant."""
    near = near_match(lost, spare)
    return f" ({near.text('bags', where)}: {near.remedy})" if near else _guess(lost, spare)


def _guess(absent: NDArray[Any], known: NDArray[Any]) -> str:
    """A suggestion for the first of some ids that are absent."""
    if not len(absent):
        return ""
    first = plain_ids(absent[:1])[0]
    close = closest_name(first, plain_ids(known))
    return f" (is {close!r} meant for {first!r}?)" if close else ""
