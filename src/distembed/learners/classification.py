"""Classification of bags: an embedding by name with random features and a linear model, or the ensemble of "auto".

points -> scaler -> embedding -> random features -> logistic regression, support vectors or ridge regression
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.checks import check_choice
from ..compute.progress import Stages
from ..compute.registry import storable
from ..embeddings.views import Views
from .auto import AutoLearner
from .calibration import KeptRows, calibrated, inner_folds, log_shares
from .chain import Batch, check_classes, mean_square, n_folds
from .classes import check_rare, class_weights
from .exact_kernel import KernelSum
from .held_out import Softmax, softmax_by_folds, spectrum, thin_spectrum
from .search import ALPHAS, BANDWIDTH_SCALES, SIGMA_SCALES, Kernels, downhill, only

CS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
DEFAULT_C = 10.0
C_BAGS = 4000  # at most so many bags choose C
MOST_DIRECTIONS = 1000  # of the kernel, in which logistic regression chooses C
LARGE_C = 3.0  # from where liblinear is faster in the primal than in the dual, whose steps grow in number like C
MODELS = ("ridge", "logistic", "svm")
FEWEST_BAGS = 5  # of which some are held out to choose settings


def _has_probabilities(learner: Any) -> bool:
    if learner.model != "svm" or learner.is_auto or learner.is_ensemble:
        return True
    if (learner.calibration_ if hasattr(learner, "model_") else learner.tune) is None:
        raise AttributeError(
            f"{type(learner).__name__}(model='svm') has probabilities only where bags of all classes were held out to "
            "choose its settings; use tune=3 and at least five bags, or model='logistic'"
        )
    return True


def _class_scores(model: LinearSVC, Z: Array, n_classes: int) -> Array:
    """Scores of all classes, ndarray of shape (n_rows, n_classes); -1, beyond the margin, of those it has not seen."""
    found = np.asarray(model.decision_function(Z), np.float64)
    scores = np.full((len(Z), n_classes), -1.0)
    scores[:, model.classes_] = np.stack([-found, found], axis=1) if found.ndim == 1 else found
    return scores


def _squared_hinges(model: LinearSVC, Z: Array, y: Array) -> Array:
    """What the model minimises the sum of, for each row."""
    true, values = y[:, None] == model.classes_, model.decision_function(Z)
    signs = np.where(true, 1, -1) if values.ndim == 2 else np.where(true[:, 1], 1, -1)
    return np.asarray((np.maximum(0, 1 - signs * values) ** 2).reshape(len(Z), -1).sum(axis=1))


@storable(classes_="labels(c)", class_weight_="finite(c)", trained_on_="int(_)")
class DistributionClassifier(ClassifierMixin, AutoLearner):
    """Classification when each example is a bag of points.

    Parameters
    ----------
    embedding : str or estimator, default="auto"
        ``"auto"``: an ensemble of many embeddings and heads, chosen on held-out bags, see
        :mod:`distembed.learners.auto`; it has settings of its own, and those from ``model`` to ``exhaustive`` are not
        for it. Or a name of :func:`distembed.embeddings.available`, or an embedding: its own parameters are kept, but
        for the width of its smoothing, which is multiplied by what is chosen, and a ``random_state`` of None.
    model : {"ridge", "logistic", "svm"}, default="ridge"
        Ridge regression on columns of 0 and 1, the fastest by far, and the one for bags in batches; logistic
        regression; or a linear support vector machine (liblinear).
    scale : "auto", UnitCube, Standardize or None, default="auto"
        What makes the units of columns irrelevant. ``"auto"``: ``UnitCube(map="auto")`` for embeddings that need points
        in the unit cube, ``Standardize()`` for others, nothing before a pipeline that begins with a scaler. None:
        points stay as they are.
    n_components : int, "exact" or None, default=5000
        D, the number of random features. ``"exact"``: the kernel itself, for at most 10,000 bags. None: the linear
        model sees the features of the embedding themselves.
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
    time_limit : float, optional
        Of ``"auto"``: seconds after which no further candidate is tried. The model then depends on the clock.
    class_weight : None, "balanced" or dict, default=None
        What bags of a class weigh, besides ``sample_weight``: ``"balanced"`` gives all classes the same weight in all.
    symmetries : {"reflections", "dihedral"}, Symmetries, list of functions or None, default=None
        Maps of points that change no class, as of :class:`~distembed.DistributionRegressor`.
    random_state : int, RandomState or None, default=None
        Draws held-out bags, random features and whatever the embedding draws.
    n_jobs : int or None, default=None
        Threads; an embedding that has an ``n_jobs`` keeps it. None: as many as BLAS may use.

    Attributes
    ----------
    class_weight_ : ndarray of shape (n_classes,)
        What a bag of each class weighs.
    classes_ : ndarray of shape (n_classes,)
    scaler_ : UnitCube, Standardize or None
        Fitted. This and the next two are of one embedding by name.
    embedding_ : estimator
        Fitted, with the bandwidth that was chosen.
    features_ : RandomFourierFeatures or None
        Fitted.
    calibration_ : Softmax or None
        What makes probabilities of the scores of ``"svm"`` and ``"ridge"``.
    model_ : Ensemble, LogisticRegression, LinearSVC or LinearRidge
        The ensemble; or, of one embedding by name, what was fitted to the random features of all training bags.
    search_ : Search or None
        What was tried and what it cost: ``print(model.search_)`` shows it as a table. None without a search.
    best_params_ : dict
        bandwidth_scale, sigma_scale, alpha, C.
    timings_ : dict of str to float
        Seconds of each stage of ``fit``.
    n_batches_seen_ : int
        Batches that are part of the model. Only after ``fit_batches`` and ``partial_fit``.
    leaderboard_ : Leaderboard
        Of an ensemble: dicts of name, score on held-out bags, its standard error, weight and seconds of all candidates,
        best first, always with ``"constant"`` and ``"mean"``. It prints as a table.
    scoring_ : str
        What the score is, ``"neg_log_loss"``; higher is better.
    encoder_ : CovariateEncoder or None
        How covariates become numbers.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    Bandwidth and sigma are chosen as by :class:`DistributionRegressor`, by ridge regression on columns of 0 and 1; then
    C of the other two models with the exact kernel: the one whose loss on held-out bags, logarithmic or squared hinge,
    is least, by a walk downhill. That loss is a smooth curve with one valley where the number of errors is a ragged
    one.

    *Probabilities* are those of classes as frequent as in training or, with ``class_weight``, as heavy as it makes
    them, and ``predict`` is the likeliest class. Logistic regression has its own, with the C of least log loss on
    held-out bags. Scores of ``"svm"`` become probabilities by softmax regression on those of the bags that chose C, at
    most 4,000; there are none with ``tune=None``. Scores of ``"ridge"`` do by those of some 1,000 training bags from
    models without a tenth of these, in closed form; groups stay together, and neither a search nor all bags at once are
    needed; they count by their logarithms, small ones by its tangent. The scores themselves are what
    ``decision_function`` and ``explain`` tell of. See :mod:`distembed.learners.calibration`.

    *Rare classes.* There are no more folds than the rarest class has bags, and a warning says so. A class of one bag is
    an error, but for ``tune=None``.

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

    has_classes = True
    _calibration: Softmax | None = None  # None for ridge until it is needed
    _kept: KeptRows | None = None  # of ridge; not in files but updatable ones

    def __init__(
        self,
        embedding: Any = "auto",
        *,
        model: str = "ridge",
        scale: Any = "auto",
        n_components: int | str | None = 5000,
        tune: str | int | None = 3,
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        Cs: Sequence[float] = CS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        time_limit: float | None = None,
        class_weight: Any = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        symmetries: Any = None,
    ) -> None:
        super().__init__(
            embedding, scale=scale, n_components=n_components, tune=tune, bandwidth_scales=bandwidth_scales,
            sigma_scales=sigma_scales, alphas=alphas, exhaustive=exhaustive, max_search_bags=max_search_bags,
            time_limit=time_limit, random_state=random_state, n_jobs=n_jobs, symmetries=symmetries,
        )  # fmt: skip
        self.class_weight = class_weight
        self.model = model
        self.Cs = Cs

    def _check_targets(self, y: Any, n_bags: int) -> Array:
        return check_classes(self, y, n_bags, "DistributionRegressor")

    def _settle_targets(self, y: Array) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__}: y must have at least two classes, got {self.classes_.tolist()}; there is "
                "nothing to learn from one class"
            )

    def _coded(self, y: Array) -> Array:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if np.any(unknown):
            raise ValueError(
                f"{type(self).__name__}: y must have the classes {self.classes_.tolist()}, got {y[unknown][0]!r}; name "
                "all of them in classes=[...]"
            )
        return np.asarray(codes)

    def _columns(self, coded: Array) -> Array:
        return np.asarray(coded[:, None] == np.arange(len(self.classes_)), float)

    def _weighted(self, batch: Batch, reset: bool = False) -> Batch:
        if reset:
            self.class_weight_ = class_weights(self, self.class_weight, self.classes_, batch.y, batch.weight)
        return batch._replace(weight=batch.weight * self.class_weight_[batch.y])

    def _check_refit(self, y: Array) -> None:
        known, strange, missing = self.classes_.tolist(), np.setdiff1d(y, self.classes_), np.setdiff1d(self.classes_, y)
        if len(strange):
            raise ValueError(
                f"{type(self).__name__}.refit: y must have the classes of fit, {known}, got "
                f"{strange.tolist()[0]!r}; fit again to learn another class"
            )
        if len(missing) and self.model != "ridge":
            raise ValueError(
                f"{type(self).__name__}.refit: y must have bags of all classes of fit, {known}, got none of "
                f"{missing.tolist()[0]!r}; add some, or use model='ridge'"
            )

    def settled(self, X: Any, y: Any, sample_weight: Any, groups: Any, covariates: Any = None) -> Batch:
        """What ``fit`` learns from; a class of one bag is refused where some are held out, and a rare one warned of."""
        batch = super().settled(X, y, sample_weight, groups, covariates)
        if self.tune is not None and len(batch.y) >= FEWEST_BAGS and not (self.is_auto or covariates is not None):
            check_rare(type(self).__name__, self.classes_, batch.y, n_folds(self.tune, len(batch.y), None))
        return batch

    def _check_parameters(self) -> None:
        check_choice(self, "model", self.model, MODELS)
        super()._check_parameters()

    def _check_batches(self) -> None:
        super()._check_batches()
        if check_choice(self, "model", self.model, MODELS) != "ridge" and not self.is_auto:
            raise ValueError(
                f"{type(self).__name__}(model={self.model!r}): needs all bags at once; use model='ridge' for batches"
            )

    def _machine(self, C: float) -> LinearSVC:
        return LinearSVC(C=C, dual=False if C >= LARGE_C else "auto", random_state=int(self._seed), max_iter=10_000)

    def _settle_model(self, embedding: Any, batch: Batch, rng: np.random.RandomState, stages: Stages) -> None:
        self._seed = rng.randint(2**31)
        self._calibration, self._kept = None, None
        if self.model == "ridge":
            return
        self.best_params_["C"] = only(self.Cs, DEFAULT_C)
        if self.search_ is None:
            return
        some = batch.sample(min(self.max_search_bags, C_BAGS), rng)
        folds = [pair for pair in some.folds(self.tune, True, rng) if len(np.unique(some.y[pair[0]])) > 1]
        if folds and self.model == "svm":
            self._choose_svm(embedding, some, folds, stages)
        elif folds and len(self.Cs) > 1:
            stages.begin("choosing C", None)
            self.best_params_["C"] = self._best_logistic(embedding, some, folds)

    def _best_logistic(self, embedding: Any, batch: Batch, folds: list[tuple[Array, Array]]) -> float:
        """The C of least log loss on held-out bags, in the leading directions of the exact kernel."""
        bags, y, weight, _, _ = batch
        F = np.asarray(embedding.transform(bags), np.float64)
        if self.n_components is None and F.shape[1] <= len(F):
            found = thin_spectrum((F - F.mean(axis=0)) / np.sqrt(mean_square(F)), weight)
        else:
            kernel = self._kernel(F, embedding)
            found = spectrum(kernel, weight, MOST_DIRECTIONS, int(self._seed))
        rows, Cs = found.features(MOST_DIRECTIONS), sorted({float(C) for C in self.Cs})
        return softmax_by_folds(rows, y, weight, len(self.classes_), folds, Cs)[1]

    def _choose_svm(self, embedding: Any, batch: Batch, folds: list[tuple[Array, Array]], stages: Stages) -> None:
        """The C of least loss on held-out bags, with the exact kernel, and calibration on the scores of these."""
        Cs, (bags, y, weight, _, _) = sorted({float(C) for C in self.Cs}), batch
        stages.begin("choosing C", len(Cs) * len(folds))
        Z, k = self._kernel_rows(np.asarray(embedding.transform(bags), np.float64), embedding), len(self.classes_)
        scores: dict[int, Array] = {}

        def loss(i: int) -> float:
            scores[i] = np.full((len(y), k), np.nan)
            total = 0.0
            for train, held in folds:
                model = self._machine(Cs[i]).fit(Z[train], y[train], sample_weight=weight[train])
                total += float(weight[held] @ _squared_hinges(model, Z[held], y[held]))
                scores[i][held] = _class_scores(model, Z[held], k)
                stages.advance(1)
            return total

        best = downhill(loss, len(Cs), len(Cs) // 2)
        stages.advance((len(Cs) - len(scores)) * len(folds))
        self.best_params_["C"] = Cs[best]
        held = np.flatnonzero(np.isfinite(scores[best][:, 0]))
        if len(np.unique(y[held])) == k:
            inner = inner_folds(y[held], None if batch.groups is None else batch.groups[held], int(self._seed))
            self._calibration = calibrated(scores[best][held], y[held], weight[held], k, inner)

    def _kernel(self, F: Array, embedding: Any) -> Array:
        if isinstance(embedding, Views):
            rows = embedding.kernel_features("exact", int(self._seed), self.n_jobs, KernelSum).fit_transform(F)
            return np.asarray(rows @ rows.T)
        group = getattr(embedding, "group_", None)
        return Kernels(F, None, int(self._seed), self.n_jobs, group=group)(self.best_params_["sigma_scale"])

    def _kernel_rows(self, F: Array, embedding: Any) -> Array:
        """Rows whose dot products are the kernel: that of random features, or of the features themselves."""
        if self.n_components is None and F.shape[1] <= len(F):
            return np.asarray((F - F.mean(axis=0)) / np.sqrt(mean_square(F)))
        K = self._kernel(F, embedding)
        K[np.diag_indices(len(K))] += 1e-6  # equal bags
        return np.asarray(np.linalg.cholesky(K))

    def _fit_model(self, rows: Iterator[tuple[Array, slice]], coded: Array, weight: Array, penalty: float) -> Any:
        if self.model == "ridge":
            return super()._fit_model(rows, coded, weight, penalty)
        Z = np.concatenate([part for part, _ in rows])
        length = np.sqrt(penalty / self.best_params_["alpha"]).astype(Z.dtype)  # of features that are not random
        C = self.best_params_["C"]
        model = self._machine(C) if self.model == "svm" else LogisticRegression(C=C, max_iter=1000)
        model.fit(Z / length, coded, sample_weight=weight)
        model.coef_ = model.coef_ / length
        return model

    # Probabilities

    @property
    def calibration_(self) -> Softmax | None:
        """What makes probabilities of the scores of ``"svm"`` and ``"ridge"``; None where it is not known."""
        if self._calibration is None and self._kept is not None:
            self._calibration = self._kept.calibrated(self.model_, int(self._seed))
        return self._calibration

    def _learn(self, scaled: Bags, batch: Batch, stages: Stages) -> None:
        self._kept = None
        super()._learn(scaled, batch, stages)
        if self.model == "ridge":
            self._calibration = self.calibration_

    def _learned_from(self, scaled: Bags, batch: Batch) -> None:
        if self.model == "ridge":

            def rows_of(some: Array) -> Array:
                return np.concatenate([Z for Z, _ in self.chain_.pieces(scaled[some])])

            kept = self._kept or KeptRows.of(len(self.classes_))
            self._kept = kept.add(batch.y, batch.weight, batch.groups, int(self._seed), rows_of)
            self._calibration = None

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        """What a model file holds: the rows of calibration only if bags are to be added."""
        slim = {} if updatable or self._kept is None else {"_calibration": self.calibration_, "_kept": None}
        return vars(self) | slim

    def decision_function(self, X: Any, covariates: Any = None) -> Array:
        """Scores of classes: ndarray of shape (n_bags,), of the second of two, or (n_bags, n_classes).

        Where classes are unequal, the largest score of ``"svm"`` and ``"ridge"`` need not be the likeliest class.
        """
        bags, beside = self.given(X, covariates)
        if self.is_ensemble:
            found = np.asarray(self.model_.predict(bags, beside))
            return np.asarray(found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found)
        score = self.model_.predict if self.model == "ridge" else self.model_.decision_function
        found = np.asarray(self.chain_.apply(score, bags))
        return found[:, 1] - found[:, 0] if self.model == "ridge" and len(self.classes_) == 2 else found

    def predict(self, X: Any, covariates: Any = None) -> Array:
        """Predict the classes of bags, ndarray of shape (n_bags,); covariates as in ``fit``.

        They are the likeliest ones, by ``predict_proba``, or those of largest score where there is none.
        """
        if hasattr(self, "predict_proba"):
            codes = self.predict_proba(X, covariates).argmax(axis=1)
            return np.asarray(self.classes_[codes])
        scores = self.decision_function(X, covariates)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, covariates: Any = None) -> Array:
        """Probabilities of classes, ndarray of shape (n_bags, n_classes); covariates as in ``fit``.

        Of classes as frequent as in training, or, with ``class_weight``, as heavy as it makes them. Those of ``"svm"``
        need held-out bags, and so a search: there are none with ``tune=None``.
        """
        bags, beside = self.given(X, covariates)
        if self.is_ensemble:
            return np.asarray(self.model_.predict(bags, beside))
        if self.model == "logistic":
            return np.asarray(self.chain_.apply(self.model_.predict_proba, bags))
        calibration: Any = self.calibration_
        return np.asarray(calibration.predict(self.chain_.apply(self._scores, bags)))

    def _scores(self, Z: Array) -> Array:
        """Scores of all classes of which calibration makes probabilities."""
        if self.model == "ridge":
            return log_shares(self.model_.predict(Z))
        return _class_scores(self.model_, Z, len(self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None) -> float:
        """Share of bags whose class is predicted; parameters as in ``fit``."""
        return self._score(accuracy_score, X, y, sample_weight, covariates)
