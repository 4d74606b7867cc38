r"""Divergences between bags from distances to nearest neighbours, without any density estimate.

For point i of bag p, ρ is the distance to its k-th neighbour among the other n - 1 points of p, and ν that to its k-th
neighbour among the m points of q. Then k / ((n-1) c ρ^d) and k / (m c ν^d), with c the volume of the unit ball,
estimate p and q at that point. Neither converges for fixed k, but (n-1) c ρ^d p and m c ν^d q tend to independent
Gamma(k) variables, so the bias of the mean over a bag is a known constant:

.. math::

    KL(p, q) &= \frac dn \sum_i \log\frac{ν_i}{ρ_i} + \log\frac m{n-1}, \\
    \int p^a q^{1-a} &= \frac{Γ(k)^2}{Γ(k-a+1) Γ(k+a-1)}
        \frac1n \sum_i \Bigl(\frac{(n-1) ρ_i^d}{m ν_i^d}\Bigr)^{1-a}, \\
    \int p^2 &= \frac1n \sum_i \frac{k-1}{(n-1) c ρ_i^d}, \qquad \int pq = \frac1n \sum_i \frac{k-1}{m c ν_i^d}.

All points of all bags of X are looked up in one bag of Y at a time, and sums over bags are one reduction: no loop over
pairs. Sums are taken of logarithms, so nothing overflows on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import digamma, gammaln

from ..bags import Bags
from ..compute.arrays import Array, Scratch
from ..compute.checks import InputError, check_choice, check_flag, check_number
from ..compute.parallel import run_chunks
from ..compute.progress import Progress, progress_of
from ..compute.registry import storable
from .pairs import number_or_nan, read_groups

DIVERGENCES = ("kl", "renyi:<a>", "tsallis:<a>", "bc", "hellinger", "l2", "linear")
SIMILARITIES = ("bc", "linear")  # of these, kernels: large where bags are alike
DEFAULT_K = 4
_BLOCK_POINTS = 2**15  # looked up at a time
_FEWEST_TASKS = 8
_LARGEST_LOG = 600.0  # e^600 = 1e260: sums and differences of such values are still finite
# A tree pays for itself up to three dimensions, and beyond for bags of more than 16 · 2^d points; in others it looks at
# so many points that a product of matrices, which looks at all, is faster (measured for 200 and 2,000 points).
_TREE_DIMS = 3
_TREE_POINTS = 16
_BLOCK_PAIRS = 2**18  # distances at a time
_CANCELLED = 1e-3  # of the size of its terms: a squared distance that has lost three digits
_EPS = float(np.finfo(np.float64).eps)


class Kind(NamedTuple):
    """A divergence: its name without the exponent, and the exponent a of p in ∫ p^a q^(1-a)."""

    name: str
    a: float

    @property
    def least_k(self) -> int:
        """The smallest k at which the mean over Gamma variables is finite and positive."""
        if self.name == "kl":
            return 1
        return 2 if self.name in ("l2", "linear") else math.floor(abs(self.a - 1)) + 1


@storable
def knn(
    X: Any,
    Y: Any = None,
    divergence: str = "kl",
    k: int = DEFAULT_K,
    *,
    clamp: bool = False,
    n_jobs: int | None = None,
    progress: Progress = False,
) -> Array:
    """Divergences between bags from the distances of points to their k-th nearest neighbours.

    One divergence for one k, see :func:`knn_many` for several in the time of one, and for all Notes about them.

    Parameters
    ----------
    X, Y, clamp, n_jobs, progress
        As in :func:`knn_many`.
    divergence : str, default="kl"
        ``"kl"``, ``"renyi:<a>"``, ``"tsallis:<a>"``, ``"bc"``, ``"hellinger"``, ``"l2"`` or ``"linear"``.
    k : int, default=4
        Which neighbour. More: less variance and more bias.

    Returns
    -------
    ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        float64.

    Examples
    --------
    >>> from distembed.divergences import knn
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(0, 1, size=20_000), rng.normal(1, 1, size=20_000)]
    >>> knn(bags).round(1)  # the true value is 1/2
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    return _estimates("knn", X, Y, [divergence], [k], clamp, n_jobs, progress)[divergence, k]


def knn_many(
    X: Any,
    Y: Any = None,
    divergences: Iterable[str] = ("kl",),
    ks: Iterable[int] = (DEFAULT_K,),
    *,
    n_jobs: int | None = None,
    clamp: bool = False,
    progress: Progress = False,
) -> dict[tuple[str, int], Array]:
    r"""Several divergences between bags, for several k, from one search for neighbours.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of at least two points, in any units.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    divergences : sequence of str, default=("kl",)
        Of the densities p and q of rows and columns:

        - ``"kl"``: ∫ p log(p/q), in nats;
        - ``"renyi:<a>"``: log(∫ p^a q^(1-a)) / (a - 1), e.g. ``"renyi:0.9"``, for a > 0 but 1;
        - ``"tsallis:<a>"``: (∫ p^a q^(1-a) - 1) / (a - 1);
        - ``"bc"``: the coefficient of Bhattacharyya, ∫ √(pq);
        - ``"hellinger"``: the squared distance 1 - ∫ √(pq);
        - ``"l2"``: the squared distance ∫ (p - q)²;
        - ``"linear"``: ∫ pq.
    ks : sequence of int, default=(4,)
        Which neighbours: at least 2 for ``"l2"`` and ``"linear"``, more than \|a - 1\| for an exponent a.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.
    clamp : bool, default=False
        Whether to clip estimates to the range of the divergence: [0, 1] for ``"bc"`` and ``"hellinger"``,
        [0, 1/(1 - a)] for ``"tsallis:<a>"`` with a < 1, [0, ∞) for the others.
    progress : bool or callable, default=False
        Whether to show on standard error how many pairs of bags are done. A callable is called as ``progress(done,
        total)``.

    Returns
    -------
    dict of (str, int) to ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        One float64 matrix for every divergence and k.

    Notes
    -----
    *Raw estimates* leave the range of the divergence: those of equal densities scatter around zero. They are not
    clipped by default, because means of raw estimates tend to the truth, and means of clipped ones do not.

    *No matrix is symmetric*, not even for symmetric divergences: the mean is over points of the row's bag. ``(D +
    D.T) / 2`` is symmetric, and has less variance.

    *The diagonal.* With ``Y=None`` a point is not its own neighbour. A bag against itself has ρ = ν, the same density
    twice: 1 for ``"bc"``, ∫ p² for ``"linear"``, and 0 for the others. With ``Y``, equal bags are taken for different
    ones, and a point that stands in both is its own nearest neighbour there.

    *Small bags.* A bag of n <= k points is used with k = n - 1, and constants are those of the two k in use. Bags of
    one point are refused.

    *Copies.* A distance of zero is taken for the smallest positive distance between points of the bag in which
    neighbours are looked for. If all of them are equal, it is 2^-52 of the largest coordinate of all bags, rounded up
    to a power of two: densities of such a bag are huge, but finite. Many copies mean that there is no density; values
    then mean little. Values above 1e260 become 1e260.

    *Weights* have no meaning for a k-th neighbour: they are refused unless all points of a bag weigh the same. Points
    of weight zero are as if absent.

    *Units.* Another unit, or a rotation, changes no value but those of ``"l2"`` and ``"linear"``, which are in units of
    density. Coordinates of different spread should be brought to the same: neighbours are those of Euclidean distance.

    *Accuracy.* The standard error falls as n^(-1/2); the bias as n^(-1/d), or faster where densities are smooth, and
    rules in many dimensions. Where p has points and q next to none, ν is the distance to the rim of q's bag and q is
    taken for too large: KL(N(0, 4), N(0, 1)) = .807 comes out as .67 at 20,000 points, and rises slowly with them. For
    exponents a the ratio (p/q)^(a-1) has to have a variance, so prefer a < 1.

    *Cost.* Every point of X is looked up in every bag of Y: n_points · n_bags_of_Y searches of about a microsecond in
    two dimensions: by a k-d tree up to three dimensions, and beyond for bags of more than 16 · 2^n_dims points; others
    take all distances, 4 ns each. More divergences or k add little. Memory beyond the result: a copy of the points, one
    number per point and k, and some megabytes per thread.

    References
    ----------
    Wang, Kulkarni and Verdú (2009). Divergence estimation for multidimensional densities via k-nearest-neighbor
    distances. IEEE Transactions on Information Theory.

    Póczos and Schneider (2011). On the estimation of α-divergences. AISTATS.

    Póczos, Xiong, Sutherland and Schneider (2012). Nonparametric kernel estimators for image classification. CVPR.

    Examples
    --------
    >>> from distembed.divergences import knn_many
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(0, 1, size=20_000), rng.normal(1, 1, size=20_000)]
    >>> found = knn_many(bags, divergences=["bc", "renyi:0.9"], ks=[2, 4])
    >>> found["bc", 4].round(1)  # the true value is .882
    array([[1. , 0.9],
           [0.9, 1. ]])
    >>> sorted(found)
    [('bc', 2), ('bc', 4), ('renyi:0.9', 2), ('renyi:0.9', 4)]
    """
    for name, value in (("divergences", divergences), ("ks", ks)):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError(f"knn_many({name}=...): must be a sequence, got {value!r}; write [{value!r}]")
    return _estimates("knn_many", X, Y, list(divergences), list(ks), clamp, n_jobs, progress)


def _estimates(
    owner: str, X: Any, Y: Any, divergences: list[str], ks: list[int], clamp: bool, n_jobs: Any, progress: Progress
) -> dict[tuple[str, int], Array]:
    names = ("divergence", "k") if owner == "knn" else ("divergences", "ks")
    kinds = {divergence: parse(owner, names[0], divergence) for divergence in divergences}
    orders = sorted({check_number(owner, names[1], k, low=1, integer=True) for k in ks})
    for divergence, kind in kinds.items():
        check_number(
            owner, names[1], orders[0] if orders else kind.least_k, low=kind.least_k, integer=True,
            remedy=f"{divergence!r} needs a neighbour at least that far, choose such a k",
        )  # fmt: skip
    clamp = check_flag(owner, "clamp", clamp)
    bags = read_groups(owner, X, Y)
    for each, name in zip(bags, "XY", strict=False):
        _check_points(owner, name, each, kinds)
    if not kinds or not orders:
        return {}
    # Divided by a power of two, which is exact, squares of coordinates neither overflow nor vanish.
    exponent = math.frexp(max(float(np.abs(each.points).max()) for each in bags))[1]
    p = _Side(bags[0], orders, exponent, n_jobs)
    q = p if Y is None else _Side(bags[1], orders, exponent, n_jobs, "l2" in divergences)
    with progress_of(p.n_bags * q.n_bags, progress, "pairs of bags", owner) as advance:
        out = _over_pairs(p, q, kinds, orders, n_jobs, advance)
    for (divergence, _), matrix in out.items():
        kind = kinds[divergence]
        if q is p and kind.name != "linear":
            np.fill_diagonal(matrix, 1.0 if kind.name == "bc" else 0.0)
        if clamp:
            bounded = kind.name in ("bc", "hellinger", "tsallis") and kind.a < 1
            high = 1 / (1 - kind.a) if kind.name == "tsallis" else 1.0
            np.clip(matrix, 0, high if bounded else None, out=matrix)
    return out


def parse(owner: str, name: str, divergence: Any) -> Kind:
    """What a name such as ``"renyi:0.9"`` means: Kind("renyi", 0.9)."""
    family, colon, number = str(divergence).partition(":")
    if not isinstance(divergence, str) or family not in ("renyi", "tsallis") or not colon:
        return Kind(check_choice(owner, name, divergence, DIVERGENCES), 0.5)
    a = number_or_nan(number)
    if not 0 < a < math.inf or a == 1:
        raise ValueError(
            f"{owner}({name}=...): a in '{family}:<a>' must be a positive number other than 1, got {divergence!r}; "
            f"write '{family}:0.9', or 'kl', which is the limit at 1"
        )
    return Kind(family, a)


def _check_points(owner: str, name: str, bags: Bags, kinds: dict[str, Kind]) -> None:
    """Refuse points of a bag that do not weigh the same, and bags of fewer points than the divergences need."""
    if bags.weights is not None:
        low, high = (f.reduceat(bags.weights, bags.offsets[:-1]) for f in (np.minimum, np.maximum))
        if (low < high).any():
            i = int(np.argmax(low < high))
            raise InputError(
                f"{owner}({name}=...): points of a bag must weigh the same, got weights from {low[i]:g} to {high[i]:g} "
                f"in {bags.name_of(i)}; leave the weights out, or use divergences.plugin, which takes them"
            )
    least, divergence = max(((kind.least_k + 1, each) for each, kind in kinds.items()), default=(2, "kl"))
    if bags.sizes.min() < least:
        i = int(np.argmin(bags.sizes))
        raise InputError(
            f"{owner}({name}=...): bags must have at least {least} points for {divergence!r}, got {bags.sizes[i]} in "
            f"{bags.name_of(i)}; leave that bag out: bags[bags.sizes >= {least}]"
        )


class _Side:
    """The bags of rows or columns: points over 2^exponent in an order that suits the search, and their log ρ by k."""

    def __init__(self, bags: Bags, ks: list[int], exponent: int, n_jobs: int | None, own: bool = True) -> None:
        self.points: Array = np.ldexp(bags.points.astype(np.float64), -exponent)
        self.offsets = bags.offsets
        self.sizes = bags.sizes
        self.exponent = exponent
        self.n_bags = bags.n_bags
        self.n_dims = bags.n_dims
        self.ks = np.minimum(np.array(ks)[:, None], self.sizes - 1)  # shape (len(ks), n_bags)
        if own:
            self.log_rho = np.empty((len(ks), len(self.points)))
            run_chunks(self._look_at_own, self.blocks(1), n_jobs)

    def blocks(self, least: int) -> list[slice]:
        """Slices of consecutive bags, each with about as many points as one look-up takes; at least ``least``."""
        most = min(_BLOCK_POINTS, -(-len(self.points) // least))
        ends = np.flatnonzero(np.diff(self.offsets[1:] // most, append=-1)) + 1
        return [slice(start, stop) for start, stop in zip(np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True)]

    def neighbours(self, i: int) -> Neighbours:
        return Neighbours(self.points[self.offsets[i] : self.offsets[i + 1]])

    def _look_at_own(self, rows: slice, scratch: Scratch) -> None:
        for i in range(rows.start, rows.stop):
            span = slice(self.offsets[i], self.offsets[i + 1])
            near = self.neighbours(i)
            if near.tree is not None:  # in the order of the leaves, neighbours are looked up one after another
                self.points[span] = self.points[span][near.tree.indices]
                near = self.neighbours(i)
            self.log_rho[:, span] = near.log_distances(self.points[span], self.ks[:, i].tolist(), own=True).T

    def squares(self) -> Array:
        """∫ p² of every bag for each k, shape (len(ks), n_bags)."""
        means = [_log_means(-self.n_dims * logs, self.offsets[:-1], self.sizes) for logs in self.log_rho]
        return _exp(
            np.array(means) + np.log((self.ks - 1) / (self.sizes - 1)) - _log_volume(self.n_dims, self.exponent)
        )


def _log_volume(d: int, exponent: int) -> float:
    """Logarithm of the volume of a ball with radius 2^exponent."""
    return float(d / 2 * math.log(math.pi) - gammaln(d / 2 + 1) + d * exponent * math.log(2))


def _log_means(logs: Array, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Array:
    """Logarithms of the means of exponentials over bags."""
    largest = np.maximum.reduceat(logs, starts)
    sums = np.add.reduceat(np.exp(logs - np.repeat(largest, sizes)), starts)
    means: Array = np.log(sums / sizes)
    return means + largest


def _exp(logs: Array) -> Array:
    return np.exp(np.minimum(logs, _LARGEST_LOG))


def _over_pairs(
    p: _Side, q: _Side, kinds: dict[str, Kind], orders: list[int], n_jobs: int | None, advance: Callable[[int], None]
) -> dict[tuple[str, int], Array]:
    out = {(each, k): np.empty((p.n_bags, q.n_bags)) for each in kinds for k in orders}
    names = {kind.name for kind in kinds.values()}
    squares = [side.squares() for side in (p, q)] if "l2" in names else []
    parts = -(-_FEWEST_TASKS // q.n_bags)  # few columns: rows are shared out too
    blocks = p.blocks(parts)
    share = -(-len(blocks) // parts)
    tasks = [(j, blocks[b : b + share]) for j in range(q.n_bags) for b in range(0, len(blocks), share)]

    def fill(task: tuple[int, list[slice]], scratch: Scratch) -> None:
        j, row_blocks = task
        near = q.neighbours(j)
        ks = q.ks[:, j].tolist()
        for rows in row_blocks:
            span = slice(p.offsets[rows.start], p.offsets[rows.stop])
            log_nu = near.log_distances(p.points[span], ks)
            for (divergence, k), matrix in out.items():
                at = orders.index(k)
                matrix[rows, j] = _column(kinds[divergence], p, q, at, rows, j, log_nu[:, at])
                if divergence == "l2":
                    matrix[rows, j] = squares[0][at, rows] + squares[1][at, j] - 2 * matrix[rows, j]
            advance(rows.stop - rows.start)

    run_chunks(fill, tasks, n_jobs)
    if q is p and "linear" in names:
        for k, own in zip(orders, p.squares(), strict=True):
            np.fill_diagonal(out["linear", k], own)
    return out


def _column(kind: Kind, p: _Side, q: _Side, at: int, rows: slice, j: int, log_nu: Array) -> Array:
    """The divergence of the bags in rows from bag j; for ``"l2"`` and ``"linear"`` ∫ pq."""
    span = slice(p.offsets[rows.start], p.offsets[rows.stop])
    starts = p.offsets[rows] - span.start
    sizes = p.sizes[rows]
    d = p.n_dims
    kq = int(q.ks[at, j])
    m = int(q.sizes[j])
    if kind.name in ("linear", "l2"):
        return _exp(math.log((kq - 1) / m) - _log_volume(d, p.exponent) + _log_means(-d * log_nu, starts, sizes))
    ratios = d * (p.log_rho[at, span] - log_nu)
    if kind.name == "kl":
        means = np.add.reduceat(ratios, starts) / sizes
    else:
        means = _log_means((1 - kind.a) * ratios, starts, sizes)
    return from_ratios(kind, means, sizes, m, p.ks[at, rows], kq)


def from_ratios(kind: Kind, means: Array, n: Any, m: Any, kp: Any, kq: Any) -> Array:
    """A divergence of n from m points, of neighbours kp and kq; for a mean over the points of p of r = log(ρ/ν)^d.

    That is the mean of r for ``"kl"``, and for all others but ``"l2"`` and ``"linear"`` log mean exp((1 - a) r).
    """
    name, a = kind
    log_counts = np.log((n - 1) / m)
    if name == "kl":
        return np.asarray(-means - log_counts + digamma(kp) - digamma(kq))
    factor = gammaln(kp) + gammaln(kq) - gammaln(kp - a + 1) - gammaln(kq + a - 1)
    logs = factor + (1 - a) * log_counts + means
    if name == "renyi":
        return np.asarray(logs / (a - 1))
    power = _exp(logs)
    if name == "tsallis":
        return (power - 1) / (a - 1)
    return power if name == "bc" else 1 - power


class Neighbours:
    """Distances from places to the k-th nearest points of one bag, and the bag's smallest positive distance."""

    def __init__(self, points: Array) -> None:
        n, d = points.shape
        self.points = points
        self.tree = cKDTree(points) if d <= _TREE_DIMS or n > _TREE_POINTS * 2**d else None

    def log_distances(self, places: Array, ks: list[int], own: bool = False) -> Array:
        """Logarithms of distances, shape (n_places, len(ks)); ``own``: places are the points, and see the others."""
        found = self._distances(places, [k + own for k in ks])  # the first neighbour of a point is itself
        zero = found == 0
        if zero.any():
            found[zero] = self.gap
        return np.log(found, out=found)

    def _distances(self, places: Array, ks: list[int]) -> Array:
        return self._by_products(places, ks) if self.tree is None else self.tree.query(places, k=ks)[0]

    def _by_products(self, places: Array, ks: list[int]) -> Array:
        """By |x|² - 2xy + |y|², and by differences where that cancels."""
        at = [k - 1 for k in ks]
        centre = self.points.mean(axis=0)
        y = self.points - centre
        squares = np.einsum("ij,ij->i", y, y)
        minus_2y = -2 * y.T
        found = np.empty((len(places), len(ks)))
        step = max(1, _BLOCK_PAIRS // len(y))
        for start in range(0, len(places), step):
            x = places[start : start + step] - centre
            d2 = x @ minus_2y
            d2 += squares
            d2.partition(sorted(set(at)), axis=1)
            sizes = np.einsum("ij,ij->i", x, x)
            nearest = d2[:, at] + sizes[:, None]
            unsure = np.flatnonzero((nearest < _CANCELLED * (sizes[:, None] + squares.max())).any(axis=1))
            found[start : start + step] = np.sqrt(np.maximum(nearest, 0))
            if len(unsure):
                found[start + unsure] = np.sort(cdist(places[start + unsure], self.points), axis=1)[:, at]
        return found

    @cached_property
    def gap(self) -> float:
        """The smallest positive distance between two points, or 2^-52 if all are equal."""
        distinct = np.unique(self.points, axis=0)
        nearest = Neighbours(distinct)._distances(distinct, [2]) if len(distinct) > 1 else np.zeros(1)
        positive = nearest[nearest > 0]  # squares of differences may vanish
        return float(positive.min()) if len(positive) else _EPS
