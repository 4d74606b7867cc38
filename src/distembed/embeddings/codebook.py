r"""Bags of words: shares of a bag's points nearest to each of some learned words, embedded by an explicit map.

The words are the centres of k-means over points of all training bags (Sivic and Zisserman 2003; Csurka et al. 2004).
They cut the space into Voronoi cells that are small where points are many, in any number of dimensions, where a
regular histogram would have mostly empty cells.

**Nearest words** are those of float64, at the price of float32. With points and words centred and scaled,
s_j = \|c_j\|²/2 - x·c_j in float32 is off by at most (n_dims + 4) 2^-24 (\|x\| + 1). Where the two lowest are nearer to
each other than twice that, the squared distances are computed again, in float64 and one by one. So the answer depends
neither on the precision of the points nor on which others they share a matrix product with.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from ..bags import Bags
from ..bags.estimators import MAX_FEATURES, refuse_overflow
from ..bags.point_order import order_points
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_number
from ..compute.parallel import bag_slices
from ..compute.registry import storable
from ..density.estimate import shares_of
from ..distances import HomogeneousDistance
from .catalogue import Method, register
from .histogram import MappedShares

MOST_FOR_KMEANS = 50_000  # points; for more, k-means on random parts of them is as good and far faster
_DRAWN_BYTES = 2**22  # of weights at a time; few enough for their sums to keep digits


# --------------------------------------------------------------------------------------------------------------
# Functions on arrays
# --------------------------------------------------------------------------------------------------------------


def draw_evenly(bags: Bags, max_points: int, rng: np.random.RandomState, chunk_bytes: int = _DRAWN_BYTES) -> Bags:
    """At most ``max_points`` points of the bags, as evenly from all of them as their sizes allow.

    Bags of at most q points give all, the others one of each of q equal stretches, q being as large as ``max_points``
    allows. More bags than ``max_points`` give a point each until there are enough, in random order. Where points have
    weights, the stretches are of equal weight, and a heavy point may be drawn more than once. Stretches are those of
    :func:`~distembed.bags.point_order.order_points`: the same points are drawn in whichever order they are given.

    Parameters
    ----------
    bags : Bags
        The bags.
    max_points : int
        At least 1.
    rng : RandomState
        Where draws come from. The chance of a point of a bag is in proportion to its weight.
    chunk_bytes : int
        Of weights at a time.

    Returns
    -------
    Bags
        What was drawn from each bag. Points have their weights where a bag gave all, else equal ones: the draw has
        taken account of weights already.

    Examples
    --------
    >>> bags = Bags.from_arrays([np.zeros(1000), np.ones(3), np.full(50, 2.0)])
    >>> draw_evenly(bags, 40, np.random.RandomState(0)).sizes
    array([18,  3, 18])
    """
    if bags.n_bags > max_points:
        bags = bags[np.sort(rng.choice(bags.n_bags, max_points, replace=False))]
    order = order_points(bags)
    if bags.n_points <= max_points:
        return _take(bags, order, bags.offsets)
    starts = bags.offsets[:-1]
    sizes = bags.sizes
    ordered = np.sort(sizes)
    small = np.append(0, np.cumsum(ordered))[:-1]  # points of all bags smaller than the i-th
    quotas = (max_points - small) // np.arange(len(ordered), 0, -1)  # if it and all larger ones share the rest
    taken = np.minimum(sizes, quotas[np.flatnonzero(quotas < ordered)[0]])
    offsets = np.append(0, np.cumsum(taken))
    place = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], taken)).astype(float)
    place += np.where(np.repeat(taken < sizes, taken), rng.uniform(size=len(place)), 0.5)
    place *= np.repeat(sizes / taken, taken)
    rows = np.minimum(place.astype(np.int64), np.repeat(sizes, taken) - 1) + np.repeat(starts, taken)
    if bags.weights is None:
        return _take(bags, order[rows], offsets)
    ordered_bags = _take(bags, order, bags.offsets)
    for some in bag_slices(sizes, 32, 0, chunk_bytes):
        drawn = slice(offsets[some.start], offsets[some.stop])
        rows[drawn] = _by_weight(ordered_bags[some], place[drawn], taken[some]) + starts[some.start]
    weights = np.where(np.repeat(taken < sizes, taken), 1.0, bags.weights[order[rows]])
    return _take(bags, order[rows], offsets).replace(weights=weights)


def _take(bags: Bags, rows: Array, offsets: Array) -> Bags:
    """Some points of each bag, by their positions among all points; bags of other offsets have lost their ids."""
    weights = None if bags.weights is None else bags.weights[rows]
    return bags.replace(points=bags.points[rows], offsets=offsets, weights=weights, ids=None)


def _by_weight(bags: Bags, place: Array, taken: Array) -> Array:
    """Points at which the weights of each bag, added up, pass place/size of their sum; all points of bags taken whole.

    ``place`` has ``taken`` values in [0, size] for each bag. Returns positions among all points, ndarray of int.
    """
    starts = bags.offsets[:-1]
    sizes = bags.sizes
    shares = bags.shares()
    assert shares is not None
    sums = np.append(0.0, np.cumsum(shares))
    before = sums[starts]
    after = sums[bags.offsets[1:]]
    passed = np.repeat(before, taken) + place * np.repeat((after - before) / sizes, taken)
    found = np.searchsorted(sums[1:], passed, side="right")
    first = np.repeat(starts, taken)
    last = np.repeat(bags.offsets[1:] - 1, taken)
    whole = first + np.minimum(place.astype(np.int64), last - first)
    return np.asarray(np.where(np.repeat(taken < sizes, taken), np.clip(found, first, last), whole))


def learn_words(bags: Bags, n_words: int, rng: np.random.RandomState, most_for_kmeans: int = MOST_FOR_KMEANS) -> Array:
    """Centres of k-means over all points, in which every bag has the same weight.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    n_words : int
        Number of centres.
    rng : RandomState
        Seeds k-means.
    most_for_kmeans : int
        Points; for more, k-means runs on random parts of them.

    Returns
    -------
    ndarray of shape (n_words, n_dims), float64
        Fewer words where there are fewer distinct points; those are then the words.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0, 0.1, 0.1], [5.0, 5.2]])
    >>> np.sort(learn_words(bags, 2, np.random.RandomState(0)), axis=0).round(3).ravel()
    array([0.067, 5.1  ])
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to import: only where needed

    points = bags.points.astype(np.float64)
    # Most bags show at once that they have enough distinct points; to sort all of them takes long.
    if len(np.unique(points[: 4 * n_words], axis=0)) < n_words:
        distinct = np.unique(points, axis=0)
        if len(distinct) <= n_words:
            return distinct
    weights = shares_of(bags)
    centre = points.mean(axis=0)
    points -= centre
    scale = np.abs(points).max()
    points /= scale
    method = KMeans if len(points) <= most_for_kmeans else MiniBatchKMeans
    kmeans = method(n_words, n_init=1, random_state=rng)
    with threadpool_limits(limits=1), warnings.catch_warnings():  # the order of sums depends on the number of threads
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer clusters than words: see below
        found = kmeans.fit(points, sample_weight=weights * (len(points) / weights.sum())).cluster_centers_
    words = found * scale + centre
    distinct = np.unique(words, axis=0)
    return distinct if len(distinct) < len(words) else words


@storable(
    words="finite(k, d)",
    _centre="finite(d)",
    _scale="number",
    _table="finite(d, k)",
    _half_squares="finite(k)",
    _error="number",
)
class NearestWord:
    """The word nearest to each of many points; the first of several.

    Parameters
    ----------
    words : ndarray of shape (n_words, n_dims)
        float64.

    Notes
    -----
    Cost: a matrix product of n_points n_dims n_words in float32 and two passes over its result, which is made a few
    thousand points at a time. Points nearly as far from a second word cost a look at all words in float64: 1 % of them
    in 64 dimensions, fewer in few.

    Examples
    --------
    >>> NearestWord(np.array([[0.0], [1.0], [7.0]]))(np.array([[0.2], [0.5], [4.1]]), Scratch())
    array([0, 0, 2])
    """

    block_values = 2**18  # scores at a time: they stay in the cache
    checked_values = 2**20  # differences of coordinates at a time

    def __init__(self, words: Array) -> None:
        self.words = words
        self._centre = words.mean(axis=0)
        centred = words - self._centre
        largest = float(np.abs(centred).max()) or 1.0
        # So long that no centred word is longer; a power of two, so that divisions by it are exact.
        self._scale = 2.0 ** np.ceil(np.log2(largest) + np.log2(words.shape[1]) / 2)
        scaled = centred / self._scale
        self._table = np.ascontiguousarray(-scaled.T, np.float32)
        self._half_squares = (np.sum(scaled * scaled, axis=1) / 2).astype(np.float32)
        self._error = 2 * (words.shape[1] + 4) * 2.0**-24

    def __call__(self, points: Array, scratch: Scratch) -> Array:
        """Position of the nearest word for points (n_points, n_dims), ndarray of shape (n_points,) of int64."""
        n_words = len(self.words)
        out = np.empty(len(points), np.int64)
        step = max(64, self.block_values // n_words)
        for first in range(0, len(points), step):
            rows = slice(first, min(first + step, len(points)))
            out[rows] = self._block(points[rows], scratch)
        return out

    def _block(self, points: Array, scratch: Scratch) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # points too far away for float32 are looked at again
            x = ((points - self._centre) / self._scale).astype(np.float32)
            lengths = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))
            scores = np.matmul(x, self._table, out=scratch("scores", (len(x), len(self.words)), np.float32))
            scores += self._half_squares
            best = scores.argmin(axis=1)
            rows = np.arange(len(x))
            lowest = scores[rows, best]
            scores[rows, best] = np.inf
            gap = scores.min(axis=1).astype(np.float64) - lowest
            unsure = np.flatnonzero(~(gap > self._error * (lengths + 1)))  # NaN is unsure too
        step = max(1, self.checked_values // self.words.size)
        for first in range(0, len(unsure), step):
            some = unsure[first : first + step]
            best[some] = self._nearest_in_double(points[some])
        return np.asarray(best)

    def _nearest_in_double(self, points: Array) -> Array:
        """Nearest words in float64, one difference at a time."""
        with np.errstate(over="ignore"):
            off = points[:, None, :] / self._scale - self.words / self._scale
            return np.asarray(np.sum(off * off, axis=2).argmin(axis=1))


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


@storable(words_="finite(k, d)", n_words_="k", _nearest="NearestWord")
class CodebookEmbedding(MappedShares):
    r"""Embed bags by their shares of learned words: \|\|φ(h) - φ(g)\|\|² ≈ d²(h, g), for points in any units.

    Words are the centres of k-means over the points of all training bags. A bag's histogram h has the share of its
    weight whose nearest word is each of them.

    Parameters
    ----------
    n_words : int, default=100
        Number of words. Fewer distinct points than that become the words, with a warning.
    kernel : {"js", "chi2", "hellinger", "intersection", "tv", "l2", "linear"} or HomogeneousDistance, default="js"
        The additive kernel by the name of its distance, see :mod:`distembed.distances.histogram_maps`.
    map : {"vedaldi", "gauss", "none"}, default="vedaldi"
        The explicit map, see :func:`distembed.distances.histogram_maps.explicit_map`.
    order : int, optional
        Of the map: 3 for ``"vedaldi"`` and ``"gauss"``, which is 7 and 6 features per word.
    max_points : int, default=200_000
        k-means looks at no more points than that, drawn as evenly from the bags as their sizes allow and, within a
        bag, in proportion to their weights.
    random_state : int, RandomState or None, default=None
        Draws points and seeds k-means.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    words_ : ndarray of shape (n_words, n_dims)
        The words, float64.
    n_words_ : int
        Their number.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Learning.* Every bag has the same weight in k-means, shared among its points by their weights. Up to 50,000 points
    it is scikit-learn's ``KMeans``, beyond that ``MiniBatchKMeans``. Distances are Euclidean: coordinates of different
    units should be scaled first, for instance by :class:`~distembed.UnitCube`.

    *Layout.* A block of n_words features for each feature of the map.

    *Cost* a point: n_dims n_words multiplications in float32, and O(n_features) a bag. Memory: the result and a
    working set of a few megabytes a thread, or what the points of the largest bag need; in ``fit`` a copy of the points
    drawn.

    *Limits.* Points far from all words count for the nearest one. The words depend on the training bags and, because
    k-means finds local optima, on ``random_state``.

    References
    ----------
    Csurka, Dance, Fan, Willamowski, Bray (2004). Visual categorization with bags of keypoints. ECCV workshop.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> bags = Bags.from_arrays([[100.0, 101.0, 900.0, 901.0], [99.0, 101.0, 102.0, 900.0]])
    >>> embedding = CodebookEmbedding(2, "hellinger", random_state=0).fit(bags)
    >>> np.sort(embedding.words_.ravel()).round(1)
    array([100.6, 900.3])
    >>> a, b = embedding.transform(bags)
    >>> round(float(np.sum((a - b) ** 2)), 6), round(1 - 0.125**0.5 - 0.375**0.5, 6)  # shares .5 .5 and .25 .75
    (0.034074, 0.034074)
    """

    def __init__(
        self,
        n_words: int = 100,
        kernel: str | HomogeneousDistance = "js",
        *,
        map: str = "vedaldi",  # noqa: A002
        order: int | None = None,
        max_points: int = 200_000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_words = n_words
        self.kernel = kernel
        self.map = map
        self.order = order
        self.max_points = max_points
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_cells(self, bags: Bags, n_functions: int) -> int:
        """Learn the words."""
        limit = MAX_FEATURES // n_functions
        n_words = check_number(self, "n_words", self.n_words, low=1, high=limit, integer=True)
        remedy = "k-means needs a point a word at least"
        most = check_number(self, "max_points", self.max_points, low=n_words, integer=True, remedy=remedy)
        rng = check_random_state(self.random_state)
        drawn = draw_evenly(bags, most, rng)
        with np.errstate(over="ignore"):  # a bound of the sums behind means, and of the scale of words
            largest = np.maximum(drawn.points.max(), -drawn.points.min()).astype(np.float64)
            refuse_overflow(self, largest * (drawn.n_points + 4 * drawn.n_dims), what="words")
        self.words_ = learn_words(drawn, n_words, rng)
        self.n_words_ = len(self.words_)
        if self.n_words_ < n_words:
            remedy = "lower n_words" if drawn.n_points == bags.n_points else "lower n_words, or raise max_points"
            warnings.warn(
                "CodebookEmbedding: the training bags have fewer distinct points to make words of than n_words, and "
                f"n_words_ is their number; {remedy}",
                UserWarning,
                stacklevel=4,
            )
        self._nearest = NearestWord(self.words_)
        return self.n_words_

    def _cells_of(self, bags: Bags, scratch: Scratch) -> Array:
        return self._nearest(bags.points, scratch)

    def _cell_names(self) -> list[str]:
        return [f"word{j}" for j in range(self.n_words_)]


register(
    Method(
        "codebook-js", CodebookEmbedding, {}, "Jensen-Shannon divergence of words", "n words l", "yes",
        "shifts, rotations, one scale for all", "any", "Csurka et al. 2004",
    )
)  # fmt: skip
