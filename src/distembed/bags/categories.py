"""Categorical columns of bags: their labels, and the codes 0, 1, ... that stand for them among the points.

A column of `points` is categorical if `categories` gives it labels; its values are then positions in those labels.
Inside a `Bags` the labels are a tuple of pairs (column, labels), in order of the columns: it is hashable, compares by
value and pickles. Labels are text, numbers or booleans, so files hold them without pickle.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import InputError, closest_name
from .flat import Categories, FloatArray, IntArray, Label, Parts, few, row_name

MAX_LABELS = 2**24  # float32 holds whole numbers exactly up to here
OTHER = "other"  # what labels become that are not among those of the training bags


def column_name(j: int, columns: Sequence[str] | None) -> str:
    """Return how errors call a column: its name, or its position where columns have none."""
    return f"column {j}" if columns is None else f"column {columns[j]!r}"


def check_categories(categories: Any, parts: Parts) -> Categories | None:
    """Return the labels of the categorical columns of valid `parts`, or raise the error that names what is wrong.

    Examples
    --------
    >>> parts = Parts(np.array([[0.5, 1.0]]), np.array([0, 1]), columns=("age", "sex"))
    >>> check_categories({"sex": ["f", "m"]}, parts)
    ((1, ('f', 'm')),)
    """
    try:
        given = dict(categories)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"categories must map columns to their labels, such as {{1: ['f', 'm']}}, got {categories!r}; pass a dict"
        ) from error
    found: dict[int, tuple[Label, ...]] = {}
    for key, labels in given.items():
        j = _position(key, parts)
        name = column_name(j, parts.columns)
        if j in found:
            raise ValueError(f"categories must give {name} labels once, got them by name and by position; leave one")
        found[j] = check_labels(labels, f"categories of {name}")
        _check_codes(j, len(found[j]), parts)
    return tuple(sorted(found.items())) or None


def _position(key: Any, parts: Parts) -> int:
    n_dims = parts.points.shape[1]
    columns = parts.columns
    if isinstance(key, str) and columns is not None and key in columns:
        return columns.index(key)
    if isinstance(key, Integral) and not isinstance(key, bool) and 0 <= int(key) < n_dims:
        return int(key)
    names = "" if columns is None else f" or a name, one of {few(columns)}"
    close = closest_name(key, columns or ())
    hint = "use one" if close is None else f"did you mean {close!r}?"
    raise ValueError(f"categories must name columns by a position from 0 to {n_dims - 1}{names}, got {key!r}; {hint}")


def check_labels(labels: Any, where: str) -> tuple[Label, ...]:
    """Return labels as a tuple of distinct Python texts, numbers or booleans.

    Examples
    --------
    >>> check_labels(np.array([1, 2]), "categories of column 0")
    (1, 2)
    """
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) == 0:
        raise TypeError(f"{where} must be a sequence of labels, got {labels!r}; write [{labels!r}] for a single one")
    plain = tuple(plain_label(label, where) for label in labels)
    if not 0 < len(plain) <= MAX_LABELS:
        raise ValueError(f"{where} must be 1 to {MAX_LABELS:,} labels, got {len(plain)}; give every label once")
    if len(set(plain)) < len(plain):
        twice = [label for i, label in enumerate(plain) if label in plain[:i]]
        raise ValueError(f"{where} must be distinct, got more than once: {few(twice)}; give every label once")
    return plain


def given_labels(categorical: Any) -> dict[Any, Any]:
    """Return, for each column that the argument `categorical` names, its labels, or None where the column has them.

    Examples
    --------
    >>> given_labels("sex"), given_labels({"sex": ["f", "m"]})
    ({'sex': None}, {'sex': ('f', 'm')})
    """
    if categorical is None:
        return {}
    if isinstance(categorical, Mapping):
        return {name: check_labels(each, f"categorical[{name!r}]") for name, each in categorical.items()}
    if isinstance(categorical, str):
        return {categorical: None}
    if isinstance(categorical, Iterable) and getattr(categorical, "ndim", 1) != 0:
        return dict.fromkeys(categorical)
    raise TypeError(
        "categorical must be a sequence of names of columns, or a mapping of names to labels, got "
        f"{categorical!r}; write categorical=['sex']"
    )


def plain_label(label: Any, where: str) -> Label:
    """Return a label as a Python text, number or boolean."""
    moment = isinstance(label, np.datetime64 | np.timedelta64)  # in nanoseconds, item() would make a number of it
    value = label.item() if isinstance(label, np.generic) and not moment else label
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    kind = type(label).__name__
    raise TypeError(f"{where} must be text, finite numbers or booleans, got {label!r} of type {kind}; use str(label)")


def _check_codes(j: int, n_labels: int, parts: Parts) -> None:
    """Raise, naming the first place, if a categorical column holds anything but positions of labels."""
    codes = parts.points[:, j]
    bad = np.flatnonzero((codes < 0) | (codes >= n_labels) | (codes != np.floor(codes)))
    if bad.size:
        row = int(bad[0])
        raise ValueError(
            f"{column_name(j, parts.columns)} is categorical and must hold codes, whole numbers from 0 to "
            f"{n_labels - 1}, got {codes[row]:g} at {row_name(row, parts.offsets, parts.ids)} "
            f"({bad.size} such values in all); Bags.from_frame(..., categorical=[...]) makes codes of labels"
        )


def common(parts: Sequence[Parts], columns: Sequence[str] | None) -> Categories | None:
    """Return the categories that all of the parts have, or raise the error that names those that disagree."""
    for i, part in enumerate(parts):
        if part.categories != parts[0].categories:
            rule = "concat needs equal categories"
            got = dict(part.categories or ())
            wanted = dict(parts[0].categories or ())
            refuse_different(rule, got, wanted, columns, f"position {i}", "position 0")
    return parts[0].categories


def refuse_different(
    rule: str,
    got: Mapping[int, tuple[Label, ...]],
    wanted: Mapping[int, tuple[Label, ...]],
    columns: Sequence[str] | None,
    here: str,
    there: str,
) -> NoReturn:
    """Raise the error for the first column whose labels differ."""
    j = min(j for j in {*got, *wanted} if got.get(j) != wanted.get(j))
    pairs = ((got.get(j), here), (wanted.get(j), there))
    both = " and ".join(f"{'no labels' if labels is None else f'labels {few(labels)}'} at {at}" for labels, at in pairs)
    raise InputError(
        f"{rule}, got in {column_name(j, columns)} {both}; encode both with the same labels: "
        "Bags.from_frame(..., categorical=other.category_labels), or pass the same categories to Bags"
    )


# ------------------------------------------------------------------------------------------------- encoding
def factorise(keys: NDArray[Any], name: str) -> tuple[IntArray, list[Any]]:
    """Return, for each key, its position among the distinct ones, and those, sorted where they are of one kind.

    Examples
    --------
    >>> factorise(np.array(["m", "f", "m"], dtype=object), "column 'sex'")
    (array([1, 0, 1]), ['f', 'm'])
    """
    if keys.dtype.kind != "O":
        distinct, codes = np.unique(keys, return_inverse=True)
        moments = distinct.dtype.kind in "mM"  # in nanoseconds, tolist() would make numbers of them
        return codes.astype(np.int64, copy=False), list(distinct if moments else distinct.tolist())
    seen: dict[Any, int] = {}
    try:
        codes = np.fromiter((seen.setdefault(key, len(seen)) for key in keys), np.int64, len(keys))
        order = sorted(seen)
    except TypeError as error:
        kinds = sorted({type(key).__name__ for key in keys})
        raise TypeError(
            f"{name} must hold labels of one kind, text, numbers or booleans, got {', '.join(kinds)}; convert them "
            "with str, or give the labels: categorical={name: [...]}"
        ) from error
    rank = np.empty(len(order), np.int64)
    rank[[seen[key] for key in order]] = np.arange(len(order))
    return rank[codes], order


def recode(codes: IntArray, distinct: Sequence[Any], labels: Sequence[Label]) -> IntArray:
    """Return codes into `labels` from codes into the distinct values; -1 for a value that is not a label.

    Examples
    --------
    >>> recode(np.array([0, 1, 1]), ["f", "x"], ("m", "f"))
    array([ 1, -1, -1])
    """
    position = {label: k for k, label in enumerate(labels)}
    table = np.array([position.get(value, -1) for value in distinct], np.int64)
    return np.asarray(table[codes])


def with_other(found: Sequence[Label], known: tuple[Label, ...], where: str, stacklevel: int = 2) -> tuple[Label, ...]:
    """Return known labels, with "other" as the last if some of those found are not among them, which is warned of.

    Numbers where text is known are an error: all of them would be others.

    Examples
    --------
    >>> with_other(["m"], ("f", "m"), "column 'sex'")
    ('f', 'm')
    """
    strange = [label for label in found if label not in known]
    if not strange:
        return known
    if {isinstance(label, str) for label in found}.isdisjoint(isinstance(label, str) for label in known):
        kinds = ("text", "numbers") if isinstance(strange[0], str) else ("numbers", "text")
        raise InputError(
            f"{where} must hold the labels {few(known)}, got {kinds[0]} such as {few(strange[:1])} where these are "
            f"{kinds[1]}; convert the column"
        )
    warnings.warn(
        f"{where}: labels that the training bags lack, such as {few(strange[:1])}, count as {OTHER!r}; fit again with "
        "bags that have them if they matter",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return known if OTHER in known else (*known, OTHER)


def as_known(
    points: FloatArray, got: Mapping[int, tuple[Label, ...]], known: Mapping[int, tuple[Label, ...]], columns: Any
) -> tuple[FloatArray, Categories]:
    """Return points, and their labels, with the codes of known labels in place of their own; others become "other".

    Labels that are the known ones already, with "other" after them or without, stay as they are.

    Examples
    --------
    >>> as_known(np.array([[0.0], [1.0]]), {0: ("m", "f")}, {0: ("f", "m")}, ["sex"])
    (array([[1.],
           [0.]]), ((0, ('f', 'm')),))
    """
    labels = dict(got)
    points = points.copy()
    for j, own in known.items():
        if got[j] in (own, (*own, OTHER)):
            continue
        found, codes = np.unique(points[:, j].astype(np.int64), return_inverse=True)
        used = [got[j][k] for k in found.tolist()]
        labels[j] = with_other(used, own, column_name(j, columns), stacklevel=4)
        new = recode(codes, used, labels[j])
        points[:, j] = np.where(new < 0, labels[j].index(OTHER) if OTHER in labels[j] else -1, new)
    return points, tuple(sorted(labels.items()))


def decode(codes: FloatArray, labels: Sequence[Label]) -> Any:
    """Return the labels of codes, a NumPy array if they are of one kind, else a list.

    Examples
    --------
    >>> decode(np.array([1.0, 0.0]), (False, True))
    array([ True, False])
    """
    whole = codes.astype(np.int64)
    if len({type(label) for label in labels}) > 1:
        return [labels[k] for k in whole.tolist()]
    return np.array(labels, dtype=object if isinstance(labels[0], str) else None)[whole]
