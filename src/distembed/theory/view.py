"""A density embedding looked at from inside, for the error budget: densities, lambdas and features one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import distances
from ..bags import Bags
from ..bags.estimators import check_bags
from ..compute.parallel import Scratch
from ..compute.separable import bags_first
from ..density import bandwidth as bandwidths
from ..density import nodes as node_kinds
from ..density.estimate import pool
from ..embeddings import HDDEmbedding

__all__ = ["View"]

Array = NDArray[Any]
Kappa = Callable[[Array, Array], Array]

_BLOCK_VALUES = 2**21


@dataclass(frozen=True)
class View:
    """Densities and distances of bags at any nodes and bandwidth, the rest as the embedding has it."""

    embedding: Any
    kappa: Kappa
    finer: Any  # nodes
    narrow: Array | None  # the bandwidth of the rule, where that of the embedding is wider

    @classmethod
    def of(cls, embedding: Any, bags: Bags, rng: np.random.RandomState) -> View:
        check_bags(embedding, bags, reset=False)
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
        """p̂ on the nodes, ndarray of shape (n_bags, n_nodes); zero below the smallest normal float: κ may overflow."""
        embedding, own = self.embedding, None
        if embedding._own_bandwidths:
            own = factor * embedding._bandwidths_of(bags)
        h = embedding.bandwidth_ if bandwidth is None else bandwidth
        estimate = embedding._density.prepare(nodes, None if h is None else factor * h, np.dtype(float))
        p: Array = np.array(bags_first(estimate(bags, own, Scratch())).reshape(bags.n_bags, -1))
        p[p < np.finfo(float).tiny] = 0.0
        return p

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
