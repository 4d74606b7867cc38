r"""Fisher vectors: how each bag would change a Gaussian mixture that was fitted to all of them.

A mixture with shares π_k, means μ_k and deviations σ_k along the coordinates is fitted to points of all training bags.
A bag is described by the gradient of the mean log likelihood of its points, each entry divided by the root of its
Fisher information. With responsibilities γ_k(x) = π_k N(x; μ_k, σ_k) / Σ_l π_l N(x; μ_l, σ_l) and weighted means E over
the bag

.. math::
    G_{α_k} &= \frac{E[γ_k] - π_k}{\sqrt{π_k}}, \qquad
    G_{μ_{kj}} = \frac1{\sqrt{π_k}} E\Big[γ_k \frac{x_j - μ_{kj}}{σ_{kj}}\Big], \qquad
    G_{σ_{kj}} = \frac1{\sqrt{2π_k}} E\Big[γ_k \Big(\frac{(x_j - μ_{kj})^2}{σ_{kj}^2} - 1\Big)\Big]

where π_k = exp α_k / Σ_l exp α_l. The information is that of components that do not overlap: π_k, π_k/σ² and 2π_k/σ².
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import Writer
from ..bags.moments import CoordinateFrame, chunks_of, fit_frame, segments, sums_by_bag
from ..bags.point_order import order_points
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice, check_number
from ..compute.parallel import one_blas_thread
from ..compute.registry import storable
from .catalogue import Method, register
from .sketches import Additive

COVARIANCES = ("diag", "whitened")
MAX_ITER = 100
_SEGMENT_VALUES = 2**18  # responsibilities at a time


# --------------------------------------------------------------------------------------------------------------
# Functions on arrays
# --------------------------------------------------------------------------------------------------------------


def draw_points(bags: Bags, max_points: int, rng: np.random.RandomState) -> Array:
    """Points of all bags, the same number of each, drawn by their weights.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    max_points : int
        Most points to draw. If the bags are more, one point of some of them.
    rng : RandomState
        The generator.

    Returns
    -------
    ndarray of shape (n_drawn, n_dims)
        As many points of each bag as the largest has, or as ``max_points`` allows. Systematic: where every point can be
        drawn once or twice, each is. The same ones in whichever order the points of a bag are given.

    Examples
    --------
    >>> bags = Bags.from_arrays([[1.0, 2.0], [5.0]])
    >>> draw_points(bags, 100, np.random.RandomState(0)).ravel()
    array([1., 2., 5., 5.])
    """
    if bags.n_bags > max_points:
        bags = bags[np.sort(rng.choice(bags.n_bags, max_points, replace=False))]
    quota = int(min(max_points // bags.n_bags, bags.sizes.max()))
    ranks = (np.arange(quota) + rng.uniform(size=(bags.n_bags, 1))) / quota  # in (0, 1), of the mass of each bag
    out = np.empty((bags.n_bags, quota, bags.n_dims), bags.dtype)
    for rows in chunks_of(bags, quota * (bags.n_dims + 2)):
        chunk = bags[rows]
        order = order_points(chunk)
        starts = chunk.offsets[:-1, None]
        sizes = chunk.sizes[:, None]
        shares = chunk.shares()
        if shares is None:
            positions = starts + (ranks[rows] * sizes).astype(np.int64)
        else:
            total = np.cumsum(shares[order])  # one more with every bag
            positions = np.searchsorted(total, ranks[rows] + np.arange(chunk.n_bags)[:, None], side="right")
        out[rows] = chunk.points[order[np.clip(positions, starts, starts + sizes - 1)]]
    return out.reshape(-1, bags.n_dims)


def fisher_sums(bags: Bags, frame: CoordinateFrame, shares: Array, means: Array, deviations: Array) -> Array:
    """E[γ_k], E[γ_k z_j] and E[γ_k z_j²] of each bag, a bounded number of points at a time.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    frame : CoordinateFrame
        The coordinates z of the mixture.
    shares, means, deviations : ndarray of shape (K,), (K, n_dims) and (K, n_dims)
        The mixture.

    Returns
    -------
    ndarray of shape (n_bags, K, 1 + 2 n_dims)

    Examples
    --------
    >>> frame = CoordinateFrame(np.zeros(1), np.ones(1), np.ones(1))
    >>> fisher_sums(Bags.from_arrays([[1.0, 3.0]]), frame, np.ones(1), np.zeros((1, 1)), np.ones((1, 1)))
    array([[[1., 2., 5.]]])
    """
    n_dims = bags.n_dims
    weights = bags.shares()
    precisions = deviations**-2
    slopes = np.concatenate([means * precisions, -0.5 * precisions], axis=1).T  # of log γ in z and z²
    constants = np.log(shares) - np.sum(np.log(deviations) + 0.5 * means**2 * precisions, axis=1)
    out = np.zeros((bags.n_bags, len(shares), 1 + 2 * n_dims))
    step = max(64, _SEGMENT_VALUES // (len(shares) + 2 * n_dims))
    for rows, own, starts in segments(bags.offsets, step):
        z = frame.apply(bags.points[rows])
        powers = np.concatenate([np.ones((len(z), 1)), z, z**2], axis=1)
        gamma = powers[:, 1:] @ slopes
        gamma += constants
        gamma -= gamma.max(axis=1, keepdims=True)
        np.exp(gamma, out=gamma)
        sizes = np.diff(starts, append=len(z))
        w = np.repeat(1.0 / bags.sizes[own], sizes) if weights is None else weights[rows]
        gamma *= (w / gamma.sum(axis=1))[:, None]
        out[own] += sums_by_bag(gamma, powers, starts)
    return out


def fisher_vectors(sums: Array, shares: Array, means: Array, deviations: Array) -> Array:
    """Normalised gradients from the sums of :func:`fisher_sums`.

    Parameters
    ----------
    sums : ndarray of shape (n_bags, K, 1 + 2 n_dims)
        E[γ_k], E[γ_k z_j] and E[γ_k z_j²].
    shares, means, deviations : ndarray of shape (K,), (K, n_dims) and (K, n_dims)
        The mixture.

    Returns
    -------
    ndarray of shape (n_bags, K (1 + 2 n_dims))
        All α, then all μ, then all σ, component by component.

    Examples
    --------
    >>> fisher_vectors(np.array([[[1.0, 2.0, 5.0]]]), np.ones(1), np.zeros((1, 1)), np.ones((1, 1))).round(3)
    array([[0.   , 2.   , 2.828]])
    """
    n_bags = len(sums)
    n_dims = means.shape[1]
    mass = sums[:, :, :1]
    first = sums[:, :, 1 : 1 + n_dims]
    second = sums[:, :, 1 + n_dims :]
    roots = np.sqrt(shares)[:, None]
    by_mean = (first - means * mass) / (deviations * roots)
    spread = (second - 2 * means * first + means**2 * mass) / deviations**2
    by_deviation = (spread - mass) / (np.sqrt(2) * roots)
    by_share = (mass[:, :, 0] - shares) / roots[:, 0]
    return np.concatenate([by_share, by_mean.reshape(n_bags, -1), by_deviation.reshape(n_bags, -1)], axis=1)


def signed_roots(features: Array) -> Array:
    """Signed square roots, in rows of length one; a row of zeros stays."""
    roots = np.sign(features) * np.sqrt(np.abs(features))
    norms = np.linalg.norm(roots, axis=1, keepdims=True)
    return np.asarray(roots / np.where(norms > 0, norms, 1.0))


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


@storable(
    _frame="CoordinateFrame",
    n_components_="k",
    _is_improved="bool",
    shares_="finite(k)",
    means_="finite(k, d)",
    deviations_="finite(k, d)",
)
class FisherEmbedding(Additive):
    r"""Embed bags as Fisher vectors: gradients of the log likelihood of one Gaussian mixture for all bags.

    Dot products are Fisher kernels, with the information matrix taken as diagonal. Linear models on Fisher vectors are
    the classic of image classification; points may have any units.

    Parameters
    ----------
    n_components : int, default=16
        K, Gaussians in the mixture.
    covariance : {"diag", "whitened"}, default="diag"
        Gaussians have no correlations in the coordinates as they are, or after a linear map (the symmetric one) that
        makes the covariance of all training points the identity: what a principal component analysis in front does.
    improved : bool, default=False
        Whether entries become signed square roots, and rows then have length one. It often helps to classify images
        (Perronnin, Sanchez and Mensink 2010), and takes away how far a bag is from the mixture; dot products are then
        not Fisher kernels.
    reg : float, default=1e-3
        Added to the variances of components, in units of the variance of all training points.
    max_points : int, default=20_000
        Points to which the mixture is fitted, the same number of each bag.
    random_state : int, RandomState or None, default=None
        Draws the points and starts the fit of the mixture; pass an int for reproducible features.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    n_components_ : int
        Gaussians in use: fewer than ``n_components`` only if fewer different points were drawn.
    shares_ : ndarray of shape (``n_components_``,)
        π, shares of the components.
    means_, deviations_ : ndarray of shape (``n_components_``, n_dims)
        μ and σ, in units of the points; with ``"whitened"`` in the coordinates after the map.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Layout.* K (2 n_dims + 1) features: by the logarithms α of shares, by means, by deviations, component by component.
    A weighted mean over the bag: copies of all points change nothing, nor does the scale of weights.

    *What to expect.* Points drawn from the mixture itself have gradients of mean zero, and where components do not
    overlap of covariance I, but for the shares: I - √π √πᵀ, because shares have a sum of one. So features of a bag of n
    such points are noise of size n^(-1/2), and a bag of few points has long features.

    *Mixture.* By scikit-learn's ``GaussianMixture`` with diagonal covariances, every bag counting alike. That it has
    not converged after 100 rounds does not deserve a warning: features are gradients at whatever mixture there is.

    *Cost.* K n_dims for each point; linear in bags and points. Memory: the result and a working set of a few megabytes
    a thread; ``fit`` holds ``max_points`` points and their responsibilities.

    *Limits.* Where points are far outside the mixture, entries grow with the square of their distance.

    References
    ----------
    Jaakkola and Haussler (1998). Exploiting generative models in discriminative classifiers. NIPS.

    Perronnin and Dance (2007). Fisher kernels on visual vocabularies for image categorization. CVPR.

    Perronnin, Sanchez and Mensink (2010). Improving the Fisher kernel for large-scale image classification. ECCV.

    Sanchez, Perronnin, Mensink and Verbeek (2013). Image classification with the Fisher vector: theory and practice.
    International Journal of Computer Vision.

    Examples
    --------
    With one component the features are how mean and deviation of a bag differ from those of all points:

    >>> from distembed.embeddings.fisher import FisherEmbedding
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(mean, 1, size=5000) for mean in (-1, 0, 1)]
    >>> fisher = FisherEmbedding(1, random_state=0).fit(bags)
    >>> fisher.get_feature_names_out().tolist()
    ['fisher_share_0', 'fisher_mean_0_0', 'fisher_deviation_0_0']
    >>> fisher.transform(bags)[:, 1].round(1) + 0.0  # ±1 over a deviation of √(5/3)
    array([-0.8,  0. ,  0.8])
    """

    def __init__(
        self,
        n_components: int = 16,
        *,
        covariance: str = "diag",
        improved: bool = False,
        reg: float = 1e-3,
        max_points: int = 20_000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.improved = improved
        self.reg = reg
        self.max_points = max_points
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: Any) -> None:
        """Fit the mixture to points of all training bags."""
        from sklearn.mixture import GaussianMixture  # slow to import: only where needed

        n_components = check_number(self, "n_components", self.n_components, low=1, high=100_000, integer=True)
        covariance = check_choice(self, "covariance", self.covariance, COVARIANCES)
        if not isinstance(self.improved, bool | np.bool_):
            raise TypeError(f"FisherEmbedding(improved=...): must be True or False, got {self.improved!r}; use one")
        reg = check_number(self, "reg", self.reg, low=0, high=1, inclusive="right")
        max_points = check_number(
            self,
            "max_points",
            self.max_points,
            low=n_components,
            integer=True,
            remedy="draw more, or lower n_components",
        )
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            self._frame = frame = fit_frame([bags], 1.0, "diag" if covariance == "diag" else "full")
            points = frame.apply(draw_points(bags, max_points, rng))
            points = np.repeat(points, 1 if len(points) > 1 else 2, axis=0)  # the mixture wants two, equal or not
            enough = len(np.unique(points[: 4 * n_components], axis=0)) >= n_components  # as a rule: no sort of all
            self.n_components_ = n_components if enough else min(n_components, len(np.unique(points, axis=0)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                mixture = GaussianMixture(
                    self.n_components_, covariance_type="diag", reg_covar=reg, max_iter=MAX_ITER, random_state=rng
                )
                try:
                    mixture.fit(points)
                except ValueError as error:  # points are finite and enough of them: a variance is not above zero
                    raise ValueError(
                        f"FisherEmbedding(reg=...): must be above the rounding of variances, got {self.reg!r}, and a "
                        "component has a variance that is not positive; raise reg, or lower n_components"
                    ) from error
        self._is_improved = bool(self.improved)
        means = mixture.means_
        deviations = np.sqrt(mixture.covariances_)
        self._mixture = (mixture.weights_, means, deviations)
        diagonal = covariance == "diag"
        self.shares_ = mixture.weights_
        self.means_ = frame.centre + frame.half * means if diagonal else means
        self.deviations_ = frame.half * deviations if diagonal else deviations
        self._n_features_out = self.n_components_ * (1 + 2 * bags.n_dims)

    def __distembed_fits__(self) -> bool:
        return bool(self._n_features_out == self.n_components_ * (1 + 2 * self.n_features_in_))

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        return self._write, chunks_of(bags, 3 * self._n_features_out)

    def _write(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        """Fisher vectors, computed in float64."""
        out[:] = self._from_statistics(self._statistics(bags))

    def _statistics(self, bags: Bags) -> Array:
        return fisher_sums(bags, self._frame, *self._mixture).reshape(bags.n_bags, -1)

    def _from_statistics(self, means: Array) -> Array:
        sums = means.reshape(len(means), self.n_components_, -1)
        features = fisher_vectors(sums, *self._mixture)
        return signed_roots(features) if self._is_improved else features

    def _feature_names(self) -> list[str]:
        """Such as ``fisher_mean_2_0``: by the mean of component 2 in coordinate 0."""
        components = range(self.n_components_)
        dims = range(self.n_features_in_)
        shares = [f"fisher_share_{k}" for k in components]
        return shares + [f"fisher_{part}_{k}_{j}" for part in ("mean", "deviation") for k in components for j in dims]


register(
    Method(
        "fisher", FisherEmbedding, {}, "Fisher distance of mean log likelihoods", "n components l", "yes",
        "shifts and scales of a coordinate", "any", "Jaakkola and Haussler 1998; Perronnin and Dance 2007",
    )
)  # fmt: skip
