"""What densities that are means over points have for statistics: masses of bins, or densities on the nodes.

A kernel density estimate of one bandwidth on a grid is made of binned masses, which are the statistics: smoothing comes
when all pieces are there. Elsewhere they are the densities on the nodes, and where there is no density, coefficients.
With categorical columns a bag has all of that for each cell, times the share of the cell.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..bags import Bags
from ..bags.estimators import OutsideCube, in_cube
from ..compute.arrays import Array, Scratch, bags_first
from ..density import KDE, Histogram
from ..density.nodes import GridNodes
from .cells import NoDimensions
from .stages import NumPyEngine, Stages

_LINEAR = (KDE, Histogram, NoDimensions)


def why_not(stages: Stages) -> str:
    """Why the density of a bag is not the mean of those of its pieces; empty where it is.

    Examples
    --------
    >>> import distembed as de
    >>> bags = np.random.default_rng(0).uniform(size=(10, 30, 1))
    >>> why_not(de.HDDEmbedding(n_basis=3).fit(bags).stages_)
    ''
    """
    if stages.point_means is not None:
        return ""
    if stages.bag_rule is not None:
        return "each bag has a bandwidth of its own; use one for all, as density='kde' does"
    if type(stages.density) not in _LINEAR:
        return f"the density {type(stages.density).__name__} of a bag needs all of its points; use density='kde'"
    return ""


class DensityStatistics:
    """Statistics of bags, and features from means of them.

    Parameters
    ----------
    stages : Stages
        Of a fitted embedding.

    Examples
    --------
    >>> import distembed as de
    >>> bags = np.random.default_rng(0).uniform(size=(10, 30, 1))
    >>> embedding = de.HDDEmbedding(n_basis=3).fit(bags)
    >>> made = DensityStatistics(embedding.stages_)
    >>> masses = made.of(de.as_bags(bags))
    >>> bool(np.allclose(masses.sum(axis=1), 1)), bool(np.allclose(made.features(masses), embedding.transform(bags)))
    (True, True)
    """

    def __init__(self, stages: Stages) -> None:
        self._stages, double = stages, np.dtype(np.float64)
        self._n_cells = 1 if stages.cells is None else stages.cells.n_cells
        if stages.point_means is not None:
            self._shape: tuple[int, ...] = (len(stages.indices),)
            return
        self._estimate = stages.density.prepare(stages.nodes, stages.bandwidth, double)
        if stages.smooths_bins:
            self._shape = self._estimate.n_bins
        else:
            self._shape = stages.nodes.shape if isinstance(stages.nodes, GridNodes) else (stages.nodes.n_nodes,)

    @property
    def n_statistics(self) -> int:
        """How many a bag has."""
        return self._n_cells * prod(self._shape)

    def of(self, bags: Bags) -> Array:
        """Means over the points of float64 bags, ndarray of shape (n_bags, n_statistics)."""
        cells = self._stages.cells
        if cells is None:
            return self._each(bags)
        out = np.zeros((bags.n_bags, self._n_cells, prod(self._shape)))
        if cells.hold(bags).any():
            split = cells.split(bags)
            out[split.owner, split.cell] = split.share[:, None] * self._each(split.parts)
        return out.reshape(bags.n_bags, -1)

    def _each(self, bags: Bags) -> Array:
        """The same of continuous points."""
        stages = self._stages
        if stages.point_means is not None:
            return stages.point_means(bags, None, Scratch())
        if not in_cube(bags):
            raise OutsideCube
        if stages.smooths_bins:
            found = bags_first(self._estimate.masses(bags))
        else:
            found = np.asarray(self._estimate(bags, None, Scratch()))
            found = bags_first(found) if isinstance(stages.nodes, GridNodes) else found
        return found.reshape(bags.n_bags, -1)

    def features(self, means: Array) -> Array:
        """Features of means, ndarray of shape (n_bags, n_features)."""
        stages = self._stages
        if stages.point_means is not None:
            return means
        each = means.reshape(-1, *self._shape)
        stored = np.ascontiguousarray(np.moveaxis(each, 0, -2))  # as engines have it
        engine, scratch = NumPyEngine(stages, np.dtype(np.float64)), Scratch()
        if stages.smooths_bins:
            rows = engine.from_masses(stored, self._estimate.matrices, None, scratch)
        else:
            rows = engine.from_densities(stored, None, scratch)
        return np.asarray(rows).reshape(len(means), -1)
