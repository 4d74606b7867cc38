"""Which embeddings there are, and what each is good for: a catalogue by name.

A model that works with one embedding works with all of them, so to compare is to change one word::

    model = make_pipeline(UnitCube(), embeddings.get("js"), RandomFourierFeatures(), Ridge())
    model = make_pipeline(UnitCube(), embeddings.get("mmd"), RandomFourierFeatures(), Ridge())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from ..compute.registry import is_again


@dataclass(frozen=True, eq=False)
class Method:
    """One embedding of the catalogue.

    Attributes
    ----------
    name : str
        Its name here.
    kind : type
        The class.
    parameters : mapping
        What makes the class this method.
    estimates : str
        What the squared Euclidean distance of two rows approximates.
    cost : str
        Work a bag of n points in l dimensions; D components, and functions, nodes, words as the class has them.
    kernel : str
        Whether the kernel that is approximated is positive semi-definite. Dot products of features always are.
    invariant : str
        Changes of the points, the same in all bags, that leave what is estimated as it is.
    units : str
        Where points must lie: ``"unit cube"`` or ``"any"``.
    reference : str
        Where it comes from.

    Examples
    --------
    >>> from distembed import embeddings
    >>> embeddings.available()["js"].make(n_basis=5)
    HDDEmbedding(n_basis=5)
    """

    name: str
    kind: type
    parameters: Mapping[str, Any] = field(repr=False)
    estimates: str
    cost: str = "unknown"
    kernel: str = "yes"
    invariant: str = "unknown"
    units: str = "any"
    reference: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))  # shared by all who ask

    def make(self, **parameters: Any) -> Any:
        """A new, unfitted estimator; ``parameters`` are those of its class."""
        return self.kind(**{**self.parameters, **parameters})


class Catalogue(Mapping[str, Method]):
    """Methods by name, those that were registered and one for each member of a family; prints as a table."""

    def __init__(self) -> None:
        self.sources: list[Callable[[], Sequence[Method]]] = []

    def __getitem__(self, name: str) -> Method:
        for source in self.sources:
            for method in source():
                if method.name == name:
                    return method
        near = get_close_matches(name.lower(), list(self), n=1) if isinstance(name, str) else []
        hint = f"did you mean {near[0]!r}?" if near else "embeddings.available() shows what each is"
        raise KeyError(f"no embedding is called {name!r}, only {', '.join(self)}; {hint}")

    def __iter__(self) -> Iterator[str]:
        return (method.name for source in self.sources for method in source())

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        rows = [("name", "squared distance estimates", "points in", "cost per bag")]
        rows += [(m.name, m.estimates, m.units, m.cost) for m in self.values()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
        )


_CATALOGUE = Catalogue()


def register(*methods: Method) -> None:
    """Let embeddings be found by name: in learners, kernels and the command line.

    A class of your own becomes part of model files by the decorator ``distembed.files.storable``.

    Parameters
    ----------
    *methods : Method
        A name that is there already is refused.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.embeddings import Method, forget, register
    >>> register(Method("fine-js", de.HDDEmbedding, {"n_basis": 30}, "Jensen-Shannon divergence", units="unit cube"))
    >>> de.embeddings.get("fine-js")
    HDDEmbedding(n_basis=30)
    >>> forget("fine-js")
    """
    for method in methods:
        known = _CATALOGUE.get(method.name)
        if known is not None and is_again(known.kind, method.kind):
            forget(method.name)
        elif known is not None:
            raise ValueError(f"there is an embedding {method.name!r} already; choose another name")
    _CATALOGUE.sources.append(lambda: methods)


def forget(name: str) -> None:
    """Take back :func:`register`, with all that was registered in the same call."""
    kept = [source for source in _CATALOGUE.sources if all(method.name != name for method in source())]
    _CATALOGUE.sources[:] = kept


def family(methods: Callable[[], Sequence[Method]]) -> Callable[[], Sequence[Method]]:
    """Let the methods that a function returns be found by name, whenever it is asked: a decorator.

    One for each distance, for example, so a new distance is an embedding too.
    """
    _CATALOGUE.sources.append(methods)
    return methods


def available() -> Catalogue:
    """All embeddings by name, with what each estimates, costs and needs.

    Returns
    -------
    Catalogue
        A mapping of names to :class:`Method` that prints as a table.

    Examples
    --------
    >>> from distembed import embeddings
    >>> print(embeddings.available()["mmd"].estimates)
    squared maximum mean discrepancy
    >>> [name for name, method in embeddings.available().items() if method.units == "unit cube"][:4]
    ['js', 'hellinger', 'tv', 'chi2']
    """
    return _CATALOGUE


def get(name: str, **parameters: Any) -> Any:
    """A new, unfitted embedding by its name.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    **parameters
        Those of its class; they overrule what the name stands for.

    Returns
    -------
    estimator

    Examples
    --------
    >>> from distembed import embeddings
    >>> embeddings.get("tv", n_basis=20)
    HDDEmbedding(distance='tv', n_basis=20)
    >>> embeddings.get("jss")
    Traceback (most recent call last):
    ...
    ValueError: embeddings.get: no embedding is called 'jss', only js, ...; did you mean 'js'?
    """
    try:
        method = _CATALOGUE[name]
    except KeyError as error:
        raise ValueError(f"embeddings.get: {error.args[0]}") from None
    return method.make(**parameters)
