"""How good predictions are, with standard errors by the bootstrap over bags."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Score", "confusion", "of_classes", "of_numbers"]

Array = NDArray[Any]

_DRAWS = 1000  # fewer for very many bags, where they are not needed
_VALUES = 4_000_000  # counts at a time
_LEAST_PROBABILITY = 1e-15


class Score(NamedTuple):
    """A number and its standard error; NaN where it can't be told."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "-"
        return f"{self.value:.4g}" + (f" ± {self.standard_error:.2g}" if np.isfinite(self.standard_error) else "")


def _draws(n: int, seed: int = 0) -> list[Array]:
    """How often each bag is in each bootstrap sample, some samples at a time."""
    rng = np.random.default_rng(seed)
    total = _DRAWS if n <= 20_000 else max(100, _DRAWS * 20_000 // n)
    step = max(1, _VALUES // n)
    return [rng.multinomial(n, np.full(n, 1 / n), size=min(step, total - k)) for k in range(0, total, step)]


def _summary(value: float, drawn: Array) -> Score:
    finite = drawn[np.isfinite(drawn)]
    return Score(float(value), float(finite.std(ddof=1)) if len(finite) > 1 else float("nan"))


def _r2(squares: Any, first: Any, second: Any, n: int) -> Any:
    """1 - Σ e² / Σ (y - ȳ)², from Σ e², Σ y and Σ y²."""
    spread = np.asarray(second - first**2 / n, float)
    least = 1e-12 * np.maximum(np.asarray(second, float), 1e-300)
    return 1 - squares / np.where(spread > least, spread, np.nan)


def of_numbers(truth: Array, predicted: Array) -> dict[str, Score]:
    """Root mean squared error, mean absolute error and R².

    Examples
    --------
    >>> scores = of_numbers(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 6.0]))
    >>> [round(score.value, 3) for score in scores.values()]
    [1.0, 0.5, 0.2]
    """
    y = np.asarray(truth, float) - np.mean(truth)  # R² does not change, and keeps its digits
    error = np.asarray(predicted, float) - truth
    n, parts = len(y), np.stack([error**2, np.abs(error), y, y**2])
    sums = parts.sum(axis=1)
    names = ("rmse", "mae", "r2")

    def scores(s: Array) -> list[Any]:
        return [np.sqrt(s[0] / n), s[1] / n, _r2(s[0], s[2], s[3], n)]

    if n < 2:
        return {name: Score(float(value), float("nan")) for name, value in zip(names, scores(sums), strict=True)}
    drawn = np.concatenate([np.stack(scores(parts @ counts.T), axis=1) for counts in _draws(n)])
    return {name: _summary(value, drawn[:, j]) for j, (name, value) in enumerate(zip(names, scores(sums), strict=True))}


def of_classes(
    truth: Array, predicted: Array, classes: Array | None = None, probabilities: Array | None = None
) -> dict[str, Score]:
    """Accuracy and, where there are probabilities, log-loss in nats.

    Examples
    --------
    >>> scores = of_classes(np.array(["a", "b", "b"]), np.array(["a", "b", "a"]))
    >>> round(scores["accuracy"].value, 3)
    0.667
    """
    each = {"accuracy": np.asarray(truth == predicted, float)}
    if classes is not None and probabilities is not None:
        places = {name: place for place, name in enumerate(classes.tolist())}
        chosen = np.array([places.get(name, -1) for name in truth.tolist()])
        given = np.where(chosen >= 0, probabilities[np.arange(len(truth)), chosen], 0.0)
        each["log_loss"] = -np.log(np.clip(given, _LEAST_PROBABILITY, None))
    n, parts = len(truth), np.stack(list(each.values()))
    if n < 2:
        return {name: Score(float(values.mean()), float("nan")) for name, values in each.items()}
    drawn = np.concatenate([(parts @ counts.T / n).T for counts in _draws(n)])
    return {name: _summary(values.mean(), drawn[:, j]) for j, (name, values) in enumerate(each.items())}


def confusion(truth: Array, predicted: Array) -> tuple[Array, Array]:
    """Classes, and how many bags of each (row) were taken for each (column).

    Examples
    --------
    >>> classes, counts = confusion(np.array(["a", "b", "b"]), np.array(["a", "b", "a"]))
    >>> counts.tolist()
    [[1, 0], [1, 1]]
    """
    classes = np.unique(np.concatenate([truth, predicted]))
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (np.searchsorted(classes, truth), np.searchsorted(classes, predicted)), 1)
    return classes, counts
