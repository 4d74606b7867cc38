r"""A features: vectors whose squared Euclidean distances approximate a homogeneous density distance.

The stages of the paper, one after the other, for a chunk of bags at a time:

    points -> density p̂ on the nodes -> 2M lambda functions √w_j p̂^(1/2 + iλ_j) -> projection coefficients A(p̂)

(equations Adef and ApNumInt). Nothing is ever made that grows with the number of bags except the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from .. import distances
from ..basis import Basis
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_number, wants_numba
from ..compute.registry import storable
from ..density import Density
from ..density.nodes import NodeSpec
from ..distances import HomogeneousDistance
from ..distances.lambdas import lambda_functions, n_functions
from .catalogue import Method, family
from .density_base import DensityEmbedding
from .stages import DensityStages, NumPyEngine

if TYPE_CHECKING:
    from .compiled import CompiledEngine


LAMBDA_RULES = ("gauss", "random")
LARGE_GRID = 2**19  # nodes or products: above, compiled code, which holds sixteen bags at least, does not pay for fewer
FEW_BAGS = 16
# What compiled code needs of a fitted embedding, by its stages, which are new with every fit. Not an attribute of the
# embedding, which must be read where numba is not installed.
_COMPILED: WeakKeyDictionary[DensityStages, dict[Any, CompiledEngine]] = WeakKeyDictionary()
HEAVY_TAIL_FINENESS = 2.0  # large lambdas (total variation has them) turn fast and need a finer automatic grid


@storable(lambdas="finite(n)", weights="finite(n)")
@dataclass(frozen=True, eq=False)
class LambdaFunctions:
    """Real and imaginary parts of √w_j p^(1/2 + iλ_j), the functions of a homogeneous distance.

    Parameters
    ----------
    lambdas, weights : ndarray of shape (n_lambdas,)
        The quadrature rule.
    fineness : float
        How much finer than usual an automatic grid must be.
    """

    lambdas: Array
    weights: Array
    fineness: float = 1.0

    @property
    def n_functions(self) -> int:
        """Two per lambda, one for a lambda of zero."""
        return n_functions(self.lambdas)

    def __call__(self, p: Array, scratch: Scratch) -> Array:
        """Their values, of shape (n_functions, ...), for densities p of shape (...)."""
        return lambda_functions(p, self.lambdas, self.weights, scratch)

    def relative(self, factors: Array) -> Array:
        """The factors themselves."""
        return factors  # κ is homogeneous


@storable(lambdas_="finite(n)", lambda_weights_="finite(n)", group_="CoefficientGroup | None")
class HDDEmbedding(DensityEmbedding):
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
    n_basis : int, tuple of int or "auto", default=10
        Basis functions along each dimension. \|V\| is their product up to three dimensions; beyond, the index set of
        ``basis`` takes some 1,000 products of low total degree. ``"auto"``: from 10 on the fewest, in steps of a half,
        that lose at most 0.05 of squared distances between bags to anything but noise (``lost_signal_``), within 10,000
        features per bag; ``n_basis_`` is their number.
    bandwidth : float, sequence of float or str, default="distance"
        Of the kernel density estimate, in units of the cube: a number, one per dimension, or a rule applied once to the
        training bags: ``"scott"``, ``"silverman"``, ``"isj"``, ``"likelihood"``, ``"distance"``, ``"greedy"`` for many
        dimensions (see :mod:`distembed.density.bandwidth`). ``"distance"`` undersmooths what is best for the density.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth; the knob to tune.
    n_lambdas : int or "auto", default=5
        M, the number of lambdas. ``"auto"``: the fewest for which \|κ - κ_M\| / (x + y) stays below 0.01 for density
        ratios up to e^10 (3 for js, 1 for hellinger, 12 for chi2, 60 for tv, whose measure converges slowly; the
        error of the integrated distance is several times smaller).
    lambda_rule : {"gauss", "random"}, default="gauss"
        Gauss quadrature for the distance's measure, or the paper's random draws.
    density : {"kde", "auto", "histogram", "copula", "mixture", "knn"}, density object or estimator, default="kde"
        The density estimate, see :mod:`distembed.density`: ``KDE(boundary="periodic")``, ``Histogram(bins=10)``, or
        any unfitted estimator with ``fit`` and ``score_samples``, such as scikit-learn's ``KernelDensity``, which is
        cloned and fitted to each bag. ``"auto"``, best from four dimensions on: the most likely of kernels, a copula
        and a mixture on held-out points of training bags; up to three dimensions kernels. Beyond these it takes
        ``bandwidth="likelihood"`` for ``"distance"``.
    basis : {"cosine", "fourier", "legendre"} or basis object, default="cosine"
        The orthonormal basis. Cosines fit reflecting boundaries, Fourier functions periodic ones, Legendre polynomials
        smooth densities with a slope at the faces. An object chooses the index set too:
        ``Cosine(index_set="hyperbolic_cross")``, see :mod:`distembed.basis.index_sets`.
    nodes : {"auto", "grid", "importance", "mcmc"}, Grid, Sobol, MonteCarlo, Importance or MCMC, default="auto"
        Integration nodes. ``"auto"``: a grid up to three dimensions, ``"importance"`` beyond, which draws
        them from the training bags' density, for densities that fill little of the cube; ``"mcmc"`` does so for an
        estimate that has no ``sample``.
    random_state : int, RandomState or None, default=None
        Used by random lambdas and by all nodes but grids. The default settings are deterministic up to three
        dimensions.
    engine : {"auto", "numpy", "numba"}, default="auto"
        ``"numba"`` runs compiled code, some three times as fast (five in float64), for kernel density estimates on
        a grid; it needs the extra ``distembed[fast]``, and about ten seconds to compile when it is first used on a
        machine. ``"auto"`` takes it for work that NumPy would need more than a second for, or ten where nothing is
        compiled yet. Both compute the same to rounding in float64, and to some 1e-5 in float32 (1e-4 for tv).
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.
    symmetries : {"reflections", "dihedral"}, Symmetries or None, default=None
        Maps of the unit cube that change no label, see :class:`~distembed.Symmetries`. Features stay what they are, but
        that swapped dimensions share their bandwidth; how the maps act on features is ``group_``, which
        ``RandomFourierFeatures(group=...)`` averages over. Learners do so by themselves.

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
        Captured share of squared distances between training bags (of 32 of them at most), Σ_i \|\|P(ψ_i - ψ̄)\|\|² /
        Σ_i \|\|ψ_i - ψ̄\|\|², with the noise that small bags add to them; 1 where bags do not differ.
    lost_signal_ : float
        Share of squared distances that the basis misses and that two halves of each bag agree on, so it is not noise:
        1 - ``energy_`` is this and the noise that the basis leaves out. Above 0.1 ``fit`` warns. Densities that are not
        means over points can't be halved; then all that is missing counts.
    node_mass_ : float
        Mean over training bags of Σ_i v_i p̂(u_i), the integral of p̂ on the nodes, which should be 1. Where bags are
        off by more than 0.25 in the root mean square, ``fit`` warns: the nodes miss the points.
    group_ : CoefficientGroup or None
        How ``symmetries`` act on rows.
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

    *Limits.* n_basis functions per dimension resolve structure down to about 1/n_basis of the cube. The variance of p̂
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

    _projected = "lambda functions"
    _to_lower = "n_basis or n_lambdas"

    def __init__(
        self,
        distance: str | HomogeneousDistance = "js",
        *,
        n_basis: int | tuple[int, ...] | str = 10,
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
        symmetries: Any = None,
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
        self.symmetries = symmetries

    def _choose_functions(self, rng: np.random.RandomState) -> LambdaFunctions:
        self._distance_name = distances.get(self.distance).name
        self.lambdas_, self.lambda_weights_ = self._lambda_rule(rng)
        fineness = HEAVY_TAIL_FINENESS if distances.get(self.distance).heavy_tailed else 1.0
        return LambdaFunctions(self.lambdas_, self.lambda_weights_, fineness)

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

    def _engine(self, stages: DensityStages, n_bags: int, dtype: np.dtype[Any]) -> NumPyEngine | CompiledEngine:
        work = n_bags * stages.nodes.n_nodes * stages.functions.n_functions
        largest = prod(max(matrix.shape) for matrix in stages.projection.matrices)
        wasteful = self.engine == "auto" and n_bags < FEW_BAGS and largest > LARGE_GRID
        if wasteful or not (stages.smooths_bins and wants_numba(self, self.engine, work)):
            return NumPyEngine(stages, dtype)
        from .compiled import CompiledEngine

        prepared = _COMPILED.setdefault(stages, {})
        if dtype not in prepared:
            prepared[dtype] = CompiledEngine(stages, dtype)
        return prepared[dtype]

    def _check_engine(self, stages: DensityStages) -> None:
        wants_numba(self, self.engine, 0)
        if self.engine == "numba" and not stages.smooths_bins:
            raise ValueError(
                "HDDEmbedding(engine='numba'): serves kernel density estimates of one bandwidth on a grid, got "
                f"density={self.density!r} and nodes={self.nodes!r}; use engine='auto'"
            )

    def _name_parts(self) -> tuple[str, list[str]]:
        turning = np.flatnonzero(self.lambdas_)
        return self._distance_name, [f"re{j}_" for j in range(len(self.lambdas_))] + [f"im{j}_" for j in turning]


@family
def _methods() -> list[Method]:
    """One for each distance."""
    cost = "n + nodes functions (1 to 3 dimensions), n nodes beyond"
    change = "any smooth change of coordinates"
    reference = "Sutherland et al. 2016"
    return [
        Method(
            name, HDDEmbedding, {"distance": name}, distances.get(name).description, cost, "yes", change, "unit cube",
            reference,
        )
        for name in distances.available()
    ]  # fmt: skip
