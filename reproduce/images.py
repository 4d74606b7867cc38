"""Cats against dogs by their gray pixels: the paper's image experiment on CIFAR-10.

Each image is a bag of 2,048 points (x, y, gray): its pixels and those of its mirror image. Training sets of 2,500,
5,000 and 10,000 images, the standard test set of 2,000, a linear support vector machine on 7,000 random features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from distembed import divergences, embeddings
from distembed.bags import Bags, as_bags
from distembed.compute.arrays import Array
from distembed.kernels import PSDRepair, RBFKernel
from distembed.learners import DistributionClassifier

from . import past_the_paper as past
from .claims import CONFIRMED, Difference, judge, over_bags, rule
from .comparisons import METHODS, RANDOM, WIDTHS, Method, draw_curves, fit_and_predict
from .study import Report, Results, Step, Study, Table

SEED = 0
FRESH = " fresh split"  # of all 12,000 images, on which nothing was chosen: the end of the names of its steps
FRESH_SEED = 1
OURS = ("JS", "Hellinger", "TV")
ENERGY_IMAGES = 300
ENERGY_WIDTH = 2.0
VIEWS = "Hellinger, views"
VIEWS_EXACT = "Hellinger, views, exact kernel"
KL = "KL"
MARGIN = 0.01
_WHY = "one point of error, the standard error on 2,000 test images"
WIDER = (1.0, 1.41, 2.0, 2.83, 4.0)  # of the usual widths, some methods take the widest


def gray_bags(images: Array) -> Bags:
    """Images as bags of (x, y, gray) in the unit cube, each with its horizontal reflection.

    Parameters
    ----------
    images : ndarray of shape (n, h, w, 3)
        Colours 0 to 255; gray is 0.299 red + 0.587 green + 0.114 blue.

    Examples
    --------
    >>> bags = gray_bags(np.full((1, 2, 2, 3), 255, np.uint8))
    >>> bags[0].round(2).tolist()[:2], bags.sizes.tolist()
    ([[0.25, 0.25, 1.0], [0.75, 0.25, 1.0]], [8])
    """
    n, h, w = images.shape[:3]
    gray = np.minimum(images @ np.array([0.299, 0.587, 0.114], np.float32) / np.float32(255), 1)
    x, y = np.meshgrid((np.arange(w) + 0.5) / w, (np.arange(h) + 0.5) / h)
    points = np.empty((n, 2, h * w, 3), np.float32)
    points[:, 0, :, 0], points[:, 1, :, 0] = x.ravel(), 1 - x.ravel()
    points[..., 1], points[..., 2] = y.ravel(), gray.reshape(n, 1, -1)
    return as_bags(points.reshape(n, -1, 3))


def _side(model: DistributionClassifier, bags: Bags) -> Array:
    """The classes of bags by the side of the machine's plane that they lie on, without calibration, as in the paper."""
    found: Array = model.classes_[(model.decision_function(bags) > 0).astype(int)]
    return found


@lru_cache(maxsize=1)
def _load(path: Path, fresh: bool) -> tuple[Array, Array, Array, Array]:
    """Training images in random order, so that smaller sets are beginnings of the largest, and test images.

    A fresh split draws as many test images from all of them.
    """
    with np.load(path) as kept:
        x, y, new, new_y = (kept[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    if fresh:
        x = np.concatenate([x, new])
        y = np.concatenate([y, new_y])
        order = np.random.default_rng(FRESH_SEED).permutation(len(x))
        train = order[: -len(new)]
        test = order[-len(new) :]
        return x[train], y[train], x[test], y[test]
    order = np.random.default_rng(SEED).permutation(len(x))
    return x[order], y[order], new, new_y


def _knn_kl(bags: Bags, others: Bags) -> Array:
    """KL divergences by nearest neighbours, in compiled code for such bags where numba is installed."""
    if find_spec("numba") is None:
        return divergences.knn(bags, others, "kl", n_jobs=1)
    from .picture_neighbours import kl

    side = int(np.sqrt(bags.sizes[0] // 2))
    return kl(*(each.points[:, 2].reshape(-1, 2, side, side)[:, 0].astype(np.float64) for each in (bags, others)))


class Experiment(Study):
    """Image classification."""

    name = "images"
    version = 4  # C by the loss on held-out images; wider widths, chosen on all images
    summary = "cats against dogs: gray pixels of CIFAR-10 as bags of 2,048 points in three dimensions"
    needs_data = True

    sizes: tuple[int, ...] = (10_000, 5_000, 2_500)
    n_test = 2_000
    n_components = 7_000
    n_searched_linear = 4_000
    # to tell its time
    kl_size = 200
    kl_test = 200
    # as in the paper; images of a step
    kl_train = 2_500
    kl_block = 125

    smaller: ClassVar[dict[str, Any]] = {
        "sizes": (400, 200), "n_test": 400, "n_components": 1000, "kl_size": 20, "kl_test": 20, "kl_train": 0,
    }  # fmt: skip

    def _methods(self) -> tuple[Method, ...]:
        names = ("Hellinger", "L2", "histogram JS")
        return tuple(method for method in RANDOM if method.name in names) if self.quick else METHODS

    @staticmethod
    def _name(method: str, n_train: int, fresh: bool = False) -> str:
        return f"{method} n={n_train}" + FRESH * fresh

    def steps(self) -> list[Step]:
        """RBF kernels first, the largest training set first."""
        found = [
            self._step(method, n_train)
            for linear in (False, True)
            for n_train in self.sizes
            for method in self._methods()
            if method.linear == linear
        ]
        if not self.quick:
            settings = {"energy": True, "n": min(ENERGY_IMAGES, self.sizes[-1]), "width": ENERGY_WIDTH, "seed": SEED}
            found.append(Step("energy", settings, self._energy))
        found += [self._views_step(n_train, exact=exact) for n_train in self.sizes for exact in (False, True)]
        found += [self._step(method, self.sizes[0], fresh=True) for method in self._methods() if not method.linear]
        found += [self._views_step(self.sizes[0], fresh=True, exact=exact) for exact in (False, True)]
        settings = {"kl": True, "n_train": self.kl_size, "n_test": self.kl_test, "seed": SEED}
        found.append(Step("KL", settings, self._kl))
        return [*found, *self._kl_blocks(), self._kl_step()] if self.kl_train else found

    def _step(self, method: Method, n_train: int, fresh: bool = False) -> Step:
        widths = WIDER if method.widths == WIDTHS else method.widths
        n_searched = self.n_searched_linear if method.linear else n_train
        n_components = None if method.linear else self.n_components

        def compute() -> dict[str, Any]:
            bags, y, new, new_y = self._data(n_train, fresh=fresh)
            model = DistributionClassifier(
                method.embedding, model="svm", scale=None, n_components=n_components, bandwidth_scales=widths,
                max_search_bags=n_searched, random_state=SEED, n_jobs=1,
            )  # fmt: skip
            found = fit_and_predict(model, bags, y, new, decide=lambda images: _side(model, images))
            return {**found, "wrong": found["predicted"] != new_y}

        settings = {
            "embedding": method.embedding, "linear": method.linear, "n_train": n_train, "seed": SEED,
            "n_test": self.n_test, "n_components": n_components, "n_searched": n_searched, "widths": widths,
        }  # fmt: skip
        return Step(self._name(method.name, n_train, fresh), settings | _split(fresh), compute)

    def _views_step(self, n_train: int, fresh: bool = False, exact: bool = False) -> Step:
        """Four bags of each picture; settings and weights are chosen on training images."""
        n_searched = min(n_train, self.n_searched_linear)
        n_components: int | str = "exact" if exact else self.n_components

        def compute() -> dict[str, Any]:
            bags, y, new, new_y = self._data(n_train, past.edge_bags, fresh)
            model = DistributionClassifier(
                past.image_views("hellinger"), model="svm", n_components=n_components, bandwidth_scales=WIDER,
                max_search_bags=n_searched, random_state=SEED, n_jobs=1,
            )  # fmt: skip
            found = fit_and_predict(model, bags, y, new, decide=lambda images: _side(model, images))
            return {**found, "wrong": found["predicted"] != new_y, "weights": model.embedding_.weights_}

        settings = {
            "views": "gradients along x and y", "n_train": n_train, "seed": SEED, "n_test": self.n_test,
            "n_components": n_components, "n_searched": n_searched, "widths": WIDER,
        }  # fmt: skip
        return Step(self._name(VIEWS_EXACT if exact else VIEWS, n_train, fresh), settings | _split(fresh), compute)

    def _data(
        self, n_train: int, bags_of: Callable[[Array], Bags] = gray_bags, fresh: bool = False
    ) -> tuple[Bags, Array, Bags, Array]:
        x, y, new, new_y = _load(self.find("cifar_cats_dogs.npz"), fresh)
        some = np.linspace(0, len(new) - 1, min(self.n_test, len(new))).round().astype(int)
        return bags_of(x[:n_train]), y[:n_train], bags_of(new[some]), new_y[some]

    def _energy(self) -> dict[str, Any]:
        """How much of the functions that they project the basis functions of our embeddings capture."""
        bags, *_ = self._data(min(ENERGY_IMAGES, self.sizes[-1]))
        start = process_time()
        found = {}
        for method in RANDOM:
            if method.name in OURS:
                embedding = embeddings.get(method.embedding).set_params(bandwidth_scale=ENERGY_WIDTH, n_jobs=1)
                found[method.name] = float(embedding.fit(bags).energy_)
        return {**found, "cpu_seconds": process_time() - start}

    def _energy_sentence(self, results: Results) -> list[str]:
        if "energy" not in results:
            return []
        shares = ", ".join(f"{name} {100 * float(results['energy'][name]):.1f} %" for name in OURS)
        sentence = (
            f"Of the functions that they project, the default basis captures, at {ENERGY_WIDTH:g} times the rule's "
            f"bandwidth: {shares}. What TV loses may be why its error is larger."
        )
        return [sentence]

    def _kl(self) -> dict[str, Any]:
        """Time of the k-nearest-neighbour KL between all pairs, to tell what the whole matrix would take."""
        bags, _, new, _ = self._data(self.kl_size)
        start = process_time()
        divergences.knn(bags, divergence="kl", n_jobs=1)
        middle = process_time()
        divergences.knn(new[: self.kl_test], bags, divergence="kl", n_jobs=1)
        return {"cpu_seconds_training": middle - start, "cpu_seconds": process_time() - start}

    def _kl_blocks(self) -> list[Step]:
        """The matrix of KL divergences of the paper's size, some rows of it in each step: it takes hours."""
        shared = {"kl": "rows", "n_train": self.kl_train, "n_test": self.n_test, "seed": SEED}
        found = []
        for part, n in (("training", self.kl_train), ("test", self.n_test)):
            for start in range(0, n, self.kl_block):
                rows = (start, min(start + self.kl_block, n))
                compute = partial(self._kl_rows, part == "test", slice(*rows))
                found.append(Step(f"KL of {part} images from {start}", shared | {"part": part, "rows": rows}, compute))
        return found

    def _kl_rows(self, new_ones: bool, rows: slice) -> dict[str, Any]:
        """Divergences of some images to all training images; of test images the mean of both directions."""
        bags, _, new, _ = self._data(self.kl_train)
        some = (new if new_ones else bags)[rows]
        there = _knn_kl(some, bags)
        return {"kl": (there + _knn_kl(bags, some).T) / 2 if new_ones else there}

    def _kl_step(self) -> Step:
        """A support vector machine on the repaired kernel of KL divergences, with sigma and C by the usual grids."""

        def compute() -> dict[str, Any]:
            blocks = [(step, self.cache.get(self.name, step)) for step in self._kl_blocks()]
            missing = [step.name for step, found in blocks if found is None]
            if missing:
                raise RuntimeError(f"{len(missing)} steps must come before it, the first is {missing[0]!r}; run them")
            parts: dict[str, list[Any]] = {"training": [], "test": []}
            for step, found in blocks:
                parts[str(step.settings["part"])].append(found)
            D, D_new = (np.concatenate([found["kl"] for found in parts[name]]) for name in ("training", "test"))
            np.fill_diagonal(D, 0.0)  # a bag among others does not know that it meets itself
            _, y, _, new_y = self._data(self.kl_train)
            start = process_time()
            usual = DistributionClassifier("js", model="svm")
            machine = make_pipeline(RBFKernel(), PSDRepair(), SVC(kernel="precomputed"))
            grid = {"rbfkernel__sigma_scale": usual.sigma_scales, "svc__C": usual.Cs}
            model = GridSearchCV(machine, grid, cv=3).fit((D + D.T) / 2, y)
            seconds = process_time() - start + sum(float(found["cpu_seconds"]) for _, found in blocks if found)
            chosen = {
                "chosen_sigma_scale": model.best_params_["rbfkernel__sigma_scale"],
                "chosen_C": model.best_params_["svc__C"],
            }
            return {"wrong": model.predict(D_new) != new_y, "cpu_seconds": seconds, **chosen}

        settings = {"kl": "machine", "n_train": self.kl_train, "n_test": self.n_test, "seed": SEED}
        return Step(self._name(KL, self.kl_train), settings, compute)

    def report(self, results: Results) -> Report:
        """Errors and times; which of the paper's claims hold."""
        names = [*(method.name for method in METHODS), VIEWS, VIEWS_EXACT]
        sizes = dict.fromkeys(names, self.sizes) | {KL: (self.kl_train,)}
        cells = [(name, n, fresh) for fresh in (False, True) for name, some in sizes.items() for n in some]
        there = {cell: results[self._name(*cell)] for cell in cells if self._name(*cell) in results}
        report = Report("Cats against dogs", self.introduction(study=self))
        claims, claimed = self._claims(there)
        beside = {
            (name, n, fresh): _apart(found, there["JS", n, fresh])
            for (name, n, fresh), found in there.items()
            if name != "JS" and ("JS", n, fresh) in there
        }
        words = judge(beside, MARGIN)
        if claimed:
            more = f" Words in the table of errors are corrected over its own {len(beside)} comparisons with JS."
            report.introduction += "\n" + rule(claimed, _WHY, "of the findings") + more * bool(beside)
        rows = [_row(cell, found, beside.get(cell), words.get(cell)) for cell, found in there.items()]
        report.tables.append(Table("errors", "Test errors", _COLUMNS, rows))
        report.findings += claims + self._energy_sentence(results) + self._kl_sentence(results)
        curves: dict[str, list[tuple[float, float, float]]] = {}
        for method, n, fresh in sorted(there, key=lambda cell: cell[1]):
            if not fresh:
                found = there[method, n, fresh]
                curves.setdefault(method, []).append((found["cpu_seconds"], *_error(found["wrong"])))
        if curves:
            title = f"CIFAR-10 cats against dogs, {self.n_test:,} test images"
            # Logarithmic, unlike the paper's: KL takes ten times as long as the others.
            report.figures["errors"] = draw_curves({title: curves}, "test error, %", log_time=True)
        return report

    def _claims(self, there: Any) -> tuple[list[str], int]:
        """The paper's claims at the largest training set, on the usual and on a fresh split; and how many they are."""
        n = self.sizes[0]
        found = {
            (first, second, fresh): _apart(there[first, n, fresh], there[second, n, fresh])
            for fresh in (False, True)
            for first, second, _ in _CLAIMS
            if (first, n, fresh) in there and (second, n, fresh) in there
        }
        if (KL, self.kl_train, False) in there and ("JS", self.kl_train, False) in there:
            found[KL, "JS", False] = _apart(there[KL, self.kl_train, False], there["JS", self.kl_train, False])
        words = judge(found, MARGIN)
        claims = {(first, second): claim for first, second, claim in _CLAIMS}
        lines = []
        for method, aim in (("JS", 31), (VIEWS, 26), (VIEWS_EXACT, 26)):
            for fresh in (False, True):
                if (method, n, fresh) in there:
                    error, deviation = _error(there[method, n, fresh]["wrong"])
                    lines.append(
                        f"{method} has a test error of {error:.2f} ± {deviation:.2f} % at {n:,} training images"
                        f"{', on a fresh split' * fresh}, {'at most' if error <= aim else 'above'} {aim} %."
                    )
        for (first, second, fresh), difference in found.items():
            word = words[first, second, fresh]
            claim = claims.get((first, second), "")
            judged = ""
            if claim in _SAID:
                confirmed = CONFIRMED[claim][word]
                judged = f" (the paper: {_SAID[claim]}{f', {confirmed}' * (confirmed != word)})"
            n_train = self.kl_train if first == KL else n
            lines.append(
                f"{first} against {second}{', fresh split' * fresh}: {word}{judged}; {difference.told(2, 100)} points "
                f"of error, {n_train:,} training images."
            )
        return lines, len(found)

    def _kl_sentence(self, results: Results) -> list[str]:
        if "KL" not in results or self._name(KL, self.kl_train) in results:
            return []
        pair = float(results["KL"]["cpu_seconds_training"]) / self.kl_size**2
        times = ", ".join(
            f"{_duration(pair * n * (n + 2 * self.n_test))} for {n:,} training images" for n in sorted(self.sizes)
        )
        sentence = (
            f"The KL kernel by nearest neighbours was not run: measured on {self.kl_size} images, a pair takes "
            f"{1000 * pair:.1f} ms of a core, which makes {times} and the test images (extrapolated)."
        )
        return [sentence]


_COLUMNS = (
    "method", "split", "training images", "error %", "standard error", "above JS", "95 % low", "95 % high", "word",
    "seconds of a core", "width x", "sigma x", "C",
)  # fmt: skip
_SAID = {"better": "below", "equal": "about equal"}
_CLAIMS = (
    ("TV", "histogram JS", "better"),
    ("JS", "histogram JS", "equal"),
    ("Hellinger", "histogram JS", "equal"),
    *((first, second, "better") for second in ("L2", "MMD") for first in OURS),
    (VIEWS, "Hellinger", "ours"),
    (VIEWS_EXACT, VIEWS, "ours"),
)


def _split(fresh: bool) -> dict[str, Any]:
    """What a fresh split adds to settings."""
    return {"split": FRESH_SEED} if fresh else {}


def _apart(found: Any, other: Any) -> Difference:
    return over_bags(found["wrong"].astype(float), other["wrong"].astype(float))


def _row(cell: tuple[str, int, bool], found: Any, beside: Difference | None, word: str | None) -> tuple[Any, ...]:
    method, n_train, fresh = cell
    apart: list[str | None] = [None, None, None]
    if beside is not None:
        apart = [f"{100 * value:+.2f}" for value in (beside.mean, *beside.interval())]
    errors = [f"{value:.2f}" for value in _error(found["wrong"])]
    chosen = [found.get(f"chosen_{name}") for name in ("bandwidth_scale", "sigma_scale", "C")]
    split = "fresh" if fresh else "usual"
    return (method, split, n_train, *errors, *apart, word, f"{found['cpu_seconds']:.0f}", *chosen)


def _error(wrong: Array) -> tuple[float, float]:
    share = float(np.mean(wrong))
    return 100 * share, 100 * float(np.sqrt(share * (1 - share) / len(wrong)))


def _duration(seconds: float) -> str:
    """Seconds as hours or days.

    Examples
    --------
    >>> _duration(7200), _duration(200_000)
    ('2.0 hours', '2.3 days')
    """
    return f"{seconds / 3600:.1f} hours" if seconds < 86_400 else f"{seconds / 86_400:.1f} days"
