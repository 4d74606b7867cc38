r"""Other columns for the points of a bag: some of them, how far neighbours are, how values change from place to place.

Each of these takes bags to bags with as many points. They are what :class:`~distembed.Views` looks at bags through: a
density of log distances to neighbours distinguishes clumps from clouds wherever they lie, one of gradients shows edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.spatial import cKDTree
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagScaler, check_bags, refuse_overflow
from ..compute.arrays import Array, Scratch
from ..compute.checks import InputError, check_choice, check_number
from ..compute.parallel import bag_chunks, run_chunks
from ..compute.registry import storable

FLOOR = 1e-3  # of the median distance: nearer neighbours count as that near
_FLOOR_BAGS = 200  # which the median is taken of
_BYTES_PER_NEIGHBOUR = 16


def find_columns(owner: Any, name: str, given: Any, bags: Bags) -> list[int]:
    """Positions of columns that were given by number or by name; errors name the owner."""
    wanted = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    names = None if bags.columns is None else list(bags.columns)
    found = []
    for one in wanted:
        if isinstance(one, str) and names is not None and one in names:
            found.append(names.index(one))
        elif not isinstance(one, str | bool) and isinstance(one, int | np.integer) and 0 <= one < bags.n_dims:
            found.append(int(one))
        else:
            there = f"0 to {bags.n_dims - 1}" if names is None else ", ".join(map(repr, names))
            raise ValueError(
                f"{type(owner).__name__}({name}=...): must be columns of the bags, {there}, got {one!r}; give numbers "
                "or names of columns"
            )
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"{type(owner).__name__}({name}=...): must be one or more different columns, got {given!r}; name each once"
        )
    return found


@storable(columns_="list[_]")
class Select(BagScaler):
    """Some columns of the points.

    Parameters
    ----------
    columns : sequence of int or str
        Which, by number or by name, in the order in which they come out.

    Attributes
    ----------
    columns_ : tuple of int
    n_features_in_ : int
        Number of columns that go in.

    Examples
    --------
    >>> bags = Bags(np.array([[1.0, 2.0, 3.0]]), [0, 1], columns=["x", "y", "v"])
    >>> Select(["v", "x"]).fit_transform(bags).points
    array([[3., 1.]])
    """

    takes_categories = True

    def __init__(self, columns: Sequence[int | str] = (0,)) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns; X is bags, y is ignored."""
        bags = check_bags(self, X, reset=True)
        self.columns_ = tuple(find_columns(self, "columns", self.columns, bags))
        return self

    def transform(self, X: Any) -> Bags:
        """Bags with these columns, and their weights and ids."""
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        chosen = [*self.columns_]
        columns = None if bags.columns is None else tuple(bags.columns[j] for j in chosen)
        labels = bags.categories or {}
        kept = tuple((i, labels[j]) for i, j in enumerate(chosen) if j in labels) or None
        return bags.replace(points=bags.points[:, chosen], columns=columns, categories=kept)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns that come out."""
        check_is_fitted(self)
        return np.asarray(_names_in(self, input_features)[[*self.columns_]])


@storable(floor_="finite(n)")
class LocalScale(BagScaler):
    r"""Log distances from each point to its k-th nearest neighbours in the bag, in place of its coordinates.

    The density of (log r_4, log r_40) shows how clumped a bag is at two scales, and does not change when clumps move,
    turn or are mirrored. Together with positions it separates mixtures of few components from those of many.

    Parameters
    ----------
    k : int or tuple of int, default=(4, 40)
        Which neighbours: one column for each. In a bag of n points it is the (n - 1)-th, at most.
    n_jobs : int or None, default=None
        Threads; None: as many as BLAS may use.

    Attributes
    ----------
    floor_ : ndarray of shape (n_columns,)
        Shortest distances that are distinguished: a thousandth of the median of training bags. Copies of a point have
        it, and so has a point that is alone.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Units*: distances are Euclidean, so columns must have one unit; put :class:`~distembed.Standardize` in front where
    they have not. Weights of points do not change who is a neighbour, and stay with their points.
    *Cost*: O(n log n) for a bag of n points, by a tree. *Limits*: in a larger bag of the same density neighbours are
    nearer, by n^(-1/n_dims): compare bags of like sizes.

    Examples
    --------
    >>> bags = [np.array([[0.0], [1.0], [3.0]])]
    >>> np.exp(LocalScale(k=(1, 2)).fit_transform(bags).points).round(6)
    array([[1., 3.],
           [1., 2.],
           [2., 3.]])
    """

    def __init__(self, k: int | tuple[int, ...] = (4, 40), *, n_jobs: int | None = None) -> None:
        self.k = k
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the floor of distances; X is bags, y is ignored."""
        bags = check_bags(self, X, reset=True)
        ks = self._neighbours()
        some = np.unique(np.linspace(0, bags.n_bags - 1, _FLOOR_BAGS).round().astype(int))
        distances = np.concatenate([neighbour_distances(bags[int(i)], ks) for i in some])
        refuse_overflow(self, distances, what="distances of neighbours")
        positive = [column[column > 0] for column in distances.T]
        self.floor_ = np.array([FLOOR * float(np.median(column)) if len(column) else 1.0 for column in positive])
        return self

    def _neighbours(self) -> list[int]:
        found = [check_number(self, "k", k, low=1, integer=True) for k in np.atleast_1d(np.asarray(self.k, object))]
        return [int(k) for k in found]

    def transform(self, X: Any) -> Bags:
        """Bags of log distances, with the weights and ids of X."""
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        ks = self._neighbours()
        out = np.empty((bags.n_points, len(ks)), bags.dtype)

        def work(rows: slice, scratch: Scratch) -> None:
            for i in range(rows.start, rows.stop):
                distances = neighbour_distances(bags[i], ks)
                out[bags.offsets[i] : bags.offsets[i + 1]] = np.log(np.maximum(distances, self.floor_))

        per_bag = int(_BYTES_PER_NEIGHBOUR * (1 + max(ks)) * bags.n_points / bags.n_bags)
        run_chunks(work, bag_chunks(bags.n_bags, per_bag), self.n_jobs)
        refuse_overflow(self, out, what="distances of neighbours")
        columns = None if bags.columns is None else tuple(self.get_feature_names_out())
        return bags.replace(points=out, columns=columns, categories=None)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Such as ``log_r4``."""
        check_is_fitted(self)
        return np.array([f"log_r{k}" for k in self._neighbours()], dtype=object)


def neighbour_distances(points: Array, ks: Sequence[int]) -> Array:
    """Distances to the k-th nearest other points, ndarray of shape (n_points, n_ks); 0 for a point that is alone.

    Examples
    --------
    >>> neighbour_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), [1, 5])
    array([[5., 5.],
           [5., 5.]])
    """
    ranks = np.minimum(ks, len(points) - 1)
    if len(points) == 1:
        return np.zeros((1, len(ks)))
    wanted = [int(rank) + 1 for rank in ranks]  # the first is the point itself, or a copy of it
    return np.asarray(cKDTree(points).query(points, k=wanted)[0])


@storable(along_="list[_]", of_="list[_]")
class Differences(BagScaler):
    """How values change from a point to the next ones, as further columns: gradients of pictures, increments of series.

    Points have no order, but positions: a column of time, or two of pixels. A point's neighbours are those of its bag
    at the next larger and the next smaller position along one of these columns, and at its own along the others.

    Parameters
    ----------
    along : sequence of int or str, default=(0, 1)
        Columns of positions: (0,) for a series whose first column is time, (0, 1) for a picture.
    of : sequence of int or str, optional
        Columns whose values change; by default all others.
    kind : {"size", "each"}, default="size"
        One column for each value, the length of its gradient; or one for each value and direction.

    Attributes
    ----------
    along_, of_ : tuples of int
    n_features_in_ : int
        n_dims.

    Notes
    -----
    A difference is half of that between both neighbours; at an end, that to the one neighbour; without any, zero:
    ``np.gradient`` with unit steps. Two points of a bag at one position are an error. Cost: O(n log n).

    Examples
    --------
    >>> series = [np.array([[0.0, 5.0], [2.0, 9.0], [1.0, 6.0]])]
    >>> Differences(along=(0,), kind="each").fit_transform(series).points
    array([[0., 5., 1.],
           [2., 9., 3.],
           [1., 6., 2.]])
    """

    def __init__(self, along: Sequence[int | str] = (0, 1), of: Any = None, *, kind: str = "size") -> None:
        self.along = along
        self.of = of
        self.kind = kind

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns; X is bags, y is ignored."""
        bags = check_bags(self, X, reset=True)
        check_choice(self, "kind", self.kind, ("size", "each"))
        self.along_ = tuple(find_columns(self, "along", self.along, bags))
        others = [j for j in range(bags.n_dims) if j not in self.along_]
        if self.of is None and not others:
            raise ValueError(
                f"Differences(along={self.along!r}): leaves no column whose values change; bags need one besides "
                "positions"
            )
        self.of_ = tuple(others if self.of is None else find_columns(self, "of", self.of, bags))
        return self

    def transform(self, X: Any) -> Bags:
        """Bags with further columns."""
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        values = bags.points[:, self.of_].astype(np.float64)
        found = []
        for before, after in self._adjacent(bags):
            own = np.arange(len(after))
            steps = np.maximum((after >= 0).astype(int) + (before >= 0), 1)
            change = values[np.where(after >= 0, after, own)] - values[np.where(before >= 0, before, own)]
            found.append(change / steps[:, None])
        each = np.stack(found, axis=2)  # (n_points, n_values, n_directions)
        made = np.sqrt(np.sum(each**2, axis=2)) if self.kind == "size" else each.reshape(len(each), -1)
        points = np.hstack([bags.points, made.astype(bags.dtype)])
        columns = None if bags.columns is None else tuple(self._names(np.array(bags.columns, dtype=object)))
        return bags.replace(points=points, columns=columns, categories=None)

    def _adjacent(self, bags: Bags) -> list[tuple[Array, Array]]:
        """Rows of the points before and after each, along each direction; -1 where there is none."""
        owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
        ranks = [_rank_in_bag(owner, bags.points[:, j]) for j in self.along_]
        keys = owner.astype(np.int64)
        strides = list[int]()
        for rank in ranks:
            keys = keys * (int(rank.max()) + 3) + rank + 1  # room for what is before the first and after the last
        stride = 1
        for rank in reversed(ranks):
            strides.insert(0, stride)
            stride *= int(rank.max()) + 3
        order = np.argsort(keys, kind="stable")
        there = keys[order]
        if np.any(there[1:] == there[:-1]):
            row = int(order[1:][there[1:] == there[:-1]][0])
            raise InputError(
                f"Differences(along={self.along!r}): points of a bag must have different positions, got two at that of "
                f"{bags.name_of_point(row)}; give all columns of positions, or leave copies out"
            )

        def find(wanted: Array) -> Array:
            at = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
            return np.where(there[at] == wanted, order[at], -1)

        return [(find(keys - stride), find(keys + stride)) for stride in strides]

    def _names(self, names: Array) -> list[str]:
        prefixes = ["d"] if self.kind == "size" else [f"d_{names[j]}_" for j in self.along_]
        return [*names, *(f"{prefix}{'_' if prefix == 'd' else ''}{names[j]}" for j in self.of_ for prefix in prefixes)]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns that went in, then such as ``d_v``, or ``d_x_v`` for one direction."""
        check_is_fitted(self)
        return np.array(self._names(_names_in(self, input_features)), dtype=object)


def _rank_in_bag(owner: Array, x: Array) -> Array:
    """How many different smaller values a point's bag has, for each point."""
    order = np.lexsort((x, owner))
    sorted_owner = owner[order]
    sorted_x = x[order]
    first = np.r_[True, sorted_owner[1:] != sorted_owner[:-1]]
    steps = np.cumsum(np.r_[False, (sorted_x[1:] != sorted_x[:-1])] | first)
    ranks = np.empty(len(x), np.int64)
    ranks[order] = steps - steps[first][np.cumsum(first) - 1]
    return ranks


def _names_in(estimator: Any, input_features: Any) -> Array:
    """Names of the columns that went in: those of fit, or x0, x1, ..."""
    names = getattr(estimator, "feature_names_in_", input_features)
    return np.array([f"x{j}" for j in range(estimator.n_features_in_)] if names is None else names, dtype=object)
