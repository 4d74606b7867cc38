r"""Mean maps of bags in full: the Gaussian kernel between all points of all pairs of bags.

.. math::
    ⟨μ_p, μ_q⟩ = \sum_{ij} a_i b_j \, e^{-|x_i - y_j|² / (2σ²)}, \qquad
    MMD²(p, q) = ⟨μ_p, μ_p⟩ + ⟨μ_q, μ_q⟩ - 2 ⟨μ_p, μ_q⟩

for points x_i and y_j of weights a and b, of sum one in each bag. :class:`~distembed.MeanEmbedding` approximates these
at a cost linear in the number of points. Here every pair of points costs an exponential: no error but rounding, for
collections that are small enough, and to see what an approximation loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..bags import Bags
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_flag, check_number
from ..compute.parallel import run_chunks
from ..compute.registry import storable
from ..density.likelihood import shares_of
from ..features.medians import median_distance_of_bags, median_point
from .inputs import in_units, read_groups, refuse_single, together

Kernel = Callable[[Array], Callable[[Array, Scratch], Array]]

_STRIP_POINTS = 256  # points of a bag at a time
_STRIP_VALUES = 2**16  # kernels at a time: they stay in the cache
_FAR = 2.0**16  # squared length in units of sigma up to which |x|² + |y|² - 2xy keeps eleven digits of the kernel


def mean_map(
    X: Any,
    Y: Any = None,
    *,
    sigma: float | str = "median",
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Array:
    r"""Mean map kernel ⟨μ_p, μ_q⟩: the mean of exp(-\|\|x - y\|\|²/(2 sigma²)) over all pairs of points of two bags.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of points in any units; weights count.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    sigma : float or "median", default="median"
        Scale of the kernel, in the units of the points. ``"median"``: the median distance between points of all bags
        together (at most 1,000 of them, drawn at random, by weight).
    random_state : int, RandomState or None, default=None
        Used by ``sigma="median"`` with more than 1,000 points.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Returns
    -------
    float64 ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Values in [0, 1]. With ``Y=None`` it is symmetric and positive semidefinite.

    Notes
    -----
    *What it is.* The V-statistic: on the diagonal of ``Y=None`` each point is also paired with itself, see :func:`mmd`.

    *Cost.* An exponential and 2 n_dims operations for every pair of points, some 10 ns, for ``Y=None`` half of the
    pairs: 100 bags of 1,000 points have 5e9 of them, about a minute of a core. Memory beyond the result: a
    copy of the points, and some megabytes per thread.

    *Accuracy.* Ten digits at least. Points are taken relative to their median; if some are more than 256 sigma from it,
    differences of coordinates replace the matrix product.

    References
    ----------
    Smola, Gretton, Song, Schölkopf (2007). A Hilbert space embedding for distributions. ALT.

    Examples
    --------
    >>> mean_map([[0.0, 1.0], [1.0]], sigma=1.0).round(6)  # (1 + exp(-1/2)) / 2 = 0.803265
    array([[0.803265, 0.803265],
           [0.803265, 1.      ]])
    """
    return _means(_in_units_of_sigma("mean_map", X, Y, sigma, random_state), n_jobs)


@storable
def mmd(
    X: Any,
    Y: Any = None,
    *,
    sigma: float | str = "median",
    unbiased: bool = False,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Array:
    r"""Squared maximum mean discrepancies MMD² = \|\|μ_p - μ_q\|\|² of the kernel exp(-\|\|x - y\|\|²/(2 sigma²)).

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of points in any units; weights count.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    sigma : float or "median", default="median"
        Scale of the kernel, as in :func:`mean_map`.
    unbiased : bool, default=False
        Whether a point is not paired with itself: the U-statistic, which needs two points in each bag.
    random_state : int, RandomState or None, default=None
        Used by ``sigma="median"`` with more than 1,000 points.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Returns
    -------
    float64 ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        Squared distances. With ``Y=None`` it is symmetric and its diagonal is zero, whatever ``unbiased`` says. Without
        ``unbiased`` none is negative.

    Notes
    -----
    *Bias.* The V-statistic is MMD² of the empirical distributions. Its expectation for bags of n and m points is the
    truth plus (1 - E k(x, x'))/n + (1 - E k(y, y'))/m. Without the pairs of a point with itself,

    .. math:: \frac{\sum_{i ≠ j} a_i a_j k(x_i, x_j)}{1 - \sum_i a_i²},

    the expectation is the truth, for weights that do not depend on the points, and values of bags of one distribution
    lie on both sides of zero. A bag in both ``X`` and ``Y`` is not independent of itself: there it is about
    -2 (1 - E k(x, x'))/n.

    *Cost and memory* are those of :func:`mean_map`, and of the pairs inside each bag of ``X`` and ``Y``.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola (2012). A kernel two-sample test. JMLR.

    Examples
    --------
    N(0, 1) and N(1, 1) have MMD² = 0.1773 for sigma = 1:

    >>> rng = np.random.default_rng(0)
    >>> d2 = mmd([rng.normal(0, 1, 3000), rng.normal(1, 1, 3000)], sigma=1.0, unbiased=True)
    >>> bool(abs(d2[0, 1] - 0.1773) < 0.03)
    True
    """
    unbiased = check_flag("mmd", "unbiased", unbiased)
    groups = _in_units_of_sigma("mmd", X, Y, sigma, random_state)
    if unbiased:
        refuse_single("mmd", groups, "leave it out, or use unbiased=False")
    d2 = _means(groups, n_jobs)
    own = [np.diagonal(d2).copy()] if Y is None else [_own_means(bags, n_jobs) for bags in groups]
    if unbiased:
        own = [_without_selves(each, bags) for each, bags in zip(own, groups, strict=True)]
    d2 *= -2
    d2 += np.add.outer(own[0], own[-1])  # symmetric to the last bit
    if Y is None:
        np.fill_diagonal(d2, 0.0)
    return d2 if unbiased else np.maximum(d2, 0.0, out=d2)


def _without_selves(own: Array, bags: Bags) -> Array:
    """Means over pairs of different points, from means over all pairs; k(x, x) = 1."""
    selves = np.add.reduceat(shares_of(bags) ** 2, bags.offsets[:-1])
    return np.asarray((own - selves) / (1 - selves))


def _in_units_of_sigma(owner: str, X: Any, Y: Any, sigma: Any, random_state: Any) -> list[Bags]:
    """Bags relative to their median and in units of sigma."""
    groups = [bags.astype(np.float64) for bags in read_groups(owner, X, Y)]
    everything = together(groups)
    if isinstance(sigma, str):
        if sigma != "median":
            raise ValueError(f"{owner}(sigma=...): must be a positive number or 'median', got {sigma!r}; choose one")
        sigma = median_distance_of_bags(everything, check_random_state(random_state))
    sigma = check_number(owner, "sigma", sigma, low=0, inclusive="neither", remedy="give a positive number or 'median'")
    return in_units(groups, median_point(everything), sigma)


def _means(groups: list[Bags], n_jobs: int | None) -> Array:
    """Means of exp(-|x - y|²/2) over the points of all pairs of bags, ndarray of shape (n_rows, n_columns)."""
    blocks, symmetric = KernelBlocks(groups[0], groups[-1], gaussian_kernel(groups)), len(groups) == 1
    found = np.zeros((groups[0].n_bags, groups[-1].n_bags))

    def row(i: int, scratch: Scratch) -> None:
        _add_means(found[i], blocks, i, slice(i if symmetric else 0, found.shape[1]), scratch)
        if symmetric:
            found[i:, i] = found[i, i:]

    run_chunks(row, range(len(found)), n_jobs)
    return found


def _own_means(bags: Bags, n_jobs: int | None) -> Array:
    """The same of each bag with itself, ndarray of shape (n_bags,)."""
    blocks, found = KernelBlocks(bags, bags, gaussian_kernel([bags])), np.zeros(bags.n_bags)
    run_chunks(lambda i, scratch: _add_means(found, blocks, i, slice(i, i + 1), scratch), range(bags.n_bags), n_jobs)
    return found


def _add_means(found: Array, blocks: KernelBlocks, i: int, bags: slice, scratch: Scratch) -> None:
    """Add to ``found[j]`` the mean over the points of bag i and of bag j, for some j."""
    for nodes in blocks.strips(i):
        for points, own, starts, kernels in blocks(nodes, bags, scratch):
            sums = kernels @ blocks.node_shares[nodes]
            sums *= blocks.shares[points]
            found[own] += np.add.reduceat(sums, starts)


# --------------------------------------------------------------------------------------------------------------
# Sums of kernels
# --------------------------------------------------------------------------------------------------------------


def products_are_safe(groups: list[Bags]) -> bool:
    """Whether all points are so near zero that |x|² + |y|² - 2xy has no cancellation to speak of.

    Examples
    --------
    >>> products_are_safe([Bags.from_arrays([[1.0]])]), products_are_safe([Bags.from_arrays([[1.0, 1e6]])])
    (True, False)
    """
    with np.errstate(over="ignore"):
        return all(float(np.einsum("ij,ij->i", bags.points, bags.points).max()) <= _FAR for bags in groups)


def gaussian_pairs(x: Array, y: Array, by_products: bool, scratch: Scratch) -> Array:
    """Kernels exp(-|x - y|²/2) between all rows of x and of y, by one matrix product or by differences.

    Examples
    --------
    >>> gaussian_pairs(np.array([[0.0]]), np.array([[0.0], [2.0]]), True, Scratch()).round(6)
    array([[1.      , 0.135335]])
    """
    exponents = scratch("exponents", (len(x), len(y)), np.float64)
    if by_products:
        np.matmul(x, y.T, out=exponents)
        exponents -= 0.5 * np.einsum("ij,ij->i", y, y)
        exponents -= 0.5 * np.einsum("ij,ij->i", x, x)[:, None]
        np.minimum(exponents, 0.0, out=exponents)  # rounding
    else:
        gaps = scratch("gaps", exponents.shape, np.float64)
        exponents[...] = 0.0
        with np.errstate(over="ignore"):
            for a, b in zip(x.T, y.T, strict=True):
                np.subtract(a[:, None], b, out=gaps)
                gaps *= gaps
                exponents -= gaps
        exponents *= 0.5
    return np.asarray(np.exp(exponents, out=exponents))


def gaussian_kernel(groups: list[Bags]) -> Kernel:
    """The kernel exp(-|x - y|²/2) of bags as :class:`KernelBlocks` takes it, by the way that suits all of their points.

    Examples
    --------
    >>> kernel = gaussian_kernel([Bags.from_arrays([[0.0, 2.0]])])
    >>> kernel(np.array([[0.0]]))(np.array([[0.0], [2.0]]), Scratch()).round(6)
    array([[1.      ],
           [0.135335]])
    """
    by_products = products_are_safe(groups)  # rows of points are the long ones: those are contiguous
    return lambda nodes: lambda points, scratch: gaussian_pairs(nodes, points, by_products, scratch).T


class KernelBlocks:
    """Kernels k(u, y) between the points u of one group of bags and the points y of another, a block at a time.

    Parameters
    ----------
    nodes, bags : Bags
        The points u and y.
    kernel : callable
        Makes, of some nodes, a function from points and a scratch to kernels of shape (n_points, n_nodes).

    Attributes
    ----------
    node_shares, shares : ndarray of shape (n_points,)
        Mass of each point, of sum one in each bag.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0, 2.0], [1.0]])
    >>> blocks = KernelBlocks(bags, bags, gaussian_kernel([bags]))
    >>> found = blocks(slice(2, 3), slice(0, 2), Scratch())
    >>> [(points, own, starts, kernels.shape) for points, own, starts, kernels in found]
    [(slice(0, 3, None), slice(0, 2, None), array([0, 2]), (3, 1))]
    """

    def __init__(self, nodes: Bags, bags: Bags, kernel: Kernel) -> None:
        self.nodes, self.bags, self.kernel = nodes, bags, kernel
        self.node_shares, self.shares = shares_of(nodes), shares_of(bags)

    def strips(self, i: int) -> list[slice]:
        """The nodes of bag i, some at a time."""
        start, stop = self.nodes.offsets[i : i + 2].tolist()
        return [slice(a, min(a + _STRIP_POINTS, stop)) for a in range(start, stop, _STRIP_POINTS)]

    def __call__(self, nodes: slice, bags: slice, scratch: Scratch) -> Iterator[tuple[slice, slice, Array, Array]]:
        """Some points of these bags, the bags they belong to, where those start among them, and their kernels."""
        kernels_of, offsets = self.kernel(self.nodes.points[nodes]), self.bags.offsets
        begin, end = offsets[[bags.start, bags.stop]].tolist()
        step = max(1, _STRIP_VALUES // (nodes.stop - nodes.start))
        for left in range(begin, end, step):
            right = min(left + step, end)
            low, high = (np.searchsorted(offsets, [left, right - 1], side="right") - [1, 0]).tolist()
            starts = np.maximum(offsets[low:high] - left, 0)
            yield slice(left, right), slice(low, high), starts, kernels_of(self.bags.points[left:right], scratch)
