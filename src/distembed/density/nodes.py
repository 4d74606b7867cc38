"""Integration nodes: where densities are evaluated and integrals over the unit cube are taken.

Five kinds, each a small value object that says what to make, and ``resolve`` which makes it once in ``fit``:

- :class:`Grid`, a tensor grid of cell midpoints, for one to three dimensions. The midpoint rule is exact for products
  of cosines up to its size, and everything on a grid separates into one matrix product a dimension.
- :class:`Sobol`, scrambled quasi-random nodes, for any dimension; error about 1/n for smooth integrands.
- :class:`MonteCarlo`, the paper's independent uniform nodes; error 1/√n.
- :class:`Importance`, nodes drawn from the training bags' own density, for narrow densities in many dimensions, which
  uniform nodes miss.
- :class:`MCMC`, the same by Metropolis chains, for densities that can be evaluated but not drawn from.

A node u_i has a volume v_i, and Σ v_i f(u_i) estimates ∫ f over the cube. Nodes drawn from a density q have the volumes
1/(n q(u_i)): small where they crowd.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.registry import storable
from .drawn_nodes import MCMC, Importance, NodeSpec, PointNodes, sobol
from .estimate import Grid, GridNodes
from .estimate import kind_of as get

__all__ = ["MCMC", "Grid", "GridNodes", "Importance", "MonteCarlo", "NodeSpec", "PointNodes", "Sobol", "get"]

DEFAULT_SOBOL = 4096


@storable
@dataclass(frozen=True)
class Sobol(NodeSpec):
    """Scrambled Sobol nodes (Owen 1998), for any number of dimensions.

    Parameters
    ----------
    n : int, default=4096
        Number of nodes; powers of two are balanced best, others are rounded up to the next one.

    Examples
    --------
    >>> Sobol(1000).resolve(5, random_state=np.random.RandomState(0)).points.shape
    (1024, 5)
    """

    n: int = DEFAULT_SOBOL

    def resolve(self, n_dims: int, *, random_state: np.random.RandomState | None = None, **_: object) -> PointNodes:
        """Return the nodes for this many dimensions."""
        n = check_number("Sobol", "n", self.n, low=2, high=2**24, integer=True)
        return _uniform(sobol(n_dims, 2 ** ceil(np.log2(n)), random_state or np.random.RandomState()))


@storable
@dataclass(frozen=True)
class MonteCarlo(NodeSpec):
    """Independent uniform nodes, as in the paper.

    Parameters
    ----------
    n : int, default=5000
        Number of nodes, n_e in the paper.

    Examples
    --------
    >>> MonteCarlo(10).resolve(3, random_state=np.random.RandomState(0)).points.shape
    (10, 3)
    """

    n: int = 5000

    def resolve(self, n_dims: int, *, random_state: np.random.RandomState | None = None, **_: object) -> PointNodes:
        """Return the nodes for this many dimensions."""
        n = check_number("MonteCarlo", "n", self.n, low=2, high=2**24, integer=True)
        return _uniform((random_state or np.random.RandomState()).uniform(size=(n, n_dims)))


def _uniform(points: Array) -> PointNodes:
    return PointNodes(points, np.full(len(points), 1 / len(points)))
