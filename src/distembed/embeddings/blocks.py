r"""Block averages: features whose expectation does not depend on the size of the bag.

The features A(p̂) of a bag are nonlinear in its density estimate, so their expectation depends on the number n of its
points: E √p̂ ≈ √p - Var p̂ / (8 p^(3/2)), with Var p̂ of order 1/(n h^l). Small bags are all shifted in the same
direction, and a linear model reads their size off it (:mod:`distembed.sizes` has the formulas). The average over blocks
of exactly m points,

.. math:: \bar A(\text{bag}) = \frac{1}{k} \sum_{b=1}^{k} A(\hat p_{\text{block}\ b}), \qquad k = \lceil n / m \rceil,

has E Ā = E A(p̂_m) whatever n is, exactly and not to first order, because each block by itself is m independent points
of p. Its noise still falls with n.

**Cutting.** A block must be a random subset of its bag, must not depend on the order of the points, and must not depend
on other bags. So the points of a bag are put in the order of a hash of their coordinates, then permuted by random keys
whose seed is a hash of the whole bag; then they are cut. A permutation that depended on n alone would give the same
ranks to the same block in every bag of that size, and those are not m independent points.

Cost: two sorts of the points of each bag, and k embeddings of m points instead of one of n.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import BagEmbedding, check_embedding, count_features
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number
from ..compute.parallel import bag_slices
from ..compute.registry import storable
from .symmetric import not_passed_on

MIN_AUTO_SIZE = 10  # block_size="auto" goes no lower: the density of fewer points is all noise
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


# --------------------------------------------------------------------------------------------------------------
# Functions on arrays
# --------------------------------------------------------------------------------------------------------------


def mix(x: Array) -> Array:
    """Scramble 64-bit integers one to one: a step of the generator SplitMix64 (Steele, Lea and Flood 2014).

    Examples
    --------
    >>> mix(np.zeros(1, dtype=np.uint64))  # the first output of the generator with seed 0
    array([16294208416658607535], dtype=uint64)
    """
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def hash_points(points: Array, dtype: DTypeLike) -> Array:
    """One 64-bit integer a point, from the bits of its coordinates in ``dtype``; equal points have equal hashes.

    Examples
    --------
    >>> a, b, c = hash_points(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]]), np.float64)
    >>> bool(a == b), bool(a == c)
    (True, False)
    """
    bits = np.uint32 if np.dtype(dtype) == np.float32 else np.uint64
    out = np.zeros(len(points), dtype=np.uint64)
    for column in points.T:
        with np.errstate(over="ignore"):  # float32 can't hold it: hashed as infinity
            values = column.astype(dtype) + 0.0  # -0.0 becomes 0.0
        out = mix(out ^ values.view(bits))
    return out


def shuffle(bags: Bags, seed: int) -> Array:
    """Permutation of the points of each bag, random but the same in whichever order they come.

    It depends on ``seed`` and on the points of the bag, and on nothing else: not on the scale of their weights, nor (up
    to points that float32 can't tell apart) on whether they are float32 or float64.

    Parameters
    ----------
    bags : Bags
        The bags.
    seed : int
        In [0, 2^63).

    Returns
    -------
    ndarray of shape (n_points,)
        Positions in ``bags.points``; those of bag i stand at ``offsets[i]:offsets[i + 1]``.

    Examples
    --------
    >>> x = np.arange(5.0)[:, None]
    >>> a, b = Bags(x, [0, 5]), Bags(x[::-1].copy(), [0, 5])
    >>> bool(np.all(a.points[shuffle(a, 0)] == b.points[shuffle(b, 0)]))
    True
    """
    starts = bags.offsets[:-1]
    sizes = bags.sizes
    owner = np.repeat(np.arange(bags.n_bags), sizes)
    hashes = hash_points(bags.points, np.float32)
    keys = [hashes, owner]  # least significant first
    if bags.dtype != np.float32:
        keys.insert(0, hash_points(bags.points, bags.dtype))
    if bags.weights is not None:
        keys.insert(0, bags.weights)
    canonical = np.lexsort(keys)
    rank = (np.arange(bags.n_points) - np.repeat(starts, sizes)).astype(np.uint64)
    own = mix(np.add.reduceat(mix(hashes), starts) ^ mix(sizes.astype(np.uint64) ^ mix(np.array([seed], np.uint64))))
    order = np.lexsort([mix(np.repeat(own, sizes) + rank * _GOLDEN), owner])
    return np.asarray(canonical[order])


def cut(bags: Bags, block_size: int, seed: int) -> tuple[Bags, Array]:
    """Cut each bag into ⌈n / block_size⌉ random blocks of exactly ``block_size`` points; smaller bags are one block.

    Every point is used. If n is not a multiple, the last block is filled up with points of the first ones, none of
    which it holds already, so by itself it is a random subset like all others.

    Parameters
    ----------
    bags : Bags
        The bags, without points of weight zero.
    block_size : int
        m, at least 1.
    seed : int
        Of :func:`shuffle`.

    Returns
    -------
    blocks : Bags
        The blocks, those of one bag after those of another; each has the id of its bag.
    owner : ndarray of shape (n_blocks,)
        Position of the bag of each block, nondecreasing.

    Examples
    --------
    >>> blocks, owner = cut(Bags.from_arrays([np.arange(7.0), np.arange(2.0)]), block_size=3, seed=0)
    >>> blocks.sizes, owner
    (array([3, 3, 3, 2]), array([0, 0, 0, 1]))
    """
    sizes = bags.sizes
    order = shuffle(bags, seed) if (sizes > block_size).any() else np.arange(bags.n_points)
    n_blocks = -(-sizes // block_size)
    owner = np.repeat(np.arange(bags.n_bags), n_blocks)
    lengths = np.minimum(sizes, block_size)[owner]
    used = np.minimum(sizes, block_size) * n_blocks
    place = np.arange(used.sum()) - np.repeat(np.cumsum(used) - used, used)
    # The shuffled points, and from the front again: the last block borrows from the first ones.
    taken = order[np.repeat(bags.offsets[:-1], used) + place % np.repeat(sizes, used)]
    offsets = np.r_[0, np.cumsum(lengths)]
    weights = None if bags.weights is None else bags.weights[taken]
    return bags.replace(points=bags.points[taken], offsets=offsets, weights=weights, ids=bags.ids[owner]), owner


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


@storable(block_size_="b")
class BlockAverage(BagEmbedding):
    r"""Average an embedding over blocks of equal size, so the sizes of bags don't leak into their features.

    Parameters
    ----------
    embedding : estimator
        Any embedding of bags, or a pipeline that ends in one. A clone is fitted on the blocks of the training bags, so
        bandwidth rules see bags of m points.
    block_size : int or "auto", default="auto"
        m, points of a block. ``"auto"``: the size of the smallest training bag, but at least 10.
    random_state : int, RandomState or None, default=0
        Seeds the cutting. The same bag is always cut in the same way by one fitted estimator.

    Attributes
    ----------
    block_size_ : int
        m.
    embedding_ : estimator
        The fitted embedding of blocks.
    n_features_out_ : int
        Number of features.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Why.* Expected features depend on n, as the head of this module says. With 400 bags of 30 to 3,000 points of one
    density, ridge regression predicts log n from the features of :class:`~distembed.HDDEmbedding` with a
    cross-validated R² of 0.87 in one dimension and 0.96 in two; from block averages of it, -0.01 in both.

    *Price.* Features are those of bags of m points: an estimate of the density with the resolution that m points allow,
    though with less noise. A large m is better for the features, a small one includes smaller bags. Bags of fewer than
    m points stay one short block; a warning has their number. Leave them out, or lower ``block_size``.

    *Limits.* Expectations are equal, variances are not: features of small bags scatter more, which a nonlinear model
    may still see. Distances between features still contain that noise; see
    :func:`distembed.sizes.split_half_distances`. Points of weight zero count as absent; the blocks of a bag count
    alike, whatever the weights of their points. Copying every point of a bag makes it a larger bag and so changes its
    blocks, as does a weight of two in place of two points.

    *Cost.* ⌈n/m⌉ embeddings of m points per bag and two sorts of its points. ``fit`` makes one copy of the points,
    ``transform`` works on chunks of bags and of blocks: its working set is that of the embedding and some 50 MB, or
    what the points of the largest bag need.

    Examples
    --------
    Bags of 20 and of 2,000 uniform points. Their mean feature of √p differs, their block averages do not:

    >>> import distembed as de
    >>> from distembed.embeddings.blocks import BlockAverage
    >>> rng = np.random.default_rng(0)
    >>> bags = de.Bags.from_arrays([rng.uniform(size=n) for n in [20, 2000] * 100])
    >>> def gap(A):
    ...     return round(float(abs(A[::2, 0].mean() - A[1::2, 0].mean())), 2)
    >>> embedding = de.HDDEmbedding("hellinger", bandwidth=0.05)
    >>> gap(embedding.fit_transform(bags)), gap(BlockAverage(embedding).fit_transform(bags))
    (0.03, 0.0)
    """

    chunk_bytes = 2**24  # of points, or of features of blocks, at a time

    takes_categories = True  # the embedding decides

    def __init__(
        self,
        embedding: Any,
        block_size: int | str = "auto",
        *,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.embedding = embedding
        self.block_size = block_size
        self.random_state = random_state

    def _fit(self, bags: Bags, y: Any) -> None:
        """Choose the size of blocks and fit the embedding on the blocks of the training bags."""
        check_embedding(self, self.embedding)
        if getattr(self.embedding, "symmetries", None) is not None:
            raise not_passed_on(self)
        if isinstance(self.block_size, str):
            check_choice(self, "block_size", self.block_size, ("auto",))
            self.block_size_ = max(MIN_AUTO_SIZE, int(bags.sizes.min()))
        else:
            remedy = "pass a number of points, or 'auto'"
            self.block_size_ = check_number(self, "block_size", self.block_size, low=1, integer=True, remedy=remedy)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._warn_if_short(bags)
        blocks, owner = cut(bags, self.block_size_, self._seed)
        self.embedding_ = clone(self.embedding).fit(blocks, None if y is None else np.asarray(y)[owner])
        self.n_features_out_ = self._n_features_out = count_features(self.embedding_, blocks)

    def __distembed_fits__(self) -> bool:
        return self.block_size_ >= 1 and self.n_features_out_ == self._n_features_out

    def _warn_if_short(self, bags: Bags) -> None:
        if bags.sizes.min() < self.block_size_:
            warnings.warn(
                "BlockAverage: some bags have fewer points than a block (block_size_) and stay one short block, so "
                "their size shows in their features; leave them out, or fit with a smaller block_size",
                UserWarning,
                stacklevel=4,
            )

    def _transform(self, bags: Bags) -> Array:
        """Mean features of the blocks of each bag, a chunk of bags at a time."""
        bags = bags.drop_weightless()
        self._warn_if_short(bags)
        out = np.empty((bags.n_bags, self.n_features_out_), bags.dtype)
        point_bytes = bags.dtype.itemsize * bags.n_dims + 64  # hashes, keys and positions
        # Errors name a bag: its number must not depend on the chunk.
        named = bags.replace(ids=bags.ids)
        for rows in bag_slices(bags.sizes, point_bytes, 8 * self.n_features_out_, self.chunk_bytes):
            out[rows] = self._average(*cut(named[rows], self.block_size_, self._seed))
        return out

    def _average(self, blocks: Bags, owner: Array) -> Array:
        """Mean features of the blocks of each owner, float64, a bounded number of blocks at a time."""
        n_bags = int(owner[-1]) + 1
        total = np.zeros((n_bags, self.n_features_out_))
        step = max(1, self.chunk_bytes // (8 * self.n_features_out_))
        for first in range(0, blocks.n_bags, step):
            rows = slice(first, min(first + step, blocks.n_bags))
            features = np.asarray(self.embedding_.transform(blocks[rows]))
            starts = np.flatnonzero(np.diff(owner[rows], prepend=-1))
            total[owner[rows][starts]] += np.add.reduceat(features, starts, axis=0, dtype=np.float64)
        total /= np.bincount(owner, minlength=n_bags)[:, None]
        return total

    def _feature_names(self) -> Iterable[str]:
        """Those of the embedding."""
        names: Iterable[str] = self.embedding_.get_feature_names_out()
        return names
