r"""A features: vectors whose squared Euclidean distances approximate a homogeneous density distance.

The stages of the paper, one after the other, for a chunk of bags at a time:

    points -> density p̂ on the nodes -> 2M lambda functions √w_j p̂^(1/2 + iλ_j) -> projection coefficients A(p̂)

(equations Adef and ApNumInt). Nothing is ever made that grows with the number of bags except the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import bandwidth as bandwidths
from .. import basis as bases
from .. import density as densities
from .. import distances, lambdas
from .. import nodes as node_kinds
from .._base import BagEstimator, check_choice, check_number
from .._parallel import Scratch, run_chunks
from .._separable import bags_first
from ..bags import Bags
from ..basis import Basis, Projection
from ..density import KDE
from ..distances import HomogeneousDistance
from ..nodes import NodeSpec

__all__ = ["HDDEmbedding"]

Array = NDArray[Any]

MAX_FEATURES = 1_000_000  # more a bag than any linear model wants: refused with a remedy
LEAST_ENERGY = 0.9
LAMBDA_RULES = ("gauss", "random")
HEAVY_TAIL_FINENESS = 2.0  # large lambdas (total variation has them) turn fast and need a finer automatic grid
# A chunk is small enough to stay in the shared cache from binning to projection, and large enough that threads
# compute most of the time instead of waiting for Python's lock (measured: 300 bags of 200 points on 16 x 16 nodes).
_CHUNK_BAGS = 512
_CHUNK_BYTES = 9 * 2**19


class HDDEmbedding(BagEstimator):
    r"""Embed bags so that \|\|A(p) - A(q)\|\|² ≈ d²(p, q) = ∫ κ(p, q) for a homogeneous density distance.

    Each bag's density is estimated by a kernel density estimate p̂, turned into the lambda functions of the distance
    and projected onto an orthonormal basis. Squared Euclidean distances between rows of the result approximate the
    squared distance in its own units (Jensen-Shannon in nats); :class:`~distembed.RandomFourierFeatures` behind it
    makes the generalised RBF kernel exp(-d²/(2σ²)) linear.

    Points must lie in the unit cube: put :class:`~distembed.UnitCube` in front.

    Parameters
    ----------
    distance : {"js", "hellinger", "tv", "chi2"} or HomogeneousDistance, default="js"
        The distance, see :func:`distembed.distances.get`.
    n_basis : int or tuple of int, default=10
        Basis functions along each dimension; \|V\| is their product.
    bandwidth : float, sequence of float or str, default="distance"
        Of the kernel density estimate, in units of the cube: a number, one a dimension, or a rule applied once to the
        training bags: ``"scott"``, ``"silverman"``, ``"isj"``, ``"likelihood"``, ``"distance"``
        (see :mod:`distembed.bandwidth`). ``"distance"`` undersmooths what is best for the density.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth; the knob to tune.
    n_lambdas : int or "auto", default=5
        M, the number of lambdas. ``"auto"``: the fewest for which \|κ - κ_M\| / (x + y) stays below 0.01 for density
        ratios up to e^10 (3 for js, 1 for hellinger, 12 for chi2, 60 for tv, whose measure converges slowly; the
        error of the integrated distance is several times smaller).
    lambda_rule : {"gauss", "random"}, default="gauss"
        Gauss quadrature for the distance's measure, or the paper's random draws.
    density : "kde" or KDE, default="kde"
        The density estimate and its boundaries.
    basis : {"cosine", "fourier"} or basis object, default="cosine"
        The orthonormal basis. Cosines fit reflecting boundaries, Fourier functions periodic ones.
    nodes : {"auto", "grid"}, Grid, Sobol or MonteCarlo, default="auto"
        Integration nodes. ``"auto"``: a grid up to three dimensions, ``Sobol(4096)`` beyond.
    random_state : int, RandomState or None, default=None
        Used by random lambdas, Sobol and Monte Carlo nodes. The default settings are deterministic up to three
        dimensions.
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
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Layout.* ``n_functions`` blocks of \|V\| coefficients: real parts for λ_1, ..., λ_M, then imaginary parts; a λ of
    zero (the whole of Hellinger) has no imaginary part. A row of ``hellinger`` thus has \|V\| features, the others
    2M\|V\|.

    *Cost* a bag: O(n_points + n_nodes (n_functions + n_basis)) on a grid, O(n_points n_nodes) at scattered nodes;
    linear in the number of bags and points. Memory: the result and a working set of a few megabytes a thread.

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

    def __init__(
        self,
        distance: str | HomogeneousDistance = "js",
        *,
        n_basis: int | tuple[int, ...] = 10,
        bandwidth: float | Sequence[float] | str = "distance",
        bandwidth_scale: float = 1.0,
        n_lambdas: int | str = 5,
        lambda_rule: str = "gauss",
        density: str | KDE = "kde",
        basis: str | Basis = "cosine",
        nodes: str | NodeSpec = "auto",
        random_state: int | np.random.RandomState | None = None,
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
        bags = self._check_bags(X, reset=True)._without_weightless()
        check_in_cube(type(self).__name__, bags)
        rng = check_random_state(self.random_state)
        n_dims = bags.n_dims
        self._distance_name = distances.get(self.distance).name
        self.lambdas_, self.lambda_weights_ = self._lambda_rule(rng)
        n_basis = self._basis_sizes(n_dims)
        self.n_basis_functions_ = prod(n_basis)
        self._n_functions = lambdas.n_functions(self.lambdas_)
        self._n_features_out = self._n_functions * self.n_basis_functions_
        if self._n_features_out > MAX_FEATURES:
            raise ValueError(
                f"HDDEmbedding(n_basis=...): {n_basis} basis functions in {n_dims} dimensions and {self._n_functions} "
                f"lambda functions make {self._n_features_out:,} features a bag, more than {MAX_FEATURES:,}; lower "
                "n_basis or n_lambdas, or wrap the embedding in Marginals"
            )
        self._density = densities.get(self.density)
        self._own_bandwidths = self._density.per_bag and isinstance(self.bandwidth, str)
        self.bandwidth_ = self._bandwidth(bags)
        narrowest = self.bandwidth_
        if self._own_bandwidths:
            narrowest = np.minimum(narrowest, self._bandwidths_of(bandwidths.spaced(bags)).min(axis=0))
        kind = node_kinds.get(self.nodes, n_dims)
        self.nodes_ = kind.resolve(
            n_dims,
            bandwidth=narrowest,
            n_basis=n_basis,
            fineness=HEAVY_TAIL_FINENESS if distances.get(self.distance).heavy_tailed else 1.0,
            random_state=rng,
            pooled=self._pooled(bandwidths.spaced(bags)) if kind.needs_pooled else None,
        )
        if self._density.smooths == "joint":
            densities.warn_if_unresolved(self.nodes_, narrowest)
        self._projection = Projection(bases.get(self.basis), n_basis, self.nodes_)
        self.indices_ = self._projection.indices
        self.energy_ = self._captured_energy(bandwidths.spaced(bags))
        return self

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

    def _pooled(self, bags: Bags) -> densities.Pooled:
        """The mean density of these bags."""
        shares = bags._shares()
        parts = []
        for i, points in enumerate(bags):
            own = None if shares is None else shares[bags.offsets[i] : bags.offsets[i + 1]]
            parts.append(self._density.of(points.astype(float), own, self.bandwidth_))
        return densities.Pooled(parts, bags.n_dims)

    def _captured_energy(self, bags: Bags) -> float:
        """Mean over bags of Σ_j Σ_α a_α(ψ_j)² / Σ_j ∫ |ψ_j|²; warns where the index set misses much of it."""
        bags = bags.astype(np.float64)
        p = self._density.prepare(self.nodes_, self.bandwidth_, bags.points.dtype)(bags, None, None)
        psi = lambdas.lambda_functions(p, self.lambdas_, self.lambda_weights_)
        captured = np.sum(self._projection(psi) ** 2, axis=1)
        present = self.lambda_weights_.sum() * (bags_first(p).reshape(bags.n_bags, -1) @ self.nodes_.weights)
        energy = float(np.mean(captured / np.where(present > 0, present, 1.0)))
        if energy < LEAST_ENERGY:
            warnings.warn(
                f"HDDEmbedding: {self.n_basis_functions_} basis functions capture {energy:.0%} of the training bags' "
                f"lambda functions (energy_), so that distances come out too small; raise n_basis or bandwidth_scale, "
                "or look at fewer dimensions at a time with Marginals",
                UserWarning,
                stacklevel=3,
            )
        return energy

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
        several = not isinstance(self.n_basis, Integral) and isinstance(self.n_basis, Sequence | np.ndarray)
        sizes = tuple(self.n_basis) if several else (self.n_basis,) * n_dims  # type: ignore[arg-type]
        if len(sizes) != n_dims:
            raise ValueError(
                f"HDDEmbedding(n_basis=...): must be one number, or one a dimension ({n_dims}), got {self.n_basis!r}; "
                f"give {n_dims} numbers"
            )
        return tuple(check_number(self, "n_basis", n, low=1, high=10_000, integer=True) for n in sizes)

    def transform(self, X: Any) -> Array:
        """A features of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of points in the unit cube, of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, n_features)
            float32 for float32 points, else float64. In float32 the lambda functions come from a table, which is faster
            and changes features by some 1e-5.
        """
        check_is_fitted(self)
        bags = self._check_bags(X, reset=False)
        dtype = bags.points.dtype
        estimate = self._density.prepare(self.nodes_, self.bandwidth_, dtype)
        psi = lambdas.prepare(self.lambdas_, self.lambda_weights_, dtype)
        project = self._projection.astype(dtype)
        out = np.empty((bags.n_bags, self._n_features_out), dtype)

        def embed(rows: slice, scratch: Scratch) -> None:
            chunk = bags[rows]._without_weightless()
            if not in_cube(chunk):  # looked at here, where threads share the work and the cache is warm
                check_in_cube(type(self).__name__, bags._without_weightless())
            p = estimate(chunk, self._bandwidths_of(chunk) if self._own_bandwidths else None, scratch)
            project(psi(p, scratch), out[rows], scratch)

        run_chunks(embed, bag_chunks(bags.n_bags, self._bytes_per_bag(dtype)), self.n_jobs)
        return out

    def _bytes_per_bag(self, dtype: np.dtype[Any]) -> int:
        return 2 * (self._n_functions + 1) * self.nodes_.n_nodes * dtype.itemsize

    def _bandwidths_of(self, bags: Bags) -> Array:
        """The rule applied to each bag by itself, ndarray of shape (n_bags, n_dims)."""
        return np.array([self._bandwidth(bags[i : i + 1]) for i in range(bags.n_bags)])

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names such as ``js_re0_3_1``: real part, first lambda, α = (3, 1).

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
        return np.array([f"{name}_{part}_{alpha}" for part in parts for alpha in alphas], dtype=object)


def in_cube(bags: Bags) -> bool:
    """Whether all points lie in the unit cube."""
    return bool(bags.points.min() >= 0 and bags.points.max() <= 1)


def check_in_cube(owner: str, bags: Bags) -> None:
    """Refuse points outside the unit cube with an error that names the bag, the point, the value and the remedy."""
    if in_cube(bags):
        return
    row, dim = np.argwhere((bags.points < 0) | (bags.points > 1))[0]
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    raise ValueError(
        f"{owner}: points must lie in the unit cube [0, 1]^{bags.n_dims}, but point {row - bags.offsets[bag]} of "
        f"{bags._name_of(bag)} has {bags.points[row, dim]:g} in dimension {dim}; scale the bags first, e.g. "
        f"make_pipeline(UnitCube(), {owner}(...))"
    )


def bag_chunks(n_bags: int, bytes_per_bag: int) -> list[slice]:
    """Slices of consecutive bags whose working set fits the cache, of equal length and a multiple of four of them.

    So threads finish together, and the result does not depend on their number, not even in its last bit.
    """
    most = int(np.clip(_CHUNK_BYTES // bytes_per_bag, 1, _CHUNK_BAGS))
    n_chunks = 4 * -(-n_bags // (4 * most)) if n_bags > 64 else -(-n_bags // most)
    step = -(-n_bags // n_chunks)
    return [slice(i, min(i + step, n_bags)) for i in range(0, n_bags, step)]
