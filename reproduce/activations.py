"""Photographs as bags: convolution layers of VGG-16, kept on disk as they are computed, and squashed to [0, 1].

The network is the one of Simonyan and Zisserman (2015), configuration D, up to its thirteenth convolution, without the
rectifier behind it: an image of h x w pixels gives 512 filters at about h/16 x w/16 positions, a bag of points in 512
dimensions. The tenth, behind its pooling, gives as many. PyTorch, an optional extra, does the work:
``pip install 'distembed[vision]'``.

Activations of any sign go to [0, 1] filter by filter, as the paper does it. A piecewise-linear map takes 0 to 0, the
90th percentile of the positive observations of the filter to logit 0.9 and the 10th percentile of its negative ones to
logit 0.1; the logistic function behind it makes 0.5, 0.9 and 0.1 of them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from distembed.bags import Bags
from distembed.compute.arrays import Array
from distembed.compute.atomic_files import write_whole
from distembed.compute.parallel import bag_slices

CHUNK_BYTES = 2**28  # of squashed points at a time
_UPPER = 0.9  # this quantile of the activations of one sign, by size, goes to this value
_N_FILTERS = 512
_LAYERS = ((1, 2), (2, 2), (3, 3), (4, 3), (5, 3))  # block, and its convolutions; a block begins with 2 x 2 pooling
# of the pixels that it was trained on
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
_IMAGES_A_FILE = 32
_CELL = 16  # pixels of a position
# ends of the names of folders, by layer
LAST = ""
EARLIER = "-conv4_3"


def read_index(folder: Path) -> tuple[list[str], NDArray[np.str_]]:
    """Files and categories of Scene-15, in the order of its index.

    Parameters
    ----------
    folder : Path
        Holds ``index.csv`` with columns ``file`` and ``category``, and the images.
    """
    with (folder / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["file"] for row in rows], np.array([row["category"] for row in rows])


def _network(weights: Path) -> list[Any]:
    """The network up to the pooling behind the fourth block, and from there to the last convolution."""
    import torch
    from torch import nn

    with np.load(weights) as kept:
        layers: list[Any] = []
        for block, count in _LAYERS:
            if block > 1:
                layers.append(nn.MaxPool2d(2))
            for number in range(1, count + 1):
                kernel = torch.from_numpy(kept[f"conv{block}_{number}.weight"].astype(np.float32))
                convolution = nn.Conv2d(kernel.shape[1], kernel.shape[0], 3, padding=1)
                convolution.weight.data = kernel
                convolution.bias.data = torch.from_numpy(kept[f"conv{block}_{number}.bias"].astype(np.float32))
                layers += [convolution, nn.ReLU(inplace=True)]
    # Pooling before the rectifier is the same as behind it, and leaves the sign of what is kept.
    last = max(i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d))
    parts = [*layers[: last - 1], layers[last]], [nn.ReLU(), *layers[last + 1 : -1]]
    return [nn.Sequential(*part).eval().to(memory_format=torch.channels_last) for part in parts]


def _size(image: Any, shortest: int) -> tuple[int, int]:
    """Width and height that leave so many pixels for the shorter side."""
    width, height = image.size
    factor = shortest / min(width, height)
    return round(width * factor), round(height * factor)


def _pixels(path: Path, shortest: int) -> Array:
    """An image of shape (3, h, w) whose shorter side has so many pixels, as the network wants its values."""
    from PIL import Image

    with Image.open(path) as image:
        size = _size(image, shortest)
        values = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BICUBIC), np.float32) / 255
    normal = (values - np.array(_MEAN, np.float32)) / np.array(_DEVIATION, np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1))


class Activations:
    """Outputs of the last convolution, and of an earlier one, for a list of images, in files of 32 images each.

    Parameters
    ----------
    images, weights : Path
        Folder of the images, and the file of the network's weights (``conv1_1.weight``, ...).
    cache : Path
        Where the files go. A file that is there is not computed again.
    files : sequence of str
        Images, relative to ``images``.
    shortest : int
        Pixels of the shorter side of an image as it enters the network.

    Notes
    -----
    Half precision: an image of 320 x 427 pixels takes half a megabyte for each layer. About half a second per image on
    two cores.
    """

    def __init__(self, images: Path, weights: Path, cache: Path, files: Sequence[str], shortest: int = 320) -> None:
        self._images = images
        self._weights = weights
        self._files = list(files)
        self._shortest = shortest
        self._folder = cache / f"vgg16-{shortest}"

    @property
    def parts(self) -> list[list[str]]:
        """The images of each file."""
        return [self._files[i : i + _IMAGES_A_FILE] for i in range(0, len(self._files), _IMAGES_A_FILE)]

    def _path(self, part: Sequence[str], layer: str = LAST) -> Path:
        folder = self._folder.with_name(self._folder.name + layer)
        return folder / (part[0].replace("/", "-").rpartition(".")[0] + f"-{len(part)}.npz")

    @property
    def missing(self) -> list[list[str]]:
        """Parts that are not computed yet."""
        return [part for part in self.parts if not all(self._path(part, layer).exists() for layer in (LAST, EARLIER))]

    def grids(self, only: Sequence[str]) -> Array:
        """Rows and columns of positions of some images, ndarray of shape (n_images, 2)."""
        from PIL import Image

        found = []
        for name in only:
            with Image.open(self._images / name) as image:
                found.append(_size(image, self._shortest)[::-1])
        return np.array(found) // _CELL

    def compute(self, advance: Callable[[int], object] = lambda more: None) -> None:
        """Compute what is missing; ``advance`` is told the number of images after each part."""
        missing = self.missing
        if not missing:
            return
        try:
            import torch
        except ImportError:
            raise ImportError(
                "scenes: the features of VGG-16 need PyTorch: pip install 'distembed[vision]', or, where a build "
                "without CUDA is wanted, pip install torch from an index of CPU builds"
            ) from None
        network = _network(self._weights)
        for part in missing:
            rows: dict[str, list[Array]] = {EARLIER: [], LAST: []}
            with torch.inference_mode():
                for name in part:
                    image = torch.from_numpy(_pixels(self._images / name, self._shortest))[None]
                    out = image.contiguous(memory_format=torch.channels_last)
                    for layer, stage in zip(rows, network, strict=True):
                        out = stage(out)
                        rows[layer].append(out[0].numpy().reshape(_N_FILTERS, -1).T.astype(np.float16))
            sizes = np.array([len(each) for each in rows[LAST]])
            for layer, all_rows in rows.items():
                path = self._path(part, layer)
                path.parent.mkdir(parents=True, exist_ok=True)
                with write_whole(path) as file:
                    np.savez(file, points=np.concatenate(all_rows), sizes=sizes, files=np.array(part))
            advance(len(part))

    def load(self, only: Sequence[str] | None = None, layer: str = LAST) -> tuple[Array, Array]:
        """Points of all images, or of ``only`` some in the order of the list, and their number in each.

        Returns
        -------
        points : ndarray of shape (n_points, 512), half precision
        sizes : ndarray of shape (n_images,) of int
        """
        wanted = self._files if only is None else list(only)
        found = [(part, self._kept_sizes(part, layer), np.isin(part, wanted)) for part in self.parts]
        sizes = np.concatenate([each[keep] for _, each, keep in found])
        points = np.empty((0, 0), np.float16)
        start = 0
        for part, each, keep in (some for some in found if some[2].any()):
            with np.load(self._path(part, layer)) as kept:
                rows = kept["points"][np.repeat(keep, each)]
            if not len(points):
                points = np.empty((int(sizes.sum()), rows.shape[1]), rows.dtype)
            points[start : start + len(rows)] = rows
            start += len(rows)
        return points, sizes

    def _kept_sizes(self, part: Sequence[str], layer: str) -> Array:
        with np.load(self._path(part, layer)) as kept:
            if kept["files"].tolist() != list(part):
                raise ValueError(
                    f"scenes: {self._path(part, layer)} holds other images than index.csv has there; remove "
                    f"{self._folder}, or use another cache"
                )
            return np.asarray(kept["sizes"])


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
    sizes = [np.abs(side.astype(np.float64)) for side in (values[values > 0], values[values < 0])]
    found = [float(logit(_UPPER) / np.quantile(each, _UPPER)) for each in sizes if len(each)] or [1.0]
    return found[0], found[-1]


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
        self._points = points
        self._sizes = np.asarray(sizes, np.int64)
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
        for rows in bag_slices(self._sizes, 4 * self.n_filters, 0, CHUNK_BYTES):
            yield self.some(np.arange(len(self))[rows])

    def some(self, rows: Array) -> Bags:
        """All filters of some images."""
        spans = [np.arange(self._offsets[i], self._offsets[i + 1]) for i in rows]
        points = squash(self._points[np.concatenate(spans)], *self.slopes_)
        return Bags(points, np.r_[0, np.cumsum(self._sizes[rows])])
