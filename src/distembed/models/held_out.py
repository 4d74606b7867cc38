r"""Ridge and softmax regression whose predictions for each fold come from the other folds.

Ridge regression with weights w, kernel K and an intercept that is not penalised minimises
Σ w_i (y_i - f(x_i) - c)² + α \|f\|². With R = diag(√w), u = √w / \|√w\| and P = I - uuᵀ, one eigendecomposition
P R K R P = V diag(e) Vᵀ gives the hat matrix for every α,

.. math:: H = u u^T + V \, diag\big(e / (e + α)\big) V^T,

and the errors at the rows B of a fold of a model that did not see them, exactly (Cook and Weisberg, 1982):

.. math:: ε_B = (I - H_{BB})^{-1} (R y - H R y)_B .

The cost is 10 n³ per kernel, and Σ n_B² n per α. The eigenvectors serve softmax regression too: rows of
R⁻¹ V diag(√e) have the dot products of the centred kernel.

For few α, the inverse of the kernel matrix itself takes a fifth of that: with G = (K + α W⁻¹)⁻¹ and
C = G - G 1 1ᵀ G / (1ᵀ G 1), the same errors are ε_B = C_BB⁻¹ (C y)_B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv, dpotrf, dpotri, dpotrs
from scipy.optimize import minimize
from scipy.special import softmax

from ..compute.arrays import Array
from ..compute.registry import storable
from .folds import Folds, average_over_folds

ALPHAS = 10.0 ** np.arange(-6, 2.1, 0.5)
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # C of softmax regression
_LEAST = 1e-6  # probabilities below it count as this much in a log loss
_RANK = 1e-11  # features of eigenvalues below this share of the largest are rounding,
_NOISE = 1e-13  # and so are those below this share of the weights: kernels are one on the diagonal, or in its mean


def downhill(error: Callable[[int], float], n: int, start: int, look_around: bool = False) -> int:
    """The least of n errors that have one valley, looking at few of them.

    Parameters
    ----------
    error : callable
        The error at 0, ..., n - 1.
    n, start : int
        How many there are, and where the walk starts.
    look_around : bool, default=False
        Whether to look at both neighbours of the start and go to the better one, which costs one error more: for curves
        that may have two valleys. Else the walk goes up while that is better, and only then down.

    Examples
    --------
    >>> seen = []
    >>> downhill(lambda i: seen.append(i) or (i - 6) ** 2, 11, start=5), seen
    (6, [5, 6, 7])
    >>> downhill(lambda i: (i - 6) ** 2, 5, start=0)
    4
    >>> hump = [0.0, 1.0, 5.0, 4.5, 6.0]
    >>> downhill(hump.__getitem__, 5, start=2), downhill(hump.__getitem__, 5, start=2, look_around=True)
    (3, 0)
    """
    at = start
    least = error(start)
    steps = [1, -1]
    if look_around and 0 < start < n - 1 and error(start - 1) <= error(start + 1):
        steps = [-1, 1]
    for step in steps:
        moved = False
        while 0 <= at + step < n and (there := error(at + step)) < least:
            at = at + step
            least = there
            moved = True
        if moved:
            break
    return at


def downhill_by_two(loss: Callable[[int], float], start: int, n: int) -> int:
    """Position of a minimum, found in steps of two and a last step of one.

    Examples
    --------
    >>> downhill_by_two(lambda i: (i - 5) ** 2, start=2, n=9)
    5
    """
    once = cache(loss)
    first = start % 2
    best = first + 2 * downhill(lambda i: once(first + 2 * i), (n - first + 1) // 2, start // 2, look_around=True)
    return min((i for i in (best, best - 1, best + 1) if 0 <= i < n), key=once)


class KernelSpectrum(NamedTuple):
    """Eigenvalues and eigenvectors of the weighted, centred kernel matrix P R K R P, largest first.

    Attributes
    ----------
    values : ndarray of shape (rank,)
        e.
    vectors : ndarray of shape (n_rows, rank)
        V, orthogonal to √w.
    images : ndarray of shape (n_rows, rank)
        P R K R P V, which is V diag(e) but for eigenvectors that are approximate.
    roots : ndarray of shape (n_rows, 1)
        √w.
    """

    values: Array
    vectors: Array
    images: Array
    roots: Array

    def features(self, n: int) -> Array:
        """Rows (n_rows, at most n) whose dot products are those of the centred kernel, nearly, by the leading ones."""
        least = max(_RANK * self.values[:1].sum(), _NOISE * (self.roots**2).sum())
        n = min(n, int((self.values > least).sum()))
        return np.asarray(self.images[:, :n] / self.roots / np.sqrt(self.values[:n]))

    def dual(self, coef: Array) -> Array:
        """Coefficients (n_rows, n_outputs) of the kernel functions of the rows, from those of :meth:`features`."""
        n = len(coef)
        return np.asarray(self.roots * (self.vectors[:, :n] @ (coef / np.sqrt(self.values[:n])[:, None])))


def spectrum(matrix: Array, weight: Array, leading: int | None = None, seed: int = 0) -> KernelSpectrum:
    """Decompose a kernel matrix, exactly or, for the leading eigenvectors alone, by subspace iteration.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
        K.
    weight : ndarray of shape (n_rows,)
        Positive weights w.
    leading : int, optional
        How many eigenvectors are wanted; all by default.
    seed : int
        Where the iteration starts.

    Returns
    -------
    KernelSpectrum

    Notes
    -----
    About 10 n³ operations, or 8 n² per leading eigenvector: three products and their QR decompositions (Halko,
    Martinsson and Tropp, 2011). Features and dual coefficients agree with each other in both cases.

    Examples
    --------
    >>> found = spectrum(np.diag([3.0, 2.0, 1.0, 1.0]), np.ones(4))
    >>> found.features(9).shape  # the centre takes one direction
    (4, 3)
    """
    roots = np.sqrt(weight)[:, None]
    unit = roots / np.linalg.norm(roots)
    a = roots * matrix * roots.T
    a -= unit @ (unit.T @ a)
    a -= (a @ unit) @ unit.T
    if leading is None or leading + 20 >= len(a) // 2:
        values, vectors = np.linalg.eigh((a + a.T) / 2)
        values = values[::-1]
        vectors = vectors[:, ::-1]
        images = vectors * values
    else:
        basis = np.random.default_rng(seed).normal(size=(len(a), leading + 20))
        for _ in range(3):
            basis, _ = np.linalg.qr(a @ basis)
        product = a @ basis
        values, turn = np.linalg.eigh(basis.T @ product)
        values = values[::-1][:leading]
        turn = turn[:, ::-1][:, :leading]
        vectors = basis @ turn
        images = product @ turn
    return KernelSpectrum(np.maximum(values, 0.0), vectors, images, roots)  # ridge shrinks what is rounding to nothing


def thin_spectrum(rows: Array, weight: Array) -> KernelSpectrum:
    """Decompose the linear kernel of rows, more than features, in n_rows n_features² operations.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(9, 2))
    >>> thin, full = thin_spectrum(rows, np.ones(9)), spectrum(rows @ rows.T, np.ones(9))
    >>> bool(np.allclose(thin.values, full.values[:2]))
    True
    """
    roots = np.sqrt(weight)[:, None]
    a = roots * (rows - np.average(rows, axis=0, weights=weight))
    values, turn = np.linalg.eigh(a.T @ a)
    kept = values > _NOISE * max(values[-1], weight.sum())
    values = values[kept][::-1]
    turn = turn[:, kept][:, ::-1]
    vectors = a @ (turn / np.sqrt(values))
    return KernelSpectrum(values, vectors, vectors * values, roots)


class Ridge(NamedTuple):
    """A ridge regression at the best α: the loss that chose it, held-out predictions, and the model.

    Attributes
    ----------
    loss : float
        Held-out squared error, relative to the variance of each output, added up over outputs.
    alpha : float
        α.
    held_out : ndarray of shape (n_rows, n_outputs)
        Predictions for rows of models that did not see them.
    dual : ndarray of shape (n_rows, n_outputs)
        f = Σ dual_i k(x_i, ·).
    centre : ndarray of shape (n_outputs,)
        Weighted mean of the targets, which is that of the fitted values too.
    """

    loss: float
    alpha: float
    held_out: Array
    dual: Array
    centre: Array


def ridge(found: KernelSpectrum, targets: Array, folds: Folds, start: float = 0.1) -> Ridge:
    """Ridge regression with the α of :data:`ALPHAS` to which a walk downhill over held-out errors leads.

    Parameters
    ----------
    found : KernelSpectrum
        Of the kernel matrix.
    targets : ndarray of shape (n_rows, n_outputs)
        Numbers.
    folds : sequence of (seen, held) index arrays
        Each fold's rows are all rows.
    start : float
        The α at which the walk starts.

    Returns
    -------
    Ridge

    Examples
    --------
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> folds = [(np.arange(4, 8), np.arange(4)), (np.arange(4), np.arange(4, 8))]
    >>> found = ridge(thin_spectrum(x, np.ones(8)), 2 * x + 1, folds)
    >>> (x.T @ found.dual).round(3), found.centre.round(3)
    (array([[2.]]), array([1.]))
    """
    values, vectors, _, roots = found
    unit = roots / np.linalg.norm(roots)
    centre = (roots**2 * targets).sum(axis=0) / (roots**2).sum()
    scaled = roots * (targets - centre)
    rotated = vectors.T @ scaled
    spread = (scaled**2).sum(axis=0)
    size = (roots**2 * targets**2).sum(axis=0)
    units = np.where(spread > 1e-24 * size, spread, 1.0)  # a constant output adds nothing but rounding

    def held_out(alpha: float) -> Array:
        shrink = values / (values + alpha)
        residuals = scaled - vectors @ (shrink[:, None] * rotated)

        def one(fold: int, seen: Array, held: Array) -> Array:
            block = vectors[held]
            free = np.eye(len(held)) - (block * shrink) @ block.T - unit[held] @ unit[held].T
            return np.asarray(targets[held] - np.linalg.solve(free, residuals[held]) / roots[held])

        return average_over_folds(folds, len(targets), one)

    predicted: dict[int, Array] = {}

    @cache
    def loss(i: int) -> float:
        predicted[i] = held_out(float(ALPHAS[i]))
        return float(((roots * (targets - predicted[i])) ** 2 / units).sum())

    best = downhill(loss, len(ALPHAS), int(np.argmin(np.abs(np.log(ALPHAS / start)))), look_around=True)
    alpha = float(ALPHAS[best])
    return Ridge(loss(best), alpha, predicted[best], *ridge_at(found, targets, alpha))


def held_out_at(matrix: Array, targets: Array, weight: Array, folds: Folds, alpha: float) -> Array | None:
    """Predictions of ridge regression at one α for rows that it did not see, by one inverse of the kernel matrix.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
        K.
    targets : ndarray of shape (n_rows, n_outputs)
        Numbers.
    weight : ndarray of shape (n_rows,)
        Positive weights w.
    folds : sequence of (seen, held) index arrays
        Each fold's rows are all rows.
    alpha : float
        α.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs), or None
        None where α is below the digits of the kernel.

    Notes
    -----
    n³ operations for the Cholesky factor and the inverse.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> folds = [(np.arange(4, 8), np.arange(4)), (np.arange(4), np.arange(4, 8))]
    >>> from distembed.models.ridge import LinearRidge
    >>> found = held_out_at(x @ x.T, 2 * x + 1, np.ones(8), folds, 0.1)
    >>> bool(np.allclose(found[4:], LinearRidge(0.1).fit(x[:4], 2 * x[:4] + 1).predict(x[4:])))
    True
    """
    a = np.array(matrix, order="F")
    a[np.diag_indices_from(a)] += alpha / weight
    factor, failed = dpotrf(a, lower=1, overwrite_a=1, clean=0)
    if failed:
        return None
    solved, _ = dpotrs(factor, np.hstack([targets, np.ones((len(targets), 1))]), lower=1)
    inverse, failed = dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        return None
    ones = solved[:, -1:]
    total = float(ones.sum())
    if not total > 0:
        return None
    dual = solved[:, :-1] - ones * (solved[:, :-1].sum(axis=0) / total)

    def one(fold: int, seen: Array, held: Array) -> Array:
        held = np.sort(held)  # so that the lower triangle of the block is that of the matrix
        block = inverse[np.ix_(held, held)] - ones[held] @ (ones[held].T / total)
        _, errors, failed = dposv(block, dual[held], lower=1)
        return np.asarray(np.full_like(dual[held], np.inf) if failed else targets[held] - errors)

    in_order = [(seen, np.sort(held)) for seen, held in folds]
    found = average_over_folds(in_order, len(targets), one)
    return found if np.isfinite(found).all() else None


class KernelRidge:
    """Ridge regressions on one kernel matrix at different α, each computed once.

    Parameters
    ----------
    matrix, targets, weight, folds
        As for :func:`held_out_at`.
    """

    def __init__(self, matrix: Array, targets: Array, weight: Array, folds: Folds) -> None:
        self.matrix = matrix
        self.targets = targets
        self.weight = weight
        self.folds = folds
        # Kernels that centring makes small need a small α: it is measured against the mean of their diagonal.
        mean = float(weight @ matrix @ weight) / weight.sum() ** 2
        size = max(float(weight @ np.diag(matrix)) / weight.sum() - mean, 1e-6)
        self.size = float(10.0 ** (0.5 * np.rint(2 * np.log10(size))))
        centred = targets - np.average(targets, axis=0, weights=weight)
        spread = weight @ centred**2
        self.units = np.where(spread > 1e-24 * (weight @ targets**2), spread, 1.0)
        self.predicted: dict[int, Array | None] = {}

    def alpha(self, j: int) -> float:
        """The j-th of the values that are tried."""
        return float(ALPHAS[j] * self.size)

    def held_out(self, j: int) -> Array | None:
        """Predictions for held-out rows at the j-th α."""
        if j not in self.predicted:
            self.predicted[j] = held_out_at(self.matrix, self.targets, self.weight, self.folds, self.alpha(j))
        return self.predicted[j]

    def loss(self, j: int) -> float:
        """Held-out squared error, relative to the variance of each output, added up over outputs."""
        found = self.held_out(j)
        if found is None:
            return np.inf
        return float((self.weight[:, None] * (self.targets - found) ** 2 / self.units).sum())

    def best(self, start: int) -> int:
        """The j to which a walk downhill leads."""
        return downhill(self.loss, len(ALPHAS), start, look_around=True)


def ridge_at(found: KernelSpectrum, targets: Array, alpha: float) -> tuple[Array, Array]:
    """The last two of :class:`Ridge` at a known α."""
    centre = (found.roots**2 * targets).sum(axis=0) / (found.roots**2).sum()
    rotated = found.vectors.T @ (found.roots * (targets - centre))
    return found.roots * (found.vectors @ (rotated / (found.values + alpha)[:, None])), centre


@storable(coef="finite(f, c)", intercept="real(c)")
class Softmax(NamedTuple):
    """Softmax regression: coefficients (n_features, n_classes) and intercept (n_classes,).

    A class that training rows lack has the intercept minus infinity, and so the probability zero.
    """

    coef: Array
    intercept: Array

    def predict(self, rows: Array, offset: Array | float = 0.0) -> Array:
        """Probabilities, ndarray of shape (n_rows, n_classes); ``offset`` is added to the scores."""
        return np.asarray(softmax(rows @ self.coef + self.intercept + offset, axis=1))


def softmax_loss(scores: Array, at: tuple[Array, Array], weight: Array) -> tuple[float, Array]:
    """Log loss Σ -w log p of p = softmax(scores), and its gradient by the scores; they are overwritten.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        Finite.
    at : tuple of two ndarrays of shape (n_rows,)
        Rows, and their classes.
    weight : ndarray of shape (n_rows,)
        w.

    Examples
    --------
    >>> loss, gradient = softmax_loss(np.log([[1.0, 3.0]]), (np.array([0]), np.array([1])), np.array([2.0]))
    >>> round(loss, 3), gradient
    (0.575, array([[ 0.5, -0.5]]))
    """
    scores -= scores.max(axis=1, keepdims=True)
    own = scores[at]
    p = np.exp(scores, out=scores)
    totals = p.sum(axis=1)
    loss = float(weight @ (np.log(totals) - own))
    p *= (weight / totals)[:, None]
    p[at] -= weight
    return loss, p


def softmax_regression(
    rows: Array,
    codes: Array,
    weight: Array,
    n_classes: int,
    penalty: float,
    start: Softmax | None = None,
    left: float = 1e-10,
    offset: Array | None = None,
) -> Softmax:
    r"""Minimise Σ w_i (-log p_{y_i}(x_i)) + \|coef\|² / (2 C) with p = softmax(x coef + intercept + offset).

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Orthogonal columns are best.
    codes : ndarray of shape (n_rows,) of int
        Classes 0, ..., n_classes - 1; some may be missing.
    weight : ndarray of shape (n_rows,)
        w.
    n_classes : int
        Number of classes.
    penalty : float
        C.
    start : Softmax, optional
        A solution nearby, such as that of another C.
    left : float
        Loss per unit of weight that may be left to gain.
    offset : ndarray of shape (n_rows, n_classes), optional
        Scores to which those of the features are added.

    Returns
    -------
    Softmax

    Notes
    -----
    L-BFGS in coordinates in which the Hessian is nearly the identity where columns are orthogonal: each is divided by
    √(Σ w x_j² (1 - 1/k) / k + 1/C). That takes about ten to thirty steps of 4 n_rows n_features n_classes operations.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> softmax_regression(x, np.array([0, 0, 2, 2]), np.ones(4), 3, 1.0).predict(x[:1]).round(2)
    array([[0.94, 0.  , 0.06]])
    """
    present = np.flatnonzero(np.bincount(codes, weights=weight, minlength=n_classes) > 0)
    k = len(present)
    n_features = rows.shape[1]
    ours = np.searchsorted(present, codes)
    curvature = (1 - 1 / k) / k if k > 1 else 1.0
    scale = 1 / np.sqrt(curvature * (weight @ rows**2) + 1 / penalty)
    scaled = np.hstack([rows * scale, np.full((len(rows), 1), 1 / np.sqrt(curvature * weight.sum()))])
    ridge_part = np.append(scale**2 / penalty, 0.0)[:, None]
    last = scaled[0, -1]
    at = (np.arange(len(rows)), ours)
    given = 0.0 if offset is None else offset[:, present]

    def objective(flat: Array) -> tuple[float, Array]:
        z = flat.reshape(n_features + 1, k)
        loss, pull = softmax_loss(scaled @ z + given, at, weight)
        gradient = scaled.T @ pull + ridge_part * z
        return loss + 0.5 * float((ridge_part * z**2).sum()), gradient.ravel()

    first = np.zeros((n_features + 1, k))
    if start is not None:
        first[:-1] = start.coef[:, present] / scale[:, None]
        first[-1] = np.where(np.isfinite(start.intercept[present]), start.intercept[present], 0.0) / last
    enough = np.sqrt(2 * left * weight.sum() / first.size)  # half the squared gradient is what is left to gain
    options = {"maxiter": 500, "gtol": enough, "ftol": 1e-3 * left, "maxcor": 10}
    z = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(first.shape)
    coef = np.zeros((n_features, n_classes))
    intercept = np.full(n_classes, -np.inf)
    coef[:, present] = scale[:, None] * z[:-1]
    intercept[present] = last * (z[-1] - z[-1].mean())  # a shift of all changes nothing
    return Softmax(coef, intercept)


def log_loss(likely: Array, codes: Array, weight: Array) -> float:
    """Sum of -w log p over rows, p the probability of their class.

    Examples
    --------
    >>> round(log_loss(np.array([[0.25, 0.75]]), np.array([1]), np.ones(1)), 3)
    0.288
    """
    return float(-(weight @ np.log(np.maximum(likely[np.arange(len(codes)), codes], _LEAST))))


def softmax_by_folds(
    rows: Array,
    codes: Array,
    weight: Array,
    n_classes: int,
    folds: Folds,
    penalties: Sequence[float] = PENALTIES,
    offset: Array | None = None,
) -> tuple[Array, float, Softmax]:
    """Softmax regression with the C to which a walk downhill over held-out log losses leads.

    Parameters
    ----------
    rows, codes, weight, n_classes, offset
        As for :func:`softmax_regression`.
    folds : sequence of (seen, held) index arrays
        Each row is held out at least once.
    penalties : sequence of float
        Values of C in increasing order; the walk starts at the one nearest to 10.

    Returns
    -------
    held_out : ndarray of shape (n_rows, n_classes)
        Probabilities for rows of models that did not see them.
    penalty : float
        C.
    model : Softmax
        Fitted to all rows.

    Examples
    --------
    >>> x, codes = np.arange(8.0)[:, None] - 3.5, np.repeat([0, 1], 4)
    >>> folds = [(np.arange(i, 8, 2), np.arange(1 - i, 8, 2)) for i in (0, 1)]
    >>> held_out, penalty, model = softmax_by_folds(x, codes, np.ones(8), 2, folds)
    >>> bool(np.all(held_out.argmax(axis=1) == codes))
    True
    """
    models: dict[int, Softmax] = {}  # of each fold, at the C before: a good start
    predicted: dict[int, Array] = {}
    given = np.zeros((len(rows), n_classes)) if offset is None else offset

    @cache
    def loss(i: int) -> float:
        def one(fold: int, seen: Array, held: Array) -> Array:
            some = (rows[seen], codes[seen], weight[seen], n_classes, float(penalties[i]))
            models[fold] = softmax_regression(*some, models.get(fold), left=1e-5, offset=given[seen])
            return models[fold].predict(rows[held], given[held])

        predicted[i] = average_over_folds(folds, len(rows), one)
        return log_loss(predicted[i], codes, weight)

    start = int(np.argmin(np.abs(np.log(np.asarray(penalties) / 10.0))))
    best = downhill(loss, len(penalties), start, look_around=True)
    penalty = float(penalties[best])
    model = softmax_regression(rows, codes, weight, n_classes, penalty, models[0], offset=given)
    return predicted[best], penalty, model
