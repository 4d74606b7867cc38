"""An order of the points of each bag that depends on their values alone, from which points are drawn.

A bag is a set: a fit with a seed must not depend on the order in which its points are given. Whatever draws points of
bags by position, or hands them to a method that depends on their order, such as k-means, takes positions in this order.

It is the lexicographic order of coordinates. Scaling a column leaves it as it is, whatever the rounding; an order by a
hash of values would change. Equal points follow one another, each at a place of its own, so a draw of places takes any
point with the same chance, however many copies it has. Places at equal steps are a stratified sample: start them at
random.

Cost: a sort of the first column within bags, and one of each further column among points that are tied until there.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..compute.arrays import Array
from .container import Bags

_SORTED_ALONE = 256  # points a bag on average from which on a sort of each bag is faster than one of all points


def order_points(bags: Bags) -> Array:
    """Positions of the points, bag after bag, those of a bag in an order that depends on their values alone.

    Parameters
    ----------
    bags : Bags
        The bags. Weights decide between equal points.

    Returns
    -------
    ndarray of shape (n_points,) of int64
        ``bags.points[order]`` has the same bags at the same places, and in each of them its own points.

    Examples
    --------
    >>> bags = Bags.from_arrays([[[1, 9], [0, 7], [1, 8]], [[5, 5], [4, 4]]])
    >>> order_points(bags)
    array([1, 2, 0, 4, 3])
    """
    columns = [*bags.points.T, *([] if bags.weights is None else [bags.weights])]
    group = np.repeat(np.arange(bags.n_bags), bags.sizes)
    large = bags.n_points >= _SORTED_ALONE * bags.n_bags
    order = _sort_each(bags, columns[0]) if large else np.lexsort((columns[0], group))
    for last, column in pairwise(columns):
        values = last[order]
        same = (values[1:] == values[:-1]) & (group[1:] == group[:-1])
        if not same.any():
            break
        group = np.append(0, np.cumsum(~same))
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((column[rows], group[tied]))]
    return np.asarray(order)


def _sort_each(bags: Bags, column: Array) -> Array:
    """Positions of the points, sorted by one column within each bag."""
    column = np.ascontiguousarray(column)
    order = np.empty(bags.n_points, np.int64)
    for start, stop in zip(bags.offsets[:-1].tolist(), bags.offsets[1:].tolist(), strict=True):
        np.add(np.argsort(column[start:stop]), start, out=order[start:stop])
    return order


def sort_points(bags: Bags) -> Bags:
    """Bags with the points of each in the order of :func:`order_points`, with their weights.

    Examples
    --------
    >>> sort_points(Bags.from_arrays([[0.3, 0.1], [0.5]])).points.ravel()
    array([0.1, 0.3, 0.5])
    """
    order = order_points(bags)
    weights = None if bags.weights is None else bags.weights[order]
    return bags.replace(points=bags.points[order], weights=weights)


def draw_rows(bags: Bags, n: int, rng: np.random.RandomState) -> Array:
    """Positions of n of all points, drawn at random without replacement: the same points in whichever order they are.

    Only bags whose points are drawn are sorted.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.1, 0.2, 0.3], [0.5, 0.4]])
    >>> again = Bags.from_arrays([[0.3, 0.1, 0.2], [0.4, 0.5]])
    >>> [each.points[draw_rows(each, 2, np.random.RandomState(0))].ravel().tolist() for each in (bags, again)]
    [[0.1, 0.3], [0.1, 0.3]]
    """
    places = np.sort(rng.choice(bags.n_points, n, replace=False))
    owner = np.searchsorted(bags.offsets, places, side="right") - 1
    drawn, new_owner = np.unique(owner, return_inverse=True)
    some = bags if len(drawn) == bags.n_bags else bags[drawn]
    moved = (bags.offsets[drawn] - some.offsets[:-1])[new_owner]
    return np.asarray(order_points(some)[places - moved] + moved)
