"""Columns of text: labels, with codes in their place, numbers among which a stray word stands, and joined ids.

Labels are compared by what is written: 1 in CSV, which is text, is the whole number 1 of Parquet, and true is True. In
CSV, spaces around labels do not count, and NA and the like are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags.coordinates import MISSING_WORDS, are_mostly_numbers, first_stray, stray_text
from ..bags.flat import Label, few
from ..bags.ids import join_ids
from ..compute.checks import Argument, Message
from .files import Head, Reading, TableError, compute, format_of, line_of, pa, read_pieces, values_of

_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,([0-9]{1,2}|[0-9]{4,})\s*")  # 1,234 may be a thousand


def numbers_as_text(head: Head, bag: str, texts: list[str], how: Reading) -> list[str]:
    """Return the columns of text that hold numbers; if only most values are, raise with the first that is not."""
    n_rows = 0
    suspects = texts
    names = [bag, *texts]
    for batch in read_pieces(head.path, how, names, dict.fromkeys(names, pa.string())):
        if not n_rows:
            suspects = [name for name in texts if are_mostly_numbers(values_of(batch, name).to_pylist())]
        if not suspects:
            break
        for name in suspects:
            words = values_of(batch, name).to_pylist()
            row = first_stray(None if word is None else how.plain(word) for word in words)
            if row is not None:
                number = n_rows + row
                place = f"row {n_rows + row}"
                if format_of(head.path) == "CSV":
                    place = f"line {line_of(head.path, how, number)}"
                key = few([values_of(batch, bag)[row].as_py()])
                where = f"{str(head.path)!r}, {place}, column {name!r} (bag {key}): "
                comma = _DECIMAL_COMMA.fullmatch(words[row]) is not None and format_of(head.path) == "CSV"
                more = ("; or, if the comma is a decimal sign, pass ", Argument("decimal", ",")) if comma else ()
                raise TableError(Message(where, stray_text(words[row]), *more))
        n_rows += batch.num_rows
    return suspects


def with_joined_ids(batch: Any, how: Reading) -> Any:
    """Return a record batch with one more column, the ids of bags that several columns name; null where one is."""
    columns = [values_of(batch, name) for name in how.joined]
    there = np.logical_and.reduce([np.asarray(column.is_valid()) for column in columns])
    ids = np.full(batch.num_rows, None, object)
    if there.any():
        known = pa.array(there)
        ids[there] = join_ids([column.filter(known).to_numpy(zero_copy_only=False) for column in columns])
    return batch.append_column(how.bag, pa.array(ids, pa.string()))


def words_of(column: Any, is_csv: bool) -> Any:
    """Return a column of labels as an arrow dictionary, null where a label is missing."""
    if is_csv:
        column = compute.utf8_trim_whitespace(column)
        missing = compute.is_in(column, pa.array(MISSING_WORDS))
        column = compute.if_else(missing, None, column)
    elif pa.types.is_floating(column.type):
        column = compute.if_else(compute.is_nan(column), None, column)
    return column.dictionary_encode()


def check_label_type(head: Head, name: str, lists: bool) -> None:
    """Raise if a column can't hold labels, because it has lists or bytes, or others have one row per bag."""
    types = pa.types
    kind = head.type_of(name)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if lists or types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        rule = f" names {name!r}, which must hold text, whole numbers or truth values in one row per point, got {kind}"
        raise TableError(Message(f"{str(head.path)!r}: ", Argument("categorical"), f"{rule}; leave it out"))


def sorted_labels(values: Iterable[Any]) -> tuple[Label, ...]:
    """Return distinct values as labels: sorted, those of no plain kind, such as dates, as text.

    Examples
    --------
    >>> sorted_labels(["m", "f", "m"]), sorted_labels([2, 1])
    (('f', 'm'), (1, 2))
    """
    plain: set[Label] = {value if isinstance(value, str | bool | int | float) else str(value) for value in values}
    with suppress(TypeError):
        return tuple(sorted(plain))
    return tuple(sorted(map(str, plain)))  # of files that have different types


def known(values: Iterable[Any], labels: Sequence[Label]) -> list[Any]:
    """Return values, those that are written as labels are as these labels.

    Examples
    --------
    >>> known(["2", "x"], (1, 2)), known(["True"], (False, True))
    ([2, 'x'], [True])
    """
    places = {_written(label): label for label in labels}
    lower = all(isinstance(label, bool) for label in labels)  # true, True and TRUE
    written = [(value, _written(value)) for value in values]
    return [places.get(word.lower() if lower else word, value) for value, word in written]


def codes_of(words: Any, labels: Sequence[Label]) -> NDArray[np.float64]:
    """Return the positions of words among labels: NaN for missing ones, -1 for what is no label.

    Examples
    --------
    >>> import pyarrow
    >>> codes_of(words_of(pyarrow.array(["2", "1", None, "3"]), is_csv=True), (1, 2))
    array([ 1.,  0., nan, -1.])
    """
    places = {label: k for k, label in enumerate(labels)}
    codes = [places.get(label, -1) for label in known(words.dictionary.to_pylist(), labels)]
    rows = words.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = np.array([*codes, np.nan])[rows]
    return found


def _written(label: Any) -> str:
    """Return a label as it is written in CSV."""
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
