"""What changes places: the points of two bags, or the bags of two groups, pooled, and permutations of them.

A permutation test is exact if everything but the labels is a function of the pool alone. So bandwidths, scales,
embeddings and regions are fitted to the pool, and the pool is put in an order of its own first: sorted by content, then
shuffled by the seed. Hence a p-value does not depend on the order of points or bags either.

Permutations are all possible ones where these are few, else random ones. Row 0 is always what was observed. Rows are
kept as bits: 999 permutations of 100,000 points take 12 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..bags import Bags, as_bags, concat
from ..bags.flat import few
from ..bags.ids import canonical_text
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_flag, check_number
from ..compute.parallel import run_chunks
from ..divergences.pairs import check_width

Mask = NDArray[np.bool_]
Seed = int | np.random.RandomState | None

MOST_PERMUTATIONS = 1_000_000
_CHUNK_ITEMS = 2**20  # drawn or unpacked at a time
_CHUNK_ROWS = 128
_MANY_BITS = 40


def make_generator(random_state: Any) -> np.random.Generator:
    """A generator from whatever scikit-learn takes for a seed.

    Examples
    --------
    >>> int(make_generator(0).integers(100)) == int(make_generator(np.random.RandomState(0)).integers(100))
    True
    """
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))


def check_permutations(owner: str, n_permutations: Any) -> int:
    """The number of permutations, or an error with a remedy.

    Examples
    --------
    >>> check_permutations("bags_test", 999)
    999
    """
    return check_number(
        owner, "n_permutations", n_permutations, low=1, high=MOST_PERMUTATIONS, integer=True,
        remedy="999 are usual; p-values are no smaller than 1 / (1 + n_permutations)",
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------
# Permutations
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Permutations:
    """Rows of bits, one row per permutation, the observed one first.

    Attributes
    ----------
    bits : ndarray of shape (n_rows, n_items / 8) of uint8
        Packed rows.
    n_items : int
        Points, bags or pairs.
    exhaustive : bool
        Whether these are all distinct permutations, each once.

    Examples
    --------
    >>> some = splits(np.array([True, False, False]), 999, np.random.default_rng(0))
    >>> some.rows(slice(0, 3)).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    >>> len(some), some.n_permutations, some.exhaustive
    (3, 2, True)
    """

    bits: NDArray[np.uint8]
    n_items: int
    exhaustive: bool

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def n_permutations(self) -> int:
        """Rows next to the observed one."""
        return len(self.bits) - 1

    def rows(self, rows: slice, items: slice | None = None) -> Mask:
        """Rows as booleans, ndarray of shape (n_rows, n_items), or those of some items from a multiple of 8 on."""
        start, stop = (0, self.n_items) if items is None else (items.start, items.stop)
        packed = self.bits[rows, start // 8 : -(-stop // 8)]
        return np.unpackbits(packed, axis=1, count=stop - start).view(np.bool_)

    def map(self, function: Callable[[Mask], Any], n_jobs: int | None, values_a_row: float | None = None) -> Array:
        """What a function makes of rows, some at a time and in threads: ndarray of shape (n_rows, ...)."""
        chunks = self.chunks(values_a_row)
        found: list[Any] = [None] * len(chunks)

        def fill(i: int, scratch: Scratch) -> None:
            found[i] = function(self.rows(chunks[i]))

        run_chunks(fill, range(len(chunks)), n_jobs)
        return np.concatenate(found)

    def chunks(self, values_a_row: float | None = None) -> list[slice]:
        """Slices of consecutive rows with about a million values in all, whatever the number of threads."""
        step = int(np.clip(_CHUNK_ITEMS // max(values_a_row or self.n_items, self.n_items), 1, _CHUNK_ROWS))
        return [slice(i, min(i + step, len(self))) for i in range(0, len(self), step)]


def splits(observed: Mask, n_permutations: int, rng: np.random.Generator) -> Permutations:
    """Splits of items into two parts of the observed sizes; True marks the first part.

    Where both parts have the same size, a split and its mirror image count as one: statistics must be symmetric.

    Parameters
    ----------
    observed : ndarray of shape (n_items,) of bool
        The observed split.
    n_permutations : int
        How many to draw, with replacement. If there are no more others than that, all are taken instead.
    rng : Generator
        Draws them.

    Returns
    -------
    Permutations

    Examples
    --------
    >>> drawn = splits(np.arange(40) < 10, 99, np.random.default_rng(0))
    >>> len(drawn), drawn.exhaustive, np.unique(drawn.rows(slice(0, 100)).sum(axis=1))
    (100, False, array([10]))
    """
    n_items = len(observed)
    size = int(observed.sum())
    halves = 2 * size == n_items
    many = min(size, n_items - size) > _MANY_BITS  # at least 2^size splits, a number too long to write down
    n_distinct = math.inf if many else math.comb(n_items, size) // (2 if halves else 1)
    if n_distinct - 1 <= n_permutations:
        n_distinct = int(n_distinct)
        chosen = islice(combinations(range(n_items), size), n_distinct)  # of halves those with item 0 come first
        rows = np.zeros((n_distinct, n_items), dtype=bool)
        for row, items in zip(rows, chosen, strict=True):
            row[list(items)] = True
        same = (rows == observed).all(axis=1) | (rows != observed).all(axis=1)  # of halves, it or its mirror image
        rows[np.flatnonzero(same)[0]] = rows[0]
        rows[0] = observed  # not mirrored: differences keep their sign
        return Permutations(np.packbits(rows, axis=1), n_items, True)
    return _drawn(observed, n_permutations, lambda n: rng.permuted(np.broadcast_to(observed, (n, n_items)), axis=1))


def swaps(n_pairs: int, n_permutations: int, rng: np.random.Generator) -> Permutations:
    """Pairs whose two members change places; True marks those. To swap all is to swap none.

    Parameters
    ----------
    n_pairs : int
        Number of pairs.
    n_permutations : int
        As in :func:`splits`.
    rng : Generator
        Draws them.

    Returns
    -------
    Permutations

    Examples
    --------
    >>> swaps(3, 99, np.random.default_rng(0)).rows(slice(0, 4)).astype(int)
    array([[0, 0, 0],
           [0, 0, 1],
           [0, 1, 0],
           [0, 1, 1]])
    """
    if n_pairs <= _MANY_BITS and 2 ** (n_pairs - 1) - 1 <= n_permutations:
        numbers = np.arange(2 ** (n_pairs - 1), dtype=np.int64)
        bits = (numbers[:, None] >> np.arange(n_pairs - 1, -1, -1)) & 1
        return Permutations(np.packbits(bits.astype(bool), axis=1), n_pairs, True)
    none = np.zeros(n_pairs, dtype=bool)
    return _drawn(none, n_permutations, lambda n: rng.integers(0, 2, size=(n, n_pairs), dtype=np.int8).astype(bool))


def _drawn(observed: Mask, n_permutations: int, draw: Callable[[int], Mask]) -> Permutations:
    """The observed row and random ones, drawn some at a time."""
    bits = np.empty((n_permutations + 1, -(-len(observed) // 8)), np.uint8)
    bits[0] = np.packbits(observed)
    step = max(1, _CHUNK_ITEMS // len(observed))
    for start in range(1, len(bits), step):
        block = bits[start : start + step]
        block[:] = np.packbits(draw(len(block)), axis=1)
    return Permutations(bits, len(observed), False)


# --------------------------------------------------------------------------------------------------------------
# Pools
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pool:
    """What two sides have together, in an order that forgets which side it came from.

    Attributes
    ----------
    bags : Bags
        All bags of two groups, or one bag of all points of two bags; float64.
    first : ndarray of shape (n_items,) of bool
        Bags, or points, of the first part, which is the smaller of the two sides.
    sizes : tuple of int
        Bags, or points, of x and of y.
    pairs : ndarray of shape (n_pairs, 2) of int, or None
        Positions of the two bags of each pair, that of x first.
    """

    bags: Bags
    first: Mask
    sizes: tuple[int, int]
    pairs: NDArray[np.intp] | None = None

    @property
    def sign(self) -> int:
        """1 if the first part is x, -1 if it is y."""
        return 1 if self.sizes[0] <= self.sizes[1] else -1

    @property
    def n_first(self) -> int:
        """Size of the first part."""
        return min(self.sizes)

    @property
    def n_second(self) -> int:
        """Size of the other part."""
        return max(self.sizes)

    def permutations(self, n_permutations: int, rng: np.random.Generator) -> Permutations:
        """Splits of the items, or swaps of the members of pairs."""
        if self.pairs is not None:
            return swaps(len(self.pairs), n_permutations, rng)
        return splits(self.first, n_permutations, rng)

    def how(self, drawn: Permutations) -> dict[str, Any]:
        """What all answers say of a test with these permutations."""
        permuted = "points" if isinstance(self, PointPool) else "bags" if self.pairs is None else "pairs"
        counts = {"n_permutations": drawn.n_permutations, "exhaustive": drawn.exhaustive}
        return {**counts, "sizes": self.sizes, "permuted": permuted}

    def column(self, j: int) -> Self:
        """The pool with one coordinate only."""
        return replace(self, bags=self.bags.replace(points=self.bags.points[:, [j]]))


class PointPool(Pool):
    """The points of two bags, as one bag."""

    def example(self) -> Bags:
        """Two bags of the observed sizes that do not depend on the labels: the pool is in random order."""
        return self._cut(self.bags.points, [0, self.n_first, self.bags.n_points])

    def both(self, rows: Mask) -> Bags:
        """First parts of all rows, one bag per row, then the second parts."""
        return self._parts(rows, ~rows)

    def firsts(self, rows: Mask) -> Bags:
        """First parts of all rows, one bag per row."""
        return self._parts(rows)

    def each(self, items: slice) -> Bags:
        """Bags of one point."""
        points = self.bags.points[items]
        return self._cut(points, np.arange(len(points) + 1))

    def _parts(self, *masks: Mask) -> Bags:
        rows = np.concatenate(masks)
        return self._cut(self.bags.points[np.nonzero(rows)[1]], np.append(0, np.cumsum(rows.sum(axis=1))))

    def _cut(self, points: Array, offsets: Any) -> Bags:
        return self.bags.replace(points=points, offsets=np.asarray(offsets, np.int64), ids=None)


def pool_points(owner: str, x: Any, y: Any, rng: np.random.Generator) -> PointPool:
    """The points of two single bags, sorted, then shuffled.

    Examples
    --------
    >>> pool = pool_points("bags_test", [1.0, 2.0], [3.0], np.random.default_rng(0))
    >>> pool.bags.n_points, pool.sizes, pool.sign, pool.bags.points[pool.first].tolist()
    (3, (2, 1), -1, [[3.0]])
    """
    bags = [_one_bag(owner, "x", x), _one_bag(owner, "y", y)]
    check_width(owner, "y", bags[1].n_dims, "x", bags[0].n_dims)
    joined = concat([bag.replace(ids=None) for bag in bags])
    points = joined.points + 0.0  # -0 is 0
    order = np.lexsort(points.T[::-1])[rng.permutation(len(points))]
    sizes = (bags[0].n_points, bags[1].n_points)
    is_x = np.arange(len(points)) < sizes[0]
    pooled = joined.replace(points=points[order], offsets=np.array([0, len(points)]))
    return PointPool(pooled, (is_x if sizes[0] <= sizes[1] else ~is_x)[order], sizes)


def _one_bag(owner: str, name: str, value: Any) -> Bags:
    if _are_bags(value) and len(value) > 1:
        remedy = "use groups_test" if owner == "bags_test" else "use permute='bags'"
        raise ValueError(
            f"{owner}({name}=...): must be a single bag, got {len(value)} of them; pass one bag, bags[i:i + 1], or "
            f"{remedy} to compare groups of bags"
        )
    bags = value if isinstance(value, Bags) else Bags.from_arrays([value], ids=[name])
    bags = bags.drop_weightless().astype(np.float64)
    if bags.weights is not None and np.ptp(bags.weights) > 0:
        raise ValueError(
            f"{owner}({name}=...): points must weigh the same, because only then all of them can change places, got "
            f"weights from {bags.weights.min():g} to {bags.weights.max():g}; leave the weights out, or draw points by "
            "weight first"
        )
    return bags.replace(weights=None)


def _are_bags(value: Any) -> bool:
    """Whether elements are bags themselves, and no points."""
    if not isinstance(value, list | tuple):
        return isinstance(value, Bags) or (isinstance(value, np.ndarray) and value.ndim == 3)
    first = value[0] if len(value) else 0.0
    if isinstance(first, list | tuple):
        return len(first) > 0 and isinstance(first[0], list | tuple | np.ndarray)
    return np.ndim(first) > 1


def pool_bags(owner: str, X: Any, Y: Any, paired: bool, rng: np.random.Generator) -> Pool:
    """The bags of two groups in an order of their contents, the points of each in random order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pool = pool_bags("groups_test", [[1.0, 2.0], [3.0]], [[4.0], [5.0], [6.0]], False, rng)
    >>> pool.bags.n_bags, pool.sizes, int(pool.bags[pool.first].points.max())
    (5, (2, 3), 3)
    """
    check_flag(owner, "paired", paired)
    groups = [as_bags(each).drop_weightless().astype(np.float64) for each in (X, Y)]
    check_width(owner, "Y", groups[1].n_dims, "X", groups[0].n_dims)
    sizes = (groups[0].n_bags, groups[1].n_bags)
    for name, size in zip("XY", sizes, strict=True):
        if size < 2:
            remedy = "for two single bags use bags_test" if owner == "groups_test" else "or use permute='points'"
            raise ValueError(f"{owner}({name}=...): must be a group of at least 2 bags, got {size}; {remedy}")
    if paired:
        _check_pairs(owner, groups)
    bags, order = in_order_of_contents(concat([bags.replace(ids=None) for bags in groups]), rng)
    is_x = order < sizes[0]
    pairs = None
    if paired:
        at = np.argsort(order)
        pairs = np.stack([at[: sizes[0]], at[sizes[0] :]], axis=1)
        pairs = pairs[np.lexsort((pairs.max(axis=1), pairs.min(axis=1)))]
    return Pool(bags, is_x if sizes[0] <= sizes[1] else ~is_x, sizes, pairs)


def in_order_of_contents(joined: Bags, rng: np.random.Generator) -> tuple[Bags, NDArray[np.intp]]:
    """Bags in an order of their contents, the points of each in random order; and the place that each had.

    Examples
    --------
    >>> bags, order = in_order_of_contents(as_bags([[1.0, 2.0], [3.0]]), np.random.default_rng(0))
    >>> bags[order.tolist().index(1)].tolist()
    [[3.0]]
    """
    joined = joined.replace(points=joined.points + 0.0)  # -0 is 0
    bag_of = np.repeat(np.arange(joined.n_bags), joined.sizes)
    keys = [] if joined.weights is None else [joined.weights]
    bags = _rows(joined, np.lexsort((*keys, *joined.points.T[::-1], bag_of)))
    digests = [_digest(bags, i) for i in range(bags.n_bags)]
    order = np.array(sorted(range(bags.n_bags), key=digests.__getitem__))
    bags = bags[order]
    bag_of = np.repeat(np.arange(bags.n_bags), bags.sizes)
    return _rows(bags, np.lexsort((rng.random(bags.n_points), bag_of))), order


def _check_pairs(owner: str, groups: list[Bags]) -> None:
    x, y = groups
    if x.n_bags != y.n_bags:
        raise ValueError(
            f"{owner}(paired=True): X and Y must have one bag for each other, got {x.n_bags} and {y.n_bags} bags; "
            "leave out bags without a partner"
        )
    if x.has_ids and y.has_ids:
        first = canonical_text(x.ids).tolist()
        second = canonical_text(y.ids).tolist()
        if first != second and set(first) & set(second):
            i = next(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
            raise ValueError(
                f"{owner}(paired=True): pairs are bags in the same position, but bag {i} is {few(x.ids[i : i + 1])} in "
                f"X and {few(y.ids[i : i + 1])} in Y; give both the same ids in the same order, e.g. Y.select(X.ids)"
            )


def _rows(bags: Bags, order: Array) -> Bags:
    weights = None if bags.weights is None else bags.weights[order]
    return bags.replace(points=bags.points[order], weights=weights)


def _digest(bags: Bags, i: int) -> bytes:
    """A fingerprint of a bag whose points are sorted: bags of one content have one, and others are in random order."""
    digest = blake2b(np.ascontiguousarray(bags[i]).tobytes(), digest_size=16)
    weights = bags.weights_of(i)
    if weights is not None:
        digest.update(np.ascontiguousarray(weights).tobytes())
    return digest.digest()
