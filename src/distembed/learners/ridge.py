r"""Linear ridge regression on features: alpha by leave-one-out error, rows in memory or in batches, deviations.

.. math:: \min_{b, c} \; Σ_i w_i (y_i - z_i·b - c)^2 + α \|b\|^2

is the last step after features of bags, and knows nothing of bags. Solutions for all alphas, their leave-one-out errors
and the deviations of predictions come from one factorisation, see ``_normal_equations.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compute.checks import check_choice, check_number
from ..compute.registry import storable
from .normal_equations import NormalEquations, centred, row_blocks
from .ridge_solutions import PrimalSpectrum, PrimalTriangle, solve_dual, solve_primal

__all__ = ["LinearRidge"]

Array = NDArray[Any]

SOLVERS = ("auto", "primal", "dual")
_AUTO_ALPHAS = np.logspace(-8, 4, 25)  # times trace(G) / D
_LEAST_FREE = 1e-12  # what a row must leave free to be left out, in the primal, where that is a difference from one
_SOLVED = ("alpha_", "alphas_", "alpha_errors_", "coef_", "intercept_", "sigma2_", "gcv_error_")
_IN_MEMORY = ("loo_error_", "loo_predictions_")


@storable
class LinearRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression for rows of features, in memory or in batches, with its alpha from leave-one-out errors.

    Coefficients b and intercept c minimise Σ w_i (y_i - z_i·b - c)² + α \|b\|², as in scikit-learn's ``Ridge``: the
    intercept is not penalised.

    Parameters
    ----------
    alpha : float, sequence of float or "auto", default=1.0
        α ≥ 0, or several to choose from, or 25 of them from 1e-8 to 1e4 times trace(G)/D, G as in Notes. All come from
        one factorisation. The best is the one of least leave-one-out error (rows in memory) or generalised
        cross-validation error (batches); of equal ones the largest. Zero: the least squares solution of least norm.
    fit_intercept : bool, default=True
        Whether there is a c.
    solver : {"auto", "primal", "dual"}, default="auto"
        ``"primal"`` factorises the D × D matrix of features, ``"dual"`` the n × n matrix of rows; the answers agree to
        rounding. ``"auto"``: dual where rows in memory are fewer than features.
    alpha_per_output : bool, default=False
        Whether each output gets its own alpha. If not, errors are divided by the variances of their outputs, and their
        mean over outputs counts.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        b, in float64.
    intercept_ : float or ndarray of shape (n_outputs,)
        c.
    alpha_ : float, or ndarray of shape (n_outputs,) with ``alpha_per_output``
        α in use.
    alphas_ : ndarray of shape (n_alphas,)
        Those that were tried, in increasing order.
    alpha_errors_ : ndarray of shape (n_alphas, n_outputs)
        Their errors.
    loo_error_ : float or ndarray of shape (n_outputs,)
        Σ w r² / Σ w over the residuals r of each row from the model without it. Only after ``fit``.
    loo_predictions_ : ndarray of the shape of y
        Predictions for each row from the model without it, with the same alpha. Only after ``fit``.
    gcv_error_ : float or ndarray of shape (n_outputs,)
        The same error with the mean of leverages in place of each: (Σ w e² / Σ w) / (1 - tr H / n)², with residuals e.
    sigma2_ : float or ndarray of shape (n_outputs,)
        Σ w e² / (n - tr H), the variance of noise in a row of weight one.
    n_features_in_ : int
        D.

    Notes
    -----
    *Weights* are precisions: the variance of noise in row i is σ²/w_i. To coefficients of one alpha, a row of weight
    two is the same as two rows; to leave-one-out errors, n and σ² it is one row. Rows of weight zero are as if absent;
    their ``loo_predictions_`` are the model's.

    *Leave-one-out* residuals are e_i / (1 - h_i), with h_i = w_i (1/W + (z_i - z̄)ᵀ (G + αI)⁻¹ (z_i - z̄)) and
    G = Σ w (z - z̄)(z - z̄)ᵀ, W = Σ w: what refitting without row i would give. They are NaN where a row can't be left
    out (the only row; with α = 0, the only one that tells some coefficient). Without an intercept 1/W and z̄ are zero.

    *Batches.* Sums over rows do not tell leverages of rows, so ``partial_fit`` and ``fit_batches`` choose alpha by
    generalised cross-validation, which tr H and Σ w e² suffice for, and there is no ``loo_error_``. ``partial_fit``
    only adds sums. The equations are solved when ``predict`` or an attribute first needs it.

    *Deviations* are those of Bayesian linear regression with b ~ N(0, σ²/α), a flat prior of c, and σ² = ``sigma2_``.
    The variance of a new y of weight one at z is

    .. math:: σ^2 \big(1 + 1/W + (z - z̄)^T (G + αI)^{-1} (z - z̄)\big).

    With α = 0 directions that no training row has count as known. With n = tr H the σ² is NaN.

    *Precision.* All sums are in float64, float32 rows included, about means, so that offsets cost no digits; products
    in float32 would take half the time and were off by 7e-4 in coefficients at small alphas. G has the squared
    condition of the rows: an alpha below 1e-13 of its largest eigenvalue is as good as zero.

    *Cost.* primal: n D² for sums and as much for leave-one-out errors, and D³/3 for one alpha, about 9 D³ for several;
    dual: D n², and n³ or about 9 n³. On one core (n = 4,000, D = 2,000) a fit with leave-one-out errors took 1.4 times
    as long as ``Ridge(solver="cholesky")`` for one alpha, and less than a tenth of ``RidgeCV`` for 25. Memory:
    primal 2 D² numbers and a block of rows, which are kept; dual the rows in float64 and 2 n² numbers, kept as well.

    References
    ----------
    Golub, Heath and Wahba (1979). Generalized cross-validation as a method for choosing a good ridge parameter.
    Technometrics.

    Wahba (1983). Bayesian "confidence intervals" for the cross-validated smoothing spline. Journal of the Royal
    Statistical Society B.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 5))
    >>> y = Z @ [1.0, 2.0, 0.0, 0.0, 0.0] + 10 + 0.5 * rng.normal(size=300)
    >>> model = LinearRidge("auto").fit(Z, y)
    >>> model.coef_.round(1) + 0.0
    array([1., 2., 0., 0., 0.])
    >>> round(float(np.sqrt(model.sigma2_)), 2), round(float(np.sqrt(model.loo_error_)), 2)
    (0.52, 0.52)

    Rows that keep arriving:

    >>> model = LinearRidge("auto").partial_fit(Z[:100], y[:100]).partial_fit(Z[100:], y[100:])
    >>> mean, deviation = model.predict(Z[:1], return_std=True)
    >>> deviation.round(1)
    array([0.5])
    """

    _solver: Any  # of _normal_equations.py; absent until the equations are solved

    def __init__(
        self,
        alpha: float | Sequence[float] | str = 1.0,
        *,
        fit_intercept: bool = True,
        solver: str = "auto",
        alpha_per_output: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.alpha_per_output = alpha_per_output

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
        self._check_parameters()
        X, targets, weights = self._check_rows(X, y, sample_weight, reset=True)
        self._forget()
        self.__dict__.pop("_equations", None)
        self.__dict__.pop("_rows", None)
        kept = weights > 0
        _require_rows(int(kept.sum()))
        rows, t, w = (X, targets, weights) if kept.all() else (X[kept], targets[kept], weights[kept])
        dual = self.solver == "dual" or (self.solver == "auto" and len(rows) < X.shape[1])
        residuals = self._fit_dual(rows, t, w) if dual else self._fit_primal(rows, t, w)
        self.loo_error_ = self._shaped(w @ residuals**2 / w.sum())
        predictions = targets.copy()
        predictions[kept] -= residuals
        if not kept.all():
            predictions[~kept] = np.reshape(self.predict(X[~kept]), (-1, targets.shape[1]))
        self.loo_predictions_ = predictions[:, 0] if self._flat else predictions
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
        X, targets, weights = self._check_rows(X, y, sample_weight, reset=new)
        equations = NormalEquations(X.shape[1], targets.shape[1]) if new else self._all_equations()
        self._keep(equations.add(X, targets, weights))
        return self

    def fit_batches(self, make_iterator: Callable[[], Iterable[tuple[Any, ...]]]) -> Self:
        """Fit to batches of rows, in one pass and in memory that does not grow with their number.

        Parameters
        ----------
        make_iterator : callable
            Called once without arguments. Returns an iterator over (Z, y) or (Z, y, weights), arrays as in
            :meth:`fit`.

        Returns
        -------
        self

        Examples
        --------
        >>> Z = np.arange(8.0).reshape(-1, 1)
        >>> model = LinearRidge(0.0).fit_batches(lambda: ((Z[i : i + 4], 3 * Z[i : i + 4, 0]) for i in (0, 4)))
        >>> model.coef_.round(6)
        array([3.])
        """
        self._check_parameters(batches=True)
        if not callable(make_iterator):
            raise TypeError(
                "LinearRidge.fit_batches(make_iterator=...): must be a callable that returns an iterator, got "
                f"{type(make_iterator).__name__}; pass a function, e.g. lambda: iter(batches)"
            )
        equations = None
        for batch in make_iterator():
            if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
                raise ValueError(
                    "LinearRidge.fit_batches: a batch must be (Z, y) or (Z, y, weights), got "
                    f"{type(batch).__name__}; yield tuples"
                )
            first = equations is None
            X, targets, weights = self._check_rows(batch[0], batch[1], *batch[2:], reset=first)
            if equations is None:
                equations = NormalEquations(X.shape[1], targets.shape[1])
            equations.add(X, targets, weights)
        if equations is None:
            raise ValueError("LinearRidge.fit_batches: there must be a batch at least, got none; yield (Z, y)")
        self._keep(equations)
        self._solve_equations()
        return self

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
        coef, intercept = np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)
        means = np.empty((len(X), coef.shape[1]), X.dtype)
        deviations = np.empty_like(means) if return_std else None
        for block in row_blocks(len(X), X.shape[1]):
            Z = X[block].astype(np.float64, copy=False)
            means[block] = Z @ coef + intercept
            if deviations is not None:
                forms = self._solver.forms(Z - self._z_mean, np.atleast_1d(self.alpha_))
                deviations[block] = np.sqrt(np.atleast_1d(self.sigma2_) * (1 + self._share + forms))
        if self._flat:
            means, deviations = means[:, 0], None if deviations is None else deviations[:, 0]
        return (means, deviations) if return_std else means

    # Rows and parameters

    def _check_parameters(self, batches: bool = False) -> None:
        solver = check_choice(self, "solver", self.solver, SOLVERS)
        if batches and solver == "dual":
            raise ValueError(
                "LinearRidge(solver='dual'): must be 'auto' or 'primal' for batches, because the dual needs all rows "
                "at once; choose one of these, or call fit"
            )
        for name in ("fit_intercept", "alpha_per_output"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise TypeError(
                    f"LinearRidge({name}=...): must be True or False, got {getattr(self, name)!r}; choose one of these"
                )
        self._grid(1.0)

    def _grid(self, scale: float) -> Array:
        """Alphas to try, in increasing order; those of ``"auto"`` times the scale."""
        if isinstance(self.alpha, str):
            check_choice(self, "alpha", self.alpha, ("auto",))
            return _AUTO_ALPHAS * (scale or 1.0)
        remedy = "give a number of at least zero, a sequence of them, or 'auto'"
        if np.ndim(self.alpha) == 0:
            return np.array([check_number(self, "alpha", self.alpha, low=0, remedy=remedy)])
        given = list(np.asarray(self.alpha, dtype=object))
        if not given:
            raise ValueError(f"LinearRidge(alpha=...): must have a value at least, got {self.alpha!r}; {remedy}")
        return np.unique([check_number(self, "alpha", value, low=0, remedy=remedy) for value in given])

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
            self._flat, self._n_outputs = y.ndim == 1, targets.shape[1]
        elif targets.shape[1] != self._n_outputs:
            raise ValueError(
                f"LinearRidge: y must have {self._n_outputs} output(s), as before, got {targets.shape[1]}; pass the "
                "same columns every time, or fit again"
            )
        return X, targets, _check_weights(sample_weight, len(X))

    # Solutions

    def _fit_primal(self, X: Array, y: Array, w: Array) -> Array:
        """Solve with rows at hand; leave-one-out residuals (n_rows, n_outputs)."""
        equations = NormalEquations(X.shape[1], y.shape[1]).add(X, y, w)
        solver, alphas = self._primal_solver(equations, rows_at_hand=True)
        path = solver.path(alphas)
        squares, leverages = np.zeros(path.shape[1:]), np.empty((len(X), len(alphas)))
        for block in row_blocks(len(X), X.shape[1]):
            Z, weights = X[block] - self._z_mean, w[block, None]
            leverages[block] = weights * (self._share + solver.forms(Z, alphas))
            free = 1 - leverages[block]
            free[free < _LEAST_FREE] = np.nan
            for k in range(y.shape[1]):
                errors = (y[block, k, None] - self._y_mean[k] - Z @ path[:, :, k]) / free
                squares[:, k] += w[block] @ errors**2
        chosen = self._choose(alphas, squares / w.sum(), solver.yy / w.sum())
        coef = solver.coefficients(alphas[chosen])
        residuals, free = np.empty_like(y), 1 - leverages[:, chosen]
        for block in row_blocks(len(X), X.shape[1]):
            residuals[block] = y[block] - self._y_mean - (X[block] - self._z_mean) @ coef
        self._store(coef, w @ residuals**2, free.sum(axis=0), equations.n_rows, equations.weight)
        self._equations = equations
        return np.asarray(residuals / np.where(free < _LEAST_FREE, np.nan, free))

    def _fit_dual(self, X: Array, y: Array, w: Array) -> Array:
        total, root = float(w.sum()), np.sqrt(w)[:, None]
        if self.fit_intercept:
            (Z, z_mean), (t, y_mean) = centred(X, w), centred(y, w)
        else:
            Z, t = X.astype(np.float64), y.copy()
            z_mean, y_mean = np.zeros(X.shape[1]), np.zeros(y.shape[1])
        self._centre(z_mean, y_mean, total)
        Z *= root
        t *= root
        trace = float(np.einsum("ij,ij->", Z, Z))
        yy = np.einsum("ij,ij->j", t, t)
        _require_finite(trace, yy)
        alphas = self._grid(trace / X.shape[1])
        solver = solve_dual(Z, t, root[:, 0] / np.sqrt(total) if self.fit_intercept else None, alphas)
        self._solver = solver
        each = [solver.leave_one_out(np.full(y.shape[1], alpha)) for alpha in alphas]
        errors = np.array([np.einsum("ij,ij->j", scaled, scaled) for scaled in each]) / total
        chosen = alphas[self._choose(alphas, errors, yy / total)]
        squares = solver.residual_squares(chosen)
        self._store(solver.coefficients(chosen), squares, solver.freedom(chosen), len(X), total)
        self._rows = (Z, t, w)
        return np.asarray(solver.leave_one_out(chosen) / root)

    def _solve_equations(self) -> None:
        """Solve from sums alone."""
        equations = self._equations
        solver, alphas = self._primal_solver(equations)
        n, total = equations.n_rows, equations.weight
        squares, freedom = solver.residual_squares(alphas), solver.freedom(alphas)
        errors = _gcv(squares, np.where(freedom > _LEAST_FREE * n, freedom, np.nan)[:, None], n, total)
        chosen = self._choose(alphas, errors, solver.yy / total)
        outputs = np.arange(squares.shape[1])
        self._store(solver.coefficients(alphas[chosen]), squares[chosen, outputs], freedom[chosen], n, total)

    def _primal_solver(
        self, equations: NormalEquations, rows_at_hand: bool = False
    ) -> tuple[PrimalSpectrum | PrimalTriangle, Array]:
        about_mean = bool(self.fit_intercept)
        trace = equations.trace(about_mean)
        _require_finite(trace, equations.yy)
        factor = 1.0 if about_mean else 0.0
        self._centre(factor * equations.z_mean, factor * equations.y_mean, equations.weight)
        alphas = self._grid(trace / self.n_features_in_)
        solver = solve_primal(equations, about_mean, alphas, rows_at_hand)
        self._solver = solver
        return solver, alphas

    def _centre(self, z_mean: Array, y_mean: Array, total: float) -> None:
        self._z_mean, self._y_mean = z_mean, y_mean
        self._share = 1 / total if self.fit_intercept else 0.0

    def _choose(self, alphas: Array, errors: Array, variances: Array) -> Array:
        """Positions of the alphas of least error, one an output."""
        self.alphas_, self.alpha_errors_ = alphas, errors
        relative = np.where(np.isnan(errors), np.inf, errors) / np.where(variances > 0, variances, 1.0)
        if not self.alpha_per_output:
            relative = np.repeat(relative.mean(axis=1, keepdims=True), errors.shape[1], axis=1)
        chosen = len(alphas) - 1 - np.argmin(relative[::-1], axis=0)
        own = self.alpha_per_output and not self._flat
        self.alpha_ = alphas[chosen] if own else float(alphas[chosen[0]])
        return np.asarray(chosen)

    def _store(self, coef: Array, squares: Array, freedom: Array, n_rows: int, total: float) -> None:
        freedom = np.where(freedom > _LEAST_FREE * n_rows, freedom, np.nan)
        intercept = self._y_mean - self._z_mean @ coef
        self.coef_ = np.ascontiguousarray(coef[:, 0] if self._flat else coef.T)
        self.intercept_ = self._shaped(intercept)
        self.sigma2_ = self._shaped(squares / freedom)
        self.gcv_error_ = self._shaped(_gcv(squares, freedom, n_rows, total))

    def _shaped(self, values: Array) -> Any:
        return float(values[0]) if self._flat else values

    # State

    def _all_equations(self) -> NormalEquations:
        """The sums so far; those of a fit by the dual are made of its rows."""
        if "_equations" in self.__dict__:
            return self._equations
        Z, t, w = self._rows
        root = np.sqrt(w)[:, None]
        return NormalEquations(Z.shape[1], t.shape[1]).add(Z / root + self._z_mean, t / root + self._y_mean, w)

    def _keep(self, equations: NormalEquations) -> None:
        _require_rows(equations.n_rows)
        self._forget()
        self.__dict__.pop("_rows", None)
        self._equations = equations

    def _forget(self) -> None:
        for name in (*_SOLVED, *_IN_MEMORY, "_solver"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # Not properties: these are plain attributes as soon as they are known.
        if "_equations" in self.__dict__ and "_solver" not in self.__dict__ and name in (*_SOLVED, "_solver"):
            self._solve_equations()
            return self.__dict__[name]
        if "_equations" in self.__dict__ and name in _IN_MEMORY:
            raise AttributeError(
                f"LinearRidge: {name} needs all rows in memory, but some came in batches; see gcv_error_, or call fit"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "_equations" in self.__dict__ or "_rows" in self.__dict__


def _check_weights(sample_weight: Any, n_rows: int) -> Array:
    """Weights of rows as float64, ones by default."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"LinearRidge: sample_weight must be numbers, {error}; pass one number a row") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"LinearRidge: sample_weight must have the shape ({n_rows},), got {weights.shape}; pass one number a row"
        )
    wrong = ~((weights >= 0) & np.isfinite(weights))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"LinearRidge: sample_weight must be finite and at least zero, got {weights[row]:g} in row {row}; give "
            "rows that are not to count the weight zero"
        )
    return weights


def _require_rows(n_rows: int) -> None:
    if n_rows == 0:
        raise ValueError(
            "LinearRidge: sample_weight must be positive for some row, got zeros alone; leave it out, or pass other "
            "weights"
        )


def _require_finite(trace: float, yy: Array) -> None:
    if not (np.isfinite(trace) and np.isfinite(yy).all()):
        raise ValueError("LinearRidge: X and y must have finite squares, got larger values; rescale them")


def _gcv(squares: Array, freedom: Array, n_rows: int, total: float) -> Array:
    """(Σ w e² / Σ w) / (1 - tr H / n)²."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(squares / total / (freedom / n_rows) ** 2)
