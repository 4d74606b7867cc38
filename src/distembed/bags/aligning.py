"""Values that belong to bags, such as targets and weights, in the order of the bags: by their ids where there are some.

A Series or data frame of pandas has an index. If it is the ids of the bags, in any order, it says whose the values are.
If it has none of them, as 0, 1, ... beside ids that are text, the values are in the order of the bags. An index that
has some of the ids, or has them as numbers where they are text, is refused: any guess could be wrong. An index of
several levels is joined as the columns of ``from_frame(bag=[...])`` are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import check_choice, meant
from .checks import refuse_repeated
from .flat import FlatBags, IntArray, few
from .row_keys import joined_ids, plain_ids


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


def aligned(ids: NDArray[Any], targets: Any, extra: str) -> NDArray[Any]:
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


def positions(ids: NDArray[Any], wanted: Any) -> IntArray:
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
        return joined_ids([index.get_level_values(k).to_numpy() for k in range(index.nlevels)])
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
    close = meant(absent[0], known) if absent else None
    return f" (is {close!r} meant for {absent[0]!r}?)" if close else ""
