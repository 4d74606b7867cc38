r"""Homogeneous density distances and their lambda functions.

A homogeneous density distance (HDD) between two densities is

.. math::  d^2(p, q) = \int κ(p(x), q(x)) \, dx, \qquad κ(tx, ty) = t κ(x, y),

with κ of negative type. Fuglede (2005) shows that each such κ belongs to a bounded measure μ on λ >= 0,

.. math::  κ(x, y) = \int |x^{1/2 + iλ} - y^{1/2 + iλ}|^2 \, dμ(λ)
                   = \int (x + y - 2 \sqrt{xy} \cos(λ \log(x/y))) \, dμ(λ),

of mass Z = κ(1, 0). A quadrature rule (λ_j, w_j) for μ turns a density into M complex functions
√w_j p^(1/2 + iλ_j), 2M real ones, whose L2 distance approximates d: the function ψ of the paper.

Two rules exist. ``"random"`` is the paper's: λ_j drawn from μ/Z, w_j = Z/M. ``"gauss"`` is Gauss quadrature for μ,
in λ² where μ has light tails (js, chi2) and in θ = arctan(2λ) where it has heavy ones (tv).

The measures below correct the paper's Table 1: Jensen-Shannon has 1 + 4λ² where 1 + λ² is printed, and the printed
total-variation measure gives half of \|x - y\|, which is what ``"tv"`` means here.

A rule is computed once per fit, in milliseconds. :mod:`distembed.distances.lambdas` applies it to densities.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import interpolate, special
from sklearn.utils import check_random_state

from ..compute.arrays import Array
from ..compute.registry import Registry
from .lambdas import Density, Kappa, cumulative, gauss, measure_from_kappa, sech, theta_rule, transform_of_measure

AUTO_TOLERANCE = 0.01  # of n_lambdas="auto": sup of |kappa - kappa_M| / (x + y)
AUTO_RANGE = 10.0  # ... over |log(x / y)| up to this
MAX_LAMBDAS = 256


# --------------------------------------------------------------------------------------------------------------
# The value object
# --------------------------------------------------------------------------------------------------------------


class HomogeneousDistance:
    r"""A squared distance d² = ∫ κ(p, q) between densities, with κ homogeneous and of negative type.

    Give κ, or the measure, or both; what is missing is computed. κ alone is enough: its mass is κ(1, 0) and

    .. math:: \int \cos(λu) \, dμ(λ) = Z \cosh(u/2) - κ(e^{u/2}, e^{-u/2}) / 2

    is inverted numerically (to about six digits). A κ whose measure turns negative is refused: it has no embedding.

    Parameters
    ----------
    name : str
        Used in feature names and messages.
    kappa : callable, optional
        ``kappa(x, y)``, vectorised, for nonnegative arrays; symmetric, 0 on the diagonal, homogeneous of degree one.
    measure : callable, optional
        Density of μ with respect to dλ on λ >= 0, vectorised, nonnegative.
    atom : float, default=0.0
        Mass of μ at λ = 0; the Hellinger distance has nothing else.
    description : str, optional
        Description for catalogues.

    Attributes
    ----------
    mass : float
        Z = μ([0, ∞)) = κ(1, 0).

    Examples
    --------
    The symmetric chi-square distance from its κ alone:

    >>> d = HomogeneousDistance("mine", kappa=lambda x, y: (x - y) ** 2 / (2 * (x + y)))
    >>> d.mass
    0.5
    >>> lambdas, weights = d.quadrature(3)
    >>> bool(abs(d.approximate(1.0, 2.0, lambdas, weights) - 1 / 6) < 1e-3)
    True
    """

    def __init__(
        self,
        name: str,
        *,
        kappa: Kappa | None = None,
        measure: Density | None = None,
        atom: float = 0.0,
        description: str = "",
    ) -> None:
        if kappa is None and measure is None and atom == 0.0:
            raise ValueError(f"HomogeneousDistance({name!r}): give kappa, or measure, or both; got neither")
        if atom < 0:
            raise ValueError(f"HomogeneousDistance({name!r}): atom must be a mass >= 0, got {atom}")
        self.name = name
        self.description = description or f"homogeneous distance {name!r}"
        self._kappa = kappa
        self._measure = measure
        self._atom = float(atom)
        self._auto_rules: dict[tuple[float, float], tuple[Array, Array]] = {}
        if kappa is not None:
            _check_kappa(name, kappa)
            if measure is None and atom == 0.0:
                self._measure, self._atom = measure_from_kappa(kappa, float(kappa(np.ones(1), np.zeros(1))[0]))
        self._check_measure()

    def __repr__(self) -> str:
        return f"HomogeneousDistance({self.name!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HomogeneousDistance):
            return NotImplemented
        mine = (self.name, self._kappa, self._measure, self._atom)
        return mine == (other.name, other._kappa, other._measure, other._atom)

    def __hash__(self) -> int:
        return hash(self.name)

    def kappa(self, x: ArrayLike, y: ArrayLike) -> Array:
        """κ(x, y), elementwise.

        Examples
        --------
        >>> float(get("tv").kappa(1.0, 3.0))
        1.0
        """
        if self._kappa is not None:
            return np.asarray(self._kappa(*np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))))
        return _from_transform(x, y, self.mass, lambda u: self._transform_spline(np.minimum(np.abs(u), 80.0)))

    @cached_property
    def mass(self) -> float:
        """Z, the mass of the measure, κ(1, 0)."""
        if self._kappa is not None:
            return float(self._kappa(np.ones(1), np.zeros(1))[0])
        return float(self._rule[1].sum())

    def quadrature(self, n: int) -> tuple[Array, Array]:
        """Gauss quadrature for the measure.

        Parameters
        ----------
        n : int
            Number of nodes. A measure that sits on fewer points (Hellinger's sits on one) returns fewer.

        Returns
        -------
        lambdas, weights : ndarray of shape (n,)
            Increasing nodes and positive weights of sum ``mass``.

        Notes
        -----
        Exact for polynomials of degree 2n - 1 in λ² (js, chi2) or in arctan(2λ) (tv and other heavy tails).

        Examples
        --------
        >>> lambdas, weights = get("js").quadrature(3)
        >>> lambdas.round(3), bool(np.isclose(weights.sum(), np.log(2) / 2))
        (array([0.259, 1.086, 2.698]), True)
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= MAX_LAMBDAS:
            raise ValueError(f"n_lambdas: must be an integer from 1 to {MAX_LAMBDAS}, got {n!r}")
        lam, masses = self._rule
        if self.heavy_tailed:
            theta, weights = gauss(np.arctan(2 * lam), masses, int(n))
            return np.tan(theta) / 2, weights
        squares, weights = gauss(lam * lam, masses, int(n))
        return np.sqrt(np.maximum(squares, 0.0)), weights

    def trapezoid(self, n: int, step: float) -> tuple[Array, Array]:
        """The trapezoidal rule for the measure: n equal steps from λ = 0, to whose weight an atom there is added.

        A measure that :attr:`is_atom` has that one node.

        Examples
        --------
        >>> lambdas, weights = get("chi2").trapezoid(2, 0.5)
        >>> lambdas, weights.round(4)
        (array([0. , 0.5, 1. ]), array([0.25  , 0.1993, 0.0431]))
        """
        if self._measure is None:
            return np.zeros(1), np.array([self._atom])
        lambdas = np.arange(n + 1) * step
        weights = step * self._measure(lambdas)
        weights[0] = weights[0] / 2 + self._atom
        return lambdas, weights

    def sample(self, n: int, random_state: int | np.random.RandomState | None = None) -> Array:
        """Draw n lambdas from μ / Z, the paper's rule.

        Examples
        --------
        >>> get("hellinger").sample(3, random_state=0)
        array([0., 0., 0.])
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n: must be a positive integer, the number of lambdas to draw, got {n!r}")
        uniform = check_random_state(random_state).uniform(size=n)
        theta, cumulative = self._cdf
        drawn = np.tan(np.interp(uniform, cumulative, theta)) / 2
        return np.where(uniform * self.mass < self._atom, 0.0, drawn)

    def approximate(self, x: ArrayLike, y: ArrayLike, lambdas: Array, weights: Array) -> Array:
        """κ_M(x, y): κ with its measure replaced by a quadrature rule.

        Examples
        --------
        >>> js = get("js")
        >>> bool(abs(js.approximate(1.0, 2.0, *js.quadrature(3)) - js.kappa(1.0, 2.0)) < 1e-5)
        True
        """
        return _from_transform(x, y, np.sum(weights), lambda u: np.cos(np.multiply.outer(u, lambdas)) @ weights)

    def rule_error(self, lambdas: Array, weights: Array, log_ratio: float = AUTO_RANGE, every: int = 1) -> float:
        """Worst error, relative to x + y, of κ_M over log ratios log(x/y) up to ``log_ratio``.

        Found at 4,050 ratios, or at one in ``every`` of them.

        Examples
        --------
        >>> js = get("js")
        >>> round(js.rule_error(*js.quadrature(3)), 4)
        0.0083
        """
        ratio = np.exp(-np.concatenate([np.geomspace(1e-4, 1e-2, 50), np.linspace(1e-2, log_ratio, 4000)]))[::every]
        ones = np.ones_like(ratio)
        error = self.approximate(ones, ratio, lambdas, weights) - self.kappa(ones, ratio)
        return float(np.max(np.abs(error) / (1 + ratio)))

    def auto_quadrature(self, tolerance: float = AUTO_TOLERANCE, log_ratio: float = AUTO_RANGE) -> tuple[Array, Array]:
        """The smallest Gauss rule whose :meth:`rule_error` is at most ``tolerance``.

        Examples
        --------
        >>> [len(get(name).auto_quadrature()[0]) for name in available()]
        [3, 1, 60, 12]
        """
        if (tolerance, log_ratio) in self._auto_rules:
            return self._auto_rules[tolerance, log_ratio]
        if self.rule_error(*self.quadrature(MAX_LAMBDAS), log_ratio=log_ratio) > tolerance:
            raise ValueError(
                f"n_lambdas='auto': {self.name!r} needs more than {MAX_LAMBDAS} lambdas for a tolerance of {tolerance}"
            )
        rules = (self.quadrature(n) for n in range(1, MAX_LAMBDAS + 1))
        found = next(rule for rule in rules if self.rule_error(*rule, log_ratio=log_ratio) <= tolerance)
        self._auto_rules[tolerance, log_ratio] = found
        return found

    @property
    def is_atom(self) -> bool:
        """Whether the measure is only a mass at λ = 0, as that of the Hellinger distance is."""
        return self._measure is None

    @cached_property
    def _rule(self) -> tuple[Array, Array]:
        lam, masses = theta_rule(self._measure) if self._measure is not None else (np.empty(0), np.empty(0))
        if self._atom > 0:
            lam = np.append(0.0, lam)
            masses = np.append(self._atom, masses)
        return lam, masses

    @cached_property
    def heavy_tailed(self) -> bool:
        """Whether the measure reaches out to large lambdas (more than 1e-6 of it beyond 8)."""
        lam, masses = self._rule
        return bool(masses[lam > 8.0].sum() > 1e-6 * masses.sum())

    @cached_property
    def _cdf(self) -> tuple[Array, Array]:
        return cumulative(self._measure, self._atom)

    @cached_property
    def _transform_spline(self) -> interpolate.CubicSpline:
        """∫ cos(λu) dμ for a distance that is known by its measure alone."""
        return transform_of_measure(self._measure, self._atom)

    def _check_measure(self) -> None:
        lam, masses = self._rule
        if not np.all(np.isfinite(masses)) or np.any(masses < 0):
            raise ValueError(
                f"HomogeneousDistance({self.name!r}): measure must be nonnegative with a finite integral over "
                "lambda >= 0; it is negative or not finite"
            )
        if self._kappa is None:
            return
        ratios = np.array([0.0, 0.02, 0.2, 0.6])
        wanted = self.kappa(1.0, ratios)
        found = self.approximate(1.0, ratios, lam, masses)
        if np.any(np.abs(found - wanted) > 0.01 * self.mass):
            worst = int(np.argmax(np.abs(found - wanted)))
            raise ValueError(
                f"HomogeneousDistance({self.name!r}): the measure does not belong to kappa: kappa(1, "
                f"{ratios[worst]:g}) is {wanted[worst]:.6g}, the measure gives {found[worst]:.6g}; correct one of "
                "them, or give kappa alone"
            )


def _from_transform(x: ArrayLike, y: ArrayLike, mass: float, transform: Callable[[Array], Array]) -> Array:
    """κ(x, y) = Z (x + y) - 2 √(xy) c(log(x/y)) from the mass Z of a measure and its cosine transform c."""
    a, b = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
    both = (a > 0) & (b > 0)
    u = np.log(np.where(both, a, 1.0)) - np.log(np.where(both, b, 1.0))
    return np.asarray(mass * (a + b) - 2 * np.where(both, np.sqrt(a * b) * transform(u), 0.0))


def _check_kappa(name: str, kappa: Kappa) -> None:
    x = np.array([1.0, 1.0, 2.0, 0.3])
    y = np.array([0.0, 2.0, 0.7, 0.3])
    with np.errstate(all="ignore"):
        values, swapped, scaled = (np.asarray(kappa(a, b)) for a, b in ((x, y), (y, x), (3 * x, 3 * y)))
    rules = (
        (values.shape == x.shape and bool(np.all(np.isfinite(values))), "return one finite number for each pair"),
        (bool(np.all(values > -1e-12)) and bool(values[0] > 0), "be nonnegative, with kappa(1, 0) > 0"),
        (bool(abs(values[-1]) < 1e-9), "be 0 where x = y"),
        (bool(np.allclose(values, swapped)), "be symmetric"),
        (bool(np.allclose(3 * values, scaled)), "be homogeneous: kappa(t x, t y) = t kappa(x, y)"),
    )
    for holds, rule in rules:
        if not holds:
            raise ValueError(
                f"HomogeneousDistance({name!r}): kappa must {rule}; at x = {x.tolist()}, y = {y.tolist()} "
                f"it returned {values.tolist()}"
            )


# --------------------------------------------------------------------------------------------------------------
# The family
# --------------------------------------------------------------------------------------------------------------


def _js_kappa(x: Array, y: Array) -> Array:
    mean = (x + y) / 2
    found = np.asarray((special.rel_entr(x, mean) + special.rel_entr(y, mean)) / 2)
    return np.where(mean > 0, found, 0.0)  # half of the smallest number is zero


def _js_measure(lam: Array) -> Array:
    return np.asarray(sech(np.pi * lam) / (1 + 4 * lam * lam))


def _hellinger_kappa(x: Array, y: Array) -> Array:
    return np.asarray((np.sqrt(x) - np.sqrt(y)) ** 2 / 2)


def _tv_kappa(x: Array, y: Array) -> Array:
    return np.asarray(np.abs(x - y) / 2)


def _tv_measure(lam: Array) -> Array:
    return np.asarray((2 / np.pi) / (1 + 4 * lam * lam))


def _chi2_kappa(x: Array, y: Array) -> Array:
    total = x + y
    return np.asarray((x - y) ** 2 / np.where(total > 0, 2 * total, 1.0))


def _chi2_measure(lam: Array) -> Array:
    return sech(np.pi * lam)


_FAMILY: Registry[HomogeneousDistance] = Registry("distance")


def register(distance: HomogeneousDistance) -> None:
    """Let a distance be found by its name: in embeddings, learners, divergences, tests and the command line.

    Examples
    --------
    >>> import distembed as de
    >>> twice = de.HomogeneousDistance("twice-hellinger", kappa=lambda x, y: (np.sqrt(x) - np.sqrt(y)) ** 2)
    >>> register(twice)
    >>> de.embeddings.get("twice-hellinger", n_basis=5)
    HDDEmbedding(distance='twice-hellinger', n_basis=5)
    >>> forget("twice-hellinger")
    """
    if not isinstance(distance, HomogeneousDistance):
        raise TypeError(
            f"distances.register: must be a HomogeneousDistance, got {type(distance).__name__}; make one from its kappa"
        )
    _FAMILY.add(distance.name, distance)


def forget(name: str) -> None:
    """Take back :func:`register`."""
    del _FAMILY[name]


for _distance in (
    HomogeneousDistance("js", kappa=_js_kappa, measure=_js_measure, description="Jensen-Shannon divergence"),
    HomogeneousDistance("hellinger", kappa=_hellinger_kappa, atom=0.5, description="squared Hellinger distance"),
    HomogeneousDistance("tv", kappa=_tv_kappa, measure=_tv_measure, description="total variation"),
    HomogeneousDistance("chi2", kappa=_chi2_kappa, measure=_chi2_measure, description="symmetric chi-square"),
):
    register(_distance)


def available() -> list[str]:
    """Names of the distances that :func:`get` knows.

    Examples
    --------
    >>> available()
    ['js', 'hellinger', 'tv', 'chi2']
    """
    return list(_FAMILY)


def get(distance: str | HomogeneousDistance) -> HomogeneousDistance:
    r"""A distance by name; a :class:`HomogeneousDistance` is returned as it is.

    ============= ===================================================== ======================== =======
    name          d²(p, q)                                              dμ / dλ                  mass Z
    ============= ===================================================== ======================== =======
    ``js``        Jensen-Shannon divergence, nats, in [0, ln 2]         sech(πλ) / (1 + 4λ²)     ln 2 / 2
    ``hellinger`` 1 - ∫ √(pq), in [0, 1]                                ½ δ(λ = 0)               1/2
    ``tv``        ½ ∫ \|p - q\|, in [0, 1]                              (2/π) / (1 + 4λ²)        1/2
    ``chi2``      ½ ∫ (p - q)² / (p + q), in [0, 1]                     sech(πλ)                 1/2
    ============= ===================================================== ======================== =======

    Examples
    --------
    >>> round(get("js").mass, 6)
    0.346574
    """
    if isinstance(distance, HomogeneousDistance):
        return distance
    if isinstance(distance, str) and distance in _FAMILY:
        return _FAMILY[distance]
    raise ValueError(
        f"distance: must be one of {', '.join(map(repr, _FAMILY))} or a HomogeneousDistance, got {distance!r}; "
        "choose one of these, or make your own from its kappa"
    )
