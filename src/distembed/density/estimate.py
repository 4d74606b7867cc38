"""What every density estimate offers, and the evaluation of any of them bag by bag.

A density is a small value object that users pass: ``density=KDE(boundary="periodic")``. It turns the points of one bag
into a :class:`BagDensity` (``of``), which has a ``pdf`` and may have a ``sample``; and it makes, for given nodes, a
function of many bags (``prepare``). The latter has a slow default here, one bag after the other; an estimate that knows
a faster way overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .._parallel import Scratch
from .._separable import bags_first
from ..bags import Bags
from ..nodes import GridNodes, PointNodes

__all__ = ["BagDensity", "Density", "Evaluator", "Pooled"]

Array = NDArray[Any]
Evaluator = Callable[[Bags, Array | None, Scratch | None], Array]


class BagDensity(Protocol):
    """The estimated density of one bag."""

    def pdf(self, u: Array) -> Array:
        """Density at u of shape (n, n_dims), ndarray of shape (n,)."""

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n independent points, ndarray of shape (n, n_dims)."""


class Density:
    """Base of the density estimates.

    Attributes
    ----------
    smooths : {"joint", "margins", "nothing"}
        What the bandwidth means to this estimate: rules apply to the points as they are, to each coordinate by itself,
        or there is no bandwidth.
    integrates_to_one : bool
        Whether the estimate has mass one on the cube. If not, its values are divided by its mass on the nodes.
    per_bag : bool
        Whether a bandwidth rule is applied to every bag by itself.
    """

    smooths: ClassVar[str] = "joint"
    integrates_to_one: ClassVar[bool] = True
    per_bag: bool = False

    def boundaries(self, n_dims: int) -> tuple[str, ...]:
        """The boundary of each of n_dims dimensions, see :func:`distembed.density.kernel`."""
        return ("reflect",) * n_dims

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> BagDensity:
        """The density of one bag.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_dims)
            In the unit cube.
        weights : ndarray of shape (n_points,) or None
            Positive masses of sum one; None for equal ones.
        bandwidth : ndarray of shape (n_dims,) or None
            None for estimates that have none.
        """
        raise NotImplementedError

    def prepare(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> Evaluator:
        """An evaluator for these nodes: called with bags, it returns densities on the nodes."""
        return EachBag(self, nodes, bandwidth, dtype)


class EachBag:
    """Densities of many bags on nodes, one bag after the other.

    Called with bags (and a bandwidth a bag, or None) it returns an ndarray of shape (g_1, ..., g_{l-1}, n_bags, g_l)
    on a grid, (n_bags, n_nodes) at scattered nodes.
    """

    def __init__(
        self, density: Density, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]
    ) -> None:
        self.density, self.nodes, self.bandwidth, self.dtype = density, nodes, bandwidth, dtype
        self._weights = nodes.weights

    def __call__(self, bags: Bags, bandwidth: Array | None = None, scratch: Scratch | None = None) -> Array:
        shape = self.nodes.shape
        stored = np.empty((*shape[:-1], bags.n_bags, shape[-1]), self.dtype)
        shares = bags._shares()
        for i, points in enumerate(bags):
            own = None if shares is None else shares[bags.offsets[i] : bags.offsets[i + 1]]
            h = self.bandwidth if bandwidth is None else bandwidth[i]
            values = self.density.of(points.astype(float), own, h).pdf(self.nodes.points)
            if not self.density.integrates_to_one:
                values = normalised(values, self._weights)
            bags_first(stored)[i] = values.reshape(shape)
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


class Pooled:
    """The equal mixture of several bags' densities: what nodes are drawn from.

    Parameters
    ----------
    parts : sequence of BagDensity
        Densities of bags.
    n_dims : int
        Of their points.

    Examples
    --------
    >>> from distembed.density import KDE
    >>> parts = [KDE().of(np.array([[x]]), None, np.array([0.1])) for x in (0.2, 0.8)]
    >>> Pooled(parts, 1).pdf(np.array([[0.2], [0.5]])).round(3)
    array([1.995, 0.044])
    """

    def __init__(self, parts: Sequence[BagDensity], n_dims: int) -> None:
        self.parts, self.n_dims = list(parts), n_dims

    def pdf(self, u: Array) -> Array:
        """Mean density at u of shape (n, n_dims), ndarray of shape (n,)."""
        return np.asarray(np.mean([part.pdf(u) for part in self.parts], axis=0))

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points, as evenly from the parts as n allows, ndarray of shape (n, n_dims)."""
        counts = np.bincount(np.arange(n) % len(self.parts), minlength=len(self.parts))
        drawn = [part.sample(int(k), rng) for part, k in zip(self.parts, counts, strict=True) if k]
        return np.concatenate(drawn)
