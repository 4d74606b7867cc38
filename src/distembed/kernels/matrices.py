"""Matrices of squared distances to kernels, and kernels with negative eigenvalues to positive ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compute.arrays import Array
from ..compute.checks import InputError, check_choice, check_number
from ..compute.registry import storable

METHODS = ("clip", "flip", "shift", "square")
_ROUNDING = 1e-12  # of large squared distances
_ASYMMETRY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}  # of the largest entry: rounding, not structure


# --------------------------------------------------------------------------------------------------------------
# Matrices
# --------------------------------------------------------------------------------------------------------------


def check_matrix(owner: str, name: str, value: Any, *, square: bool = False) -> Array:
    """A finite 2-D float array, float32 where it is."""
    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"{owner}({name}=...): must be a matrix of numbers, got dtype {array.dtype}; convert it first")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if array.ndim != 2 or not array.size or (square and array.shape[0] != array.shape[1]):
        kind = "a square matrix" if square else "a matrix, not empty"
        raise ValueError(f"{owner}({name}=...): must be {kind}, got shape {array.shape}; pass one row per bag")
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0]
        raise InputError(
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


def check_sigma(owner: object, sigma: Any) -> float | None:
    """The scale of a Gaussian kernel, or None for ``"median"``."""
    if isinstance(sigma, str):
        check_choice(owner, "sigma", sigma, ("median",))
        return None
    remedy = "give a positive number, or 'median'"
    return check_number(owner, "sigma", sigma, low=0, inclusive="neither", remedy=remedy)


def median_sigma(distances_squared: Any) -> float:
    """The root of the median squared distance: a scale of the Gaussian kernel that fits the data.

    Parameters
    ----------
    distances_squared : array-like of shape (n_bags, n_bags_of_Y)
        Squared distances, or estimates of them. Those on the diagonal of a square matrix do not count, nor do those
        that are not positive, or are so up to 1e-12 of large ones, their 90 % quantile: equal bags, and estimates below
        zero.

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
    d2 = check_matrix("median_sigma", "distances_squared", distances_squared)
    counts = d2 > 0
    if d2.shape[0] == d2.shape[1]:
        np.fill_diagonal(counts, False)
    found = d2[counts].astype(np.float64)
    if not len(found):
        return 1.0
    return float(np.sqrt(np.median(found[found > _ROUNDING * np.quantile(found, 0.9)])))


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
    d2 = check_matrix("rbf", "distances_squared", distances_squared)
    sigma = check_sigma("rbf", sigma) or median_sigma(d2)
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
    K = check_matrix("symmetrise", "K", K, square=True)
    return np.asarray(K / 2 + K.T / 2)  # halves first: no sum overflows


def _eigen(K: Array) -> tuple[Array, Array]:
    """Eigenvalues, zero where they are rounding, and eigenvectors of a symmetric matrix, in float64."""
    values, vectors = np.linalg.eigh(symmetrise(K).astype(np.float64))
    rounding = len(K) * np.finfo(K.dtype).eps * np.max(np.abs(values))
    values[np.abs(values) <= rounding] = 0.0
    return values, vectors


def _repair(K: Array, values: Array, vectors: Array, method: str) -> Array:
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
        How to change an eigenvalue λ:

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
    Cost: the eigenvectors, about 10 n_bags³ operations. The training matrix alone does not determine how rows of new
    bags change: see :class:`PSDRepair`.

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
    K = check_matrix("psd", "K", K, square=True)
    _check_symmetric("psd", K)
    return _repair(K, *_eigen(K), method)


# --------------------------------------------------------------------------------------------------------------
# Steps of a pipeline
# --------------------------------------------------------------------------------------------------------------


class _MatrixTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of the steps from one matrix of training bags to another: cross-validation slices rows and columns."""

    def _training_matrix(self, X: Any, what: str) -> Array:
        matrix: Array = validate_data(self, X, dtype=[np.float64, np.float32])
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"{type(self).__name__}: fit must have a square matrix, {what}, got shape {matrix.shape}; pass rows of "
                "new bags to transform"
            )
        return matrix

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@storable(sigma_="number")
class RBFKernel(_MatrixTransformer):
    r"""The Gaussian kernel of a matrix of squared distances, with a scale found from the training bags.

    .. math:: K_{ij} = \exp(-d^2_{ij} / (2σ^2))

    An ordinary transformer of matrices, for pipelines behind :class:`DivergenceMatrix` or on distances computed before:
    then cross-validation slices rows and columns.

    Parameters
    ----------
    sigma : float or "median", default="median"
        Scale of the kernel, in units of the distance d. ``"median"``: :func:`~distembed.kernels.median_sigma` of the
        training matrix.
    sigma_scale : float, default=1.0
        Multiplies ``sigma``; with ``"median"`` this is the knob to tune.

    Attributes
    ----------
    sigma_ : float
        σ in use, ``sigma_scale`` included.
    n_features_in_ : int
        Number of training bags.
    feature_names_in_ : ndarray of shape (n_bags,) of object
        There only when the training matrix had column names, all of them text.

    Notes
    -----
    Negative estimates of d² count as zero. The kernel is as symmetric as the matrix; it is positive semidefinite if d
    is a Hilbertian distance and d² is exact, see :class:`~distembed.kernels.PSDRepair` for all else.

    Examples
    --------
    >>> from distembed.kernels import RBFKernel
    >>> kernel = RBFKernel().fit([[0.0, 4.0, 4.0], [4.0, 0.0, 9.0], [4.0, 9.0, 0.0]])
    >>> kernel.sigma_
    2.0
    >>> kernel.transform([[8.0, 0.0, -1.0]]).round(4)  # exp(-1), and a negative estimate
    array([[0.3679, 1.    , 1.    ]])
    """

    def __init__(self, sigma: float | str = "median", *, sigma_scale: float = 1.0) -> None:
        self.sigma = sigma
        self.sigma_scale = sigma_scale

    def fit(self, X: Any, y: object = None) -> Self:
        """Find σ.

        Parameters
        ----------
        X : array-like of shape (n_bags, n_bags)
            Squared distances between training bags.
        y : Ignored

        Returns
        -------
        self
        """
        sigma = check_sigma(self, self.sigma)
        scale = check_number(self, "sigma_scale", self.sigma_scale, low=0, inclusive="neither")
        d2 = self._training_matrix(X, "the squared distances between training bags")
        self.sigma_ = scale * (sigma or median_sigma(d2))
        return self

    def transform(self, X: Any) -> Array:
        """The kernel of squared distances.

        Parameters
        ----------
        X : array-like of shape (n_new_bags, n_bags)
            Squared distances between bags and the training bags.

        Returns
        -------
        ndarray of shape (n_new_bags, n_bags)
            float32 for float32 distances, else float64.
        """
        return rbf(self._rows(X), self.sigma_)


@storable(eigenvalues_="finite(d)", shift_="number", _map="finite(d, d) | None")
class PSDRepair(_MatrixTransformer):
    """Make a precomputed kernel matrix positive semidefinite, and treat the rows of new bags alike.

    For pipelines with ``SVC(kernel="precomputed")`` or ``KernelRidge(kernel="precomputed")``, where the kernel comes
    from estimates of divergences. Cross-validation slices rows and columns, as for those models.

    Parameters
    ----------
    method : {"clip", "flip", "shift", "square"}, default="clip"
        How to handle negative eigenvalues, see :func:`psd`.

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

    *Shift* is different: it makes a bag nearer to itself than its kernel with other bags shows, so rows of new
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
        return _repair(*self._fit(X), self.method)

    def _fit(self, X: Any) -> tuple[Array, Array, Array]:
        method = check_choice(self, "method", self.method, METHODS)
        K = self._training_matrix(X, "the kernel of the training bags")
        _check_symmetric("PSDRepair", K)
        values, vectors = _eigen(K)
        self.eigenvalues_ = values
        self.negative_share_ = float(-np.sum(values[values < 0]) / (np.sum(np.abs(values)) or 1.0))
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
        K = self._rows(X)
        rows = K.copy() if self._map is None else K @ self._map
        return np.asarray(rows, dtype=K.dtype)
