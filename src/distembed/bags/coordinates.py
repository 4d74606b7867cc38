"""Which columns of a table are coordinates, where the user does not say: what names, values and words tell of them.

A column that numbers the rows, or holds one value, is made of numbers and yet says nothing of a point; as a coordinate
it would drown the others. And a column of numbers with one stray word in it is text to every reader of tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, Message

LEAST_ROWS = 10  # fewer tell nothing: two numbers are easily equal, or consecutive
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan")  # in columns of numbers
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf(inity)?)", re.I)
_BESIDE = re.compile(r"[\s,_'%$€£<>~]+")  # what people write into numbers: 1,234 or 3,5 or < 0.1 or 12 %
_NAMELESS = re.compile(r"\s*|Unnamed: [0-9]+(_level_[0-9]+)*|__index_level_[0-9]+__")  # as pandas writes an index
_INDEX_NAMES = ("index", "level_0", "row_nr", "rownames")  # where they come first, and hold whole numbers
_MOST_NAMES = 20  # that are shown
_SOME_WORDS = 10_000  # tell what a column holds
_LARGEST_WHOLE = 2.0**53  # of float64


# --------------------------------------------------------------------------------------------------------------
# Names
# --------------------------------------------------------------------------------------------------------------


def is_nameless(name: Any, first: bool, whole: bool) -> bool:
    """Whether a name is that of an index which was written along: none, one of pandas', or ``index`` in front.

    Examples
    --------
    >>> [is_nameless(name, True, True) for name in ("", "Unnamed: 0", "index", "cell")]
    [True, True, True, False]
    """
    if not isinstance(name, str):
        return False
    return _NAMELESS.fullmatch(name) is not None or (first and whole and name.lower() in _INDEX_NAMES)


HOLDS_TEXT = "holds text"
NAMELESS = "has no name: an index that was written along"
NUMBERS_AS_TEXT = "holds numbers as text: convert it if they are coordinates"


# --------------------------------------------------------------------------------------------------------------
# Words
# --------------------------------------------------------------------------------------------------------------


def is_number_word(word: str) -> bool:
    """Whether a word is a number, with spaces around it or without.

    Examples
    --------
    >>> [is_number_word(word) for word in (" 1.5e3", "-", "1,234", "0x1f", "12:30")]
    [True, False, False, False, False]
    """
    return _NUMBER.fullmatch(word.strip()) is not None


def are_mostly_numbers(words: Iterable[str | None]) -> bool:
    """Whether most words, missing ones aside, are numbers, or numbers with signs beside them such as ``1,234``.

    Examples
    --------
    >>> are_mostly_numbers(["1.5", "-", "2", None]), are_mostly_numbers(["3,5", "4,1"]), are_mostly_numbers(["a", "1"])
    (True, True, False)
    """
    known = [word.strip() for word in words if word is not None and word.strip() not in MISSING_WORDS]
    known = known[:_SOME_WORDS]
    return 2 * sum(_NUMBER.fullmatch(_BESIDE.sub("", word)) is not None for word in known) > len(known)


def first_stray(words: Iterable[str | None]) -> int | None:
    """Return the position of the first word that is neither a number nor missing, or None.

    Examples
    --------
    >>> first_stray(["1", "NA", "?", "-"])
    2
    """
    there = ((i, word) for i, word in enumerate(words) if word is not None and word.strip() not in MISSING_WORDS)
    return next((i for i, word in there if not is_number_word(word)), None)


def stray_text(word: str) -> Message:
    """Return what is wrong with a word among numbers, and what to do."""
    return Message(
        f"most values of this column are numbers, got {word!r}; correct it, or leave it empty where nothing is known, "
        "or name the coordinates, with or without this column, by ", Argument("columns"),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------
# Values
# --------------------------------------------------------------------------------------------------------------


class Watch:
    """What the values of one column say, piece by piece: whether it is constant, or numbers the rows.

    Each guess stands until a value refutes it. Numbers of rows are whole, each once and without gaps, in any order, in
    each file; or they go up by one from row to row of each bag. Costs O(rows) time as long as a guess stands, and O(1)
    memory, or O(bags) for the second kind: a permutation of a range is told by the sum of its values' hashes.

    Examples
    --------
    >>> watch = Watch()
    >>> watch.add(np.array([7, 5, 6, *range(8, 20)]), np.zeros(15, int), ["a"])
    >>> watch.verdict()
    'numbers the rows, from 5 to 19'
    """

    def __init__(self) -> None:
        # of a constant
        self._n_rows = 0
        self._value = None
        self._constant = self._range = self._steps = True
        self._ends: list[Any] = []  # least and greatest of all files
        self._file: tuple[int, int, int, int] | None = None  # rows, least, greatest and sum of hashes of this file
        self._last: dict[Any, int] = {}  # value by bag
        self._n_steps = 0

    @property
    def is_open(self) -> bool:
        """Whether a guess stands."""
        return self._constant or self._range or self._steps

    def add(self, values: NDArray[Any], codes: NDArray[Any], bags: Sequence[Any]) -> None:
        """Look at some rows of a file: values, and the positions of their bags among some."""
        if not len(values):
            return
        self._n_rows += len(values)
        if self._constant:
            self._value = values[0].item() if self._value is None else self._value
            self._constant = bool((values == self._value).all())
        if not (self._range or self._steps):
            return
        whole = _as_whole(values)
        if whole is None:
            self._range = self._steps = False
            return
        self._range = self._range and self._add_to_range(whole)
        self._steps = self._steps and self._add_to_steps(whole, codes, bags)

    def end_file(self) -> None:
        """Judge the rows of one file as numbers of rows."""
        if self._range and self._file is not None:
            n, least, greatest, total = self._file
            self._range = greatest - least + 1 == n and total == _hash_of_range(least, greatest)
            self._ends += [least, greatest]
        self._file = None

    def verdict(self) -> str | None:
        """Return why the column is not a coordinate, or None if it may be one."""
        self.end_file()
        if self._n_rows < LEAST_ROWS:
            return None
        if self._constant:
            return f"is {self._value!r} in all rows"
        if self._range:
            return f"numbers the rows, from {min(self._ends)} to {max(self._ends)}"
        if self._steps and self._n_steps >= max(LEAST_ROWS, self._n_rows / 2):
            return "numbers the rows of each bag"
        return None

    def _add_to_range(self, whole: NDArray[np.int64]) -> bool:
        if len(np.unique(whole)) < len(whole):
            return False
        least = int(whole.min())
        greatest = int(whole.max())
        total = _hash(whole)
        if self._file is not None:
            n, low, high, before = self._file
            self._file = n + len(whole), min(low, least), max(high, greatest), (before + total) % 2**64
        else:
            self._file = len(whole), least, greatest, total
        return True

    def _add_to_steps(self, whole: NDArray[np.int64], codes: NDArray[Any], bags: Sequence[Any]) -> bool:
        order = np.argsort(codes, kind="stable")
        values = whole[order]
        sorted_codes = codes[order]
        changes = np.flatnonzero(np.diff(sorted_codes)) + 1
        steps = np.diff(values)
        steps[changes - 1] = 1
        if (steps != 1).any():
            return False
        starts = np.append(0, changes)
        ends = np.append(changes, len(values)) - 1
        found = {bags[sorted_codes[i]]: (int(values[i]), int(values[j])) for i, j in zip(starts, ends, strict=True)}
        again = [bag for bag in found if bag in self._last]
        self._n_steps += len(values) - len(found) + len(again)
        fits = all(found[bag][0] == self._last[bag] + 1 for bag in again)
        self._last |= {bag: last for bag, (_, last) in found.items()}
        return fits


def _as_whole(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return values as whole numbers if they all are, else None."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64) if values.max() <= np.iinfo(np.int64).max else None
    if values.dtype.kind != "f" or not (np.abs(values) <= _LARGEST_WHOLE).all() or (np.trunc(values) != values).any():
        return None
    return values.astype(np.int64)


def _hash(whole: NDArray[np.int64]) -> int:
    """Return the sum of the hashes of whole numbers, modulo 2^64: the finaliser of SplitMix64."""
    x = whole.view(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((x ^ (x >> np.uint64(31))).sum(dtype=np.uint64))


def _hash_of_range(least: int, greatest: int, step: int = 1 << 20) -> int:
    starts = range(least, greatest + 1, step)
    return sum(_hash(np.arange(i, min(i + step, greatest + 1), dtype=np.int64)) for i in starts) % 2**64


# --------------------------------------------------------------------------------------------------------------
# The choice
# --------------------------------------------------------------------------------------------------------------


def choose(candidates: Sequence[Any], reasons: Mapping[Any, str]) -> tuple[list[Any], dict[Any, str]]:
    """Return the columns that are coordinates, and why others are not; where nothing would be left, all are.

    Examples
    --------
    >>> choose(["x", "id"], {"id": "numbers the rows", "name": "holds text"})
    (['x'], {'id': 'numbers the rows', 'name': 'holds text'})
    >>> choose(["id"], {"id": "numbers the rows", "name": "holds text"})
    (['id'], {'name': 'holds text'})
    """
    chosen = [name for name in candidates if name not in reasons] or list(candidates)
    taken = set(chosen)
    return chosen, {name: why for name, why in reasons.items() if name not in taken}


def left_out_text(chosen: Sequence[Any], left_out: Mapping[Any, str]) -> Message:
    """Return what is left out and why, and how to have it otherwise.

    Examples
    --------
    >>> print(left_out_text(["x", "y"], {"id": "numbers the rows, from 0 to 99"}))
    left out: 'id' numbers the rows, from 0 to 99. Coordinates are 'x', 'y'; name them by columns if others are meant
    """
    each = listed([f"{name!r} {why}" for name, why in left_out.items()], "; ")
    said = f"left out: {each}. Coordinates are {listed([repr(name) for name in chosen])}; name them by "
    texts = any(why == HOLDS_TEXT for why in left_out.values())
    more = (", and text whose values are labels by ", Argument("categorical")) if texts else ()
    return Message(said, Argument("columns"), " if others are meant", *more)


def listed(names: Sequence[Any], sign: str = ", ") -> str:
    """Return names as text, of many the first.

    Examples
    --------
    >>> listed(["x", "y"])
    'x, y'
    """
    shown = [str(name) for name in names[:_MOST_NAMES]]
    return sign.join([*shown, *([f"... ({len(names):,} in all)"] if len(names) > len(shown) else [])])
