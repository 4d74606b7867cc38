r"""The terms of the paper's error bound, one function per stage.

Each is Hoeffding's inequality or a relative of it, with its constants as arguments; see :mod:`distembed.theory`, where
all of them are public, for the theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from math import atan, exp, inf, log, pi, sqrt
from typing import Any

import numpy as np
from scipy import integrate

from .. import distances
from ..compute.checks import check_choice, check_number

DISTANCES = ("js", "hellinger", "tv", "chi2")
BASES = ("complex", "real")
COUNTED = 10**6  # rows of the lattice that are counted one by one
# Terms fall with ε and with their size, so that they may be taken at these instead of anything larger: still upper
# bounds, and powers of them are still floats.
LARGEST = 2**400
LARGEST_EPSILON = 1e30


def _mass(owner: str, distance: str) -> float:
    return distances.get(check_choice(owner, "distance", distance, DISTANCES)).mass


def check_positive(owner: str, **values: float) -> None:
    """Refuse what is not a positive number.

    Examples
    --------
    >>> check_positive("error_bound", epsilon=0.0)
    Traceback (most recent call last):
    ...
    ValueError: error_bound(epsilon=...): must be a number in (0, inf), got 0.0; choose a value in that range
    """
    for name, value in values.items():
        check_number(owner, name, value, low=0, inclusive="neither")


def _epsilon(owner: str, epsilon: float) -> float:
    return min(check_number(owner, "epsilon", epsilon, low=0, inclusive="neither"), LARGEST_EPSILON)


def _sizes(owner: str, **values: int) -> None:
    for name, value in values.items():
        check_number(owner, name, value, low=1, integer=True)


# --------------------------------------------------------------------------------------------------------------
# The terms
# --------------------------------------------------------------------------------------------------------------


def random_feature_term(epsilon: float, n_components: int, *, printed: bool = False) -> float:
    """``P(|K - z·z| >= ε) <= 2 exp(-D ε²/4)`` for D random Fourier features.

    z(x)·z(y) is the mean of D/2 independent cosines in [-1, 1], and this is Hoeffding's inequality. (Features with
    random phases, ``features="phase"``, are not covered: theirs would be 2 exp(-D ε²/8).)

    Parameters
    ----------
    epsilon : float
        ε_RKS, in units of the kernel.
    n_components : int
        D.
    printed : bool, default=False
        The paper's 2 exp(-D ε²) instead, which is false.

    Returns
    -------
    float
        At most one.

    Examples
    --------
    >>> round(random_feature_term(0.05, 5000), 4)
    0.0879
    """
    epsilon = _epsilon("random_feature_term", epsilon)
    _sizes("random_feature_term", n_components=n_components)
    return min(1.0, 2 * exp(-min(n_components, LARGEST) * epsilon**2 / (1 if printed else 4)))


def density_term(
    epsilon: float,
    n_points: int,
    *,
    distance: str = "js",
    n_dims: int = 1,
    smoothness: float = 2.0,
    density_constant: float = 1.0,
    density_rate: float = 1.0,
    density_bias: float = 1.0,
) -> float:
    r"""P(\|d(p, q) - d(p̂, q̂)\| >= ε), the term ε_KDE, for kernel density estimates from n points.

    d is a metric, and κ(x, y) <= Z \|x - y\| for these distances, so one of the two densities must be off by

    .. math:: \|p - \hat p\|_\infty \ge u = ε^2 / (4 Z).

    With the bandwidth h = (log n / n)^(1/(2β+l)) bias and mean of the largest fluctuation are together at most B h^β;
    that \|p̂ - E p̂\|_∞ exceeds its mean by s has at most the probability C exp(-n h^l s² / C') (Talagrand's
    inequality, which that of Giné and Guillou follows from). This gives

    .. math:: 2 C \exp\Bigl(-\frac{\log n}{C'} \bigl(u \, (n / \log n)^{β/(2β+l)} - B\bigr)_+^2\Bigr).

    Parameters
    ----------
    epsilon : float
        ε_KDE, in units of d.
    n_points : int
        n, of each bag.
    distance : {"js", "hellinger", "tv", "chi2"}, default="js"
        Its mass Z.
    n_dims : int, default=1
        l.
    smoothness : float, default=2.0
        β of the Hölder class of the densities; beyond 2 a kernel of higher order is needed.
    density_constant, density_rate : float, default=1.0
        C and C'. C = 1 and C' = ρ^* (2 ∫K² + 4 max K) will do (erratum 12); the defaults stand for unknown.
    density_bias : float, default=1.0
        B >= (sup \|E p̂ - p\| + E sup \|p̂ - E p̂\|) / h^β. For β = 2 and Gaussian kernels the first part is half of the
        largest Laplacian of p; the second tends to √(2 l ρ^* ∫K² / (2β+l)) and must not be left out.

    Returns
    -------
    float
        At most one; one for fewer than three points.

    Notes
    -----
    The paper has 2 C^(-1)(ε⁴ n^(2β/(2β+l)) / (4 log n)) with an unspecified function C^(-1), for a bandwidth that does
    not give that rate (erratum 12). Estimates must wrap around, as the densities do (erratum 13).

    Examples
    --------
    >>> [round(density_term(0.3, n), 3) for n in (10_000, 20_000, 40_000)]
    [1.0, 0.543, 0.005]
    """
    epsilon = _epsilon("density_term", epsilon)
    check_positive("density_term", smoothness=smoothness)
    check_positive("density_term", density_constant=density_constant, density_rate=density_rate)
    check_number("density_term", "density_bias", density_bias, low=0)
    _sizes("density_term", n_points=n_points, n_dims=n_dims)
    u = epsilon**2 / (4 * _mass("density_term", distance))
    if n_points < 3:  # n / log n grows from e on
        return 1.0
    many = log(min(n_points, LARGEST))
    beyond = u * exp(smoothness / (2 * smoothness + n_dims) * (many - log(many))) - density_bias
    return min(1.0, 2 * density_constant * exp(-many * max(0.0, beyond) ** 2 / density_rate))


def lambda_term(epsilon: float, n_lambdas: int, *, distance: str = "js", lower: float = 0.5) -> float:
    r"""P(\| \|\|ψ(p̂) - ψ(q̂)\|\| - d(p̂, q̂) \| >= ε), the term ε_λ, for M random lambdas.

    Hoeffding's inequality for a mean of M values in [0, 4Z(1 + ρ_*)]: 2 exp(-M ε⁴ / (8 Z² (1 + ρ_*)²)). Zero for
    Hellinger, which has one lambda.

    Parameters
    ----------
    epsilon : float
        ε_λ, in units of d.
    n_lambdas : int
        M.
    distance : {"js", "hellinger", "tv", "chi2"}, default="js"
        Its mass Z.
    lower : float, default=0.5
        ρ_*, to which estimates are raised where they are below; zero if they are not.

    Returns
    -------
    float
        At most one.

    Examples
    --------
    >>> round(lambda_term(0.3, 1000), 3), lambda_term(0.3, 5, distance="hellinger")
    (0.047, 0.0)
    """
    epsilon = _epsilon("lambda_term", epsilon)
    _sizes("lambda_term", n_lambdas=n_lambdas)
    lower = check_number("lambda_term", "lower", lower, low=0, high=1)
    mass = _mass("lambda_term", distance)
    if distance == "hellinger":
        return 0.0
    return min(1.0, 2 * exp(-min(n_lambdas, LARGEST) * epsilon**4 / (8 * (mass * (1 + lower)) ** 2)))


def lambda_tail(value: float, distance: str = "js") -> float:
    """1 - μ([0, value]) / Z, the probability that a random lambda is larger.

    Parameters
    ----------
    value : float
        Zero or more.
    distance : {"js", "hellinger", "tv", "chi2"}, default="js"

    Returns
    -------
    float
        1 - (2/π) arctan(2 value) for tv, (4/π) arctan(exp(-π value)) for chi2, by quadrature for js, 0 for hellinger;
        accurate relative to itself however small.

    Examples
    --------
    >>> [round(lambda_tail(1.0, name), 4) for name in ("js", "hellinger", "tv", "chi2")]
    [0.0109, 0.0, 0.2952, 0.055]
    """
    c = check_number("lambda_tail", "value", value, low=0)
    mass = _mass("lambda_tail", distance)
    if distance == "hellinger":
        return 0.0
    if distance == "tv":
        return 1 - 2 / pi * atan(2 * c) if c < 1 else 2 / pi * atan(1 / (2 * c))
    if distance == "chi2":
        return 4 / pi * atan(exp(-pi * c))
    if c > 250:  # below the smallest float
        return 0.0

    def rate(x: float) -> float:
        return 2 * exp(-pi * x) / ((1 + exp(-2 * pi * (c + x))) * (1 + 4 * (c + x) ** 2))

    rest: float = integrate.quad(rate, 0, inf, epsabs=0, epsrel=1e-10)[0]
    return min(1.0, exp(-pi * c) * rest / mass)


def truncation_term(
    epsilon: float,
    threshold: float,
    *,
    n_lambdas: int = 5,
    distance: str = "js",
    n_dims: int = 1,
    lower: float = 0.5,
    sobolev: float = 0.5,
    estimate_smoothness: float = 1.0,
    estimate_lipschitz: float = 1.0,
    rough: float = 0.0,
) -> float:
    r"""P(\| \|\|ψ(p̂) - ψ(q̂)\|\| - \|\|A(p̂) - A(q̂)\|\| \| >= ε), the term ε_tail, for V = {α: Σ_j \|α_j\|^(2s) <= t}.

    What is left out of one function is at most Z (1 + 4λ²) L̂'/t with L̂' = l L̂² / (ρ_* (1 - 4^(s-γ̂))), so the event
    needs a λ_j beyond √ζ, ζ = t ε² / (8 Z L̂') - 1/4:

    .. math:: δ + 2 M (1 - μ([0, \sqrt ζ]) / Z) \quad (ζ > 0), \qquad 1 \quad (ζ \le 0).

    Parameters
    ----------
    epsilon : float
        ε_tail, in units of d.
    threshold : float
        t.
    n_lambdas : int, default=5
        M; one for Hellinger, whatever is given.
    distance : {"js", "hellinger", "tv", "chi2"}, default="js"
        Its measure μ, mass Z.
    n_dims : int, default=1
        l.
    lower : float, default=0.5
        ρ_* in (0, 1], the least value of the densities.
    sobolev : float, default=0.5
        s, in (0, γ̂).
    estimate_smoothness, estimate_lipschitz : float, default=1.0
        γ̂ in (0, 1] and L̂ of the Hölder class of the estimates: \|p̂(x) - p̂(y)\| <= L̂ \|x - y\|^γ̂.
    rough : float, default=0.0
        δ, the probability that they are not in it.

    Returns
    -------
    float
        At most one.

    Notes
    -----
    The printed ζ has another 1/M and no 1/Z (erratum 15), and μ must be divided by Z (erratum 9). The factor 2 is the
    paper's; since real and imaginary part exceed the limit together, 1 would do.

    Examples
    --------
    >>> [round(truncation_term(0.3, t), 3) for t in (100, 1000, 10_000)]
    [0.351, 0.0, 0.0]
    """
    name = "truncation_term"
    epsilon = _epsilon(name, epsilon)
    check_positive(name, threshold=threshold, estimate_lipschitz=estimate_lipschitz)
    check_number(name, "lower", lower, low=0, high=1, inclusive="right")
    _sizes(name, n_lambdas=n_lambdas, n_dims=n_dims)
    check_number(name, "estimate_smoothness", estimate_smoothness, low=0, high=1, inclusive="right")
    check_number(name, "sobolev", sobolev, low=0, high=estimate_smoothness, inclusive="neither")
    rough = check_number(name, "rough", rough, low=0, high=1)
    mass = _mass(name, distance)
    constant = n_dims * max(estimate_lipschitz, 1e-30) ** 2 / (lower * (1 - 4 ** (sobolev - estimate_smoothness)))
    zeta = min(threshold, LARGEST) * epsilon**2 / (8 * mass * constant) - 0.25
    count = 1 if distance == "hellinger" else n_lambdas
    if zeta <= 0 or count > LARGEST:  # λ >= 0 is certain, for an atom at zero as well
        return 1.0
    return min(1.0, rough + 2 * count * lambda_tail(sqrt(zeta), distance))


def n_basis_functions(threshold: float, *, n_dims: int = 1, sobolev: float = 0.5) -> int:
    r"""\|V\|, the number of integer vectors α with Σ_j \|α_j\|^(2s) <= t.

    Parameters
    ----------
    threshold : float
        t.
    n_dims : int, default=1
        l.
    sobolev : float, default=0.5
        s.

    Returns
    -------
    int
        Exact where \|V\| is at most some millions, else the upper bound (2 t^(1/(2s)) + 1)^l.

    Examples
    --------
    >>> n_basis_functions(2, n_dims=1), n_basis_functions(2, n_dims=2)
    (5, 13)
    """
    check_positive("n_basis_functions", threshold=threshold, sobolev=sobolev)
    _sizes("n_basis_functions", n_dims=n_dims)
    power = 2 * sobolev
    if log(threshold) / power > 700:
        raise ValueError(
            f"n_basis_functions(threshold=...): {threshold:g} with sobolev = {sobolev:g} has more than 1e300 functions "
            "a dimension; lower threshold or raise sobolev"
        )
    side = int(np.floor(threshold ** (1 / power) * (1 + 1e-12)))
    if n_dims == 1:
        return 2 * side + 1
    if (2 * side + 1) ** (n_dims - 1) > COUNTED:
        return int((2 * side + 1) ** n_dims)
    left = np.array([float(threshold)])
    for _ in range(n_dims - 1):
        taken = np.abs(np.arange(-side, side + 1, dtype=float)) ** power
        left = (left[:, None] - taken).ravel()
        left = left[left > -1e-9 * threshold]
    counts: Any = np.floor(np.maximum(left, 0.0) ** (1 / power) * (1 + 1e-12) + 1e-9)
    return 2 * int(counts.sum()) + len(counts)


def integration_term(
    epsilon: float,
    n_nodes: int,
    *,
    basis_functions: int = 100,
    n_lambdas: int = 5,
    distance: str = "js",
    lower: float = 0.5,
    upper: float = 2.0,
    basis: str = "complex",
    n_dims: int = 1,
) -> float:
    r"""P(\| \|\|A(p̂) - A(q̂)\|\| - \|\|Â(p̂) - Â(q̂)\|\| \| >= ε), the term ε_int, for n_e uniform random nodes.

    The event needs one of the 4M\|V\| coefficients to be off by x = √(Z' + ε²/(8\|V\|)) - √Z', Z' = Z(1 + ρ_*).
    Coefficients are means of n_e values of modulus at most B = √Z (√ρ^* + 1), and Hoeffding's inequality gives

    .. math:: 16 M |V| \exp\Bigl(-\frac{n_e x^2}{4 B^2}\Bigr)

    for φ_α = exp(2πi α·x), real and imaginary part taken one by one; 8M\|V\| exp(-n_e x² / (2^(l+1) B²)) for products
    of √2 cos and √2 sin.

    Parameters
    ----------
    epsilon : float
        ε_int, in units of d.
    n_nodes : int
        n_e.
    basis_functions : int, default=100
        \|V\|, see :func:`n_basis_functions`.
    n_lambdas : int, default=5
        M; one for Hellinger, whatever is given.
    distance : {"js", "hellinger", "tv", "chi2"}, default="js"
        Its mass Z.
    lower, upper : float
        ρ_* in [0, 1] and ρ^* >= 1, between which estimates are cut.
    basis : {"complex", "real"}, default="complex"
        The paper's exponentials, or real functions.
    n_dims : int, default=1
        l; matters for a real basis alone.

    Returns
    -------
    float
        At most one.

    Notes
    -----
    Printed: 8M\|V\| exp(-n_e x² / (2 B²)) with Z in place of Z' (errata 14 and 16).

    Examples
    --------
    >>> [round(integration_term(0.3, n), 4) for n in (10**9, 10**11)]
    [1.0, 0.0]
    """
    name = "integration_term"
    epsilon = _epsilon(name, epsilon)
    upper = check_number(name, "upper", upper, low=1)
    _sizes(name, n_nodes=n_nodes, basis_functions=basis_functions, n_lambdas=n_lambdas, n_dims=n_dims)
    lower = check_number(name, "lower", lower, low=0, high=1)
    mass = _mass(name, distance)
    real = check_choice(name, "basis", basis, BASES) == "real"
    if basis_functions > LARGEST:
        return 1.0
    raised = mass * (1 + lower)
    each = epsilon**2 / (8 * basis_functions)
    off = each / (sqrt(raised + each) + sqrt(raised))  # the difference of roots, without cancellation
    bound = mass * (sqrt(upper) + 1) ** 2
    count = basis_functions * (1 if distance == "hellinger" else n_lambdas)
    rate = min(n_nodes, LARGEST) * off**2 / bound
    if real:
        return exp(min(0.0, log(8 * count) - rate * 2.0 ** -(n_dims + 1)))
    return exp(min(0.0, log(16 * count) - rate / 4))


Term = Callable[..., float]
TERMS: dict[str, tuple[Term, str]] = {
    "density": (density_term, "n_points"),
    "lambdas": (lambda_term, "n_lambdas"),
    "truncation": (truncation_term, "threshold"),
    "integration": (integration_term, "n_nodes"),
    "random features": (random_feature_term, "n_components"),
}
