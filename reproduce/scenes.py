r"""Scene-15: fifteen kinds of places, told apart by the distributions of a network's activations.

    image -> VGG-16, 512 filters at some 500 positions -> [0, 1] -> features of each filter -> linear machine

Features are made once for a method, without labels; their Gram matrix then serves all splits, folds and penalties of
:mod:`reproduce.large_margins`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import process_time
from typing import Any, ClassVar

import numpy as np

from distembed.basis import LowEnergyWarning
from distembed.compute.arrays import Array
from distembed.compute.progress import Stages
from distembed.embeddings import (
    HDDEmbedding,
    HistogramEmbedding,
    L2Embedding,
    Marginals,
    MeanEmbedding,
    MomentEmbedding,
)
from distembed.features import RandomFourierFeatures

from . import scenes_past
from .activations import EARLIER, Activations, SquashedImages, read_index
from .large_margins import random_splits, score_splits
from .scenes_report import make_report
from .study import Report, Results, Step, Study

SHORTEST = 320  # pixels
FILTERS_AT_A_TIME = 16
LOOKED_AT = 200  # images to which an embedding of all filters together is fitted: it takes their median distance
JITTER = 1e-9  # on the diagonal of a matrix of mean diagonal one, for its Cholesky factor


@dataclass(frozen=True)
class Method:
    """An embedding of bags, of each filter by itself or of all together; ``family`` for what the paper says of it."""

    title: str
    family: str
    make: Callable[[], Any]
    each: bool = True


def _mmd(scale: float) -> Callable[[], Any]:
    return lambda: MeanEmbedding(4096, sigma_scale=scale, random_state=0, n_jobs=1)


METHODS = {
    "js": Method("JS", "ours", lambda: HDDEmbedding("js", n_jobs=1)),
    "hellinger": Method("Hellinger", "ours", lambda: HDDEmbedding("hellinger", n_jobs=1)),
    "tv": Method("TV", "ours", lambda: HDDEmbedding("tv", n_jobs=1)),
    "l2": Method("L2", "L2", lambda: L2Embedding(n_jobs=1)),
    "mmd-0.5": Method("MMD σ/2", "MMD", _mmd(0.5), each=False),
    "mmd-1": Method("MMD σ", "MMD", _mmd(1.0), each=False),
    "mmd-2": Method("MMD 2σ", "MMD", _mmd(2.0), each=False),
    "mmd-4": Method("MMD 4σ", "MMD", _mmd(4.0), each=False),
    "mmd-each": Method("MMD σ, each filter", "MMD", lambda: MeanEmbedding(method="spectrum", random_state=0, n_jobs=1)),
    "hist-10": Method("Histogram 10", "histogram", lambda: HistogramEmbedding("js", bins=10, n_jobs=1)),
    "hist-25": Method("Histogram 25", "histogram", lambda: HistogramEmbedding("js", bins=25, n_jobs=1)),
    "hist-50": Method("Histogram 50", "histogram", lambda: HistogramEmbedding("js", bins=50, n_jobs=1)),
    "d3": Method("D3", "D3", lambda: MomentEmbedding("d3", n_jobs=1)),
    "mean": Method("Mean pooling", "simple", lambda: MomentEmbedding("mean", n_jobs=1)),
}


@dataclass(frozen=True)
class Plan:
    """How methods are compared: all that is in the settings of every step."""

    methods: tuple[str, ...] = tuple(METHODS)
    per_category: int = 0  # images of each category; 0 for all
    each_nth_filter: int = 1
    n_train: int = 100  # of each category
    n_splits: int = 10
    n_folds: int = 3
    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    n_components: int = 7000
    sigma_scales: tuple[float, ...] = (0.5, 1.0, 2.0)
    seed: int = 0
    past: bool = True  # whether sums of kernels are tried too


QUICK = Plan(
    ("js", "l2", "mmd-1", "hist-10", "d3", "mean"), each_nth_filter=4, n_splits=2, n_components=1000, past=False
)


# --------------------------------------------------------------------------------------------------------------
# Gram matrices
# --------------------------------------------------------------------------------------------------------------


def gram_of(method: Method, images: SquashedImages) -> tuple[Array, int, float]:
    """Dot products of the centred features of all images, scaled to a mean squared length of one.

    Parameters
    ----------
    method : Method
    images : SquashedImages

    Returns
    -------
    gram : ndarray of shape (n_images, n_images)
    n_features : int
    energy : float
        Share of the functions that the basis captures, mean over filters; NaN where there is no basis.

    Notes
    -----
    Features of some filters are made, multiplied and forgotten: memory does not grow with their number.
    """
    gram = np.zeros((len(images), len(images)))
    n_features = 0
    energies = []
    if method.each:
        for bags in images.by_filters(FILTERS_AT_A_TIME):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LowEnergyWarning)  # the energy is in the report
                embedding = Marginals(method.make()).fit(bags)
            n_features += _add_products(gram, embedding.transform(bags))
            energies += [getattr(each, "energy_", np.nan) for each in embedding.embeddings_]
    else:
        some = np.random.RandomState(0).choice(len(images), min(LOOKED_AT, len(images)), replace=False)
        embedding = method.make().fit(images.some(np.sort(some)))
        n_features = _add_products(gram, np.concatenate([embedding.transform(bags) for bags in images.by_images()]))
        energies.append(np.nan)
    gram /= np.mean(np.diag(gram)) or 1.0
    return gram, n_features, float(np.mean(energies))


def _add_products(gram: Array, features: Array) -> int:
    """Add the dot products of centred features, in double precision, and return their number."""
    features = features.astype(np.float64)
    features -= features.mean(axis=0)
    gram += features @ features.T
    return int(features.shape[1])


def random_feature_grams(gram: Array, n_components: int, scales: Sequence[float], seed: int) -> list[Array]:
    """Dot products of centred random features z(A), scaled to a mean squared length of one, for each scale of sigma.

    Parameters
    ----------
    gram : ndarray of shape (n_images, n_images)
        Dot products of A features, G.
    n_components : int
        D.
    scales : sequence of float
        Times the median distance between images.
    seed : int
        Of the frequencies.

    Notes
    -----
    The angles ω·a_i of Gaussian frequencies are N(0, G/σ²) over images: those of the rows of a Cholesky factor of G
    have the same law as those of the A features, of which there may be ten times as many as images.
    """
    inside = np.triu_indices(len(gram), 1)
    squares = np.diag(gram)
    distances = squares[inside[0]] + squares[inside[1]] - 2 * gram[inside]
    median = float(np.sqrt(np.median(np.maximum(distances, 0)))) or 1.0
    rows = np.linalg.cholesky(gram + JITTER * np.eye(len(gram))).astype(np.float32)
    grams = []
    for scale in scales:
        features = RandomFourierFeatures(
            n_components, sigma=median * scale, frequencies="independent", random_state=seed, n_jobs=1
        )
        product = np.zeros_like(gram)
        _add_products(product, features.fit_transform(rows))
        grams.append(product / np.mean(np.diag(product)))
    return grams


# --------------------------------------------------------------------------------------------------------------
# The experiment
# --------------------------------------------------------------------------------------------------------------


class Experiment(Study):
    """Accuracy of embeddings on Scene-15, with A features and with random features of them.

    Examples
    --------
    >>> [step.name for step in Experiment().steps()][:4]
    ['js', 'hellinger', 'tv', 'l2']
    """

    name = "scenes"
    summary = "Scene-15 by the distributions of VGG-16's activations: accuracy of each embedding over ten splits"
    needs_data = True
    plan: ClassVar[Plan] = Plan()
    quick_plan: ClassVar[Plan] = QUICK
    quick_images: ClassVar[tuple[int, int]] = (30, 6)  # of each category: if all are computed, and if none are

    _loaded: tuple[SquashedImages, Array] | None = None

    def _sources(self) -> tuple[Activations, list[str], Array, int]:
        """Activations, the images that are used, their categories, and how many of each; 0 for all."""
        folder = self.find("scene15")
        weights = self.find("vgg16_conv_fp16.npz")
        files, categories = read_index(folder)
        whole = Activations(folder, weights, self.cache.folder, files, SHORTEST)
        if not self.quick:
            return whole, files, categories, 0
        many, few = self.quick_images
        number = few if whole.missing else many
        first = np.array([np.sum(categories[:i] == category) < number for i, category in enumerate(categories)])
        some = [file for file, used in zip(files, first, strict=True) if used]
        if whole.missing:  # in a folder of their own: files are called after their first image
            whole = Activations(folder, weights, self.cache.folder / "quick", some, SHORTEST)
        return whole, some, categories[first], number

    def prepare(self, progress: Stages) -> None:
        """Compute the activations that are not in the cache: a second per image, with PyTorch."""
        activations = self._sources()[0]
        missing = sum(map(len, activations.missing))
        if missing:
            progress.begin(f"{self.name}: VGG-16", missing)
            activations.compute(progress.advance)

    def _images(self) -> tuple[SquashedImages, Array]:
        """Squashed images and their categories as numbers; read once."""
        if self._loaded is None:
            activations, files, categories, _ = self._sources()
            activations.compute()
            points, sizes = activations.load(files)
            images = SquashedImages(points[:, :: self._plan().each_nth_filter], sizes)
            self._loaded = images, np.unique(categories, return_inverse=True)[1]
        return self._loaded

    def _plan(self) -> Plan:
        if not self.quick:
            return self.plan
        try:
            number = self._sources()[3]
        except FileNotFoundError:  # steps can be listed without the data
            number = self.quick_images[1]
        return replace(self.quick_plan, per_category=number, n_train=number * 2 // 3)

    def steps(self) -> list[Step]:
        """One per method, and sums of kernels."""
        plan = self._plan()
        shared = {name: value for name, value in asdict(plan).items() if name not in ("methods", "past")}
        shared["shortest"] = SHORTEST
        found = []
        for name, method in ((name, METHODS[name]) for name in plan.methods):
            embedding = method.make()
            fitted_to = {} if method.each else {"looked_at": LOOKED_AT}
            described = [type(embedding).__name__, embedding.get_params()]
            settings = {"method": name, "embedding": described, "each": method.each, **fitted_to, **shared}
            found.append(Step(name, settings, partial(self._compute, method, plan)))
        if plan.past:
            settings = {"parts": scenes_past.PARTS, "bands": scenes_past.N_BANDS, **shared}
            found.append(Step(scenes_past.STEP, settings, partial(self._compute_past, plan)))
        return found

    def _compute(self, method: Method, plan: Plan) -> dict[str, Any]:
        images, labels = self._images()
        splits = random_splits(labels, plan.n_train, plan.n_splits, plan.seed)
        start = process_time()
        gram, n_features, energy = gram_of(method, images)
        found: dict[str, Any] = {
            "feature_seconds": process_time() - start,  # of the features and their dot products
            "n_features": n_features,
            "energy": energy,
            "n_train": len(splits[0]),
            "n_test": len(labels) - len(splits[0]),
            "n_classes": int(labels.max()) + 1,
        }
        scores = score_splits([gram], labels, splits, plan.Cs, plan.n_folds, plan.seed)
        found |= {"A_accuracy": scores.accuracy, "A_C": scores.C}
        grams = random_feature_grams(gram, plan.n_components, plan.sigma_scales, plan.seed)
        scores = score_splits(grams, labels, splits, plan.Cs, plan.n_folds, plan.seed)
        scales = np.array(plan.sigma_scales)[scores.kernel]
        return found | {"z_accuracy": scores.accuracy, "z_C": scores.C, "z_sigma_scale": scales}

    def _compute_past(self, plan: Plan) -> dict[str, Any]:
        activations, files, categories, _ = self._sources()
        labels = np.unique(categories, return_inverse=True)[1]
        splits = random_splits(labels, plan.n_train, plan.n_splits, plan.seed)
        grids = activations.grids(files)

        def margins(images: SquashedImages) -> Array:
            return gram_of(METHODS["hellinger"], images)[0]

        points, sizes = activations.load(files)
        grams = {
            scenes_past.MARGINS: margins(SquashedImages(points, sizes)),
            scenes_past.BANDS: scenes_past.bands(points, grids, margins),
            scenes_past.SECOND: scenes_past.second_order(points, sizes),
            scenes_past.EARLIER: margins(SquashedImages(*activations.load(files, EARLIER))),
        }
        found = scenes_past.attempts(
            grams,
            lambda kernels: score_splits(kernels, labels, splits, plan.Cs, plan.n_folds, plan.seed),
            plan.sigma_scales,
        )
        return found | {"n_train": len(splits[0]), "n_test": len(labels) - len(splits[0])}

    def report(self, results: Results) -> Report:
        """Accuracies of the methods that are there, compared with JS."""
        plan = self._plan()
        n = plan.per_category
        introduction = self.introduction(
            plan=plan,
            shortest=SHORTEST,
            images=f"the first {n} images of each category" if n else "4,485 images",
            some=f" Only each {plan.each_nth_filter}th filter is used." if plan.each_nth_filter > 1 else "",
            Cs=", ".join(f"{C:g}" for C in plan.Cs),
            sigma_scales=", ".join(f"{scale:g}" for scale in plan.sigma_scales),
        )
        methods = {name: (method.title, method.family) for name, method in METHODS.items()}
        return make_report(introduction, results, methods, judged=not n)
