r"""Heads that learn from targets in another form: skewed numbers on a curve, and ordered classes as ranks.

    targets -> another form -> an ordinary head for numbers -> predictions in that form -> what they say of the targets

*On a curve.* Counts, prices and delays have errors that grow with their size, and what changes them multiplies. So a
head learns from z = g(y), g being a logarithm, a square root, a logit for shares, or asinh for long tails on both
sides. The inverse of a mean is not a mean: predictions are the mean of g⁻¹(ẑ + e) over the held-out residuals e (Duan's
smearing estimate, 1983), inside of the range of the training targets, so squared errors in the user's units are small.

*Ordered classes.* A head learns from the rank of a class, a number, and the cumulative link model (McCullagh, 1980)

.. math:: P(\text{rank} ≤ j) = 1 / (1 + e^{β s - θ_j}), \qquad θ_0 < θ_1 < …,

makes probabilities of its held-out predictions s. One number for all classes is all that there is to learn, which pays
where classes are many and bags few.

*Cost* beyond the head's: O(n_rows).
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import clone

from ..compute.arrays import Array
from ..compute.registry import storable
from .base import Head, Training, check_training
from .folds import inner_folds

SKEWED = 1.0  # skewness of targets that are learned on a curve
HEAVY = 6.0  # excess kurtosis of such targets
_LEVELS = (np.arange(41) + 0.5) / 41  # of residuals
_MOST_AT_ONCE = 2000  # rows
_TINY = 1e-12
_SLOPE_STEP = 1e-5  # of the largest prediction, by which the way back is differentiated


class TargetHead(Head):
    """Base of the heads that learn from targets in another form."""

    head: Head
    head_: Head

    def _learn_form(self, given: Training) -> Array:
        """Look at the targets of ``fit``; return their other form, ndarray of shape (n_rows, n_numbers)."""
        raise NotImplementedError

    def _form(self, given: Training) -> Array:
        """The other form of targets of ``refit``."""
        raise NotImplementedError

    def _learn_back(self, held_out: Array, form: Array, given: Training) -> Array:
        """Learn to go back from held-out predictions; return what they say of the targets."""
        raise NotImplementedError

    def _back(self, predicted: Array) -> Array:
        """What predictions in the other form say of the targets."""
        raise NotImplementedError

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Fit the head to the other form of the targets; parameters as for other heads."""
        return self.hold_out(features, targets, weight, folds).complete(features, targets, weight)

    def hold_out(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Choose settings, predict held-out rows, and learn the way back."""
        given = check_training(self, features, targets, weight, folds, self.check_classes())
        self.n_features_in_ = given.rows.shape[1]
        form = self._learn_form(given)
        self.head_ = clone(self.head).hold_out(given.rows, form, given.weight, given.folds)
        self.held_out_ = self._learn_back(self.head_.held_out_, form, given)
        del self.head_.held_out_
        return self

    def complete(self, features: Any, targets: Any, weight: Any = None) -> Self:
        """Do what ``hold_out`` left of ``fit``."""
        given = check_training(self, features, targets, weight, None, self.n_classes)
        self.head_.complete(given.rows, self._form(given), given.weight)
        return self

    def for_race(self) -> Head:
        """An unfitted copy whose head is cheap."""
        return type(self)(**self.get_params(deep=False) | {"head": self.head.for_race()})

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Fit the head to other rows; the way back stays."""
        given = self.check_again(features, targets, weight)
        self.head_.refit(given.rows, self._form(given), given.weight)
        return self

    @property
    def most_rows(self) -> int | None:  # type: ignore[override]
        """How many rows it can be fitted to again; None is any number."""
        return self.head_.most_rows

    def for_rows(self, n_rows: int) -> Head:
        """A copy that can learn from this number of rows with these settings."""
        found = copy(self)
        found.head_ = self.head_.for_rows(n_rows)
        return found

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities, ndarray of shape (n_rows, n_outputs)."""
        return self._back(self.head_.predict(self.check_rows(features)))

    def slopes(self, features: Any, outputs: Array) -> Array | None:
        """Gradients of predictions in the features, through the way back, where the head has some."""
        rows = self.check_rows(features)
        form = self.head_.predict(rows)
        own = outputs if form.shape[1] > 1 else np.zeros_like(outputs)
        inner = self.head_.slopes(rows, own)
        if inner is None:
            return None
        places = np.arange(len(rows))
        step = np.zeros_like(form)
        step[places, own] = _SLOPE_STEP * max(float(np.ptp(form)), float(np.abs(form).max()), _TINY)
        high, low = (self._back(form + sign * step)[places, outputs] for sign in (1, -1))
        return np.asarray(((high - low) / (2 * step[places, own]))[:, None] * inner)


# Ordered classes


@storable(theta="finite(t)")
class CumulativeLink(NamedTuple):
    """The cumulative link model of one score.

    Attributes
    ----------
    theta : ndarray of shape (n_classes - 1,)
        Increasing.
    beta : float
        The slope of the score.
    """

    theta: Array
    beta: float

    def __distembed_fits__(self) -> bool:
        return len(self.theta) > 0 and bool(np.all(np.diff(self.theta) > 0))

    def predict(self, scores: Array) -> Array:
        """Probabilities of the ranks, ndarray of shape (n_rows, n_classes)."""
        below = expit(self.theta - self.beta * scores[:, None])
        ends = np.hstack([np.zeros((len(scores), 1)), below, np.ones((len(scores), 1))])
        found = np.maximum(np.diff(ends, axis=1), _TINY)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    @classmethod
    def of(cls, scores: Array, ranks: Array, weight: Array, n_classes: int) -> CumulativeLink:
        """Maximise the likelihood; one row more, at the mean score and of all ranks alike, keeps all finite.

        Examples
        --------
        >>> scores = np.linspace(0, 3, 60)
        >>> link = CumulativeLink.of(scores, scores.astype(int).clip(0, 2), np.ones(60), 3)
        >>> link.predict(np.array([0.2, 1.5, 2.9])).argmax(axis=1)
        array([0, 1, 2])
        """
        centre = np.average(scores, weights=weight)
        unit = float(np.sqrt(np.average((scores - centre) ** 2, weights=weight))) or 1.0
        s = np.append((scores - centre) / unit, np.zeros(n_classes))
        r = np.append(ranks, np.arange(n_classes))
        w = np.append(weight / weight.mean(), np.full(n_classes, 1 / n_classes))
        share = np.cumsum(np.bincount(r, w, n_classes))[:-1] / w.sum()
        first = logit(share)
        start = np.concatenate([first[:1], np.log(np.maximum(np.diff(first), 1e-3)), [1.0]])
        rows = np.arange(len(s))

        def thresholds(x: Array) -> Array:
            return np.cumsum(np.concatenate([x[:1], np.exp(np.clip(x[1:-1], -30, 30))]))

        def loss(x: Array) -> tuple[float, Array]:
            below = expit(thresholds(x) - x[-1] * s[:, None])
            ends = np.hstack([np.zeros((len(s), 1)), below, np.ones((len(s), 1))])
            slope = ends * (1 - ends)
            p = np.maximum(ends[rows, r + 1] - ends[rows, r], _TINY)
            upper, lower = (w * slope[rows, r + k] / p for k in (1, 0))
            of_theta = np.bincount(r, lower, n_classes + 1) * np.append(0.0, np.ones(n_classes))
            of_theta = of_theta - np.bincount(r + 1, upper, n_classes + 1)
            after = np.cumsum(of_theta[1:-1][::-1])[::-1]  # a step moves all thresholds that follow
            steps = after[1:] * np.exp(np.clip(x[1:-1], -30, 30))
            return float(-w @ np.log(p)), np.concatenate([after[:1], steps, [s @ (upper - lower)]])

        x = minimize(loss, start, jac=True, method="L-BFGS-B").x
        theta = thresholds(x)
        theta = np.maximum.accumulate(theta + 1e-9 * np.arange(len(theta)))
        return cls(theta + x[-1] * centre / unit, float(x[-1] / unit))


@storable(ranks="int(_)", link_="CumulativeLink", head_="KernelHead | WideHead | ForestHead")
class OrderedHead(TargetHead):
    """Probabilities of ordered classes, from a head that learns their ranks.

    Parameters
    ----------
    head : Head
        For numbers.
    ranks : ndarray of int of shape (n_classes,)
        The rank of each code of a class, from 0.
    n_classes : int
        k.

    Attributes
    ----------
    head_ : Head
        Fitted.
    link_ : CumulativeLink
        Makes probabilities of ranks.
    held_out_ : ndarray of shape (n_rows, n_classes)
        Of models, and links, that did not see the row.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> from distembed.models.kernel_head import KernelHead
    >>> F = np.random.default_rng(0).normal(size=(90, 2))
    >>> grade = np.digitize(F[:, 0], [-0.5, 0.5])
    >>> head = OrderedHead(KernelHead("linear"), np.arange(3), 3).fit(F, grade, None, list(KFold(5).split(F)))
    >>> bool(np.mean(head.held_out_.argmax(axis=1) == grade) > 0.9)
    True
    """

    def __init__(self, head: Head, ranks: Any, n_classes: int) -> None:
        self.head = head
        self.ranks = ranks
        self.n_classes = n_classes

    def _form(self, given: Training) -> Array:
        return np.asarray(self.ranks[given.codes][:, None], np.float64)

    def _learn_form(self, given: Training) -> Array:
        return self._form(given)

    def _learn_back(self, held_out: Array, form: Array, given: Training) -> Array:
        k = int(self.n_classes or 0)
        scores = held_out[:, 0]
        ranks = form[:, 0].astype(int)
        found = np.empty((len(scores), k))
        for seen, held in inner_folds(ranks, None, 0, 5):
            link = CumulativeLink.of(scores[seen], ranks[seen], given.weight[seen], k)
            found[held] = link.predict(scores[held])
        self.link_ = CumulativeLink.of(scores, ranks, given.weight, k)
        return np.asarray(found[:, self.ranks])

    def __distembed_fits__(self) -> bool:
        return bool(np.array_equal(np.sort(self.ranks), np.arange(len(self.link_.theta) + 1)))

    def _back(self, predicted: Array) -> Array:
        return np.asarray(self.link_.predict(predicted[:, 0])[:, self.ranks])


# Skewed numbers


@storable
class Curve(NamedTuple):
    """An increasing function of one target.

    Attributes
    ----------
    kind : str
        "log", "sqrt", "logit", "asinh", or "none".
    shift, unit : float
        log and sqrt of (y + shift) / unit, logit of y moved to the middle by this share, asinh of (y - shift) / unit.
    low, high : float
        The range of the targets that it was chosen for.
    """

    kind: str
    shift: float
    unit: float
    low: float
    high: float

    def __distembed_fits__(self) -> bool:
        return self.kind in ("log", "sqrt", "logit", "asinh", "none") and self.unit > 0 and self.low <= self.high

    def __call__(self, y: Array) -> Array:
        """Take targets to the curve: z = g(y)."""
        y = np.clip(y, self.low, self.high)
        if self.kind == "log":
            return np.asarray(np.log((y + self.shift) / self.unit))
        if self.kind == "sqrt":
            return np.asarray(np.sqrt(np.maximum(y + self.shift, 0.0) / self.unit))
        if self.kind == "logit":
            return np.asarray(logit(self.shift + (1 - 2 * self.shift) * y))
        return np.asarray(np.arcsinh((y - self.shift) / self.unit) if self.kind == "asinh" else y / self.unit)

    def inverse(self, z: Array) -> Array:
        """Take numbers back: y = g⁻¹(z), inside of the range."""
        low, high = self(np.array([self.low, self.high]))
        z = np.clip(z, low, high)
        if self.kind == "log":
            found = self.unit * np.exp(z) - self.shift
        elif self.kind == "sqrt":
            found = self.unit * z**2 - self.shift
        elif self.kind == "logit":
            found = (expit(z) - self.shift) / (1 - 2 * self.shift)
        else:
            found = self.shift + self.unit * np.sinh(z) if self.kind == "asinh" else self.unit * z
        return np.asarray(np.clip(found, self.low, self.high))

    @classmethod
    def of(cls, y: Array) -> Curve:
        """The curve that suits the targets, "none" where they are neither skewed nor heavy-tailed.

        Shares of which a fifth is near 0 or 1 get a logit; targets that are skewed to the right and not negative the
        one of logarithm and square root that leaves less skewness; targets with long tails asinh.

        Examples
        --------
        >>> z = np.random.default_rng(0).normal(size=200)
        >>> [Curve.of(each).kind for each in (z, np.exp(z), (z + 1.5) ** 2, 1 / (1 + np.exp(-3 * z)), z**3)]
        ['none', 'log', 'sqrt', 'logit', 'asinh']
        """
        low, high = float(y.min()), float(y.max())
        spread = float(y.std())
        none = cls("none", 0.0, spread if spread > 0 else 1.0, low, high)
        if not spread > 1e-9 * max(abs(low), abs(high)):
            return none
        if low >= 0 and high <= 1 and np.mean((y < 0.1) | (y > 0.9)) >= 0.2:
            return cls("logit", 0.5 / (len(y) + 1), 1.0, low, high)
        skew, kurtosis = _moments(y)
        if low >= 0 and skew > SKEWED:
            positive = y[y > 0]
            whole = bool(np.all(y == np.rint(y)))
            shift = 1.0 if whole else 0.0 if low > 0 else float(np.quantile(positive, 0.05))
            both = [cls("log", shift, spread, low, high), cls("sqrt", 0.0, spread, low, high)]
            return min(both, key=lambda curve: abs(_moments(curve(y))[0]))
        if kurtosis > HEAVY:
            middle, quarters = np.median(y), np.quantile(y, [0.25, 0.75])
            width = float(np.diff(quarters)[0])
            return cls("asinh", float(middle), width, low, high) if width > 0 else none
        return none


def _moments(y: Array) -> tuple[float, float]:
    """Skewness and excess kurtosis."""
    centred = y - y.mean()
    centred = centred / max(np.abs(centred).max(), np.finfo(float).tiny)
    variance = max(float(np.mean(centred**2)), np.finfo(float).tiny)
    return float(np.mean(centred**3) / variance**1.5), float(np.mean(centred**4) / variance**2 - 3)


def has_curve(targets: Array) -> bool:
    """Whether some column of targets suits a curve."""
    return any(Curve.of(column).kind != "none" for column in targets.reshape(len(targets), -1).T)


@storable(residuals_="finite(_, o)", head_="KernelHead | WideHead | ForestHead", curves_="list[Curve]")
class TransformedHead(TargetHead):
    """Numbers from a head that learns them on a curve.

    Parameters
    ----------
    head : Head
        For numbers.

    Attributes
    ----------
    head_ : Head
        Fitted.
    curves_ : list of Curve
        Of each output.
    residuals_ : ndarray of shape (41, n_outputs)
        Quantiles of the held-out residuals, on the curve.
    held_out_ : ndarray of shape (n_rows, n_outputs)
        Of models that did not see the row.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> from distembed.models.kernel_head import KernelHead
    >>> rng = np.random.default_rng(0)
    >>> F = rng.normal(size=(90, 2))
    >>> price = np.exp(2 * F[:, 0] + 0.1 * rng.normal(size=90))
    >>> head = TransformedHead(KernelHead("linear")).fit(F, price, None, list(KFold(5).split(F)))
    >>> head.curves_[0].kind, bool(np.corrcoef(head.held_out_[:, 0], price)[0, 1] > 0.95)
    ('log', True)
    """

    n_classes = None

    def __init__(self, head: Head) -> None:
        self.head = head

    def _learn_form(self, given: Training) -> Array:
        self.curves_ = [Curve.of(column) for column in given.outputs.T]
        return self._form(given)

    def _form(self, given: Training) -> Array:
        pairs = zip(self.curves_, given.outputs.T, strict=True)
        return np.stack([curve(column) for curve, column in pairs], axis=1)

    def _learn_back(self, held_out: Array, form: Array, given: Training) -> Array:
        self.residuals_ = np.quantile(form - held_out, _LEVELS, axis=0)
        return self._back(held_out)

    def _back(self, predicted: Array) -> Array:
        found = np.empty_like(predicted)
        for start in range(0, len(predicted), _MOST_AT_ONCE):
            rows = slice(start, start + _MOST_AT_ONCE)
            for o, curve in enumerate(self.curves_):
                around = predicted[rows, o, None] + self.residuals_[:, o]
                found[rows, o] = curve.inverse(around).mean(axis=1)
        return found
