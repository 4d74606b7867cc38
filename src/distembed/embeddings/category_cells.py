r"""Cells: what categorical columns make of bags, so points with both kinds of columns have one density.

A point (c, x) has a cell c, one label of every categorical column, and continuous coordinates x. Under the counting
measure on the K cells times the volume of the cube, a bag's density is

.. math:: p(c, x) = s_c \, p(x \mid c), \qquad s_c = \frac{\text{weight of points in cell } c}{\text{weight of all}},

and a homogeneous distance is the sum d²(p, q) = Σ_c ∫ κ(p(c, x), q(c, x)) dx. So a bag is cut into its nonempty parts,
one a cell, each a bag of continuous points with a density of its own, which its share s_c multiplies. Features of the
parts side by side are features of the bag; an empty cell has zeros, because 0^(1/2 + iλ) = 0.

Cost: a sort of small integers, O(n_points), and a density a nonempty part instead of one per bag.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..bags import Bags
from ..bags.estimators import MAX_FEATURES
from ..bags.flat import Categories
from ..compute.arrays import Array, Scratch
from ..compute.parallel import bag_chunks
from ..compute.registry import storable, within
from ..density import Density, Evaluator
from ..density.nodes import GridNodes, PointNodes

_GOLDEN = (np.sqrt(5) - 1) / 2  # its multiples modulo one fill the unit interval evenly, however many there are


class Split(NamedTuple):
    """Nonempty parts of bags: those of one bag after those of another, each in the order of the cells."""

    parts: Bags  # of the continuous columns; of one constant column where there are none
    owner: Array  # position of the bag of each part, shape (n_parts,)
    cell: Array  # its cell, shape (n_parts,)
    share: Array  # its share of the weight of its bag, shape (n_parts,)


@storable(n_columns="n")
@dataclass(frozen=True)
class Cells:
    """The cells of bags with categorical columns.

    Parameters
    ----------
    categories : tuple of (int, tuple of labels)
        The categorical columns and their labels, as `Bags` holds them.
    n_columns : int
        Columns of the points, of both kinds.

    Examples
    --------
    >>> bags = Bags([[0.3, 0], [0.4, 1], [0.5, 1]], [0, 3], categories={1: ["f", "m"]})
    >>> cells = Cells.of(bags)
    >>> cells.split(bags).share.round(3), [part.tolist() for part in cells.split(bags).parts]
    (array([0.333, 0.667]), [[[0.3]], [[0.4], [0.5]]])
    """

    categories: Categories
    n_columns: int

    def __distembed_fits__(self) -> bool:
        columns = np.array([j for j, _ in self.categories])
        return within(columns, self.n_columns) and 0 < self.n_cells <= MAX_FEATURES

    @classmethod
    def of(cls, bags: Bags) -> Cells | None:
        """The cells of these bags, or None if no column is categorical."""
        return None if bags.categories is None else cls(tuple(bags.categories.items()), bags.n_dims)

    @property
    def columns(self) -> list[int]:
        """The categorical columns."""
        return [j for j, _ in self.categories]

    @property
    def continuous(self) -> list[int]:
        """The other columns."""
        return [j for j in range(self.n_columns) if j not in self.columns]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels of each categorical column."""
        return tuple(len(labels) for _, labels in self.categories)

    @property
    def n_cells(self) -> int:
        """K, the number of cells."""
        return prod(self.sizes)

    def split(self, bags: Bags) -> Split:
        """Cut bags into their nonempty parts.

        Parameters
        ----------
        bags : Bags
            With these categorical columns, without points of weight zero, and some point in a cell.

        Returns
        -------
        Split
            Points of a part stand in the order of their bag. Those with a label that there was not in ``fit`` are in
            no part, and count in the shares of the others: p(c, x) is as it is, and has no cell there.
        """
        n_cells = self.n_cells
        n_bags = bags.n_bags
        codes = bags.points[:, self.columns].T.astype(np.int64)
        cell = np.ravel_multi_index(tuple(codes), self.sizes, mode="clip")
        key = np.repeat(np.arange(n_bags) * n_cells, bags.sizes) + cell
        if not (inside := self.hold(bags)).all():
            key[~inside] = n_bags * n_cells  # behind all others
        # NumPy sorts integers of 16 bits by counting, in linear time.
        order = np.argsort(key.astype(np.min_scalar_type(n_bags * n_cells)), kind="stable")[: np.count_nonzero(inside)]
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        owner, cell = np.divmod(key[starts], n_cells)
        shares = bags.shares()
        sizes = np.diff(starts, append=len(key))
        share = sizes / bags.sizes[owner] if shares is None else np.add.reduceat(shares[order], starts)
        weights = None if bags.weights is None else bags.weights[order]
        points = bags.points.take(order, axis=0)[:, self.continuous]
        if not self.continuous:
            points = np.full((len(order), 1), 0.5, bags.dtype)
        ids = bags.ids[owner] if bags.has_ids else None
        parts = bags.replace(
            points=points, offsets=np.append(starts, len(key)), weights=weights, ids=ids, columns=None, categories=None
        )
        return Split(parts, owner, cell, share)

    def hold(self, bags: Bags) -> Array:
        """Which points (n_points,) are in a cell: all but those with a label that there was not in ``fit``."""
        return np.asarray((bags.points[:, self.columns] < np.array(self.sizes)).all(axis=1))

    def typical(self, bags: Bags, n: int) -> Bags:
        """Up to n parts of bags, each as likely as its share is large: what a rule should look at.

        Rules count parts alike. In all parts alike, cells with a point or two would outvote those that hold nearly
        everything, and it is these that distances are made of. Deterministic, some of them more than once.

        Parameters
        ----------
        bags : Bags
            At most n, without points of weight zero.
        n : int
            How many at most.

        Returns
        -------
        Bags
            ⌊n / n_bags⌋ of every bag; the bags themselves, without their categorical columns, if there is one cell.
        """
        split = self.split(bags)
        if self.n_cells == 1:
            return split.parts
        repeats = max(1, n // bags.n_bags)
        bag = np.repeat(np.arange(bags.n_bags), repeats)
        level = ((np.arange(len(bag)) + 0.5) * _GOLDEN) % 1
        ends = np.cumsum(split.share)  # those of bag i end at i + 1, up to rounding
        first = np.searchsorted(split.owner, bag)
        last = np.searchsorted(split.owner, bag, side="right") - 1
        return split.parts[np.sort(np.clip(np.searchsorted(ends, bag + level), first, last))]

    def numbers(self, bags: Bags) -> Bags:
        """Bags with zeros for codes, for checks of the continuous columns that name columns and bags."""
        points = bags.points.copy()
        points[:, self.columns] = 0
        return bags.replace(points=points)

    def names(self, columns: Any) -> list[str]:
        """Names such as ``sex=f,region=north``, one a cell; codes instead of labels where labels look alike.

        Parameters
        ----------
        columns : sequence of str or None
            Names of all columns.
        """
        named = [str(columns[j]) if columns is not None else f"x{j}" for j in self.columns]

        def joined(values: list[list[str]]) -> list[str]:
            return [",".join(map("=".join, zip(named, cell, strict=True))) for cell in product(*values)]

        names = joined([[str(label) for label in labels] for _, labels in self.categories])
        if len(set(names)) == len(names):
            return names
        return joined([[str(code) for code in range(size)] for size in self.sizes])

    def describe(self, columns: Any) -> str:
        """How many cells there are and why, for errors: ``2,400 cells (sex 2, town 1,200)``."""
        named = [str(columns[j]) if columns is not None else f"x{j}" for j in self.columns]
        counts = ", ".join(f"{name} {size:,}" for name, size in zip(named, self.sizes, strict=True))
        return f"{self.n_cells:,} cells ({counts})"


class CellWriter:
    """Writes the features of bags with cells: those of their parts by an engine, side by side, zeros elsewhere.

    Parameters
    ----------
    cells : Cells
        The cells.
    engine : callable
        Features of bags of continuous points, see :class:`~distembed.embeddings.stages.NumPyEngine`.
    bytes_per_bag : int
        Memory that the engine needs for each part.
    """

    def __init__(self, cells: Cells, engine: Any, bytes_per_bag: int) -> None:
        self.cells = cells
        self.engine = engine
        self._bytes_per_bag = bytes_per_bag

    def __call__(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        """Write the features of bags to ``out`` of shape (n_bags, n_features)."""
        out[...] = 0
        if not self.cells.hold(bags).any():
            return
        split = self.cells.split(bags)
        blocks = out.reshape(bags.n_bags, self.cells.n_cells, -1)
        for some in bag_chunks(split.parts.n_bags, self._bytes_per_bag):
            features = self.engine(split.parts[some], None, scratch, split.share[some])
            blocks[split.owner[some], split.cell[some]] = features


# --------------------------------------------------------------------------------------------------------------
# Bags without a continuous column: their parts have the constant density one, on one node of volume one
# --------------------------------------------------------------------------------------------------------------


@storable
class NoDimensions(Density):
    """The density over no dimension: one. The features of a part are then the lambda functions of its share.

    Examples
    --------
    >>> parts = Bags([[0.5], [0.5]], [0, 1, 2])
    >>> NoDimensions().prepare(OneNode().resolve(1), None, np.dtype(float))(parts, None, None)
    array([[1.],
           [1.]])
    """

    smooths: ClassVar[str] = "nothing"

    def prepare(self, nodes: GridNodes | PointNodes, bandwidth: Array | None, dtype: np.dtype[Any]) -> Evaluator:
        """An evaluator: called with bags, it returns ones, ndarray of shape (n_bags, n_nodes)."""
        return lambda bags, _, __: np.ones((bags.n_bags, nodes.n_nodes), dtype)


@storable
@dataclass(frozen=True)
class OneNode:
    """A single node of volume one.

    Examples
    --------
    >>> OneNode().resolve(1).n_nodes
    1
    """

    needs_pooled: ClassVar[bool] = False

    def resolve(self, n_dims: int, **_: object) -> PointNodes:
        """Return the node."""
        return PointNodes(np.full((1, n_dims), 0.5), np.ones(1))
