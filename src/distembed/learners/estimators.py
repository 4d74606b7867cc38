"""The two learners of bags: regression and classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from ..compute.arrays import Array
from ..compute.checks import InputError, check_number
from ..compute.registry import storable
from ..models.base import LEAST_SCORE
from ..models.foreign_head import Estimator
from ..models.held_out import Softmax
from ..models.linear_head import LinearHead
from .batch import Batch
from .classes import find_classes
from .empty import EmptyBags, with_empty
from .error_law import ErrorLaw, known_sizes
from .learner import Learner
from .offers import offered_if, why_no_law, why_no_probabilities
from .search import ALPHAS, BANDWIDTH_SCALES, SIGMA_SCALES
from .targets import (
    Classes,
    Numbers,
    check_classes,
    check_numbers,
    class_weights,
    ranks_of,
)
from .view import EmbeddingLike

CS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


@storable(targets_="Numbers")
class DistributionRegressor(RegressorMixin, Learner):
    """Regression when each example is a bag of points: a number, or several, for every bag.

    Parameters
    ----------
    embedding : str, estimator or list, default="auto"
        How bags are turned into vectors.

        - ``"auto"``: many views and heads compete on held-out bags, and a weighted mean of the best is kept, see
          :mod:`distembed.learners.selection`.
        - A name of :func:`distembed.embeddings.available`, or an embedding: its settings are searched, and a linear
          model learns from random features of it. Its own parameters are kept, but for the width of its smoothing,
          which is multiplied by what is chosen, and a ``random_state`` of None.
        - ``"view, head"``, a row of a leaderboard, such as ``"rank-mean, rbf"``: this candidate alone.
        - A list of names, rows and embeddings: they compete as for ``"auto"``, with the constant.
    head : estimator, optional
        A regressor of scikit-learn's kind, cloned for each view. For ``"auto"`` and lists it joins the heads that
        compete, for one embedding it replaces them. It can't be fitted by a cluster, learns from batches if it has a
        ``partial_fit``, and is kept in files only if these know its class, as they know ``Ridge``.
    sizes : "auto", True or False, default="auto"
        Whether candidates see how many points a bag has and, where points are weighted, how much these weigh.
        ``"auto"``: some candidates of ``embedding="auto"`` do, so held-out bags decide; lists and names see sizes where
        they name the view ``"size"``, such as ``"mean + size, rbf"``. True: all candidates do; one embedding by name
        then competes with the mean, as with covariates. False: none does, for sizes that are an artefact of sampling.
    scale : "auto", UnitCube, Standardize or None, default="auto"
        What makes the units of columns irrelevant. ``"auto"``: ``UnitCube(map="auto")`` for embeddings that need points
        in the unit cube, ``Standardize()`` for others, nothing before a pipeline that begins with a scaler. None:
        points stay as they are.
    n_components : int, "exact" or None, default=5000
        D, the number of random features. ``"exact"``: the kernel itself, for at most 10,000 bags. None: the linear
        model sees the features of the embedding themselves.
    tune : int, "auto", "holdout" or None, default="auto"
        How settings are chosen: on this many folds, ``"auto"`` being three, and five where candidates compete; on one
        tenth of the training bags, as in the paper (on five folds if there are fewer than 200 bags); or not at all:
        then scales and penalty are what was given if that is one value, else the bandwidth of the rule, the median
        sigma and 0.1.
    bandwidth_scales : sequence of float
        How far the embedding smooths, as multiples of its own choice: of the bandwidth of densities, of the width of
        histograms' bins, and, squared, of the sigma of points of mean embeddings. Others have nothing of the kind.
    sigma_scales : sequence of float
        Multiples of the median distance between features.
    alphas : sequence of float
        Penalties of ridge regression. With ``n_components=None`` they are multiples of the mean squared distance of
        the embedding's features from their mean.
    exhaustive : bool, default=False
        Whether to score all pairs of bandwidth and sigma on all bags of the search, with all penalties.
    max_search_bags : int, default=4000
        At most this many bags, drawn at random, choose settings; where candidates compete, at most 2,000 of them.
    time_limit : float, optional
        Where candidates compete: seconds after which no further one is tried. The model then depends on the clock.
    symmetries : {"reflections", "dihedral"}, Symmetries, list of functions or None, default=None
        Maps of points that change no target: predictions for a bag and its images are then the same. Names and objects,
        see :class:`~distembed.Symmetries`, are for ``"js"``, ``"hellinger"``, ``"tv"``, ``"chi2"`` and ``"l2"``; they
        act in the unit cube, so points are mirrored at the centre of the scaler's box: give
        ``UnitCube(bounds=(-a, a))`` for a centre of zero. Functions of points are for any embedding.
    random_state : int, RandomState or None, default=None
        Draws held-out bags, random features and whatever the embedding draws.
    n_jobs : int or None, default=None
        Threads; an embedding that has an ``n_jobs`` keeps it. None: as many as BLAS may use.
    missing_targets : {"error", "drop"}, default="error"
        How to handle bags whose target is missing (NaN, None or NA; with several outputs, any of them): an error, or
        they are left out wherever the model learns, with a warning that counts and names them.

    Attributes
    ----------
    model_ : Model
        Members, each a view and a fitted head, and their weights, see :class:`~distembed.learners.model.Model`.
    scaler_ : UnitCube, Standardize or None
        Fitted. This and the next two are of models with one member and one view.
    embedding_ : estimator
        Fitted, with the bandwidth that was chosen.
    features_ : RandomFourierFeatures, KernelFeatures or None
        Fitted.
    search_ : Search or None
        Of one embedding by name, which settings were tried and what it cost: ``print(model.search_)`` shows a table.
        None without a search.
    best_params_ : dict
        bandwidth_scale, sigma_scale, alpha; empty where candidates competed.
    timings_ : dict of str to float
        Seconds of each stage of ``fit``; empty in a model from a file.
    n_batches_seen_ : int
        Batches that are part of the model. Only after ``fit_batches`` and ``partial_fit``.
    leaderboard_ : Leaderboard
        Dicts of name, score on held-out bags, its standard error, weight and seconds of all candidates, best first.
        It prints as a table, and has ``to_frame()``. Where nothing was held out, scores are NaN.
    scoring_ : str
        What the score is, ``"r2"``; higher is better.
    encoder_ : CovariateEncoder or None
        How covariates become numbers.
    empty_ : EmptyBags or None
        What is predicted for bags without points, see :mod:`distembed.learners.empty`. None after batches.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *The search* is by successive halving: all pairs of bandwidth and sigma are scored on a few hundred bags, those that
    are not clearly worse on three times as many, until five are left for ``max_search_bags``. The scored model is ridge
    regression with as many random features a bag as the model will have, because their noise depends on the setting.
    Points are binned once for all bandwidths, features are computed once for all sigmas, and a walk along the
    penalties looks at few of them. The model is then fitted to all bags. A penalty means the same in both: the ratio
    of the variances of noise and signal, which does not depend on the number of bags. In the end another setting than
    the one nearest to the rules is taken only if its errors are smaller by more than half a standard error of the
    difference. Scaling and embedding see the points of held-out bags, never their targets. The best error is the
    least of many, and so a little too small: score the model on bags that ``fit`` did not see.

    *Cost* of ``fit`` beyond the embedding: n_bags D² operations and D² numbers of memory, or n_bags² D and n_bags²
    where bags are fewer than features; of the search, some 50 Cholesky factorisations of two thirds of its bags.

    *The exact kernel* wins where bags are few and the noise of random features counts: 1.5 % less error than 5,000
    random features at 1,000 bags of the mixture experiment, in one draw. It takes 48 n_bags² bytes, which the progress
    of ``fit`` shows before it starts (4.8 GB for 10,000 bags), n_bags³ operations, n_bags² for every prediction, and a
    model file of the training bags' features. The smooth heads of ``"auto"`` are exact kernels already.

    *Parameters that have no effect are refused*: those from ``n_components`` to ``exhaustive``, and ``symmetries``, are
    for one embedding by name without covariates and ``sizes=True``, ``time_limit`` is for candidates that compete.

    *With covariates* linear and Gaussian kernels of one embedding compete, with and without covariates.
    ``n_components=None`` leaves the linear ones, and a number is that of random features for more than 3,000 bags;
    ``tune=None`` leaves one candidate, with covariates; one bandwidth scale is taken as it is.

    *Weights* of points weigh points inside a bag, ``sample_weight`` weighs bags. Bags of weight zero are as if absent.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> spread = rng.uniform(0.5, 2, size=200)
    >>> bags = rng.normal(0, spread[:, None, None], size=(200, 100, 1))
    >>> model = de.DistributionRegressor("js", n_components=500, random_state=0).fit(bags[:150], spread[:150])
    >>> bool(np.sqrt(np.mean((model.predict(bags[150:]) - spread[150:]) ** 2)) < 0.15)
    True
    """

    targets_: Numbers

    def _check_targets(self, y: Any, n_bags: int) -> Array:
        return check_numbers(self, y, n_bags, "DistributionClassifier")

    def _kind_of_targets(self, y: Array) -> Numbers:
        return Numbers.of(y)

    def predict(self, X: Any, covariates: Any = None, return_std: bool = False) -> Any:
        """Predict the numbers of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.
        return_std : bool, default=False
            Whether to return standard deviations too: of the distribution that ``predict_quantiles`` has quantiles of.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs), or a pair of them
        """
        if not return_std:
            bags, known = self._check_input(X, covariates)
            found = with_empty(self, bags, known, self.model_.predict, EmptyBags.predict)
            return self.targets_.decode(self.targets_.inside(found))

        def ask(law: ErrorLaw, predicted: Array, sizes: Array, spread: Array, widening: Array) -> Array:
            return np.stack([predicted, law.deviations(sizes, spread, widening)], axis=-1)

        found = self._by_law(X, covariates, ask)
        return self.targets_.decode(self.targets_.inside(found[..., 0])), self.targets_.decode(found[..., 1])

    @offered_if(why_no_law)
    def predict_quantiles(self, X: Any, q: Any, covariates: Any = None) -> Array:
        """Quantiles of the target of each bag, given what the model knows.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        q : array-like of shape (n_quantiles,)
            Levels between 0 and 1, in any order.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.

        Returns
        -------
        ndarray of shape (n_bags, n_quantiles) or (n_bags, n_outputs, n_quantiles)
            Quantiles of one bag never cross.

        Notes
        -----
        The distribution comes from the errors on held-out bags, and is wider for small bags and where members of the
        model disagree, as far as these errors show it; see :mod:`distembed.learners.error_law`. It needs held-out
        bags: with ``tune=None`` there are none for one embedding by name.

        Examples
        --------
        >>> import distembed as de
        >>> rng = np.random.default_rng(0)
        >>> spread = rng.uniform(0.5, 2, size=80)
        >>> bags = rng.normal(0, spread[:, None, None], size=(80, 50, 1))
        >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags[:60], spread[:60])
        >>> low, middle, high = model.predict_quantiles(bags[60:], [0.05, 0.5, 0.95]).T
        >>> bool(np.all(low < middle)), bool(np.mean((low < spread[60:]) & (spread[60:] < high)) > 0.7)
        (True, True)
        """
        name = type(self).__name__
        levels = np.asarray(q, np.float64)
        if levels.ndim != 1 or not len(levels) or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(
                f"{name}.predict_quantiles(q=...): must be a list of levels between 0 and 1, got {q!r}; write "
                "[0.05, 0.5, 0.95]"
            )

        def ask(law: ErrorLaw, predicted: Array, sizes: Array, spread: Array, widening: Array) -> Array:
            return law.quantiles(predicted, sizes, spread, levels, widening)

        found = self.targets_.inside(self._by_law(X, covariates, ask))
        return np.asarray(found.reshape(len(found), *self.targets_.shape, len(levels)))

    @offered_if(why_no_law)
    def predict_interval(self, X: Any, coverage: float = 0.9, covariates: Any = None) -> Array:
        """Intervals that hold the target of a new bag with a given probability.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        coverage : float, default=0.9
            c, between 0 and 1: for each output by itself.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.

        Returns
        -------
        ndarray of shape (n_bags, 2) or (n_bags, n_outputs, 2)
            The quantiles at (1 - c) / 2 and (1 + c) / 2, see ``predict_quantiles``.
            :class:`~distembed.ConformalRegressor` promises a coverage in finite samples, for bags that it holds out.

        Examples
        --------
        >>> import distembed as de
        >>> rng = np.random.default_rng(0)
        >>> spread = rng.uniform(0.5, 2, size=80)
        >>> bags = rng.normal(0, spread[:, None, None], size=(80, 50, 1))
        >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags[:60], spread[:60])
        >>> model.predict_interval(bags[60:], coverage=0.8).shape
        (20, 2)
        """
        c = check_number(
            f"{type(self).__name__}.predict_interval", "coverage", coverage, low=0, high=1, inclusive="neither"
        )
        found: Array = self.predict_quantiles(X, [(1 - c) / 2, (1 + c) / 2], covariates)
        return found

    def _by_law(self, X: Any, covariates: Any, ask: Callable[[ErrorLaw, Array, Array, Array, Array], Array]) -> Array:
        """What a law of errors answers, given predictions, sizes of bags, spread of members, and factors of widths."""
        bags, known = self._check_input(X, covariates)
        law: Any = self.law_
        if law is None:
            raise InputError(f"{type(self).__name__}.predict(return_std=True): {why_no_law(self)}")

        def of_points(some: Any, own: Array | None) -> Array:
            predicted, spread = self.model_.predict_with_spread(some, own)
            return ask(law, predicted, known_sizes(some, law.typical_size), spread, self._widening(some, own))

        def of_empty(empty: EmptyBags, n: int, own: Array | None) -> Array:
            predicted = empty.predict(n, own)
            its: Any = empty.law
            return ask(its, predicted, np.ones(n), np.zeros_like(predicted), np.ones(n))

        return with_empty(self, bags, known, of_points, of_empty)

    def score(self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None) -> float:
        """R² of predictions, 1 at best; parameters as in ``fit``."""
        return self._score(r2_score, X, y, sample_weight, covariates)


@storable(targets_="Classes")
class DistributionClassifier(ClassifierMixin, Learner):
    """Classification when each example is a bag of points.

    Parameters
    ----------
    embedding : str, estimator or list, default="auto"
        How bags are turned into vectors.

        - ``"auto"``: many views and heads compete on held-out bags, and a weighted mean of the best is kept, see
          :mod:`distembed.learners.selection`.
        - A name of :func:`distembed.embeddings.available`, or an embedding: its settings are searched, and a linear
          model learns from random features of it. Its own parameters are kept, but for the width of its smoothing,
          which is multiplied by what is chosen, and a ``random_state`` of None.
        - ``"view, head"``, a row of a leaderboard, such as ``"rank-mean, rbf"``: this candidate alone.
        - A list of names, rows and embeddings: they compete as for ``"auto"``, with the constant.
    head : estimator, optional
        A classifier of scikit-learn's kind, cloned for each view. For ``"auto"`` and lists it joins the heads that
        compete, for one embedding it replaces them. It can't be fitted by a cluster, learns from batches if it has a
        ``partial_fit``, and is kept in files only if these know its class, as they know ``Ridge``.
    sizes : "auto", True or False, default="auto"
        Whether candidates see how many points a bag has and, where points are weighted, how much these weigh.
        ``"auto"``: some candidates of ``embedding="auto"`` do, so held-out bags decide; lists and names see sizes where
        they name the view ``"size"``, such as ``"mean + size, rbf"``. True: all candidates do; one embedding by name
        then competes with the mean, as with covariates. False: none does, for sizes that are an artefact of sampling.
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
    tune : int, "auto", "holdout" or None, default="auto"
        How settings are chosen: on this many folds, ``"auto"`` being three, and five where candidates compete; on one
        tenth of the training bags, as in the paper (on five folds if there are fewer than 200 bags); or not at all:
        then scales and penalty, and C, are what was given if that is one value, else the bandwidth of the rule, the
        median sigma and 0.1, and C = 10.
    bandwidth_scales : sequence of float
        How far the embedding smooths, as multiples of its own choice: of the bandwidth of densities, of the width of
        histograms' bins, and, squared, of the sigma of points of mean embeddings. Others have nothing of the kind.
    sigma_scales : sequence of float
        Multiples of the median distance between features.
    alphas : sequence of float
        Penalties of ridge regression, which scores the other settings and is the model itself for ``"ridge"``.
    Cs : sequence of float
        Inverse penalties of ``"logistic"`` and ``"svm"``. With ``n_components=None`` they are for features that were
        divided by their root mean squared distance from the mean, so units do not matter.
    exhaustive : bool, default=False
        Whether to score all pairs of bandwidth and sigma on all bags of the search, with all penalties.
    max_search_bags : int, default=4000
        At most this many bags, drawn at random, choose settings; where candidates compete, at most 2,000 of them.
    time_limit : float, optional
        Where candidates compete: seconds after which no further one is tried. The model then depends on the clock.
    class_weight : None, "balanced" or dict, default=None
        What bags of a class weigh, besides ``sample_weight``: ``"balanced"`` gives all classes the same weight in all.
    ordered : list of classes, optional
        All classes from low to high, such as grades, where they have an order. Heads that learn ranks then join those
        that compete, see :mod:`distembed.models.target_heads`; ``classes_`` and columns stay sorted. Needs candidates
        that compete: ``"auto"``, a list, or a row such as ``"statistics, ordered-rbf"``.
    symmetries : {"reflections", "dihedral"}, Symmetries, list of functions or None, default=None
        Maps of points that change no class, as of :class:`~distembed.DistributionRegressor`.
    random_state : int, RandomState or None, default=None
        Draws held-out bags, random features and whatever the embedding draws.
    n_jobs : int or None, default=None
        Threads; an embedding that has an ``n_jobs`` keeps it. None: as many as BLAS may use.
    missing_targets : {"error", "drop"}, default="error"
        How to handle bags whose target is missing (NaN, None or NA; with several outputs, any of them): an error, or
        they are left out wherever the model learns, with a warning that counts and names them.

    Attributes
    ----------
    class_weight_ : ndarray of shape (n_classes,)
        What a bag of each class weighs.
    classes_ : ndarray of shape (n_classes,)
    model_ : Model
        Members, each a view and a fitted head, and their weights, see :class:`~distembed.learners.model.Model`.
    scaler_ : UnitCube, Standardize or None
        Fitted. This and the next two are of models with one member and one view.
    embedding_ : estimator
        Fitted, with the bandwidth that was chosen.
    features_ : RandomFourierFeatures, KernelFeatures or None
        Fitted.
    calibration_ : Softmax or None
        What makes probabilities of the scores of ``"svm"`` and ``"ridge"``.
    search_ : Search or None
        Of one embedding by name, which settings were tried and what it cost: ``print(model.search_)`` shows a table.
        None without a search.
    best_params_ : dict
        bandwidth_scale, sigma_scale, alpha, C.
    timings_ : dict of str to float
        Seconds of each stage of ``fit``; empty in a model from a file.
    n_batches_seen_ : int
        Batches that are part of the model. Only after ``fit_batches`` and ``partial_fit``.
    leaderboard_ : Leaderboard
        Dicts of name, score on held-out bags, its standard error, weight and seconds of all candidates, best first.
        It prints as a table, and has ``to_frame()``. Where nothing was held out, scores are NaN.
    scoring_ : str
        What the score is, ``"neg_log_loss"``; higher is better.
    encoder_ : CovariateEncoder or None
        How covariates become numbers.
    empty_ : EmptyBags or None
        What is predicted for bags without points, see :mod:`distembed.learners.empty`. None after batches.
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
    ``decision_function`` has. See :mod:`distembed.models.calibration`.

    *Rare classes.* There are no more folds than the rarest class has bags, with a warning. A class of one bag is
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

    targets_: Classes

    def __init__(
        self,
        embedding: EmbeddingLike = "auto",
        *,
        head: Estimator | None = None,
        sizes: str | bool = "auto",
        model: str = "ridge",
        scale: Any = "auto",
        n_components: int | str | None = 5000,
        tune: str | int | None = "auto",
        bandwidth_scales: Sequence[float] = BANDWIDTH_SCALES,
        sigma_scales: Sequence[float] = SIGMA_SCALES,
        alphas: Sequence[float] = ALPHAS,
        Cs: Sequence[float] = CS,
        exhaustive: bool = False,
        max_search_bags: int = 4000,
        time_limit: float | None = None,
        class_weight: Any = None,
        ordered: Any = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        symmetries: Any = None,
        missing_targets: str = "error",
    ) -> None:
        super().__init__(
            embedding, head=head, sizes=sizes, scale=scale, n_components=n_components, tune=tune,
            bandwidth_scales=bandwidth_scales, sigma_scales=sigma_scales, alphas=alphas, exhaustive=exhaustive,
            max_search_bags=max_search_bags, time_limit=time_limit, random_state=random_state, n_jobs=n_jobs,
            symmetries=symmetries, missing_targets=missing_targets,
        )  # fmt: skip
        self.class_weight = class_weight
        self.ordered = ordered
        self.model = model
        self.Cs = Cs

    def _check_targets(self, y: Any, n_bags: int) -> Array:
        return check_classes(self, y, n_bags, "DistributionRegressor")

    def _kind_of_targets(self, y: Array) -> Classes:
        return Classes.of(self, y)

    def _weigh_classes(self, batch: Batch) -> None:
        found = class_weights(self, self.class_weight, self.targets_.classes, batch.y, batch.weight)
        ranks = ranks_of(self, self.ordered, self.targets_.classes)
        self.targets_ = Classes(self.targets_.classes, found, ranks)

    def _check_refit(self, y: Array) -> None:
        known = self.classes_.tolist()
        codes = find_classes(y, self.classes_)
        missing = np.delete(self.classes_, codes[codes >= 0])
        if np.any(codes < 0):
            raise ValueError(
                f"{type(self).__name__}.refit: y must have the classes of fit, {known}, got "
                f"{y[codes < 0].tolist()[0]!r}; fit again to learn another class"
            )
        heads = [member.head for member in self.model_.members]
        if len(missing) and any(isinstance(head, LinearHead) and head.model != "ridge" for head in heads):
            raise ValueError(
                f"{type(self).__name__}.refit: y must have bags of all classes of fit, {known}, got none of "
                f"{missing.tolist()[0]!r}; add some, or use model='ridge'"
            )

    @property
    def classes_(self) -> Array:
        """The classes, ndarray of shape (n_classes,), sorted."""
        return self._known_targets.classes

    @property
    def class_weight_(self) -> Array:
        """What a bag of each class weighs, ndarray of shape (n_classes,)."""
        return self._known_targets.weights

    @property
    def _known_targets(self) -> Classes:
        if "targets_" not in vars(self):
            raise AttributeError(f"{type(self).__name__}: has no classes before fit")
        return self.targets_

    @property
    def calibration_(self) -> Softmax | None:
        """What makes probabilities of the scores of ``"svm"`` and ``"ridge"``, of one embedding by its name."""
        head = self.model_.head
        return head.calibration_ if isinstance(head, LinearHead) else None

    def decision_function(self, X: Any, covariates: Any = None) -> Array:
        """Scores of classes: ndarray of shape (n_bags,), of the second of two, or (n_bags, n_classes).

        Of one embedding by name those of its linear model; where classes are unequal, the largest score of ``"svm"``
        and ``"ridge"`` need not be the likeliest class. Of other models logarithms of probabilities, and their
        difference, the log odds, for two classes. Of empty bags always these logarithms.
        """
        bags, known = self._check_input(X, covariates)

        def of_empty(empty: EmptyBags, n: int, own: Array | None) -> Array:
            return np.log(np.maximum(empty.predict(n, own), LEAST_SCORE))

        found = with_empty(self, bags, known, self.model_.scores, of_empty)
        return np.asarray(found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found)

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

    @offered_if(why_no_probabilities)
    def predict_proba(self, X: Any, covariates: Any = None) -> Array:
        """Probabilities of classes, ndarray of shape (n_bags, n_classes); covariates as in ``fit``.

        Of classes as frequent as in training, or, with ``class_weight``, as heavy as it makes them. Those of ``"svm"``
        need held-out bags, and so a search: there are none with ``tune=None``.
        """
        bags, known = self._check_input(X, covariates)
        return with_empty(self, bags, known, self.model_.predict, EmptyBags.predict)

    @offered_if(why_no_law)
    def predict_set(self, X: Any, coverage: float = 0.9, covariates: Any = None) -> Array:
        """Sets of classes that hold the class of a new bag with a given probability.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        coverage : float, default=0.9
            Between 0 and 1.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.

        Returns
        -------
        ndarray of bool of shape (n_bags, n_classes)
            Columns as ``classes_``; no set is empty. See :mod:`distembed.learners.error_law`.

        Examples
        --------
        >>> import distembed as de
        >>> rng = np.random.default_rng(0)
        >>> kind = rng.integers(0, 2, size=80)
        >>> bags = rng.normal(0.5 * kind[:, None, None], 1, size=(80, 20, 1))
        >>> model = de.DistributionClassifier("mean", n_components=50, random_state=0).fit(bags[:60], kind[:60])
        >>> sets = model.predict_set(bags[60:])
        >>> sets.shape, bool(sets.any(axis=1).all())
        ((20, 2), True)
        """
        where = f"{type(self).__name__}.predict_set"
        c = check_number(where, "coverage", coverage, low=0, high=1, inclusive="neither")
        check_is_fitted(self, "model_")
        law: Any = self.law_
        bags, known = self._check_input(X, covariates)

        def of_points(some: Any, own: Array | None) -> Array:
            return np.asarray(law.sets(self.model_.predict(some, own), c, self._widening(some, own)))

        def of_empty(empty: EmptyBags, n: int, own: Array | None) -> Array:
            its: Any = empty.law
            return np.asarray(its.sets(empty.predict(n, own), c))

        return with_empty(self, bags, known, of_points, of_empty)

    def score(self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None) -> float:
        """Share of bags whose class is predicted; parameters as in ``fit``."""
        return self._score(accuracy_score, X, y, sample_weight, covariates)
