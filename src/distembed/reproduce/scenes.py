r"""Scene-15: fifteen kinds of places, told apart by the distributions of a network's activations.

    image -> VGG-16, 512 filters at some 500 positions -> [0, 1] -> features of each filter -> linear machine

Features are made once for a method, without labels; their Gram matrix then serves all splits, folds and penalties.
LIBLINEAR's default classifier, one class against the rest (``sklearn.svm.LinearSVC``), minimises

.. math:: \tfrac12 (\|w\|^2 + b^2) + C \sum_i \max(0, 1 - y_i (w \cdot x_i + b))^2.

Its solution is w = Σ_i β_i x_i, b = Σ_i β_i, so that with K = X Xᵀ + 1 (1 added to each entry, for b) it depends on the
rows through K alone. β is 0 but on the rows S inside the margin, where (K_SS + I/(2C)) β_S = y_S. Newton's method
(Chapelle 2007, Training a support vector machine in the primal) guesses S, solves, and looks which rows are inside.
When S stays as it is, β is the solution, to rounding. On a Cholesky factor of K LIBLINEAR takes five times as long.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import process_time
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..basis import LowEnergyWarning
from ..compute.arrays import Array
from ..compute.progress import Stages
from ..embeddings import HDDEmbedding, HistogramEmbedding, L2Embedding, Marginals, MeanEmbedding, MomentEmbedding
from ..features import RandomFourierFeatures
from .activations import Activations, SquashedImages, read_index
from .scenes_report import make_report
from .study import Report, Results, Step, Study

SHORTEST = 320  # pixels
FILTERS_AT_A_TIME = 16
LOOKED_AT = 200  # images to which an embedding of all filters together is fitted: it takes their median distance
JITTER = 1e-9  # on the diagonal of a matrix of mean diagonal one, for its Cholesky factor
MOST_STEPS = 100  # of Newton's method
ROUNDING = 1e-12  # relative change of the objective that means nothing


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


QUICK = Plan(("js", "l2", "mmd-1", "hist-10", "d3", "mean"), each_nth_filter=4, n_splits=2, n_components=1000)


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
    gram, n_features, energies = np.zeros((len(images), len(images))), 0, []
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
# Linear support vector machines from dot products
# --------------------------------------------------------------------------------------------------------------


def random_splits(labels: Array, n_train: int, n_splits: int, seed: int) -> list[Array]:
    """Rows to train on, ``n_train`` of each class, drawn at random; a sorted array of int for each split.

    Examples
    --------
    >>> random_splits(np.array([0, 0, 0, 1, 1]), n_train=1, n_splits=2, seed=0)
    [array([2, 4]), array([1, 3])]
    """
    rng, members = np.random.default_rng(seed), [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [
        np.sort(np.concatenate([rng.choice(rows, n_train, replace=False) for rows in members])) for _ in range(n_splits)
    ]


def fit_margins(gram: Array, labels: Array, C: float, start: Array | None = None) -> Array:
    """Coefficients β of the machines, one class against the rest.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        Dot products of the training rows.
    labels : ndarray of shape (n_rows,) of int
        Classes 0, ..., n_classes - 1.
    C : float
        Weight of the losses.
    start : ndarray of shape (n_rows, n_classes), optional
        Coefficients for another C: their support is the first guess.

    Returns
    -------
    ndarray of shape (n_rows, n_classes)
        Decision values of other rows are ``(dot_products + 1) @ coefficients``.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> beta = fit_margins(x @ x.T, np.array([0, 0, 1, 1]), C=10.0)
    >>> ((x @ x.T + 1) @ beta).round(3)
    array([[ 1.951, -1.951],
           [ 0.976, -0.976],
           [-0.976,  0.976],
           [-1.951,  1.951]])
    """
    n_classes, kernel = int(labels.max()) + 1, gram + 1.0
    signs = np.where(labels[:, None] == np.arange(n_classes), 1.0, -1.0)
    if start is None:  # all rows inside: one factorisation for all classes
        start = cho_solve(_factor(kernel, C), signs)
    return np.column_stack([_one_machine(kernel, signs[:, j], C, start[:, j]) for j in range(n_classes)])


def _factor(kernel: Array, C: float) -> Any:
    kernel = kernel.copy()
    kernel.flat[:: len(kernel) + 1] += 1 / (2 * C)
    return cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)


def _one_machine(kernel: Array, signs: Array, C: float, beta: Array) -> Array:
    values = kernel @ beta

    def objective(beta: Array, values: Array) -> float:
        return float(0.5 * beta @ values + C * np.sum(np.maximum(0, 1 - signs * values) ** 2))

    best, inside = objective(beta, values), signs * values < 1
    for _ in range(MOST_STEPS):
        rows = np.flatnonzero(inside)
        solution = np.zeros_like(beta)
        if len(rows):
            solution[rows] = cho_solve(_factor(kernel[np.ix_(rows, rows)], C), signs[rows], check_finite=False)
        solved = kernel[:, rows] @ solution[rows]
        step, now, most = 1.0, objective(solution, solved), best + ROUNDING * abs(best)
        while now > most:
            step /= 2
            now = objective(beta + step * (solution - beta), values + step * (solved - values))
        beta, values = beta + step * (solution - beta), values + step * (solved - values)
        before, inside = inside, signs * values < 1
        if step == 1.0 and (np.array_equal(before, inside) or best - now <= ROUNDING * abs(now)):
            return beta
        best = now
    raise FloatingPointError(f"scenes: a support vector machine with C = {C:g} did not settle in {MOST_STEPS} steps")


class Scores(NamedTuple):
    """Accuracy on each split, and the C and the number of the Gram matrix that were chosen for it."""

    accuracy: Array
    C: Array
    kernel: Array


def score_splits(
    grams: Sequence[Array], labels: Array, splits: Sequence[Array], Cs: Sequence[float], n_folds: int, seed: int
) -> Scores:
    """Accuracy on the rows that a split leaves out, with C and the kernel chosen by folds of its training rows.

    Parameters
    ----------
    grams : sequence of ndarray of shape (n_rows, n_rows)
        One or more to choose from.
    labels : ndarray of shape (n_rows,) of int
    splits : sequence of ndarray of int
        Training rows.
    Cs : sequence of float
        To choose from; of equals the first.
    n_folds : int
        Stratified, the same for all kernels.
    seed : int
        Of the folds.
    """
    chosen = []
    for number, train in enumerate(splits):
        folds = _folds(labels[train], n_folds, np.random.default_rng([seed, number]))
        parts = [(train[folds != k], train[folds == k]) for k in range(n_folds)]
        rights = np.sum([[_count_right(gram, labels, *part, Cs) for gram in grams] for part in parts], axis=0)
        which, at = (int(i) for i in np.unravel_index(np.argmax(rights), rights.shape))
        test = np.setdiff1d(np.arange(len(labels)), train)
        right = _count_right(grams[which], labels, train, test, [Cs[at]])[0]
        chosen.append((right / len(test), Cs[at], which))
    return Scores(*(np.array(values) for values in zip(*chosen, strict=True)))


def _folds(labels: Array, n_folds: int, rng: np.random.Generator) -> Array:
    """Number of the fold of each row, each class spread evenly."""
    folds = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        folds[rows] = np.arange(len(rows)) % n_folds
    return folds


def _count_right(gram: Array, labels: Array, train: Array, test: Array, Cs: Sequence[float]) -> list[int]:
    inner, outer, beta, counts = gram[np.ix_(train, train)], gram[np.ix_(test, train)] + 1.0, None, {}
    for C in sorted(Cs):  # a larger C has the support of a smaller one, or little less
        beta = fit_margins(inner, labels[train], C, beta)
        counts[C] = int(np.sum(np.argmax(outer @ beta, axis=1) == labels[test]))
    return [counts[C] for C in Cs]


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
        folder, weights = self.find("scene15"), self.find("vgg16_conv_fp16.npz")
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
        """One per method."""
        plan = self._plan()
        shared = {name: value for name, value in asdict(plan).items() if name != "methods"} | {"shortest": SHORTEST}
        found = []
        for name, method in ((name, METHODS[name]) for name in plan.methods):
            embedding, fitted_to = method.make(), {} if method.each else {"looked_at": LOOKED_AT}
            described = [type(embedding).__name__, embedding.get_params()]
            settings = {"method": name, "embedding": described, "each": method.each, **fitted_to, **shared}
            found.append(Step(name, settings, partial(self._compute, method, plan)))
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
