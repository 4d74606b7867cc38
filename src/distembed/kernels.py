r"""Kernel matrices from divergences: the Gaussian kernel, repair of negative eigenvalues, and features of landmarks.

.. math:: K_{ij} = \exp(-d^2(p_i, p_j) / (2σ^2))

is positive semidefinite where d is a Hilbertian distance and d² is exact. For other divergences, and for estimates of
d² in any case, K has negative eigenvalues, which support vector machines and kernel ridge regression can't use.
:func:`psd` repairs one matrix and :class:`PSDRepair` the matrix of training bags and the rows of new ones alike, which
costs the cube of the number of bags. :class:`NystroemFeatures` makes no N × N matrix: it compares bags with some
landmarks.

Repairs act on the eigenvalues of K = V Λ Vᵀ (Chen et al. 2009):

========== ======================= ===========================
method     eigenvalues             rows k of new bags
========== ======================= ===========================
``clip``   max(λ, 0)               k V₊ V₊ᵀ
``flip``   abs(λ)                  k V sign(Λ) Vᵀ
``shift``  λ - min(λ_min, 0)       k
``square`` λ²                      k K
========== ======================= ===========================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import bandwidth as bandwidths
from . import density as densities
from ._base import BagEstimator, check_choice, check_number
from .bags import Bags
from .divergences import plugin
from .embeddings.gaussian import inverse_root
from .nodes import MAX_GRID_DIMS

__all__ = ["NystroemFeatures", "PSDRepair", "median_sigma", "psd", "rbf", "symmetrise"]

Array = NDArray[Any]
Divergence = Callable[..., Any]

METHODS = ("clip", "flip", "shift", "square")
DISTANCES = ("js", "hellinger", "tv", "chi2")
_ASYMMETRY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}  # of the largest entry: rounding, not structure
_CHUNK_BAGS = 256  # compared with the landmarks at a time


# --------------------------------------------------------------------------------------------------------------
# Matrices
# --------------------------------------------------------------------------------------------------------------


def _matrix(owner: str, name: str, value: Any, *, square: bool = False) -> Array:
    """A finite 2-D float array, float32 where it is."""
    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"{owner}({name}=...): must be a matrix of numbers, got dtype {array.dtype}; convert it first")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if array.ndim != 2 or not array.size or (square and array.shape[0] != array.shape[1]):
        kind = "a square matrix" if square else "a matrix, not empty"
        raise ValueError(f"{owner}({name}=...): must be {kind}, got shape {array.shape}; pass one row a bag")
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"{owner}({name}=...): must be finite, got {array[i, j]} in row {i}, column {j}; replace such entries, or "
            "use an estimate that is finite"
        )
    return array


def _check_symmetric(owner: str, K: Array) -> None:
    off = float(np.max(np.abs(K - K.T)))
    if off > _ASYMMETRY[K.dtype] * float(np.max(np.abs(K))):
        raise ValueError(
            f"{owner}: K must be symmetric, got entries that differ from their mirror image by up to {off:.3g}; "
            "use symmetrise(K)"
        )


def median_sigma(distances_squared: Any) -> float:
    """The root of the median squared distance: a scale of the Gaussian kernel that fits the data.

    Parameters
    ----------
    distances_squared : array-like of shape (n_bags, n_bags_of_Y)
        Squared distances, or estimates of them. Those on the diagonal of a square matrix do not count, nor do those
        that are not positive: equal bags, and estimates below zero.

    Returns
    -------
    float
        1.0 if no entry counts: then all values of the kernel are one, whatever σ.

    Examples
    --------
    >>> from distembed.kernels import median_sigma
    >>> median_sigma([[0.0, 4.0, 4.0], [4.0, 0.0, 9.0], [4.0, 9.0, 0.0]])
    2.0
    """
    d2 = _matrix("median_sigma", "distances_squared", distances_squared)
    counts = d2 > 0
    if d2.shape[0] == d2.shape[1]:
        np.fill_diagonal(counts, False)
    return float(np.sqrt(np.median(d2[counts].astype(np.float64)))) if counts.any() else 1.0


def rbf(distances_squared: Any, sigma: float | str = "median") -> Array:
    """The Gaussian kernel exp(-d² / (2σ²)) of squared distances.

    Parameters
    ----------
    distances_squared : array-like of shape (n_bags, n_bags_of_Y)
        Squared distances d², or estimates of them; any divergence will do. Negative estimates count as zero.
    sigma : float or "median", default="median"
        σ > 0. ``"median"``: :func:`median_sigma` of this matrix. For rows of new bags give the number found for the
        training bags.

    Returns
    -------
    ndarray of shape (n_bags, n_bags_of_Y)
        float32 for a float32 matrix, else float64. As symmetric as ``distances_squared``, see :func:`symmetrise`.

    Notes
    -----
    Estimates on the diagonal stay as they are: where they are not zero, the kernel of a bag with itself is below one.

    Examples
    --------
    >>> from distembed.kernels import rbf
    >>> rbf([[0.0, 2.0], [2.0, 0.0]], sigma=1).round(4)  # exp(-1)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    d2 = _matrix("rbf", "distances_squared", distances_squared)
    if isinstance(sigma, str):
        check_choice("rbf", "sigma", sigma, ("median",))
        sigma = median_sigma(d2)
    remedy = "give a positive number, or 'median'"
    sigma = check_number("rbf", "sigma", sigma, low=0, inclusive="neither", remedy=remedy)
    scaled = np.maximum(d2, 0).astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-(scaled / sigma) / (2 * sigma)), dtype=d2.dtype)  # σ² may be no float


def symmetrise(K: Any) -> Array:
    """(K + Kᵀ) / 2: both directions of an asymmetric divergence, or of a kernel on it, averaged.

    Parameters
    ----------
    K : array-like of shape (n_bags, n_bags)

    Returns
    -------
    ndarray of shape (n_bags, n_bags)
        Symmetric to the last bit. float32 for a float32 matrix, else float64.

    Examples
    --------
    >>> from distembed.kernels import symmetrise
    >>> symmetrise([[0.0, 1.0], [3.0, 0.0]])
    array([[0., 2.],
           [2., 0.]])
    """
    K = _matrix("symmetrise", "K", K, square=True)
    return np.asarray(K / 2 + K.T / 2)  # halves first: no sum overflows


def _parts(K: Array) -> tuple[Array, Array]:
    """Eigenvalues, zero where they are rounding, and eigenvectors of a symmetric matrix, in float64."""
    values, vectors = np.linalg.eigh(symmetrise(K).astype(np.float64))
    rounding = len(K) * np.finfo(K.dtype).eps * np.max(np.abs(values))
    values[np.abs(values) <= rounding] = 0.0
    return values, vectors


def _negative_share(values: Array) -> float:
    return float(-np.sum(values[values < 0]) / (np.sum(np.abs(values)) or 1.0))


def _repaired(K: Array, values: Array, vectors: Array, method: str) -> Array:
    if method == "shift":
        wide = K.astype(np.float64)
        wide[np.diag_indices_from(wide)] -= min(values[0], 0.0)
        return symmetrise(wide).astype(K.dtype)
    new = {"clip": np.maximum(values, 0.0), "flip": np.abs(values), "square": values**2}[method]
    return symmetrise((vectors * new) @ vectors.T).astype(K.dtype)


def psd(K: Any, method: str = "clip") -> Array:
    """Make a symmetric matrix positive semidefinite by another choice of its eigenvalues.

    Parameters
    ----------
    K : array-like of shape (n_bags, n_bags)
        Symmetric up to rounding.
    method : {"clip", "flip", "shift", "square"}, default="clip"
        What becomes of an eigenvalue λ:

        - ``"clip"``: max(λ, 0), the nearest positive semidefinite matrix in Frobenius norm;
        - ``"flip"``: abs(λ);
        - ``"shift"``: λ - min(λ_min, 0), which changes the diagonal alone;
        - ``"square"``: λ², that is K Kᵀ.

    Returns
    -------
    ndarray of shape (n_bags, n_bags)
        Symmetric to the last bit, no eigenvalue negative up to rounding. float32 for a float32 matrix, else float64;
        computed in float64.

    Notes
    -----
    Cost: the eigenvectors, about 10 n_bags³ operations. The training matrix alone does not tell what becomes of the
    rows of new bags: see :class:`PSDRepair`.

    References
    ----------
    Chen, Garcia, Gupta, Rahimi and Cazzanti (2009). Similarity-based classification: concepts and algorithms. JMLR.

    Examples
    --------
    >>> from distembed.kernels import psd
    >>> K = np.diag([-2.0, 0.0, 1.0])
    >>> [np.diag(psd(K, method)).tolist() for method in ("clip", "flip", "shift", "square")]
    [[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 2.0, 3.0], [4.0, 0.0, 1.0]]
    """
    method = check_choice("psd", "method", method, METHODS)
    K = _matrix("psd", "K", K, square=True)
    _check_symmetric("psd", K)
    return _repaired(K, *_parts(K), method)


class PSDRepair(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Make a precomputed kernel matrix positive semidefinite, and treat the rows of new bags alike.

    For pipelines with ``SVC(kernel="precomputed")`` or ``KernelRidge(kernel="precomputed")``, where the kernel comes
    from estimates of divergences. Cross-validation slices rows and columns, as for those models.

    Parameters
    ----------
    method : {"clip", "flip", "shift", "square"}, default="clip"
        What becomes of negative eigenvalues, see :func:`psd`.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_bags,) of float64
        Of the training matrix, increasing; those within rounding of zero are zero.
    negative_share_ : float
        Sum of the negative eigenvalues over the sum of all, by their absolute values: how much there is to repair.
    shift_ : float
        What ``"shift"`` adds to the diagonal of the training matrix; zero for other methods.
    n_features_in_ : int
        Number of training bags.
    feature_names_in_ : ndarray of shape (n_bags,) of object
        There only when the training matrix had column names, all of them text.

    Notes
    -----
    *New rows.* With K = V Λ Vᵀ, the rows k of new bags become k V₊ V₊ᵀ (``"clip"``), k V sign(Λ) Vᵀ (``"flip"``) or
    k K (``"square"``). For the rows of the training matrix that is its repair, so ``fit_transform(K)`` equals
    ``fit(K).transform(K)``. Eigenvectors of eigenvalue zero count as absent.

    *Shift* is different: it says that a bag is nearer to itself than its kernel with other bags tells, so rows of new
    bags stay as they are. ``transform`` takes all rows for new bags: ``fit_transform(K)`` has the shift on its diagonal
    and ``fit(K).transform(K)`` has not.

    *Cost.* About 10 n_bags³ operations in ``fit``, 2 n_bags² for each new row.

    References
    ----------
    Chen, Garcia, Gupta, Rahimi and Cazzanti (2009). Similarity-based classification: concepts and algorithms. JMLR.

    Examples
    --------
    >>> from distembed.kernels import PSDRepair
    >>> K = np.array([[0.0, 1.0], [1.0, 0.0]])  # eigenvalues 1 and -1
    >>> repair = PSDRepair("clip").fit(K)
    >>> repair.transform([[1.0, 0.0]]), repair.negative_share_
    (array([[0.5, 0.5]]), 0.5)
    """

    def __init__(self, method: str = "clip") -> None:
        self.method = method

    def fit(self, X: Any, y: object = None) -> Self:
        """Find the eigenvectors of the training matrix.

        Parameters
        ----------
        X : array-like of shape (n_bags, n_bags)
            Kernel matrix of the training bags, symmetric.
        y : Ignored

        Returns
        -------
        self
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: object = None) -> Array:
        """Repair the training matrix.

        Parameters
        ----------
        X : array-like of shape (n_bags, n_bags)
            Kernel matrix of the training bags, symmetric.
        y : Ignored

        Returns
        -------
        ndarray of shape (n_bags, n_bags)
            What :func:`psd` gives: float32 for a float32 matrix, else float64.
        """
        return _repaired(*self._fit(X), self.method)

    def _fit(self, X: Any) -> tuple[Array, Array, Array]:
        method = check_choice(self, "method", self.method, METHODS)
        K = validate_data(self, X, dtype=[np.float64, np.float32])
        if K.shape[0] != K.shape[1]:
            raise ValueError(
                f"PSDRepair: fit must have a square matrix, the kernel of the training bags, got shape {K.shape}; pass "
                "rows of new bags to transform"
            )
        _check_symmetric("PSDRepair", K)
        values, vectors = _parts(K)
        self.eigenvalues_ = values
        self.negative_share_ = _negative_share(values)
        self.shift_ = float(max(-values[0], 0.0)) if method == "shift" else 0.0
        factors = {"clip": values > 0, "flip": np.sign(values), "square": values}.get(method)
        self._map = None if factors is None else (vectors * factors) @ vectors.T  # what new rows are multiplied by
        return K, values, vectors

    def transform(self, X: Any) -> Array:
        """Treat rows of new bags as the training matrix was treated.

        Parameters
        ----------
        X : array-like of shape (n_new_bags, n_bags)
            Kernel between new bags and the training bags.

        Returns
        -------
        ndarray of shape (n_new_bags, n_bags)
            float32 for float32 rows, else float64.
        """
        check_is_fitted(self)
        K = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        rows = K.copy() if self._map is None else K @ self._map
        return np.asarray(rows, dtype=K.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# --------------------------------------------------------------------------------------------------------------
# Features
# --------------------------------------------------------------------------------------------------------------


class NystroemFeatures(BagEstimator):
    r"""Features of bags whose dot products approximate exp(-d² / (2σ²)), for any divergence d² between bags.

    .. math:: φ(x) = \big(k(x, l_1), …, k(x, l_L)\big) K^{-1/2}, \qquad k = \exp(-d^2 / (2σ^2))

    with the kernel matrix K of L landmark bags, drawn from the training bags: cost linear in the number of bags where a
    kernel matrix is quadratic, and a row for new bags at any time.

    Parameters
    ----------
    divergence : {"js", "hellinger", "tv", "chi2"} or callable, default="js"
        What d² is. A name: :func:`distembed.divergences.plugin` with kernel density estimates on a grid, for points in
        the unit cube of at most three dimensions, their bandwidth chosen once, from the training bags. A callable:
        ``divergence(X)`` and ``divergence(X, Y)`` take bags and return ndarrays of shape (n_bags, n_bags) and (n_bags,
        n_bags_of_Y), e.g. ``functools.partial(gaussian, divergence="skl")``. Bags come in float64, without points of
        weight zero.
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
        divergence: str | Divergence = "js",
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
        bags = self._check_bags(X, reset=True)
        self._compare = self._resolve(bags._without_weightless())
        chosen = np.arange(bags.n_bags)
        if bags.n_bags > n_landmarks:
            rng = check_random_state(self.random_state)
            chosen = np.sort(rng.choice(bags.n_bags, n_landmarks, replace=False))
        self.landmarks_ = chosen
        self.n_landmarks_ = self._n_features_out = len(chosen)
        self._bags = _plain(bags[chosen])
        d2 = self._checked(self._compare(self._bags), self._bags)
        off = ~np.eye(len(d2), dtype=bool)
        if off.any() and np.mean(np.diag(d2)) > max(np.mean(d2[off]), 0.0):
            raise ValueError(
                "NystroemFeatures(divergence=...): must be zero or small between a bag and itself, got "
                f"{np.mean(np.diag(d2)):.3g} on average there and {np.mean(d2[off]):.3g} between different bags; pass "
                "a divergence, not a kernel"
            )
        self.symmetric_ = bool(np.max(np.abs(d2 - d2.T)) <= 1e-8 * np.max(np.abs(d2)))
        d2 = symmetrise(d2)
        self.sigma_ = median_sigma(d2) if isinstance(self.sigma, str) else float(self.sigma)
        self._root, self.negative_share_ = inverse_root(rbf(d2, self.sigma_))
        return self

    def _resolve(self, bags: Bags) -> Divergence:
        """The function that compares bags; that of a name with a bandwidth fixed by these bags."""
        if callable(self.divergence):
            return self.divergence
        if not isinstance(self.divergence, str):
            raise TypeError(
                f"NystroemFeatures(divergence=...): must be one of {', '.join(map(repr, DISTANCES))} or a callable, "
                f"got {self.divergence!r}; pass a function of two collections of bags"
            )
        name = check_choice(self, "divergence", self.divergence, DISTANCES)
        if bags.n_dims > MAX_GRID_DIMS:
            raise ValueError(
                f"NystroemFeatures(divergence=...): {name!r} must have points of at most {MAX_GRID_DIMS} dimensions, "
                f"got {bags.n_dims}; pass a callable, e.g. functools.partial(divergences.gaussian, divergence='skl')"
            )
        h = bandwidths.resolve("distance", bags.astype(np.float64), densities.get("kde").boundaries(bags.n_dims))
        return partial(plugin, distance=name, density="kde", bandwidth=h.tolist())

    def _checked(self, d2: Any, X: Bags, Y: Bags | None = None) -> Array:
        """What a divergence returned, as float64."""
        array = _matrix("NystroemFeatures", "divergence", d2)
        wanted = (X.n_bags, X.n_bags if Y is None else Y.n_bags)
        if array.shape != wanted:
            raise ValueError(
                f"NystroemFeatures(divergence=...): must return a matrix of shape {wanted}, one row for each bag of X "
                f"and one column for each of Y, got {array.shape}; correct the callable"
            )
        return array.astype(np.float64, copy=False)

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
        bags = self._check_bags(X, reset=False)
        out = np.empty((bags.n_bags, self.n_landmarks_), bags.dtype)
        for start in range(0, bags.n_bags, _CHUNK_BAGS):
            chunk = _plain(bags[start : start + _CHUNK_BAGS])
            d2 = self._checked(self._compare(chunk, self._bags), chunk, self._bags)
            if not self.symmetric_:
                d2 = d2 / 2 + self._checked(self._compare(self._bags, chunk), self._bags, chunk).T / 2
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


def _plain(bags: Bags) -> Bags:
    """Bags in float64, without points of weight zero: divergences between bags that are alike live on small digits."""
    return bags._without_weightless().astype(np.float64)
