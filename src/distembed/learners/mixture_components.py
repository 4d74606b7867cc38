r"""How many Gaussian components a bag has: mixtures fitted to every bag, and a criterion that counts.

.. math:: \mathrm{AIC} = 2 p - 2 L, \qquad \mathrm{BIC} = p \log n - 2 L, \qquad p = k (1 + d + d (d + 1) / 2) - 1

with the largest log likelihood L of k components in d dimensions, and the smallest value wins. That takes no training
bags, and is what a regression on embeddings has to beat (section "Estimating the Number of Mixture Components" of
Sutherland et al. 2016).

:mod:`distembed.density.many_mixtures` fits the mixtures, all bags at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagEstimator, ScoredById, check_bags, refuse_other_order
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number
from ..compute.parallel import n_threads
from ..compute.registry import storable
from ..density.many_mixtures import log_likelihoods, n_parameters, posterior_masses

CRITERIA = ("aic", "bic", "bayes")
MOST_COMPONENTS = 100
LEAST_SHARE = 0.01  # of the points: what "bayes" counts as a component


class MixtureCriteria(NamedTuple):
    """What mixtures of every number of components say about bags.

    Attributes
    ----------
    aic, bic : ndarray of shape (n_bags, max_components)
        Akaike's and the Bayesian information criterion; inf where a bag has too few points.
    log_likelihood : ndarray of shape (n_bags, max_components)
        L, in the units of the points; -inf where a bag has too few points.
    n_components : ndarray of shape (max_components,) of int
        k of the columns: 1, 2, ...
    n_parameters : ndarray of shape (max_components,) of int
        p of the columns.

    Examples
    --------
    >>> from distembed.learners.mixture_components import MixtureComponents
    >>> bags = np.random.default_rng(0).normal(size=(3, 50, 2))
    >>> found = MixtureComponents(max_components=2).fit(bags).criteria(bags)
    >>> np.allclose(found.aic, 2 * found.n_parameters - 2 * found.log_likelihood), found.n_parameters
    (True, array([ 5, 11]))
    """

    aic: Array
    bic: Array
    log_likelihood: Array
    n_components: Array
    n_parameters: Array


@storable(_draws="finite(_, _)")
class MixtureComponents(ScoredById, RegressorMixin, BagEstimator):
    r"""The number of Gaussian components of each bag, by mixtures fitted to that bag alone.

    Nothing is learned: ``fit`` checks parameters and draws the random numbers of starts.

    Parameters
    ----------
    criterion : {"aic", "bic", "bayes"}, default="aic"
        - ``"aic"``, ``"bic"``: the k with the least AIC or BIC of maximum likelihood mixtures, see the module.
        - ``"bayes"``: one variational Bayesian mixture of ``max_components`` components; those count that hold more
          than 1 % of the points and more than one point.
    max_components : int, default=10
        Largest number, at most 100.
    n_init : int, default=8
        Starts (k-means++). Every ten steps the better half of them go on, until one is left.
    max_iter : int, default=300
        Most steps.
    tol : float, default=0.01
        Steps end when one adds less than this to L, or to the lower bound of the evidence. Not divided by the number of
        points: criteria differ by units of L.
    reg : float, default=1e-3
        Least variance of a component in any direction, as a share of the bag's in that direction, in [1e-8, 1]: 3 % of
        a deviation, which separates about thirty components in a row. Without it a component on a few points in a row
        has an infinite likelihood; the smaller it is, the more such components AIC finds. ``"bayes"`` has its prior
        instead.
    random_state : int, RandomState or None, default=None
        Draws the numbers from which all bags start.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Weights* of points count in the likelihood, scaled to a sum of n, the number of points of the bag that weigh
    anything. So n is not a number of copies: every point twice is twice the evidence.

    *Too few points.* More components than one need at least as many different points as parameters, p; else their
    criteria are inf. A single point, or copies of one, have one component.

    *Units.* Every bag is fitted in coordinates in which its mean is zero and its covariance the identity. Neither units
    nor offsets of coordinates change the answer, and but for the starts no invertible linear map does. A
    direction in which a bag does not vary has no information: its likelihood there is that of ``reg``, for every k.

    *A bag alone.* All bags start from the same random numbers and their points are sorted first. So an answer depends
    on neither the order of points nor other bags nor the number of threads.

    *Priors* of ``"bayes"``: π ~ Dirichlet(1 / max_components, …); a component's mean has the bag's mean, with the
    weight of one point; its precision is a Wishart matrix of n_dims degrees of freedom around the inverse of the bag's
    covariance (those of scikit-learn's ``BayesianGaussianMixture``). Components that the data don't need lose all
    their points.

    *Cost* a bag: a step of k components takes n k exponentials and n k (d + 1) (d + 2) multiplications. There are some
    20 ``n_init`` of them for each k while starts compete, and then some tens; k = 1, ..., 10 makes 55 n exponentials.
    ``"bayes"`` has the steps of k = ``max_components`` alone, a fifth of that. Memory: the result, some tens of
    megabytes a thread, and for a large bag some 10 d² + (50 + ``max_components``) ``n_init`` bytes per point.

    *Limits.* The likelihood has many maxima, and steps find one of them. More starts and a smaller ``tol`` find higher
    ones, for large k above all, and AIC then chooses more components: it is not made for models that are not regular,
    as mixtures are not. BIC asks for more evidence than two hundred points of ten overlapping components have.

    ``score`` is R², as of any regressor; ``scoring="neg_root_mean_squared_error"`` gives errors as they are reported in
    the paper. ``transform`` gives the number as one feature.

    References
    ----------
    Akaike (1974). A new look at the statistical model identification. IEEE Transactions on Automatic Control.

    Schwarz (1978). Estimating the dimension of a model. Annals of Statistics.

    Biernacki, Celeux and Govaert (2003). Choosing starting values for the EM algorithm for getting the highest
    likelihood in multivariate Gaussian mixture models. Computational Statistics & Data Analysis.

    Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.

    Examples
    --------
    >>> from distembed.learners.mixture_components import MixtureComponents
    >>> rng = np.random.default_rng(0)
    >>> one = rng.normal(size=(60, 2))
    >>> three = one + 20 * rng.permutation(np.repeat(np.eye(3, 2), 20, axis=0))
    >>> MixtureComponents("bic", random_state=0).fit([one, three]).predict([one, three])
    array([1, 3])
    """

    def __init__(
        self,
        criterion: str = "aic",
        *,
        max_components: int = 10,
        n_init: int = 8,
        max_iter: int = 300,
        tol: float = 0.01,
        reg: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.max_components = max_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg = reg
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Self:
        """Check parameters and the width of points, and draw the random numbers of starts.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags.
        y : Ignored

        Returns
        -------
        self
        """
        size = self._check_parameters()
        refuse_other_order(y, check_bags(self, X, reset=True), type(self).__name__)
        self._draws = check_random_state(self.random_state).uniform(size=size)
        self._n_features_out = 1
        return self

    def _check_parameters(self) -> tuple[int, int]:
        """Check all parameters; returns the numbers of starts and of components."""
        check_choice(self, "criterion", self.criterion, CRITERIA)
        most = check_number(self, "max_components", self.max_components, low=1, high=MOST_COMPONENTS, integer=True)
        n_init = check_number(self, "n_init", self.n_init, low=1, high=1000, integer=True)
        check_number(self, "max_iter", self.max_iter, low=1, high=100_000, integer=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "reg", self.reg, low=1e-8, high=1)
        n_threads(self.n_jobs)
        return n_init, most

    def __distembed_fits__(self) -> bool:
        return bool(self._draws.shape == self._check_parameters())

    def __distembed_claims__(self) -> tuple[float, int]:
        return 16.0 * self._draws.size * self.n_features_in_**2, self.max_components

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The number of components of each bag.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags,) of int
            From 1 to ``max_components``.
        """
        bags = self._check_input(X)
        if self.criterion == "bayes":
            return self._count_by_bayes(bags)
        # In float64: criteria of float32 bags are rounded only when they are handed out.
        return np.asarray(np.argmin(getattr(self._criteria(bags), self.criterion), axis=1) + 1)

    def scores(self, X: Any) -> Array:
        """The criterion for every number of components; the least wins.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, max_components)
            AIC or BIC of 1, 2, ... components; inf where a bag has too few points. float32 for float32 points. An error
            for ``"bayes"``, which fits one mixture alone.
        """
        bags = self._check_input(X)
        if self.criterion == "bayes":
            raise ValueError(
                "MixtureComponents(criterion=...): must be 'aic' or 'bic' for scores, got 'bayes', which fits a single "
                "mixture; use criteria or predict"
            )
        return np.asarray(getattr(self._criteria(bags), self.criterion).astype(bags.dtype, copy=False))

    def criteria(self, X: Any) -> MixtureCriteria:
        """AIC, BIC and log likelihoods from one set of fits, whatever ``criterion`` is.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        MixtureCriteria
            ``aic``, ``bic`` and ``log_likelihood`` of shape (n_bags, max_components), float32 for float32 points.
        """
        bags = self._check_input(X)
        found = self._criteria(bags)
        cast = (values.astype(bags.dtype, copy=False) for values in found[:3])
        return MixtureCriteria._make([*cast, *found[3:]])

    def transform(self, X: Any) -> Array:
        """The number of components as a feature, e.g. next to those of an embedding.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, 1)
            float32 for float32 points, else float64.
        """
        bags = self._check_input(X)
        return self.predict(bags)[:, None].astype(bags.dtype)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """The name ``n_components_aic``, or that of another criterion.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (1,) of str objects
        """
        check_is_fitted(self)
        return np.array([f"n_components_{self.criterion}"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _check_input(self, X: Any) -> Bags:
        check_is_fitted(self)
        return check_bags(self, X, reset=False)

    def _criteria(self, bags: Bags) -> MixtureCriteria:
        """Criteria in float64."""
        bags = bags.drop_weightless()
        likelihood = log_likelihoods(bags, self._draws, self.reg, self.max_iter, self.tol, self.n_jobs)
        k = np.arange(1, likelihood.shape[1] + 1)
        p = n_parameters(k, bags.n_dims)
        log_n = np.log(bags.sizes)[:, None]
        return MixtureCriteria(2 * p - 2 * likelihood, p * log_n - 2 * likelihood, likelihood, k, p)

    def _count_by_bayes(self, bags: Bags) -> NDArray[np.int64]:
        bags = bags.drop_weightless()
        masses = posterior_masses(bags, self._draws, self.max_iter, self.tol, self.n_jobs)
        large = masses > np.maximum(1.0, LEAST_SHARE * bags.sizes)[:, None]
        return np.asarray(np.maximum(1, np.count_nonzero(large, axis=1)))
