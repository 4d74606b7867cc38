r"""Ridge regression from sums over rows, or from the rows themselves.

With weights w_i, means z̄ and ȳ and their sum W, the coefficients that minimise Σ w_i (y_i - z_i·b - c)² + α \|b\|² are

.. math:: b = (G + αI)^{-1} B, \; c = ȳ - z̄·b, \; G = Σ w_i (z_i - z̄)(z_i - z̄)^T, \; B = Σ w_i (z_i - z̄)(y_i - ȳ)

:class:`NormalEquations` sums G and B over batches. A batch is centred by its own mean, and joins the others through one
more row, √(W W' / (W + W')) (z̄' - z̄) (Chan, Golub and LeVeque 1983), in the same matrix product. Nothing large is ever
subtracted, so offsets cost no digits, whichever batch comes first. Products of float32 rows may be made in
float32, block by block, and are added up in float64: the error is that of the rounding of the rows, or little more.

:class:`Rows` keeps the rows, which is less where they are fewer than features: b = Zᵀ (K + αI)⁻¹ t for rows Z and
targets t that are centred and multiplied by √w, K = Z Zᵀ. :class:`Inverse` factorises G + αI or K + αI.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import blas, cho_solve, eigh, lapack

from ..compute.arrays import Array, Scratch
from ..compute.parallel import run_chunks
from ..compute.registry import storable

_BLOCK_VALUES = 2**21  # of rows that are centred and multiplied at a time
_BLOCK_ROWS = 256  # fewer slow the product down
_SINGLE_ROWS = 1024  # whose products are added up in float32: more would cost digits
_AT_ONCE = 8 * _SINGLE_ROWS  # that threads share
_PANEL = 256  # columns of G that a thread takes at a time
_FAR = 1e8  # weights beyond this, or below its inverse, are not for float32


def row_blocks(n_rows: int, n_features: int, step: int | None = None) -> Iterator[slice]:
    """Rows to work on at a time, by their width only, or as given.

    Examples
    --------
    >>> [(s.start, s.stop) for s in row_blocks(600, 10_000)]
    [(0, 256), (256, 512), (512, 600)]
    """
    step = step or max(_BLOCK_ROWS, _BLOCK_VALUES // n_features)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def centre_rows(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Rows minus their weighted mean, of the type of the rows, and the mean, in float64.

    Constant columns become zero exactly.

    Examples
    --------
    >>> centre_rows(np.array([[1e9, 0.1], [1e9 + 1, 0.1]], np.float64), np.array([1.0, 3.0]))[0]
    array([[-0.75,  0.  ],
           [ 0.25,  0.  ]])
    """
    out = rows - rows[0]
    shift = (weights / weights.sum()).astype(out.dtype) @ out
    out -= shift
    return out, rows[0].astype(np.float64) + shift


@dataclass(frozen=True)
class Inverse:
    """(A + αI)⁻¹ of a symmetric matrix A without negative eigenvalues: by Cholesky, A + αI = L Lᵀ.

    Where α is zero, or too small for that, α counts as zero, and A⁻¹ = R Rᵀ with the eigenvectors of A, divided by the
    roots of their eigenvalues, that are above rounding: coefficients of least norm.

    Examples
    --------
    >>> Inverse.of(np.eye(2), 1.0).solve(np.ones((2, 1))).ravel()
    array([0.5, 0.5])
    >>> Inverse.of(np.ones((2, 2)), 0.0).solve(np.ones((2, 1))).ravel().round(6)  # of least norm
    array([0.5, 0.5])
    """

    alpha: float
    factor: Array  # L, or R where alpha is zero

    @classmethod
    def of(cls, A: Array, alpha: float) -> Inverse:
        """Factorise a matrix whose lower triangle is given; it is left as it is."""
        found = cls.by_cholesky(A, alpha) if alpha > 0 else None
        if found is not None:
            return found
        values, vectors = eigh(A, lower=True, check_finite=False)
        seen = values > len(A) * np.finfo(float).eps * max(values[-1], 0.0)
        return cls(0.0, vectors[:, seen] / np.sqrt(values[seen]))

    @classmethod
    def by_cholesky(cls, A: Array, alpha: float) -> Inverse | None:
        """Solve by Cholesky only; None if α is too small for the digits of A."""
        shifted = A.copy(order="F")
        shifted[np.diag_indices(len(A))] += alpha
        largest = shifted.diagonal().max(initial=0.0)
        L, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=0)
        return None if failed or L.diagonal().min() ** 2 <= np.finfo(float).eps * largest else cls(alpha, L)

    def solve(self, B: Array) -> Array:
        """(A + αI)⁻¹ B."""
        if self.alpha == 0:
            return np.asarray(self.factor @ (self.factor.T @ B))
        return np.asarray(cho_solve((self.factor, True), B, check_finite=False))

    def forms(self, rows: Array) -> Array:
        """zᵀ (A + αI)⁻¹ z for each row z, ndarray of shape (n_rows,)."""
        if self.alpha == 0:
            return _squared_lengths((rows @ self.factor).T)
        return _squared_lengths(blas.dtrsm(1.0, self.factor, np.ascontiguousarray(rows, np.float64).T, lower=1))

    def products(self, rows: Array) -> Array:
        """zᵀ (A + αI)⁻¹ z' for all pairs of rows, ndarray of shape (n_rows, n_rows)."""
        if self.alpha == 0:
            half = rows @ self.factor
        else:
            half = blas.dtrsm(1.0, self.factor, np.ascontiguousarray(rows, np.float64).T, lower=1).T
        return np.asarray(half @ half.T)

    def rank(self) -> float:
        """The trace of A (A + αI)⁻¹: how many directions count, those of small eigenvalues in part."""
        if self.alpha == 0:
            return float(self.factor.shape[1])
        inverse = np.tril(lapack.dtrtri(self.factor, lower=1)[0])
        return len(inverse) - self.alpha * float(np.einsum("ij,ij->", inverse, inverse))

    def left(self, B: Array) -> tuple[Array, Array]:
        """(I - A (A + αI)⁻¹) B, and the diagonal of that matrix: what A leaves of B and of unit vectors."""
        if self.alpha == 0:
            V = self.factor / np.linalg.norm(self.factor, axis=0)
            return B - V @ (V.T @ B), 1 - np.einsum("ij,ij->i", V, V)
        diagonal = np.diag(lapack.dpotri(self.factor, lower=1)[0])
        return self.alpha * self.solve(B), self.alpha * diagonal


def _squared_lengths(columns: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", columns, columns))


@storable(
    single="bool",
    n_rows="n",
    weight="number",
    z_mean="finite(f)",
    y_mean="finite(o)",
    G="finite(f, f)",
    B="finite(f, o)",
    yy="finite(o)",
)
class NormalEquations:
    """Sums over batches of rows from which ridge regression is solved for any alpha.

    Parameters
    ----------
    n_features, n_outputs : int
        Widths of rows z and of targets y.
    single : bool, default=False
        Whether products are made in float32. The error of G is then at most some 2e-7 √n of the mean squared length of
        rows, in every direction, and must be small against α.

    Attributes
    ----------
    n_rows : int
        Rows with positive weight.
    weight : float
        W, their total weight.
    z_mean, y_mean : ndarray of shape (n_features,), (n_outputs,)
        Weighted means. Sums are W times those.
    G : ndarray of shape (n_features, n_features)
        Σ w (z - z̄)(z - z̄)ᵀ; only the lower triangle.
    B : ndarray of shape (n_features, n_outputs)
        Σ w (z - z̄)(y - ȳ)ᵀ.
    yy : ndarray of shape (n_outputs,)
        Σ w (y - ȳ)².

    Notes
    -----
    Cost: n D² operations (half a full product). Memory: D² numbers and a block of rows. The same batches in the same
    order give the same bits; other batches the same to rounding.

    References
    ----------
    Chan, Golub and LeVeque (1983). Algorithms for computing the sample variance. The American Statistician.

    Examples
    --------
    >>> Z, y = np.array([[0.0], [1.0], [5.0]]), np.array([[1.0], [3.0], [11.0]])
    >>> sums = NormalEquations(1, 1)
    >>> sums.add(Z[:2], y[:2], np.ones(2)).add(Z[2:], y[2:], np.ones(1)).G.round(6)
    array([[14.]])
    """

    def __init__(self, n_features: int, n_outputs: int, single: bool = False) -> None:
        self.single = single
        self.n_rows = 0
        self.weight = 0.0
        self.z_mean = np.zeros(n_features)
        self.y_mean = np.zeros(n_outputs)
        self.G = np.zeros((n_features, n_features), order="F")  # as BLAS wants it, to add in place
        self.B = np.zeros((n_features, n_outputs))
        self.yy = np.zeros(n_outputs)

    def add(self, Z: Array, y: Array, weights: Array) -> Self:
        """Add rows Z (n, n_features) with targets y (n, n_outputs) and weights (n,) of at least zero."""
        there = weights > 0
        if not there.all():
            Z = Z[there]
            y = y[there]
            weights = weights[there]
        if not len(Z):
            return self
        single = self.single and weights.min() > 1 / _FAR and weights.max() < _FAR
        for rows in row_blocks(len(Z), Z.shape[1], _AT_ONCE if single else None):
            if single:
                self._add_single(Z[rows], y[rows], weights[rows])
                continue
            new = Rows.of(Z[rows].astype(np.float64, copy=False), y[rows], weights[rows])
            z_step, y_step = self._join(new)
            z = np.vstack([new.Z, z_step])
            t = np.vstack([new.t, y_step])
            self.B += z.T @ t
            self.yy += np.einsum("ij,ij->j", t, t)
            blas.dsyrk(1.0, z.T, beta=1.0, c=self.G, lower=1, overwrite_c=1)
        return self

    def _add_single(self, Z: Array, y: Array, w: Array) -> None:
        """Products in float32, each panel of G by one thread: threads of BLAS wait for each other too often."""
        blocks = list(row_blocks(len(Z), Z.shape[1], _SINGLE_ROWS))
        made: dict[int, Rows] = {}

        def centre(k: int, scratch: Scratch) -> None:
            made[k] = Rows.of(Z[blocks[k]], y[blocks[k]], w[blocks[k]])

        run_chunks(centre, range(len(blocks)), None)
        steps = [self._join(made[k]) for k in range(len(blocks))]
        parts = [(made[k].Z, made[k].t) for k in range(len(blocks))]
        parts.append((np.array([step for step, _ in steps], Z.dtype), np.array([step for _, step in steps])))
        units = [np.abs(t).max() or 1.0 for _, t in parts]

        def multiply(start: int, scratch: Scratch) -> None:
            here = slice(start, start + _PANEL)
            below = slice(start + _PANEL, None)
            for (z, t), unit in zip(parts, units, strict=True):
                left = z[:, here].T
                self.B[here] += unit * (left @ (t / unit).astype(z.dtype)).astype(np.float64)
                self.G[here, here] += left @ z[:, here]  # half the work: NumPy sees that it is symmetric
                self.G[below, here].T[...] += left @ z[:, below]

        run_chunks(multiply, range(0, len(self.G), _PANEL), None)
        self.yy += sum(np.einsum("ij,ij->j", t, t) for _, t in parts)

    def _join(self, new: Rows) -> tuple[Array, Array]:
        """Take rows into means and weight; returns one more row, and target, for the step between the means."""
        total = self.weight + new.weight
        share = np.sqrt(self.weight / total) * np.sqrt(new.weight)
        z_step = new.z_mean - self.z_mean
        y_step = new.y_mean - self.y_mean
        if self.n_rows == 0:
            self.z_mean = new.z_mean
            self.y_mean = new.y_mean
        else:
            self.z_mean = self.z_mean + z_step * (new.weight / total)
            self.y_mean = self.y_mean + y_step * (new.weight / total)
        self.n_rows += len(new.w)
        self.weight = total
        return share * z_step, share * y_step

    @property
    def trace(self) -> float:
        """The trace of G."""
        return float(np.trace(self.G))

    def inverse(self, alpha: float) -> Inverse:
        """(G + αI)⁻¹."""
        return Inverse.of(self.G, alpha)

    def coefficients(self, inverse: Inverse) -> Array:
        """b, ndarray of shape (n_features, n_outputs)."""
        return inverse.solve(self.B)

    def forms(self, Z: Array, inverse: Inverse) -> Array:
        """zᵀ (G + αI)⁻¹ z of centred rows, ndarray of shape (n_rows,)."""
        return inverse.forms(Z)

    def products(self, Z: Array, inverse: Inverse) -> Array:
        """zᵀ (G + αI)⁻¹ z' of all pairs of centred rows, ndarray of shape (n_rows, n_rows)."""
        return inverse.products(Z)

    def equations(self) -> NormalEquations:
        """These sums, as those of :class:`Rows`."""
        return self


@storable(Z="finite(n, f)", t="finite(n, o)", w="finite(n)", z_mean="finite(f)", y_mean="finite(o)")
@dataclass(frozen=True, eq=False)
class Rows:
    """Rows Z and targets t of positive weights w, centred and times √w: what :class:`NormalEquations` sums over."""

    Z: Array
    t: Array
    w: Array
    z_mean: Array
    y_mean: Array

    @classmethod
    def of(cls, Z: Array, y: Array, w: Array) -> Rows:
        """Centre rows Z (n, n_features) and targets y (n, n_outputs)."""
        z, z_mean = centre_rows(Z, w)
        t, y_mean = centre_rows(y, w)
        if np.any(w != 1):
            z *= np.sqrt(w)[:, None]
            t *= np.sqrt(w)[:, None]
        return cls(z, t, w, z_mean, y_mean)

    @property
    def weight(self) -> float:
        """W, the sum of the weights."""
        return float(self.w.sum())

    @property
    def trace(self) -> float:
        """The trace of K, which is that of G."""
        return float(np.einsum("ij,ij->", self.Z, self.Z))

    @property
    def yy(self) -> Array:
        """Σ w (y - ȳ)²."""
        return _squared_lengths(self.t)

    def inverse(self, alpha: float) -> Inverse:
        """(K + αI)⁻¹, but for the direction √w of the intercept, which K does not see.

        There K is given a large eigenvalue: small alphas would cost the digits of all other directions.
        """
        K = blas.dsyrk(1.0, self.Z.T, trans=1, lower=1)
        root = np.sqrt(self.w / self.weight)
        return Inverse.of(K + self._large * np.outer(root, root), alpha)

    @property
    def _large(self) -> float:
        return self.trace or 1.0

    def left(self, inverse: Inverse) -> tuple[Array, Array]:
        """Residuals of the targets (n_rows, n_outputs), and what each row leaves free, 1 - h (n_rows,)."""
        residuals, free = inverse.left(self.t)
        intercept = inverse.alpha / (self._large + inverse.alpha)  # left of the direction that is none
        return residuals / np.sqrt(self.w)[:, None], free - intercept * self.w / self.weight

    def free(self, inverse: Inverse) -> Array:
        """I - H of these rows, ndarray of shape (n_rows, n_rows), for α > 0; ``left`` has its diagonal."""
        root = np.sqrt(self.w / self.weight)
        share = inverse.alpha / (self._large + inverse.alpha)
        lower = lapack.dpotri(inverse.factor, lower=1)[0]
        whole = np.tril(lower) + np.tril(lower, -1).T
        return np.asarray(inverse.alpha * whole - share * np.outer(root, root))

    def are(self, Z: Array, w: Array) -> bool:
        """Whether these are the rows Z, centred, of weights w, but for rounding."""
        same = Z.shape == self.Z.shape and np.array_equal(w, self.w)
        return same and float(np.abs(np.sqrt(w)[:, None] * Z - self.Z).max()) <= 1e-6 * float(np.abs(self.Z).max())

    def coefficients(self, inverse: Inverse) -> Array:
        """b, ndarray of shape (n_features, n_outputs)."""
        return np.asarray(self.Z.T @ inverse.solve(self.t))

    def forms(self, Z: Array, inverse: Inverse) -> Array:
        """zᵀ (G + αI)⁻¹ z of centred rows, ndarray of shape (n_rows,)."""
        k = Z @ self.Z.T
        if inverse.alpha == 0:
            return _squared_lengths(inverse.solve(k.T))
        return np.asarray(np.maximum(_squared_lengths(Z.T) - inverse.forms(k), 0.0) / inverse.alpha)

    def products(self, Z: Array, inverse: Inverse) -> Array:
        """zᵀ (G + αI)⁻¹ z' of all pairs of centred rows, ndarray of shape (n_rows, n_rows)."""
        k = Z @ self.Z.T
        if inverse.alpha == 0:
            solved = inverse.solve(k.T)
            return np.asarray(solved.T @ solved)
        return np.asarray((Z @ Z.T - inverse.products(k)) / inverse.alpha)

    def equations(self) -> NormalEquations:
        """Sums over these rows."""
        root = np.sqrt(self.w)[:, None]
        sums = NormalEquations(self.Z.shape[1], self.t.shape[1])
        return sums.add(self.Z / root + self.z_mean, self.t / root + self.y_mean, self.w)


class HeldOutRidge:
    r"""Predictions for held-out bags by ridge regression with an intercept, for one penalty after the other.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel of the training bags.
    Y : ndarray of shape (n, n_outputs)
    weight : ndarray of shape (n,)
        Positive weights of the training bags.
    rows : ndarray of shape (n_held, n)
        Kernel between held-out bags and training bags.

    Notes
    -----
    Features are centred at their weighted mean, which is a change of the kernel: k(x, z) - k̄(x) - k̄(z) + k̄̄. Then with
    S = diag(√w) the coefficients are S (S K S + α I)⁻¹ S (Y - Ȳ).

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> line = HeldOutRidge(np.outer(x, x), x[:, None], np.ones(3), np.outer([3.0], x))
    >>> line.predict(1e-9).round(6), line.predict(2.0)
    (array([[3.]]), array([[2.]]))
    """

    def __init__(self, K: Array, Y: Array, weight: Array, rows: Array) -> None:
        share = weight / weight.sum()
        root = np.sqrt(weight)[:, None]
        means = K @ share
        self._kernel = np.array(K, np.float64, order="F")
        self._kernel -= means
        self._kernel -= means[:, None] - share @ means
        self._rows = rows - (rows @ share)[:, None] - means + share @ means
        if np.any(weight != 1):
            self._kernel *= root
            self._kernel *= root.T
        self._mean = share @ Y
        self._root = root
        self._targets = root * (Y - self._mean)

    def predict(self, alpha: float) -> Array | None:
        """Predictions of shape (n_held, n_outputs); None where the penalty is below the digits of the kernel."""
        inverse = Inverse.by_cholesky(self._kernel, alpha)
        if inverse is None:
            return None
        return np.asarray(self._rows @ (self._root * inverse.solve(self._targets)) + self._mean)
