"""What a kernel smoother averages: numbers or bags, whose densities are taken on nodes that all share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import density as densities
from ..bags import Bags, as_bags
from ..bags.estimators import check_in_cube
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.parallel import bag_chunks, run_chunks
from ..compute.registry import storable
from ..density import bandwidth as bandwidths
from ..density import choose_nodes, seen
from ..density.estimate import MASS_TOLERANCE, warn_if_few_see
from ..density.nodes import GridNodes
from ..divergences.densities import FINENESS


def numbers_or_none(y: Any) -> Array | None:
    """Responses that are a rectangular 1-D or 2-D array of numbers, in float64; None if they can only be bags."""
    if isinstance(y, Bags):
        return None
    try:
        array = np.asarray(y)
    except (ValueError, TypeError):  # ragged
        return None
    if array.dtype.kind in "iufb" and (array.ndim == 1 or (array.ndim == 2 and array.shape[1])):
        return array.astype(np.float64)
    holds_arrays = array.dtype.kind == "O" and array.ndim and not any(isinstance(v, str | bytes | dict) for v in array)
    if array.ndim == 3 or (holds_arrays and all(hasattr(each, "__len__") for each in array)):
        return None
    got = f"dtype {array.dtype}, shape {array.shape}" if array.ndim else f"{y!r}"
    raise TypeError(
        f"KernelSmoother: y must be numbers of shape (n_bags,) or (n_bags, n_outputs), or bags, got {got}; convert "
        "numbers to float64, and pass bags as Bags"
    )


def check_finite(responses: Array, kept: Array) -> None:
    """Refuse numbers that are not finite; they are those of the bags that are kept, by a mask of all."""
    bad = np.argwhere(~np.isfinite(responses))
    if len(bad):
        raise ValueError(
            f"KernelSmoother: y must be finite, got {responses[tuple(bad[0])]} for bag "
            f"{np.flatnonzero(kept)[bad[0, 0]]}; leave such bags out, or give them sample_weight 0"
        )


def response_bags(y: Any) -> Bags:
    """Responses as bags in the unit cube, without weightless points, in float64."""
    try:
        bags = as_bags(y)
    except (ValueError, TypeError) as error:
        raise type(error)(f"KernelSmoother: y, read as bags: {error}") from error
    if bags.categories is not None:
        named = ", ".join(map(repr, bags.category_labels))
        raise ValueError(f"KernelSmoother: y must have no categorical columns, got {named}; leave them out")
    bags = bags.drop_weightless()
    check_in_cube("KernelSmoother (y)", bags, "UnitCube().fit_transform(y)")
    return bags.astype(np.float64)


@storable(n_dims="n", bandwidth="finite(n) | None", nodes="GridNodes | PointNodes")
class ResponseDensities:
    """Density estimates of responses on nodes that all of them share; bandwidth and nodes are those of ``bags``."""

    def __init__(self, bags: Bags, owner: Any) -> None:
        rng, few, self.n_dims = check_random_state(owner.random_state), bandwidths.spaced(bags), bags.n_dims
        self._estimate = estimate = densities.get(owner.response_density)
        self._rule, self._n_jobs = owner.response_bandwidth, owner.n_jobs
        self.bandwidth = bandwidths.for_density(estimate, self._rule, bags, owner="KernelSmoother")
        narrowest = bandwidths.narrowest(self.bandwidth, bandwidths.for_each(estimate, self._rule, few))
        kind, pooled = choose_nodes(owner.response_nodes, estimate, few, self.bandwidth)
        self.nodes = estimate.resolve_nodes(
            kind, bags.n_dims, bandwidth=narrowest, fineness=FINENESS, random_state=rng, pooled=pooled
        )
        if isinstance(self.nodes, GridNodes):
            estimate.warn_if_unresolved(self.nodes, narrowest)
            return
        masses, seeing = seen(self(few), self.nodes.weights)
        off = float(np.sqrt(np.mean((masses - 1) ** 2)))
        if not estimate.integrates_to_one:  # values were divided by their mass on the nodes
            warn_if_few_see("KernelSmoother (y)", seeing, self.nodes)
        elif off > MASS_TOLERANCE and "none" not in estimate.boundaries(bags.n_dims):
            warnings.warn(
                "KernelSmoother: the densities of training responses, of mass 1, have another mass on the nodes, off "
                "by a quarter and more; use response_nodes='importance', more nodes, or a larger response_bandwidth",
                UserWarning,
                stacklevel=3,
            )

    def __call__(self, bags: Bags) -> Array:
        """Densities on the nodes, ndarray of shape (n_bags, n_nodes) of float64."""
        out = np.empty((bags.n_bags, self.nodes.n_nodes))
        evaluate = self._estimate.prepare(self.nodes, self.bandwidth, np.dtype(float))

        def work(rows: slice, scratch: Scratch) -> None:
            own = bandwidths.for_each(self._estimate, self._rule, bags[rows])
            p = bags_first(evaluate(bags[rows], own, scratch))
            np.maximum(p.reshape(len(p), -1), 0.0, out=out[rows])  # products of matrices may round below zero

        run_chunks(work, bag_chunks(bags.n_bags, 16 * self.nodes.n_nodes), self._n_jobs)
        return out
