r"""A features of the L2 distance: projection coefficients of the density itself.

For an orthonormal basis, Parseval's identity makes the squared distance of coefficients a_α(p) = ∫ φ_α p that of the
densities,

.. math:: \|A(p) - A(q)\|^2 = \sum_{α \in V} (a_α(p) - a_α(q))^2 \to \int (p - q)^2,

from below as V grows. Two estimates of a_α: that of a density estimate p̂ on nodes, and, as a_α is the expectation of
φ_α under p, the mean of φ_α over the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..basis import Basis
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice
from ..compute.registry import storable
from ..density import Density
from ..density.nodes import NodeSpec
from .catalogue import Method, register
from .density_base import DensityEmbedding

METHODS = ("density", "points")


@storable
@dataclass(frozen=True)
class DensityItself:
    """The one function that the L2 distance projects: p."""

    n_functions: ClassVar[int] = 1
    fineness: ClassVar[float] = 1.0

    def __call__(self, p: Array, scratch: Scratch) -> Array:
        """The densities p of shape (...), in shape (1, ...)."""
        return p[None]

    def relative(self, factors: Array) -> Array:
        """Roots of the factors."""
        return np.sqrt(factors)  # (p - q)² has degree two


@storable
class L2Embedding(DensityEmbedding):
    r"""Embed bags so that \|\|A(p) - A(q)\|\|² ≈ ∫ (p - q)² dx.

    The features of a bag are the projection coefficients a_α = ∫ φ_α p of its density on an orthonormal basis.
    :class:`~distembed.RandomFourierFeatures` behind it makes the kernel exp(-L2²/(2σ²)) linear, which is the estimator
    of Oliva et al.

    Points must lie in the unit cube: put :class:`~distembed.UnitCube` in front. Distances are those of the densities on
    the cube: where a box of volume B was mapped to it, they are B times those on the box. Unlike the distances of
    :class:`~distembed.HDDEmbedding` they change with every map that does not multiply all volumes by one constant.

    Bags may have categorical columns, see :meth:`distembed.Bags.from_frame`; the distance is then
    Σ_c ∫ (p(c, x) - q(c, x))² dx over the cells c, one label of each such column. Dimensions below are the continuous
    ones.

    Parameters
    ----------
    n_basis : int, tuple of int or "auto", default=10
        Basis functions along each dimension. \|V\| is their product up to three dimensions; beyond, the index set of
        ``basis`` takes some 1,000 products of low total degree. ``"auto"``: from 10 on the fewest, in steps of a half,
        that lose at most 0.05 of squared distances between bags to anything but noise (``lost_signal_``), within 10,000
        features per bag; ``n_basis_`` is their number.
    bandwidth : float, sequence of float or str, default="distance"
        Of the kernel density estimate, in units of the cube: a number, one per dimension, or a rule applied once to the
        training bags, see :mod:`distembed.density.bandwidth`. ``method="points"`` has none.
    bandwidth_scale : float, default=1.0
        Multiplies the bandwidth; the knob to tune.
    method : {"density", "points"}, default="density"
        How coefficients are estimated: from a density estimate on nodes, â_α = Σ_i v_i φ_α(u_i) p̂(u_i); or by means
        over the points, â_α = Σ_i w_i φ_α(x_i), which needs neither bandwidth nor density nor nodes, ignores these
        three parameters, and is linear in the bag: features of a union of bags are means of their features.
    density : {"kde", "auto", "histogram", "copula", "mixture", "knn"}, density object or estimator, default="kde"
        The density estimate, see :mod:`distembed.density`; ``"auto"`` as of :class:`~distembed.HDDEmbedding`.
    basis : {"cosine", "fourier", "legendre"} or basis object, default="cosine"
        The orthonormal basis, see :mod:`distembed.basis`. An object chooses the index set too:
        ``Cosine(index_set="hyperbolic_cross")``, see :mod:`distembed.basis.index_sets`.
    nodes : {"auto", "grid", "importance", "mcmc"}, Grid, Sobol, MonteCarlo, Importance or MCMC, default="auto"
        Integration nodes. ``"auto"``: a grid up to three dimensions, ``"importance"`` beyond, see
        :mod:`distembed.density.nodes`.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.
    random_state : int, RandomState or None, default=None
        Used by all nodes but grids. The default settings are deterministic up to three dimensions.
    symmetries : {"reflections", "dihedral"}, Symmetries or None, default=None
        Maps of the unit cube that change no label, as of :class:`~distembed.HDDEmbedding`.

    Attributes
    ----------
    bandwidth_ : ndarray of shape (n_dims,) or None
        Bandwidths in use, ``bandwidth_scale`` included.
    nodes_ : GridNodes, PointNodes or None
        The integration nodes; None for ``method="points"``.
    indices_ : ndarray of shape (n_basis_functions, n_dims)
        Multi-indices α of the basis functions.
    n_basis_functions_ : int
        \|V\|.
    energy_ : float or None
        Captured share of squared distances between training bags (of 32 of them at most), with the noise that small
        bags add to them; 1 where bags do not differ. None for ``method="points"``, which has no density.
    lost_signal_ : float or None
        Share of squared distances that the basis misses and that two halves of each bag agree on, so it is not noise:
        1 - ``energy_`` is this and the noise that the basis leaves out. Above 0.1 ``fit`` warns. Densities that are not
        means over points can't be halved; then all that is missing counts.
    node_mass_ : float or None
        Mean over training bags of Σ_i v_i p̂(u_i), the integral of p̂ on the nodes, which should be 1; None for
        ``method="points"``.
    group_ : CoefficientGroup or None
        How ``symmetries`` act on rows.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Bias of points.* Means over points are unbiased for the coefficients, with an error of order n^(-1/2), and so their
    squared distances are not: for independent bags of n and m points

    .. math:: E \|\hat A(p) - \hat A(q)\|^2 = \|A(p) - A(q)\|^2 + \frac{T(p)}{n} + \frac{T(q)}{m}, \qquad
              T(p) = \sum_{α \in V} \mathrm{Var}_p\, φ_α = \int p \sum_{α \in V} φ_α^2 - \|A(p)\|^2,

    where T is about \|V\| - \|\|A(p)\|\|² for cosines and Fourier functions, whose squares average one. (n is
    1 / Σ w_i² for points of weights w_i of sum one.) It is the same for all pairs only where all bags have one size;
    :func:`distembed.sizes.split_half_distances` is without it. A density estimate has less of it, because smoothing
    shrinks coefficients of high degree, and in return a bias in the coefficients. With few points take few functions,
    or ``method="density"``.

    *Layout.* \|V\| coefficients in the order of ``indices_``; with categorical columns as many for each cell, labels of
    the last column fastest, and zeros for cells without points.

    *Nodes that are not uniform.* At nodes of density m, drawn from the training bags, it is p̂ / √m that is projected,
    onto functions that are orthonormal under m. That leaves distances what they are, ∫ ((p - q) / √m)² m, and needs
    fewer functions.

    *Cost* a bag: O(n_points + n_nodes n_basis) on a grid, O(n_points n_nodes) at scattered nodes; O(n_points \|V\|) for
    ``method="points"``, in matrix products. Linear in the number of bags and points. Memory: the result and a working
    set of a few megabytes a thread.

    *Limits.* n_basis functions per dimension resolve structure down to about 1/n_basis of the cube. L2 is dominated by
    where densities are high; a spike has a large ∫ p².

    References
    ----------
    Oliva, Neiswanger, Poczos, Schneider, Xing (2014). Fast distribution to real regression. AISTATS.

    Examples
    --------
    Squared distances between rows are squared L2 distances of densities:

    >>> from distembed import Bags
    >>> from distembed.embeddings.l2 import L2Embedding
    >>> rng = np.random.default_rng(0)
    >>> bags = Bags.from_arrays([np.sqrt(rng.uniform(size=20_000)), rng.uniform(size=20_000)])  # 2x, uniform
    >>> a, b = L2Embedding().fit_transform(bags)
    >>> round(float(np.sum((a - b) ** 2)), 2)  # the true value is 0.333
    0.34

    Means over points: the first coefficients of 2x are 1, -4 √2 / π² = -0.573 and 0.

    >>> L2Embedding(3, method="points").fit_transform(bags)[0].round(1) + 0.0
    array([ 1. , -0.6,  0. ])
    """

    _projected = "densities"
    _to_lower = "n_basis"

    def __init__(
        self,
        n_basis: int | tuple[int, ...] | str = 10,
        bandwidth: float | Sequence[float] | str = "distance",
        *,
        bandwidth_scale: float = 1.0,
        method: str = "density",
        density: str | Density | Any = "kde",
        basis: str | Basis = "cosine",
        nodes: str | NodeSpec = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        symmetries: Any = None,
    ) -> None:
        self.n_basis = n_basis
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.method = method
        self.density = density
        self.basis = basis
        self.nodes = nodes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.symmetries = symmetries

    def _choose_functions(self, rng: np.random.RandomState) -> DensityItself:
        check_choice(self, "method", self.method, METHODS)
        return DensityItself()

    def _has_density(self) -> bool:
        return self.method == "density"

    def _name_parts(self) -> tuple[str, list[str]]:
        return "l2", [""]


_NODES = "n + nodes functions (1 to 3 dimensions), n nodes beyond"
_REST = ("yes", "changes that keep volumes", "unit cube", "Oliva et al. 2014")
register(
    Method("l2", L2Embedding, {}, "squared L2 distance of densities", _NODES, *_REST),
    Method("l2-points", L2Embedding, {"method": "points"}, "squared L2 distance of densities", "n functions", *_REST),
)
