"""Missing values of points: refused with a count, left out with their points, or filled in and marked.

An indicator is a column ``name missing`` of 0 and 1 next to the column ``name``, whose missing values are filled with
the mean of the others. Fills by column are all that new bags need to get the same columns, and bags know their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, Message
from .checks import Fills, Rule
from .flat import FloatArray, IntArray, Parts, bag_name, few, keep_points, row_name

LABEL = "missing"  # of missing values in categorical columns
SUFFIX = f" {LABEL}"


def remedies(*also: str) -> Message:
    """Return how an error names the choices."""
    return Message(
        "pass ", Argument("nan", "drop"), " to leave out such points, or ", Argument("nan", "indicator"),
        " to fill the values in and add indicator columns", *also,
    )  # fmt: skip


def count_text(counts: Sequence[int] | IntArray, columns: Sequence[str]) -> str:
    """Return how many values are missing in each column that lacks some.

    Examples
    --------
    >>> count_text([3, 0, 1], ["age", "sex", "income"])
    "3 in 'age', 1 in 'income'"
    """
    lacking = [(name, int(n)) for name, n in zip(columns, counts, strict=True) if n]
    more = f" and others in {len(lacking) - 8:,} more columns" if len(lacking) > 8 else ""
    return ", ".join(f"{n:,} in {name!r}" for name, n in lacking[:8]) + more


def mean_fills(sums: FloatArray, present: IntArray, missing: IntArray, columns: Sequence[str]) -> Fills:
    """Return the mean of the present values of each column that has missing ones.

    Parameters
    ----------
    sums, present, missing : ndarray of shape (n_dims,)
        Of each column: the sum of its finite values, their number, and the number of missing ones.
    columns : sequence of str
        Names of the columns.

    Examples
    --------
    >>> mean_fills(np.array([6.0, 4.0]), np.array([3, 2]), np.array([0, 1]), ["x", "y"])
    {'y': 2.0}
    """
    empty = np.flatnonzero((present == 0) & (missing > 0))
    if empty.size:
        raise ValueError(
            f"column {columns[empty[0]]!r} has no value at all, so missing ones can't be filled in; leave it out of "
            "columns"
        )
    return {columns[j]: float(sums[j] / present[j]) for j in np.flatnonzero(missing).tolist()}


def settle(parts: Parts, rule: Rule, empty: str = "error") -> Parts:
    """Return the parts of bags without missing values (NaN): refused, left out or filled in.

    Parameters
    ----------
    parts : Parts
        Not yet validated, with named columns; infinity is left for validation to refuse.
    rule : {"error", "drop", "indicator"}, or dict of column to fill
        From :func:`~distembed.bags.checks.check_nan`.
    empty : {"error", "allow"}
        How to handle a bag that loses all its points.

    Returns
    -------
    Parts
        One pass over the points, O(n_points n_dims); nothing is copied where nothing is missing.

    Examples
    --------
    >>> parts = Parts(np.array([[1.0, 5.0], [3.0, np.nan]]), np.array([0, 2]), columns=("x", "y"))
    >>> settle(parts, "drop").points, settle(parts, "indicator").points
    (array([[1., 5.]]), array([[1., 5., 0.],
           [3., 5., 1.]]))
    """
    columns = parts.columns or ()
    with np.errstate(over="ignore", invalid="ignore"):
        whole = bool(np.isfinite(parts.points.sum()))
    missing = None if whole else np.isnan(parts.points)
    if missing is not None and not missing.any():
        missing = None
    if isinstance(rule, dict):
        return _fill(parts, rule, missing)
    if missing is None:
        return parts
    counts = missing.sum(axis=0)
    if rule == "indicator":
        present = np.isfinite(parts.points)
        sums = parts.points.sum(axis=0, where=present, dtype=np.float64)
        return _fill(parts, mean_fills(sums, present.sum(axis=0), counts, columns), missing)
    if rule == "drop":
        return _drop(parts, np.asarray(missing.any(axis=1)), empty)
    row, column = divmod(int(np.argmax(missing)), len(columns))
    raise ValueError(
        Message(
            f"points must be finite, got nan at {row_name(row, parts.offsets, parts.ids)}, column {columns[column]!r}; "
            f"missing values (NaN, None or null): {count_text(counts, columns)}; ", remedies(),
        )
    )  # fmt: skip


def fills_of(points: FloatArray, columns: Sequence[str] | None) -> Fills:
    """Return the fills of bags with indicators, by column: the value that stands where one was missing.

    Where none was, as in a part of the bags, it is the mean of the column.

    Examples
    --------
    >>> fills_of(np.array([[1.0, 0.0], [2.5, 1.0], [4.0, 0.0]]), ["x", "x missing"])
    {'x': 2.5}
    """
    fills: Fills = {}
    for j, name in enumerate(columns or ()):
        partner = name.removesuffix(SUFFIX)
        if partner != name and columns is not None and partner in columns:
            values = points[:, columns.index(partner)]
            rows = np.flatnonzero(points[:, j])
            fills[partner] = float(values[rows[0]] if rows.size else values.mean(dtype=np.float64))
    return fills


def _drop(parts: Parts, out: NDArray[np.bool_], empty: str) -> Parts:
    kept = keep_points(parts, ~out)
    lost = np.flatnonzero(np.diff(kept.offsets) == 0)
    if lost.size and empty != "allow":
        more = "" if lost.size == 1 else f" ({lost.size:,} such bags in all)"
        raise ValueError(
            Message(
                f"{bag_name(int(lost[0]), parts.ids)} has missing values in every point, so ",
                Argument("nan", "drop"), f" leaves none{more}; leave that bag out, or pass ",
                Argument("nan", "indicator"),
            )
        )  # fmt: skip
    return kept


def _fill(parts: Parts, fills: Fills, missing: NDArray[np.bool_] | None) -> Parts:
    """Return the parts with filled columns, and an indicator after all others for each of the `fills`."""
    columns = parts.columns or ()
    points = parts.points
    unknown = [name for name in fills if name not in columns]
    names = [f"{name}{SUFFIX}" for name in fills]
    if unknown:
        raise ValueError(
            f"nan fills in {few(unknown)}, which is not among the columns {few(columns)}; add it to columns"
        )
    taken = [name for name in names if name in columns]
    if taken:
        raise ValueError(f"column {taken[0]!r} would mark missing values, and the table has one; rename it")
    places = [columns.index(name) for name in fills]
    new = np.empty((len(points), len(columns) + len(fills)), points.dtype)
    new[:, : len(columns)] = points
    for k, (j, fill) in enumerate(zip(places, fills.values(), strict=True), len(columns)):
        new[:, k] = 0 if missing is None else missing[:, j]
        if missing is not None:
            new[missing[:, j], j] = fill
    others = [] if missing is None else [j for j in np.flatnonzero(missing.any(axis=0)) if j not in places]
    if others:
        row = int(np.argmax(missing[:, others[0]]))  # type: ignore[index]
        raise ValueError(
            f"column {columns[others[0]]!r} must have no missing values (NaN, None or null), because the bags that "
            f"the fills are from had none, got one at {row_name(row, parts.offsets, parts.ids)}; drop such points, or "
            "fit again with some"
        )
    return parts._replace(points=new, columns=(*columns, *names))
