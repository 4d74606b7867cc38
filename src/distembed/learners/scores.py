"""How good predictions are, with standard errors: what leaderboards, the command line and reports show.

A score is a function of sums over bags, so leaving out each bag in turn, the jackknife, is a subtraction. Bags of one
group (a hospital, a day) err together: where groups are given, whole groups are left out, and ten groups are ten
observations, however many bags they have.

Where all bags are right, or none is, the jackknife shows no error. The share p̃ = (r + 2) / (n + 4) of Agresti and
Coull (1998) does, for r of n bags that are right: √(p̃ (1 - p̃) / (n + 4)) is .19 for two bags, .013 for a hundred. With
groups, n is their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Array

LEAST_PROBABILITY = 1e-15
FEW = 10  # bags, of which a score says little
ROUNDING = 1e-12  # of a score, in its own size
_TITLES = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "log_loss": "log-loss", "set_size": "set size"}


class Score(NamedTuple):
    """A number and its standard error, NaN where it is unknown.

    Examples
    --------
    >>> str(Score(0.875, 0.0812))
    '0.875 ± 0.081'
    """

    value: float
    standard_error: float

    def as_dict(self) -> dict[str, float]:
        """Value and standard error by name."""
        return self._asdict()

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "-"
        return f"{self.value:.4g}" + (f" ± {self.standard_error:.2g}" if np.isfinite(self.standard_error) else "")


def title(name: str) -> str:
    """A score as people read it.

    Examples
    --------
    >>> title("r2"), title("balanced_accuracy")
    ('R²', 'balanced accuracy')
    """
    return _TITLES.get(name, name.replace("_", " "))


def jackknife(parts: Array, score: Callable[[Array], Any], groups: Any = None) -> Score:
    """A score of sums of parts, and its standard error.

    Parameters
    ----------
    parts : ndarray of shape (n_parts, n_bags)
        What is summed over bags.
    score : callable
        Takes sums of shape (n_parts, n) and returns n scores.
    groups : array-like of shape (n_bags,), optional
        Bags of one group are left out together.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=400)
    >>> found = jackknife(np.stack([x, np.ones(400)]), lambda sums: sums[0] / sums[1])
    >>> bool(np.isclose(found.standard_error, x.std(ddof=1) / 20))
    True
    >>> copies = np.stack([np.repeat(x, 3), np.ones(1200)])
    >>> same = jackknife(copies, lambda sums: sums[0] / sums[1], groups=np.repeat(np.arange(400), 3))
    >>> bool(np.isclose(same.standard_error, found.standard_error))
    True
    """
    if groups is not None:
        parts = _sums_by_group(parts, groups)
    total = parts.sum(axis=1, keepdims=True)
    n = parts.shape[1]
    value = float(np.ravel(score(total))[0])
    if n < 2:
        return Score(value, float("nan"))
    without = np.ravel(score(total - parts))
    error = float(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))
    return Score(value, 0.0 if error <= ROUNDING * abs(value) else error)


def _sums_by_group(parts: Array, groups: Any) -> Array:
    """Sums over the bags of each group, ndarray of shape (n_parts, n_groups)."""
    names, number = np.unique(np.asarray(groups), return_inverse=True)
    return np.stack([np.bincount(number, weights=part, minlength=len(names)) for part in parts])


def mean(values: Any, groups: Any = None) -> Score:
    """A mean.

    Examples
    --------
    >>> mean([1.0, 2.0, 3.0])
    Score(value=2.0, standard_error=0.577...)
    """
    numbers = np.asarray(values, float)
    return jackknife(np.stack([numbers, np.ones_like(numbers)]), lambda sums: sums[0] / sums[1], groups)


def share(right: Any, groups: Any = None) -> Score:
    """The share of bags that are right.

    Examples
    --------
    >>> str(share([True] * 2)), str(share([True] * 100)), str(share([True, False] * 8))
    ('1 ± 0.19', '1 ± 0.013', '0.5 ± 0.13')
    """
    right = np.asarray(right, float)
    found = mean(right, groups)
    if found.standard_error != 0:
        return found
    n = len(right) if groups is None else len(np.unique(np.asarray(groups)))
    return Score(found.value, float(np.sqrt(_spread(found.value * n, n))))


def _spread(right: Any, n: Any) -> Any:
    """Variance of the share of Agresti and Coull."""
    p = (right + 2) / (n + 4)
    return p * (1 - p) / (n + 4)


def of_numbers(truth: Array, predicted: Array, groups: Any = None) -> dict[str, Score]:
    """Root mean squared error, mean absolute error and R².

    Examples
    --------
    >>> found = of_numbers(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 6.0]))
    >>> {name: round(score.value, 3) for name, score in found.items()}
    {'rmse': 1.0, 'mae': 0.5, 'r2': 0.2}
    """
    y = np.asarray(truth, float) - np.mean(truth)  # R² does not change, and keeps its digits
    error = np.asarray(predicted, float) - truth
    one = np.ones(len(y))
    parts = np.stack([error**2, y, y**2, one])

    def r2(sums: Array) -> Array:
        spread = sums[2] - sums[1] ** 2 / np.maximum(sums[3], 1)
        least = 1e-12 * np.maximum(sums[2], 1e-300)
        return np.asarray(1 - sums[0] / np.where(spread > least, spread, np.nan))  # 1 - Σ e² / Σ (y - ȳ)²

    return {
        "rmse": jackknife(parts, lambda sums: np.sqrt(np.maximum(sums[0], 0.0) / sums[3]), groups),
        "mae": mean(np.abs(error), groups),
        "r2": jackknife(parts, r2, groups),
    }


def of_classes(
    truth: Array,
    predicted: Array,
    classes: Array | None = None,
    probabilities: Array | None = None,
    groups: Any = None,
) -> dict[str, Score]:
    """Balanced accuracy, accuracy and, where there are probabilities, log-loss in nats.

    Examples
    --------
    >>> found = of_classes(np.array(["a", "b", "b", "b"]), np.array(["b", "b", "b", "b"]))
    >>> {name: score.value for name, score in found.items()}
    {'balanced_accuracy': 0.5, 'accuracy': 0.75}
    """
    right = np.asarray(truth == predicted)
    found = {"balanced_accuracy": _balanced_accuracy(truth, right, groups), "accuracy": share(right, groups)}
    if classes is not None and probabilities is not None:
        given = np.max(np.where(truth[:, None] == classes[None, :], probabilities, 0.0), axis=1)
        found["log_loss"] = mean(-np.log(np.maximum(given, LEAST_PROBABILITY)), groups)
    return found


def _balanced_accuracy(truth: Array, right: Array, groups: Any) -> Score:
    """Mean over classes of the share of their bags that are right."""
    members = np.asarray(truth == np.unique(truth)[:, None], float)
    n = len(members)

    def shares(sums: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):  # a class of one bag, without it
            return np.asarray(np.nanmean(np.where(sums[n:] > 0, sums[:n] / sums[n:], np.nan), axis=0))

    found = jackknife(np.concatenate([members * right, members]), shares, groups)
    if found.standard_error != 0:
        return found
    counts = members.sum(axis=1)
    if groups is not None:
        counts = np.array([len(np.unique(np.asarray(groups)[own > 0])) for own in members])
    shares_right = (members * right).sum(axis=1) / members.sum(axis=1)
    return Score(found.value, float(np.sqrt(_spread(shares_right * counts, counts).sum()) / n))


def of_intervals(truth: Array, low: Array, high: Array, groups: Any = None) -> dict[str, Score]:
    """Share of intervals that hold the truth, and their mean width.

    Examples
    --------
    >>> found = of_intervals(np.array([1.0, 2.0]), np.array([0.0, 0.0]), np.array([1.5, 1.5]))
    >>> [score.value for score in found.values()]
    [0.5, 1.5]
    """
    return {"coverage": share((low <= truth) & (truth <= high), groups), "width": mean(high - low, groups)}


def of_sets(truth: Array, sets: Any, groups: Any = None) -> dict[str, Score]:
    """Share of sets of classes that hold the truth, and their mean number of classes.

    Examples
    --------
    >>> [score.value for score in of_sets(np.array(["a", "b"]), [["a"], ["a", "c"]]).values()]
    [0.5, 1.5]
    """
    held = [name in members for name, members in zip(truth.tolist(), sets, strict=True)]
    return {"coverage": share(held, groups), "set_size": mean([len(members) for members in sets], groups)}
