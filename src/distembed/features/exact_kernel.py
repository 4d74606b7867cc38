r"""The kernel itself in place of random features: ``n_components="exact"``.

With the training rows x_1, ..., x_n, their kernel matrix K and its Cholesky factor, K + εI = L L', the features

.. math:: z(x) = L^{-1} (k(x, x_1), ..., k(x, x_n))', \qquad z(x_i) \cdot z(x_j) = K_{ij} + O(ε),

make a linear model on z the kernel machine: ridge regression on z is kernel ridge regression in the dual. So everything
that learners do with random features they do with these, without the noise of random features. ε = 1e-10 is far below
any penalty.

Cost: six times 8 n² bytes, n³ operations in ``fit``, and n (m + n) for each new bag of m features of the embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..compute.arrays import Array
from ..compute.checks import resolve_sigma
from ..compute.registry import storable
from .medians import median_distance
from .sums import SumFeatures

MAX_BAGS = 10_000
JITTER = 1e-10  # of the diagonal, a hundred times more where that is not enough


def averaged_kernel(first: Array, second: Array, sigma: float, group: Any) -> Array:
    r"""The kernel exp(-\|x - y\|² / (2 σ²)) averaged over a group, exactly: ndarray of shape (n_first, n_second).

    Parameters
    ----------
    first, second : ndarray of shape (n_first, m) and (n_second, m)
        Rows, such as those of an embedding, all less a centre that no element of the group moves.
    sigma : float
        Scale.
    group : CoefficientGroup or None
        None: the plain kernel.

    Examples
    --------
    >>> from distembed.basis import Cosine, groups
    >>> group = groups.coefficient_group(Cosine(), np.array([[0], [1]]), groups.get("reflections"))
    >>> rows = np.array([[1.0, 0.5]])
    >>> averaged_kernel(rows, rows, 1.0, group).round(3), averaged_kernel(rows, rows, 1.0, None)
    (array([[0.803]]), array([[1.]]))
    """
    out = np.zeros((len(first), len(second)))
    for left, right in [(first, second)] if group is None else group.pairs(first, second):
        squares = euclidean_distances(left, right, squared=True)
        squares /= -2 * sigma**2
        out += np.exp(squares, out=squares)
    return out if group is None else out / group.n_pairs


def memory(n_bags: int) -> str:
    """Memory of kernel matrix, factor, features and the linear model of n bags, at most.

    Examples
    --------
    >>> memory(10_000)
    '4.8 GB'
    """
    return f"{6 * 8 * n_bags**2 / 1e9:.2g} GB"


def starting_with(owner: object, n_bags: int) -> str:
    """The name of the stage for n bags and the memory it takes, for progress; refuses too many bags.

    Examples
    --------
    >>> starting_with("Mine", 4000)
    'fitting the embedding, and the exact kernel of 4,000 bags in 0.77 GB'
    """
    if n_bags > MAX_BAGS:
        raise ValueError(
            f"{type(owner).__name__}(n_components='exact'): takes at most {MAX_BAGS:,} bags, got {n_bags:,}, for which "
            f"it would need {memory(n_bags)}; use n_components=5000"
        )
    return f"fitting the embedding, and the exact kernel of {n_bags:,} bags in {memory(n_bags)}"


def _factor_of(kernel: Callable[[], Array]) -> Array:
    """L of a kernel matrix, in its place."""
    jitter = JITTER
    while True:
        K = kernel()
        K.flat[:: len(K) + 1] += jitter
        try:
            return np.asarray(cholesky(K.T, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            jitter *= 100


def _solve(root: Array, K: Array) -> Array:
    """Features of rows whose kernel with the training rows is K, in its place."""
    return np.asarray(solve_triangular(root, K.T, lower=True, check_finite=False, overwrite_b=True).T)


class _Factored:
    """Mixin of what keeps a factor of n² numbers, which model files don't hold: it can be formed again."""

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_factor"}

    def __distembed_claims__(self: Any) -> tuple[float, int]:
        group = getattr(self, "group", None)
        return 24.0 * self.n_components**2, 1 if group is None else group.n_pairs  # kernel, factor and a copy


@storable(training_="finite(n, d)", centre_="finite(d)", sigma_="number")
class KernelFeatures(_Factored, TransformerMixin, BaseEstimator):
    """Features whose dot products are the kernel exp(-||x - y||² / (2 sigma²)) itself, in the span of training rows.

    Parameters
    ----------
    sigma, sigma_scale : float or "median", default="median", and float, default=1.0
        Scale of the kernel, as of :class:`~distembed.RandomFourierFeatures`.
    random_state : int, RandomState or None, default=None
        Draws the rows of the median.
    group : CoefficientGroup or None, default=None
        The kernel is averaged over it.

    Attributes
    ----------
    sigma_ : float
    training_ : ndarray of shape (n_rows, n_features)
        The training rows less ``centre_``, a mean that the group does not move. A model file holds them: 8 bytes per
        value; the factor of the kernel matrix is formed again when it is first needed.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Z = KernelFeatures(sigma=1.0).fit_transform(X)
    >>> np.allclose(Z @ Z.T, np.exp(-((X - X.T) ** 2) / 2))
    True
    """

    def __init__(
        self,
        *,
        sigma: float | str = "median",
        sigma_scale: float = 1.0,
        random_state: int | np.random.RandomState | None = None,
        group: Any = None,
    ) -> None:
        self.sigma = sigma
        self.sigma_scale = sigma_scale
        self.random_state = random_state
        self.group = group

    def fit(self, X: Any, y: object = None) -> Self:
        """Keep the training rows, and choose sigma."""
        rows = np.asarray(X, np.float64)
        first = rows if self.group is None else rows[:, : self.group.width(rows.shape[1])]
        rng = check_random_state(self.random_state)
        self.sigma_ = resolve_sigma(self, self.sigma, self.sigma_scale, lambda: median_distance(first, rng))
        centre = rows.mean(axis=0, keepdims=True)
        self.centre_ = (centre if self.group is None else self.group.mean(centre))[0]
        self.training_ = rows - self.centre_
        self.n_features_in_ = rows.shape[1]
        self._factor: Array | None = None
        return self

    @property
    def n_components(self) -> int:
        """Number of features: as many as training rows."""
        return len(self.training_)

    def kernel(self, X: Any = None) -> Array:
        """The kernel of rows, or of the training rows, with the training rows: (n_rows, n_components)."""
        check_is_fitted(self, "training_")
        rows = self.training_ if X is None else np.asarray(X, np.float64) - self.centre_
        return averaged_kernel(rows, self.training_, self.sigma_, self.group)

    def _root(self) -> Array:
        """L, lower triangular."""
        factor: Array | None = getattr(self, "_factor", None)
        if factor is None:
            self._factor = factor = _factor_of(self.kernel)
        return factor

    def transform(self, X: Any) -> Array:
        """Features of rows, ndarray of shape (n_rows, n_components)."""
        return _solve(self._root(), self.kernel(X))

    def gradients(self, X: Any, Z: Array, coef: Array) -> Array:
        """Gradients in the rows of the linear function Z @ coef of their features, ndarray of the shape of X."""
        rows = np.asarray(X, np.float64) - self.centre_
        dual = solve_triangular(self._root(), coef, lower=True, trans="T", check_finite=False)
        found = np.zeros(rows.shape)
        images = [(rows, self.training_)] if self.group is None else self.group.pairs(rows, self.training_)
        for left, right in images:
            weights = averaged_kernel(left, right, self.sigma_, None) * dual
            found += weights @ right - weights.sum(axis=1, keepdims=True) * left
        return np.asarray(found / (self.sigma_**2 * (1 if self.group is None else self.group.n_pairs)))


@storable
class KernelSum(_Factored, SumFeatures):
    """Features whose dot products are a weighted sum of kernels, each of its own block of columns.

    Parameters and attributes are those of :class:`~distembed.features.sums.SumFeatures`, with parts
    :class:`KernelFeatures`. There are as many features as training rows, however many kernels are summed.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> Z = KernelSum([KernelFeatures(sigma=1.0), KernelFeatures(sigma=2.0)], (1, 1), (0.75, 0.25)).fit_transform(X)
    >>> bool(np.isclose(Z[0] @ Z[1], 0.75 * np.exp(-0.5) + 0.25 * np.exp(-0.5)))
    True
    """

    _factor: Array | None = None

    def fit(self, X: Any, y: object = None) -> Self:
        """Keep the training rows, and choose the sigma of each kernel."""
        super().fit(X)
        self.n_components = len(X)
        self._factor = None
        return self

    def __distembed_fits__(self) -> bool:
        return (
            len(self.fitted_) == sum(weight > 0 for weight in self.weights)
            and sum(self.widths) == self.n_features_in_
            and all(part.n_components == self.n_components for part in self.fitted_)
        )

    def _kernel(self, X: Any = None) -> Array:
        weights = [weight for weight in self.weights if weight > 0]
        blocks = [None] * len(weights) if X is None else [block for _, block in self.blocks(X)]
        out: Array | None = None
        for part, weight, block in zip(self.fitted_, weights, blocks, strict=True):
            K = part.kernel(block)
            K *= weight
            out = K if out is None else np.add(out, K, out=out)
        return np.asarray(out)

    def _root(self) -> Array:
        if self._factor is None:
            self._factor = _factor_of(self._kernel)
        return self._factor

    def transform(self, X: Any) -> Array:
        """Features of rows, ndarray of shape (n_rows, n_components)."""
        check_is_fitted(self, "fitted_")
        return _solve(self._root(), self._kernel(X))

    def contributions(self, X: Any, coef: Array) -> Array:
        """What each kernel adds to the linear function of the features with these coefficients, (n_rows, n_parts)."""
        dual = solve_triangular(self._root(), coef, lower=True, trans="T", check_finite=False)
        out = np.zeros((len(X), len(self.weights)))
        for (v, block), part in zip(self.blocks(X), self.fitted_, strict=True):
            out[:, v] = self.weights[v] * part.kernel(block) @ dual
        return out
