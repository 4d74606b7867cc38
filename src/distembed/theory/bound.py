r"""How far the kernel between bags may be off: the paper's bound, term by term, and an estimate from the bags.

The theorem of the paper ("Final bound" of its appendix) says that for densities p, q on [0, 1]^l, the
kernel K = exp(-d²/(2σ²)) and

.. math:: ε_{RKS} + \frac{1}{σ \sqrt e} (ε_{KDE} + ε_λ + ε_{tail} + ε_{int}) \le ε

the probability of \|K(p, q) - z(Â(p̂))·z(Â(q̂))\| >= ε is at most the sum of five terms, one per stage. Each is a
function here, with every constant an argument and the errors of the printed bound repaired (docs/errata.md, 9 to 16):

============================  ======================================================  =================
:func:`density_term`          kernel density estimates of n points                    ``n_points``
:func:`lambda_term`           M random lambdas                                        ``n_lambdas``
:func:`truncation_term`       basis functions α with Σ_j \|α_j\|^(2s) <= t            ``threshold``
:func:`integration_term`      n_e random integration nodes                            ``n_nodes``
:func:`random_feature_term`   D random Fourier features                               ``n_components``
============================  ======================================================  =================

:func:`size_needed` and :func:`epsilon_reached` solve any of them for the size and for ε, and :func:`error_bound` adds
them up. They hold for the paper's recipe: independent frequencies, random lambdas, Monte Carlo nodes; not for the
defaults of this package, which are better. The bound is a worst case many orders of magnitude from what happens;
:func:`error_budget` estimates from the bags what each stage really contributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from math import exp, isqrt, pi, sqrt
from typing import Any, TypeVar

from ..compute.checks import check_choice, check_number
from .terms import DISTANCES, LARGEST, LARGEST_EPSILON, TERMS, check_positive, n_basis_functions


@dataclass(frozen=True)
class ErrorBound:
    """The bound, term by term; see :func:`error_bound`. ``print`` shows a table.

    Parameters
    ----------
    epsilon : float
        Error of the kernel.
    terms : mapping of str to float
        Probabilities, none above one: ``"density"``, ``"lambdas"``, ``"truncation"``, ``"integration"``,
        ``"random features"``.
    epsilons : mapping of str to float
        What of ε each term was given, in its own units: of the kernel for random features, of d for the others.
    sizes : mapping of str to float
        The size that each term falls with.
    unknown : tuple of str, default=()
        Constants that the bound needs and was not given: their terms count as one.

    Examples
    --------
    >>> bound = error_bound(0.1, n_points=2500, n_components=100_000)
    >>> bound.total, bool(bound.terms["random features"] < 1e-3)
    (1.0, True)
    """

    epsilon: float
    terms: Mapping[str, float]
    epsilons: Mapping[str, float]
    sizes: Mapping[str, float]
    unknown: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """P(error >= ε) is at most this: the sum of the terms, or one."""
        return min(1.0, sum(self.terms.values()))

    def __str__(self) -> str:
        lines = [f"P(error of the kernel >= {self.epsilon:g}) <= {self.total:.3g}"]
        lines.append(f"{'term':<16}{'size':>26}{'epsilon':>12}{'probability':>13}")
        for name, probability in self.terms.items():
            size = f"{TERMS[name][1]} = {self.sizes[name]:,}"
            lines.append(f"{name:<16}{size:>26}{self.epsilons[name]:>12.4g}{probability:>13.3g}")
        if self.unknown:
            lines.append(f"the density term counts as 1, because {', '.join(self.unknown)} is not known: give it")
        return "\n".join(lines)


def error_bound(
    epsilon: float,
    *,
    n_points: int,
    n_lambdas: int = 5,
    threshold: float = 10,
    n_nodes: int = 5000,
    n_components: int = 5000,
    sigma: float = 1.0,
    distance: str = "js",
    n_dims: int = 1,
    split: Mapping[str, float] | None = None,
    smoothness: float = 2.0,
    density_constant: float = 1.0,
    density_rate: float | None = None,
    density_bias: float | None = None,
    lower: float = 0.5,
    upper: float = 2.0,
    sobolev: float = 0.5,
    estimate_smoothness: float = 1.0,
    estimate_lipschitz: float = 1.0,
    rough: float = 0.0,
    basis: str = "complex",
) -> ErrorBound:
    r"""The paper's bound on the probability that the kernel of two bags is off by ε or more, corrected.

    Parameters
    ----------
    epsilon : float
        ε, in units of the kernel.
    n_points, n_lambdas, threshold, n_nodes, n_components
        n, M, t, n_e and D: the sizes, see :func:`density_term`, :func:`lambda_term`, :func:`truncation_term`,
        :func:`integration_term` and :func:`random_feature_term`. \|V\| follows from t.
    sigma : float, default=1.0
        σ of the kernel.
    distance : {"js", "hellinger", "tv", "chi2"}, default="js"
        The distance. Hellinger has no lambda term.
    n_dims : int, default=1
        l.
    split : mapping of str to float, optional
        Shares of ε that terms get, up to a factor; by default equal ones. Names as in ``terms``.
    smoothness, density_constant
        Of the densities and their estimates, see :func:`density_term`. C = 1 will do (erratum 12).
    density_rate : float, optional
        C'. By default what will do for Gaussian kernels (erratum 12): ρ^* (2 ∫K² + 4 max K), where ∫K² = (4π)^(-l/2)
        and max K = (2π)^(-l/2).
    density_bias : float, optional
        B, which depends on the largest Laplacian of the densities and can't be guessed: without it the density term
        counts as one, and so does the bound.
    lower, upper : float
        ρ_* in (0, 1] and ρ^* >= 1: bounds of the densities, to which estimates are cut.
    sobolev, estimate_smoothness, estimate_lipschitz, rough
        Of the estimates, see :func:`truncation_term`.
    basis : {"complex", "real"}, default="complex"
        See :func:`integration_term`.

    Returns
    -------
    ErrorBound

    Notes
    -----
    *Covers* independent frequencies, random lambdas, Monte Carlo nodes and periodic densities between ρ_* and ρ^*; not
    orthogonal frequencies, Gauss rules or grids.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider (2016), section "Theory" and appendix "Proofs"; docs/errata.md.

    Examples
    --------
    At the sizes of the paper's experiments the bound says nothing at all:

    >>> print(error_bound(0.1, n_points=2500, n_dims=2))
    P(error of the kernel >= 0.1) <= 1
    term                                  size     epsilon  probability
    density                   n_points = 2,500     0.03297            1
    lambdas                      n_lambdas = 5     0.03297            1
    truncation                  threshold = 10     0.03297            1
    integration                n_nodes = 5,000     0.03297            1
    random features       n_components = 5,000        0.02            1
    the density term counts as 1, because density_bias is not known: give it
    """
    check_positive("error_bound", epsilon=epsilon, sigma=sigma)
    epsilons = _split(epsilon, sigma, distance, split)
    sizes = dict(zip(TERMS, (n_points, n_lambdas, threshold, n_nodes, n_components), strict=True))
    if density_rate is None:
        density_rate = upper * (2 * (4 * pi) ** (-n_dims / 2) + 4 * (2 * pi) ** (-n_dims / 2))
    constants = {
        "distance": distance, "n_dims": n_dims, "n_lambdas": n_lambdas, "smoothness": smoothness,
        "density_constant": density_constant, "density_rate": density_rate,
        "density_bias": density_bias or 0.0,
        "lower": lower, "upper": upper, "sobolev": sobolev, "estimate_smoothness": estimate_smoothness,
        "estimate_lipschitz": estimate_lipschitz, "rough": rough, "basis": basis,
        "basis_functions": n_basis_functions(threshold, n_dims=n_dims, sobolev=sobolev),
    }  # fmt: skip
    terms = {}
    for name, (term, size) in TERMS.items():
        takes = {key: constants[key] for key in signature(term).parameters if key in constants and key != size}
        terms[name] = term(epsilons[name], sizes[name], **takes) if epsilons[name] else 0.0
    if density_bias is None:
        terms["density"] = 1.0
    return ErrorBound(float(epsilon), terms, epsilons, sizes, () if density_bias is not None else ("density_bias",))


def _split(epsilon: float, sigma: float, distance: str, split: Mapping[str, float] | None) -> dict[str, float]:
    """ε of every term in its own units; r(d) = exp(-d²/(2σ²)) has slopes up to 1/(σ√e)."""
    check_choice("error_bound", "distance", distance, DISTANCES)
    needed = [name for name in TERMS if not (name == "lambdas" and distance == "hellinger")]
    shares: Mapping[str, float] = dict.fromkeys(needed, 1.0) if split is None else split
    if not isinstance(shares, Mapping):
        raise TypeError(
            f"error_bound(split=...): must be a mapping of names to shares, got {split!r}; pass a positive number for "
            f"each of {', '.join(map(repr, needed))}"
        )
    if set(shares) - {"lambdas"} != set(needed) - {"lambdas"} or not set(needed) <= set(shares):
        raise ValueError(
            f"error_bound(split=...): must give a share to each of {', '.join(map(repr, needed))}, got "
            f"{', '.join(map(repr, shares)) or 'none'}; pass a positive number for each"
        )
    for name in needed:
        check_number("error_bound", f"split[{name!r}]", shares[name], low=0, inclusive="neither")
    total = sum(shares[name] for name in needed)
    units = {name: 1.0 if name == "random features" else sigma * sqrt(exp(1)) for name in TERMS}
    return {name: epsilon * shares[name] / total * units[name] if name in needed else 0.0 for name in TERMS}


def size_needed(term: str, epsilon: float, delta: float = 0.05, **constants: Any) -> int:
    """The least size for which a term is at most ``delta``.

    Parameters
    ----------
    term : {"density", "lambdas", "truncation", "integration", "random features"}
        Which.
    epsilon : float
        Its ε: in units of the kernel for random features, of d for the others.
    delta : float, default=0.05
        A probability.
    **constants
        Arguments of the term.

    Returns
    -------
    int
        ``n_points``, ``n_lambdas``, ``threshold``, ``n_nodes`` or ``n_components``; the last is even.

    Notes
    -----
    By bisection: every term falls with its size.

    Examples
    --------
    >>> size_needed("random features", 0.05), size_needed("lambdas", 0.1, distance="tv")
    (5904, 166000)
    """
    function, delta = _find_term("size_needed", term, delta)

    def enough(size: float) -> bool:
        return function(epsilon, size, **constants) <= delta

    if not enough(LARGEST):
        remedy = "lower rough or raise delta" if constants.get("rough", 0.0) >= delta else "raise delta or epsilon"
        raise ValueError(
            f"size_needed(delta=...): no size up to 2^400 brings the term {term!r} down to {delta:g} with epsilon "
            f"= {epsilon:g} and {constants}; {remedy}"
        )
    least = 1 if enough(1) else _least(enough, 1, LARGEST, lambda low, high: isqrt(low * high) + 1)
    return least + least % 2 if term == "random features" else least


def epsilon_reached(term: str, size: int, delta: float = 0.05, **constants: Any) -> float:
    """The least ε for which a term is at most ``delta``: what holds with probability 1 - delta at this size.

    Parameters
    ----------
    term : {"density", "lambdas", "truncation", "integration", "random features"}
        Which.
    size : int
        ``n_points``, ``n_lambdas``, ``threshold``, ``n_nodes`` or ``n_components``.
    delta : float, default=0.05
        A probability.
    **constants
        Arguments of the term.

    Returns
    -------
    float
        In units of the kernel for random features, of d for the others.

    Examples
    --------
    >>> round(epsilon_reached("random features", 5000), 4), round(epsilon_reached("lambdas", 5), 2)
    (0.0543, 1.12)
    """
    function, delta = _find_term("epsilon_reached", term, delta)

    def enough(epsilon: float) -> bool:
        return function(epsilon, size, **constants) <= delta

    if not enough(LARGEST_EPSILON):
        remedy = "lower rough or raise delta" if constants.get("rough", 0.0) >= delta else "raise delta or the size"
        raise ValueError(
            f"epsilon_reached(delta=...): no epsilon up to {LARGEST_EPSILON:g} brings the term {term!r} down to "
            f"{delta:g} at the size {size} with {constants}; {remedy}"
        )
    if enough(1e-100):
        return 0.0
    return _least(enough, 1e-100, LARGEST_EPSILON, lambda low, high: sqrt(low * high))


Number = TypeVar("Number", int, float)


def _least(
    enough: Callable[[Number], bool], low: Number, high: Number, middle: Callable[[Number, Number], Number]
) -> Number:
    """The least value that is enough, by bisection: ``low`` is not, ``high`` is."""
    while low < (at := middle(low, high)) < high:
        low, high = (low, at) if enough(at) else (at, high)
    return high


def _find_term(owner: str, term: str, delta: float) -> tuple[Callable[..., float], float]:
    """The term of a name, and a probability."""
    function, _ = TERMS[check_choice(owner, "term", term, TERMS)]
    return function, check_number(owner, "delta", delta, low=0, high=1, inclusive="neither")
