r"""Nearest neighbour density: as narrow as the points allow, place by place.

With r(u) the least radius, no less than a given one, at which the ball of the maximum norm around u holds the mass of
k points,

.. math:: \hat p(u) = W(u) \Big/ \prod_j \bigl(\min(u_j + r, 1) - \max(u_j - r, 0)\bigr),

W(u) being the mass of that ball. Such a ball is a box, and so is its part inside the cube, whose volume is an exact
product: faces need no correction. The estimate does not integrate to one (its tails are r^-l); values are divided by
the mass on the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import storable
from .estimate import Density, distinct_points, register

_FIRST_NEIGHBOURS = 32  # looked at where points weigh differently
# atoms weigh ten times as much as the points below which lies a twentieth of the mass
_LIGHT = 0.05
_HEAVY = 10.0


def typical(mass: Array) -> tuple[float, float]:
    """The number of points that masses of sum one stand for, and the mass of an ordinary one of them.

    Kish's effective number, 1/Σm², in which an atom, a point of more than ten times the ordinary mass, counts as one
    point: a bag of zeros and few other points has as many points as are different. A heavy point and many copies of one
    are the same, and points of next to no mass do not count.

    Parameters
    ----------
    mass : ndarray of shape (n_distinct,)
        Of sum one.

    Examples
    --------
    >>> n, each = typical(np.append(0.9, np.full(100, 0.001)))
    >>> round(n), round(each, 6)
    (101, 0.001)
    >>> typical(np.full(4, 0.25))
    (4.0, 0.25)
    """
    ordered = np.sort(mass)
    light = ordered[np.searchsorted(np.cumsum(ordered), _LIGHT * ordered.sum())]
    others = mass[mass <= _HEAVY * light]
    each = float(np.sum(others**2) / others.sum())
    return float(others.sum() / each + len(mass) - len(others)), each


class BagNeighbours:
    """The nearest neighbour density of one bag; it has no ``sample``.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        All different.
    mass : ndarray of shape (n_points,)
        Of sum one.
    target : float
        Mass that a ball must hold, that of k points.
    least_radius : float
        Of a ball, whatever mass it then holds.

    Examples
    --------
    >>> one = BagNeighbours(np.array([[0.2], [0.5], [0.9]]), np.full(3, 1 / 3), 2 / 3, 0.01)
    >>> one.pdf(np.array([[0.4]])).round(3)  # two of three points within 0.2
    array([1.667])
    """

    block_pairs = 2**20  # of places and points at a time

    def __init__(self, points: Array, mass: Array, target: float, least_radius: float) -> None:
        self.mass = mass
        self.target = target
        self.least_radius = least_radius
        self._tree = cKDTree(points)
        self._equal = bool(np.ptp(mass) <= 1e-12 * mass[0])

    def balls(self, u: Array) -> tuple[Array, Array]:
        """Radius and mass of the ball around each place, two ndarrays of shape (n,)."""
        n = len(self.mass)
        enough = self.target - 1e-9
        radius = np.full(len(u), self.least_radius)
        inside = self._smallest(u)
        left = np.flatnonzero(inside < enough)
        k = min(int(np.ceil(n * enough)) + 1, n)
        if not self._equal:  # a heavy point may fill the ball
            k = min(k, _FIRST_NEIGHBOURS)
        # More neighbours, until the ball is full and the next point lies outside it: points at equal distances are
        # all in, so that their order can't matter.
        while len(left):
            step = max(1, self.block_pairs // k)
            found = [self._full(u[left[start : start + step]], k) for start in range(0, len(left), step)]
            r, held, done = (np.concatenate(part) for part in zip(*found, strict=True))
            radius[left[done]], inside[left[done]] = r[done], held[done]
            left = left[~done]
            k = min(2 * k, n)
        return radius, inside

    def _full(self, u: Array, k: int) -> tuple[Array, Array, Array]:
        """Radius and mass of the ball around each place as far as k neighbours tell, and whether they do."""
        last = k == len(self.mass)
        distance, index = self._tree.query(u, k=np.arange(1, k + 1), p=np.inf)
        total = np.cumsum(self.mass[index], axis=1)
        total[:, -1] = 1.0 if last else total[:, -1]
        full = total >= self.target - 1e-9
        rows = np.arange(len(u))
        r = distance[rows, np.where(full.any(axis=1), full.argmax(axis=1), k - 1)]
        held = distance <= r[:, None] * (1 + 1e-12)
        return r, total[rows, held.sum(axis=1) - 1], full[:, -1] & (~held[:, -1] | last)

    def _smallest(self, u: Array) -> Array:
        """Mass within the least radius of each place, ndarray of shape (n,); faces of the ball belong to it."""
        r = self.least_radius * (1 + 1e-9)
        counts = self._tree.query_ball_point(u, r, p=np.inf, return_length=True)
        if self._equal:
            return np.asarray(counts / len(self.mass))
        # Pairs of a place and a point, as many places at a time as keep these few.
        inside = np.zeros(len(u))
        some = np.flatnonzero(counts)
        for rows in np.split(some, np.flatnonzero(np.diff(np.cumsum(counts[some]) // self.block_pairs)) + 1):
            pairs = cKDTree(u[rows]).sparse_distance_matrix(self._tree, r, p=np.inf, output_type="ndarray")
            inside[rows] = np.bincount(pairs["i"], self.mass[pairs["j"]], minlength=len(rows))
        return inside

    def pdf(self, u: Array) -> Array:
        """Density at u, ndarray of shape (n,); not of integral one."""
        radius, inside = self.balls(u)
        r = radius[:, None]
        sides = np.minimum(u + r, 1.0) - np.maximum(u - r, 0.0)
        return np.asarray(inside / np.prod(sides, axis=1))


@storable
@dataclass(frozen=True)
class KNN(Density):
    r"""Nearest neighbour density with balls of the maximum norm.

    Parameters
    ----------
    k : int or "auto", default="auto"
        Neighbours; ``"auto"`` is √n of n distinct points, see :func:`distembed.density.neighbours.typical`, rounded
        up.
    least_radius : float, default=0.01
        Balls are at least this large: copies of a point, and a bag of one, would have a density without bound.

    Notes
    -----
    There is no bandwidth: the smoothing follows the points. Copies of a point are one point with their mass. With
    weights or copies a ball grows until it holds the mass of k ordinary points: k/n, n being Kish's effective number,
    unless atoms weigh more than ten times as much as the lightest points that matter. These count as one point, so a
    bag of many zeros is not one wide ball.

    *Cost* a bag: O((n_points + k n_nodes) log n_points), and with weights the points within the least radius of each
    node. *Limits*: continuous, with kinks, where points weigh the same and balls exceed the least one; elsewhere it
    jumps by the mass of a point. Its tails are so heavy that distances come out too small: Hellinger's H² between
    Gaussians in two dimensions by a factor of about 0.55 for bags of 200 points, 0.7 for 2,000 and 0.8 for 20,000, in
    nearly the right order. No draws, which ``nodes=Importance()`` needs and ``nodes=MCMC()`` does not.

    References
    ----------
    Loftsgaarden, Quesenberry (1965). A nonparametric estimate of a multivariate density function. Ann. Math. Stat.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(size=(400, 2))
    >>> KNN().of(x, None, None).pdf(np.array([[0.5, 0.5], [0.0, 0.0]])).round(1)
    array([1.2, 0.9])
    """

    smooths: ClassVar[str] = "nothing"
    integrates_to_one: ClassVar[bool] = False

    k: int | str = "auto"
    least_radius: float = 0.01

    def finest(self) -> float:
        """The least radius of a ball."""
        return check_number("KNN", "least_radius", self.least_radius, low=1e-6, high=1.0)

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> Any:
        """The density of one bag, see :meth:`Density.of`; ``bandwidth`` is ignored. It has a ``pdf`` only."""
        least = self.finest()
        each, mass = distinct_points(points, weights)
        n, ordinary = typical(mass)
        if isinstance(self.k, str):
            if self.k != "auto":
                raise ValueError(f"KNN(k=...): must be a positive integer or 'auto', got {self.k!r}; 'auto' is √n")
            k: float = np.ceil(np.sqrt(n) - 1e-9)
        else:
            k = check_number("KNN", "k", self.k, low=1, high=2**31, integer=True)
        return BagNeighbours(each, mass, min(k * ordinary, 1.0), least)


register("knn", KNN)
