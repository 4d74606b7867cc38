r"""Mean maps of bags in full: the Gaussian kernel between all points of all pairs of bags.

.. math::
    ⟨μ_p, μ_q⟩ = \sum_{ij} a_i b_j \, e^{-|x_i - y_j|² / (2σ²)}, \qquad
    MMD²(p, q) = ⟨μ_p, μ_p⟩ + ⟨μ_q, μ_q⟩ - 2 ⟨μ_p, μ_q⟩

for points x_i and y_j of weights a and b, of sum one in each bag. :class:`~distembed.MeanEmbedding` approximates these
at a cost linear in the number of points. Here every pair of points costs an exponential: no error but rounding, for
collections that are small enough, and to see what an approximation loses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..bags import Bags, as_bags, concat
from ..bags.medians import median_distance_of_bags, median_point
from ..compute.checks import check_number
from ..compute.parallel import Scratch, run_chunks
from ..compute.registry import storable

__all__ = [
    "gaussian_pairs",
    "in_units",
    "mean_map",
    "mmd",
    "pair_of_groups",
    "products_are_safe",
    "refuse_single",
    "shares_of",
    "together",
]

Array = NDArray[Any]

_STRIP_ROWS = 256  # points of a bag at a time
_STRIP_VALUES = 2**16  # kernels at a time: they stay in the cache
_FARTHEST = 8e307  # differences do not overflow
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
    copy of the points, and some megabytes a thread.

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
    return _Kernel(_standard("mean_map", X, Y, sigma, random_state)).all_pairs(n_jobs)


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
        Whether a point is not paired with itself: the U-statistic, which needs two points a bag.
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
    if not isinstance(unbiased, bool | np.bool_):
        raise TypeError(f"mmd(unbiased=...): must be True or False, got {unbiased!r}; choose one of these")
    groups = _standard("mmd", X, Y, sigma, random_state)
    if unbiased:
        for bags, name in zip(groups, "XY", strict=False):
            refuse_single("mmd", name, bags, "leave it out, or use unbiased=False")
    d2 = _Kernel(groups).all_pairs(n_jobs)
    own = [np.diagonal(d2).copy()] * 2 if Y is None else [_Kernel([bags]).diagonal(n_jobs) for bags in groups]
    if unbiased:
        own = [_without_selves(each, bags) for each, bags in zip(own, (groups[0], groups[-1]), strict=True)]
    d2 *= -2
    d2 += own[0][:, None]
    d2 += own[1]
    if Y is None:
        np.fill_diagonal(d2, 0.0)
    return d2 if unbiased else np.maximum(d2, 0.0, out=d2)


def _without_selves(own: Array, bags: Bags) -> Array:
    """Means over pairs of different points, from means over all pairs; k(x, x) = 1."""
    selves = np.add.reduceat(shares_of(bags) ** 2, bags.offsets[:-1])
    return np.asarray((own - selves) / (1 - selves))


# --------------------------------------------------------------------------------------------------------------
# Input
# --------------------------------------------------------------------------------------------------------------


def pair_of_groups(owner: str, X: Any, Y: Any) -> list[Bags]:
    """``[X]`` or ``[X, Y]`` as float64 bags of one width, without points of weight zero and categorical columns.

    Examples
    --------
    >>> pair_of_groups("mmd", [[1.0]], [[[1.0, 2.0]]])
    Traceback (most recent call last):
    ...
    ValueError: mmd(Y=...): must have points of 1 dimension(s), as X, got 2; pass bags with the same coordinates
    """
    groups = []
    for given, name in ((X, "X"), (Y, "Y")):
        if given is None and name == "Y":
            break
        bags = as_bags(given)
        if bags.categories is not None:
            raise ValueError(
                f"{owner}({name}=...): must have continuous columns only, got the categorical columns "
                f"{list(bags.category_labels)}; use HDDEmbedding, which takes them, or leave them out"
            )
        groups.append(bags.drop_weightless().astype(np.float64))
    if groups[-1].n_dims != groups[0].n_dims:
        raise ValueError(
            f"{owner}(Y=...): must have points of {groups[0].n_dims} dimension(s), as X, got {groups[-1].n_dims}; "
            "pass bags with the same coordinates"
        )
    return groups


def together(groups: list[Bags]) -> Bags:
    """All bags of the groups, without ids and names.

    Examples
    --------
    >>> together([Bags.from_arrays([[1.0]], ids=["a"]), Bags.from_arrays([[2.0]], ids=["a"])]).n_bags
    2
    """
    return concat([bags.replace(ids=None, columns=None, categories=None) for bags in groups])


def refuse_single(owner: str, name: str, bags: Bags, remedy: str) -> None:
    """Refuse bags of one point, by name.

    Examples
    --------
    >>> refuse_single("mmd", "X", Bags.from_arrays([[1.0, 2.0]]), "leave it out")
    """
    if bags.sizes.min() < 2:
        first = int(np.argmin(bags.sizes))
        raise ValueError(
            f"{owner}({name}=...): must have at least 2 points of positive weight in each bag, got 1 in "
            f"{bags.name_of(first)}; {remedy}"
        )


def _standard(owner: str, X: Any, Y: Any, sigma: Any, random_state: Any) -> list[Bags]:
    """Bags relative to their median and in units of sigma."""
    groups = pair_of_groups(owner, X, Y)
    everything = together(groups)
    if isinstance(sigma, str):
        if sigma != "median":
            raise ValueError(f"{owner}(sigma=...): must be a positive number or 'median', got {sigma!r}; choose one")
        sigma = median_distance_of_bags(everything, check_random_state(random_state))
    sigma = check_number(owner, "sigma", sigma, low=0, inclusive="neither", remedy="give a positive number or 'median'")
    return in_units(groups, median_point(everything), sigma)


def in_units(groups: list[Bags], centre: Array, units: float | Array) -> list[Bags]:
    """The bags relative to a point and in given units, where overflow is merely far.

    Examples
    --------
    >>> in_units([Bags.from_arrays([[1.0, 1e308]])], np.array([3.0]), 0.25)[0].points.tolist()
    [[-8.0], [8e+307]]
    """
    with np.errstate(over="ignore"):  # so far away that no kernel reaches there
        return [bags.replace(points=np.clip((bags.points - centre) / units, -_FARTHEST, _FARTHEST)) for bags in groups]


def shares_of(bags: Bags) -> Array:
    """Mass of each point, ndarray of shape (n_points,), each bag's of sum one.

    Examples
    --------
    >>> shares_of(Bags.from_arrays([[1.0, 2.0], [3.0]]))
    array([0.5, 0.5, 1. ])
    """
    shares = bags.shares()
    return np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares


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


class _Kernel:
    """Means of exp(-|x - y|²/2) over pairs of points, in strips of rows and columns."""

    def __init__(self, groups: list[Bags]) -> None:
        self.rows, self.columns = groups[0], groups[-1]
        self.symmetric = len(groups) == 1
        self.row_shares, self.column_shares = shares_of(groups[0]), shares_of(groups[-1])
        self.by_products = products_are_safe(groups)

    def all_pairs(self, n_jobs: int | None) -> Array:
        """All pairs of bags, ndarray of shape (n_rows, n_columns)."""
        found = np.zeros((self.rows.n_bags, self.columns.n_bags))

        def row(i: int, scratch: Scratch) -> None:
            self._add(found[i], i, i if self.symmetric else 0, self.columns.n_bags, scratch)
            if self.symmetric:
                found[i:, i] = found[i, i:]

        run_chunks(row, range(len(found)), n_jobs)
        return found

    def diagonal(self, n_jobs: int | None) -> Array:
        """Each bag with itself, ndarray of shape (n_bags,)."""
        found = np.zeros(self.rows.n_bags)
        run_chunks(lambda i, scratch: self._add(found, i, i, i + 1, scratch), range(len(found)), n_jobs)
        return found

    def _add(self, out: Array, i: int, first: int, last: int, scratch: Scratch) -> None:
        """Add to ``out[j]`` the mean over bag i and column bag j, for first <= j < last."""
        offsets = self.columns.offsets
        top, bottom = self.rows.offsets[i : i + 2].tolist()
        begin, end = offsets[[first, last]].tolist()
        for start in range(top, bottom, _STRIP_ROWS):
            rows = slice(start, min(start + _STRIP_ROWS, bottom))
            step = _STRIP_VALUES // (rows.stop - rows.start)
            for left in range(begin, end, step):
                columns = slice(left, min(left + step, end))
                x, y = self.rows.points[rows], self.columns.points[columns]
                sums = self.row_shares[rows] @ gaussian_pairs(x, y, self.by_products, scratch)
                sums *= self.column_shares[columns]
                low, high = np.searchsorted(offsets, [left, columns.stop - 1], side="right") - 1
                cuts = np.maximum(offsets[low : high + 1] - left, 0)
                out[low : high + 1] += np.add.reduceat(sums, cuts)
