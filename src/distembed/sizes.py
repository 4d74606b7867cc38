r"""Unequal bag sizes: what they do to features and distances, and distances without it.

Let A(p̂) be the features of a bag of n points of density p, and p̂ its density estimate. Two effects of n remain, however
good the embedding is.

**Noise.** For two independent bags

.. math:: E \|A(\hat p) - A(\hat q)\|^2 = \|E A(\hat p) - E A(\hat q)\|^2 + \mathrm{tr\,Cov}\, A(\hat p)
          + \mathrm{tr\,Cov}\, A(\hat q),

and the last two terms are a floor below which no distance comes, even of bags of one density. For squared Hellinger and
a Gaussian kernel of bandwidth h in l dimensions, Var √p̂ ≈ Var p̂ / (4p) = R / (4 n h^l) with R = (4π)^(-l/2), so

.. math:: \mathrm{tr\,Cov}\, A(\hat p) \approx \frac{R\,|S|}{8\, n\, h^l},

|S| being the volume where p is not small against 1/(n h^l). It is of the order of interesting distances: two bags of 30
points of one normal density have Ĥ² of some .03 to .05, as much as two densities half a deviation apart.
All pairs get the same amount only if all bags have the same size; otherwise small bags look far from everything.

**Bias.** A is nonlinear in p̂, so its expectation depends on n: E √p̂ ≈ √p - Var p̂ / (8 p^(3/2)), a shift in the same
direction for all bags, by an amount of order 1/(n h^l). From bags of 30 to 3,000 points of one density a linear model
reads their log size with an R² of about 0.9, and it will use that wherever size and target are correlated.

Three remedies, which can be combined:

- :class:`~distembed.BlockAverage` removes the bias from features: E A is the same for all sizes, exactly;
- :func:`split_half_distances` removes the noise from squared distances;
- :func:`noise_floor` measures noise and bias together, as a matrix over pairs of sizes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from .bags import Bags, as_bags
from .bags.flat import few
from .bags.point_order import sort_points
from .compute.arrays import Array
from .compute.checks import check_number

__all__ = ["noise_floor", "split_half_distances"]

Seed = int | np.random.RandomState | None


def split_half_distances(
    embedding: Any, X: Any, Y: Any = None, *, n_splits: int = 4, random_state: Seed = None
) -> Array:
    r"""Squared distances between bags without the noise floor.

    Each bag is split at random into two halves, with features A₁ and A₂ and mean Ā = (A₁ + A₂) / 2. Then

    .. math:: \hat d^2_{ij} = \langle A_1^i, A_2^i \rangle + \langle A_1^j, A_2^j \rangle
              - 2 \langle \bar A^i, \bar A^j \rangle,

    each term averaged over random splits. The halves of a bag are independent, and so are different bags, so no term
    holds a product of a noise with itself: d̂² is unbiased for \|\|E A(p̂) - E A(q̂)\|\|², the expectations being those
    of bags of half the size.

    Parameters
    ----------
    embedding : estimator
        A fitted embedding of bags, or a fitted pipeline that ends in one.
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of at least two points of positive weight.
    Y : the same, optional
        Other bags, without those of ``X``; ``X`` itself if not given.
    n_splits : int, default=4
        Random splits over which to average. They lower the noise of splitting, not that of the bags.
    random_state : int, RandomState or None, default=None
        Of the splits.

    Returns
    -------
    ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Squared distances, in the units of the embedding; float32 for float32 points, else float64. Some are negative.
        With ``Y=None`` the matrix is symmetric and its diagonal is zero.

    Notes
    -----
    *Negative values are right.* An estimate that is correct on average for bags of equal densities, whose distance is
    zero, must come out negative about half of the time. Clip at zero for a picture, never before taking means,
    regressions or kernels' bandwidths: what the clip removes is the noise that would have cancelled.

    *The diagonal.* A bag and itself share their noise, for which the formula answers about -\|\|A₁ - A₂\|\|²/2
    instead of 0; with ``Y=None`` the diagonal is therefore set to zero. Bags that ``X`` and ``Y`` have in common get
    the formula's value.

    *What remains.* Noise is removed, the bias of small bags is not: bags of very unequal sizes still differ in E A.
    Pass a fitted :class:`~distembed.BlockAverage` whose blocks are at most half of the smallest bag to remove both.
    Where a bag has an odd number of points, one of them, another in each split, is left out, so halves are equal.
    Points of weight zero count as absent.

    *Cost.* 2 ``n_splits`` embeddings of half of the points and one product of (n_bags, n_features) matrices; memory of
    three such matrices besides the result.

    Examples
    --------
    Pairs of bags of 30 points of one density: the plain squared distance is noise, the mean of the split-half
    estimates is about zero.

    >>> import distembed as de
    >>> from distembed.sizes import split_half_distances
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags(rng.normal(0.5, 0.12, size=(200, 30, 1)).clip(0, 1))
    >>> embedding = de.HDDEmbedding("hellinger").fit(bags)
    >>> A, pairs = embedding.transform(bags), np.triu_indices(200, k=1)
    >>> plain = np.mean([np.sum((A[i] - A[j]) ** 2) for i, j in zip(*pairs)])
    >>> bool(plain > 0.02)
    True
    >>> d2 = split_half_distances(embedding, bags, random_state=0)
    >>> bool(abs(d2[pairs].mean()) < 0.003)
    True
    """
    n_splits = check_number("split_half_distances", "n_splits", n_splits, low=1, integer=True)
    rng = check_random_state(random_state)
    bags = as_bags(X)
    dtype = bags.dtype
    of_x = _split_moments(embedding, bags, n_splits, rng, "X")
    if Y is None:
        d2 = _polarise(*of_x, *of_x)
        np.fill_diagonal(d2, 0.0)
    else:
        others = as_bags(Y)
        dtype = np.result_type(dtype, others.dtype)
        d2 = _polarise(*of_x, *_split_moments(embedding, others, n_splits, rng, "Y"))
    return d2.astype(dtype, copy=False)


def _polarise(own_x: Array, mean_x: Array, own_y: Array, mean_y: Array) -> Array:
    """The matrix own_x + own_y - 2 <mean_x, mean_y>, made in one array; symmetric to the last bit for y = x."""
    d2: Array = mean_x @ mean_y.T
    for row, own in zip(d2, own_x, strict=True):
        row *= -2
        row += own + own_y
    return d2


def _split_moments(
    embedding: Any, bags: Bags, n_splits: int, rng: np.random.RandomState, name: str
) -> tuple[Array, Array]:
    """Means over splits of <A₁, A₂>, shape (n_bags,), and of (A₁ + A₂)/2, shape (n_bags, n_features)."""
    bags = bags.drop_weightless()
    if bags.sizes.min() < 2:
        i = int(np.argmin(bags.sizes))
        raise ValueError(
            f"split_half_distances({name}=...): every bag must have at least 2 points of positive weight to be split, "
            f"got {bags.sizes[i]} in bag {i} (id {few(bags.ids[i : i + 1])}); leave that bag out"
        )
    own = np.zeros(bags.n_bags)
    mean = np.zeros(())
    for _ in range(n_splits):
        first, second = (_features(embedding, half) for half in split_halves(bags, rng))
        own += np.einsum("ij,ij->i", first, second)
        first += second
        mean = mean + first
    return own / n_splits, mean / (2 * n_splits)


def split_halves(bags: Bags, rng: np.random.RandomState) -> tuple[Bags, Bags]:
    """Two disjoint random parts of ⌊n/2⌋ points of each bag; weights and ids follow.

    Examples
    --------
    >>> first, second = split_halves(Bags.from_arrays([np.arange(5.0)]), np.random.RandomState(0))
    >>> len(set(first.points.ravel()) | set(second.points.ravel()))
    4
    """
    bags = sort_points(bags)  # a seed gives the same halves for any order of points
    sizes = bags.sizes
    half = bags.sizes // 2
    owner = np.repeat(np.arange(bags.n_bags), sizes)
    order = np.lexsort((rng.random_sample(bags.n_points), owner))
    rank = np.arange(bags.n_points) - bags.offsets[owner]
    middle = half[owner]
    offsets = np.r_[0, np.cumsum(half)]

    def part(rows: Array) -> Bags:
        weights = None if bags.weights is None else bags.weights[rows]
        return bags.replace(points=bags.points[rows], offsets=offsets, weights=weights)

    return part(order[rank < middle]), part(order[(rank >= middle) & (rank < 2 * middle)])


def noise_floor(
    embedding: Any,
    X: Any,
    sizes: Sequence[int] | ArrayLike,
    *,
    n_repeats: int = 4,
    n_bags: int = 32,
    random_state: Seed = None,
) -> Array:
    r"""Expected squared distance between two bags of the same density, for every pair of sizes.

    For reference bags of density p, drawn from ``X``, the mean over p of

    .. math:: E \|A(\hat p_n) - A(\hat p_{n'})\|^2,

    the two estimates being from independent bags of n and n' points. Bags of these sizes that come out nearer to each
    other than that are not distinguishable.

    Parameters
    ----------
    embedding : estimator
        A fitted embedding of bags, or a fitted pipeline that ends in one.
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags that stand for the densities of interest, the larger the better.
    sizes : sequence of int of length k
        The sizes n.
    n_repeats : int, default=4
        Random draws from each reference bag.
    n_bags : int, default=32
        Reference bags; if ``X`` has more, that many of them are drawn at random.
    random_state : int, RandomState or None, default=None
        Of all draws.

    Returns
    -------
    ndarray of shape (k, k)
        Symmetric, float64; its diagonal is the floor of two bags of equal size.

    Notes
    -----
    Where n + n' is at most the size of a reference bag, two disjoint parts of it are drawn without replacement: two
    independent bags of p, so the answer is unbiased. Otherwise two bags are drawn by a smoothed bootstrap: points of
    the reference bag with replacement, in proportion to their weights, plus Gaussian noise of the embedding's
    ``bandwidth_``, reflected into the unit cube. They are independent bags of a density somewhat smoother than p, which
    changes the floor little, since to first order it depends on n, the bandwidth and the support of p alone. An
    embedding without ``bandwidth_`` in units of the points gets a plain bootstrap, whose density has atoms: it is off
    where n comes near the size of the reference bag.

    Points of weight zero count as absent. Disjoint parts keep the weights of their points; bootstrapped bags have none,
    since they are drawn by weight.

    *Cost.* 2 k embeddings (4 k where both kinds of draws are needed) for each repeat and reference bag; k is the number
    of sizes. Memory of the draws from one reference bag: 2 ``n_repeats`` Σ n points.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.sizes import noise_floor
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags(rng.normal(0.5, 0.12, size=(20, 1000, 1)).clip(0, 1))
    >>> embedding = de.HDDEmbedding("hellinger", bandwidth=0.03).fit(bags)
    >>> noise_floor(embedding, bags, [30, 300], random_state=0).round(3)
    array([[0.042, 0.024],
           [0.024, 0.006]])
    """
    owner = "noise_floor"
    n_repeats = check_number(owner, "n_repeats", n_repeats, low=1, integer=True)
    n_bags = check_number(owner, "n_bags", n_bags, low=1, integer=True)
    counts = np.array([check_number(owner, "sizes", n, low=1, integer=True) for n in np.ravel(np.asarray(sizes))])
    if len(counts) == 0:
        raise ValueError("noise_floor(sizes=...): must hold at least one size, got none; pass e.g. [30, 100]")
    rng = check_random_state(random_state)
    bags = as_bags(X)
    if bags.n_bags > n_bags:
        bags = bags[np.sort(rng.choice(bags.n_bags, n_bags, replace=False))]
    embedding, bags = _behind_scaling(embedding, sort_points(bags.drop_weightless()))
    bandwidth = _bandwidth(embedding, bags)
    total = np.zeros((len(counts), len(counts)))
    for i in range(bags.n_bags):
        disjoint = counts[:, None] + counts <= bags.sizes[i]
        for pairs, smoothed in ((disjoint, False), (~disjoint, True)):
            rows = np.flatnonzero(pairs.any(axis=1))
            if len(rows):
                draws = _draws(bags[i : i + 1], counts[rows], n_repeats, bandwidth, smoothed, rng)
                features = _features(embedding, draws).reshape(n_repeats, 2, len(rows), -1)
                d2 = np.mean([cdist(a, b, "sqeuclidean") for a, b in features], axis=0)
                total[np.ix_(rows, rows)] += np.where(pairs[np.ix_(rows, rows)], (d2 + d2.T) / 2, 0.0)
    return total / bags.n_bags


def _draws(
    bag: Bags, counts: Array, n_repeats: int, bandwidth: Array | None, smoothed: bool, rng: np.random.RandomState
) -> Bags:
    """Bags of every count, from two streams that don't meet in any pair asked for, ``n_repeats`` times.

    Bags of one stream are nested, which only correlates estimates of different pairs of sizes.
    """
    points = bag[0]
    weights = bag.weights_of(0)
    mass = None
    if smoothed:
        streams = [smoothed_bootstrap(points, weights, counts.max(), bandwidth, rng) for _ in range(2 * n_repeats)]
        drawn = [stream[:n] for stream in streams for n in counts]
    else:
        orders = [rng.permutation(len(points)) for _ in range(n_repeats)]
        rows = [way[:n] for order in orders for way in (order, order[::-1]) for n in counts]
        drawn = [points[some] for some in rows]
        mass = None if weights is None else [weights[some] for some in rows]
    return Bags.from_arrays(drawn, weights=mass, columns=bag.columns, categories=bag.categories)


def smoothed_bootstrap(
    points: Array, weights: Array | None, n: int, bandwidth: Array | None, rng: np.random.RandomState
) -> Array:
    """Draw ``n`` points of the reflected Gaussian density estimate of a bag; of the bag itself without a bandwidth.

    A coordinate of bandwidth zero, as of categories, stays as it is.

    Examples
    --------
    >>> x = smoothed_bootstrap(np.array([[0.0], [1.0]]), None, 1000, np.array([0.1]), np.random.RandomState(0))
    >>> x.shape, bool(x.min() >= 0), bool(x.max() <= 1), len(np.unique(x))
    ((1000, 1), True, True, 1000)
    """
    chances = None if weights is None else weights.astype(float) / weights.sum(dtype=float)
    drawn = points[rng.choice(len(points), n, p=chances)]
    if bandwidth is None:
        return drawn
    moved = drawn + rng.normal(size=drawn.shape) * bandwidth
    return np.where(bandwidth > 0, 1 - np.abs(1 - np.mod(moved, 2)), drawn).astype(points.dtype)


def _features(embedding: Any, bags: Bags) -> Array:
    found = embedding.transform(bags)
    if isinstance(found, Bags) or np.ndim(found) != 2 or len(found) != bags.n_bags:
        raise TypeError(
            f"embedding: must return one row of features per bag, but {type(embedding).__name__}.transform returned "
            f"{type(found).__name__}; pass an embedding such as HDDEmbedding, or a pipeline that ends in one"
        )
    return np.array(found, dtype=np.float64)


def _behind_scaling(embedding: Any, bags: Bags) -> tuple[Any, Bags]:
    """Carry bags through the first steps of a pipeline, those that return bags: the bandwidth is in their units."""
    if not isinstance(embedding, Pipeline):
        return embedding, bags
    head = 0
    probe = bags[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # repeated below, about all bags
        while isinstance(probe, Bags) and head < len(embedding):
            head += 1
            probe = embedding[:head].transform(bags[:1])
    head -= 1  # the step that makes features
    return embedding[head:], embedding[:head].transform(bags) if head else bags


def _bandwidth(embedding: Any, bags: Bags) -> Array | None:
    """``bandwidth_`` of the embedding, or of the one inside a block average, if it is in units of these points.

    Of shape (n_dims,), zero in categorical columns.
    """
    inner = embedding[0] if isinstance(embedding, Pipeline) else embedding
    while not hasattr(inner, "bandwidth_") and hasattr(inner, "embedding_"):
        inner = inner.embedding_
    bandwidth = getattr(inner, "bandwidth_", None)
    continuous = [j for j in range(bags.n_dims) if j not in (bags.categories or ())]
    if bandwidth is None or np.shape(bandwidth) != (len(continuous),):
        return None
    points = bags.points[:, continuous]
    widths = np.zeros(bags.n_dims)
    widths[continuous] = bandwidth
    return widths if points.min() >= 0 and points.max() <= 1 else None
