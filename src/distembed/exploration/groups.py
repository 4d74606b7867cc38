"""Groups of bags that are alike: how many, which bag stands for each, and in which columns it differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..bags import Bags
from ..bags.estimators import BagInput, check_bags
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number, pandas_for
from ..compute.registry import storable
from .rows import make_rows

MOST_GROUPS = 8  # that are tried
STRONG = 0.8  # prediction strength of groups that are there
_N_SPLITS = 5
_MOST_DECIDING = 2000  # bags that decide how many groups there are
_MOST_AXES = 20  # principal components in which groups are looked for


@storable
@dataclass(frozen=True)
class GroupColumn:
    """A column in which a group differs from all others.

    Attributes
    ----------
    name : str
        Of the column.
    effect : float
        Mean of the bags of the group minus that of all others, in deviations between bags.
    inside, outside : float
        Means over the bags of the group, and over all others.
    spread : float
        The same difference of the deviations inside of bags: positive where bags of the group are wider.
    """

    name: str
    effect: float
    inside: float
    outside: float
    spread: float

    def __str__(self) -> str:
        if abs(self.effect) >= abs(self.spread):
            return (
                f"{self.name} {'higher' if self.effect > 0 else 'lower'} ({self.inside:.3g} against {self.outside:.3g})"
            )
        return f"{self.name} {'wider' if self.spread > 0 else 'narrower'} inside of bags"


@storable(labels_="int(n)", n_clusters_="k", medoids_="int(k)", strengths_="dict[number]", axes_="PrincipalAxes",
          columns_="list[list[GroupColumn]]", centres_="finite(k, a)")  # fmt: skip
class BagClusters(ClusterMixin, BagInput):
    """Groups of bags that are alike, in scikit-learn's manner for clusters.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of groups. ``"auto"``: the most, up to eight, that are found again in other bags; one if there are none.
    method : {"kmeans", "hdbscan"}, default="kmeans"
        HDBSCAN of scikit-learn finds groups of any shape, leaves bags between them out (label -1), and decides their
        number itself.
    embedding : "ranks", str or embedding, default="ranks"
        What makes rows of bags: bounded functions of ranks, an embedding of the catalogue by name, behind the scaling
        that suits it, or an embedding that takes the points as they are.
    min_cluster_size : int, default=5
        Of HDBSCAN.
    random_state : int, RandomState or None, default=0
        Of the starts of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n_bags,) of int
        Group of each bag, the largest group 0; -1 for those between groups.
    n_clusters_ : int
        Number of groups.
    medoids_ : ndarray of int of shape (number of groups,)
        Position of the bag in the middle of each group.
    strengths_ : dict of int to float
        Prediction strength of each number of groups that was tried; empty if none was.
    columns_ : list of list of GroupColumn
        For each group the columns in which it differs from all others, those that differ most first.
    centres_ : ndarray of shape (number of groups, n_axes)
        Means of the groups.
    axes_ : PrincipalAxes
        Principal components of the rows, in which groups are looked for.
    embedding_ : object
        What makes the rows.

    Notes
    -----
    *How many.* Bags are split in halves, each half is put in k groups, and the groups of one are used to predict those
    of the other: the prediction strength of k is the share of pairs of bags of one group that stay together, for the
    worst group. The largest k with a mean of at least .8 over five splits is taken, and there is always k = 1. Groups
    that merge into each other are not found, which is what is meant: a continuum is not cut into pieces.

    *Model files* hold what places new bags in groups; ``labels_`` and ``medoids_`` of the bags of the fit only with
    ``updatable=True``.

    *Cost.* Rows of all bags, and k-means on 20 principal components; the number is decided by at most 2,000 bags.

    References
    ----------
    Tibshirani and Walther (2005). Cluster validation by prediction strength. Journal of Computational and Graphical
    Statistics.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags([rng.normal(3 * (i % 2), 1, size=(rng.integers(10, 90), 2)) for i in range(60)])
    >>> groups = de.BagClusters().fit(bags)
    >>> groups.n_clusters_, np.bincount(groups.labels_).tolist()
    (2, [30, 30])
    >>> groups.columns_[int(groups.labels_[1])][0].name in ("x0", "x1")
    True
    """

    takes_categories = True

    def __init__(
        self,
        n_clusters: Any = "auto",
        method: str = "kmeans",
        embedding: Any = "ranks",
        min_cluster_size: int = 5,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.embedding = embedding
        self.min_cluster_size = min_cluster_size
        self.random_state = random_state

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        own = set() if updatable else {"labels_", "medoids_"}
        return {name: value for name, value in vars(self).items() if name not in own}

    def __distembed_fits__(self) -> bool:
        steps = getattr(self.embedding_, "steps", [("", self.embedding_)])
        n_rows, n_axes = self.axes_.axes.shape
        return (
            hasattr(self.embedding_, "transform")
            and getattr(steps[0][1], "n_features_in_", self.n_features_in_) == self.n_features_in_
            and getattr(steps[-1][1], "_n_features_out", n_rows) == n_rows
            and self.centres_.shape == (self.n_clusters_, n_axes)
            and len(self.columns_) == self.n_clusters_
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the groups of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        check_choice(self, "method", self.method, ("kmeans", "hdbscan"))
        bags = check_bags(self, X, reset=True)
        if self.n_clusters != "auto":
            check_number(self, "n_clusters", self.n_clusters, low=1, high=bags.n_bags, integer=True)
        self.embedding_ = make_rows(self, self.embedding).fit(bags)
        rows = np.asarray(self.embedding_.transform(bags), np.float64)
        return self.fit_rows(bags, rows)

    def fit_rows(self, bags: Bags, rows: Array) -> Self:
        """Find groups of bags by rows that were made of them already, ndarray of shape (n_bags, n_features)."""
        self.axes_ = PrincipalAxes.of(rows)
        scores = self.axes_.scores(rows)
        self.strengths_: dict[int, float] = {}
        with threadpool_limits(1):  # threads that wait for each other cost more than such small fits
            labels = self._labels(scores)
        self._describe(bags, scores, _largest_first(labels))
        return self

    def _labels(self, scores: Array) -> Array:
        if self.method == "hdbscan":
            size = min(int(self.min_cluster_size), max(2, len(scores) // 2))
            return np.asarray(HDBSCAN(min_cluster_size=size, copy=True).fit_predict(scores))
        return self._by_means(scores)

    def _by_means(self, scores: Array) -> Array:
        rng = check_random_state(self.random_state)
        k = self.n_clusters
        if k == "auto":
            some = scores[drawn_rows(len(scores), _MOST_DECIDING)]
            self.strengths_ = strengths(some, rng)
            k = max([1, *(each for each, value in self.strengths_.items() if value >= STRONG)])
        return np.asarray(KMeans(k, n_init=10, random_state=rng).fit_predict(scores))

    def _describe(self, bags: Bags, scores: Array, labels: Array) -> None:
        self.labels_ = labels
        self.n_clusters_ = int(labels.max()) + 1
        members = [np.flatnonzero(labels == k) for k in range(self.n_clusters_)]
        self.centres_ = np.array([scores[rows].mean(axis=0) for rows in members]).reshape(len(members), scores.shape[1])
        self.medoids_ = np.array([medoid(scores, rows) for rows in members], int)
        self.columns_ = columns_that_differ(bags, labels)

    def predict(self, X: Any) -> Array:
        """The group whose mean is nearest to each bag, ndarray of shape (n_bags,) of int."""
        check_is_fitted(self, "axes_")
        bags = check_bags(self, X, reset=False)
        return self.nearest_groups(self.axes_.scores(np.asarray(self.embedding_.transform(bags), np.float64)))

    def nearest_groups(self, scores: Array) -> Array:
        """The group whose mean is nearest to each row of coordinates on ``axes_``."""
        if not self.n_clusters_:
            return np.full(len(scores), -1)
        return np.asarray(_nearest(scores, self.centres_))

    def to_frame(self) -> Any:
        """A pandas data frame of one row per group: bags, position of the medoid, and how it differs."""
        pandas = pandas_for("BagClusters.to_frame")
        check_is_fitted(
            self,
            "labels_",
            msg="BagClusters.to_frame: the groups of the bags of the fit are missing; fit, or save with updatable=True",
        )
        counts = [int((self.labels_ == k).sum()) for k in range(self.n_clusters_)]
        differs = ["; ".join(map(str, columns[:3])) for columns in self.columns_]
        return pandas.DataFrame({"bags": counts, "medoid": self.medoids_, "differs": differs})


@storable(centre="finite(f)", low="finite(f)", high="finite(f)", axes="finite(f, a)", variances="finite(_)")
@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Principal components of rows, of which a few wild values do not decide.

    Attributes
    ----------
    centre : ndarray of shape (n_features,)
    low, high : ndarray of shape (n_features,)
        Where features are cut off.
    axes : ndarray of shape (n_features, n_axes)
    variances : ndarray
        Of all components.
    """

    centre: Array
    low: Array
    high: Array
    axes: Array
    variances: Array

    @classmethod
    def of(cls, rows: Array, most: int = _MOST_AXES) -> PrincipalAxes:
        """Look at rows, with values cut off at five times the quartiles around the median.

        Examples
        --------
        >>> PrincipalAxes.of(np.array([[0.0, 0.0], [3.0, 1.0], [6.0, 2.0], [9.0, 3.0]])).axes.shape
        (2, 2)
        """
        some = rows[drawn_rows(len(rows), 5000)]
        quarters = np.quantile(some, [0.25, 0.5, 0.75], axis=0)
        spread = quarters[2] - quarters[0]
        spread = np.where(spread > 0, spread, some.std(axis=0))
        low = quarters[1] - 5 * spread
        high = quarters[1] + 5 * spread
        cut = np.clip(some, low, high)
        centre = cut.mean(axis=0)
        _, singular, right = np.linalg.svd(cut - centre, full_matrices=False)
        axes = right[:most].T
        signs = np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
        return cls(centre, low, high, axes * signs, singular**2)

    def scores(self, rows: Array) -> Array:
        """Coordinates of rows, ndarray of shape (n_bags, n_axes)."""
        return np.asarray((np.clip(rows, self.low, self.high) - self.centre) @ self.axes)


def drawn_rows(n: int, most: int) -> Array:
    """Positions of at most this many of n rows, drawn at random."""
    return np.arange(n) if n <= most else np.sort(np.random.RandomState(0).permutation(n)[:most])


def strengths(scores: Array, rng: Any) -> dict[int, float]:
    """Prediction strength of 2, 3, ... groups.

    Examples
    --------
    >>> x = np.repeat([0.0, 9.0], 30)[:, None] + np.random.default_rng(0).normal(size=(60, 1))
    >>> found = strengths(x, np.random.RandomState(0))
    >>> found[2] > 0.9, max(found) <= 8
    (True, True)
    """
    n = len(scores)
    found = {}
    for k in range(2, min(MOST_GROUPS, n // 8) + 1):
        values = []
        for _ in range(_N_SPLITS):
            order = rng.permutation(n)
            halves = scores[order[: n // 2]], scores[order[n // 2 :]]
            fits = [KMeans(k, n_init=3, random_state=rng).fit(half) for half in halves]
            values += [_stay_together(fits[1 - i].predict(half), fits[i].labels_, k) for i, half in enumerate(halves)]
        found[k] = float(np.mean(values))
        if found[k] < 0.4 and k > 4:
            break
    return found


def _stay_together(predicted: Array, labels: Array, k: int) -> float:
    """The share of pairs of bags of one group that are predicted into one group, for the worst group."""
    shares = []
    for group in range(k):
        counts = np.bincount(predicted[labels == group])
        n = int(counts.sum())
        shares.append(1.0 if n < 2 else float((counts * (counts - 1)).sum() / (n * (n - 1))))
    return min(shares)


def _largest_first(labels: Array) -> Array:
    """Labels numbered by the size of their group; -1 stays."""
    names, counts = np.unique(labels[labels >= 0], return_counts=True)
    order = {int(name): k for k, name in enumerate(names[np.argsort(-counts, kind="stable")])}
    return np.array([order.get(int(each), -1) for each in labels])


def _nearest(scores: Array, centres: Array) -> Array:
    d2 = (scores**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * scores @ centres.T
    return np.asarray(d2.argmin(axis=1))


def medoid(scores: Array, rows: Array) -> int:
    """Position of the bag with the least sum of distances to the others of its group, of at most 1,000 of them."""
    some = rows[drawn_rows(len(rows), 1000)]
    x = scores[some]
    d2 = np.maximum((x**2).sum(axis=1)[:, None] + (x**2).sum(axis=1) - 2 * x @ x.T, 0.0)
    return int(some[np.sqrt(d2).sum(axis=1).argmin()])


def columns_that_differ(bags: Bags, labels: Array, most: int = 5) -> list[list[GroupColumn]]:
    """For each group the columns in which its bags differ from all others.

    Examples
    --------
    >>> bags = Bags.from_arrays([[[0.0, 0.0]], [[0.0, 0.1]], [[5.0, 0.0]], [[5.0, 0.1]]], columns=["u", "v"])
    >>> [str(columns[0]) for columns in columns_that_differ(bags, np.array([0, 0, 1, 1]))]
    ['u lower (0 against 5)', 'u higher (5 against 0)']
    """
    means, deviations = means_and_deviations(bags)
    names = bags.named_parts().columns or ()
    found: list[list[GroupColumn]] = []
    for k in range(int(labels.max()) + 1 if len(labels) else 0):
        inside = labels == k
        if inside.all():
            found.append([])
            continue
        effects, spreads = (_effect(values, inside) for values in (means, deviations))
        order = np.argsort(-np.maximum(np.abs(effects), np.abs(spreads)), kind="stable")[:most]
        found.append(
            [
                GroupColumn(
                    str(names[j]),
                    float(effects[j]),
                    float(means[inside, j].mean()),
                    float(means[~inside, j].mean()),
                    float(spreads[j]),
                )
                for j in order
            ]
        )
    return found


def _effect(values: Array, inside: Array) -> Array:
    gap = values[inside].mean(axis=0) - values[~inside].mean(axis=0)
    spread = values.std(axis=0)
    return np.asarray(np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 1e-12 * np.abs(values).max()))


def means_and_deviations(bags: Bags) -> tuple[Array, Array]:
    """Means and deviations of columns inside of each bag, two ndarrays of shape (n_bags, n_columns)."""
    shares = bags.shares()
    shares = np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    means = np.empty((bags.n_bags, bags.n_dims))
    deviations = np.empty_like(means)
    for j in range(bags.n_dims):
        x = bags.points[:, j].astype(np.float64)
        means[:, j] = np.bincount(owner, shares * x, minlength=bags.n_bags)
        deviations[:, j] = np.sqrt(np.bincount(owner, shares * (x - means[owner, j]) ** 2, minlength=bags.n_bags))
    return means, deviations
