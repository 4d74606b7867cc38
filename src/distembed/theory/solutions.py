"""The terms of the paper's error bound, solved for the size and for ε; see :mod:`distembed.theory`."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..compute.checks import check_choice, check_number
from .terms import LARGEST, LARGEST_EPSILON, TERMS

__all__ = ["epsilon_reached", "size_needed"]


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
    By doubling and bisection: every term falls with its size.

    Examples
    --------
    >>> size_needed("random features", 0.05), size_needed("lambdas", 0.1, distance="tv")
    (5904, 166000)
    """
    function, _ = TERMS[check_choice("size_needed", "term", term, TERMS)]
    delta = check_number("size_needed", "delta", delta, low=0, high=1, inclusive="neither")
    high = 1
    while function(epsilon, high, **constants) > delta:
        high *= 2
        if high > LARGEST:
            remedy = "lower rough or raise delta" if constants.get("rough", 0.0) >= delta else "raise delta or epsilon"
            raise ValueError(
                f"size_needed(delta=...): no size up to 2^400 brings the term {term!r} down to {delta:g} with epsilon "
                f"= {epsilon:g} and {constants}; {remedy}"
            )
    low = high // 2  # not enough, or zero
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if function(epsilon, middle, **constants) <= delta else (middle, high)
    return high + high % 2 if term == "random features" else high


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
        In units of the kernel for random features, of d for the others; to twelve digits.

    Examples
    --------
    >>> round(epsilon_reached("random features", 5000), 4), round(epsilon_reached("lambdas", 5), 2)
    (0.0543, 1.12)
    """
    function, _ = TERMS[check_choice("epsilon_reached", "term", term, TERMS)]
    delta = check_number("epsilon_reached", "delta", delta, low=0, high=1, inclusive="neither")
    if function(1e-100, size, **constants) <= delta:
        return 0.0
    high = 1e-100
    while not function(high, size, **constants) <= delta:
        high *= 1e10
        if high > LARGEST_EPSILON:
            remedy = "lower rough or raise delta" if constants.get("rough", 0.0) >= delta else "raise delta or the size"
            raise ValueError(
                f"epsilon_reached(delta=...): no epsilon up to {LARGEST_EPSILON:g} brings the term {term!r} down to "
                f"{delta:g} at the size {size} with {constants}; {remedy}"
            )
    low = high / 1e10
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if function(middle, size, **constants) <= delta else (middle, high)
    return high
