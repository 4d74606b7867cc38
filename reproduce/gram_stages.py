r"""What the Gram experiment computes: the methods' kernels, the same with any stage exact, and what is out of reach.

    p̂ (density) -> nodes (integration) -> λ functions (lambdas) -> coefficients (basis) -> z (random features)

The five stages are the five sources of error of the paper's theorem. Each has an exact twin: the true density in place
of p̂, a fine grid in place of the nodes, κ itself in place of a few lambdas, all of a function on its nodes in place of
its first coefficients, the RBF kernel of the distances in place of z·z. With all five exact the kernel is the true one.

How close kernels can come to the true ones: Richardson's extrapolation in several ways, and a limit. The limit is the
mean of ½ log(2p/(p + q)) over the points of one bag, plus that of ½ log(2q/(p + q)) over those of the other, with the
true densities p and q. Its expectation is JS, and the two logarithms are the influence functions of JS: no estimate
from the same points, without knowing p and q, has less variance to first order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances

import exact
from distembed import basis as bases
from distembed import distances, divergences
from distembed.bags import Bags
from distembed.compute.arrays import Array
from distembed.datasets import MixtureDensities, make_gram_mixtures
from distembed.density.nodes import GridNodes, PointNodes
from distembed.distances import HomogeneousDistance
from distembed.distances.lambdas import lambda_functions
from distembed.embeddings import HDDEmbedding
from distembed.features import RandomFourierFeatures
from distembed.theory.budget import densities_on

from .comparisons import literal_recipe

SCORES = ("R2", "R2 all pairs", "determination", "largest error", "rms error")
SOURCES = ("density", "lambdas", "basis", "nodes", "random features")
# Embedding, and frequencies of the random features behind it; entropies have neither.
METHODS: dict[str, tuple[str, str | None]] = {
    "A features": ("default", None),
    "A features, Richardson": ("richardson", None),
    "random features": ("default", "orthogonal"),
    "random features, iid": ("default", "independent"),
    "printed measure": ("printed", None),
    "literal recipe": ("literal", None),
    "literal recipe, random features": ("literal", "independent"),
    "entropies": ("", None),
}
PIPELINES = {"default": "orthogonal", "literal": "independent"}  # whose sources of error are told apart
RICHARDSON_SCALE = float(np.sqrt(2))  # of the bandwidth: extrapolation has more noise
# Times the default bandwidth; functions along each dimension, None for no basis and no lambdas.
WAYS: dict[str, tuple[float, int | None]] = {
    "A features, h": (1.0, 10),
    "A features, 1.2 h": (1.2, 10),
    "A features, 1.41 h": (float(np.sqrt(2)), 10),
    "A features, 1.7 h": (1.7, 10),
    "A features, 2 h": (2.0, 10),
    "A features of 14 functions, 1.7 h": (1.7, 14),
    "no features, 1.41 h": (float(np.sqrt(2)), None),
    "no features, 1.7 h": (1.7, None),
    "no features, 2 h": (2.0, None),
}
LIMIT = "limit"
SHOWN = ("R2", "determination", "rms error")
FINE_GRID = 160  # nodes a side; the truth is taken there too
_MANY_LAMBDAS = 48  # κ to 4e-5 (x + y), where something must be projected


# --------------------------------------------------------------------------------------------------------------
# The methods
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """One draw of the experiment.

    Attributes
    ----------
    bags : Bags
        What estimates see.
    densities : MixtureDensities
        What they are judged by.
    sigma : float
        Scale of the kernel: the root of the median of the true JS over distinct pairs.
    kernel : ndarray of shape (n_bags, n_bags)
        True values exp(-JS/(2σ²)).
    """

    bags: Bags
    densities: MixtureDensities
    sigma: float
    kernel: Array


@lru_cache(maxsize=1)
def draw(seed: int, n_bags: int = 50, n_points: int = 2500) -> Problem:
    """Bags, and the truth by the judge: κ of the true densities on a grid of 160 x 160 midpoints.

    Examples
    --------
    >>> problem = draw(0, n_bags=3, n_points=10)
    >>> np.allclose(np.median(-np.log(problem.kernel[np.triu_indices(3, 1)])), 0.5)  # JS / (2 sigma^2)
    True
    """
    bags, densities = make_gram_mixtures(n_bags, n_points, random_state=seed)
    values = densities.on_grid(FINE_GRID)
    true = exact.pairwise_distances(values, "js", np.full(values.shape[1], 1 / values.shape[1]))
    sigma = float(np.sqrt(np.median(true[np.triu_indices(n_bags, 1)])))
    return Problem(bags, densities, sigma, exact.kernel(true, sigma))


def score(true: Array, found: Array) -> dict[str, float]:
    """How close an estimated kernel matrix is to the true one.

    Parameters
    ----------
    true, found : ndarray of shape (n_bags, n_bags)

    Returns
    -------
    dict of str to float
        Squared correlation over distinct pairs (``R2``) and over all N² (the paper's figure, diagonal included);
        coefficient of determination, largest and root mean square error over distinct pairs.

    Examples
    --------
    >>> true = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]])
    >>> {name: round(value, 3) for name, value in score(true, true**2).items()}
    {'R2': 0.988, 'R2 all pairs': 0.975, 'determination': -2.122, 'largest error': 0.25, 'rms error': 0.22}
    """
    pairs = np.triu_indices(len(true), 1)
    k = true[pairs]
    e = found[pairs]
    values = (
        np.corrcoef(k, e)[0, 1] ** 2,
        np.corrcoef(true.ravel(), found.ravel())[0, 1] ** 2,
        1 - np.sum((k - e) ** 2) / np.sum((k - k.mean()) ** 2),
        np.max(np.abs(k - e)),
        np.sqrt(np.mean((k - e) ** 2)),
    )
    return dict(zip(SCORES, map(float, values), strict=True))


def _printed_measure(lam: Array) -> Array:
    """Jensen-Shannon's row of Table 1 as it is printed, 1 + λ² in place of 1 + 4λ²."""
    return np.asarray(exact.measure(lam, "js") * (1 + 4 * lam**2) / (1 + lam**2))


def _embedding(kind: str, seed: int) -> HDDEmbedding:
    """The default; the same, wider, to extrapolate from, or with the printed measure; or the paper's literal recipe."""
    if kind == "literal":
        return literal_recipe(seed)
    if kind == "richardson":
        return HDDEmbedding("js", bandwidth_scale=RICHARDSON_SCALE)
    return HDDEmbedding("js" if kind == "default" else HomogeneousDistance("js, as printed", measure=_printed_measure))


@lru_cache(maxsize=1)
def _features(kind: str, seed: int, n_bags: int, n_points: int) -> tuple[Array, float, float]:
    """A features, and the seconds and CPU seconds that they took: the methods of one embedding share them."""
    bags = draw(seed, n_bags, n_points).bags
    start = perf_counter()
    cpu = process_time()
    features = _embedding(kind, seed).fit_transform(bags)
    return features, perf_counter() - start, process_time() - cpu


def estimate(
    method: str, seed: int, n_bags: int = 50, n_points: int = 2500, n_components: int = 7000
) -> dict[str, Any]:
    """Scores of a method on one draw.

    Parameters
    ----------
    method : str
        One of :data:`METHODS`.
    seed : int
        Of the draw, and of all that a method draws.
    n_bags, n_points : int
        Size of the experiment.
    n_components : int
        D, of random features.

    Returns
    -------
    dict
        The scores; ``sigma``; ``seconds`` and ``cpu_seconds`` of the method, without data and truth; of seed 0 also the
        kernel values of distinct pairs, ``true`` and ``found``, float32 of shape (n_bags (n_bags - 1) / 2,).

    Examples
    --------
    >>> found = estimate("A features", 0, n_bags=5, n_points=500)
    >>> bool(found["R2"] > 0.9), found["true"].shape
    (True, (10,))
    """
    problem = draw(seed, n_bags, n_points)
    kind, frequencies = METHODS[method]
    features = np.empty(0)
    before = 0.0
    cpu_before = 0.0
    if kind in ("default", "printed", "literal"):
        features, before, cpu_before = _features(kind, seed, n_bags, n_points)
    start = perf_counter()
    cpu = process_time()
    if frequencies is not None:
        chosen = RandomFourierFeatures(
            n_components, sigma=problem.sigma, frequencies=frequencies, random_state=seed
        ).fit_transform(features)
        kernel = np.asarray(chosen @ chosen.T)
    else:
        if kind == "richardson":
            fitted = _embedding(kind, seed).fit(problem.bags)
            squared = fitted.squared_distances(problem.bags, bias="richardson")
        elif kind:
            squared = euclidean_distances(features, squared=True)
        else:  # JS_ent of the appendix, with means: densities of second halves at the points of first halves
            squared = divergences.js_entropy(problem.bags, split="halves")
        kernel = exact.kernel(squared, problem.sigma)
    found: dict[str, Any] = {**score(problem.kernel, kernel), "sigma": problem.sigma}
    found |= {"seconds": before + perf_counter() - start, "cpu_seconds": cpu_before + process_time() - cpu}
    if seed == 0:
        pairs = np.triu_indices(n_bags, 1)
        found |= {"true": problem.kernel[pairs].astype(np.float32), "found": kernel[pairs].astype(np.float32)}
    return found


# --------------------------------------------------------------------------------------------------------------
# The sources of error
# --------------------------------------------------------------------------------------------------------------


def place_near(squared: Array, others: Array) -> Array:
    """Points that have given distances, turned to lie as close as possible to others.

    Random features need vectors, and exact stages give distances alone. Classical scaling finds vectors of n
    coordinates for these. Turned next to ``others`` (Procrustes), they meet the same frequencies, whose noise then does
    not hide the difference.

    Parameters
    ----------
    squared : ndarray of shape (n, n)
        Squared Euclidean distances.
    others : ndarray of shape (n, m), m >= n
        Vectors to lie close to.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> x = np.array([[0.0, 0.0, 1.0], [3.0, 0.0, 1.0], [0.0, 4.0, 1.0]])
    >>> place_near(euclidean_distances(x, squared=True), x + 1).round(9) - x
    array([[1., 1., 1.],
           [1., 1., 1.],
           [1., 1., 1.]])
    """
    centred = squared - squared.mean(axis=0)
    values, vectors = np.linalg.eigh(-(centred - centred.mean(axis=1, keepdims=True)) / 2)
    found = vectors * np.sqrt(np.maximum(values, 0))
    middle = others.mean(axis=0)
    left, _, right = np.linalg.svd(found.T @ (others - middle), full_matrices=False)
    return np.asarray(found @ left @ right + middle)


class PartlyExactKernel:
    """Kernels of bags whose densities are known, with any of the five stages exact.

    Parameters
    ----------
    embedding : HDDEmbedding
        The stages as they are: Jensen-Shannon, a KDE, at most three dimensions. A clone of it is fitted.
    random_features : RandomFourierFeatures
        The last stage; a clone of it is fitted.
    bags : Bags
        In the unit square.
    densities : MixtureDensities
        Their true densities.

    Notes
    -----
    Everything is computed in float64 from the public parts of each stage. With no stage exact, distances are those of
    the embedding to rounding.

    Examples
    --------
    >>> import distembed as de
    >>> bags, densities = de.datasets.make_gram_mixtures(4, 200, random_state=0)
    >>> z = de.RandomFourierFeatures(1000, sigma=0.5, random_state=0)
    >>> made = PartlyExactKernel(de.HDDEmbedding("js"), z, bags, densities)
    >>> true = exact.pairwise_distances(densities.on_grid(FINE_GRID), "js", np.full(FINE_GRID**2, FINE_GRID**-2))
    >>> np.allclose(made.squared(SOURCES), true)
    True
    """

    def __init__(
        self, embedding: HDDEmbedding, random_features: RandomFourierFeatures, bags: Bags, densities: MixtureDensities
    ) -> None:
        self._embedding = clone(embedding).fit(bags)
        self._bags = bags
        self._truth = densities
        self._fine = GridNodes((FINE_GRID,) * bags.n_dims)
        self._known: dict[tuple[bool, bool], Array] = {}  # densities, which cost most
        self._features = self._rows(())
        self._random_features = clone(random_features).fit(self._features)

    def _nodes(self, exactly: Collection[str]) -> GridNodes | PointNodes:
        return self._fine if "nodes" in exactly else self._embedding.nodes_

    def _densities(self, exactly: Collection[str]) -> Array:
        """Of each bag on the nodes, ndarray of shape (n_bags, n_nodes)."""
        key = "density" in exactly, "nodes" in exactly
        if key not in self._known:
            nodes = self._nodes(exactly)
            stages = self._embedding.stages_
            self._known[key] = self._truth.pdf(nodes.points) if key[0] else densities_on(nodes, stages, self._bags)
        return self._known[key]

    def squared(self, exactly: Collection[str] = ()) -> Array:
        """Squared distances with the named stages exact, ndarray of shape (n_bags, n_bags).

        Parameters
        ----------
        exactly : collection of str
            Some of :data:`SOURCES`; the random features make no distances, and count for nothing here.
        """
        if "lambdas" in exactly and "basis" in exactly:
            return exact.pairwise_distances(self._densities(exactly), "js", self._nodes(exactly).weights)
        return np.asarray(euclidean_distances(self._rows(exactly), squared=True))

    def _rows(self, exactly: Collection[str]) -> Array:
        """Features: coefficients, or where the basis is exact, functions on the nodes; ndarray of shape (n_bags, m)."""
        p = self._densities(exactly)
        nodes = self._nodes(exactly)
        rule = self._embedding.lambdas_, self._embedding.lambda_weights_
        if "lambdas" in exactly:
            rule = distances.get("js").quadrature(_MANY_LAMBDAS)
        functions = (lambda_functions(each, *rule) for each in p)  # of one bag at a time
        if "basis" in exactly:
            return np.array([(each * np.sqrt(nodes.weights)).ravel() for each in functions])
        # The paper's sum as it is: on scattered nodes its functions are not orthonormal, on a grid they are.
        basis = bases.get(self._embedding.basis)
        indices = self._embedding.indices_
        onto = bases.Projection(basis, tuple(int(k) + 1 for k in indices.max(axis=0)), nodes, indices=indices)
        # A projection takes functions with the bags second to last; here it is one.
        shape = *nodes.shape[:-1], 1, nodes.shape[-1]
        return np.array([onto(each.reshape(-1, *shape)).ravel() for each in functions])

    def kernel(self, exactly: Collection[str] = ()) -> Array:
        """Kernel values exp(-d²/(2σ²)) with the named stages exact, ndarray of shape (n_bags, n_bags)."""
        squared = self.squared(exactly)
        if "random features" in exactly:
            return exact.kernel(squared, self._random_features.sigma_)
        z = self._random_features.transform(place_near(squared, self._features))
        return np.asarray(z @ z.T)


def sources(seed: int, n_bags: int = 50, n_points: int = 2500, n_components: int = 7000) -> dict[str, Array]:
    """Scores of both pipelines, default and literal, with stages exact.

    Parameters
    ----------
    seed, n_bags, n_points, n_components : int
        See :func:`estimate`.

    Returns
    -------
    dict of str to ndarray
        By pipeline, (1 + 2 · 5, n_scores): nothing exact; each source alone exact; all but each exact. Sources are in
        the order of ``SOURCES``, scores in that of :data:`SCORES`.
    """
    problem = draw(seed, n_bags, n_points)
    others = [[name for name in SOURCES if name != source] for source in SOURCES]
    found = {}
    for kind, frequencies in PIPELINES.items():
        z = RandomFourierFeatures(n_components, sigma=problem.sigma, frequencies=frequencies, random_state=seed)
        made = PartlyExactKernel(_embedding(kind, seed), z, problem.bags, problem.densities)
        exactly: list[Sequence[str]] = [(), *((source,) for source in SOURCES), *others]
        found[kind] = np.array([[*score(problem.kernel, made.kernel(names)).values()] for names in exactly])
    return found


# --------------------------------------------------------------------------------------------------------------
# The limit, and ways towards it
# --------------------------------------------------------------------------------------------------------------


def efficient_distances(bags: Bags, densities: MixtureDensities) -> Array:
    """JS of all pairs by the logarithms of the true densities at the points, ndarray of shape (n_bags, n_bags).

    Examples
    --------
    >>> problem = draw(0, n_bags=3, n_points=2000)
    >>> found = efficient_distances(problem.bags, problem.densities)
    >>> bool(np.abs(exact.kernel(found, problem.sigma) - problem.kernel).max() < 0.05)
    True
    """
    means = np.empty((bags.n_bags, bags.n_bags))
    for i, points in enumerate(bags):
        p = densities.pdf(points)
        means[i] = np.mean(np.log(2 * p[i] / (p[i] + p)), axis=1) / 2
    return means + means.T


def attempts(seed: int, n_bags: int = 50, n_points: int = 2500) -> dict[str, Any]:
    """Scores of all ways on one draw, in the order of ``SHOWN``, by their names."""
    problem = draw(seed, n_bags, n_points)
    bags = problem.bags
    squared = {LIMIT: efficient_distances(bags, problem.densities)}
    for name, (scale, n_basis) in WAYS.items():
        if n_basis is None:
            squared[name] = divergences.plugin(bags, distance="js", bandwidth_scale=scale, bias="richardson", n_jobs=1)
        else:
            embedding = HDDEmbedding("js", n_basis=n_basis, bandwidth_scale=scale, n_jobs=1).fit(bags)
            squared[name] = embedding.squared_distances(bags, bias="richardson")
    scores = {name: score(problem.kernel, exact.kernel(each, problem.sigma)) for name, each in squared.items()}
    return {name: np.array([each[column] for column in SHOWN]) for name, each in scores.items()}
