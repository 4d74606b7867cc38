"""Symmetries of embeddings that project functions of a density: what they ask of bandwidth, nodes and basis.

A group of maps of the unit cube acts on the features of an embedding exactly where density, nodes and basis go over
into themselves: kernel density estimates of one bandwidth, the same in swapped dimensions, on a grid.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import basis as bases
from ..basis import groups
from ..basis.groups import CoefficientGroup, Symmetries
from ..compute.arrays import Array
from ..density import Grid
from ..density.nodes import GridNodes


def checked(owner: Any, n_dims: int, categorical: bool) -> Symmetries:
    """The ``symmetries`` of an embedding, which must be a group of this many continuous columns."""
    name = type(owner).__name__
    if isinstance(owner.symmetries, list | tuple):
        raise ValueError(
            f"{name}(symmetries=...): functions of points do not act on coefficients; give them to "
            "DistributionRegressor or DistributionClassifier, or wrap the embedding in Orbit"
        )
    if categorical:
        raise ValueError(
            f"{name}(symmetries=...): must be None for bags with categorical columns, got {owner.symmetries!r}; their "
            "labels have no order to mirror: leave these columns out, or the symmetries"
        )
    found = groups.get(owner.symmetries)
    found.order(n_dims)
    return found


def shared_bandwidth(symmetries: Symmetries, bandwidth: Array | None) -> Array | None:
    """Bandwidths of which swapped dimensions have their geometric mean.

    Examples
    --------
    >>> shared_bandwidth(groups.get("dihedral"), np.array([0.1, 0.4])).round(12)
    array([0.2, 0.2])
    """
    if bandwidth is None:
        return None
    _, swap, _ = symmetries.dimensions(len(bandwidth))
    found = np.array(bandwidth, float)
    if swap:
        found[[*swap]] = np.exp(np.log(found[[*swap]]).mean())
    return found


def symmetric_nodes(symmetries: Symmetries, kind: Any, nodes: Any) -> Any:
    """Nodes that go over into themselves: an automatic grid with whole steps for every shift.

    Examples
    --------
    >>> symmetric_nodes(Symmetries(shift=(0,), n_shifts=6), Grid(), GridNodes((20, 20))).shape
    (24, 20)
    """
    if not isinstance(nodes, GridNodes) or not isinstance(kind, Grid) or kind.size is not None:
        return nodes
    _, swap, shift = symmetries.dimensions(len(nodes.shape))
    n = symmetries.n_shifts
    shape = [-(-size // n) * n if j in shift else size for j, size in enumerate(nodes.shape)]
    for j in swap:
        shape[j] = max(shape[k] for k in swap)
    return GridNodes(tuple(shape))


def not_passed_on(owner: Any) -> ValueError:
    """The error for an embedding with symmetries inside one whose features they do not act on."""
    return ValueError(
        f"{type(owner).__name__}(embedding=...): does not pass on the symmetries of what it wraps, got "
        f"{owner.embedding!r}; give functions of points to the learner: symmetries=[function, ...]"
    )


def group_of(owner: Any, stages: Any) -> CoefficientGroup:
    """How the symmetries of an embedding act on its features; an error where density or nodes do not follow them."""
    name, n_dims = type(owner).__name__, len(stages.n_basis)
    symmetries = checked(owner, n_dims, stages.cells is not None)
    _, swap, shift = symmetries.dimensions(n_dims)
    if stages.point_means is None:
        if not stages.smooths_bins:
            raise ValueError(
                f"{name}(symmetries=...): needs kernel density estimates of one bandwidth on a grid, got "
                f"density={owner.density!r} and {type(stages.nodes).__name__}; use density='kde' in at most three "
                "dimensions, or give functions of points to the learner"
            )
        boundaries = stages.density.boundaries(n_dims)
        if any(boundaries[j] != "periodic" for j in shift):
            raise ValueError(
                f"{name}(symmetries=...): shifted dimensions must be periodic, got the boundaries {boundaries}; use "
                "density=KDE(boundary='periodic')"
            )
        alike = {(boundaries[j], stages.nodes.shape[j], stages.n_basis[j], float(stages.bandwidth[j])) for j in swap}
        if len(alike) > 1:
            raise ValueError(
                f"{name}(symmetries=...): swapped dimensions must have the same n_basis, boundary and number of nodes, "
                f"got {stages.n_basis}, {boundaries} and {stages.nodes.shape}; give one number for all"
            )
    return groups.coefficient_group(bases.get(owner.basis), stages.indices, symmetries)
