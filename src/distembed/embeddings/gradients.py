"""How features of a density change with the density and with the weights of points: what explanations are made of."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from scipy.ndimage import map_coordinates

from ..bags import Bags
from ..compute.arrays import Array, Scratch, bags_first, contract
from ..compute.parallel import bag_chunks, run_chunks
from .density_base import DensityEmbedding

MAP_FLOOR = 1e-3  # of a bag's largest density: the map has the slope of this density where there is less
POINT_FLOOR = 1e-16  # the same for the values of points, which are exact wherever there is any density to speak of


class DensityGradient:
    """From gradients in the features of an embedding to those in the density and in the weights of points."""

    def __init__(self, embedding: DensityEmbedding) -> None:
        stages = embedding.stages_
        double = np.dtype(np.float64)
        self._estimate: Any = stages.density.prepare(stages.nodes, stages.bandwidth, double)
        self._functions = stages.functions
        projection = stages.projection
        self._nodes = (*range(len(projection.matrices) - 1), -1)  # axes of densities (g_1, ..., n_bags, g_l)
        self._columns = projection.columns
        self._sizes = tuple(len(matrix) for matrix in projection.matrices)
        self._from_coefficients = [np.ascontiguousarray(matrix.T) for matrix in projection.matrices]
        self._from_nodes = [np.ascontiguousarray(matrix.T) for matrix in self._estimate.matrices]
        self._lambdas: Array | None = getattr(embedding, "lambdas_", None)  # None: the density itself is projected
        self._n_functions = stages.functions.n_functions
        self._n_nodes = stages.nodes.n_nodes
        self._bytes_per_bag = 2 * stages.bytes_per_bag(double)
        self._n_jobs = embedding.n_jobs

    def __call__(
        self, bags: Bags, slopes: Array, shares: Array, out_map: Array, out_density: Array, out_values: Array
    ) -> None:
        """Write the maps and densities (n_bags, g_1, ..., g_l) and values (n_points,) of scaled bags, in threads.

        ``slopes`` (n_bags, m) are gradients in the features, ``shares`` (n_points,) the weights of points.
        """

        def work(rows: slice, scratch: Scratch) -> None:
            own = slice(bags.offsets[rows.start], bags.offsets[rows.stop])
            found = self._chunk(bags[rows], slopes[rows], shares[own], scratch)
            out_map[rows], out_density[rows], out_values[own] = found

        run_chunks(work, bag_chunks(bags.n_bags, self._bytes_per_bag), self._n_jobs)

    def _chunk(self, bags: Bags, slopes: Array, shares: Array, scratch: Scratch) -> tuple[Array, Array, Array]:
        p = self._estimate(bags.drop_weightless(), None, scratch)
        mapped, exact = self._gradients(p, slopes, scratch)
        mean = np.sum(mapped * p, axis=self._nodes) / np.maximum(p.sum(axis=self._nodes), np.finfo(float).tiny)
        mapped -= mean[:, None]
        at_bins = contract(exact, self._from_nodes, scratch, "bins") / self._n_nodes
        values = self._at_points(bags_first(at_bins), bags)
        values -= np.repeat(np.add.reduceat(shares * values, bags.offsets[:-1]), bags.sizes)
        if bags.weights is not None:  # a point out of the cube can't have a weight, nor a derivative in it
            values[((bags.points < 0) | (bags.points > 1)).any(axis=1)] = np.nan
        return bags_first(mapped), bags_first(p), values

    def _gradients(self, p: Array, slopes: Array, scratch: Scratch) -> tuple[Array, Array]:
        """The g of the map and the g of the points, both of the shape of p, from gradients in the features."""
        h = self._on_nodes(slopes.reshape(len(slopes), self._n_functions, -1), scratch)
        h *= self._n_nodes  # the volume of a node is in the projection
        if self._lambdas is None:
            return h[0].copy(), h[0]
        exact = self._functions(p, scratch)
        exact *= h
        exact = np.add.reduce(exact, axis=0)
        most = np.max(p, axis=self._nodes)
        with np.errstate(divide="ignore", invalid="ignore"):  # what is not finite is replaced
            exact /= p
        mapped = exact.copy()
        for g, floor in ((exact, POINT_FLOOR), (mapped, MAP_FLOOR)):
            level = np.maximum(floor * most, np.finfo(float).tiny)
            below = np.nonzero(p < level[:, None])
            at: Any = (slice(None), *below)
            ratios = self._functions(level, Scratch()) / level
            g[below] = np.einsum("ki,ki->i", h[at], ratios[:, below[-2]])
        return mapped, exact

    def _on_nodes(self, slopes: Array, scratch: Scratch) -> Array:
        """The h_k of shape (n_functions, g_1, ..., n_bags, g_l) for which g = Σ_k h_k ψ_k / p.

        Real and imaginary parts of p^(1/2 + iλ) have the derivatives (½ re - λ im) / p and (½ im + λ re) / p.
        """
        if self._lambdas is not None:
            n = len(self._lambdas)
            turning = np.flatnonzero(self._lambdas)
            column = self._lambdas[turning, None]
            real = slopes[:, turning]
            imaginary = slopes[:, n:]
            slopes = 0.5 * slopes
            slopes[:, turning] += column * imaginary
            slopes[:, n:] -= column * real
        n_bags, n_functions = slopes.shape[:2]
        if self._columns is not None:
            tensor = np.zeros((n_bags, n_functions, prod(self._sizes)))
            tensor[:, :, self._columns] = slopes
            slopes = tensor
        stored = np.moveaxis(slopes.reshape(n_bags, n_functions, *self._sizes), 0, -2)
        return contract(np.ascontiguousarray(stored), self._from_coefficients, scratch, "gradient")

    def _at_points(self, tables: Array, bags: Bags) -> Array:
        """Values of bins (n_bags, *n_bins) between which points lie: linear binning, transposed."""
        sizes = np.array(self._estimate.n_bins)[:, None]
        wraps = np.array([boundary == "periodic" for boundary in self._estimate.boundaries])[:, None]
        position = np.clip(bags.points.T, 0, 1) * sizes - 0.5
        position = np.where(wraps, position, np.clip(position, 0, sizes - 1))
        values = np.empty(bags.n_points)
        for table, first, last in zip(tables, bags.offsets[:-1], bags.offsets[1:], strict=True):
            own = slice(first, last)
            map_coordinates(table, position[:, own], output=values[own], order=1, mode="grid-wrap")
        return values
