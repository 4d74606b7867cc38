"""What a class is: one form of it, whatever holds it.

The classes 1, 1.0, True and "1.0" may be one class: a table of text knows no types, a Parquet file does, pandas makes
floats of whole numbers beside a gap. Fits, scores, reports and the command line all go by the two rules here.

:func:`canonical_classes` is what a fit keeps: whole numbers are integers, truth values booleans, all else text.
:func:`unify_classes` makes classes from several places comparable. Those of one kind compare by value. Otherwise they
compare by name: numbers in their shortest spelling, ``1`` for ``1.0`` and ``+1``, ``0`` for ``-0.0``; truth values as
``True`` and ``False``, or as 1 and 0 where the others are these. A number with leading zeros, ``01``, is a text like
others, and so is every text where two of one place would have the same name. Blanks, case, leading zeros and Unicode
forms count: :func:`refuse_strangers` raises where they alone make the difference between two places, and
:func:`warn_if_alike` warns where they do in one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..bags.flat import few
from ..bags.ids import alike, is_missing, near_match
from ..compute.arrays import Array
from ..compute.checks import InputError

_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,300})(\.[0-9]{0,300})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)  # names that are 64-bit integers
_TRUTHS = {"true": "True", "false": "False"}
_AS_NUMBERS = {"True": "1", "False": "0"}
_MOST_WHOLE = 2.0**53  # beyond, floats are not all the whole numbers


def canonical_classes(values: Any) -> Array:
    """Classes in the form that a fit keeps.

    Parameters
    ----------
    values : array-like of shape (n,)
        Text, numbers or truth values, for instance a Categorical or nullable integers of pandas.

    Returns
    -------
    ndarray of shape (n,)
        Integers if all are whole numbers, booleans, text, or what was given where it is none of these.

    Examples
    --------
    >>> canonical_classes([1.0, -0.0]), canonical_classes(np.array(["b", "a"], object))
    (array([1, 0]), array(['b', 'a'], dtype='<U1'))
    """
    found = np.asarray(values)
    if found.dtype.kind == "T":
        found = found.astype(object)
    if found.dtype.kind == "O" and found.ndim == 1:
        found = _from_objects(found)
    if found.dtype.kind == "u" and (not found.size or found.max() < 2**63):
        return found.astype(np.int64)
    if found.dtype.kind == "f" and np.all((np.trunc(found) == found) & (np.abs(found) <= _MOST_WHOLE)):
        return found.astype(np.int64)
    return found


def _from_objects(values: Array) -> Array:
    """Objects of one kind as an array of that kind; others as they are."""
    kinds: set[Any] = {type(value) for value in values.tolist()}
    if not kinds or any(is_missing(value) for value in values.tolist()):
        return values
    if all(issubclass(kind, str) for kind in kinds):
        return values.astype(str)
    if kinds <= {bool, np.bool_}:
        return values.astype(bool)
    if all(issubclass(kind, Integral) and kind is not bool for kind in kinds):
        return np.array(values.tolist())
    if all(issubclass(kind, Real) and kind is not bool for kind in kinds):
        return values.astype(np.float64)
    return values


def class_name(value: Any) -> str:
    """The name of a class: the one text that stands for it in tables and on the command line.

    Examples
    --------
    >>> [class_name(each) for each in (1.0, "+1", "-0.0", True, "TRUE", "01", " a")]
    ['1', '1', '0', 'True', 'True', '01', ' a']
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    text = str(value)
    if not _NUMBER.fullmatch(text):
        return _TRUTHS.get(text.lower(), text)
    if text.lstrip("+-").isdecimal():
        return str(int(text))
    number = float(text)
    return str(int(number)) if number == np.trunc(number) and abs(number) <= _MOST_WHOLE else repr(number)


def class_names(classes: Any) -> list[str]:
    """Names of different classes, which differ too: texts as they are where two would have the same name.

    Examples
    --------
    >>> class_names([0.0, 1.0]), class_names(["1", "1.0"])
    (['0', '1'], ['1', '1.0'])
    """
    values = np.asarray(classes).tolist()
    names = [class_name(value) for value in values]
    return names if len(set(names)) == len(set(values)) else [str(value) for value in values]


def unify_classes(*places: Any) -> list[Array]:
    """Classes from several places in one form, in which equal ones are equal.

    Parameters
    ----------
    *places : array-like of shape (n,)
        Labels, predictions, the classes of a model, ...

    Returns
    -------
    list of ndarray of shape (n,)
        As they are where all are numbers, or truth values; else their names, or these as integers if they can be.

    Examples
    --------
    >>> unify_classes(["1.0", "2"], [1, 2]), unify_classes([True, False], [1, 0])
    ([array([1, 2]), array([1, 2])], [array([1, 0]), array([1, 0])])
    >>> unify_classes(["1", "01"], ["1"])
    [array(['1', '01'], dtype='<U2'), array(['1'], dtype='<U1')]
    """
    given = [canonical_classes(values) for values in places]
    kinds = {values.dtype.kind for values in given if len(values)}
    if kinds <= set("iu") or kinds == {"b"}:
        return given
    given = [values.astype(str) if values.dtype.kind == "O" else values for values in given]
    distinct = [np.unique(values).tolist() for values in given]
    plain = all(len({class_name(value) for value in values}) == len(values) for values in distinct)
    known = [
        {value: str(value) if isinstance(value, str) and not plain else class_name(value) for value in values}
        for values in distinct
    ]
    names = {name for table in known for name in table.values()}
    if names <= {"0", "1", *_AS_NUMBERS} and not names.isdisjoint("01"):
        known = [{value: _AS_NUMBERS.get(name, name) for value, name in table.items()} for table in known]
        names = {"0", "1"}
    whole = plain and all(_WHOLE.fullmatch(name) for name in names)
    return [_rename(values, table, whole) for values, table in zip(given, known, strict=True)]


def _rename(values: Array, table: dict[Any, str], whole: bool) -> Array:
    """Values with their names in place, as integers if they are."""
    distinct, codes = np.unique(values, return_inverse=True)
    names = np.array([table[value] for value in distinct.tolist()], str)
    return np.asarray((names.astype(np.int64) if whole else names)[codes])


def find_classes(labels: Any, classes: Any) -> Array:
    """Positions of labels among classes, -1 where a label is none of them.

    Examples
    --------
    >>> find_classes(["1.0", "7"], [0, 1])
    array([ 1, -1])
    """
    given, known = unify_classes(labels, classes)
    position = {name: k for k, name in enumerate(known.tolist())}
    distinct, codes = np.unique(given, return_inverse=True)
    return np.array([position.get(name, -1) for name in distinct.tolist()], np.int64)[codes]


def refuse_strangers(labels: Any, classes: Any, here: str, there: str) -> None:
    """Raise if labels share no class with others, or if some of them differ in form alone.

    Parameters
    ----------
    labels, classes : array-like of shape (n,)
        Of one form, see :func:`unify_classes`.
    here, there : str
        What errors call them.

    Examples
    --------
    >>> refuse_strangers(["Ill", "well"], ["ill", "well"], "the labels", "the predictions")
    Traceback (most recent call last):
    ...
    distembed.compute.checks.InputError: the labels and the predictions must spell classes alike, got 'Ill' and 'ill'...
    """
    own = set(np.asarray(labels).tolist())
    known = set(np.asarray(classes).tolist())
    near = near_match(sorted(own - known, key=str), sorted(known - own, key=str))
    if near is not None:
        raise InputError(
            f"{here} and {there} must spell classes alike, got {near.one!r} and {near.two!r}, which differ in "
            f"{near.what}; rename one of them"
        )
    if own and known and own.isdisjoint(known):
        raise InputError(
            f"{here} and {there} must share classes, got {_some(own)} and {_some(known)}; check that both are of the "
            "same column, and spell classes alike"
        )


def warn_if_alike(owner: object, classes: Array, stacklevel: int = 2) -> None:
    """Warn where two classes of one column differ in form alone, such as ``"ill"`` and ``"ill "``."""
    near = alike([class_name(name) for name in classes.tolist()]) if classes.dtype.kind == "U" else None
    if near is not None:
        warnings.warn(
            f"{type(owner).__name__}: y has the classes {near.one!r} and {near.two!r}, which differ in {near.what} "
            "alone, and count as two; rename one of them if they are one",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def refuse_missing(labels: Any, here: str) -> None:
    """Raise if a bag has no class: None, NaN or a data frame's NA."""
    values = np.asarray(labels)
    lost = np.flatnonzero([is_missing(value) for value in values.tolist()] if values.dtype.kind in "OfM" else [])
    if lost.size:
        raise InputError(
            f"{here} must be a class for every bag, got {values[lost].tolist()[0]!r} for bag {lost[0]} ({lost.size} "
            "such bags in all); leave them out"
        )


def _some(names: set[Any]) -> str:
    return few(sorted(names))


def as_classes_of(labels: Any, classes: Array, here: str, there: str) -> Array:
    """Labels in the form of the classes of a model; others than these stay as they are.

    Parameters
    ----------
    labels : array-like of shape (n,)
        What bags are.
    classes : ndarray of shape (n_classes,)
        What the model knows.
    here, there : str
        What errors call them.

    Returns
    -------
    ndarray of shape (n,)
        A label that the model does not know is an error if it is of another kind than its classes.

    Examples
    --------
    >>> as_classes_of(["1.0", "0"], np.array([0, 1]), "y", "the classes of the model")
    array([1, 0])
    """
    refuse_missing(labels, here)
    given, known = unify_classes(labels, classes)
    refuse_strangers(given, known, here, there)
    codes = find_classes(given, known)
    if np.all(codes >= 0):
        return np.asarray(classes[codes])
    if given.dtype.kind != classes.dtype.kind:
        strange = np.asarray(labels)[codes < 0].tolist()[0]
        raise InputError(f"{here} must be among {there}, {classes.tolist()}, got {strange!r}; correct it, or fit again")
    return np.where(codes >= 0, classes[codes], given)


def one_class(value: Any, classes: Sequence[Any] | Array) -> Any:
    """The class that a value stands for, as it is among the classes, or None.

    Examples
    --------
    >>> one_class("1.0", [0, 1]), one_class("x", [0, 1])
    (1, None)
    """
    code = int(find_classes([value], classes)[0])
    return None if code < 0 else np.asarray(classes)[code : code + 1].tolist()[0]
