"""Regression of bags: an embedding by name with random features and ridge regression, or the ensemble of "auto".

points -> scaler -> embedding -> random features -> ridge regression
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..compute.registry import storable
from .auto import AutoLearner


@storable(trained_on_="int(_)")
class DistributionRegressor(RegressorMixin, AutoLearner):
    """Regression when each example is a bag of points: a number, or several, for every bag.

    Parameters
    ----------
    embedding : str or estimator, default="auto"
        ``"auto"``: an ensemble of many embeddings and heads, chosen on held-out bags, see
        :mod:`distembed.learners.auto`; it has settings of its own, and those from ``scale`` to ``exhaustive`` are not
        for it. Or a name of :func:`distembed.embeddings.available`, or an embedding: its own parameters are kept, but
        for the width of its smoothing, which is multiplied by what is chosen, and a ``random_state`` of None.
    scale : "auto", UnitCube, Standardize or None, default="auto"
        What makes the units of columns irrelevant. ``"auto"``: ``UnitCube(map="auto")`` for embeddings that need points
        in the unit cube, ``Standardize()`` for others, nothing before a pipeline that begins with a scaler. None:
        points stay as they are.
    n_components : int, "exact" or None, default=5000
        D, the number of random features. ``"exact"``: the kernel itself, for at most 10,000 bags. None: the linear
        model sees the features of the embedding themselves.
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
    time_limit : float, optional
        Of ``"auto"``: seconds after which no further candidate is tried. The model then depends on the clock.
    symmetries : {"reflections", "dihedral"}, Symmetries, list of functions or None, default=None
        Maps of points that change no target: predictions for a bag and its images are then the same. Names and objects,
        see :class:`~distembed.Symmetries`, are for ``"js"``, ``"hellinger"``, ``"tv"``, ``"chi2"`` and ``"l2"``; they
        act in the unit cube, so that points are mirrored at the centre of the scaler's box: give
        ``UnitCube(bounds=(-a, a))`` for a centre of zero. Functions of points are for any embedding.
    random_state : int, RandomState or None, default=None
        Draws held-out bags, random features and whatever the embedding draws.
    n_jobs : int or None, default=None
        Threads; an embedding that has an ``n_jobs`` keeps it. None: as many as BLAS may use.

    Attributes
    ----------
    scaler_ : UnitCube, Standardize or None
        Fitted. This and the next two are of one embedding by name.
    embedding_ : estimator
        Fitted, with the bandwidth that was chosen.
    features_ : RandomFourierFeatures, KernelFeatures or None
        Fitted.
    model_ : Ensemble or LinearRidge
        The ensemble; or, of one embedding by name, what was fitted to the random features of all training bags.
    search_ : Search or None
        What was tried and what it cost: ``print(model.search_)`` shows it as a table. None without a search.
    best_params_ : dict
        bandwidth_scale, sigma_scale, alpha.
    timings_ : dict of str to float
        Seconds of each stage of ``fit``.
    n_batches_seen_ : int
        Batches that are part of the model. Only after ``fit_batches`` and ``partial_fit``.
    leaderboard_ : Leaderboard
        Of an ensemble: dicts of name, score on held-out bags, its standard error, weight and seconds of all candidates,
        best first, always with ``"constant"`` and ``"mean"``. It prints as a table.
    scoring_ : str
        What the score is, ``"r2"``; higher is better.
    encoder_ : CovariateEncoder or None
        How covariates become numbers.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *The search* is by successive halving: all pairs of bandwidth and sigma are judged on a few hundred bags, those that
    are not clearly worse on three times as many, until five are left for ``max_search_bags``. What is judged is ridge
    regression with as many random features a bag as the model will have, because their noise depends on the setting.
    Points are binned once for all bandwidths, features are computed once for all sigmas, and a walk along the
    penalties looks at few of them. The model is then fitted to all bags. A penalty means the same in both: the ratio
    of the variances of noise and signal, which does not depend on the number of bags. In the end another setting than
    the one nearest to the rules is taken only if its errors are smaller by more than half a standard error of the
    difference. Scaling and embedding see the points of held-out bags, never their targets. The best error is the
    least of many, and so a little too small: judge the model on bags that ``fit`` did not see.

    *Cost* of ``fit`` beyond the embedding: n_bags D² operations and D² numbers of memory, or n_bags² D and n_bags²
    where bags are fewer than features; of the search, some 50 Cholesky factorisations of two thirds of its bags.

    *The exact kernel* wins where bags are few and the noise of random features counts: 1.5 % less error than 5,000
    random features at 1,000 bags of the mixture experiment, in one draw. It takes 48 n_bags² bytes, which the progress
    of ``fit`` tells before it starts (4.8 GB for 10,000 bags), n_bags³ operations, n_bags² for every prediction, and a
    model file of the training bags' features. The smooth heads of ``"auto"`` are exact kernels already.

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

    def predict(self, X: Any, covariates: Any = None, return_std: bool = False) -> Any:
        """Predict the numbers of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        covariates : table of n_bags rows, optional
            If ``fit`` had some, with the same columns.
        return_std : bool, default=False
            Whether to return the predictive standard deviations of :class:`~distembed.learners.ridge.LinearRidge` too.
            A model from a file has them only if that was saved with ``updatable=True``, an ensemble never.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs), or a pair of them
        """
        bags, beside = self.given(X, covariates)
        if self.is_ensemble and not return_std:
            return self.model_.predict(bags, beside).reshape(-1, *self._n_outputs)
        return self.chain_.apply(partial(self.model_.predict, return_std=return_std), bags)

    def score(self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None) -> float:
        """R² of predictions, 1 at best; parameters as in ``fit``."""
        return self._score(r2_score, X, y, sample_weight, covariates)
