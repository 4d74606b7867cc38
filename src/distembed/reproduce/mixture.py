"""How many Gaussians a mixture has, from a bag of its points: the paper's regression experiment.

The number of components is uniform on 1, ..., 10. Bags of 200 and of 800 points; 4,000, 8,000 and 16,000 training bags,
2,000 test bags; ridge regression on 5,000 random features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from .. import datasets
from ..bags import Bags, concat
from ..compute.arrays import Array
from ..kernels import DivergenceMatrix, PSDRepair, RBFKernel
from ..learners import DistributionRegressor, MixtureComponents
from ..scaling import UnitCube
from .comparisons import (
    LITERAL,
    METHODS,
    RANDOM,
    Method,
    curve_of,
    draw_curves,
    fit_and_predict,
    literal_recipe,
    paired_interval,
    rmse,
    verdict,
)
from .study import Report, Results, Step, Study, Table, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CONSTANT = 5.5
LIMITS = (9, 10, 11, 12)  # most components among which AIC and BIC choose
BOX, TRUNCATED = (-10.0, 10.0), (-5.0, 5.0)
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

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.quick:
            self.points, self.sizes, self.n_test, self.n_components, self.n_seeds = (200,), (300, 600), 300, 1000, 2
            self.kl_size = 60

    # Steps

    def _methods(self) -> tuple[Method, ...]:
        names = ("JS", "L2", "histogram JS")
        return tuple(method for method in RANDOM if method.name in names) if self.quick else METHODS

    @staticmethod
    def _name(method: str, n_points: int, n_train: int, seed: int = 0, truncated: bool = False) -> str:
        return f"{method} points={n_points} bags={n_train} seed={seed}" + (" truncated" if truncated else "")

    def steps(self) -> list[Step]:
        """RBF kernels with all seeds at the first size, then the other sizes, then what is linear, and the rest."""
        n, first, found = self.points[0], self.sizes[0], []
        random = [method for method in self._methods() if not method.linear]
        for seed in range(self.n_seeds):
            found += [self._step(method, n, first, seed) for method in random]
        found += [self._criteria_step(n_points, n_init) for n_points in self.points for n_init in (8, 1)]
        found += [self._limits_step(n_points) for n_points in self.points]
        for linear in (False, True):
            for n_points in self.points:
                for n_train in self.sizes:
                    if linear or (n_points, n_train) != (n, first):
                        some = [method for method in self._methods() if method.linear == linear]
                        found += [self._step(method, n_points, n_train, 0) for method in some]
        found += [self._step(method, n, first, 0, truncated=True) for method in random]
        found += [self._step(LITERAL, n, first, seed) for seed in range(0 if self.quick else self.n_seeds)]
        return [*found, *(self._kl_step(n_points) for n_points in self.points)]

    def _step(self, method: Method, n_points: int, n_train: int, seed: int, truncated: bool = False) -> Step:
        n_components = None if method.linear else self.n_components

        def compute() -> dict[str, Any]:
            bags, y, new, new_y = self._data(n_points, n_train, seed, truncated)
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

    def _data(self, n_points: int, n_train: int, seed: int, truncated: bool = False) -> tuple[Bags, Array, Bags, Array]:
        """Training bags in blocks of the first size, so that smaller sets are beginnings of larger ones; test bags."""
        block = self.sizes[0]
        parts = [_draw(block, n_points, seed, 1 + i, truncated) for i in range(-(-n_train // block))]
        new, new_y = _draw(self.n_test, n_points, seed, 0, truncated)
        bags, y = concat([bags for bags, _ in parts]), np.concatenate([y for _, y in parts])
        return bags[:n_train], y[:n_train], new, new_y

    def _criteria_step(self, n_points: int, n_init: int) -> Step:
        def compute() -> dict[str, Any]:
            _, _, new, truth = self._data(n_points, self.sizes[0], 0)
            start = process_time()
            found = MixtureComponents(n_init=n_init, random_state=0, n_jobs=1).fit(new).criteria(new)
            return {
                "aic": found.n_components[np.argmin(found.aic, axis=1)],
                "bic": found.n_components[np.argmin(found.bic, axis=1)],
                "truth": truth,
                "cpu_seconds": process_time() - start,
            }

        settings = {"criteria": True, "n_points": n_points, "n_test": self.n_test, "n_init": n_init, "seed": 0}
        return Step(f"AIC and BIC points={n_points} starts={n_init}", settings, compute)

    def _limits_step(self, n_points: int) -> Step:
        """What AIC and BIC choose if they may choose from fewer or more components than there can be."""
        n_test = self.n_test // 4

        def compute() -> dict[str, Any]:
            _, _, new, truth = self._data(n_points, self.sizes[0], 0)
            start, new = process_time(), new[:n_test]
            model = MixtureComponents(max_components=max(LIMITS), n_init=1, random_state=0, n_jobs=1)
            found = model.fit(new).criteria(new)
            chosen = {
                f"{name}_{most}": 1 + np.argmin(getattr(found, name)[:, :most], axis=1)
                for name in ("aic", "bic")
                for most in LIMITS
            }
            return {**chosen, "truth": truth[:n_test], "cpu_seconds": process_time() - start}

        settings = {"limits": LIMITS, "n_points": n_points, "n_test": n_test, "seed": 0}
        return Step(f"AIC and BIC points={n_points} limits", settings, compute)

    def _kl_step(self, n_points: int) -> Step:
        """Kernel ridge on the kernel of nearest-neighbour KL divergences, repaired, for fewer bags than the others."""
        n_train, n_test = self.kl_size * 200 // n_points, self.n_test // 4

        def compute() -> dict[str, Any]:
            bags, y, new, truth = self._data(n_points, n_train, 0)
            new, truth = new[:n_test], truth[:n_test]
            start = process_time()
            matrix = DivergenceMatrix("knn:kl", n_jobs=1)
            D = matrix.fit_transform(bags)
            middle = process_time()
            steps = [("kernel", RBFKernel()), ("repair", PSDRepair()), ("ridge", KernelRidge(kernel="precomputed"))]
            usual = DistributionRegressor()  # whose grids serve all methods
            grid = {"kernel__sigma_scale": usual.sigma_scales, "ridge__alpha": usual.alphas}
            model = GridSearchCV(Pipeline(steps), grid, cv=3, scoring="neg_root_mean_squared_error").fit(D, y)
            return {
                "predicted": model.predict(matrix.transform(new)),
                "truth": truth,
                "cpu_seconds": process_time() - start,
                "cpu_seconds_matrix": middle - start,
                "n_train": n_train,
            }

        settings = {"kl": True, "n_points": n_points, "n_train": n_train, "n_test": n_test, "seed": 0}
        return Step(f"KL points={n_points}", settings, compute)

    # Report

    def report(self, results: Results) -> Report:
        """Errors and times, paired differences, and the methods that learn nothing."""
        report = Report("The number of mixture components", self.introduction(study=self))
        report.findings += self._reached(results)
        differences = self._differences(results)
        report.findings += [line for *_, line in differences]
        report.findings += self._criteria_lines(results) + self._limits_lines(results) + self._kl_lines(results)
        rows = []
        for n_points in self.points:
            for method in (*METHODS, LITERAL):
                rows += [
                    self._row(method.name, n_points, n_train, found)
                    for n_train in self.sizes
                    if (found := results.get(self._name(method.name, n_points, n_train))) is not None
                ]
        for method in RANDOM:
            found = results.get(self._name(method.name, self.points[0], self.sizes[0], 0, True))
            if found is not None:
                rows.append(self._row(f"{method.name}, truncated to [-5, 5]²", self.points[0], self.sizes[0], found))
        report.tables.append(Table("errors", "Errors on the test bags, first seed", _COLUMNS, rows))
        columns = ("compared with", "method", "RMSE, mean of seeds", "difference", "95 % low", "95 % high", "seeds")
        report.tables.append(Table("differences", "Paired differences", columns, [row for *row, _ in differences]))
        report.tables.append(Table("criteria", "Without training", _CRITERIA, self._criteria_rows(results)))
        figure = self._curves(results)
        if figure is not None:
            report.figures["errors"] = figure
        report.figures["example"] = _draw_example()
        return report

    def _row(self, name: str, n_points: int, n_train: int, found: Any) -> tuple[Any, ...]:
        error, deviation = _error(found)
        chosen = [found.get(f"chosen_{each}") for each in ("bandwidth_scale", "sigma_scale", "alpha")]
        return name, n_points, n_train, f"{error:.3f}", f"{deviation:.3f}", f"{found['cpu_seconds']:.0f}", *chosen

    def _seeds(self, method: str, results: Results) -> dict[int, float]:
        """RMSE of each seed at the first size."""
        names = {seed: self._name(method, self.points[0], self.sizes[0], seed) for seed in range(self.n_seeds)}
        return {seed: _error(results[name])[0] for seed, name in names.items() if name in results}

    def _by_points(self, results: Results, name: str) -> dict[int, Any]:
        """Results of a step of each number of points, of those that are there."""
        names = {n_points: name.format(n_points) for n_points in self.points}
        return {n_points: results[name] for n_points, name in names.items() if name in results}

    def _reached(self, results: Results) -> list[str]:
        lines = []
        for method in ("JS", "Hellinger", "TV"):
            seeds = list(self._seeds(method, results).values())
            if seeds:
                found = results.get(self._name(method, self.points[0], self.sizes[0]))
                error = float("nan") if found is None else _error(found)[1]
                lines.append(
                    f"{method}: RMSE {np.mean(seeds):.3f} at {self.points[0]} points and {self.sizes[0]:,} training "
                    f"bags, mean of {len(seeds)} seeds ({', '.join(f'{x:.3f}' for x in seeds)}; standard error of one "
                    f"{error:.3f}): {'at most' if np.mean(seeds) <= 1.5 else 'above'} 1.50."
                )
        return lines

    def _differences(self, results: Results) -> list[tuple[Any, ...]]:
        """Rows of the table, each with its sentence."""
        found = []
        for first in ("JS", "Hellinger", "TV"):
            for second in ("L2", "MMD", "histogram JS", "histogram chi2", LITERAL.name):
                a, b = self._seeds(first, results), self._seeds(second, results)
                both = sorted(a.keys() & b.keys())
                if len(both) < 2:
                    continue
                apart, low, high = paired_interval([b[seed] - a[seed] for seed in both])
                word = {"worse": "below", "better": "above", "tie": "a tie with"}[verdict(low, high)]
                interval = f"95 % interval {low:+.3f} to {high:+.3f}"
                line = f"{first} is {word} {second}: difference of RMSE {apart:+.3f}, {interval}."
                mean = np.mean([b[seed] for seed in both])
                figures = [f"{value:+.3f}" for value in (apart, low, high)]
                found.append((first, second, f"{mean:.3f}", *figures, len(both), line))
        return found

    def _criteria_rows(self, results: Results) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        by_starts = {n_init: self._by_points(results, f"AIC and BIC points={{}} starts={n_init}") for n_init in _STARTS}
        for n_points in self.points:
            truth = None
            for n_init, found in ((n, by[n_points]) for n, by in by_starts.items() if n_points in by):
                truth, seconds = found["truth"], f"{found['cpu_seconds']:.0f}"
                for name in ("AIC", "BIC"):
                    errors = [f"{value:.2f}" for value in rmse(found[name.lower()], truth)]
                    rows.append((name, n_init, n_points, PAPER.get((name, n_points)), *errors, seconds))
            if truth is not None:
                errors = [f"{value:.2f}" for value in rmse(np.full(len(truth), CONSTANT), truth)]
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
            aic, bic = (
                [rmse(found[f"{name}_{most}"], found["truth"])[0] for most in LIMITS] for name in ("aic", "bic")
            )
            paper, nearest = PAPER.get(("AIC", n_points)), ""
            if paper is not None:
                limit = LIMITS[int(np.argmin(np.abs(np.array(aic) - paper)))]
                nearest = f"; the paper, which does not say from how many, has {paper} for AIC, as if from {limit}"
            lines.append(
                f"With at most {', '.join(map(str, LIMITS))} components to choose from, and one start, the RMSE of AIC "
                f"is {_listed(aic)}, of BIC {_listed(bic)} ({n_points} points, {len(found['truth']):,} bags). The "
                f"others choose from 10{nearest}."
            )
        return lines

    def _kl_lines(self, results: Results) -> list[str]:
        lines = []
        for n_points, found in self._by_points(results, "KL points={}").items():
            (error, deviation), n = _error(found), int(found["n_train"])
            hours = float(found["cpu_seconds_matrix"]) / n**2 / 3600
            times = ", ".join(f"{hours * m * (m + 2 * self.n_test):.1f} for {m:,}" for m in self.sizes)
            lines.append(
                f"KL kernel, {n_points} points: RMSE {error:.2f} ± {deviation:.2f} with {n:,} training bags, "
                f"{found['cpu_seconds']:.0f} s of a core; hours of a core extrapolated with the number of pairs: "
                f"{times} training bags."
            )
        return lines

    def _curves(self, results: Results) -> Figure | None:
        panels, levels = {}, {}
        for n_points in self.points:
            names = {
                method.name: [self._name(method.name, n_points, n_train) for n_train in self.sizes]
                for method in METHODS
            }
            names["KL, fewer training bags"] = [f"KL points={n_points}"]
            there = {title: [results[name] for name in some if name in results] for title, some in names.items()}
            curves = [curve_of(title, found, _error) for title, found in there.items() if found]
            if curves:
                title = f"{n_points} points a bag"
                panels[title] = curves
                levels[title] = {
                    row[0]: float(row[4]) for row in self._criteria_rows(results) if row[2] == n_points and row[1] != 1
                }
        return draw_curves(panels, "RMSE on test bags", log_time=True, levels=levels) if panels else None


def _error(found: Mapping[str, Any]) -> tuple[float, float]:
    return rmse(found["predicted"], found["truth"])


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


_COLUMNS = (
    "method", "points", "training bags", "RMSE", "standard error", "seconds of a core", "width x", "sigma x", "penalty",
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
