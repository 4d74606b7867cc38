r"""What each stage contributes to the error of a kernel between bags, estimated from the bags themselves.

The kernel that a linear model sees and the one that is meant are the ends of a chain

    z·z -> A features -> without the noise of points -> all of ψ -> κ itself -> finer nodes -> no smoothing

of which every link is one stage. Each is replaced by its (near-)exact twin, one after the other, and the change of
K = exp(-d²/(2σ²)) over pairs of bags is that stage's error. Only two links have no twin, since the truth is not known:
the noise of points is extrapolated from halves of bags, the smoothing from wider bandwidths.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.utils import check_random_state

from . import bandwidth as bandwidths
from . import distances
from . import nodes as node_kinds
from ._base import check_in_cube, check_number
from ._parallel import Scratch, one_blas_thread
from ._separable import bags_first
from .bags import Bags, as_bags
from .density.estimate import pool
from .embeddings.hdd import HDDEmbedding
from .embeddings.l2 import L2Embedding
from .random_features import RandomFourierFeatures
from .sizes import split_halves

__all__ = ["ErrorBudget", "Stage", "error_budget"]

Array = NDArray[Any]
Seed = int | np.random.RandomState | None
Kappa = Callable[[Array, Array], Array]

# The noise floor of a squared distance falls as n^-1 where kernels overlap much and as n^-1/2 or slower where they
# hardly do; one bag has both. Calibrated in between, for js, tv and hellinger and bags of 100 to 2,500 points.
# For L2, which is quadratic in the density, n^-1 is exact.
FALL, FALL_L2 = 0.75, 1.0
N_SPLITS = 2
WIDER = np.sqrt(2.0)  # smoothing shrinks squared distances by about c h²: twice as much at √2 h
SMALL = 0.01  # an error of the kernel that nothing needs to be done about
MOST_PAIRS = 2e8  # (pair of bags, node) evaluations of κ at a time: more, and fewer bags are taken
LEAST_BAGS = 6
_BLOCK_VALUES = 2**21


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
        apart, smoothing makes them look near), so that it may be less than a stage.
    density : float
        The same of points and bandwidth alone.
    sigma : float
        Scale of the kernel.
    n_bags : int
        Bags that were looked at.
    advice : str
        The largest stage, and what to do about it.

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

    def __str__(self) -> str:
        pairs = self.n_bags * (self.n_bags - 1) // 2
        lines = [
            f"Error of exp(-d²/(2σ²)), σ = {self.sigma:.3g}, {pairs:,} pairs of {self.n_bags} bags",
            f"{'stage':<16}{'rms':>9}{'bias':>10}{'largest':>10}",
        ]
        lines += [f"{name:<16}{s.rms:>9.4f}{s.bias:>+10.4f}{s.largest:>10.4f}" for name, s in self.stages.items()]
        return "\n".join([*lines, f"{'total':<16}{self.total:>9.4f}", self.advice])


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
                         that cuts off noise is no worse for it
    ``lambdas``          the M lambdas against κ itself, on the same nodes and densities
    ``nodes``            κ on these nodes against twice as many (a dimension, for grids)
    ``bandwidth``        smoothing by h, which shrinks distances by about c h²: their change from h to √2 h, where h is
                         larger than the rule ``"distance"`` would have it also that from the latter to h
    ===================  ===============================================================================================

    *How good it is.* On mixtures of truncated Gaussians in the plane with known densities (``make_gram_mixtures``,
    n = 100, 500, 2,500, js, tv and hellinger) the estimates for points, bandwidth and both are within a factor of two
    of the truth; the power 3/4 was chosen on densities of that kind. Both extrapolations fail for bags that show
    nothing of their densities, such as of two points. What all bags have in common, a spike narrower than any bandwidth
    tried, stays unseen.

    With ``MonteCarlo`` nodes, on which the basis is not orthonormal, what that does to coefficients is part of
    ``basis``. Twice as many random nodes have errors of their own, so that ``nodes`` is some fifth too large there.

    *Cost.* κ over n_bags²/2 pairs and all nodes, some ten times; five embeddings of the bags at two or three
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
    'most of the error comes from too few points a bag (30 in the median)'
    """
    max_bags = check_number("error_budget", "max_bags", max_bags, low=2, integer=True)
    rng = check_random_state(random_state)
    bags = as_bags(bags).astype(np.float64)._without_weightless()
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is in the table
        fitted = _fitted(embedding, bags)
        _check(bags, type(fitted).__name__)
        view = _View.of(fitted, bags, rng)
        n_bags = min(bags.n_bags, max_bags, max(LEAST_BAGS, int(np.sqrt(2 * MOST_PAIRS / view.finer.n_nodes))))
        if n_bags < bags.n_bags:
            bags = bags[np.sort(rng.choice(bags.n_bags, n_bags, replace=False))]
        return _measure(view, bags, n_components, sigma, frequencies, rng)


# --------------------------------------------------------------------------------------------------------------
# The embedding, looked at from inside
# --------------------------------------------------------------------------------------------------------------


def _fitted(embedding: Any, bags: Bags) -> Any:
    """A fitted density embedding, the caller's own if it is fitted."""
    if isinstance(embedding, str):
        embedding = L2Embedding() if embedding == "l2" else HDDEmbedding(distances.get(embedding).name)
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
            "error_budget(bags=...): every bag must have at least 2 points of positive weight, so that it has halves, "
            f"got {bags.sizes[i]} in {bags._name_of(i)}; leave that bag out"
        )
    check_in_cube(owner, bags)


@dataclass(frozen=True)
class _View:
    """Densities and distances of bags at any nodes and bandwidth, the rest as the embedding has it."""

    embedding: Any
    kappa: Kappa
    finer: Any  # nodes
    narrow: Array | None  # the bandwidth of the rule, where that of the embedding is wider

    @classmethod
    def of(cls, embedding: Any, bags: Bags, rng: np.random.RandomState) -> _View:
        embedding._check_bags(bags, reset=False)
        hdd = isinstance(embedding, HDDEmbedding)
        kappa = distances.get(embedding.distance).kappa if hdd else _squared_difference
        h, narrow, margins = embedding.bandwidth_, None, embedding._density.smooths == "margins"
        if h is not None and not embedding._own_bandwidths:
            by_rule = bandwidths.resolve(
                "distance", bags, embedding._density.boundaries(bags.n_dims), margins=margins, owner="error_budget"
            )
            narrow = np.minimum(h, by_rule) if np.any(by_rule < h) else None
        return cls(embedding, kappa, _finer(embedding, bags, narrow, rng), narrow)

    def densities(self, bags: Bags, nodes: Any, bandwidth: Array | None = None, factor: float = 1.0) -> Array:
        """p̂ on the nodes, ndarray of shape (n_bags, n_nodes)."""
        embedding, own = self.embedding, None
        if embedding._own_bandwidths:
            own = factor * embedding._bandwidths_of(bags)
        h = embedding.bandwidth_ if bandwidth is None else bandwidth
        estimate = embedding._density.prepare(nodes, None if h is None else factor * h, np.dtype(float))
        return np.array(bags_first(estimate(bags, own, Scratch())).reshape(bags.n_bags, -1))

    def exact(self, p: Array, nodes: Any) -> Array:
        """Σ_i v_i κ(p(u_i), q(u_i)) over pairs, ndarray of shape (n_pairs,)."""
        step, volumes = max(1, _BLOCK_VALUES // p.shape[1]), nodes.weights
        blocks = ((p[i], p[j : min(j + step, len(p))]) for i in range(len(p)) for j in range(i + 1, len(p), step))
        return np.concatenate([self.kappa(one, others) @ volumes for one, others in blocks])

    def projected(self, p: Array) -> Array:
        """A features from densities on the embedding's nodes, ndarray of shape (n_bags, n_features)."""
        embedding = self.embedding
        engine, shape = embedding._numpy_engine(np.dtype(float)), embedding.nodes_.shape
        stored = np.moveaxis(p.reshape(len(p), *shape), 0, -2) if len(shape) > 1 else p
        return np.array(engine._features(np.ascontiguousarray(stored), None, Scratch()))

    def unprojected(self, p: Array) -> Array:
        """Σ_i v_i |ψ(u_i) - ψ'(u_i)|² over pairs, all of ψ on the embedding's nodes."""
        functions, volumes = self.embedding._functions(np.dtype(float)), self.embedding.nodes_.weights
        gram: Array = np.zeros((len(p), len(p)))
        step = max(1, _BLOCK_VALUES // (len(p) * self.embedding._n_functions))
        for i in range(0, p.shape[1], step):
            psi = functions(np.ascontiguousarray(p[:, i : i + step]), Scratch()) * np.sqrt(volumes[i : i + step])
            gram += np.einsum("fin,fjn->ij", psi, psi, optimize=True)
        squares = np.diag(gram)
        one, other = np.triu_indices(len(p), k=1)
        return np.asarray(np.maximum(squares[one] + squares[other] - 2 * gram[one, other], 0.0))


def _squared_difference(x: Array, y: Array) -> Array:
    return np.asarray((x - y) ** 2)


def _finer(embedding: Any, bags: Bags, narrow: Array | None, rng: np.random.RandomState) -> Any:
    """Twice as many nodes (a dimension, for grids), and no fewer than an automatic grid for the bandwidth has."""
    nodes, kind = embedding.nodes_, node_kinds.get(embedding.nodes, bags.n_dims)
    if isinstance(nodes, node_kinds.GridNodes):
        h, basis = embedding.bandwidth_ if narrow is None else narrow, embedding._n_basis
        auto = node_kinds.Grid().resolve(bags.n_dims, bandwidth=h, n_basis=basis, fineness=embedding._fineness())
        return node_kinds.GridNodes(tuple(max(2 * m, n) for m, n in zip(nodes.shape, auto.shape, strict=True)))
    pooled = pool(embedding._density, bandwidths.spaced(bags), embedding.bandwidth_) if kind.needs_pooled else None
    if embedding.nodes == "auto" and pooled is not None and not pooled.can_sample:
        kind = node_kinds.MCMC()
    many: Any = replace(kind, n=2 * nodes.n_nodes)
    needs = {"bandwidth": embedding.bandwidth_, "n_basis": embedding._n_basis, "random_state": rng, "pooled": pooled}
    return many.resolve(bags.n_dims, **needs)


# --------------------------------------------------------------------------------------------------------------
# The stages
# --------------------------------------------------------------------------------------------------------------


@dataclass
class _Noise:
    """Squared distances of bags and of their halves; the shift by noise is extrapolated from the two."""

    whole: Array
    halves: list[tuple[Array, Array]]
    fall: float  # the shift is of order n^-fall

    def shift(self) -> Array:
        """How much noise adds to each pair, ndarray of shape (n_pairs,): a sum of two numbers, one a bag."""
        excess = np.mean([(a + b) / 2 for a, b in self.halves], axis=0) - self.whole
        return np.asarray(_additive(excess) / (2**self.fall - 1))

    def limit(self) -> Array:
        """What bags without end would give."""
        return np.asarray(np.maximum(self.whole - self.shift(), 0.0))

    def variance(self, kernel: Callable[[Array], Array]) -> Array:
        """Of each pair's kernel: that of a half is half the mean squared difference of halves, that of all half."""
        return np.asarray(np.mean([(kernel(a) - kernel(b)) ** 2 for a, b in self.halves], axis=0) / 4)


def _additive(pairs: Array) -> Array:
    """The least squares fit b_i + b_j to values of pairs i < j; with fewer than three bags their mean."""
    n = (1 + int(np.sqrt(1 + 8 * len(pairs)))) // 2
    if n < 3:
        return np.full_like(pairs, pairs.mean())
    i, j = np.triu_indices(n, k=1)
    sums = np.bincount(i, pairs, n) + np.bincount(j, pairs, n)
    each = (sums - pairs.sum() / (n - 1)) / (n - 2)
    return np.asarray(each[i] + each[j])


def _measure(
    view: _View, bags: Bags, n_components: int, sigma: float | str, frequencies: str, rng: np.random.RandomState
) -> ErrorBudget:
    embedding, nodes, finer = view.embedding, view.embedding.nodes_, view.finer
    splits = [split_halves(bags, rng) for _ in range(N_SPLITS)]
    fall = FALL if isinstance(embedding, HDDEmbedding) else FALL_L2

    def noise(distance: Callable[[Bags], Array]) -> _Noise:
        return _Noise(distance(bags), [(distance(a), distance(b)) for a, b in splits], fall)

    p = view.densities(bags, nodes)
    A = view.projected(p)
    rff = RandomFourierFeatures(n_components, sigma=sigma, frequencies=frequencies, random_state=rng).fit(A)
    z, scale = rff.transform(A), rff.sigma_

    def kernel(d2: Array) -> Array:
        return np.asarray(np.exp(-np.maximum(d2, 0.0) / (2 * scale**2)))

    projected = noise(lambda some: pdist(view.projected(view.densities(some, nodes)), "sqeuclidean"))
    complete = noise(lambda some: view.unprojected(view.densities(some, nodes)))
    on_nodes, all_of_psi = view.exact(p, nodes), complete.whole
    changes = {
        "random features": (z @ z.T)[np.triu_indices(bags.n_bags, k=1)] - kernel(projected.whole),
        "points": kernel(projected.whole) - kernel(projected.limit()),
        "basis": kernel(projected.limit()) - kernel(complete.limit()),
    }
    if isinstance(embedding, HDDEmbedding):
        changes["lambdas"] = kernel(all_of_psi) - kernel(on_nodes)
    changes["nodes"] = kernel(on_nodes) - kernel(view.exact(view.densities(bags, finer), finer))
    if embedding.bandwidth_ is not None:
        changes["bandwidth"] = _smoothing(view, noise, kernel)
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
        advice=_advice(view, bags, stages, n_components),
    )


def _smoothing(
    view: _View, noise: Callable[[Callable[[Bags], Array]], _Noise], kernel: Callable[[Array], Array]
) -> Array:
    """Change of the kernel by smoothing, with the shift by noise taken off at every bandwidth."""

    def limit(bandwidth: Array | None, factor: float) -> Array:
        nodes = view.finer if isinstance(view.finer, node_kinds.GridNodes) else view.embedding.nodes_
        return noise(lambda some: view.exact(view.densities(some, nodes, bandwidth, factor), nodes)).limit()

    here = limit(None, 1.0)
    narrow = here if view.narrow is None else limit(view.narrow, 1.0)
    sharp = np.maximum(narrow + (narrow - limit(view.narrow, float(WIDER))), 0.0)
    return kernel(here) - kernel(sharp)


def _stage(change: Array, variance: Array | float) -> Stage:
    squares = change**2 + variance
    return Stage(float(np.sqrt(squares.mean())), float(change.mean()), float(np.sqrt(squares.max())))


# --------------------------------------------------------------------------------------------------------------
# Advice
# --------------------------------------------------------------------------------------------------------------


def _advice(view: _View, bags: Bags, stages: Mapping[str, Stage], n_components: int) -> str:
    """The largest stage and its knob; the stages come largest first."""
    embedding, names = view.embedding, list(stages)
    worst = names[0]
    if stages[worst].rms < SMALL:
        return f"no stage is off by {SMALL} or more: nothing needs turning"
    lead = "most of the error comes from"
    if worst == "points":
        smooth = stages.get("bandwidth")
        wider = ""
        if smooth is not None and 2 * smooth.rms < stages["points"].rms:
            wider = f", or try bandwidth_scale={1.4 * embedding.bandwidth_scale:.2g}"
        return (
            f"{lead} too few points a bag ({np.median(bags.sizes):.0f} in the median): take larger bags, or distances "
            f"without that noise by distembed.sizes.split_half_distances{wider}"
        )
    if worst == "bandwidth":
        by = 0.7 if view.narrow is None else float(np.min(view.narrow / embedding.bandwidth_))
        return f"{lead} smoothing: lower the bandwidth to bandwidth_scale={by * embedding.bandwidth_scale:.2g}"
    if worst == "lambdas":
        return f"{lead} too few lambdas: {_more_lambdas(embedding)}"
    if worst == "basis":
        doubled = tuple(2 * n for n in embedding._n_basis)
        return f"{lead} too few basis functions: raise n_basis to {doubled[0] if len(set(doubled)) == 1 else doubled}"
    if worst == "nodes":
        return f"{lead} too few nodes: {_more_nodes(view)}"
    second = stages[names[1]].rms
    times = max(2.0, (stages[worst].rms / max(second, SMALL / 2)) ** 2)
    return f"{lead} too few random features: raise n_components to {100 * ceil(times * n_components / 100)}"


def _more_lambdas(embedding: Any) -> str:
    n, automatic = len(embedding.lambdas_), len(distances.get(embedding.distance).auto_quadrature()[0])
    if embedding.lambda_rule == "random":
        return f"use lambda_rule='gauss' with n_lambdas={max(n, 5)}"
    return "use n_lambdas='auto'" if n < automatic else f"raise n_lambdas to {min(2 * n, distances.MAX_LAMBDAS)}"


def _more_nodes(view: _View) -> str:
    finer = view.finer
    if isinstance(finer, node_kinds.GridNodes):
        size = finer.shape[0] if len(set(finer.shape)) == 1 else finer.shape
        return f"use nodes=Grid({size}), {prod(finer.shape):,} nodes"
    kind = type(node_kinds.get(view.embedding.nodes, finer.points.shape[1])).__name__
    return f"use nodes={kind}({finer.n_nodes})"
