r"""Ridge regression, softmax regression and large margins with a kernel, whose settings are chosen out of fold.

With rows x_i, a kernel k and the dual coefficients a of a loss,

.. math:: f(x) = c + \sum_i a_i k(x_i, x), \qquad k(x, x') = e^{-\|x - x'\|^2 / (2 σ^2)}, \; e^{-\|x - x'\| / σ}
          \; \text{or} \; x · x' / s^2.

Kernels and machines whose settings are known come first, then the head that chooses them; choosing on held-out rows in
closed form is in :mod:`distembed.models.held_out`. *Cost*: 10 n³ for n rows, at most 3,000; beyond, random features
take the place of the Gaussian kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, partial
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax
from sklearn.utils import check_random_state

from ..compute.arrays import Array
from ..compute.checks import check_choice
from ..compute.registry import storable
from .base import Head, Training, check_training, softmax_slopes
from .folds import average_over_folds, restrict_folds, sample_rows
from .held_out import (
    ALPHAS,
    KernelRidge,
    Ridge,
    Softmax,
    downhill,
    downhill_by_two,
    log_loss,
    ridge,
    ridge_at,
    softmax_by_folds,
    softmax_regression,
    spectrum,
    thin_spectrum,
)
from .wide_head import N_COMPONENTS, WideHead

KERNELS = ("rbf", "laplace", "linear")
LOSSES = ("ridge", "logistic", "svm")
SCALES = tuple(2.0 ** np.arange(-2, 2.1, 0.5))  # sigma of the Gaussian kernel in typical distances
WIDE = 4.0  # the same of the Laplace kernel
MOST_FOR_KERNEL_MATRIX = 3000  # rows: more have random features, or are drawn from
_START = int(np.argmin(np.abs(np.log(ALPHAS / 0.1))))  # the α at which walks start
_TURNS = 3  # of walks over α and σ, at most
_BLOCK = 2**22  # numbers in a block of a kernel matrix
MARGIN = 10.0  # C of the large margin
_ROUNDING = 1e-13  # of the largest squared norm: of squared distances that are differences of products


def gaussian(rows: Array, others: Array) -> Array:
    """Gaussian kernel exp(-|x - x'|² / 2) of rows (n, d) and (m, d), by one product of matrices.

    Examples
    --------
    >>> gaussian(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135]])
    """
    out = _minus_half_squares(rows, others)
    return np.asarray(np.exp(out, out=out))


def laplace(rows: Array, others: Array) -> Array:
    """Laplace kernel exp(-|x - x'|) of rows (n, d) and (m, d), by one product of matrices.

    Distances below 3e-7 of the longest row are taken for zero: the product rounds, and a root of that is not small.

    Examples
    --------
    >>> laplace(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135]])
    """
    norms = (others**2).sum(axis=1)
    return _laplace_of(_from_products(rows @ others.T, (rows**2).sum(axis=1), norms), norms.max(initial=0.0))


def _laplace_of(out: Array, longest: float) -> Array:
    """Laplace kernel from halves of negative squared distances, which are overwritten, and the largest squared norm."""
    out *= -2
    out[out < _ROUNDING * longest] = 0.0
    np.sqrt(out, out=out)
    np.negative(out, out=out)
    return np.asarray(np.exp(out, out=out))


def _minus_half_squares(rows: Array, others: Array) -> Array:
    """-|x - x'|² / 2, at most 0."""
    return _from_products(rows @ others.T, (rows**2).sum(axis=1), (others**2).sum(axis=1))


def _from_products(out: Array, norms: Array, other_norms: Array) -> Array:
    """-|x - x'|² / 2 from dot products, which are overwritten, and squared norms."""
    out -= 0.5 * norms[:, None]
    out -= 0.5 * other_norms
    return np.asarray(np.minimum(out, 0.0, out=out))


def typical_distance(rows: Array, weight: Array, size: float) -> float:
    """The weighted median of the distances between rows that differ; ``size`` if none do.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Centred.
    weight : ndarray of shape (n_rows,)
        A pair has the product of its weights.
    size : float
        Root mean squared norm before the centring: what is 1e-10 of it is rounding.

    Returns
    -------
    float
        Positive.

    Examples
    --------
    >>> rows = np.array([[-1.0], [-1.0], [-1.0], [3.0]])  # most are equal
    >>> typical_distance(rows, np.ones(4), 2.0), typical_distance(0 * rows, np.ones(4), 2.0)
    (4.0, 2.0)
    """
    return _typical(rows @ rows.T, weight, size)


def _typical(products: Array, weight: Array, size: float) -> float:
    """The weighted median distance from dot products of rows."""
    norms = np.diag(products)
    above = np.triu(np.ones(products.shape, bool), 1)
    squares = (norms[:, None] + norms - 2 * products)[above]
    differ = squares > max(_ROUNDING * norms.max(), (1e-10 * size) ** 2)
    if not differ.any():
        return float(size) or 1.0
    squares = squares[differ]
    if weight.min() == weight.max():
        half = (len(squares) - 1) // 2
        return float(np.sqrt(np.partition(squares, half)[half]))
    masses = (weight[:, None] * weight)[above][differ]
    order = np.argsort(squares)
    sums = np.cumsum(masses[order])
    return float(np.sqrt(squares[order[np.searchsorted(sums, 0.5 * sums[-1])]]))


def large_margin(matrix: Array, codes: Array, weight: Array, n_classes: int) -> tuple[Array, Array]:
    """Support vector machines for all pairs of classes, added up to one score per class.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
        Kernel matrix.
    codes : ndarray of shape (n_rows,) of int
        Classes; some may be missing.
    weight : ndarray of shape (n_rows,)
        Factors of C = 10.
    n_classes : int
        k.

    Returns
    -------
    dual : ndarray of shape (n_rows, k)
        Coefficients of kernel functions.
    intercept : ndarray of shape (k,)
        A class that rows lack has the score -1: it loses every pair by the margin.

    Notes
    -----
    The score of a class is the mean of its decisions against the others. It is linear in the kernel functions, so k
    columns store all k (k - 1) / 2 machines.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> dual, intercept = large_margin(x @ x.T, np.array([0, 0, 1, 1]), np.ones(4), 2)
    >>> (x @ x.T @ dual + intercept).round(2)
    array([[ 2., -2.],
           [ 1., -1.],
           [-1.,  1.],
           [-2.,  2.]])
    """
    from sklearn.svm import SVC  # slow to import

    present = np.unique(codes)
    dual = np.zeros((len(codes), n_classes))
    intercept = np.full(n_classes, -1.0)
    intercept[present] = 0.0
    share = 1 / max(len(present) - 1, 1)
    for i, first in enumerate(present):
        for second in present[i + 1 :]:
            rows = np.flatnonzero((codes == first) | (codes == second))
            machine = SVC(C=MARGIN, kernel="precomputed")
            machine.fit(matrix[np.ix_(rows, rows)], codes[rows], sample_weight=weight[rows])
            values = share * machine.dual_coef_[0]
            for code, sign in ((first, -1), (second, 1)):
                dual[rows[machine.support_], code] += sign * values
                intercept[code] += sign * share * machine.intercept_[0]
    return dual, intercept


def kernel_ridge(matrix: Array, targets: Array, weight: Array, alpha: float) -> tuple[Array, Array]:
    r"""Minimise Σ w_i (y_i - f(x_i) - c)² + α \|f\|², in n³ / 3 operations.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
        Kernel matrix K.
    targets : ndarray of shape (n_rows, n_outputs)
        y.
    weight : ndarray of shape (n_rows,)
        w, positive.
    alpha : float
        α, positive.

    Returns
    -------
    dual : ndarray of shape (n_rows, n_outputs)
        f = Σ dual_i k(x_i, ·), the solution of (K + α diag(1 / w)) dual = y - c with Σ dual = 0.
    intercept : ndarray of shape (n_outputs,)
        c.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> dual, intercept = kernel_ridge(x @ x.T, 2 * x + 1, np.ones(8), 1e-6)
    >>> (x.T @ dual).round(3), intercept.round(3)
    (array([[2.]]), array([1.]))
    """
    factor = cho_factor(matrix + np.diag(alpha / weight), lower=True)
    solved = cho_solve(factor, np.hstack([targets, np.ones((len(targets), 1))]))
    intercept = solved[:, :-1].sum(axis=0) / solved[:, -1].sum()
    return solved[:, :-1] - solved[:, -1:] * intercept, intercept


@storable(
    centre_="finite(d)",
    scale_="number",
    intercept_="real(o)",
    coef_="finite(_, o)",
    rows_="finite(_, d)",
    calibration_="Softmax | None",
)
class KernelHead(Head):
    r"""Ridge, softmax regression or a large margin with a kernel, settings chosen out of fold.

    Parameters
    ----------
    kernel : {"rbf", "laplace", "linear"}, default="rbf"
        exp(-\|x - x'\|² / (2 σ²)), exp(-\|x - x'\| / σ), or x·x' / s² with s the root mean squared norm of the centred
        rows.
    loss : {"ridge", "logistic", "svm"}, default="ridge"
        ``"ridge"``: squared error; of indicators of classes, if there are any. ``"logistic"``: log loss. ``"svm"``:
        hinge loss with C = 10, one machine per pair of classes. The last two need ``n_classes``.
    n_classes : int, optional
        Number of classes; None for regression.
    random_state : int, RandomState or None, default=None
        Draws the rows on which σ is chosen, and the start of the iteration for eigenvectors, for more than 700 rows.
    n_components : int, default=5000
        D, the number of random features that take the place of the Gaussian kernel for more than 3,000 rows.

    Attributes
    ----------
    held_out_ : ndarray of shape (n_rows, n_outputs)
        Predictions for each row by models that did not see it, averaged over repeated folds. Not in model files, unless
        ``updatable=True``.
    coef_ : ndarray of shape (n_kept, n_outputs) or (n_features, n_outputs)
        Coefficients of the kernel functions of ``rows_``, or of the features.
    rows_ : ndarray of shape (n_kept, n_features)
        Centred rows over σ, those with a coefficient; empty for a linear kernel.
    centre_ : ndarray of shape (n_features,)
        Weighted mean of the rows.
    scale_ : float
        σ or s.
    intercept_ : ndarray of shape (n_outputs,)
        Minus infinity for a class that no row has: its probability is zero.
    alpha_ : float
        α of ridge; NaN where it was not needed.
    penalty_ : float
        C of softmax regression, on eigenvectors or on held-out scores; NaN for regression.
    calibration_ : Softmax or None
        What makes probabilities of scores of ``"ridge"`` and ``"svm"``.

    Notes
    -----
    *σ* of the Gaussian kernel is .25 to 4 times the weighted median of the distances that are not zero, in steps of √2,
    by held-out squared errors of ridge regression in closed form; of classes, by the log loss of the probabilities that
    are made of its scores. With more than 700 rows it is chosen on 700 of them. That of the Laplace kernel is 4 times
    the median: the kernel is nearly 1 - \|x - x'\| / σ then, and α makes up for any σ. So nothing is chosen but α, and
    held-out losses are less flattered by the choice (``experiments/laplace.py``). Where all rows are equal up to
    rounding, the prediction is constant.

    *Classes.* ``"logistic"`` is softmax regression on the leading 300 eigenvectors of the kernel matrix. Scores of
    ``"ridge"`` and ``"svm"`` become probabilities by softmax regression on held-out scores (Platt, 1999); that of
    ``held_out_`` is fitted without the fold at hand. Machines for pairs of classes give each class the mean of its
    decisions. C is one of .03 to 1,000, by held-out log loss.

    *Weights* act like copies of rows that are in the same folds.

    *Cost* in n rows, d features: n² d, and n³ for each of some four α, of the Gaussian kernel up to 700 rows for each
    of some twelve pairs of σ and α, half of these where the search starts near. Softmax regression: 10 n³, less for
    more than 640 rows, and about 25 steps of 4 n min(n, 300) k for each fold and each of three to six C. Memory 3 n²
    numbers, n at most 3,000. Predictions take n d operations per row, or d for a linear kernel.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> F = np.random.default_rng(0).normal(size=(60, 2))
    >>> folds = list(KFold(5).split(F))
    >>> head = KernelHead().fit(F, np.sin(F[:, 0]), None, folds)
    >>> bool(np.abs(head.held_out_[:, 0] - np.sin(F[:, 0])).mean() < 0.1)
    True
    >>> circle = (np.linalg.norm(F, axis=1) > 1).astype(int)
    >>> head = KernelHead(loss="logistic", n_classes=2, random_state=0).fit(F, circle, None, folds)
    >>> bool(np.mean(head.held_out_.argmax(axis=1) == circle) > 0.8)
    True
    """

    most_sums = 2000  # features of a head to which rows are added
    n_eigenvectors = 300  # for softmax regression
    sigma_rows = 700  # on which sigma is chosen

    def __init__(
        self,
        kernel: str = "rbf",
        loss: str = "ridge",
        n_classes: int | None = None,
        random_state: Any = None,
        n_components: int = N_COMPONENTS,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.n_classes = n_classes
        self.random_state = random_state
        self.n_components = n_components

    def fit(
        self,
        features: Any,
        targets: Any,
        weight: Any = None,
        folds: Any = (),
        sigma: float | None = None,
        near: tuple[float, float] | None = None,
    ) -> Self:
        """Choose settings on held-out rows, and fit to all rows.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features)
            F, at most 3,000 rows.
        targets : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Numbers, or codes of classes.
        weight : array-like of shape (n_rows,), optional
            Positive; of mean one, because α and C are measured against them.
        folds : iterable of (seen, held) index arrays
            Each row is held out at least once; the two parts of a fold are all rows.
        sigma : float, optional
            σ of the Gaussian kernel, if it is known: heads with other losses on the same rows choose the same.
        near : tuple of two floats, optional
            σ and α that fewer of the rows have chosen, from which the search starts; α may be NaN.

        Returns
        -------
        self
        """
        check_choice(self, "kernel", self.kernel, KERNELS)
        check_choice(self, "loss", self.loss, LOSSES)
        n_classes = self.check_classes()
        if n_classes is None and self.loss != "ridge":
            raise ValueError(f"KernelHead(loss={self.loss!r}) is for classes; pass n_classes, or use loss='ridge'")
        given = check_training(self, features, targets, weight, folds, n_classes, MOST_FOR_KERNEL_MATRIX)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_features_in_ = given.rows.shape[1]
        self.alpha_ = self.penalty_ = float("nan")
        self.calibration_: Softmax | None = None
        self.centre_ = np.average(given.rows, axis=0, weights=given.weight)
        size = np.sqrt(np.average((given.rows**2).sum(axis=1), weights=given.weight))
        rows = given.rows - self.centre_
        thin = self.kernel == "linear" and rows.shape[1] < len(rows) and self.loss != "svm"
        matrix = np.empty((0, 0)) if thin else rows @ rows.T  # of products, and of the kernel later
        start = _START
        if self.kernel == "linear":
            spread = np.sqrt(np.average((rows**2).sum(axis=1), weights=given.weight))
            self.scale_ = float(spread if spread > 1e-10 * size else size or 1.0)
        elif sigma is not None:
            self.scale_ = sigma
        else:
            self.scale_, start = self._choose_sigma(matrix, size, given, seed, near)
        rows /= self.scale_
        matrix /= self.scale_**2
        if self.kernel != "linear":
            norms = np.diag(matrix).copy()
            halves = _from_products(matrix, norms, norms)
            matrix = np.exp(halves, out=halves) if self.kernel == "rbf" else _laplace_of(halves, norms.max())
        dual, self.intercept_, self.held_out_ = self._solve(rows, matrix, given, seed, start)
        self._keep(rows, dual)
        return self

    @property
    def most_rows(self) -> int | None:  # type: ignore[override]
        """How many rows it can be fitted to again; None is any number."""
        return None if self.kernel == "linear" and self.loss != "svm" else MOST_FOR_KERNEL_MATRIX

    def for_rows(self, n_rows: int) -> Head:
        """A copy with these settings, or one with random features where a kernel matrix would be too large."""
        if self.kernel != "laplace" and self.loss != "svm" and n_rows > (self.most_rows or n_rows):
            return self.with_random_features(self.n_components)
        return copy(self)

    def for_batches(self) -> Head:
        """A copy with random features to which rows can be added.

        A linear kernel of more than 2,000 features stays as it is: the sums over rows have that number squared. So do a
        Laplace kernel, which random features do not stand for, and a large margin.
        """
        few = self.kernel == "linear" and self.n_features_in_ <= self.most_sums
        can = self.loss != "svm" and (self.kernel == "rbf" or few)
        return self.with_random_features(min(self.n_components, self.most_sums)) if can else self

    def with_random_features(self, n_components: int) -> WideHead:
        """An unfitted head of these settings with random features in place of a Gaussian kernel."""
        return WideHead(
            self.kernel,
            self.scale_,
            self.penalty_ if self.loss == "logistic" else self.alpha_,
            self.n_classes,
            self.calibration_,
            n_components,
            random_state=int(np.random.RandomState(self.random_state).randint(2**31)),
        )

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Fit to other rows with the settings of ``fit``.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features)
            As wide as in ``fit``; at most 3,000 rows, or any number for a linear kernel with ridge or log loss.
        targets, weight
            As for ``fit``.

        Returns
        -------
        self

        Notes
        -----
        σ, α, C and the softmax regression on held-out scores stay. *Cost* in n rows, d features: n² d and, of ridge,
        n³ / 3; of a linear kernel n d² where that is less.
        """
        given = self.check_again(features, targets, weight, self.most_rows)
        rows = (given.rows - self.centre_) / self.scale_
        thin = self.most_rows is None and rows.shape[1] < len(rows)
        matrix = np.empty((0, 0)) if thin else self._kernel(rows, rows)
        if self.loss == "logistic":
            found = thin_spectrum(rows, given.weight) if thin else spectrum(matrix, given.weight, self.n_eigenvectors)
            Z = found.features(self.n_eigenvectors)
            model = softmax_regression(Z, given.codes, given.weight, given.outputs.shape[1], self.penalty_)
            dual = found.dual(model.coef)
            shift = rows @ (rows.T @ dual) if thin else matrix @ dual
            self.intercept_ = model.intercept - np.average(shift, axis=0, weights=given.weight)
        elif self.loss == "svm":
            dual, self.intercept_ = large_margin(matrix, given.codes, given.weight, given.outputs.shape[1])
        elif thin:
            dual, self.intercept_ = ridge_at(thin_spectrum(rows, given.weight), given.outputs, self.alpha_)
            self.intercept_ -= np.average(rows, axis=0, weights=given.weight) @ (rows.T @ dual)
        else:
            dual, self.intercept_ = kernel_ridge(matrix, given.outputs, given.weight, self.alpha_)
        if self.calibration_ is not None:
            self.intercept_ = self.intercept_ @ self.calibration_.coef + self.calibration_.intercept
            dual = dual @ self.calibration_.coef
        self._keep(rows, dual)
        return self

    def _keep(self, rows: Array, dual: Array) -> None:
        """What predicts, of coefficients of kernel functions (n_rows, n_outputs)."""
        if self.kernel == "linear":
            self.coef_ = rows.T @ dual
            self.rows_ = np.empty((0, rows.shape[1]))
        else:
            kept = dual.any(axis=1)
            self.coef_ = dual[kept]
            self.rows_ = rows[kept]

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities for new rows.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features)
            As wide as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        rows = (self.check_rows(features) - self.centre_) / self.scale_
        if self.kernel == "linear":
            out = rows @ self.coef_ + self.intercept_
        else:
            out = np.empty((len(rows), len(self.intercept_)))
            for part in _blocks(len(rows), len(self.rows_)):
                out[part] = self._kernel(rows[part], self.rows_) @ self.coef_ + self.intercept_
        return out if self.n_classes is None else np.asarray(softmax(out, axis=1))

    def slopes(self, features: Any, outputs: Array) -> Array:
        """Gradients of predictions in the features: Σ_i a_i ∇k(x_i, x), and through softmax for classes."""
        if self.n_classes is None:
            by_score = (outputs[:, None] == np.arange(len(self.intercept_))).astype(float)
        else:
            by_score = softmax_slopes(self.predict(features), outputs)
        if self.kernel == "linear":
            return np.asarray(by_score @ self.coef_.T / self.scale_)
        rows = (self.check_rows(features) - self.centre_) / self.scale_
        found = np.empty(rows.shape)
        for part in _blocks(len(rows), len(self.rows_)):
            pull = self._kernel(rows[part], self.rows_)
            if self.kernel == "laplace":
                lengths = -np.log(np.maximum(pull, np.finfo(float).tiny))
                pull = np.divide(pull, lengths, out=np.zeros_like(pull), where=lengths > 0)
            pull *= by_score[part] @ self.coef_.T
            found[part] = pull @ self.rows_ - pull.sum(axis=1, keepdims=True) * rows[part]
        return found / self.scale_

    def _kernel(self, rows: Array, others: Array) -> Array:
        """Of rows over σ or s, ndarray of shape (n_rows, n_others)."""
        if self.kernel == "linear":
            return np.asarray(rows @ others.T)
        return gaussian(rows, others) if self.kernel == "rbf" else laplace(rows, others)

    def _choose_sigma(
        self, products: Array, size: float, given: Training, seed: int, near: tuple[float, float] | None
    ) -> tuple[float, int]:
        """σ, and which α suits it: turns of walks over α and over σ, until they stay where they are."""
        n = len(products)
        part = sample_rows(n, self.sigma_rows, None, np.random.default_rng(seed))
        few = products if len(part) == n else products[np.ix_(part, part)]
        weight = given.weight[part]
        folds = restrict_folds(given.folds, part, n)
        codes = given.codes[part] if self.n_classes is not None else part
        typical = _typical(few, weight, size)
        if self.kernel == "laplace":
            return WIDE * typical, _START
        few = few / typical**2
        squares = _from_products(few, np.diag(few).copy(), np.diag(few).copy())
        outputs = given.outputs[part]

        @cache
        def at(i: int) -> KernelRidge:
            return KernelRidge(np.exp(squares / SCALES[i] ** 2), outputs, weight, folds)

        @cache
        def loss(i: int, j: int) -> float:
            held_out = at(i).held_out(j)
            if self.n_classes is None or held_out is None:
                return at(i).loss(j)
            likely, _, _ = softmax_by_folds(held_out, codes, weight, outputs.shape[1], folds, (10.0,))
            return log_loss(likely, codes, weight)

        i = SCALES.index(1.0)
        j = _START
        if near is not None:
            i = int(np.argmin(np.abs(np.log(np.array(SCALES) * typical / near[0]))))
            j = _nearest_alpha(near[1] / at(i).size)
        walk = downhill_by_two if near is None else _step_by_step
        j = at(i).best(j)
        for _ in range(_TURNS):
            before = (i, j)
            i = walk(partial(loss, j=j), i, len(SCALES))
            walk = _step_by_step
            if i != before[0]:
                j = at(i).best(j)
            if j == before[1]:
                break
        return SCALES[i] * typical, j

    def _solve(self, rows: Array, matrix: Array, given: Training, seed: int, start: int) -> tuple[Array, Array, Array]:
        """Coefficients of kernel functions (n_rows, n_outputs), intercept, and held-out predictions.

        Of a linear kernel of rows that are longer than wide, the matrix is not needed, and empty.
        """
        weight = given.weight
        k = given.outputs.shape[1]
        if self.loss == "svm":
            dual, intercept = large_margin(matrix, given.codes, weight, k)
            scores = average_over_folds(given.folds, len(matrix), _margins_by_fold(matrix, given))
            return self._calibrate_scores(dual, intercept, scores, given)
        thin = not matrix.size

        def shift(dual: Array) -> Array:  # of features that are centred to kernel functions, which are not
            return np.asarray(np.average(rows @ (rows.T @ dual) if thin else matrix @ dual, axis=0, weights=weight))

        if self.loss == "logistic":
            found = thin_spectrum(rows, weight) if thin else spectrum(matrix, weight, self.n_eigenvectors, seed)
            Z = found.features(self.n_eigenvectors)
            held_out, self.penalty_, model = softmax_by_folds(Z, given.codes, weight, k, given.folds)
            dual = found.dual(model.coef)
            return dual, model.intercept - shift(dual), held_out
        if thin:
            best: Ridge = ridge(thin_spectrum(rows, weight), given.outputs, given.folds)
            self.alpha_ = best.alpha
            dual, intercept, held_out = best.dual, best.centre - shift(best.dual), best.held_out
        else:
            ridges = KernelRidge(matrix, given.outputs, weight, given.folds)
            j = ridges.best(start)
            self.alpha_ = ridges.alpha(j)
            held_out = np.asarray(ridges.held_out(j))
            dual, intercept = kernel_ridge(matrix, given.outputs, weight, self.alpha_)
        if self.n_classes is None:
            return dual, intercept, held_out
        return self._calibrate_scores(dual, intercept, held_out, given)

    def _calibrate_scores(
        self, dual: Array, intercept: Array, scores: Array, given: Training
    ) -> tuple[Array, Array, Array]:
        """Coefficients and held-out predictions after softmax regression on held-out scores, a linear map of them."""
        k = given.outputs.shape[1]
        held_out, self.penalty_, model = softmax_by_folds(scores, given.codes, given.weight, k, given.folds)
        self.calibration_ = model
        return dual @ model.coef, intercept @ model.coef + model.intercept, held_out


def _step_by_step(loss: Callable[[int], float], start: int, n: int) -> int:
    return downhill(loss, n, start, look_around=True)


def _nearest_alpha(alpha: float) -> int:
    """Position of the nearest of the values of α; of NaN, where walks start."""
    return int(np.argmin(np.abs(np.log(ALPHAS / alpha)))) if alpha > 0 else _START


def _margins_by_fold(matrix: Array, given: Training) -> Any:
    """Scores of held-out rows, as :func:`average_over_folds` asks for them."""

    def scores(fold: int, seen: Array, held: Array) -> Array:
        part = matrix[np.ix_(seen, seen)]
        dual, intercept = large_margin(part, given.codes[seen], given.weight[seen], given.outputs.shape[1])
        return np.asarray(matrix[np.ix_(held, seen)] @ dual + intercept)

    return scores


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(n_columns, 1))
    return (slice(start, start + step) for start in range(0, n_rows, step))
