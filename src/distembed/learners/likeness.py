r"""Whether bags are like those of the training: a p-value of each bag, of all together, and the columns that differ.

    bags -> compact rows, standardised for their size -> distance from the training bags -> rank among held-out ones

A bag's distance is T = zᵀ (R + ρ I)⁻¹ z, where z is its compact row (:mod:`distembed.learners.compact_rows`) and R the
correlation of those of the training bags; with the features of one column alone it is a distance in this column. Each
training bag has one too, with mean, variances and R of the others. Logarithms of T are compared at equal sizes: with
the mean and the deviation that training bags of about this size have. What is odd about a bag is all of it, or one
column: its oddness O is the sum of the whole distance and of the largest of a column. The p-value of a bag is the share
of the n training bags that are at least as odd,

.. math:: p = \frac{1 + \#\{i: O_i \ge O\}}{n + 1},

so it is uniform for bags like the training bags, and never below 1 / (n + 1).

Bags that are each unremarkable may differ as a group. Three statistics of the group are compared with those of
random groups of all bags, drawn from bags of about equal sizes: distances of means from those of the training bags,
with and without the correlation of features, and the mean rank of oddness. The p-value of the group is that of the
least of their three p-values. Bags that are less odd than the training bags, such as these themselves, are not unlike.

*Cost*: compact rows, some n_features² numbers, and for the group a thousand draws of at most 512 bags.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import rankdata

from ..bags import Bags, as_bags
from ..compute.arrays import Array
from ..compute.checks import pandas_for
from ..compute.registry import storable
from .compact_rows import CompactRows, LabelBins

MOST_BAGS = 1000  # that are kept
MOST_BYTES = 100_000  # of their compact rows
MOST_POINTS = 500_000  # of the bags that are kept
MOST_IN_GROUP = 256  # bags on either side
N_DRAWS = 999  # of random groups
CLEAR = 0.002  # p-value of a group that earns a warning
MOST_WIDENING = 10.0  # factor of the widths of intervals
FEWEST_TO_WIDEN = 10  # training bags, below which intervals of unlike bags stay as they are
FAR = 0.01  # share of points outside that earns a warning, where they are of
FAR_BAGS = 0.25  # this share of the bags: other units are those of all bags
_RIDGE = 0.3
_FARTHEST = 30.0  # deviations that count
_UNIT = 16.0  # of a byte that holds a deviation
_FEW_FOR_FAR = 30  # training bags: their range is known to its own size
_N_STRATA = 5
_N_KNOTS = 12  # sizes at which usual distances are known
_FEW_IN_STRATUM = 25


_compares = ContextVar("compares", default=True)


@dataclass(frozen=True, eq=False, repr=False)
class Likeness:
    """Whether bags are like the training bags.

    Attributes
    ----------
    pvalues : ndarray of shape (n_bags,)
        The share of the training bags that are as far from the others, at the size of this bag; in (0, 1], uniform
        for bags like the training bags.
    column_scores : ndarray of shape (n_bags, n_columns)
        How odd a bag is in each column: about 0 for usual bags, and deviations above it; larger is odder.
    column_names : tuple of str
        Columns of the points, then covariates.
    group_pvalue : float
        Of all bags together, uniform for bags like the training bags; nan below two bags.
    group_scores : ndarray of shape (n_columns,)
        How much the bags as a group differ in each column: about 1 for usual groups; larger is odder.
    oddness : ndarray of shape (n_bags,)
        The distance behind the p-value: the logarithms of the whole and of that in the oddest column, in deviations
        from those of usual bags of equal size.
    ids : ndarray of shape (n_bags,)
        Of the bags.

    See Also
    --------
    DistributionRegressor.likeness : Of the bags that a learner is asked about.
    """

    pvalues: Array
    column_scores: Array
    column_names: tuple[str, ...]
    group_pvalue: float
    group_scores: Array
    oddness: Array
    ids: Array

    @property
    def odd_columns(self) -> list[str]:
        """The column in which each bag is oddest."""
        return [self.column_names[j] for j in self.column_scores.argmax(axis=1)]

    @property
    def group_columns(self) -> list[str]:
        """Columns by how much the bags as a group differ in them, those that differ most first."""
        return [self.column_names[j] for j in np.argsort(-self.group_scores, kind="stable")]

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each bag: p-value, the oddest column, and the score of each column."""
        pandas = pandas_for("Likeness.to_frame")
        found = pandas.DataFrame({"pvalue": self.pvalues, "odd_column": self.odd_columns}, index=self.ids)
        scores = pandas.DataFrame(self.column_scores, index=self.ids, columns=list(self.column_names))
        return found.join(scores.add_prefix("score_"))

    def __len__(self) -> int:
        return len(self.pvalues)

    def __repr__(self) -> str:
        group = "" if np.isnan(self.group_pvalue) else f", group_pvalue={self.group_pvalue:.3g}"
        lowest = f", least p-value {self.pvalues.min():.3g}" if len(self) else ""
        return f"Likeness({len(self)} bags{lowest}{group})"


@storable(features="int(n, k)", sizes="finite(n)", oddness="finite(n)", knots="finite(g)", location="finite(g, q)",
          spread="finite(g, q)", column_names="list[text]", covariate_owners="int(_)")  # fmt: skip
@dataclass(frozen=True, eq=False)
class Reference:
    """What is kept of training bags, for new bags to be compared with.

    Parameters
    ----------
    rows : CompactRows
        Of the points of bags.
    covariate_rows : CompactRows or None
        Of their covariates.
    covariate_owners : ndarray of shape (n_encoded,)
        Which covariate an encoded one belongs to.
    column_names : tuple of str
        Columns of the points, then covariates.
    features : ndarray of int8 of shape (n_bags, n_features)
        Standardised compact rows, each by the law of the other bags, in sixteenths of a deviation.
    sizes : ndarray of shape (n_bags,)
        Points of each bag.
    oddness : ndarray of shape (n_bags,)
        Of the training bags, each held out.
    knots : ndarray of shape (n_knots,)
        Logarithms of sizes at which the next two are known.
    location, spread : ndarray of shape (n_knots, 1 + n_columns)
        Mean and deviation of logarithms of distances.

    Notes
    -----
    Of many bags at most 1,000 are kept, drawn at random, and fewer if there are more than a few hundred features, so
    this is not more than some 100 kB. Points of a bag beyond 5,000 are thinned out.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> sizes = rng.integers(2, 100, size=130)
    >>> bags = de.Bags.from_arrays([rng.normal(size=(n, 2)) for n in sizes], columns=["u", "v"])
    >>> reference, own = Reference.learn(bags[:100])
    >>> found = reference.compare(bags[100:])
    >>> bool(found.group_pvalue > 0.05), bool(0.3 < found.pvalues.mean() < 0.7)
    (True, True)
    >>> other = bags[100:].replace(points=bags[100:].points * [1, 2])
    >>> found = reference.compare(other)
    >>> found.group_pvalue, found.group_columns[0]
    (0.001, 'v')
    """

    rows: CompactRows
    covariate_rows: CompactRows | None
    covariate_owners: Array
    column_names: tuple[str, ...]
    features: Array
    sizes: Array
    oddness: Array
    knots: Array
    location: Array
    spread: Array

    def __distembed_fits__(self) -> bool:
        n_points, n_covariates = len(self.rows.columns), len(self.column_names) - len(self.rows.columns)
        owners = self.covariate_owners
        known = owners.size == 0 or (owners.min() >= 0 and owners.max() < n_covariates)
        rows = self.covariate_rows
        whole = (rows is None) == (owners.size == 0) and (rows is None or len(rows.columns) == len(owners))
        widths = self.features.shape[1] == len(self._owners) and self.location.shape[1] == 1 + len(self.column_names)
        return bool(known and whole and widths and n_points > 0 and (self.spread > 0).all() and len(self.sizes) > 0)

    def __distembed_claims__(self) -> float:
        return 24.0 * int(self.features.shape[1]) ** 2  # R, a copy, and its factor

    @classmethod
    def learn(
        cls, bags: Any, covariates: Array | None = None, covariate_names: Sequence[str] = ()
    ) -> tuple[Reference, Likeness]:
        """Look at training bags.

        Parameters
        ----------
        bags : Bags or anything that :func:`distembed.as_bags` reads
            Training bags; empty ones are left out.
        covariates : ndarray of shape (n_bags, n_encoded), optional
            Encoded covariates.
        covariate_names : sequence of str
            The covariate that each column of these belongs to.

        Returns
        -------
        reference : Reference
        own : Likeness
            Of the training bags themselves, each held out where it is one of those that are kept; without a p-value of
            the group.
        """
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        made, kept, held_out = cls._of(bags, covariates, covariate_names)
        return made, made._held_out(made.compare(bags, covariates, group=False), kept, held_out)

    @classmethod
    def of(cls, bags: Bags, covariates: Array | None = None, covariate_names: Sequence[str] = ()) -> Reference:
        """The reference alone, as of :meth:`learn`."""
        return cls._of(bags, covariates, covariate_names)[0]

    @classmethod
    def _of(
        cls, bags: Bags, covariates: Array | None, covariate_names: Sequence[str]
    ) -> tuple[Reference, Array, Array]:
        """A reference, the positions of the bags that are kept, and their held-out scores."""
        names = bags.columns or tuple(f"x{j}" for j in range(bags.n_dims))
        distinct = list(dict.fromkeys(covariate_names))
        owners = np.array([distinct.index(name) for name in covariate_names], int)
        some = _drawn(bags, MOST_BAGS)
        rows, t, inside, n = CompactRows.learn(bags[some])
        held = rows.held_out(t, inside, n)
        others = None
        if covariates is not None:
            others, t, inside, one = CompactRows.learn(_as_points(covariates[some]), plain=True)
            held = np.hstack([held, others.held_out(t, inside, one)])
        kept = _drawn(bags[some], max(50, MOST_BYTES // held.shape[1]))
        features = np.round(np.clip(held[kept] * _UNIT, -127, 127)).astype(np.int8)
        nothing = np.empty((0, 0))
        made = cls(rows, others, owners, (*names, *distinct), features, n[kept], *[np.empty(0)] * 2, *[nothing] * 2)
        logs = made._log_distances(held[kept], own=True)
        x = np.log(made.sizes)
        width = max(float(x.std()) * len(x) ** -0.2, 1e-6)
        knots = np.unique(np.linspace(x.min(), x.max(), _N_KNOTS))
        location, spread = _smooth(knots, x, logs, width)
        own, its_spread = _smooth(x, x, logs, width, without_own=True)
        scores = _with_oddness((logs - own) / its_spread)
        made = replace(made, oddness=scores[:, 0], knots=knots, location=location, spread=spread)
        return made, some[kept], scores

    def compare(self, bags: Any, covariates: Array | None = None, group: bool = True) -> Likeness:
        """Likeness of bags.

        Parameters
        ----------
        bags : Bags or anything that :func:`distembed.as_bags` reads
            With the columns of the training bags.
        covariates : ndarray of shape (n_bags, n_encoded), optional
            Encoded, if the training bags had some.
        group : bool, default=True
            Whether to compare them as a group, too.
        """
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        z, sizes = self._standardised(bags, covariates)
        scores = self._for_size(self._log_distances(z), sizes)
        scores[sizes == 0] = np.where(np.arange(scores.shape[1]) == 0, -_FARTHEST, 0.0)  # nothing about them is odd
        odder = len(self.oddness) - np.searchsorted(np.sort(self.oddness), scores[:, 0] - 1e-9)
        pvalues = (1 + odder) / (len(self.oddness) + 1)
        p, differ = np.nan, np.full(len(self.column_names), np.nan)
        if group and len(z) > 1:
            p, differ = self._compare_group(z, sizes, scores)
        return Likeness(pvalues, scores[:, 1:], self.column_names, p, differ, scores[:, 0], bags.ids)

    def why_unlike(self, bags: Any, covariates: Array | None = None) -> str:
        """Why predictions for these bags are to be distrusted; empty if they are like the training bags.

        Three things are looked at: points far outside of the range of those of the training bags; the bags as a group,
        at a p-value that bags like the training bags have in two of a thousand tables; and bags that are odder than any
        training bag by more than this one is odder than half of them, and by more where training bags are few.
        """
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        some = _drawn(bags, MOST_IN_GROUP)
        if not len(some):
            return ""
        bags = bags[some]
        far = self._far_points(bags)
        if far:
            return far
        found = self.compare(bags, None if covariates is None else covariates[some])
        if found.group_pvalue <= CLEAR:
            names = _few_names([found.column_names[j] for j in _clear(found.group_scores)])
            return (
                f"these {len(some)} bags as a group differ from the training bags (p = {found.group_pvalue:.3f}), most "
                f"of all in {names}"
            )
        own = self.oddness
        beyond = (1 + _FEW_FOR_FAR / len(own)) * (own.max() - np.median(own))
        far_bags = np.flatnonzero(found.oddness > own.max() + beyond)
        if len(far_bags):
            i = far_bags[found.oddness[far_bags].argmax()]
            return (
                f"{len(far_bags)} of {len(some)} bags are far from all training bags, such as {plain(found.ids[i])!r}, "
                f"most of all in {found.odd_columns[i]!r}"
            )
        return ""

    def widening(self, bags: Any, covariates: Array | None = None) -> Array:
        r"""Factors of widths of intervals, ndarray of shape (n_bags,): 1 for bags no odder than all training bags.

        .. math:: \exp \frac{O - \max_i O_i}{\max_i O_i - \mathrm{median}_i O_i}, \qquad \text{at most } 10,

        for odder ones. Oddness is a logarithm, so widths grow as a power of the distance. Nothing is known of such
        bags: this is a rule, not an estimate. Of fewer than ten training bags there is no range to speak of, and all
        factors are 1.
        """
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        own = self.oddness
        unit = float(own.max() - np.median(own))
        if len(own) < FEWEST_TO_WIDEN or not unit > 0:
            return np.ones(bags.n_bags)
        beyond = (self.compare(bags, covariates, group=False).oddness - own.max()) / unit
        return np.asarray(np.exp(np.clip(beyond, 0.0, np.log(MOST_WIDENING))))

    # Distances

    @property
    def _owners(self) -> Array:
        """Which two columns each feature belongs to, ndarray of shape (n_features, 2)."""
        if self.covariate_rows is None:
            return self.rows.owners
        return np.concatenate(
            [self.rows.owners, len(self.rows.columns) + self.covariate_owners[self.covariate_rows.owners]]
        )

    def _standardised(self, bags: Bags, covariates: Array | None) -> tuple[Array, Array]:
        means, _, sizes = self.rows.means(bags)
        z = self.rows.standardise(means, sizes)
        if self.covariate_rows is not None:
            assert covariates is not None
            means, _, one = self.covariate_rows.means(_as_points(covariates))
            z = np.hstack([z, self.covariate_rows.standardise(means, one)])
        return np.clip(z, -_FARTHEST, _FARTHEST), sizes

    def _log_distances(self, z: Array, own: bool = False) -> Array:
        """Logarithms of T, as a whole and of each column, ndarray of shape (n_bags, 1 + n_columns).

        ``own``: these are the bags that R was made of; each is compared with R without it.
        """
        kept = self.features / _UNIT
        R = kept.T @ kept / len(kept)
        R[np.diag_indices(len(R))] += _RIDGE
        owners = self._owners
        found = np.empty((len(z), 1 + len(self.column_names)))
        for j in range(found.shape[1]):
            mine = np.arange(len(R)) if j == 0 else np.flatnonzero((owners == j - 1).any(axis=1))
            factor = cho_factor(R[np.ix_(mine, mine)], lower=True)
            x = np.clip(z[:, mine], -_FARTHEST, _FARTHEST)
            T = np.einsum("ik,ki->i", x, cho_solve(factor, x.T))
            if own:  # by Sherman and Morrison
                y = kept[:, mine]
                solved = cho_solve(factor, y.T)
                q = np.einsum("ik,ki->i", y, solved)
                T += np.einsum("ik,ki->i", x, solved) ** 2 / np.maximum(len(kept) - q, 1e-3)
            found[:, j] = np.log(T + 0.1 * len(mine))
        return found

    def _for_size(self, logs: Array, sizes: Array) -> Array:
        """Logarithms of distances, relative to those of training bags of these sizes."""
        x = np.log(np.maximum(sizes, 1.0))
        columns = range(logs.shape[1])
        location = np.stack([np.interp(x, self.knots, self.location[:, j]) for j in columns], axis=1)
        spread = np.stack([np.interp(x, self.knots, self.spread[:, j]) for j in columns], axis=1)
        return _with_oddness((logs - location) / spread)

    def _held_out(self, found: Likeness, kept: Array, held_out: Array) -> Likeness:
        """Likeness of training bags, with the scores of those that are kept when they were held out."""
        pvalues, scores, oddness = found.pvalues.copy(), found.column_scores.copy(), found.oddness.copy()
        pvalues[kept] = rankdata(-self.oddness, method="max") / len(kept)
        scores[kept] = held_out[:, 1:]
        oddness[kept] = held_out[:, 0]
        return replace(found, pvalues=pvalues, column_scores=scores, oddness=oddness)

    # The group

    def _compare_group(self, z: Array, sizes: Array, scores: Array) -> tuple[float, Array]:
        """The p-value of bags as a group, and how much they differ in each column."""
        kept = np.random.RandomState(0).permutation(len(self.sizes))[:MOST_IN_GROUP]
        some = np.random.RandomState(1).permutation(np.flatnonzero(sizes > 0))[:MOST_IN_GROUP]
        if len(some) < 2:
            return np.nan, np.full(len(self.column_names), np.nan)
        limit = 127 / _UNIT
        Z = np.concatenate([self.features[kept] / _UNIT, np.clip(z[some], -limit, limit)])
        odd = rankdata(np.concatenate([self.oddness[kept], scores[some, 0]]))
        n = np.concatenate([self.sizes[kept], sizes[some]])
        is_new = np.arange(len(Z)) >= len(kept)
        strata = _strata(n, self.sizes[kept])
        centred = _within(Z, strata)
        odd = _within(odd[:, None], strata)
        draws = _draws(is_new, strata, np.random.RandomState(2))
        statistics = np.stack([
            ((draws @ centred.astype(np.float32)) ** 2).sum(axis=1),
            ((draws @ _whitened(centred).astype(np.float32)) ** 2).sum(axis=1),
            draws @ odd[:, 0].astype(np.float32),
        ])  # fmt: skip
        ranks = np.array([rankdata(-each, method="max") for each in statistics]).min(axis=0)
        p = float(np.mean(ranks <= ranks[0]))
        shift = (draws[0] @ centred) ** 2
        usual = ((draws[1:] @ centred) ** 2).mean(axis=0)
        relative = np.divide(shift, usual, out=np.ones_like(shift), where=usual > 1e-12)
        owners = self._owners
        mine = [(owners == j).any(axis=1) for j in range(len(self.column_names))]
        return p, np.array([relative[of].mean() for of in mine])

    def _far_points(self, bags: Bags) -> str:
        """Whether points are further outside than the training points are apart, in one column of many bags."""
        owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
        most, name = 0, ""
        for j, bins in enumerate(self.rows.columns):
            if isinstance(bins, LabelBins):
                continue
            low, high = float(bins.edges[0]), float(bins.edges[-1])
            width = high - low if high > low else abs(low)
            x = bags.points[:, j]
            far = (x < low - width) | (x > high + width)
            if bags.weights is not None:
                far &= bags.weights > 0
            n_far = int(far.sum())
            if n_far > max(most, FAR * len(x)) and len(np.unique(owner[far])) >= FAR_BAGS * bags.n_bags:
                most, name = n_far, self.column_names[j]
        if not name:
            return ""
        return (
            f"more than {FAR:.0%} of the points lie outside the range of the training points by more than its width, "
            f"most of them in {name!r}; see that they have the columns of fit, in the same order and units"
        )


def _drawn(bags: Bags, most: int) -> Array:
    """At most this many bags that are not empty, and only some of those with very many points, by positions."""
    there = np.flatnonzero(bags.sizes > 0)
    order = np.random.RandomState(0).permutation(len(there))[:most]
    taken = np.cumsum(np.minimum(bags.sizes[there[order]], 5000))
    n = max(20, int(np.searchsorted(taken, MOST_POINTS, side="right")))
    return np.sort(there[order[:n]])


def _as_points(covariates: Array) -> Bags:
    """Covariates as bags of one point."""
    values = np.asarray(covariates, np.float64)
    return Bags(values, np.arange(len(values) + 1))


def _with_oddness(distances: Array) -> Array:
    """Distances of bags, with the sum of the first and the largest of the others in place of the first."""
    return np.column_stack([distances[:, 0] + distances[:, 1:].max(axis=1), distances[:, 1:]])


def _smooth(at: Array, x: Array, values: Array, width: float, without_own: bool = False) -> tuple[Array, Array]:
    """Mean and deviation of values near points, drawn a little to those of all."""
    near = np.exp(-0.5 * ((at[:, None] - x) / width) ** 2)
    near += 5.0 / len(x)
    if without_own and len(x) > 1:
        np.fill_diagonal(near, 0.0)
    near /= near.sum(axis=1, keepdims=True)
    mean = near @ values
    variance = near @ values**2 - mean**2
    least = 1e-3 + 0.01 * values.std(axis=0)
    return mean, np.maximum(np.sqrt(np.maximum(variance, 0.0)), least)


def _strata(sizes: Array, known: Array) -> Array:
    """Bags of about equal sizes: number of the stratum of each, by quantiles of the training bags."""
    n = int(np.clip(len(known) // _FEW_IN_STRATUM, 1, _N_STRATA))
    limits = np.unique(np.quantile(known, np.linspace(0, 1, n + 1)[1:-1]))
    return np.asarray(np.searchsorted(limits, sizes))


def _within(values: Array, strata: Array) -> Array:
    """Values less the mean of their stratum."""
    counts = np.bincount(strata)
    means = np.stack([np.bincount(strata, column) for column in values.T], axis=1) / np.maximum(counts, 1)[:, None]
    return np.asarray(values - means[strata])


def _draws(is_new: Array, strata: Array, rng: np.random.RandomState) -> Array:
    """The group, then random ones with as many bags of each stratum, of 0 and 1, shape (1 + N_DRAWS, n_bags)."""
    found = np.zeros((1 + N_DRAWS, len(is_new)), np.float32)
    found[0] = is_new
    for each in np.unique(strata):
        mine = np.flatnonzero(strata == each)
        m = int(is_new[mine].sum())
        if m in (0, len(mine)):
            found[1:, mine] = m > 0
            continue
        chosen = np.argpartition(rng.uniform(size=(N_DRAWS, len(mine))), m - 1, axis=1)[:, :m]
        found[1 + np.arange(N_DRAWS)[:, None], mine[chosen]] = 1.0
    return found


def _whitened(centred: Array) -> Array:
    """Features of bags without their correlation."""
    R = centred.T @ centred / len(centred)
    R[np.diag_indices(len(R))] += _RIDGE
    return np.asarray(np.linalg.solve(np.linalg.cholesky(R), centred.T).T)


def _clear(scores: Array) -> Array:
    """Columns that differ clearly, those that differ most first, and at least one: at most three."""
    order = np.argsort(-scores, kind="stable")[:3]
    clear = (scores[order] > max(3.0, 0.25 * scores[order[0]])) | (np.arange(len(order)) == 0)
    return np.asarray(order[clear])


@contextmanager
def without_comparing() -> Iterator[None]:
    """Where bags are made up, such as by permutations: models do not compare them with the training bags."""
    before = _compares.set(False)
    try:
        yield
    finally:
        _compares.reset(before)


def warn_if_unlike(learner: object, reference: Reference, bags: Bags, covariates: Array | None) -> None:
    """Warn, in the name of a learner, of bags that are unlike its training bags, see :meth:`Reference.why_unlike`."""
    reason = reference.why_unlike(bags, covariates) if _compares.get() else ""
    if reason:
        warn_outside(f"{type(learner).__name__}: {reason}. Predictions for such bags err more, see likeness")


def warn_outside(text: str) -> None:
    """Warn at the line of the caller of this package."""
    package = __name__.partition(".")[0]
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
        level += 1
    warnings.warn(text, UserWarning, stacklevel=level)


def plain(name: Any) -> Any:
    """A number or text of NumPy as one of Python."""
    return name.item() if isinstance(name, np.generic) else name


def _few_names(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
