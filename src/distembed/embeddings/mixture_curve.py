r"""How the likelihood of Gaussian mixtures grows with their number of components, bag by bag.

With L_k the largest log likelihood per point of mixtures of at most k components that is found for a bag, a row is

.. math:: L_1, \; L_2 - L_1, \; \dots, \; L_K - L_1.

L_1 = -½ log det(2πe Σ) sees the spread of a bag alone, and the others what one Gaussian misses: clumps, tails, bends.
AIC and BIC choose the number of components by this curve and a penalty; a regression on it learns the penalty from
data. The fits are those of :mod:`distembed.density.many_mixtures`, in coordinates of each bag's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import BagEmbedding
from ..compute.arrays import Array
from ..compute.checks import check_number
from ..compute.parallel import n_threads
from ..compute.registry import storable
from ..density.many_mixtures import Likelihood, Whitened, best_likelihoods, run_each
from .catalogue import Method, register

MOST_COMPONENTS = 100


def likelihood_curves(bags: Bags, draws: Array, *, reg: float, max_iter: int, tol: float, n_jobs: int | None) -> Array:
    """Largest log likelihoods per point of mixtures of at most 1, 2, ... components.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    draws : ndarray of shape (n_init, max_components)
        Numbers in [0, 1), from which all bags start.
    reg, max_iter, tol, n_jobs
        As in :class:`MixtureCurveEmbedding`.

    Returns
    -------
    ndarray of shape (n_bags, max_components)
        Nondecreasing rows. What a bag has too few points for adds nothing.

    Examples
    --------
    >>> bags = Bags.from_arrays([np.r_[np.linspace(-1, 1, 50) - 9, np.linspace(-1, 1, 50) + 9]])
    >>> likelihood_curves(bags, np.full((1, 2), 0.5), reg=1e-3, max_iter=50, tol=1e-4, n_jobs=1).round(2)
    array([[-3.62, -1.58]])
    """
    found = np.empty((bags.n_bags, draws.shape[1]))
    model = Likelihood(reg)

    def fit(rows: Array, points: Whitened) -> None:
        per_point = _by_distance(points._replace(weights=points.weights / bags.sizes[rows][:, None]))
        best = best_likelihoods(per_point, draws, model, max_iter=max_iter, tol=tol)
        found[rows] = best + points.log_det[:, None]

    run_each(bags, draws.size, fit, n_jobs)
    return np.asarray(np.maximum.accumulate(found, axis=1))


def _by_distance(bags: Whitened) -> Whitened:
    """Points in the order of their distance from the mean: where mixtures start then depends on no axes."""
    squares = np.einsum("bnj,bnj->bn", bags.points, bags.points)
    order = np.argsort(np.where(bags.weights > 0, squares, np.inf), axis=1, kind="stable")
    return bags._replace(
        points=np.take_along_axis(bags.points, order[:, :, None], 1),
        weights=np.take_along_axis(bags.weights, order, 1),
        features=np.take_along_axis(bags.features, order[:, None], 2),
    )


@storable(_draws="finite(_, _)")
class MixtureCurveEmbedding(BagEmbedding):
    r"""Embed bags by the log likelihoods of Gaussian mixtures of 1, 2, ... components.

    Nothing is learned but the width of points: ``fit`` draws the random numbers from which all mixtures start.

    Parameters
    ----------
    max_components : int, default=10
        K, at most 100.
    n_init : int, default=2
        Starts (k-means++). Every ten steps of expectation-maximisation the better half of them go on.
    max_iter : int, default=40
        Most steps.
    tol : float, default=5e-5
        Steps end when one adds less than this to the log likelihood per point.
    reg : float, default=1e-3
        Least variance of a component in any direction, as a share of the bag's in that direction, in [1e-8, 1].
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
    Features are L_1 and the gains L_k - L_1, in nats per point. An invertible affine map of all points adds one number
    to L_1 of every bag and leaves gains as they are, so squared distances depend on neither units nor axes. Nor do they
    depend on where a bag lies: combine this with an embedding that depends on location, by
    :class:`~distembed.embeddings.Views`.

    *Cost.* Up to forty steps for each k, of n k exponentials and n k (l + 1) (l + 2) multiplications: 2.7 ms for
    200 points in two dimensions with the defaults, 1.5 ms with ``n_init=1, max_iter=30``. Time grows with the square of
    K and of l.

    *Limits.* Chance alone makes L_k - L_1 grow, by about the number of parameters over twice the number of points, so
    small bags have steeper curves. Bags of very different sizes should come with ``BlockAverage``, or with "size" as a
    covariate. More components than one need as many different points as parameters, k (1 + l + l (l + 1) / 2) - 1; with
    fewer the curve stays where it was, so it is flat for small bags in many dimensions. In a direction in which a bag
    does not vary it counts as if its deviation were one, times the root of ``reg``. Weights count as copies.

    *A bag alone.* All bags start from the same random numbers, and their points in the order of their distance from the
    bag's mean. So a row depends on neither the order of points nor other bags nor the number of threads.

    References
    ----------
    McLachlan and Peel (2000). Finite Mixture Models, chapter 6.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> one = rng.normal(size=(200, 2))
    >>> three = one + 20 * rng.permutation(np.repeat(np.eye(3, 2), [67, 67, 66], axis=0))
    >>> curve = de.MixtureCurveEmbedding(4, random_state=0).fit([one, three])
    >>> curve.transform([one, three]).round(1)
    array([[-2.8,  0. ,  0. ,  0. ],
           [-7.2,  2.2,  3.3,  3.3]])
    """

    def __init__(
        self,
        max_components: int = 10,
        *,
        n_init: int = 2,
        max_iter: int = 40,
        tol: float = 5e-5,
        reg: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.max_components = max_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg = reg
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: Any) -> None:
        size = self._check_parameters()
        self._draws = check_random_state(self.random_state).uniform(size=size)
        self._n_features_out = size[1]

    def _check_parameters(self) -> tuple[int, int]:
        """Check all parameters; returns the numbers of starts and of components."""
        most = check_number(self, "max_components", self.max_components, low=1, high=MOST_COMPONENTS, integer=True)
        n_init = check_number(self, "n_init", self.n_init, low=1, high=1000, integer=True)
        check_number(self, "max_iter", self.max_iter, low=1, high=100_000, integer=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "reg", self.reg, low=1e-8, high=1)
        n_threads(self.n_jobs)
        return n_init, most

    def __distembed_fits__(self) -> bool:
        return bool(self._draws.shape == self._check_parameters()) and self._n_features_out == self._draws.shape[1]

    def __distembed_claims__(self) -> tuple[float, int]:
        return 16.0 * self._draws.size * self.n_features_in_**2, self.max_components

    def _transform(self, bags: Bags) -> Array:
        curves = likelihood_curves(
            bags.drop_weightless(), self._draws, reg=self.reg, max_iter=self.max_iter, tol=self.tol, n_jobs=self.n_jobs
        )
        curves[:, 1:] -= curves[:, :1].copy()
        return curves.astype(bags.dtype, copy=False)

    def _feature_names(self) -> Iterable[str]:
        return ["log_likelihood1", *(f"gain{k}" for k in range(2, self._n_features_out + 1))]


register(
    Method(
        "mixture-curve", MixtureCurveEmbedding, {},
        "squared difference of log likelihoods of mixtures of 1 to 10 Gaussians", "50 n components^2 l^2", "yes",
        "affine changes of coordinates", "any", "McLachlan and Peel 2000",
    )
)  # fmt: skip
