"""Past the paper's protocol: symmetries, augmentation and views, for the experiments with mixtures and images.

The number of components of a mixture does not change when the plane is mirrored or its axes are swapped, and its clumps
show in distances to neighbours, wherever they are, and in how the likelihood of mixtures grows with their number of
components. Cats and dogs show in edges as well as in gray. Settings, weights of
views included, are chosen on training bags by the same search as those of all other methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline

from distembed.bags import Bags, as_bags, concat
from distembed.basis import groups
from distembed.compute.arrays import Array
from distembed.embeddings import HDDEmbedding, MixtureCurveEmbedding, Views
from distembed.learners import DistributionRegressor
from distembed.scaling import Differences, LocalScale, Select, UnitCube

from .claims import Difference, over_repetitions
from .comparisons import fit_and_predict, rmse
from .study import Results, Step

PLAIN = "JS"
SYMMETRIES = "JS, symmetries"
VIEWS = "JS, symmetries and views"
AUGMENTED = "JS, augmented"
CURVE = "mixture curve"
CURVE_AND_VIEWS = "Hellinger, symmetries, views and mixture curve"
NEIGHBOURS = (4, 40)
AIMS = {SYMMETRIES: 1.42, VIEWS: 1.39, CURVE_AND_VIEWS: 1.28}  # RMSE at 200 points and 4,000 training bags
WITH_MOST = (PLAIN, SYMMETRIES, VIEWS, CURVE_AND_VIEWS)  # what the largest size is run with, too
COLUMNS = (
    "method", "training bags", "RMSE, mean of seeds", "95 % low", "95 % high", "JS, same seeds", "less JS",
    "95 % low", "95 % high", "word", "seeds", "seconds of a core",
)  # fmt: skip
Errors = dict[int, float]  # by seed


class Pair(NamedTuple):
    """Two methods that are compared, and on what."""

    first: str
    second: str
    n_points: int
    n_train: int


def apart(first: Errors, second: Errors) -> Difference:
    """Errors of two methods on the same seeds, the first's less the second's."""
    return over_repetitions([first[seed] - second[seed] for seed in first])


# Mixtures


def augmented(bags: Bags, box: tuple[float, float]) -> tuple[Bags, int]:
    """Bags and their images under the eight flips and swaps of a square box, image after image; and how many images.

    Examples
    --------
    >>> images, n = augmented(as_bags(np.array([[[1.0, 2.0]]])), (-10, 10))
    >>> n, sorted(images.points.round(9).tolist())[-2:]
    (8, [[2.0, -1.0], [2.0, 1.0]])
    """
    low, high = box
    unit = (np.clip(bags.points, low, high) - low) / (high - low)
    elements = [*groups.get("dihedral").elements(2)]
    images = [bags.replace(points=low + (high - low) * element.move(unit), ids=None) for element in elements]
    return concat(images), len(elements)


def mixture_model(name: str, box: tuple[float, float], n_components: int, seed: int) -> DistributionRegressor:
    """The learner of a row of the table."""
    embedding: Any = "js"
    given: dict[str, Any] = {"scale": UnitCube(box)}
    curve = MixtureCurveEmbedding(random_state=seed, n_jobs=1)
    if name == CURVE:
        embedding = curve
        given = {}
    if name == SYMMETRIES:
        given["symmetries"] = "dihedral"
    if name in (VIEWS, CURVE_AND_VIEWS):
        distance = "js" if name == VIEWS else "hellinger"
        position = make_pipeline(UnitCube(box), HDDEmbedding(distance, symmetries="dihedral", n_jobs=1))
        clumps = make_pipeline(LocalScale(NEIGHBOURS, n_jobs=1), UnitCube(), HDDEmbedding(distance, n_jobs=1))
        views = {"position": position, "neighbours": clumps}
        embedding = Views(views if name == VIEWS else {**views, "curve": curve})
        given = {}
    return DistributionRegressor(embedding, n_components=n_components, random_state=seed, n_jobs=1, **given)


def mixture_steps(study: Any, box: tuple[float, float]) -> list[Step]:
    """All fresh seeds at the first size, augmentation with some, and some at the largest size."""
    first = study.sizes[0]
    most = study.sizes[-1]
    rows = [(name, first, seed) for seed in study.fresh for name in (PLAIN, SYMMETRIES, VIEWS, CURVE, CURVE_AND_VIEWS)]
    rows += [(AUGMENTED, first, seed) for seed in study.fresh[: study.n_augmented]]
    rows += [(name, most, seed) for seed in study.fresh[: study.n_augmented] for name in WITH_MOST]
    return [_mixture_step(study, box, *row) for row in dict.fromkeys(rows)]


def _step_name(name: str, n_train: int, seed: int) -> str:
    return f"{name} fresh bags={n_train} seed={seed}"


def _mixture_step(study: Any, box: tuple[float, float], name: str, n_train: int, seed: int) -> Step:
    n_points = study.points[0]

    def compute() -> dict[str, Any]:
        bags, y, new, truth = study.draw(n_points, n_train, seed)
        model = mixture_model(name, box, study.n_components, seed)
        if name != AUGMENTED:
            return {**fit_and_predict(model, bags, y, new), "truth": truth}
        images, n = augmented(bags, box)
        owners = np.tile(np.arange(len(y)), n)  # images of a bag are held out together
        return {**fit_and_predict(model, images, np.tile(y, n), new, groups=owners), "truth": truth}

    settings = {
        "past": name, "n_points": n_points, "n_train": n_train, "n_test": study.n_test, "seed": seed,
        "n_components": study.n_components,
    }  # fmt: skip
    return Step(_step_name(name, n_train, seed), settings, compute)


def mixture_pairs(study: Any, results: Results) -> dict[Pair, tuple[Errors, Errors]]:
    """What is compared: all with plain JS, and with as many bags as there are the same with the fewest."""
    found = {}
    first = study.sizes[0]
    most = study.sizes[-1]
    n_points = study.points[0]
    for n_train in dict.fromkeys((first, most)):
        plain = _errors(study, results, PLAIN, n_train)[0]
        for name in (AUGMENTED, SYMMETRIES, VIEWS, CURVE, CURVE_AND_VIEWS):
            found[Pair(name, PLAIN, n_points, n_train)] = _errors(study, results, name, n_train)[0], plain
    for name in WITH_MOST:
        many, few = (_errors(study, results, name, n_train)[0] for n_train in (most, first))
        found[Pair(name, f"{name} with {first:,}", n_points, most)] = many, few
    return found


def mixture_rows(
    study: Any, results: Results, differences: Mapping[Pair, Difference], words: Mapping[Pair, str]
) -> list[tuple[Any, ...]]:
    """Rows of the table: means over fresh seeds, and paired differences to plain JS."""
    rows: list[tuple[Any, ...]] = []
    for n_train in dict.fromkeys((study.sizes[0], study.sizes[-1])):
        for name in (PLAIN, AUGMENTED, SYMMETRIES, VIEWS, CURVE, CURVE_AND_VIEWS):
            errors, seconds = _errors(study, results, name, n_train)
            if not errors:
                continue
            pair = Pair(name, PLAIN, study.points[0], n_train)
            mean = over_repetitions([*errors.values()])
            beside: list[Any] = [None, None, None, None, None]
            if pair in differences:
                difference = differences[pair]
                alike = f"{mean.mean - difference.mean:.3f}"
                beside = [alike, *(f"{each:+.3f}" for each in (difference.mean, *difference.interval())), words[pair]]
            means = [f"{value:.3f}" for value in (mean.mean, *mean.interval())]
            rows.append((name, n_train, *means, *beside, len(errors), f"{np.mean(seconds):.0f}"))
    return rows


def _errors(study: Any, results: Results, name: str, n_train: int) -> tuple[Errors, list[float]]:
    """RMSE by seed, and the seconds of each."""
    names = {seed: _step_name(name, n_train, seed) for seed in study.fresh}
    there = {seed: results[step] for seed, step in names.items() if step in results}
    errors = {seed: rmse(one["predicted"], one["truth"])[0] for seed, one in there.items()}
    return errors, [float(one["cpu_seconds"]) for one in there.values()]


def mixture_lines(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """A sentence for each row."""
    lines = []
    for name, n_train, mean, low, high, *_, n_seeds, _ in rows:
        aim = ""
        if name in AIMS and n_train == rows[0][1]:
            aim = f"; the aim of {AIMS[name]} is {'reached' if float(mean) <= AIMS[name] else 'missed'}"
        lines.append(
            f"{name}, {n_train:,} training bags: RMSE {mean}, mean of {n_seeds} fresh seeds (95 % interval of the mean "
            f"{low} to {high}){aim}."
        )
    return lines


# Images


def edge_bags(images: Array) -> Bags:
    """Images as bags of (x, y, gray, its gradient along x and y, size of the gradient), each with its mirror image.

    Parameters
    ----------
    images : ndarray of shape (n, h, w, 3)
        Colours 0 to 255. x, y and gray are from 0 to 1; the gradient is in steps of a pixel.

    Examples
    --------
    >>> ramp = np.repeat(np.arange(0, 250, 50, np.uint8)[None, None, :, None], 4, axis=1).repeat(3, axis=3)
    >>> edge_bags(ramp)[0][:2].astype(float).round(3).tolist()
    [[0.1, 0.125, 0.0, 0.196, 0.0, 0.196], [0.3, 0.125, 0.196, 0.196, 0.0, 0.196]]
    """
    n, h, w = images.shape[:3]
    gray = np.minimum(images @ np.array([0.299, 0.587, 0.114], np.float32) / np.float32(255), 1)
    x, y = np.meshgrid((np.arange(w) + 0.5) / w, (np.arange(h) + 0.5) / h)
    points = np.empty((n, h * w, 3), np.float32)
    points[..., 0], points[..., 1], points[..., 2] = x.ravel(), y.ravel(), gray.reshape(n, -1)
    edges = Differences(along=(0, 1), of=(2,), kind="each").fit_transform(as_bags(points)).points.reshape(n, h * w, 5)
    edges = np.concatenate([edges, np.hypot(edges[..., 3:4], edges[..., 4:5])], axis=2)
    mirrored = edges * np.array([-1, 1, 1, -1, 1, 1], np.float32) + np.array([1, 0, 0, 0, 0, 0], np.float32)
    return as_bags(np.concatenate([edges, mirrored], axis=1))


def image_views(distance: str, n_jobs: int | None = 1) -> Views:
    """The four bags of a picture: places and gray, places and size of edges, edges and gray, heights and edges."""
    columns = {"gray": (0, 1, 2), "edges": (0, 1, 5), "edges and gray": (3, 4, 2), "heights of edges": (1, 3, 4)}
    made = {name: make_pipeline(Select(some), HDDEmbedding(distance, n_jobs=n_jobs)) for name, some in columns.items()}
    return Views(made)  # each gets UnitCube(map="auto"): most gradients are small
