r"""Explicit maps of histograms: values to vectors whose squared distances are those of additive kernels.

A homogeneous kernel of two values is, with its signature K and its spectrum κ (Vedaldi and Zisserman 2012),

.. math:: k(x, y) = \sqrt{xy} \, K(\log(y/x)), \qquad K(u) = \int e^{-iλu} κ(λ) \, dλ,

and an additive one of two histograms is the sum over their cells. Distances of :mod:`distembed.distances` belong to
such kernels, k(x, x) + k(y, y) - 2 k(x, y) = κ_d(x, y), with half the density of their measure μ as spectrum:

================================= ========================= ===================== ===============================
kernel                            k(x, y)                   spectrum κ(λ)         squared distance of histograms
================================= ========================= ===================== ===============================
``"js"``                          see [1]                   sech(πλ)/(2 + 8λ²)    Jensen-Shannon, nats
``"chi2"``                        xy / (x + y)              sech(πλ) / 2          ½ Σ (h - g)² / (h + g)
``"hellinger"``                   √(xy) / 2                 ½ δ(λ = 0)            1 - Σ √(hg)
``"intersection"`` or ``"tv"``    min(x, y) / 2             (1/π) / (1 + 4λ²)     ½ Σ \|h - g\|
``"l2"`` or ``"linear"``          xy                        not homogeneous       Σ (h - g)²
================================= ========================= ===================== ===============================

Maps, with their order n:

- ``"vedaldi"``: the spectrum at 0, ±L, ..., ±nL, that is the trapezoidal rule for μ with step L: 2n + 1 features a
  value. The sampled signature has the period 2π/L, so a small L loses the tail of the spectrum and a large one
  repeats the kernel too early. :func:`best_period` finds the L with the least worst error.
- ``"gauss"``: Gauss quadrature for μ, 2n features a value: the lambdas of :class:`~distembed.HDDEmbedding`.
- ``"none"``: the values themselves, for ``"l2"``.

The maps of ``"hellinger"`` (√(x/2)) and of ``"l2"`` have one feature and are exact.

Worst errors of κ_d, relative to x + y, over all x and y (:func:`worst_error`):

======================= ====== ====== ====== ======= ======= ======
order n                      1      2      3       5      10     60
======================= ====== ====== ====== ======= ======= ======
``"vedaldi"``, js        .0088  .0030  .0012  .00027  1.5e-5  6e-12
``"vedaldi"``, chi2      .021   .0075  .0032  .00074  4.7e-5  3e-11
``"vedaldi"``, tv        .088   .062   .049   .035    .022    .0053
``"gauss"``, js          .025   .013   .0084  .0049   .0024   4e-6
``"gauss"``, chi2        .091   .052   .037   .023    .012    4e-5
``"gauss"``, tv          .12    .13    .12    .081    .047    .0097
======================= ====== ====== ====== ======= ======= ======

Errors are largest where one value is far smaller than the other. Gauss rules are exact where one is zero and nearly so
where values are alike: for x/y up to e (7.4) js by three nodes is right to 5e-8 (3e-5) of κ_d itself, where
``"vedaldi"`` of order three is too small by 1 to 2 %. Counts of few points have no extreme ratios but zeros, and suit
``"gauss"``. Root mean square errors of d² between 60 bags of n points of 2-D mixtures, on 10 × 10 bins, at order three:

=========== ======= ======= ======= ======= ======= =======
distance      js      js     chi2    chi2     tv      tv
map         vedaldi  gauss  vedaldi  gauss  vedaldi  gauss
=========== ======= ======= ======= ======= ======= =======
n = 50       .0011   3e-7    .0026   8e-6     .038    .027
n = 200      .0006   1e-5    .0016   .0003    .032    .021
n = 2,000    .0007   .0004   .0019   .0044    .046    .018
=========== ======= ======= ======= ======= ======= =======

The mean of d² is .3 to .4 (js), .5 to .6 (chi2), .6 to .7 (tv). At n = 200 the
unary codes of Maji and Berg (2009) for tv are off by .19 with 32 features a value and by .028 with 256: there is no map
of that kind here.

References
----------
[1] Vedaldi, Zisserman (2012). Efficient additive kernels via explicit feature maps. IEEE PAMI 34(3).
[2] Maji, Berg (2009). Max-margin additive classifiers for detection. ICCV.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from .. import distances
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_number
from ..compute.registry import described, storable
from .homogeneous import MAX_LAMBDAS, HomogeneousDistance
from .lambdas import lambda_functions, n_functions

MAPS = ("vedaldi", "gauss", "none")
DEFAULT_ORDER = 3

LOG_RANGE = 20.0  # of log(x / y) in worst_error
_PERIODS = np.geomspace(0.02, 4.0, 80)  # among which best_period starts
_SYNONYMS = {"intersection": "tv", "linear": "l2"}


# --------------------------------------------------------------------------------------------------------------
# The spectrum
# --------------------------------------------------------------------------------------------------------------


def _homogeneous(kernel: str | HomogeneousDistance) -> HomogeneousDistance:
    """The distance of a kernel."""
    return distances.get(_SYNONYMS.get(kernel, kernel) if isinstance(kernel, str) else kernel)


def spectrum_rule(
    kernel: str | HomogeneousDistance = "js", order: int = 3, *, period: float | None = None
) -> tuple[Array, Array]:
    """Uniform samples of a kernel's spectrum, as a quadrature rule for the measure of its distance.

    Parameters
    ----------
    kernel : {"js", "chi2", "hellinger", "intersection", "tv"} or HomogeneousDistance, default="js"
        The kernel, by the name of its distance.
    order : int, default=3
        n, samples on each side of zero.
    period : float, optional
        L, the step between samples; by default :func:`best_period`.

    Returns
    -------
    lambdas, weights : ndarray of shape (n + 1,)
        jL, and L dμ/dλ there, half of it at zero. Hellinger's measure sits on zero and has one sample.

    Examples
    --------
    >>> lambdas, weights = spectrum_rule("chi2", 2, period=0.5)
    >>> lambdas, weights.round(4)
    (array([0. , 0.5, 1. ]), array([0.25  , 0.1993, 0.0431]))
    """
    distance = _homogeneous(kernel)
    order = check_number("spectrum_rule", "order", order, low=0, high=MAX_LAMBDAS, integer=True)
    if period is None:
        period = 1.0 if distance.is_atom else best_period(distance, order)
    return distance.trapezoid(order, check_number("spectrum_rule", "period", period, low=0, inclusive="neither"))


def worst_error(kernel: str | HomogeneousDistance, lambdas: Array, weights: Array, every: int = 1) -> float:
    r"""Largest error of κ_d by a rule, relative to x + y, over a fine sample of values x and y.

    The sum of κ_d over the cells of two histograms is then off by at most twice that.

    Parameters
    ----------
    kernel : str or HomogeneousDistance
        As in :func:`spectrum_rule`.
    lambdas, weights : ndarray of shape (n_lambdas,)
        A rule for the measure of its distance.
    every : int
        Looks at every n-th ratio.

    Returns
    -------
    float
        The maximum over 4,050 ratios with \|log(x/y)\| <= 20, and for y = 0. Between and beyond them it may be a little
        larger: by a few percent at low orders, by half where it is below 1e-5.

    Examples
    --------
    >>> [round(worst_error("js", *spectrum_rule("js", n)), 5) for n in (1, 2, 3)]
    [0.00883, 0.00303, 0.00122]
    """
    distance = _homogeneous(kernel)
    at_zero = abs(float(weights.sum()) - distance.mass)
    return max(distance.rule_error(lambdas, weights, LOG_RANGE, every), at_zero)


@lru_cache(maxsize=256)
def best_period(kernel: str | HomogeneousDistance, order: int) -> float:
    """L, the sampling period of least :func:`worst_error` for a kernel and an order.

    Computed once for each kernel and order, in some 30 ms at order 3 and a second at order 256: 80 periods from 0.02 to
    4 are tried, then those between the neighbours of the best one.

    Parameters
    ----------
    kernel : str or HomogeneousDistance
        As in :func:`spectrum_rule`.
    order : int
        n.

    Returns
    -------
    float
        L.

    Examples
    --------
    >>> [round(best_period("chi2", n), 2) for n in (1, 2, 3)]
    [0.77, 0.61, 0.52]
    """
    distance = _homogeneous(kernel)

    def error(log_period: float, every: int = 1) -> float:
        return worst_error(distance, *distance.trapezoid(order, float(np.exp(log_period))), every)

    logs = np.log(_PERIODS)
    best = int(np.argmin([error(log, every=8) for log in logs]))  # one ratio in eight shows where to look
    bounds = (logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)])
    found = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))


# --------------------------------------------------------------------------------------------------------------
# The maps
# --------------------------------------------------------------------------------------------------------------


@described(n_functions="k", parts="list[text]")
class ExplicitMap(ABC):
    """A function of one value to ``n_functions`` features, applied to every value of rows of histograms.

    Attributes
    ----------
    n_functions : int
        Features a value.
    parts : list of str
        Their names.

    Examples
    --------
    >>> made = explicit_map("js", order=1)
    >>> isinstance(made, ExplicitMap), made.n_functions, made.parts
    (True, 3, ['re0', 're1', 'im1'])
    """

    n_functions: int
    parts: list[str]

    @abstractmethod
    def write(self, values: Array, out: Array, scratch: Scratch) -> None:
        """Write the features of values (n_rows, n_values) to ``out`` (n_rows, n_functions, n_values)."""

    def __call__(self, values: ArrayLike) -> Array:
        """Features of histograms.

        Parameters
        ----------
        values : array-like of shape (n_rows, n_values)
            Nonnegative and finite.

        Returns
        -------
        ndarray of shape (n_rows, n_functions * n_values)
            Blocks of n_values features, one a function; float32 for float32 values, else float64. Values of zero have
            features of zero.
        """
        values = np.asarray(values)
        values = values if values.dtype == np.float32 else values.astype(np.float64)
        if values.ndim != 2:
            raise ValueError(
                f"values: must be an array of shape (n_rows, n_values), got shape {values.shape}; "
                "one histogram h is h[None, :]"
            )
        if not np.all(values >= 0) or np.any(np.isinf(values)):
            worst = values[~(values >= 0) | np.isinf(values)][0]
            raise ValueError(
                f"values: must be finite and not negative, got {worst:g}; pass counts or shares of histograms"
            )
        out = np.empty((len(values), self.n_functions, values.shape[1]), values.dtype)
        self.write(values, out, Scratch())
        return out.reshape(len(values), -1)


@storable(lambdas="finite(n)", weights="finite(n)")
class LambdaMap(ExplicitMap):
    """√w_j x^(1/2 + iλ_j) for a quadrature rule: real parts, then imaginary parts; one feature for a λ of zero.

    Parameters
    ----------
    lambdas, weights : ndarray of shape (n_lambdas,)
        Of a distance's measure, with increasing lambdas.

    Examples
    --------
    >>> LambdaMap(np.array([0.0]), np.array([0.5]))([[0.0, 0.5, 0.5]])
    array([[0. , 0.5, 0.5]])
    """

    def __init__(self, lambdas: Array, weights: Array) -> None:
        self.lambdas = lambdas
        self.weights = weights
        self.n_functions = n_functions(lambdas)
        self.parts = [f"re{j}" for j in range(len(lambdas))] + [f"im{j}" for j in np.flatnonzero(lambdas)]

    def __distembed_fits__(self) -> bool:
        return self.n_functions == n_functions(self.lambdas)

    def write(self, values: Array, out: Array, scratch: Scratch) -> None:
        """Write the features of values (n_rows, n_values) to ``out`` (n_rows, n_functions, n_values)."""
        out[...] = lambda_functions(values, self.lambdas, self.weights, scratch).transpose(1, 0, 2)


@storable
class PlainMap(ExplicitMap):
    """The values themselves.

    Examples
    --------
    >>> PlainMap()([[0.25, 0.75]])
    array([[0.25, 0.75]])
    """

    def __init__(self) -> None:
        self.n_functions = 1
        self.parts = ["share"]

    def __distembed_fits__(self) -> bool:
        return self.n_functions == 1

    def write(self, values: Array, out: Array, scratch: Scratch) -> None:
        """Write the values (n_rows, n_values) to ``out`` (n_rows, 1, n_values)."""
        out[:, 0] = values


def explicit_map(
    kernel: str | HomogeneousDistance = "js",
    map: str = "vedaldi",  # noqa: A002
    order: int | None = None,
    *,
    owner: object = "explicit_map",
) -> ExplicitMap:
    r"""The explicit map of an additive kernel: \|\|φ(h) - φ(g)\|\|² ≈ d²(h, g) for two histograms.

    Parameters
    ----------
    kernel : {"js", "chi2", "hellinger", "intersection", "tv", "l2", "linear"} or HomogeneousDistance, default="js"
        The kernel, by the name of its distance, see the head of this module.
    map : {"vedaldi", "gauss", "none"}, default="vedaldi"
        The kind of map. ``"none"`` serves ``"l2"`` alone.
        ``"hellinger"`` and ``"l2"`` have exact maps of one feature, which ``"vedaldi"`` and ``"gauss"`` give.
    order : int, optional
        n, 3 by default: ``"vedaldi"`` has 2n + 1 features a value, ``"gauss"`` 2n.
    owner : object or str
        Whose parameters these are, for errors.

    Returns
    -------
    ExplicitMap
        Call it with an array of shape (n_rows, n_values).

    Examples
    --------
    >>> h = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
    >>> for kernel in ("js", "hellinger"):
    ...     a, b = explicit_map(kernel, order=8)(h)
    ...     print(kernel, round(float(np.sum((a - b) ** 2)), 4))  # .066414 and .067544 are exact
    js 0.0664
    hellinger 0.0675
    """
    name = check_kernel(kernel, owner)
    check_choice(owner, "map", map, MAPS)
    order = DEFAULT_ORDER if order is None else order
    least = 0 if map == "vedaldi" else 1
    remedy = f"{DEFAULT_ORDER} is a usual order"
    order = check_number(owner, "order", order, low=least, high=MAX_LAMBDAS, integer=True, remedy=remedy)
    if name == "l2" and not isinstance(kernel, HomogeneousDistance):
        return PlainMap()
    if map == "none":
        where = owner if isinstance(owner, str) else type(owner).__name__
        raise ValueError(
            f"{where}(map='none'): gives the values themselves, whose kernel is 'l2', got kernel={kernel!r}; "
            "use kernel='l2', or map='vedaldi'"
        )
    distance = _homogeneous(kernel)
    return LambdaMap(*(distance.quadrature(order) if map == "gauss" else spectrum_rule(distance, order)))


def check_kernel(kernel: Any, owner: object) -> str:
    """The name of a legal kernel's distance; an error for any other.

    Examples
    --------
    >>> check_kernel("linear", "HistogramEmbedding")
    'l2'
    """
    if not isinstance(kernel, HomogeneousDistance):
        check_choice(owner, "kernel", kernel, (*distances.available(), *_SYNONYMS, "l2"))
    return _SYNONYMS.get(kernel, kernel) if isinstance(kernel, str) else str(kernel.name)
