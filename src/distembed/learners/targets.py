"""Targets of bags: numbers or classes, checked, coded for heads, and back again.

Heads take numbers of shape (n_bags, n_outputs), or codes 0, ..., k - 1 of classes. :class:`Numbers` and
:class:`Classes` are what a learner knows of its targets once it has seen them all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..bags.ids import is_missing
from ..compute.arrays import Array
from ..compute.registry import storable
from .classes import canonical_classes, find_classes, warn_if_alike

_DROP = ", or, of missing values, pass missing_targets='drop'"
FEWEST_FOR_BOUNDS = 10  # bags
SKEWED = 1.0  # skewness of targets for which scales other than their own are tried
WILD = 1000  # ranges of most targets: one that is further off is a slip
LARGEST = 1e150  # of targets that are numbers: squares of larger ones are infinite


@storable(shape="list[n]", low="real(o)", high="real(o)")
@dataclass(frozen=True, eq=False)
class Numbers:
    """Targets that are numbers.

    Parameters
    ----------
    shape : tuple of int
        Of the targets of one bag: ``()``, or ``(n_outputs,)``.
    low, high : ndarray of shape (n_outputs,)
        Natural bounds, infinite where there are none, see :func:`natural_bounds`: predictions and the ends of intervals
        stay inside.

    Examples
    --------
    >>> targets = Numbers.of(np.array([1.0, 2.0]))
    >>> targets.code(np.array([1.0, 2.0])).shape, targets.decode(np.array([[1.0], [2.0]])).shape
    ((2, 1), (2,))
    """

    shape: tuple[int, ...]
    low: Array
    high: Array
    n_classes: ClassVar[None] = None

    def __distembed_fits__(self) -> bool:
        return len(self.low) == len(self.high) == int(np.prod(self.shape)) and bool(np.all(self.low < self.high))

    @classmethod
    def of(cls, y: Array) -> Numbers:
        """What there is to know of targets."""
        ends = np.array([natural_bounds(column) for column in y.reshape(len(y), -1).T])
        return cls(tuple(y.shape[1:]), ends[:, 0], ends[:, 1])

    def including(self, y: Array) -> Numbers:
        """Bounds without those that some of these targets exceed."""
        rows = y.reshape(len(y), -1)
        passed = (rows.min(axis=0) < self.low), (rows.max(axis=0) > self.high)
        if not np.any(passed):
            return self
        low, high = (
            np.where(each, far, end)
            for each, far, end in zip(passed, (-np.inf, np.inf), (self.low, self.high), strict=True)
        )
        return Numbers(self.shape, low, high)

    def inside(self, values: Array) -> Array:
        """Predictions or quantiles, ndarray of shape (n_bags, n_outputs, ...), moved to the nearest bound."""
        ends = (slice(None), *[None] * (values.ndim - 2))
        return np.asarray(np.clip(values, self.low[ends], self.high[ends]))

    def code(self, y: Array) -> Array:
        """Targets as heads take them, ndarray of shape (n_bags, n_outputs)."""
        return y.reshape(len(y), -1)

    def columns(self, coded: Array) -> Array:
        """Coded targets as columns of numbers: themselves."""
        return coded

    def weigh(self, coded: Array, weight: Array) -> Array:
        """Weights of bags by which they are learned from."""
        return weight

    def decode(self, predicted: Array) -> Array:
        """Predictions of heads in the shape of the targets."""
        return predicted.reshape(-1, *self.shape)


@storable(classes="labels(c)", weights="finite(c)", ranks="int(c) | None")
@dataclass(frozen=True, eq=False)
class Classes:
    """Targets that are classes.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted.
    weights : ndarray of shape (n_classes,)
        What a bag of each class weighs.
    ranks : ndarray of int of shape (n_classes,), optional
        The rank of each class, where they have an order.

    Examples
    --------
    >>> targets = Classes(np.array(["a", "b"]), np.ones(2))
    >>> targets.code(np.array(["b", "a"])), targets.columns(np.array([1, 0]))
    (array([1, 0]), array([[0., 1.],
           [1., 0.]]))
    """

    classes: Array
    weights: Array
    ranks: Array | None = None

    def __distembed_fits__(self) -> bool:
        return self.ranks is None or bool(np.array_equal(np.sort(self.ranks), np.arange(len(self.classes))))

    @classmethod
    def of(cls, owner: object, y: Array) -> Classes:
        """The classes that targets have, two at least; all weigh the same."""
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                f"{type(owner).__name__}: y must have at least two classes, got {classes.tolist()}; there is nothing "
                "to learn from one class"
            )
        warn_if_alike(owner, classes, stacklevel=4)
        return cls(classes, np.ones(len(classes)))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def code(self, y: Array) -> Array:
        """Targets as codes."""
        codes = find_classes(y, self.classes)
        unknown = codes < 0
        if np.any(unknown):
            strange = y[unknown].tolist()[0]
            raise ValueError(
                f"DistributionClassifier: y must have the classes {self.classes.tolist()}, got {strange!r}; name all "
                "of them in classes=[...]"
            )
        return codes

    def columns(self, coded: Array) -> Array:
        """Coded targets as columns of numbers: 0 and 1 for each class."""
        return np.asarray(coded[:, None] == np.arange(len(self.classes)), float)

    def weigh(self, coded: Array, weight: Array) -> Array:
        """Weights of bags by which they are learned from."""
        return np.asarray(weight * self.weights[coded])

    def inside(self, values: Array) -> Array:
        """Probabilities as they are."""
        return values

    def decode(self, predicted: Array) -> Array:
        """Probabilities as they are."""
        return predicted


MISSING_CHOICES = ("error", "drop")


def missing_targets(y: Any) -> Array:
    """Which targets are missing (NaN, None, NA, NaT, or masked), in any output; ndarray of bool of shape (n_bags,).

    Examples
    --------
    >>> missing_targets([1.0, None, np.nan]).tolist(), missing_targets(["a", None]).tolist()
    ([False, True, True], [False, True])
    """
    masked = np.ma.getmaskarray(y) if np.ma.isMaskedArray(y) else None
    values = np.asarray(y)
    if values.dtype.kind in "fcmM":
        found = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    elif values.dtype.kind == "O":
        found = np.array([is_missing(value) for value in values.ravel()], bool).reshape(values.shape)
    else:
        found = np.zeros(values.shape, bool)
    found = found if masked is None else found | masked
    return np.asarray(found.reshape(len(found), -1).any(axis=1) if found.ndim else found)


def natural_bounds(values: Array) -> tuple[float, float]:
    """The range that one output can't leave, as far as its training values show.

    (0, 1) for shares: all values are in it, and some is 0 or 1, or they span more than half of it. (0, infinity) for
    counts, amounts and waiting times: none is negative, and some is zero, or all are whole, or they are skewed to the
    right (skewness above 1). Else there are no bounds: of a quantity that happens to be positive in training, such as a
    rate of growth, new values may be negative. That a new value lies outside has a chance of about one in n_bags, so
    fewer than ten values show nothing.

    Examples
    --------
    >>> y = np.linspace(0.2, 0.9, 20)
    >>> natural_bounds(y), natural_bounds(y / 10), natural_bounds(np.arange(30.0)), natural_bounds(y - 0.5)
    ((0.0, 1.0), (-inf, inf), (0.0, inf), (-inf, inf))
    """
    if len(values) < FEWEST_FOR_BOUNDS or values.min() < 0 or values.max() == values.min():
        return -np.inf, np.inf
    touches = bool(values.min() == 0)
    if values.max() <= 1 and (touches or values.max() == 1 or np.ptp(values) > 0.5):
        return 0.0, 1.0
    if touches or np.all(values == np.rint(values)) or skewness(values) > SKEWED:
        return 0.0, np.inf
    return -np.inf, np.inf


def skewness(values: Array) -> float:
    """Third central moment over the cube of the standard deviation.

    Examples
    --------
    >>> round(skewness(np.array([0.0, 0.0, 0.0, 1.0])), 2)
    1.15
    """
    centred = values - values.mean()
    unit = np.abs(centred).max()
    if not unit > 0:
        return 0.0
    centred = centred / unit
    return float(np.mean(centred**3) / np.mean(centred**2) ** 1.5)


def tame_wild(owner: object, y: Array, bags: Any, stacklevel: int = 2) -> Array:
    """Targets without what one slip of the pen does to a fit: a value a thousand times off is taken as the next one.

    A value is wild if it is further from the median than a thousand times the range of the middle nine tenths, and if
    at most a hundredth of the values are. It would be all that squared errors see. It is replaced by the most extreme
    of the others, and a warning names the bag.

    Examples
    --------
    >>> import distembed as de
    >>> y = np.append(np.arange(30.0), 1e9)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     tame_wild("Mine", y, de.as_bags(np.zeros((31, 1, 1))))[-1]
    np.float64(29.0)
    """
    rows = y.reshape(len(y), -1)
    found = rows
    for o, column in enumerate(rows.T):
        low, high = np.quantile(column, 0.05, method="higher"), np.quantile(column, 0.95, method="lower")
        wild = np.abs(column - np.median(column)) > WILD * (high - low)
        if len(y) < FEWEST_FOR_BOUNDS or not high > low or not 1 <= wild.sum() <= max(1, 0.01 * len(y)):
            continue
        others = column[~wild]
        found = found.copy() if found is rows else found
        found[:, o] = np.clip(column, others.min(), others.max())
        first = int(wild.argmax())
        many = f", and {wild.sum() - 1} more like it" if wild.sum() > 1 else ""
        where = f"output {o} of y" if y.ndim > 1 else "y"
        name = owner if isinstance(owner, str) else type(owner).__name__
        warnings.warn(
            f"{name}: {where} is {column[first]:g} for {bags.name_of(first)}{many}, more than {WILD:,} times as far "
            f"off as most values, which lie from {low:g} to {high:g}; it is taken as {found[first, o]:g}, not to "
            "decide the fit alone; correct it, or leave the bag out",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    return found.reshape(y.shape)


def check_numbers(owner: object, y: Any, n_bags: int, other: str) -> Array:
    """Targets of regression: finite numbers, one or one row for each bag; ``other`` is the class for classes."""
    name = type(owner).__name__
    given = np.asarray(y)
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
        raise ValueError(f"{name}: y must be finite, got {targets[i]} for bag {i}; leave such bags out{_DROP}")
    if np.abs(targets).max(initial=0) > LARGEST:
        largest = targets.flat[np.abs(targets).argmax()]
        raise ValueError(
            f"{name}: y must be at most {LARGEST:g} in size, because its squares are summed, got {largest:g}; divide "
            "it by a constant"
        )
    return targets


def check_classes(owner: object, y: Any, n_bags: int, other: str) -> Array:
    """Targets of classification: one class for each bag, in its canonical form; ``other`` is the class for numbers."""
    name = type(owner).__name__
    labels = canonical_classes(y)
    if labels.shape != (n_bags,):
        raise ValueError(
            f"{name}: y must be one class per bag, got shape {labels.shape} for {n_bags} bags; bags.align(series) puts "
            "classes in the order of the bags"
        )
    try:
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            raise ValueError("some are not finite")
        if labels.dtype.kind == "O" and any(is_missing(value) for value in labels.tolist()):
            raise ValueError("some are missing")
        check_classification_targets(labels)
        np.unique(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: y must be classes, all text or all whole numbers, none missing, got others ({error}); leave bags "
            f"without a class out{_DROP}, and use {other} for numbers"
        ) from None
    return labels


def warn_if_constant(owner: object, y: Array, stacklevel: int = 2) -> None:
    """Warn that there is nothing to learn where a target is the same number for all bags."""
    rows = y.reshape(len(y), -1)
    if len(rows) > 1 and (rows == rows[0]).all(axis=0).any():
        which = "y" if y.ndim == 1 else "an output of y"
        warnings.warn(
            f"{type(owner).__name__}: {which} is the same for all bags, so there is nothing to learn, and the "
            "model predicts that number; check the targets",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def ranks_of(owner: object, ordered: Any, classes: Array) -> Array | None:
    """The rank of each class in an order that names all of them, low to high; None without an order.

    Examples
    --------
    >>> ranks_of("Mine", ["low", "middle", "high"], np.array(["high", "low", "middle"]))
    array([2, 0, 1])
    """
    if ordered is None:
        return None
    where = f"{owner if isinstance(owner, str) else type(owner).__name__}(ordered=...)"
    if isinstance(ordered, str) or np.ndim(ordered) != 1:
        raise TypeError(f"{where}: must be a list of all classes from low to high, got {ordered!r}; write [1, 2, 3]")
    given = list(ordered)
    codes = find_classes(given, classes)
    if len(given) != len(classes) or sorted(codes.tolist()) != list(range(len(classes))):
        raise ValueError(
            f"{where}: must list the classes of y, {classes.tolist()}, each once, from low to high, got {given!r}; add "
            "what is missing, or leave out what no bag has"
        )
    return np.argsort(codes)


def class_weights(owner: object, given: Any, classes: Array, codes: Array, weight: Array) -> Array:
    """What bags of each class weigh, ndarray of shape (n_classes,): None, ``"balanced"``, or a dict by class.

    ``"balanced"`` gives all classes the same sum of weights, and bags one on average.

    Examples
    --------
    >>> class_weights("Mine", "balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]), np.ones(4))
    array([0.66666667, 2.        ])
    """
    name = owner if isinstance(owner, str) else type(owner).__name__
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, str) and given == "balanced":
        sums = np.bincount(codes, weight, minlength=len(classes))
        return np.asarray(weight.sum() / (len(classes) * np.where(sums > 0, sums, 1.0)))
    if not isinstance(given, dict):
        raise ValueError(
            f"{name}(class_weight=...): must be None, 'balanced' or a dict of classes to weights, got {given!r}; write "
            "{'rare': 10}"
        )
    found = np.ones(len(classes))
    for key, own in given.items():
        code = int(find_classes([key], classes)[0])
        if code < 0:
            raise ValueError(
                f"{name}(class_weight=...): must name classes of y, {classes.tolist()}, got {key!r}; leave it out"
            )
        found[code] = own
    if not np.all(np.isfinite(found) & (found > 0)):
        raise ValueError(f"{name}(class_weight=...): must be positive numbers, got {given!r}; leave bags out instead")
    return found


def check_rare(where: str, classes: Array, codes: Array, how: str | int) -> None:
    """Refuse a class of one bag, and warn of one that has fewer bags than there are folds.

    Examples
    --------
    >>> check_rare("Mine", np.array(["a", "b"]), np.array([0, 0, 0, 1]), 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: Mine: every class must have at least two bags, got 1 of 'b'; add bags of it, leave it out, ...
    """
    counts = np.bincount(codes, minlength=len(classes))
    name = classes.tolist()[int(counts.argmin())]
    rarest = int(counts.min())
    if rarest < 2:
        raise ValueError(
            f"{where}: every class must have at least two bags, got {rarest} of {name!r}; add bags of it, leave it "
            "out, or name one embedding, with tune=None, so none is held out"
        )
    if isinstance(how, int) and rarest < how:
        warnings.warn(
            f"{where}: class {name!r} has so few bags that settings are scored on fewer folds, one for each of them; "
            "more bags of it would separate them better",
            stacklevel=4,
        )
