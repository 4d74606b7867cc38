r"""How much of the differences between bags do factors explain? Analysis of variance on distances, by permutations.

From squared distances d² of N bags Gower's matrix is G = -½ J d² J, J = I - 11ᵀ/N: inner products of features around
their mean. A factor with columns X, given nuisance columns Z (constant, strata, covariates, other factors), explains

.. math:: SS_X = \mathrm{tr}(H_{X|Z} G), \qquad F = \frac{SS_X / q}{\mathrm{tr}((I - H_{XZ}) G) / (N - r)},
          \qquad R^2 = SS_X / \mathrm{tr}(G),

H being projections. Rows and columns of the residual matrix R = (I - H_Z) G (I - H_Z) change places (the permutation of
residuals of Freedman and Lane), inside strata where there are some. That is exact where Z has only strata, and
right in large samples otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, as_bags
from ..bags.estimators import by_id
from ..bags.flat import few
from ..compute.arrays import Array
from ..compute.checks import check_number, pandas_for
from ..kernels.comparisons import Comparison
from ..learners.covariates import CovariateEncoder, given_ids, read_table
from .answers import how_many, html_of_rows, numbers_of, p_value, table_of_rows
from .blocks import Shuffles, shuffles
from .permutations import Seed, check_permutations, in_order_of_contents, make_generator
from .point_statistics import name_of, refuse_categories, to_cube

_ROUNDING = 1e-11  # of the total: sums in another order
_RANK = 1e-9  # of the largest singular value: columns below it are combinations of others


@dataclass(frozen=True, eq=False, repr=False)
class FactorsResult:
    """Answer of :func:`factors_test`; prints as a table.

    Attributes
    ----------
    names : tuple of str
        The factors.
    degrees : ndarray of shape (n_factors,) of int
        Degrees of freedom of each, given all others.
    r2 : ndarray of shape (n_factors,)
        Share of the total sum of squares that each explains beyond all others.
    statistics, pvalues : ndarray of shape (n_factors,)
        Pseudo-F and its p-value.
    residual : float
        Share of the total sum of squares that nothing explains.
    n_permutations : int
        Permutations of each test.
    exhaustive : bool
        Whether these are all distinct permutations.
    divergence : str
        Name of the divergence.
    n_bags : int
        Bags, or units where bags of one unit were averaged.
    nulls : ndarray of shape (n_factors, n_permutations)
        Pseudo-F of the permutations.

    Examples
    --------
    >>> from distembed.two_sample import factors_test
    >>> rng = np.random.default_rng(0)
    >>> dose = np.repeat([0.0, 1.0, 2.0], 8)
    >>> bags = [rng.normal(shift, 1, size=30) for shift in dose]
    >>> found = factors_test(bags, {"dose": dose, "noise": rng.normal(size=24)}, random_state=0)
    >>> found.names, bool(found.r2[0] > 0.5), found.to_frame().shape
    (('dose', 'noise'), True, (3, 4))
    """

    names: tuple[str, ...]
    degrees: NDArray[np.int64]
    r2: Array
    statistics: Array
    pvalues: Array
    residual: float
    n_permutations: int
    exhaustive: bool
    divergence: str
    n_bags: int
    nulls: Array = field(repr=False)

    def to_frame(self) -> Any:
        """A pandas DataFrame of one row per factor, and one of the residual: degrees of freedom, R², F and p."""
        pandas = pandas_for("FactorsResult.to_frame")
        rest = [np.nan]
        columns = {
            "degrees": np.append(self.degrees.astype(float), rest),
            "r2": np.append(self.r2, self.residual),
            "F": np.append(self.statistics, rest),
            "p": np.append(self.pvalues, rest),
        }
        return pandas.DataFrame(columns, index=[*self.names, "residual"])

    def _cells(self) -> tuple[str, list[str], list[list[str]]]:
        rows = [
            [name, str(q), *numbers_of(r2, f, p)]
            for name, q, r2, f, p in zip(self.names, self.degrees, self.r2, self.statistics, self.pvalues, strict=True)
        ]
        done = how_many(self.n_permutations, self.exhaustive, "bags")
        title = f"{self.divergence} between {self.n_bags} bags, {done}; each factor given all others"
        return title, ["factor", "df", "R2", "F", "p"], [*rows, ["residual", "", *numbers_of(self.residual), "", ""]]

    def __repr__(self) -> str:
        return table_of_rows(*self._cells())

    def _repr_html_(self) -> str:
        return html_of_rows(*self._cells())


def factors_test(
    X: Any,
    factors: Any,
    divergence: Any = "mmd",
    *,
    covariates: Any = None,
    strata: Any = None,
    units: Any = None,
    exponent: float = 2.0,
    n_permutations: int = 999,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> FactorsResult:
    """What several factors explain of the differences between bags: PERMANOVA with any divergence.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags, at least three. Weights of points count.
    factors : table of n_bags rows, or array-like of shape (n_bags,)
        Columns of numbers are linear, text and truth values are groups. Each is tested given all others.
    divergence : str, embedding or callable, default="mmd"
        As in :func:`bags_test`. Points are scaled to the unit cube for ``"js"``, ``"hellinger"``, ``"tv"`` and
        ``"chi2"``.
    covariates : table of n_bags rows, optional
        What is adjusted for and not tested, such as age.
    strata : array-like of shape (n_bags,), optional
        Bags change places inside of a stratum alone (site, batch, sex), and differences between strata are removed. For
        repeated measures of a factor that varies within patients, the patients are the strata.
    units : array-like of shape (n_bags,), optional
        Bags of one unit, such as several samples of a patient, count as one: their features are averaged. Factors,
        covariates and strata must be the same for all bags of a unit.
    exponent : float, default=2.0
        In (0, 2]: d^exponent takes the place of d²; below 2 differences in spread count too.
    n_permutations : int, default=999
        Random permutations; all distinct ones where there is one factor of groups, no covariate, and few of them.
    random_state : int, RandomState or None, default=None
        Of the permutations.
    n_jobs : int or None, default=None
        Threads, as in :func:`bags_test`.

    Returns
    -------
    FactorsResult
        R², F and p of each factor; prints as a table.

    Notes
    -----
    *Exact* for one factor, with or without strata. With covariates or other factors residuals change places, which is
    right in large samples, and near its level in small ones.

    *R²* is that of a factor beyond the others: with correlated factors the shares do not add up. Noise of small bags is
    part of the total, so R² of many small bags is small even where a factor decides everything.

    *Cost.* One matrix of divergences of all N bags, and 2 q N² operations per permutation, for q columns of
    factors, strata and covariates. Memory: N² numbers, and N indices per permutation.

    References
    ----------
    Anderson (2001). A new method for non-parametric multivariate analysis of variance. Austral Ecology.

    McArdle and Anderson (2001). Fitting multivariate models to community data. Ecology.

    Examples
    --------
    Two sites differ in everything; the treatment moves half of the bags of each:

    >>> from distembed.two_sample import factors_test
    >>> rng = np.random.default_rng(0)
    >>> site, treated = np.repeat(["a", "b"], 12), np.tile([False, True], 12)
    >>> bags = [rng.normal(3 * (s == "b") + 0.4 * t, 1, size=60) for s, t in zip(site, treated)]
    >>> found = factors_test(bags, {"treated": treated}, strata=site, random_state=0)
    >>> bool(found.pvalues[0] < 0.02)
    True
    """
    owner = "factors_test"
    n_permutations = check_permutations(owner, n_permutations)
    exponent = check_number(owner, "exponent", exponent, low=0, high=2, inclusive="right")
    rng = make_generator(random_state)
    bags = as_bags(X)
    table = read_design(owner, bags, factors, covariates, strata, units)
    pool, order = in_order_of_contents(bags.drop_weightless().astype(np.float64).replace(ids=None), rng)
    gram = gram_of(owner, divergence, pool, exponent, n_jobs)
    design = table.rows(order)
    if design.units is not None:
        design, gram = design.average(owner, gram)
    return analyse(owner, design, gram, n_permutations, rng, name_of(divergence), n_jobs)


# --------------------------------------------------------------------------------------------------------------
# Designs
# --------------------------------------------------------------------------------------------------------------


class Design(NamedTuple):
    """Factors, covariates and blocks of bags, as numbers.

    Attributes
    ----------
    factors : dict of str to ndarray of shape (n_bags, n_columns)
        Columns of each factor.
    labels : ndarray of shape (n_bags,) of int, or None
        Codes of the groups where there is one factor of groups and no covariate.
    nuisance : ndarray of shape (n_bags, n_columns)
        Columns of covariates.
    strata : ndarray of shape (n_bags,) of int
        Codes; all zero without strata.
    units : ndarray of shape (n_bags,) of int, or None
    """

    factors: dict[str, Array]
    labels: NDArray[np.int64] | None
    nuisance: Array
    strata: NDArray[np.int64]
    units: NDArray[np.int64] | None

    def rows(self, order: Any) -> Design:
        """The design of bags in another order."""
        factors = {name: columns[order] for name, columns in self.factors.items()}
        labels = None if self.labels is None else self.labels[order]
        units = None if self.units is None else self.units[order]
        return Design(factors, labels, self.nuisance[order], self.strata[order], units)

    def average(self, owner: str, gram: Array) -> tuple[Design, Array]:
        """One row per unit, and the inner products of the mean features of units."""
        units = np.unique(self.units, return_inverse=True)[1]  # type: ignore[call-overload]
        first = np.unique(units, return_index=True)[1]
        whole = self.rows(first)
        everything = [*self.factors.items(), ("covariates", self.nuisance), ("strata", self.strata[:, None])]
        for name, columns in everything:
            if not np.array_equal(columns, columns[first][units]):
                raise ValueError(
                    f"{owner}(units=...): all bags of a unit must have one value of {name!r}, and some have several; "
                    "for what varies within units, pass them as strata"
                )
        means = np.zeros((len(first), len(units)))
        means[units, np.arange(len(units))] = 1
        means /= means.sum(axis=1, keepdims=True)
        return whole._replace(units=None), means @ gram @ means.T


def read_design(owner: str, bags: Bags, factors: Any, covariates: Any, strata: Any, units: Any) -> Design:
    """Columns of a design as numbers, in the order of the bags.

    Examples
    --------
    >>> design = read_design("example", as_bags([[0.0], [1.0], [2.0]]), ["a", "b", "a"], None, None, None)
    >>> design.factors["factor"].tolist(), design.labels.tolist()
    ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [1, 0, 1])
    """
    n = bags.n_bags
    if n < 3:
        raise ValueError(f"{owner}(X=...): must have at least 3 bags, got {n}; for two bags use bags_test")
    columns = encode_each(owner, "factors", factors, bags)
    nuisance = np.zeros((n, 0))
    if covariates is not None:
        nuisance = np.hstack(list(encode_each(owner, "covariates", covariates, bags).values()))
    labels = None
    if len(columns) == 1 and covariates is None:
        (only,) = columns.values()
        if only.shape[1] > 1 or len(np.unique(only)) <= 2:
            labels = np.unique(only, axis=0, return_inverse=True)[1].ravel()
    codes = np.zeros(n, np.int64) if strata is None else codes_of(owner, "strata", strata, bags)
    return Design(columns, labels, nuisance, codes, None if units is None else codes_of(owner, "units", units, bags))


def encode_each(owner: str, name: str, table: Any, bags: Bags) -> dict[str, Array]:
    """Columns of numbers, and of 0 and 1 for labels, of each column of a table; nothing may be missing."""
    one = not isinstance(table, Mapping) and not hasattr(table, "columns") and np.ndim(table) == 1
    if one:
        label = str(getattr(table, "name", None) or ("factor" if name == "factors" else "covariate"))
        table = {label: by_id(table, bags, name)}
    try:
        read = read_table(table, given_ids(bags), bags.n_bags)
    except ValueError as error:
        raise ValueError(f"{owner}({name}=...): {str(error).removeprefix('covariates: ')}") from None
    found = {}
    for key, column in read.items():
        if column.missing.any():
            raise ValueError(
                f"{owner}({name}=...): column {key!r} must have a value for every bag, and "
                f"{int(column.missing.sum())} are missing; leave out these bags"
            )
        values = column.values.astype(str) if column.labelled else column.values
        encoded = CovariateEncoder().fit({key: values}, None, n_bags=bags.n_bags)
        rows = encoded.transform({key: values}, None, n_bags=bags.n_bags)
        found[key] = rows[:, rows.any(axis=0)] if rows.any() else rows[:, :1]
    return found


def codes_of(owner: str, name: str, values: Any, bags: Bags) -> NDArray[np.int64]:
    """Codes of labels, one per bag."""
    given = np.asarray(by_id(values, bags, name))
    if given.shape != (bags.n_bags,):
        raise ValueError(
            f"{owner}({name}=...): must be of shape ({bags.n_bags},), one label per bag, got {given.shape}; pass a "
            "column"
        )
    missing = np.array([each is None or each != each for each in given.tolist()])
    if missing.any():
        i = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"{owner}({name}=...): every bag must have a label, and {few(bags.ids[i : i + 1])} has none; leave it out"
        )
    return np.unique(given.astype(str), return_inverse=True)[1].astype(np.int64)


# --------------------------------------------------------------------------------------------------------------
# Sums of squares
# --------------------------------------------------------------------------------------------------------------


def gram_of(owner: str, divergence: Any, bags: Bags, exponent: float, n_jobs: int | None) -> Array:
    """Gower's matrix of the divergences of bags."""
    refuse_categories(owner, divergence, bags)
    bags = to_cube(divergence, bags)
    compare = Comparison(divergence, bags, owner, n_jobs=n_jobs)
    d2 = compare.both_ways(compare.look_at(bags))
    if exponent != 2:
        d2 = np.maximum(d2, 0.0) ** (exponent / 2)
    return gower(d2)


def gower(d2: Array) -> Array:
    """Inner products around the mean, from squared distances.

    Examples
    --------
    >>> gower(np.array([[0.0, 4.0], [4.0, 0.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    half = -0.5 * d2
    return np.asarray(half - half.mean(axis=0) - half.mean(axis=1)[:, None] + half.mean())


def basis_of(columns: Array, scale: float | None = None) -> Array:
    """An orthonormal basis of columns, without those that are combinations of others."""
    if not columns.shape[1]:
        return columns
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, singular > _RANK * max(scale or singular[0], np.finfo(float).tiny)])


def partial(columns: Array, nuisance: Array) -> Array:
    """A basis of what columns have beyond those of a nuisance, which is orthonormal."""
    return basis_of(columns - nuisance @ (nuisance.T @ columns), float(np.linalg.norm(columns)) or 1.0)


def nuisance_of(design: Design, without: str | None = None) -> Array:
    """An orthonormal basis of strata, covariates and all factors but one."""
    strata = (design.strata[:, None] == np.unique(design.strata)).astype(float)
    others = [columns for name, columns in design.factors.items() if name != without]
    return basis_of(np.hstack([strata, design.nuisance, *others]))


def pseudo_f(gram: Array, tested: Array, nuisance: Array, drawn: Shuffles, n_jobs: int | None) -> Array:
    """F of the observed order and of all permutations of the residuals, ndarray of shape (n_permutations + 1,)."""
    n, q = tested.shape
    left = n - q - nuisance.shape[1]
    some = gram - nuisance @ (nuisance.T @ gram)
    residuals = some - (some @ nuisance) @ nuisance.T
    total = float(np.trace(residuals))
    both = np.hstack([tested, nuisance])

    def one_chunk(orders: NDArray[np.int32]) -> Array:
        moved = both[orders]  # (n_rows, n, columns): columns change places, and residuals stay
        images = np.einsum("ij,bjk->bik", residuals, moved, optimize=True)
        squares = np.einsum("bik,bik->bk", moved, images)
        explained = squares[:, :q].sum(axis=1)
        rest = total - squares.sum(axis=1)
        return np.asarray(explained / q / np.maximum(rest / left, np.finfo(float).tiny))

    return drawn.map(one_chunk, n_jobs)


def analyse(
    owner: str,
    design: Design,
    gram: Array,
    n_permutations: int,
    rng: np.random.Generator,
    name: str,
    n_jobs: int | None,
) -> FactorsResult:
    """Test each factor given all others."""
    total = float(np.trace(gram))
    n = len(gram)
    drawn = shuffles(design.labels, design.strata, n_permutations, rng)
    found = []
    for factor, columns in design.factors.items():
        nuisance = nuisance_of(design, factor)
        tested = partial(columns, nuisance)
        if not tested.shape[1]:
            raise ValueError(
                f"{owner}(factors=...): {factor!r} must vary beyond strata, covariates and the other factors, and it "
                "is constant or a combination of them; leave it out"
            )
        if n - tested.shape[1] - nuisance.shape[1] < 1:
            raise ValueError(
                f"{owner}: {n} bags must outnumber the {tested.shape[1] + nuisance.shape[1]} columns of factors, "
                "covariates and strata; leave some out"
            )
        values = pseudo_f(gram, tested, nuisance, drawn, n_jobs)
        share = float(np.einsum("ik,ij,jk->", tested, gram, tested)) / (total or 1.0)
        found.append((tested.shape[1], share, values))
    everything = nuisance_of(design)
    residual = 1 - float(np.einsum("ik,ij,jk->", everything, gram, everything)) / (total or 1.0)
    return FactorsResult(
        names=tuple(design.factors),
        degrees=np.array([q for q, _, _ in found]),
        r2=np.array([share for _, share, _ in found]),
        statistics=np.array([values[0] for _, _, values in found]),
        pvalues=np.array([p_value(values, _ROUNDING) for _, _, values in found]),
        residual=residual,
        n_permutations=drawn.n_permutations,
        exhaustive=drawn.exhaustive,
        divergence=name,
        n_bags=n,
        nulls=np.array([values[1:] for _, _, values in found]),
    )
