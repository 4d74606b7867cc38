r"""Features of a weighted sum of kernels, one for each block of columns.

.. math:: k(x, y) = \sum_v w_v k_v(x_v, y_v), \qquad z(x) = (\sqrt{w_1} z_1(x_1), \sqrt{w_2} z_2(x_2), ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..compute.arrays import Array
from ..compute.registry import storable


def shares(n_components: int, weights: Sequence[float]) -> list[int]:
    """How many of n random features each kernel of a sum gets: an even number, in proportion to its weight.

    That makes the variance of the sum, Σ w² / D_v, as small as it can be.

    Examples
    --------
    >>> shares(5000, [1.0, 0.25]), shares(100, [1.0, 0.0])
    ([4000, 1000], [100, 2])
    """
    total = sum(weights)
    return [max(2, 2 * round(n_components * weight / total / 2)) for weight in weights]


@storable(fitted_="list[any]", n_components="n")
class SumFeatures(TransformerMixin, BaseEstimator):
    """Features of several kernels side by side, each of its own block of columns, times the root of its weight.

    Parameters
    ----------
    parts : list of transformers
        Such as :class:`~distembed.RandomFourierFeatures`, one for each block.
    widths : tuple of int
        Numbers of columns of the blocks.
    weights : tuple of float
        Of the kernels; a part of weight zero is left out.

    Attributes
    ----------
    fitted_ : list of transformers
    n_components : int
        Number of features, after ``fit``.

    Examples
    --------
    >>> from distembed import RandomFourierFeatures
    >>> parts = [RandomFourierFeatures(2000, sigma=1.0, random_state=seed) for seed in (0, 1)]
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> Z = SumFeatures(parts, (1, 1), (0.75, 0.25)).fit_transform(X)
    >>> bool(abs(Z[0] @ Z[1] - (0.75 * np.exp(-0.5) + 0.25 * np.exp(-2))) < 0.02)
    True
    """

    n_components: int

    def __init__(self, parts: list[Any], widths: tuple[int, ...], weights: tuple[float, ...]) -> None:
        self.parts = parts
        self.widths = widths
        self.weights = weights

    def blocks(self, X: Any) -> list[tuple[int, Array]]:
        """Number and columns of each part that counts."""
        rows = np.asarray(X)
        ends = np.cumsum(self.widths)
        starts = ends - self.widths
        return [(v, rows[:, starts[v] : ends[v]]) for v, weight in enumerate(self.weights) if weight > 0]

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit each part to its columns."""
        self.fitted_ = [clone(self.parts[v]).fit(block) for v, block in self.blocks(X)]
        self.n_components, self.n_features_in_ = sum(part.n_components for part in self.fitted_), int(sum(self.widths))
        return self

    def __distembed_fits__(self) -> bool:
        return (
            len(self.fitted_) == sum(weight > 0 for weight in self.weights)
            and sum(self.widths) == self.n_features_in_
            and sum(part.n_components for part in self.fitted_) == self.n_components
        )

    def _by_part(self, X: Any) -> list[tuple[int, Array]]:
        """Number and features of each part that counts."""
        check_is_fitted(self, "fitted_")
        blocks = zip(self.blocks(X), self.fitted_, strict=True)
        return [(v, part.transform(block) * np.sqrt(self.weights[v])) for (v, block), part in blocks]

    def transform(self, X: Any) -> Array:
        """Features of rows, ndarray of shape (n_rows, n_components)."""
        return np.concatenate([Z.astype(X.dtype, copy=False) for _, Z in self._by_part(X)], axis=1)

    def contributions(self, X: Any, coef: Array) -> Array:
        """What each part adds to the linear function of the features with these coefficients, (n_rows, n_parts)."""
        out = np.zeros((len(X), len(self.weights)))
        start = 0
        for v, Z in self._by_part(X):
            out[:, v] = Z @ coef[start : start + Z.shape[1]]
            start += Z.shape[1]
        return out
