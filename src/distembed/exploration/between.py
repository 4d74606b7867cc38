"""Distances between bags with their ids, and the bags nearest to some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, as_bags
from ..bags.ids import canonical_text
from ..compute.arrays import Array
from ..compute.checks import check_number, closest_name, pandas_for
from ..kernels.comparisons import Comparison, is_embedding, wants_cube
from ..scaling import Standardize, UnitCube
from .rows import RANKS, make_rows

_AT_ONCE = 1000  # bags whose distances to all others are held


@dataclass(frozen=True, eq=False, repr=False)
class BagDistances:
    """Distances between bags, with their ids: an array to NumPy, a table to pandas.

    Attributes
    ----------
    matrix : ndarray of shape (n_bags, n_others)
        Distances; square roots of squared distances, zero where an estimate of these is negative.
    ids, other_ids : ndarray
        Of its rows and columns.

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.Bags.from_arrays([[0.0, 1.0], [0.0, 1.1], [9.0, 9.5]], ids=["a", "b", "c"])
    >>> found = de.distances_between(bags)
    >>> found.matrix.shape, bool(found.matrix[0, 1] < found.matrix[0, 2])
    ((3, 3), True)
    """

    matrix: Array
    ids: Array
    other_ids: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return self.matrix.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.matrix, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.matrix)

    def to_frame(self) -> Any:
        """A pandas data frame, ids as index and columns."""
        return pandas_for("BagDistances.to_frame").DataFrame(self.matrix, index=self.ids, columns=self.other_ids)

    def __repr__(self) -> str:
        return f"BagDistances({self.shape[0]} x {self.shape[1]})"


@dataclass(frozen=True, eq=False, repr=False)
class NearestBags:
    """The bags nearest to some.

    Attributes
    ----------
    ids : ndarray of shape (n_bags,)
        Of the bags that were asked about.
    neighbours : ndarray of shape (n_bags, k)
        Positions of the nearest bags, the nearest first; a bag is not its own neighbour.
    neighbour_ids : ndarray of shape (n_bags, k)
        Their ids.
    distances : ndarray of shape (n_bags, k)

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.Bags.from_arrays([[0.0, 1.0], [0.0, 1.1], [9.0, 9.5]], ids=["a", "b", "c"])
    >>> de.nearest_bags(bags, ["a"], k=1).neighbour_ids.tolist()
    [['b']]
    """

    ids: Array
    neighbours: NDArray[np.intp]
    neighbour_ids: Array
    distances: Array

    def __len__(self) -> int:
        return len(self.ids)

    def to_frame(self) -> Any:
        """A pandas data frame of one row for each bag and neighbour."""
        k = self.neighbours.shape[1]
        columns = {
            "bag": np.repeat(self.ids, k),
            "rank": np.tile(np.arange(1, k + 1), len(self.ids)),
            "neighbour": self.neighbour_ids.ravel(),
            "distance": self.distances.ravel(),
        }
        return pandas_for("NearestBags.to_frame").DataFrame(columns)

    def __repr__(self) -> str:
        return f"NearestBags({len(self)} bags, {self.neighbours.shape[1]} neighbours each)"


def distances_between(X: Any, Y: Any = None, divergence: Any = "ranks", *, n_jobs: int | None = None) -> BagDistances:
    """Distances between all pairs of bags, in units that suit the divergence.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags.
    Y : Bags or anything that :func:`distembed.as_bags` reads, optional
        Other bags; by default X itself.
    divergence : str, embedding or callable, default="ranks"
        ``"ranks"``: bounded functions of the ranks of columns, comparable across sizes; or what
        :func:`distembed.two_sample.bags_test` takes, such as ``"mmd"``, ``"js"`` or ``"knn:kl"``. Points are scaled to
        the unit cube where the distance wants that, and standardised for others by name. Embeddings and callables get
        the points as they are.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    BagDistances
        ``np.asarray(found)`` is the matrix, ``found.to_frame()`` has the ids.

    Notes
    -----
    Everything that is fitted (scale, bandwidth, ranks) is fitted to X. Cost: N² / 2 divergences for those by name, and
    N rows and N² n_features operations for ``"ranks"`` and embeddings. Memory: the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(shift, 1, size=(40, 2)) for shift in (0, 0, 3)]
    >>> np.asarray(de.distances_between(bags, divergence="hellinger")).round(1)
    array([[0. , 0.2, 0.9],
           [0.2, 0. , 0.9],
           [0.9, 0.9, 0. ]])
    """
    bags = as_bags(X)
    others = None if Y is None else as_bags(Y)
    look, compare = _comparison(bags, divergence, n_jobs)
    rows = look(bags)
    d2 = compare(rows, None if others is None else look(others))
    if others is None:
        np.fill_diagonal(d2, 0.0)
    return BagDistances(np.sqrt(np.maximum(d2, 0.0)), bags.ids, (bags if others is None else others).ids)


def nearest_bags(X: Any, which: Any = None, k: int = 5, divergence: Any = "ranks") -> NearestBags:
    """The bags nearest to some bags, among all others.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags, at least two.
    which : id, sequence of ids or positions, or Bags, optional
        The bags that are asked about: of X, by ids where X has some and else by positions; or other bags. By default
        all of X.
    k : int, default=5
        Neighbours of each; all others if there are fewer.
    divergence : str, embedding or callable, default="ranks"
        As in :func:`distances_between`.

    Returns
    -------
    NearestBags

    Notes
    -----
    Distances are computed for 1,000 bags at a time, so memory is linear in the number of bags; time is quadratic.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags([rng.normal(shift, 1, size=(40, 2)) for shift in (0, 5, 0, 5)])
    >>> de.nearest_bags(bags, k=1).neighbours.ravel()
    array([2, 3, 0, 1])
    """
    bags = as_bags(X)
    k = check_number("nearest_bags", "k", k, low=1, integer=True)
    if bags.n_bags < 2:
        raise ValueError(f"nearest_bags(X=...): must have at least 2 bags, got {bags.n_bags}; give more")
    look, compare = _comparison(bags, divergence, None)
    rows = look(bags)
    own = not isinstance(which, Bags)
    chosen = _positions(bags, which) if own else np.arange(which.n_bags)
    asked = rows if own else look(which)
    k = min(k, bags.n_bags - own)
    places = np.empty((len(chosen), k), np.intp)
    distances = np.empty((len(chosen), k))
    for first in range(0, len(chosen), _AT_ONCE):
        some = chosen[first : first + _AT_ONCE]
        d2 = np.array(compare(asked[some], rows))
        if own:
            d2[np.arange(len(some)), some] = np.inf
        order = np.argsort(d2, axis=1, kind="stable")[:, :k]
        places[first : first + len(some)] = order
        distances[first : first + len(some)] = np.take_along_axis(d2, order, axis=1)
    ids = (bags if own else which).ids[chosen]
    return NearestBags(ids, places, bags.ids[places], np.sqrt(np.maximum(distances, 0.0)))


def _comparison(bags: Bags, divergence: Any, n_jobs: int | None) -> tuple[Any, Any]:
    """What bags are looked at by, and the function of two of these that gives squared distances."""
    if isinstance(divergence, str) and divergence == RANKS:
        rows = make_rows("distances_between", RANKS).fit(bags)
        return rows.transform, _squared
    scaler: Any = None
    if isinstance(divergence, str) and not is_embedding(divergence):
        scaler = (UnitCube(map="auto") if wants_cube(divergence) else Standardize(robust=True)).fit(bags)

    def scaled(each: Bags) -> Bags:
        return each if scaler is None else scaler.transform(each)

    found = Comparison(divergence, scaled(bags), "distances_between", n_jobs=n_jobs)
    return lambda each: found.look_at(scaled(each)), found.both_ways


def _squared(x: Array, y: Array | None = None) -> Array:
    from sklearn.metrics.pairwise import euclidean_distances

    return np.asarray(euclidean_distances(x, y, squared=True))


def _positions(bags: Bags, which: Any) -> NDArray[np.intp]:
    """Positions of bags that are named by ids, or by positions where there are no ids."""
    if which is None:
        return np.arange(bags.n_bags)
    wanted = [which] if isinstance(which, str | bytes) or not isinstance(which, Sequence | np.ndarray) else list(which)
    places = {name: i for i, name in enumerate(canonical_text(bags.ids).tolist())}
    found = []
    for each in canonical_text(np.asarray(wanted)).tolist():
        if each not in places:
            near = closest_name(each, list(places))
            hint = f"is {near!r} meant?" if near else f"ids are such as {next(iter(places))!r}"
            raise ValueError(f"nearest_bags(which=...): no bag has the id {each!r}; {hint}")
        found.append(places[each])
    return np.array(found, np.intp)
