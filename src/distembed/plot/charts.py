"""The numbers of charts: what :mod:`distembed.plot` draws by matplotlib, and :mod:`distembed.report` as SVG.

One function for each chart, from arrays to what stands at its axes. Nothing here draws, or needs matplotlib.

Densities are to look at: histograms on a fine grid, smoothed by a Gaussian of Silverman's width, in the units of the
points and in one or two columns. What models see is in :mod:`distembed.density`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from ..bags import Bags
from ..compute.arrays import Array

ENSEMBLE = "ensemble"  # the row of the model itself
BASELINES = ("mean, linear", "constant")  # candidates of a leaderboard that all others are held against

_TAIL = 0.002  # of all points may lie outside of a picture on each side
_MOST = 200_000  # points that decide where a picture ends


# --------------------------------------------------------------------------------------------------------------
# Densities
# --------------------------------------------------------------------------------------------------------------


def limits_of(values: Array) -> tuple[float, float]:
    """Where a picture of values begins and ends: at their extremes, unless a few of them are far from all others.

    Examples
    --------
    >>> low, high = limits_of(np.append(np.linspace(0, 1, 1000), 1e6))
    >>> bool(low < 0), bool(1 < high < 2)
    (True, True)
    """
    some = values[:: max(1, len(values) // _MOST)]
    low, high = np.quantile(some, [_TAIL, 1 - _TAIL])
    margin = 0.05 * (high - low)
    if margin == 0:  # all but a few are the same
        low = float(values.min())
        high = float(values.max())
        margin = 0.05 * (high - low) or 0.5 * abs(low) or 0.5
        return float(low - margin), float(high + margin)
    ends = float(values.min()), float(values.max())
    low, high = (end if abs(end - cut) <= 3 * margin else cut for end, cut in zip(ends, (low, high), strict=True))
    return float(low - margin), float(high + margin)


def width_of(values: Array, n_dims: int = 1) -> float:
    """Silverman's bandwidth, 0.9 min(deviation, interquartile range / 1.34) n^(-1 / (4 + n_dims)); zero for none.

    Examples
    --------
    >>> round(width_of(np.random.default_rng(0).normal(size=1000)), 2)
    0.22
    """
    if len(values) < 2:
        return 0.0
    lower, upper = np.quantile(values, [0.25, 0.75])
    spread = min(float(values.std()), float(upper - lower) / 1.34) or float(values.std())
    return float(0.9 * spread * len(values) ** (-1 / (4 + n_dims)))


def density_of(points: Array, limits: Any, n_bins: int, weights: Array | None = None) -> tuple[Array, ...]:
    """A density on a grid, and its axes.

    Parameters
    ----------
    points : ndarray of shape (n, l)
        With l of one or two.
    limits : sequence of l pairs
        Where the grid begins and ends in each column; points outside are left out.
    n_bins : int
        In each column.
    weights : ndarray of shape (n,), optional

    Returns
    -------
    density, axis, ...
        Of shape (n_bins,) * l, of integral one if no point is outside; and the middles of the bins in each column.

    Notes
    -----
    Mass does not leave at the ends of the grid. Cost: O(n + n_bins^l).

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(500, 1))
    >>> density, x = density_of(points, [(-5, 5)], 100)
    >>> round(float(density.sum() * (x[1] - x[0])), 6), round(float(density.max()), 1)
    (1.0, 0.4)
    """
    edges = [np.linspace(low, high, n_bins + 1) for low, high in limits]
    counts, _ = np.histogramdd(points, bins=edges, weights=weights)
    steps = [float(each[1] - each[0]) for each in edges]
    widths = [max(width_of(column, len(edges)) / step, 0.5) for column, step in zip(points.T, steps, strict=True)]
    total = len(points) if weights is None else float(weights.sum())
    density = gaussian_filter(counts, widths, mode="reflect") / (total * float(np.prod(steps)))
    return density, *((each[1:] + each[:-1]) / 2 for each in edges)


def shares_of_labels(bags: Bags, j: int, rows: slice) -> Array:
    """Shares of the labels of a categorical column among some points."""
    n_labels = len((bags.categories or {})[j])
    weights = None if bags.weights is None else bags.weights[rows]
    found = np.bincount(bags.points[rows, j].astype(int), weights, minlength=n_labels)
    return np.asarray(found / found.sum())


# --------------------------------------------------------------------------------------------------------------
# Explanations
# --------------------------------------------------------------------------------------------------------------


def marginal_map(values: Array, density: Array, j: int) -> tuple[Array, Array]:
    """The mean of a map under a density at each value of column j, and the density of that column.

    Examples
    --------
    >>> marginal_map(np.array([[1.0, 3.0], [5.0, 5.0]]), np.array([[3.0, 1.0], [0.0, 0.0]]), 0)
    (array([1.5, 5. ]), array([2., 0.]))
    """
    others = tuple(k for k in range(values.ndim) if k != j)
    total = density.sum(axis=others)
    plain = values.mean(axis=others)
    weighted = (values * density).sum(axis=others)
    return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), plain), density.mean(axis=others)


# --------------------------------------------------------------------------------------------------------------
# The map of all bags
# --------------------------------------------------------------------------------------------------------------


class PrincipalPlane(NamedTuple):
    """The plane in which rows vary most.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
    axes : ndarray of shape (n_features, 2)
        Principal directions, the larger variance first.
    shares : ndarray of shape (2,)
        Shares of the variance.
    xy : ndarray of shape (n_bags, 2)
        Coordinates of the rows that decided the plane.
    """

    mean: Array
    axes: Array
    shares: Array
    xy: Array

    def project(self, rows: Array) -> Array:
        """Coordinates of other rows, ndarray of shape (n_bags, 2)."""
        return np.asarray((rows - self.mean) @ self.axes)


def principal_plane(rows: Array) -> PrincipalPlane:
    """The first two principal components of rows, with signs such that the largest coordinate is positive.

    Cost: O(n_bags n_features min(n_bags, n_features)).
    """
    mean = rows.mean(axis=0)
    left, singular, right = np.linalg.svd(rows - mean, full_matrices=False)
    n = min(2, len(singular))
    xy = np.zeros((len(rows), 2))
    xy[:, :n] = left[:, :n] * singular[:n]
    axes = np.zeros((rows.shape[1], 2))
    axes[:, :n] = right[:n].T
    signs = _signs(xy)
    return PrincipalPlane(mean, axes * signs, _two_shares(singular**2), xy * signs)


def _signs(xy: Array) -> Array:
    """For each column, the sign that makes its largest entry positive."""
    return np.where(xy[np.abs(xy).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)


def _two_shares(variances: Array) -> Array:
    return np.append(variances, [0.0, 0.0])[:2] / max(float(variances.sum()), np.finfo(float).tiny)


def place(X: Any, distances: bool = False) -> tuple[Array, Array]:
    r"""Bags in two dimensions, and the share of the variance that each of these has.

    Parameters
    ----------
    X : Bags, or ndarray of shape (n_bags, n_features) or (n_bags, n_bags)
        Bags: means and deviations of their columns, in units of deviations of all points.
    distances : bool, default=False
        Whether the matrix has distances between bags, and not features.

    Returns
    -------
    ndarray of shape (n_bags, 2), ndarray of shape (2,)
        Principal components, largest first; of distances those of classical scaling, which are the same for
        Euclidean ones. Their signs are such that the largest coordinate is positive.

    Examples
    --------
    >>> rows = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    >>> xy, shares = place(rows)
    >>> shares.round(2).tolist(), np.abs(xy).max(axis=0).tolist()
    ([0.9, 0.1], [1.5, 0.5])
    >>> matrix = np.sqrt(np.sum((rows[:, None] - rows) ** 2, axis=2))
    >>> bool(np.allclose(np.abs(place(matrix, distances=True)[0]), np.abs(xy)))
    True
    """
    if isinstance(X, Bags):
        X = _moments(X)
    rows = np.asarray(X, float)
    if rows.ndim != 2 or (distances and rows.shape[0] != rows.shape[1]):
        wanted = "a square matrix of distances" if distances else "bags, or features of shape (n_bags, n_features)"
        raise ValueError(f"plot.map(X=...): must be {wanted}, got shape {rows.shape}; pass one row per bag")
    if not distances:
        plane = principal_plane(rows)
        return plane.xy, plane.shares
    gram = -0.5 * rows**2
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values[::-1], 0.0)
    xy = np.zeros((len(rows), 2))
    xy[:, : min(2, len(rows))] = (vectors[:, ::-1] * np.sqrt(values))[:, :2]
    return xy * _signs(xy), _two_shares(values)


def _moments(found: Bags) -> Array:
    """Means and deviations of the columns of each bag, in units of the deviation of all points."""
    points = found.points.astype(float)
    points = (points - points.mean(axis=0)) / np.where(points.std(axis=0) > 0, points.std(axis=0), 1.0)
    shares = found.shares()
    shares = np.repeat(1 / found.sizes, found.sizes) if shares is None else shares
    first, second = (np.add.reduceat(shares[:, None] * each, found.offsets[:-1]) for each in (points, points**2))
    return np.hstack([first, np.sqrt(np.maximum(second - first**2, 0.0))])


# --------------------------------------------------------------------------------------------------------------
# Predictions
# --------------------------------------------------------------------------------------------------------------


class PredictionAxes(NamedTuple):
    """Where predictions over the truth are drawn.

    Attributes
    ----------
    limits : pair of float
        Of both axes: all finite numbers are inside.
    ends : ndarray of shape (n_bags, 2), optional
        Of intervals, infinite ones cut off at the limits.
    missed : ndarray of bool of shape (n_bags,), optional
        Which intervals do not hold the truth.
    """

    limits: tuple[float, float]
    ends: Array | None = None
    missed: Array | None = None


def prediction_axes(truth: Array, predicted: Array, intervals: Array | None = None) -> PredictionAxes:
    """Limits of a chart of predictions over the truth, and which intervals hold it.

    Examples
    --------
    >>> y = np.array([0.0, 10.0])
    >>> prediction_axes(y, y).limits
    (-0.4, 10.4)
    >>> prediction_axes(y, y, np.array([[-1.0, 9.0], [11.0, np.inf]])).missed
    array([False,  True])
    """
    values = np.concatenate([truth, predicted, *([] if intervals is None else [intervals.ravel()])])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.04 * (high - low) or 1.0
    limits = (low - margin, high + margin)
    if intervals is None:
        return PredictionAxes(limits)
    return PredictionAxes(limits, np.clip(intervals, *limits), (truth < intervals[:, 0]) | (truth > intervals[:, 1]))


class Confusion(NamedTuple):
    """Classes, and how many bags of each (row) were taken for each (column)."""

    classes: Array
    counts: Array

    @property
    def shares(self) -> Array:
        """Counts as shares of the bags of each true class."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1))


def confusion_counts(truth: Array, predicted: Array) -> Confusion:
    """Classes, and how many bags of each (row) were taken for each (column).

    Examples
    --------
    >>> classes, counts = confusion_counts(np.array(["a", "b", "b"]), np.array(["a", "b", "a"]))
    >>> counts.tolist()
    [[1, 0], [1, 1]]
    """
    classes = np.unique(np.concatenate([truth, predicted]))
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (np.searchsorted(classes, truth), np.searchsorted(classes, predicted)), 1)
    return Confusion(classes, counts)


class Reliability(NamedTuple):
    """How often predictions of a probability come true, in bins of about equal numbers of bags.

    Attributes
    ----------
    probabilities, shares : ndarray of shape (n_bins,)
        Mean probability, and share of bags for which it came true.
    errors : ndarray of shape (n_bins,)
        Two standard errors of the shares.
    counts : ndarray of shape (n_bins,)
        Numbers of bags.
    """

    probabilities: Array
    shares: Array
    errors: Array
    counts: Array


def reliability_curve(truth: Array, probabilities: Array, classes: Array, n_bins: int) -> Reliability:
    """Probabilities and how often they came true; of two classes those of the second, of more the predicted class's.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    >>> reliability_curve(np.array([0, 0, 0, 1]), p, np.array([0, 1]), 2).shares
    array([0. , 0.5])
    """
    two = len(classes) == 2
    given = probabilities[:, 1] if two else probabilities.max(axis=1)
    expected = np.full(len(truth), classes[1]) if two else classes[probabilities.argmax(axis=1)]
    came = np.asarray(truth == expected, float)
    parts = np.array_split(np.argsort(given, kind="stable"), min(n_bins, len(given)))
    means, shares = (np.array([each[rows].mean() for rows in parts]) for each in (given, came))
    counts = np.array([len(rows) for rows in parts])
    errors = 2 * np.sqrt(np.maximum(means * (1 - means), shares * (1 - shares)) / counts)
    return Reliability(means, shares, errors, counts)


def reliability_labels(classes: Array, name: str) -> tuple[str, str]:
    """Labels of the two axes of a reliability curve."""
    what = f"{name} {classes[1]}" if len(classes) == 2 else f"the predicted {name}"
    return f"predicted probability of {what}", "share of bags for which it is true"


# --------------------------------------------------------------------------------------------------------------
# Candidates and stages
# --------------------------------------------------------------------------------------------------------------


def leaderboard_rows(board: Any, most: int) -> list[Any]:
    """The best candidates of a leaderboard, best first, its baselines, and the model itself.

    Examples
    --------
    >>> scores = {"constant": 0.0, "js": 0.9, "tv": 0.8, "ensemble": 0.89}
    >>> board = [{"name": name, "score": score} for name, score in scores.items()]
    >>> [row["name"] for row in leaderboard_rows(board, 1)]
    ['js', 'constant', 'ensemble']
    """
    rows = sorted((row for row in board if row["name"] != ENSEMBLE), key=lambda row: -row["score"])
    model = [row for row in board if row["name"] == ENSEMBLE]
    return rows[:most] + [row for row in rows[most:] if row["name"] in BASELINES] + model


class Step(NamedTuple):
    """A bar of a waterfall, from ``left`` to ``left + height``, and what stands at its end."""

    name: str
    left: float
    height: float
    text: str

    @property
    def end(self) -> float:
        """The right end of the bar."""
        return max(self.left, self.left + self.height)


def budget_steps(budget: Any) -> tuple[list[Step], float]:
    """Squared errors of the stages, one on top of the other; what they add together; the total; and the largest sum.

    Examples
    --------
    >>> import distembed as de
    >>> stages = {"points": de.theory.Stage(0.02, -0.01, 0.05), "basis": de.theory.Stage(0.01, 0.01, 0.02)}
    >>> steps, most = budget_steps(de.theory.ErrorBudget(stages, 0.02, 0.02, 0.5, 30, "use larger bags"))
    >>> [(each.name, each.text) for each in steps]
    [('points', '0.0200'), ('basis', '0.0100'), ('together', 'biases that cancel'), ('total', '0.0200')]
    """
    squares = {name: stage.rms**2 for name, stage in budget.stages.items()}
    total = budget.total**2
    heights = [*squares.items(), ("together", total - sum(squares.values())), ("total", total)]
    steps = []
    start = 0.0
    for name, height in heights:
        text = "biases that cancel" if height < 0 else f"{np.sqrt(height):.4f}"
        steps.append(Step(name, 0.0 if name == "total" else start, height, text))
        start += height
    return steps, max(sum(squares.values()), total)
