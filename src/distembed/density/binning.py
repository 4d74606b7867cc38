"""Linear binning: points to masses on a grid, the first step of a density on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..compute.parallel import Scratch

__all__ = ["LinearBinning"]

Array = NDArray[Any]


class LinearBinning:
    """Linear binning: each point shares its mass among the 2^l cells whose midpoints surround it.

    Parameters
    ----------
    shape : sequence of int
        Cells along each dimension, two at least.
    periodic : sequence of bool
        Whether a dimension wraps around; otherwise a point beyond the last midpoint belongs to the last cell.
    dtype : numpy dtype
        Of the points.

    Notes
    -----
    O(2^l n_points) additions and a pass over the cells. The bags are the rows of a sparse matrix with 2^l entries a
    point; to make it dense is to add up the entries of each cell. It works in few operations on long arrays: short ones
    would keep threads waiting for Python's lock.

    Examples
    --------
    >>> LinearBinning((4,), (False,), np.dtype(float))(np.array([[0.5], [0.125]]), np.array([0, 2])).round(9)
    array([[1. , 0.5, 0.5, 0. ]])
    """

    def __init__(self, shape: Sequence[int], periodic: Sequence[bool], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = tuple(shape), dtype
        self.n_cells = prod(shape)
        self._sizes = np.array(shape, dtype)[:, None]
        self._strides = np.array([prod(shape[j + 1 :]) for j in range(len(shape))], np.int32)
        self._corners = list(product((0, 1), repeat=len(shape)))
        self._wraps = np.array(periodic)[:, None]
        last = np.nextafter(self._sizes - 1, 0 * self._sizes)  # just below: its cell is the last but one
        self._bottom = np.where(self._wraps, -self._sizes, 0 * self._sizes)
        self._top = np.where(self._wraps, 2 * self._sizes, last)

    def __call__(
        self, points: Array, offsets: Array, weights: Array | None = None, scratch: Scratch | None = None
    ) -> Array:
        """Masses of the cells.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_dims)
            In the unit cube.
        offsets : ndarray of shape (n_bags + 1,) of int
            Bag i owns the points from ``offsets[i]`` to ``offsets[i + 1]``; here a bag may have none.
        weights : ndarray of shape (n_points,), optional
            Mass of each point, one by default.
        scratch : Scratch, optional
            Memory for the result, which is then valid until the next call.

        Returns
        -------
        ndarray of shape (n_bags, *shape)
            Each bag's masses sum to the weights of its points. Grids of parts of a bag add up to the bag's.
        """
        scratch = Scratch() if scratch is None else scratch
        dtype, (n_points, n_dims), n_bags = self.dtype, points.shape, len(offsets) - 1
        # Position in cells, counted from the first midpoint, and the cell below it.
        position = np.multiply(points.T, self._sizes, out=scratch("position", (n_dims, n_points), dtype))
        position -= dtype.type(0.5)
        np.clip(position, self._bottom, self._top, out=position)
        low = np.floor(position, out=scratch("low", (n_dims, n_points), dtype))
        shares = scratch("shares", (2, n_dims, n_points), dtype)
        np.subtract(position, low, out=shares[1])
        np.subtract(dtype.type(1), shares[1], out=shares[0])
        steps = self._steps(low)
        cells = scratch("cells", (n_points, len(self._corners)), np.int32)
        masses = scratch("masses", (n_points, len(self._corners)), dtype)
        np.copyto(cells[:, 0], self._number(low), casting="unsafe")
        for k, corner in enumerate(self._corners):
            if k:
                np.add(cells[:, 0], sum(step for step, up in zip(steps, corner, strict=True) if up), out=cells[:, k])
            factors = [shares[up, j] for j, up in enumerate(corner)] + ([] if weights is None else [weights])
            np.multiply(factors[0], factors[1] if len(factors) > 1 else dtype.type(1), out=masses[:, k])
            for factor in factors[2:]:
                masses[:, k] *= factor
        entries = (masses.reshape(-1), cells.reshape(-1), (len(self._corners) * offsets).astype(np.int32))
        matrix = csr_matrix(entries, shape=(n_bags, self.n_cells), copy=False)
        dense = matrix.toarray(out=scratch("counts", (n_bags, self.n_cells), dtype))
        return np.asarray(dense).reshape(n_bags, *self.shape)

    def _steps(self, low: Array) -> Any:
        """From a cell's number to its upper neighbour's, along each dimension; wraps ``low`` where it must."""
        if not self._wraps.any():
            return self._strides
        # The cells -1 and size are the last and the first; from the last one the way up leads to the first.
        low %= self._sizes
        strides = self._strides[:, None]
        around = self._wraps & (low == self._sizes - 1)
        return np.where(around, (1 - self._sizes) * strides, strides).astype(np.int32)

    def _number(self, low: Array) -> Array:
        """Number of the lowest cell of each point, added up in floating point, which must hold it exactly."""
        number: Array = low[-1] if self.n_cells < 2**24 else low[-1].astype(float)
        for lower, stride in zip(low[:-1], self._strides[:-1], strict=True):
            lower *= self.dtype.type(stride)
            number += lower
        return number
