r"""What the embeddings that project functions of a density share.

    points -> density p̂ on the nodes -> some functions of p̂, node by node -> projection coefficients

Densities, bandwidths, nodes, bases, categorical columns, threads and the report of what the basis captures are the same
whichever functions are projected; a subclass says which. Nothing is ever made that grows with the number of bags except
the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .. import basis as bases
from .. import density as densities
from ..bags import Bags
from ..bags.estimators import BagEstimator, OutsideCube, check_bags, check_in_cube, cube_error
from ..basis import Basis, Projection, TooManyFunctions
from ..compute.checks import check_number
from ..compute.parallel import Scratch, bag_chunks, run_chunks
from ..density import Density
from ..density import bandwidth as bandwidths
from ..density import nodes as node_kinds
from ..density.estimate import pool
from ..density.nodes import NodeSpec
from .cells import Cells, NoDimensions, OneNode
from .engines import Engine, NumbaEngine, NumPyEngine

__all__ = ["DensityEmbedding"]

Array = NDArray[Any]

MAX_FEATURES = 1_000_000  # more a bag than any linear model wants: refused with a remedy
LEAST_ENERGY, MOST_ENERGY = 0.9, 1.25
STRANGERS = 0.01  # share of bags that nodes miss from which on transform warns


class DensityEmbedding(BagEstimator):
    """Base of embeddings that project functions of a density estimate onto an orthonormal basis.

    A subclass has the parameters below and a ``fit`` that calls :meth:`_fit_basis` and :meth:`_fit_density` itself, so
    that warnings point to the caller of ``fit``. It says which functions of a density it projects by
    :meth:`_choose_functions`, :meth:`_functions`, :meth:`_relative` and :meth:`_present`.
    """

    takes_categories = True
    _projected: ClassVar[str]  # what messages call the functions
    _to_lower: ClassVar[str]  # the parameters that make fewer features

    n_basis: int | tuple[int, ...]
    bandwidth: float | Sequence[float] | str
    bandwidth_scale: float
    density: str | Density | Any
    basis: str | Basis
    nodes: str | NodeSpec
    random_state: int | np.random.RandomState | None
    n_jobs: int | None

    nodes_: Any  # GridNodes or PointNodes; None, like the numbers below, where a subclass needs no density
    energy_: float | None
    node_mass_: float | None

    # What a subclass says

    def _choose_functions(self, rng: np.random.RandomState) -> int:
        """Check and resolve the subclass's own parameters; returns the number of functions."""
        raise NotImplementedError

    def _functions(self, dtype: np.dtype[Any]) -> Callable[[Array, Scratch], Array]:
        """Densities of shape (...) to their functions, of shape (n_functions, ...)."""
        raise NotImplementedError

    def _relative(self, factors: Array) -> Array:
        """What densities are multiplied by so that nodes of volume v count as nodes of equal volume, from n v."""
        raise NotImplementedError

    def _present(self, masses: Array, squares: Array) -> Array:
        """Sum over the functions of ∫ f², from ∫ p and ∫ p²: all of shape (n_bags,)."""
        raise NotImplementedError

    def _fineness(self) -> float:
        """How much finer than usual an automatic grid must be."""
        return 1.0

    def _check_engine(self) -> None:
        """Refuse an engine that does not serve the density and the nodes that were resolved."""

    # Fit

    def _fit_basis(self, bags: Bags, rng: np.random.RandomState) -> Bags:
        """Resolve cells, functions and basis; returns the bags that a density is fitted to, parts of bags if cells."""
        self._cells = cells = Cells.of(bags)
        check_in_cube(type(self).__name__, bags if cells is None else cells.numbers(bags))
        discrete = cells is not None and not cells.continuous
        n_dims = bags.n_dims if cells is None else max(1, len(cells.continuous))
        self._n_functions = self._choose_functions(rng)
        self._n_basis = (1,) if discrete else self._basis_sizes(n_dims)
        self.indices_ = self._indices(bases.get(self.basis))
        self.n_basis_functions_ = len(self.indices_)
        self._n_features_out = self._n_functions * self.n_basis_functions_
        if cells is None:
            return bags
        self._n_features_out *= cells.n_cells
        self._check_cells(cells)
        return cells.typical(bandwidths.spaced(bags), bandwidths.MAX_BAGS)

    def _fit_density(self, bags: Bags, rng: np.random.RandomState) -> None:
        """Resolve density, bandwidth and nodes, and look at what basis and nodes make of the bags."""
        discrete, n_dims = self._cells is not None and not self._cells.continuous, len(self._n_basis)
        self._density = NoDimensions() if discrete else densities.get(self.density)
        self._own_bandwidths = self._density.per_bag and isinstance(self.bandwidth, str)
        self.bandwidth_ = self._bandwidth(bags)
        narrowest, few = self.bandwidth_, bandwidths.spaced(bags)
        if self._own_bandwidths:
            narrowest = np.minimum(narrowest, self._bandwidths_of(few).min(axis=0))
        kind = OneNode() if discrete else node_kinds.get(self.nodes, n_dims)
        pooled = pool(self._density, few, self.bandwidth_) if kind.needs_pooled else None
        if isinstance(self.nodes, str) and self.nodes == "auto" and pooled is not None and not pooled.can_sample:
            kind = node_kinds.MCMC()
        self.nodes_ = self._density.resolve_nodes(
            kind,
            n_dims,
            bandwidth=narrowest,
            n_basis=self._n_basis,
            fineness=self._fineness(),
            random_state=rng,
            pooled=pooled,
        )
        self._density.warn_if_unresolved(self.nodes_, narrowest)
        self._check_engine()
        evenly, factors = bases.evenly(self.nodes_)
        self._reference = None if factors is None else self._relative(factors)
        plain = isinstance(kind, node_kinds.MonteCarlo)  # the paper's sum as it is
        self._drawn = kind.needs_pooled
        if not plain and self.n_basis_functions_ > self.nodes_.n_nodes:
            raise ValueError(
                f"{type(self).__name__}(n_basis=...): makes {self.n_basis_functions_:,} basis functions, more than "
                f"nodes ({self.nodes_.n_nodes:,}); use more nodes, lower n_basis, or a smaller index set such as "
                "basis=Cosine('hyperbolic_cross')"
            )
        basis = bases.get(self.basis)
        self._projection = Projection(basis, self._n_basis, evenly, orthonormalise=not plain, indices=self.indices_)
        self._look_at(few)

    def _check_cells(self, cells: Cells) -> None:
        """Refuse, with a remedy, more cells than a bag has features for."""
        if self._n_features_out > MAX_FEATURES:
            each, names = self._n_features_out // cells.n_cells, getattr(self, "feature_names_in_", None)
            raise ValueError(
                f"{type(self).__name__}: the categorical columns make {cells.describe(names)} of {each:,} features "
                f"each, {self._n_features_out:,} a bag, more than {MAX_FEATURES:,}; merge rare categories, take fewer "
                f"categorical columns, lower {self._to_lower}, or wrap the embedding in Marginals"
            )

    def _bandwidth(self, bags: Bags) -> Any:
        """Bandwidths for these bags, ndarray of shape (n_dims,); None for a density without any."""
        if self._density.smooths == "nothing":
            return None
        return bandwidths.resolve(
            self.bandwidth,
            bags,
            self._density.boundaries(bags.n_dims),
            scale=self.bandwidth_scale,
            margins=self._density.smooths == "margins",
            owner=self,
        )

    def _look_at(self, bags: Bags) -> None:
        """Set ``energy_`` and ``node_mass_`` from training bags, and warn where basis or nodes miss much of them."""
        name, nodes, scratch = type(self).__name__, self.nodes_, Scratch()
        bags, engine = bags.astype(np.float64), self._numpy_engine(np.dtype(float))
        chunks = bag_chunks(bags.n_bags, self._bytes_per_bag(np.dtype(float)))
        found = [engine.captured(bags[rows], nodes.weights, scratch) for rows in chunks]
        captured, masses, squares, seeing = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self.node_mass_ = float(masses.mean())
        if not self._density.integrates_to_one:  # values were divided by their mass on the nodes
            node_kinds.warn_if_few_see(name, seeing, nodes, stacklevel=4)
        elif "none" not in self._density.boundaries(bags.n_dims):  # open boundaries lose mass, whatever the nodes
            node_kinds.warn_if_mass_is_off(name, masses, nodes, stacklevel=4)
        present = self._present(masses, squares)
        self.energy_ = energy = float(np.mean(captured / np.where(present > 0, present, 1.0)))
        if energy < LEAST_ENERGY:
            n = self.n_basis_functions_
            smoother = "" if self._density.smooths == "nothing" else " or bandwidth_scale"
            message = (
                f"{name}: {n:,} basis functions capture {energy:.0%} of the training bags' {self._projected} "
                f"(energy_), so that distances come out too small; raise n_basis{smoother}, or look at fewer "
                "dimensions at a time with Marginals"
            )
            warnings.warn(bases.LowEnergyWarning(message, energy, n), stacklevel=4)
        elif energy > MOST_ENERGY and nodes.n_nodes >= node_kinds.FEW_NODES:
            warnings.warn(
                f"{name}: {self.n_basis_functions_:,} basis functions on {nodes.n_nodes:,} random nodes "
                f"find {energy:.0%} of the training bags' {self._projected} (energy_), so that distances come out too "
                "large; use more nodes, Sobol(...) in place of MonteCarlo(...), or lower n_basis",
                UserWarning,
                stacklevel=4,
            )

    def _basis_sizes(self, n_dims: int) -> tuple[int, ...]:
        several = not isinstance(self.n_basis, Integral | str) and np.ndim(self.n_basis) > 0
        sizes = tuple(self.n_basis) if several else (self.n_basis,) * n_dims  # type: ignore[arg-type]
        if len(sizes) != n_dims:
            raise ValueError(
                f"{type(self).__name__}(n_basis=...): must be one number, or one a dimension ({n_dims}), got "
                f"{self.n_basis!r}; give {n_dims} numbers"
            )
        return tuple(check_number(self, "n_basis", n, low=1, high=10_000, integer=True) for n in sizes)

    def _indices(self, basis: Basis) -> Array:
        """The index set, refused with a remedy where it makes too many features."""
        try:
            return basis.indices(self._n_basis, MAX_FEATURES // self._n_functions)
        except TooManyFunctions as error:
            many = "more" if error.n_functions is None else f"{self._n_functions * error.n_functions:,}"
            functions = f" and {self._n_functions} {self._projected}" if self._n_functions > 1 else ""
            raise ValueError(
                f"{type(self).__name__}(n_basis=...): {self._n_basis} basis functions in {len(self._n_basis)} "
                f"dimensions{functions} make {many} features a bag, more than {MAX_FEATURES:,}; lower "
                f"{self._to_lower}, choose a smaller index_set such as basis=Cosine('hyperbolic_cross'), or wrap the "
                "embedding in Marginals"
            ) from None

    # Transform

    def transform(self, X: Any) -> Array:
        """A features of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of points in the unit cube, of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, n_features)
            float32 for float32 points, else float64.
        """
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        dtype, cells = bags.points.dtype, self._cells
        engine, bytes_per_bag = self._prepared(bags.n_bags, dtype), self._bytes_per_bag(dtype)
        out = np.empty((bags.n_bags, self._n_features_out), dtype)
        if isinstance(engine, NumPyEngine) and self._drawn:
            engine.volumes = self.nodes_.weights

        def chunks() -> list[slice]:
            # The parts of a bag are as many as its cells, or as its points.
            n_parts = 1 if cells is None else int(min(cells.n_cells, np.ceil(bags.n_points / bags.n_bags)))
            return bag_chunks(bags.n_bags, n_parts * bytes_per_bag, engine.bags_at_a_time, engine.most_bags)

        def embed(rows: slice, scratch: Scratch) -> None:
            chunk = bags[rows].drop_weightless()
            if cells is not None:
                embed_cells(cells, chunk, out[rows], scratch)
                return
            engine(chunk, out[rows], scratch)

        def embed_cells(cells: Cells, chunk: Bags, target: Array, scratch: Scratch) -> None:
            split = cells.split(chunk)
            target[...] = 0
            blocks = target.reshape(chunk.n_bags, cells.n_cells, -1)
            for some in bag_chunks(split.parts.n_bags, bytes_per_bag):
                features = engine(split.parts[some], None, scratch, split.share[some])
                blocks[split.owner[some], split.cell[some]] = features

        try:
            if isinstance(engine, NumbaEngine) and cells is None and bags.weights is None:
                engine.in_threads(bags, out, self.n_jobs)
            else:
                run_chunks(embed, chunks(), self.n_jobs)
        except OutsideCube:
            seen = bags.drop_weightless()
            raise cube_error(type(self).__name__, seen if cells is None else cells.numbers(seen)) from None
        if isinstance(engine, NumPyEngine) and engine.seen:
            self._warn_of_strangers(*map(np.concatenate, zip(*engine.seen, strict=True)))
        return out

    def _wider(self, bags: Bags, factors: Sequence[float]) -> Iterator[Array]:
        """Features of bags with the bandwidth of fit times each factor >= 1, from one binning of the points.

        Nodes and basis are those of fit, which resolve the narrowest bandwidth and so the wider ones too. Where points
        are not binned (other densities, scattered nodes, cells), a copy is fitted for each factor.
        """
        binned = (
            type(self._density) is densities.KDE
            and isinstance(self.nodes_, node_kinds.GridNodes)
            and self._cells is None
            and not self._own_bandwidths
        )
        if not binned:
            for factor in factors:
                scale = {"bandwidth_scale": self.bandwidth_scale * factor}
                yield clone(self).set_params(**scale).fit(bags).transform(bags)
            return
        bags = bags.drop_weightless()
        dtype = bags.points.dtype
        finest = self._density.prepare(self.nodes_, self.bandwidth_, dtype)
        chunks = bag_chunks(bags.n_bags, self._bytes_per_bag(dtype))
        kept: list[Array] = [finest.masses(bags[rows]).copy() for rows in chunks]  # type: ignore[attr-defined]
        for factor in factors:
            engine, out = self._numpy_engine(dtype), np.empty((bags.n_bags, self._n_features_out), dtype)
            matrices = finest.smoothing(self.bandwidth_ * factor)  # type: ignore[attr-defined]

            def embed(at: int, scratch: Scratch, engine: Any = engine, out: Array = out, by: Any = matrices) -> None:
                engine.from_masses(kept[at], by, out[chunks[at]], scratch)

            run_chunks(embed, range(len(chunks)), self.n_jobs)
            yield out

    def _warn_of_strangers(self, masses: Array, seeing: Array) -> None:
        """Warn of bags unlike any training bag, where nodes that were drawn from those are few."""
        missed = np.abs(masses - 1) > 0.5 if self._density.integrates_to_one else seeing < node_kinds.FEW_SEEING / 4
        if self.nodes_.n_nodes >= node_kinds.FEW_NODES and missed.mean() > STRANGERS:
            warnings.warn(
                f"{type(self).__name__}: {np.count_nonzero(missed):,} of {len(missed):,} bags lie where few nodes are, "
                "unlike the training bags from which nodes were drawn, so that their features mean little; fit on bags "
                "like them too, or spread the nodes with nodes=Importance(uniform=0.5)",
                UserWarning,
                stacklevel=4,  # transform is wrapped by scikit-learn
            )

    def _prepared(self, n_bags: int, dtype: np.dtype[Any]) -> Engine:
        """The stages, ready for bags of this dtype."""
        return self._numpy_engine(dtype)

    def _numpy_engine(self, dtype: np.dtype[Any]) -> NumPyEngine:
        estimate = self._density.prepare(self.nodes_, self.bandwidth_, dtype)
        own = self._bandwidths_of if self._own_bandwidths else None
        return NumPyEngine(estimate, self._functions(dtype), self._projection, self._reference, own, dtype)

    def _bytes_per_bag(self, dtype: np.dtype[Any]) -> int:
        return int(2 * (self._n_functions + 1) * self.nodes_.n_nodes * dtype.itemsize)

    def _bandwidths_of(self, bags: Bags) -> Array:
        """The rule applied to each bag by itself, ndarray of shape (n_bags, n_dims)."""
        return np.array([self._bandwidth(bags[i : i + 1]) for i in range(bags.n_bags)])

    def _names(self, prefix: str, parts: Sequence[str]) -> Array:
        """Names of features, ndarray of shape (n_features,) of str: prefix, cell if any, part, α."""
        alphas = ["_".join(map(str, alpha)) for alpha in self.indices_.tolist()]
        prefixes = [prefix]
        if self._cells is not None:
            prefixes = [f"{prefix}_{cell}" for cell in self._cells.names(getattr(self, "feature_names_in_", None))]
        names = [f"{prefix}_{part}{alpha}" for prefix in prefixes for part in parts for alpha in alphas]
        return np.array(names, dtype=object)
