r"""Compact rows of bags, and how far they scatter when a bag has n points.

A bag is compared with others by means of bounded functions over its points:

.. math:: t_k = \frac 1 n \sum_{i=1}^n φ_k(x_i), \qquad
    φ \in \{\sqrt 2 \cos π m u_j, \; [u_j < τ], \; [u_j > 1 - τ], \; 2 \cos π u_j \cos π u_l, \; [x_j = \text{label}]\},

where u_j is the rank of column j among all training points, from 0 to 1. So units are irrelevant, the first
frequencies see shifts and spreads, higher ones see lumps inside of the same range, and pairs see columns that are
correlated. Means over points are unbiased whatever n is, and a bag drawn like the training bags has

.. math:: E t_k = μ_k + β_k \log n, \qquad Var \, t_k = a_k + c_k / n,

where c_k is the variance inside of bags, known from their points, and a_k that between bags. A row is standardised by
both, so small bags are not far from everything for being small.

*Cost*: a search in some 30 sorted numbers for each value, and O(n_bags n_features).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.registry import storable, within

N_LEVELS = 32  # quantiles of a column that are the limits of its bins
MOST_FREQUENCIES = 6
MOST_LABELS = 12  # of a column that have features of their own
MOST_POINTS = 5000  # of a bag: more show its distribution no better than others differ from it
_TAIL = 0.02
_FEW_FOR_ALL_PAIRS = 6  # columns
_MANY_FOR_PAIRS = 40
_BAGS_AT_ONCE = 1000


@storable(edges="finite(b)", ranks="finite(r)", n_frequencies="f")
@dataclass(frozen=True, eq=False)
class NumberBins:
    """Functions of a column of numbers, constant on bins: between its edges, and on each of them.

    Parameters
    ----------
    edges : ndarray of shape (n_edges,)
        Quantiles of the training points, increasing.
    ranks : ndarray of shape (2 n_edges + 1,)
        u of values below the first edge, on it, between it and the next, and so on.
    n_frequencies : int
        Of cosines.
    tails : bool
        Whether there are indicators of the lowest and the highest values.
    """

    edges: Array
    ranks: Array
    n_frequencies: int
    tails: bool

    def __distembed_fits__(self) -> bool:
        increasing = len(self.edges) > 0 and bool(np.all(np.diff(self.edges) > 0))
        return increasing and len(self.ranks) == 2 * len(self.edges) + 1

    @classmethod
    def of(cls, x: Array, weights: Array | None, n_frequencies: int, tails: bool) -> NumberBins:
        """Look at the values of a column, at all training points."""
        order = np.argsort(x, kind="stable")
        ordered = x[order].astype(np.float64)
        mass = np.arange(1, len(x) + 1) if weights is None else np.cumsum(weights[order])
        places = np.searchsorted(mass, np.linspace(0, mass[-1], N_LEVELS + 1))
        edges = np.unique(ordered[np.minimum(places, len(x) - 1)])
        share = np.bincount(_find(edges, x), weights, minlength=2 * len(edges) + 1) / mass[-1]
        return cls(edges, np.cumsum(share) - share / 2, n_frequencies, tails)

    @property
    def n_functions(self) -> int:
        """Number of functions."""
        return self.n_frequencies + 2 * self.tails

    @property
    def table(self) -> Array:
        """Values of the functions on each bin, ndarray of shape (n_bins, n_functions)."""
        u = self.ranks
        columns = [np.sqrt(2) * np.cos(np.pi * m * u) for m in range(1, self.n_frequencies + 1)]
        if self.tails:
            columns += [u < _TAIL, u > 1 - _TAIL]
        return np.stack(columns, axis=1).astype(np.float64)

    def find(self, x: Array) -> Array:
        """Bins of values."""
        return _find(self.edges, x)


@storable(frequent="int(b)", n_labels="l")
@dataclass(frozen=True, eq=False)
class LabelBins:
    """Indicators of the most frequent labels of a column, and one of others and of labels that were never met.

    Parameters
    ----------
    frequent : ndarray of shape (n_frequent,)
        Codes of the most frequent labels, increasing.
    n_labels : int
        Of the training bags.
    """

    frequent: Array
    n_labels: int

    def __distembed_fits__(self) -> bool:
        return within(self.frequent, self.n_labels) and bool(np.all(np.diff(self.frequent) > 0))

    def __distembed_claims__(self) -> float:
        return 8.0 * self.n_labels + 8.0 * self.n_functions**2

    @classmethod
    def of(cls, codes: Array, n_labels: int) -> LabelBins:
        """Look at the codes of a column, at all training points."""
        counts = np.bincount(codes.astype(int), minlength=n_labels)
        return cls(np.sort(np.argsort(-counts, kind="stable")[:MOST_LABELS]), n_labels)

    @property
    def n_functions(self) -> int:
        """Number of functions."""
        return len(self.frequent) + 1

    @property
    def table(self) -> Array:
        """Values of the functions on each bin, ndarray of shape (n_bins, n_functions)."""
        return np.eye(self.n_functions)

    def find(self, x: Array) -> Array:
        """Bins of codes."""
        place = np.full(self.n_labels + 1, len(self.frequent))
        place[self.frequent] = np.arange(len(self.frequent))
        return np.asarray(place[np.minimum(x.astype(int), self.n_labels)])


def _find(edges: Array, x: Array) -> Array:
    """Twice the number of edges below x, and one more on an edge."""
    below = np.searchsorted(edges, x)
    on = edges[np.minimum(below, len(edges) - 1)] == x
    return np.asarray(2 * below + on)


@storable(owners="int(k, two)", mean="finite(k)", slope="finite(k)", between="finite(k)", inside="finite(k)")
@dataclass(frozen=True, eq=False)
class CompactRows:
    """Functions of points, and the law of their means over bags.

    Parameters
    ----------
    columns : list of NumberBins or LabelBins
        Of the points.
    pairs : list of tuple of int
        Columns whose products are features.
    owners : ndarray of shape (n_features, 2)
        Which column a feature is of, or which two.
    mean, slope : ndarray of shape (n_features,)
        μ, at the typical size, and β.
    between, inside : ndarray of shape (n_features,)
        a and c.
    sizes : tuple of float
        Smallest, typical and largest of the training bags.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.Bags.from_arrays([rng.normal(size=(n, 2)) for n in rng.integers(2, 50, size=100)])
    >>> rows, t, inside, n = CompactRows.learn(bags)
    >>> z = rows.standardise(t, n)
    >>> z.shape, round(float(z[:, :6].std()), 1)
    ((100, 17), 1.0)
    """

    columns: list[NumberBins | LabelBins]
    pairs: list[tuple[int, int]]
    owners: Array
    mean: Array
    slope: Array
    between: Array
    inside: Array
    sizes: tuple[float, float, float]

    def __distembed_fits__(self) -> bool:
        known = within(self.owners, len(self.columns)) and all(
            0 <= j < len(self.columns) for p in self.pairs for j in p
        )
        n = sum(bins.n_functions for bins in self.columns) + len(self.pairs)
        return known and len(self.owners) == n and 0 < self.sizes[0] <= self.sizes[1] <= self.sizes[2]

    @classmethod
    def learn(cls, bags: Bags, plain: bool = False) -> tuple[CompactRows, Array, Array, Array]:
        """Functions and law from training bags; also what :meth:`means` returns of them.

        Parameters
        ----------
        bags : Bags
            At least one, none of them empty.
        plain : bool, default=False
            Whether two frequencies of each column are enough, without pairs.
        """
        bags = thin(bags)
        columns, pairs = _functions(bags, plain)
        n_features = [bins.n_functions for bins in columns]
        single = np.repeat(np.arange(len(columns)), n_features)
        owners = np.concatenate([np.stack([single, single], axis=1), np.reshape(pairs, (-1, 2)).astype(int)])
        nothing = np.zeros(len(owners))
        rows = cls(columns, pairs, owners, nothing, nothing, nothing, nothing, (1.0, 1.0, 1.0))
        t, inside, n = rows.means(bags)
        mean, slope, between, c = _fit_law(t, inside, n)
        return cls(columns, pairs, owners, mean, slope, between, c, _known_sizes(n)), t, inside, n

    def suits(self, owner: Any) -> bool:
        """Whether these are functions of the columns that a fitted estimator takes, as ``__distembed_fits__`` asks."""
        known = {j: len(labels) for j, labels in getattr(owner, "categories_in_", {}).items()}
        labels = {j: bins.n_labels for j, bins in enumerate(self.columns) if isinstance(bins, LabelBins)}
        return len(self.columns) == owner.n_features_in_ and labels == known

    def means(self, bags: Bags) -> tuple[Array, Array, Array]:
        """Means of the functions over each bag, their variances inside of it, and effective sizes; none of it if empty.

        Returns
        -------
        means, inside : ndarray of shape (n_bags, n_features)
            Of an empty bag zero.
        sizes : ndarray of shape (n_bags,)
            Of an empty bag 0.
        """
        bags = thin(bags)
        parts = [self._means(bags[i : i + _BAGS_AT_ONCE]) for i in range(0, bags.n_bags, _BAGS_AT_ONCE)]
        if not parts:
            return np.empty((0, len(self.owners))), np.empty((0, len(self.owners))), np.empty(0)
        means, squares, sizes = (np.concatenate(each) for each in zip(*parts, strict=True))
        return means, np.maximum(squares - means**2, 0.0), sizes

    def _means(self, bags: Bags) -> tuple[Array, Array, Array]:
        n_bags = bags.n_bags
        raw = np.ones(bags.n_points) if bags.weights is None else bags.weights.astype(np.float64)
        owner = np.repeat(np.arange(n_bags), bags.sizes)
        if bags.weights is not None:  # sums of huge or tiny weights overflow
            largest = np.zeros(n_bags)
            np.maximum.at(largest, owner, raw)
            raw = raw / largest[owner]
        total = np.bincount(owner, raw, minlength=n_bags)
        w = raw / total[owner]
        squared = np.bincount(owner, w**2, minlength=n_bags)
        sizes = np.divide(1.0, squared, out=np.zeros(n_bags), where=squared > 0)
        found = [bins.find(bags.points[:, j]) for j, bins in enumerate(self.columns)]
        means: list[Array] = []
        squares: list[Array] = []
        for bins, places in zip(self.columns, found, strict=True):
            table = bins.table
            n_rows = len(table)
            shares = np.bincount(owner * n_rows + places, w, minlength=n_bags * n_rows).reshape(n_bags, n_rows)
            means.append(shares @ table)
            squares.append(shares @ table**2)
        first = {j: self.columns[j].table[found[j], 0] for j in {j for pair in self.pairs for j in pair}}
        for j, other in self.pairs:
            product = first[j] * first[other]
            means.append(np.bincount(owner, w * product, minlength=n_bags)[:, None])
            squares.append(np.bincount(owner, w * product**2, minlength=n_bags)[:, None])
        return np.hstack(means), np.hstack(squares), sizes

    def standardise(self, means: Array, sizes: Array) -> Array:
        """Deviations from what bags of these sizes have, over their standard deviations; of empty bags zero."""
        return (means - self._expected(sizes)) / np.sqrt(self._variance(sizes)) * (sizes > 0)[:, None]

    def held_out(self, means: Array, inside: Array, sizes: Array) -> Array:
        """Deviations of the training bags themselves, each with the law that the others show."""
        x = _log_sizes(sizes, self.sizes)[:, None]
        w = 1 / self._variance(sizes)
        centre, spread, _, slope = _weighted_line(means, x, w)
        share = _believed(slope, spread)
        leverage = w / w.sum(axis=0) + share * w * (x - centre) ** 2 / np.where(spread > 0, spread, np.inf)
        residual = (means - self._expected(sizes)) / np.maximum(1 - leverage, 0.05)
        between, c = _variances(residual, inside, sizes, w**2, without_own=True)
        return np.asarray(residual / np.sqrt(between + c / sizes[:, None]))

    def _expected(self, sizes: Array) -> Array:
        return np.asarray(self.mean + self.slope * _log_sizes(sizes, self.sizes)[:, None])

    def _variance(self, sizes: Array) -> Array:
        return self.between + self.inside / np.maximum(sizes, 1.0)[:, None]


def thin(bags: Bags) -> Bags:
    """Bags thinned to at most 5,000 points each, evenly spaced in their order.

    Examples
    --------
    >>> import distembed as de
    >>> thin(de.Bags.from_arrays([np.zeros(20_000), np.zeros(7)])).sizes.tolist()
    [5000, 7]
    """
    sizes = np.minimum(bags.sizes, MOST_POINTS)
    if np.array_equal(sizes, bags.sizes):
        return bags
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.repeat(np.arange(bags.n_bags), sizes)
    step = bags.sizes / np.maximum(sizes, 1)
    rows = bags.offsets[owner] + ((np.arange(offsets[-1]) - offsets[owner] + 0.5) * step[owner]).astype(int)
    weights = None if bags.weights is None else bags.weights[rows]
    return Bags(
        bags.points[rows], offsets, weights=weights, columns=bags.columns,
        categories=None if bags.categories is None else dict(bags.categories), empty="allow",
    )  # fmt: skip


def _functions(bags: Bags, plain: bool) -> tuple[list[NumberBins | LabelBins], list[tuple[int, int]]]:
    """Functions of each column, and pairs of columns."""
    labels = dict(bags.categories or {})
    numbers = [j for j in range(bags.n_dims) if j not in labels]
    weights = bags.pooled_weights()
    n_frequencies = 2 if plain else int(np.clip(96 // max(len(numbers), 1), 2, MOST_FREQUENCIES))
    columns = [
        LabelBins.of(bags.points[:, j], len(labels[j]))
        if j in labels
        else NumberBins.of(bags.points[:, j], weights, n_frequencies, tails=len(numbers) <= 24 and not plain)
        for j in range(bags.n_dims)
    ]
    return columns, [] if plain else _pairs(numbers)


def _pairs(columns: Sequence[int]) -> list[tuple[int, int]]:
    """All pairs of few columns; of more, each with the next two.

    Examples
    --------
    >>> _pairs([0, 2, 3])
    [(0, 2), (0, 3), (2, 3)]
    >>> len(_pairs(range(10))), len(_pairs(range(100)))
    (20, 0)
    """
    n = len(columns)
    if n <= _FEW_FOR_ALL_PAIRS:
        return list(combinations(columns, 2))
    if n > _MANY_FOR_PAIRS:
        return []
    return [(columns[i], columns[(i + step) % n]) for i in range(n) for step in (1, 2)]


def _known_sizes(sizes: Array) -> tuple[float, float, float]:
    """The smallest, the typical and the largest size."""
    low, high = float(sizes.min()), float(sizes.max())
    return low, float(np.clip(np.exp(np.mean(np.log(sizes))), low, high)), high


def _log_sizes(sizes: Array, known: tuple[float, float, float]) -> Array:
    """Logarithms of sizes over the typical one, no further out than those of the training bags."""
    low, typical, high = known
    return np.round(np.log(np.clip(sizes, low, high) / typical), 6)  # equal ones are equal


def _fit_law(t: Array, inside: Array, n: Array) -> tuple[Array, Array, Array, Array]:
    """μ, β, a and c of each feature, by weighted least squares and the method of moments, in turns."""
    x = _log_sizes(n, _known_sizes(n))[:, None]
    weight = np.full_like(t, 1 / max(float(t.var()), 1e-12))
    for _ in range(3):
        centre, spread, level, slope = _weighted_line(t, x, weight)
        slope *= _believed(slope, spread)
        residual = t - level - slope * (x - centre)
        between, c = _variances(residual, inside, n, weight**2)
        weight = 1 / (between + c / n[:, None])
    return level - slope * centre, slope, between, c


def _weighted_line(t: Array, x: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
    """Centre and weighted squares of x, level at the centre, and slope, of each feature."""
    total = weight.sum(axis=0)
    centre = (weight * x).sum(axis=0) / total
    spread = (weight * (x - centre) ** 2).sum(axis=0)
    level = (weight * t).sum(axis=0) / total
    slope = (weight * (x - centre) * t).sum(axis=0) / np.where(spread > 0, spread, np.inf)
    return centre, spread, level, slope


def _believed(slope: Array, spread: Array) -> float:
    """Share of slopes that is not noise: none unless their squares are twice those of noise.

    ``spread`` are weighted squares, so a slope has the variance 1 / spread.
    """
    found = float(np.mean(slope**2 * spread))
    return max(1 - 2 / found, 0.0) if found > 0 else 0.0


def _variances(
    residual: Array, inside: Array, n: Array, weight: Array, without_own: bool = False
) -> tuple[Array, Array]:
    """Find a and c of each feature; ``without_own``: of each bag and feature, from the other bags."""

    def total(values: Array) -> Array:
        return np.asarray(values.sum(axis=0) - values if without_own else values.sum(axis=0))

    shares = np.maximum(1 - 1 / n, 0.0)[:, None]  # of the variance that points have around the mean of their bag
    c = total(inside) / np.maximum(total(shares), 1e-9)
    c = np.maximum(c, 1 / n.sum())  # what happened to no point may happen to the next
    a = (total(weight * residual**2) - c * total(weight / n[:, None])) / np.maximum(total(weight), 1e-300)
    return np.maximum(a, 1e-8), c
