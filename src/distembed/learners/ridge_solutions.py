"""Solutions of ridge regression for one or many penalties, from one factorisation.

:func:`solve_primal` factorises G (D × D), :func:`solve_dual` the matrix K = √w (z_i - z̄)·(z_j - z̄) √w of rows (n × n):
by Cholesky for one α, by eigenvectors for several, or where α is too small for Cholesky. K has the null vector √w/√W,
which belongs to the intercept; it is lifted to an eigenvalue above all others and left out.

Directions whose eigenvalue plus α is below rounding, max(n, D) ε λ_max, count as absent: coefficients of least norm.

Every solver has ``coefficients(alphas)``, (D, n) of n outputs with one alpha an output; ``freedom(alphas)``, n - tr H
for each alpha, with the intercept in H; and ``forms(Z, alphas)``, zᵀ (G + αI)⁻¹ z of centred rows, (n_rows, n_alphas).
Those of the dual, which see rows, also have ``leave_one_out(alphas)``, one alpha an output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve, eigh, lapack

from ..compute.registry import storable
from .normal_equations import NormalEquations

__all__ = ["DualSpectrum", "DualTriangle", "PrimalSpectrum", "PrimalTriangle", "solve_dual", "solve_primal"]

Array = NDArray[Any]

_RESOLVED = 1e-7  # share of yy that squared residuals must have to be taken from a difference


def _inverse(values: Array, alphas: Array, least: float) -> Array:
    """1 / (λ + α), and 0 where that is above rounding; (n_values, n_alphas)."""
    total = values[:, None] + alphas
    seen = total > least
    return np.asarray(np.where(seen, 1 / np.where(seen, total, 1), 0.0))


def _left(values: Array, alphas: Array, least: float) -> Array:
    """α / (λ + α): what a residual keeps of a direction. 1 where λ + α is below rounding."""
    return np.asarray(np.where(values[:, None] + alphas > least, alphas * _inverse(values, alphas, least), 1.0))


@storable
@dataclass(frozen=True)
class PrimalSpectrum:
    """G = U Λ Uᵀ, for any number of alphas."""

    values: Array
    vectors: Array
    rotated: Array  # UᵀB
    yy: Array
    spare: int  # rows beyond independent features and intercept
    least: float

    def coefficients(self, alphas: Array) -> Array:
        return np.asarray(self.vectors @ (self.rotated * _inverse(self.values, alphas, self.least)))

    def path(self, alphas: Array) -> Array:
        """Coefficients of all outputs for all alphas, (D, n_alphas, n_outputs)."""
        inverse = _inverse(self.values, alphas, self.least)
        each = (inverse[:, :, None] * self.rotated[:, None, :]).reshape(len(inverse), -1)
        return np.asarray(self.vectors @ each).reshape(len(self.vectors), len(alphas), -1)

    def freedom(self, alphas: Array) -> Array:
        seen = self.values > self.least
        return np.asarray(self.spare + _left(self.values[seen], alphas, self.least).sum(axis=0))

    def residual_squares(self, alphas: Array) -> Array:
        """Weighted sum of squared residuals, (n_alphas, n_outputs)."""
        seen = self.values > self.least
        parts = self.rotated[seen] ** 2 / self.values[seen, None]
        # The only difference, of what features explain and of yy, is zero where they can explain everything.
        beyond = np.maximum(self.yy - parts.sum(axis=0), 0.0) if self.spare > 0 else 0.0
        return np.asarray(beyond + _left(self.values[seen], alphas, self.least).T ** 2 @ parts)

    def forms(self, Z: Array, alphas: Array) -> Array:
        return np.asarray((Z @ self.vectors) ** 2 @ _inverse(self.values, alphas, self.least))


@storable
@dataclass(frozen=True)
class PrimalTriangle:
    """G + αI = L Lᵀ, for one alpha."""

    L: Array
    B: Array
    yy: Array
    spare: int
    alpha: float

    def coefficients(self, alphas: Array) -> Array:
        return np.asarray(cho_solve((self.L, True), self.B, check_finite=False))

    def path(self, alphas: Array) -> Array:
        return self.coefficients(alphas)[:, None, :]

    def freedom(self, alphas: Array) -> Array:
        inverse = np.tril(lapack.dtrtri(self.L, lower=1)[0])
        return np.full(len(alphas), self.spare + self.alpha * np.einsum("ij,ij->", inverse, inverse))

    def residual_squares(self, alphas: Array) -> Array:
        """As of :class:`PrimalSpectrum`, but digits are lost where it is far below yy."""
        b = self.coefficients(alphas)
        explained = np.sum(b * self.B, axis=0) + self.alpha * np.sum(b * b, axis=0)
        return np.asarray(np.maximum(self.yy - explained, 0.0))[None]

    def resolves(self) -> bool:
        """Whether digits are left of squared residuals and freedom, which vanish together with small alphas."""
        return self.spare > 0 or bool(np.all(self.residual_squares(np.zeros(1)) >= _RESOLVED * self.yy))

    def forms(self, Z: Array, alphas: Array) -> Array:
        return _squares_behind(self.L, Z)[:, None]


def _squares_behind(L: Array, rows: Array) -> Array:
    """Squared length of L⁻¹z for each row z, (n_rows,)."""
    solved = blas.dtrsm(1.0, L, np.ascontiguousarray(rows, np.float64).T, lower=1)
    return np.asarray(np.einsum("ij,ij->j", solved, solved))


def solve_primal(
    equations: NormalEquations, about_mean: bool, alphas: Array, rows_at_hand: bool = False
) -> PrimalSpectrum | PrimalTriangle:
    """The factorisation of G, with an intercept or without one, that serves these alphas.

    With rows at hand nobody asks for its squared residuals, and Cholesky serves where they can't be told from rounding.

    Examples
    --------
    >>> sums = NormalEquations(2, 1).add(np.eye(2), np.ones((2, 1)))
    >>> solver = solve_primal(sums, False, np.array([1.0]))
    >>> solver.coefficients(np.array([1.0])).ravel()
    array([0.5, 0.5])
    """
    G, B, yy = equations.moments(about_mean)
    n_features = len(G)
    spare = equations.n_rows - about_mean - n_features
    if len(alphas) == 1 and alphas[0] > 0:
        G[np.diag_indices(n_features)] += alphas[0]
        L, failed = lapack.dpotrf(G, lower=1, overwrite_a=1, clean=0)
        if not failed:
            triangle = PrimalTriangle(L, B, yy, spare, float(alphas[0]))
            if rows_at_hand or triangle.resolves():
                return triangle
        G, B, yy = equations.moments(about_mean)
    values, vectors = eigh(G, lower=True, overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0.0)
    least = max(equations.n_rows, n_features) * np.finfo(float).eps * values[-1]
    rotated = vectors.T @ B
    rotated[: max(0, -spare)] = 0.0  # rows are too few for these directions, in which B is rounding, and α may be small
    spare += int(np.sum(values <= least))
    return PrimalSpectrum(values, vectors, rotated, yy, spare, float(least))


@storable
@dataclass(frozen=True)
class DualSpectrum:
    """K = V Λ Vᵀ over rows times the roots of their weights, without the direction of the intercept."""

    rows: Array
    values: Array
    vectors: Array
    rotated: Array  # VᵀY
    least: float

    def coefficients(self, alphas: Array) -> Array:
        return np.asarray(self.rows.T @ (self.vectors @ (self.rotated * _inverse(self.values, alphas, self.least))))

    def freedom(self, alphas: Array) -> Array:
        return np.asarray(_left(self.values, alphas, self.least).sum(axis=0))

    def residual_squares(self, alphas: Array) -> Array:
        return np.asarray(np.sum((self.rotated * _left(self.values, alphas, self.least)) ** 2, axis=0))

    def leave_one_out(self, alphas: Array) -> Array:
        """√w times the leave-one-out residuals, (n_rows, n_outputs): a residual over what its row leaves free."""
        left = _left(self.values, alphas, self.least)
        free = self.vectors**2 @ left
        free[free <= np.where(alphas == 0, 1e-12, 0.0)] = np.nan
        return np.asarray(self.vectors @ (self.rotated * left) / free)

    def forms(self, Z: Array, alphas: Array) -> Array:
        squares = (Z @ self.rows.T @ self.vectors) ** 2
        resolved = alphas > self.least
        outside = np.einsum("ij,ij->i", Z, Z)[:, None] - squares @ _inverse(self.values, alphas, self.least)
        safe = np.where(resolved, alphas, 1.0)
        inside = squares @ _inverse(self.values, np.zeros(1), self.least) ** 2
        return np.asarray(np.maximum(np.where(resolved, outside / safe, inside), 0.0))


@storable
@dataclass(frozen=True)
class DualTriangle:
    """K + αI = L Lᵀ, for one alpha."""

    rows: Array
    L: Array
    solved: Array  # (K + αI)⁻¹ Y
    free: Array  # what each row leaves free, over alpha
    alpha: float

    def coefficients(self, alphas: Array) -> Array:
        return np.asarray(self.rows.T @ self.solved)

    def freedom(self, alphas: Array) -> Array:
        return np.full(len(alphas), self.alpha * self.free.sum())

    def residual_squares(self, alphas: Array) -> Array:
        return np.asarray(np.sum((self.alpha * self.solved) ** 2, axis=0))

    def leave_one_out(self, alphas: Array) -> Array:
        """As :meth:`DualSpectrum.leave_one_out`."""
        free = np.where(self.free > 0, self.free, np.nan)
        return np.asarray(self.solved / free[:, None])

    def forms(self, Z: Array, alphas: Array) -> Array:
        inside = _squares_behind(self.L, Z @ self.rows.T)
        return np.asarray(np.maximum(np.einsum("ij,ij->i", Z, Z) - inside, 0.0) / self.alpha)[:, None]


def solve_dual(rows: Array, targets: Array, direction: Array | None, alphas: Array) -> DualSpectrum | DualTriangle:
    """The factorisation of K that serves these alphas.

    Parameters
    ----------
    rows, targets : ndarray of shape (n_rows, n_features), (n_rows, n_outputs)
        Centred and times √w.
    direction : ndarray of shape (n_rows,) or None
        √(w / W), the null vector of the intercept; None without one.
    alphas : ndarray of shape (n_alphas,)

    Examples
    --------
    >>> solver = solve_dual(np.eye(2), np.ones((2, 1)), None, np.array([1.0]))
    >>> solver.coefficients(np.array([1.0])).ravel()
    array([0.5, 0.5])
    """
    K = blas.dsyrk(1.0, rows.T, trans=1, lower=1)
    lift = 1.5 * float(np.sqrt(2) * np.linalg.norm(K)) or 1.0  # above the largest eigenvalue
    if direction is not None:
        K += lift * np.outer(direction, direction)
    if len(alphas) == 1 and alphas[0] > 0:
        shifted = K.copy(order="F")
        shifted[np.diag_indices(len(K))] += alphas[0]
        L, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=0)
        if not failed:
            alpha = float(alphas[0])
            diagonal = np.diag(lapack.dpotri(L, lower=1)[0]).copy()
            free = diagonal if direction is None else diagonal - direction**2 / (lift + alpha)
            free[free <= 1e-13 * diagonal] = 0.0
            solved = np.asarray(cho_solve((L, True), targets, check_finite=False))
            return DualTriangle(rows, L, solved, free, alpha)
    values, vectors = eigh(K, lower=True, overwrite_a=True, check_finite=False)
    if direction is not None:
        values, vectors = values[:-1], vectors[:, :-1]
    values = np.maximum(values, 0.0)
    largest = values.max(initial=0.0) if direction is None else lift  # to which rounding is relative
    least = max(rows.shape) * np.finfo(float).eps * largest
    return DualSpectrum(rows, values, vectors, vectors.T @ targets, float(least))
