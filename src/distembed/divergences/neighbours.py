r"""Divergences between bags from distances to nearest neighbours, without any density estimate.

For point i of bag p, ρ is the distance to its k-th neighbour among the other n - 1 points of p, and ν that to its k-th
neighbour among the m points of q. Then k / ((n-1) c ρ^d) and k / (m c ν^d), with c the volume of the unit ball,
estimate p and q at that point. Neither converges for fixed k, but (n-1) c ρ^d p and m c ν^d q tend to independent
Gamma(k) variables, so that the bias of the mean over a bag is a known constant:

.. math::

    KL(p, q) &= \frac dn \sum_i \log\frac{ν_i}{ρ_i} + \log\frac m{n-1}, \\
    \int p^a q^{1-a} &= \frac{Γ(k)^2}{Γ(k-a+1) Γ(k+a-1)}
        \frac1n \sum_i \Bigl(\frac{(n-1) ρ_i^d}{m ν_i^d}\Bigr)^{1-a}, \\
    \int p^2 &= \frac1n \sum_i \frac{k-1}{(n-1) c ρ_i^d}, \qquad \int pq = \frac1n \sum_i \frac{k-1}{m c ν_i^d}.

All points of all bags of X are looked up in one bag of Y at a time, and sums over bags are one reduction: no loop over
pairs. Sums are taken of logarithms, so that nothing overflows on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from ..bags import Bags, as_bags
from ..compute.checks import check_choice, check_number
from ..compute.parallel import Scratch, run_chunks
from ..compute.progress import Progress, progress_of
from ..compute.registry import storable
from .neighbour_distances import Neighbours

__all__ = ["knn", "knn_many"]

Array = NDArray[np.float64]

DIVERGENCES = ("kl", "renyi:<a>", "tsallis:<a>", "bc", "hellinger", "l2", "linear")
_BLOCK_POINTS = 2**15  # looked up at a time
_FEWEST_TASKS = 8
_LARGEST_LOG = 600.0  # e^600 = 1e260: sums and differences of such values are still finite


class _Kind(NamedTuple):
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
    k: int = 4,
    *,
    clamp: bool = False,
    n_jobs: int | None = None,
    progress: Progress = False,
) -> Array:
    """Divergences between bags from the distances of points to their k-th nearest neighbours.

    One divergence for one k, see :func:`knn_many` for several of them in the time of one, and for all that is to be
    said about them.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of at least two points, in any units.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    divergence : str, default="kl"
        ``"kl"``, ``"renyi:<a>"``, ``"tsallis:<a>"``, ``"bc"``, ``"hellinger"``, ``"l2"`` or ``"linear"``.
    k : int, default=4
        Which neighbour. More: less variance and more bias.
    clamp : bool, default=False
        Whether to clip estimates to the range of the divergence.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.
    progress : bool or callable, default=False
        Whether to show on standard error how many pairs of bags are done. A callable is called as ``progress(done,
        total)``.

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
    key = (divergence, k)
    return _estimates("knn", X, Y, [divergence], [k], ("divergence", "k"), clamp, n_jobs, progress)[key]


def knn_many(
    X: Any,
    Y: Any = None,
    divergences: Iterable[str] = ("kl",),
    ks: Iterable[int] = (4,),
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
    twice: 1 for ``"bc"``, ∫ p² for ``"linear"``, and 0 for the others. With ``Y`` given, no bag knows that another is
    the same, and a point that stands in both is its own nearest neighbour there.

    *Small bags.* A bag of n <= k points is used with k = n - 1, and constants are those of the two k in use. Bags of
    one point are refused.

    *Copies.* A distance of zero is taken for the smallest positive distance between points of the bag in which
    neighbours are looked for. If all of them are equal, it is 2^-52 of the largest coordinate of all bags, rounded up
    to a power of two: densities of such a bag are huge, but finite. Many copies mean that there is no density; values
    then say little. Values above 1e260 become 1e260.

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
    number a point and k, and some megabytes a thread.

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
    return _estimates("knn_many", X, Y, list(divergences), list(ks), ("divergences", "ks"), clamp, n_jobs, progress)


def _estimates(
    owner: str,
    X: Any,
    Y: Any,
    divergences: list[str],
    ks: list[int],
    names: tuple[str, str],
    clamp: bool,
    n_jobs: Any,
    progress: Progress,
) -> dict[tuple[str, int], Array]:
    kinds = {divergence: _parsed(owner, names[0], divergence) for divergence in divergences}
    orders = sorted({check_number(owner, names[1], k, low=1, integer=True) for k in ks})
    for divergence, kind in kinds.items():
        check_number(
            owner, names[1], orders[0] if orders else kind.least_k, low=kind.least_k, integer=True,
            remedy=f"{divergence!r} needs a neighbour at least that far, choose such a k",
        )  # fmt: skip
    if not isinstance(clamp, bool | np.bool_):
        raise TypeError(f"{owner}(clamp=...): must be True or False, got {clamp!r}; choose one of these")
    bags = [_checked(owner, "X", X, kinds)] + ([] if Y is None else [_checked(owner, "Y", Y, kinds)])
    if bags[-1].n_dims != bags[0].n_dims:
        raise ValueError(
            f"{owner}(Y=...): must have points of {bags[0].n_dims} dimension(s), as X, got {bags[-1].n_dims}; pass "
            "bags with the same coordinates"
        )
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


def _parsed(owner: str, name: str, divergence: Any) -> _Kind:
    """What a name such as ``"renyi:0.9"`` means."""
    family, colon, number = divergence.partition(":") if isinstance(divergence, str) else ("", "", "")
    if family not in ("renyi", "tsallis") or not colon:
        return _Kind(check_choice(owner, name, divergence, DIVERGENCES), 0.5)
    try:
        a = float(number)
    except ValueError:
        a = math.nan
    if not 0 < a < math.inf or a == 1:
        raise ValueError(
            f"{owner}({name}=...): a in '{family}:<a>' must be a positive number other than 1, got {divergence!r}; "
            f"write '{family}:0.9', or 'kl', which is the limit at 1"
        )
    return _Kind(family, a)


def _checked(owner: str, name: str, X: Any, kinds: dict[str, _Kind]) -> Bags:
    """Bags of continuous points of equal weight, each with as many as the divergences need."""
    bags = as_bags(X)
    if bags.categories is not None:
        raise ValueError(
            f"{owner}({name}=...): must have continuous columns only, got the categorical columns "
            f"{list(bags.category_labels)}; use HDDEmbedding, which takes them, or leave them out"
        )
    bags = bags.drop_weightless()
    if bags.weights is not None:
        low, high = (f.reduceat(bags.weights, bags.offsets[:-1]) for f in (np.minimum, np.maximum))
        if (low < high).any():
            i = int(np.argmax(low < high))
            raise ValueError(
                f"{owner}({name}=...): points of a bag must weigh the same, got weights from {low[i]:g} to {high[i]:g} "
                f"in {bags.name_of(i)}; leave the weights out, or use divergences.plugin, which takes them"
            )
    least, divergence = max(((kind.least_k + 1, each) for each, kind in kinds.items()), default=(2, "kl"))
    if bags.sizes.min() < least:
        i = int(np.argmin(bags.sizes))
        raise ValueError(
            f"{owner}({name}=...): bags must have at least {least} points for {divergence!r}, got {bags.sizes[i]} in "
            f"{bags.name_of(i)}; leave that bag out: bags[bags.sizes >= {least}]"
        )
    return bags


class _Side:
    """The bags of rows or columns: points in an order that suits the search, and log ρ of each for each k.

    Points are those given divided by 2^exponent, so that none is beyond 1.
    """

    def __init__(self, bags: Bags, ks: list[int], exponent: int, n_jobs: int | None, own: bool = True) -> None:
        self.points: Array = np.ldexp(bags.points.astype(np.float64), -exponent)
        self.offsets, self.sizes, self.exponent = bags.offsets, bags.sizes, exponent
        self.n_bags, self.n_dims = bags.n_bags, bags.n_dims
        self.ks = np.minimum(np.array(ks)[:, None], self.sizes - 1)  # shape (len(ks), n_bags)
        if own:
            self.log_rho = np.empty((len(ks), len(self.points)))
            run_chunks(self._look_at_own, self.blocks(1), n_jobs)

    def blocks(self, least: int) -> list[slice]:
        """Slices of consecutive bags of about as many points as are looked up at a time, at least so many if any."""
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

    def log_self(self, at: int) -> Array:
        """Logarithms of ∫ p² of every bag, shape (n_bags,)."""
        k, d = self.ks[at], self.n_dims
        means = _log_means(-d * self.log_rho[at], self.offsets[:-1], self.sizes)
        counts: Array = np.log((k - 1) / (self.sizes - 1))
        return means + counts - _log_volume(d, self.exponent)


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
    p: _Side, q: _Side, kinds: dict[str, _Kind], orders: list[int], n_jobs: int | None, advance: Callable[[int], None]
) -> dict[tuple[str, int], Array]:
    out = {(each, k): np.empty((p.n_bags, q.n_bags)) for each in kinds for k in orders}
    with_self = any(kind.name == "l2" for kind in kinds.values())
    squares = [[_exp(side.log_self(at)) for side in (p, q)] if with_self else None for at in range(len(orders))]
    parts = -(-_FEWEST_TASKS // q.n_bags)  # few columns: rows are shared out too
    blocks = p.blocks(parts)
    share = -(-len(blocks) // parts)
    tasks = [(j, blocks[b : b + share]) for j in range(q.n_bags) for b in range(0, len(blocks), share)]

    def fill(task: tuple[int, list[slice]], scratch: Scratch) -> None:
        j, row_blocks = task
        near, ks = q.neighbours(j), q.ks[:, j].tolist()
        for rows in row_blocks:
            span = slice(p.offsets[rows.start], p.offsets[rows.stop])
            log_nu = near.log_distances(p.points[span], ks)
            for at, k in enumerate(orders):
                pair = _pair_values(p, q, at, rows, j, log_nu[:, at])
                for divergence, kind in kinds.items():
                    out[divergence, k][rows, j] = _value(kind, pair, squares[at], rows, j)
            advance(rows.stop - rows.start)

    run_chunks(fill, tasks, n_jobs)
    if q is p:
        for (divergence, k), matrix in out.items():
            if kinds[divergence].name == "linear":
                np.fill_diagonal(matrix, _exp(p.log_self(orders.index(k))))
    return out


def _pair_values(p: _Side, q: _Side, at: int, rows: slice, j: int, log_nu: Array) -> Callable[[str, float], Array]:
    """A function that gives KL, log ∫ pq, or log ∫ p^a q^(1-a) of the bags in rows against bag j."""
    starts, sizes, d = p.offsets[rows] - p.offsets[rows.start], p.sizes[rows], p.n_dims
    kp, kq, m = p.ks[at, rows], int(q.ks[at, j]), int(q.sizes[j])
    ratios = d * (p.log_rho[at, p.offsets[rows.start] : p.offsets[rows.stop]] - log_nu)  # log(ρ/ν)^d
    log_counts = np.log((sizes - 1) / m)
    known: dict[tuple[str, float], Array] = {}

    def compute(name: str, a: float) -> Array:
        if name == "kl":
            return -np.add.reduceat(ratios, starts) / sizes - log_counts + digamma(kp) - digamma(kq)  # type: ignore[no-any-return]
        if name == "linear":
            return math.log((kq - 1) / m) - _log_volume(d, p.exponent) + _log_means(-d * log_nu, starts, sizes)
        factor = gammaln(kp) + gammaln(kq) - gammaln(kp - a + 1) - gammaln(kq + a - 1)
        return factor + (1 - a) * log_counts + _log_means((1 - a) * ratios, starts, sizes)  # type: ignore[no-any-return]

    def get(name: str, a: float) -> Array:
        if (name, a) not in known:
            known[name, a] = compute(name, a)
        return known[name, a]

    return get


def _value(kind: _Kind, pair: Callable[[str, float], Array], squares: Any, rows: slice, j: int) -> Array:
    name, a = kind
    if name == "kl":
        return pair("kl", 0.5)
    if name in ("linear", "l2"):
        product = _exp(pair("linear", 0.5))
        return product if name == "linear" else squares[0][rows] + squares[1][j] - 2 * product
    logs = pair("power", a)
    if name == "renyi":
        return logs / (a - 1)
    if name == "tsallis":
        return (_exp(logs) - 1) / (a - 1)
    return _exp(logs) if name == "bc" else 1 - _exp(logs)
