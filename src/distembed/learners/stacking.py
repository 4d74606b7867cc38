r"""Weights of candidates by their held-out predictions, and the score of that choice on bags that had no part in it.

The ensemble is chosen as Caruana et al. (2004) do: starting from the best few, the candidate is added that lowers the
loss of the mean most, as often as it helps. On a hundred bags that alone would fit noise, so it is done for many
samples of the bags, and the weights are averaged. Then predictions are shrunk to the constant.

*Optimism.* The best of fifty candidates looks better on the bags that chose it than on new ones: with 40 bags and a
weak signal, R² .15 where new bags give .04. So the choice is made again without each fifth of the bags, and applied to
them:

.. math:: \hat y_i = \sum_c w_c^{(-b(i))} \hat y_{ci},

where ŷ_ci is the held-out prediction of candidate c for bag i, and w^(-b) are the weights that the bags outside of
block b choose. The score of these *cross-fitted* predictions is free of the optimism of the weights, but not of that
of the settings which heads choose for themselves, on the same bags. :func:`score_choice` takes that to be as large, and
gives the row "ensemble" of a leaderboard; ``experiments/leaderboard.py`` compares it with scores on new bags.

*Cost*: a squared error is quadratic in the weights, so a step of the selection costs the square of the number of
candidates, twenty at most; a log loss needs the probability of each bag's own class, 20 n numbers per step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..compute.arrays import Array
from ..models.folds import folds_of
from .scores import Score, jackknife

LEAST_PROBABILITY = 1e-4  # counts for smaller ones in a log loss
N_BLOCKS = 5  # of cross-fitting
# of the greedy selection
_BEST = 20
_STEPS = 10
_ROUNDS = 10


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out predictions of candidates for the same bags.

    Parameters
    ----------
    predicted : ndarray of shape (n_candidates, n_bags, n_outputs)
        Numbers or probabilities, of models that did not see the bag; those of the constant come first.
    targets : ndarray of shape (n_bags, n_outputs), or (n_bags,) of int
        Numbers, or codes of classes.
    weight : ndarray of shape (n_bags,)
        Of bags.
    n_classes : int or None
        None: regression.
    groups : ndarray of shape (n_bags,), optional
        Bags of one group err together.
    n_folds : int, default=5
        Over how many folds the predictions were made.
    """

    predicted: Array
    targets: Array
    weight: Array
    n_classes: int | None = None
    groups: Array | None = None
    n_folds: int = 5

    def take(self, rows: Array) -> HeldOut:
        """Keep some of the bags, by positions."""
        groups = None if self.groups is None else self.groups[rows]
        some = self.predicted[:, rows]
        return replace(self, predicted=some, targets=self.targets[rows], weight=self.weight[rows], groups=groups)

    def choose(self, candidates: Array) -> HeldOut:
        """Keep some of the candidates, by positions."""
        return replace(self, predicted=self.predicted[candidates])

    def output(self, o: int) -> HeldOut:
        """Keep one of several outputs."""
        return replace(self, predicted=self.predicted[:, :, [o]], targets=self.targets[:, [o]])

    @property
    def n_units(self) -> int:
        """Number of groups or, without any, of bags: observations that err independently."""
        return len(self.weight) if self.groups is None else len(np.unique(self.groups))

    def losses(self, predicted: Array) -> Array:
        """Loss of each bag times its weight, see :func:`losses`."""
        return np.asarray(self.weight * losses(predicted, self.targets, self.n_classes))

    def standard_error(self, values: Array) -> float:
        """Standard error of the mean of one value per bag, over groups if there are any."""
        if self.groups is None:
            return float(values.std() / np.sqrt(len(values)))
        sums = np.bincount(np.unique(self.groups, return_inverse=True)[1], weights=values - values.mean())
        return float(np.sqrt(np.sum(sums**2)) / len(values))

    def score(self, predicted: Array) -> Score:
        """R² or minus the mean log loss of predictions for these bags, with its standard error.

        Parameters
        ----------
        predicted : ndarray of shape (n_bags, n_outputs)
            Numbers or probabilities.

        Notes
        -----
        The error is that of the jackknife over bags, or over groups. R² is a ratio, and a bag far from the mean raises
        both of its parts: the errors of squares alone would be far too large where little is explained. Models of
        different folds share most of their training bags, so their errors are correlated: the variance is that of
        independent bags times 1 + k / (k - 1) for k folds (Nadeau and Bengio, 2003). The error is then that of the
        score on new bags.
        """
        found = self._jackknife(predicted)
        factor = 1 + self.n_folds / (self.n_folds - 1) if self.n_folds > 1 else 2.0
        return Score(found.value, float(np.sqrt(factor) * found.standard_error))

    def _jackknife(self, predicted: Array) -> Score:
        w = self.weight
        if self.n_classes is not None:
            each = losses(predicted, self.targets, self.n_classes)
            return jackknife(np.stack([w * each, w]), lambda sums: -sums[0] / sums[1], self.groups)
        n_outputs = self.targets.shape[1]
        centred = self.targets - self.targets.mean(axis=0)
        squares = w[:, None] * (predicted - self.targets) ** 2
        parts = np.concatenate([np.stack([w, np.ones(len(w))]), squares.T, centred.T, (centred**2).T])
        unit = _units(self.targets)

        def score(sums: Array) -> Array:
            residual, first, second = (sums[2 + k * n_outputs : 2 + (k + 1) * n_outputs] for k in range(3))
            variance = second / sums[1] - (first / sums[1]) ** 2
            constant = unit[:, None] == 1.0  # a target without variance
            variance = np.where(constant | (variance <= 0), unit[:, None], variance)
            return np.asarray(1 - (residual / sums[0] / variance).mean(axis=0))

        return jackknife(parts, score, self.groups)


def losses(predicted: Array, targets: Array, n_classes: int | None) -> Array:
    """Loss of each bag, ndarray of shape (n_bags,): -log p of its class, or the squared error over the variance.

    Examples
    --------
    >>> losses(np.array([[0.25, 0.75]]), np.array([1]), 2).round(3)
    array([0.288])
    """
    if n_classes is not None:
        return np.asarray(-np.log(np.maximum(predicted[np.arange(len(targets)), targets], LEAST_PROBABILITY)))
    return np.asarray(np.mean((predicted - targets) ** 2 / _units(targets), axis=1))


def _units(targets: Array) -> Array:
    """Variance of each output, ndarray of shape (n_outputs,); one for a constant, whose variance is rounding."""
    variance = targets.var(axis=0)
    return np.asarray(np.where(variance > 1e-24 * np.mean(targets**2, axis=0), variance, 1.0))


def weighted_sum(weights: Array, predicted: Array) -> Array:
    """Sum of predictions (n_members, n_bags, n_outputs) times weights, ndarray of shape (n_bags, n_outputs).

    Weights are of shape (n_members,), or (n_members, n_outputs) where outputs have their own.

    Examples
    --------
    >>> predicted = np.array([[[1.0, 2.0]], [[3.0, 4.0]]])
    >>> weighted_sum(np.array([0.5, 0.5]), predicted), weighted_sum(np.eye(2), predicted)
    (array([[2., 3.]]), array([[1., 4.]]))
    """
    return np.asarray(np.einsum("c,cno->no" if weights.ndim == 1 else "co,cno->no", weights, predicted))


def choose_weights(held_out: HeldOut, most: int, rng: np.random.RandomState) -> Array:
    """Weights of all candidates, the constant first: what it counts shrinks predictions to it.

    At most this many others have weights: where there are more, the heaviest are chosen from again.

    With a gain over the constant of g, and its standard error s, the constant counts (s / g)² (James and Stein): on
    held-out bags the ensemble looks better than it is, because it is the best of many. Of probabilities it counts at
    least 1 / (n + 1), so nothing is impossible after n bags, and at most a half, which leaves the order of classes as
    it is where they have equal weights. With groups, the error is over groups.

    Several outputs have weights of their own, ndarray of shape (n_candidates, n_outputs): what predicts one well need
    not suit another.
    """
    if held_out.n_classes is None and held_out.targets.shape[1] > 1:
        return _choose_for_each_output(held_out, most, rng)
    weights = greedy_weights(held_out, rng)
    if np.count_nonzero(weights) > most:
        some = np.sort(np.argsort(-weights, kind="stable")[:most])
        weights = np.zeros(len(weights))
        weights[some] = greedy_weights(held_out.choose(some), rng)
    chosen = weighted_sum(weights, held_out.predicted)
    gain = held_out.losses(held_out.predicted[0]) - held_out.losses(chosen)
    error = held_out.standard_error(gain)
    mean = gain.mean()
    share = 1.0 if mean <= error else (error / mean) ** 2
    is_numbers = held_out.n_classes is None
    weights *= 1 - (share if is_numbers else np.clip(share, 1 / (held_out.n_units + 1), 0.5))
    weights[0] += 1 - weights.sum()
    return weights


def _choose_for_each_output(held_out: HeldOut, most: int, rng: np.random.RandomState) -> Array:
    """Weights for each output by itself; where these are of too many candidates in all, from the heaviest of them."""
    outputs = [held_out.output(o) for o in range(held_out.targets.shape[1])]
    weights = np.stack([choose_weights(each, most, rng) for each in outputs], axis=1)
    heavy = 1 + np.argsort(-weights[1:].mean(axis=1), kind="stable")[:most]
    if np.count_nonzero(weights[1:].any(axis=1)) > most:
        some = np.sort(np.append(0, heavy))
        weights = np.zeros(weights.shape)
        weights[some] = np.stack([choose_weights(each.choose(some), most, rng) for each in outputs], axis=1)
    return weights


def greedy_weights(held_out: HeldOut, rng: np.random.RandomState) -> Array:
    """Weights of candidates, ndarray of shape (n_candidates,) that sums to one.

    The best twenty take part. The mean starts with those of them that are not worse than the best by two standard
    errors of the difference; then whichever lowers the loss of the mean most is added, as often as it helps, for
    several samples of the bags.

    Parameters
    ----------
    held_out : HeldOut
        Predictions for bags that were held out.
    rng : RandomState
        Draws bags, or groups, with replacement.

    Examples
    --------
    >>> truth = np.arange(20.0)[:, None]
    >>> good, bad = truth + 0.1, -truth
    >>> held_out = HeldOut(np.stack([good, bad, good - 0.2]), truth, np.ones(20))
    >>> weights = greedy_weights(held_out, np.random.RandomState(0))
    >>> bool(weights[1] < 0.05), round(float(weights.sum()), 6)
    (True, 1.0)
    """
    alone = np.stack([held_out.losses(each) for each in held_out.predicted])
    top = np.argsort(alone.mean(axis=1), kind="stable")[:_BEST]
    worse = alone[top] - alone[top[0]]
    errors = np.array([held_out.standard_error(each) for each in worse])
    started = (worse.mean(axis=1) <= 2 * errors).astype(np.float64)
    losses_with = (_squared_errors if held_out.n_classes is None else _log_losses)(held_out.choose(top))
    total = np.zeros(len(alone))
    for _ in range(_ROUNDS):
        with_one_more = losses_with(_times_drawn(held_out, rng))
        best = np.inf
        kept = started
        counts = started
        for _ in range(_STEPS):
            tried = with_one_more(counts)
            counts = counts + (np.arange(len(top)) == np.argmin(tried))
            if tried.min() < best:
                best = tried.min()
                kept = counts
        total[top] += kept / kept.sum()
    return np.asarray(total / total.sum())


def _times_drawn(held_out: HeldOut, rng: np.random.RandomState) -> Array:
    """How often each bag is in a sample with replacement, of bags or of whole groups, ndarray of shape (n_bags,)."""
    if held_out.groups is None:
        n = len(held_out.weight)
        return np.bincount(rng.randint(n, size=n), minlength=n).astype(np.float64)
    names, number = np.unique(held_out.groups, return_inverse=True)
    return np.bincount(rng.randint(len(names), size=len(names)), minlength=len(names))[number].astype(np.float64)


# What a sample of the bags makes of counts of candidates: the mean loss after each candidate is added once more.
_Step = Callable[[Array], Array]


def _squared_errors(held_out: HeldOut) -> Callable[[Array], _Step]:
    """Of numbers: by the products of errors, of which a squared error of a mean is a quadratic form."""
    errors = np.sqrt(held_out.weight)[:, None] * (held_out.predicted - held_out.targets)
    errors /= np.sqrt(errors.shape[2] * _units(held_out.targets))

    def of_sample(times: Array) -> _Step:
        products = np.einsum("cno,dno->cd", errors * times[:, None], errors, optimize=True) / times.sum()

        def with_one_more(counts: Array) -> Array:
            pull = products @ counts
            return np.asarray((counts @ pull + 2 * pull + np.diag(products)) / (counts.sum() + 1) ** 2)

        return with_one_more

    return of_sample


def _log_losses(held_out: HeldOut) -> Callable[[Array], _Step]:
    """Of classes: by the probabilities of each bag's own class."""
    own = held_out.predicted[:, np.arange(len(held_out.targets)), held_out.targets]

    def of_sample(times: Array) -> _Step:
        drawn = times > 0
        mass = (times * held_out.weight)[drawn] / times.sum()
        p = own[:, drawn]

        def with_one_more(counts: Array) -> Array:
            means = (counts @ p + p) / (counts.sum() + 1)
            return np.asarray(-np.log(np.maximum(means, LEAST_PROBABILITY)) @ mass)

        return with_one_more

    return of_sample


def cross_fit(held_out: HeldOut, choose: Callable[[HeldOut], Array], seed: int) -> Array:
    """Held-out predictions of the weighted mean, each with weights that other bags chose.

    Parameters
    ----------
    held_out : HeldOut
        Predictions of the candidates.
    choose : callable
        Takes those for some of the bags, and returns weights of the candidates.
    seed : int
        Draws the blocks of bags, five of them; bags of one group are in one block.

    Returns
    -------
    ndarray of shape (n_bags, n_outputs)

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> noise = rng.normal(size=(40, 60, 1))  # candidates that know nothing
    >>> held_out = HeldOut(noise, rng.normal(size=(60, 1)), np.ones(60))
    >>> def best(some):
    ...     return np.eye(40)[np.argmin([some.losses(each).mean() for each in some.predicted])]
    >>> naive = held_out.score(weighted_sum(best(held_out), noise)).value
    >>> honest = held_out.score(cross_fit(held_out, best, 0)).value
    >>> round(naive, 1), round(honest, 1)  # candidates have R² -1 on new bags
    (-0.6, -0.9)
    """
    found = np.empty(held_out.predicted.shape[1:])
    has_classes = held_out.n_classes is not None
    n_blocks = min(N_BLOCKS, held_out.n_units)
    blocks = folds_of(n_blocks, held_out.targets, held_out.groups, has_classes, np.random.RandomState(seed))
    for others, block in blocks:
        found[block] = weighted_sum(choose(held_out.take(others)), held_out.predicted[:, block])
    return found


def score_choice(held_out: HeldOut, chosen: Array, cross_fitted: Array) -> Score:
    r"""Score of a chosen model, corrected for the choice.

    .. math:: s = s_{cf} - \max(s_{chosen} - s_{cf}, 0) - (k - 1) / n

    Parameters
    ----------
    held_out : HeldOut
        Of the candidates.
    chosen : ndarray of shape (n_bags, n_outputs)
        Held-out predictions of what was chosen, by all bags.
    cross_fitted : ndarray of shape (n_bags, n_outputs)
        Those of choices without the bag, see :func:`cross_fit`.

    Notes
    -----
    The second term stands for the settings of heads. The last one is for k classes in n bags: folds with equal shares
    of the classes have those of the held-out bag in them, which makes the log loss of a constant too good by this much.

    The corrections are known to about their own size, so their sum is part of the standard error.
    """
    naive = held_out.score(chosen)
    honest = held_out.score(cross_fitted)
    value = honest.value - max(naive.value - honest.value, 0.0)
    if held_out.n_classes is not None:
        value -= (held_out.n_classes - 1) / held_out.n_units
    error = max(naive.standard_error, honest.standard_error)
    return Score(value, float(np.hypot(error, naive.value - value)))
