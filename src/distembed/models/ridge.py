r"""Linear ridge regression on features: rows in memory or in batches, leave-one-out errors, deviations.

.. math:: \min_{b, c} \; Σ_i w_i (y_i - z_i·b - c)^2 + α \|b\|^2

is the last step after features of bags, and knows nothing of bags. Coefficients, leave-one-out errors and deviations of
predictions come from one factorisation, see :mod:`distembed.models.normal_equations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message, check_choice, check_number, check_weights
from ..compute.parallel import one_blas_thread, run_chunks
from ..compute.registry import storable
from .normal_equations import Inverse, NormalEquations, Rows, row_blocks

SOLVERS = ("auto", "primal", "dual")
_SINGLE = 1e-3  # penalty per squared length of a row from which sums of a million rows may be made in float32
_STRIP = 64  # rows that are made float64 at a time, to be multiplied in the cache
_LEAST_FREE = 1e-12  # what a row must leave free to be left out, and all rows on average to tell the noise


@storable(
    coef_="finite(f) | finite(o, f)",
    intercept_="number | finite(o)",
    sigma2_="any",
    loo_error_="any",
    loo_predictions_="any",
)
@dataclass(frozen=True, eq=False)
class Solution:
    """Fitted attributes of :class:`LinearRidge`; the last two are None where rows came in batches."""

    coef_: Array
    intercept_: Any
    sigma2_: Any
    loo_error_: Any = None
    loo_predictions_: Array | None = None


@storable(_flat="bool", _n_outputs="o", _known="NormalEquations | Rows | None", _solution="Solution | None")
class LinearRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression for rows of features, in memory or in batches, with leave-one-out errors and deviations.

    Coefficients b and intercept c minimise Σ w_i (y_i - z_i·b - c)² + α \|b\|², as in scikit-learn's ``Ridge``: the
    intercept is not penalised.

    Parameters
    ----------
    alpha : float, default=1.0
        α ≥ 0. Zero: the least squares solution of least norm.
    solver : {"auto", "primal", "dual"}, default="auto"
        ``"primal"`` factorises the D × D matrix of features, ``"dual"`` the n × n matrix of rows; the answers agree to
        rounding. ``"auto"``: dual where rows in memory are fewer than features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        b, in float64.
    intercept_ : float or ndarray of shape (n_outputs,)
        c.
    loo_error_ : float or ndarray of shape (n_outputs,)
        Σ w r² / Σ w over the residuals r of each row from the model without it. Only after ``fit``.
    loo_predictions_ : ndarray of the shape of y
        Predictions for each row from the model without it. Only after ``fit``.
    sigma2_ : float or ndarray of shape (n_outputs,)
        Σ w e² / (n - tr H) with residuals e, the variance of noise in a row of weight one.
    n_features_in_ : int
        D.

    Notes
    -----
    *Weights* are precisions: the variance of noise in row i is σ²/w_i. To coefficients a row of weight two is the same
    as two rows; to leave-one-out errors, n and σ² it is one row. Rows of weight zero are as if absent; their
    ``loo_predictions_`` are the model's.

    *Leave-one-out* residuals are e_i / (1 - h_i), with h_i = w_i (1/W + (z_i - z̄)ᵀ (G + αI)⁻¹ (z_i - z̄)) and
    G = Σ w (z - z̄)(z - z̄)ᵀ, W = Σ w: what refitting without row i would give. They are NaN where a row can't be left
    out (the only row; with α = 0, the only one that tells some coefficient).

    *Batches.* ``partial_fit`` only adds sums, and the equations are solved when ``predict`` or an attribute first needs
    it. Sums over rows do not tell leverages of rows: there is no ``loo_error_``.

    *Deviations* are those of Bayesian linear regression with b ~ N(0, σ²/α), a flat prior of c, and σ² = ``sigma2_``.
    The variance of a new y of weight one at z is

    .. math:: σ^2 \big(1 + 1/W + (z - z̄)^T (G + αI)^{-1} (z - z̄)\big).

    With α = 0 directions that no training row has count as known. With n = tr H the σ² is NaN.

    *Precision.* All sums are in float64, float32 rows included, about means, so offsets cost no digits; products
    in float32 would take half the time and were off by 7e-4 in coefficients at small alphas. G has the squared
    condition of the rows: an alpha below 1e-13 of its largest eigenvalue is as good as zero. From batches, σ² is a
    difference of sums of squares, and has no digits where residuals are below 1e-7 of the targets.

    *Cost.* primal: n D² for sums and as much for leave-one-out errors, and D³/3; dual: D n², and n³. On one core
    (n = 4,000, D = 2,000) a fit with leave-one-out errors took 1.4 times as long as ``Ridge(solver="cholesky")``.
    Memory: primal 2 D² numbers and a block of rows; dual the rows in float64 and n² numbers. A model file holds none of
    that but by ``save(..., updatable=True)``; a model without it predicts, but has no deviations and takes no rows.

    References
    ----------
    Wahba (1983). Bayesian "confidence intervals" for the cross-validated smoothing spline. Journal of the Royal
    Statistical Society B.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 5))
    >>> y = Z @ [1.0, 2.0, 0.0, 0.0, 0.0] + 10 + 0.5 * rng.normal(size=300)
    >>> model = LinearRidge(0.1).fit(Z, y)
    >>> model.coef_.round(1) + 0.0
    array([1., 2., 0., 0., 0.])
    >>> round(float(np.sqrt(model.sigma2_)), 2), round(float(np.sqrt(model.loo_error_)), 2)
    (0.52, 0.52)

    Rows that keep arriving:

    >>> model = LinearRidge(0.1).partial_fit(Z[:100], y[:100]).partial_fit(Z[100:], y[100:])
    >>> mean, deviation = model.predict(Z[:1], return_std=True)
    >>> deviation.round(1)
    array([0.5])
    """

    _known: NormalEquations | Rows | None  # what it has learned from; None in a model from a file that lacks it
    _solution: Solution | None  # None until the equations are solved
    _inverse: Inverse | None

    def __init__(self, alpha: float = 1.0, *, solver: str = "auto") -> None:
        self.alpha = alpha
        self.solver = solver

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows in memory.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Features; float32 and float64 are taken as they are.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of rows, at least zero.

        Returns
        -------
        self
        """
        alpha = self._check_parameters()
        X, targets, weights = self._check_rows(X, y, sample_weight, reset=True)
        kept = weights > 0
        Z, t, w = (X, targets, weights) if kept.all() else (X[kept], targets[kept], weights[kept])
        dual = self.solver == "dual" or (self.solver == "auto" and len(Z) < X.shape[1])
        known = (
            Rows.of(Z.astype(np.float64, copy=False), t, w)
            if dual
            else NormalEquations(X.shape[1], t.shape[1]).add(Z, t, w)
        )
        _require_finite(known)
        inverse = known.inverse(alpha)
        coef = known.coefficients(inverse)
        residuals, free = _residuals(known, inverse, coef, Z, t, w)
        left_out = residuals / np.where(free < _LEAST_FREE, np.nan, free)[:, None]
        self._known = known
        self._inverse = inverse
        found = self._make_solution(coef, w @ residuals**2, float(free.sum()), len(Z))
        predictions = targets.copy()
        predictions[kept] -= left_out
        predictions[~kept] = X[~kept] @ coef + found.intercept_
        self._solution = replace(
            found,
            loo_error_=self._reshape(w @ left_out**2 / w.sum()),
            loo_predictions_=predictions[:, 0] if self._flat else predictions,
        )
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to those of earlier calls, ``fit`` included.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        self._check_parameters(batches=True)
        new = not self.__sklearn_is_fitted__()
        known = None if new else self.learned().equations()
        X, targets, weights = self._check_rows(X, y, sample_weight, reset=new)
        if known is None:
            length = np.einsum("ij,ij->", X, X, dtype=np.float64) / len(X)
            single = X.dtype == np.float32 and 1e-12 < length < 1e12 and float(self.alpha) >= _SINGLE * length
            known = NormalEquations(X.shape[1], targets.shape[1], single)
        known.add(X, targets, weights)
        self._known = known
        self._solution = None
        self._inverse = None
        return self

    @property
    def why_not_updatable(self) -> str:
        """Why rows can't be added: the model comes from a file that lacks what it takes; empty where they can."""
        if not self.__sklearn_is_fitted__() or self._known is not None:
            return ""
        why = "this model comes from a file without what deviations and partial_fit need; save it with "
        return Message(why, Argument("updatable", True), ", or fit again")

    def learned(self) -> NormalEquations | Rows:
        """What rows to come are added to, and deviations need; an error in a model from a file that lacks it."""
        if self._known is None:
            raise ValueError(Message("LinearRidge: ", self.why_not_updatable))
        return self._known

    def adopt(self, sums: NormalEquations) -> Self:
        """Forget all rows so far, and take sums over others, which were made elsewhere.

        Examples
        --------
        >>> x, y = np.arange(6.0)[:, None], np.array([1.0, 3.0, 2.0, 5.0, 4.0, 7.0])
        >>> sums = LinearRidge(0.5).partial_fit(x[:2], y[:2]).partial_fit(x[2:], y[2:]).learned()
        >>> model = LinearRidge(0.5).partial_fit(x[:2], y[:2]).adopt(sums)
        >>> bool(np.allclose(model.coef_, LinearRidge(0.5).fit(x, y).coef_))
        True
        """
        check_is_fitted(self)
        self._known = sums
        self._solution = None
        self._inverse = None
        return self

    @property
    def left_out(self) -> Array | None:
        """Predictions for each row from the model without it, (n_rows, n_outputs); None where rows came in batches."""
        found = None if self._solution is None else self._solution.loo_predictions_
        return None if found is None else found.reshape(len(found), -1)

    def solve(self) -> Solution:
        """Solve the equations now, if that was not done yet, rather than when it is first needed."""
        if self._solution is None:
            sums = self.learned().equations()
            alpha = self._check_parameters()
            _require_finite(sums)
            with one_blas_thread():  # two gain tenths of seconds, and lose ten times that beside other work
                self._inverse = inverse = sums.inverse(alpha)
                coef = sums.coefficients(inverse)
                rank = inverse.rank()
            squares = sums.yy - np.sum(coef * sums.B, axis=0) - inverse.alpha * np.sum(coef * coef, axis=0)
            freedom = sums.n_rows - 1 - rank
            self._solution = self._make_solution(coef, np.maximum(squares, 0.0), freedom, sums.n_rows)
        return self._solution

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows as in ``fit``.
        return_std : bool, default=False
            Whether to return deviations too, see Notes of the class.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            float32 for float32 rows, else float64; computed in float64.
        deviation : ndarray of the same shape
            Only with ``return_std``: of a new y of weight one.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        found = self.solve()
        coef = np.atleast_2d(found.coef_).T
        intercept = np.atleast_1d(found.intercept_)
        means = np.empty((len(X), coef.shape[1]), X.dtype)
        deviations = np.empty_like(means) if return_std else None

        def multiply(block: slice, scratch: Scratch) -> None:
            for start in range(block.start, block.stop, _STRIP):
                strip = slice(start, min(start + _STRIP, block.stop))
                means[strip] = X[strip].astype(np.float64, copy=False) @ coef + intercept

        blocks = list(row_blocks(len(X), X.shape[1]))
        run_chunks(multiply, blocks, None)
        if deviations is not None:
            for block in blocks:
                spreads = self._spreads(X[block].astype(np.float64, copy=False))
                deviations[block] = np.sqrt(np.atleast_1d(found.sigma2_) * spreads[:, None])
        if found.coef_.ndim == 1:
            means = means[:, 0]
            deviations = None if deviations is None else deviations[:, 0]
        return (means, deviations) if return_std else means

    def without(self, X: Any, y: Any, sample_weight: Any, parts: Iterable[Array]) -> Array:
        """Predict rows that the model has learned from, as the models without some of them would.

        Parameters
        ----------
        X, y, sample_weight
            Rows of ``fit`` or ``partial_fit``, not necessarily all; weights are positive.
        parts : iterable of index arrays
            Positions of rows that are left out together; other rows stay.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            NaN for rows of no part.

        Notes
        -----
        With R = diag(√w) and the hat matrix H = R (1/W + (Z - z̄) (G + αI)⁻¹ (Z - z̄)ᵀ) R of these rows, residuals e of
        the rows B of a part become R⁻¹ (I - H_BB)⁻¹ R e. The cost is n D² for n rows; n m D + n m² where the
        model has learned from m < D rows; and n³ where these are the n rows, whose I - H is at hand.

        Examples
        --------
        >>> x, y = np.arange(6.0)[:, None], np.array([1.0, 3.0, 2.0, 5.0, 4.0, 7.0])
        >>> found = LinearRidge(0.5).fit(x, y).without(x, y, None, [np.arange(2), np.arange(2, 6)])
        >>> bool(np.allclose(found[:2, 0], LinearRidge(0.5).fit(x[2:], y[2:]).predict(x[:2])))
        True
        """
        known = self.learned()
        found = self.solve()
        X, targets, weights = self._check_rows(X, y, sample_weight, reset=False)
        if self._inverse is None:  # not in files
            self._inverse = known.inverse(float(self.alpha))
        root = np.sqrt(weights)[:, None]
        Z = X.astype(np.float64) - known.z_mean
        residuals = root * (targets - known.y_mean - Z @ np.atleast_2d(found.coef_).T)
        out = np.full_like(targets, np.nan)
        whole = None
        if isinstance(known, Rows) and self._inverse.alpha > 0 and known.are(Z, weights):
            whole = known.free(self._inverse)
        for part in parts:
            if whole is None:
                hat = root[part] * (1 / known.weight + known.products(Z[part], self._inverse)) * root[part].T
            free = np.eye(len(part)) - hat if whole is None else whole[np.ix_(part, part)]
            out[part] = targets[part] - np.linalg.solve(free, residuals[part]) / root[part]
        return out

    def _spreads(self, Z: Array) -> Array:
        """Variances of new targets at rows, over that of noise."""
        known = self.learned()
        if self._inverse is None:  # not in files
            self._inverse = known.inverse(float(self.alpha))
        return np.asarray(1 + 1 / known.weight + known.forms(Z - known.z_mean, self._inverse))

    # Rows and parameters

    def _check_parameters(self, batches: bool = False) -> float:
        solver = check_choice(self, "solver", self.solver, SOLVERS)
        if batches and solver == "dual":
            raise ValueError(
                "LinearRidge(solver='dual'): must be 'auto' or 'primal' for batches, because the dual needs all rows "
                "at once; choose one of these, or call fit"
            )
        return check_number(self, "alpha", self.alpha, low=0, remedy="give a number of at least zero")

    def _check_rows(self, X: Any, y: Any, sample_weight: Any = None, *, reset: bool) -> tuple[Array, Array, Array]:
        """Rows, targets (n_rows, n_outputs) and weights (n_rows,), checked."""
        if y is not None:
            seen = np.asarray(y)
            words = [value for value in seen.ravel() if isinstance(value, str)] if seen.dtype.kind == "O" else []
            if seen.dtype.kind not in "fiubcO" or words:
                raise ValueError(
                    f"LinearRidge: y must be real numbers, got {words[0] if words else seen.ravel()[:1]!r} of type "
                    f"{seen.dtype}; for classes use a classifier"
                )
        X, y = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        targets = y.reshape(len(y), -1).astype(np.float64, copy=False)
        if reset:
            self._flat = y.ndim == 1
            self._n_outputs = targets.shape[1]
            self.__dict__.pop("_known", None)  # should what follows fail, nothing is fitted
        elif targets.shape[1] != self._n_outputs:
            raise ValueError(
                f"LinearRidge: y must have {self._n_outputs} output(s), as before, got {targets.shape[1]}; pass the "
                "same columns every time, or fit again"
            )
        if isinstance(sample_weight, Real):
            sample_weight = np.full(len(X), sample_weight)
        return X, targets, check_weights(self, sample_weight, len(X), may_vanish=not reset, unit="row")

    # State

    def _make_solution(self, coef: Array, squares: Array, freedom: float, n_rows: int) -> Solution:
        """Coefficients (n_features, n_outputs), with the noise from sums of squared residuals."""
        known = self.learned()
        noise = squares / (freedom if freedom > _LEAST_FREE * n_rows else np.nan)
        shaped = np.ascontiguousarray(coef[:, 0] if self._flat else coef.T)
        return Solution(shaped, self._reshape(known.y_mean - known.z_mean @ coef), self._reshape(noise))

    def _reshape(self, values: Array) -> Any:
        return float(values[0]) if self._flat else values

    def __getattr__(self, name: str) -> Any:
        if "_known" in self.__dict__ and name in Solution.__dataclass_fields__:
            found = getattr(self.solve(), name)
            if found is not None:
                return found
            raise AttributeError(f"LinearRidge: {name} needs all rows in memory, but some came in batches; call fit")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "_known" in self.__dict__

    def __distembed_state__(self, updatable: bool) -> dict[str, Any]:
        """What a model file holds: the solution, and what it was made of only if that is asked for."""
        if not self.__sklearn_is_fitted__():
            return dict(vars(self))
        if updatable:  # not solved for that: a checkpoint is written between two batches
            return vars(self) | {"_inverse": None}
        return vars(self) | {"_solution": self.solve(), "_known": None, "_inverse": None}


def fit_ridge(alpha: float, rows: Iterator[tuple[Array, slice]], Y: Array, weight: Array) -> LinearRidge:
    """Ridge regression on rows that come in pieces: in the dual if there are no more rows than features."""
    model = LinearRidge(alpha)
    first = next(rows)
    if len(Y) <= first[0].shape[1]:  # there all rows are needed at once
        return model.fit(np.concatenate([first[0], *(Z for Z, _ in rows)]), Y, sample_weight=weight)
    for Z, some in chain([first], rows):
        model.partial_fit(Z, Y[some], sample_weight=weight[some])
    return model


def _residuals(
    known: NormalEquations | Rows, inverse: Inverse, coef: Array, X: Array, y: Array, w: Array
) -> tuple[Array, Array]:
    """Residuals (n_rows, n_outputs), and what each row leaves free, 1 - h (n_rows,)."""
    if isinstance(known, Rows):
        return known.left(inverse)
    residuals = np.empty_like(y)
    free = np.empty(len(y))
    for block in row_blocks(len(X), X.shape[1]):
        Z = X[block] - known.z_mean
        residuals[block] = y[block] - known.y_mean - Z @ coef
        free[block] = 1 - w[block] * (1 / known.weight + known.forms(Z, inverse))
    return residuals, free


def _require_finite(known: NormalEquations | Rows) -> None:
    if not (np.isfinite(known.trace) and np.isfinite(known.yy).all()):
        raise ValueError("LinearRidge: X and y must have finite squares, got larger values; rescale them")
