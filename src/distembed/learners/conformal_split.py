r"""What conformal regression and classification share: the quantile of scores, the split, and labels of bags.

**The bag is the unit.** All that is needed is that calibration bags and new bags are exchangeable. Points of one bag
need not be independent, and do not count: a million points of five bags are five scores. Where bags come in groups
(visits of one patient, fields of one farm), bags of one group are alike, and only groups are exchangeable. Then each of
K calibration groups has mass 1/(K + 1), shared by its n_k bags,

.. math:: q = \min \Big\{t : \sum_k \frac{1}{n_k} \#\{i \text{ in } k : s_i ≤ t\} ≥ c (K + 1)\Big\},

and the promise is for a bag of a new group. With groups of one bag it is the ⌈(n + 1) c⌉-th smallest score.
"""

from __future__ import annotations

import inspect
import math
import warnings
from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from ..bags import as_bags
from ..bags.estimators import by_id
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number, check_weights
from ..models.foreign_head import final_step, fit_argument
from .batch import check_labels

_ROUNDING = 1e-10  # relative, of sums of 1/n_k


def conformal_quantile(scores: Any, coverage: float, groups: Any = None) -> Array:
    """The score that a new bag stays at or below with at least this probability.

    Parameters
    ----------
    scores : array-like of shape (n_bags,) or (n_bags, n_outputs)
        Scores of calibration bags; may be infinite.
    coverage : float
        c, in (0, 1), taken as the decimal number that it is written as.
    groups : array-like of shape (n_bags,), optional
        Bags of one group are one unit, and the probability is that of a bag of a new group.

    Returns
    -------
    ndarray of shape () or (n_outputs,)
        The ⌈(n + 1) c⌉-th smallest score, infinite if there are fewer; with groups, see the module.

    Examples
    --------
    >>> scores = [5, 3, 8, 1, 9, 2, 7, 4, 6]
    >>> float(conformal_quantile(scores, 0.8)), float(conformal_quantile(scores, 0.9))
    (8.0, 9.0)
    >>> float(conformal_quantile(scores, 0.91))  # needs eleven
    inf
    >>> float(conformal_quantile(scores, 0.7, groups=[0, 0, 0, 0, 0, 0, 1, 2, 3]))  # 4/6 + 1 + 1 + 1 ≥ 0.7 (4 + 1)
    7.0
    """
    level = coverage_of("conformal_quantile", coverage)
    values = np.asarray(scores, np.float64)
    if values.ndim not in (1, 2) or not values.size or np.isnan(values).any():
        raise ValueError(
            f"conformal_quantile(scores=...): must be one number, or one row, a bag, none of them NaN, got shape "
            f"{values.shape}; leave bags without a score out"
        )
    weight, n_units = np.ones(len(values)), len(values)
    if groups is not None:
        names, number, sizes = distinct(labels_of("conformal_quantile", "groups", groups, len(values)))
        weight, n_units = 1 / sizes[number], len(names)
    columns = values.reshape(len(values), -1)
    order = np.argsort(columns, axis=0)
    enough = np.cumsum(weight[order], axis=0) >= float(level * (n_units + 1)) * (1 - _ROUNDING)
    found = np.take_along_axis(columns, order, axis=0)[np.argmax(enough, axis=0), np.arange(columns.shape[1])]
    return np.asarray(np.where(enough[-1], found, np.inf).reshape(values.shape[1:]))


def coverage_of(owner: object, coverage: Any) -> Fraction:
    """The coverage as a fraction: 0.55 is 55/100, so that 0.55 of 100 is 55 and not a little more."""
    remedy = "0.9 means nine of ten"
    return Fraction(repr(check_number(owner, "coverage", coverage, low=0, high=1, inclusive="neither", remedy=remedy)))


def labels_of(where: str, name: str, values: Any, n_bags: int) -> Array:
    """One label for each bag, none of them missing."""
    labels = check_labels(where, name, values, n_bags)
    missing = [i for i, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        raise ValueError(
            f"{where}: {name} must have no missing labels, got {labels[missing[0]]} for bag {missing[0]}; give such "
            "bags a label of their own"
        )
    return labels


def distinct(labels: Array) -> tuple[list[Any], Array, Array]:
    """Distinct labels in order of first appearance, which of them each bag has, and how often each occurs."""
    names: dict[Any, int] = {}
    number = np.array([names.setdefault(label, len(names)) for label in labels.tolist()])
    return list(names), number, np.bincount(number)


def hashed_uniforms(p: Array, seed: int) -> Array:
    """One number in [0, 1) a row, a function of the row and the seed alone, as good as drawn at random.

    Rows that differ by rounding alone have the same number.
    """
    mixed = np.full(len(p), seed, np.uint64)
    for column in np.rint(np.maximum(p.T, 0) * 2.0**30).astype(np.uint64):
        mixed = (mixed ^ column) + np.uint64(0x9E3779B97F4A7C15)  # Steele, Lea and Flood (2014), SplitMix
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def adaptive_scores(p: Array, u: Array) -> Array:
    """For each class, the mass of the classes before it, from the likeliest down, and the share u of its own."""
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, np.cumsum(ranked, axis=1) - (1 - u)[:, None] * ranked, axis=1)
    return scores


def examples_of(X: Any) -> tuple[Any, int]:
    """X as something that takes positions, and its length."""
    if type(X).__module__.split(".")[0] in ("awkward", "pyarrow") and not hasattr(X, "column_names"):
        X = as_bags(X)  # lists and records, not tables
    return X, int(X.shape[0]) if hasattr(X, "shape") else len(X)


class SplitConformal(MetaEstimatorMixin, BaseEstimator):
    """What regression and classification share: the split, scores, their quantiles."""

    _methods: tuple[str, ...]
    _answers: str  # what is infinite, for the warning

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float = 0.9,
        calibration: float = 0.2,
        method: str = "absolute",
        prefit: bool = False,
        unknown: str = "error",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.calibration = calibration
        self.method = method
        self.prefit = prefit
        self.unknown = unknown
        self.random_state = random_state

    def _targets(self, y: Any, n_bags: int) -> Array:
        raise NotImplementedError

    def _scores(self, X: Any, y: Array) -> Array:
        raise NotImplementedError

    def _fit_models(self, fit: Any) -> None:
        self.estimator_ = fit(clone(self.estimator))

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, by: Any = None) -> Self:
        """Fit the estimator to one part of the bags and keep its scores on the other.

        Parameters
        ----------
        X : Bags, list of arrays, array or data frame
            What the estimator takes.
        y : array-like of shape (n_bags,) or, in regression, (n_bags, n_outputs)
            Finite numbers, or classes.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags, for the estimator; of a pipeline for its last step. Each calibration bag counts once. Bags
            of weight zero are as if absent.
        groups : array-like of shape (n_bags,), optional
            Bags of one group are kept from the estimator together, and count as one in calibration. Passed on to
            estimators whose ``fit`` has such an argument.
        by : array-like of shape (n_bags,), optional
            One label per bag: bags of each label are calibrated by themselves. To be given in prediction too.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.prefit:
            raise ValueError(
                f"{type(self).__name__}(prefit=True): the estimator is fitted already; call calibrate(X, y) with bags "
                "that it has not seen"
            )
        X, y, by, groups = self._examples(X, y, by, groups)
        weight = self._weights(by_id(sample_weight, X, "sample_weight"), len(y))
        train, held = self._split(np.arange(len(y)) if weight is None else np.flatnonzero(weight), groups)

        def fit(model: Any) -> Any:
            given = {}
            if weight is not None:
                given[fit_argument(model, "sample_weight")] = weight[train]
            if groups is not None and "groups" in inspect.signature(final_step(model).fit).parameters:
                given[fit_argument(model, "groups")] = groups[train]
            return model.fit(_safe_indexing(X, train), y[train], **given)

        self._fit_models(fit)
        held_by, held_groups = (None if labels is None else labels[held] for labels in (by, groups))
        self._keep(_safe_indexing(X, held), y[held], held_by, held_groups)
        self.calibration_indices_ = held
        return self

    def calibrate(self, X: Any, y: Any, by: Any = None, groups: Any = None) -> Self:
        """Keep the scores of bags that the fitted estimator has not seen, in place of former ones.

        Parameters
        ----------
        X : Bags, list of arrays, array or data frame
            Calibration bags, exchangeable with those to come.
        y : array-like of shape (n_bags,) or, in regression, (n_bags, n_outputs)
            Finite numbers, or classes.
        by : array-like of shape (n_bags,), optional
            One label per bag: bags of each label are calibrated by themselves.
        groups : array-like of shape (n_bags,), optional
            Bags of one group count as one.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_is_fitted(*((self.estimator,) if self.prefit else (self, "estimator_")))
        X, y, by, groups = self._examples(X, y, by, groups)
        if self.prefit:
            self.estimator_ = self.estimator
        self._keep(X, y, by, groups)
        return self

    def predict(self, X: Any) -> Any:
        """Predictions of the estimator."""
        check_is_fitted(self, "scores_")
        return self.estimator_.predict(X)

    def _examples(self, X: Any, y: Any, by: Any, groups: Any) -> tuple[Any, Array, Array | None, Array | None]:
        """What ``fit`` and ``calibrate`` are given, checked."""
        X, n = examples_of(X)
        named, where = (("by", by), ("groups", groups)), type(self).__name__
        labels = [None if each is None else labels_of(where, name, by_id(each, X, name), n) for name, each in named]
        return X, self._targets(by_id(y, X, "y"), n), labels[0], labels[1]

    def _check_parameters(self) -> None:
        if isinstance(self.estimator, type) or not all(hasattr(self.estimator, name) for name in ("fit", "predict")):
            raise TypeError(
                f"{type(self).__name__}(estimator=...): must be an estimator such as DistributionRegressor('js'), got "
                f"{self.estimator!r}; pass an object with fit and predict"
            )
        coverage_of(self, self.coverage)
        remedy = "0.2 means one fifth of the bags"
        check_number(self, "calibration", self.calibration, low=0, high=1, inclusive="neither", remedy=remedy)
        check_choice(self, "method", self.method, self._methods)
        check_choice(self, "unknown", self.unknown, ("error", "all"))

    def _weights(self, sample_weight: Any, n: int) -> Array | None:
        if sample_weight is None:
            return None
        weight = check_weights(self, sample_weight, n, may_vanish=True)
        parameters = inspect.signature(final_step(self.estimator).fit).parameters.values()
        if not any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise TypeError(
                f"{type(self).__name__}: sample_weight must be taken by the estimator's fit, which that of "
                f"{type(final_step(self.estimator)).__name__} does not; leave it out"
            )
        return weight

    def _split(self, rows: Array, groups: Array | None) -> tuple[Array, Array]:
        """Positions of bags for the estimator and for calibration, a share of the bags or of the groups."""
        number = np.arange(len(rows)) if groups is None else distinct(groups[rows])[1]
        n_units = int(number.max(initial=-1)) + 1
        n_held = math.ceil(Fraction(repr(float(self.calibration))) * n_units)
        if n_held >= n_units:
            what = "bags" if groups is None else "groups"
            raise ValueError(
                f"{type(self).__name__}(calibration={self.calibration!r}): must leave some {what} for the estimator, "
                f"got {n_units} {what} in all; give more, or a smaller share"
            )
        held = np.isin(number, check_random_state(self.random_state).permutation(n_units)[:n_held])
        return rows[~held], rows[held]

    def _keep(self, X: Any, y: Array, by: Array | None, groups: Array | None) -> None:
        # Nothing of another estimator is left, should this one fail.
        for stale in ("scores_", "calibration_indices_", "n_features_in_"):
            self.__dict__.pop(stale, None)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        self.scores_, self.by_, self.groups_ = self._scores(X, y), by, groups

    def _quantiles(self, n: int, coverage: Any, by: Any) -> Array:
        """The q of each of n bags, or one for all, in a leading dimension; a warning says where bags are too few."""
        coverage = self.coverage if coverage is None else coverage
        level, name = coverage_of(self, coverage), type(self).__name__
        few: list[str] = []

        def q(there: Array, whose: str) -> Array:
            groups = None if self.groups_ is None else self.groups_[there]
            units = int(np.count_nonzero(there)) if groups is None else len(set(groups.tolist()))
            if units < level * (units + 1):
                few.append(f"{units}{whose}")
            return conformal_quantile(self.scores_[there], coverage, groups)

        everyone = np.ones(len(self.scores_), bool)
        if (by is None) != (self.by_ is None):
            rule = "not be given: calibration had none" if self.by_ is None else "be given, as in calibration"
            remedy = "pass it to fit or calibrate too" if self.by_ is None else "pass one label per bag"
            raise ValueError(f"{name}: by must {rule}, got {type(by).__name__}; {remedy}")
        if self.by_ is None:
            found = q(everyone, "")[None]
        else:
            known, own, _ = distinct(self.by_)
            names, number, _ = distinct(labels_of(name, "by", by, n))
            place = {label: i for i, label in enumerate(known)}
            strange = [label for label in names if label not in place]
            if strange and self.unknown == "error":
                raise ValueError(
                    f"{name}: by must have the labels of calibration, got {strange[0]!r}; calibrate with bags of that "
                    "label, or use unknown='all'"
                )
            rest = q(everyone, " of all labels") if strange else None
            found = np.array([q(own == place[a], f" of {a!r}") if a in place else rest for a in names])[number]
        if few:
            what = "bags" if self.groups_ is None else "groups"
            warnings.warn(
                f"{name}: too few calibration {what} for a coverage of {float(level):g}, {self._answers}: "
                f"{', '.join(few)}; {math.ceil(level / (1 - level))} are needed",
                UserWarning,
                stacklevel=3,
            )
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__") and not isinstance(self.estimator, type):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags
