"""Things by name, said once, where each is defined: distances, densities, embeddings, and what model files may hold."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

import numpy as np

T = TypeVar("T")
S = TypeVar("S", bound=Any)

INVARIANTS: dict[type, dict[str, str]] = {}  # what attributes of classes in model files are
STORABLE: dict[str, dict[str, Any]] = {"estimator": {}, "object": {}, "function": {}}
NAMES: dict[Any, str] = {}  # of these, in files


class Registry(dict[str, T]):
    """Things by name, in the order in which they were added.

    Parameters
    ----------
    what : str
        What they are, for the error that refuses a name twice.

    Examples
    --------
    >>> distances = Registry("distance")
    >>> distances.add("js", 1)
    >>> list(distances), distances["js"]
    (['js'], 1)
    >>> distances.add("js", 2)
    Traceback (most recent call last):
    ...
    ValueError: there is a distance 'js' already; choose another name
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def add(self, name: str, thing: T) -> None:
        """Add a thing; its name must be new."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a {self._what} must be text, got {name!r}; give it a name such as 'mine'")
        if name in self and not is_again(self[name], thing):
            raise ValueError(f"there is a {self._what} {name!r} already; choose another name")
        self[name] = thing


def described(**attributes: str) -> Callable[[S], S]:
    """What the attributes of a class and of its subclasses are in model files, see :func:`storable`: a decorator.

    For bases, which files do not hold themselves.
    """

    def decorate(kind: Any) -> Any:
        INVARIANTS[kind] = attributes
        return kind

    return decorate


@overload
def storable(thing: S, /) -> S: ...
@overload
def storable(**attributes: str) -> Callable[[S], S]: ...
def storable(thing: Any = None, /, **attributes: str) -> Any:
    """Let model files hold a class or name a function: a decorator, with or without what its attributes are.

    A file names the class, and stores constructor parameters and fitted attributes; it must be registered when the file
    is read, too. A class that keeps more than predictions need has a method ``__distembed_state__(updatable)``, which
    returns the attributes to write, all of them if ``updatable``. One whose predictions need that of its parts says so
    by a method ``__distembed_whole__()``. Attributes that hold ids of training bags are named in ``__distembed_ids__``,
    and are left out by ``save(..., ids=False)``; the class has values for them. Those of ``__distembed_background__``,
    which hold points of training bags, are left out by ``save(..., background=False)``.

    Parameters
    ----------
    thing : class or function
        What is decorated.
    **attributes : str
        Whoever reads a file knows nothing of who wrote it, so attributes are compared with these. ``"finite(n, d)"`` is
        an array of finite numbers of that shape, ``"real(n)"`` one that may hold infinities and NaN, ``"int(n)"`` and
        ``"labels(n)"`` others. ``"n"`` is an integer. A letter stands for the same length wherever it is, ``_`` for
        any; d is ``n_features_in_``, m is the number of features. ``"number"``, ``"text"``, ``"bool"``, ``"None"``,
        names of classes, ``"list[...]"`` and ``"dict[...]"`` of one of these, ``"any"``, and ``" | "`` between several.
        What bases declare holds for subclasses. Fields of dataclasses and named tuples need none where their annotation
        is enough: ``float`` (a finite number), ``str``, ``bool``, classes that are storable, tuples, lists and dicts of
        these. So a class pays a line, and one for each array.
        What this can't say, a method ``__distembed_fits__()`` does: whether the attributes fit together. Where
        predicting for one small bag takes more memory than a class has arrays and features, ``__distembed_claims__()``
        returns how many bytes, or a pair of that and of how often they are passed over: files whose objects claim too
        much in all are refused. A model from a file predicts for two small bags before anybody gets it, unless its
        claims show that this would take seconds.

    Examples
    --------
    >>> @storable(low="finite(d)", high="finite(d)")
    ... class Mine:
    ...     pass
    >>> STORABLE["object"][NAMES[Mine]] is Mine
    True
    """
    if thing is None:
        return lambda kind: storable(described(**attributes)(kind))
    kind = "function" if isinstance(thing, FunctionType) else "estimator" if hasattr(thing, "get_params") else "object"
    NAMES[thing] = name_in_files(thing)
    STORABLE[kind][NAMES[thing]] = thing
    return thing


def within(indices: Any, n: Any) -> bool:
    """Whether all of an array of indices are from 0 to n - 1, as ``__distembed_fits__`` asks of those in files.

    Examples
    --------
    >>> within(np.array([0, 4]), 5), within(np.array([-1, 4]), 5)
    (True, False)
    """
    return bool(np.all((indices >= 0) & (indices < n)))


def name_in_files(thing: Any) -> str:
    """The package and the name of a class or function: a name that outlives its move to another module."""
    return f"{str(getattr(thing, '__module__', '')).partition('.')[0]}.{getattr(thing, '__qualname__', '')}"


def is_again(known: Any, thing: Any) -> bool:
    """Whether a class is the known one, made again because its module was rerun."""
    return known is not thing and hasattr(thing, "__qualname__") and name_in_files(known) == name_in_files(thing)
