"""Sums over the bags of parts of a table, as workers keep, send and join them.

Of the symmetric D × D matrix G of :class:`~distembed.models.normal_equations.NormalEquations` one triangle says all,
so is all that is kept: D (D + 1) / 2 numbers, column after column, as BLAS packs them. Joining makes new sums and
leaves both that it joins as they are, because a task may be run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from ..compute.arrays import Array
from ..models.normal_equations import NormalEquations


@dataclass(frozen=True, eq=False)
class PackedSums:
    """Normal equations of a ridge regression, in half the memory.

    Parameters
    ----------
    single, n_rows, weight, z_mean, y_mean, B, yy
        As in :class:`~distembed.models.normal_equations.NormalEquations`.
    G : ndarray of shape (D (D + 1) / 2,)
        The lower triangle, column after column.

    Examples
    --------
    >>> Z, y = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 4.0]]), np.array([[1.0], [3.0], [11.0]])
    >>> one, two = (PackedSums.of(NormalEquations(2, 1).add(Z[i], y[i], np.ones(len(i)))) for i in ([0, 1], [2]))
    >>> one.join(two).G.round(6)
    array([14.,  9.,  6.])
    >>> one.join(two).equations().G.round(6)
    array([[14.,  0.],
           [ 9.,  6.]])
    """

    single: bool
    n_rows: int
    weight: float
    z_mean: Array
    y_mean: Array
    G: Array
    B: Array
    yy: Array

    @classmethod
    def of(cls, sums: NormalEquations) -> PackedSums:
        """Keep one triangle, in the memory of the matrix, half of which is given back: the equations are used up."""
        G = sums.G
        n = len(sums.G)
        stop = 0
        flat = G.T.reshape(-1)
        for j in range(n):
            start = stop
            stop = stop + n - j
            flat[start:stop] = G[j:, j]  # never beyond what is read next
        del flat
        G.resize(stop, refcheck=False)
        return cls(sums.single, sums.n_rows, sums.weight, sums.z_mean, sums.y_mean, G, sums.B, sums.yy)

    def equations(self) -> NormalEquations:
        """The equations that were packed; zeros where nothing was kept."""
        sums = NormalEquations(len(self.z_mean), len(self.y_mean), self.single)
        start = 0
        sums.n_rows = self.n_rows
        sums.weight = self.weight
        sums.z_mean = self.z_mean
        sums.y_mean = self.y_mean
        sums.B = self.B
        sums.yy = self.yy
        for j, column in enumerate(sums.G.T):
            stop = start + len(column) - j
            column[j:] = self.G[start:stop]
            start = stop
        return sums

    def join(self, other: PackedSums) -> PackedSums:
        """The sums over the rows of both, see Chan, Golub and LeVeque (1983)."""
        weight = self.weight + other.weight
        share = self.weight / weight * other.weight
        step = other.weight / weight
        z_step = other.z_mean - self.z_mean
        y_step = other.y_mean - self.y_mean
        G = blas.dspr(len(z_step), share, z_step, self.G + other.G, lower=1, overwrite_ap=1)
        return PackedSums(
            self.single,
            self.n_rows + other.n_rows,
            weight,
            self.z_mean + step * z_step,
            self.y_mean + step * y_step,
            G,
            self.B + other.B + share * np.multiply.outer(z_step, y_step),
            self.yy + other.yy + share * y_step**2,
        )


@dataclass(frozen=True)
class Total:
    """Sums over some bags, one for each ridge regression of a model, and how many bags and points they are of.

    Those of one part hold its pieces of bags that are cut, too, until they join others.
    """

    sums: tuple[PackedSums, ...] = ()
    n_bags: int = 0
    n_points: int = 0
    pieces: Any = None

    def join(self, other: Total) -> Total:
        """The sums over the bags of both."""
        sums = self.sums or other.sums
        if self.sums and other.sums:
            sums = tuple(one.join(two) for one, two in zip(self.sums, other.sums, strict=True))
        return Total(sums, self.n_bags + other.n_bags, self.n_points + other.n_points)
