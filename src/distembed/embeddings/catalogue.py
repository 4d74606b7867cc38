"""Which embeddings there are, and what each is good for: a catalogue by name.

A model that works with one embedding works with all of them, so that to compare is to change one word::

    model = make_pipeline(UnitCube(), embeddings.get("js"), RandomFourierFeatures(), Ridge())
    model = make_pipeline(UnitCube(), embeddings.get("mmd"), RandomFourierFeatures(), Ridge())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from .codebook import CodebookEmbedding
from .fisher import FisherEmbedding
from .gaussian import GaussianEmbedding
from .hdd import HDDEmbedding
from .histogram import HistogramEmbedding
from .l2 import L2Embedding
from .mean import MeanEmbedding
from .moments import MomentEmbedding
from .sliced import SlicedWassersteinEmbedding

__all__ = ["Catalogue", "Method", "available", "get"]


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
    cost: str
    kernel: str
    invariant: str
    units: str
    reference: str = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))  # shared by all who ask

    def make(self, **parameters: Any) -> Any:
        """A new, unfitted estimator; ``parameters`` are those of its class."""
        return self.kind(**{**self.parameters, **parameters})


class Catalogue(Mapping[str, Method]):
    """Methods by name; prints as a table."""

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = {method.name: method for method in methods}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._methods

    def __getitem__(self, name: str) -> Method:
        if isinstance(name, str) and name in self._methods:
            return self._methods[name]
        near = get_close_matches(name.lower(), self._methods, n=1) if isinstance(name, str) else []
        hint = f"did you mean {near[0]!r}?" if near else "embeddings.available() shows what each is"
        raise KeyError(f"no embedding is called {name!r}, only {', '.join(self._methods)}; {hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __repr__(self) -> str:
        rows = [("name", "squared distance estimates", "points in", "cost a bag")]
        rows += [(m.name, m.estimates, m.units, m.cost) for m in self.values()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
        )


_SUTHERLAND = "Sutherland et al. 2016"
_BIJECTIONS = "any smooth change of coordinates"
_NODES = "n + nodes functions (1 to 3 dimensions), n nodes beyond"
_MOTIONS = "shifts, rotations"
_VOLUMES = "changes that keep volumes"
_SIMILARITIES = "shifts, rotations, one scale for all"


def _density_distance(name: str, estimates: str) -> Method:
    return Method(
        name, HDDEmbedding, {"distance": name}, estimates, _NODES, "yes", _BIJECTIONS, "unit cube", _SUTHERLAND
    )


def _histogram(kernel: str, estimates: str, reference: str) -> Method:
    return Method(
        f"histogram-{kernel}", HistogramEmbedding, {"kernel": kernel}, estimates, "n l + bins^l", "yes",
        "none: bins are fixed", "unit cube", reference,
    )  # fmt: skip


def _moments(kind: str, estimates: str, cost: str, invariant: str, reference: str) -> Method:
    return Method(kind, MomentEmbedding, {"kind": kind}, estimates, cost, "yes", invariant, "any", reference)


def _gaussian(name: str, estimates: str, kernel: str, reference: str) -> Method:
    cost = "n l^2 + landmarks (l^3 + landmarks)"
    return Method(
        name, GaussianEmbedding, {"kernel": name}, estimates, cost, kernel, "affine changes of coordinates", "any",
        reference,
    )  # fmt: skip


_VEDALDI = "Vedaldi and Zisserman 2012"

_CATALOGUE = Catalogue(
    [
        _density_distance("js", "Jensen-Shannon divergence"),
        _density_distance("hellinger", "squared Hellinger distance"),
        _density_distance("tv", "total variation"),
        _density_distance("chi2", "symmetric chi-square"),
        Method(
            "l2", L2Embedding, {}, "squared L2 distance of densities", _NODES, "yes", _VOLUMES, "unit cube",
            "Oliva et al. 2014",
        ),
        Method(
            "l2-points", L2Embedding, {"method": "points"}, "squared L2 distance of densities", "n functions", "yes",
            _VOLUMES, "unit cube", "Oliva et al. 2014",
        ),
        Method(
            "mmd", MeanEmbedding, {}, "squared maximum mean discrepancy", "n D l", "yes", _SIMILARITIES, "any",
            "Muandet et al. 2012",
        ),
        Method(
            "mmd-spectrum", MeanEmbedding, {"method": "spectrum"}, "squared maximum mean discrepancy", "n features",
            "yes", _SIMILARITIES, "any (1 to 3 dimensions)", "Muandet et al. 2012",
        ),
        _histogram("js", "Jensen-Shannon divergence of histograms", _VEDALDI),
        _histogram("chi2", "symmetric chi-square of histograms", _VEDALDI),
        _histogram("hellinger", "squared Hellinger distance of histograms", _VEDALDI),
        _histogram("intersection", "total variation of histograms", "Maji and Berg 2009; " + _VEDALDI),
        Method(
            "codebook-js", CodebookEmbedding, {}, "Jensen-Shannon divergence of words", "n words l", "yes",
            _SIMILARITIES, "any", "Csurka et al. 2004",
        ),
        _moments("mean", "squared distance of means", "n l", _MOTIONS, "textbook"),
        _moments("deviation", "squared distance of means and deviations", "n l", "shifts", "textbook"),
        _moments("covariance", "squared distance of means and covariances", "n l^2", _MOTIONS, "textbook"),
        _moments(
            "d3", "squared distance of directional total variations from the training points", "n l",
            "shifts and scales of a coordinate", "Wu, Gao and Liu 2015",
        ),
        Method(
            "sliced-wasserstein", SlicedWassersteinEmbedding, {}, "squared sliced Wasserstein distance",
            "n (l + log n) projections", "yes", _MOTIONS, "any", "Kolouri et al. 2016",
        ),
        _gaussian("bhattacharyya", "2 - 2 BC of Gaussian fits", "yes", "Jebara, Kondor and Howard 2004"),
        _gaussian("skl", "2 - 2 exp(-SKL / 2 sigma^2) of Gaussian fits", "no: negative part dropped",
                  "Moreno, Ho and Vasconcelos 2003"),
        Method(
            "fisher", FisherEmbedding, {}, "Fisher distance of mean log likelihoods", "n components l", "yes",
            "shifts and scales of a coordinate", "any", "Jaakkola and Haussler 1998; Perronnin and Dance 2007",
        ),
    ]
)  # fmt: skip


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
