"""Points in order of their bags, cut into groups of whole bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .packages import arrow
from .plans import Plan

__all__ = ["Cutter", "Group"]


class Group(NamedTuple):
    """Some whole bags: their ids as an arrow array, their sizes, points and weights."""

    ids: Any
    sizes: NDArray[np.int64]
    points: NDArray[Any]
    weights: NDArray[Any] | None


class Cutter:
    """Collects points in order of their bags, and cuts them into groups of whole bags.

    The last bag may go on in the next record batch, so it stays until another id comes. Groups are filled in order as
    far as the limits allow: where they are cut depends on the sizes of the bags alone.
    """

    def __init__(self, plan: Plan, max_points: int, max_bags: int, ids_only: bool) -> None:
        self.max_points, self.max_bags = max_points, max_bags
        self.n_dims, self.dtype = 0 if ids_only else len(plan.names), plan.dtype
        self.weighted = plan.weights is not None and not ids_only
        self.ids: list[Any] = []  # of the bags, as are the sizes; both in pieces, joined when a group is due
        self.sizes: list[NDArray[np.int64]] = []
        self.points: list[NDArray[Any]] = []
        self.weights: list[NDArray[Any]] = []
        self.n_points = self.n_bags = 0

    def add(self, batch: Any) -> None:
        """Take the next record batch."""
        pa, compute = arrow(), arrow("pyarrow.compute")
        ids, n = batch.column(0), batch.num_rows
        if not n:
            return
        changed = compute.not_equal(ids.slice(1), ids.slice(0, n - 1)).to_numpy(zero_copy_only=False)
        starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(changed) + 1])
        heads, sizes = ids.take(pa.array(starts)), np.diff(starts, append=n)
        if self.ids and self.ids[-1][-1].as_py() == heads[0].as_py():
            self.sizes[-1][-1] += sizes[0]
            heads, sizes = heads.slice(1), sizes[1:]
        if len(sizes):
            self.ids.append(heads)
            self.sizes.append(sizes)
        points = np.empty((n, self.n_dims), self.dtype)
        for j in range(self.n_dims):
            points[:, j] = batch.column(1 + j).to_numpy()
        self.points.append(points)
        if self.weighted:
            self.weights.append(batch.column(1 + self.n_dims).to_numpy())
        self.n_points, self.n_bags = self.n_points + n, self.n_bags + len(sizes)

    def groups(self, final: bool) -> Iterator[Group]:
        """Yield the groups that are full, or after the last record batch all that is left."""
        full = self.n_bags > 1 and (self.n_points > self.max_points or self.n_bags > self.max_bags)
        if not self.n_bags or not (full or final):
            return
        pa = arrow()
        ids, sizes = pa.concat_arrays(self.ids), np.concatenate(self.sizes)
        points = self.points[0] if len(self.points) == 1 else np.concatenate(self.points)
        weights = np.concatenate(self.weights) if self.weighted else None
        self.points, self.weights = [], []  # not three times in memory
        ends = np.cumsum(sizes)
        bag = row = 0
        while bag < len(sizes):
            fit = int(np.searchsorted(ends, row + self.max_points, side="right")) - bag
            stop = bag + max(1, min(fit, self.max_bags))
            if stop >= len(sizes) and not final:
                break
            end = int(ends[stop - 1])
            rows = slice(row, end)
            whole = row == 0 and end == len(points)
            yield Group(
                ids.slice(bag, stop - bag),
                sizes[bag:stop],
                points if whole else points[rows].copy(),  # a view would keep the rest in memory
                None if weights is None else weights[rows].copy(),
            )
            bag, row = stop, end
        left = bag < len(sizes)
        self.ids, self.sizes = ([ids.slice(bag)], [sizes[bag:]]) if left else ([], [])
        self.points = [points[row:].copy()] if left else []
        self.weights = [weights[row:].copy()] if left and weights is not None else []
        self.n_bags, self.n_points = len(sizes) - bag, len(points) - row
