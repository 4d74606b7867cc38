r"""Ridge regression from sums over rows: what is summed, and how sums merge.

With weights w_i, means z̄ and ȳ and their sum W, the coefficients that minimise Σ w_i (y_i - z_i·b - c)² + α \|b\|² are

.. math:: b = (G + αI)^{-1} B, \; c = ȳ - z̄·b, \; G = Σ w_i (z_i - z̄)(z_i - z̄)^T, \; B = Σ w_i (z_i - z̄)(y_i - ȳ)

:class:`NormalEquations` sums G and B over batches. A batch is centred by its own mean, and joins the others through one
more row, √(W W' / (W + W')) (z̄' - z̄) (Chan, Golub and LeVeque 1983), in the same matrix product. Nothing large is ever
subtracted, so that offsets cost no digits, whichever batch comes first.
The solutions are in ``_ridge_solutions.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from ..compute.registry import storable

__all__ = ["NormalEquations", "centred", "row_blocks"]

Array = NDArray[Any]

_BLOCK_VALUES = 2**21  # of rows that are centred and multiplied at a time
_BLOCK_ROWS = 256  # fewer slow the product down
_ARRAYS = ("weight", "z_mean", "y_mean", "G", "B", "yy")


def row_blocks(n_rows: int, n_features: int) -> Iterator[slice]:
    """Rows to work on at a time, by their width alone.

    Examples
    --------
    >>> [(s.start, s.stop) for s in row_blocks(600, 10_000)]
    [(0, 256), (256, 512), (512, 600)]
    """
    step = max(_BLOCK_ROWS, _BLOCK_VALUES // n_features)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def centred(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Rows minus their weighted mean, and the mean, in float64. Constant columns become zero exactly.

    Examples
    --------
    >>> centred(np.array([[1e9, 0.1], [1e9 + 1, 0.1]], np.float64), np.array([1.0, 3.0]))[0]
    array([[-0.75,  0.  ],
           [ 0.25,  0.  ]])
    """
    first = rows[0].astype(np.float64)
    out = rows - first
    shift = weights @ out / weights.sum()
    out -= shift
    return out, first + shift


@storable
class NormalEquations:
    """Sums over batches of rows from which ridge regression is solved for any alpha.

    Parameters
    ----------
    n_features, n_outputs : int
        Widths of rows z and of targets y.
    dtype : float64 or float32, default=float64
        In which blocks of rows are multiplied; they are centred and summed in float64. float32 halves the time of the
        product, and G is then right to 2e-7 of its largest entry. On random features (n = 4,000, D = 2,000) that
        changed coefficients by 5e-7 at α = trace(G)/D, by 7e-4 at 1e-4 of that: too much for a default.

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
    >>> sums.add(Z[:2], y[:2]).add(Z[2:], y[2:]).G.round(6)
    array([[14.]])
    """

    def __init__(self, n_features: int, n_outputs: int, dtype: Any = np.float64) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"NormalEquations(dtype=...): must be float32 or float64, got {self.dtype}; use float64")
        self.n_rows = 0
        self.weight = 0.0
        self.z_mean, self.y_mean = np.zeros(n_features), np.zeros(n_outputs)
        self.G = np.zeros((n_features, n_features), order="F")  # as BLAS wants it, to add in place
        self.B, self.yy = np.zeros((n_features, n_outputs)), np.zeros(n_outputs)

    def add(self, Z: Array, y: Array, weights: Array | None = None) -> Self:
        """Add rows Z (n, n_features) with targets y (n, n_outputs) and weights (n,) of at least zero."""
        self._require_widths(Z.shape[1], y.shape[1])
        for rows in row_blocks(len(Z), Z.shape[1]):
            z, t = Z[rows], y[rows]
            w = np.ones(len(z)) if weights is None else weights[rows]
            if np.any(w == 0):
                z, t, w = z[w > 0], t[w > 0], w[w > 0]
            if len(z):
                self._add_block(z, t, w)
        return self

    def _add_block(self, Z: Array, y: Array, w: Array) -> None:
        z, z_mean = centred(Z, w)
        t, y_mean = centred(y, w)
        if np.any(w != 1):
            root = np.sqrt(w)[:, None]
            z *= root
            t *= root
        step = self._join(len(Z), float(w.sum()), z_mean, y_mean)
        if step is not None:
            z, t = np.vstack([z, step[0]]), np.vstack([t, step[1]])
        self.B += z.T @ t
        self.yy += np.einsum("ij,ij->j", t, t)
        if self.dtype == np.float64:
            _add_products(self.G, z)
        else:
            self.G += blas.ssyrk(1.0, z.T.astype(np.float32, order="F"), lower=1)

    def _join(self, n_rows: int, weight: float, z_mean: Array, y_mean: Array) -> tuple[Array, Array] | None:
        """Update counts and means, and return the row that stands for the step between means, if there is one."""
        total = self.weight + weight
        z_step, y_step = z_mean - self.z_mean, y_mean - self.y_mean
        share = np.sqrt(self.weight / total) * np.sqrt(weight)
        first = self.n_rows == 0
        self.n_rows += n_rows
        self.weight = total
        self.z_mean = z_mean if first else self.z_mean + z_step * (weight / total)
        self.y_mean = y_mean if first else self.y_mean + y_step * (weight / total)
        return None if first else (share * z_step, share * y_step)

    def merge(self, other: NormalEquations) -> Self:
        """Add the rows of other equations, which stay as they are."""
        self._require_widths(*other.B.shape)
        if other.n_rows == 0:
            return self
        step = self._join(other.n_rows, other.weight, other.z_mean.copy(), other.y_mean.copy())
        self.G += other.G
        self.B += other.B
        self.yy += other.yy
        if step is not None:
            _add_products(self.G, step[0][None])
            self.B += np.outer(*step)
            self.yy += step[1] ** 2
        return self

    def _require_widths(self, n_features: int, n_outputs: int) -> None:
        if (n_features, n_outputs) != self.B.shape:
            raise ValueError(
                "NormalEquations: rows and targets must have {} and {} columns, as before, got {} and {}; pass the "
                "same columns every time".format(*self.B.shape, n_features, n_outputs)
            )

    def state(self) -> dict[str, Array]:
        """All of it as plain arrays, to be written with ``np.savez``; :meth:`from_state` goes back, to the last bit."""
        arrays = {name: np.array(getattr(self, name)) for name in _ARRAYS}
        return {"n_rows": np.array(self.n_rows), "dtype": np.array(self.dtype.name), **arrays}

    @classmethod
    def from_state(cls, state: Mapping[str, Array]) -> Self:
        """Equations from what :meth:`state` returned.

        Examples
        --------
        >>> sums = NormalEquations(2, 1).add(np.eye(2), np.ones((2, 1)))
        >>> bool(np.all(NormalEquations.from_state(sums.state()).G == sums.G))
        True
        """
        missing = sorted({"n_rows", "dtype", *_ARRAYS}.difference(state))
        if missing:
            raise ValueError(
                f"NormalEquations.from_state: state lacks {missing}; pass what NormalEquations.state() returned"
            )
        B = np.asarray(state["B"])
        new = cls(B.shape[0], B.shape[1], dtype=str(state["dtype"]))
        for name in _ARRAYS:
            want, got = np.shape(getattr(new, name)), np.shape(state[name])
            if want != got:
                raise ValueError(
                    f"NormalEquations.from_state: {name} must have the shape {want}, got {got}; pass what "
                    "NormalEquations.state() returned"
                )
            setattr(new, name, np.array(state[name], dtype=np.float64, order="F" if name == "G" else "C"))
        new.n_rows, new.weight = int(state["n_rows"]), float(state["weight"])
        return new

    def trace(self, about_mean: bool = True) -> float:
        """The trace of G about the mean or about zero."""
        own = float(np.trace(self.G))
        return own if about_mean else own + self.weight * float(self.z_mean @ self.z_mean)

    def moments(self, about_mean: bool = True) -> tuple[Array, Array, Array]:
        """Copies of G, B, yy about the means (with an intercept) or about zero (without one)."""
        G, B, yy = self.G.copy(order="F"), self.B.copy(), self.yy.copy()
        if not about_mean:
            root = np.sqrt(self.weight)
            _add_products(G, root * self.z_mean[None])
            B += self.weight * np.outer(self.z_mean, self.y_mean)
            yy += self.weight * self.y_mean**2
        return G, B, yy


def _add_products(G: Array, rows: Array) -> None:
    """Add rowsᵀ rows to the lower triangle of G, in place."""
    blas.dsyrk(1.0, rows.T, beta=1.0, c=G, lower=1, overwrite_c=1)
