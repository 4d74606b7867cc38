"""Values that belong to bags in tables of points: one value in all rows of a bag."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Message
from .categories import factorise
from .flat import FlatBags, IntArray, few, gather_rows
from .ids import canonical_text, column_keys, group


def rows_of_values(
    keys: NDArray[Any], values: NDArray[Any], missing: IntArray, begin: Any, remedy: Any
) -> tuple[NDArray[Any], IntArray]:
    """Return the bags in order of first appearance, and for each a row that has its value, -1 where none has one.

    Parameters
    ----------
    keys, values : ndarray of shape (n_rows,)
        Bag and value of each row.
    missing : ndarray of int
        The rows without a value.
    begin, remedy : str or Message
        How the error for a bag with two values begins, and what it advises.

    Examples
    --------
    >>> keys = np.array(["b", "a", "b"])
    >>> rows_of_values(keys, np.array([31, 64, 31]), np.array([], int), "age", "correct it")
    (array(['b', 'a'], dtype='<U1'), array([0, 1]))
    """
    there = np.ones(len(values), bool)
    there[missing] = False
    codes = np.full(len(values), -1)
    codes[there], distinct = factorise(values[there], str(begin))
    rows, offsets, ids = group(keys)
    codes = codes if rows is None else codes[rows]
    low, high = (reduce(codes, offsets[:-1]) for reduce in (np.minimum.reduceat, np.maximum.reduceat))
    varying = np.flatnonzero(low != high)
    if varying.size:
        i = varying[0]
        both = " and ".join("none" if code < 0 else repr(distinct[code]) for code in (low[i], high[i]))
        more = "" if varying.size == 1 else f", and in {varying.size - 1:,} more bags"
        said = f" must have one value per bag, got {both} in bag {few([ids[i]])}{more}; "
        raise ValueError(Message(begin, said, remedy))
    first = offsets[:-1] if rows is None else rows[offsets[:-1]]
    return ids, np.where(low < 0, -1, first)


def column_of_bags(keys: NDArray[Any], column: Any, name: Any) -> NDArray[Any]:
    """Return the values of a column of a table of points, one per bag, in order of first appearance.

    Examples
    --------
    >>> column_of_bags(np.array(["b", "a", "b"]), ["ill", "well", "ill"], "status")
    array(['ill', 'well'], dtype='<U4')
    """
    values, missing = column_keys(column)
    where = f"label={name!r}"
    if values.shape != keys.shape:
        raise ValueError(f"{where} must have one value per row, shape {keys.shape}, got {values.shape}")
    ids, rows = rows_of_values(keys, values, missing, where, "name another column, or correct those rows")
    if (rows < 0).any():
        raise ValueError(
            f"{where} must have a value for every bag, got none for {few(ids[rows < 0].tolist())}; leave those rows "
            f"out: df[df[{name!r}].notna()]"
        )
    return np.asarray(values[rows].tolist()) if values.dtype == object else values[rows]


def check_label(label: Any, others: Mapping[str, Collection[Any]]) -> None:
    """Refuse a column of labels that is something else too."""
    for argument, asked in others.items():
        if label in asked:
            raise ValueError(
                f"label={label!r} must be a column of its own, got one that {argument} names too; leave it out of one"
            )


def points_of_rows(bags: FlatBags, keys: NDArray[Any], owner: str) -> IntArray:
    """Return the point that each row of a table of points is, its position in ``bags.points``, -1 for other bags' rows.

    Parameters
    ----------
    bags : Bags
        Made from the table, or some of those; none of their points left out.
    keys : ndarray of shape (n_rows,)
        Bag of each row.
    owner : str
        How errors call who asks.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> bags = Bags([[1.0], [3.0], [2.0]], [0, 2, 3], ids=["b", "a"])
    >>> points_of_rows(bags, np.array(["b", "a", "b", "c"]), "example")
    array([ 0,  2,  1, -1])
    """
    known = {name: i for i, name in enumerate(canonical_text(bags.ids).tolist())}
    rows, offsets, ids = group(keys)
    place = np.array([known.get(name, -1) for name in canonical_text(ids).tolist()], np.intp)
    counts = np.diff(offsets)
    wrong = np.flatnonzero((place >= 0) & (counts != bags.sizes[place]))
    if wrong.size:
        i = int(place[wrong[0]])
        raise ValueError(
            f"{owner}: {bags.name_of(i)} must have its {bags.sizes[i]} points among the rows, got {counts[wrong[0]]}; "
            "pass the column of the table that the bags were made from"
        )
    found = np.full(len(keys), -1)
    here = place >= 0
    at, _ = gather_rows(offsets[:-1][here], counts[here])
    points, _ = gather_rows(bags.offsets[place[here]], counts[here])
    found[at if rows is None else rows[at]] = points
    return found
