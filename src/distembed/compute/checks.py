"""Checks of parameters: every error has one shape, class and argument, rule, value received, remedy."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

if TYPE_CHECKING:
    from .arrays import Array

ENGINES = ("auto", "numpy", "numba")
MANY_NAMES = 10_000  # among more, the nearest takes too long to find
ROUNDING = 100.0  # of features, whose sums have some more of it than one number
LARGE_WORK = 3e8  # values; for less, compiled code does not pay for its loading
COLD_WORK = 3e9  # values; for less, it does not pay for its compilation either

Inclusive = Literal["both", "left", "right", "neither"]


class InputError(ValueError):
    """Bags, rows or covariates that a fitted model does not take, or makes no finite numbers of, in words.

    A ValueError for whoever catches it. That it was raised on purpose is what :func:`distembed.load` goes by, which
    lets a model from a file predict once: refusing the bags of the trial is fair, an operation that fails is not. So
    checks that look at new data raise it; those of parameters and training data, which a model from a file has
    behind it, need not.

    Examples
    --------
    >>> raise InputError("UnitCube: X must have points of 2 dimension(s), as in fit, got 3")
    Traceback (most recent call last):
    ...
    distembed.compute.checks.InputError: UnitCube: X must have points of 2 dimension(s), as in fit, got 3
    """


@dataclass(frozen=True)
class Argument:
    """An argument that an error names: with its owner the one that is wrong, with a value a remedy, or its name alone.

    Examples
    --------
    >>> print(Argument("margin", owner="UnitCube"), Argument("bag_type", "text"), Argument("columns"))
    UnitCube(margin=...) bag_type='text' columns
    """

    name: str
    value: Any = ...
    owner: str = ""

    def __str__(self) -> str:
        if self.owner:
            return f"{self.owner}({self.name}=...)"
        return self.name if self.value is ... else f"{self.name}={self.value!r}"


class Message(str):
    """The sentence of an error, which keeps the arguments that it names: the command line names its options instead.

    Parameters
    ----------
    *parts : str, Argument or Message
        Joined without anything between them.

    Examples
    --------
    >>> said = Message("2 bags have no label; pass ", Argument("missing", "drop"))
    >>> print(said)
    2 bags have no label; pass missing='drop'
    >>> said.reworded(lambda argument: f"--{argument.name} {argument.value}")
    '2 bags have no label; pass --missing drop'
    """

    __slots__ = ("parts",)

    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument) -> Self:
        """Join the parts."""
        flat = tuple(piece for part in parts for piece in (part.parts if isinstance(part, Message) else (part,)))
        made = super().__new__(cls, "".join(map(str, flat)))
        made.parts = flat
        return made

    def reworded(self, name: Callable[[Argument], str]) -> str:
        """The sentence, with arguments as a function names them."""
        return "".join(name(part) if isinstance(part, Argument) else part for part in self.parts)


_PIECES: ContextVar[float] = ContextVar("pieces", default=1.0)


@contextmanager
def in_pieces(n: float) -> Iterator[None]:
    """Calls inside are pieces of work that is ``n`` times as large, which :func:`wants_numba` then looks at.

    Examples
    --------
    >>> with in_pieces(1000):
    ...     wants_numba("HDDEmbedding", "numpy", 1e9)
    False
    """
    token = _PIECES.set(max(n, 1.0))
    try:
        yield
    finally:
        _PIECES.reset(token)


def wants_numba(owner: object, engine: Any, work: float) -> bool:
    """Whether compiled code is to be used: asked for, or ``"auto"``, numba installed and the work large.

    Work is large from 3e8 values on where the code was compiled before, so it is loaded from disk in half a
    second, and else from 3e9 on: it takes about ten seconds to compile, in which NumPy does the work of less.

    Parameters
    ----------
    owner : object or str
        The estimator.
    engine : {"auto", "numpy", "numba"}
        Its parameter.
    work : float
        Number of values to compute, of which there may be more to come, see :func:`in_pieces`.

    Returns
    -------
    bool
        ``engine="numba"`` without numba is an ImportError that names the extra.

    Examples
    --------
    >>> wants_numba("HDDEmbedding", "numpy", 1e12), wants_numba("HDDEmbedding", "auto", 1000)
    (False, False)
    """
    work *= _PIECES.get()
    if check_choice(owner, "engine", engine, ENGINES) == "numpy" or (engine == "auto" and work < LARGE_WORK):
        return False
    if engine == "auto" and work < COLD_WORK and not _compiled_before():
        return False
    installed = find_spec("numba") is not None  # looked for, not imported
    if engine == "numba" and not installed:
        raise ImportError(
            f"{_where(owner, 'engine')}: 'numba' needs the package numba, which is not installed; "
            "pip install 'distembed[fast]', or use engine='auto'"
        )
    return installed


def _compiled_before() -> bool:
    """Whether numba has left compiled code of the package on disk, beside its modules or where a user wants it."""
    here = Path(__file__).parents[1]
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    found = here.glob("*/__pycache__/compiled.*.nbi") if chosen is None else Path(chosen).glob("*/compiled.*.nbi")
    return any(found)


def _where(owner: object, name: str) -> Argument:
    """``UnitCube(margin=...)`` for an estimator, or for a function given by its name."""
    return Argument(name, owner=owner if isinstance(owner, str) else type(owner).__name__)


def check_choice(owner: object, name: str, value: Any, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``, else raise an error that lists them.

    Parameters
    ----------
    owner : object or str
        The estimator whose parameter this is, or the name of the function.
    name : str
        The parameter.
    value : Any
        What the caller passed.
    choices : iterable of str
        The legal values.

    Returns
    -------
    str
        ``value``.

    Examples
    --------
    >>> check_choice("UnitCube", "map", "log", ("linear", "asinh", "rank"))
    Traceback (most recent call last):
    ...
    ValueError: UnitCube(map=...): must be one of 'linear', 'asinh', 'rank', got 'log'; choose one of these
    """
    choices = tuple(choices)
    if isinstance(value, str) and value in choices:
        return value
    rule = "must be one of " + ", ".join(map(repr, choices))
    error = ValueError if isinstance(value, str) else TypeError
    raise error(Message(_where(owner, name), f": {rule}, got {value!r}; choose one of these"))


def closest_name(name: Any, known: Iterable[Any]) -> str | None:
    """Return the one of some known names that a misspelt one is nearest to, capital letters aside, or None.

    Examples
    --------
    >>> closest_name("Patinet", ["patient", "age"]), closest_name("sex", ["patient", "age"])
    ('patient', None)
    """
    folded = {each.strip().lower(): each for each in known if isinstance(each, str)}
    if not isinstance(name, str) or len(folded) > MANY_NAMES:
        return None
    close = get_close_matches(name.strip().lower(), folded, 1, cutoff=0.7)
    return folded[close[0]] if close else None


def check_flag(owner: object, name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False, Python's or NumPy's, else raise an error.

    Examples
    --------
    >>> check_flag("mmd", "unbiased", "no")
    Traceback (most recent call last):
    ...
    TypeError: mmd(unbiased=...): must be True or False, got 'no'; choose one of these
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(Message(_where(owner, name), f": must be True or False, got {value!r}; choose one of these"))
    return bool(value)


@overload
def check_number(
    owner: object,
    name: str,
    value: Any,
    *,
    low: float = ...,
    high: float = ...,
    integer: Literal[True],
    inclusive: Inclusive = ...,
    remedy: str = ...,
) -> int: ...
@overload
def check_number(
    owner: object,
    name: str,
    value: Any,
    *,
    low: float = ...,
    high: float = ...,
    integer: Literal[False] = ...,
    inclusive: Inclusive = ...,
    remedy: str = ...,
) -> float: ...
def check_number(
    owner: object,
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    integer: bool = False,
    inclusive: Inclusive = "both",
    remedy: str = "choose a value in that range",
) -> float:
    """Return ``value`` as ``float`` (``int`` if ``integer``) if it is a finite number in the interval.

    Booleans are not numbers here: ``margin=True`` is a mistake, not a margin of one.

    Parameters
    ----------
    owner : object or str
        The estimator whose parameter this is, or the name of the function.
    name : str
        The parameter.
    value : Any
        What the caller passed.
    low, high : float
        Ends of the interval; an infinite end is always open.
    integer : bool
        Whether only integers are legal.
    inclusive : {"both", "left", "right", "neither"}
        Which finite ends belong to the interval.
    remedy : str
        The last words of the error: what to do about it.

    Returns
    -------
    float or int
        The number.

    Examples
    --------
    >>> check_number("UnitCube", "margin", -1, low=0)
    Traceback (most recent call last):
    ...
    ValueError: UnitCube(margin=...): must be a number in [0, inf), got -1; choose a value in that range
    """
    closed_low = inclusive in ("both", "left") and low > -math.inf
    closed_high = inclusive in ("both", "right") and high < math.inf
    interval = f"{'[' if closed_low else '('}{low:g}, {high:g}{']' if closed_high else ')'}"
    rule = f"must be {'an integer' if integer else 'a number'} in {interval}"
    legal: Any = Integral if integer else Real
    if not isinstance(value, legal) or isinstance(value, bool):
        kind = type(value).__name__
        raise TypeError(Message(_where(owner, name), f": {rule}, got {value!r} of type {kind}; ", remedy))
    number = int(value) if integer else float(value)
    above = number >= low if closed_low else number > low
    below = number <= high if closed_high else number < high
    if not (above and below):  # NaN fails both
        raise ValueError(Message(_where(owner, name), f": {rule}, got {value!r}; ", remedy))
    return number


def check_per_dimension(
    owner: object, name: str, value: Any, n_dims: int, what: str = "number", whats: str = "numbers"
) -> tuple[Any, ...]:
    """Return one value for each dimension: those of a sequence of that length, or the same value for all.

    Parameters
    ----------
    owner : object or str
        The estimator whose parameter this is, or the name of the function.
    name : str
        The parameter.
    value : Any
        What the caller passed.
    n_dims : int
        Number of dimensions.
    what, whats : str
        What a value is, and several of them.

    Returns
    -------
    tuple of n_dims values
        Not checked any further.

    Examples
    --------
    >>> check_per_dimension("Grid", "size", 8, 2)
    (8, 8)
    >>> check_per_dimension("Grid", "size", (8,), 2)
    Traceback (most recent call last):
    ...
    ValueError: Grid(size=...): must be one number, or one per dimension (2), got (8,); give 2 numbers
    """
    several = not isinstance(value, Integral | str) and np.ndim(value) > 0
    each = tuple(value) if several else (value,) * n_dims
    if len(each) != n_dims:
        rule = f"must be one {what}, or one per dimension ({n_dims})"
        raise ValueError(Message(_where(owner, name), f": {rule}, got {value!r}; give {n_dims} {whats}"))
    return each


def resolve_sigma(owner: object, sigma: Any, scale: Any, median: Callable[[], float]) -> float:
    """Scale of a kernel, a number or ``"median"``, which a function finds, times ``scale``; errors name the owner.

    Examples
    --------
    >>> resolve_sigma("Mine", "median", 2, lambda: 3.0)
    6.0
    """
    factor: float = check_number(owner, "sigma_scale", scale, low=0, inclusive="neither")
    if isinstance(sigma, str) and sigma == "median":
        with np.errstate(over="ignore"):
            found = factor * median()
        if not np.isfinite(found):
            raise InputError(
                f"{type(owner).__name__}(sigma='median'): distances between rows must be finite, but values are so "
                "large that their squares overflow; divide them by a constant first, or give sigma a number"
            )
        return found
    if not isinstance(sigma, Real):
        name = type(owner).__name__
        error = ValueError if isinstance(sigma, str) else TypeError
        raise error(
            f"{name}(sigma=...): must be a positive number or 'median', got {sigma!r}; with 'median', sigma_scale is "
            "the knob"
        )
    return factor * check_number(owner, "sigma", sigma, low=0, inclusive="neither")


def collapsed(X: Any) -> tuple[str, bool]:
    """What rows have in common that leaves little to learn from them, if anything, and whether all of them have it.

    Looks at fifty rows, evenly spaced: O(50² n_columns). Fewer than ten tell nothing.

    Returns
    -------
    str
        ``"the same"``: most squared distances are below 1e-4 of the largest squared length. ``"orthogonal"``: most
        cosines are below 0.02. Else ``""``.
    bool
        Whether all rows are equal but for rounding, or all cosines are below 0.02.

    Examples
    --------
    >>> collapsed(np.eye(20)), collapsed(np.ones((20, 3))), collapsed(np.arange(20.0)[:, None])
    (('orthogonal', True), ('the same', True), ('', False))
    """
    rows = np.asarray(X[np.linspace(0, len(X) - 1, min(len(X), 50)).astype(int)], np.float64)
    if len(rows) < 10:
        return "", False
    with np.errstate(all="ignore"):
        products = rows @ rows.T
        squares = np.diag(products)
        pairs = np.triu_indices(len(rows), 1)
        distances = (squares[:, None] + squares - 2 * products)[pairs]
        cosines = np.abs(products / np.sqrt(np.outer(squares, squares)))[pairs]
    if not np.median(distances) > 1e-4 * squares.max():
        digits = ROUNDING * float(np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps)
        spread = np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)  # differences of products have half the digits
        return "the same", bool(spread.max() <= digits**2 * squares.max())
    return ("orthogonal", bool(cosines.max() < 0.02)) if np.median(cosines) < 0.02 else ("", False)


def check_weights(owner: object, sample_weight: Any, n: int, *, may_vanish: bool = False, unit: str = "bag") -> Array:
    """Weights of bags, or of other units, ones by default; all of them may be zero only where that is said."""
    if sample_weight is None:
        return np.ones(n)
    name = type(owner).__name__
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: sample_weight must be numbers, got {type(sample_weight).__name__} that are not; pass one number "
            f"a {unit}"
        ) from None
    rule = f"{name}: sample_weight must be one finite number >= 0 a {unit}{'' if may_vanish else ', not all zero'}"
    if weight.shape != (n,):
        raise ValueError(
            f"{rule}, got shape {weight.shape} for {n} {unit}s; weights of points belong into Bags(weights=...)"
        )
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong) or not (may_vanish or weight.any()):
        got = f"{weight[wrong[0]]} for {unit} {wrong[0]}" if len(wrong) else "zeros alone"
        raise ValueError(f"{rule}, got {got}; leave such {unit}s out, or give them the weight zero")
    return weight


def pandas_for(owner: str) -> Any:
    """The module pandas, or an error that names the extra."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(f"{owner} needs pandas: pip install 'distembed[frames]'") from error
