r"""Activations of any sign to [0, 1], filter by filter, as the paper does it.

A piecewise-linear map takes 0 to 0, the 90th percentile of the positive observations of the filter to logit 0.9 and the
10th percentile of its negative ones to logit 0.1; the logistic function behind it makes 0.5, 0.9 and 0.1 of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from ..bags import Bags
from ..embeddings.marginals import bag_slices

__all__ = ["SquashedImages", "slopes", "squash"]

Array = NDArray[Any]

_UPPER = 0.9
_CHUNK_BYTES = 2**28  # of squashed points at a time


def slopes(values: Array) -> tuple[float, float]:
    """Slopes of one filter's map, for positive and for negative activations.

    Parameters
    ----------
    values : ndarray of shape (n_points,)
        All activations of the filter.

    Returns
    -------
    positive, negative : float
        A filter without activations of one sign has the other's slope there: it will be asked for none. One that is
        always 0 has slopes of 1.

    Examples
    --------
    >>> slopes(np.arange(-10.0, 21.0))  # percentiles: 18.1 of 1, ..., 20 and -9.1 of -10, ..., -1
    (0.121..., 0.241...)
    """
    found = []
    for sign in (1, -1):
        side = values[values > 0] if sign > 0 else values[values < 0]
        if len(side):
            found.append(logit(_UPPER) / np.quantile(np.abs(side.astype(np.float64)), _UPPER))
        else:
            found.append(None)
    positive, negative = found
    if positive is None and negative is None:
        return 1.0, 1.0
    return float(negative if positive is None else positive), float(positive if negative is None else negative)


def squash(values: Array, positive: Array, negative: Array) -> Array:
    """Activations of shape (n_points, n_filters) in [0, 1], float32.

    Examples
    --------
    >>> squash(np.array([[-9.1], [0.0], [18.1]], np.float16), *np.array([slopes(np.arange(-10.0, 21.0))]).T).round(2)
    array([[0.1],
           [0.5],
           [0.9]], dtype=float32)
    """
    out = values.astype(np.float32)
    out *= np.where(out > 0, positive.astype(np.float32), negative.astype(np.float32))
    expit(out, out=out)
    return out


class SquashedImages:
    """Bags of squashed activations, a few filters or a few images at a time.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_filters)
        Activations of all images.
    sizes : ndarray of shape (n_images,)
        Points of each.

    Attributes
    ----------
    slopes_ : ndarray of shape (2, n_filters)
        Positive and negative slopes, from all images: no label is used.

    Examples
    --------
    >>> images = SquashedImages(np.random.default_rng(0).normal(size=(50, 5)).astype(np.float16), np.array([20, 30]))
    >>> [bags.points.shape for bags in images.by_filters(2)]
    [(50, 2), (50, 2), (50, 1)]
    """

    def __init__(self, points: Array, sizes: Array) -> None:
        self._points, self._sizes = points, np.asarray(sizes, np.int64)
        self._offsets = np.r_[0, np.cumsum(self._sizes)]
        self.slopes_ = np.array([slopes(np.ascontiguousarray(column)) for column in points.T]).T

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def n_filters(self) -> int:
        """Number of filters."""
        return int(self._points.shape[1])

    def by_filters(self, step: int) -> Iterator[Bags]:
        """All images, ``step`` filters at a time."""
        for start in range(0, self.n_filters, step):
            some = slice(start, start + step)
            yield Bags(squash(self._points[:, some], *self.slopes_[:, some]), self._offsets)

    def by_images(self) -> Iterator[Bags]:
        """All filters, a chunk of images at a time."""
        for rows in bag_slices(self._sizes, 4 * self.n_filters, 0, _CHUNK_BYTES):
            yield self.some(np.arange(len(self))[rows])

    def some(self, rows: Array) -> Bags:
        """All filters of some images."""
        spans = [np.arange(self._offsets[i], self._offsets[i + 1]) for i in rows]
        points = squash(self._points[np.concatenate(spans)], *self.slopes_)
        return Bags(points, np.r_[0, np.cumsum(self._sizes[rows])])
