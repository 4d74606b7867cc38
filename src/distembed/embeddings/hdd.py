r"""A features: vectors whose squared Euclidean distances approximate a homogeneous density distance.

The stages of the paper, one after the other, for a chunk of bags at a time:

    points -> density p̂ on the nodes -> 2M lambda functions √w_j p̂^(1/2 + iλ_j) -> projection coefficients A(p̂)

(equations Adef and ApNumInt). Nothing is ever made that grows with the number of bags except the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import bandwidth as bandwidths
from .. import basis as bases
from .. import density as densities
from .. import distances, lambdas
from .. import nodes as node_kinds
from .._base import BagEstimator, OutsideCube, check_choice, check_in_cube, check_number, cube_error, wants_numba
from .._cells import Cells, NoDimensions, OneNode
from .._engines import NumbaEngine, NumPyEngine, is_compiled
from .._parallel import Scratch, bag_chunks, one_blas_thread, run_chunks
from ..bags import Bags
from ..basis import Basis, Projection
from ..density import Density
from ..density.estimate import pool
from ..distances import HomogeneousDistance
from ..index_sets import TooManyFunctions
from ..nodes import NodeSpec

__all__ = ["HDDEmbedding"]

Array = NDArray[Any]

MAX_FEATURES = 1_000_000  # more a bag than any linear model wants: refused with a remedy
LEAST_ENERGY, MOST_ENERGY = 0.9, 1.25
STRANGERS = 0.01  # share of bags that nodes miss from which on transform warns
LAMBDA_RULES = ("gauss", "random")
# What compiled code needs of a fitted embedding, by its projection, which is new with every fit. Not an attribute of
# the embedding, which must be read where numba is not installed.
_COMPILED: WeakKeyDictionary[Projection, dict[Any, NumbaEngine]] = WeakKeyDictionary()
HEAVY_TAIL_FINENESS = 2.0  # large lambdas (total variation has them) turn fast and need a finer automatic grid


class HDDEmbedding(BagEstimator):
    r"""Embed bags so that \|\|A(p) - A(q)\|\|² ≈ d²(p, q) = ∫ κ(p, q) for a homogeneous density distance.

    Each bag's density is estimated by a kernel density estimate p̂, turned into the lambda functions of the distance
    and projected onto an orthonormal basis. Squared Euclidean distances between rows of the result approximate the
    squared distance in its own units (Jensen-Shannon in nats); :class:`~distembed.RandomFourierFeatures` behind it
    makes the generalised RBF kernel exp(-d²/(2σ²)) linear.

    Points must lie in the unit cube: put :class:`~distembed.UnitCube` in front.

    Bags may have categorical columns, see :meth:`distembed.Bags.from_frame`. Then a point is (c, x) with a cell c, one
    label of each of them, and continuous x; the density is p(c, x) = share of c · p(x \| c), and the distance is
    Σ_c ∫ κ(p(c, x), q(c, x)) dx. Without a continuous column it is the distance of histograms. Dimensions below are the
    continuous ones.

    Parameters
    ----------
    distance : {"js", "hellinger", "tv", "chi2"} or HomogeneousDistance, default="js"
        The distance, see :func:`distembed.distances.get`.
    n_basis : int or tuple of int, default=10
        Basis functions along each dimension. \|V\| is their product up to three dimensions; beyond, the index set of
        ``basis`` takes some 1,000 products of low total degree.
    bandwidth : float, sequence of float or str, default="distance"
        Of the kernel density estimate, in units of the cube: a number, one a dimension, or a rule applied once to the
        training bags: ``"scott"``, ``"silverman"``, ``"isj"``, ``"likelihood"``, ``"distance"``,
        ``"greedy"`` for many dimensions (see :mod:`distembed.bandwidth`). ``"distance"`` undersmooths what is best for
        the density.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth; the knob to tune.
    n_lambdas : int or "auto", default=5
        M, the number of lambdas. ``"auto"``: the fewest for which \|κ - κ_M\| / (x + y) stays below 0.01 for density
        ratios up to e^10 (3 for js, 1 for hellinger, 12 for chi2, 60 for tv, whose measure converges slowly; the
        error of the integrated distance is several times smaller).
    lambda_rule : {"gauss", "random"}, default="gauss"
        Gauss quadrature for the distance's measure, or the paper's random draws.
    density : {"kde", "histogram", "copula", "mixture", "knn"}, density object or estimator, default="kde"
        The density estimate, see :mod:`distembed.density`: ``KDE(boundary="periodic")``, ``Histogram(bins=10)``, or
        any unfitted estimator with ``fit`` and ``score_samples``, such as scikit-learn's ``KernelDensity``, which is
        cloned and fitted to each bag.
    basis : {"cosine", "fourier", "legendre"} or basis object, default="cosine"
        The orthonormal basis. Cosines fit reflecting boundaries, Fourier functions periodic ones, Legendre polynomials
        smooth densities with a slope at the faces. An object chooses the index set too:
        ``Cosine(index_set="hyperbolic_cross")``, see :mod:`distembed.index_sets`.
    nodes : {"auto", "grid", "importance", "mcmc"}, Grid, Sobol, MonteCarlo, Importance or MCMC, default="auto"
        Integration nodes. ``"auto"``: a grid up to three dimensions, ``"importance"`` beyond, which draws
        them from the training bags' density, for densities that fill little of the cube; ``"mcmc"`` does so for an
        estimate that has no ``sample``.
    random_state : int, RandomState or None, default=None
        Used by random lambdas and by all nodes but grids. The default settings are deterministic up to three
        dimensions.
    engine : {"auto", "numpy", "numba"}, default="auto"
        ``"numba"`` runs compiled code, some three times as fast (six times in float64), for kernel density estimates on
        a grid; it needs the extra ``distembed[fast]``, and some ten seconds to compile when it is first used on a
        machine. ``"auto"`` takes it for work that NumPy would need more than a second for. Both compute the same to
        rounding in float64, and to some 1e-5 in float32 (1e-4 for tv), where NumPy takes powers from a table.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    bandwidth_ : ndarray of shape (n_dims,)
        Bandwidths in use, ``bandwidth_scale`` included.
    lambdas_, lambda_weights_ : ndarray of shape (n_lambdas,)
        The quadrature rule.
    nodes_ : GridNodes or PointNodes
        The integration nodes.
    indices_ : ndarray of shape (n_basis_functions, n_dims)
        Multi-indices α of the basis functions.
    n_basis_functions_ : int
        \|V\|.
    energy_ : float
        Share of ∫ \|ψ\|² that the basis functions capture, mean over training bags; below 0.9 ``fit`` warns. What is
        missing is missing from distances.
    node_mass_ : float
        Mean over training bags of Σ_i v_i p̂(u_i), the integral of p̂ on the nodes, which should be 1. Where bags are
        off by more than 0.25 in the root mean square, ``fit`` warns: the nodes miss the points.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Layout.* ``n_functions`` blocks of \|V\| coefficients: real parts for λ_1, ..., λ_M, then imaginary parts; a λ of
    zero (the whole of Hellinger) has no imaginary part. A row of ``hellinger`` thus has \|V\| features, the others
    2M\|V\|.

    *Cells.* With categorical columns there is such a row for each of the K cells, labels of the last column fastest;
    cells without points have zeros. ``fit`` resolves bandwidth and nodes on parts of bags, drawn in proportion to their
    shares.

    *Cost* a bag: O(n_points + n_nodes (n_functions + n_basis)) on a grid, O(n_points n_nodes) at scattered nodes;
    linear in the number of bags and points; with categorical columns, a density for each nonempty cell of a bag.
    Memory: the result and a working set of a few megabytes a thread.

    *Limits.* n_basis functions a dimension resolve structure down to about 1/n_basis of the cube. The variance of p̂
    adds to every squared distance an amount that grows as bags shrink, see :func:`distembed.sizes.noise_floor` and
    :class:`~distembed.BlockAverage`.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider (2016). Linear-time learning on distributions with approximate kernel
    embeddings. AAAI.

    Examples
    --------
    Squared distances between rows are Jensen-Shannon divergences:

    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.Bags.from_arrays([np.sqrt(rng.uniform(size=20_000)), rng.uniform(size=20_000)])  # 2x, uniform
    >>> a, b = de.HDDEmbedding("js").fit_transform(bags)
    >>> round(float(np.sum((a - b) ** 2)), 2)  # the true value is 0.0538
    0.05
    """

    _takes_categories = True

    def __init__(
        self,
        distance: str | HomogeneousDistance = "js",
        *,
        n_basis: int | tuple[int, ...] = 10,
        bandwidth: float | Sequence[float] | str = "distance",
        bandwidth_scale: float = 1.0,
        n_lambdas: int | str = 5,
        lambda_rule: str = "gauss",
        density: str | Density | Any = "kde",
        basis: str | Basis = "cosine",
        nodes: str | NodeSpec = "auto",
        random_state: int | np.random.RandomState | None = None,
        engine: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.distance = distance
        self.n_basis = n_basis
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.n_lambdas = n_lambdas
        self.lambda_rule = lambda_rule
        self.density = density
        self.basis = basis
        self.nodes = nodes
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Self:
        """Resolve bandwidth, lambdas, nodes and basis from training bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of points in the unit cube.
        y : Ignored

        Returns
        -------
        self
        """
        with one_blas_thread():
            self._fit(self._check_bags(X, reset=True)._without_weightless())
        return self

    def _fit(self, bags: Bags) -> None:
        self._cells = cells = Cells.of(bags)
        check_in_cube(type(self).__name__, bags if cells is None else cells.numbers(bags))
        rng = check_random_state(self.random_state)
        discrete = cells is not None and not cells.continuous
        n_dims = bags.n_dims if cells is None else max(1, len(cells.continuous))
        self._distance_name = distances.get(self.distance).name
        self.lambdas_, self.lambda_weights_ = self._lambda_rule(rng)
        n_basis = (1,) if discrete else self._basis_sizes(n_dims)
        self._n_functions = lambdas.n_functions(self.lambdas_)
        basis = bases.get(self.basis)
        self.indices_ = self._indices(basis, n_basis)
        self.n_basis_functions_ = len(self.indices_)
        self._n_features_out = self._n_functions * self.n_basis_functions_
        if cells is not None:
            self._n_features_out *= cells.n_cells
            self._check_cells(cells)
            bags = cells.typical(bandwidths.spaced(bags), bandwidths.MAX_BAGS)  # from here on, the parts of bags
        self._density = NoDimensions() if discrete else densities.get(self.density)
        self._own_bandwidths = self._density.per_bag and isinstance(self.bandwidth, str)
        self.bandwidth_ = self._bandwidth(bags)
        narrowest = self.bandwidth_
        if self._own_bandwidths:
            narrowest = np.minimum(narrowest, self._bandwidths_of(bandwidths.spaced(bags)).min(axis=0))
        kind = OneNode() if discrete else node_kinds.get(self.nodes, n_dims)
        pooled = pool(self._density, bandwidths.spaced(bags), self.bandwidth_) if kind.needs_pooled else None
        if isinstance(self.nodes, str) and self.nodes == "auto" and pooled is not None and not pooled.can_sample:
            kind = node_kinds.MCMC()
        self.nodes_ = self._density.resolve_nodes(
            kind,
            n_dims,
            bandwidth=narrowest,
            n_basis=n_basis,
            fineness=HEAVY_TAIL_FINENESS if distances.get(self.distance).heavy_tailed else 1.0,
            random_state=rng,
            pooled=pooled,
        )
        self._density.warn_if_unresolved(self.nodes_, narrowest)
        self._check_engine()
        evenly, self._reference = bases.evenly(self.nodes_)
        plain = isinstance(kind, node_kinds.MonteCarlo)  # the paper's sum as it is
        self._drawn = kind.needs_pooled
        if not plain and self.n_basis_functions_ > self.nodes_.n_nodes:
            raise ValueError(
                f"HDDEmbedding(n_basis=...): makes {self.n_basis_functions_:,} basis functions, more than nodes "
                f"({self.nodes_.n_nodes:,}); use more nodes, lower n_basis, or a smaller index set such as "
                "basis=Cosine('hyperbolic_cross')"
            )
        self._projection = Projection(basis, n_basis, evenly, orthonormalise=not plain, indices=self.indices_)
        self._look_at(bandwidths.spaced(bags))

    def _check_cells(self, cells: Cells) -> None:
        """Refuse, with a remedy, more cells than a bag has features for."""
        if self._n_features_out > MAX_FEATURES:
            each, names = self._n_features_out // cells.n_cells, getattr(self, "feature_names_in_", None)
            raise ValueError(
                f"HDDEmbedding: the categorical columns make {cells.describe(names)} of {each:,} features each, "
                f"{self._n_features_out:,} a bag, more than {MAX_FEATURES:,}; merge rare categories, take fewer "
                "categorical columns, lower n_basis or n_lambdas, or wrap the embedding in Marginals"
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
        bags, engine, scratch = bags.astype(np.float64), self._numpy_engine(np.dtype(float)), Scratch()
        chunks = bag_chunks(bags.n_bags, self._bytes_per_bag(np.dtype(float)))
        found = [engine.captured(bags[rows], self.nodes_.weights, scratch) for rows in chunks]
        captured, masses, seeing = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self.node_mass_ = float(masses.mean())
        if not self._density.integrates_to_one:  # values were divided by their mass on the nodes
            node_kinds.warn_if_few_see("HDDEmbedding", seeing, self.nodes_, stacklevel=4)
        elif "none" not in self._density.boundaries(bags.n_dims):  # open boundaries lose mass, whatever the nodes
            node_kinds.warn_if_mass_is_off("HDDEmbedding", masses, self.nodes_, stacklevel=4)
        present = self.lambda_weights_.sum() * masses
        self.energy_ = energy = float(np.mean(captured / np.where(present > 0, present, 1.0)))
        if energy < LEAST_ENERGY:
            n = self.n_basis_functions_
            smoother = "" if self._density.smooths == "nothing" else " or bandwidth_scale"
            message = (
                f"HDDEmbedding: {n:,} basis functions capture {energy:.0%} of the training bags' lambda functions "
                f"(energy_), so that distances come out too small; raise n_basis{smoother}, or look at fewer "
                "dimensions at a time with Marginals"
            )
            warnings.warn(bases.LowEnergyWarning(message, energy, n), stacklevel=4)
        elif energy > MOST_ENERGY and self.nodes_.n_nodes >= node_kinds.FEW_NODES:
            warnings.warn(
                f"HDDEmbedding: {self.n_basis_functions_:,} basis functions on {self.nodes_.n_nodes:,} random nodes "
                f"find {energy:.0%} of the training bags' lambda functions (energy_), so that distances come out too "
                "large; use more nodes, Sobol(...) in place of MonteCarlo(...), or lower n_basis",
                UserWarning,
                stacklevel=4,
            )

    def _lambda_rule(self, rng: np.random.RandomState) -> tuple[Array, Array]:
        distance = distances.get(self.distance)
        rule = check_choice(self, "lambda_rule", self.lambda_rule, LAMBDA_RULES)
        if isinstance(self.n_lambdas, str):
            if self.n_lambdas != "auto":
                raise ValueError(
                    f"HDDEmbedding(n_lambdas=...): must be an integer in [1, {distances.MAX_LAMBDAS}] or 'auto', got "
                    f"{self.n_lambdas!r}; 5 is a usual number"
                )
            if rule == "random":
                raise ValueError(
                    "HDDEmbedding(n_lambdas='auto'): needs lambda_rule='gauss'; random lambdas have no error to go by, "
                    "so give their number"
                )
            return distance.auto_quadrature()
        n = check_number(self, "n_lambdas", self.n_lambdas, low=1, high=distances.MAX_LAMBDAS, integer=True)
        if rule == "gauss":
            return distance.quadrature(n)
        drawn, times = np.unique(distance.sample(n, rng), return_counts=True)  # an atom is drawn many times
        return drawn, distance.mass * times / n

    def _basis_sizes(self, n_dims: int) -> tuple[int, ...]:
        several = not isinstance(self.n_basis, Integral | str) and np.ndim(self.n_basis) > 0
        sizes = tuple(self.n_basis) if several else (self.n_basis,) * n_dims  # type: ignore[arg-type]
        if len(sizes) != n_dims:
            raise ValueError(
                f"HDDEmbedding(n_basis=...): must be one number, or one a dimension ({n_dims}), got {self.n_basis!r}; "
                f"give {n_dims} numbers"
            )
        return tuple(check_number(self, "n_basis", n, low=1, high=10_000, integer=True) for n in sizes)

    def _indices(self, basis: Basis, n_basis: tuple[int, ...]) -> Array:
        """The index set, refused with a remedy where it makes too many features."""
        try:
            return basis.indices(n_basis, MAX_FEATURES // self._n_functions)
        except TooManyFunctions as error:
            many = "more" if error.n_functions is None else f"{self._n_functions * error.n_functions:,}"
            n_dims = len(n_basis)
            raise ValueError(
                f"HDDEmbedding(n_basis=...): {n_basis} basis functions in {n_dims} dimensions and {self._n_functions} "
                f"lambda functions make {many} features a bag, more than {MAX_FEATURES:,}; lower n_basis or n_lambdas, "
                "choose a smaller index_set such as basis=Cosine('hyperbolic_cross'), or wrap the embedding in "
                "Marginals"
            ) from None

    def transform(self, X: Any) -> Array:
        """A features of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of points in the unit cube, of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, n_features)
            float32 for float32 points, else float64. In float32 NumPy's lambda functions come from a table, which is
            faster and changes features by some 1e-5.
        """
        check_is_fitted(self)
        bags = self._check_bags(X, reset=False)
        dtype, cells = bags.points.dtype, self._cells
        engine, bytes_per_bag = self._prepared(bags.n_bags, dtype), self._bytes_per_bag(dtype)
        out = np.empty((bags.n_bags, self._n_features_out), dtype)

        def embed(rows: slice, scratch: Scratch) -> None:
            chunk = bags[rows]._without_weightless()
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

        # The parts of a bag are as many as its cells, or as its points.
        n_parts = 1 if cells is None else int(min(cells.n_cells, np.ceil(bags.n_points / bags.n_bags)))
        chunks = bag_chunks(bags.n_bags, n_parts * bytes_per_bag, engine.bags_at_a_time, engine.most_bags)
        if isinstance(engine, NumPyEngine) and self._drawn:
            engine.volumes = self.nodes_.weights
        try:
            run_chunks(embed, chunks, self.n_jobs)
        except OutsideCube:
            seen = bags._without_weightless()
            raise cube_error(type(self).__name__, seen if cells is None else cells.numbers(seen)) from None
        if isinstance(engine, NumPyEngine) and engine.seen:
            self._warn_of_strangers(*map(np.concatenate, zip(*engine.seen, strict=True)))
        return out

    def _warn_of_strangers(self, masses: Array, seeing: Array) -> None:
        """Warn of bags unlike any training bag, where nodes that were drawn from those are few."""
        missed = np.abs(masses - 1) > 0.5 if self._density.integrates_to_one else seeing < node_kinds.FEW_SEEING / 4
        if self.nodes_.n_nodes >= node_kinds.FEW_NODES and missed.mean() > STRANGERS:
            warnings.warn(
                f"HDDEmbedding: {np.count_nonzero(missed):,} of {len(missed):,} bags lie where few nodes are, unlike "
                "the training bags from which nodes were drawn, so that their features mean little; fit on bags like "
                "them too, or spread the nodes with nodes=Importance(uniform=0.5)",
                UserWarning,
                stacklevel=4,  # transform is wrapped by scikit-learn
            )

    def _prepared(self, n_bags: int, dtype: np.dtype[Any]) -> NumPyEngine | NumbaEngine:
        """The stages, ready for bags of this dtype."""
        rule = (self.lambdas_, self.lambda_weights_)
        work = n_bags * self.nodes_.n_nodes * self._n_functions
        if is_compiled(self._density, self.nodes_, self._own_bandwidths) and wants_numba(self, self.engine, work):
            prepared = _COMPILED.setdefault(self._projection, {})
            if dtype not in prepared:
                boundaries = self._density.boundaries(len(self.bandwidth_))
                assert isinstance(self.nodes_, node_kinds.GridNodes)
                engine = NumbaEngine(self.nodes_, self.bandwidth_, boundaries, *rule, self._projection, dtype)
                prepared[dtype] = engine
            return prepared[dtype]
        return self._numpy_engine(dtype)

    def _numpy_engine(self, dtype: np.dtype[Any]) -> NumPyEngine:
        estimate = self._density.prepare(self.nodes_, self.bandwidth_, dtype)
        own = self._bandwidths_of if self._own_bandwidths else None
        rule = (self.lambdas_, self.lambda_weights_)
        return NumPyEngine(estimate, self.nodes_.n_nodes, *rule, self._projection, self._reference, own, dtype)

    def _check_engine(self) -> None:
        """Refuse a compiled engine that is not there."""
        wants_numba(self, self.engine, 0)
        if self.engine == "numba" and not is_compiled(self._density, self.nodes_, self._own_bandwidths):
            raise ValueError(
                "HDDEmbedding(engine='numba'): serves kernel density estimates of one bandwidth on a grid, got "
                f"density={self.density!r} and nodes={self.nodes!r}; use engine='auto'"
            )

    def _bytes_per_bag(self, dtype: np.dtype[Any]) -> int:
        return 2 * (self._n_functions + 1) * self.nodes_.n_nodes * dtype.itemsize

    def _bandwidths_of(self, bags: Bags) -> Array:
        """The rule applied to each bag by itself, ndarray of shape (n_bags, n_dims)."""
        return np.array([self._bandwidth(bags[i : i + 1]) for i in range(bags.n_bags)])

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names such as ``js_re0_3_1``: real part, first lambda, α = (3, 1); with cells ``js_sex=f_re0_3_1``.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (n_features,) of str objects
        """
        check_is_fitted(self)
        name = self._distance_name
        parts = [f"re{j}" for j in range(len(self.lambdas_))] + [f"im{j}" for j in np.flatnonzero(self.lambdas_)]
        alphas = ["_".join(map(str, alpha)) for alpha in self.indices_.tolist()]
        prefixes = [name]
        if self._cells is not None:
            prefixes = [f"{name}_{cell}" for cell in self._cells.names(getattr(self, "feature_names_in_", None))]
        names = [f"{prefix}_{part}_{alpha}" for prefix in prefixes for part in parts for alpha in alphas]
        return np.array(names, dtype=object)
