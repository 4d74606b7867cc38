r"""From bags to predictions in one object: scale, embed, random features, linear model, and the search for all of it.

    points -> unit cube -> embedding -> random features -> ridge, logistic regression or support vectors

:class:`DistributionRegressor` and :class:`DistributionClassifier` take any embedding, by its name in
:func:`distembed.embeddings.available` or as an object. What they choose by themselves, and how, is in
:mod:`distembed.learners.tuning`; what they chose is in ``search_`` and ``best_params_``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import check_bags
from ..bags.medians import median_distance
from ..compute.checks import check_choice
from ..compute.progress import SILENT, Progress, Stages
from ..compute.registry import storable
from .batches import BatchLearner
from .chain import ALPHAS, BANDWIDTH_SCALES, SIGMA_SCALES, fit_ridge, only
from .tuning import downhill, folds_of, mean_square, subset

__all__ = ["DistributionClassifier", "DistributionRegressor"]

Array = NDArray[Any]

CS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DEFAULT_C = 10.0
C_BAGS = 4000  # at most so many bags choose C: support vectors take longer than ridge regression
LARGE_C = 3.0  # from where liblinear is faster in the primal than in the dual, whose steps grow in number like C
MODELS = ("logistic", "svm", "ridge")


@storable
class DistributionRegressor(RegressorMixin, BatchLearner):
    """Regression when each example is a bag of points: a number, or several, for every bag.

    Parameters
    ----------
    embedding : str or estimator, default="js"
        A name of :func:`distembed.embeddings.available`, or an embedding. Its own parameters are kept, but for the
        width of its smoothing, which is multiplied by what is chosen, and a ``random_state`` of None.
    scale : "auto", UnitCube or None, default="auto"
        What brings points into the unit cube. ``"auto"``: ``UnitCube()`` for embeddings that need it, nothing for
        others.
    n_components : int or None, default=5000
        D, the number of random features. None: the linear model sees the features of the embedding themselves.
    tune : int, "holdout" or None, default=3
        How settings are chosen: on so many folds; on one tenth of the training bags, as in the paper (on five folds if
        there are fewer than 200 bags); or not at all: then scales and penalty are what was given if that is one
        value, else the bandwidth of the rule, the median sigma and 0.1.
    bandwidth_scales : sequence of float
        How far the embedding smooths, as multiples of what it says: of the bandwidth of densities, of the width of
        histograms' bins, and, squared, of the sigma of points of mean embeddings. Others have nothing of the kind.
    sigma_scales : sequence of float
        Multiples of the median distance between features.
    alphas : sequence of float
        Penalties of ridge regression. With ``n_components=None`` they are multiples of the mean squared distance of
        the embedding's features from their mean.
    exhaustive : bool, default=False
        Whether to judge all pairs of bandwidth and sigma on all bags of the search, with all penalties.
    max_search_bags : int, default=4000
        At most so many bags, drawn at random, take part in the search.
    random_state : int, RandomState or None, default=None
        Draws held-out bags, random features and whatever the embedding draws.
    n_jobs : int or None, default=None
        Threads; an embedding that has an ``n_jobs`` keeps it. None: as many as BLAS may use.

    Attributes
    ----------
    scaler_ : UnitCube or None
        Fitted.
    embedding_ : estimator
        Fitted, with the bandwidth that was chosen.
    features_ : RandomFourierFeatures or None
        Fitted.
    model_ : LinearRidge
        Fitted to the random features of all training bags.
    search_ : Search or None
        What was tried and what it cost: ``print(model.search_)`` shows it as a table. None without a search.
    best_params_ : dict
        bandwidth_scale, sigma_scale, alpha.
    timings_ : dict of str to float
        Seconds of each stage of ``fit``.
    n_batches_seen_ : int
        Batches that are part of the model. Only after ``fit_batches`` and ``partial_fit``.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *The search* is a race: all pairs of bandwidth and sigma are judged on a few hundred bags, those that are not
    clearly worse on three times as many, until five are left for ``max_search_bags``. What is judged is ridge
    regression with as many random features a bag as the model will have, because their noise depends on the setting.
    Points are binned once for all bandwidths, features are computed once for all sigmas, and a walk along the
    penalties looks at few of them. The model is then fitted to all bags. A penalty means the same in both: the ratio
    of the variances of noise and signal, which does not depend on the number of bags. In the end another setting than
    the one nearest to the rules is taken only if its errors are smaller by more than half a standard error of the
    difference. Scaling and embedding see the points of held-out bags, never their targets. The best error is the
    least of many, and so a little too small: judge the model on bags that ``fit`` did not see.

    *Cost* of ``fit`` beyond the embedding: n_bags D² operations and D² numbers of memory, or n_bags² D and n_bags²
    where bags are fewer than features; of the search, some 50 Cholesky factorisations of two thirds of its bags.

    *Weights* of points weigh points inside a bag, ``sample_weight`` weighs bags. Bags of weight zero are as if absent.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> spread = rng.uniform(0.5, 2, size=200)
    >>> bags = rng.normal(0, spread[:, None, None], size=(200, 100, 1))
    >>> model = de.DistributionRegressor("js", n_components=500, random_state=0).fit(bags[:150], spread[:150])
    >>> bool(np.sqrt(np.mean((model.predict(bags[150:]) - spread[150:]) ** 2)) < 0.15)
    True
    """

    _classes = False

    def __init__(
        self,
        embedding: Any = "js",
        *,
        scale: Any = "auto",
        n_components: int | None = 5000,
        tune: str | int | None = 3,
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.embedding = embedding
        self.scale = scale
        self.n_components = n_components
        self.tune = tune
        self.bandwidth_scales = bandwidth_scales
        self.sigma_scales = sigma_scales
        self.alphas = alphas
        self.exhaustive = exhaustive
        self.max_search_bags = max_search_bags
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, progress: Progress = False) -> Self:
        """Choose the settings, and fit all stages.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags, in any units if points are scaled.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Finite numbers.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        groups : array-like of shape (n_bags,), optional
            Bags of one group are held out together.
        progress : bool, callable or object, default=False
            Whether to show on standard error how far the search and the linear model are. A callable is called as
            ``progress(done, total)``, stage by stage: settings that were looked at, then bags that were learned from.
            An object with ``begin(stage, total)``, where total may be None, and ``advance(more)`` is told of all
            stages by name.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        targets = self._batch_targets(y, bags.n_bags)
        return self._fit(bags, targets, targets.reshape(len(targets), -1), sample_weight, groups, progress)

    def _columns(self, y: Array) -> Array:
        return y

    def _known_targets(self, y: Array) -> Array:
        return y

    def _batch_targets(self, y: Any, n_bags: int) -> Array:
        given = np.asarray(y)
        try:
            if given.dtype.kind in "cMmSU" or any(isinstance(value, str) for value in given.ravel()[:1]):
                raise TypeError
            targets = np.asarray(y, np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(self).__name__}: y must be numbers, got {type(y).__name__} that are not; use "
                "DistributionClassifier for classes"
            ) from None
        if targets.ndim not in (1, 2) or len(targets) != n_bags:
            raise ValueError(
                f"{type(self).__name__}: y must be one number, or one row, a bag, got shape {targets.shape} for "
                f"{n_bags} bags; bags.align(series) puts targets in the order of the bags"
            )
        if not np.all(np.isfinite(targets)):
            i = int(np.argwhere(~np.isfinite(targets))[0][0])
            raise ValueError(
                f"{type(self).__name__}: y must be finite, got {targets[i]} for bag {i}; leave such bags out"
            )
        return targets

    def _fit_model(self, rows: Iterator[tuple[Array, slice]], n_bags: int, y: Array, weight: Array) -> None:
        self.model_ = fit_ridge(self._penalty, rows, y, weight, self._width)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the numbers of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        return_std : bool, default=False
            Whether to return the predictive standard deviations of :class:`~distembed.learners.ridge.LinearRidge` too.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs), or a pair of them
        """
        check_is_fitted(self, "model_")
        if return_std:
            return self._apply(X, lambda Z: self.model_.predict(Z, return_std=True))
        return self._apply(X, self.model_.predict)


def _has_probabilities(learner: Any) -> bool:
    if learner.model != "logistic":
        raise AttributeError(f"{type(learner).__name__}(model={learner.model!r}) has no probabilities; use 'logistic'")
    return True


def _losses(model: LogisticRegression | LinearSVC, Z: Array, y: Array) -> Array:
    """What the model minimises the sum of, for each row: minus the logarithm of its probability, or squared hinges."""
    true = y[:, None] == model.classes_
    if isinstance(model, LogisticRegression):
        return np.asarray(-np.log(np.maximum((model.predict_proba(Z) * true).sum(axis=1), 1e-15)))
    values = model.decision_function(Z)
    signs = np.where(true, 1, -1) if values.ndim == 2 else np.where(true[:, 1], 1, -1)
    return np.asarray((np.maximum(0, 1 - signs * values) ** 2).reshape(len(Z), -1).sum(axis=1))


@storable
class DistributionClassifier(ClassifierMixin, BatchLearner):
    """Classification when each example is a bag of points.

    Parameters
    ----------
    embedding : str or estimator, default="js"
        A name of :func:`distembed.embeddings.available`, or an embedding. Its own parameters are kept, but for the
        width of its smoothing, which is multiplied by what is chosen, and a ``random_state`` of None.
    model : {"logistic", "svm", "ridge"}, default="logistic"
        Logistic regression, which has probabilities; a linear support vector machine (liblinear); or ridge regression
        on columns of 0 and 1, for very many bags.
    scale : "auto", UnitCube or None, default="auto"
        What brings points into the unit cube. ``"auto"``: ``UnitCube()`` for embeddings that need it, nothing for
        others.
    n_components : int or None, default=5000
        D, the number of random features. None: the linear model sees the features of the embedding themselves.
    tune : int, "holdout" or None, default=3
        How settings are chosen: on so many folds; on one tenth of the training bags, as in the paper (on five folds if
        there are fewer than 200 bags); or not at all: then scales and penalty, and C, are what was given if that is one
        value, else the bandwidth of the rule, the median sigma and 0.1, and C = 10.
    bandwidth_scales : sequence of float
        How far the embedding smooths, as multiples of what it says: of the bandwidth of densities, of the width of
        histograms' bins, and, squared, of the sigma of points of mean embeddings. Others have nothing of the kind.
    sigma_scales : sequence of float
        Multiples of the median distance between features.
    alphas : sequence of float
        Penalties of ridge regression, which judges the other settings and is the model itself for ``"ridge"``.
    Cs : sequence of float
        Inverse penalties of ``"logistic"`` and ``"svm"``. With ``n_components=None`` they are for features that were
        divided by their root mean squared distance from the mean, so that units do not matter.
    exhaustive : bool, default=False
        Whether to judge all pairs of bandwidth and sigma on all bags of the search, with all penalties.
    max_search_bags : int, default=4000
        At most so many bags, drawn at random, take part in the search.
    random_state : int, RandomState or None, default=None
        Draws held-out bags, random features and whatever the embedding draws.
    n_jobs : int or None, default=None
        Threads; an embedding that has an ``n_jobs`` keeps it. None: as many as BLAS may use.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    scaler_ : UnitCube or None
        Fitted.
    embedding_ : estimator
        Fitted, with the bandwidth that was chosen.
    features_ : RandomFourierFeatures or None
        Fitted.
    model_ : LogisticRegression, LinearSVC or LinearRidge
        Fitted to the random features of all training bags.
    search_ : Search or None
        What was tried and what it cost: ``print(model.search_)`` shows it as a table. None without a search.
    best_params_ : dict
        bandwidth_scale, sigma_scale, alpha, C.
    timings_ : dict of str to float
        Seconds of each stage of ``fit``.
    n_batches_seen_ : int
        Batches that are part of the model. Only after ``fit_batches`` and ``partial_fit``.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    Bandwidth and sigma are chosen as by :class:`DistributionRegressor`, by ridge regression on columns of 0 and 1; then
    C by the model itself with the exact kernel: the one whose loss on held-out bags, logarithmic or squared hinge, is
    least, by a walk downhill from the middle of ``Cs``. That loss is a smooth curve with one valley where the number of
    errors is a ragged one.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, size=120)  # one bump or two, of equal mean and variance
    >>> points = rng.normal(size=(120, 100, 1))
    >>> two = np.sign(rng.normal(size=points.shape)) * 0.9 + np.sqrt(1 - 0.81) * points
    >>> bags, names = np.where(kind[:, None, None] == 1, two, points), np.array(["one", "two"])[kind]
    >>> model = de.DistributionClassifier("js", n_components=500, random_state=0).fit(bags[:80], names[:80])
    >>> bool(model.score(bags[80:], names[80:]) > 0.9)
    True
    """

    _classes = True

    def __init__(
        self,
        embedding: Any = "js",
        *,
        model: str = "logistic",
        scale: Any = "auto",
        n_components: int | None = 5000,
        tune: str | int | None = 3,
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        Cs: Sequence[float] = CS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.embedding = embedding
        self.model = model
        self.scale = scale
        self.n_components = n_components
        self.tune = tune
        self.bandwidth_scales = bandwidth_scales
        self.sigma_scales = sigma_scales
        self.alphas = alphas
        self.Cs = Cs
        self.exhaustive = exhaustive
        self.max_search_bags = max_search_bags
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, progress: Progress = False) -> Self:
        """Choose the settings, and fit all stages.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags, in any units if points are scaled.
        y : array-like of shape (n_bags,)
            Classes: text, numbers or truth values.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        groups : array-like of shape (n_bags,), optional
            Bags of one group are held out together.
        progress : bool, callable or object, default=False
            Whether to show on standard error how far the search and the linear model are. A callable is called as
            ``progress(done, total)``, stage by stage: settings that were looked at, then bags that were learned from.
            An object with ``begin(stage, total)``, where total may be None, and ``advance(more)`` is told of all
            stages by name.

        Returns
        -------
        self
        """
        check_choice(self, "model", self.model, MODELS)
        bags = check_bags(self, X, reset=True)
        labels = self._batch_targets(y, bags.n_bags)
        self._settle_targets(labels[self._weights(sample_weight, bags.n_bags) > 0])
        if sample_weight is not None:  # classes of bags that do not count
            labels = np.where(np.isin(labels, self.classes_), labels, self.classes_[0])
        return self._fit(bags, self._codes(labels), self._columns(labels), sample_weight, groups, progress)

    def _batch_targets(self, y: Any, n_bags: int) -> Array:
        labels = np.asarray(y)
        if labels.shape != (n_bags,):
            raise ValueError(
                f"{type(self).__name__}: y must be one class a bag, got shape {labels.shape} for {n_bags} bags; "
                "bags.align(series) puts classes in the order of the bags"
            )
        try:
            if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
                raise ValueError("some are not finite")
            check_classification_targets(labels)
            np.unique(labels)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{type(self).__name__}: y must be classes, all text or all whole numbers, none missing, got others "
                f"({error}); leave bags without a class out, and use DistributionRegressor for numbers"
            ) from None
        return labels

    def _distinct_targets(self, y: Array) -> Array:
        return np.unique(y)

    def _settle_targets(self, y: Array) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__}: y must have at least two classes, got {self.classes_.tolist()}; there is "
                "nothing to learn from one class"
            )

    def _codes(self, y: Array) -> Array:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if np.any(unknown):
            raise ValueError(
                f"{type(self).__name__}: y must have the classes {self.classes_.tolist()}, got {y[unknown][0]!r}; name "
                "all of them in classes=[...]"
            )
        return np.asarray(codes)

    def _columns(self, y: Array) -> Array:
        return np.asarray(self._codes(y)[:, None] == np.arange(len(self.classes_)), float)

    def _known_targets(self, y: Array) -> Array:
        seen, known = np.unique(y), self.classes_.tolist()
        strange = seen[~np.isin(seen, self.classes_)]
        if len(strange):
            raise ValueError(
                f"{type(self).__name__}.refit: y must have the classes of fit, {known}, got "
                f"{strange.tolist()[0]!r}; fit again to learn another class"
            )
        if len(seen) < len(known) and self.model != "ridge":
            missing = self.classes_[~np.isin(self.classes_, seen)]
            raise ValueError(
                f"{type(self).__name__}.refit: y must have bags of all classes of fit, {known}, got none of "
                f"{missing.tolist()[0]!r}; add some, or use model='ridge'"
            )
        return self._codes(y)

    def _check_batches(self) -> None:
        if check_choice(self, "model", self.model, MODELS) != "ridge":
            raise ValueError(
                f"{type(self).__name__}(model={self.model!r}): needs all bags at once; use model='ridge' for batches"
            )

    def _linear(self, C: float) -> Any:
        seed = int(self._seed)
        if self.model == "logistic":
            return LogisticRegression(C=C, max_iter=1000)
        return LinearSVC(C=C, dual=False if C >= LARGE_C else "auto", random_state=seed, max_iter=10_000)

    def _choose(
        self,
        bags: Bags,
        y: Array,
        Y: Array,
        weight: Array,
        groups: Array | None,
        rng: np.random.RandomState,
        stages: Stages = SILENT,
    ) -> None:
        super()._choose(bags, y, Y, weight, groups, rng, stages)
        self._seed = rng.randint(2**31)
        if self.model == "ridge":
            return
        self.best_params_["C"] = only(self.Cs, DEFAULT_C)
        if self.search_ is not None and len(self.Cs) > 1:
            some = subset(bags.n_bags, min(self.max_search_bags, C_BAGS), groups, rng)
            chosen = None if groups is None else groups[some]
            folds = folds_of(self._folds(len(some), chosen), y[some], chosen, True, rng)
            folds = [(train, held) for train, held in folds if len(np.unique(y[some][train])) > 1]
            if folds:
                self.best_params_["C"] = self._best_C(bags[some], y[some], weight[some], folds, stages)

    def _best_C(self, bags: Bags, y: Array, weight: Array, folds: list[tuple[Array, Array]], stages: Stages) -> float:
        """The C whose model, with the exact kernel, has the least loss on bags that are held out."""
        Cs = sorted({float(C) for C in self.Cs})
        stages.begin("choosing C", len(Cs) * len(folds))
        with warnings.catch_warnings():  # of the embedding, which is fitted again and then has its say
            warnings.simplefilter("ignore", UserWarning)
            Z = np.asarray(clone(self._base).fit(bags).transform(bags))
        Z, seen = self._kernel_rows(Z.astype(np.float64)), []

        def loss(i: int) -> float:
            seen.append(i)
            total = 0.0
            for train, held in folds:
                model = self._linear(Cs[i]).fit(Z[train], y[train], sample_weight=weight[train])
                total += float(weight[held] @ _losses(model, Z[held], y[held]))
                stages.advance(1)
            return total

        best = downhill(loss, len(Cs), len(Cs) // 2)
        stages.advance((len(Cs) - len(seen)) * len(folds))
        return Cs[best]

    def _kernel_rows(self, F: Array) -> Array:
        """Rows whose dot products are the kernel: that of random features, or of the features themselves."""
        F -= F.mean(axis=0)
        if self.n_components is None:
            F /= np.sqrt(mean_square(F))
            if F.shape[1] <= len(F):
                return F
            K = F @ F.T
        else:
            sigma = self.best_params_["sigma_scale"] * median_distance(F, np.random.RandomState(self._seed))
            K = np.exp(euclidean_distances(F, squared=True) / (-2 * sigma**2))
        K[np.diag_indices(len(K))] += 1e-6  # equal bags
        return np.asarray(np.linalg.cholesky(K))

    def _fit_model(self, rows: Iterator[tuple[Array, slice]], n_bags: int, y: Array, weight: Array) -> None:
        if self.model == "ridge":
            columns = (y[:, None] == np.arange(len(self.classes_))).astype(float)
            self.model_ = fit_ridge(self._penalty, rows, columns, weight, self._width)
            return
        Z = np.concatenate([part for part, _ in rows])
        length = np.sqrt(self._penalty / self.best_params_["alpha"]).astype(Z.dtype)  # of features that are not random
        self.model_ = self._linear(self.best_params_["C"]).fit(Z / length, y, sample_weight=weight)
        self.model_.coef_ = self.model_.coef_ / length

    def decision_function(self, X: Any) -> Array:
        """Scores of classes: ndarray of shape (n_bags,), positive for the second of two, or (n_bags, n_classes)."""
        check_is_fitted(self, "model_")
        score = self.model_.predict if self.model == "ridge" else self.model_.decision_function
        found = np.asarray(self._apply(X, score))
        return found[:, 1] - found[:, 0] if self.model == "ridge" and len(self.classes_) == 2 else found

    def predict(self, X: Any) -> Array:
        """Predict the classes of bags, ndarray of shape (n_bags,)."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of classes, ndarray of shape (n_bags, n_classes); of ``model="logistic"`` alone."""
        check_is_fitted(self, "model_")
        return np.asarray(self._apply(X, self.model_.predict_proba))
