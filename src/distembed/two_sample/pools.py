"""Input of the tests: all points or bags in an order that forgets where they came from.

A permutation test is exact if everything but the labels is a function of the pool alone. So bandwidths, scales,
embeddings and cells are fitted to the pool, and the pool is put in an order of its own first: sorted by content, then
shuffled by the seed. Hence a p-value does not depend on the order of points or bags either.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..bags import Bags, as_bags, concat

__all__ = ["BagPool", "PointPool", "pool_bags", "pool_points", "seeded"]

Array = NDArray[Any]


def seeded(random_state: Any) -> np.random.Generator:
    """A generator from whatever scikit-learn takes for a seed.

    Examples
    --------
    >>> int(seeded(0).integers(100)) == int(seeded(np.random.RandomState(0)).integers(100))
    True
    """
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))


@dataclass(frozen=True, eq=False)
class PointPool:
    """The points of two bags.

    Attributes
    ----------
    bag : Bags
        One bag of all points, float64.
    first : ndarray of shape (n_points,) of bool
        Points of the first part, which is the smaller of the two bags.
    sizes : tuple of int
        Points of x and of y.
    """

    bag: Bags
    first: NDArray[np.bool_]
    sizes: tuple[int, int]

    @property
    def sign(self) -> int:
        """1 if the first part is x, -1 if it is y."""
        return 1 if self.sizes[0] <= self.sizes[1] else -1

    @property
    def n_first(self) -> int:
        """Points of the first part."""
        return min(self.sizes)

    def column(self, j: int) -> PointPool:
        """The same of one coordinate alone."""
        return PointPool(self.bag.replace(points=self.bag.points[:, [j]]), self.first, self.sizes)

    def example(self) -> Bags:
        """Two bags of the observed sizes that are no function of the labels: the pool is in random order."""
        return self._bags(self.bag.points, [0, self.n_first, self.bag.n_points])

    def pairs(self, rows: NDArray[np.bool_]) -> Bags:
        """First parts of all rows, one bag a row, then the second parts."""
        return self._bags(*_gather(self.bag.points, rows, ~rows))

    def firsts(self, rows: NDArray[np.bool_]) -> Bags:
        """First parts of all rows, one bag a row."""
        return self._bags(*_gather(self.bag.points, rows))

    def each(self, items: slice) -> Bags:
        """Bags of one point."""
        points = self.bag.points[items]
        return self._bags(points, np.arange(len(points) + 1))

    def _bags(self, points: Array, offsets: Any) -> Bags:
        return self.bag.replace(points=points, offsets=np.asarray(offsets, np.int64), weights=None, ids=None)


def _gather(points: Array, *masks: NDArray[np.bool_]) -> tuple[Array, Array]:
    chosen = np.concatenate([np.nonzero(mask)[1] for mask in masks])
    sizes = np.concatenate([mask.sum(axis=1) for mask in masks])
    return points[chosen], np.r_[0, np.cumsum(sizes)]


def pool_points(owner: str, x: Any, y: Any, rng: np.random.Generator) -> PointPool:
    """The points of two single bags, sorted, then shuffled.

    Examples
    --------
    >>> pool = pool_points("bags_test", [1.0, 2.0], [3.0], np.random.default_rng(0))
    >>> pool.bag.n_points, pool.sizes, pool.sign, pool.bag.points[pool.first].tolist()
    (3, (2, 1), -1, [[3.0]])
    """
    bags = [_one_bag(owner, "x", x), _one_bag(owner, "y", y)]
    _check_widths(owner, ("x", "y"), bags)
    joined = concat([_bare(bag) for bag in bags])
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


def _check_widths(owner: str, names: tuple[str, str], bags: list[Bags]) -> None:
    if bags[0].n_dims != bags[1].n_dims:
        raise ValueError(
            f"{owner}({names[1]}=...): must have points of {bags[0].n_dims} dimension(s), as {names[0]}, got "
            f"{bags[1].n_dims}; pass bags with the same coordinates"
        )


def _bare(bags: Bags) -> Bags:
    """Bags without ids, so that any two can be joined; names and labels stay."""
    return bags.replace(ids=None)


@dataclass(frozen=True, eq=False)
class BagPool:
    """The bags of two groups.

    Attributes
    ----------
    bags : Bags
        All bags, float64.
    first : ndarray of shape (n_bags,) of bool
        Bags of the first part, which is the smaller group.
    sizes : tuple of int
        Bags of X and of Y.
    pairs : ndarray of shape (n_pairs, 2) of int, or None
        Positions of the two bags of each pair, that of X first.
    """

    bags: Bags
    first: NDArray[np.bool_]
    sizes: tuple[int, int]
    pairs: NDArray[np.intp] | None

    @property
    def sign(self) -> int:
        """1 if the first part is X, -1 if it is Y."""
        return 1 if self.sizes[0] <= self.sizes[1] else -1

    def column(self, j: int) -> BagPool:
        """The same of one coordinate alone."""
        return BagPool(self.bags.replace(points=self.bags.points[:, [j]]), self.first, self.sizes, self.pairs)


def pool_bags(owner: str, X: Any, Y: Any, paired: bool, rng: np.random.Generator) -> BagPool:
    """The bags of two groups in an order of their contents, the points of each in random order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pool = pool_bags("groups_test", [[1.0, 2.0], [3.0]], [[4.0], [5.0], [6.0]], False, rng)
    >>> pool.bags.n_bags, pool.sizes, int(pool.bags[pool.first].points.max())
    (5, (2, 3), 3)
    """
    if not isinstance(paired, bool | np.bool_):
        raise TypeError(f"{owner}(paired=...): must be True or False, got {paired!r}; choose one of these")
    groups = [as_bags(X).drop_weightless().astype(np.float64), as_bags(Y).drop_weightless().astype(np.float64)]
    _check_widths(owner, ("X", "Y"), groups)
    sizes = (groups[0].n_bags, groups[1].n_bags)
    for name, size in zip("XY", sizes, strict=True):
        if size < 2:
            remedy = "for two single bags use bags_test" if owner == "groups_test" else "or use permute='points'"
            raise ValueError(f"{owner}({name}=...): must be a group of at least 2 bags, got {size}; {remedy}")
    if paired:
        _check_pairs(owner, groups)
    joined = concat([_bare(bags) for bags in groups])
    joined = joined.replace(points=joined.points + 0.0)  # -0 is 0
    bag_of = np.repeat(np.arange(joined.n_bags), joined.sizes)
    keys = [] if joined.weights is None else [joined.weights]
    bags = _rows(joined, np.lexsort((*keys, *joined.points.T[::-1], bag_of)))
    digests = [_digest(bags, i) for i in range(bags.n_bags)]
    order = np.array(sorted(range(bags.n_bags), key=digests.__getitem__))
    bags = bags[order]
    bag_of = np.repeat(np.arange(bags.n_bags), bags.sizes)
    bags = _rows(bags, np.lexsort((rng.random(bags.n_points), bag_of)))
    is_x = order < sizes[0]
    pairs = None
    if paired:
        at = np.argsort(order)
        pairs = np.stack([at[: sizes[0]], at[sizes[0] :]], axis=1)
        pairs = pairs[np.lexsort((pairs.max(axis=1), pairs.min(axis=1)))]
    return BagPool(bags, is_x if sizes[0] <= sizes[1] else ~is_x, sizes, pairs)


def _check_pairs(owner: str, groups: list[Bags]) -> None:
    x, y = groups
    if x.n_bags != y.n_bags:
        raise ValueError(
            f"{owner}(paired=True): X and Y must have one bag for each other, got {x.n_bags} and {y.n_bags} bags; "
            "leave out bags without a partner"
        )
    if x.has_ids and y.has_ids:
        first, second = x.ids.tolist(), y.ids.tolist()
        if first != second and set(first) == set(second):
            i = next(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
            raise ValueError(
                f"{owner}(paired=True): pairs are bags in the same position, but bag {i} is {first[i]!r} in X and "
                f"{second[i]!r} in Y; sort both by id, e.g. Y[np.argsort(Y.ids)]"
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
