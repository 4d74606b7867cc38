r"""Statistics of each column: mean, deviation and quantiles, standardised over the training bags.

What a careful analyst would compute first, and a strong baseline: with a forest or a kernel machine behind it, it beats
densities on many tables with few bags and many columns.

*Cost.* n log n per column, to sort; no loop over bags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.estimators import BagEmbedding, Writer, refuse_overflow
from ..bags.moments import own_moments
from ..compute.arrays import Array, Scratch
from ..compute.parallel import bag_slices, run_chunks
from ..compute.registry import storable
from ..scaling.standardize import mean_and_deviation
from .catalogue import Method, register


def bag_quantiles(bags: Bags, probabilities: Array) -> Array:
    """Quantiles of each column of each bag, ndarray of shape (n_bags, n_probabilities, n_dims).

    These are NumPy's, of points that may have weights: values in increasing order, each as often as it is heavier than
    the lightest one, stand at equal steps from 0 to 1, and quantiles are linear between them. So copies of all points
    change nothing, and weights count as copies. With masses m of the distinct values, F their sums and g the least
    mass, a value is the quantile from F(x-) / (1 - g) to (F(x) - g) / (1 - g).

    Bags of one size are sorted together, all columns at once.

    Examples
    --------
    >>> bag_quantiles(Bags.from_arrays([[0.0, 10.0], [7.0]]), np.array([0.0, 0.5, 1.0]))[:, :, 0]
    array([[ 0.,  5., 10.],
           [ 7.,  7.,  7.]])
    """
    found = np.empty((bags.n_bags, len(probabilities), bags.n_dims))
    by_size = np.argsort(bags.sizes, kind="stable")
    for rows in np.split(by_size, np.flatnonzero(np.diff(bags.sizes[by_size])) + 1):
        some = bags[rows]
        n = some.n_points // len(rows)
        shares = some.shares()
        x = np.array(some.points.reshape(len(rows), n, -1).swapaxes(1, 2), np.float64, order="C").reshape(-1, n)
        if shares is None:
            x.sort()
            quantiles = _of_sorted(x, probabilities)
        else:
            order = np.argsort(x)
            mass = np.repeat(shares.reshape(-1, n), bags.n_dims, axis=0)
            x, mass = (np.take_along_axis(each, order, 1) for each in (x, mass))
            quantiles = _of_jumps(x, mass, probabilities)
        found[rows] = quantiles.reshape(len(rows), bags.n_dims, -1).swapaxes(1, 2)
    return found


def _of_sorted(x: Array, probabilities: Array) -> Array:
    """Quantiles of rows of n increasing values each, ndarray of shape (n_rows, n_probabilities)."""
    n = x.shape[1]
    position = (n - 1) * probabilities
    left = position.astype(int)
    right = np.minimum(left + 1, n - 1)
    found = x[:, left] + (position - left) * (x[:, right] - x[:, left])
    tied = np.zeros((len(x), n + 1), bool)
    tied[:, 1:-1] = x[:, 1:] == x[:, :-1]
    copied = (tied[:, 1:] | tied[:, :-1]).all(axis=1)  # no value is there once
    if copied.any():
        found[copied] = _of_jumps(x[copied], np.full((np.count_nonzero(copied), n), 1 / n), probabilities)
    return np.asarray(found)


def _of_jumps(x: Array, mass: Array, probabilities: Array) -> Array:
    """Quantiles of rows of values whose masses sum to one in each row."""
    new = np.ones(x.shape, bool)
    new[:, 1:] = x[:, 1:] != x[:, :-1]
    first = np.flatnonzero(new)  # of equal values
    row = first // x.shape[1]
    x = x.ravel()[first]
    upto = np.cumsum(mass, axis=1).ravel()[np.append(first[1:], new.size) - 1]
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    ends = np.append(starts[1:], len(x)) - 1
    below = np.append(0.0, upto[:-1])
    below[starts] = 0.0
    least = np.minimum.reduceat(upto - below, starts)[:, None]
    place = probabilities * (upto[ends][:, None] - least)
    at = np.searchsorted(row + below, np.arange(len(starts))[:, None] + place, side="right") - 1
    at = np.clip(at, starts[:, None], ends[:, None])
    part = np.clip((place - upto[at]) / np.where(least > 0, least, 1.0) + 1, 0, 1)
    return np.asarray(x[at] + part * (x[np.minimum(at + 1, ends[:, None])] - x[at]))


def quantile_slopes(column: Array, weights: Array | None, shares: Array, probabilities: Array) -> Array:
    """What each point of a bag changes in the quantiles of one column, ndarray of shape (n_points, n_probabilities).

    It is the difference that the point makes, left out, times (1 - w) / w for a share of w. Points on one side of a
    quantile make the same one, but for the two next to it: one is left out for all of them.

    Parameters
    ----------
    column : ndarray of shape (n_points,)
        Values.
    weights, shares : ndarray of shape (n_points,)
        Of points; weights may be None.
    probabilities : ndarray of shape (n_probabilities,)
        Of the quantiles.

    Examples
    --------
    >>> quantile_slopes(np.arange(5.0), None, np.full(5, 0.2), np.array([0.5])).ravel()
    array([-2., -2.,  0.,  2.,  2.])
    """
    n = len(column)
    found = np.zeros((n, len(probabilities)))
    order = np.argsort(column, kind="stable")
    order = order[shares[order] > 0]
    if len(order) < 2:
        return found
    ranks = np.arange(len(order))
    at = np.searchsorted(np.cumsum(shares[order]), probabilities)
    alone = np.unique(np.clip(at[:, None] + np.arange(-2, 3), 0, len(order) - 1))
    chunk = np.searchsorted(alone, ranks, side="left") + np.searchsorted(alone, ranks, side="right")
    kinds, first, count = np.unique(chunk, return_index=True, return_counts=True)
    left_out = order[first + count // 2]
    rest = [np.delete(np.arange(n), k) for k in left_out]
    taken = np.concatenate(rest)
    offsets = np.arange(len(rest) + 1) * (n - 1)
    others = Bags.trusted(column[taken, None], offsets, None if weights is None else np.float64(weights[taken]))
    whole = Bags.trusted(column[:, None], np.array([0, n]), None if weights is None else np.float64(weights))
    gap = bag_quantiles(whole, probabilities)[:, :, 0] - bag_quantiles(others, probabilities)[:, :, 0]
    gap *= ((1 - shares[left_out]) / shares[left_out])[:, None]
    found[order] = gap[np.searchsorted(kinds, chunk)]
    return found


@storable(_probabilities="finite(q)", mean_="finite(m)", scale_="finite(m)")
class StatisticsEmbedding(BagEmbedding):
    r"""Embed bags by statistics of each column: mean, deviation and quantiles, standardised over training bags.

    Parameters
    ----------
    quantiles : sequence of float, default=(0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
        Probabilities in [0, 1].
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and deviation of each statistic over the training bags; 1 where it is constant.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    A row holds (t_k - mean_k) / scale_k for the statistics t of all columns: all means, all deviations, then each
    quantile of all columns. So no units matter, and squared distances count every statistic alike.

    Examples
    --------
    >>> import distembed as de
    >>> bags = [[0.0, 1.0, 2.0], [0.0, 5.0], [4.0, 4.0, 7.0]]
    >>> de.StatisticsEmbedding(quantiles=[0.5]).fit_transform(bags).round(2)
    array([[-1.11, -1.09, -1.22],
           [-0.2 ,  1.32,  0.  ],
           [ 1.31, -0.23,  1.22]])
    """

    chunk_bytes = 2**24  # that a thread works on at a time

    def __init__(
        self, *, quantiles: Sequence[float] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0), n_jobs: int | None = None
    ) -> None:
        self.quantiles = quantiles
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: Any) -> None:
        self._probabilities = np.asarray(self.quantiles, np.float64)
        inside = (self._probabilities >= 0) & (self._probabilities <= 1)
        if self._probabilities.ndim != 1 or not inside.all():
            raise ValueError(
                f"StatisticsEmbedding(quantiles=...): must be probabilities in [0, 1], got {self.quantiles!r}; pass a "
                "list such as [0.25, 0.5, 0.75]"
            )
        self._n_features_out = (2 + len(self._probabilities)) * bags.n_dims
        found = np.empty((bags.n_bags, self._n_features_out))

        def write(rows: slice, scratch: Scratch) -> None:
            found[rows] = self._statistics(bags[rows])

        run_chunks(write, self._chunks(bags), self.n_jobs)
        refuse_overflow(self, found, what="statistics")
        self.mean_, spread = mean_and_deviation(found, None)
        self.scale_ = np.where(spread > 1e-12 * np.abs(self.mean_), spread, 1.0)

    def __distembed_fits__(self) -> bool:
        inside = (self._probabilities >= 0) & (self._probabilities <= 1)
        return bool(inside.all()) and self._n_features_out == (2 + len(inside)) * self.n_features_in_

    def _statistics(self, bags: Bags) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
            means, deviations = own_moments(bags, "deviation")
            quantiles = bag_quantiles(bags, self._probabilities).reshape(bags.n_bags, -1)
        return np.hstack([means, np.asarray(deviations), quantiles])

    def _chunks(self, bags: Bags) -> list[slice]:
        return bag_slices(bags.sizes, 64 * bags.n_dims, 8 * self._n_features_out, self.chunk_bytes)

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        def write(some: Bags, out: Array, scratch: Scratch) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                out[...] = (self._statistics(some) - self.mean_) / self.scale_
            refuse_overflow(self, out)

        return write, self._chunks(bags)

    def weight_slopes(self, bag: Bags) -> Array:
        """Derivatives of the row of one bag in the weights of its points, ndarray of shape (n_points, n_features).

        Those of means and deviations are exact. Quantiles have the difference that a point makes, left out: it is the
        same for all points on one side of the quantile, but for its neighbours.
        """
        x = np.asarray(bag.points, np.float64)
        shares = bag.shares()
        shares = np.full(len(x), 1 / len(x)) if shares is None else shares
        found = np.zeros((2 + len(self._probabilities), *x.shape[::-1]))
        mean = shares @ x
        deviation = np.sqrt(shares @ (x - mean) ** 2)
        found[0] = (x - mean).T
        squares = ((x - mean) ** 2 - deviation**2).T
        found[1] = np.divide(squares, 2 * deviation[:, None], out=np.zeros_like(squares), where=deviation[:, None] > 0)
        if len(self._probabilities):
            for j, column in enumerate(x.T):
                found[2:, j] = quantile_slopes(column, bag.weights, shares, self._probabilities).T
        return np.asarray(found.reshape(-1, len(x)).T / self.scale_)

    def _feature_names(self) -> Iterable[str]:
        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        kinds = ["mean", "deviation", *(f"quantile{q:g}" for q in self._probabilities)]
        return [f"{kind}_{column}" for kind in kinds for column in columns]


register(
    Method(
        "statistics", StatisticsEmbedding, {}, "squared distance of standardised means, deviations and quantiles",
        "n l log n", "yes", "shifts and scales of a coordinate", "any", "textbook",
    )
)  # fmt: skip
