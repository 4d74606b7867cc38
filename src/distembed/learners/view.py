"""Views: what heads see of bags. A scaler, an embedding and maybe random features make rows of bags.

    bags -> scaler -> embedding -> features -> rows

A view of covariates has none of these: its rows are the encoded covariates.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone

from .. import embeddings
from ..bags import Bags
from ..bags.estimators import check_embedding
from ..basis import groups
from ..compute.arrays import Array
from ..compute.checks import check_choice
from ..compute.progress import SILENT, Stages
from ..compute.registry import storable
from ..embeddings.symmetric import Orbit
from ..scaling import Standardize, UnitCube, scaler_for
from ..scaling.unit_cube import SharedCube
from .batch import Clock

_BEYOND = 0.25  # of the range of a feature in training, that a new bag may lie outside of it


class Scaler(Protocol):
    """What learners ask of a scaler: bags to bags."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Look at the points of bags."""
        ...

    def transform(self, X: Any) -> Any:
        """Scaled bags."""
        ...


class Embedding(Protocol):
    """What learners ask of an embedding: bags to rows."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Look at bags."""
        ...

    def transform(self, X: Any) -> Any:
        """Rows, ndarray of shape (n_bags, n_features)."""
        ...

    def get_feature_names_out(self) -> Any:
        """Names of the features."""
        ...


class Features(Protocol):
    """What learners ask of features of a kernel: rows to rows."""

    n_components: Any

    def transform(self, X: Any) -> Any:
        """Rows, ndarray of shape (n_rows, n_components)."""
        ...


EmbeddingLike = str | Embedding | Sequence[str | Embedding]  # what learners take for an embedding


class EmbeddedBags:
    """Bags of which only the rows of an embedding are known, such as those of sketches.

    A learner of one embedding predicts and learns from them as from the bags.

    Parameters
    ----------
    rows : ndarray of shape (n_bags, n_features)
        What the learner's embedding makes of the bags, before random features.

    Examples
    --------
    >>> import distembed as de
    >>> bags = np.random.default_rng(0).normal(size=(30, 20, 1))
    >>> model = de.DistributionRegressor("mean", n_components=None, tune=None).fit(bags, bags.mean(axis=(1, 2)))
    >>> view = model.model_.view
    >>> rows = EmbeddedBags(view.embedding.transform(view.scaler.transform(bags)))
    >>> bool(np.allclose(model.predict(rows), model.predict(bags)))
    True
    """

    has_ids = False

    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.rows)

    @property
    def shape(self) -> tuple[int]:
        """As of bags, for scikit-learn."""
        return (len(self.rows),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, some: Any) -> EmbeddedBags:
        return EmbeddedBags(self.rows[some])


@storable(mean="finite(m)", low="finite(m)", high="finite(m)")
class Ranges(NamedTuple):
    """What features were in training.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        Mean of each feature.
    size : float
        Root mean squared distance from it.
    low, high : ndarray of shape (n_features,)
        Features of new bags are clipped to this range: that of the training bags and a quarter of it on either side. A
        column that is nearly constant in training has a tiny deviation, so a new bag can lie a hundred deviations
        away from everything that heads have seen. No fold shows that, since views are fitted to all training bags.
    """

    mean: Array
    size: float
    low: Array
    high: Array

    @classmethod
    def of(cls, rows: Array) -> Ranges:
        """Look at the rows of training bags."""
        mean = rows.mean(axis=0)
        low = rows.min(axis=0)
        high = rows.max(axis=0)
        size = float(np.sqrt(np.mean(np.sum((rows - mean) ** 2, axis=1)))) or 1.0
        beyond = _BEYOND * (high - low)
        return cls(mean, size, low - beyond, high + beyond)

    def __distembed_fits__(self) -> bool:
        return bool(np.all(self.low <= self.high))


@storable
class FittedView(NamedTuple):
    """Fitted stages from bags to rows; a view of covariates has none.

    Attributes
    ----------
    scaler, embedding, features : object or None
        Fitted.
    ranges : Ranges or None
        To which features of new bags are clipped; None: they are as they are.
    """

    scaler: Scaler | None
    embedding: Embedding | None
    features: Features | None = None
    ranges: Ranges | None = None

    @property
    def width(self) -> int:
        """Number of features that heads see."""
        if self.features is not None:
            return int(self.features.n_components)
        return len(self.ranges.mean) if self.embedding is None else len(self.embedding.get_feature_names_out())  # type: ignore[union-attr]

    def scale(self, bags: Any) -> Any:
        """Bags as the embedding takes them; far points, which learners warn about, are left to these."""
        if self.scaler is None or isinstance(bags, EmbeddedBags):
            return bags
        with warnings.catch_warnings():
            if isinstance(self.scaler, Standardize):
                warnings.simplefilter("ignore", UserWarning)
            return self.scaler.transform(bags)

    def embed(self, scaled: Any) -> Array:
        """Rows of the embedding, of scaled bags."""
        if isinstance(scaled, EmbeddedBags):
            return scaled.rows
        assert self.embedding is not None
        return np.asarray(self.embedding.transform(scaled))

    def finish(self, rows: Array) -> Array:
        """What heads see of rows of the embedding."""
        if self.features is not None:
            rows = self.features.transform(rows)
        if self.ranges is not None:
            rows = np.clip(np.asarray(rows, np.float64), self.ranges.low, self.ranges.high)
        return rows

    def rows(self, bags: Any, covariates: Array | None = None) -> Array:
        """What heads see of bags, or of their covariates, without warnings: other views would repeat them."""
        if self.embedding is None:
            return self.finish(np.asarray(covariates, np.float64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self.finish(self.embed(self.scale(bags)))


class View(NamedTuple):
    """A view that is not fitted: its name, and a scaler and an embedding, or None for covariates."""

    name: str
    scaler: Scaler | None
    embedding: Embedding | None

    def fit(
        self, bags: Bags, covariates: Array | None = None, scaled: dict[int, tuple[Any, Bags]] | None = None
    ) -> tuple[FittedView, Array]:
        """Fit scaler and embedding, and return the rows of these bags too.

        Views with one scaler may share ``scaled``, in which the first of them leaves the scaler, fitted, and its bags.
        """
        if self.embedding is None:
            made = FittedView(None, None)
            rows = made.rows(bags, covariates)
        else:
            known = {} if scaled is None else scaled
            with warnings.catch_warnings():  # of settings that nobody chose
                warnings.simplefilter("ignore", UserWarning)
                if id(self.scaler) not in known:
                    scaler = None if self.scaler is None else clone(self.scaler).fit(bags)
                    known[id(self.scaler)] = (scaler, bags if scaler is None else scaler.transform(bags))
                scaler, seen = known[id(self.scaler)]
                made = FittedView(scaler, clone(self.embedding).fit(seen))
                rows = made.finish(made.embed(seen))
        rows = np.asarray(rows, np.float64)
        return made._replace(ranges=Ranges.of(rows)), rows


class BagRows:
    """What a head sees of bags through one view, computed when it is asked for, some bags at a time.

    Parameters
    ----------
    view : FittedView
        With an embedding.
    scaled : Bags or EmbeddedBags
        Scaled.
    clock : Clock, optional
        Receives the seconds of embedding and random features, and those between pieces as of the linear model.
    training : bool, default=False
        Whether these are training bags. No warnings for them: fitting the embedding already issued them.
    stages : Stages
        Receives progress, one step per bag.
    """

    values_at_once = 2**24  # features

    def __init__(
        self,
        view: FittedView,
        scaled: Any,
        clock: Clock | None = None,
        training: bool = False,
        stages: Stages = SILENT,
    ) -> None:
        self._view = view
        self._scaled = scaled
        self._clock = clock or Clock()
        self._training = training
        self._stages = stages

    def __len__(self) -> int:
        return int(self._scaled.n_bags)

    def pieces(self) -> Iterator[tuple[Array, slice]]:
        """Rows, some at a time, and which these are."""
        step = max(1, self.values_at_once // self._view.width)
        self._stages.begin("learning", len(self))
        for first in range(0, len(self), step):
            some = slice(first, min(first + step, len(self)))
            self._clock.lap("linear model")
            with warnings.catch_warnings():
                if self._training:
                    warnings.simplefilter("ignore", UserWarning)
                rows = self._view.embed(self._scaled[some])
            self._clock.lap("embedding")
            rows = self._view.finish(rows)
            self._clock.lap("random features")
            yield rows, some
            self._stages.advance(some.stop - some.start)
        self._stages.begin("solving", None)

    def take(self, positions: Array) -> Array:
        """Rows of some of the bags."""
        return np.concatenate([rows for rows, _ in BagRows(self._view, self._scaled[positions]).pieces()])


def new_scaler_and_embedding(owner: Any) -> tuple[Any, Any]:
    """An unfitted scaler or None, and an unfitted embedding, of a learner's parameters.

    ``scale="auto"`` is a scaler that makes units irrelevant, see :func:`~distembed.scaling.scaler_for`.
    """
    scale = owner.scale
    embedding = owner.embedding
    if isinstance(embedding, str):
        try:
            embedding = embeddings.get(embedding)
        except ValueError as error:
            reason = str(error).removeprefix("embeddings.get: ")
            raise ValueError(f"{type(owner).__name__}(embedding=...): {reason}") from None
    else:
        check_embedding(owner, embedding)
        embedding = clone(embedding)
    if isinstance(scale, str):
        check_choice(owner, "scale", scale, ("auto",))
        scaler = scaler_for(embedding)
    elif scale is not None and (isinstance(scale, type) or not (hasattr(scale, "fit") and hasattr(scale, "transform"))):
        raise TypeError(
            f"{type(owner).__name__}(scale=...): must be 'auto', None or a scaler such as UnitCube(), got {scale!r}; "
            "pass an object with fit and transform"
        )
    else:
        scaler = None if scale is None else clone(scale)
    return (scaler, embedding) if owner.symmetries is None else _with_symmetries(owner, scaler, embedding)


def set_seeds(embedding: Any, rng: np.random.RandomState, n_jobs: int | None) -> None:
    """Give an embedding, and those that it wraps, seeds and threads where it has none: it draws the same again."""
    for parameter, value in embedding.get_params().items():
        kind = parameter.rpartition("__")[2]
        if value is None and kind == "random_state":
            embedding.set_params(**{parameter: int(rng.randint(2**31))})
        if value is None and kind == "n_jobs":
            embedding.set_params(**{parameter: n_jobs})


def name_of(embedding: Any) -> str:
    """What rows of a leaderboard call an embedding: its name, or that of its class."""
    return embedding if isinstance(embedding, str) else type(embedding).__name__


# Symmetries


def _with_symmetries(owner: Any, scaler: Any, embedding: Any) -> tuple[Any, Any]:
    """Scaler and embedding of a learner that has ``symmetries``, by name, as an object or as functions of points."""
    name = type(owner).__name__
    symmetries = owner.symmetries
    if isinstance(symmetries, list | tuple):
        return None, Orbit(embedding, list(symmetries), scale=scaler)
    found = groups.get(symmetries)
    if "symmetries" not in embedding.get_params(deep=False):
        raise ValueError(
            f"{name}(symmetries=...): {type(embedding).__name__} has none of its own; use one of 'js', 'hellinger', "
            "'tv', 'chi2', 'l2', or give functions of points: symmetries=[function, ...]"
        )
    if isinstance(owner.scale, str) and isinstance(scaler, UnitCube):
        swap = found.swap if isinstance(found.swap, tuple) else "all"
        scaler = SharedCube(swap)
    return scaler, embedding.set_params(symmetries=found)


def check_symmetric(owner: Any, scaler: Any, embedding: Any) -> None:
    """Refuse what a fitted scaler, or no random features, would make of the symmetries of a fitted embedding."""
    name = type(owner).__name__
    found = getattr(embedding, "symmetries", None)
    if owner.n_components is None:
        raise ValueError(
            f"{name}(n_components=None): the features of an embedding change with symmetries, and their kernel is "
            "averaged; use n_components=5000 or 'exact'"
        )
    if found is None or not isinstance(scaler, UnitCube):
        return
    _, swap, _ = groups.get(found).dimensions(len(scaler.low_))
    boxes = {(float(scaler.low_[j]), float(scaler.high_[j]), scaler.maps_[j]) for j in swap}
    if len(boxes) > 1 or any(kind in ("asinh", "rank", "sigmoid") for *_, kind in boxes):
        raise ValueError(
            f"{name}(scale=...): columns that symmetries swap must share one box and a linear map, got boxes from "
            f"{[scaler.low_[j].item() for j in swap]} to {[scaler.high_[j].item() for j in swap]}; use scale='auto' or "
            "UnitCube(bounds=(low, high))"
        )
