"""A density embedding looked at from inside, for the error budget: densities, lambdas and features one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import basis as bases
from .. import distances
from ..bags import Bags
from ..bags.estimators import check_bags
from ..basis import Projection
from ..compute.arrays import Array, Scratch, bags_first
from ..density import bandwidth as bandwidths
from ..density import nodes as node_kinds
from ..density import pool
from ..embeddings import HDDEmbedding
from ..embeddings.stages import NumPyEngine, Stages

Kappa = Callable[[Array, Array], Array]

_BLOCK_VALUES = 2**21


def densities_on(nodes: Any, stages: Stages, bags: Bags, bandwidth: Array | None = None, factor: float = 1.0) -> Array:
    """Densities of bags as the stages estimate them, on any nodes, with any bandwidth in place of theirs.

    Parameters
    ----------
    nodes : GridNodes or PointNodes
    stages : Stages
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
class View:
    """Densities and distances of bags at any nodes and bandwidth, the rest as the embedding has it."""

    embedding: Any
    stages: Stages
    kappa: Kappa
    finer: Any  # nodes
    narrow: Array | None  # the bandwidth of the rule, where that of the embedding is wider

    @classmethod
    def of(cls, embedding: Any, bags: Bags, rng: np.random.RandomState) -> View:
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


def _finer(stages: Stages, bags: Bags, narrow: Array | None, rng: np.random.RandomState) -> Any:
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
