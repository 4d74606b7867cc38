"""How many Gaussians a mixture has, from a bag of its points: the paper's regression experiment.

The number of components is uniform on 1, ..., 10. Bags of 200 and of 800 points; 4,000, 8,000 and 16,000 training bags,
2,000 test bags; ridge regression on 5,000 random features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import KernelCenterer

from distembed import datasets, divergences
from distembed.bags import Bags, concat
from distembed.compute.arrays import Array
from distembed.embeddings import HDDEmbedding
from distembed.kernels import DivergenceMatrix, PSDRepair, RBFKernel
from distembed.learners import DistributionRegressor, MixtureComponents
from distembed.scaling import UnitCube

from . import past_the_paper as past
from .claims import Difference, judge, over_repetitions, rule
from .comparisons import LITERAL, METHODS, RANDOM, WIDTHS, Method, draw_curves, fit_and_predict, literal_recipe, rmse
from .study import Report, Results, Step, Study, Table, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CONSTANT = 5.5
LIMITS = (9, 10, 11, 12)  # most components among which AIC and BIC choose
MARGIN = 0.025
_WHY = "0.025 of RMSE, the standard error on one set of 2,000 test bags, which shows no smaller difference"
OURS = ("JS", "Hellinger", "TV")
OTHERS = ("L2", "MMD", "histogram JS", "histogram chi2", LITERAL.name)
KL = "KL"
KL_INTERCEPT = "KL, intercept"
# What the paper says of its choices: larger M and |V| were not better, a tenth was held out. Parameters of the
# embedding, and of the learner.
CHOICES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "JS, M = 10": ({"n_lambdas": 10}, {}),
    "JS, |V| = 400": ({"n_basis": 20}, {}),
    "JS, a tenth for validation": ({}, {"tune": "holdout"}),
}
BOX = (-10.0, 10.0)
TRUNCATED = (-5.0, 5.0)
PAPER = {("AIC", 200): 2.7, ("AIC", 800): 2.3, ("BIC", 200): 3.8, ("BIC", 800): 2.7, ("constant", 200): 2.8}


@lru_cache(maxsize=6)
def _draw(n_bags: int, n_points: int, seed: int, part: int, truncated: bool) -> tuple[Bags, Array]:
    box = TRUNCATED if truncated else None
    return datasets.make_mixture_components(n_bags, n_points, truncation=box, random_state=100 * seed + part)


class Experiment(Study):
    """Regression of the number of components."""

    name = "mixture"
    version = 3  # the search is a race
    summary = "the number of components of Gaussian mixtures, from bags of 200 and 800 points"

    points: tuple[int, ...] = (200, 800)
    sizes: tuple[int, ...] = (4_000, 8_000, 16_000)
    n_test = 2_000
    n_components = 5_000
    n_seeds = 5
    kl_size = 1_000
    n_kl_seeds = 5
    kl_full: tuple[tuple[int, int], ...] = ((200, 4_000), (200, 8_000), (800, 4_000))  # the paper's, points and bags
    kl_block = 500
    kl_alphas: Sequence[float] = DistributionRegressor("js").alphas  # the grid of all methods
    fresh: tuple[int, ...] = tuple(range(20, 30))  # seeds on which nothing was chosen
    n_augmented = 3  # of these, for what takes long

    smaller: ClassVar[dict[str, Any]] = {
        "points": (200,), "sizes": (300, 600), "n_test": 300, "n_components": 1000, "n_seeds": 2, "kl_size": 60,
        "kl_full": (), "n_kl_seeds": 2, "fresh": (20, 21), "n_augmented": 1,
    }  # fmt: skip

    # Steps

    def _methods(self) -> tuple[Method, ...]:
        names = ("JS", "L2", "histogram JS")
        return tuple(method for method in RANDOM if method.name in names) if self.quick else METHODS

    @staticmethod
    def _name(method: str, n_points: int, n_train: int, seed: int = 0, truncated: bool = False) -> str:
        return f"{method} points={n_points} bags={n_train} seed={seed}" + (" truncated" if truncated else "")

    def steps(self) -> list[Step]:
        """RBF kernels with all seeds at the first size, then the other sizes, then what is linear, and the rest."""
        cells = [(n_points, n_train) for n_points in self.points for n_train in self.sizes]
        random, linear = ([method for method in self._methods() if method.linear == kind] for kind in (False, True))
        seeds = range(self.n_seeds)
        return [
            *(self._step(method, *cells[0], seed) for seed in seeds for method in random),
            *(self._criteria_step(n_points, n_init) for n_points in self.points for n_init in _STARTS),
            *(self._limits_step(n_points) for n_points in self.points),
            *(self._step(method, *cell) for cell in cells[1:] for method in random),
            *(self._step(method, *cell) for cell in cells for method in linear),
            *(self._step(method, *cells[0], truncated=True) for method in random),
            *(self._step(LITERAL, *cells[0], seed) for seed in seeds if not self.quick),
            *(
                step(n_points, seed)
                for n_points in self.points
                for seed in range(self.n_kl_seeds)
                for step in (self._kl_step, self._beside_kl_step)
            ),
            *(self._choice_step(name) for name in CHOICES),
            *(
                self._step(method, n_points, self.sizes[0], seed)
                for n_points in self.points[1:]
                for seed in seeds[1:]
                for method in random
            ),
            *past.mixture_steps(self, BOX),
            *(step for cell in self.kl_full for step in (*self._kl_blocks(*cell), self._kl_full_step(*cell))),
        ]

    def _step(self, method: Method, n_points: int, n_train: int, seed: int = 0, truncated: bool = False) -> Step:
        n_components = None if method.linear else self.n_components

        def compute() -> dict[str, Any]:
            bags, y, new, new_y = self.draw(n_points, n_train, seed, truncated)
            model = DistributionRegressor(
                literal_recipe(seed) if method is LITERAL else method.embedding, n_components=n_components,
                scale=None if method.embedding == "mmd" else UnitCube(TRUNCATED if truncated else BOX),
                bandwidth_scales=method.widths, random_state=seed, n_jobs=1,
            )  # fmt: skip
            return {**fit_and_predict(model, bags, y, new), "truth": new_y}

        settings = {
            "embedding": method.embedding, "linear": method.linear, "n_points": n_points, "n_train": n_train,
            "n_test": self.n_test, "n_components": n_components, "seed": seed, "truncated": truncated,
            "widths": method.widths,
        }  # fmt: skip
        return Step(self._name(method.name, n_points, n_train, seed, truncated), settings, compute)

    def _choice_step(self, name: str) -> Step:
        """JS with another choice than usual, on the first seed of the first size."""
        n_points, n_train = self.points[0], self.sizes[0]
        embedding, learner = CHOICES[name]

        def compute() -> dict[str, Any]:
            bags, y, new, new_y = self.draw(n_points, n_train, 0)
            model = DistributionRegressor(
                HDDEmbedding("js", **embedding), n_components=self.n_components, scale=UnitCube(BOX), random_state=0,
                bandwidth_scales=WIDTHS, n_jobs=1, **learner,
            )  # fmt: skip
            return {**fit_and_predict(model, bags, y, new), "truth": new_y}

        settings = {
            "choice": name, "n_points": n_points, "n_train": n_train, "n_test": self.n_test,
            "n_components": self.n_components, "seed": 0,
        }  # fmt: skip
        return Step(self._name(name, n_points, n_train), settings, compute)

    def draw(self, n_points: int, n_train: int, seed: int, truncated: bool = False) -> tuple[Bags, Array, Bags, Array]:
        """Training bags in blocks of the first size, so that smaller sets are beginnings of larger ones; test bags."""
        block = self.sizes[0]
        parts = [_draw(block, n_points, seed, 1 + i, truncated) for i in range(-(-n_train // block))]
        new, new_y = _draw(self.n_test, n_points, seed, 0, truncated)
        bags = concat([bags for bags, _ in parts])
        y = np.concatenate([y for _, y in parts])
        return bags[:n_train], y[:n_train], new, new_y

    def _criteria_step(self, n_points: int, n_init: int) -> Step:
        settings = {"criteria": True, "n_points": n_points, "n_test": self.n_test, "n_init": n_init, "seed": 0}
        return Step(
            f"AIC and BIC points={n_points} starts={n_init}", settings, lambda: self._choose(settings, {"": 10})
        )

    def _limits_step(self, n_points: int) -> Step:
        """What AIC and BIC choose if they may choose from fewer or more components than there can be."""
        settings = {"limits": LIMITS, "n_points": n_points, "n_test": self.n_test // 4, "seed": 0}
        limits = {f"_{most}": most for most in LIMITS}
        return Step(f"AIC and BIC points={n_points} limits", settings, lambda: self._choose(settings, limits))

    def _choose(self, settings: Mapping[str, Any], limits: Mapping[str, int]) -> dict[str, Any]:
        """Numbers of components of test bags by AIC and BIC; limits of them by the ends of their names."""
        _, _, new, truth = self.draw(settings["n_points"], self.sizes[0], 0)
        n_test = settings["n_test"]
        n_init = settings.get("n_init", 1)
        start = process_time()
        new = new[:n_test]
        model = MixtureComponents(max_components=max(limits.values()), n_init=n_init, random_state=0, n_jobs=1)
        found = model.fit(new).criteria(new)
        chosen = {
            f"{criterion}{name}": 1 + np.argmin(getattr(found, criterion)[:, :most], axis=1)
            for criterion in ("aic", "bic")
            for name, most in limits.items()
        }
        return {**chosen, "truth": truth[:n_test], "cpu_seconds": process_time() - start}

    def _kl_bags(self, n_points: int) -> int:
        """Training bags of the KL kernel, whose cost is quadratic in bags and nearly linear in points."""
        return self.kl_size * 200 // n_points

    def _beside_kl_step(self, n_points: int, seed: int) -> Step:
        """JS on the bags that the KL kernel has."""
        return self._step(RANDOM[0], n_points, self._kl_bags(n_points), seed)

    def _kl_step(self, n_points: int, seed: int) -> Step:
        """Kernel ridge on the kernel of nearest-neighbour KL divergences, repaired, with and without an intercept."""
        n_train = self._kl_bags(n_points)
        n_test = self.n_test // 4

        def compute() -> dict[str, Any]:
            bags, y, new, truth = self.draw(n_points, n_train, seed)
            new = new[:n_test]
            truth = truth[:n_test]
            start = process_time()
            matrix = DivergenceMatrix("knn:kl", n_jobs=1)
            D = matrix.fit_transform(bags)
            middle = process_time()
            D_new = matrix.transform(new)
            return {
                "predicted": _kernel_ridge(D, y, [], self.kl_alphas).predict(D_new),
                # An intercept without a penalty: kernel and targets are centred.
                "predicted_intercept": y.mean()
                + _kernel_ridge(D, y - y.mean(), [("centre", KernelCenterer())], self.kl_alphas).predict(D_new),
                "truth": truth,
                "cpu_seconds": process_time() - start,
                "cpu_seconds_matrix": middle - start,
                "n_train": n_train,
            }

        settings = {"kl": "with and without intercept", "n_points": n_points, "n_train": n_train}
        return Step(self._kl_name(n_points, seed), settings | {"n_test": n_test, "seed": seed}, compute)

    def _kl_blocks(self, n_points: int, n_train: int) -> list[Step]:
        """The matrix of KL divergences of one of the paper's sizes, some rows in each step: it takes hours."""
        shared = {"kl": "rows", "n_points": n_points, "n_train": n_train, "n_test": self.n_test, "seed": 0}
        found = []
        for part, n in (("training", n_train), ("test", self.n_test)):
            for start in range(0, n, self.kl_block):
                rows = (start, min(start + self.kl_block, n))
                compute = partial(self._kl_rows, n_points, n_train, part == "test", slice(*rows))
                name = f"KL rows points={n_points} bags={n_train} {part} from {start}"
                found.append(Step(name, shared | {"part": part, "rows": rows}, compute))
        return found

    def _kl_rows(self, n_points: int, n_train: int, new_ones: bool, rows: slice) -> dict[str, Any]:
        """Divergences of some bags from all training bags; of test bags the mean of both directions."""
        bags, _, new, _ = self.draw(n_points, n_train, 0)
        some = (new if new_ones else bags)[rows]
        there = _knn_kl(some, bags)
        return {"kl": ((there + _knn_kl(bags, some).T) / 2 if new_ones else there).astype(np.float32)}

    def _kl_full_step(self, n_points: int, n_train: int) -> Step:
        """Kernel ridge on the matrix of all rows, for all test bags."""

        def compute() -> dict[str, Any]:
            blocks = [(step, self.cache.get(self.name, step)) for step in self._kl_blocks(n_points, n_train)]
            missing = [step.name for step, found in blocks if found is None]
            if missing:
                raise RuntimeError(f"{len(missing)} steps must come before it, the first is {missing[0]!r}; run them")
            parts: dict[str, list[Any]] = {"training": [], "test": []}
            for step, found in blocks:
                parts[str(step.settings["part"])].append(found)
            D, D_new = (np.concatenate([found["kl"] for found in parts[name]], dtype=float) for name in parts)
            np.fill_diagonal(D, 0.0)  # a bag among others does not know that it meets itself
            _, y, _, truth = self.draw(n_points, n_train, 0)
            start = process_time()
            model = _kernel_ridge((D + D.T) / 2, y, [], self.kl_alphas)
            predicted = model.predict(D_new)
            rows = sum(float(found["cpu_seconds"]) for _, found in blocks if found)
            chosen = {
                "chosen_sigma_scale": model.best_params_["kernel__sigma_scale"],
                "chosen_alpha": model.best_params_["ridge__alpha"],
            }
            return {"predicted": predicted, "truth": truth, "cpu_seconds": process_time() - start + rows, **chosen}

        settings = {"kl": "ridge", "n_points": n_points, "n_train": n_train, "n_test": self.n_test, "seed": 0}
        return Step(self._name(KL, n_points, n_train), settings, compute)

    @staticmethod
    def _kl_name(n_points: int | str, seed: int = 0) -> str:
        return f"KL points={n_points} seed={seed}"

    # Report

    def report(self, results: Results) -> Report:
        """Errors and times, paired differences, and the methods that learn nothing."""
        first = self.points[0], self.sizes[0]
        wanted = [
            (method.name, n_points, n_train, self._name(method.name, n_points, n_train))
            for n_points in self.points
            for method in (*METHODS, LITERAL)
            for n_train in self.sizes
        ]
        wanted += [(KL, *cell, self._name(KL, *cell)) for cell in self.kl_full]
        wanted += [
            (f"{method.name}, truncated to [-5, 5]²", *first, self._name(method.name, *first, truncated=True))
            for method in RANDOM
        ]
        rows = [(*cell, *_figures(results[name])) for *cell, name in wanted if name in results]
        pairs = self._pairs(results)
        differences = {pair: past.apart(*errors) for pair, errors in pairs.items()}
        words = judge(differences, MARGIN)
        beyond = past.mixture_rows(self, results, differences, words)
        report = Report("The number of mixture components", self.introduction(study=self))
        if differences:
            report.introduction += "\n" + rule(len(differences), _WHY)
        report.findings += self._reached(results) + [
            f"{pair.first} against {pair.second}, {pair.n_points} points and {pair.n_train:,} training bags: "
            f"{words[pair]}; difference of RMSE {difference.told(3)}."
            for pair, difference in differences.items()
        ]
        report.findings += (
            past.mixture_lines(beyond)
            + self._criteria_lines(results)
            + self._limits_lines(results)
            + self._kl_lines(results)
            + self._kl_full_lines(results)
            + self._choice_lines(results)
            + self._cost_lines(results)
        )
        report.tables += [
            Table("errors", "Errors on the test bags, first seed", _COLUMNS, rows),
            Table("differences", "Paired differences", _DIFFERENCES, _difference_rows(pairs, differences, words)),
            Table("criteria", "Without training", _CRITERIA, self._criteria_rows(results)),
            Table("past", "Symmetries, augmentation and views: fresh seeds", past.COLUMNS, beyond),
        ]
        figure = self._curves(results)
        if figure is not None:
            report.figures["errors"] = figure
        report.figures["example"] = _draw_example()
        return report

    def _seeds(self, method: str, n_points: int, results: Results) -> dict[int, tuple[float, float]]:
        """RMSE and its standard error of each seed at the first size."""
        names = {seed: self._name(method, n_points, self.sizes[0], seed) for seed in range(self.n_seeds)}
        return {seed: _error(results[name]) for seed, name in names.items() if name in results}

    def _pairs(self, results: Results) -> dict[past.Pair, tuple[past.Errors, past.Errors]]:
        """All that is compared on the page: errors of two methods, seed by seed, of the seeds that both have."""
        found = {}
        for n_points in self.points:
            errors = {
                method: {seed: error for seed, (error, _) in self._seeds(method, n_points, results).items()}
                for method in (*OURS, *OTHERS)
            }
            for first in OURS:
                for second in OTHERS:
                    pair = past.Pair(first, second, n_points, self.sizes[0])
                    found[pair] = errors[first], errors[second]
        for n_points in self.points:
            n_train = self._kl_bags(n_points)
            errors = self._kl_errors(n_points, results)
            for first, second in ((KL, "JS"), (KL_INTERCEPT, "JS"), (KL_INTERCEPT, KL)):
                found[past.Pair(first, second, n_points, n_train)] = errors[first], errors[second]
        found |= past.mixture_pairs(self, results)
        common = {pair: a.keys() & b.keys() for pair, (a, b) in found.items()}
        return {
            pair: ({seed: a[seed] for seed in sorted(common[pair])}, {seed: b[seed] for seed in sorted(common[pair])})
            for pair, (a, b) in found.items()
            if len(common[pair]) > 1
        }

    def _kl_errors(self, n_points: int, results: Results) -> dict[str, past.Errors]:
        """RMSE of the KL kernel with and without intercept, and of JS on the same training and test bags, by seed."""
        found: dict[str, past.Errors] = {KL: {}, KL_INTERCEPT: {}, "JS": {}}
        for seed in range(self.n_kl_seeds):
            kl = results.get(self._kl_name(n_points, seed))
            js = results.get(self._name("JS", n_points, self._kl_bags(n_points), seed))
            if kl is not None:
                found[KL][seed] = _error(kl)[0]
                found[KL_INTERCEPT][seed] = rmse(kl["predicted_intercept"], kl["truth"])[0]
            if js is not None:
                n_test = self.n_test // 4
                found["JS"][seed] = rmse(js["predicted"][:n_test], js["truth"][:n_test])[0]
        return found

    def _by_points(self, results: Results, name: str) -> dict[int, Any]:
        """Results of a step of each number of points, of those that are there."""
        names = {n_points: name.format(n_points) for n_points in self.points}
        return {n_points: results[name] for n_points, name in names.items() if name in results}

    def _reached(self, results: Results) -> list[str]:
        lines = []
        for method in OURS:
            by_seed = self._seeds(method, self.points[0], results)
            seeds = [each for each, _ in by_seed.values()]
            _, error = by_seed.get(0, (np.nan, np.nan))
            if seeds:
                lines.append(
                    f"{method}: RMSE {np.mean(seeds):.3f} at {self.points[0]} points and {self.sizes[0]:,} training "
                    f"bags, mean of {len(seeds)} seeds ({', '.join(f'{x:.3f}' for x in seeds)}; standard error of one "
                    f"{error:.3f}{_interval_of_mean(seeds)}): {'at most' if np.mean(seeds) <= 1.5 else 'above'} 1.50."
                )
        return lines

    def _criteria_rows(self, results: Results) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for n_points in self.points:
            names = {n_init: f"AIC and BIC points={n_points} starts={n_init}" for n_init in _STARTS}
            there = {n_init: results[name] for n_init, name in names.items() if name in results}
            for n_init, found in there.items():
                for name in ("AIC", "BIC"):
                    errors = [f"{value:.2f}" for value in rmse(found[name.lower()], found["truth"])]
                    paper = PAPER.get((name, n_points))
                    seconds = f"{found['cpu_seconds']:.0f}"
                    rows.append((name, n_init, n_points, paper, *errors, seconds))
            for found in [*there.values()][-1:]:
                errors = [f"{value:.2f}" for value in rmse(np.full(len(found["truth"]), CONSTANT), found["truth"])]
                rows.append(("constant 5.5", None, n_points, PAPER["constant", 200], *errors, 0))
        return rows

    def _criteria_lines(self, results: Results) -> list[str]:
        return [
            f"{name} by EM of {_STARTS[n_init]}, {n_points} points: RMSE {error} ± {deviation}, the paper has {paper}."
            for name, n_init, n_points, paper, error, deviation, _ in self._criteria_rows(results)
            if n_init is not None
        ]

    def _limits_lines(self, results: Results) -> list[str]:
        lines = []
        for n_points, found in self._by_points(results, "AIC and BIC points={} limits").items():
            truth = found["truth"]
            aic, bic = ([rmse(found[f"{name}_{most}"], truth)[0] for most in LIMITS] for name in ("aic", "bic"))
            paper = PAPER.get(("AIC", n_points))
            nearest = ""
            if paper is not None:
                limit = LIMITS[int(np.argmin(np.abs(np.array(aic) - paper)))]
                nearest = f"; the paper, which does not say from how many, has {paper} for AIC, as if from {limit}"
            lines.append(
                f"With at most {', '.join(map(str, LIMITS))} components to choose from, and one start, the RMSE of AIC "
                f"is {_listed(aic)}, of BIC {_listed(bic)} ({n_points} points, {len(truth):,} bags). The "
                f"others choose from 10{nearest}."
            )
        return lines

    def _kl_lines(self, results: Results) -> list[str]:
        lines = []
        for n_points, found in self._by_points(results, self._kl_name("{}")).items():
            error, deviation = _error(found)
            n = int(found["n_train"])
            hours = float(found["cpu_seconds_matrix"]) / n**2 / 3600
            times = ", ".join(f"{hours * m * (m + 2 * self.n_test):.1f} for {m:,}" for m in self.sizes)
            lines.append(
                f"KL kernel, {n_points} points: RMSE {error:.2f} ± {deviation:.2f} with {n:,} training bags, "
                f"{found['cpu_seconds']:.0f} s of a core; hours of a core extrapolated with the number of pairs: "
                f"{times} training bags."
            )
        return lines

    def _kl_full_lines(self, results: Results) -> list[str]:
        """KL beside JS on the test bags of one seed, at the paper's sizes."""
        lines = []
        for n_points, n_train in self.kl_full:
            kl, js = (results.get(self._name(name, n_points, n_train)) for name in (KL, "JS"))
            if kl is None:
                continue
            error, deviation = _error(kl)
            beside = ""
            if js is not None:
                beside = f"; above JS {_above(kl, js)}"
            lines.append(
                f"KL kernel, {n_points} points: RMSE {error:.3f} ± {deviation:.3f} with {n_train:,} training bags, one "
                f"seed, {kl['cpu_seconds']:.0f} s of a core{beside}."
            )
        return lines

    def _choice_lines(self, results: Results) -> list[str]:
        """What the paper's other choices change, on one seed; and how many bins histograms choose."""
        cell = self.points[0], self.sizes[0]
        js = results.get(self._name("JS", *cell))
        there = {name: results.get(self._name(name, *cell)) for name in CHOICES}
        lines = [
            f"{name}, {cell[0]} points and {cell[1]:,} training bags, one seed: RMSE {_error(found)[0]:.3f}, above JS "
            f"{_above(found, js)}."
            for name, found in there.items()
            if found is not None and js is not None
        ]
        names = [
            self._name(method, n_points, n_train)
            for method in ("histogram JS", "histogram chi2")
            for n_points in self.points
            for n_train in self.sizes
        ]
        scales = [float(results[name]["chosen_bandwidth_scale"]) for name in names if name in results]
        if scales:
            usual = sum(scale == 1 for scale in scales)
            lines.append(
                f"Histograms choose among half to twice the usual width of bins, 5 to 20 bins a dimension: 10 bins in "
                f"{usual} of {len(scales)} runs. The paper: other bins were not better."
            )
        return lines

    def _cost_lines(self, results: Results) -> list[str]:
        """Whether ours are more expensive than the other embeddings, by one timing each."""
        lines = []
        for n_points in self.points:
            steps = {name: results.get(self._name(name, n_points, self.sizes[0])) for name in (*OURS, *OTHERS[:-1])}
            seconds = {name: float(found["cpu_seconds"]) for name, found in steps.items() if found is not None}
            ours = [seconds[name] for name in OURS if name in seconds]
            others = [name for name in OTHERS if name in seconds]
            if not ours or not others:
                continue
            cheaper = [name for name in others if seconds[name] < min(ours)]
            dearer = [name for name in others if seconds[name] > max(ours)]
            told = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
            lines.append(
                f"The paper: HDD embeddings are more expensive than the other embeddings. Here, at {n_points} points "
                f"and {self.sizes[0]:,} training bags: {told} seconds of a core, one timing each. Cheaper than "
                f"all of ours: {', '.join(cheaper) or 'none'}; dearer than all of ours: {', '.join(dearer) or 'none'}."
            )
        return lines

    def _curves(self, results: Results) -> Figure | None:
        panels = {}
        levels = {}
        for n_points in self.points:
            names = {
                method.name: [self._name(method.name, n_points, n_train) for n_train in self.sizes]
                for method in METHODS
            }
            names[KL] = [self._name(KL, *cell) for cell in self.kl_full if cell[0] == n_points]
            names["KL, fewer training bags"] = [self._kl_name(n_points)]
            there = {title: [results[name] for name in some if name in results] for title, some in names.items()}
            title = f"{n_points} points per bag"
            panels[title] = {
                name: [(found["cpu_seconds"], *_error(found)) for found in some] for name, some in there.items() if some
            }
            levels[title] = {
                row[0]: float(row[4]) for row in self._criteria_rows(results) if row[2] == n_points and row[1] != 1
            }
        panels = {title: curves for title, curves in panels.items() if curves}
        return draw_curves(panels, "RMSE on test bags", log_time=True, levels=levels) if panels else None


def _above(found: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Difference of RMSE on the same test bags, with its interval over them."""
    squares = (found["predicted"] - found["truth"]) ** 2 - (other["predicted"] - other["truth"]) ** 2
    both = _error(found)[0] + _error(other)[0]
    difference = squares.mean() / both  # of roots, from that of means of squares
    width = 1.96 * squares.std(ddof=1) / np.sqrt(len(squares)) / both
    return f"{difference:+.3f}, 95 % interval over test bags {difference - width:+.3f} to {difference + width:+.3f}"


def _knn_kl(bags: Bags, others: Bags) -> Array:
    """KL divergences by nearest neighbours, in compiled code where numba is installed."""
    if find_spec("numba") is None:
        return divergences.knn(bags, others, "kl", n_jobs=1)
    from .mixture_neighbours import kl

    return kl(bags, others)


def _kernel_ridge(D: Array, y: Array, more: Sequence[tuple[str, Any]], alphas: Sequence[float]) -> GridSearchCV:
    """Ridge regression on the repaired kernel of divergences; sigma by the grid of the learners."""
    steps = [("kernel", RBFKernel()), ("repair", PSDRepair()), *more, ("ridge", KernelRidge(kernel="precomputed"))]
    grid = {"kernel__sigma_scale": DistributionRegressor("js").sigma_scales, "ridge__alpha": alphas}
    with TemporaryDirectory() as folder:  # a kernel is repaired once for all penalties
        search = GridSearchCV(Pipeline(steps, memory=folder), grid, cv=3, scoring="neg_root_mean_squared_error")
        return search.fit(D, y)


def _interval_of_mean(values: Sequence[float]) -> str:
    low, high = over_repetitions(values).interval()
    return "" if np.isnan(low) else f"; 95 % interval of the mean {low:.3f} to {high:.3f}"


def _difference_rows(
    pairs: Mapping[past.Pair, tuple[past.Errors, past.Errors]],
    differences: Mapping[past.Pair, Difference],
    words: Mapping[past.Pair, str],
) -> list[tuple[Any, ...]]:
    rows = []
    for pair, (a, b) in pairs.items():
        means = [f"{np.mean([*errors.values()]):.3f}" for errors in (a, b)]
        apart = [f"{value:+.3f}" for value in (differences[pair].mean, *differences[pair].interval())]
        rows.append((*pair, *means, *apart, words[pair], len(a)))
    return rows


def _figures(found: Mapping[str, Any]) -> list[Any]:
    """A row of the table of errors, behind what was run."""
    figures = [f"{value:.3f}" for value in _error(found)]
    chosen = [found.get(f"chosen_{each}") for each in ("bandwidth_scale", "sigma_scale", "alpha")]
    return [*figures, f"{found['cpu_seconds']:.0f}", *chosen]


def _error(found: Mapping[str, Any]) -> tuple[float, float]:
    return rmse(found["predicted"], found["truth"])


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


_COLUMNS = (
    "method", "points", "training bags", "RMSE", "standard error", "seconds of a core", "width x", "sigma x", "penalty",
)  # fmt: skip
_DIFFERENCES = (
    "method", "compared with", "points", "training bags", "RMSE, mean of seeds", "of the other", "difference",
    "95 % low", "95 % high", "word", "seeds",
)  # fmt: skip
_STARTS = {8: "eight starts", 1: "one start"}
_CRITERIA = ("method", "starts", "points", "paper", "RMSE", "standard error", "seconds of a core")


def _draw_example(seed: int = 3) -> Figure:
    """A mixture and 200 points of it."""
    many, _ = datasets.make_mixture_components(1, 200_000, random_state=seed)
    few, y = datasets.make_mixture_components(1, 200, random_state=seed)
    figure = new_figure(8, 4)
    left, right = figure.subplots(1, 2)
    left.hist2d(*many[0].T, bins=160, range=[BOX, BOX], cmap="magma")
    left.set_title(f"a mixture of {y[0]} Gaussians", loc="left", fontsize=10)
    right.plot(*few[0].T, ".", color="#30638e", markersize=3)
    right.set_title("200 points of it", loc="left", fontsize=10)
    for axis in (left, right):
        axis.set(xlim=BOX, ylim=BOX, aspect="equal", xticks=[], yticks=[])
    return figure
