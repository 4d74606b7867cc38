"""What a learner learns from, bags with targets, and the stages before the linear model, in bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn import model_selection
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets

from .. import embeddings
from ..bags import Bags
from ..bags.estimators import check_embedding, check_weights
from ..compute.arrays import Array
from ..compute.checks import Argument, Message, check_choice, check_number, collapsed
from ..embeddings import HistogramEmbedding, MeanEmbedding
from ..features import RandomFourierFeatures
from ..scaling import scaler_for
from .exact_kernel import KernelFeatures, KernelSum

FEW_BAGS = 200  # a tenth of fewer says nothing
SIGMA_BAGS = 2000  # whose distances sigma is a multiple of the median of
_CHUNK_VALUES = 2**24  # random features at a time


# Bags with targets


class Batch(NamedTuple):
    """Bags, targets, weights of bags, and groups and encoded covariates if there are any."""

    bags: Bags
    y: Array
    weight: Array
    groups: Array | None = None
    beside: Array | None = None

    @classmethod
    def checked(
        cls, owner: object, bags: Bags, y: Array, weight: Any = None, groups: Any = None, may_vanish: bool = False
    ) -> Batch:
        """Check weights and groups as the user gave them, in the name of an owner."""
        labels = None if groups is None else check_labels(type(owner).__name__, "groups", groups, bags.n_bags)
        return cls(bags, y, check_weights(owner, weight, bags.n_bags, may_vanish=may_vanish), labels)

    def numbered(self, owner: object) -> Batch:
        """The same with numbers for groups, of which there must be two at least."""
        if self.groups is None:
            return self
        try:
            names, number = np.unique(self.groups, return_inverse=True)
        except TypeError:
            raise TypeError(
                f"{type(owner).__name__}: groups must be labels of one kind, got several, such as None and text; give "
                "every bag a label"
            ) from None
        if len(names) < 2:
            raise ValueError(f"{type(owner).__name__}: groups must be at least two, got one; leave groups out")
        return self._replace(groups=number)

    def take(self, some: Array) -> Batch:
        """The same of some of the bags, by positions or a mask."""
        groups, beside = (None if each is None else each[some] for each in (self.groups, self.beside))
        return Batch(self.bags[some], self.y[some], self.weight[some], groups, beside)

    def sample(self, most: int, rng: np.random.RandomState) -> Batch:
        """At most so many of the bags, see :func:`subset`."""
        return self.take(subset(len(self.y), most, self.groups, rng))

    def folds(
        self, tune: Any, classes: bool, rng: np.random.RandomState, share: float = 0.1
    ) -> list[tuple[Array, Array]]:
        """Training and held-out positions, as a learner's ``tune`` says, see :func:`folds_of`.

        No more folds than a rare class has bags.
        """
        how = n_folds(tune, len(self.y), self.groups)
        rarest = int(np.unique(self.y, return_counts=True)[1].min()) if classes else 1
        how = min(how, rarest) if isinstance(how, int) and rarest > 1 else how
        return folds_of(how, self.y, self.groups, classes, rng, share)

    def counted(self) -> Batch:
        """Without the bags of weight zero, which are as if absent; some must be left."""
        there = self.weight > 0
        return self if there.all() else self.take(there)


def check_labels(where: str, name: str, values: Any, n_bags: int) -> Array:
    """One label for each bag."""
    labels = np.asarray(values)
    if labels.shape != (n_bags,):
        raise ValueError(
            f"{where}: {name} must be one label per bag, got shape {labels.shape} for {n_bags} bags; pass them in the "
            "order of the bags"
        )
    return labels


def check_numbers(owner: object, y: Any, n_bags: int, other: str) -> Array:
    """Targets of regression: finite numbers, one or one row for each bag; ``other`` is the class for classes."""
    name, given = type(owner).__name__, np.asarray(y)
    try:
        if given.dtype.kind in "cMmSU" or any(isinstance(value, str) for value in given.ravel()[:1]):
            raise TypeError
        targets = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: y must be numbers, got {type(y).__name__} that are not; use {other} for classes"
        ) from None
    if targets.ndim not in (1, 2) or len(targets) != n_bags:
        raise ValueError(
            f"{name}: y must be one number, or one row, a bag, got shape {targets.shape} for {n_bags} bags; "
            "bags.align(series) puts targets in the order of the bags"
        )
    if not np.all(np.isfinite(targets)):
        i = int(np.argwhere(~np.isfinite(targets))[0][0])
        raise ValueError(f"{name}: y must be finite, got {targets[i]} for bag {i}; leave such bags out")
    return targets


def check_classes(owner: object, y: Any, n_bags: int, other: str) -> Array:
    """Targets of classification: one class for each bag; ``other`` is the class for numbers."""
    name, labels = type(owner).__name__, np.asarray(y)
    if labels.shape != (n_bags,):
        raise ValueError(
            f"{name}: y must be one class per bag, got shape {labels.shape} for {n_bags} bags; bags.align(series) puts "
            "classes in the order of the bags"
        )
    try:
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            raise ValueError("some are not finite")
        check_classification_targets(labels)
        np.unique(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: y must be classes, all text or all whole numbers, none missing, got others ({error}); leave bags "
            f"without a class out, and use {other} for numbers"
        ) from None
    return labels


def warn_if_constant(owner: object, y: Array, stacklevel: int = 2) -> None:
    """Say that there is nothing to learn where a target is the same number for all bags."""
    rows = y.reshape(len(y), -1)
    if len(rows) > 1 and (rows == rows[0]).all(axis=0).any():
        which = "y" if y.ndim == 1 else "an output of y"
        warnings.warn(
            f"{type(owner).__name__}: {which} is the same for all bags, so that there is nothing to learn, and the "
            "model predicts that number; check the targets",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def check_scales(owner: object, name: str, values: Any) -> None:
    """Refuse what is no sequence of positive numbers."""
    if isinstance(values, str) or np.ndim(values) != 1 or not len(values):
        raise TypeError(
            f"{type(owner).__name__}({name}=...): must be a sequence of positive numbers, got {values!r}; write "
            f"({values!r},) for one"
        )
    for value in values:
        check_number(owner, name, value, low=0, inclusive="neither")


def subset(n_bags: int, most: int, groups: Array | None, rng: np.random.RandomState) -> Array:
    """Positions of at most so many bags, in increasing order.

    Whole groups if there are any, or, where fewer than three would fit, some bags of each.
    """
    if n_bags <= most:
        return np.arange(n_bags)
    if groups is None:
        return np.sort(rng.choice(n_bags, most, replace=False))
    names, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    n_whole = int(np.searchsorted(np.cumsum(sizes[order]), most, side="right"))
    if n_whole >= 3:
        return np.flatnonzero(np.isin(number, order[:n_whole]))
    drawn = rng.permutation(n_bags)
    firsts = drawn[np.unique(number[drawn], return_index=True)[1]][order][: most // 2]  # a bag of each group
    return np.sort(np.concatenate([firsts, drawn[~np.isin(drawn, firsts)]])[:most])


def n_folds(tune: str | int, n_bags: int, groups: Array | None) -> str | int:
    """How a learner's ``tune`` splits so many bags: ``"holdout"``, or a number of folds.

    Examples
    --------
    >>> n_folds("holdout", 500, None), n_folds("holdout", 50, None), n_folds(3, 50, np.repeat([0, 1], 25))
    ('holdout', 5, 2)
    """
    if tune == "holdout" and n_bags >= FEW_BAGS:
        return "holdout"
    n = n_bags if groups is None else len(np.unique(groups))
    return min(5 if tune == "holdout" else int(tune), n)


def folds_of(
    how: str | int,
    y: Array,
    groups: Array | None,
    classes: bool,
    rng: np.random.RandomState,
    share: float = 0.1,
) -> list[tuple[Array, Array]]:
    """Training and held-out positions: a share held out, or so many folds; groups stay together."""
    seed, n = int(rng.randint(2**31)), len(y)
    strata = bool(classes and np.min(np.unique(y, return_counts=True)[1]) >= (2 if how == "holdout" else how))
    if how == "holdout":
        share = max(share, 1 / n)
        if groups is not None:
            splitter: Any = model_selection.GroupShuffleSplit(1, test_size=share, random_state=seed)
        else:
            strata = strata and min(n * share, n - n * share) >= len(np.unique(y))
            kind = model_selection.StratifiedShuffleSplit if strata else model_selection.ShuffleSplit
            splitter = kind(1, test_size=share, random_state=seed)
    elif groups is not None:
        splitter = model_selection.StratifiedGroupKFold(how) if strata else model_selection.GroupKFold(how)
    else:
        kind = model_selection.StratifiedKFold if strata else model_selection.KFold
        splitter = kind(how, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(n), y, groups))


# Stages


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
    """Fitted stages: a scaler or None, an embedding, and features of a kernel, mostly random ones, or None.

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
    features: Any

    @classmethod
    def fit(
        cls,
        scaler: Any,
        embedding: Any,
        scaled: Bags,
        rng: np.random.RandomState,
        *,
        n_components: Any,
        sigma_scale: float | None,
        n_jobs: int | None,
    ) -> tuple[Chain, float, tuple[str, bool]]:
        """Fit random features to those of scaled bags by a fitted embedding.

        Returns
        -------
        chain : Chain
        unit : float
            In what penalties of the linear model are measured: one for random features, else the mean squared
            distance of the embedding's features from their mean, by which the search divides its kernel.
        collapsed : (str, bool)
            What these features have in common, see :func:`~distembed.compute.checks.collapsed`.
        """
        seed = int(rng.randint(2**31))
        with warnings.catch_warnings():  # of training bags, and of features, of which the learner tells
            warnings.simplefilter("ignore", UserWarning)
            some = scaled if n_components == "exact" else scaled[subset(scaled.n_bags, SIGMA_BAGS, None, rng)]
            A = np.asarray(embedding.transform(some))
            if n_components is None:
                return cls(scaler, embedding, None), mean_square(A), collapsed(A)
            if hasattr(embedding, "kernel_features"):
                features = embedding.kernel_features(n_components, seed, n_jobs, KernelSum).fit(A)
                return cls(scaler, embedding, features), 1.0, collapsed(A)
            exact = n_components == "exact"
            made: Any = KernelFeatures() if exact else RandomFourierFeatures(n_components, n_jobs=n_jobs)
            made.set_params(sigma_scale=sigma_scale or 1.0, random_state=seed, group=getattr(embedding, "group_", None))
            return cls(scaler, embedding, made.fit(A)), 1.0, collapsed(A)

    @property
    def width(self) -> int:
        """Number of features that the linear model sees."""
        return len(self.embedding.get_feature_names_out()) if self.features is None else self.features.n_components

    def scale(self, bags: Bags) -> Bags:
        """Bags as the embedding takes them."""
        return bags if self.scaler is None else self.scaler.transform(bags)

    def pieces(self, scaled: Bags, clock: Clock | None = None, training: bool = False) -> Iterator[tuple[Array, slice]]:
        """Rows of features of scaled bags, some at a time, and which bags they are of.

        A clock is told the seconds of embedding and random features, and those between pieces as of the linear model.
        Training bags are not warned of: the fit of the embedding had its say.
        """
        clock, step = clock or Clock(), max(1, _CHUNK_VALUES // self.width)
        for first in range(0, scaled.n_bags, step):
            rows = slice(first, min(first + step, scaled.n_bags))
            clock.lap("linear model")
            with warnings.catch_warnings():
                if training:
                    warnings.simplefilter("ignore", UserWarning)
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
    """Refuse a number of random features that is not even; None is none of them, "exact" the kernel itself."""
    if n_components is None or (isinstance(n_components, str) and n_components == "exact"):
        return
    none = Message(Argument("n_components", None), " for the features themselves")
    remedy: str = Message("give an even number, or ", none)
    n = check_number(owner, "n_components", n_components, low=2, high=10**6, integer=True, remedy=remedy)
    if n % 2:
        where = Argument("n_components", owner=type(owner).__name__)
        rule = f": must be even, for the sine and the cosine of each frequency, got {n}; use {n + 1}, or "
        raise ValueError(Message(where, rule, none))


def new_stages(owner: object, scale: Any, embedding: Any) -> tuple[Any, Any]:
    """An unfitted scaler or None, and an unfitted embedding, maybe by name.

    ``"auto"`` is a scaler that makes units irrelevant, see :func:`~distembed.scaling.scaler_for`.
    """
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
        return scaler_for(embedding), embedding
    if scale is not None and (isinstance(scale, type) or not (hasattr(scale, "fit") and hasattr(scale, "transform"))):
        raise TypeError(
            f"{type(owner).__name__}(scale=...): must be 'auto', None or a scaler such as UnitCube(), got {scale!r}; "
            "pass an object with fit and transform"
        )
    return None if scale is None else clone(scale), embedding


def seeded(embedding: Any, rng: np.random.RandomState, n_jobs: int | None) -> None:
    """Give an embedding, and those that it wraps, seeds and threads where it has none: it draws the same again."""
    for parameter, value in embedding.get_params().items():
        kind = parameter.rpartition("__")[2]
        if value is None and kind == "random_state":
            embedding.set_params(**{parameter: int(rng.randint(2**31))})
        if value is None and kind == "n_jobs":
            embedding.set_params(**{parameter: n_jobs})


def width_name(embedding: Any) -> str | None:
    """The parameter that says how far an embedding, or the one that it wraps, smooths a bag; None without any.

    Examples
    --------
    >>> import distembed as de
    >>> [width_name(one) for one in (de.HDDEmbedding(), de.MeanEmbedding(), de.MomentEmbedding())]
    ['bandwidth_scale', 'sigma_scale', None]
    >>> width_name(de.Marginals(de.HistogramEmbedding()))
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


def widened(embedding: Any, scale: float | None) -> Any:
    """A clone that smooths so many times as far: bandwidth, width of bins, or, squared, sigma of points.

    The median distance between points is a rougher guess than a rule for densities, and deserves a wider look.

    Examples
    --------
    >>> from distembed import HistogramEmbedding
    >>> widened(HistogramEmbedding(bins=(10, 3)), 1.41)
    HistogramEmbedding(bins=(7, 2))
    """
    name = width_name(embedding)
    if name is None or scale is None:
        return clone(embedding)
    own = embedding.get_params()[name]
    if not name.endswith("bins"):
        return clone(embedding).set_params(**{name: own * (scale**2 if name.endswith("sigma_scale") else scale)})
    bins = [max(1, round(float(n) / scale)) for n in np.atleast_1d(own)]
    return clone(embedding).set_params(**{name: bins[0] if np.ndim(own) == 0 else tuple(bins)})


def mean_square(F: Array) -> float:
    """Mean squared distance of rows from their mean; one if they are all the same, but for rounding.

    Examples
    --------
    >>> mean_square(np.array([[1.0, 7.0], [5.0, 7.0]]))
    4.0
    """
    centre = F.mean(axis=0, dtype=np.float64)
    found = float(np.mean(np.sum((F - centre) ** 2, axis=1)))
    return found if found > (100 * np.finfo(F.dtype).eps * np.linalg.norm(centre)) ** 2 else 1.0
