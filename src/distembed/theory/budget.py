r"""What each stage contributes to the error of a kernel between bags, estimated from the bags themselves.

The kernel that a linear model sees and the one that is meant are the ends of a chain

    z·z -> A features -> without the noise of points -> all of ψ -> κ itself -> finer nodes -> no smoothing

of which every link is one stage. Each is replaced by its (near-)exact twin, one after the other, and the change of
K = exp(-d²/(2σ²)) over pairs of bags is that stage's error. Only two links have no twin, since the truth is not known:
the noise of points is extrapolated from halves of bags, the smoothing from wider bandwidths. The table comes with
advice: the largest stage and the parameters that reduce it.

Cost: κ over all pairs of bags and all nodes, about ten times, which is why few bags are taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.utils import check_random_state

from .. import basis as bases
from .. import distances
from ..bags import Bags, as_bags
from ..bags.estimators import check_bags, check_in_cube
from ..basis import Projection
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.checks import check_choice, check_number
from ..compute.parallel import one_blas_thread
from ..density import bandwidth as bandwidths
from ..density import nodes as node_kinds
from ..density import pool
from ..embeddings import HDDEmbedding, L2Embedding
from ..embeddings.stages import DensityStages, NumPyEngine
from ..features import RandomFourierFeatures
from ..sizes import split_halves
from .terms import DISTANCES

Kappa = Callable[[Array, Array], Array]
Seed = int | np.random.RandomState | None

# The noise floor of a squared distance falls as n^-1 where kernels overlap much and as n^-1/2 or slower where they
# hardly do; one bag has both. Calibrated in between, for js, tv and hellinger and bags of 100 to 2,500 points.
# For L2, which is quadratic in the density, n^-1 is exact.
FALL = 0.75
FALL_L2 = 1.0
N_SPLITS = 2
WIDER = np.sqrt(2.0)  # smoothing shrinks squared distances by about c h²: twice as much at √2 h
MOST_PAIRS = 2e8  # (pair of bags, node) evaluations of κ at a time: more, and fewer bags are taken
LEAST_BAGS = 6
_BLOCK_VALUES = 2**21  # of κ, or of ψ, at a time

SMALL = 0.01  # an error of the kernel that nothing needs to be done about
HALF = 0.5  # of the error of points, that another stage must have to be named first
MOST_NODES = 2**18  # that are advised


@dataclass(frozen=True)
class Stage:
    """The error of the kernel that one stage makes, over pairs of distinct bags.

    Parameters
    ----------
    rms : float
        Root mean square.
    bias : float
        Mean; positive where the stage makes bags look too near.
    largest : float
        Of the pair with the largest.

    Examples
    --------
    >>> Stage(rms=0.02, bias=-0.01, largest=0.05).largest
    0.05
    """

    rms: float
    bias: float
    largest: float


@dataclass(frozen=True)
class ErrorBudget:
    """Errors of the kernel between bags, stage by stage; see :func:`error_budget`. ``print`` shows a table.

    Parameters
    ----------
    stages : mapping of str to Stage
        Largest root mean square first: ``"points"``, ``"bandwidth"``, ``"lambdas"``, ``"basis"``, ``"nodes"``,
        ``"random features"``; without those that the embedding does not have.
    total : float
        Root mean square of the sum of all errors. Biases of opposite sign cancel in it (points make bags look far
        apart, smoothing makes them look near), so it may be less than a stage.
    density : float
        The same of points and bandwidth alone.
    sigma : float
        Scale of the kernel.
    n_bags : int
        Bags that were looked at.
    advice : str
        The largest stage, and what to do about it.
    remedy : mapping of str to object
        The same as parameters, such as ``{"n_basis": 20}``: of the embedding, or of its random features. Empty where it
        takes larger bags, or nothing.

    Examples
    --------
    >>> stages = {"points": Stage(0.02, -0.01, 0.05)}
    >>> print(ErrorBudget(stages, 0.02, 0.02, 0.5, 30, "use larger bags"))
    Error of exp(-d²/(2σ²)), σ = 0.5, 435 pairs of 30 bags
    stage                 rms      bias   largest
    points             0.0200   -0.0100    0.0500
    total              0.0200
    use larger bags
    """

    stages: Mapping[str, Stage]
    total: float
    density: float
    sigma: float
    n_bags: int
    advice: str
    remedy: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        pairs = self.n_bags * (self.n_bags - 1) // 2
        lines = [
            f"Error of exp(-d²/(2σ²)), σ = {self.sigma:.3g}, {pairs:,} pairs of {self.n_bags} bags",
            f"{'stage':<16}{'rms':>9}{'bias':>10}{'largest':>10}",
        ]
        lines += [f"{name:<16}{s.rms:>9.4f}{s.bias:>+10.4f}{s.largest:>10.4f}" for name, s in self.stages.items()]
        return "\n".join([*lines, f"{'total':<16}{self.total:>9.4f}", self.advice])

    def _repr_html_(self) -> str:
        from ..compute.svg import Safe, html_table

        most = max(self.total, *(stage.rms for stage in self.stages.values()))
        rows = [
            [
                name,
                f"{s.rms:.4f}",
                Safe(f'<meter value="{s.rms / most:.3f}"></meter>'),
                f"{s.bias:+.4f}",
                f"{s.largest:.4f}",
            ]
            for name, s in self.stages.items()
        ]
        total = ["total", f"{self.total:.4f}", Safe(f'<meter value="{self.total / most:.3f}"></meter>'), "", ""]
        title = str(self).partition("\n")[0]
        return html_table(["stage", "rms", "", "bias", "largest"], [*rows, total], title, self.advice)


def error_budget(
    bags: Any,
    embedding: Any = "js",
    *,
    n_components: int = 5000,
    sigma: float | str = "median",
    max_bags: int = 50,
    frequencies: str = "orthogonal",
    random_state: Seed = None,
) -> ErrorBudget:
    r"""Estimate from the bags what each stage contributes to the error of the kernel exp(-d²/(2σ²)) between them.

    The bound of :func:`distembed.theory.error_bound` is far too loose to choose anything by. This looks at the bags.

    Parameters
    ----------
    bags : Bags or anything that :func:`distembed.as_bags` reads
        At least two bags of two or more points in the unit cube, without categorical columns.
    embedding : HDDEmbedding, L2Embedding or str, default="js"
        Fitted or not; an unfitted one is cloned and fitted to the bags. A name: ``HDDEmbedding`` of that distance, or
        ``"l2"``. ``L2Embedding`` must have ``method="density"``.
    n_components, frequencies
        Of :class:`~distembed.RandomFourierFeatures` behind it.
    sigma : float or "median", default="median"
        Scale of the kernel, as there.
    max_bags : int, default=50
        Of more bags, that many are drawn at random.
    random_state : int, RandomState or None, default=None
        Of the choice of bags, of halves and of frequencies.

    Returns
    -------
    ErrorBudget

    Notes
    -----
    *Stages*, each the difference of two kernels:

    ===================  ===============================================================================================
    ``random features``  z·z against exp(-\|\|A - A'\|\|²/(2σ²)) of the same A features
    ``points``           noise of finite bags in A: its part that shifts distances, extrapolated from halves of bags
                         as n^(-3/4) (1/n for L2), and its fluctuation, from how much the two halves of a bag differ
    ``basis``            \|\|A - A'\|\|² against Σ_i v_i \|ψ - ψ'\|²(u_i), both without the shift by noise: a basis
                         that cuts off noise loses nothing by it. On grids the latter is never less
    ``lambdas``          the M lambdas against κ itself, on the same nodes and densities
    ``nodes``            κ on these nodes against twice as many (a dimension, for grids)
    ``bandwidth``        smoothing by h, which shrinks distances by about c h²: their change from h to √2 h, where h is
                         larger than the rule ``"distance"`` would have it also that from the latter to h
    ===================  ===============================================================================================

    *How good it is.* Against known densities in one and two dimensions (mixtures of truncated Gaussians, products
    of betas, flat ones, ones unbounded at a face, narrow peaks, boxes; 50 to 2,500 points, equal or not; mostly js):

    - ``points`` was within a factor of two everywhere (0.7 to 1.8 of the truth).
    - ``bandwidth`` was so for mixtures, peaks, and js, hellinger and l2 of betas. It takes smoothing to be of order h²,
      which is too little where densities jump or are not level at a face (0.2 to 0.7 of the truth), and it may be two
      to four times too much where it is small (betas: tv 0.006 for 0.002, unequal sizes 0.004 for 0.002; unbounded
      densities 0.03 for 0.01).
    - ``density``, both together, was 0.7 to 2.3 of the truth, since points dominate.
    - ``basis`` was within a third where it is large (peaks, tv); for boxes and unbounded densities it was 0.2 to
      0.8 of the truth, and what is below 0.01 is mostly noise.

    The power 3/4 was chosen on mixtures of Gaussians. Extrapolations fail for bags that show nothing of their
    densities, such as of two points. Points must be independent: of points that come twice, halves differ too little.
    What all bags have in common, a spike narrower than any bandwidth tried, stays unseen.

    With ``MonteCarlo`` nodes the basis is not orthonormal: squared distances come out too large by about
    \|V\| / n_nodes of themselves, and more functions make it worse. ``nodes`` is charged with that, as the difference
    to the same functions made orthonormal on the nodes; what these miss is ``basis``. Twice as many random nodes have
    errors of their own, so ``nodes`` is some fifth too large there.

    *Advice.* Of 23 known culprits (bandwidth, nodes, lambdas, basis, random features; grids, Sobol and Monte Carlo
    nodes; one to five dimensions) following it reduced the true error in more than nine of ten
    (``tests/theory/test_budget.py``). A knob with half the error of points comes before more data.

    *Cost.* κ over n_bags²/2 pairs and all nodes, about ten times; five embeddings of the bags at two or three
    bandwidths; n_components frequencies. Five seconds for 50 bags of 2,500 points in the plane. Where nodes are many
    (three dimensions), fewer bags are taken, but at least six. Memory: densities of all bags taken on the finer nodes.

    Examples
    --------
    Bags of 30 points: hardly anything but the number of points matters.

    >>> from distembed.datasets import make_gram_mixtures
    >>> from distembed.theory import error_budget
    >>> bags, _ = make_gram_mixtures(20, 30, random_state=0)
    >>> budget = error_budget(bags, "js", random_state=0)
    >>> next(iter(budget.stages))
    'points'
    >>> budget.advice.split(":")[0]
    'most of the error comes from too few points per bag (30 in the median)'
    """
    max_bags = check_number("error_budget", "max_bags", max_bags, low=2, integer=True)
    rng = check_random_state(random_state)
    bags = as_bags(bags).astype(np.float64).drop_weightless()
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is in the table
        fitted = _fit_if_needed(embedding, bags)
        _check(bags, type(fitted).__name__)
        probe = StageProbe.of(fitted, bags, rng)
        n_bags = min(bags.n_bags, max_bags, max(LEAST_BAGS, int(np.sqrt(2 * MOST_PAIRS / probe.finer.n_nodes))))
        if n_bags < bags.n_bags:
            bags = bags[np.sort(rng.choice(bags.n_bags, n_bags, replace=False))]
        return _measure(probe, bags, n_components, sigma, frequencies, rng)


def _fit_if_needed(embedding: Any, bags: Bags) -> Any:
    """A fitted density embedding, the caller's own if it is fitted."""
    if isinstance(embedding, str):
        check_choice("error_budget", "embedding", embedding, (*DISTANCES, "l2"))
        embedding = L2Embedding() if embedding == "l2" else HDDEmbedding(embedding)
    if not isinstance(embedding, HDDEmbedding | L2Embedding):
        raise TypeError(
            "error_budget(embedding=...): must be an HDDEmbedding, an L2Embedding or the name of a distance, got "
            f"{embedding!r}; only embeddings that project a density have these stages"
        )
    if isinstance(embedding, L2Embedding) and embedding.method != "density":
        raise ValueError(
            f"error_budget(embedding=...): needs a density, got L2Embedding(method={embedding.method!r}); use "
            "method='density'"
        )
    return embedding if hasattr(embedding, "nodes_") else clone(embedding).fit(bags)


def _check(bags: Bags, owner: str) -> None:
    if bags.categories is not None:
        raise ValueError(
            "error_budget(bags=...): must have no categorical columns, got "
            f"{', '.join(map(repr, bags.category_labels))}; leave them out: Bags.from_frame(..., columns=[...])"
        )
    if bags.n_bags < 2:
        raise ValueError(f"error_budget(bags=...): must be at least 2 bags, got {bags.n_bags}; errors are of pairs")
    if bags.sizes.min() < 2:
        i = int(np.argmin(bags.sizes))
        raise ValueError(
            "error_budget(bags=...): every bag must have at least 2 points of positive weight, so it has halves, "
            f"got {bags.sizes[i]} in {bags.name_of(i)}; leave that bag out"
        )
    check_in_cube(owner, bags)


# --------------------------------------------------------------------------------------------------------------
# The stages of an embedding, one at a time
# --------------------------------------------------------------------------------------------------------------


def densities_on(
    nodes: Any, stages: DensityStages, bags: Bags, bandwidth: Array | None = None, factor: float = 1.0
) -> Array:
    """Densities of bags as the stages estimate them, on any nodes, with any bandwidth in place of theirs.

    Parameters
    ----------
    nodes : GridNodes or PointNodes
    stages : DensityStages
        Of a fitted embedding.
    bags : Bags
    bandwidth : ndarray of shape (n_dims,), optional
        In place of that of the stages; bags that have bandwidths of their own keep them.
    factor : float
        By which bandwidths are multiplied.

    Returns
    -------
    ndarray of shape (n_bags, n_nodes)
        Zero below the smallest normal float, where κ may overflow.
    """
    own = stages.bandwidths_of(bags)
    own = None if own is None else factor * own
    h = stages.bandwidth if bandwidth is None else bandwidth
    estimate = stages.density.prepare(nodes, None if h is None else factor * h, np.dtype(float))
    p: Array = np.array(bags_first(estimate(bags, own, Scratch())).reshape(bags.n_bags, -1))
    p[p < np.finfo(float).tiny] = 0.0
    return p


@dataclass(frozen=True)
class StageProbe:
    """Runs the stages of a fitted embedding one at a time, at any nodes and bandwidth.

    Attributes
    ----------
    embedding : HDDEmbedding or L2Embedding
        Fitted.
    stages : DensityStages
        Its stages.
    kappa : callable
        κ, whose integral is d².
    finer : GridNodes or PointNodes
        More nodes than the embedding has.
    narrow : ndarray of shape (n_dims,) or None
        The bandwidth of the rule ``"distance"``, where that of the embedding is wider.
    """

    embedding: Any
    stages: DensityStages
    kappa: Kappa
    finer: Any
    narrow: Array | None

    @classmethod
    def of(cls, embedding: Any, bags: Bags, rng: np.random.RandomState) -> StageProbe:
        """Of a fitted embedding; finer nodes are chosen for these bags."""
        check_bags(embedding, bags, reset=False)
        stages = embedding.stages_
        hdd = isinstance(embedding, HDDEmbedding)
        kappa = distances.get(embedding.distance).kappa if hdd else _squared_difference
        h = stages.bandwidth
        narrow = None
        margins = stages.density.smooths == "margins"
        if h is not None and stages.bag_rule is None:
            by_rule = bandwidths.resolve(
                "distance", bags, stages.density.boundaries(bags.n_dims), margins=margins, owner="error_budget"
            )
            narrow = np.minimum(h, by_rule) if np.any(by_rule < h) else None
        return cls(embedding, stages, kappa, _finer(stages, bags, narrow, rng), narrow)

    def densities(self, bags: Bags, nodes: Any, bandwidth: Array | None = None, factor: float = 1.0) -> Array:
        """p̂ on the nodes, see :func:`densities_on`."""
        return densities_on(nodes, self.stages, bags, bandwidth, factor)

    def exact(self, p: Array, nodes: Any) -> Array:
        """Σ_i v_i κ(p(u_i), q(u_i)) over pairs, ndarray of shape (n_pairs,)."""
        step = max(1, _BLOCK_VALUES // p.shape[1])
        volumes = nodes.weights
        blocks = ((p[i], p[j : min(j + step, len(p))]) for i in range(len(p)) for j in range(i + 1, len(p), step))
        return np.concatenate([self.kappa(one, others) @ volumes for one, others in blocks])

    def projected(self, p: Array) -> Array:
        """A features from densities on the embedding's nodes, ndarray of shape (n_bags, n_features)."""
        engine = NumPyEngine(self.stages, np.dtype(float))
        shape = self.stages.nodes.shape
        stored = np.moveaxis(p.reshape(len(p), *shape), 0, -2) if len(shape) > 1 else p
        return np.array(engine.from_densities(np.ascontiguousarray(stored), None, Scratch()))

    def orthonormal(self) -> Callable[[Array], Array]:
        """Like :meth:`projected`, onto functions made orthonormal on scattered nodes, of which there are no fewer."""
        nodes = self.stages.nodes
        indices = self.stages.indices[: self.stages.nodes.n_nodes]
        basis = bases.get(self.embedding.basis)
        onto = Projection(basis, self.stages.n_basis, nodes, orthonormalise=True, indices=indices)
        engine = NumPyEngine(replace(self.stages, projection=onto, indices=indices), np.dtype(float))
        return lambda p: np.array(engine.from_densities(np.ascontiguousarray(p), None, Scratch()))

    def unprojected(self, p: Array) -> Array:
        """Σ_i v_i |ψ(u_i) - ψ'(u_i)|² over pairs, all of ψ on the embedding's nodes."""
        functions = self.stages.functions
        volumes = self.stages.nodes.weights
        gram: Array = np.zeros((len(p), len(p)))
        step = max(1, _BLOCK_VALUES // (len(p) * functions.n_functions))
        for i in range(0, p.shape[1], step):
            psi = functions(np.ascontiguousarray(p[:, i : i + step]), Scratch()) * np.sqrt(volumes[i : i + step])
            gram += np.einsum("fin,fjn->ij", psi, psi, optimize=True)
        squares = np.diag(gram)
        one, other = np.triu_indices(len(p), k=1)
        return np.asarray(np.maximum(squares[one] + squares[other] - 2 * gram[one, other], 0.0))


def _squared_difference(x: Array, y: Array) -> Array:
    return np.asarray((x - y) ** 2)


def _finer(stages: DensityStages, bags: Bags, narrow: Array | None, rng: np.random.RandomState) -> Any:
    """Twice as many nodes (a dimension, for grids), and no fewer than an automatic grid for the bandwidth has."""
    nodes = stages.nodes
    kind = stages.node_kind
    if isinstance(nodes, node_kinds.GridNodes):
        h = stages.bandwidth if narrow is None else narrow
        fineness = stages.functions.fineness
        auto = node_kinds.Grid().resolve(bags.n_dims, bandwidth=h, n_basis=stages.n_basis, fineness=fineness)
        return node_kinds.GridNodes(tuple(max(2 * m, n) for m, n in zip(nodes.shape, auto.shape, strict=True)))
    pooled = pool(stages.density, bandwidths.spaced(bags), stages.bandwidth) if kind.needs_pooled else None
    many: Any = replace(kind, n=2 * nodes.n_nodes)
    needs = {"bandwidth": stages.bandwidth, "n_basis": stages.n_basis, "random_state": rng, "pooled": pooled}
    return many.resolve(bags.n_dims, **needs)


# --------------------------------------------------------------------------------------------------------------
# The error of each stage
# --------------------------------------------------------------------------------------------------------------


@dataclass
class PairNoise:
    """Squared distances of bags and of their halves; the shift by noise is extrapolated from the two."""

    whole: Array
    halves: list[tuple[Array, Array]]
    parts: Array  # of each bag: points of a half / points
    fall: float  # the shift is of order n^-fall

    def shift(self) -> Array:
        """How much noise adds to each pair, ndarray of shape (n_pairs,): a sum of two numbers, one per bag."""
        excess = np.mean([(a + b) / 2 for a, b in self.halves], axis=0) - self.whole
        return pair_sums(fit_sums(excess, len(self.parts)) / (self.parts**-self.fall - 1))

    def limit(self) -> Array:
        """What bags without end would give."""
        return np.asarray(np.maximum(self.whole - self.shift(), 0.0))

    def variance(self, kernel: Callable[[Array], Array]) -> Array:
        """Of each pair's kernel: that of a half is half the mean squared difference of halves, that of all half."""
        squares = np.mean([(kernel(a) - kernel(b)) ** 2 for a, b in self.halves], axis=0)
        return np.asarray(squares / 2 * pair_sums(self.parts / 2))


def fit_sums(pairs: Array, n_bags: int) -> Array:
    """The b of the least squares fit b_i + b_j to values of pairs i < j; of two bags half of the value each."""
    if n_bags < 3:
        return np.full(n_bags, pairs.mean() / 2)
    i, j = np.triu_indices(n_bags, k=1)
    sums = np.bincount(i, pairs, n_bags) + np.bincount(j, pairs, n_bags)
    return np.asarray((sums - pairs.sum() / (n_bags - 1)) / (n_bags - 2))


def pair_sums(values: Array) -> Array:
    """b_i + b_j over pairs i < j."""
    i, j = np.triu_indices(len(values), k=1)
    return np.asarray(values[i] + values[j])


def _measure(
    probe: StageProbe, bags: Bags, n_components: int, sigma: float | str, frequencies: str, rng: np.random.RandomState
) -> ErrorBudget:
    nodes = probe.stages.nodes
    finer = probe.finer
    hdd = isinstance(probe.embedding, HDDEmbedding)
    splits = [split_halves(bags, rng) for _ in range(N_SPLITS)]
    parts = (bags.sizes // 2) / bags.sizes
    fall = FALL if hdd else FALL_L2

    def noise(distance: Callable[[Bags], Array]) -> PairNoise:
        return PairNoise(distance(bags), [(distance(a), distance(b)) for a, b in splits], parts, fall)

    p = probe.densities(bags, nodes)
    A = probe.projected(p)
    rff = RandomFourierFeatures(n_components, sigma=sigma, frequencies=frequencies, random_state=rng).fit(A)
    z = rff.transform(A)
    scale = rff.sigma_

    def kernel(d2: Array) -> Array:
        return np.asarray(np.exp(-np.maximum(d2, 0.0) / (2 * scale**2)))

    projected = noise(lambda some: pdist(probe.projected(probe.densities(some, nodes)), "sqeuclidean"))
    complete = noise(lambda some: probe.unprojected(probe.densities(some, nodes)))
    on_nodes = probe.exact(p, nodes)
    all_of_psi = complete.whole
    unprojected = complete.limit()
    orthonormal = projected
    if isinstance(probe.stages.node_kind, node_kinds.MonteCarlo):
        onto = probe.orthonormal()
        orthonormal = noise(lambda some: pdist(onto(probe.densities(some, nodes)), "sqeuclidean"))
    changes = {
        "random features": (z @ z.T)[np.triu_indices(bags.n_bags, k=1)] - kernel(projected.whole),
        "points": kernel(projected.whole) - kernel(projected.limit()),
    }
    if np.all(orthonormal.whole <= all_of_psi + 1e-9 * all_of_psi.max()):  # Bessel: so it is on grids, and in the limit
        unprojected = np.maximum(unprojected, orthonormal.limit())
    changes["basis"] = kernel(orthonormal.limit()) - kernel(unprojected)
    if hdd:
        changes["lambdas"] = kernel(all_of_psi) - kernel(on_nodes)
    changes["nodes"] = kernel(on_nodes) - kernel(probe.exact(probe.densities(bags, finer), finer))
    changes["nodes"] += kernel(projected.limit()) - kernel(orthonormal.limit())
    if probe.stages.bandwidth is not None:
        changes["bandwidth"] = _smoothing(probe, noise, kernel)
    variance = projected.variance(kernel)
    density = changes["points"] + changes.get("bandwidth", 0.0)
    stages = {name: _stage(change, variance if name == "points" else 0.0) for name, change in changes.items()}
    stages = dict(sorted(stages.items(), key=lambda item: -item[1].rms))
    total = np.sum(list(changes.values()), axis=0)
    return ErrorBudget(
        stages=stages,
        total=_stage(total, variance).rms,
        density=_stage(density, variance).rms,
        sigma=float(scale),
        n_bags=bags.n_bags,
        **advise(probe, bags, stages, n_components),
    )


def _smoothing(
    probe: StageProbe, noise: Callable[[Callable[[Bags], Array]], PairNoise], kernel: Callable[[Array], Array]
) -> Array:
    """Change of the kernel by smoothing, with the shift by noise taken off at every bandwidth."""

    def limit(bandwidth: Array | None, factor: float) -> Array:
        nodes = probe.finer if isinstance(probe.finer, node_kinds.GridNodes) else probe.stages.nodes
        return noise(lambda some: probe.exact(probe.densities(some, nodes, bandwidth, factor), nodes)).limit()

    here = limit(None, 1.0)
    narrow = here if probe.narrow is None else limit(probe.narrow, 1.0)
    sharp = np.maximum(narrow + (narrow - limit(probe.narrow, float(WIDER))), 0.0)
    return kernel(here) - kernel(sharp)


def _stage(change: Array, variance: Array | float) -> Stage:
    squares = change**2 + variance
    return Stage(float(np.sqrt(squares.mean())), float(change.mean()), float(np.sqrt(squares.max())))


# --------------------------------------------------------------------------------------------------------------
# Advice: the largest stage, in words and as parameters
# --------------------------------------------------------------------------------------------------------------


def advise(probe: StageProbe, bags: Bags, stages: Mapping[str, Stage], n_components: int) -> dict[str, Any]:
    """The largest stage and its knob, in words and as parameters: ``advice`` and ``remedy`` of an error budget.

    Parameters
    ----------
    probe : StageProbe
        Of the embedding.
    bags : Bags
        That were looked at.
    stages : mapping of str to Stage
        Largest first.
    n_components : int
        Random features in use.
    """
    embedding = probe.embedding
    names = list(stages)
    worst = names[0]
    if stages[worst].rms < SMALL:
        return {"advice": f"no stage is off by {SMALL} or more: nothing needs turning"}
    lead = "most of the error comes from"
    remedy = dict[str, Any]()
    others = [name for name in names[1:] if name != "bandwidth"]  # which points trade against
    if worst == "points" and others and stages[others[0]].rms > HALF * stages["points"].rms:
        # a knob before more data
        lead = "besides too few points per bag, the error comes from"
        worst = others[0]
    if worst == "points":
        smooth = stages.get("bandwidth")
        wider = ""
        if smooth is not None and 2 * smooth.rms < stages["points"].rms:
            wider = f", or try bandwidth_scale={1.4 * embedding.bandwidth_scale:.2g}"
        said = (
            f"too few points per bag ({np.median(bags.sizes):.0f} in the median): take larger bags, or distances "
            f"without that noise by distembed.sizes.split_half_distances{wider}"
        )
    elif worst == "bandwidth":
        by = 0.7 if probe.narrow is None else float(np.min(probe.narrow / probe.stages.bandwidth))
        remedy = {"bandwidth_scale": float(f"{by * embedding.bandwidth_scale:.2g}")}
        said = f"smoothing: lower the bandwidth to bandwidth_scale={remedy['bandwidth_scale']:g}"
    elif worst == "lambdas":
        said, remedy = _more_lambdas(embedding)
    elif worst == "basis":
        doubled = tuple(2 * n for n in embedding.stages_.n_basis)
        remedy = {"n_basis": doubled[0] if len(set(doubled)) == 1 else doubled}
        nodes = _room_for(probe, doubled)
        said = f"too few basis functions: raise n_basis to {remedy['n_basis']}"
        if nodes is not None:
            remedy["nodes"] = nodes
            said = f"{said}, with nodes={nodes!r}"
    elif worst == "nodes":
        said, remedy = _more_nodes(probe, stages["nodes"].rms)
    else:
        second = max(stage.rms for name, stage in stages.items() if name != worst)
        times = max(2.0, (stages[worst].rms / max(second, SMALL / 2)) ** 2)
        remedy = {"n_components": 100 * ceil(times * n_components / 100)}
        said = f"too few random features: raise n_components to {remedy['n_components']}"
    return {"advice": f"{lead} {said}", "remedy": remedy}


def _more_lambdas(embedding: Any) -> tuple[str, dict[str, Any]]:
    n = len(embedding.lambdas_)
    automatic = len(distances.get(embedding.distance).auto_quadrature()[0])
    if embedding.lambda_rule == "random":
        remedy: dict[str, Any] = {"lambda_rule": "gauss", "n_lambdas": max(n, 5)}
        return f"too few lambdas: use lambda_rule='gauss' with n_lambdas={max(n, 5)}", remedy
    if n < automatic:
        return "too few lambdas: use n_lambdas='auto'", {"n_lambdas": "auto"}
    more = min(2 * n, distances.MAX_LAMBDAS)
    return f"too few lambdas: raise n_lambdas to {more}", {"n_lambdas": more}


def _more_nodes(probe: StageProbe, error: float) -> tuple[str, dict[str, Any]]:
    finer = probe.finer
    kind = probe.stages.node_kind
    if isinstance(finer, node_kinds.GridNodes):
        nodes: Any = node_kinds.Grid(finer.shape[0] if len(set(finer.shape)) == 1 else finer.shape)
        size = nodes.size if isinstance(nodes.size, int) else tuple(nodes.size)
        return f"too few nodes: use nodes=Grid({size}), {prod(finer.shape):,} nodes", {"nodes": nodes}
    # Errors of random nodes fall with the root of their number; to halve the error takes four times as many.
    n = min(probe.stages.nodes.n_nodes * min(16, max(4, ceil((error / SMALL) ** 2))), MOST_NODES)
    nodes = replace(kind, n=max(n, finer.n_nodes))
    return f"too few nodes: use nodes={type(kind).__name__}({nodes.n})", {"nodes": nodes}


def _room_for(probe: StageProbe, n_basis: tuple[int, ...]) -> Any:
    """Nodes for more basis functions, where there are too few; None where they will do, or are chosen by themselves."""
    kind = probe.stages.node_kind
    if isinstance(kind, node_kinds.Grid):
        given = () if kind.size is None else probe.stages.nodes.shape
        short = any(size < 2 * n for size, n in zip(given, n_basis, strict=False))
        return (
            node_kinds.Grid(tuple(max(size, 2 * n) for size, n in zip(given, n_basis, strict=True))) if short else None
        )
    wanted = 4 * len(bases.get(probe.embedding.basis).indices(n_basis))
    return replace(kind, n=wanted) if wanted > probe.stages.nodes.n_nodes else None
