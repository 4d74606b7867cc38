r"""From bags to the matrices that kernel machines take: divergences of all pairs, and the Gaussian kernel of them.

.. math:: D_{ij} = d^2(x_i, t_j), \qquad K_{ij} = \exp(-D_{ij} / (2σ^2))

for bags x and training bags t. As steps of a pipeline, :class:`DivergenceMatrix`, :class:`RBFKernel` and
:class:`~distembed.kernels.PSDRepair` take bags to ``SVC`` or ``KernelRidge`` with ``kernel="precomputed"``. What is
fitted (a bandwidth, σ, eigenvectors) is fitted to training bags alone, and a row depends on its own bag and on them.
Cost: one divergence for every pair of bags; :class:`~distembed.kernels.NystroemFeatures` is linear in their number.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..bags import Bags
from ..bags.estimators import BagEstimator, check_bags
from ..compute.checks import check_choice, check_number
from ..compute.registry import storable
from .comparisons import Comparison, is_embedding
from .matrices import median_sigma, rbf

__all__ = ["DivergenceMatrix", "RBFKernel"]

Array = NDArray[Any]

_CHUNK_BAGS = 256  # compared with the training bags at a time


@storable
class DivergenceMatrix(BagEstimator):
    r"""Squared distances of bags to all training bags, by any divergence: the first step of a kernel machine on bags.

    .. math:: D_{ij} = d^2(x_i, t_j)

    with one row for each bag x and one column for each training bag t. :class:`RBFKernel` behind it makes the Gaussian
    kernel, :class:`~distembed.kernels.PSDRepair` a positive semidefinite one.

    Parameters
    ----------
    divergence : str, embedding or callable, default="js"
        What d² is.

        - ``"js"``, ``"hellinger"``, ``"tv"``, ``"chi2"``: :func:`distembed.divergences.plugin` of kernel density
          estimates, for points in the unit cube of at most three dimensions;
        - ``"knn:<name>"``: :func:`distembed.divergences.knn`, e.g. ``"knn:kl"`` or ``"knn:renyi:0.9"``;
        - ``"gaussian:<name>"``: :func:`distembed.divergences.gaussian` for ``hellinger``, ``l2``, ``kl`` or ``skl``;
        - ``"js_entropy"``, ``"mmd"``: :func:`distembed.divergences.js_entropy` and :func:`distembed.divergences.mmd`;
        - an embedding, such as ``HDDEmbedding("js")`` or a pipeline: squared Euclidean distances of its features;
        - a callable: ``divergence(X)`` and ``divergence(X, Y)`` take bags, in float64 and without points of weight
          zero, and return matrices of shape (n_bags, n_bags) and (n_bags, n_bags_of_Y).

        Bandwidths, scales and embeddings are fitted to the training bags.
    symmetric : bool, default=True
        Whether the two directions are averaged where they differ, (d²(x, t) + d²(t, x)) / 2. Otherwise rows are
        d²(x, t), and the matrix of training bags is as asymmetric as the divergence.
    n_jobs : int or None, default=None
        Threads of divergences by name. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    n_bags_ : int
        Number of training bags, and of columns.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *The diagonal.* ``fit_transform`` knows that a bag is compared with itself, ``transform`` takes all bags for new
    ones. Where a point is not its own neighbour (``"knn:<name>"``) or not part of its own density (``"js_entropy"``),
    ``fit_transform(X)`` has zeros on its diagonal and ``fit(X).transform(X)`` has not; all other entries are the same.
    A pipeline takes ``fit_transform`` in ``fit`` and ``transform`` in ``predict``: predictions for training bags then
    see the other diagonal. For other names, and for embeddings, the two are the same up to rounding.

    *Other bags.* A row depends on its own bag and the training bags alone, if a callable looks at one pair of bags at a
    time: fix its bandwidth or scale. ``plugin``, ``js_entropy`` and ``mmd`` as callables choose theirs for the bags
    that they get, and ``gaussian`` pools their covariances; by name they do not. One exception: the distance of
    neighbours that stands for zero in a bag whose points are all equal is taken from all bags in hand, see
    :func:`distembed.divergences.knn_many`.

    *Callables* are asked for both directions, unless ``fit_transform`` found the training matrix symmetric.
    ``symmetric=False`` asks for one. A callable that is a kernel, and no divergence, makes a kernel matrix, which goes
    without :class:`RBFKernel`.

    *Cost.* ``fit`` compares one bag with the others, to see what the divergence refuses; ``fit_transform`` n_bags_²
    values; ``transform`` n_bags_ values a bag, and twice as many where directions differ. Memory: the training bags in
    float64 (of embeddings, their features), the result, and what the divergence takes for 256 new bags.

    *Tuning.* ``Pipeline(memory=...)`` keeps the matrix of a fold's training bags for all settings of later steps; rows
    of its validation bags are computed for each of them. A divergence that fits nothing to the bags, as ``"knn:kl"``,
    may as well be computed once for all: ``fit_transform(X)`` is the input of a search over
    ``make_pipeline(RBFKernel(), PSDRepair(), SVC(kernel="precomputed"))``, which slices rows and columns.

    References
    ----------
    Póczos, Xiong, Sutherland and Schneider (2012). Nonparametric kernel estimators for image classification. CVPR.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from distembed.kernels import DivergenceMatrix, PSDRepair, RBFKernel
    >>> rng = np.random.default_rng(0)
    >>> wide = np.arange(40) % 2
    >>> bags = [rng.normal(0, 1 + w, size=(50, 2)) for w in wide]
    >>> DivergenceMatrix("knn:kl").fit(bags[:30]).transform(bags[30:]).shape
    (10, 30)
    >>> model = make_pipeline(DivergenceMatrix("knn:kl"), RBFKernel(), PSDRepair(), SVC(kernel="precomputed"))
    >>> model.fit(bags[:30], wide[:30]).score(bags[30:], wide[30:])
    1.0
    """

    def __init__(self, divergence: Any = "js", *, symmetric: bool = True, n_jobs: int | None = None) -> None:
        self.divergence = divergence
        self.symmetric = symmetric
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Self:
        """Keep the training bags, and fit what the divergence needs to them.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags.
        y : Ignored

        Returns
        -------
        self
        """
        self._fit(X)
        self._compare(self._seen[:1], self._seen)  # what the divergence refuses is refused here
        return self

    def fit_transform(self, X: Any, y: object = None) -> Array:
        """Squared distances between training bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags.
        y : Ignored

        Returns
        -------
        ndarray of shape (n_bags, n_bags)
            float32 for float32 points, else float64; computed in float64. Symmetric to the last bit with
            ``symmetric=True``.
        """
        bags = self._fit(X)
        if not self.symmetric:
            return _cast(self._compare(self._seen), bags.dtype)
        return _cast(self._compare.both_ways(self._seen), bags.dtype)

    def _fit(self, X: Any) -> Bags:
        if not isinstance(self.symmetric, bool | np.bool_):
            raise TypeError(
                f"DivergenceMatrix(symmetric=...): must be True or False, got {self.symmetric!r}; choose one of these"
            )
        bags = check_bags(self, X, reset=True)
        self._compare = Comparison(self.divergence, bags, self, self.n_jobs)
        self._seen = self._compare.look_at(bags)
        self.n_bags_ = self._n_features_out = bags.n_bags
        self._names = [str(each) for each in bags.ids] if bags.has_ids else []
        return bags

    def transform(self, X: Any) -> Array:
        """Squared distances of bags to the training bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``, all of them taken for new ones.

        Returns
        -------
        ndarray of shape (n_bags, n_bags_)
            float32 for float32 points, else float64; computed in float64.
        """
        check_is_fitted(self)
        bags = check_bags(self, X, reset=False)
        compare = self._compare.both_ways if self.symmetric else self._compare
        if bags.n_bags > _CHUNK_BAGS and not bags.has_ids:  # errors then name a bag by its position among all bags
            bags = bags.replace(ids=np.arange(bags.n_bags))
        out = np.empty((bags.n_bags, self.n_bags_), bags.dtype)
        for start in range(0, bags.n_bags, _CHUNK_BAGS):
            chunk = self._compare.look_at(bags[start : start + _CHUNK_BAGS])
            out[start : start + _CHUNK_BAGS] = _cast(compare(chunk, self._seen), out.dtype)
        return out

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns: ids of the training bags where they have ids that differ, else ``bag0``, ``bag1``, ...

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (n_bags_,) of str objects
        """
        check_is_fitted(self)
        names = self._names if len(set(self._names)) == self.n_bags_ else [f"bag{i}" for i in range(self.n_bags_)]
        return np.array(names, dtype=object)

    @property
    def takes_categories(self) -> bool:  # type: ignore[override]
        """Whether categorical columns may come: an embedding decides itself about them."""
        return is_embedding(self.divergence)


def _cast(d2: Array, dtype: np.dtype[Any]) -> Array:
    """Values in that dtype, none of them infinite: estimates in units of density may be too large for float32."""
    if d2.dtype == dtype:
        return d2
    most = float(np.finfo(dtype).max)
    return np.clip(d2, -most, most).astype(dtype)


@storable
class RBFKernel(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
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
        if isinstance(self.sigma, str):
            check_choice(self, "sigma", self.sigma, ("median",))
        else:
            remedy = "give a positive number, or 'median'"
            check_number(self, "sigma", self.sigma, low=0, inclusive="neither", remedy=remedy)
        scale = check_number(self, "sigma_scale", self.sigma_scale, low=0, inclusive="neither")
        d2 = validate_data(self, X, dtype=[np.float64, np.float32])
        if d2.shape[0] != d2.shape[1]:
            raise ValueError(
                f"RBFKernel: fit must have a square matrix, the squared distances between training bags, got shape "
                f"{d2.shape}; pass rows of new bags to transform"
            )
        self.sigma_ = scale * (median_sigma(d2) if isinstance(self.sigma, str) else float(self.sigma))
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
        check_is_fitted(self)
        return rbf(validate_data(self, X, dtype=[np.float64, np.float32], reset=False), self.sigma_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
