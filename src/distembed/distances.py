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

Cost: a rule is computed once per fit, in milliseconds; the lambda functions take one square root, one logarithm and M
sines and cosines per density value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, interpolate, linalg, special
from sklearn.utils import check_random_state

__all__ = ["HomogeneousDistance", "available", "get", "lambda_functions"]

Array = NDArray[Any]
Kappa = Callable[[Array, Array], Array]
Density = Callable[[Array], Array]

AUTO_TOLERANCE = 0.01  # of n_lambdas="auto": sup of |kappa - kappa_M| / (x + y)
AUTO_RANGE = 10.0  # ... over |log(x / y)| up to this
MAX_LAMBDAS = 256

_N_PANELS, _PER_PANEL = 120, 20  # of the composite Gauss-Legendre rule in theta that stands for a measure
_INVERSION_RANGE = 30.0  # log ratios beyond this carry rounding errors only (see _measure_from_kappa)


# --------------------------------------------------------------------------------------------------------------
# Functions on arrays
# --------------------------------------------------------------------------------------------------------------


def lambda_functions(p: Array, lambdas: Array, weights: Array, out: Array | None = None) -> Array:
    r"""Values of √w_j p^(1/2 + iλ_j), real parts first, then the imaginary parts.

    ``0^(1/2 + iλ)`` is 0. A λ that is exactly zero has no imaginary part, and none is returned for it.

    Parameters
    ----------
    p : ndarray of shape (...)
        Density values, nonnegative.
    lambdas, weights : ndarray of shape (n_lambdas,)
        A quadrature rule for the distance's measure.
    out : ndarray of shape (n_functions, ...), optional
        Where to write, of p's dtype.

    Returns
    -------
    ndarray of shape (n_functions, ...)
        ``n_functions`` is 2 n_lambdas less the number of zeros among the lambdas.

    Examples
    --------
    >>> lambda_functions(np.array([0.0, 1.0, 4.0]), np.array([0.0]), np.array([0.25]))
    array([[0. , 0.5, 1. ]])
    """
    n_real, n_turning = len(lambdas), int(np.count_nonzero(lambdas))
    if out is None:
        out = np.empty((n_real + n_turning, *p.shape), p.dtype)
    cast = p.dtype.type
    root = np.sqrt(p)
    if n_turning:
        log_p = np.maximum(p, np.finfo(p.dtype).tiny)
        np.log(log_p, out=log_p)
        angle = np.empty_like(p)
    n_imag = n_real
    for j, (lam, scale) in enumerate(zip(lambdas, np.sqrt(weights), strict=True)):
        if lam == 0.0:
            np.multiply(root, cast(scale), out=out[j])
            continue
        np.multiply(log_p, cast(lam), out=angle)
        np.cos(angle, out=out[j])
        np.sin(angle, out=out[n_imag])
        np.multiply(root, cast(scale), out=angle)
        out[j] *= angle
        out[n_imag] *= angle
        n_imag += 1
    return out


def _sech(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.asarray(2.0 * decay / (1.0 + decay * decay))


def _theta_rule(density: Density) -> tuple[Array, Array]:
    """Fine discretisation (λ_i, w_i) of a measure, by composite Gauss-Legendre in θ = arctan(2λ)."""
    x, w = np.polynomial.legendre.leggauss(_PER_PANEL)
    width = np.pi / 2 / _N_PANELS
    theta = ((np.arange(_N_PANELS)[:, None] + 0.5 * (x + 1)) * width).ravel()
    lam = np.tan(theta) / 2
    # dλ = (1 + 4λ²)/2 dθ
    return lam, np.tile(w * width / 2, _N_PANELS) * density(lam) * (1 + 4 * lam * lam) / 2


def _gauss(values: Array, masses: Array, n: int) -> tuple[Array, Array]:
    """Gauss quadrature with n nodes for a discrete measure: Lanczos, then Golub and Welsch (1969)."""
    keep = masses > 1e-18 * masses.sum()
    values, masses = values[keep], masses[keep]
    n = min(n, len(values))
    basis = np.empty((n, len(values)))
    diagonal, off = np.empty(n), np.empty(n)
    vector = np.sqrt(masses / masses.sum())
    for k in range(n):
        basis[k] = vector
        vector = values * vector
        diagonal[k] = basis[k] @ vector
        for _ in range(2):  # full reorthogonalisation, twice is enough
            vector = vector - basis[: k + 1].T @ (basis[: k + 1] @ vector)
        off[k] = np.linalg.norm(vector)
        vector = vector / off[k] if off[k] > 0 else vector
    nodes, vectors = linalg.eigh_tridiagonal(diagonal, off[: n - 1])
    return nodes, masses.sum() * vectors[0] ** 2


def _cosine_transform(kappa: Kappa, mass: float, u: Array) -> Array:
    """∫ cos(λu) dμ = Z cosh(u/2) - κ(e^(u/2), e^(-u/2)) / 2, written so that it cancels least."""
    u = np.abs(u)
    ratio = np.exp(-u)
    return np.asarray(np.exp(u / 2) * (mass * (1 + ratio) - kappa(np.ones_like(u), ratio)) / 2)


def _measure_from_kappa(kappa: Kappa, mass: float) -> tuple[Density, float]:
    """Density and atom at zero of the measure of κ, by inverting its cosine transform.

    The transform loses e^(u/2) units of rounding to cancellation, so it is used up to u = 30 only (about 1e-9 there).
    """
    edge = np.array([_INVERSION_RANGE - 1, _INVERSION_RANGE])
    tail = _cosine_transform(kappa, mass, edge)
    atom = float(tail[1])
    if abs(tail[1] - tail[0]) > 1e-4 * mass:
        raise ValueError(
            "kappa: its cosine transform does not settle for large log(x / y), so its measure can't be found "
            f"numerically (values {tail[0]:.3g}, {tail[1]:.3g}); give the measure itself"
        )
    atom = 0.0 if abs(atom) < 1e-5 * mass else atom
    # Panels that shrink towards u = 0 resolve a kink there (total variation has one).
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 40), np.linspace(1.0, _INVERSION_RANGE, 400)[1:]])
    widths = np.diff(edges)[:, None]
    u = (edges[:-1, None] + widths * (x + 1) / 2).ravel()
    weighted = (widths * w / 2).ravel() * (_cosine_transform(kappa, mass, u) - atom)

    def density_at(lam: Array) -> Array:
        return np.asarray((2 / np.pi) * (np.cos(np.multiply.outer(lam, u)) @ weighted))

    top = 40.0
    knots = np.concatenate([np.linspace(0, 4, 161), np.geomspace(4, top, 161)[1:]])
    table = density_at(knots)
    noise = 1e-6 * max(np.max(np.abs(table)), mass)
    if np.any(table < -100 * noise):
        worst = knots[np.argmin(table)]
        raise ValueError(
            f"kappa: its measure is negative (near lambda = {worst:.3g}), so it is not a squared Hilbertian metric "
            "and has no embedding; choose another kappa"
        )
    # A light tail ends where it sinks into the noise of the inversion; a heavy one goes on as a power law.
    heavy = bool(table[-1] > noise and table[-20] > table[-1])
    if not heavy:
        table = np.where(np.logical_and.accumulate(table > noise), table, 0.0)
    spline = interpolate.PchipInterpolator(knots, np.maximum(table, 0.0))
    end = table[-1]
    power = np.log(table[-20] / end) / np.log(knots[-1] / knots[-20]) if heavy else 0.0

    def density(lam: Array) -> Array:
        lam = np.asarray(lam, float)
        inside = np.maximum(spline(np.minimum(lam, top)), 0.0)
        beyond = end * (top / np.maximum(lam, top)) ** power if heavy else 0.0
        return np.where(lam <= top, inside, beyond)

    return density, atom


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
        Mass of μ at λ = 0 (the Hellinger distance has nothing else). Only with ``measure``.

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
        self, name: str, *, kappa: Kappa | None = None, measure: Density | None = None, atom: float = 0.0
    ) -> None:
        if kappa is None and measure is None and atom == 0.0:
            raise ValueError(f"HomogeneousDistance({name!r}): give kappa, or measure, or both; got neither")
        if kappa is None and atom < 0:
            raise ValueError(f"HomogeneousDistance({name!r}): atom must be a mass >= 0, got {atom}")
        self.name = name
        self._kappa = kappa
        self._measure = measure
        self._atom = float(atom)
        if kappa is not None:
            _check_kappa(name, kappa)
            if measure is None and atom == 0.0:
                self._measure, self._atom = _measure_from_kappa(kappa, float(kappa(np.ones(1), np.zeros(1))[0]))
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
        a, b = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        if self._kappa is not None:
            return np.asarray(self._kappa(a, b))
        both = (a > 0) & (b > 0)
        u = np.log(np.where(both, a, 1.0)) - np.log(np.where(both, b, 1.0))
        cross = np.where(both, np.sqrt(a * b) * self._transform_spline(np.minimum(np.abs(u), 80.0)), 0.0)
        return np.asarray(self.mass * (a + b) - 2 * cross)

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
        (array([0.105, 0.504, 1.286]), True)
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= MAX_LAMBDAS:
            raise ValueError(f"n_lambdas: must be an integer from 1 to {MAX_LAMBDAS}, got {n!r}")
        lam, masses = self._rule
        if self._heavy_tailed:
            theta, weights = _gauss(np.arctan(2 * lam), masses, int(n))
            return np.tan(theta) / 2, weights
        squares, weights = _gauss(lam * lam, masses, int(n))
        return np.sqrt(np.maximum(squares, 0.0)), weights

    def sample(self, n: int, random_state: int | np.random.RandomState | None = None) -> Array:
        """Draw n lambdas from μ / Z, the paper's rule.

        Examples
        --------
        >>> get("hellinger").sample(3, random_state=0)
        array([0., 0., 0.])
        """
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
        a, b = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        both = (a > 0) & (b > 0)
        u = np.log(np.where(both, a, 1.0)) - np.log(np.where(both, b, 1.0))
        cross = np.where(both, np.sqrt(a * b), 0.0) * (np.cos(np.multiply.outer(u, lambdas)) @ weights)
        return np.asarray(np.sum(weights) * (a + b) - 2 * cross)

    def rule_error(self, lambdas: Array, weights: Array, log_ratio: float = AUTO_RANGE) -> float:
        """Worst \\|κ - κ_M\\| / (x + y) of a rule over \\|log(x/y)\\| up to ``log_ratio``.

        Examples
        --------
        >>> js = get("js")
        >>> round(js.rule_error(*js.quadrature(3)), 4)
        0.0081
        """
        ratio = np.exp(-np.concatenate([np.geomspace(1e-4, 1e-2, 50), np.linspace(1e-2, log_ratio, 4000)]))
        ones = np.ones_like(ratio)
        error = self.approximate(ones, ratio, lambdas, weights) - self.kappa(ones, ratio)
        return float(np.max(np.abs(error) / (1 + ratio)))

    def auto_quadrature(self, tolerance: float = AUTO_TOLERANCE, log_ratio: float = AUTO_RANGE) -> tuple[Array, Array]:
        """The smallest Gauss rule whose :meth:`rule_error` is at most ``tolerance``.

        Examples
        --------
        >>> [len(get(name).auto_quadrature()[0]) for name in available()]
        [2, 1, 2, 15]
        """
        for n in range(1, MAX_LAMBDAS + 1):
            rule = self.quadrature(n)
            if self.rule_error(*rule, log_ratio=log_ratio) <= tolerance:
                return rule
        raise ValueError(
            f"n_lambdas='auto': {self.name!r} needs more than {MAX_LAMBDAS} lambdas for a tolerance of {tolerance}"
        )

    @cached_property
    def _rule(self) -> tuple[Array, Array]:
        lam, masses = _theta_rule(self._measure) if self._measure is not None else (np.empty(0), np.empty(0))
        if self._atom > 0:
            lam, masses = np.append(0.0, lam), np.append(self._atom, masses)
        return lam, masses

    @cached_property
    def _heavy_tailed(self) -> bool:
        lam, masses = self._rule
        return bool(masses[lam > 8.0].sum() > 1e-6 * masses.sum())

    @cached_property
    def _cdf(self) -> tuple[Array, Array]:
        theta = np.linspace(0, np.pi / 2, 20_001)
        rate = np.zeros_like(theta)
        if self._measure is not None:
            lam = np.tan(theta[:-1]) / 2
            rate[:-1] = self._measure(lam) * (1 + 4 * lam * lam) / 2
            rate[-1] = rate[-2]
        steps = (rate[1:] + rate[:-1]) / 2
        total = np.append(self._atom, self._atom + np.cumsum(steps) * (theta[1] - theta[0]))
        return theta, total / total[-1]

    @cached_property
    def _transform_spline(self) -> interpolate.CubicSpline:
        """∫ cos(λu) dμ for a distance that is known by its measure alone."""
        if self._measure is None:
            return interpolate.CubicSpline([0.0, 80.0], [self._atom, self._atom])
        measure = self._measure
        u = np.concatenate([np.geomspace(1e-3, 1.0, 80), np.linspace(1.0, 80.0, 240)[1:]])
        values = [
            integrate.quad(lambda lam: float(measure(np.array([lam]))[0]), 0, np.inf, weight="cos", wvar=v, limlst=200)[
                0
            ]
            for v in u
        ]
        at_zero = float(_theta_rule(measure)[1].sum())
        return interpolate.CubicSpline(np.append(0.0, u), np.append(at_zero, values) + self._atom)

    def _check_measure(self) -> None:
        lam, masses = self._rule
        if not np.all(np.isfinite(masses)) or np.any(masses < 0):
            raise ValueError(
                f"HomogeneousDistance({self.name!r}): measure must be nonnegative with a finite integral over "
                "lambda >= 0; it is negative or not finite"
            )
        if self._kappa is None:
            return
        found = float(masses.sum())
        if abs(found - self.mass) > 1e-3 * self.mass:
            raise ValueError(
                f"HomogeneousDistance({self.name!r}): the measure does not belong to kappa: its mass is {found:.6g}, "
                f"kappa(1, 0) is {self.mass:.6g}; correct one of them, or give kappa alone"
            )


def _check_kappa(name: str, kappa: Kappa) -> None:
    x, y = np.array([1.0, 1.0, 2.0, 0.3]), np.array([0.0, 2.0, 0.7, 0.3])
    with np.errstate(all="ignore"):
        values, swapped, scaled = (np.asarray(kappa(a, b)) for a, b in ((x, y), (y, x), (3 * x, 3 * y)))
    rules = (
        (
            values.shape == x.shape and bool(np.all(np.isfinite(values))),
            "return one finite number for each pair",
        ),
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
    return np.asarray((special.rel_entr(x, mean) + special.rel_entr(y, mean)) / 2)


def _js_measure(lam: Array) -> Array:
    return _sech(np.pi * lam) / (1 + 4 * lam * lam)


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
    return _sech(np.pi * lam)


_FAMILY = {
    distance.name: distance
    for distance in (
        HomogeneousDistance("js", kappa=_js_kappa, measure=_js_measure),
        HomogeneousDistance("hellinger", kappa=_hellinger_kappa, atom=0.5),
        HomogeneousDistance("chi2", kappa=_chi2_kappa, measure=_chi2_measure),
        HomogeneousDistance("tv", kappa=_tv_kappa, measure=_tv_measure),
    )
}


def available() -> list[str]:
    """Names of the distances that :func:`get` knows.

    Examples
    --------
    >>> available()
    ['js', 'hellinger', 'chi2', 'tv']
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
        f"distance: must be one of {', '.join(map(repr, _FAMILY))} or a HomogeneousDistance, got {distance!r}"
    )
