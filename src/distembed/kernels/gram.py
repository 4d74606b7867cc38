r"""From bags to what kernel machines and linear models take: divergences of all pairs, or features of landmark bags.

.. math:: D_{ij} = d^2(x_i, t_j), \qquad K_{ij} = \exp(-D_{ij} / (2σ^2))

for bags x and training bags t. As steps of a pipeline, :class:`DivergenceMatrix`, :class:`~distembed.kernels.RBFKernel`
and :class:`~distembed.kernels.PSDRepair` take bags to ``SVC`` or ``KernelRidge`` with ``kernel="precomputed"``. What is
fitted (a bandwidth, σ, eigenvectors) is fitted to training bags alone, and a row depends on its own bag and on them.
Cost: one divergence for every pair of bags; :class:`NystroemFeatures` is linear in their number.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import BagEmbedding, check_bags, refuse_other_order
from ..bags.ids import canonical_text
from ..compute.arrays import Array
from ..compute.checks import check_flag, check_number
from ..compute.registry import storable
from ..embeddings.gaussian import inverse_root
from .comparisons import Comparison, is_embedding
from .matrices import check_sigma, median_sigma, rbf


@storable(n_bags_="m")
class DivergenceMatrix(BagEmbedding):
    r"""Squared distances of bags to all training bags, by any divergence: the first step of a kernel machine on bags.

    .. math:: D_{ij} = d^2(x_i, t_j)

    with one row for each bag x and one column for each training bag t. :class:`~distembed.kernels.RBFKernel` behind it
    makes the Gaussian kernel, :class:`~distembed.kernels.PSDRepair` a positive semidefinite one.

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
    without :class:`~distembed.kernels.RBFKernel`.

    *Cost.* ``fit`` compares one bag with the others, to see what the divergence refuses; ``fit_transform`` computes the
    square of ``n_bags_`` values; ``transform`` ``n_bags_`` values per bag, and twice as many where directions differ.
    Memory: the training bags in float64 (of embeddings, their features), the result, and what the divergence takes for
    256 new bags.

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

    chunk_bags = 256  # new bags compared at a time

    _names: list[str] | tuple[()] = ()  # ids of the training bags
    __distembed_ids__: ClassVar[tuple[str, ...]] = ("_names",)

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
        super().fit(X, y)
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
        bags = check_bags(self, X, reset=True)
        refuse_other_order(y, bags, type(self).__name__)
        self._fit(bags)
        compare = self._compare.both_ways if self.symmetric else self._compare
        return _cast(compare(self._seen), bags.dtype)

    def _fit(self, bags: Bags, y: object = None) -> None:
        check_flag(self, "symmetric", self.symmetric)
        self._compare = Comparison(self.divergence, bags, self, self.n_jobs)
        self._seen = self._compare.look_at(bags)
        self.n_bags_ = self._n_features_out = bags.n_bags
        self._names = canonical_text(bags.ids).tolist() if bags.has_ids else []

    def _transform(self, bags: Bags) -> Array:
        out = np.empty((bags.n_bags, self.n_bags_), bags.dtype)
        for rows, d2 in self._compare.in_chunks(bags, self._seen, self.chunk_bags, both_ways=self.symmetric):
            out[rows] = _cast(d2, out.dtype)
        return out

    def _feature_names(self) -> list[str]:
        """Ids of the training bags where all differ, else ``bag0``, ``bag1``, ..."""
        return list(self._names) if len(set(self._names)) == self.n_bags_ else [f"bag{i}" for i in range(self.n_bags_)]

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


@storable(landmarks_="int(k)", n_landmarks_="k", sigma_="number", _root="finite(k, m)")
class NystroemFeatures(BagEmbedding):
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
    landmarks_ : ndarray of shape (``n_landmarks_``,)
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

    chunk_bags = 256  # new bags compared at a time

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

    def _fit(self, bags: Bags, y: object = None) -> None:
        n_landmarks = check_number(self, "n_landmarks", self.n_landmarks, low=1, high=10_000, integer=True)
        sigma = check_sigma(self, self.sigma)
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
        self.sigma_ = sigma or median_sigma(d2)
        self._root, self.negative_share_ = inverse_root(rbf(d2, self.sigma_))

    def _transform(self, bags: Bags) -> Array:
        out = np.empty((bags.n_bags, self.n_landmarks_), bags.dtype)
        for rows, d2 in self._compare.in_chunks(bags, self._seen, self.chunk_bags):
            out[rows] = rbf(d2, self.sigma_) @ self._root
        return out

    def _feature_names(self) -> list[str]:
        return [f"landmark{i}" for i in self.landmarks_]
