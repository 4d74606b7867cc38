"""Some of the bags, and some of their points: the same ones in whichever order bags and points are given.

A bandwidth rule that looked at all bags would cost more the more there are; one that chose by position would find
another bandwidth for the same bags in another order. Bags are chosen at evenly spaced places of an order by size and
content (:func:`spaced`). Points are lined up by a projection onto a line in general position and drawn by chance
(:class:`Draws`), other ranks in each bag: errors of choices that bags had in common would not average out.

Sizes are Kish's effective ones where points have weights (:func:`effective_sizes`), and copies of a point are one point
with their mass (:func:`merge_copies`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from .estimate import shares_of

MAX_BAGS = 32
_SORTED = 2**12  # bags that are put in order whole
_DIGITS = 5  # of sizes and means; more would separate bags by rounding, of float32 or of sums


# --------------------------------------------------------------------------------------------------------------
# Masses
# --------------------------------------------------------------------------------------------------------------


def effective_sizes(bags: Bags) -> Array:
    """Kish's effective number of points of each bag, (Σw)² / Σw².

    Examples
    --------
    >>> effective_sizes(Bags(np.zeros((4, 1)), [0, 2, 4], weights=[1, 1, 3, 1]))
    array([2. , 1.6])
    """
    shares = bags.shares()
    if shares is None:
        return bags.sizes.astype(float)
    return np.asarray(1 / np.add.reduceat(shares**2, bags.offsets[:-1]))


def merge_copies(bags: Bags) -> Bags:
    """Bags with every distinct point once, carrying the mass of its copies."""
    bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
    order = np.lexsort((*bags.points.T, bag))
    points = bags.points[order]
    bag = bag[order]
    new = np.append(True, (bag[1:] != bag[:-1]) | np.any(points[1:] != points[:-1], axis=1))
    if bags.weights is None and new.all():
        return bags
    mass = np.add.reduceat(shares_of(bags)[order], np.flatnonzero(new))
    kept = bag[new]
    positive = mass > 0
    offsets = np.append(0, np.cumsum(np.bincount(kept[positive], minlength=bags.n_bags)))
    return bags.replace(points=points[new][positive], offsets=offsets, weights=mass[positive])


# --------------------------------------------------------------------------------------------------------------
# Points
# --------------------------------------------------------------------------------------------------------------


def on_a_line(points: Array) -> Array:
    """Points projected onto a line in general position, ndarray of shape (n_points,): different ones stay different.

    The coefficients e, e^(1/2), e^(1/3), ... have no rational relation (Lindemann and Weierstrass), so not even
    points of a lattice meet.

    Examples
    --------
    >>> np.argsort(on_a_line(np.array([[0.5, 0.5], [0.0, 0.0], [1.0, 1.0]])))
    array([1, 0, 2])
    """
    return np.asarray(points.astype(float, copy=False) @ np.exp(1 / np.arange(1, points.shape[1] + 1)))


def nonlinear_means(bags: Bags) -> Array:
    """Mean of 1 / (1 + t²) over the points of each bag, t being their places on a line: no two bags agree.

    Examples
    --------
    >>> nonlinear_means(Bags.from_arrays([[0.1, 0.2, 0.6], [0.1, 0.3, 0.5], [0.6, 0.1, 0.2]])).round(4)  # equal sums
    array([0.6588, 0.6277, 0.6588])
    """
    t = on_a_line(bags.points)
    return np.asarray(np.add.reduceat(shares_of(bags) / (1 + t * t), bags.offsets[:-1]))


class Draws:
    """Some points of each bag by chance, the same ones for any order of the bags and of their points.

    Parameters
    ----------
    rng : RandomState
        Whenever points are chosen, draws start from the state that this has now.
    evaluated : int
        Points of a bag at which rules evaluate its density.
    kernels : int
        Points of a bag that carry a kernel, where that is not done on a grid.
    pairs : int
        Points of a bag, where all pairs of them are looked at.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(size=(2, 9, 1))
    >>> chosen = []
    >>> for bags in (Bags.from_arrays(list(x)), Bags.from_arrays([x[1, ::-1], x[0]])):
    ...     few = Draws(np.random.RandomState(0)).of(bags, 4)
    ...     chosen.append([sorted(points.ravel().tolist()) for points in few])
    >>> chosen[0] == chosen[1][::-1]
    True
    """

    def __init__(
        self, rng: np.random.RandomState, *, evaluated: int = 1024, kernels: int = 1024, pairs: int = 300
    ) -> None:
        self.evaluated = evaluated
        self.kernels = kernels
        self.pairs = pairs
        self._rng = rng
        self._state = rng.get_state()

    def rows(self, bags: Bags, most: int) -> list[Array]:
        """Positions in ``bags.points`` of at most ``most`` points of each bag, in any order."""
        starts = bags.offsets[:-1].tolist()
        sizes = bags.sizes
        if sizes.max() <= most:
            return [start + self._rng.permutation(size) for start, size in zip(starts, sizes, strict=True)]
        rng = np.random.RandomState()
        found = {}
        rng.set_state(self._state)
        for i in np.lexsort((nonlinear_means(bags), sizes)).tolist():
            along = np.argsort(on_a_line(bags[i]), kind="stable")
            found[i] = starts[i] + along[rng.permutation(sizes[i])[:most]]
        return [found[i] for i in range(bags.n_bags)]

    def of(self, bags: Bags, most: int) -> Bags:
        """The bags with at most ``most`` of their points each, which keep their masses."""
        rows = [np.sort(own) for own in self.rows(bags, most)]
        kept = np.concatenate(rows)
        offsets = np.append(0, np.cumsum([len(own) for own in rows]))
        return bags.replace(points=bags.points[kept], offsets=offsets, weights=shares_of(bags)[kept])


# --------------------------------------------------------------------------------------------------------------
# Bags
# --------------------------------------------------------------------------------------------------------------


def spaced(bags: Bags, limit: int = MAX_BAGS, *, sort_up_to: int = _SORTED) -> Bags:
    """At most ``limit`` of the bags, evenly spaced in their order by size and, where sizes are equal, by mean.

    Parameters
    ----------
    bags : Bags
        The bags.
    limit : int
        How many to take at most; no more are returned as they are.
    sort_up_to : int
        Number of bags up to which one sort is faster than partitions; both find the same bags.

    Returns
    -------
    Bags
        The same ones for any order of the bags and of their points, by increasing size. Sizes are Kish's effective
        ones; the mean is that over all coordinates, to five digits; bags that agree in both are told apart by the mean
        of a nonlinear function of their points, so only bags of equal points remain tied.

    Notes
    -----
    Cost: one sum over the coordinates of all points and a partition of n_bags numbers, in linear time. Only
    points of bags that are tied are copied.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.1, 0.2, 0.3], [0.9], [0.4, 0.5], [0.2], [0.7], [0.6]])
    >>> [points.ravel().tolist() for points in spaced(bags, 3)]
    [[0.6], [0.9], [0.1, 0.2, 0.3]]
    >>> spaced(bags[::-1], 3)[2].ravel()
    array([0.1, 0.2, 0.3])
    """
    n_bags = bags.n_bags
    if n_bags <= limit:
        return bags
    sizes, means = _sizes_and_means(bags)

    def contents(rows: Array) -> Array:
        return nonlinear_means(bags[rows])

    places = ((np.arange(limit) + 0.5) * n_bags / limit).astype(int)
    if n_bags <= sort_up_to:
        order = np.lexsort((means, sizes))
        same = (np.diff(sizes[order]) == 0) & (np.diff(means[order]) == 0)
        tied = np.append(same, False) | np.append(False, same)
        if tied[places].any():
            values = np.zeros(n_bags)
            values[order[tied]] = contents(order[tied])
            order = np.lexsort((values, means, sizes))
        chosen: Bags = bags[order[places]]
        return chosen
    return bags[_at_places(places, np.arange(n_bags), [sizes.__getitem__, means.__getitem__, contents])]


def _at_places(places: Array, rows: Array, keys: Sequence[Callable[[Array], Array]]) -> Array:
    """Those of the rows that stand at increasing places of their order by the first key, among equals by the next."""
    values = keys[0](rows)
    if len(keys) == 1:
        return np.asarray(rows[np.argpartition(values, places)[places]])
    found = []
    there = np.partition(values, places)[places]
    for value in np.unique(there):
        n_below = np.count_nonzero(values < value)
        equal = rows[values == value]
        found.append(_at_places(places[there == value] - n_below, equal, keys[1:]) if len(equal) > 1 else equal)
    return np.concatenate(found)


def _sizes_and_means(bags: Bags) -> tuple[Array, Array]:
    """Effective size of each bag, and mean over its points and coordinates, rounded: ndarrays of shape (n_bags,)."""
    if bags.weights is None:  # the coordinates of a bag stand side by side: one sum, no copy
        sums = np.add.reduceat(bags.points.reshape(-1), bags.offsets[:-1] * bags.n_dims)
        return bags.sizes, np.round(sums / (bags.sizes * bags.n_dims), _DIGITS)
    centres = bags.points @ np.full(bags.n_dims, 1 / bags.n_dims)
    means = np.add.reduceat(shares_of(bags) * centres, bags.offsets[:-1])
    return np.round(effective_sizes(bags), _DIGITS), np.round(means, _DIGITS)
