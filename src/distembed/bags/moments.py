"""Means and covariances of bags, and coordinates in which they are safe to compute with.

Points are looked at a bounded number at a time, whatever the sizes of bags, and never in a loop over bags: what is
summed over the points of each bag is a product of two matrices a block, and blocks are of equal size.

Coordinates are either a :class:`CoordinateFrame`, the same for all bags, or each bag's own: relative to its first
point, and divided by powers of two. Then a large offset costs no digits, a constant coordinate has a deviation of
exactly 0, and nothing vanishes or overflows on the way, however small or large the units are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compute.arrays import Array
from ..compute.parallel import bag_chunks, bag_slices
from ..compute.registry import storable
from .container import Bags

_FARTHEST = 1e12  # pooled deviations: further points are put there, so that squares and fourth powers stay finite
_LEAST_VARIANCE = 1e-24  # in units of the box: below it is rounding
_LEAST_CORRELATION = 1e-10  # least eigenvalue of the pooled correlation: below it is rounding
_SEGMENT_BYTES = 2**22  # points at a time
_PIECE_POINTS = 2048  # larger bags are cut
_SLACK = 1.25  # of bags in one array the longest has at most so many times the points of the shortest
_MOST_HALVINGS = 1000  # 2^1000 is finite, and the square of 2^1000 times the smallest number is not zero


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
    n_points = len(left)
    sizes = np.diff(starts, append=len(left))
    block = int(np.clip(2 ** round(np.log2(n_points / len(starts))), 1, 256))
    n_blocks = -(-sizes // block)
    first = np.cumsum(n_blocks) - n_blocks
    padded = np.arange(n_points) + np.repeat(block * first - starts, sizes)
    shape = left.shape[1]
    total = int(n_blocks.sum())
    filled = np.zeros((total * block, shape + right.shape[1]))
    filled[padded, :shape] = left
    filled[padded, shape:] = right
    filled = filled.reshape(total, block, -1)
    products = np.swapaxes(filled[:, :, :shape], 1, 2) @ filled[:, :, shape:]
    return np.asarray(np.add.reduceat(products, first, axis=0))


@storable(centre="finite(d)", half="finite(d)", matrix="finite(d) | finite(d, d)")
@dataclass(frozen=True, eq=False)
class CoordinateFrame:
    """Coordinates z = A ((x - centre) / half), in which pooled covariances are the identity.

    Parameters
    ----------
    centre, half : ndarray of shape (n_dims,)
        Of the box of the training points; half is 1 where the box has no width.
    matrix : ndarray of shape (n_dims, n_dims) or (n_dims,)
        A, symmetric, or its diagonal.

    Examples
    --------
    >>> CoordinateFrame(np.array([3.0]), np.array([2.0]), np.array([10.0])).apply(np.array([[5.0]]))
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


def padded_rows(starts: Array, sizes: Array) -> Iterator[tuple[Array, Array, Array | None]]:
    """Groups of bags of nearly equal size, as rectangular arrays of rows: at most a fifth of them is padding.

    Yields
    ------
    bags : ndarray of shape (n_group,)
        Positions of the bags.
    rows : ndarray of shape (n_group, longest)
        Rows of their points; where a bag has no more points, its first one.
    present : ndarray of shape (n_group, longest) of bool, or None
        Where there are points; None: everywhere.

    Notes
    -----
    There are at most log(longest / shortest) / log(1.25) + 1 groups, however many bags.

    Examples
    --------
    >>> [(bags.tolist(), rows.tolist()) for bags, rows, _ in padded_rows(np.array([0, 2, 3]), np.array([2, 1, 2]))]
    [([1], [[2]]), ([0, 2], [[0, 1], [3, 4]])]
    """
    order = np.argsort(sizes, kind="stable")
    increasing = sizes[order]
    begin = 0
    while begin < len(order):
        end = int(np.searchsorted(increasing, _SLACK * increasing[begin], side="right"))
        bags = order[begin:end]
        lengths = increasing[begin:end]
        steps = np.arange(lengths[-1])
        present = None if lengths[0] == lengths[-1] else steps < lengths[:, None]
        yield bags, starts[bags, None] + (steps if present is None else np.where(present, steps, 0)), present
        begin = end


def moments(
    bags: Bags, coordinates: Callable[[Array], Array], covariance: str | None, dtype: Any = np.float64
) -> tuple[Array, Array]:
    """Weighted means and covariances of the points of each bag.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    coordinates : callable
        Points to those whose moments are taken, float64: :meth:`CoordinateFrame.apply`.
    covariance : {"full", "diag", None}
        Whether covariances are matrices or variances, or zeros that nobody wants.
    dtype : dtype
        In which points are squared, after they were centred.

    Returns
    -------
    means : ndarray of shape (n_bags, n_dims)
    covariances : ndarray of shape (n_bags, n_dims, n_dims) or (n_bags, n_dims)

    Notes
    -----
    Points are taken relative to the first of their bag before anything is summed, and to their mean before anything is
    squared. Parts of a large bag are merged by the update of Chan, Golub and LeVeque (1983): nothing is ever subtracted
    that does not come from differences to a mean.

    Examples
    --------
    >>> moments(Bags.from_arrays([[1.0, 3.0], [5.0]]), np.asarray, "diag")
    (array([[2.],
           [5.]]), array([[1.],
           [0.]]))
    """
    shares = bags.shares()
    full = covariance == "full"
    n_pieces = -(-bags.sizes // _PIECE_POINTS)  # bags are cut only where they are large
    owner = np.repeat(np.arange(bags.n_bags), n_pieces)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    starts = bags.offsets[owner] + _PIECE_POINTS * within
    sizes = np.minimum(bags.offsets[owner + 1] - starts, _PIECE_POINTS)
    masses = np.empty((len(owner), 1))
    means = np.empty((len(owner), bags.n_dims))
    squares = np.zeros((*means.shape, bags.n_dims) if full else means.shape, dtype)
    firsts = coordinates(bags.points[bags.offsets[:-1]])
    for chunk in bag_slices(sizes, 32 * bags.n_dims, 0, _SEGMENT_BYTES):
        rows = slice(starts[chunk.start], starts[chunk.stop - 1] + sizes[chunk.stop - 1])
        z = coordinates(bags.points[rows])
        w = None if shares is None else shares[rows]
        for some, places, present in padded_rows(starts[chunk] - rows.start, sizes[chunk]):
            # half the time of z[places]
            here = chunk.start + some
            x = z.take(places, axis=0)
            x -= firsts[owner[here], None]
            if w is None:  # one row of equal weights serves all bags of equal size
                count = sizes[here, None]
                weights = np.full((1, places.shape[1]), 1 / places.shape[1]) if present is None else present / count
                masses[here] = count / bags.sizes[owner[here], None]
            else:
                weights = w[places] if present is None else w[places] * present
                mass = weights.sum(axis=1, keepdims=True)
                weights /= np.where(mass > 0, mass, 1.0)  # shares may underflow
                masses[here] = mass
            mean = np.matmul(weights[:, None, :], x)
            means[here] = mean[:, 0]
            if covariance is not None:
                x -= mean
                x = x.astype(dtype, copy=False)
                if full:
                    weighted = x * weights[:, :, None].astype(dtype)
                    squares[here] = np.matmul(weighted.swapaxes(1, 2), x)
                else:
                    squares[here] = np.matmul(weights[:, None, :], np.square(x))[:, 0]
    if len(owner) > bags.n_bags:
        means, squares = _merged(owner, masses, means, squares)
    return firsts + means, squares


def _merged(owner: Array, masses: Array, means: Array, squares: Array) -> tuple[Array, Array]:
    """Moments of bags from those of their pieces, of which the masses of each bag have sum one."""
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    whole = means[first] + np.add.reduceat(masses * (means - means[first][owner]), first, axis=0)
    gaps = means - whole[owner]
    if squares.ndim == 2:
        return whole, np.add.reduceat(masses * (squares + gaps**2), first, axis=0)
    spread = gaps[:, :, None] * gaps[:, None, :]
    return whole, np.add.reduceat(masses[:, :, None] * (squares + spread), first, axis=0)


def _exponents(largest: Array) -> Array:
    """The least e with x < 2^e for each x >= 0, ndarray of int; 0 for 0, and bounded so that 2^-e is finite."""
    return np.clip(np.frexp(largest)[1], -_MOST_HALVINGS, _MOST_HALVINGS)


def own_moments(bags: Bags, second: str | None = None, units: Array | None = None) -> tuple[Array, Array | None]:
    """Weighted means of bags, and deviations from them or covariances, in coordinates of each bag's own.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    second : {None, "deviation", "covariance"}
        What to compute besides the means.
    units : ndarray of shape (n_dims,), optional
        By which coordinates are divided in deviations and covariances, before anything is squared; not in the means.

    Returns
    -------
    means : ndarray of shape (n_bags, n_dims)
    seconds : ndarray of shape (n_bags, n_dims) or (n_bags, n_dims, n_dims), or None
        Squares are divided by the sum of the weights, not by n - 1.

    Examples
    --------
    >>> means, covariances = own_moments(Bags.from_arrays([[[0.0, 0.0], [2.0, 4.0]]]), "covariance")
    >>> means, covariances
    (array([[1., 2.]]), array([[[1., 2.],
            [2., 4.]]]))
    """
    kind = {None: None, "deviation": "diag", "covariance": "full"}[second]
    dtype: np.dtype[Any] = bags.dtype if second == "covariance" else np.dtype(float)
    if units is not None and second is not None:
        return _in_own_units(bags, kind, units, dtype)
    means, squares = moments(bags, _as_double, kind, dtype)
    if second is None:
        return means, None
    found = squares if kind == "full" else np.sqrt(squares)
    diagonal = np.diagonal(squares, axis1=1, axis2=2) if kind == "full" else squares
    extremes = np.finfo(dtype)
    safe = (diagonal > extremes.tiny**0.75) & (diagonal < extremes.max**0.75)
    again = np.flatnonzero(~safe.all(axis=1))
    if len(again) > 0:
        means[again], found[again] = _in_own_units(bags[again], kind, np.ones(bags.n_dims), dtype)
    return means, found


def _as_double(points: Array) -> Array:
    return points.astype(np.float64, copy=False)


def _in_own_units(bags: Bags, kind: str | None, units: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Means, and deviations or covariances in units, of points that are divided by powers of two on the way."""
    starts = bags.offsets[:-1]
    sizes = bags.sizes
    first = bags.points[starts].astype(np.float64)
    z = (bags.points - np.repeat(first, sizes, axis=0)) / units
    powers = _exponents(np.maximum(np.maximum.reduceat(z, starts, axis=0), -np.minimum.reduceat(z, starts, axis=0)))
    z *= np.repeat(np.ldexp(1.0, -powers), sizes, axis=0)
    means, squares = moments(bags.replace(points=z, columns=None, categories=None), _as_double, kind, dtype)
    if kind == "full":
        found = np.ldexp(squares, powers[:, :, None] + powers[:, None, :])
    else:
        found = np.ldexp(np.sqrt(squares), powers)
    return first + np.ldexp(means, powers) * units, found


def pool(counts: Array, means: Array, deviations: Array) -> tuple[float, Array, Array]:
    """Number, mean and deviation of all points of several parts, ndarrays of shape (n_dims,).

    Parameters
    ----------
    counts : ndarray of shape (n_parts,)
        Points of each part.
    means, deviations : ndarray of shape (n_parts, n_dims)
        Of each part.

    Examples
    --------
    >>> pool(np.array([2, 1]), np.array([[1.0], [4.0]]), np.array([[1.0], [0.0]]))
    (3.0, array([2.]), array([1.63299316]))
    """
    total = float(counts.sum())
    mean = means[0] + counts @ (means - means[0]) / total  # relative to one part: constants stay exact
    gaps = means - mean
    powers = _exponents(np.maximum(np.abs(gaps), deviations).max(axis=0))
    halves = np.ldexp(1.0, -powers)
    squares = counts @ ((deviations * halves) ** 2 + (gaps * halves) ** 2) / total
    return total, mean, np.ldexp(np.sqrt(squares), powers)


def chunks_of(bags: Bags, n_values: int) -> list[slice]:
    """Bags at a time, each with ``n_values`` values besides its points.

    Examples
    --------
    >>> chunks_of(Bags.from_arrays([[1.0], [2.0, 3.0]]), 10)
    [slice(0, 2, None)]
    """
    return bag_chunks(bags.n_bags, 8 * (n_values + bags.n_points // bags.n_bags * (bags.n_dims + 2)))


def fit_frame(groups: Sequence[Bags], between: float, covariance: str) -> CoordinateFrame:
    """The frame in which W + ``between`` · B of these bags is the identity.

    Parameters
    ----------
    groups : sequence of Bags
        Training bags, which all count the same.
    between : float
        How much the covariance B of the bags' means counts beside W, the mean of their covariances.
    covariance : {"full", "diag"}
        With ``"diag"`` only variances are made one.

    Returns
    -------
    CoordinateFrame
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
    box = CoordinateFrame(low / 2 + high / 2, np.where(half > 0, half, 1.0), np.ones(len(half)))
    n_bags = sum(bags.n_bags for bags in groups)
    pooled: Any = 0.0
    squares: Any = 0.0
    centre: Any = 0.0
    for bags in groups:
        for rows in chunks_of(bags, bags.n_dims**2):
            means, inside = moments(bags[rows], box.apply, covariance)
            pooled += inside.sum(axis=0) / n_bags
            squares += (means.T @ means if covariance == "full" else np.sum(means**2, axis=0)) / n_bags
            centre += means.sum(axis=0) / n_bags
    outside = squares - (np.multiply.outer(centre, centre) if covariance == "full" else np.square(centre))
    pooled = pooled + between * outside
    variances = np.diag(pooled) if covariance == "full" else pooled
    scale = np.sqrt(np.where(variances > _LEAST_VARIANCE, variances, 1.0))
    if covariance == "diag":
        return CoordinateFrame(box.centre, box.half * scale, np.ones(len(scale)))
    correlation = pooled / np.multiply.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation + np.diag(np.where(variances > _LEAST_VARIANCE, 0.0, 1.0)))
    matrix = (vectors / np.sqrt(np.maximum(values, _LEAST_CORRELATION))) @ vectors.T
    return CoordinateFrame(box.centre, box.half * scale, matrix)
