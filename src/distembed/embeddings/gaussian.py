r"""Kernels between Gaussian fits of bags, as features: Nyström's method on landmark bags.

For a kernel k on Gaussians and L landmark bags with kernel matrix K the features of a bag are

.. math:: φ(x) = \big(k(x, l_1), …, k(x, l_L)\big) K^{-1/2}, \qquad φ(x)·φ(y) = k_x^T K^{-1} k_y,

the best approximation of k(x, y) from what the landmarks see of both, and exact where x or y is a landmark. The root is
the symmetric one: unlike K's eigenvectors it is a continuous function of K, whatever their signs and order.

Landmarks are drawn one after the other, each with a probability in proportion to k(x, x) - φ(x)·φ(x), what those before
it miss (randomly pivoted Cholesky): bags that are alike are not drawn twice. Those of a kernel that is not positive
definite are drawn evenly: what they miss has no meaning there, and to follow it hides the negative part from K.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import MAX_FEATURES, BagEmbedding, Writer
from ..bags.moments import chunks_of, fit_frame
from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message, check_choice, check_number
from ..compute.parallel import one_blas_thread
from ..compute.registry import storable
from ..divergences.gaussians import (
    COVARIANCES,
    Fits,
    check_integrals,
    fit_all,
    fit_gaussians,
    log_self,
    pair_values,
    parse,
)
from .catalogue import Method, register

KERNELS = ("bhattacharyya", "skl")
LEAST_EIGENVALUE = 1e-12  # of the largest: some thousand times the rounding error of the kernel matrix
CANDIDATES = 5  # bags from which a landmark is drawn, for each landmark
MEDIAN_BAGS = 200
# of bags whose nearest landmarks overlap less, features tell nothing
SOME_BAGS = 10
LEAST_OVERLAP = 0.02
SIGMAS = (1e-6, 1e6)  # below is rounding of the divergence


def inverse_root(K: Array) -> tuple[Array, float]:
    """K^(-1/2) of the positive part of a symmetric matrix, and how much of the matrix is negative.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric.

    Returns
    -------
    root : ndarray of shape (n, n)
        V Λ^(-1/2) Vᵀ, without eigenvalues below 1e-12 of the largest, and below the size of the most negative one.
    negative_share : float
        Sum of negative eigenvalues over the sum of all, by their absolute values; those below 1e-12 of the largest
        count as zero. Zero for a matrix of zeros.

    Notes
    -----
    A positive definite kernel bounds what a bag x adds along an eigenvector: (k_x · v)² <= λ k(x, x). Where the matrix
    has an eigenvalue -ε the kernel keeps no such bound, and eigenvalues below ε would blow features up.

    Examples
    --------
    >>> inverse_root(np.diag([4.0, -1.0, 0.5]))
    (array([[0.5, 0. , 0. ],
           [0. , 0. , 0. ],
           [0. , 0. , 0. ]]), 0.18181818181818182)
    """
    values, vectors = np.linalg.eigh(K)
    least = LEAST_EIGENVALUE * np.max(np.abs(values))
    kept = values > max(least, -values[0])
    root = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    negative = -np.sum(values[values < -least])
    return np.asarray(root), float(negative / (np.sum(np.abs(values)) or 1.0))


def draw_landmarks(kernel: Any, diagonal: Array, n_landmarks: int, rng: np.random.RandomState) -> Array:
    """Positions of landmarks, drawn by what the ones before them miss (Chen, Epperly, Tropp and Webber 2025).

    Parameters
    ----------
    kernel : callable
        ``kernel(i)`` gives the values k(x, x_i) for all n candidates, ndarray of shape (n,).
    diagonal : ndarray of shape (n,)
        k(x, x).
    n_landmarks : int
        How many to draw at most: fewer where nothing is left to see.
    rng : RandomState
        The generator.

    Returns
    -------
    ndarray of shape (n_landmarks,) of int
        All different, increasing.

    Examples
    --------
    >>> K = np.kron(np.eye(2), np.ones((3, 3)))  # two groups of three equal bags
    >>> found = draw_landmarks(lambda i: K[i], np.ones(6), 4, np.random.RandomState(0))
    >>> (found // 3).tolist()  # one of each
    [0, 1]
    """
    missed = diagonal.astype(np.float64)
    factors = np.zeros((len(diagonal), n_landmarks))
    least = LEAST_EIGENVALUE * missed.max()
    chosen: list[int] = []
    while len(chosen) < n_landmarks and missed.any():
        pivot = int(rng.choice(len(missed), p=missed / missed.sum()))
        column = kernel(pivot) - factors @ factors[pivot]
        factors[:, len(chosen)] = column / np.sqrt(missed[pivot])
        missed -= factors[:, len(chosen)] ** 2
        missed[pivot] = 0.0
        missed[missed < least] = 0.0
        chosen.append(pivot)
    return np.sort(np.array(chosen, dtype=np.int64))


@storable(
    _rho="number",
    _reg="number",
    _frame="CoordinateFrame",
    _fits="Fits",
    landmarks_="int(k)",
    n_landmarks_="k",
    _root="finite(k, m)",
    sigma_="number",
)
class GaussianEmbedding(BagEmbedding):
    r"""Embed bags so that dot products approximate a kernel between their Gaussian fits.

    Only mean and covariance of a bag are seen, but those exactly, in any number of dimensions, and points may have any
    units. For a linear model to compare with, and where bags are too small for their densities.

    Parameters
    ----------
    kernel : {"bhattacharyya", "product:<rho>", "skl"}, default="bhattacharyya"
        Of the fits p and q:

        - ``"bhattacharyya"``: ∫ √(pq), so squared distances of features are twice Hellinger's;
        - ``"product:<rho>"``: the probability product kernel ∫ p^ρ q^ρ, e.g. ``"product:1"``; see ``normalize``,
          and ρ <= 1000;
        - ``"skl"``: exp(-(KL(p, q) + KL(q, p)) / (2 σ²)).
    n_landmarks : int, default=100
        L, the number of training bags that features refer to; all of them if they are fewer.
    covariance : {"full", "diag"}, default="full"
        Covariance matrices, or variances alone.
    reg : float, default=1e-3
        Shrinkage in (0, 1] of a bag's covariance towards that of all training bags, see
        :func:`distembed.divergences.gaussian`. The knob to tune: raise it for bags of few points in many dimensions.
    sigma : float or "median", default="median"
        σ of ``"skl"`` in [1e-6, 1e6], ignored by others. ``"median"``: the median of √(KL + KL) over pairs of 200
        training bags.
    normalize : bool, default=True
        Whether ``"product:<rho>"`` is divided by √(∫ p^2ρ ∫ q^2ρ), so k(p, p) = 1 and units do not matter. Without
        it narrow bags have much longer features than wide ones, by powers of their volume, and units in which features
        overflow are refused. For ρ = 1/2 it makes no difference.
    random_state : int, RandomState or None, default=None
        Draws the landmarks. Not used where all training bags are landmarks.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    landmarks_ : ndarray of shape (``n_landmarks_``,)
        Positions of the landmarks among the training bags.
    n_landmarks_ : int
        Their number, and that of features.
    sigma_ : float
        σ in use; only for ``"skl"``.
    negative_share_ : float
        Sum of the negative eigenvalues of the landmarks' kernel matrix over the sum of all, by their absolute values.
        They are dropped, and with them positive ones below the size of the most negative one, which would blow up
        features of new bags. ``"skl"`` has some: it is not a positive definite kernel. The others have none.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Method.* Nyström's (Williams and Seeger 2001), with the symmetric root of the landmarks' kernel matrix; eigenvalues
    below 1e-12 of the largest are dropped. Dot products are exact between a landmark and any bag; elsewhere lengths and
    squared distances are never too large, and dot products are off either way, by less the more landmarks there are.
    For ``"skl"`` all that is up to what is dropped.

    *Landmarks* are drawn from 5 L training bags (evenly drawn), each by what the ones before it miss. Bags that are
    alike are drawn once, so there may be fewer than ``n_landmarks``. Those of ``"skl"`` are drawn evenly.

    *Cost* a bag: n_dims² for each of its points, and L (n_dims³/3 + L) besides; linear in the number of bags. Memory:
    the result and a working set of a few megabytes a thread.

    *Limits.* Bags with equal mean and covariance are one to it. A bag of fewer points than dimensions has a covariance
    that ``reg`` alone decides in most directions.

    References
    ----------
    Jebara, Kondor and Howard (2004). Probability product kernels. JMLR.

    Moreno, Ho and Vasconcelos (2003). A Kullback-Leibler divergence based kernel for SVM classification in multimedia
    applications. NIPS.

    Williams and Seeger (2001). Using the Nyström method to speed up kernel machines. NIPS.

    Chen, Epperly, Tropp and Webber (2025). Randomly pivoted Cholesky: practical approximation of a kernel matrix with
    few entry evaluations. Communications on Pure and Applied Mathematics.

    Examples
    --------
    >>> from distembed.embeddings.gaussian import GaussianEmbedding
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(0, 1, size=20_000), rng.normal(1, 1, size=20_000)]
    >>> Z = GaussianEmbedding().fit_transform(bags)
    >>> (Z @ Z.T).round(2)  # the true value is exp(-1/8)
    array([[1.  , 0.88],
           [0.88, 1.  ]])
    """

    def __init__(
        self,
        kernel: str = "bhattacharyya",
        *,
        n_landmarks: int = 100,
        covariance: str = "full",
        reg: float = 1e-3,
        sigma: float | str = "median",
        normalize: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.covariance = covariance
        self.reg = reg
        self.sigma = sigma
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: Any) -> None:
        """Pool the covariances of training bags and choose landmarks among them."""
        kind, self._rho = parse(self, "kernel", self.kernel, KERNELS)
        n_landmarks = check_number(self, "n_landmarks", self.n_landmarks, low=1, high=10_000, integer=True)
        self._covariance = check_choice(self, "covariance", self.covariance, COVARIANCES)
        self._reg = check_number(self, "reg", self.reg, low=0, high=1, inclusive="right")
        n_numbers = bags.n_dims * (bags.n_dims + 3) // 2
        if self._covariance == "full" and n_numbers > MAX_FEATURES:
            raise ValueError(
                f"GaussianEmbedding(covariance='full'): a Gaussian of {bags.n_dims:,} dimensions has {n_numbers:,} "
                f"numbers per bag, more than {MAX_FEATURES:,}, and each pair of them takes {bags.n_dims:,}^3 "
                "multiplications; use covariance='diag', look at few dimensions at a time with Marginals, or fewer"
            )
        if not isinstance(self.normalize, bool | np.bool_):
            raise TypeError(f"GaussianEmbedding(normalize=...): must be True or False, got {self.normalize!r}; use one")
        if isinstance(self.sigma, str):
            check_choice(self, "sigma", self.sigma, ("median",))
        else:
            check_number(self, "sigma", self.sigma, low=SIGMAS[0], high=SIGMAS[1], remedy="choose one, or 'median'")
        self._kind = "affinity" if kind == "product" and self.normalize else kind
        self._prefix = self.kernel
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            self._frame = fit_frame([bags], self._reg, self._covariance)
            few = np.arange(bags.n_bags)
            if bags.n_bags > n_landmarks:
                most = min(bags.n_bags, max(CANDIDATES * n_landmarks, MEDIAN_BAGS))
                few = np.sort(rng.choice(bags.n_bags, most, replace=False))
                bags = bags[few]
            fits = fit_all(bags, self._frame, self._reg, self._covariance, self._kind == "skl")
            self._check_units(fits, bags.dtype, small=True)
            self._choose_sigma(fits)
            if len(few) > n_landmarks:
                if self._kind == "skl":
                    found = np.sort(rng.choice(len(few), n_landmarks, replace=False))
                else:
                    found = draw_landmarks(
                        lambda i: self._values(fits, fits.take([i]))[:, 0], self._diagonal(fits), n_landmarks, rng
                    )
                rest = np.setdiff1d(np.arange(len(few)), found)
                few = few[found]
                chosen = fits.take(found)
            else:
                rest = few[:0]
                chosen = fits
            self._fits = chosen
            self.landmarks_ = few
            self.n_landmarks_ = self._n_features_out = len(few)
            values = self._values(chosen, chosen)
            self._root, self.negative_share_ = inverse_root(values)
            if len(rest):  # bags that are no landmarks tell more than these, which were drawn because they differ
                values = self._values(fits.take(rest[:: -(-len(rest) // SOME_BAGS)]), chosen)
            else:
                values = values - np.diag(np.diag(values))
        if self._kind != "product" and len(few) >= SOME_BAGS and np.median(values.max(axis=1)) < LEAST_OVERLAP:
            warnings.warn(
                Message(
                    "GaussianEmbedding: the Gaussian fits of the training bags hardly overlap, so features of "
                    "different bags are orthogonal and carry no information; raise ",
                    Argument("reg"),
                    ", use ",
                    Argument("kernel", "skl"),
                    ", or look at fewer dimensions at a time with ",
                    Argument("Marginals"),
                ),
                UserWarning,
                stacklevel=3,
            )

    def _choose_sigma(self, fits: Fits) -> None:
        """Set ``sigma_`` for the kernel that has one."""
        if hasattr(self, "sigma_"):
            del self.sigma_  # of an earlier fit
        if self._kind != "skl":
            return
        self.sigma_: float = 1.0 if isinstance(self.sigma, str) else float(self.sigma)
        if not isinstance(self.sigma, str):
            return
        n = len(fits.log_dets)
        some = fits.take(np.linspace(0, n - 1, min(n, MEDIAN_BAGS)).round().astype(int))
        squares = pair_values("skl", self._rho, some, some, self._frame, self._reg, Scratch())
        distances = np.sqrt(squares[np.triu_indices(len(squares), 1)])
        if len(distances) and distances.max() > 0:
            self.sigma_ = float(np.clip(np.median(distances) or np.mean(distances), *SIGMAS))

    def _check_units(self, fits: Fits, dtype: Any, *, small: bool) -> None:
        """Refuse fits whose kernel has units in which features overflow."""
        if self._kind == "product":
            logs = log_self(fits, self._rho, self._frame)
            check_integrals("GaussianEmbedding", logs, self._rho, dtype, root=True, small=small)

    def _values(self, p: Fits, q: Fits, scratch: Scratch | None = None) -> Array:
        """The kernel between fits, ndarray of shape (len(p), len(q))."""
        values = pair_values(self._kind, self._rho, p, q, self._frame, self._reg, scratch or Scratch())
        return np.asarray(np.exp(values / (-2 * self.sigma_**2))) if self._kind == "skl" else values

    def _diagonal(self, fits: Fits) -> Array:
        """The kernel between each fit and itself, ndarray of shape (n_bags,)."""
        if self._kind == "product":
            return np.asarray(np.exp(log_self(fits, self._rho, self._frame)))
        return np.ones(len(fits.log_dets))

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        return self._write, chunks_of(bags, 4 * bags.n_dims**2 + 2 * self._n_features_out)

    def _write(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        """Kernel values with the landmarks, in float64, times the root."""
        fits = fit_gaussians(bags, self._frame, self._reg, covariance=self._covariance, precisions=self._kind == "skl")
        self._check_units(fits, bags.dtype, small=False)  # wide bags may well have features of zero
        out[:] = self._values(fits, self._fits, scratch) @ self._root

    def _feature_names(self) -> list[str]:
        """Such as ``bhattacharyya_3``: the kernel and the landmark."""
        return [f"{self._prefix}_{i}" for i in range(self._n_features_out)]


_COST = "n l^2 + landmarks (l^3 + landmarks)"
_AFFINE = "affine changes of coordinates"
register(
    Method(
        "bhattacharyya", GaussianEmbedding, {"kernel": "bhattacharyya"}, "2 - 2 BC of Gaussian fits", _COST, "yes",
        _AFFINE, "any", "Jebara, Kondor and Howard 2004",
    ),
    Method(
        "skl", GaussianEmbedding, {"kernel": "skl"}, "2 - 2 exp(-SKL / 2 sigma^2) of Gaussian fits", _COST,
        "no: negative part dropped", _AFFINE, "any", "Moreno, Ho and Vasconcelos 2003",
    ),
)  # fmt: skip
