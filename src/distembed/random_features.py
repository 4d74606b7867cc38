r"""Random Fourier features: z with z(x)·z(y) ≈ exp(-||x - y||² / (2σ²)) (equation rks_feats of the paper).

For frequencies ω_r whose rows are N(0, I/σ²), two forms are in use (Rahimi and Recht 2007):

- ``"paired"``: √(2/D) (sin ω_1·x, ..., sin ω_{D/2}·x, cos ω_1·x, ..., cos ω_{D/2}·x), unit length for every x, and of
  lower variance for most pairs (Sutherland and Schneider 2015): the default and the paper's choice;
- ``"phase"``: √(2/D) cos(ω_r·x + b_r) with D frequencies and uniform phases.

Frequencies are ``"orthogonal"`` (Yu et al. 2016: blocks of orthogonal rows with the lengths of Gaussian vectors; the
same expectation, lower variance, at no cost in ``transform``) or ``"independent"``, as in the paper.

Cost of ``transform``: one matrix product of 2 n m (D/2) operations and n D sines and cosines. Orthogonal frequencies
cost one QR factorisation of an (m, min(m, D/2)) block in ``fit`` for every m frequencies.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._base import check_choice, check_number
from ._parallel import Scratch, run_chunks

__all__ = ["RandomFourierFeatures", "median_distance", "orthogonal_frequencies"]

Array = NDArray[Any]

FREQUENCIES = ("orthogonal", "independent")
FEATURES = ("paired", "phase")
_MEDIAN_ROWS = 1000
_CHUNK_VALUES = 2**22  # features at a time: a product that is large enough for full speed, sines that find it in cache


def orthogonal_frequencies(n: int, n_dims: int, rng: np.random.RandomState) -> Array:
    """Standard normal vectors made orthogonal in blocks of n_dims, ndarray of shape (n, n_dims).

    Examples
    --------
    >>> w = orthogonal_frequencies(3, 3, np.random.RandomState(0))
    >>> np.allclose(w @ w.T, np.diag(np.diag(w @ w.T)))
    True
    """
    n_blocks, rest = divmod(n, n_dims)
    blocks = [np.linalg.qr(rng.normal(size=(n_blocks, n_dims, n_dims)))[0].reshape(-1, n_dims)] if n_blocks else []
    if rest:
        blocks.append(np.linalg.qr(rng.normal(size=(n_dims, rest)))[0].T)
    directions = np.concatenate(blocks)
    lengths = np.sqrt(rng.chisquare(n_dims, size=(n, 1)))
    return np.asarray(directions * lengths)


def median_distance(X: Array, rng: np.random.RandomState, max_rows: int = _MEDIAN_ROWS) -> float:
    """Median Euclidean distance between rows, over at most ``max_rows`` of them drawn at random.

    Rows that are all equal have no scale; the answer is then 1. If only the median is zero (mostly equal rows), the
    mean of the distances is returned.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]), np.random.RandomState(0))
    2.0
    """
    if len(X) > max_rows:
        X = X[np.sort(rng.choice(len(X), max_rows, replace=False))]
    distances = pdist(X)
    if len(distances) == 0 or not np.any(distances > 0):
        return 1.0
    median = float(np.median(distances))
    return median if median > 0 else float(np.mean(distances))


class RandomFourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features whose dot products approximate exp(-||x - y||² / (2 sigma²)).

    An ordinary transformer of 2-D arrays, made to stand behind an embedding of bags: on A features of
    :class:`~distembed.HDDEmbedding` the dot products approximate the generalised RBF kernel of the distance.

    Parameters
    ----------
    n_components : int, default=5000
        D, the number of features; even for ``features="paired"``.
    sigma : float or "median", default="median"
        Scale of the kernel. ``"median"``: the median distance between training rows (at most 1,000 of them).
    sigma_scale : float, default=1.0
        Multiplies ``sigma``; with ``"median"`` this is the knob to tune.
    frequencies : {"orthogonal", "independent"}, default="orthogonal"
        How frequencies are drawn.
    features : {"paired", "phase"}, default="paired"
        Sine and cosine of each frequency, or the cosine with a random phase.
    random_state : int, RandomState or None, default=None
        Pass an int for reproducible features.
    n_jobs : int or None, default=None
        Threads of ``transform``; None: as many as BLAS may use.

    Attributes
    ----------
    sigma_ : float
        Scale in use, ``sigma_scale`` included.
    frequencies_ : ndarray of shape (n_features_in_, n_frequencies)
        The ω as columns, divided by ``sigma_``.
    phases_ : ndarray of shape (n_components,)
        Only with ``features="phase"``.

    Notes
    -----
    The standard error of one kernel value falls as 1/√D: about 0.01 at D = 5,000 for far pairs, with independent
    frequencies, and less for near pairs and orthogonal frequencies. With D/2 pairs Hoeffding's inequality gives
    P(error >= ε) <= 2 exp(-D ε² / 4), not the paper's 2 exp(-D ε²).

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> Z = RandomFourierFeatures(2000, sigma=1.0, random_state=0).fit_transform(X)
    >>> bool(abs(Z[0] @ Z[1] - np.exp(-0.5)) < 0.02)
    True
    """

    def __init__(
        self,
        n_components: int = 5000,
        *,
        sigma: float | str = "median",
        sigma_scale: float = 1.0,
        frequencies: str = "orthogonal",
        features: str = "paired",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.sigma_scale = sigma_scale
        self.frequencies = frequencies
        self.features = features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Self:
        """Choose sigma and draw the frequencies.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Training rows, used for their width and, with ``sigma="median"``, their distances.
        y : Ignored

        Returns
        -------
        self
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        paired = check_choice(self, "features", self.features, FEATURES) == "paired"
        check_choice(self, "frequencies", self.frequencies, FREQUENCIES)
        n_components = check_number(self, "n_components", self.n_components, low=1, integer=True)
        if paired and n_components % 2:
            raise ValueError(
                f"RandomFourierFeatures(n_components=...): must be even, because features='paired' takes the sine and "
                f"the cosine of each frequency, got {n_components}; use {n_components + 1}, or features='phase'"
            )
        scale = check_number(self, "sigma_scale", self.sigma_scale, low=0, inclusive="neither")
        rng = check_random_state(self.random_state)
        self.sigma_ = scale * self._base_sigma(X, rng)
        n_frequencies = n_components // 2 if paired else n_components
        n_dims = X.shape[1]
        if self.frequencies == "orthogonal":
            drawn = orthogonal_frequencies(n_frequencies, n_dims, rng)
        else:
            drawn = rng.normal(size=(n_frequencies, n_dims))
        with np.errstate(over="ignore"):
            self.frequencies_ = np.ascontiguousarray(drawn.T / self.sigma_, dtype=X.dtype)
        if not np.all(np.isfinite(self.frequencies_)):
            raise ValueError(
                f"RandomFourierFeatures(sigma=...): must be large enough for {X.dtype}, got the scale "
                f"{self.sigma_:.3g}; rescale the rows, or give a larger sigma"
            )
        self._paired = paired
        if paired:
            self.__dict__.pop("phases_", None)  # of an earlier fit
        else:
            self.phases_ = rng.uniform(0, 2 * np.pi, size=n_components).astype(X.dtype)
        self._n_features_out = n_components
        return self

    def _base_sigma(self, X: Array, rng: np.random.RandomState) -> float:
        if isinstance(self.sigma, str) and self.sigma == "median":
            return median_distance(X, rng)
        if not isinstance(self.sigma, Real):
            error = ValueError if isinstance(self.sigma, str) else TypeError
            raise error(
                f"RandomFourierFeatures(sigma=...): must be a positive number or 'median', got {self.sigma!r}; "
                "with 'median', sigma_scale is the knob"
            )
        return check_number(self, "sigma", self.sigma, low=0, inclusive="neither")

    def transform(self, X: Any) -> Array:
        """Map rows to their features.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            float32 for float32 input, else float64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        frequencies = self.frequencies_.astype(X.dtype, copy=False)
        n_components = self._n_features_out
        out = np.empty((X.shape[0], n_components), X.dtype)
        scale = X.dtype.type(np.sqrt(2 / n_components))
        half = frequencies.shape[1]
        # At least four chunks, if that leaves enough rows in each, so that all threads have some.
        step = max(1, min(_CHUNK_VALUES // n_components, max(64, -(-len(X) // 4))))

        def features(rows: slice, scratch: Scratch) -> None:
            block = out[rows]
            angles = scratch("angles", (len(block), half), X.dtype)
            np.matmul(X[rows], frequencies, out=angles)
            if self._paired:
                np.sin(angles, out=block[:, :half])
                np.cos(angles, out=block[:, half:])
            else:
                angles += self.phases_.astype(X.dtype, copy=False)
                np.cos(angles, out=block)
            block *= scale

        run_chunks(features, [slice(i, i + step) for i in range(0, len(X), step)], self.n_jobs)
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
