r"""How sure a prediction is: the distribution of the truth around it, learned from held-out bags.

The fit has predictions for held-out bags anyway, and they are cross-fitted (:mod:`distembed.learners.stacking`), so no
bag is given up and nothing is fitted again. Around a prediction ŷ for a bag of n points, on which the members of the
model differ by a standard deviation of s, the truth is distributed as

.. math:: ŷ + σ(n, s) \, T, \qquad σ^2 = a + c / n + d \, s^2, \qquad a, c, d ≥ 0,

where T has the distribution of the held-out residuals over their σ. A bag is a sample: a small one shows less, and c is
how much less. The three numbers are found by non-negative least squares on squared residuals, twice, the second time
with the weights that relative errors of squares ask for. All widths are then multiplied by what the choice of members
and settings has flattered the residuals.

No held-out bag shows how wrong predictions are for bags that are odder than all training bags. Their widths grow with
their distance beyond these, see :meth:`~distembed.learners.likeness.Reference.widening`; inside of the range, a term by
oddness has not made intervals better on real tables, and there is none.

Quantiles of T are those of n + 1 values of which one is unknown, as in conformal prediction: the i-th smallest residual
stands at i / (n + 1). Beyond the outermost ones, tails are normal.

Sets of classes hold all classes whose probability is at least that which the true classes of held-out bags exceed with
the coverage asked for (Sadinle, Lei and Wasserman, 2019), and always the likeliest one.

*Cost*: O(n_bags) at the end of a fit; predictions need the spread of members, which they compute anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from ..compute.arrays import Array
from ..compute.registry import storable
from ..density.subsets import effective_sizes
from .scores import Score
from .stacking import HeldOut, weighted_sum

MOST_QUANTILES = 401  # that are kept of each output
_TINY = 1e-12  # of the variance of a target: no smaller variance is believed


@storable(scales="finite(o, _)", levels="finite(q)", residuals="finite(q, o)", typical_size="number")
@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """The distribution of numbers around their predictions.

    Parameters
    ----------
    scales : ndarray of shape (n_outputs, 3)
        a, c and d of each output.
    levels : ndarray of shape (n_levels,)
        Increasing, between 0 and 1.
    residuals : ndarray of shape (n_levels, n_outputs)
        Quantiles of T at these levels.
    typical_size : float
        Stands for sizes that are not known: the harmonic mean of those of the held-out bags.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sizes = rng.integers(4, 100, size=400)
    >>> truth = rng.normal(size=(400, 1))
    >>> predicted = truth + rng.normal(size=(400, 1)) / np.sqrt(sizes)[:, None]
    >>> law = ErrorLaw.of(HeldOut(predicted[None], truth, np.ones(400)), predicted, sizes, np.zeros((400, 1)))
    >>> law.deviations(np.array([4, 100]), np.zeros((2, 1))).round(1).ravel()
    array([0.4, 0.1])
    """

    scales: Array
    levels: Array
    residuals: Array
    typical_size: float

    def __distembed_fits__(self) -> bool:
        increasing = bool(np.all(np.diff(self.levels) > 0)) and bool(np.all(np.diff(self.residuals, axis=0) >= 0))
        inside = len(self.levels) > 0 and self.levels[0] > 0 and self.levels[-1] < 1
        positive = bool(np.all(self.scales >= 0)) and self.typical_size > 0
        return self.scales.shape[1] == 3 and positive and increasing and bool(inside)

    @classmethod
    def of(cls, held_out: HeldOut, predicted: Array, sizes: Array, spread: Array, optimism: float = 1.0) -> ErrorLaw:
        """Learn the law from held-out bags.

        Parameters
        ----------
        held_out : HeldOut
            Targets and weights of the bags.
        predicted : ndarray of shape (n_bags, n_outputs)
            Predictions that had no part in the choice of the model.
        sizes : ndarray of shape (n_bags,)
            Points of each bag.
        spread : ndarray of shape (n_bags, n_outputs)
            Standard deviation of the members' predictions.
        optimism : float, default=1.0
            Factor of all widths.
        """
        errors = held_out.targets - predicted
        scales = np.stack([_fit_scale(errors[:, o], sizes, spread[:, o], held_out) for o in range(errors.shape[1])])
        scaled = optimism * errors / _scale(scales, sizes, spread)
        levels, residuals = _quantiles(scaled, held_out.weight)
        return cls(scales, levels, residuals, float(1 / np.mean(1 / sizes)))

    def scale(self, sizes: Array, spread: Array, widening: Array | float = 1.0) -> Array:
        """σ of each bag, ndarray of shape (n_bags, n_outputs).

        Parameters
        ----------
        sizes : ndarray of shape (n_bags,)
            Points of each bag.
        spread : ndarray of shape (n_bags, n_outputs)
            Standard deviation of the members' predictions.
        widening : ndarray of shape (n_bags,) or float, default=1.0
            Factor of bags that are unlike the training bags.
        """
        return np.asarray(_scale(self.scales, sizes, spread) * np.reshape(widening, (-1, 1)))

    def quantiles(
        self, predicted: Array, sizes: Array, spread: Array, q: Array, widening: Array | float = 1.0
    ) -> Array:
        """Quantiles of the truth, ndarray of shape (n_bags, n_outputs, n_q)."""
        of_residuals = np.stack([_interpolate(q, self.levels, each) for each in self.residuals.T])
        scale = self.scale(sizes, spread, widening)
        return np.asarray(predicted[:, :, None] + scale[:, :, None] * of_residuals)

    def deviations(self, sizes: Array, spread: Array, widening: Array | float = 1.0) -> Array:
        """Standard deviation of the truth around its prediction, ndarray of shape (n_bags, n_outputs)."""
        grid = (np.arange(1000) + 0.5) / 1000
        of_residuals = np.array([_interpolate(grid, self.levels, each).std() for each in self.residuals.T])
        return np.asarray(self.scale(sizes, spread, widening) * of_residuals)


def _fit_scale(errors: Array, sizes: Array, spread: Array, held_out: HeldOut) -> Array:
    """a, c and d of one output."""
    squares = errors**2
    floor = max(_TINY * float(held_out.targets.var()), np.finfo(float).tiny)
    terms = np.stack([np.ones(len(errors)), 1 / sizes, spread**2], axis=1)
    units = np.maximum(terms.mean(axis=0), np.finfo(float).tiny)
    weight = np.sqrt(held_out.weight)
    found = np.array([squares.mean(), 0.0, 0.0])
    for _ in range(2):
        fitted, _ = nnls(weight[:, None] * (terms / units), weight * squares)
        found = fitted / units
        variance = np.maximum(terms @ found, 0.1 * squares.mean() + floor)
        weight = np.sqrt(held_out.weight) / variance
    if not (terms @ found).min() > floor:
        found[0] += floor
    return np.asarray(found)


def _scale(scales: Array, sizes: Array, spread: Array) -> Array:
    a, c, d = scales.T
    return np.asarray(np.sqrt(a + c / np.asarray(sizes, float)[:, None] + d * spread**2))


def _quantiles(values: Array, weight: Array) -> tuple[Array, Array]:
    """Levels, and the quantiles of each column at these."""
    n = len(values)
    levels = np.arange(1, n + 1) / (n + 1)
    if n > MOST_QUANTILES:
        levels = np.linspace(levels[0], levels[-1], MOST_QUANTILES)
    columns = []
    for column in values.T:
        order = np.argsort(column, kind="stable")
        mass = np.cumsum(weight[order])
        columns.append(np.interp(levels, mass / (mass[-1] + weight.mean()), column[order]))
    return levels, np.stack(columns, axis=1)


def _interpolate(q: Array, levels: Array, values: Array) -> Array:
    """Values at levels q: linear between those that are known, with normal tails beyond them."""
    found = np.interp(q, levels, values)
    spread = _normal_spread(levels, values)
    low = q < levels[0]
    high = q > levels[-1]
    found[low] = values[0] + spread * (ndtri(q[low]) - ndtri(levels[0]))
    found[high] = values[-1] + spread * (ndtri(q[high]) - ndtri(levels[-1]))
    return np.asarray(found)


def _normal_spread(levels: Array, values: Array) -> float:
    """Standard deviation of a normal distribution with the same outermost quantiles."""
    width = ndtri(levels[-1]) - ndtri(levels[0])
    return float((values[-1] - values[0]) / width) if width > 0 else 0.0


@storable(levels="finite(q)", probabilities="finite(q)")
@dataclass(frozen=True, eq=False)
class ClassLaw:
    """Which probabilities the true classes of held-out bags had.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,)
        Increasing, between 0 and 1.
    probabilities : ndarray of shape (n_levels,)
        Quantiles of the probabilities of the true classes at these levels.
    """

    levels: Array
    probabilities: Array

    def __distembed_fits__(self) -> bool:
        return len(self.levels) == len(self.probabilities) > 0 and bool(np.all(np.diff(self.levels) > 0))

    @classmethod
    def of(cls, held_out: HeldOut, predicted: Array) -> ClassLaw:
        """Learn the law from held-out bags; ``predicted`` had no part in the choice of the model."""
        own = predicted[np.arange(len(predicted)), held_out.targets]
        levels, found = _quantiles(own[:, None], held_out.weight)
        return cls(levels, found[:, 0])

    def sets(self, probabilities: Array, coverage: float, widening: Array | float = 1.0) -> Array:
        """Sets of classes, ndarray of bool of shape (n_bags, n_classes), none of them empty.

        Of bags that are unlike the training bags, they hold classes of probabilities that are smaller by ``widening``.
        """
        level = 1 - coverage
        least = 0.0 if level < self.levels[0] else float(np.interp(level, self.levels, self.probabilities))
        likeliest = probabilities >= probabilities.max(axis=1, keepdims=True)
        return np.asarray((probabilities * np.reshape(widening, (-1, 1)) >= least) | likeliest)


def learn_law(
    held_out: HeldOut, weights: Array, cross_fitted: Array, sizes: Array, whole: Score
) -> ErrorLaw | ClassLaw:
    """The law of a chosen model, from its held-out bags.

    Parameters
    ----------
    held_out : HeldOut
        Predictions of the candidates.
    weights : ndarray of shape (n_candidates,)
        Of the candidates in the model.
    cross_fitted : ndarray of shape (n_bags, n_outputs)
        Predictions of choices without the bag.
    sizes : ndarray of shape (n_bags,)
        Points of each bag.
    whole : Score
        Of the model, corrected for the choice, see :func:`~distembed.learners.stacking.score_choice`.
    """
    if held_out.n_classes is not None:
        return ClassLaw.of(held_out, cross_fitted)
    residual = 1 - held_out.score(cross_fitted).value
    optimism = np.sqrt(max((1 - whole.value) / residual, 1.0)) if residual > 0 else 1.0
    return ErrorLaw.of(held_out, cross_fitted, sizes, spread_of(weights, held_out.predicted), float(optimism))


def spread_of(weights: Array, predicted: Array) -> Array:
    """Standard deviation of members' predictions (n_members, n_bags, n_outputs), ndarray of shape (n_bags, n_outputs).

    Examples
    --------
    >>> spread_of(np.array([0.5, 0.5]), np.array([[[1.0]], [[3.0]]]))
    array([[1.]])
    """
    mean = weighted_sum(weights, predicted)
    return np.sqrt(np.maximum(weighted_sum(weights, (predicted - mean) ** 2), 0.0))


def known_sizes(bags: Any, typical: float) -> Array:
    """Points of each bag, as many equal ones as its weights are worth; a typical number where they are not known.

    Examples
    --------
    >>> import distembed as de
    >>> known_sizes(de.Bags(np.zeros((4, 1)), [0, 2, 4], weights=[1, 1, 1, 0]), 9.0)
    array([2., 1.])
    """
    if not hasattr(bags, "sizes"):
        return np.full(len(bags), typical)
    return np.asarray(effective_sizes(bags), float)
