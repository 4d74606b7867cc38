r"""Embeddings that project functions of a density estimate: what they share, whichever functions they project.

    points -> density p̂ on the nodes -> some functions of p̂, node by node -> projection coefficients

:class:`DensityEmbedding` resolves bandwidth, nodes, basis and categorical columns in ``fit``, runs the stages in
threads, and reports what basis and nodes capture of the training bags; a subclass chooses the functions. Nothing is
made that grows with the number of bags, except the result. The stages offer three things more.

*As many basis functions as it takes*, ``n_basis="auto"``. The share of squared distances between bags that a basis
captures is known from the training bags (``energy_``), and so is that part of the rest that is not the noise of their
points (``lost_signal_``, see :mod:`distembed.embeddings.energy`). Functions are added, from 10 along each dimension on
and by half as many again each time, until the lost signal is 0.05, or a bag would have more than 10,000 features. The
energy itself would not do: noise is spread over all frequencies, and a basis that captures it makes distances worse.
Learners don't use it: held-out bags prefer fewer functions than distances do (``experiments/basis_size.py``).

*Less bias by Richardson's extrapolation.* A kernel density estimate of bandwidth h shrinks squared distances by about
c h², so 2 d²(h) - d²(√2 h) is d² without that, to this order. It has more noise than d²(h), and so needs a wider
bandwidth, 1.4 to 2 times that of the rule.

*Statistics that add up* over pieces of a bag, see :mod:`distembed.embeddings.sketches`. A kernel density estimate of
one bandwidth on a grid smooths binned masses, which are the statistics. Other densities that are means over points have
their values on the nodes, and where there is no density, there are the coefficients. With categorical columns a bag has
all of that for each cell, times the share of the cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from .. import basis as bases
from .. import density as densities
from ..bags import Bags
from ..bags.estimators import MAX_FEATURES, OutsideCube, Writer, check_bags, check_in_cube, cube_error, in_cube
from ..basis import Basis, Projection, TooManyFunctions
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.checks import Argument, InputError, Message, check_choice, check_number, check_per_dimension
from ..compute.parallel import bag_chunks, one_blas_thread, run_chunks
from ..compute.registry import described
from ..density import KDE, Density, Histogram, choose_nodes
from ..density import bandwidth as bandwidths
from ..density import nodes as node_kinds
from ..density.nodes import FEW_NODES, FEW_SEEING, GridNodes, NodeSpec, warn_if_few_see, warn_if_mass_is_off
from . import symmetric
from .category_cells import Cells, CellWriter, NoDimensions, OneNode
from .energy import look_at
from .sketches import Additive
from .stages import MAX_BASIS, DensityStages, Functions, NumPyEngine, PointMeans

FIRST_N_BASIS = 10  # functions along each dimension that n_basis="auto" begins with, and never goes below
GROWTH = 1.5
LITTLE_LOST = 0.05  # share of squared distances, noise apart, that n_basis="auto" may miss
MOST_FEATURES = 10_000  # that n_basis="auto" takes
MOST_LOST = 0.1  # fit warns above either
MOST_ENERGY = 1.25
STRANGERS = 0.01  # share of bags that nodes miss from which on transform warns
# that densities may have in float32 and in float64
SINGLE_DIGITS = 35
DOUBLE_DIGITS = 300
_LINEAR = (KDE, Histogram, NoDimensions)  # a density of a bag is the mean of those of its pieces


# --------------------------------------------------------------------------------------------------------------
# As many basis functions as it takes
# --------------------------------------------------------------------------------------------------------------


def enough_functions(embedding: Any, bags: Bags) -> int:
    """The least number of functions along each dimension that captures enough, within the budget of features.

    Parameters
    ----------
    embedding : HDDEmbedding or L2Embedding
        With ``n_basis="auto"``.
    bags : Bags
        Training bags in the unit cube.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> narrow = de.as_bags(rng.normal(rng.uniform(0.4, 0.6, size=(9, 1, 1)), 0.01, size=(9, 200, 1)))
    >>> enough_functions(de.HDDEmbedding("hellinger", n_basis="auto"), narrow)
    50
    """
    n = FIRST_N_BASIS
    resolved = dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last fit warns of what is left
        while True:
            tried = clone(embedding).set_params(n_basis=n, **resolved).fit(bags)
            more = round(GROWTH * n)
            if tried.lost_signal_ is None or tried.lost_signal_ <= LITTLE_LOST:
                return n
            stages = tried.stages_
            per_function = stages.n_features / len(stages.indices)
            if len(stages.indices) * (more / n) ** bags.n_dims * per_function > MOST_FEATURES:
                return n
            if tried.bandwidth_ is not None and stages.bag_rule is None:  # the same for every n_basis
                resolved = {"bandwidth": tuple(tried.bandwidth_.tolist()), "bandwidth_scale": 1.0}
            n = more


# --------------------------------------------------------------------------------------------------------------
# Statistics that add up
# --------------------------------------------------------------------------------------------------------------


def why_no_sketches(stages: DensityStages) -> str:
    """Why the density of a bag is not the mean of those of its pieces; empty where it is.

    Examples
    --------
    >>> import distembed as de
    >>> bags = np.random.default_rng(0).uniform(size=(10, 30, 1))
    >>> why_no_sketches(de.HDDEmbedding(n_basis=3).fit(bags).stages_)
    ''
    """
    if stages.point_means is not None:
        return ""
    if stages.bag_rule is not None:
        return "each bag has a bandwidth of its own; use one for all, as density='kde' does"
    if type(stages.density) not in _LINEAR:
        return f"the density {type(stages.density).__name__} of a bag needs all of its points; use density='kde'"
    return ""


class DensityStatistics:
    """Statistics of bags, and features from means of them.

    Parameters
    ----------
    stages : DensityStages
        Of a fitted embedding.

    Examples
    --------
    >>> import distembed as de
    >>> bags = np.random.default_rng(0).uniform(size=(10, 30, 1))
    >>> embedding = de.HDDEmbedding(n_basis=3).fit(bags)
    >>> made = DensityStatistics(embedding.stages_)
    >>> masses = made.of(de.as_bags(bags))
    >>> bool(np.allclose(masses.sum(axis=1), 1)), bool(np.allclose(made.features(masses), embedding.transform(bags)))
    (True, True)
    """

    def __init__(self, stages: DensityStages) -> None:
        self._stages = stages
        double = np.dtype(np.float64)
        self._n_cells = 1 if stages.cells is None else stages.cells.n_cells
        if stages.point_means is not None:
            self._shape: tuple[int, ...] = (len(stages.indices),)
            return
        self._estimate = stages.density.prepare(stages.nodes, stages.bandwidth, double)
        if stages.smooths_bins:
            self._shape = self._estimate.n_bins
        else:
            self._shape = stages.nodes.shape if isinstance(stages.nodes, GridNodes) else (stages.nodes.n_nodes,)

    @property
    def n_statistics(self) -> int:
        """How many a bag has."""
        return self._n_cells * prod(self._shape)

    def of(self, bags: Bags) -> Array:
        """Means over the points of float64 bags, ndarray of shape (n_bags, n_statistics)."""
        cells = self._stages.cells
        if cells is None:
            return self._each(bags)
        out = np.zeros((bags.n_bags, self._n_cells, prod(self._shape)))
        if cells.hold(bags).any():
            split = cells.split(bags)
            out[split.owner, split.cell] = split.share[:, None] * self._each(split.parts)
        return out.reshape(bags.n_bags, -1)

    def _each(self, bags: Bags) -> Array:
        """Means over continuous points."""
        stages = self._stages
        if stages.point_means is not None:
            return stages.point_means(bags, None, Scratch())
        if not in_cube(bags):
            raise OutsideCube
        if stages.smooths_bins:
            found = bags_first(self._estimate.masses(bags))
        else:
            found = np.asarray(self._estimate(bags, None, Scratch()))
            found = bags_first(found) if isinstance(stages.nodes, GridNodes) else found
        return found.reshape(bags.n_bags, -1)

    def features(self, means: Array) -> Array:
        """Features of means, ndarray of shape (n_bags, n_features)."""
        stages = self._stages
        if stages.point_means is not None:
            return means
        each = means.reshape(-1, *self._shape)
        stored = np.ascontiguousarray(np.moveaxis(each, 0, -2))  # as engines have it
        engine = NumPyEngine(stages, np.dtype(np.float64))
        scratch = Scratch()
        if stages.smooths_bins:
            rows = engine.from_masses(stored, self._estimate.matrices, None, scratch)
        else:
            rows = engine.from_densities(stored, None, scratch)
        return np.asarray(rows).reshape(len(means), -1)


# --------------------------------------------------------------------------------------------------------------
# The estimators
# --------------------------------------------------------------------------------------------------------------


def _digits(bandwidth: Array | None) -> float:
    """Of the largest value, to base ten, that a density may have: the product of kernels, each below 1/h.

    Examples
    --------
    >>> _digits(np.array([0.1, 0.01, 4.0])), _digits(None)
    (3.0, 0.0)
    """
    return 0.0 if bandwidth is None else float(np.sum(np.log10(np.maximum(1 / np.asarray(bandwidth), 1.0))))


def _misses(masses: Array, seeing: Array) -> Array:
    """Which bags the nodes all but miss, by the mass that they find, or by how few of them find it."""
    return np.asarray((np.abs(masses - 1) > 0.5) | (seeing < FEW_SEEING / 4))


@described(stages_="DensityStages", indices_="int(k, l)", n_basis_functions_="k", bandwidth_="finite(_) | None")
class DensityEmbedding(Additive):
    """Base of embeddings that project functions of a density estimate onto an orthonormal basis.

    A subclass has the parameters below. It says which functions of a density it projects by :meth:`_choose_functions`,
    and may choose another engine, or none of the density, by the other hooks.

    Attributes
    ----------
    stages_ : DensityStages
        All that ``fit`` resolved, stage by stage.
    bandwidth_, nodes_, indices_, n_basis_functions_
        The most interesting parts of it.
    energy_, lost_signal_, node_mass_ : float or None
        What basis and nodes see of the training bags.
    """

    units = "unit cube"

    takes_categories = True
    _projected: ClassVar[str]  # what messages call the functions
    _to_lower: ClassVar[str]  # the parameters that make fewer features

    n_basis: int | tuple[int, ...] | str
    bandwidth: float | Sequence[float] | str
    bandwidth_scale: float
    density: str | Density | Any
    basis: str | Basis
    nodes: str | NodeSpec
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    symmetries: Any

    stages_: DensityStages
    nodes_: Any  # GridNodes or PointNodes; None, like the numbers below, where a subclass needs no density
    energy_: float | None
    lost_signal_: float | None
    node_mass_: float | None
    _usual: float = 0.0  # share of bags like the training bags that the nodes all but miss, at most

    def __distembed_fits__(self) -> bool:
        stages = self.stages_
        n_dims = self.n_features_in_
        if stages.cells is not None:
            if stages.cells.n_columns != n_dims:
                return False
            n_dims = max(len(stages.cells.continuous), 1)  # without any, one node of one dimension
        return bool(stages.n_features == self._n_features_out and stages.indices.shape[1] == n_dims)

    # What a subclass says

    def _choose_functions(self, rng: np.random.RandomState) -> Functions:
        """Check and resolve the subclass's own parameters; returns the functions that are projected."""
        raise NotImplementedError

    def _has_density(self) -> bool:
        """Whether coefficients are those of a density; else they are means over points."""
        return True

    def _engine(self, stages: DensityStages, n_bags: int, dtype: np.dtype[Any]) -> Any:
        """The stages, ready for n bags of this dtype."""
        return NumPyEngine(stages, dtype)

    def _check_engine(self, stages: DensityStages) -> None:
        """Refuse, in ``fit``, an engine that does not serve these stages."""

    def _name_parts(self) -> tuple[str, list[str]]:
        """How names of features begin, and what tells the functions apart."""
        raise NotImplementedError

    # Fit

    def _fit(self, bags: Bags, y: Any) -> None:
        """Resolve bandwidth, nodes, functions and basis."""
        self.n_basis_: Any = self.n_basis
        if isinstance(self.n_basis, str) and self.n_basis == "auto":
            self.n_basis_ = enough_functions(self, bags)
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            stages, parts = self._resolve_basis(bags, rng)
            if self._has_density():
                stages = self._resolve_density(stages, bags, parts, rng)
            else:
                self.energy_ = None
                self.lost_signal_ = None
                self.node_mass_ = None
                stages = replace(stages, point_means=PointMeans(bases.get(self.basis), stages.indices))
        self.stages_ = stages
        self._n_features_out = stages.n_features
        self.bandwidth_ = stages.bandwidth
        self.nodes_ = stages.nodes
        self.indices_ = stages.indices
        self.n_basis_functions_ = len(stages.indices)
        self.group_ = None
        if self.symmetries is not None:
            self.group_ = symmetric.group_of(self, stages)

    def _resolve_basis(self, bags: Bags, rng: np.random.RandomState) -> tuple[DensityStages, Bags]:
        """Cells, functions and basis, and the bags that a density is fitted to: parts of bags if there are cells."""
        cells = None if bags.categories is None else Cells.of(bags)
        check_in_cube(type(self).__name__, bags if cells is None else cells.numbers(bags))
        functions = self._choose_functions(rng)
        if cells is None:
            sizes = self._basis_sizes(bags.n_dims)
        else:
            sizes = self._basis_sizes(len(cells.continuous)) if cells.continuous else (1,)
        stages = DensityStages(cells, sizes, self._indices(sizes, functions.n_functions), functions)
        if cells is None:
            return stages, bags
        if stages.n_features > MAX_FEATURES:
            each = stages.n_features // cells.n_cells
            names = getattr(self, "feature_names_in_", None)
            raise ValueError(
                f"{type(self).__name__}: the categorical columns make {cells.describe(names)} of {each:,} features "
                f"each, {stages.n_features:,} a bag, more than {MAX_FEATURES:,}; merge rare categories, take fewer "
                f"categorical columns, lower {self._to_lower}, or wrap the embedding in Marginals"
            )
        return stages, cells.typical(bandwidths.spaced(bags), bandwidths.MAX_BAGS)

    def _density_and_rule(self, bags: Bags) -> tuple[Density, Any]:
        """The density, and the bandwidth or its rule: the one by which ``"auto"`` compares, where it does."""
        if not (isinstance(self.density, str) and self.density == "auto"):
            return densities.get(self.density), self.bandwidth
        compared = bags.n_dims > densities.LOW_DIMS and isinstance(self.bandwidth, str) and self.bandwidth == "distance"
        return densities.most_likely(bags), "likelihood" if compared else self.bandwidth

    def _resolve_density(
        self, stages: DensityStages, bags: Bags, parts: Bags, rng: np.random.RandomState
    ) -> DensityStages:
        """Density, bandwidth, nodes and projection; looks at what basis and nodes make of the bags."""
        discrete = stages.cells is not None and not stages.cells.continuous
        n_dims = len(stages.n_basis)
        density, rule = (NoDimensions(), self.bandwidth) if discrete else self._density_and_rule(parts)
        scale = self.bandwidth_scale
        bandwidth = bandwidths.for_density(density, rule, parts, scale=scale, owner=self)
        maps = None
        if self.symmetries is not None:
            maps = symmetric.check_symmetries(self, n_dims, stages.cells is not None)
            bandwidth = symmetric.shared_bandwidth(maps, bandwidth)
        if _digits(bandwidth) > DOUBLE_DIGITS:
            said = f"{type(self).__name__}: a density in {n_dims} dimensions with so narrow kernels may reach "
            beyond = f"1e{_digits(bandwidth):.0f}, beyond all numbers; look at few dimensions at a time with "
            wider = Argument("bandwidth_scale")
            raise ValueError(Message(said, beyond, Argument("Marginals"), ", or raise ", wider))
        own = (self.bandwidth, scale) if density.per_bag and isinstance(self.bandwidth, str) else None
        stages = replace(stages, density=density, bandwidth=bandwidth, bag_rule=own)
        few = bandwidths.spaced(parts)
        narrowest = bandwidths.narrowest(bandwidth, stages.bandwidths_of(few))
        kind, pooled = (OneNode(), None) if discrete else choose_nodes(self.nodes, density, few, bandwidth)
        chosen = isinstance(kind, node_kinds.Grid) and kind.size is None  # an automatic grid
        nodes = density.resolve_nodes(
            kind,
            n_dims,
            bandwidth=narrowest,
            n_basis=bases.get(self.basis).turns(stages.n_basis) if chosen else stages.n_basis,
            fineness=stages.functions.fineness,
            random_state=rng,
            pooled=pooled,
        )
        nodes = nodes if maps is None else symmetric.symmetric_nodes(maps, kind, nodes)
        density.warn_if_unresolved(nodes, narrowest, stacklevel=4)
        plain = isinstance(kind, node_kinds.MonteCarlo)  # the paper's sum as it is
        if not plain and len(stages.indices) > nodes.n_nodes:
            raise ValueError(
                f"{type(self).__name__}(n_basis=...): makes {len(stages.indices):,} basis functions, more than "
                f"nodes ({nodes.n_nodes:,}); use more nodes, lower n_basis, or a smaller index set such as "
                "basis=Cosine('hyperbolic_cross')"
            )
        evenly, factors = bases.evenly(nodes)
        onto = Projection(
            bases.get(self.basis), stages.n_basis, evenly, orthonormalise=not plain, indices=stages.indices
        )
        reference = None if factors is None else stages.functions.relative(factors)
        stages = replace(stages, node_kind=kind, nodes=nodes, projection=onto, reference=reference)
        self._check_engine(stages)
        # Nodes that were drawn from some bags see these better than others.
        self._look_at(stages, bandwidths.spaced(bags, bandwidths.MAX_BAGS - (pooled is not None)))
        return stages

    def _look_at(self, stages: DensityStages, bags: Bags) -> None:
        """Set ``energy_``, ``lost_signal_`` and ``node_mass_``, and warn where basis or nodes miss much of the bags."""
        name = type(self).__name__
        nodes = stages.nodes
        found = look_at(stages, bags.astype(np.float64), halve=not why_no_sketches(stages))
        self.energy_ = found.energy
        self.lost_signal_ = found.lost_signal
        self.node_mass_ = float(found.masses.mean())
        missed = float(_misses(found.masses, found.seeing).mean())
        self._usual = missed + 2 * float(np.sqrt(missed / bags.n_bags)) + 3 / bags.n_bags  # an upper bound
        drawn = stages.node_kind.needs_pooled
        blind = False
        if not stages.density.integrates_to_one:  # values were divided by their mass on the nodes
            blind = warn_if_few_see(name, found.seeing, nodes, stacklevel=5)
        elif "none" not in stages.density.boundaries(len(stages.n_basis)):  # open boundaries lose mass anyhow
            blind = warn_if_mass_is_off(name, found.masses, nodes, drawn, stacklevel=5)
        if blind:  # then the energy is no more than a consequence
            return
        if found.lost_signal > max(MOST_LOST, found.chance):
            wider = () if stages.density.smooths == "nothing" else (" or ", Argument("bandwidth_scale"))
            several = len(stages.n_basis) > 1
            fewer = (", or look at fewer dimensions at a time with ", Argument("Marginals")) if several else ()
            message = Message(
                f"{name}: the basis functions capture less than {1 - MOST_LOST:.0%} of the squared distances between "
                f"the training bags' {self._projected} (energy_), and what they miss is more than noise "
                "(lost_signal_), so distances come out too small; raise ", Argument("n_basis"), *wider, *fewer,
            )  # fmt: skip
            warnings.warn(bases.LowEnergyWarning(message, found.energy, len(stages.indices)), stacklevel=5)
        elif found.energy > MOST_ENERGY and nodes.n_nodes >= FEW_NODES:
            warnings.warn(
                f"{name}: the basis functions on so few random nodes find more than there is of the squared distances "
                f"between the training bags' {self._projected} (energy_), so distances come out too large; use more "
                "nodes, Sobol(...) in place of MonteCarlo(...), or lower n_basis",
                UserWarning,
                stacklevel=5,
            )

    def _basis_sizes(self, n_dims: int) -> tuple[int, ...]:
        sizes = check_per_dimension(self, "n_basis", self.n_basis_, n_dims)
        return tuple(check_number(self, "n_basis", n, low=1, high=MAX_BASIS, integer=True) for n in sizes)

    def _indices(self, sizes: tuple[int, ...], n_functions: int) -> Array:
        """The index set, refused with a remedy where it makes too many features."""
        try:
            basis = bases.get(self.basis)
            index_set = bases.index_sets.get(basis.index_set)
            degrees = [basis.degrees(n) for n in sizes]
            needed = index_set.needs(degrees) if isinstance(index_set, bases.SobolevEllipsoid) else None
            if needed is not None:
                warnings.warn(
                    f"{type(self).__name__}(n_basis=...): {sizes} functions cut the ellipsoid of {index_set}; use "
                    f"n_basis={needed} for all of it, or a smaller t", UserWarning, stacklevel=6,
                )  # fmt: skip
            return basis.indices(sizes, MAX_FEATURES // n_functions)
        except TooManyFunctions as error:
            many = "more" if error.n_functions is None else f"{n_functions * error.n_functions:,}"
            functions = f" and {n_functions} {self._projected}" if n_functions > 1 else ""
            raise ValueError(
                f"{type(self).__name__}(n_basis=...): {sizes} basis functions in {len(sizes)} "
                f"dimensions{functions} make {many} features per bag, more than {MAX_FEATURES:,}; lower "
                f"{self._to_lower}, choose a smaller index_set such as basis=Cosine('hyperbolic_cross'), or wrap the "
                "embedding in Marginals"
            ) from None

    # Transform

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        stages = self.stages_
        cells = self.stages_.cells
        engine = stages.point_means
        bytes_per_bag = stages.bytes_per_bag(bags.dtype)
        if engine is None:
            dtype = bags.dtype if _digits(stages.bandwidth) < SINGLE_DIGITS else np.dtype(np.float64)
            engine = self._engine(stages, bags.n_bags, dtype)
        if cells is None:
            return engine, bag_chunks(bags.n_bags, bytes_per_bag, engine.bags_at_a_time, engine.most_bags)
        # The parts of a bag are as many as its cells, or as its points.
        n_parts = int(min(cells.n_cells, np.ceil(bags.n_points / bags.n_bags)))
        chunks = bag_chunks(bags.n_bags, n_parts * bytes_per_bag, engine.bags_at_a_time, engine.most_bags)
        return CellWriter(cells, engine, bytes_per_bag), chunks

    def _refusal(self, bags: Bags) -> InputError:
        cells = self.stages_.cells
        return cube_error(type(self).__name__, bags if cells is None else cells.numbers(bags))

    def transform_wider(self, X: Any, factors: Sequence[float]) -> Iterator[Array]:
        """Features of bags with the bandwidth of ``fit`` times each factor, from one binning of the points.

        Nodes and basis are those of ``fit``, which resolve the narrowest bandwidth and so the wider ones too. Where
        points are not binned (other densities, scattered nodes, cells), a copy is fitted for each factor.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of points in the unit cube, of the same width as in ``fit``.
        factors : sequence of float
            At least one each.

        Yields
        ------
        ndarray of shape (n_bags, n_features)
        """
        bags = check_bags(self, X, reset=False)
        stages = self.stages_
        if not stages.smooths_bins or stages.cells is not None:
            for factor in factors:
                scale = {"bandwidth_scale": self.bandwidth_scale * factor}
                yield clone(self).set_params(**scale).fit(bags).transform(bags)
            return
        bags = bags.drop_weightless()
        dtype = bags.points.dtype
        finest = stages.density.prepare(stages.nodes, stages.bandwidth, dtype)
        chunks = bag_chunks(bags.n_bags, stages.bytes_per_bag(dtype))
        kept: list[Array] = [finest.masses(bags[rows]).copy() for rows in chunks]
        for factor in factors:
            engine = NumPyEngine(stages, dtype)
            out = np.empty((bags.n_bags, stages.n_features), dtype)
            matrices = finest.matrices_for(stages.bandwidth * factor)

            def embed(at: int, scratch: Scratch, engine: Any = engine, out: Array = out, by: Any = matrices) -> None:
                engine.from_masses(kept[at], by, out[chunks[at]], scratch)

            run_chunks(embed, range(len(chunks)), self.n_jobs)
            yield out

    def squared_distances(self, X: Any, Y: Any = None, *, bias: str | None = None) -> Array:
        """Squared distances between bags, those of their features, or extrapolated ones.

        Parameters
        ----------
        X, Y : Bags or anything that :func:`distembed.as_bags` reads
            Bags as in ``transform``; ``Y`` is ``X`` if not given.
        bias : {None, "richardson"}, default=None
            ``"richardson"``: 2 d²(h) - d²(√2 h) in place of d²(h), for kernels that use values of distances, and not
            only their order. Take a wider bandwidth with it: ``bandwidth_scale=1.4`` to 2.

        Returns
        -------
        ndarray of shape (n_bags, n_bags_of_Y)

        Notes
        -----
        The kernel exp(-d²/(2σ²)) of the median sigma, against ``bandwidth_scale=1`` without it: in the Gram experiment
        (50 mixtures of 2,500 points, two seeds) the coefficient of determination rises from .990 and .992 to .995 and
        .993 with ``bandwidth_scale=1.4``. For betas and mixtures of two of them it does little on the line; in the
        plane errors fell by a quarter to two fifths at 300 points with ``bandwidth_scale=2``, and rose by up to a tenth
        at 3,000. Where densities have a slope or a jump at a face, smoothing takes off more than c h², and little is
        gained. The matrix need not be one of squared Euclidean distances: repair kernels by
        :func:`distembed.kernels.psd`. Cost: two embeddings, from one binning of the points.

        Examples
        --------
        >>> import distembed as de
        >>> bags = np.random.default_rng(0).normal([[[0.45]], [[0.55]]], 0.1, size=(2, 20_000, 1)).clip(0, 1)
        >>> embedding = de.HDDEmbedding("hellinger", bandwidth=0.03).fit(bags)  # the true value is 0.1175
        >>> [float(embedding.squared_distances(bags, bias=bias)[0, 1].round(2)) for bias in (None, "richardson")]
        [0.11, 0.12]
        """
        if bias is None:
            rows = self.transform(X)
            return np.asarray(euclidean_distances(rows, None if Y is None else self.transform(Y), squared=True))
        check_choice(self, "bias", bias, ("richardson",))
        factors = (1.0, float(np.sqrt(2)))  # of the bandwidth: its square is doubled
        others = [None, None] if Y is None else self.transform_wider(Y, factors)
        wider = zip(self.transform_wider(X, factors), others, strict=True)
        near, far = (euclidean_distances(rows, other, squared=True) for rows, other in wider)
        return np.asarray(np.maximum(2 * near - far, 0))

    # Sketches

    def why_no_sketches(self) -> str:
        """Why the density of a bag is not the mean of those of its pieces, for errors; empty where it is."""
        return why_no_sketches(self.stages_) if hasattr(self, "stages_") else ""

    def n_statistics(self) -> int:
        """How many masses, densities or coefficients a bag has."""
        return DensityStatistics(self.stages_).n_statistics

    def _statistics(self, bags: Bags) -> Array:
        return DensityStatistics(self.stages_).of(bags)

    def _from_statistics(self, means: Array) -> Array:
        return DensityStatistics(self.stages_).features(means)

    def _look_back(self, write: Any) -> None:
        """Warn of bags unlike the training bags: nodes, which were drawn from these, miss more of them."""
        engine = write.engine if isinstance(write, CellWriter) else write
        if not (isinstance(engine, NumPyEngine) and engine.seen):
            return
        masses, seeing = map(np.concatenate, zip(*engine.seen, strict=True))
        missed = float(_misses(masses, seeing).mean())
        if self.nodes_.n_nodes >= FEW_NODES and missed > max(STRANGERS, self._usual):
            warnings.warn(
                f"{type(self).__name__}: some bags lie where few nodes are, unlike the training bags, so their "
                "features mean little; fit on bags like them too",
                UserWarning,
                stacklevel=6,  # transform is wrapped twice, for set_output
            )

    def _feature_names(self) -> list[str]:
        """Such as ``l2_3_1`` for α = (3, 1), or ``js_re0_3_1`` for the real part of the first lambda.

        With categorical columns the cell comes second: ``js_sex=f_re0_3_1``.
        """
        prefix, parts = self._name_parts()
        cells = self.stages_.cells
        alphas = ["_".join(map(str, alpha)) for alpha in self.indices_.tolist()]
        prefixes = [prefix]
        if cells is not None:
            prefixes = [f"{prefix}_{cell}" for cell in cells.names(getattr(self, "feature_names_in_", None))]
        return [f"{prefix}_{part}{alpha}" for prefix in prefixes for part in parts for alpha in alphas]
