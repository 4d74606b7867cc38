r"""Random Fourier features: z with z(x)·z(y) ≈ exp(-||x - y||² / (2σ²)) (equation rks_feats of the paper).

For frequencies ω_r whose rows are N(0, I/σ²), two forms are in use (Rahimi and Recht 2007):

- ``"paired"``: √(2/D) (sin ω_1·x, ..., sin ω_{D/2}·x, cos ω_1·x, ..., cos ω_{D/2}·x), unit length for every x, and of
  lower variance for most pairs (Sutherland and Schneider 2015): the default and the paper's choice;
- ``"phase"``: √(2/D) cos(ω_r·x + b_r) with D frequencies and uniform phases.

Frequencies are ``"orthogonal"`` (Yu et al. 2016: blocks of orthogonal rows with the lengths of Gaussian vectors; the
same expectation, lower variance, at no cost in ``transform``), ``"hadamard"`` (the same with structured rotations, see
:mod:`distembed.features.hadamard`: for wide rows) or ``"independent"``, as in the paper.

Cost of ``transform``: one matrix product of 2 n m (D/2) operations and n D sines and cosines. Orthogonal frequencies
cost one QR factorisation of an (m, min(m, D/2)) block in ``fit`` for every m frequencies, in float32. Hadamard
frequencies cost O(D) in ``fit``, in time and in memory, and O(n D log m) in ``transform``.

With a group G of symmetries that acts on rows by orthogonal maps g, features are means over the images of a row,

.. math:: \bar z(x) = \frac{1}{|G|} \sum_g z(g x), \qquad
          \bar z(x) \cdot \bar z(y) \approx \frac{1}{|G|} \sum_g k(x, g y),

and their kernel is the one averaged over the group (Haasdonk and Burkhardt 2007). That costs as much as the plain
features times the order of the group; rows and features keep their widths. The length of z̄ is at most one, and less
where the images of a row differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import numpy as np
from scipy.linalg import qr
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compute.arrays import Array, Scratch, write_cosines, write_sines_and_cosines
from ..compute.checks import InputError, check_choice, check_number, collapsed, resolve_sigma, wants_numba
from ..compute.parallel import one_blas_thread, run_chunks
from ..compute.registry import storable
from . import hadamard as _hadamard
from .medians import median_distance

FREQUENCIES = ("orthogonal", "independent", "hadamard")
FEATURES = ("paired", "phase")
_CHUNK_VALUES = 2**22  # features of one matrix product, large enough for its full speed
# values of a row, and features, from which on hadamard frequencies are faster
_WIDE = 900
_MANY = 1000
_LEAST_SCALE = 1e-30  # sigmas between this and its inverse have frequencies in float32
_CHUNK_ROWS = 64  # below that a product slows down, however wide
_PIECE_VALUES = 2**23  # features of images at a time
_STRIP_VALUES = 2**16  # features at a time after it: each pass over them finds them in the cache


def orthogonal_frequencies(n: int, n_dims: int, rng: np.random.RandomState, dtype: Any = np.float64) -> Array:
    """Standard normal vectors made orthogonal in blocks of n_dims, ndarray of shape (n, n_dims) of a dtype.

    Examples
    --------
    >>> w = orthogonal_frequencies(3, 3, np.random.RandomState(0))
    >>> np.allclose(w @ w.T, np.diag(np.diag(w @ w.T)))
    True
    """
    n_blocks, rest = divmod(n, n_dims)
    drawn = [*rng.normal(size=(n_blocks, n_dims, n_dims)), *([rng.normal(size=(n_dims, rest))] if rest else [])]
    with one_blas_thread():  # several gain little on the small products of a factorisation, and may wait long
        blocks = [qr(matrix.astype(dtype), mode="economic", check_finite=False)[0] for matrix in drawn]
    found = np.concatenate([*blocks[:n_blocks], *(block.T for block in blocks[n_blocks:])])
    found *= np.sqrt(rng.chisquare(n_dims, size=(n, 1)))
    return found


def row_chunks(n_rows: int, n_components: int) -> list[slice]:
    """Rows that one thread takes at a time: equal chunks, in fours, so no thread waits long for another's last.

    They do not depend on the number of threads, and so nor does the last bit of a feature.

    Examples
    --------
    >>> row_chunks(1000, 10), len(row_chunks(12_000, 5000))
    ([slice(0, 250, None), slice(250, 500, None), slice(500, 750, None), slice(750, 1000, None)], 16)
    """
    most = max(_CHUNK_ROWS, _CHUNK_VALUES // n_components)
    n_chunks = max(1, min(-(-n_rows // (4 * most)) * 4, n_rows // _CHUNK_ROWS))
    step = -(-n_rows // n_chunks)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


@storable(
    sigma_="number",
    frequencies_="finite(w, h)",
    phases_="finite(m)",
    signs_="int(_, _, _)",
    lengths_="finite(h)",
    _paired="bool",
)
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
    frequencies : {"auto", "orthogonal", "independent", "hadamard"}, default="auto"
        How frequencies are drawn. ``"hadamard"``: orthogonal ones of which no matrix is made, see Notes. ``"auto"``:
        these for rows of 900 values or more and at least 1,000 features, ``"orthogonal"`` ones for others.
    features : {"paired", "phase"}, default="paired"
        Sine and cosine of each frequency, or the cosine with a random phase.
    random_state : int, RandomState or None, default=None
        Pass an int for reproducible features.
    engine : {"auto", "numpy", "numba"}, default="auto"
        ``"numba"`` computes paired sines and cosines in compiled code, equal to rounding; it needs the extra
        ``distembed[fast]``. ``"auto"`` takes it for 3e8 features or more, where numba is installed and has
        compiled it before, else for 3e9.
    n_jobs : int or None, default=None
        Threads of ``transform``; None: as many as BLAS may use.
    group : CoefficientGroup or None, default=None
        ``group_`` of an embedding with ``symmetries``: features are then means over the images of a row, and dot
        products approximate the kernel averaged over the group, see :mod:`distembed.features.fourier`.

    Attributes
    ----------
    sigma_ : float
        Scale in use, ``sigma_scale`` included.
    frequencies_ : ndarray of shape (``n_features_in_``, n_frequencies)
        The ω as columns, divided by ``sigma_``, in float32. Those of ``"hadamard"`` are not kept but formed each time
        they are asked for, from ``signs_`` and ``lengths_``.
    signs_ : ndarray of shape (3, n_blocks, block_size) of int8
        Only of ``"hadamard"``: the diagonals of random signs of each block.
    lengths_ : ndarray of shape (n_frequencies,)
        Only of ``"hadamard"``: lengths of the ω before they are cut to ``n_features_in_`` values.
    phases_ : ndarray of shape (n_components,)
        Only with ``features="phase"``.

    Notes
    -----
    The standard error of one kernel value falls as 1/√D: about 0.01 at D = 5,000 for far pairs, with independent
    frequencies, and less for near pairs and orthogonal frequencies. With D/2 pairs Hoeffding's inequality gives
    P(error >= ε) <= 2 exp(-D ε² / 4), not the paper's 2 exp(-D ε²).

    **Hadamard frequencies.** Blocks of m', a power of two that holds ``n_features_in_`` and at least 32, have the rows
    of H D₁ H D₂ H D₃ for directions, with random signs D and a Hadamard matrix H, applied by fast transforms. Lengths
    are those of Gaussian vectors; directions are not exactly uniform, and a kernel value is off by less than 0.003 in
    expectation. Its error is that of orthogonal frequencies, up to 12 % more in blocks of 32 and 3 % in blocks of 64.
    How many times faster ``transform`` is (float32, one core, 512 rows; ``benchmarks/random_features.py``):

    =========  =====  =====  =====  =====  =====  =====  =====
    m            256    512    600  1,024  2,048  4,096  8,192
    =========  =====  =====  =====  =====  =====  =====  =====
    D = m        0.6    0.8    0.7    1.1    1.9    3.8    8.4
    D = 2m       0.8    1.1    1.0    1.7    2.9    5.6   12.6
    D = 5,000    0.8    1.3    1.3    1.7    2.3    3.9    5.2
    =========  =====  =====  =====  =====  =====  =====  =====

    So dense frequencies are faster below m of about 500, hadamard ones from 900 on. In ``fit`` hadamard ones cost
    next to nothing at any m, while to make dense ones orthogonal takes half a second at m = 1,660 and D = 5,000.

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
        frequencies: str = "auto",
        features: str = "paired",
        random_state: int | np.random.RandomState | None = None,
        engine: str = "auto",
        n_jobs: int | None = None,
        group: Any = None,
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.sigma_scale = sigma_scale
        self.frequencies = frequencies
        self.features = features
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.group = group

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
        if self.group is not None:
            X = X[:, : self.group.width(X.shape[1])]  # the first image
        paired = check_choice(self, "features", self.features, FEATURES) == "paired"
        kind = check_choice(self, "frequencies", self.frequencies, ("auto", *FREQUENCIES))
        wants_numba(self, self.engine, 0)
        n_components = check_number(self, "n_components", self.n_components, low=1, integer=True)
        if paired and n_components % 2:
            raise ValueError(
                f"RandomFourierFeatures(n_components=...): must be even, because features='paired' takes the sine and "
                f"the cosine of each frequency, got {n_components}; use {n_components + 1}, or features='phase'"
            )
        word, wholly = collapsed(X)
        if wholly:
            warnings.warn(
                f"RandomFourierFeatures: the rows of X are all {word}, so nothing can be learned from them; use "
                "another embedding",
                UserWarning,
                stacklevel=2,
            )
        rng = check_random_state(self.random_state)
        self.sigma_ = resolve_sigma(self, self.sigma, self.sigma_scale, lambda: median_distance(X, rng))
        n_frequencies = n_components // 2 if paired else n_components
        n_dims = X.shape[1]
        if kind == "auto":
            kind = "hadamard" if n_dims >= _WIDE and n_components >= _MANY else "orthogonal"
        # In float32 whatever the rows: half the file, and as good a draw. But for scales that float32 can't hold.
        small = kind != "hadamard" and _LEAST_SCALE < self.sigma_ < 1 / _LEAST_SCALE
        for name in ("frequencies_", "signs_", "lengths_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if kind == "hadamard":
            self.signs_, drawn = _hadamard.draw(n_frequencies, n_dims, rng)
        elif kind == "orthogonal":
            drawn = orthogonal_frequencies(n_frequencies, n_dims, rng, np.float32 if small else np.float64)
        else:
            drawn = rng.normal(size=(n_frequencies, n_dims))
        with np.errstate(over="ignore"):
            scaled = np.ascontiguousarray(drawn.T / self.sigma_, dtype=np.float32 if small else X.dtype)
        if not np.all(np.isfinite(scaled)):
            raise InputError(
                f"RandomFourierFeatures(sigma=...): must be large enough for {X.dtype}, got the scale "
                f"{self.sigma_:.3g}; rescale the rows, or give a larger sigma"
            )
        if kind == "hadamard":
            self.lengths_ = scaled
        else:
            self.frequencies_ = scaled
        self._paired = paired
        if paired:
            self.__dict__.pop("phases_", None)  # of an earlier fit
        else:
            self.phases_ = rng.uniform(0, 2 * np.pi, size=n_components).astype(X.dtype)
        self._n_features_out = n_components
        return self

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
        if self.group is not None:
            return self._mean_of_images(X)
        n_components = self._n_features_out
        out = np.empty((X.shape[0], n_components), X.dtype)
        project = self.projection(X.dtype)
        scale = X.dtype.type(np.sqrt(2 / n_components))
        half = n_components // 2
        phases = None if self._paired else self.phases_.astype(X.dtype, copy=False)
        step = max(1, _STRIP_VALUES // n_components)
        compiled: Callable[[Array, Array, Any], None] | None = None
        if self._paired and wants_numba(self, self.engine, out.size):
            from ..compute.compiled import write_sines_and_cosines as write_compiled

            compiled = write_compiled

        def features(rows: slice, scratch: Scratch) -> None:
            block = out[rows]
            angles = scratch("angles", (len(block), half), X.dtype) if phases is None else block
            project(X[rows], angles, scratch)
            for i in range(0, len(block), step):
                strip = block[i : i + step]
                turned = angles[i : i + step]
                if compiled is not None:
                    compiled(turned, strip, scale)
                elif phases is None:
                    write_sines_and_cosines(turned, strip[:, :half], strip[:, half:], scale, scratch)
                else:
                    turned += phases
                    write_cosines(turned, strip, scale, scratch)

        run_chunks(features, row_chunks(len(X), n_components), self.n_jobs)
        return out

    def gradients(self, X: Any, Z: Array, coef: Array) -> Array:
        """Gradients in the rows of a linear function of their features.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows.
        Z : ndarray of shape (n_rows, n_components)
            Their features.
        coef : ndarray of shape (n_components,)
            Of the function Z @ coef.

        Returns
        -------
        ndarray of shape (n_rows, n_features)

        Examples
        --------
        >>> X, coef = np.array([[0.3, 0.4]]), np.arange(10.0)
        >>> rff = RandomFourierFeatures(10, sigma=1.0, random_state=0).fit(X)
        >>> slope = (rff.transform(X + [[0, 1e-6]]) - rff.transform(X)) @ coef / 1e-6
        >>> np.allclose(rff.gradients(X, rff.transform(X), coef)[:, 1], slope, atol=1e-4)
        True
        """
        if self.group is not None:
            return self._mean_gradients(X, coef)
        n_components = len(coef)
        if self._paired:  # the derivative of a sine is its cosine, which is there
            half = n_components // 2
            turned = Z[:, half:] * coef[:half]
            turned -= Z[:, :half] * coef[half:]
        else:
            turned = np.empty_like(Z)
            self.projection(Z.dtype)(X, turned, Scratch())
            turned += self.phases_
            turned = np.sin(turned, out=turned)
            turned *= -np.sqrt(2 / n_components) * coef
        frequencies = self.frequencies_.astype(np.float64).T
        found = np.empty(X.shape)

        def multiply(rows: slice, scratch: Scratch) -> None:
            np.matmul(turned[rows], frequencies, out=found[rows])

        run_chunks(multiply, row_chunks(len(X), n_components), self.n_jobs)
        return found

    def _without_group(self) -> RandomFourierFeatures:
        """The plain features, of one image."""
        plain = copy(self)
        plain.group = None
        plain.n_features_in_ = self.group.width(self.n_features_in_)
        return plain

    def _mean_of_images(self, rows: Array) -> Array:
        """Means of the plain features over the images of rows, ndarray of shape (n_rows, n_components)."""
        plain = self._without_group()
        n = self._n_features_out
        out = np.zeros((len(rows), n), rows.dtype)
        step = max(1, _PIECE_VALUES // n)
        for first in range(0, len(rows), step):
            piece = rows[first : first + step]
            for i in range(self.group.order):
                out[first : first + step] += plain.transform(self.group.act(i, piece))
        out /= self.group.order
        return out

    def _mean_gradients(self, rows: Array, coef: Array) -> Array:
        """Gradients in the rows of the linear function of those means, ndarray of the shape of rows."""
        plain = self._without_group()
        found = np.zeros(rows.shape)
        for i in range(self.group.order):
            image = self.group.act(i, rows)
            slopes = plain.gradients(image, plain.transform(image), coef)
            found += self.group.act(i, slopes, transposed=True)
        return np.asarray(found / self.group.order)

    def __distembed_fits__(self) -> bool:
        width = self.n_features_in_ if self.group is None else self.group.width(self.n_features_in_)
        if "signs_" not in self.__dict__:
            n = self.frequencies_.shape[1] if len(self.frequencies_) == width else -1
        else:
            n = len(self.lengths_)
            size = _hadamard.block_size(width)
            if self.signs_.shape != (3, -(-n // size), size):
                return False
        return bool(self._n_features_out == (2 * n if self._paired else n))

    def projection(self, dtype: Any) -> Callable[[Array, Array, Scratch], None]:
        """What writes the angles ω·x of rows of this dtype to an array, prepared once: called with both and scratch."""
        if "signs_" in self.__dict__:
            return _hadamard.HadamardProjection(self.signs_, self.lengths_, dtype)
        frequencies = self.frequencies_.astype(dtype, copy=False)

        def product(X: Array, out: Array, scratch: Scratch) -> None:
            np.matmul(X, frequencies, out=out)

        return product

    def __getattr__(self, name: str) -> Any:
        # Not a property: dir() would list that, and notebooks that display all attributes would form the matrix.
        if name == "frequencies_" and "signs_" in self.__dict__:
            return _hadamard.frequency_matrix(self.signs_, self.lengths_, self.n_features_in_)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def random_kernel(rows: Array, n_components: int, seed: int, group: Any, drawn: dict[int, Any]) -> Array:
    """Dot products of random features of rows, averaged over a group, for a sigma of one, in float32: (n_rows, n_rows).

    ``drawn`` keeps frequencies, by the width of rows.
    """
    few = np.asarray(rows, np.float32)
    if few.shape[1] not in drawn:
        random = RandomFourierFeatures(n_components, sigma=1.0, random_state=seed, group=group)
        drawn[few.shape[1]] = random.fit(few)
    Z = drawn[few.shape[1]].transform(few)
    return np.asarray(Z @ Z.T)
