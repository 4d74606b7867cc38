r"""The Gaussian kernel as a Fourier series, and means of its waves over bags.

On a torus of lengths L_j the kernel exp(-\|\|x - y\|\|²/(2σ²)), wrapped around, is a product over dimensions of

    Σ_k c_k cos(2πk (x_j - y_j)/L_j),    c_k = √(2π) σ/L_j exp(-2π²k²σ²/L_j²),    k over all integers.

Each cosine is cos·cos + sin·sin, so products over dimensions of 1, √2 cos and √2 sin, times the roots of the c_k, are
features whose dot products are the wrapped kernel, exactly when all are taken. The c_k fall as a Gaussian: few are
needed. Frequencies are multiples of one, so the waves of a point come from one sine and one cosine a dimension by
rotations, and the means of all products over a bag are one matrix product of two tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.estimators import OutsideCube
from ..compute.arrays import Array, Scratch
from ..compute.registry import storable
from .stages import blocks_of

MAX_DIMS = 3
MARGIN = 6.0  # sigmas by which the torus is longer than the points: the nearest image of a point weighs exp(-18)
SLACK = 1.0  # sigmas by which points of later bags may lie beyond those of fit, on either side
TOLERANCE = 1e-7  # share of the kernel that may be left out where there are components enough
_MOVED = 1e-3  # share of the box by which its centre may be rounded
_DEEPEST = 30.0  # waves of weight exp(-30) of the largest are never wanted

_STRIP_BYTES = 2**23  # of tables and of products: long operations, that stay in a shared cache


class OutsideBox(OutsideCube):
    """Some points lie where the wrapped kernel is not the kernel."""


@storable(
    centre="finite(d)",
    reach="finite(d)",
    steps="finite(d)",
    waves="int(n, d)",
    amplitudes="finite(n)",
)
@dataclass(frozen=True)
class FourierSeries:
    """Waves that make the kernel up on a box.

    Attributes
    ----------
    centre : ndarray of shape (n_dims,)
        Midpoint of the box.
    reach : ndarray of shape (n_dims,)
        Half of its extent.
    steps : ndarray of shape (n_dims,)
        Lowest frequencies, 2π/L.
    waves : ndarray of shape (n_features, n_dims) of int
        The factor of each feature in each dimension: 0 is one, k > 0 is cos(k·), k < 0 is sin(-k·).
    amplitudes : ndarray of shape (n_features,)
        What the product of factors is multiplied by.
    captured : float
        Share of the sum of all c_k that these waves have.
    """

    centre: Array
    reach: Array
    steps: Array
    waves: Array
    amplitudes: Array
    captured: float

    def __distembed_fits__(self) -> bool:
        orders = np.abs(self.waves).max(axis=0, initial=0)
        return self.waves.shape[1] in (1, 2, 3) and bool(np.prod(2.0 * orders + 1) <= 64 * len(self.waves) + 1000)


def fit_series(low: Array, high: Array, sigma: float, n_components: int) -> FourierSeries:
    """Waves of the kernel for points between two corners.

    Parameters
    ----------
    low, high : ndarray of shape (n_dims,)
        The corners.
    sigma : float
        Scale of the kernel.
    n_components : int
        Most features.

    Returns
    -------
    FourierSeries

    Examples
    --------
    >>> series = fit_series(np.zeros(1), np.ones(1), 1.0, 7)
    >>> series.waves.ravel()
    array([ 0,  1, -1,  2, -2,  3, -3])
    >>> series.captured > 0.99, series.reach
    (True, array([1.5]))
    """
    middle = low / 2 + high / 2
    centre = in_single(middle)
    with np.errstate(over="ignore"):
        # Far from zero single precision would move the centre, and a box around both is too long for its waves.
        centre = np.where(np.abs(centre - middle) <= _MOVED * (high / 2 - low / 2 + sigma), centre, middle)
        half = np.maximum(high - centre, centre - low)
        steps = 2 * np.pi / (2 * half + MARGIN * sigma)
    waves, amplitudes, captured = choose_waves(steps * sigma, n_components)
    return FourierSeries(centre, half + SLACK * sigma, steps, waves, amplitudes, captured)


def in_single(values: Array) -> Array:
    """The nearest float32 numbers, in float64, where there are such: what is subtracted is then the same in both.

    Examples
    --------
    >>> in_single(np.array([1.5, 0.1, 1e300, 1e-300]))
    array([1.50000000e+000, 1.00000001e-001, 1.00000000e+300, 1.00000000e-300])
    """
    values = np.asarray(values, float)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(float)
    return np.where(np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(np.float32).tiny), rounded, values)


def choose_waves(steps: Array, n_components: int) -> tuple[Array, Array, float]:
    """The features of largest weight.

    Parameters
    ----------
    steps : ndarray of shape (n_dims,)
        2πσ/L in each dimension.
    n_components : int
        Most features. Fewer are taken where they capture all of the kernel but 1e-7.

    Returns
    -------
    waves : ndarray of shape (n_features, n_dims) of int
        As in :class:`FourierSeries`. The cosines and sines of one frequency stay together, so the kernel they make
        depends on differences of points alone.
    amplitudes : ndarray of shape (n_features,)
    captured : float

    Examples
    --------
    >>> choose_waves(np.array([0.5, 0.5]), 5)[0].tolist()
    [[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]]
    """
    n_dims = len(steps)
    decay = np.maximum(np.asarray(steps, float) ** 2 / 2, 1e-100)  # c_k = √(decay/π) exp(-decay k²)
    # All waves of exponent below `depth`, an ellipsoid that holds n_components of them: those of a box inside it.
    depth = float(decay.min())
    while depth < _DEEPEST and np.prod(2 * np.floor(np.sqrt(depth / (n_dims * decay))) + 1) < n_components:
        depth *= 1.5
    orders = np.indices([int(np.sqrt(depth / a)) + 1 for a in decay]).reshape(n_dims, -1).T
    exponents = orders**2 @ decay
    orders = orders[np.argsort(exponents, kind="stable")]
    n_signs = 2 ** np.count_nonzero(orders, axis=1)
    weights = np.prod(np.sqrt(decay / np.pi) * np.exp(-decay * orders**2), axis=1)
    shares = np.cumsum(n_signs * weights) / _wrapped_at_zero(decay)
    fitting = int(np.count_nonzero(np.cumsum(n_signs) <= n_components))
    enough = int(np.searchsorted(shares, 1 - TOLERANCE)) + 1
    n = min(fitting, enough)
    captured = min(1.0, float(shares[n - 1]))
    orders = orders[:n]
    n_signs = n_signs[:n]
    weights = weights[:n]
    amplitudes = np.repeat(np.sqrt(n_signs * weights), n_signs)
    # Number the features of one frequency; their bits, one for each order but zeros, say which factors are sines.
    bits = np.arange(n_signs.sum()) - np.repeat(np.cumsum(n_signs) - n_signs, n_signs)
    waves = np.repeat(orders, n_signs, axis=0)
    for j in reversed(range(n_dims)):
        turning = waves[:, j] > 0
        waves[:, j] *= np.where(turning & (bits % 2 == 1), -1, 1)
        bits = np.where(turning, bits // 2, bits)
    return waves, amplitudes, captured


def _wrapped_at_zero(decay: Array) -> float:
    """The sum of all c_k, which is the wrapped kernel at zero, Π_j Σ_m exp(-m²L_j²/(2σ²))."""
    m = np.arange(1, 6)[:, None]
    return float(np.prod(1 + 2 * np.sum(np.exp(-(m**2) * np.pi**2 / decay), axis=0)))


class SeriesMeans:
    """Means of waves over bags, prepared once for a dtype.

    Parameters
    ----------
    series : FourierSeries
        The waves.
    dtype : numpy dtype
        Of the points.

    Notes
    -----
    With K_j the highest order in dimension j, a table of 2K_j + 1 waves a point is made for every dimension, three
    operations a value, and multiplied by the weights. In one to three dimensions a bag's means are the product of one
    table, or of the pairs of rows of two, with the last: n (2K_1 + 1) ... (2K_l + 1) multiplications. Bags are cut into
    blocks of one length, filled up with points of weight zero, for which products are one call. No error but rounding
    is made. Linear binning on a grid would make one, and by itself takes as long as all of this does for 300 features.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0, 1.0], [0.5]])
    >>> series, out = fit_series(np.zeros(1), np.ones(1), 1.0, 50), np.empty((2, 13))
    >>> SeriesMeans(series, np.dtype(float))(bags, out, Scratch())
    >>> bool(abs(out[0] @ out[1] - np.exp(-1 / 8)) < 1e-6)  # both points are 1/2 away
    True
    """

    def __init__(self, series: FourierSeries, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        waves = series.waves
        n_dims = len(series.centre)
        self._orders = np.abs(waves).max(axis=0)
        with np.errstate(over="ignore"):  # what is too large for the dtype is seen below
            self._centre = series.centre.astype(dtype)[:, None]
            self._steps = series.steps.astype(dtype)[:, None]
        self.finite = bool(np.isfinite(self._steps).all())
        self._bound = (1 + 4 * np.finfo(dtype).eps) * series.reach * series.steps
        self._amplitudes = series.amplitudes.astype(dtype)
        rows = np.where(waves < 0, self._orders - waves, waves)  # in tables: 1, cosines, sines
        n_last = 2 * int(self._orders[-1]) + 1
        self._pairs: Array | None = None
        if n_dims == 3:
            self._pairs, left = np.unique(rows[:, :2], axis=0, return_inverse=True)
            self._n_left = len(self._pairs)
        else:
            left = rows[:, 0] if n_dims == 2 else np.zeros(len(rows), np.intp)
            self._n_left = 2 * int(self._orders[0]) + 1 if n_dims == 2 else 1
        self._n_last = n_last
        self._columns = np.ravel(left) * n_last + rows[:, -1]
        n_rows = int(np.sum(2 * self._orders + 1)) + self._n_left
        self.bytes_per_point = n_rows * dtype.itemsize

    def __call__(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        """Write the features of bags, of which no point has weight zero, to ``out`` of shape (n_bags, n_features).

        :class:`OutsideBox` is raised where points lie outside the box.
        """
        shares = bags.shares()
        length, owners, starts, filled = blocks_of(bags)
        ends = starts + filled
        single = len(owners) == bags.n_bags
        out[...] = 0
        for strip in self._strips(len(owners), length):
            products = self._products(bags.points, shares, starts[strip], ends[strip], length, scratch)
            mine = owners[strip]
            rows = slice(int(mine[0]), int(mine[-1]) + 1)
            if not single:
                products = np.add.reduceat(products, np.flatnonzero(np.r_[True, mine[1:] != mine[:-1]]), axis=0)
            out[rows] += products.reshape(len(products), -1)[:, self._columns]
        scale = self._amplitudes if shares is not None else self._amplitudes / bags.sizes[:, None].astype(self.dtype)
        out *= scale

    def _strips(self, n_blocks: int, length: int) -> Iterator[slice]:
        """Blocks to take at a time, so neither tables nor products grow large."""
        product = self._n_left * self._n_last * self.dtype.itemsize
        step = max(1, _STRIP_BYTES // max(product, length * self.bytes_per_point))
        return (slice(i, i + step) for i in range(0, n_blocks, step))

    def _products(
        self, points: Array, shares: Array | None, starts: Array, ends: Array, length: int, scratch: Scratch
    ) -> Array:
        """Sums over blocks of points of all products of waves, ndarray of shape (n_blocks, n_left, n_last)."""
        n_blocks = len(starts)
        n_dims = len(self._orders)
        dtype = self.dtype
        n_points = n_blocks * length
        weights: Array | None
        if int(ends[-1] - starts[0]) == n_points:  # no gaps: blocks stand one after the other
            chosen = points[starts[0] : ends[-1]]
            weights = None if shares is None else shares[starts[0] : ends[-1]].astype(dtype)
        else:
            slots = starts[:, None] + np.arange(length)
            filled = slots < ends[:, None]
            np.minimum(slots, ends[:, None] - 1, out=slots)  # a block is filled up with its last point
            chosen = points[slots.ravel()]
            weights = np.where(filled, 1 if shares is None else shares[slots], 0).ravel().astype(dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            angles = np.subtract(chosen.T, self._centre, out=scratch("angles", (n_dims, n_points), dtype))
            angles *= self._steps
        if not np.all(np.maximum(angles.max(axis=1), -angles.min(axis=1)) <= self._bound):
            raise OutsideBox
        tables = [self._table(j, angles[j], scratch) for j in range(n_dims)]
        left = self._left(tables, weights, n_points, scratch)
        left_blocks = left.reshape(len(left), n_blocks, length).transpose(1, 0, 2)
        last_blocks = tables[-1].reshape(self._n_last, n_blocks, length).transpose(1, 2, 0)
        products = scratch("products", (n_blocks, self._n_left, self._n_last), dtype)
        return np.matmul(left_blocks, last_blocks, out=products)

    def _left(self, tables: list[Array], weights: Array | None, n_points: int, scratch: Scratch) -> Array:
        """Waves of all dimensions but the last, times the weights, ndarray of shape (n_left, n_points)."""
        if len(tables) == 1:
            left = scratch("left", (1, n_points), self.dtype)
            left[...] = 1 if weights is None else weights
            return left
        first = tables[0]
        if weights is not None:
            first *= weights
        if self._pairs is None:
            return first
        left = scratch("left", (self._n_left, n_points), self.dtype)
        for row, (i, j) in zip(left, self._pairs.tolist(), strict=True):
            np.multiply(first[i], tables[1][j], out=row)
        return left

    def _table(self, j: int, angles: Array, scratch: Scratch) -> Array:
        """1, cos θ, ..., cos Kθ, sin θ, ..., sin Kθ of many angles, ndarray of shape (2K + 1, n_points).

        Orders double: those up to m, turned by mθ, are those up to 2m. Errors stay at a few roundings.
        """
        order = int(self._orders[j])
        n_points = len(angles)
        table = scratch(f"table {j}", (2 * order + 1, n_points), self.dtype)
        # row zero of the sines is never meant
        cosines = table[: order + 1]
        sines = table[order:]
        cosines[0] = 1
        if order == 0:
            return table
        np.cos(angles, out=cosines[1])
        np.sin(angles, out=sines[1])
        spare = scratch("spare", (order, n_points), self.dtype)
        done = 1
        while done < order:
            n = min(done, order - done)
            old = slice(1, n + 1)
            new = slice(done + 1, done + n + 1)
            other = spare[:n]
            np.multiply(cosines[old], cosines[done], out=cosines[new])
            np.multiply(sines[old], sines[done], out=other)
            cosines[new] -= other
            np.multiply(sines[old], cosines[done], out=sines[new])
            np.multiply(cosines[old], sines[done], out=other)
            sines[new] += other
            done += n
        return table
