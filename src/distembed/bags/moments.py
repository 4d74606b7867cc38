"""Means and covariances of bags, and coordinates in which they are safe to compute with.

Points are looked at a bounded number at a time, whatever the sizes of bags, and never in a loop over bags: what is
summed over the points of each bag is a product of two matrices a block, and blocks are of equal size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import bag_chunks
from ..compute.registry import storable
from .container import Bags

__all__ = ["Frame", "chunks_of", "fit_frame", "moments", "segments", "sums_by_bag"]

Array = NDArray[Any]

_FARTHEST = 1e12  # pooled deviations: further points are put there, so that squares and fourth powers stay finite
_LEAST_VARIANCE = 1e-24  # in units of the box: below it is rounding
_LEAST_CORRELATION = 1e-10  # least eigenvalue of the pooled correlation: below it is rounding
_SEGMENT_BYTES = 2**21  # points at a time


def segments(offsets: Array, step: int) -> Iterator[tuple[slice, slice, Array]]:
    """At most ``step`` points at a time: their rows, the bags they belong to, and where those start among them.

    Examples
    --------
    >>> [(rows.start, rows.stop, own.start, own.stop, starts.tolist()) for rows, own, starts in segments([0, 2, 7], 5)]
    [(0, 5, 0, 2, [0, 2]), (5, 7, 1, 2, [0])]
    """
    offsets = np.asarray(offsets)
    for start in range(0, int(offsets[-1]), step):
        stop = min(start + step, int(offsets[-1]))
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        yield slice(start, stop), slice(first, last), np.maximum(offsets[first:last], start) - start


def sums_by_bag(left: Array, right: Array, starts: Array) -> Array:
    """Σ a_i b_iᵀ over the points of each bag, by batched products of blocks of equal size.

    Parameters
    ----------
    left, right : ndarray of shape (n_points, p) and (n_points, q)
        The vectors a_i and b_i.
    starts : ndarray of shape (n_bags,)
        Where bags start, increasing from 0.

    Returns
    -------
    ndarray of shape (n_bags, p, q)

    Notes
    -----
    Each bag is cut into blocks about as large as the mean bag, and its last block filled up with zeros: at most twice
    as many points, however unequal the bags are.

    Examples
    --------
    >>> sums_by_bag(np.ones((3, 1)), np.array([[1.0], [2.0], [3.0]]), np.array([0, 1])).ravel()
    array([1., 5.])
    """
    n_points, sizes = len(left), np.diff(starts, append=len(left))
    block = int(np.clip(2 ** round(np.log2(n_points / len(starts))), 1, 256))
    n_blocks = -(-sizes // block)
    first = np.cumsum(n_blocks) - n_blocks
    padded = np.arange(n_points) + np.repeat(block * first - starts, sizes)
    shape, total = left.shape[1], int(n_blocks.sum())
    filled = np.zeros((total * block, shape + right.shape[1]))
    filled[padded, :shape] = left
    filled[padded, shape:] = right
    filled = filled.reshape(total, block, -1)
    products = np.swapaxes(filled[:, :, :shape], 1, 2) @ filled[:, :, shape:]
    return np.asarray(np.add.reduceat(products, first, axis=0))


@storable
@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates z = A ((x - centre) / half), in which pooled covariances are the identity.

    Parameters
    ----------
    centre, half : ndarray of shape (n_dims,)
        Of the box of the training points; half is 1 where the box has no width.
    matrix : ndarray of shape (n_dims, n_dims) or (n_dims,)
        A, symmetric, or its diagonal.

    Examples
    --------
    >>> Frame(np.array([3.0]), np.array([2.0]), np.array([10.0])).apply(np.array([[5.0]]))
    array([[10.]])
    """

    centre: Array
    half: Array
    matrix: Array

    def apply(self, points: Array) -> Array:
        """Points in the frame, float64 ndarray of shape (n_points, n_dims)."""
        with np.errstate(over="ignore"):
            z = (points.astype(np.float64) - self.centre) / self.half
        np.clip(z, -_FARTHEST, _FARTHEST, out=z)
        z = z * self.matrix if self.matrix.ndim == 1 else z @ self.matrix
        return np.asarray(np.clip(z, -_FARTHEST, _FARTHEST, out=z))

    @property
    def log_det(self) -> float:
        """Log of dz/dx: a density of x is one of z times its exponential."""
        log_a = np.sum(np.log(self.matrix)) if self.matrix.ndim == 1 else np.linalg.slogdet(self.matrix)[1]
        return float(log_a - np.sum(np.log(self.half)))


def moments(bags: Bags, frame: Frame, covariance: str) -> tuple[Array, Array]:
    """Weighted means and covariances of the points of each bag, in a frame.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    frame : Frame
        The coordinates.
    covariance : {"full", "diag"}
        Whether covariances are matrices or variances.

    Returns
    -------
    means : ndarray of shape (n_bags, n_dims)
    covariances : ndarray of shape (n_bags, n_dims, n_dims) or (n_bags, n_dims)

    Notes
    -----
    Parts of a large bag are merged by the update of Chan, Golub and LeVeque (1983): nothing is ever subtracted that
    does not come from differences to a mean.

    Examples
    --------
    >>> frame = Frame(np.zeros(1), np.ones(1), np.ones(1))
    >>> moments(Bags.from_arrays([[1.0, 3.0], [5.0]]), frame, "diag")
    (array([[2.],
           [5.]]), array([[1.],
           [0.]]))
    """
    n_dims, shares = bags.n_dims, bags.shares()
    full = covariance == "full"
    mass, means = np.zeros((bags.n_bags, 1)), np.zeros((bags.n_bags, n_dims))
    scatter = np.zeros((bags.n_bags, n_dims, n_dims) if full else (bags.n_bags, n_dims))
    step = max(64, _SEGMENT_BYTES // (32 * n_dims))
    for rows, own, starts in segments(bags.offsets, step):
        z = frame.apply(bags.points[rows])
        sizes = np.diff(starts, append=len(z))
        w = np.repeat(1.0 / bags.sizes[own], sizes)[:, None] if shares is None else shares[rows, None]
        part = np.add.reduceat(w, starts, axis=0)
        mean = np.add.reduceat(w * z, starts, axis=0) / np.where(part > 0, part, 1.0)  # shares may underflow
        z -= np.repeat(mean, sizes, axis=0)
        found = sums_by_bag(w * z, z, starts) if full else np.add.reduceat(w * z**2, starts, axis=0)
        total, gap = mass[own] + part, mean - means[own]
        share = part / np.where(total > 0, total, 1.0)
        apart = mass[own] * share
        found += (apart * gap)[:, :, None] * gap[:, None, :] if full else apart * gap**2
        scatter[own] += found
        means[own] += gap * share
        mass[own] = total
    return means, scatter


def chunks_of(bags: Bags, n_values: int) -> list[slice]:
    """Bags at a time, each with ``n_values`` values besides its points.

    Examples
    --------
    >>> chunks_of(Bags.from_arrays([[1.0], [2.0, 3.0]]), 10)
    [slice(0, 2, None)]
    """
    return bag_chunks(bags.n_bags, 8 * (n_values + bags.n_points // bags.n_bags * (bags.n_dims + 2)))


def fit_frame(groups: Sequence[Bags], between: float, covariance: str) -> Frame:
    """The frame in which W + ``between`` · B of these bags is the identity.

    Parameters
    ----------
    groups : sequence of Bags
        Training bags, each of which counts alike.
    between : float
        How much the covariance B of the bags' means counts beside W, the mean of their covariances.
    covariance : {"full", "diag"}
        With ``"diag"`` only variances are made one.

    Returns
    -------
    Frame
        A coordinate in which no two training points differ keeps its unit, and directions in which the pooled
        correlation has an eigenvalue below 1e-10 count as if it were 1e-10.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0, 2.0], [10.0, 12.0]])  # variance 1 in a bag, and 25 of the means
    >>> float(np.diff(fit_frame([bags], 0.0, "diag").apply(bags[0]), axis=0)[0, 0])
    2.0
    """
    low = np.min([bags.points.min(axis=0) for bags in groups], axis=0).astype(np.float64)
    high = np.max([bags.points.max(axis=0) for bags in groups], axis=0).astype(np.float64)
    half = high / 2 - low / 2
    box = Frame(low / 2 + high / 2, np.where(half > 0, half, 1.0), np.ones(len(half)))
    n_bags = sum(bags.n_bags for bags in groups)
    pooled: Any = 0.0
    squares: Any = 0.0
    centre: Any = 0.0
    for bags in groups:
        for rows in chunks_of(bags, bags.n_dims**2):
            means, inside = moments(bags[rows], box, covariance)
            pooled += inside.sum(axis=0) / n_bags
            squares += (means.T @ means if covariance == "full" else np.sum(means**2, axis=0)) / n_bags
            centre += means.sum(axis=0) / n_bags
    outside = squares - (np.multiply.outer(centre, centre) if covariance == "full" else np.square(centre))
    pooled = pooled + between * outside
    variances = np.diag(pooled) if covariance == "full" else pooled
    scale = np.sqrt(np.where(variances > _LEAST_VARIANCE, variances, 1.0))
    if covariance == "diag":
        return Frame(box.centre, box.half * scale, np.ones(len(scale)))
    correlation = pooled / np.multiply.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation + np.diag(np.where(variances > _LEAST_VARIANCE, 0.0, 1.0)))
    matrix = (vectors / np.sqrt(np.maximum(values, _LEAST_CORRELATION))) @ vectors.T
    return Frame(box.centre, box.half * scale, matrix)
