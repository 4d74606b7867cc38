"""The stages before the linear model: from bags to the rows of features that it sees, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from .. import embeddings
from ..bags import Bags
from ..bags.estimators import check_embedding
from ..compute.arrays import Array
from ..compute.checks import Argument, Message, check_choice, check_number
from ..embeddings import HistogramEmbedding, MeanEmbedding
from ..features import RandomFourierFeatures
from ..scaling import UnitCube
from .batches import subset

__all__ = [
    "Chain", "Clock", "check_components", "fit_chain", "mean_square", "new_embedding", "new_scaler", "widened",
    "width_parameter",
]  # fmt: skip


SIGMA_BAGS = 2000  # whose distances sigma is a multiple of the median of
_CHUNK_VALUES = 2**24  # random features at a time


class Clock:
    """Seconds per stage, added to a dictionary.

    Examples
    --------
    >>> clock = Clock({"embedding": 5.0})
    >>> clock.lap("embedding")
    >>> clock.seconds["embedding"] > 5
    True
    """

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = {} if seconds is None else seconds
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to that of a stage."""
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Chain:
    """Fitted stages: a scaler or None, an embedding, and random features or None.

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.as_bags(np.random.default_rng(0).normal(size=(10, 30, 2)))
    >>> chain = Chain(None, de.MomentEmbedding("mean").fit(bags), None)
    >>> chain.width, chain.apply(np.asarray, bags).shape
    (2, (10, 2))
    """

    scaler: Any
    embedding: Any
    features: RandomFourierFeatures | None

    @property
    def width(self) -> int:
        """Number of features that the linear model sees."""
        return len(self.embedding.get_feature_names_out()) if self.features is None else self.features.n_components

    def scale(self, bags: Bags) -> Bags:
        """Bags as the embedding takes them."""
        return bags if self.scaler is None else self.scaler.transform(bags)

    def pieces(self, scaled: Bags, clock: Clock | None = None) -> Iterator[tuple[Array, slice]]:
        """Rows of features of scaled bags, some at a time, and which bags they are of.

        A clock is told the seconds of embedding and random features, and those between pieces as of the linear model.
        """
        clock, step = clock or Clock(), max(1, _CHUNK_VALUES // self.width)
        for first in range(0, scaled.n_bags, step):
            rows = slice(first, min(first + step, scaled.n_bags))
            clock.lap("linear model")
            Z = np.asarray(self.embedding.transform(scaled[rows]))
            clock.lap("embedding")
            if self.features is not None:
                Z = self.features.transform(Z)
            clock.lap("random features")
            yield Z, rows

    def apply(self, function: Callable[[Array], Any], bags: Bags) -> Any:
        """A function of the rows of features, or several in a tuple, for all bags, some at a time."""
        found = [function(Z) for Z, _ in self.pieces(self.scale(bags))]
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(part) for part in zip(*found, strict=True))
        return np.concatenate(found)


def check_components(owner: object, n_components: Any) -> None:
    """Refuse a number of random features that is not even; None is none of them."""
    if n_components is None:
        return
    none = Message(Argument("n_components", None), " for the features themselves")
    remedy: str = Message("give an even number, or ", none)
    n = check_number(owner, "n_components", n_components, low=2, high=10**6, integer=True, remedy=remedy)
    if n % 2:
        where = Argument("n_components", owner=type(owner).__name__)
        rule = f": must be even, for the sine and the cosine of each frequency, got {n}; use {n + 1}, or "
        raise ValueError(Message(where, rule, none))


def new_embedding(owner: object, embedding: Any) -> Any:
    """An unfitted embedding, by name or as a clone."""
    if isinstance(embedding, str):
        try:
            return embeddings.get(embedding)
        except ValueError as error:
            reason = str(error).removeprefix("embeddings.get: ")
            raise ValueError(f"{type(owner).__name__}(embedding=...): {reason}") from None
    check_embedding(owner, embedding)
    return clone(embedding)


def new_scaler(owner: object, scale: Any, embedding: Any) -> Any:
    """An unfitted scaler, or None: what the user gave, or by ``"auto"`` what the embedding needs."""
    if scale is None:
        return None
    if isinstance(scale, str):
        check_choice(owner, "scale", scale, ("auto",))
        inner = getattr(embedding, "embedding", embedding)  # what Marginals and BlockAverage wrap
        kinds = [method.kind for method in embeddings.available().values() if method.units == "unit cube"]
        return UnitCube() if type(inner) in kinds else None
    if isinstance(scale, type) or not (hasattr(scale, "fit") and hasattr(scale, "transform")):
        raise TypeError(
            f"{type(owner).__name__}(scale=...): must be 'auto', None or a scaler such as UnitCube(), got {scale!r}; "
            "pass an object with fit and transform"
        )
    return clone(scale)


def width_parameter(embedding: Any) -> str | None:
    """The parameter that says how far an embedding, or the one that it wraps, smooths a bag; None without any.

    Examples
    --------
    >>> import distembed as de
    >>> [width_parameter(one) for one in (de.HDDEmbedding(), de.MeanEmbedding(), de.MomentEmbedding())]
    ['bandwidth_scale', 'sigma_scale', None]
    >>> width_parameter(de.Marginals(de.HistogramEmbedding()))
    'embedding__bins'
    """
    parameters = embedding.get_params()
    for prefix, one in (("", embedding), ("embedding__", parameters.get("embedding"))):
        if f"{prefix}bandwidth_scale" in parameters and parameters.get(f"{prefix}method") != "points":
            return f"{prefix}bandwidth_scale"
        for kind, name in ((MeanEmbedding, "sigma_scale"), (HistogramEmbedding, "bins")):
            if isinstance(one, kind):
                return prefix + name
    return None


def widened(embedding: Any, scale: float) -> Any:
    """A clone that smooths so many times as far: bandwidth, width of bins, or, squared, sigma of points.

    The median distance between points is a rougher guess than a rule for densities, and deserves a wider look.

    Examples
    --------
    >>> import distembed as de
    >>> widened(de.HDDEmbedding(), 2.0), widened(de.HistogramEmbedding(bins=(10, 3)), 1.41)
    (HDDEmbedding(bandwidth_scale=2.0), HistogramEmbedding(bins=(7, 2)))
    """
    name = width_parameter(embedding)
    if name is None:
        return clone(embedding)
    own = embedding.get_params()[name]
    if not name.endswith("bins"):
        return clone(embedding).set_params(**{name: own * (scale**2 if name.endswith("sigma_scale") else scale)})
    bins = [max(1, round(float(n) / scale)) for n in np.atleast_1d(own)]
    return clone(embedding).set_params(**{name: bins[0] if np.ndim(own) == 0 else tuple(bins)})


def mean_square(F: Array) -> float:
    """Mean squared distance of rows from their mean; one if they are all the same.

    Examples
    --------
    >>> mean_square(np.array([[1.0, 7.0], [5.0, 7.0]]))
    4.0
    """
    return float(np.mean(np.sum((F - F.mean(axis=0)) ** 2, axis=1))) or 1.0


def fit_chain(
    scaler: Any,
    embedding: Any,
    scaled: Bags,
    rng: np.random.RandomState,
    *,
    n_components: int | None,
    sigma_scale: float | None,
    n_jobs: int | None,
) -> tuple[Chain, float]:
    """Fit an embedding and random features to scaled bags.

    Returns
    -------
    chain : Chain
    unit : float
        In what penalties of the linear model are measured: one for random features, else the mean squared distance of
        the embedding's features from their mean, by which the search divides its kernel.
    """
    fitted, seed = embedding.fit(scaled), int(rng.randint(2**31))
    A = fitted.transform(scaled[subset(scaled.n_bags, SIGMA_BAGS, None, rng)])
    if n_components is None:
        return Chain(scaler, fitted, None), mean_square(np.asarray(A, np.float64))
    random = RandomFourierFeatures(n_components, sigma_scale=sigma_scale or 1.0, random_state=seed, n_jobs=n_jobs)
    return Chain(scaler, fitted, random.fit(A)), 1.0
