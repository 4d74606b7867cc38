"""Several collections of bags as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .categories import common
from .checks import refuse_repeated
from .container import Bags
from .flat import Parts, no_bags

__all__ = ["concat"]


def concat(collections: Iterable[Bags]) -> Bags:
    """Return the bags of several `Bags`, one after another.

    Parameters
    ----------
    collections : iterable of Bags
        Of equal width and `categories`, and of equal `columns` where they have them. Either all have ids, which must
        not repeat, or none has. Where only some have weights, the points of the others weigh one.

    Returns
    -------
    Bags
        float32 only if all are.

    Examples
    --------
    >>> from distembed.bags import Bags, concat
    >>> concat([Bags.from_arrays([[1.0]]), Bags.from_arrays([[2.0, 3.0]])]).sizes
    array([1, 2])
    """
    if isinstance(collections, Bags):
        raise TypeError("concat takes a list of Bags, got one Bags; write concat([a, b])")
    parts = list(collections)
    for i, part in enumerate(parts):
        if not isinstance(part, Bags):
            raise TypeError(f"concat takes Bags, got {type(part).__name__} at position {i}; use as_bags")
    joined = join([part.parts for part in parts])
    categories = common([part.parts for part in parts], joined.columns)
    return parts[0].replace(**joined._replace(categories=categories)._asdict())


def join(parts: Sequence[Parts]) -> Parts:
    """Return valid parts one after another, or raise the error that says which of them disagree."""
    if not parts:
        raise no_bags("concat got an empty list")
    widths = [part.points.shape[1] for part in parts]
    names = [part.columns for part in parts]
    first = next((i for i, columns in enumerate(names) if columns is not None), 0)
    for i, part in enumerate(parts):
        if widths[i] != widths[0]:
            raise ValueError(
                f"concat needs bags of equal width, got n_dims={widths[i]} at position {i} and "
                f"n_dims={widths[0]} at position 0; give all of them the same columns, e.g. by "
                "Bags.from_frame(..., columns=[...])"
            )
        if (part.ids is None) != (parts[0].ids is None):
            given, absent = (0, i) if part.ids is None else (i, 0)
            raise ValueError(
                f"concat needs ids in all collections or in none, got ids at position {given} and none at "
                f"position {absent}; give those bags ids with Bags(b.points, b.offsets, b.weights, ids=...)"
            )
        if part.columns not in (None, names[first]):
            raise ValueError(
                f"concat needs equal columns, got {part.columns} at position {i} and {names[first]} at position "
                f"{first}; reorder or rename them before joining"
            )
    ids = None
    if parts[0].ids is not None:
        given_ids = [part.ids for part in parts if part.ids is not None]
        same = len({array.dtype.kind for array in given_ids}) == 1
        ids = np.concatenate([array if same else array.astype(object) for array in given_ids])
        refuse_repeated(ids, "rename them before joining")
    points = np.concatenate([part.points for part in parts])
    weights = None
    if any(part.weights is not None for part in parts):
        filled = [np.ones(len(part.points)) if part.weights is None else part.weights for part in parts]
        weights = np.concatenate(filled).astype(points.dtype, copy=False)
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Parts(points, offsets, weights, ids, names[first])
