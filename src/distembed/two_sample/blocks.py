"""Permutations that keep a design: inside strata, all of them where they are few.

A study with strata, such as sites or batches, is not exchangeable as a whole, only inside each stratum. So items change
places inside their block alone, and a difference between blocks is never taken for one between groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.arrays import Array
from ..compute.parallel import run_chunks

_CHUNK_ITEMS = 2**20
_CHUNK_ROWS = 64


@dataclass(frozen=True, eq=False)
class Shuffles:
    """Orders of items, one row each, the observed one first.

    Attributes
    ----------
    orders : ndarray of shape (n_rows, n_items) of int
        Place i gets the label of item ``orders[b, i]`` in permutation b; row 0 is 0, 1, ...
    exhaustive : bool
        Whether these are all permutations that change the labels, each once.
    """

    orders: NDArray[np.int32]
    exhaustive: bool

    @property
    def n_permutations(self) -> int:
        """Rows besides the observed one."""
        return len(self.orders) - 1

    def map(self, function: Callable[[NDArray[np.int32]], Any], n_jobs: int | None) -> Array:
        """What a function makes of rows, some at a time and in threads: ndarray of shape (n_rows, ...)."""
        n_rows, n_items = self.orders.shape
        step = int(np.clip(_CHUNK_ITEMS // max(n_items, 1), 1, _CHUNK_ROWS))
        found: list[Any] = [None] * (-(-n_rows // step))

        def fill(i: int, scratch: Any) -> None:
            found[i] = function(self.orders[i * step : (i + 1) * step])

        run_chunks(fill, range(len(found)), n_jobs)
        return np.concatenate(found)


def shuffles(labels: Array | None, blocks: Array, n_permutations: int, rng: np.random.Generator) -> Shuffles:
    """Permutations inside blocks.

    Parameters
    ----------
    labels : ndarray of shape (n_items,) of int, or None
        Codes of groups. Permutations that give all items the same labels count as one, and where there are no more
        than ``n_permutations`` others, all are taken. None: every order counts, and orders are drawn.
    blocks : ndarray of shape (n_items,) of int
        Codes of blocks.
    n_permutations : int
        How many to draw, with replacement.
    rng : Generator
        Draws them.

    Returns
    -------
    Shuffles

    Examples
    --------
    >>> labels, blocks = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> found = shuffles(labels, blocks, 99, np.random.default_rng(0))
    >>> found.orders.tolist(), found.exhaustive
    ([[0, 1, 2, 3], [0, 1, 3, 2], [1, 0, 2, 3], [1, 0, 3, 2]], True)
    """
    places = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    n_items = len(blocks)
    if labels is not None and _n_distinct(labels, places) <= n_permutations + 1:
        return Shuffles(_all_orders(labels, places), True)
    orders = np.empty((n_permutations + 1, n_items), np.int32)
    orders[0] = np.arange(n_items)
    for place in places:
        drawn = np.broadcast_to(place, (n_permutations, len(place)))
        orders[1:, place] = rng.permuted(drawn, axis=1)
    return Shuffles(orders, False)


def _n_distinct(labels: Array, places: list[Array]) -> float:
    """How many ways there are to give the labels of each block to its items."""
    logs = 0.0
    for place in places:
        counts = np.unique(labels[place], return_counts=True)[1]
        logs += math.lgamma(len(place) + 1) - sum(math.lgamma(int(n) + 1) for n in counts)
    return math.inf if logs > 40 else round(math.exp(logs))


def _all_orders(labels: Array, places: list[Array]) -> NDArray[np.int32]:
    rows = []
    each = [list(_arrangements(labels[place].tolist())) for place in places]
    for chosen in product(*each):
        order = np.arange(len(labels), dtype=np.int32)
        for place, wanted in zip(places, chosen, strict=True):
            order[place] = place[_order_for(labels[place], np.asarray(wanted))]
        rows.append(order)
    found = np.array(rows)
    observed = np.flatnonzero((labels[found] == labels).all(axis=1))[0]
    found[observed] = found[0]
    found[0] = np.arange(len(labels))
    return found


def _order_for(labels: Array, wanted: Array) -> Array:
    """Positions whose labels, in this order, are the wanted ones."""
    order = np.empty(len(labels), int)
    order[np.argsort(wanted, kind="stable")] = np.argsort(labels, kind="stable")
    return order


def _arrangements(labels: list[int]) -> Iterator[list[int]]:
    """All distinct orders of labels, in lexicographic order."""
    current = sorted(labels)
    while True:
        yield list(current)
        i = next((k for k in range(len(current) - 2, -1, -1) if current[k] < current[k + 1]), None)
        if i is None:
            return
        j = next(k for k in range(len(current) - 1, i, -1) if current[k] > current[i])
        current[i], current[j] = current[j], current[i]
        current[i + 1 :] = current[:i:-1]
