r"""Random features and kernels that a group of symmetries does not change.

With z the plain random features and g the elements of a group G that acts on rows by orthogonal maps,

.. math:: \bar z(x) = \frac{1}{|G|} \sum_g z(g x), \qquad
          \bar z(x) \cdot \bar z(y) \approx \frac{1}{|G|} \sum_g k(x, g y),

the kernel averaged over the group (Haasdonk and Burkhardt 2007). Cost: that of the plain features times the order of
the group; rows and features keep their widths. The length of z̄ is at most one, less where the images of a row differ.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from ..compute.arrays import Array

if TYPE_CHECKING:
    from .fourier import RandomFourierFeatures

_PIECE_VALUES = 2**23  # features of images at a time


class Invariant:
    """Fitted random features with a group: their means over the images of rows.

    Parameters
    ----------
    features : RandomFourierFeatures
        Fitted, with a ``group``.
    """

    def __init__(self, features: RandomFourierFeatures) -> None:
        self._group: Any = features.group
        self._plain = copy(features)
        self._plain.group = None
        self._plain.n_features_in_ = self._group.width(features.n_features_in_)

    def features(self, rows: Array) -> Array:
        """Features of rows, ndarray of shape (n_rows, n_components)."""
        n = self._plain.n_components
        out = np.zeros((len(rows), n), rows.dtype)
        step = max(1, _PIECE_VALUES // n)
        for first in range(0, len(rows), step):
            piece = rows[first : first + step]
            for i in range(self._group.order):
                out[first : first + step] += self._plain.transform(self._group.act(i, piece))
        out /= self._group.order
        return out

    def gradients(self, rows: Array, coef: Array) -> Array:
        """Gradients in the rows of the linear function features @ coef, ndarray of the shape of rows."""
        found = np.zeros(rows.shape)
        for i in range(self._group.order):
            image = self._group.act(i, rows)
            slopes = self._plain.gradients(image, self._plain.transform(image), coef)
            found += self._group.act(i, slopes, transposed=True)
        return np.asarray(found / self._group.order)


def averaged_kernel(first: Array, second: Array, sigma: float, group: Any) -> Array:
    r"""The kernel exp(-\|x - y\|² / (2 σ²)) averaged over a group, exactly: ndarray of shape (n_first, n_second).

    Parameters
    ----------
    first, second : ndarray of shape (n_first, m) and (n_second, m)
        Rows, such as those of an embedding, all less a centre that no element of the group moves.
    sigma : float
        Scale.
    group : CoefficientGroup or None
        None: the plain kernel.

    Examples
    --------
    >>> from distembed.basis import Cosine, groups
    >>> group = groups.coefficient_group(Cosine(), np.array([[0], [1]]), groups.get("reflections"))
    >>> rows = np.array([[1.0, 0.5]])
    >>> averaged_kernel(rows, rows, 1.0, group).round(3), averaged_kernel(rows, rows, 1.0, None)
    (array([[0.803]]), array([[1.]]))
    """
    out = np.zeros((len(first), len(second)))
    for left, right in [(first, second)] if group is None else group.pairs(first, second):
        squares = euclidean_distances(left, right, squared=True)
        squares /= -2 * sigma**2
        out += np.exp(squares, out=squares)
    return out if group is None else out / group.n_pairs


def random_kernel(rows: Array, n_components: int, seed: int, group: Any, drawn: dict[int, Any]) -> Array:
    """Dot products of invariant random features of rows for a sigma of one, in float32: (n_rows, n_rows).

    ``drawn`` keeps frequencies, by the width of rows.
    """
    from .fourier import RandomFourierFeatures

    few = np.asarray(rows, np.float32)
    if few.shape[1] not in drawn:
        random = RandomFourierFeatures(n_components, sigma=1.0, random_state=seed, group=group)
        drawn[few.shape[1]] = random.fit(few)
    Z = drawn[few.shape[1]].transform(few)
    return np.asarray(Z @ Z.T)
