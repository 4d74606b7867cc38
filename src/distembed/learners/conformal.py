r"""Intervals and sets of classes with a guaranteed coverage: split conformal prediction around any model.

Some bags are kept from the model and show how wrong it is on held-out bags. With scores s(x, y), large
where the model is wrong, of n such bags,

.. math:: q = \text{the } ⌈(n + 1) c⌉\text{-th smallest of } s(x_1, y_1), \dots, s(x_n, y_n), \qquad
          C(x) = \{y : s(x, y) ≤ q\},

and a new bag has y in C(x) with probability at least c, and less than c + 1/(n + 1) if no scores are equal: for any
model, right or wrong, and any law of bags. If ⌈(n + 1) c⌉ > n, then q is infinite.

**The bag is the unit.** All that is needed is that calibration bags and new bags are exchangeable. Points of one bag
need not be independent, and do not count: a million points of five bags are five scores. Where bags come in groups
(visits of one patient, fields of one farm), bags of one group are alike, and only groups are exchangeable. Then each of
K calibration groups has mass 1/(K + 1), shared by its n_k bags,

.. math:: q = \min \Big\{t : \sum_k \frac{1}{n_k} \#\{i \text{ in } k : s_i ≤ t\} ≥ c (K + 1)\Big\},

and the promise is for a bag of a new group. With groups of one bag it is the ⌈(n + 1) c⌉-th smallest score.

**What is promised** is an average, over bags and over draws of the calibration bags. Given the latter, the coverage of
all bags to come has the law Beta(k, n + 1 - k), k = ⌈(n + 1) c⌉: for c = 0.9 and n = 100 it is 0.90 ± 0.03. Nor does an
average hold for each kind of bag. ``by`` makes it hold for each of a few kinds that are known beforehand.

*Cost* beyond the fit of the model: predictions for the calibration bags, and a sort.

References
----------
Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018). Distribution-free predictive inference for regression. Journal of
the American Statistical Association. Vovk, Gammerman and Shafer (2005). Algorithmic learning in a random world (``by``:
Mondrian predictors). Lee, Barber and Willett (2023). Distribution-free inference with hierarchical data (groups).
"""

from __future__ import annotations

import inspect
import math
import warnings
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..bags import as_bags
from ..bags.estimators import by_id
from ..compute.arrays import Array
from ..compute.checks import InputError, check_choice, check_number, check_weights
from ..compute.registry import described, storable
from ..models.foreign_head import final_step, fit_argument
from .batch import check_labels
from .classes import as_classes_of, find_classes
from .covariates import CovariateColumns
from .targets import check_classes, check_numbers

__all__ = ["ConformalClassifier", "ConformalRegressor", "conformal_quantile"]

_ROUNDING = 1e-10  # relative, of sums of 1/n_k
_OUTWARDS = 4 * np.finfo(float).eps  # more than rounding takes from the end of an interval, where a tie may sit


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
    weight = np.ones(len(values))
    n_units = len(values)
    if groups is not None:
        names, number, sizes = distinct(labels_of("conformal_quantile", "groups", groups, len(values)))
        weight = 1 / sizes[number]
        n_units = len(names)
    columns = values.reshape(len(values), -1)
    order = np.argsort(columns, axis=0)
    enough = np.cumsum(weight[order], axis=0) >= float(level * (n_units + 1)) * (1 - _ROUNDING)
    found = np.take_along_axis(columns, order, axis=0)[np.argmax(enough, axis=0), np.arange(columns.shape[1])]
    return np.asarray(np.where(enough[-1], found, np.inf).reshape(values.shape[1:]))


def coverage_of(owner: object, coverage: Any) -> Fraction:
    """The coverage as a fraction: 0.55 is 55/100, so 0.55 of 100 is 55 and not a little more."""
    remedy = "0.9 means nine of ten"
    return Fraction(repr(check_number(owner, "coverage", coverage, low=0, high=1, inclusive="neither", remedy=remedy)))


def n_units_needed(coverage: Fraction) -> int:
    """How many calibration bags, or groups, a finite quantile needs, ⌈c / (1 - c)⌉.

    Examples
    --------
    >>> n_units_needed(Fraction("0.9")), n_units_needed(Fraction("0.95"))
    (9, 19)
    """
    return math.ceil(coverage / (1 - coverage))


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


def size_limits(sizes: Array, coverage: Fraction) -> Array:
    """Between which sizes calibration bags are split into at most three parts, each with twice the bags it needs.

    Examples
    --------
    >>> size_limits(np.arange(1, 101), Fraction("0.9"))
    array([34., 67.])
    >>> size_limits(np.arange(1, 21), Fraction("0.9"))
    array([], dtype=float64)
    """
    n_parts = int(np.clip(len(sizes) // (2 * n_units_needed(coverage)), 1, 3))
    return np.unique(np.quantile(sizes, np.arange(1, n_parts) / n_parts, method="inverted_cdf")).astype(np.float64)


def _given(covariates: Any) -> dict[str, Any]:
    """Arguments of methods of the estimator."""
    return {} if covariates is None else {"covariates": covariates}


def hash_uniforms(p: Array, seed: int) -> Array:
    """One number in [0, 1) a row, a function of the row and the seed alone, as if drawn at random.

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


@described(calibration_indices_="int(_)", size_limits_="finite(_) | None")
class SplitConformal(MetaEstimatorMixin, BaseEstimator):
    """What regression and classification share: the split, scores, their quantiles."""

    _methods: tuple[str, ...]
    _answers: str  # what is infinite, for the warning
    size_limits_: Array | None = None

    def __init__(
        self,
        estimator: Any = None,
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

    def _scores(self, X: Any, y: Array, covariates: Any = None) -> Array:
        raise NotImplementedError

    def _default_estimator(self) -> Any:
        raise NotImplementedError

    @property
    def _base(self) -> Any:
        """The estimator, or the default one where none was given."""
        return self._default_estimator() if self.estimator is None else self.estimator

    def _fit_models(self, fit: Any) -> None:
        self.estimator_ = fit(clone(self._base))

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        by: Any = None,
        covariates: Any = None,
    ) -> Self:
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
        by : array-like of shape (n_bags,) or "size", optional
            One label per bag: bags of each label are calibrated by themselves. To be given in prediction too.
            ``"size"``: parts of the calibration bags by their size, at most three, with about equal numbers of bags and
            enough for the coverage; the sizes of new bags are known.
        covariates : table of n_bags rows, optional
            For estimators whose ``fit`` takes them, such as those of this package. To be given in prediction too.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.prefit:
            raise ValueError(
                f"{type(self).__name__}(prefit=True): the estimator is fitted already; call calibrate(X, y) with bags "
                "that were not used to fit it"
            )
        X, y, by, groups = self._examples(X, y, by, groups)
        table = self._read_covariates(X, covariates, len(y))
        weight = self._weights(by_id(sample_weight, X, "sample_weight"), len(y))
        train, held = self._split(np.arange(len(y)) if weight is None else np.flatnonzero(weight), groups)

        def fit(model: Any) -> Any:
            given = {}
            if weight is not None:
                given[fit_argument(model, "sample_weight")] = weight[train]
            if groups is not None and "groups" in inspect.signature(final_step(model).fit).parameters:
                given[fit_argument(model, "groups")] = groups[train]
            if table is not None:
                given["covariates"] = table[train]
            return model.fit(_safe_indexing(X, train), y[train], **given)

        self._fit_models(fit)
        held_groups = None if groups is None else groups[held]
        held_by = by if by is None or isinstance(by, str) else by[held]
        held_table = None if table is None else table[held]
        self._keep(_safe_indexing(X, held), y[held], held_by, held_groups, held_table)
        self.calibration_indices_ = held
        return self

    def calibrate(self, X: Any, y: Any, by: Any = None, groups: Any = None, covariates: Any = None) -> Self:
        """Keep the scores of bags that were not used to fit the estimator, in place of former ones.

        Parameters
        ----------
        X : Bags, list of arrays, array or data frame
            Calibration bags, exchangeable with those to come.
        y : array-like of shape (n_bags,) or, in regression, (n_bags, n_outputs)
            Finite numbers, or classes.
        by : array-like of shape (n_bags,) or "size", optional
            One label per bag: bags of each label are calibrated by themselves. ``"size"``: as in ``fit``.
        groups : array-like of shape (n_bags,), optional
            Bags of one group count as one.
        covariates : table of n_bags rows, optional
            If the estimator was fitted with some.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_is_fitted(*((self.estimator,) if self.prefit else (self, "estimator_")))
        X, y, by, groups = self._examples(X, y, by, groups)
        if self.prefit:
            self.estimator_ = self.estimator
        self._keep(X, y, by, groups, covariates)
        return self

    def predict(self, X: Any, covariates: Any = None) -> Any:
        """Predictions of the estimator; covariates as in ``fit``."""
        check_is_fitted(self, "scores_")
        return self.estimator_.predict(X, **_given(covariates))

    def _score(self, metric: Any, X: Any, truth: Any, sample_weight: Any, covariates: Any) -> float:
        """A metric of predictions."""
        weight = by_id(sample_weight, X, "sample_weight")
        if weight is not None:
            weight = check_weights(self, weight, len(X))
        return float(metric(truth, self.predict(X, covariates), sample_weight=weight))

    def _read_covariates(self, X: Any, covariates: Any, n: int) -> Any:
        """A table of covariates in the order of the bags, for an estimator that takes them, or None."""
        if covariates is None:
            return None
        if "covariates" not in inspect.signature(final_step(self._base).fit).parameters:
            raise TypeError(
                f"{type(self).__name__}: covariates must be taken by the estimator's fit, which that of "
                f"{type(final_step(self._base)).__name__} does not; use DistributionRegressor, DistributionClassifier, "
                "or leave them out"
            )
        return CovariateColumns.read(covariates, X.ids if getattr(X, "has_ids", False) else None, n)

    def _by_size(self, X: Any) -> Array:
        """The part of the calibration bags to which each bag belongs by its size."""
        assert self.size_limits_ is not None
        return np.searchsorted(self.size_limits_, as_bags(X).sizes)

    def _examples(self, X: Any, y: Any, by: Any, groups: Any) -> tuple[Any, Array, Any, Array | None]:
        """What ``fit`` and ``calibrate`` are given, checked."""
        X, n = examples_of(X)
        if isinstance(by, str) and by == "size":
            own = None if groups is None else labels_of(type(self).__name__, "groups", by_id(groups, X, "groups"), n)
            return X, self._targets(by_id(y, X, "y"), n), by, own
        named = (("by", by), ("groups", groups))
        where = type(self).__name__
        labels = [None if each is None else labels_of(where, name, by_id(each, X, name), n) for name, each in named]
        return X, self._targets(by_id(y, X, "y"), n), labels[0], labels[1]

    def _check_parameters(self) -> None:
        if self.estimator is None and self.prefit:
            raise ValueError(
                f"{type(self).__name__}(prefit=True): needs the fitted estimator, got none; pass it, or fit"
            )
        if self.estimator is None:
            pass
        elif isinstance(self.estimator, type) or not all(hasattr(self.estimator, name) for name in ("fit", "predict")):
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
        parameters = inspect.signature(final_step(self._base).fit).parameters.values()
        if not any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise TypeError(
                f"{type(self).__name__}: sample_weight must be taken by the estimator's fit, which that of "
                f"{type(final_step(self._base)).__name__} does not; leave it out"
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

    def _keep(self, X: Any, y: Array, by: Any, groups: Array | None, covariates: Any = None) -> None:
        # Nothing of another estimator is left, should this one fail.
        for stale in ("scores_", "calibration_indices_", "n_features_in_", "size_limits_"):
            self.__dict__.pop(stale, None)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        self.scores_ = self._scores(X, y, covariates)
        if isinstance(by, str):
            self.size_limits_ = size_limits(as_bags(X).sizes, coverage_of(self, self.coverage))
            by = self._by_size(X)
        self.by_ = by
        self.groups_ = groups

    def _quantiles(self, X: Any, n: int, coverage: Any, by: Any) -> Array:
        """The q of each of n bags, or one for all, in a leading dimension; a warning says where bags are too few."""
        if self.size_limits_ is not None and (by is None or (isinstance(by, str) and by == "size")):
            by = self._by_size(X)
        else:
            by = by_id(by, X, "by")
        coverage = self.coverage if coverage is None else coverage
        level = coverage_of(self, coverage)
        name = type(self).__name__
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
            raise InputError(f"{name}: by must {rule}, got {type(by).__name__}; {remedy}")
        if self.by_ is None:
            found = q(everyone, "")[None]
        else:
            known, own, _ = distinct(self.by_)
            names, number, _ = distinct(labels_of(name, "by", by, n))
            place = {label: i for i, label in enumerate(known)}
            strange = [label for label in names if label not in place]
            if strange and self.unknown == "error":
                raise InputError(
                    f"{name}: by must have the labels of calibration, got {strange[0]!r}; calibrate with bags of that "
                    "label, or use unknown='all'"
                )
            rest = q(everyone, " of all labels") if strange else None
            found = np.array([q(own == place[a], f" of {a!r}") if a in place else rest for a in names])[number]
        if few:
            what = "bags" if self.groups_ is None else "groups"
            warnings.warn(
                f"{name}: too few calibration {what} for a coverage of {float(level):g}, {self._answers}: "
                f"{', '.join(few)}; {n_units_needed(level)} are needed",
                UserWarning,
                stacklevel=3,
            )
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__") and not isinstance(self.estimator, type):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


@storable(scores_="real(n) | real(n, _)")
class ConformalRegressor(RegressorMixin, SplitConformal):
    r"""Intervals that hold the number of a new bag with a chosen probability, around any regressor.

    Parameters
    ----------
    estimator : estimator, optional
        Any regressor, of bags or of ordinary rows: a ``DistributionRegressor``, a pipeline, a model of scikit-learn.
        Default: ``DistributionRegressor()``, with the same ``random_state``.
    coverage : float, default=0.9
        c, the least probability that an interval holds the truth. ``predict_interval`` takes others.
    calibration : float, default=0.2
        Share of the bags, or of the groups, that ``fit`` keeps from the estimator, drawn at random and rounded up.
    method : {"absolute", "normalised", "quantile"}, default="absolute"
        The score, in Notes: intervals of one width for all bags, of widths in proportion to the estimator's own
        deviations, which ``predict(X, return_std=True)`` must give, or around quantiles that the estimator predicts.
    prefit : bool, default=False
        Whether the estimator is fitted already. Then all is done by ``calibrate``.
    unknown : {"error", "all"}, default="error"
        What bags get whose label in ``by`` calibration did not have: an error, or the quantile of all calibration bags,
        without a promise for their own label.
    random_state : int, RandomState or None, default=None
        Draws the calibration bags.

    Attributes
    ----------
    estimator_ : estimator
        Fitted; for ``"quantile"`` that of the median.
    bounds_ : tuple of two estimators
        Fitted to the quantiles (1 ± c)/2. Only for ``"quantile"``.
    scores_ : ndarray of shape (n_calibration,) or (n_calibration, n_outputs)
        Scores of the calibration bags.
    by_, groups_ : ndarray of shape (n_calibration,) or None
        Their labels.
    size_limits_ : ndarray of shape (n_parts - 1,) or None
        Between which sizes bags are calibrated by themselves, with ``by="size"``.
    calibration_indices_ : ndarray of shape (n_calibration,)
        Which bags of ``fit`` they are. Not after ``calibrate``.

    Notes
    -----
    *Scores.* With the prediction m(x), its deviation d(x) and predicted quantiles l(x) ≤ h(x),

    .. math:: s = |y - m|, \qquad s = |y - m| / d, \qquad s = \max(l - y, y - h).

    The last (Romano, Patterson and Candès 2019, conformalised quantile regression) fits three clones of an estimator
    that has a parameter named ``quantile``, itself or in a step of a pipeline, such as ``QuantileRegressor``. It suits
    bags of unequal noise that the estimator can tell. An interval that a negative q would turn inside out is its
    middle.

    *Limits.* The estimator sees only its share of the bags. Below ⌈c / (1 - c)⌉ calibration bags (9 for 0.9, 19 for
    0.95, 99 for 0.99), or groups, or bags of a label, intervals are infinite, with a warning. Several outputs
    are covered each by itself; for all m at once take a coverage of 1 - (1 - c)/m. Ends are rounded outwards, so a
    truth at the very end is inside.

    *Cost*: one fit, predictions for the calibration bags, a sort.

    References
    ----------
    Romano, Patterson and Candès (2019). Conformalized quantile regression. Advances in Neural Information Processing
    Systems.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=400)
    >>> bags = de.as_bags(rng.normal(y[:, None, None], 1, size=(400, 30, 1)))
    >>> model = make_pipeline(de.MomentEmbedding("mean"), LinearRegression())
    >>> conformal = ConformalRegressor(model, random_state=0).fit(bags[:200], y[:200])
    >>> interval = conformal.predict_interval(bags[200:])
    >>> interval.shape
    (200, 2)
    >>> bool(np.mean((interval[:, 0] <= y[200:]) & (y[200:] <= interval[:, 1])) > 0.8)
    True
    """

    _methods = ("absolute", "normalised", "quantile")
    _answers = "intervals are infinite"

    def predict_interval(self, X: Any, coverage: float | None = None, by: Any = None, covariates: Any = None) -> Array:
        """Intervals, ends included, that hold the numbers of bags.

        Parameters
        ----------
        X : Bags, list of arrays, array or data frame
            As in ``fit``.
        coverage : float, optional
            Another coverage than that of the constructor.
        by : array-like of shape (n_bags,), optional
            One label per bag, if calibration had labels; not needed for ``"size"``.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.

        Returns
        -------
        ndarray of shape (n_bags, 2) or (n_bags, n_outputs, 2)
            Lower and upper ends, in float64.
        """
        check_is_fitted(self, "scores_")
        X, n = examples_of(X)
        q = self._quantiles(X, n, coverage, by)
        low, high, unit = self._band(X, covariates)
        half = np.where(np.isinf(q), np.inf, np.where(np.isinf(q), 0, q) * unit)
        half = half + _OUTWARDS * (np.maximum(np.abs(low), np.abs(high)) + np.abs(half))
        low, high, middle = low - half, high + half, low / 2 + high / 2
        inside_out = low > high
        return np.stack([np.where(inside_out, middle, low), np.where(inside_out, middle, high)], axis=-1)

    def score(self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None) -> float:
        """R² of predictions, 1 at best; parameters as in ``fit``."""
        return self._score(r2_score, X, by_id(y, X, "y"), sample_weight, covariates)

    def __distembed_whole__(self) -> bool:
        """Whether model files hold all of the estimator: deviations need it."""
        return self.method == "normalised"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method == "quantile":
            self._quantile_parameter()
            if self.prefit:
                raise ValueError(
                    f"{type(self).__name__}(method='quantile'): fits the estimator to three quantiles, got "
                    "prefit=True; use another method, or fit"
                )

    def _quantile_parameter(self) -> str:
        names = [name for name in self._base.get_params() if name.split("__")[-1] == "quantile"]
        if len(names) != 1:
            raise TypeError(
                f"{type(self).__name__}(method='quantile'): needs an estimator with one parameter named quantile, such "
                f"as QuantileRegressor(), got {names or 'none'}; use another method"
            )
        return str(names[0])

    def _fit_models(self, fit: Any) -> None:
        if self.method != "quantile":
            super()._fit_models(fit)
            return
        name = self._quantile_parameter()
        c = float(self.coverage)
        models = [clone(self._base).set_params(**{name: level}) for level in (0.5, (1 - c) / 2, (1 + c) / 2)]
        self.estimator_, *bounds = map(fit, models)
        self.bounds_ = tuple(bounds)

    def _default_estimator(self) -> Any:
        from .estimators import DistributionRegressor

        return DistributionRegressor(random_state=self.random_state)

    def _targets(self, y: Any, n_bags: int) -> Array:
        return check_numbers(self, y, n_bags, "ConformalClassifier")

    def _band(self, X: Any, covariates: Any = None) -> tuple[Array, Array, Any]:
        """Where the score is zero, from low to high, and the unit in which it grows outside."""
        if self.method == "quantile":
            a, b = (self._check_finite(model.predict(X, **_given(covariates))) for model in self.bounds_)
            return np.minimum(a, b), np.maximum(a, b), 1.0
        if self.method == "absolute":
            found = self._check_finite(self.estimator_.predict(X, **_given(covariates)))
            return found, found, 1.0
        try:
            found, unit = self.estimator_.predict(X, return_std=True, **_given(covariates))
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__}(method='normalised'): needs an estimator with predict(X, return_std=True), got "
                f"{type(self.estimator_).__name__}, which says {error}; use method='absolute'"
            ) from error
        found = self._check_finite(found)
        unit = self._check_finite(unit)
        if unit.ndim < found.ndim:  # one deviation for all outputs
            unit = unit[:, None]
        if np.any(unit < 0):
            raise InputError(
                f"{type(self).__name__}(method='normalised'): deviations must be >= 0, got {unit.min():g}; use "
                "method='absolute'"
            )
        return found, found, unit

    def _check_finite(self, values: Any) -> Array:
        found = np.asarray(values, np.float64)
        if not np.all(np.isfinite(found)):
            i = int(np.argwhere(~np.isfinite(found))[0][0])
            raise InputError(
                f"{type(self).__name__}: predictions and their deviations must be finite, got {found[i]} for bag {i}; "
                "mend the estimator"
            )
        return found

    def _scores(self, X: Any, y: Array, covariates: Any = None) -> Array:
        low, high, unit = self._band(X, covariates)
        if low.shape != y.shape:
            if low.size != y.size:
                raise ValueError(
                    f"{type(self).__name__}: predictions must have the shape of y, {y.shape}, got {low.shape}; use an "
                    "estimator for this number of outputs"
                )
            y = y.reshape(low.shape)  # one output, as a column or not
        outside = np.maximum(low - y, y - high)
        zero = np.broadcast_to(np.equal(unit, 0), outside.shape)
        return np.where(zero, np.where(outside > 0, np.inf, 0.0), outside / np.where(zero, 1.0, unit))


def _has_probabilities(conformal: Any) -> bool:
    return hasattr(getattr(conformal, "estimator_", conformal._base), "predict_proba")


@storable(scores_="real(n)", classes_="labels(c)")
class ConformalClassifier(ClassifierMixin, SplitConformal):
    r"""Sets of classes that hold the class of a new bag with a chosen probability, around any classifier.

    Parameters
    ----------
    estimator : estimator, optional
        Any classifier, of bags or of ordinary rows, with ``predict_proba`` or else ``decision_function``. Default:
        ``DistributionClassifier()``, with the same ``random_state``.
    coverage : float, default=0.9
        c, the least probability that a set holds the truth. ``predict_set`` takes others.
    calibration : float, default=0.2
        Share of the bags, or of the groups, that ``fit`` keeps from the estimator, drawn at random and rounded up.
    method : {"lac", "aps"}, default="lac"
        The score, in Notes: the smallest sets on average, or sets that grow where the classifier is unsure.
    randomised : bool, default=True
        Whether ``"aps"`` counts a random share of a class's own probability, see Notes, or all of it: no chance then,
        but larger sets where classes are well apart. ``"lac"`` has no use for it.
    allow_empty : bool, default=True
        Whether a set may be empty. If not, it has the likeliest class, which can only raise the coverage. An empty set
        of ``"lac"`` means that no class is likely enough. One of ``"aps"`` belongs to a bag for which the classifier is
        sure, and has no meaning: there ``False`` is for sets that people read.
    prefit : bool, default=False
        Whether the estimator is fitted already. Then all is done by ``calibrate``.
    unknown : {"error", "all"}, default="error"
        What bags get whose label in ``by`` calibration did not have: an error, or the quantile of all calibration bags,
        without a promise for their own label.
    random_state : int, RandomState or None, default=None
        Draws the calibration bags, and the shares of ``"aps"``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes of the estimator, the columns of ``predict_set``.
    estimator_ : estimator
        Fitted.
    response_method_ : {"predict_proba", "decision_function"}
        Where probabilities come from.
    scores_ : ndarray of shape (n_calibration,)
        Scores of the calibration bags.
    by_, groups_ : ndarray of shape (n_calibration,) or None
        Their labels.
    size_limits_ : ndarray of shape (n_parts - 1,) or None
        Between which sizes bags are calibrated by themselves, with ``by="size"``.
    calibration_indices_ : ndarray of shape (n_calibration,)
        Which bags of ``fit`` they are. Not after ``calibrate``.

    Notes
    -----
    *Scores.* With the probabilities p of classes,

    .. math:: s_{\text{lac}} = 1 - p_y, \qquad s_{\text{aps}} = \sum_{c \text{ before } y} p_c + u \, p_y,

    where classes come from the likeliest down, equal ones in the order of ``classes_``. u is uniform in [0, 1], or 1 if
    not ``randomised``; where probabilities are right, u makes the score uniform. It is not drawn for each call but
    hashed from p and a seed: a bag gets the same set alone and among others, and the score stays a fixed function of
    bag and class, which is all that the promise needs.

    Probabilities need not be right. Where the estimator has none, they are the softmax of its decision function, for
    two classes of (0, d): any increasing function keeps the promise, but sets of ``"aps"`` depend on the scale.

    *Limits.* The estimator sees only its share of the bags. Below ⌈c / (1 - c)⌉ calibration bags (9 for 0.9, 19 for
    0.95, 99 for 0.99), or groups, or bags of a label, sets have all classes, with a warning. A calibration bag
    of a class that is not in the training data scores infinity, because no set can hold it, and a warning names it.

    *Cost*: one fit, predictions for the calibration bags, a sort.

    References
    ----------
    Sadinle, Lei and Wasserman (2019). Least ambiguous set-valued classifiers with bounded error levels. Journal of the
    American Statistical Association. Romano, Sesia and Candès (2020). Classification with valid and adaptive coverage.
    Advances in Neural Information Processing Systems.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 3, size=400)
    >>> bags = de.as_bags(rng.normal(kind[:, None, None], 4, size=(400, 30, 1)))
    >>> names = np.array(["low", "middle", "high"])[kind]
    >>> model = make_pipeline(de.MomentEmbedding("mean"), LogisticRegression())
    >>> conformal = ConformalClassifier(model, random_state=0).fit(bags[:200], names[:200])
    >>> sets = conformal.predict_set(bags[200:])
    >>> [conformal.classes_[row].tolist() for row in sets[:3]]
    [['low', 'middle'], ['high'], ['high', 'low', 'middle']]
    >>> bool(np.mean(sets[np.arange(200), np.searchsorted(conformal.classes_, names[200:])]) > 0.8)
    True
    """

    _methods = ("lac", "aps")
    _answers = "sets have all classes"

    def __init__(
        self,
        estimator: Any = None,
        *,
        coverage: float = 0.9,
        calibration: float = 0.2,
        method: str = "lac",
        randomised: bool = True,
        allow_empty: bool = True,
        prefit: bool = False,
        unknown: str = "error",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            estimator, coverage=coverage, calibration=calibration, method=method, prefit=prefit, unknown=unknown,
            random_state=random_state,
        )  # fmt: skip
        self.randomised = randomised
        self.allow_empty = allow_empty

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, covariates: Any = None) -> Any:
        """Probabilities of the estimator, where it has them; covariates as in ``fit``."""
        check_is_fitted(self, "scores_")
        return self.estimator_.predict_proba(X, **_given(covariates))

    def predict_set(self, X: Any, coverage: float | None = None, by: Any = None, covariates: Any = None) -> Array:
        """Sets of classes that hold the classes of bags.

        Parameters
        ----------
        X : Bags, list of arrays, array or data frame
            As in ``fit``.
        coverage : float, optional
            Another coverage than that of the constructor.
        by : array-like of shape (n_bags,), optional
            One label per bag, if calibration had labels; not needed for ``"size"``.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.

        Returns
        -------
        ndarray of bool of shape (n_bags, n_classes)
            Which of ``classes_`` are in the set.
        """
        check_is_fitted(self, "scores_")
        X, n = examples_of(X)
        q = self._quantiles(X, n, coverage, by)
        p = self._probabilities(X, covariates)
        sets = self._scores_of_all(p) <= q[:, None]
        if not self.allow_empty:
            sets[np.arange(n), p.argmax(axis=1)] = True  # it is in every other set anyway
        return np.asarray(sets)

    def score(self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None) -> float:
        """Share of bags whose class is predicted; parameters as in ``fit``."""
        check_is_fitted(self, "scores_")
        truth = as_classes_of(by_id(y, X, "y"), self.classes_, "y", "the classes of the model")
        return self._score(accuracy_score, X, truth, sample_weight, covariates)

    def _default_estimator(self) -> Any:
        from .estimators import DistributionClassifier

        return DistributionClassifier(random_state=self.random_state)

    def _targets(self, y: Any, n_bags: int) -> Array:
        return check_classes(self, y, n_bags, "ConformalRegressor")

    def _probabilities(self, X: Any, covariates: Any = None) -> Array:
        p = np.asarray(getattr(self.estimator_, self.response_method_)(X, **_given(covariates)), np.float64)
        if self.response_method_ == "decision_function":
            p = softmax(np.column_stack([np.zeros(len(p)), p]) if p.ndim == 1 else p, axis=1)
        if p.ndim != 2 or p.shape[1] != len(self.classes_) or not np.all(np.isfinite(p)):
            raise InputError(
                f"{type(self).__name__}: {self.response_method_} must give one finite number per class, got shape "
                f"{p.shape} for {len(self.classes_)} classes; mend the estimator"
            )
        return p

    def _scores_of_all(self, p: Array) -> Array:
        """Scores of all classes, ndarray of shape (n_bags, n_classes)."""
        if self.method == "lac":
            return 1 - p
        return adaptive_scores(p, hash_uniforms(p, self._seed) if self.randomised else np.ones(len(p)))

    def _scores(self, X: Any, y: Array, covariates: Any = None) -> Array:
        names = [name for name in ("predict_proba", "decision_function") if hasattr(self.estimator_, name)]
        if not names or not hasattr(self.estimator_, "classes_"):
            raise TypeError(
                f"{type(self).__name__}(estimator=...): must be a classifier with predict_proba or decision_function, "
                f"got {type(self.estimator_).__name__}; use one that has them"
            )
        self.response_method_, self.classes_ = names[0], np.asarray(self.estimator_.classes_)
        self._seed = int(check_random_state(self.random_state).randint(2**31))
        scores = self._scores_of_all(self._probabilities(X, covariates))
        codes = find_classes(y, self.classes_)
        if np.any(codes < 0):
            warnings.warn(
                f"{type(self).__name__}: calibration bags must have the classes of the estimator, "
                f"{self.classes_.tolist()}, got {y[codes < 0].tolist()[0]!r}, whose bags count "
                "as never held by a set; fit with more bags of that class",
                UserWarning,
                stacklevel=4,
            )
        return np.where(codes < 0, np.inf, scores[np.arange(len(y)), codes])
