r"""Which word a comparison deserves: better, worse, equal within the margin, or undecided.

    scores -> difference, its standard error -> Holm's levels over a page -> interval -> word

A difference is called better or worse where an interval around it has no zero in it, equal within the margin where the
interval lies between -margin and +margin, and undecided otherwise: that two methods are not told apart does not mean
that they are equal. The margin is the least difference that matters. Of k claims some are false by chance; Holm's rule
(1979, A simple sequentially rejective multiple test procedure) judges the clearest at the level α/k, the next at
α/(k - 1), and so on up to the first that fails, so that all claims of one kind are right with a probability of 1 - α.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import stats

from distembed.compute.arrays import Array

ALPHA = 0.05
BETTER = "better"
WORSE = "worse"
EQUAL = "equal within the margin"
UNDECIDED = "undecided"
# What a word makes of a claim of the paper.
CONFIRMED = {
    "better": {BETTER: "confirmed", WORSE: "refuted", EQUAL: "refuted", UNDECIDED: UNDECIDED},
    "equal": {BETTER: "refuted", WORSE: "refuted", EQUAL: "confirmed", UNDECIDED: UNDECIDED},
    "not worse": {BETTER: "confirmed", WORSE: "refuted", EQUAL: "confirmed", UNDECIDED: UNDECIDED},
}

Key = TypeVar("Key", bound=Hashable)


class Difference(NamedTuple):
    """A mean difference, and what is known of it: its standard error and that error's degrees of freedom.

    Examples
    --------
    >>> found = Difference(0.5, 0.1, 2)
    >>> [round(end, 3) for end in found.interval()]
    [0.07, 0.93]
    >>> round(found.chance_of_none(), 3)
    0.038
    """

    mean: float
    error: float = float("nan")
    freedom: float = 1

    def interval(self, level: float = ALPHA) -> tuple[float, float]:
        """Student's interval, which misses the true difference with a probability of ``level``."""
        half = float(stats.t.isf(level / 2, self.freedom)) * self.error
        return self.mean - half, self.mean + half

    def chance_of_none(self) -> float:
        """The largest level at which the interval holds zero: the p value of no difference."""
        return self._tail(abs(self.mean))

    def chance_of_more(self, margin: float) -> float:
        """The largest level at which the interval leaves -margin to +margin: twice the p of two one-sided tests."""
        return self._tail(max(margin - abs(self.mean), 0.0))

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return float(distance == 0)
        return float(2 * stats.t.sf(distance / self.error, self.freedom))

    def told(self, digits: int, scale: float = 1.0) -> str:
        """The difference and its 95 % interval as text.

        Examples
        --------
        >>> Difference(0.5, 0.1, 2).told(2)
        '+0.50, 95 % interval +0.07 to +0.93'
        """
        mean, low, high = (f"{scale * value:+.{digits}f}" for value in (self.mean, *self.interval()))
        return mean if np.isnan(self.error) else f"{mean}, 95 % interval {low} to {high}"


def over_repetitions(differences: Any, overlap: float = 0.0) -> Difference:
    """The mean of paired differences over repetitions.

    The variance of the mean of J differences is taken as (1/J + overlap) s². Independent repetitions have no overlap;
    random splits of the same rows have n_test/n_train (Nadeau and Bengio 2003, Inference for the generalization error).
    Where more rows are tested than trained on, that is a wide interval.

    Parameters
    ----------
    differences : array-like of shape (n_repetitions,)
        Of a single one, nothing but the difference is known.
    overlap : float

    Examples
    --------
    >>> [round(value, 3) for value in over_repetitions([0.5, 0.4, 0.6]).interval()]
    [0.252, 0.748]
    >>> [round(value, 3) for value in over_repetitions([0.01, 0.02, 0.03], overlap=0.5).interval()]
    [-0.019, 0.059]
    """
    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return Difference(mean)
    return Difference(mean, float(np.std(differences, ddof=1) * np.sqrt(1 / n + overlap)), n - 1)


def over_bags(losses: Array, others: Array) -> Difference:
    """The mean of ``losses - others``, two methods' losses of the same test bags, 0 where a bag is classified rightly.

    As if two bags were added, on which each method is wrong by half where the other is right (Agresti and Min 2005,
    Simple improved confidence intervals for comparing matched proportions): methods that agree on ten bags may differ
    on the next ones.

    Parameters
    ----------
    losses, others : ndarray of shape (n_bags,)
        Of a mean of one where all bags are classified wrongly.

    Examples
    --------
    >>> wrong = np.repeat([0.0, 1.0], [7, 3])
    >>> [round(value, 2) for value in over_bags(wrong, wrong).interval()]
    [-0.19, 0.19]
    """
    apart = losses - others
    n = len(apart) + 2
    variance = (np.sum(apart**2) + 1 - np.sum(apart) ** 2 / n) / n**2
    return Difference(float(np.mean(apart)), float(np.sqrt(variance)), len(apart) - 1)


def over_rows(scores: Array, others: Array, tested: Array) -> Difference:
    """The mean of ``scores - others`` over rows that several splits test, each with all of its tests together.

    A row that is hard for one split is hard for the next, so rows are the units, not tests: with r_i the sum over its
    tests of the difference less the mean, the error is the root of the sum of r_i² over the number of tests. It is that
    of other test rows, with the training rows as they are.

    Parameters
    ----------
    scores, others : ndarray of shape (n_splits, n_rows)
        Of two methods.
    tested : ndarray of shape (n_splits, n_rows) of bool
        Which of them count.

    Examples
    --------
    >>> tested = np.ones((2, 100), bool)
    >>> better = np.repeat([[1.0], [1.0]], 100, axis=1)
    >>> worse = np.where(np.arange(100) < 20, 0.0, better)
    >>> [round(value, 2) for value in over_rows(better, worse, tested).interval()]
    [0.12, 0.28]
    """
    apart = np.where(tested, scores - others, 0.0)
    times = tested.sum(axis=0)
    mean = float(apart.sum() / times.sum())
    rest = (apart.sum(axis=0) - mean * times)[times > 0]
    n = len(rest)
    return Difference(mean, float(np.sqrt(np.sum(rest**2) * n / (n - 1)) / times.sum()), n - 1)


def word(low: float, high: float, margin: float, *, more_is_better: bool = False) -> str:
    """The word for an interval of a difference; of errors, unless more is better.

    Examples
    --------
    >>> word(0.1, 0.3, 0.05), word(-0.1, 0.3, 0.05), word(-0.01, 0.03, 0.05), word(-0.3, -0.1, 0.05)
    ('worse', 'undecided', 'equal within the margin', 'better')
    >>> word(0.1, 0.3, 0.05, more_is_better=True), word(float("nan"), float("nan"), 0.05)
    ('better', 'undecided')
    """
    if -margin < low and high < margin:
        return EQUAL
    below, above = (WORSE, BETTER) if more_is_better else (BETTER, WORSE)
    return below if high < 0 else above if low > 0 else UNDECIDED


def holm(p_values: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """Levels at which claims are judged together: p is significant where it is at most its level.

    Examples
    --------
    >>> [round(level, 4) for level in holm([0.01, 0.04, 0.03, 0.005])]  # two of four: 0.03 is above 0.05 / 2
    [0.0167, 0.025, 0.025, 0.0125]
    """
    order = np.argsort(p_values)
    n = len(p_values)
    steps = alpha / (n - np.arange(n))
    failing = np.flatnonzero(np.asarray(p_values)[order] > steps)
    if len(failing):
        steps[failing[0] :] = steps[failing[0]]
    levels = np.empty(n)
    levels[order] = steps
    return [float(level) for level in levels]


def judge(differences: Mapping[Key, Difference], margin: float, *, more_is_better: bool = False) -> dict[Key, str]:
    """Words for all comparisons of a page, after Holm's correction over them.

    Claims that methods differ are one family, claims that they are equal another one, of a level of 5 % each.

    Parameters
    ----------
    differences : mapping of anything to Difference
    margin : float
        The least difference that matters.
    more_is_better : bool, default=False
        Whether differences are of accuracies, not of errors.

    Examples
    --------
    >>> one = Difference(-0.5, 0.15, 9)
    >>> judge({"a": one}, 0.1), judge({i: one for i in range(9)}, 0.1)[0]
    ({'a': 'better'}, 'undecided')
    """
    known = {key: each for key, each in differences.items() if not np.isnan(each.error)}
    differ = holm([each.chance_of_none() for each in known.values()])
    equal = holm([each.chance_of_more(margin) for each in known.values()])
    found = dict.fromkeys(differences, UNDECIDED)
    for (key, each), of_difference, of_equality in zip(known.items(), differ, equal, strict=True):
        found[key] = word(*each.interval(of_equality), margin)
        if found[key] != EQUAL:
            found[key] = word(*each.interval(of_difference), 0.0, more_is_better=more_is_better)
    return found


def rule(n_claims: int, margin: str, where: str = "on this page") -> str:
    """The paragraph of a page that says what its words mean.

    Parameters
    ----------
    n_claims : int
    margin : str
        The margin of its score, and why it is that.
    where : str
    """
    return (
        "**Words.** A method is better or worse than another, equal to it within the margin, or the comparison is "
        f"undecided. The margin is {margin}. Words come after Holm's correction over the {n_claims} comparisons "
        f"{where}, at α = 5 % for claims that methods differ, and 5 % for claims that they are equal: the clearest is "
        f"judged at 5 %/{n_claims}, the next at 5 %/{max(n_claims - 1, 1)}, and so on up to the first that fails. "
        "Intervals that are shown are those of one comparison, 95 %, so that a comparison can be undecided though its "
        "interval does not hold zero: the interval is for who asks about these two methods alone, the word for who "
        "reads the whole page."
    )
