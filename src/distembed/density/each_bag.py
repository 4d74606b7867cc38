"""Densities evaluated bag by bag, pooled, and drawn from: for estimates that know no faster way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array, Scratch, bags_first
from .drawn_nodes import PointNodes, Pooled

if TYPE_CHECKING:
    from .estimate import Density, GridNodes

POOLED_POINTS = 4096


def with_shares(bags: Bags) -> Iterator[tuple[Array, Array | None]]:
    """Points of each bag in float64, and their masses, of sum one; None for equal ones."""
    shares = bags.shares()
    ends = bags.offsets.tolist()
    for i, points in enumerate(bags):
        yield points.astype(float), None if shares is None else shares[ends[i] : ends[i + 1]]


class EachBag:
    """Densities of many bags on nodes, one bag after the other.

    Called with bags (and a bandwidth per bag, or None) it returns an ndarray of shape (g_1, ..., g_{l-1}, n_bags, g_l)
    on a grid, (n_bags, n_nodes) at scattered nodes. An estimate with a faster way for bags of one bandwidth overrides
    :meth:`together`.
    """

    def __init__(
        self, density: Density, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]
    ) -> None:
        self.density = density
        self.nodes = nodes
        self.bandwidth = bandwidth
        self.dtype = dtype
        self._weights = nodes.weights

    def __call__(self, bags: Bags, bandwidth: Array | None = None, scratch: Scratch | None = None) -> Array:
        """Densities on the nodes."""
        return self.together(bags, scratch) if bandwidth is None else self._apart(bags, bandwidth)

    def together(self, bags: Bags, scratch: Scratch | None) -> Array:
        """Densities on the nodes of bags of one bandwidth."""
        return self._apart(bags, [self.bandwidth] * bags.n_bags)

    def _apart(self, bags: Bags, bandwidths: Array | Sequence[Array | None]) -> Array:
        shape = self.nodes.shape
        stored = np.empty((*shape[:-1], bags.n_bags, shape[-1]), self.dtype)
        n_unseen = 0
        for i, (points, own) in enumerate(with_shares(bags)):
            values = self.density.of(points, own, bandwidths[i]).pdf(self.nodes.points)
            if not self.density.integrates_to_one:
                n_unseen += not values.any()
                values = normalised(values, self._weights)
            bags_first(stored)[i] = values.reshape(shape)
        if n_unseen:
            warnings.warn(
                f"{type(self.density).__name__}: no node sees the density of some bags, which are taken as uniform; "
                "use nodes='importance', which puts nodes where the points are, or more nodes, or a smoother density",
                UserWarning,
                stacklevel=4,
            )
        return stored


def normalised(values: Array, weights: Array) -> Array:
    """Values divided by their integral; a density that no node sees is uniform.

    Examples
    --------
    >>> normalised(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    array([0.5, 1.5])
    """
    scale = values.max()
    if not scale > 0:
        return np.ones_like(values)
    values = values / scale  # so that the sum can't overflow
    return np.asarray(values / (values @ weights))


def distinct(points: Array, weights: Array | None) -> tuple[Array, Array]:
    """The distinct points of a bag in lexicographic order, and their masses, of sum one.

    What is computed from these depends neither on the order of points nor on whether a mass is one heavy point or many
    copies. Costs a sort.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        Of one bag.
    weights : ndarray of shape (n_points,) or None
        Their masses; None for equal ones.

    Returns
    -------
    points : ndarray of shape (n_distinct, n_dims)
    masses : ndarray of shape (n_distinct,)

    Examples
    --------
    >>> distinct(np.array([[0.7], [0.2], [0.7], [0.7]]), None)
    (array([[0.2],
           [0.7]]), array([0.25, 0.75]))
    """
    order = np.lexsort(points.T[::-1])
    points = points[order]
    new = np.append(True, np.any(points[1:] != points[:-1], axis=1))
    mass = np.ones(len(points)) if weights is None else weights[order]
    mass = np.add.reduceat(mass, np.flatnonzero(new))
    return points[new], mass / mass.sum()


def draw_inside(draw: Callable[[int], Array], n: int) -> Array:
    """Points of the unit cube from draws that may leave it, by rejection.

    Parameters
    ----------
    draw : callable
        Called with a number, returns that many independent points, ndarray of shape (number, n_dims).
    n : int
        Points wanted.

    Returns
    -------
    ndarray of shape (n, n_dims)
        After a thousand rounds what is missing is moved to the nearest point of the cube, so that it always ends.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> drawn = draw_inside(lambda size: rng.normal(0, 1, size=(size, 2)), 30)
    >>> drawn.shape, bool(drawn.min() >= 0), bool(drawn.max() <= 1)
    ((30, 2), True, True)
    """
    kept: list[Array] = []
    missing = n
    for _ in range(1000):
        drawn = draw(2 * missing + 8)
        inside = drawn[np.all((drawn >= 0) & (drawn <= 1), axis=1)][:missing]
        kept.append(inside)
        missing -= len(inside)
        if missing == 0:
            return np.concatenate(kept)
    return np.concatenate([*kept, np.clip(draw(missing), 0, 1)])


def pool(density: Density, bags: Bags, bandwidth: Array | None, limit: int = POOLED_POINTS) -> Pooled:
    """The mean density of bags, estimated from at most about ``limit`` of their points.

    Parameters
    ----------
    density : Density
        The estimate.
    bags : Bags
        Few, without weightless points.
    bandwidth : ndarray of shape (n_dims,) or None
        Of the estimates from all points. Fewer points get a wider one, by n^(-1/(l+4)), or n^(-1/5) where it smooths
        one coordinate at a time.
    limit : int
        Points in all, equally many of each bag: every node costs a kernel for each of them. A bag with more gives
        some at regular steps of its weights.

    Examples
    --------
    >>> from distembed.density import KDE
    >>> bags = Bags.from_arrays([np.linspace(0, 0.5, 1000), np.linspace(0.5, 1, 1000)])
    >>> pool(KDE(), bags, np.array([0.05]), limit=100).points.shape
    (100, 1)
    """
    most = max(2, limit // bags.n_bags)
    exponent = 1 / 5 if density.smooths == "margins" else 1 / (bags.n_dims + 4)
    parts = []
    kept = []
    for points, own in with_shares(bags):
        h = bandwidth
        if len(points) > most:
            steps = (np.arange(most) + 0.5) / most
            if own is None:
                rows = (steps * len(points)).astype(int)
            else:
                rows = np.minimum(np.searchsorted(np.cumsum(own), steps), len(points) - 1)
            h = None if bandwidth is None else bandwidth * (len(points) / most) ** exponent
            points = points[rows]
            own = None
        parts.append(density.of(points, own, h))
        kept.append(points)
    closed = "none" not in density.boundaries(bags.n_dims)
    return Pooled(parts, bags.n_dims, np.concatenate(kept), density.integrates_to_one, closed)
