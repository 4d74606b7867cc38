r"""Symmetries: features of a bag together with those of its images under maps of the points.

Where a label does not change when all points of a bag go through a map, a kernel averaged over the images does not
either (or hardly, where the maps are not a group):

.. math:: \bar k(P, Q) = \frac{1}{|G|^2} \sum_{g, h} k(gP, hQ).

:class:`~distembed.RandomFourierFeatures` with the ``group_`` of an embedding is linear for it. There are two ways to
the features of images:

- flips, swaps and shifts of the unit cube (:class:`~distembed.Symmetries`) act on projection coefficients, so one
  embedding of the bag is enough. This is exact where density, nodes and basis are mapped to themselves: kernel density
  estimates of one bandwidth, the same in swapped dimensions, on a grid. The functions here make them so, or refuse.
- :class:`Orbit` embeds each image by itself, for any functions and any embedding. It costs as many embeddings as there
  are images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .. import basis as bases
from ..bags import Bags, concat
from ..bags.estimators import BagEmbedding, check_embedding, count_features
from ..basis import groups
from ..basis.groups import CoefficientGroup, Symmetries
from ..compute.arrays import Array
from ..compute.checks import InputError
from ..compute.registry import storable
from ..density import Grid
from ..density.nodes import GridNodes

# --------------------------------------------------------------------------------------------------------------
# Maps of the unit cube that act on projection coefficients
# --------------------------------------------------------------------------------------------------------------


def check_symmetries(owner: Any, n_dims: int, categorical: bool) -> Symmetries:
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
    name = type(owner).__name__
    n_dims = len(stages.n_basis)
    symmetries = check_symmetries(owner, n_dims, stages.cells is not None)
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


# --------------------------------------------------------------------------------------------------------------
# Images under any functions of points, side by side
# --------------------------------------------------------------------------------------------------------------


@storable(order="n")
@dataclass(frozen=True)
class OrbitGroup:
    """Images side by side in a row, one block after the other.

    Examples
    --------
    >>> OrbitGroup(2).act(1, np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([[3., 4.]])
    """

    order: int

    def __distembed_fits__(self) -> bool:
        return self.order > 0

    def __distembed_claims__(self) -> float:
        return 100.0 * self.order**2  # pairs of images, for each of which a kernel is computed

    @property
    def n_pairs(self) -> int:
        """Number of pairs of images over which a kernel is averaged: all of them."""
        return self.order**2

    def pairs(self, first: Array, second: Array) -> Iterator[tuple[Array, Array]]:
        """These pairs."""
        images = range(self.order)
        return ((self.act(i, first), self.act(j, second)) for i in images for j in images)

    def width(self, n_columns: int) -> int:
        """Columns of one image."""
        return n_columns // self.order

    def act(self, i: int, rows: Array) -> Array:
        """Image i of rows (n_rows, order n_columns): ndarray of shape (n_rows, n_columns)."""
        width = self.width(rows.shape[1])
        return rows[:, i * width : (i + 1) * width]

    def mean(self, rows: Array) -> Array:
        """Rows in which all images are the mean of all images."""
        blocks = rows.reshape(len(rows), self.order, -1).mean(axis=1)
        return np.tile(blocks, (1, self.order))


@storable(group_="OrbitGroup")
class Orbit(BagEmbedding):
    """An embedding of bags and of their images under functions of points, side by side.

    Parameters
    ----------
    embedding : estimator
        Any embedding of bags.
    functions : sequence of callables
        Each maps points, an ndarray of shape (n_points, n_dims) in the units in which bags come, to as many points.
        The identity is always there and need not be given.
    scale : scaler or None, default=None
        What comes between, such as ``UnitCube()``: fitted to all images.

    Attributes
    ----------
    embedding_, scaler_ : estimators
        Fitted to all images together, which share bandwidth and box.
    group_ : OrbitGroup
        What ``RandomFourierFeatures(group=...)`` averages over.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Cost*: (1 + number of functions) embeddings. *Limits*: model files hold it only if the functions are registered by
    :func:`distembed.files.storable`.

    Examples
    --------
    Turned by a quarter, a bag has the same features, in another order:

    >>> import distembed as de
    >>> from distembed.embeddings.symmetric import Orbit
    >>> bags = np.random.default_rng(0).normal(size=(20, 50, 2))
    >>> turns = [lambda x: x[:, ::-1] * [1, -1], lambda x: -x, lambda x: x[:, ::-1] * [-1, 1]]
    >>> orbit = Orbit(de.HDDEmbedding("hellinger"), turns, scale=de.UnitCube(bounds=(-5, 5))).fit(bags)
    >>> z = de.RandomFourierFeatures(100, group=orbit.group_, random_state=0).fit(orbit.transform(bags))
    >>> turned = bags[..., ::-1] * [1, -1]
    >>> np.allclose(z.transform(orbit.transform(turned)), z.transform(orbit.transform(bags)))
    True
    """

    def __init__(
        self, embedding: Any, functions: Sequence[Callable[[Array], Array]] = (), *, scale: Any = None
    ) -> None:
        self.embedding = embedding
        self.functions = functions
        self.scale = scale

    def _images(self, bags: Bags) -> Iterator[Bags]:
        yield bags
        for function in self.functions:
            points = np.asarray(function(bags.points))
            if points.shape != bags.points.shape or not np.all(np.isfinite(points)):
                raise InputError(
                    f"Orbit(functions=...): each must map points of shape {bags.points.shape} to as many finite ones, "
                    f"got shape {points.shape} from {function!r}; return an array of the same shape"
                )
            yield bags.replace(points=points.astype(bags.points.dtype, copy=False))

    def _fit(self, bags: Bags, y: Any) -> None:
        check_embedding(self, self.embedding)
        for function in self.functions:
            if not callable(function):
                raise TypeError(
                    f"Orbit(functions=...): must be functions of points, got {function!r}; for names such as "
                    "'reflections' give them to the embedding: HDDEmbedding(symmetries=...)"
                )
        images = concat([image.replace(ids=None) for image in self._images(bags)])
        self.scaler_ = None if self.scale is None else clone(self.scale).fit(images)
        scaled = images if self.scaler_ is None else self.scaler_.transform(images)
        self.embedding_ = clone(self.embedding).fit(scaled)
        self.group_ = OrbitGroup(1 + len(self.functions))
        self._n_features_out = self.group_.order * count_features(self.embedding_, scaled)

    def _transform(self, bags: Bags) -> Array:
        scaled = (image if self.scaler_ is None else self.scaler_.transform(image) for image in self._images(bags))
        return np.concatenate([np.asarray(self.embedding_.transform(image)) for image in scaled], axis=1)

    def _feature_names(self) -> list[str]:
        names = self.embedding_.get_feature_names_out()
        return [f"image{i}_{name}" for i in range(self.group_.order) for name in names]
