"""An order of the points of each bag that depends on their values alone, from which points are drawn.

A bag is a set: a fit with a seed must not depend on the order in which its points are given. Whatever draws points of
bags by position, or hands them to a method that depends on their order, such as k-means, takes positions in this order.

Points stand by their places on a line in general position (:func:`project`), and where these are equal by coordinates.
Rounding of scaled points hardly changes that; it would change all of an order by a hash of values. Equal points follow
one another, each at a place of its own, so a draw of places takes any point with the same chance, however many copies
it has. Places at equal steps are a stratified sample: start them at random.

Cost: one sort within bags, and one by all coordinates of different points that are at the same place.
"""

from __future__ import annotations

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
    place = project(bags.points)
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    large = bags.n_points >= _SORTED_ALONE * bags.n_bags
    order = _sort_each(bags, place) if large else np.lexsort((place, owner))
    place = place[order]
    same = (place[1:] == place[:-1]) & (owner[1:] == owner[:-1])
    first = np.flatnonzero(same)
    columns = [*bags.points.T] if bags.weights is None else [*bags.points.T, bags.weights]
    before = order[first]
    after = order[first + 1]
    if any(np.any(column[before] != column[after]) for column in columns):
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort([*(column[rows] for column in columns[::-1]), place[tied], owner[tied]])]
    return np.asarray(order)


def project(points: Array) -> Array:
    """Places of points on a line in general position, ndarray of shape (n_points,) of float64.

    The coefficients e, e^(1/2), e^(1/3), ... have no rational relation (Lindemann and Weierstrass), so different points
    of a lattice have different places. What overflows is at the largest number, or at 0 if that has no sign.

    Examples
    --------
    >>> np.argsort(project(np.array([[0.5, 0.5], [0.0, 0.0], [1.0, 1.0]])))
    array([1, 0, 2])
    """
    coefficients = np.exp(1 / np.arange(1, points.shape[1] + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        places = np.einsum("ij,j->i", points, coefficients)
    return np.nan_to_num(places, copy=False)


def _sort_each(bags: Bags, column: Array) -> Array:
    """Positions of the points, sorted by one column within each bag."""
    column = np.ascontiguousarray(column)
    order = np.empty(bags.n_points, np.int64)
    for start, stop in zip(bags.offsets[:-1].tolist(), bags.offsets[1:].tolist(), strict=True):
        np.add(np.argsort(column[start:stop]), start, out=order[start:stop])
    return order


def sort_points(bags: Bags) -> Bags:
    """The same bags, the points of each in the order of :func:`order_points`, with their weights.

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

    Only bags of which points are drawn are sorted.

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
