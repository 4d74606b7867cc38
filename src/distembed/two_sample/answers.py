"""What tests return, and p-values from permuted statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import check_number, pandas_for

RELATIVE = 1e-9  # of the largest statistic: sums of the same numbers in another order
_ROWS_SHOWN = 12
_UNITS = {"points": ("bags", "splits"), "bags": ("groups", "splits"), "pairs": ("groups", "swaps")}


# --------------------------------------------------------------------------------------------------------------
# p-values
# --------------------------------------------------------------------------------------------------------------


def p_value(values: Array, rounding: float = 0.0) -> float:
    """(1 + #{permuted >= observed}) / (1 + n_permutations), for the observed value first and the permuted ones.

    Equal statistics come out of sums in different orders and so differ by rounding. Values that are below the observed
    one by no more than that count as equal: a tie must never look like evidence. The tolerance is 1e-9 of the largest
    value, and what the terms of the statistic round off, where those are larger than the statistic itself.

    Parameters
    ----------
    values : ndarray of shape (n_permutations + 1,)
        Statistics.
    rounding : float
        Rounding error of a statistic, absolute.

    Returns
    -------
    float

    Examples
    --------
    >>> p_value(np.array([2.0, 1.0, 3.0, 0.0])), p_value(np.full(4, 0.1))
    (0.5, 1.0)
    """
    slack = max(rounding, RELATIVE * float(np.max(np.abs(values))))
    return float(np.mean(values >= values[0] - slack))


def step_down(values: Array, rounding: float = 0.0) -> Array:
    """p-values of several hypotheses, adjusted so that the chance of any false one at all is controlled.

    Westfall and Young's step-down max-T: the largest observed statistic is compared with the largest of each
    permutation, the next one with the largest of the others, and so on. That is closed testing by maxima.

    Parameters
    ----------
    values : ndarray of shape (n_permutations + 1, n_hypotheses)
        Statistics in comparable units, large where a hypothesis is wrong; the observed ones first.
    rounding : float
        Rounding error of a statistic, absolute.

    Returns
    -------
    ndarray of shape (n_hypotheses,)

    Examples
    --------
    >>> step_down(np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0], [4.0, 0.0]]))
    array([0.5, 1. ])
    """
    order = np.argsort(-values[0], kind="stable")
    largest = np.maximum.accumulate(values[:, order[::-1]], axis=1)[:, ::-1]  # of this hypothesis and those after it
    slack = max(rounding, RELATIVE * float(np.max(np.abs(values))))
    p = np.maximum.accumulate(np.mean(largest >= values[0, order] - slack, axis=0))
    adjusted = np.empty_like(p)
    adjusted[order] = p
    return adjusted


# --------------------------------------------------------------------------------------------------------------
# Answers
# --------------------------------------------------------------------------------------------------------------


def how_many(n_permutations: int, exhaustive: bool, permuted: str) -> str:
    """How many permutations there were, for a sentence."""
    return f"all {n_permutations + 1} {_UNITS[permuted][1]}" if exhaustive else f"{n_permutations} permutations"


@dataclass(frozen=True, eq=False)
class TestResult:
    """Answer of :func:`bags_test` and :func:`groups_test`; ``print`` shows it in a line.

    Attributes
    ----------
    statistic : float
        The observed statistic.
    pvalue : float
        (1 + #{null >= statistic}) / (1 + n_permutations), where values within rounding of the statistic count.
    n_permutations : int
        Permutations in ``null``; fewer than asked for if there are no more.
    exhaustive : bool
        Whether these are all distinct permutations, so the p-value has no randomness.
    null : ndarray of shape (n_permutations,)
        Statistics of the permutations.
    divergence : str
        Name of the divergence.
    sizes : tuple of int
        Numbers of points, or of bags, in the two parts.
    permuted : {"points", "bags", "pairs"}
        What changed places.

    Examples
    --------
    >>> from distembed.two_sample import bags_test
    >>> result = bags_test([0.0, 0.1, 0.2, 0.3], [5.0, 5.1, 5.2, 5.3])
    >>> print(result)
    p = 0.0286 (all 35 splits): the bags differ
    >>> result.sizes, result.n_permutations, round(35 * result.pvalue)
    ((4, 4), 34, 1)
    """

    __test__: ClassVar[bool] = False  # no test case of pytest, whatever its name

    statistic: float
    pvalue: float
    n_permutations: int
    exhaustive: bool
    null: Array = field(repr=False)
    divergence: str
    sizes: tuple[int, int]
    permuted: str

    def __str__(self) -> str:
        what = _UNITS[self.permuted][0]
        verdict = f"the {what} differ" if self.pvalue <= 0.05 else f"no sign that the {what} differ"
        return f"p = {self.pvalue:.3g} ({how_many(self.n_permutations, self.exhaustive, self.permuted)}): {verdict}"

    def _repr_html_(self) -> str:
        from ..compute.svg import html_table, sparkline

        counts = np.histogram(self.null, 24)[0] if len(self.null) else np.zeros(1)
        shown = sparkline(counts, f"statistics of permutations, from {self.null.min():.3g} to {self.null.max():.3g}")
        header = ["divergence", "statistic", "p", "permuted statistics"]
        return html_table(header, [[self.divergence, *numbers_of(self.statistic, self.pvalue), shown]], str(self))


@dataclass(frozen=True, eq=False, repr=False)
class CoordinatesResult:
    """Answer of :func:`which_coordinates`; prints as a table.

    Attributes
    ----------
    names : tuple of str
        The coordinates.
    statistics : ndarray of shape (n_coordinates,)
        Observed statistic of each coordinate by itself.
    pvalues : ndarray of shape (n_coordinates,)
        Of each coordinate by itself.
    adjusted : ndarray of shape (n_coordinates,)
        Adjusted over all coordinates by step-down max-T.
    n_permutations, exhaustive, divergence, sizes, permuted
        As in :class:`TestResult`.

    Examples
    --------
    >>> from distembed.two_sample import which_coordinates
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + [0, 1.5, 0]
    >>> found = which_coordinates(x, y, n_permutations=199, random_state=0)
    >>> found.differ(), found.adjusted.shape
    (['x1'], (3,))
    """

    names: tuple[str, ...]
    statistics: Array
    pvalues: Array
    adjusted: Array
    n_permutations: int
    exhaustive: bool
    divergence: str
    sizes: tuple[int, int]
    permuted: str

    def differ(self, alpha: float = 0.05) -> list[str]:
        """Names of the coordinates with an adjusted p-value of at most ``alpha``."""
        alpha = check_number("differ", "alpha", alpha, low=0, high=1)
        return [name for name, p in zip(self.names, self.adjusted, strict=True) if p <= alpha]

    def to_frame(self) -> Any:
        """A pandas DataFrame of one row per coordinate: statistic, p and adjusted p."""
        columns = {"statistic": self.statistics, "p": self.pvalues, "adjusted_p": self.adjusted}
        return pandas_for("CoordinatesResult.to_frame").DataFrame(columns, index=list(self.names))

    def _cells(self) -> tuple[str, list[str], list[list[str]]]:
        order = np.lexsort((self.pvalues, self.adjusted))
        cells = [[self.names[i], *numbers_of(self.statistics[i], self.pvalues[i], self.adjusted[i])] for i in order]
        done = how_many(self.n_permutations, self.exhaustive, self.permuted)
        title = f"{self.divergence} by coordinate, {done} of {self.permuted}"
        return title, ["coordinate", "statistic", "p", "adjusted p"], cells

    def __repr__(self) -> str:
        return table_of_rows(*self._cells())

    def _repr_html_(self) -> str:
        return html_of_rows(*self._cells())


@dataclass(frozen=True, eq=False, repr=False)
class RegionsResult:
    """Answer of :func:`which_regions`, the regions that differ most first; prints as a table.

    Attributes
    ----------
    names : tuple of str
        The coordinates in which regions were made.
    low, high : ndarray of shape (n_regions, n_coordinates)
        Smallest and largest coordinates of the pooled points of a region.
    centre : ndarray of shape (n_regions, n_coordinates)
        Their mean. In two and more coordinates a region has the points nearest to it, in units of the deviations.
    share_x, share_y : ndarray of shape (n_regions,)
        Share of the points in a region, for groups the mean of the shares of their bags.
    z : ndarray of shape (n_regions,)
        share_x - share_y, divided by the deviation that permutations give it.
    adjusted : ndarray of shape (n_regions,)
        p-values of two-sided tests, adjusted over all regions by step-down max-T.
    n_permutations, exhaustive, sizes, permuted
        As in :class:`TestResult`.

    Examples
    --------
    >>> from distembed.two_sample import which_regions
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(size=(300, 1)), rng.uniform(size=(300, 1))
    >>> y[:60] = rng.uniform(0.4, 0.5, size=(60, 1))  # a fifth of the points of y crowd there
    >>> found = which_regions(x, y, n_cells=10, n_permutations=199, random_state=0)
    >>> found.low[0].round(2), found.high[0].round(2), bool(found.share_x[0] < found.share_y[0])
    (array([0.44]), array([0.49]), True)
    >>> found.differ()  # what is there is missing elsewhere
    [0, 1]
    """

    names: tuple[str, ...]
    low: Array
    high: Array
    centre: Array
    share_x: Array
    share_y: Array
    z: Array
    adjusted: Array
    n_permutations: int
    exhaustive: bool
    sizes: tuple[int, int]
    permuted: str

    def differ(self, alpha: float = 0.05) -> list[int]:
        """Rows of the regions with an adjusted p-value of at most ``alpha``."""
        alpha = check_number("differ", "alpha", alpha, low=0, high=1)
        return np.flatnonzero(self.adjusted <= alpha).tolist()

    def to_frame(self) -> Any:
        """A pandas DataFrame of one row per region: bounds and centre in each coordinate, shares, z and adjusted p."""
        columns: dict[str, Array] = {}
        for j, name in enumerate(self.names):
            columns |= {f"{name}_low": self.low[:, j], f"{name}_high": self.high[:, j]}
            columns[f"{name}_centre"] = self.centre[:, j]
        columns |= {"share_x": self.share_x, "share_y": self.share_y, "z": self.z, "adjusted_p": self.adjusted}
        return pandas_for("RegionsResult.to_frame").DataFrame(columns)

    def _cells(self) -> tuple[str, list[str], list[list[str]]]:
        cells = []
        for i in range(len(self.z)):
            box = [f"{a:.3g} .. {b:.3g}" for a, b in zip(self.low[i], self.high[i], strict=True)]
            cells.append([*box, *numbers_of(self.share_x[i], self.share_y[i], self.z[i], self.adjusted[i])])
        done = how_many(self.n_permutations, self.exhaustive, self.permuted)
        header = [*self.names, "share in x", "share in y", "z", "adjusted p"]
        return f"{len(self.z)} regions, {done} of {self.permuted}", header, cells

    def __repr__(self) -> str:
        return table_of_rows(*self._cells())

    def _repr_html_(self) -> str:
        return html_of_rows(*self._cells())


def numbers_of(*values: float) -> list[str]:
    """Numbers as three digits."""
    return [f"{value:.3g}" for value in values]


def table_of_rows(title: str, header: list[str], rows: list[list[str]]) -> str:
    """A table as lines of text, its first rows."""
    lines = [header, *rows[:_ROWS_SHOWN]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    text = [title] + ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join(text + ([f"... {len(rows) - _ROWS_SHOWN} more"] if len(rows) > _ROWS_SHOWN else []))


def html_of_rows(title: str, header: list[str], rows: list[list[str]]) -> str:
    """A table for notebooks, its first rows."""
    from ..compute.svg import html_table

    left = len(rows) - _ROWS_SHOWN
    return html_table(header, rows[:_ROWS_SHOWN], title, f"... {left} more" if left > 0 else "")
