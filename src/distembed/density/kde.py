r"""Kernel density estimates of bags, on the integration nodes.

With a product of Gaussians of bandwidth h_j and point weights w_i of sum one,

.. math:: \hat p(u) = \sum_i w_i \prod_j K_{h_j}(u_j, x_{ij}).

Boundaries, one per dimension: ``"reflect"`` adds the mirror images of every point in both faces, so no mass leaks
out of the cube; ``"periodic"`` wraps around; ``"none"`` is the plain Gaussian, which leaks.

Two ways to compute it, the same estimate up to binning error:

- on a grid (one to three dimensions): linear binning of the points, then one smoothing matrix per dimension.
  O(n_points + n_cells), the cells shared by all points. Linear binning widens the kernel by δ²/6 (δ the width of a
  bin), which is taken off h² again, so bins as wide as the bandwidth cost less than one per cent.
- directly at scattered nodes, any dimension: O(n_points n_nodes), the paper's recipe.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..bags import Bags
from ..compute.arrays import Array, LinearBinning, Scratch, bags_first, contract
from ..compute.checks import check_choice, check_per_dimension
from ..compute.registry import storable
from .estimate import Density, EachBag, Evaluator, register, require_bandwidth, with_shares
from .nodes import GRID_LIMIT, GridNodes, PointNodes, fold

BOUNDARIES = ("reflect", "periodic", "none")
BINS_PER_BANDWIDTH = 0.75  # squared distances then change by a tenth of a per cent
_UNIFORM = 4.0  # images of a kernel this wide add up to a constant: wider ones need not be told apart
_KEPT_SIZE = 256  # nodes and bins of the smoothing matrices that are kept for the next call
_MOST_TERMS = 256  # of a kernel's expansion: beyond, exponentials are faster than the matrix product


# --------------------------------------------------------------------------------------------------------------
# Functions on arrays
# --------------------------------------------------------------------------------------------------------------


def kernel(u: Array, x: Array, bandwidth: Array | float, boundary: str) -> Array:
    """One-dimensional kernel K_h(u, x) on the unit interval with its boundary, elementwise.

    Parameters
    ----------
    u, x : ndarray, broadcast against each other
        Where the density is wanted, and where the points are.
    bandwidth : float or ndarray
        Standard deviation of the Gaussian, broadcast with the others.
    boundary : {"reflect", "periodic", "none"}
        What happens at 0 and 1.

    Returns
    -------
    ndarray of the broadcast shape

    Notes
    -----
    Images of a point more than nine bandwidths away are left out (e^-40).

    Examples
    --------
    >>> kernel(np.array([0.2]), np.array([0.4]), 10.0, "reflect").round(6)  # a wide kernel spreads evenly
    array([1.])
    """
    h = np.asarray(bandwidth, np.result_type(u, x))
    if boundary != "none":
        h = np.minimum(h, h.dtype.type(_UNIFORM))
    reach = 9 * float(np.max(h))
    period = 2 if boundary == "reflect" else 1
    n_shifts = 0 if boundary == "none" else ceil((1 + reach) / period)
    total = np.zeros(np.broadcast_shapes(h.shape, u.shape, x.shape), h.dtype)
    scaled = np.empty_like(total)
    low = float(np.min(u))
    high = float(np.max(u))
    for image in (x, -x) if boundary == "reflect" else (x,):
        left = float(np.min(image))
        right = float(np.max(image))
        for shift in range(-period * n_shifts, period * n_shifts + 1, period):
            if low - right - shift > reach or high - left - shift < -reach:
                continue
            np.subtract(u - h.dtype.type(shift), image, out=scaled)
            scaled /= h
            scaled *= scaled
            scaled *= -0.5
            total += np.exp(scaled, out=scaled)
    total /= h * h.dtype.type(np.sqrt(2 * np.pi))
    return total


# --------------------------------------------------------------------------------------------------------------
# Estimates prepared for given nodes and bandwidth
# --------------------------------------------------------------------------------------------------------------


class GridKDE:
    """KDE of many bags on a grid, prepared once for a bandwidth (or a bandwidth per bag)."""

    block_points = 2**16  # binned at a time: bounds the working set whatever the size of a bag

    def __init__(
        self,
        nodes: GridNodes,
        bandwidth: Array,
        boundaries: Sequence[str],
        dtype: np.dtype[Any],
        n_bins: tuple[int, ...] | None = None,
    ) -> None:
        self.nodes = nodes
        self.boundaries = tuple(boundaries)
        self.dtype = dtype
        self.bandwidth = np.asarray(bandwidth, float)
        self.n_bins = bins_for(nodes.shape, self.bandwidth) if n_bins is None else n_bins
        self.matrices = self.matrices_for(self.bandwidth)
        periodic = [boundary == "periodic" for boundary in self.boundaries]
        self._bin = LinearBinning(self.n_bins, periodic, dtype)

    def matrices_for(self, bandwidth: Array) -> list[Array]:
        """One matrix (n_nodes_j, n_bins_j) a dimension, or a stack of them for bandwidths of shape (k, n_dims)."""
        axes = zip(self.nodes.shape, self.n_bins, self.boundaries, strict=True)
        if bandwidth.ndim == 1 and max(*self.nodes.shape, *self.n_bins) <= _KEPT_SIZE:
            return [_kept_matrix(*axis, float(h), self.dtype) for axis, h in zip(axes, bandwidth, strict=True)]
        return [_kernel_matrix(*axis, bandwidth[..., j]).astype(self.dtype) for j, axis in enumerate(axes)]

    def masses(self, bags: Bags, scratch: Scratch | None = None) -> Array:
        """Binned bags, ndarray of shape (b_1, ..., b_{l-1}, n_bags, b_l), each of sum one."""
        scratch = Scratch() if scratch is None else scratch
        stored = scratch("binned", (*self.n_bins[:-1], bags.n_bags, self.n_bins[-1]), self.dtype)
        shares = bags.shares()
        shares = None if shares is None else shares.astype(self.dtype)
        for start in range(0, bags.n_points, self.block_points):
            rows = slice(start, start + self.block_points)
            points = bags.points[rows]
            offsets = np.clip(bags.offsets - start, 0, len(points))
            part = self._bin(points, offsets, None if shares is None else shares[rows], scratch)
            if start == 0:
                bags_first(stored)[...] = part
            else:
                bags_first(stored)[...] += part
        if shares is None:
            stored *= (1 / bags.sizes).astype(self.dtype)[:, None]
        return stored

    def __call__(self, bags: Bags, bandwidth: Array | None = None, scratch: Scratch | None = None) -> Array:
        """Densities on the nodes, ndarray of shape (g_1, ..., g_{l-1}, n_bags, g_l)."""
        matrices = self.matrices if bandwidth is None else self.matrices_for(bandwidth)
        return contract(self.masses(bags, scratch), matrices, scratch, "density")


def kernel_of_bins(bandwidth: Array, boundary: str, n: int) -> Array:
    r"""Kernels G(m) between bins m of n apart, images a period away included: ndarray of shape (..., period).

    Periods are n bins for periodic boundaries and 2n for others: open ones are kept apart from their images by zeros.
    The kernel between bins i and j is G(\|i - j\|), and, reflecting, G(\|i - j\|) + G(i + j + 1): a few exponentials
    for a whole matrix.

    Examples
    --------
    >>> kernel_of_bins(np.array(0.25), "periodic", 4).round(3)
    array([1.597, 0.986, 0.432, 0.986])
    """
    period = 1 if boundary == "periodic" else 2
    h = np.asarray(bandwidth if boundary == "none" else np.minimum(bandwidth, _UNIFORM))[..., None]
    n_images = 0 if boundary == "none" else ceil((1 + 9 * float(h.max())) / period)
    m = np.arange(period * n // 2 + 1) / n  # the other half is its mirror image
    half = np.zeros((*h.shape[:-1], len(m)))
    for image in range(-n_images, n_images + 1):
        half += np.exp(-0.5 * ((m - period * image) / h) ** 2)
    half /= h * np.sqrt(2 * np.pi)
    if boundary == "none":
        half[..., -1] = 0
    return np.concatenate([half, half[..., (period * n - 1) // 2 : 0 : -1]], axis=-1)


def _between_bins(bandwidth: Array, boundary: str, n: int) -> Array:
    """Kernels between n bins along one dimension, for bandwidths of shape (...): ndarray of shape (..., n, n)."""
    kernels = kernel_of_bins(bandwidth, boundary, n)
    both_ways = np.concatenate([kernels[..., n - 1 : 0 : -1], kernels[..., :n]], axis=-1)
    matrix = sliding_window_view(both_ways, n, axis=-1)[..., ::-1, :]  # of |i - j|
    if boundary == "reflect":
        return np.asarray(matrix + sliding_window_view(kernels[..., 1 : 2 * n], n, axis=-1))  # and i + j + 1
    return matrix.copy()


def _kernel_matrix(size: int, n_bins: int, boundary: str, bandwidth: Array) -> Array:
    """From bins to nodes along one dimension, for bandwidths of shape (...): ndarray of shape (..., size, n_bins)."""
    h = np.sqrt(np.maximum(bandwidth**2 - 1 / (6 * n_bins**2), 1e-2 / n_bins**2))
    if size == n_bins:
        matrix = _between_bins(h, boundary, n_bins)
    else:
        u = (np.arange(size) + 0.5) / size
        x = (np.arange(n_bins) + 0.5) / n_bins
        matrix = kernel(u[:, None], x, h[..., None, None], boundary)
    if boundary != "none":  # a coarse grid samples narrow kernels unevenly: keep the mass exactly one
        matrix = matrix / np.maximum(matrix.mean(axis=-2, keepdims=True), 1e-300)
    # Seven bandwidths out: products of smaller values over the dimensions would be subnormal, and slow.
    matrix[matrix < 1e-11 * matrix.max()] = 0.0
    return np.asarray(matrix)


@lru_cache(maxsize=64)
def _kept_matrix(size: int, n_bins: int, boundary: str, bandwidth: float, dtype: np.dtype[Any]) -> Array:
    """The matrix for one bandwidth, kept: a fitted embedding asks for the same ones in every call."""
    matrix = _kernel_matrix(size, n_bins, boundary, np.asarray(bandwidth)).astype(dtype)
    matrix.flags.writeable = False
    return matrix


class DirectKDE(EachBag):
    """KDE of many bags at scattered nodes, prepared once."""

    def __init__(self, density: KDE, nodes: PointNodes, bandwidth: Array, dtype: np.dtype[Any]) -> None:
        super().__init__(density, nodes, bandwidth, dtype)
        self._kernels = KernelProducts(nodes.points, np.asarray(bandwidth, float), density.boundaries(nodes.n_dims))

    def together(self, bags: Bags, scratch: Scratch | None) -> Array:
        """Densities at the nodes, ndarray of shape (n_bags, n_nodes)."""
        out = np.empty((bags.n_bags, self.nodes.n_nodes), self.dtype)
        for i, (points, own) in enumerate(with_shares(bags)):
            out[i] = self._kernels.mean(points, own, scratch)
        return out


class KernelProducts:
    r"""Kernels Π_j K_{h_j}(u_j, x_j) between nodes u, which are prepared once, and points x.

    With boundaries the kernel of a dimension is diagonal in the cosines (or, periodic, in the Fourier functions),

    .. math:: K_h(u, x) = \sum_k e^{-π² k² h² / 2} φ_k(u) φ_k(x),

    of which 2.8/h terms are left in double precision. So a dimension is one matrix product, not several exponentials a
    pair: about twenty times as fast. Its values are exact to 1e-14 of the largest; for bandwidths so narrow that there
    would be more than 256 terms, images are added up instead.

    Parameters
    ----------
    nodes : ndarray of shape (n_nodes, n_dims)
        In the unit cube.
    bandwidth : ndarray of shape (n_dims,)
        Of the kernel.
    boundaries : sequence of str
        See :func:`kernel`.

    Examples
    --------
    >>> KernelProducts(np.array([[0.5], [0.7]]), np.array([0.1]), ["reflect"]).pairs(np.array([[0.5]])).round(4)
    array([[3.9894, 0.5399]])
    """

    block_pairs = 2**18  # of points and nodes at a time

    def __init__(self, nodes: Array, bandwidth: Array, boundaries: Sequence[str]) -> None:
        self.nodes = nodes.astype(float)
        self.bandwidth = bandwidth
        self.boundaries = boundaries
        self._plain = all(boundary == "none" for boundary in boundaries)
        if self._plain:  # one matrix product for all dimensions, and one exponential per pair
            self._scaled = self.nodes / bandwidth
            self._half = -0.5 * np.einsum("ij,ij->i", self._scaled, self._scaled)
            self._peak = 1 / prod((bandwidth * np.sqrt(2 * np.pi)).tolist())
        else:
            dimensions = zip(self.nodes.T, bandwidth, boundaries, strict=True)
            found = (_eigenfunctions(u, float(h), boundary, weighted=True) for u, h, boundary in dimensions)
            self._at_nodes = [None if waves is None else np.ascontiguousarray(waves.T) for waves in found]

    def pairs(self, points: Array, scratch: Scratch | None = None) -> Array:
        """Kernels between points and nodes, ndarray of shape (n_points, n_nodes); some may be -1e-14 of the largest."""
        scratch = Scratch() if scratch is None else scratch
        x = points.astype(float)
        shape = (len(points), len(self.nodes))
        product = scratch("pairs", shape, np.float64)
        if self._plain:
            x = x / self.bandwidth
            np.matmul(x, self._scaled.T, out=product)
            product += self._half
            product -= (0.5 * np.einsum("ij,ij->i", x, x))[:, None]
            np.exp(product, out=product)
            product *= self._peak
            return product
        for j, (h, boundary) in enumerate(zip(self.bandwidth, self.boundaries, strict=True)):
            at_points = _eigenfunctions(x[:, j], float(h), boundary)
            at_nodes = self._at_nodes[j]
            factor = product if j == 0 else scratch("factor", shape, np.float64)
            if at_points is None or at_nodes is None:
                factor[...] = kernel(x[:, j : j + 1], self.nodes[:, j], h, boundary)
            else:
                np.matmul(at_points, at_nodes, out=factor)
            if j:
                product *= factor
        return product

    def mean(self, points: Array, weights: Array | None = None, scratch: Scratch | None = None) -> Array:
        """Weighted mean of the kernels of points, in blocks of bounded memory, ndarray of shape (n_nodes,)."""
        scratch = Scratch() if scratch is None else scratch
        n_points = len(points)
        mass = np.full(n_points, 1 / n_points) if weights is None else weights / weights.sum(dtype=float)
        total = np.zeros(len(self.nodes))
        step = max(1, self.block_pairs // len(self.nodes))
        for start in range(0, n_points, step):
            total += mass[start : start + step] @ self.pairs(points[start : start + step], scratch)
        return np.maximum(total, 0.0, out=total)


def _eigenfunctions(x: Array, h: float, boundary: str, weighted: bool = False) -> Array | None:
    """Basis functions at x in which the kernel is diagonal, (len(x), n_terms), times its eigenvalues if ``weighted``.

    None where images are the better way: no boundary, or a narrow kernel.
    """
    n = ceil(2.82 / min(h, _UNIFORM)) + 1  # the first term left out is e^-39
    if boundary == "none" or n > _MOST_TERMS:
        return None
    if boundary == "reflect":
        k = np.arange(n)
        waves = np.cos(np.pi * np.multiply.outer(x, k))
        eigenvalues = np.where(k == 0, 1.0, 2.0) * np.exp(-0.5 * (np.pi * k * h) ** 2)
    else:
        k = np.arange(ceil(n / 2) + 1)
        angles = 2 * np.pi * np.multiply.outer(x, k)
        waves = np.concatenate([np.cos(angles), np.sin(angles[:, 1:])], axis=1)
        eigenvalues = np.where(k == 0, 1.0, 2.0) * np.exp(-2 * (np.pi * k * h) ** 2)
        eigenvalues = np.append(eigenvalues, eigenvalues[1:])
    return np.asarray(waves * eigenvalues if weighted else waves)


def kde_at(
    points: Array, nodes: Array, bandwidth: Array, boundaries: Sequence[str], weights: Array | None = None
) -> Array:
    """Density of one bag at scattered nodes, in blocks of bounded memory, in the dtype of the nodes.

    Examples
    --------
    >>> kde_at(np.array([[0.5]]), np.array([[0.5], [0.7]]), np.array([0.1]), ["reflect"]).round(4)
    array([3.9894, 0.5399])
    """
    return KernelProducts(nodes, np.asarray(bandwidth, float), boundaries).mean(points, weights).astype(nodes.dtype)


def bins_for(shape: Sequence[int], bandwidth: Array) -> tuple[int, ...]:
    """Bins along each dimension: 0.75 a bandwidth, if the largest grid has them, and never fewer than nodes."""
    narrowest = bandwidth.reshape(-1, len(shape)).min(axis=0)
    limit = GRID_LIMIT[len(shape)]
    return tuple(max(size, min(ceil(BINS_PER_BANDWIDTH / h), limit)) for size, h in zip(shape, narrowest, strict=True))


# --------------------------------------------------------------------------------------------------------------
# The value object that users pass
# --------------------------------------------------------------------------------------------------------------


def check_boundaries(owner: str, boundary: Any, n_dims: int) -> tuple[str, ...]:
    """A boundary for each of n_dims dimensions, from one name or one per dimension."""
    each = check_per_dimension(owner, "boundary", boundary, n_dims, "name", "names")
    return tuple(check_choice(owner, "boundary", name, BOUNDARIES) for name in each)


@storable
@dataclass(frozen=True)
class KDE(Density):
    """Gaussian kernel density estimate.

    Parameters
    ----------
    boundary : {"reflect", "periodic", "none"} or tuple of these, default="reflect"
        For all dimensions, or one per dimension.
    per_bag : bool, default=False
        Whether a bandwidth *rule* is applied to every bag by itself instead of once over the training bags. Bags of
        different spread then have different smoothing bias, so distances between them are less comparable.

    Examples
    --------
    >>> KDE(boundary=("periodic", "reflect")).boundaries(2)
    ('periodic', 'reflect')
    """

    boundary: str | tuple[str, ...] = "reflect"
    per_bag: bool = False

    def boundaries(self, n_dims: int) -> tuple[str, ...]:
        """The boundary of each of n_dims dimensions."""
        return check_boundaries("KDE", self.boundary, n_dims)

    def warn_if_unresolved(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, stacklevel: int = 3) -> None:
        """Warn where bandwidths fall between the nodes of a grid; scattered nodes are checked by the mass they find."""
        if not isinstance(nodes, GridNodes) or bandwidth is None:
            return
        bins = np.array(bins_for(nodes.shape, bandwidth))
        worst = int(np.argmin(bandwidth * bins))
        if bandwidth[worst] * bins[worst] < 0.5:
            warnings.warn(
                f"the bandwidth in dimension {worst} is narrower than half a bin of the grid, which smooths more than "
                "that; use a larger bandwidth, or nodes=Grid(...) with more nodes, or scale the points with "
                "UnitCube(map='rank')",
                UserWarning,
                stacklevel=stacklevel + 1,
            )

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> KernelDensity:
        """The density of one bag, see :meth:`Density.of`."""
        return KernelDensity(points, weights, require_bandwidth("KDE", bandwidth), self.boundaries(points.shape[1]))

    def prepare(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> Evaluator:
        """An evaluator for these nodes: called with bags, it returns densities on the nodes."""
        bandwidth = require_bandwidth("KDE", bandwidth)
        if isinstance(nodes, GridNodes):
            return GridKDE(nodes, bandwidth, self.boundaries(nodes.n_dims), dtype)
        return DirectKDE(self, nodes, bandwidth, dtype)


class KernelDensity:
    """The kernel density estimate of one bag.

    Examples
    --------
    >>> one = KernelDensity(np.array([[0.5]]), None, np.array([0.1]), ("reflect",))
    >>> one.pdf(np.array([[0.5]])).round(4), one.sample(2, np.random.RandomState(0)).round(3).ravel()
    (array([3.9894]), array([0.676, 0.54 ]))
    """

    def __init__(self, points: Array, weights: Array | None, bandwidth: Array, boundaries: tuple[str, ...]) -> None:
        self.points = points
        self.weights = weights
        self.bandwidth = bandwidth
        self.boundaries = boundaries

    def pdf(self, u: Array) -> Array:
        """Density at u, ndarray of shape (n,)."""
        return kde_at(self.points, u, self.bandwidth, self.boundaries, self.weights)

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points: a point of the bag, moved by the kernel, folded or wrapped back into the cube."""
        chosen = rng.choice(len(self.points), size=n, p=self.weights)
        drawn = self.points[chosen] + rng.normal(size=(n, self.points.shape[1])) * self.bandwidth
        for j, boundary in enumerate(self.boundaries):
            if boundary == "periodic":
                drawn[:, j] %= 1
            elif boundary == "reflect":
                drawn[:, j] = fold(drawn[:, j])
        return drawn


register("kde", KDE)
