"""Features of bags from some landmark bags: kernels of any divergence, in time linear in the number of bags."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..bags.estimators import BagEstimator, check_bags
from ..compute.checks import check_choice, check_number
from ..compute.registry import storable
from ..embeddings.gaussian import inverse_root
from .comparisons import Comparison
from .matrices import median_sigma, rbf

__all__ = ["NystroemFeatures"]

Array = NDArray[Any]

_CHUNK_BAGS = 256  # compared with the landmarks at a time


@storable
class NystroemFeatures(BagEstimator):
    r"""Features of bags whose dot products approximate exp(-d² / (2σ²)), for any divergence d² between bags.

    .. math:: φ(x) = \big(k(x, l_1), …, k(x, l_L)\big) K^{-1/2}, \qquad k = \exp(-d^2 / (2σ^2))

    with the kernel matrix K of L landmark bags, drawn from the training bags: cost linear in the number of bags where a
    kernel matrix is quadratic, and a row for new bags at any time.

    Parameters
    ----------
    divergence : str, embedding or callable, default="js"
        What d² is, as in :class:`DivergenceMatrix`: ``"js"``, ``"hellinger"``, ``"tv"``, ``"chi2"`` between kernel
        density estimates, ``"knn:kl"`` and others by name, an embedding of bags, or a function of bags. Bandwidths and
        embeddings are fitted to all training bags.
    n_landmarks : int, default=100
        L, drawn evenly from the training bags; all of them if they are fewer.
    sigma : float or "median", default="median"
        σ > 0. ``"median"``: :func:`median_sigma` of the landmarks.
    random_state : int, RandomState or None, default=None
        Draws the landmarks. Not used where all training bags are landmarks.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks_,)
        Positions of the landmarks among the training bags.
    n_landmarks_ : int
        Their number, and that of features.
    sigma_ : float
        σ in use.
    symmetric_ : bool
        Whether d² is the same in both directions for all landmarks. If not, the two directions are averaged.
    negative_share_ : float
        Sum of the negative eigenvalues of K over the sum of all, by their absolute values.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Indefinite kernels.* Negative eigenvalues of K are dropped (Belongie et al. 2002), and with them positive ones
    below the size of the most negative one, which would blow up features of new bags. Of a positive definite kernel
    dot products with a landmark are exact; of others that holds up to what is dropped.

    *Other bags.* A row depends on its own bag and the landmarks alone if ``divergence`` looks at one pair at a time.
    ``plugin`` takes its bandwidth from all bags that it gets: give it a number. ``gaussian`` pools their covariances,
    which changes its values by about its ``reg``. Bags are compared 256 at a time.

    *Cost* a bag: L values of the divergence, twice as many if it is not symmetric, and L² operations besides. Memory:
    the result, the landmarks, and what the divergence takes for 256 bags.

    References
    ----------
    Williams and Seeger (2001). Using the Nyström method to speed up kernel machines. NIPS.

    Belongie, Fowlkes, Chung and Malik (2002). Spectral partitioning with indefinite kernels using the Nyström
    extension. ECCV.

    Examples
    --------
    >>> from distembed.kernels import NystroemFeatures, rbf
    >>> from distembed.divergences import plugin
    >>> bags = np.random.default_rng(0).beta([[[1]], [[2]], [[3]]], 2, size=(3, 500, 1))
    >>> Z = NystroemFeatures("hellinger", sigma=0.5).fit_transform(bags)
    >>> np.allclose(Z @ Z.T, rbf(plugin(bags, distance="hellinger"), 0.5))
    True
    """

    def __init__(
        self,
        divergence: Any = "js",
        *,
        n_landmarks: int = 100,
        sigma: float | str = "median",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.divergence = divergence
        self.n_landmarks = n_landmarks
        self.sigma = sigma
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Choose landmarks among training bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags.
        y : Ignored

        Returns
        -------
        self
        """
        n_landmarks = check_number(self, "n_landmarks", self.n_landmarks, low=1, high=10_000, integer=True)
        if isinstance(self.sigma, str):
            check_choice(self, "sigma", self.sigma, ("median",))
        else:
            remedy = "give a positive number, or 'median'"
            check_number(self, "sigma", self.sigma, low=0, inclusive="neither", remedy=remedy)
        bags = check_bags(self, X, reset=True)
        self._compare = Comparison(self.divergence, bags, self)
        chosen = np.arange(bags.n_bags)
        if bags.n_bags > n_landmarks:
            rng = check_random_state(self.random_state)
            chosen = np.sort(rng.choice(bags.n_bags, n_landmarks, replace=False))
        self.landmarks_ = chosen
        self.n_landmarks_ = self._n_features_out = len(chosen)
        self._seen = self._compare.look_at(bags[chosen])
        d2 = self._compare.both_ways(self._seen)
        off = ~np.eye(len(d2), dtype=bool)
        if off.any() and np.mean(np.diag(d2)) > max(np.mean(d2[off]), 0.0):
            raise ValueError(
                "NystroemFeatures(divergence=...): must be zero or small between a bag and itself, got "
                f"{np.mean(np.diag(d2)):.3g} on average there and {np.mean(d2[off]):.3g} between different bags; pass "
                "a divergence, not a kernel"
            )
        self.symmetric_ = bool(self._compare.is_symmetric)
        self.sigma_ = median_sigma(d2) if isinstance(self.sigma, str) else float(self.sigma)
        self._root, self.negative_share_ = inverse_root(rbf(d2, self.sigma_))
        return self

    def transform(self, X: Any) -> Array:
        """Features of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, n_landmarks_)
            float32 for float32 points, else float64; computed in float64.
        """
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        out = np.empty((bags.n_bags, self.n_landmarks_), bags.dtype)
        for start in range(0, bags.n_bags, _CHUNK_BAGS):
            chunk = self._compare.look_at(bags[start : start + _CHUNK_BAGS])
            d2 = self._compare.both_ways(chunk, self._seen)
            out[start : start + _CHUNK_BAGS] = rbf(d2, self.sigma_) @ self._root
        return out

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the features by the position of their landmark, ``landmark17``.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (n_landmarks_,) of object
        """
        check_is_fitted(self)
        return np.array([f"landmark{i}" for i in self.landmarks_], dtype=object)
