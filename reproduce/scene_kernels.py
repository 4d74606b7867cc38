r"""Kernels of scenes past the paper: what margins of one layer do not have, in sums of kernels.

- *Bands.* Skies are above and streets below: margins of the upper, the middle and the lower third of an image, one bag
  each. Thirds, as all pooling over positions, do not change where the map of activations is mirrored left to right.
- *Second-order pooling.* Which filters are active together: the square root of the covariance matrix C of rectified
  activations, √C_i · √C_j (Li, Xie, Wang and Zuo 2017).
- *An earlier layer.* Margins of the fourth block of convolutions, behind its pooling: texture.

Which of them join the margins of the last layer is chosen by folds of the training images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from distembed.compute.arrays import Array

from .activations import SquashedImages

STEP = "past the paper"
N_BANDS = 3
MARGINS = "margins"
BANDS = "bands"
SECOND = "second order"
EARLIER = "earlier layer"
PARTS = (MARGINS, BANDS, SECOND, EARLIER)
CHOSEN = "chosen by folds of training images"
EXACT = "all, exact Gaussian kernel"
_COLUMNS_AT_ONCE = 8192

Margins = Callable[[SquashedImages], Array]  # dot products of features of images


def centre_and_scale(gram: Array) -> Array:
    """Dot products of centred features of a mean squared length of one."""
    gram = gram - gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    return np.asarray(gram / np.mean(np.diag(gram)))


def band_of(grids: Array) -> Array:
    """The number of the band that each position of each image is in, row by row.

    Examples
    --------
    >>> band_of(np.array([[3, 2], [4, 1]]))
    array([0, 0, 1, 1, 2, 2, 0, 1, 1, 2])
    """
    rows = [np.repeat((np.arange(h) + 0.5) / h, w) for h, w in grids.tolist()]
    return np.asarray(np.floor(np.concatenate(rows) * N_BANDS), np.int64)


def bands(points: Array, grids: Array, margins: Margins) -> Array:
    """Dot products of the margins of all bands.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_filters)
        Activations, positions of an image row by row.
    grids : ndarray of shape (n_images, 2)
        Rows and columns of positions.
    margins : callable
        Dot products of images.
    """
    which = band_of(grids)
    image = np.repeat(np.arange(len(grids)), grids.prod(axis=1))
    parts = [(points[which == k], np.bincount(image[which == k], minlength=len(grids))) for k in range(N_BANDS)]
    return centre_and_scale(np.sum([margins(SquashedImages(*part)) for part in parts], axis=0))


def second_order(points: Array, sizes: Array) -> Array:
    """Dot products of the square roots of the covariance matrices of rectified activations.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_filters)
        Activations.
    sizes : ndarray of shape (n_images,)
        Positions of each image.

    Notes
    -----
    √C = V S Vᵀ with the singular values S and right vectors V of the centred rows, over the root of their number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> gram = second_order(rng.normal(size=(40, 3)), np.array([10, 10, 20]))
    >>> gram.shape, bool(np.isclose(np.trace(gram), 3)), bool(np.allclose(gram.sum(axis=0), 0))
    ((3, 3), True, True)
    """
    upper = np.triu_indices(points.shape[1])
    factor = np.where(upper[0] == upper[1], 1.0, np.sqrt(2)).astype(np.float32)
    features = np.empty((len(sizes), len(factor)), np.float32)
    ends = np.cumsum(sizes)
    for i, (end, size) in enumerate(zip(ends.tolist(), np.asarray(sizes).tolist(), strict=True)):
        rows = np.maximum(points[end - size : end].astype(np.float32), 0)
        rows -= rows.mean(axis=0)
        _, values, vectors = np.linalg.svd(rows / np.sqrt(size), full_matrices=False)
        features[i] = ((vectors.T * values) @ vectors)[upper] * factor
    gram = np.zeros((len(sizes), len(sizes)))
    for start in range(0, len(factor), _COLUMNS_AT_ONCE):
        some = features[:, start : start + _COLUMNS_AT_ONCE].astype(np.float64)
        some -= some.mean(axis=0)
        gram += some @ some.T
    return centre_and_scale(gram)


def sums_of(grams: Mapping[str, Array]) -> dict[str, Array]:
    """Equal sums of the kernel of margins and any of the others, by their names.

    Examples
    --------
    >>> list(sums_of({name: np.diag([1.0, 2.0]) for name in PARTS}))[:3]
    ['margins', 'margins + bands', 'margins + second order']
    """
    found = {}
    others = [name for name in grams if name != MARGINS]
    for n in range(len(others) + 1):
        for some in combinations(others, n):
            names = (MARGINS, *some)
            found[" + ".join(names)] = centre_and_scale(np.sum([grams[name] for name in names], axis=0))
    return found


def gaussian(gram: Array, scale: float) -> Array:
    """The kernel exp(-d²/(2s²)) of the distances d of rows, with s so many times their median, centred.

    Examples
    --------
    >>> gaussian(np.diag([0.5, 0.5]), 1.0).round(6)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    squares = np.maximum(np.diag(gram)[:, None] + np.diag(gram) - 2 * gram, 0)
    median = np.median(squares[np.triu_indices(len(gram), 1)])
    return centre_and_scale(np.exp(-squares / (2 * scale**2 * median)))


def attempts(
    grams: Mapping[str, Array], score: Callable[[Sequence[Array]], Any], scales: Sequence[float]
) -> dict[str, Any]:
    """Accuracies of each part, of each sum, of the sum that training images choose, and of its exact Gaussian kernel.

    Parameters
    ----------
    grams : mapping of str to ndarray of shape (n_images, n_images)
        By part.
    score : callable
        Accuracy over splits of the best of some kernels, by folds of training images: ``accuracy``, and ``kernel``, the
        number of the one that was chosen.
    scales : sequence of float
        Of the Gaussian kernel, times the median distance.

    Returns
    -------
    dict
        ``names`` of rows and their ``accuracies``, ndarray of shape (n_rows, n_splits); and what was ``chosen``.
    """
    sums = sums_of(grams)
    alone = {name: grams[name] for name in grams if name != MARGINS}
    found = {name: score([gram]).accuracy for name, gram in [*alone.items(), *sums.items()]}
    chosen = score(list(sums.values()))
    found[CHOSEN] = chosen.accuracy
    found[EXACT] = score([gaussian(sums[" + ".join(PARTS)], scale) for scale in scales]).accuracy
    names = [*(name for name in found if name in sums), *(name for name in found if name not in sums)]
    return {
        "names": np.array(names),
        "accuracies": np.array([found[name] for name in names]),
        "chosen": np.array(list(sums))[chosen.kernel],
    }
